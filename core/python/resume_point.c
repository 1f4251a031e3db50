/* SPDX-License-Identifier: Apache-2.0
 * resume_point.c -- the points at which a code object is taken up, and how its resume functions lead back to it.
 *
 * A point's key is in terms of the original code, which the rest of a function is recorded from, too: so all paths to one place
 * share one point, and the time that a break takes does not depend on how much comes after it.  Invariant: a point that goes on has, when it is made,
 * the points that it goes on to.
 */
#include "core/python/cpython.h"

#include "core/python/code_cache.h"
#include "core/python/resume_code.h"
#include "core/python/resume_original.h"
#include "core/trace/liveness.h"

#include <string.h>

PyObject *gm_resume_marker[2];

/* -- Points -------------------------------------------------------------------------------------------------------- */

static guint
point_hash (gconstpointer p)
{
  const GmResumePoint *point = p;
  const GmRecordStart *a = &point->at;
  uint64_t bits = a->nulls ^ a->unbound << 1 ^ a->away << 2;
  guint h = point->kind + 7 * a->insn + 131 * a->depth + 31 * (guint) bits + 17 * (guint) (bits >> 32);
  for (uint32_t i = 0; i < a->n_locals; i++)
    h = h * 33 + a->locals[i];
  return h;
}

static gboolean
point_equal (gconstpointer p, gconstpointer q)
{
  const GmRecordStart *a = &((const GmResumePoint *) p)->at, *b = &((const GmResumePoint *) q)->at;
  return ((const GmResumePoint *) p)->kind == ((const GmResumePoint *) q)->kind && a->insn == b->insn && a->depth == b->depth
         && a->nulls == b->nulls && a->unbound == b->unbound && a->away == b->away && a->n_locals == b->n_locals
         && (a->n_locals == 0 || memcmp (a->locals, b->locals, a->n_locals * sizeof (uint32_t)) == 0);
}

GmResumePoint *
gm_resume_point_ref (GmResumePoint *point)
{
  g_atomic_ref_count_inc (&point->refs);
  return point;
}

void
gm_resume_point_unref (GmResumePoint *point)
{
  if (!point || !g_atomic_ref_count_dec (&point->refs))
    return;
  for (int k = 0; k < 2; k++)
    gm_resume_point_unref (point->next[k]);
  Py_XDECREF (point->code);
  gm_code_cache_free (point->cache);
  gm_original_unref (point->original);
  g_free ((void *) point->at.locals);
  g_free (point);
}

GPtrArray *
gm_resume_table_caches (GHashTable *table)
{
  GPtrArray *caches = g_ptr_array_new ();
  GHashTableIter iter;
  void *value;
  g_hash_table_iter_init (&iter, table);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    if (((const GmResumePoint *) value)->cache)
      g_ptr_array_add (caches, ((const GmResumePoint *) value)->cache);
  return caches;
}

void
gm_resume_table_free (GHashTable *table)
{
  if (!table)
    return;
  g_autoptr (GPtrArray) caches = gm_resume_table_caches (table);
  for (uint32_t i = 0; i < caches->len; i++)
    gm_code_cache_reset (caches->pdata[i]); /* its entries may hold the point that holds it */
  g_hash_table_unref (table);
}

static GmResumePoint *point_get (GmOriginal *o, GmPointKind kind, const GmRecordStart *key, const char **why);

/* What is known of a stack: its depth, and which entries are NULL, of either kind. */
typedef struct {
  uint32_t depth;
  uint64_t nulls, unbound;
} Stack;

static uint64_t
swapped (uint64_t bits, uint32_t a, uint32_t b)
{
  return gm_point_bit (bits, a) == gm_point_bit (bits, b) ? bits : bits ^ (1ull << a | 1ull << b);
}

static bool
has_local (const GmRecordStart *p, uint32_t slot)
{
  for (uint32_t i = 0; i < p->n_locals; i++)
    if (p->locals[i] == slot)
      return true;
  return false;
}

/* NULLs below what the instruction takes stay where they are; some push new ones. */
static Stack
stack_after (const GmRecordStart *p, const GmInsn *i, Stack s, bool jumps)
{
  s.depth += (uint32_t) gm_insn_effect (i->op, i->arg, jumps);
  if (s.depth == 0 || s.depth > 63)
    return (Stack){ .depth = s.depth }; /* next_point refuses what is too deep */
  uint64_t top = 1ull << (s.depth - 1);
  s.nulls &= top | (top - 1);
  s.unbound &= top | (top - 1);
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
    s.unbound |= has_local (p, i->arg) ? 0 : top;
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

static GmResumePoint *
next_point (GmOriginal *o, const GmRecordStart *p, uint32_t insn, Stack stack, const char **why)
{
  const GmCode *code = o->code;
  const GmLiveness *live = gm_liveness_get (code);
  g_autofree uint32_t *locals = g_new (uint32_t, p->n_locals + 1);
  GmRecordStart key = { .insn = insn, .depth = stack.depth, .nulls = stack.nulls, .unbound = stack.unbound, .away = p->away, .locals = locals };
  if (stack.depth > 63 || insn >= code->n_insns) {
    *why = "the stack is too deep";
    return NULL;
  }
  /* Where it jumps to: the ways that lead there share the point. */
  for (uint32_t hops = 0; code->insns[key.insn].op == GM_INSN_JUMP && hops < 8; hops++)
    key.insn = code->insns[key.insn].target;
  const GmInsn *step = &code->insns[p->insn];
  bool unbinds = step->op == GM_INSN_DELETE_FAST || step->op == GM_INSN_LOAD_FAST_AND_CLEAR;
  for (uint32_t i = 0; i < p->n_locals; i++) /* also what is read no more: it keeps its object alive */
    if (gm_liveness_live (live, key.insn, p->locals[i]) || !unbinds || step->arg != p->locals[i])
      locals[key.n_locals++] = p->locals[i];
  return point_get (o, GM_POINT_REST, &key, why);
}

uint32_t
gm_resume_step_end (const GmCode *code, uint32_t insn)
{
  const GmInsn *insns = code->insns;
  uint32_t k = insn;
  while (k + 1 < code->n_insns && insns[k + 1].step == insns[k].step)
    k++;
  bool jumps = insns[k].op == GM_INSN_TO_BOOL && k + 1 < code->n_insns
               && (insns[k + 1].op == GM_INSN_POP_JUMP_IF_FALSE || insns[k + 1].op == GM_INSN_POP_JUMP_IF_TRUE);
  return jumps ? k + 1 : k;
}

/* Where a step or a call goes on. */
static bool
make_next (GmResumePoint *p, const char **why)
{
  GmOriginal *o = p->original;
  const GmInsn *insns = o->code->insns;
  const GmRecordStart *at = &p->at;
  Stack stack = { at->depth, at->nulls, at->unbound };
  uint32_t k = at->insn;
  if (p->kind == GM_POINT_CALL) {
    stack.depth++;
    p->next[0] = next_point (o, at, k + 1, stack, why);
    return p->next[0] != NULL;
  }
  for (uint32_t end = gm_resume_step_end (o->code, k); k < end; k++)
    stack = stack_after (at, &insns[k], stack, false);
  const GmInsn *i = &insns[k];
  if (i->op == GM_INSN_RETURN_VALUE || i->op == GM_INSN_RAISE_VARARGS || i->op == GM_INSN_RERAISE)
    return true;
  p->next[0] = next_point (o, at, k + 1, stack_after (at, i, stack, false), why);
  if (!p->next[0])
    return false;
  if (gm_insns[i->op].operand != GM_OPERAND_JUMP)
    return true;
  p->next[1] = next_point (o, at, i->target, stack_after (at, i, stack, true), why);
  return p->next[1] != NULL;
}

static GmResumePoint *
point_get (GmOriginal *o, GmPointKind kind, const GmRecordStart *key, const char **why)
{
  if (!o->points)
    o->points = g_hash_table_new_full (point_hash, point_equal, NULL, (GDestroyNotify) gm_resume_point_unref);
  GmResumePoint *p = g_hash_table_lookup (o->points, &(GmResumePoint){ .kind = kind, .at = *key });
  if (p)
    return gm_resume_point_ref (p);
  p = g_new0 (GmResumePoint, 1);
  p->kind = kind;
  p->original = gm_original_ref (o);
  p->at = *key;
  p->at.locals = g_memdup2 (key->locals, key->n_locals * sizeof (uint32_t));
  g_atomic_ref_count_init (&p->refs);
  p->n_args = key->n_locals + (kind == GM_POINT_CALL);
  for (uint32_t k = 0; k < key->depth; k++)
    p->n_args += !gm_point_bit (key->nulls | key->unbound, k);
  bool ok = true;
  if (kind == GM_POINT_REST)
    p->cache = gm_code_cache_new (p);
  else
    ok = make_next (p, why) && gm_resume_code (p);
  if (!ok) {
    gm_resume_point_unref (p);
    return NULL;
  }
  g_hash_table_insert (o->points, p, gm_resume_point_ref (p));
  return p;
}

/* super () looks for the first argument of the code that runs, and a resume function always has one. */
static bool
may_ask_super_without_self (const GmCode *code)
{
  for (Py_ssize_t i = 0; code->n_pos == 0 && i < PyTuple_GET_SIZE (code->code->co_names); i++)
    if (PyUnicode_CompareWithASCIIString (PyTuple_GET_ITEM (code->code->co_names, i), "super") == 0)
      return true;
  return false;
}

GmResumePoint *
gm_resume_point_get (const GmBreakFrame *frame, GmPointKind kind, const char **why)
{
  *why = NULL;
  GmOriginal *o = gm_original_get (frame->code);
  if (!o)
    return NULL;
  const GmCode *code = o->code;
  *why = o->cache ? o->why : "the function that it belongs to is gone";
  if (may_ask_super_without_self (code))
    *why = "super() without a first argument";
  if (code->n_slots > 0 && (code->slots[0].kind & GM_SLOT_CELL))
    for (uint32_t i = 0; i < code->n_free; i++)
      if (PyUnicode_CompareWithASCIIString (code->slots[code->first_free + i].name, "__class__") == 0)
        *why = "super() needs a first argument that is no cell";
  if (*why)
    return NULL;
  GmRecordStart key = { .insn = frame->insn, .depth = frame->depth, .nulls = frame->nulls, .unbound = frame->unbound,
                        .away = frame->away, .n_locals = frame->n_locals, .locals = frame->locals };
  return point_get (o, kind, &key, why);
}

int
gm_py_init_resume_point (void)
{
  for (int k = 0; k < 2; k++) {
    gm_resume_marker[k] = PyObject_CallNoArgs ((PyObject *) &PyBaseObject_Type);
    if (!gm_resume_marker[k])
      return -1;
  }
  return 0;
}
