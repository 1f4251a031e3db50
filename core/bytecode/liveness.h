/* SPDX-License-Identifier: Apache-2.0
 * liveness.h -- which variables a code object still reads after each of its instructions, and where
 * it handles an exception.
 */
#ifndef GM_BYTECODE_LIVENESS_H
#define GM_BYTECODE_LIVENESS_H

#include "core/bytecode/code.h"

typedef struct GmLiveness GmLiveness;

/* False if execution never continues at the instruction after this one. */
bool gm_insn_falls_through (const GmInsn *i);

/* Returns the analysis of a decoded code, made at its first use and kept in it; borrowed. */
const GmLiveness *gm_liveness_get (const GmCode *code);
void gm_liveness_free (GmLiveness *l); /* NULL is fine */

/* True if the variable's value may be read by instruction `insn` or later, handlers included. */
bool gm_liveness_live (const GmLiveness *l, uint32_t insn, uint32_t slot);
/* True if execution from `insn` on may find the cell variable without a value.  empty: true if
 * the variable has no value at `insn`. */
bool gm_liveness_finds_empty (const GmCode *code, uint32_t insn, uint32_t slot, bool empty);
/* True if the code may read frame objects: then the rest of the function has to run in one
 * frame. */
bool gm_liveness_sees_frame (const GmCode *code);
/* True if an exception is being handled when `insn` runs: the interpreter then has state that is
 * not on the stack. */
bool gm_liveness_handling (const GmLiveness *l, uint32_t insn);

#endif
