/* SPDX-License-Identifier: Apache-2.0
 * direct.c -- see direct.h.
 *
 * The host's general path for calls of graphs (core/graph/higher_run.c) allocates new tensors, and
 * compares a body's results with its inputs.  Here the body was compiled, so the layout of its
 * results is known, and it writes them into the caller's memory.
 */
#include "core/run/direct.h"

#include <string.h>

#include "core/run/scans.h"

struct GmExecDirect {
  const GmGraph *host; /* borrowed, like `call` and `h` */
  const GmHigher *h;
  const GmNode *call;
  uint32_t n_before;     /* number of nodes before the call, which make its operands */
  uint32_t n_out, *from; /* by result: the output of the graph that it is, or GM_NO_ID */
  GmExecScan *scan;
  /* By input of the body: true if it is row-major; NULL where `scan` runs. */
  bool *plain[GM_HIGHER_MAX_BODIES];
};

/* Returns the number of nodes before the call, which are views of inputs and numbers; GM_NO_ID: the
 * graph is not a single call whose results are its outputs. */
static uint32_t
count_before (const GmGraph *g)
{
  uint32_t before = 0;
  while (before < g->nodes->len && !gm_op_is_higher (gm_graph_node (g, before)->op))
    before++;
  if (before == g->nodes->len)
    return GM_NO_ID;
  for (uint32_t i = 0; i < before; i++) {
    const GmNode *n = gm_graph_node (g, i);
    if (gm_ops[n->op].family != GM_FAMILY_MOVEMENT && n->op != GM_OP_full
        && n->op != GM_OP_constant)
      return GM_NO_ID;
  }
  for (uint32_t i = before; i < g->nodes->len; i++) {
    const GmNode *n = gm_graph_node (g, i);
    if (!gm_op_is_higher (n->op) || n->attrs->offset != gm_graph_node (g, before)->attrs->offset)
      return GM_NO_ID;
    for (uint32_t k = 0; k < n->n_in; k++) {
      uint32_t made = gm_graph_value (g, n->in[k])->node;
      if (made != GM_NO_ID && made >= before)
        return GM_NO_ID;
    }
  }
  for (uint32_t i = 0; i < g->outputs->len; i++) {
    uint32_t node = gm_graph_value (g, g_array_index (g->outputs, GmGraphOutput, i).value)->node;
    if (node == GM_NO_ID || node < before)
      return GM_NO_ID;
  }
  return before;
}

static bool
is_plain (const GmMeta *m)
{
  GmMeta rows = *m;
  gm_meta_set_contiguous (&rows);
  return memcmp (rows.strides, m->strides, sizeof rows.strides) == 0;
}

/* Returns an array, per input of the body g, that is true if the input is row-major; the caller
 * frees it.  NULL: a result of the body is not row-major, but results of the call are, so that it
 * would have to be copied. */
static bool *
plain_inputs (const GmGraph *g)
{
  GmSizes *was = gm_sizes_enter (g->sizes);
  bool *plain = g_new (bool, g->inputs->len + 1), good = true;
  for (uint32_t i = 0; i < g->inputs->len; i++)
    plain[i] = is_plain (gm_body_input (g, i));
  for (uint32_t i = 0; i < g->outputs->len; i++)
    good = good && is_plain (gm_body_output (g, i));
  gm_sizes_enter (was);
  if (!good)
    g_clear_pointer (&plain, g_free);
  return plain;
}

bool
gm_direct_new (const GmGraph *host, const GmRequest *q, GmExecDirect **out, GError **error)
{
  uint32_t before = count_before (host);
  const GmHigher *h =
      before == GM_NO_ID ? NULL : gm_graph_higher (host, gm_graph_node (host, before));
  *out = NULL;
  bool scan = h && (h->op == GM_OP_associative_scan || h->op == GM_OP_associative_scan_grad);
  if (!h || (!scan && h->op != GM_OP_cond && h->op != GM_OP_invoke_subgraph))
    return true;
  g_autoptr (GmExecDirect) d = g_new0 (GmExecDirect, 1);
  d->host = host;
  d->h = h;
  d->call = gm_graph_node (host, before);
  d->n_before = before;
  d->n_out = gm_higher_n_results (h);
  d->from = g_new (uint32_t, d->n_out + 1);
  g_autofree bool *wanted = g_new0 (bool, d->n_out + 1);
  memset (d->from, 0xff, d->n_out * sizeof *d->from);
  for (uint32_t i = 0; i < host->outputs->len; i++) {
    const GmGraphValue *v =
        gm_graph_value (host, g_array_index (host->outputs, GmGraphOutput, i).value);
    int64_t result = gm_graph_node (host, v->node)->attrs->dim;
    if (d->from[result] != GM_NO_ID)
      return true;
    d->from[result] = i;
    wanted[result] = true;
  }
  for (uint32_t b = 0; b < h->n_bodies && !scan; b++)
    if (!(d->plain[b] = plain_inputs (h->bodies[b])))
      return true;
  if (scan && !gm_scan_compile (h, wanted, q, &d->scan, error))
    return false;
  if (!scan || d->scan)
    *out = g_steal_pointer (&d);
  return true;
}

void
gm_direct_free (GmExecDirect *d)
{
  if (!d)
    return;
  gm_scan_free (d->scan);
  for (int b = 0; b < GM_HIGHER_MAX_BODIES; b++)
    g_free (d->plain[b]);
  g_free (d->from);
  g_free (d);
}

bool
gm_direct_needs_bodies (const GmExecDirect *d)
{
  return !d || !d->scan;
}

/* Returns a new tensor for result i of the body g, which the outer graph does not use: the body
 * writes it nevertheless. */
static GmTensor *
unwanted (const GmGraph *g, uint32_t i, const int64_t *symbols, GError **error)
{
  GmMeta m = *gm_body_output (g, i);
  if (symbols && !gm_graph_meta_now (g, gm_body_output (g, i), symbols, &m, error))
    return NULL;
  m.requires_grad = 0;
  return gm_tensor_new (&m, error);
}

static bool
run_body (const GmExecDirect *d, uint32_t b, GmExec *e, const int64_t *symbols, GmTensor *const *in,
          GmTensor *const *out, GError **error)
{
  const GmGraph *g = d->h->bodies[b];
  uint32_t n_in = g->inputs->len;
  GmTensor **all = g_newa (GmTensor *, n_in + d->n_out + 1);
  bool good = true;
  memset (all, 0, (n_in + d->n_out) * sizeof *all);
  if (!g->sym || gm_sym_n_symbols (g->sym) == 0)
    symbols = NULL;
  for (uint32_t i = 0; good && i < n_in; i++) {
    const GmMeta *want = gm_body_input (g, i);
    GmMeta now;
    if (d->plain[b][i] && is_plain (&in[i]->meta)) {
      all[i] = gm_tensor_ref (in[i]);
      continue;
    }
    if (symbols && gm_meta_is_symbolic (want)) {
      good = gm_graph_meta_now (g, want, symbols, &now, error);
      want = &now;
    }
    good = good && (all[i] = gm_higher_laid_out (in[i], want, error)) != NULL;
  }
  for (uint32_t i = 0; good && i < d->n_out; i++)
    good =
        (all[n_in + i] = out[i] ? gm_tensor_ref (out[i]) : unwanted (g, i, symbols, error)) != NULL;
  good = good
         && gm_exec_run_sized (e, GM_EXEC_FORWARD, symbols, all, (int) n_in, all + n_in,
                               (int) d->n_out, error);
  for (uint32_t i = 0; i < n_in + d->n_out; i++)
    gm_tensor_unref (all[i]);
  return good;
}

/* Runs the nodes before the call.  values: by id; their results are added, as new references. */
static bool
make_operands (const GmExecDirect *d, const int64_t *symbols, GmTensor **values, GError **error)
{
  const GmGraph *g = d->host;
  for (uint32_t i = 0; i < d->n_before; i++) {
    const GmNode *n = gm_graph_node (g, i);
    GmTensor *in = n->n_in ? values[n->in[0]] : NULL;
    GmAttrs attrs = { 0 };
    if (n->attrs && gm_graph_attrs_are_symbolic (n->attrs)) {
      if (!gm_graph_attrs_now (g, n->attrs, symbols, &attrs, error))
        return false;
    } else if (n->attrs)
      attrs = *n->attrs;
    values[n->out] = n->op == GM_OP_constant
                         ? gm_tensor_ref (g_ptr_array_index (g->constants, n->attrs->offset))
                         : gm_op_run (n->op, &in, (int) n->n_in, n->attrs ? &attrs : NULL, error);
    if (!values[n->out])
      return false;
  }
  return true;
}

GmRunAt
gm_direct_run (const GmExecDirect *d, GmExec *const *bodies, const int64_t *symbols,
               GmTensor *const *in, GmTensor *const *out, GError **error)
{
  uint32_t n_in = d->call->n_in, n_values = d->host->values->len;
  GmTensor **values = g_newa (GmTensor *, n_values + 1), **operands = g_newa (GmTensor *, n_in + 1),
           **results = g_newa (GmTensor *, d->n_out + 1);
  GmRunAt done = GM_RUN_FAILED;
  memset (values, 0, n_values * sizeof *values);
  for (uint32_t i = 0; i < d->host->inputs->len; i++)
    values[g_array_index (d->host->inputs, GmValueId, i)] = in[i];
  bool good = make_operands (d, symbols, values, error);
  for (uint32_t i = 0; i < n_in; i++)
    operands[i] = values[d->call->in[i]];
  for (uint32_t i = 0; i < d->n_out; i++)
    results[i] = d->from[i] == GM_NO_ID ? NULL : out[d->from[i]];
  uint32_t skip = d->h->op == GM_OP_cond, b = good && skip && !gm_higher_is_true (operands[0]);
  if (good && d->scan)
    done = gm_scan_run (d->scan, symbols, operands, results, error);
  else if (good)
    done = run_body (d, b, bodies[b], symbols, operands + skip, results, error) ? GM_RUN_DONE
                                                                                : GM_RUN_FAILED;
  for (uint32_t i = 0; i < d->n_before; i++)
    gm_tensor_unref (values[gm_graph_node (d->host, i)->out]);
  return done;
}
