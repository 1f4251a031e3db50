/* SPDX-License-Identifier: Apache-2.0
 * node.c -- making, sharing and freeing the tape's nodes and the tensors' autograd records.
 *
 * Invariant: freeing is a loop.  A node whose last reference is dropped is put on this thread's
 * list of the dead; the first free works the list off, and what dies meanwhile (edges, saved
 * tensors and through them other nodes) joins the list. Both kinds of record come from a per-thread
 * free list, because a training step makes and frees thousands of them.
 */
#include "core/autograd/node.h"

#include <string.h>

enum { MAX_SPARE = 4096 };

typedef struct {
  GmAgNode *nodes, *dead;
  GmAutograd *records; /* the free list, linked through `node` */
  int n_nodes, n_records;
  bool freeing, registered;
} Pool;

static GM_THREAD Pool pool;

static void
pool_drain (void *data)
{
  for (GmAgNode *n = pool.nodes, *next; n; n = next) {
    next = n->next;
    g_free (n);
  }
  for (GmAutograd *a = pool.records, *next; a; a = next) {
    next = (GmAutograd *) a->node;
    g_free (a);
  }
  pool = (Pool){ .n_nodes = MAX_SPARE,
                 .n_records = MAX_SPARE }; /* later frees go straight to the system */
}

/* The key whose destructor, which GLib calls when a thread ends, frees that thread's free lists. */
static GPrivate pool_owner = G_PRIVATE_INIT (pool_drain);

static void
pool_register (void)
{
  pool.registered = true;
  g_private_set (&pool_owner, &pool);
}

/* -- Nodes ------------------------------------------------------------------------------------- */

static uint64_t next_seq = 1;

GmAgNode *
gm_node_new (GmNodeKind kind, int n_in)
{
  GmAgNode *n = pool.nodes;
  if (n) {
    pool.nodes = n->next;
    pool.n_nodes--;
  } else {
    if (!pool.registered)
      pool_register ();
    n = g_new (GmAgNode, 1);
  }
  memset (n, 0, offsetof (GmAgNode, own_edges));
  n->refs = 1;
  n->kind = (uint8_t) kind;
  n->n_in = (uint32_t) n_in;
  n->n_out = 1;
  n->seq = kind == GM_NODE_LEAF ? UINT64_MAX : __atomic_fetch_add (&next_seq, 1, __ATOMIC_RELAXED);
  n->edges = n_in <= GM_NODE_INLINE ? n->own_edges : g_new (GmEdge, n_in);
  return n;
}

uint64_t
gm_autograd_reserve (uint64_t n)
{
  return __atomic_fetch_add (&next_seq, n, __ATOMIC_RELAXED);
}

GmTensor *
gm_autograd_before (GmAgNode *n, int i, GmTensor *t)
{
  return gm_alias_with_edge (t, n->edges[i]);
}

GmAgNode *
gm_node_ref (GmAgNode *n)
{
  __atomic_fetch_add (&n->refs, 1, __ATOMIC_RELAXED);
  return n;
}

static void
drop_state (GmAgNode *n)
{
  if (n->state && n->fn->release)
    n->fn->release (n->state);
  g_clear_pointer (&n->region, gm_region_unref);
  n->released = true;
  n->state = NULL;
}

void
gm_node_release (GmAgNode *n)
{
  if (n->kind == GM_NODE_LEAF)
    return;
  if (n->kind == GM_NODE_FUNCTION) {
    GmAgLeft left =
        n->fn->spend && !n->region && !n->released ? n->fn->spend (n, n->state) : GM_AG_USED_UP;
    if (left == GM_AG_USED_UP)
      drop_state (n);
    n->released |= left == GM_AG_PARTS; /* the state stays, for gm_walk_part */
    return;
  }
  for (int i = 0; i < GM_NODE_INLINE; i++)
    if (n->saved_in[i].t) {
      gm_saved_clear (&n->saved_in[i]);
      n->released = true;
    }
  if (n->region) {
    g_clear_pointer (&n->region, gm_region_unref);
    n->released = true;
  }
  if (n->saved_out.t) {
    gm_saved_clear (&n->saved_out);
    n->released = true;
  }
}

static void
hooks_free (GArray *hooks)
{
  for (guint i = 0; hooks && i < hooks->len; i++) {
    GmAgHook *h = &g_array_index (hooks, GmAgHook, i);
    if (!h->lent)
      gm_hook_place (h->id, NULL);
    if (h->destroy)
      h->destroy (h->data);
  }
  if (hooks)
    g_array_unref (hooks);
}

void
gm_edge_leave_front (GmEdge *e)
{
  if (!e->node)
    return;
  e->node->front = NULL;
  gm_node_unref (e->node);
}

static void
node_free (GmAgNode *n)
{
  for (uint32_t i = 0; i < n->n_in; i++)
    gm_node_unref (n->edges[i].node);
  if (n->edges != n->own_edges)
    g_free (n->edges);
  if (n->kind == GM_NODE_LEAF) {
    GmTensor *leaf = n->saved_in[0].t;
    if (leaf->autograd && leaf->autograd->leaf == n)
      leaf->autograd->leaf = NULL;
    gm_tensor_unref (leaf);
  } else if (n->kind == GM_NODE_FUNCTION) {
    drop_state (n);
  } else {
    gm_node_release (n);
    g_free (n->extra);
  }
  hooks_free (n->hooks);
  gm_node_user_free (n->user);
  if (n->retained)
    g_array_unref (n->retained);
  for (uint32_t k = 0; n->apart && k < n->n_out; k++)
    gm_edge_leave_front (&n->apart[k]);
  g_free (n->apart);
  if (pool.n_nodes >= MAX_SPARE) {
    g_free (n);
    return;
  }
  n->next = pool.nodes;
  pool.nodes = n;
  pool.n_nodes++;
}

void
gm_node_unref (GmAgNode *n)
{
  if (!n
      || (__atomic_load_n (&n->refs, __ATOMIC_ACQUIRE) != 1
          && __atomic_sub_fetch (&n->refs, 1, __ATOMIC_ACQ_REL)))
    return; /* with the only reference, n is shared with no other thread */
  n->next = pool.dead;
  pool.dead = n;
  if (pool.freeing)
    return;
  pool.freeing = true;
  while ((n = pool.dead)) {
    pool.dead = n->next;
    node_free (n);
  }
  pool.freeing = false;
}

void
gm_edge_resolve (GmEdge *e)
{
  GmAgNode *n = e->node;
  if (!n || G_LIKELY (!n->apart) || !n->apart[e->nr].node)
    return;
  *e = n->apart[e->nr];
  gm_node_ref (e->node);
  gm_node_unref (n);
}

GmAgNode *
gm_function_node (const GmAgFunction *fn, void *state, int n_in, int n_out)
{
  GmAgNode *n = gm_node_new (GM_NODE_FUNCTION, n_in);
  n->fn = fn;
  n->state = state;
  n->n_out = (uint32_t) n_out;
  return n;
}

/* -- Tensors' records -------------------------------------------------------------------------- */

static void
ag_free (GmAutograd *ag)
{
  if (ag->retain && ag->node && ag->node->retained)
    for (guint i = ag->node->retained->len; i-- > 0;)
      if (g_array_index (ag->node->retained, GmRetained, i).ag == ag)
        g_array_remove_index (ag->node->retained, i);
  GmAgNode *node = ag->node;
  GmTensor *grad = ag->grad;
  hooks_free (ag->hooks);
  gm_post_hooks_free (ag->post_hooks);
  g_clear_pointer (&ag->left, g_array_unref);
  if (pool.n_records >= MAX_SPARE) {
    g_free (ag);
  } else {
    ag->node = (GmAgNode *) pool.records;
    pool.records = ag;
    pool.n_records++;
  }
  gm_node_let_go (node);
  gm_node_unref (node);
  gm_tensor_unref (grad);
}

__attribute__ ((constructor)) static void
ag_register (void)
{
  gm_tensor_autograd_free = ag_free;
}

GmAutograd *
gm_ag_get (GmTensor *t)
{
  if (t->autograd)
    return t->autograd;
  GmAutograd *ag = pool.records;
  if (ag) {
    pool.records = (GmAutograd *) ag->node;
    pool.n_records--;
    memset (ag, 0, sizeof *ag);
  } else {
    if (!pool.registered)
      pool_register ();
    ag = g_new0 (GmAutograd, 1);
  }
  return t->autograd = ag;
}

GmEdge
gm_edge_to (GmTensor *t)
{
  if (!gm_tracked (t))
    return (GmEdge){ NULL, 0 };
  GmAutograd *ag = gm_ag_get (t);
  if (ag->node)
    return (GmEdge){ gm_node_ref (ag->node), ag->nr };
  if (ag->leaf)
    return (GmEdge){ gm_node_ref (ag->leaf), 0 };
  GmAgNode *leaf = gm_node_new (GM_NODE_LEAF, 0);
  leaf->saved_in[0].t = gm_tensor_ref (t);
  ag->leaf = leaf;
  return (GmEdge){ leaf, 0 };
}

void
gm_history_set (GmTensor *t, GmAgNode *n, uint32_t nr)
{
  GmAutograd *ag = gm_ag_get (t);
  GmAgNode *old = ag->node;
  if (ag->retain) { /* retain_grad () belongs to the tensor, not to the old node */
    if (old && old->retained)
      for (guint i = old->retained->len; i-- > 0;)
        if (g_array_index (old->retained, GmRetained, i).ag == ag)
          g_array_remove_index (old->retained, i);
    if (n) {
      if (!n->retained)
        n->retained = g_array_new (FALSE, FALSE, sizeof (GmRetained));
      g_array_append_val (n->retained, ((GmRetained){ nr, ag }));
    }
  }
  gm_node_hold (n);
  gm_node_let_go (old);
  ag->node = n;
  ag->nr = nr;
  GmTensor *base = gm_tensor_view_base (t);
  if (base && base->autograd)
    ag->epoch = base->autograd->epoch;
  if (t->meta.requires_grad != (n != NULL))
    gm_tensor_meta_changed (t);
  t->meta.requires_grad = n != NULL;
  gm_node_unref (old);
}

void
gm_history_was_rewritten (GmTensor *t)
{
  gm_tensor_leave_base (t);
  t->autograd->epoch += !t->base;
}

GmTensor *
gm_alias_with_edge (GmTensor *t, GmEdge edge)
{
  GmTensor *alias = gm_tensor_new_alias (t);
  alias->meta.requires_grad = 0;
  if (edge.node && edge.node->kind == GM_NODE_LEAF)
    /* A leaf stays itself: an alias of it would accumulate elsewhere. */
    gm_node_hold (edge.node), gm_ag_get (alias)->node = gm_node_ref (edge.node),
                                        alias->meta.requires_grad = 1;
  else if (edge.node)
    gm_history_set (alias, gm_node_ref (edge.node), edge.nr);
  return alias;
}

bool
gm_hooks_run (const GArray *hooks, uint32_t nr, GmTensor **g, GError **error)
{
  if (!hooks || !*g)
    return true;
  /* A hook may add or remove hooks: only those run that stood there at the start and still do. */
  g_autofree GmAgHook *now = g_memdup2 (hooks->data, hooks->len * sizeof (GmAgHook));
  for (guint i = 0, n = hooks->len; i < n; i++) {
    bool off = true; /* an earlier hook may have removed this hook, and freed its data */
    for (guint k = 0; k < hooks->len && off; k++)
      off = g_array_index (hooks, GmAgHook, k).id != now[i].id;
    off |= now[i].lent && !gm_hook_is_on (now[i].id);
    if (off || now[i].nr != nr)
      continue;
    GError *failure = NULL;
    GmTensor *replaced = now[i].fn (now[i].data, *g, &failure);
    if (failure) {
      g_propagate_error (error, failure);
      gm_tensor_unref (replaced);
      return false;
    }
    if (!replaced)
      continue;
    if (!gm_meta_same_shape (&replaced->meta, &(*g)->meta)
        || replaced->meta.dtype != (*g)->meta.dtype) {
      g_autofree char *got = gm_meta_text (&replaced->meta), *want = gm_meta_text (&(*g)->meta);
      g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME,
                   "a hook on a gradient returned %s where the gradient is %s; return the same "
                   "shape and dtype, or None",
                   got, want);
      gm_tensor_unref (replaced);
      return false;
    }
    gm_tensor_unref (*g);
    *g = replaced;
  }
  return true;
}
