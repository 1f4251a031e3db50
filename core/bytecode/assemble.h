/* SPDX-License-Identifier: Apache-2.0
 * assemble.h -- makes a code object from residual instructions (stage a).
 */
#ifndef GM_BYTECODE_ASSEMBLE_H
#define GM_BYTECODE_ASSEMBLE_H

#include "core/bytecode/code.h"

/* Sets the constants of a code object that was made without any, and returns it.  The constructor
 * would intern the strings in tuples and frozensets, and replace such a frozenset by another one,
 * with another order. */
static inline PyCodeObject *
gm_assemble_consts (PyCodeObject *made, PyObject *consts)
{
  if (made)
    Py_SETREF (made->co_consts, Py_NewRef (consts));
  return made;
}

/* Returns the code object of a residual: all arguments are positional, the free variables are those
 * of `original`, as are file name, name and first line.  New reference, or NULL with a Python
 * exception.  Thread: holds the GIL. */
PyCodeObject *gm_assemble_residual (const GmResidual *res, PyCodeObject *original);

/* Returns the number of inline cache units after an opcode. */
uint32_t gm_assemble_caches (uint8_t opcode);

/* Argument of RESUME in code that continues or ends a function in its middle.  As after an
 * await, no signal handler runs there, since an exception of the handler must come at an
 * instruction that the function's own handlers cover. */
#define GM_RESUME_QUIETLY 3

#endif
