/* SPDX-License-Identifier: Apache-2.0
 * decode.c -- converts a code object's bytes into internal instructions with resolved arguments
 * (stage d).
 *
 * Two passes.  The first walks the code units: caches and EXTENDED_ARG disappear, every other
 * instruction becomes up to three GmInsn (or completes the one before it), and `index` maps each
 * unit to its instruction.  The second turns jump targets and the exception table from units into
 * indices.  Bytes come from PyCode_GetCode, which undoes specialisation.  Invariant: a jump into
 * something dropped lands on the next instruction that exists.
 */
#include "core/objects/cpython.h"
#include <internal/pycore_code.h>

#include "core/bytecode/assemble.h"
#include "core/bytecode/decode.h"
#include "core/bytecode/handler_table.h"
#include "core/bytecode/lines.h"
#include "core/bytecode/opcodes.h"

#include "core/base/error.h"
#include "core/bytecode/liveness.h"

const GmOpcode gm_opcodes[256] = {
#define OPCODE(cpython, internal, how) [cpython] = { #cpython, GM_INSN_##internal, GM_HOW_##how },
#include "core/bytecode/opcodes.def"
};
const GmOpcode gm_intrinsics[2][GM_N_INTRINSICS] = {
#define INTRINSIC(arity, cpython, internal, how)                                                   \
  [arity - 1][INTRINSIC_##cpython] = { #cpython, GM_INSN_##internal, GM_HOW_##how },
#include "core/bytecode/opcodes.def"
};

typedef struct {
  PyCodeObject *co;
  const uint8_t *bytes;
  uint32_t n_units;
  GArray *insns;   /* GmInsn */
  uint32_t *index; /* by code unit, and for the end: its instruction, or the next instruction */
  PyObject *kwnames;
  bool returns_const; /* a RETURN_CONST needed no room on the stack; its LOAD_CONST does */
  /* The current instruction. */
  uint32_t at, first; /* the opcode's unit, and the first instruction made of it */
  GmCodeLines lines;
  GmInsn place; /* step, line and columns of the instructions appended next */
} Decoder;

static PyObject *
item_of (PyObject *tuple, uint32_t i)
{
  return i < (size_t) PyTuple_GET_SIZE (tuple) ? PyTuple_GET_ITEM (tuple, i) : NULL;
}

/* Sets the line, columns and step of the instructions appended next to those of the code unit
 * `at`. */
static void
locate (Decoder *d, uint32_t at)
{
  int line, col, end_line, end_col;
  gm_code_lines_at (&d->lines, at, &line, &col, &end_line, &end_col);
  d->place = (GmInsn){
    .step = 2 * at, .line = line, .col = col, .end_line = end_line, .end_col = end_col
  };
}

static GmInsn *
append (Decoder *d, GmInsnOp op, uint32_t arg, PyObject *obj)
{
  GmInsn insn = d->place;
  insn.op = op;
  insn.arg = arg;
  insn.obj = obj;
  g_array_append_val (d->insns, insn);
  return &g_array_index (d->insns, GmInsn, d->insns->len - 1);
}

/* Puts the instructions appended from here on into a step of their own: the second half of an
 * opcode that does two things. */
static void
second_half (Decoder *d)
{
  d->place.step |= 1;
}

static const char *
name_at (const Decoder *d)
{
  return gm_opcodes[d->bytes[2 * d->at]].name;
}

/* Appends an instruction; its operand is what insns.def describes, resolved where that is an
 * index. False with *error. */
static bool
append_same (Decoder *d, GmInsnOp op, uint32_t arg, GError **error)
{
  PyObject *obj = NULL;
  switch (gm_insns[op].operand) {
  case GM_OPERAND_CONST:
    obj = item_of (d->co->co_consts, arg);
    break;
  case GM_OPERAND_NAME:
    obj = item_of (d->co->co_names, arg);
    break;
  case GM_OPERAND_SLOT:
    if (arg < (uint32_t) d->co->co_nlocalsplus)
      break;
    g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME, "%s at unit %u names slot %u of %d",
                 name_at (d), d->at, arg, d->co->co_nlocalsplus);
    return false;
  default:
    break;
  }
  if (!obj
      && (gm_insns[op].operand == GM_OPERAND_CONST || gm_insns[op].operand == GM_OPERAND_NAME)) {
    g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME, "%s at unit %u has no operand %u", name_at (d),
                 d->at, arg);
    return false;
  }
  append (d, op, arg, obj);
  return true;
}

/* Appends a load of a variable, or, for a cell variable, of the cell.  False with *error. */
static bool
append_fast (Decoder *d, uint32_t slot, GError **error)
{
  bool cell =
      slot < (uint32_t) d->co->co_nlocalsplus
      && PyBytes_AS_STRING (d->co->co_localspluskinds)[slot] & (CO_FAST_CELL | CO_FAST_FREE);
  return append_same (d, cell ? GM_INSN_LOAD_CLOSURE : GM_INSN_LOAD_FAST, slot, error);
}

static bool
append_jump (Decoder *d, GmInsnOp op, uint32_t target, GError **error)
{
  if (target >= d->n_units) {
    g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME, "%s at unit %u jumps out of the code",
                 name_at (d), d->at);
    return false;
  }
  append (d, op, 0, NULL)->target = target; /* target: a unit, until decode_units resolves it */
  return true;
}

/* Returns the last instruction, which the present opcode completes, if it is an `op`; else NULL
 * with *error. */
static GmInsn *
before (Decoder *d, GmInsnOp op, GError **error)
{
  GmInsn *last = d->insns->len ? &g_array_index (d->insns, GmInsn, d->insns->len - 1) : NULL;
  if (last && last->op == op) {
    d->first = d->insns->len - 1;
    return last;
  }
  g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME, "%s at unit %u does not follow a %s", name_at (d),
               d->at, gm_insns[op].name);
  return NULL;
}

static bool
append_intrinsic (Decoder *d, GmInsnOp op, uint32_t arg)
{
  const GmOpcode *row =
      arg < GM_N_INTRINSICS ? &gm_intrinsics[op == GM_INSN_INTRINSIC_2][arg] : NULL;
  if (!row || row->how == GM_HOW_NONE) {
    append (d, op, arg, NULL);
    return true;
  }
  append (d, row->op, 0, NULL);
  if (row->how == GM_HOW_VOID)
    append (d, GM_INSN_LOAD_CONST, 0, Py_None);
  return true;
}

/* Appends the instructions that the opcode at d->at stands for.  row: of its table; `next`: the
 * unit after the opcode and its caches, from which jumps count.  False with *error. */
static bool
decode_one (Decoder *d, uint32_t next, const GmOpcode *row, uint32_t arg, GError **error)
{
  GmInsn *last;
  switch ((GmHow) row->how) {
  case GM_HOW_NONE:
    /* PyCode_GetCode has replaced the opcode by CACHE. */
    append (d, GM_INSN_UNKNOWN, (uint8_t) d->co->co_code_adaptive[2 * d->at], NULL);
    return true;
  case GM_HOW_SAME:
  case GM_HOW_ALIAS:
  case GM_HOW_FUNCTION:
    return append_same (d, row->op, arg, error);
  case GM_HOW_DROP:
  case GM_HOW_DROP_TWO:
    return true;
  case GM_HOW_FORWARD:
    return append_jump (d, row->op, next + arg, error);
  case GM_HOW_BACKWARD:
    return append_jump (d, row->op, next - arg, error);
  case GM_HOW_FORWARD_PAST:
    return append_jump (d, row->op, next + arg + 1, error);
  case GM_HOW_GLOBAL:
    if (arg & 1)
      append (d, GM_INSN_PUSH_NULL, 0, NULL);
    return append_same (d, row->op, arg >> 1, error);
  case GM_HOW_ATTR:
    return append_same (d, arg & 1 ? GM_INSN_LOAD_METHOD : row->op, arg >> 1, error);
  case GM_HOW_SUPER:
    if (!append_same (d, row->op, arg >> 2, error))
      return false;
    g_array_index (d->insns, GmInsn, d->insns->len - 1).arg = arg >> 1 & 1;
    if (arg & 1) {
      append (d, GM_INSN_PUSH_NULL, 0, NULL);
      append (d, GM_INSN_SWAP, 2, NULL);
    }
    return true;
  case GM_HOW_NULL_ABOVE:
    append (d, row->op, 0, NULL);
    append (d, GM_INSN_SWAP, 2, NULL);
    return true;
  case GM_HOW_COMPARE_4:
    append (d, row->op, arg >> 4, NULL);
    return true;
  case GM_HOW_COMPARE_5:
    append (d, row->op, arg >> 5, NULL);
    second_half (d);
    if (arg & 16)
      append (d, GM_INSN_TO_BOOL, 0, NULL);
    return true;
  case GM_HOW_FAST:
    return append_fast (d, arg, error);
  case GM_HOW_FAST_LOAD:
    if (!(row->op == GM_INSN_LOAD_FAST ? append_fast (d, arg >> 4, error)
                                       : append_same (d, row->op, arg >> 4, error)))
      return false;
    second_half (d);
    return append_fast (d, arg & 15, error);
  case GM_HOW_FAST_STORE:
    if (!append_same (d, row->op, arg >> 4, error))
      return false;
    second_half (d);
    return append_same (d, row->op, arg & 15, error);
  case GM_HOW_RETURN_CONST:
    if (!append_same (d, GM_INSN_LOAD_CONST, arg, error))
      return false;
    append (d, row->op, 0, NULL);
    d->returns_const = true;
    return true;
  case GM_HOW_CALL:
    append (d, row->op, arg, d->kwnames);
    d->kwnames = NULL;
    return true;
  case GM_HOW_KWNAMES:
    d->kwnames = item_of (d->co->co_consts, arg);
    return true;
  case GM_HOW_CALL_KW:
    last = before (d, GM_INSN_LOAD_CONST, error);
    if (!last)
      return false;
    d->place.op = row->op;
    d->place.arg = arg;
    d->place.obj = last->obj;
    *last = d->place;
    return true;
  case GM_HOW_FUNCTION_FLAG:
    last = before (d, row->op, error);
    if (!last)
      return false;
    last->arg |= arg;
    last->step = d->place.step; /* all of them are one step */
    return true;
  case GM_HOW_FORMAT_0: /* nothing follows a conversion, since its result is a str */
    last = d->insns->len ? &g_array_index (d->insns, GmInsn, d->insns->len - 1) : NULL;
    if (last && last->op == row->op && (last->arg & 3))
      last->step = d->place.step;
    else
      append (d, row->op, 0, NULL);
    return true;
  case GM_HOW_FORMAT_4:
    append (d, row->op, 4, NULL);
    return true;
  case GM_HOW_INTRINSIC:
    return append_intrinsic (d, row->op, arg);
  case GM_HOW_VOID:
    break;
  }
  g_assert_not_reached ();
}

static bool
decode_units (Decoder *d, GError **error)
{
  uint32_t arg = 0;
  uint32_t start = 0; /* first unit of the instruction, EXTENDED_ARGs included, where jumps lead */
  bool fresh = true;
  for (uint32_t at = 0; at < d->n_units; at++) {
    uint8_t opcode = d->bytes[2 * at];
    d->index[at] = d->insns->len;
    if (fresh)
      start = at;
    arg = arg << 8 | d->bytes[2 * at + 1];
    fresh = opcode != EXTENDED_ARG;
    if (!fresh)
      continue;
    uint32_t next = MIN (at + 1 + gm_assemble_caches (opcode), d->n_units);
    d->at = at;
    d->first = d->insns->len;
    locate (d, at);
    const GmOpcode *row = &gm_opcodes[opcode];
    if (!decode_one (d, next, row, arg, error))
      return false;
    for (uint32_t u = start; u <= at; u++)
      d->index[u] = d->first;
    if (row->how == GM_HOW_DROP_TWO && next < d->n_units)
      next++;
    while (at + 1 < next)
      d->index[++at] = d->insns->len;
    arg = 0;
  }
  d->index[d->n_units] = d->insns->len;
  for (uint32_t i = 0; i < d->insns->len; i++) {
    GmInsn *insn = &g_array_index (d->insns, GmInsn, i);
    if (gm_insns[insn->op].operand == GM_OPERAND_JUMP)
      insn->target = d->index[insn->target];
  }
  return true;
}

static GArray *
decode_handlers (Decoder *d)
{
  GArray *handlers = g_array_new (FALSE, TRUE, sizeof (GmHandler));
  g_autoptr (GArray) ranges = g_array_new (FALSE, FALSE, sizeof (GmRange));
  gm_handler_table_read (d->co, ranges);
  for (uint32_t k = 0; k < ranges->len; k++) {
    const GmRange *r = &g_array_index (ranges, GmRange, k);
    if (r->end > d->n_units || r->target >= d->n_units)
      break;
    GmHandler h = { .start = d->index[r->start],
                    .end = d->index[r->end],
                    .target = d->index[r->target],
                    .depth = r->depth,
                    .lasti = r->lasti };
    g_array_append_val (handlers, h);
    for (uint32_t i = h.start; i < h.end; i++)
      g_array_index (d->insns, GmInsn, i).handler = handlers->len;
  }
  return handlers;
}

static GmSlot *
decode_slots (PyCodeObject *co, uint32_t n_args)
{
  uint32_t n = (uint32_t) co->co_nlocalsplus;
  GmSlot *slots = g_new0 (GmSlot, MAX (n, 1));
  const char *kinds = PyBytes_AS_STRING (co->co_localspluskinds);
  for (uint32_t i = 0; i < n; i++) {
    slots[i].name = PyTuple_GET_ITEM (co->co_localsplusnames, i);
    slots[i].kind = (i < n_args ? GM_SLOT_ARG : 0) | (kinds[i] & CO_FAST_LOCAL ? GM_SLOT_LOCAL : 0)
                    | (kinds[i] & CO_FAST_CELL ? GM_SLOT_CELL : 0)
                    | (kinds[i] & CO_FAST_FREE ? GM_SLOT_FREE : 0);
  }
  return slots;
}

GmCode *
gm_decode_new (PyCodeObject *co, GError **error)
{
  PyObject *bytes = PyCode_GetCode (co);
  if (!bytes) {
    PyErr_Clear ();
    g_set_error_literal (error, GM_ERROR, GM_ERROR_MEMORY, "no memory for a copy of the bytecode");
    return NULL;
  }
  Decoder d = { .co = co,
                .bytes = (const uint8_t *) PyBytes_AS_STRING (bytes),
                .n_units = PyBytes_GET_SIZE (bytes) / 2,
                .insns = g_array_sized_new (FALSE, TRUE, sizeof (GmInsn),
                                            (guint) (PyBytes_GET_SIZE (bytes) / 4) + 8) };
  gm_code_lines_init (&d.lines, co);
  d.index = g_new0 (uint32_t, d.n_units + 1);
  GmCode *code = NULL;
  if (decode_units (&d, error)) {
    code = g_new0 (GmCode, 1);
    GArray *handlers = decode_handlers (&d);
    code->code = co;
    code->n_handlers = handlers->len;
    code->handlers = (GmHandler *) g_array_free (handlers, FALSE);
    code->n_insns = d.insns->len;
    code->flags = (uint32_t) co->co_flags;
    code->varargs = co->co_flags & CO_VARARGS;
    code->varkw = co->co_flags & CO_VARKEYWORDS;
    code->n_pos = (uint32_t) co->co_argcount;
    code->n_posonly = (uint32_t) co->co_posonlyargcount;
    code->n_kwonly = (uint32_t) co->co_kwonlyargcount;
    code->n_args = code->n_pos + code->n_kwonly + code->varargs + code->varkw;
    code->n_slots = (uint32_t) co->co_nlocalsplus;
    code->slots = decode_slots (co, code->n_args);
    code->n_free = (uint32_t) co->co_nfreevars;
    code->first_free = code->n_slots - code->n_free;
    code->stack_size = (uint32_t) co->co_stacksize + d.returns_const;
    code->insns = (GmInsn *) g_array_free (d.insns, FALSE);
  } else {
    g_array_free (d.insns, TRUE);
  }
  g_free (d.index);
  Py_DECREF (bytes);
  return code;
}

void
gm_code_free (GmCode *code)
{
  if (!code)
    return;
  gm_liveness_free (code->liveness);
  g_free ((void *) code->insns);
  g_free ((void *) code->handlers);
  g_free ((void *) code->slots);
  g_free (code);
}
