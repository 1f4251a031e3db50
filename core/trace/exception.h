/* SPDX-License-Identifier: Apache-2.0
 * exception.h -- exceptions while recording: raised, handled, unwound.
 *
 * Raising sets the sticky break EXCEPTION_RAISED and notes the exception beside it, so handlers of
 * instructions stay straight-line: their operations after a raise do nothing. The loop then calls
 * gm_exception_unwind: if the user has a handler, the break is removed and the handler runs, else
 * the break remains and plain Python raises the exception. A break that is no exception is never
 * caught.
 */
#ifndef GM_TRACE_EXCEPTION_H
#define GM_TRACE_EXCEPTION_H

#include "core/trace/recorder.h"

/* -- Raising.  All return poison. ------------------------------------------ */
/* Raises the exception as `raise e` does: its context becomes the exception that is being
 * handled. */
const GmTracker *gm_raise (GmRecorder *r, const GmTracker *exception);
/* Raises the exception again without changing it, as RERAISE and a bare `raise` do. */
const GmTracker *gm_raise_again (GmRecorder *r, const GmTracker *exception);
/* Raises the AttributeError for an object of `type` that has no attribute `name`, or whose slot of
 * that name is empty. */
const GmTracker *gm_raise_no_attribute (GmRecorder *r, PyTypeObject *type, PyObject *name);
/* Raise a new exception of the builtin class `type` with one argument: a formatted text, or any
 * value. */
const GmTracker *gm_raise_new (GmRecorder *r, PyObject *type, const char *format, ...)
    G_GNUC_PRINTF (3, 4);
const GmTracker *gm_raise_value (GmRecorder *r, PyObject *type, const GmTracker *argument);
/* Raises in the region the pending Python exception, which C code that ran on constants has set,
 * and clears it. */
const GmTracker *gm_raise_pending (GmRecorder *r);

/* True if an exception of this type was just raised in the region; clears it, and the break with
 * it. */
bool gm_exception_caught (GmRecorder *r, PyObject *type);

/* -- Handling -------------------------------------------------------------- */
/* Continues at the user's handler that covers instruction `index` of the current frame, or the call
 * in one of its callers down to `until`, and pushes the pending exception. False: there is no such
 * handler. Only for the loop. */
bool gm_exception_unwind (GmRecorder *r, const GmFrame *until, uint32_t index);
/* Returns the exception that the current frame or the nearest of its callers is handling; NULL:
 * none is. */
const GmTracker *gm_exception_handled (GmRecorder *r);
/* Sets the exception that this frame handles (NULL: none); returns the previous one. */
const GmTracker *gm_exception_handle (GmRecorder *r, const GmTracker *exception);
/* True if a handler of the user's covers the current instruction, in the current frame or a caller:
 * it would see an exception that the graph raises when it runs. */
bool gm_exception_guarded (GmRecorder *r);

/* -- Exception objects, tracker_exception.c -------------------------------- */
/* Heap slots of the storage of an exception object. */
enum { GM_EXC_ARGS, GM_EXC_CONTEXT, GM_EXC_CAUSE, GM_EXC_FLAGS, GM_EXC_N };
enum { GM_EXC_RAISED = 1, GM_EXC_SUPPRESS = 2 };
const GmTracker *gm_exception_new (GmRecorder *r, PyTypeObject *type, const GmTracker *const *args,
                                   uint32_t n);
/* True if instances of the exception class can be made while recording: they hold no more state
 * than BaseException does. */
bool gm_exception_is_plain (PyTypeObject *type);
/* Returns the storage of an exception that was made in the region, else NULL. */
const GmTracker *gm_exception_storage (const GmTracker *t);
const GmTracker *gm_exception_text (GmRecorder *r, const GmTracker *t); /* returns str (t) */
const GmTracker *gm_exception_repr (GmRecorder *r, const GmTracker *t);
/* Returns the text of the exception for the message of a break: "ValueError: no such key". The
 * caller frees it. */
char *gm_exception_message (GmRecorder *r, const GmTracker *t);

/* -- Generators, tracker_generator.c --------------------------------------- */
/* Returns a new generator that runs in the current frame, which has executed its prologue. */
const GmTracker *gm_generator_new (GmRecorder *r);
void gm_generator_yield (GmRecorder *r, const GmTracker *value);
/* Returns the RuntimeError that a generator raises in place of the StopIteration `stop` that leaves
 * it. */
const GmTracker *gm_exception_from_stop (GmRecorder *r, const GmTracker *stop);
/* Resumes the generator t with `value` and returns the value that it yields. NULL: it has returned
 * r->stopped_value, or raised, or there was a break. */
const GmTracker *gm_generator_send (GmRecorder *r, const GmTracker *t, const GmTracker *value);
/* True if the generator has not ended, so that its frame holds its variables and *depth entries of
 * a stack. */
bool gm_generator_holds (GmRecorder *r, const GmTracker *t, uint32_t *depth);
/* Breaks if a generator is suspended in a block whose handler Python would run when the generator
 * is dropped. */
void gm_generators_finish (GmRecorder *r);

#endif
