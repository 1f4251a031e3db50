/* SPDX-License-Identifier: Apache-2.0
 * test_meta.c -- shapes, strides, broadcasting.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/error.h"
#include "core/tensor/meta.h"

#define SIZES(...)                                                                                 \
  (sizeof ((int64_t[]){ __VA_ARGS__ }) / 8), (int64_t[])                                           \
  {                                                                                                \
    __VA_ARGS__                                                                                    \
  }

static GmMeta
strided (GmMeta m, int64_t a, int64_t b)
{
  m.strides[0] = a;
  m.strides[1] = b;
  return m;
}

START_TEST (a_new_meta_is_row_major_and_comparable)
{
  GmMeta m = gm_meta_make (GM_F32, SIZES (2, 3, 4)), n = gm_meta_make (GM_F32, SIZES (2, 3, 4));
  ck_assert (m.strides[0] == 12 && m.strides[1] == 4 && m.strides[2] == 1);
  ck_assert (!memcmp (&m, &n, sizeof m));
  ck_assert (gm_meta_is_contiguous (&m) && gm_meta_is_dense (&m));
  ck_assert_int_eq (gm_meta_numel (&m), 24);
  ck_assert_int_eq (gm_meta_extent (&m), 24);
  GmMeta zero = gm_meta_make (GM_F32, 0, NULL);
  ck_assert_int_eq (gm_meta_numel (&zero), 1);
  GmMeta empty = gm_meta_make (GM_F32, SIZES (2, 0, 3));
  ck_assert (empty.strides[0] == 3 && empty.strides[1] == 3 && empty.strides[2] == 1);
  ck_assert_int_eq (gm_meta_numel (&empty), 0);
  ck_assert_int_eq (gm_meta_extent (&empty), 0);
}
END_TEST

START_TEST (dense_means_some_order_without_gaps)
{
  GmMeta m = gm_meta_make (GM_F32, SIZES (3, 2)), t = strided (m, 1, 3), gap = strided (m, 4, 1),
         overlap = strided (m, 1, 1), repeat = strided (m, 1, 0), back = strided (m, -2, 1);
  ck_assert (!gm_meta_is_contiguous (&t) && gm_meta_is_dense (&t));
  ck_assert (!gm_meta_is_dense (&gap) && !gm_meta_is_dense (&overlap) && !gm_meta_is_dense (&repeat)
             && !gm_meta_is_dense (&back));
  ck_assert_int_eq (gm_meta_extent (&gap), 10);
  ck_assert_int_eq (gm_meta_extent (&back), 6);
  ck_assert_int_eq (gm_meta_extent (&repeat), 3);
  GmMeta ones = gm_meta_make (GM_F32, SIZES (1, 5));
  ones.strides[0] = 777; /* never used */
  ck_assert (gm_meta_is_contiguous (&ones) && gm_meta_is_dense (&ones));
}
END_TEST

START_TEST (products_saturate)
{
  GmMeta m = gm_meta_make (GM_F32, SIZES (INT64_MAX / 2, 3, 5));
  ck_assert_int_eq (gm_meta_numel (&m), INT64_MAX);
  ck_assert_int_eq (gm_meta_extent (&m), INT64_MAX);
  GmMeta empty = gm_meta_make (GM_F32, SIZES (INT64_MAX, 3, 0));
  ck_assert_int_eq (gm_meta_numel (&empty), 0);
}
END_TEST

START_TEST (broadcasting_aligns_at_the_end)
{
  GmMeta a = gm_meta_make (GM_F32, SIZES (8, 1, 6, 1)), b = gm_meta_make (GM_F32, SIZES (7, 1, 5)),
         out = a;
  ck_assert (gm_meta_broadcast (&a, &b, &out, NULL));
  ck_assert (out.ndim == 4 && out.sizes[0] == 8 && out.sizes[1] == 7 && out.sizes[2] == 6
             && out.sizes[3] == 5);
  GmMeta empty = gm_meta_make (GM_F32, SIZES (0)), one = gm_meta_make (GM_F32, SIZES (1));
  ck_assert (gm_meta_broadcast (&empty, &one, &out, NULL) && out.ndim == 1 && out.sizes[0] == 0);
  ck_assert_int_eq (out.sizes[1], 0); /* unused entries stay zero */
  ck_assert (gm_meta_broadcast (&a, &a, &a, NULL) && a.sizes[0] == 8); /* in place */
}
END_TEST

START_TEST (shapes_that_do_not_fit_are_both_named)
{
  GmMeta a = gm_meta_make (GM_F32, SIZES (2, 3)), b = gm_meta_make (GM_F32, SIZES (4, 3)), out = a;
  g_autoptr (GError) error = NULL;
  ck_assert (!gm_meta_broadcast (&a, &b, &out, &error));
  ck_assert (g_error_matches (error, GM_ERROR, GM_ERROR_RUNTIME));
  ck_assert (strstr (error->message, "[2, 3]") && strstr (error->message, "[4, 3]")
             && strstr (error->message, "dimension 0"));
}
END_TEST

START_TEST (text_is_the_graphs_form)
{
  GmMeta m = gm_meta_make (GM_F32, SIZES (64, 10)), s = gm_meta_make (GM_BOOL, 0, NULL);
  g_autofree char *a = gm_meta_text (&m), *b = gm_meta_text (&s), *c = gm_shape_text (2, m.sizes);
  ck_assert_str_eq (a, "f32[64, 10]");
  ck_assert_str_eq (b, "b1[]");
  ck_assert_str_eq (c, "[64, 10]");
}
END_TEST

int
main (void)
{
  Suite *suite = suite_create ("meta");
  TCase *c = tcase_create ("meta");
  tcase_add_test (c, a_new_meta_is_row_major_and_comparable);
  tcase_add_test (c, dense_means_some_order_without_gaps);
  tcase_add_test (c, products_saturate);
  tcase_add_test (c, broadcasting_aligns_at_the_end);
  tcase_add_test (c, shapes_that_do_not_fit_are_both_named);
  tcase_add_test (c, text_is_the_graphs_form);
  suite_add_tcase (suite, c);
  SRunner *sr = srunner_create (suite);
  srunner_run_all (sr, CK_NORMAL);
  int failures = srunner_ntests_failed (sr);
  srunner_free (sr);
  return failures ? 1 : 0;
}
