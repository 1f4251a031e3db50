/* SPDX-License-Identifier: Apache-2.0
 * test_random.c -- the generator's counter; and a tensor's numbers depend on state and position
 * alone.
 */
#include "core/ops/ops.h"

#include <check.h>
#include <math.h>
#include <string.h>

static GmTensor *
state_tensor (int64_t seed, int64_t base)
{
  GmMeta m = gm_meta_make (GM_I64, 1, (int64_t[]){ 2 });
  GmTensor *t = gm_tensor_new (&m, NULL);
  ((int64_t *) gm_tensor_data (t))[0] = seed;
  ((int64_t *) gm_tensor_data (t))[1] = base;
  return t;
}

/* Release function for foreign memory on the stack: with NULL the tensor allocator would free
 * it. */
static void
keep (void *owner, void *data, size_t bytes)
{
  (void) owner, (void) data, (void) bytes;
}

static GmTensor *
draw (GmOp op, GmDtype dtype, int64_t n, int64_t seed, int64_t base, int64_t offset)
{
  g_autoptr (GmTensor) state = state_tensor (seed, base);
  GmAttrs attrs = {
    .mask = gm_op_attr_mask (op), .dtype = dtype, .offset = offset, .n_list = 1, .list = { n }
  };
  GmTensor *t = gm_op_run (op, &state, 1, &attrs, NULL);
  ck_assert_ptr_nonnull (t);
  return t;
}

START_TEST (take_counts_draws)
{
  gm_random_seed (7);
  ck_assert_uint_eq (gm_random_current_seed (), 7);
  ck_assert_uint_eq (gm_random_take (3), 0);
  ck_assert_uint_eq (gm_random_take (1), 3);
  int64_t state[2];
  gm_random_get_state (state);
  ck_assert (state[0] == 7 && state[1] == 4);
  gm_random_take (10);
  gm_random_set_state (state);
  ck_assert_uint_eq (gm_random_take (1), 4);
}
END_TEST

START_TEST (numbers_follow_from_seed_and_draw)
{
  for (GmOp op = GM_OP_uniform; op <= GM_OP_normal; op++)
    for (int wide = 0; wide < 2; wide++) {
      GmDtype dtype = wide ? GM_F64 : GM_F32;
      size_t elem = gm_dtype_size (dtype);
      g_autoptr (GmTensor) whole = draw (op, dtype, 1000, 5, 100, 0),
                           again = draw (op, dtype, 1000, 5, 90, 10),
                           tail = draw (op, dtype, 200, 5, 100, 200),
                           other = draw (op, dtype, 1000, 6, 100, 0);
      ck_assert (memcmp (gm_tensor_data (whole), gm_tensor_data (again), 1000 * elem) == 0);
      ck_assert (
          memcmp ((char *) gm_tensor_data (whole) + 800 * elem, gm_tensor_data (tail), 200 * elem)
          == 0);
      ck_assert (memcmp (gm_tensor_data (whole), gm_tensor_data (other), 1000 * elem) != 0);
    }
}
END_TEST

START_TEST (a_strided_result_gets_the_same_numbers)
{
  g_autoptr (GmTensor) flat = draw (GM_OP_normal, GM_F32, 40 * 30, 1, 2, 3),
                       state = state_tensor (1, 2);
  float memory[40 * 30];
  GmMeta m = gm_meta_make (GM_F32, 2, (int64_t[]){ 40, 30 });
  m.strides[0] = 1, m.strides[1] = 40;
  g_autoptr (GmTensor) out = gm_tensor_new_foreign (&m, memory, sizeof memory, false, keep, NULL);
  GmAttrs attrs = { .mask = gm_op_attr_mask (GM_OP_normal),
                    .dtype = GM_F32,
                    .offset = 3,
                    .n_list = 2,
                    .list = { 40, 30 } };
  ck_assert (gm_op_run_into (GM_OP_normal, &state, 1, &attrs, out, NULL));
  for (int64_t i = 0; i < 40 * 30; i++)
    ck_assert (memory[i / 30 + i % 30 * 40] == ((float *) gm_tensor_data (flat))[i]);
}
END_TEST

START_TEST (moments_are_right)
{
  enum { N = 100000 };
  g_autoptr (GmTensor) u = draw (GM_OP_uniform, GM_F64, N, 11, 0, 0),
                       z = draw (GM_OP_normal, GM_F64, N, 11, 0, 0);
  const double *x = gm_tensor_data (u), *y = gm_tensor_data (z);
  double mean_u = 0, mean_z = 0, square_z = 0;
  for (int i = 0; i < N; i++) {
    ck_assert (x[i] >= 0 && x[i] < 1);
    mean_u += x[i] / N;
    mean_z += y[i] / N;
    square_z += y[i] * y[i] / N;
  }
  /* five standard errors */
  ck_assert (fabs (mean_u - 0.5) < 5 * sqrt (1.0 / 12 / N));
  ck_assert (fabs (mean_z) < 5 * sqrt (1.0 / N));
  ck_assert (fabs (square_z - 1) < 5 * sqrt (2.0 / N));
}
END_TEST

START_TEST (a_wrong_state_is_refused)
{
  GmMeta m = gm_meta_make (GM_I64, 1, (int64_t[]){ 3 });
  g_autoptr (GmTensor) state = gm_tensor_new_zeros (&m, NULL);
  GmAttrs attrs = {
    .mask = gm_op_attr_mask (GM_OP_uniform), .dtype = GM_F32, .n_list = 1, .list = { 4 }
  };
  g_autoptr (GError) error = NULL;
  ck_assert_ptr_null (gm_op_run (GM_OP_uniform, &state, 1, &attrs, &error));
  ck_assert_ptr_nonnull (strstr (error->message, "i64[3]"));
}
END_TEST

int
main (void)
{
  Suite *s = suite_create ("random");
  TCase *t = tcase_create ("generator");
  tcase_add_test (t, take_counts_draws);
  tcase_add_test (t, numbers_follow_from_seed_and_draw);
  tcase_add_test (t, a_strided_result_gets_the_same_numbers);
  tcase_add_test (t, moments_are_right);
  tcase_add_test (t, a_wrong_state_is_refused);
  suite_add_tcase (s, t);
  SRunner *sr = srunner_create (s);
  srunner_run_all (sr, CK_NORMAL);
  int failures = srunner_ntests_failed (sr);
  srunner_free (sr);
  return failures ? 1 : 0;
}
