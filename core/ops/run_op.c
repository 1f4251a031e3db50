/* SPDX-License-Identifier: Apache-2.0
 * run_op.c -- one op on real tensors: infer, allocate, run the family's kernel.
 *
 * No autograd here: results have requires_grad 0, and core/autograd records around these calls.
 * Every eager op comes through gm_op_run, so its common case, elementwise on row-major tensors of
 * one shape, is decided first and goes straight to the tile. Memory that is written is checked:
 * never read-only storage, never a tensor whose own elements share memory, never an input that is
 * still to be read.
 */
#include "core/ops/infer.h"
#include "core/ops/kernels.h"

#include "core/tensor/device.h"

#include <string.h>

const GmTiles *gm_run_tiles;
bool (*gm_op_run_on_device) (GmOp op, GmTensor *const *in, int n_in, const GmAttrs *attrs,
                             GmTensor *out, GError **error);

#define FEW 8 /* inputs whose metas need no allocation: all ops but a long cat */

/* -- Checks ------------------------------------------------------------------------------------ */

/* Finds the tiles of this CPU; false: an error is set. The tables are constant once found: threads
 * that race here store the same pointer. */
static bool
find_tiles (GError **error)
{
  const char *why = "unknown reason";
  gm_run_tiles = gm_tiles_get (&why);
  return gm_run_tiles
         || gm_infer_fail (error, GM_ERROR_UNSUPPORTED,
                           "this CPU cannot run gramme's tensor arithmetic: %s", why);
}

bool
gm_op_may_be_strided (GmOp op, const GmMeta *is, const GmMeta *m)
{
  GmMeta same = *is;
  int64_t last = 0, step;
  if ((gm_ops[op].family != GM_FAMILY_POINTWISE && gm_ops[op].family != GM_FAMILY_CAST)
      || gm_meta_is_symbolic (m))
    return false;
  same.requires_grad = m->requires_grad;
  memcpy (same.strides, m->strides, sizeof same.strides);
  if (memcmp (&same, m, sizeof same) || gm_meta_overlaps_itself (m))
    return false;
  for (int d = 0; d < m->ndim; d++)
    if (m->strides[d] < 0 || __builtin_mul_overflow (m->sizes[d], m->strides[d], &step)
        || __builtin_add_overflow (last, step, &last))
      return false;
  return last <= INT64_MAX / 16; /* a number of elements, in bytes */
}

static bool
check_writable (GmOp op, const GmTensor *out, GError **error)
{
  if (out->storage->readonly)
    return gm_infer_fail (error, GM_ERROR_RUNTIME,
                          "%s: the written-to tensor is read-only memory; clone () it first",
                          gm_ops[op].name);
  if (gm_meta_overlaps_itself (&out->meta)) {
    g_autofree char *shape = gm_shape_text (out->meta.ndim, out->meta.sizes);
    g_autofree char *strides = gm_shape_text (out->meta.ndim, out->meta.strides);
    return gm_infer_fail (
        error, GM_ERROR_RUNTIME,
        "%s: unsupported operation: more than one element of the written-to tensor (shape %s, "
        "strides %s) "
        "refers to a single memory location; clone () the tensor before performing the operation",
        gm_ops[op].name, shape, strides);
  }
  return true;
}

static bool
identical (const GmTensor *a, const GmTensor *b)
{
  bool same =
      gm_tensor_data (a) == gm_tensor_data (b) && a->meta.dtype == b->meta.dtype
      && a->meta.ndim == b->meta.ndim; /* two storages may stand for the same foreign memory */
  for (int d = 0; same && d < a->meta.ndim; d++)
    same = a->meta.sizes[d] == b->meta.sizes[d] && a->meta.strides[d] == b->meta.strides[d];
  return same;
}

/* True if an input would be changed before it is completely read. */
static bool
needs_temporary (GmOp op, GmTensor *const *in, int n_in, const GmTensor *out)
{
  for (int i = 0; i < n_in; i++)
    if (gm_tensor_may_overlap (in[i], out)
        && !(out->meta.device == GM_DEVICE_CPU && gm_ops[op].family == GM_FAMILY_POINTWISE
             && identical (in[i], out)))
      return true;
  return false;
}

/* -- Metas ------------------------------------------------------------------------------------- */

static bool
infer_tensors (GmOp op, GmTensor *const *in, int n_in, const GmAttrs *attrs, GmMeta *out,
               GError **error)
{
  const GmMeta *few[FEW] = { NULL };
  size_t bytes = sizeof (GmMeta *) * (size_t) MAX (n_in, 0);
  const GmMeta **metas = n_in <= FEW ? few : gm_alloc (bytes);
  if (!metas)
    return gm_infer_fail (error, GM_ERROR_MEMORY, "%s: no memory for a list of %d tensors",
                          gm_ops[op].name, n_in);
  for (int i = 0; i < n_in; i++)
    metas[i] = &in[i]->meta;
  bool ok = gm_op_infer (op, metas, n_in, attrs, out, error);
  if (metas != few)
    gm_free (metas, bytes);
  return ok;
}

static bool
check_result (GmOp op, const GmMeta *inferred, const GmMeta *out, GError **error)
{
  if (inferred->dtype == out->dtype && gm_meta_same_shape (inferred, out)
      && inferred->device == out->device)
    return true;
  g_autofree char *a = gm_meta_text (inferred), *b = gm_meta_text (out);
  return gm_infer_fail (error, GM_ERROR_RUNTIME,
                        "%s: the result is %s and does not fit the given output %s",
                        gm_ops[op].name, a, b);
}

static bool copy_between (GmTensor *dst, GmTensor *src, GError **error);

/* -- Running ----------------------------------------------------------------------------------- */

/* Fills a tensor on another device: zeros by the device itself, another number as a copy of one
 * element, so that no kernel is made for each number. */
static bool
fill_on_device (const GmAttrs *attrs, GmTensor *out, GError **error)
{
  GmDtype dtype = (GmDtype) out->meta.dtype;
  size_t elem = gm_dtype_size (dtype);
  static const char zeros[8];
  char value[8] __attribute__ ((aligned (8))) = { 0 };
  gm_scalar_store (attrs->value, dtype, value);
  const GmDevice *d = gm_device_get (out->meta.device, error);
  if (!d)
    return false;
  if (memcmp (value, zeros, elem) == 0 && gm_meta_is_dense (&out->meta)) {
    size_t bytes = (size_t) gm_meta_numel (&out->meta) * elem;
    return bytes == 0 || d->zero (gm_tensor_data (out), bytes, error);
  }
  g_autoptr (GmTensor) one = gm_tensor_new_scalar (attrs->value, dtype, error);
  return one && copy_between (out, one, error);
}

/* Returns op (x, s) as a new reference; NULL after an error, or if x is NULL. */
static GmTensor *
with_number (GmOp op, GmTensor *x, GmScalar s, GError **error)
{
  g_autoptr (GmTensor) number = x ? gm_tensor_new_scalar (s, (GmDtype) x->meta.dtype, error) : NULL;
  return number ? gm_op_run (op, (GmTensor *[]){ x, number }, 2, NULL, error) : NULL;
}

/* Makes an `arange` on another device, from one that counts 0, 1, 2 ...: its kernels serve all
 * first numbers and steps. In 64 bits, as in create.c. */
static bool
count_on_device (const GmAttrs *attrs, GmTensor *out, GError **error)
{
  bool whole = attrs->value.kind != GM_CATEGORY_FLOAT && attrs->value2.kind != GM_CATEGORY_FLOAT;
  bool plain = whole && attrs->value.i == 0 && attrs->value2.i == 1;
  if (plain && out->meta.dtype == GM_I64)
    return gm_op_run_on_device (GM_OP_arange, NULL, 0, attrs, out, error);
  GmAttrs count = *attrs, wide = { .mask = 1u << GM_ATTR_DTYPE, .dtype = GM_F64 };
  count.dtype = GM_I64;
  count.value = gm_scalar_int (0);
  count.value2 = gm_scalar_int (1);
  g_autoptr (GmTensor) n = gm_op_run (GM_OP_arange, NULL, 0, &count, error);
  g_autoptr (GmTensor) place =
      !n || whole ? g_steal_pointer (&n) : gm_op_run (GM_OP_cast, &n, 1, &wide, error);
  GmScalar first = whole ? attrs->value : gm_scalar_float (gm_scalar_as_double (attrs->value));
  GmScalar step = whole ? attrs->value2 : gm_scalar_float (gm_scalar_as_double (attrs->value2));
  g_autoptr (GmTensor) scaled =
      plain ? g_steal_pointer (&place) : with_number (GM_OP_mul, place, step, error);
  g_autoptr (GmTensor) moved =
      plain ? g_steal_pointer (&scaled) : with_number (GM_OP_add, scaled, first, error);
  return moved && copy_between (out, moved, error);
}

static bool
run_on_device (GmOp op, GmTensor *const *in, int n_in, const GmAttrs *attrs, GmTensor *out,
               GError **error)
{
  if (gm_meta_numel (&out->meta) == 0)
    return true;
  return op == GM_OP_full     ? fill_on_device (attrs, out, error)
         : op == GM_OP_arange ? count_on_device (attrs, out, error)
                              : gm_op_run_on_device (op, in, n_in, attrs, out, error);
}

static bool
dispatch (GmOp op, GmTensor *const *in, int n_in, const GmAttrs *attrs, GmTensor *out,
          GError **error)
{
  if (G_UNLIKELY (out->meta.device != GM_DEVICE_CPU))
    return run_on_device (op, in, n_in, attrs, out, error);
  switch ((GmFamily) gm_ops[op].family) {
  case GM_FAMILY_POINTWISE:
    gm_pointwise_run (op, in, n_in, out);
    return true;
  case GM_FAMILY_CAST:
    gm_copy_strided (out, in[0]);
    return true;
  case GM_FAMILY_REDUCE:
    gm_reduce_run (op, in[0], attrs, out);
    return true;
  case GM_FAMILY_ARGREDUCE:
    gm_argreduce_run (op, in[0], attrs, out);
    return true;
  case GM_FAMILY_CONTRACT:
    return gm_contract_run (in[0], in[1], out, error);
  case GM_FAMILY_CONVOLVE:
    if (op == GM_OP_window_pick || op == GM_OP_window_spread)
      return gm_pool_run (op, in, attrs, out, error);
    return gm_convolve_run (op, in, attrs, out, error);
  case GM_FAMILY_INDEX:
    return gm_index_run (op, in, n_in, attrs, out, error);
  case GM_FAMILY_SCAN:
    gm_running_run (op, in[0], attrs, out);
    return true;
  case GM_FAMILY_RANDOM:
    gm_random_run (op, in[0], attrs, out);
    return true;
  case GM_FAMILY_CREATE:
    return gm_create_run (op, attrs, out, error);
  case GM_FAMILY_CUSTOM:
    gm_copy_strided (out, in[0]);
    return true;
  case GM_FAMILY_MOVEMENT:
  case GM_FAMILY_MUTATE:
  case GM_FAMILY_HIGHER: /* the owner of the bodies runs it */
  case GM_FAMILY_NONE:
    break;
  }
  g_assert_not_reached ();
}

/* Copies src's elements to dst: cast, broadcast, between any devices. */
static bool
copy_between (GmTensor *dst, GmTensor *src, GError **error)
{
  if (dst->meta.device == GM_DEVICE_CPU && src->meta.device == GM_DEVICE_CPU) {
    gm_copy_strided (dst, src);
    return true;
  }
  g_autoptr (GmTensor) here = gm_tensor_to_device (src, dst->meta.device, error);
  if (!here)
    return false;
  if (dst->meta.device == GM_DEVICE_CPU) {
    gm_copy_strided (dst, here);
    return true;
  }
  GmAttrs attrs = { .mask = 1u << GM_ATTR_DTYPE, .dtype = dst->meta.dtype };
  bool same = here->meta.dtype == dst->meta.dtype;
  GmMeta meta = here->meta;
  int lead = dst->meta.ndim - meta.ndim; /* a view of dst's shape: repeated with strides of 0 */
  for (int d = dst->meta.ndim - 1; d >= 0; d--) {
    int64_t size = d >= lead ? here->meta.sizes[d - lead] : 1;
    meta.sizes[d] = dst->meta.sizes[d];
    meta.strides[d] = size == dst->meta.sizes[d] && d >= lead ? here->meta.strides[d - lead] : 0;
  }
  meta.ndim = dst->meta.ndim;
  g_autoptr (GmTensor) wide = gm_tensor_new_view (here, &meta, here->offset);
  return gm_op_run_on_device (same ? GM_OP_copy : GM_OP_cast, &wide, 1, same ? NULL : &attrs, dst,
                              error);
}

/* Runs copy_ or set_; returns a new reference to dst, NULL on error. copy_ writes elements; set_
 * writes none, but counts as a write to the memory that dst still has. */
static GmTensor *
run_mutate (GmOp op, GmTensor *dst, GmTensor *src, GError **error)
{
  if (op == GM_OP_set_) {
    gm_tensor_become (dst, src);
    return gm_tensor_ref (dst);
  }
  if (!check_writable (op, dst, error))
    return NULL;
  if (!identical (dst, src)) {
    g_autoptr (GmTensor) copy = NULL;
    if (gm_tensor_may_overlap (dst, src)) {
      copy = gm_op_run (GM_OP_copy, &src, 1, NULL, error);
      if (!copy)
        return NULL;
    }
    if (!copy_between (dst, copy ? copy : src, error))
      return NULL;
  }
  (*gm_tensor_writes (dst))++;
  return gm_tensor_ref (dst);
}

/* Returns the result of the common case; NULL with no error set: the general way has to decide. */
static inline GmTensor *
run_plain (GmOp op, GmTensor *const *in, int n_in, GError **error)
{
  const GmMeta *metas[3] = { &in[0]->meta };
  GmMeta meta;
  bool scalars = false;
  for (int i = 1; i < n_in; i++) {
    metas[i] = &in[i]->meta;
    scalars |= in[i]->meta.ndim != in[0]->meta.ndim;
  }
  if (!gm_infer_plain (op, metas, n_in, &meta) || meta.device != GM_DEVICE_CPU)
    return NULL;
  GmTensor *out = gm_tensor_new (&meta, error);
  if (!out)
    return NULL;
  if (scalars) {
    gm_pointwise_run (op, in, n_in, out);
    return out;
  }
  size_t n = 1;
  for (int d = 0; d < meta.ndim; d++)
    n *= (size_t) meta.sizes[d];
  gm_run_tiles->pointwise (op, in[0]->meta.dtype) (gm_tensor_data (out), gm_tensor_data (in[0]),
                                                   n_in > 1 ? gm_tensor_data (in[1]) : NULL,
                                                   n_in > 2 ? gm_tensor_data (in[2]) : NULL, n);
  return out;
}

GmTensor *
gm_op_run (GmOp op, GmTensor *const *in, int n_in, const GmAttrs *attrs, GError **error)
{
  if (G_UNLIKELY (!gm_run_tiles) && !find_tiles (error))
    return NULL;
  if (n_in >= 1 && n_in <= 3 && (unsigned) op < GM_N_OPS && gm_ops[op].family == GM_FAMILY_POINTWISE
      && (!attrs || !attrs->mask)) {
    g_autoptr (GError) why = NULL;
    GmTensor *out = run_plain (op, in, n_in, &why);
    if (out)
      return out;
    if (why) {
      g_propagate_error (error, g_steal_pointer (&why));
      return NULL;
    }
  }
  GmMeta meta;
  if (!infer_tensors (op, in, n_in, attrs, &meta, error))
    return NULL;
  if (gm_ops[op].family == GM_FAMILY_MOVEMENT)
    return gm_movement_run (op, in[0], attrs, &meta, error);
  if (gm_ops[op].family == GM_FAMILY_MUTATE)
    return run_mutate (op, in[0], in[1], error);
  meta.requires_grad = 0;
  GmTensor *out = gm_tensor_new (&meta, error);
  if (out && !dispatch (op, in, n_in, attrs, out, error))
    g_clear_pointer (&out, gm_tensor_unref);
  return out;
}

bool
gm_op_run_into (GmOp op, GmTensor *const *in, int n_in, const GmAttrs *attrs, GmTensor *out,
                GError **error)
{
  GmMeta meta;
  if (G_UNLIKELY (!gm_run_tiles) && !find_tiles (error))
    return false;
  if (!infer_tensors (op, in, n_in, attrs, &meta, error)
      || !check_result (op, &meta, &out->meta, error) || !check_writable (op, out, error))
    return false;
  GmFamily family = (GmFamily) gm_ops[op].family;
  g_return_val_if_fail (family != GM_FAMILY_MOVEMENT && family != GM_FAMILY_MUTATE, false);
  if (!needs_temporary (op, in, n_in, out))
    return dispatch (op, in, n_in, attrs, out, error);
  g_autoptr (GmTensor) temporary = gm_op_run (op, in, n_in, attrs, error);
  return temporary && copy_between (out, temporary, error);
}

bool
gm_op_run_copy_into (GmOp op, GmTensor *const *in, int n_in, const GmAttrs *attrs, GmTensor *out,
                     GError **error)
{
  if ((unsigned) op >= GM_N_OPS || gm_ops[op].family != GM_FAMILY_MOVEMENT)
    return gm_op_run_into (op, in, n_in, attrs, out, error);
  g_autoptr (GmTensor) view = gm_op_run (op, in, n_in, attrs, error);
  if (!view || !check_result (op, &view->meta, &out->meta, error))
    return false;
  return gm_op_run_into (GM_OP_copy, &view, 1, NULL, out, error);
}
