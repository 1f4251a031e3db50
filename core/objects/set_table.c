/* SPDX-License-Identifier: Apache-2.0
 * set_table.c -- see set_table.h.
 *
 * A set that is made of another set is filled in the order of that one's table. If both tables have
 * the same size, and there are no gaps of removed elements, CPython copies the table: then each
 * element keeps its place, even one that stands elsewhere because its own place was taken, and
 * places of elements added later depend on that.
 */
#include "core/objects/set_table.h"

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
  while (!gaps && _PySet_NextEntry (set, &pos, &key, &hash)) /* pos: after the key's place */
    h = (h ^ (uint64_t) pos) * 0x9e3779b97f4a7c15u;
  return (int64_t) h;
}

/* True if two sets with the same elements have them at the same places of their tables. */
static bool
same_table (PyObject *a, PyObject *b)
{
  PyObject *p = a ? gm_set_elements (a) : NULL, *q = b ? gm_set_elements (b) : NULL;
  bool same = p && q && gm_set_table (a) == gm_set_table (b);
  for (Py_ssize_t i = 0; same && i < PyTuple_GET_SIZE (p); i++)
    same = PyTuple_GET_ITEM (p, i) == PyTuple_GET_ITEM (q, i);
  Py_XDECREF (p);
  Py_XDECREF (q);
  return same;
}

PyObject *
gm_set_made_of (PyObject *set, bool *as_set)
{
  PyObject *elements = gm_set_elements (set), *again = elements ? PyFrozenSet_New (elements) : NULL;
  bool same = same_table (again, set);
  *as_set = false;
  if (!same) {
    PyObject *copy = PySet_New (set);
    Py_XSETREF (again, copy ? PyFrozenSet_New (copy) : NULL);
    Py_XDECREF (copy);
    *as_set = same = same_table (again, set);
    Py_XSETREF (elements, Py_NewRef (set));
  }
  Py_XDECREF (again);
  if (!same)
    Py_CLEAR (elements);
  PyErr_Clear ();
  return elements;
}

bool
gm_set_has_gaps (PyObject *set)
{
  return ((const PySetObject *) set)->fill != ((const PySetObject *) set)->used;
}

/* Mixes into the number the places of elements and of gaps: a gap has the hash -1, which no key
 * has, and holds no reference. */
int64_t
gm_set_state (PyObject *set)
{
  const PySetObject *s = (const PySetObject *) set;
  uint64_t h = (uint64_t) s->mask ^ (uint64_t) s->finger << 32;
  for (Py_ssize_t i = 0; i <= s->mask; i++)
    if (s->table[i].key)
      h = (h ^ (uint64_t) (i << 1 | (s->table[i].hash == -1))) * 0x9e3779b97f4a7c15u;
  return (int64_t) h;
}

/* Copies the table entry by entry, since no function of CPython's copies a table with its gaps. */
PyObject *
gm_set_table_copy (PyObject *set)
{
  const PySetObject *from = (const PySetObject *) set;
  PySetObject *to = (PySetObject *) PySet_New (NULL);
  size_t n_entries = (size_t) from->mask + 1;
  if (to && from->table != from->smalltable)
    to->table = PyMem_New (setentry, n_entries);
  if (to && to->table == NULL) {
    to->table = to->smalltable;
    Py_CLEAR (to);
  }
  if (to == NULL)
    return NULL;
  for (size_t i = 0; i < n_entries; i++) {
    to->table[i] = from->table[i];
    if (from->table[i].key && from->table[i].hash != -1)
      Py_INCREF (from->table[i].key);
  }
  to->mask = from->mask;
  to->fill = from->fill;
  to->used = from->used;
  to->finger = from->finger;
  return (PyObject *) to;
}

static PyObject *
copier (PyObject *self, PyObject *set)
{
  PyObject *copy = gm_set_table_copy (set);
  return copy || PyErr_Occurred () ? copy : PyErr_NoMemory ();
}

PyObject *
gm_set_table_copier (void)
{
  static PyMethodDef method = { .ml_name = "set", .ml_meth = copier, .ml_flags = METH_O };
  static PyObject *function;
  if (function == NULL)
    function = PyCFunction_New (&method, NULL);
  return function;
}
