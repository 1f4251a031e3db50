/* SPDX-License-Identifier: Apache-2.0
 * import.h -- modules that the library itself needs while a program runs.
 */
#ifndef GM_TRACE_IMPORT_H
#define GM_TRACE_IMPORT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* The module of that full name, imported if it is not there yet; a new reference, NULL with an
 * exception.  A program may have replaced builtins.__import__, which PyImport_ImportModule calls:
 * it is the program's, and never sees this. */
PyObject *gm_import (const char *name);

#endif
