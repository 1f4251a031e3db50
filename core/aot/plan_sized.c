/* SPDX-License-Identifier: Apache-2.0
 * plan_sized.c -- a plan whose sizes are symbols, and the plans of numbers that are made of it.
 *
 * A call depends on sizes only in metas and in attributes of views.  So a plan for one set of
 * numbers is a copy in which these are numbers: no stage of the compilation runs again, and the
 * code is the same, which is given the symbols' values at each run.  The graph for an unfolded
 * backward is specialised to the numbers when that backward runs.
 */
#include "core/aot/plan_private.h"

typedef struct {
  const GmSizes *sizes;
  const int64_t *symbols;
  int64_t *values; /* per row of the expressions: its value */
  bool *known;
  GmArena *arena;
  GError **error;
} Filler;

static void
evaluate (Filler *f)
{
  uint32_t n = gm_sym_n_rows (f->sizes->sym);
  f->values = g_new (int64_t, n + 1);
  f->known = g_new (bool, n + 1);
  gm_sym_eval_known (f->sizes->sym, f->symbols, f->values, f->known);
}

static void
filler_clear (Filler *f)
{
  g_free (f->values);
  g_free (f->known);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Filler, filler_clear)

static bool
fill_size (const Filler *f, int64_t *size)
{
  if (!gm_size_is_symbolic (*size))
    return true;
  uint32_t row = gm_size_row (*size);
  if (!f->known[row]) /* names the row in the error */
    return gm_sym_eval (f->sizes->sym, *size, f->symbols, size, f->error);
  *size = f->values[row];
  return true;
}

/* Returns the n metas with numbers for sizes, in the plan's arena.  A stride of row-major order is
 * at least 1 where a size is 0, as in the plain program. */
static const GmMeta *
fill_metas (const Filler *f, const GmMeta *metas, uint32_t n)
{
  GmMeta *now = gm_arena_newn (f->arena, GmMeta, n + 1);
  for (uint32_t i = 0; i < n; i++) {
    now[i] = metas[i];
    for (int d = 0; d < now[i].ndim; d++)
      if (!fill_size (f, &now[i].sizes[d]) || !fill_size (f, &now[i].strides[d]))
        return NULL;
  }
  return now;
}

static const GmReplay *
fill_replays (const Filler *f, const GmReplay *replays, uint32_t n)
{
  GmReplay *now = gm_arena_newn (f->arena, GmReplay, n + 1);
  for (uint32_t i = 0; i < n; i++) {
    now[i] = replays[i];
    GmAttrs *a = &now[i].attrs;
    for (int k = 0; a->mask & 1u << GM_ATTR_SIZES && k < a->n_list; k++)
      if (!fill_size (f, &a->list[k]))
        return NULL;
    if (!fill_size (f, &a->start) || !fill_size (f, &a->stop))
      return NULL;
  }
  return now;
}

bool
gm_plan_is_sized (const GmPlan *p)
{
  return p->sizes != NULL;
}

bool
gm_plan_fits (const GmPlan *p, const int64_t *symbols)
{
  g_auto (Filler) f = { .sizes = p->sizes, .symbols = symbols };
  evaluate (&f);
  for (uint32_t i = 0; i < gm_size_facts_n (p->sizes->facts); i++) {
    GmSizeFact fact = gm_size_facts_nth (p->sizes->facts, i);
    if (!fill_size (&f, &fact.a) || !fill_size (&f, &fact.b)
        || gm_sizes_ask (p->sizes, fact.rel, fact.a, fact.b) != GM_YES)
      return false;
  }
  return true;
}

GmPlan *
gm_plan_at (GmPlan *p, const int64_t *symbols, GError **error)
{
  GmPlan *now = g_new (GmPlan, 1);
  const GmLayers *l = &p->layers;

  g_assert (p->sizes && !p->of);
  *now = *p;
  g_atomic_ref_count_init (&now->refs);
  now->arena = gm_arena_new ();
  now->of = gm_plan_ref (p);
  now->layouts = NULL;
  now->sizes = NULL;
  now->symbols =
      gm_arena_copy (now->arena, symbols, sizeof *symbols * (gm_sym_n_symbols (p->sizes->sym) + 1));
  g_auto (Filler)
      f = { .sizes = p->sizes, .symbols = symbols, .arena = now->arena, .error = error };
  evaluate (&f);
  uint32_t n_saved = (uint32_t) p->n_saved, n_tangents = (uint32_t) p->n_tangents;
  if (!fill_size (&f, &now->random.draws)
      || !(now->layers.inputs = fill_metas (&f, l->inputs, l->n_inputs))
      || !(now->layers.alias.replays = fill_replays (&f, l->alias.replays, l->alias.n_replays))
      || !(now->forward_metas = fill_metas (&f, p->forward_metas, (uint32_t) p->n_forward))
      || !(now->backward_metas = fill_metas (&f, p->backward_metas, (uint32_t) p->n_backward))
      || !(now->tangent_metas = fill_metas (&f, p->tangent_metas, n_tangents))
      || !(now->saved_metas = fill_metas (&f, p->saved_metas, n_saved))) {
    gm_plan_unref (now);
    return NULL;
  }
  return now;
}

GmGraph *
gm_plan_graph_now (const GmPlan *p, GError **error)
{
  return gm_graph_specialise (p->graph, p->symbols, NULL, error);
}
