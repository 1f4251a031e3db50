/* SPDX-License-Identifier: Apache-2.0
 * geometry.c -- strided views as sets of places: do two meet, and how to reach one from flat
 * memory.
 *
 * Two views meet where offset_a + sum (i_k * s_k) = offset_b + sum (j_k * t_k).  Counting the j_k
 * from their ends makes all terms positive: a sum of multiples, each bounded, that must reach a
 * number.  Taken from the largest stride down, what the smaller ones can still reach leaves hardly
 * ever more than two choices, so the search is exact and short for all strides that tensors have.
 *
 * A view of flat memory is reached by cutting it into rows of the largest stride, cutting each row
 * likewise, and so on down; where the last row ends before its stride does, rows begin earlier.
 */
#include "core/aot/aot.h"

#include <string.h>

typedef struct {
  int64_t size, stride;
} Dim;

/* -- Do they meet ------------------------------------------------------------------------------ */

enum { MAX_STEPS = 100000 };

typedef struct {
  Dim terms[2 * GM_MAX_DIMS];
  int64_t reach[2 * GM_MAX_DIMS + 1]; /* of the terms from k on */
  int n, steps;
} Search;

static void
add_terms (Search *s, const GmMeta *m)
{
  for (int d = 0; d < m->ndim; d++) {
    int k = s->n;
    if (m->sizes[d] <= 1 || m->strides[d] == 0)
      continue;
    for (; k > 0 && s->terms[k - 1].stride < m->strides[d]; k--)
      ;
    if (k > 0 && s->terms[k - 1].stride == m->strides[d]) {
      s->terms[k - 1].size += m->sizes[d] - 1;
      continue;
    }
    memmove (&s->terms[k + 1], &s->terms[k], sizeof (Dim) * (size_t) (s->n++ - k));
    s->terms[k] = (Dim){ m->sizes[d], m->strides[d] };
  }
}

static bool
can_reach (Search *s, int k, int64_t rest)
{
  if (rest < 0 || rest > s->reach[k])
    return false;
  if (k == s->n || ++s->steps > MAX_STEPS)
    return true;
  const Dim *t = &s->terms[k];
  int64_t above = rest - s->reach[k + 1], low = above > 0 ? (above + t->stride - 1) / t->stride : 0;
  for (int64_t x = low; x < t->size && x * t->stride <= rest; x++)
    if (can_reach (s, k + 1, rest - x * t->stride))
      return true;
  return false;
}

bool
gm_geometry_overlaps (const GmMeta *a, const GmMeta *b, int64_t distance)
{
  Search s = { .n = 0 };
  int64_t target = distance;

  if (gm_meta_numel (a) == 0 || gm_meta_numel (b) == 0)
    return false;
  for (int d = 0; d < GM_MAX_DIMS; d++)
    if (a->strides[d] < 0 || b->strides[d] < 0)
      return true;
  add_terms (&s, a);
  add_terms (&s, b);
  target += gm_meta_extent (b) - 1;
  for (int k = s.n; k-- > 0;)
    s.reach[k] = s.reach[k + 1] + (s.terms[k].size - 1) * s.terms[k].stride;
  return can_reach (&s, 0, target);
}

/* -- The way there ----------------------------------------------------------------------------- */

/* The dimensions of `want` that move through memory, largest stride first; order[k]: which. */
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

/* Neighbours without a gap between them are one dimension. */
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

  return gm_b_fail (b, GM_ERROR_UNSUPPORTED,
                    "a tensor %s with strides %s shares memory with one that is written to, and no "
                    "slices of that memory make it: pass a clone () of one of them",
                    text, strides);
}

/* Cuts the last dimension of v into dims. */
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
    if (inner > stride || start < 0)
      return fail (b, want);
    v = gm_b_slice (b, v, k, start, start + size * stride, 1);
    memcpy (sizes, gm_b_meta (b, v)->sizes, sizeof sizes);
    sizes[k] = size;
    sizes[k + 1] = length = stride;
    v = gm_b_view (b, v, k + 2, sizes);
    offset -= start;
  }
  return gm_b_slice (b, v, 0, offset, offset + 1, 1);
}

GmVal
gm_geometry_view (GmBuilder *b, GmVal flat, int64_t offset, const GmMeta *want)
{
  int order[GM_MAX_DIMS], n = moving_dims (want, order);
  int64_t sizes[GM_MAX_DIMS], dims[GM_MAX_DIMS];
  Dim merged[GM_MAX_DIMS];

  if (gm_b_failed (b))
    return NULL;
  for (int d = 0; d < want->ndim; d++)
    if (want->strides[d] < 0)
      return fail (b, want);
  if (gm_meta_numel (want) == 0)
    return gm_b_view (b, gm_b_slice (b, flat, 0, 0, 0, 1), want->ndim, want->sizes);
  flat = cut (b, flat, offset, merged, merge_dims (want, order, n, merged), want);
  for (int k = 0; k < n; k++)
    sizes[k] = want->sizes[order[k]];
  flat = gm_b_view (b, flat, n, sizes);
  for (int d = 0, at = 0; d < want->ndim; d++) /* back into the order of want */
    for (int k = 0; k < n; k++)
      if (order[k] == d)
        dims[at++] = k;
  flat = gm_b_permute (b, flat, dims);
  for (int d = 0; d < want->ndim; d++)
    sizes[d] = want->strides[d] == 0 ? 1 : want->sizes[d];
  flat = gm_b_view (b, flat, want->ndim, sizes);
  return gm_b_expand (b, flat, want->ndim, want->sizes);
}
