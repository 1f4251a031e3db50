/* SPDX-License-Identifier: Apache-2.0
 * builtin_class.c -- calls of C classes: numbers and texts, containers, iterators, super and slice.
 *
 * The result of a call is a tracker of the class's own kind; numbers and texts of constants are
 * computed now. A class without a model here is tried by tracker_class.c like a class of the
 * user's.
 */
#include "core/models/models_private.h"
#include "core/trace/cell.h"
#include "core/trace/class_made.h"
#include "core/trace/exception.h"
#include "core/trace/iterator.h"
#include "core/trace/keys.h"
#include "core/trace/number.h"
#include "core/trace/instance.h"
#include "core/trace/traced_size.h"

#include <string.h>

#define PLAIN(name, min, max)                                                                      \
  if (!gm_args_plain (r, name, args, min, max))                                                    \
  return &gm_tracker_poison

static const GmTracker *
convert_number (GmRecorder *r, PyTypeObject *type, const GmCallArgs *args)
{
  const GmTracker *t = args->n ? gm_realize (r, args->args[0]) : NULL;
  if (type == &PyBool_Type && args->n == 1 && args->names == NULL)
    return gm_from_bool (r, gm_truth (r, t));
  if (t && t->kind == &gm_kind_tensor) {
    g_autofree char *what = g_strdup_printf ("%s()", type->tp_name);
    return type == &PyLong_Type && args->n == 1 && !args->names
               ? gm_tensor_item (r, t, what)
               : gm_record_break (r, GM_BREAK_DATA_DEPENDENT_VALUE, what);
  }
  if (t && type == &PyLong_Type && args->n == 1 && !args->names && gm_is_number (t))
    return t;
  if (t && type == &PyFloat_Type && args->n == 1 && !args->names && t->kind == &gm_kind_float)
    return t;
  const GmTracker *of_size =
      t && type == &PyFloat_Type && args->n == 1 && !args->names && gm_is_size (t)
          ? gm_float_of_size (r, t)
          : NULL;
  if (of_size)
    return of_size;
  if (type == &PyUnicode_Type && args->n == 1 && args->names == NULL)
    return gm_text_of (r, t, false);
  bool number = type == &PyLong_Type || type == &PyFloat_Type;
  if (number && t && t->kind == &gm_kind_scalar && args->n == 1 && args->names == NULL)
    return gm_builtin_fold (r, (PyObject *) type, &(GmCallArgs){ t->items, 1, NULL });
  const GmTracker *v = gm_builtin_fold (r, (PyObject *) type, args);
  if (v == NULL && t && t->kind == &gm_kind_object && args->n == 1 && args->names == NULL
      && (type == &PyLong_Type || type == &PyFloat_Type)) {
    const char *name = type == &PyLong_Type ? "__int__" : "__float__";
    v = gm_call_special (r, t, name, NULL, 0);
    if (v && !r->stop && (v = gm_realize (r, v)) && !(v->real && Py_IS_TYPE (v->real, type)))
      return gm_record_break (r, GM_BREAK_CALL_METHOD, name,
                              gm_type_text (r, t)); /* a warning or a TypeError */
  }
  if (v == NULL && !r->stop && type == &PyComplex_Type && !args->names) {
    v = gm_builtin_protocol (r, "complex", args);
    if (v && !r->stop && gm_type_of (r, v) != &PyComplex_Type)
      return gm_record_break (r, GM_BREAK_CALL_METHOD, "__complex__", gm_type_text (r, t));
  }
  if (v == NULL && !r->stop && args->names == NULL)
    v = type == &PyRange_Type || type == &PyLong_Type
            ? gm_builtin_with_index (r, (PyObject *) type, args)
            : NULL;
  return v ? v : gm_record_break (r, GM_BREAK_CALL_C, type->tp_name);
}

static const GmTracker *
make_frozenset (GmRecorder *r, const GmCallArgs *args)
{
  const GmTracker *t = args->n == 1 && !args->names ? gm_realize (r, args->args[0]) : NULL;
  if (t && t->kind == &gm_kind_set && t->number)
    return t;
  bool sequence = t && (t->kind == &gm_kind_list || t->kind == &gm_kind_tuple);
  g_autoptr (GPtrArray) elements = sequence ? gm_iterate (r, t) : NULL;
  for (uint32_t i = 0; elements && i < elements->len && !r->stop; i++)
    gm_key_guard_nan (r, gm_realize (r, elements->pdata[i]));
  const GmTracker *v = convert_number (r, &PyFrozenSet_Type, args), *of = NULL;
  if (elements && !r->stop)
    of = gm_tuple_new (r, (const GmTracker *const *) elements->pdata, elements->len);
  else if (t && (t->kind == &gm_kind_set || t->kind == &gm_kind_dict))
    of = t;
  return gm_frozenset_made (r, v, of);
}

static const GmTracker *
make_sequence (GmRecorder *r, PyTypeObject *type, const GmCallArgs *args)
{
  PLAIN (type->tp_name, 0, 1);
  if (args->n == 0)
    return type == &PyList_Type    ? gm_list_new (r, NULL, 0)
           : type == &PyTuple_Type ? gm_tuple_new (r, NULL, 0)
                                   : gm_set_new (r, NULL, 0);
  const GmTracker *t = gm_realize (r, args->args[0]);
  if (type == &PyTuple_Type && t->kind == &gm_kind_tuple && t->data == NULL && !t->number)
    return t; /* tuple (t) is t */
  if (type != &PyList_Type && type != &PyTuple_Type)
    return gm_set_of (r, t);
  g_autoptr (GPtrArray) all = gm_collect (r, t);
  if (all == NULL)
    return &gm_tracker_poison;
  const GmTracker *const *items = (const GmTracker *const *) all->pdata;
  return type == &PyList_Type ? gm_list_new (r, items, all->len)
                              : gm_tuple_new (r, items, all->len);
}

static const GmTracker *
make_dict (GmRecorder *r, const GmCallArgs *args)
{
  const GmTracker *d = gm_dict_new (r);
  gm_call (r, gm_getattr (r, d, gm_record_take (r, PyUnicode_InternFromString ("update"))), args);
  return d;
}

static const GmTracker *
make_iterator (GmRecorder *r, PyTypeObject *type, const GmCallArgs *args)
{
  if (type == &PyEnum_Type) {
    static const char *const names[] = { "iterable", "start" };
    const GmTracker *in[2];
    int64_t start = 0;
    if (!gm_args_take (r, "enumerate", args, names, 2, in) || in[0] == NULL
        || (in[1] && !gm_constant_int (r, in[1], &start)))
      return gm_record_break (r, GM_BREAK_CALL_ARGUMENTS,
                              "enumerate() with a start that is no int");
    const GmTracker *it = gm_iter (r, in[0]);
    return gm_iterator_new (r, GM_ITER_ENUMERATE, &it, 1, start);
  }
  bool strict =
      type == &PyZip_Type && gm_args_n_named (args) == 1
      && PyUnicode_CompareWithASCIIString (PyTuple_GET_ITEM (args->names, 0), "strict") == 0;
  if (args->names && !strict)
    return gm_record_break (r, GM_BREAK_CALL_ARGUMENTS, "map() or filter() with named arguments");
  strict = strict && gm_truth (r, args->args[args->n]);
  if (type == &PyReversed_Type) {
    PLAIN ("reversed", 1, 1);
    const GmTracker *t = gm_realize (r, args->args[0]);
    if (t->kind == &gm_kind_deque)
      return gm_call_n (
          r, gm_getattr (r, t, gm_record_take (r, PyUnicode_InternFromString ("__reversed__"))),
          NULL, 0);
    if (t->kind == &gm_kind_object) {
      const GmTracker *own = gm_call_special (r, t, "__reversed__", NULL, 0);
      if (own)
        return own;
    }
    if (t->kind == &gm_kind_constant && !PySequence_Check (t->real)
        && !gm_class_lookup_text (r, Py_TYPE (t->real), "__reversed__"))
      return gm_raise_new (r, PyExc_TypeError, "'%s' object is not reversible",
                           Py_TYPE (t->real)->tp_name);
    const GmTrackerKind *const kinds[] = { &gm_kind_list, &gm_kind_tuple, &gm_kind_constant,
                                           &gm_kind_dict, &gm_kind_view };
    for (uint32_t i = 0; i < G_N_ELEMENTS (kinds); i++)
      if (t->kind == kinds[i])
        return gm_iterator_reversed (r, t);
    return gm_record_break (r, GM_BREAK_ITERATION, "reversed object");
  }
  bool keeps_first = type == &PyMap_Type || type == &PyFilter_Type;
  if (keeps_first && (args->n < 2 || (type == &PyFilter_Type && args->n != 2)))
    return gm_record_break (r, GM_BREAK_CALL_ARGUMENTS,
                            "map() and filter() take a function and iterables");
  g_autofree const GmTracker **items = gm_tracker_array_own (args->n);
  for (uint32_t i = 0; i < args->n; i++)
    items[i] = i == 0 && keeps_first ? args->args[0] : gm_iter (r, args->args[i]);
  GmIterKind kind = type == &PyMap_Type      ? GM_ITER_MAP
                    : type == &PyFilter_Type ? GM_ITER_FILTER
                    : strict                 ? GM_ITER_ZIP_STRICT
                                             : GM_ITER_ZIP;
  return gm_iterator_new (r, kind, items, args->n, 0);
}

/* Returns the result of super () without arguments: for the class in the frame's __class__ cell
 * and the object in its first argument. */
static const GmTracker *
make_super (GmRecorder *r, const GmCallArgs *args)
{
  const GmTracker *cls = NULL, *self = NULL;
  if (args->n == 0) {
    const GmCode *code = r->frame->code;
    if (code->n_pos == 0)
      return gm_raise_new (r, PyExc_RuntimeError, "super(): no arguments");
    self = gm_local (r, 0);
    if (self && self->kind == &gm_kind_cell)
      self = gm_cell_load (r, self);
    for (uint32_t i = code->first_free; i < code->n_slots; i++)
      if (PyUnicode_CompareWithASCIIString (code->slots[i].name, "__class__") == 0)
        cls = gm_cell_load (r, gm_local (r, i));
  } else if (args->n == 2) {
    cls = args->args[0];
    self = args->args[1];
  }
  if (cls == NULL || self == NULL)
    return gm_record_break (r, GM_BREAK_CALL_ARGUMENTS, "super() without a class or an object");
  cls = gm_realize (r, cls);
  self = gm_realize (r, self);
  PyTypeObject *type = gm_type_of (r, self);
  if (!r->stop && self->kind == &gm_kind_class && cls->kind == &gm_kind_class)
    type = gm_super_start ((PyTypeObject *) cls->real, self, type);
  if (r->stop || cls->kind != &gm_kind_class || type == NULL
      || !PyType_IsSubtype (type, (PyTypeObject *) cls->real))
    return gm_record_break (r, GM_BREAK_CALL_ARGUMENTS,
                            "super() of a class and something else than its instance");
  return gm_super_new (r, (PyTypeObject *) cls->real, self);
}

static const GmTracker *
make_method (GmRecorder *r, const GmCallArgs *args)
{
  const GmTracker *f = gm_realize (r, args->args[0]), *self = gm_realize (r, args->args[1]);
  if (r->stop)
    return &gm_tracker_poison;
  bool callable = f->kind == &gm_kind_object
                      ? gm_class_lookup_text (r, (PyTypeObject *) f->data, "__call__") != NULL
                      : f->kind->call != NULL;
  return callable && self->real != Py_None
             ? gm_method_new (r, f, self)
             : gm_record_break (r, GM_BREAK_CALL_ARGUMENTS,
                                "a method of what cannot be called, or of None");
}

static const GmTracker *
make_slice (GmRecorder *r, const GmCallArgs *args)
{
  PLAIN ("slice", 1, 3);
  const GmTracker *none = gm_none (r);
  if (args->n == 1)
    return gm_slice_new (r, none, args->args[0], none);
  return gm_slice_new (r, args->args[0], args->args[1], args->n == 3 ? args->args[2] : none);
}

const GmTracker *
gm_builtin_class_call (GmRecorder *r, PyTypeObject *type, const GmCallArgs *args)
{
  if (type == &PyLong_Type || type == &PyFloat_Type || type == &PyBool_Type
      || type == &PyUnicode_Type || type == &PyBytes_Type || type == &PyRange_Type
      || type == &PyComplex_Type)
    return convert_number (r, type, args);
  if (type == &PyFrozenSet_Type)
    return make_frozenset (r, args);
  if (type == &PyList_Type || type == &PyTuple_Type || type == &PySet_Type)
    return make_sequence (r, type, args);
  if (type == &PyDict_Type)
    return make_dict (r, args);
  if (type == &PyByteArray_Type)
    return gm_bytearray_made (r, args);
  if (type == &PyEnum_Type || type == &PyZip_Type || type == &PyMap_Type || type == &PyFilter_Type
      || type == &PyReversed_Type)
    return make_iterator (r, type, args);
  const GmTracker *made = gm_itertools_call (r, type, args);
  if (made || r->stop)
    return made;
  if (strcmp (type->tp_name, "collections.deque") == 0 && !gm_is_user_type (type))
    return gm_deque_new (r, type, args);
  if (gm_is_getter (type))
    return gm_getter_new (r, type, args);
  if (gm_is_partial (type))
    return gm_partial_new (r, type, args);
  if (gm_is_namespace (type))
    return gm_namespace_new (r, type, args);
  if (type == &PyMethod_Type && args->n == 2 && args->names == NULL)
    return make_method (r, args);
  const GmTracker *descriptor = gm_descriptor_new (r, type, args);
  if (descriptor)
    return descriptor;
  if (type == &PySuper_Type)
    return make_super (r, args);
  if (type == &PySlice_Type)
    return make_slice (r, args);
  if (type == &PyType_Type && args->n == 1 && args->names == NULL) {
    PyTypeObject *of = gm_type_of (r, args->args[0]);
    if (of == NULL)
      return gm_record_break (r, GM_BREAK_CALL_C, "type()");
    return gm_wrap (r, (PyObject *) of, gm_source_const (r, (PyObject *) of, of->tp_name));
  }
  if (gm_host.device_type && type == gm_host.device_type)
    return gm_builtin_fold (r, (PyObject *) type, args);
  if (type == &PyBaseObject_Type && args->n == 0 && args->names == NULL)
    return gm_object_new (r, type);
  return NULL;
}
