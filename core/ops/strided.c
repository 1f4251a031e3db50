/* SPDX-License-Identifier: Apache-2.0
 * strided.c -- builds a tensor of given sizes and strides over flat memory from slice, view,
 * unfold, permute and expand.
 *
 * Memory is cut into rows of the largest stride, each row again into rows of the next stride, and
 * so on; if the last row ends before its stride does, rows begin earlier. So such a tensor is a
 * chain of operators that gradients, writes and back ends support. If dimensions cross each other,
 * or there is no room for whole rows, the rows are windows (unfold), which may overlap. Requires:
 * sizes and strides that are numbers.
 */
#include "core/ops/builder.h"

#include <string.h>

typedef struct {
  int64_t size, stride;
} Dim;

/* Finds the dimensions of `want` with more than one element and a stride, the largest stride first;
 * order[k]: their numbers. Returns their number. */
static int
moving_dims (const GmMeta *want, int order[GM_MAX_DIMS])
{
  int n = 0;

  for (int d = 0; d < want->ndim; d++) {
    int k = n;
    if (want->sizes[d] <= 1 || want->strides[d] == 0)
      continue;
    for (; k > 0 && want->strides[order[k - 1]] < want->strides[d]; k--)
      order[k] = order[k - 1];
    order[k] = d;
    n++;
  }
  return n;
}

/* Merges neighbouring dimensions without a gap between them into `dims`; returns the number of
 * merged dimensions. */
static int
merge_dims (const GmMeta *want, const int *order, int n, Dim *dims)
{
  int n_dims = 0;

  for (int k = 0; k < n; k++) {
    Dim d = { want->sizes[order[k]], want->strides[order[k]] };
    if (n_dims > 0 && dims[n_dims - 1].stride == d.size * d.stride)
      dims[n_dims - 1] = (Dim){ dims[n_dims - 1].size * d.size, d.stride };
    else
      dims[n_dims++] = d;
  }
  return n_dims;
}

static GmVal
fail (GmBuilder *b, const GmMeta *want)
{
  g_autofree char *text = gm_meta_text (want), *strides = gm_shape_text (want->ndim, want->strides);

  return gm_b_fail (b, GM_ERROR_UNSUPPORTED, "no slices of memory make a tensor %s with strides %s",
                    text, strides);
}

/* Returns the elements of v's last dimension from `offset` on as dimensions `dims`; sets an error
 * if they do not fit. */
static GmVal
cut (GmBuilder *b, GmVal v, int64_t offset, const Dim *dims, int n, const GmMeta *want)
{
  int64_t sizes[GM_MAX_DIMS], length = gm_meta_numel (gm_b_meta (b, v)), inner = 1;

  for (int k = 0; k < n; k++)
    inner += (dims[k].size - 1) * dims[k].stride;
  if (offset < 0 || offset + inner > length)
    return fail (b, want);
  for (int k = 0; k < n; k++) {
    int64_t size = dims[k].size, stride = dims[k].stride;
    if (k + 1 == n)
      return gm_b_slice (b, v, k, offset, offset + (size - 1) * stride + 1, stride);
    inner -= (size - 1) * stride;
    int64_t start = MIN (offset, length - size * stride);
    if (inner > stride || start < 0) {
      v = gm_b_slice (b, v, k, offset, offset + (size - 1) * stride + inner, 1);
      v = gm_b_unfold (b, v, k, inner, stride);
      length = inner;
      offset = 0;
      continue;
    }
    v = gm_b_slice (b, v, k, start, start + size * stride, 1);
    memcpy (sizes, gm_b_meta (b, v)->sizes, sizeof sizes);
    sizes[k] = size;
    sizes[k + 1] = length = stride;
    v = gm_b_view (b, v, k + 2, sizes);
    offset -= start;
  }
  return gm_b_slice (b, v, 0, offset, offset + 1, 1);
}

/* Returns v with the wanted stride in a dimension of one element, whose stride decides the order in
 * which results are laid out; v itself if no slice gives this stride. */
static GmVal
stretch (GmBuilder *b, GmVal v, int dim, int64_t stride)
{
  int64_t is = gm_b_failed (b) ? 0 : gm_b_meta (b, v)->strides[dim];

  return is > 0 && stride > is && stride % is == 0 ? gm_b_slice (b, v, dim, 0, 1, stride / is) : v;
}

GmVal
gm_b_strided (GmBuilder *b, GmVal flat, int64_t offset, const GmMeta *want)
{
  int order[GM_MAX_DIMS], n = moving_dims (want, order), at = n;
  int64_t sizes[GM_MAX_DIMS], dims[GM_MAX_DIMS];
  bool moves[GM_MAX_DIMS] = { false };
  Dim merged[GM_MAX_DIMS];

  if (gm_b_failed (b))
    return NULL;
  for (int d = 0; d < want->ndim; d++)
    if (want->strides[d] < 0)
      return fail (b, want);
  if (gm_meta_numel (want) == 0)
    return gm_b_view (b, gm_b_slice (b, flat, 0, 0, 0, 1), want->ndim, want->sizes);
  flat = cut (b, flat, offset, merged, merge_dims (want, order, n, merged), want);
  for (int k = 0; k < n; k++) {
    moves[order[k]] = true;
    dims[order[k]] = k;
    sizes[k] = want->sizes[order[k]];
  }
  for (int d = 0; d < want->ndim; d++) /* then the dimensions that do not move */
    if (!moves[d]) {
      dims[d] = at;
      sizes[at++] = 1;
    }
  flat = gm_b_view (b, flat, want->ndim, sizes);
  for (int d = 0; d < want->ndim; d++)
    if (!moves[d])
      flat = stretch (b, flat, (int) dims[d], want->strides[d]);
  flat = gm_b_permute (b, flat, dims); /* into the order of want */
  return gm_b_expand (b, flat, want->ndim, want->sizes);
}

GmVal
gm_b_flat (GmBuilder *b, GmVal v)
{
  const GmMeta *m = gm_b_meta (b, v);
  int64_t n = gm_meta_numel (m), order[GM_MAX_DIMS];

  for (int i = 0; i < m->ndim; i++) { /* the largest stride first */
    int k = i;
    for (; k > 0 && m->strides[order[k - 1]] < m->strides[i] && m->sizes[i] > 1; k--)
      order[k] = order[k - 1];
    order[k] = i;
  }
  if (!gm_meta_is_contiguous (m))
    v = gm_b_permute (b, v, order);
  return gm_b_view (b, v, 1, &n);
}
