/* SPDX-License-Identifier: Apache-2.0
 * opcodes.h -- the table of CPython's opcodes (opcodes.def), and the meanings of its column `how`.
 */
#ifndef GM_BYTECODE_OPCODES_H
#define GM_BYTECODE_OPCODES_H

#include "core/bytecode/code.h"

typedef enum {
  GM_HOW_NONE,     /* no row */
  GM_HOW_SAME,     /* the operand is what insns.def says: a number, a slot, a constant's or a name's
                      index */
  GM_HOW_ALIAS,    /* like SAME, but the assembler writes another row */
  GM_HOW_DROP,     /* becomes nothing, but may be a jump's target */
  GM_HOW_DROP_TWO, /* this code unit and the next become nothing */
  GM_HOW_FORWARD,  /* a jump, relative to the end of the instruction */
  GM_HOW_BACKWARD,
  GM_HOW_FORWARD_PAST, /* like FORWARD, but to the instruction after the target */
  GM_HOW_GLOBAL,       /* bit 0 of the argument is a PUSH_NULL before it, the rest is the name */
  GM_HOW_ATTR,         /* bit 0: LOAD_METHOD, the rest is the name */
  GM_HOW_SUPER, /* bit 0: like LOAD_METHOD, bit 1: super has two arguments, the rest is the name */
  GM_HOW_NULL_ABOVE,    /* a PUSH_NULL above the callable: becomes PUSH_NULL, SWAP */
  GM_HOW_COMPARE_4,     /* argument >> 4 */
  GM_HOW_COMPARE_5,     /* argument >> 5, bit 4: followed by a TO_BOOL */
  GM_HOW_FAST,          /* LOAD_CLOSURE for a cell */
  GM_HOW_FAST_LOAD,     /* a slot in bits 4 to 7, then LOAD_FAST of the slot in bits 0 to 3 */
  GM_HOW_FAST_STORE,    /* like FAST_LOAD, for STORE_FAST */
  GM_HOW_RETURN_CONST,  /* preceded by a LOAD_CONST */
  GM_HOW_CALL,          /* uses the names of the last KWNAMES */
  GM_HOW_KWNAMES,       /* keeps names for the next CALL */
  GM_HOW_CALL_KW,       /* uses the names of the LOAD_CONST before it */
  GM_HOW_FUNCTION,      /* followed by flags */
  GM_HOW_FUNCTION_FLAG, /* one more flag for the MAKE_FUNCTION before it */
  GM_HOW_FORMAT_0,      /* FORMAT_VALUE with argument 0 */
  GM_HOW_FORMAT_4,
  GM_HOW_INTRINSIC, /* the argument is a row of the INTRINSICs; without one, the internal
                       instruction itself */
  GM_HOW_VOID,      /* in an INTRINSIC: followed by LOAD_CONST None */
} GmHow;

typedef struct {
  const char *name;
  uint8_t op;  /* GmInsnOp */
  uint8_t how; /* GmHow */
} GmOpcode;
extern const GmOpcode gm_opcodes[256];

/* The table of intrinsics, [arity - 1][argument]; `how` is GM_HOW_NONE where there is no such
 * intrinsic. */
#define GM_N_INTRINSICS 16
extern const GmOpcode gm_intrinsics[2][GM_N_INTRINSICS];

#endif
