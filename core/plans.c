/* SPDX-License-Identifier: Apache-2.0
 * plans.c -- plans by the values of symbols: see plans.h.
 *
 * The latest stand first, so a call whose sizes are those of the one before compares one row.
 */
#include "core/plans.h"

#include <string.h>

typedef struct {
  GmPlan *plan;
  int64_t symbols[]; /* n_symbols of them */
} Kept;

struct GmPlans {
  GmGraph *graph; /* owned */
  const GmSymbolSource *sources; /* by symbol */
  int64_t *fixed;                /* by symbol: the value of one that no input has */
  uint32_t n_symbols;
  GmBackend *backend;
  bool (*make_exec) (const void *data, const GmGraph *forward, const GmGraph *backward, GmPlanExec *out, GError **error);
  const void *make_exec_data;
  char **options;
  bool differentiate;
  GmPlanRandom random;
  GPtrArray *kept; /* Kept */
};

static void
kept_free (void *data)
{
  gm_plan_unref (((Kept *) data)->plan);
  g_free (data);
}

bool
gm_plans_possible (const GmGraph *g)
{
  if (g->customs && g->customs->len)
    return false;
  for (uint32_t i = 0; i < g->nodes->len; i++)
    if (gm_ops[gm_graph_node (g, i)->op].family == GM_FAMILY_MUTATE)
      return false;
  return true;
}

GmPlans *
gm_plans_new (const GmCompile *c)
{
  GmPlans *p = g_new0 (GmPlans, 1);
  p->graph = gm_graph_simplify (c->record.graph, GM_SIMPLIFY_DEAD, NULL);
  p->n_symbols = gm_graph_symbol_sources (p->graph, p->graph->arena, &p->sources);
  p->fixed = g_new0 (int64_t, p->n_symbols + 1);
  for (uint32_t i = 0; i < p->n_symbols; i++)
    if (p->sources[i].input == GM_NO_ID)
      gm_sizes_is_number (p->graph->sizes, gm_sizes_nth_symbol (p->graph->sizes, i), &p->fixed[i]);
  p->backend = c->ask.backend;
  p->make_exec = c->ask.make_exec;
  p->make_exec_data = c->ask.make_exec_data;
  p->options = g_strdupv ((char **) c->ask.options);
  p->differentiate = c->ask.differentiate;
  p->random = c->record.random;
  p->kept = g_ptr_array_new_with_free_func (kept_free);
  return p;
}

void
gm_plans_free (GmPlans *p)
{
  if (!p)
    return;
  g_ptr_array_unref (p->kept);
  gm_graph_free (p->graph);
  g_strfreev (p->options);
  g_free (p->fixed);
  g_free (p);
}

static GmPlan *
plan_new (const GmPlans *p, const int64_t *symbols, GError **error)
{
  g_autoptr (GmCompile) c = gm_compile_new ();
  GmGraph *g = gm_graph_specialise (p->graph, symbols, NULL, error);

  if (!g)
    return NULL;
  c->ask.backend = p->backend;
  c->ask.make_exec = p->make_exec;
  c->ask.make_exec_data = p->make_exec_data;
  c->ask.options = (const char *const *) p->options;
  c->ask.differentiate = p->differentiate;
  gm_compile_set_graph (c, g);
  c->record.random = p->random;
  return gm_compile_run (c, 's', 'l', error) ? g_steal_pointer (&c->lower.plan) : NULL;
}

GmPlan *
gm_plans_get (GmPlans *p, GmTensor *const *inputs, GError **error)
{
  int64_t now[p->n_symbols + 1];
  uint32_t i;

  for (uint32_t s = 0; s < p->n_symbols; s++) {
    const GmSymbolSource *from = &p->sources[s];
    if (from->input == GM_NO_ID) {
      now[s] = p->fixed[s];
      continue;
    }
    const GmMeta *m = &inputs[from->input - (p->random.used && from->input > p->random.input.i)]->meta;
    now[s] = from->is_stride ? m->strides[from->dim] : m->sizes[from->dim];
  }
  for (i = 0; i < p->kept->len; i++)
    if (!memcmp (((Kept *) p->kept->pdata[i])->symbols, now, p->n_symbols * sizeof *now))
      break;
  if (i == p->kept->len) {
    GmPlan *plan = plan_new (p, now, error);
    if (!plan)
      return NULL;
    Kept *fresh = g_malloc (sizeof *fresh + p->n_symbols * sizeof *now);
    fresh->plan = plan;
    memcpy (fresh->symbols, now, p->n_symbols * sizeof *now);
    if (p->kept->len == GM_PLANS_KEPT)
      g_ptr_array_set_size (p->kept, GM_PLANS_KEPT - 1);
    g_ptr_array_insert (p->kept, 0, fresh);
  } else if (i > 0) {
    Kept *found = g_ptr_array_steal_index (p->kept, i);
    g_ptr_array_insert (p->kept, 0, found);
  }
  return ((Kept *) p->kept->pdata[0])->plan;
}
