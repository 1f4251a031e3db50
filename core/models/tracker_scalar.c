/* SPDX-License-Identifier: Apache-2.0
 * tracker_scalar.c -- numpy's scalars: constants, known by type and value, that keep their
 * identity.
 *
 * Item 0 is the Python number that gramme's functions read of a scalar. It stands for the scalar if
 * the other operand is a tensor, and in bool (), int () and float (); comparisons are numpy's own.
 * numpy's arithmetic may warn by settings that no guard checks, and texts follow its print options:
 * those break. numpy is not imported; its types are recognized by name and size.
 */
#include "core/models/models_private.h"

#include <math.h>
#include <string.h>

static const struct {
  const char *name;
  uint32_t size; /* size of the value, which follows the object's header */
  char kind;     /* b, i, f */
} rows[] = {
  { "numpy.bool_", 1, 'b' },   { "numpy.bool", 1, 'b' },    { "numpy.int8", 1, 'i' },
  { "numpy.int16", 2, 'i' },   { "numpy.int32", 4, 'i' },   { "numpy.int64", 8, 'i' },
  { "numpy.uint8", 1, 'i' },   { "numpy.uint16", 2, 'i' },  { "numpy.uint32", 4, 'i' },
  { "numpy.uint64", 8, 'i' },  { "numpy.float16", 2, 'f' }, { "numpy.float32", 4, 'f' },
  { "numpy.float64", 8, 'f' },
};

static int
row_of (PyTypeObject *type)
{
  if (strncmp (type->tp_name, "numpy.", 6) != 0 || gm_is_user_type (type))
    return -1;
  for (size_t i = 0; i < G_N_ELEMENTS (rows); i++)
    if (strcmp (type->tp_name, rows[i].name) == 0)
      return type->tp_basicsize == (Py_ssize_t) sizeof (PyObject) + 8 ? (int) i : -1;
  return -1;
}

bool
gm_is_scalar (PyTypeObject *type)
{
  return row_of (type) >= 0;
}

const GmTracker *
gm_wrap_scalar (GmRecorder *r, PyObject *real, const GmSource *source)
{
  int row = row_of (Py_TYPE (real));
  PyObject *plain = rows[row].kind == 'i'   ? PyNumber_Index (real)
                    : rows[row].kind == 'f' ? PyNumber_Float (real)
                                            : PyBool_FromLong (PyObject_IsTrue (real) == 1);
  if (plain && rows[row].kind == 'f' && !PyFloat_CheckExact (plain))
    Py_SETREF (plain, PyFloat_FromDouble (PyFloat_AsDouble (plain)));
  if (plain == NULL)
    return gm_record_break_exception (r);
  const GmTracker **items = gm_tracker_array (r, 1);
  items[0] = gm_from_constant (r, gm_record_take (r, plain));
  if (source->kind != GM_SOURCE_CONST)
    gm_guard (r, NUMBER, source, .obj = real, .index = rows[row].size);
  const GmTracker *t = gm_tracker (r, .kind = &gm_kind_scalar, .real = real, .source = source,
                                   .items = items, .n = 1);
  gm_know (r, t);
  return t;
}

const GmTracker *
gm_scalar_number (const GmTracker *t)
{
  return t->kind == &gm_kind_scalar ? t->items[0] : t;
}

static int
truth (GmRecorder *r, const GmTracker *t)
{
  return gm_truth (r, t->items[0]);
}

static const GmTracker *
compare (GmRecorder *r, int op, const GmTracker *t, const GmTracker *other)
{
  static const char *const names[] = { "<", "<=", "==", "!=", ">", ">=" };
  if (other->kind == &gm_kind_tensor)
    return NULL; /* the tensor's method decides */
  PyObject *plain = gm_scalar_number (other)->real, *own = t->items[0]->real;
  bool known = (other->kind == &gm_kind_constant || other->kind == &gm_kind_scalar)
               && (PyLong_Check (plain) || PyFloat_Check (plain))
               && !(PyFloat_Check (plain) && isnan (PyFloat_AS_DOUBLE (plain)))
               && !(PyFloat_Check (own) && isnan (PyFloat_AS_DOUBLE (own)));
  PyObject *v = known ? PyObject_RichCompare (t->real, other->real, op) : NULL;
  if (known && v == NULL)
    return gm_record_break_exception (r);
  if (v)
    gm_record_take (r, v);
  if (v && gm_is_scalar (Py_TYPE (v)))
    return gm_wrap (r, v, gm_source_const (r, v, "a comparison"));
  return gm_record_break (r, GM_BREAK_OPERATOR, names[op], gm_type_text (r, t),
                          gm_type_text (r, other));
}

static const GmTracker *
method_item (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  return gm_args_plain (r, "item", args, 0, 0) ? t->items[0] : &gm_tracker_poison;
}

static const GmMethodRow methods[] = { { "item", method_item },
                                       { "tolist", method_item },
                                       { NULL, NULL } };

static const GmTracker *
getattr (GmRecorder *r, const GmTracker *t, PyObject *name)
{
  const GmTracker *bound = gm_method_row (r, methods, t, name);
  return bound ? bound
               : gm_record_break (r, GM_BREAK_ATTRIBUTE, PyUnicode_AsUTF8 (name),
                                  gm_type_text (r, t));
}

const GmTrackerKind gm_kind_scalar = {
  .name = "number of numpy's",
  .truth = truth,
  .compare = compare,
  .getattr = getattr,
};
