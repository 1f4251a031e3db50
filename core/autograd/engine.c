/* SPDX-License-Identifier: Apache-2.0
 * engine.c -- walks the tape backwards.
 *
 * First a pass over the reachable nodes counts, per node, the edges that will bring a gradient.  A
 * node is ready when all have arrived (or turned out empty); among the ready nodes the highest
 * sequence number runs next, and leaves before all. Gradients for one node are added in order of
 * arrival: first + second, then + third. The walk's data on a node is a slot of its own, reached
 * through node->slot; a walk inside a walk (a hook that calls backward) puts its slots on top and
 * takes them off again.  Both passes use a stack on the heap: depth is not limited.
 */
#include "core/autograd/backward_stretch.h"
#include "core/tensor/device.h"
#include "core/autograd/walk.h"
#include "core/tensor/alloc.h"

#include <string.h>

typedef GmSlot Slot;
typedef GmWalk Walk;
typedef GmCapture Capture;

enum { FEW = GM_WALK_FEW };

/* -- Slots ------------------------------------------------------------------------------------- */

Slot *
gm_walk_slot (const Walk *w, GmAgNode *n)
{
  return n->slot && n->slot->walk == w ? n->slot : NULL;
}

Slot *
gm_walk_slot_add (Walk *w, GmAgNode *n)
{
  Slot *s = gm_block_take (sizeof *s);
  memset (s, 0, sizeof *s);
  s->walk = w;
  s->node = n;
  s->seq = n->seq;
  s->outer = n->slot;
  s->needed = w->accumulate && !w->only;
  if (n->n_out > 1)
    s->many = g_new0 (GmTensor *, n->n_out);
  n->slot = s;
  s->before = w->last;
  w->last = s;
  return s;
}

void
gm_walk_clear (Slot *s)
{
  if (!s->many && !s->one)
    return;
  for (uint32_t i = 0; i < s->node->n_out; i++) {
    GmTensor **g = gm_walk_gradient (s, i);
    gm_tensor_unref (*g);
    *g = NULL;
  }
}

/* -- The heap ---------------------------------------------------------------------------------- */

static bool
runs_before (const Slot *a, const Slot *b)
{
  return a->seq != b->seq ? a->seq > b->seq : a->arrived < b->arrived;
}

void
gm_walk_push (Walk *w, Slot *s)
{
  s->arrived = w->n_arrived++;
  if (w->n_heap == w->heap_room) {
    w->heap_room *= 2;
    Slot **old = w->heap;
    w->heap = g_renew (Slot *, old == w->few ? NULL : old, w->heap_room);
    if (old == w->few)
      memcpy (w->heap, w->few, sizeof w->few);
  }
  Slot **h = w->heap;
  uint32_t i = w->n_heap++;
  for (; i && runs_before (s, h[(i - 1) / 2]); i = (i - 1) / 2)
    h[i] = h[(i - 1) / 2];
  h[i] = s;
}

Slot *
gm_walk_pop (Walk *w)
{
  Slot **h = w->heap;
  uint32_t n = --w->n_heap, i = 0;
  Slot *top = h[0], *last = h[n];
  for (uint32_t c; (c = 2 * i + 1) < n; i = c) {
    if (c + 1 < n && runs_before (h[c + 1], h[c]))
      c++;
    if (!runs_before (h[c], last))
      break;
    h[i] = h[c];
  }
  if (n)
    h[i] = last;
  return top;
}

/* -- First pass: counting the edges ------------------------------------------------------------ */

/* Visits all nodes behind `root`, depth first; slots remember the way back.  A node is marked as
 * needed if an edge of it leads to a needed or captured node. */
static void
visit (Walk *w, GmAgNode *root)
{
  Slot *s = gm_walk_slot (w, root);
  if (s && s->visited)
    return;
  s = s ? s : gm_walk_slot_add (w, root);
  s->visited = true;
  while (s) {
    if (s->edge == s->node->n_in) {
      if (G_UNLIKELY (s->node->kind == GM_NODE_FUNCTION && s->node->n_out > 1))
        gm_walk_find_leads (w, s);
      if (s->reader)
        s->reader->needed |= gm_walk_leads_on (s, s->reader->node->edges[s->reader->edge - 1].nr);
      s = s->reader;
      continue;
    }
    GmEdge *edge = &s->node->edges[s->edge++];
    if (!s->outer) { /* else the walk around this one relies on the edge */
      if (G_UNLIKELY (gm_walk_may_part (edge->node)))
        gm_walk_part (edge->node, gm_walk_asks (w));
      gm_edge_resolve (edge);
    }
    GmAgNode *next = edge->node;
    if (!next)
      continue;
    Slot *to = gm_walk_slot (w, next);
    to = to ? to : gm_walk_slot_add (w, next);
    gm_walk_expect (w, to, edge->nr);
    if (to->visited) {
      s->needed |= gm_walk_leads_on (to, edge->nr);
      continue;
    }
    to->visited = true;
    to->reader = s;
    s = to;
  }
}

/* Moves the gradient that has arrived at output nr of s in the walk around this one to s: the sum
 * begins with it. */
static void
take_arrived (Walk *w, Slot *s, uint32_t nr)
{
  s->visited = true;
  if (!s->outer)
    return;
  GmTensor **from = gm_walk_gradient (s->outer, nr), **to = gm_walk_gradient (s, nr);
  if (!*to)
    *to = g_steal_pointer (from);
}

/* Marks the captured nodes, before the first pass, which finds the marks. */
static void
mark_captured (Walk *w)
{
  for (int i = 0; i < w->n_captures; i++) {
    GmAgNode *n = w->captures[i].node;
    const GmEdge *at = n->apart && !w->through ? &n->apart[w->captures[i].nr] : NULL;
    if (at && at->node) { /* unfolded for another root meanwhile; n, which is pinned, keeps the
                           * node alive */
      n = w->captures[i].node = at->node;
      w->captures[i].nr = at->nr;
    }
    Slot *s = gm_walk_slot (w, n);
    if (!s)
      s = gm_walk_slot_add (w, n);
    s->captured = true;
    if (w->through && w->captures[i].input < w->n_edges)
      take_arrived (w, s, w->captures[i].nr);
  }
}

/* -- Delivering -------------------------------------------------------------------------------- */

static bool
is_only_owner (const GmTensor *t)
{
  return __atomic_load_n (&t->refs, __ATOMIC_RELAXED) == 1
         && __atomic_load_n (&t->storage->refs, __ATOMIC_RELAXED) == 1 && !t->autograd
         && !t->wrapper && !t->storage->release;
}

/* Returns the memory of *g as a tensor of its own, and steals *g, if *g is a view of all of a
 * result to which there are no other references; else NULL. */
static GmTensor *
own_memory (GmTensor **g)
{
  GmTensor *t = *g, *base = t->base;
  if (!base || t->autograd || t->wrapper || base->autograd || base->wrapper || t->storage->release)
    return NULL;
  if (__atomic_load_n (&t->refs, __ATOMIC_RELAXED) != 1
      || __atomic_load_n (&base->refs, __ATOMIC_RELAXED) != 1
      || __atomic_load_n (&t->storage->refs, __ATOMIC_RELAXED) != 2
      || gm_meta_numel (&t->meta) != gm_meta_numel (&base->meta))
    return NULL;
  GmTensor *alone = gm_tensor_new_alias (t);
  gm_tensor_unref (t);
  *g = NULL;
  return alone;
}

/* Adds g to *sum, in place if nothing else refers to *sum, and steals g; a *sum of NULL becomes g.
 * *sum is owned by the caller.  False with *error set on failure. */
static bool
add_gradient (Walk *w, GmTensor **sum, GmTensor *g, GError **error)
{
  if (!*sum) {
    *sum = g;
    return true;
  }
  GmTensor *in[2] = { *sum, g };
  if (!w->create && is_only_owner (*sum) && gm_meta_same_shape (&g->meta, &in[0]->meta)
      && gm_meta_is_dense (&in[0]->meta)) {
    bool ok = gm_op_run_into (GM_OP_add, in, 2, NULL, *sum, error);
    gm_tensor_unref (g);
    return ok;
  }
  *sum = gm_autograd_op (GM_OP_add, in, 2, NULL, error);
  gm_tensor_unref (in[0]);
  gm_tensor_unref (g);
  return *sum != NULL;
}

/* Adds the gradient g (NULL: none flows) to the sum at e, and makes its node ready if it waits for
 * no other edge.  Steals g. */
static bool
deliver (Walk *w, GmEdge e, GmTensor *g, GError **error)
{
  Slot *s = e.node ? gm_walk_slot (w, e.node) : NULL;
  if (!s) {
    gm_tensor_unref (g);
    return true;
  }
  bool wanted = s->needed || s->captured;
  if (!wanted || !gm_walk_leads_on (s, e.nr))
    gm_tensor_unref (g);
  else if (g && !add_gradient (w, gm_walk_gradient (s, e.nr), g, error))
    return false;
  if (G_UNLIKELY (s->expected != NULL) && wanted)
    gm_walk_delivered (w, s, e.nr);
  if (--s->waiting == 0 && wanted)
    gm_walk_push (w, s);
  return true;
}

/* -- Running one node -------------------------------------------------------------------------- */

static bool
fail_freed (const GmAgNode *n, GError **error)
{
  g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME,
               "backward went through %s a second time, but what it had saved was freed by the "
               "first; pass retain_graph=True "
               "to the first backward if you need two",
               gm_node_name (n));
  return false;
}

static bool
check_version (const GmAgNode *n, const GmSaved *s, int input, GError **error)
{
  if (!s->t || s->is_packed || G_LIKELY (*gm_tensor_writes (s->t) == s->version))
    return true;
  g_autofree char *who = g_strdup_printf ("the gradient of %s", gm_ops[n->op].name),
                  *which =
                      input < 0 ? g_strdup ("its result") : g_strdup_printf ("input %d", input);
  gm_fail_changed (who, which, s->t, s->version, error);
  return false;
}

/* Returns t as a value that the builder owns until the gradient is computed.  Steals t. */
static GmVal
keep_for (GmEagerBuilder *b, GmTensor *t)
{
  GmVal v = b->base.vt->constant (&b->base, t);
  gm_tensor_unref (t);
  return v;
}

static bool
has_history (const GmTensor *t, GmEdge edge)
{
  GmAgNode *now = t->autograd ? (t->autograd->node ? t->autograd->node : t->autograd->leaf) : NULL;

  return now == edge.node && (!now || now->kind == GM_NODE_LEAF || t->autograd->nr == edge.nr)
         && t->meta.requires_grad == (edge.node != NULL);
}

GmTensor *
gm_walk_with_history (GmTensor *t, GmEdge edge)
{
  if (has_history (t, edge))
    return t;
  GmTensor *alias = gm_alias_with_edge (t, edge);
  gm_tensor_unref (t);
  return alias;
}

/* Returns a saved tensor as a value of b, with the history `edge` that it had when it was saved if
 * `create`, whatever happened to the tensor since.  NULL: nothing is saved, or *error is set. */
static GmVal
unpack (GmEagerBuilder *b, const GmSaved *s, GmEdge edge, bool create, GError **error)
{
  if (!s->t)
    return NULL;
  GmTensor *t = s->t;
  if (G_UNLIKELY (s->is_packed)) {
    t = gm_saved_get (s, error);
    if (!t)
      return NULL;
    keep_for (b, t);
    if (create)
      return keep_for (b, gm_alias_with_edge (t, edge));
  }
  if (!create || has_history (t, edge))
    return gm_val_from_tensor (t);
  return keep_for (b, gm_alias_with_edge (t, edge));
}

/* Returns a new reference to g, on the device of `input`: a number on the CPU that was used with
 * tensors of another device gets its gradient on the CPU. */
static GmTensor *
arrive_at (const GmMeta *input, GmTensor *g, GError **error)
{
  return G_LIKELY (g->meta.device == input->device)
             ? gm_tensor_ref (g)
             : gm_autograd_to_device (g, input->device, error);
}

static bool
run_op (Walk *w, GmAgNode *n, GmTensor *grad, GmTensor **result, GError **error)
{
  int n_in = (int) n->n_in;
  bool small = n_in <= GM_NODE_INLINE;
  GmVal in_small[GM_NODE_INLINE], out_small[GM_NODE_INLINE];
  const GmMeta *meta_small[GM_NODE_INLINE];
  bool need_small[GM_NODE_INLINE];
  GmVal *in = small ? in_small : g_new (GmVal, n_in),
        *out = small ? out_small : g_new (GmVal, n_in);
  const GmMeta **metas = small ? meta_small : g_new (const GmMeta *, n_in);
  bool *need = small ? need_small : g_new (bool, n_in);
  bool ok = !n->released || fail_freed (n, error);
  ok = ok && (G_LIKELY (!n->region) || gm_region_give (n, error));
  GmEagerBuilder b;
  gm_eager_builder_init (&b);
  for (int i = 0; i < n_in && ok; i++) {
    in[i] = NULL;
    if (i < GM_NODE_INLINE && n->saved_in[i].t) {
      ok = check_version (n, &n->saved_in[i], i, error);
      in[i] = ok ? unpack (&b, &n->saved_in[i], n->edges[i], w->create, error) : NULL;
      ok = in[i] != NULL;
    }
    metas[i] = n->extra ? &n->extra->in[i] : &grad->meta;
    Slot *s = n->edges[i].node ? gm_walk_slot (w, n->edges[i].node) : NULL;
    need[i] = s && gm_walk_leads_on (s, n->edges[i].nr);
    out[i] = NULL;
  }
  GmVal saved_out = NULL;
  if (ok && n->saved_out.t) {
    ok = check_version (n, &n->saved_out, -1, error);
    saved_out = ok ? unpack (&b, &n->saved_out, (GmEdge){ n, 0 }, w->create, error) : NULL;
    ok = saved_out != NULL;
  }
  if (ok) {
    GmGradient x = { .b = &b.base,
                     .op = (GmOp) n->op,
                     .n_in = n_in,
                     .in = in,
                     .in_meta = metas,
                     .out_meta = &grad->meta,
                     .out = saved_out,
                     .attrs = n->extra ? &n->extra->attrs : NULL,
                     .grad = gm_val_from_tensor (grad),
                     .need = need,
                     .result = out };
    gm_op_gradient (&x);
    if (b.base.error) {
      g_propagate_prefixed_error (error, g_steal_pointer (&b.base.error), "%s: ", gm_node_name (n));
      ok = false;
    }
    for (int i = 0; i < n_in; i++)
      result[i] = ok && out[i] ? arrive_at (metas[i], gm_tensor_from_val (out[i]), error) : NULL;
    for (int i = 0; i < n_in && ok; i++)
      ok = !out[i] || result[i];
  }
  gm_eager_builder_clear (&b);
  if (!small) {
    g_free (in);
    g_free (out);
    g_free (metas);
    g_free (need);
  }
  return ok;
}

/* Returns a copy of g, a leaf's gradient, in the layout of the leaf, so that an optimiser's loop
 * over both is contiguous.  NULL: *error. */
static GmTensor *
copy_as (GmTensor *g, const GmMeta *like, GError **error)
{
  GmMeta m = *like;
  m.dtype = g->meta.dtype;
  if (!gm_meta_is_dense (&m))
    gm_meta_set_contiguous (&m);
  GmTensor *t = gm_tensor_new (&m, error);
  if (t && !gm_op_run_into (GM_OP_copy, &g, 1, NULL, t, error))
    g_clear_pointer (&t, gm_tensor_unref);
  return t;
}

static bool
same_layout (const GmMeta *a, const GmMeta *b)
{
  return memcmp (a->strides, b->strides, sizeof *a->strides * a->ndim) == 0 && gm_meta_is_dense (a);
}

/* Casts *g, an arriving gradient, to the dtype of the leaf's present grad, as any write in place
 * would: if the leaf's dtype was changed through .data, its grad keeps the old dtype. */
static bool
cast_to (GmTensor **g, uint8_t dtype, GError **error)
{
  GmAttrs at = { .mask = 1u << GM_ATTR_DTYPE, .dtype = dtype };
  GmTensor *t = gm_autograd_op (GM_OP_cast, g, 1, &at, error);
  if (!t)
    return false;
  gm_tensor_unref (*g);
  *g = t;
  return true;
}

/* Makes *g the leaf's grad, or adds *g to it.  Steals *g (which becomes NULL) if it becomes the
 * grad and has no other references. */
static bool
accumulate (Walk *w, GmTensor *leaf, GmTensor **g, GError **error)
{
  GmAutograd *ag = gm_ag_get (leaf);
  if (!leaf->meta.requires_grad)
    return true;
  if (!gm_meta_same_shape (&(*g)->meta, &leaf->meta)) {
    g_autofree char *have = gm_meta_text (&(*g)->meta), *want = gm_meta_text (&leaf->meta);
    g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME,
                 "a gradient of shape %s arrived at a leaf of shape %s", have, want);
    return false;
  }
  if (G_UNLIKELY (ag->grad && ag->grad->meta.dtype != (*g)->meta.dtype)
      && !cast_to (g, ag->grad->meta.dtype, error))
    return false;
  if (ag->grad && !w->create) {
    GmTensor *in[2] = { ag->grad, *g };
    return gm_autograd_into (ag->grad, GM_OP_add, in, 2, NULL, error);
  }
  GmTensor *now;
  if (ag->grad)
    now = gm_autograd_op (GM_OP_add, (GmTensor *const[]){ ag->grad, *g }, 2, NULL, error);
  else if (w->create)
    now = gm_autograd_op (GM_OP_copy, g, 1, NULL, error);
  else if (is_only_owner (*g) && same_layout (&(*g)->meta, &leaf->meta))
    now = g_steal_pointer (g);
  else if (!same_layout (&(*g)->meta, &leaf->meta) || !(now = own_memory (g)))
    now = copy_as (*g, &leaf->meta, error);
  if (!now)
    return false;
  gm_tensor_unref (ag->grad);
  ag->grad = now;
  return true;
}

/* Adds g, which may be NULL, to the grad of the tensors that retain the gradient of n's output
 * nr. */
bool
gm_walk_keep_retained (const GmAgNode *n, uint32_t nr, GmTensor *g, GError **error)
{
  for (guint i = 0; n->retained && g && i < n->retained->len; i++) {
    GmRetained *r = &g_array_index (n->retained, GmRetained, i);
    if (r->nr != nr)
      continue;
    GmTensor *old = r->ag->grad;
    GmTensor *both = old ? gm_autograd_op (GM_OP_add, (GmTensor *const[]){ old, g }, 2, NULL, error)
                         : gm_tensor_ref (g);
    if (!both)
      return false;
    r->ag->grad = both;
    gm_tensor_unref (old);
  }
  return true;
}

bool
gm_autograd_is_last (const GmAgNode *n)
{
  const Slot *s = n->slot;
  return s && !s->outer && !s->captured && !s->walk->retain && !s->walk->create && !n->region
         && !n->retained && !(n->user && gm_node_is_hooked (n));
}

/* Serves all that waits for the gradients at s before its node runs: hooks, retain_grad () and
 * captures. */
bool
gm_walk_arrive (Walk *w, Slot *s, GError **error)
{
  GmAgNode *n = s->node;
  if (gm_walk_waits_inside (w, s))
    return true;
  GArray *hooks = n->kind == GM_NODE_LEAF && n->saved_in[0].t->autograd
                      ? n->saved_in[0].t->autograd->hooks
                      : n->hooks;
  const uint32_t *order = hooks || n->retained ? gm_walk_order_of (n, false) : NULL;
  for (uint32_t k = 0; k < n->n_out; k++) {
    uint32_t nr = order ? order[k] : k;
    GmTensor **g = gm_walk_gradient (s, nr);
    if (!(w->through && s->outer) && !s->greeted && !gm_hooks_run (hooks, nr, g, error))
      return false;
    if (w->accumulate && !gm_walk_keep_retained (n, nr, *g, error))
      return false;
  }
  for (int i = 0; s->captured && i < w->n_captures; i++)
    if (w->captures[i].node == n) {
      GmTensor *g = *gm_walk_gradient (s, w->captures[i].nr);
      w->result[w->captures[i].input] = g ? gm_tensor_ref (g) : NULL;
    }
  return true;
}

bool
gm_walk_run_leaf (Walk *w, GmTensor *leaf, GmTensor **g, GError **error)
{
  return accumulate (w, leaf, g, error) && gm_post_hooks_run (leaf, error);
}

static bool
run_leaf (Walk *w, GmAgNode *n, GmTensor *leaf, Slot *s, bool hooked, GError **error)
{
  if (!s->one)
    return true;
  g_autoptr (GmTensor) given = hooked ? gm_tensor_ref (s->one) : NULL;
  return gm_walk_run_leaf (w, leaf, &s->one, error)
         && (!hooked || gm_node_run_after (n, NULL, &given, error));
}

/* Returns an array of new references to the gradients at s, for hooks that read them after the slot
 * is cleared.  The caller frees the array. */
static GmTensor **
copy_arrived (Slot *s, uint32_t n)
{
  GmTensor **all = g_new (GmTensor *, n + 1);
  for (uint32_t i = 0; i < n; i++) {
    GmTensor *g = *gm_walk_gradient (s, i);
    all[i] = g ? gm_tensor_ref (g) : NULL;
  }
  return all;
}

/* True if hooks, captures or retain_grad () read or change the gradients at s. */
static inline bool
is_watched (const Slot *s)
{
  const GmAgNode *n = s->node;
  return n->hooks || n->retained || s->captured
         || (n->kind == GM_NODE_LEAF && n->saved_in[0].t->autograd
             && n->saved_in[0].t->autograd->hooks);
}

/* Delivers to leaves, after n, which stands for many operations, has failed in one of them with
 * *error, the gradients that were complete before.  Steals `result`.  If a leaf's hook fails,
 * *error becomes that failure: it would have come before that of the operation. */
static void
give_to_leaves (Walk *w, GmAgNode *n, const uint32_t *order, GmTensor **result, GError **error)
{
  GError *before = NULL;
  for (uint32_t k = 0; k < n->n_in; k++) {
    uint32_t i = order ? order[k] : k;
    GmAgNode *to = n->edges[i].node;
    Slot *s = result[i] && to && to->kind == GM_NODE_LEAF && w->accumulate && !before
                  ? gm_walk_slot (w, to)
                  : NULL;
    GmTensor *g = g_steal_pointer (&result[i]);
    if (!s)
      gm_tensor_unref (g);
    else if (deliver (w, n->edges[i], g, &before) && s->waiting == 0)
      gm_walk_run_node (w, s, &before);
  }
  if (before) {
    g_clear_error (error);
    g_propagate_error (error, before);
  }
}

bool
gm_walk_run_node (Walk *w, Slot *s, GError **error)
{
  GmAgNode *n = s->node;
  if (G_UNLIKELY (s->turn != 0))
    return gm_walk_take_turn (w, s, error);
  if (is_watched (s) && !gm_walk_arrive (w, s, error))
    return false;
  if (!s->needed && !gm_walk_waits_inside (w, s)) {
    gm_walk_clear (s);
    return true;
  }
  bool hooked = G_UNLIKELY (n->user != NULL) && gm_node_is_hooked (n);
  if (n->kind == GM_NODE_LEAF) {
    GmTensor *leaf = n->saved_in[0].t;
    bool ok = !s->one || !w->accumulate
              || ((!hooked || gm_node_run_before (n, &s->one, error))
                  && run_leaf (w, n, leaf, s, hooked, error));
    gm_walk_clear (s);
    return ok;
  }
  bool any = false, ok = true;
  for (uint32_t i = 0; i < n->n_out; i++)
    any |= *gm_walk_gradient (s, i) != NULL;
  GmTensor *small[GM_NODE_INLINE] = { NULL };
  GmTensor **result = n->n_in <= GM_NODE_INLINE ? small : g_new0 (GmTensor *, n->n_in);
  const uint32_t *order = gm_walk_order_of (n, true); /* owned by n's state */
  g_autofree GmTensor **arrived = NULL;
  if (hooked && any) {
    ok = gm_node_run_before (n, s->many ? s->many : &s->one, error);
    arrived = copy_arrived (s, n->n_out);
    any = false; /* a hook may have taken all of them */
    for (uint32_t i = 0; i < n->n_out; i++)
      any |= arrived[i] != NULL;
  }
  if (!any || !ok) {
    /* nothing arrived, so nothing goes on; the nodes behind are told all the same */
  } else if (n->kind == GM_NODE_OP) {
    ok = run_op (w, n, s->one, result, error);
  } else if (n->released) {
    ok = fail_freed (n, error);
  } else {
    ok = (G_LIKELY (!n->region) || gm_region_give (n, error))
         && n->fn->backward (n, n->state, s->many ? s->many : &s->one, result, w->create, error);
    if (G_UNLIKELY (!ok) && n->fn->parts)
      give_to_leaves (w, n, order, result, error);
  }
  gm_walk_clear (s);
  ok = ok && (!arrived || gm_node_run_after (n, result, arrived, error));
  if (G_UNLIKELY (gm_anomaly_on))
    ok = gm_anomaly_look (n, result, ok, error);
  for (uint32_t i = 0; arrived && i < n->n_out; i++)
    gm_tensor_unref (arrived[i]);
  bool release = ok && any && !w->retain;
  if (release && !order)
    gm_node_release (n);
  for (uint32_t k = 0; k < n->n_in; k++) {
    uint32_t i = order ? order[k] : k;
    if (ok)
      ok = deliver (w, n->edges[i], result[i], error);
    else
      gm_tensor_unref (result[i]);
  }
  if (release && order)
    gm_node_release (n);
  if (result != small)
    g_free (result);
  return ok;
}

/* -- The walk ---------------------------------------------------------------------------------- */

GmTensor *
gm_walk_root_gradient (GmTensor *root, GmTensor *grad, int i, GError **error)
{
  if (!grad) {
    if (gm_meta_numel (&root->meta) == 1 && gm_dtype_is_float (root->meta.dtype)) {
      GmAttrs at = gm_attrs_full (&root->meta, gm_scalar_float (1));
      return gm_op_run (GM_OP_full, NULL, 0, &at, error);
    }
    g_autofree char *want = gm_meta_text (&root->meta);
    g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME,
                 "backward from %s: a gradient can be made up only for a result of one element; "
                 "pass one of the same shape",
                 want);
    return NULL;
  }
  if (!gm_meta_same_shape (&grad->meta, &root->meta)) {
    g_autofree char *have = gm_meta_text (&grad->meta), *want = gm_meta_text (&root->meta);
    g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME,
                 "backward: gradient %d is %s, but the result it belongs to is %s", i, have, want);
    return NULL;
  }
  if (grad->meta.dtype == root->meta.dtype)
    return gm_tensor_ref (grad);
  GmAttrs at = { .mask = 1u << GM_ATTR_DTYPE, .dtype = root->meta.dtype };
  return gm_autograd_op (GM_OP_cast, &grad, 1, &at, error);
}

void
gm_walk_end (Walk *w)
{
  for (Slot *s = w->last, *before; s; s = before) {
    before = s->before;
    gm_walk_clear (s);
    g_free (s->many);
    g_free (s->expected);
    s->node->slot = s->outer;
    gm_block_give (s, sizeof *s);
  }
  if (w->heap != w->few)
    g_free (w->heap); /* NULL: the walk never began */
  for (int i = 0; i < w->n_pins; i++)
    gm_node_unref (w->pins[i]);
}

bool
gm_walk_run (Walk *w, GmTensor *const *roots, GmTensor *const *grads, int n, GError **error)
{
  GmEdge few[FEW];
  g_autofree GmEdge *many = n > FEW ? g_new (GmEdge, n) : NULL;
  GmEdge *edges = many ? many : few;
  bool ok = true;
  w->heap = w->few;
  w->heap_room = FEW;
  for (int i = 0; i < n; i++) {
    edges[i] = gm_walk_edge_to (roots[i], gm_walk_asks (w));
    if (edges[i].node)
      w->pins[w->n_pins++] = edges[i].node;
  }
  for (int i = 0; i < n; i++)
    if (!edges[i].node) {
      g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME,
                   "backward: result %d does not require grad and has no history; nothing it was "
                   "computed from requires grad, or "
                   "it was computed under no_grad ()",
                   i);
      return false;
    }
  mark_captured (w);
  for (int i = 0; i < n; i++)
    visit (w, edges[i].node);
  /* A root waits for its own first gradient too, so that it starts when all roots have delivered.
   */
  for (int i = 0; i < n; i++)
    gm_walk_expect (w, gm_walk_slot (w, edges[i].node), edges[i].nr);
  if (G_UNLIKELY (w->some_lead))
    gm_walk_leave_out (w);
  bool mode = gm_grad_set_enabled (w->create);
  gm_walk_enter (w);
  for (int i = 0; i < n && ok; i++) {
    GmTensor *g = gm_walk_root_gradient (roots[i], grads ? grads[i] : NULL, i, error);
    ok = g && deliver (w, edges[i], g, error);
  }
  while (ok && w->n_heap)
    ok = gm_stretch_runner_now && !w->through && !w->plainly && !gm_anomaly_on
             ? gm_stretch_step (w, error)
             : gm_walk_run_node (w, gm_walk_pop (w), error);
  gm_grad_set_enabled (mode);
  return gm_walk_leave (w, ok, error);
}

/* -- Asked from within a walk ------------------------------------------------------------------ */

bool
gm_autograd_order_matters (const GmAgNode *n, const uint32_t *n_terms)
{
  for (uint32_t i = 0; i < n->n_in; i++) {
    Slot *s = n->edges[i].node ? n->edges[i].node->slot : NULL;
    uint32_t nr = n->edges[i].nr;
    if (!s || s->walk != n->slot->walk)
      continue;
    if (s->asked != n) {
      s->asked = n;
      s->outputs = 0;
    }
    uint64_t bit = 1ull << MIN (nr, 63);
    if (s->outputs & bit || (n_terms[i] > 1 && *gm_walk_gradient (s, nr)))
      return true;
    s->outputs |= bit;
  }
  return false;
}
