/* SPDX-License-Identifier: Apache-2.0
 * test_tiles.c -- the tile primitives against scalar models, and AVX2 against AVX-512, bit by bit.
 *
 * Every row of gramme-ops.def and every live dtype is visited through the tables, so a new row is
 * tested without a line here; a row with a value also needs its model in `models` below, and a test
 * says so.
 */
#include <check.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/tensor/dtype.h"
#include "core/tiles/tiles.h"

#define MOST 600

typedef struct {
  int code;
  const char *name, *types;
  int arity;
} Row;
static const Row rows[] = {
#define POINTWISE(code, version, name, n, types, ...) { code, #name, #types, n },
#include "plugin-api/gramme-ops.def"
};
static const Row reductions[] = {
#define REDUCE(code, version, name, types, ...) { code, #name, #types, 1 },
#include "plugin-api/gramme-ops.def"
};
static const Row arg_reductions[] = {
#define ARGREDUCE(code, version, name, ...) { code, #name, "COMPARE", 1 },
#include "plugin-api/gramme-ops.def"
};
static const int live[] = {
#define DTYPE(code, ...) code,
#include "core/tensor/dtypes.def"
};

static const GmTiles *tables[2]; /* avx2, avx512 or NULL */

static int
op_code (const char *name)
{
  for (size_t i = 0; i < G_N_ELEMENTS (rows); i++)
    if (!strcmp (rows[i].name, name))
      return rows[i].code;
  for (size_t i = 0; i < G_N_ELEMENTS (reductions); i++)
    if (!strcmp (reductions[i].name, name))
      return reductions[i].code;
  ck_abort_msg ("no row %s", name);
}

/* -- Data -------------------------------------------------------------------------------------- */

static uint64_t seed = 88172645463325252ull;

static uint64_t
random_bits (void)
{
  seed ^= seed << 13;
  seed ^= seed >> 7;
  return seed ^= seed << 17;
}

static double
random_unit (void)
{
  return (double) (random_bits () >> 11) * 0x1p-53;
}

static const double special_floats[] = {
  0.0,     -0.0, 1.0,      -1.0,      0.5,          -0.5,          1.5,          2.5,     -2.5,
  3.0,     -3.0, 1e-40,    -1e-40,    FLT_MIN,      FLT_MAX,       -FLT_MAX,     DBL_MAX, 4e-324,
  DBL_MIN, NAN,  INFINITY, -INFINITY, 88.7,         -103.9,        709.7,        1e5,     -1e5,
  1e10,    1e18, -1e18,    1e300,     2147483647.0, -2147483648.0, 2147483648.0, 9.3e18,  -9.3e18,
  255,     256,  -1.9,     300.7,     0.9999999,    1e-10,
};
static const int64_t special_ints[] = {
  0,   1,   -1,  2,   -2,  3,       -3,        7,         -7,        10,        63, 64,
  100, 127, 128, 255, 256, 1000003, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, 5,  -5,
};

/* Fills n elements; `mild` keeps floats in a range where all functions have ordinary results. */
static void
fill (void *out, int dtype, size_t n, bool mild)
{
  for (size_t i = 0; i < n; i++) {
    void *p = (char *) out + i * gm_dtype_size (dtype);
    uint64_t r = random_bits ();
    if (dtype == GM_BOOL)
      *(uint8_t *) p = r >> 20 & 1;
    else if (gm_dtype_is_float (dtype)) {
      double x = random_unit () * 20 - 10;
      if (!mild)
        x = r % 3 == 0   ? special_floats[r / 3 % G_N_ELEMENTS (special_floats)]
            : r % 3 == 1 ? ldexp (x, (int) (r / 3 % 300) - 150)
                         : x;
      gm_scalar_store (gm_scalar_float (x), dtype, p);
    } else {
      int64_t x = r % 3 == 0 && !mild ? special_ints[r / 3 % G_N_ELEMENTS (special_ints)]
                                      : (int64_t) (r >> 40) % 1000 - 500;
      if (r % 7 == 1 && !mild)
        x = (int64_t) random_bits ();
      gm_scalar_store (gm_scalar_int (x), dtype, p);
    }
  }
}

/* Equal bits, or both NaN (which payload survives is not specified). */
static bool
same (int dtype, const void *a, const void *b)
{
  if (!memcmp (a, b, gm_dtype_size (dtype)))
    return true;
  if (!gm_dtype_is_float (dtype))
    return false;
  return isnan (gm_scalar_load (dtype, a).d) && isnan (gm_scalar_load (dtype, b).d);
}

static void
check_same (int dtype, const void *a, const void *b, size_t n, const char *what, const char *name)
{
  for (size_t i = 0; i < n; i++) {
    const void *x = (const char *) a + i * gm_dtype_size (dtype),
               *y = (const char *) b + i * gm_dtype_size (dtype);
    if (!same (dtype, x, y))
      ck_abort_msg ("%s: %s, %s, n = %zu: element %zu differs: %.17g and %.17g", what, name,
                    gm_dtypes[dtype].text, n, i, gm_scalar_as_double (gm_scalar_load (dtype, x)),
                    gm_scalar_as_double (gm_scalar_load (dtype, y)));
  }
}

static bool
is (const Row *r, const char *types)
{
  return !strcmp (r->types, types);
}

static int
result_dtype (const Row *r, int dtype)
{
  return is (r, "COMPARE") || is (r, "LOGICAL") ? GM_BOOL : dtype;
}

static size_t
length_at (int i) /* 0 .. 70, 511 .. 513 */
{
  return i <= 70 ? (size_t) i : (size_t) i + 511 - 71;
}
#define N_LENGTHS 74

/* -- What exists ------------------------------------------------------------------------------- */

START_TEST (every_row_exists_for_the_dtypes_of_its_class)
{
  for (int t = 0; t < 2; t++) {
    if (!tables[t])
      continue;
    for (size_t i = 0; i < G_N_ELEMENTS (rows); i++)
      for (size_t d = 0; d < G_N_ELEMENTS (live); d++) {
        const Row *r = &rows[i];
        GmCategory c = gm_dtypes[live[d]].category;
        bool all_bool = !strcmp (r->name, "copy") || !strcmp (r->name, "maximum")
                        || !strcmp (r->name, "minimum");
        bool moves = is (r, "SELECT") || !strcmp (r->name, "copy");
        bool expected = !gm_dtype_computes (live[d]) ? moves
                        : is (r, "FLOAT")            ? c == GM_CATEGORY_FLOAT
                        : is (r, "LOGICAL")          ? c == GM_CATEGORY_BOOL
                        : is (r, "BITWISE")          ? c != GM_CATEGORY_FLOAT
                        : is (r, "ARITH")            ? c != GM_CATEGORY_BOOL || all_bool
                                                     : true;
        ck_assert_msg (!!tables[t]->pointwise (r->code, live[d]) == expected, "%s %s", r->name,
                       gm_dtypes[live[d]].text);
      }
    for (size_t from = 0; from < G_N_ELEMENTS (live); from++)
      for (size_t to = 0; to < G_N_ELEMENTS (live); to++)
        ck_assert_ptr_nonnull (tables[t]->cast (live[from], live[to]));
    ck_assert_ptr_null (tables[t]->pointwise (-1, GM_F32));
    ck_assert_ptr_null (tables[t]->pointwise (128, GM_F32));
    ck_assert_ptr_null (tables[t]->pointwise (1, GM_N_DTYPES));
    ck_assert_ptr_null (tables[t]->cast (GM_F32, GM_N_DTYPES));
  }
}
END_TEST

START_TEST (the_environment_may_name_the_instruction_set)
{
  const char *why = NULL;
  setenv ("GRAMME_ISA", "sse2", 1);
  ck_assert_ptr_null (gm_tiles_get (&why));
  ck_assert_ptr_nonnull (strstr (why, "GRAMME_ISA"));
  setenv ("GRAMME_ISA", "avx2", 1);
  ck_assert_str_eq (gm_tiles_get (&why)->isa, "avx2");
  ck_assert_ptr_null (gm_tiles_for ("sse2"));
}
END_TEST

/* -- One instruction set against the other ----------------------------------------------------- */

START_TEST (pointwise_rows_give_the_same_bits_on_both_instruction_sets)
{
  if (!tables[0] || !tables[1]) {
    fprintf (stderr, "SKIPPED: this processor has one instruction set only\n");
    return;
  }
  static char in[3][MOST * 8 + 64], out[2][MOST * 8 + 64];
  for (size_t i = 0; i < G_N_ELEMENTS (rows); i++)
    for (size_t d = 0; d < G_N_ELEMENTS (live); d++) {
      const Row *r = &rows[i];
      int dtype = live[d], result = result_dtype (r, dtype);
      GmTilePointwise f[2] = { tables[0]->pointwise (r->code, dtype),
                               tables[1]->pointwise (r->code, dtype) };
      if (!f[0])
        continue;
      for (int l = 0; l < N_LENGTHS; l++) {
        size_t n = length_at (l), shift = (size_t) l % 7; /* bytes: nothing is aligned */
        void *a = in[0] + shift, *b = in[1] + shift + 1, *c = in[2] + shift + 2;
        fill (a, is (r, "SELECT") ? GM_BOOL : dtype, n, false);
        fill (b, dtype, n, false);
        fill (c, dtype, n, false);
        for (int t = 0; t < 2; t++) {
          memset (out[t], 0x5a, sizeof out[t]);
          f[t](out[t] + shift, a, r->arity > 1 ? b : NULL, r->arity > 2 ? c : NULL, n);
          /* No byte outside is written. */
          char *end = out[t] + shift + n * gm_dtype_size (result);
          for (size_t k = 0; k < shift; k++)
            ck_assert_msg (out[t][k] == 0x5a, "%s writes before its output", r->name);
          for (int k = 0; k < 32; k++)
            ck_assert_msg (end[k] == 0x5a, "%s %s writes past its output, n = %zu", r->name,
                           gm_dtypes[dtype].text, n);
        }
        check_same (result, out[0] + shift, out[1] + shift, n, "avx2 and avx512", r->name);
      }
    }
}
END_TEST

/* Also with the result in an operand's place, as for tiles that are reused. */
START_TEST (pairs_give_the_bits_of_their_two_rows)
{
  static char in[3][MOST * 4 + 64], want[MOST * 4 + 64], out[MOST * 4 + 64];
  int pairs = 0;
  for (int t = 0; t < 2; t++)
    for (size_t i = 0; tables[t] && i < G_N_ELEMENTS (rows); i++)
      for (size_t j = 0; j < G_N_ELEMENTS (rows); j++)
        for (int behind = 0; behind < 2; behind++) {
          const Row *f = &rows[i], *g = &rows[j];
          GmTilePointwise pair = tables[t]->pair (f->code, g->code, behind),
                          one = tables[t]->pointwise (f->code, GM_F32),
                          other = tables[t]->pointwise (g->code, GM_F32);
          if (!pair)
            continue;
          pairs++;
          ck_assert (one && other && f->arity <= 2 && g->arity <= 2 && (g->arity == 2 || !behind));
          for (int l = 0; l < N_LENGTHS; l++) {
            size_t n = length_at (l), bytes = n * 4;
            for (int k = 0; k < 3; k++)
              fill (in[k], GM_F32, n, false);
            one (want, in[0], f->arity > 1 ? in[1] : NULL, NULL, n);
            other (want, behind ? in[2] : want,
                   g->arity < 2 ? NULL
                   : behind     ? want
                                : in[2],
                   NULL, n);
            for (int place = 0; place < 4; place++) {
              const void *x[3] = { in[0], in[1], in[2] };
              memset (out, 0x5a, sizeof out);
              if (place < 3) {
                memcpy (out, in[place], bytes);
                x[place] = out;
              }
              pair (out, x[0], f->arity > 1 ? x[1] : NULL, g->arity > 1 ? x[2] : NULL, n);
              check_same (GM_F32, out, want, n, f->name, g->name);
              for (size_t k = bytes; k < bytes + 64; k++)
                ck_assert_msg (out[k] == 0x5a, "%s %s writes past its output, n = %zu", f->name,
                               g->name, n);
            }
          }
        }
  ck_assert_int_ge (pairs, 100);
}
END_TEST

START_TEST (an_element_does_not_depend_on_its_place_or_neighbours)
{
  static char a[MOST * 8], b[MOST * 8], c[MOST * 8], whole[MOST * 8], one[8], x[8], y[8], z[8];
  for (int t = 0; t < 2; t++)
    for (size_t i = 0; tables[t] && i < G_N_ELEMENTS (rows); i++)
      for (size_t d = 0; d < G_N_ELEMENTS (live); d++) {
        const Row *r = &rows[i];
        int dtype = live[d], result = result_dtype (r, dtype),
            first = is (r, "SELECT") ? GM_BOOL : dtype;
        GmTilePointwise f = tables[t]->pointwise (r->code, dtype);
        if (!f)
          continue;
        fill (a, first, 257, false);
        fill (b, dtype, 257, false);
        fill (c, dtype, 257, false);
        f (whole, a, b, c, 257);
        size_t s = gm_dtype_size (dtype), sa = gm_dtype_size (first), so = gm_dtype_size (result);
        for (size_t k = 0; k < 257; k++) {
          memcpy (x, a + k * sa, sa);
          memcpy (y, b + k * s, s);
          memcpy (z, c + k * s, s);
          f (one, x, y, z, 1);
          check_same (result, whole + k * so, one, 1, tables[t]->isa, r->name);
        }
        if (sa == so) { /* in place */
          f (a, a, b, c, 257);
          check_same (result, whole, a, 257, "in place", r->name);
        }
      }
}
END_TEST

/* -- Values ------------------------------------------------------------------------------------ */

static long double
m_add (long double a, long double b)
{
  return a + b;
}
static long double
m_sub (long double a, long double b)
{
  return a - b;
}
static long double
m_mul (long double a, long double b)
{
  return a * b;
}
static long double
m_div (long double a, long double b)
{
  return a / b;
}
static long double
m_neg (long double a, long double b)
{
  (void) b;
  return -a;
}
static long double
m_sign (long double a, long double b)
{
  (void) b;
  return (a > 0) - (a < 0);
}
static long double
m_sigmoid (long double a, long double b)
{
  (void) b;
  return 1 / (1 + expl (-a));
}
static long double
m_rsqrt (long double a, long double b)
{
  (void) b;
  return 1 / sqrtl (a);
}
static long double
m_reciprocal (long double a, long double b)
{
  (void) b;
  return 1 / a;
}
static long double
m_square (long double a, long double b)
{
  (void) b;
  return a * a;
}
static long double
m_maximum (long double a, long double b)
{
  return isnan (a) || isnan (b) ? NAN : fmaxl (a, b);
}
static long double
m_minimum (long double a, long double b)
{
  return isnan (a) || isnan (b) ? NAN : fminl (a, b);
}
static long double
m_clamp_min (long double a, long double b)
{
  return m_maximum (a, b);
}
static long double
m_clamp_max (long double a, long double b)
{
  return m_minimum (a, b);
}
static long double
m_relu (long double a, long double b)
{
  (void) b;
  return isnan (a) ? NAN : fmaxl (a, 0);
}
static long double
m_copy (long double a, long double b)
{
  (void) b;
  return a;
}
static long double
m_remainder (long double a, long double b)
{
  long double m = fmodl (a, b);
  return m != 0 && (m < 0) != (b < 0) ? m + b : m;
}
static long double
m_floor_divide (long double a, long double b)
{
  if (b == 0)
    return a / b;
  long double m = fmodl (a, b);
  return m != 0 && (m < 0) != (b < 0) ? roundl ((a - m) / b) - 1 : roundl ((a - m) / b);
}
#define LIBM1(f)                                                                                   \
  static long double m_##f (long double a, long double b)                                          \
  {                                                                                                \
    (void) b;                                                                                      \
    return f##l (a);                                                                               \
  }
/* clang-format off */
LIBM1 (exp) LIBM1 (exp2) LIBM1 (expm1) LIBM1 (log) LIBM1 (log2) LIBM1 (log10) LIBM1 (log1p)
LIBM1 (sin) LIBM1 (cos) LIBM1 (tan) LIBM1 (atan) LIBM1 (sinh) LIBM1 (cosh) LIBM1 (tanh)
LIBM1 (erf) LIBM1 (sqrt) LIBM1 (floor) LIBM1 (ceil) LIBM1 (trunc)
    /* clang-format on */
    static long double m_abs (long double a, long double b)
{
  (void) b;
  return fabsl (a);
}
static long double
m_round (long double a, long double b)
{
  (void) b;
  return nearbyintl (a);
}
static long double
m_atan2 (long double a, long double b)
{
  return atan2l (a, b);
}
static long double
m_pow (long double a, long double b)
{
  return powl (a, b);
}

/* The largest error allowed, in units of the last place of the result's type. */
static const struct {
  const char *name;
  long double (*f) (long double, long double);
  double ulps;
} models[] = {
#define MODEL(name, ulps) { #name, m_##name, ulps },
  MODEL (add, 0.5) MODEL (sub, 0.5) MODEL (mul, 0.5) MODEL (div, 0.5) MODEL (neg, 0) MODEL (abs, 0)
      MODEL (sign, 0) MODEL (exp, 1) MODEL (log, 1) MODEL (log1p, 1) MODEL (expm1, 1)
          MODEL (sqrt, 0.5) MODEL (rsqrt, 1.5) MODEL (sin, 1) MODEL (cos, 1) MODEL (tan, 1)
              MODEL (tanh, 1.7) MODEL (sigmoid, 3) MODEL (erf, 1.2) MODEL (pow, 1)
                  MODEL (reciprocal, 0.5) MODEL (square, 0.5) MODEL (maximum, 0) MODEL (minimum, 0)
                      MODEL (clamp_min, 0) MODEL (clamp_max, 0) MODEL (relu, 0) MODEL (floor, 0)
                          MODEL (ceil, 0) MODEL (round, 0) MODEL (trunc, 0)
                              MODEL (floor_divide, 0.5) MODEL (remainder, 0.5) MODEL (copy, 0)
                                  MODEL (atan, 1) MODEL (sinh, 1) MODEL (cosh, 1) MODEL (log2, 1)
                                      MODEL (log10, 1) MODEL (exp2, 1) MODEL (atan2, 1)
};

/* Distance in units of the spacing of `dtype` at `want`. */
static double
error_ulps (int dtype, double got, long double want)
{
  if (isnan (want) || isnan (got))
    return isnan (want) && isnan (got) ? 0 : INFINITY;
  long double rounded = dtype == GM_F32 ? (float) want : (double) want;
  if (isinf (rounded) || isinf (got))
    return rounded == got ? 0 : INFINITY;
  int digits = dtype == GM_F32 ? FLT_MANT_DIG : DBL_MANT_DIG,
      lowest = dtype == GM_F32 ? FLT_MIN_EXP : DBL_MIN_EXP, e;
  frexpl (want, &e);
  return (double) fabsl (((long double) got - want) / ldexpl (1, MAX (e, lowest) - digits));
}

static void
check_values (const GmTiles *tiles, int dtype, bool mild)
{
  static char a[MOST * 8], b[MOST * 8], out[MOST * 8];
  for (size_t m = 0; m < G_N_ELEMENTS (models); m++) {
    double worst = 0;
    for (int round = 0; round < 20; round++) {
      fill (a, dtype, MOST, mild);
      fill (b, dtype, MOST, mild);
      tiles->pointwise (op_code (models[m].name), dtype) (out, a, b, NULL, MOST);
      for (size_t i = 0; i < MOST; i++) {
        size_t s = gm_dtype_size (dtype);
        double x = gm_scalar_load (dtype, a + i * s).d, y = gm_scalar_load (dtype, b + i * s).d;
        double got = gm_scalar_load (dtype, out + i * s).d;
        /* Quotients that no type holds exactly are rounded to a neighbour, as in Python. */
        if (!strcmp (models[m].name, "floor_divide") && fabs (x / y) > 1e6)
          continue;
        long double want = models[m].f (x, y);
        /* Exceptions: SLEEF's pow overflows a little early, and 1 + exp (-x) overflows before the
         * quotient is 0. */
        long double most = dtype == GM_F32 ? FLT_MAX : DBL_MAX,
                    least = dtype == GM_F32 ? FLT_MIN : DBL_MIN;
        if (!strcmp (models[m].name, "pow") && fabsl (want) > most * 0.9999L && isinf (got))
          continue;
        if (!strcmp (models[m].name, "sigmoid") && want < least && got == 0)
          continue;
        double error = error_ulps (dtype, got, want);
        worst = fmax (worst, error);
        ck_assert_msg (error <= models[m].ulps + 0.001,
                       "%s %s %s (%.17g, %.17g) = %.17g, want %.17Lg: %g ulp", tiles->isa,
                       gm_dtypes[dtype].text, models[m].name, x, y, got, want, error);
      }
    }
  }
}

START_TEST (values_are_within_their_ulps_of_libm)
{
  for (int t = 0; t < 2; t++)
    for (int mild = 0; mild < 2 && tables[t]; mild++) {
      check_values (tables[t], GM_F32, mild);
      check_values (tables[t], GM_F64, mild);
    }
}
END_TEST

static bool
has_model (const char *name)
{
  for (size_t m = 0; m < G_N_ELEMENTS (models); m++)
    if (!strcmp (name, models[m].name))
      return true;
  return false;
}

/* A row without a model: its f64 form is the model of its f32 form. */
START_TEST (rows_without_a_model_agree_between_f32_and_f64)
{
  for (size_t i = 0; i < G_N_ELEMENTS (rows); i++) {
    if ((!is (&rows[i], "FLOAT") && !is (&rows[i], "ARITH")) || has_model (rows[i].name))
      continue;
    float a[MOST], b[MOST], got[MOST];
    double wide_a[MOST], wide_b[MOST], want[MOST];
    fill ((char *) a, GM_F32, MOST, true);
    fill ((char *) b, GM_F32, MOST, true);
    for (size_t k = 0; k < MOST; k++) {
      wide_a[k] = a[k];
      wide_b[k] = b[k];
    }
    tables[0]->pointwise (op_code (rows[i].name), GM_F32) (got, a, b, NULL, MOST);
    tables[0]->pointwise (op_code (rows[i].name), GM_F64) (want, wide_a, wide_b, NULL, MOST);
    for (size_t k = 0; k < MOST; k++)
      ck_assert_msg (error_ulps (GM_F32, got[k], want[k]) <= 32,
                     "%s (%.9g, %.9g) = %.9g in f32, %.17g in f64", rows[i].name, a[k], b[k],
                     got[k], want[k]);
  }
}
END_TEST

static void
run_i32 (const char *name, int32_t a, int32_t b, int32_t want)
{
  for (int t = 0; t < 2; t++) {
    int32_t got;
    if (tables[t]) {
      tables[t]->pointwise (op_code (name), GM_I32) (&got, &a, &b, NULL, 1);
      ck_assert_msg (got == want, "%s (%d, %d) = %d, want %d", name, a, b, got, want);
    }
  }
}

START_TEST (integer_rows_follow_python_and_never_trap)
{
  run_i32 ("floor_divide", 7, 2, 3);
  run_i32 ("floor_divide", -7, 2, -4);
  run_i32 ("floor_divide", 7, -2, -4);
  run_i32 ("floor_divide", -7, -2, 3);
  run_i32 ("floor_divide", 7, 0, 0);
  run_i32 ("floor_divide", INT32_MIN, -1, INT32_MIN);
  run_i32 ("remainder", -7, 2, 1);
  run_i32 ("remainder", 7, -2, -1);
  run_i32 ("remainder", -7, -2, -1);
  run_i32 ("remainder", 7, 0, 0);
  run_i32 ("remainder", INT32_MIN, -1, 0);
  run_i32 ("pow", 3, 5, 243);
  run_i32 ("pow", -2, 31, INT32_MIN);
  run_i32 ("pow", 2, 32, 0);
  run_i32 ("pow", 0, 0, 1);
  run_i32 ("pow", 2, -1, 0);
  run_i32 ("pow", 1, -5, 1);
  run_i32 ("pow", -1, -5, -1);
  run_i32 ("pow", -1, -4, 1);
  run_i32 ("add", INT32_MAX, 1, INT32_MIN);
  run_i32 ("abs", INT32_MIN, 0, INT32_MIN);
  run_i32 ("sign", -9, 0, -1);
  run_i32 ("sign", 9, 0, 1);
  run_i32 ("neg", 5, 0, -5);
  run_i32 ("maximum", -5, 3, 3);
  run_i32 ("relu", -5, 0, 0);
}
END_TEST

/* Integer rows against 128-bit and plain C arithmetic, for each type. */
START_TEST (integer_rows_agree_with_wide_arithmetic)
{
  static char a[MOST * 8], b[MOST * 8], out[MOST * 8];
  static const int types[] = { GM_U8, GM_I8, GM_I16, GM_I32, GM_I64 };
  for (int t = 0; t < 2; t++)
    for (size_t k = 0; k < G_N_ELEMENTS (types) && tables[t]; k++) {
      int d = types[k];
      size_t s = gm_dtype_size (d);
      fill (a, d, MOST, false);
      fill (b, d, MOST, false);
      static const char *names[] = { "add",         "sub",        "mul",          "square",
                                     "maximum",     "minimum",    "floor_divide", "remainder",
                                     "bitwise_and", "bitwise_or", "bitwise_xor",  "neg" };
      for (size_t o = 0; o < G_N_ELEMENTS (names); o++) {
        tables[t]->pointwise (op_code (names[o]), d) (out, a, b, NULL, MOST);
        for (size_t i = 0; i < MOST; i++) {
          __int128 x = gm_scalar_load (d, a + i * s).i, y = gm_scalar_load (d, b + i * s).i, w = 0;
          __int128 q = y ? x / y : 0, m = y ? x % y : 0;
          if (m && (m < 0) != (y < 0))
            q--, m += y;
          switch (o) {
          case 0:
            w = x + y;
            break;
          case 1:
            w = x - y;
            break;
          case 2:
            w = (__int128) ((unsigned __int128) x * (unsigned __int128) y);
            break;
          case 3:
            w = (__int128) ((unsigned __int128) x * (unsigned __int128) x);
            break;
          case 4:
            w = x > y ? x : y;
            break;
          case 5:
            w = x < y ? x : y;
            break;
          case 6:
            w = q;
            break;
          case 7:
            w = m;
            break;
          case 8:
            w = x & y;
            break;
          case 9:
            w = x | y;
            break;
          case 10:
            w = x ^ y;
            break;
          case 11:
            w = -x;
            break;
          }
          char want[8];
          gm_scalar_store (gm_scalar_int ((int64_t) w), d, want);
          check_same (d, out + i * s, want, 1, tables[t]->isa, names[o]);
        }
      }
    }
}
END_TEST

START_TEST (comparisons_and_select_agree_with_c)
{
  static char a[MOST * 8], b[MOST * 8], out[MOST * 8];
  static uint8_t mask[MOST], bits[MOST];
  for (int t = 0; t < 2; t++)
    for (size_t k = 0; k < G_N_ELEMENTS (live) && tables[t]; k++) {
      int d = live[k];
      size_t s = gm_dtype_size (d);
      fill (a, d, MOST, false);
      fill (b, d, MOST, false);
      for (size_t i = 0; i < MOST; i += 3)
        memcpy (b + i * s, a + i * s, s);
      static const char *names[] = { "eq", "ne", "lt", "le", "gt", "ge" };
      for (int o = 0; o < 6 && gm_dtype_computes (d); o++) {
        tables[t]->pointwise (op_code (names[o]), d) (bits, a, b, NULL, MOST);
        for (size_t i = 0; i < MOST; i++) {
          GmScalar u = gm_scalar_load (d, a + i * s), v = gm_scalar_load (d, b + i * s);
          bool f = u.kind == GM_CATEGORY_FLOAT;
          bool want = o == 0   ? f ? u.d == v.d : u.i == v.i
                      : o == 1 ? f ? u.d != v.d : u.i != v.i
                      : o == 2 ? f ? u.d < v.d : u.i < v.i
                      : o == 3 ? f ? u.d <= v.d : u.i <= v.i
                      : o == 4 ? f ? u.d > v.d : u.i > v.i
                      : f      ? u.d >= v.d
                               : u.i >= v.i;
          ck_assert_msg (bits[i] == want, "%s %s %s at %zu", tables[t]->isa, names[o],
                         gm_dtypes[d].text, i);
        }
      }
      fill (mask, GM_BOOL, MOST, false);
      tables[t]->pointwise (op_code ("where"), d) (out, mask, a, b, MOST);
      for (size_t i = 0; i < MOST; i++)
        ck_assert (!memcmp (out + i * s, (mask[i] ? a : b) + i * s, s)); /* a copy: NaNs too */
    }
}
END_TEST

START_TEST (casts_agree_with_single_elements)
{
  static char in[MOST * 8 + 8], out[MOST * 8 + 40];
  for (int t = 0; t < 2; t++)
    for (size_t from = 0; from < G_N_ELEMENTS (live) && tables[t]; from++)
      for (size_t to = 0; to < G_N_ELEMENTS (live); to++)
        for (int l = 0; l < N_LENGTHS; l++) {
          size_t n = length_at (l), si = gm_dtype_size (live[from]), so = gm_dtype_size (live[to]);
          fill (in + 1, live[from], n, false);
          memset (out, 0x5a, sizeof out);
          tables[t]->cast (live[from], live[to]) (out + 3, in + 1, n);
          ck_assert (out[2] == 0x5a && out[3 + n * so] == 0x5a);
          for (size_t i = 0; i < n; i++) {
            char want[8];
            gm_scalar_store (gm_scalar_load (live[from], in + 1 + i * si), live[to], want);
            check_same (live[to], out + 3 + i * so, want, 1, gm_dtypes[live[from]].text,
                        tables[t]->isa);
          }
        }
}
END_TEST

START_TEST (a_nan_wins_a_maximum_and_passes_relu)
{
  float a[3] = { NAN, 1, 2 }, b[3] = { 1, NAN, 3 }, out[3];
  for (int t = 0; t < 2; t++)
    for (int k = 0; k < 2 && tables[t]; k++) {
      tables[t]->pointwise (op_code (k ? "minimum" : "maximum"), GM_F32) (out, a, b, NULL, 3);
      ck_assert (isnan (out[0]) && isnan (out[1]) && out[2] == (k ? 2 : 3));
      tables[t]->pointwise (op_code ("relu"), GM_F32) (out, a, NULL, NULL, 3);
      ck_assert (isnan (out[0]) && out[1] == 1);
    }
}
END_TEST

/* -- Reductions -------------------------------------------------------------------------------- */

/* Computes combine (a, b) for one element of any dtype, through the pointwise row of the same
 * arithmetic. */
static void
combine (const GmTiles *t, const char *name, int dtype, void *a, const void *b)
{
  const char *row = !strcmp (name, "sum")    ? "add"
                    : !strcmp (name, "prod") ? "mul"
                    : !strcmp (name, "amax") ? "maximum"
                    : !strcmp (name, "amin") ? "minimum"
                    : !strcmp (name, "any")  ? "logical_or"
                                             : "logical_and";
  t->pointwise (op_code (row), dtype) (a, a, b, NULL, 1);
}

/* Folds in the order of tiles.h, one element at a time, in the type that `dtype` is computed in. */
static void
model_block (const GmTiles *t, const Row *r, int dtype, void *acc, const char *x, size_t n)
{
  size_t s = gm_dtype_size (dtype);
  int from = dtype;
  char p[16][8], wide[8], before[8];
  memcpy (before, acc, sizeof before);
  for (int i = 0; i < 16; i++)
    t->reduce_init (r->code, dtype, p[i]);
  dtype = gm_dtype_compute (dtype);
  for (size_t i = 0; i < n; i++) {
    t->cast (from, dtype) (wide, x + i * s, 1);
    combine (t, r->name, dtype, p[i % 16], wide);
  }
  for (int step = 8; step; step /= 2)
    for (int i = 0; i < step; i++)
      combine (t, r->name, dtype, p[i], p[i + step]);
  combine (t, r->name, dtype, acc, p[0]);
  GmScalar all = gm_scalar_load (dtype, acc);
  if (strcmp (r->name, "prod") || all.kind != GM_CATEGORY_FLOAT || all.d == all.d)
    return;
  /* A product that is NaN is multiplied again, element after element. */
  memcpy (acc, before, sizeof before);
  for (size_t i = 0; i < n; i++) {
    t->cast (from, dtype) (wide, x + i * s, 1);
    combine (t, r->name, dtype, acc, wide);
  }
}

START_TEST (folds_follow_the_stated_order_to_the_bit)
{
  static char x[MOST * 8 + 8];
  for (int t = 0; t < 2; t++)
    for (size_t i = 0; i < G_N_ELEMENTS (reductions) && tables[t]; i++)
      for (size_t d = 0; d < G_N_ELEMENTS (live); d++) {
        const Row *r = &reductions[i];
        GmTileFold f = tables[t]->fold (r->code, live[d]);
        if (!f)
          continue;
        for (int l = 0; l < N_LENGTHS - 1; l++)
          for (int mild = 0; mild < 2; mild++) {
            size_t n = length_at (l);
            fill (x + 3, live[d], n, mild);
            char got[8], want[8];
            tables[t]->reduce_init (r->code, live[d], got);
            memcpy (want, got, 8);
            f (got, x + 3, n);
            f (got, x + 3, n / 2);
            model_block (tables[t], r, live[d], want, x + 3, n);
            model_block (tables[t], r, live[d], want, x + 3, n / 2);
            check_same (gm_dtype_compute (live[d]), got, want, 1, tables[t]->isa, r->name);
          }
      }
}
END_TEST

START_TEST (folding_columns_gives_the_bits_of_folding_each)
{
  static const size_t heights[] = { 0, 1, 2, 15, 16, 17, 33, 100, 511, 512 },
                      widths[] = { 0, 1, 3, 7, 8, 9, 16, 17, 33, 64, 70 };
  for (int t = 0; t < 2; t++)
    for (size_t i = 0; i < G_N_ELEMENTS (reductions) && tables[t]; i++)
      for (size_t d = 0; d < G_N_ELEMENTS (live); d++) {
        int dtype = live[d], accum = gm_dtype_compute (dtype);
        const Row *r = &reductions[i];
        size_t s = gm_dtype_size (dtype), sa = gm_dtype_size (MIN (accum, GM_F64)), stride = 73 * s;
        GmTileFoldColumns f = tables[t]->fold_columns (r->code, dtype);
        ck_assert (!!f == !!tables[t]->fold (r->code, dtype));
        if (!f)
          continue;
        g_autofree char *x = g_malloc (512 * stride);
        fill (x, dtype, 512 * 73, false);
        for (size_t h = 0; h < G_N_ELEMENTS (heights); h++)
          for (size_t w = 0; w < G_N_ELEMENTS (widths); w++) {
            size_t rows_n = heights[h], width = widths[w];
            char acc[80 * 8];
            memset (acc, 0x5a, sizeof acc);
            fill (acc, accum, width, true);
            char before[80 * 8];
            memcpy (before, acc, sizeof acc);
            f (acc, x, (ptrdiff_t) stride, rows_n, width);
            ck_assert (acc[width * sa] == 0x5a);
            for (size_t j = 0; j < width; j++) {
              char column[512 * 8], want[8];
              for (size_t k = 0; k < rows_n; k++)
                memcpy (column + k * s, x + k * stride + j * s, s);
              memcpy (want, before + j * sa, sa);
              tables[t]->fold (r->code, dtype) (want, column, rows_n);
              check_same (accum, acc + j * sa, want, 1, tables[t]->isa, r->name);
            }
          }
      }
}
END_TEST

START_TEST (positions_of_extremes_are_the_first)
{
  static char x[MOST * 8];
  for (int t = 0; t < 2; t++)
    for (size_t o = 0; o < G_N_ELEMENTS (arg_reductions) && tables[t]; o++)
      for (size_t d = 0; d < G_N_ELEMENTS (live); d++)
        for (int l = 0; l < N_LENGTHS * 2; l++) {
          int dtype = live[d];
          size_t n = length_at (l / 2), s = gm_dtype_size (dtype);
          bool is_max = !strcmp (arg_reductions[o].name, "argmax");
          fill (x, dtype, n, l % 2);
          GmTileArgFold f = tables[t]->arg_fold (arg_reductions[o].code, dtype);
          ck_assert (!!f == gm_dtype_computes (dtype));
          if (!f)
            break;
          char best[8] = { 0 };
          int64_t index = -1;
          size_t cut = n / 3;
          f (best, &index, x, 100, cut);
          f (best, &index, x + cut * s, 100 + (int64_t) cut, n - cut);
          int64_t want = -1;
          GmScalar top = { 0 };
          for (size_t i = 0; i < n; i++) {
            GmScalar v = gm_scalar_load (dtype, x + i * s);
            bool fl = v.kind == GM_CATEGORY_FLOAT;
            bool better =
                want < 0
                || (fl ? !isnan (top.d) && (isnan (v.d) || (is_max ? v.d > top.d : v.d < top.d))
                    : is_max ? v.i > top.i
                             : v.i < top.i);
            if (better) {
              top = v;
              want = (int64_t) i;
            }
          }
          ck_assert_msg (index == (want < 0 ? -1 : want + 100), "%s %s n = %zu: %ld, want %ld",
                         arg_reductions[o].name, gm_dtypes[dtype].text, n, (long) index,
                         (long) want + 100);
          if (want >= 0) {
            char value[8];
            tables[t]->cast (dtype, gm_dtype_compute (dtype)) (value, x + (size_t) want * s, 1);
            ck_assert (!memcmp (best, value, gm_dtype_size (gm_dtype_compute (dtype))));
          }
        }
}
END_TEST

/* -- Copies ------------------------------------------------------------------------------------ */

START_TEST (strided_copies_take_any_stride)
{
  static const ptrdiff_t strides[] = { 1, 0, 2, 3, -1, -4, 7 };
  static const size_t sizes[] = { 1, 2, 4, 8 };
  for (int t = 0; t < 2; t++)
    for (int z = 0; z < 4 && tables[t]; z++)
      for (size_t k = 0; k < G_N_ELEMENTS (strides); k++) {
        size_t s = sizes[z], n = 37;
        static char x[600 * 8], out[40 * 8], back[600 * 8];
        fill (x, GM_I64, 600, false);
        char *origin = x + 300 * s;
        tables[t]->gather (out, origin, strides[k], n, s);
        for (size_t i = 0; i < n; i++)
          ck_assert (!memcmp (out + i * s, origin + (ptrdiff_t) i * strides[k] * (ptrdiff_t) s, s));
        if (strides[k] == 0)
          continue;
        tables[t]->scatter (back + 300 * s, strides[k], out, n, s);
        for (size_t i = 0; i < n; i++)
          ck_assert (!memcmp (out + i * s,
                              back + 300 * s + (ptrdiff_t) i * strides[k] * (ptrdiff_t) s, s));
      }
}
END_TEST

/* -- Random numbers ---------------------------------------------------------------------------- */

/* Source: Random123's kat_vectors, philox4x32 with 10 rounds. */
START_TEST (philox_gives_the_published_vectors)
{
  static const struct {
    uint64_t draw, high, key;
    uint32_t want[4];
  } known[] = {
    { 0, 0, 0, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
    { ~0ull, ~0ull, ~0ull, { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
    { 0x85a308d3243f6a88,
      0x0370734413198a2e,
      0x299f31d0a4093822,
      { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
  };
  for (int t = 0; t < 2; t++)
    for (int k = 0; k < 3 && tables[t]; k++) {
      uint32_t out[4 * 13], again[4];
      tables[t]->philox (out, known[k].key, known[k].draw, known[k].high, 13);
      ck_assert (!memcmp (out, known[k].want, 16));
      tables[t]->philox (again, known[k].key, known[k].draw + 11, known[k].high, 1);
      ck_assert (!memcmp (out + 44, again, 16));
    }
}
END_TEST

START_TEST (streams_do_not_depend_on_where_they_are_cut)
{
  static char whole[2000 * 8], part[2000 * 8];
  for (int t = 0; t < 2; t++)
    for (int kind = 0; kind < 2 && tables[t]; kind++)
      for (int d = GM_F32; d <= GM_F64; d++) {
        void (*f) (void *, int, uint64_t, uint64_t, uint64_t, size_t) =
            kind ? tables[t]->normal : tables[t]->uniform;
        size_t s = gm_dtype_size (d), n = 2000;
        f (whole, d, 42, 7, 0, n);
        static const size_t cuts[] = { 0, 1, 2, 3, 5, 259, 600, 601, 1023, 2000 };
        for (size_t k = 0; k + 1 < G_N_ELEMENTS (cuts); k++)
          f (part + cuts[k] * s, d, 42, 7, cuts[k], cuts[k + 1] - cuts[k]);
        check_same (d, whole, part, n, "cut", kind ? "normal" : "uniform");
        f (part, d, 42, 8, 0, n - 4); /* one draw later: four elements on */
        check_same (d, whole + 4 * s, part, n - 4, "offset", kind ? "normal" : "uniform");
        if (t && tables[0]) {
          (kind ? tables[0]->normal : tables[0]->uniform) (part, d, 42, 7, 0, n);
          check_same (d, whole, part, n, "avx2 and avx512", kind ? "normal" : "uniform");
        }
      }
}
END_TEST

START_TEST (distributions_have_their_moments)
{
  enum { N = 200000 };
  static double x[N];
  static float y[N];
  for (int kind = 0; kind < 2; kind++)
    for (int wide = 0; wide < 2; wide++) {
      const GmTiles *t = gm_tiles_get (NULL);
      (kind ? t->normal : t->uniform) (wide ? (void *) x : (void *) y, wide ? GM_F64 : GM_F32, 1234,
                                       0, 0, N);
      double sum = 0, squares = 0, cubes = 0, lowest = INFINITY, highest = -INFINITY;
      for (int i = 0; i < N; i++) {
        double v = wide ? x[i] : (double) y[i];
        sum += v;
        squares += v * v;
        cubes += v * v * v;
        lowest = fmin (lowest, v);
        highest = fmax (highest, v);
      }
      double mean = sum / N, var = squares / N - mean * mean;
      ck_assert_double_eq_tol (mean, kind ? 0 : 0.5, 0.01);
      ck_assert_double_eq_tol (var, kind ? 1 : 1.0 / 12, kind ? 0.02 : 0.001);
      ck_assert_double_eq_tol (cubes / N, kind ? 0 : 0.25, kind ? 0.05 : 0.005);
      if (!kind)
        ck_assert (lowest >= 0 && highest < 1 && lowest < 1e-3 && highest > 1 - 1e-3);
      else
        ck_assert (lowest < -3.5 && highest > 3.5 && isfinite (lowest) && isfinite (highest));
    }
}
END_TEST

/* -- Products ---------------------------------------------------------------------------------- */

START_TEST (products_agree_with_a_plain_loop_for_all_layouts)
{
  static const int types[] = { GM_F32, GM_F64, GM_I32, GM_I64, GM_U8 };
  static const int64_t shapes[][3] = { { 1, 1, 1 }, { 2, 3, 4 },    { 1, 5, 7 }, { 5, 1, 7 },
                                       { 9, 8, 1 }, { 17, 33, 20 }, { 3, 4, 0 } };
  for (int d = 0; d < 5; d++)
    for (size_t k = 0; k < G_N_ELEMENTS (shapes); k++)
      for (int layout = 0; layout < 5; layout++) {
        int dtype = types[d];
        size_t s = gm_dtype_size (dtype);
        int64_t m = shapes[k][0], n = shapes[k][1], q = shapes[k][2], ldc = n + 3;
        static char a[40 * 40 * 8], b[40 * 40 * 8], c[40 * 40 * 8];
        fill (a, dtype, 1600, true);
        fill (b, dtype, 1600, true);
        /* NaN must not appear in the result: C is written, not added to */
        for (size_t i = 0; i < 1600; i++)
          gm_scalar_store (gm_scalar_float (NAN), dtype, c + i * s);
        int64_t ar = layout & 1 ? 1 : q + 2, ac = layout & 1 ? m + 1 : 1,
                br = layout & 2 ? 1 : n + 1, bc = layout & 2 ? q + 2 : 1;
        if (layout == 4)
          ar = 0, ac = 1, br = n, bc = 1; /* one row, repeated */
        gm_tile_matmul (dtype, m, n, q, a, ar, ac, b, br, bc, c, ldc);
        for (int64_t i = 0; i < m; i++)
          for (int64_t j = 0; j < n; j++) {
            double want = 0;
            uint64_t exact = 0;
            for (int64_t l = 0; l < q; l++) {
              GmScalar x = gm_scalar_load (dtype, a + (size_t) (i * ar + l * ac) * s);
              GmScalar y = gm_scalar_load (dtype, b + (size_t) (l * br + j * bc) * s);
              want += gm_scalar_as_double (x) * gm_scalar_as_double (y);
              exact += (uint64_t) x.i * (uint64_t) y.i;
            }
            GmScalar got = gm_scalar_load (dtype, c + (size_t) (i * ldc + j) * s);
            if (got.kind == GM_CATEGORY_FLOAT)
              ck_assert_double_eq_tol (got.d, want, (dtype == GM_F32 ? 1e-3 : 1e-10));
            else {
              char w[8];
              gm_scalar_store (gm_scalar_int ((int64_t) exact), dtype, w);
              ck_assert (got.i == gm_scalar_load (dtype, w).i);
            }
          }
      }
}
END_TEST

static void
check_large (int dtype, int64_t m, int64_t n, int64_t k, int layout)
{
  size_t s = gm_dtype_size (dtype);
  bool ta = layout & 1, tb = layout & 2;
  int64_t ldc = n + 3;
  g_autofree char *a = g_malloc ((size_t) (m * k) * s), *b = g_malloc ((size_t) (k * n) * s),
                  *c = g_malloc ((size_t) (m * ldc) * s),
                  *again = g_malloc ((size_t) (m * ldc) * s);
  fill (a, dtype, (size_t) (m * k), true);
  fill (b, dtype, (size_t) (k * n), true);
  for (int64_t i = 0; i < m * ldc; i++)
    gm_scalar_store (gm_scalar_float (NAN), dtype, c + (size_t) i * s);
  memcpy (again, c, (size_t) (m * ldc) * s);
  GmProduct p = {
    dtype, m, n, k, a, b, ta ? 1 : k, ta ? m : 1, tb ? 1 : n, tb ? k : 1, again, ldc
  };
  gm_tile_matmul (dtype, m, n, k, a, p.a_row_stride, p.a_col_stride, b, p.b_row_stride,
                  p.b_col_stride, c, ldc);
  uint32_t blocks = gm_product_blocks (&p);
  ck_assert_uint_gt (blocks, 1);
  ck_assert_uint_le (blocks, 16);
  for (uint32_t i = blocks; i-- > 0;)
    gm_product_block (&p, i);
  ck_assert_mem_eq (again, c, (size_t) (m * ldc) * s);
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < ldc; j += i % 7 ? 5 : 1) {
      double got = gm_scalar_load (dtype, c + (size_t) (i * ldc + j) * s).d, want = 0, sizes = 0;
      if (j >= n) {
        ck_assert (isnan (got)); /* nothing is written behind a row */
        continue;
      }
      for (int64_t l = 0; l < k; l++) {
        double term =
            gm_scalar_load (dtype, a + (size_t) (i * p.a_row_stride + l * p.a_col_stride) * s).d
            * gm_scalar_load (dtype, b + (size_t) (l * p.b_row_stride + j * p.b_col_stride) * s).d;
        want += term;
        sizes += fabs (term);
      }
      ck_assert_double_eq_tol (got, want, sizes * (dtype == GM_F32 ? 1e-5 : 1e-14));
    }
}

/* An element of a product of few rows, as tiles-product.h defines it. */
static double
chained (int dtype, const char *a, int64_t a_step, const char *b, int64_t b_step, int64_t k)
{
  double sum = 0, chain = 0;
  for (int64_t i = 0; i < k; i++) {
    if (i % GM_FEW_DEPTH == 0)
      chain = 0;
    if (dtype == GM_F32)
      chain =
          fmaf (((const float *) a)[i * a_step], ((const float *) b)[i * b_step], (float) chain);
    else
      chain = fma (((const double *) a)[i * a_step], ((const double *) b)[i * b_step], chain);
    if (i == k - 1 || i % GM_FEW_DEPTH == GM_FEW_DEPTH - 1)
      sum = i < GM_FEW_DEPTH ? chain : dtype == GM_F32 ? (float) sum + (float) chain : sum + chain;
  }
  return sum;
}

static void
check_few (const GmTiles *tiles, GmProduct p, const char *name)
{
  const GmFewTiles *few = tiles->few_rows (p.dtype);
  size_t s = gm_dtype_size (p.dtype), bytes = (size_t) (p.m * p.ldc) * s;
  size_t packed_bytes = (size_t) (few->packed_width (p.n) * p.k) * s;
  static char scratch[GM_FEW_SCRATCH] __attribute__ ((aligned (64)));
  g_autofree char *want = g_malloc (bytes), *got = g_malloc (bytes),
                  *packed = g_malloc (packed_bytes);
  memset (want, 0xff, bytes);
  for (int64_t i = 0; i < p.m; i++)
    for (int64_t j = 0; j < p.n; j++) {
      double x =
          chained (p.dtype, (const char *) p.a + (size_t) (i * p.a_row_stride) * s, p.a_col_stride,
                   (const char *) p.b + (size_t) (j * p.b_col_stride) * s, p.b_row_stride, p.k);
      gm_scalar_store (gm_scalar_float (x), p.dtype, want + (size_t) (i * p.ldc + j) * s);
    }
  p.c = got;
  for (int how = 0; how < 4; how++) { /* in little room, in two pieces, packed, packed in pieces */
    int64_t middle = how & 1 && p.n > GM_FEW_UNIT ? GM_FEW_UNIT : p.n;
    memset (got, 0xff, bytes);
    p.packed = how & 2 ? packed : NULL;
    if (how & 2)
      few->pack (&p, 0, middle, packed);
    if (how & 2 && middle < p.n)
      few->pack (&p, middle, p.n, packed);
    few->multiply (&p, 0, middle, scratch, how == 0 ? GM_FEW_ROOM : sizeof scratch);
    if (middle < p.n)
      few->multiply (&p, middle, p.n, scratch, sizeof scratch);
    ck_assert_msg (memcmp (got, want, bytes) == 0, "%s: %ld x %ld x %ld, %s, %d", tiles->isa,
                   (long) p.m, (long) p.n, (long) p.k, name, how);
  }
}

START_TEST (products_of_few_rows_are_chains_of_fused_multiply_adds)
{
  static const int64_t ms[] = { 2, 3, 4, 5, 7, 9, 16, 31, 32 },
                       ns[] = { 2, 7, 24, 47, 48, 61, 150 }, ks[] = { 1, 5, 127, 128, 300, 1100 };
  int dtype = _i ? GM_F64 : GM_F32;
  static double a[32 * 1100], b[1100 * 151];
  fill (a, dtype, G_N_ELEMENTS (a), true);
  fill (b, dtype, G_N_ELEMENTS (b), true);
  for (size_t i = 0; i < G_N_ELEMENTS (ms); i++)
    for (size_t j = 0; j < G_N_ELEMENTS (ns); j++)
      for (size_t l = 0; l < G_N_ELEMENTS (ks); l++) {
        int64_t m = ms[i], n = ns[j], k = ks[l];
        bool turned = (i + j + l) & 1;
        GmProduct p = { dtype,          m,     n, k,    a,     b,   turned ? 1 : k,
                        turned ? m : 1, n + 1, 1, NULL, n + 3, NULL };
        for (int t = 0; t < 2; t++)
          if (tables[t])
            check_few (tables[t], p, "rows of B");
        p.b_row_stride = 1, p.b_col_stride = k;
        for (int t = 0; t < 2; t++)
          if (tables[t])
            check_few (tables[t], p, "columns of B");
      }
}
END_TEST

START_TEST (large_products_are_the_same_in_blocks_of_any_order)
{
  static const int64_t shapes[][3] = { { 300, 517, 64 },  { 16, 1025, 259 }, { 1025, 17, 257 },
                                       { 1, 2053, 300 },  { 2053, 1, 300 },  { 2049, 31, 129 },
                                       { 2100, 100, 70 }, { 1, 260, 4099 } };
  for (size_t i = 0; i < G_N_ELEMENTS (shapes); i++)
    for (int layout = 0; layout < 4; layout++)
      check_large (_i ? GM_F64 : GM_F32, shapes[i][0], shapes[i][1], shapes[i][2], layout);
}
END_TEST

int
main (void)
{
  tables[0] = gm_tiles_for ("avx2");
  tables[1] = gm_tiles_for ("avx512");
  if (!tables[1])
    fprintf (stderr, "SKIPPED: AVX-512 against AVX2: this processor lacks AVX-512\n");
  Suite *suite = suite_create ("tiles");
  TCase *c = tcase_create ("tiles");
  tcase_set_timeout (c, 300);
  tcase_add_test (c, every_row_exists_for_the_dtypes_of_its_class);
  tcase_add_test (c, the_environment_may_name_the_instruction_set);
  tcase_add_test (c, pointwise_rows_give_the_same_bits_on_both_instruction_sets);
  tcase_add_test (c, pairs_give_the_bits_of_their_two_rows);
  tcase_add_test (c, an_element_does_not_depend_on_its_place_or_neighbours);
  tcase_add_test (c, values_are_within_their_ulps_of_libm);
  tcase_add_test (c, rows_without_a_model_agree_between_f32_and_f64);
  tcase_add_test (c, integer_rows_follow_python_and_never_trap);
  tcase_add_test (c, integer_rows_agree_with_wide_arithmetic);
  tcase_add_test (c, comparisons_and_select_agree_with_c);
  tcase_add_test (c, casts_agree_with_single_elements);
  tcase_add_test (c, a_nan_wins_a_maximum_and_passes_relu);
  tcase_add_test (c, folds_follow_the_stated_order_to_the_bit);
  tcase_add_test (c, folding_columns_gives_the_bits_of_folding_each);
  tcase_add_test (c, positions_of_extremes_are_the_first);
  tcase_add_test (c, strided_copies_take_any_stride);
  tcase_add_test (c, philox_gives_the_published_vectors);
  tcase_add_test (c, streams_do_not_depend_on_where_they_are_cut);
  tcase_add_test (c, distributions_have_their_moments);
  tcase_add_test (c, products_agree_with_a_plain_loop_for_all_layouts);
  tcase_add_loop_test (c, products_of_few_rows_are_chains_of_fused_multiply_adds, 0, 2);
  tcase_add_loop_test (c, large_products_are_the_same_in_blocks_of_any_order, 0, 2);
  suite_add_tcase (suite, c);
  SRunner *sr = srunner_create (suite);
  srunner_run_all (sr, CK_NORMAL);
  int failures = srunner_ntests_failed (sr);
  srunner_free (sr);
  return failures ? 1 : 0;
}
