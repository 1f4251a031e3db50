/* SPDX-License-Identifier: Apache-2.0
 * pointwise.c -- elementwise ops: chooses a loop for the operands' layouts, then calls the op's
 * tile.
 *
 * There are two frequent cases: everything has the result's layout (one tile call for all of it),
 * or some operands are 0-d, as every Python number is (their tile is filled once). The rest is a
 * loop over strides.
 */
#include "core/base/threads.h"
#include "core/ops/kernels.h"

/* -- In parts ---------------------------------------------------------------------------------- */

/* Number of elements for which one more thread is worth waking: for functions, and for ops of a few
 * instructions. */
#define WORTH_PARTS INT64_C (150000)
#define WORTH_PARTS_CHEAP INT64_C (400000)
#define MOST_PARTS 8

static bool
is_function (GmOp op)
{
  enum { ARITH, FLOAT, COMPARE, LOGICAL, BITWISE, SELECT };
  switch (op) {
#define POINTWISE(code, version, name, n, types, ...)                                              \
  case code:                                                                                       \
    return types == FLOAT;
#include "plugin-api/gramme-ops.def"
  default:
    return false;
  }
}

typedef struct {
  GmTilePointwise tile;
  char *out;
  const char *x[3];
  size_t out_elem, elem[3]; /* 0: no such operand */
  int64_t n;
  uint32_t parts;
} Stretch;

static void
stretch_part (void *arg, uint32_t part)
{
  const Stretch *s = arg;
  int64_t tiles = (s->n + GM_TILE - 1) / GM_TILE, from = tiles * part / s->parts * GM_TILE;
  int64_t to = MIN (tiles * (part + 1) / s->parts * GM_TILE, s->n);
  const char *x[3];
  for (int i = 0; i < 3; i++)
    x[i] = s->elem[i] ? s->x[i] + (size_t) from * s->elem[i] : NULL;
  s->tile (s->out + (size_t) from * s->out_elem, x[0], x[1], x[2], (size_t) (to - from));
}

/* Calls the tile for n elements, in which operands and `out` have the same order. */
static void
run_stretch (GmOp op, GmTilePointwise tile, GmTensor *const *in, int n_in, GmTensor *out, int64_t n)
{
  Stretch s = { .tile = tile,
                .out = gm_tensor_data (out),
                .out_elem = gm_dtype_size (out->meta.dtype),
                .n = n,
                .parts = 1 };
  for (int i = 0; i < n_in; i++) {
    s.x[i] = gm_tensor_data (in[i]);
    s.elem[i] = gm_dtype_size (in[i]->meta.dtype);
  }
  if (G_LIKELY (n < WORTH_PARTS) || (n < WORTH_PARTS_CHEAP && !is_function (op))
      || gm_threads_count () == 1)
    tile (s.out, s.x[0], s.x[1], s.x[2], (size_t) n);
  else {
    s.parts = MOST_PARTS;
    gm_threads_run (s.parts, stretch_part, &s);
  }
}

/* -- Whole operands ---------------------------------------------------------------------------- */

static bool
same_layout (const GmMeta *a, const GmMeta *b)
{
  if (a->ndim != b->ndim)
    return false;
  for (int d = 0; d < a->ndim; d++)
    if (a->sizes[d] != b->sizes[d] || a->strides[d] != b->strides[d])
      return false;
  return true;
}

/* Calls the tile for n elements. Operands with `scalar` repeat their one element; all others, and
 * out, have the same order. */
static void
run_flat (GmTilePointwise tile, GmTensor *const *in, int n_in, const bool *scalar, GmTensor *out,
          int64_t n)
{
  char filled[3][GM_TILE_BYTES] __attribute__ ((aligned (64)));
  const char *x[3] = { NULL, NULL, NULL };
  size_t step_bytes[3] = { 0, 0, 0 };
  for (int i = 0; i < n_in; i++) {
    size_t elem = gm_dtype_size (in[i]->meta.dtype);
    x[i] = gm_tensor_data (in[i]);
    if (scalar[i]) {
      gm_run_tiles->gather (filled[i], x[i], 0, (size_t) MIN (n, GM_TILE), elem);
      x[i] = filled[i];
    } else {
      step_bytes[i] = elem * GM_TILE;
    }
  }
  char *to = gm_tensor_data (out);
  size_t out_bytes = gm_dtype_size (out->meta.dtype) * GM_TILE;
  for (; n > GM_TILE; n -= GM_TILE) {
    tile (to, x[0], x[1], x[2], GM_TILE);
    to += out_bytes;
    for (int i = 0; i < n_in; i++)
      x[i] += step_bytes[i];
  }
  tile (to, x[0], x[1], x[2], (size_t) n);
}

void
gm_pointwise_run (GmOp op, GmTensor *const *in, int n_in, GmTensor *out)
{
  GmTilePointwise tile = gm_run_tiles->pointwise (op, in[n_in - 1]->meta.dtype);
  int64_t n = gm_meta_numel (&out->meta);
  if (n == 0)
    return;
  bool scalar[3] = { false, false, false }, any_scalar = false, flat = true;
  for (int i = 0; i < n_in; i++) {
    scalar[i] = in[i]->meta.ndim == 0 && n > 1;
    any_scalar |= scalar[i];
    flat = flat && (scalar[i] || same_layout (&in[i]->meta, &out->meta));
  }
  if (flat && (gm_meta_is_contiguous (&out->meta) || gm_meta_is_dense (&out->meta))) {
    if (any_scalar)
      run_flat (tile, in, n_in, scalar, out, n);
    else
      run_stretch (op, tile, in, n_in, out, n);
    return;
  }
  GmLoop l;
  const GmMeta *metas[GM_LOOP_OPERANDS] = { &out->meta };
  char *data[GM_LOOP_OPERANDS] = { gm_tensor_data (out) };
  for (int i = 0; i < n_in; i++) {
    metas[i + 1] = &in[i]->meta;
    data[i + 1] = gm_tensor_data (in[i]);
  }
  gm_loop_init_metas (&l, n_in + 1, metas);
  /* In place, `out` as an operand is the same pointer and the same strides, so it is read before it
   * is written. */
  gm_loop_run (&l, (GmLoopBody){ .pointwise = op == GM_OP_copy ? NULL : tile }, data);
}
