/* SPDX-License-Identifier: Apache-2.0
 * tensor_number.c -- Python's operators on tensors: arithmetic, comparison, subscripts, iteration,
 * numbers.
 *
 * Each operator is a row of the API table, found once by name; the slots below only select the row.
 */
#include "core/objects/tensor_number.h"
#include "core/objects/api_object.h"
#include "core/objects/args.h"
#include "core/objects/construct.h"
#include "core/objects/mask_index.h"
#include "core/objects/overrides.h"

/* -- Rows of operators ------------------------------------------------------------------------- */

/* clang-format off */
#define OPERATORS(X) \
  X (add) X (sub) X (mul) X (div) X (floor_divide) X (remainder) X (pow) X (matmul) \
  X (bitwise_left_shift) X (bitwise_right_shift) \
  X (neg) X (abs) X (bitwise_and) X (bitwise_or) X (bitwise_xor) X (bitwise_not) \
  X (eq) X (ne) X (lt) X (le) X (gt) X (ge) X (getitem) X (setitem) X (unbind) X (any)
/* clang-format on */

typedef struct {
  const GmApi *api;
  GmOp op; /* see gm_py_api_op */
} Operator;

static struct {
#define X(name) Operator name;
  OPERATORS (X)
#undef X
} rows;

/* Finds the rows of all operators.  A missing row is a bug of the table, found when the module
 * is loaded. */
int
gm_py_init_number (PyObject *module)
{
  const char *missing = NULL;
#define X(name)                                                                                    \
  rows.name.api = gm_api_find (#name);                                                             \
  if (rows.name.api)                                                                               \
    rows.name.op = gm_py_api_op (rows.name.api);                                                   \
  else                                                                                             \
    missing = #name;
  OPERATORS (X)
#undef X
  if (missing)
    PyErr_Format (PyExc_ImportError, "the API table has no row \"%s\", which an operator needs",
                  missing);
  return missing ? -1 : 0;
}

/* -- Arithmetic -------------------------------------------------------------------------------- */

static inline PyObject *
binary (const Operator *o, bool inplace, PyObject *a, PyObject *b)
{
  return gm_py_api_binary (o->api, o->op, inplace, a, b);
}

static inline PyObject *
unary (const Operator *o, PyObject *a)
{
  return gm_py_api_unary (o->api, o->op, a);
}

#define BINARY(slot, row)                                                                          \
  static PyObject *slot (PyObject *a, PyObject *b)                                                 \
  {                                                                                                \
    return binary (&rows.row, false, a, b);                                                        \
  }                                                                                                \
  static PyObject *inplace_##slot (PyObject *a, PyObject *b)                                       \
  {                                                                                                \
    return binary (&rows.row, true, a, b);                                                         \
  }
BINARY (add, add)
BINARY (subtract, sub)
BINARY (multiply, mul)
BINARY (true_divide, div)
BINARY (floor_divide, floor_divide)
BINARY (remain, remainder)
BINARY (and, bitwise_and)
BINARY (or, bitwise_or)
BINARY (xor, bitwise_xor)
BINARY (left_shift, bitwise_left_shift)
BINARY (right_shift, bitwise_right_shift)
#undef BINARY

static PyObject *
matrix_multiply (PyObject *a, PyObject *b)
{
  return binary (&rows.matmul, false, a, b);
}

static PyObject *
power (PyObject *a, PyObject *b, PyObject *modulus)
{
  if (modulus != Py_None)
    return Py_NewRef (Py_NotImplemented);
  return binary (&rows.pow, false, a, b);
}

static PyObject *
inplace_power (PyObject *a, PyObject *b, PyObject *modulus)
{
  if (modulus != Py_None)
    return Py_NewRef (Py_NotImplemented);
  return binary (&rows.pow, true, a, b);
}

static PyObject *
negative (PyObject *a)
{
  return unary (&rows.neg, a);
}
static PyObject *
positive (PyObject *a)
{
  return Py_NewRef (a);
}
static PyObject *
absolute (PyObject *a)
{
  return unary (&rows.abs, a);
}
static PyObject *
invert (PyObject *a)
{
  return unary (&rows.bitwise_not, a);
}

PyObject *
gm_py_tensor_compare (PyObject *a, PyObject *b, int op)
{
  const Operator *o = op == Py_LT   ? &rows.lt
                      : op == Py_LE ? &rows.le
                      : op == Py_EQ ? &rows.eq
                      : op == Py_NE ? &rows.ne
                      : op == Py_GT ? &rows.gt
                                    : &rows.ge;
  return binary (o, false, a, b);
}

/* -- One element as a Python number ------------------------------------------------------------ */

bool
gm_py_tensor_scalar (PyObject *self, PyObject *error, const char *what, GmScalar *out)
{
  const GmTensor *t = gm_py_tensor_get (self);
  if (gm_meta_numel (&t->meta) != 1) {
    g_autofree char *shape = gm_shape_text (t->meta.ndim, t->meta.sizes);
    PyErr_Format (error, "%s needs a tensor of one element, not of shape %s", what, shape);
    return false;
  }
  *out = gm_tensor_get (t, (const int64_t[GM_MAX_DIMS]){ 0 });
  return true;
}

static int
truth (PyObject *self)
{
  GmScalar s;
  const GmTensor *t = gm_py_tensor_get (self);
  int64_t n = gm_meta_numel (&t->meta);
  if (n != 1) {
    g_autofree char *shape = gm_shape_text (t->meta.ndim, t->meta.sizes);
    PyErr_Format (PyExc_RuntimeError,
                  "the truth value of a tensor of shape %s is ambiguous: use .any(), .all() or "
                  "gramme.equal()",
                  shape);
    return -1;
  }
  if (!gm_py_tensor_scalar (self, PyExc_RuntimeError, "bool()", &s))
    return -1;
  return s.kind == GM_CATEGORY_FLOAT ? s.d != 0 : s.i != 0;
}

static PyObject *
as_int (PyObject *self)
{
  GmScalar s;
  if (!gm_py_tensor_scalar (self, PyExc_ValueError, "int()", &s))
    return NULL;
  return s.kind == GM_CATEGORY_FLOAT ? PyLong_FromDouble (s.d) : PyLong_FromLongLong (s.i);
}

static PyObject *
as_float (PyObject *self)
{
  GmScalar s;
  return gm_py_tensor_scalar (self, PyExc_ValueError, "float()", &s)
             ? PyFloat_FromDouble (gm_scalar_as_double (s))
             : NULL;
}

static PyObject *
as_index (PyObject *self)
{
  GmScalar s;
  if (!gm_py_tensor_scalar (self, PyExc_TypeError, "an index", &s))
    return NULL;
  if (s.kind == GM_CATEGORY_FLOAT) {
    PyErr_SetString (PyExc_TypeError,
                     "only tensors of an integer dtype with one element can be an index");
    return NULL;
  }
  return PyLong_FromLongLong (s.i);
}

PyNumberMethods gm_py_tensor_number = {
  .nb_add = add,
  .nb_subtract = subtract,
  .nb_multiply = multiply,
  .nb_true_divide = true_divide,
  .nb_floor_divide = floor_divide,
  .nb_remainder = remain,
  .nb_power = power,
  .nb_matrix_multiply = matrix_multiply,
  .nb_and = and,
  .nb_or = or,
  .nb_xor = xor,
  .nb_lshift = left_shift,
  .nb_rshift = right_shift,
  .nb_negative = negative,
  .nb_positive = positive,
  .nb_absolute = absolute,
  .nb_invert = invert,
  .nb_inplace_add = inplace_add,
  .nb_inplace_subtract = inplace_subtract,
  .nb_inplace_multiply = inplace_multiply,
  .nb_inplace_true_divide = inplace_true_divide,
  .nb_inplace_floor_divide = inplace_floor_divide,
  .nb_inplace_remainder = inplace_remain,
  .nb_inplace_power = inplace_power,
  .nb_inplace_and = inplace_and,
  .nb_inplace_or = inplace_or,
  .nb_inplace_xor = inplace_xor,
  .nb_inplace_lshift = inplace_left_shift,
  .nb_inplace_rshift = inplace_right_shift,
  .nb_bool = truth,
  .nb_int = as_int,
  .nb_float = as_float,
  .nb_index = as_index,
};

/* -- Subscripts and iteration ------------------------------------------------------------------ */

static Py_ssize_t
length (PyObject *self)
{
  const GmTensor *t = gm_py_tensor_get (self);
  if (t->meta.ndim)
    return (Py_ssize_t) t->meta.sizes[0];
  PyErr_SetString (PyExc_TypeError, "len() of a 0-d tensor");
  return -1;
}

/* True for a store of one number to all true places of a mask: this needs no positions, since
 * the row does it by selecting. */
static bool
is_one_for_all (const GmArg *key, const GmArg *value)
{
  if (!value || key->kind != GM_ARG_TENSOR || gm_tensor_from_val (key->v)->meta.dtype != GM_BOOL)
    return false;
  return value->kind != GM_ARG_TENSOR || gm_tensor_from_val (value->v)->meta.ndim == 0
         || gm_tensor_from_val (key->v)->meta.ndim > 1;
}

/* Reads a subscript or, with `value`, stores to it, and then returns None.  An index is one
 * argument: a number, slice, tensor, None, Ellipsis or a tuple of these. */
static PyObject *
subscript_run (PyObject *self, PyObject *key, PyObject *value)
{
  PyObject *taken, *all[3] = { self, key, value };
  if (G_UNLIKELY (gm_py_overrides) && gm_py_override_subscript (all, value ? 3 : 2, &taken))
    return taken;
  GmPyArgs x;
  gm_py_args_init (&x, GM_PY_ARGS_INDEX);
  GmArg args[3] = { { .kind = GM_ARG_TENSOR, .v = gm_val_from_tensor (gm_py_tensor_get (self)) } };
  PyObject *result = NULL;
  if (gm_py_args_add (&x, key, &args[1]) && (!value || gm_py_args_add (&x, value, &args[2]))
      && (is_one_for_all (&args[1], value ? &args[2] : NULL)
          || gm_py_mask_expand (&x, gm_py_tensor_get (self), &args[1])))
    result =
        gm_py_api_run (value ? rows.setitem.api : rows.getitem.api, false, args, value ? 3 : 2);
  gm_py_args_clear (&x);
  return result;
}

static PyObject *
subscript (PyObject *self, PyObject *key)
{
  return subscript_run (self, key, NULL);
}

static int
assign_subscript (PyObject *self, PyObject *key, PyObject *value)
{
  if (!value) {
    PyErr_SetString (PyExc_TypeError, "elements of a tensor cannot be deleted");
    return -1;
  }
  PyObject *result = subscript_run (self, key, value);
  Py_XDECREF (result);
  return result ? 0 : -1;
}

static int
contains (PyObject *self, PyObject *value)
{
  PyObject *equal = binary (&rows.eq, false, self, value);
  if (!equal || equal == Py_NotImplemented) {
    if (equal)
      PyErr_Format (PyExc_TypeError, "a tensor cannot contain a %s", Py_TYPE (value)->tp_name);
    Py_XDECREF (equal);
    return -1;
  }
  PyObject *any = unary (&rows.any, equal);
  int found = any ? PyObject_IsTrue (any) : -1;
  Py_DECREF (equal);
  Py_XDECREF (any);
  return found;
}

PyObject *
gm_py_tensor_iter (PyObject *self)
{
  if (gm_py_tensor_get (self)->meta.ndim == 0) {
    PyErr_SetString (PyExc_TypeError, "iteration over a 0-d tensor");
    return NULL;
  }
  PyObject *slices = gm_py_is_override (self) ? PyObject_CallMethod (self, "unbind", NULL)
                                              : unary (&rows.unbind, self);
  PyObject *iterator = slices ? PyObject_GetIter (slices) : NULL;
  Py_XDECREF (slices);
  return iterator;
}

PyMappingMethods gm_py_tensor_mapping = {
  .mp_length = length,
  .mp_subscript = subscript,
  .mp_ass_subscript = assign_subscript,
};

PySequenceMethods gm_py_tensor_sequence = {
  .sq_length = length,
  .sq_contains = contains,
};
