/* SPDX-License-Identifier: Apache-2.0
 * test_gradients.c -- every differentiable row of the op table, compared with finite differences;
 * the values that gradients save.
 */
#include "tests/unit/grad_check.h"

#define SIZES(...)                                                                                 \
  (int) (sizeof ((const int64_t[]){ __VA_ARGS__ }) / sizeof (int64_t)), (const int64_t[])          \
  {                                                                                                \
    __VA_ARGS__                                                                                    \
  }
#define BIT(key) (1u << GM_ATTR_##key)

/* One op with attributes, applied to the inputs in their order. */
typedef struct {
  GmOp op;
  int n;
  GmAttrs at;
} Row;

static GmVal
run_row (GmBuilder *b, const GmVal *in, const void *data)
{
  const Row *r = data;
  return gm_b_op (b, r->op, in, r->n, r->at.mask ? &r->at : NULL);
}

static void
check_row (const Row *r, GmTensor **in, bool second)
{
  check_gradients (gm_ops[r->op].name, run_row, r, in, r->n, second);
  unref_all (in, r->n);
}

/* -- Pointwise --------------------------------------------------------------------------------- */

/* The condition of `where` comes from the data, but has no slope of its own. */
static GmVal
run_where (GmBuilder *b, const GmVal *in, const void *data)
{
  GmVal mask = gm_b (b, gt, in[0], gm_b_scalar (b, gm_scalar_float (0.5), GM_F64));
  return gm_b (b, where, mask, in[1], in[2]);
}

START_TEST (every_pointwise_row_has_the_slope_its_value_has)
{
  for (int op = 1; op < GM_N_OPS; op++) {
    const GmOpInfo *info = &gm_ops[op];
    if (!info->name || info->family != GM_FAMILY_POINTWISE
        || !gm_op_is_differentiable ((GmOp) op, info->types == GM_TYPES_SELECT))
      continue;
    /* Operands away from kinks and jumps, of shapes that broadcast either way. */
    GmTensor *in[3] = { random_f64 (op, 2.2, 2.8, SIZES (2, 1, 3)),
                        random_f64 (op + 100, 1.15, 1.35, SIZES (4, 1)),
                        random_f64 (op + 200, 0.2, 0.8, SIZES (3)) };
    if (info->types == GM_TYPES_SELECT) {
      GmTensor *w[3] = { random_f64 (3, 0.1, 0.9, SIZES (4, 3)), in[1], in[2] };
      gm_tensor_unref (in[0]);
      check_gradients ("where", run_where, NULL, w, 3, true);
      unref_all (w, 3);
      continue;
    }
    Row r = { (GmOp) op, info->arity, { 0 } };
    check_gradients (info->name, run_row, &r, in, r.n, true);
    unref_all (in, 3);
  }
}
END_TEST

START_TEST (negative_operands_have_right_slopes_too)
{
  static const GmOp ops[] = { GM_OP_abs,       GM_OP_relu,      GM_OP_sign,      GM_OP_maximum,
                              GM_OP_minimum,   GM_OP_clamp_min, GM_OP_clamp_max, GM_OP_erf,
                              GM_OP_sigmoid,   GM_OP_tanh,      GM_OP_square,    GM_OP_atan2,
                              GM_OP_remainder, GM_OP_div };
  for (size_t k = 0; k < G_N_ELEMENTS (ops); k++) {
    GmTensor *in[2] = { random_f64 (k, -0.9, 0.9, SIZES (7)),
                        random_f64 (k + 9, -2.9, -2.1, SIZES (7)) };
    Row r = { ops[k], gm_ops[ops[k]].arity, { 0 } };
    check_gradients (gm_ops[r.op].name, run_row, &r, in, r.n, true);
    unref_all (in, 2);
  }
}
END_TEST

/* -- The other families ------------------------------------------------------------------------ */

START_TEST (reductions_have_right_slopes)
{
  static const GmOp ops[] = { GM_OP_sum, GM_OP_prod, GM_OP_amax, GM_OP_amin };
  for (size_t k = 0; k < G_N_ELEMENTS (ops); k++)
    for (int keep = 0; keep < 2; keep++)
      for (int which = 0; which < 4; which++) {
        GmAttrs at = { .mask = BIT (DIMS) | BIT (KEEPDIM), .keepdim = keep };
        static const int64_t lists[4][2] = { { 0, 0 }, { 1, 0 }, { 0, 2 }, { 2, 0 } };
        at.n_list = (uint8_t[]){ 0, 1, 2, 1 }[which];
        memcpy (at.list, lists[which], at.n_list * sizeof (int64_t));
        GmTensor *in[1] = { random_f64 (k + 3 * which, -1.5, 1.5, SIZES (2, 3, 5)) };
        check_row (&(Row){ ops[k], 1, at }, in, true);
      }
}
END_TEST

START_TEST (a_product_with_zeros_has_right_slopes)
{
  for (int zeros = 1; zeros <= 2; zeros++) {
    GmTensor *in[1] = { random_f64 (5, 0.5, 1.5, SIZES (2, 4)) };
    elements (in[0])[1] = 0;
    if (zeros == 2)
      elements (in[0])[2] = 0;
    check_row (
        &(Row){ GM_OP_prod, 1, { .mask = BIT (DIMS) | BIT (KEEPDIM), .n_list = 1, .list = { 1 } } },
        in, true);
  }
}
END_TEST

START_TEST (equal_extremes_share_the_gradient)
{
  GError *error = NULL;
  g_autoptr (GmTensor) x = tensor_f64 (SIZES (4));
  memcpy (elements (x), (double[]){ 3, 1, 3, 3 }, 32);
  gm_tensor_set_requires_grad (x, true, NULL);
  GmAttrs at = { .mask = BIT (DIMS) | BIT (KEEPDIM) };
  g_autoptr (GmTensor) y = gm_autograd_op (GM_OP_amax, &x, 1, &at, &error);
  ck_assert (gm_autograd_backward (&y, NULL, 1, false, false, &error));
  double *g = elements (gm_tensor_grad (x));
  ck_assert (g[0] == 1 / 3.0 && g[1] == 0 && g[2] == 1 / 3.0 && g[3] == 1 / 3.0);
}
END_TEST

START_TEST (movements_have_right_slopes)
{
  const Row rows[] = {
    { GM_OP_permute, 1, { .mask = BIT (DIMS), .n_list = 3, .list = { 2, 0, 1 } } },
    { GM_OP_expand, 1, { .mask = BIT (SIZES), .n_list = 4, .list = { 2, 2, 3, 4 } } },
    { GM_OP_view, 1, { .mask = BIT (SIZES), .n_list = 2, .list = { 6, 4 } } },
    { GM_OP_slice,
      1,
      { .mask = BIT (DIM) | BIT (START) | BIT (STOP) | BIT (STEP),
        .dim = 2,
        .start = 1,
        .stop = 4,
        .step = 2 } },
    { GM_OP_diagonal,
      1,
      { .mask = BIT (DIMS) | BIT (START), .n_list = 2, .list = { 0, 2 }, .start = 1 } },
    { GM_OP_diagonal, 1, { .mask = BIT (DIMS) | BIT (START), .n_list = 2, .list = { 2, 1 } } },
    { GM_OP_unfold,
      1,
      { .mask = BIT (DIM) | BIT (SIZES) | BIT (STEP),
        .dim = 2,
        .n_list = 1,
        .list = { 3 },
        .step = 1 } },
    { GM_OP_unfold,
      1,
      { .mask = BIT (DIM) | BIT (SIZES) | BIT (STEP),
        .dim = 1,
        .n_list = 1,
        .list = { 1 },
        .step = 2 } },
    { GM_OP_cumsum, 1, { .mask = BIT (DIM) | BIT (REVERSE), .dim = 1 } },
    { GM_OP_cumsum, 1, { .mask = BIT (DIM) | BIT (REVERSE), .dim = 2, .reverse = 1 } },
    { GM_OP_cumprod, 1, { .mask = BIT (DIM) | BIT (REVERSE), .dim = 1 } },
    { GM_OP_cumprod, 1, { .mask = BIT (DIM) | BIT (REVERSE), .dim = 2, .reverse = 1 } },
    { GM_OP_cast, 1, { .mask = BIT (DTYPE), .dtype = GM_F64 } },
  };
  for (size_t k = 0; k < G_N_ELEMENTS (rows); k++) {
    GmTensor *in[1] = { random_f64 (k, -1, 1, SIZES (2, 3, 4)) };
    check_row (&rows[k], in, true);
  }
  GmTensor *thin[1] = { random_f64 (8, -1, 1, SIZES (3, 1)) };
  check_row (&(Row){ GM_OP_expand, 1, { .mask = BIT (SIZES), .n_list = 3, .list = { 2, 3, 5 } } },
             thin, true);
}
END_TEST

static GmVal
run_transposed (GmBuilder *b, const GmVal *in, const void *data)
{
  return gm_b (b, matmul, gm_b_transpose (b, in[0], 0, 1), gm_b_transpose (b, in[1], 0, 1));
}

START_TEST (matrix_products_have_right_slopes_for_every_broadcast)
{
  GmTensor *plain[2] = { random_f64 (1, -1, 1, SIZES (2, 3)), random_f64 (2, -1, 1, SIZES (3, 4)) };
  check_row (&(Row){ GM_OP_matmul, 2, { 0 } }, plain, true);
  GmTensor *batch[2] = { random_f64 (3, -1, 1, SIZES (2, 1, 2, 3)),
                         random_f64 (4, -1, 1, SIZES (3, 3, 2)) };
  check_row (&(Row){ GM_OP_matmul, 2, { 0 } }, batch, true);
  /* an operand that is a transpose gets its gradient in its own layout */
  GmTensor *turned[2] = { random_f64 (7, -1, 1, SIZES (3, 2)),
                          random_f64 (8, -1, 1, SIZES (4, 3)) };
  check_gradients ("matmul of transposes", run_transposed, NULL, turned, 2, true);
  unref_all (turned, 2);
  GmTensor *left[2] = { random_f64 (5, -1, 1, SIZES (2, 2, 3)),
                        random_f64 (6, -1, 1, SIZES (3, 2)) };
  check_row (&(Row){ GM_OP_matmul, 2, { 0 } }, left, false);
}
END_TEST

typedef struct {
  GmOp op;
  GmAttrs at;
  GmTensor *x;
} Pool;

static GmVal
run_pool (GmBuilder *b, const GmVal *in, const void *data)
{
  const Pool *p = data;
  return gm_b_op (b, p->op, (const GmVal[]){ gm_val_from_tensor (p->x), in[0] }, 2, &p->at);
}

START_TEST (convolutions_have_right_slopes)
{
  /* kernel 2, stride 2, padding 1, dilation 2; then of two dimensions, in two groups */
  GmAttrs line = { .mask = BIT (SIZES) | BIT (WINDOW),
                   .n_list = 3,
                   .window = { 1, 1, 2, 1, 1, 2, 0, 0, 1, 1, 1, 2 } };
  GmAttrs plane = { .mask = BIT (SIZES) | BIT (WINDOW),
                    .n_list = 4,
                    .window = { 1, 2, 3, 1, 1, 2, 0, 1, 0, 1, 1, 1 } };
  const struct {
    GmAttrs *how;
    int64_t x[4], w[4], y[4];
  } cases[] = { { &line, { 2, 3, 6 }, { 4, 3, 2 }, { 2, 4, 3 } },
                { &plane, { 1, 4, 3, 5 }, { 2, 2, 2, 3 }, { 1, 2, 4, 2 } } };
  for (size_t k = 0; k < G_N_ELEMENTS (cases); k++)
    for (GmOp op = GM_OP_convolve; op <= GM_OP_convolve_weight; op++) {
      int ndim = cases[k].how->n_list;
      const int64_t *of[] = { cases[k].x, cases[k].w, cases[k].y };
      int first = op == GM_OP_convolve_input ? 2 : 0, second = op == GM_OP_convolve_weight ? 2 : 1;
      GmTensor *in[2] = { random_f64 (k, -1, 1, ndim, of[first]),
                          random_f64 (k + 9, -1, 1, ndim, of[second]) };
      GmAttrs at = *cases[k].how;
      memcpy (at.list, of[3 - first - second], sizeof (int64_t) * (size_t) ndim);
      check_row (&(Row){ op, 2, at }, in, true);
    }
}
END_TEST

START_TEST (pools_have_right_slopes_where_values_are_read)
{
  GmAttrs at = { .mask = BIT (SIZES) | BIT (WINDOW),
                 .n_list = 4,
                 .window = { 1, 2, 3, 1, 1, 2, 0, 1, 0, 1, 1, 1 } };
  const int64_t x[] = { 2, 3, 3, 5 }, y[] = { 2, 3, 4, 2 };
  for (GmOp op = GM_OP_window_pick; op <= GM_OP_window_spread; op++) {
    GmTensor *in[2] = { random_f64 (1, -1, 1, 4, x),
                        random_f64 (2, -1, 1, 4, op == GM_OP_window_pick ? x : y) };
    memcpy (at.list, op == GM_OP_window_pick ? y : x, sizeof x);
    check_gradients ("a pool", run_pool, &(Pool){ op, at, in[0] }, in + 1, 1, true);
    unref_all (in, 2);
  }
  ck_assert (!gm_op_is_differentiable (GM_OP_window_pick, 0)
             && gm_op_is_differentiable (GM_OP_window_pick, 1));
}
END_TEST

START_TEST (index_ops_have_right_slopes)
{
  GmAttrs dim0 = { .mask = BIT (DIM) }, dim1 = { .mask = BIT (DIM), .dim = 1 };
  GmTensor *x = random_f64 (1, -1, 1, SIZES (3, 4)), *src = random_f64 (2, -1, 1, SIZES (3, 4));
  GmTensor *index = ints_i64 (SIZES (2, 3), (int64_t[]){ 3, 0, 0, 1, 1, 2 }),
           *list = ints_i64 (SIZES (3), (int64_t[]){ 2, 0, 2 });
  GmTensor *gather[2] = { gm_tensor_ref (x), gm_tensor_ref (index) };
  check_row (&(Row){ GM_OP_gather, 2, dim1 }, gather, true);
  /* src is larger than the index: what is not reached gets no gradient */
  GmTensor *scatter[3] = { gm_tensor_ref (x), gm_tensor_ref (index), gm_tensor_ref (src) };
  check_row (&(Row){ GM_OP_scatter_add, 3, dim1 }, scatter, true);
  GmTensor *select[2] = { gm_tensor_ref (x), gm_tensor_ref (list) };
  check_row (&(Row){ GM_OP_index_select, 2, dim0 }, select, true);
  GmTensor *add[3] = { gm_tensor_ref (x), gm_tensor_ref (list), gm_tensor_ref (src) };
  check_row (&(Row){ GM_OP_index_add, 3, dim0 }, add, true);
  GmTensor *put[2] = { gm_tensor_ref (x), random_f64 (4, -1, 1, SIZES (3, 2)) };
  check_row (&(Row){ GM_OP_slice_scatter,
                     2,
                     { .mask = BIT (DIM) | BIT (START) | BIT (STOP) | BIT (STEP),
                       .dim = 1,
                       .start = 1,
                       .stop = 4,
                       .step = 2 } },
             put, true);
  GmTensor *cat[4] = { gm_tensor_ref (x), gm_tensor_ref (src), random_f64 (6, -1, 1, SIZES (3, 1)),
                       gm_tensor_ref (x) };
  check_row (&(Row){ GM_OP_cat, 4, dim1 }, cat, true);
  GmTensor *all[] = { x, src, index, list };
  unref_all (all, 4);
}
END_TEST

/* -- What is saved ----------------------------------------------------------------------------- */

START_TEST (gradients_save_what_they_read_and_nothing_else)
{
  ck_assert_uint_eq (gm_op_saves (GM_OP_add, 2, 3), 0);
  ck_assert_uint_eq (gm_op_saves (GM_OP_mul, 2, 3), 3);
  ck_assert_uint_eq (gm_op_saves (GM_OP_mul, 2, 1), 2); /* only the other operand */
  ck_assert_uint_eq (gm_op_saves (GM_OP_mul, 2, 2), 1);
  ck_assert_uint_eq (gm_op_saves (GM_OP_mul, 2, 0), 0);
  ck_assert_uint_eq (gm_op_saves (GM_OP_tanh, 1, 1), GM_SAVES_OUT);
  ck_assert_uint_eq (gm_op_saves (GM_OP_exp, 1, 1), GM_SAVES_OUT);
  ck_assert_uint_eq (gm_op_saves (GM_OP_relu, 1, 1), GM_SAVES_OUT);
  ck_assert_uint_eq (gm_op_saves (GM_OP_where, 3, 6), 1);
  ck_assert_uint_eq (gm_op_saves (GM_OP_matmul, 2, 1), 2);
  ck_assert_uint_eq (gm_op_saves (GM_OP_sum, 1, 1), 0);
  ck_assert_uint_eq (gm_op_saves (GM_OP_amax, 1, 1), 1 | GM_SAVES_OUT);
  ck_assert_uint_eq (gm_op_saves (GM_OP_prod, 1, 1), 1);
  ck_assert_uint_eq (gm_op_saves (GM_OP_gather, 2, 1), 2);
  ck_assert_uint_eq (gm_op_saves (GM_OP_cat, 40, 0x7fffffff), 0);
  ck_assert_uint_eq (gm_op_saves (GM_OP_floor, 1, 1), 0);
}
END_TEST

int
main (void)
{
  Suite *s = suite_create ("gradients");
  TCase *t = tcase_create ("table");
  tcase_set_timeout (t, 60);
  tcase_add_test (t, every_pointwise_row_has_the_slope_its_value_has);
  tcase_add_test (t, negative_operands_have_right_slopes_too);
  tcase_add_test (t, reductions_have_right_slopes);
  tcase_add_test (t, a_product_with_zeros_has_right_slopes);
  tcase_add_test (t, equal_extremes_share_the_gradient);
  tcase_add_test (t, movements_have_right_slopes);
  tcase_add_test (t, matrix_products_have_right_slopes_for_every_broadcast);
  tcase_add_test (t, convolutions_have_right_slopes);
  tcase_add_test (t, pools_have_right_slopes_where_values_are_read);
  tcase_add_test (t, index_ops_have_right_slopes);
  tcase_add_test (t, gradients_save_what_they_read_and_nothing_else);
  suite_add_tcase (s, t);
  SRunner *r = srunner_create (s);
  srunner_run_all (r, CK_NORMAL);
  int failures = srunner_ntests_failed (r);
  srunner_free (r);
  return failures ? 1 : 0;
}
