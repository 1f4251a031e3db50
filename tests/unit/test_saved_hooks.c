/* SPDX-License-Identifier: Apache-2.0
 * test_saved_hooks.c -- hooks inlined in the graphs: lossless hooks change no bit.
 */
#include "tests/fuzz/random_graph.h"
#include "tests/unit/aot_test.h"

typedef struct {
  int n_calls, n_wide;
} Count;

/* Adds a number and a copy that are not needed: the first is not carried, the second is. */
static void
add_extra (GmGraph *g, GmValueId v)
{
  GmAttrs cast = { .mask = 1u << GM_ATTR_DTYPE, .dtype = GM_F16 },
          full = { .mask = 1u << GM_ATTR_SIZES | 1u << GM_ATTR_DTYPE | 1u << GM_ATTR_VALUE,
                   .dtype = GM_F32,
                   .value = gm_scalar_float (1) };

  v = gm_graph_add_node (g, GM_OP_cast, &v, 1, &cast, NULL, NULL);
  gm_graph_add_output (g, gm_graph_add_node (g, GM_OP_full, NULL, 0, &full, NULL, NULL),
                       GM_OUTPUT_USER);
  gm_graph_add_output (g, v, GM_OUTPUT_USER);
}

/* HOOK-05, HOOK-06, HOOK-09: a body that depends on the real tensor: f32 is saved as f64, with a
 * number and another tensor beside it; all others unchanged. */
static bool
widen (void *data, const GmMeta *saved, GmArena *arena, GmGraph **pack, GmGraph **unpack,
       GError **error)
{
  Count *count = data;
  bool wide = saved->dtype == GM_F32;
  GmAttrs up = { .mask = 1u << GM_ATTR_DTYPE, .dtype = GM_F64 }, down = up;
  GmGraph *p = *pack = gm_graph_new ("pack", arena), *u = *unpack = gm_graph_new ("unpack", arena);
  GmValueId v = gm_graph_add_input (p, "t", saved), w = v;

  count->n_calls++;
  count->n_wide += wide;
  down.dtype = GM_F32;
  if (wide)
    w = gm_graph_add_node (p, GM_OP_cast, &v, 1, &up, NULL, error);
  gm_graph_add_output (p, w, GM_OUTPUT_USER);
  if (wide)
    add_extra (p, v);
  for (uint32_t i = 0; i < p->outputs->len; i++)
    gm_graph_add_input (u, NULL,
                        gm_graph_meta (p, g_array_index (p->outputs, GmGraphOutput, i).value));
  v = g_array_index (u->inputs, GmValueId, 0);
  if (wide)
    v = gm_graph_add_node (u, GM_OP_cast, &v, 1, &down, NULL, error);
  gm_graph_add_output (u, v, GM_OUTPUT_USER);
  return true;
}

static void
note_saved (const GmGraph *g, GmHookedFilter filter, uint32_t *n, int *n_seen)
{
  TestExec *e;
  g_autoptr (GmPlan) p = plan_of (g, &e);

  *n = e->parts.n_saved;
  *n_seen = 0;
  for (uint32_t i = 0; i < *n; i++)
    *n_seen += filter != GM_HOOKED_DONATED
               || (!e->parts.saved[i].is_input && e->parts.saved[i].index >= e->parts.n_outputs);
}

/* y's gradient is a tangent, unchanged, behind the saved values. */
static const char passing[] =
    "f (%x: f32[4] requires_grad, %y: f32[4] requires_grad) -> (%o, %b) {\n"
    "  %o = add %x %y\n  %a = exp %x\n  %b = sin %a\n}\n";

/* HOOK-03, HOOK-14, HOOK-18 */
START_TEST (lossless_hooks_change_no_bit_and_are_traced_once_per_saved_tensor)
{
  int total = 0;

  for (int seed = 0; seed < 150; seed++) {
    GmRandomGraph options = {
      .seed = (uint64_t) seed + 9000, .n_nodes = 12, .grad = true, .defined_only = true
    };
    g_autoptr (GmGraph) any = gm_random_graph (&options, NULL),
                        plain = random_program ((uint32_t) seed, false);
    g_autoptr (GPtrArray) parsed = gm_graph_parse (passing, NULL);
    GmGraph *graphs[] = { any, plain, g_ptr_array_index (parsed, 0) };
    for (int k = 0; k < 3; k++)
      for (int filter = GM_HOOKED_DONATED; filter <= GM_HOOKED_ALL; filter++) {
        Count count = { 0, 0 };
        int n_seen;
        uint32_t n;
        GmInlineHooks hooks = { widen, &count, (GmHookedFilter) filter, NULL };
        TestExec *e;
        note_saved (graphs[k], hooks.filter, &n, &n_seen);
        inline_hooks = &hooks;
        g_autoptr (GmPlan) p = plan_of (graphs[k], &e);
        inline_hooks = NULL;
        ck_assert_uint_eq (e->parts.n_saved, n + (uint32_t) count.n_wide);
        ck_assert_int_eq (count.n_calls, n_seen);
        check_same (graphs[k], p, true);
        total += count.n_wide;
      }
  }
  ck_assert_int_gt (total, 200);
}
END_TEST

/* -- Bodies given as text ---------------------------------------------------------------------- */

static const char program[] = "f (%x: f32[32, 64] requires_grad) -> (%s) {\n"
                              "  %a = exp %x\n  %b = sin %a\n  %c = tanh %b\n"
                              "  %s = sum %c dims=[] keepdim=false\n}\n";

/* Returns the saved bytes of the program with these hooks inlined, and the error. */
static uint64_t
saved_with (const char *pack, const char *unpack, GError **error)
{
  g_autofree char *text = g_strconcat (program, pack, unpack, NULL);
  g_autoptr (GPtrArray) graphs = gm_graph_parse (text, error);
  ck_assert_msg (graphs != NULL, "%s", *error ? (*error)->message : "");
  GmHookGraphs bodies = { NULL, NULL };
  if (graphs->len == 3)
    bodies = (GmHookGraphs){ g_ptr_array_index (graphs, 1), g_ptr_array_index (graphs, 2) };
  GmInlineHooks hooks = { gm_saved_hooks_retrace, &bodies, GM_HOOKED_DONATED, NULL };
  TestExec *e;
  g_autoptr (GmPlan) p = plan_of (g_ptr_array_index (graphs, 0), &e);
  GmParts *parts = &e->parts;
  if (bodies.pack && !gm_saved_hooks_inline (&hooks, e->arena, parts, error))
    ck_assert (parts->forward && parts->backward && !parts->restore);
  uint64_t bytes = saved_bytes_of (parts);
  e->graphs[0] = parts->forward;
  e->graphs[1] = parts->backward;
  return bytes;
}

/* HOOK-04: each way of packing, and the bytes that remain */
START_TEST (packing_to_f8_saves_three_quarters)
{
  g_autoptr (GError) error = NULL;
  uint64_t plain = saved_with ("", "", &error);
  static const struct {
    const char *dtype;
    double most;
  } rows[] = {
    { "f8e4m3", 0.30 },
    { "f8e5m2", 0.30 },
    { "f16", 0.55 },
    { "bf16", 0.55 },
  };

  ck_assert_uint_ge (plain, 2 * 32 * 64 * 4);
  for (size_t i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_autofree char *pack = g_strdup_printf ("pack (%%t: f32[2]) -> (%%q) {\n"
                                             "  %%q = cast %%t dtype=%s\n}\n",
                                             rows[i].dtype),
                    *unpack = g_strdup_printf ("unpack (%%q: %s[2]) -> (%%t) {\n"
                                               "  %%t = cast %%q dtype=f32\n}\n",
                                               rows[i].dtype);
    uint64_t bytes = saved_with (pack, unpack, &error);
    ck_assert_msg (!error, "%s", error ? error->message : "");
    ck_assert_msg ((double) bytes <= rows[i].most * (double) plain, "%s: %u of %u bytes",
                   rows[i].dtype, (unsigned) bytes, (unsigned) plain);
  }
}
END_TEST

/* HOOK-17 */
START_TEST (hooks_that_write_or_do_not_fit_are_refused)
{
  static const char keep[] = "unpack (%q: f32[2]) -> (%q) {\n}\n";
  static const struct {
    const char *pack, *unpack, *says;
  } rows[] = {
    { "pack (%t: f32[2]) -> (%t) {\n  %c = cos %t\n  %w = copy_ %t %c\n}\n", keep,
      "Saved tensors hooks with inputs mutations are not allowed" },
    { "pack (%t: f32[2]) -> (%q) {\n  %q = cast %t dtype=f16\n}\n",
      "unpack (%q: f16[2]) -> (%q) {\n}\n", "unpack gives back f16[32, 64]" },
    { "pack (%t: f32[2]) -> (%t, %t) {\n}\n", keep, "as many values as pack gives back" },
  };

  for (size_t i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_autoptr (GError) error = NULL;
    saved_with (rows[i].pack, rows[i].unpack, &error);
    ck_assert_msg (error && strstr (error->message, rows[i].says), "row %u: %s", (unsigned) i,
                   error ? error->message : "accepted");
  }
}
END_TEST

int
main (void)
{
  Suite *s = suite_create ("saved hooks");
  TCase *t = tcase_create ("inline");

  tcase_set_timeout (t, 120);
  tcase_add_test (t, lossless_hooks_change_no_bit_and_are_traced_once_per_saved_tensor);
  tcase_add_test (t, packing_to_f8_saves_three_quarters);
  tcase_add_test (t, hooks_that_write_or_do_not_fit_are_refused);
  suite_add_tcase (s, t);
  SRunner *r = srunner_create (s);
  srunner_run_all (r, CK_NORMAL);
  int failed = srunner_ntests_failed (r);
  srunner_free (r);
  return failed != 0;
}
