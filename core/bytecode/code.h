/* SPDX-License-Identifier: Apache-2.0
 * code.h -- decoded code objects: instructions, the same for each CPython, slots, handlers.
 */
#ifndef GM_BYTECODE_CODE_H
#define GM_BYTECODE_CODE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>

#include <glib.h>

typedef enum {
#define INSN(NAME, ...) GM_INSN_##NAME,
#include "core/bytecode/insns.def"
  GM_N_INSNS,
} GmInsnOp;

typedef enum {
  GM_OPERAND_NONE,
  GM_OPERAND_SLOT,
  GM_OPERAND_CONST,
  GM_OPERAND_NAME,
  GM_OPERAND_COUNT,
  GM_OPERAND_JUMP,
  GM_OPERAND_CALL,
} GmOperand;

typedef struct {
  const char *name;
  uint8_t operand;      /* GmOperand */
  uint16_t first, last; /* CPython versions, 311 ... */
} GmInsnInfo;
extern const GmInsnInfo gm_insns[GM_N_INSNS];
/* Returns the change of the stack depth by an instruction, when it falls through or, if `jumps`
 * is true, when it jumps. */
int gm_insn_effect (GmInsnOp op, uint32_t arg, bool jumps);

/* An instruction of decoded code.  insns.def says what arg, obj and target mean.  obj is
 * borrowed from the code object (or the residual). */
typedef struct {
  uint8_t op; /* GmInsnOp */
  uint32_t arg;
  uint32_t target;
  uint32_t
      handler; /* 1 + index of the innermost entry of GmCode.handlers that covers it; 0: none */
  PyObject *obj;
  int32_t line, col, end_line, end_col; /* 1-based lines, 0-based columns; -1 where unknown */
  uint32_t step; /* twice the code unit of the opcode that the instruction was decoded from, plus 1
                    in the second half of an opcode that does two things; the instructions of one
                    step are executed together */
} GmInsn;

/* An entry of the exception table, whose bounds and target are indices of instructions. */
typedef struct {
  uint32_t start, end, target; /* covers start <= i < end */
  uint32_t depth;
  bool lasti;
} GmHandler;

typedef enum { GM_SLOT_ARG = 1, GM_SLOT_LOCAL = 2, GM_SLOT_CELL = 4, GM_SLOT_FREE = 8 } GmSlotKind;
typedef struct {
  PyObject *name; /* borrowed */
  uint8_t kind;   /* GmSlotKind bits: an argument that is a cell variable has ARG | LOCAL | CELL */
} GmSlot;

static inline bool
gm_is_cell_slot (const GmSlot *s)
{
  return s->kind & (GM_SLOT_CELL | GM_SLOT_FREE);
}

/* A decoded code object.  Borrowed from the decoder's cache, immutable, valid as long as the code
 * object lives. */
typedef struct GmCode {
  PyCodeObject *code;
  const GmInsn *insns;
  uint32_t n_insns;
  const GmSlot *slots; /* CPython's localsplus order: arguments, locals, cells that are no locals,
                          free variables */
  uint32_t n_slots;
  uint32_t n_pos, n_posonly, n_kwonly; /* n_pos includes the positional-only parameters */
  bool varargs, varkw;
  uint32_t
      n_args; /* slots that hold arguments: n_pos + n_kwonly + varargs + varkw, in this order */
  uint32_t n_free, first_free;
  uint32_t stack_size;
  uint32_t flags; /* co_flags */
  const GmHandler *handlers;
  uint32_t n_handlers;
  struct GmLiveness *liveness; /* made on first use, see liveness.h; freed with the code */
  struct GmOriginal *original; /* the host's record of the code whose resume functions run this one,
                                  borrowed; or NULL */
} GmCode;

/* Returns the text of all instructions, for dumps ("r" and "d" of GM_DEBUG). Caller frees. */
char *gm_code_text (const GmCode *code);

/* Long ending of a call: a function to call after the graph has run.  Its arguments, all
 * positional: slots[in_slots[0]], ..., then the wrapped graph outputs in order.  It replays the
 * side effects in their order and returns the value.  The code has no jumps.  Its slots: the
 * arguments (GM_SLOT_ARG | GM_SLOT_LOCAL), temporaries (LOCAL), new cells (CELL: the assembler
 * emits MAKE_CELL), then the free variables of the original code in their order (FREE; closure: the
 * called function's own). */
typedef struct {
  uint32_t n_in_slots;
  const uint32_t *in_slots;
  uint32_t n_args; /* n_in_slots + number of graph outputs */
  GmInsn *insns;   /* op, arg, obj and line are set; obj owned by the recording */
  uint32_t n_insns;
  GmSlot *slots;
  uint32_t n_slots;
  uint32_t n_free, first_free;
  uint32_t stack_size;
} GmResidual;

/* True if the instructions from `insn` on only end the clean-up of a handler, and then raise the
 * exception on the stack again. */
bool gm_code_raises_again (const GmCode *code, uint32_t insn);

#endif
