/* SPDX-License-Identifier: Apache-2.0
 * tracker_deque.c -- collections.deque: contents in the heap, and a greatest length.
 *
 * The items are a row (list_items.h). number is the maxlen, -1 for none; data is the class. An item
 * that a full deque drops at its other end is dropped in the replay as well: the same methods run
 * in the same order.
 */
#include "core/models/models_private.h"
#include "core/trace/exception.h"
#include "core/trace/iterator.h"
#include "core/trace/list_items.h"

/* Slots of the heap object: the items, and a marker that becomes another tracker at each change
 * that ends CPython's iterators; replacing an item is no such change. */
enum { ITEMS, CHANGE, N_SLOTS };

static void
changed (GmRecorder *r, const GmTracker *t)
{
  if (!r->stop)
    gm_heap_store (&r->heap, t->id, CHANGE, gm_tracker (r, .kind = &gm_kind_contents));
}

const GmTracker *
gm_deque_change (GmRecorder *r, const GmTracker *t)
{
  return gm_heap_load (&r->heap, t->id, CHANGE);
}

static const GmTracker *
deque_add (GmRecorder *r, PyObject *real, const GmSource *source, PyTypeObject *type,
           int64_t maxlen)
{
  uint32_t id = gm_heap_add (&r->heap, N_SLOTS);
  const GmTracker *t = gm_tracker_add (r, &(GmTracker){ .kind = &gm_kind_deque,
                                                        .real = real,
                                                        .source = source,
                                                        .id = id,
                                                        .number = maxlen,
                                                        .data = type });
  if (!real) /* the first contents of one that exists are its items */
    gm_contents_set (r, t, gm_contents (r, NULL, 0));
  return t;
}

const GmTracker *
gm_wrap_deque (GmRecorder *r, PyObject *real, const GmSource *source)
{
  uint32_t n = (uint32_t) Py_SIZE (real);
  if (!gm_record_limit_items (r, n))
    return &gm_tracker_poison;
  PyObject *maxlen = gm_record_take (r, PyObject_GetAttrString (real, "maxlen"));
  gm_guard (r, TYPE, source, .obj = (PyObject *) Py_TYPE (real));
  gm_guard (r, DEQUE_LEN, source, .index = n);
  gm_guard (r, DEQUE_MAX, source, .obj = maxlen);
  const GmTracker *t = deque_add (r, real, source, Py_TYPE (real),
                                  maxlen == Py_None ? -1 : PyLong_AsLongLong (maxlen));
  const GmTracker **items = gm_tracker_array (r, n);
  for (uint32_t i = 0; i < n; i++)
    items[i] = gm_wrap_lazy (r, gm_record_take (r, PySequence_GetItem (real, i)),
                             gm_source_item (r, source, GM_SOURCE_DEQUE_ITEM, i));
  gm_contents_set (r, t, gm_tracker (r, .kind = &gm_kind_contents, .items = items, .n = n));
  gm_know (r, t);
  return t;
}

static PyTypeObject *
type (GmRecorder *r, const GmTracker *t)
{
  return (PyTypeObject *) t->data;
}

static int64_t
len (GmRecorder *r, const GmTracker *t)
{
  return gm_list_items_length (r, t);
}

static PyObject *
method_of (const GmTracker *t, const char *name)
{
  return PyDict_GetItemString (gm_type_dict ((PyTypeObject *) t->data), name);
}

static void
effect (GmRecorder *r, const GmTracker *t, const char *name, const GmTracker *arg)
{
  const GmTracker *args[2] = { t, arg };
  if (t->real)
    gm_effect (r, GM_EFFECT_CALL, method_of (t, name), NULL, args, arg ? 2 : 1);
}

/* Removes the item at index `at`; for an existing deque also notes that the program's object may
 * die. */
static void
drop (GmRecorder *r, const GmTracker *t, uint32_t at)
{
  if (t->real)
    gm_dropped (r, gm_list_items_item (r, t, at));
  gm_list_items_splice (r, t, at, 1, NULL, 0);
}

/* Adds an item at the left or the right end; a full deque drops the item at the opposite end. */
static void
push (GmRecorder *r, const GmTracker *t, const GmTracker *item, bool left)
{
  uint32_t n = gm_list_items_length (r, t);
  if (t->number == 0)
    return;
  gm_list_items_splice (r, t, left ? 0 : n, 0, &item, 1);
  if (t->number >= 0 && n == t->number)
    drop (r, t, left ? n : 0);
  changed (r, t);
}

/* Adds the values of an iterable at an end, each with its own effect, since the iterator may
 * read the deque, change it, or raise. */
static const GmTracker *
add_by_steps (GmRecorder *r, const GmTracker *t, const GmTracker *values, bool left)
{
  const GmTracker *it = gm_iter (r, values), *item;
  for (uint32_t i = 0; !r->stop && (item = gm_next (r, it)) != NULL; i++) {
    push (r, t, item, left);
    effect (r, t, left ? "appendleft" : "append", item);
    gm_record_limit_trips (r, i);
  }
  return gm_none (r);
}

static const GmTracker *
add_all (GmRecorder *r, const GmTracker *t, const GmCallArgs *args, const char *name, bool many,
         bool left)
{
  if (!gm_args_plain (r, name, args, 1, 1))
    return &gm_tracker_poison;
  if (!many) {
    push (r, t, args->args[0], left);
    effect (r, t, name, args->args[0]);
    return gm_none (r);
  }
  const GmTracker *values = gm_realize (r, args->args[0]);
  bool itself = values == t || gm_storage (values) == t; /* a copy: CPython makes a list of it
                                                            first */
  if (!r->stop && !itself && !gm_iterates_alone (values))
    return add_by_steps (r, t, values, left);
  g_autoptr (GPtrArray) all = gm_iterate (r, values);
  for (uint32_t i = 0; all && i < all->len; i++)
    push (r, t, all->pdata[i], left);
  if (all)
    effect (r, t, name, gm_tuple_new (r, (const GmTracker *const *) all->pdata, all->len));
  return gm_none (r);
}

static const GmTracker *
method_append (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  return add_all (r, t, args, "append", false, false);
}

static const GmTracker *
method_appendleft (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  return add_all (r, t, args, "appendleft", false, true);
}

static const GmTracker *
method_extend (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  return add_all (r, t, args, "extend", true, false);
}

static const GmTracker *
method_extendleft (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  return add_all (r, t, args, "extendleft", true, true);
}

static const GmTracker *
take (GmRecorder *r, const GmTracker *t, const GmCallArgs *args, bool left)
{
  uint32_t n = gm_list_items_length (r, t);
  if (!gm_args_plain (r, left ? "popleft" : "pop", args, 0, 0))
    return &gm_tracker_poison;
  if (n == 0)
    return gm_raise_new (r, PyExc_IndexError, "pop from an empty deque");
  uint32_t at = left ? 0 : n - 1;
  const GmTracker *item = gm_list_items_item (r, t, at);
  drop (r, t, at);
  changed (r, t);
  effect (r, t, left ? "popleft" : "pop", NULL);
  return item;
}

static const GmTracker *
method_pop (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  return take (r, t, args, false);
}

static const GmTracker *
method_popleft (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  return take (r, t, args, true);
}

static const GmTracker *
method_clear (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  if (!gm_args_plain (r, "clear", args, 0, 0))
    return &gm_tracker_poison;
  if (gm_list_items_length (r, t))
    changed (r, t);
  for (uint32_t i = 0; t->real && i < gm_list_items_length (r, t); i++)
    gm_dropped (r, gm_list_items_item (r, t, i));
  gm_contents_set (r, t, gm_contents (r, NULL, 0));
  effect (r, t, "clear", NULL);
  return gm_none (r);
}

static const GmTracker *
method_rotate (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  int64_t by = 1;
  if (!gm_args_plain (r, "rotate", args, 0, 1))
    return &gm_tracker_poison;
  if (args->n && !gm_constant_int (r, args->args[0], &by))
    return gm_record_break (r, GM_BREAK_CALL_METHOD, "rotate", "deque");
  int64_t n = gm_list_items_length (r, t), shift = n ? ((by % n) + n) % n : 0;
  bool right = 2 * shift <= n; /* rotates in the shorter direction */
  for (int64_t i = right ? shift : n - shift; i > 0; i--) {
    const GmTracker *item = gm_list_items_item (r, t, right ? (uint32_t) n - 1 : 0);
    gm_list_items_splice (r, t, right ? (uint32_t) n - 1 : 0, 1, NULL, 0);
    gm_list_items_splice (r, t, right ? 0 : (uint32_t) n - 1, 0, &item, 1);
  }
  if (n > 1)
    changed (r, t);
  effect (r, t, "rotate", gm_from_int (r, by));
  return gm_none (r);
}

static const GmTracker *
method_reverse (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  if (!gm_args_plain (r, "reverse", args, 0, 0))
    return &gm_tracker_poison;
  gm_list_items_reverse (r, t);
  effect (r, t, "reverse", NULL);
  return gm_none (r);
}

static const GmTracker *
method_count (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  if (!gm_args_plain (r, "count", args, 1, 1))
    return &gm_tracker_poison;
  const GmTracker *contents = gm_contents_of (r, t);
  int64_t n = 0;
  for (uint32_t i = 0; i < contents->n && !r->stop; i++)
    n += gm_same_or_equal (r, contents->items[i], args->args[0]);
  return gm_contents_still (r, t, contents) ? gm_from_int (r, n) : &gm_tracker_poison;
}

/* Returns the first index in [from, to) of an item that equals the value; -1: there is none, or
 * after a break. */
static int64_t
find (GmRecorder *r, const GmTracker *t, const GmTracker *value, int64_t from, int64_t to)
{
  const GmTracker *contents = gm_contents_of (r, t);
  for (int64_t i = from; i < to && !r->stop; i++)
    if (gm_same_or_equal (r, contents->items[i], value))
      return gm_contents_still (r, t, contents) ? i : -1;
  gm_contents_still (r, t, contents);
  return -1;
}

static const GmTracker *
raise_absent (GmRecorder *r, const GmTracker *value)
{
  const GmTracker *text = r->stop ? NULL : gm_text_of (r, value, true);
  return r->stop ? &gm_tracker_poison
                 : gm_raise_new (r, PyExc_ValueError, "%s is not in deque",
                                 PyUnicode_AsUTF8 (text->real));
}

static const GmTracker *
method_index (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  int64_t from, to;
  if (!gm_args_range (r, "deque", args, gm_list_items_length (r, t), &from, &to))
    return &gm_tracker_poison;
  int64_t i = find (r, t, args->args[0], from, to);
  return i < 0 ? raise_absent (r, args->args[0]) : gm_from_int (r, i);
}

/* Removes the first item that equals the value.  The effect removes it by its index, so that
 * nothing is compared again. */
static const GmTracker *
method_remove (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  if (!gm_args_plain (r, "remove", args, 1, 1))
    return &gm_tracker_poison;
  int64_t i = find (r, t, args->args[0], 0, gm_list_items_length (r, t));
  if (i < 0)
    return raise_absent (r, args->args[0]);
  drop (r, t, (uint32_t) i);
  changed (r, t);
  gm_effect_item (r, (PyTypeObject *) t->data, t, gm_from_int (r, i), NULL);
  return gm_none (r);
}

static const GmTracker *
method_insert (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  int64_t at, n = gm_list_items_length (r, t);
  if (!gm_args_plain (r, "insert", args, 2, 2))
    return &gm_tracker_poison;
  if (!gm_constant_int (r, args->args[0], &at))
    return gm_record_break (r, GM_BREAK_CALL_METHOD, "insert", "deque");
  if (n == t->number)
    return gm_raise_new (r, PyExc_IndexError, "deque already at its maximum size");
  at = CLAMP (at < 0 ? at + n : at, 0, n);
  gm_list_items_splice (r, t, (uint32_t) at, 0, &args->args[1], 1);
  changed (r, t);
  if (t->real)
    gm_effect (r, GM_EFFECT_CALL, method_of (t, "insert"), NULL,
               (const GmTracker *const[]){ t, gm_from_int (r, at), args->args[1] }, 3);
  return gm_none (r);
}

static const GmTracker *
copy_of (GmRecorder *r, const GmTracker *t)
{
  const GmTracker *copy = deque_add (r, NULL, NULL, (PyTypeObject *) t->data, t->number);
  gm_contents_set (r, copy, gm_contents_of (r, t));
  return copy;
}

static const GmTracker *
method_copy (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  return gm_args_plain (r, "copy", args, 0, 0) ? copy_of (r, t) : &gm_tracker_poison;
}

static const GmTracker *
method_reversed (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  if (!gm_args_plain (r, "__reversed__", args, 0, 0))
    return &gm_tracker_poison;
  const GmTracker *items[2] = { t, gm_deque_change (r, t) };
  return gm_iterator_new (r, GM_ITER_DEQUE_REVERSED, items, items[1] ? 2 : 1, 0);
}

static const GmMethodRow methods[] = {
  { "count", method_count },
  { "index", method_index },
  { "append", method_append },
  { "appendleft", method_appendleft },
  { "extend", method_extend },
  { "extendleft", method_extendleft },
  { "pop", method_pop },
  { "popleft", method_popleft },
  { "clear", method_clear },
  { "rotate", method_rotate },
  { "reverse", method_reverse },
  { "remove", method_remove },
  { "insert", method_insert },
  { "copy", method_copy },
  { "__copy__", method_copy },
  { "__reversed__", method_reversed },
  { NULL, NULL },
};

static const GmTracker *
getattr (GmRecorder *r, const GmTracker *t, PyObject *name)
{
  if (PyUnicode_CompareWithASCIIString (name, "maxlen") == 0)
    return t->number < 0 ? gm_none (r) : gm_from_int (r, t->number);
  const GmTracker *bound = gm_method_row (r, methods, t, name);
  if (bound == NULL)
    bound = gm_operator_method (r, t, name);
  if (bound || _PyType_Lookup ((PyTypeObject *) t->data, name) == NULL)
    return bound;
  return gm_record_break (r, GM_BREAK_CALL_METHOD, PyUnicode_AsUTF8 (name), "deque");
}

static const GmTracker *
getitem (GmRecorder *r, const GmTracker *t, const GmTracker *key)
{
  int64_t i, n = gm_list_items_length (r, t);
  if (!gm_constant_int (r, key, &i))
    return gm_record_break (r, GM_BREAK_SUBSCRIPT, "deque", gm_type_text (r, key));
  if (i < -n || i >= n)
    return gm_raise_new (r, PyExc_IndexError, "deque index out of range");
  return gm_list_items_item (r, t, (uint32_t) (i < 0 ? i + n : i));
}

static void
setitem (GmRecorder *r, const GmTracker *t, const GmTracker *key, const GmTracker *value)
{
  int64_t i, n = gm_list_items_length (r, t);
  if (!gm_constant_int (r, key, &i)) {
    gm_record_break (r, GM_BREAK_SUBSCRIPT_STORE, "deque", gm_type_text (r, key));
    return;
  }
  if (i < -n || i >= n) {
    gm_raise_new (r, PyExc_IndexError, "deque index out of range");
    return;
  }
  uint32_t at = (uint32_t) (i < 0 ? i + n : i);
  if (t->real)
    gm_dropped (r, gm_list_items_item (r, t, at));
  gm_list_items_splice (r, t, at, 1, &value, value ? 1 : 0);
  if (value == NULL)
    changed (r, t);
  gm_effect_item (r, (PyTypeObject *) t->data, t, key, value);
}

static const GmTracker *
iter (GmRecorder *r, const GmTracker *t)
{
  const GmTracker *items[2] = { t, gm_deque_change (r, t) };
  return gm_iterator_new (r, GM_ITER_DEQUE, items, items[1] ? 2 : 1, 0);
}

static const GmTracker *
contains (GmRecorder *r, const GmTracker *t, const GmTracker *item)
{
  return gm_from_bool (r, find (r, t, item, 0, gm_list_items_length (r, t)) >= 0);
}

/* Repeats the items of the deque in place, as deque *= times does, and returns t. */
static const GmTracker *
repeat (GmRecorder *r, const GmTracker *t, int64_t times)
{
  const GmTracker *contents = gm_contents_of (r, t);
  int64_t n = times > 0 ? (times - 1) * contents->n : 0;
  for (int64_t i = 0; i < n && !r->stop; i++)
    push (r, t, contents->items[i % contents->n], false);
  if (times <= 0 && contents->n) {
    gm_contents_set (r, t, gm_contents (r, NULL, 0));
    changed (r, t);
  }
  effect (r, t, "__imul__", gm_from_int (r, times));
  return t;
}

static const GmTracker *
binary (GmRecorder *r, GmBinary op, const GmTracker *t, const GmTracker *other, bool reflected,
        bool inplace)
{
  int64_t times;
  if (op == GM_BIN_ADD && !reflected && (inplace || other->kind == &gm_kind_deque)) {
    const GmTracker *to = inplace ? t : copy_of (r, t);
    add_all (r, to, &(GmCallArgs){ &other, 1, NULL }, "extend", true, false);
    return r->stop ? &gm_tracker_poison : to;
  }
  if (op == GM_BIN_MUL && gm_constant_int (r, other, &times) && times <= 100000
      && times * gm_list_items_length (r, t) <= 100000)
    return repeat (r, inplace && !reflected ? t : copy_of (r, t), times);
  return NULL;
}

static const GmTracker *
compare (GmRecorder *r, int op, const GmTracker *t, const GmTracker *other)
{
  if (other->kind != &gm_kind_deque)
    return NULL;
  const GmTracker *a = gm_contents_of (r, t), *b = gm_contents_of (r, other);
  const GmTracker *v =
      gm_compare (r, op, gm_tuple_new (r, a->items, a->n), gm_tuple_new (r, b->items, b->n));
  return gm_contents_still (r, t, a) && gm_contents_still (r, other, b) ? v : &gm_tracker_poison;
}

const GmTracker *
gm_deque_new (GmRecorder *r, PyTypeObject *type, const GmCallArgs *args)
{
  static const char *const names[] = { "iterable", "maxlen" };
  const GmTracker *in[2];
  int64_t maxlen = -1;
  if (!gm_args_take (r, "deque", args, names, 2, in))
    return &gm_tracker_poison;
  if (in[1] && gm_realize (r, in[1])->real != Py_None
      && (!gm_constant_int (r, in[1], &maxlen) || maxlen < 0))
    return gm_record_break (r, GM_BREAK_CALL_ARGUMENTS, "deque() with a maxlen that is none");
  gm_record_keep (r, (PyObject *) type);
  const GmTracker *t = deque_add (r, NULL, NULL, type, maxlen);
  if (in[0])
    add_all (r, t, &(GmCallArgs){ in, 1, NULL }, "extend", true, false);
  return t;
}

static PyObject *
constant (GmRecorder *r, const GmTracker *t)
{
  const GmTracker *contents = gm_contents_of (r, t);
  PyObject *list = gm_constant (r, gm_list_new (r, contents->items, contents->n));
  PyObject *maxlen = t->number < 0 ? Py_NewRef (Py_None) : PyLong_FromLongLong (t->number);
  PyObject *deque = list && maxlen
                        ? PyObject_CallFunctionObjArgs ((PyObject *) t->data, list, maxlen, NULL)
                        : NULL;
  Py_XDECREF (maxlen);
  PyErr_Clear ();
  return deque;
}

/* Emits deque ((), maxlen), then appends of the items one by one, since the deque may contain
 * itself. */
static bool
build (GmResidualBuilder *b, const GmTracker *t)
{
  if (gm_residual_cached (b, t))
    return true;
  GmRecorder *r = gm_residual_recorder (b);
  const GmTracker *contents = gm_contents_of (r, t);
  gm_residual_emit (b, GM_INSN_PUSH_NULL, 0, NULL);
  gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, (PyObject *) t->data);
  gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, gm_record_take (r, PyTuple_New (0)));
  gm_residual_value (b, t->number < 0 ? gm_none (r) : gm_from_int (r, t->number));
  gm_residual_emit (b, GM_INSN_CALL, 2, NULL);
  gm_residual_allocated (b, t);
  for (uint32_t i = 0; i < contents->n; i++) {
    gm_residual_emit (b, GM_INSN_PUSH_NULL, 0, NULL);
    gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, method_of (t, "append"));
    gm_residual_emit (b, GM_INSN_LOAD_FAST, gm_residual_temp (b, t), NULL);
    gm_residual_value (b, contents->items[i]);
    gm_residual_emit (b, GM_INSN_CALL, 2, NULL);
    gm_residual_emit (b, GM_INSN_POP_TOP, 0, NULL);
  }
  gm_residual_emit (b, GM_INSN_LOAD_FAST, gm_residual_temp (b, t), NULL);
  return true;
}

const GmTrackerKind gm_kind_deque = {
  .name = "deque",
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
