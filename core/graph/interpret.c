/* SPDX-License-Identifier: Apache-2.0
 * interpret.c -- a graph run node by node through gm_op_run: the meaning of a graph, and the
 * reference for every back end.
 *
 * No autograd, no reuse of memory, no fusion.  Views are views and MUTATE nodes write, as in the
 * program that was recorded.  A tensor is dropped after the last node that reads it.  Symbols are
 * bound by inputs whose size is a symbol by itself.
 */
#include <string.h>

#include "core/graph/higher.h"
#include "core/sym/sym.h"

typedef struct {
  const GmGraph *g;
  GmTensor **values;  /* by id: a reference while it is needed */
  uint32_t *last_use; /* by id: node, or GM_NO_ID for outputs */
  int64_t *symbols;
  const GmHigherRunner *by; /* NULL: bodies are interpreted too */
  GError **error;
} Run;

static bool
size_now (Run *r, int64_t size, int64_t *out)
{
  *out = size;
  return !gm_size_is_symbolic (size) || gm_sym_eval (r->g->sym, size, r->symbols, out, r->error);
}

void
gm_graph_bind_symbols (const GmGraph *g, GmTensor *const *inputs, int64_t *symbols)
{
  for (uint32_t i = 0; i < g->inputs->len; i++) {
    const GmMeta *said = gm_graph_meta (g, g_array_index (g->inputs, GmValueId, i)),
                 *is = &inputs[i]->meta;
    for (int d = 0; d < said->ndim && d < is->ndim; d++)
      if (gm_size_is_symbolic (said->sizes[d])) {
        const GmSymRow *row = gm_sym_row (g->sym, gm_size_row (said->sizes[d]));
        if (row->kind == GM_SYM_SYMBOL)
          symbols[row->a] = is->sizes[d];
      }
  }
}

static bool
check_input (Run *r, uint32_t i, const GmMeta *said, const GmMeta *is)
{
  bool fits = said->dtype == is->dtype && said->ndim == is->ndim;
  for (int d = 0; fits && d < said->ndim; d++) {
    int64_t size;
    if (!size_now (r, said->sizes[d], &size))
      return false;
    fits = size == is->sizes[d];
  }
  if (fits)
    return true;
  GmSizes *was = gm_sizes_enter (r->g->sizes);
  g_autofree char *want = gm_meta_text (said), *have = gm_meta_text (is);
  gm_sizes_enter (was);
  g_set_error (r->error, GM_ERROR, GM_ERROR_RUNTIME,
               "running the graph '%s': input %u should be %s, but is %s", r->g->name, i, want,
               have);
  return false;
}

static bool
take_inputs (Run *r, GmTensor *const *inputs)
{
  const GmGraph *g = r->g;
  gm_graph_bind_symbols (g, inputs, r->symbols);
  for (uint32_t i = 0; i < g->inputs->len; i++) {
    GmValueId v = g_array_index (g->inputs, GmValueId, i);
    if (!check_input (r, i, gm_graph_meta (g, v), &inputs[i]->meta))
      return false;
    r->values[v] = gm_tensor_ref (inputs[i]);
  }
  return true;
}

static void
find_last_uses (Run *r)
{
  const GmGraph *g = r->g;
  for (uint32_t i = 0; i < g->nodes->len; i++) {
    const GmNode *n = gm_graph_node (g, i);
    r->last_use[n->out] = i;
    for (uint32_t k = 0; k < n->n_in; k++)
      r->last_use[n->in[k]] = i;
  }
  for (uint32_t i = 0; i < g->outputs->len; i++)
    r->last_use[g_array_index (g->outputs, GmGraphOutput, i).value] = GM_NO_ID;
}

/* Runs node i, a call of a higher-order operator (cond, scan ...) on the operands `in`.  A call has
 * a node for each result: the first node runs it and stores the results of all in r->values; the
 * others find theirs stored.  False with *r->error. */
static bool
run_higher (Run *r, uint32_t i, GmTensor *const *in)
{
  const GmGraph *g = r->g;
  const GmNode *n = gm_graph_node (g, i);
  const GmHigher *h = gm_graph_higher (g, n);
  if (r->values[n->out])
    return true;
  if (!h) {
    g_set_error (r->error, GM_ERROR, GM_ERROR_VALUE, "%s: the graph has no row for it",
                 gm_ops[n->op].name);
    return false;
  }
  uint32_t n_out = gm_higher_n_results (h);
  g_autofree GmTensor **out = g_new0 (GmTensor *, n_out + 1);
  const int64_t *symbols = g->sym ? r->symbols : NULL; /* a body may have symbols, of blocks, where
                                                        * the graph around it has none */
  if (!gm_higher_run (h, symbols, in, n->n_in, out, r->by, r->error))
    return false;
  for (uint32_t k = i; k < g->nodes->len; k++) {
    const GmNode *m = gm_graph_node (g, k);
    if (m->op == n->op && m->attrs->offset == n->attrs->offset && !r->values[m->out])
      r->values[m->out] = gm_tensor_ref (out[m->attrs->dim]);
  }
  for (uint32_t k = 0; k < n_out; k++)
    gm_tensor_unref (out[k]);
  return r->values[n->out] != NULL;
}

static bool
run_node (Run *r, uint32_t i)
{
  const GmGraph *g = r->g;
  const GmNode *n = gm_graph_node (g, i);
  g_autofree GmTensor **in = g_new (GmTensor *, n->n_in + 1);
  GmAttrs attrs;
  for (uint32_t k = 0; k < n->n_in; k++)
    in[k] = r->values[n->in[k]];
  if (n->attrs) {
    if (!gm_graph_attrs_now (g, n->attrs, r->symbols, &attrs, r->error))
      return false;
  }
  if (n->op == GM_OP_constant)
    r->values[n->out] = gm_tensor_ref (g_ptr_array_index (g->constants, n->attrs->offset));
  else if (gm_op_is_higher (n->op))
    run_higher (r, i, in);
  else if (n->op == GM_OP_custom)
    r->values[n->out] = gm_op_run (GM_OP_copy, in, 1, NULL, r->error); /* the result as computed */
  else
    r->values[n->out] = gm_op_run (n->op, in, (int) n->n_in, n->attrs ? &attrs : NULL, r->error);
  if (!r->values[n->out]) {
    g_prefix_error (r->error, "running the graph '%s', node %%%u%s%s: ", g->name, i,
                    n->where ? " from " : "", n->where ? n->where : "");
    return false;
  }
  for (uint32_t k = 0; k < n->n_in; k++)
    if (r->last_use[n->in[k]] == i)
      g_clear_pointer (&r->values[n->in[k]], gm_tensor_unref);
  if (r->last_use[n->out] == i)
    g_clear_pointer (&r->values[n->out], gm_tensor_unref);
  return true;
}

bool
gm_graph_interpret (const GmGraph *g, GmTensor *const *inputs, GmTensor **outputs, GError **error)
{
  return gm_graph_interpret_with (g, NULL, inputs, outputs, NULL, error);
}

bool
gm_graph_interpret_with (const GmGraph *g, const int64_t *given, GmTensor *const *inputs,
                         GmTensor **outputs, const GmHigherRunner *by, GError **error)
{
  g_autofree GmTensor **values = g_new0 (GmTensor *, g->values->len + 1);
  g_autofree uint32_t *last_use = g_new0 (uint32_t, g->values->len + 1);
  uint32_t n_symbols = g->sym ? gm_sym_n_symbols (g->sym) : 0;
  g_autofree int64_t *symbols = g_new0 (int64_t, n_symbols + 1);
  Run r = {
    .g = g, .values = values, .last_use = last_use, .symbols = symbols, .by = by, .error = error
  };
  if (given)
    memcpy (symbols, given, n_symbols * sizeof *symbols);
  find_last_uses (&r);
  bool ok = take_inputs (&r, inputs);
  for (uint32_t i = 0; ok && i < g->nodes->len; i++)
    ok = run_node (&r, i);
  for (uint32_t i = 0; ok && i < g->outputs->len; i++)
    outputs[i] = gm_tensor_ref (values[g_array_index (g->outputs, GmGraphOutput, i).value]);
  for (uint32_t v = 0; v < g->values->len; v++)
    gm_tensor_unref (values[v]);
  return ok;
}
