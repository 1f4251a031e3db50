/* SPDX-License-Identifier: Apache-2.0
 * loop.c -- walks over strided operands: merge dimensions, then feed the tiles contiguous
 * stretches.
 *
 * A loop's dimensions are sorted by the result's strides, so the result is written in memory order,
 * and neighbours are merged where every operand allows it. Then there are three ways, all with the
 * same bits, as elementwise work does not depend on position: one call for everything, one call per
 * inner stretch, or chunks of a tile into which strided operands are gathered. A copy that
 * transposes moves squares of elements. A large loop is divided along its first dimension, and
 * threads share the parts.
 */
#include "core/base/threads.h"
#include "core/ops/kernels.h"

#include <string.h>

#define LONG_RUN 64 /* elements from which an inner stretch is worth calls of its own */

/* -- Making loops ------------------------------------------------------------------------------ */

void
gm_loop_init (GmLoop *l, int ndim, const int64_t *sizes, int n, const int64_t *const *strides,
              const size_t *elem, bool sorted)
{
  int order[GM_MAX_DIMS], kept = 0;
  l->n = n;
  l->numel = 1;
  for (int i = 0; i < n; i++)
    l->elem[i] = elem[i];
  for (int d = 0; d < ndim; d++) {
    l->numel *= sizes[d];
    if (sizes[d] == 1)
      continue;
    int at = kept++;
    for (; sorted && at > 0 && ABS (strides[0][order[at - 1]]) < ABS (strides[0][d]); at--)
      order[at] = order[at - 1];
    order[at] = d;
  }
  l->ndim = 0;
  for (int k = 0; k < kept; k++) {
    int d = order[k], last = l->ndim - 1;
    bool merge = last >= 0;
    for (int i = 0; merge && i < n; i++)
      merge = l->strides[i][last] == strides[i][d] * sizes[d];
    if (merge)
      l->sizes[last] *= sizes[d];
    else
      l->sizes[last = l->ndim++] = sizes[d];
    for (int i = 0; i < n; i++)
      l->strides[i][last] = strides[i][d];
  }
  if (l->ndim == 0) { /* one element */
    l->ndim = 1;
    l->sizes[0] = 1;
    for (int i = 0; i < n; i++)
      l->strides[i][0] = 1;
  }
}

void
gm_loop_init_metas (GmLoop *l, int n, const GmMeta *const *operands)
{
  int64_t strides[GM_LOOP_OPERANDS][GM_MAX_DIMS];
  const int64_t *rows[GM_LOOP_OPERANDS];
  size_t elem[GM_LOOP_OPERANDS];
  const GmMeta *shape = operands[0];
  for (int i = 0; i < n; i++) {
    const GmMeta *m = operands[i];
    int shift = shape->ndim - m->ndim;
    for (int d = 0; d < shape->ndim; d++)
      strides[i][d] = d < shift || m->sizes[d - shift] == 1 ? 0 : m->strides[d - shift];
    rows[i] = strides[i];
    elem[i] = gm_dtype_size (m->dtype);
  }
  gm_loop_init (l, shape->ndim, shape->sizes, n, rows, elem, true);
}

/* True if all elements of the operand lie one after the other in the loop's order. */
static bool
is_linear (const GmLoop *l, int operand)
{
  int64_t expected = 1;
  for (int d = l->ndim - 1; d >= 0; d--) {
    if (l->strides[operand][d] != expected)
      return false;
    expected *= l->sizes[d];
  }
  return true;
}

static bool
is_constant (const GmLoop *l, int operand)
{
  for (int d = 0; d < l->ndim; d++)
    if (l->strides[operand][d] != 0)
      return false;
  return true;
}

/* -- Cursors ----------------------------------------------------------------------------------- */

void
gm_cursor_init (GmCursor *c, const GmLoop *l, int operand, const void *data)
{
  c->at = data;
  c->ndim = l->ndim;
  c->sizes = l->sizes;
  c->strides = l->strides[operand];
  c->elem = l->elem[operand];
  memset (c->index, 0, sizeof c->index);
}

/* Advances the cursor by n elements within the innermost stretch, and to the next stretch at its
 * end. */
static void
cursor_advance (GmCursor *c, int64_t n)
{
  int last = c->ndim - 1;
  c->at += c->strides[last] * (ptrdiff_t) c->elem * n;
  c->index[last] += n;
  if (c->index[last] < c->sizes[last])
    return;
  c->at -= c->strides[last] * (ptrdiff_t) c->elem * c->sizes[last];
  c->index[last] = 0;
  char *at = (char *) c->at;
  gm_odometer_next (c->index, last, c->sizes, 1, &at, &c->strides, &c->elem);
  c->at = at;
}

const void *
gm_cursor_read (GmCursor *c, void *buffer, size_t n)
{
  int last = c->ndim - 1;
  if (gm_cursor_is_run (c, n)) {
    const void *here = c->at;
    cursor_advance (c, (int64_t) n);
    return here;
  }
  for (char *to = buffer; n > 0;) {
    size_t take = (size_t) MIN ((int64_t) n, c->sizes[last] - c->index[last]);
    gm_run_tiles->gather (to, c->at, c->strides[last], take, c->elem);
    cursor_advance (c, (int64_t) take);
    to += take * c->elem;
    n -= take;
  }
  return buffer;
}

void
gm_cursor_write (GmCursor *c, const void *values, size_t n)
{
  int last = c->ndim - 1;
  for (const char *from = values; n > 0;) {
    size_t take = (size_t) MIN ((int64_t) n, c->sizes[last] - c->index[last]);
    gm_run_tiles->scatter ((char *) c->at, c->strides[last], from, take, c->elem);
    cursor_advance (c, (int64_t) take);
    from += take * c->elem;
    n -= take;
  }
}

void
gm_cursor_skip (GmCursor *c, size_t n)
{
  for (int last = c->ndim - 1; n > 0;) {
    size_t take = (size_t) MIN ((int64_t) n, c->sizes[last] - c->index[last]);
    cursor_advance (c, (int64_t) take);
    n -= take;
  }
}

/* -- Running them ------------------------------------------------------------------------------ */

static inline void
call (GmLoopBody body, void *out, const void *const *x, size_t n, size_t elem)
{
  if (body.pointwise)
    body.pointwise (out, x[0], x[1], x[2], n);
  else if (body.cast)
    body.cast (out, x[0], n);
  else if (out != x[0])
    memcpy (out, x[0], n * elem);
}

/* Operands of one inner stretch: contiguous, repeating one element, or gathered. */
typedef struct {
  const GmLoop *l;
  GmLoopBody body;
  char (*tile)[GM_TILE_BYTES];
  const char *splat[GM_LOOP_OPERANDS]; /* the element that fills the operand's tile now, or NULL */
} Runner;

static void
run_stretch (Runner *r, char *const *at, int64_t n)
{
  const GmLoop *l = r->l;
  int last = l->ndim - 1;
  bool whole = true;
  for (int i = 0; i < l->n; i++)
    whole &= l->strides[i][last] == 1;
  int64_t step = whole ? n : GM_TILE;
  for (int64_t pos = 0; pos < n; pos += step) {
    size_t take = (size_t) MIN (step, n - pos);
    const void *x[3] = { NULL, NULL, NULL };
    for (int i = 1; i < l->n; i++) {
      ptrdiff_t stride = l->strides[i][last];
      const char *from = at[i] + pos * stride * (ptrdiff_t) l->elem[i];
      x[i - 1] = from;
      if (stride == 1)
        continue;
      x[i - 1] = r->tile[i];
      if (stride != 0 || r->splat[i] != from)
        gm_run_tiles->gather (r->tile[i], from, stride,
                              stride == 0 ? (size_t) MIN (n, GM_TILE) : take, l->elem[i]);
      r->splat[i] = stride == 0 ? from : NULL;
    }
    ptrdiff_t stride = l->strides[0][last];
    char *to = at[0] + pos * stride * (ptrdiff_t) l->elem[0];
    call (r->body, stride == 1 ? to : r->tile[0], x, take, l->elem[0]);
    if (stride != 1)
      gm_run_tiles->scatter (to, stride, r->tile[0], take, l->elem[0]);
  }
}

static void
run_stretches (const GmLoop *l, GmLoopBody body, char *const *data)
{
  char tile[GM_LOOP_OPERANDS][GM_TILE_BYTES] __attribute__ ((aligned (64)));
  Runner r = { .l = l, .body = body, .tile = tile };
  char *at[GM_LOOP_OPERANDS];
  const ptrdiff_t *strides[GM_LOOP_OPERANDS];
  int64_t index[GM_MAX_DIMS] = { 0 };
  for (int i = 0; i < l->n; i++) {
    at[i] = data[i];
    strides[i] = l->strides[i];
  }
  do
    run_stretch (&r, at, l->sizes[l->ndim - 1]);
  while (gm_odometer_next (index, l->ndim - 1, l->sizes, l->n, at, strides, l->elem));
}

/* Runs the body on chunks of a tile, across the ends of inner stretches. */
static void
run_chunks (const GmLoop *l, GmLoopBody body, char *const *data)
{
  char tile[GM_LOOP_OPERANDS][GM_TILE_BYTES] __attribute__ ((aligned (64)));
  GmCursor cursor[GM_LOOP_OPERANDS];
  bool linear[GM_LOOP_OPERANDS], constant[GM_LOOP_OPERANDS];
  for (int i = 0; i < l->n; i++) {
    linear[i] = is_linear (l, i);
    constant[i] = !linear[i] && is_constant (l, i);
    gm_cursor_init (&cursor[i], l, i, data[i]);
    if (constant[i])
      gm_run_tiles->gather (tile[i], data[i], 0, (size_t) MIN (l->numel, GM_TILE), l->elem[i]);
  }
  bool copies = !body.pointwise && !body.cast;
  for (int64_t pos = 0; pos < l->numel; pos += GM_TILE) {
    size_t take = (size_t) MIN (GM_TILE, l->numel - pos);
    char *to = linear[0] ? data[0] + pos * (ptrdiff_t) l->elem[0] : tile[0];
    const void *x[3] = { NULL, NULL, NULL };
    for (int i = 1; i < l->n; i++) {
      if (linear[i])
        x[i - 1] = data[i] + pos * (ptrdiff_t) l->elem[i];
      else if (constant[i])
        x[i - 1] = tile[i];
      else /* a copy gathers straight into the result */
        x[i - 1] = gm_cursor_read (&cursor[i], copies ? to : tile[i], take);
    }
    if (copies && !linear[0]) {
      gm_cursor_write (&cursor[0], x[0], take);
      continue;
    }
    call (body, to, x, take, l->elem[0]);
    if (!linear[0])
      gm_cursor_write (&cursor[0], to, take);
  }
}

#define STRIP                                                                                      \
  16 /* columns that are transposed at once: a cache line of elements of 4 bytes each              \
      */

/* Returns the dimension in which the source of a copy is contiguous, if the result is contiguous in
 * the last one: squares of both are then transposed in registers. -1: the loop is no such copy. */
static int
turned_dimension (const GmLoop *l, GmLoopBody body)
{
  const int last = l->ndim - 1;
  if (body.pointwise || body.cast || l->n != 2 || l->strides[0][last] != 1
      || l->strides[1][last] == 1 || l->sizes[last] < 4 || (l->elem[0] != 4 && l->elem[0] != 8)
      || l->elem[0] != l->elem[1])
    return -1;
  for (int d = 0; d < last; d++)
    if (l->strides[1][d] == 1 && l->sizes[d] >= 4)
      return d;
  return -1;
}

static void
run_turned (const GmLoop *l, int turned, char *const *data)
{
  const int last = l->ndim - 1;
  const GmConvolveTiles *tiles = gm_run_tiles->convolve (l->elem[0] == 4 ? GM_F32 : GM_F64);
  GmLoop others = *l;
  char *at[2] = { data[0], data[1] };
  const ptrdiff_t *strides[2] = { others.strides[0], others.strides[1] };
  int64_t index[GM_MAX_DIMS] = { 0 };
  others.sizes[turned] = 1;
  do
    for (int64_t c = 0; c < l->sizes[turned]; c += STRIP)
      tiles->transpose (at[0] + c * l->strides[0][turned] * (ptrdiff_t) l->elem[0],
                        l->strides[0][turned], at[1] + c * (ptrdiff_t) l->elem[1],
                        l->strides[1][last], l->sizes[last], MIN (STRIP, l->sizes[turned] - c));
  while (gm_odometer_next (index, last, others.sizes, 2, at, strides, l->elem));
}

static void
run_whole (const GmLoop *l, GmLoopBody body, char *const *data)
{
  int turned = turned_dimension (l, body);
  if (turned >= 0) {
    run_turned (l, turned, data);
    return;
  }
  if (l->ndim == 1 || l->sizes[l->ndim - 1] >= LONG_RUN)
    run_stretches (l, body, data);
  else
    run_chunks (l, body, data);
}

typedef struct {
  const GmLoop *l;
  GmLoopBody body;
  char *const *data;
  uint32_t n;
} LoopJob;

/* Returns the first index along dimension 0 of a part; a loop of one dimension is cut at whole
 * tiles. */
static int64_t
first_of (const GmLoop *l, uint32_t part, uint32_t n)
{
  int64_t unit = l->ndim == 1 ? GM_TILE : 1, units = (l->sizes[0] + unit - 1) / unit;
  return MIN (units * part / n * unit, l->sizes[0]);
}

static void
loop_part (void *arg, uint32_t part)
{
  const LoopJob *j = arg;
  GmLoop l = *j->l;
  char *data[GM_LOOP_OPERANDS];
  int64_t from = first_of (j->l, part, j->n), to = first_of (j->l, part + 1, j->n);
  if (from == to)
    return;
  for (int i = 0; i < l.n; i++)
    data[i] = j->data[i] + from * l.strides[i][0] * (ptrdiff_t) l.elem[i];
  l.numel = l.numel / l.sizes[0] * (to - from);
  l.sizes[0] = to - from;
  run_whole (&l, j->body, data);
}

void
gm_loop_run (const GmLoop *l, GmLoopBody body, char *const *data)
{
  if (l->numel == 0)
    return;
  LoopJob j = { l, body, data,
                gm_loop_parts (l->ndim == 1 ? l->numel / GM_TILE : l->sizes[0], l->numel) };
  if (j.n < 2)
    run_whole (l, body, data);
  else
    gm_threads_run (j.n, loop_part, &j);
}

/* -- In parts
 * ---------------------------------------------------------------------------------------------- */

#define WORTH_PARTS (INT64_C (1) << 17) /* elements for which one more thread is worth waking */
#define PART_ELEMENTS (INT64_C (1) << 15)
#define MOST_PARTS 32

uint32_t
gm_loop_parts (int64_t items, int64_t elements)
{
  if (items < 2 || elements < WORTH_PARTS || gm_threads_count () == 1)
    return 1;
  return (uint32_t) MIN (MIN (items, elements / PART_ELEMENTS), MOST_PARTS);
}

void
gm_loop_go (const GmLoop *l, int ndim, int64_t i, int n, char **at, int64_t *index)
{
  for (int d = ndim - 1; d >= 0; d--) {
    index[d] = i % l->sizes[d];
    i /= l->sizes[d];
    for (int x = 0; x < n; x++)
      at[x] += index[d] * l->strides[x][d] * (ptrdiff_t) l->elem[x];
  }
}

/* -- Copies and lines -------------------------------------------------------------------------- */

void
gm_copy_strided (GmTensor *dst, const GmTensor *src)
{
  GmLoop l;
  gm_loop_init_metas (&l, 2, (const GmMeta *const[]){ &dst->meta, &src->meta });
  GmLoopBody body = { 0 };
  if (dst->meta.dtype != src->meta.dtype)
    body.cast = gm_run_tiles->cast (src->meta.dtype, dst->meta.dtype);
  gm_loop_run (&l, body, (char *const[]){ gm_tensor_data (dst), gm_tensor_data (src) });
}

void
gm_lines_init (GmLoop *l, int n, GmTensor *const *operands, int64_t dim, int64_t *along)
{
  int64_t sizes[GM_MAX_DIMS], strides[GM_LOOP_OPERANDS][GM_MAX_DIMS];
  const int64_t *rows[GM_LOOP_OPERANDS];
  size_t elem[GM_LOOP_OPERANDS];
  int ndim = 0;
  for (int d = 0; d < operands[0]->meta.ndim; d++) {
    if (d == dim)
      continue;
    sizes[ndim] = operands[0]->meta.sizes[d];
    for (int i = 0; i < n; i++)
      strides[i][ndim] = operands[i]->meta.strides[d];
    ndim++;
  }
  for (int i = 0; i < n; i++) {
    rows[i] = strides[i];
    elem[i] = gm_dtype_size (operands[i]->meta.dtype);
    along[i] = operands[i]->meta.ndim ? operands[i]->meta.strides[dim] : 1;
  }
  gm_loop_init (l, ndim, sizes, n, rows, elem, true);
}
