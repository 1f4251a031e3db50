/* SPDX-License-Identifier: Apache-2.0
 * tiles-values.h -- the op table's arithmetic rows for one element type, as inline functions over
 * vectors.
 *
 * Part of tiles-rows.h, and of the source that code generators inline (source.h).  Defines
 * value_<row>_T for each POINTWISE row, value_combine_<row>_T, init_<row>_T and close_<row>_T for
 * each REDUCE row, and the names below, which tiles-values-end.h undefines.
 */
/* clang-format off */

#define ELEM GM_N (E)
#define VALS GM_V (A)
#define CMPS GM_V (C)
#define MASKS GM_V (M)
#define ACCUM GM_V (E) /* the element of VALS, in which reductions are accumulated */
#define LANES ((size_t) GM_V (L))

/* -- Classes ----------------------------------------------------------------------------------- */

/* IF_<class> (x) is x where this type has rows of the class.  FORM_<class> is the shape of such a
 * row: values to values, values to a mask, or a mask and values to values. */
#define IF_1(...) __VA_ARGS__
#define IF_0(...)
#define IF_ARITH(...) GM_CAT (IF_, GM_ARITH) (__VA_ARGS__)
#define IF_FLOAT(...) GM_CAT (IF_, GM_FLOAT) (__VA_ARGS__)
#define IF_COMPARE(...) GM_CAT (IF_, GM_COMPARE) (__VA_ARGS__)
#define IF_LOGICAL(...) GM_CAT (IF_, GM_LOGICAL) (__VA_ARGS__)
#define IF_BITWISE(...) GM_CAT (IF_, GM_BITWISE) (__VA_ARGS__)
#define IF_SELECT(...) GM_CAT (IF_, GM_SELECT) (__VA_ARGS__)
#define FORM_ARITH SAME
#define FORM_FLOAT SAME
#define FORM_LOGICAL SAME
#define FORM_BITWISE SAME
#define FORM_COMPARE MASK
#define FORM_SELECT SELECT

/* -- Values ------------------------------------------------------------------------------------ */

#define VALUE_SAME(name, value) \
  GM_INLINE VALS GM_N (value_##name) (VALS a, VALS b, VALS c) { (void) b, (void) c; return value; }
#define VALUE_MASK(name, value) \
  GM_INLINE MASKS GM_N (value_##name) (CMPS a, CMPS b, CMPS c) { (void) b, (void) c; return (MASKS) (value); }
#define VALUE_SELECT(name, value) \
  GM_INLINE VALS GM_N (value_##name) (MASKS a, VALS b, VALS c) { return value; }
#define POINTWISE(code, version, name, n, types, value, ...) \
  IF_##types (GM_CAT (VALUE_, FORM_##types) (name, value))
#define REDUCE(code, version, name, types, init, combine, ...) \
  IF_##types (VALUE_SAME (combine_##name, combine) \
              GM_INLINE VALS GM_N (init_##name) (void) { return init; })
#define ARGREDUCE(code, version, name, better) IF_COMPARE (VALUE_MASK (better_##name, better))
#include "plugin-api/gramme-ops.def"

/* -- Partial results --------------------------------------------------------------------------- */

/* Number of vectors that hold the 16 partial results of the order in tiles.h. Bytes have more lanes
 * than that and use all of them: their combines are exact, so their order does not matter. */
#define N_PARTIALS (GM_V (L) >= 16 ? 1 : 16 / GM_V (L))

/* Moves lane `by`, a power of two, to lane 0; lanes change places in pairs, which are near each
 * other where possible. */
GM_INLINE VALS
GM_N (lanes_down) (VALS v, int by)
{
  MASKS index = GM_V (iota) () ^ ((MASKS){ 0 } + (__typeof__ (((MASKS){ 0 })[0])) by);
  return __builtin_shuffle (v, index);
}

/* Ends a block: folds its partial results by the tree, and combines them with the accumulator so
 * far; the result is in lane 0. */
#define CLOSE(name) \
  GM_INLINE VALS GM_N (close_##name) (VALS *p, VALS so_far) \
  { \
    GM_UNROLL for (size_t s = N_PARTIALS / 2; s > 0; s /= 2) \
      GM_UNROLL for (size_t k = 0; k < s; k++) \
        p[k] = GM_N (value_combine_##name) (p[k], p[k + s], p[k]); \
    VALS v = p[0]; \
    GM_UNROLL for (int by = GM_V (L) / 2; by > 0; by /= 2) { \
      VALS w = GM_N (lanes_down) (v, by); \
      v = GM_N (value_combine_##name) (v, w, w); \
    } \
    return GM_N (value_combine_##name) (so_far, v, v); \
  }
#define REDUCE(code, version, name, types, ...) IF_##types (CLOSE (name))
#include "plugin-api/gramme-ops.def"
