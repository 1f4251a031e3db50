/* SPDX-License-Identifier: Apache-2.0
 * inplace_metadata.c -- a tensor object that becomes another tensor: t_, squeeze_, resize_, set_;
 * or loses its history: detach_.
 *
 * No element is written.  What the object was, a shape over memory and a history, is replaced by
 * what `src` is; the object, its base and the waiters for its gradient stay.  Nodes keep aliases of
 * what they saved (tape.c), so nothing that was recorded before sees another shape.
 */
#include "core/autograd/node.h"
#include "core/tensor/fence.h"

#include <string.h>

static bool
fail (GError **error, const char *what)
{
  g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME,
               "changing a tensor's shape or memory in place: %s", what);
  return false;
}

/* True if views of dst stay inside of it when it becomes src: they find their elements by their
 * place in dst.  Otherwise a view that is no longer inside of dst keeps its history until dst is
 * written to (gm_view_refresh), and a write to dst does not change that view. */
static bool
keeps_elements (const GmTensor *dst, const GmTensor *src)
{
  return dst->offset == src->offset && !gm_meta_overlaps_itself (&src->meta)
         && gm_meta_numel (&dst->meta) == gm_meta_numel (&src->meta)
         && gm_meta_extent (&dst->meta) == gm_meta_extent (&src->meta);
}

static bool
check (GmTensor *dst, GmTensor *src, GError **error)
{
  bool tracked = gm_tracked (dst);
  if (dst->meta.dtype != src->meta.dtype || dst->meta.device != src->meta.device) {
    g_autofree char *a = gm_meta_text (&dst->meta), *b = gm_meta_text (&src->meta);
    g_autofree char *what = g_strdup_printf ("%s cannot become %s: dtype and device stay", a, b);
    return fail (error, what);
  }
  if (dst->storage != src->storage && gm_fence_refuses (dst)) {
    g_set_error_literal (error, GM_ERROR, GM_ERROR_RUNTIME, GM_FENCE_REASON);
    return false;
  }
  if (gm_grad_enabled ()) {
    if (!gm_check_leaf (dst, error))
      return false;
  } else if (tracked && !gm_tensor_is_leaf (dst)) {
    return fail (error,
                 "with gradients off, a tensor that has a history would keep one for its old "
                 "shape; do it with gradients on, or on a detach ()");
  }
  return true;
}

/* -- Views that stay behind -------------------------------------------------------------------- */

/* Notes in dst, a base, that it is given other memory at its present epoch: views that are not
 * stale keep their history. */
static void
note_left (GmTensor *dst)
{
  GmAutograd *ag = dst->autograd;

  if (!ag || gm_tensor_view_base (dst))
    return;
  if (!ag->left)
    ag->left = g_array_new (FALSE, FALSE, sizeof ag->epoch);
  g_array_append_val (ag->left, ag->epoch);
}

bool
gm_is_left_behind (const GmTensor *view)
{
  const GArray *left = view->base->autograd->left;
  uint32_t epoch = view->autograd ? view->autograd->epoch : 0;

  if (view->autograd && view->autograd->quiet)
    return false;
  for (guint i = 0; i < left->len; i++)
    if (g_array_index (left, uint32_t, i) == epoch)
      return false;
  return true;
}

void
gm_view_give_up (GmTensor *view)
{
  const GArray *left = view->base->autograd->left;

  gm_ag_get (view)->epoch = g_array_index (left, uint32_t, left->len - 1);
  gm_autograd_lose (
      &view, 1, NULL, 0, 0,
      "set_: a view has no gradient: what it was taken of was written to, and took other memory "
      "before the view had its "
      "new history; ask for the view's grad_fn before set_ (), or take the view again");
}

void
gm_view_lose_place (GmTensor *view)
{
  gm_autograd_lose (&view, 1, NULL, 0, 0,
                    "a view has no gradient: the tensor that it was taken of took other elements "
                    "in place (as_strided_, resize_), and was "
                    "written to since; take the view again");
}

/* Notes in t, a base, that it has been moved within its own memory, so that its views may be
 * outside of it. */
static void
note_reshaped (GmTensor *t)
{
  if (t->autograd && !t->base)
    t->autograd->reshaped = MAX (t->autograd->epoch, 1);
}

bool
gm_autograd_set (GmTensor *dst, GmTensor *src, GError **error)
{
  if (dst == src) { /* a write of nothing */
    if (gm_grad_enabled () && !gm_check_leaf (dst, error))
      return false;
    (*gm_tensor_writes (dst))++;
    return true;
  }
  if (!check (dst, src, error))
    return false;
  bool is_on = gm_grad_enabled ();
  GmEdge history = is_on ? gm_edge_to (src) : (GmEdge){ NULL, 0 };
  bool had = dst->meta.requires_grad;
  bool moves = dst->storage == src->storage && !keeps_elements (dst, src);
  if (dst->storage != src->storage)
    note_left (dst);
  gm_tensor_become (dst, src);
  if (history.node) {
    gm_history_set (dst, history.node, history.nr);
    dst->autograd->quiet = false;
    gm_history_was_rewritten (dst);
  } else if (is_on && had) {
    gm_history_set (dst, NULL, 0);
    /* dst takes part in no history any more if src takes part in none */
    dst->autograd->quiet = gm_tensor_view_base (dst) != NULL;
  }
  if (moves)
    note_reshaped (dst);
  return true;
}

void
gm_autograd_set_data (GmTensor *t, GmTensor *from)
{
  GmMeta was = t->meta;
  bool other = t->storage != from->storage, moves = !other && !keeps_elements (t, from);

  gm_tracked (t); /* a history that follows from a write to its base must be made for the elements
                   * that t still has */
  if (other)
    note_left (t);
  GmTensor *alias = gm_tensor_new_alias (from); /* a reference to the storage, swapped for t's */
  GmStorage *old = t->storage;
  t->storage = alias->storage;
  t->offset = alias->offset;
  t->meta = alias->meta;
  t->meta.requires_grad = was.requires_grad;
  gm_tensor_meta_changed (t);
  alias->storage = old;
  gm_tensor_unref (alias);
  if (moves)
    note_reshaped (t);
  bool fits = was.ndim == t->meta.ndim
              && !memcmp (was.sizes, t->meta.sizes, sizeof *was.sizes * was.ndim)
              && was.dtype == t->meta.dtype && was.device == t->meta.device;
  if (!fits && !gm_tensor_is_leaf (t))
    gm_autograd_lose (&t, 1, NULL, 0, 0,
                      "the data of a tensor with a history was set to one of another shape, dtype "
                      "or device, which no gradient fits");
}

bool
gm_autograd_cut_off (GmTensor *t, GError **error)
{
  if (gm_tensor_view_base (t)) {
    g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME,
                 "Can't detach views in-place. Use detach() instead");
    return false;
  }
  if (gm_tracked (t) && !gm_tensor_is_leaf (t)) {
    gm_history_set (t, NULL, 0);
    t->autograd->quiet = false;
  }
  if (t->meta.requires_grad)
    gm_tensor_meta_changed (t);
  t->meta.requires_grad = 0;
  return true;
}
