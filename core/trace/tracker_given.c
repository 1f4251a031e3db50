/* SPDX-License-Identifier: Apache-2.0
 * tracker_given.c -- iterators over lists and tuples that exist before the region.
 *
 * The region takes items from where the iterator stands at the call: each is a value with a source
 * of its own, "the k-th item from now", so that another position is no reason to record again.
 * That the iterator has advanced is replayed by advancing it, as often.
 * Left to Python, as a break: a list that the region knows otherwise, too, and may have changed.
 */
#include "core/models/builtin.h"
#include "core/trace/exception.h"
#include "core/guard/guard.h"

bool
gm_is_given_iterator (PyTypeObject *type)
{
  return type == &PyListIter_Type || type == &PyTupleIter_Type;
}

const GmTracker *
gm_wrap_given_iterator (GmRecorder *r, PyObject *real, const GmSource *source)
{
  gm_guard (r, TYPE, source, .obj = (PyObject *) Py_TYPE (real));
  const GmTracker *t = gm_tracker_add (r, &(GmTracker){ .kind = &gm_kind_given_iterator,
                                                        .real = real,
                                                        .source = source,
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

/* Advances args[0]; an iterator that has ended lets go of its sequence. */
static PyObject *
step (PyObject *module, PyObject *const *args, Py_ssize_t n)
{
  (void) module, (void) n;
  PyObject *item = Py_TYPE (args[0])->tp_iternext (args[0]);
  Py_XDECREF (item);
  return PyErr_Occurred () ? NULL : Py_NewRef (Py_None);
}

/* Returns the function for effects, borrowed. */
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

/* True if the region knows the list that the iterator reads. */
static bool
may_be_changed (const GmRecorder *r, PyObject *iterator)
{
  PyObject *sequence = gm_given_sequence (iterator);
  return sequence && PyList_Check (sequence) && g_hash_table_lookup (r->by_real, sequence);
}

static const GmTracker *
next (GmRecorder *r, const GmTracker *t)
{
  const GmTracker *contents = gm_contents_of (r, t), *item = NULL;
  int64_t taken = contents->number;
  bool ended = taken < 0;
  if (ended)
    return NULL;
  if (may_be_changed (r, t->real))
    return gm_record_break (r, GM_BREAK_ITERATION, "list that the function also uses by itself");
  PyObject *real = gm_given_item (t->real, taken);
  if (real)
    item = gm_wrap_present (r, real, gm_source_item (r, t->source, GM_SOURCE_GIVEN_ITEM, taken));
  else
    gm_guard (r, GIVEN_LEFT, t->source, .index = taken);
  if (!real && gm_given_sequence (t->real))
    gm_dropped_object (r, gm_given_sequence (t->real)); /* the iterator's reference is the last */
  gm_effect (r, GM_EFFECT_CALL, step_function (), NULL, &t, 1);
  gm_contents_set (r, t,
                   gm_tracker (r, .kind = &gm_kind_contents, .number = real ? taken + 1 : -1));
  return r->stop ? NULL : item;
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
