/* SPDX-License-Identifier: Apache-2.0
 * tracker_set.c -- sets of constants.
 *
 * Contents are the elements in the order of insertion.  What Python iterates over is an order of
 * its own, which depends on that history; so a set is iterated only if it was made here and nothing
 * was removed (a real set filled in the same order then has the same order), or is a constant of
 * the code.  number 1: a frozenset that exists.
 */
#include "core/trace/recorder.h"

static const GmTracker *
set_add (GmRecorder *r, PyObject *real, const GmSource *source, const GmTracker *const *items,
         uint32_t n)
{
  uint32_t id = gm_heap_add (&r->heap, 1);
  const GmTracker *t = gm_tracker_add (r,
                                       &(GmTracker){ .kind = &gm_kind_set,
                                                     .real = real,
                                                     .source = source,
                                                     .id = id,
                                                     .number = real && PyFrozenSet_Check (real) });
  gm_contents_set (r, t, gm_contents (r, items, n));
  return t;
}

static int64_t
find (GmRecorder *r, const GmTracker *t, PyObject *o)
{
  const GmTracker *contents = gm_contents_of (r, t);
  for (uint32_t i = 0; i < contents->n; i++) {
    PyObject *x = gm_constant (r, contents->items[i]);
    int same = x ? PyObject_RichCompareBool (x, o, Py_EQ) : 0;
    if (same < 0)
      gm_record_break_exception (r);
    if (same > 0)
      return i;
  }
  return -1;
}

/* An element's value, hashable; NULL after a break. */
static PyObject *
element (GmRecorder *r, const GmTracker *item)
{
  PyObject *o = gm_constant (r, item);
  if (o == NULL) {
    gm_record_break (r, GM_BREAK_VALUE_KIND, "set with elements that are no constants");
    return NULL;
  }
  if (PyObject_Hash (o) != -1)
    return o;
  gm_record_break_exception (r);
  return NULL;
}

static void
add (GmRecorder *r, const GmTracker *t, const GmTracker *item)
{
  PyObject *o = element (r, item);
  if (o == NULL || find (r, t, o) >= 0)
    return;
  const GmTracker *old = gm_contents_of (r, t);
  const GmTracker **items = gm_tracker_array (r, old->n + 1);
  gm_tracker_copy (items, old->items, old->n);
  items[old->n] = gm_realize (r, item);
  gm_contents_set (r, t,
                   gm_tracker (r, .kind = &gm_kind_contents, .items = items, .n = old->n + 1,
                               .number = old->number));
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
gm_wrap_set (GmRecorder *r, PyObject *real, const GmSource *source)
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
  gm_guard (r, TYPE, source, .obj = (PyObject *) Py_TYPE (real));
  gm_guard (r, SET_EQUALS, source, .obj = gm_record_take (r, PyFrozenSet_New (real)));
  const GmTracker *t = set_add (r, real, source, (const GmTracker *const *) items->pdata,
                                items->len);
  gm_know (r, t);
  return t;
}

static PyTypeObject *
type (GmRecorder *r, const GmTracker *t)
{
  return t->number ? &PyFrozenSet_Type : &PySet_Type;
}

static int64_t
len (GmRecorder *r, const GmTracker *t)
{
  return gm_contents_of (r, t)->n;
}

static PyObject *
constant (GmRecorder *r, const GmTracker *t)
{
  const GmTracker *contents = gm_contents_of (r, t);
  if (t->number)
    return Py_NewRef (t->real);
  PyObject *set = PySet_New (NULL);
  for (uint32_t i = 0; i < contents->n; i++)
    PySet_Add (set, gm_constant (r, contents->items[i]));
  return set;
}

static const GmTracker *
iter (GmRecorder *r, const GmTracker *t)
{
  if (t->source || gm_contents_of (r, t)->number)
    return gm_record_break (r, GM_BREAK_ITERATION, "set whose order is not known");
  PyObject *set = gm_record_take (r, constant (r, t));
  PyObject *list = PySequence_List (set);
  return gm_iter (r, gm_from_constant_take (r, list));
}

static const GmTracker *
contains (GmRecorder *r, const GmTracker *t, const GmTracker *item)
{
  PyObject *o = element (r, item);
  return gm_from_bool (r, o && find (r, t, o) >= 0);
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

static const GmTracker *
method_discard (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  if (!gm_args_plain (r, "discard", args, 1, 1))
    return &gm_tracker_poison;
  PyObject *o = element (r, args->args[0]);
  int64_t at = o ? find (r, t, o) : -1;
  if (at >= 0) {
    const GmTracker *old = gm_contents_of (r, t);
    const GmTracker **items = gm_tracker_array (r, old->n);
    for (uint32_t i = 0, k = 0; i < old->n; i++)
      if (i != at)
        items[k++] = old->items[i];
    gm_contents_set (
        r, t,
        gm_tracker (r, .kind = &gm_kind_contents, .items = items, .n = old->n - 1, .number = 1));
    if (t->real)
      gm_effect (r, GM_EFFECT_CALL, PyDict_GetItemString (gm_type_dict (&PySet_Type), "discard"), NULL,
                 (const GmTracker *const[]){ t, args->args[0] }, 2);
  }
  return gm_none (r);
}

static const GmTracker *
method_update (GmRecorder *r, const GmTracker *t, const GmCallArgs *args)
{
  for (uint32_t i = 0; i < args->n && !r->stop; i++) {
    g_autoptr (GPtrArray) items = gm_iterate (r, args->args[i]);
    for (uint32_t k = 0; items && k < items->len; k++)
      method_add (r, t, &(GmCallArgs){ (const GmTracker *const *) &items->pdata[k], 1, NULL });
  }
  return gm_none (r);
}

static const GmMethodRow methods[] = {
  { "add", method_add },
  { "discard", method_discard },
  { "update", method_update },
  { NULL, NULL },
};

static const GmTracker *
getattr (GmRecorder *r, const GmTracker *t, PyObject *name)
{
  const GmTracker *bound = t->number ? NULL : gm_method_row (r, methods, t, name);
  return bound ? bound : gm_record_break (r, GM_BREAK_CALL_METHOD, PyUnicode_AsUTF8 (name), "set");
}

static const GmTracker *
compare (GmRecorder *r, int op, const GmTracker *t, const GmTracker *other)
{
  if (other->kind != &gm_kind_set)
    return NULL;
  PyObject *a = gm_constant (r, t), *b = gm_constant (r, other);
  return a && b ? gm_from_constant_take (r, PyObject_RichCompare (a, b, op)) : NULL;
}

static bool
build (GmResidualBuilder *b, const GmTracker *t)
{
  if (gm_residual_cached (b, t))
    return true;
  if (t->number) {
    gm_residual_emit (b, GM_INSN_LOAD_CONST, 0, t->real);
    return true;
  }
  const GmTracker *contents = gm_contents_of (gm_residual_recorder (b), t);
  if (contents->number) /* elements were removed: its order is not known */
    return false;
  for (uint32_t i = 0; i < contents->n; i++)
    gm_residual_value (b, contents->items[i]);
  gm_residual_emit (b, GM_INSN_BUILD_SET, contents->n, NULL);
  gm_residual_allocated (b, t);
  gm_residual_emit (b, GM_INSN_LOAD_FAST, gm_residual_temp (b, t), NULL);
  return true;
}

const GmTrackerKind gm_kind_set = {
  .name = "set",
  .type = type,
  .iter = iter,
  .getattr = getattr,
  .compare = compare,
  .len = len,
  .contains = contains,
  .constant = constant,
  .build = build,
};
