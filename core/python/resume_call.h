/* SPDX-License-Identifier: Apache-2.0
 * resume_call.h -- how a call goes on after the graph of a recording that broke off.
 */
#ifndef GM_PYTHON_RESUME_CALL_H
#define GM_PYTHON_RESUME_CALL_H

#include "core/python/code_cache.h"
#include "core/python/resume_code.h"

/* The rest of a call, not begun.  Either `point`'s function with items first ... of args, or what `entry` does after its graph, with args, the
 * tuple that its ending returned.  All owned; both NULL: there is none. */
typedef struct GmTail {
  GmResumePoint *point;
  GmEntry *entry;
  PyObject *globals, *closure, *args;
  uint32_t first;
  bool plain; /* not compiled */
} GmTail;

/* What an entry does after its graph.  Owned by the entry, immutable. */
typedef struct GmContinuation GmContinuation;
/* globals: of the function that is compiled.  NULL: the frames cannot be taken up, with *why (static text), or with a Python exception and *why NULL. */
GmContinuation *gm_continuation_new (const GmBreakPoint *point, PyObject *globals, const char **why);
void gm_continuation_free (GmContinuation *c); /* NULL is fine */
int gm_continuation_traverse (const GmContinuation *c, visitproc visit, void *arg);
/* The caches of the resume functions that it leads to. */
void gm_continuation_caches (const GmContinuation *c, GmCacheWalk *walk);

/* To go on, for a call of a function with these globals, with `values` (stolen) when nothing of this call is needed any more: a loop that
 * breaks in each round does not pile up, and no object that the rest of the function drops is kept alive.  Without memory, an exception is set
 * and *tail is left empty. */
void gm_tail_continue (GmTail *tail, GmEntry *e, PyObject *globals, PyObject *values);
static inline bool
gm_tail_pending (const GmTail *tail)
{
  return tail->point || tail->entry;
}
/* Runs it to its end; leaves it empty.  New reference or NULL with an exception. */
PyObject *gm_tail_run (const GmConfig *config, GmTail *tail);

int gm_py_init_resume_call (void);

#endif
