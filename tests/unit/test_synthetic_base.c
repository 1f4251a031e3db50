/* SPDX-License-Identifier: Apache-2.0
 * test_synthetic_base.c -- inputs that overlap, where one is written: AOT-01, AOT-07 to
 * AOT-09, AOT-12, AOT-13, AOT-17 to AOT-20.
 */
#include "core/base/log.h"
#include "tests/unit/alias_test.h"

#include <unistd.h>

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

static const struct {
  World world;
  const char *text;
} programs[] = {
  /* AOT-07: overlaps in part; the written alias is smaller than the base; each order of reading */
  { { { "f32[6]" },
      false,
      { VIEW (0, slice, "dim=0 start=0 stop=4 step=1"),
        VIEW (0, slice, "dim=0 start=2 stop=6 step=1") },
      2 },
    "g (%x: f32[4], %y: f32[4]) -> (%2, %3) { \n %0 = exp %x \n %3 = sin %y \n %1 = copy_ %x %0 \n "
    "%2 = sin %y \n }" },
  { { { "f32[6]" },
      false,
      { VIEW (0, slice, "dim=0 start=0 stop=4 step=1"),
        VIEW (0, slice, "dim=0 start=2 stop=6 step=1") },
      2 },
    "g (%x: f32[4], %y: f32[4]) -> (%2) { \n %0 = exp %y \n %1 = copy_ %y %0 \n %2 = mul %x %y \n "
    "}" },
  { { { "f32[4, 6]" },
      false,
      { VIEW (0, slice, "dim=1 start=0 stop=3 step=1"),
        VIEW (0, slice, "dim=1 start=2 stop=6 step=1"), VIEW (0, view, "sizes=[24]") },
      3 },
    "g (%x: f32[4, 3]{6, 1}, %y: f32[4, 4]{6, 1}, %z: f32[24]) -> (%2, %3) { \n %0 = exp %x \n %1 "
    "= copy_ %x %0 \n %2 = sin %y \n %3 = neg %z \n }" },
  /* the whole written, through a transpose; read through rows */
  { { { "f32[4, 6]" },
      false,
      { VIEW (0, permute, "dims=[1, 0]"), VIEW (0, slice, "dim=0 start=1 stop=4 step=2") },
      2 },
    "g (%x: f32[6, 4]{1, 6}, %y: f32[2, 6]{12, 1}) -> (%2, %y) { \n %0 = exp %x \n %1 = copy_ %x "
    "%0 \n %2 = sin %y \n }" },
  /* two written that overlap: all of the base goes back */
  { { { "f32[6]" },
      false,
      { VIEW (0, slice, "dim=0 start=0 stop=4 step=1"),
        VIEW (0, slice, "dim=0 start=2 stop=6 step=1") },
      2 },
    "g (%x: f32[4], %y: f32[4]) -> () { \n %0 = exp %x \n %1 = copy_ %x %0 \n %2 = sin %y \n %3 = "
    "copy_ %y %2 \n }" },
  /* two written that do not, under one that is read */
  { { { "f32[6]" },
      false,
      { VIEW (0, slice, "dim=0 start=0 stop=2 step=1"),
        VIEW (0, slice, "dim=0 start=4 stop=6 step=1"), VIEW (0, NONE, "") },
      3 },
    "g (%x: f32[2], %y: f32[2], %z: f32[6]) -> (%4) { \n %0 = exp %x \n %1 = copy_ %x %0 \n %2 = "
    "sin %y \n %3 = copy_ %y %2 \n %4 = neg %z \n }" },
  /* two such pairs, the one in the gaps of the other: neither may undo the other's writes */
  { { { "f32[4, 6]" },
      false,
      { VIEW (0, slice, "dim=1 start=0 stop=2 step=1"),
        VIEW (0, slice, "dim=1 start=1 stop=3 step=1"),
        VIEW (0, slice, "dim=1 start=3 stop=5 step=1"),
        VIEW (0, slice, "dim=1 start=4 stop=6 step=1") },
      4 },
    "g (%a: f32[4, 2]{6, 1}, %b: f32[4, 2]{6, 1}, %c: f32[4, 2]{6, 1}, %d: f32[4, 2]{6, 1}) -> () "
    "{ \n"
    " %0 = exp %a \n %1 = copy_ %a %0 \n %2 = sin %b \n %3 = copy_ %b %2 \n"
    " %4 = neg %c \n %5 = copy_ %c %4 \n %6 = tanh %d \n %7 = copy_ %d %6 \n }" },
  /* one written in the gaps of another's base */
  { { { "f32[4, 6]" },
      false,
      { VIEW (0, slice, "dim=1 start=0 stop=3 step=1"),
        VIEW (0, slice, "dim=1 start=3 stop=6 step=1"),
        VIEW (0, slice, "dim=1 start=2 stop=3 step=1") },
      3 },
    "g (%a: f32[4, 3]{6, 1}, %b: f32[4, 3]{6, 1}, %c: f32[4, 1]{6, 1}) -> (%4) { \n"
    " %0 = exp %a \n %1 = copy_ %a %0 \n %2 = sin %b \n %3 = copy_ %b %2 \n %4 = neg %c \n }" },
  /* AOT-20: outputs are the merged input, and views of it */
  { { { "f32[6]" },
      false,
      { VIEW (0, NONE, ""), VIEW (0, slice, "dim=0 start=1 stop=6 step=1") },
      2 },
    "g (%t: f32[6], %ta: f32[5]) -> (%3) { \n %0 = full sizes=[] dtype=f32 value=100.0 \n %1 = add "
    "%t %0 \n %2 = copy_ %t %1 \n"
    " %4 = slice %ta dim=0 start=0 stop=1 step=1 \n %3 = view %4 sizes=[] \n }" },
  { { { "f32[6]" },
      false,
      { VIEW (0, NONE, ""), VIEW (0, slice, "dim=0 start=1 stop=6 step=1") },
      2 },
    "g (%t: f32[6], %ta: f32[5]) -> (%3, %ta, %t) { \n %0 = full sizes=[] dtype=f32 value=100.0 \n "
    "%1 = add %t %0 \n %2 = copy_ %t %1 \n"
    " %3 = view %ta sizes=[5, 1] \n }" },
  /* with gradients: the base is the tensor of which all are views */
  { { { "f32[6]" },
      true,
      { VIEW (0, slice, "dim=0 start=0 stop=4 step=1"),
        VIEW (0, slice, "dim=0 start=2 stop=6 step=1") },
      2 },
    "g (%x: f32[4] requires_grad, %y: f32[4] requires_grad) -> (%2) { \n %0 = exp %x \n %1 = copy_ "
    "%x %0 \n %2 = mul %y %x \n }" },
  { { { "f32[4, 6]" },
      true,
      { VIEW (0, NONE, ""), VIEW (0, permute, "dims=[1, 0]"), OWN ("f32[4, 6]") },
      3 },
    "g (%x: f32[4, 6] requires_grad, %y: f32[6, 4]{1, 6} requires_grad, %z: f32[4, 6]) -> (%2, %y) "
    "{ \n %0 = mul %x %z \n %1 = copy_ %x %0 \n %2 = sin %y \n }" },
  { { { "f32[6]" },
      true,
      { VIEW (0, slice, "dim=0 start=0 stop=4 step=1"),
        VIEW (0, slice, "dim=0 start=2 stop=6 step=1") },
      2 },
    "g (%x: f32[4] requires_grad, %y: f32[4] requires_grad) -> (%4) { \n %0 = exp %x \n %1 = copy_ "
    "%x %0 \n %2 = neg %y \n %3 = copy_ %y %2 \n %4 = mul %y %x \n }" },
};

/* AOT-07, AOT-20, and AOT-04 and AOT-12 in passing */
START_TEST (overlapping_inputs_agree_with_the_plain_program)
{
  check_world (&programs[_i].world, programs[_i].text);
}
END_TEST

static int refused, agreed, merged;

/* AOT-01: checks that each written piece is separate from all inputs that were not merged. */
static void
assert_pieces_are_separate (const TestExec *e, GmTensor *const *in)
{
  const GmLayers *l = &e->layers;
  uint32_t n_merged = l->has_bases ? l->bases.first[l->bases.n_bases] : 0;

#define SINGLE(k) in[l->has_dedupe ? l->dedupe.from[k].i : (k)]
  for (uint32_t p = 0; l->has_bases && p < l->bases.n_pieces; p++)
    for (uint32_t k = n_merged; k < l->bases.n_outer; k++) {
      const GmTensor *a = SINGLE (l->bases.pieces[p].target.i), *b = SINGLE (l->bases.outer[k].i);
      ck_assert (a->storage != b->storage
                 || !gm_stride_overlap (&a->meta, &b->meta, b->offset - a->offset));
    }
#undef SINGLE
}

static void
check_seed (uint32_t seed)
{
  GRand *rand = g_rand_new_with_seed (seed);
  World w = random_world (rand);
  g_autoptr (GmGraph) g = random_world_program (rand, &w);
  g_autoptr (GError) error = NULL, why = NULL;

  if (!gm_graph_verify (g, false, &why)) {
    g_autofree char *text = gm_graph_text (g);
    ck_abort_msg ("seed %u: %s\n%s", seed, why->message, text);
  }
  TestExec *e;
  g_autoptr (GmPlan) p = world_plan (&w, g, &e, &error);
  g_rand_free (rand);
  if (p) {
    Run r = world_begin (&w);
    assert_pieces_are_separate (e, r.in);
    run_end (&r);
  } else {
    ck_assert_msg (error->code == GM_ERROR_UNSUPPORTED, "seed %u: %s", seed, error->message);
    refused++;
    return;
  }
  uint32_t n;
  gm_plan_overlaps (p, &n);
  merged += n > 0;
  agreed += compare_runs (g, p, world_begin (&w), world_begin (&w), w.grad ? 1e-5 : 0);
}

/* AOT-07, AOT-20 and P6a to P6c in all their variations */
START_TEST (random_programs_over_aliases_agree)
{
  const char *from = g_getenv ("SEED"), *many = g_getenv ("SEEDS");
  int first = from ? atoi (from) : 0, n = many ? atoi (many) : 1500;

  for (int seed = first; seed < first + n; seed++)
    check_seed ((uint32_t) seed);
  if (n >= 1000) {
    ck_assert_int_gt (agreed, n / 2);
    ck_assert_int_gt (merged, n / 4);
    ck_assert_int_lt (refused, n / 4);
  }
}
END_TEST

/* -- What it looks like
 * ------------------------------------------------------------------------------ */

static const World halves = { { "f32[6]" },
                              false,
                              { VIEW (0, slice, "dim=0 start=0 stop=4 step=1"),
                                VIEW (0, slice, "dim=0 start=2 stop=6 step=1") },
                              2 };

/* AOT-18: f (a, c.view (-1), b.view (-1), b, c, d) becomes f (c_base, b_base, a, d) */
START_TEST (bases_stand_first_in_the_order_in_which_they_appear)
{
  static const World w = { { "f32[4, 6]", "f32[6]" },
                           false,
                           { OWN ("f32[2]"), VIEW (0, view, "sizes=[24]"),
                             VIEW (1, view, "sizes=[2, 3]"), VIEW (1, NONE, ""), VIEW (0, NONE, ""),
                             OWN ("f32[3]") },
                           6 };
  static const char *const want[] = { "c_base", "b_base", "a", "d" };
  g_autoptr (GmGraph) g = graph_of (
      "f (%a: f32[2], %cv: f32[24], %bv: f32[2, 3], %b: f32[6], %c: f32[4, 6], %d: f32[3]) -> (%4) "
      "{ \n"
      " %0 = exp %bv \n %1 = copy_ %bv %0 \n %2 = sin %c \n %3 = copy_ %c %2 \n %4 = neg %b \n }");
  TestExec *e;
  g_autoptr (GmPlan) p = world_plan (&w, g, &e, NULL);

  ck_assert_uint_eq (e->functional->inputs->len, 4);
  for (uint32_t i = 0; i < 4; i++)
    ck_assert_str_eq (
        gm_graph_value (e->functional, g_array_index (e->functional->inputs, GmValueId, i))->name,
        want[i]);
}
END_TEST

/* AOT-07, AOT-12: the base is written, but only what the written input covers is given out */
START_TEST (only_the_written_input_is_copied_back)
{
  g_autoptr (GmGraph) g =
      graph_of ("g (%x: f32[4], %y: f32[4]) -> () { \n %0 = exp %x \n %1 = copy_ %x %0 \n }");
  TestExec *e;
  g_autoptr (GmPlan) p = world_plan (&halves, g, &e, NULL);
  const GmLayers *l = &e->layers;

  ck_assert_uint_eq (l->bases.n_pieces, 1);
  ck_assert_uint_eq (l->bases.pieces[0].target.i, 0);
  ck_assert_uint_eq (l->functional.n_mutations, 1);
  ck_assert_uint_eq (l->functional.mutations[0].input.i, 0);
  ck_assert_uint_eq (l->functional.mutations[0].output.i, GM_NO_ID);
  ck_assert_uint_eq (e->functional->outputs->len, 1);
  ck_assert_int_eq (
      gm_graph_meta (e->functional, g_array_index (e->functional->outputs, GmGraphOutput, 0).value)
          ->sizes[0],
      4);
  ck_assert_uint_eq (e->parts.forward->nodes->len,
                     2); /* the slice and the exponential: no scatter */
}
END_TEST

/* AOT-08 */
START_TEST (copying_a_whole_base_back_is_logged_with_its_inputs)
{
  g_autofree char *name = NULL, *text = NULL;
  int file = g_file_open_tmp (NULL, &name, NULL), old = dup (2);
  g_autoptr (GmGraph) g = graph_of ("g (%first: f32[4], %second: f32[4]) -> () { \n %0 = exp "
                                    "%first \n %1 = copy_ %first %0 \n %2 = copy_ %second %1 \n }");
  TestExec *e;

  gm_log_set ("aot_graphs", NULL);
  dup2 (file, 2);
  g_autoptr (GmPlan) p = world_plan (&halves, g, &e, NULL);
  dup2 (old, 2);
  gm_log_set ("-aot_graphs", NULL);
  ck_assert (g_file_get_contents (name, &text, NULL, NULL));
  ck_assert_msg (strstr (text, "first and second") != NULL, "%s", text);
  ck_assert_uint_eq (e->layers.bases.n_pieces, 0);
  ck_assert_uint_eq (e->layers.functional.mutations[0].output.i, 0);
  close (file);
  close (old);
  unlink (name);
}
END_TEST

/* AOT-09: inner outputs are the outer ones, then what was written, then histories: of the base, and
 * of x and y, which are read after the write; tangents are those that require grad, in that
 * order */
START_TEST (lengths_and_tangents_follow_from_what_was_added)
{
  static const World w = { { "f32[6]" },
                           true,
                           { VIEW (0, slice, "dim=0 start=0 stop=4 step=1"),
                             VIEW (0, slice, "dim=0 start=2 stop=6 step=1"), OWN ("f32[4]") },
                           3 };
  g_autoptr (GmGraph) g = graph_of ("g (%x: f32[4] requires_grad, %y: f32[4] requires_grad, %z: "
                                    "f32[4]) -> (%2, %3) { \n %0 = exp %x \n %1 = copy_ %x %0 \n"
                                    " %2 = sin %z \n %3 = mul %y %x \n %4 = copy_ %z %2 \n }");
  TestExec *e;
  g_autoptr (GmPlan) p = world_plan (&w, g, &e, NULL);

  ck_assert_uint_eq (e->layers.alias.n_inner, 2);
  ck_assert_uint_eq (e->layers.bases.n_outputs, 2);
  ck_assert_uint_eq (e->layers.functional.n_outer, 3); /* and the piece of x */
  ck_assert_uint_eq (e->joint.n_elements, 4);          /* and z */
  ck_assert_uint_eq (e->functional->outputs->len, 7);
  ck_assert_uint_eq (e->joint.n_inputs, 2); /* the base and z */
  ck_assert_uint_eq (e->joint.n_tangents, 4);
  ck_assert_uint_eq (e->joint.tangents[0].i, 1);
  for (uint32_t i = 1; i < 4; i++)
    ck_assert_uint_eq (e->joint.tangents[i].i, i + 3);
  ck_assert_uint_eq (e->joint.n_grads, 1);
  ck_assert_uint_eq (e->joint.grads[0].i, 0);
}
END_TEST

/* -- What is refused
 * ------------------------------------------------------------------------------- */

static const char *const refusals[][2] = {
  /* AOT-17 */
  { "g (%x: f32[4], %y: f64[4] aliases %x+0) -> () { \n %0 = exp %x \n %1 = copy_ %x %0 \n }",
    "one dtype" },
  { "g (%x: f32[4] requires_grad, %y: f32[4] requires_grad aliases %x+2) -> () { \n %0 = exp %x \n "
    "%1 = copy_ %x %0 \n }",
    "inputs x and y share memory" },
  { "g (%x: f32[4] view f32[8]+0, %y: f32[4] requires_grad view f32[8]+2 aliases %x+2) -> () { \n "
    "%0 = exp %x \n %1 = copy_ %x %0 \n }",
    "take part in the gradient" },
  { "g (%x: f32[4] requires_grad view f32[8] requires_grad +0, %y: f32[4] view f32[8] "
    "requires_grad +2 aliases %x+2) -> () { \n %0 = exp %x \n %1 = copy_ %x %0 \n }",
    "take part in the gradient" },
  { "g (%x: f32[4], %y: f32[4] aliases %x+2, %z: f32[4] requires_grad) -> () { \n %0 = copy_ %x %z "
    "\n }",
    "not views of one tensor" },
  /* AOT-13 */
  { "g (%w: f32[6] requires_grad leaf, %row: f32[2] requires_grad view %w+2) -> () { \n %0 = exp "
    "%row \n %1 = copy_ %row %0 \n }",
    "w and row share memory" },
  { "g (%w: f32[6] requires_grad leaf, %row: f32[2] requires_grad view %w+2) -> () { \n %0 = exp "
    "%row \n %1 = copy_ %row %0 \n }",
    "leaves" },
  /* dimensions that cross are windows of flat memory, which overlap */
  { "g (%x: f32[3, 2]{2, 3}, %y: f32[4] aliases %x+0) -> () { \n %0 = exp %x \n %1 = copy_ %x %0 "
    "\n }",
    "windows that overlap" },
};

START_TEST (inputs_without_one_base_are_refused_by_name)
{
  g_autoptr (GmGraph) g = graph_of (refusals[_i][0]);
  g_autoptr (GError) error = NULL;
  g_autoptr (GmPlan) p = plan_with (g, true, (GmPlanRandom){ .used = false }, NULL, &error);

  ck_assert_ptr_null (p);
  ck_assert_int_eq (error->code, GM_ERROR_UNSUPPORTED);
  ck_assert_msg (strstr (error->message, refusals[_i][1]) != NULL, "%s", error->message);
}
END_TEST

/* AOT-17: without gradients, memory alone makes a base, whatever the tensors are views of */
START_TEST (inference_needs_no_common_tensor)
{
  g_autoptr (GmGraph) g = graph_of ("g (%x: f32[4], %y: f32[4] aliases %x+2) -> (%2) { \n %0 = exp "
                                    "%x \n %1 = copy_ %x %0 \n %2 = neg %y \n }");
  g_autoptr (GmPlan) p = plan_of (g, NULL);
  GmMeta m = gm_meta_make (GM_F32, 1, (int64_t[]){ 6 }),
         part = gm_meta_make (GM_F32, 1, (int64_t[]){ 4 });
  g_autoptr (GmTensor) whole = filled (&m, 3), x = gm_tensor_new_alias (whole),
                       y = gm_tensor_new_alias (whole);
  GmTensor *out = NULL;

  x->meta = y->meta = part;
  y->offset = 2;
  ck_assert (gm_plan_check (p, (GmTensor *[]){ x, y }, 2, NULL));
  ck_assert (gm_plan_run (p, (GmTensor *[]){ x, y }, 2, &out, NULL));
  for (int64_t i = 0; i < 4; i++)
    ck_assert (gm_scalar_as_double (gm_tensor_get (out, &i))
               == -gm_scalar_as_double (gm_tensor_get (y, &i)));
  gm_tensor_unref (out);
}
END_TEST

/* -- The decision is guarded
 * ------------------------------------------------------------------------- */

static const char *const p6b =
    "p6b (%x: f32[4], %y: f32[4]) -> (%2) { \n %two = full sizes=[] dtype=f32 value=2.0 \n %0 = "
    "mul %x %two \n %1 = copy_ %x %0 \n %2 = add %1 %y \n }";

static const World separate = { .inputs = { OWN ("f32[4]"), OWN ("f32[4]") }, .n = 2 };
static const World apart = { { "f32[4, 6]" },
                             false,
                             { VIEW (0, slice, "dim=0 start=0 stop=1 step=1"),
                               VIEW (0, slice, "dim=0 start=2 stop=3 step=1") },
                             2 };

/* Returns the first plan whose guards hold, or a new one, as a front end does. */
static int
plan_for (GPtrArray *plans, const World *w, const char *text)
{
  Run r = world_begin (w);
  int found = -1;

  for (guint i = 0; i < plans->len && found < 0; i++)
    if (gm_plan_check (g_ptr_array_index (plans, i), r.in, w->n, NULL))
      found = (int) i;
  if (found < 0) {
    g_autoptr (GmGraph) g = graph_of (text);
    g_ptr_array_add (plans, world_plan (w, g, NULL, NULL));
    found = (int) plans->len - 1;
  }
  g_autoptr (GmGraph) g = graph_of (text);
  ck_assert (
      compare_runs (g, g_ptr_array_index (plans, found), world_begin (w), world_begin (w), 0));
  run_end (&r);
  return found;
}

/* AOT-19, P6b: separate, overlapping, separate again; each call is right, two plans are enough */
START_TEST (calls_that_overlap_otherwise_get_a_plan_of_their_own)
{
  static const World shifted = { { "f32[6]" },
                                 false,
                                 { VIEW (0, slice, "dim=0 start=2 stop=6 step=1"),
                                   VIEW (0, slice, "dim=0 start=0 stop=4 step=1") },
                                 2 };
  g_autoptr (GPtrArray) plans = g_ptr_array_new_with_free_func ((GDestroyNotify) gm_plan_unref);

  ck_assert_int_eq (plan_for (plans, &separate, p6b), 0);
  ck_assert_int_eq (plan_for (plans, &halves, p6b), 1);
  ck_assert_int_eq (plan_for (plans, &separate, p6b), 0);
  ck_assert_int_eq (plan_for (plans, &halves, p6b), 1);
  ck_assert_int_eq (plan_for (plans, &shifted, p6b), 2);
  ck_assert_int_eq (plan_for (plans, &separate, p6b), 0);
}
END_TEST

/* AOT-19: first call with overlap, then without, and in one storage without touching */
START_TEST (calls_in_one_storage_that_do_not_touch_need_no_base)
{
  static const char *const rows = "g (%x: f32[1, 6], %y: f32[1, 6]) -> (%2) { \n %0 = exp %x \n %1 "
                                  "= copy_ %x %0 \n %2 = add %1 %y \n }";
  static const World twice = { { "f32[4, 6]" },
                               false,
                               { VIEW (0, slice, "dim=0 start=1 stop=2 step=1"),
                                 VIEW (0, slice, "dim=0 start=1 stop=2 step=1") },
                               2 };
  g_autoptr (GPtrArray) plans = g_ptr_array_new_with_free_func ((GDestroyNotify) gm_plan_unref);
  g_autoptr (GmGraph) g = graph_of (rows);
  TestExec *e;
  g_autoptr (GmPlan) p = world_plan (&apart, g, &e, NULL);
  uint32_t n;
  const GmOverlap *o = gm_plan_overlaps (p, &n);

  ck_assert (!e->layers.has_bases);
  ck_assert_uint_eq (n, 1);
  ck_assert_uint_eq (o->kind, GM_OVERLAP_AT);
  ck_assert_int_eq (o->offset, 12);
  ck_assert_int_eq (plan_for (plans, &twice, rows), 0);
  ck_assert_int_eq (plan_for (plans, &apart, rows), 1);
  ck_assert_int_eq (plan_for (plans, &twice, rows), 0);
}
END_TEST

/* AOT-19: a function that writes nothing has nothing to guard */
START_TEST (reading_alone_takes_nothing_for_granted)
{
  g_autoptr (GmGraph) g = graph_of ("g (%x: f32[4], %y: f32[4]) -> (%0) { \n %0 = mul %x %y \n }");
  g_autoptr (GmPlan) p = world_plan (&halves, g, NULL, NULL);
  uint32_t n;

  gm_plan_overlaps (p, &n);
  ck_assert_uint_eq (n, 0);
}
END_TEST

/* -- Geometry
 * ----------------------------------------------------------------------------------------- */

static GmMeta
random_strided (GRand *rand)
{
  GmMeta m = { .dtype = GM_F32, .ndim = (uint8_t) g_rand_int_range (rand, 0, 4) };

  for (int d = 0; d < m.ndim; d++) {
    m.sizes[d] = g_rand_int_range (rand, 0, 8) == 0 ? 0 : g_rand_int_range (rand, 1, 5);
    m.strides[d] = g_rand_int_range (rand, 0, 13);
  }
  return m;
}

/* Lists all places of m from `at` on, in row-major order; returns their number. */
static int
places (const GmMeta *m, int64_t at, int64_t out[128])
{
  int64_t index[GM_MAX_DIMS] = { 0 };
  int n = (int) gm_meta_numel (m);

  for (int i = 0; i < n; i++, step_index (m, index)) {
    out[i] = at;
    for (int d = 0; d < m->ndim; d++)
      out[i] += index[d] * m->strides[d];
  }
  return n;
}

/* AOT-07: against all pairs of places */
START_TEST (overlap_is_exact)
{
  GRand *rand = g_rand_new_with_seed (7);
  int yes = 0;

  for (int k = 0; k < 20000; k++) {
    GmMeta a = random_strided (rand), b = random_strided (rand);
    int64_t distance = g_rand_int_range (rand, -25, 26), pa[128], pb[128];
    int na = places (&a, 0, pa), nb = places (&b, distance, pb);
    bool want = false;
    for (int i = 0; i < na; i++)
      for (int j = 0; j < nb; j++)
        want |= pa[i] == pb[j];
    yes += want;
    ck_assert_int_eq (gm_stride_overlap (&a, &b, distance), want);
  }
  ck_assert_msg (yes > 2000 && yes < 18000, "%d of 20000 overlap", yes);
  g_rand_free (rand);
}
END_TEST

/* AOT-07, AOT-20: a view of flat memory has the expected places and strides, or there is none */
START_TEST (views_of_flat_memory_find_their_places)
{
  GRand *rand = g_rand_new_with_seed (8);
  int64_t n = 100;
  GmMeta flat = gm_meta_make (GM_F32, 1, &n);
  g_autoptr (GmTensor) memory = gm_tensor_new (&flat, NULL);
  int found = 0;

  for (int k = 0; k < 5000; k++) {
    GmMeta want = random_strided (rand);
    int64_t at = g_rand_int_range (rand, 0, 40), extent = gm_meta_extent (&want);
    GmEagerBuilder b;
    gm_eager_builder_init (&b);
    GmVal v = gm_b_strided (&b.base, gm_val_from_tensor (memory), at, &want);
    if (v) {
      const GmTensor *t = gm_tensor_from_val (v);
      ck_assert (gm_meta_same_shape (&t->meta, &want));
      ck_assert (gm_meta_numel (&want) == 0 || t->offset == at);
      for (int d = 0; d < want.ndim && gm_meta_numel (&want) > 0; d++)
        ck_assert (want.sizes[d] == 1 || t->meta.strides[d] == want.strides[d]);
      found++;
    } else {
      ck_assert_int_eq (b.base.error->code, GM_ERROR_UNSUPPORTED);
      ck_assert (!gm_meta_is_dense (&want) || at + extent > n);
    }
    gm_eager_builder_clear (&b);
  }
  ck_assert_int_gt (found, 1500);
  g_rand_free (rand);
}
END_TEST

int
main (void)
{
  Suite *s = suite_create ("synthetic_base");
  TCase *t = tcase_create ("all");
  SRunner *sr = srunner_create (s);
  int failures;

  tcase_set_timeout (t, 120);
  tcase_add_loop_test (t, overlapping_inputs_agree_with_the_plain_program, 0,
                       G_N_ELEMENTS (programs));
  tcase_add_test (t, random_programs_over_aliases_agree);
  tcase_add_test (t, bases_stand_first_in_the_order_in_which_they_appear);
  tcase_add_test (t, only_the_written_input_is_copied_back);
  tcase_add_test (t, copying_a_whole_base_back_is_logged_with_its_inputs);
  tcase_add_test (t, lengths_and_tangents_follow_from_what_was_added);
  tcase_add_loop_test (t, inputs_without_one_base_are_refused_by_name, 0, G_N_ELEMENTS (refusals));
  tcase_add_test (t, inference_needs_no_common_tensor);
  tcase_add_test (t, calls_that_overlap_otherwise_get_a_plan_of_their_own);
  tcase_add_test (t, calls_in_one_storage_that_do_not_touch_need_no_base);
  tcase_add_test (t, reading_alone_takes_nothing_for_granted);
  tcase_add_test (t, overlap_is_exact);
  tcase_add_test (t, views_of_flat_memory_find_their_places);
  suite_add_tcase (s, t);
  srunner_run_all (sr, CK_NORMAL);
  failures = srunner_ntests_failed (sr);
  srunner_free (sr);
  return failures ? 1 : 0;
}
