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
/* Does the same as gm_py_construct for a list in a subscript, where an empty list is int64. */
GmTensor *gm_py_construct_index (PyObject *list);
/* Returns t cast to a dtype, without recording anything on the tape; steals t, and returns t
 * itself where nothing has to be done and `copy` is false.  NULL with an exception. */
GmTensor *gm_py_construct_cast (GmTensor *t, GmDtype dtype, bool copy);

extern PyMethodDef gm_py_construct_functions[];

#endif
