/* SPDX-License-Identifier: Apache-2.0
 * instance.h -- declarations shared by the files about instances of classes: lookups on the class,
 * attributes.
 */
#ifndef GM_TRACE_INSTANCE_H
#define GM_TRACE_INSTANCE_H

#include "core/trace/recorder.h"

/* How a class implements an operation: not at all, by a Python function, by a C function,
 * otherwise. */
typedef enum { GM_HOW_ABSENT, GM_HOW_PYTHON, GM_HOW_C, GM_HOW_OTHER } GmHow;
GmHow gm_object_how (GmRecorder *r, const GmTracker *t, const char *name, PyObject **found);

/* Returns the attribute that a lookup on the class finds, guarded, borrowed; NULL if there is
 * none. */
PyObject *gm_class_lookup (GmRecorder *r, PyTypeObject *type, PyObject *name);
PyObject *gm_class_lookup_text (GmRecorder *r, PyTypeObject *type, const char *name);
/* Returns the entry of C's PyBaseObject_Type.tp_dict: "__eq__" and the like. Borrowed. */
PyObject *gm_object_default (const char *name);

/* True if `o.__class__` of an object of the type may be another class. */
bool gm_type_hides_class (GmRecorder *r, PyTypeObject *type);

const GmTracker *gm_object_getattr (GmRecorder *r, const GmTracker *t, PyObject *name);
void gm_object_setattr (GmRecorder *r, const GmTracker *t, PyObject *name, const GmTracker *value);
/* Sets an attribute as object.__setattr__ does, ignoring overrides of the class. */
void gm_object_store (GmRecorder *r, const GmTracker *t, PyObject *name, const GmTracker *value);
/* The same for a value that nn.Module's own __setattr__ stores without any other action. */
void gm_object_assign (GmRecorder *r, const GmTracker *t, PyObject *name, const GmTracker *value);
/* Returns an attribute as object.__getattribute__ does; NULL: there is none. */
const GmTracker *gm_object_generic_get (GmRecorder *r, const GmTracker *t, PyObject *name);
/* Returns the instance's own attribute, stored in the region or real; NULL: there is none, which is
 * guarded. */
const GmTracker *gm_instance_get (GmRecorder *r, const GmTracker *t, PyObject *name);
/* Returns the slot of __slots__ of that name that the object's class has; NULL: there is none. */
const struct PyMemberDef *gm_slot_of (PyObject *object, PyObject *name);
/* The heap slots of an object or a function: its attributes, its instance dict. */
enum { GM_SLOT_ATTRIBUTES, GM_SLOT_INSTANCE_DICT, GM_N_OBJECT_SLOTS };
/* instance_dict.c: returns `t.__dict__`, a dict tracker with the object as its one item. */
const GmTracker *gm_instance_dict (GmRecorder *r, const GmTracker *t);
const GmTracker *gm_instance_dict_contents (GmRecorder *r, const GmTracker *dict);
const GmTracker *gm_instance_dict_get (GmRecorder *r, const GmTracker *dict, PyObject *name);
void gm_instance_dict_store (GmRecorder *r, const GmTracker *dict, const GmTracker *key,
                             const GmTracker *value); /* value NULL: delete */
bool gm_instance_dict_build (GmResidualBuilder *b, const GmTracker *dict);
/* Returns the value of `found`, a descriptor or a value in the dict of a class, read through `self`
 * (NULL: the class). */
const GmTracker *gm_descriptor_get (GmRecorder *r, PyTypeObject *owner, PyTypeObject *type,
                                    PyObject *name, PyObject *found, const GmTracker *self);

/* The heap slots of a list, dict or set: its contents, and the new object whose storage it is. */
enum { GM_SLOT_CONTENTS, GM_SLOT_OWNER, GM_N_STORAGE_SLOTS };
/* Returns the new object whose storage the container is; NULL: there is none. An iterator over the
 * storage must leave the region with the object. */
const GmTracker *gm_storage_owner (GmRecorder *r, const GmTracker *storage);
/* Returns the instance, existing or new, that the container is inside of; NULL: there is none. */
const GmTracker *gm_storage_object (GmRecorder *r, const GmTracker *storage);
/* subclass.c: the storage of instances of list, dict, set, tuple subclasses. */
/* Returns storage for an existing object; NULL: its class has none. */
const GmTracker *gm_storage_wrap (GmRecorder *r, PyObject *real, const GmSource *source);
/* Returns the builtin class that lays out instances of `type`: object, list, dict, BaseException
 * ... */
PyTypeObject *gm_layout_of (PyTypeObject *type);
/* gm_storage_new returns empty storage for a new object of the type; NULL if the type needs none or
 * has no model. */
/* Looks up a key that an instance of a dict subclass does not hold: calls __missing__, or
 * defaultdict's factory. */
const GmTracker *gm_object_missing (GmRecorder *r, const GmTracker *t, const GmTracker *key);
/* True if copy () and | of this subclass of dict return its own class, as an OrderedDict's do. */
bool gm_dict_class_is_kept (const GmTracker *t);
const GmTracker *gm_storage_new (GmRecorder *r, PyTypeObject *type, const GmCallArgs *args);
bool gm_storage_build (GmResidualBuilder *b, const GmTracker *t);

#endif
