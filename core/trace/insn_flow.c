/* SPDX-License-Identifier: Apache-2.0
 * insn_flow.c -- jumps and loops: a branch is decided here and now, a loop is unrolled.
 */
#include "core/trace/insn_handlers.h"

void
gm_insn_jump (GmRecorder *r, const GmInsn *i)
{
  r->pc = i->target;
}

void
gm_insn_jump_if_false (GmRecorder *r, const GmInsn *i)
{
  if (!gm_truth (r, gm_pop (r)))
    r->pc = i->target;
}

void
gm_insn_jump_if_true (GmRecorder *r, const GmInsn *i)
{
  if (gm_truth (r, gm_pop (r)))
    r->pc = i->target;
}

static bool
is_none (GmRecorder *r, const GmTracker *t)
{
  return gm_is (r, t, gm_none (r))->real == Py_True;
}

void
gm_insn_jump_if_none (GmRecorder *r, const GmInsn *i)
{
  if (is_none (r, gm_pop (r)))
    r->pc = i->target;
}

void
gm_insn_jump_if_not_none (GmRecorder *r, const GmInsn *i)
{
  if (!is_none (r, gm_pop (r)))
    r->pc = i->target;
}

void
gm_insn_false_or_pop (GmRecorder *r, const GmInsn *i)
{
  if (!gm_truth (r, gm_peek (r, 1)))
    r->pc = i->target;
  else
    gm_pop (r);
}

void
gm_insn_true_or_pop (GmRecorder *r, const GmInsn *i)
{
  if (gm_truth (r, gm_peek (r, 1)))
    r->pc = i->target;
  else
    gm_pop (r);
}

void
gm_insn_get_iter (GmRecorder *r, const GmInsn *i)
{
  gm_push (r, gm_iter (r, gm_pop (r)));
}

void
gm_insn_for_iter (GmRecorder *r, const GmInsn *i)
{
  const GmTracker *item = gm_next (r, gm_peek (r, 1));
  if (item) {
    gm_push (r, item);
  } else {
    gm_pop (r);
    r->pc = i->target;
  }
}

void
gm_insn_get_len (GmRecorder *r, const GmInsn *i)
{
  gm_push (r, gm_from_int (r, gm_len (r, gm_peek (r, 1))));
}

/* -- Instructions that are not traced ---------------------------------------------------------- */

void
gm_insn_unsupported (GmRecorder *r, const GmInsn *i)
{
  switch (i->op) {
  case GM_INSN_GET_AWAITABLE:
    gm_record_break (r, GM_BREAK_GENERATOR, PyUnicode_AsUTF8 (r->frame->code->code->co_name));
    return;
  case GM_INSN_UNKNOWN:
    gm_record_break (r, GM_BREAK_UNSUPPORTED_INSN,
                     gm_arena_printf (r->arena, "number %u of CPython %d.%d", i->arg,
                                      PY_MAJOR_VERSION, PY_MINOR_VERSION));
    return;
  default:
    gm_record_break (r, GM_BREAK_UNSUPPORTED_INSN, gm_insns[i->op].name);
  }
}
