/* SPDX-License-Identifier: Apache-2.0
 * join.c -- the joint graph: a function together with its gradient.
 *
 * The eager engine (core/autograd/engine.c) runs the ready node with the highest sequence number.
 * Every reader of a value came later than its maker, so the highest number left is always ready:
 * the engine's order is the order of the nodes, backwards. Here it is that loop.  Contributions to
 * one gradient are added as they arrive, first one kept, later ones on its right, and a node's
 * contributions arrive in the order of its operands.  So a compiled gradient has the bits of an
 * eager one.  That holds only while no two nodes are merged: cse comes after this stage, never
 * before.
 * Requires: a functional graph.  The gradients themselves are rows of the op table
 * (gm_op_gradient).
 */
#include "core/aot/aot.h"

#include "core/graph/higher.h"

typedef struct {
  GmGraphBuilder b;
  GmVal *grad;       /* per value of the function: the sum so far, NULL for none */
  uint32_t *n_terms; /* per value of the function: number of terms in the sum */
} Join;

static void
accumulate (Join *j, GmValueId v, GmVal g)
{
  j->n_terms[v]++;
  j->grad[v] = j->grad[v] ? gm_b (&j->b.base, add, j->grad[v], g) : g;
}

/* Adds the gradients of n's operands, computed from that of n's result, to their sums. */
static void
differentiate_node (Join *j, const GmGraph *g, const GmNode *n)
{
  GmVal in[n->n_in + 1], result[n->n_in + 1];
  const GmMeta *in_meta[n->n_in + 1];
  bool need[n->n_in + 1], any = false;

  for (uint32_t i = 0; i < n->n_in; i++) {
    in[i] = gm_val_from_id (n->in[i]);
    in_meta[i] = gm_graph_meta (g, n->in[i]);
    need[i] = in_meta[i]->requires_grad && gm_op_is_differentiable (n->op, (int) i);
    result[i] = NULL;
    any |= need[i];
  }
  if (!any)
    return;
  j->b.where = n->where;
  gm_op_gradient (&(GmGradient){ .b = &j->b.base,
                                 .op = n->op,
                                 .n_in = (int) n->n_in,
                                 .in = in,
                                 .out = gm_val_from_id (n->out),
                                 .in_meta = in_meta,
                                 .out_meta = gm_graph_meta (g, n->out),
                                 .attrs = n->attrs,
                                 .grad = j->grad[n->out],
                                 .need = need,
                                 .result = result });
  for (uint32_t i = 0; i < n->n_in; i++)
    if (need[i] && result[i])
      accumulate (j, n->in[i], result[i]);
}

/* Adds the gradients of the arguments of a custom function to their sums; i is its first node. */
static void
differentiate_custom (Join *j, const GmGraph *g, uint32_t i)
{
  const GmNode *n = gm_graph_node (g, i);
  uint32_t n_args = gm_graph_custom_n_args (gm_graph_custom (g, n));
  g_autofree GmVal *result = g_new0 (GmVal, n_args + 1);

  j->b.where = n->where;
  gm_custom_differentiate (g, i, &j->b.base, j->grad, result);
  if (gm_b_failed (&j->b.base)) /* plain Python fails in the backward, if gradients arrive with
                                 * these strides */
    j->b.base.error->code = GM_ERROR_UNSUPPORTED;
  for (uint32_t k = 0; k < n_args; k++)
    if (gm_graph_meta (g, n->in[1 + k])->requires_grad && result[k])
      accumulate (j, n->in[1 + k], result[k]);
}

/* Adds the gradients of the operands of a call of an operator with bodies to their sums; i is its
 * first node. */
static void
differentiate_higher (Join *j, const GmGraph *g, uint32_t i)
{
  const GmNode *n = gm_graph_node (g, i);
  g_autofree GmValueId *result = g_new (GmValueId, n->n_in + 1);

  if (!gm_higher_differentiate (g, i, j->b.graph, j->grad, result, &j->b.base.error))
    return;
  for (uint32_t k = 0; k < n->n_in; k++)
    if (result[k] != GM_NO_ID) {
      gm_graph_meta (j->b.graph, result[k])->requires_grad = false;
      if (gm_host_call_goes_on (gm_graph_higher (g, n), n, k, j->grad))
        j->grad[n->in[k]] = NULL; /* it is part of the sum */
      accumulate (j, n->in[k], gm_val_from_id (result[k]));
    }
}

/* Replaces the gradient of v, which is complete, by what its hooks return. */
static void
run_hooks (Join *j, const GmGraph *g, GmValueId v)
{
  for (uint32_t k = 0; k < g->nodes->len && j->grad[v] && !gm_b_failed (&j->b.base); k++) {
    const GmHigher *hook = gm_gradient_hook_on (g, k, v);
    if (!hook)
      continue;
    GmValueId to = gm_gradient_hook_add (j->b.graph, hook, gm_id_from_val (j->grad[v]),
                                         gm_graph_node (g, k)->where, &j->b.base.error);
    if (to != GM_NO_ID)
      j->grad[v] = gm_val_from_id (to);
  }
}

/* Runs the hooks on the results of node i, whose gradients are complete.  All results of a call are
 * complete when its first node is reached. */
static void
run_hooks_on (Join *j, const GmGraph *g, uint32_t i)
{
  const GmNode *n = gm_graph_node (g, i);
  bool one = n->op != GM_OP_custom && !gm_op_is_higher (n->op);

  for (uint32_t k = i; k < (one ? i + 1 : g->nodes->len); k++) {
    const GmNode *m = gm_graph_node (g, k);
    if (k == i || (m->op == n->op && m->attrs->offset == n->attrs->offset))
      run_hooks (j, g, m->out);
  }
}

/* Adds an input, a tangent, for each output that requires grad; a value that is output twice gets
 * two, and their sum as its gradient.  arrived: the metas of the tangents, NULL: those of the
 * outputs. */
static void
add_tangents (Join *j, const GmGraph *g, const GmMeta *arrived, GmArena *arena, GmJoint *joint)
{
  GmInnerOutput *tangents = gm_arena_newn (arena, GmInnerOutput, g->outputs->len);
  uint32_t n_asked = 0;

  for (uint32_t i = 0; i < g->outputs->len; i++) {
    GmValueId v = g_array_index (g->outputs, GmGraphOutput, i).value;
    GmMeta m = *gm_graph_meta (g, v);

    if (!m.requires_grad)
      continue;
    m.requires_grad = 0;
    if (arrived)
      m = arrived[n_asked++];
    else if (!gm_meta_is_dense (&m))
      gm_meta_set_contiguous (&m);
    if (m.dtype == GM_N_DTYPES)
      continue;
    const char *name = gm_copy_fresh_name (joint->graph, "tangent", joint->n_tangents);
    accumulate (j, v, gm_val_from_id (gm_graph_add_input (joint->graph, name, &m)));
    tangents[joint->n_tangents++] = (GmInnerOutput){ i };
  }
  joint->tangents = tangents;
}

static void
add_gradients (const Join *j, const GmGraph *g, GmArena *arena, GmJoint *joint)
{
  GmInnerInput *grads = gm_arena_newn (arena, GmInnerInput, g->inputs->len);
  uint32_t *n_terms = gm_arena_newn (arena, uint32_t, g->inputs->len);

  for (uint32_t i = 0; i < g->inputs->len; i++) {
    GmValueId v = g_array_index (g->inputs, GmValueId, i);

    if (!gm_graph_meta (g, v)->requires_grad || !j->grad[v])
      continue;
    gm_graph_add_output (joint->graph, gm_id_from_val (j->grad[v]), GM_OUTPUT_GRAD);
    n_terms[joint->n_grads] = j->n_terms[v];
    grads[joint->n_grads++] = (GmInnerInput){ i };
  }
  joint->grads = grads;
  joint->n_terms = n_terms;
}

/* -- Functions that bring their gradient ------------------------------------------------------- */

/* Marks, from values of g at which a gradient arrives, all values that it flows to. */
static void
spread (const GmGraph *g, bool *reached)
{
  for (uint32_t k = g->nodes->len; k-- > 0;) {
    const GmNode *n = gm_graph_node (g, k);
    for (uint32_t i = 0; reached[n->out] && i < n->n_in; i++)
      if (n->op == GM_OP_custom || gm_op_is_differentiable (n->op, (int) i))
        reached[n->in[i]] |= gm_graph_meta (g, n->in[i])->requires_grad;
  }
}

/* Refuses custom functions that are reached by an output at which no gradient arrives: a gradient
 * of the op table makes zeros of zeros, but the result of the program's own gradient for zeros is
 * unknown. */
static bool
check_customs (const GmGraph *g, const GmJoint *joint, GError **error)
{
  uint32_t n_rows = g->customs ? g->customs->len : 0;
  g_autofree uint32_t *n_reach = g_new0 (uint32_t, n_rows + 1);

  for (uint32_t t = 0; n_rows > 0 && t < joint->n_tangents; t++) {
    g_autofree bool *reached = g_new0 (bool, g->values->len + 1), *row = g_new0 (bool, n_rows);
    reached[g_array_index (g->outputs, GmGraphOutput, joint->tangents[t].i).value] = true;
    spread (g, reached);
    for (uint32_t k = 0; k < g->nodes->len; k++) {
      const GmNode *n = gm_graph_node (g, k);
      if (n->op == GM_OP_custom && reached[n->out])
        row[n->attrs->offset] = true;
    }
    for (uint32_t i = 0; i < n_rows; i++)
      n_reach[i] += row[i];
  }
  for (uint32_t i = 0; i < n_rows; i++)
    if (n_reach[i] > 0 && n_reach[i] < joint->n_tangents) {
      g_set_error (
          error, GM_ERROR, GM_ERROR_UNSUPPORTED,
          "a function with a gradient of its own lies behind some of the results and not "
          "behind others, which may get gradients alone: keep it, or those results, out of "
          "the compiled function");
      return false;
    }
  return true;
}

/* Makes the joint graph of g.  alone: gradients may arrive at some outputs and not at others.
 * arrived: as in add_tangents. */
static bool
join (const GmGraph *g, bool alone, const GmMeta *arrived, GmArena *arena, GmJoint *joint,
      GError **error)
{
  g_autoptr (GmGraph) out = gm_graph_new_like (g, "joint", arena);
  Join j = { .grad = gm_arena_newn (arena, GmVal, g->values->len),
             .n_terms = gm_arena_newn (arena, uint32_t, g->values->len) };

  *joint = (GmJoint){ .graph = out,
                      .n_inputs = g->inputs->len,
                      .n_outputs = g->outputs->len,
                      .n_elements = gm_graph_n_elements (g) };
  if (!gm_copy_values (out, g, error)) {
    joint->graph = NULL;
    return false;
  }
  if (arrived) /* the graph is in use, and the code of its calls is found by row: its table must not
                * get the calls of the gradient */
    gm_graph_own_highers (out);
  for (uint32_t i = 0; i < g->outputs->len; i++) {
    const GmGraphOutput *o = &g_array_index (g->outputs, GmGraphOutput, i);
    gm_graph_add_output (out, o->value, o->kind);
  }
  gm_graph_builder_init (&j.b, out);
  add_tangents (&j, g, arrived, arena, joint);
  if (alone && !check_customs (g, joint, error)) {
    gm_graph_builder_clear (&j.b);
    joint->graph = NULL;
    return false;
  }
  bool hooks = gm_gradient_hooks_any (g);
  for (uint32_t i = g->nodes->len; i-- > 0 && !gm_b_failed (&j.b.base);) {
    const GmNode *n = gm_graph_node (g, i);
    bool next = n->op == GM_OP_custom     ? gm_custom_is_next (g, i, j.grad)
                : gm_op_is_higher (n->op) ? gm_higher_is_next (g, i, j.grad)
                                          : j.grad[n->out] != NULL;
    if (next && hooks)
      run_hooks_on (&j, g, i);
    if (next && !gm_b_failed (&j.b.base))
      n->op == GM_OP_custom     ? differentiate_custom (&j, g, i)
      : gm_op_is_higher (n->op) ? differentiate_higher (&j, g, i)
                                : differentiate_node (&j, g, n);
  }
  if (gm_b_failed (&j.b.base)) {
    g_propagate_error (error, g_steal_pointer (&j.b.base.error));
    gm_graph_builder_clear (&j.b);
    joint->graph = NULL;
    return false;
  }
  add_gradients (&j, g, arena, joint);
  gm_graph_builder_clear (&j.b);
  g_steal_pointer (&out);
  return true;
}

bool
gm_join (const GmGraph *g, GmArena *arena, GmJoint *joint, GError **error)
{
  return join (g, true, NULL, arena, joint, error);
}

bool
gm_join_body (const GmGraph *g, GmArena *arena, GmJoint *joint, GError **error)
{
  return join (g, false, NULL, arena, joint, error);
}

bool
gm_join_arrived (const GmGraph *g, const GmMeta *arrived, GmArena *arena, GmJoint *joint,
                 GError **error)
{
  return join (g, false, arrived, arena, joint, error);
}
