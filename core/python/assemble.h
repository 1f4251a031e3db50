/* SPDX-License-Identifier: Apache-2.0
 * assemble.h -- from residual instructions to a code object (stage a).
 */
#ifndef GM_PYTHON_ASSEMBLE_H
#define GM_PYTHON_ASSEMBLE_H

#include "core/trace/trace.h"

/* Gives a code object that was made with none its constants, as they are: the constructor interns the strings in tuples and frozensets, and such
 * a frozenset becomes another one, in another order. */
static inline PyCodeObject *
gm_assemble_consts (PyCodeObject *made, PyObject *consts)
{
  if (made)
    Py_SETREF (made->co_consts, Py_NewRef (consts));
  return made;
}

/* The code object of a residual: all arguments positional, free variables those of `original`, whose file name, name and
 * first line it bears.  New reference, or NULL with a Python exception.  Thread: holds the GIL. */
PyCodeObject *gm_assemble_residual (const GmResidual *res, PyCodeObject *original);

/* Units of inline caches behind the opcode. */
uint32_t gm_assemble_caches (uint8_t opcode);

/* The argument of RESUME in code that goes on in the middle of a function or ends one: as after an await, no signal's handler runs there.  What
 * a handler raises has to come to an instruction that the function's own handlers cover. */
#define GM_RESUME_QUIETLY 3

#endif
