/* SPDX-License-Identifier: Apache-2.0
 * backward.c -- starts walks of the engine: backward, grad, and a function that is unfolded.
 *
 * Each fills in what is wanted of the walk (walk.h), runs it, and hands over what was captured.
 */
#include <string.h>

#include "core/autograd/backward_stretch.h"
#include "core/autograd/walk.h"

/* -- Into leaves ------------------------------------------------------------------------------- */

static bool
backward_at (GmAgNode *n, uint32_t nr, GmTensor *root, GmTensor *grad, bool retain, GError **error)
{
  GmWalk w = { .accumulate = true, .retain = retain };
  GmTensor *g = gm_walk_root_gradient (root, grad, 0, error);

  return g && gm_walk_run_one_node (&w, n, nr, g, error);
}

bool
gm_autograd_backward (GmTensor *const *roots, GmTensor *const *grads, int n, bool retain_graph,
                      bool create_graph, GError **error)
{
  if (n == 1 && !create_graph) {
    GmEdge e = gm_walk_edge_to (roots[0], false);
    bool one = e.node && gm_walk_is_one_node (e.node);
    bool ok =
        one && backward_at (e.node, e.nr, roots[0], grads ? grads[0] : NULL, retain_graph, error);
    gm_node_unref (e.node);
    if (one)
      return ok;
  }
  GmAgNode *few[GM_WALK_FEW];
  g_autofree GmAgNode **many = n > GM_WALK_FEW ? g_new (GmAgNode *, n) : NULL;
  GmWalk w = {
    .pins = many ? many : few, .accumulate = true, .retain = retain_graph, .create = create_graph
  };
  bool ok = gm_walk_run (&w, roots, grads, n, error);
  gm_walk_end (&w);
  return ok;
}

/* Adds the gradient g, which has arrived at an input that is no leaf, to the input's grad. */
static bool
keep_gradient (GmTensor *input, GmTensor *g, GError **error)
{
  GmTensor *old = gm_tensor_grad (input),
           *sum = old ? gm_autograd_op (GM_OP_add, (GmTensor *const[]){ old, g }, 2, NULL, error)
                      : gm_tensor_ref (g);
  if (!sum)
    return false;
  gm_tensor_set_grad (input, sum);
  gm_tensor_unref (sum);
  return true;
}

bool
gm_autograd_backward_to (GmTensor *const *roots, GmTensor *const *grads, int n,
                         GmTensor *const *inputs, int n_inputs, bool retain_graph,
                         bool create_graph, GError **error)
{
  g_autofree GmAgNode **pins = g_new (GmAgNode *, n + n_inputs + 1);
  g_autofree GmCapture *captures = g_new (GmCapture, n_inputs + 1);
  g_autofree GmTensor **result = g_new0 (GmTensor *, n_inputs + 1);
  GmWalk w = { .pins = pins,
               .captures = captures,
               .result = result,
               .accumulate = true,
               .only = true,
               .retain = retain_graph,
               .create = create_graph };
  bool ok = true;
  for (int i = 0; i < n_inputs && ok; i++) {
    GmEdge e = gm_walk_edge_to (inputs[i], true);
    if (!e.node) {
      g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME, "backward: input %d does not require grad",
                   i);
      ok = false;
      break;
    }
    pins[w.n_pins++] = e.node;
    if (e.node->kind != GM_NODE_LEAF)
      captures[w.n_captures++] = (GmCapture){ e.node, e.nr, i };
    else if (!gm_walk_slot (&w, e.node))
      gm_walk_slot_add (&w, e.node)->needed = true;
  }
  ok = ok && gm_walk_run (&w, roots, grads, n, error);
  gm_walk_end (&w);
  for (int i = 0; i < n_inputs; i++) {
    ok = ok && (!result[i] || keep_gradient (inputs[i], result[i], error));
    gm_tensor_unref (result[i]);
  }
  return ok;
}

/* -- Unfolding a function ---------------------------------------------------------------------- */

void
gm_autograd_wait_inside (GmAgNode *n, uint64_t outputs)
{
  n->inside = outputs;
}

void
gm_autograd_hook_inside (GmAgNode *n, uint64_t outputs)
{
  n->hooked = outputs;
}

/* Adds the hooks on n's output nr to the node `to` that makes this output; n still owns them. */
static void
lend_hooks (const GmAgNode *n, uint32_t nr, GmEdge to)
{
  for (guint i = 0; n->hooks && i < n->hooks->len; i++) {
    GmAgHook h = g_array_index (n->hooks, GmAgHook, i);
    if (h.nr != nr)
      continue;
    if (!to.node->hooks)
      to.node->hooks = g_array_new (FALSE, FALSE, sizeof h);
    h.nr = to.nr;
    h.destroy = NULL;
    h.lent = true;
    g_array_append_val (to.node->hooks, h);
  }
}

/* Moves the hooks on n's output nr, and the tensors that retain its gradient, to the node `to`. */
static void
move_waiting (GmAgNode *n, uint32_t nr, GmEdge to)
{
  for (guint i = 0; n->hooks && i < n->hooks->len;) {
    GmAgHook h = g_array_index (n->hooks, GmAgHook, i);
    if (h.nr != nr) {
      i++;
      continue;
    }
    if (!to.node->hooks)
      to.node->hooks = g_array_new (FALSE, FALSE, sizeof h);
    h.nr = to.nr;
    g_array_remove_index (n->hooks, i);
    g_array_append_val (to.node->hooks, h);
    gm_hook_place (h.id, to.node->hooks);
  }
  for (guint i = 0; n->retained && i < n->retained->len;) {
    GmRetained r = g_array_index (n->retained, GmRetained, i);
    if (r.nr != nr) {
      i++;
      continue;
    }
    if (!to.node->retained)
      to.node->retained = g_array_new (FALSE, FALSE, sizeof r);
    g_array_remove_index (n->retained, i);
    r.nr = to.nr;
    g_array_append_val (to.node->retained, r);
    gm_node_hold (to.node);
    gm_node_let_go (n);
    r.ag->node = gm_node_ref (to.node);
    r.ag->nr = to.nr;
    gm_node_unref (n);
  }
}

/* Makes `to` the node that makes n's output nr from now on: in a later backward, gradients that
 * come along edges to either node are summed there. */
static void
stay_apart (GmAgNode *n, uint32_t nr, GmEdge to)
{
  if (!n->apart)
    n->apart = g_new0 (GmEdge, n->n_out);
  move_waiting (n, nr, to);
  gm_edge_leave_front (&n->apart[nr]);
  n->apart[nr] = (GmEdge){ gm_node_ref (to.node), to.nr };
  to.node->front = n;
}

/* Hands g, the gradient of n's output nr, which may be NULL, to the captures and the tensors with
 * retain_grad () that wait for it. */
static bool
serve_awaited (GmAgNode *n, uint32_t nr, GmTensor *g, GError **error)
{
  GmWalk *outer = n->slot->walk;
  for (int i = 0; n->slot->captured && i < outer->n_captures; i++)
    if (outer->captures[i].node == n && outer->captures[i].nr == nr)
      outer->result[outer->captures[i].input] = g ? gm_tensor_ref (g) : NULL;
  GmEdge at = n->apart && n->apart[nr].node ? n->apart[nr] : (GmEdge){ n, nr };
  return !outer->accumulate || gm_walk_keep_retained (at.node, at.nr, g, error);
}

/* Returns the node that `root` is a result of, borrowed, if it is one that n was unfolded to; else
 * an empty edge. */
static GmEdge
made_here (const GmAgNode *n, const GmTensor *root)
{
  const GmAutograd *ag = root ? root->autograd : NULL;
  bool here = ag && ag->node && ag->node->kind != GM_NODE_LEAF;
  for (uint32_t i = 0; i < n->n_in && here; i++)
    here = n->edges[i].node != ag->node;
  return here ? (GmEdge){ ag->node, ag->nr } : (GmEdge){ NULL, 0 };
}

/* True if hooks on n's results have to run between the nodes that n stands for: a hook gets a
 * gradient that other inner nodes contribute to; or leaves have hooks, too, which run as soon as
 * their gradients are complete; or a stretch would run n together with the readers of its
 * results. */
static bool
has_turns_inside (const GmAgNode *n)
{
  bool inside = false;
  for (guint i = 0; i < n->hooks->len; i++)
    inside |= n->inside >> MIN (g_array_index (n->hooks, GmAgHook, i).nr, 63) & 1;
  return inside || (n->hooks->len && (gm_stretch_runner_now || gm_autograd_leaf_waits (n)));
}

/* True if other nodes may deliver gradients between two that n sends to the same place. */
static bool
is_read_beside (const GmAgNode *n)
{
  for (uint32_t i = 0; i < n->n_in && n->reaches_back; i++) {
    if (!(n->reaches_back >> MIN (i, 63) & 1))
      continue;
    uint32_t own = 0;
    for (uint32_t k = 0; k < n->n_in; k++)
      own += n->edges[k].node == n->edges[i].node;
    if (n->edges[i].node && __atomic_load_n (&n->edges[i].node->refs, __ATOMIC_RELAXED) > own)
      return true;
  }
  return false;
}

void
gm_autograd_reach_back (GmAgNode *n, uint64_t edges)
{
  n->reaches_back = edges;
}

/* True if users have left hooks or metadata with n: the nodes that n stands for would not have
 * them. */
static bool
has_company (const GmAgNode *n)
{
  return n->user && (gm_node_is_hooked (n) || (n->user->metadata && !n->released));
}

void
gm_walk_part (GmAgNode *n, bool asks)
{
  bool able = n->kind == GM_NODE_FUNCTION && n->fn->parts && n->state && !n->slot && !n->apart
              && !n->region;
  if (!able || has_company (n))
    return;
  bool beside = (n->hooks && has_turns_inside (n))
                || (n->has_beside && (n->hooks || gm_autograd_leaf_waits (n)))
                || is_read_beside (n);
  bool astray = asks && n->n_out > 1 && (n->hooks || n->retained);
  if (!beside && !astray && !n->released && !gm_anomaly_on)
    return;
  g_autofree GmTensor **roots = g_new0 (GmTensor *, n->n_out + 1);
  gm_anomaly_parted = n;
  /* an error comes again where n runs as one node */
  bool was = gm_grad_set_enabled (false), ok = n->fn->parts (n, n->state, roots, NULL);
  gm_grad_set_enabled (was);
  gm_anomaly_parted = NULL;
  for (uint32_t k = 0; k < n->n_out; k++)
    ok = ok && (!roots[k] || !roots[k]->meta.requires_grad || made_here (n, roots[k]).node);
  for (uint32_t k = 0; k < n->n_out; k++) {
    GmEdge at = ok ? made_here (n, roots[k]) : (GmEdge){ NULL, 0 };
    if (at.node)
      stay_apart (n, k, at);
    gm_tensor_unref (roots[k]);
  }
}

GmEdge
gm_walk_edge_to (GmTensor *t, bool asks)
{
  GmEdge e = gm_edge_to (t);
  if (G_UNLIKELY (gm_walk_may_part (e.node))) {
    gm_walk_part (e.node, asks);
    gm_edge_resolve (&e);
  }
  return e;
}

/* True if the outer walk captures the gradient of n's output k, or a tensor retains it. */
static bool
is_output_awaited (const GmAgNode *n, uint32_t k)
{
  bool is = gm_autograd_wants_output (n, k);
  for (guint i = 0; n->retained && n->slot->walk->accumulate && i < n->retained->len && !is; i++)
    is = g_array_index (n->retained, GmRetained, i).nr == k;
  return is;
}

/* Makes the walk w end at e.  wanted: the gradient that arrives there is asked for. */
static void
end_at (GmWalk *w, GmEdge e, bool wanted)
{
  GmSlot *s = gm_walk_slot (w, e.node);
  s = s ? s : gm_walk_slot_add (w, e.node);
  s->visited = s->some_lead = true;
  s->leads |= (uint64_t) wanted << MIN (e.nr, 63);
}

/* Captures the gradients that go along n's edges, each place once; then, if something waits inside
 * for the gradients of n's outputs, those, and returns true.  If the outer walk asks for some
 * gradients only, w does, too. */
static bool
capture_ends (GmWalk *w, GmAgNode *n, GmTensor *const *roots, bool stay)
{
  bool awaited = n->inside && gm_autograd_is_awaited (n), asks = gm_walk_asks (n->slot->walk);
  g_autofree bool *wanted = g_new (bool, n->n_in + 1);
  for (uint32_t i = 0; i < n->n_in; i++)
    wanted[i] = !asks || gm_autograd_wants (n, i);
  w->n_edges = (int) n->n_in;
  for (uint32_t i = 0; i < n->n_in; i++) {
    GmEdge e = n->edges[i];
    bool first = e.node != NULL;
    for (int k = 0; k < w->n_captures && first; k++)
      first = w->captures[k].node != e.node || w->captures[k].nr != e.nr;
    if (first && wanted[i])
      w->captures[w->n_captures++] = (GmCapture){ e.node, e.nr, (int) i };
    if (asks && e.node)
      end_at (w, e, wanted[i]);
  }
  for (uint32_t k = 0; k < n->n_out && (awaited || stay); k++) {
    GmEdge at = made_here (n, roots[k]);
    if (!at.node)
      continue;
    bool own = at.node->hooks != NULL; /* registered on the parts: they have not run */
    if (stay)
      stay_apart (n, k, at);
    else
      lend_hooks (n, k, at);
    if (awaited && (!asks || is_output_awaited (n, k)))
      w->captures[w->n_captures++] = (GmCapture){ at.node, at.nr, (int) (n->n_in + k) };
    else if (at.node->hooks && !own && !gm_walk_slot (w, at.node))
      gm_walk_slot_add (w, at.node)->greeted = true; /* they have run on n's own gradient */
  }
  return awaited;
}

GmTensor *
gm_autograd_take_arrived (GmAgNode *n, uint32_t i)
{
  gm_edge_resolve (&n->edges[i]);
  GmSlot *s = n->slot && n->edges[i].node ? gm_walk_slot (n->slot->walk, n->edges[i].node) : NULL;

  return s ? g_steal_pointer (gm_walk_gradient (s, n->edges[i].nr)) : NULL;
}

bool
gm_autograd_through (GmAgNode *n, GmTensor *const *roots, GmTensor *const *grads, bool create,
                     bool stay, GmTensor **result, GError **error)
{
  uint32_t n_ends = n->n_in + n->n_out;
  g_autofree GmAgNode **pins = g_new (GmAgNode *, n->n_out + 1);
  g_autofree GmCapture *captures = g_new (GmCapture, n_ends + 1);
  g_autofree GmTensor **ends = g_new0 (GmTensor *, n_ends + 1),
                      **starts = g_new (GmTensor *, n->n_out + 1),
                      **given = g_new (GmTensor *, n->n_out + 1);
  GmWalk w = { .pins = pins,
               .captures = captures,
               .result = ends,
               .retain = stay && n->slot->walk->retain,
               .create = create,
               .through = true };
  int n_starts = 0;
  bool awaited = capture_ends (&w, n, roots, stay);
  for (uint32_t k = 0; k < n->n_out; k++)
    if (grads[k] && roots[k] && roots[k]->meta.requires_grad) {
      starts[n_starts] = roots[k];
      given[n_starts++] = grads[k];
    }
  bool ok = gm_walk_run (&w, starts, given, n_starts, error);
  for (int i = 0; i < w.n_captures && ok; i++) { /* sums to which nothing was added */
    GmSlot *s = gm_walk_slot (&w, captures[i].node);
    GmTensor **sum = s ? gm_walk_gradient (s, captures[i].nr) : NULL;
    if (sum && *sum && !ends[captures[i].input])
      ends[captures[i].input] = g_steal_pointer (sum);
  }
  gm_walk_end (&w);
  for (uint32_t k = 0; k < n->n_out; k++) {
    /* else served before n ran */
    ok = ok && (!awaited || serve_awaited (n, k, ends[n->n_in + k], error));
    gm_tensor_unref (ends[n->n_in + k]);
  }
  for (uint32_t i = 0; i < n->n_in; i++)
    result[i] = ends[i]; /* without ok: the gradients that were complete before the failure */
  return ok;
}

/* -- Gradients that are asked for -------------------------------------------------------------- */

static bool
check_used (GmTensor *const *result, int n, bool allow_unused, GError **error)
{
  for (int i = 0; i < n && !allow_unused; i++)
    if (!result[i]) {
      g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME,
                   "grad: no gradient reaches input %d, it was not used to compute the results; "
                   "pass allow_unused=True if that is "
                   "intended",
                   i);
      return false;
    }
  return true;
}

bool
gm_autograd_grad (GmTensor *const *roots, GmTensor *const *grads, int n, GmTensor *const *inputs,
                  int n_inputs, bool retain_graph, bool create_graph, bool allow_unused,
                  GmTensor **result, GError **error)
{
  g_autofree GmAgNode **pins = g_new (GmAgNode *, n + n_inputs + 1);
  g_autofree GmCapture *captures = g_new (GmCapture, n_inputs + 1);
  GmWalk w = { .pins = pins,
               .captures = captures,
               .result = result,
               .retain = retain_graph,
               .create = create_graph };
  bool ok = true;
  memset (result, 0, (size_t) n_inputs * sizeof *result);
  for (int i = 0; i < n_inputs && ok; i++) {
    GmEdge e = gm_walk_edge_to (inputs[i], true);
    if (!e.node) {
      g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME, "grad: input %d does not require grad", i);
      ok = false;
      break;
    }
    pins[w.n_pins++] = e.node;
    captures[w.n_captures++] = (GmCapture){ e.node, e.nr, i };
  }
  ok = ok && gm_walk_run (&w, roots, grads, n, error);
  gm_walk_end (&w);
  ok = ok && check_used (result, n_inputs, allow_unused, error);
  for (int i = 0; i < n_inputs && !ok; i++)
    g_clear_pointer (&result[i], gm_tensor_unref);
  return ok;
}
