/* SPDX-License-Identifier: Apache-2.0
 * sim.h -- turns generated CUDA text into C for the CPU.
 *
 * fake_cuda.c compiles the text of plugins/nvrtc with this file before it, unchanged, and runs the
 * kernels: blocks one after the other, the threads of a block as coroutines that change at barriers
 * and shuffles.  Elementary functions are SLEEF's scalar ones, whose bits are those of the tiles;
 * so a kernel without sums of floats must give eager's bits.
 */
#define GM_SIM 1
#define GM_FN static inline __attribute__ ((always_inline, unused))
#define GM_ALIGN(n) __attribute__ ((aligned (n)))
/* Memory of a block: a single copy, which the runtime overwrites before each block. */
#define GM_SHARED static __attribute__ ((section ("gmshared")))

struct gm_sim {
  unsigned block, thread;
  int ex2_error, rcp_error;
  unsigned (*down) (unsigned value, int by);
  unsigned (*from) (unsigned value, unsigned lane);
  void (*barrier) (void);
};
struct gm_sim *gm_sim;
extern char __start_gmshared[] __attribute__ ((weak, visibility ("hidden"))),
    __stop_gmshared[] __attribute__ ((weak, visibility ("hidden")));
char *
gm_shared (unsigned long *bytes)
{
  *bytes = (unsigned long) (__stop_gmshared - __start_gmshared);
  return __start_gmshared;
}

#define GM_BLOCK (gm_sim->block)
#define GM_THREAD (gm_sim->thread)
#define GM_BARRIER() gm_sim->barrier ()
#define GM_BRING_NEAR(p) ((void) (p))
#define GM_ANEW(word) ((void) (word))
#define GM_DOWN_u32(v, by) gm_sim->down (v, by)
#define GM_FROM_u32(v, lane) gm_sim->from (v, (unsigned) (lane))
#define GM_CLAIM(word, value) (*(word) == 0 ? (*(word) = (value), 1) : 0)
#define GM_ABS(a) __builtin_fabsf (a)
#define GM_MULHI(a, b) ((unsigned) ((unsigned long long) (a) * (b) >> 32))
#define GM_FMA(a, b, c) __builtin_fmaf (a, b, c)
#define GM_FMA_F64(a, b, c) __builtin_fma (a, b, c)
#define GM_KERNEL(name, n_args, n_sizes, ...)                                                      \
  const unsigned name##_n_args = (n_args), name##_n_sizes = (n_sizes);                             \
  void name (void *const *gm_p)
#define GM_ARG(i) (gm_p[i])
#define GM_SIZE(n_args, i) ((unsigned long long) gm_p[(n_args) + (i)])

#define GM_PUN(name, From, To)                                                                     \
  GM_FN To name (From x)                                                                           \
  {                                                                                                \
    To y;                                                                                          \
    __builtin_memcpy (&y, &x, sizeof y);                                                           \
    return y;                                                                                      \
  }
GM_PUN (GM_BITS_F32, float, unsigned)
GM_PUN (GM_F32_BITS, unsigned, float)
GM_PUN (GM_BITS_F64, double, unsigned long long)
GM_PUN (GM_F64_BITS, unsigned long long, double)

typedef float gm_4floats __attribute__ ((vector_size (16)));
typedef short gm_8halves __attribute__ ((vector_size (16)));
GM_FN float
widen_f16 (unsigned short h)
{
  return __builtin_ia32_vcvtph2ps ((gm_8halves){ (short) h })[0];
}
GM_FN unsigned short
narrow_f16 (float f)
{
  return (unsigned short) __builtin_ia32_vcvtps2ph ((gm_4floats){ f }, 0)[0];
}

/* -- Elementary functions ---------------------------------------------------------------------- */

#define GM_SLEEF1(name)                                                                            \
  float Sleef_finz_##name##f1_u10purecfma (float);                                                 \
  double Sleef_finz_##name##d1_u10purecfma (double);
#define GM_SLEEF2(name)                                                                            \
  float Sleef_finz_##name##f1_u10purecfma (float, float);                                          \
  double Sleef_finz_##name##d1_u10purecfma (double, double);
/* clang-format off */
GM_SLEEF1 (exp2) GM_SLEEF1 (expm1) GM_SLEEF1 (log) GM_SLEEF1 (log2) GM_SLEEF1 (log10)
GM_SLEEF1 (log1p) GM_SLEEF1 (sin) GM_SLEEF1 (cos) GM_SLEEF1 (tan) GM_SLEEF1 (atan)
GM_SLEEF1 (sinh) GM_SLEEF1 (cosh)
GM_SLEEF1 (erf) GM_SLEEF1 (exp) GM_SLEEF1 (tanh) GM_SLEEF2 (pow) GM_SLEEF2 (atan2)
    /* clang-format on */
    float fmodf (float, float);
double fmod (double, double);
GM_FN float
gm_log1pf (float a)
{
  return a > 0x1p100f ? Sleef_finz_logf1_u10purecfma (a) : Sleef_finz_log1pf1_u10purecfma (a);
}
GM_FN double
gm_log1p (double a)
{
  return a > 0x1p1000 ? Sleef_finz_logd1_u10purecfma (a) : Sleef_finz_log1pd1_u10purecfma (a);
}
#define exp2f(a) Sleef_finz_exp2f1_u10purecfma (a)
#define exp2(a) Sleef_finz_exp2d1_u10purecfma (a)
#define expm1f(a) Sleef_finz_expm1f1_u10purecfma (a)
#define expm1(a) Sleef_finz_expm1d1_u10purecfma (a)
#define logf(a) Sleef_finz_logf1_u10purecfma (a)
#define log(a) Sleef_finz_logd1_u10purecfma (a)
#define log2f(a) Sleef_finz_log2f1_u10purecfma (a)
#define log2(a) Sleef_finz_log2d1_u10purecfma (a)
#define log10f(a) Sleef_finz_log10f1_u10purecfma (a)
#define log10(a) Sleef_finz_log10d1_u10purecfma (a)
#define log1pf(a) gm_log1pf (a)
#define log1p(a) gm_log1p (a)
#define sinf(a) Sleef_finz_sinf1_u10purecfma (a)
#define sin(a) Sleef_finz_sind1_u10purecfma (a)
#define cosf(a) Sleef_finz_cosf1_u10purecfma (a)
#define cos(a) Sleef_finz_cosd1_u10purecfma (a)
#define tanf(a) Sleef_finz_tanf1_u10purecfma (a)
#define tan(a) Sleef_finz_tand1_u10purecfma (a)
#define atanf(a) Sleef_finz_atanf1_u10purecfma (a)
#define atan(a) Sleef_finz_atand1_u10purecfma (a)
#define sinhf(a) Sleef_finz_sinhf1_u10purecfma (a)
#define sinh(a) Sleef_finz_sinhd1_u10purecfma (a)
#define coshf(a) Sleef_finz_coshf1_u10purecfma (a)
#define cosh(a) Sleef_finz_coshd1_u10purecfma (a)
#define erff(a) Sleef_finz_erff1_u10purecfma (a)
#define erf(a) Sleef_finz_erfd1_u10purecfma (a)
#define exp(a) Sleef_finz_expd1_u10purecfma (a)
#define tanh(a) Sleef_finz_tanhd1_u10purecfma (a)
#define powf(a, b) Sleef_finz_powf1_u10purecfma (a, b)
#define pow(a, b) Sleef_finz_powd1_u10purecfma (a, b)
#define atan2f(a, b) Sleef_finz_atan2f1_u10purecfma (a, b)
#define atan2(a, b) Sleef_finz_atan2d1_u10purecfma (a, b)
/* The hardware's estimates, with the part of the errors allowed by the PTX manual that the test
 * sets: 2^-22 and one ulp. */
GM_FN float
gm_without_subnormals (float a)
{
  return __builtin_fabsf (a) < 0x1p-126f ? __builtin_copysignf (0.0f, a) : a;
}
GM_FN float
GM_EX2_WIDE (float a)
{
  return (float) (Sleef_finz_exp2d1_u10purecfma (a) * (1 + gm_sim->ex2_error * 0x1p-22));
}
GM_FN float
GM_EX2 (float a)
{
  return gm_without_subnormals (GM_EX2_WIDE (gm_without_subnormals (a)));
}
GM_FN float
GM_RCP (float a)
{
  float y = 1.0f / gm_without_subnormals (a);
  int is_usual = y - y == 0 && y != 0;
  return gm_without_subnormals (
      is_usual ? GM_F32_BITS (GM_BITS_F32 (y) + (unsigned) gm_sim->rcp_error) : y);
}
#define sqrtf(a) __builtin_sqrtf (a)
#define sqrt(a) __builtin_sqrt (a)
#define floorf(a) __builtin_floorf (a)
#define floor(a) __builtin_floor (a)
#define ceilf(a) __builtin_ceilf (a)
#define ceil(a) __builtin_ceil (a)
#define truncf(a) __builtin_truncf (a)
#define trunc(a) __builtin_trunc (a)
#define rintf(a) __builtin_rintf (a)
#define rint(a) __builtin_rint (a)
