/* SPDX-License-Identifier: Apache-2.0
 * test_plan.c -- the work of a plan around the back end's code: histories, saved tensors, writes,
 * the generator, failures.
 */
#include "core/tensor/alloc.h"
#include "tests/unit/aot_test.h"

static const char *const product =
    "graph (%x: f32[4] requires_grad, %w: f32[4] requires_grad) -> (%1, %2) { \n %0 = mul %x %w \n"
    " %1 = sin %0 \n %2 = exp %0 \n }";

typedef struct {
  GmGraph *g;
  TestExec *e;
  GmPlan *p;
  GmTensor *in[4], *out[4], *grads[4];
  GError *error;
} Fixture;

static void
begin (Fixture *f, const char *text)
{
  *f = (Fixture){ .g = graph_of (text) };
  f->p = plan_of (f->g, &f->e);
  for (uint32_t i = 0; i < f->g->inputs->len; i++) {
    const GmMeta *m = gm_graph_meta (f->g, g_array_index (f->g->inputs, GmValueId, i));
    f->in[i] = filled (m, i + 1);
    if (m->requires_grad)
      gm_tensor_set_requires_grad (f->in[i], true, NULL);
  }
}

static bool
run (Fixture *f)
{
  return gm_plan_run (f->p, f->in, (int) f->g->inputs->len, f->out, &f->error);
}

static void
end (Fixture *f)
{
  for (int i = 0; i < 4; i++) {
    gm_tensor_unref (f->in[i]);
    gm_tensor_unref (f->out[i]);
    gm_tensor_unref (f->grads[i]);
  }
  g_clear_error (&f->error);
  gm_plan_unref (f->p);
  gm_graph_free (f->g);
}

static void
assert_error (Fixture *f, bool ok, int code, const char *says)
{
  ck_assert (!ok);
  ck_assert (g_error_matches (f->error, GM_ERROR, code));
  ck_assert_msg (strstr (f->error->message, says) != NULL, "%s", f->error->message);
  g_clear_error (&f->error);
}

static bool
backward (Fixture *f, GmTensor **roots, int n, bool retain, bool create)
{
  GmMeta m = roots[0]->meta;
  g_autoptr (GmTensor) tangent = filled (&m, 9);
  GmTensor *tangents[2] = { tangent, tangent };

  for (int i = 0; i < 4; i++)
    g_clear_pointer (&f->grads[i], gm_tensor_unref);
  return gm_autograd_grad (roots, tangents, n, f->in, 2, retain, create, true, f->grads, &f->error);
}

/* -- Histories --------------------------------------------------------------------------------- */

START_TEST (outputs_have_the_compiled_backward_as_history)
{
  Fixture f;

  begin (&f, product);
  ck_assert (run (&f));
  ck_assert (gm_tensor_requires_grad (f.out[0]) && !gm_tensor_is_leaf (f.out[0]));
  ck_assert_ptr_nonnull (strstr (gm_tensor_grad_fn_name (f.out[0]), "CompiledBackward"));
  end (&f);
}
END_TEST

START_TEST (missing_gradient_counts_as_zeros)
{
  Fixture f;

  begin (&f, product);
  ck_assert (run (&f));
  ck_assert (backward (&f, f.out, 1, false, false)); /* out[1] gets none */
  for (int64_t i = 0; i < 4; i++) {
    double x = gm_tensor_get (f.in[0], &i).d, w = gm_tensor_get (f.in[1], &i).d;
    g_autoptr (GmTensor) t = filled (&f.out[0]->meta, 9);
    ck_assert_double_eq_tol (gm_tensor_get (f.grads[0], &i).d,
                             gm_tensor_get (t, &i).d * cos (x * w) * w, 1e-6);
  }
  end (&f);
}
END_TEST

/* A loss, and the scores that it was computed from, as a view that is not differentiated. */
START_TEST (output_without_gradient_does_not_change_a_bit)
{
  Fixture f;
  GmTensor *want[2], *plain[2], *one = NULL;

  begin (&f, "graph (%x: f32[4, 3] requires_grad, %w: f32[3, 2] requires_grad) -> (%6, %1) { \n"
             " %0 = matmul %x %w \n %1 = view %0 sizes=[2, 4] \n %2 = relu %1 \n %3 = neg %1 \n"
             " %4 = mul %2 %3 \n %5 = mul %4 %1 \n %6 = sum %5 dims=[] keepdim=false \n }");
  ck_assert (run (&f));
  ck_assert (eager_run (f.g, f.in, plain, NULL));
  ck_assert (gm_autograd_grad (f.out, &one, 1, f.in, 2, false, false, false, f.grads, NULL));
  ck_assert (gm_autograd_grad (plain, &one, 1, f.in, 2, false, false, false, want, NULL));
  for (int i = 0; i < 2; i++) {
    ck_assert (same_elements (want[i], f.grads[i], false, 0));
    gm_tensor_unref (want[i]);
    gm_tensor_unref (plain[i]);
  }
  end (&f);
}
END_TEST

START_TEST (second_backward_needs_retain_graph)
{
  Fixture f;

  begin (&f, product);
  ck_assert (run (&f));
  ck_assert (backward (&f, f.out, 2, true, false));
  ck_assert (backward (&f, f.out, 2, false, false));
  assert_error (&f, backward (&f, f.out, 2, false, false), GM_ERROR_RUNTIME, "second time");
  ck_assert_int_eq (f.e->runs[1], 2);
  end (&f);
}
END_TEST

START_TEST (double_backward_is_refused_with_advice)
{
  Fixture f;

  begin (&f, product);
  ck_assert (run (&f));
  assert_error (&f, backward (&f, f.out, 2, true, true), GM_ERROR_UNSUPPORTED, "without compile");
  end (&f);
}
END_TEST

START_TEST (write_to_a_saved_input_is_noticed)
{
  Fixture f;

  begin (&f, product);
  ck_assert (run (&f));
  GmTensor *src = f.in[0];
  bool old = gm_grad_set_enabled (false);
  ck_assert (gm_autograd_into (f.in[1], GM_OP_copy, &src, 1, NULL, NULL));
  gm_grad_set_enabled (old);
  assert_error (&f, backward (&f, f.out, 2, false, false), GM_ERROR_RUNTIME, "in-place");
  end (&f);
}
END_TEST

START_TEST (gradients_of_other_layouts_are_taken)
{
  Fixture f;

  begin (&f, "graph (%x: f32[2, 3] requires_grad, %w: f32[3, 2] requires_grad) -> (%0) { \n %0 = "
             "matmul %x %w \n }");
  ck_assert (run (&f));
  GmMeta scalar = gm_meta_make (GM_F32, 0, NULL), wide = f.out[0]->meta;
  g_autoptr (GmTensor) one = filled (&scalar, 3), tangent = NULL, same = NULL;
  GmTensor *wanted[2], *got[2];
  memset (wide.strides, 0, sizeof wide.strides); /* as the gradient of sum is */
  wide.requires_grad = 0;
  tangent = gm_tensor_new_view (one, &wide, 0);
  same = gm_op_run (GM_OP_copy, &tangent, 1, NULL, NULL);
  ck_assert (gm_autograd_grad (f.out, &tangent, 1, f.in, 2, true, false, false, got, NULL));
  ck_assert (gm_autograd_grad (f.out, &same, 1, f.in, 2, false, false, false, wanted, NULL));
  for (int i = 0; i < 2; i++) {
    ck_assert (same_elements (wanted[i], got[i], false, 0));
    gm_tensor_unref (wanted[i]);
    gm_tensor_unref (got[i]);
  }
  end (&f);
}
END_TEST

START_TEST (saved_tensors_die_with_the_backward)
{
  Fixture f;
  GmMeta m;

  begin (&f, "graph (%x: f32[100000] requires_grad, %w: f32[100000]) -> (%2) { \n %0 = mul %x %w "
             "\n %1 = sin %0 \n %2 = sum %1 dims=[0] keepdim=false \n }");
  size_t before = gm_alloc_live_bytes ();
  ck_assert (run (&f));
  ck_assert_uint_ge (gm_alloc_live_bytes () - before, 400000); /* %0 */
  m = f.out[0]->meta;
  g_autoptr (GmTensor) tangent = filled (&m, 1);
  GmTensor *grad;
  ck_assert (gm_autograd_grad (f.out, &tangent, 1, f.in, 1, false, false, false, &grad, NULL));
  gm_tensor_unref (grad);
  ck_assert_uint_lt (gm_alloc_live_bytes () - before, 4096);
  end (&f);
}
END_TEST

START_TEST (a_run_that_nobody_walks_backwards_leaves_nothing)
{
  Fixture f;

  begin (&f, product);
  size_t before = gm_alloc_live_bytes ();
  for (int i = 0; i < 10; i++) {
    ck_assert (run (&f));
    g_clear_pointer (&f.out[0], gm_tensor_unref);
    g_clear_pointer (&f.out[1], gm_tensor_unref);
  }
  ck_assert_uint_eq (gm_alloc_live_bytes (), before);
  end (&f);
}
END_TEST

/* -- Writes ------------------------------------------------------------------------------------ */

START_TEST (leaf_that_requires_grad_is_not_written_to)
{
  Fixture f;

  begin (&f, "graph (%x: f32[4] requires_grad, %y: f32[4]) -> (%1) { \n %0 = sin %y \n %1 = copy_ "
             "%x %0 \n }");
  assert_error (&f, run (&f), GM_ERROR_RUNTIME, "leaf");
  ck_assert_ptr_null (f.out[0]);
  end (&f);
}
END_TEST

START_TEST (overlapping_inputs_are_refused_only_where_one_is_written_to)
{
  Fixture f;
  GmMeta m = gm_meta_make (GM_F32, 1, (int64_t[]){ 6 }),
         part = gm_meta_make (GM_F32, 1, (int64_t[]){ 4 });
  g_autoptr (GmTensor) whole = filled (&m, 1);
  GmTensor *views[2] = { gm_tensor_new_view (whole, &part, 0),
                         gm_tensor_new_view (whole, &part, 2) };

  begin (&f, "graph (%x: f32[4], %y: f32[4]) -> (%1) { \n %0 = sin %y \n %1 = copy_ %x %0 \n }");
  assert_error (&f, gm_plan_run (f.p, views, 2, f.out, &f.error), GM_ERROR_UNSUPPORTED,
                "in common");
  end (&f);
  begin (&f, "graph (%x: f32[4], %y: f32[4]) -> (%0) { \n %0 = mul %x %y \n }");
  ck_assert (gm_plan_run (f.p, views, 2, f.out, &f.error));
  end (&f);
  gm_tensor_unref (views[0]);
  gm_tensor_unref (views[1]);
}
END_TEST

/* -- The generator ----------------------------------------------------------------------------- */

START_TEST (random_numbers_are_the_ones_of_the_plain_program)
{
  g_autoptr (GmGraph) g = gm_graph_new ("random", NULL);
  GmMeta state = gm_meta_make (GM_I64, 1, (int64_t[]){ 2 }),
         x = gm_meta_make (GM_F32, 1, (int64_t[]){ 10 });
  GmGraphBuilder b;

  gm_graph_builder_init (&b, g);
  GmVal vx = gm_val_from_id (gm_graph_add_input (g, "x", &x)), sum = vx;
  b.rng = gm_graph_add_input (g, "state", &state);
  for (int i = 0; i < 2; i++) {
    GmAttrs a = { .mask = 1u << GM_ATTR_SIZES | 1u << GM_ATTR_DTYPE | 1u << GM_ATTR_OFFSET,
                  .n_list = 1,
                  .list = { 10 },
                  .dtype = GM_F32 };
    GmVal s = b.base.vt->random (&b.base, 10, &a.offset);
    sum = gm_b (&b.base, add, sum, gm_b_op (&b.base, GM_OP_uniform, &s, 1, &a));
  }
  gm_graph_add_output (g, gm_id_from_val (sum), GM_OUTPUT_USER);
  g_autoptr (GmPlan) p =
      plan_with (g, true, (GmPlanRandom){ true, { 1 }, b.rng_taken }, NULL, NULL);
  gm_graph_builder_clear (&b);
  ck_assert_int_eq (gm_plan_n_inputs (p), 1);

  g_autoptr (GmTensor) tx = filled (&x, 1);
  gm_random_seed (42);
  for (int call = 0; call < 3; call++) {
    g_autoptr (GmTensor) out = NULL, want = gm_tensor_ref (tx);
    int64_t before[2], after[2];

    gm_random_get_state (before);
    ck_assert (gm_plan_run (p, &tx, 1, &out, NULL));
    gm_random_get_state (after);
    ck_assert_int_eq (after[1] - before[1], 6); /* 10 numbers take 3 draws */
    gm_random_set_state (before);
    for (int i = 0; i < 2; i++) {
      GmAttrs a = { .mask = 1u << GM_ATTR_SIZES | 1u << GM_ATTR_DTYPE | 1u << GM_ATTR_OFFSET,
                    .n_list = 1,
                    .list = { 10 },
                    .dtype = GM_F32 };
      g_autoptr (GmTensor) s = gm_tensor_new (&state, NULL);
      int64_t *words = gm_tensor_data (s);
      words[0] = 42;
      words[1] = (int64_t) gm_random_take (3);
      g_autoptr (GmTensor) u = gm_op_run (GM_OP_uniform, &s, 1, &a, NULL);
      GmTensor *in[2] = { want, u };
      want = gm_op_run (GM_OP_add, in, 2, NULL, NULL);
      gm_tensor_unref (in[0]);
    }
    ck_assert (same_elements (want, out, false, 0));
  }
}
END_TEST

/* -- Failures ---------------------------------------------------------------------------------- */

static bool
failing_run (void *data, int role, GmTensor *const *in, int n_in, GmTensor *const *out, int n_out,
             GError **error)
{
  g_set_error (error, GM_ERROR, GM_ERROR_BACKEND, "the back end broke in role %d", role);
  (void) data, (void) in, (void) n_in, (void) out, (void) n_out;
  return false;
}

static void
no_unref (void *data)
{
  (void) data;
}

START_TEST (errors_of_the_back_end_come_through_and_leave_nothing)
{
  static const char *const texts[] = { product,
                                       "graph (%x: f32[4], %y: f32[4]) -> (%0, %2) { \n %0 = sin "
                                       "%y \n %1 = copy_ %x %0 \n %2 = view %0 sizes=[2, 2] \n }" };

  for (int k = 0; k < 2; k++) {
    Fixture f;
    GmLayers layers;
    begin (&f, texts[k]);
    GmArena *arena = gm_arena_new ();
    g_autoptr (GmGraph) functional = gm_layers_apply (f.g, true, arena, &layers, NULL);
    g_autoptr (GmPlan) p = gm_plan_new (&(GmPlanSpec){ &layers,
                                                       &f.e->joint,
                                                       &f.e->parts,
                                                       { .used = false },
                                                       { arena, failing_run, no_unref, NULL } });
    size_t before = gm_alloc_live_bytes ();

    assert_error (&f, gm_plan_run (p, f.in, 2, f.out, &f.error), GM_ERROR_BACKEND, "role 0");
    ck_assert (!f.out[0] && !f.out[1]);
    ck_assert_uint_eq (gm_alloc_live_bytes (), before);
    ck_assert_uint_eq (gm_tensor_version (f.in[0]), 0);
    g_clear_pointer (&functional, gm_graph_free);
    gm_arena_free (arena);
    end (&f);
  }
}
END_TEST

START_TEST (lack_of_memory_at_any_point_is_an_error)
{
  Fixture f;
  int failures = 0;

  begin (&f, product);
  g_autoptr (GmTensor) tangent = filled (&f.in[0]->meta, 9);
  GmTensor *tangents[2] = { tangent, tangent };
  size_t before = gm_alloc_live_bytes ();
  for (uint64_t k = 1; k < 20; k++) {
    gm_alloc_fail_at (k);
    bool ok =
        run (&f)
        && gm_autograd_grad (f.out, tangents, 2, f.in, 2, false, false, true, f.grads, &f.error);
    gm_alloc_fail_at (0);
    if (!ok)
      failures += g_error_matches (f.error, GM_ERROR, GM_ERROR_MEMORY);
    g_clear_error (&f.error);
    for (int i = 0; i < 4; i++) {
      g_clear_pointer (&f.out[i], gm_tensor_unref);
      g_clear_pointer (&f.grads[i], gm_tensor_unref);
    }
    ck_assert_uint_eq (gm_alloc_live_bytes (), before);
  }
  ck_assert_int_ge (failures, 4);
  end (&f);
}
END_TEST

/* Returns the number of calls of gm_alloc in a run: the least k for which failing the k-th changes
 * nothing. */
static uint64_t
count_allocations (Fixture *f)
{
  for (uint64_t k = 1;; k++) {
    gm_alloc_fail_at (k);
    bool ok = run (f);
    gm_alloc_fail_at (0);
    for (int i = 0; i < 4; i++)
      g_clear_pointer (&f->out[i], gm_tensor_unref);
    g_clear_error (&f->error);
    if (ok)
      return k - 1;
  }
}

/* A run allocates its outputs, the values saved beside them, and no more. */
START_TEST (a_run_allocates_its_outputs_and_nothing_else)
{
  static const struct {
    const char *program;
    uint64_t n;
  } cases[] = {
    { "graph (%x: f32[4], %y: f32[4], %z: f32[4]) -> (%2) { \n %0 = mul %x %y \n %1 = add %0 %z \n "
      "%2 "
      "= relu %1 \n }",
      1 },
    { "graph (%x: f32[4], %y: f32[4]) -> (%0, %2) { \n %0 = mul %x %y \n %1 = view %x sizes=[2, 2] "
      "\n "
      "%2 = exp %1 \n }",
      2 },
    { "graph (%x: f32[4] requires_grad, %y: f32[4], %z: f32[4]) -> (%2) { \n %0 = mul %x %y \n %1 "
      "= "
      "add %0 %z \n %2 = relu %1 \n }",
      1 },
    { "graph (%x: f32[4] requires_grad, %y: f32[4]) -> (%2) { \n %0 = mul %x %y \n %1 = sin %0 \n "
      "%2 = "
      "neg %1 \n }",
      2 },
  };

  for (size_t i = 0; i < G_N_ELEMENTS (cases); i++) {
    Fixture f;
    begin (&f, cases[i].program);
    f.e->bare = true; /* allocations of the test's own executor do not count */
    ck_assert_uint_eq (count_allocations (&f), cases[i].n);
    end (&f);
  }
}
END_TEST

START_TEST (inputs_that_were_not_compiled_for_are_named)
{
  Fixture f;
  GmMeta other = gm_meta_make (GM_F32, 1, (int64_t[]){ 5 });
  g_autoptr (GmTensor) t = filled (&other, 1);

  begin (&f, product);
  ck_assert (gm_plan_check (f.p, f.in, 2, NULL));
  assert_error (&f, gm_plan_check (f.p, f.in, 1, &f.error), GM_ERROR_RUNTIME, "takes 2");
  GmTensor *in[2] = { f.in[0], t };
  assert_error (&f, gm_plan_check (f.p, in, 2, &f.error), GM_ERROR_RUNTIME, "f32[5]");
  end (&f);
}
END_TEST

int
main (void)
{
  Suite *s = suite_create ("plan");
  TCase *t = tcase_create ("all");
  SRunner *sr = srunner_create (s);
  int failures;

  tcase_add_test (t, outputs_have_the_compiled_backward_as_history);
  tcase_add_test (t, missing_gradient_counts_as_zeros);
  tcase_add_test (t, output_without_gradient_does_not_change_a_bit);
  tcase_add_test (t, second_backward_needs_retain_graph);
  tcase_add_test (t, double_backward_is_refused_with_advice);
  tcase_add_test (t, write_to_a_saved_input_is_noticed);
  tcase_add_test (t, gradients_of_other_layouts_are_taken);
  tcase_add_test (t, saved_tensors_die_with_the_backward);
  tcase_add_test (t, a_run_that_nobody_walks_backwards_leaves_nothing);
  tcase_add_test (t, leaf_that_requires_grad_is_not_written_to);
  tcase_add_test (t, overlapping_inputs_are_refused_only_where_one_is_written_to);
  tcase_add_test (t, random_numbers_are_the_ones_of_the_plain_program);
  tcase_add_test (t, errors_of_the_back_end_come_through_and_leave_nothing);
  tcase_add_test (t, lack_of_memory_at_any_point_is_an_error);
  tcase_add_test (t, a_run_allocates_its_outputs_and_nothing_else);
  tcase_add_test (t, inputs_that_were_not_compiled_for_are_named);
  suite_add_tcase (s, t);
  srunner_run_all (sr, CK_NORMAL);
  failures = srunner_ntests_failed (sr);
  srunner_free (sr);
  return failures ? 1 : 0;
}
