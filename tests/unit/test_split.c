/* SPDX-License-Identifier: Apache-2.0
 * test_split.c -- graphs of which a plugin takes a part: cut so that the regions can run in an
 * order, run to the reference's bits, and reported correctly.
 *
 * GM_FUZZ_GRAPHS sets the number of random graphs (default 300), GM_FUZZ_SEED the first seed.
 */
#include "core/base/error.h"
#include "core/graph/higher.h"
#include "core/run/backend.h"
#include "core/run/regions.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/random_graph.h"
#include "tests/plugin/hostile.h"

/* -- Regions ----------------------------------------------------------------------------------- */

static bool
is_output (const GmGraph *g, GmValueId v)
{
  for (uint32_t i = 0; i < g->outputs->len; i++)
    if (g_array_index (g->outputs, GmGraphOutput, i).value == v)
      return true;
  return false;
}

/* Removes outputs that are inputs or come twice, as backend.c does. */
static void
keep_own_outputs (GmGraph *g)
{
  for (uint32_t i = 0; i < g->outputs->len;) {
    GmValueId v = g_array_index (g->outputs, GmGraphOutput, i).value;
    bool drop = gm_graph_value (g, v)->node == GM_NO_ID;
    for (uint32_t k = 0; k < i; k++)
      drop = drop || g_array_index (g->outputs, GmGraphOutput, k).value == v;
    if (drop)
      g_array_remove_index (g->outputs, i);
    else
      i++;
  }
}

/* GPH-12.  Values that a region reads were made by an earlier one or are the graph's inputs: so no
 * region waits for itself, directly or indirectly, and each is convex. */
static void
check_regions (const GmGraph *g, const GmVerdict *verdicts)
{
  g_autoptr (GmRegions) r = gm_regions_new (g, verdicts);
  g_autofree bool *made = g_new0 (bool, r->n_slots + 1);
  g_autofree uint32_t *times = g_new0 (uint32_t, g->nodes->len + 1);
  for (uint32_t i = 0; i < g->inputs->len; i++)
    made[i] = true;
  for (guint i = 0; i < r->regions->len; i++) {
    const GmRegion *region = r->regions->pdata[i];
    g_autoptr (GError) error = NULL;
    ck_assert_msg (gm_graph_verify (region->graph, true, &error), "%s",
                   error ? error->message : "");
    ck_assert_uint_eq (region->ins->len, region->graph->inputs->len);
    ck_assert_uint_eq (region->outs->len, region->graph->outputs->len);
    for (guint k = 0; k < region->ins->len; k++)
      ck_assert (made[g_array_index (region->ins, uint32_t, k)]);
    for (guint k = 0; k < region->outs->len; k++)
      made[g_array_index (region->outs, uint32_t, k)] = true;
    for (guint k = 0; k < region->nodes->len; k++) {
      uint32_t node = g_array_index (region->nodes, uint32_t, k);
      times[node]++;
      ck_assert_uint_eq (r->region_of[node], i);
      if (!region->host) {
        ck_assert (verdicts[node].yes);
        ck_assert_uint_eq (verdicts[node].cluster, region->cluster);
      }
    }
    /* Also views in it, since the plugin must not see nodes to which it said NO. */
    if (!region->host)
      ck_assert (gm_graph_verify_outputs (region->graph, NULL));
  }
  for (uint32_t i = 0; i < g->nodes->len; i++) {
    const GmNode *n = gm_graph_node (g, i);
    bool shared = n->op == GM_OP_constant || gm_ops[n->op].family == GM_FAMILY_MOVEMENT;
    ck_assert_uint_le (times[i], 1);
    ck_assert_msg (times[i] == 1 || shared, "node %u is nowhere", i);
    ck_assert (times[i] == 1 || !is_output (g, n->out));
  }
  for (uint32_t i = 0; i < g->outputs->len; i++)
    ck_assert (made[r->outputs[i]]);
}

START_TEST (regions_can_run_in_their_order_whatever_the_verdicts)
{
  uint64_t n = gm_fuzz_number ("GM_FUZZ_GRAPHS", 300), state = 77;
  for (uint64_t seed = 1; seed <= n; seed++) {
    g_autoptr (GmArena) arena = gm_arena_new ();
    GmRandomGraph o = { .seed = seed, .strided = true, .n_nodes = seed % 7 ? 0 : 300 };
    g_autoptr (GmGraph) g = gm_random_graph (&o, arena);
    keep_own_outputs (g);
    g_autofree GmVerdict *verdicts = g_new0 (GmVerdict, g->nodes->len + 1);
    for (int round = 0; round < 6; round++) {
      for (uint32_t i = 0; i < g->nodes->len; i++) {
        verdicts[i].yes = gm_fuzz_draw (&state) % 6 < (uint64_t) round;
        verdicts[i].cluster = (uint32_t) (gm_fuzz_draw (&state) % (1u << round));
      }
      check_regions (g, verdicts);
    }
  }
}
END_TEST

START_TEST (a_chain_of_many_clusters_closes_old_regions_and_stays_right)
{
  GString *text =
      g_string_new ("forward (%x: f32[4]) -> (%2999) {\n %0 = neg %x\n %1 = add %0 %x\n");
  for (int i = 2; i < 3000; i++)
    g_string_append_printf (text, " %%%d = add %%%d %%%d\n", i, i - 1, i / 2);
  g_string_append (text, "}");
  g_autoptr (GPtrArray) graphs = gm_graph_parse (text->str, NULL);
  g_string_free (text, TRUE);
  const GmGraph *g = graphs->pdata[0];
  g_autofree GmVerdict *verdicts = g_new0 (GmVerdict, 3001);
  for (uint32_t i = 0; i < 3000; i++)
    verdicts[i] = (GmVerdict){ .yes = true, .cluster = i % 100 };
  check_regions (g, verdicts);
}
END_TEST

/* Two branches, one of them through a node of the host: nodes that can be one region are one. */
START_TEST (regions_are_as_large_as_they_can_be)
{
  g_autoptr (GPtrArray) graphs = gm_graph_parse (
      "forward (%x: f32[4], %y: f32[4]) -> (%4, %5) {\n %0 = neg %x\n %1 = exp %y\n %2 = abs %1\n"
      " %3 = mul %0 %2\n %4 = add %3 %0\n %5 = exp %4\n}",
      NULL);
  const GmGraph *g = graphs->pdata[0];
  /* neg and abs are the plugin's; exp is the host's; mul reads both: all of the plugin's in one. */
  const GmVerdict verdicts[6] = { { true }, { false }, { true }, { true }, { true }, { false } };
  g_autoptr (GmRegions) r = gm_regions_new (g, verdicts);
  ck_assert_uint_eq (r->regions->len, 3);
  ck_assert_uint_eq (r->region_of[0], r->region_of[4]);
  ck_assert_uint_eq (r->region_of[2], r->region_of[4]);
  check_regions (g, verdicts);
}
END_TEST

/* -- Running ----------------------------------------------------------------------------------- */

static void
fail_with (uint64_t subset, uint64_t seed, const GmGraph *g, const GmExec *e, const char *what)
{
  g_autofree char *text = gm_graph_text (g), *places = e ? gm_exec_places_text (e, true) : NULL;
  ck_abort_msg ("GM_SUBSET=%" G_GUINT64_FORMAT ", seed %" G_GUINT64_FORMAT ": %s\n%s%s", subset,
                seed, what, text, places ? places : "");
}

/* Runs a random graph with a random subset, and compares with the reference. */
static void
compare_one (GmBackend *b, uint64_t subset, uint64_t seed)
{
  g_autoptr (GmArena) arena = gm_arena_new ();
  GmRandomGraph options = { .seed = seed, .strided = true, .defined_only = true };
  g_autoptr (GmGraph) g = gm_random_graph (&options, arena);
  gm_fuzz_make_outputs_dense (g);
  uint32_t n_in = g->inputs->len, n_out = g->outputs->len;
  g_autofree GmTensor **in = g_new0 (GmTensor *, n_in + 1), **want = g_new0 (GmTensor *, n_out + 1),
                      **got = g_new0 (GmTensor *, n_out + 1);
  g_autoptr (GError) error = NULL;
  gm_random_inputs (g, seed, GM_RANDOM_WILD, in);
  ck_assert (gm_graph_interpret (g, in, want, NULL));
  g_autoptr (GmExec) e = gm_backend_compile (b, g, NULL, NULL, &error);
  if (!e)
    fail_with (subset, seed, g, NULL, error->message);
  for (int round = 0; round < 2; round++) {
    for (uint32_t i = 0; i < n_out; i++) {
      gm_tensor_unref (got[i]);
      got[i] = gm_tensor_new (gm_graph_meta (g, g_array_index (g->outputs, GmGraphOutput, i).value),
                              NULL);
      if (got[i]->storage->bytes)
        memset (got[i]->storage->data, 0xa5, got[i]->storage->bytes);
    }
    if (!gm_exec_run (e, 0, in, (int) n_in, got, (int) n_out, &error))
      fail_with (subset, seed, g, e, error->message);
    for (uint32_t i = 0; i < n_out; i++) {
      g_autofree char *why = NULL;
      if (!gm_random_equal (want[i], got[i], false, &why))
        fail_with (subset, seed, g, e, why);
    }
  }
  for (uint32_t i = 0; i < n_in; i++)
    gm_tensor_unref (in[i]);
  for (uint32_t i = 0; i < n_out; i++) {
    gm_tensor_unref (want[i]);
    gm_tensor_unref (got[i]);
  }
}

static void
set_subset (uint64_t number)
{
  g_autofree char *text = g_strdup_printf ("%" G_GUINT64_FORMAT, number);
  g_setenv ("GM_SUBSET", text, TRUE);
}

static GmBackend *
subset_plugin (void)
{
  g_autofree char *file =
      hostile_compile ("subset", "tests/plugin/subset.c plugins/eager/eager_plan.c", NULL);
  hostile_search (file);
  g_autoptr (GError) error = NULL;
  GmBackend *b = gm_backend_get ("subset", &error);
  ck_assert_msg (b, "%s", error ? error->message : "");
  return b;
}

/* GPH-12, GPH-16: random verdicts in random clusters, some of them lies: the reference's bits. */
START_TEST (random_subsets_give_the_reference_bits)
{
  GmBackend *b = subset_plugin ();
  uint64_t n = gm_fuzz_number ("GM_FUZZ_GRAPHS", 300), first = gm_fuzz_number ("GM_FUZZ_SEED", 1);
  size_t live = gm_alloc_live_bytes ();
  for (uint64_t seed = first; seed < first + n; seed++)
    for (uint64_t k = 0; k < 4; k++) {
      uint64_t subset =
          (seed * 4 + k) * 1000 + (k == 3 ? 300 : 0) + (seed % 6) * 10 + 1 + (seed + k) % 9;
      set_subset (subset);
      compare_one (b, subset, seed);
    }
  ck_assert_uint_eq (gm_alloc_live_bytes (), live);
}
END_TEST

static char *
places_of (GmBackend *b, const char *text, bool every)
{
  g_autoptr (GPtrArray) graphs = gm_graph_parse (text, NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (GmExec) e = gm_backend_compile (b, graphs->pdata[0], NULL, NULL, &error);
  ck_assert_msg (e, "%s", error ? error->message : "");
  return gm_exec_places_text (e, every);
}

#define FIVE                                                                                       \
  "forward (%x: f32[4]) -> (%4) {\n %0 = exp %x  # a.py:1\n %1 = exp %0\n %2 = neg %1\n %3 = "     \
  "tanh %2  "                                                                                      \
  "# a.py:9\n %4 = mul %3 %3\n}"

/* GPH-7, GPH-16: the report of places and reasons, and a region that was promised and not
 * compiled. */
START_TEST (the_report_says_what_went_where_and_why)
{
  GmBackend *b = subset_plugin ();
  set_subset (9);
  g_autofree char *all = places_of (b, FIVE, false);
  ck_assert_str_eq (all, "forward: 5 of 5 nodes in 1 region of subset, nothing in eager\n");
  set_subset (0);
  g_autofree char *none = places_of (b, FIVE, true);
  ck_assert_ptr_nonnull (strstr (none, "forward: 0 of 5 nodes in 0 regions of subset\n"));
  ck_assert_ptr_nonnull (strstr (none, "   3 tanh at a.py:9"));
  ck_assert_ptr_nonnull (strstr (none, "eager: its number says no\n"));
  uint64_t before = gm_backend_fallbacks ();
  for (uint64_t seed = 1; seed < 60; seed++) {
    set_subset (seed * 1000 + 5);
    g_autofree char *some = places_of (b, FIVE, false), *every = places_of (b, FIVE, true);
    if (strstr (some, " 0 of 5") || strstr (some, " 5 of 5"))
      continue;
    ck_assert_ptr_nonnull (strstr (some, "  region 0: "));
    ck_assert_ptr_nonnull (strstr (some, "  eager: "));
    ck_assert_ptr_nonnull (strstr (some, ": its number says no"));
    ck_assert_ptr_nonnull (strstr (every, "subset, region 0\n"));
  }
  ck_assert_uint_gt (gm_backend_fallbacks (), before);
  set_subset (920 + 9); /* all in two clusters, nearly every request refused */
  g_autofree char *lies = places_of (b, FIVE, true);
  ck_assert_msg (strstr (lies, "eager: region 0 was promised too much") != NULL, "%s", lies);
}
END_TEST

/* -- What a plugin says is not believed blindly ------------------------------------------------ */

static uint32_t
tanh_is_newer (uint32_t op, uint32_t version)
{
  return op == GRAMME_OP_tanh ? 9 : op == GRAMME_OP_exp && version > 1 ? 9 : 0;
}

/* GPH-12, GPP-5: a node newer than a plugin's headers is withheld, whatever it says. */
START_TEST (nodes_newer_than_the_plugin_are_withheld)
{
  g_autofree char *file = hostile_build ("good", "GOOD", NULL); /* says YES to everything */
  GmRefused refused = { 0 };
  const GmPlugin *p = gm_loader_load (file, &refused);
  ck_assert_ptr_nonnull (p);
  g_autoptr (GPtrArray) graphs = gm_graph_parse (FIVE, NULL);
  g_autoptr (GmImage) image = gm_image_new (graphs->pdata[0], NULL);
  g_autofree char *why = NULL;
  g_autofree GmVerdict *today = NULL, *later = NULL, *version = NULL;
  gm_support_ask (p, NULL, image->bytes, gm_op_minor, &today, &why);
  for (uint32_t i = 0; i < 5; i++)
    ck_assert (today[i].yes);
  gm_support_ask (p, NULL, image->bytes, tanh_is_newer, &later, &why);
  for (uint32_t i = 0; i < 5; i++)
    ck_assert (later[i].yes == (i != 3));
  ck_assert_uint_eq (later[3].reason, GRAMME_REASON_OP);
  ((GrammeNode *) gramme_image_node (image->bytes, 0))->op_version = 2;
  gm_support_ask (p, NULL, image->bytes, tanh_is_newer, &version, &why);
  ck_assert (!version[0].yes && version[1].yes);
  ck_assert_uint_eq (version[0].reason, GRAMME_REASON_OP_VERSION);
}
END_TEST

START_TEST (an_op_that_was_released_has_its_minor_and_another_one_todays)
{
  ck_assert_uint_eq (gm_op_minor (GRAMME_OP_add, 1), 0);
  ck_assert_uint_eq (gm_op_minor (GRAMME_OP_add, 99), GRAMME_ABI_MINOR);
  ck_assert_uint_eq (gm_op_minor (99999, 1), GRAMME_ABI_MINOR);
}
END_TEST

/* A verdict row too many is detected, and the whole graph runs in eager with that reason. */
START_TEST (a_plugin_that_writes_past_its_verdicts_is_not_heard)
{
  g_autofree char *file = hostile_build ("past", "WRITES_PAST", NULL);
  hostile_search (file);
  g_autofree char *places = places_of (gm_backend_get ("hostile", NULL), FIVE, true);
  ck_assert_msg (strstr (places, "writes past the 5 verdicts") != NULL, "%s", places);
}
END_TEST

/* Calls stay in their order, and a call in one place, whichever nodes a back end takes, and in
 * whatever clusters. */
START_TEST (regions_keep_the_order_of_calls)
{
  for (uint32_t seed = 0; seed < 400; seed++) {
    GRand *rand = g_rand_new_with_seed (seed);
    g_autoptr (GmGraph) g = gm_graph_new ("graph", NULL);
    GmMeta m = gm_meta_make (GM_F32, 1, (const int64_t[]){ 4 });
    const GmMeta two[2] = { m, m };
    GmValueId pool[80], n = 0;
    GmVerdict verdicts[80];
    pool[n++] = gm_graph_add_input (g, "x", &m);
    for (int i = 0; i < 30; i++) {
      GmValueId in[2] = { pool[g_rand_int_range (rand, 0, (int) n)],
                          pool[g_rand_int_range (rand, 0, (int) n)] };
      uint32_t at = g->nodes->len;
      if (g_rand_int_range (rand, 0, 3) > 0) {
        pool[n++] = gm_graph_add_node (g, GM_OP_add, in, 2, NULL, NULL, NULL);
        verdicts[at] = (GmVerdict){ .yes = g_rand_int_range (rand, 0, 3) > 0,
                                    .cluster = (uint32_t) g_rand_int_range (rand, 0, 3) };
        continue;
      }
      uint32_t row = gm_graph_add_higher (g, gm_higher_new_host_call (NULL, two, 2));
      for (int dim = 0; dim < 2; dim++) {
        GmAttrs a = { .mask = 1u << GM_ATTR_DIM | 1u << GM_ATTR_OFFSET, .dim = dim, .offset = row };
        pool[n++] = gm_graph_add_node (g, GM_OP_host_call, in, 2, &a, NULL, NULL);
        verdicts[at + (uint32_t) dim] = (GmVerdict){ .yes = false };
      }
    }
    gm_graph_add_output (g, pool[n - 1], GM_OUTPUT_USER);
    if (gm_graph_value (g, pool[n / 2])->node != GM_NO_ID && n / 2 != n - 1)
      gm_graph_add_output (g, pool[n / 2], GM_OUTPUT_USER);
    g_autoptr (GmRegions) r = gm_regions_new (g, verdicts);
    int64_t last = -1;
    uint32_t n_seen = 0, n_calls = 0;
    for (guint i = 0; i < r->regions->len; i++) {
      const GmRegion *region = r->regions->pdata[i];
      bool any = false;
      for (guint k = 0; k < region->graph->nodes->len; k++) {
        const GmNode *node = gm_graph_node (region->graph, k);
        if (node->op != GM_OP_host_call)
          continue;
        any = true;
        n_seen++;
        int64_t place = node->attrs->offset * 2 + node->attrs->dim;
        ck_assert_int_eq (place, last + 1); /* all of them, one after the other */
        last = place;
      }
      ck_assert_int_eq (region->has_effects, any);
      if (any) { /* no call is divided */
        uint32_t calls = 0;
        for (guint k = 0; k < region->graph->nodes->len; k++)
          calls += gm_graph_node (region->graph, k)->op == GM_OP_host_call;
        ck_assert_uint_eq (calls % 2, 0);
      }
    }
    for (uint32_t i = 0; i < g->nodes->len; i++)
      n_calls += gm_graph_node (g, i)->op == GM_OP_host_call;
    ck_assert_uint_eq (n_seen, n_calls);
    g_rand_free (rand);
  }
}
END_TEST

int
main (void)
{
  Suite *s = suite_create ("split");
  TCase *t = tcase_create ("split");
  tcase_add_checked_fixture (t, hostile_setup, hostile_teardown);
  tcase_add_test (t, regions_keep_the_order_of_calls);
  tcase_add_test (t, regions_can_run_in_their_order_whatever_the_verdicts);
  tcase_add_test (t, a_chain_of_many_clusters_closes_old_regions_and_stays_right);
  tcase_add_test (t, regions_are_as_large_as_they_can_be);
  tcase_add_test (t, random_subsets_give_the_reference_bits);
  tcase_add_test (t, the_report_says_what_went_where_and_why);
  tcase_add_test (t, nodes_newer_than_the_plugin_are_withheld);
  tcase_add_test (t, an_op_that_was_released_has_its_minor_and_another_one_todays);
  tcase_add_test (t, a_plugin_that_writes_past_its_verdicts_is_not_heard);
  suite_add_tcase (s, t);
  SRunner *r = srunner_create (s);
  srunner_run_all (r, CK_NORMAL);
  int failures = srunner_ntests_failed (r);
  srunner_free (r);
  return failures ? 1 : 0;
}
