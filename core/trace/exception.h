/* SPDX-License-Identifier: Apache-2.0
 * exception.h -- exceptions while recording: raised, handled, unwound.
 *
 * Raising sets the sticky break EXCEPTION_RAISED and notes the exception beside it, so handlers of
 * instructions stay straight-line: whatever they do after a raise does nothing.  The loop then asks
 * gm_exception_unwind for a handler of the user's; if there is one the break is taken back, else it
 * stands and plain Python raises the exception.  A break that is no exception is never caught.
 */
#ifndef GM_TRACE_EXCEPTION_H
#define GM_TRACE_EXCEPTION_H

#include "core/trace/recorder.h"

/* -- Raising.  All return poison. ------------------------------------------ */
/* Raises as `raise e` does: the context is the exception that is being handled. */
const GmTracker *gm_raise (GmRecorder *r, const GmTracker *exception);
/* Raises the exception again, unchanged: RERAISE, a bare `raise`. */
const GmTracker *gm_raise_again (GmRecorder *r, const GmTracker *exception);
/* Raises the AttributeError of an object of the type: no such attribute, or its slot is empty. */
const GmTracker *gm_raise_no_attribute (GmRecorder *r, PyTypeObject *type, PyObject *name);
/* Raise a new exception of a builtin type with one argument: a text, or any value. */
const GmTracker *gm_raise_new (GmRecorder *r, PyObject *type, const char *format, ...)
    G_GNUC_PRINTF (3, 4);
const GmTracker *gm_raise_value (GmRecorder *r, PyObject *type, const GmTracker *argument);
/* Raises the pending Python exception of C code that ran on constants, and clears it. */
const GmTracker *gm_raise_pending (GmRecorder *r);

/* True if an exception of this type was just raised, which is then cleared. */
bool gm_exception_caught (GmRecorder *r, PyObject *type);

/* -- Handling -------------------------------------------------------------- */
/* Called once, by the loop: goes to the handler of the user's that covers instruction `index` of
 * the current frame, or one of its callers down to `until`.  False: there is none. */
bool gm_exception_unwind (GmRecorder *r, const GmFrame *until, uint32_t index);
/* Returns the exception being handled in the current frame or its callers, or NULL. */
const GmTracker *gm_exception_handled (GmRecorder *r);
/* Sets the exception that this frame handles (NULL: none); returns the previous one. */
const GmTracker *gm_exception_handle (GmRecorder *r, const GmTracker *exception);
/* True where a handler of the user's would see an exception that the graph raises when it runs. */
bool gm_exception_guarded (GmRecorder *r);

/* -- Exception objects, tracker_exception.c -------------------------------- */
/* The state of an exception object: heap slots of its storage. */
enum { GM_EXC_ARGS, GM_EXC_CONTEXT, GM_EXC_CAUSE, GM_EXC_FLAGS, GM_EXC_N };
enum { GM_EXC_RAISED = 1, GM_EXC_SUPPRESS = 2 };
const GmTracker *gm_exception_new (GmRecorder *r, PyTypeObject *type, const GmTracker *const *args,
                                   uint32_t n);
/* True if instances of the type can be made while recording: its layout is BaseException's. */
bool gm_exception_is_plain (PyTypeObject *type);
/* Returns the storage of an exception that was made in the region, else NULL. */
const GmTracker *gm_exception_storage (const GmTracker *t);
const GmTracker *gm_exception_text (GmRecorder *r, const GmTracker *t); /* str () */
const GmTracker *gm_exception_repr (GmRecorder *r, const GmTracker *t);
/* Returns the message of a break: "ValueError: no such key". Caller frees. */
char *gm_exception_message (GmRecorder *r, const GmTracker *t);

/* -- Generators, tracker_generator.c --------------------------------------- */
/* Returns the generator of the current frame, which has run its prologue. */
const GmTracker *gm_generator_new (GmRecorder *r);
void gm_generator_yield (GmRecorder *r, const GmTracker *value);
/* Returns the exception that a generator raises instead of a StopIteration that leaves it. */
const GmTracker *gm_exception_from_stop (GmRecorder *r, const GmTracker *stop);
/* Sends a value and returns the value yielded; NULL: the generator returned r->stopped_value, or
 * raised, or a break. */
const GmTracker *gm_generator_send (GmRecorder *r, const GmTracker *t, const GmTracker *value);
/* True if the generator has not ended: its frame holds its variables, and *depth entries of a
 * stack. */
bool gm_generator_holds (GmRecorder *r, const GmTracker *t, uint32_t *depth);
/* Breaks if a generator was left in a block whose end Python would run. */
void gm_generators_finish (GmRecorder *r);

#endif
