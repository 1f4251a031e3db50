/* SPDX-License-Identifier: Apache-2.0
 * builtin.h -- what modules of C offer, by object: functions and the calls of builtin types.
 */
#ifndef GM_TRACE_BUILTIN_H
#define GM_TRACE_BUILTIN_H

#include "core/trace/recorder.h"

/* The call of a builtin class: int (x), list (xs), enumerate (xs) ...  NULL, without a break, if
 * there is no model of it. */
const GmTracker *gm_builtin_class_call (GmRecorder *r, PyTypeObject *type, const GmCallArgs *args);
/* Runs a C function on constants: its result, or a break.  NULL, without a break, if an argument is
 * no constant. */
const GmTracker *gm_builtin_fold (GmRecorder *r, PyObject *fn, const GmCallArgs *args);

/* tracker_class.c */
const GmTracker *gm_super_new (GmRecorder *r, PyTypeObject *type, const GmTracker *self);
bool gm_is_instance (GmRecorder *r, const GmTracker *t, const GmTracker *cls);
/* tracker_object.c, tracker_function.c */
const GmTracker *gm_object_new (GmRecorder *r, PyTypeObject *type);
const GmTracker *gm_class_value (GmRecorder *r, PyTypeObject *type, PyObject *name, PyObject *found,
                                 const GmTracker *self);
const GmTracker *gm_function_new (GmRecorder *r, PyObject *code, const GmTracker *closure,
                                  const GmTracker *defaults, const GmTracker *kwdefaults,
                                  const GmTracker *annotations);
const GmTracker *gm_function_cell (GmRecorder *r, const GmTracker *func, uint32_t i);
/* tracker_class.c: makes the object and says what __init__ is to run; NULL init: none. */
const GmTracker *gm_class_allocate (GmRecorder *r, const GmTracker *cls, const GmCallArgs *args,
                                    const GmTracker **init);
/* tracker_grad_mode.c */
const GmTracker *gm_grad_mode_class_call (GmRecorder *r, PyObject *cls, const GmCallArgs *args);
void gm_grad_mode_enter (GmRecorder *r, const GmTracker *t); /* pushes exit and value */

#endif
