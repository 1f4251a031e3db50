/* SPDX-License-Identifier: Apache-2.0
 * eager_builder.c -- the builder that executes: a value is a tensor.
 *
 * It owns every tensor that it made, the first few without touching the heap, and drops them all in
 * clear; a caller keeps a result by taking its own reference before that.  Ops go through the tape,
 * so the grad mode alone decides if a program is differentiable.
 */
#include "core/autograd/node.h"
#include "core/tensor/storage.h"

#include "core/api/api.h"
#include "core/tensor/device.h"

static GmTensor *
own (GmEagerBuilder *b, GmTensor *t)
{
  if (!t)
    return NULL;
  if (b->n_inline < (int) G_N_ELEMENTS (b->inline_owned)) {
    b->inline_owned[b->n_inline++] = t;
    return t;
  }
  if (!b->owned)
    b->owned = g_ptr_array_new_with_free_func ((GDestroyNotify) gm_tensor_unref);
  g_ptr_array_add (b->owned, t);
  return t;
}

static void
note_outside (GmBuilder *base)
{
  base->outside = g_error_matches (base->error, GM_ERROR, GM_ERROR_INDEX);
}

static GmVal
eager_op (GmBuilder *base, GmOp op, const GmVal *in, int n_in, const GmAttrs *attrs)
{
  GmTensor *t;
  if (op == GM_OP_full && attrs->n_list == 0 && !attrs->device
      && gm_dtypes[attrs->dtype].live) /* numbers in programs: no rules to ask */
    t = gm_tensor_new_scalar (attrs->value, (GmDtype) attrs->dtype, &base->error);
  else
    t = gm_autograd_op (op, (GmTensor *const *) in, n_in, attrs, &base->error);
  if (G_UNLIKELY (!t))
    note_outside (base);
  return gm_val_from_tensor (own ((GmEagerBuilder *) base, t));
}

static const GmMeta *
eager_meta (GmBuilder *base, GmVal v)
{
  GmTensor *t = gm_tensor_from_val (v);
  if (G_UNLIKELY (t->base && !t->meta.requires_grad) && gm_grad_enabled ())
    gm_tensor_requires_grad (t); /* refreshes it: its memory may have got a history through
                                  * another tensor */
  return &t->meta;
}

static GmVal
eager_into (GmBuilder *base, GmVal dst, GmOp op, const GmVal *in, int n_in, const GmAttrs *attrs)
{
  bool ok = gm_autograd_into (gm_tensor_from_val (dst), op, (GmTensor *const *) in, n_in, attrs,
                              &base->error);
  if (G_UNLIKELY (!ok))
    note_outside (base);
  return ok ? dst : NULL;
}

/* Draws n_elements random numbers from the process's generator, and returns the state that makes
 * them, {seed, number of the first draw}.  Sets *offset to 0: the state begins at these numbers. */
static GmVal
eager_random (GmBuilder *base, uint64_t n_elements, int64_t *offset)
{
  GmMeta m = gm_meta_make (GM_I64, 1, (const int64_t[]){ 2 });
  GmTensor *state = gm_tensor_new (&m, &base->error);
  *offset = 0;
  if (!state)
    return NULL;
  int64_t *words = gm_tensor_data (state);
  gm_random_get_state (words);
  words[1] = (int64_t) gm_random_take (n_elements / 4 + (n_elements % 4 != 0));
  return gm_val_from_tensor (own ((GmEagerBuilder *) base, state));
}

static GmVal
eager_constant (GmBuilder *base, GmTensor *t)
{
  /* a constant of the CPU inside of a function on a device */
  bool moves = base->device == GM_DEVICE_CUDA && t->meta.device == GM_DEVICE_CPU;
  GmTensor *there = moves ? gm_tensor_to_device (t, base->device, &base->error) : gm_tensor_ref (t);
  return gm_val_from_tensor (own ((GmEagerBuilder *) base, there));
}

static bool
eager_item (GmBuilder *base, GmVal v, GmScalar *out)
{
  GmTensor *t = gm_tensor_from_val (v);
  static const int64_t origin[GM_MAX_DIMS];
  if (gm_meta_numel (&t->meta) != 1) {
    g_autofree char *text = gm_meta_text (&t->meta);
    gm_b_fail (base, GM_ERROR_RUNTIME,
               "a tensor %s cannot be converted to a number: it must have exactly one element",
               text);
    return false;
  }
  *out = gm_tensor_get (t, origin);
  return true;
}

static GmVal
eager_set (GmBuilder *base, GmVal dst, GmVal src)
{
  return gm_autograd_set (gm_tensor_from_val (dst), gm_tensor_from_val (src), &base->error) ? dst
                                                                                            : NULL;
}

static int64_t
eager_offset (GmBuilder *base, GmVal v)
{
  (void) base;
  return gm_tensor_from_val (v)->offset;
}

/* Returns a tensor that v is a view of, and sets *offset: its base, if both have one history, else
 * NULL; with gradients off, a tensor over all of v's memory. */
static GmVal
eager_around (GmBuilder *base, GmVal v, int64_t *offset)
{
  GmTensor *t = gm_tensor_from_val (v), *whole = gm_tensor_view_base (t);
  bool tracked = gm_tracked (t);
  if (whole && gm_meta_is_dense (&whole->meta) && whole->meta.dtype == t->meta.dtype
      && gm_history_base (t) == whole
      && tracked == gm_tracked (whole)) { /* a leaf between the two would be left out */
    *offset = t->offset - whole->offset;
    return gm_val_from_tensor (whole);
  }
  if (tracked)
    return NULL;
  int64_t n = (int64_t) (t->storage->bytes / gm_dtype_size (t->meta.dtype));
  GmTensor *all = gm_tensor_new_alias (t);
  all->meta = gm_meta_make ((GmDtype) t->meta.dtype, 1, &n);
  all->meta.device = t->meta.device;
  all->offset = 0;
  *offset = t->offset;
  return gm_val_from_tensor (own ((GmEagerBuilder *) base, all));
}

static GmVal
eager_resized (GmBuilder *base, GmVal v, int n, const int64_t *sizes)
{
  GmTensor *t = gm_tensor_resized (gm_tensor_from_val (v), n, sizes, &base->error);
  return t ? gm_val_from_tensor (own ((GmEagerBuilder *) base, t)) : NULL;
}

static const GmBuilderVtable eager_vtable = { .op = eager_op,
                                              .meta = eager_meta,
                                              .into = eager_into,
                                              .random = eager_random,
                                              .constant = eager_constant,
                                              .item = eager_item,
                                              .set = eager_set,
                                              .around = eager_around,
                                              .offset = eager_offset,
                                              .resized = eager_resized };

void
gm_eager_builder_init (GmEagerBuilder *b)
{
  b->base.vt = &eager_vtable;
  b->base.error = NULL;
  b->base.generator = NULL;
  b->base.device = 0;
  b->base.autocast = gm_autocast_mode ();
  b->base.outside = b->base.masked = b->base.gradient = false;
  b->base.marks = 0;
  b->base.refuses_draws = gm_draws_refused ();
  b->owned = NULL;
  b->n_inline = 0;
}

void
gm_eager_builder_clear (GmEagerBuilder *b)
{
  for (int i = 0; i < b->n_inline; i++)
    gm_tensor_unref (b->inline_owned[i]);
  b->n_inline = 0;
  g_clear_pointer (&b->owned, g_ptr_array_unref);
  g_clear_error (&b->base.error);
}
