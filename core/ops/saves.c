/* SPDX-License-Identifier: Apache-2.0
 * saves.c -- finds the values that a gradient reads by running it on a builder that records them;
 * there is no list.
 *
 * The gradient runs once on a builder whose values are marks: each op that gets a mark sets its
 * bit. Metas are made up (all matrices of two by two), which is right because a gradient may branch
 * on shapes but must read the same inputs for all. The results are kept in a table; two threads
 * that race write the same word.
 */
#include "core/ops/builder.h"

enum { MAX_IN = 3, KNOWN = 1u << 30 };

typedef struct {
  GmBuilder base;
  GmMeta meta;
  uint32_t read;
} Watch;

/* Addresses that stand for the inputs, the result, the gradient, and every computed value. */
static const char marks[MAX_IN + 3];
#define MARK(i) ((GmVal) (uintptr_t) &marks[i])
enum { OUT = MAX_IN, GRAD, COMPUTED };

static void
note (Watch *w, GmVal v)
{
  for (int i = 0; i < MAX_IN; i++)
    if (v == MARK (i))
      w->read |= 1u << i;
  if (v == MARK (OUT))
    w->read |= GM_SAVES_OUT;
}

static GmVal
watch_op (GmBuilder *b, GmOp op, const GmVal *in, int n_in, const GmAttrs *attrs)
{
  for (int i = 0; i < n_in; i++)
    note ((Watch *) b, in[i]);
  return MARK (COMPUTED);
}

static const GmMeta *
watch_meta (GmBuilder *b, GmVal v)
{
  return &((Watch *) b)->meta;
}

/* Vtable of the builder that records which values a gradient reads. Gradients are functions of
 * values: they neither write, draw, nor read numbers. */
static const GmBuilderVtable watch_vtable = { .op = watch_op, .meta = watch_meta };

static uint32_t
watch (GmOp op, int n_in, uint32_t need_mask)
{
  Watch w = { .base.vt = &watch_vtable,
              .meta = gm_meta_make (GM_F64, 2, (const int64_t[]){ 2, 2 }) };
  GmAttrs attrs = { .n_list = 2, .list = { 0, 1 }, .stop = 1, .step = 1 };
  const GmMeta *metas[MAX_IN] = { &w.meta, &w.meta, &w.meta };
  GmVal in[MAX_IN] = { MARK (0), MARK (1), MARK (2) }, result[MAX_IN];
  bool need[MAX_IN];
  for (int i = 0; i < MAX_IN; i++)
    need[i] = need_mask >> i & 1;
  GmGradient x = { .b = &w.base,
                   .op = op,
                   .n_in = n_in,
                   .in = in,
                   .out = MARK (OUT),
                   .in_meta = metas,
                   .out_meta = &w.meta,
                   .attrs = &attrs,
                   .grad = MARK (GRAD),
                   .need = need,
                   .result = result };
  gm_op_gradient (&x);
  g_assert (!w.base.error);
  for (int i = 0; i < n_in; i++)
    note (&w, result[i]);
  return w.read;
}

uint32_t
gm_op_saves (GmOp op, int n_in, uint32_t need_mask)
{
  static uint32_t known[GM_N_OPS][1 << MAX_IN]; /* zero: not watched yet */
  g_assert (op > GM_OP_NONE && op < GM_N_OPS);
  if (gm_ops[op].arity < 0) { /* any number of inputs: all are alike, so two of them suffice */
    n_in = 2;
    need_mask = need_mask ? 3 : 0;
  }
  g_assert (n_in <= MAX_IN);
  uint32_t *slot = &known[op][need_mask & ((1u << MAX_IN) - 1)];
  uint32_t saves = __atomic_load_n (slot, __ATOMIC_RELAXED);
  if (!(saves & KNOWN)) {
    saves = watch (op, n_in, need_mask) | KNOWN;
    if (gm_ops[op].arity < 0)
      g_assert (saves == KNOWN); /* a saved value would have to be saved for every input */
    __atomic_store_n (slot, saves, __ATOMIC_RELAXED);
  }
  return saves & ~KNOWN;
}
