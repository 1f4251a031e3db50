/* SPDX-License-Identifier: Apache-2.0
 * members_py.h -- the attributes of nn.Modules.
 */
#ifndef GM_OBJECTS_MEMBERS_PY_H
#define GM_OBJECTS_MEMBERS_PY_H

#include <Python.h>

int gm_py_init_members (PyObject *module);

#endif
