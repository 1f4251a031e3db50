/* SPDX-License-Identifier: Apache-2.0
 * higher_tape.c -- cond and its kin on the tape of the eager engine.
 *
 * A call of one of them is one node in a history that is unfolded (unfold_history.c).  Its backward
 * builds the gradient as stage j does, as a small graph, and evaluates that: with create_graph the
 * calls in it become nodes of the tape themselves, so derivatives of any order exist.
 */
#include "core/aot/aot.h"

#include "core/autograd/autograd.h"
#include "core/graph/higher.h"

typedef struct {
  GmHigher *h;
  GmTensor **in; /* owned: operands, with their history */
  uint32_t n_in;
  uint32_t *versions; /* per operand: its version when it was kept */
} Call;

static void
call_free (void *state)
{
  Call *c = state;

  for (uint32_t i = 0; i < c->n_in; i++)
    gm_tensor_unref (c->in[i]);
  gm_higher_unref (c->h);
  g_free (c->in);
  g_free (c->versions);
  g_free (c);
}

/* Returns the call as a new graph of its own, whose inputs are the operands and whose outputs are
 * the results. */
static GmGraph *
alone (const Call *c, GError **error)
{
  g_autoptr (GmGraph) g = gm_graph_new ("call", NULL);
  g_autofree GmValueId *in = g_new (GmValueId, c->n_in + 1);

  for (uint32_t i = 0; i < c->n_in; i++) {
    GmMeta m = c->in[i]->meta;
    m.requires_grad = gm_tensor_requires_grad (c->in[i]);
    in[i] = gm_graph_add_input (g, gm_arena_printf (g->arena, "in%u", i), &m);
  }
  gm_graph_add_higher (g, gm_higher_ref (c->h));
  for (uint32_t k = 0; k < gm_higher_n_results (c->h); k++) {
    GmAttrs a = { .mask = 1u << GM_ATTR_DIM | 1u << GM_ATTR_OFFSET, .dim = k };
    GmValueId v = gm_graph_add_node (g, c->h->op, in, (int) c->n_in, &a, NULL, error);
    if (v == GM_NO_ID)
      return NULL;
    gm_graph_add_output (g, v, GM_OUTPUT_USER);
  }
  return g_steal_pointer (&g);
}

/* Returns the gradient of the call as a new graph over the operands and the gradients that arrived.
 * which[i]: number of the output that is the gradient of operand i, or GM_NO_ID. */
static GmGraph *
gradient (const Call *c, GmTensor *const *grads, uint32_t *which, GError **error)
{
  g_autoptr (GmGraph) g = alone (c, error), to = gm_graph_new ("gradient", NULL);
  uint32_t n = g ? gm_higher_n_results (c->h) : 0;
  g_autofree GmVal *grad = g_new0 (GmVal, c->n_in + n + 1);
  g_autofree GmValueId *result = g_new (GmValueId, c->n_in + 1);

  if (!g || !gm_copy_values (to, g, error))
    return NULL;
  for (uint32_t k = 0; k < n; k++) {
    GmValueId v = g_array_index (g->outputs, GmGraphOutput, k).value;
    GmMeta m = *gm_graph_meta (g, v);
    m.requires_grad = 0;
    if (grads[k])
      grad[v] =
          gm_val_from_id (gm_graph_add_input (to, gm_arena_printf (to->arena, "grad%u", k), &m));
  }
  if (!gm_higher_differentiate (g, 0, to, grad, result, error))
    return NULL;
  for (uint32_t i = 0, n_out = 0; i < c->n_in; i++) {
    which[i] = result[i] == GM_NO_ID ? GM_NO_ID : n_out++;
    if (result[i] != GM_NO_ID)
      gm_graph_add_output (to, result[i], GM_OUTPUT_GRAD);
  }
  return gm_graph_simplify (to, GM_SIMPLIFY_DEAD, NULL);
}

/* Returns a new reference to the result of node n of g, recorded on the tape if gradients are on.
 * made: gets new references to all results of the call that n belongs to, so that its other nodes
 * need not run the call again. */
static GmTensor *
run_node (const GmGraph *g, const GmNode *n, GmTensor *const *values, GmTensor **made,
          GError **error)
{
  g_autofree GmTensor **in = g_new (GmTensor *, n->n_in + 1);

  for (uint32_t i = 0; i < n->n_in; i++)
    in[i] = values[n->in[i]];
  if (!gm_op_is_higher (n->op))
    return n->op == GM_OP_constant ? gm_tensor_ref (g->constants->pdata[n->attrs->offset])
                                   : gm_autograd_op (n->op, in, (int) n->n_in, n->attrs, error);
  const GmHigher *h = gm_graph_higher (g, n);
  uint32_t n_out = gm_higher_n_results (h);
  bool any = false;
  if (!gm_higher_run (h, NULL, in, n->n_in, made, NULL, error))
    return NULL;
  for (uint32_t i = 0; i < n->n_in; i++)
    any |= gm_tensor_requires_grad (in[i]);
  if (any && gm_grad_enabled ()) {
    g_autofree GmTensor **outs = g_new0 (GmTensor *, n_out + 1);
    for (uint32_t k = 0; k < n_out; k++)
      outs[k] = gm_higher_requires_grad (h, k) ? made[k] : NULL;
    gm_higher_attach ((GmHigher *) h, in, n->n_in, outs, n_out, 0);
  }
  return gm_tensor_ref (made[n->attrs->dim]);
}

static bool
is_functional (const GmHigher *h)
{
  for (uint32_t b = 0; b < h->n_bodies; b++)
    for (uint32_t i = 0; i < h->bodies[b]->nodes->len; i++) {
      const GmNode *n = gm_graph_node (h->bodies[b], i);
      if (gm_ops[n->op].family == GM_FAMILY_MUTATE
          || (gm_op_is_higher (n->op) && !is_functional (gm_graph_higher (h->bodies[b], n))))
        return false;
    }
  return true;
}

/* Returns h with functional bodies, for a row of a graph as it was recorded; NULL on error. */
static GmHigher *
functional (const GmHigher *h, GError **error)
{
  g_autoptr (GmGraph) g = gm_graph_new ("row", NULL);

  if (is_functional (h))
    return gm_higher_ref ((GmHigher *) h);
  gm_graph_add_higher (g, gm_higher_ref ((GmHigher *) h));
  return gm_higher_prepare (g, true, error) ? gm_higher_ref (g->highers->pdata[0]) : NULL;
}

/* Calls the host function h and fills `out` with new references to its results. */
static bool
call_host (const GmGraph *g, const GmHigher *h, const GmNode *n, GmTensor *const *in,
           GmTensor **out, GError **error)
{
  bool off = h->op == GM_OP_host_call && !h->run && !h->ticket,
       was = off && gm_grad_set_enabled (false);
  bool good = gm_higher_run (h, NULL, in, n->n_in, out, NULL, error);

  if (off)
    gm_grad_set_enabled (was);
  if (good && gm_grad_enabled () && gm_tensor_requires_grad (in[0])
      && gm_gradient_hook_on (g, (uint32_t) (n - gm_graph_node (g, 0)), n->in[0]))
    gm_gradient_hook_register (h, in[0]);
  return good;
}

bool
gm_higher_call (const GmGraph *g, const GmNode *n, GmTensor *const *in, GmTensor **out,
                GError **error)
{
  if (gm_higher_n_bodies (n->op) == 0)
    return call_host (g, gm_graph_higher (g, n), n, in, out, error);
  g_autoptr (GmHigher) h = functional (gm_graph_higher (g, n), error);
  uint32_t n_out = h ? gm_higher_n_results (h) : 0;
  g_autofree GmTensor **tied = g_new0 (GmTensor *, n_out + 1);
  bool any = false;

  if (!h || !gm_higher_run (h, NULL, in, n->n_in, out, NULL, error))
    return false;
  for (uint32_t i = 0; i < n->n_in; i++)
    any |= gm_tensor_requires_grad (in[i]);
  for (uint32_t k = 0; k < n_out; k++)
    tied[k] = gm_higher_requires_grad (h, k) ? out[k] : NULL;
  if (any && gm_grad_enabled ())
    gm_higher_attach (h, in, n->n_in, tied, n_out, 0);
  return true;
}

static bool
evaluate (const GmGraph *g, GmTensor **values, GError **error)
{
  g_autoptr (GPtrArray) made = g_ptr_array_new_with_free_func ((GDestroyNotify) gm_tensor_unref);
  bool good = true;

  for (uint32_t i = 0; good && i < g->nodes->len; i++) {
    const GmNode *n = gm_graph_node (g, i);
    if (values[n->out])
      continue;
    const GmHigher *h = gm_op_is_higher (n->op) ? gm_graph_higher (g, n) : NULL;
    g_autofree GmTensor **results = g_new0 (GmTensor *, (h ? gm_higher_n_results (h) : 0) + 1);
    good = (values[n->out] = run_node (g, n, values, results, error)) != NULL;
    for (uint32_t k = i + 1; good && h && k < g->nodes->len; k++) {
      const GmNode *m = gm_graph_node (g, k);
      if (m->op == n->op && m->attrs->offset == n->attrs->offset)
        values[m->out] = gm_tensor_ref (results[m->attrs->dim]);
    }
    for (uint32_t k = 0; h && k < gm_higher_n_results (h); k++)
      gm_tensor_unref (results[k]);
  }
  return good;
}

static bool
call_backward (GmAgNode *node, void *state, GmTensor *const *grads, GmTensor **result,
               bool create_graph, GError **error)
{
  const Call *c = state;
  g_autofree uint32_t *which = g_new (uint32_t, c->n_in + 1);

  (void) node;
  if (create_graph && gm_higher_is_once (c->h)) {
    g_set_error (error, GM_ERROR, GM_ERROR_UNSUPPORTED,
                 "double backward (create_graph=True) through an autograd.Function inside of %s, "
                 "or a function that is called as a whole there, "
                 "is not supported",
                 gm_ops[c->h->op].name);
    return false;
  }
  g_autofree char *who = g_strdup_printf ("the gradient of %s", gm_ops[c->h->op].name);
  if (!gm_unchanged (c->in, c->versions, c->n_in, who, error))
    return false;
  g_autoptr (GmGraph) g = gradient (c, grads, which, error);
  if (!g)
    return false;
  g_autofree GmTensor **values = g_new0 (GmTensor *, g->values->len + 1);
  uint32_t at = 0;
  for (uint32_t i = 0; i < c->n_in; i++)
    values[g_array_index (g->inputs, GmValueId, at++)] = gm_tensor_ref (c->in[i]);
  for (uint32_t k = 0; k < gm_higher_n_results (c->h); k++)
    if (grads[k])
      values[g_array_index (g->inputs, GmValueId, at++)] = gm_tensor_ref (grads[k]);
  bool was = gm_grad_set_enabled (create_graph);
  bool good = evaluate (g, values, error);
  gm_grad_set_enabled (was);
  for (uint32_t i = 0, k = 0; good && i < c->n_in; i++)
    if (which[i] != GM_NO_ID)
      result[i] = gm_tensor_ref (values[g_array_index (g->outputs, GmGraphOutput, k++).value]);
  for (uint32_t v = 0; v < g->values->len; v++)
    gm_tensor_unref (values[v]);
  return good;
}

static const GmAgFunction function = { .name = "HigherOrderBackward",
                                       .backward = call_backward,
                                       .release = call_free };

void
gm_higher_attach (GmHigher *h, GmTensor *const *in, uint32_t n_in, GmTensor **out, uint32_t n_out,
                  uint64_t seq)
{
  Call *c = g_new (Call, 1);

  *c = (Call){ gm_higher_ref (h), g_new (GmTensor *, n_in + 1), n_in, gm_versions (in, n_in) };
  for (uint32_t i = 0; i < n_in; i++)
    c->in[i] = gm_tensor_ref (in[i]);
  GmAgNode *node =
      gm_autograd_attach (&function, c, (GmTensor **) in, (int) n_in, out, (int) n_out);
  if (seq)
    gm_autograd_place (node, seq);
}
