/* SPDX-License-Identifier: Apache-2.0
 * test_builder.c -- the small programs: their results, and that they emit nothing where nothing is
 * to be done.
 */
#include "tests/unit/grad_check.h"

#define SIZES(...)                                                                                 \
  (int) (sizeof ((const int64_t[]){ __VA_ARGS__ }) / sizeof (int64_t)), (const int64_t[])          \
  {                                                                                                \
    __VA_ARGS__                                                                                    \
  }

typedef struct {
  GmEagerBuilder b;
  GmTensor *x;
} Fixture; /* x: f64[2, 3] = 0 .. 5 */

static void
set_up (Fixture *f)
{
  gm_eager_builder_init (&f->b);
  f->x = tensor_f64 (SIZES (2, 3));
  for (int i = 0; i < 6; i++)
    elements (f->x)[i] = i;
}

static void
tear_down (Fixture *f)
{
  gm_eager_builder_clear (&f->b);
  gm_tensor_unref (f->x);
}

#define B (&f.b.base)
#define X gm_val_from_tensor (f.x)

static void
expect_shape (Fixture *f, GmVal v, const char *want)
{
  no_error (f->b.base.error);
  g_autofree char *got = gm_meta_text (gm_b_meta (&f->b.base, v));
  ck_assert_str_eq (got, want);
}

START_TEST (nothing_to_do_returns_the_input)
{
  Fixture f;
  set_up (&f);
  ck_assert_ptr_eq (gm_b_cast (B, X, GM_F64), X);
  ck_assert_ptr_eq (gm_b_permute (B, X, (int64_t[]){ 0, 1 }), X);
  ck_assert_ptr_eq (gm_b_transpose (B, X, 1, 1), X);
  ck_assert_ptr_eq (gm_b_expand (B, X, SIZES (2, 3)), X);
  ck_assert_ptr_eq (gm_b_view (B, X, SIZES (2, 3)), X);
  ck_assert_ptr_eq (gm_b_reshape (B, X, SIZES (2, 3)), X);
  ck_assert_ptr_eq (gm_b_contiguous (B, X), X);
  ck_assert_ptr_eq (gm_b_slice (B, X, 1, 0, 3, 1), X);
  ck_assert_ptr_eq (gm_b_sum_to (B, X, SIZES (2, 3)), X);
  ck_assert_int_eq (f.b.n_inline, 0);
  tear_down (&f);
}
END_TEST

START_TEST (reshape_copies_only_where_strides_ask_for_it)
{
  Fixture f;
  set_up (&f);
  GmVal flat = gm_b_reshape (B, X, SIZES (6));
  ck_assert_ptr_eq (gm_tensor_from_val (flat)->storage, f.x->storage);
  GmVal turned = gm_b_transpose (B, X, -1, 0);
  expect_shape (&f, turned, "f64[3, 2]");
  GmVal copied = gm_b_reshape (B, turned, SIZES (6));
  ck_assert_ptr_ne (gm_tensor_from_val (copied)->storage, f.x->storage);
  const double want[6] = { 0, 3, 1, 4, 2, 5 };
  ck_assert (!memcmp (elements (gm_tensor_from_val (copied)), want, sizeof want));
  ck_assert_ptr_null (gm_b_view (B, turned, SIZES (6)));
  ck_assert_ptr_nonnull (f.b.base.error);
  tear_down (&f);
}
END_TEST

START_TEST (contiguous_is_row_major_whatever_came)
{
  Fixture f;
  set_up (&f);
  GmVal turned = gm_b_contiguous (B, gm_b_transpose (B, X, 0, 1));
  ck_assert (gm_meta_is_contiguous (gm_b_meta (B, turned)));
  ck_assert (elements (gm_tensor_from_val (turned))[1] == 3);
  tear_down (&f);
}
END_TEST

START_TEST (sum_to_is_the_inverse_of_broadcasting)
{
  static const struct {
    int ndim;
    int64_t sizes[3];
    int n;
    double want[6];
  } rows[] = {
    { 0, { 0 }, 1, { 30 } },
    { 1, { 3 }, 3, { 6, 10, 14 } },
    { 2, { 2, 1 }, 2, { 6, 24 } },
    { 2, { 1, 3 }, 3, { 6, 10, 14 } },
    { 1, { 1 }, 1, { 30 } },
    { 2, { 1, 1 }, 1, { 30 } },
    { 2, { 2, 3 }, 6, { 0, 2, 4, 6, 8, 10 } },
  };
  for (size_t r = 0; r < G_N_ELEMENTS (rows); r++) {
    Fixture f;
    set_up (&f);
    GmVal twice = gm_b_expand (B, X, SIZES (2, 2, 3));
    GmVal v = gm_b_contiguous (B, gm_b_sum_to (B, twice, rows[r].ndim, rows[r].sizes));
    no_error (f.b.base.error);
    ck_assert_int_eq (gm_b_meta (B, v)->ndim, rows[r].ndim);
    for (int i = 0; i < rows[r].n; i++)
      ck_assert_msg (elements (gm_tensor_from_val (v))[i] == rows[r].want[i],
                     "row %d, element %d is %g", (int) r, i, elements (gm_tensor_from_val (v))[i]);
    tear_down (&f);
  }
}
END_TEST

START_TEST (constants_have_their_dtypes_kind)
{
  Fixture f;
  set_up (&f);
  GmTensor *i = gm_tensor_from_val (gm_b_scalar (B, gm_scalar_float (2.7), GM_I64));
  ck_assert_int_eq (*(int64_t *) gm_tensor_data (i), 2);
  GmTensor *t = gm_tensor_from_val (gm_b_scalar (B, gm_scalar_float (0.5), GM_BOOL));
  ck_assert_int_eq (*(uint8_t *) gm_tensor_data (t), 1);
  expect_shape (&f, gm_b_full (B, gm_scalar_int (1), GM_F32, SIZES (2, 0)), "f32[2, 0]");
  expect_shape (&f, gm_b_zeros_like (B, X), "f64[2, 3]");
  tear_down (&f);
}
END_TEST

START_TEST (the_first_error_stays_and_stops_everything)
{
  Fixture f;
  set_up (&f);
  ck_assert_ptr_null (gm_b_fail (B, GM_ERROR_VALUE, "first %d", 1));
  ck_assert_ptr_null (gm_b_fail (B, GM_ERROR_TYPE, "second"));
  ck_assert_str_eq (f.b.base.error->message, "first 1");
  ck_assert_ptr_null (gm_b (B, add, X, X));
  ck_assert_ptr_null (gm_b_cast (B, X, GM_F64));
  ck_assert_ptr_null (gm_b_reshape (B, NULL, SIZES (6)));
  ck_assert_ptr_null (gm_b_sum_to (B, NULL, 0, NULL));
  ck_assert_ptr_null (gm_b_zeros_like (B, NULL));
  ck_assert_int_eq (gm_b_meta (B, NULL)->ndim, 0);
  ck_assert_int_eq (f.b.n_inline, 0);
  tear_down (&f);
}
END_TEST

START_TEST (dimensions_out_of_range_are_errors)
{
  Fixture f;
  set_up (&f);
  ck_assert_ptr_null (gm_b_transpose (B, X, 0, 2));
  ck_assert_int_eq (f.b.base.error->code, GM_ERROR_INDEX);
  g_clear_error (&f.b.base.error);
  int64_t ones[GM_MAX_DIMS + 1] = { 1, 1, 1, 1, 1, 1, 1, 1, 6 };
  ck_assert_ptr_null (gm_b_view (B, X, GM_MAX_DIMS + 1, ones));
  ck_assert_ptr_nonnull (strstr (f.b.base.error->message, "at most 8"));
  tear_down (&f);
}
END_TEST

int
main (void)
{
  Suite *s = suite_create ("builder");
  TCase *t = tcase_create ("programs");
  tcase_add_test (t, nothing_to_do_returns_the_input);
  tcase_add_test (t, reshape_copies_only_where_strides_ask_for_it);
  tcase_add_test (t, contiguous_is_row_major_whatever_came);
  tcase_add_test (t, sum_to_is_the_inverse_of_broadcasting);
  tcase_add_test (t, constants_have_their_dtypes_kind);
  tcase_add_test (t, the_first_error_stays_and_stops_everything);
  tcase_add_test (t, dimensions_out_of_range_are_errors);
  suite_add_tcase (s, t);
  SRunner *r = srunner_create (s);
  srunner_run_all (r, CK_NORMAL);
  int failures = srunner_ntests_failed (r);
  srunner_free (r);
  return failures ? 1 : 0;
}
