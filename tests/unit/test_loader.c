/* SPDX-License-Identifier: Apache-2.0
 * test_loader.c -- hostile plugins are refused, each for its own reason; the listing shows that;
 * other plugins still work.
 */
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/run/backend.h"
#include "core/plugin/hygiene.h"
#include "core/plugin/loader.h"
#include "tests/plugin/hostile.h"

/* -- Refused by a scan, before anything is loaded ---------------------------------------------- */

typedef struct {
  const char *define, *flags;
  GmRefusal code;
  const char *mentions;
} Row;

static const Row listed[] = {
  { "NO_NOTE", NULL, GM_REFUSAL_NO_NOTE, "GRAMME_PLUGIN_DEFINE" },
  { "GARBAGE_NOTE", NULL, GM_REFUSAL_MANIFEST, "" },
  { "LONG_NOTE", NULL, GM_REFUSAL_MANIFEST, "4294967280" },
  { "BAD_NAME", NULL, GM_REFUSAL_MANIFEST, "name" },
  { "WRONG_MAJOR", NULL, GM_REFUSAL_ABI, "7.0" },
  { "NEEDS_NEWER", NULL, GM_REFUSAL_HOST_MINOR, "minor 3" },
  { "GOOD", "-Wl,-z,execstack", GM_REFUSAL_STACK, "noexecstack" },
};

static const GmPluginInfo *
only_in (const GPtrArray *plugins, const char *file)
{
  for (guint i = 0; i < plugins->len; i++) {
    const GmPluginInfo *info = plugins->pdata[i];
    if (strcmp (info->file, file) == 0)
      return info;
  }
  return NULL;
}

START_TEST (a_scan_refuses_and_says_why)
{
  const Row *row = &listed[_i];
  g_autofree char *file = hostile_build (row->define, row->define, row->flags);
  hostile_search (file);
  g_autoptr (GPtrArray) plugins = gm_registry_scan ();
  const GmPluginInfo *info = only_in (plugins, file);
  ck_assert_ptr_nonnull (info);
  ck_assert_msg (info->refused.code == row->code, "%s: %s", row->define,
                 gm_refusal_names[info->refused.code]);
  ck_assert_msg (strstr (info->refused.text, row->mentions), "\"%s\" does not mention \"%s\"",
                 info->refused.text, row->mentions);
  ck_assert_str_eq (info->name, "hostile");

  g_autoptr (GError) error = NULL;
  ck_assert_ptr_null (gm_backend_get ("hostile", &error));
  ck_assert (g_error_matches (error, GM_ERROR, GM_ERROR_NO_BACKEND));
  ck_assert_ptr_nonnull (strstr (error->message, info->refused.text));
}
END_TEST

/* -- Refused by loading ------------------------------------------------------------------------ */

static const Row loaded[] = {
  { "WRONG_SYMBOL", NULL, GM_REFUSAL_SYMBOL, "gramme_plugin_query_v0" },
  { "MISMATCH", NULL, GM_REFUSAL_MISMATCH, "differ" },
  { "NO_COMPILE", NULL, GM_REFUSAL_FUNCTIONS, "`compile`" },
  { "SHORT_TABLE", NULL, GM_REFUSAL_FUNCTIONS, "`close`" },
  { "SHORT_DESCRIPTOR", NULL, GM_REFUSAL_DESCRIPTOR, "8 bytes" },
  { "NULL_API", NULL, GM_REFUSAL_DESCRIPTOR, "NULL" },
  { "REFUSES", NULL, GM_REFUSAL_QUERY, "Tuesdays" },
  { "OPEN_FAILS", NULL, GM_REFUSAL_OPENED, "moon" },
};

START_TEST (a_load_refuses_and_the_next_listing_says_why)
{
  const Row *row = &loaded[_i];
  g_autofree char *file = hostile_build (row->define, row->define, row->flags);
  hostile_search (file);
  g_autoptr (GPtrArray) before = gm_registry_scan ();
  ck_assert_int_eq (only_in (before, file)->refused.code,
                    GM_REFUSAL_NONE); /* its headers and manifest are fine */

  g_autoptr (GError) error = NULL;
  GmBackend *b = gm_backend_get ("hostile", &error);
  ck_assert_ptr_null (b);
  ck_assert (g_error_matches (error, GM_ERROR, GM_ERROR_BACKEND));
  ck_assert_msg (strstr (error->message, row->mentions), "\"%s\" does not mention \"%s\"",
                 error->message, row->mentions);

  g_autoptr (GPtrArray) after = gm_registry_scan ();
  const GmPluginInfo *info = only_in (after, file);
  ck_assert_msg (info->refused.code == row->code, "%s: %s", row->define,
                 gm_refusal_names[info->refused.code]);
  g_clear_error (&error);
  ck_assert_ptr_null (gm_backend_get ("hostile", &error)); /* and it is not tried again */
  ck_assert (g_error_matches (error, GM_ERROR, GM_ERROR_NO_BACKEND));
}
END_TEST

START_TEST (a_library_whose_library_is_missing_is_refused)
{
  g_autofree char *needy = hostile_build ("needy", "GOOD", "-Wl,--no-as-needed -lm");
  g_autofree char *bytes = NULL;
  gsize n;
  ck_assert (g_file_get_contents (needy, &bytes, &n, NULL));
  for (gsize i = 0; i + 9 < n; i++)
    if (memcmp (bytes + i, "libm.so.6", 10) == 0)
      bytes[i + 3] = 'Z'; /* libZ.so.6 */
  hostile_write (needy, bytes, n);
  GmRefused why = { 0 };
  ck_assert_ptr_null (gm_loader_load (needy, &why));
  ck_assert_int_eq (why.code, GM_REFUSAL_LOAD);
  ck_assert_ptr_nonnull (strstr (why.text, "libZ.so.6"));
  gm_refused_clear (&why);
}
END_TEST

/* -- What loading may not change --------------------------------------------------------------- */

/* GPH-11 */
START_TEST (the_floating_point_mode_is_restored)
{
  g_autofree char *file = hostile_build ("ftz", "FLUSH_TO_ZERO", NULL);
  GmFpuControl before = gm_fpu_get ();
  for (int probed = 1; probed >= 0; probed--) { /* first in a process of its own, then here */
    GmRefused why = { 0 };
    g_setenv ("GM_PROGRAM", probed ? g_getenv ("GM_PROGRAM") : "/no/such/program", TRUE);
    ck_assert_ptr_null (gm_loader_load (file, &why));
    ck_assert_int_eq (why.code, GM_REFUSAL_CHANGED_FPU);
    ck_assert_ptr_nonnull (strstr (why.text, "when it was loaded"));
    ck_assert (gm_fpu_equal (before, gm_fpu_get ()));
    gm_refused_clear (&why);
    g_autofree char *state = gm_quarantine_path ();
    ck_assert (probed == (g_file_test (state, G_FILE_TEST_EXISTS) != 0));
    g_remove (state);
  }
  volatile double tiny = 1e-310, half = 0.5;
  ck_assert_double_ne (tiny * half, 0.0);
}
END_TEST

/* -- Versions ---------------------------------------------------------------------------------- */

/* GPH-2: functions that a shorter table lacks are NULL in the host's copy, and no byte behind it is
 * read. */
START_TEST (a_table_is_read_within_its_size)
{
  g_autofree char *file = hostile_build ("end", "TABLE_AT_END", NULL);
  GmRefused why = { 0 };
  const GmPlugin *p = gm_loader_load (file, &why);
  ck_assert_msg (p, "%s", why.text);
  ck_assert_uint_eq (p->api.struct_size, sizeof (GrammeBackendApi));
  ck_assert_ptr_null (p->api.get_extension);
  ck_assert (p->api.run != NULL);
}
END_TEST

/* GPH-3: a plugin is loaded if all that it needs exists, whichever headers it was built with. */
START_TEST (plugins_of_all_released_headers_and_of_later_ones_load)
{
  static const char *const headers[] = { "tests/plugin/released/0.0", "plugin-api" };
  for (unsigned i = 0; i < G_N_ELEMENTS (headers); i++) {
    g_autofree char *folder = g_strdup_printf ("released%u", i),
                    *file = hostile_build_with (headers[i], folder, "GOOD", NULL);
    GmRefused why = { 0 };
    const GmPlugin *p = gm_loader_load (file, &why);
    ck_assert_msg (p, "%s: %s", headers[i], why.text);
    ck_assert_int_eq (p->manifest->abi_minor, 0);
  }
  g_autofree char *later = hostile_build ("later", "NEWER_MINOR", NULL);
  GmRefused why = { 0 };
  const GmPlugin *p = gm_loader_load (later, &why);
  ck_assert_msg (p, "%s", why.text);
  ck_assert_int_eq (p->manifest->abi_minor, 9);
}
END_TEST

START_TEST (a_later_minor_of_the_table_reads_as_null)
{
  g_autofree char *file = hostile_build ("good", "GOOD", NULL);
  GmRefused why = { 0 };
  const GmPlugin *p = gm_loader_load (file, &why);
  ck_assert_ptr_nonnull (p);
  ck_assert_uint_eq (p->api.struct_size, sizeof (GrammeBackendApi));
  ck_assert_ptr_null (p->api.workspace); /* optional, and this plugin has none */
  ck_assert_ptr_null (p->api.get_extension);
}
END_TEST

/* -- Quarantine -------------------------------------------------------------------------------- */

static GmTried
known_of (const char *file)
{
  g_autoptr (GmPluginInfo) info = gm_registry_examine (file);
  return info->tried;
}

/* GPH-7: a bad file is remembered with its reason, by other processes, too; a file that has
 * changed, or that was forgotten, is tried again. */
START_TEST (what_came_of_trying_is_remembered_until_the_file_changes)
{
  g_autofree char *file = hostile_build ("again", "NO_COMPILE", NULL);
  GmRefused why = { 0 };
  ck_assert_int_eq (known_of (file), GM_TRIED_NOT);
  ck_assert_ptr_null (gm_loader_load (file, &why));
  gm_refused_clear (&why);
  ck_assert_int_eq (known_of (file), GM_TRIED_BAD);
  pid_t child = fork ();
  if (child == 0) { /* another process, which cannot try */
    g_setenv ("GM_PROGRAM", "/no/such/program", TRUE);
    gm_loader_load (file, &why);
    _exit (why.code == GM_REFUSAL_FUNCTIONS && strstr (why.text, "`compile`") ? 0 : 1);
  }
  int status = -1;
  ck_assert_int_eq (waitpid (child, &status, 0), child);
  ck_assert_int_eq (status, 0);
  g_autofree char *same = hostile_build ("again", "GOOD", NULL);
  ck_assert_int_eq (known_of (file), GM_TRIED_NOT);
  ck_assert_ptr_nonnull (gm_loader_load (same, &why));
  ck_assert_int_eq (known_of (file), GM_TRIED_GOOD);
  ck_assert (gm_quarantine_forget (file));
  ck_assert (!gm_quarantine_forget (file));
  ck_assert_int_eq (known_of (file), GM_TRIED_NOT);
}
END_TEST

/* A machine that was too busy once does not disable a plugin until its next build. */
START_TEST (a_plugin_that_took_too_long_is_tried_again_after_a_minute)
{
  g_autofree char *file = hostile_build ("slow", "SLOW_OPEN", NULL), *path = gm_quarantine_path ();
  pid_t child = fork ();
  if (child == 0) {
    GmRefused why = { 0 };
    g_setenv ("GM_PROBE_MS", "200", TRUE);
    gm_loader_load (file, &why);
    _exit (why.code == GM_REFUSAL_HUNG ? 0 : 1);
  }
  int status = -1;
  ck_assert_int_eq (waitpid (child, &status, 0), child);
  ck_assert_int_eq (status, 0);
  ck_assert_int_eq (known_of (file), GM_TRIED_BAD);
  g_autoptr (GKeyFile) f = g_key_file_new ();
  ck_assert (g_key_file_load_from_file (f, path, G_KEY_FILE_NONE, NULL));
  g_auto (GStrv) groups = g_key_file_get_groups (f, NULL);
  gint64 second = g_key_file_get_int64 (f, groups[0], "second", NULL);
  ck_assert_int_gt (second, 0);
  g_key_file_set_int64 (f, groups[0], "second", second - 120);
  ck_assert (g_key_file_save_to_file (f, path, NULL));
  ck_assert_int_eq (known_of (file), GM_TRIED_NOT);
}
END_TEST

/* GPH-9: a file that others may write, or that is no key file, counts as missing. */
START_TEST (a_damaged_or_foreign_memory_of_trying_is_ignored)
{
  g_autofree char *file = hostile_build ("memory", "GOOD", NULL), *path = gm_quarantine_path (),
                  *folder = g_path_get_dirname (path);
  static const char *const texts[] = { "", "\001\002", "[plugin x]\nkey", "[[[\n=\n" };
  ck_assert_int_eq (g_mkdir_with_parents (folder, 0700), 0);
  for (unsigned i = 0; i < G_N_ELEMENTS (texts); i++) {
    hostile_write (path, texts[i], strlen (texts[i]));
    ck_assert_int_eq (known_of (file), GM_TRIED_NOT);
  }
  GmRefused why = { 0 };
  pid_t child = fork (); /* so that this process remembers nothing itself */
  if (child == 0)
    _exit (gm_loader_load (file, &why) ? 0 : 1);
  int status = -1;
  ck_assert_int_eq (waitpid (child, &status, 0), child);
  ck_assert_int_eq (status, 0);
  ck_assert_int_eq (known_of (file), GM_TRIED_GOOD);
  ck_assert_int_eq (g_chmod (path, 0666), 0);
  ck_assert_int_eq (known_of (file), GM_TRIED_NOT);
}
END_TEST

/* GPH-5: without a program to try it in, a plugin that is requested by name is loaded nevertheless,
 * and the process is compared here; a listing loads nothing. */
START_TEST (without_the_program_a_plugin_is_loaded_untried)
{
  g_autofree char *file = hostile_build ("untried", "GOOD", NULL);
  g_setenv ("GM_PROGRAM", "/no/such/program", TRUE);
  GmRefused why = { 0 };
  ck_assert_ptr_nonnull (gm_loader_load (file, &why));
  ck_assert_int_eq (known_of (file), GM_TRIED_NOT);
}
END_TEST

/* -- The registry ------------------------------------------------------------------------------ */

START_TEST (the_first_file_of_an_id_wins)
{
  g_autofree char *first = hostile_build ("a", "GOOD", NULL),
                  *second = hostile_build ("b", "GOOD", NULL);
  g_autofree char *a = g_path_get_dirname (first), *b = g_path_get_dirname (second);
  g_autofree char *path = g_strdup_printf ("%s:relative::%s:%s", a, b, a);
  g_setenv ("GRAMME_PLUGIN_PATH", path, TRUE);
  g_autoptr (GPtrArray) plugins = gm_registry_scan ();
  ck_assert_int_eq (only_in (plugins, first)->refused.code, GM_REFUSAL_NONE);
  ck_assert_int_eq (only_in (plugins, second)->refused.code, GM_REFUSAL_SHADOWED);
  ck_assert_ptr_nonnull (strstr (only_in (plugins, second)->refused.text, first));
  guint seen = 0;
  for (guint i = 0; i < plugins->len; i++)
    seen += strcmp (((GmPluginInfo *) plugins->pdata[i])->file, first) == 0;
  ck_assert_uint_eq (seen, 1); /* though its folder is named twice */
}
END_TEST

START_TEST (two_ids_with_one_name_are_chosen_by_id_only)
{
  g_autofree char *first = hostile_build ("a", "GOOD", NULL),
                  *second = hostile_build ("b", "GOOD", NULL);
  g_autofree char *bytes = NULL;
  gsize n;
  ck_assert (g_file_get_contents (second, &bytes, &n, NULL));
  for (gsize i = 0; i + 19 < n; i++)
    if (memcmp (bytes + i, "org.example.hostile", 19) == 0)
      memcpy (bytes + i, "org.example.another", 19);
  hostile_write (second, bytes, n);
  g_autofree char *a = g_path_get_dirname (first), *b = g_path_get_dirname (second),
                  *path = g_strdup_printf ("%s:%s", a, b);
  g_setenv ("GRAMME_PLUGIN_PATH", path, TRUE);
  g_autoptr (GPtrArray) plugins = gm_registry_scan ();
  g_autoptr (GError) error = NULL;
  ck_assert_ptr_null (gm_registry_find (plugins, "hostile", &error));
  ck_assert_ptr_nonnull (strstr (error->message, "org.example.another"));
  const GmPluginInfo *info = gm_registry_find (plugins, "org.example.another", NULL);
  ck_assert_ptr_nonnull (info);
  ck_assert_str_eq (info->file, second);
  ck_assert_ptr_nonnull (gm_backend_get ("org.example.another", NULL));
}
END_TEST

START_TEST (other_files_and_folders_are_not_looked_at)
{
  g_autofree char *file = hostile_build ("a", "GOOD", NULL), *folder = g_path_get_dirname (file);
  static const char *const names[] = { "libgramme-.so", "libother-x.so", "libgramme-x.so.1",
                                       "libgramme-x.la", NULL };
  for (const char *const *name = names; *name; name++) {
    g_autofree char *path = g_build_filename (folder, *name, NULL);
    hostile_write (path, "text", 4);
  }
  hostile_search (file);
  g_autoptr (GPtrArray) plugins = gm_registry_scan ();
  for (guint i = 0; i < plugins->len; i++) {
    const GmPluginInfo *info = plugins->pdata[i];
    ck_assert (!g_str_has_prefix (info->file, folder) || strcmp (info->file, file) == 0);
  }
}
END_TEST

START_TEST (a_misspelt_name_lists_near_and_installed_ones)
{
  g_autofree char *file = hostile_build ("a", "GOOD", NULL);
  hostile_search (file);
  g_autoptr (GError) error = NULL;
  ck_assert_ptr_null (gm_backend_get ("hostiel", &error));
  ck_assert (g_error_matches (error, GM_ERROR, GM_ERROR_NO_BACKEND));
  ck_assert_ptr_nonnull (strstr (error->message, "did you mean \"hostile\""));
  ck_assert_ptr_nonnull (strstr (error->message, "installed: "));
  ck_assert_ptr_nonnull (strstr (error->message, hostile_root));
}
END_TEST

START_TEST (refused_neighbours_do_not_keep_a_good_one_from_loading)
{
  GString *path = g_string_new (NULL);
  for (unsigned i = 0; i < G_N_ELEMENTS (listed); i++) {
    g_autofree char *folder = g_strdup_printf ("%u", i),
                    *file = hostile_build (folder, listed[i].define, listed[i].flags);
    g_autofree char *dir = g_path_get_dirname (file);
    g_string_append_printf (path, "%s:", dir);
  }
  g_autofree char *good = hostile_build ("good", "GOOD", NULL), *dir = g_path_get_dirname (good);
  g_string_append (path, dir);
  g_setenv ("GRAMME_PLUGIN_PATH", path->str, TRUE);
  g_string_free (path, TRUE);
  g_autoptr (GError) error = NULL;
  GmBackend *b = gm_backend_get ("hostile", &error);
  ck_assert_msg (b, "%s", error ? error->message : "");
  ck_assert_ptr_eq (b, gm_backend_get ("org.example.hostile", NULL)); /* loaded once */
}
END_TEST

/* True if a plugin is refused for a timer of the program that is `seconds` + `microseconds` from
 * its end, after a wait, if the timer is then stopped. */
static bool
timer_refused (long seconds, long microseconds, bool stop)
{
  GmRefused why = { 0 };
  struct itimerval none = { 0 }, timer = { .it_value = { seconds, microseconds } };
  setitimer (ITIMER_REAL, &timer, NULL);
  g_autoptr (GmSnapshot) before = gm_snapshot_new (false);
  g_usleep (20000);
  if (stop)
    setitimer (ITIMER_REAL, &none, NULL);
  bool same = gm_snapshot_check (before, "meanwhile", &why);
  ck_assert_msg (same || strstr (why.text, "an alarm is gone"), "%s", why.text);
  setitimer (ITIMER_REAL, &none, NULL);
  gm_refused_clear (&why);
  return !same;
}

START_TEST (an_alarm_that_goes_off_meanwhile_is_no_plugins_doing)
{
  signal (SIGALRM, SIG_IGN);
  ck_assert (!timer_refused (0, 1, false));
  ck_assert (!timer_refused (0, 15000, false));
  ck_assert (!timer_refused (100, 0, false));
  ck_assert (timer_refused (100, 0, true));
  signal (SIGALRM, SIG_DFL);
}
END_TEST

int
main (void)
{
  Suite *s = suite_create ("loader");
  TCase *t = tcase_create ("loader");
  tcase_set_timeout (t, 120);
  tcase_add_checked_fixture (t, hostile_setup, hostile_teardown);
  tcase_add_loop_test (t, a_scan_refuses_and_says_why, 0, G_N_ELEMENTS (listed));
  tcase_add_loop_test (t, a_load_refuses_and_the_next_listing_says_why, 0, G_N_ELEMENTS (loaded));
  tcase_add_test (t, a_library_whose_library_is_missing_is_refused);
  tcase_add_test (t, the_floating_point_mode_is_restored);
  tcase_add_test (t, an_alarm_that_goes_off_meanwhile_is_no_plugins_doing);
  tcase_add_test (t, a_table_is_read_within_its_size);
  tcase_add_test (t, plugins_of_all_released_headers_and_of_later_ones_load);
  tcase_add_test (t, a_later_minor_of_the_table_reads_as_null);
  tcase_add_test (t, what_came_of_trying_is_remembered_until_the_file_changes);
  tcase_add_test (t, a_plugin_that_took_too_long_is_tried_again_after_a_minute);
  tcase_add_test (t, a_damaged_or_foreign_memory_of_trying_is_ignored);
  tcase_add_test (t, without_the_program_a_plugin_is_loaded_untried);
  tcase_add_test (t, the_first_file_of_an_id_wins);
  tcase_add_test (t, two_ids_with_one_name_are_chosen_by_id_only);
  tcase_add_test (t, other_files_and_folders_are_not_looked_at);
  tcase_add_test (t, a_misspelt_name_lists_near_and_installed_ones);
  tcase_add_test (t, refused_neighbours_do_not_keep_a_good_one_from_loading);
  suite_add_tcase (s, t);
  SRunner *r = srunner_create (s);
  srunner_run_all (r, CK_NORMAL);
  int failures = srunner_ntests_failed (r);
  srunner_free (r);
  return failures ? 1 : 0;
}
