/* SPDX-License-Identifier: Apache-2.0
 * test_small_floats.c -- f16, bf16 and the 8-bit floats: every bit pattern, every tie, and
 * arithmetic through f32.
 *
 * The oracle of rounding is the order of the numbers themselves: between two neighbours the middle
 * goes to the even one, and a hair off the middle to the nearer one.  The oracle of arithmetic is
 * f32's tile between two casts.
 */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/tensor/dtype.h"
#include "core/tiles/tiles.h"

static const GmTiles *tables[2]; /* avx2, avx512 or NULL */
static const GmDtype small[] = { GM_F16, GM_BF16, GM_F8E4M3, GM_F8E5M2 };

#define FOR_EACH_TABLE(t)                                                                          \
  for (int t_ = 0; t_ < 2; t_++)                                                                   \
    for (const GmTiles *t = tables[t_]; t; t = NULL)

static uint32_t
n_codes (GmDtype d)
{
  return 1u << gm_dtypes[d].bits;
}

static double
value_of (GmDtype d, uint32_t code)
{
  return gm_scalar_load (d, &code).d;
}

/* Rounds with the tile, and compares with the single element's conversion. */
static uint32_t
round_to (const GmTiles *t, GmDtype d, float x)
{
  uint32_t code = 0, single = 0;
  t->cast (GM_F32, d) (&code, &x, 1);
  gm_scalar_store (gm_scalar_float (x), d, &single);
  if (isnan (x))
    ck_assert (isnan (value_of (d, code)) && isnan (value_of (d, single)));
  else
    ck_assert_msg (code == single, "%s %s: %a is %x, and %x as a single element", t->isa,
                   gm_dtypes[d].text, x, code, single);
  return code;
}

START_TEST (known_numbers_have_their_codes)
{
  static const struct {
    GmDtype d;
    uint32_t code;
    double value;
  } known[] = {
    { GM_F16, 0x3c00, 1 },
    { GM_F16, 0x0001, 0x1p-24 },
    { GM_F16, 0x0400, 0x1p-14 },
    { GM_F16, 0x7bff, 65504 },
    { GM_F16, 0xc000, -2 },
    { GM_F16, 0x7c00, INFINITY },
    { GM_F16, 0x3555, 0.333251953125 },
    { GM_BF16, 0x3f80, 1 },
    { GM_BF16, 0x0001, 0x1p-133 },
    { GM_BF16, 0x7f7f, 0x1.fep127 },
    { GM_BF16, 0xff80, -INFINITY },
    { GM_BF16, 0x4049, 3.140625 },
    { GM_F8E4M3, 0x38, 1 },
    { GM_F8E4M3, 0x01, 0x1p-9 },
    { GM_F8E4M3, 0x08, 0x1p-6 },
    { GM_F8E4M3, 0x7e, 448 },
    { GM_F8E4M3, 0xfe, -448 },
    { GM_F8E4M3, 0x78, 256 },
    { GM_F8E5M2, 0x3c, 1 },
    { GM_F8E5M2, 0x01, 0x1p-16 },
    { GM_F8E5M2, 0x04, 0x1p-14 },
    { GM_F8E5M2, 0x7b, 57344 },
    { GM_F8E5M2, 0xfc, -INFINITY },
    { GM_F8E5M2, 0x80, -0.0 },
  };
  for (size_t i = 0; i < G_N_ELEMENTS (known); i++) {
    ck_assert_msg (value_of (known[i].d, known[i].code) == known[i].value, "%s %x is %a",
                   gm_dtypes[known[i].d].text, known[i].code, value_of (known[i].d, known[i].code));
    FOR_EACH_TABLE (t)
    ck_assert_uint_eq (round_to (t, known[i].d, (float) known[i].value), known[i].code);
  }
  static const uint8_t nans[] = { 0x7d, 0x7e, 0x7f, 0xfd, 0xfe, 0xff };
  for (size_t i = 0; i < G_N_ELEMENTS (nans); i++) {
    ck_assert (isnan (value_of (GM_F8E5M2, nans[i])));
    ck_assert (!isnan (value_of (GM_F8E4M3, nans[i])) == ((nans[i] & 0x7f) != 0x7f));
  }
}
END_TEST

START_TEST (every_pattern_widens_to_its_value_and_comes_back)
{
  for (size_t k = 0; k < G_N_ELEMENTS (small); k++) {
    GmDtype d = small[k];
    uint32_t n = n_codes (d), size = gm_dtype_size (d);
    g_autofree char *codes = g_malloc (n * size), *back = g_malloc (n * size);
    g_autofree float *wide = g_new (float, n);
    for (uint32_t i = 0; i < n; i++)
      memcpy (codes + i * size, &i, size);
    FOR_EACH_TABLE (t)
    {
      t->cast (d, GM_F32) (wide, codes, n);
      t->cast (GM_F32, d) (back, wide, n);
      for (uint32_t i = 0; i < n; i++) {
        double want = value_of (d, i);
        uint32_t code = 0;
        memcpy (&code, back + i * size, size);
        if (isnan (want))
          ck_assert (isnan (wide[i]) && isnan (value_of (d, code)));
        else if (wide[i] != want || !signbit (wide[i]) != !signbit (want) || code != i)
          ck_abort_msg ("%s %s: %x is %a, should be %a, and comes back as %x", t->isa,
                        gm_dtypes[d].text, i, wide[i], want, code);
      }
    }
  }
}
END_TEST

START_TEST (ties_go_to_the_even_neighbour_and_all_else_to_the_nearer)
{
  for (size_t k = 0; k < G_N_ELEMENTS (small); k++)
    FOR_EACH_TABLE (t)
    {
      GmDtype d = small[k];
      uint32_t sign = n_codes (d) / 2;
      for (uint32_t low = 0; isfinite (value_of (d, low + 1)); low++)
        for (int negative = 0; negative < 2; negative++) {
          double a = value_of (d, low), b = value_of (d, low + 1);
          float middle = (float) ((a + b) / 2), s = negative ? -1 : 1;
          uint32_t plus = negative ? sign : 0;
          ck_assert (middle == (a + b) / 2);
          uint32_t even = low & 1 ? low + 1 : low;
          if (round_to (t, d, s * middle) != (plus | even)
              || round_to (t, d, s * nextafterf (middle, 0)) != (plus | low)
              || round_to (t, d, s * nextafterf (middle, INFINITY)) != (plus | (low + 1)))
            ck_abort_msg ("%s %s: around %a, between %x and %x", t->isa, gm_dtypes[d].text,
                          s * middle, low, low + 1);
        }
    }
}
END_TEST

/* Numbers that would be rounded to the next number after the largest become infinite, or NaN where
 * there is no infinity. */
START_TEST (too_large_is_infinite_or_nan)
{
  for (size_t k = 0; k < G_N_ELEMENTS (small); k++)
    FOR_EACH_TABLE (t)
    {
      GmDtype d = small[k];
      double most = gm_dtype_largest (d),
             step = most - value_of (d, round_to (t, d, (float) most) - 1);
      float edge = (float) (most + step / 2), inside = nextafterf (edge, 0);
      bool edge_is_inside = d == GM_F8E4M3; /* 448 is even there, 65504 and the others are odd */
      ck_assert (value_of (d, round_to (t, d, inside)) == most);
      ck_assert (value_of (d, round_to (t, d, -inside)) == -most);
      const float beyond[] = { edge_is_inside ? nextafterf (edge, INFINITY) : edge,
                               (float) (2 * most), 3e38f, INFINITY };
      ck_assert (!edge_is_inside || value_of (d, round_to (t, d, edge)) == most);
      for (size_t i = 0; i < G_N_ELEMENTS (beyond); i++) {
        double up = value_of (d, round_to (t, d, beyond[i])),
               down = value_of (d, round_to (t, d, -beyond[i]));
        if (i == 2 && d == GM_BF16)
          continue; /* 3e38 is a bf16 */
        ck_assert_msg (d == GM_F8E4M3 ? isnan (up) && isnan (down)
                                      : up == INFINITY && down == -INFINITY,
                       "%s: %a is %a", gm_dtypes[d].text, beyond[i], up);
      }
      ck_assert (isnan (value_of (d, round_to (t, d, NAN))));
    }
}
END_TEST

static uint64_t seed = 88172645463325252ull;

static uint32_t
random_bits (void)
{
  seed ^= seed << 13;
  seed ^= seed >> 7;
  seed ^= seed << 17;
  return (uint32_t) (seed >> 16);
}

START_TEST (any_f32_is_rounded_alike_everywhere)
{
  static float x[4096];
  static uint16_t halves[2][4096];
  static uint8_t bytes[2][4096];
  for (int round = 0; round < 60; round++) {
    for (size_t i = 0; i < G_N_ELEMENTS (x); i++) {
      uint32_t bits = random_bits ();
      if (round % 2) /* in the range of the small floats */
        bits = (bits & 0x807fffff) | (100 + bits % 53) << 23;
      memcpy (&x[i], &bits, sizeof bits);
    }
    for (size_t k = 0; k < G_N_ELEMENTS (small); k++) {
      GmDtype d = small[k];
      size_t size = gm_dtype_size (d);
      char *out[2] = { size == 2 ? (char *) halves[0] : (char *) bytes[0],
                       size == 2 ? (char *) halves[1] : (char *) bytes[1] };
      for (int t = 0; t < 2 && tables[t]; t++) {
        tables[t]->cast (GM_F32, d) (out[t], x, G_N_ELEMENTS (x));
        for (size_t i = 0; i < G_N_ELEMENTS (x); i++) {
          uint32_t want = 0, got = 0;
          gm_scalar_store (gm_scalar_float (x[i]), d, &want);
          memcpy (&got, out[t] + i * size, size);
          if (got != want && !(isnan (x[i]) && isnan (value_of (d, got))))
            ck_abort_msg ("%s %s: %a is %x, should be %x", tables[t]->isa, gm_dtypes[d].text, x[i],
                          got, want);
        }
      }
    }
  }
}
END_TEST

/* -- Arithmetic -------------------------------------------------------------------------------- */

#define N 700

static bool
is_select_or_copy (const char *types, const char *name)
{
  return !strcmp (types, "SELECT") || !strcmp (name, "copy");
}

static void
check_row (const GmTiles *t, GmDtype d, int code, const char *name, const char *types)
{
  GmTilePointwise f = t->pointwise (code, d), wide = t->pointwise (code, GM_F32);
  static uint16_t x[3][N], got[N], want[N];
  static uint8_t got_bool[N], want_bool[N];
  static float w[3][N], r[N];
  ck_assert_msg (!!f == !!wide, "%s", name);
  if (!f || is_select_or_copy (types, name))
    return;
  for (int i = 0; i < 3; i++) {
    for (int j = 0; j < N; j++)
      x[i][j] = (uint16_t) random_bits ();
    t->cast (d, GM_F32) (w[i], x[i], N);
  }
  if (!strcmp (types, "COMPARE")) {
    f (got_bool, x[0], x[1], x[2], N);
    wide (want_bool, w[0], w[1], w[2], N);
    ck_assert_msg (!memcmp (got_bool, want_bool, N), "%s", name);
    return;
  }
  f (got, x[0], x[1], x[2], N);
  wide (r, w[0], w[1], w[2], N);
  t->cast (GM_F32, d) (want, r, N);
  for (int j = 0; j < N; j++)
    if (got[j] != want[j] && !(isnan (value_of (d, got[j])) && isnan (value_of (d, want[j]))))
      ck_abort_msg ("%s %s %s (%x, %x) = %x, should be %x", t->isa, gm_dtypes[d].text, name,
                    x[0][j], x[1][j], got[j], want[j]);
}

START_TEST (a_row_of_f16_is_f32s_rounded_once)
{
  for (size_t k = 0; k < 2; k++)
    FOR_EACH_TABLE (t)
  for (int round = 0; round < 20; round++) {
#define POINTWISE(code, version, name, n, types, ...) check_row (t, small[k], code, #name, #types);
#include "plugin-api/gramme-ops.def"
  }
}
END_TEST

START_TEST (a_fold_of_f16_is_accumulated_in_f32)
{
  static uint16_t x[N];
  static float w[N];
  static const int folds[] = {
#define REDUCE(code, version, name, types, ...) code,
#include "plugin-api/gramme-ops.def"
  };
  for (size_t k = 0; k < 2; k++)
    FOR_EACH_TABLE (t)
  for (size_t o = 0; o < G_N_ELEMENTS (folds); o++) {
    GmTileFold f = t->fold (folds[o], small[k]), wide = t->fold (folds[o], GM_F32);
    ck_assert (!!f == !!wide);
    for (size_t n = 0; f && n <= 512; n += n < 40 ? 1 : 59) {
      for (size_t j = 0; j < n; j++)
        gm_scalar_store (gm_scalar_float ((random_bits () % 2001) / 500.0 - 2), small[k], &x[j]);
      t->cast (small[k], GM_F32) (w, x, n);
      float got, want;
      t->reduce_init (folds[o], small[k], &got);
      t->reduce_init (folds[o], GM_F32, &want);
      ck_assert (got == want);
      f (&got, x, n);
      wide (&want, w, n);
      ck_assert (!memcmp (&got, &want, sizeof got));
    }
  }
}
END_TEST

START_TEST (the_8_bit_floats_have_no_arithmetic)
{
  FOR_EACH_TABLE (t)
  for (int op = 0; op < 128; op++) {
    bool moves = false;
#define POINTWISE(code, version, name, n, types, ...)                                              \
  moves |= op == code && is_select_or_copy (#types, #name);
#include "plugin-api/gramme-ops.def"
    ck_assert (!!t->pointwise (op, GM_F8E4M3) == moves && !!t->pointwise (op, GM_F8E5M2) == moves);
    ck_assert (!t->fold (op, GM_F8E4M3) && !t->fold_columns (op, GM_F8E5M2)
               && !t->arg_fold (op, GM_F8E4M3));
  }
}
END_TEST

START_TEST (limits_follow_from_the_format)
{
  ck_assert (gm_dtype_largest (GM_F32) == 0x1.fffffep127 && gm_dtype_epsilon (GM_F32) == 0x1p-23);
  ck_assert (gm_dtype_largest (GM_F64) == 0x1.fffffffffffffp1023
             && gm_dtype_epsilon (GM_F64) == 0x1p-52);
  ck_assert (gm_dtype_largest (GM_F16) == 65504 && gm_dtype_epsilon (GM_F16) == 0x1p-10);
  ck_assert (gm_dtype_largest (GM_BF16) == 0x1.fep127 && gm_dtype_epsilon (GM_BF16) == 0x1p-7);
  ck_assert (gm_dtype_largest (GM_F8E4M3) == 448 && gm_dtype_epsilon (GM_F8E4M3) == 0.125);
  ck_assert (gm_dtype_largest (GM_F8E5M2) == 57344 && gm_dtype_epsilon (GM_F8E5M2) == 0.25);
}
END_TEST

int
main (void)
{
  tables[0] = gm_tiles_for ("avx2");
  tables[1] = gm_tiles_for ("avx512");
  Suite *s = suite_create ("small floats");
  TCase *t = tcase_create ("small floats");
  tcase_set_timeout (t, 120);
  tcase_add_test (t, known_numbers_have_their_codes);
  tcase_add_test (t, every_pattern_widens_to_its_value_and_comes_back);
  tcase_add_test (t, ties_go_to_the_even_neighbour_and_all_else_to_the_nearer);
  tcase_add_test (t, too_large_is_infinite_or_nan);
  tcase_add_test (t, any_f32_is_rounded_alike_everywhere);
  tcase_add_test (t, a_row_of_f16_is_f32s_rounded_once);
  tcase_add_test (t, a_fold_of_f16_is_accumulated_in_f32);
  tcase_add_test (t, the_8_bit_floats_have_no_arithmetic);
  tcase_add_test (t, limits_follow_from_the_format);
  suite_add_tcase (s, t);
  SRunner *sr = srunner_create (s);
  srunner_run_all (sr, CK_NORMAL);
  int failures = srunner_ntests_failed (sr);
  srunner_free (sr);
  return failures ? 1 : 0;
}
