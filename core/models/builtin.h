/* SPDX-License-Identifier: Apache-2.0
 * builtin.h -- models of C modules: functions, and the calls of builtin types.
 */
#ifndef GM_MODELS_BUILTIN_H
#define GM_MODELS_BUILTIN_H

#include "core/trace/recorder.h"

#include <string.h>

/* Returns the result of a call of a builtin class: int (x), list (xs), enumerate (xs) ... NULL,
 * without a break, if there is no model of the class. */
const GmTracker *gm_builtin_class_call (GmRecorder *r, PyTypeObject *type, const GmCallArgs *args);
/* Returns the result of a C function that is run on constants, or breaks. NULL, without a break, if
 * an argument is no constant. */
const GmTracker *gm_builtin_fold (GmRecorder *r, PyObject *fn, const GmCallArgs *args);

/* Returns the exact value that C reads of an instance of a subclass of int, float, str or bytes,
 * unless the class overrides the conversion. */
const GmTracker *gm_builtin_plain_value (GmRecorder *r, const GmTracker *t);
/* builtin_function.c: calls a function of the module builtins with this __name__. NULL: fn is
 * none. */
const GmTracker *gm_builtin_function_call (GmRecorder *r, PyObject *fn, const char *name, const GmCallArgs *args);
const GmTracker *gm_math_prod (GmRecorder *r, const GmCallArgs *args);
/* mode_call.c: calls a function that reads or sets a mode. NULL: fn is none, or after a break. */
const GmTracker *gm_mode_call (GmRecorder *r, PyObject *fn, const GmCallArgs *args);
/* Returns the result of a function that calls a method of the object's class (abs, round ...), if
 * it is a Python method. NULL, without a break: it is not. */
const GmTracker *gm_builtin_protocol (GmRecorder *r, const char *name, const GmCallArgs *args);
/* Returns the result of the __index__ of an object's class, an exact int. NULL, without a break, if
 * that is no Python method. */
const GmTracker *gm_index_called (GmRecorder *r, const GmTracker *t);
/* Calls a function that takes an index on an object with a Python __index__. NULL, without a break:
 * no argument is one. */
const GmTracker *gm_builtin_with_index (GmRecorder *r, PyObject *fn, const GmCallArgs *args);

/* Returns the name of a C method that is bound to its value; borrowed. NULL: it is a function. */
PyObject *gm_builtin_method_name (GmRecorder *r, const GmTracker *t);
/* Returns `t.__getitem__`, `t.__len__` ... of a builtin kind, or NULL. */
const GmTracker *gm_operator_method (GmRecorder *r, const GmTracker *t, PyObject *name);
/* Calls an object of a C class that has a model (functools.partial). NULL, without a break: it has
 * none. */
const GmTracker *gm_special_object_call (GmRecorder *r, const GmTracker *t, const GmCallArgs *args);
/* Returns t.__call__, a Python method, or breaks. */
const GmTracker *gm_object_call_method (GmRecorder *r, const GmTracker *t);
bool gm_is_partial (PyTypeObject *type);
bool gm_is_partial_member (PyObject *name); /* else an attribute in its dict */
/* cached_call.c: true for the type that functools.lru_cache returns instances of, and the call of
 * an instance. */
bool gm_is_cached_function (PyTypeObject *type);
const GmTracker *gm_cached_call (GmRecorder *r, const GmTracker *t, const GmCallArgs *args);
const GmTracker *gm_partial_new (GmRecorder *r, PyTypeObject *type, const GmCallArgs *args);
bool gm_partial_build (GmResidualBuilder *b, const GmTracker *t);
/* namespace.c */
bool gm_is_namespace (PyTypeObject *type);
const GmTracker *gm_namespace_new (GmRecorder *r, PyTypeObject *type, const GmCallArgs *args);
const GmTracker *gm_namespace_compare (GmRecorder *r, int op, const GmTracker *t, const GmTracker *other);
void gm_namespace_build (GmResidualBuilder *b, const GmTracker *t);
/* copying.c: object.__reduce_ex__ */
/* gm_tensor_over_array returns NULL if the argument is no array that exists. */
/* Calls tensor (numbers) and the like, and is_tensor. NULL: fn is another function, or the numbers
 * are no constants. */
const GmTracker *gm_tensor_made (GmRecorder *r, PyObject *fn, const char *name, const GmCallArgs *args);
const GmTracker *gm_tensor_over_array (GmRecorder *r, PyObject *fn, const GmCallArgs *args);
const GmTracker *gm_object_reduce_ex (GmRecorder *r, const GmTracker *self, const GmCallArgs *args);
const GmTracker *gm_reduce (GmRecorder *r, const GmCallArgs *args);
/* tracker_function.c: functions of the library in Python that have a model; NULL: it is inlined. */
/* allow_in_graph.c: the call of a function that is a node as a whole. */
/* The call of f as a node; NULL, without a break: it is to be recorded as the call of any function. */
const GmTracker *gm_host_call_record (GmRecorder *r, const GmTracker *f, const GmCallArgs *args);
typedef const GmTracker *(*GmFunctionModel) (GmRecorder *r, const GmTracker *f, const GmCallArgs *args);
GmFunctionModel gm_function_model (const GmTracker *f);
/* deepcopy.c: true for copy.deepcopy, and its call. */
bool gm_is_deepcopy (const GmTracker *f);
const GmTracker *gm_deepcopy (GmRecorder *r, const GmTracker *f, const GmCallArgs *args);
/* dispatch.c: true for the function with which functools.singledispatch finds a class's function,
 * and its call. */
bool gm_is_dispatch (const GmTracker *f);
const GmTracker *gm_dispatch (GmRecorder *r, const GmTracker *f, const GmCallArgs *args);
/* tracker_tuple.c: true for a class of collections.namedtuple that does not override tuple's
 * methods (guarded); gm_tuple_hash: hash (t), false if it is not known here. */
bool gm_is_named_tuple (GmRecorder *r, PyTypeObject *type);
bool gm_tuple_hash (GmRecorder *r, const GmTracker *t, Py_hash_t *hash);
/* tracker_scalar.c: numpy's scalars; gm_scalar_number returns the Python number that gramme reads
 * of a scalar, or t. */
bool gm_is_scalar (PyTypeObject *type);
const GmTracker *gm_wrap_scalar (GmRecorder *r, PyObject *real, const GmSource *source);
const GmTracker *gm_scalar_number (const GmTracker *t);
/* tracker_given.c: iterators that exist before the region. */
bool gm_is_given_iterator (PyTypeObject *type);
const GmTracker *gm_wrap_given_iterator (GmRecorder *r, PyObject *real, const GmSource *source);
/* tracker_getter.c: operator.itemgetter, attrgetter, methodcaller; functools.cmp_to_key. */
bool gm_is_getter (PyTypeObject *type);
const GmTracker *gm_getter_new (GmRecorder *r, PyTypeObject *type, const GmCallArgs *args);
const GmTracker *gm_wrap_getter (GmRecorder *r, PyObject *real, const GmSource *source);
const GmTracker *gm_cmp_to_key (GmRecorder *r, const GmCallArgs *args);
/* Calls a function of the module operator. NULL, without a break: it has no model. */
const GmTracker *gm_operator_function (GmRecorder *r, const char *name, const GmCallArgs *args);
/* Returns sorted (items), a new list, with the named arguments key and reverse of `args`. */
const GmTracker *gm_sorted (GmRecorder *r, const GmTracker *const *items, uint32_t n,
                            const char *name, const GmCallArgs *args);
/* Returns a new list of the sorted items for list.sort; `list` still has its own. */
const GmTracker *gm_list_sorted (GmRecorder *r, const GmTracker *list, const GmCallArgs *args);
bool gm_sorts_alike (const GmTracker *const *items, uint32_t n);
const GmTracker *gm_min_or_max (GmRecorder *r, const GmCallArgs *args, bool max);
const GmTracker *gm_format (GmRecorder *r, const GmTracker *t, int conversion, PyObject *spec);
const GmTracker *gm_ascii (GmRecorder *r, const GmCallArgs *args);
/* Returns a class method of C, bound; NULL: it has no model. */
const GmTracker *gm_class_method (GmRecorder *r, const GmTracker *cls, PyObject *name);
/* tracker_bytearray.c: a new bytearray with these contents; the call of bytearray (NULL, without a
 * break, if an argument is no constant); a call of its method; its item, or NULL. */
const GmTracker *gm_bytearray_new (GmRecorder *r, PyObject *value);
const GmTracker *gm_bytearray_made (GmRecorder *r, const GmCallArgs *args);
const GmTracker *gm_bytearray_call (GmRecorder *r, const GmTracker *t, PyObject *name, const GmCallArgs *args);
const GmTracker *gm_bytearray_item (GmRecorder *r, const GmTracker *t, int64_t i);
/* The call of collections.deque. */
const GmTracker *gm_deque_new (GmRecorder *r, PyTypeObject *type, const GmCallArgs *args);
/* `str (t)` and `repr (t)`. */
const GmTracker *gm_text_of (GmRecorder *r, const GmTracker *t, bool repr);
/* Returns format % values, and format.format (*args). NULL, without a break: no model. */
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
/* Returns a new instance: object.__new__ (type), list.__new__ (type) ... */
const GmTracker *gm_class_new_instance (GmRecorder *r, PyTypeObject *type, const GmCallArgs *args);
/* True of a subclass of Tensor, not of Tensor itself. */
bool gm_is_tensor_subclass (PyTypeObject *type);
const GmTracker *gm_object_method (GmRecorder *r, const GmTracker *self, PyObject *name);
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
/* tracker_class.c: returns the new object; *init is the __init__ to run, or NULL. */
const GmTracker *gm_class_allocate (GmRecorder *r, const GmTracker *cls, const GmCallArgs *args,
                                    const GmTracker **init);
/* tracker_grad_mode.c */
const GmTracker *gm_grad_mode_class_call (GmRecorder *r, PyObject *cls, const GmCallArgs *args);
void gm_grad_mode_enter (GmRecorder *r, const GmTracker *t); /* pushes exit and value */

#endif
