/* SPDX-License-Identifier: Apache-2.0
 * layers.c -- stage f: the graph halves of all layers, in order.
 *
 * metadata goes first, so that no other layer meets a tensor that changes its shape; dedupe and
 * then synthetic_base decide which inputs share memory; output_alias stands between them, because a
 * view that is an output is taken of the caller's tensor and not of a base.  A layer that has
 * nothing to do is left out, here and in each call.
 */
#include "core/aot/aot.h"
#include "core/aot/layer_facts.h"

typedef struct {
  GmArena *arena;
  GmLayers *layers;
  const GmGraph *at; /* the result of the last layer */
  GmGraph *owned;    /* the same as `at`, unless that is the caller's graph; freed with the next
                      * step */
} Way;

/* Makes `next`, the result of a layer, the graph that the next layer reads; false if it is NULL. */
static bool
go_on (Way *w, GmGraph *next)
{
  if (!next)
    return false;
  gm_graph_free (w->owned);
  w->at = w->owned = next;
  return true;
}

static bool
run_metadata (Way *w, GArray *overlaps, GError **error)
{
  GmMetadataLayer *l = &w->layers->metadata;
  if (!(w->layers->has_metadata = gm_metadata_applies (w->at)))
    return true;
  GmGraph *next = gm_metadata (w->at, w->arena, l, overlaps, error);
  if (next)
    GM_FACTS_COMPARE (gm_metadata_expect (w->at, l, w->arena), next, "metadata");
  return go_on (w, next);
}

static bool
run_dedupe (Way *w, GArray *overlaps, GError **error)
{
  GmDedupeLayer *l = &w->layers->dedupe;
  if (!(w->layers->has_dedupe = gm_dedupe_applies (w->at)))
    return true;
  GmGraph *next = gm_dedupe (w->at, w->arena, l, overlaps, error);
  if (next)
    GM_FACTS_COMPARE (gm_dedupe_expect (w->at, l, w->arena), next, "dedupe");
  return go_on (w, next);
}

static bool
run_alias (Way *w, GError **error)
{
  GmAliasLayer *l = &w->layers->alias;
  GmGraph *next = gm_output_alias (w->at, w->arena, l, error);
  if (next)
    GM_FACTS_COMPARE (gm_output_alias_expect (w->at, l, w->arena), next, "output_alias");
  return go_on (w, next);
}

/* Renumbers, from index `from` on, facts about inputs of the graph behind dedupe, as the caller's
 * inputs. */
static void
number_as_caller (const GmLayers *l, GArray *overlaps, guint from)
{
  for (guint i = from; l->has_dedupe && i < overlaps->len; i++) {
    GmOverlap *o = &g_array_index (overlaps, GmOverlap, i);
    o->a = l->dedupe.from[o->a.i];
    o->b = l->dedupe.from[o->b.i];
  }
}

static bool
has_symbols (const GmGraph *g)
{
  for (uint32_t i = 0; i < g->inputs->len; i++)
    if (gm_meta_is_symbolic (gm_graph_meta (g, g_array_index (g->inputs, GmValueId, i))))
      return true;
  return false;
}

static bool
run_bases (Way *w, bool differentiate, GArray *overlaps, GError **error)
{
  GmBaseLayer *l = &w->layers->bases;
  GError *why = NULL;
  guint from = overlaps->len;
  GmBasePlan *plan = gm_synthetic_base_plan (w->at, differentiate, w->arena, overlaps, &why);

  number_as_caller (w->layers, overlaps, from);
  if (why) {
    g_propagate_error (error, why);
    return false;
  }
  if (!(w->layers->has_bases = plan != NULL))
    return true;
  if (has_symbols (w->at)) {
    g_set_error (
        error, GM_ERROR, GM_ERROR_UNSUPPORTED,
        "inputs that share memory are merged, and where they lie in it depends on sizes that "
        "are not numbers yet");
    return false;
  }
  GmGraph *next = gm_synthetic_base (w->at, plan, w->arena, l, error);
  if (next)
    GM_FACTS_COMPARE (gm_synthetic_base_expect (w->at, l, w->arena), next, "synthetic_base");
  return go_on (w, next);
}

/* Refuses views that were taken with gradients off and are taken again after the call: eager gives
 * such a view a history when its base gets a new history, but a view that is taken again gets
 * none. */
static bool
check_quiet_views (const Way *w, GError **error)
{
  const GmLayers *l = w->layers;

  for (uint32_t k = 0; l->has_bases && k < l->alias.n_replays; k++) {
    uint32_t slot = l->alias.replays[k].slot;
    while (slot >= l->alias.n_inputs + l->alias.n_inner)
      slot = l->alias.replays[slot - l->alias.n_inputs - l->alias.n_inner].slot;
    for (uint32_t b = 0; l->alias.replays[k].no_grad && b < l->bases.n_bases; b++)
      for (uint32_t i = l->bases.first[b]; i < l->bases.first[b + 1]; i++)
        if (l->bases.outer[i].i == slot && l->bases.sources[b].meta.requires_grad) {
          g_set_error (
              error, GM_ERROR, GM_ERROR_UNSUPPORTED,
              "a view that is taken with gradients off is given out, and its memory, which "
              "takes part in the gradient, is written to under another name: keep the "
              "write out of the compiled function");
          return false;
        }
  }
  return true;
}

static bool
run_functionalize (Way *w, bool differentiate, GError **error)
{
  GmFunctionalLayer *l = &w->layers->functional;
  const bool *elsewhere = w->layers->has_bases ? w->layers->bases.in_pieces : NULL;
  GmGraph *next = gm_functionalize (w->at, differentiate, elsewhere, w->arena, l, error);

  if (next)
    GM_FACTS_COMPARE (gm_functionalize_expect (w->at, l, differentiate, w->arena), next,
                      "functionalize");
  return go_on (w, next);
}

static int
by_turn (const void *a, const void *b, void *data)
{
  const GmInputLook *x = a, *y = b;
  const GmGraph *g = data;
  uint32_t i = gm_graph_value (g, g_array_index (g->inputs, GmValueId, x->input))->look.nth,
           k = gm_graph_value (g, g_array_index (g->inputs, GmValueId, y->input))->look.nth;

  return (i > k) - (i < k);
}

static void
note_looks (const GmGraph *g, GmArena *arena, GmLayers *l)
{
  GmInputLook *looks = gm_arena_newn (arena, GmInputLook, g->inputs->len + 1);

  for (uint32_t i = 0; i < g->inputs->len; i++) {
    const GmGraphValue *v = gm_graph_value (g, g_array_index (g->inputs, GmValueId, i));
    if (v->look.step != GM_NO_ID && v->meta.requires_grad)
      looks[l->n_looks++] = (GmInputLook){ i, v->look.step };
  }
  g_qsort_with_data (looks, (int) l->n_looks, sizeof *looks, by_turn, (void *) g);
  l->looks = looks;
}

static void
note_inputs (const GmGraph *g, GmArena *arena, GmLayers *l)
{
  GmMeta *metas = gm_arena_newn (arena, GmMeta, g->inputs->len);

  for (uint32_t i = 0; i < g->inputs->len; i++)
    metas[i] = *gm_graph_meta (g, g_array_index (g->inputs, GmValueId, i));
  l->inputs = metas;
  l->n_inputs = g->inputs->len;
  l->n_outputs = g->outputs->len;
}

/* Refuses host calls and gradient hooks with symbolic sizes: their recorded metas are compared, as
 * numbers, with each result or argument. */
static bool
check_host_calls (const GmGraph *g, GError **error)
{
  if (!has_symbols (g))
    return true;
  for (uint32_t i = 0; i < g->nodes->len; i++) {
    const GmNode *n = gm_graph_node (g, i);
    if (n->op == GM_OP_host_call || n->op == GM_OP_gradient_hook) {
      g_set_error (error, GM_ERROR, GM_ERROR_UNSUPPORTED,
                   "what functions of the host's give, and hooks on the way are given, has sizes "
                   "that are numbers");
      return false;
    }
  }
  return true;
}

GmGraph *
gm_layers_apply (const GmGraph *g, bool differentiate, GmArena *arena, GmLayers *l, GError **error)
{
  g_autoptr (GArray) overlaps = g_array_new (FALSE, FALSE, sizeof (GmOverlap));
  Way w = { .arena = arena, .layers = l, .at = g };

  *l = (GmLayers){ .differentiate = differentiate };
  note_inputs (g, arena, l);
  note_looks (g, arena, l);
  if (check_host_calls (g, error) && run_metadata (&w, overlaps, error)
      && run_dedupe (&w, overlaps, error) && run_alias (&w, error)
      && run_bases (&w, differentiate, overlaps, error) && check_quiet_views (&w, error)
      && run_functionalize (&w, differentiate, error)
      && gm_higher_prepare (w.owned, differentiate, error)) {
    l->n_overlaps = overlaps->len;
    l->overlaps = gm_arena_copy (arena, overlaps->data, overlaps->len * sizeof (GmOverlap));
    return w.owned;
  }
  gm_graph_free (w.owned);
  return NULL;
}
