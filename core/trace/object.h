/* SPDX-License-Identifier: Apache-2.0
 * object.h -- what instances of classes share between their files: lookups on the class,
 * attributes.
 */
#ifndef GM_TRACE_OBJECT_H
#define GM_TRACE_OBJECT_H

#include "core/trace/recorder.h"

/* How a class does an operation: not at all, by a function of Python, by one of C. */
typedef enum { GM_HOW_ABSENT, GM_HOW_PYTHON, GM_HOW_C, GM_HOW_OTHER } GmHow;
GmHow gm_object_how (GmRecorder *r, const GmTracker *t, const char *name, PyObject **found);

/* The attribute of the class, guarded; NULL if there is none. */
PyObject *gm_class_lookup (GmRecorder *r, PyTypeObject *type, PyObject *name);
PyObject *gm_class_lookup_text (GmRecorder *r, PyTypeObject *type, const char *name);
/* type's text for C's PyBaseObject_Type.tp_dict["__eq__"] and the like. */
PyObject *gm_object_default (const char *name);

/* True if objects of the type may say by `o.__class__` that they are of another class. */
bool gm_type_hides_class (GmRecorder *r, PyTypeObject *type);

const GmTracker *gm_object_getattr (GmRecorder *r, const GmTracker *t, PyObject *name);
void gm_object_setattr (GmRecorder *r, const GmTracker *t, PyObject *name, const GmTracker *value);
/* As object.__setattr__ does it, whatever the class overrides. */
void gm_object_store (GmRecorder *r, const GmTracker *t, PyObject *name, const GmTracker *value);
/* The same, of a value that a module's own __setattr__ stores and does nothing else about. */
void gm_object_assign (GmRecorder *r, const GmTracker *t, PyObject *name, const GmTracker *value);
/* As object.__getattribute__ does it; NULL: there is none. */
const GmTracker *gm_object_generic_get (GmRecorder *r, const GmTracker *t, PyObject *name);
/* What the instance itself has, stored or real; NULL: nothing, guarded. */
const GmTracker *gm_instance_get (GmRecorder *r, const GmTracker *t, PyObject *name);
/* The heap slots of an object or a function: its attributes, its instance dict. */
enum { GM_SLOT_ATTRIBUTES, GM_SLOT_INSTANCE_DICT, GM_N_OBJECT_SLOTS };
/* instance_dict.c: `t.__dict__`, a dict tracker with the object as its one item. */
const GmTracker *gm_instance_dict (GmRecorder *r, const GmTracker *t);
const GmTracker *gm_instance_dict_contents (GmRecorder *r, const GmTracker *dict);
const GmTracker *gm_instance_dict_get (GmRecorder *r, const GmTracker *dict, PyObject *name);
void gm_instance_dict_store (GmRecorder *r, const GmTracker *dict, const GmTracker *key,
                             const GmTracker *value); /* value NULL: delete */
bool gm_instance_dict_build (GmResidualBuilder *b, const GmTracker *dict);
/* `found`, a descriptor or a value in the dict of a class, read through `self` (NULL: the class).
 */
const GmTracker *gm_descriptor_get (GmRecorder *r, PyTypeObject *owner, PyTypeObject *type,
                                    PyObject *name, PyObject *found, const GmTracker *self);

/* The heap slots of a list, dict or set: what it contains, and the new object whose storage it is. */
enum { GM_SLOT_CONTENTS, GM_SLOT_OWNER, GM_N_STORAGE_SLOTS };
/* NULL: a container on its own. An iterator over the storage must leave with the object. */
const GmTracker *gm_storage_owner (GmRecorder *r, const GmTracker *storage);
/* The instance that a container is inside of, existing or new; NULL: it is on its own. */
const GmTracker *gm_storage_object (GmRecorder *r, const GmTracker *storage);
/* subclass.c: the storage of instances of list, dict, set, tuple subclasses. */
/* Storage for an existing object; NULL: its class has none; `known` false: one without a model. */
const GmTracker *gm_storage_wrap (GmRecorder *r, PyObject *real, const GmSource *source);
/* The builtin class that lays out instances of `type`: object, list, dict, BaseException ... */
PyTypeObject *gm_layout_of (PyTypeObject *type);
/* Empty storage for a new object of the type; NULL where none is needed or there is no model. */
/* A key that an instance of a dict subclass does not hold: __missing__, where defaultdict has its factory. */
const GmTracker *gm_object_missing (GmRecorder *r, const GmTracker *t, const GmTracker *key);
/* Do copy() and | of this subclass of dict give its own class, as an OrderedDict's do? */
bool gm_dict_class_is_kept (const GmTracker *t);
const GmTracker *gm_storage_new (GmRecorder *r, PyTypeObject *type, const GmCallArgs *args);
bool gm_storage_build (GmResidualBuilder *b, const GmTracker *t);

#endif
