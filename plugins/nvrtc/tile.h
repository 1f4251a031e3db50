/* SPDX-License-Identifier: Apache-2.0
 * tile.h -- sums of products as a matrix of blocks: what matrix products and convolutions have in common.
 *
 * A block of 256 threads makes a tile of 64 x 64 results, a thread 4 x 4 of them.  Pieces of 64 x 16 of a and 16 x 64 of b pass
 * through shared memory; what lies outside of a matrix is 0.  What a, b and the result are is text of the caller's: it says where
 * element (r, c) is, or what.  f16 and bf16 are multiplied and summed in f32 and rounded once; floats with fma, the sum in order.
 */
#ifndef NVRTC_TILE_H
#define NVRTC_TILE_H

#include "plugins/nvrtc/unit.h"

#define NV_TILE 64
#define NV_TILE_BLOCK 256

typedef struct {
  const char *label, *work;
  uint32_t node;
  int64_t rows, cols, depth, batches; /* sizes */
  /* Statements.  head: once, may read `rest`, the number of the batch.  a, b: set `v` from element (r, c) of the matrix, which is
   * inside of it.  store: writes `acc[y][x]` as element (r, c). */
  CgText head, a, b, store;
  bool a_down, b_down; /* neighbouring threads take neighbouring rows of a piece, not columns */
} NvTile;

/* The kernel begins: arguments can be named, sizes used. */
void nv_tile_begin (NvUnit *u, NvTile *t);
/* Prints it; frees the texts. */
void nv_tile_end (NvUnit *u, NvTile *t);

#endif
