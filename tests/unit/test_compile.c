/* SPDX-License-Identifier: Apache-2.0
 * test_compile.c -- the spine: the stages run in order, show their work, and stop where they
 * should. Needs the back end `eager` (GRAMME_PLUGIN_PATH).
 */
#include "core/base/log.h"
#include "core/compiled_pair.h"
#include "tests/unit/aot_test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char *const net =
    "graph (%x: f32[4, 3], %w: f32[3, 2] requires_grad, %n: f32[]) -> (%3, %1) { \n %0 = matmul %x "
    "%w  # net.py:1\n"
    " %1 = permute %0 dims=[1, 0] \n %2 = add %n %n \n %3 = tanh %0 \n %4 = copy_ %n %2 \n }";

static GmCompile *
begin (const char *text)
{
  GmCompile *c = gm_compile_new ();
  g_autoptr (GError) error = NULL;

  c->ask.backend = gm_backend_get ("eager", &error);
  ck_assert_msg (c->ask.backend != NULL, "%s", error ? error->message : "");
  gm_compile_set_graph (c, graph_of (text));
  return c;
}

START_TEST (graph_becomes_a_plan)
{
  g_autoptr (GmCompile) c = begin (net);
  g_autoptr (GError) error = NULL;

  ck_assert_msg (gm_compile_run (c, 's', 'l', &error), "%s", error ? error->message : "");
  ck_assert_ptr_nonnull (c->lower.plan);
  ck_assert (check_same (c->record.graph, c->lower.plan, false));
  ck_assert_ptr_null (gm_compiled_pair_fallback_reason (c->lower.pair));
  for (const char *s = "sfjpl"; *s; s++)
    ck_assert_double_ge (gm_compile_stage_ms (c, *s), 0);
}
END_TEST

START_TEST (every_stage_shows_text_that_parses_to_the_same_text)
{
  g_autoptr (GmCompile) c = begin (net);

  ck_assert (gm_compile_run (c, 's', 'l', NULL));
  for (const char *s = "rsfjp"; *s; s++) {
    g_autofree char *text = gm_compile_text (c, *s);
    g_autoptr (GError) error = NULL;
    g_autoptr (GPtrArray) graphs = gm_graph_parse (text, &error);
    GString *again = g_string_new (NULL);

    ck_assert_msg (graphs != NULL, "%c: %s\n%s", *s, error ? error->message : "", text);
    ck_assert_uint_eq (graphs->len, *s == 'p' ? 2 : 1);
    for (guint i = 0; i < graphs->len; i++) {
      g_autofree char *one = gm_graph_text (g_ptr_array_index (graphs, i));
      g_string_append (again, one);
    }
    ck_assert_str_eq (text, again->str);
    g_string_free (again, TRUE);
  }
  g_autofree char *lowered = gm_compile_text (c, 'l');
  ck_assert_ptr_nonnull (strstr (lowered, "eager"));
}
END_TEST

/* Compares all compiled forms of the random programs, run by the real back end. */
START_TEST (random_programs_on_the_back_end)
{
  int same = 0;

  for (int seed = 0; seed < 200; seed++) {
    g_autoptr (GmCompile) c = gm_compile_new ();
    g_autoptr (GError) error = NULL;
    c->ask.backend = gm_backend_get ("eager", NULL);
    gm_compile_set_graph (c, random_program ((uint32_t) seed + 777, seed % 2));
    if (gm_compile_run (c, 's', 'l', &error))
      same += check_same (c->record.graph, c->lower.plan, true);
    else
      ck_assert_msg (error->code == GM_ERROR_UNSUPPORTED, "%s", error->message);
  }
  ck_assert_int_gt (same, 100);
}
END_TEST

START_TEST (function_that_only_takes_views_needs_no_code)
{
  g_autoptr (GmCompile) c = begin (
      "graph (%x: f32[4, 3] requires_grad) -> (%0, %x) { \n %0 = permute %x dims=[1, 0] \n }");

  ck_assert (gm_compile_run (c, 's', 'l', NULL));
  ck_assert_ptr_null (c->lower.pair);
  ck_assert (check_same (c->record.graph, c->lower.plan, false));
}
END_TEST

START_TEST (plan_outlives_the_compilation)
{
  GmCompile *c = begin (net);
  ck_assert (gm_compile_run (c, 's', 'l', NULL));
  g_autoptr (GmPlan) p = gm_plan_ref (c->lower.plan);
  gm_compile_free (c);
  g_autoptr (GmGraph) g = graph_of (net);
  ck_assert (check_same (g, p, false));
}
END_TEST

START_TEST (without_gradients_nothing_is_joined)
{
  g_autoptr (GmCompile) c = begin (net);

  c->ask.differentiate = false;
  ck_assert (gm_compile_run (c, 's', 'l', NULL));
  ck_assert_ptr_null (c->partition.backward);
}
END_TEST

START_TEST (an_error_ends_it_and_names_the_line)
{
  g_autoptr (GmCompile) c =
      begin ("graph (%x: f32[1, 3], %y: f32[4, 3]) -> () { \n %0 = expand %x sizes=[4, 3] \n"
             " %1 = copy_ %0 %y # net.py:9\n }");
  g_autoptr (GError) error = NULL;

  ck_assert (!gm_compile_run (c, 's', 'l', &error));
  ck_assert (g_error_matches (error, GM_ERROR, GM_ERROR_UNSUPPORTED));
  ck_assert_ptr_nonnull (strstr (error->message, "net.py:9"));
  ck_assert_ptr_null (c->lower.plan);
}
END_TEST

/* -- A front end ------------------------------------------------------------------------------- */

static GString *trail;

static bool
fake_decode (GmCompile *c, GError **error)
{
  (void) c, (void) error;
  g_string_append_c (trail, 'd');
  return true;
}

static bool
fake_record (GmCompile *c, GError **error)
{
  (void) error;
  g_string_append_c (trail, 'r');
  if (c->front) { /* the test demands that this cannot be traced */
    c->stopped = true;
    c->why = c->front;
  } else {
    gm_compile_set_graph (c, graph_of (net));
  }
  return true;
}

static bool
fake_assemble (GmCompile *c, GError **error)
{
  (void) error;
  ck_assert_ptr_nonnull (c->lower.plan);
  g_string_append_c (trail, 'a');
  return true;
}

static char *
fake_text (const GmCompile *c, char letter)
{
  (void) c;
  return g_strdup_printf ("front end %c\n", letter);
}

START_TEST (front_end_stages_run_at_both_ends)
{
  g_autoptr (GmCompile) c = gm_compile_new ();

  trail = g_string_new (NULL);
  gm_compile_set_frontend ((const GmStageFn[]){ fake_decode, fake_record, fake_assemble },
                           fake_text);
  c->ask.backend = gm_backend_get ("eager", NULL);
  ck_assert (gm_compile_run (c, 'd', 'a', NULL));
  ck_assert_str_eq (trail->str, "dra");
  g_autofree char *text = gm_compile_text (c, 'd');
  ck_assert_str_eq (text, "front end d\n");
  g_string_free (trail, TRUE);
}
END_TEST

START_TEST (a_break_stops_the_loop_without_an_error)
{
  static char why[] = "call to the C function f";
  g_autoptr (GmCompile) c = gm_compile_new ();

  trail = g_string_new (NULL);
  gm_compile_set_frontend ((const GmStageFn[]){ fake_decode, fake_record, fake_assemble }, NULL);
  c->front = why;
  ck_assert (gm_compile_run (c, 'd', 'a', NULL));
  ck_assert (c->stopped);
  ck_assert_str_eq (c->why, why);
  ck_assert_str_eq (trail->str, "dr");
  ck_assert_ptr_null (c->lower.plan);
  g_string_free (trail, TRUE);
}
END_TEST

START_TEST (debug_letters_dump_those_stages)
{
  setenv ("GM_DEBUG", "jp", 1); /* read once: works in a process of its own, as Check gives it */
  if (!gm_debug_letter ('j'))
    return;
  g_autoptr (GmCompile) c = begin (net);
  char name[] = "/tmp/gramme-test-XXXXXX", text[8192] = "";
  int fd = mkstemp (name), old = dup (2);

  ck_assert_int_ge (fd, 0);
  fflush (stderr);
  dup2 (fd, 2);
  bool ok = gm_compile_run (c, 's', 'p', NULL);
  fflush (stderr);
  dup2 (old, 2);
  ssize_t n = pread (fd, text, sizeof text - 1, 0);
  close (fd);
  close (old);
  unlink (name);
  ck_assert (ok && n > 0);
  ck_assert_ptr_nonnull (strstr (text, "# j: join"));
  ck_assert_ptr_nonnull (strstr (text, "# p: partition"));
  ck_assert_ptr_nonnull (strstr (text, "backward ("));
  ck_assert_ptr_null (strstr (text, "# f:"));
}
END_TEST

int
main (void)
{
  Suite *s = suite_create ("compile");
  TCase *t = tcase_create ("all");
  SRunner *sr = srunner_create (s);
  int failures;

  tcase_set_timeout (t, 60);
  tcase_add_test (t, graph_becomes_a_plan);
  tcase_add_test (t, every_stage_shows_text_that_parses_to_the_same_text);
  tcase_add_test (t, random_programs_on_the_back_end);
  tcase_add_test (t, function_that_only_takes_views_needs_no_code);
  tcase_add_test (t, plan_outlives_the_compilation);
  tcase_add_test (t, without_gradients_nothing_is_joined);
  tcase_add_test (t, an_error_ends_it_and_names_the_line);
  tcase_add_test (t, front_end_stages_run_at_both_ends);
  tcase_add_test (t, a_break_stops_the_loop_without_an_error);
  suite_add_tcase (s, t);
  t = tcase_create ("dumps");
  tcase_add_test (t, debug_letters_dump_those_stages);
  suite_add_tcase (s, t);
  srunner_run_all (sr, CK_NORMAL);
  failures = srunner_ntests_failed (sr);
  srunner_free (sr);
  return failures ? 1 : 0;
}
