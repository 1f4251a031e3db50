/* SPDX-License-Identifier: Apache-2.0 */
/* looks.c -- see looks.h. */
#include "core/graph/looks.h"

/* Appends the inputs of g that its nodes look at and that are not `seen` yet. */
static uint32_t
find_looks (const GmGraph *g, bool *seen, uint32_t *inputs)
{
  g_autofree uint32_t *place = g_new (uint32_t, g->values->len + 1);
  uint32_t n = 0;

  for (uint32_t i = 0; i < g->inputs->len; i++)
    place[g_array_index (g->inputs, GmValueId, i)] = i;
  for (uint32_t i = 0; i < g->nodes->len; i++) {
    const GmNode *node = gm_graph_node (g, i);
    if (!gm_graph_meta (g, node->out)->requires_grad)
      continue; /* read with gradients off */
    for (uint32_t k = 0; k < node->n_in; k++) {
      GmValueId v = node->in[k];
      if (gm_graph_value (g, v)->node != GM_NO_ID || !gm_graph_meta (g, v)->requires_grad || seen[place[v]])
        continue;
      seen[place[v]] = true;
      inputs[n++] = place[v];
    }
  }
  return n;
}

uint32_t
gm_graph_lost_looks (const GmGraph *recorded, const GmGraph *simplified, uint32_t *inputs)
{
  g_autofree bool *seen = g_new0 (bool, recorded->inputs->len + 1);

  find_looks (simplified, seen, inputs);
  return find_looks (recorded, seen, inputs);
}
