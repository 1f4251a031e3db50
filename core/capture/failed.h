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

/* Says how the caller has to go on with a call's frame. */
typedef enum {
  GM_CALL_DONE,  /* the frame need not run: there is a result, an exception or a rest (GmTail) */
  GM_CALL_PLAIN, /* the plain function has to run; functions that it calls may be captured */
  /* Like GM_CALL_PLAIN, after a graph that failed: functions that the plain function calls are
   * not captured. */
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

/* Handles the exception with which a graph ended; the caller has undone the effects of the
 * region before.  Where the region may run again, clears the exception and sets *end to
 * GM_CALL_AGAIN; else keeps the exception.  name: the function's; mark: taken before the graph ran;
 * in_python: true if the back end is a Python callable; notes: calls that the graph made, or NULL.
 * Always returns NULL. */
PyObject *gm_failed (PyObject *name, GmFailedMark mark, bool in_python, GmCallNotes *notes,
                     GmCallEnd *end);

/* Enclose the call of the plain function after GM_CALL_AGAIN, inside of a scope of the hook
 * (hook.h).  gm_failed_again_end returns `result`, which is the call's result (stolen, may be
 * NULL); NULL with an exception if the program turned into an error the warning that the graph
 * failed where plain Python did not. */
void gm_failed_again_begin (GmCallEnd *end);
PyObject *gm_failed_again_end (GmCallEnd *end, PyObject *name, PyObject *result);

#endif
