/* SPDX-License-Identifier: Apache-2.0
 * itertools.c -- the iterators of the module itertools.
 *
 * The state of such an iterator between two values (the total of accumulate, the current iterable
 * of chain, the current group of groupby ...) is in the second slot of its heap object. product,
 * combinations and permutations read all of their arguments when they are made, as CPython's do; so
 * their tuples are made at once, and if such an iterator leaves the region, its class makes it anew
 * of the arguments.
 */
#include "core/models/models.h"
#include "core/trace/exception.h"
#include "core/trace/iterator.h"

#include <string.h>

#define MAX_TUPLES 100000

static const GmTracker *
kept (GmRecorder *r, const GmTracker *t)
{
  return gm_heap_load (&r->heap, t->id, 1);
}

static void
keep (GmRecorder *r, const GmTracker *t, const GmTracker *value)
{
  if (!r->stop)
    gm_heap_store (&r->heap, t->id, 1, value);
}

/* -- Values ---------------------------------------------------------------- */

static const GmTracker *
cycle_next (GmRecorder *r, const GmTracker *t, int64_t at)
{
  const GmTracker *saved = kept (r, t), *item = at == 0 ? gm_next (r, t->items[0]) : NULL;
  if (r->stop)
    return NULL;
  if (item) {
    uint32_t n = saved ? saved->n : 0;
    const GmTracker **items = gm_tracker_array (r, n + 1);
    if (saved)
      gm_tracker_copy (items, saved->items, n);
    items[n] = item;
    keep (r, t, gm_contents (r, items, n + 1));
    return item;
  }
  if (saved == NULL || saved->n == 0)
    return NULL;
  int64_t i = at == 0 ? 0 : at - 1;
  gm_iterator_move (r, t, 1 + (i + 1) % saved->n);
  return saved->items[i];
}

/* Items of the state of a groupby. */
enum { KEY, VALUE, GROUP_KEY, GROUP, N_GROUPBY };

static void
groupby_state (GmRecorder *r, const GmTracker *t, const GmTracker **s)
{
  const GmTracker *state = kept (r, t);
  for (uint32_t i = 0; i < N_GROUPBY; i++)
    s[i] = state ? state->items[i] : &gm_tracker_null;
}

static void
groupby_keep (GmRecorder *r, const GmTracker *t, const GmTracker *const *s)
{
  const GmTracker **items = gm_tracker_array (r, N_GROUPBY);
  gm_tracker_copy (items, s, N_GROUPBY);
  keep (r, t, gm_contents (r, items, N_GROUPBY));
}

/* Reads the next value and its key into the state s of the groupby t; false at the end, or after
 * a break or an exception.  The key function, as each comparison, may itself advance the groupby:
 * so s is read only after it. */
static bool
groupby_step (GmRecorder *r, const GmTracker *t, const GmTracker **s)
{
  const GmTracker *value = gm_next (r, t->items[0]);
  if (value == NULL || r->stop)
    return false;
  bool itself = gm_realize (r, t->items[1])->real == Py_None;
  const GmTracker *key = itself ? value : gm_call_n (r, t->items[1], &value, 1);
  if (key == NULL || r->stop || r->pending)
    return false;
  groupby_state (r, t, s);
  s[VALUE] = value;
  s[KEY] = key;
  groupby_keep (r, t, s);
  return true;
}

/* True if `key` equals the key of the last value.  The comparison may advance the groupby, so
 * the state s is read again after it. */
static bool
groupby_equal (GmRecorder *r, const GmTracker *t, const GmTracker *key, const GmTracker **s)
{
  bool equal = gm_same_or_equal (r, key, s[KEY]);
  groupby_state (r, t, s);
  return equal;
}

static const GmTracker *
groupby_next (GmRecorder *r, const GmTracker *t)
{
  const GmTracker *s[N_GROUPBY];
  groupby_state (r, t, s);
  s[GROUP] = &gm_tracker_null; /* the group so far gives no more */
  groupby_keep (r, t, s);
  while (s[KEY] == &gm_tracker_null
         || (s[GROUP_KEY] != &gm_tracker_null && groupby_equal (r, t, s[GROUP_KEY], s)))
    if (r->stop || r->pending || !groupby_step (r, t, s))
      return NULL;
  if (r->stop || r->pending)
    return NULL;
  const GmTracker *of[] = { t, s[KEY] }, *group = gm_iterator_new (r, GM_ITER_GROUP, of, 2, 0),
                  *pair[] = { s[KEY], group };
  s[GROUP_KEY] = s[KEY];
  s[GROUP] = group;
  groupby_keep (r, t, s);
  return gm_tuple_new (r, pair, 2);
}

static const GmTracker *
group_next (GmRecorder *r, const GmTracker *t)
{
  const GmTracker *s[N_GROUPBY], *by = t->items[0];
  groupby_state (r, by, s);
  if (s[GROUP] != t || (s[VALUE] == &gm_tracker_null && !groupby_step (r, by, s))
      || !groupby_equal (r, by, t->items[1], s) || r->stop || r->pending)
    return NULL;
  const GmTracker *value = s[VALUE];
  s[VALUE] = s[KEY] = &gm_tracker_null;
  groupby_keep (r, by, s);
  return value;
}

static const GmTracker *
chain_next (GmRecorder *r, const GmTracker *t)
{
  for (;;) {
    const GmTracker *it = kept (r, t), *item = it ? gm_next (r, it) : NULL;
    if (item || r->stop)
      return item;
    const GmTracker *more = gm_next (r, t->items[0]);
    if (more == NULL)
      return NULL;
    keep (r, t, gm_iter (r, more));
    if (r->stop)
      return NULL;
  }
}

static const GmTracker *
longest_next (GmRecorder *r, const GmTracker *t)
{
  uint32_t n = t->n - 1, alive = 0;
  g_autofree const GmTracker **its = gm_tracker_array_own (n);
  g_autofree const GmTracker **items = gm_tracker_array_own (n);
  const GmTracker *old = kept (r, t);
  for (uint32_t i = 0; i < n && !r->stop; i++) {
    its[i] = old ? old->items[i] : t->items[i];
    items[i] = its[i] == &gm_tracker_null ? NULL : gm_next (r, its[i]);
    alive += items[i] != NULL;
    if (items[i] == NULL) {
      its[i] = &gm_tracker_null;
      items[i] = t->items[n];
    }
  }
  keep (r, t, gm_contents (r, its, n));
  return alive && !r->stop ? gm_tuple_new (r, items, n) : NULL;
}

/* Returns the next value of an islice; NULL at the end.  at: number of values read so far. */
static const GmTracker *
slice_next (GmRecorder *r, const GmTracker *t, int64_t at)
{
  int64_t want = t->items[1]->number, last = t->items[2]->number, step = t->items[3]->number;
  const GmTracker *later = kept (r, t), *item = NULL;
  if (later)
    want = later->number;
  if (last >= 0 && want >= last) { /* the values before the end are read, and no more */
    for (; at < last && !r->stop && gm_next (r, t->items[0]); at++)
      ;
    return NULL;
  }
  for (; at <= want; at++)
    if ((item = gm_next (r, t->items[0])) == NULL)
      return NULL;
  gm_iterator_move (r, t, at);
  keep (r, t, gm_tracker (r, .kind = &gm_kind_contents, .number = want + step));
  return item;
}

static const GmTracker *
accumulate_next (GmRecorder *r, const GmTracker *t, int64_t at)
{
  const GmTracker *total = kept (r, t), *item;
  if (at == 0 && t->items[2] != &gm_tracker_null) {
    total = t->items[2];
  } else {
    if ((item = gm_next (r, t->items[0])) == NULL)
      return NULL;
    const GmTracker *pair[2] = { total, item };
    bool sum = gm_realize (r, t->items[1])->real == Py_None;
    total = total == NULL ? item
            : sum         ? gm_binary (r, GM_BIN_ADD, total, item, false)
                          : gm_call_n (r, t->items[1], pair, 2);
  }
  keep (r, t, total);
  gm_iterator_move (r, t, at + 1);
  return r->stop ? NULL : total;
}

/* True if the predicate holds for the item; None tests the item itself. */
static bool
holds (GmRecorder *r, const GmTracker *predicate, const GmTracker *item)
{
  bool none = gm_realize (r, predicate)->real == Py_None;
  return gm_truth (r, none ? item : gm_call_n (r, predicate, &item, 1)) != 0;
}

const GmTracker *
gm_itertools_next (GmRecorder *r, const GmTracker *t, int64_t at)
{
  const GmTracker *item, *other;
  switch ((GmIterKind) t->number) {
  case GM_ITER_COUNT:
    item = kept (r, t) ? kept (r, t) : gm_realize (r, t->items[0]);
    other = gm_realize (r, t->items[1]);
    if ((item->real == Py_True || item->real == Py_False) && other->real
        && PyLong_CheckExact (other->real) && PyLong_AsLong (other->real) == 1)
      item = gm_from_int (r, item->real == Py_True); /* count (True) counts with ints */
    keep (r, t, gm_binary (r, GM_BIN_ADD, item, t->items[1], false));
    return item;
  case GM_ITER_CYCLE:
    return cycle_next (r, t, at);
  case GM_ITER_REPEAT:
    if (at == 0)
      return NULL;
    if (at > 0)
      gm_iterator_move (r, t, at - 1);
    return t->items[0];
  case GM_ITER_CHAIN:
    return chain_next (r, t);
  case GM_ITER_LONGEST:
    return longest_next (r, t);
  case GM_ITER_SLICE:
    return slice_next (r, t, at);
  case GM_ITER_ACCUMULATE:
    return accumulate_next (r, t, at);
  case GM_ITER_STARMAP: {
    if ((item = gm_next (r, t->items[1])) == NULL)
      return NULL;
    g_autoptr (GPtrArray) args = gm_collect (r, item);
    return args ? gm_call_n (r, t->items[0], (const GmTracker *const *) args->pdata, args->len)
                : NULL;
  }
  case GM_ITER_TAKEWHILE:
    item = gm_next (r, t->items[1]);
    return item && holds (r, t->items[0], item) ? item : NULL;
  case GM_ITER_DROPWHILE:
    while ((item = gm_next (r, t->items[1])) != NULL && !r->stop)
      if (at || !holds (r, t->items[0], item)) {
        gm_iterator_move (r, t, 1);
        return item;
      }
    return NULL;
  case GM_ITER_FILTERFALSE:
    while ((item = gm_next (r, t->items[1])) != NULL && !r->stop)
      if (!holds (r, t->items[0], item))
        return item;
    return NULL;
  case GM_ITER_COMPRESS:
    while ((item = gm_next (r, t->items[0])) != NULL && (other = gm_next (r, t->items[1])) != NULL
           && !r->stop)
      if (gm_truth (r, other))
        return item;
    return NULL;
  case GM_ITER_PAIRWISE: {
    const GmTracker *first = kept (r, t) ? kept (r, t) : gm_next (r, t->items[0]);
    const GmTracker *pair[2] = { first, first ? gm_next (r, t->items[0]) : NULL };
    if (pair[1] == NULL)
      return NULL;
    keep (r, t, pair[1]);
    return gm_tuple_new (r, pair, 2);
  }
  case GM_ITER_GROUPBY:
    return groupby_next (r, t);
  case GM_ITER_GROUP:
    return group_next (r, t);
  case GM_ITER_TUPLES:
    if (at >= t->items[0]->n)
      return NULL;
    gm_iterator_move (r, t, at + 1);
    return t->items[0]->items[at];
  default:
    g_assert_not_reached ();
  }
}

/* -- Making ---------------------------------------------------------------- */

const GmTracker *
gm_iterator_chain (GmRecorder *r, const GmTracker *iterables)
{
  const GmTracker *it = gm_iter (r, iterables);
  return r->stop ? &gm_tracker_poison : gm_iterator_new (r, GM_ITER_CHAIN, &it, 1, 0);
}

/* Returns an iterator over the tuples of product, combinations ... : CPython computes them for
 * positions, and these are replaced by the values.  The first n_pools arguments are iterables.
 * Poison after a break. */
static const GmTracker *
make_tuples (GmRecorder *r, PyTypeObject *type, const GmCallArgs *args, uint32_t n_pools)
{
  uint32_t n = args->n + gm_args_n_named (args);
  g_autofree PyObject **values = g_new0 (PyObject *, n + 1);
  g_autofree GPtrArray **pools = g_new0 (GPtrArray *, n_pools + 1);
  g_autofree const GmTracker **made = gm_tracker_array_own (n + 2); /* see GM_ITER_TUPLES */
  g_autoptr (GPtrArray) owned = g_ptr_array_new_with_free_func ((GDestroyNotify) g_ptr_array_unref);
  for (uint32_t i = 0; i < n && !r->stop; i++) {
    if (i >= n_pools) {
      values[i] = gm_constant (r, args->args[i]);
      if (values[i] == NULL)
        return gm_record_break (r, GM_BREAK_CALL_ARGUMENTS, type->tp_name);
      made[2 + i] = args->args[i];
      continue;
    }
    pools[i] = gm_collect (r, args->args[i]);
    if (pools[i] == NULL)
      return &gm_tracker_poison;
    g_ptr_array_add (owned, pools[i]);
    values[i] =
        gm_record_take (r, PyObject_CallFunction ((PyObject *) &PyRange_Type, "I", pools[i]->len));
    made[2 + i] = gm_tuple_new (r, (const GmTracker *const *) pools[i]->pdata, pools[i]->len);
  }
  PyObject *it = PyObject_Vectorcall ((PyObject *) type, values, args->n, args->names), *places;
  if (it == NULL)
    return gm_record_break_exception (r);
  gm_record_take (r, it);
  g_autoptr (GPtrArray) tuples = g_ptr_array_new ();
  while ((places = PyIter_Next (it)) != NULL) {
    uint32_t size = (uint32_t) PyTuple_GET_SIZE (places);
    const GmTracker **items = gm_tracker_array (r, size);
    for (uint32_t k = 0; k < size; k++)
      items[k] = pools[k % n_pools]->pdata[PyLong_AsLong (PyTuple_GET_ITEM (places, k))];
    Py_DECREF (places);
    g_ptr_array_add (tuples, (gpointer) gm_tuple_new (r, items, size));
    if (tuples->len > MAX_TUPLES)
      return gm_record_break (r, GM_BREAK_LOOP_LIMIT, G_STRINGIFY (MAX_TUPLES));
  }
  made[0] = gm_tuple_new (r, (const GmTracker *const *) tuples->pdata, tuples->len);
  made[1] = gm_tracker (r, .kind = &gm_kind_contents, .data = gm_record_take (r, Py_NewRef (type)));
  return r->stop ? &gm_tracker_poison
                 : gm_iterator_new (r, GM_ITER_TUPLES, made, args->names ? 2 : n + 2, 0);
}

static const GmTracker *
make_slice (GmRecorder *r, const GmCallArgs *args)
{
  if (!gm_args_plain (r, "islice", args, 2, 4))
    return &gm_tracker_poison;
  int64_t numbers[3] = { 0, -1, 1 };
  for (uint32_t i = 1; i < args->n; i++) {
    int64_t *to = &numbers[args->n == 2 ? 1 : i - 1];
    if (gm_realize (r, args->args[i])->real != Py_None
        && (!gm_constant_int (r, args->args[i], to) || *to < 0))
      return gm_record_break (r, GM_BREAK_CALL_ARGUMENTS, "islice() with a number that is none");
  }
  if (numbers[2] < 1)
    return gm_record_break (r, GM_BREAK_CALL_ARGUMENTS, "islice() with a step below 1");
  const GmTracker *items[4] = { gm_iter (r, args->args[0]) };
  for (int i = 0; i < 3; i++)
    items[1 + i] = gm_tracker (r, .kind = &gm_kind_contents, .number = numbers[i]);
  return r->stop ? &gm_tracker_poison : gm_iterator_new (r, GM_ITER_SLICE, items, 4, 0);
}

/* Returns an iterator of this kind over two arguments: a function or None and an iterable if
 * `function` is true, else two iterables.  Poison after a break. */
static const GmTracker *
make_pair (GmRecorder *r, const char *name, GmIterKind kind, const GmCallArgs *args, bool function)
{
  if (!gm_args_plain (r, name, args, 2, 2))
    return &gm_tracker_poison;
  const GmTracker *items[2] = { function ? args->args[0] : gm_iter (r, args->args[0]) };
  items[1] = gm_iter (r, args->args[1]);
  return r->stop ? &gm_tracker_poison : gm_iterator_new (r, kind, items, 2, 0);
}

static const GmTracker *
make_longest (GmRecorder *r, const GmCallArgs *args)
{
  g_autofree const GmTracker **items = gm_tracker_array_own (args->n + 1);
  items[args->n] = gm_none (r);
  for (uint32_t i = 0; i < args->n; i++)
    items[i] = gm_iter (r, args->args[i]);
  for (uint32_t k = 0; k < gm_args_n_named (args); k++)
    if (PyUnicode_CompareWithASCIIString (PyTuple_GET_ITEM (args->names, k), "fillvalue") == 0)
      items[args->n] = args->args[args->n + k];
    else
      return gm_record_break (r, GM_BREAK_CALL_ARGUMENTS, "zip_longest()");
  return r->stop ? &gm_tracker_poison : gm_iterator_new (r, GM_ITER_LONGEST, items, args->n + 1, 0);
}

/* True if t is a number by the test of PyNumber_Check. */
static bool
is_number (GmRecorder *r, const GmTracker *t)
{
  const PyTypeObject *type = gm_type_of (r, t);
  const PyNumberMethods *m = type ? type->tp_as_number : NULL;
  return (m && (m->nb_index || m->nb_int || m->nb_float))
         || (type && PyType_IsSubtype ((PyTypeObject *) type, &PyComplex_Type));
}

static const GmTracker *
make_named (GmRecorder *r, const char *name, const GmCallArgs *args)
{
  const GmTracker *in[3];
  if (strcmp (name, "count") == 0) {
    static const char *const names[] = { "start", "step" };
    if (!gm_args_take (r, name, args, names, 2, in))
      return &gm_tracker_poison;
    const GmTracker *items[2] = { in[0] ? in[0] : gm_from_int (r, 0),
                                  in[1] ? in[1] : gm_from_int (r, 1) };
    if (!is_number (r, items[0]) || !is_number (r, items[1]))
      return r->stop ? &gm_tracker_poison
                     : gm_raise_new (r, PyExc_TypeError, "a number is required");
    return gm_iterator_new (r, GM_ITER_COUNT, items, 2, 0);
  }
  if (strcmp (name, "repeat") == 0) {
    static const char *const names[] = { "object", "times" };
    int64_t times = -1;
    if (!gm_args_take (r, name, args, names, 2, in) || in[0] == NULL
        || (in[1] && !gm_constant_int (r, in[1], &times)))
      return gm_record_break (r, GM_BREAK_CALL_ARGUMENTS, "repeat()");
    return gm_iterator_new (r, GM_ITER_REPEAT, in, 1, in[1] && times < 0 ? 0 : times);
  }
  static const char *const names[] = { "iterable", "func", "initial" }; /* the last by name alone */
  if (args->n > 2 || !gm_args_take (r, name, args, names, 3, in) || in[0] == NULL)
    return gm_record_break (r, GM_BREAK_CALL_ARGUMENTS, "accumulate()");
  bool initial = in[2] && gm_realize (r, in[2])->real != Py_None;
  const GmTracker *items[3] = { gm_iter (r, in[0]), in[1] ? in[1] : gm_none (r),
                                initial ? in[2] : &gm_tracker_null };
  return r->stop ? &gm_tracker_poison : gm_iterator_new (r, GM_ITER_ACCUMULATE, items, 3, 0);
}

static const GmTracker *
make_groupby (GmRecorder *r, const GmCallArgs *args)
{
  bool named = gm_args_n_named (args) == 1
               && PyUnicode_CompareWithASCIIString (PyTuple_GET_ITEM (args->names, 0), "key") == 0;
  uint32_t n = args->n + gm_args_n_named (args);
  if (args->n < 1 || n > 2 || (args->names && !named))
    return NULL;
  const GmTracker *items[] = { gm_iter (r, args->args[0]), n == 2 ? args->args[1] : gm_none (r) };
  return r->stop || items[0] == NULL ? NULL : gm_iterator_new (r, GM_ITER_GROUPBY, items, 2, 0);
}

const GmTracker *
gm_itertools_call (GmRecorder *r, PyTypeObject *type, const GmCallArgs *args)
{
  if (strncmp (type->tp_name, "itertools.", 10) != 0
      || (type->tp_flags & Py_TPFLAGS_HEAPTYPE && type->tp_base != &PyBaseObject_Type))
    return NULL;
  const char *name = type->tp_name + 10;
  if (strcmp (name, "product") == 0)
    return make_tuples (r, type, args, args->n);
  if (strcmp (name, "combinations") == 0 || strcmp (name, "permutations") == 0
      || strcmp (name, "combinations_with_replacement") == 0)
    return make_tuples (r, type, args, 1);
  if (strcmp (name, "count") == 0 || strcmp (name, "repeat") == 0
      || strcmp (name, "accumulate") == 0)
    return make_named (r, name, args);
  if (strcmp (name, "zip_longest") == 0)
    return make_longest (r, args);
  if (strcmp (name, "groupby") == 0)
    return make_groupby (r, args);
  if (args->names)
    return NULL;
  if (strcmp (name, "chain") == 0)
    return gm_iterator_chain (r, gm_tuple_new (r, args->args, args->n));
  if (strcmp (name, "islice") == 0)
    return make_slice (r, args);
  if (strcmp (name, "cycle") == 0 || strcmp (name, "pairwise") == 0) {
    const GmTracker *it = args->n == 1 ? gm_iter (r, args->args[0]) : NULL;
    return it ? gm_iterator_new (r, name[0] == 'c' ? GM_ITER_CYCLE : GM_ITER_PAIRWISE, &it, 1, 0)
              : NULL;
  }
  static const struct {
    const char *name;
    GmIterKind kind;
    bool function;
  } pairs[] = {
    { "starmap", GM_ITER_STARMAP, true },     { "takewhile", GM_ITER_TAKEWHILE, true },
    { "dropwhile", GM_ITER_DROPWHILE, true }, { "filterfalse", GM_ITER_FILTERFALSE, true },
    { "compress", GM_ITER_COMPRESS, false },
  };
  for (size_t i = 0; i < G_N_ELEMENTS (pairs); i++)
    if (strcmp (name, pairs[i].name) == 0)
      return make_pair (r, name, pairs[i].kind, args, pairs[i].function);
  return NULL;
}
