/* SPDX-License-Identifier: Apache-2.0
 * tracker_given.c -- CPython's own iterators that exist before the region.
 *
 * The region takes items from the position that the iterator has at the call: each item is a value
 * with a source of its own, "the k-th item from now", so that another position does not need
 * another recording. An effect advances the iterator once for each item taken. A zip, map or filter
 * is recorded as a new iterator over the same inner iterators, and only these are advanced; an
 * enumerate also has its number. Breaks, and so is left to Python: an iterator over a list, dict or
 * set that the region also reaches otherwise and may have changed; an iterator whose next step
 * raises.
 */
#include "core/objects/given_iterator.h"
#include "core/trace/exception.h"
#include "core/trace/iterator.h"

bool
gm_is_given_iterator (PyTypeObject *type)
{
  return gm_given_kind (type) != GM_GIVEN_NOT;
}

static const GmTracker *
wrap_member (GmRecorder *r, const GmSource *source, PyObject *real, Py_ssize_t offset,
             const char *name)
{
  PyObject *text = gm_record_take (r, PyUnicode_InternFromString (name));
  return gm_wrap (r, real, gm_source_member (r, source, offset, text));
}

/* Returns a new zip, map or filter over the iterators that the given one reads; for an enumerate,
 * the iterator that it reads. */
static const GmTracker *
over_others (GmRecorder *r, PyObject *real, const GmSource *source)
{
  PyTypeObject *type = Py_TYPE (real);
  PyObject *function;
  Py_ssize_t at, at_function;
  PyObject *others = gm_given_others (real, &function, &at, &at_function);
  const GmTracker *of = wrap_member (r, source, others, at, "iterators"),
                  *called =
                      function ? wrap_member (r, source, function, at_function, "function") : NULL;
  if (r->stop)
    return &gm_tracker_poison;
  if (type == &PyEnum_Type)
    return of;
  if (type == &PyFilter_Type)
    return gm_iterator_new (r, GM_ITER_FILTER, (const GmTracker *[]){ called, of }, 2, 0);
  uint32_t n = of->n + (function != NULL);
  const GmTracker **items = gm_tracker_array (r, n);
  items[0] = called;
  for (uint32_t i = 0; i < of->n && !r->stop; i++)
    items[n - of->n + i] = gm_realize (r, of->items[i]);
  GmIterKind kind = function                    ? GM_ITER_MAP
                    : gm_given_form (real) == 2 ? GM_ITER_ZIP_STRICT
                                                : GM_ITER_ZIP;
  return r->stop ? &gm_tracker_poison : gm_iterator_new (r, kind, items, n, 0);
}

const GmTracker *
gm_wrap_given_iterator (GmRecorder *r, PyObject *real, const GmSource *source)
{
  GmGivenKind kind = gm_given_kind (Py_TYPE (real));
  bool has_forms = kind >= GM_GIVEN_NUMBERS && Py_TYPE (real) != &PyRangeIter_Type;
  const GmTracker **under = gm_tracker_array (r, 1);
  uint32_t n = kind == GM_GIVEN_NUMBERED || kind == GM_GIVEN_OF_OTHERS;
  gm_guard (r, TYPE, source, .obj = (PyObject *) Py_TYPE (real));
  if (has_forms && gm_given_form (real) == 0)
    return gm_record_break (r, GM_BREAK_ITERATION, Py_TYPE (real)->tp_name);
  if (has_forms)
    gm_guard (r, GIVEN_FORM, source, .index = gm_given_form (real));
  if (n && (under[0] = over_others (r, real, source)) == &gm_tracker_poison)
    return under[0];
  const GmTracker *t = gm_tracker_add (r, &(GmTracker){ .kind = &gm_kind_given_iterator,
                                                        .real = real,
                                                        .source = source,
                                                        .items = under,
                                                        .n = n,
                                                        .number = kind,
                                                        .id = gm_heap_add (&r->heap, 1) });
  gm_contents_set (r, t, gm_contents (r, NULL, 0));
  gm_know (r, t);
  return t;
}

static PyTypeObject *
type (GmRecorder *r, const GmTracker *t)
{
  (void) r;
  return Py_TYPE (t->real);
}

static const GmTracker *
iter (GmRecorder *r, const GmTracker *t)
{
  (void) r;
  return t;
}

static int
truth (GmRecorder *r, const GmTracker *t)
{
  (void) r, (void) t;
  return 1;
}

/* -- Steps ------------------------------------------------------------------------------------- */

/* Advances the iterator args[0] by one item, for the replay; an iterator that has ended drops its
 * sequence. */
static PyObject *
step (PyObject *module, PyObject *const *args, Py_ssize_t n)
{
  (void) module, (void) n;
  return gm_given_step (args[0]) < 0 ? NULL : Py_NewRef (Py_None);
}

/* Returns the Python function of step () for effects, borrowed. */
static PyObject *
step_function (void)
{
  static PyMethodDef method = { "iterator_step", (PyCFunction) (void (*) (void)) step,
                                METH_FASTCALL, NULL };
  static PyObject *function;
  if (!function)
    function = PyCFunction_New (&method, NULL);
  return function;
}

/* Records that the program has taken an item from the iterator, or has met its end (`ended`). */
static void
advance (GmRecorder *r, const GmTracker *t, bool ended)
{
  int64_t taken = gm_contents_of (r, t)->number;
  gm_effect (r, GM_EFFECT_CALL, step_function (), NULL, &t, 1);
  gm_contents_set (r, t,
                   gm_tracker (r, .kind = &gm_kind_contents, .number = ended ? -1 : taken + 1));
}

/* Returns the sequence, dict or set over which the iterator walks, borrowed; NULL: there is none,
 * or the iterator has ended. */
static PyObject *
walked (PyObject *iterator)
{
  Py_ssize_t at = gm_given_sequence_offset (Py_TYPE (iterator));
  return at ? *(PyObject **) ((char *) iterator + at) : NULL;
}

/* Returns the name of the type of the list, dict or set over which the iterator walks, if the
 * region also reaches that object otherwise and may have changed it; else NULL. A dict may be that
 * of a class, which stores to the class change. */
static const char *
may_be_changed (const GmRecorder *r, PyObject *iterator)
{
  PyObject *of = walked (iterator);
  bool changes = of && (PyList_Check (of) || PyDict_Check (of) || PyAnySet_Check (of));
  bool reached =
      changes
      && (g_hash_table_lookup (r->by_real, of) || (r->classes_written && PyDict_Check (of)));
  return reached ? Py_TYPE (of)->tp_name : NULL;
}

/* Returns the item after `taken` items of an iterator over a list, tuple, dict, set, str, bytes,
 * range or count; NULL at the end, which is guarded, or after a break. */
static const GmTracker *
own_item (GmRecorder *r, const GmTracker *t, int64_t taken)
{
  PyObject *real;
  const char *changing = may_be_changed (r, t->real);
  if (changing) {
    g_autofree char *text = g_strdup_printf ("%s that the function also uses by itself", changing);
    gm_record_break (r, GM_BREAK_ITERATION, text);
    return NULL;
  }
  GmGivenAnswer answer = gm_given_find (t->real, taken, false, &real);
  if (answer == GM_GIVEN_UNTOLD) {
    gm_record_break (r, GM_BREAK_ITERATION, Py_TYPE (t->real)->tp_name);
    return NULL;
  }
  if (answer == GM_GIVEN_END) {
    gm_guard (r, GIVEN_LEFT, t->source, .index = taken);
    if (walked (t->real))
      gm_dropped_object (r, walked (t->real)); /* the iterator's reference is the last */
    return NULL;
  }
  const GmTracker *item =
      gm_wrap_present (r, real, gm_source_item (r, t->source, GM_SOURCE_GIVEN_ITEM, taken));
  if (t->number != GM_GIVEN_PAIRS || gm_given_find (t->real, taken, true, &real) != GM_GIVEN_ITEM)
    return item;
  const GmSource *source = gm_source_part (r, t->source, GM_SOURCE_GIVEN_VALUE, taken, NULL);
  const GmTracker *pair[] = { item, gm_wrap_present (r, real, source) };
  return gm_tuple_new (r, pair, 2);
}

/* Returns the next pair of an enumerate, whose number and inner iterator advance separately; NULL
 * at the end or after a break. */
static const GmTracker *
numbered_item (GmRecorder *r, const GmTracker *t, int64_t taken)
{
  PyObject *real;
  const GmTracker *item = gm_next (r, t->items[0]);
  if (item == NULL || r->stop)
    return NULL;
  if (gm_given_find (t->real, taken, false, &real) != GM_GIVEN_ITEM) {
    gm_record_break (r, GM_BREAK_ITERATION, "enumerate");
    return NULL;
  }
  const GmTracker *pair[] = {
    gm_wrap_present (r, real, gm_source_item (r, t->source, GM_SOURCE_GIVEN_ITEM, taken)), item
  };
  return gm_tuple_new (r, pair, 2);
}

static const GmTracker *
next (GmRecorder *r, const GmTracker *t)
{
  int64_t taken = gm_contents_of (r, t)->number;
  if (t->number == GM_GIVEN_OF_OTHERS)
    return gm_next (r, t->items[0]);
  if (taken < 0)
    return NULL;
  bool numbered = t->number == GM_GIVEN_NUMBERED;
  const GmTracker *item = numbered ? numbered_item (r, t, taken) : own_item (r, t, taken);
  if (r->stop)
    return NULL;
  if (item || !numbered)
    advance (r, t, item == NULL);
  return item;
}

static const GmTracker *
method_next (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  const GmTracker *item = gm_args_plain (r, "__next__", args, 0, 0) ? gm_next (r, t) : NULL;
  return item || r->stop ? item : gm_raise_value (r, PyExc_StopIteration, NULL);
}

static const GmTracker *
method_iter (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  return gm_args_plain (r, "__iter__", args, 0, 0) ? t : &gm_tracker_poison;
}

static const GmTracker *
getattr (GmRecorder *r, const GmTracker *t, PyObject *name)
{
  static const GmMethodRow rows[] = { { "__next__", method_next },
                                      { "__iter__", method_iter },
                                      { NULL, NULL } };
  const GmTracker *bound = gm_method_row (r, rows, t, name);
  return bound ? bound
               : gm_record_break (r, GM_BREAK_ATTRIBUTE, PyUnicode_AsUTF8 (name),
                                  gm_type_text (r, t));
}

const GmTrackerKind gm_kind_given_iterator = {
  .name = "iterator",
  .type = type,
  .iter = iter,
  .next = next,
  .truth = truth,
  .getattr = getattr,
};
