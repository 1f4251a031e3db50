/* SPDX-License-Identifier: Apache-2.0
 * numpy.h -- shares memory with numpy and every other user of Python's buffer protocol.
 */
#ifndef GM_OBJECTS_NUMPY_H
#define GM_OBJECTS_NUMPY_H

#include "core/objects/tensor_object.h"

/* Returns a tensor that shares the memory of an object with a buffer, with its shape and
 * strides. NULL with TypeError for element formats without a dtype, ValueError for strides that a
 * tensor cannot have. */
GmTensor *gm_py_from_buffer (PyObject *o);
/* Returns a new tensor with the elements of a buffer, which may have any strides.  NULL with an
 * exception. */
GmTensor *gm_py_copy_buffer (PyObject *o);
/* Returns a 1-d tensor that shares the memory of a buffer of plain bytes: `count` elements (-1:
 * all) from byte `offset` on.  NULL with an exception. */
GmTensor *gm_py_from_bytes (PyObject *o, GmDtype dtype, int64_t count, int64_t offset);

/* Implement Tensor.numpy and Tensor.__array__. */
PyObject *gm_py_tensor_numpy (PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *gm_py_tensor_array (PyObject *self, PyObject *args, PyObject *kwargs);

#endif
