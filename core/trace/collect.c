/* SPDX-License-Identifier: Apache-2.0
 * collect.c -- reading an iterable to its end, as list (), tuple () and functions built on them do.
 *
 * CPython asks such an iterable for its length before it reads the first item. The result does not
 * matter here, but a method of the user's may run for it, and may raise.
 */
#include "core/trace/exception.h"
#include "core/trace/iterator.h"
#include "core/trace/instance.h"

const GmTracker *
gm_iter_or (GmRecorder *r, const GmTracker *t, const char *text)
{
  const GmTracker *it = gm_iter (r, t);
  return gm_exception_caught (r, PyExc_TypeError) ? gm_raise_new (r, PyExc_TypeError, "%s", text)
                                                  : it;
}

const GmTracker *
gm_iter_searched (GmRecorder *r, const GmTracker *t)
{
  g_autofree char *text =
      g_strdup_printf ("argument of type '%.200s' is not iterable", gm_type_text (r, t));
  return gm_iter_or (r, t, text);
}

static GPtrArray *
read_all (GmRecorder *r, const GmTracker *it)
{
  GPtrArray *all = g_ptr_array_new ();
  const GmTracker *item;
  while (!r->stop && (item = gm_next (r, it)) != NULL) {
    g_ptr_array_add (all, (gpointer) item);
    gm_record_limit_trips (r, all->len);
  }
  if (r->stop)
    g_clear_pointer (&all, g_ptr_array_unref);
  return all;
}

GPtrArray *
gm_iterate (GmRecorder *r, const GmTracker *t)
{
  return read_all (r, gm_iter (r, t));
}

bool
gm_raise_not_iterable (GmRecorder *r, const GmTracker *t, const char *format)
{
  t = gm_realize (r, t);
  if (r->stop || t->kind != &gm_kind_object
      || gm_object_how (r, t, "__iter__", NULL) != GM_HOW_ABSENT
      || gm_object_how (r, t, "__getitem__", NULL) != GM_HOW_ABSENT)
    return false;
  if (format) {
    g_autofree char *text = g_strdup_printf (format, ((PyTypeObject *) t->data)->tp_name);
    gm_raise_new (r, PyExc_TypeError, "%s", text);
  } else {
    gm_record_break (r, GM_BREAK_ITERATION, gm_type_text (r, t));
  }
  return true;
}

/* Runs the Python __length_hint__ of an object without a length, and drops the result. */
static void
ask_hint (GmRecorder *r, const GmTracker *t)
{
  int64_t n;
  const GmTracker *hint = gm_call_special (r, t, "__length_hint__", NULL, 0);
  if (gm_exception_caught (r, PyExc_TypeError) || hint == NULL || r->stop)
    return;
  hint = gm_realize (r, hint);
  if (hint->real == Py_NotImplemented || r->stop)
    return;
  if (!gm_constant_int (r, hint, &n))
    gm_record_break (r, GM_BREAK_LENGTH, gm_type_text (r, t));
  else if (n < 0)
    gm_raise_new (r, PyExc_ValueError, "__length_hint__() should return >= 0");
}

void
gm_ask_length (GmRecorder *r, const GmTracker *t)
{
  bool counts = t->kind == &gm_kind_iterator && t->number == GM_ITER_GETITEM;
  if (counts && gm_contents_of (r, t)->items == NULL) /* the iterator has not ended */
    t = gm_realize (r, t->items[0]);
  if (r->stop || t->kind != &gm_kind_object)
    return;
  GmHow how = gm_object_how (r, t, "__len__", NULL);
  if (r->stop || how == GM_HOW_C)
    return;
  if (how != GM_HOW_ABSENT) {
    gm_len (r, t);
    if (!gm_exception_caught (r, PyExc_TypeError))
      return;
  }
  if (!counts)
    ask_hint (r, t);
}

GPtrArray *
gm_collect (GmRecorder *r, const GmTracker *t)
{
  t = gm_realize (r, t);
  const GmTracker *it = gm_iter (r, t);
  gm_ask_length (r, t);
  return read_all (r, it);
}

GPtrArray *
gm_collect_fast (GmRecorder *r, const GmTracker *t, const char *text)
{
  t = gm_realize (r, t);
  if (t->kind == &gm_kind_list || t->kind == &gm_kind_tuple)
    return gm_iterate (r, t);
  return gm_collect (r, gm_iter_or (r, t, text));
}
