/* SPDX-License-Identifier: Apache-2.0
 * tiles-random.h -- Philox4x32-10 on vectors, and the two distributions made of it.
 *
 * Part of tiles-impl.h.  Element e of a stream (seed, offset) belongs to draw offset + e / 4, and
 * depends on nothing else, so any division of a tensor gives the same numbers.  A draw is the block
 * of counter {draw, 0} under the seed: four words, one for each f32.  An f64 needs two words:
 * elements 0 and 1 of a draw take them from counter {draw, 0}, 2 and 3 from {draw, 1}.  normal
 * turns elements 2 k and 2 k + 1 into a pair by Box and Muller: radius from the first, angle from
 * the second.
 * Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
 */
/* clang-format off */

/* Number of draws that are computed at once, one in each lane; a lane holds a 32-bit word in its
 * low half. */
#define DRAWS L_i64

/* Multiplies the low 32 bits by a constant, in 64 bits. */
GM_INLINE vu64
mul_low (vu64 x, uint32_t m)
{
#ifdef GM_ISA_AVX512
  return (vu64) __builtin_ia32_pmuludq512_mask ((gm_v16si) x, (gm_v16si) ((vu64){ 0 } + m), (gm_v8di) x, (unsigned char) -1);
#else
  return (vu64) __builtin_ia32_pmuludq256 ((gm_v8si) x, (gm_v8si) ((vu64){ 0 } + m));
#endif
}

/* Computes the words of DRAWS blocks, 4 to a block, in order. */
GM_INLINE void
philox_blocks (uint32_t *out, uint64_t key, uint64_t draw, uint64_t high)
{
  const vu64 low_half = (vu64){ 0 } + 0xffffffffu;
  vu64 n = draw + (vu64) iota_i64 ();
  vu64 c0 = n, c1 = n >> 32, c2 = (vu64){ 0 } + (high & 0xffffffffu), c3 = (vu64){ 0 } + (high >> 32);
  uint32_t k0 = (uint32_t) key, k1 = (uint32_t) (key >> 32);
  /* The upper halves get arbitrary bits, which multiplication ignores; they are cut off at the
   * end. */
  GM_UNROLL for (int round = 0; round < 10; round++) {
    vu64 p0 = mul_low (c0, 0xD2511F53u), p1 = mul_low (c2, 0xCD9E8D57u);
    c0 = (p1 >> 32) ^ c1 ^ (uint64_t) k0;
    c1 = p1;
    c2 = (p0 >> 32) ^ c3 ^ (uint64_t) k1;
    c3 = p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  vu64 first = (c0 & low_half) | c1 << 32, second = (c2 & low_half) | c3 << 32;
#ifdef GM_ISA_AVX512
  vu64 a = __builtin_shuffle (first, second, (vi64){ 0, 8, 1, 9, 2, 10, 3, 11 });
  vu64 b = __builtin_shuffle (first, second, (vi64){ 4, 12, 5, 13, 6, 14, 7, 15 });
#else
  vu64 a = __builtin_shuffle (first, second, (vi64){ 0, 4, 1, 5 });
  vu64 b = __builtin_shuffle (first, second, (vi64){ 2, 6, 3, 7 });
#endif
  GM_STORE (vu64, out, a);
  GM_STORE (vu64, out + L_i32, b);
}

static void
philox (uint32_t *out, uint64_t key, uint64_t draw, uint64_t high, size_t draws)
{
  for (; draws >= DRAWS; draws -= DRAWS, draw += DRAWS, out += 4 * DRAWS)
    philox_blocks (out, key, draw, high);
  if (draws) {
    uint32_t rest[4 * DRAWS];
    philox_blocks (rest, key, draw, high);
    memcpy (out, rest, draws * 16);
  }
}

/* -- Distributions, in runs of whole draws ----------------------------------------------------- */

#define RUN 256 /* elements at once: 64 draws, whole vectors of every type */

static void
uniform_run_f32 (float *out, uint64_t seed, uint64_t draw)
{
  uint32_t w[RUN];
  philox (w, seed, draw, 0, RUN / 4);
  for (size_t i = 0; i < RUN; i += L_f32) {
    vi32 top = (vi32) (GM_LOAD (vu32, w + i) >> 8);
    store_f32 (out + i, __builtin_convertvector (top, vf32) * splat_f32 (0x1p-24f));
  }
}

static void
uniform_run_f64 (double *out, uint64_t seed, uint64_t draw)
{
  uint32_t w[2][RUN];
  philox (w[0], seed, draw, 0, RUN / 4);
  philox (w[1], seed, draw, 1, RUN / 4);
  for (size_t d = 0; d < RUN / 4; d++)
    for (size_t k = 0; k < 4; k++) {
      uint64_t word;
      memcpy (&word, &w[k / 2][4 * d + 2 * (k % 2)], 8);
      out[4 * d + k] = (double) (int64_t) (word >> 11) * 0x1p-53; /* exact */
    }
}

#define NORMAL_RUN(T) \
  static void normal_run_##T (E_##T *out, uint64_t seed, uint64_t draw) \
  { \
    E_##T u[RUN], radius[RUN / 2], angle[RUN / 2]; \
    uniform_run_##T (u, seed, draw); \
    for (size_t i = 0; i < RUN / 2; i++) { \
      radius[i] = 1 - u[2 * i]; /* (0, 1]: its logarithm is finite */ \
      angle[i] = u[2 * i + 1]; \
    } \
    for (size_t i = 0; i < RUN / 2; i += L_##T) { \
      A_##T r = sqrt_##T (splat_##T (-2) * log_##T (load_##T (radius + i))); \
      A_##T phi = splat_##T ((E_##T) 6.283185307179586) * load_##T (angle + i); \
      store_##T (radius + i, r * cos_##T (phi)); \
      store_##T (angle + i, r * sin_##T (phi)); \
    } \
    for (size_t i = 0; i < RUN / 2; i++) { \
      out[2 * i] = radius[i]; \
      out[2 * i + 1] = angle[i]; \
    } \
  }
NORMAL_RUN (f32)
NORMAL_RUN (f64)
#undef NORMAL_RUN

/* Computes n elements from element `first` on: runs start at whole draws, so the first and the last
 * run may be cut. */
#define STREAM(kind, T) \
  static void kind##_##T (E_##T *out, uint64_t seed, uint64_t offset, uint64_t first, size_t n) \
  { \
    uint64_t draw = offset + first / 4; \
    size_t skip = first % 4; \
    for (; n; draw += RUN / 4, skip = 0) { \
      size_t take = RUN - skip < n ? RUN - skip : n; \
      if (take == RUN) \
        kind##_run_##T (out, seed, draw); \
      else { \
        E_##T run[RUN]; \
        kind##_run_##T (run, seed, draw); \
        memcpy (out, run + skip, take * sizeof (E_##T)); \
      } \
      out += take; \
      n -= take; \
    } \
  }
STREAM (uniform, f32)
STREAM (uniform, f64)
STREAM (normal, f32)
STREAM (normal, f64)
#undef STREAM

static void
uniform (void *out, int dtype, uint64_t seed, uint64_t offset, uint64_t first, size_t n)
{
  if (dtype == GM_TILE_f32)
    uniform_f32 (out, seed, offset, first, n);
  else
    uniform_f64 (out, seed, offset, first, n);
}

static void
normal (void *out, int dtype, uint64_t seed, uint64_t offset, uint64_t first, size_t n)
{
  if (dtype == GM_TILE_f32)
    normal_f32 (out, seed, offset, first, n);
  else
    normal_f64 (out, seed, offset, first, n);
}

#undef DRAWS
#undef RUN
