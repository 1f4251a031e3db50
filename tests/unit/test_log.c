/* SPDX-License-Identifier: Apache-2.0
 * test_log.c -- channels, prefixes, development switches.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/log.h"

/* Returns the text that `write` sends to stderr. */
static char *
captured (void (*write) (void))
{
  fflush (stderr);
  int saved = dup (2);
  FILE *f = tmpfile ();
  dup2 (fileno (f), 2);
  write ();
  fflush (stderr);
  dup2 (saved, 2);
  close (saved);
  rewind (f);
  char *text = g_malloc0 (4096);
  ck_assert_uint_lt (fread (text, 1, 4095, f), 4095);
  fclose (f);
  return text;
}

START_TEST (the_environment_opens_channels)
{
  ck_assert (gm_log_on (GM_LOG_GUARDS)); /* main set GRAMME_LOGS=all,-cache,guards */
  ck_assert (gm_log_on (GM_LOG_GRAPH_BREAKS));
  ck_assert (!gm_log_on (GM_LOG_CACHE));
}
END_TEST

START_TEST (a_list_is_applied_on_top)
{
  ck_assert (gm_log_set ("-all, +recompiles", NULL));
  ck_assert (gm_log_on (GM_LOG_RECOMPILES));
  ck_assert (!gm_log_on (GM_LOG_GUARDS));
}
END_TEST

START_TEST (an_unknown_name_is_an_error_that_lists_the_channels)
{
  g_autoptr (GError) error = NULL;
  ck_assert (!gm_log_set ("graphs", &error));
  ck_assert (g_error_matches (error, GM_ERROR, GM_ERROR_VALUE));
  ck_assert_ptr_nonnull (strstr (error->message, "\"graphs\""));
  ck_assert_ptr_nonnull (strstr (error->message, "graph_breaks"));
}
END_TEST

static void
two_lines (void)
{
  gm_log (GM_LOG_GUARDS, "x is %s\ny is %d", "f32", 3);
}
static void
off (void)
{
  gm_log (GM_LOG_CACHE, "not seen");
}
static void
warning (void)
{
  gm_log_warn ("careful: %d", 1);
}

START_TEST (each_line_bears_the_channel)
{
  g_autofree char *text = captured (two_lines);
  ck_assert_str_eq (text, "[gramme:guards] x is f32\n[gramme:guards] y is 3\n");
  g_autofree char *nothing = captured (off);
  ck_assert_str_eq (nothing, "");
  g_autofree char *warned = captured (warning);
  ck_assert_str_eq (warned, "[gramme] warning: careful: 1\n");
}
END_TEST

START_TEST (letters_and_stress_names_are_whole)
{
  ck_assert (gm_debug_letter ('r') && gm_debug_letter ('p') && !gm_debug_letter ('d')
             && !gm_debug_letter (0));
  ck_assert (gm_stress ("rollback") && gm_stress ("break") && !gm_stress ("roll")
             && !gm_stress ("arena") && !gm_stress (""));
}
END_TEST

int
main (void)
{
  setenv ("GRAMME_LOGS", "all,-cache,guards", 1);
  setenv ("GM_DEBUG", "rp", 1);
  setenv ("GM_STRESS", "rollback,break", 1);
  Suite *suite = suite_create ("log");
  TCase *c = tcase_create ("log");
  tcase_add_test (c, the_environment_opens_channels);
  tcase_add_test (c, a_list_is_applied_on_top);
  tcase_add_test (c, an_unknown_name_is_an_error_that_lists_the_channels);
  tcase_add_test (c, each_line_bears_the_channel);
  tcase_add_test (c, letters_and_stress_names_are_whole);
  suite_add_tcase (suite, c);
  SRunner *sr = srunner_create (suite);
  srunner_run_all (sr, CK_NORMAL);
  int failures = srunner_ntests_failed (sr);
  srunner_free (sr);
  return failures ? 1 : 0;
}
