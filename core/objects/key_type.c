/* SPDX-License-Identifier: Apache-2.0
 * key_type.c -- see key_type.h.
 */
#include "core/objects/key_type.h"

#include "core/objects/python_host.h"

bool
gm_is_constant_type (PyTypeObject *type)
{
  return type == &PyLong_Type || type == &PyFloat_Type || type == &PyBool_Type
         || type == &PyUnicode_Type || type == &PyBytes_Type || type == &PyComplex_Type
         || type == Py_TYPE (Py_None) || type == &PyEllipsis_Type || type == &PyRange_Type
         || type == &PyCode_Type || type == Py_TYPE (Py_NotImplemented);
}

bool
gm_is_enum_hash (PyObject *function)
{
  if (function == NULL || !PyFunction_Check (function))
    return false;
  const PyFunctionObject *f = (PyFunctionObject *) function;
  return f->func_module && PyUnicode_Check (f->func_module)
         && PyUnicode_CompareWithASCIIString (f->func_module, "enum") == 0
         && PyUnicode_CompareWithASCIIString (f->func_qualname, "Enum.__hash__") == 0;
}

bool
gm_key_is_by_value (const PyTypeObject *type)
{
  return (type->tp_hash == PyLong_Type.tp_hash
          && type->tp_richcompare == PyLong_Type.tp_richcompare)
         || (type->tp_hash == PyUnicode_Type.tp_hash
             && type->tp_richcompare == PyUnicode_Type.tp_richcompare);
}

/* True if the type is an Enum whose members are compared by value: a member then equals only
 * itself among the members. */
static bool
is_member_by_value (PyTypeObject *type)
{
  PyObject *name = gm_key_is_by_value (type) ? PyUnicode_InternFromString ("_member_map_") : NULL;
  bool member = name && _PyType_Lookup (type, name) != NULL;
  Py_XDECREF (name);
  return member;
}

bool
gm_key_is_plain (const PyTypeObject *type)
{
  if (gm_key_is_by_value (type) || gm_is_constant_type ((PyTypeObject *) type)
      || type->tp_richcompare == NULL || type->tp_richcompare == PyBaseObject_Type.tp_richcompare)
    return true;
  bool number = type->tp_as_number && type != &PyFrozenSet_Type; /* Decimal (1) == 1 */
  return !(type->tp_flags & Py_TPFLAGS_HEAPTYPE) && !number;
}

static bool
is_fixed (PyObject *key, uint32_t depth)
{
  if (!PyTuple_CheckExact (key))
    return gm_is_constant_type (Py_TYPE (key));
  bool all = depth > 0;
  for (Py_ssize_t i = 0; all && i < PyTuple_GET_SIZE (key); i++)
    all = is_fixed (PyTuple_GET_ITEM (key, i), depth - 1);
  return all;
}

GmKeyKind
gm_key_kind (PyObject *key)
{
  PyTypeObject *type = Py_TYPE (key);
  if (is_fixed (key, GM_MAX_NESTING))
    return GM_KEY_FIXED;
  if (type == gm_host.dtype_type || PyFunction_Check (key) || is_member_by_value (type))
    return GM_KEY_IDENTITY;
  if (PyType_Check (key))
    return type->tp_hash == PyType_Type.tp_hash
                   && type->tp_richcompare == PyType_Type.tp_richcompare
               ? GM_KEY_IDENTITY
               : GM_KEY_OTHER;
  if (type->tp_richcompare != PyBaseObject_Type.tp_richcompare || !gm_is_user_type (type))
    return GM_KEY_OTHER;
  PyObject *name = PyUnicode_InternFromString ("__hash__");
  bool member = name && gm_is_enum_hash (_PyType_Lookup (type, name));
  Py_XDECREF (name);
  return member ? GM_KEY_IDENTITY : GM_KEY_OTHER;
}
