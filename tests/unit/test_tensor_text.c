/* SPDX-License-Identifier: Apache-2.0
 * test_tensor_text.c -- printing.  The expected texts are what torch prints for the same data (with
 * its name for the dtype).
 */
#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "core/tensor/tensor.h"

static GmTensor *
make (GmDtype d, int ndim, const int64_t *sizes, const double *values)
{
  GmMeta m = gm_meta_make (d, ndim, sizes);
  GmTensor *t = gm_tensor_new (&m, NULL);
  for (int64_t i = 0; i < gm_meta_numel (&m); i++)
    gm_scalar_store (gm_scalar_float (values[i]), d,
                     (char *) gm_tensor_data (t) + i * gm_dtype_size (d));
  return t;
}

static void
expect (GmDtype d, int ndim, const int64_t *sizes, const double *values, const char *suffix,
        const char *want)
{
  GmTensor *t = make (d, ndim, sizes, values);
  g_autofree char *got = gm_tensor_text (t, suffix);
  ck_assert_str_eq (got, want);
  gm_tensor_unref (t);
}
#define SIZES(...)                                                                                 \
  (sizeof ((int64_t[]){ __VA_ARGS__ }) / 8), (int64_t[])                                           \
  {                                                                                                \
    __VA_ARGS__                                                                                    \
  }
#define VALUES(...)                                                                                \
  (double[])                                                                                       \
  {                                                                                                \
    __VA_ARGS__                                                                                    \
  }

START_TEST (whole_floats_end_in_a_point)
{
  expect (GM_F32, SIZES (2, 2), VALUES (1, 2, 3, 4), NULL, "tensor([[1., 2.],\n        [3., 4.]])");
  expect (GM_F32, SIZES (3), VALUES (1, -20, 300), NULL, "tensor([  1., -20., 300.])");
  expect (GM_F32, SIZES (2), VALUES (0, 0), NULL, "tensor([0., 0.])");
  expect (GM_F32, 0, NULL, VALUES (3), NULL, "tensor(3.)");
}
END_TEST

START_TEST (fractions_have_four_digits_and_align)
{
  expect (GM_F32, SIZES (3), VALUES (0.5, 1.25, 100), NULL,
          "tensor([  0.5000,   1.2500, 100.0000])");
  expect (GM_F32, SIZES (2), VALUES (-0.5, 0.25), NULL, "tensor([-0.5000,  0.2500])");
  expect (GM_F32, 0, NULL, VALUES (0.1), NULL, "tensor(0.1000)");
}
END_TEST

START_TEST (wide_ranges_are_scientific)
{
  expect (GM_F32, SIZES (2), VALUES (1e-5, 1), NULL, "tensor([1.0000e-05, 1.0000e+00])");
  expect (GM_F32, SIZES (2), VALUES (1.5, 2000), NULL, "tensor([1.5000e+00, 2.0000e+03])");
  expect (GM_F32, SIZES (1), VALUES (1e9), NULL, "tensor([1.0000e+09])");
  expect (GM_F32, SIZES (2), VALUES (1, 1000), NULL, "tensor([   1., 1000.])");
}
END_TEST

START_TEST (nan_and_infinity_are_words)
{
  expect (GM_F32, SIZES (3), VALUES (NAN, INFINITY, -INFINITY), NULL, "tensor([nan, inf, -inf])");
  expect (GM_F32, SIZES (2), VALUES (-NAN, 0.5), NULL, "tensor([   nan, 0.5000])");
  expect (GM_F32, SIZES (2), VALUES (NAN, 1), NULL, "tensor([nan, 1.])");
}
END_TEST

START_TEST (integers_and_bools_are_plain)
{
  expect (GM_I64, SIZES (3), VALUES (1, -2, 30), NULL, "tensor([ 1, -2, 30])");
  expect (GM_BOOL, SIZES (2), VALUES (1, 0), NULL, "tensor([ True, False])");
  expect (GM_BOOL, 0, NULL, VALUES (1), NULL, "tensor(True)");
}
END_TEST

START_TEST (other_dtypes_are_named)
{
  expect (GM_F64, SIZES (1), VALUES (1), NULL, "tensor([1.], dtype=gramme.float64)");
  expect (GM_I32, SIZES (2), VALUES (1, 2), NULL, "tensor([1, 2], dtype=gramme.int32)");
  expect (GM_U8, 0, NULL, VALUES (7), NULL, "tensor(7, dtype=gramme.uint8)");
}
END_TEST

START_TEST (empty_tensors_show_their_size)
{
  expect (GM_F32, SIZES (0, 3), NULL, NULL, "tensor([], size=(0, 3))");
  expect (GM_F32, SIZES (0), NULL, NULL, "tensor([])");
  expect (GM_I64, SIZES (0), NULL, NULL, "tensor([], dtype=gramme.int64)");
}
END_TEST

START_TEST (a_suffix_comes_last)
{
  expect (GM_F32, SIZES (2), VALUES (1, 2), ", requires_grad=True",
          "tensor([1., 2.], requires_grad=True)");
  expect (GM_F64, SIZES (1), VALUES (1), ", requires_grad=True",
          "tensor([1.], dtype=gramme.float64, requires_grad=True)");
}
END_TEST

START_TEST (long_rows_are_wrapped)
{
  double v[30];
  for (int i = 0; i < 30; i++)
    v[i] = i;
  expect (GM_F32, SIZES (30), v, NULL,
          "tensor([ 0.,  1.,  2.,  3.,  4.,  5.,  6.,  7.,  8.,  9., 10., 11., 12., 13.,\n"
          "        14., 15., 16., 17., 18., 19., 20., 21., 22., 23., 24., 25., 26., 27.,\n"
          "        28., 29.])");
}
END_TEST

START_TEST (large_tensors_are_summarised)
{
  g_autofree double *v = g_new (double, 1200);
  for (int i = 0; i < 1200; i++)
    v[i] = i;
  expect (GM_I64, SIZES (1200), v, NULL, "tensor([   0,    1,    2,  ..., 1197, 1198, 1199])");
  expect (GM_I64, SIZES (12, 100), v, NULL,
          "tensor([[   0,    1,    2,  ...,   97,   98,   99],\n"
          "        [ 100,  101,  102,  ...,  197,  198,  199],\n"
          "        [ 200,  201,  202,  ...,  297,  298,  299],\n"
          "        ...,\n"
          "        [ 900,  901,  902,  ...,  997,  998,  999],\n"
          "        [1000, 1001, 1002,  ..., 1097, 1098, 1099],\n"
          "        [1100, 1101, 1102,  ..., 1197, 1198, 1199]])");
}
END_TEST

START_TEST (blocks_are_set_apart_by_blank_lines)
{
  expect (GM_F32, SIZES (2, 1, 2), VALUES (1, 2, 3, 4), NULL,
          "tensor([[[1., 2.]],\n\n        [[3., 4.]]])");
}
END_TEST

START_TEST (views_print_their_own_elements)
{
  GmTensor *t = make (GM_F32, SIZES (2, 3), VALUES (1, 2, 3, 4, 5, 6));
  GmMeta m = gm_meta_make (GM_F32, SIZES (3, 2));
  m.strides[0] = 1;
  m.strides[1] = 3;
  GmTensor *v = gm_tensor_new_view (t, &m, 0);
  g_autofree char *got = gm_tensor_text (v, NULL);
  ck_assert_str_eq (got, "tensor([[1., 4.],\n        [2., 5.],\n        [3., 6.]])");
  gm_tensor_unref (v);
  gm_tensor_unref (t);
}
END_TEST

int
main (void)
{
  Suite *suite = suite_create ("tensor_text");
  TCase *c = tcase_create ("tensor_text");
  tcase_add_test (c, whole_floats_end_in_a_point);
  tcase_add_test (c, fractions_have_four_digits_and_align);
  tcase_add_test (c, wide_ranges_are_scientific);
  tcase_add_test (c, nan_and_infinity_are_words);
  tcase_add_test (c, integers_and_bools_are_plain);
  tcase_add_test (c, other_dtypes_are_named);
  tcase_add_test (c, empty_tensors_show_their_size);
  tcase_add_test (c, a_suffix_comes_last);
  tcase_add_test (c, long_rows_are_wrapped);
  tcase_add_test (c, large_tensors_are_summarised);
  tcase_add_test (c, blocks_are_set_apart_by_blank_lines);
  tcase_add_test (c, views_print_their_own_elements);
  suite_add_tcase (suite, c);
  SRunner *sr = srunner_create (suite);
  srunner_run_all (sr, CK_NORMAL);
  int failures = srunner_ntests_failed (sr);
  srunner_free (sr);
  return failures ? 1 : 0;
}
