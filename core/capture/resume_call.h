/* SPDX-License-Identifier: Apache-2.0
 * resume_call.h -- continues a call after the graph of a recording that broke off.
 */
#ifndef GM_CAPTURE_RESUME_CALL_H
#define GM_CAPTURE_RESUME_CALL_H

#include "core/capture/code_cache.h"
#include "core/capture/resume_code.h"

/* Rest of a call, not yet begun: either the function of `point`, with the items of args from
 * `first` on, or the continuation of `entry` after its graph, with args, the tuple that the entry's
 * ending returned.  All members are owned; point and entry NULL: there is no rest. */
typedef struct GmTail {
  GmResumePoint *point;
  GmEntry *entry;
  PyObject *globals, *closure, *args;
  uint32_t first;
  bool plain; /* run without compiling */
} GmTail;

/* Work of an entry after its graph and ending, for the frames of a recording that broke off.
 * Owned by the entry, immutable. */
typedef struct GmContinuation GmContinuation;
/* Makes a continuation for the frames at a break.  globals: of the function that is compiled.
 * NULL: the frames cannot be resumed, with *why (static text), or with a Python exception and *why
 * NULL. */
GmContinuation *gm_continuation_new (const GmBreakPoint *point, PyObject *globals,
                                     const char **why);
void gm_continuation_free (GmContinuation *c); /* NULL is fine */
int gm_continuation_traverse (const GmContinuation *c, visitproc visit, void *arg);
/* Adds to the walk the caches of the resume functions that the continuation leads to. */
void gm_continuation_caches (const GmContinuation *c, GmCacheWalk *walk);

/* Sets *tail to the continuation of entry e for a function with these globals; steals `values`,
 * the tuple that the ending returned.  The caller runs the tail when it needs nothing of the call
 * any more: so a loop that breaks in each round does not grow the stack, and no object that the
 * rest of the function drops is kept alive.  Without memory, an exception is set and *tail is left
 * empty. */
void gm_tail_continue (GmTail *tail, GmEntry *e, PyObject *globals, PyObject *values);
static inline bool
gm_tail_pending (const GmTail *tail)
{
  return tail->point || tail->entry;
}
/* Runs the rest of a call, and the rests that this leads to, and leaves *tail empty.  Returns a
 * new reference to the call's value, or NULL with an exception. */
PyObject *gm_tail_run (const GmConfig *config, GmTail *tail);

int gm_py_init_resume_call (void);

#endif
