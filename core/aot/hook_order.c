/* SPDX-License-Identifier: Apache-2.0
 * hook_order.c -- see hook_order.h.
 */
#include "core/aot/hook_order.h"

#include <stdlib.h>

typedef struct {
  int64_t when; /* eager runs nodes with large times first */
  uint32_t i;
} Turn;

static int
by_turn (const void *a, const void *b)
{
  const Turn *x = a, *y = b;

  return x->when != y->when ? (x->when < y->when) - (x->when > y->when)
                            : (x->i > y->i) - (x->i < y->i);
}

static const uint32_t *
sorted (GmArena *arena, Turn *turns, uint32_t n)
{
  uint32_t *order = gm_arena_newn (arena, uint32_t, n);
  bool same = true;

  qsort (turns, n, sizeof *turns, by_turn);
  for (uint32_t k = 0; k < n; k++) {
    order[k] = turns[k].i;
    same = same && order[k] == k;
  }
  return same ? NULL : order;
}

void
gm_hook_order_find (const GmGraph *g, const GmJoint *joint, GmArena *arena,
                    const uint32_t **of_results, const uint32_t **of_arguments)
{
  uint32_t n = MAX (joint->n_tangents, joint->n_grads);
  g_autofree Turn *turns = g_new0 (Turn, n + 1);
  g_autofree int64_t *first = g_new (int64_t, g->values->len + 1);
  g_autofree bool *reached = g_new0 (bool, g->values->len + 1); /* by a gradient */

  for (uint32_t k = 0; k < joint->n_tangents; k++) {
    GmValueId v = g_array_index (g->outputs, GmGraphOutput, joint->tangents[k].i).value;
    uint32_t node = gm_graph_value (g, v)->node;
    turns[k] = (Turn){ node == GM_NO_ID ? -1 : (int64_t) node, k };
    reached[v] = true;
  }
  *of_results = sorted (arena, turns, joint->n_tangents);
  for (GmValueId v = 0; v < g->values->len; v++)
    first[v] = -1;
  for (uint32_t k = g->nodes->len; k-- > 0;) {
    const GmNode *m = gm_graph_node (g, k);
    for (uint32_t i = 0; reached[m->out] && i < m->n_in; i++)
      if (gm_graph_meta (g, m->out)->requires_grad
          && (m->op == GM_OP_custom || gm_op_is_differentiable (m->op, (int) i))) {
        first[m->in[i]] = (int64_t) k * 1024 + 1023 - MIN (i, 1023);
        reached[m->in[i]] = true;
      }
  }
  for (uint32_t k = 0; k < joint->n_grads; k++)
    turns[k] = (Turn){ first[g_array_index (g->inputs, GmValueId, joint->grads[k].i)], k };
  *of_arguments = sorted (arena, turns, joint->n_grads);
}
