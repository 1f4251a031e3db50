/* SPDX-License-Identifier: Apache-2.0
 * by_hand.c -- what one would write by hand with AVX-512 for the functions of by_hand.py, in the
 * arithmetic of core/tiles.
 *
 * The same polynomials, the same order of sums, no contraction: results have gramme's bits, so
 * times can be compared.  Each function does its work `times` times.  Any length: the last step of
 * a row is masked.
 */
#include <immintrin.h>
#include <string.h>

#define WIDE 16
#define BLOCK 512
#define AHEAD 512 /* floats: what is asked of memory ahead of time */

typedef __m512 V;

static inline V
splat (float x)
{
  return _mm512_set1_ps (x);
}
static inline V
mul_add (V a, V b, V c)
{
  return _mm512_fmadd_ps (a, b, c);
}
static inline V
bits_of (V a, int mask)
{
  return (V) _mm512_and_epi32 ((__m512i) a, _mm512_set1_epi32 (mask));
}
static inline __mmask16
first (long n)
{
  return (__mmask16) (n >= WIDE ? 0xffff : (1u << n) - 1);
}
static inline V
load (const float *p, long n)
{
  return _mm512_maskz_loadu_ps (first (n), p);
}
static inline void
store (float *p, long n, V v)
{
  _mm512_mask_storeu_ps (p, first (n), v);
}

/* -- exp and tanh ---------------------------------------------------------------------------- */

static inline V
exp_rest (V a, V *n)
{
  *n = _mm512_roundscale_ps (a * splat (0x1.715476p+0f), 8);
  return mul_add (*n, splat (-0x1.7f7d1cp-20f), mul_add (*n, splat (-0x1.62e4p-1f), a));
}

static inline V
exp_series (V r)
{
  V q = mul_add (splat (0x1.6b1b2cp-10f), r, splat (0x1.122972p-7f));
  q = mul_add (q, r, splat (0x1.5556d4p-5f));
  q = mul_add (q, r, splat (0x1.5554aep-3f));
  return mul_add (q, r, splat (0.5f));
}

static inline V
exp_of (V a)
{
  V n, r = exp_rest (_mm512_max_ps (splat (-104), _mm512_min_ps (splat (89), a)), &n),
       q = exp_series (r);
  return _mm512_scalef_ps (mul_add (mul_add (q, r, splat (1)), r, splat (1)), n);
}

static inline V
tanh_of (V a)
{
  V sign = bits_of (a, (int) 0x80000000),
    size = _mm512_min_ps (splat (10), bits_of (a, 0x7fffffff)), n;
  V r = exp_rest (size + size, &n), scale = _mm512_scalef_ps (splat (1), n);
  V m = mul_add (mul_add (r * r, exp_series (r), r), scale, scale - splat (1));
  V near = _mm512_maskz_mov_ps (_mm512_cmp_ps_mask (size, splat (0.55f), _CMP_LT_OQ), size);
  V less = mul_add (near, m, near + near - m) / (m + splat (2));
  return (V) _mm512_or_epi32 ((__m512i) (near - less), (__m512i) sign);
}

/* -- Chains ------------------------------------------------------------------------------------ */

static inline V
swish_tanh_of (V x)
{
  V negative = (V) _mm512_xor_epi32 ((__m512i) x, _mm512_set1_epi32 ((int) 0x80000000));
  return x * (splat (1) / (splat (1) + exp_of (negative))) + splat (2) * tanh_of (x);
}

static inline V
relu_of (V x)
{
  return _mm512_max_ps (splat (0), x);
}
static inline V
cheap_of (V a, V b)
{
  return relu_of (a * b + a) * b - a;
}
static inline V
ten_of (V x)
{
  return (relu_of (x * splat (2) + x) - x) * (bits_of (x, 0x7fffffff) + splat (0.5f)) * x - x * x;
}
static inline V
triad_of (V a, V b)
{
  return a + splat (3) * b;
}

#define CHAIN(name, value, n_in)                                                                   \
  void name (long times, long n, const float *a, const float *b, float *out)                       \
  {                                                                                                \
    while (times--) {                                                                              \
      long i = 0;                                                                                  \
      for (; i + WIDE <= n; i += WIDE) {                                                           \
        __builtin_prefetch (a + i + AHEAD);                                                        \
        if (n_in == 2)                                                                             \
          __builtin_prefetch (b + i + AHEAD);                                                      \
        V va = _mm512_loadu_ps (a + i), vb = n_in == 2 ? _mm512_loadu_ps (b + i) : va;             \
        (void) vb;                                                                                 \
        _mm512_storeu_ps (out + i, value);                                                         \
      }                                                                                            \
      if (i < n) {                                                                                 \
        V va = load (a + i, n - i), vb = n_in == 2 ? load (b + i, n - i) : va;                     \
        (void) vb;                                                                                 \
        store (out + i, n - i, value);                                                             \
      }                                                                                            \
    }                                                                                              \
  }
CHAIN (swish_tanh, swish_tanh_of (va), 1)
CHAIN (exponentials, exp_of (va), 1)
CHAIN (cheap, cheap_of (va, vb), 2)
CHAIN (ten, ten_of (va), 1)
CHAIN (triad, triad_of (va, vb), 2)

void
copied (long times, long n, const float *a, const float *b, float *out)
{
  (void) b;
  while (times--)
    memcpy (out, a, (size_t) n * sizeof *a);
}

/* -- Rows -------------------------------------------------------------------------------------- */

/* The sixteen partial sums of a block, by the tree: lane k with k + 8, + 4, + 2, + 1. */
static inline float
tree (V v)
{
  v += _mm512_shuffle_f32x4 (v, v, 0x4e);
  v += _mm512_shuffle_f32x4 (v, v, 0xb1);
  v += _mm512_permute_ps (v, 0x4e);
  v += _mm512_permute_ps (v, 0xb1);
  return _mm512_cvtss_f32 (v);
}

/* Row r of what comes, `width` long: sum gets the sum of `value` over it, which may store.  Two
 * blocks at a time. */
#define SUM(sum, width, value)                                                                     \
  do {                                                                                             \
    long j = 0;                                                                                    \
    sum = 0;                                                                                       \
    for (; j + 2 * BLOCK <= width; j += 2 * BLOCK) {                                               \
      V p = splat (0), q = splat (0);                                                              \
      for (long k = j; k < j + BLOCK; k += WIDE) {                                                 \
        {                                                                                          \
          long i = k, left = WIDE;                                                                 \
          p += value;                                                                              \
        }                                                                                          \
        {                                                                                          \
          long i = k + BLOCK, left = WIDE;                                                         \
          q += value;                                                                              \
        }                                                                                          \
      }                                                                                            \
      sum += tree (p);                                                                             \
      sum += tree (q);                                                                             \
    }                                                                                              \
    for (; j < width; j += BLOCK) {                                                                \
      long to = j + BLOCK < width ? j + BLOCK : width, i = j, left = WIDE;                         \
      V p = splat (0);                                                                             \
      for (; i + WIDE <= to; i += WIDE)                                                            \
        p += value;                                                                                \
      if ((left = to - i) > 0)                                                                     \
        p = _mm512_mask_add_ps (p, first (left), p, value);                                        \
      sum += tree (p);                                                                             \
    }                                                                                              \
  } while (0)

#define EACH(width, statement)                                                                     \
  do {                                                                                             \
    long i = 0, left = WIDE;                                                                       \
    for (; i + WIDE <= width; i += WIDE)                                                           \
      statement;                                                                                   \
    if ((left = width - i) > 0)                                                                    \
      statement;                                                                                   \
  } while (0)

static inline float
largest (const float *x, long width)
{
  const V none = splat (-__builtin_inff ());
  V m[4] = { none, none, none, none };
  long i = 0;
  for (; i + 4 * WIDE <= width; i += 4 * WIDE)
    for (int k = 0; k < 4; k++)
      m[k] = _mm512_max_ps (m[k], _mm512_loadu_ps (x + i + k * WIDE));
  for (; i < width; i += WIDE)
    m[0] = _mm512_mask_max_ps (m[0], first (width - i), m[0], load (x + i, width - i));
  return _mm512_reduce_max_ps (
      _mm512_max_ps (_mm512_max_ps (m[0], m[1]), _mm512_max_ps (m[2], m[3])));
}

static inline V
kept (float *p, long n, V v)
{
  store (p, n, v);
  return v;
}

void
softmax (long times, long rows, long width, const float *x, float *out)
{
  while (times--)
    for (long r = 0; r < rows; r++) {
      const float *a = x + r * width;
      float *o = out + r * width, sum;
      V top = splat (largest (a, width));
      SUM (sum, width, kept (o + i, left, exp_of (load (a + i, left) - top)));
      V by = splat (1 / sum);
      EACH (width,
            (__builtin_prefetch (a + width + i), store (o + i, left, load (o + i, left) * by)));
    }
}

static inline V
square (V v)
{
  return v * v;
}

void
layer_norm (long times, long rows, long width, const float *x, float *out)
{
  while (times--)
    for (long r = 0; r < rows; r++) {
      const float *a = x + r * width;
      float *o = out + r * width, sum, squares;
      SUM (sum, width, load (a + i, left));
      V mean = splat (sum / (float) width);
      SUM (squares, width, square (load (a + i, left) - mean));
      V by = splat (1 / __builtin_sqrtf (squares / (float) width + 1e-5f));
      EACH (width, (__builtin_prefetch (a + width + i),
                    store (o + i, left, (load (a + i, left) - mean) * by)));
    }
}
