/* SPDX-License-Identifier: Apache-2.0
 * test_partition.c -- the cut: forward and backward together are the joint graph, and little is
 * saved.
 */
#include "tests/fuzz/random_graph.h"
#include "tests/unit/aot_test.h"

/* -- The two parts compute what the whole does ------------------------------------------------- */

/* Computes a graph's outputs, as detached copies. */
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
      ck_assert_msg (same_elements (whole[e->joint.n_outputs + i],
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

/* -- Every legal cut gives the same bits ------------------------------------------------------- */

/* Tags any set of nodes at random, for any mode and any budget: check_same compares with the plain
 * program. */
static void
tag_at_random (GmGraph *g, GRand *r)
{
  int density = g_rand_int_range (r, 1, 6);

  for (uint32_t i = 0; i < g->nodes->len; i++)
    if (g_rand_int_range (r, 0, 6) < density)
      gm_graph_node (g, i)->tag = (uint8_t) g_rand_int_range (r, 0, GM_TAG_IN_PLACE);
}

START_TEST (whatever_is_saved_the_bits_are_eagers)
{
  GRand *r = g_rand_new_with_seed (7);
  int n = 900, same = 0;

  n_exact = 0;
  for (int seed = 0; seed < n; seed++) {
    GmRandomGraph options = {
      .seed = (uint64_t) seed, .n_nodes = 12, .grad = true, .strided = true, .defined_only = true
    };
    g_autoptr (GmGraph) g = seed % 3 ? random_program ((uint32_t) seed, seed % 3 == 1)
                                     : gm_random_graph (&options, NULL);
    tag_at_random (g, r);
    partition_options =
        (GmPartitionOptions){ g_rand_boolean (r) ? GM_PARTITION_MIN_CUT : GM_PARTITION_DEFAULT,
                              g_rand_int_range (r, 0, 5) / 4.0 };
    g_autoptr (GError) error = NULL;
    g_autoptr (GmPlan) p = plan_with (g, true, (GmPlanRandom){ .used = false }, NULL, &error);
    same += p && check_same (g, p, seed % 3 == 1);
  }
  partition_options = (GmPartitionOptions){ GM_PARTITION_DEFAULT, 1 };
  ck_assert_int_gt (same, n / 2);
  ck_assert_int_gt (n_exact, n / 6);
  g_rand_free (r);
}
END_TEST

START_TEST (less_budget_saves_no_more)
{
  int less = 0;

  for (int seed = 0; seed < 200; seed++)
    for (int mode = 0; mode < 2; mode++) {
      uint64_t last = UINT64_MAX;
      g_autoptr (GmGraph) g = random_program ((uint32_t) seed, seed % 2);
      for (int step = 10; step >= 0; step--) {
        TestExec *e;
        g_autoptr (GError) error = NULL;
        partition_options = (GmPartitionOptions){ (GmPartitionMode) mode, step / 10.0 };
        g_autoptr (GmPlan) p = plan_with (g, true, (GmPlanRandom){ .used = false }, &e, &error);
        if (!p)
          break;
        uint64_t bytes = saved_bytes_of (&e->parts);
        ck_assert_msg (bytes <= last, "seed %d, budget %g", seed, step / 10.0);
        less += bytes < last && last != UINT64_MAX;
        last = bytes;
      }
    }
  partition_options = (GmPartitionOptions){ GM_PARTITION_DEFAULT, 1 };
  ck_assert_int_gt (less, 20);
}
END_TEST

START_TEST (budget_of_nothing_saves_inputs_alone)
{
  g_autoptr (GmGraph) g = graph_of ("graph (%x: f32[4, 4] requires_grad, %w: f32[4, 4] "
                                    "requires_grad) -> (%4) { \n %0 = matmul %x %w "
                                    "\n %1 = tanh %0 \n %2 = matmul %1 %w \n %3 = exp %2 \n %4 = "
                                    "sum %3 dims=[] keepdim=false \n }");
  TestExec *e;

  partition_options = (GmPartitionOptions){ GM_PARTITION_MIN_CUT, 0 };
  g_autoptr (GmPlan) p = plan_of (g, &e);
  partition_options = (GmPartitionOptions){ GM_PARTITION_DEFAULT, 1 };
  ck_assert_uint_eq (saved_bytes_of (&e->parts), 0);
  ck_assert_uint_eq (e->parts.n_saved, 2);
  ck_assert (check_same (g, p, false));
}
END_TEST

START_TEST (options_that_make_no_sense_are_refused)
{
  g_autoptr (GmGraph) g = random_program (1, false);
  g_autoptr (GError) error = NULL;
  TestExec *e;
  g_autoptr (GmPlan) p = plan_of (g, &e);
  GmParts parts;
  GmPartitionOptions options = { GM_PARTITION_MIN_CUT, 1.5 };

  ck_assert (!gm_partition (&e->joint, NULL, &options, e->arena, &parts, &error));
  ck_assert (g_error_matches (error, GM_ERROR, GM_ERROR_VALUE));
  ck_assert_ptr_null (parts.forward);
}
END_TEST

/* Twenty times, with other addresses each time. */
START_TEST (equal_graphs_have_equal_minimum_cuts)
{
  partition_options = (GmPartitionOptions){ GM_PARTITION_MIN_CUT, 0.5 };
  for (int seed = 0; seed < 20; seed++) {
    g_autofree char *first = NULL;
    gpointer junk[20];
    for (int k = 0; k < 20; k++) {
      TestExec *e;
      g_autoptr (GmGraph) g = random_program ((uint32_t) seed, false);
      junk[k] = g_malloc ((gsize) (k * 997 % 4000 + 1));
      g_autoptr (GmPlan) p = plan_of (g, &e);
      g_autofree char *f = gm_graph_text (e->parts.forward);
      g_autofree char *b = e->parts.backward ? gm_graph_text (e->parts.backward) : NULL;
      g_autofree char *text = g_strconcat (f, b, NULL);
      if (!first)
        first = g_steal_pointer (&text);
      else
        ck_assert_str_eq (first, text);
    }
    for (int k = 0; k < 20; k++)
      g_free (junk[k]);
  }
  partition_options = (GmPartitionOptions){ GM_PARTITION_DEFAULT, 1 };
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

/* -- Rules and tags ---------------------------------------------------------------------------- */

typedef struct {
  const char *name, *program;
  uint32_t n_saved_values; /* outputs of kind SAVED, by the minimum cut */
  const char *again;       /* an op that the backward recomputes, or NULL */
  const char *not_again;   /* an op that the backward does not recompute */
} Rule;

static const Rule rules[] = {
  { "chain of elementwise operations",
    "graph (%x: f32[64] requires_grad) -> (%3) { \n %0 = sin %x \n %1 = exp %0 \n %2 = mul %1 %0 "
    "\n "
    "%3 = sum %2 dims=[] keepdim=false \n }",
    0, "exp", NULL },
  { "matrix product",
    "graph (%x: f32[8, 8] requires_grad, %w: f32[8, 8] requires_grad) -> (%3) { \n %0 = matmul %x "
    "%w "
    "\n %1 = tanh %0 \n %2 = mul %1 %1 \n %3 = sum %2 dims=[] keepdim=false \n }",
    1, NULL, "tanh" },
  { "random numbers",
    "graph (%x: f32[64] requires_grad, %state: i64[2]) -> (%3) { \n %0 = uniform %state sizes=[64] "
    "dtype=f32 offset=0 \n %1 = mul %x %0 \n %2 = mul %1 %1 \n %3 = sum %2 dims=[] keepdim=false "
    "\n }",
    1, NULL, "uniform" },
  { "reduction to a few bytes",
    "graph (%x: f32[8, 64] requires_grad) -> (%5) { \n %0 = sum %x dims=[1] keepdim=true \n %1 = "
    "sub "
    "%x %0 \n %2 = exp %1 \n %3 = sin %2 \n %4 = mul %3 %2 \n %5 = sum %4 dims=[] keepdim=false \n "
    "}",
    1, "exp", "amax" },
  { "mask instead of what was compared",
    "graph (%x: f32[8, 8] requires_grad, %w: f32[8, 8] requires_grad) -> (%2) { \n %0 = matmul %x "
    "%w "
    "\n %1 = relu %0 \n %2 = sum %1 dims=[] keepdim=false \n }",
    1, NULL, "le" },
  { "old and new joined: a residual stream is kept, though its parts are, too",
    "graph (%x: f32[8, 8], %w: f32[8, 8] requires_grad) -> (%7) { \n %0 = matmul %x %w \n %1 = sin "
    "%0 \n %2 = matmul %1 %w \n %3 = add %0 %2 \n %4 = sin %3 \n %5 = sin %2 \n %6 = add %4 %5 \n "
    "%7 "
    "= sum %6 dims=[] keepdim=false \n }",
    3, "sin", NULL },
  { "near the backward, though twice the bytes: ten steps are not done again",
    "graph (%x: f32[8, 8] requires_grad, %w: f32[8, 8]) -> (%13) { \n %0 = matmul %x %w \n %1 = "
    "cast "
    "%0 dtype=f64 \n %2 = neg %1 \n %3 = neg %2 \n %4 = neg %3 \n %5 = neg %4 \n %6 = neg %5 \n %7 "
    "= neg %6 \n %8 = neg %7 \n %9 = neg %8 \n %10 = neg %9 \n %11 = neg %10 \n %12 = square %11 "
    "\n "
    "%13 = sum %12 dims=[] keepdim=false \n }",
    1, NULL, NULL },
  { "tag: recompute goes before the ban on matrix products",
    "graph (%x: f32[8, 8] requires_grad, %w: f32[8, 8] requires_grad) -> (%3) { \n %0 = matmul %x "
    "%w "
    ": f32[8, 8] !recompute \n %1 = tanh %0 : f32[8, 8] !recompute \n %2 = mul %1 %1 : f32[8, 8] "
    "!recompute \n %3 = sum %2 dims=[] keepdim=false \n }",
    0, "tanh", NULL },
  { "tag: save goes before what is lighter",
    "graph (%x: f32[64] requires_grad) -> (%3) { \n %0 = sin %x \n %1 = exp %0 : f32[64] !save \n "
    "%2 "
    "= mul %1 %0 \n %3 = sum %2 dims=[] keepdim=false \n }",
    1, "sin", "exp" },
};

static int
count_op (const GmGraph *g, const char *name)
{
  int n = 0;

  for (uint32_t i = 0; i < g->nodes->len; i++)
    n += strcmp (gm_ops[gm_graph_node (g, i)->op].name, name) == 0;
  return n;
}

START_TEST (rules_of_the_minimum_cut)
{
  const Rule *rule = &rules[_i];
  g_autoptr (GmGraph) g = graph_of (rule->program);
  TestExec *e;
  uint32_t n = 0;

  partition_options = (GmPartitionOptions){ GM_PARTITION_MIN_CUT, 1 };
  g_autoptr (GmPlan) p = plan_of (g, &e);
  partition_options = (GmPartitionOptions){ GM_PARTITION_DEFAULT, 1 };
  g_autofree char *f = gm_graph_text (e->parts.forward), *b = gm_graph_text (e->parts.backward);
  for (uint32_t i = 0; i < e->parts.forward->outputs->len; i++)
    n += g_array_index (e->parts.forward->outputs, GmGraphOutput, i).kind == GM_OUTPUT_SAVED;
  if (strstr (rule->name, "near the backward"))
    ck_assert_uint_eq (saved_bytes_of (&e->parts), 8 * 64);
  ck_assert_msg (n == rule->n_saved_values, "%s: %u saved\n%s%s", rule->name, n, f, b);
  ck_assert_msg (!rule->again || count_op (e->parts.backward, rule->again), "%s:\n%s", rule->name,
                 b);
  ck_assert_msg (!rule->not_again || !count_op (e->parts.backward, rule->not_again), "%s:\n%s",
                 rule->name, b);
}
END_TEST

/* The random numbers are drawn again from the same state. */
START_TEST (random_numbers_are_computed_again_the_same)
{
  g_autoptr (GmGraph) g = graph_of ("graph (%x: f32[64] requires_grad, %state: i64[2]) -> (%3) { "
                                    "\n %0 = uniform %state sizes=[64] "
                                    "dtype=f32 offset=0 : f32[64] !recompute \n %1 = mul %x %0 : "
                                    "f32[64] !recompute \n %2 = sin %1 "
                                    ": f32[64] !recompute \n %3 = mul %2 %2 \n }");
  TestExec *e;
  g_autoptr (GmPlan) p = plan_of (g, &e);

  ck_assert_int_eq (count_op (e->parts.backward, "uniform"), 1);
  ck_assert_uint_eq (saved_bytes_of (&e->parts), 0);
  n_exact = 0;
  ck_assert (check_same (g, p, false));
  ck_assert_int_eq (n_exact, 1);
}
END_TEST

/* A product's operands must be stored, but not the values from which they were made: those are
 * recomputed for later readers, unless the program said when to recompute them. */
START_TEST (products_do_not_keep_what_their_operands_were_made_from)
{
  static const char *const text =
      "graph (%%x: f32[8, 8] requires_grad, %%w: f32[8, 8] requires_grad) -> (%%5) { \n %%0 = "
      "matmul %%x %%w "
      "\n %%1 = tanh %%0 : f32[8, 8]%s \n %%2 = sin %%1 : f32[8, 8]%s \n %%3 = mul %%2 %%1 : "
      "f32[8, 8]%s \n "
      "%%4 = matmul %%3 %%w \n %%5 = sum %%4 dims=[] keepdim=false \n }";

  for (int tagged = 0; tagged < 2; tagged++) {
    const char *tag = tagged ? " !recompute" : " ";
    g_autofree char *program = g_strdup_printf (text, tag, tag, tag);
    g_autoptr (GmGraph) g = graph_of (program);
    TestExec *e;
    partition_options = (GmPartitionOptions){ GM_PARTITION_MIN_CUT, 1 };
    g_autoptr (GmPlan) p = plan_of (g, &e);
    partition_options = (GmPartitionOptions){ GM_PARTITION_DEFAULT, 1 };
    g_autofree char *b = gm_graph_text (e->parts.backward);
    ck_assert_msg (count_op (e->parts.backward, "sin") == (tagged ? 1 : 2), "%s", b);
    n_exact = 0;
    ck_assert (check_same (g, p, false));
    ck_assert_int_eq (n_exact, 1);
  }
}
END_TEST

/* A recomputed value is computed right before its first reader, so that it is not stored
 * earlier. */
START_TEST (what_is_computed_again_is_computed_late)
{
  g_autoptr (GmGraph) g = graph_of ("graph (%x: f32[64] requires_grad, %y: f32[64] requires_grad) "
                                    "-> (%5) { \n %0 = sin %x : f32[64] "
                                    "!recompute \n %1 = mul %0 %0 \n %2 = cos %y : f32[64] "
                                    "!recompute \n %3 = mul %2 %2 \n %4 = add "
                                    "%1 %3 \n %5 = sum %4 dims=[] keepdim=false \n }");
  TestExec *e;
  g_autoptr (GmPlan) p = plan_of (g, &e);
  const GmGraph *b = e->parts.backward;
  uint32_t sin_at = 0, first_neg = UINT32_MAX;

  for (uint32_t i = 0; i < b->nodes->len; i++) {
    const GmNode *n = gm_graph_node (b, i);
    sin_at = n->op == GM_OP_sin && n->in[0] == 0 ? i : sin_at;
    first_neg = n->op == GM_OP_neg ? MIN (first_neg, i) : first_neg;
  }
  ck_assert_uint_gt (sin_at, first_neg); /* y's gradient, which is computed first, ends in neg */
}
END_TEST

/* -- What is saved ----------------------------------------------------------------------------- */

typedef struct {
  const char *program;
  uint32_t n_saved, n_saved_inputs, n_forward_outputs;
} Case;

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
  ck_assert_msg (parts->n_saved == cases[_i].n_saved && n_inputs == cases[_i].n_saved_inputs
                     && parts->forward->outputs->len == cases[_i].n_forward_outputs,
                 "%u saved, %u of them inputs, %u outputs:\n%s%s", parts->n_saved, n_inputs,
                 parts->forward->outputs->len, f, b);
}
END_TEST

START_TEST (a_tangent_that_is_a_gradient_passes_through)
{
  g_autoptr (GmGraph) g = graph_of ("graph (%x: f32[4] requires_grad, %y: f32[4] requires_grad) -> "
                                    "(%0) { \n %0 = add %x %y \n }");
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
        n[k] += gm_ops[node->op].family != GM_FAMILY_MOVEMENT
                && gm_ops[node->op].family != GM_FAMILY_CREATE && node->op != GM_OP_copy;
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
  tcase_add_test (t, whatever_is_saved_the_bits_are_eagers);
  tcase_add_test (t, less_budget_saves_no_more);
  tcase_add_test (t, budget_of_nothing_saves_inputs_alone);
  tcase_add_test (t, options_that_make_no_sense_are_refused);
  tcase_add_test (t, equal_graphs_have_equal_minimum_cuts);
  tcase_add_test (t, equal_graphs_have_equal_cuts);
  tcase_add_loop_test (t, rules_of_the_minimum_cut, 0, G_N_ELEMENTS (rules));
  tcase_add_test (t, random_numbers_are_computed_again_the_same);
  tcase_add_test (t, products_do_not_keep_what_their_operands_were_made_from);
  tcase_add_test (t, what_is_computed_again_is_computed_late);
  tcase_add_loop_test (t, little_is_saved, 0, G_N_ELEMENTS (cases));
  tcase_add_test (t, a_tangent_that_is_a_gradient_passes_through);
  tcase_add_test (t, nothing_dear_is_computed_twice);
  suite_add_tcase (s, t);
  srunner_run_all (sr, CK_NORMAL);
  failures = srunner_ntests_failed (sr);
  srunner_free (sr);
  return failures ? 1 : 0;
}
