/* SPDX-License-Identifier: Apache-2.0
 * views.c -- which values of a recorded graph are the same tensor, and which share memory.
 *
 * A recorded graph says that by its ops alone: the result of a MOVEMENT op is a view of its
 * operand, the result of a MUTATE op *is* its first operand, and all other results own their
 * memory.  So nothing is stored, and nothing can go stale.
 */
#include "core/aot/aot.h"

static GmFamily
family_of (const GmGraph *g, GmValueId v)
{
  uint32_t node = gm_graph_value (g, v)->node;

  return node == GM_NO_ID ? GM_FAMILY_NONE : gm_ops[gm_graph_node (g, node)->op].family;
}

GmValueId
gm_views_object (const GmGraph *g, GmValueId v)
{
  while (family_of (g, v) == GM_FAMILY_MUTATE)
    v = gm_graph_node (g, gm_graph_value (g, v)->node)->in[0];
  return v;
}

GmValueId
gm_views_parent (const GmGraph *g, GmValueId v)
{
  if (family_of (g, v) != GM_FAMILY_MOVEMENT)
    return GM_NO_ID;
  return gm_views_object (g, gm_graph_node (g, gm_graph_value (g, v)->node)->in[0]);
}

GmValueId
gm_views_counter (const GmGraph *g, GmValueId v)
{
  GmValueId object = gm_views_object (g, v), parent;

  while ((parent = gm_views_parent (g, object)) != GM_NO_ID
         && gm_graph_node (g, gm_graph_value (g, object)->node)->op != GM_OP_data)
    object = parent;
  return object;
}

bool
gm_views_no_grad (const GmGraph *g, const GmNode *n)
{
  const GmMeta *m = gm_graph_meta (g, n->out);

  if (m->requires_grad || !gm_dtype_is_float (m->dtype))
    return false;
  for (uint32_t i = 0; i < n->n_in; i++)
    if (gm_graph_meta (g, n->in[i])->requires_grad
        && (gm_ops[n->op].family == GM_FAMILY_MUTATE || gm_op_is_differentiable (n->op, (int) i)))
      return true;
  return false;
}

GmValueId
gm_views_root (const GmGraph *g, GmValueId v)
{
  GmValueId object = gm_views_object (g, v), parent;

  while ((parent = gm_views_parent (g, object)) != GM_NO_ID)
    object = parent;
  return object;
}
