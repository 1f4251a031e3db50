/* SPDX-License-Identifier: Apache-2.0
 * class_made.h -- classes that a class statement in the region made, and what stands for their
 * attributes in lookups.
 */
#ifndef GM_TRACE_CLASS_MADE_H
#define GM_TRACE_CLASS_MADE_H

#include "core/trace/recorder.h"

/* Returns the tracker of a class made in the region; NULL: the class existed before. */
const GmTracker *gm_class_made (const GmRecorder *r, PyObject *type);
/* Returns the tracker that `o` stands for in lookups; NULL: it stands for itself. */
const GmTracker *gm_stand_in (const GmRecorder *r, PyObject *o);
/* Returns the object that lookups find for an attribute that was stored in the region; borrowed,
 * NULL after a break. */
PyObject *gm_stand_in_for (GmRecorder *r, const GmTracker *value);
/* Returns the entry in the class's own dict, guarded, or the one that the region stored; NULL:
 * none. */
PyObject *gm_class_own (GmRecorder *r, PyTypeObject *type, PyObject *name);
/* True if a class of the MRO was made or written to in the region: lookups must read the heap. */
bool gm_class_changed (GmRecorder *r, PyTypeObject *type);
/* Looks up as _PyType_Lookup does, if a class of the MRO was made or written to in the region;
 * guarded. */
PyObject *gm_class_lookup_made (GmRecorder *r, PyTypeObject *type, PyObject *name);
void gm_class_setattr (GmRecorder *r, const GmTracker *t, PyObject *name, const GmTracker *value);
/* Returns __build_class__ (body, name, *bases); NULL, without a break, if the arguments are
 * others. */
const GmTracker *gm_class_statement (GmRecorder *r, const GmCallArgs *args);
bool gm_class_made_build (GmResidualBuilder *b, const GmTracker *t);
void gm_class_made_fill (GmResidualBuilder *b, const GmTracker *t);
/* Emits LOAD_CONST of a class, or the instructions that make it. */
void gm_residual_class (GmResidualBuilder *b, PyTypeObject *type);
void gm_classes_free (GmRecorder *r);

/* Returns a new property, classmethod or staticmethod; NULL, without a break: another class. */
const GmTracker *gm_descriptor_new (GmRecorder *r, PyTypeObject *type, const GmCallArgs *args);
/* Returns a real descriptor of the objects that stand for its functions; new reference or NULL. */
PyObject *gm_descriptor_stand_in (GmRecorder *r, const GmTracker *t);

#endif
