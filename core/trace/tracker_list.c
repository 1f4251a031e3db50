/* SPDX-License-Identifier: Apache-2.0
 * tracker_list.c -- lists: contents in the heap, methods, slices, replay.
 *
 * The items are a row (list_items.h). Mutating an existing list appends the same operation to the
 * effects, to be replayed after the graph; a new list is built once, from its items at the end.
 */
#include "core/models/models.h"
#include "core/trace/contents.h"
#include "core/trace/exception.h"
#include "core/trace/instance.h"
#include "core/trace/list_items.h"

static const GmTracker *
list_add (GmRecorder *r, PyObject *real, const GmSource *source, const GmTracker *contents)
{
  uint32_t id = gm_heap_add (&r->heap, GM_N_STORAGE_SLOTS);
  const GmTracker *t = gm_tracker_add (
      r, &(GmTracker){ .kind = &gm_kind_list, .real = real, .source = source, .id = id });
  gm_contents_set (r, t, contents);
  return t;
}

const GmTracker *
gm_list_new (GmRecorder *r, const GmTracker *const *items, uint32_t n)
{
  return list_add (r, NULL, NULL, gm_contents (r, items, n));
}

const GmTracker *
gm_list_storage (GmRecorder *r, PyObject *real, const GmSource *source)
{
  uint32_t n = (uint32_t) PyList_GET_SIZE (real);
  if (!gm_record_limit_items (r, n))
    return &gm_tracker_poison;
  gm_guard (r, LIST_LEN, source, .index = n);
  const GmTracker **items = gm_tracker_array (r, n);
  for (uint32_t i = 0; i < n; i++)
    items[i] = gm_wrap_lazy (r, PyList_GET_ITEM (real, i),
                             gm_source_item (r, source, GM_SOURCE_LIST_ITEM, i));
  return list_add (r, real, source, gm_contents (r, items, n));
}

const GmTracker *
gm_wrap_list (GmRecorder *r, PyObject *real, const GmSource *source)
{
  gm_guard (r, TYPE, source, .obj = (PyObject *) &PyList_Type);
  const GmTracker *t = gm_list_storage (r, real, source);
  if (!r->stop)
    gm_know (r, t);
  return t;
}

static PyTypeObject *
type (GmRecorder *r, const GmTracker *t)
{
  return &PyList_Type;
}

static int64_t
len (GmRecorder *r, const GmTracker *t)
{
  return gm_list_items_length (r, t);
}

static const GmTracker *
iter (GmRecorder *r, const GmTracker *t)
{
  return gm_iterator_over (r, t);
}

/* Records a call of list's method `name` on an existing list, for the replay; args[0] is the list.
 * Nothing for a new list. */
static void
effect (GmRecorder *r, const char *name, const GmTracker *const *args, uint32_t n)
{
  if (args[0]->real)
    gm_effect (r, GM_EFFECT_CALL, PyDict_GetItemString (gm_type_dict (&PyList_Type), name), NULL,
               args, n);
}

static void
append (GmRecorder *r, const GmTracker *t, const GmTracker *item)
{
  gm_list_items_splice (r, t, gm_list_items_length (r, t), 0, &item, 1);
}

/* Replaces `count` items from index `at` on by n others. */
static void
splice (GmRecorder *r, const GmTracker *t, uint32_t at, uint32_t count,
        const GmTracker *const *items, uint32_t n)
{
  for (uint32_t i = 0; i < count && t->real; i++)
    gm_dropped (r, gm_list_items_item (r, t, at + i));
  gm_list_items_splice (r, t, at, count, items, n);
}

/* -- Subscripts ------------------------------------------------------------ */

static bool
find_index (GmRecorder *r, const GmTracker *t, const GmTracker *key, const char *complaint,
            uint32_t *out)
{
  int64_t i, n = gm_list_items_length (r, t);
  if (!gm_constant_int (r, key, &i))
    return false;
  if (i < -n || i >= n) {
    gm_raise_new (r, PyExc_IndexError, "%s", complaint);
    return false;
  }
  *out = (uint32_t) (i < 0 ? i + n : i);
  return true;
}

static const GmTracker *
getitem (GmRecorder *r, const GmTracker *t, const GmTracker *key)
{
  uint32_t i;
  key = gm_realize (r, key);
  if (find_index (r, t, key, "list index out of range", &i))
    return gm_list_items_item (r, t, i);
  const GmTracker *contents = gm_contents_of (r, t);
  PyObject *slice = key->kind == &gm_kind_slice ? gm_constant (r, key) : NULL;
  Py_ssize_t start, stop, step;
  if (slice == NULL || PySlice_Unpack (slice, &start, &stop, &step) < 0)
    return gm_record_break (r, GM_BREAK_SUBSCRIPT, "list", gm_type_text (r, key));
  Py_ssize_t n = PySlice_AdjustIndices (contents->n, &start, &stop, step);
  const GmTracker **items = gm_tracker_array (r, (uint32_t) n);
  for (Py_ssize_t k = 0; k < n; k++)
    items[k] = contents->items[start + k * step];
  return gm_list_new (r, items, (uint32_t) n);
}

/* Returns the TypeError's message, in this version of Python, for a value that cannot be assigned
 * to a slice; static. */
static const char *
slice_text (GmRecorder *r)
{
  PyObject *list = PyList_New (0), *slice = PySlice_New (NULL, NULL, NULL), *type, *error, *tb;
  const char *text = "";
  if (list && slice)
    PyObject_SetItem (list, slice, Py_None);
  PyErr_Fetch (&type, &error, &tb);
  PyErr_NormalizeException (&type, &error, &tb);
  PyObject *said = error ? PyObject_Str (error) : NULL;
  if (said)
    text = PyUnicode_AsUTF8 (gm_record_take (r, said));
  Py_XDECREF (list);
  Py_XDECREF (slice);
  Py_XDECREF (type);
  Py_XDECREF (error);
  Py_XDECREF (tb);
  return text;
}

/* True if this version of Python evaluates the indices of a slice after it has read the values that
 * are stored there, so that an iterator which changes the list moves the indices; false if before.
 * Versions differ in their patch level, so a list is tested: [0, 1, 2, 3][-1:] is assigned the
 * results of pop () until one is 1, which leaves [0]. Indices that are evaluated last select its
 * only item, else the values come after it. */
static bool
reads_indices_last (void)
{
  PyObject *list = Py_BuildValue ("[iiii]", 0, 1, 2, 3), *slice = NULL, *values = NULL;
  PyObject *pop = list ? PyObject_GetAttrString (list, "pop") : NULL;
  PyObject *end = PyLong_FromLong (1), *last = PyLong_FromLong (-1);
  if (pop && end && last) {
    slice = PySlice_New (last, NULL, NULL);
    values = PyCallIter_New (pop, end);
  }
  bool stored = slice && values && PyObject_SetItem (list, slice, values) == 0;
  bool is_last = stored && PyList_GET_SIZE (list) == 2;
  PyErr_Clear ();
  Py_XDECREF (values);
  Py_XDECREF (slice);
  Py_XDECREF (last);
  Py_XDECREF (end);
  Py_XDECREF (pop);
  Py_XDECREF (list);
  return is_last;
}

static void
setitem (GmRecorder *r, const GmTracker *t, const GmTracker *key, const GmTracker *value)
{
  uint32_t i;
  key = gm_realize (r, key);
  if (find_index (r, t, key, "list assignment index out of range", &i)) {
    splice (r, t, i, 1, &value, value ? 1 : 0);
  } else {
    PyObject *slice = key->kind == &gm_kind_slice ? gm_constant (r, key) : NULL;
    Py_ssize_t start, stop, step;
    if (slice == NULL || PySlice_Unpack (slice, &start, &stop, &step) < 0 || step != 1) {
      gm_record_break (r, GM_BREAK_SUBSCRIPT_STORE, "list", gm_type_text (r, key));
      return;
    }
    const char *text = value ? slice_text (r) : "";
    Py_ssize_t first = start, last = stop, n_before = gm_list_items_length (r, t),
               n = PySlice_AdjustIndices (n_before, &start, &stop, 1);
    g_autoptr (GPtrArray) items = value ? gm_collect_fast (r, value, text) : g_ptr_array_new ();
    if (r->stop)
      return;
    Py_ssize_t n_now = gm_list_items_length (r, t);
    if (n_now != n_before && reads_indices_last ()) {
      n = PySlice_AdjustIndices (n_now, &first, &last, 1);
      start = first;
    } else if (n_now != n_before) { /* the iterator has changed the list but not the indices */
      start = MIN (start, n_now);
      n = MIN (n, n_now - start);
      key = gm_slice_new (r, gm_from_int (r, start), gm_from_int (r, start + n), gm_none (r));
    }
    splice (r, t, (uint32_t) start, (uint32_t) n, (const GmTracker *const *) items->pdata,
            items->len);
    if (value) /* the iterator is used up, so that its values are replayed */
      value = gm_list_new (r, (const GmTracker *const *) items->pdata, items->len);
  }
  gm_effect_item (r, &PyList_Type, t, key, value);
}

/* -- Methods --------------------------------------------------------------- */

static const GmTracker *
method_append (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  if (!gm_args_plain (r, "append", args, 1, 1))
    return &gm_tracker_poison;
  append (r, t, args->args[0]);
  effect (r, "append", (const GmTracker *const[]){ t, args->args[0] }, 2);
  return gm_none (r);
}

/* Appends the items of the iterable one at a time, because the iterator may read the list, change
 * it, or raise. False after a break. */
static bool
extend_by_steps (GmRecorder *r, const GmTracker *t, const GmTracker *values)
{
  const GmTracker *it = gm_iter (r, values), *item;
  gm_ask_length (r, values);
  for (uint32_t i = 0; !r->stop && (item = gm_next (r, it)) != NULL; i++) {
    append (r, t, item);
    effect (r, "append", (const GmTracker *const[]){ t, item }, 2);
    gm_record_limit_trips (r, i);
  }
  return !r->stop;
}

static bool
extend (GmRecorder *r, const GmTracker *t, const GmTracker *values)
{
  values = gm_realize (r, values);
  if (!r->stop && gm_storage (values) != t && !gm_iterates_alone (values))
    return extend_by_steps (r, t, values);
  g_autoptr (GPtrArray) items = gm_iterate (r, values);
  if (items == NULL)
    return false;
  for (uint32_t i = 0; i < items->len; i++)
    append (r, t, items->pdata[i]);
  if (t->real)
    effect (r, "extend",
            (const GmTracker *const[]){
                t, gm_tuple_new (r, (const GmTracker *const *) items->pdata, items->len) },
            2);
  return true;
}

static const GmTracker *
method_extend (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  if (!gm_args_plain (r, "extend", args, 1, 1) || !extend (r, t, args->args[0]))
    return &gm_tracker_poison;
  return gm_none (r);
}

static const GmTracker *
method_insert (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  int64_t at, n = gm_list_items_length (r, t);
  if (!gm_args_plain (r, "insert", args, 2, 2))
    return &gm_tracker_poison;
  if (!gm_constant_int (r, args->args[0], &at))
    return gm_record_break (r, GM_BREAK_CALL_METHOD, "insert", "list");
  at = CLAMP (at < 0 ? at + n : at, 0, n);
  splice (r, t, (uint32_t) at, 0, &args->args[1], 1);
  effect (r, "insert", (const GmTracker *const[]){ t, gm_from_int (r, at), args->args[1] }, 3);
  return gm_none (r);
}

static const GmTracker *
method_pop (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  const GmTracker *key = args->n ? args->args[0] : gm_from_int (r, -1);
  uint32_t i;
  if (!gm_args_plain (r, "pop", args, 0, 1))
    return &gm_tracker_poison;
  bool empty = gm_list_items_length (r, t) == 0;
  if (!find_index (r, t, key, empty ? "pop from empty list" : "pop index out of range", &i))
    return gm_record_break (r, GM_BREAK_CALL_METHOD, "pop", "list");
  const GmTracker *item = gm_list_items_item (r, t, i);
  splice (r, t, i, 1, NULL, 0);
  effect (r, "pop", (const GmTracker *const[]){ t, gm_from_int (r, i) }, 2);
  return item;
}

/* Returns the first index in [from, to) whose item equals the given item; -1: there is none, or a
 * break. */
static int64_t
find (GmRecorder *r, const GmTracker *t, const GmTracker *item, int64_t from, int64_t to)
{
  const GmTracker *contents = gm_contents_of (r, t);
  item = gm_realize (r, item);
  for (int64_t i = from; i < to && !r->stop; i++)
    if (gm_same_or_equal (r, contents->items[i], item))
      return gm_contents_still (r, t, contents) ? i : -1;
  gm_contents_still (r, t, contents);
  return -1;
}

static const GmTracker *
method_index (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  int64_t from, to;
  if (!gm_args_range (r, "list", args, gm_list_items_length (r, t), &from, &to))
    return &gm_tracker_poison;
  int64_t i = find (r, t, args->args[0], from, to);
  if (i >= 0 || r->stop)
    return gm_from_int (r, i);
  const GmTracker *text = gm_text_of (r, args->args[0], true);
  return r->stop ? text
                 : gm_raise_new (r, PyExc_ValueError, "%s is not in list",
                                 PyUnicode_AsUTF8 (text->real));
}

static const GmTracker *
method_remove (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  if (!gm_args_plain (r, "remove", args, 1, 1))
    return &gm_tracker_poison;
  int64_t i = find (r, t, args->args[0], 0, gm_list_items_length (r, t));
  if (r->stop)
    return &gm_tracker_poison;
  if (i < 0)
    return gm_raise_new (r, PyExc_ValueError, "list.remove(x): x not in list");
  splice (r, t, (uint32_t) i, 1, NULL, 0);
  effect (r, "pop", (const GmTracker *const[]){ t, gm_from_int (r, i) }, 2);
  return gm_none (r);
}

static const GmTracker *
method_clear (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  if (!gm_args_plain (r, "clear", args, 0, 0))
    return &gm_tracker_poison;
  gm_contents_set (r, t, gm_contents (r, NULL, 0));
  effect (r, "clear", &t, 1);
  return gm_none (r);
}

static const GmTracker *
method_copy (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  const GmTracker *contents = gm_contents_of (r, t);
  return gm_args_plain (r, "copy", args, 0, 0) ? gm_list_new (r, contents->items, contents->n)
                                               : &gm_tracker_poison;
}

static const GmTracker *
method_reverse (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  if (!gm_args_plain (r, "reverse", args, 0, 0))
    return &gm_tracker_poison;
  gm_list_items_reverse (r, t);
  effect (r, "reverse", &t, 1);
  return gm_none (r);
}

static const GmTracker *
method_count (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  const GmTracker *contents = gm_contents_of (r, t);
  int64_t n = 0;
  if (!gm_args_plain (r, "count", args, 1, 1))
    return &gm_tracker_poison;
  for (uint32_t i = 0; i < contents->n && !r->stop; i++)
    n += gm_same_or_equal (r, contents->items[i], args->args[0]);
  return gm_contents_still (r, t, contents) ? gm_from_int (r, n) : &gm_tracker_poison;
}

/* Runs sort (). The effect stores the items in the order that was found, as keys and comparisons
 * have run already. */
static const GmTracker *
method_sort (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  if (args->n)
    return gm_record_break (r, GM_BREAK_CALL_METHOD, "sort", "list");
  const GmTracker *sorted = gm_list_sorted (r, t, args);
  if (r->stop)
    return &gm_tracker_poison;
  const GmTracker *contents = gm_contents_of (r, sorted);
  gm_contents_set (r, t, contents);
  if (t->real) {
    const GmTracker *none = gm_none (r);
    gm_effect_item (r, &PyList_Type, t, gm_slice_new (r, none, none, none),
                    gm_list_new (r, contents->items, contents->n));
  }
  return gm_none (r);
}

/* Runs list.__init__, which replaces the former items. */
static const GmTracker *
method_init (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  if (!gm_args_plain (r, "list", args, 0, 1))
    return &gm_tracker_poison;
  if (gm_list_items_length (r, t))
    method_clear (r, t, &(GmCallArgs){ 0 });
  if (args->n && !extend (r, t, args->args[0]))
    return &gm_tracker_poison;
  return gm_none (r);
}

static const GmMethodRow methods[] = {
  { "append", method_append },
  { "extend", method_extend },
  { "insert", method_insert },
  { "pop", method_pop },
  { "index", method_index },
  { "remove", method_remove },
  { "clear", method_clear },
  { "copy", method_copy },
  { "reverse", method_reverse },
  { "count", method_count },
  { "sort", method_sort },
  { "__init__", method_init },
  { NULL, NULL },
};

static const GmTracker *
getattr (GmRecorder *r, const GmTracker *t, PyObject *name)
{
  const GmTracker *bound = gm_method_row (r, methods, t, name);
  if (bound)
    return bound;
  if ((bound = gm_operator_method (r, t, name)) != NULL
      || _PyType_Lookup (&PyList_Type, name) == NULL)
    return bound;
  return gm_record_break (r, GM_BREAK_CALL_METHOD, PyUnicode_AsUTF8 (name), "list");
}

/* -- Operators ------------------------------------------------------------- */

static const GmTracker *
binary (GmRecorder *r, GmBinary op, const GmTracker *t, const GmTracker *other, bool reflected,
        bool inplace)
{
  const GmTracker *contents = gm_contents_of (r, t);
  int64_t times;
  if (op == GM_BIN_ADD && inplace && !reflected)
    return extend (r, t, other) ? t : &gm_tracker_poison;
  if (op == GM_BIN_ADD && !reflected && other->kind == &gm_kind_list) {
    const GmTracker *more = gm_contents_of (r, other);
    const GmTracker **items = gm_tracker_array (r, contents->n + more->n);
    gm_tracker_copy (items, contents->items, contents->n);
    gm_tracker_copy (items + contents->n, more->items, more->n);
    return gm_list_new (r, items, contents->n + more->n);
  }
  if (op == GM_BIN_MUL && inplace && !reflected && gm_constant_int (r, other, &times)
      && times <= 100000 && times * contents->n <= 100000) {
    for (int64_t k = 1; k < times; k++)
      extend (r, t, gm_tuple_new (r, contents->items, contents->n));
    if (times <= 0)
      method_clear (r, t, &(GmCallArgs){ 0 });
    return t;
  }
  if (op == GM_BIN_MUL && !inplace && gm_constant_int (r, other, &times) && times <= 100000
      && times * contents->n <= 100000) {
    uint32_t n = times > 0 ? (uint32_t) times * contents->n : 0;
    const GmTracker **items = gm_tracker_array (r, n);
    for (uint32_t i = 0; i < n; i++)
      items[i] = contents->items[i % contents->n];
    return gm_list_new (r, items, n);
  }
  return NULL;
}

static const GmTracker *
compare (GmRecorder *r, int op, const GmTracker *t, const GmTracker *other)
{
  if (other->kind != &gm_kind_list)
    return NULL;
  const GmTracker *a = gm_contents_of (r, t), *b = gm_contents_of (r, other);
  const GmTracker *v =
      gm_compare (r, op, gm_tuple_new (r, a->items, a->n), gm_tuple_new (r, b->items, b->n));
  return gm_contents_still (r, t, a) && gm_contents_still (r, other, b) ? v : &gm_tracker_poison;
}

static const GmTracker *
contains (GmRecorder *r, const GmTracker *t, const GmTracker *item)
{
  return gm_from_bool (r, find (r, t, item, 0, gm_list_items_length (r, t)) >= 0);
}

static PyObject *
constant (GmRecorder *r, const GmTracker *t)
{
  const GmTracker *contents = gm_contents_of (r, t);
  PyObject *list = PyList_New (contents->n);
  for (uint32_t i = 0; i < contents->n; i++) {
    PyObject *o = gm_constant (r, contents->items[i]);
    if (o == NULL) {
      Py_DECREF (list);
      return NULL;
    }
    PyList_SET_ITEM (list, i, Py_NewRef (o));
  }
  return list;
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
  const GmTracker *contents = gm_contents_of (gm_residual_recorder (b), t);
  gm_residual_emit (b, GM_INSN_BUILD_LIST, 0, NULL);
  gm_residual_allocated (b, t);
  for (uint32_t i = 0; i < contents->n; i++) { /* filled after its allocation: the list may contain
                                                  itself */
    gm_residual_emit (b, GM_INSN_LOAD_FAST, gm_residual_temp (b, t), NULL);
    gm_residual_value (b, contents->items[i]);
    gm_residual_emit (b, GM_INSN_LIST_APPEND, 1, NULL);
    gm_residual_emit (b, GM_INSN_POP_TOP, 0, NULL);
  }
  gm_residual_emit (b, GM_INSN_LOAD_FAST, gm_residual_temp (b, t), NULL);
  return true;
}

const GmTrackerKind gm_kind_list = {
  .name = "list",
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
