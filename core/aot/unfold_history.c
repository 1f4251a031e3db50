/* SPDX-License-Identifier: Apache-2.0
 * unfold_history.c -- a compiled function's history, unfolded into that of the plain function.
 *
 * A compiled backward computes all gradients from all tangents, each as a sum that starts from
 * nothing.  Eager's history can do more: be differentiated itself, continue a sum that was begun
 * outside of the function, leave out nodes that no gradient reaches.  In these cases the nodes of a
 * call are made after all, one per operation of the functional graph that gradients reach, with the
 * sequence numbers that they would have had, and the engine walks them.
 *
 * The plain tape keeps a leaf itself, so a node reads it where it is when the backward runs;
 * recomputed values are made of what the leaf was when the function ran.
 * Invariant: nothing is kept for this.  The gradient of an operation reads here what it reads in
 * the compiled backward, and that was kept by the forward or is computed again from it.  A function
 * that brings its gradient is one node, which evaluates that (custom_gradient.c).  A node whose
 * gradient would read a value that is lost, since it was written to or is made of such a value,
 * refuses when it runs: a walk that does not come there does without.
 * Rejected: the joint graph of the backward.  Kept values have a history in the forward, which it
 * would lack; and the order of sums would be another.
 */
#include "core/aot/unfold_history.h"

#include <string.h>

#include "core/autograd/node_user.h"
#include "core/graph/higher.h"

typedef struct {
  const GmUnfold *u;
  const GmGraph *g;
  const GmSaved *kept;
  bool *reached;     /* per value: a gradient arrives there */
  bool *needed;      /* per value: its elements are read, so it has to be computed */
  bool *source;      /* per value: others are recomputed from it */
  GmTensor **values; /* owned: per value, its elements, NULL: not needed, or lost */
  GmTensor **tape;   /* owned: per value, the tensor on the tape, with its history */
  GmTensor **leaves; /* owned: per input of the graph, the leaf that the plain tape keeps as
                      * itself; else NULL */
  const char **lost; /* per value whose elements are read: the reason why they cannot be
                      * recomputed; NULL: they can */
  GStringChunk *why; /* owned: these texts */
} Unfold;

static GmValueId
output_value (const GmUnfold *u, uint32_t tangent)
{
  return g_array_index (u->g->outputs, GmGraphOutput, u->tangents[tangent].i).value;
}

static bool
flows (const GmGraph *g, const GmNode *n, uint32_t i)
{
  if (n->op == GM_OP_custom && (i == 0 || i > gm_graph_custom_n_args (gm_graph_custom (g, n))))
    return false; /* the result as computed, and what the gradient reads */
  return gm_graph_meta (g, n->in[i])->requires_grad && gm_op_is_differentiable (n->op, (int) i);
}

/* Marks, from values of g at which a gradient arrives, all values that it flows to. */
static void
spread (const GmGraph *g, bool *reached)
{
  for (uint32_t k = g->nodes->len; k-- > 0;) {
    const GmNode *n = gm_graph_node (g, k);
    for (uint32_t i = 0; reached[n->out] && i < n->n_in; i++)
      if (flows (g, n, i))
        reached[n->in[i]] = true;
  }
}

bool
gm_unfold_can_fill (const GmUnfold *u, GmTensor *const *grads)
{
  bool missing = false;

  for (uint32_t k = 0; k < u->n_tangents; k++)
    missing |= !grads[k];
  if (!missing)
    return true;
  g_autofree bool *reached = g_new0 (bool, u->g->values->len + 1);
  for (uint32_t k = 0; k < u->n_tangents; k++)
    if (grads[k])
      reached[output_value (u, k)] = true;
  spread (u->g, reached);
  for (uint32_t k = 0; k < u->n_tangents; k++)
    if (!reached[output_value (u, k)])
      return false;
  return true;
}

/* -- Walks that ask for some gradients --------------------------------------------------------- */

/* Returns, per value, true if its gradient flows to a gradient that the walk asks for.  The caller
 * frees the array. */
static bool *
find_leading (const GmUnfold *u, const GmAgNode *node)
{
  const GmGraph *g = u->g;
  bool *leads = g_new0 (bool, g->values->len + 1);
  g_autofree bool *wanted = g_new0 (bool, g->values->len + 1);

  for (uint32_t k = 0; k < u->n_tangents; k++)
    wanted[output_value (u, k)] |= gm_autograd_wants_output (node, k);
  for (uint32_t i = 0; i < u->n_grads; i++)
    leads[g_array_index (g->inputs, GmValueId, u->grads[i].i)] |= gm_autograd_wants (node, i);
  for (uint32_t k = 0; k < g->nodes->len; k++) {
    const GmNode *n = gm_graph_node (g, k);
    for (uint32_t i = 0; i < n->n_in; i++)
      leads[n->out] |= (leads[n->in[i]] || wanted[n->in[i]]) && flows (g, n, i);
  }
  return leads;
}

bool *
gm_unfold_walked (const GmUnfold *u, const GmAgNode *node, GmTensor *const *grads)
{
  bool *walked = g_new0 (bool, u->g->nodes->len + 1);
  g_autofree bool *reached = g_new0 (bool, u->g->values->len + 1), *leads = find_leading (u, node);

  for (uint32_t k = 0; k < u->n_tangents; k++)
    if (grads[k])
      reached[output_value (u, k)] = true;
  spread (u->g, reached);
  for (uint32_t k = 0; k < u->g->nodes->len; k++) {
    GmValueId out = gm_graph_node (u->g, k)->out;
    walked[k] = reached[out] && leads[out];
  }
  return walked;
}

uint64_t
gm_unfold_leads (const GmUnfold *u, const GmAgNode *node)
{
  g_autofree bool *leading = find_leading (u, node);
  uint64_t leads = 0;

  for (uint32_t k = 0; k < u->n_tangents; k++)
    if (leading[output_value (u, k)] || gm_autograd_wants_output (node, k))
      leads |= 1ull << MIN (k, 63);
  return leads;
}

/* -- The elements that are read ---------------------------------------------------------------- */

static bool
is_walked (const GmUnfold *u, uint32_t k)
{
  return u->walked && u->walked[k];
}

static bool
is_kept (const Unfold *w, GmValueId v)
{
  return w->u->places[v] != GM_NO_ID;
}

/* True if the elements of n's result depend on those of operand i. */
static bool
reads (const GmGraph *g, const GmNode *n, uint32_t i)
{
  bool replaces =
      n->op == GM_OP_overwrite
      || (n->op == GM_OP_slice_scatter
          && gm_meta_same_shape (gm_graph_meta (g, n->in[0]), gm_graph_meta (g, n->in[1])));
  return n->op == GM_OP_custom ? i == 0 : !replaces || i == 1;
}

/* The values that the gradient of node k reads, if it runs. */
typedef struct {
  uint32_t saves;   /* operands, by bit, and GM_SAVES_OUT: as gm_op_saves says */
  uint32_t from;    /* and all operands from this one on */
  GmValueId ticket; /* of a host call: the ticket, where its history is found, or GM_NO_ID */
} GradientReads;

static GradientReads
gradient_reads (const Unfold *w, uint32_t k)
{
  const GmGraph *g = w->g;
  const GmNode *n = gm_graph_node (g, k);
  GradientReads r = { 0, UINT32_MAX, GM_NO_ID };
  uint32_t flow = 0;

  for (uint32_t i = 0; i < n->n_in && w->reached[n->out] && !is_walked (w->u, k); i++)
    if (flows (g, n, i))
      flow |= 1u << MIN (i, 30);
  if (!flow)
    return r;
  r.ticket = n->op == GM_OP_host_call ? gm_host_call_ticket (g, n) : GM_NO_ID;
  if (n->op == GM_OP_custom)
    r.from = gm_graph_custom_n_args (gm_graph_custom (g, n)) + 1;
  else if (!gm_op_is_higher (n->op))
    r.saves = gm_op_saves (n->op, (int) n->n_in, flow);
  else if (r.ticket == GM_NO_ID)
    r.from = 0; /* recomputes from all operands */
  return r;
}

static bool
reads_operand (const GradientReads *r, uint32_t i)
{
  return i >= r->from || (i < 30 && r->saves >> i & 1);
}

static void
mark_needed (Unfold *w)
{
  const GmGraph *g = w->g;

  for (uint32_t k = g->nodes->len; k-- > 0;) {
    const GmNode *n = gm_graph_node (g, k);
    GradientReads r = gradient_reads (w, k);
    if (r.ticket != GM_NO_ID)
      w->needed[r.ticket] = true;
    if (r.saves & GM_SAVES_OUT)
      w->needed[n->out] = true;
    for (uint32_t i = 0; i < n->n_in; i++) {
      bool again = w->needed[n->out] && !is_kept (w, n->out) && reads (g, n, i);
      if (again || reads_operand (&r, i))
        w->needed[n->in[i]] = true;
      if (again)
        w->source[n->in[i]] = true;
    }
  }
}

/* Returns the reason why the gradient of node k can't be computed; NULL: it can.  Borrowed. */
static const char *
why_lost (const Unfold *w, uint32_t k)
{
  const GmNode *n = gm_graph_node (w->g, k);
  GradientReads r = gradient_reads (w, k);

  if (r.ticket != GM_NO_ID && w->lost[r.ticket])
    return w->lost[r.ticket];
  for (uint32_t i = 0; i < n->n_in; i++)
    if (reads_operand (&r, i) && w->lost[n->in[i]])
      return w->lost[n->in[i]];
  return r.saves & GM_SAVES_OUT ? w->lost[n->out] : NULL;
}

bool *
gm_unfold_reads (const GmUnfold *u)
{
  g_autofree bool *reached = g_new0 (bool, u->g->values->len + 1);
  g_autofree bool *source = g_new0 (bool, u->g->values->len + 1);
  bool *needed = g_new0 (bool, u->g->values->len + 1);

  for (uint32_t k = 0; k < u->n_tangents; k++)
    reached[output_value (u, k)] = true;
  spread (u->g, reached);
  mark_needed (
      &(Unfold){ .u = u, .g = u->g, .reached = reached, .needed = needed, .source = source });
  return needed;
}

/* Returns the input of the graph that gradient i belongs to. */
static GmValueId
value_of_grad (const GmUnfold *u, uint32_t i)
{
  return g_array_index (u->g->inputs, GmValueId, u->grads[i].i);
}

/* Returns the leaf that gradient i goes to, borrowed, if the call kept it as itself; NULL: it was
 * not kept, or hooks packed it. */
static GmTensor *
kept_leaf (const GmUnfold *u, const GmAgNode *n, const GmSaved *kept, uint32_t i)
{
  uint32_t place = u->places[value_of_grad (u, i)];

  return place == GM_NO_ID || u->is_packed || kept[place].is_packed ? NULL
                                                                    : gm_autograd_leaf (n, (int) i);
}

static bool
has_moved (const GmTensor *now, const GmTensor *was)
{
  return now->storage != was->storage || now->offset != was->offset
         || !gm_meta_same_layout (&now->meta, &was->meta);
}

bool
gm_unfold_any_moved (const GmUnfold *u, const GmAgNode *n, const GmSaved *kept)
{
  for (uint32_t i = 0; i < u->n_grads; i++) {
    const GmTensor *now = kept_leaf (u, n, kept, i);
    if (now && has_moved (now, kept[u->places[value_of_grad (u, i)]].t))
      return true;
  }
  return false;
}

/* Marks v as a value that cannot be computed again, with the reason `why`, which it steals. */
static void
lose (Unfold *w, GmValueId v, GError *why)
{
  g_clear_pointer (&w->values[v], gm_tensor_unref);
  w->lost[v] = g_string_chunk_insert (w->why, why->message);
  g_error_free (why);
}

static bool
take_kept (Unfold *w, GmValueId v, GError **error)
{
  const GmSaved *k = &w->kept[w->u->places[v]];
  const GmMeta *want = gm_graph_meta (w->g, v);

  if (!(w->values[v] = gm_saved_get (k, error)))
    return false;
  const GmTensor *t = w->values[v];
  uint32_t now = gm_tensor_version (t);
  g_autofree char *have = gm_meta_text (&t->meta);
  if (t->meta.dtype != want->dtype || !gm_meta_same_shape (&t->meta, want)) {
    g_autofree char *expected = gm_meta_text (want);
    g_set_error (
        error, GM_ERROR, GM_ERROR_RUNTIME,
        "an unpack hook gave %s for a tensor that was saved as %s; give back the shape and "
        "the dtype that pack was called with",
        have, expected);
    return false;
  }
  if (k->is_packed || now == k->version)
    return true;
  if (w->leaves[v] && has_moved (w->leaves[v], t) && !w->source[v])
    return true; /* its old contents are not read */
  GError *why = NULL;
  gm_fail_changed ("the backward of the compiled function", NULL, t, k->version, &why);
  lose (w, v, why);
  return true;
}

/* Computes all needed results of a call when the first of them is asked for; n is one of its
 * nodes. */
static bool
compute_higher (Unfold *w, const GmNode *n, GmTensor *const *in, GError **error)
{
  const GmHigher *h = gm_graph_higher (w->g, n);
  uint32_t n_out = gm_higher_n_results (h);
  g_autofree GmTensor **out = g_new0 (GmTensor *, n_out + 1);

  if (w->values[n->out])
    return true;
  if (gm_op_has_effects (n->op)) {
    lose (w, n->out,
          g_error_new (GM_ERROR, GM_ERROR_UNSUPPORTED,
                       "this backward needs a result of %s, which was not kept, and that is not "
                       "run again: call the function without compile",
                       h->host->name));
    return true;
  }
  if (!gm_higher_run (h, NULL, in, n->n_in, out, NULL, error))
    return false;
  for (uint32_t k = 0; k < w->g->nodes->len; k++) {
    const GmNode *m = gm_graph_node (w->g, k);
    if (m->op == n->op && m->attrs->offset == n->attrs->offset && w->needed[m->out]
        && !is_kept (w, m->out))
      w->values[m->out] = gm_tensor_ref (out[m->attrs->dim]);
  }
  for (uint32_t k = 0; k < n_out; k++)
    gm_tensor_unref (out[k]);
  return true;
}

static bool
compute (Unfold *w, const GmNode *n, GError **error)
{
  GmTensor *in[n->n_in + 1];

  if (n->op == GM_OP_constant) {
    w->values[n->out] = gm_tensor_ref (g_ptr_array_index (w->g->constants, n->attrs->offset));
    return true;
  }
  for (uint32_t i = 0; i < n->n_in; i++) {
    in[i] = w->values[n->in[i]];
    if (reads (w->g, n, i) && w->lost[n->in[i]]) {
      w->lost[n->out] = w->lost[n->in[i]];
      return true;
    }
  }
  if (n->op == GM_OP_custom) {
    w->values[n->out] = gm_tensor_ref (in[0]);
    return true;
  }
  if (n->n_in == 2 && !in[0] && !reads (w->g, n, 0))
    in[0] = in[1]; /* has its shape */
  if (gm_op_is_higher (n->op))
    return compute_higher (w, n, in, error);
  w->values[n->out] = gm_op_run (n->op, in, (int) n->n_in, n->attrs, error);
  return w->values[n->out] != NULL;
}

/* Computes all needed values that can be recomputed, and marks the others as lost.  False with
 * *error set if a hook or an operation fails. */
static bool
compute_needed (Unfold *w, GError **error)
{
  const GmGraph *g = w->g;

  for (GmValueId v = 0; v < g->values->len; v++) {
    uint32_t node = gm_graph_value (g, v)->node;
    if (!w->needed[v])
      continue;
    if (node == GM_NO_ID && !is_kept (w, v)) {
      lose (w, v,
            g_error_new (GM_ERROR, GM_ERROR_UNSUPPORTED,
                         "double backward through a compiled function needs its input %s, which "
                         "was not kept: call the function without compile",
                         gm_graph_value (g, v)->name));
      continue;
    }
    if (is_kept (w, v) ? !take_kept (w, v, error) : !compute (w, gm_graph_node (g, node), error))
      return false;
  }
  return true;
}

/* -- The nodes --------------------------------------------------------------------------------- */

static void
keep_nothing (void *owner, void *data, size_t bytes)
{
  (void) owner, (void) data, (void) bytes;
}

/* Returns a new tensor for v, with its elements if they are needed, else without memory, and with
 * no history yet. */
static GmTensor *
tensor_of (const Unfold *w, GmValueId v)
{
  GmMeta m = *gm_graph_meta (w->g, v);
  GmTensor *t;

  m.requires_grad = 0;
  t = w->values[v] ? gm_tensor_new_alias (w->values[v])
                   : gm_tensor_new_foreign (&m, NULL, 0, false, keep_nothing, NULL);
  t->meta.requires_grad = 0;
  return t;
}

static GmTensor *
on_tape (Unfold *w, GmValueId v)
{
  if (!w->tape[v])
    w->tape[v] = tensor_of (w, v);
  return w->tape[v];
}

static GmTensor *
leaf_or_tape (Unfold *w, GmValueId v)
{
  return w->leaves[v] ? w->leaves[v] : on_tape (w, v);
}

static uint64_t
number_of (const Unfold *w, uint64_t seq, uint32_t k)
{
  return gm_unfold_number (w->u, w->u->numbers, seq, k);
}

/* Records the custom function whose first node is k, with all of its results, as one node of the
 * tape. */
static void
record_custom (Unfold *w, uint32_t k, uint64_t seq)
{
  const GmGraph *g = w->g, *backward = gm_graph_custom (g, gm_graph_node (g, k));
  const GmNode *n = gm_graph_node (g, k);
  uint32_t n_args = gm_graph_custom_n_args (backward), n_captured = n->n_in - 1 - n_args;
  GmTensor *args[n_args + 1], *captured[n_captured + 1],
      *outs[gm_graph_custom_n_results (g, n) + 1];
  int results[n_captured + 1];
  bool any = false, lost = false;

  for (uint32_t i = 0; i < n_args; i++) {
    args[i] = on_tape (w, n->in[1 + i]);
    any |= flows (g, n, 1 + i) && args[i]->meta.requires_grad;
  }
  if (!any)
    return;
  for (uint32_t i = 0; i < n_captured; i++) {
    GmValueId v = n->in[1 + n_args + i];
    results[i] = gm_custom_result_of (g, n, i);
    captured[i] = leaf_or_tape (w, v);
    lost |= gm_graph_meta (g, v)->requires_grad && !captured[i]->meta.requires_grad;
  }
  memset (outs, 0, sizeof outs);
  for (uint32_t i = k; i < g->nodes->len; i++) {
    const GmNode *m = gm_graph_node (g, i);
    if (m->op == GM_OP_custom && m->attrs->offset == n->attrs->offset)
      outs[m->attrs->dim] = w->tape[m->out] = tensor_of (w, m->out);
  }
  gm_custom_attach (&(GmCustomCall){ g, n, args, captured, results, outs, lost },
                    number_of (w, seq, k));
}

/* Records the call of an operator with bodies whose first node is k as one node of the tape. */
static void
record_higher (Unfold *w, uint32_t k, uint64_t seq)
{
  const GmGraph *g = w->g;
  const GmNode *n = gm_graph_node (g, k);
  const GmHigher *h = gm_graph_higher (g, n);
  uint32_t n_out = gm_higher_n_results (h);
  GmTensor *in[n->n_in + 1], *outs[n_out + 1];
  bool any = false;

  for (uint32_t i = 0; i < n->n_in; i++) {
    in[i] = leaf_or_tape (w, n->in[i]);
    any |= flows (g, n, i) && in[i]->meta.requires_grad;
  }
  if (!any)
    return;
  memset (outs, 0, sizeof outs);
  for (uint32_t i = k; i < g->nodes->len; i++) {
    const GmNode *m = gm_graph_node (g, i);
    if (m->op == n->op && m->attrs->offset == n->attrs->offset && w->reached[m->out]
        && !w->tape[m->out])
      outs[m->attrs->dim] = w->tape[m->out] = tensor_of (w, m->out);
  }
  if (n->op == GM_OP_host_call)
    gm_host_call_attach ((GmHigher *) h, w->values[gm_host_call_ticket (g, n)], in, n->n_in, outs,
                         number_of (w, seq, k));
  else
    gm_higher_attach ((GmHigher *) h, in, n->n_in, outs, n_out, number_of (w, seq, k));
}

static void
find_leaves (Unfold *w, GmAgNode *node)
{
  for (uint32_t i = 0; i < w->u->n_grads; i++) {
    GmTensor *leaf = kept_leaf (w->u, node, w->kept, i);
    if (leaf)
      w->leaves[value_of_grad (w->u, i)] = leaf->meta.requires_grad
                                               ? gm_tensor_ref (leaf)
                                               : gm_autograd_before (node, (int) i, leaf);
  }
}

/* Records the operation of node k on the tape. */
static void
record_op (Unfold *w, uint32_t k, uint64_t seq)
{
  const GmGraph *g = w->g;
  const GmNode *n = gm_graph_node (g, k);
  GmTensor *in[n->n_in + 1];
  bool any = false;

  for (uint32_t i = 0; i < n->n_in; i++) {
    in[i] = on_tape (w, n->in[i]);
    any |= flows (g, n, i) && in[i]->meta.requires_grad;
  }
  if (!any)
    return;
  w->tape[n->out] = tensor_of (w, n->out);
  gm_autograd_record (w->tape[n->out], n->op, in, (int) n->n_in, n->attrs, number_of (w, seq, k));
  for (uint32_t i = 0; i < n->n_in; i++)
    if (w->leaves[n->in[i]])
      gm_autograd_record_leaf (w->tape[n->out], i, w->leaves[n->in[i]],
                               w->kept[w->u->places[n->in[i]]].version);
}

/* Records node k, and the other results of the same function or call, with a node of the tape that
 * refuses its backward because of `why`. */
static void
record_lost (Unfold *w, uint32_t k, uint64_t seq, const char *why)
{
  const GmGraph *g = w->g;
  const GmNode *n = gm_graph_node (g, k);
  bool many = n->op == GM_OP_custom || gm_op_is_higher (n->op);
  GmTensor *in[n->n_in + 1];
  g_autoptr (GPtrArray) outs = g_ptr_array_new ();
  bool any = false;

  for (uint32_t i = 0; i < n->n_in; i++) {
    in[i] =
        flows (g, n, i) && on_tape (w, n->in[i])->meta.requires_grad ? on_tape (w, n->in[i]) : NULL;
    any |= in[i] != NULL;
  }
  if (!any)
    return;
  for (uint32_t i = k; i < (many ? g->nodes->len : k + 1); i++) {
    const GmNode *m = gm_graph_node (g, i);
    if (m->op != n->op || (many && m->attrs->offset != n->attrs->offset) || !w->reached[m->out])
      continue;
    w->tape[m->out] = tensor_of (w, m->out);
    g_ptr_array_add (outs, w->tape[m->out]);
  }
  gm_autograd_lose ((GmTensor **) outs->pdata, (int) outs->len, in, (int) n->n_in,
                    number_of (w, seq, k), why);
}

static void
record_node (Unfold *w, uint32_t k, uint64_t seq)
{
  const GmNode *n = gm_graph_node (w->g, k);
  const char *lost;

  if (n->op == GM_OP_gradient_hook) {
    const GmHigher *hook = gm_gradient_hook_on (w->g, k, n->in[0]);
    if (hook && w->tape[n->in[0]] && w->tape[n->in[0]]->meta.requires_grad)
      gm_gradient_hook_register (hook, w->tape[n->in[0]]);
  } else if (!w->reached[n->out] || w->tape[n->out]) {
    return; /* or recorded with another result of the same call */
  } else if ((lost = why_lost (w, k))) {
    record_lost (w, k, seq, lost);
  } else if (n->op != GM_OP_custom && !gm_op_is_higher (n->op)) {
    record_op (w, k, seq);
  } else {
    n->op == GM_OP_custom ? record_custom (w, k, seq) : record_higher (w, k, seq);
  }
}

static void
record (Unfold *w, GmAgNode *node, uint64_t seq)
{
  const GmGraph *g = w->g;

  for (uint32_t i = 0; i < w->u->n_grads; i++) {
    GmValueId v = g_array_index (g->inputs, GmValueId, w->u->grads[i].i);
    g_autoptr (GmTensor) t = tensor_of (w, v);
    w->tape[v] = gm_autograd_before (node, (int) i, t);
  }
  for (uint32_t k = 0; k < g->nodes->len; k++) {
    const GmNode *n = gm_graph_node (g, k);
    record_node (w, k, seq);
    GmTensor *made = n->op == GM_OP_gradient_hook ? NULL : w->tape[n->out];
    if (made && is_walked (w->u, k) && made->meta.requires_grad)
      /* like a write's history (inplace.c) */
      gm_autograd_use_up (made, n->op == GM_OP_slice_scatter);
  }
}

/* Stores in *used_up which nodes have used up their saved values, after a walk that failed. */
static void
note_used_up (const Unfold *w)
{
  uint32_t n = w->g->nodes->len, nr;
  g_autofree bool *used = g_new0 (bool, n + 1);
  bool any = false;

  for (uint32_t k = 0; k < n; k++) {
    GmTensor *t = w->tape[gm_graph_node (w->g, k)->out];
    GmAgNode *made = t && t->meta.requires_grad ? gm_tensor_node (t, &nr) : NULL;
    any |= used[k] = made && gm_node_is_used_up (made);
    if (made)
      gm_node_unref (made);
  }
  if (any)
    *w->u->used_up = g_steal_pointer (&used);
}

static bool
walk (Unfold *w, GmAgNode *node, GmTensor *const *grads, bool create, bool stay, GmTensor **result,
      GError **error)
{
  GmTensor *roots[w->u->n_tangents + 1];

  for (uint32_t k = 0; k < w->u->n_tangents; k++)
    roots[k] = w->tape[output_value (w->u, k)];
  bool ok = gm_autograd_through (node, roots, grads, create, stay, result, error);
  if (!ok && w->u->used_up)
    note_used_up (w);
  return ok;
}

static void
give_roots (const Unfold *w, GmTensor **roots)
{
  for (uint32_t k = 0; k < w->u->n_tangents; k++) {
    GmTensor *t = w->tape[output_value (w->u, k)];
    roots[k] = t ? gm_tensor_ref (t) : NULL;
  }
}

/* Makes the nodes of a call on the tape, and walks them.  node: the call's node; kept: the values
 * that the call saved; seq: its first sequence number.  of: per tangent, true if the nodes of its
 * output are made.  grads: per tangent, the gradient to walk the nodes with (create: recorded;
 * stay: they can be walked again) into `result`; NULL: nothing is walked, and `roots` is filled.
 * *made: the values were computed. */
static bool
unfold (const GmUnfold *u, GmAgNode *node, const GmSaved *kept, uint64_t seq,
        GmTensor *const *grads, const bool *of, bool create, bool stay, GmTensor **result,
        GmTensor **roots, bool *made, GError **error)
{
  uint32_t n = u->g->values->len;
  g_autofree bool *reached = g_new0 (bool, n + 1), *needed = g_new0 (bool, n + 1),
                  *source = g_new0 (bool, n + 1);
  g_autofree GmTensor **values = g_new0 (GmTensor *, n + 1), **tape = g_new0 (GmTensor *, n + 1),
                      **leaves = g_new0 (GmTensor *, n + 1);
  g_autofree const char **lost = g_new0 (const char *, n + 1);
  g_autoptr (GStringChunk) why = g_string_chunk_new (64);
  Unfold w = { u, u->g, kept, reached, needed, source, values, tape, leaves, lost, why };

  for (uint32_t k = 0; k < u->n_tangents; k++)
    if (of[k])
      reached[output_value (u, k)] = true;
  spread (u->g, reached);
  mark_needed (&w);
  find_leaves (&w, node);
  bool ok = *made = compute_needed (&w, error);
  if (ok)
    record (&w, node, seq);
  if (ok && grads)
    ok = walk (&w, node, grads, create, stay, result, error);
  else if (ok)
    give_roots (&w, roots);
  for (GmValueId v = 0; v < n; v++) {
    gm_tensor_unref (leaves[v]);
    gm_tensor_unref (tape[v]);
    gm_tensor_unref (values[v]);
  }
  return ok;
}

bool
gm_unfold_backward (const GmUnfold *u, GmAgNode *n, const GmSaved *kept, uint64_t seq,
                    GmTensor *const *grads, bool create, GmTensor **result, GError **error)
{
  g_autofree bool *of = g_new (bool, u->n_tangents + 1);
  bool made, some = !gm_autograd_wants_all (n);
  /* Values at which nothing arrives, or which go on to nothing that is asked for, are not used up:
   * another backward may come there.  A refusal of their hooks does not matter to this walk. */
  if (some || !gm_unfold_can_fill (u, grads)) {
    memset (of, true, u->n_tangents);
    bool ok = unfold (u, n, kept, seq, grads, of, create, true, result, NULL, &made, error);
    if (made)
      return ok;
    g_clear_error (error);
  }
  for (uint32_t k = 0; k < u->n_tangents; k++)
    of[k] = grads[k] != NULL;
  return unfold (u, n, kept, seq, grads, of, create, create || some, result, NULL, &made, error);
}

bool
gm_unfold_parts (const GmUnfold *u, GmAgNode *n, const GmSaved *kept, uint64_t seq,
                 GmTensor **roots, GError **error)
{
  g_autofree bool *of = g_new (bool, u->n_tangents + 1);
  bool made;

  memset (of, true, u->n_tangents);
  return unfold (u, n, kept, seq, NULL, of, false, false, NULL, roots, &made, error);
}
