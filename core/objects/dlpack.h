/* SPDX-License-Identifier: Apache-2.0
 * dlpack.h -- memory shared through DLPack capsules, in both directions.
 */
#ifndef GM_OBJECTS_DLPACK_H
#define GM_OBJECTS_DLPACK_H

#include "core/objects/tensor_object.h"

/* Implement Tensor.__dlpack__ and Tensor.__dlpack_device__. */
PyObject *gm_py_tensor_dlpack (PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *gm_py_tensor_dlpack_device (PyObject *self, PyObject *unused);

extern PyMethodDef gm_py_dlpack_functions[];

#endif
