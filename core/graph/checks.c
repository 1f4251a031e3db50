/* SPDX-License-Identifier: Apache-2.0
 * checks.c -- an operation that may fail is not dead even if its result is not read.
 *
 * `x[i]` without a reader still says that i is inside of x.  Of such a node only the check is kept:
 * a table of as many elements as the index may have values is indexed with it, and the results are
 * reduced to one.  The check is an output of the recorded graph that the program does not get; so
 * it is alive for all later stages, and for back ends that do not know of it. An index that cannot
 * be out of bounds (results of a sort or an argmax, constants) is not checked.  Of `require` the
 * condition is kept.  Kept whole, in its place, is a call of graphs that may fail, and a check that
 * a function of the program stands behind: the function is not called where the check failed.
 *
 * Values that are one memory live and die together here, and a value written to memory is read
 * where that memory is read.  So a result that is written somewhere and overwritten before it is
 * read counts as read.
 */
#include "core/graph/checks.h"

#include "core/graph/higher.h"

/* -- Nodes that may fail ----------------------------------------------------------------------- */

static bool
node_may_fail (const GmGraph *g, const GmNode *n)
{
  if (gm_op_may_fail (n->op) || gm_op_has_effects (n->op))
    return true;
  if (!gm_op_is_higher (n->op) || n->op == GM_OP_gradient_hook)
    return false;
  const GmHigher *h = gm_graph_higher (g, n);
  bool any = false;
  for (uint32_t i = 0; i < h->n_bodies && !any; i++)
    any = h->bodies[i] && gm_graph_may_fail (h->bodies[i]);
  return any;
}

bool
gm_graph_may_fail (const GmGraph *g)
{
  for (uint32_t i = 0; i < g->nodes->len; i++)
    if (node_may_fail (g, gm_graph_node (g, i)))
      return true;
  return false;
}

/* -- Values that are read ---------------------------------------------------------------------- */

/* Returns, by value, the first value in the same memory; the caller frees. */
static GmValueId *
find_roots (const GmGraph *g)
{
  GmValueId *root = g_new (GmValueId, g->values->len + 1);

  for (uint32_t v = 0; v < g->values->len; v++)
    root[v] = v;
  for (uint32_t i = 0; i < g->nodes->len; i++) {
    const GmNode *n = gm_graph_node (g, i);
    GmFamily family = gm_ops[n->op].family;
    if (family == GM_FAMILY_MOVEMENT || family == GM_FAMILY_MUTATE)
      root[n->out] = root[n->in[0]];
  }
  return root;
}

/* Marks in `read` the roots of n's operands, if n's result is read or n has effects.  True if a
 * value was newly marked. */
static bool
mark_operands (const GmNode *n, const GmValueId *root, bool *read)
{
  bool more = false, wanted = read[root[n->out]] || gm_op_has_effects (n->op);

  for (uint32_t k = 0; wanted && k < n->n_in; k++) {
    more |= !read[root[n->in[k]]];
    read[root[n->in[k]]] = true;
  }
  return more;
}

/* Returns, by value that is a root, true if an output depends on it, or memory of inputs, which
 * the caller sees.  The caller frees. */
static bool *
find_read (const GmGraph *g, const GmValueId *root)
{
  bool *read = g_new0 (bool, g->values->len + 1), more = true;

  for (uint32_t i = 0; i < g->inputs->len; i++)
    read[g_array_index (g->inputs, GmValueId, i)] = true;
  for (uint32_t i = 0; i < g->outputs->len; i++)
    read[root[g_array_index (g->outputs, GmGraphOutput, i).value]] = true;
  while (more) { /* once more where memory is written before it is read */
    more = false;
    for (uint32_t i = g->nodes->len; i-- > 0;)
      more |= mark_operands (gm_graph_node (g, i), root, read);
  }
  return read;
}

/* -- Indices that are right -------------------------------------------------------------------- */

static bool
is_below (int64_t n, int64_t bound)
{
  return n == bound || (!gm_size_is_symbolic (n) && !gm_size_is_symbolic (bound) && n <= bound);
}

static bool
elements_fit (const GmTensor *t, int64_t bound)
{
  int64_t n = gm_meta_numel (&t->meta), at[GM_MAX_DIMS] = { 0 };

  if (n > 1024 || gm_size_is_symbolic (bound) || t->meta.device != GM_DEVICE_CPU)
    return false;
  for (int64_t i = 0; i < n; i++) {
    GmScalar s = gm_tensor_get (t, at);
    if (s.kind != GM_CATEGORY_INT || s.i < 0 || s.i >= bound)
      return false;
    for (int d = t->meta.ndim - 1; d >= 0 && ++at[d] == t->meta.sizes[d]; d--)
      at[d] = 0;
  }
  return true;
}

/* True if all elements of the index v are known to be from 0 to bound - 1. */
static bool
is_inside (const GmGraph *g, GmValueId v, int64_t bound)
{
  uint32_t node = gm_graph_value (g, v)->node;
  const GmNode *n = node == GM_NO_ID ? NULL : gm_graph_node (g, node);

  while (n && n->op != GM_OP_bitcast
         && (gm_ops[n->op].family == GM_FAMILY_MOVEMENT || n->op == GM_OP_copy)) {
    node = gm_graph_value (g, n->in[0])->node;
    n = node == GM_NO_ID ? NULL : gm_graph_node (g, node);
  }
  if (!n)
    return false;
  if (n->op == GM_OP_constant)
    return elements_fit (g_ptr_array_index (g->constants, n->attrs->offset), bound);
  if (n->op != GM_OP_argsort && n->op != GM_OP_argmax && n->op != GM_OP_argmin)
    return false;
  const GmMeta *m = gm_graph_meta (g, n->in[0]);
  return n->attrs->mask & 1u << GM_ATTR_DIM && m->ndim > 0
         && is_below (m->sizes[n->attrs->dim], bound);
}

/* -- Checks ------------------------------------------------------------------------------------ */

typedef struct {
  GmValueId index;
  int64_t bound;
} Checked;

bool
gm_graph_needs_check (const GmGraph *g, const GmNode *n)
{
  if (!node_may_fail (g, n))
    return false;
  if (n->op == GM_OP_require || !gm_op_may_fail (n->op))
    return true;
  return !is_inside (g, n->in[gm_op_index_input (n->op)],
                     gm_graph_meta (g, n->in[0])->sizes[n->attrs->dim]);
}

/* Returns a bool of one element, always false, whose computation fails if an element of `index`
 * is out of `bound`. */
static GmVal
check (GmBuilder *b, GmVal index, int64_t bound)
{
  int64_t all = gm_meta_numel (gm_b_meta (b, index));
  GmAttrs along = { .mask = 1u << GM_ATTR_DIM };
  GmVal flat = gm_b_reshape (b, index, 1, &all);
  GmVal in[2] = { gm_b_full_beside (b, gm_scalar_bool (false), GM_BOOL, 1, &bound, flat), flat };
  return gm_b_reduce (b, GM_OP_any, gm_b_op (b, GM_OP_index_select, in, 2, &along), NULL, 0, false);
}

GmVal
gm_graph_check_truth (GmGraphBuilder *b, GmVal truth)
{
  GmVal not = gm_b_op (&b->base, GM_OP_logical_not, &truth, 1, NULL);

  return check (&b->base, gm_b_cast (&b->base, not, GM_I64), 1);
}

GmVal
gm_graph_after_check (GmBuilder *b, const GmNode *n, const GmVal *in, GmVal x)
{
  GmAttrs at = { .mask = 1u << GM_ATTR_OFFSET, .offset = GM_CONDITION_DIVISOR };
  GmVal ok = n->op == GM_OP_require ? in[1] : NULL;

  if (ok) {
    at = *n->attrs;
  } else { /* an index out of bounds has its own error, before the condition is tested */
    GmVal fine =
        check (b, in[gm_op_index_input (n->op)], gm_b_meta (b, in[0])->sizes[n->attrs->dim]);
    ok = gm_b_op (b, GM_OP_logical_not, &fine, 1, NULL);
  }
  return gm_b_op (b, GM_OP_require, (const GmVal[]){ x, ok }, 2, &at);
}

static bool
is_checked (const GArray *checked, Checked c)
{
  for (uint32_t i = 0; i < checked->len; i++) {
    const Checked *other = &g_array_index (checked, Checked, i);
    if (other->index == c.index && other->bound == c.bound)
      return true;
  }
  return false;
}

void
gm_graph_add_checks (GmGraphBuilder *b, GArray *checks)
{
  GmGraph *g = b->graph;

  if (!gm_graph_may_fail (g))
    return;
  g_autofree GmValueId *root = find_roots (g);
  g_autofree bool *read = find_read (g, root);
  g_autoptr (GArray) checked = g_array_new (FALSE, FALSE, sizeof (Checked));
  uint32_t n_nodes = g->nodes->len, n_before = n_nodes;

  while (n_before > 0 && !gm_op_has_effects (gm_graph_node (g, n_before - 1)->op))
    n_before--;
  for (uint32_t i = 0; i < n_nodes && !gm_b_failed (&b->base); i++) {
    const GmNode n = *gm_graph_node (g, i); /* the array may move */
    if (read[root[n.out]] || gm_op_has_effects (n.op) || !gm_graph_needs_check (g, &n))
      continue;
    GmVal v = gm_val_from_id (n.out);
    b->where = n.where;
    if (i < n_before || gm_op_is_higher (n.op)) {
      if (gm_graph_meta (g, n.out)->requires_grad) /* no gradient arrives for it */
        v = gm_b_op (&b->base, GM_OP_detach, &v, 1, NULL);
    } else if (n.op == GM_OP_require) { /* depends on the condition alone: one element */
      GmVal ok[2] = { gm_val_from_id (n.in[1]), gm_val_from_id (n.in[1]) };
      v = gm_b_op (&b->base, GM_OP_require, ok, 2, n.attrs);
    } else {
      Checked c = { n.in[gm_op_index_input (n.op)],
                    gm_graph_meta (g, n.in[0])->sizes[n.attrs->dim] };
      if (is_checked (checked, c))
        continue;
      g_array_append_val (checked, c);
      v = check (&b->base, gm_val_from_id (c.index), c.bound);
    }
    GmValueId value = v ? gm_id_from_val (v) : GM_NO_ID;
    if (v)
      g_array_append_val (checks, value);
  }
}
