/* SPDX-License-Identifier: Apache-2.0
 * test_infer.c -- shape, stride and dtype rules on metas alone, and their messages.
 */
#include "core/ops/builder.h"
#include "core/ops/ops.h"

#include <check.h>
#include <string.h>

#define SIZES(...)                                                                                 \
  (const int64_t[]){ __VA_ARGS__ }, (int) (sizeof ((int64_t[]){ __VA_ARGS__ }) / sizeof (int64_t))
#define LIST(op, ...)                                                                              \
  {                                                                                                \
    .mask = gm_op_attr_mask (op),                                                                  \
    .n_list = sizeof ((int64_t[]){ __VA_ARGS__ }) / sizeof (int64_t), .list = {                    \
      __VA_ARGS__                                                                                  \
    }                                                                                              \
  }

static GmMeta
meta (GmDtype dtype, const int64_t *sizes, int ndim)
{
  return gm_meta_make (dtype, ndim, sizes);
}

static GmMeta
infer (GmOp op, int n, const GmMeta *a, const GmMeta *b, const GmAttrs *attrs)
{
  g_autoptr (GError) error = NULL;
  GmMeta out;
  ck_assert_msg (gm_op_infer (op, (const GmMeta *const[]){ a, b }, n, attrs, &out, &error),
                 "%s: %s", gm_ops[op].name, error ? error->message : "");
  return out;
}

/* Checks that the call fails with `code`, and that its message contains every one of the texts. */
static void
refuse (GmOp op, const GmMeta *const *in, int n, const GmAttrs *attrs, GmError code,
        const char *const *texts)
{
  GError *error = NULL;
  GmMeta out;
  ck_assert_msg (!gm_op_infer (op, in, n, attrs, &out, &error), "%s was accepted", gm_ops[op].name);
  ck_assert_msg (g_error_matches (error, GM_ERROR, (int) code), "%s: code %d", error->message,
                 error->code);
  for (; *texts; texts++)
    ck_assert_msg (strstr (error->message, *texts), "\"%s\" does not say %s", error->message,
                   *texts);
  g_error_free (error);
}
#define IN(...)                                                                                    \
  (const GmMeta *const[]){ __VA_ARGS__ },                                                          \
      (int) (sizeof ((const GmMeta *const[]){ __VA_ARGS__ }) / sizeof (GmMeta *))
#define SAYS(...)                                                                                  \
  (const char *const[])                                                                            \
  {                                                                                                \
    __VA_ARGS__, NULL                                                                              \
  }

static void
assert_shape (const GmMeta *m, const char *want)
{
  g_autofree char *text = gm_meta_text (m);
  ck_assert_str_eq (text, want);
}

/* -- The table --------------------------------------------------------------------------------- */

START_TEST (every_row_is_found_by_its_name)
{
  for (int op = 1; op < GM_N_OPS; op++)
    if (gm_ops[op].name) {
      ck_assert_int_eq (gm_op_find (gm_ops[op].name, strlen (gm_ops[op].name)), op);
      ck_assert_int_ge (gm_ops[op].version, 1);
      ck_assert_int_ne (gm_ops[op].family, GM_FAMILY_NONE);
      ck_assert_int_eq (gm_op_attr_mask (op) & gm_op_attr_optional (op), 0);
    }
  ck_assert_int_eq (gm_op_find ("addition", 3), GM_OP_add);
  ck_assert_int_eq (gm_op_find ("addition", 8), GM_OP_NONE);
  ck_assert_str_eq (gm_ops[GM_OP_add].value, "a + b");
  ck_assert_int_eq (gm_ops[GM_OP_where].arity, 3);
  ck_assert_int_eq (gm_ops[GM_OP_cat].arity, -1);
}
END_TEST

START_TEST (attributes_have_lower_case_names_and_places)
{
  GmAttrs a = { .dim = 7 };
  ck_assert_str_eq (gm_attrs[GM_ATTR_DIM].name, "dim");
  ck_assert_str_eq (gm_attrs[GM_ATTR_VALUE2].name, "value2");
  ck_assert_str_eq (gm_attrs[GM_ATTR_DESCENDING].name, "descending");
  ck_assert_int_eq (gm_attrs[GM_ATTR_DIMS].type, 'L');
  ck_assert_int_eq (*(int64_t *) ((char *) &a + gm_attrs[GM_ATTR_DIM].offset), 7);
}
END_TEST

START_TEST (differentiable_inputs_follow_the_gradient_column)
{
  ck_assert (gm_op_is_differentiable (GM_OP_add, 0) && gm_op_is_differentiable (GM_OP_add, 1));
  ck_assert (gm_op_is_differentiable (GM_OP_floor, 0));
  ck_assert (!gm_op_is_differentiable (GM_OP_where, 0) && gm_op_is_differentiable (GM_OP_where, 2));
  ck_assert (!gm_op_is_differentiable (GM_OP_eq, 0) && !gm_op_is_differentiable (GM_OP_any, 0));
  ck_assert (gm_op_is_differentiable (GM_OP_gather, 0)
             && !gm_op_is_differentiable (GM_OP_gather, 1));
  ck_assert (gm_op_is_differentiable (GM_OP_scatter_add, 2)
             && !gm_op_is_differentiable (GM_OP_argmax, 0));
  ck_assert (gm_op_is_differentiable (GM_OP_cat, 9) && gm_op_is_differentiable (GM_OP_matmul, 1));
  ck_assert (!gm_op_is_differentiable (GM_OP_detach, 0)
             && gm_op_is_differentiable (GM_OP_slice_scatter, 1));
}
END_TEST

START_TEST (requires_grad_flows_through_differentiable_inputs_to_floats)
{
  GmMeta x = meta (GM_F32, SIZES (4)), w = x, c = meta (GM_BOOL, SIZES (4));
  w.requires_grad = 1;
  ck_assert_int_eq (infer (GM_OP_add, 2, &x, &w, NULL).requires_grad, 1);
  ck_assert_int_eq (infer (GM_OP_add, 2, &x, &x, NULL).requires_grad, 0);
  ck_assert_int_eq (infer (GM_OP_lt, 2, &x, &w, NULL).requires_grad, 0);
  ck_assert_int_eq (infer (GM_OP_detach, 1, &w, NULL, NULL).requires_grad, 0);
  GmAttrs to_int = { .mask = 1u << GM_ATTR_DTYPE, .dtype = GM_I64 };
  ck_assert_int_eq (infer (GM_OP_cast, 1, &w, NULL, &to_int).requires_grad, 0);
  GmMeta out;
  ck_assert (gm_op_infer (GM_OP_where, (const GmMeta *const[]){ &c, &x, &w }, 3, NULL, &out, NULL));
  ck_assert_int_eq (out.requires_grad, 1);
}
END_TEST

/* -- Shapes ------------------------------------------------------------------------------------ */

START_TEST (pointwise_broadcasts)
{
  GmMeta a = meta (GM_F32, SIZES (4, 1, 3)), b = meta (GM_F32, SIZES (2, 1)),
         s = meta (GM_F32, NULL, 0);
  GmMeta y = infer (GM_OP_add, 2, &a, &b, NULL);
  assert_shape (&y, "f32[4, 2, 3]");
  ck_assert (gm_meta_is_contiguous (&y));
  y = infer (GM_OP_lt, 2, &s, &b, NULL);
  assert_shape (&y, "b1[2, 1]");
  y = infer (GM_OP_mul, 2, &s, &s, NULL);
  assert_shape (&y, "f32[]");
}
END_TEST

START_TEST (pointwise_takes_the_strides_of_the_first_dense_input_of_the_result_shape)
{
  GmMeta row = meta (GM_F32, SIZES (2, 3)), column = row, gaps = row,
         vector = meta (GM_F32, SIZES (3));
  column.strides[0] = 1, column.strides[1] = 2;
  gaps.strides[0] = 6, gaps.strides[1] = 2;
  ck_assert_int_eq (infer (GM_OP_add, 2, &column, &row, NULL).strides[1], 2);
  ck_assert_int_eq (infer (GM_OP_add, 2, &row, &column, NULL).strides[1], 1);
  ck_assert_int_eq (infer (GM_OP_add, 2, &vector, &column, NULL).strides[1], 2);
  ck_assert_int_eq (infer (GM_OP_add, 2, &gaps, &column, NULL).strides[1], 2);
  ck_assert_int_eq (infer (GM_OP_neg, 1, &gaps, NULL, NULL).strides[0], 3);
}
END_TEST

START_TEST (view_strides_of_a_matrix_with_gaps)
{
  GmMeta x = meta (GM_F32, SIZES (4, 6));
  x.strides[0] = 10;
  GmAttrs split = LIST (GM_OP_view, 2, 2, 3, 2), merge = LIST (GM_OP_view, 24),
          ones = LIST (GM_OP_view, 1, 4, 1, 6);
  GmMeta y = infer (GM_OP_view, 1, &x, NULL, &split);
  ck_assert (y.strides[0] == 20 && y.strides[1] == 10 && y.strides[2] == 2 && y.strides[3] == 1);
  y = infer (GM_OP_view, 1, &x, NULL, &ones);
  ck_assert (y.strides[1] == 10 && y.strides[3] == 1);
  refuse (GM_OP_view, IN (&x), &merge, GM_ERROR_RUNTIME,
          SAYS ("[4, 6]", "[24]", "[10, 1]", "reshape"));
}
END_TEST

START_TEST (view_of_empty_and_scalar)
{
  GmMeta empty = meta (GM_F32, SIZES (0, 3)), scalar = meta (GM_F32, NULL, 0);
  GmAttrs to_empty = LIST (GM_OP_view, 5, 0), to_ones = LIST (GM_OP_view, 1, 1);
  GmMeta y = infer (GM_OP_view, 1, &empty, NULL, &to_empty);
  assert_shape (&y, "f32[5, 0]");
  y = infer (GM_OP_view, 1, &scalar, NULL, &to_ones);
  assert_shape (&y, "f32[1, 1]");
}
END_TEST

START_TEST (reductions_drop_or_keep)
{
  GmMeta x = meta (GM_F32, SIZES (2, 3, 4));
  GmAttrs middle = LIST (GM_OP_sum, 1), all = { .mask = gm_op_attr_mask (GM_OP_sum) };
  GmMeta y = infer (GM_OP_sum, 1, &x, NULL, &middle);
  assert_shape (&y, "f32[2, 4]");
  middle.keepdim = true;
  y = infer (GM_OP_sum, 1, &x, NULL, &middle);
  assert_shape (&y, "f32[2, 1, 4]");
  y = infer (GM_OP_sum, 1, &x, NULL, &all);
  assert_shape (&y, "f32[]");
  GmAttrs arg = { .mask = gm_op_attr_mask (GM_OP_argmax) | 1u << GM_ATTR_DIM, .dim = 2 };
  y = infer (GM_OP_argmax, 1, &x, NULL, &arg);
  assert_shape (&y, "i64[2, 3]");
}
END_TEST

START_TEST (matmul_broadcasts_batches)
{
  GmMeta a = meta (GM_F64, SIZES (5, 1, 2, 3)), b = meta (GM_F64, SIZES (4, 3, 6));
  GmMeta y = infer (GM_OP_matmul, 2, &a, &b, NULL);
  assert_shape (&y, "f64[5, 4, 2, 6]");
}
END_TEST

/* -- Refusals ---------------------------------------------------------------------------------- */

START_TEST (mismatches_show_both_sides)
{
  GmMeta f = meta (GM_F32, SIZES (2, 3)), g = meta (GM_F32, SIZES (4, 3)),
         d = meta (GM_F64, SIZES (2, 3)), i = meta (GM_I64, SIZES (2, 3)),
         b = meta (GM_BOOL, SIZES (2, 3)), v = meta (GM_F32, SIZES (3));
  refuse (GM_OP_add, IN (&f, &g), NULL, GM_ERROR_RUNTIME, SAYS ("add", "[2, 3]", "[4, 3]"));
  refuse (GM_OP_add, IN (&f, &d), NULL, GM_ERROR_RUNTIME, SAYS ("float32", "float64"));
  refuse (GM_OP_exp, IN (&i), NULL, GM_ERROR_RUNTIME, SAYS ("exp", "floating", "int64"));
  refuse (GM_OP_logical_and, IN (&f, &f), NULL, GM_ERROR_RUNTIME, SAYS ("bool", "float32"));
  refuse (GM_OP_bitwise_and, IN (&f, &f), NULL, GM_ERROR_RUNTIME, SAYS ("integer", "float32"));
  refuse (GM_OP_neg, IN (&b), NULL, GM_ERROR_RUNTIME, SAYS ("neg", "bool"));
  refuse (GM_OP_where, IN (&f, &f, &f), NULL, GM_ERROR_RUNTIME, SAYS ("condition", "float32"));
  refuse (GM_OP_matmul, IN (&f, &g), NULL, GM_ERROR_RUNTIME,
          SAYS ("[2, 3]", "[4, 3]", "3 columns", "4 rows"));
  refuse (GM_OP_matmul, IN (&f, &v), NULL, GM_ERROR_RUNTIME, SAYS ("[2, 3]", "[3]"));
  refuse (GM_OP_matmul, IN (&f, &d), NULL, GM_ERROR_RUNTIME, SAYS ("float32", "float64"));
  refuse (GM_OP_copy_, IN (&f, &g), NULL, GM_ERROR_RUNTIME, SAYS ("[4, 3]", "[2, 3]"));
}
END_TEST

START_TEST (movement_out_of_range)
{
  GmMeta x = meta (GM_F32, SIZES (2, 3));
  GmAttrs twice = LIST (GM_OP_permute, 0, 0), wrong = LIST (GM_OP_view, 7),
          grow = LIST (GM_OP_expand, 4, 3), few = LIST (GM_OP_expand, 3),
          huge = LIST (GM_OP_expand, INT64_MAX, 2, 3), negative = LIST (GM_OP_view, -1, 6),
          slice = {
            .mask = gm_op_attr_mask (GM_OP_slice), .dim = 1, .start = 1, .stop = 4, .step = 1
          };
  refuse (GM_OP_permute, IN (&x), &twice, GM_ERROR_RUNTIME, SAYS ("[0, 0]", "[2, 3]"));
  refuse (GM_OP_view, IN (&x), &wrong, GM_ERROR_RUNTIME, SAYS ("[2, 3]", "6", "[7]"));
  refuse (GM_OP_view, IN (&x), &negative, GM_ERROR_RUNTIME, SAYS ("-1", "negative"));
  refuse (GM_OP_expand, IN (&x), &grow, GM_ERROR_RUNTIME, SAYS ("[2, 3]", "[4, 3]"));
  refuse (GM_OP_expand, IN (&x), &few, GM_ERROR_RUNTIME, SAYS ("[2, 3]", "[3]"));
  refuse (GM_OP_expand, IN (&x), &huge, GM_ERROR_MEMORY, SAYS ("expand", "63 bits"));
  GmAttrs same = LIST (GM_OP_diagonal, 1, 1), none = LIST (GM_OP_diagonal, 0),
          left = LIST (GM_OP_diagonal, 0, 1), wide = LIST (GM_OP_unfold, 4),
          back = LIST (GM_OP_unfold, 1), negative_window = LIST (GM_OP_unfold, -1);
  left.start = -1;
  wide.dim = back.dim = negative_window.dim = 1;
  wide.step = negative_window.step = 1;
  refuse (GM_OP_diagonal, IN (&x), &same, GM_ERROR_RUNTIME, SAYS ("[1, 1]", "[2, 3]"));
  refuse (GM_OP_diagonal, IN (&x), &none, GM_ERROR_RUNTIME, SAYS ("[0]", "[2, 3]"));
  refuse (GM_OP_diagonal, IN (&x), &left, GM_ERROR_RUNTIME, SAYS ("-1", "negative"));
  refuse (GM_OP_unfold, IN (&x), &wide, GM_ERROR_RUNTIME, SAYS ("[4]", "size 3"));
  refuse (GM_OP_unfold, IN (&x), &back, GM_ERROR_RUNTIME, SAYS ("step of 0", "size 3"));
  refuse (GM_OP_unfold, IN (&x), &negative_window, GM_ERROR_RUNTIME, SAYS ("[-1]", "size 3"));
  refuse (GM_OP_slice, IN (&x), &slice, GM_ERROR_INDEX, SAYS ("1:4", "size 3"));
  slice.stop = 3, slice.step = 0;
  refuse (GM_OP_slice, IN (&x), &slice, GM_ERROR_VALUE, SAYS ("step", "0"));
  slice.step = 1, slice.dim = 2;
  refuse (GM_OP_slice, IN (&x), &slice, GM_ERROR_INDEX, SAYS ("dimension 2", "[2, 3]"));
}
END_TEST

START_TEST (reductions_out_of_range)
{
  GmMeta x = meta (GM_F32, SIZES (2, 3)), e = meta (GM_F32, SIZES (2, 0)),
         b = meta (GM_BOOL, SIZES (2));
  GmAttrs far = LIST (GM_OP_sum, 2), twice = LIST (GM_OP_sum, 1, 1),
          all = { .mask = gm_op_attr_mask (GM_OP_amax) };
  refuse (GM_OP_sum, IN (&x), &far, GM_ERROR_INDEX, SAYS ("dimension 2", "[2, 3]"));
  refuse (GM_OP_sum, IN (&x), &twice, GM_ERROR_RUNTIME, SAYS ("twice"));
  refuse (GM_OP_amax, IN (&e), &all, GM_ERROR_RUNTIME, SAYS ("amax", "[2, 0]", "empty"));
  refuse (GM_OP_sum, IN (&b), &all, GM_ERROR_RUNTIME, SAYS ("numeric", "bool"));
  GmAttrs arg = { .mask = gm_op_attr_mask (GM_OP_argmin) };
  refuse (GM_OP_argmin, IN (&e), &arg, GM_ERROR_RUNTIME, SAYS ("argmin", "empty"));
}
END_TEST

START_TEST (indexing_that_does_not_fit)
{
  GmMeta x = meta (GM_F32, SIZES (2, 3)), index = meta (GM_I64, SIZES (3, 3)),
         flat = meta (GM_I64, SIZES (2)), narrow = meta (GM_I32, SIZES (2, 3)),
         y = meta (GM_F32, SIZES (2, 4)), d = meta (GM_F64, SIZES (2, 3));
  GmAttrs dim = { .mask = 1u << GM_ATTR_DIM, .dim = 1 };
  refuse (GM_OP_gather, IN (&x, &index), &dim, GM_ERROR_RUNTIME, SAYS ("[3, 3]", "[2, 3]"));
  refuse (GM_OP_gather, IN (&x, &flat), &dim, GM_ERROR_RUNTIME, SAYS ("[2]", "[2, 3]"));
  refuse (GM_OP_gather, IN (&x, &narrow), &dim, GM_ERROR_RUNTIME, SAYS ("int64", "int32"));
  refuse (GM_OP_index_select, IN (&x, &index), &dim, GM_ERROR_INDEX,
          SAYS ("one dimension", "[3, 3]"));
  refuse (GM_OP_index_add, IN (&x, &flat, &y), &dim, GM_ERROR_RUNTIME, SAYS ("2", "4"));
  refuse (GM_OP_cat, IN (&x, &d), &dim, GM_ERROR_RUNTIME, SAYS ("float32", "float64"));
  dim.dim = 0;
  refuse (GM_OP_cat, IN (&x, &y), &dim, GM_ERROR_RUNTIME, SAYS ("[2, 3]", "[2, 4]", "dimension 0"));
}
END_TEST

START_TEST (calls_that_are_no_calls)
{
  GmMeta x = meta (GM_F32, SIZES (2)), out;
  g_autoptr (GError) error = NULL;
  ck_assert (!gm_op_infer ((GmOp) 127, (const GmMeta *const[]){ &x }, 1, NULL, &out, &error));
  refuse (GM_OP_add, IN (&x), NULL, GM_ERROR_TYPE, SAYS ("add", "2", "1"));
  refuse (GM_OP_sum, IN (&x), NULL, GM_ERROR_TYPE, SAYS ("sum", "dims"));
  GmAttrs extra = { .mask = 1u << GM_ATTR_STEP };
  refuse (GM_OP_neg, IN (&x), &extra, GM_ERROR_TYPE, SAYS ("neg", "step"));
  GmAttrs none = { .mask = 1u << GM_ATTR_DTYPE, .dtype = GM_N_DTYPES };
  refuse (GM_OP_cast, IN (&x), &none, GM_ERROR_UNSUPPORTED, SAYS ("cast", "dtype"));
}
END_TEST

START_TEST (what_is_only_stored_is_refused_by_name)
{
  GmMeta x = meta (GM_F8E4M3, SIZES (2, 3)), i = meta (GM_I64, SIZES (2, 3));
  GmAttrs sum = { .mask = 1u << GM_ATTR_DIMS | 1u << GM_ATTR_KEEPDIM },
          dim = { .mask = 1u << GM_ATTR_DIM };
  GmAttrs range = {
    .mask = gm_op_attr_mask (GM_OP_arange), .dtype = GM_F8E5M2, .n_list = 1, .list = { 3 }
  };
  refuse (GM_OP_add, IN (&x, &x), NULL, GM_ERROR_RUNTIME,
          SAYS ("add", "float8_e4m3fn", "cast to float32"));
  refuse (GM_OP_eq, IN (&x, &x), NULL, GM_ERROR_RUNTIME,
          SAYS ("eq", "float8_e4m3fn", "cast to float32"));
  refuse (GM_OP_matmul, IN (&x, &x), NULL, GM_ERROR_RUNTIME,
          SAYS ("matmul", "float8_e4m3fn", "cast to float32"));
  refuse (GM_OP_sum, IN (&x), &sum, GM_ERROR_RUNTIME,
          SAYS ("sum", "float8_e4m3fn", "cast to float32"));
  refuse (GM_OP_scatter_add, IN (&x, &i, &x), &dim, GM_ERROR_RUNTIME,
          SAYS ("scatter_add", "float8_e4m3fn", "cast to float32"));
  refuse (GM_OP_arange, NULL, 0, &range, GM_ERROR_UNSUPPORTED, SAYS ("arange", "float8_e5m2"));
}
END_TEST

int
main (void)
{
  Suite *s = suite_create ("infer");
  TCase *t = tcase_create ("rules");
  tcase_add_test (t, every_row_is_found_by_its_name);
  tcase_add_test (t, attributes_have_lower_case_names_and_places);
  tcase_add_test (t, differentiable_inputs_follow_the_gradient_column);
  tcase_add_test (t, requires_grad_flows_through_differentiable_inputs_to_floats);
  tcase_add_test (t, pointwise_broadcasts);
  tcase_add_test (t, pointwise_takes_the_strides_of_the_first_dense_input_of_the_result_shape);
  tcase_add_test (t, view_strides_of_a_matrix_with_gaps);
  tcase_add_test (t, view_of_empty_and_scalar);
  tcase_add_test (t, reductions_drop_or_keep);
  tcase_add_test (t, matmul_broadcasts_batches);
  tcase_add_test (t, mismatches_show_both_sides);
  tcase_add_test (t, movement_out_of_range);
  tcase_add_test (t, reductions_out_of_range);
  tcase_add_test (t, indexing_that_does_not_fit);
  tcase_add_test (t, calls_that_are_no_calls);
  tcase_add_test (t, what_is_only_stored_is_refused_by_name);
  suite_add_tcase (s, t);
  SRunner *sr = srunner_create (s);
  srunner_run_all (sr, CK_NORMAL);
  int failures = srunner_ntests_failed (sr);
  srunner_free (sr);
  return failures ? 1 : 0;
}
