/* SPDX-License-Identifier: Apache-2.0
 * prelude.cuh -- the neutral names of gramme-ops.def for one thread of a GPU.
 *
 * The build turns this file into a string that stands before every generated kernel.  It is C and CUDA C++ at once, and includes
 * nothing: the simulator of the tests compiles the same text for the CPU (GM_SIM; tests/gpu/sim.h).  What not every kernel needs is
 * there if GM_USES_<section> is defined (gpu_prelude.c): compilers take their time for what is not used, too.
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
#define GM_ABS(a) fabsf (a)
#define GM_MULHI(a, b) __umulhi (a, b)
#define GM_BARRIER() __syncthreads ()
#define GM_FROM_u32(v, lane) __shfl_sync (0xffffffffu, v, lane)
#define GM_BRING_NEAR(p) asm volatile ("prefetch.global.L2 [%0];" : : "l"(p))
#define GM_ANEW(word) asm volatile ("" : "+r"(word)) /* the compiler knows nothing of it, and what was made of it is made again */
#define GM_DOWN_u32(v, by) __shfl_down_sync (0xffffffffu, v, by)
#define GM_CLAIM(word, value) (atomicCAS (word, 0ull, value) == 0)
#define GM_BLOCK (blockIdx.x)
#define GM_THREAD (threadIdx.x)
/* Arguments come as one record of addresses and sizes. */
#define GM_KERNEL(name, n_args, n_sizes, ...)                                                      \
  struct name##_args {                                                                             \
    void *p[n_args];                                                                               \
    unsigned long long z[n_sizes];                                                                 \
  };                                                                                               \
  extern "C" __global__ void __launch_bounds__ (__VA_ARGS__) name (const struct name##_args gm_a)
#define GM_ARG(i) (gm_a.p[i])
#define GM_SIZE(n_args, i) (gm_a.z[i])
#endif
/* The first `by` of n registers go behind the others, which come to the front: registers have no index that a loop could count. */
#define GM_GO_ROUND(T, a, n, by)                                                                   \
  do {                                                                                             \
    T first[by];                                                                                   \
    _Pragma ("unroll") for (int k = 0; k < (by); k++) first[k] = a[k];                             \
    _Pragma ("unroll") for (int k = 0; k < (n) - (by); k++) a[k] = a[k + (by)];                    \
    _Pragma ("unroll") for (int k = 0; k < (by); k++) a[(n) - (by) + k] = first[k];                \
  } while (0)
#define GM_INF GM_F32_BITS (0x7f800000u)
#define GM_RESTRICT __restrict__

/* The hardware's estimates of 2^a and 1 / a: 2^-22 and 1 ulp off at most.  Subnormals are zeros, but for the first. */
#ifndef GM_SIM
GM_FN float
GM_EX2_WIDE (float a)
{
  float y;
  asm ("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(a));
  return y;
}
GM_FN float
GM_EX2 (float a)
{
  float y;
  asm ("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(a));
  return y;
}
GM_FN float
GM_RCP (float a)
{
  float y;
  asm ("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(a));
  return y;
}
#endif

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
/* Halves are in words of two.  Such loads are told that nobody writes there: unlike those of other elements the compiler does not see it. */
#ifdef GM_SIM
#define GM_READ(W, to, from) __builtin_memcpy (to, from, sizeof *(to))
#else
#define GM_READ(W, to, from) (*(W *) (to) = __ldg ((const W *) (from)))
#endif
#define GM_HALF_VECTOR(T, n, W)                                                                    \
  typedef struct GM_ALIGN (2 * n) {                                                                \
    gm_u32 p[n / 2];                                                                               \
  } V##n##_##T;                                                                                    \
  GM_FN V##n##_##T read_##n##_##T (const E_##T *from)                                              \
  {                                                                                                \
    V##n##_##T v;                                                                                  \
    GM_READ (W, &v, from);                                                                         \
    return v;                                                                                      \
  }
#define GM_VECTORS_4(T) GM_VECTOR (T, 2) GM_VECTOR (T, 4)
#define GM_VECTORS_2(T) GM_VECTORS_4 (T) GM_VECTOR (T, 8)
#define GM_VECTORS_1(T) GM_VECTORS_2 (T) GM_VECTOR (T, 16)
GM_VECTORS_4 (f32)
#ifdef GM_USES_f64
GM_VECTOR (f64, 2)
#endif
#ifdef GM_USES_b1
GM_VECTORS_1 (b1)
#endif
#ifdef GM_USES_u8
GM_VECTORS_1 (u8)
#endif
#ifdef GM_USES_i8
GM_VECTORS_1 (i8)
#endif
#ifdef GM_USES_i16
GM_VECTORS_2 (i16)
#endif
#ifdef GM_USES_i32
GM_VECTORS_4 (i32)
#endif
#ifdef GM_USES_i64
GM_VECTOR (i64, 2)
#endif
#ifdef GM_USES_f16
GM_HALF_VECTOR (f16, 2, unsigned int) GM_HALF_VECTOR (f16, 4, uint2) GM_HALF_VECTOR (f16, 8, uint4)
#endif
#ifdef GM_USES_bf16
GM_HALF_VECTOR (bf16, 2, unsigned int) GM_HALF_VECTOR (bf16, 4, uint2) GM_HALF_VECTOR (bf16, 8, uint4)
#endif
#ifdef GM_USES_e4m3
GM_VECTORS_1 (e4m3)
#endif
#ifdef GM_USES_e5m2
GM_VECTORS_1 (e5m2)
#endif

/* -- Floats below 32 bits ------------------------------------------------------------------------ */

/* GPUs convert two floats to halves at four times the rate of one; the other one is zero here. */

#ifdef GM_USES_f16
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
#if __CUDA_ARCH__ >= 800
  gm_u32 pair;
  asm ("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(0.0f), "f"(f));
  return (E_f16) pair;
#else
  E_f16 h;
  asm ("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return h;
#endif
}
#endif
GM_FN float rounded_f16 (float v) { return widen_f16 (narrow_f16 (v)); }

/* Two at a time, in a word: the first in its lower half. */
GM_FN float low_f16 (gm_u32 pair) { return widen_f16 ((E_f16) pair); }
GM_FN float high_f16 (gm_u32 pair) { return widen_f16 ((E_f16) (pair >> 16)); }
GM_FN gm_u32
pair_f16 (float low, float high)
{
#if !defined(GM_SIM) && __CUDA_ARCH__ >= 800
  gm_u32 pair;
  asm ("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#else
  return narrow_f16 (low) | (gm_u32) narrow_f16 (high) << 16;
#endif
}
GM_FN gm_u32 joined_f16 (float low, float high) { return pair_f16 (low, high); }
/* A float has more than twice the fraction of a half: what is rounded to one first is rounded as at once (S. Figueroa, 1995). */
#ifdef GM_SIM
#define GM_PAIRED(name, ptx, OP)                                                                   \
  GM_FN gm_u32 pair_##name##_f16 (gm_u32 a, gm_u32 b) { return pair_f16 (low_f16 (a) OP low_f16 (b), high_f16 (a) OP high_f16 (b)); }
#else
#define GM_PAIRED(name, ptx, OP)                                                                   \
  GM_FN gm_u32 pair_##name##_f16 (gm_u32 a, gm_u32 b)                                              \
  {                                                                                                \
    gm_u32 y;                                                                                      \
    asm (ptx ".rn.f16x2 %0, %1, %2;" : "=r"(y) : "r"(a), "r"(b));                                  \
    return y;                                                                                      \
  }
#endif
GM_PAIRED (add, "add", +)
GM_PAIRED (sub, "sub", -)
GM_PAIRED (mul, "mul", *)
GM_FN gm_u32 pair_neg_f16 (gm_u32 a) { return a ^ 0x80008000u; }
GM_FN gm_u32 pair_abs_f16 (gm_u32 a) { return a & 0x7fff7fffu; }
#endif

#ifdef GM_USES_bf16
GM_FN float
widen_bf16 (E_bf16 h)
{
  return GM_F32_BITS ((gm_u32) h << 16);
}
GM_FN float
rounded_bf16 (float f)
{
  gm_u32 bits;
#if !defined(GM_SIM) && __CUDA_ARCH__ >= 800
  asm ("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(f), "f"(0.0f)); /* the upper half of a float is a bf16 */
#else
  bits = GM_BITS_F32 (f);
  bits = f != f ? (bits | 0x400000) & 0xffff0000u : (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
#endif
  return GM_F32_BITS (bits);
}
GM_FN E_bf16 narrow_bf16 (float f) { return (E_bf16) (GM_BITS_F32 (rounded_bf16 (f)) >> 16); }

GM_FN float low_bf16 (gm_u32 pair) { return GM_F32_BITS (pair << 16); }
GM_FN float high_bf16 (gm_u32 pair) { return GM_F32_BITS (pair & 0xffff0000u); }
/* Returns the pair of two floats that bf16 holds exactly. */
GM_FN gm_u32 joined_bf16 (float low, float high) { return GM_BITS_F32 (low) >> 16 | (GM_BITS_F32 (high) & 0xffff0000u); }
GM_FN gm_u32
pair_bf16 (float low, float high)
{
#if !defined(GM_SIM) && __CUDA_ARCH__ >= 800
  gm_u32 pair;
  asm ("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#else
  return joined_bf16 (rounded_bf16 (low), rounded_bf16 (high));
#endif
}
#endif

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
#ifdef GM_USES_e4m3
GM_SMALL_FLOAT (e4m3, 3, 7, 0x7fu, 0x7fc00000u, if (size >= 0x43f00000u) code = 0x7f)
#endif
#ifdef GM_USES_e5m2
GM_SMALL_FLOAT (e5m2, 2, 15, 0x7cu, 0x7f800000u, if (size >= 0x47800000u) code = 0x7c;
                if (size > 0x7f800000u) code = 0x7f)
#endif

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

/* A NaN if there is one.  Of two zeros it may be either. */
GM_FN float
smaller_f32 (float a, float b)
{
#if !defined(GM_SIM) && __CUDA_ARCH__ >= 800
  asm ("min.NaN.f32 %0, %0, %1;" : "+f"(a) : "f"(b));
  return a;
#else
  return b != b || b < a ? b : a;
#endif
}
GM_FN float
larger_f32 (float a, float b)
{
#if !defined(GM_SIM) && __CUDA_ARCH__ >= 800
  asm ("max.NaN.f32 %0, %0, %1;" : "+f"(a) : "f"(b));
  return a;
#else
  return b != b || b > a ? b : a;
#endif
}

#define exp2_f32 exp2f
#define exp2_f64 exp2
#define expm1_f32 expm1f
#define expm1_f64 expm1
#define log_f32 logf
#define log_f64 log
#define log2_f32 log2f
#define log2_f64 log2
#define log10_f32 log10f
#define log10_f64 log10
#define log1p_f32 log1pf
#define log1p_f64 log1p
#define sin_f32 sinf
#define sin_f64 sin
#define cos_f32 cosf
#define cos_f64 cos
#define tan_f32 tanf
#define tan_f64 tan
#define atan_f32 atanf
#define atan_f64 atan
#define sinh_f32 sinhf
#define sinh_f64 sinh
#define cosh_f32 coshf
#define cosh_f64 cosh
#define erf_f32 erff
#define erf_f64 erf
#define pow_f32 powf
#define pow_f64 pow
#define atan2_f32 atan2f
#define atan2_f64 atan2
#define fmod_f32 fmodf
#define fmod_f64 fmod
#define sqrt_f32 sqrtf
#define sqrt_f64 sqrt
#define floor_f32 floorf
#define floor_f64 floor
#define ceil_f32 ceilf
#define ceil_f64 ceil
#define trunc_f32 truncf
#define trunc_f64 trunc
#define round_f32 rintf
#define round_f64 rint
#define exp_f64 exp
#define tanh_f64 tanh

#ifdef GM_USES_exp
/* 1 / a, rounded as a division is, where a and the result are normal: one step of Newton's after the hardware's estimate, which is
 * what the compiler makes of 1.0f / a once it has looked where a lies. */
GM_FN float
reciprocal_f32 (float a)
{
#ifndef GM_SIM
  float y = GM_RCP (a);
  return GM_FMA (y, GM_FMA (-a, y, 1.0f), y);
#else
  return 1.0f / a;
#endif
}

/* a / b, rounded once, where b is normal and the quotient is, or does not matter: the remainder is exact (P. Markstein, 1990). */
GM_FN float
quotient_f32 (float a, float b)
{
#ifndef GM_SIM
  float y = reciprocal_f32 (b), q = a * y;
  return GM_FMA (GM_FMA (-q, b, a), y, q);
#else
  return a / b;
#endif
}

/* a = n log 2 + r, |r| <= 0.35, for |a| < 2^7; returns r.  What is added and taken away again leaves the nearest whole number, as
 * rintf does, and n itself in the lowest bits of the sum: *n is n and a multiple of 512, which power_of_two_f32 does not see. */
GM_FN float
exp_rest_f32 (float a, gm_u32 *n)
{
  float sum = a * 0x1.715476p+0f + 0x1.8p+23f, whole = sum - 0x1.8p+23f;
  *n = GM_BITS_F32 (sum);
  a = GM_FMA (whole, -0x1.62e4p-1f, a); /* log 2 in two parts */
  return GM_FMA (whole, -0x1.7f7d1cp-20f, a);
}
GM_FN float
exp_series_f32 (float r)
{
  float q = GM_FMA (0x1.6b1b2cp-10f, r, 0x1.122972p-7f);
  q = GM_FMA (q, r, 0x1.5556d4p-5f);
  q = GM_FMA (q, r, 0x1.5554aep-3f);
  return GM_FMA (q, r, 0.5f);
}
/* exp (a) is the result times 2^n, for |a| < 2^7. */
GM_FN float
exp_reduced_f32 (float a, gm_u32 *n)
{
  float r = exp_rest_f32 (a, n), q = exp_series_f32 (r);
  return GM_FMA (GM_FMA (q, r, 1.0f), r, 1.0f);
}
GM_FN float power_of_two_f32 (gm_u32 n) { return GM_F32_BITS ((n << 23) + 0x3f800000u); }

GM_FN float
exp_f32 (float a)
{
  gm_u32 n, half;
  a = smaller_f32 (larger_f32 (a, -104.0f), 89.0f); /* the bounds are infinity and 0 already; a NaN stays */
  float y = exp_reduced_f32 (a, &n);
  half = n >> 1; /* in two steps: 2^n may be out of range where the result is not */
  return y * power_of_two_f32 (half) * power_of_two_f32 (n - half);
}

GM_FN float
tanh_f32 (float a)
{
  gm_u32 n;
  float size = smaller_f32 (GM_ABS (a), 10.0f), r = exp_rest_f32 (size + size, &n), scale = power_of_two_f32 (n), m, near;
  m = GM_FMA (GM_FMA (r * r, exp_series_f32 (r), r), scale, scale - 1.0f);
  near = size < 0.55f ? size : 0.0f;
  near -= quotient_f32 (GM_FMA (near, m, near + near - m), m + 2.0f);
  return GM_F32_BITS (GM_BITS_F32 (near) | (GM_BITS_F32 (a) & 0x80000000u));
}

/* The table's 1 / (1 + exp (-a)) where exp (-a) and the quotient are normal; elsewhere it is odd, and the result is not used. */
GM_FN float
quick_sigmoid_f32 (int *odd, float a)
{
  gm_u32 n;
  float y = exp_reduced_f32 (-a, &n);
  *odd |= !(GM_ABS (a) < 87.0f);
  return reciprocal_f32 (GM_FMA (y, power_of_two_f32 (n), 1.0f));
}

#endif

/* -- Softmax of halves: what is a half in the end, after a sum whose order is not the CPU's ----------- */

GM_FN float near_exp_f32 (float a) { return GM_EX2 (a * 0x1.715476p+0f); }

/* -- Softmax of floats: exp where a <= 0, with its bits, but 0 below -87, where it would become subnormal -- */

#ifdef GM_USES_exp
GM_FN float
below_exp_f32 (float a)
{
  gm_u32 n;
  float y = exp_reduced_f32 (a, &n) * power_of_two_f32 (n);
  return a < -87.0f ? 0.0f : y;
}
/* Quotients of exponentials of what is not above 0 and their sum, and its reciprocal: the sum is at least 1, or no number. */
GM_FN float tame_reciprocal_f32 (float a) { return reciprocal_f32 (a); }
GM_FN float tame_div_f32 (float a, float b) { return quotient_f32 (a, b); }
#endif

/* -- Functions of halves ---------------------------------------------------------------------------
 *
 * What the caller rounds to a half at once needs less than f32 has, if operands are halves, too: the hardware's estimates do.  With their
 * errors as the PTX manual bounds them (2^-22 of ex2.approx, 1 ulp of rcp.approx), a rounded result is the one that the long form gives:
 * of tanh and sigmoid for every operand, of exp of bf16 for all but 57, where the error must not be above 2^-25 (a test asks the GPU
 * itself).  Constants that are a little off move results away from the middles of two halves; those of f16 were searched for, and what is
 * near 0 has polynomials; the one of exp (-a) of bf16 is in the middle of those that do.  A quotient of two bf16 is never nearer than 2^-18 to one unless it lies there, and then b is a power of two;
 * one of two f16 not nearer than 2^-24: one more step. */

#ifdef GM_USES_half
GM_FN float half_exp_bf16 (float a) { return GM_EX2_WIDE (GM_FMA (a, 0x1.715476p+0f, 0x1.9p-21f)); }

/* exp (-a); the next two share it, so that both together take one estimate of it. */
GM_FN float half_power_bf16 (float a) { return GM_EX2 (GM_FMA (a, -0x1.715476p+0f, 0x1p-21f)); }

GM_FN float
half_tanh_bf16 (float a)
{
  float near = a * GM_FMA (a * a, -0x1.555556p-2f, 1.0f), u = half_power_bf16 (a);
  float far = GM_FMA (2.0f, GM_RCP (GM_FMA (u, u, 1.0f)), -1.0f);
  return GM_ABS (a) < 0x1p-5f ? near : far;
}

GM_FN float
half_sigmoid_bf16 (float a)
{
  float near = GM_FMA (a, GM_FMA (a * a, -0x1.555556p-6f, 0.25f), 0.5f);
  float far = GM_RCP (GM_FMA (half_power_bf16 (a), 0.25f, 0.25f)) * 0.25f; /* a quarter of the sum: its reciprocal is normal */
  return GM_ABS (a) < 0x1p-5f ? near : far;
}

GM_FN float
half_div_bf16 (float a, float b)
{
  float size = GM_ABS (b), scale = size < 0x1p-100f ? 0x1p64f : size > 0x1p100f ? 0x1p-64f : 1.0f;
  return a * GM_RCP (b * scale) * scale;
}
GM_FN float half_reciprocal_bf16 (float a) { return half_div_bf16 (1.0f, a); }

/* Returns exp (-a) for results in f16, as half_power_bf16 does for bf16. */
GM_FN float half_power_f16 (float a) { return GM_EX2 (GM_FMA (a, -0x1.715476p+0f, 0x1.0c9d06p-22f)); }

/* 1 / (1 + u).  Near 0 results lie in the middle of two f16, and the CPU's last bits decide: there u is as good as the CPU's. */
GM_FN float
half_sigmoid_f16 (float a)
{
  float near = GM_FMA (a, GM_FMA (a, GM_FMA (a, GM_FMA (a, 0x1.54b522p-5f, -0x1.5545p-3f), 0x1.0003eep-1f), -0x1.000002p+0f), 0x1.fffffcp-1f);
  float u = GM_ABS (a) < 0x1.e4p-3f ? near : half_power_f16 (a);
  float d = smaller_f32 (u + 0x1.000002p+0f, 0x1p100f), y = GM_RCP (d); /* infinity times 0 is no number */
  return GM_FMA (y, GM_FMA (-d, y, 1.0f), y);
}

GM_FN float
half_tanh_f16 (float a)
{
  float square = a * a, u = half_power_f16 (a);
  float near = GM_FMA (square, GM_FMA (square, GM_FMA (square, 0x1.13b64ep-6f, -0x1.b407acp-5f), 0x1.112462p-3f), -0x1.55577ep-2f);
  float far = GM_FMA (0x1.000008p+1f, GM_RCP (GM_FMA (u * 0x1.fffffep-1f, u, 0x1.000008p+0f)), -1.0f);
  return GM_ABS (a) < 0.7f ? a * GM_FMA (square, near, 1.0f) : far;
}

GM_FN float
half_div_f16 (float a, float b)
{
  float by = GM_RCP (b), y = a * by, rest = GM_FMA (-b, y, a);
  return GM_ABS (rest) > 0 ? GM_FMA (rest, by, y) : y; /* no number, or exact: infinities and signs of zeros are right already */
}
GM_FN float half_reciprocal_f16 (float a) { return half_div_f16 (1.0f, a); }
#endif

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
#ifdef GM_USES_f64
GM_FLOATS (f64, GM_BITS_F64, 0x8000000000000000ull)
#endif

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

/* a * b + c of a matrix product. */
GM_FN E_f32 mad_f32 (E_f32 a, E_f32 b, E_f32 c) { return GM_FMA (a, b, c); }
#define GM_MAD(T)                                                                                  \
  GM_FN E_##T mad_##T (E_##T a, E_##T b, E_##T c) { return (E_##T) ((A_##T) a * (A_##T) b + (A_##T) c); }

#ifdef GM_USES_i8
GM_INTEGERS (i8, 1)
GM_MAD (i8)
#endif
#ifdef GM_USES_i16
GM_INTEGERS (i16, 1)
GM_MAD (i16)
#endif
#ifdef GM_USES_i32
GM_INTEGERS (i32, 1)
GM_MAD (i32)
#endif
#ifdef GM_USES_i64
GM_INTEGERS (i64, 1)
GM_MAD (i64)
#endif
#ifdef GM_USES_u8
GM_INTEGERS (u8, 0)
GM_MAD (u8)
#endif
#ifdef GM_USES_b1
GM_INTEGERS (b1, 0)
#endif
#ifdef GM_USES_f64
GM_FN E_f64 mad_f64 (E_f64 a, E_f64 b, E_f64 c) { return GM_FMA_F64 (a, b, c); }
#endif

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

/* down: the value of the lane `by` further on; lanes without one get some value.  from: that of a lane.  All 32 lanes call them. */
#define GM_ACROSS(T, TO, FROM)                                                                     \
  GM_FN E_##T down_##T (E_##T v, int by) { return (E_##T) FROM (GM_DOWN_u32 (TO (v), by)); }       \
  GM_FN E_##T from_##T (E_##T v, int lane) { return (E_##T) FROM (GM_FROM_u32 (TO (v), lane)); }
#define GM_WIDE_ACROSS(T, TO, FROM)                                                                \
  GM_FN E_##T down_##T (E_##T v, int by)                                                           \
  {                                                                                                \
    gm_u64 u = TO (v), low = GM_DOWN_u32 ((gm_u32) u, by), high = GM_DOWN_u32 ((gm_u32) (u >> 32), by); \
    return FROM (high << 32 | low);                                                                \
  }                                                                                                \
  GM_FN E_##T from_##T (E_##T v, int lane)                                                         \
  {                                                                                                \
    gm_u64 u = TO (v), low = GM_FROM_u32 ((gm_u32) u, lane), high = GM_FROM_u32 ((gm_u32) (u >> 32), lane); \
    return FROM (high << 32 | low);                                                                \
  }
GM_ACROSS (f32, GM_BITS_F32, GM_F32_BITS)
#ifdef GM_USES_i8
GM_ACROSS (i8, (gm_u32), )
#endif
#ifdef GM_USES_i16
GM_ACROSS (i16, (gm_u32), )
#endif
#ifdef GM_USES_i32
GM_ACROSS (i32, (gm_u32), )
#endif
#ifdef GM_USES_u8
GM_ACROSS (u8, (gm_u32), )
#endif
#ifdef GM_USES_b1
GM_ACROSS (b1, (gm_u32), )
#endif
#ifdef GM_USES_f64
GM_WIDE_ACROSS (f64, GM_BITS_F64, GM_F64_BITS)
#endif
#ifdef GM_USES_i64
GM_WIDE_ACROSS (i64, (gm_u64), (E_i64))
#endif

/* -- Copies into shared memory that the thread does not wait for ------------------------------------ */

#ifdef GM_USES_copies
/* copy_<n>: n bytes, or zeros if it is not there to be read.  They are there after GM_COPIES_WAIT (how many groups may still be on their
 * way) and a barrier; GM_COPIES_END ends a group.  Before compute capability 8.0 the thread does wait. */
#if !defined(GM_SIM) && __CUDA_ARCH__ >= 800
#define GM_COPY(n, CACHE)                                                                          \
  GM_FN void copy_##n (void *to, const void *from, int there)                                      \
  {                                                                                                \
    asm volatile ("cp.async." CACHE ".shared.global [%0], [%1], " #n ", %2;"                       \
                  :                                                                                \
                  : "r"((gm_u32) __cvta_generic_to_shared (to)), "l"(from), "r"(there ? n : 0));   \
  }
GM_COPY (4, "ca")
GM_COPY (16, "cg")
#define GM_COPIES_END() asm volatile ("cp.async.commit_group;" : :)
#define GM_COPIES_WAIT(on_their_way) asm volatile ("cp.async.wait_group " #on_their_way ";" : : : "memory")
#else
#define GM_COPY(n)                                                                                 \
  GM_FN void copy_##n (void *to, const void *from, int there)                                      \
  {                                                                                                \
    for (int i = 0; i < n / 4; i++)                                                                \
      ((gm_u32 *) to)[i] = there ? ((const gm_u32 *) from)[i] : 0;                                 \
  }
GM_COPY (4)
GM_COPY (16)
#define GM_COPIES_END()
#define GM_COPIES_WAIT(on_their_way)
#endif
#endif

/* -- Random numbers: Philox4x32-10 (Salmon and others, SC 2011) ----------------------------------- */

#ifdef GM_USES_random
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
#ifdef GM_USES_f64
GM_FN double
uniform_f64 (gm_u64 key, gm_u64 draw, int lane)
{
  gm_u32 w[4];
  philox (key, draw, (gm_u64) (lane / 2), w);
  gm_u64 x = lane % 2 ? (gm_u64) w[3] << 32 | w[2] : (gm_u64) w[1] << 32 | w[0];
  return (double) (long long) (x >> 11) * 0x1p-53;
}
#endif
#define GM_NORMAL(T)                                                                               \
  GM_FN E_##T normal_##T (gm_u64 key, gm_u64 draw, int lane)                                       \
  {                                                                                                \
    E_##T u = 1 - uniform_##T (key, draw, lane & ~1), v = uniform_##T (key, draw, lane | 1);       \
    E_##T r = sqrt_##T (-2 * log_##T (u)), phi = (E_##T) 6.283185307179586 * v;                    \
    return r * (lane & 1 ? sin_##T (phi) : cos_##T (phi));                                         \
  }
GM_NORMAL (f32)
#ifdef GM_USES_f64
GM_NORMAL (f64)
#endif
#endif

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
