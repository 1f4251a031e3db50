/* SPDX-License-Identifier: Apache-2.0
 * decode.c -- from a code object's bytes to internal instructions, with resolved arguments (stage d).
 *
 * Two passes.  The first walks the code units: CACHE and EXTENDED_ARG disappear, every other instruction becomes one or
 * two GmInsn, and `index` remembers which instruction a unit has become.  The second turns jump targets and the exception
 * table from units into indices.  Bytes come from PyCode_GetCode, which undoes specialisation.
 * Invariant: a jump into something dropped lands on the next instruction that is there.
 */
#include "core/python/cpython.h"

#include "core/python/decode.h"

#include "core/base/error.h"

typedef enum { NO_ROW, SAME, FORWARD, BACKWARD, GLOBAL, CALL_ROW, KWNAMES, DROP } How;
#define HOW_SAME SAME
#define HOW_FORWARD FORWARD
#define HOW_BACKWARD BACKWARD
#define HOW_GLOBAL GLOBAL
#define HOW_CALL CALL_ROW
#define HOW_KWNAMES KWNAMES
#define HOW_DROP DROP

static const struct {
  const char *name;
  uint8_t op, how;
} rows[256] = {
#define OPCODE(cpython, internal, how) [cpython] = { #cpython, GM_INSN_##internal, HOW_##how },
#include "core/python/opcodes.def"
};

typedef struct {
  PyCodeObject *co;
  const uint8_t *bytes;
  uint32_t n_units;
  GArray *insns;   /* GmInsn */
  uint32_t *index; /* per unit, and one past the last: the instruction it is, or the next one */
  PyObject *kwnames;
} Decoder;

static PyObject *
item_of (PyObject *tuple, uint32_t i)
{
  return i < (size_t) PyTuple_GET_SIZE (tuple) ? PyTuple_GET_ITEM (tuple, i) : NULL;
}

/* Line and columns of the unit at `at`. */
static void
locate (Decoder *d, uint32_t at, GmInsn *insn)
{
  int line, col, end_line, end_col;
  if (!PyCode_Addr2Location (d->co, (int) at * 2, &line, &col, &end_line, &end_col)) {
    line = end_line = col = end_col = -1;
  }
  insn->line = line;
  insn->col = col;
  insn->end_line = end_line;
  insn->end_col = end_col;
}

static void
append (Decoder *d, GmInsn insn)
{
  g_array_append_val (d->insns, insn);
}

/* Appends what the instruction at `at` is.  `next`: the unit after it and its caches; jumps count from there.
 * A jump's target is left as a unit. */
static bool
decode_one (Decoder *d, uint32_t at, uint32_t next, uint8_t opcode, uint32_t arg, GError **error)
{
  GmInsn insn = { .op = rows[opcode].op, .arg = arg };
  locate (d, at, &insn);
  switch (rows[opcode].how) {
  case DROP:
    return true;
  case KWNAMES:
    d->kwnames = item_of (d->co->co_consts, arg);
    return true;
  case NO_ROW:
    insn.op = GM_INSN_UNKNOWN;
    append (d, insn);
    return true;
  case GLOBAL:
    if (arg & 1) {
      GmInsn null = insn;
      null.op = GM_INSN_PUSH_NULL;
      null.arg = 0;
      append (d, null);
    }
    insn.arg = arg >> 1;
    break;
  case FORWARD:
    insn.target = next + arg;
    break;
  case BACKWARD:
    insn.target = next - arg;
    break;
  case CALL_ROW:
    insn.obj = d->kwnames;
    d->kwnames = NULL;
    append (d, insn);
    return true;
  }
  switch (gm_insns[insn.op].operand) {
  case GM_OPERAND_CONST:
    insn.obj = item_of (d->co->co_consts, insn.arg);
    break;
  case GM_OPERAND_NAME:
    insn.obj = item_of (d->co->co_names, insn.arg);
    break;
  case GM_OPERAND_SLOT:
    if (insn.arg >= (uint32_t) d->co->co_nlocalsplus) {
      g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME, "%s at unit %u names slot %u of %d", rows[opcode].name, at,
                   insn.arg, d->co->co_nlocalsplus);
      return false;
    }
    append (d, insn);
    return true;
  case GM_OPERAND_JUMP:
    if (insn.target >= d->n_units) {
      g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME, "%s at unit %u jumps out of the code", rows[opcode].name, at);
      return false;
    }
    append (d, insn);
    return true;
  default:
    append (d, insn);
    return true;
  }
  if (!insn.obj) {
    g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME, "%s at unit %u has no operand %u", rows[opcode].name, at, insn.arg);
    return false;
  }
  append (d, insn);
  return true;
}

static bool
decode_units (Decoder *d, GError **error)
{
  uint32_t arg = 0;
  uint32_t start = 0; /* where the instruction begins, EXTENDED_ARGs included: jumps go there */
  bool fresh = true;
  for (uint32_t at = 0; at < d->n_units; at++) {
    uint8_t opcode = d->bytes[2 * at];
    d->index[at] = d->insns->len;
    if (opcode == CACHE)
      continue;
    if (fresh)
      start = at;
    arg = arg << 8 | d->bytes[2 * at + 1];
    fresh = opcode != EXTENDED_ARG;
    if (!fresh)
      continue;
    uint32_t next = at + 1;
    while (next < d->n_units && d->bytes[2 * next] == CACHE)
      next++;
    uint32_t first = d->insns->len;
    if (!decode_one (d, at, next, opcode, arg, error))
      return false;
    for (uint32_t u = start; u <= at; u++)
      d->index[u] = first;
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

/* A number of the exception table: 6-bit groups, the most significant first, 0x40 on all bytes but the last. */
static uint32_t
varint (const uint8_t **p, const uint8_t *end)
{
  uint32_t v = 0;
  while (*p < end) {
    uint8_t byte = *(*p)++;
    v = v << 6 | (byte & 0x3f);
    if (!(byte & 0x40))
      break;
  }
  return v;
}

static GArray *
decode_handlers (Decoder *d)
{
  GArray *handlers = g_array_new (FALSE, TRUE, sizeof (GmHandler));
  const uint8_t *p = (const uint8_t *) PyBytes_AS_STRING (d->co->co_exceptiontable);
  const uint8_t *end = p + PyBytes_GET_SIZE (d->co->co_exceptiontable);
  while (p < end) {
    uint32_t start = varint (&p, end), length = varint (&p, end), target = varint (&p, end), depth = varint (&p, end);
    if (start + length > d->n_units || target >= d->n_units)
      break;
    GmHandler h = { .start = d->index[start], .end = d->index[start + length], .target = d->index[target],
                    .depth = depth >> 1, .lasti = depth & 1 };
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
    /* CPython's CO_FAST_LOCAL 0x20, CO_FAST_CELL 0x40, CO_FAST_FREE 0x80 */
    slots[i].kind = (i < n_args ? GM_SLOT_ARG : 0) | (kinds[i] & 0x20 ? GM_SLOT_LOCAL : 0)
                    | (kinds[i] & 0x40 ? GM_SLOT_CELL : 0) | (kinds[i] & 0x80 ? GM_SLOT_FREE : 0);
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
  Decoder d = { .co = co, .bytes = (const uint8_t *) PyBytes_AS_STRING (bytes), .n_units = PyBytes_GET_SIZE (bytes) / 2,
                .insns = g_array_new (FALSE, TRUE, sizeof (GmInsn)) };
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
    code->stack_size = (uint32_t) co->co_stacksize;
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
  g_free ((void *) code->insns);
  g_free ((void *) code->handlers);
  g_free ((void *) code->slots);
  g_free (code);
}
