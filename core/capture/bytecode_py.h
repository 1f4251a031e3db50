/* SPDX-License-Identifier: Apache-2.0
 * bytecode.h -- functions of gramme._core that show decoded code and assemble it.
 */
#ifndef GM_PYTHON_BYTECODE_H
#define GM_PYTHON_BYTECODE_H

#include <Python.h>

extern PyMethodDef gm_py_bytecode_functions[];

#endif
