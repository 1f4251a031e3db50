/* SPDX-License-Identifier: Apache-2.0
 * hostile.h -- builds hostile.c with one switch into a folder of the test's own, which is vouched
 * for.
 */
#ifndef HOSTILE_H
#define HOSTILE_H

#include <check.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef TOP_SRCDIR
#define TOP_SRCDIR "."
#endif

static char *hostile_root;

/* Makes a new folder, where the walk over parents ends, and which is the only one searched. */
static inline void
hostile_setup (void)
{
  hostile_root = g_dir_make_tmp ("gramme-plugin-XXXXXX", NULL);
  ck_assert_ptr_nonnull (hostile_root);
  g_setenv ("GRAMME_PLUGIN_TRUST", hostile_root, TRUE);
  g_autofree char *state = g_build_filename (hostile_root, "state", NULL);
  g_setenv ("GM_STATE", state, TRUE);
}

static inline void
hostile_remove (const char *path)
{
  if (g_file_test (path, G_FILE_TEST_IS_DIR) && !g_file_test (path, G_FILE_TEST_IS_SYMLINK)) {
    g_autoptr (GDir) dir = g_dir_open (path, 0, NULL);
    for (const char *name = dir ? g_dir_read_name (dir) : NULL; name;
         name = g_dir_read_name (dir)) {
      g_autofree char *child = g_build_filename (path, name, NULL);
      hostile_remove (child);
    }
  }
  g_remove (path);
}

static inline void
hostile_teardown (void)
{
  hostile_remove (hostile_root);
  g_clear_pointer (&hostile_root, g_free);
}

/* Builds ROOT/FOLDER/libgramme-hostile.so with -DSWITCH, more flags of the compiler (NULL: none),
 * and the headers in this folder of the sources.  Returns its path. */
static inline char *
hostile_build_with (const char *headers, const char *folder, const char *define, const char *flags)
{
  g_autofree char *dir = g_build_filename (hostile_root, folder, NULL);
  ck_assert_int_eq (g_mkdir_with_parents (dir, 0755), 0);
  char *file = g_build_filename (dir, "libgramme-hostile.so", NULL);
  const char *cc = g_getenv ("CC");
  g_autofree char *command = g_strdup_printf (
      "%s -std=gnu11 -shared -fPIC -I%s/%s -D%s -Wl,-z,noexecstack %s -o %s "
      "%s/tests/plugin/hostile.c",
      cc ? cc : "gcc", TOP_SRCDIR, headers, define, flags ? flags : "", file, TOP_SRCDIR);
  int status = -1;
  g_autoptr (GError) error = NULL;
  ck_assert_msg (g_spawn_command_line_sync (command, NULL, NULL, &status, &error), "%s",
                 error ? error->message : "");
  ck_assert_msg (status == 0, "failed: %s", command);
  return file;
}

static inline char *
hostile_build (const char *folder, const char *define, const char *flags)
{
  return hostile_build_with ("plugin-api", folder, define, flags);
}

/* Builds ROOT/NAME/libgramme-NAME.so from these sources, with the flags of the linker that plugins
 * need. Returns its path. */
static inline char *
hostile_compile (const char *name, const char *sources, const char *flags)
{
  g_autofree char *dir = g_build_filename (hostile_root, name, NULL);
  g_autofree char *base = g_strdup_printf ("libgramme-%s.so", name);
  char *file = g_build_filename (dir, base, NULL);
  ck_assert_int_eq (g_mkdir_with_parents (dir, 0755), 0);
  const char *cc = g_getenv ("CC");
  g_autofree char *command = g_strdup_printf (
      "sh -c 'cd %s && %s -std=gnu11 -shared -fPIC -fvisibility=hidden -I. -Iplugin-api "
      "-Wl,-z,noexecstack %s -o %s %s'",
      TOP_SRCDIR, cc ? cc : "gcc", flags ? flags : "", file, sources);
  int status = -1;
  ck_assert (g_spawn_command_line_sync (command, NULL, NULL, &status, NULL));
  ck_assert_msg (status == 0, "failed: %s", command);
  return file;
}

/* Makes the folder of `file` the search path. */
static inline void
hostile_search (const char *file)
{
  g_autofree char *dir = g_path_get_dirname (file);
  g_setenv ("GRAMME_PLUGIN_PATH", dir, TRUE);
}

static inline void
hostile_write (const char *file, const void *bytes, gsize n)
{
  ck_assert (g_file_set_contents (file, bytes, (gssize) n, NULL));
  ck_assert_int_eq (g_chmod (file, 0755), 0);
}

#endif
