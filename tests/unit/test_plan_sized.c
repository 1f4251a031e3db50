/* SPDX-License-Identifier: Apache-2.0
 * test_plan_sized.c -- programs whose sizes are symbols through all stages, gradients included:
 * compiled once, and compared for several sets of sizes with the plain program.
 *
 * GM_FUZZ_SIZED sets the number of programs per back end (default 200), GM_FUZZ_SEED the first.
 */
#include "core/compile.h"
#include "core/plugin/registry.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/symbolic_graph.h"
#include "tests/unit/aot_test.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const backends[] = { "eager", "tcc" };

/* Compiles a program for inputs of 1 to 6 rows and columns; requires_grad is kept. */
static GmCompile *
compile (const char *backend, GmGraph *g, GError **error)
{
  GmCompile *c = gm_compile_new ();
  c->ask.backend = gm_backend_get (backend, NULL);
  gm_compile_set_graph (c, g);
  if (gm_compile_run (c, 's', 'l', error))
    return c;
  gm_compile_free (c);
  return NULL;
}

/* Returns the number of sets of sizes that a program was run with. */
static int
try_program (const char *backend, GmGraph *g, uint64_t seed)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *text = gm_graph_text (g);
  uint32_t n = gm_sym_n_symbols (g->sym);
  g_autofree int64_t *symbols = g_new0 (int64_t, n + 1);
  g_autoptr (GmCompile) c = compile (backend, g, &error);
  uint64_t state = seed;
  int runs = 0;

  if (!c) {
    ck_assert_msg (g_error_matches (error, GM_ERROR, GM_ERROR_UNSUPPORTED), "seed %d: %s\n%s",
                   (int) seed, error->message, text);
    return 0;
  }
  if (!gm_plan_is_sized (c->lower.plan))
    return 0;
  for (int k = 0; k < 4; k++) {
    memcpy (symbols, g->sizes->hints->data, n * sizeof *symbols);
    for (uint32_t i = 0; k > 0 && i < n; i++)
      symbols[i] = (int64_t) ((state += 0x9e3779b97f4a7c15) >> 59) % 7;
    if (!gm_plan_fits (c->lower.plan, symbols))
      continue;
    g_autoptr (GmArena) arena = gm_arena_new ();
    g_autoptr (GmGraph) now = gm_graph_specialise (c->record.graph, symbols, arena, &error);
    ck_assert_msg (now != NULL, "seed %d: %s\n%s", (int) seed, error ? error->message : "", text);
    g_autoptr (GmPlan) plan = gm_plan_at (c->lower.plan, symbols, &error);
    ck_assert_msg (plan != NULL, "seed %d: %s\n%s", (int) seed, error ? error->message : "", text);
    if (check_same (now, plan, false))
      runs++;
    if (k == 0)
      check_same (now, plan, true);
  }
  return runs;
}

/* SYM-02, through the layers, the gradient and the partition: one compilation, many sizes. */
START_TEST (programs_with_gradients_do_what_plain_ones_do_at_every_size)
{
  uint64_t n = gm_fuzz_number ("GM_FUZZ_SIZED", 200), first = gm_fuzz_number ("GM_FUZZ_SEED", 1);
  int runs = 0, sized = 0;

  if (!gm_fuzz_has_backend (backends[_i]))
    return;
  for (uint64_t seed = first; seed < first + n; seed++) {
    g_autoptr (GmGraph) plain = random_program ((uint32_t) seed, seed % 2);
    GmGraph *g = gm_symbolic_graph (plain, seed, NULL);
    if (!g)
      continue;
    int now = try_program (backends[_i], g, seed);
    sized += now > 0;
    runs += now;
  }
  if (g_getenv ("GM_FUZZ_SIZED"))
    fprintf (stderr, "%s: %d programs, %d runs\n", backends[_i], sized, runs);
  ck_assert_int_gt (runs, (int) n / 2);
}
END_TEST

int
main (void)
{
  Suite *s = suite_create ("plan_sized");
  TCase *t = tcase_create ("against the plain program");
  tcase_set_timeout (t, 600);
  tcase_add_loop_test (t, programs_with_gradients_do_what_plain_ones_do_at_every_size, 0,
                       G_N_ELEMENTS (backends));
  suite_add_tcase (s, t);
  SRunner *sr = srunner_create (s);
  srunner_run_all (sr, CK_NORMAL);
  int failures = srunner_ntests_failed (sr);
  srunner_free (sr);
  return failures ? 1 : 0;
}
