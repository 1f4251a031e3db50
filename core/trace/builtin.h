/* SPDX-License-Identifier: Apache-2.0
 * builtin.h -- what modules of C offer, by object: functions and the calls of builtin types.
 */
#ifndef GM_TRACE_BUILTIN_H
#define GM_TRACE_BUILTIN_H

#include "core/trace/recorder.h"

#include <string.h>

/* The call of a builtin class: int (x), list (xs), enumerate (xs) ...  NULL, without a break, if
 * there is no model of it. */
const GmTracker *gm_builtin_class_call (GmRecorder *r, PyTypeObject *type, const GmCallArgs *args);
/* Runs a C function on constants: its result, or a break.  NULL, without a break, if an argument is
 * no constant. */
const GmTracker *gm_builtin_fold (GmRecorder *r, PyObject *fn, const GmCallArgs *args);

/* What C reads of an instance of a subclass of int, float, str or bytes, where the class does not
 * say it anew. */
const GmTracker *gm_builtin_plain_value (GmRecorder *r, const GmTracker *t);
/* builtin_function.c: a function of the module builtins, called; `name` is its own.  NULL: it is none. */
const GmTracker *gm_builtin_function_call (GmRecorder *r, PyObject *fn, const char *name, const GmCallArgs *args);
const GmTracker *gm_math_prod (GmRecorder *r, const GmCallArgs *args);
/* mode_call.c: one that asks for a mode or sets one; NULL: it does not, or after a break. */
const GmTracker *gm_mode_call (GmRecorder *r, PyObject *fn, const GmCallArgs *args);
/* Functions that ask a method of the object's class (abs, round ...), if that is one of Python: its result.  NULL, without a break: none. */
const GmTracker *gm_builtin_protocol (GmRecorder *r, const char *name, const GmCallArgs *args);
/* Returns what the __index__ of an object's class gives, an exact int; NULL, without a break, if
 * that is no method of Python. */
const GmTracker *gm_index_called (GmRecorder *r, const GmTracker *t);
/* Functions that take an index, on an object of the user's with an __index__; NULL, without a break: there is none among the arguments. */
const GmTracker *gm_builtin_with_index (GmRecorder *r, PyObject *fn, const GmCallArgs *args);

/* The name of a method of C that is bound to its value; borrowed.  NULL: it is a function. */
PyObject *gm_builtin_method_name (GmRecorder *r, const GmTracker *t);
/* `t.__getitem__`, `t.__len__` ... of a builtin kind, or NULL. */
const GmTracker *gm_operator_method (GmRecorder *r, const GmTracker *t, PyObject *name);
/* Calls of objects of C that have a model (functools.partial); NULL without a break: none. */
const GmTracker *gm_special_object_call (GmRecorder *r, const GmTracker *t, const GmCallArgs *args);
/* t.__call__, a method of Python, or a break. */
const GmTracker *gm_object_call_method (GmRecorder *r, const GmTracker *t);
bool gm_is_partial (PyTypeObject *type);
bool gm_is_partial_member (PyObject *name); /* else an attribute in its dict */
/* cached_call.c: the type of what functools.lru_cache makes, and a call of one. */
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
/* NULL: the argument is no array that exists. */
/* tensor (numbers) and its kin, is_tensor; NULL: none of them, or no constants. */
const GmTracker *gm_tensor_made (GmRecorder *r, PyObject *fn, const char *name, const GmCallArgs *args);
const GmTracker *gm_tensor_over_array (GmRecorder *r, PyObject *fn, const GmCallArgs *args);
const GmTracker *gm_object_reduce_ex (GmRecorder *r, const GmTracker *self, const GmCallArgs *args);
const GmTracker *gm_reduce (GmRecorder *r, const GmCallArgs *args);
/* tracker_function.c: functions of the library in Python that have a model; NULL: it is inlined. */
/* host_call.c: the call of a function that is a node as a whole. */
/* The call of f as a node; NULL, without a break: it is to be recorded as the call of any function. */
const GmTracker *gm_host_call_record (GmRecorder *r, const GmTracker *f, const GmCallArgs *args);
typedef const GmTracker *(*GmFunctionModel) (GmRecorder *r, const GmTracker *f, const GmCallArgs *args);
GmFunctionModel gm_function_model (const GmTracker *f);
/* deepcopy.c: whether a function is copy.deepcopy, and its call. */
bool gm_is_deepcopy (const GmTracker *f);
const GmTracker *gm_deepcopy (GmRecorder *r, const GmTracker *f, const GmCallArgs *args);
/* dispatch.c: what functools.singledispatch finds a class's function by, and its call. */
bool gm_is_dispatch (const GmTracker *f);
const GmTracker *gm_dispatch (GmRecorder *r, const GmTracker *f, const GmCallArgs *args);
/* tracker_tuple.c: a class of collections.namedtuple's that leaves to tuple how tuples work (guarded); hash (t), false: it is not known here. */
bool gm_is_named_tuple (GmRecorder *r, PyTypeObject *type);
bool gm_tuple_hash (GmRecorder *r, const GmTracker *t, Py_hash_t *hash);
/* tracker_scalar.c: scalars of numpy's; gm_scalar_number is the number of Python's that gramme reads in one, else t. */
bool gm_is_scalar (PyTypeObject *type);
const GmTracker *gm_wrap_scalar (GmRecorder *r, PyObject *real, const GmSource *source);
const GmTracker *gm_scalar_number (const GmTracker *t);
/* tracker_getter.c: operator.itemgetter, attrgetter, methodcaller; functools.cmp_to_key. */
bool gm_is_getter (PyTypeObject *type);
const GmTracker *gm_getter_new (GmRecorder *r, PyTypeObject *type, const GmCallArgs *args);
const GmTracker *gm_wrap_getter (GmRecorder *r, PyObject *real, const GmSource *source);
const GmTracker *gm_cmp_to_key (GmRecorder *r, const GmCallArgs *args);
/* A function of the module operator; NULL without a break: no model. */
const GmTracker *gm_operator_function (GmRecorder *r, const char *name, const GmCallArgs *args);
/* sorted, with the named arguments key and reverse of `args`: a new list. */
const GmTracker *gm_sorted (GmRecorder *r, const GmTracker *const *items, uint32_t n,
                            const char *name, const GmCallArgs *args);
/* list.sort: a new list of the items in their order; `list` has its own still. */
const GmTracker *gm_list_sorted (GmRecorder *r, const GmTracker *list, const GmCallArgs *args);
bool gm_sorts_alike (const GmTracker *const *items, uint32_t n);
const GmTracker *gm_min_or_max (GmRecorder *r, const GmCallArgs *args, bool max);
const GmTracker *gm_format (GmRecorder *r, const GmTracker *t, int conversion, PyObject *spec);
const GmTracker *gm_ascii (GmRecorder *r, const GmCallArgs *args);
/* A class method of C, bound; NULL: no model. */
const GmTracker *gm_class_method (GmRecorder *r, const GmTracker *cls, PyObject *name);
/* tracker_bytearray.c: one of these contents; bytearray (), called: NULL, without a break, if an argument is no constant; a method; an item, or NULL. */
const GmTracker *gm_bytearray_new (GmRecorder *r, PyObject *value);
const GmTracker *gm_bytearray_made (GmRecorder *r, const GmCallArgs *args);
const GmTracker *gm_bytearray_call (GmRecorder *r, const GmTracker *t, PyObject *name, const GmCallArgs *args);
const GmTracker *gm_bytearray_item (GmRecorder *r, const GmTracker *t, int64_t i);
/* collections.deque, called. */
const GmTracker *gm_deque_new (GmRecorder *r, PyTypeObject *type, const GmCallArgs *args);
/* `str (t)` and `repr (t)`. */
const GmTracker *gm_text_of (GmRecorder *r, const GmTracker *t, bool repr);
/* format % values, format.format (*args): NULL without a break, no model. */
const GmTracker *gm_percent (GmRecorder *r, const GmTracker *format, const GmTracker *values);
const GmTracker *gm_str_format (GmRecorder *r, PyObject *format, const GmCallArgs *args);

/* tracker_class.c */
const GmTracker *gm_super_new (GmRecorder *r, PyTypeObject *type, const GmTracker *self);
/* Where super (cls, self) starts for a class `self`: the class itself, or its metaclass `type`. */
static inline PyTypeObject *
gm_super_start (PyTypeObject *cls, const GmTracker *self, PyTypeObject *type)
{
  PyTypeObject *own = (PyTypeObject *) self->real;
  return PyType_IsSubtype (own, cls) ? own : type;
}
bool gm_is_subclass (GmRecorder *r, PyTypeObject *type, PyObject *cls, const char *hook);
/* object.__new__ (type), list.__new__ (type) ... */
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
/* tracker_class.c: makes the object and says what __init__ is to run; NULL init: none. */
const GmTracker *gm_class_allocate (GmRecorder *r, const GmTracker *cls, const GmCallArgs *args,
                                    const GmTracker **init);
/* tracker_grad_mode.c */
const GmTracker *gm_grad_mode_class_call (GmRecorder *r, PyObject *cls, const GmCallArgs *args);
void gm_grad_mode_enter (GmRecorder *r, const GmTracker *t); /* pushes exit and value */

#endif
