/* SPDX-License-Identifier: Apache-2.0
 * prelude.h -- the neutral names of gramme-ops.def, on vectors of one register.
 *
 * Define GM_ISA_AVX2 or GM_ISA_AVX512 and include it; gcc's vector extensions do the rest.  For
 * each element type T (f32, f64, i8, i16, i32, i64, u8; b1 shares u8's) there are
 *
 *      E_T   the element
 *      L_T   number of lanes
 *      A_T   the vector that + - * work on: unsigned for integers, so that overflow wraps
 *      C_T   the vector that comparisons work on: signed where the type is
 *      M_T   a mask: a signed integer vector as wide as C_T, 0 or -1 in each lane
 *
 * and functions f_T for each neutral name f.  f16 and bf16 have E_T, the element in memory, load_T
 * and store_T; all computations between them are f32's (prelude-small.h): GM_V (f) is the function
 * f of the type in which GM_T's values are computed.  A file that expands rows of the op table sets
 * GM_T to a type first; EXP (a), K (1) ... then mean that type's.  No <immintrin.h>: it costs more
 * than a kernel to compile.
 *
 * Bits.  Each lane is computed alone and in the same way on every instruction set: IEEE operations,
 * no contraction, SLEEF's deterministic functions (finz: the FMA form; all u10, that is, within 1.0
 * ulp), tanh and erf of f32 within 1.7.  Where several NaNs meet, which of their payloads and signs
 * comes out is not specified; that the result is a NaN is.
 *
 * Choices, where C, Python and torch differ:
 *   MAX, MIN      a NaN wins (torch).  Of two zeros the first stays.
 *   SIGN          0 for NaN (torch).
 *   ROUND         half to even.
 *   FLOORDIV, REM Python's signs; x // 0.0 is x / 0.0, x % 0.0 is NaN.  Integers: x // 0 = x % 0 =
 *                 0, and the most negative number // -1 wraps to itself: nothing traps.
 *   POW           integers by squaring, wrapping; a negative exponent gives 0, but 1 or -1 for the
 *                 bases 1 and -1.
 */
/* clang-format off */
#ifndef GM_TILES_PRELUDE_H
#define GM_TILES_PRELUDE_H

#ifdef GM_TILES_SOURCE
#include "core/tiles/freestanding.h"
#else
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#define GM_EXTERNAL(f) f
#endif

#if defined GM_ISA_AVX512
#define GM_VECTOR_BYTES 64
#elif defined GM_ISA_AVX2
#define GM_VECTOR_BYTES 32
#else
#error "define GM_ISA_AVX2 or GM_ISA_AVX512"
#endif

#define GM_INLINE static inline __attribute__ ((always_inline, unused))
#define GM_CAT_(a, b) a##b
#define GM_CAT(a, b) GM_CAT_ (a, b)
#define GM_UNROLL _Pragma ("GCC unroll 16")

/* -- Types ------------------------------------------------------------------------------------- */

#define VECTOR(name, elem, bytes) \
  typedef elem name __attribute__ ((vector_size (bytes))); \
  typedef elem name##_u __attribute__ ((vector_size (bytes), aligned (1), may_alias)) /* anywhere in memory */
VECTOR (vf32, float, GM_VECTOR_BYTES);
VECTOR (vf64, double, GM_VECTOR_BYTES);
VECTOR (vi32, int32_t, GM_VECTOR_BYTES);
VECTOR (vi64, int64_t, GM_VECTOR_BYTES);
VECTOR (vu32, uint32_t, GM_VECTOR_BYTES);
VECTOR (vu64, uint64_t, GM_VECTOR_BYTES);
VECTOR (vu8, uint8_t, GM_VECTOR_BYTES);
VECTOR (vi8, int8_t, GM_VECTOR_BYTES);
VECTOR (vu16, uint16_t, GM_VECTOR_BYTES);
VECTOR (vi16, int16_t, GM_VECTOR_BYTES);
/* Vectors of 32-bit elements with as many lanes as a vector of 64-bit elements. */
VECTOR (vf32h, float, GM_VECTOR_BYTES / 2);
VECTOR (vi32h, int32_t, GM_VECTOR_BYTES / 2);

/*                    E              A               C              M              lanes */
typedef float E_f32;  typedef vf32 A_f32; typedef vf32 C_f32; typedef vi32 M_f32; enum { L_f32 = GM_VECTOR_BYTES / 4 };
typedef double E_f64; typedef vf64 A_f64; typedef vf64 C_f64; typedef vi64 M_f64; enum { L_f64 = GM_VECTOR_BYTES / 8 };
typedef int32_t E_i32; typedef vu32 A_i32; typedef vi32 C_i32; typedef vi32 M_i32; enum { L_i32 = GM_VECTOR_BYTES / 4 };
typedef int64_t E_i64; typedef vu64 A_i64; typedef vi64 C_i64; typedef vi64 M_i64; enum { L_i64 = GM_VECTOR_BYTES / 8 };
typedef int16_t E_i16; typedef vu16 A_i16; typedef vi16 C_i16; typedef vi16 M_i16; enum { L_i16 = GM_VECTOR_BYTES / 2 };
typedef int8_t E_i8; typedef vu8 A_i8; typedef vi8 C_i8; typedef vi8 M_i8; enum { L_i8 = GM_VECTOR_BYTES };
typedef uint8_t E_u8; typedef vu8 A_u8; typedef vu8 C_u8; typedef vi8 M_u8; enum { L_u8 = GM_VECTOR_BYTES };
typedef uint8_t E_b1; typedef vu8 A_b1; typedef vu8 C_b1; typedef vi8 M_b1; enum { L_b1 = GM_VECTOR_BYTES };
typedef uint16_t E_f16; typedef uint16_t E_bf16; typedef uint8_t E_e4m3; typedef uint8_t E_e5m2; /* in memory only */

/* Load and store a vector at any address; `type` names one of the vectors above. */
#define GM_LOAD(type, p) ((type) * (const type##_u *) (p))
#define GM_STORE(type, p, v) ((void) (*(type##_u *) (p) = (v)))

/* -- Parts of a vector ------------------------------------------------------------------------- */

/* Load the first n lanes from memory, the others from `pad`; store the first n lanes.  0 < n <
 * lanes; lanes of 32 and 64 bits: 0 <= n <= lanes. */
#ifdef GM_ISA_AVX512
typedef int gm_v16si __attribute__ ((vector_size (64)));
typedef long long gm_v8di __attribute__ ((vector_size (64)));
typedef char gm_v64qi __attribute__ ((vector_size (64)));
typedef short gm_v32hi __attribute__ ((vector_size (64)));
GM_INLINE vi32
load_part_32 (const void *p, size_t n, vi32 pad)
{
  return (vi32) __builtin_ia32_loaddqusi512_mask ((const int *) p, (gm_v16si) pad, (unsigned short) ((1u << n) - 1));
}
GM_INLINE void
store_part_32 (void *p, size_t n, vi32 v)
{
  __builtin_ia32_storedqusi512_mask ((int *) p, (gm_v16si) v, (unsigned short) ((1u << n) - 1));
}
GM_INLINE vi64
load_part_64 (const void *p, size_t n, vi64 pad)
{
  return (vi64) __builtin_ia32_loaddqudi512_mask ((const long long *) p, (gm_v8di) pad, (unsigned char) ((1u << n) - 1));
}
GM_INLINE void
store_part_64 (void *p, size_t n, vi64 v)
{
  __builtin_ia32_storedqudi512_mask ((long long *) p, (gm_v8di) v, (unsigned char) ((1u << n) - 1));
}
GM_INLINE vi16
load_part_16 (const void *p, size_t n, vi16 pad)
{
  return (vi16) __builtin_ia32_loaddquhi512_mask ((const short *) p, (gm_v32hi) pad, (1u << n) - 1);
}
GM_INLINE void
store_part_16 (void *p, size_t n, vi16 v)
{
  __builtin_ia32_storedquhi512_mask ((short *) p, (gm_v32hi) v, (1u << n) - 1);
}
GM_INLINE vi8
load_part_8 (const void *p, size_t n, vi8 pad)
{
  return (vi8) __builtin_ia32_loaddquqi512_mask ((const char *) p, (gm_v64qi) pad, (1ull << n) - 1);
}
GM_INLINE void
store_part_8 (void *p, size_t n, vi8 v)
{
  __builtin_ia32_storedquqi512_mask ((char *) p, (gm_v64qi) v, (1ull << n) - 1);
}
#else
typedef int gm_v8si __attribute__ ((vector_size (32)));
typedef long long gm_v4di __attribute__ ((vector_size (32)));
static const int32_t gm_part_masks[16] = { -1, -1, -1, -1, -1, -1, -1, -1 };
GM_INLINE vi32
part_mask_32 (size_t n)
{
  return GM_LOAD (vi32, gm_part_masks + 8 - n);
}
GM_INLINE vi64
part_mask_64 (size_t n)
{
  return GM_LOAD (vi64, gm_part_masks + 8 - 2 * n);
}
GM_INLINE vi32
load_part_32 (const void *p, size_t n, vi32 pad)
{
  vi32 m = part_mask_32 (n);
  return (vi32) __builtin_ia32_maskloadd256 ((const gm_v8si *) p, (gm_v8si) m) | (~m & pad);
}
GM_INLINE void
store_part_32 (void *p, size_t n, vi32 v)
{
  __builtin_ia32_maskstored256 ((gm_v8si *) p, (gm_v8si) part_mask_32 (n), (gm_v8si) v);
}
GM_INLINE vi64
load_part_64 (const void *p, size_t n, vi64 pad)
{
  vi64 m = part_mask_64 (n);
  return (vi64) __builtin_ia32_maskloadq256 ((const gm_v4di *) p, (gm_v4di) m) | (~m & pad);
}
GM_INLINE void
store_part_64 (void *p, size_t n, vi64 v)
{
  __builtin_ia32_maskstoreq256 ((gm_v4di *) p, (gm_v4di) part_mask_64 (n), (gm_v4di) v);
}
GM_INLINE vi16
load_part_16 (const void *p, size_t n, vi16 pad)
{
  memcpy (&pad, p, 2 * n);
  return pad;
}
GM_INLINE void
store_part_16 (void *p, size_t n, vi16 v)
{
  memcpy (p, &v, 2 * n);
}
GM_INLINE vi8
load_part_8 (const void *p, size_t n, vi8 pad)
{
  memcpy (&pad, p, n);
  return pad;
}
GM_INLINE void
store_part_8 (void *p, size_t n, vi8 v)
{
  memcpy (p, &v, n);
}
#endif

/*    type  vector  same-sized signed vector's bits */
#define PARTS(T, V, bits) \
  GM_INLINE V load_##T (const void *p) { return GM_LOAD (V, p); } \
  GM_INLINE void store_##T (void *p, V v) { GM_STORE (V, p, v); } \
  GM_INLINE V splat_##T (E_##T x) { return (V) (x - (C_##T){ 0 }); } /* x - 0 keeps -0.0 */ \
  GM_INLINE V load_part_##T (const void *p, size_t n, V pad) \
  { \
    return (V) load_part_##bits (p, n, (vi##bits) pad); \
  } \
  GM_INLINE void store_part_##T (void *p, size_t n, V v) { store_part_##bits (p, n, (vi##bits) v); } \
  GM_INLINE V sel_##T (M_##T m, V x, V y) { return (V) ((m & (M_##T) x) | (~m & (M_##T) y)); }
PARTS (f32, vf32, 32)
PARTS (f64, vf64, 64)
PARTS (i32, vu32, 32)
PARTS (i64, vu64, 64)
PARTS (i16, vu16, 16)
PARTS (i8, vu8, 8)
PARTS (u8, vu8, 8)
PARTS (b1, vu8, 8)
#undef PARTS
GM_INLINE vi32 sel_i32_bits (vi32 m, vi32 x, vi32 y) { return (m & x) | (~m & y); }

/* Returns the vector in which each lane is its own number, in the lanes of T. */
#ifdef GM_ISA_AVX512
GM_INLINE vi32 iota_f32 (void) { return (vi32){ 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 }; }
GM_INLINE vi64 iota_f64 (void) { return (vi64){ 0, 1, 2, 3, 4, 5, 6, 7 }; }
GM_INLINE bool gm_any_set (vi64 v) { return __builtin_ia32_ptestmq512 ((gm_v8di) v, (gm_v8di) v, (unsigned char) -1) != 0; }
#else
GM_INLINE vi32 iota_f32 (void) { return (vi32){ 0, 1, 2, 3, 4, 5, 6, 7 }; }
GM_INLINE vi64 iota_f64 (void) { return (vi64){ 0, 1, 2, 3 }; }
GM_INLINE bool gm_any_set (vi64 v) { return !__builtin_ia32_ptestz256 ((gm_v4di) v, (gm_v4di) v); }
#endif
GM_INLINE vi32 iota_i32 (void) { return iota_f32 (); }
GM_INLINE vi64 iota_i64 (void) { return iota_f64 (); }
#define EIGHT(n) n, n + 1, n + 2, n + 3, n + 4, n + 5, n + 6, n + 7
#ifdef GM_ISA_AVX512
GM_INLINE vi8
iota_u8 (void)
{
  return (vi8){ EIGHT (0), EIGHT (8), EIGHT (16), EIGHT (24), EIGHT (32), EIGHT (40), EIGHT (48), EIGHT (56) };
}
GM_INLINE vi16 iota_i16 (void) { return (vi16){ EIGHT (0), EIGHT (8), EIGHT (16), EIGHT (24) }; }
#else
GM_INLINE vi8 iota_u8 (void) { return (vi8){ EIGHT (0), EIGHT (8), EIGHT (16), EIGHT (24) }; }
GM_INLINE vi16 iota_i16 (void) { return (vi16){ EIGHT (0), EIGHT (8) }; }
#endif
#undef EIGHT
GM_INLINE vi8 iota_b1 (void) { return iota_u8 (); }
GM_INLINE vi8 iota_i8 (void) { return iota_u8 (); }

/* -- Between widths ---------------------------------------------------------------------------- */

/* Convert u8 to and from lanes of 32 and 64 bits: widening is by zeros, narrowing takes the low
 * byte. `h`: 32-bit lanes, as many as there are 64-bit ones.  Written out for AVX2, where gcc 12
 * would use integer registers. */
typedef char gm_v16qi __attribute__ ((vector_size (16)));
typedef long long gm_v2di __attribute__ ((vector_size (16)));
GM_INLINE gm_v16qi
load_8_bytes (const void *p) /* one integer load: loading pieces of a stored vector would stall */
{
  long long x;
  memcpy (&x, p, 8);
  return (gm_v16qi) (gm_v2di){ x, 0 };
}
GM_INLINE gm_v16qi
load_4_bytes (const void *p)
{
  uint32_t x;
  memcpy (&x, p, 4);
  return (gm_v16qi) (gm_v2di){ x, 0 };
}
#ifdef GM_ISA_AVX512
VECTOR (gm_bytes16, uint8_t, 16);
GM_INLINE vi32
load_u8_32 (const void *p)
{
  gm_v16qi x = (gm_v16qi) GM_LOAD (gm_bytes16, p);
  return (vi32) __builtin_ia32_pmovzxbd512_mask (x, (gm_v16si){ 0 }, (unsigned short) -1);
}
GM_INLINE vi64
load_u8_64 (const void *p)
{
  return (vi64) __builtin_ia32_pmovzxbq512_mask (load_8_bytes (p), (gm_v8di){ 0 }, (unsigned char) -1);
}
GM_INLINE vi32h load_u8_32h (const void *p) { return __builtin_convertvector (load_u8_64 (p), vi32h); }
GM_INLINE void store_u8_32 (void *p, vi32 v) { GM_STORE (gm_bytes16, p, __builtin_convertvector (v, gm_bytes16)); }
GM_INLINE void
store_u8_64 (void *p, vi64 v)
{
  gm_v16qi b = (gm_v16qi) __builtin_ia32_pmovqb512_mask ((gm_v8di) v, (gm_v16qi){ 0 }, (unsigned char) -1);
  memcpy (p, &b, 8);
}
GM_INLINE void store_u8_32h (void *p, vi32h v) { store_u8_64 (p, __builtin_convertvector (v, vi64)); }
GM_INLINE vi32h narrow_64 (vi64 v) { return __builtin_convertvector (v, vi32h); }
GM_INLINE vi64 widen_32h (vi32h v) { return __builtin_convertvector (v, vi64); }
#else
typedef short gm_v8hi __attribute__ ((vector_size (16)));
typedef int gm_v4si __attribute__ ((vector_size (16)));
GM_INLINE vi32 load_u8_32 (const void *p) { return (vi32) __builtin_ia32_pmovzxbd256 (load_8_bytes (p)); }
GM_INLINE vi64 load_u8_64 (const void *p) { return (vi64) __builtin_ia32_pmovzxbq256 (load_4_bytes (p)); }
GM_INLINE vi32h load_u8_32h (const void *p) { return (vi32h) __builtin_ia32_pmovzxbd128 (load_4_bytes (p)); }
/* Packs the low bytes of two times four lanes into the low half. */
GM_INLINE gm_v16qi
pack_low_bytes (vi32h lo, vi32h hi)
{
  gm_v8hi words = (gm_v8hi) __builtin_ia32_packusdw128 ((gm_v4si) (lo & 255), (gm_v4si) (hi & 255));
  return (gm_v16qi) __builtin_ia32_packuswb128 (words, words);
}
GM_INLINE void
store_u8_32 (void *p, vi32 v)
{
  vi32h halves[2];
  memcpy (halves, &v, sizeof v);
  gm_v16qi b = pack_low_bytes (halves[0], halves[1]);
  memcpy (p, &b, 8);
}
GM_INLINE void
store_u8_32h (void *p, vi32h v)
{
  gm_v16qi b = pack_low_bytes (v, v);
  memcpy (p, &b, 4);
}
GM_INLINE vi32h
narrow_64 (vi64 v)
{
  vi32 even = __builtin_shuffle ((vi32) v, (vi32){ 0, 2, 4, 6, 0, 2, 4, 6 });
  vi32h lo;
  memcpy (&lo, &even, sizeof lo);
  return lo;
}
GM_INLINE void store_u8_64 (void *p, vi64 v) { store_u8_32h (p, narrow_64 (v)); }
GM_INLINE vi64 widen_32h (vi32h v) { return (vi64) __builtin_ia32_pmovsxdq256 ((gm_v4si) v); }
#endif

/* Convert u8 to and from lanes of 16 bits, for masks. */
#ifdef GM_ISA_AVX512
typedef char gm_v32qi __attribute__ ((vector_size (32)));
VECTOR (gm_bytes32, char, 32);
GM_INLINE vi16
load_u8_16 (const void *p)
{
  return (vi16) __builtin_ia32_pmovzxbw512_mask ((gm_v32qi) GM_LOAD (gm_bytes32, p), (gm_v32hi){ 0 }, ~0u);
}
GM_INLINE void
store_u8_16 (void *p, vi16 v)
{
  GM_STORE (gm_bytes32, p, (gm_bytes32) __builtin_ia32_pmovwb512_mask ((gm_v32hi) v, (gm_v32qi){ 0 }, ~0u));
}
#else
VECTOR (gm_bytes16, char, 16);
GM_INLINE vi16 load_u8_16 (const void *p) { return (vi16) __builtin_ia32_pmovzxbw256 ((gm_v16qi) GM_LOAD (gm_bytes16, p)); }
GM_INLINE void
store_u8_16 (void *p, vi16 v)
{
  gm_v8hi halves[2];
  v &= 255;
  memcpy (halves, &v, sizeof v);
  GM_STORE (gm_bytes16, p, (gm_bytes16) __builtin_ia32_packuswb128 (halves[0], halves[1]));
}
#endif

#include "core/tiles/prelude-small.h"

/* Masks in memory are bools: 0 or 1 in a byte.  The part forms touch n bytes only. */
#define MASKS(T, LOAD, STORE, ZERO) \
  GM_INLINE M_##T load_mask_##T (const void *p) { return (M_##T) (LOAD (p) != (ZERO)); } \
  GM_INLINE void store_mask_##T (void *p, M_##T m) { STORE (p, m & 1); } \
  GM_INLINE M_##T load_mask_part_##T (const void *p, size_t n) \
  { \
    uint8_t bytes[L_##T] = { 0 }; \
    memcpy (bytes, p, n); \
    return load_mask_##T (bytes); \
  } \
  GM_INLINE void store_mask_part_##T (void *p, size_t n, M_##T m) \
  { \
    uint8_t bytes[L_##T]; \
    store_mask_##T (bytes, m); \
    memcpy (p, bytes, n); \
  }
#define LOAD_BYTES(p) GM_LOAD (vi8, p)
#define STORE_BYTES(p, v) GM_STORE (vi8, p, v)
MASKS (f32, load_u8_32, store_u8_32, 0)
MASKS (f64, load_u8_64, store_u8_64, 0)
MASKS (i32, load_u8_32, store_u8_32, 0)
MASKS (i64, load_u8_64, store_u8_64, 0)
MASKS (i16, load_u8_16, store_u8_16, 0)
MASKS (i8, LOAD_BYTES, STORE_BYTES, 0)
MASKS (u8, LOAD_BYTES, STORE_BYTES, 0)
MASKS (b1, LOAD_BYTES, STORE_BYTES, 0)
#undef MASKS
#undef LOAD_BYTES
#undef STORE_BYTES

/* -- Elementary functions ---------------------------------------------------------------------- */

#ifdef GM_ISA_AVX512
#define GM_SLEEF_f32(f) GM_CAT (GM_CAT (Sleef_finz_, f), f16_u10avx512f)
#define GM_SLEEF_f64(f) GM_CAT (GM_CAT (Sleef_finz_, f), d8_u10avx512f)
#define GM_FMOD_f32 Sleef_finz_fmodf16_avx512f
#define GM_FMOD_f64 Sleef_finz_fmodd8_avx512f
#else
#define GM_SLEEF_f32(f) GM_CAT (GM_CAT (Sleef_finz_, f), f8_u10avx2)
#define GM_SLEEF_f64(f) GM_CAT (GM_CAT (Sleef_finz_, f), d4_u10avx2)
#define GM_FMOD_f32 Sleef_finz_fmodf8_avx2
#define GM_FMOD_f64 Sleef_finz_fmodd4_avx2
#endif
/* GM_EXTERNAL (f): the declarator of a function outside of this file: itself, or a pointer to be
 * filled in. */
#define ELEMENTARY1(f) \
  extern vf32 GM_EXTERNAL (GM_SLEEF_f32 (f)) (vf32) __attribute__ ((const)); \
  extern vf64 GM_EXTERNAL (GM_SLEEF_f64 (f)) (vf64) __attribute__ ((const)); \
  GM_INLINE vf32 f##_f32 (vf32 a) { return GM_SLEEF_f32 (f) (a); } \
  GM_INLINE vf64 f##_f64 (vf64 a) { return GM_SLEEF_f64 (f) (a); }
#define ELEMENTARY2(f) \
  extern vf32 GM_EXTERNAL (GM_SLEEF_f32 (f)) (vf32, vf32) __attribute__ ((const)); \
  extern vf64 GM_EXTERNAL (GM_SLEEF_f64 (f)) (vf64, vf64) __attribute__ ((const)); \
  GM_INLINE vf32 f##_f32 (vf32 a, vf32 b) { return GM_SLEEF_f32 (f) (a, b); } \
  GM_INLINE vf64 f##_f64 (vf64 a, vf64 b) { return GM_SLEEF_f64 (f) (a, b); }
#define ELEMENTARY1_f64(f) \
  extern vf64 GM_EXTERNAL (GM_SLEEF_f64 (f)) (vf64) __attribute__ ((const)); \
  GM_INLINE vf64 f##_f64 (vf64 a) { return GM_SLEEF_f64 (f) (a); }
/* exp, tanh and erf of f32 are defined below. */
#define GM_ELEMENTARY(ONE, TWO, ONE_f64) \
  ONE (exp2) ONE (expm1) ONE (log) ONE (log2) ONE (log10) ONE (sin) ONE (cos) ONE (atan) \
  TWO (atan2) ONE_f64 (exp) ONE_f64 (tanh) ONE_f64 (erf)
GM_ELEMENTARY (ELEMENTARY1, ELEMENTARY2, ELEMENTARY1_f64)
#undef ELEMENTARY1
#undef ELEMENTARY1_f64
#undef ELEMENTARY2

/* Six of SLEEF's functions are wrong for some operands.  log1p gives infinity for the last powers of
 * two, where it is log.  log1p, and tan of f64, lose digits and the sign of subnormals, where they
 * are the operand.  sinh and cosh give infinity from a little below the type's largest number on:
 * there they are half the square of exp (a / 2), which is expm1 to the last digit.  pow gives
 * infinity for results near the type's largest number: there it is the square of the root, or the
 * base itself.  fmod is wrong for subnormals and for quotients near the type's largest: those lanes
 * get libm's, which is exact, as SLEEF's is elsewhere. */
#ifdef GM_TILES_SOURCE
extern float GM_EXTERNAL (fmodf) (float, float) __attribute__ ((const));
extern double GM_EXTERNAL (fmod) (double, double) __attribute__ ((const));
#endif
#define MENDED(T, suffix, LARGE, SMALL) \
  extern A_##T GM_EXTERNAL (GM_SLEEF_##T (log1p)) (A_##T) __attribute__ ((const)); \
  extern A_##T GM_EXTERNAL (GM_SLEEF_##T (tan)) (A_##T) __attribute__ ((const)); \
  extern A_##T GM_EXTERNAL (GM_FMOD_##T) (A_##T, A_##T) __attribute__ ((const)); \
  GM_INLINE A_##T unless_tiny_##T (A_##T a, A_##T r) \
  { \
    A_##T least = splat_##T (SMALL); \
    return sel_##T ((a < least) & (a > -least), a, r); \
  } \
  GM_INLINE A_##T tan_##T (A_##T a) \
  { \
    A_##T r = GM_SLEEF_##T (tan) (a); \
    return sizeof (E_##T) == 8 ? unless_tiny_##T (a, r) : r; \
  } \
  extern A_##T GM_EXTERNAL (GM_SLEEF_##T (sinh)) (A_##T) __attribute__ ((const)); \
  extern A_##T GM_EXTERNAL (GM_SLEEF_##T (cosh)) (A_##T) __attribute__ ((const)); \
  GM_INLINE A_##T until_largest_##T (A_##T a, A_##T r) \
  { \
    A_##T end = splat_##T (INFINITY); \
    M_##T infinite = (r == end) | (r == -end); \
    if (__builtin_expect (!gm_any_set ((vi64) infinite), 1)) \
      return r; \
    A_##T zero = { 0 }, half = splat_##T (0.5f), root = expm1_##T (sel_##T (a < zero, -a, a) * half); \
    A_##T y = root * half * root; \
    return sel_##T (infinite, sel_##T (r < zero, -y, y), r); \
  } \
  GM_INLINE A_##T sinh_##T (A_##T a) { return until_largest_##T (a, GM_SLEEF_##T (sinh) (a)); } \
  GM_INLINE A_##T cosh_##T (A_##T a) { return until_largest_##T (a, GM_SLEEF_##T (cosh) (a)); } \
  GM_INLINE A_##T log1p_##T (A_##T a) \
  { \
    A_##T r = unless_tiny_##T (a, GM_SLEEF_##T (log1p) (a)); \
    M_##T large = a > splat_##T (LARGE); \
    return __builtin_expect (gm_any_set ((vi64) large), 0) ? sel_##T (large, log_##T (a), r) : r; \
  } \
  extern A_##T GM_EXTERNAL (GM_SLEEF_##T (pow)) (A_##T, A_##T) __attribute__ ((const)); \
  GM_INLINE A_##T pow_##T (A_##T a, A_##T b) \
  { \
    A_##T r = GM_SLEEF_##T (pow) (a, b), end = splat_##T (INFINITY), zero = { 0 }; \
    M_##T infinite = (r == end) | (r == -end); \
    if (__builtin_expect (!gm_any_set ((vi64) infinite), 1)) \
      return r; \
    A_##T size = sel_##T (a < zero, -a, a), root = GM_SLEEF_##T (pow) (size, b * splat_##T (0.5f)), y = root * root; \
    y = sel_##T (b == splat_##T (1), a, sel_##T (r < zero, -y, y)); \
    return sel_##T (infinite & (size != zero) & (size < end) & (b < end) & (b > -end), y, r); \
  } \
  GM_INLINE A_##T fmod_##T (A_##T a, A_##T b) \
  { \
    A_##T r = GM_FMOD_##T (a, b), q = a / b, large = splat_##T (1e6f), small = splat_##T (SMALL); \
    M_##T easy = (q < large) & (q > -large) & ((b > small) | (b < -small)) & ((a > small) | (a < -small)); \
    if (__builtin_expect (!gm_any_set ((vi64) ~easy), 1)) \
      return r; \
    E_##T x[L_##T], y[L_##T]; \
    memcpy (x, &a, sizeof a); \
    memcpy (y, &b, sizeof b); \
    for (int i = 0; i < L_##T; i++) \
      x[i] = fmod##suffix (x[i], y[i]); \
    memcpy (&r, x, sizeof r); \
    return r; \
  }
MENDED (f32, f, 0x1p100f, 0x1p-60f)
MENDED (f64, , 0x1p1000, 0x1p-500)
#undef MENDED

/* Functions that the processor rounds correctly.  Modes of rounding: 0 nearest even, 1 down, 2 up,
 * 3 to zero. */
#ifdef GM_ISA_AVX512
GM_INLINE vf32 sqrt_f32 (vf32 a) { return __builtin_ia32_sqrtps512_mask (a, a, (short) -1, 4); }
GM_INLINE vf64 sqrt_f64 (vf64 a) { return __builtin_ia32_sqrtpd512_mask (a, a, (char) -1, 4); }
GM_INLINE vf32 hw_max_f32 (vf32 a, vf32 b) { return __builtin_ia32_maxps512_mask (a, b, a, (short) -1, 4); }
GM_INLINE vf64 hw_max_f64 (vf64 a, vf64 b) { return __builtin_ia32_maxpd512_mask (a, b, a, (char) -1, 4); }
GM_INLINE vf32 hw_min_f32 (vf32 a, vf32 b) { return __builtin_ia32_minps512_mask (a, b, a, (short) -1, 4); }
GM_INLINE vf64 hw_min_f64 (vf64 a, vf64 b) { return __builtin_ia32_minpd512_mask (a, b, a, (char) -1, 4); }
#define HW_ROUND_f32(a, mode) __builtin_ia32_rndscaleps_mask (a, 8 | mode, a, (short) -1, 4)
#define HW_ROUND_f64(a, mode) __builtin_ia32_rndscalepd_mask (a, 8 | mode, a, (char) -1, 4)
/* hw_f (b, a) in lanes where b is not a NaN (comparison 7: ordered), else b. */
#define HW_UNLESS_NAN_f32(f, a, b) __builtin_ia32_##f##ps512_mask (b, a, b, __builtin_ia32_cmpps512_mask (b, b, 7, (short) -1, 4), 4)
#define HW_UNLESS_NAN_f64(f, a, b) __builtin_ia32_##f##pd512_mask (b, a, b, __builtin_ia32_cmppd512_mask (b, b, 7, (char) -1, 4), 4)
#else
GM_INLINE vf32 sqrt_f32 (vf32 a) { return __builtin_ia32_sqrtps256 (a); }
GM_INLINE vf64 sqrt_f64 (vf64 a) { return __builtin_ia32_sqrtpd256 (a); }
GM_INLINE vf32 hw_max_f32 (vf32 a, vf32 b) { return __builtin_ia32_maxps256 (a, b); }
GM_INLINE vf64 hw_max_f64 (vf64 a, vf64 b) { return __builtin_ia32_maxpd256 (a, b); }
GM_INLINE vf32 hw_min_f32 (vf32 a, vf32 b) { return __builtin_ia32_minps256 (a, b); }
GM_INLINE vf64 hw_min_f64 (vf64 a, vf64 b) { return __builtin_ia32_minpd256 (a, b); }
#define HW_ROUND_f32(a, mode) __builtin_ia32_roundps256 (a, 8 | mode)
#define HW_ROUND_f64(a, mode) __builtin_ia32_roundpd256 (a, 8 | mode)
#define HW_UNLESS_NAN_f32(f, a, b) sel_f32 (b != b, b, hw_##f##_f32 (b, a))
#define HW_UNLESS_NAN_f64(f, a, b) sel_f64 (b != b, b, hw_##f##_f64 (b, a))
#endif

/* -- Arithmetic of each type ------------------------------------------------------------------- */

/* The hardware's maximum gives its second operand when either is NaN and when both are zeros: with
 * (b, a) a NaN in a and a zero in a are kept, and only a NaN in b has to be inserted; that test
 * does not wait for the result of the last fold step. */
#define FLOATS(T) \
  GM_INLINE A_##T floor_##T (A_##T a) { return HW_ROUND_##T (a, 1); } \
  GM_INLINE A_##T ceil_##T (A_##T a) { return HW_ROUND_##T (a, 2); } \
  GM_INLINE A_##T round_##T (A_##T a) { return HW_ROUND_##T (a, 0); } \
  GM_INLINE A_##T trunc_##T (A_##T a) { return HW_ROUND_##T (a, 3); } \
  GM_INLINE A_##T max_##T (A_##T a, A_##T b) { return HW_UNLESS_NAN_##T (max, a, b); } \
  GM_INLINE A_##T min_##T (A_##T a, A_##T b) { return HW_UNLESS_NAN_##T (min, a, b); } \
  GM_INLINE A_##T signbit_##T (A_##T a) { return (A_##T) ((M_##T) a & (M_##T) splat_##T (-0.0)); } \
  GM_INLINE A_##T abs_##T (A_##T a) { return (A_##T) ((M_##T) a & ~(M_##T) splat_##T (-0.0)); } \
  GM_INLINE A_##T sign_##T (A_##T a) \
  { \
    A_##T one = splat_##T (1), zero = { 0 }; \
    return sel_##T (a > zero, one, zero) - sel_##T (a < zero, one, zero); \
  } \
  GM_INLINE A_##T rem_##T (A_##T a, A_##T b) \
  { \
    A_##T zero = { 0 }, m = fmod_##T (a, b); \
    return sel_##T ((m != zero) & ((b < zero) ^ (m < zero)), m + b, m); \
  } \
  GM_INLINE A_##T floordiv_##T (A_##T a, A_##T b) \
  { \
    A_##T zero = { 0 }, one = splat_##T (1), m = fmod_##T (a, b), q = (a - m) / b; \
    q = sel_##T ((m != zero) & ((b < zero) ^ (m < zero)), q - one, q); \
    A_##T f = floor_##T (q); \
    f = sel_##T (q - f > splat_##T (0.5), f + one, f); /* (a - m) / b was rounded */ \
    f = sel_##T (q != zero, f, signbit_##T (a / b)); \
    return sel_##T (b == zero, a / b, f); \
  }
FLOATS (f32)
FLOATS (f64)
#undef FLOATS

/* -- exp, tanh and erf of f32 ------------------------------------------------------------------ */

/* Networks mostly compute these functions, and calls of them would empty all registers of a fused
 * loop. Coefficients: minimax, found with Remez' algorithm, erf's by reweighted least squares.
 * Largest errors against the C library in double, of all floats: exp 0.91 ulp, tanh 1.70, erf
 * 1.16. */
#ifdef GM_ISA_AVX512
GM_INLINE vf32 fma_f32 (vf32 a, vf32 b, vf32 c) { return __builtin_ia32_vfmaddps512_mask (a, b, c, (short) -1, 4); }
#else
GM_INLINE vf32 fma_f32 (vf32 a, vf32 b, vf32 c) { return __builtin_ia32_vfmaddps256 (a, b, c); }
#endif

/* Returns y times 2^n for an integer n, |n| < 2^8, y between 1/4 and 4: rounded once.
 * scaled_small: for results that are neither subnormal nor too large. */
#ifdef GM_ISA_AVX512
GM_INLINE vf32 scaled_f32 (vf32 y, vf32 n) { return __builtin_ia32_scalefps512_mask (y, n, y, (short) -1, 4); }
GM_INLINE vf32 scaled_small_f32 (vf32 y, vf32 n) { return scaled_f32 (y, n); }
#else
GM_INLINE vf32 power_of_two_f32 (vi32 n) { return (vf32) ((n + 127) << 23); }
GM_INLINE vf32 scaled_small_f32 (vf32 y, vf32 n) { return y * power_of_two_f32 (__builtin_convertvector (n, vi32)); }
GM_INLINE vf32
scaled_f32 (vf32 y, vf32 n)
{
  /* In two steps, since 2^n may be out of range where the result is not. */
  vi32 all = __builtin_convertvector (n, vi32), half = all >> 1;
  return y * power_of_two_f32 (half) * power_of_two_f32 (all - half);
}
#endif

/* Returns r and *n with a = *n log 2 + r, |r| <= 0.35, for |a| < 2^7. */
GM_INLINE vf32
exp_rest_f32 (vf32 a, vf32 *n)
{
  vf32 whole = round_f32 (a * splat_f32 (0x1.715476p+0f));
  *n = whole;
  a = fma_f32 (whole, splat_f32 (-0x1.62e4p-1f), a); /* log 2 in two parts */
  return fma_f32 (whole, splat_f32 (-0x1.7f7d1cp-20f), a);
}

/* Returns (exp (r) - 1 - r) / r^2.  Of degree 4: the result's other errors are twenty times as
 * large. */
GM_INLINE vf32
exp_series_f32 (vf32 r)
{
  vf32 q = fma_f32 (splat_f32 (0x1.6b1b2cp-10f), r, splat_f32 (0x1.122972p-7f));
  q = fma_f32 (q, r, splat_f32 (0x1.5556d4p-5f));
  q = fma_f32 (q, r, splat_f32 (0x1.5554aep-3f));
  return fma_f32 (q, r, splat_f32 (0.5f));
}

/* Returns exp (a) divided by 2^*n, for |a| < 2^7. */
GM_INLINE vf32
exp_reduced_f32 (vf32 a, vf32 *n)
{
  vf32 r = exp_rest_f32 (a, n), q = exp_series_f32 (r);
  return fma_f32 (fma_f32 (q, r, splat_f32 (1)), r, splat_f32 (1));
}

GM_INLINE vf32
exp_f32 (vf32 a)
{
  vf32 n;
  /* The results at the bounds are infinity and 0 already.  Of a NaN and a number the hardware
   * returns the second operand. */
  a = hw_max_f32 (splat_f32 (-104), hw_min_f32 (splat_f32 (89), a));
  vf32 y = exp_reduced_f32 (a, &n);
  return scaled_f32 (y, n);
}

/* Returns tanh as m / (m + 2) with m = exp (2 |a|) - 1 = 2^n (exp (r) - 1) + (2^n - 1); near 0 it
 * is computed as |a| minus the difference to the quotient, which is small, and so are its
 * errors. */
GM_INLINE vf32
tanh_f32 (vf32 a)
{
  vf32 sign = signbit_f32 (a), size = hw_min_f32 (splat_f32 (10), abs_f32 (a)), n;
  vf32 r = exp_rest_f32 (size + size, &n), scale = scaled_small_f32 (splat_f32 (1), n);
  vf32 m = fma_f32 (fma_f32 (r * r, exp_series_f32 (r), r), scale, scale - splat_f32 (1));
  vf32 near = sel_f32 (size < splat_f32 (0.55f), size, (vf32){ 0 });
  vf32 less = fma_f32 (near, m, near + near - m) / (m + splat_f32 (2));
  return (vf32) ((vi32) (near - less) | (vi32) sign);
}

/* Returns erf as a + a P (a^2) near 0; else 1 - exp (log (erfc (|a|))), where the logarithm is a
 * polynomial. */
GM_INLINE vf32
erf_f32 (vf32 a)
{
  vf32 sign = signbit_f32 (a), size = hw_min_f32 (splat_f32 (4), abs_f32 (a)), square = size * size, near, far, n;
  near = fma_f32 (splat_f32 (0x1.574ec6p-14f), square, splat_f32 (-0x1.a88d8ap-11f));
  near = fma_f32 (near, square, splat_f32 (0x1.549664p-8f));
  near = fma_f32 (near, square, splat_f32 (-0x1.b80962p-6f));
  near = fma_f32 (near, square, splat_f32 (0x1.ce2dcap-4f));
  near = fma_f32 (near, square, splat_f32 (-0x1.812742p-2f));
  near = fma_f32 (near, square, splat_f32 (0x1.06eba8p-3f));
  near = fma_f32 (near, size, size);
  far = fma_f32 (splat_f32 (0x1.938b70p-13f), size, splat_f32 (-0x1.8a5576p-9f));
  far = fma_f32 (far, size, splat_f32 (0x1.69e224p-6f));
  far = fma_f32 (far, size, splat_f32 (-0x1.a882b0p-4f));
  far = fma_f32 (far, size, splat_f32 (-0x1.4668a4p-1f));
  far = fma_f32 (far, size, splat_f32 (-0x1.20a232p+0f));
  far = fma_f32 (far, size, splat_f32 (-0x1.009c60p-12f));
  far = exp_reduced_f32 (far, &n);
  far = splat_f32 (1) - scaled_small_f32 (far, n);
  return (vf32) ((vi32) sel_f32 (size < splat_f32 (0.95f), near, far) | (vi32) sign);
}

#define INTEGERS(T, U, NEGATIVE) \
  GM_INLINE A_##T max_##T (A_##T a, A_##T b) { return sel_##T ((M_##T) ((C_##T) a > (C_##T) b), a, b); } \
  GM_INLINE A_##T min_##T (A_##T a, A_##T b) { return sel_##T ((M_##T) ((C_##T) a < (C_##T) b), a, b); } \
  GM_INLINE A_##T abs_##T (A_##T a) { return sel_##T ((M_##T) ((C_##T) a < (C_##T){ 0 }), -a, a); } \
  GM_INLINE A_##T sign_##T (A_##T a) \
  { \
    return (A_##T) ((C_##T) a < (C_##T){ 0 }) - (A_##T) ((C_##T) a > (C_##T){ 0 }); /* a true mask is -1 */ \
  } \
  GM_INLINE E_##T rem1_##T (E_##T a, E_##T b) \
  { \
    if (b == 0 || NEGATIVE (b == (E_##T) -1)) \
      return 0; \
    E_##T m = (E_##T) (a % b); \
    return m != 0 && NEGATIVE ((m < 0) != (b < 0)) ? (E_##T) (m + b) : m; \
  } \
  GM_INLINE E_##T floordiv1_##T (E_##T a, E_##T b) \
  { \
    if (b == 0) \
      return 0; \
    if (NEGATIVE (b == (E_##T) -1)) \
      return (E_##T) (0 - (U) a); \
    E_##T q = (E_##T) (a / b); \
    return NEGATIVE (a % b != 0 && (a < 0) != (b < 0)) ? (E_##T) (q - 1) : q; \
  } \
  GM_INLINE E_##T pow1_##T (E_##T a, E_##T b) \
  { \
    if (NEGATIVE (b < 0)) \
      return a == 1 ? 1 : a == (E_##T) -1 ? (b & 1 ? a : 1) : 0; \
    U r = 1, base = (U) a; \
    for (U e = (U) b; e; e >>= 1) { \
      if (e & 1) \
        r = (U) ((uint64_t) r * base); /* in 64 bits: small types must not become int */ \
      base = (U) ((uint64_t) base * base); \
    } \
    return (E_##T) r; \
  } \
  LANES (T, rem) \
  LANES (T, floordiv) \
  LANES (T, pow)
/* No instruction divides integer lanes, so they are divided one after the other. */
#define LANES(T, f) \
  GM_INLINE A_##T f##_##T (A_##T a, A_##T b) \
  { \
    E_##T x[L_##T], y[L_##T]; \
    memcpy (x, &a, sizeof a); \
    memcpy (y, &b, sizeof b); \
    for (int i = 0; i < L_##T; i++) \
      x[i] = f##1_##T (x[i], y[i]); \
    memcpy (&a, x, sizeof a); \
    return a; \
  }
#define SIGNED(condition) (condition)
#define UNSIGNED(condition) 0
INTEGERS (i32, uint32_t, SIGNED)
INTEGERS (i64, uint64_t, SIGNED)
INTEGERS (i16, uint16_t, SIGNED)
INTEGERS (i8, uint8_t, SIGNED)
INTEGERS (u8, uint8_t, UNSIGNED)
#undef INTEGERS
#undef LANES
#undef SIGNED
#undef UNSIGNED

#define GM_LOWEST_f32 (-INFINITY)
#define GM_LOWEST_f64 (-(double) INFINITY)
#define GM_LOWEST_i32 INT32_MIN
#define GM_LOWEST_i64 INT64_MIN
#define GM_LOWEST_i16 INT16_MIN
#define GM_LOWEST_i8 INT8_MIN
#define GM_LOWEST_u8 0
#define GM_HIGHEST_f32 INFINITY
#define GM_HIGHEST_f64 ((double) INFINITY)
#define GM_HIGHEST_i32 INT32_MAX
#define GM_HIGHEST_i64 INT64_MAX
#define GM_HIGHEST_i16 INT16_MAX
#define GM_HIGHEST_i8 INT8_MAX
#define GM_HIGHEST_u8 255

/* -- Neutral names, of the type GM_T ----------------------------------------------------------- */

#define GM_WORKED_f32 f32
#define GM_WORKED_f64 f64
#define GM_WORKED_i8 i8
#define GM_WORKED_i16 i16
#define GM_WORKED_i32 i32
#define GM_WORKED_i64 i64
#define GM_WORKED_u8 u8
#define GM_WORKED_b1 b1
#define GM_WORKED_f16 f32
#define GM_WORKED_bf16 f32
#define GM_N(f) GM_CAT (GM_CAT (f, _), GM_T)
#define GM_V(f) GM_CAT (GM_CAT (f, _), GM_CAT (GM_WORKED_, GM_T))
#define K(x) GM_V (splat) ((GM_V (E)) (x))
#define LOWEST GM_V (splat) (GM_V (GM_LOWEST))
#define HIGHEST GM_V (splat) (GM_V (GM_HIGHEST))
#define SEL(m, x, y) GM_V (sel) (m, x, y)
#define EXP(a) GM_V (exp) (a)
#define EXP2(a) GM_V (exp2) (a)
#define EXPM1(a) GM_V (expm1) (a)
#define LOG(a) GM_V (log) (a)
#define LOG2(a) GM_V (log2) (a)
#define LOG10(a) GM_V (log10) (a)
#define LOG1P(a) GM_V (log1p) (a)
#define SIN(a) GM_V (sin) (a)
#define COS(a) GM_V (cos) (a)
#define TAN(a) GM_V (tan) (a)
#define ATAN(a) GM_V (atan) (a)
#define SINH(a) GM_V (sinh) (a)
#define COSH(a) GM_V (cosh) (a)
#define TANH(a) GM_V (tanh) (a)
#define ERF(a) GM_V (erf) (a)
#define ATAN2(a, b) GM_V (atan2) (a, b)
#define POW(a, b) GM_V (pow) (a, b)
#define SQRT(a) GM_V (sqrt) (a)
#define FLOOR(a) GM_V (floor) (a)
#define CEIL(a) GM_V (ceil) (a)
#define ROUND(a) GM_V (round) (a)
#define TRUNC(a) GM_V (trunc) (a)
#define MAX(a, b) GM_V (max) (a, b)
#define MIN(a, b) GM_V (min) (a, b)
#define ABS(a) GM_V (abs) (a)
#define SIGN(a) GM_V (sign) (a)
#define FLOORDIV(a, b) GM_V (floordiv) (a, b)
#define REM(a, b) GM_V (rem) (a, b)

#endif
