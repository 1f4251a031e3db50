/* SPDX-License-Identifier: Apache-2.0
 * instance.h -- declarations shared by the files about instances of classes: lookups on the class,
 * attributes.
 */
#ifndef GM_TRACE_INSTANCE_H
#define GM_TRACE_INSTANCE_H

#include "core/trace/recorder.h"

/* The way in which a class implements an operation: not at all, by a Python function, by a C
 * function, otherwise. */
typedef enum { GM_HOW_ABSENT, GM_HOW_PYTHON, GM_HOW_C, GM_HOW_OTHER } GmHow;
GmHow gm_object_how (GmRecorder *r, const GmTracker *t, const char *name, PyObject **found);

/* Returns the attribute that a lookup along the MRO of `type` finds; borrowed, NULL: none. The
 * result is guarded. */
PyObject *gm_class_lookup (GmRecorder *r, PyTypeObject *type, PyObject *name);
PyObject *gm_class_lookup_text (GmRecorder *r, PyTypeObject *type, const char *name);
/* Returns the attribute `name` ("__eq__" ...) of the class `object` itself. Borrowed. */
PyObject *gm_object_default (const char *name);

/* True if `o.__class__` of an object `o` of the type may be another class than `type`. */
bool gm_type_hides_class (GmRecorder *r, PyTypeObject *type);

const GmTracker *gm_object_getattr (GmRecorder *r, const GmTracker *t, PyObject *name);
void gm_object_setattr (GmRecorder *r, const GmTracker *t, PyObject *name, const GmTracker *value);
/* Sets an attribute as object.__setattr__ does, ignoring overrides of the class. */
void gm_object_store (GmRecorder *r, const GmTracker *t, PyObject *name, const GmTracker *value);
/* Sets an attribute as gm_object_store does, for a store after which nn.Module's own __setattr__
 * does nothing more; the replay may then call that __setattr__. */
void gm_object_assign (GmRecorder *r, const GmTracker *t, PyObject *name, const GmTracker *value);
/* Returns the attribute that object.__getattribute__ finds; NULL: there is none. */
const GmTracker *gm_object_generic_get (GmRecorder *r, const GmTracker *t, PyObject *name);
/* Returns the value of `name` in the instance's own dict, real or stored in the region; NULL: there
 * is none, which is guarded. */
const GmTracker *gm_instance_get (GmRecorder *r, const GmTracker *t, PyObject *name);
/* Returns the member descriptor for the entry `name` of __slots__ of the object's class; NULL:
 * there is none. */
const struct PyMemberDef *gm_slot_of (PyObject *object, PyObject *name);
/* The heap slots of an object or a function: its attributes, its instance dict. */
enum { GM_SLOT_ATTRIBUTES, GM_SLOT_INSTANCE_DICT, GM_N_OBJECT_SLOTS };
/* instance_dict.c: returns `t.__dict__`, a dict tracker whose one item is the object. */
const GmTracker *gm_instance_dict (GmRecorder *r, const GmTracker *t);
const GmTracker *gm_instance_dict_contents (GmRecorder *r, const GmTracker *dict);
const GmTracker *gm_instance_dict_get (GmRecorder *r, const GmTracker *dict, PyObject *name);
void gm_instance_dict_store (GmRecorder *r, const GmTracker *dict, const GmTracker *key,
                             const GmTracker *value); /* value NULL: delete */
bool gm_instance_dict_build (GmResidualBuilder *b, const GmTracker *dict);
/* Returns the value of the attribute `name` for which the lookup on `type` has found `found` in the
 * dict of the class `owner`: binds a descriptor to `self` (NULL: to the class), and returns any
 * other value unchanged. */
const GmTracker *gm_descriptor_get (GmRecorder *r, PyTypeObject *owner, PyTypeObject *type,
                                    PyObject *name, PyObject *found, const GmTracker *self);

/* The heap slots of a list, dict or set: its contents, and, if it is the storage of a new object,
 * that object. */
enum { GM_SLOT_CONTENTS, GM_SLOT_OWNER, GM_N_STORAGE_SLOTS };
/* Returns the object made in the region whose storage the container is; NULL: there is none. An
 * iterator over the storage must leave the region together with that object. */
const GmTracker *gm_storage_owner (GmRecorder *r, const GmTracker *storage);
/* Returns the instance, existing or made in the region, whose storage the container is; NULL: there
 * is none. */
const GmTracker *gm_storage_object (GmRecorder *r, const GmTracker *storage);
/* subclass.c: the storage of instances of list, dict, set, tuple subclasses. */
/* Returns the storage of an existing object, with the same source; NULL: its class needs none. */
const GmTracker *gm_storage_wrap (GmRecorder *r, PyObject *real, const GmSource *source);
/* Returns the builtin class whose C layout instances of `type` have: object, list, dict,
 * BaseException ... */
PyTypeObject *gm_layout_of (PyTypeObject *type);
/* gm_storage_new, below, returns the storage of a new object of the type: an empty list, dict or
 * set, a tuple of the items of args, or the value that args make; NULL: the type needs none, or has
 * no model. */
/* Returns the result of t[key] for a key that t, an instance of a dict subclass, does not hold:
 * calls __missing__ or defaultdict's factory, else raises KeyError. */
const GmTracker *gm_object_missing (GmRecorder *r, const GmTracker *t, const GmTracker *key);
/* True if copy () and | of t, an instance of a subclass of dict, return its own class, as an
 * OrderedDict's do, not dict. */
bool gm_dict_class_is_kept (const GmTracker *t);
const GmTracker *gm_storage_new (GmRecorder *r, PyTypeObject *type, const GmCallArgs *args);
bool gm_storage_build (GmResidualBuilder *b, const GmTracker *t);

#endif
