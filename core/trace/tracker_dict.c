/* SPDX-License-Identifier: Apache-2.0
 * tracker_dict.c -- dicts.
 *
 * Contents are key, value, key, value ... in insertion order.  An existing dict is read entry by
 * entry, each read guarded by presence or absence of its key alone; the first operation that sees
 * order, length or all keys, or that writes, loads it whole under a DICT_KEYS guard.
 */
#include "core/models/models.h"
#include "core/trace/contents.h"
#include "core/trace/exception.h"
#include "core/trace/keys.h"
#include "core/trace/instance.h"
#include "core/trace/key_table.h"

#include <string.h>

static const GmTracker *
dict_add (GmRecorder *r, PyObject *real, const GmSource *source, const GmTracker *contents)
{
  uint32_t id = gm_heap_add (&r->heap, GM_N_STORAGE_SLOTS);
  const GmTracker *t = gm_tracker_add (
      r, &(GmTracker){ .kind = &gm_kind_dict, .real = real, .source = source, .id = id });
  gm_contents_set (r, t, contents);
  return t;
}

const GmTracker *
gm_dict_new (GmRecorder *r)
{
  return dict_add (r, NULL, NULL, gm_contents (r, NULL, 0));
}

const GmTracker *
gm_dict_new_storage (GmRecorder *r, bool ordered)
{
  uint32_t id = gm_heap_add (&r->heap, GM_N_STORAGE_SLOTS);
  const GmTracker *t =
      gm_tracker_add (r, &(GmTracker){ .kind = &gm_kind_dict, .id = id, .number = ordered });
  gm_contents_set (r, t, gm_contents (r, NULL, 0));
  return t;
}

/* Returns the tracker of an existing dict, which may be the storage of an instance. number 1: an
 * OrderedDict, whose order is not that of its hash table. */
const GmTracker *
gm_dict_storage (GmRecorder *r, PyObject *real, const GmSource *source)
{
  uint32_t id = gm_heap_add (&r->heap, GM_N_STORAGE_SLOTS);
  return gm_tracker_add (r, &(GmTracker){ .kind = &gm_kind_dict,
                                          .real = real,
                                          .source = source,
                                          .id = id,
                                          .number = PyODict_Check (real) });
}

const GmTracker *
gm_wrap_dict (GmRecorder *r, PyObject *real, const GmSource *source)
{
  gm_guard (r, TYPE, source, .obj = (PyObject *) &PyDict_Type);
  const GmTracker *t = dict_add (r, real, source, NULL);
  gm_know (r, t);
  return t;
}

static PyTypeObject *
type (GmRecorder *r, const GmTracker *t)
{
  return &PyDict_Type;
}

/* True if C code that copies or merges `object`, an instance of a subclass of dict, calls Python
 * methods of its class for the entries. A copy into a dict calls them if the class has its own
 * __iter__; for an OrderedDict, or into one (`ordered`), keys () and __getitem__ are called. */
static bool
is_asked (GmRecorder *r, const GmTracker *object, bool ordered)
{
  bool items = ordered || gm_storage (object)->number;
  const char *const asked[] = { items ? "keys" : "__iter__", items ? "__getitem__" : "__iter__" };
  return gm_object_how (r, object, asked[0], NULL) != GM_HOW_C
         || gm_object_how (r, object, asked[1], NULL) != GM_HOW_C;
}

/* True if t is the dict inside of an instance for which is_asked () is true. */
static bool
is_asked_for (GmRecorder *r, const GmTracker *t, bool ordered)
{
  const GmTracker *object = gm_storage_object (r, t);
  return object && is_asked (r, object, ordered);
}

/* Returns t if it is a dict; the dict inside of an instance of a subclass that C code merges into a
 * dict without calling its methods; else NULL. */
const GmTracker *
gm_dict_of (GmRecorder *r, const GmTracker *t)
{
  const GmTracker *storage = gm_storage (t);
  if (t->kind == &gm_kind_dict)
    return t;
  if (storage == NULL || storage->kind != &gm_kind_dict)
    return NULL;
  return is_asked (r, t, false) ? NULL : storage;
}

/* Returns a new list of the keys of an OrderedDict in its order, without calling a subclass's
 * __iter__; NULL with an exception. */
static PyObject *
order_of (PyObject *ordered)
{
  PyObject *it = PyODict_Type.tp_iter (ordered), *keys = it ? PySequence_List (it) : NULL;
  Py_XDECREF (it);
  return keys;
}

const GmTracker *
gm_dict_contents (GmRecorder *r, const GmTracker *t)
{
  if (t->n)
    return gm_instance_dict_contents (r, t);
  const GmTracker *contents = gm_contents_of (r, t);
  if (contents)
    return contents;
  uint32_t n = (uint32_t) PyDict_GET_SIZE (t->real), i = 0;
  if (!gm_record_limit_items (r, 2 * (Py_ssize_t) n))
    return &gm_tracker_poison;
  const GmTracker **items = gm_tracker_array (r, 2 * n);
  PyObject *keys = gm_record_take (r, PyTuple_New (n));
  PyObject *order = t->number ? order_of (t->real) : NULL;
  if (t->number && order == NULL)
    return gm_record_break_exception (r);
  if (order)
    gm_record_take (r, order);
  Py_ssize_t pos = 0;
  PyObject *key, *value;
  while (order ? i < n && i < PyList_GET_SIZE (order) && (key = PyList_GET_ITEM (order, i)) != NULL
                     && (value = PyDict_GetItemWithError (t->real, key)) != NULL
               : PyDict_Next (t->real, &pos, &key, &value)) {
    GmKeyKind kind = gm_key_kind (key);
    if (kind == GM_KEY_OTHER)
      return gm_record_break (r, GM_BREAK_VALUE_KIND,
                              "dict with keys other than str, int, float, bytes, None, tuples of "
                              "such, functions, classes, dtypes, and members of an Enum");
    PyTuple_SET_ITEM (keys, i, Py_NewRef (key));
    items[2 * i] = PyTuple_CheckExact (key) ? gm_tuple_constant (r, key)
                   : kind == GM_KEY_FIXED   ? gm_from_constant (r, key)
                                            : gm_wrap (r, key, gm_source_const (r, key, "a key"));
    items[2 * i + 1] = gm_wrap_lazy (r, value, gm_source_dict_item (r, t->source, key));
    i++;
  }
  PyErr_Clear ();
  if (i != n)
    return gm_record_break (r, GM_BREAK_VALUE_KIND,
                            "OrderedDict that methods of dict have changed");
  if (t->number)
    gm_guard (r, ORDERED_KEYS, t->source, .obj = keys);
  else
    gm_guard (r, DICT_KEYS, t->source, .obj = keys);
  contents = gm_contents (r, items, 2 * n); /* has room for an index of the keys */
  gm_contents_set (r, t, contents);
  return contents;
}

/* -- Keys ------------------------------------------------------------------ */

/* Returns the table with the dict's contents, and the key's place in it, *at (-1: absent); NULL:
 * the contents are no table, or the place is not known. */
static const GmTracker *
find_in_table (GmRecorder *r, const GmTracker *t, const GmTracker *key, int64_t *at)
{
  const GmTracker *table = t->n == 0 && !r->stop ? gm_key_table_of (r, t) : NULL;
  return table && gm_key_table_find (r, table, gm_realize (r, key), at) ? table : NULL;
}

/* Returns the object with which a guard looks the key up in an existing dict, borrowed: a constant,
 * the value of an object that is compared by value, or a key that is compared by identity, which is
 * guarded. NULL: there is none. */
static PyObject *
looked_up_by (GmRecorder *r, const GmTracker *key)
{
  if (key->kind == &gm_kind_constant)
    return key->real;
  if (key->kind == &gm_kind_object && gm_value_of (key) != key)
    return gm_key_value (r, key);
  if (key->real == NULL || !gm_key_is_identity (r, key)
      || gm_key_kind (key->real) != GM_KEY_IDENTITY)
    return NULL;
  if (key->source && key->source->kind != GM_SOURCE_CONST)
    gm_guard (r, IS, key->source, .obj = key->real);
  return key->real;
}

/* Returns the value under `key`; NULL: the key is absent, which is guarded for an existing dict, or
 * there was a break. */
const GmTracker *
gm_dict_lookup (GmRecorder *r, const GmTracker *t, const GmTracker *key)
{
  if (!gm_key_known (r, key)) {
    gm_record_break (r, GM_BREAK_SUBSCRIPT, "dict", gm_type_text (r, key));
    return NULL;
  }
  int64_t at;
  const GmTracker *table = find_in_table (r, t, key, &at);
  if (table)
    return at < 0 ? NULL : gm_key_table_value (r, table, at);
  const GmTracker *contents = gm_contents_of (r, t);
  key = gm_realize (r, key);
  if (t->n && key->kind == &gm_kind_constant && PyUnicode_CheckExact (key->real)) {
    PyObject *name = Py_NewRef (key->real);
    PyUnicode_InternInPlace (&name);
    return gm_instance_dict_get (r, t, gm_record_take (r, name));
  }
  if (t->n == 0 && contents == NULL && !gm_dict_keys_are_plain (r, t->real)) {
    gm_record_break (r, GM_BREAK_SUBSCRIPT, "dict of objects with an __eq__",
                     gm_type_text (r, key));
    return NULL;
  }
  PyObject *plain = t->n == 0 && contents == NULL ? looked_up_by (r, key) : NULL;
  if (plain) {
    PyObject *value = PyDict_GetItemWithError (t->real, plain);
    if (value)
      return gm_wrap_present (r, value, gm_source_dict_item (r, t->source, plain));
    PyErr_Clear ();
    gm_guard (r, DICT_ABSENT, t->source, .key = plain);
    return NULL;
  }
  contents = gm_dict_contents (r, t);
  at = r->stop ? -1 : gm_key_find (r, contents, 2, key);
  return at < 0 ? NULL : contents->items[at + 1];
}

PyTypeObject *
gm_dict_owner (const GmTracker *t)
{
  return t->number ? &PyODict_Type : &PyDict_Type;
}

/* -- Writes ---------------------------------------------------------------- */

void
gm_dict_store (GmRecorder *r, const GmTracker *t, const GmTracker *key, const GmTracker *value)
{
  if (!gm_key_known (r, key)) {
    gm_record_break (r, GM_BREAK_SUBSCRIPT_STORE, "dict", gm_type_text (r, key));
    return;
  }
  if (t->n) {
    gm_instance_dict_store (r, t, key, value);
    return;
  }
  int64_t at;
  const GmTracker *table = find_in_table (r, t, key, &at),
                  *old = table ? NULL : gm_dict_contents (r, t);
  if (r->stop)
    return;
  if (!table && (at = gm_key_find (r, old, 2, key)) >= 0
      && (table = gm_key_table_make (r, t, 2, 0)) != NULL)
    at /= 2;
  if (table && at < 0) {
    gm_key_table_append (r, t, gm_realize (r, key), value);
    return;
  }
  if (table) {
    if (t->real)
      gm_dropped (r, gm_key_table_value (r, table, at));
    gm_key_table_replace (r, table, at, value);
    return;
  }
  if (at < 0) {
    const GmTracker *pair[] = { gm_realize (r, key), value };
    gm_key_stored (r, pair[0]);
    gm_contents_set (r, t, gm_contents_append (r, old, pair, 2));
    return;
  }
  const GmTracker **items = gm_tracker_array (r, old->n);
  gm_tracker_copy (items, old->items, old->n);
  items[at + 1] = value; /* the former key stays */
  if (t->real)
    gm_dropped (r, old->items[at + 1]);
  gm_contents_set (r, t, gm_tracker (r, .kind = &gm_kind_contents, .items = items, .n = old->n));
}

static void
store (GmRecorder *r, const GmTracker *t, const GmTracker *key, const GmTracker *value)
{
  gm_dict_store (r, t, key, value);
  gm_effect_item (r, gm_dict_owner (t), t, key, value);
}

/* Removes `key` and returns its value, to which nothing else may refer from now on; NULL: the key
 * is absent, or a break. */
static const GmTracker *
drop (GmRecorder *r, const GmTracker *t, const GmTracker *key)
{
  int64_t at;
  const GmTracker *table = find_in_table (r, t, key, &at),
                  *old = table ? NULL : gm_dict_contents (r, t);
  if (!table)
    at = r->stop ? -1 : gm_key_find (r, old, 2, key);
  if (at < 0)
    return NULL;
  if (t->n) {
    gm_instance_dict_store (r, t, key, NULL);
    return old->items[at + 1];
  }
  if (!table && (table = gm_key_table_make (r, t, 2, 0)) != NULL)
    at /= 2;
  const GmTracker *value = table ? gm_key_table_value (r, table, at) : old->items[at + 1];
  if (t->real)
    gm_dropped (r, value);
  if (table) {
    gm_key_table_drop (r, table, at);
    gm_effect_item (r, gm_dict_owner (t), t, key, NULL);
    return value;
  }
  const GmTracker **items = gm_tracker_array (r, old->n - 2);
  gm_tracker_copy (items, old->items, (uint32_t) at);
  gm_tracker_copy (items + at, old->items + at + 2, old->n - (uint32_t) at - 2);
  gm_contents_set (r, t,
                   gm_tracker (r, .kind = &gm_kind_contents, .items = items, .n = old->n - 2));
  gm_effect_item (r, gm_dict_owner (t), t, key, NULL);
  return value;
}

/* -- Operations ------------------------------------------------------------ */

static const GmTracker *
key_error (GmRecorder *r, const GmTracker *key)
{
  return gm_raise_value (r, PyExc_KeyError, key);
}

/* Raises a KeyError for `key` as OrderedDict's methods do: PyErr_SetObject takes None for no
 * argument, and a tuple for all arguments. */
static const GmTracker *
ordered_key_error (GmRecorder *r, const GmTracker *t, const GmTracker *key)
{
  key = gm_realize (r, key);
  bool none = key->kind == &gm_kind_constant && key->real == Py_None;
  if (r->stop || !t->number || !(none || key->kind == &gm_kind_tuple))
    return key_error (r, key);
  if (key->kind == &gm_kind_tuple && key->data) /* an instance of a tuple subclass */
    return gm_record_break (r, GM_BREAK_CALL_METHOD, "pop", "OrderedDict");
  return gm_raise (
      r, gm_exception_new (r, (PyTypeObject *) PyExc_KeyError, key->items, none ? 0 : key->n));
}

static const GmTracker *
getitem (GmRecorder *r, const GmTracker *t, const GmTracker *key)
{
  const GmTracker *v = gm_dict_lookup (r, t, key);
  if (v || r->stop)
    return v ? v : &gm_tracker_poison;
  const GmTracker *object = gm_storage_object (r, t);
  return object ? gm_object_missing (r, object, key) : key_error (r, key);
}

static void
setitem (GmRecorder *r, const GmTracker *t, const GmTracker *key, const GmTracker *value)
{
  if (value) {
    store (r, t, key, value);
    return;
  }
  if (!gm_key_known (r, key)) {
    gm_record_break (r, GM_BREAK_SUBSCRIPT_STORE, "dict", gm_type_text (r, key));
    return;
  }
  const GmTracker *old = drop (r, t, key);
  if (r->stop)
    return;
  if (old == NULL)
    key_error (r, key);
}

static int64_t
len (GmRecorder *r, const GmTracker *t)
{
  const GmTracker *table = t->n ? NULL : gm_key_table_of (r, t);
  if (table)
    return gm_key_table_n_pairs (r, table);
  if (t->n == 0 && t->source && gm_contents_of (r, t) == NULL) { /* the dict's keys were not read */
    gm_guard (r, DICT_LEN, t->source, .index = PyDict_GET_SIZE (t->real));
    return PyDict_GET_SIZE (t->real);
  }
  return gm_dict_contents (r, t)->n / 2;
}

static const GmTracker *
iter (GmRecorder *r, const GmTracker *t)
{
  gm_dict_contents (r, t);
  return gm_iterator_over (r, t);
}

static const GmTracker *
contains (GmRecorder *r, const GmTracker *t, const GmTracker *item)
{
  return gm_from_bool (r, gm_dict_lookup (r, t, item) != NULL);
}

static const GmTracker *
view_new (GmRecorder *r, const GmTracker *t, int which, const GmCallArgs *args)
{
  if (!gm_args_plain (r, "keys, values or items", args, 0, 0))
    return &gm_tracker_poison;
  const GmTracker **items = gm_tracker_array (r, 1);
  items[0] = t;
  return gm_tracker (r, .kind = &gm_kind_view, .items = items, .n = 1, .number = which);
}

static const GmTracker *
method_keys (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  return view_new (r, t, 0, args);
}

static const GmTracker *
method_values (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  return view_new (r, t, 1, args);
}

static const GmTracker *
method_items (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  return view_new (r, t, 2, args);
}

static const GmTracker *
method_get (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  if (!gm_args_plain (r, "get", args, 1, 2))
    return &gm_tracker_poison;
  const GmTracker *v = gm_dict_lookup (r, t, args->args[0]);
  return v ? v : args->n == 2 ? args->args[1] : gm_none (r);
}

static const GmTracker *
method_pop (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  if (!gm_args_plain (r, "pop", args, 1, 2))
    return &gm_tracker_poison;
  bool hashed = t->number || gm_len (r, t) > 0; /* CPython tests the size first */
  if (hashed && !gm_key_known (r, args->args[0]))
    return gm_record_break (r, GM_BREAK_CALL_METHOD, "pop", "dict");
  const GmTracker *v = hashed ? drop (r, t, args->args[0]) : NULL;
  return v ? v : args->n == 2 ? args->args[1] : ordered_key_error (r, t, args->args[0]);
}

static const GmTracker *
method_clear (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  if (!gm_args_plain (r, "clear", args, 0, 0))
    return &gm_tracker_poison;
  const GmTracker *old = gm_dict_contents (r, t);
  if (t->n) {
    for (uint32_t i = 0; i < old->n && !r->stop; i += 2)
      gm_instance_dict_store (r, t, old->items[i], NULL);
    return gm_none (r);
  }
  for (uint32_t i = 1; t->real && i < old->n; i += 2)
    gm_dropped (r, old->items[i]);
  gm_contents_set (r, t, gm_contents (r, NULL, 0));
  if (t->real)
    gm_effect (r, GM_EFFECT_CALL, PyDict_GetItemString (gm_type_dict (gm_dict_owner (t)), "clear"),
               NULL, &t, 1);
  return gm_none (r);
}

#define OVERRIDDEN "OrderedDict whose items are kept by methods of a subclass"
#define ASKED "dict whose entries are read by methods of a subclass"

static const GmTracker *
method_copy (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  if (!gm_args_plain (r, "copy", args, 0, 0))
    return &gm_tracker_poison;
  if (is_asked_for (r, t, false))
    return gm_record_break (r, GM_BREAK_CALL_METHOD, "copy", ASKED);
  const GmTracker *contents = gm_dict_contents (r, t);
  return r->stop ? &gm_tracker_poison : dict_add (r, NULL, NULL, contents);
}

/* Stores an entry of an update in t; for an OrderedDict by the __setitem__ of its class. */
static void
put (GmRecorder *r, const GmTracker *t, const GmTracker *key, const GmTracker *value)
{
  const GmTracker *owner = t->number ? gm_storage_object (r, t) : NULL;
  PyObject *found;
  if (owner && gm_object_how (r, owner, "__setitem__", &found) != GM_HOW_C)
    gm_call_special (r, owner, "__setitem__", (const GmTracker *const[]){ key, value }, 2);
  else
    store (r, t, key, value);
}

/* Stores in t, for each of `keys`, the result of keys () of the object `from`, the value of
 * from[key]. */
static void
update_by_keys (GmRecorder *r, const GmTracker *t, const GmTracker *from, const GmTracker *keys)
{
  const GmTracker *all = gm_call (r, keys, &(GmCallArgs){ NULL, 0, NULL });
  const GmTracker *it = r->stop ? NULL : gm_iter (r, all), *key;
  while (!r->stop && (key = gm_next (r, it)) != NULL) {
    const GmTracker *value = gm_getitem (r, from, key);
    if (!r->stop)
      put (r, t, key, value);
  }
}

/* True if t is an OrderedDict and `from` an instance of a dict subclass that overrides keys () or
 * __getitem__, which an update of t calls. */
static bool
answers_itself (GmRecorder *r, const GmTracker *t, const GmTracker *from)
{
  return t->number && from->kind == &gm_kind_object && gm_dict_of (r, from)
         && is_asked (r, from, true);
}

/* Stores `entry`, the i-th pair of an update with pairs. An OrderedDict unpacks the pair as Python
 * code would. */
static void
update_pair (GmRecorder *r, const GmTracker *t, const GmTracker *entry, uint32_t i)
{
  g_autofree char *text = g_strdup_printf ("'%s' object is not iterable", gm_type_text (r, entry));
  bool unpacked = t->number && gm_realize (r, entry)->kind == &gm_kind_object;
  g_autoptr (GPtrArray) pair = r->stop    ? NULL
                               : unpacked ? gm_iterate (r, entry)
                                          : gm_collect_fast (r, entry, t->number ? text : "");
  if (!t->number && gm_exception_caught (r, PyExc_TypeError))
    gm_raise_new (r, PyExc_TypeError,
                  "cannot convert dictionary update sequence element #%u to a sequence", i);
  else if (pair == NULL || pair->len == 2) {
    if (pair)
      put (r, t, pair->pdata[0], pair->pdata[1]);
  } else if (!t->number)
    gm_raise_new (r, PyExc_ValueError,
                  "dictionary update sequence element #%u has length %u; 2 is required", i,
                  pair->len);
  else if (pair->len > 2)
    gm_raise_new (r, PyExc_ValueError, "too many values to unpack (expected 2)");
  else
    gm_raise_new (r, PyExc_ValueError,
                  pair->len ? "need more than 1 value to unpack"
                            : "need more than 0 values to unpack");
}

/* Runs update (): with the entries of a dict, or of an iterable of pairs, then with the named
 * arguments. */
static const GmTracker *
method_update (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  if (args->n > 1)
    return gm_record_break (r, GM_BREAK_CALL_METHOD, "update", "dict");
  if (args->n) {
    const GmTracker *from = gm_realize (r, args->args[0]), *keys = NULL;
    if (!answers_itself (r, t, from) && gm_dict_of (r, from))
      from = gm_dict_of (r, from);
    if (!r->stop && from->kind == &gm_kind_dict && is_asked_for (r, from, t->number != 0))
      return gm_record_break (r, GM_BREAK_CALL_METHOD, "update", ASKED);
    if (!r->stop && from->kind == &gm_kind_object)
      keys = gm_getattr_opt (r, from, gm_record_take (r, PyUnicode_InternFromString ("keys")));
    if (r->stop)
      return &gm_tracker_poison;
    if (from->kind == &gm_kind_dict) {
      const GmTracker *contents = gm_dict_contents (r, from); /* the entries now: a called method
                                                                 may change the dict */
      for (uint32_t i = 0; i < contents->n && !r->stop; i += 2)
        put (r, t, contents->items[i], contents->items[i + 1]);
    } else if (keys) {
      update_by_keys (r, t, from, keys);
    } else {
      const GmTracker *it = gm_iter (r, from), *entry;
      /* pairs are read one at a time, because the iterator may raise */
      for (uint32_t i = 0; !r->stop && (entry = gm_next (r, it)) != NULL; i++)
        update_pair (r, t, entry, i);
    }
  }
  for (uint32_t i = 0; i < gm_args_n_named (args) && !r->stop; i++)
    put (r, t, gm_from_constant (r, PyTuple_GET_ITEM (args->names, i)), args->args[args->n + i]);
  return r->stop ? &gm_tracker_poison : gm_none (r);
}

/* True if t is an OrderedDict of a subclass that overrides a method which OrderedDict's C code
 * calls on the object, so that the dict's model does not suffice. */
static bool
others_overridden (GmRecorder *r, const GmTracker *t)
{
  static const char *const asked[] = { "__contains__", "__delitem__", "__getitem__",
                                       "__setitem__" };
  const GmTracker *owner = t->number ? gm_storage_owner (r, t) : NULL;
  PyTypeObject *type = owner                  ? (PyTypeObject *) owner->data
                       : t->number && t->real ? Py_TYPE (t->real)
                                              : NULL;
  bool overridden = false;
  for (size_t i = 0; i < G_N_ELEMENTS (asked) && type && type != &PyODict_Type && !overridden;
       i++) {
    PyObject *name = gm_record_take (r, PyUnicode_InternFromString (asked[i]));
    overridden = gm_class_lookup (r, type, name) != _PyType_Lookup (&PyODict_Type, name);
  }
  return overridden;
}

/* Runs setdefault (), for which an OrderedDict calls overridden methods of its class. */
static const GmTracker *
method_setdefault (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  static const char *const names[] = { "key", "default" };
  const GmTracker *in[2];
  if (!t->number && !gm_args_plain (r, "setdefault", args, 1, 2))
    return &gm_tracker_poison;
  if (!gm_args_take (r, "setdefault", args, names, 2, in) || in[0] == NULL)
    return gm_record_break (r, GM_BREAK_CALL_METHOD, "setdefault", "dict");
  bool asks = others_overridden (r, t);
  const GmTracker *value = in[1] ? in[1] : gm_none (r),
                  *asked = asks ? gm_storage_object (r, t) : NULL;
  if (asks && !asked)
    return gm_record_break (r, GM_BREAK_CALL_METHOD, "setdefault", OVERRIDDEN);
  const GmTracker *has = asked ? gm_contains (r, asked, in[0]) : NULL,
                  *v = asked ? NULL : gm_dict_lookup (r, t, in[0]);
  if (r->stop || v)
    return r->stop ? &gm_tracker_poison : v;
  if (!asked)
    store (r, t, in[0], value);
  else if (gm_truth (r, has))
    return gm_getitem (r, asked, in[0]);
  else if (!r->stop)
    gm_setitem (r, asked, in[0], value);
  return r->stop ? &gm_tracker_poison : value;
}

/* Runs popitem (): removes and returns the last pair, or the first pair of an OrderedDict
 * (last=False). */
static const GmTracker *
method_popitem (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  static const char *const names[] = { "last" };
  const GmTracker *last;
  if (!gm_args_take (r, "popitem", args, names, t->number ? 1 : 0, &last))
    return &gm_tracker_poison;
  bool first = t->number && last && !gm_truth (r, last);
  int64_t n = len (r, t);
  if (r->stop)
    return &gm_tracker_poison;
  if (n == 0)
    return gm_raise_new (r, PyExc_KeyError,
                         t->number ? "dictionary is empty" : "popitem(): dictionary is empty");
  const GmTracker *table = t->n ? NULL : gm_key_table_of (r, t), *items[2];
  if (table) {
    int64_t at = gm_key_table_end (r, table, first);
    items[0] = gm_key_table_key (r, table, at);
    items[1] = gm_key_table_value (r, table, at);
  } else {
    const GmTracker *contents = gm_dict_contents (r, t);
    if (r->stop)
      return &gm_tracker_poison;
    gm_tracker_copy (items, &contents->items[first ? 0 : 2 * n - 2], 2);
  }
  const GmTracker *pair = gm_tuple_new (r, items, 2);
  drop (r, t, items[0]);
  return pair;
}

static void
move_effect (GmRecorder *r, const GmTracker *t, const GmTracker *key, bool last)
{
  if (t->real)
    gm_effect (r, GM_EFFECT_CALL,
               PyDict_GetItemString (gm_type_dict (&PyODict_Type), "move_to_end"), NULL,
               (const GmTracker *const[]){ t, key, gm_from_bool (r, last) }, 3);
}

static const GmTracker *
method_move_to_end (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  static const char *const names[] = { "key", "last" };
  const GmTracker *in[2];
  if (!gm_args_take (r, "move_to_end", args, names, 2, in) || in[0] == NULL)
    return gm_record_break (r, GM_BREAK_CALL_METHOD, "move_to_end", "OrderedDict");
  bool last = in[1] == NULL || gm_truth (r, in[1]);
  int64_t place;
  const GmTracker *table = last && !r->stop ? find_in_table (r, t, in[0], &place) : NULL;
  if (table && place >= 0) {
    const GmTracker *key = gm_key_table_key (r, table, place),
                    *value = gm_key_table_value (r, table, place);
    gm_key_table_drop (r, table, place);
    gm_key_table_append (r, t, key, value);
    move_effect (r, t, in[0], last);
    return gm_none (r);
  }
  const GmTracker *old = gm_dict_contents (r, t);
  if (r->stop || (old->n && !gm_key_known (r, in[0])))
    return gm_record_break (r, GM_BREAK_CALL_METHOD, "move_to_end", "OrderedDict");
  int64_t at = old->n ? gm_key_find (r, old, 2, in[0]) : -1;
  if (at < 0)
    return ordered_key_error (r, t, in[0]);
  const GmTracker **items = gm_tracker_array (r, old->n), **rest = items + (last ? 0 : 2);
  gm_tracker_copy (rest, old->items, (uint32_t) at);
  gm_tracker_copy (rest + at, old->items + at + 2, old->n - (uint32_t) at - 2);
  gm_tracker_copy (last ? items + old->n - 2 : items, old->items + at, 2);
  gm_contents_set (r, t, gm_tracker (r, .kind = &gm_kind_contents, .items = items, .n = old->n));
  move_effect (r, t, in[0], last);
  return gm_none (r);
}

static const GmMethodRow ordered_methods[] = { { "move_to_end", method_move_to_end },
                                               { NULL, NULL } };

static const GmMethodRow methods[] = {
  { "__init__", method_update }, { "popitem", method_popitem },       { "keys", method_keys },
  { "values", method_values },   { "items", method_items },           { "get", method_get },
  { "pop", method_pop },         { "setdefault", method_setdefault }, { "clear", method_clear },
  { "copy", method_copy },       { "update", method_update },         { NULL, NULL },
};

/* True if the method of an OrderedDict calls other methods, which a subclass may define. */
static bool
asks_others (PyObject *name)
{
  static const char *const asking[] = { "copy", "pop", "popitem" };
  bool asks = false;
  for (size_t i = 0; i < G_N_ELEMENTS (asking) && !asks; i++)
    asks = PyUnicode_CompareWithASCIIString (name, asking[i]) == 0;
  return asks;
}

static const GmTracker *
getattr (GmRecorder *r, const GmTracker *t, PyObject *name)
{
  if (t->number && asks_others (name) && others_overridden (r, t))
    return gm_record_break (r, GM_BREAK_CALL_METHOD, PyUnicode_AsUTF8 (name), OVERRIDDEN);
  const GmTracker *bound = gm_method_row (r, methods, t, name);
  if (bound)
    return bound;
  if ((bound = gm_operator_method (r, t, name)) != NULL
      || (t->number && (bound = gm_method_row (r, ordered_methods, t, name)) != NULL)
      || _PyType_Lookup (gm_dict_owner (t), name) == NULL)
    return bound;
  if (PyUnicode_CompareWithASCIIString (name, "fromkeys") == 0)
    return gm_class_method (r,
                            gm_wrap (r, (PyObject *) &PyDict_Type,
                                     gm_source_const (r, (PyObject *) &PyDict_Type, "dict")),
                            name);
  return gm_record_break (r, GM_BREAK_CALL_METHOD, PyUnicode_AsUTF8 (name), "dict");
}

static const GmTracker *
binary (GmRecorder *r, GmBinary op, const GmTracker *t, const GmTracker *other, bool reflected,
        bool inplace)
{
  if (op != GM_BIN_OR || reflected || other->kind != &gm_kind_dict)
    return NULL;
  if (!inplace && others_overridden (r, t))
    return gm_record_break (r, GM_BREAK_CALL_METHOD, "__or__", OVERRIDDEN);
  if (!inplace && is_asked_for (r, t, false))
    return gm_record_break (r, GM_BREAK_CALL_METHOD, "__or__", ASKED);
  const GmTracker *to = inplace ? t : dict_add (r, NULL, NULL, gm_dict_contents (r, t));
  method_update (r, to, &(GmCallArgs){ &other, 1, NULL });
  return to;
}

static const GmTracker *
compare (GmRecorder *r, int op, const GmTracker *t, const GmTracker *other)
{
  if (other->kind != &gm_kind_dict || (op != Py_EQ && op != Py_NE))
    return NULL;
  const GmTracker *a = gm_dict_contents (r, t), *b = gm_dict_contents (r, other);
  bool same = a->n == b->n, ordered = t->number && other->number; /* both OrderedDicts */
  for (uint32_t i = 0; i < a->n && same && !r->stop; i += 2) {
    int64_t at = gm_key_find (r, b, 2, a->items[i]);
    same =
        at >= 0 && (at == i || !ordered) && gm_same_or_equal (r, a->items[i + 1], b->items[at + 1]);
  }
  if (!gm_contents_still (r, t, a) || !gm_contents_still (r, other, b))
    return &gm_tracker_poison;
  return gm_from_bool (r, same == (op == Py_EQ));
}

static PyObject *
constant (GmRecorder *r, const GmTracker *t)
{
  const GmTracker *contents = gm_dict_contents (r, t);
  PyObject *dict = PyDict_New ();
  for (uint32_t i = 0; i < contents->n; i += 2) {
    PyObject *key = gm_constant (r, contents->items[i]),
             *value = gm_constant (r, contents->items[i + 1]);
    if (key == NULL || value == NULL || PyDict_SetItem (dict, key, value) < 0) {
      PyErr_Clear ();
      Py_CLEAR (dict);
      break;
    }
  }
  return dict;
}

static bool
build (GmResidualBuilder *b, const GmTracker *t)
{
  if (t->n)
    return gm_instance_dict_build (b, t);
  if (gm_residual_cached (b, t))
    return true;
  if (gm_storage_owner (gm_residual_recorder (b), t)) {
    gm_residual_value (b, gm_storage_owner (gm_residual_recorder (b), t));
    return true;
  }
  const GmTracker *contents = gm_contents_of (gm_residual_recorder (b), t);
  for (uint32_t i = 0; i < contents->n; i += 2)
    if (!gm_key_still (gm_residual_recorder (b), contents->items[i]))
      return false;
  gm_residual_emit (b, GM_INSN_BUILD_MAP, 0, NULL);
  gm_residual_allocated (b, t);
  for (uint32_t i = 0; i < contents->n; i += 2) {
    if (!gm_key_can_be_built (gm_residual_recorder (b), contents->items[i]))
      return false;
    gm_residual_emit (b, GM_INSN_LOAD_FAST, gm_residual_temp (b, t), NULL);
    gm_residual_value (b, contents->items[i]);
    gm_residual_value (b, contents->items[i + 1]);
    gm_residual_emit (b, GM_INSN_MAP_ADD, 1, NULL);
    gm_residual_emit (b, GM_INSN_POP_TOP, 0, NULL);
  }
  gm_residual_emit (b, GM_INSN_LOAD_FAST, gm_residual_temp (b, t), NULL);
  return true;
}

const GmTrackerKind gm_kind_dict = {
  .name = "dict",
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
};
