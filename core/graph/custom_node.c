/* SPDX-License-Identifier: Apache-2.0
 * custom_node.c -- functions with a gradient of their own, in graphs.
 *
 * The computation of such a function is in the graph as ordinary nodes that require no grad;
 * `custom` nodes after them tie its results to its arguments.  All that the gradient reads is an
 * operand of these, so every rewrite that maps operands maps it too, and only differentiation
 * (core/aot/custom_gradient.c) and the last simplification know the op.
 * Rejected: subgraphs as values.  Each rewrite would have to look into them.
 */
#include "core/graph/graph.h"

uint32_t
gm_graph_add_custom (GmGraph *g, GmGraph *backward)
{
  if (!g->customs)
    g->customs = g_ptr_array_new_with_free_func ((GDestroyNotify) gm_graph_free);
  g_ptr_array_add (g->customs, backward);
  return g->customs->len - 1;
}

GmGraph *
gm_graph_custom_copy (const GmGraph *backward)
{
  GmGraph *to = gm_graph_simplify (backward, 0, NULL);

  gm_graph_custom_describe (to, backward);
  return to;
}

void
gm_graph_custom_describe (GmGraph *to, const GmGraph *from)
{
  to->twice = from->twice;
  if (from->result_of)
    to->result_of =
        gm_arena_copy (to->arena, from->result_of, from->inputs->len * sizeof *from->result_of);
}

const GmGraph *
gm_graph_custom (const GmGraph *g, const GmNode *n)
{
  int64_t row = n->attrs ? n->attrs->offset : -1;

  return g->customs && row >= 0 && row < g->customs->len ? g->customs->pdata[row] : NULL;
}

uint32_t
gm_graph_custom_n_args (const GmGraph *backward)
{
  uint32_t n = 0;

  while (n < backward->outputs->len
         && g_array_index (backward->outputs, GmGraphOutput, n).kind == GM_OUTPUT_GRAD)
    n++;
  return n;
}

uint32_t
gm_graph_custom_n_results (const GmGraph *g, const GmNode *n)
{
  const GmGraph *backward = gm_graph_custom (g, n);
  uint32_t captured = n->n_in - 1 - gm_graph_custom_n_args (backward);

  return backward->inputs->len - captured;
}
