/* SPDX-License-Identifier: Apache-2.0
 * prelude.cuh -- the neutral names of gramme-ops.def for one thread of a GPU.
 *
 * The build turns this file into a string that stands before every generated kernel.  It is C and CUDA C++ at once, and includes
 * nothing: the simulator of the tests compiles the same text for the CPU (GM_SIM; tests/gpu/sim.h).
 *
 * For each type T that is worked on (f32, f64, i8 ... i64, u8, b1) there are E_T, the element, A_T, what + - * work on (unsigned
 * for integers: overflow wraps), and functions f_T for each neutral name f.  f16, bf16 and the 8-bit floats are storage: widen_T
 * and narrow_T are their doors, and rounded_T is what is left of a float that goes through both.
 *
 * Bits.  What core/tiles/prelude.h writes out (exp and tanh of f32, integers, casts, rounding, Philox) is the same arithmetic
 * here, with the same bits.  The other elementary functions are CUDA's, within the errors of its manual.  Kernels are compiled
 * with --fmad=false: an fma is only where one is written.  Choices where C, Python and torch differ stand in that file, too.
 */

/* -- What the two targets spell differently ------------------------------------------------------ */

#ifndef GM_SIM
#define GM_FN static __device__ __forceinline__
#define GM_SHARED __shared__
#define GM_ALIGN(n) __align__ (n)
#define GM_BITS_F32(x) __float_as_uint (x)
#define GM_F32_BITS(u) __uint_as_float (u)
#define GM_BITS_F64(x) ((unsigned long long) __double_as_longlong (x))
#define GM_F64_BITS(u) __longlong_as_double ((long long) (u))
#define GM_FMA(a, b, c) __fmaf_rn (a, b, c)
#define GM_FMA_F64(a, b, c) __fma_rn (a, b, c)
#define GM_MULHI(a, b) __umulhi (a, b)
#define GM_BARRIER() __syncthreads ()
#define GM_DOWN_u32(v, by) __shfl_down_sync (0xffffffffu, v, by)
#define GM_LANE0_u32(v) __shfl_sync (0xffffffffu, v, 0)
#define GM_CLAIM(word, value) (atomicCAS (word, 0ull, value) == 0)
#define GM_BLOCK (blockIdx.x)
#define GM_THREAD (threadIdx.x)
/* Arguments come as one record of addresses and sizes. */
#define GM_KERNEL(name, n_args, n_sizes, n_threads)                                                \
  struct name##_args {                                                                             \
    void *p[n_args];                                                                               \
    unsigned long long z[n_sizes];                                                                 \
  };                                                                                               \
  extern "C" __global__ void __launch_bounds__ (n_threads) name (const struct name##_args gm_a)
#define GM_ARG(i) (gm_a.p[i])
#define GM_SIZE(n_args, i) (gm_a.z[i])
#endif
#define GM_INF GM_F32_BITS (0x7f800000u)
#define GM_RESTRICT __restrict__

typedef unsigned long long gm_u64;
typedef unsigned int gm_u32;

/* -- Types --------------------------------------------------------------------------------------- */

/*      element                    arithmetic            in memory of the vector forms */
typedef float E_f32;           typedef float A_f32;
typedef double E_f64;          typedef double A_f64;
typedef signed char E_i8;      typedef gm_u32 A_i8;
typedef short E_i16;           typedef gm_u32 A_i16;
typedef int E_i32;             typedef gm_u32 A_i32;
typedef long long E_i64;       typedef gm_u64 A_i64;
typedef unsigned char E_u8;    typedef gm_u32 A_u8;
typedef unsigned char E_b1;    typedef gm_u32 A_b1;
typedef unsigned short E_f16;
typedef unsigned short E_bf16;
typedef unsigned char E_e4m3;
typedef unsigned char E_e5m2;

/* n elements that are read and written at once: 16 bytes at most. */
#define GM_VECTOR(T, n)                                                                            \
  typedef struct GM_ALIGN (sizeof (E_##T) * n) {                                                   \
    E_##T e[n];                                                                                    \
  } V##n##_##T;
#define GM_VECTORS_1(T) GM_VECTOR (T, 2) GM_VECTOR (T, 4) GM_VECTOR (T, 8) GM_VECTOR (T, 16)
#define GM_VECTORS_2(T) GM_VECTOR (T, 2) GM_VECTOR (T, 4) GM_VECTOR (T, 8)
#define GM_VECTORS_4(T) GM_VECTOR (T, 2) GM_VECTOR (T, 4)
GM_VECTORS_1 (b1) GM_VECTORS_1 (u8) GM_VECTORS_1 (i8) GM_VECTORS_1 (e4m3) GM_VECTORS_1 (e5m2)
GM_VECTORS_2 (i16) GM_VECTORS_2 (f16) GM_VECTORS_2 (bf16)
GM_VECTORS_4 (i32) GM_VECTORS_4 (f32)
GM_VECTOR (i64, 2) GM_VECTOR (f64, 2)

/* -- Floats below 32 bits ------------------------------------------------------------------------ */

#ifndef GM_SIM
GM_FN float
widen_f16 (E_f16 h)
{
  float f;
  asm ("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
  return f;
}
GM_FN E_f16
narrow_f16 (float f)
{
  E_f16 h;
  asm ("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return h;
}
#endif
GM_FN float
widen_bf16 (E_bf16 h)
{
  return GM_F32_BITS ((gm_u32) h << 16);
}
GM_FN E_bf16
narrow_bf16 (float f)
{
#if !defined(GM_SIM) && __CUDA_ARCH__ >= 800
  E_bf16 h;
  asm ("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return h;
#else
  gm_u32 bits = GM_BITS_F32 (f);
  return (E_bf16) (f != f ? bits >> 16 | 0x40 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
#endif
}

/* F: bits of the fraction, B: the exponent's bias; as in core/tiles/prelude-small.h. */
#define GM_SMALL_FLOAT(name, F, B, NAN_FROM, NAN_BITS, BEYOND)                                     \
  GM_FN float widen_##name (E_##name code)                                                         \
  {                                                                                                \
    gm_u32 size = code & 0x7fu, sign = (gm_u32) (code & 0x80) << 24;                               \
    const float unit = 1.0f / (float) (1 << (B + F - 1));                                          \
    gm_u32 normal = (size << (23 - F)) + ((127u - B) << 23);                                       \
    gm_u32 bits = size < 1u << F ? GM_BITS_F32 ((float) (int) size * unit) : normal;               \
    return GM_F32_BITS ((size >= NAN_FROM ? bits | NAN_BITS : bits) | sign);                       \
  }                                                                                                \
  GM_FN E_##name narrow_##name (float v)                                                           \
  {                                                                                                \
    gm_u32 bits = GM_BITS_F32 (v), sign = bits & 0x80000000u, size = bits ^ sign, code;            \
    const float unit = (float) (1 << 24) / (float) (1 << (B + F));                                 \
    if (size < (128u - B) << 23)                                                                   \
      code = GM_BITS_F32 (GM_F32_BITS (size) + unit) - GM_BITS_F32 (unit);                         \
    else                                                                                           \
      code = ((size + ((1u << (22 - F)) - 1) + (size >> (23 - F) & 1)) >> (23 - F))                \
             - ((127u - B) << F);                                                                  \
    BEYOND;                                                                                        \
    return (E_##name) (code | sign >> 24);                                                         \
  }
GM_SMALL_FLOAT (e4m3, 3, 7, 0x7fu, 0x7fc00000u, if (size >= 0x43f00000u) code = 0x7f)
GM_SMALL_FLOAT (e5m2, 2, 15, 0x7cu, 0x7f800000u, if (size >= 0x47800000u) code = 0x7c;
                if (size > 0x7f800000u) code = 0x7f)

GM_FN float rounded_f16 (float v) { return widen_f16 (narrow_f16 (v)); }
GM_FN float rounded_bf16 (float v) { return widen_bf16 (narrow_bf16 (v)); }

/* -- Casts whose result C leaves undefined: x86's choice ----------------------------------------- */

GM_FN E_i32 f32_to_i32 (float x) { return x >= -2147483648.0f && x < 2147483648.0f ? (E_i32) x : (E_i32) 0x80000000u; }
GM_FN E_i32 f64_to_i32 (double x) { return x > -2147483649.0 && x < 2147483648.0 ? (E_i32) x : (E_i32) 0x80000000u; }
GM_FN E_i64
f32_to_i64 (float x)
{
  return x >= -9223372036854775808.0f && x < 9223372036854775808.0f ? (E_i64) x : (E_i64) 0x8000000000000000ull;
}
GM_FN E_i64
f64_to_i64 (double x)
{
  return x >= -9223372036854775808.0 && x < 9223372036854775808.0 ? (E_i64) x : (E_i64) 0x8000000000000000ull;
}

/* -- Elementary functions ------------------------------------------------------------------------ */

#define GM_ONE(name)                                                                               \
  GM_FN float name##_f32 (float a) { return name##f (a); }                                         \
  GM_FN double name##_f64 (double a) { return name (a); }
#define GM_TWO(name)                                                                               \
  GM_FN float name##_f32 (float a, float b) { return name##f (a, b); }                             \
  GM_FN double name##_f64 (double a, double b) { return name (a, b); }
GM_ONE (exp2) GM_ONE (expm1) GM_ONE (log) GM_ONE (log2) GM_ONE (log10) GM_ONE (log1p)
GM_ONE (sin) GM_ONE (cos) GM_ONE (tan) GM_ONE (atan) GM_ONE (sinh) GM_ONE (cosh) GM_ONE (erf)
GM_TWO (pow) GM_TWO (atan2) GM_TWO (fmod)
GM_ONE (sqrt) GM_ONE (floor) GM_ONE (ceil) GM_ONE (trunc)
GM_FN float round_f32 (float a) { return rintf (a); }
GM_FN double round_f64 (double a) { return rint (a); }
GM_FN double exp_f64 (double a) { return exp (a); }
GM_FN double tanh_f64 (double a) { return tanh (a); }

/* exp (a) is the result times 2^*n, for |a| < 2^7. */
GM_FN float
exp_reduced_f32 (float a, int *n)
{
  float whole = rintf (a * 0x1.715476p+0f), r, q;
  r = GM_FMA (whole, -0x1.62e4p-1f, a); /* log 2 in two parts */
  r = GM_FMA (whole, -0x1.7f7d1cp-20f, r);
  q = GM_FMA (0x1.9f085ap-13f, r, 0x1.6d8d52p-10f);
  q = GM_FMA (q, r, 0x1.111272p-7f);
  q = GM_FMA (q, r, 0x1.55548ep-5f);
  q = GM_FMA (q, r, 0x1.555554p-3f);
  q = GM_FMA (q, r, 0.5f);
  *n = f32_to_i32 (whole);
  return GM_FMA (r * r, q, r) + 1.0f;
}
GM_FN float power_of_two_f32 (int n) { return GM_F32_BITS (((gm_u32) n + 127u) << 23); }

GM_FN float
exp_f32 (float a)
{
  int n, half;
  a = 89.0f < a ? 89.0f : a; /* the bounds are infinity and 0 already; a NaN stays */
  a = -104.0f > a ? -104.0f : a;
  float y = exp_reduced_f32 (a, &n);
  half = n >> 1; /* in two steps: 2^n may be out of range where the result is not */
  return y * power_of_two_f32 (half) * power_of_two_f32 ((int) ((gm_u32) n - (gm_u32) half));
}

GM_FN float
tanh_f32 (float a)
{
  gm_u32 sign = GM_BITS_F32 (a) & 0x80000000u;
  float size = GM_F32_BITS (GM_BITS_F32 (a) ^ sign), square, near, far, y;
  int n;
  size = 10.0f < size ? 10.0f : size;
  square = size * size;
  near = GM_FMA (-0x1.9af224p-8f, square, 0x1.593144p-6f);
  near = GM_FMA (near, square, -0x1.b926e4p-5f);
  near = GM_FMA (near, square, 0x1.110d1ap-3f);
  near = GM_FMA (near, square, -0x1.55554ap-2f);
  near = GM_FMA (size * square, near, size);
  far = exp_reduced_f32 (size + size, &n);
  far = 1.0f - 2.0f / (far * power_of_two_f32 (n) + 1.0f);
  y = size < 0.55f ? near : far;
  return GM_F32_BITS (GM_BITS_F32 (y) | sign);
}

/* -- Arithmetic of each type --------------------------------------------------------------------- */

#define GM_FLOATS(T, BITS, SIGN)                                                                   \
  GM_FN E_##T max_##T (E_##T a, E_##T b) { return b != b ? b : b > a ? b : a; }                    \
  GM_FN E_##T min_##T (E_##T a, E_##T b) { return b != b ? b : b < a ? b : a; }                    \
  GM_FN E_##T abs_##T (E_##T a) { return GM_##T##_OF (BITS (a) & ~SIGN); }                         \
  GM_FN E_##T signbit_##T (E_##T a) { return GM_##T##_OF (BITS (a) & SIGN); }                      \
  GM_FN E_##T sign_##T (E_##T a) { return (E_##T) ((a > 0) - (a < 0)); }                           \
  GM_FN E_##T rem_##T (E_##T a, E_##T b)                                                           \
  {                                                                                                \
    E_##T m = fmod_##T (a, b);                                                                     \
    return m != 0 && (b < 0) != (m < 0) ? m + b : m;                                               \
  }                                                                                                \
  GM_FN E_##T floordiv_##T (E_##T a, E_##T b)                                                      \
  {                                                                                                \
    E_##T m = fmod_##T (a, b), q = (a - m) / b, f;                                                 \
    q = m != 0 && (b < 0) != (m < 0) ? q - 1 : q;                                                  \
    f = floor_##T (q);                                                                             \
    f = q - f > (E_##T) 0.5 ? f + 1 : f; /* (a - m) / b was rounded */                             \
    f = q != 0 ? f : signbit_##T (a / b);                                                          \
    return b == 0 ? a / b : f;                                                                     \
  }
#define GM_f32_OF GM_F32_BITS
#define GM_f64_OF GM_F64_BITS
GM_FLOATS (f32, GM_BITS_F32, 0x80000000u)
GM_FLOATS (f64, GM_BITS_F64, 0x8000000000000000ull)

#define GM_INTEGERS(T, IS_SIGNED)                                                                  \
  GM_FN E_##T max_##T (A_##T a, A_##T b) { return (E_##T) a > (E_##T) b ? (E_##T) a : (E_##T) b; } \
  GM_FN E_##T min_##T (A_##T a, A_##T b) { return (E_##T) a < (E_##T) b ? (E_##T) a : (E_##T) b; } \
  GM_FN E_##T abs_##T (A_##T a) { return IS_SIGNED && (E_##T) a < 0 ? (E_##T) (0 - a) : (E_##T) a; } \
  GM_FN E_##T sign_##T (A_##T a) { return (E_##T) (((E_##T) a > 0) - (IS_SIGNED && (E_##T) a < 0)); } \
  GM_FN E_##T rem_##T (A_##T x, A_##T y)                                                           \
  {                                                                                                \
    E_##T a = (E_##T) x, b = (E_##T) y, m;                                                         \
    if (b == 0 || (IS_SIGNED && b == (E_##T) -1))                                                  \
      return 0;                                                                                    \
    m = (E_##T) (a % b);                                                                           \
    return IS_SIGNED && m != 0 && (m < 0) != (b < 0) ? (E_##T) (m + b) : m;                        \
  }                                                                                                \
  GM_FN E_##T floordiv_##T (A_##T x, A_##T y)                                                      \
  {                                                                                                \
    E_##T a = (E_##T) x, b = (E_##T) y, q;                                                         \
    if (b == 0)                                                                                    \
      return 0;                                                                                    \
    if (IS_SIGNED && b == (E_##T) -1)                                                              \
      return (E_##T) (0 - x);                                                                      \
    q = (E_##T) (a / b);                                                                           \
    return IS_SIGNED && a % b != 0 && (a < 0) != (b < 0) ? (E_##T) (q - 1) : q;                    \
  }                                                                                                \
  GM_FN E_##T pow_##T (A_##T x, A_##T y)                                                           \
  {                                                                                                \
    E_##T a = (E_##T) x, b = (E_##T) y;                                                            \
    gm_u64 r = 1, base = (gm_u64) a, e = (gm_u64) b;                                               \
    if (IS_SIGNED && b < 0)                                                                        \
      return (E_##T) (a == 1 ? 1 : a == (E_##T) -1 ? (b & 1 ? a : 1) : 0);                         \
    for (; e; e >>= 1) {                                                                           \
      if (e & 1)                                                                                   \
        r *= base;                                                                                 \
      base *= base;                                                                                \
    }                                                                                              \
    return (E_##T) r;                                                                              \
  }
GM_INTEGERS (i8, 1)
GM_INTEGERS (i16, 1)
GM_INTEGERS (i32, 1)
GM_INTEGERS (i64, 1)
GM_INTEGERS (u8, 0)
GM_INTEGERS (b1, 0)

/* a * b + c of a matrix product. */
GM_FN E_f32 mad_f32 (E_f32 a, E_f32 b, E_f32 c) { return GM_FMA (a, b, c); }
GM_FN E_f64 mad_f64 (E_f64 a, E_f64 b, E_f64 c) { return GM_FMA_F64 (a, b, c); }
#define GM_MAD(T)                                                                                  \
  GM_FN E_##T mad_##T (E_##T a, E_##T b, E_##T c) { return (E_##T) ((A_##T) a * (A_##T) b + (A_##T) c); }
GM_MAD (i8)
GM_MAD (i16)
GM_MAD (i32)
GM_MAD (i64)
GM_MAD (u8)

/* A position is out of range: the first to say so leaves its node, counted from 1, and the position. */
#define GM_REPORT(error, node, position)                                                           \
  do {                                                                                             \
    if (GM_CLAIM ((gm_u64 *) (error), (gm_u64) (node)))                                            \
      (error)[1] = (position);                                                                     \
  } while (0)

#define LOWEST_f32 (-GM_INF)
#define LOWEST_f64 ((double) -GM_INF)
#define LOWEST_i8 -128
#define LOWEST_i16 -32768
#define LOWEST_i32 0x80000000u
#define LOWEST_i64 0x8000000000000000ull
#define LOWEST_u8 0
#define LOWEST_b1 0
#define HIGHEST_f32 GM_INF
#define HIGHEST_f64 ((double) GM_INF)
#define HIGHEST_i8 127
#define HIGHEST_i16 32767
#define HIGHEST_i32 0x7fffffffu
#define HIGHEST_i64 0x7fffffffffffffffull
#define HIGHEST_u8 255
#define HIGHEST_b1 1

/* -- From thread to thread ----------------------------------------------------------------------- */

/* The value of the lane `by` further on; lanes without one get some value.  All 32 lanes call it. */
#define GM_ACROSS(T, TO, FROM)                                                                     \
  GM_FN E_##T down_##T (E_##T v, int by) { return (E_##T) FROM (GM_DOWN_u32 (TO (v), by)); }       \
  GM_FN E_##T lane0_##T (E_##T v) { return (E_##T) FROM (GM_LANE0_u32 (TO (v))); }
#define GM_WIDE_ACROSS(T, TO, FROM)                                                                \
  GM_FN E_##T down_##T (E_##T v, int by)                                                           \
  {                                                                                                \
    gm_u64 u = TO (v), low = GM_DOWN_u32 ((gm_u32) u, by), high = GM_DOWN_u32 ((gm_u32) (u >> 32), by); \
    return FROM (high << 32 | low);                                                                \
  }                                                                                                \
  GM_FN E_##T lane0_##T (E_##T v)                                                                  \
  {                                                                                                \
    gm_u64 u = TO (v), low = GM_LANE0_u32 ((gm_u32) u), high = GM_LANE0_u32 ((gm_u32) (u >> 32));  \
    return FROM (high << 32 | low);                                                                \
  }
GM_ACROSS (f32, GM_BITS_F32, GM_F32_BITS)
GM_ACROSS (i8, (gm_u32), )
GM_ACROSS (i16, (gm_u32), )
GM_ACROSS (i32, (gm_u32), )
GM_ACROSS (u8, (gm_u32), )
GM_ACROSS (b1, (gm_u32), )
GM_WIDE_ACROSS (f64, GM_BITS_F64, GM_F64_BITS)
GM_WIDE_ACROSS (i64, (gm_u64), (E_i64))

/* -- Random numbers: Philox4x32-10 (Salmon and others, SC 2011) ----------------------------------- */

/* The four words of the block of counter {draw, high} under `key`. */
GM_FN void
philox (gm_u64 key, gm_u64 draw, gm_u64 high, gm_u32 *w)
{
  gm_u32 c0 = (gm_u32) draw, c1 = (gm_u32) (draw >> 32), c2 = (gm_u32) high, c3 = (gm_u32) (high >> 32);
  gm_u32 k0 = (gm_u32) key, k1 = (gm_u32) (key >> 32);
  for (int round = 0; round < 10; round++) {
    gm_u32 low0 = c0 * 0xD2511F53u, high0 = GM_MULHI (c0, 0xD2511F53u);
    gm_u32 low1 = c2 * 0xCD9E8D57u, high1 = GM_MULHI (c2, 0xCD9E8D57u);
    c0 = high1 ^ c1 ^ k0;
    c1 = low1;
    c2 = high0 ^ c3 ^ k1;
    c3 = low0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  w[0] = c0, w[1] = c1, w[2] = c2, w[3] = c3;
}

/* Element `lane` (0 to 3) of a draw. */
GM_FN float
uniform_f32 (gm_u64 key, gm_u64 draw, int lane)
{
  gm_u32 w[4];
  philox (key, draw, 0, w);
  gm_u32 x = lane == 0 ? w[0] : lane == 1 ? w[1] : lane == 2 ? w[2] : w[3];
  return (float) (int) (x >> 8) * 0x1p-24f;
}
GM_FN double
uniform_f64 (gm_u64 key, gm_u64 draw, int lane)
{
  gm_u32 w[4];
  philox (key, draw, (gm_u64) (lane / 2), w);
  gm_u64 x = lane % 2 ? (gm_u64) w[3] << 32 | w[2] : (gm_u64) w[1] << 32 | w[0];
  return (double) (long long) (x >> 11) * 0x1p-53;
}
#define GM_NORMAL(T)                                                                               \
  GM_FN E_##T normal_##T (gm_u64 key, gm_u64 draw, int lane)                                       \
  {                                                                                                \
    E_##T u = 1 - uniform_##T (key, draw, lane & ~1), v = uniform_##T (key, draw, lane | 1);       \
    E_##T r = sqrt_##T (-2 * log_##T (u)), phi = (E_##T) 6.283185307179586 * v;                    \
    return r * (lane & 1 ? sin_##T (phi) : cos_##T (phi));                                         \
  }
GM_NORMAL (f32)
GM_NORMAL (f64)

/* -- Neutral names, of the type GM_T -------------------------------------------------------------- */

#define GM_CAT_(a, b) a##b
#define GM_CAT(a, b) GM_CAT_ (a, b)
#define GM_V(f) GM_CAT (f, GM_T)
#define K(x) ((GM_V (A_)) (GM_V (E_)) (x))
#define LOWEST GM_V (LOWEST_)
#define HIGHEST GM_V (HIGHEST_)
#define SEL(m, x, y) ((m) ? (x) : (y))
#define EXP(a) GM_V (exp_) (a)
#define EXP2(a) GM_V (exp2_) (a)
#define EXPM1(a) GM_V (expm1_) (a)
#define LOG(a) GM_V (log_) (a)
#define LOG2(a) GM_V (log2_) (a)
#define LOG10(a) GM_V (log10_) (a)
#define LOG1P(a) GM_V (log1p_) (a)
#define SIN(a) GM_V (sin_) (a)
#define COS(a) GM_V (cos_) (a)
#define TAN(a) GM_V (tan_) (a)
#define ATAN(a) GM_V (atan_) (a)
#define SINH(a) GM_V (sinh_) (a)
#define COSH(a) GM_V (cosh_) (a)
#define TANH(a) GM_V (tanh_) (a)
#define ERF(a) GM_V (erf_) (a)
#define ATAN2(a, b) GM_V (atan2_) (a, b)
#define POW(a, b) GM_V (pow_) (a, b)
#define SQRT(a) GM_V (sqrt_) (a)
#define FLOOR(a) GM_V (floor_) (a)
#define CEIL(a) GM_V (ceil_) (a)
#define ROUND(a) GM_V (round_) (a)
#define TRUNC(a) GM_V (trunc_) (a)
#define MAX(a, b) GM_V (max_) (a, b)
#define MIN(a, b) GM_V (min_) (a, b)
#define ABS(a) GM_V (abs_) (a)
#define SIGN(a) GM_V (sign_) (a)
#define FLOORDIV(a, b) GM_V (floordiv_) (a, b)
#define REM(a, b) GM_V (rem_) (a, b)
