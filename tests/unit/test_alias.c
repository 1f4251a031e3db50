/* SPDX-License-Identifier: Apache-2.0
 * test_alias.c -- what a graph says of the memory of its inputs: from real tensors, in text,
 * checked.
 */
#include "tests/unit/alias_test.h"

/* -- From tensors ---------------------------------------------------------------------------------
 */

START_TEST (inputs_are_described_as_they_lie)
{
  static const World w = { { "f32[2, 3]" },
                           true,
                           { { 0, GM_OP_permute, "dims=[1, 0]", 0 },
                             { 0, GM_OP_slice, "dim=0 start=1 stop=2 step=1", 0 },
                             { 0, GM_OP_detach, "", 0 },
                             { 0, GM_OP_NONE, "", 2 },
                             { -1, GM_OP_NONE, "f32[4]", 0 } },
                           5 };
  g_autoptr (GmGraph) g =
      graph_of ("g (%a: f32[3, 2]{1, 3} requires_grad, %b: f32[1, 3] requires_grad, %c: f32[2, 3], "
                "%d: f32[1, 3] requires_grad, %e: f32[4]) -> () { }");
  Run r = world_begin (&w);

  gm_overlap_describe (g, r.in);
  g_autofree char *text = gm_graph_text (g);
  ck_assert_str_eq (
      text,
      "g (%a: f32[3, 2]{1, 3} requires_grad made 1 view f32[2, 3] requires_grad +0, "
      "%b: f32[1, 3] requires_grad made 2 view f32[2, 3] requires_grad +3 aliases %a+3, "
      "%c: f32[2, 3] aliases %a+0, %d: f32[1, 3] requires_grad is %b, %e: f32[4]) -> () {\n}\n");
  ck_assert (gm_graph_verify (g, false, NULL));
  run_end (&r);
}
END_TEST

START_TEST (a_base_that_is_passed_is_named_even_if_it_comes_later)
{
  static const World w = { { "f32[6]" },
                           false,
                           { { 0, GM_OP_slice, "dim=0 start=2 stop=6 step=1", 0 },
                             { 0, GM_OP_NONE, "", 0 } },
                           2 };
  g_autoptr (GmGraph) g = graph_of ("g (%v: f32[4], %x: f32[6]) -> () { }");
  Run r = world_begin (&w);

  gm_overlap_describe (g, r.in);
  g_autofree char *text = gm_graph_text (g);
  ck_assert_msg (strstr (text, "%v: f32[4] view %x+2, %x: f32[6] aliases %v-2)") != NULL, "%s",
                 text);
  run_end (&r);
}
END_TEST

/* -- In text --------------------------------------------------------------------------------------
 */

static const char *const wrong[][2] = {
  { "g (%a: f32[4], %b: f32[4] is %c) -> () { }", "there is no input %c" },
  { "g (%a: f32[4], %b: f32[3] is %a) -> () { }", "another type" },
  { "g (%a: f32[4], %b: f32[4] is %a, %c: f32[4] is %b) -> () { }", "itself another one" },
  { "g (%a: f32[4], %b: f32[4] is %a aliases %a+0) -> () { }", "memory of its own" },
  { "g (%a: f32[4] aliases %a+1) -> () { }", "no other input" },
  { "g (%a: f32[4] leaf) -> () { }", "does not require grad" },
  { "g (%a: f32[4], %b: f32[4] view f32[8]+0 view %a+0) -> () { }", "two bases" },
  { "g (%a: f32[4] view f64[8]+0) -> () { }", "does not lie in its base" },
  { "g (%a: f32[4], %b: f32[4] aliases %a) -> () { }", "a distance in elements" },
};

START_TEST (what_cannot_be_is_said_with_its_place)
{
  g_autoptr (GError) error = NULL;

  ck_assert_ptr_null (gm_graph_parse (wrong[_i][0], &error));
  ck_assert_msg (strstr (error->message, wrong[_i][1]) && strstr (error->message, "line 1, column"),
                 "%s", error->message);
}
END_TEST

START_TEST (the_hash_tells_relations_apart)
{
  static const char *const texts[] = {
    "g (%a: f32[4], %b: f32[4]) -> () { }",
    "g (%a: f32[4], %b: f32[4] is %a) -> () { }",
    "g (%a: f32[4], %b: f32[4] aliases %a+0) -> () { }",
    "g (%a: f32[4], %b: f32[4] aliases %a+1) -> () { }",
    "g (%a: f32[4], %b: f32[4] view %a+0) -> () { }",
    "g (%a: f32[4], %b: f32[4] view f32[8]+0) -> () { }",
  };

  for (size_t i = 0; i < G_N_ELEMENTS (texts); i++)
    for (size_t k = 0; k < i; k++) {
      g_autoptr (GmGraph) a = graph_of (texts[i]), b = graph_of (texts[k]);
      ck_assert_uint_ne (gm_graph_hash (a), gm_graph_hash (b));
    }
}
END_TEST

int
main (void)
{
  Suite *s = suite_create ("alias");
  TCase *t = tcase_create ("all");
  SRunner *sr = srunner_create (s);
  int failures;

  tcase_add_test (t, inputs_are_described_as_they_lie);
  tcase_add_test (t, a_base_that_is_passed_is_named_even_if_it_comes_later);
  tcase_add_loop_test (t, what_cannot_be_is_said_with_its_place, 0, G_N_ELEMENTS (wrong));
  tcase_add_test (t, the_hash_tells_relations_apart);
  suite_add_tcase (s, t);
  srunner_run_all (sr, CK_NORMAL);
  failures = srunner_ntests_failed (sr);
  srunner_free (sr);
  return failures ? 1 : 0;
}
