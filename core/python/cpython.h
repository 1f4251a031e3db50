/* SPDX-License-Identifier: Apache-2.0
 * cpython.h -- the one place that knows which CPython this is: includes in the order that works, and names for what
 * moved between versions.  3.11 is known; another version needs a column here, rows in opcodes.def, and an audit.
 */
#ifndef GM_PYTHON_CPYTHON_H
#define GM_PYTHON_CPYTHON_H

#define PY_SSIZE_T_CLEAN
#ifndef Py_BUILD_CORE_MODULE /* not Py_BUILD_CORE: that refers to symbols which the interpreter hides */
#define Py_BUILD_CORE_MODULE 1
#endif
#include <Python.h>
#include <opcode.h>

#if PY_VERSION_HEX < 0x030b0000 || PY_VERSION_HEX >= 0x030c0000
#error "the recorder knows CPython 3.11; see opcodes.def for what another version needs"
#endif

#define GM_CODE_EXTRA_INDEX(free_fn) _PyEval_RequestCodeExtraIndex (free_fn)
#define GM_CODE_GET_EXTRA(code, index, out) _PyCode_GetExtra ((PyObject *) (code), (index), (out))
/* Frees the old value itself. */
#define GM_CODE_SET_EXTRA(code, index, value) _PyCode_SetExtra ((PyObject *) (code), (index), (value))
#define GM_CODE_NEW PyCode_NewWithPosOnlyArgs

#endif
