/* SPDX-License-Identifier: Apache-2.0
 * construct.h -- tensors from Python data: numbers, nested sequences, arrays, other tensors.
 */
#ifndef GM_PYTHON_CONSTRUCT_H
#define GM_PYTHON_CONSTRUCT_H

#include "core/python/tensor_object.h"

/* A new tensor that shares nothing with `data`.  dtype NULL: bool, int64 or the default dtype for
 * Python data, the own dtype for arrays and tensors.  NULL with an exception: ValueError for uneven
 * lists. */
GmTensor *gm_py_construct (PyObject *data, const GmDtype *dtype);
/* The same for a list in a subscript: an empty one is int64. */
GmTensor *gm_py_construct_index (PyObject *list);
/* A cast that records nothing; takes t, which it returns when there is nothing to do. */
GmTensor *gm_py_construct_cast (GmTensor *t, GmDtype dtype, bool copy);

extern PyMethodDef gm_py_construct_functions[];

#endif
