/* SPDX-License-Identifier: Apache-2.0
 * test_dtype.c -- the table, promotion, single elements, names.
 */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/tensor/dtype.h"

START_TEST (the_table_agrees_with_c)
{
#define DTYPE(code, NAME, text, torch, ctype, nbits, dl, cat, compute_in, is_live)                 \
  ck_assert_uint_eq (gm_dtypes[GM_##NAME].bits, sizeof (ctype) * 8);                               \
  ck_assert_uint_eq (gm_dtype_size (GM_##NAME), sizeof (ctype));                                   \
  ck_assert_uint_eq (gm_dtypes[code].dlpack_code, dl);
#include "core/tensor/dtypes.def"
}
END_TEST

START_TEST (names_and_dlpack_codes_lead_back)
{
  for (int d = 0; d < GM_N_DTYPES; d++) {
    GmDtype got;
    ck_assert (gm_dtype_parse (gm_dtypes[d].text, strlen (gm_dtypes[d].text), &got)
               && (int) got == d);
    ck_assert (gm_dtype_parse (gm_dtypes[d].torch_name, strlen (gm_dtypes[d].torch_name), &got)
               && (int) got == d);
    ck_assert (gm_dtype_from_dlpack (gm_dtypes[d].dlpack_code, gm_dtypes[d].bits, &got)
               && (int) got == d);
  }
  GmDtype got;
  ck_assert (!gm_dtype_parse ("f3", 2, &got));
  ck_assert (!gm_dtype_parse ("f322", 4, &got));
  ck_assert (!gm_dtype_from_dlpack (2, 80, &got));
}
END_TEST

START_TEST (promotion_is_symmetric_and_follows_torch)
{
  for (int a = 0; a < GM_N_DTYPES; a++)
    for (int b = 0; b < GM_N_DTYPES; b++) {
      GmDtype p = gm_dtype_promote (a, b);
      ck_assert_int_eq (p, gm_dtype_promote (b, a));
      ck_assert_int_eq (gm_dtype_promote (p, a), p); /* a's values need nothing more */
    }
  ck_assert_int_eq (gm_dtype_promote (GM_BOOL, GM_U8), GM_U8);
  ck_assert_int_eq (gm_dtype_promote (GM_U8, GM_I8), GM_I16);
  ck_assert_int_eq (gm_dtype_promote (GM_U8, GM_I32), GM_I32);
  ck_assert_int_eq (gm_dtype_promote (GM_I64, GM_F32), GM_F32);
  ck_assert_int_eq (gm_dtype_promote (GM_I64, GM_F16), GM_F16);
  ck_assert_int_eq (gm_dtype_promote (GM_F16, GM_BF16), GM_F32);
  ck_assert_int_eq (gm_dtype_promote (GM_F32, GM_F64), GM_F64);
}
END_TEST

START_TEST (elements_are_converted_as_x86_does)
{
  static const struct {
    double in;
    int64_t i64;
    int32_t i32;
    uint8_t u8, b;
    int16_t i16;
  } cases[] = {
    { 1.9, 1, 1, 1, 1, 1 },
    { -1.9, -1, -1, 255, 1, -1 },
    { 300.7, 300, 300, 44, 1, 300 },
    { 0, 0, 0, 0, 0, 0 },
    { -0.0, 0, 0, 0, 0, 0 },
    { 3e9, 3000000000, INT32_MIN, 0, 1, 0 },
    { 1e300, INT64_MIN, INT32_MIN, 0, 1, 0 },
    { NAN, INT64_MIN, INT32_MIN, 0, 1, 0 },
    { 0.25, 0, 0, 0, 1, 0 },
    { 40000, 40000, 40000, 64, 1, -25536 },
  };
  for (size_t k = 0; k < G_N_ELEMENTS (cases); k++) {
    int64_t i64;
    int32_t i32;
    uint8_t u8, b;
    GmScalar s = gm_scalar_float (cases[k].in);
    gm_scalar_store (s, GM_I64, &i64);
    gm_scalar_store (s, GM_I32, &i32);
    gm_scalar_store (s, GM_U8, &u8);
    gm_scalar_store (s, GM_BOOL, &b);
    ck_assert_int_eq (i64, cases[k].i64);
    ck_assert_int_eq (i32, cases[k].i32);
    ck_assert_uint_eq (u8, cases[k].u8);
    int8_t i8;
    int16_t i16;
    gm_scalar_store (s, GM_I8, &i8);
    gm_scalar_store (s, GM_I16, &i16);
    ck_assert_int_eq (i8, (int8_t) cases[k].u8);
    ck_assert_int_eq (i16, cases[k].i16);
    ck_assert_uint_eq (b, cases[k].b);
  }
}
END_TEST

START_TEST (loading_gives_the_python_kind)
{
  float f = 0.5f;
  uint8_t b = 1;
  int32_t i = -7;
  ck_assert (gm_scalar_load (GM_F32, &f).kind == GM_CATEGORY_FLOAT
             && gm_scalar_load (GM_F32, &f).d == 0.5);
  ck_assert (gm_scalar_load (GM_BOOL, &b).kind == GM_CATEGORY_BOOL
             && gm_scalar_load (GM_BOOL, &b).i == 1);
  ck_assert (gm_scalar_load (GM_I32, &i).kind == GM_CATEGORY_INT
             && gm_scalar_load (GM_I32, &i).i == -7);
}
END_TEST

static gpointer
other_thread (gpointer data)
{
  *(GmDtype *) data = gm_default_dtype ();
  return NULL;
}

START_TEST (the_default_belongs_to_the_thread)
{
  ck_assert_int_eq (gm_default_dtype (), GM_F32);
  gm_default_dtype_set (GM_F64);
  ck_assert_int_eq (gm_default_dtype (), GM_F64);
  GmDtype elsewhere = GM_BOOL;
  g_thread_join (g_thread_new ("other", other_thread, &elsewhere));
  ck_assert_int_eq (elsewhere, GM_F32);
  gm_default_dtype_set (GM_F32);
}
END_TEST

int
main (void)
{
  Suite *suite = suite_create ("dtype");
  TCase *c = tcase_create ("dtype");
  tcase_add_test (c, the_table_agrees_with_c);
  tcase_add_test (c, names_and_dlpack_codes_lead_back);
  tcase_add_test (c, promotion_is_symmetric_and_follows_torch);
  tcase_add_test (c, elements_are_converted_as_x86_does);
  tcase_add_test (c, loading_gives_the_python_kind);
  tcase_add_test (c, the_default_belongs_to_the_thread);
  suite_add_tcase (suite, c);
  SRunner *sr = srunner_create (suite);
  srunner_run_all (sr, CK_NORMAL);
  int failures = srunner_ntests_failed (sr);
  srunner_free (sr);
  return failures ? 1 : 0;
}
