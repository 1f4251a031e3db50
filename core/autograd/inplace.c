/* SPDX-License-Identifier: Apache-2.0
 * inplace.c -- writes into tensors, and what they do to histories.
 *
 * Where no gradient is involved a write runs straight into the destination.  Otherwise the new
 * contents are computed out of place, recorded as any op, and then copied in; the destination takes
 * over their history.  If the destination is a view, its base takes a new history: the old history
 * outside of the view, the contents' inside (CopySlices).  Every other view of that base becomes
 * stale; its refresh (gm_view_refresh) gives it a new history, a selection from the base's.  A
 * selection is a list of positions among the base's elements, so any strided view is covered by one
 * rule, and gradients of gradients too, since both backwards are programs over ops.
 */
#include "core/autograd/node.h"
#include "core/tensor/device.h"
#include "core/tensor/fence.h"

#include <string.h>

/* -- Views as positions ------------------------------------------------------------------------ */

/* The state of two functions: "base with the view's elements replaced", and "the view's elements of
 * base". */
typedef struct {
  gatomicrefcount refs;
  GmMeta base, view;
  GmTensor *positions; /* i64[n]: element k of the view is element positions[k] of the base,
                        * both in row-major order */
  GmTensor *sources;   /* i64[N]: for each element of the base, itself, or N + k where the
                        * view's element k replaces it */
} Selection;

static void
selection_unref (void *state)
{
  Selection *s = state;
  if (!g_atomic_ref_count_dec (&s->refs))
    return;
  gm_tensor_unref (s->positions);
  gm_tensor_unref (s->sources);
  g_free (s);
}

/* Advances the index `at` to the next element of `m` in row-major order. */
static void
step (const GmMeta *m, int64_t *at)
{
  for (int d = m->ndim; d-- > 0;) {
    if (++at[d] < m->sizes[d])
      return;
    at[d] = 0;
  }
}

static int64_t
address (const GmMeta *m, const int64_t *at)
{
  int64_t a = 0;
  for (int d = 0; d < m->ndim; d++)
    a += at[d] * m->strides[d];
  return a;
}

static GmTensor *
new_positions (int64_t n, GError **error)
{
  GmMeta m = gm_meta_make (GM_I64, 1, &n);
  return gm_tensor_new (&m, error);
}

/* Moves *t to `device`; replaces the reference.  False with *error set on failure. */
static bool
move_to (GmTensor **t, int device, GError **error)
{
  GmTensor *here = *t;
  *t = gm_tensor_to_device (here, device, error);
  gm_tensor_unref (here);
  return *t != NULL;
}

/* Returns the selection of `view` from `base`, NULL with *error set if the view reaches outside.
 * Elements are matched by address: a base is dense if gramme made it, but memory from outside may
 * have gaps. */
static Selection *
selection_new (GmTensor *base, GmTensor *view, GError **error)
{
  int64_t n_base = gm_meta_numel (&base->meta), n = gm_meta_numel (&view->meta);
  int64_t extent = gm_meta_extent (&base->meta), at[GM_MAX_DIMS] = { 0 };
  Selection *s = g_new0 (Selection, 1);
  g_atomic_ref_count_init (&s->refs);
  s->base = base->meta;
  s->view = view->meta;
  s->positions = new_positions (n, error);
  s->sources = s->positions ? new_positions (n_base, error) : NULL;
  g_autoptr (GmTensor) map = s->sources ? new_positions (extent, error) : NULL;
  if (!map) {
    selection_unref (s);
    return NULL;
  }
  int64_t *positions = gm_tensor_data (s->positions), *sources = gm_tensor_data (s->sources),
          *of = gm_tensor_data (map);
  for (int64_t i = 0; i < extent; i++) /* not memset: a base without elements has no memory */
    of[i] = -1;
  for (int64_t i = 0; i < n_base; i++, step (&base->meta, at)) {
    of[address (&base->meta, at)] = i;
    sources[i] = i;
  }
  memset (at, 0, sizeof at);
  for (int64_t k = 0; k < n; k++, step (&view->meta, at)) {
    int64_t where = view->offset - base->offset + address (&view->meta, at);
    positions[k] = where >= 0 && where < extent ? of[where] : -1;
    if (positions[k] < 0) {
      g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME,
                   "a view no longer lies inside the tensor that it was taken of, because set_ (), "
                   "as_strided_ () or resize_ () changed that tensor; take the view again");
      selection_unref (s);
      return NULL;
    }
    sources[positions[k]] = n_base + k;
  }
  if (!move_to (&s->positions, base->meta.device, error)
      || !move_to (&s->sources, base->meta.device, error)) {
    selection_unref (s);
    return NULL;
  }
  return s;
}

/* Sets result[i] to a new reference to values[i], and clears the builder.  False with *error set,
 * and no results, if the builder has failed. */
static bool
finish (GmEagerBuilder *b, GmVal *values, int n, GmTensor **result, GError **error)
{
  bool ok = !b->base.error;
  for (int i = 0; i < n; i++)
    result[i] = ok && values[i] ? gm_tensor_ref (gm_tensor_from_val (values[i])) : NULL;
  if (!ok)
    g_propagate_error (error, g_steal_pointer (&b->base.error));
  gm_eager_builder_clear (b);
  return ok;
}

/* -- Selecting and replacing ------------------------------------------------------------------- */

/* Selecting and replacing are linear, and the gradient of each consists of the other, so gradients
 * of gradients are selections and replacements again: index_select's own gradient would add zeros,
 * which makes 0 of -0. */

static Selection *
selection_ref (Selection *s)
{
  g_atomic_ref_count_inc (&s->refs);
  return s;
}

static GmTensor *
zeros_of (const GmMeta *like, const GmTensor *beside, GError **error)
{
  GmMeta m = gm_meta_make ((GmDtype) beside->meta.dtype, like->ndim, like->sizes);
  m.device = beside->meta.device;
  return gm_tensor_new_zeros (&m, error);
}

/* Returns a new tensor with the elements of t at `places`, of the shape of `like`, without
 * history. */
static GmTensor *
pick (GmTensor *t, GmTensor *places, const GmMeta *like, GError **error)
{
  int64_t n = gm_meta_numel (&t->meta);
  GmAttrs at = { .mask = 1u << GM_ATTR_DIM };
  GmEagerBuilder b;
  gm_eager_builder_init (&b);
  GmVal v = gm_b_reshape (&b.base, gm_val_from_tensor (t), 1, &n);
  v = gm_b_op (&b.base, GM_OP_index_select, (const GmVal[]){ v, gm_val_from_tensor (places) }, 2,
               &at);
  v = gm_b_view (&b.base, v, like->ndim, like->sizes);
  GmTensor *result = NULL;
  finish (&b, &v, 1, &result, error);
  return result;
}

/* Returns a new flat tensor with the elements of `outside`, then those of `inside`, without
 * history. */
static GmTensor *
both (GmTensor *outside, GmTensor *inside, GError **error)
{
  int64_t n_outside = gm_meta_numel (&outside->meta), n_inside = gm_meta_numel (&inside->meta);
  GmAttrs at = { .mask = 1u << GM_ATTR_DIM };
  GmEagerBuilder b;
  gm_eager_builder_init (&b);
  GmVal in[2] = { gm_b_reshape (&b.base, gm_val_from_tensor (outside), 1, &n_outside),
                  gm_b_reshape (&b.base, gm_val_from_tensor (inside), 1, &n_inside) };
  GmVal v = gm_b_op (&b.base, GM_OP_cat, in, 2, &at);
  GmTensor *result = NULL;
  finish (&b, &v, 1, &result, error);
  return result;
}

static const GmAgFunction selecting, replacing;

/* Gives `out`, which was computed with gradients off, the history fn (in ...), if `create` and an
 * input requires grad.  Returns out. */
static GmTensor *
with_node (GmTensor *out, const GmAgFunction *fn, Selection *s, GmTensor *const *in, int n_in,
           bool create)
{
  bool any = false;
  for (int i = 0; i < n_in && create; i++)
    any |= gm_tracked (in[i]);
  if (out && any)
    gm_autograd_attach (fn, selection_ref (s), in, n_in, &out, 1);
  return out;
}

/* Returns the elements of `base` under the view as a new tensor, recorded if `create`. */
static GmTensor *
select_from (Selection *s, GmTensor *base, bool create, GError **error)
{
  bool was = gm_grad_set_enabled (false);
  GmTensor *out = pick (base, s->positions, &s->view, error);
  gm_grad_set_enabled (was);
  return with_node (out, &selecting, s, &base, 1, create);
}

/* Returns a new tensor, recorded if `create`: `outside`, with the elements under the view taken
 * from `inside`. */
static GmTensor *
replace (Selection *s, GmTensor *outside, GmTensor *inside, bool create, GError **error)
{
  bool was = gm_grad_set_enabled (false);
  g_autoptr (GmTensor) all = both (outside, inside, error);
  GmTensor *out = all ? pick (all, s->sources, &s->base, error) : NULL;
  gm_grad_set_enabled (was);
  return with_node (out, &replacing, s, (GmTensor *const[]){ outside, inside }, 2, create);
}

/* Computes the gradients of `replace`.  Edge 0: the elements outside of the view (the base's old
 * history); edge 1: those inside (the history of the new contents). */
static bool
replace_backward (GmAgNode *n, void *state, GmTensor *const *grads, GmTensor **result,
                  bool create_graph, GError **error)
{
  Selection *s = state;
  if (n->edges[0].node) {
    g_autoptr (GmTensor) nothing = zeros_of (&s->view, grads[0], error);
    if (!nothing || !(result[0] = replace (s, grads[0], nothing, create_graph, error)))
      return false;
  }
  if (n->edges[1].node && !(result[1] = select_from (s, grads[0], create_graph, error))) {
    g_clear_pointer (&result[0], gm_tensor_unref);
    return false;
  }
  return true;
}

/* Computes the gradient of `select_from`.  Its only edge leads to the base. */
static bool
select_backward (GmAgNode *n, void *state, GmTensor *const *grads, GmTensor **result,
                 bool create_graph, GError **error)
{
  Selection *s = state;
  g_autoptr (GmTensor) nothing = zeros_of (&s->base, grads[0], error);
  return nothing && (result[0] = replace (s, nothing, grads[0], create_graph, error));
}

/* Keeps all for another backward: a view's history saves positions, no elements. */
static GmAgLeft
spend_nothing (GmAgNode *n, void *state)
{
  (void) n, (void) state;
  return GM_AG_WHOLE;
}

static const GmAgFunction replacing = { "CopySlices", replace_backward, selection_unref };
static const GmAgFunction selecting = { "AsStridedBackward0", select_backward, selection_unref,
                                        .spend = spend_nothing };

/* Computes what select_backward does, for a view with several elements in one place, whose
 * gradients are added. */
static bool
gather_backward (GmAgNode *n, void *state, GmTensor *const *grads, GmTensor **result,
                 bool create_graph, GError **error)
{
  const Selection *s = state;
  int64_t n_base = gm_meta_numel (&s->base), n_view = gm_meta_numel (&s->view);
  GmAttrs at = { .mask = 1u << GM_ATTR_DIM };
  GmEagerBuilder b;
  gm_eager_builder_init (&b);
  GmVal in[3] = { gm_b_full_beside (&b.base, gm_scalar_int (0), s->base.dtype, 1, &n_base,
                                    gm_val_from_tensor (grads[0])),
                  gm_val_from_tensor (s->positions),
                  gm_b_reshape (&b.base, gm_val_from_tensor (grads[0]), 1, &n_view) };
  GmVal r = gm_b_op (&b.base, GM_OP_index_add, in, 3, &at);
  r = gm_b_view (&b.base, r, s->base.ndim, s->base.sizes);
  return finish (&b, &r, 1, result, error);
}

static const GmAgFunction as_overlapping_view = { "AsStridedBackward0", gather_backward,
                                                  selection_unref, .spend = spend_nothing };

/* Computes the gradient of a tensor that was overwritten as a whole: zeros, for the history that it
 * had before. */
static bool
overwritten_backward (GmAgNode *n, void *state, GmTensor *const *grads, GmTensor **result,
                      bool create_graph, GError **error)
{
  GmMeta m =
      gm_meta_make ((GmDtype) grads[0]->meta.dtype, grads[0]->meta.ndim, grads[0]->meta.sizes);
  m.device = grads[0]->meta.device;
  return (result[0] = gm_tensor_new_zeros (&m, error)) != NULL;
}

static const GmAgFunction overwritten = { "CopyBackward0", overwritten_backward, NULL,
                                          .spend = spend_nothing };

/* -- Histories of views ------------------------------------------------------------------------ */

void
gm_view_refresh (GmTensor *view)
{
  GmTensor *base = gm_tensor_view_base (view);
  if (!base) {
    gm_view_give_up (view);
    return;
  }
  GmAutograd *ag = gm_ag_get (view);
  uint32_t before = ag->epoch;
  ag->epoch = base->autograd->epoch;
  if (!base->meta.requires_grad)
    return;
  GError *error = NULL;
  Selection *s = selection_new (base, view, &error);
  if (g_error_matches (error, GM_ERROR, GM_ERROR_RUNTIME)) { /* outside of its base by now */
    g_error_free (error);
    uint32_t now = base->autograd->epoch, reshaped = base->autograd->reshaped;
    if (reshaped && !(now == reshaped && before + 1 == reshaped))
      gm_view_lose_place (view);
    return;
  }
  if (!s) /* the positions must exist, and running out of memory aborts, as in GLib's allocator */
    g_error ("cannot rebuild the history of a view: %s", error->message);
  bool overlaps = gm_meta_overlaps_itself (&view->meta);
  GmAgNode *n = gm_function_node (overlaps ? &as_overlapping_view : &selecting, s, 1, 1);
  n->edges[0] = gm_edge_to (base);
  gm_history_set (view, n, 0);
}

bool
gm_view_is_outside (const GmTensor *t)
{
  const GmTensor *base = gm_tensor_view_base (t);
  int64_t n = gm_meta_numel (&t->meta), at[GM_MAX_DIMS] = { 0 };

  if (!base || n == 0)
    return false;
  int64_t first = t->offset - base->offset, extent = gm_meta_extent (&base->meta);
  if (base->meta.dtype != t->meta.dtype)
    return false; /* view (dtype) covers all of it */
  if (first < 0 || first + gm_meta_extent (&t->meta) > extent)
    return true;
  if (gm_meta_is_dense (&base->meta))
    return false;
  g_autofree uint8_t *there = g_malloc0 ((gsize) extent);
  for (int64_t i = 0, all = gm_meta_numel (&base->meta); i < all; i++, step (&base->meta, at))
    there[address (&base->meta, at)] = 1;
  memset (at, 0, sizeof at);
  for (int64_t i = 0; i < n; i++, step (&t->meta, at))
    if (!there[first + address (&t->meta, at)])
      return true;
  return false;
}

bool
gm_is_view_made_late (const GmAgNode *n)
{
  return n->kind == GM_NODE_FUNCTION && (n->fn == &selecting || n->fn == &as_overlapping_view);
}

/* Gives the base of `view` a new history, after the base's elements under the view have become
 * `contents`.  False with *error set on failure. */
static bool
rewrite_base (GmTensor *view, GmTensor *contents, GError **error)
{
  GmTensor *base = gm_tensor_view_base (view);
  if (!base->meta.requires_grad && !contents->meta.requires_grad)
    return true;
  Selection *s = selection_new (base, view, error);
  if (!s)
    return false;
  GmAgNode *n = gm_function_node (&replacing, s, 2, 1);
  n->edges[0] = gm_edge_to (base);
  n->edges[1] = gm_edge_to (contents);
  gm_history_set (base, n, 0);
  base->autograd->epoch++;
  return true;
}

/* -- The write --------------------------------------------------------------------------------- */

/* True if dst's memory may be written; else *error is set.  one: all elements get the same value,
 * so several elements in one place do no harm. */
static bool
check_writable (GmTensor *dst, bool one, GError **error)
{
  if (dst->storage->readonly) {
    g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME,
                 "an in-place operation on memory that is read-only (it came from a read-only "
                 "buffer); clone () it first");
    return false;
  }
  if (G_UNLIKELY (gm_fence_refuses (dst))) {
    g_set_error_literal (error, GM_ERROR, GM_ERROR_RUNTIME, GM_FENCE_REASON);
    return false;
  }
  if (!one && gm_meta_overlaps_itself (&dst->meta)) {
    g_autofree char *text = gm_meta_text (&dst->meta);
    g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME,
                 "unsupported operation: more than one element of the written-to tensor refers to "
                 "a single memory location. "
                 "Please clone() the tensor before performing the operation (%s, expanded or made "
                 "of windows)",
                 text);
    return false;
  }
  return true;
}

bool
gm_check_leaf (GmTensor *dst, GError **error)
{
  GmTensor *base = gm_history_base (dst);
  if (gm_tracked (dst) && gm_tensor_is_leaf (dst)) {
    g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME,
                 "a leaf tensor that requires grad is changed by an in-place operation; do it "
                 "under no_grad (), or on a clone ()");
    return false;
  }
  /* A base that requires no grad may have a leaf among its views, whose history goes no further. */
  if (base && (base->meta.requires_grad || dst->meta.requires_grad) && gm_tensor_is_leaf (base)) {
    g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME,
                 "a view of a leaf tensor that requires grad is changed by an in-place operation; "
                 "do it under no_grad (), or on a "
                 "clone () of the leaf");
    return false;
  }
  return true;
}

/* True unless dst is a view that was taken with gradients off: a recorded write to it would have to
 * change the base's history, which such a view is no part of.  Else *error is set. */
static bool
check_apart (const GmTensor *dst, GError **error)
{
  if (gm_history_base (dst) == gm_tensor_view_base (dst))
    return true;
  g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME,
               "a view that was taken with gradients off is changed by an in-place operation on "
               "something that requires grad: take the view with gradients on, or do both under "
               "no_grad ()");
  return false;
}

static bool
check_fits (GmOp op, const GmMeta *result, const GmMeta *dst, GError **error)
{
  int lead = dst->ndim - result->ndim;
  bool fits = lead >= 0;
  for (int d = 0; fits && d < result->ndim; d++)
    fits = result->sizes[d] == 1 || result->sizes[d] == dst->sizes[d + lead];
  if (fits)
    return true;
  g_autofree char *have = gm_shape_text (dst->ndim, dst->sizes),
                  *want = gm_shape_text (result->ndim, result->sizes);
  g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME,
               "in-place %s: the destination has shape %s, which the result's shape %s cannot be "
               "broadcast to",
               gm_ops[op].name, have, want);
  return false;
}

static bool
is_alias (const GmTensor *a, const GmTensor *b)
{
  return a->storage == b->storage && a->offset == b->offset
         && gm_meta_same_layout (&a->meta, &b->meta);
}

/* Copies src's elements (any dtype, broadcast) into dst's memory, without history.  A copy of dst
 * to itself advances the version, too. */
static bool
copy_values (GmTensor *dst, GmTensor *src, GError **error)
{
  g_autoptr (GmTensor) apart = NULL;
  if (src != dst && src->storage == dst->storage && !is_alias (src, dst)
      && gm_tensor_may_overlap (src, dst)) {
    if (!(apart = gm_op_run (GM_OP_copy, &src, 1, NULL, error)))
      return false;
    src = apart;
  }
  GmTensor *done = gm_op_run (GM_OP_copy_, (GmTensor *const[]){ dst, src }, 2, NULL, error);
  gm_tensor_unref (done);
  return done != NULL;
}

/* True if op can write its results into dst while it reads its inputs. */
static bool
can_run_into (GmTensor *dst, GmOp op, GmTensor *const *in, int n_in, const GmMeta *result)
{
  if (result->dtype != dst->meta.dtype || !gm_meta_same_shape (result, &dst->meta))
    return false;
  if (gm_ops[op].family == GM_FAMILY_MOVEMENT)
    return false;
  for (int i = 0; i < n_in; i++)
    if (in[i] == dst ? gm_ops[op].family != GM_FAMILY_POINTWISE
                     : in[i]->storage == dst->storage && gm_tensor_may_overlap (in[i], dst))
      return false;
  return true;
}

static bool
write_plain (GmTensor *dst, GmOp op, GmTensor *const *in, int n_in, const GmAttrs *attrs,
             const GmMeta *result, GError **error)
{
  if (can_run_into (dst, op, in, n_in, result)) {
    if (!gm_op_run_into (op, in, n_in, attrs, dst, error))
      return false;
    (*gm_tensor_writes (dst))++;
    return true;
  }
  g_autoptr (GmTensor) contents = gm_op_run (op, in, n_in, attrs, error);
  return contents && copy_values (dst, contents, error);
}

/* Fills `out` with new references to the inputs of a recorded write.  An input that shares dst's
 * memory is replaced by an alias, so that the new history does not own the tensor that owns it; and
 * dst's old value, if the gradient reads it, by a copy, as it is about to be overwritten. */
static bool
shield_inputs (GmTensor *dst, GmOp op, GmTensor *const *in, int n_in, GmTensor **out,
               GError **error)
{
  uint32_t need = 0;
  for (int i = 0; i < n_in && i < 30; i++)
    if (gm_op_is_differentiable (op, i) && gm_tracked (in[i]))
      need |= 1u << i;
  uint32_t saves = gm_op_saves (op, n_in, need);
  for (int i = 0; i < n_in; i++) {
    if (in[i]->storage != dst->storage) {
      out[i] = gm_tensor_ref (in[i]);
      continue;
    }
    GmEdge e = gm_edge_to (in[i]);
    g_autoptr (GmTensor) copy = NULL;
    if (in[i] == dst && i < 30 && saves >> i & 1
        && !(copy = gm_op_run (GM_OP_copy, in + i, 1, NULL, error))) {
      gm_node_unref (e.node);
      return false;
    }
    out[i] = gm_alias_with_edge (copy ? copy : in[i], e);
    gm_node_unref (e.node);
  }
  return true;
}

/* Returns the contents that dst is going to have: a new reference to the result of op (in ...),
 * recorded, in dst's dtype and shape. */
static GmTensor *
contents_new (GmTensor *dst, GmOp op, GmTensor *const *in, int n_in, const GmAttrs *attrs,
              GError **error)
{
  GmEagerBuilder b;
  gm_eager_builder_init (&b);
  GmVal v = gm_b_op (&b.base, op, (const GmVal *) in, n_in, attrs);
  v = gm_b_cast (&b.base, v, (GmDtype) dst->meta.dtype);
  v = gm_b_expand (&b.base, v, dst->meta.ndim, dst->meta.sizes);
  GmTensor *contents = NULL;
  finish (&b, &v, 1, &contents, error);
  return contents;
}

static bool
write_recorded (GmTensor *dst, GmOp op, GmTensor *const *in, int n_in, const GmAttrs *attrs,
                GError **error)
{
  GmTensor *shielded[GM_NODE_INLINE] = { NULL };
  GmTensor **safe = n_in <= GM_NODE_INLINE ? shielded : g_new0 (GmTensor *, n_in);
  g_autoptr (GmTensor) contents = NULL;
  if (shield_inputs (dst, op, in, n_in, safe, error))
    contents = contents_new (dst, op, safe, n_in, attrs, error);
  for (int i = 0; i < n_in; i++)
    gm_tensor_unref (safe[i]);
  if (safe != shielded)
    g_free (safe);
  if (!contents || !copy_values (dst, contents, error))
    return false;
  if (gm_tensor_view_base (dst))
    return rewrite_base (dst, contents, error) && (gm_tracked (dst), true);
  GmEdge e = gm_edge_to (contents);
  if (!e.node) { /* the destination required grad, its new contents do not */
    GmAgNode *n = gm_function_node (&overwritten, NULL, 1, 1);
    n->edges[0] = gm_edge_to (dst);
    e = (GmEdge){ n, 0 };
  }
  gm_history_set (dst, e.node, e.nr);
  gm_history_was_rewritten (dst);
  return true;
}

bool
gm_autograd_may_write (GmTensor *t, bool grad, GError **error)
{
  bool late = gm_autograd_is_late (t); /* then t is no leaf; the test does not refresh it */
  if (!check_writable (t, false, error) || (grad && !late && !gm_check_leaf (t, error)))
    return false;
  if (!grad || !gm_history_base (t) || !gm_tensor_is_awaited (t))
    return true;
  g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME,
               "the gradient of this view is awaited by a hook, kept, or summed with others, and "
               "what is written to it "
               "goes into the history of its base");
  return false;
}

static GmTensor *
slice_of (GmTensor *t, int dim, int64_t i, GError **error)
{
  GmAttrs at = { .mask = 1u << GM_ATTR_DIM | 1u << GM_ATTR_START | 1u << GM_ATTR_STOP
                         | 1u << GM_ATTR_STEP,
                 .dim = dim,
                 .start = i,
                 .stop = i + 1,
                 .step = 1 };
  return gm_autograd_op (GM_OP_slice, &t, 1, &at, error);
}

/* Fills dst, several of whose elements share one place, with the only element of src.  Of a
 * dimension that repeats (stride 0) only the first slice is written; windows that overlap are
 * written slice by slice, as a slice does not overlap itself. */
static bool
fill_slices (GmTensor *dst, GmTensor *src, GError **error)
{
  g_autoptr (GmTensor) part = gm_tensor_ref (dst);
  int dim = 0;
  bool ok = true;
  for (int d = 0; d < dst->meta.ndim; d++) {
    if (dst->meta.strides[d] != 0 || dst->meta.sizes[d] <= 1)
      continue;
    GmTensor *first = slice_of (part, d, 0, error);
    gm_tensor_unref (part);
    if (!(part = first))
      return false;
  }
  if (!gm_meta_overlaps_itself (&part->meta))
    return gm_autograd_into (part, GM_OP_copy, &src, 1, NULL, error);
  while (part->meta.sizes[dim] <= 1)
    dim++;
  for (int64_t i = 0; ok && i < part->meta.sizes[dim]; i++) {
    g_autoptr (GmTensor) slice = slice_of (part, dim, i, error);
    ok = slice && fill_slices (slice, src, error);
  }
  return ok;
}

static bool
fill_overlapping (GmTensor *dst, GmTensor *src, GError **error)
{
  uint32_t version = *gm_tensor_writes (dst);
  if (!fill_slices (dst, src, error))
    return false;
  *gm_tensor_writes (dst) = version + 1; /* counts as one write */
  gm_tracked (dst);
  return true;
}

bool
gm_autograd_into (GmTensor *dst, GmOp op, GmTensor *const *in, int n_in, const GmAttrs *attrs,
                  GError **error)
{
  bool one = op == GM_OP_copy && in[0]->meta.ndim == 0;
  if (!check_writable (dst, one, error))
    return false;
  if (one && gm_meta_overlaps_itself (&dst->meta))
    return fill_overlapping (dst, in[0], error);
  bool track = false;
  if (gm_grad_enabled ()) {
    if (!gm_check_leaf (dst, error))
      return false;
    if (gm_dtype_is_float (dst->meta.dtype)) {
      GmTensor *base = gm_history_base (dst);
      track = dst->meta.requires_grad || (base && base->meta.requires_grad);
      for (int i = 0; i < n_in; i++)
        track |= gm_op_is_differentiable (op, i) && gm_tracked (in[i]);
      if (track && !check_apart (dst, error))
        return false;
    }
  }
  if (op == GM_OP_copy && !track) {
    return check_fits (op, &in[0]->meta, &dst->meta, error) && copy_values (dst, in[0], error);
  }
  const GmMeta *small[8];
  const GmMeta **metas = n_in <= 8 ? small : g_new (const GmMeta *, n_in);
  for (int i = 0; i < n_in; i++)
    metas[i] = &in[i]->meta;
  GmMeta result;
  bool ok = gm_op_infer (op, metas, n_in, attrs, &result, error);
  if (metas != small)
    g_free (metas);
  if (!ok || !check_fits (op, &result, &dst->meta, error))
    return false;
  return track ? write_recorded (dst, op, in, n_in, attrs, error)
               : write_plain (dst, op, in, n_in, attrs, &result, error);
}

void
gm_autograd_give_history (GmTensor *t, GmAgNode *n, int nr)
{
  gm_history_set (t, gm_node_ref (n), (uint32_t) nr);
  t->autograd->quiet = false;
  gm_history_was_rewritten (t);
}

void
gm_autograd_make_late (GmTensor *view)
{
  GmTensor *base = gm_tensor_view_base (view);
  if (!base || !base->meta.requires_grad)
    return;
  GmAutograd *ag = gm_ag_get (base);
  ag->epoch += ag->epoch == 0;
  gm_ag_get (view)->epoch = ag->epoch - 1;
  view->autograd->quiet = false;
  /* so that the flag is right without a refresh */
  view->meta.requires_grad = gm_dtype_is_float (view->meta.dtype);
}

bool
gm_autograd_is_late (const GmTensor *view)
{
  return gm_tensor_history_number (view) == UINT64_MAX;
}

void
gm_autograd_view_refresh (GmTensor *view)
{
  bool late = gm_autograd_is_late (view);

  gm_tensor_requires_grad (view); /* refreshes it */
  if (view->autograd)
    view->autograd->unplaced = late;
}

void
gm_autograd_place_history (GmTensor *view, GmAgNode *n, uint64_t seq)
{
  GmAutograd *ag = view->autograd;

  if (!ag || !ag->unplaced)
    return;
  ag->unplaced = false;
  if (!ag->node)
    return;
  ag->node->seq = seq;
  if (n)
    n->has_beside = true;
}

bool
gm_autograd_is_unplaced (const GmTensor *view)
{
  return view->autograd && view->autograd->unplaced;
}

bool
gm_autograd_become (GmTensor *dst, GmTensor *src, GError **error)
{
  bool whole = gm_grad_enabled () && !gm_tensor_view_base (dst) && gm_tracked (src)
               && !gm_tensor_is_leaf (src) && src->meta.dtype == dst->meta.dtype
               && gm_meta_same_shape (&src->meta, &dst->meta);

  if (!whole)
    return gm_autograd_into (dst, GM_OP_copy, &src, 1, NULL, error);
  if (!check_writable (dst, false, error) || !gm_check_leaf (dst, error)
      || !check_apart (dst, error) || !copy_values (dst, src, error))
    return false;
  gm_history_set (dst, gm_node_ref (src->autograd->node), src->autograd->nr);
  gm_history_was_rewritten (dst);
  return true;
}
