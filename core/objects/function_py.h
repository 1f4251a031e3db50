/* SPDX-License-Identifier: Apache-2.0
 * function_py.h -- gramme.autograd.Function: operations whose backward is Python code.
 */
#ifndef GM_OBJECTS_FUNCTION_PY_H
#define GM_OBJECTS_FUNCTION_PY_H

#include "core/objects/tensor_object.h"

int gm_py_init_function (PyObject *module);

#endif
