/* SPDX-License-Identifier: Apache-2.0
 * set_algebra.c -- sets that are made of others, changed by others, and compared with them.
 *
 * CPython's own methods do it, on real sets with the same tables, if the elements are constants and
 * the tables are known; so the order of the result is known as well (set_order.c). Else the
 * elements are looked up one by one, and the order is not known afterwards.
 */
#include "core/trace/set.h"

#include "core/trace/kinds.h"
#include "core/trace/contents.h"
#include "core/trace/exception.h"
#include "core/trace/keys.h"
#include "core/objects/set_table.h"
#include "core/trace/key_table.h"

/* -- Elements of what CPython makes ---------------------------------------- */

static const GmTracker *
element_in (GmRecorder *r, const GmTracker *operand, const GmTracker *key)
{
  bool tuple = operand->kind == &gm_kind_tuple, set = key->kind == &gm_kind_set;
  uint32_t stride = operand->kind == &gm_kind_dict ? 2 : 1;
  const GmTracker *contents = tuple ? operand : gm_contents_of (r, operand);
  int64_t at = set ? -1 : gm_key_find (r, contents, stride, key);
  for (uint32_t i = 0; set && at < 0 && i < contents->n; i += stride) {
    const GmTracker *item = gm_realize (r, contents->items[i]);
    bool frozen = !r->stop && item->kind == &gm_kind_set && item->real;
    if (frozen && PyObject_RichCompareBool (item->real, key->real, Py_EQ) == 1)
      at = i;
  }
  return at < 0 || r->stop ? NULL : contents->items[at];
}

/* Returns the tracker for `key`, an element of a set that CPython has made of the operands (sets,
 * dicts, tuples of elements): the equal element of the first operand that has one, since a program
 * can tell equal tuples apart. */
static const GmTracker *
element_of (GmRecorder *r, PyObject *key, const GmTracker *const *operands, uint32_t n)
{
  const GmTracker *known = PyTuple_CheckExact (key) ? gm_known (r, key, NULL) : NULL;
  const GmTracker *t = known ? known : gm_from_constant (r, key);
  const GmTracker *found = NULL;
  if (known || (!PyTuple_CheckExact (key) && !PyFrozenSet_CheckExact (key)))
    return t;
  for (uint32_t i = 0; i < n && found == NULL && !r->stop; i++)
    found = element_in (r, operands[i], t);
  return found ? found : t;
}

/* Swaps the operands of an intersection, if necessary, so that the operand whose elements the
 * result has comes first: the smaller set, or the second operand if both have one size or the
 * second is no set. */
static void
order_for_intersection (GmRecorder *r, const GmTracker *operands[2])
{
  const GmTracker *second = operands[1];
  uint32_t n = gm_contents_of (r, operands[0])->n;
  if (second->kind == &gm_kind_set && gm_contents_of (r, second)->n > n)
    return;
  operands[1] = operands[0];
  operands[0] = second;
}

/* -- New sets of others ---------------------------------------------------- */

/* Returns a new reference to a real set with the elements and the table of t, a set, or to a real
 * dict with the keys of t, a dict. NULL: not all are constants, or the table is not known. */
static PyObject *
real_operand (GmRecorder *r, const GmTracker *t)
{
  if (t->kind == &gm_kind_dict)
    gm_dict_contents (r, t);
  if (r->stop)
    return NULL;
  const GmTracker *contents = gm_contents_of (r, t);
  if (t->kind == &gm_kind_set)
    return t->number || (t->real && !contents->number) ? Py_NewRef (t->real) : gm_set_exact (r, t);
  PyObject *dict = PyDict_New ();
  for (uint32_t i = 0; dict && i < contents->n; i += 2) {
    PyObject *key = gm_constant (r, contents->items[i]);
    if (key == NULL || PyDict_SetItem (dict, key, Py_None) < 0)
      Py_CLEAR (dict);
  }
  PyErr_Clear ();
  return dict;
}

/* Returns a new set with all elements of `from`, a set or dict, and the table that CPython gives
 * it. NULL: no order is known, so that the caller may add the elements one by one. */
static const GmTracker *
merged (GmRecorder *r, const GmTracker *from)
{
  g_autoptr (GPtrArray) items = g_ptr_array_new ();
  PyObject *operand = real_operand (r, from), *key;
  PyObject *real = operand ? PyFrozenSet_New (operand) : NULL;
  Py_ssize_t pos = 0;
  Py_hash_t hash;
  Py_XDECREF (operand);
  if (real == NULL)
    return NULL;
  gm_record_take (r, real);
  while (_PySet_NextEntry (real, &pos, &key, &hash))
    g_ptr_array_add (items, (gpointer) element_of (r, key, &from, 1));
  const GmTracker *t = gm_set_add (r, NULL, NULL, (const GmTracker *const *) items->pdata,
                                   items->len),
                  *c = gm_contents_of (r, t);
  gm_set_relies (r, t, from);
  gm_contents_set (r, t,
                   gm_tracker (r, .kind = &gm_kind_contents, .items = c->items, .n = c->n,
                               .data = c->data, .number = 1, .real = real));
  return t;
}

const GmTracker *
gm_set_of (GmRecorder *r, const GmTracker *from)
{
  const GmTracker *whole = gm_set_inside (r, from), *t = NULL, *item;
  if (!r->stop && (whole->kind == &gm_kind_set || whole->kind == &gm_kind_dict))
    t = merged (r, whole);
  if (t || r->stop)
    return t ? t : &gm_tracker_poison;
  t = gm_set_add (r, NULL, NULL, NULL, 0);
  const GmTracker *it = gm_iter (r, whole);
  while (!r->stop && (item = gm_next (r, it)) != NULL)
    gm_set_append (r, t, item);
  return t;
}

/* -- Changed by others ----------------------------------------------------- */

/* Returns t, a set or dict, or a copy of it, as an operand for the replay, which must find its
 * present table; NULL: the table is not known. */
static const GmTracker *
as_it_is (GmRecorder *r, const GmTracker *t)
{
  const GmTracker *contents = gm_contents_of (r, t), *copy;
  if (t->kind == &gm_kind_set && (t->number || t->real)) /* a frozenset never changes; an existing
                                                            set's changes are replayed in order */
    return t;
  if (t->kind == &gm_kind_set && !gm_set_table_is_known (contents))
    return NULL;
  if (t->kind == &gm_kind_set) {
    copy = gm_set_new (r, contents->items, contents->n);
    if (!r->stop)
      gm_contents_set (r, copy, contents);
    return copy;
  }
  copy = gm_dict_new (r);
  for (uint32_t i = 0; i < contents->n && !r->stop; i += 2)
    gm_dict_store (r, copy, contents->items[i], gm_none (r));
  return copy;
}

static const char *const change_names[GM_N_BIN] = { [GM_BIN_OR] = "update",
                                                    [GM_BIN_AND] = "intersection_update",
                                                    [GM_BIN_SUB] = "difference_update",
                                                    [GM_BIN_XOR] = "symmetric_difference_update" };

/* Returns the table of t after CPython's method `name` with `operand`, the real object of `other`:
 * a real set that the recorder owns. NULL: a table or an element is not known. */
static PyObject *
changed_table (GmRecorder *r, const char *name, const GmTracker *t, const GmTracker *other,
               PyObject *operand)
{
  PyObject *table = operand || other == t ? gm_set_exact_small (r, t) : NULL;
  PyObject *result =
      table
          ? PyObject_CallMethodOneArg (table, gm_record_take (r, PyUnicode_InternFromString (name)),
                                       other == t ? table : operand)
          : NULL;
  Py_XDECREF (result);
  PyErr_Clear ();
  if (table)
    gm_record_take (r, table);
  return result ? table : NULL;
}

/* Stores in `elements` the elements of `table`, an intersection of t and `other` (a set, dict or
 * tuple of elements), in table order; returns their number. */
static uint32_t
common_elements (GmRecorder *r, PyObject *table, const GmTracker *t, const GmTracker *other,
                 const GmTracker **elements)
{
  const GmTracker *operands[2] = { t, other };
  Py_ssize_t pos = 0;
  PyObject *key;
  Py_hash_t hash;
  uint32_t n = 0;
  order_for_intersection (r, operands);
  while (_PySet_NextEntry (table, &pos, &key, &hash))
    elements[n++] = element_of (r, key, operands, 2);
  return n;
}

/* Changes the set t by `other`, a set, a dict, or a tuple of elements. CPython's own method is
 * replayed: it may lay out the table anew, so removing and adding elements one by one would leave
 * another order. */
static const GmTracker *
change_by (GmRecorder *r, GmBinary op, const GmTracker *t, const GmTracker *other)
{
  bool tuple = !r->stop && other->kind == &gm_kind_tuple,
       dict = !r->stop && other->kind == &gm_kind_dict;
  PyObject *operand = r->stop ? NULL : tuple ? gm_constant (r, other) : real_operand (r, other);
  if (operand && !tuple)
    gm_record_take (r, operand);
  const GmTracker *arg = r->stop             ? NULL
                         : t->real && !tuple ? as_it_is (r, other)
                                             : other,
                  *elements = other;
  if (tuple)
    elements = gm_set_new (r, other->items, other->n);
  else if (dict && arg)
    elements = gm_set_of (r, other);
  if (arg == NULL || r->stop)
    return gm_record_break (r, GM_BREAK_CALL_METHOD, change_names[op], "set");
  const GmTracker *old = gm_contents_of (r, t), *by = gm_contents_of (r, elements);
  g_autofree const GmTracker **kept = gm_tracker_array_own (old->n + by->n);
  uint32_t n = 0;
  for (uint32_t i = 0; i < old->n && !r->stop; i++)
    if (op == GM_BIN_OR || gm_set_has (r, elements, old->items[i]) == (op == GM_BIN_AND))
      kept[n++] = old->items[i];
  for (uint32_t i = 0; (op == GM_BIN_OR || op == GM_BIN_XOR) && i < by->n && !r->stop; i++)
    if (!gm_set_has (r, t, by->items[i])) {
      gm_key_stored (r, by->items[i]);
      kept[n++] = by->items[i];
    }
  PyObject *table = r->stop ? NULL : changed_table (r, change_names[op], t, other, operand);
  if (table && op == GM_BIN_AND)
    n = common_elements (r, table, t, tuple || dict ? other : elements, kept);
  if (r->stop)
    return &gm_tracker_poison;
  gm_set_be (r, t, table, kept, n);
  gm_set_relies (r, t, other);
  gm_set_effect (r, change_names[op], t, &arg, 1);
  return t;
}

/* Returns the argument `arg` of the method `name`: a set or dict unchanged, else a tuple of the
 * elements of the iterable; NULL after a break. `first`: CPython iterates before it changes
 * anything, so that the iterable may read t. */
static const GmTracker *
change_argument (GmRecorder *r, const char *name, const GmTracker *t, const GmTracker *arg,
                 bool first)
{
  const GmTracker *from = gm_set_inside (r, arg),
                  *contents = r->stop ? NULL : gm_contents_of (r, t);
  if (r->stop || from->kind == &gm_kind_set || from->kind == &gm_kind_dict)
    return r->stop ? NULL : from;
  g_autoptr (GPtrArray) all = first || gm_iterates_alone (from) ? gm_iterate (r, from) : NULL;
  if (r->stop || !gm_contents_still (r, t, contents))
    return NULL;
  bool known = all != NULL;
  for (uint32_t i = 0; known && i < all->len; i++)
    known = gm_key_is_constant (gm_realize (r, all->pdata[i]));
  if (!known || r->stop) {
    gm_record_break (r, GM_BREAK_CALL_METHOD, name, "set");
    return NULL;
  }
  return gm_tuple_new (r, (const GmTracker *const *) all->pdata, all->len);
}

/* Changes a set by several arguments: intersection_update () reads all of them before it changes
 * the set, difference_update () applies one after the other. */
static const GmTracker *
change_by_arguments (GmRecorder *r, GmBinary op, const GmTracker *t, const GmCallArgs *args)
{
  const char *name = change_names[op];
  g_autofree const GmTracker **others = gm_tracker_array_own (args->n);
  if (!gm_args_plain (r, name, args, op != GM_BIN_SUB, op == GM_BIN_XOR ? 1 : UINT32_MAX))
    return &gm_tracker_poison;
  for (uint32_t i = 0; i < args->n && !r->stop; i++) {
    others[i] = change_argument (r, name, t, args->args[i], op != GM_BIN_SUB && args->n == 1);
    if (others[i] == t && args->n > 1 && op == GM_BIN_AND) /* the set before its first change */
      gm_record_break (r, GM_BREAK_CALL_METHOD, name, "set");
    if (op == GM_BIN_SUB && others[i])
      change_by (r, op, t, others[i]);
  }
  for (uint32_t i = 0; op != GM_BIN_SUB && i < args->n && !r->stop; i++)
    if (others[i])
      change_by (r, op, t, others[i]);
  return gm_none (r);
}

static const GmTracker *
method_intersection_update (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  return change_by_arguments (r, GM_BIN_AND, t, args);
}

static const GmTracker *
method_difference_update (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  return change_by_arguments (r, GM_BIN_SUB, t, args);
}

static const GmTracker *
method_symmetric_difference_update (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  return change_by_arguments (r, GM_BIN_XOR, t, args);
}

/* True for the update that builds a set literal such as {1, 2, 3}: the frozenset `from` is merged
 * into the new, empty set t, which then has its table. */
static bool
is_literal (const GmTracker *t, const GmTracker *contents, const GmTracker *from)
{
  return !t->real && contents->n == 0 && !contents->number && from->kind == &gm_kind_set
         && from->number;
}

const GmTracker *
gm_set_update (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  if (args->names)
    return gm_record_break (r, GM_BREAK_CALL_ARGUMENTS, "update() of a set with named arguments");
  for (uint32_t i = 0; i < args->n && !r->stop; i++) {
    const GmTracker *from = gm_set_inside (r, args->args[i]), *item;
    if (!r->stop && is_literal (t, gm_contents_of (r, t), from)) {
      const GmTracker *c = gm_contents_of (r, from);
      gm_contents_set (r, t,
                       gm_tracker (r, .kind = &gm_kind_contents, .items = c->items, .n = c->n,
                                   .number = 1, .real = from->real));
      gm_set_relies (r, t, from);
    } else if (!r->stop && (from->kind == &gm_kind_set || from->kind == &gm_kind_dict)) {
      change_by (r, GM_BIN_OR, t, from);
    } else { /* added one at a time, because an element may not be hashable */
      const GmTracker *it = gm_iter (r, from);
      while (!r->stop && (item = gm_next (r, it)) != NULL)
        gm_set_append (r, t, item);
    }
  }
  return gm_none (r);
}

const GmMethodRow gm_set_changes[] = {
  { "update", gm_set_update },
  { "intersection_update", method_intersection_update },
  { "difference_update", method_difference_update },
  { "symmetric_difference_update", method_symmetric_difference_update },
  { NULL, NULL },
};

/* -- Operations on two sets ------------------------------------------------ */

/* Returns the values of an iterable, in any order, in a new array; NULL after a break. */
static GPtrArray *
iterate_unordered (GmRecorder *r, const GmTracker *t)
{
  t = gm_set_inside (r, t);
  if (r->stop || t->kind != &gm_kind_set)
    return gm_iterate (r, t);
  const GmTracker *contents = gm_contents_of (r, t);
  GPtrArray *all = g_ptr_array_new ();
  for (uint32_t i = 0; i < contents->n; i++)
    g_ptr_array_add (all, (gpointer) contents->items[i]);
  return all;
}

static PyObject *
constant_element (GmRecorder *r, const GmTracker *item)
{
  PyObject *o = gm_set_element (r, item) ? gm_constant (r, item) : NULL;
  if (o == NULL)
    gm_record_break (r, GM_BREAK_VALUE_KIND, "set with elements that are no constants");
  return o;
}

/* Returns the tracker of `result` (stolen), a set that CPython has made of n operands, listed in
 * the order in which they give their elements; `known`: its table is the one that CPython makes in
 * each call. */
static const GmTracker *
set_result (GmRecorder *r, PyObject *result, bool known, const GmTracker *const *operands,
            uint32_t n)
{
  g_autoptr (GPtrArray) items = g_ptr_array_new ();
  Py_ssize_t pos = 0;
  PyObject *key;
  Py_hash_t hash;
  gm_record_take (r, result);
  while (_PySet_NextEntry (result, &pos, &key, &hash))
    g_ptr_array_add (items, (gpointer) element_of (r, key, operands, n));
  const GmTracker *const *all = (const GmTracker *const *) items->pdata;
  const GmTracker *t = gm_set_add (r, NULL, NULL, all, items->len);
  if (PyFrozenSet_Check (result)) /* the contents are in the order of the result's table */
    return gm_tracker_add (
        r,
        &(GmTracker){ .kind = &gm_kind_set, .real = result, .id = t->id, .number = GM_SET_MADE });
  gm_set_be (r, t, known ? result : NULL, all, items->len);
  return t;
}

const GmTracker *
gm_frozenset_made (GmRecorder *r, const GmTracker *t, const GmTracker *of)
{
  if (r->stop || t == NULL || t->kind != &gm_kind_set || t->number != GM_SET_EXISTS || t->source)
    return t;
  return set_result (r, Py_NewRef (t->real), true, &of, of != NULL);
}

/* Returns the real object to pass to a method of a real set for the argument t: a set or dict
 * unchanged, else a list of the elements. Borrowed; NULL after a break. *operand: the set or dict,
 * or a tuple of the elements. */
static PyObject *
real_argument (GmRecorder *r, const GmTracker *t, const GmTracker **operand)
{
  *operand = t = gm_set_inside (r, t);
  PyObject *real = !r->stop && (t->kind == &gm_kind_set || t->kind == &gm_kind_dict)
                       ? real_operand (r, t)
                       : NULL;
  if (real)
    return gm_record_take (r, real);
  g_autoptr (GPtrArray) items = r->stop ? NULL : iterate_unordered (r, t);
  PyObject *list = items ? gm_record_take (r, PyList_New (0)) : NULL;
  for (uint32_t k = 0; list && k < items->len; k++) {
    PyObject *o = constant_element (r, items->pdata[k]);
    if (o == NULL || PyList_Append (list, o) < 0)
      return NULL;
  }
  if (list)
    *operand = gm_tuple_new (r, (const GmTracker *const *) items->pdata, items->len);
  return list;
}

/* True if the table of a set made from the iterable t is known. */
static bool
table_is_known (GmRecorder *r, const GmTracker *t)
{
  t = gm_set_inside (r, t);
  return !r->stop
         && (t->kind != &gm_kind_set || t->number || gm_set_table_is_known (gm_contents_of (r, t)));
}

/* Runs CPython's method `name` on real sets equal to t and the arguments, and returns its result, a
 * bool or a new set. */
static const GmTracker *
on_real (GmRecorder *r, const GmTracker *t, const char *name, const GmCallArgs *args)
{
  PyObject *self = real_operand (r, t);
  if (self == NULL && !r->stop)
    self = gm_set_real (r, t);
  if (self)
    gm_record_take (r, self);
  if (self == NULL || args->names)
    return gm_record_break (r, GM_BREAK_CALL_METHOD, name, "set");
  PyTypeObject *type = t->number ? &PyFrozenSet_Type : &PySet_Type; /* the method is the same for a
                                                                       subclass */
  PyObject *method = PyDict_GetItemString (gm_type_dict (type), name);
  g_autofree PyObject **values = g_new0 (PyObject *, args->n + 1);
  g_autofree const GmTracker **operands = gm_tracker_array_own (args->n + 1);
  values[0] = self;
  operands[0] = t;
  bool known = table_is_known (r, t);
  for (uint32_t i = 0; i < args->n; i++) {
    bool itself = gm_set_inside (r, args->args[i]) == t; /* CPython's sets test for identity */
    if (itself)
      operands[i + 1] = t;
    values[i + 1] = itself ? self : real_argument (r, args->args[i], &operands[i + 1]);
    if (values[i + 1] == NULL)
      return &gm_tracker_poison;
    known = known && table_is_known (r, args->args[i]);
  }
  PyObject *result = PyObject_Vectorcall (method, values, args->n + 1, NULL);
  if (!result || !PyAnySet_Check (result))
    return gm_from_constant_take (r, result);
  if (PyFrozenSet_Check (result) && !known) {
    Py_DECREF (result);
    return gm_record_break (r, GM_BREAK_CALL_METHOD, name, "frozenset");
  }
  if (strcmp (name, "intersection") == 0 && args->n)
    order_for_intersection (r, operands);
  const GmTracker *v = set_result (r, result, known, operands, args->n + 1);
  gm_set_relies (r, v, t);
  for (uint32_t i = 0; i < args->n; i++)
    gm_set_relies (r, v, gm_set_inside (r, args->args[i]));
  if (PyFrozenSet_Check (result)) /* a constant, which functions without a model of sets can read */
    gm_set_see_order (r, v);
  return v;
}

#define ON_REAL(name)                                                                              \
  static const GmTracker *method_##name (GmRecorder *r, const GmTracker *t,                        \
                                         const GmCallArgs *args)                                   \
  {                                                                                                \
    return on_real (r, t, #name, args);                                                            \
  }
ON_REAL (union)
ON_REAL (difference)
ON_REAL (symmetric_difference)
ON_REAL (issubset)

/* Returns the intersection of t with one argument after the other, as CPython does. */
static const GmTracker *
method_intersection (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  if (args->n < 2 || args->names)
    return on_real (r, t, "intersection", args);
  for (uint32_t i = 0; i < args->n && !r->stop; i++)
    t = on_real (r, t, "intersection", &(GmCallArgs){ args->args + i, 1, NULL });
  return t;
}

/* Returns whether every element of the one argument is in t (`there`), or none is, for the method
 * `name`; reads only up to the first element that decides the result. */
static const GmTracker *
ask_all (GmRecorder *r, const GmTracker *t, const char *name, const GmCallArgs *args, bool there)
{
  const GmTracker *from = args->n == 1 && !args->names ? there ? gm_set_inside (r, args->args[0])
                                                               : gm_realize (r, args->args[0])
                                                       : NULL,
                  *item;
  if (!from || r->stop || gm_iterates_alone (from))
    return on_real (r, t, name, args);
  const GmTracker *it = gm_iter (r, from);
  while (!r->stop && (item = gm_next (r, it)) != NULL && (item = gm_set_element (r, item)) != NULL)
    if (gm_set_has (r, t, item) != there)
      return gm_from_bool (r, false);
  return gm_from_bool (r, true);
}

static const GmTracker *
method_issuperset (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  return ask_all (r, t, "issuperset", args, true);
}

static const GmTracker *
method_isdisjoint (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  return ask_all (r, t, "isdisjoint", args, false);
}

static const GmTracker *
method_copy (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  if (!gm_args_plain (r, "copy", args, 0, 0))
    return &gm_tracker_poison;
  return t->number ? t : on_real (r, t, "copy", args);
}

const GmMethodRow gm_set_questions[] = {
  { "copy", method_copy },
  { "union", method_union },
  { "intersection", method_intersection },
  { "difference", method_difference },
  { "symmetric_difference", method_symmetric_difference },
  { "issubset", method_issubset },
  { "issuperset", method_issuperset },
  { "isdisjoint", method_isdisjoint },
  { NULL, NULL },
};

/* -- Operators ------------------------------------------------------------- */

const GmTracker *
gm_set_binary (GmRecorder *r, GmBinary op, const GmTracker *t, const GmTracker *other,
               bool reflected, bool inplace)
{
  const char *name = op == GM_BIN_OR    ? "union"
                     : op == GM_BIN_AND ? "intersection"
                     : op == GM_BIN_SUB ? "difference"
                     : op == GM_BIN_XOR ? "symmetric_difference"
                                        : NULL;
  if (name == NULL || reflected || other->kind != &gm_kind_set)
    return NULL;
  if (!inplace || t->number)
    return on_real (r, t, name, &(GmCallArgs){ &other, 1, NULL });
  return change_by (r, op, t, other);
}

/* Compares sets that contain objects: looks up each element in the larger set. */
static const GmTracker *
compare_elements (GmRecorder *r, int op, const GmTracker *a, const GmTracker *b)
{
  if (op == Py_GT || op == Py_GE)
    return compare_elements (r, op == Py_GT ? Py_LT : Py_LE, b, a);
  const GmTracker *items = gm_contents_of (r, a);
  int64_t n = items->n, m = gm_len (r, b);
  bool inside = n <= m;
  for (uint32_t i = 0; i < n && inside && !r->stop; i++)
    inside = gm_set_has (r, b, items->items[i]);
  bool same = inside && n == m;
  return gm_from_bool (r, op == Py_EQ   ? same
                          : op == Py_NE ? !same
                          : op == Py_LT ? inside && n < m
                                        : inside);
}

const GmTracker *
gm_set_compare (GmRecorder *r, int op, const GmTracker *t, const GmTracker *other)
{
  if (other->kind != &gm_kind_set)
    return NULL;
  PyObject *a = gm_set_real (r, t), *b = gm_set_real (r, other);
  if (a == NULL || b == NULL) {
    Py_XDECREF (a);
    Py_XDECREF (b);
    return compare_elements (r, op, t, other);
  }
  gm_record_take (r, a);
  gm_record_take (r, b);
  return gm_from_constant_take (r, PyObject_RichCompare (a, b, op));
}
