/* SPDX-License-Identifier: Apache-2.0
 * test_partition.c -- the cut: forward and backward together are the joint graph, and little is
 * saved.
 */
#include "tests/fuzz/random_graph.h"
#include "tests/unit/aot_test.h"

/* -- The two parts compute what the whole does ------------------------------------------------- */

/* A graph's outputs, detached copies of whatever they are. */
static void
compute (const GmGraph *g, GmTensor *const *in, GmTensor **out)
{
  bool old = gm_grad_set_enabled (false);

  ck_assert (eager_run (g, in, out, NULL));
  gm_grad_set_enabled (old);
}

static void
assert_parts_are_the_whole (const GmGraph *g, int seed)
{
  TestExec *e;
  g_autoptr (GmPlan) p = plan_of (g, &e);
  const GmParts *parts = &e->parts;
  GmTensor *in[MAX] = { NULL }, *whole[MAX] = { NULL }, *forward[MAX] = { NULL }, *back_in[MAX],
           *backward[MAX] = { NULL };
  const GmGraph *j = e->joint.graph;

  for (uint32_t i = 0; i < j->inputs->len; i++)
    in[i] =
      filled (gm_graph_meta (j, g_array_index (j->inputs, GmValueId, i)), (uint32_t) seed + i);
  compute (j, in, whole);
  compute (parts->forward, in, forward);
  for (uint32_t i = 0; i < parts->n_outputs; i++)
    ck_assert_msg (same_elements (whole[i], forward[i], false, 0), "seed %d, output %u", seed, i);
  if (parts->backward) {
    for (uint32_t i = 0; i < parts->n_saved; i++)
      back_in[i] =
        parts->saved[i].is_input ? in[parts->saved[i].index] : forward[parts->saved[i].index];
    for (uint32_t i = 0; i < parts->n_tangents; i++)
      back_in[parts->n_saved + i] = in[e->joint.n_inputs + parts->tangents[i]];
    compute (parts->backward, back_in, backward);
    for (uint32_t i = 0; i < parts->n_grads; i++) {
      const GmGradSource *s = &parts->sources[i];
      ck_assert_msg (same_elements (whole[parts->n_outputs + i],
                                    s->is_input ? back_in[s->index] : backward[s->index], false, 0),
                     "seed %d, gradient %u", seed, i);
    }
  }
  for (int i = 0; i < MAX; i++) {
    gm_tensor_unref (in[i]);
    gm_tensor_unref (whole[i]);
    gm_tensor_unref (forward[i]);
    gm_tensor_unref (backward[i]);
  }
}

START_TEST (parts_are_the_whole)
{
  for (int seed = 0; seed < 400; seed++) {
    GmRandomGraph options = {
      .seed = (uint64_t) seed + 5000, .n_nodes = 12, .grad = true, .defined_only = true
    };
    g_autoptr (GmGraph) any = gm_random_graph (&options, NULL),
                        plain = random_program ((uint32_t) seed, false);
    assert_parts_are_the_whole (any, seed);
    assert_parts_are_the_whole (plain, seed);
  }
}
END_TEST

START_TEST (equal_graphs_have_equal_cuts)
{
  for (int seed = 0; seed < 50; seed++) {
    TestExec *e[2];
    char *text[2];
    for (int k = 0; k < 2; k++) {
      g_autoptr (GmGraph) g = random_program ((uint32_t) seed, false);
      g_autoptr (GmPlan) p = plan_of (g, &e[k]);
      g_autofree char *f = gm_graph_text (e[k]->parts.forward);
      g_autofree char *b = e[k]->parts.backward ? gm_graph_text (e[k]->parts.backward) : NULL;
      text[k] = g_strconcat (f, b, NULL);
    }
    ck_assert_str_eq (text[0], text[1]);
    g_free (text[0]);
    g_free (text[1]);
  }
}
END_TEST

/* -- What is saved ----------------------------------------------------------------------------- */

typedef struct { const char *program; uint32_t n_saved, n_saved_inputs, n_forward_outputs; } Case;

static const Case cases[] = {
  /* inputs as they are */
  { "graph (%x: f32[4, 3] requires_grad, %w: f32[3, 2] requires_grad) -> (%0) { \n %0 = matmul %x "
    "%w \n }",
    2, 2, 1 },
  /* the result of exp is an output already */
  { "graph (%x: f32[4] requires_grad) -> (%0) { \n %0 = exp %x \n }", 1, 0, 1 },
  /* an intermediate, though two views of it are read */
  { "graph (%x: f32[4, 4] requires_grad, %w: f32[4, 4]) -> (%6) { \n %0 = sin %x \n %1 = permute "
    "%0 dims=[1, 0] \n"
    " %2 = view %0 sizes=[16] \n %3 = mul %2 %2 \n %4 = mul %1 %w \n %5 = view %3 sizes=[4, 4] \n "
    "%6 = add %4 %5 \n }",
    3, 2, 2 },
  /* numbers and views of inputs are made again */
  { "graph (%x: f32[4, 3] requires_grad) -> (%2) { \n %0 = full sizes=[] dtype=f32 value=3.0 \n %1 "
    "= mul %x %0 \n"
    " %2 = sum %1 dims=[0] keepdim=false \n }",
    0, 0, 1 },
  /* an input that is written to is saved as it was before */
  { "graph (%x: f32[4], %w: f32[4] requires_grad) -> (%0) { \n %0 = mul %x %w \n %1 = neg %x \n %2 "
    "= copy_ %x %1 \n }",
    1, 0, 3 },
  /* equal nodes, one value */
  { "graph (%x: f32[4] requires_grad) -> (%4) { \n %0 = sin %x \n %1 = sin %x \n %2 = exp %0 \n %3 "
    "= exp %1 \n %4 = mul %2 %3 \n }",
    2, 1, 2 },
};

START_TEST (little_is_saved)
{
  g_autoptr (GmGraph) g = graph_of (cases[_i].program);
  TestExec *e;
  g_autoptr (GmPlan) p = plan_of (g, &e);
  const GmParts *parts = &e->parts;
  g_autofree char *f = gm_graph_text (parts->forward), *b = gm_graph_text (parts->backward);
  uint32_t n_inputs = 0;

  for (uint32_t i = 0; i < parts->n_saved; i++)
    n_inputs += parts->saved[i].is_input;
  ck_assert_msg (parts->n_saved == cases[_i].n_saved && n_inputs == cases[_i].n_saved_inputs &&
                   parts->forward->outputs->len == cases[_i].n_forward_outputs,
                 "%u saved, %u of them inputs, %u outputs:\n%s%s", parts->n_saved, n_inputs,
                 parts->forward->outputs->len, f, b);
}
END_TEST

START_TEST (a_tangent_that_is_a_gradient_passes_through)
{
  g_autoptr (GmGraph) g = graph_of (
    "graph (%x: f32[4] requires_grad, %y: f32[4] requires_grad) -> (%0) { \n %0 = add %x %y \n }");
  TestExec *e;
  g_autoptr (GmPlan) p = plan_of (g, &e);

  ck_assert_uint_eq (e->parts.n_grads, 2);
  ck_assert (e->parts.sources[0].is_input && e->parts.sources[1].is_input);
  ck_assert_uint_eq (e->parts.backward->outputs->len, 0);
  ck_assert (check_same (g, p, false));
  ck_assert_int_eq (e->runs[1], 0); /* no code ran */
}
END_TEST

START_TEST (nothing_dear_is_computed_twice)
{
  for (int seed = 0; seed < 200; seed++) {
    g_autoptr (GmGraph) g = random_program ((uint32_t) seed, false);
    TestExec *e;
    g_autoptr (GmPlan) p = plan_of (g, &e);
    g_autoptr (GmGraph) joint = gm_graph_simplify (
      e->joint.graph, GM_SIMPLIFY_DEAD | GM_SIMPLIFY_FOLD | GM_SIMPLIFY_CSE, NULL);
    const GmGraph *graphs[] = { joint, e->parts.forward, e->parts.backward };
    int n[3] = { 0 };

    for (int k = 0; k < 3; k++)
      for (uint32_t i = 0; graphs[k] && i < graphs[k]->nodes->len; i++) {
        const GmNode *node = gm_graph_node (graphs[k], i);
        n[k] += gm_ops[node->op].family != GM_FAMILY_MOVEMENT &&
                gm_ops[node->op].family != GM_FAMILY_CREATE && node->op != GM_OP_copy;
      }
    ck_assert_int_le (n[1] + n[2], n[0]);
  }
}
END_TEST

int
main (void)
{
  Suite *s = suite_create ("partition");
  TCase *t = tcase_create ("all");
  SRunner *sr = srunner_create (s);
  int failures;

  tcase_set_timeout (t, 60);
  tcase_add_test (t, parts_are_the_whole);
  tcase_add_test (t, equal_graphs_have_equal_cuts);
  tcase_add_loop_test (t, little_is_saved, 0, G_N_ELEMENTS (cases));
  tcase_add_test (t, a_tangent_that_is_a_gradient_passes_through);
  tcase_add_test (t, nothing_dear_is_computed_twice);
  suite_add_tcase (s, t);
  srunner_run_all (sr, CK_NORMAL);
  failures = srunner_ntests_failed (sr);
  srunner_free (sr);
  return failures ? 1 : 0;
}
