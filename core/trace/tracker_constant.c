/* SPDX-License-Identifier: Apache-2.0
 * tracker_constant.c -- values known completely: None, bool, int, float, complex, str, bytes,
 * Ellipsis, range, code, dtypes, devices.
 *
 * An operation on constants runs CPython's own on the values: they are of exact builtin types, so
 * no user code runs.  If it raises, plain Python will raise the same: a break.
 */
#include "core/trace/kinds.h"
#include "core/guard/guard.h"
#include "core/trace/number.h"
#include "core/trace/instance.h"
#include "core/trace/traced_size.h"

#include <string.h>

const GmTracker *
gm_wrap_constant (GmRecorder *r, PyObject *real, const GmSource *source)
{
  gm_record_keep (r, real);
  if (source->kind == GM_SOURCE_CONST)
    return gm_tracker (r, .kind = &gm_kind_constant, .real = real, .source = NULL);
  if (PyLong_CheckExact (real)) {
    int overflow;
    long long i = PyLong_AsLongLongAndOverflow (real, &overflow);
    int64_t size;
    if (overflow)
      gm_guard (r, EQUALS, source, .obj = real);
    else if (gm_size_int (r, real, source, &size))
      return gm_tracker (r, .kind = &gm_kind_size, .number = size, .source = source);
    else
      gm_guard (r, INT, source, .index = i, .obj = real);
  } else if (PyFloat_CheckExact (real)) {
    const GmTracker *t = gm_float_argument (r, real, source);
    if (t)
      return t;
    gm_guard (r, FLOAT, source, .index = gm_float_bits (real), .obj = real);
  } else if (PyUnicode_CheckExact (real)) {
    gm_guard (r, STR, source, .obj = real);
  } else if (PyBytes_CheckExact (real) || PyComplex_CheckExact (real) || PyRange_Check (real)) {
    gm_guard (r, EQUALS, source, .obj = real);
  } else {
    gm_guard (r, IS, source, .obj = real);
  }
  return gm_tracker (r, .kind = &gm_kind_constant, .real = real, .source = source);
}

const GmTracker *
gm_from_constant (GmRecorder *r, PyObject *value)
{
  if (r->stop)
    return &gm_tracker_poison;
  PyTypeObject *type = Py_TYPE (value);
  if (gm_is_constant_type (type) || type == gm_host.dtype_type
      || (gm_host.device_type && type == gm_host.device_type)
      || strcmp (type->tp_name, "types.UnionType") == 0) {
    gm_record_keep (r, value);
    return gm_tracker (r, .kind = &gm_kind_constant, .real = value);
  }
  if (type == &PySlice_Type) {
    PySliceObject *s = (PySliceObject *) value;
    return gm_slice_new (r, gm_from_constant (r, s->start), gm_from_constant (r, s->stop),
                         gm_from_constant (r, s->step));
  }
  if (type == &PyByteArray_Type)
    return gm_bytearray_new (r, value);
  bool holds = type == &PyTuple_Type || type == &PyList_Type || type == &PyDict_Type
               || type == &PyFrozenSet_Type || type == &PySet_Type;
  if (holds && !gm_record_limit_items (r, PyObject_Size (value)))
    return &gm_tracker_poison;
  if (type == &PyTuple_Type || type == &PyList_Type) {
    uint32_t n = (uint32_t) PySequence_Fast_GET_SIZE (value);
    const GmTracker **items = gm_tracker_array (r, n);
    for (uint32_t i = 0; i < n; i++)
      items[i] = gm_from_constant (r, PySequence_Fast_GET_ITEM (value, i));
    return type == &PyTuple_Type ? gm_tuple_new (r, items, n) : gm_list_new (r, items, n);
  }
  if (type == &PyDict_Type) {
    const GmTracker *d = gm_dict_new (r);
    Py_ssize_t pos = 0;
    PyObject *k, *v;
    while (PyDict_Next (value, &pos, &k, &v))
      gm_dict_store (r, d, gm_from_constant (r, k), gm_from_constant (r, v));
    return d;
  }
  if (type == &PyFrozenSet_Type || type == &PySet_Type) {
    g_autoptr (GPtrArray) items = g_ptr_array_new ();
    Py_ssize_t pos = 0;
    PyObject *k;
    Py_hash_t h;
    while (_PySet_NextEntry (value, &pos, &k, &h))
      g_ptr_array_add (items, (gpointer) gm_from_constant (r, k));
    const GmTracker *s = gm_set_new (r, (const GmTracker *const *) items->pdata, items->len);
    if (type == &PyFrozenSet_Type) { /* a code constant: immutable, keeps its own iteration order */
      gm_record_keep (r, value);
      return gm_tracker_add (
          r, &(GmTracker){ .kind = &gm_kind_set, .real = value, .id = s->id, .number = 1 });
    }
    return s;
  }
  return gm_record_break (r, GM_BREAK_VALUE_KIND, type->tp_name);
}

const GmTracker *
gm_from_constant_take (GmRecorder *r, PyObject *value)
{
  if (value == NULL)
    return gm_record_break_exception (r);
  return gm_from_constant (r, gm_record_take (r, value));
}

const GmTracker *
gm_from_bool (GmRecorder *r, bool b)
{
  return gm_tracker (r, .kind = &gm_kind_constant, .real = b ? Py_True : Py_False);
}

const GmTracker *
gm_from_int (GmRecorder *r, int64_t i)
{
  return gm_tracker (r, .kind = &gm_kind_constant,
                     .real = gm_record_take (r, PyLong_FromLongLong (i)));
}

const GmTracker *
gm_none (GmRecorder *r)
{
  return gm_tracker (r, .kind = &gm_kind_constant, .real = Py_None);
}

/* -- Operations ------------------------------------------------------------ */

static int
truth (GmRecorder *r, const GmTracker *t)
{
  int b = PyObject_IsTrue (t->real);
  if (b < 0)
    gm_record_break_exception (r);
  return b > 0;
}

static const GmTracker *
iter (GmRecorder *r, const GmTracker *t)
{
  if (!PyUnicode_Check (t->real) && !PyBytes_Check (t->real) && !PyRange_Check (t->real))
    return gm_record_break (r, GM_BREAK_ITERATION, gm_type_text (r, t));
  return gm_iterator_over (r, t);
}

static int64_t
len (GmRecorder *r, const GmTracker *t)
{
  Py_ssize_t n = PyObject_Size (t->real);
  if (n < 0)
    gm_record_break_exception (r);
  return n;
}

static const GmTracker *
getitem (GmRecorder *r, const GmTracker *t, const GmTracker *key)
{
  PyObject *k = gm_constant (r, key);
  if (k == NULL)
    return gm_record_break (r, GM_BREAK_SUBSCRIPT, gm_type_text (r, t), gm_type_text (r, key));
  return gm_from_constant_take (r, PyObject_GetItem (t->real, k));
}

/* Returns the attribute `name` of a builtin constant: a method, or a number such as `real`. */
static const GmTracker *
getattr (GmRecorder *r, const GmTracker *t, PyObject *name)
{
  PyObject *v = PyObject_GetAttr (t->real, name);
  if (v == NULL) {
    PyErr_Clear ();
    return NULL;
  }
  gm_record_take (r, v);
  if (gm_is_constant_type (Py_TYPE (v)) || (PyCode_Check (t->real) && PyTuple_CheckExact (v)))
    return gm_from_constant (r, v);
  if (PyCFunction_Check (v) || Py_IS_TYPE (v, gm_host.method_wrapper_type))
    return gm_builtin_method (r, PyUnicode_AsUTF8 (name), t);
  return gm_record_break (r, GM_BREAK_ATTRIBUTE, PyUnicode_AsUTF8 (name), gm_type_text (r, t));
}

static const GmTracker *
binary (GmRecorder *r, GmBinary op, const GmTracker *t, const GmTracker *other, bool reflected,
        bool inplace)
{
  typedef PyObject *(*Function) (PyObject *, PyObject *);
  /* The in-place functions raise errors with other messages. */
  static const Function functions[2][GM_N_BIN + 1] = {
    { PyNumber_Add, PyNumber_And, PyNumber_FloorDivide, PyNumber_Lshift, PyNumber_MatrixMultiply,
      PyNumber_Multiply, PyNumber_Remainder, PyNumber_Or, NULL, PyNumber_Rshift, PyNumber_Subtract,
      PyNumber_TrueDivide, PyNumber_Xor, PyNumber_Divmod },
    { PyNumber_InPlaceAdd, PyNumber_InPlaceAnd, PyNumber_InPlaceFloorDivide, PyNumber_InPlaceLshift,
      PyNumber_InPlaceMatrixMultiply, PyNumber_InPlaceMultiply, PyNumber_InPlaceRemainder,
      PyNumber_InPlaceOr, NULL, PyNumber_InPlaceRshift, PyNumber_InPlaceSubtract,
      PyNumber_InPlaceTrueDivide, PyNumber_InPlaceXor },
  };
  if (other->kind != &gm_kind_constant
      && !(op == GM_BIN_MOD && PyUnicode_Check (t->real) && !reflected))
    return NULL;
  if (other->kind == &gm_kind_object
      && PyType_IsSubtype ((PyTypeObject *) other->data, Py_TYPE (t->real))
      && gm_object_how (r, other, "__rmod__", NULL) != GM_HOW_C)
    return NULL; /* the reflected method of a subclass is called first */
  PyObject *o = gm_constant (r, other);
  if (o == NULL)
    return op == GM_BIN_MOD && !reflected && !r->stop ? gm_percent (r, t, other) : NULL;
  PyObject *a = reflected ? o : t->real, *b = reflected ? t->real : o;
  if (op == GM_BIN_POW || op == GM_BIN_LSHIFT
      || op == GM_BIN_MUL) { /* operations whose values grow without bound are left to Python */
    int64_t x, y;
    if (gm_constant_int (r, other, &x) && gm_constant_int (r, t, &y) && PyLong_Check (a)
        && PyLong_Check (b) && op != GM_BIN_MUL && (x > 4096 || y > (int64_t) 1 << 32))
      return NULL;
    if (op == GM_BIN_MUL && (PySequence_Check (a) || PySequence_Check (b))
        && ((gm_constant_int (r, other, &x) && x > 100000)
            || (gm_constant_int (r, t, &y) && y > 100000)))
      return NULL;
  }
  if (op == GM_BIN_POW)
    return gm_from_constant_take (r, PyNumber_Power (a, b, Py_None));
  return gm_from_constant_take (r, functions[inplace][op](a, b));
}

static const GmTracker *
unary (GmRecorder *r, GmUnary op, const GmTracker *t)
{
  static PyObject *(*const functions[]) (PyObject *) = { PyNumber_Positive, PyNumber_Negative,
                                                         PyNumber_Invert };
  return gm_from_constant_take (r, functions[op](t->real));
}

static const GmTracker *
compare (GmRecorder *r, int op, const GmTracker *t, const GmTracker *other)
{
  if (other->kind != &gm_kind_constant)
    return NULL;
  return gm_from_constant_take (r, PyObject_RichCompare (t->real, other->real, op));
}

static const GmTracker *
contains (GmRecorder *r, const GmTracker *t, const GmTracker *item)
{
  PyObject *o = gm_constant (r, item);
  if (o == NULL)
    return gm_record_break (r, GM_BREAK_CONTAINS, gm_type_text (r, t));
  int found = PySequence_Contains (t->real, o);
  return found < 0 ? gm_record_break_exception (r) : gm_from_bool (r, found);
}

static PyObject *
constant (GmRecorder *r, const GmTracker *t)
{
  return Py_NewRef (t->real);
}

static bool
build (GmResidualBuilder *b, const GmTracker *t)
{
  gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, t->real);
  return true;
}

const GmTrackerKind gm_kind_constant = {
  .name = "constant",
  .truth = truth,
  .iter = iter,
  .getattr = getattr,
  .getitem = getitem,
  .binary = binary,
  .unary = unary,
  .compare = compare,
  .len = len,
  .contains = contains,
  .constant = constant,
  .build = build,
};
