/* SPDX-License-Identifier: Apache-2.0
 * test_trust.c -- the files that the walk and the ELF checks accept, and why they refuse others.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/installed.h"
#include "core/plugin/registry.h"
#include "core/plugin/trust.h"
#include "tests/plugin/hostile.h"

static GmRefusal
verdict (const char *file, char **text)
{
  GmRefused why = { 0 };
  g_autofree char *canonical = NULL;
  int fd = gm_trust_open (file, &canonical, NULL, &why);
  ck_assert_int_eq (fd >= 0, why.code == GM_REFUSAL_NONE);
  if (fd >= 0) {
    ck_assert (g_path_is_absolute (canonical));
    close (fd);
  }
  if (text)
    *text = g_strdup (why.text);
  GmRefusal code = why.code;
  gm_refused_clear (&why);
  return code;
}

static void
expect (const char *file, GmRefusal code, const char *mentions)
{
  g_autofree char *text = NULL;
  GmRefusal got = verdict (file, &text);
  ck_assert_msg (got == code, "%s: %s, expected %s (%s)", file, gm_refusal_names[got],
                 gm_refusal_names[code], text ? text : "");
  if (mentions)
    ck_assert_msg (strstr (text, mentions), "\"%s\" does not mention \"%s\"", text, mentions);
}

/* -- The walk ---------------------------------------------------------------------------------- */

START_TEST (a_good_plugin_passes)
{
  g_autofree char *file = hostile_build ("good", "GOOD", NULL);
  expect (file, GM_REFUSAL_NONE, NULL);
}
END_TEST

START_TEST (a_system_library_passes_without_vouching)
{
  g_unsetenv ("GRAMME_PLUGIN_TRUST");
  const char *library = "/lib/x86_64-linux-gnu/libm.so.6";
  if (g_file_test (library, G_FILE_TEST_EXISTS))
    expect (library, GM_REFUSAL_NONE, NULL);
}
END_TEST

START_TEST (a_file_that_everybody_may_write_is_refused_with_the_chmod)
{
  g_autofree char *file = hostile_build ("mode", "GOOD", NULL);
  ck_assert_int_eq (g_chmod (file, 0777), 0);
  expect (file, GM_REFUSAL_MODE, "chmod go-w");
}
END_TEST

START_TEST (a_parent_that_everybody_may_write_is_refused_even_if_sticky)
{
  g_autofree char *file = hostile_build ("open/closed", "GOOD", NULL);
  g_autofree char *open_folder = g_build_filename (hostile_root, "open", NULL);
  ck_assert_int_eq (g_chmod (open_folder, 01777), 0);
  /* The message must not suggest chmod of /tmp. */
  expect (file, GM_REFUSAL_PARENT, "move the file out of");
  ck_assert_int_eq (g_chmod (open_folder, 0777), 0);
  expect (file, GM_REFUSAL_PARENT, "chmod go-w");
}
END_TEST

START_TEST (without_vouching_the_walk_goes_to_the_root)
{
  g_autofree char *file = hostile_build ("good", "GOOD", NULL);
  g_autofree char *parent = g_path_get_dirname (hostile_root);
  struct stat st;
  g_unsetenv ("GRAMME_PLUGIN_TRUST");
  if (stat (parent, &st) == 0 && (st.st_mode & S_IWOTH))
    expect (file, GM_REFUSAL_PARENT, parent);
}
END_TEST

START_TEST (vouching_counts_for_that_folder_alone)
{
  g_autofree char *file = hostile_build ("one", "GOOD", NULL);
  g_autofree char *open_folder = g_build_filename (hostile_root, "one", NULL);
  g_autofree char *other =
      g_build_filename (hostile_root, "on", NULL); /* a prefix of the name, but not a parent */
  ck_assert_int_eq (g_mkdir (other, 0755), 0);
  ck_assert_int_eq (g_chmod (open_folder, 0777), 0);
  g_setenv ("GRAMME_PLUGIN_TRUST", other, TRUE);
  expect (file, GM_REFUSAL_PARENT, open_folder);
  g_setenv ("GRAMME_PLUGIN_TRUST", "relative", TRUE);
  expect (file, GM_REFUSAL_PARENT, NULL);
}
END_TEST

START_TEST (another_users_file_or_folder_is_refused)
{
  if (geteuid () != 0) {
    g_printerr ("SKIP another_users_file_or_folder_is_refused: needs root to give a file away\n");
    return;
  }
  g_autofree char *file = hostile_build ("own", "GOOD", NULL), *folder = g_path_get_dirname (file);
  ck_assert_int_eq (chown (file, 12345, 12345), 0);
  expect (file, GM_REFUSAL_OWNER, "12345");
  ck_assert_int_eq (chown (file, 0, 0), 0);
  ck_assert_int_eq (chown (folder, 12345, 12345), 0);
  expect (file, GM_REFUSAL_PARENT, "12345");
}
END_TEST

START_TEST (what_is_no_regular_file_is_refused_and_nobody_waits)
{
  g_autofree char *fifo = g_build_filename (hostile_root, "libgramme-fifo.so", NULL);
  g_autofree char *dir = g_build_filename (hostile_root, "libgramme-dir.so", NULL);
  g_autofree char *dangling = g_build_filename (hostile_root, "libgramme-link.so", NULL);
  ck_assert_int_eq (mkfifo (fifo, 0700), 0);
  ck_assert_int_eq (g_mkdir (dir, 0755), 0);
  ck_assert_int_eq (symlink ("nowhere", dangling), 0);
  expect (fifo, GM_REFUSAL_NOT_REGULAR, NULL);
  expect (dir, GM_REFUSAL_NOT_REGULAR, NULL);
  expect (dangling, GM_REFUSAL_OPEN, NULL);
  expect ("/does/not/exist.so", GM_REFUSAL_OPEN, NULL);
}
END_TEST

START_TEST (a_link_is_judged_by_its_target)
{
  g_autofree char *file = hostile_build ("open", "GOOD", NULL), *folder = g_path_get_dirname (file);
  g_autofree char *link = g_build_filename (hostile_root, "libgramme-link.so", NULL);
  ck_assert_int_eq (symlink (file, link), 0);
  expect (link, GM_REFUSAL_NONE, NULL);
  ck_assert_int_eq (g_chmod (folder, 0777), 0);
  expect (link, GM_REFUSAL_PARENT, folder);
}
END_TEST

/* GPH-8: with raised privileges only the install folder is used, whatever the environment says. */
START_TEST (a_privileged_process_looks_into_the_install_folder_alone)
{
  g_autofree char *file = hostile_build ("good", "GOOD", NULL);
  hostile_search (file);
  g_setenv ("GM_SECURE", "1", TRUE); /* as AT_SECURE does */
  expect (file, GM_REFUSAL_SECURE, "install folder");
  g_auto (GStrv) folders = gm_registry_folders ();
  ck_assert_uint_eq (g_strv_length (folders), 1);
  g_autofree char *installed = gm_installed_path (GM_WAY_TO_PLUGINS);
  ck_assert_str_eq (folders[0], installed);
  ck_assert_ptr_null (gm_quarantine_path ());
  g_unsetenv ("GM_SECURE");
  expect (file, GM_REFUSAL_NONE, NULL);
}
END_TEST

/* GPH-8: the order of folders; neither the current one nor a relative one is searched. */
START_TEST (folders_are_searched_in_their_order_and_the_current_one_is_not)
{
  g_autofree char *file = hostile_build ("here", "GOOD", NULL), *dir = g_path_get_dirname (file),
                  *before = g_get_current_dir ();
  g_setenv ("GRAMME_PLUGIN_PATH", "/one:here:.::/two", TRUE);
  ck_assert_int_eq (g_chdir (dir), 0);
  g_auto (GStrv) folders = gm_registry_folders ();
  ck_assert_uint_eq (g_strv_length (folders), 4);
  ck_assert_str_eq (folders[0], "/one");
  ck_assert_str_eq (folders[1], "/two");
  ck_assert (g_str_has_suffix (folders[2], "/gramme/plugins-1"));
  g_autofree char *installed = gm_installed_path (GM_WAY_TO_PLUGINS);
  ck_assert_str_eq (folders[3], installed);
  g_autoptr (GPtrArray) plugins = gm_registry_scan ();
  g_autoptr (GError) error = NULL;
  ck_assert_ptr_null (gm_registry_find (plugins, "./libgramme-hostile.so", &error));
  ck_assert_ptr_nonnull (strstr (error->message, "relative path"));
  /* An absolute path precedes all. */
  ck_assert_ptr_nonnull (gm_registry_find (plugins, file, NULL));
  ck_assert_int_eq (g_chdir (before), 0);
}
END_TEST

/* -- ELF --------------------------------------------------------------------------------------- */

/* GPH-8. */
START_TEST (flags_of_the_linker_that_endanger_the_process)
{
  g_autofree char *stack = hostile_build ("stack", "GOOD", "-Wl,-z,execstack");
  expect (stack, GM_REFUSAL_STACK, "noexecstack");
  g_autofree char *relative = hostile_build ("relative", "GOOD", "-Wl,-rpath,lib");
  expect (relative, GM_REFUSAL_RUNPATH, "\"lib\"");
  g_autofree char *empty = hostile_build ("empty", "GOOD", "-Wl,-rpath,/usr/lib::/lib");
  expect (empty, GM_REFUSAL_RUNPATH, NULL);
  g_autofree char *origin = hostile_build ("origin", "GOOD", "-Wl,-rpath,\\$ORIGIN/lib:/opt/lib");
  expect (origin, GM_REFUSAL_NONE, NULL);
  g_autofree char *text = hostile_build ("text", "GOOD", "-fno-pic -mcmodel=large -Wl,-z,notext");
  expect (text, GM_REFUSAL_TEXTREL, "-fPIC");
}
END_TEST

START_TEST (headers_of_other_machines_and_kinds)
{
  static const struct {
    gsize offset;
    char byte;
    GmRefusal code;
  } rows[] = {
    { 0, 'X', GM_REFUSAL_NOT_ELF },  { 4, 1, GM_REFUSAL_CLASS },
    { 5, 2, GM_REFUSAL_CLASS },      { 16, 2, GM_REFUSAL_TYPE },
    { 18, 8, GM_REFUSAL_MACHINE },   { 56, 0, GM_REFUSAL_TRUNCATED },
    { 39, 1, GM_REFUSAL_TRUNCATED }, { 54, 1, GM_REFUSAL_TRUNCATED },
  };
  g_autofree char *good = hostile_build ("good", "GOOD", NULL), *bytes = NULL;
  g_autofree char *file = g_build_filename (hostile_root, "patched.so", NULL);
  gsize n;
  ck_assert (g_file_get_contents (good, &bytes, &n, NULL));
  for (unsigned i = 0; i < G_N_ELEMENTS (rows); i++) {
    char before = bytes[rows[i].offset];
    bytes[rows[i].offset] = rows[i].byte;
    hostile_write (file, bytes, n);
    expect (file, rows[i].code, NULL);
    bytes[rows[i].offset] = before;
  }
}
END_TEST

START_TEST (a_library_without_a_word_about_its_stack)
{
  g_autofree char *good = hostile_build ("good", "GOOD", NULL), *bytes = NULL;
  g_autofree char *file = g_build_filename (hostile_root, "patched.so", NULL);
  gsize n;
  ck_assert (g_file_get_contents (good, &bytes, &n, NULL));
  static const unsigned char stack_type[] = { 0x51, 0xe5, 0x74, 0x64 }; /* PT_GNU_STACK */
  for (gsize at = 64; at < 64 + 16 * 56; at += 56)
    if (memcmp (bytes + at, stack_type, 4) == 0)
      memset (bytes + at, 0, 4); /* PT_NULL */
  hostile_write (file, bytes, n);
  expect (file, GM_REFUSAL_STACK, "no PT_GNU_STACK");
}
END_TEST

/* GPH-9. */
START_TEST (every_truncation_is_refused)
{
  g_autofree char *good = hostile_build ("good", "GOOD", "-s"), *bytes = NULL;
  g_autofree char *file = g_build_filename (hostile_root, "cut.so", NULL);
  gsize n;
  ck_assert (g_file_get_contents (good, &bytes, &n, NULL));
  hostile_write (file, bytes, n);
  expect (file, GM_REFUSAL_NONE, NULL);
  for (gsize cut = n; cut-- > 0; cut -= cut > n - 200 || cut < 200 ? 0 : MIN (cut, (gsize) 61)) {
    ck_assert_int_eq (truncate (file, (off_t) cut), 0);
    GmRefusal code = verdict (file, NULL);
    ck_assert_msg (code == GM_REFUSAL_TRUNCATED || code == GM_REFUSAL_NOT_ELF,
                   "cut to %zu of %zu bytes: %s", cut, n, gm_refusal_names[code]);
  }
}
END_TEST

START_TEST (no_flipped_byte_leads_out_of_the_file)
{
  g_autofree char *good = hostile_build ("good", "GOOD", "-s"), *bytes = NULL;
  g_autofree char *file = g_build_filename (hostile_root, "flipped.so", NULL);
  gsize n;
  ck_assert (g_file_get_contents (good, &bytes, &n, NULL));
  hostile_write (file, bytes, n);
  int fd = open (file, O_RDWR);
  ck_assert_int_ge (fd, 0);
  unsigned passed = 0, refused = 0;
  for (gsize i = 0; i < MIN (n, (gsize) 4096); i++)
    for (int k = 0; k < 3; k++) {
      char other = k == 0 ? (char) 0xff : k == 1 ? 0x7f : (char) (bytes[i] ^ (1 << (i % 8)));
      ck_assert_int_eq (pwrite (fd, &other, 1, (off_t) i), 1);
      GmRefused why = { 0 };
      g_autofree char *text = NULL;
      bool good_headers = gm_elf_check (fd, &why);
      if (good_headers)
        text = gm_elf_read_manifest (fd, &why);
      ck_assert_int_eq (text == NULL, why.code != GM_REFUSAL_NONE);
      *(text ? &passed : &refused) += 1;
      gm_refused_clear (&why);
      ck_assert_int_eq (pwrite (fd, &bytes[i], 1, (off_t) i), 1);
    }
  close (fd);
  ck_assert_uint_gt (passed, 0);
  ck_assert_uint_gt (refused, 0);
}
END_TEST

int
main (void)
{
  Suite *s = suite_create ("trust");
  TCase *walk = tcase_create ("walk"), *elf = tcase_create ("elf");
  tcase_set_timeout (walk, 60);
  tcase_set_timeout (elf, 120);
  tcase_add_checked_fixture (walk, hostile_setup, hostile_teardown);
  tcase_add_checked_fixture (elf, hostile_setup, hostile_teardown);
  tcase_add_test (walk, a_good_plugin_passes);
  tcase_add_test (walk, a_system_library_passes_without_vouching);
  tcase_add_test (walk, a_file_that_everybody_may_write_is_refused_with_the_chmod);
  tcase_add_test (walk, a_parent_that_everybody_may_write_is_refused_even_if_sticky);
  tcase_add_test (walk, without_vouching_the_walk_goes_to_the_root);
  tcase_add_test (walk, vouching_counts_for_that_folder_alone);
  tcase_add_test (walk, another_users_file_or_folder_is_refused);
  tcase_add_test (walk, what_is_no_regular_file_is_refused_and_nobody_waits);
  tcase_add_test (walk, a_link_is_judged_by_its_target);
  tcase_add_test (walk, a_privileged_process_looks_into_the_install_folder_alone);
  tcase_add_test (walk, folders_are_searched_in_their_order_and_the_current_one_is_not);
  tcase_add_test (elf, flags_of_the_linker_that_endanger_the_process);
  tcase_add_test (elf, headers_of_other_machines_and_kinds);
  tcase_add_test (elf, a_library_without_a_word_about_its_stack);
  tcase_add_test (elf, every_truncation_is_refused);
  tcase_add_test (elf, no_flipped_byte_leads_out_of_the_file);
  suite_add_tcase (s, walk);
  suite_add_tcase (s, elf);
  SRunner *r = srunner_create (s);
  srunner_run_all (r, CK_NORMAL);
  int failures = srunner_ntests_failed (r);
  srunner_free (r);
  return failures ? 1 : 0;
}
