/* SPDX-License-Identifier: Apache-2.0
 * reduce.c -- reductions over dimensions, in the one order that core/tiles states.
 *
 * The reduced elements of one result, in row-major order of the reduced dimensions, are cut in blocks of GM_TILE that are folded one
 * after the other.  How they lie in memory chooses the way, never the order:
 *   rows     they are contiguous, or are gathered block by block
 *   columns  the innermost kept dimension is the contiguous one: neighbouring results advance together
 * so every way gives the same bits.  Reduced dimensions may be merged but never reordered; kept ones may be both.
 */
#include "core/ops/kernels.h"

#include <string.h>

typedef struct {
  GmLoop kept;    /* operand 0: the result, operand 1: x */
  GmLoop reduced; /* operand 0: x */
} Split;

static uint32_t
reduced_dims (const GmMeta *x, const GmAttrs *attrs)
{
  uint32_t mask = 0;
  for (int i = 0; i < attrs->n_list; i++)
    mask |= 1u << attrs->list[i];
  return attrs->n_list ? mask : (1u << x->ndim) - 1;
}

/* Kept dimensions come in the order of x's strides, so that the columns' way finds its contiguous dimension innermost. */
static void
split (const GmMeta *x, uint32_t mask, bool keepdim, const GmMeta *out, Split *s)
{
  int64_t kept_sizes[GM_MAX_DIMS], kept_x[GM_MAX_DIMS], kept_out[GM_MAX_DIMS];
  int64_t reduced_sizes[GM_MAX_DIMS], reduced_x[GM_MAX_DIMS];
  int kept = 0, reduced = 0;
  for (int d = 0, o = 0; d < x->ndim; d++) {
    if (mask >> d & 1) {
      reduced_sizes[reduced] = x->sizes[d];
      reduced_x[reduced++] = x->strides[d];
      o += keepdim;
      continue;
    }
    kept_sizes[kept] = x->sizes[d];
    kept_x[kept] = x->strides[d];
    kept_out[kept++] = out->strides[o++];
  }
  size_t elem[2] = { gm_dtype_size (x->dtype), gm_dtype_size (out->dtype) };
  gm_loop_init (&s->kept, kept, kept_sizes, 2, (const int64_t *const[]){ kept_x, kept_out }, elem, true);
  gm_loop_init (&s->reduced, reduced, reduced_sizes, 1, (const int64_t *const[]){ reduced_x }, elem, false);
}

enum { X, OUT }; /* operands of Split.kept */

/* -- Rows -------------------------------------------------------------------------------------------------- */

static void
fold_row (GmTileFold fold, const GmLoop *reduced, const char *x, void *acc)
{
  size_t elem = reduced->elem[0];
  if (reduced->ndim == 1 && reduced->strides[0][0] == 1) {
    for (int64_t pos = 0; pos < reduced->numel; pos += GM_TILE)
      fold (acc, x + pos * (ptrdiff_t) elem, (size_t) MIN (GM_TILE, reduced->numel - pos));
    return;
  }
  char tile[GM_TILE_BYTES] __attribute__ ((aligned (64)));
  GmCursor c;
  gm_cursor_init (&c, reduced, 0, x);
  for (int64_t pos = 0; pos < reduced->numel; pos += GM_TILE) {
    size_t n = (size_t) MIN (GM_TILE, reduced->numel - pos);
    fold (acc, gm_cursor_read (&c, tile, n), n);
  }
}

static void
run_rows (GmTileFold fold, const Split *s, const void *init, const char *x, char *out)
{
  const GmLoop *kept = &s->kept;
  char *at[2] = { (char *) x, out };
  const ptrdiff_t *strides[2] = { kept->strides[X], kept->strides[OUT] };
  int64_t index[GM_MAX_DIMS] = { 0 };
  do {
    memcpy (at[OUT], init, kept->elem[OUT]);
    fold_row (fold, &s->reduced, at[X], at[OUT]);
  } while (gm_odometer_next (index, kept->ndim, kept->sizes, 2, at, strides, kept->elem));
}

/* -- Columns ----------------------------------------------------------------------------------------------- */

static bool
columns_fit (const Split *s)
{
  int last = s->kept.ndim - 1;
  return s->kept.sizes[last] >= 4 && s->kept.strides[X][last] == 1 && s->kept.strides[OUT][last] == 1 && s->reduced.ndim == 1;
}

static void
run_columns (GmTileFoldColumns fold, const Split *s, const void *init, const char *x, char *out)
{
  const GmLoop *kept = &s->kept;
  int last = kept->ndim - 1;
  size_t width = (size_t) kept->sizes[last];
  ptrdiff_t row_bytes = s->reduced.strides[0][0] * (ptrdiff_t) kept->elem[X];
  char *at[2] = { (char *) x, out };
  const ptrdiff_t *strides[2] = { kept->strides[X], kept->strides[OUT] };
  int64_t index[GM_MAX_DIMS] = { 0 };
  do {
    gm_run_tiles->gather (at[OUT], init, 0, width, kept->elem[OUT]);
    for (int64_t row = 0; row < s->reduced.numel; row += GM_TILE)
      fold (at[OUT], at[X] + row * row_bytes, row_bytes, (size_t) MIN (GM_TILE, s->reduced.numel - row), width);
  } while (gm_odometer_next (index, last, kept->sizes, 2, at, strides, kept->elem));
}

void
gm_reduce_run (GmOp op, const GmTensor *x, const GmAttrs *attrs, GmTensor *out)
{
  Split s;
  split (&x->meta, reduced_dims (&x->meta, attrs), attrs->keepdim, &out->meta, &s);
  if (s.kept.numel == 0)
    return;
  char init[8] __attribute__ ((aligned (8)));
  gm_run_tiles->reduce_init (op, x->meta.dtype, init);
  GmTileFoldColumns columns = columns_fit (&s) ? gm_run_tiles->fold_columns (op, x->meta.dtype) : NULL;
  if (columns)
    run_columns (columns, &s, init, gm_tensor_data (x), gm_tensor_data (out));
  else
    run_rows (gm_run_tiles->fold (op, x->meta.dtype), &s, init, gm_tensor_data (x), gm_tensor_data (out));
}

/* -- Positions of extrema ---------------------------------------------------------------------------------- */

static int64_t
find_best (GmTileArgFold fold, const GmLoop *reduced, const char *x)
{
  char tile[GM_TILE_BYTES] __attribute__ ((aligned (64)));
  char best[8] __attribute__ ((aligned (8))) = { 0 };
  int64_t index = -1;
  GmCursor c;
  gm_cursor_init (&c, reduced, 0, x);
  for (int64_t pos = 0; pos < reduced->numel; pos += GM_TILE) {
    size_t n = (size_t) MIN (GM_TILE, reduced->numel - pos);
    fold (best, &index, gm_cursor_read (&c, tile, n), pos, n);
  }
  return index;
}

void
gm_argreduce_run (GmOp op, const GmTensor *x, const GmAttrs *attrs, GmTensor *out)
{
  uint32_t all = (1u << x->meta.ndim) - 1;
  uint32_t mask = attrs->mask & 1u << GM_ATTR_DIM ? all & 1u << attrs->dim : all;
  Split s;
  split (&x->meta, mask, attrs->keepdim, &out->meta, &s);
  if (s.kept.numel == 0)
    return;
  GmTileArgFold fold = gm_run_tiles->arg_fold (op, x->meta.dtype);
  const GmLoop *kept = &s.kept;
  char *at[2] = { gm_tensor_data (x), gm_tensor_data (out) };
  const ptrdiff_t *strides[2] = { kept->strides[X], kept->strides[OUT] };
  int64_t index[GM_MAX_DIMS] = { 0 };
  do
    *(int64_t *) at[OUT] = find_best (fold, &s.reduced, at[X]);
  while (gm_odometer_next (index, kept->ndim, kept->sizes, 2, at, strides, kept->elem));
}
