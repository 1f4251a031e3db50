/* SPDX-License-Identifier: Apache-2.0
 * members_py.c -- how attributes of gramme.nn.Module are read and set.
 *
 * A module's parameters, buffers and children are in three dicts among its attributes.  __getattr__
 * searches them for names that are not found otherwise, so a class may override it; __setattr__
 * stores at once attributes that concern no dict, and a new Parameter or child under a name that
 * nothing else has; for the rest it calls the method _set_member.  core/models/members.c is the
 * recorder's model of both.  They are descriptors in Module's own dict: with a base in C, a module
 * could not take another class whose bases have another order.  A tp_setattro of C is impossible:
 * with it, object.__setattr__ would refuse modules.
 */
#include "core/objects/cpython.h"

#include "core/objects/members_py.h"
#include "core/objects/tensor_object.h"

enum { PARAMETERS, BUFFERS, MODULES, N_TABLES };

/* The classes gramme.nn.Module and Parameter, borrowed: they live as long as the package. */
static PyTypeObject *module_type, *parameter_type;
/* Interned names of attributes. */
static PyObject *tables[N_TABLES], *non_persistent, *set_member, *register_parameter;
/* Module's own methods _set_member and register_parameter, borrowed. */
static PyObject *own_set_member, *own_register_parameter;

/* Returns the dict of a module's attributes, borrowed from it; NULL with an exception. */
static PyObject *
attributes (PyObject *self)
{
  PyObject *dict = PyObject_GenericGetDict (self, NULL);
  Py_XDECREF (dict); /* the module keeps it */
  return dict;
}

/* Returns the parameter, buffer or child of this name, searched in the three dicts among the
 * attributes, borrowed; NULL if there is none, with an exception only if a look-up failed.  *table
 * and *which: the dict that has it and its number. */
static PyObject *
find (PyObject *attrs, PyObject *name, PyObject **table, int *which)
{
  PyObject *found = NULL;
  for (int i = 0; attrs && i < N_TABLES && !found && !PyErr_Occurred (); i++) {
    *table = PyDict_GetItemWithError (attrs, tables[i]);
    *which = i;
    if (*table && PyDict_Check (*table) && PyDict_GET_SIZE (*table) > 0)
      found = PyDict_GetItemWithError (*table, name);
  }
  return found;
}

/* __getattr__ of this file, and object.__getattribute__. */
static PyObject *getattr_method, *object_getattribute;

/* Reads an attribute; tp_getattro of classes that have only object.__getattribute__ and this
 * file's __getattr__.  The result is the same as with these, without an AttributeError on the way
 * to a member.  CPython restores its own function when the class gets one of the two anew. */
static PyObject *
read_attribute (PyObject *self, PyObject *name)
{
  PyObject *attrs, *found, *table;
  int which;
  if (_PyType_Lookup (Py_TYPE (self), name)) {
    found = PyObject_GenericGetAttr (self, name);
    if (found || !PyErr_ExceptionMatches (PyExc_AttributeError))
      return found;
    PyErr_Clear ();
    attrs = attributes (self);
  } else {
    attrs = attributes (self);
    found = attrs ? PyDict_GetItemWithError (attrs, name) : NULL;
    if (found || PyErr_Occurred ())
      return Py_XNewRef (found);
  }
  found = find (attrs, name, &table, &which);
  if (!found && !PyErr_Occurred ())
    PyErr_Format (PyExc_AttributeError, "'%.100s' object has no attribute '%U'",
                  Py_TYPE (self)->tp_name, name);
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
  if (type->tp_getattro != read_attribute && _PyType_Lookup (type, names[0]) == getattr_method
      && _PyType_Lookup (type, names[1]) == object_getattribute)
    type->tp_getattro = read_attribute;
}

static PyObject *
members_getattr (PyObject *self, PyObject *name)
{
  PyObject *table;
  int which;
  learn_to_read (Py_TYPE (self));
  PyObject *found = PyUnicode_Check (name) ? find (attributes (self), name, &table, &which) : NULL;
  if (!found && !PyErr_Occurred ())
    PyErr_Format (PyExc_AttributeError, "'%.100s' object has no attribute '%S'",
                  Py_TYPE (self)->tp_name, name);
  return Py_XNewRef (found);
}

/* True if Module.register_parameter would accept a Parameter of this name, judged by the module's
 * dicts alone. */
static bool
may_register (PyTypeObject *type, PyObject *name, PyObject *parameter)
{
  learn_to_read (type);
  return type->tp_getattro == read_attribute && !_PyType_Lookup (type, name)
         && _PyType_Lookup (type, register_parameter) == own_register_parameter
         && PyUnicode_GET_LENGTH (name) > 0
         && PyUnicode_FindChar (name, '.', 0, PY_SSIZE_T_MAX, 1) == -1
         && !gm_tensor_grad_fn_name (gm_py_tensor_get (parameter));
}

/* Returns the attribute `key`, borrowed, if it is an exact dict that does not contain `name`;
 * NULL otherwise, perhaps with an exception. */
static PyObject *
table_without (PyObject *attrs, PyObject *key, PyObject *name)
{
  PyObject *table = PyDict_GetItemWithError (attrs, key);
  return table && PyDict_CheckExact (table) && PyDict_Contains (table, name) == 0 ? table : NULL;
}

/* Stores a Parameter or a Module as a member, if no attribute or member has its name yet.
 * Returns 1; 0 if _set_member has to decide; -1 with an exception. */
static int
store_member (PyObject *self, PyObject *name, PyObject *value)
{
  PyTypeObject *type = Py_TYPE (self);
  bool is_parameter = PyObject_TypeCheck (value, parameter_type);
  if (!PyUnicode_CheckExact (name) || (!is_parameter && !PyObject_TypeCheck (value, module_type))
      || _PyType_Lookup (type, set_member) != own_set_member
      || (is_parameter && !may_register (type, name, value)))
    return 0;
  PyObject *attrs = attributes (self);
  int into = is_parameter ? PARAMETERS : MODULES, beside = is_parameter ? MODULES : PARAMETERS;
  PyObject *table = attrs ? PyDict_GetItemWithError (attrs, tables[into]) : NULL, *dropped = NULL;
  if (table && PyDict_CheckExact (table))
    dropped = PyDict_GetItemWithError (attrs, non_persistent);
  bool fits = dropped && PySet_CheckExact (dropped) && PyDict_Contains (attrs, name) == 0
              && table_without (attrs, tables[beside], name)
              && table_without (attrs, tables[BUFFERS], name);
  if (!fits)
    return PyErr_Occurred () ? -1 : 0;
  if (PySet_GET_SIZE (dropped) > 0 && PySet_Discard (dropped, name) < 0)
    return -1;
  return PyDict_SetItem (table, name, value) < 0 ? -1 : 1;
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
  PyObject *name = args[0], *value = args[1];
  int stored = module_type ? store_member (self, name, value) : 0;
  if (stored)
    return stored < 0 ? NULL : Py_NewRef (Py_None);
  PyObject *found = find (attributes (self), name, &table, &which);
  if (PyErr_Occurred ())
    return NULL;
  /* A tensor with attributes may be a Buffer. */
  bool plain_tensor = Py_TYPE (value) == &gm_py_tensor_type && !((GmPyTensor *) value)->dict;
  bool foreign =
      !gm_py_tensor_check (value) && !(module_type && PyObject_TypeCheck (value, module_type));
  if (!found && (plain_tensor || foreign))
    return PyObject_GenericSetAttr (self, name, value) < 0 ? NULL : Py_NewRef (Py_None);
  if (found && which == BUFFERS && plain_tensor)
    return PyDict_SetItem (table, name, value) < 0 ? NULL : Py_NewRef (Py_None);
  return PyObject_CallMethodObjArgs (self, set_member, name, value, NULL);
}

static PyMethodDef methods[] = {
  { "__getattr__", members_getattr, METH_O,
    "The parameter, buffer or child of this name.  Errors: AttributeError." },
  { "__setattr__", (PyCFunction) (void (*) (void)) members_setattr, METH_FASTCALL,
    "Sets an attribute; a Parameter, a Buffer and a Module become members, and what replaces a "
    "member is checked." },
  { 0 },
};

/* Gives the class Module the two methods __getattr__ and __setattr__; the package calls
 * add_members (Module, Parameter). */
static PyObject *
add_members (PyObject *module, PyObject *args)
{
  PyTypeObject *cls, *parameter;
  if (!PyArg_ParseTuple (args, "O!O!:add_members", &PyType_Type, &cls, &PyType_Type, &parameter))
    return NULL;
  for (PyMethodDef *def = methods; def->ml_name; def++) {
    PyObject *method = PyDescr_NewMethod (&PyBaseObject_Type, def);
    int bad = method ? PyObject_SetAttrString ((PyObject *) cls, def->ml_name, method) : -1;
    Py_XDECREF (method);
    if (bad)
      return NULL;
    if (def == methods)
      getattr_method = method; /* the class keeps it */
  }
  object_getattribute =
      PyDict_GetItemString (GM_TYPE_GET_DICT (&PyBaseObject_Type), "__getattribute__");
  own_set_member = Py_XNewRef (_PyType_Lookup (cls, set_member));
  own_register_parameter = Py_XNewRef (_PyType_Lookup (cls, register_parameter));
  module_type = cls;
  parameter_type = parameter;
  Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
  { "add_members", add_members, METH_VARARGS,
    "add_members(cls, parameter)\n\nGives the class, nn.Module, __getattr__ and __setattr__; "
    "parameter: "
    "the class Parameter.  Errors: TypeError unless both are classes." },
  { 0 },
};

int
gm_py_init_members (PyObject *module)
{
  static const char *const names[] = { "_parameters", "_buffers", "_modules" };
  for (int i = 0; i < N_TABLES; i++)
    if (!(tables[i] = PyUnicode_InternFromString (names[i])))
      return -1;
  non_persistent = PyUnicode_InternFromString ("_non_persistent_buffers_set");
  set_member = PyUnicode_InternFromString ("_set_member");
  register_parameter = PyUnicode_InternFromString ("register_parameter");
  if (!non_persistent || !set_member || !register_parameter)
    return -1;
  return PyModule_AddFunctions (module, functions);
}
