/* SPDX-License-Identifier: Apache-2.0
 * device_py.c -- see device_py.h.
 */
#include "core/python/cpython.h"

#include "core/autograd/autograd.h"
#include "core/plugin/device.h"
#include "core/python/device_py.h"
#include "core/python/errors.h"
#include "core/python/tensor_object.h"
#include "core/tensor/device.h"

PyObject *
gm_py_tensor_move (PyObject *self, int device)
{
  GmTensor *t = gm_py_tensor_get (self);
  GError *error = NULL;
  if (t->meta.device == device)
    return Py_NewRef (self);
  if (gm_tensor_requires_grad (t) && gm_grad_enabled ()) {
    PyErr_Format (PyExc_RuntimeError,
                  "a copy from device '%s' to '%s' is not recorded for backward: use tensor.detach(), or move the tensor inside no_grad() "
                  "and call requires_grad_() on the copy",
                  gm_device_name (t->meta.device), gm_device_name (device));
    return NULL;
  }
  GmTensor *moved;
  Py_BEGIN_ALLOW_THREADS
  moved = gm_tensor_to_device (t, device, &error);
  Py_END_ALLOW_THREADS
  return moved ? gm_py_tensor_take (moved) : gm_py_raise (error);
}

bool
gm_py_check_here (const GmTensor *t, PyObject *type, const char *what)
{
  if (t->meta.device == GM_DEVICE_CPU)
    return true;
  PyErr_Format (type, "%s of a tensor on device '%s': its memory is not the CPU's; use tensor.cpu() first", what,
                gm_device_name (t->meta.device));
  return false;
}

/* -- gramme.cuda ----------------------------------------------------------------------------------------- */

/* (True, ""), or (False, why). */
static PyObject *
cuda_available (PyObject *module, PyObject *unused)
{
  g_autoptr (GError) error = NULL;
  bool good = gm_device_get (GM_DEVICE_CUDA, &error) != NULL;
  return Py_BuildValue ("(Os)", good ? Py_True : Py_False, good ? "" : error->message);
}

static PyObject *
cuda_synchronize (PyObject *module, PyObject *unused)
{
  GError *error = NULL;
  const GmDevice *d = gm_device_get (GM_DEVICE_CUDA, &error);
  bool good = d != NULL;
  Py_BEGIN_ALLOW_THREADS
  good = good && d->synchronize (&error);
  Py_END_ALLOW_THREADS
  return good ? Py_NewRef (Py_None) : gm_py_raise (error);
}

static PyObject *
cuda_memory (PyObject *module, PyObject *unused)
{
  uint64_t count[3] = { 0 };
  gm_device_memory (count);
  return Py_BuildValue ("(KKK)", (unsigned long long) count[0], (unsigned long long) count[1], (unsigned long long) count[2]);
}

static PyObject *
cuda_name (PyObject *module, PyObject *unused)
{
  GError *error = NULL;
  const char *name = gm_device_get (GM_DEVICE_CUDA, &error) ? gm_device_full_name () : NULL;
  return name ? PyUnicode_FromString (name) : gm_py_raise (error);
}

static PyMethodDef functions[] = {
  { "cuda_available", cuda_available, METH_NOARGS, "cuda_available() -> (bool, why not)" },
  { "cuda_synchronize", cuda_synchronize, METH_NOARGS, "cuda_synchronize(): waits for all work of the device." },
  { "cuda_memory", cuda_memory, METH_NOARGS, "cuda_memory() -> (in use, cached, most in use): bytes." },
  { "cuda_name", cuda_name, METH_NOARGS, "cuda_name() -> str: the device's name." },
  { NULL },
};

int
gm_py_init_device (PyObject *module)
{
  return PyModule_AddFunctions (module, functions);
}
