/* SPDX-License-Identifier: Apache-2.0 */
/* read_order.c -- see read_order.h. */
#include "core/aot/read_order.h"

#include "core/autograd/autograd.h"

typedef struct {
  const GmGraph *g;
  uint32_t *place; /* per value: the number of the input that it is */
  bool *seen;      /* per input */
  uint32_t *inputs, *at, n;
} Search;

static void
look (Search *s, GmValueId v, uint32_t at)
{
  if (gm_graph_value (s->g, v)->node != GM_NO_ID || s->seen[s->place[v]])
    return;
  s->seen[s->place[v]] = true;
  s->at[s->n] = at;
  s->inputs[s->n++] = s->place[v];
}

/* Notes the inputs that node `at` refreshes by reading them.  A node that ran with gradients off
 * refreshes nothing; a write refreshes the tensor that it has written to.  A cast to integers
 * refreshes nothing, as its result has no history: where gradients are off, recorded casts are of
 * detached values. */
static void
look_at_operands (Search *s, uint32_t at)
{
  const GmNode *n = gm_graph_node (s->g, at);
  const GmMeta *m = gm_graph_meta (s->g, n->out);

  if (!m->requires_grad && (gm_ops[n->op].family != GM_FAMILY_CAST || gm_dtype_is_float (m->dtype)))
    return;
  for (uint32_t k = 0; k < n->n_in; k++)
    if (gm_graph_meta (s->g, n->in[k])->requires_grad
        && (gm_ops[n->op].family == GM_FAMILY_MUTATE || gm_op_is_differentiable (n->op, (int) k)))
      look (s, n->in[k], at);
}

GmReadOrder
gm_read_order_find (const GmGraph *g, const GmGraphLook *notes, uint32_t n_notes)
{
  Search s = { .g = g,
               .place = g_new (uint32_t, g->values->len + 1),
               .seen = g_new0 (bool, g->inputs->len + 1),
               .inputs = g_new (uint32_t, g->inputs->len + 1),
               .at = g_new (uint32_t, g->inputs->len + 1) };

  for (uint32_t i = 0; i < g->inputs->len; i++)
    s.place[g_array_index (g->inputs, GmValueId, i)] = i;
  for (uint32_t i = 0, k = 0; i <= g->nodes->len; i++) {
    for (; k < n_notes && notes[k].at <= i; k++)
      look (&s, notes[k].input, i);
    if (i < g->nodes->len)
      look_at_operands (&s, i);
  }
  g_free (s.place);
  g_free (s.seen);
  return (GmReadOrder){ s.n, s.inputs, s.at };
}

void
gm_read_order_note (GmGraph *g, const GmReadOrder *l)
{
  for (uint32_t i = 0; i < l->n; i++) {
    GmGraphValue *v = gm_graph_value (g, g_array_index (g->inputs, GmValueId, l->inputs[i]));
    v->look.step = l->at[i];
    v->look.nth = i;
  }
}

void
gm_read_order_note_nodes (GmGraph *g)
{
  for (uint32_t i = 0; i < g->inputs->len; i++)
    if (gm_graph_value (g, g_array_index (g->inputs, GmValueId, i))->look.nth != GM_NO_ID)
      return;
  GmReadOrder looks = gm_read_order_find (g, NULL, 0);
  gm_read_order_note (g, &looks);
  gm_read_order_clear (&looks);
}

void
gm_read_order_clear (GmReadOrder *looks)
{
  g_clear_pointer (&looks->inputs, g_free);
  g_clear_pointer (&looks->at, g_free);
  looks->n = 0;
}

static bool
comes_before (const GmReadOrder *l, uint32_t i, GmTensor *const *inputs, const GmTensor *t)
{
  for (uint32_t k = 0; k < i; k++)
    if (inputs[l->inputs[k]] == t)
      return l->at[k] < l->at[i];
  return false;
}

bool
gm_read_order_take (const GmReadOrder *l, GmTensor *const *inputs)
{
  for (uint32_t i = 0; i < l->n; i++) {
    GmTensor *t = inputs[l->inputs[i]];
    if (G_UNLIKELY (t->base) && gm_autograd_is_late (t) && comes_before (l, i, inputs, t->base))
      return false;
  }
  for (uint32_t i = 0; i < l->n; i++)
    if (G_UNLIKELY (inputs[l->inputs[i]]->base))
      gm_autograd_view_refresh (inputs[l->inputs[i]]);
  return true;
}
