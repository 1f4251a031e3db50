/* SPDX-License-Identifier: Apache-2.0
 * tiles-rows.h -- the op table's arithmetic rows for one element type.
 *
 * Included once per type by tiles-impl.h, which sets GM_T and switches the classes of rows on:
 * GM_ARITH, GM_FLOAT, GM_COMPARE, GM_LOGICAL, GM_BITWISE, GM_SELECT are 1 or 0.  Defines the tables
 * pointwise_T, fold_T, fold_columns_T, arg_fold_T, indexed by op code, and the inline functions
 * value_<row>_T, which are the rows themselves.
 */
/* clang-format off */

#include "core/tiles/tiles-values.h"

/* -- Pointwise tiles --------------------------------------------------------------------------- */

/* Operands that a row lacks are read as its first operand: no loads remain after inlining. */
#define OPERAND_1(a, b, c) a, a, a
#define OPERAND_2(a, b, c) a, b, b
#define OPERAND_3(a, b, c) a, b, c

#define TILE_BEGIN(name) \
  static void GM_N (tile_##name) (void *out, const void *pa, const void *pb, const void *pc, size_t n) \
  { \
    ELEM *o = out; \
    const ELEM *xa = pa, *xb = pb, *xc = pc; \
    size_t i = 0; \
    (void) o, (void) xb, (void) xc;
/* The short rest of a row is padded with ones, which are valid operands of every row. */
#define TILE_SAME(name, n_in) \
  TILE_BEGIN (name) \
    for (; i + LANES <= n; i += LANES) \
      GM_N (store) (o + i, GM_N (value_##name) (OPERAND_##n_in (GM_N (load) (xa + i), GM_N (load) (xb + i), \
                                                                GM_N (load) (xc + i)))); \
    if (i < n) { \
      size_t k = n - i; \
      VALS one = K (1); \
      VALS r = GM_N (value_##name) (OPERAND_##n_in (GM_N (load_part) (xa + i, k, one), GM_N (load_part) (xb + i, k, one), \
                                                 GM_N (load_part) (xc + i, k, one))); \
      GM_N (store_part) (o + i, k, r); \
    } \
  }
#define TILE_MASK(name, n_in) \
  TILE_BEGIN (name) \
    uint8_t *ob = out; \
    for (; i + LANES <= n; i += LANES) \
      GM_V (store_mask) (ob + i, GM_N (value_##name) (OPERAND_##n_in ((CMPS) GM_N (load) (xa + i), \
                                                                      (CMPS) GM_N (load) (xb + i), \
                                                                      (CMPS) GM_N (load) (xc + i)))); \
    if (i < n) { \
      size_t k = n - i; \
      VALS one = K (1); \
      MASKS r = GM_N (value_##name) (OPERAND_##n_in ((CMPS) GM_N (load_part) (xa + i, k, one), \
                                                     (CMPS) GM_N (load_part) (xb + i, k, one), \
                                                     (CMPS) GM_N (load_part) (xc + i, k, one))); \
      GM_V (store_mask_part) (ob + i, k, r); \
    } \
  }
#define TILE_SELECT(name, n_in) \
  TILE_BEGIN (name) \
    const uint8_t *xm = pa; \
    (void) xa; \
    for (; i + LANES <= n; i += LANES) \
      GM_N (store) (o + i, GM_N (value_##name) (GM_V (load_mask) (xm + i), GM_N (load) (xb + i), GM_N (load) (xc + i))); \
    if (i < n) { \
      size_t k = n - i; \
      VALS one = K (1); \
      VALS r = GM_N (value_##name) (GM_V (load_mask_part) (xm + i, k), GM_N (load_part) (xb + i, k, one), \
                                 GM_N (load_part) (xc + i, k, one)); \
      GM_N (store_part) (o + i, k, r); \
    } \
  }
#define POINTWISE(code, version, name, n, types, ...) IF_##types (GM_CAT (TILE_, FORM_##types) (name, n))
#include "plugin-api/gramme-ops.def"

static const GmTilePointwise GM_N (pointwise)[GM_OP_CODES] = {
#define POINTWISE(code, version, name, n, types, ...) IF_##types ([code] = GM_N (tile_##name),)
#include "plugin-api/gramme-ops.def"
};

/* -- Folds ------------------------------------------------------------------------------------- */

#define FOLD(code, name) \
  /* Combines the accumulator so far, in lane 0, with a block. */ \
  GM_INLINE VALS GM_N (block_##name) (const ELEM *x, size_t n, ACCUM so_far) \
  { \
    const VALS init = GM_N (init_##name) (); \
    VALS p[N_PARTIALS]; \
    GM_UNROLL for (size_t k = 0; k < N_PARTIALS; k++) \
      p[k] = init; \
    size_t i = 0; \
    for (; i + LANES * N_PARTIALS <= n; i += LANES * N_PARTIALS) { \
      GM_UNROLL for (size_t k = 0; k < N_PARTIALS; k++) { \
        VALS v = GM_N (load) (x + i + k * LANES); \
        p[k] = GM_N (value_combine_##name) (p[k], v, v); \
      } \
    } \
    GM_UNROLL for (size_t k = 0; k < N_PARTIALS; k++) { \
      if (i < n) { \
        VALS v = n - i < LANES ? GM_N (load_part) (x + i, n - i, init) : GM_N (load) (x + i); \
        p[k] = GM_N (value_combine_##name) (p[k], v, v); \
        i += LANES; \
      } \
    } \
    VALS v = GM_N (close_##name) (p, GM_V (splat) (so_far)); \
    if (code == GM_TILE_OP_prod && v[0] != v[0]) { /* never for integers */ \
      v = GM_V (splat) (so_far); \
      for (i = 0; i < n; i++) \
        v = v * GM_V (splat) ((ACCUM) GM_N (load_part) (x + i, 1, init)[0]); \
    } \
    return v; \
  } \
  static void GM_N (fold_##name) (void *acc, const void *x, size_t n) \
  { \
    ACCUM so_far; \
    memcpy (&so_far, acc, sizeof (ACCUM)); \
    VALS v = GM_N (block_##name) (x, n, so_far); \
    memcpy (acc, &v, sizeof (ACCUM)); \
  }

/* Combines one vector of columns: the 16 partials are whole vectors, and the tree goes across
 * them. */
#define FOLD_COLUMNS(code, name) \
  GM_INLINE VALS GM_N (columns_##name) (const char *x, ptrdiff_t stride, size_t rows, size_t k, VALS acc) \
  { \
    const VALS init = GM_N (init_##name) (); \
    const char *first = x; \
    VALS p[16]; \
    GM_UNROLL for (int i = 0; i < 16; i++) \
      p[i] = init; \
    size_t r = 0; \
    for (; r + 16 <= rows; r += 16, x += 16 * stride) { \
      GM_UNROLL for (int i = 0; i < 16; i++) { \
        VALS v = k < LANES ? GM_N (load_part) (x + i * stride, k, init) : GM_N (load) (x + i * stride); \
        p[i] = GM_N (value_combine_##name) (p[i], v, v); \
      } \
    } \
    GM_UNROLL for (size_t i = 0; i < 15; i++) { \
      if (r + i < rows) { \
        const char *at = x + (ptrdiff_t) i * stride; \
        VALS v = k < LANES ? GM_N (load_part) (at, k, init) : GM_N (load) (at); \
        p[i] = GM_N (value_combine_##name) (p[i], v, v); \
      } \
    } \
    GM_UNROLL for (int s = 8; s > 0; s /= 2) \
      GM_UNROLL for (int i = 0; i < s; i++) \
        p[i] = GM_N (value_combine_##name) (p[i], p[i + s], p[i]); \
    VALS all = GM_N (value_combine_##name) (acc, p[0], p[0]); \
    if (code == GM_TILE_OP_prod && gm_any_set ((vi64) (all != all))) { \
      MASKS no_number = (MASKS) (all != all); \
      for (r = 0; r < rows; r++, first += stride) \
        acc = acc * (k < LANES ? GM_N (load_part) (first, k, init) : GM_N (load) (first)); \
      all = GM_V (sel) (no_number, acc, all); \
    } \
    return all; \
  } \
  static void GM_N (fold_columns_##name) (void *acc, const void *x, ptrdiff_t row_stride_bytes, size_t rows, \
                                          size_t width) \
  { \
    ACCUM *o = acc; \
    const ELEM *in = x; \
    size_t j = 0; \
    for (; j + LANES <= width; j += LANES) \
      GM_V (store) (o + j, GM_N (columns_##name) ((const char *) (in + j), row_stride_bytes, rows, LANES, \
                                                  GM_V (load) (o + j))); \
    if (j < width) { \
      size_t k = width - j; \
      VALS old = GM_V (load_part) (o + j, k, GM_N (init_##name) ()); \
      GM_V (store_part) (o + j, k, GM_N (columns_##name) ((const char *) (in + j), row_stride_bytes, rows, k, \
                                                          old)); \
    } \
  }

#define REDUCE(code, version, name, types, ...) IF_##types (FOLD (code, name) FOLD_COLUMNS (code, name))
#include "plugin-api/gramme-ops.def"

static const GmTileFold GM_N (fold)[GM_OP_CODES] = {
#define REDUCE(code, version, name, types, ...) IF_##types ([code] = GM_N (fold_##name),)
#include "plugin-api/gramme-ops.def"
};

static const GmTileFoldColumns GM_N (fold_columns)[GM_OP_CODES] = {
#define REDUCE(code, version, name, types, ...) IF_##types ([code] = GM_N (fold_columns_##name),)
#include "plugin-api/gramme-ops.def"
};

static bool
GM_N (reduce_init) (int op, void *out)
{
  VALS v;
  switch (op) {
#define REDUCE(code, version, name, types, ...) \
  IF_##types (case code : v = GM_N (init_##name) (); break;)
#include "plugin-api/gramme-ops.def"
  default:
    return false;
  }
  memcpy (out, &v, sizeof (ACCUM));
  return true;
}

/* -- Positions of extremes --------------------------------------------------------------------- */

#if GM_COMPARE
/* First finds the best value, then, if it is better than the best so far, its first place. */
#define ARG_FOLD(name) \
  static void GM_N (arg_fold_##name) (void *best, int64_t *index, const void *px, int64_t base, size_t n) \
  { \
    const ELEM *x = px; \
    ACCUM known, lanes[LANES], top; \
    memcpy (&known, best, sizeof (ACCUM)); \
    if (n == 0 || (*index >= 0 && known != known)) \
      return; \
    VALS v = GM_N (load_part) (x, 1, (VALS){ 0 }); \
    memcpy (&top, &v, sizeof (ACCUM)); \
    const VALS first = GM_V (splat) (top); \
    VALS found = first; \
    for (size_t i = 0; i < n; i += LANES) { \
      CMPS f = (CMPS) found; \
      CMPS w = (CMPS) (n - i < LANES ? GM_N (load_part) (x + i, n - i, first) : GM_N (load) (x + i)); \
      found = GM_V (sel) (GM_N (value_better_##name) (w, f, f) | (MASKS) (w != w), (VALS) w, found); \
    } \
    memcpy (lanes, &found, sizeof found); \
    top = lanes[0]; \
    for (size_t k = 1; k < LANES; k++) { \
      if (GM_N (better1_##name) (lanes[k], top) || lanes[k] != lanes[k]) \
        top = lanes[k]; \
    } \
    if (*index >= 0 && !GM_N (better1_##name) (top, known) && top == top) \
      return; \
    size_t at = 0; \
    for (; at + LANES <= n; at += LANES) { \
      CMPS w = (CMPS) GM_N (load) (x + at); \
      MASKS hit = top == top ? (MASKS) (w == (CMPS) GM_V (splat) (top)) : (MASKS) (w != w); \
      if (gm_any_set ((vi64) hit)) \
        break; \
    } \
    v = n - at < LANES ? GM_N (load_part) (x + at, n - at, first) : GM_N (load) (x + at); \
    memcpy (lanes, &v, sizeof v); \
    for (size_t k = 0; k < LANES && at + k < n; k++) { \
      if (top == top ? lanes[k] == top : lanes[k] != lanes[k]) { \
        memcpy (best, &lanes[k], sizeof (ACCUM)); \
        *index = base + (int64_t) (at + k); \
        return; \
      } \
    } \
  }
#define ARGREDUCE(code, version, name, better) \
  GM_INLINE bool GM_N (better1_##name) (ACCUM a, ACCUM b) { return better; } \
  ARG_FOLD (name)
#include "plugin-api/gramme-ops.def"
#endif

static const GmTileArgFold GM_N (arg_fold)[GM_OP_CODES] = {
#define ARGREDUCE(code, version, name, ...) IF_COMPARE ([code] = GM_N (arg_fold_##name),)
#include "plugin-api/gramme-ops.def"
};

#undef ARG_FOLD
#undef FOLD
#undef FOLD_COLUMNS
#undef TILE_BEGIN
#undef TILE_SAME
#undef TILE_MASK
#undef TILE_SELECT
#undef OPERAND_1
#undef OPERAND_2
#undef OPERAND_3
#include "core/tiles/tiles-values-end.h"
