/* SPDX-License-Identifier: Apache-2.0
 * set_table.c -- see set_table.h.
 *
 * A set that is made of another one is filled in the order of that one's table.  Where both tables have the same size, and there are no gaps of
 * elements that were removed, CPython copies the table: then an element stays at its place, also one that was put elsewhere because
 * its own place was taken, and what is added later finds its own accordingly.
 */
#include "core/trace/set_table.h"

PyObject *
gm_set_elements (PyObject *set)
{
  PyObject *all = PyTuple_New (PySet_GET_SIZE (set)), *key;
  Py_ssize_t pos = 0;
  Py_hash_t hash;
  for (Py_ssize_t i = 0; all && _PySet_NextEntry (set, &pos, &key, &hash); i++)
    PyTuple_SET_ITEM (all, i, Py_NewRef (key));
  return all;
}

int64_t
gm_set_table (PyObject *set)
{
  const PySetObject *s = (const PySetObject *) set;
  bool gaps = s->fill != s->used;
  uint64_t h = (uint64_t) s->mask << 1 | gaps;
  Py_ssize_t pos = 0;
  PyObject *key;
  Py_hash_t hash;
  while (!gaps && _PySet_NextEntry (set, &pos, &key, &hash)) /* pos: behind its place */
    h = (h ^ (uint64_t) pos) * 0x9e3779b97f4a7c15u;
  return (int64_t) h;
}

PyObject *
gm_set_elements_that_give (PyObject *set)
{
  PyObject *elements = gm_set_elements (set), *again = elements ? PyFrozenSet_New (elements) : NULL,
           *order = again ? gm_set_elements (again) : NULL;
  bool same = order != NULL && gm_set_table (again) == gm_set_table (set);
  for (Py_ssize_t i = 0; same && i < PyTuple_GET_SIZE (elements); i++)
    same = PyTuple_GET_ITEM (elements, i) == PyTuple_GET_ITEM (order, i);
  Py_XDECREF (again);
  Py_XDECREF (order);
  if (!same)
    Py_CLEAR (elements);
  PyErr_Clear ();
  return elements;
}
