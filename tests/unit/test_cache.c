/* SPDX-License-Identifier: Apache-2.0 */
/* The cache on disk: an entry is found only if this user stored it, under this key, and it is
 * whole. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <glib.h>
#include <glib/gstdio.h>

#include "core/cache/cache.h"

static char *folder; /* a new one for each test */

static void
set_up (void)
{
  folder = g_strdup ("/tmp/gramme-test-cache-XXXXXX");
  ck_assert_ptr_nonnull (g_mkdtemp (folder));
  char *inner = g_build_filename (folder, "cache", NULL);
  g_free (folder);
  folder = inner;
  g_setenv ("GRAMME_CACHE_DIR", folder, TRUE);
  g_unsetenv ("GRAMME_CACHE");
  g_unsetenv ("GRAMME_CACHE_MB");
}

static void
remove_all (const char *path)
{
  GDir *dir = g_dir_open (path, 0, NULL);
  for (const char *name = dir ? g_dir_read_name (dir) : NULL; name; name = g_dir_read_name (dir)) {
    g_autofree char *file = g_build_filename (path, name, NULL);
    if (unlink (file) != 0)
      remove_all (file);
  }
  if (dir)
    g_dir_close (dir);
  rmdir (path);
}

static void
tear_down (void)
{
  g_autofree char *parent = g_path_get_dirname (folder);
  remove_all (parent);
  g_free (folder);
}

static GmCacheKey
key_of (uint32_t i)
{
  GmCacheKey key;
  for (int k = 0; k < GM_CACHE_KEY_BYTES; k++)
    key.bytes[k] = (uint8_t) (i * 2654435761u >> (k % 4 * 8)) ^ (uint8_t) (k * 37);
  memcpy (key.bytes, &i, sizeof i);
  return key;
}

static char *
path_of (const GmCacheKey *key)
{
  char name[65];
  for (int i = 0; i < 32; i++)
    snprintf (name + 2 * i, 3, "%02x", key->bytes[i]);
  return g_build_filename (folder, name, NULL);
}

static bool
store (uint32_t i, const void *data, size_t n)
{
  GmCacheKey key = key_of (i);
  g_autofree char *why = NULL;
  return gm_cache_store (&key, "test", data, n, &why);
}

/* Returns "" for an absent entry, NULL for one that is found; else why it is refused.  The caller
 * frees. */
static char *
refusal (uint32_t i, const void *data, size_t n)
{
  GmCacheKey key = key_of (i);
  GmCacheEntry entry;
  char *why = NULL;
  GmCacheResult r = gm_cache_find (&key, &entry, &why);
  if (r == GM_CACHE_FOUND) {
    ck_assert_uint_eq (entry.bytes, n);
    ck_assert_uint_eq ((uintptr_t) entry.data % 64, 0);
    ck_assert_int_eq (memcmp (entry.data, data, n), 0);
    gm_cache_entry_clear (&entry);
  } else
    ck_assert_ptr_null (entry.data);
  return r == GM_CACHE_FOUND ? NULL : why ? why : g_strdup ("");
}

static bool
is_found (uint32_t i, const void *data, size_t n)
{
  g_autofree char *why = refusal (i, data, n);
  return !why;
}

static void
assert_refused (uint32_t i, const char *mentions)
{
  g_autofree char *why = refusal (i, "", 0);
  ck_assert_msg (why && strstr (why, mentions), "%s, not %s", why ? why : "found", mentions);
}

START_TEST (what_was_stored_is_found_and_nothing_else)
{
  static char large[300000];
  memset (large, 7, sizeof large);
  ck_assert (!is_found (1, "", 0));
  ck_assert (store (1, "one", 3) && store (2, "", 0) && store (3, large, sizeof large));
  ck_assert (is_found (1, "one", 3) && is_found (2, "", 0) && is_found (3, large, sizeof large));
  ck_assert (!is_found (4, "", 0));
  ck_assert (store (1, "another", 7) && is_found (1, "another", 7));
  struct stat st;
  ck_assert (stat (folder, &st) == 0 && (st.st_mode & 07777) == 0700);
  g_autofree char *secret = g_build_filename (folder, "secret", NULL);
  ck_assert (stat (secret, &st) == 0 && (st.st_mode & 07777) == 0600 && st.st_size == 32);
}
END_TEST

/* GPH-18. */
START_TEST (every_flipped_bit_and_every_length_is_refused)
{
  char data[64];
  memset (data, 0x5a, sizeof data);
  GmCacheKey key = key_of (9);
  g_autofree char *path = path_of (&key), *whole = NULL;
  gsize n;
  ck_assert (store (9, data, sizeof data));
  ck_assert (g_file_get_contents (path, &whole, &n, NULL) && n == 192 + sizeof data);
  for (gsize bit = 0; bit < n * 8; bit++) {
    whole[bit / 8] ^= (char) (1 << bit % 8);
    int fd = open (path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ck_assert (write (fd, whole, n) == (ssize_t) n && close (fd) == 0);
    ck_assert_msg (!is_found (9, data, sizeof data), "bit %zu", bit);
    ck_assert (access (path, F_OK) != 0); /* gone, so that it is made again */
    whole[bit / 8] ^= (char) (1 << bit % 8);
  }
  for (gsize length = 0; length <= n + 3; length++) {
    char room[300] = { 0 };
    memcpy (room, whole, n);
    int fd = open (path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ck_assert (write (fd, room, length) == (ssize_t) length && close (fd) == 0);
    ck_assert_msg (is_found (9, data, sizeof data) == (length == n), "%zu bytes", length);
  }
}
END_TEST

/* GPH-18. */
START_TEST (what_is_not_a_plain_file_of_the_user_is_refused)
{
  GmCacheKey key = key_of (5), other = key_of (6);
  g_autofree char *path = path_of (&key), *second = path_of (&other);
  ck_assert (store (5, "five", 4) && rename (path, second) == 0);
  assert_refused (6, "under another name");

  ck_assert (store (5, "five", 4) && rename (path, second) == 0 && symlink (second, path) == 0);
  assert_refused (5, "link");
  unlink (second);

  ck_assert (store (5, "five", 4) && link (path, second) == 0);
  assert_refused (5, "more than one name");
  unlink (second);

  ck_assert (mkfifo (path, 0600) == 0);
  assert_refused (5, "no regular file");

  ck_assert (mkdir (path, 0700) == 0);
  assert_refused (5, "no regular file");
  ck_assert (!store (5, "five", 4)); /* has no effect */
  rmdir (path);

  ck_assert (store (5, "five", 4) && chmod (path, 0620) == 0);
  assert_refused (5, "written by others");

  if (geteuid () == 0) {
    ck_assert (store (5, "five", 4) && chown (path, 65534, (gid_t) -1) == 0);
    assert_refused (5, "belongs to user 65534");
  }

  /* An entry of another user's cache, or of this one before it was cleared. */
  ck_assert (store (5, "five", 4));
  g_autofree char *whole = NULL;
  gsize n;
  ck_assert (g_file_get_contents (path, &whole, &n, NULL));
  ck_assert_int_eq (gm_cache_clear (NULL), 1);
  ck_assert (store (6, "six", 3) && g_file_set_contents (path, whole, (gssize) n, NULL)
             && chmod (path, 0600) == 0);
  assert_refused (5, "keyed hash");
  ck_assert (is_found (6, "six", 3));

  /* An entry that claims to be larger than any memory. */
  int fd = open (path, O_WRONLY | O_CREAT, 0600);
  ck_assert (ftruncate (fd, (off_t) GM_CACHE_MAX_BYTES + 1) == 0 && close (fd) == 0);
  assert_refused (5, "too large");
}
END_TEST

START_TEST (a_folder_that_others_get_into_is_not_used)
{
  g_autofree char *why = NULL;
  ck_assert (store (1, "one", 3) && chmod (folder, 0750) == 0);
  ck_assert (!gm_cache_is_on (&why) && strstr (why, "chmod 700"));
  ck_assert (!store (2, "two", 3) && !is_found (1, "one", 3));
  ck_assert (chmod (folder, 0700) == 0 && is_found (1, "one", 3));
  if (geteuid () == 0) {
    g_clear_pointer (&why, g_free);
    ck_assert (chown (folder, 65534, (gid_t) -1) == 0);
    ck_assert (!gm_cache_is_on (&why) && strstr (why, "belongs to user 65534"));
    ck_assert (chown (folder, 0, (gid_t) -1) == 0);
  }
  g_autofree char *elsewhere = g_strconcat (folder, "-moved", NULL);
  g_clear_pointer (&why, g_free);
  ck_assert (rename (folder, elsewhere) == 0 && symlink (elsewhere, folder) == 0);
  ck_assert (!gm_cache_is_on (&why) && strstr (why, "cannot be opened"));
  unlink (folder);
  g_clear_pointer (&why, g_free);
  g_setenv ("GRAMME_CACHE_DIR", "relative", TRUE);
  ck_assert (!gm_cache_is_on (&why) && strstr (why, "absolute"));
  g_setenv ("GRAMME_CACHE_DIR", folder, TRUE);
  g_clear_pointer (&why, g_free);
  g_setenv ("GRAMME_CACHE", "0", TRUE);
  ck_assert (!gm_cache_is_on (&why) && !why && access (folder, F_OK) != 0);
  g_unsetenv ("GRAMME_CACHE");
  g_setenv ("GM_SECURE", "1", TRUE);
  ck_assert (!gm_cache_is_on (&why) && strstr (why, "privileges"));
  g_unsetenv ("GM_SECURE");
}
END_TEST

START_TEST (a_secret_that_is_damaged_or_readable_turns_the_cache_off)
{
  g_autofree char *secret = g_build_filename (folder, "secret", NULL), *why = NULL;
  ck_assert (store (1, "one", 3) && chmod (secret, 0644) == 0);
  ck_assert (!gm_cache_is_on (&why) && strstr (why, "gramme cache clear"));
  ck_assert (chmod (secret, 0600) == 0 && truncate (secret, 31) == 0);
  ck_assert (!is_found (1, "one", 3));
  ck_assert_int_eq (gm_cache_clear (NULL), 1);
  ck_assert (store (1, "one", 3) && is_found (1, "one", 3));
}
END_TEST

START_TEST (what_was_used_least_recently_goes_when_there_is_too_much)
{
  static char block[200000];
  g_setenv ("GRAMME_CACHE_MB", "1", TRUE);
  for (uint32_t i = 0; i < 5; i++) {
    GmCacheKey key = key_of (i);
    g_autofree char *path = path_of (&key);
    ck_assert (store (i, block, sizeof block));
    const struct timespec times[2] = { { .tv_sec = 1000 + i }, { .tv_sec = 1000 + i } };
    ck_assert (utimensat (AT_FDCWD, path, times, 0) == 0);
  }
  ck_assert (is_found (0, block, sizeof block)); /* used now */
  ck_assert (store (5, block, sizeof block));
  ck_assert (is_found (0, block, sizeof block) && is_found (5, block, sizeof block));
  ck_assert (!is_found (1, block, sizeof block) && is_found (4, block, sizeof block));
}
END_TEST

START_TEST (listing_says_what_is_there_and_what_is_refused)
{
  size_t n;
  g_autofree char *why = NULL;
  ck_assert (store (1, "one", 3) && store (2, "two", 3));
  GmCacheKey key = key_of (2);
  g_autofree char *path = path_of (&key);
  ck_assert (truncate (path, 100) == 0);
  GmCacheRow *rows = gm_cache_list (true, &n, &why);
  ck_assert_uint_eq (n, 2);
  int bad = rows[0].why ? 0 : 1;
  ck_assert (rows[bad].why && !rows[!bad].why && strcmp (rows[!bad].label, "test") == 0);
  gm_cache_rows_free (rows, n);
}
END_TEST

/* -- Processes --------------------------------------------------------------------------------- */

static uint32_t
count_refused (size_t *n_entries)
{
  size_t n;
  uint32_t refused = 0;
  GmCacheRow *rows = gm_cache_list (true, &n, NULL);
  ck_assert_ptr_nonnull (rows);
  for (size_t i = 0; i < n; i++)
    if (rows[i].why) {
      refused++;
      fprintf (stderr, "%s\n", rows[i].why);
    }
  gm_cache_rows_free (rows, n);
  *n_entries = n;
  return refused;
}

static void
write_for_ever (unsigned seed)
{
  static char data[40000];
  srand (seed);
  memset (data, (int) seed, sizeof data);
  for (;;)
    store ((uint32_t) rand () % 16, data, 1 + (size_t) rand () % sizeof data);
}

START_TEST (a_writer_that_is_killed_at_any_moment_leaves_nothing_that_is_accepted_and_wrong)
{
  size_t n = 0;
  unsigned rounds = getenv ("GM_CACHE_KILLS") ? (unsigned) atoi (getenv ("GM_CACHE_KILLS")) : 150;
  for (unsigned i = 0; i < rounds; i++) {
    pid_t children[2];
    for (unsigned k = 0; k < 2; k++)
      if ((children[k] = fork ()) == 0)
        write_for_ever (i * 2 + k + 1);
    g_usleep (200 + (i * 7919) % 6000);
    for (unsigned k = 0; k < 2; k++) {
      kill (children[k], SIGKILL);
      waitpid (children[k], NULL, 0);
    }
    ck_assert_uint_eq (count_refused (&n), 0);
  }
  ck_assert_uint_gt (n, 0);
}
END_TEST

START_TEST (temporary_files_of_the_dead_are_removed_when_they_are_old)
{
  ck_assert (store (1, "one", 3));
  g_autofree char *old = g_build_filename (folder, "tmp-1-1-0", NULL),
                  *fresh = g_build_filename (folder, "tmp-1-1-1", NULL);
  ck_assert (g_file_set_contents (old, "x", 1, NULL) && g_file_set_contents (fresh, "x", 1, NULL));
  const struct timespec times[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };
  ck_assert (utimensat (AT_FDCWD, old, times, 0) == 0);
  ck_assert (store (2, "two", 3));
  ck_assert (access (old, F_OK) != 0 && access (fresh, F_OK) == 0);
}
END_TEST

START_TEST (two_processes_that_begin_at_once_use_one_secret)
{
  for (int round = 0; round < 20; round++) {
    pid_t children[4];
    for (uint32_t k = 0; k < 4; k++)
      if ((children[k] = fork ()) == 0)
        _exit (store (k, "same", 4) && store (k + 10, "same", 4) ? 0 : 1);
    for (int k = 0; k < 4; k++) {
      int status;
      waitpid (children[k], &status, 0);
      ck_assert_int_eq (status, 0);
    }
    for (uint32_t k = 0; k < 4; k++)
      ck_assert (is_found (k, "same", 4) && is_found (k + 10, "same", 4));
    ck_assert_int_eq (gm_cache_clear (NULL), 8);
  }
}
END_TEST

START_TEST (a_full_disk_is_no_harm)
{
  ck_assert (store (1, "one", 3));
  pid_t child = fork ();
  if (child == 0) {
    static char data[100000];
    const struct rlimit small = { 5000, 5000 };
    signal (SIGXFSZ, SIG_IGN);
    setrlimit (RLIMIT_FSIZE, &small);
    g_autofree char *why = NULL;
    GmCacheKey key = key_of (2);
    bool stored = gm_cache_store (&key, "test", data, sizeof data, &why);
    _exit (!stored && why && strstr (why, "cannot be written") ? 0 : 1);
  }
  int status;
  waitpid (child, &status, 0);
  ck_assert_int_eq (status, 0);
  size_t n;
  ck_assert_uint_eq (count_refused (&n), 0);
  ck_assert_uint_eq (n, 1);
  g_autoptr (GDir) dir = g_dir_open (folder, 0, NULL);
  for (const char *name = g_dir_read_name (dir); name; name = g_dir_read_name (dir))
    ck_assert_msg (!g_str_has_prefix (name, "tmp-"), "%s is left", name);
}
END_TEST

int
main (void)
{
  Suite *s = suite_create ("cache");
  TCase *t = tcase_create ("entries");
  tcase_add_checked_fixture (t, set_up, tear_down);
  tcase_add_test (t, what_was_stored_is_found_and_nothing_else);
  tcase_add_test (t, every_flipped_bit_and_every_length_is_refused);
  tcase_add_test (t, what_is_not_a_plain_file_of_the_user_is_refused);
  tcase_add_test (t, a_folder_that_others_get_into_is_not_used);
  tcase_add_test (t, a_secret_that_is_damaged_or_readable_turns_the_cache_off);
  tcase_add_test (t, what_was_used_least_recently_goes_when_there_is_too_much);
  tcase_add_test (t, listing_says_what_is_there_and_what_is_refused);
  suite_add_tcase (s, t);
  t = tcase_create ("processes");
  tcase_add_checked_fixture (t, set_up, tear_down);
  tcase_add_test (t,
                  a_writer_that_is_killed_at_any_moment_leaves_nothing_that_is_accepted_and_wrong);
  tcase_add_test (t, temporary_files_of_the_dead_are_removed_when_they_are_old);
  tcase_add_test (t, two_processes_that_begin_at_once_use_one_secret);
  tcase_add_test (t, a_full_disk_is_no_harm);
  suite_add_tcase (s, t);
  SRunner *r = srunner_create (s);
  srunner_run_all (r, CK_NORMAL);
  int failed = srunner_ntests_failed (r);
  srunner_free (r);
  return failed ? 1 : 0;
}
