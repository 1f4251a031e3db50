/* SPDX-License-Identifier: Apache-2.0
 * dict_version.c -- see dict_version.h.
 *
 * On 3.11 every write to a dict gives it a version that no dict had before, and an object's attributes are in its dict once somebody has asked
 * for that.  On later versions an attribute can change where it stands in the object without a new version of the dict: no number
 * is relied upon there, and every record is checked.
 *
 * Versions are drawn from one counter, which has no name outside of CPython; a write to a dict of ours shows where it is.  If nobody else has
 * drawn since the last time, no dict has changed.
 * An object's class and its dict are replaced by two setters of CPython's, behind the descriptors object.__class__ and the __dict__ of
 * classes made by Python.  From the first compiled model on they count.  C code that writes to ob_type or to the dict's place by itself is not seen; nor
 * would anything that CPython remembers about types see it.
 */
#include "core/python/dict_version.h"

#include <glib.h>

#if PY_VERSION_HEX < 0x030c0000

size_t
gm_dict_version_offset (void)
{
  return offsetof (PyDictObject, ma_version_tag);
}

/* -- Setters that count ------------------------------------------------------------------------ */

static uint64_t epoch = 1;
static setter set_class, set_dict; /* CPython's own */

static int
counting_set_class (PyObject *o, PyObject *value, void *closure)
{
  epoch++;
  return set_class (o, value, closure);
}

static int
counting_set_dict (PyObject *o, PyObject *value, void *closure)
{
  epoch++;
  return set_dict (o, value, closure);
}

/* The row behind a descriptor, which all descriptors made from it share; NULL: another kind of attribute. */
static PyGetSetDef *
row_of (PyObject *descriptor)
{
  return descriptor && Py_IS_TYPE (descriptor, &PyGetSetDescr_Type) ? ((PyGetSetDescrObject *) descriptor)->d_getset : NULL;
}

/* `class A: __slots__ = slots`; NULL slots: without the line. */
static PyObject *
class_new (PyObject *slots)
{
  PyObject *type = slots ? PyObject_CallFunction ((PyObject *) &PyType_Type, "s(){s(O)}", "A", "__slots__", slots)
                         : PyObject_CallFunction ((PyObject *) &PyType_Type, "s(){}", "A");
  PyErr_Clear ();
  return type;
}

/* Puts ours into the row of __dict__ of classes like this one. */
static bool
count_dicts (PyObject *slots)
{
  PyObject *type = class_new (slots);
  PyGetSetDef *row = type ? row_of (PyDict_GetItemString (((PyTypeObject *) type)->tp_dict, "__dict__")) : NULL;
  bool ok = row && row->set && (!set_dict || row->set == set_dict || row->set == counting_set_dict);
  if (ok && row->set != counting_set_dict) {
    set_dict = row->set;
    row->set = counting_set_dict;
  }
  Py_XDECREF (type);
  return ok;
}

const uint64_t *
gm_identity_epoch (void)
{
  static int counted; /* 1: they do; -1: another interpreter than the one we know */
  if (counted == 0) {
    PyObject *name = PyUnicode_InternFromString ("__dict__");
    PyGetSetDef *row = row_of (PyDict_GetItemString (PyBaseObject_Type.tp_dict, "__class__"));
    counted = row && row->set && name && count_dicts (NULL) && count_dicts (name) ? 1 : -1;
    if (counted == 1) {
      set_class = row->set;
      row->set = counting_set_class;
    }
    Py_XDECREF (name);
  }
  return counted == 1 ? &epoch : NULL;
}

bool
gm_identity_told (PyTypeObject *type)
{
  PyObject *mro = type->tp_mro;
  for (Py_ssize_t i = 0; mro && i < PyTuple_GET_SIZE (mro); i++) {
    PyTypeObject *base = (PyTypeObject *) PyTuple_GET_ITEM (mro, i);
    PyObject *own = base->tp_dict ? PyDict_GetItemString (base->tp_dict, "__dict__") : NULL;
    PyGetSetDef *row = row_of (own);
    if (own && !(row && (row->set == NULL || row->set == counting_set_dict)))
      return false;
  }
  return mro != NULL;
}

/* -- The counter ------------------------------------------------------------------------------- */

uint64_t
gm_dicts_quiet (void)
{
  static PyObject *ours;
  static uint64_t last, changes;
  static bool which;
  if (!ours && !(ours = PyDict_New ())) {
    PyErr_Clear ();
    return ++changes;
  }
  which = !which;
  if (PyDict_SetItem (ours, Py_None, which ? Py_True : Py_False) < 0)
    PyErr_Clear ();
  uint64_t now = ((PyDictObject *) ours)->ma_version_tag;
  changes += now != last + 1;
  last = now;
  return changes;
}

#else

size_t
gm_dict_version_offset (void)
{
  return 0;
}

const uint64_t *
gm_identity_epoch (void)
{
  return NULL;
}

bool
gm_identity_told (PyTypeObject *type)
{
  return false;
}

uint64_t
gm_dicts_quiet (void)
{
  return 0;
}

#endif
