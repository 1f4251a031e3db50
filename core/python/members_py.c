/* SPDX-License-Identifier: Apache-2.0
 * members_py.c -- how attributes of gramme.nn.Module are read and set.
 *
 * A module's parameters, buffers and children stand in three dicts among its attributes.
 * __getattr__ looks into them for what is not found otherwise, so a class may override it;
 * __setattr__ stores at once what no dict is concerned with, and calls the method _set_member for
 * the rest.  core/trace/members.c is the recorder's model of both.  They are descriptors in
 * Module's own dict: with a base in C, a module could not take another class whose bases stand in
 * another order.
 */
#include "core/python/cpython.h"

#include "core/python/members_py.h"
#include "core/python/tensor_object.h"

static PyTypeObject *module_type; /* gramme.nn.Module, borrowed: it lives as long as the package */
static PyObject *tables[3], *set_member; /* interned names */

/* The item of a name in the module's dicts, borrowed; NULL, with an exception only if a look
 * failed.  *table: the dict that has it. */
static PyObject *
find (PyObject *self, PyObject *name, PyObject **table, int *which)
{
  PyObject *dict = PyObject_GenericGetDict (self, NULL), *found = NULL;
  if (!dict)
    return NULL;
  for (int i = 0; i < 3 && !found && !PyErr_Occurred (); i++) {
    *table = PyDict_GetItemWithError (dict, tables[i]);
    *which = i;
    if (*table && PyDict_Check (*table))
      found = PyDict_GetItemWithError (*table, name);
  }
  Py_DECREF (dict); /* the module keeps it */
  return found;
}

static PyObject *getattr_method, *object_getattribute; /* this file's __getattr__, and object's way to find the rest */

/* tp_getattro of classes that have nothing but object.__getattribute__ and __getattr__ of this
 * file: the same, without an AttributeError on the way to a member.  CPython puts its own
 * function back when the class gets one of the two anew. */
static PyObject *
read_attribute (PyObject *self, PyObject *name)
{
  PyObject *dict, *found, *table;
  int which;
  if (_PyType_Lookup (Py_TYPE (self), name)) {
    found = PyObject_GenericGetAttr (self, name);
    if (found || !PyErr_ExceptionMatches (PyExc_AttributeError))
      return found;
    PyErr_Clear ();
  } else {
    dict = PyObject_GenericGetDict (self, NULL);
    found = dict ? PyDict_GetItemWithError (dict, name) : NULL;
    Py_XDECREF (dict); /* the module keeps it */
    if (found || PyErr_Occurred ())
      return Py_XNewRef (found);
  }
  found = find (self, name, &table, &which);
  if (!found && !PyErr_Occurred ())
    PyErr_Format (PyExc_AttributeError, "'%.100s' object has no attribute '%U'", Py_TYPE (self)->tp_name, name);
  return Py_XNewRef (found);
}

static void
learn_to_read (PyTypeObject *type)
{
  static PyObject *names[2];
  if (!names[0]) {
    names[0] = PyUnicode_InternFromString ("__getattr__");
    names[1] = PyUnicode_InternFromString ("__getattribute__");
  }
  if (type->tp_getattro != read_attribute && _PyType_Lookup (type, names[0]) == getattr_method && _PyType_Lookup (type, names[1]) == object_getattribute)
    type->tp_getattro = read_attribute;
}

static PyObject *
members_getattr (PyObject *self, PyObject *name)
{
  PyObject *table;
  int which;
  learn_to_read (Py_TYPE (self));
  PyObject *found = PyUnicode_Check (name) ? find (self, name, &table, &which) : NULL;
  if (!found && !PyErr_Occurred ())
    PyErr_Format (PyExc_AttributeError, "'%.100s' object has no attribute '%S'", Py_TYPE (self)->tp_name, name);
  return Py_XNewRef (found);
}

static PyObject *
members_setattr (PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
  PyObject *table;
  int which;
  if (nargs != 2 || !PyUnicode_Check (args[0])) {
    PyErr_SetString (PyExc_TypeError, "__setattr__() takes a name, which is a str, and a value");
    return NULL;
  }
  PyObject *name = args[0], *value = args[1], *found = find (self, name, &table, &which);
  if (PyErr_Occurred ())
    return NULL;
  /* A tensor with attributes may be a Buffer. */
  bool plain_tensor = Py_TYPE (value) == &gm_py_tensor_type && !((GmPyTensor *) value)->dict;
  bool foreign = !gm_py_tensor_check (value) && !(module_type && PyObject_TypeCheck (value, module_type));
  if (!found && (plain_tensor || foreign))
    return PyObject_GenericSetAttr (self, name, value) < 0 ? NULL : Py_NewRef (Py_None);
  if (found && which == 1 && plain_tensor)
    return PyDict_SetItem (table, name, value) < 0 ? NULL : Py_NewRef (Py_None);
  return PyObject_CallMethodObjArgs (self, set_member, name, value, NULL);
}

static PyMethodDef methods[] = {
    {"__getattr__", members_getattr, METH_O, "The parameter, buffer or child of this name.  Errors: AttributeError."},
    {"__setattr__", (PyCFunction) (void (*) (void)) members_setattr, METH_FASTCALL,
     "Sets an attribute; a Parameter, a Buffer and a Module become members, and what replaces a member is checked."},
    {0},
};

/* add_members (Module): the class gets the two methods. */
static PyObject *
add_members (PyObject *module, PyObject *cls)
{
  if (!PyType_Check (cls)) {
    PyErr_SetString (PyExc_TypeError, "add_members() takes a class");
    return NULL;
  }
  module_type = (PyTypeObject *) cls;
  for (PyMethodDef *def = methods; def->ml_name; def++) {
    PyObject *method = PyDescr_NewMethod (&PyBaseObject_Type, def);
    int bad = method ? PyObject_SetAttrString (cls, def->ml_name, method) : -1;
    Py_XDECREF (method);
    if (bad)
      return NULL;
    if (def == methods)
      getattr_method = method; /* the class keeps it */
  }
  object_getattribute = PyDict_GetItemString (GM_TYPE_GET_DICT (&PyBaseObject_Type), "__getattribute__");
  Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"add_members", add_members, METH_O, "add_members(cls)\n\nGives the class, nn.Module, __getattr__ and __setattr__."},
    {0},
};

int
gm_py_init_members (PyObject *module)
{
  static const char *const names[] = {"_parameters", "_buffers", "_modules"};
  for (int i = 0; i < 3; i++)
    if (!(tables[i] = PyUnicode_InternFromString (names[i])))
      return -1;
  set_member = PyUnicode_InternFromString ("_set_member");
  return set_member ? PyModule_AddFunctions (module, functions) : -1;
}
