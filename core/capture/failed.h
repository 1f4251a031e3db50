/* SPDX-License-Identifier: Apache-2.0
 * failed.h -- a region whose graph fails is run again, as plain Python.
 */
#ifndef GM_CAPTURE_FAILED_H
#define GM_CAPTURE_FAILED_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "core/base/thread.h"
#include "core/objects/call_notes.h"
#include "core/objects/call_state.h"
#include "core/tensor/tensor.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* Says how a call's frame is to be run. */
typedef enum {
  GM_CALL_DONE,  /* nothing is left to run: there is a result, an exception or a rest (GmTail) */
  GM_CALL_PLAIN, /* nothing has happened: the plain function, whose callees may be captured */
  /* Like PLAIN, after a graph that failed: nothing of the plain function is captured. */
  GM_CALL_AGAIN,
} GmCallKind;

/* The way in which the call of a target ended.  Zeroed: GM_CALL_DONE. */
typedef struct {
  GmCallKind kind;
  char *why;         /* of GM_CALL_AGAIN, owned: the error of the graph */
  GmCallNotes notes; /* of GM_CALL_AGAIN, owned */
} GmCallEnd;

/* The values of both counters when a graph begins. */
typedef struct {
  uint32_t program_calls, operations;
} GmFailedMark;

static inline GmFailedMark
gm_failed_mark (void)
{
  return (GmFailedMark){ gm_failed_program_calls, gm_failed_operations };
}

/* Handles the exception with which a graph ended; call it after the effects of the region are
 * undone. Where the region may run again, the exception is cleared and *end is GM_CALL_AGAIN; else
 * the exception is kept.  name: the function's; in_python: the back end is a Python callable;
 * notes: calls that the graph made, or NULL.  Always returns NULL. */
PyObject *gm_failed (PyObject *name, GmFailedMark mark, bool in_python, GmCallNotes *notes,
                     GmCallEnd *end);

/* Enclose the plain function's call for GM_CALL_AGAIN, inside of a scope of the hook (hook.h).
 * `result` (stolen, may be NULL) is the call's result, and is returned; NULL with an exception, if
 * the warning that the graph failed where plain Python did not is an error. */
void gm_failed_again_begin (GmCallEnd *end);
PyObject *gm_failed_again_end (GmCallEnd *end, PyObject *name, PyObject *result);

#endif
