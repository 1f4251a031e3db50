/* SPDX-License-Identifier: Apache-2.0
 * decode.h -- converts a code object into internal instructions (stage d).
 */
#ifndef GM_BYTECODE_DECODE_H
#define GM_BYTECODE_DECODE_H

#include "core/bytecode/code.h"

/* Returns a new decoded code, to be freed with gm_code_free; the code object must outlive it.
 * An opcode that is not understood becomes an UNKNOWN instruction, which is a break only when the
 * recorder reaches it.  Errors: GM_ERROR_RUNTIME if the code object is not well-formed.  Thread:
 * holds the GIL. */
GmCode *gm_decode_new (PyCodeObject *code, GError **error);
void gm_code_free (GmCode *code);

#endif
