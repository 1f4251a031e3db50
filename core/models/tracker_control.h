/* SPDX-License-Identifier: Apache-2.0
 * control.h -- the means by which a program controls the recorder: disabled functions, requested
 * breaks, code that runs while recording.
 */
#ifndef GM_MODELS_TRACKER_CONTROL_H
#define GM_MODELS_TRACKER_CONTROL_H

#include "core/trace/recorder.h"

typedef enum {
  GM_MARK_DISABLE,     /* a call of the function is a break; nothing inside is compiled */
  GM_MARK_DISABLE_ONE, /* like DISABLE, but compiled functions called inside stay compiled */
  GM_MARK_CONSTANT,    /* the function is called while recording, and its result is a constant */
  GM_MARK_FORBID,      /* a call of the function is an error */
} GmMarkKind;

/* An object of gramme._core.Marked: a function with a mark for the recorder.  A call by Python
 * calls the function itself. */
typedef struct {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject *fn, *reason; /* owned; reason: a str */
  uint8_t kind;
  PyObject *dict, *weakrefs;
} GmMarked;

/* True while a graph break is an error in this thread, which error_on_graph_break sets. */
extern GM_THREAD bool gm_break_raises_now;

/* Calls a builtin function that has a meaning for the recorder (tracker_control.c), or that has
 * a stand-in in Python; NULL, without a break: fn is neither. */
const GmTracker *gm_control_call (GmRecorder *r, PyObject *fn, const GmCallArgs *args);
const GmTracker *gm_wrap_marked (GmRecorder *r, PyObject *real, const GmSource *source);

/* Methods of the module: graph_break, is_compiling, comptime, substitute. */
extern PyMethodDef gm_control_functions[];
/* Types of the objects that comptime code gets. */
extern PyTypeObject gm_comptime_session_type, gm_comptime_value_type, gm_comptime_fact_type;
/* Notes a comparison of a number that is assumed to hold once the comptime code has ended.
 * False with an exception. */
bool gm_comptime_add_fact (PyObject *fact);
/* Moves the pending exception to the recorder, as the exception that comptime code raised. */
void gm_comptime_failed (GmRecorder *r);

/* Runs fn (context, *values) now, as comptime code (comptime.c).  False: it raised, and
 * r->raised is set. */
bool gm_comptime_run (GmRecorder *r, PyObject *fn, const GmTracker *const *values, uint32_t n);
/* Returns the value t as an object for comptime code; new reference, NULL with an exception. */
PyObject *gm_comptime_value (PyObject *session, const GmTracker *t);
PyObject *gm_comptime_session (GmRecorder *r);

/* Implements gramme._core.probe, for tests of the recorder (recording_probe.c). */
PyObject *gm_py_probe (PyObject *module, PyObject *args);
const GmTracker *gm_probe_call (GmRecorder *r, const GmCallArgs *args);

#endif
