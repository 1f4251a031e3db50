/* SPDX-License-Identifier: Apache-2.0
 * device_py.h -- devices in Python: gramme.device objects, moving tensors, gramme.cuda.
 */
#ifndef GM_OBJECTS_DEVICE_PY_H
#define GM_OBJECTS_DEVICE_PY_H

#include <Python.h>

#include "core/tensor/tensor.h"

/* Returns the object of a device, which is the same each time.  New reference. */
PyObject *gm_py_device (int device);
/* Reads a device: a device object, "cpu", "cuda", "cuda:0", or a GPU's number.  False with an
 * exception. */
bool gm_py_device_get (PyObject *o, int *device);
/* Returns the tensor on a device: `self` if it is there already, else a copy, which has a
 * gradient history.  New reference, NULL with an exception. */
PyObject *gm_py_tensor_move (PyObject *self, int device);
/* True if the tensor's memory can be read directly by the CPU; else false, with an exception of
 * class `type` whose text names `what`. */
bool gm_py_check_here (const GmTensor *t, PyObject *type, const char *what);

int gm_py_init_device (PyObject *module);

#endif
