/* SPDX-License-Identifier: Apache-2.0
 * errors.h -- converts GErrors into Python exceptions, and back for callbacks, in one place.
 *
 * Requires: the GIL, everywhere.
 */
#ifndef GM_OBJECTS_ERRORS_H
#define GM_OBJECTS_ERRORS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "core/base/error.h"
#include "core/objects/interrupt.h"

#include <stdbool.h>

/* Exception class gramme.compiler.BackendError, a RuntimeError.  Owned by the process. */
extern PyObject *gm_py_backend_error;
/* Classes of gramme._dynamo.exc: the base of the recorder's errors, the error for a function
 * that must not be compiled again, and the error for a function that reached the limit of its
 * entries. Immortal. */
extern PyObject *gm_py_dynamo_error, *gm_py_recompile_error, *gm_py_limit_error;
/* Class of the error for an attribute that a tensor of these dimensions, or of every dtype,
 * lacks: a RuntimeError, as torch has it, and an AttributeError, so that hasattr () returns False
 * and completion at a prompt goes on. */
extern PyObject *gm_py_dimension_error;

/* Raises `error` (freed, not NULL) as the exception of its code.  Always returns NULL, for `return
 * gm_py_raise (e)`. */
PyObject *gm_py_raise (GError *error);

/* Moves the exception that a callback in Python raised into a GError, so that it passes through
 * code that knows no Python, and gm_py_raise raises it unchanged, traceback included.  Always
 * returns false. */
bool gm_py_error_set (GError **error);

int gm_py_init_errors (PyObject *module);

#endif
