/* SPDX-License-Identifier: Apache-2.0
 * tiles-scan.h -- one step of running sums and products, and folds of f32 that are summed up in
 * f64.
 *
 * Part of tiles-impl.h.  Accumulators of a scan are f64 for f32 and f64, f32 for f16 and bf16, and
 * the element's own type for integers, whose arithmetic wraps.  Each lane is a line of its own, so
 * the order of a line's elements is the only one there is.
 */
/* clang-format off */

/* Computes steps of `n` neighbouring lines. */
#define SCAN_TILE(T, A, name, OP)                                                                  \
  static void scan_##name##_##T (void *acc, void *out, const void *in, size_t n)                   \
  {                                                                                                \
    E_##A *a = acc;                                                                                \
    E_##T *o = out;                                                                                \
    const E_##T *x = in;                                                                           \
    size_t j = 0;                                                                                  \
    for (; j + L_##A <= n; j += L_##A) {                                                           \
      A_##A v = load_##A (a + j) OP load_##T (x + j);                                              \
      store_##A (a + j, v);                                                                        \
      store_##T (o + j, v);                                                                        \
    }                                                                                              \
    if (j < n) {                                                                                   \
      const A_##A pad = { 0 };                                                                     \
      A_##A v = load_part_##A (a + j, n - j, pad) OP load_part_##T (x + j, n - j, pad);            \
      store_part_##A (a + j, n - j, v);                                                            \
      store_part_##T (o + j, n - j, v);                                                            \
    }                                                                                              \
  }

#define SCAN_TILE_f32(name, OP)                                                                    \
  static void scan_##name##_f32 (void *acc, void *out, const void *in, size_t n)                   \
  {                                                                                                \
    double *a = acc;                                                                               \
    float *o = out;                                                                                \
    const float *x = in;                                                                           \
    size_t j = 0;                                                                                  \
    for (; j + L_f64 <= n; j += L_f64) {                                                           \
      vf64 v = load_f64 (a + j) OP __builtin_convertvector (GM_LOAD (vf32h, x + j), vf64);         \
      store_f64 (a + j, v);                                                                        \
      GM_STORE (vf32h, o + j, __builtin_convertvector (v, vf32h));                                 \
    }                                                                                              \
    for (; j < n; j++) {                                                                           \
      a[j] = a[j] OP (double) x[j];                                                                \
      o[j] = (float) a[j];                                                                         \
    }                                                                                              \
  }

/* Computes a line of n elements, with strides in elements; W: the type of the computation. */
#define SCAN_LINE(T, W, name, OP)                                                                  \
  static void scan_line_##name##_##T (void *out, ptrdiff_t out_stride, const void *in,             \
                                      ptrdiff_t in_stride, size_t n)                               \
  {                                                                                                \
    E_##T *o = out;                                                                                \
    const E_##T *x = in;                                                                           \
    W a = SCAN_FIRST_##name;                                                                       \
    for (size_t i = 0; i < n; i++, o += out_stride, x += in_stride) {                              \
      a = a OP (W) *x;                                                                             \
      *o = (E_##T) a;                                                                              \
    }                                                                                              \
  }
#define SCAN_FIRST_cumsum 0
#define SCAN_FIRST_cumprod 1

#define SCAN_INTEGERS(ROW, name, OP)                                                               \
  ROW (i8, i8, name, OP) ROW (i16, i16, name, OP) ROW (i32, i32, name, OP) ROW (i64, i64, name, OP) \
      ROW (u8, u8, name, OP)
#define SCAN_TILES(name, OP)                                                                       \
  SCAN_INTEGERS (SCAN_TILE, name, OP)                                                              \
  SCAN_TILE (f64, f64, name, OP)                                                                   \
  SCAN_TILE (f16, f32, name, OP)                                                                   \
  SCAN_TILE (bf16, f32, name, OP)                                                                  \
  SCAN_TILE_f32 (name, OP)                                                                         \
  SCAN_LINE (f32, double, name, OP)                                                                \
  SCAN_LINE (f64, double, name, OP)                                                                \
  SCAN_LINE (i8, uint64_t, name, OP)                                                               \
  SCAN_LINE (i16, uint64_t, name, OP)                                                              \
  SCAN_LINE (i32, uint64_t, name, OP)                                                              \
  SCAN_LINE (i64, uint64_t, name, OP)                                                              \
  SCAN_LINE (u8, uint64_t, name, OP)
SCAN_TILES (cumsum, +)
SCAN_TILES (cumprod, *)

#define SCAN_ENTRIES(name)                                                                         \
  {                                                                                                \
    [GM_TILE_f32] = scan_##name##_f32, [GM_TILE_f64] = scan_##name##_f64,                          \
    [GM_TILE_f16] = scan_##name##_f16, [GM_TILE_bf16] = scan_##name##_bf16,                        \
    [GM_TILE_i8] = scan_##name##_i8, [GM_TILE_i16] = scan_##name##_i16,                            \
    [GM_TILE_i32] = scan_##name##_i32, [GM_TILE_i64] = scan_##name##_i64,                          \
    [GM_TILE_u8] = scan_##name##_u8,                                                               \
  }
#define SCAN_LINE_ENTRIES(name)                                                                    \
  {                                                                                                \
    [GM_TILE_f32] = scan_line_##name##_f32, [GM_TILE_f64] = scan_line_##name##_f64,                \
    [GM_TILE_i8] = scan_line_##name##_i8, [GM_TILE_i16] = scan_line_##name##_i16,                  \
    [GM_TILE_i32] = scan_line_##name##_i32, [GM_TILE_i64] = scan_line_##name##_i64,                \
    [GM_TILE_u8] = scan_line_##name##_u8,                                                          \
  }
static GmTileScan
look_up_scan (int op, int dtype)
{
  static const GmTileScan sums[GM_TILE_DTYPES] = SCAN_ENTRIES (cumsum);
  static const GmTileScan products[GM_TILE_DTYPES] = SCAN_ENTRIES (cumprod);
  if (dtype < 0 || dtype >= GM_TILE_DTYPES)
    return NULL;
  return op == GM_TILE_OP_cumsum ? sums[dtype] : op == GM_TILE_OP_cumprod ? products[dtype] : NULL;
}
static GmTileScanLine
look_up_scan_line (int op, int dtype)
{
  static const GmTileScanLine sums[GM_TILE_DTYPES] = SCAN_LINE_ENTRIES (cumsum);
  static const GmTileScanLine products[GM_TILE_DTYPES] = SCAN_LINE_ENTRIES (cumprod);
  if (dtype < 0 || dtype >= GM_TILE_DTYPES)
    return NULL;
  return op == GM_TILE_OP_cumsum ? sums[dtype] : op == GM_TILE_OP_cumprod ? products[dtype] : NULL;
}
#undef SCAN_TILE
#undef SCAN_TILE_f32
#undef SCAN_LINE
#undef SCAN_INTEGERS
#undef SCAN_TILES
#undef SCAN_ENTRIES
#undef SCAN_LINE_ENTRIES

/* -- Blocks of f32, added up in f64 ------------------------------------------------------------ */

static void
fold_wide_sum_f32 (void *acc, const void *x, size_t n)
{
  double so_far;
  memcpy (&so_far, acc, sizeof so_far);
  so_far += (double) block_sum_f32 (x, n, 0)[0];
  memcpy (acc, &so_far, sizeof so_far);
}

static void
fold_columns_wide_sum_f32 (void *acc, const void *x, ptrdiff_t row_stride_bytes, size_t rows, size_t width)
{
  double *o = acc;
  const float *in = x;
  size_t j = 0;
  for (; j + L_f32 <= width; j += L_f32) {
    vf32h halves[2];
    vf32 block = columns_sum_f32 ((const char *) (in + j), row_stride_bytes, rows, L_f32, (vf32){ 0 });
    memcpy (halves, &block, sizeof block);
    for (int h = 0; h < 2; h++)
      store_f64 (o + j + h * L_f64, load_f64 (o + j + h * L_f64) + __builtin_convertvector (halves[h], vf64));
  }
  if (j < width) {
    float block[L_f32];
    store_f32 (block, columns_sum_f32 ((const char *) (in + j), row_stride_bytes, rows, width - j, (vf32){ 0 }));
    for (size_t i = 0; j + i < width; i++)
      o[j + i] += (double) block[i];
  }
}

static GmTileFold
look_up_fold_wide (int op, int dtype)
{
  return op == GM_TILE_OP_sum && dtype == GM_TILE_f32 ? fold_wide_sum_f32 : NULL;
}
static GmTileFoldColumns
look_up_fold_columns_wide (int op, int dtype)
{
  return op == GM_TILE_OP_sum && dtype == GM_TILE_f32 ? fold_columns_wide_sum_f32 : NULL;
}
