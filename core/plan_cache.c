/* SPDX-License-Identifier: Apache-2.0
 * plan_cache.c -- plans by the values of symbols: see plan_cache.h.
 *
 * The latest stand first, in `forms` as in `kept`, so a call with the sizes of the call before
 * compares one row, `latest`.  Each form is made of a copy of the graph with sizes of its own:
 * facts that the stages add hold for it alone.
 * Invariant: a plan of `kept` is right for its symbols, even if the form that it was made of, which
 * it holds, has left `forms`.
 */
#include "core/plan_cache.h"

#include <string.h>

#include "core/base/log.h"

typedef struct {
  GmPlan *plan;
  int64_t symbols[]; /* n_symbols of them */
} Kept;

struct GmPlanCache {
  GmGraph *graph;                /* owned; as recorded */
  const GmSymbolSource *sources; /* per symbol: the input and dimension that it is read from */
  int64_t *fixed;                /* per symbol: its value if no input has it */
  uint32_t n_symbols;
  bool counts;  /* some symbols get their values from data */
  GArray *open; /* uint32_t: facts that each call checks, because they are about symbols that
                 * get their values from data */
  GmBackend *backend;
  bool (*make_exec) (const void *data, const GmGraph *forward, const GmGraph *backward,
                     bool at_once, GmPlanExec *out, GError **error);
  const void *make_exec_data;
  char **options;
  bool differentiate;
  GmTraceHooks trace_hooks; /* with their data, owned by the owner of the cache; NULL: none */
  void *trace_hooks_data;
  char *no_cache, *cache_salt;
  GmPlanRandom random;
  GmPlan *first;    /* the first form, whose assumptions about memory are guarded */
  GPtrArray *forms; /* GmPlan */
  GString *made;    /* a line for each form: its assumptions beyond those of the recording */
  GPtrArray *kept;  /* Kept: plans of numbers, the latest first */
  Kept *latest;     /* the first entry of `kept` */
  uint32_t running; /* number of calls, one inside of another, that may be running plans of
                     * `kept` */
  GPtrArray *gone;  /* Kept: plans that were removed from `kept` while calls ran */
};

static void
kept_free (void *data)
{
  gm_plan_unref (((Kept *) data)->plan);
  g_free (data);
}

/* True if inputs of the graph are known to share memory: then facts about where they lie depend on
 * sizes. */
static bool
shares_memory (const GmGraph *g)
{
  for (uint32_t i = 0; i < g->inputs->len; i++) {
    const GmGraphAlias *a = gm_graph_value (g, g_array_index (g->inputs, GmValueId, i))->alias;
    if (a
        && (a->same != GM_NO_ID || a->shares != GM_NO_ID || a->base != GM_NO_ID
            || a->has_base_meta))
      return true;
  }
  return false;
}

bool
gm_plan_cache_possible (const GmGraph *g)
{
  bool writes = false;
  for (uint32_t i = 0; i < g->nodes->len; i++)
    writes |= gm_ops[gm_graph_node (g, i)->op].family == GM_FAMILY_MUTATE;
  return !(writes && shares_memory (g));
}

static void
put_first (GPtrArray *all, void *one, uint32_t most)
{
  if (all->len == most)
    g_ptr_array_set_size (all, (int) most - 1);
  g_ptr_array_insert (all, 0, one);
}

static void
move_first (GPtrArray *all, uint32_t i)
{
  if (i > 0)
    g_ptr_array_insert (all, 0, g_ptr_array_steal_index (all, i));
}

/* -- Forms ------------------------------------------------------------------------------------- */

static GmCompile *
compile_new (const GmPlanCache *p, GmGraph *g)
{
  GmCompile *c = gm_compile_new ();
  c->ask.backend = p->backend;
  c->ask.make_exec = p->make_exec;
  c->ask.make_exec_data = p->make_exec_data;
  c->ask.options = (const char *const *) p->options;
  c->ask.differentiate = p->differentiate;
  c->ask.trace_hooks = p->trace_hooks;
  c->ask.trace_hooks_data = p->trace_hooks_data;
  c->ask.no_cache = g_strdup (p->no_cache);
  c->ask.cache_salt = g_strdup (p->cache_salt);
  gm_compile_set_graph (c, g);
  c->record.random = p->random;
  return c;
}

/* Compiles the graph with symbolic sizes, with `symbols` as their example values.  The caller frees
 * the result; NULL: *error. */
static GmCompile *
compile_symbols (const GmPlanCache *p, const int64_t *symbols, GError **error)
{
  GmSizes *sizes = gm_sizes_copy (p->graph->sizes);
  g_array_set_size (sizes->hints, 0);
  g_array_append_vals (sizes->hints, symbols, p->n_symbols);
  g_autoptr (GmCompile) c = compile_new (p, gm_graph_copy_with (p->graph, sizes));
  return gm_compile_run (c, 's', 'l', error) ? g_steal_pointer (&c) : NULL;
}

static GmCompile *
compile_numbers (const GmPlanCache *p, const int64_t *symbols, GError **error)
{
  GmGraph *g = gm_graph_specialise (p->graph, symbols, NULL, error);
  g_autoptr (GmCompile) c = g ? compile_new (p, g) : NULL;
  if (c && !gm_sym_eval (p->graph->sym, p->random.draws, symbols, &c->record.random.draws, error))
    return NULL;
  return c && gm_compile_run (c, 's', 'l', error) ? g_steal_pointer (&c) : NULL;
}

/* Returns a plan of numbers for these sizes, made from the form; a new reference.  NULL, without an
 * error, if the form does not fit them. */
static GmPlan *
plan_of (GmPlan *form, const int64_t *symbols)
{
  if (!gm_plan_is_sized (form))
    return gm_plan_ref (form);
  return gm_plan_fits (form, symbols) ? gm_plan_at (form, symbols, NULL) : NULL;
}

static GmPlan *
plan_of_forms (GmPlanCache *p, const int64_t *symbols)
{
  GmPlan *plan = NULL;
  for (uint32_t i = 0; i < p->forms->len && !plan; i++)
    if ((plan = plan_of (p->forms->pdata[i], symbols)))
      move_first (p->forms, i);
  return plan;
}

/* Appends a line to p->made: the assumptions of a new form about sizes that the recording left
 * open. */
static void
note_form (GmPlanCache *p, const GmSizes *s)
{
  for (uint32_t i = gm_size_facts_n (p->graph->sizes->facts), first = i;
       i < gm_size_facts_n (s->facts); i++) {
    GmSizeFact fact = gm_size_facts_nth (s->facts, i);
    g_autofree char *text = gm_size_fact_text (s->sym, &fact);
    g_string_append_printf (p->made, "%s%s", i == first ? "" : ", ", text);
  }
  g_string_append_c (p->made, '\n');
}

/* Makes a plan for sizes that no form fits, by running the stages: with symbols, which gives a new
 * form or, if a stage cannot do that, with numbers.  Returns a new reference, and the compilation
 * in *out (if not NULL). */
static GmPlan *
plan_new (GmPlanCache *p, const int64_t *symbols, GmCompile **out, GError **error)
{
  g_autoptr (GError) why = NULL;
  g_autoptr (GmCompile) c = compile_symbols (p, symbols, &why);
  GmPlan *plan = c ? plan_of (c->lower.plan, symbols) : NULL;
  if (plan) {
    if (gm_log_on (GM_LOG_DYNAMIC)) {
      g_autofree char *facts = gm_sizes_text (c->record.graph->sizes);
      gm_log (GM_LOG_DYNAMIC, "%s: form %u of its plan, where %s", p->graph->name,
              p->forms->len + 1, facts ? facts : "sizes are any");
    }
    note_form (p, c->record.graph->sizes);
    put_first (p->forms, gm_plan_ref (c->lower.plan), GM_PLANS_FORMS);
  } else {
    gm_log (GM_LOG_DYNAMIC, "%s: compiled for the numbers of each call: %s", p->graph->name,
            why ? why->message : "its own example does not fit it");
    gm_compile_free (c);
    if (p->counts) { /* they are not known before it runs */
      g_propagate_error (error, why ? g_steal_pointer (&why)
                                    : g_error_new (GM_ERROR, GM_ERROR_UNSUPPORTED,
                                                   "its own example does not fit it"));
      return NULL;
    }
    c = compile_numbers (p, symbols, error);
    plan = c ? gm_plan_ref (c->lower.plan) : NULL;
    g_string_append_printf (p->made, "the numbers of a call: %s\n",
                            why ? why->message : "its own example does not fit it");
  }
  if (out)
    *out = g_steal_pointer (&c);
  return plan;
}

const char *
gm_plan_cache_made (const GmPlanCache *p)
{
  return p->made->str;
}

const GmOverlap *
gm_plan_cache_overlaps (const GmPlanCache *p, uint32_t *n)
{
  return gm_plan_overlaps (p->first, n);
}

/* True if the plan's assumptions about memory are those of the first form, which are guarded. */
static bool
takes_no_more (const GmPlanCache *p, const GmPlan *plan)
{
  uint32_t n, m;
  const GmOverlap *a = gm_plan_overlaps (plan, &n),
                  *b = p->first ? gm_plan_cache_overlaps (p, &m) : (m = n, a);
  bool same = n == m;
  for (uint32_t i = 0; i < n && same; i++)
    same = a[i].kind == b[i].kind && a[i].a.i == b[i].a.i && a[i].b.i == b[i].b.i
           && a[i].offset == b[i].offset;
  return same;
}

/* -- Sizes that data says ---------------------------------------------------------------------- */

static bool
is_counted (const GmPlanCache *p, uint32_t symbol)
{
  return p->sources[symbol].input == GM_NO_ID
         && g_array_index (p->graph->sizes->hints, int64_t, symbol) == GM_SIZE_NO_HINT;
}

static bool
fact_holds (const GmSizes *s, const GmSizeFact *f, const int64_t *symbols)
{
  int64_t a, b;
  if (!gm_sym_eval (s->sym, f->a, symbols, &a, NULL)
      || !gm_sym_eval (s->sym, f->b, symbols, &b, NULL))
    return false;
  return f->rel == GM_REL_EQ   ? a == b
         : f->rel == GM_REL_NE ? a != b
         : f->rel == GM_REL_LT ? a < b
                               : a <= b;
}

static bool
all_hold (const GmPlanCache *p, const int64_t *symbols, uint32_t *first)
{
  for (uint32_t i = 0; i < p->open->len; i++) {
    GmSizeFact fact =
        gm_size_facts_nth (p->graph->sizes->facts, g_array_index (p->open, uint32_t, i));
    *first = g_array_index (p->open, uint32_t, i);
    if (!fact_holds (p->graph->sizes, &fact, symbols))
      return false;
  }
  return true;
}

/* True if the facts about numbers from data, which the program has promised, hold for these values;
 * else *error names a fact that does not. */
static bool
check_facts (const GmPlanCache *p, const int64_t *symbols, GError **error)
{
  uint32_t i;
  if (all_hold (p, symbols, &i))
    return true;
  const char *said = g_hash_table_lookup (p->graph->sizes->said, GUINT_TO_POINTER (i + 1));
  g_set_error_literal (error, GM_ERROR, GM_ERROR_RUNTIME,
                       said ? said : "gramme._check: the condition does not hold");
  return false;
}

/* Sets the symbols that get their values from data, before any call, to example values for which
 * all facts hold, preferably not 0 or 1. */
static void
guess (const GmPlanCache *p, int64_t *symbols)
{
  static const int64_t usual[] = { 64, 8, 4, 3, 2, 1, 0 };
  uint32_t first;
  for (uint32_t s = 0; s < p->n_symbols; s++) {
    if (!is_counted (p, s))
      continue;
    int64_t min, max;
    gm_size_facts_bounds (p->graph->sizes->facts, gm_sizes_nth_symbol (p->graph->sizes, s), &min,
                          &max);
    for (size_t k = 0; k < G_N_ELEMENTS (usual) + p->n_symbols; k++) {
      symbols[s] = k < G_N_ELEMENTS (usual) ? usual[k] : symbols[k - G_N_ELEMENTS (usual)];
      symbols[s] = CLAMP (symbols[s], min, max);
      if (all_hold (p, symbols, &first))
        break;
    }
  }
}

/* -- By symbols -------------------------------------------------------------------------------- */

static GmPlan *
keep (GmPlanCache *p, const int64_t *symbols, GmPlan *plan)
{
  size_t bytes = p->n_symbols * sizeof *symbols;
  Kept *fresh = g_malloc (sizeof *fresh + bytes);
  fresh->plan = plan;
  memcpy (fresh->symbols, symbols, bytes);
  if (p->kept->len == GM_PLANS_KEPT)
    g_ptr_array_add (p->gone, g_ptr_array_steal_index (p->kept, GM_PLANS_KEPT - 1));
  g_ptr_array_insert (p->kept, 0, fresh);
  p->latest = fresh;
  return plan;
}

/* Returns the value of the symbol, read from the inputs; its fixed value if no input has it. */
static inline int64_t
symbol_now (const GmPlanCache *p, GmTensor *const *inputs, uint32_t symbol)
{
  const GmSymbolSource *from = &p->sources[symbol];
  if (from->input == GM_NO_ID)
    return p->fixed[symbol];
  const GmMeta *m =
      &inputs[from->input - (p->random.used && from->input > p->random.input.i)]->meta;
  return from->is_stride ? m->strides[from->dim] : m->sizes[from->dim];
}

/* True if the sizes of the inputs are those of the last call. */
static inline bool
is_latest (const GmPlanCache *p, GmTensor *const *inputs)
{
  if (G_UNLIKELY (!p->latest || p->counts))
    return false;
  for (uint32_t s = 0; s < p->n_symbols; s++)
    if (symbol_now (p, inputs, s) != p->latest->symbols[s])
      return false;
  return true;
}

static inline bool
are_equal (const int64_t *a, const int64_t *b, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++)
    if (a[i] != b[i])
      return false;
  return true;
}

static inline GmPlan *
kept_plan (GmPlanCache *p, const int64_t *now)
{
  if (p->latest && are_equal (p->latest->symbols, now, p->n_symbols))
    return p->latest->plan;
  for (uint32_t i = 1; i < p->kept->len; i++)
    if (are_equal (((Kept *) p->kept->pdata[i])->symbols, now, p->n_symbols)) {
      move_first (p->kept, i);
      p->latest = p->kept->pdata[0];
      return p->latest->plan;
    }
  return NULL;
}

static GmPlan *
keep_checked (GmPlanCache *p, const int64_t *now, GmPlan *plan, GError **error)
{
  if (plan && !takes_no_more (p, plan)) {
    g_set_error (
        error, GM_ERROR, GM_ERROR_UNSUPPORTED,
        "%s: for these sizes it depends on how the inputs' memory lies in another way than "
        "when it was compiled; pass clones of tensors that it writes to",
        p->graph->name);
    g_clear_pointer (&plan, gm_plan_unref);
  }
  return plan ? keep (p, now, plan) : NULL;
}

static GmPlan *
get (GmPlanCache *p, const int64_t *now, GError **error)
{
  GmPlan *plan = kept_plan (p, now);
  if (plan)
    return plan;
  plan = plan_of_forms (p, now);
  if (!plan)
    plan = plan_new (p, now, NULL, error);
  return keep_checked (p, now, plan, error);
}

/* Returns the plan of numbers, made from the form that began the call, that finishes the call;
 * borrowed from the kept plans.  NULL without an error: the form does not fit. */
static GmPlan *
get_begun (GmPlanCache *p, GmPlan *form, const int64_t *now, GError **error)
{
  GmPlan *plan = kept_plan (p, now);
  if (plan && gm_plan_is_of (plan, form))
    return plan;
  plan = plan_of (form, now);
  return plan ? keep_checked (p, now, plan, error) : NULL;
}

/* Begins a call in which data determines some symbols: forms begin it, one after the other, until a
 * form fits the values found.  Returns its plan of numbers, borrowed from the kept plans, with the
 * state of the call in b; NULL: *error. */
static GmPlan *
begin (GmPlanCache *p, GmTensor *const *inputs, int64_t *now, GmPlanBegun *b, GError **error)
{
  for (uint32_t i = 0; i <= p->forms->len; i++) {
    if (i == p->forms->len) {
      GmPlan *fresh = plan_new (p, now, NULL, error);
      if (!fresh)
        return NULL;
      gm_plan_unref (fresh);
      i = 0; /* its new place */
    }
    GmPlan *form = p->forms->pdata[i];
    gm_plan_begun_clear (b, true);
    if (!gm_plan_is_counted (form) || !gm_plan_begin (form, inputs, now, b, error)
        || !check_facts (p, now, error))
      return NULL;
    GError *failed = NULL;
    GmPlan *plan = get_begun (p, form, now, &failed);
    if (plan) {
      move_first (p->forms, i);
      return plan;
    }
    if (failed) {
      g_propagate_error (error, failed);
      return NULL;
    }
  }
  return NULL;
}

uint32_t
gm_plan_cache_n_outputs (const GmPlanCache *p)
{
  return p->graph->outputs->len - p->graph->sizes->counts->len;
}

/* Runs a call in which data determines some symbols.  The last outputs of the plan are those
 * symbols' values, which the caller does not get. */
static bool
run_counted (GmPlanCache *p, GmTensor *const *inputs, int64_t *now, GmTensor **outputs,
             GError **error)
{
  uint32_t n = gm_plan_cache_n_outputs (p), all = p->graph->outputs->len;
  GmTensor *out[all + 1];
  GmPlanBegun b = { 0 };
  GmPlan *plan = begin (p, inputs, now, &b, error);
  bool ran = plan && gm_plan_run_begun (plan, inputs, &b, out, error);
  gm_plan_begun_clear (&b, false);
  for (uint32_t i = 0; ran && i < all; i++)
    if (i < n)
      outputs[i] = out[i];
    else
      gm_tensor_unref (out[i]);
  return ran;
}

G_GNUC_NO_INLINE static bool
run_others (GmPlanCache *p, GmTensor *const *inputs, int n, GmTensor **outputs, GError **error)
{
  int64_t now[p->n_symbols + 1];
  for (uint32_t s = 0; s < p->n_symbols; s++)
    now[s] = symbol_now (p, inputs, s);
  if (p->counts)
    return run_counted (p, inputs, now, outputs, error);
  GmPlan *plan = get (p, now, error);
  return plan && gm_plan_run (plan, inputs, n, outputs, error);
}

bool
gm_plan_cache_run (GmPlanCache *p, GmTensor *const *inputs, int n, GmTensor **outputs,
                   GError **error)
{
  p->running++; /* this run, or a run inside of it, may replace the running plan in `kept` */
  bool ran = G_LIKELY (is_latest (p, inputs))
                 ? gm_plan_run (p->latest->plan, inputs, n, outputs, error)
                 : run_others (p, inputs, n, outputs, error);
  if (--p->running == 0 && G_UNLIKELY (p->gone->len > 0))
    g_ptr_array_set_size (p->gone, 0);
  return ran;
}

/* -- Life -------------------------------------------------------------------------------------- */

GmPlanCache *
gm_plan_cache_new (GmCompile *c, GError **error)
{
  GmPlanCache *p = g_new0 (GmPlanCache, 1);
  g_autoptr (GmCompile) made = NULL;
  p->graph = gm_graph_copy_apart (c->record.graph);
  p->n_symbols = gm_graph_symbol_sources (p->graph, p->graph->arena, &p->sources);
  p->counts = p->graph->sizes->counts->len > 0;
  p->fixed = g_new0 (int64_t, p->n_symbols + 1);
  p->backend = c->ask.backend;
  p->make_exec = c->ask.make_exec;
  p->make_exec_data = c->ask.make_exec_data;
  p->options = g_strdupv ((char **) c->ask.options);
  p->differentiate = c->ask.differentiate;
  p->trace_hooks = c->ask.trace_hooks;
  p->trace_hooks_data = c->ask.trace_hooks_data;
  p->no_cache = g_strdup (c->ask.no_cache);
  p->cache_salt = g_strdup (c->ask.cache_salt);
  p->random = c->record.random;
  p->made = g_string_new (NULL);
  p->forms = g_ptr_array_new_with_free_func ((GDestroyNotify) gm_plan_unref);
  p->kept = g_ptr_array_new_with_free_func (kept_free);
  p->gone = g_ptr_array_new_with_free_func (kept_free);
  int64_t now[p->n_symbols + 1];
  for (uint32_t i = 0; i < p->n_symbols; i++) {
    now[i] = g_array_index (p->graph->sizes->hints, int64_t, i);
    if (p->sources[i].input == GM_NO_ID && !is_counted (p, i))
      gm_sizes_is_number (p->graph->sizes, gm_sizes_nth_symbol (p->graph->sizes, i), &p->fixed[i]);
  }
  p->open = g_array_new (FALSE, FALSE, sizeof (uint32_t));
  for (uint32_t i = 0; i < gm_size_facts_n (p->graph->sizes->facts); i++) {
    GmSizeFact fact = gm_size_facts_nth (p->graph->sizes->facts, i);
    if (gm_sizes_fact_is_open (p->graph->sizes, &fact))
      g_array_append_val (p->open, i);
  }
  guess (p, now);
  GmPlan *plan = plan_new (p, now, &made, error);
  if (!plan) {
    gm_plan_cache_free (p);
    return NULL;
  }
  p->first = gm_plan_ref (plan);
  keep (p, now, plan);
  memcpy (c->stage_ms, made->stage_ms, sizeof c->stage_ms);
  c->lower.pair = made->lower.pair; /* owned by the plan */
  return p;
}

void
gm_plan_cache_free (GmPlanCache *p)
{
  if (!p)
    return;
  gm_plan_unref (p->first);
  g_array_unref (p->open);
  g_ptr_array_unref (p->kept);
  g_ptr_array_unref (p->gone);
  g_ptr_array_unref (p->forms);
  g_string_free (p->made, TRUE);
  gm_graph_free (p->graph);
  g_strfreev (p->options);
  g_free (p->no_cache);
  g_free (p->cache_salt);
  g_free (p->fixed);
  g_free (p);
}
