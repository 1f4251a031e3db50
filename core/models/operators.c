/* SPDX-License-Identifier: Apache-2.0
 * operators.c -- operators as functions: the module `operator`, and the methods `__getitem__`,
 * `__len__` ... of builtin kinds.
 */
#include "core/models/models.h"
#include "core/trace/exception.h"
#include "core/trace/iterator.h"
#include "core/trace/instance.h"

#include <string.h>

/* Returns countOf (iterable, value).  It reads the iterable as a Python loop does; so does
 * indexOf. */
static const GmTracker *
count_of (GmRecorder *r, const GmTracker *iterable, const GmTracker *value)
{
  int64_t n = 0;
  const GmTracker *it = gm_iter_searched (r, iterable), *item;
  while (!r->stop && (item = gm_next (r, it)) != NULL)
    n += gm_same_or_equal (r, item, value);
  return r->stop ? &gm_tracker_poison : gm_from_int (r, n);
}

/* Returns indexOf (iterable, value); NULL if no item equals the value, where Python raises, or
 * after a break. */
static const GmTracker *
index_of (GmRecorder *r, const GmTracker *iterable, const GmTracker *value)
{
  const GmTracker *it = gm_iter_searched (r, iterable), *item;
  for (int64_t i = 0; !r->stop && (item = gm_next (r, it)) != NULL; i++)
    if (gm_same_or_equal (r, item, value))
      return gm_from_int (r, i);
  return NULL;
}

static bool
is_sequence (const GmTracker *t)
{
  return t->kind == &gm_kind_list || t->kind == &gm_kind_tuple
         || (t->kind == &gm_kind_constant
             && (PyUnicode_Check (t->real) || PyBytes_Check (t->real)));
}

/* Applies the operator of this name to n operands. NULL: there is no such operator. */
static const GmTracker *
operate (GmRecorder *r, const char *name, const GmTracker *const *a, uint32_t n)
{
  static const char *const binary[GM_N_BIN] = { "add", "and_",    "floordiv", "lshift", "matmul",
                                                "mul", "mod",     "or_",      "pow",    "rshift",
                                                "sub", "truediv", "xor" };
  static const char *const compare[] = { "lt", "le", "eq", "ne", "gt", "ge" };
  static const char *const unary[] = { "pos", "neg", "invert" };
  for (int i = 0; i < GM_N_BIN && n == 2; i++) {
    size_t plain = strcspn (binary[i], "_");
    if (strcmp (name, binary[i]) == 0
        || (strncmp (name, binary[i], plain) == 0 && name[plain] == 0 && binary[i][plain]))
      return gm_binary (r, (GmBinary) i, a[0], a[1], false);
    if (name[0] == 'i' && strncmp (name + 1, binary[i], plain) == 0 && name[1 + plain] == 0)
      return gm_binary (r, (GmBinary) i, a[0], a[1], true);
  }
  for (int i = 0; i < 6 && n == 2; i++)
    if (strcmp (name, compare[i]) == 0)
      return gm_compare (r, i, a[0], a[1]);
  for (int i = 0; i < 3 && n == 1; i++)
    if (strcmp (name, unary[i]) == 0)
      return gm_unary (r, (GmUnary) i, a[0]);
  if (n == 1 && (strcmp (name, "not_") == 0 || strcmp (name, "truth") == 0))
    return gm_from_bool (r, (gm_truth (r, a[0]) != 0) == (name[0] == 't'));
  if (n == 2 && (strcmp (name, "is_") == 0 || strcmp (name, "is_not") == 0)) {
    const GmTracker *same = gm_is (r, a[0], a[1]);
    return r->stop ? same : gm_from_bool (r, (same->real == Py_True) == (name[3] == 0));
  }
  if (n == 2 && strcmp (name, "getitem") == 0)
    return gm_getitem (r, a[0], a[1]);
  if (n == 2 && strcmp (name, "contains") == 0)
    return gm_contains (r, a[0], a[1]);
  if (n == 2 && strcmp (name, "countOf") == 0)
    return count_of (r, a[0], a[1]);
  if (n == 2 && strcmp (name, "indexOf") == 0)
    return index_of (r, a[0], a[1]);
  if (n == 2 && (strcmp (name, "concat") == 0 || strcmp (name, "iconcat") == 0))
    return is_sequence (gm_realize (r, a[0])) && is_sequence (gm_realize (r, a[1]))
               ? gm_binary (r, GM_BIN_ADD, a[0], a[1], name[0] == 'i')
               : NULL;
  if (n == 3 && strcmp (name, "setitem") == 0) {
    gm_setitem (r, a[0], a[1], a[2]);
    return gm_none (r);
  }
  if (n == 2 && strcmp (name, "delitem") == 0) {
    gm_setitem (r, a[0], a[1], NULL);
    return gm_none (r);
  }
  if (n == 1 && strcmp (name, "index") == 0) {
    int64_t i;
    return gm_constant_int (r, a[0], &i) ? gm_from_int (r, i) : NULL;
  }
  return NULL;
}

const GmTracker *
gm_operator_function (GmRecorder *r, const char *name, const GmCallArgs *args)
{
  return args->names ? NULL : operate (r, name, args->args, args->n);
}

/* -- Methods --------------------------------------------------------------- */

static const GmTracker *
method_len (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  return gm_args_plain (r, "__len__", args, 0, 0) ? gm_from_int (r, gm_len (r, t))
                                                  : &gm_tracker_poison;
}

static const GmTracker *
method_iter (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  return gm_args_plain (r, "__iter__", args, 0, 0) ? gm_iter (r, t) : &gm_tracker_poison;
}

static const GmTracker *
method_reversed (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  return gm_args_plain (r, "__reversed__", args, 0, 0) ? gm_iterator_reversed (r, t)
                                                       : &gm_tracker_poison;
}

static const GmTracker *
method_getitem (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  return gm_args_plain (r, "__getitem__", args, 1, 1) ? gm_getitem (r, t, args->args[0])
                                                      : &gm_tracker_poison;
}

static const GmTracker *
method_setitem (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  if (!gm_args_plain (r, "__setitem__", args, 2, 2))
    return &gm_tracker_poison;
  gm_setitem (r, t, args->args[0], args->args[1]);
  return gm_none (r);
}

static const GmTracker *
method_delitem (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  if (!gm_args_plain (r, "__delitem__", args, 1, 1))
    return &gm_tracker_poison;
  gm_setitem (r, t, args->args[0], NULL);
  return gm_none (r);
}

static const GmTracker *
method_contains (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  return gm_args_plain (r, "__contains__", args, 1, 1) ? gm_contains (r, t, args->args[0])
                                                       : &gm_tracker_poison;
}

static const GmTracker *
method_repr (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  return gm_args_plain (r, "__repr__", args, 0, 0) ? gm_text_of (r, t, true) : &gm_tracker_poison;
}

/* Returns the operand `other` as a C method of t's class reads it: for an instance of a subclass
 * of that class, the value inside of the instance. */
static const GmTracker *
operand (GmRecorder *r, const GmTracker *t, const GmTracker *other)
{
  other = gm_realize (r, other);
  const GmTracker *storage = r->stop ? NULL : gm_storage (other);
  return storage && storage->kind == t->kind ? storage : other;
}

static const GmTracker *
compared (GmRecorder *r, const GmTracker *t, int op, const char *name, const GmCallArgs *args)
{
  if (!gm_args_plain (r, name, args, 1, 1))
    return &gm_tracker_poison;
  const GmTracker *other = operand (r, t, args->args[0]);
  const GmTracker *v = r->stop ? NULL : t->kind->compare (r, op, t, other);
  if (v || r->stop)
    return v ? v : &gm_tracker_poison;
  return other->kind == t->kind || other->kind == &gm_kind_view
             ? gm_record_break (r, GM_BREAK_CALL_METHOD, name, gm_type_text (r, t))
             : gm_from_constant (r, Py_NotImplemented);
}

static const GmTracker *
operated (GmRecorder *r, const GmTracker *t, GmBinary op, bool inplace, const char *name,
          const GmCallArgs *args)
{
  if (!gm_args_plain (r, name, args, 1, 1))
    return &gm_tracker_poison;
  const GmTracker *other = operand (r, t, args->args[0]), *object = gm_storage_object (r, t);
  /* True if the result has the object's class. */
  bool kept = t->kind == &gm_kind_dict && !inplace
              && (t->number || (object && gm_dict_class_is_kept (object)));
  const GmTracker *v = r->stop || kept ? NULL : t->kind->binary (r, op, t, other, false, inplace);
  if (v == t && object)
    return object;
  return v ? v : gm_record_break (r, GM_BREAK_CALL_METHOD, name, gm_type_text (r, t));
}

#define COMPARES(name, op)                                                                         \
  static const GmTracker *method_##name (GmRecorder *r, const GmTracker *t,                        \
                                         const GmCallArgs *args)                                   \
  {                                                                                                \
    return compared (r, t, op, "__" #name "__", args);                                             \
  }
#define OPERATES(name, op, inplace)                                                                \
  static const GmTracker *method_##name (GmRecorder *r, const GmTracker *t,                        \
                                         const GmCallArgs *args)                                   \
  {                                                                                                \
    return operated (r, t, op, inplace, "__" #name "__", args);                                    \
  }
COMPARES (eq, Py_EQ)
COMPARES (ne, Py_NE)
COMPARES (lt, Py_LT)
COMPARES (le, Py_LE)
COMPARES (gt, Py_GT)
COMPARES (ge, Py_GE)
OPERATES (add, GM_BIN_ADD, false)
OPERATES (mul, GM_BIN_MUL, false)
OPERATES (or, GM_BIN_OR, false)
OPERATES (and, GM_BIN_AND, false)
OPERATES (sub, GM_BIN_SUB, false)
OPERATES (xor, GM_BIN_XOR, false)
OPERATES (iadd, GM_BIN_ADD, true)
OPERATES (imul, GM_BIN_MUL, true)
OPERATES (ior, GM_BIN_OR, true)
OPERATES (iand, GM_BIN_AND, true)
OPERATES (isub, GM_BIN_SUB, true)
OPERATES (ixor, GM_BIN_XOR, true)

const GmTracker *
gm_operator_method (GmRecorder *r, const GmTracker *t, PyObject *name)
{
  static const GmMethodRow rows[] = {
    { "__len__", method_len },           { "__iter__", method_iter },
    { "__reversed__", method_reversed }, { "__getitem__", method_getitem },
    { "__contains__", method_contains }, { NULL, NULL },
  };
  static const GmMethodRow writing[] = { { "__setitem__", method_setitem },
                                         { "__delitem__", method_delitem },
                                         { NULL, NULL } };
  static const GmMethodRow comparing[] = { { "__eq__", method_eq }, { "__ne__", method_ne },
                                           { "__lt__", method_lt }, { "__le__", method_le },
                                           { "__gt__", method_gt }, { "__ge__", method_ge },
                                           { NULL, NULL } };
  static const GmMethodRow operating[] = { { "__add__", method_add },
                                           { "__mul__", method_mul },
                                           { "__or__", method_or },
                                           { "__and__", method_and },
                                           { "__sub__", method_sub },
                                           { "__xor__", method_xor },
                                           { "__iadd__", method_iadd },
                                           { "__imul__", method_imul },
                                           { "__ior__", method_ior },
                                           { "__iand__", method_iand },
                                           { "__isub__", method_isub },
                                           { "__ixor__", method_ixor },
                                           { NULL, NULL } };
  PyTypeObject *type = t->kind->type ? t->kind->type (r, t) : NULL;
  if (type && _PyType_Lookup (type, name) == NULL)
    return NULL;
  static const GmMethodRow telling[] = { { "__repr__", method_repr }, { NULL, NULL } };
  const GmTracker *bound = gm_method_row (r, rows, t, name);
  if (bound == NULL
      && (t->kind == &gm_kind_list || (t->kind == &gm_kind_dict && !t->number)
          || (t->kind == &gm_kind_tuple && !t->data)))
    bound = gm_method_row (r, telling, t, name);
  if (bound == NULL && t->kind->setitem)
    bound = gm_method_row (r, writing, t, name);
  if (bound == NULL && t->kind->compare)
    bound = gm_method_row (r, comparing, t, name);
  if (bound == NULL && t->kind->binary)
    bound = gm_method_row (r, operating, t, name);
  return bound;
}
