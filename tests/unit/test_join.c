/* SPDX-License-Identifier: Apache-2.0
 * test_join.c -- the joint graph: the same bits as the eager engine, and the right numbers.
 */
#include "tests/fuzz/random_graph.h"
#include "tests/unit/aot_test.h"

START_TEST (random_gradients_have_the_bits_of_eager_ones)
{
  int n = 1500, same = 0;

  n_exact = 0;
  for (int seed = 0; seed < n; seed++) {
    g_autoptr (GmGraph) g = random_program ((uint32_t) seed + 10000, false);
    g_autoptr (GmPlan) p = plan_of (g, NULL);
    same += check_same (g, p, false);
  }
  ck_assert_int_eq (same, n);
  ck_assert_int_gt (n_exact, n / 4);
}
END_TEST

/* All families of operators, all layouts. */
START_TEST (every_operator_in_random_graphs)
{
  int n = 600;

  n_exact = 0;
  for (int seed = 0; seed < n; seed++) {
    GmRandomGraph options = {
      .seed = (uint64_t) seed, .n_nodes = 12, .grad = true, .strided = true, .defined_only = true
    };
    g_autoptr (GmGraph) g = gm_random_graph (&options, NULL);
    g_autoptr (GmPlan) p = plan_of (g, NULL);
    ck_assert_msg (check_same (g, p, false), "seed %d", seed);
  }
  ck_assert_int_gt (n_exact, n / 8);
}
END_TEST

/* A value that is read often: the order of the sum is visible in the bits. */
START_TEST (contributions_are_added_in_the_engines_order)
{
  g_autoptr (GmGraph) g = graph_of (
      "graph (%x: f32[64] requires_grad) -> (%9, %1) { \n %0 = sin %x \n %1 = mul %0 %x \n %2 = "
      "exp "
      "%0 \n"
      " %3 = add %0 %0 \n %4 = mul %2 %0 \n %5 = tanh %0 \n %6 = mul %4 %5 \n %7 = mul %6 %3 \n"
      " %8 = mul %7 %x \n %9 = sum %8 dims=[] keepdim=false : f32[] \n }");
  g_autoptr (GmPlan) p = plan_of (g, NULL);

  n_exact = 0;
  ck_assert (check_same (g, p, false));
  ck_assert_int_eq (n_exact, 1);
}
END_TEST

/* -- Finite differences ------------------------------------------------------------------------ */

static const char *const smooth[] = {
  "graph (%x: f64[3, 4] requires_grad, %w: f64[4, 2] requires_grad) -> (%3) { \n %0 = matmul %x %w "
  "\n %1 = tanh %0 \n"
  " %2 = mul %1 %1 \n %3 = sum %2 dims=[0, 1] keepdim=false \n }",
  "graph (%x: f64[3, 4] requires_grad, %b: f64[4] requires_grad) -> (%4) { \n %0 = add %x %b \n %1 "
  "= sin %0 \n"
  " %2 = permute %1 dims=[1, 0] \n %3 = slice %2 dim=0 start=1 stop=4 step=2 \n %4 = sum %3 "
  "dims=[0, 1] keepdim=false \n }",
  /* written to in the middle */
  "graph (%x: f64[6] requires_grad, %b: f64[3] requires_grad) -> (%6) { \n %0 = exp %x \n %1 = "
  "slice %0 dim=0 start=0 stop=6 step=2 \n"
  " %2 = sin %b \n %3 = copy_ %1 %2 \n %4 = tanh %0 \n %5 = square %4 \n %6 = sum %5 dims=[0] "
  "keepdim=false \n }",
  /* log-softmax, as a classifier has it */
  "graph (%x: f64[3, 4] requires_grad, %y: f64[3, 4] requires_grad) -> (%8) { \n %0 = amax %x "
  "dims=[1] keepdim=true \n %1 = detach %0 \n"
  " %2 = sub %x %1 \n %3 = exp %2 \n %4 = sum %3 dims=[1] keepdim=true \n %5 = log %4 \n %6 = sub "
  "%2 %5 \n %7 = mul %6 %y \n"
  " %8 = sum %7 dims=[0, 1] keepdim=false \n }",
};

static double
value_at (GmPlan *p, GmTensor *const *in)
{
  GmTensor *out;
  double d;

  ck_assert (gm_plan_run (p, in, 2, &out, NULL));
  d = gm_tensor_get (out, NULL).d;
  gm_tensor_unref (out);
  return d;
}

START_TEST (gradient_is_the_slope)
{
  g_autoptr (GmGraph) g = graph_of (smooth[_i]);
  g_autoptr (GmPlan) p = plan_of (g, NULL);
  GmTensor *in[2], *out, *grads[2];

  for (int i = 0; i < 2; i++) {
    in[i] = filled (gm_graph_meta (g, (GmValueId) i), 5 + (uint32_t) i);
    gm_tensor_set_requires_grad (in[i], true, NULL);
  }
  ck_assert (gm_plan_run (p, in, 2, &out, NULL));
  ck_assert (gm_autograd_grad (&out, NULL, 1, in, 2, false, false, false, grads, NULL));
  for (int i = 0; i < 2; i++) {
    int64_t at[GM_MAX_DIMS] = { 0 };
    for (int64_t k = 0; k < gm_meta_numel (&in[i]->meta); k++, step_index (&in[i]->meta, at)) {
      double x = gm_tensor_get (in[i], at).d, h = 1e-6, up, down;
      gm_tensor_set (in[i], at, gm_scalar_float (x + h));
      up = value_at (p, in);
      gm_tensor_set (in[i], at, gm_scalar_float (x - h));
      down = value_at (p, in);
      gm_tensor_set (in[i], at, gm_scalar_float (x));
      ck_assert_double_eq_tol (gm_tensor_get (grads[i], at).d, (up - down) / (2 * h), 1e-7);
    }
    gm_tensor_unref (grads[i]);
  }
  gm_tensor_unref (out);
  gm_tensor_unref (in[0]);
  gm_tensor_unref (in[1]);
}
END_TEST

/* -- Second derivatives ------------------------------------------------------------------------ */

/* Returns the joint graph of a program as a program: outputs and gradients of its inputs and
 * tangents. */
static GmGraph *
gradient_program (const GmGraph *g)
{
  TestExec *e;
  g_autoptr (GmPlan) p = plan_of (g, &e);
  GmGraph *joint = gm_graph_simplify (e->joint.graph, GM_SIMPLIFY_DEAD, NULL);

  for (uint32_t i = 0; i < joint->outputs->len; i++)
    g_array_index (joint->outputs, GmGraphOutput, i).kind = GM_OUTPUT_USER;
  return joint;
}

START_TEST (joint_graphs_can_be_joined_again)
{
  int n = 400, same = 0, deep = 0;

  n_exact = 0;
  for (int seed = 0; seed < n; seed++) {
    g_autoptr (GmGraph) g = random_program ((uint32_t) seed + 20000, false),
                        first = gradient_program (g);
    TestExec *e;
    partition_options.mode = seed % 2 ? GM_PARTITION_MIN_CUT : GM_PARTITION_DEFAULT;
    g_autoptr (GmPlan) p = plan_of (first, &e);
    same += check_same (first, p, false);
    for (uint32_t i = g->outputs->len; i < first->outputs->len; i++) {
      GmValueId v = g_array_index (first->outputs, GmGraphOutput, i).value;
      deep += gm_graph_meta (first, v)->requires_grad;
    }
  }
  partition_options.mode = GM_PARTITION_DEFAULT;
  ck_assert_int_eq (same, n);
  ck_assert_int_gt (n_exact, n / 8);
  ck_assert_int_gt (deep, 10); /* gradients that have gradients */
}
END_TEST

/* d/dx of |df/dx|^2 / 2, against the tape's own double backward. */
START_TEST (second_derivative_is_that_of_double_backward)
{
  g_autoptr (GmGraph) g = graph_of (smooth[_i]), first = gradient_program (g);
  g_autoptr (GmPlan) p = plan_of (first, NULL);
  GmTensor *in[3], *leaves[2], *out, *grads[2], *want[2], *outs[3], *has[2];

  for (int i = 0; i < 3; i++) {
    const GmMeta *m = gm_graph_meta (first, g_array_index (first->inputs, GmValueId, i));
    in[i] = filled (m, 5 + (uint32_t) i);
    if (i < 2)
      gm_tensor_set_requires_grad (leaves[i] = in[i], true, NULL);
  }
  ck_assert (eager_run (g, in, &out, NULL));
  if (strstr (smooth[_i], "copy_")) { /* the tape has no second derivative of a write */
    gm_tensor_unref (out);
    for (int i = 0; i < 3; i++)
      gm_tensor_unref (in[i]);
    return;
  }
  ck_assert (gm_autograd_grad (&out, &in[2], 1, leaves, 2, true, true, false, grads, NULL));
  ck_assert (gm_autograd_grad (grads, grads, 2, leaves, 2, false, false, false, want, NULL));
  ck_assert (gm_plan_run (p, in, 3, outs, NULL));
  ck_assert (gm_autograd_grad (outs + 1, outs + 1, 2, leaves, 2, false, false, false, has, NULL));
  for (int i = 0; i < 2; i++) {
    ck_assert (same_elements (grads[i], outs[i + 1], false, 0));
    ck_assert (same_elements (want[i], has[i], true, 1e-14));
    gm_tensor_unref (grads[i]);
    gm_tensor_unref (want[i]);
    gm_tensor_unref (has[i]);
  }
  gm_tensor_unref (out);
  for (int i = 0; i < 3; i++) {
    gm_tensor_unref (in[i]);
    gm_tensor_unref (outs[i]);
  }
}
END_TEST

/* -- What the joint graph looks like ----------------------------------------------------------- */

START_TEST (only_what_requires_grad_takes_part)
{
  g_autoptr (GmGraph) g =
      graph_of ("graph (%x: f32[2] requires_grad, %y: f32[2], %z: f32[2] requires_grad, %tangent0: "
                "f32[2]) -> (%0, %1, %2) { \n"
                " %0 = sin %x   # net.py:3\n %1 = exp %y \n %2 = gt %z %y \n }");
  TestExec *e;
  g_autoptr (GmPlan) p = plan_of (g, &e);
  const GmGraph *j = e->joint.graph;

  ck_assert_uint_eq (e->joint.n_tangents, 1);
  ck_assert_uint_eq (e->joint.tangents[0].i, 0);
  ck_assert_uint_eq (e->joint.n_grads, 1); /* nothing flows to z */
  ck_assert_uint_eq (e->joint.grads[0].i, 0);
  ck_assert_str_eq (gm_graph_value (j, g_array_index (j->inputs, GmValueId, 4))->name, "tangent_0");
  ck_assert_str_eq (gm_graph_node (j, j->nodes->len - 1)->where, "net.py:3");
  ck_assert_uint_eq (g_array_index (j->outputs, GmGraphOutput, 3).kind, GM_OUTPUT_GRAD);
}
END_TEST

START_TEST (nothing_to_differentiate_gives_no_backward)
{
  g_autoptr (GmGraph) g =
      graph_of ("graph (%x: f32[2] requires_grad) -> (%0) { \n %0 = sin %x \n }");
  g_autoptr (GmPlan) p = plan_with (g, false, (GmPlanRandom){ .used = false }, NULL, NULL);
  g_autoptr (GmTensor) x = filled (gm_graph_meta (g, 0), 1), out = NULL;

  gm_tensor_set_requires_grad (x, true, NULL);
  ck_assert (gm_plan_run (p, &x, 1, &out, NULL));
  ck_assert (!gm_tensor_requires_grad (out));
}
END_TEST

int
main (void)
{
  Suite *s = suite_create ("join");
  TCase *t = tcase_create ("all");
  SRunner *sr = srunner_create (s);
  int failures;

  tcase_set_timeout (t, 60);
  tcase_add_test (t, random_gradients_have_the_bits_of_eager_ones);
  tcase_add_test (t, every_operator_in_random_graphs);
  tcase_add_test (t, contributions_are_added_in_the_engines_order);
  tcase_add_loop_test (t, gradient_is_the_slope, 0, G_N_ELEMENTS (smooth));
  tcase_add_test (t, joint_graphs_can_be_joined_again);
  tcase_add_loop_test (t, second_derivative_is_that_of_double_backward, 0, G_N_ELEMENTS (smooth));
  tcase_add_test (t, only_what_requires_grad_takes_part);
  tcase_add_test (t, nothing_to_differentiate_gives_no_backward);
  suite_add_tcase (s, t);
  srunner_run_all (sr, CK_NORMAL);
  failures = srunner_ntests_failed (sr);
  srunner_free (sr);
  return failures ? 1 : 0;
}
