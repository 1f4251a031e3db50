/* SPDX-License-Identifier: Apache-2.0
 * test_dedupe.c -- one tensor that is passed twice: AOT-02, AOT-10.
 */
#include "tests/unit/alias_test.h"

#define OWN(type)                                                                                  \
  {                                                                                                \
    -1, GM_OP_NONE, type, 0                                                                        \
  }
#define AGAIN(k)                                                                                   \
  {                                                                                                \
    -1, GM_OP_NONE, "", (k) + 1                                                                    \
  }

static const struct {
  World world;
  const char *text;
} programs[] = {
  { { .inputs = { OWN ("f32[4]"), AGAIN (0) }, .n = 2 },
    "g (%x: f32[4], %y: f32[4]) -> (%2) { \n %0 = exp %x \n %1 = copy_ %x %0 \n %2 = sin %y \n }" },
  { { .inputs = { OWN ("f32[4]"), AGAIN (0) }, .n = 2 },
    "g (%x: f32[4], %y: f32[4]) -> (%x, %1, %3) { \n %0 = exp %x \n %1 = copy_ %y %0 \n %2 = sin "
    "%y \n %3 = copy_ %x %2 \n }" },
  { { .inputs = { OWN ("f32[4]"), OWN ("f32[2]"), AGAIN (0), AGAIN (1) }, .n = 4 },
    "g (%x: f32[4], %a: f32[2], %y: f32[4], %b: f32[2]) -> (%y, %2) { \n %0 = exp %b \n %1 = copy_ "
    "%a %0 \n %2 = add %b %b \n }" },
  { { { "f32[6]" }, true, { { 0, GM_OP_NONE, "", 0 }, AGAIN (0) }, 2 },
    "g (%x: f32[6] requires_grad, %y: f32[6] requires_grad) -> (%2) { \n %0 = add %x %y \n %1 = "
    "copy_ %x %0 \n %2 = neg %y \n }" },
  /* AOT-02: first the same tensor, then what overlaps it */
  { { { "f32[6]" },
      false,
      { { 0, GM_OP_NONE, "", 0 },
        { 0, GM_OP_slice, "dim=0 start=1 stop=6 step=1", 0 },
        AGAIN (0),
        AGAIN (1) },
      4 },
    "g (%x: f32[6], %v: f32[5], %y: f32[6], %w: f32[5]) -> (%2, %w, %3) { \n %0 = exp %w \n %1 = "
    "copy_ %v %0 \n %2 = sin %y \n %3 = neg %x \n }" },
};

START_TEST (equal_inputs_agree_with_the_plain_program)
{
  check_world (&programs[_i].world, programs[_i].text);
}
END_TEST

/* AOT-02, AOT-10: behind dedupe are three inputs, behind synthetic_base two; the maps lead back */
START_TEST (same_tensors_are_merged_before_bases_are_made)
{
  static const World w = { { "f32[6]" },
                           false,
                           { { 0, GM_OP_slice, "dim=0 start=0 stop=4 step=1", 0 },
                             OWN ("f32[4]"),
                             AGAIN (0),
                             { 0, GM_OP_slice, "dim=0 start=2 stop=6 step=1", 0 } },
                           4 };
  g_autoptr (GmGraph) g = graph_of ("g (%a: f32[4], %b: f32[4], %c: f32[4], %d: f32[4]) -> () { \n "
                                    "%0 = exp %d \n %1 = copy_ %c %0 \n }");
  TestExec *e;
  g_autoptr (GmPlan) p = world_plan (&w, g, &e, NULL);
  const GmLayers *l = &e->layers;
  uint32_t n;
  const GmOverlap *o = gm_plan_overlaps (p, &n);

  ck_assert (l->has_dedupe && l->has_bases);
  ck_assert_uint_eq (l->dedupe.n_outer, 4);
  ck_assert_uint_eq (l->dedupe.n_inner, 3);
  ck_assert_uint_eq (l->dedupe.from[2].i, 3);
  ck_assert_uint_eq (l->bases.n_inner, 2);
  ck_assert_uint_eq (l->bases.first[1] - l->bases.first[0],
                     2); /* one inner input, two outer ones */
  ck_assert_uint_eq (l->bases.outer[0].i, 0);
  ck_assert_uint_eq (l->bases.outer[1].i, 2);
  ck_assert_uint_eq (l->bases.outer[l->bases.first[1]].i, 1);
  ck_assert_uint_eq (o[0].kind, GM_OVERLAP_SAME);
  ck_assert_uint_eq (o[0].a.i, 0);
  ck_assert_uint_eq (o[0].b.i, 2);
  for (uint32_t i = 1; i < n; i++)
    ck_assert (o[i].a.i != 2 && o[i].b.i != 2); /* the caller's numbers, for the first of the two */
}
END_TEST

/* AOT-10: code that mistakes one for the other does not compile, since the types differ */
G_STATIC_ASSERT (!__builtin_types_compatible_p (GmOuterInput, GmInnerInput));
G_STATIC_ASSERT (!__builtin_types_compatible_p (GmOuterOutput, GmInnerOutput));
G_STATIC_ASSERT (!__builtin_types_compatible_p (GmInnerInput, GmInnerOutput));
G_STATIC_ASSERT (!__builtin_types_compatible_p (GmOuterInput, uint32_t));

START_TEST (a_plan_for_one_tensor_twice_takes_no_two)
{
  g_autoptr (GmGraph) g =
      graph_of ("g (%x: f32[4], %y: f32[4] is %x) -> () { \n %0 = exp %x \n %1 = copy_ %y %0 \n }");
  g_autoptr (GmPlan) p = plan_of (g, NULL);
  g_autoptr (GError) error = NULL;
  GmMeta m = gm_meta_make (GM_F32, 1, (int64_t[]){ 4 });
  g_autoptr (GmTensor) x = filled (&m, 1), y = filled (&m, 2);

  ck_assert (gm_plan_check (p, (GmTensor *[]){ x, x }, 2, NULL));
  ck_assert (!gm_plan_check (p, (GmTensor *[]){ x, y }, 2, &error));
  ck_assert_msg (strstr (error->message, "one tensor") != NULL, "%s", error->message);
}
END_TEST

int
main (void)
{
  Suite *s = suite_create ("dedupe");
  TCase *t = tcase_create ("all");
  SRunner *sr = srunner_create (s);
  int failures;

  tcase_add_loop_test (t, equal_inputs_agree_with_the_plain_program, 0, G_N_ELEMENTS (programs));
  tcase_add_test (t, same_tensors_are_merged_before_bases_are_made);
  tcase_add_test (t, a_plan_for_one_tensor_twice_takes_no_two);
  suite_add_tcase (s, t);
  srunner_run_all (sr, CK_NORMAL);
  failures = srunner_ntests_failed (sr);
  srunner_free (sr);
  return failures ? 1 : 0;
}
