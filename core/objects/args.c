/* SPDX-License-Identifier: Apache-2.0
 * args.c -- Python values as GmArg and back.
 *
 * Exact types are tried first, one pointer comparison each; subclasses, numpy scalars and arrays
 * follow.  numpy is never imported: its scalars are recognised by their methods (__index__,
 * __float__), its arrays by their buffer.  Invariant: nothing here keeps a reference past
 * gm_py_args_clear.
 */
#include "core/objects/args.h"
#include "core/objects/device_py.h"
#include "core/tensor/device.h"

#include "core/objects/construct.h"
#include "core/objects/numpy.h"
#include "core/objects/types.h"

#include <string.h>

void
gm_py_args_clear (GmPyArgs *x)
{
  for (int i = 0; i < x->n_temps; i++)
    Py_DECREF (x->temps[i]);
  if (x->more)
    g_ptr_array_unref (x->more);
  Py_XDECREF (x->more_temps);
}

GmArg *
gm_py_args_take (GmPyArgs *x, Py_ssize_t n)
{
  if (n <= (Py_ssize_t) (G_N_ELEMENTS (x->items) - x->n_used)) {
    GmArg *items = x->items + x->n_used;
    x->n_used += (uint16_t) n;
    return items;
  }
  if (n > UINT16_MAX) {
    PyErr_Format (PyExc_ValueError,
                  "a list of %zd items is too long for an argument; the limit is %d", n,
                  UINT16_MAX);
    return NULL;
  }
  if (!x->more)
    x->more = g_ptr_array_new_with_free_func (g_free);
  GmArg *items = g_try_new (GmArg, n);
  if (!items)
    return (GmArg *) PyErr_NoMemory ();
  g_ptr_array_add (x->more, items);
  return items;
}

GmTensor *
gm_py_args_keep (GmPyArgs *x, PyObject *wrapper)
{
  if (!wrapper)
    return NULL;
  GmTensor *t = gm_py_tensor_get (wrapper);
  if (x->n_temps < G_N_ELEMENTS (x->temps)) {
    x->temps[x->n_temps++] = wrapper;
    return t;
  }
  if (!x->more_temps)
    x->more_temps = PyList_New (0);
  int bad = !x->more_temps || PyList_Append (x->more_temps, wrapper) < 0;
  Py_DECREF (wrapper);
  return bad ? NULL : t;
}

static bool
add_int (PyObject *o, GmArg *out)
{
  int overflow;
  out->i = PyLong_AsLongLongAndOverflow (o, &overflow);
  out->kind = GM_ARG_INT;
  if (overflow)
    PyErr_SetString (PyExc_OverflowError,
                     "a Python int past 64 bits does not fit a tensor or an argument");
  return !PyErr_Occurred ();
}

static bool
add_sequence (GmPyArgs *x, PyObject *o, GmArg *out)
{
  Py_ssize_t n = PySequence_Fast_GET_SIZE (o);
  GmArg *items = gm_py_args_take (x, n);
  if (!items)
    return false;
  for (Py_ssize_t i = 0; i < n && i < PySequence_Fast_GET_SIZE (o); i++)
    if (!gm_py_args_add (x, PySequence_Fast_GET_ITEM (o, i), &items[i]))
      return false;
  out->kind = GM_ARG_LIST;
  out->is_tuple = PyTuple_Check (o);
  out->n = (uint16_t) n;
  out->fields = NULL;
  out->items = items;
  return true;
}

static bool
add_slice (GmPyArgs *x, PySliceObject *slice, GmArg *out)
{
  GmArg *items = gm_py_args_take (x, 3);
  out->kind = GM_ARG_SLICE;
  out->n = 3;
  out->items = items;
  return items && gm_py_args_add (x, slice->start, &items[0])
         && gm_py_args_add (x, slice->stop, &items[1])
         && gm_py_args_add (x, slice->step, &items[2]);
}

static bool
is_numpy_array (PyObject *o)
{
  return PyObject_CheckBuffer (o) && !PyBytes_Check (o) && !PyByteArray_Check (o)
         && PyObject_HasAttrString (o, "shape");
}

/* Stores in *out the tensor that stands for an object in graphs, its attribute
 * __gramme_tensor__, as a Generator has.  False with an exception: TypeError if it has none. */
static bool
add_stand_in (GmPyArgs *x, PyObject *o, GmArg *out)
{
  PyObject *tensor = PyObject_GetAttrString (o, "__gramme_tensor__");
  if (tensor && gm_py_tensor_check (tensor)) {
    out->kind = GM_ARG_TENSOR;
    out->v = gm_val_from_tensor (gm_py_args_keep (x, tensor));
    return true;
  }
  Py_XDECREF (tensor);
  if (PyErr_Occurred () && !PyErr_ExceptionMatches (PyExc_AttributeError))
    return false;
  PyErr_Format (PyExc_TypeError, "a value of type %s is no argument of a tensor function",
                Py_TYPE (o)->tp_name);
  return false;
}

bool
gm_py_number (PyObject *o, GmScalar *out)
{
  PyTypeObject *type = Py_TYPE (o);
  if (PyFloat_Check (o)) {
    *out = gm_scalar_float (PyFloat_AS_DOUBLE (o));
  } else if (PyBool_Check (o)) {
    *out = gm_scalar_bool (o == Py_True);
  } else if (PyLong_Check (o)) {
    GmArg a;
    if (!add_int (o, &a))
      return false;
    *out = gm_scalar_int (a.i);
  } else if (gm_py_tensor_check (o) || strncmp (type->tp_name, "numpy.", 6) != 0
             || strcmp (type->tp_name, "numpy.ndarray") == 0) {
    return false;
  } else if (strcmp (type->tp_name, "numpy.bool_") == 0
             || strcmp (type->tp_name, "numpy.bool") == 0) {
    *out = gm_scalar_bool (PyObject_IsTrue (o) == 1);
  } else if (PyIndex_Check (o)) {
    PyObject *index = PyNumber_Index (o);
    GmArg a = { 0 };
    bool ok = index && add_int (index, &a);
    Py_XDECREF (index);
    *out = gm_scalar_int (a.i);
    return ok;
  } else if (type->tp_as_number && type->tp_as_number->nb_float) {
    double d = PyFloat_AsDouble (o);
    if (d == -1.0 && PyErr_Occurred ()) {
      PyErr_Clear (); /* a numpy scalar that is not a number, such as str_ */
      return false;
    }
    *out = gm_scalar_float (d);
  } else {
    return false;
  }
  return true;
}

static void
arg_from_scalar (GmScalar s, GmArg *out)
{
  out->kind = s.kind == GM_CATEGORY_FLOAT ? GM_ARG_FLOAT
              : s.kind == GM_CATEGORY_INT ? GM_ARG_INT
                                          : GM_ARG_BOOL;
  if (s.kind == GM_CATEGORY_FLOAT)
    out->d = s.d;
  else
    out->i = s.i;
}

/* Converts a value whose type is not one of the frequent exact types.  False with an exception. */
static bool
add_other (GmPyArgs *x, PyObject *o, GmArg *out)
{
  if (PyTuple_Check (o) || (PyList_Check (o) && x->mode != GM_PY_ARGS_INDEX))
    return add_sequence (x, o, out);
  if (PySlice_Check (o))
    return add_slice (x, (PySliceObject *) o, out);
  if (PyUnicode_Check (o)) {
    out->kind = GM_ARG_STR;
    out->s = PyUnicode_AsUTF8 (o);
    return out->s != NULL;
  }
  if (Py_TYPE (o) == &gm_py_dtype_type || o == (PyObject *) &PyFloat_Type
      || o == (PyObject *) &PyLong_Type || o == (PyObject *) &PyBool_Type) {
    out->kind = GM_ARG_DTYPE;
    return gm_py_dtype_get (o, &out->dtype);
  }
  if (o == Py_Ellipsis) {
    out->kind = GM_ARG_ELLIPSIS;
    return true;
  }
  if (Py_TYPE (o) == &gm_py_device_type) {
    int device;
    out->kind = GM_ARG_STR;
    out->s = gm_py_device_get (o, &device) ? gm_device_name (device) : "";
    return true;
  }
  GmScalar s;
  if (gm_py_number (o, &s)) {
    arg_from_scalar (s, out);
    return true;
  }
  if (PyErr_Occurred ())
    return false;
  if (x->mode == GM_PY_ARGS_INDEX && PyList_Check (o)) {
    out->kind = GM_ARG_TENSOR;
    GmTensor *t = gm_py_args_keep (x, gm_py_tensor_take (gm_py_construct_index (o)));
    out->v = gm_val_from_tensor (t);
    return t != NULL;
  }
  if (x->mode != GM_PY_ARGS_PLAIN && is_numpy_array (o)) {
    out->kind = GM_ARG_TENSOR;
    GmTensor *t = gm_py_args_keep (x, gm_py_tensor_take (gm_py_from_buffer (o)));
    out->v = gm_val_from_tensor (t);
    return t != NULL;
  }
  if (is_numpy_array (o)) {
    PyErr_SetString (
        PyExc_TypeError,
        "expected a Tensor or a number, not a numpy array: wrap it in gramme.from_numpy()");
    return false;
  }
  if (PyIndex_Check (o)) { /* an object that is used like an int */
    PyObject *index = PyNumber_Index (o);
    bool ok = index && add_int (index, out);
    Py_XDECREF (index);
    return ok;
  }
  return add_stand_in (x, o, out);
}

bool
gm_py_args_add (GmPyArgs *x, PyObject *o, GmArg *out)
{
  PyTypeObject *type = Py_TYPE (o);
  out->is_tuple = false;
  out->n = 0;
  if (type == &gm_py_tensor_type || gm_py_tensor_check (o)) {
    out->kind = GM_ARG_TENSOR;
    out->v = gm_val_from_tensor (gm_py_tensor_get (o));
    return true;
  }
  if (type == &PyLong_Type)
    return add_int (o, out);
  if (type == &PyFloat_Type) {
    out->kind = GM_ARG_FLOAT;
    out->d = PyFloat_AS_DOUBLE (o);
    return true;
  }
  if (type == &PyBool_Type) {
    out->kind = GM_ARG_BOOL;
    out->i = o == Py_True;
    return true;
  }
  if (o == Py_None) {
    out->kind = GM_ARG_NONE;
    return true;
  }
  return add_other (x, o, out);
}

/* -- Results ----------------------------------------------------------------------------------- */

PyObject *
gm_py_from_scalar (GmScalar s)
{
  switch (s.kind) {
  case GM_CATEGORY_FLOAT:
    return PyFloat_FromDouble (s.d);
  case GM_CATEGORY_INT:
    return PyLong_FromLongLong (s.i);
  default:
    return PyBool_FromLong (s.i != 0);
  }
}

/* Returns the named tuple type gramme.return_types.max for "max values indices"; it is made at
 * the first call with such a text and kept.  Borrowed. */
PyTypeObject *
gm_py_fields_type (const char *fields)
{
  static GHashTable *types;
  if (!types)
    types = g_hash_table_new (g_str_hash, g_str_equal);
  PyTypeObject *type = g_hash_table_lookup (types, fields);
  if (type)
    return type;
  /* Never freed: the type's field names point into it. */
  char **words = g_strsplit (fields, " ", -1);
  int n = (int) g_strv_length (words) - 1;
  PyStructSequence_Field *names = g_new0 (PyStructSequence_Field, n + 1);
  for (int i = 0; i < n; i++)
    names[i].name = words[i + 1];
  PyStructSequence_Desc desc = { .name = g_strconcat ("gramme.return_types.", words[0], NULL),
                                 .fields = names,
                                 .n_in_sequence = n };
  type = PyStructSequence_NewType (&desc);
  g_free (names);
  if (type)
    g_hash_table_insert (types, g_strdup (fields), type);
  return type;
}

static PyObject *
from_list (const GmArg *a)
{
  PyTypeObject *type = a->fields ? gm_py_fields_type (a->fields) : NULL;
  if (a->fields && !type)
    return NULL;
  PyObject *list = type          ? PyStructSequence_New (type)
                   : a->is_tuple ? PyTuple_New (a->n)
                                 : PyList_New (a->n);
  if (!list)
    return NULL;
  for (int i = 0; i < a->n; i++) {
    PyObject *item = gm_py_from_arg (&a->items[i]);
    if (!item) {
      Py_DECREF (list);
      return NULL;
    }
    if (type)
      PyStructSequence_SetItem (list, i, item);
    else if (a->is_tuple)
      PyTuple_SET_ITEM (list, i, item);
    else
      PyList_SET_ITEM (list, i, item);
  }
  return list;
}

PyObject *
gm_py_from_arg (const GmArg *a)
{
  switch ((GmArgKind) a->kind) {
  case GM_ARG_TENSOR:
    return gm_py_tensor_wrap (gm_tensor_from_val (a->v));
  case GM_ARG_BOOL:
    return PyBool_FromLong (a->i != 0);
  case GM_ARG_INT:
    return PyLong_FromLongLong (a->i);
  case GM_ARG_FLOAT:
    return PyFloat_FromDouble (a->d);
  case GM_ARG_STR:
    return PyUnicode_FromString (a->s);
  case GM_ARG_DTYPE:
    return gm_py_dtype (a->dtype);
  case GM_ARG_LIST:
    return from_list (a);
  case GM_ARG_NONE:
  case GM_ARG_ABSENT:
    Py_RETURN_NONE;
  case GM_ARG_ELLIPSIS:
    return Py_NewRef (Py_Ellipsis);
  case GM_ARG_SLICE:
  case GM_ARG_ELEMENT:
    break;
  }
  PyErr_Format (PyExc_SystemError, "a function returned a value of kind %d", a->kind);
  return NULL;
}
