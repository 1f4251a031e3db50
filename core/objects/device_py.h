/* SPDX-License-Identifier: Apache-2.0
 * device_py.h -- devices in Python: gramme.device objects, moving tensors, gramme.cuda.
 */
#ifndef GM_OBJECTS_DEVICE_PY_H
#define GM_OBJECTS_DEVICE_PY_H

#include <Python.h>

#include "core/tensor/tensor.h"

/* Returns the one object of a device.  New reference. */
PyObject *gm_py_device (int device);
/* Reads a device: a device object, "cpu", "cuda", "cuda:0", or a GPU's number.  False with an
 * exception. */
bool gm_py_device_get (PyObject *o, int *device);
/* Returns the tensor on a device, itself if it is there already.  A copy has a history. */
PyObject *gm_py_tensor_move (PyObject *self, int device);
/* True if code that reads memory directly can read this tensor's; else raises `type`. */
bool gm_py_check_here (const GmTensor *t, PyObject *type, const char *what);

int gm_py_init_device (PyObject *module);

#endif
