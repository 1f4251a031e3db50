/* SPDX-License-Identifier: Apache-2.0
 * folder.c -- the folder of the cache: its place, its owner, and files in it.
 *
 * Everything is relative to a descriptor of the folder, so no other folder can take its place
 * between a check and a use.  The first process that needs the secret makes it: writes a temporary
 * file, then links it, which fails if another process was quicker.
 */
#include "core/base/environment.h"
#include "core/base/home.h"
#include "core/cache/private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/random.h>
#include <unistd.h>

bool
gm_cache_fail (char **why, const char *format, ...)
{
  if (why && !*why) {
    va_list args;
    va_start (args, format);
    *why = g_strdup_vprintf (format, args);
    va_end (args);
  }
  return false;
}

/* -- Where ------------------------------------------------------------------------------------- */

char *
gm_cache_path (void)
{
  const char *own = secure_getenv ("GRAMME_CACHE_DIR");
  if (own && *own)
    return g_strdup (own);
  g_autofree char *caches = gm_home_folder ("XDG_CACHE_HOME", ".cache");
  return caches ? g_build_filename (caches, "gramme", "code-1", NULL) : NULL;
}

static bool
is_wanted (char **why)
{
  if (!gm_environment_switch ("GRAMME_CACHE"))
    return false;
  /* GM_SECURE is for tests, as in core/plugin/trust.c: it can only take away. */
  if (getauxval (AT_SECURE) != 0 || getenv ("GM_SECURE"))
    return gm_cache_fail (why, "the process runs with raised privileges");
  return true;
}

/* -- The secret -------------------------------------------------------------------------------- */

static bool
read_secret (int folder, uint8_t secret[GM_CACHE_SECRET_BYTES], bool *absent, char **why)
{
  struct stat st;
  char *said = NULL;
  int fd = gm_cache_open_file (folder, GM_CACHE_SECRET, &st, &said);
  *absent = fd < 0 && !said;
  bool good = fd >= 0 && st.st_size == GM_CACHE_SECRET_BYTES && !(st.st_mode & 077)
              && pread (fd, secret, GM_CACHE_SECRET_BYTES, 0) == GM_CACHE_SECRET_BYTES;
  if (!good && !*absent)
    gm_cache_fail (why, "its file \"%s\" %s; `gramme cache clear` makes a new cache",
                   GM_CACHE_SECRET, said ? said : "is not a secret of 32 bytes and mode 0600");
  g_free (said);
  if (fd >= 0)
    close (fd);
  return good;
}

static bool
get_secret (int folder, uint8_t secret[GM_CACHE_SECRET_BYTES], char **why)
{
  bool absent;
  if (read_secret (folder, secret, &absent, why))
    return true;
  if (!absent)
    return false;
  uint8_t fresh[GM_CACHE_SECRET_BYTES];
  if (getrandom (fresh, sizeof fresh, 0) != sizeof fresh)
    return gm_cache_fail (why, "the system gives no random numbers: %s", g_strerror (errno));
  const GmCachePiece piece = { fresh, sizeof fresh };
  gm_cache_write_file (folder, GM_CACHE_SECRET, &piece, 1, false, true, why);
  return read_secret (folder, secret, &absent, why) /* also if another process was quicker */
         || gm_cache_fail (why, "its file \"%s\" cannot be made", GM_CACHE_SECRET);
}

/* -- The folder -------------------------------------------------------------------------------- */

static bool
check_folder (int fd, const char *path, char **why)
{
  struct stat st;
  if (fstat (fd, &st) != 0)
    return gm_cache_fail (why, "%s: %s", path, g_strerror (errno));
  if (st.st_uid != geteuid ())
    return gm_cache_fail (why, "%s belongs to user %u, not to you", path, st.st_uid);
  if (st.st_mode & 077)
    return gm_cache_fail (why, "%s has mode %04o, which lets others in; chmod 700 %s", path,
                          st.st_mode & 07777, path);
  return true;
}

int
gm_cache_open (bool make, uint8_t secret[GM_CACHE_SECRET_BYTES], char **why)
{
  if (!is_wanted (why))
    return -1;
  g_autofree char *path = gm_cache_path ();
  if (!path) {
    gm_cache_fail (why,
                   "this user has no home, and neither GRAMME_CACHE_DIR nor XDG_CACHE_HOME is set");
    return -1;
  }
  if (path[0] != '/') {
    gm_cache_fail (why, "GRAMME_CACHE_DIR=%s is not absolute", path);
    return -1;
  }
  int fd = open (path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT && make && g_mkdir_with_parents (path, 0700) == 0)
    fd = open (path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) {
    gm_cache_fail (why, "%s cannot be opened as a folder: %s", path, g_strerror (errno));
    return -1;
  }
  char *said = NULL;
  if (check_folder (fd, path, why) && (!secret || get_secret (fd, secret, &said)))
    return fd;
  if (said)
    gm_cache_fail (why, "%s: %s", path, said);
  g_free (said);
  close (fd);
  return -1;
}

/* -- Files ------------------------------------------------------------------------------------- */

int
gm_cache_open_file (int folder, const char *name, struct stat *st, char **why)
{
  /* O_NONBLOCK: opening a fifo does not wait. */
  int fd = openat (folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) {
    if (errno != ENOENT)
      gm_cache_fail (why, "%s", errno == ELOOP ? "is a link" : g_strerror (errno));
    return -1;
  }
  if (fstat (fd, st) != 0)
    gm_cache_fail (why, "cannot be examined: %s", g_strerror (errno));
  else if (!S_ISREG (st->st_mode))
    gm_cache_fail (why, "is no regular file");
  else if (st->st_uid != geteuid ())
    gm_cache_fail (why, "belongs to user %u", st->st_uid);
  else if (st->st_mode & (S_IWGRP | S_IWOTH))
    gm_cache_fail (why, "can be written by others (mode %04o)", st->st_mode & 07777);
  else
    return fd;
  close (fd);
  return -1;
}

void *
gm_cache_read_file (int fd, size_t bytes, char **why)
{
  void *block = NULL;
  if (posix_memalign (&block, 64, bytes ? bytes : 1) != 0) {
    gm_cache_fail (why, "no memory for its %zu bytes", bytes);
    return NULL;
  }
  for (size_t at = 0; at < bytes;) {
    ssize_t n = pread (fd, (char *) block + at, bytes - at, (off_t) at);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0) {
      gm_cache_fail (why, "cannot be read: %s", n < 0 ? g_strerror (errno) : "it became shorter");
      free (block);
      return NULL;
    }
    at += (size_t) n;
  }
  return block;
}

static bool
write_all (int fd, const GmCachePiece *p)
{
  for (size_t at = 0; at < p->bytes;) {
    ssize_t n = write (fd, (const char *) p->data + at, p->bytes - at);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return false;
    at += (size_t) n;
  }
  return true;
}

bool
gm_cache_write_file (int folder, const char *name, const GmCachePiece *pieces, size_t n,
                     bool replace, bool durable, char **why)
{
  static uint32_t serial; /* atomic */
  char temporary[64];
  uint32_t number = 0; /* not g_random_int, whose lock the child of a fork may find taken */
  if (getrandom (&number, sizeof number, 0) != sizeof number)
    number = (uint32_t) g_get_monotonic_time ();
  snprintf (temporary, sizeof temporary, GM_CACHE_TEMPORARY "%ld-%u-%08x", (long) getpid (),
            __atomic_add_fetch (&serial, 1, __ATOMIC_RELAXED), number);
  int fd = openat (folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  bool good = fd >= 0;
  for (size_t i = 0; i < n && good; i++)
    good = write_all (fd, &pieces[i]);
  good = good && (!durable || fsync (fd) == 0);
  int error = errno;
  if (fd >= 0 && close (fd) != 0 && good) {
    good = false;
    error = errno;
  }
  if (good) {
    good = replace ? renameat (folder, temporary, folder, name) == 0
                   : linkat (folder, temporary, folder, name, 0) == 0 || errno == EEXIST;
    error = errno;
  }
  if (fd >= 0 && (!good || !replace))
    unlinkat (folder, temporary, 0);
  return good || gm_cache_fail (why, "an entry cannot be written: %s", g_strerror (error));
}
