/* SPDX-License-Identifier: Apache-2.0
 * kinds.h -- functions of the kinds of Python's own types, which other kinds and the models call.
 */
#ifndef GM_TRACE_KINDS_H
#define GM_TRACE_KINDS_H

#include "core/trace/recorder.h"

#include <string.h>

/* Runs the C function `fn` on the arguments, if all are constants, and returns its result, or
 * breaks. NULL, without a break: an argument is no constant. */
const GmTracker *gm_builtin_fold (GmRecorder *r, PyObject *fn, const GmCallArgs *args);
/* Returns the int, float, str or bytes that C code reads from an instance of a subclass, unless the
 * class overrides the conversion; t for other values. */
const GmTracker *gm_builtin_plain_value (GmRecorder *r, const GmTracker *t);
/* Returns the result of the builtin `name` (abs, round ...) for an object whose class has the
 * corresponding Python method (__abs__ ...). NULL, without a break: it has none. */
const GmTracker *gm_builtin_protocol (GmRecorder *r, const char *name, const GmCallArgs *args);
/* Returns the result of the __index__ of an object's class, an exact int. NULL, without a break, if
 * that is no Python method. */
const GmTracker *gm_index_called (GmRecorder *r, const GmTracker *t);
/* Calls `fn`, which takes an index, with each object among the arguments replaced by the result of
 * its Python __index__. NULL, without a break: no argument has such a method. */
const GmTracker *gm_builtin_with_index (GmRecorder *r, PyObject *fn, const GmCallArgs *args);
/* Returns the name of t if t is a C method bound to a value; borrowed. NULL: t is a function. */
PyObject *gm_builtin_method_name (GmRecorder *r, const GmTracker *t);
/* Returns t.__call__, a Python method, or breaks. */
const GmTracker *gm_object_call_method (GmRecorder *r, const GmTracker *t);
/* tracker_function.c: returns the model of f, a Python function of the library; NULL: f has none
 * and is inlined. */
typedef const GmTracker *(*GmFunctionModel) (GmRecorder *r, const GmTracker *f,
                                             const GmCallArgs *args);
GmFunctionModel gm_function_model (const GmTracker *f);
/* tracker_tuple.c: gm_is_named_tuple: true for a class of collections.namedtuple that does not
 * override methods of tuple (guarded). gm_tuple_hash: computes hash (t); false: the hash is not
 * known while recording. */
bool gm_is_named_tuple (GmRecorder *r, PyTypeObject *type);
bool gm_tuple_hash (GmRecorder *r, const GmTracker *t, Py_hash_t *hash);
const GmTracker *gm_format (GmRecorder *r, const GmTracker *t, int conversion, PyObject *spec);
const GmTracker *gm_ascii (GmRecorder *r, const GmCallArgs *args);
/* Returns the class method `name` of a C class, bound to cls; NULL: it has no model. */
const GmTracker *gm_class_method (GmRecorder *r, const GmTracker *cls, PyObject *name);
/* tracker_bytearray.c. gm_bytearray_new: returns a new bytearray with the bytes of `value`.
 * gm_bytearray_made: returns bytearray (*args); NULL, without a break: an argument is no constant.
 * gm_bytearray_call: calls the method `name`. gm_bytearray_item: returns item i, or NULL. */
const GmTracker *gm_bytearray_new (GmRecorder *r, PyObject *value);
const GmTracker *gm_bytearray_made (GmRecorder *r, const GmCallArgs *args);
const GmTracker *gm_bytearray_call (GmRecorder *r, const GmTracker *t, PyObject *name,
                                    const GmCallArgs *args);
const GmTracker *gm_bytearray_item (GmRecorder *r, const GmTracker *t, int64_t i);
/* Returns repr (t), or str (t). */
const GmTracker *gm_text_of (GmRecorder *r, const GmTracker *t, bool repr);
/* gm_percent returns format % values, gm_str_format returns format.format (*args). NULL, without a
 * break: the format or a value has no model. */
const GmTracker *gm_percent (GmRecorder *r, const GmTracker *format, const GmTracker *values);
const GmTracker *gm_str_format (GmRecorder *r, PyObject *format, const GmCallArgs *args);
/* tracker_class.c */
const GmTracker *gm_super_new (GmRecorder *r, PyTypeObject *type, const GmTracker *self);
/* Returns the class where super (cls, self) starts for a class `self`: the class itself, or its
 * metaclass `type`. */
static inline PyTypeObject *
gm_super_start (PyTypeObject *cls, const GmTracker *self, PyTypeObject *type)
{
  PyTypeObject *own = (PyTypeObject *) self->real;
  return PyType_IsSubtype (own, cls) ? own : type;
}
bool gm_is_subclass (GmRecorder *r, PyTypeObject *type, PyObject *cls, const char *hook);
/* Returns the new instance that object.__new__ (type), list.__new__ (type) ... returns, for the
 * builtin class whose layout `type` has. */
const GmTracker *gm_class_new_instance (GmRecorder *r, PyTypeObject *type, const GmCallArgs *args);
/* True for a subclass of Tensor; false for Tensor itself. */
bool gm_is_tensor_subclass (PyTypeObject *type);
const GmTracker *gm_object_method (GmRecorder *r, const GmTracker *self, PyObject *name);
/* True for functools.partial itself. */
static inline bool
gm_is_partial (PyTypeObject *type)
{
  return strcmp (type->tp_name, "functools.partial") == 0
         && !(type->tp_flags & Py_TPFLAGS_BASETYPE && type->tp_base != &PyBaseObject_Type);
}

/* True for the type that functools.lru_cache returns instances of. */
static inline bool
gm_is_cached_function (PyTypeObject *type)
{
  return strcmp (type->tp_name, "functools._lru_cache_wrapper") == 0;
}

static inline bool
gm_is_defaultdict (PyTypeObject *type)
{
  return strcmp (type->tp_name, "collections.defaultdict") == 0;
}
bool gm_is_instance (GmRecorder *r, const GmTracker *t, const GmTracker *cls);
/* tracker_object.c, tracker_function.c */
const GmTracker *gm_object_new (GmRecorder *r, PyTypeObject *type);
const GmTracker *gm_object_new_with (GmRecorder *r, PyTypeObject *type, const GmTracker *storage);
const GmTracker *gm_class_value (GmRecorder *r, PyTypeObject *type, PyObject *name, PyObject *found,
                                 const GmTracker *self);
const GmTracker *gm_function_new (GmRecorder *r, PyObject *code, const GmTracker *closure,
                                  const GmTracker *defaults, const GmTracker *kwdefaults,
                                  const GmTracker *annotations);
const GmTracker *gm_function_cell (GmRecorder *r, const GmTracker *func, uint32_t i);
/* tracker_class.c: allocates the object that cls (*args) makes, running __new__, and returns it;
 * *init: the __init__ to call on it, or NULL. */
const GmTracker *gm_class_allocate (GmRecorder *r, const GmTracker *cls, const GmCallArgs *args,
                                    const GmTracker **init);
/* tracker_given.c: iterators of CPython's own that exist before the region. */
bool gm_is_given_iterator (PyTypeObject *type);
const GmTracker *gm_wrap_given_iterator (GmRecorder *r, PyObject *real, const GmSource *source);

#endif
