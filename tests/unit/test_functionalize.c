/* SPDX-License-Identifier: Apache-2.0
 * test_functionalize.c -- views, writes and aliased outputs: compiled programs against plain ones.
 */
#include "tests/unit/aot_test.h"

/* -- Written by hand: each must run both ways, and agree --------------------------------------- */

static const char *const programs[] = {
  /* an input is written to: whole, through a view, through a view of a view */
  "graph (%x: f32[4]) -> (%0) { \n %0 = tanh %x \n %1 = copy_ %x %0 \n }",
  "graph (%x: f32[4, 3], %y: f32[3]) -> (%1) { \n %0 = slice %x dim=0 start=1 stop=2 step=1 \n %1 "
  "= copy_ %0 %y \n }",
  "graph (%x: f32[4, 3], %y: f32[2]) -> (%3, %x) { \n %0 = permute %x dims=[1, 0] \n"
  " %1 = slice %0 dim=1 start=0 stop=4 step=2 \n %2 = copy_ %1 %y \n %3 = mul %x %x \n }",
  "graph (%x: f32[4, 3], %y: f32[12]) -> (%2) { \n %0 = view %x sizes=[12] \n %1 = copy_ %0 %y \n "
  "%2 = sin %x \n }",
  /* other views of the root see the write, in what was read before it they do not */
  "graph (%x: f32[4, 3]) -> (%4, %5) { \n %0 = slice %x dim=0 start=0 stop=2 step=1 \n %1 = neg %0 "
  "\n"
  " %2 = tanh %x \n %3 = copy_ %x %2 \n %4 = exp %0 \n %5 = exp %1 \n }",
  /* an intermediate is written to and given out, with a view of it */
  "graph (%x: f32[4, 3] requires_grad) -> (%0, %1, %4) { \n %0 = sin %x \n %1 = permute %0 "
  "dims=[1, 0] \n"
  " %2 = slice %1 dim=0 start=1 stop=3 step=1 \n %3 = exp %2 \n %4 = copy_ %2 %3 \n }",
  /* outputs: an input, twice; a view of an input; equal values; the result of a write */
  "graph (%x: f32[4] requires_grad) -> (%x, %x) { }",
  "graph (%x: f32[4, 3] requires_grad) -> (%0, %0, %1) { \n %0 = permute %x dims=[1, 0] \n %1 = "
  "view %x sizes=[12] \n }",
  "graph (%x: f32[4] requires_grad) -> (%0, %1) { \n %0 = exp %x \n %1 = exp %x \n }",
  "graph (%x: f32[4], %y: f32[4] requires_grad) -> (%1, %x, %2) { \n %0 = sin %y \n %1 = copy_ %x "
  "%0 \n %2 = cos %1 \n }",
  "graph (%x: f32[4, 3] requires_grad) -> (%1, %2) { \n %0 = tanh %x \n %1 = detach %0 \n %2 = sin "
  "%0 \n }",
  "graph (%x: f32[4, 3] requires_grad) -> (%1) { \n %0 = tanh %x \n %1 = detach %0 \n }",
  /* an overwritten intermediate takes the layout of the old one */
  "graph (%x: f32[3, 4], %y: f32[4, 3]) -> (%4, %3) { \n %0 = full sizes=[3, 4] dtype=f32 "
  "value=0.0 \n"
  " %1 = permute %y dims=[1, 0] \n %2 = copy_ %0 %1 \n %3 = exp %0 \n %4 = view %0 sizes=[12] \n }",
  /* strides: an input with gaps is written to, through a view */
  "graph (%x: f32[4, 3]{6, 2}, %y: f32[3]) -> (%3) { \n %0 = slice %x dim=0 start=0 stop=3 step=2 "
  "\n"
  " %1 = mul %0 %y \n %2 = copy_ %0 %1 \n %3 = add %x %y \n }",
  /* casts and broadcasts on the way in */
  "graph (%x: f32[4, 3], %y: i64[3]) -> () { \n %0 = copy_ %x %y \n }",
  /* gradients off: the result of the sine is a constant for the gradient */
  "graph (%x: f32[4] requires_grad) -> (%1) { \n %0 = sin %x no_grad \n %1 = mul %x %0 \n }",
};

START_TEST (program_agrees)
{
  g_autoptr (GmGraph) g = graph_of (programs[_i]);
  g_autoptr (GmPlan) p = plan_of (g, NULL);

  ck_assert_msg (check_same (g, p, true), "the plain program failed: %s", programs[_i]);
}
END_TEST

/* -- At random --------------------------------------------------------------------------------- */

START_TEST (random_programs_agree)
{
  int same = 0, refused = 0, n = 1500;

  for (int seed = 0; seed < n; seed++) {
    g_autoptr (GmGraph) g = random_program ((uint32_t) seed, true);
    g_autoptr (GError) error = NULL;
    g_autoptr (GmPlan) p = plan_with (g, true, (GmPlanRandom){ .used = false }, NULL, &error);

    if (p) {
      same += check_same (g, p, true);
    } else {
      ck_assert_int_eq (error->code, GM_ERROR_UNSUPPORTED);
      refused++;
    }
  }
  ck_assert_int_gt (same, n / 2);
  ck_assert_int_gt (n_exact, n / 8);
  ck_assert_int_lt (refused, n / 5);
}
END_TEST

/* -- Refusals, and what the graph looks like --------------------------------------------------- */

static void
assert_refused (const char *text, const char *says)
{
  g_autoptr (GmGraph) g = graph_of (text);
  g_autoptr (GError) error = NULL;
  g_autoptr (GmPlan) p = plan_with (g, true, (GmPlanRandom){ .used = false }, NULL, &error);

  ck_assert_ptr_null (p);
  ck_assert_int_eq (error->code, GM_ERROR_UNSUPPORTED);
  ck_assert_msg (strstr (error->message, says) != NULL, "%s", error->message);
}

START_TEST (impossible_writes_are_refused_with_their_line)
{
  assert_refused ("graph (%x: f32[1, 3], %y: f32[4, 3]) -> () { \n %0 = expand %x sizes=[4, 3] \n"
                  " %1 = copy_ %0 %y # train.py:7\n }",
                  "train.py:7");
  assert_refused (
      "graph (%x: f32[3] requires_grad, %y: f32[3]) -> (%2) { \n %0 = detach %x \n %1 = "
      "copy_ %0 %y \n %2 = tanh %x\n }",
      "gradients off");
}
END_TEST

START_TEST (functional_graph_has_one_output_per_written_input)
{
  g_autoptr (GmGraph) g = graph_of (
      "graph (%x: f32[4], %y: f32[4], %z: f32[4]) -> (%0) { \n %0 = sin %z \n %1 = copy_ %y %0 \n"
      " %2 = slice %z dim=0 start=0 stop=2 step=1 \n %3 = neg %2 \n %4 = copy_ %2 %3 \n }");
  GmArena *arena = gm_arena_new ();
  GmFunctionalLayer writes;
  g_autoptr (GmGraph) f = gm_functionalize (g, true, NULL, arena, &writes, NULL);

  ck_assert (gm_graph_verify (f, true, NULL));
  ck_assert_uint_eq (writes.n_outer, 1);
  ck_assert_uint_eq (writes.n_mutations, 2);
  ck_assert_uint_eq (writes.mutations[0].input.i, 1);
  ck_assert_uint_eq (writes.mutations[0].output.i, 1);
  ck_assert_uint_eq (writes.mutations[1].input.i, 2);
  ck_assert_uint_eq (g_array_index (f->outputs, GmGraphOutput, 2).kind, GM_OUTPUT_MUTATION);
  g_clear_pointer (&f, gm_graph_free);
  gm_arena_free (arena);
}
END_TEST

START_TEST (a_root_that_only_a_detach_reaches_gets_no_tangent)
{
  g_autoptr (GmGraph) g = graph_of ("graph (%x: f32[4] requires_grad) -> (%1, %2) { \n %0 = tanh "
                                    "%x \n %1 = detach %0 \n %2 = sin %0 \n }");
  TestExec *e;
  g_autoptr (GmPlan) p = plan_of (g, &e);

  ck_assert_uint_eq (e->joint.n_tangents, 1);
  ck_assert_uint_eq (e->joint.tangents[0].i, 1);
}
END_TEST

int
main (void)
{
  Suite *s = suite_create ("functionalize");
  TCase *t = tcase_create ("all");
  SRunner *sr = srunner_create (s);
  int failures;

  tcase_set_timeout (t, 60);
  tcase_add_loop_test (t, program_agrees, 0, G_N_ELEMENTS (programs));
  tcase_add_test (t, random_programs_agree);
  tcase_add_test (t, impossible_writes_are_refused_with_their_line);
  tcase_add_test (t, functional_graph_has_one_output_per_written_input);
  tcase_add_test (t, a_root_that_only_a_detach_reaches_gets_no_tangent);
  suite_add_tcase (s, t);
  srunner_run_all (sr, CK_NORMAL);
  failures = srunner_ntests_failed (sr);
  srunner_free (sr);
  return failures ? 1 : 0;
}
