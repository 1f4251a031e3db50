/* SPDX-License-Identifier: Apache-2.0
 * tiles-casts.h -- every pair of element types.
 *
 * Part of tiles-impl.h.  What C leaves undefined is what x86 does, on every instruction set: a float outside the range of i32 or i64
 * gives the most negative number; to 8 and 16 bits it goes through i32 and the low ones are taken.  NaN is a true bool.
 * i8 and i16 have rows to and from i32, the floats below 32 bits to and from f32; all their other pairs go through that type, so
 * f64 and i64 are rounded to f32 before they are rounded again, as in torch.
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
  ROW (f64, f32, L_f64, GM_STORE (vf32h, out, CV (GM_LOAD (vf64, in), vf32h))) \
  ROW (i8, i32, L_i32, GM_STORE (vi32, out, load_i8_32 (in))) \
  ROW (i32, i8, L_i32, store_u8_32 (out, GM_LOAD (vi32, in))) \
  ROW (i16, i32, L_i32, GM_STORE (vi32, out, load_i16_32 (in))) \
  ROW (i32, i16, L_i32, store_i16_32 (out, GM_LOAD (vi32, in))) \
  ROW (f16, f32, L_f32, GM_STORE (vf32, out, load_f16 (in))) \
  ROW (f32, f16, L_f32, store_f16 (out, GM_LOAD (vf32, in))) \
  ROW (bf16, f32, L_f32, GM_STORE (vf32, out, load_bf16 (in))) \
  ROW (f32, bf16, L_f32, store_bf16 (out, GM_LOAD (vf32, in))) \
  ROW (e4m3, f32, L_f32, GM_STORE (vf32, out, load_e4m3 (in))) \
  ROW (f32, e4m3, L_f32, store_e4m3 (out, GM_LOAD (vf32, in))) \
  ROW (e5m2, f32, L_f32, GM_STORE (vf32, out, load_e5m2 (in))) \
  ROW (f32, e5m2, L_f32, store_e5m2 (out, GM_LOAD (vf32, in)))

/* (from, middle, to): two casts, in this order of definition. */
#define VIA_LARGE(ROW, T, hub) \
  ROW (T, hub, b1) ROW (b1, hub, T) ROW (T, hub, i64) ROW (i64, hub, T) ROW (T, hub, f64) ROW (f64, hub, T)
#define VIA_INT(ROW, T) VIA_LARGE (ROW, T, i32) ROW (T, i32, f32) ROW (f32, i32, T)
#define VIA_FLOAT(ROW, T) \
  VIA_LARGE (ROW, T, f32) ROW (T, f32, u8) ROW (T, f32, i32) ROW (i32, f32, T) \
  ROW (T, f32, i8) ROW (i8, f32, T) ROW (T, f32, i16) ROW (i16, f32, T)
#define VIA_EACH_OTHER(ROW, T, hub, U) ROW (T, hub, U) ROW (U, hub, T)
#define VIA(ROW) \
  VIA_INT (ROW, i8) VIA_INT (ROW, i16) VIA_EACH_OTHER (ROW, i8, i32, i16) ROW (i16, i32, u8) \
  VIA_FLOAT (ROW, f16) VIA_FLOAT (ROW, bf16) VIA_FLOAT (ROW, e4m3) VIA_FLOAT (ROW, e5m2) \
  VIA_EACH_OTHER (ROW, f16, f32, bf16) VIA_EACH_OTHER (ROW, f16, f32, e4m3) VIA_EACH_OTHER (ROW, f16, f32, e5m2) \
  VIA_EACH_OTHER (ROW, bf16, f32, e4m3) VIA_EACH_OTHER (ROW, bf16, f32, e5m2) VIA_EACH_OTHER (ROW, e4m3, f32, e5m2)

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

#define VIA_FN(from, middle, to) \
  static void cast_##from##_##to (void *out, const void *in, size_t n) \
  { \
    E_##middle between[GM_TILE]; \
    for (size_t i = 0; i < n; i += GM_TILE) { \
      size_t take = n - i < GM_TILE ? n - i : GM_TILE; \
      cast_##from##_##middle (between, (const E_##from *) in + i, take); \
      cast_##middle##_##to ((E_##to *) out + i, between, take); \
    } \
  }
VIA (VIA_FN)

/* The same type: a copy.  A bool is 0 or 1, so it is a u8 already. */
#define COPY_FN(T) \
  static void cast_##T##_##T (void *out, const void *in, size_t n) \
  { \
    if (n && out != in) \
      memcpy (out, in, n * sizeof (E_##T)); \
  }
COPY_FN (u8)
COPY_FN (i16)
COPY_FN (i32)
COPY_FN (i64)
COPY_FN (f32)
COPY_FN (f64)

static const GmTileCast casts[GM_TILE_DTYPES][GM_TILE_DTYPES] = {
#define ROW(from, to, ...) [GM_TILE_##from][GM_TILE_##to] = cast_##from##_##to,
#define ROW_VIA(from, middle, to) [GM_TILE_##from][GM_TILE_##to] = cast_##from##_##to,
  CASTS (ROW)
  VIA (ROW_VIA)
#undef ROW
#undef ROW_VIA
  [GM_TILE_i8][GM_TILE_i8] = cast_u8_u8,    [GM_TILE_i8][GM_TILE_u8] = cast_u8_u8,
  [GM_TILE_u8][GM_TILE_i8] = cast_u8_u8,
  [GM_TILE_u8][GM_TILE_i16] = cast_b1_i16,  [GM_TILE_i16][GM_TILE_i16] = cast_i16_i16,
  [GM_TILE_f16][GM_TILE_f16] = cast_i16_i16, [GM_TILE_bf16][GM_TILE_bf16] = cast_i16_i16,
  [GM_TILE_e4m3][GM_TILE_e4m3] = cast_u8_u8, [GM_TILE_e5m2][GM_TILE_e5m2] = cast_u8_u8,
  [GM_TILE_u8][GM_TILE_f16] = cast_b1_f16,  [GM_TILE_u8][GM_TILE_bf16] = cast_b1_bf16,
  [GM_TILE_u8][GM_TILE_e4m3] = cast_b1_e4m3, [GM_TILE_u8][GM_TILE_e5m2] = cast_b1_e5m2,
  [GM_TILE_b1][GM_TILE_b1] = cast_u8_u8,    [GM_TILE_b1][GM_TILE_u8] = cast_u8_u8,
  [GM_TILE_u8][GM_TILE_u8] = cast_u8_u8,    [GM_TILE_u8][GM_TILE_i32] = cast_b1_i32,
  [GM_TILE_u8][GM_TILE_i64] = cast_b1_i64,  [GM_TILE_u8][GM_TILE_f32] = cast_b1_f32,
  [GM_TILE_u8][GM_TILE_f64] = cast_b1_f64,  [GM_TILE_i32][GM_TILE_i32] = cast_i32_i32,
  [GM_TILE_i64][GM_TILE_i64] = cast_i64_i64, [GM_TILE_f32][GM_TILE_f32] = cast_f32_f32,
  [GM_TILE_f64][GM_TILE_f64] = cast_f64_f64,
};
#undef CV
#undef CASTS
#undef VIA
#undef VIA_INT
#undef VIA_FLOAT
#undef VIA_LARGE
#undef VIA_EACH_OTHER
#undef VIA_FN
#undef CAST_FN
#undef COPY_FN
