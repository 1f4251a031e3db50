/* SPDX-License-Identifier: Apache-2.0
 * cpython.h -- the one place that knows which CPython this is: includes in the order that works,
 * and names for what moved between versions.  3.11, 3.12 and 3.13 are known; another version needs
 * a look at every line here, rows in opcodes.def, and an audit.  Elsewhere only assemble.c,
 * dict_version.c, hook.c, kept_frame.c, resume_code.c and opcodes.def ask for the version.
 */
#ifndef GM_OBJECTS_CPYTHON_H
#define GM_OBJECTS_CPYTHON_H

#if defined Py_PYTHON_H && !defined Py_BUILD_CORE_MODULE
#error "cpython.h comes before other headers with Python.h: 3.13 refuses internal headers else"
#endif
#define PY_SSIZE_T_CLEAN
/* Defined in place of Py_BUILD_CORE, which refers to symbols that the interpreter hides. */
#ifndef Py_BUILD_CORE_MODULE
#define Py_BUILD_CORE_MODULE 1
#endif
#include <Python.h>
#include <opcode.h>

#if PY_VERSION_HEX < 0x030b0000 || PY_VERSION_HEX >= 0x030e0000
#error "the recorder knows CPython 3.11, 3.12 and 3.13; opcodes.def says what others need"
#endif
#ifdef Py_GIL_DISABLED
#error "the recorder needs the GIL; this is a free-threaded build of CPython"
#endif

#if PY_VERSION_HEX < 0x030c0000
#define GM_CODE_EXTRA_INDEX(free_fn) _PyEval_RequestCodeExtraIndex (free_fn)
#define GM_CODE_GET_EXTRA(code, index, out) _PyCode_GetExtra ((PyObject *) (code), (index), (out))
/* _PyCode_SetExtra frees the old value itself. */
#define GM_CODE_SET_EXTRA(code, index, value)                                                      \
  _PyCode_SetExtra ((PyObject *) (code), (index), (value))
#define GM_CODE_NEW PyCode_NewWithPosOnlyArgs
#define GM_TYPE_GET_DICT(type) Py_XNewRef ((type)->tp_dict) /* new reference */
#define GM_TYPE_PARAMS_OFFSET 0                             /* functions have none */
/* A range's iterator keeps its start and counts its steps. */
#define GM_RANGE_ITERATOR_INDEX long index;
#define GM_RANGE_ITERATOR_AT(iterator) (iterator)->index
#else
#include <internal/pycore_intrinsics.h>
/* Before 3.12 a range's iterator had an index; now its start is counted up, and the number of
 * items down. */
#define GM_RANGE_ITERATOR_INDEX
#define GM_RANGE_ITERATOR_AT(iterator) 0
#define GM_CODE_EXTRA_INDEX(free_fn) PyUnstable_Eval_RequestCodeExtraIndex (free_fn)
#define GM_CODE_GET_EXTRA(code, index, out)                                                        \
  PyUnstable_Code_GetExtra ((PyObject *) (code), (index), (out))
#define GM_CODE_SET_EXTRA(code, index, value)                                                      \
  PyUnstable_Code_SetExtra ((PyObject *) (code), (index), (value))
#define GM_CODE_NEW PyUnstable_Code_NewWithPosOnlyArgs
#define GM_TYPE_GET_DICT(type) PyType_GetDict (type)
#define GM_TYPE_PARAMS_OFFSET offsetof (PyFunctionObject, func_typeparams)
#endif

#if PY_VERSION_HEX < 0x030d0000
#define GM_NO_DICT_TEXT ""
#define GM_SLOT_OWNER_NAME(type) PyUnicode_FromString ((type)->tp_name)
#else
#define GM_SLOT_OWNER_NAME(type) PyType_GetFullyQualifiedName (type)
#define GM_NO_DICT_TEXT " and no __dict__ for setting new attributes"
#endif

#endif
