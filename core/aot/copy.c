/* SPDX-License-Identifier: Apache-2.0
 * copy.c -- building a graph out of another graph's values.
 *
 * Every rewrite here makes a new graph and leaves the old one alone.  Nodes are added again through
 * gm_graph_add_node, so their metas are inferred again: a rewrite that changes what a value
 * requires (a gradient, a layout) cannot carry a stale meta along.
 */
#include "core/aot/aot.h"

#include <string.h>

GmValueId
gm_copy_node (GmGraph *to, const GmGraph *from, const GmNode *n, const GmValueId *map,
              GError **error)
{
  GmValueId in[n->n_in + 1];

  to->step = n->step;
  if (n->op == GM_OP_constant)
    return gm_graph_add_constant (to, g_ptr_array_index (from->constants, n->attrs->offset),
                                  n->where);
  for (uint32_t i = 0; i < n->n_in; i++)
    in[i] = map ? map[n->in[i]] : n->in[i];
  GmValueId v = gm_graph_add_node (to, n->op, in, (int) n->n_in, n->attrs, n->where, error);
  if (v != GM_NO_ID)
    gm_graph_mark_like (to, v, n);
  return v;
}

bool
gm_copy_nodes (GmGraph *to, const GmGraph *from, GmValueId *map, GError **error)
{
  for (uint32_t i = 0; i < from->nodes->len; i++) {
    const GmNode *n = gm_graph_node (from, i);

    map[n->out] = gm_copy_node (to, from, n, map, error);
    if (map[n->out] == GM_NO_ID)
      return false;
    gm_graph_meta (to, map[n->out])->requires_grad = gm_graph_meta (from, n->out)->requires_grad;
  }
  return true;
}

bool
gm_copy_values (GmGraph *to, const GmGraph *from, GError **error)
{
  g_assert (to->values->len == 0);
  gm_graph_share_tables (to, from);
  for (uint32_t id = 0; id < from->values->len; id++) {
    const GmGraphValue *v = gm_graph_value (from, id);
    GmValueId copy = v->node == GM_NO_ID
                       ? gm_graph_add_input (to, v->name, &v->meta)
                       : gm_copy_node (to, from, gm_graph_node (from, v->node), NULL, error);
    if (copy == GM_NO_ID)
      return false;
    g_assert (copy == id);
    gm_graph_meta (to, id)->requires_grad = v->meta.requires_grad; /* gradients may have been off */
  }
  gm_graph_carry_aliases (to, from, NULL);
  return true;
}

const char *
gm_copy_fresh_name (const GmGraph *g, const char *stem, uint32_t number)
{
  char *name = gm_arena_printf (g->arena, "%s%u", stem, number);

  for (uint32_t i = 0; i < g->inputs->len; i++) {
    const char *taken = gm_graph_value (g, g_array_index (g->inputs, GmValueId, i))->name;
    if (taken && strcmp (taken, name) == 0)
      return gm_copy_fresh_name (g, gm_arena_printf (g->arena, "%s_", stem), number);
  }
  return name;
}
