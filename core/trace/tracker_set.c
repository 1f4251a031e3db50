/* SPDX-License-Identifier: Apache-2.0
 * tracker_set.c -- sets and frozensets: contents in the heap, and the methods that read a single
 * set.
 *
 * Contents are the elements in the order of insertion; those of an existing set are in the order of
 * its table, which is guarded if the program reads the order. set_order.c tracks the known orders;
 * methods that take other sets are in set_algebra.c.
 */
#include "core/trace/set.h"

#include "core/models/models.h"
#include "core/trace/contents.h"
#include "core/trace/exception.h"
#include "core/trace/iterator.h"
#include "core/trace/keys.h"
#include "core/objects/set_table.h"
#include "core/trace/key_table.h"

const GmTracker *
gm_set_add (GmRecorder *r, PyObject *real, const GmSource *source, const GmTracker *const *items,
            uint32_t n)
{
  uint32_t id = gm_heap_add (&r->heap, GM_N_SET_SLOTS);
  const GmTracker *t = gm_tracker_add (
      r, &(GmTracker){ .kind = &gm_kind_set,
                       .real = real,
                       .source = source,
                       .id = id,
                       .number = real && PyFrozenSet_Check (real) ? GM_SET_EXISTS : GM_SET_PLAIN });
  gm_contents_set (r, t, gm_contents (r, items, n));
  return t;
}

/* Returns the table (key_table.h) with the set's contents, and the element's place in it, *at (-1:
 * absent); NULL: the contents are no table, or the place is not known. */
static const GmTracker *
find_in_table (GmRecorder *r, const GmTracker *t, const GmTracker *item, int64_t *at)
{
  const GmTracker *table = r->stop ? NULL : gm_key_table_of (r, t);
  return table && gm_key_table_find (r, table, item, at) ? table : NULL;
}

bool
gm_set_has (GmRecorder *r, const GmTracker *t, const GmTracker *item)
{
  int64_t at;
  if (!find_in_table (r, t, item, &at))
    at = gm_key_find (r, gm_contents_of (r, t), 1, item);
  return at >= 0;
}

const GmTracker *
gm_set_element (GmRecorder *r, const GmTracker *item)
{
  item = gm_realize (r, item);
  if (gm_key_known (r, item))
    return item;
  gm_record_break (r, GM_BREAK_VALUE_KIND, "set with elements whose hash is not known");
  return NULL;
}

/* Adds an element; false if an equal one is there already, which changes nothing, or after a
 * break. */
static bool
add (GmRecorder *r, const GmTracker *t, const GmTracker *item)
{
  int64_t at;
  item = gm_set_element (r, item);
  if (item == NULL || r->stop)
    return false;
  if (find_in_table (r, t, item, &at)) {
    if (at < 0)
      gm_key_table_append (r, t, item, NULL);
    return at < 0;
  }
  const GmTracker *old = gm_contents_of (r, t);
  if (gm_key_find (r, old, 1, item) >= 0 || r->stop)
    return false;
  const GmTracker *contents = gm_contents_append (r, old, &item, 1);
  gm_key_stored (r, item);
  PyObject *base = old->real;
  if (t->real && !old->number && (base = gm_set_exact_small (r, t)) != NULL)
    gm_record_take (r, base);
  if (base || t->real)
    contents = gm_tracker (r, .kind = &gm_kind_contents, .items = contents->items, .n = contents->n,
                           .data = contents->data, .real = base, .number = 1);
  gm_contents_set (r, t, contents);
  return true;
}

const GmTracker *
gm_set_new (GmRecorder *r, const GmTracker *const *items, uint32_t n)
{
  const GmTracker *t = gm_set_add (r, NULL, NULL, NULL, 0);
  for (uint32_t i = 0; i < n && !r->stop; i++)
    add (r, t, items[i]);
  return t;
}

/* True if a guard can compare the element `o` of an existing set exactly without running code of
 * the user's. depth: levels of tuples that are read. */
static bool
is_element (PyObject *o, uint32_t depth)
{
  if (PyFloat_CheckExact (o) && PyFloat_AS_DOUBLE (o) == 0)
    return false;
  if (!PyTuple_CheckExact (o))
    return PyUnicode_CheckExact (o) || PyLong_CheckExact (o) || PyFloat_CheckExact (o)
           || PyBytes_CheckExact (o) || PyBool_Check (o) || o == Py_None;
  bool all = depth > 0;
  for (Py_ssize_t i = 0; all && i < PyTuple_GET_SIZE (o); i++)
    all = is_element (PyTuple_GET_ITEM (o, i), depth - 1);
  return all;
}

const GmTracker *
gm_set_storage (GmRecorder *r, PyObject *real, const GmSource *source)
{
  g_autoptr (GPtrArray) items = g_ptr_array_new ();
  Py_ssize_t pos = 0;
  PyObject *key;
  Py_hash_t hash;
  bool simple = true; /* elements of different types are never equal */
  if (!gm_record_limit_items (r, PySet_GET_SIZE (real)))
    return &gm_tracker_poison;
  while (_PySet_NextEntry (real, &pos, &key, &hash)) {
    if (!is_element (key, GM_MAX_NESTING))
      return gm_record_break (r, GM_BREAK_VALUE_KIND, "set with elements that are no constants");
    simple &= PyUnicode_CheckExact (key) || PyLong_CheckExact (key);
    g_ptr_array_add (items, (gpointer) (PyTuple_CheckExact (key) ? gm_tuple_constant (r, key)
                                                                 : gm_from_constant (r, key)));
  }
  if (simple)
    gm_guard (r, SET_EQUALS, source, .obj = gm_record_take (r, PyFrozenSet_New (real)));
  else /* elements are compared one after the other, with their types */
    gm_guard (r, SET_ORDER, source, .obj = gm_record_take (r, gm_set_elements (real)));
  return gm_set_add (r, real, source, (const GmTracker *const *) items->pdata, items->len);
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

const GmTracker *
gm_set_inside (GmRecorder *r, const GmTracker *t)
{
  t = gm_realize (r, t);
  const GmTracker *storage = r->stop ? NULL : gm_storage (t);
  return storage && storage->kind == &gm_kind_set ? storage : t;
}

static PyTypeObject *
type (GmRecorder *r, const GmTracker *t)
{
  return t->number ? &PyFrozenSet_Type : &PySet_Type;
}

static int64_t
len (GmRecorder *r, const GmTracker *t)
{
  const GmTracker *table = gm_key_table_of (r, t);
  return table ? gm_key_table_n_pairs (r, table) : gm_contents_of (r, t)->n;
}

PyObject *
gm_set_real (GmRecorder *r, const GmTracker *t)
{
  const GmTracker *contents = gm_contents_of (r, t);
  if (t->number)
    return Py_NewRef (t->real);
  PyObject *set = gm_set_exact (r, t);
  if (set)
    return set;
  set = PySet_New (NULL);
  for (uint32_t i = 0; set && i < contents->n; i++) {
    PyObject *o = gm_constant (r, contents->items[i]);
    if (o == NULL || PySet_Add (set, o) < 0) {
      PyErr_Clear ();
      Py_CLEAR (set);
      break;
    }
  }
  return set;
}

/* True if an element is hashed by its address, so that the set's order differs from call to
 * call. */
static bool
any_identity (GmRecorder *r, const GmTracker *contents)
{
  for (uint32_t i = 0; i < contents->n; i++)
    if (gm_key_is_identity (r, contents->items[i]))
      return true;
  return false;
}

/* Returns the set as a new real set if its order is known, because texts and copies show the order;
 * NULL: it is not known. */
static PyObject *
constant (GmRecorder *r, const GmTracker *t)
{
  if (!gm_set_order_is_known (gm_contents_of (r, t)) || (t->source && !t->number))
    return NULL;
  gm_set_see_order (r, t);
  return gm_set_real (r, t);
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
  if (!gm_set_order_is_known (contents))
    return gm_record_break (r, GM_BREAK_ITERATION, "set whose order is not known");
  gm_set_see_order (r, t);
  if ((t->source && !contents->number) || t->number) /* the contents are in the order of the real
                                                        set's table */
    return iterator_over (r, t, gm_tuple_new (r, contents->items, contents->n));
  PyObject *set = gm_set_real (r, t), *o;
  if (set == NULL)
    return contents->n == 1 ? iterator_over (r, t, gm_tuple_new (r, contents->items, 1))
                            : gm_record_break (r, GM_BREAK_ITERATION, "set of objects");
  gm_record_take (r, set);
  g_autoptr (GPtrArray) items = g_ptr_array_new ();
  Py_ssize_t pos = 0;
  Py_hash_t hash;
  while (_PySet_NextEntry (set, &pos, &o, &hash)) {
    int64_t at = gm_key_find (r, contents, 1, gm_from_constant (r, o));
    if (r->stop || at < 0)
      return &gm_tracker_poison;
    g_ptr_array_add (items, (gpointer) contents->items[at]);
  }
  const GmTracker *all = gm_tuple_new (r, (const GmTracker *const *) items->pdata, items->len);
  return iterator_over (r, t, all);
}

/* Returns the element to look up for `item`: for a set, which cannot be an element, a frozenset of
 * the same elements. NULL after a break. */
static const GmTracker *
looked_for (GmRecorder *r, const GmTracker *item)
{
  item = gm_realize (r, item);
  const GmTracker *set = r->stop ? item : gm_set_inside (r, item);
  if (r->stop || set->kind != &gm_kind_set || set->number)
    return gm_set_element (r, item);
  PyObject *real = gm_set_real (r, set), *frozen = real ? PyFrozenSet_New (real) : NULL;
  Py_XDECREF (real);
  if (frozen == NULL) {
    gm_record_break (r, GM_BREAK_VALUE_KIND, "set with elements whose hash is not known");
    return NULL;
  }
  return gm_set_element (r, gm_from_constant_take (r, frozen));
}

static const GmTracker *
contains (GmRecorder *r, const GmTracker *t, const GmTracker *item)
{
  item = looked_for (r, item);
  return gm_from_bool (r, item && gm_set_has (r, t, item));
}

void
gm_set_effect (GmRecorder *r, const char *name, const GmTracker *t, const GmTracker *const *args,
               uint32_t n)
{
  g_autofree const GmTracker **all = gm_tracker_array_own (n + 1);
  all[0] = t;
  gm_tracker_copy (all + 1, args, n);
  if (t->real)
    gm_effect (r, GM_EFFECT_CALL, PyDict_GetItemString (gm_type_dict (&PySet_Type), name), NULL,
               all, n + 1);
}

const GmTracker *
gm_set_append (GmRecorder *r, const GmTracker *t, const GmTracker *item)
{
  if (add (r, t, item))
    gm_set_effect (r, "add", t, &item, 1);
  return gm_none (r);
}

static const GmTracker *
method_add (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  return gm_args_plain (r, "add", args, 1, 1) ? gm_set_append (r, t, args->args[0])
                                              : &gm_tracker_poison;
}

/* Removes the element at index `at`. `table`: the real set with the table afterwards, or NULL. */
static void
drop (GmRecorder *r, const GmTracker *t, uint32_t at, PyObject *table)
{
  const GmTracker *old = gm_contents_of (r, t);
  g_autofree const GmTracker **items = gm_tracker_array_own (old->n);
  gm_tracker_copy (items, old->items, at);
  gm_tracker_copy (items + at, old->items + at + 1, old->n - at - 1);
  gm_set_be (r, t, table, items, old->n - 1);
}

/* Removes the element at index `at` by CPython's own change of a copy of the table, so that the
 * order stays known; false: the table is not known, or the set is not small. */
static bool
discard_exactly (GmRecorder *r, const GmTracker *t, uint32_t at)
{
  PyObject *table = gm_set_exact_small (r, t),
           *o = table ? gm_constant (r, gm_contents_of (r, t)->items[at]) : NULL;
  if (table)
    gm_record_take (r, table);
  bool done = o && PySet_Discard (table, o) >= 0;
  PyErr_Clear ();
  if (done)
    drop (r, t, at, table);
  return done;
}

static const GmTracker *
method_discard (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  if (!gm_args_plain (r, "discard", args, 1, 1))
    return &gm_tracker_poison;
  const GmTracker *item = looked_for (r, args->args[0]);
  int64_t at;
  const GmTracker *table = item ? find_in_table (r, t, item, &at) : NULL;
  if (!table)
    at = item ? gm_key_find (r, gm_contents_of (r, t), 1, item) : -1;
  if (at >= 0) {
    bool done = !table && discard_exactly (r, t, (uint32_t) at);
    if (!done && !table)
      table = gm_key_table_make (r, t, 1, 1);
    if (!done && table)
      gm_key_table_drop (r, table, at);
    else if (!done)
      drop (r, t, (uint32_t) at, NULL);
    gm_set_effect (r, "discard", t, args->args, 1);
  }
  return gm_none (r);
}

/* Runs pop (). The element that CPython removes depends on the table, and on the place where the
 * last pop () ended. */
static const GmTracker *
method_pop (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  if (!gm_args_plain (r, "pop", args, 0, 0))
    return &gm_tracker_poison;
  const GmTracker *contents = gm_contents_of (r, t), *item = NULL;
  if (contents->n == 0)
    return gm_raise_new (r, PyExc_KeyError, "pop from an empty set");
  PyObject *table = gm_set_exact_small (r, t),
           *o = table ? PySet_Pop (gm_record_take (r, table)) : NULL;
  int64_t at = o ? gm_key_find (r, contents, 1, gm_from_constant_take (r, o)) : -1;
  if (at < 0 || r->stop)
    return gm_record_break (r, GM_BREAK_CALL_METHOD, "pop", "set");
  gm_set_see_table (r, t);
  if (t->source)
    gm_guard (r, SET_STATE, t->source, .index = gm_set_state (t->real));
  item = contents->items[at];
  drop (r, t, (uint32_t) at, table);
  gm_set_effect (r, "pop", t, NULL, 0);
  return item;
}

static const GmTracker *
method_remove (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  if (!gm_args_plain (r, "remove", args, 1, 1))
    return &gm_tracker_poison;
  const GmTracker *item = looked_for (r, args->args[0]);
  if (item && !gm_set_has (r, t, item) && !r->stop)
    return gm_raise_value (r, PyExc_KeyError, args->args[0]);
  return method_discard (r, t, args);
}

static const GmTracker *
method_clear (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  if (!gm_args_plain (r, "clear", args, 0, 0))
    return &gm_tracker_poison;
  PyObject *table = t->real ? gm_set_exact_small (r, t) : gm_set_exact (r, t);
  if (table || !t->real) /* otherwise the place where the next pop begins is not known */
    PySet_Clear (gm_record_take (r, table ? table : (table = PySet_New (NULL))));
  gm_set_be (r, t, table, NULL, 0);
  gm_set_effect (r, "clear", t, NULL, 0);
  return gm_none (r);
}

/* Runs set.__init__ of a new set. */
static const GmTracker *
method_init (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  if (t->real || gm_contents_of (r, t)->n)
    return gm_record_break (r, GM_BREAK_CALL_METHOD, "__init__", "set");
  return gm_set_update (r, t, args);
}

static const GmMethodRow methods[] = {
  { "add", method_add }, { "discard", method_discard }, { "remove", method_remove },
  { "pop", method_pop }, { "clear", method_clear },     { "__init__", method_init },
  { NULL, NULL },
};

static const GmTracker *
getattr (GmRecorder *r, const GmTracker *t, PyObject *name)
{
  const GmTracker *bound = gm_method_row (r, gm_set_questions, t, name);
  if (bound == NULL && !t->number && (bound = gm_method_row (r, methods, t, name)) == NULL)
    bound = gm_method_row (r, gm_set_changes, t, name);
  if (bound || (bound = gm_operator_method (r, t, name)) != NULL
      || _PyType_Lookup (type (r, t), name) == NULL)
    return bound;
  return gm_record_break (r, GM_BREAK_CALL_METHOD, PyUnicode_AsUTF8 (name), "set");
}

/* Emits a frozenset: if an operation has made it, a new one at each call, as the plain function
 * makes. */
static void
build_frozen (GmResidualBuilder *b, const GmTracker *t)
{
  bool as_set = false;
  PyObject *of = t->number == GM_SET_MADE ? gm_set_made_of (t->real, &as_set) : NULL;
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
  gm_set_see_table (gm_residual_recorder (b), t); /* the program that gets the set reads its
                                                     table */
  PyObject *of = contents->real;
  if (!gm_set_table_is_known (contents) && !any_identity (gm_residual_recorder (b), contents))
    return false; /* elements were removed, so that the order is not known */
  for (uint32_t i = 0; i < contents->n; i++)
    if (!gm_key_still (gm_residual_recorder (b), contents->items[i])
        || !gm_key_can_be_built (gm_residual_recorder (b), contents->items[i]))
      return false;
  if (of) {
    gm_residual_emit (b, GM_INSN_PUSH_NULL, 0, NULL);
    gm_residual_emit (b, GM_INSN_LOAD_CONST, 0,
                      PyFrozenSet_Check (of) ? (PyObject *) &PySet_Type : gm_set_table_copier ());
    gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, of);
    gm_residual_emit (b, GM_INSN_CALL, 1, NULL);
  } else {
    gm_residual_emit (b, GM_INSN_BUILD_SET, 0, NULL); /* an element may refer to the set */
  }
  gm_residual_allocated (b, t);
  for (uint32_t i = of ? (uint32_t) PySet_GET_SIZE (of) : 0; i < contents->n; i++) {
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
  .binary = gm_set_binary,
  .compare = gm_set_compare,
  .len = len,
  .contains = contains,
  .constant = constant,
  .build = build,
};
