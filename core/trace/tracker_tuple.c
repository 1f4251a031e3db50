/* SPDX-License-Identifier: Apache-2.0
 * tracker_tuple.c -- tuples: plain ones, gramme.Size, named tuples (collections.namedtuple and the
 * library's own results), struct sequences such as sys.version_info.
 *
 * A named tuple whose class overrides a method of tuple (__eq__, __iter__ ...) is an object with a
 * tuple inside of it.
 *
 * Items are in the tracker: a tuple never changes. number 0: `data` is the type, NULL for tuple;
 * number 1: `data` is the text "max values indices" of a result type of the library, whose object
 * only the host can make.
 */
#include "core/models/models.h"
#include "core/trace/exception.h"
#include "core/trace/number.h"
#include "core/trace/instance.h"
#include "core/trace/traced_size.h"

#include <structmember.h>
#include <string.h>

const GmTracker *
gm_tuple_new_of (GmRecorder *r, PyTypeObject *type, const GmTracker *const *items, uint32_t n)
{
  const GmTracker **copy = gm_tracker_array (r, n);
  gm_tracker_copy (copy, items, n);
  return gm_tracker (r, .kind = &gm_kind_tuple, .items = copy, .n = n, .data = type);
}

const GmTracker *
gm_tuple_new (GmRecorder *r, const GmTracker *const *items, uint32_t n)
{
  return gm_tuple_new_of (r, NULL, items, n);
}

/* Returns the names of the fields of a class made by collections.namedtuple, a tuple, borrowed;
 * NULL: `type` is no such class. */
static PyObject *
fields_of (PyTypeObject *type)
{
  PyObject *fields = type->tp_base == &PyTuple_Type && gm_type_dict (type)
                         ? PyDict_GetItemString (gm_type_dict (type), "_fields")
                         : NULL;
  return fields && PyTuple_CheckExact (fields) ? fields : NULL;
}

bool
gm_is_named_tuple (GmRecorder *r, PyTypeObject *type)
{
  static const char *const protocol[] = {
    "__getattribute__", "__getattr__",  "__eq__",   "__ne__",   "__lt__",
    "__le__",           "__gt__",       "__ge__",   "__iter__", "__len__",
    "__getitem__",      "__contains__", "__bool__", "__add__",  "__radd__",
    "__iadd__",         "__mul__",      "__rmul__", "__imul__", "__hash__"
  };
  if (fields_of (type) == NULL)
    return false;
  for (size_t i = 0; i < G_N_ELEMENTS (protocol); i++) {
    PyObject *of_tuple = PyDict_GetItemString (gm_type_dict (&PyTuple_Type), protocol[i]);
    if (of_tuple == NULL)
      of_tuple = gm_object_default (protocol[i]);
    if (gm_class_lookup_text (r, type, protocol[i]) != of_tuple)
      return false;
  }
  return true;
}

/* True for a struct sequence: a C type whose attributes are its items. */
static bool
is_struct_sequence (PyTypeObject *type)
{
  return type->tp_base == &PyTuple_Type && !gm_is_user_type (type)
         && PyDict_GetItemString (gm_type_dict (type), "n_sequence_fields") != NULL;
}

static const GmTracker *
struct_field (const GmTracker *t, PyObject *name)
{
  PyObject *found = PyDict_GetItem (gm_type_dict ((PyTypeObject *) t->data), name);
  if (found == NULL || !Py_IS_TYPE (found, &PyMemberDescr_Type))
    return NULL;
  size_t at = (size_t) ((PyMemberDescrObject *) found)->d_member->offset
              - offsetof (PyTupleObject, ob_item);
  /* further fields have only a name, and no place */
  return at / sizeof (PyObject *) < t->n ? t->items[at / sizeof (PyObject *)] : NULL;
}

const GmTracker *
gm_wrap_tuple (GmRecorder *r, PyObject *real, const GmSource *source)
{
  PyTypeObject *type = Py_TYPE (real);
  if (type != &PyTuple_Type && type != gm_host.size_type && !is_struct_sequence (type)
      && !gm_is_named_tuple (r, type))
    return gm_is_user_type (type) ? gm_wrap_object (r, real, source)
                                  : gm_record_break (r, GM_BREAK_VALUE_KIND, type->tp_name);
  uint32_t n = (uint32_t) PyTuple_GET_SIZE (real);
  if (!gm_record_limit_items (r, n))
    return &gm_tracker_poison;
  gm_guard (r, TYPE, source, .obj = (PyObject *) type);
  gm_guard (r, TUPLE_LEN, source, .index = n);
  const GmTracker **items = gm_tracker_array (r, n);
  for (uint32_t i = 0; i < n; i++)
    items[i] = gm_wrap_lazy (r, PyTuple_GET_ITEM (real, i),
                             gm_source_item (r, source, GM_SOURCE_TUPLE_ITEM, i));
  const GmTracker *t =
      gm_tracker (r, .kind = &gm_kind_tuple, .real = real, .source = source, .items = items, .n = n,
                  .data = type == &PyTuple_Type ? NULL : type);
  gm_know (r, t);
  return t;
}

const GmTracker *
gm_tuple_storage (GmRecorder *r, PyObject *real, const GmSource *source)
{
  uint32_t n = (uint32_t) PyTuple_GET_SIZE (real);
  if (!gm_record_limit_items (r, n))
    return &gm_tracker_poison;
  gm_guard (r, TUPLE_LEN, source, .index = n);
  const GmTracker **items = gm_tracker_array (r, n);
  for (uint32_t i = 0; i < n; i++)
    items[i] = gm_wrap_lazy (r, PyTuple_GET_ITEM (real, i),
                             gm_source_item (r, source, GM_SOURCE_TUPLE_ITEM, i));
  return gm_tuple_new (r, items, n);
}

const GmTracker *
gm_tuple_constant (GmRecorder *r, PyObject *tuple)
{
  const GmTracker *t = gm_known (r, tuple, NULL);
  if (t)
    return t;
  uint32_t n = (uint32_t) PyTuple_GET_SIZE (tuple);
  const GmTracker **items = gm_tracker_array (r, n);
  for (uint32_t i = 0; i < n; i++) {
    PyObject *item = PyTuple_GET_ITEM (tuple, i);
    items[i] = PyTuple_CheckExact (item) ? gm_tuple_constant (r, item) : gm_from_constant (r, item);
  }
  t = gm_tracker (r, .kind = &gm_kind_tuple, .real = tuple,
                  .source = gm_source_const (r, tuple, "a constant"), .items = items, .n = n);
  gm_know (r, t);
  return t;
}

static PyTypeObject *
type (GmRecorder *r, const GmTracker *t)
{
  if (t->number)
    return NULL;
  return t->data ? (PyTypeObject *) t->data : &PyTuple_Type;
}

static int64_t
len (GmRecorder *r, const GmTracker *t)
{
  return t->n;
}

static const GmTracker *
iter (GmRecorder *r, const GmTracker *t)
{
  return gm_iterator_over (r, t);
}

/* Returns the items as a tuple, or, if `size`, as a Size, which has only ints, else breaks: slices,
 * sums and multiples of a Size are Sizes. */
static const GmTracker *
part_of (GmRecorder *r, bool size, const GmTracker *const *items, uint32_t n)
{
  for (uint32_t i = 0; size && i < n; i++) {
    const GmTracker *item = gm_realize (r, items[i]);
    if (!gm_is_size (item) && !gm_is_number (item)
        && !(item->kind == &gm_kind_constant && PyLong_Check (item->real)))
      return gm_record_break (r, GM_BREAK_OPERATOR, "+", "Size", gm_type_text (r, item));
  }
  return size ? gm_tuple_new_of (r, gm_host.size_type, items, n) : gm_tuple_new (r, items, n);
}

static const GmTracker *
getitem (GmRecorder *r, const GmTracker *t, const GmTracker *key)
{
  int64_t i;
  key = gm_realize (r, key);
  if (gm_constant_int (r, key, &i)) {
    if (i < -(int64_t) t->n || i >= (int64_t) t->n)
      return gm_raise_new (r, PyExc_IndexError, "tuple index out of range");
    return t->items[i < 0 ? i + t->n : i];
  }
  PyObject *slice = key->kind == &gm_kind_slice ? gm_constant (r, key) : NULL;
  Py_ssize_t start, stop, step;
  if (slice == NULL || t->number || PySlice_Unpack (slice, &start, &stop, &step) < 0)
    return gm_record_break (r, GM_BREAK_SUBSCRIPT, gm_type_text (r, t), gm_type_text (r, key));
  Py_ssize_t n = PySlice_AdjustIndices (t->n, &start, &stop, step);
  if (start == 0 && step == 1 && n == t->n && t->data == NULL) /* one object, as in CPython */
    return t;
  const GmTracker **items = gm_tracker_array (r, (uint32_t) n);
  for (Py_ssize_t k = 0; k < n; k++)
    items[k] = t->items[start + k * step];
  /* a plain tuple also for a named tuple, as tuple's own subscript returns */
  return part_of (r, t->data == gm_host.size_type, items, (uint32_t) n);
}

static const GmTracker *
method_index (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  int64_t from, to;
  if (!gm_args_range (r, "tuple", args, t->n, &from, &to))
    return &gm_tracker_poison;
  for (int64_t i = from; i < to && !r->stop; i++)
    if (gm_same_or_equal (r, t->items[i], args->args[0]))
      return gm_from_int (r, i);
  return gm_raise_new (r, PyExc_ValueError, "tuple.index(x): x not in tuple");
}

static const GmTracker *
method_count (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  int64_t n = 0;
  if (!gm_args_plain (r, "count", args, 1, 1))
    return &gm_tracker_poison;
  for (uint32_t i = 0; i < t->n && !r->stop; i++)
    n += gm_same_or_equal (r, t->items[i], args->args[0]);
  return gm_from_int (r, n);
}

static const GmTracker *
method_hash (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  Py_hash_t hash;
  if (!gm_args_plain (r, "__hash__", args, 0, 0))
    return &gm_tracker_poison;
  return gm_tuple_hash (r, t, &hash) ? gm_from_int (r, hash)
                                     : gm_record_break (r, GM_BREAK_CALL_ID, "hash()");
}

static const GmTracker *
method_numel (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  int64_t n = 1, size;
  for (uint32_t i = 0; i < t->n; i++) {
    if (!gm_constant_int (r, t->items[i], &size))
      return gm_record_break (r, GM_BREAK_CALL_METHOD, "numel", "Size");
    n *= size;
  }
  return gm_from_int (r, n);
}

static const GmMethodRow methods[] = {
  { "index", method_index }, { "count", method_count }, { "__hash__", method_hash }, { NULL, NULL }
};
static const GmMethodRow size_methods[] = { { "numel", method_numel }, { NULL, NULL } };

static const GmTracker *
getattr (GmRecorder *r, const GmTracker *t, PyObject *name)
{
  if (t->number) {
    g_auto (GStrv) words = g_strsplit (t->data, " ", -1);
    for (uint32_t i = 0; i < t->n && words[i + 1]; i++)
      if (PyUnicode_CompareWithASCIIString (name, words[i + 1]) == 0)
        return t->items[i];
  } else if (t->data) {
    PyTypeObject *type = (PyTypeObject *) t->data;
    PyObject *fields = fields_of (type);
    for (Py_ssize_t i = 0; fields && i < PyTuple_GET_SIZE (fields) && i < t->n; i++)
      if (gm_str_equal (PyTuple_GET_ITEM (fields, i), name))
        return t->items[i];
    const GmTracker *bound =
        type == gm_host.size_type ? gm_method_row (r, size_methods, t, name) : NULL;
    if (bound)
      return bound;
    const GmTracker *field = is_struct_sequence (type) ? struct_field (t, name) : NULL;
    if (field)
      return field;
    PyObject *found = fields ? _PyType_Lookup (type, name) : NULL;
    if (found && found != _PyType_Lookup (&PyTuple_Type, name)) { /* an override of the class */
      found = gm_class_lookup (r, type, name);
      return gm_class_value (r, type, name, found, t);
    }
  }
  const GmTracker *bound = gm_method_row (r, methods, t, name);
  if (bound || (bound = gm_operator_method (r, t, name)) != NULL
      || (_PyType_Lookup (&PyTuple_Type, name) == NULL && t->data == NULL))
    return bound;
  return gm_record_break (r, GM_BREAK_ATTRIBUTE, PyUnicode_AsUTF8 (name), gm_type_text (r, t));
}

static const GmTracker *
binary (GmRecorder *r, GmBinary op, const GmTracker *t, const GmTracker *other, bool reflected,
        bool inplace)
{
  int64_t times;
  if (t->number || (t->data && t->data != gm_host.size_type))
    return NULL;
  bool size = t->data || (other->kind == &gm_kind_tuple && other->data);
  if (op == GM_BIN_ADD && !reflected && other->kind == &gm_kind_tuple && !other->number
      && (other->data == NULL || other->data == gm_host.size_type)) {
    const GmTracker **items = gm_tracker_array (r, t->n + other->n);
    gm_tracker_copy (items, t->items, t->n);
    gm_tracker_copy (items + t->n, other->items, other->n);
    if (!size && (t->n == 0 || other->n == 0)) /* one object, as in CPython */
      return t->n ? t : other;
    return part_of (r, size, items, t->n + other->n);
  }
  if (op == GM_BIN_MUL && gm_constant_int (r, other, &times) && times <= 10000) {
    uint32_t n = times > 0 ? (uint32_t) times * t->n : 0;
    if (times == 1 && !size)
      return t;
    const GmTracker **items = gm_tracker_array (r, n);
    for (uint32_t i = 0; i < n; i++)
      items[i] = t->items[i % t->n];
    return part_of (r, size, items, n);
  }
  return NULL;
}

static PyObject *
constant (GmRecorder *r, const GmTracker *t)
{
  bool size = t->data == gm_host.size_type;
  if (t->number || (t->data && !size))
    return NULL;
  if (size && t->real)
    return Py_NewRef (t->real);
  PyObject *tuple = PyTuple_New (t->n);
  for (uint32_t i = 0; i < t->n; i++) {
    PyObject *o = gm_constant (r, t->items[i]);
    if (o == NULL) {
      Py_DECREF (tuple);
      return NULL;
    }
    PyTuple_SET_ITEM (tuple, i, Py_NewRef (o));
  }
  if (size)
    Py_SETREF (tuple, PyObject_CallOneArg ((PyObject *) gm_host.size_type, tuple));
  return tuple;
}

/* Returns a real plain tuple of the same items, owned by the recorder, because tuples are compared
 * and hashed regardless of their classes; NULL: an item is no constant. */
static PyObject *
plain_constant (GmRecorder *r, const GmTracker *t)
{
  PyObject *plain = constant (r, gm_tuple_new (r, t->items, t->n));
  return plain ? gm_record_take (r, plain) : NULL;
}

bool
gm_tuple_hash (GmRecorder *r, const GmTracker *t, Py_hash_t *hash)
{
  PyObject *plain = t->number ? NULL : plain_constant (r, t);
  *hash = plain ? PyObject_Hash (plain) : -1;
  PyErr_Clear (); /* an item cannot be hashed, for which Python raises */
  return *hash != -1;
}

/* Compares tuples: for == and !=, item by item as containers do; an order only between constants,
 * else NULL. */
static const GmTracker *
compare (GmRecorder *r, int op, const GmTracker *t, const GmTracker *other)
{
  if (other->kind != &gm_kind_tuple)
    return NULL;
  if (op != Py_EQ && op != Py_NE) {
    PyObject *a = plain_constant (r, t), *b = plain_constant (r, other);
    return a && b ? gm_from_constant_take (r, PyObject_RichCompare (a, b, op)) : NULL;
  }
  bool same = t->n == other->n;
  for (uint32_t i = 0; i < t->n && same; i++) {
    const GmTracker *a = gm_realize (r, t->items[i]), *b = gm_realize (r, other->items[i]);
    if (r->stop)
      return &gm_tracker_poison;
    same = gm_same_or_equal (r, a, b);
  }
  return gm_from_bool (r, same == (op == Py_EQ));
}

static const GmTracker *
contains (GmRecorder *r, const GmTracker *t, const GmTracker *item)
{
  item = gm_realize (r, item);
  for (uint32_t i = 0; i < t->n && !r->stop; i++) {
    const GmTracker *a = gm_realize (r, t->items[i]);
    if (gm_same_or_equal (r, a, item))
      return gm_from_bool (r, !r->stop);
  }
  return gm_from_bool (r, false);
}

static bool
build (GmResidualBuilder *b, const GmTracker *t)
{
  PyObject *maker = NULL;
  GmRecorder *r = gm_residual_recorder (b);
  if (gm_residual_cached (b, t))
    return true;
  if (t->number) {
    maker = gm_host.fields_type ? gm_host.fields_type (t->data) : NULL;
    if (maker == NULL)
      return false;
  } else if (t->data) {
    maker = (PyObject *) t->data;
  }
  if (maker && !t->number
      && t->data != gm_host.size_type) { /* tuple.__new__ (type, items) is emitted, because the
                                            class's own __new__ must not run again */
    gm_residual_emit (b, GM_INSN_PUSH_NULL, 0, NULL);
    gm_residual_emit (
        b, GM_INSN_LOAD_CONST, 0,
        gm_record_take (r, PyObject_GetAttrString ((PyObject *) &PyTuple_Type, "__new__")));
    gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, maker);
  } else if (maker) {
    gm_residual_emit (b, GM_INSN_PUSH_NULL, 0, NULL);
    gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, maker);
  }
  for (uint32_t i = 0; i < t->n; i++)
    gm_residual_value (b, t->items[i]);
  gm_residual_emit (b, GM_INSN_BUILD_TUPLE, t->n, NULL);
  if (maker)
    gm_residual_emit (b, GM_INSN_CALL, t->number || t->data == gm_host.size_type ? 1 : 2, NULL);
  gm_residual_allocated (b, t);
  gm_residual_emit (b, GM_INSN_LOAD_FAST, gm_residual_temp (b, t), NULL);
  return true;
}

const GmTrackerKind gm_kind_tuple = {
  .name = "tuple",
  .type = type,
  .iter = iter,
  .getattr = getattr,
  .getitem = getitem,
  .binary = binary,
  .compare = compare,
  .len = len,
  .contains = contains,
  .constant = constant,
  .build = build,
};
