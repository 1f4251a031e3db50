/* SPDX-License-Identifier: Apache-2.0
 * test_metadata.c -- tensors that change shape or memory in place: AOT-03 to 06, AOT-11, AOT-14,
 * AOT-15.
 */
#include "core/aot/layer_facts.h"
#include "tests/unit/alias_test.h"

#define VIEW(b, o, a)                                                                              \
  {                                                                                                \
    b, GM_OP_##o, a, 0                                                                             \
  }
#define OWN(type)                                                                                  \
  {                                                                                                \
    -1, GM_OP_NONE, type, 0                                                                        \
  }

/* -- Programs that run both ways ------------------------------------------------------------------
 */

/* P6a: two views of one tensor; `a` is doubled, `b` transposed. */
#define TWICE(v)                                                                                   \
  " %two = full sizes=[] dtype=f32 value=2.0 \n %d = mul " v " %two \n %w = copy_ " v " %d \n"
#define TURN(v) " %t = permute " v " dims=[1, 0] \n %s = set_ " v " %t \n"
static const World p6a = {
  { "f32[6]" }, false, { VIEW (0, view, "sizes=[2, 3]"), VIEW (0, view, "sizes=[2, 3]") }, 2
};

/* AOT-03 */
START_TEST (p6a_in_all_orders_doubles_both_and_turns_one)
{
  static const char *const texts[] = {
    "p6a (%a: f32[2, 3], %b: f32[2, 3]) -> () { \n" TWICE ("%a") TURN ("%b") "}",
    "p6a (%a: f32[2, 3], %b: f32[2, 3]) -> () { \n" TURN ("%b") TWICE ("%a") "}",
    "p6a (%b: f32[2, 3], %a: f32[2, 3]) -> () { \n" TWICE ("%a") TURN ("%b") "}",
    "p6a (%b: f32[2, 3], %a: f32[2, 3]) -> () { \n" TURN ("%b") TWICE ("%a") "}",
  };
  g_autoptr (GmGraph) g = graph_of (texts[_i]);
  g_autoptr (GmPlan) p = world_plan (&p6a, g, NULL, NULL);
  Run r = world_begin (&p6a), before = world_begin (&p6a);
  int b = _i < 2 ? 1 : 0;

  check_world (&p6a, texts[_i]);
  ck_assert (gm_plan_run (p, r.in, 2, NULL, NULL));
  ck_assert_int_eq (r.in[b]->meta.sizes[0], 3);
  ck_assert_int_eq (r.in[b]->meta.strides[1], 3);
  ck_assert_int_eq (r.in[1 - b]->meta.sizes[0], 2);
  for (int64_t i = 0; i < 2; i++)
    for (int64_t k = 0; k < 3; k++) {
      double want = 2 * gm_scalar_as_double (gm_tensor_get (before.in[0], (int64_t[]){ i, k }));
      ck_assert (gm_scalar_as_double (gm_tensor_get (r.in[1 - b], (int64_t[]){ i, k })) == want);
      ck_assert (gm_scalar_as_double (gm_tensor_get (r.in[b], (int64_t[]){ k, i })) == want);
    }
  run_end (&r);
  run_end (&before);
}
END_TEST

static const struct {
  World world;
  const char *text;
} programs[] = {
  /* t_, squeeze_, unsqueeze_, resize_ of an input, alone, one after the other, given out */
  { { .inputs = { OWN ("f32[2, 3]") }, .n = 1 },
    "g (%x: f32[2, 3]) -> () { \n %0 = permute %x dims=[1, 0] \n %1 = set_ %x %0 \n }" },
  { { .inputs = { OWN ("f32[2, 3]") }, .n = 1 },
    "g (%x: f32[2, 3]) -> (%3, %4) { \n %0 = permute %x dims=[1, 0] \n %1 = set_ %x %0 \n"
    " %2 = view %1 sizes=[1, 3, 2] \n %3 = set_ %1 %2 \n %4 = sin %3 \n }" },
  { { .inputs = { OWN ("f32[2, 1, 3]") }, .n = 1 },
    "g (%x: f32[2, 1, 3]) -> (%3) { \n %0 = view %x sizes=[2, 3] \n %1 = set_ %x %0 \n"
    " %2 = exp %1 \n %3 = copy_ %1 %2 \n }" },
  { { .inputs = { OWN ("f32[2, 3]") }, .n = 1 },
    "g (%x: f32[2, 3]) -> () { \n %0 = view %x sizes=[3, 2] \n %1 = set_ %x %0 \n }" },
  /* set_ to another input, which is written before and after; there and back again; both exchanged
   */
  { { .inputs = { OWN ("f32[4]"), OWN ("f32[2]") }, .n = 2 },
    "g (%x: f32[4], %y: f32[2]) -> (%2) { \n %0 = exp %y \n %1 = copy_ %y %0 \n %2 = set_ %x %1 \n"
    " %3 = sin %2 \n %4 = copy_ %2 %3 \n }" },
  { { .inputs = { OWN ("f32[4]"), OWN ("f32[2]") }, .n = 2 },
    "g (%x: f32[4], %y: f32[2]) -> () { \n %d = detach %x \n %0 = set_ %x %y \n %1 = set_ %0 %d \n "
    "}" },
  { { .inputs = { OWN ("f32[4]"), OWN ("f32[2]") }, .n = 2 },
    "g (%x: f32[4], %y: f32[2]) -> (%1, %0) { \n %d = detach %x \n %0 = set_ %x %y \n %1 = set_ %y "
    "%d \n }" },
  /* what was written before it went stays written in the old memory, which a view still sees */
  { { { "f32[4, 6]" },
      false,
      { VIEW (0, NONE, ""), VIEW (0, slice, "dim=0 start=0 stop=1 step=1"), OWN ("f32[2]") },
      3 },
    "g (%x: f32[4, 6], %v: f32[1, 6], %y: f32[2]) -> (%3) { \n %0 = exp %x \n %1 = copy_ %x %0 \n "
    "%2 = set_ %1 %y \n %3 = neg %v \n }" },
  /* to other memory, and from there to more of its own */
  { { { "f32[4, 6]" },
      false,
      { VIEW (0, NONE, ""), VIEW (0, slice, "dim=0 start=0 stop=1 step=1"), OWN ("f32[2]") },
      3 },
    "g (%x: f32[4, 6], %v: f32[1, 6], %y: f32[2]) -> (%1) { \n %0 = set_ %v %y \n %1 = set_ %0 %x "
    "\n }" },
  /* to something that the function made */
  { { .inputs = { OWN ("f32[4]") }, .n = 1 },
    "g (%x: f32[4]) -> (%0) { \n %0 = exp %x \n %1 = set_ %x %0 \n }" },
  /* an intermediate, and a view of it, given out as objects */
  { { .inputs = { OWN ("f32[2, 3]") }, .n = 1 },
    "g (%x: f32[2, 3]) -> (%2, %3) { \n %0 = exp %x \n %3 = view %0 sizes=[6] \n %1 = permute %0 "
    "dims=[1, 0] \n %2 = set_ %0 %1 \n }" },
  { { .inputs = { OWN ("f32[2, 3]") }, .n = 1 },
    "g (%x: f32[2, 3]) -> (%3, %0) { \n %0 = exp %x \n %1 = view %0 sizes=[6] \n %2 = view %1 "
    "sizes=[6, 1] \n %3 = set_ %1 %2 \n }" },
  /* with gradients, through the new shape */
  { { { "f32[4, 6]" }, true, { VIEW (0, NONE, ""), OWN ("f32[6, 4]") }, 2 },
    "g (%x: f32[4, 6] requires_grad, %y: f32[6, 4]) -> (%2, %1) { \n %0 = permute %x dims=[1, 0] "
    "\n %1 = set_ %x %0 \n %2 = mul %1 %y \n }" },
  { { { "f32[4, 6]" },
      true,
      { VIEW (0, slice, "dim=0 start=1 stop=3 step=1"), OWN ("f32[6, 2]") },
      2 },
    "g (%x: f32[2, 6] requires_grad, %y: f32[6, 2]) -> (%2) { \n %0 = permute %x dims=[1, 0] \n %1 "
    "= set_ %x %0 \n %2 = mul %1 %y \n %3 = copy_ %1 %2 \n }" },
  /* the same tensor twice: both names see it */
  { { .inputs = { OWN ("f32[2, 3]"), { -1, GM_OP_NONE, "", 1 } }, .n = 2 },
    "g (%x: f32[2, 3], %y: f32[2, 3]) -> (%3) { \n %2 = exp %y \n %0 = permute %x dims=[1, 0] \n "
    "%1 = set_ %x %0 \n %3 = sin %1 \n }" },
  { { .inputs = { OWN ("f32[2, 3]"), { -1, GM_OP_NONE, "", 1 } }, .n = 2 },
    "g (%x: f32[2, 3], %y: f32[2, 3]) -> (%1) { \n %0 = permute %y dims=[1, 0] \n %1 = set_ %x %0 "
    "\n }" },
};

/* AOT-04, AOT-05 */
START_TEST (changed_tensors_agree_with_the_plain_program)
{
  check_world (&programs[_i].world, programs[_i].text);
}
END_TEST

/* -- What the layer leaves, and who knows
 * ----------------------------------------------------------- */

/* AOT-05, AOT-14 */
START_TEST (later_layers_meet_no_change_and_the_caller_gets_his_number_of_outputs)
{
  g_autoptr (GmGraph) g = graph_of ("g (%x: f32[2, 3], %y: f32[2]) -> (%2) { \n %0 = permute %x "
                                    "dims=[1, 0] \n %1 = set_ %x %0 \n %2 = exp %1 \n"
                                    " %3 = view %y sizes=[2, 1] \n %4 = set_ %y %3 \n }");
  GmArena *arena = gm_arena_new ();
  g_autoptr (GArray) overlaps = g_array_new (FALSE, FALSE, sizeof (GmOverlap));
  GmMetadataLayer l;
  TestExec *e;
  g_autoptr (GmGraph) after = gm_metadata (g, arena, &l, overlaps, NULL);
  g_autoptr (GmPlan) p = plan_of (g, &e);

  ck_assert (gm_metadata_applies (g) && !gm_metadata_applies (after));
  ck_assert_uint_eq (l.n_outer, 1);
  ck_assert_uint_eq (l.n_renamed, 2);
  ck_assert_uint_eq (l.n_inner, 3);
  ck_assert_uint_eq (after->outputs->len, 3);
  ck_assert_uint_eq (g_array_index (after->outputs, GmGraphOutput, 1).kind, GM_OUTPUT_USER);
  ck_assert_uint_eq (e->layers.alias.n_outer, 3);
  ck_assert_uint_eq (e->functional->outputs->len, 1); /* views of inputs are nobody's output */
  ck_assert_int_eq (gm_plan_n_outputs (p), 1);
  g_clear_pointer (&after, gm_graph_free);
  gm_arena_free (arena);
}
END_TEST

/* AOT-06 */
START_TEST (no_other_layer_knows_of_the_outputs_that_metadata_adds)
{
  static const char *const others[] = { "dedupe.c",        "output_alias.c", "synthetic_base.c",
                                        "functionalize.c", "join.c",         "partition.c" };
  g_autofree char *here = g_path_get_dirname (__FILE__);

  for (size_t i = 0; i < G_N_ELEMENTS (others); i++) {
    g_autofree char *path = g_build_filename (here, "..", "..", "core", "aot", others[i], NULL),
                    *text = NULL;
    ck_assert_msg (g_file_get_contents (path, &text, NULL, NULL), "cannot read %s", path);
    ck_assert_msg (!strstr (text, "GmMetadataLayer") && !strstr (text, "renamed"), "%s", others[i]);
  }
}
END_TEST

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

START_TEST (changes_that_no_graph_can_say_are_refused_with_their_line)
{
  assert_refused ("g (%x: f32[2, 3] requires_grad) -> () { \n %0 = permute %x dims=[1, 0] : f32[3, "
                  "2]{1, 3} no_grad \n %1 = set_ %x %0 # a.py:3\n }",
                  "a.py:3");
  assert_refused (
      "g (%x: f32[3], %y: f32[3] requires_grad) -> () { \n %0 = set_ %x %y # a.py:4\n }", "a.py:4");
}
END_TEST

/* AOT-05: a leaf that takes part in the gradient keeps its shape */
START_TEST (a_leaf_that_requires_grad_is_refused_at_the_call)
{
  g_autoptr (GmGraph) g = graph_of ("g (%x: f32[2, 3] requires_grad) -> (%1) { \n %0 = permute %x "
                                    "dims=[1, 0] \n %1 = set_ %x %0 \n }");
  g_autoptr (GmPlan) p = plan_of (g, NULL);
  g_autoptr (GError) error = NULL;
  GmMeta m = gm_meta_make (GM_F32, 2, (int64_t[]){ 2, 3 });
  g_autoptr (GmTensor) x = filled (&m, 1);
  GmTensor *out = x;

  gm_tensor_set_requires_grad (x, true, NULL);
  ck_assert (!gm_plan_run (p, &x, 1, &out, &error));
  ck_assert_msg (strstr (error->message, "leaf") != NULL, "%s", error->message);
  ck_assert_ptr_null (out);
  ck_assert_int_eq (x->meta.sizes[0], 2);
}
END_TEST

/* -- The second opinion
 * ---------------------------------------------------------------------------- */

/* AOT-11, AOT-15 */
START_TEST (a_layer_that_breaks_its_word_is_found_out)
{
  g_autoptr (GmGraph) g = graph_of ("g (%x: f32[2, 3], %y: f32[3]) -> (%0, mut %1) { \n %0 = exp "
                                    "%x \n %1 = permute %x dims=[1, 0] \n %2 = copy_ %y %y \n }");
  GmArena *arena = gm_arena_new ();
  GmFacts *f = gm_layer_facts_derive (g, arena);

  ck_assert_ptr_null (gm_layer_facts_difference (f, g, arena));
#define BROKEN(change, undo)                                                                       \
  do {                                                                                             \
    change;                                                                                        \
    g_autofree char *difference = gm_layer_facts_difference (f, g, arena);                         \
    ck_assert_msg (difference != NULL, #change);                                                   \
    undo;                                                                                          \
  } while (0)
  BROKEN (f->n_inputs--, f->n_inputs++);
  BROKEN (f->n_outputs--, f->n_outputs++);
  BROKEN (f->inputs[0].data = true, f->inputs[0].data = false);
  BROKEN (f->inputs[1].data = false, f->inputs[1].data = true);
  BROKEN (f->inputs[0].shape = true, f->inputs[0].shape = false);
  BROKEN (f->inputs[0].meta.dtype = GM_F64, f->inputs[0].meta.dtype = GM_F32);
  BROKEN (f->inputs[0].meta.requires_grad = 1, f->inputs[0].meta.requires_grad = 0);
  BROKEN (f->outputs[1].meta.strides[0] = 2, f->outputs[1].meta.strides[0] = 1);
  BROKEN (f->outputs[1].kind = GM_OUTPUT_USER, f->outputs[1].kind = GM_OUTPUT_MUTATION);
  BROKEN (f->outputs[0].of_input = true, f->outputs[0].of_input = false);
  BROKEN (f->outputs[1].input = 1, f->outputs[1].input = 0);
  BROKEN (f->outputs[1].is_view = false, f->outputs[1].is_view = true);
  ck_assert_ptr_null (gm_layer_facts_difference (f, g, arena));
  gm_arena_free (arena);
}
END_TEST

int
main (void)
{
  Suite *s = suite_create ("metadata");
  TCase *t = tcase_create ("all");
  SRunner *sr = srunner_create (s);
  int failures;

  tcase_add_loop_test (t, p6a_in_all_orders_doubles_both_and_turns_one, 0, 4);
  tcase_add_loop_test (t, changed_tensors_agree_with_the_plain_program, 0, G_N_ELEMENTS (programs));
  tcase_add_test (t, later_layers_meet_no_change_and_the_caller_gets_his_number_of_outputs);
  tcase_add_test (t, no_other_layer_knows_of_the_outputs_that_metadata_adds);
  tcase_add_test (t, changes_that_no_graph_can_say_are_refused_with_their_line);
  tcase_add_test (t, a_leaf_that_requires_grad_is_refused_at_the_call);
  tcase_add_test (t, a_layer_that_breaks_its_word_is_found_out);
  suite_add_tcase (s, t);
  srunner_run_all (sr, CK_NORMAL);
  failures = srunner_ntests_failed (sr);
  srunner_free (sr);
  return failures ? 1 : 0;
}
