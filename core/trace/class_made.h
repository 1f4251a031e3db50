/* SPDX-License-Identifier: Apache-2.0
 * class_made.h -- classes that a class statement in the region made, and what stands for their
 * attributes in lookups.
 */
#ifndef GM_TRACE_CLASS_MADE_H
#define GM_TRACE_CLASS_MADE_H

#include "core/trace/recorder.h"

/* The tracker of a class made in the region; NULL: the class existed before. */
const GmTracker *gm_class_made (const GmRecorder *r, PyObject *type);
/* The tracker that `o` stands for in lookups; NULL: it stands for itself. */
const GmTracker *gm_stand_in (const GmRecorder *r, PyObject *o);
/* What lookups find for an attribute that was stored in the region; NULL after a break. */
PyObject *gm_stand_in_for (GmRecorder *r, const GmTracker *value);
/* The entry in the class's own dict, guarded, or what the region stored; NULL: none. */
PyObject *gm_class_own (GmRecorder *r, PyTypeObject *type, PyObject *name);
/* Whether a class of the MRO was made or written to in the region: lookups must ask the heap. */
bool gm_class_changed (GmRecorder *r, PyTypeObject *type);
/* As _PyType_Lookup, where a class of the MRO was made or written to in the region; guarded. */
PyObject *gm_class_lookup_made (GmRecorder *r, PyTypeObject *type, PyObject *name);
void gm_class_setattr (GmRecorder *r, const GmTracker *t, PyObject *name, const GmTracker *value);
/* __build_class__ (body, name, *bases); NULL, without a break, if it is not called so. */
const GmTracker *gm_class_statement (GmRecorder *r, const GmCallArgs *args);
bool gm_class_made_build (GmResidualBuilder *b, const GmTracker *t);
void gm_class_made_fill (GmResidualBuilder *b, const GmTracker *t);
/* LOAD_CONST of a class, or its making. */
void gm_residual_class (GmResidualBuilder *b, PyTypeObject *type);
void gm_classes_free (GmRecorder *r);

/* property, classmethod or staticmethod, called; NULL, without a break: another class. */
const GmTracker *gm_descriptor_new (GmRecorder *r, PyTypeObject *type, const GmCallArgs *args);
/* A real one, made of what stands for the functions; new reference or NULL. */
PyObject *gm_descriptor_stand_in (GmRecorder *r, const GmTracker *t);

#endif
