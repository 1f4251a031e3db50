/* SPDX-License-Identifier: Apache-2.0
 * compiled_pair.c -- see compiled_pair.h.
 *
 * A backward that is not compiled yet is kept as a graph with sizes of its own: threads that run
 * the forward read those of the plan.
 */
#include "core/compiled_pair.h"

#include "core/base/log.h"

struct GmCompiledPair {
  gatomicrefcount refs;
  GmExec *forward, *backward; /* backward: atomic, set once; equal to forward if that has both
                               * roles */
  int back_role;              /* the role of `backward` that is the function's backward */
  GmGraph *graph;             /* owned: the backward while it is not compiled, else NULL */
  uint32_t n_nodes;           /* number of nodes of `graph` */
  GmBackend *backend;
  char **options, *no_cache, *cache_salt;
};

/* -- Making ------------------------------------------------------------------------------------ */

/* Returns the backward as a new graph, with sizes of its own, that can be compiled and called by
 * itself. */
static GmGraph *
alone (const GmGraph *backward)
{
  GmGraph *g = gm_graph_copy_apart (backward);

  for (uint32_t i = 0; i < g->outputs->len; i++)
    g_array_index (g->outputs, GmGraphOutput, i).kind = GM_OUTPUT_USER;
  return g;
}

static GmCompileHow
how (const GmCompiledPair *p)
{
  return (GmCompileHow){ .no_cache = p->no_cache, .cache_salt = p->cache_salt };
}

GmCompiledPair *
gm_compiled_pair_new (const GmCompile *c, const GmGraph *forward, const GmGraph *backward,
                      GError **error)
{
  GmCompiledPair *p = g_new0 (GmCompiledPair, 1);
  bool both = forward && backward && c->ask.at_once;

  g_atomic_ref_count_init (&p->refs);
  p->backend = c->ask.backend;
  p->options = g_strdupv (c->ask.for_backend);
  p->no_cache = g_strdup (c->ask.no_cache);
  p->cache_salt = g_strdup (c->ask.cache_salt);
  if (forward) {
    const GmCompileHow as = how (p);
    p->forward = gm_backend_compile_how (p->backend, forward, both ? backward : NULL,
                                         (const char *const *) p->options, &as, error);
    if (!p->forward) {
      gm_compiled_pair_unref (p);
      return NULL;
    }
  }
  if (both) {
    p->backward = gm_exec_ref (p->forward);
    p->back_role = GM_EXEC_BACKWARD;
  } else if (backward) {
    p->graph = alone (backward);
    p->n_nodes = p->graph->nodes->len;
  }
  if (!both && backward && c->ask.at_once && !gm_compiled_pair_prepare (p, error)) {
    gm_compiled_pair_unref (p);
    return NULL;
  }
  return p;
}

bool
gm_compiled_pair_prepare (GmCompiledPair *p, GError **error)
{
  const GmCompileHow as = how (p);
  gint64 start_us = g_get_monotonic_time ();

  if (!p->graph)
    return true;
  GmSizes *sizes = p->graph->sizes, *was = gm_sizes_enter (sizes);
  GmExec *made = gm_backend_compile_how (p->backend, p->graph, NULL,
                                         (const char *const *) p->options, &as, error);
  if (sizes && !gm_sizes_check (sizes, made ? error : NULL))
    g_clear_pointer (&made, gm_exec_unref);
  gm_sizes_enter (was);
  if (!made) {
    g_prefix_error (
        error,
        "the backward of a compiled function, which is compiled when it is first called for: ");
    return false;
  }
  if (gm_log_on (GM_LOG_TIMINGS))
    gm_log (GM_LOG_TIMINGS, "lower of the backward %.3f ms",
            (double) (g_get_monotonic_time () - start_us) / 1000);
  __atomic_store_n (&p->backward, made, __ATOMIC_RELEASE);
  g_clear_pointer (&p->graph, gm_graph_free);
  return true;
}

GmCompiledPair *
gm_compiled_pair_ref (GmCompiledPair *p)
{
  g_atomic_ref_count_inc (&p->refs);
  return p;
}

void
gm_compiled_pair_unref (GmCompiledPair *p)
{
  if (!p || !g_atomic_ref_count_dec (&p->refs))
    return;
  gm_exec_unref (p->forward);
  gm_exec_unref (p->backward);
  g_clear_pointer (&p->graph, gm_graph_free);
  g_strfreev (p->options);
  g_free (p->no_cache);
  g_free (p->cache_salt);
  g_free (p);
}

/* -- As a plan's ------------------------------------------------------------------------------- */

GmExec *
gm_compiled_pair_exec (const GmCompiledPair *p, int role, int *its_role)
{
  *its_role = role == GM_EXEC_BACKWARD ? p->back_role : GM_EXEC_FORWARD;
  return role == GM_EXEC_BACKWARD ? __atomic_load_n (&p->backward, __ATOMIC_ACQUIRE) : p->forward;
}

static bool
run (void *data, int role, GmTensor *const *in, int n_in, GmTensor *const *out, int n_out,
     GError **error)
{
  GmExec *e = gm_compiled_pair_exec (data, role, &role);
  return gm_exec_run (e, role, in, n_in, out, n_out, error);
}

static bool
run_known (void *data, int role, const int64_t *symbols, GmTensor *const *in, int n_in,
           GmTensor *const *out, int n_out, GError **error)
{
  GmExec *e = gm_compiled_pair_exec (data, role, &role);
  return gm_exec_run_known (e, role, symbols, in, n_in, out, n_out, error);
}

static bool
run_sized (void *data, int role, const int64_t *symbols, GmTensor *const *in, int n_in,
           GmTensor *const *out, int n_out, GError **error)
{
  GmExec *e = gm_compiled_pair_exec (data, role, &role);
  return gm_exec_run_sized (e, role, symbols, in, n_in, out, n_out, error);
}

static bool
may_share (void *data, int role, uint32_t in, uint32_t out)
{
  GmExec *e = gm_compiled_pair_exec (data, role, &role);
  return gm_exec_may_share (e, role, in, out);
}

static bool
prepare (void *data, GError **error)
{
  return gm_compiled_pair_prepare (data, error);
}

static void
unref (void *data)
{
  gm_compiled_pair_unref (data);
}

GmPlanExec
gm_compiled_pair_plan_exec (GmCompiledPair *p)
{
  return (GmPlanExec){ .data = p,
                       .run = run,
                       .unref = unref,
                       .run_known = run_known,
                       .run_sized = run_sized,
                       .may_share = may_share,
                       .prepare = p->graph ? prepare : NULL };
}

/* -- Asking ------------------------------------------------------------------------------------ */

const char *
gm_compiled_pair_fallback_reason (const GmCompiledPair *p)
{
  int role;
  const GmExec *backward = gm_compiled_pair_exec (p, GM_EXEC_BACKWARD, &role);
  const char *why = p->forward ? gm_exec_fallback_reason (p->forward) : NULL;

  return why || !backward ? why : gm_exec_fallback_reason (backward);
}

char *
gm_compiled_pair_places_text (const GmCompiledPair *p, bool every)
{
  int role;
  const GmExec *backward = gm_compiled_pair_exec (p, GM_EXEC_BACKWARD, &role);
  g_autofree char *first = p->forward ? gm_exec_places_text (p->forward, every) : NULL,
                  *second = backward && backward != p->forward
                                ? gm_exec_places_text (backward, every)
                            : !backward && p->n_nodes ? g_strdup_printf (
                                  "backward: %u nodes, compiled when it is first called for\n",
                                  p->n_nodes)
                                                      : NULL;

  return first || second ? g_strconcat (first ? first : "", second ? second : "", NULL) : NULL;
}
