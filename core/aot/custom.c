/* SPDX-License-Identifier: Apache-2.0
 * custom.c -- the gradient of a function that brings its own.
 *
 * In eager such a function is one node, made when its forward is over; its backward runs when all
 * gradients of its results have arrived.  Here that point is the first of its nodes, coming from behind:
 * whatever reads a result stands after it.
 */
#include "core/aot/aot.h"

static bool
is_of (const GmGraph *g, uint32_t i, int64_t row)
{
  const GmNode *n = gm_graph_node (g, i);

  return n->op == GM_OP_custom && n->attrs->offset == row;
}

bool
gm_custom_is_next (const GmGraph *g, uint32_t i, GmVal *const grad)
{
  int64_t row = gm_graph_node (g, i)->attrs->offset;

  for (uint32_t k = 0; k < i; k++)
    if (is_of (g, k, row))
      return false;
  for (; i < g->nodes->len; i++)
    if (is_of (g, i, row) && grad[gm_graph_node (g, i)->out])
      return true;
  return false;
}

/* What arrived at each result; zeros where nothing did, like those that the recorded gradient saw. */
static void
take_gradients (GmBuilder *b, const GmGraph *g, uint32_t i, GmVal *const grad, const GmGraph *backward, uint32_t n, GmVal *map)
{
  int64_t row = gm_graph_node (g, i)->attrs->offset;

  for (; i < g->nodes->len; i++)
    if (is_of (g, i, row))
      map[gm_graph_node (g, i)->attrs->dim] = grad[gm_graph_node (g, i)->out];
  for (uint32_t k = 0; k < n; k++) {
    const GmMeta *m = gm_graph_meta (backward, k);
    if (!map[k])
      map[k] = gm_b_full (b, gm_scalar_float (0), (GmDtype) m->dtype, m->ndim, m->sizes);
  }
}

void
gm_custom_differentiate (const GmGraph *g, uint32_t i, GmBuilder *b, GmVal *const grad, GmVal *result)
{
  const GmNode *n = gm_graph_node (g, i);
  const GmGraph *backward = gm_graph_custom (g, n);
  uint32_t n_results = gm_graph_custom_n_results (g, n), n_args = backward->outputs->len;
  g_autofree GmVal *map = g_new0 (GmVal, backward->values->len + 1);

  take_gradients (b, g, i, grad, backward, n_results, map);
  for (uint32_t k = n_results; k < backward->inputs->len; k++)
    map[k] = gm_val_from_id (n->in[1 + n_args + k - n_results]);
  for (uint32_t k = 0; k < backward->nodes->len; k++) {
    const GmNode *m = gm_graph_node (backward, k);
    g_autofree GmVal *in = g_new (GmVal, m->n_in + 1);
    for (uint32_t a = 0; a < m->n_in; a++)
      in[a] = map[m->in[a]];
    map[m->out] = gm_b_op (b, m->op, in, (int) m->n_in, m->attrs);
  }
  for (uint32_t k = 0; k < n_args; k++)
    result[k] = map[g_array_index (backward->outputs, GmGraphOutput, k).value];
}
