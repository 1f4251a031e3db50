/* SPDX-License-Identifier: Apache-2.0
 * one_node.c -- a backward through one function whose edges lead to leaves: a compiled model's.
 *
 * There is nothing to sort, to sum or to wait for, so no slots are made but the slot that the
 * function's backward asks about.  Visible effects are as in the engine: results are added up in
 * the order of delivery, after the function has freed what it saved.
 */
#include <string.h>

#include "core/autograd/backward_stretch.h"
#include "core/autograd/walk.h"

enum { FEW = 16 };

/* Sets the slot of each leaf that an edge of n leads to, to `mark`; *n_marked: number of edges
 * done.  False if an edge leads to no leaf, or to a leaf that has hooks or was marked before. */
static bool
mark_leaves (const GmAgNode *n, GmSlot *mark, uint32_t *n_marked)
{
  for (*n_marked = 0; *n_marked < n->n_in; ++*n_marked) {
    GmAgNode *to = n->edges[*n_marked].node;
    if (!to)
      continue;
    const GmAutograd *ag = to->kind == GM_NODE_LEAF ? to->saved_in[0].t->autograd : NULL;
    if (!ag || ag->hooks || to->hooks || to->retained || to->user || to->slot)
      return false;
    to->slot = mark;
  }
  return true;
}

static bool
has_leaves_of_its_own (const GmAgNode *n)
{
  GmSlot mark;
  uint32_t n_marked;
  bool own = mark_leaves (n, &mark, &n_marked);

  for (uint32_t i = 0; i < n_marked; i++)
    if (n->edges[i].node)
      n->edges[i].node->slot = NULL;
  return own;
}

bool
gm_walk_is_one_node (const GmAgNode *n)
{
  bool plain = n->kind == GM_NODE_FUNCTION && n->state && !n->hooks && !n->retained && !n->user
               && !n->slot && !n->region && !n->released && !gm_stretch_runner_now
               && !gm_anomaly_on;

  return plain && n->n_in <= FEW && n->n_out <= FEW && has_leaves_of_its_own (n);
}

/* Adds the results to the grad of their leaves, in the order of delivery; steals the references in
 * `result`. */
static bool
give_to_leaves (GmWalk *w, const GmAgNode *n, const uint32_t *order, GmTensor **result,
                GError **error)
{
  bool ok = true;

  for (uint32_t k = 0; k < n->n_in; k++) {
    uint32_t i = order ? order[k] : k;
    if (!result[i])
      continue;
    if (ok && n->edges[i].node)
      ok = gm_walk_run_leaf (w, n->edges[i].node->saved_in[0].t, &result[i], error);
    gm_tensor_unref (result[i]);
  }
  return ok;
}

bool
gm_walk_run_one_node (GmWalk *w, GmAgNode *n, uint32_t nr, GmTensor *grad, GError **error)
{
  GmTensor *grads[FEW], *result[FEW];
  GmSlot slot = { .walk = w, .node = n, .needed = true };
  uint32_t turns[FEW];
  bool mode = gm_grad_set_enabled (false);

  memset (grads, 0, sizeof *grads * n->n_out);
  memset (result, 0, sizeof *result * n->n_in);
  grads[nr] = grad;
  slot.many = grads; /* for functions that ask what has arrived */
  n->slot = &slot;
  gm_walk_enter (w);
  const uint32_t *order = gm_walk_order_of (n, true);
  if (order) /* the order belongs to n's state */
    order = memcpy (turns, order, sizeof *turns * n->n_in);
  GError *failed = NULL, *before = NULL;
  bool ok = n->fn->backward (n, n->state, grads, result, false, &failed);
  n->slot = NULL;
  gm_tensor_unref (grads[nr]);
  if (ok && !w->retain)
    gm_node_release (n);
  ok = give_to_leaves (w, n, order, result, &before) && ok;
  if (before) /* a leaf's hook failed, which would have run before the operation that failed */
    g_clear_error (&failed);
  if (!ok)
    g_propagate_error (error, before ? before : failed);
  gm_grad_set_enabled (mode);
  return gm_walk_leave (w, ok, error);
}
