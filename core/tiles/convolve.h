/* SPDX-License-Identifier: Apache-2.0
 * convolve.h -- matrix products with a matrix that is never stored: the windows over an image.
 *
 * Column p of that matrix is window p, row k contains each window's element at place k.  Element
 * (k, p) lies in memory at source[places[k] + position of p], and neighbouring windows of a line
 * read neighbouring elements: the code that makes the source (core/ops/convolve.c) ensures that, by
 * leaving room for the padding and by sorting the columns of a line where windows are more than one
 * column apart.  Panels of some columns are gathered, multiplied from the cache, and dropped.
 *
 * Bits.  An element of a result is one chain of fused multiply-adds from zero: over places in their
 * order (correlate), or, for each image, over windows in their order (weigh); weigh_line has 16
 * chains, window x of a line in chain x % 16, which its caller folds in the order of tiles.h.  So
 * the bits depend neither on the instruction set nor on the blocking.
 */
#ifndef GM_TILES_CONVOLVE_H
#define GM_TILES_CONVOLVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  GM_PANEL = 48,        /* columns that are gathered at once, at most */
  GM_PANEL_DEPTH = 288, /* rows that are gathered at once, at most */
  GM_PANEL_BLOCK =
      1 << 16,          /* elements of the result that are made at once; a panel of it at least */
  GM_WINDOW_SLACK = 64, /* elements behind a source that may be read */
  GM_WINDOW_CHAINS = 16,
};

typedef struct {
  const void *source;
  const int64_t *places; /* distance in elements from a window's position */
  int64_t depth;         /* number of places */
  /* Windows of several images, one image after the other, with so many source elements between
   * them. */
  int64_t images, image_step;
  int64_t size[3]; /* windows of an image: planes, lines, columns */
  /* Source elements between planes and between lines; columns are neighbours. */
  int64_t step[2];
  bool tight; /* true if nothing behind the last element of a line may be read */
} GmWindows;

typedef struct {
  GmWindows windows;
  int64_t rows;
  const void *a; /* rows x depth, row-major */
  /* The element of its row r, window p is at out_row * r, plus out_image for p's image, and
   * out_step for its plane, line and column. */
  void *out;
  int64_t out_row, out_image, out_step[3];
  int64_t from, to; /* the windows, counted through all images */
  void *scratch;    /* gm_correlate_scratch (rows) elements */
} GmCorrelation;

static inline size_t
gm_correlate_scratch (int64_t rows)
{
  size_t panel = (size_t) GM_PANEL * (size_t) rows;
  return (size_t) GM_PANEL * GM_PANEL_DEPTH + GM_WINDOW_SLACK
         + (panel > GM_PANEL_BLOCK ? panel : GM_PANEL_BLOCK);
}

typedef struct {
  int64_t panel; /* columns of a panel of this type, at most GM_PANEL */
  /* Computes out = a x windows, for the windows from `from` to `to`. */
  void (*correlate) (const GmCorrelation *c);
  /* The same for few rows: line by line, for all windows of one image. */
  void (*correlate_lines) (const GmCorrelation *c);
  /* Adds to sums[k][j], image by image, the element (windows x g)[k][j], j < `columns` <= panel: g
   * has a row of `panel` elements for each window of all images, sums has one for each place, and
   * chains, whose contents mean nothing, as many.  Elements of g behind `columns` may have any
   * value. */
  void (*weigh) (const GmWindows *w, const void *g, int64_t columns, void *sums, void *chains);
  /* weigh for one column of one image, g[window]: adds to chains[k][x % GM_WINDOW_CHAINS]. */
  void (*weigh_line) (const GmWindows *w, const void *g, void *chains);
  /* Sets out[k] to the sum of chains[k]. */
  void (*fold_chains) (void *out, const void *chains, int64_t depth);
  /* Finds the best element of each window of one channel: the first that is larger than all others,
   * or the first NaN; and, unless `where` is NULL, its place, an integer as wide as an element.
   * Both results are dense, in the order of windows. */
  void (*best) (const GmWindows *w, void *best, void *where);
  /* Sets even[i] = in[2 i], odd[i] = in[2 i + 1], i < n. */
  void (*part) (void *even, void *odd, const void *in, int64_t n);
  /* Sets out[c * out_row + r] = in[r * in_row + c], r < rows, c < columns. */
  void (*transpose) (void *out, int64_t out_row, const void *in, int64_t in_row, int64_t rows,
                     int64_t columns);
} GmConvolveTiles;

#endif
