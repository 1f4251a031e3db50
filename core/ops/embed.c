/* SPDX-License-Identifier: Apache-2.0
 * embed.c -- puts the elements of a view back into its base: the inverses of diagonal and unfold.
 *
 * Only slices, joins and views are used, so that elements, and gradients, are moved and nothing is
 * added to them: -0 stays -0.
 */
#include "core/ops/builder.h"

#define BIT(key) (1u << GM_ATTR_##key)

static GmVal
join (GmBuilder *b, GmVal first, GmVal second, int dim)
{
  GmAttrs at = { .mask = BIT (DIM), .dim = dim };

  return gm_b_op (b, GM_OP_cat, (const GmVal[]){ first, second }, 2, &at);
}

static GmVal
scatter (GmBuilder *b, GmVal into, GmVal src, int dim, int64_t start, int64_t stop, int64_t step)
{
  GmAttrs at = { .mask = BIT (DIM) | BIT (START) | BIT (STOP) | BIT (STEP),
                 .dim = dim,
                 .start = start,
                 .stop = stop,
                 .step = step };

  return gm_b_op (b, GM_OP_slice_scatter, (const GmVal[]){ into, src }, 2, &at);
}

/* Returns v with `n` dimensions from `dim` on replaced by the k of `sizes`. */
static GmVal
regroup (GmBuilder *b, GmVal v, int dim, int n, int k, const int64_t *sizes)
{
  const GmMeta *m = gm_b_meta (b, v);
  int64_t all[2 * GM_MAX_DIMS];
  int at = 0;

  for (int d = 0; d < dim; d++)
    all[at++] = m->sizes[d];
  for (int d = 0; d < k; d++)
    all[at++] = sizes[d];
  for (int d = dim + n; d < m->ndim; d++)
    all[at++] = m->sizes[d];
  return gm_b_reshape (b, v, at, all);
}

/* Returns zeros of v's dtype and device, with `size` in dimension dim, and without the dimensions
 * from `ndim` on. */
static GmVal
zeros (GmBuilder *b, GmVal v, int dim, int64_t size, int ndim)
{
  GmMeta m = *gm_b_meta (b, v);

  m.sizes[dim] = size;
  return gm_b_full_beside (b, gm_scalar_int (0), (GmDtype) m.dtype, ndim, m.sizes, v);
}

/* Returns `rows` with src on the diagonal that begins at element `start` of each matrix in its last
 * two dimensions and has n elements. In a flattened matrix, elements of a diagonal are columns + 1
 * apart. */
static GmVal
along_diagonal (GmBuilder *b, GmVal rows, GmVal src, int64_t start, int64_t n)
{
  GmMeta m = *gm_b_meta (b, rows);
  int last = m.ndim - 2;
  int64_t columns = m.sizes[last + 1], all = gm_size_mul (m.sizes[last], columns);
  GmVal flat = regroup (b, rows, last, 2, 1, &all);

  if (!gm_size_is_symbolic (columns)) {
    int64_t step = columns + 1;
    int64_t stop = gm_size_add (gm_size_add (gm_size_mul (gm_size_sub (n, 1), step), start), 1);
    return gm_b_reshape (b, scatter (b, flat, src, last, start, stop, step), m.ndim, m.sizes);
  }
  /* A step of a slice cannot be an expression. So the elements from `start` on become rows of
   * columns + 1 elements, in which the diagonal is a column. */
  int64_t table[2] = { m.sizes[last], gm_size_add (columns, 1) }, column[2] = { n, 1 };
  int64_t length = gm_size_mul (table[0], table[1]), end = gm_size_add (start, length);
  GmVal longer =
      join (b, flat, zeros (b, rows, last, gm_size_add (table[0], start), last + 1), last);
  GmVal v = regroup (b, gm_b_slice (b, longer, last, start, end, 1), last, 1, 2, table);
  GmVal head = scatter (b, gm_b_slice (b, v, last, 0, n, 1), regroup (b, src, last, 1, 2, column),
                        last + 1, 0, 1, 1);
  v = regroup (b, scatter (b, v, head, last, 0, n, 1), last, 2, 1, &length);
  longer = scatter (b, longer, v, last, start, end, 1);
  return gm_b_reshape (b, gm_b_slice (b, longer, last, 0, all, 1), m.ndim, m.sizes);
}

static GmVal
embed_diagonal (GmBuilder *b, GmVal into, GmVal src, const GmAttrs *attrs)
{
  const GmMeta *m = gm_b_meta (b, into);
  int64_t order[GM_MAX_DIMS], back[GM_MAX_DIMS], n = gm_b_meta (b, src)->sizes[m->ndim - 2];
  int k = 0;

  if (gm_size_eq (n, 0))
    return into;
  for (int d = 0; d < m->ndim; d++)
    if (d != attrs->list[0] && d != attrs->list[1])
      order[k++] = d;
  order[k] = attrs->list[0];
  order[k + 1] = attrs->list[1];
  for (int d = 0; d < m->ndim; d++)
    back[order[d]] = d;
  return gm_b_permute (b, along_diagonal (b, gm_b_permute (b, into, order), src, attrs->start, n),
                       back);
}

/* Returns src with the elements of windows, its last dimension, moved behind `dim`, which counts
 * the windows. */
static GmVal
windows_in_place (GmBuilder *b, GmVal src, int dim)
{
  int64_t order[GM_MAX_DIMS];
  int ndim = gm_b_meta (b, src)->ndim;

  for (int d = 0; d < ndim; d++)
    order[d] = d <= dim ? d : d == dim + 1 ? ndim - 1 : d - 1;
  return gm_b_permute (b, src, order);
}

/* Returns `into` with src written back at windows that do not overlap: windows are the first
 * elements of rows of `step` elements; the last row may end before its step does, and is extended.
 */
static GmVal
embed_windows (GmBuilder *b, GmVal into, GmVal src, const GmAttrs *attrs)
{
  int64_t window = attrs->list[0], size = gm_b_meta (b, into)->sizes[attrs->dim],
          table[2] = { gm_b_meta (b, src)->sizes[attrs->dim], attrs->step };
  int64_t length = gm_size_mul (table[0], table[1]);
  int dim = (int) attrs->dim;

  if (window == 0)
    return into;
  GmVal longer = join (b, into, zeros (b, into, dim, attrs->step, gm_b_meta (b, into)->ndim), dim);
  GmVal rows = regroup (b, gm_b_slice (b, longer, dim, 0, length, 1), dim, 1, 2, table);
  rows = scatter (b, rows, windows_in_place (b, src, dim), dim + 1, 0, window, 1);
  longer = scatter (b, longer, regroup (b, rows, dim, 2, 1, &length), dim, 0, length, 1);
  return gm_b_slice (b, longer, dim, 0, size, 1);
}

GmVal
gm_b_add_windows (GmBuilder *b, const GmAttrs *attrs, GmVal into, GmVal src)
{
  int dim = (int) attrs->dim;
  uint8_t before = b->device;
  GmAttrs along = { .mask = BIT (DIM), .dim = dim };

  if (gm_b_failed (b))
    return NULL;
  int64_t n = gm_b_meta (b, src)->sizes[dim], all = gm_size_mul (n, attrs->list[0]),
          column[2] = { n, 1 };
  b->device = gm_b_meta (b, src)->device;
  GmVal first = gm_b_view (b, gm_b_arange (b, 0, attrs->step, n, GM_I64), 2, column);
  GmVal at = gm_b_reshape (b, gm_b (b, add, first, gm_b_arange (b, 0, 1, attrs->list[0], GM_I64)),
                           1, &all);
  b->device = before;
  src = regroup (b, windows_in_place (b, src, dim), dim, 2, 1, &all);
  return gm_b_op (b, GM_OP_index_add, (const GmVal[]){ into, at, src }, 3, &along);
}

bool
gm_windows_overlap (const GmAttrs *attrs)
{
  return attrs->list[0] > attrs->step;
}

GmVal
gm_b_embed (GmBuilder *b, GmOp op, const GmAttrs *attrs, GmVal into, GmVal src)
{
  if (gm_b_failed (b))
    return NULL;
  return op == GM_OP_diagonal ? embed_diagonal (b, into, src, attrs)
                              : embed_windows (b, into, src, attrs);
}
