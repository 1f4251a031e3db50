/* SPDX-License-Identifier: Apache-2.0
 * tracker_iterator.c -- iterators made while recording: a kind, operands, and a position in the
 * heap.
 *
 * An iterator that has ended stays so if CPython's does: one over a sequence does, one over
 * iterators (zip, map, enumerate) reads them again. A list is read live, as CPython's list iterator
 * does; a dict whose size changed is an error there and a break here.
 */
#include "core/trace/iterator.h"

#include "core/trace/kinds.h"
#include "core/trace/exception.h"
#include "core/trace/instance.h"
#include "core/trace/list_items.h"
#include "core/trace/key_table.h"

const GmTracker *
gm_iterator_new (GmRecorder *r, GmIterKind kind, const GmTracker *const *items, uint32_t n,
                 int64_t start)
{
  const GmTracker **copy = gm_tracker_array (r, n);
  for (uint32_t i = 0; i < n; i++)
    copy[i] = items[i];
  uint32_t id = gm_heap_add (&r->heap, 2); /* position, and the state of itertools */
  const GmTracker *t = gm_tracker_add (
      r,
      &(GmTracker){ .kind = &gm_kind_iterator, .items = copy, .n = n, .id = id, .number = kind });
  gm_contents_set (r, t, gm_tracker (r, .kind = &gm_kind_contents, .number = start));
  return t;
}

bool
gm_iterator_is_done (GmRecorder *r, const GmTracker *t)
{
  bool lets_go = t->kind == &gm_kind_iterator
                 && (t->number == GM_ITER_SEQUENCE || t->number == GM_ITER_REVERSED
                     || t->number == GM_ITER_SET);
  return lets_go && gm_contents_of (r, t)->items != NULL;
}

/* Returns the dict of a view; any other tracker unchanged. */
static const GmTracker *
dict_under (const GmTracker *of)
{
  return of->kind == &gm_kind_view ? of->items[0] : of;
}

static const GmTracker *
iterator_over (GmRecorder *r, GmIterKind kind, const GmTracker *sequence, int64_t start)
{
  const GmTracker *of = dict_under (sequence);
  const GmTracker *t = gm_iterator_new (r, kind, &sequence, 1, start);
  if (of->kind == &gm_kind_dict && !r->stop) /* keeps the contents at the start of the iteration */
    gm_contents_set (r, t,
                     gm_tracker (r, .kind = &gm_kind_contents, .number = 0, .n = 0,
                                 .data = gm_contents_of (r, of)));
  return t;
}

const GmTracker *
gm_iterator_over (GmRecorder *r, const GmTracker *sequence)
{
  return iterator_over (r, GM_ITER_SEQUENCE, sequence, 0);
}

const GmTracker *
gm_iterator_reversed (GmRecorder *r, const GmTracker *sequence)
{
  const GmTracker *of = dict_under (sequence);
  if (of->kind == &gm_kind_dict)
    gm_dict_contents (r, of);
  return r->stop ? &gm_tracker_poison
                 : iterator_over (r, GM_ITER_REVERSED, sequence, gm_len (r, sequence) - 1);
}

void
gm_iterator_move (GmRecorder *r, const GmTracker *t, int64_t position)
{
  gm_contents_set (r, t,
                   gm_tracker (r, .kind = &gm_kind_contents, .number = position,
                               .data = gm_contents_of (r, t)->data));
}

/* True if contents a and b have the same keys in the same order; the values may differ. */
static bool
same_keys (const GmTracker *a, const GmTracker *b)
{
  bool same = a->n == b->n;
  for (uint32_t i = 0; i < a->n && same && a != b; i += 2)
    same = a->items[i] == b->items[i];
  return same;
}

/* True if the keys have changed so that an iterator which began with other contents raises. A
 * dict's iterator tests only the size, an OrderedDict's each key that was added or removed. */
static bool
keys_differ (const GmTracker *dict, const GmTracker *began, const GmTracker *now)
{
  bool differ = began->n != now->n;
  for (uint32_t i = 0; dict->number && began != now && i < now->n && !differ; i += 2)
    differ = began->items[i] != now->items[i];
  return differ;
}

/* Returns the next value of an iterator over a dict or view; NULL at the end, or after a break. The
 * position is the number of steps, also for an iterator from the end. */
static const GmTracker *
dict_next (GmRecorder *r, const GmTracker *t)
{
  const GmTracker *of = dict_under (t->items[0]), *state = gm_contents_of (r, t), *value;
  int which = t->items[0] == of ? 0 : (int) t->items[0]->number;
  uint32_t n = ((const GmTracker *) state->data)->n, i = 2 * (uint32_t) state->number;
  if (t->number == GM_ITER_REVERSED && i < n)
    i = n - 2 - i;
  if (gm_key_table_value_in (r, of, state->data, i / 2,
                             &value)) { /* true while only values have been replaced */
    const GmTracker *pair[] = { ((const GmTracker *) state->data)->items[i], value };
    gm_iterator_move (r, t, state->number + 1);
    return which == 2 ? gm_tuple_new (r, pair, 2) : pair[which];
  }
  const GmTracker *contents = gm_contents_of (r, of);
  if (of->number && i >= n)
    return NULL; /* after its last key an OrderedDict's iterator tests nothing more */
  if (keys_differ (of, state->data, contents)) {
    gm_raise_new (r, PyExc_RuntimeError,
                  of->number ? "OrderedDict mutated during iteration"
                             : "dictionary changed size during iteration");
    return NULL;
  }
  if (!same_keys (contents, state->data)) { /* its next key depends on the table's history */
    gm_record_break (r, GM_BREAK_ITERATION, "dict whose keys change");
    return NULL;
  }
  if (i >= contents->n)
    return NULL;
  gm_contents_set (
      r, t,
      gm_tracker (r, .kind = &gm_kind_contents, .number = state->number + 1, .data = contents));
  return which == 2 ? gm_tuple_new (r, &contents->items[i], 2) : contents->items[i + (which == 1)];
}

/* Returns item i of a sequence; NULL past either end. */
static const GmTracker *
item_at (GmRecorder *r, const GmTracker *of, int64_t i)
{
  if (i < 0)
    return NULL;
  if (of->kind == &gm_kind_tuple)
    return i < of->n ? of->items[i] : NULL;
  if (of->kind == &gm_kind_list)
    return i < gm_list_items_length (r, of) ? gm_list_items_item (r, of, (uint32_t) i) : NULL;
  if (of->kind == &gm_kind_bytearray)
    return gm_bytearray_item (r, of, i);
  if (i >= PyObject_Size (of->real))
    return NULL;
  return gm_from_constant_take (r, PySequence_GetItem (of->real, i));
}

static bool
same_items (const GmTracker *a, const GmTracker *b)
{
  bool same = a->n == b->n;
  for (uint32_t i = 0; i < a->n && same; i++)
    same = a->items[i] == b->items[i];
  return same;
}

static const GmTracker *
zip_next (GmRecorder *r, const GmTracker *t, uint32_t first)
{
  g_autofree const GmTracker **items = gm_tracker_array_own (t->n);
  for (uint32_t i = first; i < t->n; i++)
    if ((items[i - first] = gm_next (r, t->items[i])) == NULL)
      return NULL;
  return t->n == first ? NULL : gm_tuple_new (r, items, t->n - first);
}

/* Returns the next tuple of zip (strict=True), or NULL at its end: the first operand must end
 * first, and then all others must end, too, or a ValueError is raised. */
static const GmTracker *
zip_strict_next (GmRecorder *r, const GmTracker *t)
{
  g_autofree const GmTracker **items = gm_tracker_array_own (t->n);
  const char *how = NULL;
  uint32_t i = 0;
  for (; i < t->n && (items[i] = gm_next (r, t->items[i])) != NULL; i++)
    ;
  if (i == t->n || r->stop)
    return r->stop ? NULL : gm_tuple_new (r, items, t->n);
  if (i > 0)
    how = "shorter";
  for (uint32_t k = 1; i == 0 && k < t->n && !r->stop && !how; k++)
    if (gm_next (r, t->items[k]) != NULL && !r->stop) {
      i = k;
      how = "longer";
    }
  if (how && !r->stop)
    gm_raise_new (r, PyExc_ValueError, "zip() argument %u is %s than argument%s%u", i + 1, how,
                  i == 1 ? " " : "s 1-", i);
  return NULL;
}

static const GmTracker *
advance (GmRecorder *r, const GmTracker *t, int64_t at)
{
  const GmTracker *of = t->items[0], *item;
  switch ((GmIterKind) t->number) {
  case GM_ITER_SEQUENCE:
    if (dict_under (of)->kind == &gm_kind_dict)
      return dict_next (r, t);
    if ((item = item_at (r, of, at)) != NULL)
      gm_iterator_move (r, t, at + 1);
    return item;
  case GM_ITER_REVERSED:
    if (dict_under (of)->kind == &gm_kind_dict)
      return dict_next (r, t);
    if ((item = item_at (r, of, at)) != NULL)
      gm_iterator_move (r, t, at - 1); /* a position below 0 is the end */
    return item;
  case GM_ITER_ENUMERATE: {
    const GmTracker *pair[2] = { gm_from_int (r, at), gm_next (r, of) };
    if (pair[1] == NULL)
      return NULL;
    gm_iterator_move (r, t, at + 1);
    return gm_tuple_new (r, pair, 2);
  }
  case GM_ITER_ZIP:
    return t->n ? zip_next (r, t, 0) : NULL;
  case GM_ITER_ZIP_STRICT:
    return t->n ? zip_strict_next (r, t) : NULL;
  case GM_ITER_MAP: {
    const GmTracker *args = zip_next (r, t, 1);
    return args ? gm_call_n (r, of, args->items, args->n) : NULL;
  }
  case GM_ITER_FILTER:
    while (!r->stop && (item = gm_next (r, t->items[1])) != NULL) {
      bool none = gm_realize (r, of)->real == Py_None;
      if (gm_truth (r, none ? item : gm_call_n (r, of, &item, 1)))
        return item;
    }
    return NULL;
  case GM_ITER_DEQUE:
  case GM_ITER_DEQUE_REVERSED:
    if (gm_deque_change (r, of) != (t->n == 2 ? t->items[1] : NULL)) { /* each change counts, also
                                                                          one that keeps the size */
      gm_raise_new (r, PyExc_RuntimeError, "deque mutated during iteration");
      return NULL;
    }
    if (at >= gm_list_items_length (r, of))
      return NULL;
    gm_iterator_move (r, t, at + 1);
    return gm_list_items_item (r, of,
                               t->number == GM_ITER_DEQUE
                                   ? (uint32_t) at
                                   : gm_list_items_length (r, of) - 1 - (uint32_t) at);
  case GM_ITER_SET: {
    const GmTracker *was = t->items[1], *now = gm_contents_of (r, of);
    if (now != was && now->n != was->n)
      gm_raise_new (r, PyExc_RuntimeError, "Set changed size during iteration");
    else if (now != was && !same_items (now, was))
      gm_record_break (r, GM_BREAK_ITERATION, "set whose elements change");
    if (r->stop || r->pending || at >= t->items[2]->n)
      return NULL;
    gm_iterator_move (r, t, at + 1);
    return t->items[2]->items[at];
  }
  case GM_ITER_GETITEM:
    item = gm_getitem (r, of, gm_from_int (r, at));
    if (gm_exception_caught (r, PyExc_IndexError) || gm_exception_caught (r, PyExc_StopIteration))
      return NULL;
    gm_iterator_move (r, t, at + 1);
    return r->stop ? NULL : item;
  case GM_ITER_CALLABLE:
    item = gm_call_n (r, of, NULL, 0);
    if (gm_exception_caught (r, PyExc_StopIteration) || r->stop)
      return NULL;
    return gm_same_or_equal (r, item, t->items[1]) ? NULL : item;
  default:
    return gm_itertools_next (r, t, at);
  }
}

/* True for a kind that does not remember that it has ended, so that each call reads its operands
 * again. */
static bool
asks_again (GmIterKind kind)
{
  switch (kind) {
  case GM_ITER_ENUMERATE:
  case GM_ITER_ZIP:
  case GM_ITER_ZIP_STRICT:
  case GM_ITER_MAP:
  case GM_ITER_FILTER:
  case GM_ITER_ACCUMULATE:
  case GM_ITER_STARMAP:
  case GM_ITER_DROPWHILE:
  case GM_ITER_FILTERFALSE:
  case GM_ITER_COMPRESS:
  case GM_ITER_GROUPBY:
  case GM_ITER_GROUP:
  case GM_ITER_CYCLE: /* remembers its end by itself */
    return true;
  default:
    return false;
  }
}

static const GmTracker *
next (GmRecorder *r, const GmTracker *t)
{
  int64_t at = gm_contents_of (r, t)->number;
  bool counts = t->number == GM_ITER_ENUMERATE || /* its position is a number that the user sees */
                t->number == GM_ITER_REPEAT;
  if (gm_contents_of (r, t)->items != NULL)
    return NULL;
  const GmTracker *item = at < 0 && !counts ? NULL : advance (r, t, at);
  if (item == NULL && !r->stop && !asks_again ((GmIterKind) t->number)) /* for good: items say so */
    gm_contents_set (r, t, gm_contents (r, NULL, 0));
  return item;
}

static const GmTracker *
iter (GmRecorder *r, const GmTracker *t)
{
  return t;
}

static int
truth (GmRecorder *r, const GmTracker *t)
{
  return 1;
}

/* -- Leaving the region ---------------------------------------------------- */

#define MAX_STEPS 1000 /* steps of a dict's iterator, which can only be moved step by step */

static void
emit_int (GmResidualBuilder *b, int64_t i)
{
  GmRecorder *r = gm_residual_recorder (b);
  gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, gm_record_take (r, PyLong_FromLongLong (i)));
}

/* Emits a call of the method `name` of the iterator that was just allocated, with `arg` if n is 1,
 * and drops the result. */
static void
emit_method (GmResidualBuilder *b, const GmTracker *t, const char *name, int64_t arg, uint32_t n)
{
  GmRecorder *r = gm_residual_recorder (b);
  gm_residual_emit (b, GM_INSN_PUSH_NULL, 0, NULL);
  gm_residual_emit (b, GM_INSN_LOAD_FAST, gm_residual_temp (b, t), NULL);
  gm_residual_emit (b, GM_INSN_LOAD_ATTR, 0, gm_record_take (r, PyUnicode_InternFromString (name)));
  if (n)
    emit_int (b, arg);
  gm_residual_emit (b, GM_INSN_CALL, n, NULL);
  gm_residual_emit (b, GM_INSN_POP_TOP, 0, NULL);
}

/* Emits an operand of zip, map, filter or enumerate, which call iter () on it. An object is wrapped
 * (gm_iterated_type): the program has run its __iter__, which must not run again. */
static void
emit_operand (GmResidualBuilder *b, const GmTracker *item)
{
  bool users = item->kind == &gm_kind_object;
  if (users) {
    gm_residual_emit (b, GM_INSN_PUSH_NULL, 0, NULL);
    gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, (PyObject *) gm_iterated_type ());
  }
  gm_residual_value (b, item);
  if (users)
    gm_residual_emit (b, GM_INSN_CALL, 1, NULL);
}

/* Emits type (items ...), a new iterator, or iter (items[0]) if `type` is NULL. *start: one more
 * argument, or NULL. */
static void
emit_new (GmResidualBuilder *b, const GmTracker *t, PyTypeObject *type, const int64_t *start)
{
  if (type) {
    gm_residual_emit (b, GM_INSN_PUSH_NULL, 0, NULL);
    gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, (PyObject *) type);
  }
  bool calls =
      t->number == GM_ITER_MAP || t->number == GM_ITER_FILTER; /* the first item is a function */
  for (uint32_t i = 0; i < t->n; i++)
    if (type && !(calls && i == 0) && t->number != GM_ITER_REVERSED)
      emit_operand (b, t->items[i]);
    else
      gm_residual_value (b, t->items[i]);
  if (start)
    emit_int (b, *start);
  if (type)
    gm_residual_emit (b, GM_INSN_CALL, t->n + (start != NULL), NULL);
  else
    gm_residual_emit (b, GM_INSN_GET_ITER, 0, NULL);
  gm_residual_allocated (b, t);
}

static bool
emit_at_position (GmResidualBuilder *b, const GmTracker *t, int64_t at)
{
  const GmTracker *of = t->items[0];
  bool reversed = t->number == GM_ITER_REVERSED, range = of->real && PyRange_Check (of->real);
  bool dict = of->kind == &gm_kind_dict || of->kind == &gm_kind_view;
  GmRecorder *r = gm_residual_recorder (b);
  if (dict
      && (at > MAX_STEPS
          || !same_keys (gm_contents_of (r, t)->data, gm_contents_of (r, dict_under (of)))))
    return false; /* an iterator that is made after the change would not detect the change */
  if (of->kind == &gm_kind_list && at > (int64_t) gm_list_items_length (r, of) - reversed)
    return false; /* __setstate__ moves at most to the present end of the list */
  if (of->kind == &gm_kind_bytearray && at > gm_len (r, of))
    return false;
  emit_new (b, t, reversed ? &PyReversed_Type : NULL, NULL);
  if (dict)
    for (int64_t i = 0; i < at; i++)
      emit_method (b, t, "__next__", 0, 0);
  else if (reversed && range)
    emit_method (b, t, "__setstate__", PyObject_Size (of->real) - 1 - at, 1);
  else if (reversed || at > 0)
    emit_method (b, t, "__setstate__", at, 1);
  return true;
}

/* Emits an iterator such as product's, made by its class from the arguments that it has read, and
 * advanced to `at`. False if `at` is too far, or for named arguments, whose values are not kept. */
static bool
emit_tuples (GmResidualBuilder *b, const GmTracker *t, int64_t at)
{
  if (at > MAX_STEPS || t->n == 2)
    return false;
  gm_residual_emit (b, GM_INSN_PUSH_NULL, 0, NULL);
  gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, (PyObject *) t->items[1]->data);
  for (uint32_t i = 2; i < t->n; i++)
    gm_residual_value (b, t->items[i]);
  gm_residual_emit (b, GM_INSN_CALL, t->n - 2, NULL);
  gm_residual_allocated (b, t);
  for (int64_t i = 0; i < at; i++)
    emit_method (b, t, "__next__", 0, 0);
  return true;
}

/* True for an iterator over the storage of a subclass's instance: iter () of the instance may
 * return another iterator. */
static bool
over_storage (GmRecorder *r, const GmTracker *t)
{
  const GmTracker *of = t->n && t->items[0] ? t->items[0] : NULL;
  if (of == NULL
      || (of->kind != &gm_kind_list && of->kind != &gm_kind_dict && of->kind != &gm_kind_set
          && of->kind != &gm_kind_tuple))
    return false;
  return gm_storage_owner (r, of) != NULL
         || (of->real && of->source && gm_type_of (r, of) != Py_TYPE (of->real));
}

/* Returns a new empty object of the type of `of`, over which an iterator walks; nothing else ever
 * refers to it. */
static PyObject *
empty_of (const GmTracker *of)
{
  static const char *const views[] = { "keys", "values", "items" };
  if (of->kind == &gm_kind_list)
    return PyList_New (0);
  if (of->kind == &gm_kind_dict)
    return PyDict_New ();
  if (of->kind == &gm_kind_bytearray)
    return PyByteArray_FromStringAndSize ("", 0);
  if (of->kind == &gm_kind_set)
    return PySet_New (NULL);
  if (of->kind == &gm_kind_view) {
    PyObject *dict = of->items[0]->number ? PyODict_New () : PyDict_New ();
    PyObject *view = dict ? PyObject_CallMethod (dict, views[of->number], NULL) : NULL;
    Py_XDECREF (dict);
    return view;
  }
  if (of->real && PyRange_Check (of->real))
    return PyObject_CallFunction ((PyObject *) &PyRange_Type, "i", 0);
  if (of->real && PyUnicode_Check (of->real))
    return PyUnicode_FromString ("");
  return of->real && PyBytes_Check (of->real) ? PyBytes_FromString ("") : PyTuple_New (0);
}

/* Emits an ended iterator of the type of t: made over an empty object, and advanced once, so that
 * it drops that object. */
static void
emit_ended (GmResidualBuilder *b, const GmTracker *t)
{
  GmRecorder *r = gm_residual_recorder (b);
  bool reversed = t->number == GM_ITER_REVERSED;
  if (reversed) {
    gm_residual_emit (b, GM_INSN_PUSH_NULL, 0, NULL);
    gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, (PyObject *) &PyReversed_Type);
  }
  gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, gm_record_take (r, empty_of (t->items[0])));
  if (reversed)
    gm_residual_emit (b, GM_INSN_CALL, 1, NULL);
  else
    gm_residual_emit (b, GM_INSN_GET_ITER, 0, NULL);
  gm_residual_allocated (b, t);
  PyObject *next = PyDict_GetItemString (PyEval_GetBuiltins (), "next");
  gm_residual_emit (b, GM_INSN_PUSH_NULL, 0, NULL);
  gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, gm_record_take (r, Py_NewRef (next)));
  gm_residual_emit (b, GM_INSN_LOAD_FAST, gm_residual_temp (b, t), NULL);
  gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, Py_None);
  gm_residual_emit (b, GM_INSN_CALL, 2, NULL);
  gm_residual_emit (b, GM_INSN_POP_TOP, 0, NULL);
}

static bool
build (GmResidualBuilder *b, const GmTracker *t)
{
  GmRecorder *r = gm_residual_recorder (b);
  if (gm_residual_cached (b, t))
    return true;
  const GmTracker *state = gm_contents_of (r, t);
  int64_t at = state->number;
  if (t->number == GM_ITER_TUPLES && state->items == NULL) {
    if (!emit_tuples (b, t, at))
      return false;
    gm_residual_emit (b, GM_INSN_LOAD_FAST, gm_residual_temp (b, t), NULL);
    return true;
  }
  if ((t->number > GM_ITER_FILTER && t->number != GM_ITER_SET) || t->number == GM_ITER_ZIP_STRICT
      || over_storage (r, t))
    return false;
  if (state->items != NULL || (at < 0 && t->number != GM_ITER_ENUMERATE)) {
    emit_ended (b, t);
  } else if (t->number == GM_ITER_SET) {
    if (at > MAX_STEPS || gm_contents_of (r, t->items[0]) != t->items[1])
      return false;
    gm_residual_value (b, t->items[0]);
    gm_residual_emit (b, GM_INSN_GET_ITER, 0, NULL);
    gm_residual_allocated (b, t);
    for (int64_t i = 0; i < at; i++)
      emit_method (b, t, "__next__", 0, 0);
  } else if (t->number == GM_ITER_SEQUENCE || t->number == GM_ITER_REVERSED) {
    if (!emit_at_position (b, t, at))
      return false;
  } else {
    bool counts = t->number == GM_ITER_ENUMERATE;
    emit_new (b, t,
              counts                     ? &PyEnum_Type
              : t->number == GM_ITER_ZIP ? &PyZip_Type
              : t->number == GM_ITER_MAP ? &PyMap_Type
                                         : &PyFilter_Type,
              counts ? &at : NULL);
  }
  gm_residual_emit (b, GM_INSN_LOAD_FAST, gm_residual_temp (b, t), NULL);
  return true;
}

static const GmTracker *
method_next (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  const GmTracker *item = gm_args_plain (r, "__next__", args, 0, 0) ? gm_next (r, t) : NULL;
  return item || r->stop ? item : gm_raise_value (r, PyExc_StopIteration, NULL);
}

static const GmTracker *
getattr (GmRecorder *r, const GmTracker *t, PyObject *name)
{
  static const GmMethodRow rows[] = { { "__next__", method_next }, { NULL, NULL } };
  const GmTracker *bound = gm_method_row (r, rows, t, name);
  return bound ? bound
               : gm_record_break (r, GM_BREAK_ATTRIBUTE, PyUnicode_AsUTF8 (name), "iterator");
}

const GmTrackerKind gm_kind_iterator = {
  .name = "iterator", .truth = truth, .iter = iter, .next = next, .getattr = getattr, .build = build
};
