/* SPDX-License-Identifier: Apache-2.0
 * convolve.h -- matrix products with a matrix that is never written out: the windows over an image.
 *
 * Column p of that matrix is window p, row k is what all windows have at their place k.  Element (k, p) lies in memory at
 * source[places[k] + position of p], and neighbouring windows of a line read neighbouring elements: who makes the source sees to
 * that (core/ops/convolve.c), by leaving room for the padding and by sorting the columns of a line where windows are more than one
 * column apart.  Panels of some columns are gathered, multiplied from the cache, and forgotten.
 *
 * Bits.  An element of a result is one chain of fused multiply-adds from zero: over places in their order (correlate), or, for each
 * image, over windows in their order (weigh); weigh_line has 16 chains, window x of a line in chain x % 16, which its caller folds
 * in the order of tiles.h.  So neither the instruction set nor the blocking shows.
 */
#ifndef GM_TILES_CONVOLVE_H
#define GM_TILES_CONVOLVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  GM_PANEL = 48,         /* columns that are gathered at once, at most */
  GM_PANEL_DEPTH = 512,  /* and rows */
  GM_WINDOW_SLACK = 64,  /* elements behind a source that may be read */
  GM_WINDOW_CHAINS = 16,
};

typedef struct {
  const void *source;
  const int64_t *places; /* elements from a window's position */
  int64_t depth;         /* how many */
  int64_t size[3];       /* windows: planes, lines, columns */
  int64_t step[2];       /* source elements from plane to plane and from line to line; columns are neighbours */
  bool tight;            /* nothing behind the last element of a line may be read */
} GmWindows;

typedef struct {
  GmWindows windows;
  int64_t rows;
  const void *a;    /* rows x depth, row-major */
  void *out;        /* its row r, window p: out_row * r, and out_step for p's plane, line and column */
  int64_t out_row, out_step[3];
  void *scratch; /* gm_correlate_scratch (rows) elements */
} GmCorrelation;

static inline size_t
gm_correlate_scratch (int64_t rows)
{
  return (size_t) GM_PANEL * (GM_PANEL_DEPTH + (size_t) rows) + GM_WINDOW_SLACK;
}

typedef struct {
  /* out = a x windows. */
  void (*correlate) (const GmCorrelation *c);
  /* sums[k][j] += (windows x g)[k][j], j < `columns` <= GM_PANEL: g has a row of GM_PANEL elements for each window, sums one for each
   * place.  What lies in g behind `columns` may be anything. */
  void (*weigh) (const GmWindows *w, const void *g, int64_t columns, void *sums);
  /* The same for one column, g[window]: chains[k][x % GM_WINDOW_CHAINS]. */
  void (*weigh_line) (const GmWindows *w, const void *g, void *chains);
  /* out[k] = the sum of chains[k]. */
  void (*fold_chains) (void *out, const void *chains, int64_t depth);
  /* The best element of each window, of one channel: the first that is larger than all, or the first NaN; and, unless `where` is NULL, its
   * place, an integer as wide as an element.  Both dense, in the order of windows. */
  void (*best) (const GmWindows *w, void *best, void *where);
  /* even[i] = in[2 i], odd[i] = in[2 i + 1], i < n. */
  void (*part) (void *even, void *odd, const void *in, int64_t n);
  /* out[c * out_row + r] = in[r * in_row + c], r < rows, c < columns. */
  void (*transpose) (void *out, int64_t out_row, const void *in, int64_t in_row, int64_t rows, int64_t columns);
} GmConvolveTiles;

#endif
