/* SPDX-License-Identifier: Apache-2.0
 * import.h -- modules that the library itself needs while a program runs.
 */
#ifndef GM_OBJECTS_IMPORT_H
#define GM_OBJECTS_IMPORT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Returns the module of this full name, imported if necessary; a new reference, NULL with an
 * exception. Does not call builtins.__import__, as PyImport_ImportModule does: a program may have
 * replaced it, and its function must not see imports of the library. */
PyObject *gm_import (const char *name);

#endif
