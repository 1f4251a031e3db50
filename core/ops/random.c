/* SPDX-License-Identifier: Apache-2.0
 * random.c -- the process's generator, and random tensors.
 *
 * The generator is a counter: {seed, next draw}.  Philox makes element i of a tensor from (seed,
 * draw i / 4), so a tensor's numbers follow from where its draws start, whatever the order, the
 * chunks or the threads in which they are made, and a compiled graph that gets the state as an
 * input draws what eager draws.
 */
#include "core/ops/kernels.h"

#include "core/base/thread.h"

static GMutex lock;
static uint64_t seed = GM_DEFAULT_SEED, next_draw; /* under `lock` */

/* -- The generator ----------------------------------------------------------------------------- */

void
gm_random_seed (uint64_t new_seed)
{
  gm_random_set_state ((const int64_t[]){ (int64_t) new_seed, 0 });
}

uint64_t
gm_random_current_seed (void)
{
  int64_t state[2];
  gm_random_get_state (state);
  return (uint64_t) state[0];
}

uint64_t
gm_random_take (uint64_t draws)
{
  g_mutex_lock (&lock);
  uint64_t first = next_draw;
  next_draw += draws;
  g_mutex_unlock (&lock);
  return first;
}

void
gm_random_get_state (int64_t state[2])
{
  g_mutex_lock (&lock);
  state[0] = (int64_t) seed;
  state[1] = (int64_t) next_draw;
  g_mutex_unlock (&lock);
}

void
gm_random_set_state (const int64_t state[2])
{
  g_mutex_lock (&lock);
  seed = (uint64_t) state[0];
  next_draw = (uint64_t) state[1];
  g_mutex_unlock (&lock);
}

static GM_THREAD bool refused;

bool
gm_draws_refused (void)
{
  return refused;
}

bool
gm_draws_refuse (bool refuse)
{
  bool old = refused;
  refused = refuse;
  return old;
}

/* -- Random tensors ---------------------------------------------------------------------------- */

void
gm_random_run (GmOp op, const GmTensor *state, const GmAttrs *attrs, GmTensor *out)
{
  uint64_t key = (uint64_t) gm_tensor_get (state, (const int64_t[]){ 0 }).i;
  uint64_t offset =
      (uint64_t) gm_tensor_get (state, (const int64_t[]){ 1 }).i + (uint64_t) attrs->offset;
  int64_t n = gm_meta_numel (&out->meta);
  int dtype = out->meta.dtype;
  void (*fill) (void *, int, uint64_t, uint64_t, uint64_t, size_t) =
      op == GM_OP_uniform ? gm_run_tiles->uniform : gm_run_tiles->normal;
  if (n == 0)
    return;
  if (gm_meta_is_contiguous (&out->meta)) {
    fill (gm_tensor_data (out), dtype, key, offset, 0, (size_t) n);
    return;
  }
  char tile[GM_TILE_BYTES] __attribute__ ((aligned (64)));
  size_t elem = gm_dtype_size (dtype);
  GmLoop l;
  GmCursor c;
  gm_loop_init (&l, out->meta.ndim, out->meta.sizes, 1,
                (const int64_t *const[]){ out->meta.strides }, &elem, false);
  gm_cursor_init (&c, &l, 0, gm_tensor_data (out));
  for (int64_t pos = 0; pos < n; pos += GM_TILE) {
    size_t take = (size_t) MIN (GM_TILE, n - pos);
    fill (tile, dtype, key, offset, (uint64_t) pos, take);
    gm_cursor_write (&c, tile, take);
  }
}
