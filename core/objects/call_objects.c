/* SPDX-License-Identifier: Apache-2.0
 * call_objects.c -- see call_objects.h.
 *
 * A guard program's slots borrow objects that other objects hold.  A gradient is held by autograd,
 * without a Python object until the program reads it; so the object that a load needs is made, and
 * belongs to the call.  The same holds for a tensor over an array's memory.
 */
#include "core/objects/call_objects.h"

#include "core/autograd/autograd.h"
#include "core/objects/numpy.h"
#include "core/objects/tensor_object.h"

PyObject *
gm_call_object_grad (GmTensor *t)
{
  GmTensor *grad = gm_tensor_grad (t);
  return grad ? gm_call_object_lend (gm_py_tensor_wrap (grad)) : NULL;
}

PyObject *
gm_call_object_array (PyObject *array)
{
  return gm_call_object_lend (gm_py_tensor_take (gm_py_from_buffer (array)));
}

PyObject *
gm_call_object_number (PyObject *o)
{
  bool is_float = o == (PyObject *) &PyFloat_Type || PyFloat_CheckExact (o);
  GmScalar s = PyFloat_CheckExact (o)
                   ? gm_scalar_float (PyFloat_AS_DOUBLE (o))
                   : gm_scalar_int (PyType_Check (o) ? 0 : PyLong_AsLongLong (o));
  GmTensor *t = gm_tensor_new_scalar (s, is_float ? GM_F64 : GM_I64, NULL);
  return t ? gm_call_object_lend (gm_py_tensor_take (t)) : NULL;
}
