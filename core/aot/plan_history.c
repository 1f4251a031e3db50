/* SPDX-License-Identifier: Apache-2.0
 * plan_history.c -- a compiled function as one node of the tape: what a call saves, and the
 * backward.
 *
 * The compiled backward runs where it has the bits of the plain one; else the function is unfolded
 * (unfold_history.c).
 * Invariant: a saved tensor is an alias without history, never the tensor that the caller holds, so
 * references form no cycle.  The plain tape keeps a leaf itself, and reads it where it is now if it
 * was given other memory since (.data): then the function is unfolded.
 */
#include "core/aot/plan_private.h"
#include "core/aot/rerun.h"
#include "core/autograd/node_user.h"
#include "core/graph/higher.h"
#include "core/tensor/alloc.h"

struct GmHistory {
  GmPlan *plan;
  GmAgNode *node; /* owns this history */
  bool spent;     /* the memory of saved tensors was donated to results, so they cannot be read
                   * again */
  bool used;      /* a backward without retain_graph has passed */
  bool *walked;   /* per node of the graph: the last backward has used it up; NULL: all nodes
                   * that it reaches */
  uint64_t seq;   /* the first of the sequence numbers that the refreshes of inputs and the
                   * operations would have if they were recorded one by one */
  GmSaved saved[];
};

/* Histories up to this size come from the free lists of tensor headers. */
enum { MAX_BLOCK = 4096 };

static size_t
history_bytes (const GmPlan *p)
{
  return sizeof (GmHistory) + sizeof ((GmHistory *) 0)->saved[0] * (size_t) p->n_held
         + sizeof (uint64_t) * (size_t) p->n_early;
}

/* Returns the array in h with the sequence number of each early view; borrowed. */
static uint64_t *
early_numbers (const GmHistory *h)
{
  return (uint64_t *) (h->saved + h->plan->n_held);
}

static void
history_free (void *data)
{
  GmHistory *h = data;

  GmPlan *p = h->plan;
  size_t bytes = history_bytes (p);

  for (int i = 0; i < p->n_held; i++)
    gm_saved_clear (&h->saved[i]);
  g_free (h->walked);
  gm_plan_unref (p);
  if (bytes <= MAX_BLOCK)
    gm_block_give (h, bytes);
  else
    g_free (h);
}

/* True if unpacked tensors can have the layout that the compiled backward reads: hooks return dense
 * tensors, so all tensors that they pack must be dense. */
static bool
is_as_saved (const GmHistory *h)
{
  for (int i = 0; i < h->plan->n_saved; i++) {
    const GmSaved *s = &h->saved[i];
    if (s->is_packed ? !gm_meta_is_dense (&h->plan->saved_metas[i])
                     : gm_tensor_version (s->t) != s->version)
      return false;
  }
  for (int i = h->plan->n_saved; i < h->plan->n_watched; i++)
    if (!h->saved[i].is_packed && gm_tensor_version (h->saved[i].t) != h->saved[i].version)
      return false;
  return true;
}

/* True if the backward has to be unfolded (unfold_history.c), because the compiled one would return
 * something else than the plain one for these gradients. */
static bool
needs_unfolding (const GmHistory *h, const GmAgNode *n, GmTensor *const *grads, bool create_graph)
{
  return create_graph || gm_autograd_is_awaited (n)
         || (h->plan->calls_program && (gm_autograd_leaf_waits (n) || !gm_autograd_wants_all (n)))
         || gm_autograd_order_matters (n, h->plan->n_terms)
         || (h->plan->reads_strides && !gm_layouts_are_planned (h->plan, grads))
         || !gm_unfold_can_fill (&h->plan->unfold, grads) || !is_as_saved (h)
         || gm_unfold_any_moved (&h->plan->unfold, n, h->saved);
}

static bool
check_versions (const GmHistory *h, GError **error)
{
  for (int i = 0; i < h->plan->n_saved; i++) {
    if (h->saved[i].is_packed)
      continue;
    if (gm_tensor_version (h->saved[i].t) == h->saved[i].version)
      continue;
    gm_fail_changed ("the backward of the compiled function", NULL, h->saved[i].t,
                     h->saved[i].version, error);
    return false;
  }
  return true;
}

/* Returns the gradient of an output at which none arrived: negative zeros of the meta `want`,
 * because x + -0 is x for every x, -0 included, so that a sum has the same bits as without that
 * gradient.  A new reference. */
static GmTensor *
no_gradient (const GmMeta *want, GError **error)
{
  GmAttrs attrs = gm_attrs_full (want, gm_scalar_float (-0.0));
  GmTensor *t = gm_tensor_new (want, error);

  if (t && !gm_op_run_into (GM_OP_full, NULL, 0, &attrs, t, error))
    g_clear_pointer (&t, gm_tensor_unref);
  return t;
}

/* Returns a new reference to the gradient g in the form that the compiled backward reads: zeros for
 * NULL, and in the layout of `want`. */
static GmTensor *
tangent (const GmMeta *want, GmTensor *g, GError **error)
{
  GmTensor *t;

  if (!g)
    return no_gradient (want, error);
  if (gm_plan_same_layout (&g->meta, want))
    return gm_tensor_ref (g);
  t = gm_tensor_new (want, error);
  if (t && !gm_op_run_into (GM_OP_copy, &g, 1, NULL, t, error))
    g_clear_pointer (&t, gm_tensor_unref);
  return t;
}

/* Fills `out` with tensors for the backward's outputs: in the memory of saved values and gradients
 * that are read for the last time, or in new memory.  False with *error set if there is none. */
static bool
allocate_backward (GmHistory *h, const GmAgNode *n, GmTensor *const *in, GmTensor *const *grads,
                   GmTensor **out, GError **error)
{
  const GmPlan *p = h->plan;

  if (!p->lenders || h->walked || !gm_autograd_is_last (n))
    return gm_plan_allocate (p->backward_metas, p->n_backward, out, error);
  for (int i = 0; i < p->n_backward; i++) {
    uint32_t from = p->lenders[i], k = from - (uint32_t) p->n_saved;
    bool is_saved = from < (uint32_t) p->n_saved;
    out[i] = NULL;
    if (is_saved && !h->saved[from].is_packed)
      out[i] = gm_donate_take (in[from], 1);
    else if (from != GM_NO_ID && !is_saved) /* the walk has the other reference */
      out[i] = gm_donate_take (in[from], in[from] == grads[p->tangents[k]] ? 2 : 1);
    if (!out[i] && !(out[i] = gm_tensor_new (&p->backward_metas[i], error))) {
      gm_plan_unref_all (out, i);
      return false;
    }
  }
  return true;
}

/* True if output i lies in the memory of a saved tensor, which it was given. */
static bool
is_lent (const GmHistory *h, GmTensor *const *out, int i)
{
  uint32_t from = h->plan->lenders ? h->plan->lenders[i] : GM_NO_ID;

  return from < (uint32_t) h->plan->n_saved && !h->saved[from].is_packed
         && h->saved[from].t->storage == out[i]->storage;
}

static bool
lends_saved (const GmHistory *h, GmTensor *const *out)
{
  bool any = false;

  for (int i = 0; i < h->plan->n_backward; i++)
    any |= is_lent (h, out, i);
  return any;
}

static void
drop_lent (GmHistory *h, GmTensor *const *out)
{
  for (int i = 0; h->spent && i < h->plan->n_backward; i++)
    if (is_lent (h, out, i))
      gm_saved_clear (&h->saved[h->plan->lenders[i]]);
}

bool
gm_plan_first_backward (GmPlan *p, GError **error)
{
  GmPlanFirst *first = p->first;
  bool ok = true;

  gm_yield_lock (&first->lock); /* another thread may be running it */
  gm_yield_allow ();
  if (!first->done) {
    ok = p->exec.prepare (p->exec.data, error);
    if (ok && !p->of) /* a plan made of another has sizes, so nothing is lent */
      gm_donate_plan_backward (p);
    __atomic_store_n (&first->done, ok, __ATOMIC_RELEASE);
  }
  gm_yield_forbid ();
  gm_yield_unlock (&first->lock);
  return ok;
}

static bool
run_backward (GmHistory *h, const GmAgNode *n, GmTensor *const *in, GmTensor *const *grads,
              GmTensor **result, GError **error)
{
  GmPlan *p = h->plan;
  GmTensor *out[p->n_backward + 1];

  if (!allocate_backward (h, n, in, grads, out, error))
    return false;
  h->spent = lends_saved (h, out);
  if (p->n_backward > 0
      && !gm_plan_execute_known (p, 1, in, p->n_saved + p->n_tangents, out, p->n_backward, error)) {
    gm_plan_unref_all (out, p->n_backward);
    return false;
  }
  drop_lent (h, out);
  for (int i = 0; i < p->n_grads; i++) {
    GmGradSource s = p->sources[i];
    result[i] = s.is_input ? in[s.index] : out[s.index];
    if (s.is_input || p->shares_grads)
      gm_tensor_ref (result[i]);
  }
  if (p->shares_grads)
    gm_plan_unref_all (out, p->n_backward);
  return true;
}

static void
drop_unpacked (const GmHistory *h, GmTensor **in, int n)
{
  for (int i = 0; i < n; i++)
    if (h->saved[i].is_packed)
      gm_tensor_unref (in[i]);
}

/* Returns what unpack returns for s, copied to the layout of `want` if it differs; a new
 * reference. */
static GmTensor *
unpack_as (const GmSaved *s, const GmMeta *want, GError **error)
{
  GmTensor *t = gm_saved_get (s, error), *fit = NULL;

  if (!t)
    return NULL;
  if (t->meta.dtype == want->dtype && gm_meta_same_shape (&t->meta, want)) {
    fit = tangent (want, t, error);
  } else {
    g_autofree char *have = gm_meta_text (&t->meta), *expected = gm_meta_text (want);
    g_set_error (
        error, GM_ERROR, GM_ERROR_RUNTIME,
        "an unpack hook gave %s for a tensor that was saved as %s; give back the shape and "
        "the dtype that pack was called with",
        have, expected);
  }
  gm_tensor_unref (t);
  return fit;
}

/* Fills `in` with the saved tensors: borrowed, except for those that were packed, which are new
 * references. */
static bool
take_saved (const GmHistory *h, GmTensor **in, GError **error)
{
  const GmPlan *p = h->plan;

  for (int i = 0; i < p->n_saved; i++) {
    const GmSaved *s = &h->saved[i];
    in[i] = G_LIKELY (!s->is_packed) ? s->t : unpack_as (s, &p->saved_metas[i], error);
    if (!in[i]) {
      drop_unpacked (h, in, i);
      return false;
    }
  }
  return true;
}

/* Runs the unfolded backward on the saved values that unpack nodes of the graph (p->restore)
 * compute from `kept`.  grads NULL: only makes the nodes that it would walk, into `result`. */
static bool
unfold_from (const GmHistory *h, const GmUnfold *u, GmAgNode *n, const GmSaved *kept,
             GmTensor *const *grads, GmTensor **result, bool create, GError **error)
{
  return grads ? gm_unfold_backward (u, n, kept, h->seq, grads, create, result, error)
               : gm_unfold_parts (u, n, kept, h->seq, result, error);
}

static bool
unfold_noting (GmHistory *h, GmAgNode *n, GmTensor *const *grads, GmTensor **result, bool create,
               bool **used_up, GError **error)
{
  const GmPlan *p = h->plan;
  GmUnfold u = p->unfold;
  g_autoptr (GmGraph) numbers = p->of ? gm_plan_graph_now (p, error) : NULL;

  if (p->of && !numbers)
    return false;
  if (numbers)
    u.g = numbers;
  u.numbers = early_numbers (h);
  u.used_up = used_up;
  g_autofree bool *all = h->used && !h->walked ? g_new (bool, u.g->nodes->len + 1) : NULL;
  if (all)
    memset (all, true, u.g->nodes->len);
  u.walked = !h->used ? NULL : all ? all : h->walked;
  if (!p->restore || all) /* nothing is left to be unpacked */
    return unfold_from (h, &u, n, h->saved, grads, result, create, error);
  int n_kept = (int) p->restore->outputs->len;
  GmTensor *in[p->n_saved + 1], *out[n_kept + 1];
  GmSaved kept[n_kept + 1];

  if (!check_versions (h, error))
    return false;
  for (int i = 0; i < p->n_saved; i++)
    in[i] = h->saved[i].t;
  if (!gm_graph_interpret_with (p->restore, p->symbols, in, out, NULL, error))
    return false;
  for (int i = 0; i < n_kept; i++)
    kept[i] = (GmSaved){ .t = out[i], .version = gm_tensor_version (out[i]) };
  bool ok = unfold_from (h, &u, n, kept, grads, result, create, error);
  gm_plan_unref_all (out, n_kept);
  return ok;
}

/* Unfolds the backward and walks it operation by operation.  If the walk fails, operations that ran
 * have used up their saved values, and a later backward cannot pass them. */
static bool
unfold (GmHistory *h, GmAgNode *n, GmTensor *const *grads, GmTensor **result, bool create,
        GError **error)
{
  bool *used_up = NULL,
       ok = unfold_noting (h, n, grads, result, create, grads ? &used_up : NULL, error);

  if (used_up) {
    g_free (h->walked);
    h->walked = used_up;
    h->used = true;
    gm_node_leave_parts (n);
  }
  return ok;
}

/* Fills `in` with the inputs of the compiled backward: the saved tensors (borrowed, except for
 * those that were packed), and the tangents (new references).  False with *error set on failure. */
static bool
take_inputs (const GmHistory *h, GmTensor *const *grads, GmTensor **in, GError **error)
{
  const GmPlan *p = h->plan;

  if (!take_saved (h, in, error))
    return false;
  for (int i = 0; i < p->n_tangents; i++)
    if (!(in[p->n_saved + i] = tangent (&p->tangent_metas[i], grads[p->tangents[i]], error))) {
      gm_plan_unref_all (in + p->n_saved, i);
      drop_unpacked (h, in, p->n_saved);
      return false;
    }
  return true;
}

/* Notes which nodes of the graph the plain backward reaches, if it reaches fewer than the compiled
 * backward does. */
static void
note_walk (GmHistory *h, const GmAgNode *n, GmTensor *const *grads)
{
  bool all = gm_autograd_wants_all (n) || !h->plan->graph;

  if (G_UNLIKELY (h->walked != NULL))
    g_clear_pointer (&h->walked, g_free);
  if (G_UNLIKELY (!all))
    h->walked = gm_unfold_walked (&h->plan->unfold, n, grads);
}

/* True if the plain backward may run after the compiled one has failed with `error`: no saved value
 * is used up, and host functions need not be called again.  An operation that failed then fails
 * again, with its own error text, after all that comes before it; a backward that failed for lack
 * of memory may succeed. */
static bool
may_run_plainly (const GmHistory *h, const GmRerun *calls, const GError *error)
{
  const GmPlan *p = h->plan;

  return p->graph && !h->spent && !p->restore
         && (error->domain == GM_ERROR || gm_rerun_has_failed (calls));
}

static bool
compiled_backward (GmAgNode *n, void *data, GmTensor *const *grads, GmTensor **result,
                   bool create_graph, GError **error)
{
  GmHistory *h = data;
  GmPlan *p = h->plan;
  GmTensor *in[p->n_saved + p->n_tangents + 1];

  if (h->spent) {
    g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME,
                 "backward went through a compiled function a second time, and the first one, "
                 "which failed in it, has used up what it "
                 "had saved: call the function again");
    return false;
  }
  note_walk (h, n, grads);
  if (p->graph && needs_unfolding (h, n, grads, create_graph))
    return unfold (h, n, grads, result, create_graph, error);
  if (create_graph) {
    g_set_error (error, GM_ERROR, GM_ERROR_UNSUPPORTED,
                 "double backward (create_graph=True) through this compiled function is not "
                 "supported: call the function without compile, its eager form can be "
                 "differentiated twice");
    return false;
  }
  if (!check_versions (h, error) || !gm_plan_prepare (p, error)
      || !take_inputs (h, grads, in, error))
    return false;
  GError *failed = NULL;
  GmRerun calls = { NULL };
  if (G_UNLIKELY (p->calls_program))
    gm_rerun_begin (&calls);
  bool ok = run_backward (h, n, in, grads, result, &failed), planned = true;
  for (int i = 0; i < p->n_tangents; i++)
    planned &= in[p->n_saved + i] == grads[p->tangents[i]] || !grads[p->tangents[i]];
  gm_plan_unref_all (in + p->n_saved, p->n_tangents);
  drop_unpacked (h, in, p->n_saved);
  if (G_UNLIKELY (!ok) && may_run_plainly (h, &calls, failed)) {
    g_clear_error (&failed);
    calls.again = true;
    ok = unfold (h, n, grads, result, false, error);
  }
  if (G_UNLIKELY (p->calls_program))
    gm_rerun_end (&calls);
  if (failed)
    g_propagate_error (error, failed);
  if (ok && G_UNLIKELY (!planned || p->lays_out) && !gm_layouts_give (p, grads, result, error)) {
    for (int i = 0; i < p->n_grads; i++)
      g_clear_pointer (&result[i], gm_tensor_unref);
    return false;
  }
  return ok;
}

static bool
compiled_parts (GmAgNode *n, void *data, GmTensor **roots, GError **error)
{
  GmHistory *h = data;

  return h->plan->graph && !h->spent && unfold (h, n, NULL, roots, false, error);
}

static GmAgProgram *
compiled_program (GmAgNode *n, void *data, GmTensor *const *grads, GByteArray *structure,
                  GError **error)
{
  GmHistory *h = data;
  GmPlan *p = h->plan;
  GmTensor *in[p->n_saved + p->n_tangents + 1];
  bool any = false;

  for (int i = 0; i < p->n_joint_tangents; i++)
    any |= grads[i] != NULL;
  if (h->spent || !p->backward || !any || needs_unfolding (h, n, grads, false)
      || !take_inputs (h, grads, in, error))
    return NULL;
  note_walk (h, n, grads);
  for (int i = 0; i < p->n_saved; i++)
    if (!h->saved[i].is_packed)
      gm_tensor_ref (in[i]);
  return gm_plan_program (p, in, structure, error);
}

static const uint32_t *
compiled_order (const void *data, bool results)
{
  const GmPlan *p = ((const GmHistory *) data)->plan;

  return results ? p->grad_order : p->hook_order;
}

static uint64_t
compiled_number (const void *data, uint32_t nr)
{
  const GmHistory *h = data;
  const GmPlan *p = h->plan;

  if (!p->graph)
    return UINT64_MAX; /* first of all */
  GmValueId v = g_array_index (p->graph->outputs, GmGraphOutput, p->tangent_of[nr].i).value;
  uint32_t node = gm_graph_value (p->graph, v)->node;
  return node == GM_NO_ID ? h->seq : gm_unfold_number (&p->unfold, early_numbers (h), h->seq, node);
}

/* Drops what the backward has used up.  Nodes that a later backward may pass keep their values:
 * those that save nothing, and those that this backward has not reached. */
static GmAgLeft
compiled_spend (GmAgNode *n, void *data)
{
  GmHistory *h = data;
  GmPlan *p = h->plan;

  (void) n;
  if (p->keeps_nothing && p->n_held == 0)
    return GM_AG_WHOLE;
  if (!p->graph)
    return GM_AG_USED_UP;
  h->used = true;
  for (int i = 0; i < p->n_held && !h->walked; i++)
    gm_saved_clear (&h->saved[i]);
  return GM_AG_PARTS;
}

static uint64_t
compiled_leads (const GmAgNode *n, const void *data)
{
  const GmPlan *p = ((const GmHistory *) data)->plan;

  return p->graph ? gm_unfold_leads (&p->unfold, n) : UINT64_MAX;
}

static const GmAgFunction compiled_function = {
  .name = "CompiledBackward",
  .backward = compiled_backward,
  .release = history_free,
  .spend = compiled_spend,
  .leads = compiled_leads,
  .order = compiled_order,
  .number = compiled_number,
  .program = compiled_program,
  .parts = compiled_parts,
  .again = true,
};

/* -- From the forward -------------------------------------------------------------------------- */

static void
place_looks (const GmPlan *p, GmTensor *const *recorded, GmAgNode *n, uint64_t seq)
{
  for (uint32_t i = 0; i < p->unfold.n_looks; i++)
    if (G_UNLIKELY (recorded[p->looks[i].input]->base))
      gm_autograd_place_history (recorded[p->looks[i].input], n,
                                 gm_unfold_look_number (&p->unfold, seq, i, p->looks[i].at));
}

uint64_t
gm_plan_place_looks (const GmPlan *p, GmTensor *const *recorded)
{
  bool any = false;

  for (uint32_t i = 0; i < p->unfold.n_looks; i++)
    any |=
        recorded[p->looks[i].input]->base && gm_autograd_is_unplaced (recorded[p->looks[i].input]);
  if (G_LIKELY (!any))
    return 0;
  uint64_t seq = gm_autograd_reserve (gm_unfold_n_numbers (&p->unfold));
  place_looks (p, recorded, NULL, seq);
  return gm_unfold_look_number (&p->unfold, seq, p->unfold.n_looks, 0);
}

GmHistory *
gm_history_attach (GmPlan *p, GmTensor *const *recorded, GmTensor *const *single,
                   GmTensor *const *in, GmTensor *const *out)
{
  size_t bytes = history_bytes (p);
  GmHistory *h = bytes <= MAX_BLOCK ? gm_block_take (bytes) : g_malloc (bytes);
  GmTensor *edges[p->n_grads + 1], *outs[p->n_joint_tangents + 1];

  h->plan = gm_plan_ref (p);
  h->spent = h->used = false;
  h->walked = NULL;
  h->seq = gm_autograd_reserve (p->graph ? gm_unfold_n_numbers (&p->unfold) : 0);
  for (int i = 0; i < p->n_held; i++)
    h->saved[i] =
        (GmSaved){ .t = gm_tensor_new_alias (p->saved[i].is_input ? in[p->saved[i].index]
                                                                  : out[p->saved[i].index]) };
  for (int i = 0; i < p->n_grads; i++)
    edges[i] = in[p->grad_of[i].i];
  for (int i = 0; i < p->n_joint_tangents; i++)
    outs[i] = (int) p->tangent_of[i].i < p->n_function ? out[p->tangent_of[i].i] : NULL;
  h->node =
      gm_autograd_attach_new (&compiled_function, h, edges, p->n_grads, outs, p->n_joint_tangents);
  place_looks (p, recorded, h->node, h->seq);
  for (int i = 0; i < p->n_early; i++)
    early_numbers (h)[i] = gm_autograd_view_number (single[p->early[i]]);
  if (p->graph) {
    gm_autograd_reach_back (h->node, p->reaches_back);
    gm_autograd_wait_inside (h->node, p->read_inside);
    gm_autograd_hook_inside (h->node, p->hooked);
    if (p->calls_program)
      gm_node_calls_program (h->node);
  }
  return h;
}

GmAgNode *
gm_history_node (GmHistory *h)
{
  return h->node;
}

uint64_t
gm_history_first (const GmHistory *h)
{
  return h->plan->graph
             ? gm_unfold_look_number (&h->plan->unfold, h->seq, h->plan->unfold.n_looks, 0)
             : 0;
}

void
gm_history_end (GmHistory *h, bool ok)
{
  GmAgNode *node = h->node; /* a checkpoint's region may steal the note, and drop h */
  if (ok) {
    for (int i = 0; i < h->plan->n_held; i++)
      if (!h->saved[i].is_packed)
        h->saved[i].version = gm_tensor_version (h->saved[i].t);
    gm_autograd_attached (node);
  }
  gm_node_unref (node);
}

bool
gm_history_pack (GmHistory *h, GError **error)
{
  if (G_LIKELY (gm_saved_hooks_top () == NULL) || h->plan->restore)
    return true;
  for (int i = 0; i < h->plan->n_held; i++)
    /* no hook sees a ticket */
    if (!h->saved[i].t->storage->companion && !gm_saved_pack (&h->saved[i], error))
      return false;
  return true;
}
