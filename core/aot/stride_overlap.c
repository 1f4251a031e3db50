/* SPDX-License-Identifier: Apache-2.0
 * stride_overlap.c -- strided views as sets of places: do two meet?  core/ops/strided.c takes
 * a view from flat memory.
 *
 * Two views meet where offset_a + sum (i_k * s_k) = offset_b + sum (j_k * t_k).  Counting the j_k
 * from their ends makes all terms positive: a sum of multiples, each bounded, that must reach a
 * number.  Taken from the largest stride down, the reach of the smaller terms hardly ever leaves
 * more than two choices, so the search is exact and short for all strides that tensors have.
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
  int64_t reach[2 * GM_MAX_DIMS + 1]; /* reach[k]: the largest sum that the terms from k on can
                                       * make */
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
gm_stride_overlap (const GmMeta *a, const GmMeta *b, int64_t distance)
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
