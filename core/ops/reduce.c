/* SPDX-License-Identifier: Apache-2.0
 * reduce.c -- reductions over dimensions, in the one order that core/tiles states.
 *
 * The reduced elements of one result, in row-major order of the reduced dimensions, are cut in
 * blocks of GM_TILE that are folded one after the other.  How they lie in memory chooses the way,
 * never the order: rows     they are contiguous, or are gathered block by block columns  the
 * innermost kept dimension is the contiguous one: neighbouring results advance together so every
 * way gives the same bits.  f16 and bf16 are accumulated in f32, the blocks of long sums of f32 in
 * f64, and rounded when all is folded.
 * Reduced dimensions may be merged but never reordered; kept ones may be both.  Threads share the
 * results; each result is folded by one of them.
 */
#include "core/base/threads.h"
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

/* Splits the dimensions of x. Kept dimensions come in the order of x's strides, so that the
 * columns' way finds its contiguous dimension innermost. */
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
  gm_loop_init (&s->kept, kept, kept_sizes, 2, (const int64_t *const[]){ kept_x, kept_out }, elem,
                true);
  gm_loop_init (&s->reduced, reduced, reduced_sizes, 1, (const int64_t *const[]){ reduced_x }, elem,
                false);
}

enum { X, OUT }; /* operands of Split.kept */

#define ROWS_AT_ONCE 64 /* results that are cast together */

/* -- Rows -------------------------------------------------------------------------------------- */

/* The tiles with which an op folds a dtype. */
typedef struct {
  GmTileFold row;
  GmTileFoldColumns columns;
  GmTileCast finish;  /* from the accumulator's type to the result's; NULL: they are the same */
  size_t accum_bytes; /* size of one accumulator */
  char init[8] __attribute__ ((aligned (8)));
} Fold;

/* Returns the tiles for folding. n: number of elements of each result; long sums of f32 have an f64
 * accumulator, which has no effect within one block. */
static Fold
fold_of (GmOp op, GmDtype dtype, int64_t n)
{
  if (n > GM_TILE && gm_run_tiles->fold_wide (op, dtype))
    return (Fold){ .row = gm_run_tiles->fold_wide (op, dtype),
                   .columns = gm_run_tiles->fold_columns_wide (op, dtype),
                   .finish = gm_run_tiles->cast (GM_F64, dtype),
                   .accum_bytes = sizeof (double) }; /* the accumulator starts at 0 */
  GmDtype accum = gm_dtype_compute (dtype);
  Fold f = { .row = gm_run_tiles->fold (op, dtype),
             .columns = gm_run_tiles->fold_columns (op, dtype),
             .finish = accum == dtype ? NULL : gm_run_tiles->cast (accum, dtype),
             .accum_bytes = gm_dtype_size (accum) };
  gm_run_tiles->reduce_init (op, dtype, f.init);
  return f;
}

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

/* Computes the results from `from` up to `to`, row by row. Results whose accumulators have another
 * type are cast together, as many as are contiguous. */
static void
run_rows (const Fold *f, const Split *s, const char *x, char *out, int64_t from, int64_t to)
{
  char accums[ROWS_AT_ONCE * 8] __attribute__ ((aligned (64)));
  const GmLoop *kept = &s->kept;
  char *at[2] = { (char *) x, out }, *first = NULL;
  const ptrdiff_t *strides[2] = { kept->strides[X], kept->strides[OUT] };
  int64_t index[GM_MAX_DIMS];
  size_t n = 0;
  gm_loop_go (kept, kept->ndim, from, 2, at, index);
  for (; from < to;
       from++, gm_odometer_next (index, kept->ndim, kept->sizes, 2, at, strides, kept->elem)) {
    if (n > 0 && (n == ROWS_AT_ONCE || at[OUT] != first + n * kept->elem[OUT])) {
      f->finish (first, accums, n);
      n = 0;
    }
    if (n == 0)
      first = at[OUT];
    char *acc = f->finish ? accums + n++ * f->accum_bytes : at[OUT];
    memcpy (acc, f->init, f->accum_bytes);
    fold_row (f->row, &s->reduced, at[X], acc);
  }
  if (n > 0)
    f->finish (first, accums, n);
}

/* -- Columns ----------------------------------------------------------------------------------- */

static bool
columns_fit (const Split *s)
{
  int last = s->kept.ndim - 1;
  return s->kept.sizes[last] >= 4 && s->kept.strides[X][last] == 1
         && s->kept.strides[OUT][last] == 1 && s->reduced.ndim == 1;
}

static void
fold_columns (const Fold *f, const Split *s, const char *x, char *acc, size_t width)
{
  ptrdiff_t row_bytes = s->reduced.strides[0][0] * (ptrdiff_t) s->kept.elem[X];
  gm_run_tiles->gather (acc, f->init, 0, width, f->accum_bytes);
  for (int64_t row = 0; row < s->reduced.numel; row += GM_TILE)
    f->columns (acc, x + row * row_bytes, row_bytes, (size_t) MIN (GM_TILE, s->reduced.numel - row),
                width);
}

/* Folds columns as fold_columns does, with accumulators of another type than the result's, a tile
 * of columns at a time. */
static void
fold_columns_and_finish (const Fold *f, const Split *s, const char *x, char *out, size_t width)
{
  char acc[GM_TILE_BYTES] __attribute__ ((aligned (64)));
  for (size_t j = 0; j < width; j += GM_TILE) {
    size_t take = MIN (GM_TILE, width - j);
    fold_columns (f, s, x + j * s->kept.elem[X], acc, take);
    f->finish (out + j * s->kept.elem[OUT], acc, take);
  }
}

/* Number of columns in a piece: each thread folds some pieces. */
#define PIECE 64

static int64_t
pieces_of (const GmLoop *kept)
{
  return (kept->sizes[kept->ndim - 1] + PIECE - 1) / PIECE;
}

static void
run_columns (const Fold *f, const Split *s, const char *x, char *out, int64_t from, int64_t to)
{
  const GmLoop *kept = &s->kept;
  int last = kept->ndim - 1;
  int64_t pieces = pieces_of (kept), width = kept->sizes[last];
  while (from < to) { /* along a line, to the end of the part */
    int64_t piece = from % pieces, take = MIN (pieces - piece, to - from), index[GM_MAX_DIMS];
    size_t columns = (size_t) (MIN ((piece + take) * PIECE, width) - piece * PIECE);
    char *at[2] = { (char *) x, out };
    gm_loop_go (kept, last, from / pieces, 2, at, index);
    at[X] += (size_t) (piece * PIECE) * kept->elem[X];
    at[OUT] += (size_t) (piece * PIECE) * kept->elem[OUT];
    if (f->finish)
      fold_columns_and_finish (f, s, at[X], at[OUT], columns);
    else
      fold_columns (f, s, at[X], at[OUT], columns);
    from += take;
  }
}

/* -- In parts
 * ---------------------------------------------------------------------------------------------- */

typedef struct {
  void (*run) (const Fold *f, const Split *s, const char *x, char *out, int64_t from, int64_t to);
  const Fold *fold;
  const Split *split;
  const char *x;
  char *out;
  int64_t items;
  uint32_t n;
} ReduceJob;

static void
reduce_part (void *arg, uint32_t part)
{
  const ReduceJob *j = arg;
  j->run (j->fold, j->split, j->x, j->out, j->items * part / j->n, j->items * (part + 1) / j->n);
}

void
gm_reduce_run (GmOp op, const GmTensor *x, const GmAttrs *attrs, GmTensor *out)
{
  Split s;
  split (&x->meta, reduced_dims (&x->meta, attrs), attrs->keepdim, &out->meta, &s);
  if (s.kept.numel == 0)
    return;
  Fold f = fold_of (op, (GmDtype) x->meta.dtype, s.reduced.numel);
  ReduceJob j = { .run = run_rows,
                  .fold = &f,
                  .split = &s,
                  .x = gm_tensor_data (x),
                  .out = gm_tensor_data (out),
                  .items = s.kept.numel };
  if (f.columns && columns_fit (&s)) {
    j.run = run_columns;
    j.items = s.kept.numel / s.kept.sizes[s.kept.ndim - 1] * pieces_of (&s.kept);
  }
  j.n = gm_loop_parts (j.items, gm_meta_numel (&x->meta));
  gm_threads_run (j.n, reduce_part, &j);
}

/* -- Positions of extrema ---------------------------------------------------------------------- */

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

typedef struct {
  const Split *split;
  GmTileArgFold fold;
  char *x, *out;
  uint32_t n;
} ExtremaJob;

static void
extrema_part (void *arg, uint32_t part)
{
  const ExtremaJob *j = arg;
  const GmLoop *kept = &j->split->kept;
  char *at[2] = { j->x, j->out };
  const ptrdiff_t *strides[2] = { kept->strides[X], kept->strides[OUT] };
  int64_t index[GM_MAX_DIMS], from = kept->numel * part / j->n,
                              to = kept->numel * (part + 1) / j->n;
  gm_loop_go (kept, kept->ndim, from, 2, at, index);
  for (; from < to;
       from++, gm_odometer_next (index, kept->ndim, kept->sizes, 2, at, strides, kept->elem))
    *(int64_t *) at[OUT] = find_best (j->fold, &j->split->reduced, at[X]);
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
  ExtremaJob j = { &s, gm_run_tiles->arg_fold (op, x->meta.dtype), gm_tensor_data (x),
                   gm_tensor_data (out), gm_loop_parts (s.kept.numel, gm_meta_numel (&x->meta)) };
  gm_threads_run (j.n, extrema_part, &j);
}
