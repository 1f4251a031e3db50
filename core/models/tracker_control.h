/* SPDX-License-Identifier: Apache-2.0
 * control.h -- the means by which a program controls the recorder: disabled functions, requested
 * breaks, code that runs while recording.
 */
#ifndef GM_MODELS_TRACKER_CONTROL_H
#define GM_MODELS_TRACKER_CONTROL_H

#include "core/trace/recorder.h"

typedef enum {
  GM_MARK_DISABLE,     /* a call of the function is a break; nothing inside is compiled */
  GM_MARK_DISABLE_ONE, /* the same, but compiled functions inside stay compiled */
  GM_MARK_CONSTANT,    /* the function is called while recording, and its result is a constant */
  GM_MARK_FORBID,      /* a call of the function is an error */
} GmMarkKind;

/* gramme._core.Marked: a function with a mark. A call by Python calls the function itself. */
typedef struct {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject *fn, *reason; /* owned; reason: a str */
  uint8_t kind;
  PyObject *dict, *weakrefs;
} GmMarked;

/* True if a graph break is an error now, in this thread: error_on_graph_break. */
extern GM_THREAD bool gm_break_raises_now;

/* Calls a builtin function that is in control.c's table or has a stand-in; NULL: fn is neither. */
const GmTracker *gm_control_call (GmRecorder *r, PyObject *fn, const GmCallArgs *args);
const GmTracker *gm_wrap_marked (GmRecorder *r, PyObject *real, const GmSource *source);

/* graph_break, is_compiling, comptime, substitute: for the module's table. */
extern PyMethodDef gm_control_functions[];
/* A type of the objects that comptime code gets. */
extern PyTypeObject gm_comptime_session_type, gm_comptime_value_type, gm_comptime_fact_type;
/* Adds a comparison of a number that is assumed to hold once the comptime code has ended. False
 * with an exception. */
bool gm_comptime_add_fact (PyObject *fact);
/* Takes the pending exception as the one that comptime code raised. */
void gm_comptime_failed (GmRecorder *r);

/* comptime.c: runs fn (context, *values) now.  False: it raised, r->raised is set. */
bool gm_comptime_run (GmRecorder *r, PyObject *fn, const GmTracker *const *values, uint32_t n);
/* Returns a value as an object for comptime code; new reference. */
PyObject *gm_comptime_value (PyObject *session, const GmTracker *t);
PyObject *gm_comptime_session (GmRecorder *r);

/* recording_probe.c: for tests of the recorder. */
PyObject *gm_py_probe (PyObject *module, PyObject *args);
const GmTracker *gm_probe_call (GmRecorder *r, const GmCallArgs *args);

#endif
