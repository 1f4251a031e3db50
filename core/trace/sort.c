/* SPDX-License-Identifier: Apache-2.0
 * sort.c -- sorted, list.sort, min and max.
 *
 * Keys that are constants are compared by CPython's own sort, so the order is exactly its order,
 * NaN and all.  Other keys are inserted one by one by their own `<`, which is stable as well.
 */
#include "core/trace/builtin.h"
#include "core/trace/exception.h"

static const GmTracker *
key_of (GmRecorder *r, const GmTracker *key, const GmTracker *item)
{
  return key ? gm_call_n (r, key, &item, 1) : item;
}

/* Places of the keys in order, or NULL if they are no constants (or after a raise). */
static PyObject *
order_of_constants (GmRecorder *r, const GmTracker *const *keys, uint32_t n, bool reverse)
{
  PyObject *values = gm_record_take (r, PyList_New (n)), *places = PyList_New (n);
  gm_record_take (r, places);
  for (uint32_t i = 0; i < n; i++) {
    PyObject *o = gm_constant (r, keys[i]);
    if (o == NULL)
      return NULL;
    PyList_SET_ITEM (values, i, Py_NewRef (o));
    PyList_SET_ITEM (places, i, PyLong_FromLong ((long) i));
  }
  PyObject *sort = gm_record_take (r, PyObject_GetAttrString (places, "sort"));
  PyObject *named = gm_record_take (
      r, Py_BuildValue ("{sNsO}", "key", PyObject_GetAttrString (values, "__getitem__"), "reverse",
                        reverse ? Py_True : Py_False));
  PyObject *none = gm_record_take (r, PyTuple_New (0));
  PyObject *done = PyObject_Call (sort, none, named);
  if (done == NULL) {
    gm_record_break_exception (r);
    return NULL;
  }
  Py_DECREF (done);
  return places;
}

static void
insert_by_key (GmRecorder *r, const GmTracker **keys, const GmTracker **items, uint32_t n)
{
  for (uint32_t i = 1; i < n && !r->stop; i++) {
    const GmTracker *key = keys[i], *item = items[i];
    uint32_t low = 0, high = i;
    while (low < high && !r->stop) {
      uint32_t middle = low + (high - low) / 2;
      if (gm_truth (r, gm_compare (r, Py_LT, key, keys[middle])))
        high = middle;
      else
        low = middle + 1;
    }
    for (uint32_t k = i; k > low; k--) {
      keys[k] = keys[k - 1];
      items[k] = items[k - 1];
    }
    keys[low] = key;
    items[low] = item;
  }
}

static void
turn_round (const GmTracker **items, uint32_t n)
{
  for (uint32_t i = 0; i < n / 2; i++) {
    const GmTracker *x = items[i];
    items[i] = items[n - 1 - i];
    items[n - 1 - i] = x;
  }
}

const GmTracker *
gm_sorted (GmRecorder *r, const GmTracker *const *items, uint32_t n, const char *name,
           const GmCallArgs *args)
{
  const GmTracker *key = NULL;
  bool reverse = false;
  for (uint32_t k = 0; k < gm_args_n_named (args) && !r->stop; k++) {
    const char *option = PyUnicode_AsUTF8 (PyTuple_GET_ITEM (args->names, k));
    const GmTracker *value = args->args[args->n + k];
    if (strcmp (option, "key") == 0)
      key = gm_realize (r, value)->real == Py_None ? NULL : value;
    else if (strcmp (option, "reverse") == 0)
      reverse = gm_truth (r, value) != 0;
    else
      gm_record_break (r, GM_BREAK_CALL_ARGUMENTS, name);
  }
  g_autofree const GmTracker **keys = gm_tracker_array_own (n);
  g_autofree const GmTracker **sorted = gm_tracker_array_own (n);
  for (uint32_t i = 0; i < n && !r->stop; i++)
    keys[i] = gm_realize (r, key_of (r, key, items[i]));
  if (r->stop)
    return &gm_tracker_poison;
  PyObject *places = order_of_constants (r, keys, n, reverse);
  if (r->stop)
    return &gm_tracker_poison;
  if (places) {
    for (uint32_t i = 0; i < n; i++)
      sorted[i] = items[PyLong_AsLong (PyList_GET_ITEM (places, i))];
    return gm_list_new (r, sorted, n);
  }
  gm_tracker_copy (sorted, items, n);
  if (reverse) { /* equal ones keep their order: turned round, sorted, turned round */
    turn_round (keys, n);
    turn_round (sorted, n);
  }
  insert_by_key (r, keys, sorted, n);
  if (reverse)
    turn_round (sorted, n);
  return r->stop ? &gm_tracker_poison : gm_list_new (r, sorted, n);
}

/* The first of the least, or of the greatest. */
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
