/* SPDX-License-Identifier: Apache-2.0
 * prelude-small.h -- elements of 16 and 8 bits, which are computed in other types.
 *
 * Part of prelude.h.  f16 and bf16 exist in memory only: load_f16 gives a vector of f32, every
 * function of f16 is f32's, and store_f16 rounds, once, to the nearest, ties to even.  The 8-bit
 * floats have load and store alone.  An integer of 8 or 16 bits has arithmetic of its own; here are
 * its conversions to 32-bit lanes: widening by sign, narrowing to the low bits.
 *
 * Source of the formats: IEEE 754 (f16); the upper half of f32 (bf16); Micikevicius et al., FP8
 * Formats for Deep Learning, 2022 (e4m3fn: no infinities, 0x7f is the NaN, so what is rounded past
 * 448 is NaN; e5m2: as IEEE would have it). f16 is the processor's (F16C, AVX-512F); the others are
 * bit arithmetic, the same on every instruction set.
 */
/* clang-format off */
#ifndef GM_TILES_PRELUDE_SMALL_H
#define GM_TILES_PRELUDE_SMALL_H

/* -- 32-bit lanes and 16 bits in memory -------------------------------------------------------- */

#ifdef GM_ISA_AVX512
typedef short gm_v16hi __attribute__ ((vector_size (32)));
typedef float gm_v16sf __attribute__ ((vector_size (64)));
VECTOR (gm_words, short, 32);
GM_INLINE vi32
load_i16_32 (const void *p)
{
  return (vi32) __builtin_ia32_pmovsxwd512_mask ((gm_v16hi) GM_LOAD (gm_words, p), (gm_v16si){ 0 },
                                                 (unsigned short) -1);
}
GM_INLINE vu32
load_u16_32 (const void *p)
{
  return (vu32) __builtin_ia32_pmovzxwd512_mask ((gm_v16hi) GM_LOAD (gm_words, p), (gm_v16si){ 0 },
                                                 (unsigned short) -1);
}
GM_INLINE void
store_i16_32 (void *p, vi32 v)
{
  gm_v16hi w =
      (gm_v16hi) __builtin_ia32_pmovdw512_mask ((gm_v16si) v, (gm_v16hi){ 0 }, (unsigned short) -1);
  GM_STORE (gm_words, p, (gm_words) w);
}
GM_INLINE vi32
load_i8_32 (const void *p)
{
  gm_v16qi x = (gm_v16qi) GM_LOAD (gm_bytes16, p);
  return (vi32) __builtin_ia32_pmovsxbd512_mask (x, (gm_v16si){ 0 }, (unsigned short) -1);
}
GM_INLINE vf32
load_f16 (const void *p)
{
  return (vf32) __builtin_ia32_vcvtph2ps512_mask ((gm_v16hi) GM_LOAD (gm_words, p), (gm_v16sf){ 0 },
                                                  (unsigned short) -1, 4);
}
GM_INLINE void
store_f16 (void *p, vf32 v)
{
  gm_v16hi w = (gm_v16hi) __builtin_ia32_vcvtps2ph512_mask ((gm_v16sf) v, 0, (gm_v16hi){ 0 },
                                                            (unsigned short) -1);
  GM_STORE (gm_words, p, (gm_words) w);
}
#else
typedef float gm_v8sf __attribute__ ((vector_size (32)));
VECTOR (gm_words, short, 16);
GM_INLINE vi32
load_i16_32 (const void *p)
{
  return (vi32) __builtin_ia32_pmovsxwd256 ((gm_v8hi) GM_LOAD (gm_words, p));
}
GM_INLINE vu32
load_u16_32 (const void *p)
{
  return (vu32) __builtin_ia32_pmovzxwd256 ((gm_v8hi) GM_LOAD (gm_words, p));
}
GM_INLINE void
store_i16_32 (void *p, vi32 v)
{
  vi32h halves[2];
  v &= 0xffff;
  memcpy (halves, &v, sizeof v);
  gm_v8hi w = (gm_v8hi) __builtin_ia32_packusdw128 ((gm_v4si) halves[0], (gm_v4si) halves[1]);
  GM_STORE (gm_words, p, (gm_words) w);
}
GM_INLINE vi32
load_i8_32 (const void *p)
{
  return (vi32) __builtin_ia32_pmovsxbd256 (load_8_bytes (p));
}
GM_INLINE vf32
load_f16 (const void *p)
{
  return (vf32) __builtin_ia32_vcvtph2ps256 ((gm_v8hi) GM_LOAD (gm_words, p));
}
GM_INLINE void
store_f16 (void *p, vf32 v)
{
  gm_v8hi w = (gm_v8hi) __builtin_ia32_vcvtps2ph256 ((gm_v8sf) v, 0);
  GM_STORE (gm_words, p, (gm_words) w);
}
#endif

/* -- bf16 -------------------------------------------------------------------------------------- */

GM_INLINE vf32
load_bf16 (const void *p)
{
  return (vf32) (load_u16_32 (p) << 16);
}
GM_INLINE void
store_bf16 (void *p, vf32 v)
{
  vu32 bits = (vu32) v, rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  /* A NaN must not round to infinity. */
  store_i16_32 (p, sel_i32_bits (v != v, (vi32) (bits >> 16 | 0x40), (vi32) rounded));
}

/* -- 8-bit floats ------------------------------------------------------------------------------ */

/* F: bits of the fraction, B: the exponent's bias.  A subnormal is a whole number of units 2^(1 - B
 * - F); other numbers differ from f32 only in the place of the bits and the bias. */
#define SMALL_FLOAT(name, F, B)                                                                    \
  GM_INLINE vf32 widen_##name (vi32 code)                                                          \
  {                                                                                                \
    vi32 size = code & 0x7f, sign = (vi32) ((vu32) (code & 0x80) << 24);                           \
    const float unit = (float) (1.0 / (double) (1 << (B + F - 1)));                                \
    vf32 units = __builtin_convertvector (size, vf32) * unit;                                      \
    vi32 normal = (size << (23 - F)) + ((127 - B) << 23);                                          \
    vi32 bits = sel_i32_bits (size < 1 << F, (vi32) units, normal);                                \
    return (vf32) (special_##name (size, bits) | sign);                                            \
  }                                                                                                \
  GM_INLINE vi32 narrow_##name (vf32 v)                                                            \
  {                                                                                                \
    vu32 bits = (vu32) v, sign = bits & 0x80000000u, size = bits ^ sign;                           \
    /* Adding a number whose last place is the unit rounds to units. */                            \
    const vf32 unit = splat_f32 ((float) (1 << 24) / (float) (1 << (B + F)));                      \
    vi32 units = (vi32) ((vf32) size + unit) - (vi32) unit;                                        \
    vu32 normal = (size + ((1u << (22 - F)) - 1) + (size >> (23 - F) & 1)) >> (23 - F);            \
    vi32 code =                                                                                    \
        sel_i32_bits ((vi32) size < (128 - B) << 23, units, (vi32) (normal - ((127u - B) << F)));  \
    return beyond_##name ((vi32) size, code) | (vi32) (sign >> 24);                                \
  }                                                                                                \
  GM_INLINE vf32 load_##name (const void *p) { return widen_##name (load_u8_32 (p)); }             \
  GM_INLINE void store_##name (void *p, vf32 v) { store_u8_32 (p, narrow_##name (v)); }

GM_INLINE vi32
special_e4m3 (vi32 size, vi32 bits)
{
  return sel_i32_bits (size == 0x7f, bits | 0x7fc00000, bits);
}
GM_INLINE vi32
beyond_e4m3 (vi32 size, vi32 code)
{
  return sel_i32_bits (size >= 0x43f00000 /* 480 */, (vi32){ 0 } + 0x7f, code);
}
SMALL_FLOAT (e4m3, 3, 7)

GM_INLINE vi32
special_e5m2 (vi32 size, vi32 bits)
{
  return sel_i32_bits (size >= 0x7c, bits | 0x7f800000, bits);
}
GM_INLINE vi32
beyond_e5m2 (vi32 size, vi32 code)
{
  code = sel_i32_bits (size >= 0x47800000 /* 65536 */, (vi32){ 0 } + 0x7c, code);
  return sel_i32_bits (size > 0x7f800000, (vi32){ 0 } + 0x7f, code);
}
SMALL_FLOAT (e5m2, 2, 15)
#undef SMALL_FLOAT

/* -- Parts of f16 and bf16 --------------------------------------------------------------------- */

#define HALF(T)                                                                                    \
  GM_INLINE vf32 load_part_##T (const void *p, size_t n, vf32 pad)                                 \
  {                                                                                                \
    uint16_t words[L_f32] = { 0 };                                                                 \
    memcpy (words, p, n * sizeof *words);                                                          \
    return sel_f32 (iota_f32 () < (int) n, load_##T (words), pad);                                 \
  }                                                                                                \
  GM_INLINE void store_part_##T (void *p, size_t n, vf32 v)                                        \
  {                                                                                                \
    uint16_t words[L_f32];                                                                         \
    store_##T (words, v);                                                                          \
    memcpy (p, words, n * sizeof *words);                                                          \
  }
HALF (f16)
HALF (bf16)
#undef HALF

#endif
