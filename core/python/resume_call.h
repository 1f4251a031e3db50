/* SPDX-License-Identifier: Apache-2.0
 * resume_call.h -- how a call goes on after the graph of a recording that broke off.
 */
#ifndef GM_PYTHON_RESUME_CALL_H
#define GM_PYTHON_RESUME_CALL_H

#include "core/python/code_cache.h"
#include "core/python/resume_code.h"

/* The rest of a call, not begun: `point`'s function with items first ... of args.  All owned; point NULL: there is none. */
typedef struct GmTail {
  GmResumePoint *point;
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
/* Appends the caches of the resume functions that it leads to. */
void gm_continuation_caches (const GmContinuation *c, GPtrArray *caches);

/* Goes on, for a call of a function with these globals, with `values` (stolen), the tuple that the entry's ending returned.  New reference; or NULL with an exception; or NULL with the rest
 * in *tail, to be run by gm_tail_run when nothing of this call is needed any more: a loop that breaks in each round does not pile up. */
PyObject *gm_continuation_run (GmEntry *e, PyObject *globals, PyObject *values, GmTail *tail);
/* Runs it to its end; leaves it empty.  New reference or NULL with an exception. */
PyObject *gm_tail_run (const GmConfig *config, GmTail *tail);

int gm_py_init_resume_call (void);

#endif
