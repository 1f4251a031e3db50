/* SPDX-License-Identifier: Apache-2.0
 * test_stages.c -- a stage or a layer that writes a wrong graph is found at once: the verifier runs
 * after each, and the facts about a layer's graph are derived again and compared with the layer's
 * prediction. Each is broken here on purpose; the compiling process must end, and its message must
 * say where.
 */
#include "core/aot/layer_facts.h"
#include "core/compile.h"
#include "tests/unit/aot_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* A duplicate, an overlap, a change of shape, a returned view and a write: every layer has
 * something to do. */
static const char *const everything =
    "g (%x: f32[4, 3] view f32[12]+0, %y: f32[12] view f32[12]+0 aliases %x+0, %z: f32[4, 3] is "
    "%x, %w: "
    "f32[3, 2] requires_grad, %s: f32[2, 3]) -> (%2, %5, %7) {\n"
    "  %0 = full sizes=[] dtype=f32 value=0.5\n  %1 = mul %y %0\n  %2 = copy_ %y %1\n"
    "  %3 = add %x %z\n  %4 = matmul %3 %w\n  %5 = permute %4 dims=[1, 0]\n"
    "  %6 = permute %s dims=[1, 0]\n  %7 = set_ %s %6\n}\n";

static const char *broken; /* the stage or layer that is broken */
static int how;

static void
break_graph (GmGraph *g)
{
  switch (how) {
  case 0:
    gm_graph_node (g, 0)->tag = GM_N_TAGS;
    break; /* not a graph any more */
  case 1:
    gm_graph_add_output (g, g_array_index (g->outputs, GmGraphOutput, 0).value, GM_OUTPUT_USER);
    break;
  case 2:
    gm_graph_meta (g, g_array_index (g->inputs, GmValueId, 0))->sizes[0]++;
    break;
  default:
    g_array_index (g->outputs, GmGraphOutput, 0).kind = GM_OUTPUT_SAVED;
    break;
  }
}

static void
tamper_stage (char letter, GmGraph *g)
{
  if (letter == *broken)
    break_graph (g);
}

/* Compiles in a process of its own.  Returns its output to stderr; *killed: true if it was ended by
 * a signal. */
static char *
compile_apart (bool *killed)
{
  int ends[2], status;
  ck_assert_int_eq (pipe (ends), 0);
  pid_t child = fork ();
  if (child == 0) {
    g_autoptr (GmCompile) c = gm_compile_new ();
    dup2 (ends[1], 2);
    gm_compile_set_graph (c, graph_of (everything));
    c->ask.differentiate = true;
    c->ask.backend = gm_backend_get ("eager", NULL);
    _exit (gm_compile_run (c, 's', 'l', NULL) ? 0 : 3);
  }
  close (ends[1]);
  GString *said = g_string_new (NULL);
  char part[4096];
  for (ssize_t n; (n = read (ends[0], part, sizeof part)) > 0;)
    g_string_append_len (said, part, n);
  close (ends[0]);
  ck_assert_int_eq (waitpid (child, &status, 0), child);
  *killed = WIFSIGNALED (status);
  ck_assert_msg (*killed || WEXITSTATUS (status) == 0, "%s", said->str);
  return g_string_free (said, FALSE);
}

static void
assert_found (const char *says)
{
  bool killed;
  g_autofree char *said = compile_apart (&killed);
  ck_assert_msg (killed && strstr (said, says), "%s, %d: %s\nwanted: %s", broken, how,
                 killed ? said : "nobody noticed", says);
}

START_TEST (nothing_is_found_where_nothing_is_wrong)
{
  bool killed;
  g_autofree char *said = compile_apart (&killed);
  ck_assert_msg (!killed, "%s", said);
}
END_TEST

static const struct {
  const char *letter, *says;
} stages[] = {
  { "s", "stage s (simplify) wrote a graph that is wrong" },
  { "f", "stage f (functionalize) wrote a graph that is wrong" },
  { "j", "stage j (join) wrote a graph that is wrong" },
  { "p", "stage p (partition) wrote a graph that is wrong" },
};

START_TEST (a_stage_that_writes_a_wrong_graph_is_found)
{
  broken = stages[_i].letter;
  how = 0;
  gm_compile_tamper = tamper_stage;
  assert_found (stages[_i].says);
  gm_compile_tamper = NULL;
}
END_TEST

#ifdef GM_DEBUG_CHECKS
static void
tamper_layer (const char *layer, GmGraph *g)
{
  if (strcmp (layer, broken) == 0)
    break_graph (g);
}

static const char *const layers[] = { "metadata", "dedupe", "output_alias", "synthetic_base",
                                      "functionalize" };

/* AOT-11 */
START_TEST (a_layer_that_writes_another_graph_than_it_foretold_is_found)
{
  broken = layers[_i / 4];
  how = _i % 4;
  gm_layer_facts_tamper = tamper_layer;
  g_autofree char *says = g_strdup_printf ("the layer %s made a graph that is", broken);
  assert_found (says);
  gm_layer_facts_tamper = NULL;
}
END_TEST
#endif

int
main (void)
{
  Suite *s = suite_create ("stages");
  TCase *t = tcase_create ("all");
  SRunner *sr = srunner_create (s);
  int failures;

  setenv ("GM_STRESS", "verify", 0); /* also in builds without debug checks */
  tcase_add_test (t, nothing_is_found_where_nothing_is_wrong);
  tcase_add_loop_test (t, a_stage_that_writes_a_wrong_graph_is_found, 0, G_N_ELEMENTS (stages));
#ifdef GM_DEBUG_CHECKS
  tcase_add_loop_test (t, a_layer_that_writes_another_graph_than_it_foretold_is_found, 0,
                       4 * G_N_ELEMENTS (layers));
#endif
  suite_add_tcase (s, t);
  srunner_run_all (sr, CK_NORMAL);
  failures = srunner_ntests_failed (sr);
  srunner_free (sr);
  return failures ? 1 : 0;
}
