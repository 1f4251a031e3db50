/* SPDX-License-Identifier: Apache-2.0
 * tape.c -- recording: which results get a node, and what a node keeps.
 *
 * An op whose inputs need no gradient costs one test per input on top of gm_op_run.  Otherwise the
 * result gets a node with an edge per input and exactly the values that the gradient reads
 * (gm_op_saves), each with its version.  Metas and attributes are kept only where a gradient cannot
 * do without: not for pointwise ops whose inputs had the result's shape.
 */
#include "core/autograd/anomaly.h"
#include "core/autograd/node.h"

#include <string.h>

#include "core/base/thread.h"

/* -- Modes ------------------------------------------------------------------------------------- */

static GM_THREAD bool grad_off;

bool
gm_grad_enabled (void)
{
  return !grad_off;
}

bool
gm_grad_set_enabled (bool on)
{
  bool old = !grad_off;
  grad_off = !on;
  return old;
}

/* -- Recording --------------------------------------------------------------------------------- */

/* True for a view whose base's history was rewritten after the view's own history was made. */
static inline bool
is_stale (const GmTensor *t)
{
  if (G_LIKELY (!t->base) || !t->base->autograd)
    return false;
  if (t->base->storage != t->storage)
    return G_UNLIKELY (t->base->autograd->left != NULL) && gm_is_left_behind (t);
  uint32_t epoch = t->base->autograd->epoch;
  if (t->autograd && t->autograd->quiet)
    return false;
  return epoch && epoch != (t->autograd ? t->autograd->epoch : 0);
}

GmTensor *
gm_history_base (const GmTensor *t)
{
  return t->autograd && t->autograd->quiet ? NULL : gm_tensor_view_base (t);
}

bool
gm_tracked (GmTensor *t)
{
  if (G_UNLIKELY (is_stale (t)))
    gm_view_refresh (t);
  GmAutograd *ag = t->autograd;
  if (G_UNLIKELY (ag && ag->node && ag->node->apart)) {
    GmEdge e = { ag->node, ag->nr };
    if (e.node->apart[e.nr].node) {
      gm_node_hold (e.node->apart[e.nr].node);
      gm_node_let_go (e.node);
    }
    gm_edge_resolve (&e);
    ag->node = e.node;
    ag->nr = e.nr;
  }
  return t->meta.requires_grad;
}

static GmNodeExtra *
extra_make (GmTensor *const *in, int n_in, const GmAttrs *attrs)
{
  GmNodeExtra *x = g_malloc (sizeof *x + (size_t) n_in * sizeof (GmMeta));
  x->attrs = attrs ? *attrs : (GmAttrs){ 0 };
  for (int i = 0; i < n_in; i++)
    x->in[i] = in[i]->meta;
  return x;
}

static bool
needs_extra (GmOp op, GmTensor *const *in, int n_in, const GmMeta *out, uint32_t need)
{
  if (gm_ops[op].family != GM_FAMILY_POINTWISE)
    return true;
  for (int i = 0; i < n_in; i++)
    if (need >> i & 1 && !gm_meta_same_shape (&in[i]->meta, out))
      return true;
  return false;
}

/* Returns a new reference to what a node saves of an input: the leaf itself, whose history never
 * changes, else an alias.  If t is overwritten later by a result that depends on it, the alias
 * avoids a cycle of references; and it keeps its shape when t changes its own. */
static GmTensor *
saved_input (GmTensor *t)
{
  bool is_leaf = t->meta.requires_grad && !(t->autograd && t->autograd->node);
  return is_leaf ? gm_tensor_ref (t) : gm_tensor_new_alias (t);
}

/* Packs what n saved with the saved-tensor hooks.  False with *error set if a hook fails. */
static bool
pack_all (GmAgNode *n, GError **error)
{
  bool ok = true;
  for (int i = 0; i < GM_NODE_INLINE && ok; i++)
    ok = gm_saved_pack (&n->saved_in[i], error);
  return ok && gm_saved_pack (&n->saved_out, error);
}

static bool
record (GmTensor *out, GmOp op, GmTensor *const *in, int n_in, const GmAttrs *attrs, GError **error)
{
  uint32_t need = 0;
  GmAgNode *n = gm_node_new (GM_NODE_OP, n_in);
  n->op = (uint8_t) op;
  for (int i = 0; i < n_in; i++) {
    n->edges[i] = gm_op_is_differentiable (op, i) ? gm_edge_to (in[i]) : (GmEdge){ NULL, 0 };
    if (n->edges[i].node)
      need |= 1u << MIN (i, 30);
  }
  uint32_t saves = gm_op_saves (op, n_in, need);
  for (int i = 0; i < GM_NODE_INLINE && i < n_in; i++)
    if (saves >> i & 1)
      n->saved_in[i] = (GmSaved){ .t = saved_input (in[i]), .version = *gm_tensor_writes (in[i]) };
  if (saves & GM_SAVES_OUT)
    n->saved_out = (GmSaved){ .t = gm_tensor_new_alias (out), .version = *gm_tensor_writes (out) };
  if (needs_extra (op, in, n_in, &out->meta, need))
    n->extra = extra_make (in, n_in, attrs);
  if (G_UNLIKELY (gm_saved_hooks_now != NULL) && !pack_all (n, error)) {
    gm_node_unref (n);
    return false;
  }
  if (G_UNLIKELY (gm_region_now != NULL))
    gm_region_take (n);
  gm_history_set (out, n, 0);
  return true;
}

void
gm_autograd_record (GmTensor *out, GmOp op, GmTensor *const *in, int n_in, const GmAttrs *attrs,
                    uint64_t seq)
{
  GmSavedHooks *hooks = gm_saved_hooks_now; /* they have packed what the function saved */
  GmRegion *region = gm_region_now;
  gm_saved_hooks_now = NULL;
  gm_region_now = NULL;
  record (out, op, in, n_in, attrs, NULL);
  gm_region_now = region;
  gm_saved_hooks_now = hooks;
  out->autograd->node->seq = seq;
  if (G_UNLIKELY (gm_anomaly_on))
    gm_anomaly_note (out->autograd->node);
}

void
gm_autograd_use_up (GmTensor *out, bool all)
{
  GmAgNode *n = out->autograd->node;

  gm_node_release (n);
  n->released |= all;
}

void
gm_autograd_record_leaf (GmTensor *out, uint32_t i, GmTensor *t, uint32_t version)
{
  GmAgNode *n = out->autograd->node;

  if (i >= GM_NODE_INLINE || !n->saved_in[i].t)
    return;
  gm_tensor_unref (n->saved_in[i].t);
  n->saved_in[i].t = gm_tensor_ref (t);
  n->saved_in[i].version = version;
}

/* Notes in the result of a view op that was not recorded which epoch of its base it belongs to and,
 * if gradients were off, that it has no part in the base's history. */
static void
note_unrecorded (GmTensor *view, const GmTensor *of)
{
  GmTensor *base = gm_tensor_view_base (view);
  if (!base)
    return;
  if (base->autograd && base->autograd->epoch)
    gm_ag_get (view)->epoch = base->autograd->epoch;
  if ((of->autograd && of->autograd->quiet) || (grad_off && base->meta.requires_grad))
    gm_ag_get (view)->quiet = true;
}

static GmTensor *
run_mutate (GmOp op, GmTensor *const *in, int n_in, GError **error)
{
  g_assert (n_in == 2);
  bool ok = op == GM_OP_set_ ? gm_autograd_set (in[0], in[1], error)
                             : gm_autograd_into (in[0], GM_OP_copy, in + 1, 1, NULL, error);
  return ok ? gm_tensor_ref (in[0]) : NULL;
}

GmTensor *
gm_autograd_op (GmOp op, GmTensor *const *in, int n_in, const GmAttrs *attrs, GError **error)
{
  bool track = false;
  if (!grad_off)
    for (int i = 0; i < n_in; i++)
      track |= (in[i]->meta.requires_grad || is_stale (in[i])) && gm_op_is_differentiable (op, i)
               && gm_tracked (in[i]);
  uint8_t family = gm_ops[op].family;
  if (G_UNLIKELY (family == GM_FAMILY_MUTATE))
    return run_mutate (op, in, n_in, error);
  if (G_UNLIKELY (op == GM_OP_detach) && n_in == 1)
    return gm_tensor_detach (in[0]);
  if (G_UNLIKELY (gm_op_detaches (op)) && n_in == 1)
    return gm_op_run (op, in, n_in, attrs, error);
  GmTensor *out = gm_op_run (op, in, n_in, attrs, error);
  if (!out)
    return NULL;
  out->meta.requires_grad = 0;
  if (track && gm_dtype_is_float (out->meta.dtype)) {
    if (!record (out, op, in, n_in, attrs, error))
      g_clear_pointer (&out, gm_tensor_unref);
    else if (G_UNLIKELY (gm_anomaly_on))
      gm_anomaly_note (out->autograd->node);
  } else if (family == GM_FAMILY_MOVEMENT) {
    note_unrecorded (out, in[0]);
  }
  return out;
}

GmAgNode *
gm_autograd_attach_new (const GmAgFunction *fn, void *state, GmTensor *const *in, int n_in,
                        GmTensor *const *outs, int n_outs)
{
  GmAgNode *n = gm_function_node (fn, state, n_in, n_outs);
  for (int i = 0; i < n_in; i++)
    n->edges[i] = in[i] ? gm_edge_to (in[i]) : (GmEdge){ NULL, 0 };
  for (int i = 0; i < n_outs; i++) {
    if (outs[i] && gm_dtype_is_float (outs[i]->meta.dtype))
      gm_history_set (outs[i], gm_node_ref (n), (uint32_t) i);
  }
  if (G_UNLIKELY (gm_anomaly_on))
    gm_anomaly_note (n);
  return n;
}

GmAgNode *
gm_autograd_attach (const GmAgFunction *fn, void *state, GmTensor *const *in, int n_in,
                    GmTensor *const *outs, int n_outs)
{
  GmAgNode *n = gm_autograd_attach_new (fn, state, in, n_in, outs, n_outs);
  gm_node_unref (n);
  return n;
}

void
gm_autograd_place (GmAgNode *n, uint64_t seq)
{
  n->seq = seq;
}

void
gm_autograd_place_within (GmTensor *t, GmAgNode *n, uint64_t seq)
{
  GmAgNode *at = t->autograd ? t->autograd->node : NULL;

  if (!at)
    return;
  at->seq = seq;
  while (at && at != n && at->n_in == 1)
    at = at->edges[0].node;
  if (n)
    n->has_beside |= at != n; /* the gradients of n's results arrive before n runs in any walk */
}

void
gm_autograd_attached (GmAgNode *n)
{
  if (G_UNLIKELY (gm_region_now != NULL))
    gm_region_take (n);
}

GmTensor *
gm_autograd_freeze (GmTensor *t)
{
  if (gm_tensor_is_leaf (t))
    return t->meta.requires_grad ? gm_tensor_ref (t) : gm_tensor_new_alias (t);
  return gm_alias_with_edge (t, (GmEdge){ t->autograd->node, t->autograd->nr });
}

GmTensor *
gm_autograd_as_output (GmTensor *t, GmAgNode *n, int nr)
{
  return gm_alias_with_edge (t, (GmEdge){ n, (uint32_t) nr });
}

/* -- Properties of a tensor -------------------------------------------------------------------- */

bool
gm_tensor_requires_grad (const GmTensor *t)
{
  return gm_tracked ((GmTensor *) t);
}

bool
gm_tensor_is_leaf (const GmTensor *t)
{
  return !gm_tracked ((GmTensor *) t) || !t->autograd || !t->autograd->node;
}

bool
gm_tensor_set_requires_grad (GmTensor *t, bool on, GError **error)
{
  if (!gm_tensor_is_leaf (t)) {
    if (on)
      return true;
    g_set_error (
        error, GM_ERROR, GM_ERROR_RUNTIME,
        "cannot switch requires_grad off on what an operation made: only leaves can change "
        "it; use detach ()");
    return false;
  }
  if (on && !gm_dtype_is_float (t->meta.dtype)) {
    g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME,
                 "only tensors of a floating point dtype can require gradients, and this one is %s",
                 gm_dtypes[t->meta.dtype].torch_name);
    return false;
  }
  if (t->meta.requires_grad != on)
    gm_tensor_meta_changed (t);
  t->meta.requires_grad = on;
  return true;
}

GmTensor *
gm_tensor_grad (GmTensor *t)
{
  return t->autograd ? t->autograd->grad : NULL;
}

void
gm_tensor_set_grad (GmTensor *t, GmTensor *grad)
{
  if (!grad && !t->autograd)
    return;
  GmAutograd *ag = gm_ag_get (t);
  GmTensor *old = ag->grad;
  ag->grad = grad ? gm_tensor_ref (grad) : NULL;
  gm_tensor_unref (old);
}

void
gm_tensor_retain_grad (GmTensor *t)
{
  if (gm_tensor_is_leaf (t) || t->autograd->retain)
    return;
  GmAgNode *n = t->autograd->node;
  if (!n->retained)
    n->retained = g_array_new (FALSE, FALSE, sizeof (GmRetained));
  g_array_append_val (n->retained, ((GmRetained){ t->autograd->nr, t->autograd }));
  t->autograd->retain = true;
}

GmTensor *
gm_tensor_detach (GmTensor *t)
{
  return gm_tensor_new_alias (t);
}

uint32_t
gm_tensor_version (const GmTensor *t)
{
  return *gm_tensor_writes (t);
}

/* True if the view, whose base requires grad by now, is certain to lie inside of the base, so that
 * its next refresh gives it a history. */
static bool
lies_in_base (const GmTensor *t)
{
  const GmTensor *base = t->base;

  return base->storage == t->storage && gm_meta_is_dense (&base->meta) && t->offset >= base->offset
         && t->offset + gm_meta_extent (&t->meta) <= base->offset + gm_meta_extent (&base->meta);
}

bool
gm_tensor_would_require_grad (const GmTensor *t)
{
  if (!is_stale (t) || !t->base->meta.requires_grad
      || (!t->meta.requires_grad && !lies_in_base (t)))
    return gm_tracked ((GmTensor *) t);
  ((GmTensor *) t)->meta.requires_grad = 1; /* so that the flag is right without a refresh */
  return true;
}

uint64_t
gm_autograd_view_number (const GmTensor *view)
{
  const GmTensor *base = gm_tensor_view_base (view);
  const GmAgNode *end = base && base->autograd ? base->autograd->node : NULL;
  if (!view->autograd || !view->autograd->node) /* not refreshed since its base has got a history,
                                                 * and this must not refresh it: */
    return 0;                                   /* before all others */
  GmEdge at = { view->autograd->node, view->autograd->nr };

  while (at.node->n_in == 1 && at.node->edges[0].node && at.node->edges[0].node != end
         && at.node->edges[0].node->kind != GM_NODE_LEAF)
    at = at.node->edges[0];
  bool many = at.node->kind == GM_NODE_FUNCTION && at.node->fn->number && at.node->state
              && !at.node->region;
  return many ? at.node->fn->number (at.node->state, at.nr) : at.node->seq;
}

uint64_t
gm_tensor_history_number (const GmTensor *t)
{
  if (is_stale (t))
    return t->base->meta.requires_grad ? UINT64_MAX : 0;
  return gm_tensor_is_leaf (t) ? 0 : t->autograd->node->seq + 1;
}

/* Returns the name of the op's node as torch shows it: "IndexSelectBackward0" for
 * "index_select". */
static const char *
op_backward_name (GmOp op)
{
  static const char *names[GM_N_OPS]; /* interned: threads that race store the same pointer */
  const char *known = __atomic_load_n (&names[op], __ATOMIC_RELAXED);
  if (known)
    return known;
  g_autoptr (GString) s = g_string_new (NULL);
  bool upper = true;
  for (const char *p = gm_ops[op].name; *p; p++) {
    if (*p != '_')
      g_string_append_c (s, upper ? g_ascii_toupper (*p) : *p);
    upper = *p == '_';
  }
  g_string_append (s, "Backward0");
  known = g_intern_string (s->str);
  __atomic_store_n (&names[op], known, __ATOMIC_RELAXED);
  return known;
}

const char *
gm_node_name (const GmAgNode *n)
{
  switch ((GmNodeKind) n->kind) {
  case GM_NODE_LEAF:
    return "AccumulateGrad";
  case GM_NODE_FUNCTION:
    return n->fn->name;
  case GM_NODE_OP:
    break;
  }
  return op_backward_name ((GmOp) n->op);
}

const char *
gm_tensor_grad_fn_name (const GmTensor *t)
{
  return gm_tensor_is_leaf (t) ? NULL : gm_node_name (t->autograd->node);
}

/* -- Hooks ------------------------------------------------------------------------------------- */

/* Returns the list that a hook on t belongs to: a leaf's own list, else that of the node, because
 * hooks must run even if the tensor is freed. */
static GArray **
hooks_of (GmTensor *t)
{
  GmAutograd *ag = gm_ag_get (t);
  return ag->node ? &ag->node->hooks : &ag->hooks;
}

/* The list that each hook is in: the tensor may have another history when the hook is removed. */
static struct {
  GMutex lock;
  GHashTable *lists; /* id, as a pointer -> GArray */
} places;

GArray *
gm_hook_place (uint64_t id, GArray *list)
{
  gpointer key = GSIZE_TO_POINTER ((gsize) id);
  g_mutex_lock (&places.lock);
  if (!places.lists)
    places.lists = g_hash_table_new (NULL, NULL);
  GArray *was = g_hash_table_lookup (places.lists, key);
  if (list)
    g_hash_table_insert (places.lists, key, list);
  else
    g_hash_table_remove (places.lists, key);
  g_mutex_unlock (&places.lock);
  return was;
}

bool
gm_hook_is_on (uint64_t id)
{
  g_mutex_lock (&places.lock);
  bool is = places.lists && g_hash_table_contains (places.lists, GSIZE_TO_POINTER ((gsize) id));
  g_mutex_unlock (&places.lock);
  return is;
}

static bool
is_awaited_at (const GmAgNode *n, uint32_t nr)
{
  bool is = n->hooked >> MIN (nr, 63) & 1;
  for (guint i = 0; n->hooks && i < n->hooks->len; i++)
    is |= g_array_index (n->hooks, GmAgHook, i).nr == nr;
  for (guint i = 0; n->retained && i < n->retained->len; i++)
    is |= g_array_index (n->retained, GmRetained, i).nr == nr;
  return is;
}

void
gm_autograd_find_leaves (GmTensor *const *roots, uint32_t n_roots, GPtrArray *leaves)
{
  g_autoptr (GHashTable) seen = g_hash_table_new (NULL, NULL);
  g_autoptr (GPtrArray) stack = g_ptr_array_new (),
                        held = g_ptr_array_new_with_free_func ((GDestroyNotify) gm_node_unref);

  for (uint32_t k = 0; k < n_roots; k++) {
    GmEdge at = gm_tracked (roots[k]) ? gm_edge_to (roots[k]) : (GmEdge){ NULL, 0 };
    if (!at.node)
      continue;
    g_ptr_array_add (held, at.node);
    g_ptr_array_add (stack, at.node);
  }
  while (stack->len) {
    GmAgNode *n = g_ptr_array_steal_index_fast (stack, stack->len - 1);
    if (n->kind == GM_NODE_LEAF)
      g_ptr_array_add (leaves, n->saved_in[0].t);
    else if (!g_hash_table_add (seen, n))
      continue;
    for (uint32_t i = 0; i < n->n_in; i++) {
      gm_edge_resolve (&n->edges[i]);
      if (n->edges[i].node)
        g_ptr_array_add (stack, n->edges[i].node);
    }
  }
}

GmTensor *
gm_autograd_leaf (const GmAgNode *n, int i)
{
  const GmAgNode *to = n->edges[i].node;

  return to && to->kind == GM_NODE_LEAF ? to->saved_in[0].t : NULL;
}

bool
gm_autograd_leaf_waits (const GmAgNode *n)
{
  for (uint32_t i = 0; i < n->n_in; i++) {
    const GmTensor *leaf = gm_autograd_leaf (n, (int) i);
    const GmAutograd *ag = leaf ? leaf->autograd : NULL;
    if (ag && ((ag->hooks && ag->hooks->len) || (ag->post_hooks && ag->post_hooks->len)))
      return true;
  }
  return false;
}

/* True if more references than the `known` ones lead to n, which makes a view: gradients that
 * arrive at n are summed before they go on to the base. */
static bool
is_shared (const GmAgNode *n, uint32_t known)
{
  return (n->kind == GM_NODE_OP || gm_is_view_made_late (n))
         && __atomic_load_n (&n->refs, __ATOMIC_RELAXED) > known;
}

static bool
is_view_node (const GmAgNode *n)
{
  return n->kind == GM_NODE_OP && gm_ops[n->op].family == GM_FAMILY_MOVEMENT;
}

/* True if an edge leads to n that does not come from the view at which the search began. */
static bool
is_read_by_others (const GmAgNode *n)
{
  return is_view_node (n)
         && __atomic_load_n (&n->refs, __ATOMIC_RELAXED)
                > __atomic_load_n (&n->holders, __ATOMIC_RELAXED) + 1;
}

/* True if a hook, retain_grad () or another reader needs a gradient on the way from `at`, a view's
 * node, through the nodes of the views that it was taken of, to the base's node. */
static bool
is_awaited_before (GmEdge at, const GmAutograd *base)
{
  while (at.node != base->node && at.node->n_in == 1 && at.node->edges[0].node) {
    at = at.node->edges[0]; /* the tensor that the view was taken of */
    /* a region's node has more outputs */
    bool is_base = at.node == base->node && at.nr == base->nr;
    if (!is_base && at.node->kind != GM_NODE_LEAF
        && (is_awaited_at (at.node, at.nr) || is_read_by_others (at.node)))
      return true;
  }
  /* A view made inside of a function: one of the places that its edges lead to is the tensor that
   * it was taken of. */
  for (uint32_t i = 0; at.node != base->node && at.node->n_in > 1
                       && at.node->kind == GM_NODE_FUNCTION && i < at.node->n_in;
       i++) {
    GmEdge to = at.node->edges[i];
    if (!to.node || to.node->kind == GM_NODE_LEAF || (to.node == base->node && to.nr == base->nr))
      continue;
    if (is_awaited_at (to.node, to.nr))
      return true;
    /* no further than through views */
    while (is_view_node (to.node) && to.node->edges[0].node
           && to.node->edges[0].node != base->node) {
      to = to.node->edges[0];
      if (to.node->kind != GM_NODE_LEAF && is_awaited_at (to.node, to.nr))
        return true;
    }
  }
  return false;
}

bool
gm_tensor_is_awaited (const GmTensor *t)
{
  GmTensor *base = gm_tensor_view_base (t);
  if (is_stale (t) && base && base->meta.requires_grad)
    return t->autograd && t->autograd->retain; /* that history does not exist yet; retain_grad ()
                                                * goes on to it */
  gm_tracked ((GmTensor *) t);
  GmEdge at = t->autograd ? (GmEdge){ t->autograd->node, t->autograd->nr } : (GmEdge){ NULL, 0 };
  if (!at.node || is_awaited_at (at.node, at.nr))
    return at.node != NULL;
  if (!base || !gm_tracked (base) || !base->autograd)
    return false;
  if (at.node != base->autograd->node && is_shared (at.node, 1))
    return true;
  if (at.node == base->autograd->node && at.nr != base->autograd->nr
      && at.node->inside >> MIN (at.nr, 63) & 1)
    return true; /* the inner node that reads it has no edge here: it is in the function that made
                  * both */
  return is_awaited_before (at, base->autograd);
}

uint64_t
gm_tensor_add_hook (GmTensor *t, GmTensorHook hook, void *data, void (*destroy) (void *data))
{
  static uint64_t next_id = 1;
  gm_tracked (t);
  GArray **hooks = hooks_of (t);
  if (!*hooks)
    *hooks = g_array_new (FALSE, FALSE, sizeof (GmAgHook));
  GmAgHook h = { .id = __atomic_fetch_add (&next_id, 1, __ATOMIC_RELAXED),
                 .nr = t->autograd->nr,
                 .fn = hook,
                 .data = data,
                 .destroy = destroy };
  g_array_append_val (*hooks, h);
  gm_hook_place (h.id, *hooks);
  return h.id;
}

bool
gm_tensor_remove_hook (uint64_t id)
{
  GArray *hooks = gm_hook_place (id, NULL);
  for (guint i = 0; hooks && i < hooks->len; i++) {
    GmAgHook h = g_array_index (hooks, GmAgHook, i);
    if (h.id != id)
      continue;
    g_array_remove_index (hooks, i);
    if (h.destroy)
      h.destroy (h.data);
    return true;
  }
  return false;
}
