/* SPDX-License-Identifier: Apache-2.0
 * sort.c -- sorted, list.sort, min and max.
 *
 * All sorting is done by CPython's own sort, so the order and the comparisons are exactly its own,
 * NaN and all.  Keys that are constants are sorted as they are; others are sorted as objects of a
 * type of this file, whose `<` is recorded.
 */
#include "core/models/models_private.h"
#include "core/trace/exception.h"

#include <math.h>

static const GmTracker *
key_of (GmRecorder *r, const GmTracker *key, const GmTracker *item)
{
  return key ? gm_call_n (r, key, &item, 1) : item;
}

/* A key that is not constant, as an object for CPython's sort: its `<` is recorded. */
typedef struct {
  PyObject_HEAD GmRecorder *r;
  const GmTracker *tracker;
} Key;

static PyObject *
compare_keys (PyObject *a, PyObject *b, int op)
{
  GmRecorder *r = ((Key *) a)->r;
  int less = op == Py_LT
                 ? gm_truth (r, gm_compare (r, Py_LT, ((Key *) a)->tracker, ((Key *) b)->tracker))
                 : 0;
  if (op == Py_LT && !r->stop)
    return PyBool_FromLong (less);
  PyErr_SetString (PyExc_RuntimeError,
                   "the recording has ended"); /* ends the sort, and is cleared by it */
  return NULL;
}

/* Type of these keys; only this file makes and frees them. */
static PyTypeObject key_type = {
  PyVarObject_HEAD_INIT (NULL, 0).tp_name = "gramme.sort_key",
  .tp_basicsize = sizeof (Key),
  .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
  .tp_richcompare = compare_keys,
  .tp_hash = PyObject_HashNotImplemented,
};

/* Returns a new list of the keys: as they are if all are constants, else each as a Key; NULL
 * after a Python error. */
static PyObject *
real_keys (GmRecorder *r, const GmTracker *const *keys, uint32_t n)
{
  PyObject *values = gm_record_take (r, PyList_New (n));
  bool known = true;
  for (uint32_t i = 0; i < n && known; i++) {
    PyObject *o = gm_constant (r, keys[i]);
    known = o != NULL;
    PyList_SET_ITEM (values, i, known ? Py_NewRef (o) : NULL);
  }
  if (known || r->stop)
    return r->stop ? NULL : values;
  if (PyType_Ready (&key_type) < 0)
    return NULL;
  for (uint32_t i = 0; i < n; i++) {
    Key *k = PyObject_New (Key, &key_type);
    if (k == NULL || PyList_SetItem (values, i, (PyObject *) k) < 0)
      return NULL;
    k->r = r;
    k->tracker = keys[i];
  }
  return values;
}

/* Returns a new list with the indices of the keys in sorted order, or NULL after a raise or a
 * break. */
static PyObject *
order_of (GmRecorder *r, const GmTracker *const *keys, uint32_t n, bool reverse)
{
  PyObject *places = gm_record_take (r, PyList_New (n)), *values = real_keys (r, keys, n);
  if (values == NULL)
    return r->stop ? NULL : (gm_record_break_exception (r), NULL);
  for (uint32_t i = 0; i < n; i++)
    PyList_SET_ITEM (places, i, PyLong_FromLong ((long) i));
  PyObject *sort = gm_record_take (r, PyObject_GetAttrString (places, "sort"));
  PyObject *named = gm_record_take (
      r, Py_BuildValue ("{sNsO}", "key", PyObject_GetAttrString (values, "__getitem__"), "reverse",
                        reverse ? Py_True : Py_False));
  PyObject *done = PyObject_Call (sort, gm_record_take (r, PyTuple_New (0)), named);
  if (done == NULL && r->stop) { /* the user's comparison raised, or could not be recorded */
    PyErr_Clear ();
    return NULL;
  }
  if (done == NULL) {
    gm_record_break_exception (r);
    return NULL;
  }
  Py_DECREF (done);
  return places;
}

/* Reads the arguments key= and reverse= of a sort; false after a break. */
static bool
take_options (GmRecorder *r, const char *name, const GmCallArgs *args, const GmTracker **key,
              bool *reverse)
{
  for (uint32_t k = 0; k < gm_args_n_named (args) && !r->stop; k++) {
    const char *option = PyUnicode_AsUTF8 (PyTuple_GET_ITEM (args->names, k));
    const GmTracker *value = gm_realize (r, args->args[args->n + k]);
    if (strcmp (option, "key") == 0)
      *key = value->real == Py_None ? NULL : value;
    else if (strcmp (option, "reverse") == 0 && value->kind == &gm_kind_constant
             && PyLong_Check (value->real))
      *reverse = gm_truth (r, value) != 0;
    else
      gm_record_break (r, GM_BREAK_CALL_ARGUMENTS, name);
  }
  return !r->stop;
}

const GmTracker *
gm_sorted (GmRecorder *r, const GmTracker *const *items, uint32_t n, const char *name,
           const GmCallArgs *args)
{
  const GmTracker *key = NULL;
  bool reverse = false;
  if (!take_options (r, name, args, &key, &reverse))
    return &gm_tracker_poison;
  g_autofree const GmTracker **keys = gm_tracker_array_own (n);
  g_autofree const GmTracker **sorted = gm_tracker_array_own (n);
  for (uint32_t i = 0; i < n && !r->stop; i++)
    keys[i] = gm_realize (r, key_of (r, key, items[i]));
  PyObject *places = r->stop ? NULL : order_of (r, keys, n, reverse);
  if (places == NULL)
    return &gm_tracker_poison;
  for (uint32_t i = 0; i < n; i++)
    sorted[i] = items[PyLong_AsLong (PyList_GET_ITEM (places, i))];
  return gm_list_new (r, sorted, n);
}

/* Returns the sorted items as a new list.  A list is empty while it is sorted, as keys and
 * comparisons see it; items that they store in the list, and the order of the items after one of
 * them raises, are left to Python. */
const GmTracker *
gm_list_sorted (GmRecorder *r, const GmTracker *list, const GmCallArgs *args)
{
  const GmTracker *old = gm_contents_of (r, list), *empty = gm_contents (r, NULL, 0);
  gm_contents_set (r, list, empty);
  const GmTracker *sorted = gm_sorted (r, old->items, old->n, "sort", args);
  bool same = gm_contents_of (r, list) == empty;
  if (r->pending || (!r->stop && !same)) {
    r->pending = NULL;
    r->stop = NULL;
    return gm_record_break (r, GM_BREAK_SIDE_EFFECT,
                            "a list that changes while it is sorted, or whose sort raises");
  }
  gm_contents_set (r, list, old);
  return sorted;
}

/* True if the items are distinct numbers, or distinct texts: their sorted order does not depend
 * on the order in which they are given, as that of a set. */
bool
gm_sorts_alike (const GmTracker *const *items, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++) {
    PyObject *o = items[i]->kind == &gm_kind_constant ? items[i]->real : NULL;
    bool ordered = o
                   && (PyLong_CheckExact (o) || PyUnicode_CheckExact (o) || PyBytes_CheckExact (o)
                       || PyFloat_CheckExact (o));
    if (!ordered || Py_TYPE (o) != Py_TYPE (items[0]->real)
        || (PyFloat_Check (o) && isnan (PyFloat_AS_DOUBLE (o))))
      return false;
  }
  return true;
}

/* Returns min () or, if `max` is true, max () of the arguments: the first of several equal
 * items. */
const GmTracker *
gm_min_or_max (GmRecorder *r, const GmCallArgs *args, bool max)
{
  const char *name = max ? "max" : "min";
  const GmTracker *key = NULL, *otherwise = NULL, *best = NULL, *best_key = NULL, *item;
  for (uint32_t k = 0; k < gm_args_n_named (args) && !r->stop; k++) {
    const char *option = PyUnicode_AsUTF8 (PyTuple_GET_ITEM (args->names, k));
    const GmTracker *value = args->args[args->n + k];
    if (strcmp (option, "key") == 0)
      key = gm_realize (r, value)->real == Py_None ? NULL : value;
    else if (strcmp (option, "default") == 0 && args->n == 1)
      otherwise = value;
    else
      gm_record_break (r, GM_BREAK_CALL_ARGUMENTS, name);
  }
  if (args->n == 0)
    return gm_record_break (r, GM_BREAK_CALL_ARGUMENTS, name);
  const GmTracker *it = args->n == 1 ? gm_iter (r, args->args[0])
                                     : gm_iter (r, gm_tuple_new (r, args->args, args->n));
  while (!r->stop && (item = gm_next (r, it)) != NULL) {
    const GmTracker *k = key_of (r, key, item);
    if (best == NULL || gm_truth (r, gm_compare (r, max ? Py_GT : Py_LT, k, best_key))) {
      best = item;
      best_key = k;
    }
  }
  if (r->stop)
    return &gm_tracker_poison;
  if (best || otherwise)
    return best ? best : otherwise;
  return gm_raise_new (r, PyExc_ValueError,
                       PY_VERSION_HEX >= 0x030c0000 ? "%s() iterable argument is empty"
                                                    : "%s() arg is an empty sequence",
                       name);
}
