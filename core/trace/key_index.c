/* SPDX-License-Identifier: Apache-2.0
 * key_index.c -- see key_index.h.
 *
 * The recorder keeps the index of the contents that were asked last, a Python dict from key to place: contents are immutable, so an index is
 * right for ever, and a rollback need not know of it.  It makes a loop that fills or compares a large dict linear.
 */
#include "core/trace/key_index.h"

static PyObject *
make (const GmTracker *contents, uint32_t stride)
{
  PyObject *places = PyDict_New ();
  for (uint32_t i = 0; places && i < contents->n; i += stride) {
    const GmTracker *k = contents->items[i];
    PyObject *at = k->kind == &gm_kind_constant ? PyLong_FromUnsignedLong (i) : NULL;
    if (!at || !PyDict_SetDefault (places, k->real, at))
      Py_CLEAR (places);
    Py_XDECREF (at);
  }
  PyErr_Clear ();
  return places;
}

int64_t
gm_key_index_find (GmRecorder *r, const GmTracker *contents, uint32_t stride, PyObject *key)
{
  if (contents->n / stride < GM_KEY_INDEX_MIN)
    return GM_KEY_UNKNOWN;
  if (r->indexed != contents) {
    Py_XSETREF (r->index, make (contents, stride));
    r->indexed = contents;
  }
  PyObject *at = r->index ? PyDict_GetItemWithError (r->index, key) : NULL;
  bool failed = PyErr_Occurred () != NULL;
  PyErr_Clear ();
  return at ? PyLong_AsLong (at) : !r->index || failed ? GM_KEY_UNKNOWN : -1;
}

void
gm_key_index_append (GmRecorder *r, const GmTracker *before, const GmTracker *now, uint32_t stride)
{
  if (r->indexed != before || r->index == NULL)
    return;
  const GmTracker *k = now->items[before->n];
  PyObject *at = k->kind == &gm_kind_constant ? PyLong_FromUnsignedLong (before->n) : NULL;
  if (!at || PyDict_SetItem (r->index, k->real, at) < 0)
    Py_CLEAR (r->index);
  Py_XDECREF (at);
  PyErr_Clear ();
  r->indexed = r->index ? now : NULL;
}

void
gm_key_index_clear (GmRecorder *r)
{
  Py_CLEAR (r->index);
  r->indexed = NULL;
}
