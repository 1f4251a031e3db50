/* SPDX-License-Identifier: Apache-2.0
 * builds_py.h -- see builds_py.c.
 */
#ifndef GM_OBJECTS_BUILDS_PY_H
#define GM_OBJECTS_BUILDS_PY_H

#include <Python.h>

int gm_py_init_builds (PyObject *module);

#endif
