/* SPDX-License-Identifier: Apache-2.0
 * bind.h -- binds a call's arguments to the variables of the code object.
 */
#ifndef GM_BYTECODE_BIND_H
#define GM_BYTECODE_BIND_H

#include "core/bytecode/code.h"

#define GM_BIND_MAX_ARGS 128

typedef struct {
  PyObject *const *locals; /* code->n_args values in localsplus order, borrowed */
  PyObject *room[GM_BIND_MAX_ARGS];
  PyObject *rest, *keywords; /* the tuple of *args and the dict of **kw, owned, or NULL */
} GmBound;

/* Binds `args` (n_args positional, then one per name of kwnames) for func; self_or_null goes first.
 * False, without an exception, if the call does not fit the signature or needs more than
 * GM_BIND_MAX_ARGS: calling the function itself then raises the error.  The positional case without
 * keywords borrows `args` and copies nothing. */
bool gm_bind (GmBound *b, const GmCode *code, PyFunctionObject *func, PyObject *self_or_null,
              PyObject *const *args, size_t n_args, PyObject *kwnames);
void gm_bind_clear (GmBound *b);

#endif
