/* SPDX-License-Identifier: Apache-2.0
 * construct.h -- tensors from Python data: numbers, nested sequences, arrays, other tensors.
 */
#ifndef GM_OBJECTS_CONSTRUCT_H
#define GM_OBJECTS_CONSTRUCT_H

#include "core/objects/tensor_object.h"

/* Returns a new tensor that shares nothing with `data`.  dtype NULL: bool, int64 or the default
 * dtype for Python data, the own dtype for arrays and tensors.  NULL with an exception: ValueError
 * for uneven lists. */
GmTensor *gm_py_construct (PyObject *data, const GmDtype *dtype);
/* gm_py_construct for a list in a subscript, where an empty list is int64. */
GmTensor *gm_py_construct_index (PyObject *list);
/* Casts without recording anything; steals t, which it returns when there is nothing to do. */
GmTensor *gm_py_construct_cast (GmTensor *t, GmDtype dtype, bool copy);

extern PyMethodDef gm_py_construct_functions[];

#endif
