/* SPDX-License-Identifier: Apache-2.0
 * Stage s: nodes that are folded, nodes that must not be, and that random graphs keep every bit.
 */
#include <check.h>
#include <string.h>

#include "core/graph/graph.h"
#include "tests/fuzz/random_graph.h"

#define ALL (GM_SIMPLIFY_DEAD | GM_SIMPLIFY_FOLD | GM_SIMPLIFY_CSE)

static GmGraph *
parse (const char *text)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) gs = gm_graph_parse (text, &error);
  ck_assert_msg (gs != NULL, "%s\n%s", error ? error->message : "", text);
  return g_ptr_array_steal_index (gs, 0);
}

static void
becomes (uint32_t what, const char *from, const char *to)
{
  g_autoptr (GmGraph) g = parse (from);
  g_autoptr (GmGraph) s = gm_graph_simplify (g, what, NULL);
  g_autoptr (GError) error = NULL;
  ck_assert_msg (gm_graph_verify (s, false, &error), "%s", error ? error->message : "");
  g_autofree char *text = gm_graph_text (s);
  ck_assert_str_eq (text, to);
}

static void
stays (uint32_t what, const char *text)
{
  becomes (what, text, text);
}

START_TEST (dead_nodes_go_and_lines_stay)
{
  becomes (GM_SIMPLIFY_DEAD,
           "g (%x: f32[2], %y: f32[2]) -> (%2) {\n"
           "  %0 = tanh %x : f32[2]\n  %1 = exp %0 : f32[2]\n  %2 = sin %x : f32[2]  # a.py:3\n}\n",
           "g (%x: f32[2], %y: f32[2]) -> (%0) {\n  %0 = sin %x : f32[2]  # a.py:3\n}\n");
}
END_TEST

START_TEST (constants_are_renumbered)
{
  becomes (GM_SIMPLIFY_DEAD,
           "g () -> (%1) {\n  const 0 : f32[] = [1.0]\n  const 1 : f32[] = [2.0]\n  %0 = constant "
           "offset=0 : f32[]\n"
           "  %1 = constant offset=1 : f32[]\n}\n",
           "g () -> (%0) {\n  const 0 : f32[] = [2.0]\n  %0 = constant offset=0 : f32[]\n}\n");
}
END_TEST

START_TEST (views_of_views_are_one_view)
{
  becomes (ALL,
           "g (%x: f32[4, 6]) -> (%1, %3, %5, %7) {\n"
           "  %0 = view %x sizes=[24]\n  %1 = view %0 sizes=[2, 12]\n"
           "  %2 = permute %x dims=[1, 0] : f32[6, 4]{1, 6}\n  %3 = permute %2 dims=[1, 0]\n"
           "  %4 = slice %x dim=1 start=1 stop=6 step=2 : f32[4, 3]{6, 2}\n  %5 = slice %4 dim=1 "
           "start=1 stop=3 step=1 : f32[4, 2]{6, 2}\n"
           "  %6 = expand %x sizes=[3, 4, 6] : f32[3, 4, 6]{0, 6, 1}\n  %7 = expand %6 sizes=[2, "
           "3, 4, 6] : f32[2, 3, 4, 6]{0, 0, 6, 1}\n}\n",
           "g (%x: f32[4, 6]) -> (%0, %1, %2, %3) {\n"
           "  %0 = view %x sizes=[2, 12] : f32[2, 12]\n"
           "  %1 = permute %x dims=[0, 1] : f32[4, 6]\n"
           "  %2 = slice %x dim=1 start=3 stop=6 step=2 : f32[4, 2]{6, 2}\n"
           "  %3 = expand %x sizes=[2, 3, 4, 6] : f32[2, 3, 4, 6]{0, 0, 6, 1}\n}\n");
}
END_TEST

START_TEST (views_that_change_nothing_are_their_operand)
{
  becomes (ALL,
           "g (%x: f32[4, 6]) -> (%6) {\n"
           "  %0 = permute %x dims=[1, 0] : f32[6, 4]{1, 6}\n  %1 = permute %0 dims=[1, 0]\n  %2 = "
           "view %1 sizes=[4, 6]\n"
           "  %3 = expand %2 sizes=[4, 6]\n  %4 = slice %3 dim=0 start=0 stop=4 step=1\n  %5 = "
           "detach %4\n  %6 = tanh %5\n}\n",
           "g (%x: f32[4, 6]) -> (%0) {\n  %0 = tanh %x : f32[4, 6]\n}\n");
  stays (ALL, "g (%x: f32[4, 4]{1, 1}) -> (%1) {\n" /* equal metas, other elements */
              "  %0 = permute %x dims=[1, 0] : f32[4, 4]{1, 1}\n  %1 = tanh %0 : f32[4, 4]\n}\n");
}
END_TEST

START_TEST (copies_that_nobody_can_tell_apart_go)
{
  becomes (ALL,
           "g (%x: f32[4]) -> (%3) {\n  %0 = tanh %x\n  %1 = copy %0\n  %2 = cast %1 dtype=f32\n  "
           "%3 = exp %2\n}\n",
           "g (%x: f32[4]) -> (%1) {\n  %0 = tanh %x : f32[4]\n  %1 = exp %0 : f32[4]\n}\n");
  stays (
      ALL,
      "g (%x: f32[4]) -> (%1) {\n  %0 = copy %x : f32[4]\n  %1 = exp %0 : f32[4]\n}\n"); /* of an
                                                                                            input */
  stays (
      ALL,
      "g (%x: f32[4]) -> (%1) {\n  %0 = tanh %x : f32[4]\n  %1 = copy %0 : f32[4]\n}\n"); /* an
                                                                                             output
                                                                                           */
  stays (ALL, "g (%x: f32[4]) -> (%0, %2) {\n  %0 = tanh %x : f32[4]\n  %1 = copy %0 : f32[4]\n  "
              "%2 = exp %1 : f32[4]\n}\n");
  stays (ALL, "g (%x: f32[4, 2]) -> (%2) {\n  %0 = tanh %x : f32[4, 2]\n  %1 = copy %0 : f32[4, "
              "2]\n" /* a view of it is an output */
              "  %2 = permute %1 dims=[1, 0] : f32[2, 4]{1, 2}\n}\n");
}
END_TEST

START_TEST (numbers_are_computed_as_eager_does)
{
  becomes (ALL,
           "g (%x: f32[2]) -> (%5) {\n"
           "  %0 = full sizes=[] dtype=f32 value=3\n  %1 = full sizes=[2] dtype=f32 value=0.1\n  "
           "%2 = div %1 %0\n  %3 = neg %2\n"
           "  %4 = cast %3 dtype=f64\n  %5 = copy %4\n}\n",
           "g (%x: f32[2]) -> (%1) {\n"
           "  %0 = full sizes=[2] dtype=f64 value=-0.03333333507180214 : f64[2]\n  %1 = copy %0 : "
           "f64[2]\n}\n");
  becomes (ALL,
           "g () -> (%2) {\n  %0 = full sizes=[] dtype=i64 value=7\n  %1 = full sizes=[] dtype=i64 "
           "value=2\n  %2 = gt %0 %1\n}\n",
           "g () -> (%0) {\n  %0 = full sizes=[] dtype=b1 value=true : b1[]\n}\n");
}
END_TEST

START_TEST (what_differs_by_a_bit_is_left_alone)
{
  stays (ALL, "g (%x: f32[2]) -> (%2, %3) {\n" /* x + 0 of -0, x * 1 of a signalling NaN */
              "  %0 = full sizes=[] dtype=f32 value=0.0 : f32[]\n  %1 = full sizes=[] dtype=f32 "
              "value=1.0 : f32[]\n"
              "  %2 = add %x %0 : f32[2]\n  %3 = mul %x %1 : f32[2]\n}\n");
  stays (ALL,
         "g (%x: f32[2], %y: f32[2]) -> (%2) {\n" /* which NaN comes out depends on the order of
                                                     operands */
         "  %0 = add %x %y : f32[2]\n  %1 = add %y %x : f32[2]\n  %2 = mul %0 %1 : f32[2]\n}\n");
}
END_TEST

START_TEST (equal_nodes_are_one)
{
  becomes (ALL,
           "g (%x: f32[2], %rng: i64[2]) -> (%8) {\n"
           "  %0 = tanh %x  # a:1\n  %1 = tanh %x  # a:2\n  %2 = exp %0\n  %3 = exp %1\n  %4 = mul "
           "%2 %3\n"
           "  %5 = uniform %rng sizes=[2] dtype=f32 offset=0\n  %6 = uniform %rng sizes=[2] "
           "dtype=f32 offset=1\n"
           "  %7 = add %5 %6\n  %8 = mul %4 %7\n}\n",
           "g (%x: f32[2], %rng: i64[2]) -> (%6) {\n"
           "  %0 = tanh %x : f32[2]  # a:1\n  %1 = exp %0 : f32[2]\n  %2 = mul %1 %1 : f32[2]\n"
           "  %3 = uniform %rng sizes=[2] dtype=f32 offset=0 : f32[2]\n  %4 = uniform %rng "
           "sizes=[2] dtype=f32 offset=1 : f32[2]\n"
           "  %5 = add %3 %4 : f32[2]\n  %6 = mul %2 %5 : f32[2]\n}\n");
}
END_TEST

START_TEST (outputs_stay_apart)
{
  stays (ALL,
         "g (%x: f32[2]) -> (%0, %1) {\n  %0 = tanh %x : f32[2]\n  %1 = tanh %x : f32[2]\n}\n");
  stays (ALL,
         "g (%x: f32[2, 3]) -> (%0, %2) {\n  %0 = tanh %x : f32[2, 3]\n  %1 = tanh %x : f32[2, 3]\n"
         "  %2 = permute %1 dims=[1, 0] : f32[3, 2]{1, 3}\n}\n");
  stays (ALL, "g (%x: f32[2]) -> (%0) {\n  %0 = view %x sizes=[2] : f32[2]\n}\n");
}
END_TEST

START_TEST (writes_keep_what_is_around_them)
{
  stays (ALL, "g (%x: f32[2], %y: f32[2]) -> (%3) {\n"
              "  %0 = exp %x : f32[2]\n  %1 = copy_ %x %y : f32[2]\n  %2 = exp %x : f32[2]\n  %3 = "
              "add %0 %2 : f32[2]\n}\n");
  becomes (ALL,
           "g (%x: f32[2, 3], %y: f32[]) -> () {\n  %0 = view %x sizes=[6]\n  %1 = view %0 "
           "sizes=[3, 2]\n  %2 = copy_ %1 %y\n  %3 = exp %y\n}\n",
           "g (%x: f32[2, 3], %y: f32[]) -> () {\n  %0 = view %x sizes=[3, 2] : f32[3, 2]\n  %1 = "
           "copy_ %0 %y : f32[3, 2]\n}\n");
}
END_TEST

START_TEST (what_is_still_to_be_differentiated_is_not_folded)
{
  static const char text[] =
      "g (%x: f32[6] requires_grad) -> (%1) {\n  %0 = view %x sizes=[2, 3] : f32[2, 3]\n"
      "  %1 = view %0 sizes=[3, 2] : f32[3, 2]\n}\n";
  stays (GM_SIMPLIFY_DEAD | GM_SIMPLIFY_FOLD, text);
  becomes (ALL, text,
           "g (%x: f32[6] requires_grad) -> (%0) {\n  %0 = view %x sizes=[3, 2] : f32[3, 2]\n}\n");
}
END_TEST

START_TEST (symbolic_graphs_pass)
{
  becomes (
      ALL,
      "g (%x: f32[n, 4]) -> (%2) {\n  %0 = tanh %x : f32[n, 4]\n  %1 = tanh %x : f32[n, 4]\n  %2 = "
      "mul %0 %1 : f32[n, 4]\n}\n",
      "g (%x: f32[n, 4]) -> (%1) {\n  %0 = tanh %x : f32[n, 4]\n  %1 = mul %0 %0 : f32[n, 4]\n}\n");
}
END_TEST

START_TEST (random_graphs_keep_every_bit)
{
  uint32_t gone = 0;
  for (uint64_t seed = 0; seed < 1500; seed++) {
    GmRandomGraph o = { .seed = seed, .strided = seed % 2 };
    g_autoptr (GError) error = NULL;
    g_autoptr (GmGraph) g = gm_random_graph (&o, NULL);
    uint32_t what = (uint32_t) (seed % 7) + 1;
    g_autoptr (GmGraph) s = gm_graph_simplify (g, what, NULL),
                        twice = gm_graph_simplify (s, what, NULL);
    ck_assert_msg (gm_graph_verify (s, true, &error), "seed %d: %s", (int) seed,
                   error ? error->message : "");
    ck_assert_uint_eq (s->outputs->len, g->outputs->len);
    ck_assert_uint_eq (s->inputs->len, g->inputs->len);
    gone += g->nodes->len - s->nodes->len;
    ck_assert_uint_le (twice->nodes->len, s->nodes->len);
    g_autofree GmTensor **in = g_new0 (GmTensor *, g->inputs->len + 1),
                        **a = g_new0 (GmTensor *, g->outputs->len + 1),
                        **b = g_new0 (GmTensor *, g->outputs->len + 1);
    gm_random_inputs (g, seed, GM_RANDOM_WILD, in);
    ck_assert (gm_graph_interpret (g, in, a, NULL) && gm_graph_interpret (s, in, b, NULL));
    for (uint32_t i = 0; i < g->outputs->len; i++) {
      g_autofree char *why = NULL;
      bool same = gm_random_equal (a[i], b[i], true, &why)
                  && !memcmp (a[i]->meta.strides, b[i]->meta.strides, sizeof b[i]->meta.strides);
      ck_assert_msg (same, "seed %d, output %u: %s", (int) seed, i, why ? why : "strides");
      gm_tensor_unref (a[i]);
      gm_tensor_unref (b[i]);
    }
    for (uint32_t i = 0; i < g->inputs->len; i++)
      gm_tensor_unref (in[i]);
  }
  ck_assert_uint_gt (gone, 1000);
}
END_TEST

START_TEST (the_hash_sees_structure_and_not_names)
{
  static const char *const texts[] = {
    "g (%x: f32[2], %y: f32[2]) -> (%0) {\n  %0 = sub %x %y\n}\n",
    "g (%x: f32[2], %y: f32[2]) -> (%0) {\n  %0 = sub %y %x\n}\n",
    "g (%x: f32[2], %y: f32[2]) -> (%0) {\n  %0 = add %x %y\n}\n",
    "g (%x: f64[2], %y: f64[2]) -> (%0) {\n  %0 = sub %x %y\n}\n",
    "g (%x: f32[3], %y: f32[3]) -> (%0) {\n  %0 = sub %x %y\n}\n",
    "g (%x: f32[n], %y: f32[n]) -> (%0) {\n  %0 = sub %x %y : f32[n]\n}\n",
    "g (%x: f32[n], %y: f32[m]) -> (%0) {\n  %0 = sub %x %x : f32[n]\n}\n",
    "g (%x: f32[n], %y: f32[n]) -> (%0) {\n  %0 = sub %x %x : f32[n]\n}\n",
    "g (%x: f32[2], %y: f32[2]) -> (saved %0) {\n  %0 = sub %x %y\n}\n",
    "g (%x: f32[2], %y: f32[2]) -> (%0, %0) {\n  %0 = sub %x %y\n}\n",
    "g (%x: f32[2] requires_grad, %y: f32[2]) -> (%0) {\n  %0 = sub %x %y\n}\n",
    "g (%x: f32[2], %y: f32[2]) -> (%0) {\n  const 0 : f32[] = [1.0]\n  %0 = constant "
    "offset=0\n}\n",
    "g (%x: f32[2], %y: f32[2]) -> (%0) {\n  const 0 : f32[] = [2.0]\n  %0 = constant "
    "offset=0\n}\n",
    "g (%x: f32[2], %y: f32[2]) -> (%0) {\n  %0 = full sizes=[] dtype=f32 value=2.0\n}\n",
    "g (%x: f32[2], %y: f32[2]) -> (%0) {\n  %0 = full sizes=[] dtype=f32 value=2\n}\n",
    "g (%x: f32[2], %y: f32[2]) -> (%0) {\n  %0 = slice %x dim=0 start=0 stop=1 step=1\n}\n",
    "g (%x: f32[2], %y: f32[2]) -> (%0) {\n  %0 = slice %x dim=0 start=1 stop=2 step=1\n}\n",
  };
  for (size_t i = 0; i < G_N_ELEMENTS (texts); i++)
    for (size_t k = 0; k < G_N_ELEMENTS (texts); k++) {
      g_autoptr (GmGraph) a = parse (texts[i]), b = parse (texts[k]);
      ck_assert_msg ((gm_graph_hash (a) == gm_graph_hash (b)) == (i == k), "%s%s", texts[i],
                     texts[k]);
    }
  g_autoptr (GmGraph) a =
      parse ("g (%x: f32[n, 2], %y: f32[m]) -> (%0) {\n  %0 = tanh %x : f32[n, 2]  # a.py\n}\n");
  g_autoptr (GmGraph) b =
      parse ("h (%z: f32[k, 2], %w: f32[q]) -> (%y) {\n  %y = tanh %z : f32[k, 2]\n}\n");
  ck_assert_uint_eq (gm_graph_hash (a), gm_graph_hash (b));
}
END_TEST

int
main (void)
{
  Suite *suite = suite_create ("simplify");
  TCase *t = tcase_create ("simplify");
  tcase_set_timeout (t, 120);
  tcase_add_test (t, dead_nodes_go_and_lines_stay);
  tcase_add_test (t, constants_are_renumbered);
  tcase_add_test (t, views_of_views_are_one_view);
  tcase_add_test (t, views_that_change_nothing_are_their_operand);
  tcase_add_test (t, copies_that_nobody_can_tell_apart_go);
  tcase_add_test (t, numbers_are_computed_as_eager_does);
  tcase_add_test (t, what_differs_by_a_bit_is_left_alone);
  tcase_add_test (t, equal_nodes_are_one);
  tcase_add_test (t, outputs_stay_apart);
  tcase_add_test (t, writes_keep_what_is_around_them);
  tcase_add_test (t, what_is_still_to_be_differentiated_is_not_folded);
  tcase_add_test (t, symbolic_graphs_pass);
  tcase_add_test (t, random_graphs_keep_every_bit);
  tcase_add_test (t, the_hash_sees_structure_and_not_names);
  suite_add_tcase (suite, t);
  SRunner *sr = srunner_create (suite);
  srunner_run_all (sr, CK_NORMAL);
  int failures = srunner_ntests_failed (sr);
  srunner_free (sr);
  return failures ? 1 : 0;
}
