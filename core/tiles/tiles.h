/* SPDX-License-Identifier: Apache-2.0
 * tiles.h -- all arithmetic on tensors.
 *
 * A tile primitive works on contiguous runs of elements.  Eager calls primitives in loops;
 * generated code calls them by address or inlines the same source; so all have the same bits.
 * tiles-impl.h is compiled once per instruction set (AVX2+FMA+F16C, AVX-512) with explicit vector
 * types, -ffp-contract=off and no fast-math; a short tail is padded to a full vector, so the last
 * elements undergo the same arithmetic.  Tables are chosen once by CPUID; GRAMME_ISA=avx2 forces
 * the smaller set. Depends on nothing but C and SLEEF: dtypes are the codes of dtypes.def.
 *
 * Reductions have one order, which depends on the logical positions alone.  The reduced elements,
 * in row-major order of the reduced dimensions, are cut in blocks of GM_TILE.  Within a block, 16
 * partial results start at the row's `init`, element i is combined into partial i % 16, and the
 * partials are folded by a tree (k with k + 8, + 4, + 2, + 1). Blocks are combined one after the
 * other into an accumulator that starts at `init`.  For a sum of more than one block of f32 it is
 * f64 and rounded once, so that no digits are lost however many blocks there are.  If a block of a
 * product gives NaN, it is multiplied again, element after element: partial results may be 0 and
 * infinite where the product itself is a number.
 *
 * f16 and bf16 are computed in f32: a pointwise row widens its operands and rounds its result once.
 * Accumulators (and `init`, and the best of an ArgFold) have the dtype's `compute` type in
 * dtypes.def, f32 for these: the caller rounds them at the end.
 */
#ifndef GM_TILES_TILES_H
#define GM_TILES_TILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/tiles/convolve.h"

#define GM_TILE 512 /* elements: the block of reductions and the chunk of drivers */

/* Sets out[i] = value (a[i], b[i], c[i]) for i < n, any n.  Unused operands are NULL.  out may be
 * the same pointer as an operand of the same element size, else must not overlap.  No alignment
 * needed. */
typedef void (*GmTilePointwise) (void *out, const void *a, const void *b, const void *c, size_t n);
/* Sets out[i] = (out type) in[i]. */
typedef void (*GmTileCast) (void *out, const void *in, size_t n);
/* Sets *acc = combine (*acc, block (x[0..n))), n <= GM_TILE. */
typedef void (*GmTileFold) (void *acc, const void *x, size_t n);
/* Sets acc[j] = combine (acc[j], block (x[0..rows)[j])) for each column j < width, rows <= GM_TILE;
 * row r starts row_stride_bytes * r after x, its elements are contiguous. Same bits as a Fold over
 * each column. */
typedef void (*GmTileFoldColumns) (void *acc, const void *x, ptrdiff_t row_stride_bytes,
                                   size_t rows, size_t width);
/* If some x[i] is better than *best (or *index < 0), sets *best = x[i] and *index = base + i for
 * the first best i. NaN is better than every number; the first NaN stays. */
typedef void (*GmTileArgFold) (void *best, int64_t *index, const void *x, int64_t base, size_t n);

/* Sets acc[j] = combine (acc[j], x[j]) and out[j] = acc[j], rounded, for j < n: a step of n running
 * results.  Accumulators of f32 and f64 are f64, those of other dtypes are of the `compute`
 * type. */
typedef void (*GmTileScan) (void *acc, void *out, const void *x, size_t n);
/* Computes the running result of one line; strides in elements. */
typedef void (*GmTileScanLine) (void *out, ptrdiff_t out_stride, const void *x, ptrdiff_t x_stride,
                                size_t n);

/* The product C = A B of one matrix pair: A has m rows and k columns, B has n columns. Sizes in
 * elements; strides in elements; one of the two strides of each operand must be 1 (else the caller
 * copies). C is row-major with row stride ldc. */
typedef struct {
  /* f32 and f64: few rows, or a small B, use GmFewTiles, others CBLAS; integers plain loops; f16
   * and bf16 are products of f32 */
  int dtype;
  int64_t m, n, k;
  const void *a, *b;
  int64_t a_row_stride, a_col_stride, b_row_stride, b_col_stride;
  void *c;
  int64_t ldc;
  const void *packed; /* all of B as GmFewTiles.pack made it, or NULL; changes no bits */
} GmProduct;

enum {
  GM_FEW_DEPTH = 128,         /* length of a chain of fused multiply-adds */
  GM_FEW_UNIT = 48,           /* columns are divided at multiples of this */
  GM_FEW_ROOM = 24 * 1024,    /* minimum of bytes of scratch memory, */
  GM_FEW_SCRATCH = 64 * 1024, /* and the maximum that is of use */
};

/* Functions for products of few rows, or by a small B (tiles-product.h). */
typedef struct {
  /* Returns the elements of a packed row of B with n columns. */
  int64_t (*packed_width) (int64_t n);
  /* Packs columns j to j_end of B into its place in `packed`, which has k rows of packed_width (n)
   * elements.  j is a multiple of GM_FEW_UNIT, and so is j_end, unless it is n. */
  void (*pack) (const GmProduct *p, int64_t j, int64_t j_end, void *packed);
  /* Computes columns j to j_end of C.  scratch: `room` bytes. */
  void (*multiply) (const GmProduct *p, int64_t j, int64_t j_end, void *scratch, size_t room);
} GmFewTiles;

typedef struct {
  const char *isa; /* "avx2", "avx512" */
  /* Indexed by op code (gramme-ops.def) and dtype code of the *operands* (SELECT: of b and c); NULL
   * if undefined. */
  GmTilePointwise (*pointwise) (int op, int dtype);
  /* Returns two rows of f32 at once: out[i] = second (first (a[i], b[i]), c[i]), or, with `behind`,
   * second (c[i], first (a[i], b[i])). */
  GmTilePointwise (*pair) (int first, int second, bool behind);
  GmTileCast (*cast) (int from, int to);
  GmTileFold (*fold) (int op, int dtype);
  GmTileFoldColumns (*fold_columns) (int op, int dtype);
  GmTileArgFold (*arg_fold) (int op, int dtype);
  /* Return what fold and fold_columns do, with accumulators of f64: for sums of f32, whose blocks
   * are added up in f64. NULL for all other rows. */
  GmTileFold (*fold_wide) (int op, int dtype);
  GmTileFoldColumns (*fold_columns_wide) (int op, int dtype);
  /* Return the tiles of cumsum and cumprod; scan_line is NULL for f16 and bf16. */
  GmTileScan (*scan) (int op, int dtype);
  GmTileScanLine (*scan_line) (int op, int dtype);
  /* Writes the reduction's neutral element, of the accumulator's type. */
  void (*reduce_init) (int op, int dtype, void *out);
  /* Strided copies of n elements of 1, 2, 4 or 8 bytes; strides in elements, any sign or 0. */
  void (*gather) (void *out, const void *in, ptrdiff_t in_stride, size_t n, size_t elem_bytes);
  void (*scatter) (void *out, ptrdiff_t out_stride, const void *in, size_t n, size_t elem_bytes);
  /* Write Philox4x32-10 numbers: n values from element `first` of the stream (seed, draw offset).
   * dtype f32 or f64. */
  void (*uniform) (void *out, int dtype, uint64_t seed, uint64_t offset, uint64_t first, size_t n);
  void (*normal) (void *out, int dtype, uint64_t seed, uint64_t offset, uint64_t first, size_t n);
  /* Writes the raw generator's words: out[4 i .. 4 i + 3] is the block of counter {draw + i (64
   * bits), high (64 bits)} under `key`. */
  void (*philox) (uint32_t *out, uint64_t key, uint64_t draw, uint64_t high, size_t draws);
  /* Returns the table for f32 and f64; NULL for other types. */
  const GmConvolveTiles *(*convolve) (int dtype);
  const GmFewTiles *(*few_rows) (int dtype);
  /* The same arithmetic as C text for gcc (source.h), to be compiled with `flags`.  Names that it
   * declares as pointers must be filled in with external (name). */
  size_t vector_bytes;
  const char *source, *flags;
  void *(*external) (const char *name);
} GmTiles;

/* Returns the tables for this CPU.  NULL, with a reason in *why (static text), if the CPU lacks
 * AVX2, FMA or F16C.  Thread: any. */
const GmTiles *gm_tiles_get (const char **why);
/* Returns a named table ("avx2", "avx512"), or NULL if this CPU or build lacks it: for tests. */
const GmTiles *gm_tiles_for (const char *isa);

/* Functions on a large product, which is computed in blocks of C that share no element: several
 * threads may each compute some of them. The sizes and strides alone decide the blocks and the
 * transposition flags, so equal arguments give equal bits, whichever thread computes a block. k ==
 * 0 writes zeros. */
uint32_t gm_product_blocks (const GmProduct *p); /* number of blocks; never 0 */
void gm_product_block (const GmProduct *p, uint32_t i);
/* Returns the number of bytes of all of B, packed; 0 if the product does not read a packed B. */
size_t gm_product_packed_bytes (const GmProduct *p);
/* Packs the columns of B that block i reads into their place in `packed`. */
void gm_product_pack (const GmProduct *p, uint32_t i, void *packed);

/* Computes the product of all blocks, one after the other. */
void gm_tile_matmul (int dtype, int64_t m, int64_t n, int64_t k, const void *a,
                     int64_t a_row_stride, int64_t a_col_stride, const void *b,
                     int64_t b_row_stride, int64_t b_col_stride, void *c, int64_t ldc);

#endif
