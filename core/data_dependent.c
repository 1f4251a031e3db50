/* SPDX-License-Identifier: Apache-2.0
 * data_dependent.c -- the stages of a forward whose sizes depend on data: see data_dependent.h.
 *
 * Slots are the forward's inputs, then the values that stages hand on, in their order.  A stage is
 * a graph of its own, compiled as a whole; the last stage makes the forward's outputs, except those
 * that an earlier stage has made already.  Views are never handed on: a later stage takes them
 * again.
 * Invariant: all sizes in a stage are known when it begins.
 */
#include "core/data_dependent.h"
#include "core/compiled_pair.h"

#include <string.h>

#include "core/graph/higher.h"

typedef struct {
  GmGraph *graph; /* the sizes of its metas are expressions of its symbols */
  GmExec *exec;   /* NULL: the stage computes nothing */
  GArray *in;     /* uint32_t: slots */
  GArray *counts; /* Count */
  uint32_t first; /* the slot of its first result; the last stage: that of the forward's
                   * outputs */
} Stage;

/* A symbol whose value is the element of result `result` of a stage. */
typedef struct {
  uint32_t result, symbol;
} Count;

typedef struct {
  GPtrArray *stages;    /* Stage */
  GmCompiledPair *pair; /* the code of the last stage, if it computes anything, and of the
                         * backward */
  uint32_t n_in, n_made;
  uint32_t *made; /* per output of the forward: the number, counted from n_in, of the slot that
                   * an earlier stage fills with it, or GM_NO_ID */
} Chain;

static void
stage_free (void *data)
{
  Stage *s = data;
  gm_exec_unref (s->exec);
  if (s->graph)
    gm_graph_free (s->graph);
  g_array_unref (s->in);
  g_array_unref (s->counts);
  g_free (s);
}

static void
chain_free (void *data)
{
  Chain *c = data;
  g_ptr_array_unref (c->stages);
  gm_compiled_pair_unref (c->pair);
  g_free (c->made);
  g_free (c);
}

/* -- Cutting ----------------------------------------------------------------------------------- */

typedef struct {
  GmCompile *c;
  const GmGraph *g; /* the forward */
  Chain *chain;
  uint32_t *slot;   /* per value: its slot, or GM_NO_ID */
  bool *known;      /* per symbol: an earlier stage determines it */
  bool *computable; /* per value: the sizes that it needs are known, so the next stage can
                     * compute it */
  uint32_t *output; /* per symbol: the number of the forward's output that is its value, or
                     * GM_NO_ID */
} Cut;

static bool
size_is_known (const Cut *x, int64_t size)
{
  if (!gm_size_is_symbolic (size))
    return true;
  const GmSymRow *r = gm_sym_row (x->g->sym, gm_size_row (size));
  return r->kind == GM_SYM_CONST
         || (r->kind == GM_SYM_SYMBOL ? x->known[r->a]
                                      : size_is_known (x, gm_size_from_row (r->a))
                                            && size_is_known (x, gm_size_from_row (r->b)));
}

static bool
node_is_known (const Cut *x, const GmNode *n)
{
  const GmMeta *m = gm_graph_meta (x->g, n->out);
  const GmAttrs *a = n->attrs;
  bool all = !gm_op_is_higher (n->op);
  for (int d = 0; d < m->ndim && all; d++)
    all = size_is_known (x, m->sizes[d]) && size_is_known (x, m->strides[d]);
  if (!gm_graph_attrs_are_symbolic (a))
    return all;
  for (int i = 0; a->mask & 1u << GM_ATTR_SIZES && i < a->n_list && all; i++)
    all = size_is_known (x, a->list[i]);
  return all && size_is_known (x, a->start) && size_is_known (x, a->stop)
         && (!gm_scalar_is_symbolic (a->value) || size_is_known (x, a->value.i))
         && (!gm_scalar_is_symbolic (a->value2) || size_is_known (x, a->value2.i));
}

static void
find_computable (const Cut *x)
{
  for (uint32_t v = 0; v < x->g->values->len; v++)
    x->computable[v] = x->slot[v] != GM_NO_ID;
  for (uint32_t i = 0; i < x->g->nodes->len; i++) {
    const GmNode *n = gm_graph_node (x->g, i);
    bool all = x->computable[n->out] || node_is_known (x, n);
    for (uint32_t k = 0; k < n->n_in && all; k++)
      all = x->computable[n->in[k]];
    x->computable[n->out] |= all;
  }
}

/* Sets `needed` for all values that the needed values are computed from, up to those that have a
 * slot. */
static void
mark_needed (const Cut *x, bool *needed)
{
  for (uint32_t i = x->g->nodes->len; i-- > 0;) {
    const GmNode *n = gm_graph_node (x->g, i);
    if (x->slot[n->out] != GM_NO_ID)
      needed[n->out] = false;
    for (uint32_t k = 0; needed[n->out] && k < n->n_in; k++)
      needed[n->in[k]] = true;
  }
}

/* Sets `out` for the value that a stage has to pass on so that a later stage can read v: v itself
 * or, for a view, the value that it is a view of. */
static void
hand_on (const Cut *x, GmValueId v, bool *out)
{
  while (x->slot[v] == GM_NO_ID) {
    const GmNode *n = gm_graph_node (x->g, gm_graph_value (x->g, v)->node);
    if (gm_ops[n->op].family != GM_FAMILY_MOVEMENT) {
      out[v] = n->op != GM_OP_constant && gm_ops[n->op].family != GM_FAMILY_CREATE;
      return;
    }
    v = n->in[0];
  }
}

static GmValueId
copy_node (const Cut *x, GmGraph *to, const GmNode *n, const GmValueId *map)
{
  if (n->op == GM_OP_constant)
    return gm_graph_add_constant (
        to, gm_tensor_ref (g_ptr_array_index (x->g->constants, n->attrs->offset)), n->where);
  g_autofree GmValueId *in = g_new (GmValueId, n->n_in + 1);
  for (uint32_t k = 0; k < n->n_in; k++)
    in[k] = map[n->in[k]];
  GmValueId v = gm_graph_add_known (to, n->op, in, (int) n->n_in, n->attrs, n->where,
                                    gm_graph_meta (x->g, n->out));
  gm_graph_mark_like (to, v, n);
  return v;
}

/* Returns a new stage, owned by the chain, that computes the needed values; it has no outputs yet.
 * map: filled with the ids of values in its graph. */
static Stage *
stage_new (const Cut *x, const bool *needed, GmValueId *map)
{
  Stage *s = g_new0 (Stage, 1);
  const GmGraph *g = x->g;
  g_autofree bool *read = g_new0 (bool, g->values->len + 1);
  s->in = g_array_new (FALSE, FALSE, sizeof (uint32_t));
  s->counts = g_array_new (FALSE, FALSE, sizeof (Count));
  s->graph = gm_graph_new_like (g, "forward", NULL);
  gm_graph_share_tables (s->graph, g);
  memset (map, 0xff, g->values->len * sizeof *map);
  for (uint32_t i = 0; i < g->nodes->len; i++) {
    const GmNode *n = gm_graph_node (g, i);
    for (uint32_t k = 0; needed[n->out] && k < n->n_in; k++)
      read[n->in[k]] = true;
  }
  for (uint32_t v = 0; v < g->values->len; v++) {
    if (!read[v] || x->slot[v] == GM_NO_ID)
      continue;
    map[v] = gm_graph_add_input (s->graph,
                                 gm_graph_value (g, v)->name ? gm_graph_value (g, v)->name : "made",
                                 gm_graph_meta (g, v));
    g_array_append_val (s->in, x->slot[v]);
  }
  for (uint32_t i = 0; i < g->nodes->len; i++) {
    const GmNode *n = gm_graph_node (g, i);
    if (needed[n->out])
      map[n->out] = copy_node (x, s->graph, n, map);
  }
  s->first = x->chain->n_in + x->chain->n_made;
  g_ptr_array_add (x->chain->stages, s);
  return s;
}

/* Adds a stage that computes all further symbols that can be computed now.  *more: there were some.
 * Fails if symbols are unknown but none can be computed. */
static bool
add_counts (Cut *x, bool *more, GError **error)
{
  const GmGraph *g = x->g;
  g_autofree bool *needed = g_new0 (bool, g->values->len + 1),
                  *out = g_new0 (bool, g->values->len + 1);
  g_autofree GmValueId *map = g_new (GmValueId, g->values->len + 1);
  bool open = false;
  *more = false;
  find_computable (x);
  for (uint32_t s = 0; s < gm_sym_n_symbols (g->sym); s++) {
    if (x->known[s])
      continue;
    GmValueId v = g_array_index (g->outputs, GmGraphOutput, x->output[s]).value;
    open = true;
    *more |= needed[v] = out[v] = x->computable[v];
  }
  if (open && !*more) {
    g_set_error (error, GM_ERROR, GM_ERROR_UNSUPPORTED,
                 "a size that depends on data is known only after what has it");
    return false;
  }
  if (!open)
    return true;
  mark_needed (x, needed);
  for (uint32_t i = 0; i < g->nodes->len; i++) {
    const GmNode *n = gm_graph_node (g, i);
    for (uint32_t k = 0; !needed[n->out] && k < n->n_in; k++)
      if (needed[n->in[k]])
        hand_on (x, n->in[k], out);
  }
  for (uint32_t i = 0; i < g->outputs->len; i++) {
    GmValueId v = g_array_index (g->outputs, GmGraphOutput, i).value;
    out[v] |= needed[v];
  }
  Stage *s = stage_new (x, needed, map);
  for (uint32_t v = 0; v < g->values->len; v++)
    if (out[v] && needed[v]) {
      for (uint32_t k = 0; k < gm_sym_n_symbols (g->sym); k++)
        if (!x->known[k] && g_array_index (g->outputs, GmGraphOutput, x->output[k]).value == v) {
          Count count = { s->graph->outputs->len, k };
          g_array_append_val (s->counts, count);
        }
      gm_graph_add_output (s->graph, map[v], GM_OUTPUT_USER);
      x->slot[v] = x->chain->n_in + x->chain->n_made++;
    }
  for (uint32_t k = 0; k < s->counts->len; k++)
    x->known[g_array_index (s->counts, Count, k).symbol] = true;
  return true;
}

static void
add_rest (Cut *x)
{
  const GmGraph *g = x->g;
  g_autofree bool *needed = g_new0 (bool, g->values->len + 1);
  g_autofree GmValueId *map = g_new (GmValueId, g->values->len + 1);
  x->chain->made = g_new (uint32_t, g->outputs->len + 1);
  for (uint32_t i = 0; i < g->outputs->len; i++) {
    GmValueId v = g_array_index (g->outputs, GmGraphOutput, i).value;
    bool made = x->slot[v] != GM_NO_ID && x->slot[v] >= x->chain->n_in;
    x->chain->made[i] = made ? x->slot[v] - x->chain->n_in : GM_NO_ID;
    needed[v] |= !made;
  }
  mark_needed (x, needed);
  Stage *s = stage_new (x, needed, map);
  for (uint32_t i = 0; i < g->outputs->len; i++)
    if (x->chain->made[i] == GM_NO_ID)
      gm_graph_add_output (s->graph, map[g_array_index (g->outputs, GmGraphOutput, i).value],
                           GM_OUTPUT_USER);
}

/* Returns the number of the forward's output that is output `k` of the recorded graph, before views
 * are taken again; GM_NO_ID: there is none. */
static uint32_t
forward_output (const GmCompile *c, uint32_t k)
{
  const GmAliasLayer *l = &c->functionalize.layers.alias;
  uint32_t slot = k < l->n_outer ? l->slots[k] : GM_NO_ID;
  return slot != GM_NO_ID && slot >= l->n_inputs && slot < l->n_inputs + l->n_inner
             ? slot - l->n_inputs
             : GM_NO_ID;
}

static bool
find_outputs (Cut *x, GError **error)
{
  const GmSizes *sizes = x->g->sizes;
  bool good =
      !x->c->functionalize.layers.has_bases && !x->c->partition.restore && !x->c->ask.make_exec;
  for (uint32_t s = 0; s < gm_sym_n_symbols (sizes->sym); s++) {
    x->output[s] = GM_NO_ID;
    x->known[s] = true;
  }
  for (uint32_t i = 0; i < sizes->counts->len && good; i++) {
    const GmSizeCount *count = &g_array_index (sizes->counts, GmSizeCount, i);
    uint32_t k = forward_output (x->c, count->output);
    good = k != GM_NO_ID && k < x->g->outputs->len;
    const GmMeta *m =
        good ? gm_graph_meta (x->g, g_array_index (x->g->outputs, GmGraphOutput, k).value) : NULL;
    good = good && m->ndim == 0 && m->dtype == GM_I64 && m->device == GM_DEVICE_CPU;
    x->known[count->symbol] = false;
    x->output[count->symbol] = k;
  }
  for (uint32_t i = 0; i < x->g->nodes->len && good; i++)
    good = !gm_op_has_effects (gm_graph_node (x->g, i)->op);
  if (!good)
    g_set_error (error, GM_ERROR, GM_ERROR_UNSUPPORTED,
                 "sizes that depend on data beside functions of the host's, hooks in the graph or "
                 "memory that inputs share");
  return good;
}

/* -- Running ----------------------------------------------------------------------------------- */

static bool
allocate (const Stage *s, const int64_t *symbols, GmTensor **out, GError **error)
{
  for (uint32_t i = 0; i < s->graph->outputs->len; i++) {
    GmMeta m;
    if (!gm_graph_meta_now (
            s->graph,
            gm_graph_meta (s->graph, g_array_index (s->graph->outputs, GmGraphOutput, i).value),
            symbols, &m, error))
      return false;
    m.requires_grad = 0;
    if (!(out[i] = gm_tensor_new (&m, error)))
      return false;
  }
  return true;
}

static bool
run_stage (const Stage *s, const int64_t *symbols, GmTensor *const *slots, GmTensor *const *out,
           GError **error)
{
  GmTensor *in[s->in->len + 1];
  for (uint32_t i = 0; i < s->in->len; i++)
    in[i] = slots[g_array_index (s->in, uint32_t, i)];
  return !s->exec
         || gm_exec_run_sized (s->exec, GM_EXEC_FORWARD, symbols, in, (int) s->in->len, out,
                               (int) s->graph->outputs->len, error);
}

/* Runs all stages but the last, and sets the symbols that they compute: `begin` of a plan's
 * executable. */
static bool
begin (void *data, int64_t *symbols, GmTensor *const *in, GmTensor **made, GError **error)
{
  const Chain *c = data;
  GmTensor *slots[c->n_in + c->n_made + 1];
  bool good = true;
  memcpy (slots, in, c->n_in * sizeof *slots);
  memset (slots + c->n_in, 0, c->n_made * sizeof *slots);
  for (uint32_t i = 0; i + 1 < c->stages->len && good; i++) {
    const Stage *s = c->stages->pdata[i];
    good = allocate (s, symbols, slots + s->first, error)
           && run_stage (s, symbols, slots, slots + s->first, error);
    for (uint32_t k = 0; k < s->counts->len && good; k++) {
      const Count *count = &g_array_index (s->counts, Count, k);
      symbols[count->symbol] = *(const int64_t *) gm_tensor_data (slots[s->first + count->result]);
    }
  }
  for (uint32_t i = 0; i < c->n_made && !good; i++)
    g_clear_pointer (&slots[c->n_in + i], gm_tensor_unref);
  memcpy (made, slots + c->n_in, c->n_made * sizeof *made);
  return good;
}

/* Runs the last stage, or the backward.  in: the forward's inputs, then the tensors that `begin`
 * made; out: the outputs that `begin` did not make. */
static bool
run_sized (void *data, int role, const int64_t *symbols, GmTensor *const *in, int n_in,
           GmTensor *const *out, int n_out, GError **error)
{
  const Chain *c = data;
  if (role == GM_EXEC_BACKWARD) {
    GmExec *e = gm_compiled_pair_exec (c->pair, GM_EXEC_BACKWARD, &role);
    return gm_exec_run_sized (e, role, symbols, in, n_in, out, n_out, error);
  }
  return run_stage (c->stages->pdata[c->stages->len - 1], symbols, in, out, error);
}

static bool
prepare (void *data, GError **error)
{
  return gm_compiled_pair_prepare (((const Chain *) data)->pair, error);
}

/* -- Making ------------------------------------------------------------------------------------ */

/* Compiles the stages and the backward.  The last stage needs no code if earlier stages made all
 * outputs. */
static bool
compile_stages (const GmCompile *c, Chain *chain, const GmGraph *backward, GError **error)
{
  const GmCompileHow how = { .no_cache = c->ask.no_cache, .cache_salt = c->ask.cache_salt };
  Stage *paired = chain->stages->pdata[chain->stages->len - 1];
  int role;
  if (paired->graph->outputs->len == 0)
    paired = chain->stages->pdata[chain->stages->len - 2];
  for (uint32_t i = 0; i < chain->stages->len; i++) {
    Stage *s = chain->stages->pdata[i];
    if (s == paired || s->graph->outputs->len == 0)
      continue;
    s->exec = gm_backend_compile_how (c->ask.backend, s->graph, NULL,
                                      (const char *const *) c->ask.for_backend, &how, error);
    if (!s->exec)
      return false;
  }
  chain->pair = gm_compiled_pair_new (c, paired->graph, backward, error);
  if (!chain->pair)
    return false;
  paired->exec = gm_exec_ref (gm_compiled_pair_exec (chain->pair, GM_EXEC_FORWARD, &role));
  return true;
}

bool
gm_data_dependent_exec (GmCompile *c, GmPlanExec *out, GError **error)
{
  const GmGraph *g = c->partition.forward, *backward = c->partition.backward;
  uint32_t n = gm_sym_n_symbols (g->sym);
  g_autofree uint32_t *slot = g_new (uint32_t, g->values->len + 1),
                      *output = g_new (uint32_t, n + 1);
  g_autofree bool *known = g_new (bool, n + 1), *computable = g_new (bool, g->values->len + 1);
  Chain *chain = g_new0 (Chain, 1);
  Cut x = { c, g, chain, slot, known, computable, output };
  chain->stages = g_ptr_array_new_with_free_func (stage_free);
  chain->n_in = g->inputs->len;
  memset (slot, 0xff, g->values->len * sizeof *slot);
  for (uint32_t i = 0; i < g->inputs->len; i++)
    slot[g_array_index (g->inputs, GmValueId, i)] = i;
  bool good = find_outputs (&x, error);
  for (bool more = true; more && good;)
    good = add_counts (&x, &more, error);
  if (good)
    add_rest (&x);
  good = good
         && compile_stages (c, chain, backward && backward->outputs->len ? backward : NULL, error);
  if (!good) {
    chain_free (chain);
    return false;
  }
  c->lower.pair = chain->pair;
  *out = (GmPlanExec){ .data = chain,
                       .run_sized = run_sized,
                       .unref = chain_free,
                       .begin = begin,
                       .n_made = chain->n_made,
                       .made = chain->made,
                       .prepare = prepare };
  return true;
}
