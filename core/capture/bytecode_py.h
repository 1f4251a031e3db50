/* SPDX-License-Identifier: Apache-2.0
 * bytecode_py.h -- functions of gramme._core that show decoded code and assemble it.
 */
#ifndef GM_CAPTURE_BYTECODE_PY_H
#define GM_CAPTURE_BYTECODE_PY_H

#include <Python.h>

extern PyMethodDef gm_py_bytecode_functions[];

#endif
