/* SPDX-License-Identifier: Apache-2.0
 * failed.h -- a region whose graph fails is run again, as plain Python: failed.c.
 */
#ifndef GM_PYTHON_FAILED_H
#define GM_PYTHON_FAILED_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "core/base/thread.h"

#include <stdbool.h>
#include <stdint.h>

/* Who is to run a call's frame. */
typedef enum {
  GM_CALL_DONE,  /* nothing is left to be run: there is a result, an exception or a rest (GmTail) */
  GM_CALL_PLAIN, /* nothing has happened: the plain function, whose callees may be captured */
  GM_CALL_AGAIN, /* the same after a graph that failed: the plain function, nothing of it captured */
} GmCallKind;

/* How the call of a target ended.  Zeroed, it says GM_CALL_DONE. */
typedef struct {
  GmCallKind kind;
  char *why; /* of GM_CALL_AGAIN, owned: what the graph failed with */
} GmCallEnd;

/* Counted up by each call of a function of the program's that a graph, or what follows it, makes: such a function is not called
 * twice. */
extern GM_THREAD uint32_t gm_failed_program_calls;
/* Counted up by each error of an operation that becomes an exception. */
extern GM_THREAD uint32_t gm_failed_operations;

/* Both counters when a graph begins. */
typedef struct {
  uint32_t program_calls, operations;
} GmFailedMark;

static inline GmFailedMark
gm_failed_mark (void)
{
  return (GmFailedMark){ gm_failed_program_calls, gm_failed_operations };
}

/* To be called with the exception that a graph ended with, once what the region had done is undone.  Where the region may run
 * again, the exception is cleared and *end says GM_CALL_AGAIN; else the exception stays.  name: the function's; in_python: the back
 * end is a Python callable.  Always NULL. */
PyObject *gm_failed (PyObject *name, GmFailedMark mark, bool in_python, GmCallEnd *end);

/* Around the plain function's call for GM_CALL_AGAIN.  `result` (taken, may be NULL) is what the call gave.  Result: the same; NULL
 * with an exception, if the warning that the graph failed where plain Python did not is an error. */
PyObject *gm_failed_again (GmCallEnd *end, PyObject *name, PyObject *result);

#endif
