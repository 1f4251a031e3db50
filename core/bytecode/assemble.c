/* SPDX-License-Identifier: Apache-2.0
 * assemble.c -- makes a code object from residual instructions.
 *
 * Residual code is straight: no jumps, no handlers.  So one pass lays it out: prologue
 * (COPY_FREE_VARS, MAKE_CELL, RESUME), then each instruction with its EXTENDED_ARGs and the zero
 * units of its caches.  The interpreter has no verifier: the stack depth is summed from insns.def's
 * effects, and a depth below zero is our bug.  Since 3.13 the NULL of a call lies above the
 * callable, internally below: nulls_place finds the instruction after which the callable is
 * complete.
 */
#include "core/objects/cpython.h"
#if PY_VERSION_HEX < 0x030d0000
#define NEED_OPCODE_TABLES
#include <internal/pycore_opcode.h>
#else
#define NEED_OPCODE_METADATA
#include <internal/pycore_opcode_metadata.h>
#endif

#include "core/bytecode/assemble.h"
#include "core/bytecode/lines.h"
#include "core/bytecode/opcodes.h"

typedef struct {
  GByteArray *bytes, *lines;
  PyObject *consts, *names;      /* lists */
  int line;                      /* line of the last entry of the line table */
  const uint32_t *place;         /* by residual slot: its place in localsplus */
  uint32_t *nulls;               /* by instruction: number of NULLs to push after it */
  uint8_t opcode_of[GM_N_INSNS]; /* 0: none */
  uint8_t how_of[GM_N_INSNS];
} Assembler;

/* Fills opcode_of, the inverse of the table of opcodes: for each internal instruction the opcode
 * that writes it. */
static void
opcodes_reverse (Assembler *a)
{
  for (int k = 0; k < 256; k++) {
    const GmOpcode *row = &gm_opcodes[k];
    switch (row->how) {
    case GM_HOW_FAST:
      a->opcode_of[GM_INSN_LOAD_CLOSURE] = (uint8_t) k;
      G_GNUC_FALLTHROUGH;
    case GM_HOW_SAME:
    case GM_HOW_GLOBAL:
    case GM_HOW_ATTR:
    case GM_HOW_SUPER:
    case GM_HOW_NULL_ABOVE:
    case GM_HOW_COMPARE_4:
    case GM_HOW_COMPARE_5:
    case GM_HOW_FUNCTION:
    case GM_HOW_CALL:
      a->opcode_of[row->op] = (uint8_t) k;
      a->how_of[row->op] = row->how;
      break;
    default:
      break;
    }
  }
}

/* True if instruction i pushes a NULL that is already where 3.13 expects it, above the callable:
 * the decoder makes PUSH_NULL, SWAP 2 of that. */
static bool
null_is_above (const GmResidual *res, uint32_t i)
{
  return res->insns[i].op == GM_INSN_PUSH_NULL && i + 1 < res->n_insns
         && res->insns[i + 1].op == GM_INSN_SWAP && res->insns[i + 1].arg == 2;
}

/* Fills a->nulls: after each instruction, the number of NULLs to push there.  The NULL of a call
 * belongs after the last instruction that leaves its callable on top of the stack, at the depth of
 * NULL and callable: all later instructions, up to the call, work on the arguments.  Before that
 * the stack may fall back to the NULL, where parts of the callable go through variables. */
static void
nulls_place (Assembler *a, const GmResidual *res)
{
  typedef struct {
    int depth; /* including the NULL */
    /* Index after the instruction that completes the callable, as far as is known. */
    uint32_t after;
  } Null;
  g_autoptr (GArray) open = g_array_new (FALSE, FALSE, sizeof (Null));
  int depth = 0;
  for (uint32_t i = 0; i < res->n_insns; i++) {
    GmInsnOp op = res->insns[i].op;
    bool calls = op == GM_INSN_CALL || op == GM_INSN_CALL_FUNCTION_EX;
    depth += gm_insn_effect (op, res->insns[i].arg, false);
    for (; open->len; g_array_set_size (open, open->len - 1)) {
      Null *top = &g_array_index (open, Null, open->len - 1);
      if (depth == top->depth + 1)
        top->after = i;
      if (depth > top->depth || (depth == top->depth && !calls))
        break;
      a->nulls[top->after]++;
    }
    if (null_is_above (res, i)) {
      a->nulls[i]++;
    } else if (res->insns[i].op == GM_INSN_PUSH_NULL) {
      Null null = { depth, i };
      g_array_append_val (open, null);
    }
  }
}

/* Returns the index of `o` in `list`, appended if it is new; -1 with an exception.  Compares by
 * identity, since 1, 1.0 and True are three constants. */
static int
intern (PyObject *list, PyObject *o)
{
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE (list); i++)
    if (PyList_GET_ITEM (list, i) == o)
      return (int) i;
  return PyList_Append (list, o) < 0 ? -1 : (int) PyList_GET_SIZE (list) - 1;
}

static void
put (Assembler *a, uint8_t opcode, uint32_t arg, int line)
{
  uint32_t before = a->bytes->len;
  for (int shift = 24; shift > 0; shift -= 8)
    if (arg >> shift) {
      uint8_t unit[2] = { EXTENDED_ARG, (uint8_t) (arg >> shift) };
      g_byte_array_append (a->bytes, unit, 2);
    }
  uint8_t unit[2] = { opcode, (uint8_t) arg };
  g_byte_array_append (a->bytes, unit, 2);
  static const uint8_t zero[2];
  for (int i = 0; i < _PyOpcode_Caches[opcode]; i++)
    g_byte_array_append (a->bytes, zero, 2);
  gm_code_lines_put (a->lines, (a->bytes->len - before) / 2, &a->line, line > 0 ? line : -1, -1, -1,
                     -1);
}

static bool
put_const (Assembler *a, uint8_t opcode, PyObject *obj, int line)
{
  int k = intern (a->consts, obj);
  if (k >= 0)
    put (a, opcode, (uint32_t) k, line);
  return k >= 0;
}

static bool
put_call (Assembler *a, const GmInsn *insn)
{
#if PY_VERSION_HEX < 0x030d0000
  if (insn->obj && !put_const (a, KW_NAMES, insn->obj, insn->line))
    return false;
#if PY_VERSION_HEX < 0x030c0000
  put (a, PRECALL, insn->arg, insn->line);
#endif
  put (a, CALL, insn->arg, insn->line);
#else
  if (insn->obj && !put_const (a, LOAD_CONST, insn->obj, insn->line))
    return false;
  put (a, insn->obj ? CALL_KW : CALL, insn->arg, insn->line);
#endif
  return true;
}

/* Writes an instruction that has no opcode of its own, by an intrinsic or by other opcodes.
 * False: there is no such form either. */
static bool
put_other (Assembler *a, const GmInsn *insn)
{
#if PY_VERSION_HEX >= 0x030c0000
  for (int arity = 1; arity <= 2; arity++)
    for (uint32_t k = 0; k < GM_N_INTRINSICS; k++) {
      const GmOpcode *row = &gm_intrinsics[arity - 1][k];
      if (row->how != GM_HOW_SAME || row->op != insn->op)
        continue;
      put (a, arity == 1 ? CALL_INTRINSIC_1 : CALL_INTRINSIC_2, k, insn->line);
      return true;
    }
#endif
#if PY_VERSION_HEX >= 0x030d0000
  if (insn->op == GM_INSN_FORMAT_VALUE && (insn->arg & 4) == 0) {
    if (insn->arg & 3)
      put (a, CONVERT_VALUE, insn->arg & 3, insn->line);
    put (a, FORMAT_SIMPLE, 0, insn->line);
    return true;
  }
  if (insn->op == GM_INSN_FORMAT_VALUE && insn->arg == 4) {
    put (a, FORMAT_WITH_SPEC, 0, insn->line);
    return true;
  }
#endif
  return false;
}

/* Returns the instruction's operand as CPython numbers it: an index of a constant, of a name or
 * of a variable, or `arg` itself, before `how` packs it; -1 with an exception. */
static int64_t
operand_of (Assembler *a, const GmInsn *insn)
{
  switch (gm_insns[insn->op].operand) {
  case GM_OPERAND_CONST:
    return intern (a->consts, insn->obj);
  case GM_OPERAND_NAME:
    return intern (a->names, insn->obj);
  case GM_OPERAND_SLOT:
    return a->place[insn->arg];
  default:
    return insn->arg;
  }
}

/* Low bits of COMPARE_OP's argument by operator: less 2, greater 4, equal 8, unordered 1.
 * Specialised code reads them. */
static const uint8_t compare_masks[6] = { 2, 2 | 8, 8, 1 | 2 | 4, 4, 4 | 8 };

/* Writes an instruction.  *nulls: number of NULLs to push after it; decremented if the
 * instruction pushes a NULL itself.  False with an exception. */
static bool
put_insn (Assembler *a, const GmInsn *insn, uint32_t *nulls)
{
  int line = insn->line;
  uint8_t opcode = a->opcode_of[insn->op];
  int64_t k = operand_of (a, insn);
  if (k < 0)
    return false;
  uint32_t arg = (uint32_t) k;
  if (insn->op == GM_INSN_LOAD_METHOD && !opcode) {
    put (a, LOAD_ATTR, arg << 1 | 1, line);
    return true;
  }
  if (!opcode) {
    if (put_other (a, insn))
      return true;
    PyErr_Format (PyExc_SystemError, "residual code holds %s, which cannot be assembled",
                  gm_insns[insn->op].name);
    return false;
  }
  switch (a->how_of[insn->op]) {
  case GM_HOW_NULL_ABOVE: /* the NULL is written elsewhere: nulls_place */
    return true;
  case GM_HOW_CALL:
    return put_call (a, insn);
  case GM_HOW_GLOBAL:
    arg = arg << 1 | (*nulls > 0);
    *nulls -= *nulls > 0;
    break;
  case GM_HOW_ATTR:
    arg <<= 1;
    break;
  case GM_HOW_SUPER:
    arg = arg << 2 | insn->arg << 1;
    break;
  case GM_HOW_COMPARE_4:
    arg = arg << 4 | compare_masks[arg];
    break;
  case GM_HOW_COMPARE_5:
    arg = arg << 5 | compare_masks[arg];
    break;
  case GM_HOW_FUNCTION:
#if PY_VERSION_HEX >= 0x030d0000
    put (a, MAKE_FUNCTION, 0, line);
    for (uint32_t flag = 8; flag; flag >>= 1)
      if (arg & flag)
        put (a, SET_FUNCTION_ATTRIBUTE, flag, line);
    return true;
#endif
  default:
    break;
  }
  put (a, opcode, arg, line);
  return true;
}

static int
depth_of (const GmResidual *res)
{
  int depth = 0, most = 0;
  for (uint32_t i = 0; i < res->n_insns; i++) {
    depth += gm_insn_effect (res->insns[i].op, res->insns[i].arg, false);
    g_assert (depth >= 0);
    most = MAX (most, depth);
  }
  return MAX (most, (int) res->stack_size);
}

static PyObject *
names_of (const GmResidual *res, uint32_t kind, uint32_t not_kind)
{
  PyObject *list = PyList_New (0);
  for (uint32_t i = 0; list && i < res->n_slots; i++) {
    if (!(res->slots[i].kind & kind) || (res->slots[i].kind & not_kind))
      continue;
    /* Temporaries may share a name with an argument; localsplus only needs names, not different
     * ones. */
    if (PyList_Append (list, res->slots[i].name) < 0)
      Py_CLEAR (list);
  }
  PyObject *tuple = list ? PyList_AsTuple (list) : NULL;
  Py_XDECREF (list);
  return tuple;
}

/* Returns, for each slot of the residual, its place in localsplus: locals, then cells that are
 * no locals, then free variables, each in the residual's order.  The caller frees. */
static uint32_t *
places_of (const GmResidual *res)
{
  uint32_t *place = g_new (uint32_t, MAX (res->n_slots, 1)), next = 0;
  for (int pass = 0; pass < 3; pass++)
    for (uint32_t i = 0; i < res->n_slots; i++) {
      uint8_t kind = res->slots[i].kind;
      int group = kind & GM_SLOT_FREE ? 2 : kind & GM_SLOT_LOCAL ? 0 : 1;
      if (group == pass)
        place[i] = next++;
    }
  return place;
}

PyCodeObject *
gm_assemble_residual (const GmResidual *res, PyCodeObject *original)
{
  uint32_t *place = places_of (res);
  Assembler a = { .bytes = g_byte_array_new (),
                  .lines = g_byte_array_new (),
                  .consts = PyList_New (0),
                  .names = PyList_New (0),
                  .line = original->co_firstlineno,
                  .place = place,
                  .nulls = g_new0 (uint32_t, MAX (res->n_insns, 1)) };
  PyCodeObject *code = NULL;
  PyObject *bytes = NULL, *lines = NULL, *consts = NULL, *names = NULL, *none = PyTuple_New (0),
           *handlers = PyBytes_FromString ("");
  PyObject *locals = names_of (res, GM_SLOT_LOCAL, GM_SLOT_FREE),
           *cells = names_of (res, GM_SLOT_CELL, GM_SLOT_FREE);
  PyObject *frees = names_of (res, GM_SLOT_FREE, 0);
  opcodes_reverse (&a);
  bool above = a.how_of[GM_INSN_PUSH_NULL] == GM_HOW_NULL_ABOVE;
  if (above)
    nulls_place (&a, res);
  if (!a.consts || !a.names || !none || !handlers || !locals || !cells || !frees)
    goto out;
  if (res->n_free)
    put (&a, COPY_FREE_VARS, res->n_free, 0);
  for (uint32_t i = 0; i < res->n_slots; i++)
    if (res->slots[i].kind & GM_SLOT_CELL)
      put (&a, MAKE_CELL, place[i], 0);
  put (&a, RESUME, GM_RESUME_QUIETLY, original->co_firstlineno);
  for (uint32_t i = 0; i < res->n_insns; i++) {
    if (!put_insn (&a, &res->insns[i], &a.nulls[i]))
      goto out;
    for (uint32_t k = 0; k < a.nulls[i]; k++)
      put (&a, PUSH_NULL, 0, res->insns[i].line);
    if (above && null_is_above (res, i))
      i++; /* skips the SWAP */
  }
  bytes = PyBytes_FromStringAndSize ((char *) a.bytes->data, a.bytes->len);
  lines = PyBytes_FromStringAndSize ((char *) a.lines->data, a.lines->len);
  consts = PyList_AsTuple (a.consts);
  names = PyList_AsTuple (a.names);
  if (!bytes || !lines || !consts || !names)
    goto out;
  int flags = CO_OPTIMIZED | CO_NEWLOCALS | (res->n_free ? CO_NESTED : 0);
  code = GM_CODE_NEW ((int) res->n_args, 0, 0, (int) PyTuple_GET_SIZE (locals), depth_of (res) + 1,
                      flags, bytes, none, names, locals, frees, cells, original->co_filename,
                      original->co_name, original->co_qualname, original->co_firstlineno, lines,
                      handlers);
  gm_assemble_consts (code, consts);
out:
  Py_XDECREF (bytes);
  Py_XDECREF (lines);
  Py_XDECREF (consts);
  Py_XDECREF (none);
  Py_XDECREF (names);
  Py_XDECREF (handlers);
  Py_XDECREF (locals);
  Py_XDECREF (cells);
  Py_XDECREF (frees);
  Py_XDECREF (a.consts);
  Py_XDECREF (a.names);
  g_byte_array_free (a.bytes, TRUE);
  g_byte_array_free (a.lines, TRUE);
  g_free (a.nulls);
  g_free (place);
  return code;
}

uint32_t
gm_assemble_caches (uint8_t opcode)
{
  return _PyOpcode_Caches[opcode];
}
