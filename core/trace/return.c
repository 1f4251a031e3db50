/* SPDX-License-Identifier: Apache-2.0
 * return.c -- the short form of a call's end: builds the value returned from a tree.
 */
#include "core/trace/trace.h"

static PyObject *
build_items (const GmReturn *ret, PyObject *const *slots, PyObject *const *outputs)
{
  bool tuple = ret->kind != GM_RETURN_LIST;
  PyObject *o = tuple ? PyTuple_New (ret->n) : PyList_New (ret->n);
  for (uint32_t i = 0; i < ret->n && o; i++) {
    PyObject *item = gm_return_build (&ret->items[i], slots, outputs);
    if (item == NULL)
      Py_CLEAR (o);
    else if (tuple)
      PyTuple_SET_ITEM (o, i, item);
    else
      PyList_SET_ITEM (o, i, item);
  }
  if (o && ret->kind == GM_RETURN_SIZE)
    Py_SETREF (o, PyObject_CallOneArg ((PyObject *) gm_host.size_type, o));
  return o;
}

static PyObject *
build_dict (const GmReturn *ret, PyObject *const *slots, PyObject *const *outputs)
{
  PyObject *o = PyDict_New ();
  for (uint32_t i = 0; i < ret->n && o; i += 2) {
    PyObject *key = gm_return_build (&ret->items[i], slots, outputs);
    PyObject *value = key ? gm_return_build (&ret->items[i + 1], slots, outputs) : NULL;
    if (value == NULL || PyDict_SetItem (o, key, value) < 0)
      Py_CLEAR (o);
    Py_XDECREF (key);
    Py_XDECREF (value);
  }
  return o;
}

PyObject *
gm_return_build (const GmReturn *ret, PyObject *const *slots, PyObject *const *outputs)
{
  switch ((GmReturnKind) ret->kind) {
  case GM_RETURN_CONST:
    return Py_NewRef (ret->obj);
  case GM_RETURN_OUTPUT:
    return Py_NewRef (outputs[ret->index]);
  case GM_RETURN_SLOT:
    return Py_NewRef (slots[ret->index]);
  case GM_RETURN_DICT:
    return build_dict (ret, slots, outputs);
  default:
    return build_items (ret, slots, outputs);
  }
}

static void
clear (GmReturn *ret)
{
  for (uint32_t i = 0; i < ret->n; i++)
    clear (&ret->items[i]);
  g_free (ret->items);
  Py_XDECREF (ret->obj);
}

int
gm_return_traverse (const GmReturn *ret, visitproc visit, void *arg)
{
  Py_VISIT (ret->obj);
  for (uint32_t i = 0; i < ret->n; i++) {
    int stopped = gm_return_traverse (&ret->items[i], visit, arg);
    if (stopped)
      return stopped;
  }
  return 0;
}

void
gm_return_free (GmReturn *ret)
{
  if (ret == NULL)
    return;
  clear (ret);
  g_free (ret);
}
