/* SPDX-License-Identifier: Apache-2.0
 * scan.c -- running sums and products, and sorting: work along lines.
 *
 * cumsum and cumprod are sequential: result i = result i - 1 + x i, or times, starting from 0 or 1,
 * along DIM (from the end if REVERSE), in f64 for f32, in f32 for f16 and bf16: each result is
 * rounded, the accumulator is not. Up to a tile of neighbouring lines advance together, which
 * changes no bits. Threads share the lines. argsort is a merge sort of (key, position) pairs:
 * stable in both directions, every NaN equal and larger than all numbers.
 */
#include "core/base/threads.h"
#include "core/ops/kernels.h"

#include <string.h>

/* -- Running sums and products ----------------------------------------------------------------- */

#define LONG_LINE 16 /* elements */

typedef struct {
  GmTileScan scan;
  char first[8] __attribute__ ((aligned (8))); /* start value of an accumulator */
  size_t accum_bytes;
  int64_t n, start, step; /* positions start, start + step, ... along the line */
  ptrdiff_t x_bytes, out_bytes;
} Run;

/* Computes running sums or products along `width` neighbouring lines together. `x` and `out` point
 * to the first of these lines. */
static void
run_lines (const Run *s, const GmCursor *x, const GmCursor *out, size_t width)
{
  char acc[GM_TILE_BYTES] __attribute__ ((aligned (64)));
  char tile[GM_TILE_BYTES] __attribute__ ((aligned (64)));
  char other[GM_TILE_BYTES] __attribute__ ((aligned (64)));
  gm_run_tiles->gather (acc, s->first, 0, width, s->accum_bytes);
  const bool x_is_run = gm_cursor_is_run (x, width), out_is_run = gm_cursor_is_run (out, width);
  for (int64_t i = 0, k = s->start; i < s->n; i++, k += s->step) {
    const void *in = x->at + k * s->x_bytes;
    char *result = (char *) out->at + k * s->out_bytes;
    if (!x_is_run) {
      GmCursor from = *x;
      from.at = in;
      in = gm_cursor_read (&from, other, width);
    }
    s->scan (acc, out_is_run ? result : tile, in, width);
    if (!out_is_run) {
      GmCursor to = *out;
      to.at = result;
      gm_cursor_write (&to, tile, width);
    }
  }
}

typedef struct {
  const Run *run;
  const GmLoop *l;
  GmTileScanLine line; /* NULL: several lines advance together */
  const char *x;
  char *out;
  int64_t x_along, out_along, most; /* most: lines of an item */
  uint32_t n;
} RunJob;

static void
run_part (void *arg, uint32_t part)
{
  const RunJob *j = arg;
  const Run *s = j->run;
  int64_t items = (j->l->numel + j->most - 1) / j->most;
  int64_t pos = items * part / j->n * j->most,
          stop = MIN (items * (part + 1) / j->n * j->most, j->l->numel);
  GmCursor to, from;
  gm_cursor_init (&to, j->l, 0, j->out);
  gm_cursor_init (&from, j->l, 1, j->x);
  gm_cursor_skip (&from, (size_t) pos);
  gm_cursor_skip (&to, (size_t) pos);
  for (; pos < stop; pos += j->most) {
    size_t width = (size_t) MIN (j->most, stop - pos);
    if (j->line)
      j->line ((char *) to.at + s->start * s->out_bytes, s->step * j->out_along,
               from.at + s->start * s->x_bytes, s->step * j->x_along, (size_t) s->n);
    else
      run_lines (s, &from, &to, width);
    gm_cursor_skip (&from, width);
    gm_cursor_skip (&to, width);
  }
}

void
gm_running_run (GmOp op, const GmTensor *x, const GmAttrs *attrs, GmTensor *out)
{
  int64_t along[2];
  GmLoop l;
  gm_lines_init (&l, 2, (GmTensor *const[]){ out, (GmTensor *) x }, attrs->dim, along);
  int64_t n = x->meta.ndim ? x->meta.sizes[attrs->dim] : 1;
  if (l.numel == 0 || n == 0)
    return;
  GmDtype dtype = (GmDtype) x->meta.dtype,
          accum = dtype == GM_F32 ? GM_F64 : gm_dtype_compute (dtype);
  Run s = { .scan = gm_run_tiles->scan (op, dtype),
            .accum_bytes = gm_dtype_size (accum),
            .n = n,
            .start = attrs->reverse ? n - 1 : 0,
            .step = attrs->reverse ? -1 : 1,
            .out_bytes = along[0] * (ptrdiff_t) l.elem[0],
            .x_bytes = along[1] * (ptrdiff_t) l.elem[1] };
  gm_scalar_store (gm_scalar_int (op == GM_OP_cumprod), accum, s.first);
  GmTileScanLine line = gm_run_tiles->scan_line (op, dtype);
  /* Elements of a long line that lie beside each other are not worth being gathered one by one. */
  const bool by_line = line && (l.numel == 1 || (n >= LONG_LINE && along[1] == 1));
  RunJob j = { .run = &s,
               .l = &l,
               .line = by_line ? line : NULL,
               .x = gm_tensor_data (x),
               .out = gm_tensor_data (out),
               .x_along = along[1],
               .out_along = along[0],
               .most = by_line ? 1 : GM_TILE };
  int64_t items = (l.numel + j.most - 1) / j.most;
  j.n = gm_loop_parts (items, l.numel * n);
  gm_threads_run (j.n, run_part, &j);
}

/* -- Sorting ----------------------------------------------------------------------------------- */

typedef struct {
  uint64_t key;
  int64_t position;
} Pair;

/* Returns an unsigned number that orders as the scalar does: -0 and 0 are equal, NaN is above
 * everything. */
static uint64_t
key_of (GmScalar s)
{
  const uint64_t sign = (uint64_t) 1 << 63;
  if (s.kind != GM_CATEGORY_FLOAT)
    return (uint64_t) s.i ^ sign;
  if (s.d != s.d)
    return UINT64_MAX;
  double d = s.d == 0 ? 0 : s.d;
  uint64_t bits;
  memcpy (&bits, &d, sizeof bits);
  return bits & sign ? ~bits : bits | sign;
}

static void
merge (const Pair *from, Pair *to, int64_t start, int64_t middle, int64_t stop)
{
  int64_t a = start, b = middle;
  for (int64_t i = start; i < stop; i++)
    to[i] = a < middle && (b >= stop || from[a].key <= from[b].key) ? from[a++] : from[b++];
}

/* Sorts a line; returns the half of the workspace, a or b, that holds the result. */
static const Pair *
sort (Pair *a, Pair *b, int64_t n)
{
  for (int64_t width = 1; width < n; width *= 2) {
    for (int64_t start = 0; start < n; start += 2 * width)
      merge (a, b, start, MIN (start + width, n), MIN (start + 2 * width, n));
    Pair *t = a;
    a = b;
    b = t;
  }
  return a;
}

typedef struct {
  const GmLoop *l;
  GmDtype dtype;
  uint64_t flip; /* flips the keys, so that equal keys keep their order */
  int64_t n, along[2];
  char *out, *x;
  uint32_t parts;
  bool failed; /* atomic */
} SortJob;

static void
sort_part (void *arg, uint32_t part)
{
  SortJob *j = arg;
  const GmLoop *l = j->l;
  const int64_t n = j->n;
  size_t bytes;
  Pair *pairs =
      __builtin_mul_overflow ((size_t) n, 2 * sizeof (Pair), &bytes) ? NULL : gm_alloc (bytes);
  if (!pairs) {
    __atomic_store_n (&j->failed, true, __ATOMIC_RELAXED);
    return;
  }
  char *at[2] = { j->out, j->x };
  const ptrdiff_t *strides[2] = { l->strides[0], l->strides[1] };
  int64_t index[GM_MAX_DIMS], line = l->numel * part / j->parts,
                              stop = l->numel * (part + 1) / j->parts;
  gm_loop_go (l, l->ndim, line, 2, at, index);
  for (; line < stop;
       line++, gm_odometer_next (index, l->ndim, l->sizes, 2, at, strides, l->elem)) {
    for (int64_t i = 0; i < n; i++)
      pairs[i] = (Pair){ key_of (gm_scalar_load (j->dtype,
                                                 at[1] + i * j->along[1] * (ptrdiff_t) l->elem[1]))
                             ^ j->flip,
                         i };
    const Pair *sorted = sort (pairs, pairs + n, n);
    for (int64_t i = 0; i < n; i++)
      ((int64_t *) at[0])[i * j->along[0]] = sorted[i].position;
  }
  gm_free (pairs, bytes);
}

bool
gm_argsort_run (const GmTensor *x, const GmAttrs *attrs, GmTensor *out, GError **error)
{
  GmLoop l;
  SortJob j = { .l = &l,
                .dtype = (GmDtype) x->meta.dtype,
                .flip = attrs->descending ? UINT64_MAX : 0,
                .n = x->meta.ndim ? x->meta.sizes[attrs->dim] : 1,
                .out = gm_tensor_data (out),
                .x = gm_tensor_data (x) };
  gm_lines_init (&l, 2, (GmTensor *const[]){ out, (GmTensor *) x }, attrs->dim, j.along);
  if (l.numel == 0 || j.n == 0)
    return true;
  j.parts = gm_loop_parts (l.numel, l.numel * j.n * 8); /* a comparison takes longer than a copy */
  gm_threads_run (j.parts, sort_part, &j);
  if (j.failed && j.parts > 1) { /* memory for one buffer at a time may suffice */
    j.failed = false;
    j.parts = 1;
    gm_threads_run (j.parts, sort_part, &j);
  }
  if (j.failed)
    g_set_error (error, GM_ERROR, GM_ERROR_MEMORY,
                 "argsort: no memory for sorting lines of %" G_GINT64_FORMAT " elements", j.n);
  return !j.failed;
}
