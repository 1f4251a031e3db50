/* SPDX-License-Identifier: Apache-2.0
 * tile.h -- sums of products as a matrix of blocks: the common part of matrix products and
 * convolutions.
 *
 * A block of 256 threads makes a tile of 64 x 64 results, a thread 4 x 4 of them.  Pieces of 64 x
 * 16 of a and 16 x 64 of b pass through shared memory; elements outside of a matrix are 0.  The
 * caller provides the text for elements (r, c) of a, b and the result.  f16 and bf16 are multiplied
 * and summed in f32 and rounded once; floats with fma, the sum in order.
 */
#ifndef NVRTC_TILE_H
#define NVRTC_TILE_H

#include "plugins/nvrtc/gpu_unit.h"

#define NV_TILE 64
#define NV_TILE_BLOCK 256

typedef struct {
  const char *label, *work;
  uint32_t node;
  int64_t rows, cols, depth, batches; /* may be symbolic */
  /* Statements.  head: runs once, and may read `rest`, the number of the batch.  a, b: set `v` from
   * element (r, c) of the matrix, which is inside of it.  store: writes `acc[y][x]` as element (r,
   * c). */
  CgText head, a, b, store;
  bool a_down, b_down; /* neighbouring threads read neighbouring rows of a piece, not columns */
} NvTile;

/* Begins the kernel: arguments can be named, and sizes used. */
void nv_tile_begin (NvUnit *u, NvTile *t);
/* Prints the kernel, and frees the texts. */
void nv_tile_end (NvUnit *u, NvTile *t);

#endif
