/* SPDX-License-Identifier: Apache-2.0
 * tiles-casts.h -- every pair of element types, one row each.
 *
 * Part of tiles-impl.h.  What C leaves undefined is what x86 does, on every instruction set: a float outside the range of i32 or i64
 * gives the most negative number; to u8 it goes through i32 and the low byte is taken.  NaN is a true bool.
 */

/* (from, to, lanes, statement over `in` and `out`, both unsigned char *) */
#define CV(x, type) __builtin_convertvector (x, type)
#define CASTS(ROW) \
  ROW (b1, i32, L_i32, GM_STORE (vi32, out, load_u8_32 (in))) \
  ROW (b1, i64, L_i64, GM_STORE (vi64, out, load_u8_64 (in))) \
  ROW (b1, f32, L_f32, GM_STORE (vf32, out, CV (load_u8_32 (in), vf32))) \
  ROW (b1, f64, L_f64, GM_STORE (vf64, out, CV (load_u8_32h (in), vf64))) \
  ROW (u8, b1, L_u8, store_mask_u8 (out, (vi8) (GM_LOAD (vu8, in) != 0))) \
  ROW (i32, b1, L_i32, store_mask_i32 (out, GM_LOAD (vi32, in) != 0)) \
  ROW (i32, u8, L_i32, store_u8_32 (out, GM_LOAD (vi32, in))) \
  ROW (i32, i64, L_i64, GM_STORE (vi64, out, widen_32h (GM_LOAD (vi32h, in)))) \
  ROW (i32, f32, L_i32, GM_STORE (vf32, out, CV (GM_LOAD (vi32, in), vf32))) \
  ROW (i32, f64, L_f64, GM_STORE (vf64, out, CV (GM_LOAD (vi32h, in), vf64))) \
  ROW (i64, b1, L_i64, store_mask_i64 (out, GM_LOAD (vi64, in) != 0)) \
  ROW (i64, u8, L_i64, store_u8_64 (out, GM_LOAD (vi64, in))) \
  ROW (i64, i32, L_i64, GM_STORE (vi32h, out, narrow_64 (GM_LOAD (vi64, in)))) \
  ROW (i64, f32, L_i64, GM_STORE (vf32h, out, CV (GM_LOAD (vi64, in), vf32h))) \
  ROW (i64, f64, L_i64, GM_STORE (vf64, out, CV (GM_LOAD (vi64, in), vf64))) \
  ROW (f32, b1, L_f32, store_mask_f32 (out, GM_LOAD (vf32, in) != 0)) \
  ROW (f32, u8, L_f32, store_u8_32 (out, CV (GM_LOAD (vf32, in), vi32))) \
  ROW (f32, i32, L_f32, GM_STORE (vi32, out, CV (GM_LOAD (vf32, in), vi32))) \
  ROW (f32, i64, L_f64, GM_STORE (vi64, out, CV (GM_LOAD (vf32h, in), vi64))) \
  ROW (f32, f64, L_f64, GM_STORE (vf64, out, CV (GM_LOAD (vf32h, in), vf64))) \
  ROW (f64, b1, L_f64, store_mask_f64 (out, GM_LOAD (vf64, in) != 0)) \
  ROW (f64, u8, L_f64, store_u8_32h (out, CV (GM_LOAD (vf64, in), vi32h))) \
  ROW (f64, i32, L_f64, GM_STORE (vi32h, out, CV (GM_LOAD (vf64, in), vi32h))) \
  ROW (f64, i64, L_f64, GM_STORE (vi64, out, CV (GM_LOAD (vf64, in), vi64))) \
  ROW (f64, f32, L_f64, GM_STORE (vf32h, out, CV (GM_LOAD (vf64, in), vf32h)))

#define CAST_FN(from, to, lanes, statement) \
  static void cast_##from##_##to (void *pout, const void *pin, size_t n) \
  { \
    unsigned char *out = pout; \
    const unsigned char *in = pin; \
    for (; n >= (lanes); n -= (lanes), in += (lanes) * sizeof (E_##from), out += (lanes) * sizeof (E_##to)) \
      statement; \
    if (n == 0) \
      return; \
    unsigned char rest_in[(lanes) * sizeof (E_##from)] = { 0 }, rest_out[(lanes) * sizeof (E_##to)], *end = out; \
    memcpy (rest_in, in, n * sizeof (E_##from)); \
    in = rest_in; \
    out = rest_out; \
    statement; \
    memcpy (end, rest_out, n * sizeof (E_##to)); \
  }
CASTS (CAST_FN)

/* The same type: a copy.  A bool is 0 or 1, so it is a u8 already. */
#define COPY_FN(T) \
  static void cast_##T##_##T (void *out, const void *in, size_t n) \
  { \
    if (n && out != in) \
      memcpy (out, in, n * sizeof (E_##T)); \
  }
COPY_FN (u8)
COPY_FN (i32)
COPY_FN (i64)
COPY_FN (f32)
COPY_FN (f64)

static const GmTileCast casts[GM_TILE_DTYPES][GM_TILE_DTYPES] = {
#define ROW(from, to, ...) [GM_TILE_##from][GM_TILE_##to] = cast_##from##_##to,
  CASTS (ROW)
#undef ROW
  [GM_TILE_b1][GM_TILE_b1] = cast_u8_u8,    [GM_TILE_b1][GM_TILE_u8] = cast_u8_u8,
  [GM_TILE_u8][GM_TILE_u8] = cast_u8_u8,    [GM_TILE_u8][GM_TILE_i32] = cast_b1_i32,
  [GM_TILE_u8][GM_TILE_i64] = cast_b1_i64,  [GM_TILE_u8][GM_TILE_f32] = cast_b1_f32,
  [GM_TILE_u8][GM_TILE_f64] = cast_b1_f64,  [GM_TILE_i32][GM_TILE_i32] = cast_i32_i32,
  [GM_TILE_i64][GM_TILE_i64] = cast_i64_i64, [GM_TILE_f32][GM_TILE_f32] = cast_f32_f32,
  [GM_TILE_f64][GM_TILE_f64] = cast_f64_f64,
};
#undef CV
#undef CASTS
#undef CAST_FN
#undef COPY_FN
