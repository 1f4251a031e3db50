/* SPDX-License-Identifier: Apache-2.0
 * movement.c -- views: a new meta over the same storage.
 *
 * The meta comes from gm_op_infer; only a slice and a diagonal change the offset of the first
 * element. A detached tensor shares storage and version but has no base, so that autograd does not
 * follow it to the base. Other dtypes, and x.data, are detached tensors.
 */
#include "core/ops/kernels.h"

int64_t
gm_movement_offset (GmOp op, const GmMeta *x, const GmAttrs *attrs, const GmMeta *view)
{
  switch (op) {
  case GM_OP_slice:
    return gm_size_mul (attrs->start, x->strides[attrs->dim]);
  case GM_OP_diagonal: /* without elements it begins where x does, which has no such column */
    return gm_size_same (view->sizes[view->ndim - 1], 0)
               ? 0
               : gm_size_mul (attrs->start, x->strides[attrs->list[1]]);
  default:
    return 0;
  }
}

/* Computes *out, the offset of x's first element in elements of meta's size; fails if it is not a
 * multiple of that size. */
static bool
bitcast_offset (const GmTensor *x, const GmMeta *meta, int64_t *out, GError **error)
{
  int64_t from = (int64_t) gm_dtype_size (x->meta.dtype),
          to = (int64_t) gm_dtype_size (meta->dtype);
  if (x->offset * from % to == 0) {
    *out = x->offset * from / to;
    return true;
  }
  g_set_error (
      error, GM_ERROR, GM_ERROR_RUNTIME,
      "view(dtype): the input begins %" G_GINT64_FORMAT
      " elements of %s after the beginning of its memory, which is no multiple of the size of %s",
      x->offset, gm_dtypes[x->meta.dtype].torch_name, gm_dtypes[meta->dtype].torch_name);
  return false;
}

GmTensor *
gm_movement_run (GmOp op, GmTensor *x, const GmAttrs *attrs, const GmMeta *meta, GError **error)
{
  int64_t offset = x->offset;
  if (gm_op_detaches (op)) {
    if (op == GM_OP_bitcast && !bitcast_offset (x, meta, &offset, error))
      return NULL;
    GmTensor *alias = gm_tensor_new_alias (x);
    alias->meta = *meta;
    alias->offset = offset;
    alias->meta.requires_grad = 0;
    if (op == GM_OP_data)
      gm_tensor_count_apart (alias);
    return alias;
  }
  GmMeta view = *meta;
  view.requires_grad = 0;
  return gm_tensor_new_view (x, &view, x->offset + gm_movement_offset (op, &x->meta, attrs, meta));
}

/* -- Memory that is there twice ---------------------------------------------------------------- */

enum { MOST_TRIED = 1 << 30 };

typedef struct {
  int64_t size, stride;
} Dim;

/* Collects the dimensions with more than one element, the smallest stride first; returns their
 * number, -1 if the tensor is empty. */
static int
moving_dims (const GmMeta *m, Dim dims[GM_MAX_DIMS])
{
  int n = 0;

  for (int d = m->ndim; d-- > 0;) {
    Dim dim = { m->sizes[d], m->strides[d] };
    int k = n;
    if (!gm_sizes_are_numbers (dim.size, dim.stride))
      dim = (Dim){ gm_size_guess (dim.size, 1), gm_size_guess (dim.stride, 1) };
    if (dim.size == 0)
      return -1;
    if (dim.size == 1)
      continue;
    for (; k > 0 && dims[k - 1].stride > dim.stride; k--)
      dims[k] = dims[k - 1];
    dims[k] = dim;
    n++;
  }
  return n;
}

/* True if two elements have the same address below `extent`. All elements are tried; beyond the
 * extents of real tensors, true is assumed. */
static bool
meet (const Dim *dims, int n, int64_t extent)
{
  int64_t at[GM_MAX_DIMS] = { 0 }, numel = 1, address = 0;

  for (int k = 0; k < n; k++)
    if (__builtin_mul_overflow (numel, dims[k].size, &numel) || numel > extent)
      return true;
  if (extent > MOST_TRIED)
    return true;
  g_autofree uint8_t *seen = g_malloc0 ((size_t) extent / 8 + 1);
  for (int64_t i = 0; i < numel; i++) {
    if (seen[address / 8] >> (address % 8) & 1)
      return true;
    seen[address / 8] |= (uint8_t) (1u << (address % 8));
    for (int k = 0; k < n; k++) {
      address += dims[k].stride;
      if (++at[k] < dims[k].size)
        break;
      address -= at[k] * dims[k].stride;
      at[k] = 0;
    }
  }
  return false;
}

bool
gm_meta_overlaps_itself (const GmMeta *m)
{
  Dim dims[GM_MAX_DIMS];
  int n = moving_dims (m, dims);
  int64_t reach = 0;
  bool crosses = false;

  for (int k = 0; k < n; k++) {
    if (dims[k].stride == 0)
      return true;
    crosses |=
        dims[k].stride <= reach; /* else a step along it is more than all before it together */
    int64_t most;
    if (__builtin_mul_overflow (dims[k].size - 1, dims[k].stride, &most)
        || __builtin_add_overflow (reach, most, &reach))
      return true; /* such strides occur in no real memory */
  }
  return crosses && meet (dims, n, reach + 1);
}
