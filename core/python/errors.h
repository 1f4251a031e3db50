/* SPDX-License-Identifier: Apache-2.0
 * errors.h -- the one place where a GError becomes a Python exception, and the way back for
 * callbacks.
 *
 * Requires: the GIL, everywhere.
 */
#ifndef GM_PYTHON_ERRORS_H
#define GM_PYTHON_ERRORS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "core/base/error.h"
#include "core/trace/interrupt.h"

#include <stdbool.h>

/* gramme.compiler.BackendError, a RuntimeError.  Owned by the process. */
extern PyObject *gm_py_backend_error;
/* Classes of gramme._dynamo.exc: the base of the recorder's errors, a function that is not to be
 * compiled again, and one that reached the limit of its entries.  Immortal. */
extern PyObject *gm_py_dynamo_error, *gm_py_recompile_error, *gm_py_limit_error;
/* An attribute that a tensor of these dimensions, or of any dtype there is, lacks: a RuntimeError as torch has it, and an AttributeError, so that hasattr () answers
 * and completion at a prompt goes on. */
extern PyObject *gm_py_dimension_error;

/* Raises `error` (taken, not NULL) as the exception of its code.  Always NULL, so `return
 * gm_py_raise (e)` works. */
PyObject *gm_py_raise (GError *error);

/* A callback ran Python code that raised: moves the exception into a GError, so that it travels
 * through code that knows no Python and comes out of gm_py_raise as it was, traceback included.
 * Always false. */
bool gm_py_error_set (GError **error);

int gm_py_init_errors (PyObject *module);

#endif
