/* SPDX-License-Identifier: Apache-2.0
 * builds.h -- see builds.c.
 */
#ifndef GM_PYTHON_BUILDS_H
#define GM_PYTHON_BUILDS_H

#include <Python.h>

int gm_py_init_builds (PyObject *module);

#endif
