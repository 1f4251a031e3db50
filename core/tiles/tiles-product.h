/* SPDX-License-Identifier: Apache-2.0
 * tiles-product.h -- products of a few rows with a matrix, or of any rows with a small one, for one
 * floating type.
 *
 * Included by tiles-impl.h for GM_T f32 and f64.  B is cut into panels of three vectors of columns
 * and GM_FEW_DEPTH rows.  A packed panel is in one piece, row after row, and stays in the first
 * cache while all rows of A meet it.  A library packs all of B anew for each product: for few rows
 * this takes as long as the product.  Here a caller may keep what `pack` made.
 *
 * Bits.  An element is a sum of chains of fused multiply-adds, each from zero over GM_FEW_DEPTH
 * consecutive k; the chains are added in order.  So an element's bits depend on its row, its column
 * and k, and not on the number of rows, on strides, on blocks, on what is packed or on the
 * instruction set.
 */

#define VEC GM_N (A)
#define ELEM GM_N (E)
#define LANES GM_N (L)
#define PANEL (3 * LANES)
#ifdef GM_ISA_AVX512
#define ROWS 8
#else
#define ROWS 4
#endif

/* Adds a (rows x depth) b (depth x n vectors) to c, or stores the product if `first`. The last
 * vector of c has `last` lanes. */
GM_INLINE void
GM_N (few_block) (const int rows, const int n, int64_t depth, const ELEM *a, int64_t a_row,
                  int64_t a_col, const ELEM *b, int64_t ldb, ELEM *c, int64_t ldc, size_t last,
                  bool first)
{
  VEC sum[ROWS][3];
  GM_UNROLL for (int r = 0; r < rows; r++) GM_UNROLL for (int j = 0; j < n; j++) sum[r][j] =
      (VEC){ 0 };
  for (int64_t k = 0; k < depth; k++, a += a_col, b += ldb) {
    VEC x[3];
    GM_UNROLL for (int j = 0; j < n; j++) x[j] = GM_N (load) (b + j * LANES);
    GM_UNROLL for (int r = 0; r < rows; r++)
    {
      VEC y = GM_N (splat) (a[r * a_row]);
      GM_UNROLL for (int j = 0; j < n; j++) sum[r][j] = GM_N (fma) (y, x[j], sum[r][j]);
    }
  }
  GM_UNROLL for (int r = 0; r < rows; r++) GM_UNROLL for (int j = 0; j < n; j++)
  {
    ELEM *to = c + r * ldc + j * LANES;
    if (j < n - 1 || last == LANES)
      GM_N (store) (to, first ? sum[r][j] : GM_N (load) (to) + sum[r][j]);
    else {
      VEC before = first ? (VEC){ 0 } : GM_N (load_part) (to, last, (VEC){ 0 });
      GM_N (store_part) (to, last, first ? sum[r][j] : before + sum[r][j]);
    }
  }
}

/* Multiplies all rows of A, from column k on, with a panel. */
static void
GM_N (few_panel) (const GmProduct *p, int64_t k, int64_t depth, const ELEM *b, int64_t ldb, ELEM *c,
                  int64_t columns)
{
  const ELEM *a = (const ELEM *) p->a + k * p->a_col_stride;
  const int n = (int) ((columns + LANES - 1) / LANES);
  const size_t last = (size_t) (columns - (n - 1) * LANES);
  for (int64_t r = 0, take; r < p->m; r += take) {
    const int64_t left = p->m - r, blocks = (left + ROWS - 1) / ROWS;
    take = (left + blocks - 1) / blocks;
#define BLOCK(rows, n)                                                                             \
  GM_N (few_block)                                                                                 \
  (rows, n, depth, a + r * p->a_row_stride, p->a_row_stride, p->a_col_stride, b, ldb,              \
   c + r * p->ldc, p->ldc, last, k == 0)
#define BY_COLUMNS(rows)                                                                           \
  case rows:                                                                                       \
    if (n == 3)                                                                                    \
      BLOCK (rows, 3);                                                                             \
    else if (n == 2)                                                                               \
      BLOCK (rows, 2);                                                                             \
    else                                                                                           \
      BLOCK (rows, 1);                                                                             \
    break
    switch (take) {
      BY_COLUMNS (1);
      BY_COLUMNS (2);
      BY_COLUMNS (3);
      BY_COLUMNS (4);
#ifdef GM_ISA_AVX512
      BY_COLUMNS (5);
      BY_COLUMNS (6);
      BY_COLUMNS (7);
      BY_COLUMNS (8);
#endif
    }
#undef BLOCK
#undef BY_COLUMNS
  }
}

/* Returns the number of elements of a packed row of the panel that begins at column j. */
GM_INLINE int64_t
GM_N (panel_width) (int64_t n, int64_t j)
{
  return n - j < PANEL ? (n - j + LANES - 1) / LANES * LANES : PANEL;
}

static int64_t
GM_N (packed_width) (int64_t n)
{
  return n / PANEL * PANEL + GM_N (panel_width) (n, n / PANEL * PANEL);
}

/* Packs depth rows of the columns from j to j_end.  Rows are copied through all panels at once,
 * since neighbours in memory are fetched together. */
static void
GM_N (pack_rows) (const GmProduct *p, int64_t k, int64_t depth, int64_t j, int64_t j_end,
                  ELEM *packed)
{
  for (int64_t i = 0; i < depth; i++) {
    const ELEM *b = (const ELEM *) p->b + (k + i) * p->b_row_stride;
    ELEM *panel = packed;
    for (int64_t at = j; at < j_end; at += PANEL) {
      const int64_t width = GM_N (panel_width) (j_end, at);
      ELEM *to = panel + i * width;
      if (j_end - at >= PANEL)
        GM_UNROLL for (int v = 0; v < 3; v++)
            GM_N (store) (to + v * LANES, GM_N (load) (b + at + v * LANES));
      else
        for (int64_t v = 0; v < width; v += LANES) {
          const int64_t left = j_end - at - v, n = left < LANES ? left : LANES;
          const VEC zero = { 0 };
          GM_N (store) (to + v, GM_N (load_part) (b + at + v, (size_t) n, zero));
        }
      panel += depth * width;
    }
  }
}

static void
GM_N (pack_columns) (const GmProduct *p, int64_t k, int64_t depth, int64_t j, int64_t j_end,
                     ELEM *packed)
{
  for (int64_t at = j; at < j_end; at += PANEL) {
    const int64_t width = GM_N (panel_width) (j_end, at);
    const int64_t columns = j_end - at < width ? j_end - at : width;
    if (columns < width)
      memset (packed, 0, (size_t) (depth * width) * sizeof *packed);
    GM_N (transpose)
    (packed, width, (const ELEM *) p->b + k + at * p->b_col_stride, p->b_col_stride, columns,
     depth);
    packed += depth * width;
  }
}

static void
GM_N (pack_depth) (const GmProduct *p, int64_t k, int64_t depth, int64_t j, int64_t j_end,
                   ELEM *packed)
{
  if (p->b_col_stride == 1)
    GM_N (pack_rows) (p, k, depth, j, j_end, packed);
  else
    GM_N (pack_columns) (p, k, depth, j, j_end, packed);
}

GM_INLINE int64_t
GM_N (depth_from) (int64_t k, int64_t k_end)
{
  return k_end - k < GM_FEW_DEPTH ? k_end - k : GM_FEW_DEPTH;
}

static void
GM_N (few_pack) (const GmProduct *p, int64_t j, int64_t j_end, void *packed)
{
  const int64_t width = GM_N (packed_width) (p->n);
  for (int64_t k = 0; k < p->k; k += GM_FEW_DEPTH) {
    const int64_t depth = GM_N (depth_from) (k, p->k);
    GM_N (pack_depth) (p, k, depth, j, j_end, (ELEM *) packed + k * width + j * depth);
  }
}

/* Multiplies all rows of A, from column k on, by packed rows of B. */
static void
GM_N (few_depth) (const GmProduct *p, int64_t k, int64_t depth, int64_t j, int64_t j_end,
                  const ELEM *packed)
{
  for (int64_t at = j; at < j_end; at += PANEL) {
    const int64_t width = GM_N (panel_width) (j_end, at);
    GM_N (few_panel)
    (p, k, depth, packed, width, (ELEM *) p->c + at, j_end - at < width ? j_end - at : width);
    packed += depth * width;
  }
}

static void
GM_N (few_by_packed) (const GmProduct *p, int64_t j, int64_t j_end)
{
  const int64_t width = GM_N (packed_width) (p->n);
  for (int64_t k = 0; k < p->k; k += GM_FEW_DEPTH) {
    const int64_t depth = GM_N (depth_from) (k, p->k);
    GM_N (few_depth) (p, k, depth, j, j_end, (const ELEM *) p->packed + k * width + j * depth);
  }
}

/* Multiplies by a B that is read in place, without packing. */
static void
GM_N (few_direct) (const GmProduct *p, int64_t j, int64_t j_end)
{
  for (int64_t k = 0; k < p->k; k += GM_FEW_DEPTH) {
    const ELEM *b = (const ELEM *) p->b + k * p->b_row_stride;
    for (int64_t at = j; at < j_end; at += PANEL)
      GM_N (few_panel)
    (p, k, GM_N (depth_from) (k, p->k), b + at, p->b_row_stride, (ELEM *) p->c + at, PANEL);
  }
}

/* Multiplies by a B whose parts are packed into the scratch memory: rows of many columns, or
 * columns of many rows, as they lie in memory. */
static void
GM_N (few_multiply) (const GmProduct *p, int64_t j, int64_t j_end, void *scratch, size_t room)
{
  const bool rows = p->b_col_stride == 1;
  const int64_t panels = (int64_t) (room / sizeof (ELEM)) / (GM_FEW_DEPTH * PANEL);
  const int64_t wide = rows ? panels * PANEL : PANEL, deep = rows ? 1 : panels;
  if (p->packed) {
    GM_N (few_by_packed) (p, j, j_end);
    return;
  }
  if (rows && p->m <= ROWS && (j_end - j) % PANEL == 0) {
    GM_N (few_direct) (p, j, j_end);
    return;
  }
  for (; j < j_end; j += wide) {
    const int64_t end = j_end - j < wide ? j_end : j + wide;
    const int64_t width = GM_N (packed_width) (end - j);
    for (int64_t k = 0; k < p->k; k += deep * GM_FEW_DEPTH) {
      const int64_t k_end = p->k - k < deep * GM_FEW_DEPTH ? p->k : k + deep * GM_FEW_DEPTH;
      ELEM *packed = scratch;
      for (int64_t i = k; i < k_end; i += GM_FEW_DEPTH)
        GM_N (pack_depth) (p, i, GM_N (depth_from) (i, k_end), j, end, packed + (i - k) * width);
      for (int64_t i = k; i < k_end; i += GM_FEW_DEPTH)
        GM_N (few_depth) (p, i, GM_N (depth_from) (i, k_end), j, end, packed + (i - k) * width);
    }
  }
}

static const GmFewTiles GM_N (few) = {
  .packed_width = GM_N (packed_width),
  .pack = GM_N (few_pack),
  .multiply = GM_N (few_multiply),
};

#undef VEC
#undef ELEM
#undef LANES
#undef PANEL
#undef ROWS
