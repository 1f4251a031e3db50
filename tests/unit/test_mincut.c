/* SPDX-License-Identifier: Apache-2.0
 * test_mincut.c -- the minimum cut against trying all sets, on random networks and on the ones that
 * random programs give.
 */
#include "core/aot/partition.h"
#include "tests/fuzz/random_graph.h"
#include "tests/unit/aot_test.h"

enum { MOST = 14 };

/* True if saving the values in `saved` (bits over `candidate`) leaves no path from a given value to
 * a wanted one.  Edges are in the order of values: from < to. */
static bool
is_legal (const GmCutProblem *p, const uint32_t *candidate, uint32_t n, uint32_t saved)
{
  bool flows[128] = { false };

  ck_assert_uint_le (p->n, G_N_ELEMENTS (flows));
  for (uint32_t v = 0; v < p->n; v++)
    flows[v] = p->given[v];
  for (uint32_t round = 0; round < p->n; round++) {
    bool changed = false;
    for (uint32_t i = 0; i < n; i++)
      if (saved >> i & 1)
        flows[candidate[i]] = false;
    for (uint32_t e = 0; e < p->n_edges; e++) {
      uint32_t to = p->edges[e].to;
      bool stopped = false;
      for (uint32_t i = 0; i < n; i++)
        stopped |= candidate[i] == to && saved >> i & 1;
      if (flows[p->edges[e].from] && !flows[to] && !stopped)
        changed = flows[to] = true;
    }
    if (!changed)
      break;
  }
  for (uint32_t v = 0; v < p->n; v++)
    if (flows[v] && p->wanted[v])
      return false;
  return true;
}

/* Returns the least weight of a legal set, or GM_CUT_NEVER. */
static uint64_t
try_all (const GmCutProblem *p, const uint32_t *candidate, uint32_t n)
{
  uint64_t best = GM_CUT_NEVER;

  for (uint32_t saved = 0; saved < 1u << n; saved++) {
    uint64_t weight = 0;
    for (uint32_t i = 0; i < n; i++)
      weight += saved >> i & 1 ? p->weight[candidate[i]] : 0;
    if (weight < best && is_legal (p, candidate, n, saved))
      best = weight;
  }
  return best;
}

static uint32_t
find_candidates (const GmCutProblem *p, uint32_t *candidate)
{
  uint32_t n = 0;

  for (uint32_t v = 0; v < p->n; v++)
    if (p->weight[v] < GM_CUT_NEVER) {
      if (n == MOST + 2)
        return UINT32_MAX;
      candidate[n++] = v;
    }
  return n;
}

static void
assert_least (const GmCutProblem *p, int seed)
{
  uint32_t candidate[MOST + 2], n = find_candidates (p, candidate), saved = 0;
  bool cut[128];
  uint64_t weight, sum = 0, best = try_all (p, candidate, n);
  bool solved = gm_cut_solve (p, cut, &weight);

  ck_assert_msg (solved == (best < GM_CUT_NEVER), "seed %d", seed);
  if (!solved)
    return;
  for (uint32_t i = 0; i < n; i++) {
    saved |= (uint32_t) cut[candidate[i]] << i;
    sum += cut[candidate[i]] ? p->weight[candidate[i]] : 0;
  }
  for (uint32_t v = 0; v < p->n; v++)
    ck_assert (!cut[v] || p->weight[v] < GM_CUT_NEVER);
  ck_assert_msg (weight == best && sum == best,
                 "seed %d: %" G_GUINT64_FORMAT " not %" G_GUINT64_FORMAT, seed, sum, best);
  ck_assert_msg (is_legal (p, candidate, n, saved), "seed %d", seed);
}

/* -- Random networks --------------------------------------------------------------------------- */

typedef struct {
  uint64_t weight[MOST];
  bool given[MOST], wanted[MOST];
  GmCutEdge edges[MOST * MOST];
  GmCutProblem p;
} Network;

static void
random_network (Network *w, uint32_t seed)
{
  GRand *r = g_rand_new_with_seed (seed);
  int n = g_rand_int_range (r, 1, seed % 4 ? 10 : MOST + 1), density = g_rand_int_range (r, 1, 5);

  memset (w, 0, sizeof *w);
  for (int v = 0; v < n; v++) {
    int kind = g_rand_int_range (r, 0, 8);
    /* Many equal weights, zeros, and some that are forbidden. */
    w->weight[v] = kind == 0   ? GM_CUT_NEVER
                   : kind == 1 ? 0
                   : kind < 4  ? 8
                               : (uint64_t) g_rand_int_range (r, 1, 1000);
    w->given[v] = v == 0 || g_rand_int_range (r, 0, 5) == 0;
    w->wanted[v] = v == n - 1 || g_rand_int_range (r, 0, 4) == 0;
    for (int from = 0; from < v; from++)
      if (g_rand_int_range (r, 0, 5) < density)
        w->edges[w->p.n_edges++] = (GmCutEdge){ (uint32_t) from, (uint32_t) v };
  }
  w->p = (GmCutProblem){ (uint32_t) n, w->p.n_edges, w->weight, w->given, w->wanted, w->edges };
  g_rand_free (r);
}

START_TEST (cut_of_a_random_network_is_the_least)
{
  for (int seed = 0; seed < 1500; seed++) {
    Network w;
    random_network (&w, (uint32_t) seed);
    assert_least (&w.p, seed);
  }
}
END_TEST

START_TEST (order_of_edges_does_not_matter)
{
  for (int seed = 0; seed < 400; seed++) {
    Network w;
    bool first[MOST], cut[MOST];
    uint64_t weight;
    GRand *r = g_rand_new_with_seed ((uint32_t) seed);

    random_network (&w, (uint32_t) seed);
    bool solved = gm_cut_solve (&w.p, first, &weight);
    for (int round = 0; solved && round < 20; round++) {
      for (uint32_t i = w.p.n_edges; i > 1; i--) {
        uint32_t k = (uint32_t) g_rand_int_range (r, 0, (gint32) i);
        GmCutEdge e = w.edges[i - 1];
        w.edges[i - 1] = w.edges[k];
        w.edges[k] = e;
      }
      ck_assert (gm_cut_solve (&w.p, cut, &weight));
      ck_assert_msg (memcmp (first, cut, w.p.n * sizeof *cut) == 0, "seed %d", seed);
    }
    g_rand_free (r);
  }
}
END_TEST

/* x -> a -> b, all of one weight: b is saved, nothing is recomputed. */
START_TEST (of_equal_cuts_the_last_one_is_taken)
{
  const uint64_t weight[] = { 5, 5, 5 };
  const bool given[] = { true, false, false }, wanted[] = { false, false, true };
  const GmCutEdge edges[] = { { 0, 1 }, { 1, 2 } };
  bool cut[3];
  uint64_t total;

  ck_assert (gm_cut_solve (&(GmCutProblem){ 3, 2, weight, given, wanted, edges }, cut, &total));
  ck_assert (!cut[0] && !cut[1] && cut[2]);
  ck_assert_uint_eq (total, 5);
}
END_TEST

START_TEST (what_must_not_be_saved_and_cannot_be_made_has_no_cut)
{
  const uint64_t weight[] = { GM_CUT_NEVER, GM_CUT_NEVER };
  const bool given[] = { true, false }, wanted[] = { false, true };
  const GmCutEdge edges[] = { { 0, 1 } };
  bool cut[2];
  uint64_t total;

  ck_assert (!gm_cut_solve (&(GmCutProblem){ 2, 1, weight, given, wanted, edges }, cut, &total));
}
END_TEST

/* A chain of 200,000 values with a parallel one: no limit on depth, and little time. */
START_TEST (long_chains)
{
  uint32_t n = 200000, n_edges = 0;
  g_autofree uint64_t *weight = g_new (uint64_t, n);
  g_autofree bool *given = g_new0 (bool, n), *wanted = g_new0 (bool, n), *cut = g_new (bool, n);
  g_autofree GmCutEdge *edges = g_new (GmCutEdge, 2 * n);
  uint64_t total, start = (uint64_t) g_get_monotonic_time ();

  for (uint32_t v = 0; v < n; v++) {
    weight[v] = 1000 - v % 7 + (v == n / 2 ? 0 : 100);
    if (v >= 2)
      edges[n_edges++] = (GmCutEdge){ v - 2, v };
  }
  given[0] = given[1] = wanted[n - 1] = wanted[n - 2] = true;
  ck_assert (
      gm_cut_solve (&(GmCutProblem){ n, n_edges, weight, given, wanted, edges }, cut, &total));
  ck_assert (cut[n / 2]);
  ck_assert_uint_eq (total, weight[n / 2] + 1094);
  ck_assert_uint_lt ((uint64_t) g_get_monotonic_time () - start, 5000000);
}
END_TEST

/* -- Networks of programs ---------------------------------------------------------------------- */

/* Makes the cut problem of a program as gm_partition does, and checks the least cut. */
static bool
assert_program_is_least (const GmGraph *program, int seed)
{
  static const GmPartitionOptions options = { GM_PARTITION_MIN_CUT, 1 };
  g_autoptr (GmArena) arena = gm_arena_new ();
  g_autoptr (GError) error = NULL;
  TestExec *e;
  g_autoptr (GmPlan) plan = plan_of (program, &e);
  g_autoptr (GmGraph) g = gm_graph_simplify (
      e->joint.graph, GM_SIMPLIFY_DEAD | GM_SIMPLIFY_FOLD | GM_SIMPLIFY_CSE, arena);
  GmCut c = { g, &e->joint, &options, arena, gm_arena_newn (arena, uint8_t, g->values->len) };
  GmCutProblem p;
  uint32_t candidate[MOST + 2];

  gm_cut_mark (&c, NULL);
  gm_cut_problem (&c, &p);
  if (p.n > 128 || find_candidates (&p, candidate) > MOST)
    return false;
  assert_least (&p, seed);
  return true;
}

/* Tags nodes at random.  Values that must be saved, or must be recomputed, are weights of 0, or
 * larger than all; the cut has to be the least for those, too. */
static int
tag_at_random (GmGraph *g, int seed)
{
  GRand *r = g_rand_new_with_seed ((uint32_t) seed);
  int n = 0;

  for (uint32_t i = 0; i < g->nodes->len; i++)
    n += (gm_graph_node (g, i)->tag =
              (uint8_t) (g_rand_int_range (r, 0, 3) ? GM_TAG_NONE
                                                    : g_rand_int_range (r, 0, GM_TAG_IN_PLACE)))
         != GM_TAG_NONE;
  g_rand_free (r);
  return n;
}

START_TEST (cut_of_a_random_program_is_the_least)
{
  int n = 0, tagged = 0;

  for (int seed = 0; seed < 600; seed++) {
    GmRandomGraph options = {
      .seed = (uint64_t) seed, .n_nodes = 8, .grad = true, .defined_only = true
    };
    g_autoptr (GmGraph) any = gm_random_graph (&options, NULL),
                        plain = random_program ((uint32_t) seed, false);
    n += assert_program_is_least (any, seed);
    n += assert_program_is_least (plain, seed);
    if (tag_at_random (any, seed) + tag_at_random (plain, seed + 7) > 0)
      tagged += assert_program_is_least (any, seed) + assert_program_is_least (plain, seed);
  }
  ck_assert_int_gt (n, 400);
  ck_assert_int_gt (tagged, 300);
}
END_TEST

int
main (void)
{
  Suite *s = suite_create ("mincut");
  TCase *t = tcase_create ("all");
  SRunner *sr = srunner_create (s);
  int failures;

  tcase_set_timeout (t, 60);
  tcase_add_test (t, cut_of_a_random_network_is_the_least);
  tcase_add_test (t, order_of_edges_does_not_matter);
  tcase_add_test (t, of_equal_cuts_the_last_one_is_taken);
  tcase_add_test (t, what_must_not_be_saved_and_cannot_be_made_has_no_cut);
  tcase_add_test (t, long_chains);
  tcase_add_test (t, cut_of_a_random_program_is_the_least);
  suite_add_tcase (s, t);
  srunner_run_all (sr, CK_NORMAL);
  failures = srunner_ntests_failed (sr);
  srunner_free (sr);
  return failures ? 1 : 0;
}
