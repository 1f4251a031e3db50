/* SPDX-License-Identifier: Apache-2.0
 * tiles-casts.h -- casts between all pairs of element types.
 *
 * Part of tiles-impl.h.  Where C leaves the result undefined, it is that of x86 on every
 * instruction set: a float outside the range of i32 or i64 gives the most negative number; to 8 and
 * 16 bits a float is converted to i32, and the low bits are kept.  NaN is a true bool.  i8 and i16
 * have rows to and from i32, the floats below 32 bits to and from f32; all their other pairs go
 * through that type, so f64 and i64 are rounded to f32 before they are rounded again, as in torch.
 */
/* clang-format off */

#include "core/tiles/tiles-steps.h"

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

/* Casts to the same type are copies.  A bool is 0 or 1, so it is a u8 already. */
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
