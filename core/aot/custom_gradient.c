/* SPDX-License-Identifier: Apache-2.0
 * custom_gradient.c -- the gradient of a function that brings its own.
 *
 * In eager such a function is one node of the tape, made when its forward is over; its backward
 * runs when all gradients of its results have arrived.  Here that point is the first of its nodes,
 * as nodes are visited backwards: all readers of a result come after it.  The gradient is evaluated
 * in two places: by join.c, as nodes of the joint graph; and by a node of the tape, where a
 * compiled function's history is unfolded (unfold_history.c).
 */
#include "core/aot/aot.h"

#include "core/autograd/autograd.h"
#include "core/autograd/node_user.h"
#include "core/graph/checks.h"

static bool
is_of (const GmGraph *g, uint32_t i, int64_t row)
{
  const GmNode *n = gm_graph_node (g, i);

  return n->op == GM_OP_custom && n->attrs->offset == row;
}

bool
gm_custom_is_next (const GmGraph *g, uint32_t i, GmVal *const grad)
{
  int64_t row = gm_graph_node (g, i)->attrs->offset;

  for (uint32_t k = 0; k < i; k++)
    if (is_of (g, k, row))
      return false;
  for (; i < g->nodes->len; i++)
    if (is_of (g, i, row) && grad[gm_graph_node (g, i)->out])
      return true;
  return false;
}

/* Appends the nodes of the gradient graph `backward` to b.  map, per value of `backward`: the
 * caller sets its inputs, the function all others.  An input that is NULL is a gradient that did
 * not arrive, and becomes zeros, as it was recorded. */
static void
evaluate (GmBuilder *b, const GmGraph *backward, uint32_t n_results, GmVal *map)
{
  for (uint32_t k = 0; k < n_results; k++) {
    const GmMeta *m = gm_graph_meta (backward, k);
    if (!map[k])
      map[k] = gm_b_full_like (b, gm_scalar_float (0), (GmDtype) m->dtype, m);
  }
  for (uint32_t k = 0; k < backward->nodes->len && !gm_b_failed (b); k++) {
    const GmNode *m = gm_graph_node (backward, k);
    g_autofree GmVal *in = g_new (GmVal, m->n_in + 1);
    for (uint32_t a = 0; a < m->n_in; a++)
      in[a] = map[m->in[a]];
    if (m->marks & GM_MARK_CONTIGUOUS)
      map[m->out] = gm_b_contiguous (b, in[0]);
    else if (m->marks & GM_MARK_RESHAPE)
      map[m->out] = gm_b_reshape (b, in[0], m->attrs->n_list, m->attrs->list);
    else
      map[m->out] = gm_b_op (b, m->op, in, (int) m->n_in, m->attrs);
    if (gm_b_failed (b) && b->outside && m->marks & GM_MARK_OUTSIDE_RUNTIME)
      b->error->code = GM_ERROR_RUNTIME;
  }
}

/* Makes the n gradients `result` depend on the check of v, a value of `backward` whose computation
 * may fail and that is not read, so that it is not removed as dead. */
static void
tie_to_check (GmBuilder *b, const GmGraph *backward, GmValueId v, const GmVal *map, GmVal *result,
              uint32_t n)
{
  const GmNode *m = gm_graph_node (backward, gm_graph_value (backward, v)->node);
  GmVal in[m->n_in];

  for (uint32_t a = 0; a < m->n_in; a++)
    in[a] = map[m->in[a]];
  for (uint32_t k = 0; k < n && !gm_b_failed (b); k++)
    if (result[k])
      result[k] = gm_graph_after_check (b, m, in, result[k]);
}

/* True if a node of `backward` takes a view that depends on an arriving gradient and that fails for
 * some strides of the gradient. */
static bool
reads_strides (const GmGraph *backward, uint32_t n_results)
{
  g_autofree bool *laid_out_like = g_new0 (bool, backward->values->len + 1);
  bool found = false;

  for (uint32_t k = 0; k < n_results; k++)
    laid_out_like[g_array_index (backward->inputs, GmValueId, k)] = true;
  for (uint32_t k = 0; k < backward->nodes->len && !found; k++) {
    const GmNode *m = gm_graph_node (backward, k);
    uint8_t family = gm_ops[m->op].family;
    bool keeps =
        family == GM_FAMILY_POINTWISE || family == GM_FAMILY_MOVEMENT || m->op == GM_OP_copy;
    for (uint32_t a = 0; a < m->n_in && keeps; a++)
      laid_out_like[m->out] |= laid_out_like[m->in[a]];
    found = m->op == GM_OP_view && !(m->marks & GM_MARK_RESHAPE) && laid_out_like[m->out];
  }
  return found;
}

bool
gm_custom_reads_strides (const GmGraph *g)
{
  for (uint32_t i = 0; i < g->nodes->len; i++) {
    const GmNode *n = gm_graph_node (g, i);
    if (n->op == GM_OP_custom
        && reads_strides (gm_graph_custom (g, n), gm_graph_custom_n_results (g, n)))
      return true;
  }
  return false;
}

void
gm_custom_differentiate (const GmGraph *g, uint32_t i, GmBuilder *b, GmVal *const grad,
                         GmVal *result)
{
  const GmNode *n = gm_graph_node (g, i);
  const GmGraph *backward = gm_graph_custom (g, n);
  uint32_t n_results = gm_graph_custom_n_results (g, n), n_args = gm_graph_custom_n_args (backward);
  int64_t row = n->attrs->offset;
  g_autofree GmVal *map = g_new0 (GmVal, backward->values->len + 1);

  for (; i < g->nodes->len; i++)
    if (is_of (g, i, row))
      map[gm_graph_node (g, i)->attrs->dim] = grad[gm_graph_node (g, i)->out];
  for (uint32_t k = n_results; k < backward->inputs->len; k++)
    map[k] = gm_val_from_id (n->in[1 + n_args + k - n_results]);
  evaluate (b, backward, n_results, map);
  for (uint32_t k = 0; k < n_args; k++)
    result[k] = map[g_array_index (backward->outputs, GmGraphOutput, k).value];
  for (uint32_t k = n_args; k < backward->outputs->len && !gm_b_failed (b); k++)
    tie_to_check (b, backward, g_array_index (backward->outputs, GmGraphOutput, k).value, map,
                  result, n_args);
}

/* -- On the tape ------------------------------------------------------------------------------- */

typedef struct {
  GPtrArray *owner; /* of the gradient's graph: counted */
  const GmGraph *backward;
  uint32_t n_results, n_captured;
  GmTensor **captured; /* owned */
  uint32_t *versions;  /* per captured tensor: its version when it was kept */
  int *result_of;
  bool lost;
} Call;

static void
call_free (void *state)
{
  Call *c = state;

  for (uint32_t k = 0; k < c->n_captured; k++)
    gm_tensor_unref (c->captured[k]);
  g_ptr_array_unref (c->owner);
  g_free (c->captured);
  g_free (c->versions);
  g_free (c->result_of);
  g_free (c);
}

static bool
refuse_twice (GmAgNode *n, void *state, GmTensor *const *grads, GmTensor **result,
              bool create_graph, GError **error)
{
  g_set_error_literal (
      error, GM_ERROR, GM_ERROR_RUNTIME,
      "a backward that is marked @once_differentiable cannot be differentiated again");
  return false;
}

static void
nothing_to_release (void *state)
{
}

static const GmAgFunction once = { .name = "OnceDifferentiable",
                                   .backward = refuse_twice,
                                   .release = nothing_to_release };

/* Returns an alias of t, recorded on the tape by a node that refuses to be walked: a second
 * derivative that needs its history fails.  Steals t. */
static GmTensor *
mark_once (GmTensor *t)
{
  g_autoptr (GmTensor) leaf = gm_tensor_new_alias (t);
  GmTensor *marked = gm_tensor_new_alias (t);

  gm_tensor_unref (t);
  gm_tensor_set_requires_grad (leaf, true, NULL);
  gm_autograd_attach (&once, NULL, &leaf, 1, &marked, 1);
  return marked;
}

static bool
run_call (GmAgNode *node, const Call *c, GmTensor *const *grads, GmTensor **result, GError **error)
{
  const GmGraph *g = c->backward;
  g_autofree GmVal *map = g_new0 (GmVal, g->values->len + 1);
  g_autoptr (GPtrArray) tied = g_ptr_array_new_with_free_func ((GDestroyNotify) gm_tensor_unref);
  GmEagerBuilder b;

  gm_eager_builder_init (&b);
  b.base.autocast = 0; /* casts were recorded */
  for (uint32_t k = 0; k < c->n_results; k++)
    map[k] = grads[k] ? gm_val_from_tensor (grads[k]) : NULL;
  for (uint32_t k = 0; k < c->n_captured; k++) {
    GmTensor *t = c->result_of[k] < 0
                      ? gm_tensor_ref (c->captured[k])
                      : gm_autograd_as_output (c->captured[k], node, c->result_of[k]);
    g_ptr_array_add (tied, t);
    map[c->n_results + k] = gm_val_from_tensor (t);
  }
  evaluate (&b.base, g, c->n_results, map);
  bool ok = !gm_b_failed (&b.base);
  if (!ok)
    g_propagate_error (error, g_steal_pointer (&b.base.error));
  for (uint32_t k = 0; ok && k < gm_graph_custom_n_args (g); k++)
    result[k] = gm_tensor_ref (
        gm_tensor_from_val (map[g_array_index (g->outputs, GmGraphOutput, k).value]));
  gm_eager_builder_clear (&b);
  return ok;
}

static bool
call_backward (GmAgNode *node, void *state, GmTensor *const *grads, GmTensor **result,
               bool create_graph, GError **error)
{
  const Call *c = state;
  const GmGraph *g = c->backward;

  if (create_graph && (c->lost || g->twice == GM_TWICE_UNKNOWN)) {
    g_set_error (error, GM_ERROR, GM_ERROR_UNSUPPORTED,
                 "double backward (create_graph=True) through an autograd.Function in this "
                 "compiled function is not "
                 "supported: its backward %s; call the function without compile",
                 c->lost ? "reads a tensor that is none of its arguments and requires grad"
                         : "asks for the grad mode or sets it");
    return false;
  }
  if (!gm_unchanged (c->captured, c->versions, c->n_captured,
                     "the backward of an autograd.Function", error))
    return false;
  bool was = gm_grad_set_enabled (create_graph && g->twice == GM_TWICE);
  bool ok = run_call (node, c, grads, result, error);
  gm_grad_set_enabled (was);
  for (uint32_t k = 0; ok && create_graph && g->twice == GM_ONCE && k < gm_graph_custom_n_args (g);
       k++)
    result[k] = mark_once (result[k]);
  return ok;
}

static const GmAgFunction function = { .name = "FunctionBackward",
                                       .backward = call_backward,
                                       .release = call_free };

void
gm_custom_attach (const GmCustomCall *call, uint64_t seq)
{
  const GmGraph *backward = gm_graph_custom (call->g, call->n);
  uint32_t n_results = gm_graph_custom_n_results (call->g, call->n),
           n_args = gm_graph_custom_n_args (backward),
           n_captured = backward->inputs->len - n_results;
  Call *c = g_new (Call, 1);

  *c = (Call){ g_ptr_array_ref (call->g->customs),
               backward,
               n_results,
               n_captured,
               g_new (GmTensor *, n_captured + 1),
               gm_versions (call->captured, n_captured),
               g_memdup2 (call->result_of, (n_captured + 1) * sizeof (int)),
               call->lost };
  for (uint32_t k = 0; k < n_captured; k++)
    c->captured[k] = gm_tensor_ref (call->captured[k]);
  GmAgNode *node =
      gm_autograd_attach (&function, c, call->args, (int) n_args, call->outs, (int) n_results);
  if (seq)
    gm_autograd_place (node, seq);
}

int
gm_custom_result_of (const GmGraph *g, const GmNode *n, uint32_t k)
{
  const GmGraph *backward = gm_graph_custom (g, n);

  return backward->result_of ? backward->result_of[gm_graph_custom_n_results (g, n) + k] : -1;
}

/* -- Node by node ------------------------------------------------------------------------------ */

/* Returns an alias of t without a history; a new reference. */
static GmTensor *
apart (GmTensor *t)
{
  GmTensor *alias = gm_tensor_new_alias (t);

  alias->meta.requires_grad = 0;
  return alias;
}

static void
keep_nothing (void *owner, void *data, size_t bytes)
{
}

/* Returns a new tensor with the sizes of `like` but without memory: a placeholder that carries a
 * history until the result is computed. */
static GmTensor *
stand_in (const GmMeta *like)
{
  GmMeta m = *like;

  m.requires_grad = 0;
  return gm_tensor_new_foreign (&m, NULL, 0, false, keep_nothing, NULL);
}

/* Returns `computed`, an alias of it, as the output of the node of the tape that `place` is an
 * output of; without a history if `place` has none.  Steals place. */
static GmTensor *
take_place (GmTensor *place, GmTensor *computed)
{
  uint32_t nr;
  GmAgNode *node = gm_tensor_node (place, &nr);
  GmTensor *t = node ? gm_autograd_as_output (computed, node, (int) nr) : apart (computed);

  if (node)
    gm_node_unref (node);
  gm_tensor_unref (place);
  return t;
}

GmTensor *
gm_custom_run (const GmGraph *g, const GmNode *n, GmTensor *const *in, GmTensor **given)
{
  uint32_t n_args = gm_graph_custom_n_args (gm_graph_custom (g, n)),
           n_captured = n->n_in - 1 - n_args, n_results = gm_graph_custom_n_results (g, n);
  g_autofree int *result_of = g_new (int, n_captured + 1);
  g_autofree GmTensor **outs = g_new0 (GmTensor *, n_results + 1);
  bool any = false;

  if (given[n->out])
    return take_place (g_steal_pointer (&given[n->out]), in[0]);
  for (uint32_t k = 0; k < n_args; k++)
    any |= gm_grad_enabled () && in[1 + k]->meta.requires_grad;
  GmTensor *result = apart (in[0]);
  if (!any)
    return result;
  for (uint32_t k = 0; k < n_captured; k++)
    result_of[k] = gm_custom_result_of (g, n, k);
  for (uint32_t k = 0; k < g->nodes->len; k++) {
    const GmNode *m = gm_graph_node (g, k);
    if (!is_of (g, k, n->attrs->offset))
      continue;
    if (m != n)
      given[m->out] = stand_in (gm_graph_meta (g, m->out));
    outs[m->attrs->dim] = m == n ? result : given[m->out];
  }
  gm_custom_attach (&(GmCustomCall){ g, n, in + 1, in + 1 + n_args, result_of, outs, false }, 0);
  return result;
}
