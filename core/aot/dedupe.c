/* SPDX-License-Identifier: Apache-2.0
 * dedupe.c -- one tensor that is passed twice becomes one input.
 *
 * A write to it is then seen under both names without further work, and its gradient is one sum, as
 * it is for the one leaf that the caller has.
 * Breaks: nothing; no later layer meets two inputs that are one tensor.
 */
#include "core/aot/layer_facts.h"

/* -- Graph ------------------------------------------------------------------------------------- */

static GmValueId
same_as (const GmGraph *g, GmValueId v)
{
  const GmGraphAlias *a = gm_graph_value (g, v)->alias;

  return a ? a->same : GM_NO_ID;
}

bool
gm_dedupe_applies (const GmGraph *g)
{
  for (uint32_t i = 0; i < g->inputs->len; i++)
    if (same_as (g, g_array_index (g->inputs, GmValueId, i)) != GM_NO_ID)
      return true;
  return false;
}

/* Adds the inputs that stay to `out`, in their order, then maps the duplicates to them.  Fills
 * `from`, and appends the fact that two inputs are one tensor for each duplicate. */
static void
add_inputs (const GmGraph *g, GmGraph *out, GmValueId *map, GmOuterInput *from, GArray *overlaps)
{
  uint32_t *place = g_newa (uint32_t, g->values->len);

  for (uint32_t i = 0; i < g->inputs->len; i++) {
    GmValueId v = g_array_index (g->inputs, GmValueId, i);
    place[v] = i;
    if (same_as (g, v) != GM_NO_ID)
      continue;
    from[out->inputs->len] = (GmOuterInput){ i };
    map[v] = gm_graph_add_input (out, gm_graph_value (g, v)->name, gm_graph_meta (g, v));
  }
  for (uint32_t i = 0; i < g->inputs->len; i++) {
    GmValueId v = g_array_index (g->inputs, GmValueId, i), first = same_as (g, v);
    if (first == GM_NO_ID)
      continue;
    map[v] = map[first];
    gm_overlap_add (overlaps, GM_OVERLAP_SAME, (GmOuterInput){ place[first] }, (GmOuterInput){ i },
                    0, NULL);
  }
}

static void
carry_aliases (const GmGraph *g, GmGraph *out, const GmValueId *map)
{
  for (uint32_t i = 0; i < g->inputs->len; i++) {
    GmValueId v = g_array_index (g->inputs, GmValueId, i);
    const GmGraphAlias *old = gm_graph_value (g, v)->alias;
    /* NO_ID is last */
    if (gm_graph_value (g, v)->look.nth < gm_graph_value (out, map[v])->look.nth)
      gm_graph_value (out, map[v])->look = gm_graph_value (g, v)->look;
    if (!old || old->same != GM_NO_ID)
      continue;
    GmGraphAlias a = *old;
    a.shares = a.shares != GM_NO_ID ? map[a.shares] : GM_NO_ID;
    a.base = a.base != GM_NO_ID ? map[a.base] : GM_NO_ID;
    gm_graph_set_alias (out, map[v], &a);
  }
}

GmGraph *
gm_dedupe (const GmGraph *g, GmArena *arena, GmDedupeLayer *layer, GArray *overlaps, GError **error)
{
  g_autoptr (GmGraph) out = gm_graph_new_like (g, g->name, arena);
  GmOuterInput *from = gm_arena_newn (arena, GmOuterInput, g->inputs->len);
  GmValueId *map = gm_arena_newn (arena, GmValueId, g->values->len);

  gm_graph_share_tables (out, g);
  add_inputs (g, out, map, from, overlaps);
  carry_aliases (g, out, map);
  *layer = (GmDedupeLayer){ g->inputs->len, out->inputs->len, from };
  if (!gm_copy_nodes (out, g, map, error))
    return NULL;
  for (uint32_t i = 0; i < g->outputs->len; i++) {
    const GmGraphOutput *o = &g_array_index (g->outputs, GmGraphOutput, i);
    gm_graph_add_output (out, map[o->value], o->kind);
  }
  g_assert (!gm_dedupe_applies (out) && layer->n_inner < layer->n_outer);
  return g_steal_pointer (&out);
}

/* -- Expected facts about the result ----------------------------------------------------------- */

GmFacts *
gm_dedupe_expect (const GmGraph *g, const GmDedupeLayer *l, GmArena *arena)
{
  const GmFacts *before = gm_layer_facts_derive (g, arena);
  GmFacts *f = gm_layer_facts_new (arena, l->n_inner, before->n_outputs);

  g_assert (before->n_inputs == l->n_outer);
  for (uint32_t i = 0; i < l->n_inner; i++)
    f->inputs[i] = before->inputs[l->from[i].i];
  for (uint32_t i = 0; i < f->n_outputs; i++) {
    f->outputs[i] = before->outputs[i];
    for (uint32_t k = 0; k < l->n_inner && f->outputs[i].of_input; k++)
      if (l->from[k].i == before->outputs[i].input)
        f->outputs[i].input = k;
  }
  return f;
}

/* -- Run time ---------------------------------------------------------------------------------- */

void
gm_dedupe_enter (const GmDedupeLayer *l, GmTensor *const *outer, GmTensor **inner)
{
  for (uint32_t i = 0; i < l->n_inner; i++)
    inner[i] = outer[l->from[i].i];
}
