/* SPDX-License-Identifier: Apache-2.0
 * python_span.c -- see python_span.h.
 *
 * If a frame cannot be taken apart (an exception is being handled, a generator is running), Python
 * executes the code around it: from a line at which the frame was still whole to the lines where it
 * can be whole again. The shape of the stack on the way is followed along all paths, handlers
 * included.
 * Invariant: no path leaves the stretch but through an exit, a return or a raise.
 */
#include "core/trace/python_span.h"

#include "core/bytecode/liveness.h"

/* -- Stacks ---------------------------------------------------------------- */

static uint64_t
bit (uint64_t bits, uint32_t k)
{
  return k < 64 ? bits >> k & 1 : 0;
}

static uint64_t
swapped (uint64_t bits, uint32_t a, uint32_t b)
{
  return bit (bits, a) == bit (bits, b) ? bits : bits ^ (1ull << a | 1ull << b);
}

static uint64_t
lowest (uint64_t bits, uint32_t n)
{
  return n < 64 ? bits & ((1ull << n) - 1) : bits;
}

static bool
has_local (const GmRecordStart *start, uint32_t slot)
{
  for (uint32_t i = 0; i < start->n_locals; i++)
    if (start->locals[i] == slot)
      return true;
  return false;
}

/* Returns the shape after the instruction; see python_span.h. NULLs below the instruction's
 * operands stay where they are; some instructions push new ones. */
GmStackShape
gm_stack_after (const GmRecordStart *start, const GmInsn *i, GmStackShape s, bool jumps)
{
  s.depth += (uint32_t) gm_insn_effect (i->op, i->arg, jumps);
  if (s.depth == 0 || s.depth > 63)
    return (GmStackShape){ .depth = s.depth };
  uint64_t top = 1ull << (s.depth - 1);
  s.nulls = lowest (s.nulls, s.depth);
  s.unbound = lowest (s.unbound, s.depth);
  switch (i->op) {
  case GM_INSN_CALL:
  case GM_INSN_CALL_FUNCTION_EX:
    s.nulls &= ~top;
    break;
  case GM_INSN_LOAD_METHOD:
    s.nulls |= top >> 1;
    break;
  case GM_INSN_PUSH_NULL:
    s.nulls |= top;
    break;
  case GM_INSN_LOAD_FAST_AND_CLEAR:
    s.unbound |= has_local (start, i->arg) ? 0 : top;
    break;
  case GM_INSN_SWAP:
    s.nulls = swapped (s.nulls, s.depth - 1, s.depth - i->arg);
    s.unbound = swapped (s.unbound, s.depth - 1, s.depth - i->arg);
    break;
  default:
    break;
  }
  return s;
}

/* -- Handlers -------------------------------------------------------------- */

/* Returns the first instruction of the handler that covers the instruction `insn`; 0: there is
 * none. The handler around a handler is found by a call with the handler's first instruction. */
static uint32_t
next_handler (const GmCode *code, uint32_t insn)
{
  uint32_t k = code->insns[insn].handler;
  return k ? code->handlers[k - 1].target : 0;
}

static bool
covers (const GmCode *code, uint32_t handler, uint32_t insn)
{
  uint32_t h = next_handler (code, insn);
  for (uint32_t n = 0; h && h != handler && n < code->n_handlers; n++)
    h = next_handler (code, h);
  return h == handler;
}

/* True if a handler of the user's covers the instruction. A handler without PUSH_EXC_INFO does not
 * count: it cleans up after an inlined comprehension and raises again. */
static bool
is_guarded (const GmCode *code, uint32_t insn)
{
  uint32_t h = next_handler (code, insn);
  for (uint32_t n = 0; h && n <= code->n_handlers; n++, h = next_handler (code, h))
    if (code->insns[h].op == GM_INSN_PUSH_EXC_INFO)
      return true;
  return false;
}

/* -- The stretch ----------------------------------------------------------- */

typedef struct {
  const GmCode *code;
  const GmRecordStart *start;
  bool leave;
  uint8_t *seen;
  GArray *work, *exits; /* GmSpanExit */
} Span;

static bool
is_exit (const Span *s, uint32_t from, uint32_t insn, GmStackShape stack)
{
  const GmInsn *insns = s->code->insns;
  uint32_t handler = next_handler (s->code, insn);
  if (insns[insn].line < 0 || insns[insn].line == insns[from].line || stack.depth > s->start->depth
      || stack.depth > 63 || stack.unbound != lowest (s->start->unbound, stack.depth)
      || gm_liveness_handling (gm_liveness_get (s->code), insn)
      || gm_code_raises_again (s->code, insn))
    return false;
  return s->leave ? !is_guarded (s->code, insn)
                  : !handler || covers (s->code, handler, s->start->insn);
}

static void
go (Span *s, uint32_t from, uint32_t insn, GmStackShape stack)
{
  if (insn >= s->code->n_insns || s->seen[insn])
    return;
  GmSpanExit next = { insn, stack };
  bool ends = is_exit (s, from, insn, stack);
  s->seen[insn] = true;
  g_array_append_val (ends ? s->exits : s->work, next);
}

static void
follow (Span *s, GmSpanExit at)
{
  const GmInsn *i = &s->code->insns[at.insn];
  if (i->handler) {
    const GmHandler *h = &s->code->handlers[i->handler - 1];
    GmStackShape cut = { h->depth + h->lasti + 1, lowest (at.stack.nulls, h->depth),
                         lowest (at.stack.unbound, h->depth) };
    go (s, at.insn, h->target, cut);
  }
  if (gm_insn_falls_through (i))
    go (s, at.insn, at.insn + 1, gm_stack_after (s->start, i, at.stack, false));
  if (gm_insns[i->op].operand == GM_OPERAND_JUMP)
    go (s, at.insn, i->target, gm_stack_after (s->start, i, at.stack, true));
}

static int
compare (gconstpointer a, gconstpointer b)
{
  uint32_t x = ((const GmSpanExit *) a)->insn, y = ((const GmSpanExit *) b)->insn;
  return (x > y) - (x < y);
}

/* Returns the exits that can be reached from `first`, as gm_python_span_exits does. */
static GArray *
find_exits (const GmCode *code, const GmRecordStart *start, bool leave, GmSpanExit first,
            GArray *insns)
{
  g_autofree uint8_t *seen = g_new0 (uint8_t, code->n_insns);
  g_autoptr (GArray) work = g_array_new (FALSE, FALSE, sizeof (GmSpanExit));
  Span s = { code, start, leave, seen, work, g_array_new (FALSE, FALSE, sizeof (GmSpanExit)) };
  g_array_append_val (work, first);
  while (work->len > 0) {
    GmSpanExit at = g_array_index (work, GmSpanExit, work->len - 1);
    g_array_set_size (work, work->len - 1);
    if (insns)
      g_array_append_val (insns, at.insn);
    follow (&s, at);
  }
  g_array_sort (s.exits, compare);
  return s.exits;
}

GArray *
gm_python_span_exits (const GmCode *code, const GmRecordStart *start, bool leave, GArray *insns)
{
  return find_exits (code, start, leave,
                     (GmSpanExit){ start->insn, { start->depth, start->nulls, start->unbound } },
                     insns);
}

GArray *
gm_python_span_handler_exits (const GmCode *code, const GmRecordStart *start, GArray *insns)
{
  const GmHandler *h = &code->handlers[code->insns[start->insn].handler - 1];
  GmStackShape cut = { h->depth + h->lasti + 1, lowest (start->nulls, h->depth),
                       lowest (start->unbound, h->depth) };
  return find_exits (code, start, false, (GmSpanExit){ h->target, cut }, insns);
}
