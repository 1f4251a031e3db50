/* SPDX-License-Identifier: Apache-2.0
 * assemble.c -- from residual instructions to a code object.
 *
 * Residual code is straight: no jumps, no handlers.  So one pass lays it out: prologue (COPY_FREE_VARS, MAKE_CELL, RESUME), then
 * each instruction with its EXTENDED_ARGs and the zero units of its caches.  The interpreter has no verifier: the stack depth is
 * summed from insns.def's effects, and a depth below zero is our bug.
 */
#include "core/python/cpython.h"
#define NEED_OPCODE_TABLES
#include <internal/pycore_opcode.h>

#include "core/python/assemble.h"

typedef enum { ASM_NONE, ASM_SAME, ASM_GLOBAL } AsmHow;
#define ASM_HOW_SAME ASM_SAME
#define ASM_HOW_GLOBAL ASM_GLOBAL
#define ASM_HOW_FORWARD ASM_NONE
#define ASM_HOW_BACKWARD ASM_NONE
#define ASM_HOW_CALL ASM_NONE
#define ASM_HOW_KWNAMES ASM_NONE
#define ASM_HOW_DROP ASM_NONE

static const struct {
  uint8_t opcode, internal, how;
} rows[] = {
#define OPCODE(cpython, internal, how) { cpython, GM_INSN_##internal, ASM_HOW_##how },
#include "core/python/opcodes.def"
};

typedef struct {
  GByteArray *bytes, *lines;
  PyObject *consts, *names; /* lists */
  int line;                 /* of the last entry of the line table */
  const uint32_t *place;    /* per residual slot: its place in localsplus */
} Assembler;

/* Place of `o` in `list`, appended if it is new; -1 with an exception.  By identity: 1, 1.0 and True are three constants. */
static int
intern (PyObject *list, PyObject *o)
{
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE (list); i++)
    if (PyList_GET_ITEM (list, i) == o)
      return (int) i;
  return PyList_Append (list, o) < 0 ? -1 : (int) PyList_GET_SIZE (list) - 1;
}

/* One entry of the line table for `units` code units: kind 13 is a line delta, 15 says that there is no place. */
static void
put_line (Assembler *a, uint32_t units, int line)
{
  for (; units > 0; units -= MIN (units, 8)) {
    uint8_t first = 0x80 | (line > 0 ? 13 : 15) << 3 | (MIN (units, 8) - 1);
    g_byte_array_append (a->lines, &first, 1);
    if (line <= 0)
      continue;
    int delta = line - a->line;
    uint32_t v = delta < 0 ? (uint32_t) -delta << 1 | 1 : (uint32_t) delta << 1;
    a->line = line;
    do {
      uint8_t byte = (v & 0x3f) | (v > 0x3f ? 0x40 : 0);
      g_byte_array_append (a->lines, &byte, 1);
      v >>= 6;
    } while (v);
  }
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
  put_line (a, (a->bytes->len - before) / 2, line);
}

static bool
put_insn (Assembler *a, const GmInsn *insn)
{
  int line = insn->line;
  if (insn->op == GM_INSN_CALL) {
    if (insn->obj) {
      int k = intern (a->consts, insn->obj);
      if (k < 0)
        return false;
      put (a, KW_NAMES, (uint32_t) k, line);
    }
    put (a, PRECALL, insn->arg, line);
    put (a, CALL, insn->arg, line);
    return true;
  }
  for (size_t r = 0; r < G_N_ELEMENTS (rows); r++) {
    if (rows[r].internal != insn->op || rows[r].how == ASM_NONE)
      continue;
    uint32_t arg = insn->arg;
    int k = 0;
    switch (gm_insns[insn->op].operand) {
    case GM_OPERAND_CONST:
      arg = (uint32_t) (k = intern (a->consts, insn->obj));
      break;
    case GM_OPERAND_NAME:
      arg = (uint32_t) (k = intern (a->names, insn->obj));
      if (rows[r].how == ASM_GLOBAL)
        arg <<= 1;
      break;
    case GM_OPERAND_SLOT:
      arg = a->place[insn->arg];
      break;
    default:
      break;
    }
    if (k < 0)
      return false;
    put (a, rows[r].opcode, arg, line);
    return true;
  }
  PyErr_Format (PyExc_SystemError, "residual code holds %s, which cannot be assembled", gm_insns[insn->op].name);
  return false;
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
    /* Temporaries may share a name with an argument; localsplus only needs names, not different ones. */
    if (PyList_Append (list, res->slots[i].name) < 0)
      Py_CLEAR (list);
  }
  PyObject *tuple = list ? PyList_AsTuple (list) : NULL;
  Py_XDECREF (list);
  return tuple;
}

/* localsplus is locals, then cells that are no locals, then free variables, each in the residual's order. */
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
  Assembler a = { .bytes = g_byte_array_new (), .lines = g_byte_array_new (), .consts = PyList_New (0),
                  .names = PyList_New (0), .line = original->co_firstlineno, .place = place };
  PyCodeObject *code = NULL;
  PyObject *bytes = NULL, *lines = NULL, *consts = NULL, *names = NULL, *handlers = PyBytes_FromString ("");
  PyObject *locals = names_of (res, GM_SLOT_LOCAL, GM_SLOT_FREE), *cells = names_of (res, GM_SLOT_CELL, GM_SLOT_FREE);
  PyObject *frees = names_of (res, GM_SLOT_FREE, 0);
  if (!a.consts || !a.names || !handlers || !locals || !cells || !frees)
    goto out;
  if (res->n_free)
    put (&a, COPY_FREE_VARS, res->n_free, 0);
  for (uint32_t i = 0; i < res->n_slots; i++)
    if (res->slots[i].kind & GM_SLOT_CELL)
      put (&a, MAKE_CELL, place[i], 0);
  put (&a, RESUME, 0, original->co_firstlineno);
  for (uint32_t i = 0; i < res->n_insns; i++)
    if (!put_insn (&a, &res->insns[i]))
      goto out;
  bytes = PyBytes_FromStringAndSize ((char *) a.bytes->data, a.bytes->len);
  lines = PyBytes_FromStringAndSize ((char *) a.lines->data, a.lines->len);
  consts = PyList_AsTuple (a.consts);
  names = PyList_AsTuple (a.names);
  if (!bytes || !lines || !consts || !names)
    goto out;
  int flags = CO_OPTIMIZED | CO_NEWLOCALS | (res->n_free ? CO_NESTED : 0);
  code = GM_CODE_NEW ((int) res->n_args, 0, 0, (int) PyTuple_GET_SIZE (locals), depth_of (res) + 1, flags, bytes, consts,
                      names, locals, frees, cells, original->co_filename, original->co_name, original->co_qualname,
                      original->co_firstlineno, lines, handlers);
out:
  Py_XDECREF (bytes);
  Py_XDECREF (lines);
  Py_XDECREF (consts);
  Py_XDECREF (names);
  Py_XDECREF (handlers);
  Py_XDECREF (locals);
  Py_XDECREF (cells);
  Py_XDECREF (frees);
  Py_XDECREF (a.consts);
  Py_XDECREF (a.names);
  g_byte_array_free (a.bytes, TRUE);
  g_byte_array_free (a.lines, TRUE);
  g_free (place);
  return code;
}
