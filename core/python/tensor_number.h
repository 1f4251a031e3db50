/* SPDX-License-Identifier: Apache-2.0
 * tensor_number.h -- a tensor's one element as a number, for methods that need it too.
 */
#ifndef GM_PYTHON_TENSOR_NUMBER_H
#define GM_PYTHON_TENSOR_NUMBER_H

#include "core/python/tensor_object.h"

/* RuntimeError that names `what` and the shape unless the tensor has exactly one element. */
bool gm_py_tensor_scalar (PyObject *self, PyObject *error, const char *what, GmScalar *out);

int gm_py_init_number (PyObject *module);

#endif
