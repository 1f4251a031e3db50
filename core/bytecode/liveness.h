/* SPDX-License-Identifier: Apache-2.0
 * liveness.h -- which variables a code object still reads after each of its instructions, and where
 * it handles an exception.
 */
#ifndef GM_BYTECODE_LIVENESS_H
#define GM_BYTECODE_LIVENESS_H

#include "core/bytecode/code.h"

typedef struct GmLiveness GmLiveness;

/* False if the next instruction is not reached from this one. */
bool gm_insn_falls_through (const GmInsn *i);

/* Returns the analysis of a decoded code, made on first use and kept in it. */
const GmLiveness *gm_liveness_get (const GmCode *code);
void gm_liveness_free (GmLiveness *l); /* NULL is fine */

/* True if the variable's value may be read by `insn` or later, handlers included. */
bool gm_liveness_live (const GmLiveness *l, uint32_t insn, uint32_t slot);
/* True if a path from `insn` may find the cell variable without a value, given whether it has none
 * now. */
bool gm_liveness_finds_empty (const GmCode *code, uint32_t insn, uint32_t slot, bool empty);
/* True if the code reads frames themselves: the rest of it has to run in one frame. */
bool gm_liveness_sees_frame (const GmCode *code);
/* True if an exception is being handled when `insn` runs: state that is not on the stack alone. */
bool gm_liveness_handling (const GmLiveness *l, uint32_t insn);

#endif
