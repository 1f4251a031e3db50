/* SPDX-License-Identifier: Apache-2.0
 * tracker_set.c -- sets of constants.
 *
 * Contents are the elements in the order of insertion, those of an existing set in the order of its
 * table, which is guarded if it is seen.  What Python iterates over depends on the whole history;
 * so a set is iterated only if it existed and was not changed, or was made here from values one by
 * one and nothing was removed (a real set filled in the same order then has the same order).
 * Contents with number 1: the order is not known, but with `real`, a frozenset, it is that of set (real), to which the elements behind its own were
 * added: {1, 2, 3} is made so, and what is merged from another set, whose table CPython takes over.  Trackers with number EXISTS: a frozenset that
 * was there before, MADE: that an operation of the region made; both have it in `real`.
 */
#include "core/trace/builtin.h"
#include "core/trace/exception.h"
#include "core/trace/iterator.h"
#include "core/trace/contents.h"
#include "core/trace/object.h"
#include "core/trace/set_table.h"
#include "core/trace/keys.h"
#include "core/trace/table.h"

enum { EXISTS = 1, MADE = 2 };

static const GmTracker *
set_add (GmRecorder *r, PyObject *real, const GmSource *source, const GmTracker *const *items,
         uint32_t n)
{
  uint32_t id = gm_heap_add (&r->heap, GM_N_STORAGE_SLOTS);
  const GmTracker *t =
      gm_tracker_add (r, &(GmTracker){ .kind = &gm_kind_set,
                                       .real = real,
                                       .source = source,
                                       .id = id,
                                       .number = real && PyFrozenSet_Check (real) ? EXISTS : 0 });
  gm_contents_set (r, t, gm_contents (r, items, n));
  return t;
}

/* The set's table and the element's place in it, or -1; NULL: it has none, or that cannot be told. */
static const GmTracker *
find_in_table (GmRecorder *r, const GmTracker *t, const GmTracker *item, int64_t *at)
{
  const GmTracker *table = r->stop ? NULL : gm_table_of (r, t);
  return table && gm_table_find (r, table, item, at) ? table : NULL;
}

/* Which element of the contents it is, or -1. */
static int64_t
find (GmRecorder *r, const GmTracker *contents, const GmTracker *item)
{
  int64_t at;
  if (gm_contents_find (r, contents, 1, item, &at))
    return at;
  for (uint32_t i = 0; i < contents->n && !r->stop; i++)
    if (gm_key_equals (r, contents->items[i], item))
      return i;
  return -1;
}

static bool
has (GmRecorder *r, const GmTracker *t, const GmTracker *item)
{
  int64_t at;
  if (!find_in_table (r, t, item, &at))
    at = find (r, gm_contents_of (r, t), item);
  return at >= 0;
}

/* The element, hashable; NULL after a break. */
static const GmTracker *
element (GmRecorder *r, const GmTracker *item)
{
  item = gm_realize (r, item);
  if (gm_key_known (r, item))
    return item;
  gm_record_break (r, GM_BREAK_VALUE_KIND, "set with elements whose hash is not known");
  return NULL;
}

static PyObject *
constant_element (GmRecorder *r, const GmTracker *item)
{
  PyObject *o = element (r, item) ? gm_constant (r, item) : NULL;
  if (o == NULL)
    gm_record_break (r, GM_BREAK_VALUE_KIND, "set with elements that are no constants");
  return o;
}

static void
add (GmRecorder *r, const GmTracker *t, const GmTracker *item)
{
  int64_t at;
  item = element (r, item);
  if (item == NULL || r->stop)
    return;
  if (find_in_table (r, t, item, &at)) {
    if (at < 0)
      gm_table_append (r, t, item, NULL);
    return;
  }
  const GmTracker *old = gm_contents_of (r, t);
  if (find (r, old, item) >= 0 || r->stop)
    return;
  const GmTracker *contents = gm_contents_append (r, old, &item, 1);
  gm_key_stored (r, item);
  if (old->real || (t->real && !contents->number))
    contents = gm_tracker (r, .kind = &gm_kind_contents, .items = contents->items, .n = contents->n,
                           .data = contents->data, .real = old->real, .number = 1);
  gm_contents_set (r, t, contents);
}

const GmTracker *
gm_set_new (GmRecorder *r, const GmTracker *const *items, uint32_t n)
{
  const GmTracker *t = set_add (r, NULL, NULL, NULL, 0);
  for (uint32_t i = 0; i < n && !r->stop; i++)
    add (r, t, items[i]);
  return t;
}

const GmTracker *
gm_set_storage (GmRecorder *r, PyObject *real, const GmSource *source)
{
  g_autoptr (GPtrArray) items = g_ptr_array_new ();
  Py_ssize_t pos = 0;
  PyObject *key;
  Py_hash_t hash;
  while (_PySet_NextEntry (real, &pos, &key, &hash)) {
    if (!PyUnicode_CheckExact (key) && !PyLong_CheckExact (key))
      return gm_record_break (r, GM_BREAK_VALUE_KIND, "set with elements other than str and int");
    g_ptr_array_add (items, (gpointer) gm_from_constant (r, key));
  }
  gm_guard (r, SET_EQUALS, source, .obj = gm_record_take (r, PyFrozenSet_New (real)));
  return set_add (r, real, source, (const GmTracker *const *) items->pdata, items->len);
}

const GmTracker *
gm_wrap_set (GmRecorder *r, PyObject *real, const GmSource *source)
{
  gm_guard (r, TYPE, source, .obj = (PyObject *) Py_TYPE (real));
  const GmTracker *t = gm_set_storage (r, real, source);
  if (!r->stop)
    gm_know (r, t);
  return t;
}

/* A set that an operation made: its order is not known. */
static const GmTracker *
set_result (GmRecorder *r, const GmTracker *like, PyObject *result)
{
  g_autoptr (GPtrArray) items = g_ptr_array_new ();
  Py_ssize_t pos = 0;
  PyObject *key;
  Py_hash_t hash;
  gm_record_take (r, result);
  while (_PySet_NextEntry (result, &pos, &key, &hash))
    g_ptr_array_add (items, (gpointer) gm_from_constant (r, key));
  bool frozen = PyFrozenSet_Check (result);
  uint32_t id = gm_heap_add (&r->heap, GM_N_STORAGE_SLOTS);
  const GmTracker *t = gm_tracker_add (
      r, &(GmTracker){
             .kind = &gm_kind_set, .real = frozen ? result : NULL, .id = id, .number = frozen ? MADE : 0 });
  const GmTracker *c = gm_contents (r, (const GmTracker *const *) items->pdata, items->len);
  gm_contents_set (
      r, t, gm_tracker (r, .kind = &gm_kind_contents, .items = c->items, .n = c->n, .number = 1));
  return t;
}

/* frozenset (...): what exists already is itself. */
const GmTracker *
gm_frozenset_made (GmRecorder *r, const GmTracker *t)
{
  if (r->stop || t == NULL || t->kind != &gm_kind_set || t->number != EXISTS || t->source)
    return t;
  return gm_tracker_add (r, &(GmTracker){ .kind = &gm_kind_set, .real = t->real, .id = t->id, .number = MADE });
}

/* CPython looks into an instance of a subclass of set, and does not iterate over it. */
static const GmTracker *
set_inside (GmRecorder *r, const GmTracker *t)
{
  t = gm_realize (r, t);
  const GmTracker *storage = r->stop ? NULL : gm_storage (t);
  return storage && storage->kind == &gm_kind_set ? storage : t;
}

/* The values of an iterable whose order does not matter here. */
static GPtrArray *
iterate_unordered (GmRecorder *r, const GmTracker *t)
{
  t = set_inside (r, t);
  if (r->stop || t->kind != &gm_kind_set)
    return gm_iterate (r, t);
  const GmTracker *contents = gm_contents_of (r, t);
  GPtrArray *all = g_ptr_array_new ();
  for (uint32_t i = 0; i < contents->n; i++)
    g_ptr_array_add (all, (gpointer) contents->items[i]);
  return all;
}

static PyTypeObject *
type (GmRecorder *r, const GmTracker *t)
{
  return t->number ? &PyFrozenSet_Type : &PySet_Type;
}

static int64_t
len (GmRecorder *r, const GmTracker *t)
{
  const GmTracker *table = gm_table_of (r, t);
  return table ? gm_table_n_pairs (r, table) : gm_contents_of (r, t)->n;
}

/* A real set of the same elements, in an order of its own; NULL: not all are constants. */
static PyObject *
real_set (GmRecorder *r, const GmTracker *t)
{
  const GmTracker *contents = gm_contents_of (r, t);
  if (t->number)
    return Py_NewRef (t->real);
  PyObject *set = PySet_New (contents->real);
  for (uint32_t i = contents->real ? (uint32_t) PySet_GET_SIZE (contents->real) : 0; i < contents->n; i++) {
    PyObject *o = gm_constant (r, contents->items[i]);
    if (o == NULL || PySet_Add (set, o) < 0) {
      PyErr_Clear ();
      Py_CLEAR (set);
      break;
    }
  }
  return set;
}

static bool
order_is_known (const GmTracker *contents)
{
  return !contents->number || contents->real;
}

/* Hashed by address, so that no order of its set is the right one. */
static bool
any_identity (GmRecorder *r, const GmTracker *contents)
{
  for (uint32_t i = 0; i < contents->n; i++)
    if (gm_key_is_identity (r, contents->items[i]))
      return true;
  return false;
}

/* An existing one whose order is seen: it must be the same. */
static void
guard_order (GmRecorder *r, const GmTracker *t)
{
  if (t->source)
    gm_guard (r, SET_ORDER, t->source, .obj = gm_record_take (r, gm_set_elements (t->real)));
}

/* Likewise, where a set is made of it: CPython takes over its table if that has no gaps and the right size. */
static void
guard_table (GmRecorder *r, const GmTracker *t)
{
  guard_order (r, t);
  if (t->source)
    gm_guard (r, SET_TABLE, t->source, .index = gm_set_table (t->real));
}

/* Its text shows the order, so only where that is known. */
static PyObject *
constant (GmRecorder *r, const GmTracker *t)
{
  if (!order_is_known (gm_contents_of (r, t)) || (t->source && !t->number))
    return NULL;
  guard_order (r, t);
  return real_set (r, t);
}

static const GmTracker *
iterator_over (GmRecorder *r, const GmTracker *t, const GmTracker *in_order)
{
  const GmTracker *items[3] = { t, gm_contents_of (r, t), in_order };
  return gm_iterator_new (r, GM_ITER_SET, items, 3, 0);
}

static const GmTracker *
iter (GmRecorder *r, const GmTracker *t)
{
  const GmTracker *contents = gm_contents_of (r, t);
  if (!order_is_known (contents))
    return gm_record_break (r, GM_BREAK_ITERATION, "set whose order is not known");
  if (t->source || t->number) { /* the contents are in the order of the real one's table */
    guard_order (r, t);
    return iterator_over (r, t, gm_tuple_new (r, contents->items, contents->n));
  }
  PyObject *set = real_set (r, t), *o;
  if (set == NULL)
    return contents->n == 1
               ? iterator_over (r, t, gm_tuple_new (r, contents->items, 1))
               : gm_record_break (r, GM_BREAK_ITERATION, "set of objects");
  gm_record_take (r, set);
  g_autoptr (GPtrArray) items = g_ptr_array_new ();
  Py_ssize_t pos = 0;
  Py_hash_t hash;
  while (_PySet_NextEntry (set, &pos, &o, &hash)) {
    int64_t at = find (r, contents, gm_from_constant (r, o));
    if (r->stop || at < 0)
      return &gm_tracker_poison;
    g_ptr_array_add (items, (gpointer) contents->items[at]);
  }
  const GmTracker *all = gm_tuple_new (r, (const GmTracker *const *) items->pdata, items->len);
  return iterator_over (r, t, all);
}

/* -- New sets of others ---------------------------------------------------- */

/* A real object of the same elements in the same table: of a set, or a dict of the keys; NULL: not all are constants, or the table is not known. */
static PyObject *
real_operand (GmRecorder *r, const GmTracker *t)
{
  if (t->kind == &gm_kind_dict)
    gm_len (r, t); /* loads it whole */
  if (r->stop)
    return NULL;
  const GmTracker *contents = gm_contents_of (r, t);
  if (t->kind == &gm_kind_set)
    return !t->number && !order_is_known (contents)                ? NULL
           : t->real && contents->n == PySet_GET_SIZE (t->real) ? Py_NewRef (t->real) /* else it was cleared */
                                                                : real_set (r, t);
  PyObject *dict = PyDict_New ();
  for (uint32_t i = 0; dict && i < contents->n; i += 2) {
    PyObject *key = gm_constant (r, contents->items[i]);
    if (key == NULL || PyDict_SetItem (dict, key, Py_None) < 0)
      Py_CLEAR (dict);
  }
  PyErr_Clear ();
  return dict;
}

/* A new set takes over the elements of a set or dict at once.  NULL: one by one is as good, as no order is the right one. */
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
  if (from->kind == &gm_kind_set)
    guard_table (r, from);
  while (_PySet_NextEntry (real, &pos, &key, &hash))
    g_ptr_array_add (items, (gpointer) gm_from_constant (r, key));
  const GmTracker *t = set_add (r, NULL, NULL, (const GmTracker *const *) items->pdata, items->len), *c = gm_contents_of (r, t);
  gm_contents_set (r, t, gm_tracker (r, .kind = &gm_kind_contents, .items = c->items, .n = c->n, .data = c->data, .number = 1, .real = real));
  return t;
}

const GmTracker *
gm_set_of (GmRecorder *r, const GmTracker *from)
{
  const GmTracker *whole = set_inside (r, from), *t = NULL, *item;
  if (!r->stop && (whole->kind == &gm_kind_set || whole->kind == &gm_kind_dict))
    t = merged (r, whole);
  if (t || r->stop)
    return t ? t : &gm_tracker_poison;
  t = set_add (r, NULL, NULL, NULL, 0);
  const GmTracker *it = gm_iter (r, whole);
  while (!r->stop && (item = gm_next (r, it)) != NULL)
    add (r, t, item);
  return t;
}

static const GmTracker *
contains (GmRecorder *r, const GmTracker *t, const GmTracker *item)
{
  item = element (r, item);
  return gm_from_bool (r, item && has (r, t, item));
}

static const GmTracker *
method_add (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  if (!gm_args_plain (r, "add", args, 1, 1))
    return &gm_tracker_poison;
  add (r, t, args->args[0]);
  if (t->real)
    gm_effect (r, GM_EFFECT_CALL, PyDict_GetItemString (gm_type_dict (&PySet_Type), "add"), NULL,
               (const GmTracker *const[]){ t, args->args[0] }, 2);
  return gm_none (r);
}

/* Of a small set. */
static void
drop_copying (GmRecorder *r, const GmTracker *t, uint32_t at)
{
  const GmTracker *old = gm_contents_of (r, t);
  const GmTracker **items = gm_tracker_array (r, old->n);
  gm_tracker_copy (items, old->items, at);
  gm_tracker_copy (items + at, old->items + at + 1, old->n - at - 1);
  gm_contents_set (r, t, gm_tracker (r, .kind = &gm_kind_contents, .items = items, .n = old->n - 1, .number = 1));
}

static const GmTracker *
method_discard (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  if (!gm_args_plain (r, "discard", args, 1, 1))
    return &gm_tracker_poison;
  const GmTracker *item = element (r, args->args[0]);
  int64_t at;
  const GmTracker *table = item ? find_in_table (r, t, item, &at) : NULL;
  if (!table)
    at = item ? find (r, gm_contents_of (r, t), item) : -1;
  if (at >= 0) {
    if (!table)
      table = gm_table_make (r, t, 1, 1);
    if (table)
      gm_table_drop (r, table, at);
    else
      drop_copying (r, t, (uint32_t) at);
    if (t->real)
      gm_effect (r, GM_EFFECT_CALL, PyDict_GetItemString (gm_type_dict (&PySet_Type), "discard"), NULL,
                 (const GmTracker *const[]){ t, args->args[0] }, 2);
  }
  return gm_none (r);
}

/* A set as an operand that is kept for the replay, where it must have the table that it has now; NULL: it cannot. */
static const GmTracker *
as_it_is (GmRecorder *r, const GmTracker *t)
{
  const GmTracker *contents = gm_contents_of (r, t);
  if (t->number || t->real) /* never changes; or its changes are replayed in order */
    return t;
  if (!order_is_known (contents))
    return NULL;
  const GmTracker *copy = gm_set_new (r, contents->items, contents->n);
  if (!r->stop)
    gm_contents_set (r, copy, contents);
  return copy;
}

/* Changes a set by another one.  CPython's own method is replayed: it may lay out the table anew, so that taking out and adding one by one would
 * leave another order. */
static const GmTracker *
change_by (GmRecorder *r, GmBinary op, const GmTracker *t, const GmTracker *other)
{
  static const char *const names[GM_N_BIN] = { [GM_BIN_OR] = "update", [GM_BIN_AND] = "intersection_update", [GM_BIN_SUB] = "difference_update", [GM_BIN_XOR] = "symmetric_difference_update" };
  const GmTracker *arg = r->stop || other->kind != &gm_kind_set ? NULL : t->real ? as_it_is (r, other) : other;
  if (arg == NULL)
    return gm_record_break (r, GM_BREAK_CALL_METHOD, names[op], "set");
  const GmTracker *old = gm_contents_of (r, t), *by = gm_contents_of (r, other);
  g_autofree const GmTracker **kept = gm_tracker_array_own (old->n + by->n);
  uint32_t n = 0;
  for (uint32_t i = 0; i < old->n && !r->stop; i++)
    if (op == GM_BIN_OR || has (r, other, old->items[i]) == (op == GM_BIN_AND))
      kept[n++] = old->items[i];
  for (uint32_t i = 0; (op == GM_BIN_OR || op == GM_BIN_XOR) && i < by->n && !r->stop; i++)
    if (!has (r, t, by->items[i])) {
      gm_key_stored (r, by->items[i]);
      kept[n++] = by->items[i];
    }
  if (r->stop)
    return &gm_tracker_poison;
  const GmTracker **items = gm_tracker_array (r, n);
  gm_tracker_copy (items, kept, n);
  gm_contents_set (r, t, gm_tracker (r, .kind = &gm_kind_contents, .items = items, .n = n, .number = 1));
  if (t->real)
    gm_effect (r, GM_EFFECT_CALL, PyDict_GetItemString (gm_type_dict (&PySet_Type), names[op]), NULL, (const GmTracker *const[]){ t, arg }, 2);
  return t;
}

static const GmTracker *
change_by_argument (GmRecorder *r, GmBinary op, const GmTracker *t, const GmCallArgs *args)
{
  if (!gm_args_plain (r, "set's method", args, 1, 1))
    return &gm_tracker_poison;
  change_by (r, op, t, gm_realize (r, args->args[0]));
  return gm_none (r);
}

static const GmTracker *
method_intersection_update (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  return change_by_argument (r, GM_BIN_AND, t, args);
}

static const GmTracker *
method_difference_update (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  return change_by_argument (r, GM_BIN_SUB, t, args);
}

static const GmTracker *
method_symmetric_difference_update (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  return change_by_argument (r, GM_BIN_XOR, t, args);
}

static const GmTracker *
method_update (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  if (args->names)
    return gm_record_break (r, GM_BREAK_CALL_ARGUMENTS, "update() of a set with named arguments");
  for (uint32_t i = 0; i < args->n && !r->stop; i++) {
    const GmTracker *from = set_inside (r, args->args[i]);
    if (!r->stop && t->real && from->kind == &gm_kind_set) {
      change_by (r, GM_BIN_OR, t, from);
      continue;
    }
    bool unordered = !r->stop && (from->kind == &gm_kind_set || from->kind == &gm_kind_dict);
    if (!unordered) { /* one at a time: it may not be hashable */
      const GmTracker *it = gm_iter (r, from), *item;
      while (!r->stop && (item = gm_next (r, it)) != NULL)
        method_add (r, t, &(GmCallArgs){ &item, 1, NULL });
      continue;
    }
    g_autoptr (GPtrArray) items = iterate_unordered (r, from);
    if (items && !t->real) { /* a set is merged in the order of its table */
      const GmTracker *c = gm_contents_of (r, t);
      bool literal = c->n == 0 && order_is_known (c) && from->kind == &gm_kind_set && from->number;
      if (literal)
        c = gm_contents_of (r, from);
      gm_contents_set (r, t, gm_tracker (r, .kind = &gm_kind_contents, .items = c->items, .n = c->n, .number = 1, .real = literal ? from->real : NULL));
      if (literal)
        continue;
    } else if (items) {
      gm_record_break (r, GM_BREAK_CALL_METHOD, "update", "set");
      return &gm_tracker_poison;
    }
    for (uint32_t k = 0; items && k < items->len; k++)
      method_add (r, t, &(GmCallArgs){ (const GmTracker *const *) &items->pdata[k], 1, NULL });
  }
  return gm_none (r);
}

static const GmTracker *
method_remove (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  if (!gm_args_plain (r, "remove", args, 1, 1))
    return &gm_tracker_poison;
  const GmTracker *item = element (r, args->args[0]);
  if (item && !has (r, t, item) && !r->stop)
    return gm_raise_value (r, PyExc_KeyError, args->args[0]);
  return method_discard (r, t, args);
}

static const GmTracker *
method_clear (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  if (!gm_args_plain (r, "clear", args, 0, 0))
    return &gm_tracker_poison;
  gm_contents_set (r, t, gm_contents (r, NULL, 0));
  if (t->real)
    gm_effect (r, GM_EFFECT_CALL, PyDict_GetItemString (gm_type_dict (&PySet_Type), "clear"), NULL, &t, 1);
  return gm_none (r);
}

static const GmTracker *
method_copy (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  if (!gm_args_plain (r, "copy", args, 0, 0))
    return &gm_tracker_poison;
  PyObject *set = t->number ? NULL : real_set (r, t);
  if (set)
    return set_result (r, t, set);
  return t->number ? t : gm_record_break (r, GM_BREAK_CALL_METHOD, "copy", "set");
}

/* An argument of a method of a real set: a set or dict as it is, else a list of the elements; borrowed.  NULL after a break. */
static PyObject *
real_argument (GmRecorder *r, const GmTracker *t)
{
  t = set_inside (r, t);
  PyObject *real = !r->stop && (t->kind == &gm_kind_set || t->kind == &gm_kind_dict) ? real_operand (r, t) : NULL;
  if (real)
    return gm_record_take (r, real);
  g_autoptr (GPtrArray) items = r->stop ? NULL : iterate_unordered (r, t);
  PyObject *list = items ? gm_record_take (r, PyList_New (0)) : NULL;
  for (uint32_t k = 0; list && k < items->len; k++) {
    PyObject *o = constant_element (r, items->pdata[k]);
    if (o == NULL || PyList_Append (list, o) < 0)
      return NULL;
  }
  return list;
}

/* Whether the table of a frozenset that is made of it is known; guards what it depends on. */
static bool
table_is_known (GmRecorder *r, const GmTracker *t)
{
  t = gm_realize (r, t);
  if (r->stop || t->kind != &gm_kind_set)
    return !r->stop;
  guard_table (r, t);
  return t->number || order_is_known (gm_contents_of (r, t));
}

/* A question about two sets, or a new set of two: CPython's own, on real sets.  What order a new
 * one that can change is iterated in is taken as not known. */
static const GmTracker *
on_real (GmRecorder *r, const GmTracker *t, const char *name, const GmCallArgs *args)
{
  PyObject *self = real_set (r, t);
  if (self)
    gm_record_take (r, self);
  if (self == NULL || args->names)
    return gm_record_break (r, GM_BREAK_CALL_METHOD, name, "set");
  PyObject *method = gm_record_take (r, PyObject_GetAttrString (self, name));
  g_autofree PyObject **values = g_new0 (PyObject *, args->n + 1);
  for (uint32_t i = 0; i < args->n; i++)
    if ((values[i] = real_argument (r, args->args[i])) == NULL)
      return &gm_tracker_poison;
  PyObject *result = PyObject_Vectorcall (method, values, args->n, NULL);
  if (!result || !PyAnySet_Check (result))
    return gm_from_constant_take (r, result);
  bool known = !PyFrozenSet_Check (result) || table_is_known (r, t);
  for (uint32_t i = 0; i < args->n && known && PyFrozenSet_Check (result); i++)
    known = table_is_known (r, args->args[i]);
  if (known)
    return set_result (r, t, result);
  Py_DECREF (result);
  return gm_record_break (r, GM_BREAK_CALL_METHOD, name, "frozenset");
}

#define ON_REAL(name)                                                                              \
  static const GmTracker *method_##name (GmRecorder *r, const GmTracker *t,                        \
                                         const GmCallArgs *args)                                   \
  {                                                                                                \
    return on_real (r, t, #name, args);                                                            \
  }
ON_REAL (union)
ON_REAL (intersection)
ON_REAL (difference)
ON_REAL (symmetric_difference)
ON_REAL (issubset)

/* Reads no further than to the first element that decides it: one that is there, or one that is not. */
static const GmTracker *
ask_all (GmRecorder *r, const GmTracker *t, const char *name, const GmCallArgs *args, bool there)
{
  const GmTracker *from = args->n == 1 && !args->names ? there ? set_inside (r, args->args[0]) : gm_realize (r, args->args[0]) : NULL, *item;
  if (!from || r->stop || gm_iterates_alone (from))
    return on_real (r, t, name, args);
  const GmTracker *it = gm_iter (r, from);
  while (!r->stop && (item = gm_next (r, it)) != NULL && (item = element (r, item)) != NULL)
    if (has (r, t, item) != there)
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

/* set.__init__ of a new set. */
static const GmTracker *
method_init (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  if (t->real || gm_contents_of (r, t)->n)
    return gm_record_break (r, GM_BREAK_CALL_METHOD, "__init__", "set");
  return method_update (r, t, args);
}

static const GmMethodRow methods[] = {
  { "add", method_add },
  { "discard", method_discard },
  { "update", method_update },
  { "remove", method_remove },
  { "clear", method_clear },
  { "intersection_update", method_intersection_update },
  { "difference_update", method_difference_update },
  { "symmetric_difference_update", method_symmetric_difference_update },
  { "__init__", method_init },
  { NULL, NULL },
};

static const GmMethodRow both_methods[] = {
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

static const GmTracker *
getattr (GmRecorder *r, const GmTracker *t, PyObject *name)
{
  const GmTracker *bound = gm_method_row (r, both_methods, t, name);
  if (bound == NULL && !t->number)
    bound = gm_method_row (r, methods, t, name);
  if (bound || (bound = gm_operator_method (r, t, name)) != NULL
      || _PyType_Lookup (type (r, t), name) == NULL)
    return bound;
  return gm_record_break (r, GM_BREAK_CALL_METHOD, PyUnicode_AsUTF8 (name), "set");
}

static const GmTracker *
binary (GmRecorder *r, GmBinary op, const GmTracker *t, const GmTracker *other, bool reflected,
        bool inplace)
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

/* By the elements, for sets of objects: each is looked up in the larger set. */
static const GmTracker *
compare_elements (GmRecorder *r, int op, const GmTracker *a, const GmTracker *b)
{
  if (op == Py_GT || op == Py_GE)
    return compare_elements (r, op == Py_GT ? Py_LT : Py_LE, b, a);
  const GmTracker *items = gm_contents_of (r, a);
  int64_t n = items->n, m = len (r, b);
  bool inside = n <= m;
  for (uint32_t i = 0; i < n && inside && !r->stop; i++)
    inside = has (r, b, items->items[i]);
  bool same = inside && n == m;
  return gm_from_bool (r, op == Py_EQ   ? same
                          : op == Py_NE ? !same
                          : op == Py_LT ? inside && n < m
                                        : inside);
}

static const GmTracker *
compare (GmRecorder *r, int op, const GmTracker *t, const GmTracker *other)
{
  if (other->kind != &gm_kind_set)
    return NULL;
  PyObject *a = real_set (r, t), *b = real_set (r, other);
  if (a == NULL || b == NULL) {
    Py_XDECREF (a);
    Py_XDECREF (b);
    return compare_elements (r, op, t, other);
  }
  gm_record_take (r, a);
  gm_record_take (r, b);
  return gm_from_constant_take (r, PyObject_RichCompare (a, b, op));
}

/* A new one at each call, as from the plain function. */
static void
build_frozen (GmResidualBuilder *b, const GmTracker *t)
{
  bool as_set = false;
  PyObject *of = t->number == MADE ? gm_set_made_of (t->real, &as_set) : NULL;
  if (of == NULL) {
    gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, t->real);
    return;
  }
  PyTypeObject *types[] = { &PyFrozenSet_Type, &PySet_Type };
  for (int i = 0; i <= as_set; i++) {
    gm_residual_emit (b, GM_INSN_PUSH_NULL, 0, NULL);
    gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, (PyObject *) types[i]);
  }
  gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, gm_record_take (gm_residual_recorder (b), of));
  for (int i = 0; i <= as_set; i++)
    gm_residual_emit (b, GM_INSN_CALL, 1, NULL);
  gm_residual_allocated (b, t);
  gm_residual_emit (b, GM_INSN_LOAD_FAST, gm_residual_temp (b, t), NULL);
}

static bool
build (GmResidualBuilder *b, const GmTracker *t)
{
  if (gm_residual_cached (b, t))
    return true;
  if (gm_storage_owner (gm_residual_recorder (b), t)) {
    gm_residual_value (b, gm_storage_owner (gm_residual_recorder (b), t));
    return true;
  }
  if (t->number) {
    build_frozen (b, t);
    return true;
  }
  const GmTracker *contents = gm_contents_of (gm_residual_recorder (b), t);
  if (!order_is_known (contents) && !any_identity (gm_residual_recorder (b), contents))
    return false; /* elements were removed: its order is not known */
  for (uint32_t i = 0; i < contents->n; i++)
    if (!gm_key_still (gm_residual_recorder (b), contents->items[i])
        || !gm_key_can_be_built (gm_residual_recorder (b), contents->items[i]))
      return false;
  if (contents->real) {
    gm_residual_emit (b, GM_INSN_PUSH_NULL, 0, NULL);
    gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, (PyObject *) &PySet_Type);
    gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, contents->real);
    gm_residual_emit (b, GM_INSN_CALL, 1, NULL);
  } else {
    gm_residual_emit (b, GM_INSN_BUILD_SET, 0, NULL); /* an element may refer to the set */
  }
  gm_residual_allocated (b, t);
  for (uint32_t i = contents->real ? (uint32_t) PySet_GET_SIZE (contents->real) : 0; i < contents->n; i++) {
    gm_residual_emit (b, GM_INSN_LOAD_FAST, gm_residual_temp (b, t), NULL);
    gm_residual_value (b, contents->items[i]);
    gm_residual_emit (b, GM_INSN_SET_ADD, 1, NULL);
    gm_residual_emit (b, GM_INSN_POP_TOP, 0, NULL);
  }
  gm_residual_emit (b, GM_INSN_LOAD_FAST, gm_residual_temp (b, t), NULL);
  return true;
}

const GmTrackerKind gm_kind_set = {
  .name = "set",
  .type = type,
  .iter = iter,
  .getattr = getattr,
  .binary = binary,
  .compare = compare,
  .len = len,
  .contains = contains,
  .constant = constant,
  .build = build,
};
