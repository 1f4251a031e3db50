/* SPDX-License-Identifier: Apache-2.0
 * compiler_py.h -- functions of the module that are about compilation.
 */
#ifndef GM_CAPTURE_COMPILER_PY_H
#define GM_CAPTURE_COMPILER_PY_H

#include "core/objects/types.h"

int gm_py_init_compiler (PyObject *module);

#endif
