/* SPDX-License-Identifier: Apache-2.0
 * tracker_bytearray.c -- bytearrays: contents are the bytes of an object.
 *
 * CPython itself does everything, on a copy, with arguments that are constants; a change of an
 * existing bytearray is replayed with the same arguments. An existing bytearray is guarded by all
 * of its bytes, and by having no memoryview, which would forbid changes of its size.
 */
#include "core/trace/kinds.h"
#include "core/trace/exception.h"
#include "core/trace/iterator.h"
#include "core/trace/instance.h"

enum { MOST_BYTES = 1 << 16 };

static const GmTracker *
bytearray_add (GmRecorder *r, PyObject *real, const GmSource *source, PyObject *bytes)
{
  uint32_t id = gm_heap_add (&r->heap, 1);
  const GmTracker *t = gm_tracker_add (
      r, &(GmTracker){ .kind = &gm_kind_bytearray, .real = real, .source = source, .id = id });
  gm_contents_set (r, t, gm_tracker (r, .kind = &gm_kind_contents, .real = bytes));
  return t;
}

/* Returns the bytes of the bytearray `o` as a bytes object that the recorder owns. */
static PyObject *
bytes_of (GmRecorder *r, PyObject *o)
{
  return gm_record_take (
      r, PyBytes_FromStringAndSize (PyByteArray_AS_STRING (o), PyByteArray_GET_SIZE (o)));
}

const GmTracker *
gm_bytearray_new (GmRecorder *r, PyObject *value)
{
  if (PyByteArray_GET_SIZE (value) > MOST_BYTES)
    return gm_record_break (r, GM_BREAK_VALUE_KIND, "bytearray of many bytes");
  return bytearray_add (r, NULL, NULL, bytes_of (r, value));
}

const GmTracker *
gm_wrap_bytearray (GmRecorder *r, PyObject *real, const GmSource *source)
{
  if (PyByteArray_GET_SIZE (real) > MOST_BYTES || ((PyByteArrayObject *) real)->ob_exports)
    return gm_record_break (r, GM_BREAK_VALUE_KIND,
                            "bytearray of many bytes, or with a memoryview");
  PyObject *bytes = bytes_of (r, real);
  gm_guard (r, TYPE, source, .obj = (PyObject *) &PyByteArray_Type);
  gm_guard (r, BYTES, source, .obj = bytes);
  const GmTracker *t = bytearray_add (r, real, source, bytes);
  gm_know (r, t);
  return t;
}

static PyObject *
held (GmRecorder *r, const GmTracker *t)
{
  return gm_contents_of (r, t)->real;
}

/* Returns a bytearray with t's present bytes, for CPython to work on; the recorder owns it. */
static PyObject *
copy_of (GmRecorder *r, const GmTracker *t)
{
  return gm_record_take (r, PyByteArray_FromObject (held (r, t)));
}

/* Returns the argument `arg` of the method `name` as a real object; `copy`, if it is t itself.
 * Borrowed; NULL, after a break: it is no constant. */
static PyObject *
argument (GmRecorder *r, const GmTracker *t, PyObject *copy, const GmTracker *arg, const char *name)
{
  arg = gm_realize (r, arg);
  PyObject *o = r->stop ? NULL : arg == t ? copy : gm_constant (r, gm_builtin_plain_value (r, arg));
  if (o == NULL && !r->stop)
    gm_record_break (r, GM_BREAK_CALL_METHOD, name, "bytearray");
  return o;
}

/* Makes the bytes of `copy` the contents of t; true if they differ from t's. */
static bool
changed (GmRecorder *r, const GmTracker *t, PyObject *copy)
{
  PyObject *now = bytes_of (r, copy), *old = held (r, t);
  if (PyBytes_GET_SIZE (now) == PyBytes_GET_SIZE (old)
      && memcmp (PyBytes_AS_STRING (now), PyBytes_AS_STRING (old), (size_t) PyBytes_GET_SIZE (now))
             == 0)
    return false;
  if (PyBytes_GET_SIZE (now) > MOST_BYTES)
    gm_record_break (r, GM_BREAK_VALUE_KIND, "bytearray of many bytes");
  gm_contents_set (r, t, gm_tracker (r, .kind = &gm_kind_contents, .real = now));
  return true;
}

/* Records an effect that replaces all bytes of t by its present ones. Without a memoryview no
 * program can see the difference from the program's own change. */
static void
replace (GmRecorder *r, const GmTracker *t)
{
  const GmTracker *args[3] = { t, gm_slice_new (r, gm_none (r), gm_none (r), gm_none (r)),
                               gm_from_constant (r, held (r, t)) };
  if (t->real)
    gm_effect (r, GM_EFFECT_CALL,
               PyDict_GetItemString (gm_type_dict (&PyByteArray_Type), "__setitem__"), NULL, args,
               3);
}

/* Returns the result of a call that CPython has run on `copy`, as a tracker, and records the change
 * of t; steals `result`. NULL `result`: the call raised, which becomes a break. */
static const GmTracker *
result_of (GmRecorder *r, const GmTracker *t, PyObject *copy, PyObject *result)
{
  if (result)
    gm_record_take (r, result);
  if (changed (r, t, copy))
    replace (r, t);
  if (r->stop)
    return &gm_tracker_poison;
  return result == copy ? t
         : result       ? gm_from_constant (r, result)
                        : gm_from_constant_take (r, NULL);
}

const GmTracker *
gm_bytearray_call (GmRecorder *r, const GmTracker *t, PyObject *name, const GmCallArgs *args)
{
  uint32_t n = args->n + gm_args_n_named (args);
  g_autofree PyObject **values = g_new0 (PyObject *, n + 1);
  PyObject *copy = copy_of (r, t);
  for (uint32_t i = 0; i < n; i++)
    if ((values[i] = argument (r, t, copy, args->args[i], PyUnicode_AsUTF8 (name))) == NULL)
      return &gm_tracker_poison;
  PyObject *method = gm_record_take (r, PyObject_GetAttr (copy, name));
  return result_of (r, t, copy, PyObject_Vectorcall (method, values, args->n, args->names));
}

const GmTracker *
gm_bytearray_made (GmRecorder *r, const GmCallArgs *args)
{
  int64_t size;
  if (args->n == 1 && !args->names && gm_constant_int (r, args->args[0], &size)
      && size > MOST_BYTES)
    return NULL;
  return gm_builtin_fold (r, (PyObject *) &PyByteArray_Type, args);
}

static PyTypeObject *
type (GmRecorder *r, const GmTracker *t)
{
  return &PyByteArray_Type;
}

static int64_t
len (GmRecorder *r, const GmTracker *t)
{
  return PyBytes_GET_SIZE (held (r, t));
}

static const GmTracker *
getattr (GmRecorder *r, const GmTracker *t, PyObject *name)
{
  PyObject *found = _PyType_Lookup (&PyByteArray_Type, name);
  bool method =
      found
      && (Py_IS_TYPE (found, &PyMethodDescr_Type) || Py_IS_TYPE (found, &PyWrapperDescr_Type));
  const char *text = PyUnicode_AsUTF8 (name);
  if (found == NULL)
    return NULL;
  static const char *const others[] = { "__init__",   "__iter__",  "__reduce__", "__reduce_ex__",
                                        "__sizeof__", "__alloc__", "__dir__" };
  for (uint32_t i = 0; i < G_N_ELEMENTS (others); i++)
    method = method && strcmp (text, others[i]) != 0;
  return method && PyDict_GetItem (gm_type_dict (&PyByteArray_Type), name)
             ? gm_builtin_method (r, text, t)
             : gm_record_break (r, GM_BREAK_CALL_METHOD, text, "bytearray");
}

static const GmTracker *
getitem (GmRecorder *r, const GmTracker *t, const GmTracker *key)
{
  PyObject *copy = copy_of (r, t), *o = argument (r, t, copy, key, "__getitem__");
  return o ? result_of (r, t, copy, PyObject_GetItem (copy, o)) : &gm_tracker_poison;
}

static void
setitem (GmRecorder *r, const GmTracker *t, const GmTracker *key, const GmTracker *value)
{
  PyObject *copy = copy_of (r, t), *o = argument (r, t, copy, key, "__setitem__");
  PyObject *v = o && value ? argument (r, t, copy, value, "__setitem__") : NULL;
  if (o == NULL || (value && v == NULL))
    return;
  int failed = v ? PyObject_SetItem (copy, o, v) : PyObject_DelItem (copy, o);
  result_of (r, t, copy, failed ? NULL : Py_NewRef (Py_None));
}

static const GmTracker *
contains (GmRecorder *r, const GmTracker *t, const GmTracker *item)
{
  PyObject *copy = copy_of (r, t), *o = argument (r, t, copy, item, "__contains__");
  int found = o ? PySequence_Contains (copy, o) : 0;
  return o == NULL   ? &gm_tracker_poison
         : found < 0 ? gm_from_constant_take (r, NULL)
                     : gm_from_bool (r, found);
}

static const GmTracker *
binary (GmRecorder *r, GmBinary op, const GmTracker *t, const GmTracker *other, bool reflected,
        bool inplace)
{
  PyObject *copy = copy_of (r, t), *o = other->kind == &gm_kind_constant
                                                || other->kind == &gm_kind_bytearray
                                                || op == GM_BIN_MOD
                                            ? argument (r, t, copy, other, "%")
                                            : NULL;
  if (o == NULL || (op != GM_BIN_ADD && op != GM_BIN_MUL && op != GM_BIN_MOD)
      || (PyLong_Check (o) && PyLong_AsLong (o) > MOST_BYTES))
    return r->stop ? &gm_tracker_poison : NULL;
  PyObject *a = reflected ? o : copy, *b = reflected ? copy : o;
  PyObject *v = op == GM_BIN_MOD   ? PyNumber_Remainder (a, b)
                : op == GM_BIN_ADD ? inplace ? PyNumber_InPlaceAdd (a, b) : PyNumber_Add (a, b)
                : inplace ? PyNumber_InPlaceMultiply (a, b)
                                   : PyNumber_Multiply (a, b);
  return result_of (r, t, copy, v);
}

static const GmTracker *
compare (GmRecorder *r, int op, const GmTracker *t, const GmTracker *other)
{
  if (other->kind != &gm_kind_constant && other->kind != &gm_kind_bytearray)
    return NULL;
  PyObject *copy = copy_of (r, t), *o = argument (r, t, copy, other, "__eq__");
  return o ? gm_from_constant_take (r, PyObject_RichCompare (copy, o, op)) : &gm_tracker_poison;
}

static const GmTracker *
iter (GmRecorder *r, const GmTracker *t)
{
  return gm_iterator_over (r, t);
}

const GmTracker *
gm_bytearray_item (GmRecorder *r, const GmTracker *t, int64_t i)
{
  return i < len (r, t) ? gm_from_int (r, (uint8_t) PyBytes_AS_STRING (held (r, t))[i]) : NULL;
}

static PyObject *
constant (GmRecorder *r, const GmTracker *t)
{
  return PyByteArray_FromObject (held (r, t));
}

static bool
build (GmResidualBuilder *b, const GmTracker *t)
{
  gm_residual_emit (b, GM_INSN_PUSH_NULL, 0, NULL);
  gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, (PyObject *) &PyByteArray_Type);
  gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, held (gm_residual_recorder (b), t));
  gm_residual_emit (b, GM_INSN_CALL, 1, NULL);
  return true;
}

const GmTrackerKind gm_kind_bytearray = {
  .name = "bytearray",
  .type = type,
  .iter = iter,
  .getattr = getattr,
  .getitem = getitem,
  .setitem = setitem,
  .binary = binary,
  .compare = compare,
  .len = len,
  .contains = contains,
  .constant = constant,
  .build = build,
  .builds_anew = true,
};
