/* SPDX-License-Identifier: Apache-2.0
 * quarantine.c -- see quarantine.h.  The file is read again whenever it has changed, since another
 * process may have written it.  A file that is damaged, or not the user's own, is treated as empty.
 */
#include "core/plugin/quarantine.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/home.h"
#include "core/base/log.h"
#include "core/plugin/trust.h"
#include "plugin-api/gramme-plugin.h"

#ifndef PACKAGE_VERSION
#error "define PACKAGE_VERSION"
#endif

#define FILE_NAME "plugins-1.ini"
#define MAX_BYTES (4u << 20)
#define MOMENT_SECONDS 60

static GMutex lock;
static GKeyFile *own; /* results of this process, in the same form */
static __thread char *output;

/* -- The file ---------------------------------------------------------------------------------- */

/* Returns the folder for the key file; the caller frees.  GM_STATE sets it in build trees and
 * tests. */
static char *
state_folder (void)
{
  if (gm_trust_is_secure_mode ())
    return NULL;
  const char *state = secure_getenv ("GM_STATE");
  if (state && state[0] == '/')
    return g_strdup (state);
  g_autofree char *caches = gm_home_folder ("XDG_CACHE_HOME", ".cache");
  return caches ? g_build_filename (caches, "gramme", NULL) : NULL;
}

char *
gm_quarantine_path (void)
{
  g_autofree char *folder = state_folder ();
  return folder ? g_build_filename (folder, FILE_NAME, NULL) : NULL;
}

/* Returns the contents of a file, or NULL if the file is missing, too large, or not writable by
 * this user alone; the caller frees. */
static char *
read_own_file (const char *path)
{
  int fd = open (path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  struct stat st;
  g_autofree char *text = NULL;
  if (fd >= 0 && fstat (fd, &st) == 0 && S_ISREG (st.st_mode) && st.st_uid == geteuid ()
      && !(st.st_mode & (S_IWGRP | S_IWOTH)) && st.st_size <= MAX_BYTES) {
    text = g_malloc0 ((gsize) st.st_size + 1);
    for (off_t at = 0; text && at < st.st_size;) {
      ssize_t n = pread (fd, text + at, (size_t) (st.st_size - at), at);
      if (n < 0 && errno == EINTR)
        continue;
      if (n <= 0)
        g_clear_pointer (&text, g_free);
      at += n;
    }
  }
  if (fd >= 0)
    close (fd);
  return g_steal_pointer (&text);
}

static GKeyFile *
read_file (void)
{
  GKeyFile *f = g_key_file_new ();
  g_autofree char *path = gm_quarantine_path (), *text = path ? read_own_file (path) : NULL;
  if (text && !g_key_file_load_from_data (f, text, (gsize) -1, G_KEY_FILE_NONE, NULL))
    gm_log (GM_LOG_PLUGINS, "%s is damaged; plugins are tried again", path);
  return f;
}

/* Returns the parsed key file, borrowed, which is parsed again only when it has changed.  The
 * caller holds the lock. */
static GKeyFile *
known_file (void)
{
  static GKeyFile *known;
  static struct stat of;
  g_autofree char *path = gm_quarantine_path ();
  struct stat now = { 0 };
  if (path && lstat (path, &now) != 0)
    memset (&now, 0, sizeof now);
  if (known && now.st_ino == of.st_ino && now.st_size == of.st_size
      && now.st_ctim.tv_sec == of.st_ctim.tv_sec && now.st_ctim.tv_nsec == of.st_ctim.tv_nsec)
    return known;
  if (known)
    g_key_file_unref (known);
  of = now;
  return known = read_file ();
}

static bool
write_file (GKeyFile *f)
{
  g_autofree char *folder = state_folder (), *path = gm_quarantine_path ();
  if (!folder || g_mkdir_with_parents (folder, 0700) != 0)
    return false;
  gsize n;
  g_autofree char *text = g_key_file_to_data (f, &n, NULL);
  g_autofree char *temporary = g_strdup_printf ("%s.XXXXXX", path);
  int fd = g_mkstemp_full (temporary, O_WRONLY | O_CLOEXEC, 0600);
  if (fd < 0)
    return false;
  bool good = write (fd, text, n) == (ssize_t) n && fsync (fd) == 0;
  good = close (fd) == 0 && good && rename (temporary, path) == 0;
  if (!good)
    unlink (temporary);
  return good;
}

/* -- Rows -------------------------------------------------------------------------------------- */

/* Returns the name of the key file's group for the path, which the caller frees.  Unlike a path, a
 * group's name may contain neither ']' nor control characters. */
static char *
group_of (const char *canonical)
{
  g_autofree char *digest = g_compute_checksum_for_string (G_CHECKSUM_SHA256, canonical, -1);
  return g_strdup_printf ("plugin %.32s", digest);
}

static char *
key_text (const GmFileKey *k)
{
  return g_strdup_printf (
      "%" G_GINT64_MODIFIER "x.%" G_GINT64_MODIFIER "x.%" G_GINT64_MODIFIER "x.%" G_GINT64_MODIFIER
      "x.%" G_GINT64_MODIFIER "x.%" G_GINT64_MODIFIER "x %s/%d.%d",
      k->device, k->inode, k->size, (uint64_t) k->mtime_ns, (uint64_t) k->ctime_ns, k->libraries,
      PACKAGE_VERSION, GRAMME_ABI_MAJOR, GRAMME_ABI_MINOR);
}

void
gm_file_key_of (int fd, uint64_t libraries, GmFileKey *key)
{
  struct stat st;
  memset (key, 0, sizeof *key);
  if (fstat (fd, &st) == 0)
    *key = (GmFileKey){ .device = st.st_dev,
                        .inode = st.st_ino,
                        .size = (uint64_t) st.st_size,
                        .mtime_ns = st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec,
                        .ctime_ns = st.st_ctim.tv_sec * 1000000000 + st.st_ctim.tv_nsec,
                        .libraries = libraries };
}

/* Returns a text that changes whenever a package with a library is installed or removed; the caller
 * frees. */
static char *
installed_text (void)
{
  const char *other = secure_getenv ("GM_LOADER_CACHE"); /* for tests */
  struct stat st;
  if (stat (other ? other : "/etc/ld.so.cache", &st) != 0)
    memset (&st, 0, sizeof st);
  return g_strdup_printf ("%" G_GINT64_MODIFIER "x.%" G_GINT64_MODIFIER "x %ld.%ld",
                          (guint64) st.st_ino, (guint64) st.st_size, (long) st.st_mtim.tv_sec,
                          (long) st.st_mtim.tv_nsec);
}

/* True if the cause of a recorded refusal may have gone, so that the file has to be tried again. */
static bool
may_be_over (GKeyFile *f, const char *group, GmCause cause)
{
  if (cause == GM_CAUSE_INSIDE)
    return false;
  if (cause == GM_CAUSE_MOMENT) {
    gint64 seconds =
        g_get_real_time () / G_USEC_PER_SEC - g_key_file_get_int64 (f, group, "second", NULL);
    return seconds < 0 || seconds > MOMENT_SECONDS; /* below 0: the clock was set back */
  }
  g_autofree char *then = g_key_file_get_string (f, group, "installed", NULL),
                  *now = installed_text ();
  return g_strcmp0 (then, now) != 0;
}

static GmTried
find_in (GKeyFile *f, const char *group, const char *key, GmRefused *why)
{
  g_autofree char *known = g_key_file_get_string (f, group, "key", NULL),
                  *result = g_key_file_get_string (f, group, "result", NULL),
                  *text = g_key_file_get_string (f, group, "text", NULL);
  if (!known || !result || strcmp (known, key) != 0)
    return GM_TRIED_NOT;
  if (strcmp (result, "good") == 0)
    return GM_TRIED_GOOD;
  for (int code = GM_REFUSAL_NONE + 1; code < GM_N_REFUSALS; code++)
    if (strcmp (result, gm_refusal_names[code]) == 0 && why->code == GM_REFUSAL_NONE
        && !may_be_over (f, group, gm_refusal_causes[code])) {
      *why = (GmRefused){ (GmRefusal) code, g_utf8_make_valid (text ? text : "", -1) };
      return GM_TRIED_BAD;
    }
  return GM_TRIED_NOT; /* the cause may have gone, or a newer gramme wrote the row */
}

GmTried
gm_quarantine_find (const char *canonical, const GmFileKey *k, GmRefused *why)
{
  g_autofree char *group = group_of (canonical), *key = key_text (k);
  g_mutex_lock (&lock);
  GmTried tried = own ? find_in (own, group, key, why) : GM_TRIED_NOT;
  if (tried == GM_TRIED_NOT)
    tried = find_in (known_file (), group, key, why);
  g_mutex_unlock (&lock);
  return tried;
}

static void
note_in (GKeyFile *f, const char *canonical, const char *group, const char *key,
         const GmRefused *why)
{
  g_autoptr (GDateTime) now = g_date_time_new_now_local ();
  g_autofree char *when = g_date_time_format (now, "%Y-%m-%d %H:%M:%S");
  g_key_file_remove_group (f, group, NULL);
  g_key_file_set_string (f, group, "file", canonical);
  g_key_file_set_string (f, group, "key", key);
  g_key_file_set_string (f, group, "when", when);
  g_key_file_set_string (f, group, "result", why->code ? gm_refusal_names[why->code] : "good");
  if (why->code)
    g_key_file_set_string (f, group, "text", why->text);
  if (gm_refusal_causes[why->code] == GM_CAUSE_MOMENT)
    g_key_file_set_int64 (f, group, "second", g_get_real_time () / G_USEC_PER_SEC);
  if (gm_refusal_causes[why->code] == GM_CAUSE_OUTSIDE) {
    g_autofree char *installed = installed_text ();
    g_key_file_set_string (f, group, "installed", installed);
  }
  if (output)
    g_key_file_set_string (f, group, "output", output);
}

void
gm_quarantine_note (const char *canonical, const GmFileKey *k, const GmRefused *why)
{
  g_autofree char *group = group_of (canonical), *key = key_text (k);
  g_mutex_lock (&lock);
  if (!own)
    own = g_key_file_new ();
  note_in (own, canonical, group, key, why);
  if (!gm_trust_is_secure_mode ()) {
    g_autoptr (GKeyFile) f = read_file ();
    note_in (f, canonical, group, key, why);
    if (!write_file (f))
      gm_log (GM_LOG_PLUGINS, "what came of trying %s cannot be stored: %s", canonical,
              g_strerror (errno));
  }
  g_mutex_unlock (&lock);
  g_clear_pointer (&output, g_free);
}

void
gm_quarantine_set_output (const char *text)
{
  g_free (output);
  output = text && text[0] ? g_utf8_make_valid (text, -1) : NULL;
}

bool
gm_quarantine_forget (const char *canonical)
{
  g_autofree char *group = group_of (canonical);
  g_mutex_lock (&lock);
  bool known = own && g_key_file_remove_group (own, group, NULL);
  g_autoptr (GKeyFile) f = read_file ();
  if (g_key_file_remove_group (f, group, NULL))
    known = write_file (f) || known;
  g_mutex_unlock (&lock);
  return known;
}

void
gm_quarantine_details (const char *canonical, char **when, char **said)
{
  g_autofree char *group = group_of (canonical);
  g_autoptr (GKeyFile) f = read_file ();
  *when = g_key_file_get_string (f, group, "when", NULL);
  *said = g_key_file_get_string (f, group, "output", NULL);
}
