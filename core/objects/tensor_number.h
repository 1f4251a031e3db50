/* SPDX-License-Identifier: Apache-2.0
 * tensor_number.h -- a tensor's single element as a number.
 */
#ifndef GM_OBJECTS_TENSOR_NUMBER_H
#define GM_OBJECTS_TENSOR_NUMBER_H

#include "core/objects/tensor_object.h"

/* Reads the single element of a tensor.  False with RuntimeError, which names `what` and the shape,
 * if there is not exactly one. */
bool gm_py_tensor_scalar (PyObject *self, PyObject *error, const char *what, GmScalar *out);

int gm_py_init_number (PyObject *module);

#endif
