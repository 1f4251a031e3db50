/* SPDX-License-Identifier: Apache-2.0
 * node_hooks.c -- nodes of the tape as users see them: where they lead, and hooks on them.
 *
 * A hook before a node gets the gradients of its outputs, once they are complete and the hooks on
 * the tensors have run, and may replace them; a hook after it gets the gradients that the node
 * sends along its edges, and may replace them.  A gradient of a node that the program asked for is
 * the value before the node's own hooks.  Hooks run in the order of registration, and belong to the
 * node: they are freed with it.
 */
#include "core/autograd/node.h"

/* Returns the edge that users are shown for e: to the function's node in place of a node that it
 * was unfolded to, if a user holds the function's node. */
static GmEdge
shown (GmEdge e)
{
  GmAgNode *f = e.node ? e.node->front : NULL;

  for (uint32_t k = 0; f && f->user && f->user->object && k < f->n_out; k++)
    if (f->apart[k].node == e.node && f->apart[k].nr == e.nr)
      return (GmEdge){ f, k };
  return e;
}

GmAgNode *
gm_tensor_node (GmTensor *t, uint32_t *nr)
{
  GmEdge e = gm_tracked (t) ? gm_edge_to (t) : (GmEdge){ NULL, 0 }, show = shown (e);

  if (show.node != e.node) {
    gm_node_ref (show.node);
    gm_node_unref (e.node);
  }
  *nr = show.nr;
  return show.node;
}

const char *
gm_node_text (const GmAgNode *n)
{
  return gm_node_name (n);
}

/* True unless input i never gets a gradient, such as an index or a mask: users do not see such
 * inputs. */
static bool
is_seen (const GmAgNode *n, uint32_t i)
{
  return n->kind != GM_NODE_OP || gm_op_is_differentiable ((GmOp) n->op, (int) i);
}

uint32_t
gm_node_n_edges (const GmAgNode *n)
{
  uint32_t seen = 0;

  for (uint32_t i = 0; i < n->n_in; i++)
    seen += is_seen (n, i);
  return seen;
}

GmAgNode *
gm_node_edge (GmAgNode *n, uint32_t at, uint32_t *nr)
{
  uint32_t i = 0;

  for (; i < n->n_in; i++)
    if (is_seen (n, i) && at-- == 0)
      break;
  gm_edge_resolve (&n->edges[i]);
  GmEdge e = shown (n->edges[i]);

  *nr = e.node ? e.nr : 0;
  return e.node;
}

bool
gm_node_is_apart (const GmAgNode *n)
{
  return n->apart != NULL;
}

bool
gm_node_is_used_up (const GmAgNode *n)
{
  return n->released;
}

void
gm_node_calls_program (GmAgNode *n)
{
  n->has_beside = true;
}

void
gm_node_leave_parts (GmAgNode *n)
{
  n->released = true;
}

uint32_t
gm_node_n_outputs (const GmAgNode *n)
{
  return n->n_out;
}

GmTensor *
gm_node_leaf (const GmAgNode *n)
{
  return n->kind == GM_NODE_LEAF ? n->saved_in[0].t : NULL;
}

static void
keep_nothing (void *owner, void *data, size_t bytes)
{
  (void) owner, (void) data, (void) bytes;
}

GmTensor *
gm_node_stand_in (GmAgNode *n, uint32_t nr, const GmMeta *meta)
{
  GmMeta m = meta ? *meta : gm_meta_make (GM_F32, 0, NULL);

  if (n->kind == GM_NODE_LEAF)
    return gm_tensor_ref (n->saved_in[0].t);
  m.requires_grad = 0;
  GmTensor *t = gm_tensor_new_foreign (&m, NULL, 0, false, keep_nothing, NULL);
  gm_history_set (t, gm_node_ref (n), nr);
  return t;
}

/* -- Users' data of a node --------------------------------------------------------------------- */

GmNodeUser *
gm_node_user (GmAgNode *n)
{
  if (!n->user)
    n->user = g_new0 (GmNodeUser, 1);
  return n->user;
}

static void
free_hooks (GArray *hooks)
{
  for (guint i = 0; hooks && i < hooks->len; i++) {
    GmNodeHookRow *h = &g_array_index (hooks, GmNodeHookRow, i);
    if (h->destroy)
      h->destroy (h->data);
  }
  if (hooks)
    g_array_unref (hooks);
}

void
gm_node_user_free (GmNodeUser *u)
{
  if (!u)
    return;
  free_hooks (u->pre);
  free_hooks (u->post);
  if (u->metadata)
    u->drop_metadata (u->metadata);
  g_free (u->where);
  g_free (u);
}

uint64_t
gm_node_add_hook (GmAgNode *n, bool before, GmNodeHook hook, void *data,
                  void (*destroy) (void *data))
{
  static uint64_t next_id = 1;
  GmNodeUser *u = gm_node_user (n);
  GArray **list = before ? &u->pre : &u->post;
  GmNodeHookRow h = { __atomic_fetch_add (&next_id, 1, __ATOMIC_RELAXED), hook, data, destroy };

  if (!*list)
    *list = g_array_new (FALSE, FALSE, sizeof h);
  g_array_append_val (*list, h);
  return h.id;
}

static int
place_of (const GArray *list, uint64_t id)
{
  for (guint i = 0; list && i < list->len; i++)
    if (g_array_index (list, GmNodeHookRow, i).id == id)
      return (int) i;
  return -1;
}

bool
gm_node_remove_hook (GmAgNode *n, bool before, uint64_t id)
{
  GArray *list = !n->user ? NULL : before ? n->user->pre : n->user->post;
  int at = place_of (list, id);

  if (at < 0)
    return false;
  GmNodeHookRow h = g_array_index (list, GmNodeHookRow, at);
  g_array_remove_index (list, (guint) at);
  if (h.destroy)
    h.destroy (h.data);
  return true;
}

bool
gm_node_is_hooked (const GmAgNode *n)
{
  return n->user && ((n->user->pre && n->user->pre->len) || (n->user->post && n->user->post->len));
}

/* -- Running ----------------------------------------------------------------------------------- */

/* Runs the hooks that were in the list at the start, except those that were removed meanwhile. */
static bool
run (GArray *list, GmTensor **changed, uint32_t n, GmTensor *const *others, uint32_t n_others,
     GError **error)
{
  guint n_hooks = list ? list->len : 0;
  g_autofree GmNodeHookRow *now = n_hooks ? g_memdup2 (list->data, n_hooks * sizeof *now) : NULL;

  for (guint i = 0; i < n_hooks; i++)
    if (place_of (list, now[i].id) >= 0
        && !now[i].fn (now[i].data, changed, n, others, n_others, error))
      return false;
  return true;
}

bool
gm_node_run_before (GmAgNode *n, GmTensor **grads, GError **error)
{
  return !n->user || run (n->user->pre, grads, n->n_out, NULL, 0, error);
}

bool
gm_node_run_after (GmAgNode *n, GmTensor **results, GmTensor *const *grads, GError **error)
{
  if (!n->user || !n->user->post || !n->user->post->len)
    return true;
  if (n->kind == GM_NODE_LEAF)
    return run (n->user->post, results, 0, grads, n->n_out, error);
  g_autofree GmTensor **seen = g_new (GmTensor *, n->n_in + 1);
  uint32_t n_seen = 0;
  for (uint32_t i = 0; i < n->n_in; i++)
    if (is_seen (n, i))
      seen[n_seen++] = results[i];
  bool ok = run (n->user->post, seen, n_seen, grads, n->n_out, error);
  n_seen = 0;
  for (uint32_t i = 0; i < n->n_in; i++)
    if (is_seen (n, i))
      results[i] = seen[n_seen++];
  return ok;
}
