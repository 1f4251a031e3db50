/* SPDX-License-Identifier: Apache-2.0
 * tracker_view.c -- views of dicts: keys, values and items.
 *
 * The dict is items[0], and number is the kind of the view; each operation reads the dict anew.
 */
#include "core/models/models.h"
#include "core/trace/contents.h"
#include "core/trace/exception.h"
#include "core/trace/instance.h"
#include "core/trace/set.h"

static int64_t
len (GmRecorder *r, const GmTracker *t)
{
  return gm_kind_dict.len (r, t->items[0]);
}

static const GmTracker *
iter (GmRecorder *r, const GmTracker *t)
{
  gm_dict_contents (r, t->items[0]);
  return gm_iterator_over (r, t);
}

/* Returns True, as a tracker, if `item` is a pair whose first item is a key of the dict and whose
 * second equals the key's value. */
static const GmTracker *
contains_pair (GmRecorder *r, const GmTracker *dict, const GmTracker *item)
{
  item = gm_realize (r, item);
  const GmTracker *pair = r->stop || gm_storage (item) == NULL ? item : gm_storage (item);
  if (r->stop || pair->kind != &gm_kind_tuple || pair->n != 2)
    return r->stop ? &gm_tracker_poison : gm_from_bool (r, false);
  const GmTracker *value = gm_dict_lookup (r, dict, pair->items[0]);
  return gm_from_bool (r, value && !r->stop && gm_same_or_equal (r, value, pair->items[1]));
}

static const GmTracker *
contains (GmRecorder *r, const GmTracker *t, const GmTracker *item)
{
  if (t->number == 0)
    return gm_kind_dict.contains (r, t->items[0], item);
  if (t->number == 2)
    return contains_pair (r, t->items[0], item);
  g_autoptr (GPtrArray) all = gm_iterate (r, t);
  for (uint32_t i = 0; all && i < all->len && !r->stop; i++)
    if (gm_same_or_equal (r, all->pdata[i], item))
      return gm_from_bool (r, true);
  return gm_from_bool (r, false);
}

/* Returns the keys or items of the view t as a new set; NULL for a view of values. */
static const GmTracker *
as_set (GmRecorder *r, const GmTracker *t)
{
  if (t->kind == &gm_kind_set)
    return t;
  if (t->kind == &gm_kind_view && t->number == 1)
    return NULL;
  g_autoptr (GPtrArray) all = gm_iterate (r, t);
  return all ? gm_set_new (r, (const GmTracker *const *) all->pdata, all->len) : NULL;
}

/* Returns the result of an operator on views of keys and items, which are sets: a new set. */
static const GmTracker *
binary (GmRecorder *r, GmBinary op, const GmTracker *t, const GmTracker *other, bool reflected,
        bool inplace)
{
  if (t->number == 1
      || (op != GM_BIN_AND && op != GM_BIN_OR && op != GM_BIN_SUB && op != GM_BIN_XOR))
    return NULL;
  const GmTracker *a = as_set (r, t), *b = r->stop ? NULL : as_set (r, other);
  if (r->pending
      && (op == GM_BIN_AND
          || op == GM_BIN_XOR)) { /* CPython adds only the elements of the result to a new set */
    r->pending = NULL;
    r->stop = NULL;
    return gm_record_break (r, GM_BREAK_OPERATOR, "& or ^", gm_type_text (r, t),
                            gm_type_text (r, other));
  }
  if (a == NULL || b == NULL)
    return r->stop ? &gm_tracker_poison : NULL;
  if (reflected && b->number) /* the operator of a frozenset and a view returns a set */
    b = gm_set_of (r, b);
  const GmTracker *v = reflected ? gm_binary (r, op, b, a, false) : gm_binary (r, op, a, b, false);
  if (!r->stop && v->kind == &gm_kind_set && !v->number) { /* CPython fills it in another way */
    const GmTracker *contents = gm_contents_of (r, v);
    gm_set_be (r, v, NULL, contents->items, contents->n);
  }
  return v;
}

static bool
is_set (const GmTracker *t)
{
  return t->kind == &gm_kind_set || (t->kind == &gm_kind_view && t->number != 1);
}

/* True if each item of `a` is in `b`. Stops at the first absent item: later items need not be
 * hashable. */
static bool
is_within (GmRecorder *r, const GmTracker *a, const GmTracker *b)
{
  const GmTracker *it = gm_iter (r, a), *item;
  while (!r->stop && (item = gm_next (r, it)) != NULL)
    if (!gm_truth (r, gm_contains (r, b, item)))
      return false;
  return !r->stop;
}

static const GmTracker *
compare (GmRecorder *r, int op, const GmTracker *t, const GmTracker *other)
{
  if (!is_set (t) || !is_set (other))
    return NULL;
  int64_t n = gm_len (r, t), m = gm_len (r, other);
  bool sizes = op == Py_LT   ? n < m
               : op == Py_LE ? n <= m
               : op == Py_GT ? n > m
               : op == Py_GE ? n >= m
                             : n == m;
  bool larger = op == Py_GT || op == Py_GE;
  bool holds = sizes && !r->stop && is_within (r, larger ? other : t, larger ? t : other);
  return r->stop ? &gm_tracker_poison : gm_from_bool (r, holds != (op == Py_NE));
}

static const GmTracker *
isdisjoint (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  if (!gm_args_plain (r, "isdisjoint", args, 1, 1))
    return &gm_tracker_poison;
  const GmTracker *other = gm_realize (r, args->args[0]), *in = t, *item;
  if (!r->stop && is_set (other)
      && gm_len (r, other) > gm_len (r, t)) { /* the shorter operand is read */
    in = other;
    other = t;
  }
  const GmTracker *it = gm_iter (r, other);
  while (!r->stop && (item = gm_next (r, it)) != NULL)
    if (gm_truth (r, gm_contains (r, in, item)))
      return gm_from_bool (r, false);
  return gm_from_bool (r, true);
}

static PyTypeObject *
type (GmRecorder *r, const GmTracker *t)
{
  return t->number == 0   ? &PyDictKeys_Type
         : t->number == 1 ? &PyDictValues_Type
                          : &PyDictItems_Type;
}

static const GmTracker *
getattr (GmRecorder *r, const GmTracker *t, PyObject *name)
{
  static const GmMethodRow rows[] = { { "isdisjoint", isdisjoint }, { NULL, NULL } };
  const GmTracker *bound = t->number == 1 ? NULL : gm_method_row (r, rows, t, name);
  if (bound == NULL)
    bound = gm_operator_method (r, t, name);
  return bound ? bound
               : gm_record_break (r, GM_BREAK_CALL_METHOD, PyUnicode_AsUTF8 (name), "dict view");
}

static bool
build (GmResidualBuilder *b, const GmTracker *t)
{
  static const char *const names[] = { "keys", "values", "items" };
  if (gm_residual_cached (b, t))
    return true;
  gm_residual_emit (b, GM_INSN_PUSH_NULL, 0, NULL);
  gm_residual_emit (
      b, GM_INSN_LOAD_CONST, 0,
      PyDict_GetItemString (gm_type_dict (gm_dict_owner (t->items[0])), names[t->number]));
  gm_residual_value (b, t->items[0]);
  gm_residual_emit (b, GM_INSN_CALL, 1, NULL);
  gm_residual_allocated (b, t);
  gm_residual_emit (b, GM_INSN_LOAD_FAST, gm_residual_temp (b, t), NULL);
  return true;
}

const GmTrackerKind gm_kind_view = { .name = "dict view",
                                     .type = type,
                                     .getattr = getattr,
                                     .binary = binary,
                                     .compare = compare,
                                     .len = len,
                                     .iter = iter,
                                     .contains = contains,
                                     .build = build };
