/* SPDX-License-Identifier: Apache-2.0
 * liveness.c -- backward data flow over decoded instructions, and a forward one for handlers.
 *
 * A variable is live before an instruction that reads it, and before one whose successor needs it
 * unless the instruction writes it. Any instruction that a handler covers may go there, before it
 * has written anything. Cells are always passed on and are not analysed. Code that can see its own
 * variables by name (locals, eval, exec, vars, dir) keeps them all.
 * Invariant: a variable that is not live may be left unbound, and no program can tell.
 */
#include "core/bytecode/liveness.h"

#include <string.h>

struct GmLiveness {
  uint32_t n_insns, n_words;
  bool all; /* true if the code reads variables by name: all are live */
  /* tables: n_insns rows of n_words, a bit for each slot */
  uint64_t *live;
  uint64_t *empty, *deleted; /* empty: read or deleted before it is written; deleted: deleted at
                                all. Made on first use */
  uint8_t *levels;           /* number of exceptions being handled, plus 1; 0: never reached */
};

/* -- Flow ------------------------------------------------------------------ */

bool
gm_insn_falls_through (const GmInsn *i)
{
  return i->op != GM_INSN_JUMP && i->op != GM_INSN_RETURN_VALUE && i->op != GM_INSN_RERAISE
         && i->op != GM_INSN_RAISE_VARARGS;
}

static bool
merge (uint64_t *row, const uint64_t *from, uint32_t n)
{
  uint64_t changed = 0;
  for (uint32_t w = 0; w < n; w++) {
    changed |= from[w] & ~row[w];
    row[w] |= from[w];
  }
  return changed != 0;
}

/* Effect of an instruction on the bit of its slot in a table: none, sets the bit, clears it. */
typedef enum { NOTHING, ASKS, SETTLES } Effect;

static Effect
live_effect (GmInsnOp op)
{
  switch (op) {
  case GM_INSN_STORE_FAST:
    return SETTLES;
  case GM_INSN_LOAD_FAST:
  case GM_INSN_LOAD_CLOSURE: /* the variable that replaces a cell, see resume.c */
  case GM_INSN_LOAD_FAST_AND_CLEAR:
  case GM_INSN_DELETE_FAST:
    return ASKS;
  default:
    return NOTHING;
  }
}

static Effect
empty_effect (GmInsnOp op)
{
  return op == GM_INSN_STORE_DEREF                                ? SETTLES
         : op == GM_INSN_LOAD_DEREF || op == GM_INSN_DELETE_DEREF ? ASKS
                                                                  : NOTHING;
}

static Effect
deleted_effect (GmInsnOp op)
{
  return op == GM_INSN_DELETE_DEREF ? ASKS : NOTHING;
}

static bool
visit (const GmLiveness *l, const GmCode *code, Effect (*effect) (GmInsnOp op), uint64_t *rows,
       uint32_t k, uint64_t *row)
{
  const GmInsn *i = &code->insns[k];
  memset (row, 0, l->n_words * sizeof *row);
  if (gm_insn_falls_through (i) && k + 1 < code->n_insns)
    merge (row, rows + (size_t) (k + 1) * l->n_words, l->n_words);
  if (gm_insns[i->op].operand == GM_OPERAND_JUMP)
    merge (row, rows + (size_t) i->target * l->n_words, l->n_words);
  Effect what = effect (i->op);
  if (what == SETTLES)
    row[i->arg / 64] &= ~(1ull << (i->arg % 64));
  else if (what == ASKS)
    row[i->arg / 64] |= 1ull << (i->arg % 64);
  if (i->handler)
    merge (row, rows + (size_t) code->handlers[i->handler - 1].target * l->n_words, l->n_words);
  return merge (rows + (size_t) k * l->n_words, row, l->n_words);
}

/* Returns a new table with a row of bits, one for each slot, for each instruction; computed
 * backwards until nothing changes.  effect: of an instruction on its slot's bit. */
static uint64_t *
flow (const GmLiveness *l, const GmCode *code, Effect (*effect) (GmInsnOp op))
{
  g_autofree uint64_t *row = g_new (uint64_t, l->n_words);
  uint64_t *rows = g_new0 (uint64_t, (size_t) l->n_words * MAX (1, l->n_insns));
  for (bool again = true; again;) {
    again = false;
    for (uint32_t k = code->n_insns; k-- > 0;)
      again |= visit (l, code, effect, rows, k, row);
  }
  return rows;
}

static void
reach (GmLiveness *l, GArray *work, uint32_t k, uint8_t level)
{
  if (k >= l->n_insns || l->levels[k] >= level)
    return;
  l->levels[k] = level;
  g_array_append_val (work, k);
}

/* True if an instruction of a handler may raise; instructions that only move or drop the
 * handler's own exception do not. */
static bool
may_raise (GmInsnOp op)
{
  return op != GM_INSN_COPY && op != GM_INSN_SWAP && op != GM_INSN_POP_EXCEPT
         && op != GM_INSN_PUSH_EXC_INFO && op != GM_INSN_NOP;
}

static void
flow_levels (GmLiveness *l, const GmCode *code)
{
  g_autoptr (GArray) work = g_array_new (FALSE, FALSE, sizeof (uint32_t));
  reach (l, work, 0, 1);
  while (work->len > 0) {
    uint32_t k = g_array_index (work, uint32_t, work->len - 1);
    g_array_set_size (work, work->len - 1);
    const GmInsn *i = &code->insns[k];
    uint8_t level = l->levels[k];
    if (i->handler && may_raise (i->op))
      reach (l, work, code->handlers[i->handler - 1].target, level);
    if (i->op == GM_INSN_PUSH_EXC_INFO && level < 200)
      level++;
    if (i->op == GM_INSN_POP_EXCEPT && level > 1)
      level--;
    if (gm_insn_falls_through (i))
      reach (l, work, k + 1, level);
    if (gm_insns[i->op].operand == GM_OPERAND_JUMP)
      reach (l, work, i->target, level);
  }
}

/* -- The analysis ---------------------------------------------------------- */

static bool
uses_name (PyCodeObject *co, const char *const *names, size_t n)
{
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE (co->co_names); i++)
    for (size_t k = 0; k < n; k++)
      if (PyUnicode_CompareWithASCIIString (PyTuple_GET_ITEM (co->co_names, i), names[k]) == 0)
        return true;
  return false;
}

static bool
reads_by_name (PyCodeObject *co)
{
  static const char *const names[] = { "locals", "eval", "exec", "vars", "dir", "_getframe" };
  return uses_name (co, names, G_N_ELEMENTS (names));
}

bool
gm_liveness_sees_frame (const GmCode *code)
{
  static const char *const names[] = { "_getframe", "currentframe", "tb_frame" };
  return uses_name (code->code, names, G_N_ELEMENTS (names));
}

/* True if the code calls super () without arguments, which reads the first argument in the
 * frame. */
static bool
uses_super (const GmCode *code)
{
  for (uint32_t i = 0; i < code->n_free; i++)
    if (PyUnicode_CompareWithASCIIString (code->slots[code->first_free + i].name, "__class__") == 0)
      return true;
  return false;
}

const GmLiveness *
gm_liveness_get (const GmCode *code)
{
  if (code->liveness)
    return code->liveness;
  GmLiveness *l = g_new0 (GmLiveness, 1);
  l->n_insns = code->n_insns;
  l->n_words = MAX (1, (code->n_slots + 63) / 64);
  l->all = reads_by_name (code->code);
  l->live = flow (l, code, live_effect);
  l->levels = g_new0 (uint8_t, MAX (1, l->n_insns));
  for (uint32_t k = 0; k < l->n_insns && uses_super (code); k++)
    l->live[(size_t) k * l->n_words] |= 1;
  flow_levels (l, code);
  ((GmCode *) code)->liveness = l;
  return l;
}

void
gm_liveness_free (GmLiveness *l)
{
  if (l == NULL)
    return;
  g_free (l->live);
  g_free (l->empty);
  g_free (l->deleted);
  g_free (l->levels);
  g_free (l);
}

bool
gm_liveness_live (const GmLiveness *l, uint32_t insn, uint32_t slot)
{
  if (l->all)
    return true;
  return l->live[(size_t) insn * l->n_words + slot / 64] >> (slot % 64) & 1;
}

bool
gm_liveness_finds_empty (const GmCode *code, uint32_t insn, uint32_t slot, bool empty)
{
  GmLiveness *l = (GmLiveness *) gm_liveness_get (code);
  if (!l->deleted) {
    l->empty = flow (l, code, empty_effect);
    l->deleted = flow (l, code, deleted_effect);
  }
  size_t at = (size_t) insn * l->n_words + slot / 64;
  return (l->deleted[at] | (empty ? l->empty[at] : 0)) >> (slot % 64) & 1;
}

bool
gm_liveness_handling (const GmLiveness *l, uint32_t insn)
{
  return l->levels[insn] > 1;
}
