/* SPDX-License-Identifier: Apache-2.0
 * fold.c -- rewrites of one node that change no bit of any result.
 *
 * Before you add a rule:
 *   1. It holds for every input: NaN with its payload, -0, infinities, empty tensors.  x * 1 is not
 *      x for a signalling NaN, x + 0 is not x for -0: such rules are not here.
 *   2. The result keeps its whole meta, strides included: the strides of later results follow from
 *      it, and with them the order in which a product is summed.
 *   3. A rule that makes two values one may do so only if they were one memory already (views), or
 *      if the caller cannot see the difference: no member of either class escapes, and no node in
 *      the graph writes (`mutates`).
 *   4. A node whose result requires grad may be folded only when the graph will not be
 *      differentiated any more: gradients are summed in the order of nodes.
 */
#include "core/graph/simplify.h"

#include <string.h>

static const GmMeta *
meta (const GmSimplifyWork *w, GmValueId v)
{
  return gm_graph_meta (w->g, v);
}

/* Returns the node whose result is v, as rewritten so far, or NULL for an input. */
static const GmNode *
maker (const GmSimplifyWork *w, GmValueId v)
{
  uint32_t n = gm_graph_value (w->g, v)->node;
  return n == GM_NO_ID ? NULL : &w->nodes[n];
}

/* -- Gradients of one's own -------------------------------------------------------------------- */

/* Replaces the result of a `custom` node, if the graph will not be differentiated any more, by
 * the result as the function computed it; where the caller sees both, turns the node into a copy.
 * Returns the value that stands for n's, or GM_NO_ID. */
static GmValueId
fold_custom (GmSimplifyWork *w, GmNode *n)
{
  GmValueId v = n->in[0];
  if (!(w->what & GM_SIMPLIFY_CSE))
    return GM_NO_ID;
  if (!w->escapes[v]) { /* only this node reads it */
    w->output[v] = w->output[n->out];
    w->escapes[v] = w->escapes[n->out];
    return v;
  }
  n->op = GM_OP_copy;
  n->n_in = 1;
  n->attrs = NULL;
  return GM_NO_ID;
}

/* -- Views ------------------------------------------------------------------------------------- */

/* True if n's op on x with these attributes has exactly the meta of n's result. */
static bool
gives_result (const GmSimplifyWork *w, const GmNode *n, GmValueId x, const GmAttrs *attrs)
{
  GmMeta is;
  if (gm_graph_meta_is_symbolic (meta (w, x)) || gm_graph_meta_is_symbolic (meta (w, n->out)))
    return false;
  if (!gm_op_infer (n->op, (const GmMeta *[]){ meta (w, x) }, 1, attrs, &is, NULL))
    return false;
  is.requires_grad = meta (w, n->out)->requires_grad;
  return !memcmp (&is, meta (w, n->out), sizeof is);
}

/* Computes in *out the attributes of one op on x that does what outer (inner (x)) does:
 * permutations compose, the last sizes count, slices of one dimension nest.  False: there is no
 * such op. */
static bool
compose (const GmNode *inner, const GmNode *outer, GmAttrs *out)
{
  const GmAttrs *a = inner->attrs, *b = outer->attrs;
  *out = *b;
  switch (outer->op) {
  case GM_OP_view:
  case GM_OP_expand:
    return true;
  case GM_OP_permute:
    for (int i = 0; i < b->n_list; i++)
      out->list[i] = a->list[b->list[i]];
    return true;
  case GM_OP_slice:
    if (a->dim != b->dim || __builtin_mul_overflow (a->step, b->step, &out->step))
      return false;
    out->start = a->start + b->start * a->step;
    out->stop = b->stop == b->start ? out->start
                                    /* one past the last element that is taken */
                                    : a->start + (b->stop - 1) * a->step + 1;
    return out->start <= a->stop;
  default:
    return false;
  }
}

static GmValueId
fold_view (GmSimplifyWork *w, GmNode *n)
{
  const GmNode *inner = maker (w, n->in[0]);
  GmAttrs both;
  if (inner && inner->op == n->op && !gm_op_detaches (n->op) && compose (inner, n, &both)
      && gives_result (w, n, inner->in[0], &both)) {
    n->in = inner->in;
    n->attrs = gm_arena_copy (w->arena, &both, sizeof both);
  }
  /* With its operand's meta a view is that operand, but for two cases: a permutation of equal
   * dimensions is no identity, and slices of one shape can begin elsewhere. */
  bool same_elements = true;
  if (n->op == GM_OP_permute)
    for (int i = 0; i < n->attrs->n_list; i++)
      same_elements = same_elements && n->attrs->list[i] == i;
  if (n->op == GM_OP_slice)
    same_elements = n->attrs->start == 0;
  if (same_elements && !w->output[n->out] && gm_simplify_same_meta (w, n->in[0], n->out))
    return n->in[0];
  return GM_NO_ID;
}

/* -- Copies ------------------------------------------------------------------------------------ */

/* Turns a node that overwrites its whole first operand into a copy of its second operand. */
static void
turn_into_copy (GmSimplifyWork *w, GmNode *n)
{
  n->in = gm_arena_copy (w->arena, &n->in[1], sizeof *n->in);
  n->n_in = 1;
  n->attrs = NULL;
  n->op = GM_OP_copy;
}

/* True if node n writes to all elements of its first operand, in the same layout. */
static bool
replaces_all (const GmSimplifyWork *w, const GmNode *n)
{
  const GmMeta *m = meta (w, n->out);
  if (gm_graph_meta_is_symbolic (m) || gm_graph_meta_is_symbolic (meta (w, n->in[1])))
    return false;
  return gm_meta_same_shape (m, meta (w, n->in[1]))
         && !memcmp (m->strides, meta (w, n->in[1])->strides, sizeof m->strides);
}

static GmValueId
fold_copy (GmSimplifyWork *w, const GmNode *n)
{
  GmValueId x = n->in[0];
  if (w->mutates || w->escapes[x] || w->escapes[n->out] || !gm_simplify_same_meta (w, x, n->out))
    return GM_NO_ID;
  return x;
}

/* -- Numbers ----------------------------------------------------------------------------------- */

/* Returns a new 0-d tensor with the number that the `full` node f fills its result with. */
static GmTensor *
number_of (const GmNode *f)
{
  GmAttrs a = *f->attrs;
  a.n_list = 0;
  a.mask &= ~(1u << GM_ATTR_DEVICE);
  a.device = 0;
  memset (a.list, 0, sizeof a.list);
  return gm_op_run (GM_OP_full, NULL, 0, &a, NULL);
}

/* Turns an elementwise node whose operands are `full` nodes into a `full` node of the number
 * that eager computes from theirs. */
static void
fold_numbers (GmSimplifyWork *w, GmNode *n)
{
  enum { MAX_IN = 3 };
  g_autoptr (GmTensor) a = NULL, b = NULL, c = NULL, y = NULL;
  GmTensor **in[MAX_IN] = { &a, &b, &c };
  const GmMeta *m = meta (w, n->out);
  GmMeta row_major = *m;
  if (w->mutates || n->n_in > MAX_IN || gm_graph_meta_is_symbolic (m) || m->requires_grad)
    return;
  gm_meta_set_contiguous (&row_major);
  if (memcmp (&row_major, m, sizeof *m))
    return;
  for (uint32_t k = 0; k < n->n_in; k++) {
    const GmNode *f = maker (w, n->in[k]);
    if (!f || f->op != GM_OP_full || gm_scalar_is_symbolic (f->attrs->value)
        || !(*in[k] = number_of (f)))
      return;
  }
  y = gm_op_run (n->op, (GmTensor *[]){ a, b, c }, (int) n->n_in, n->attrs, NULL);
  if (!y)
    return;
  GmAttrs full = gm_attrs_full (m, gm_scalar_load (m->dtype, gm_tensor_data (y)));
  uint64_t back = 0;
  gm_scalar_store (full.value, m->dtype, &back);
  if (memcmp (&back, gm_tensor_data (y),
              gm_dtype_size (m->dtype))) /* a NaN whose payload a number does not carry */
    return;
  n->op = GM_OP_full;
  n->n_in = 0;
  n->in = NULL;
  n->attrs = gm_arena_copy (w->arena, &full, sizeof full);
}

/* -- The entry --------------------------------------------------------------------------------- */

GmValueId
gm_fold_node (GmSimplifyWork *w, uint32_t i)
{
  GmNode *n = &w->nodes[i];
  if (meta (w, n->out)->requires_grad && !(w->what & GM_SIMPLIFY_CSE))
    return GM_NO_ID;
  switch ((GmFamily) gm_ops[n->op].family) {
  case GM_FAMILY_MOVEMENT:
    return fold_view (w, n);
  case GM_FAMILY_CUSTOM:
    return fold_custom (w, n);
  case GM_FAMILY_CAST: {
    GmValueId v = fold_copy (w, n);
    if (v == GM_NO_ID)
      fold_numbers (w, n);
    return v;
  }
  case GM_FAMILY_POINTWISE:
    if (n->op == GM_OP_overwrite && replaces_all (w, n))
      turn_into_copy (w, n);
    if (n->op == GM_OP_copy)
      return fold_copy (w, n);
    fold_numbers (w, n);
    return GM_NO_ID;
  case GM_FAMILY_INDEX:
    if (n->op != GM_OP_slice_scatter || !replaces_all (w, n))
      return GM_NO_ID;
    turn_into_copy (w, n);
    return fold_copy (w, n);
  default:
    return GM_NO_ID;
  }
}
