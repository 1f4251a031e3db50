/* SPDX-License-Identifier: Apache-2.0
 * class_made.h -- classes that a class statement in the region has made, and the real objects that
 * represent their attributes in lookups.
 */
#ifndef GM_TRACE_CLASS_MADE_H
#define GM_TRACE_CLASS_MADE_H

#include "core/trace/recorder.h"

/* Returns the tracker of a class made in the region; NULL: the class existed before. */
const GmTracker *gm_class_made (const GmRecorder *r, PyObject *type);
/* Returns the tracker that the real object `o`, found by a lookup on a class, represents: the
 * tracker of a class made in the region, or of a value for which gm_stand_in_for made `o`. NULL:
 * `o` represents itself. */
const GmTracker *gm_stand_in (const GmRecorder *r, PyObject *o);
/* Returns the real object that represents `value` in lookups on a class, because the region has
 * stored the value as a class attribute: a constant's own object, or a new object of a similar
 * type. Borrowed from the recorder; NULL after a break. */
PyObject *gm_stand_in_for (GmRecorder *r, const GmTracker *value);
/* Returns the entry of `name` in the class's own dict, or the value that the region has stored
 * there, as gm_stand_in_for represents it. Borrowed; NULL: none. The entry or its absence is
 * guarded. */
PyObject *gm_class_own (GmRecorder *r, PyTypeObject *type, PyObject *name);
/* True if a class of the MRO was made or written to in the region: lookups must read the heap. */
bool gm_class_changed (GmRecorder *r, PyTypeObject *type);
/* Returns the result of a lookup along the MRO, as _PyType_Lookup does, where gm_class_changed is
 * true: stores of the region count. Borrowed, guarded; NULL: none. */
PyObject *gm_class_lookup_made (GmRecorder *r, PyTypeObject *type, PyObject *name);
void gm_class_setattr (GmRecorder *r, const GmTracker *t, PyObject *name, const GmTracker *value);
/* Records a class statement, __build_class__ (body, name, *bases), and returns the new class. NULL,
 * without a break: the arguments have another form. */
const GmTracker *gm_class_statement (GmRecorder *r, const GmCallArgs *args);
bool gm_class_made_build (GmResidualBuilder *b, const GmTracker *t);
void gm_class_made_fill (GmResidualBuilder *b, const GmTracker *t);
/* Emits a load of an existing class as a constant, or the instructions that make a class of the
 * region. */
void gm_residual_class (GmResidualBuilder *b, PyTypeObject *type);
void gm_classes_free (GmRecorder *r);

/* Returns a new property, classmethod or staticmethod; NULL, without a break: `type` is another
 * class. */
const GmTracker *gm_descriptor_new (GmRecorder *r, PyTypeObject *type, const GmCallArgs *args);
/* Returns a real property, classmethod or staticmethod, made of the objects that represent the
 * functions of the descriptor t (gm_stand_in_for). New reference, or NULL. */
PyObject *gm_descriptor_stand_in (GmRecorder *r, const GmTracker *t);

#endif
