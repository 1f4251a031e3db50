/* SPDX-License-Identifier: Apache-2.0
 * lapack_py.h -- the C function behind gramme.linalg.
 */
#ifndef GM_OBJECTS_LAPACK_PY_H
#define GM_OBJECTS_LAPACK_PY_H

#include "core/objects/types.h"

int gm_py_init_lapack (PyObject *module);

#endif
