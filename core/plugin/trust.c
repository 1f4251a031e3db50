/* SPDX-License-Identifier: Apache-2.0
 * trust.c -- the walk from a plugin file up to the root, judging owners and modes.
 *
 * Links are resolved first and the walk follows the real path, so a link passes if and only if its
 * target does.
 */
#include "core/plugin/trust.h"
#include "core/base/installed.h"
#include "core/plugin/needed.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

/* GM_SECURE, for tests, can only take rights away. */
bool
gm_trust_is_secure_mode (void)
{
  return getauxval (AT_SECURE) != 0 || getenv ("GM_SECURE") != NULL;
}

/* True if gid is the owner's own group, without other members, so that its right to write gives
 * nothing to other users. */
static bool
is_private_group (gid_t gid, uid_t owner)
{
  char room_user[4096], room_group[16384];
  struct passwd user, *u = NULL;
  struct group group, *g = NULL;
  if (getpwuid_r (owner, &user, room_user, sizeof room_user, &u) != 0 || !u || u->pw_gid != gid)
    return false;
  if (getgrgid_r (gid, &group, room_group, sizeof room_group, &g) != 0 || !g
      || strcmp (g->gr_name, u->pw_name) != 0)
    return false;
  for (char **m = g->gr_mem; *m; m++)
    if (strcmp (*m, u->pw_name) != 0)
      return false;
  return true;
}

static bool
owner_is_trusted (uid_t uid)
{
  return uid == 0 || (uid == geteuid () && !gm_trust_is_secure_mode ());
}

/* True if other users may write to the file.  vouched: it is below a folder of
 * GRAMME_PLUGIN_TRUST. */
static bool
others_may_write (const struct stat *st, bool vouched)
{
  if (st->st_mode & S_IWOTH)
    return true;
  return (st->st_mode & S_IWGRP) && !vouched && !is_private_group (st->st_gid, st->st_uid);
}

static bool
lies_in (const char *path, const char *folder)
{
  size_t n = strlen (folder);
  while (n > 1 && folder[n - 1] == '/')
    n--;
  return strncmp (path, folder, n) == 0 && (path[n] == '/' || path[n] == 0 || n == 1);
}

/* Returns the folder of GRAMME_PLUGIN_TRUST that contains `real`, without links; NULL if there is
 * none.  The caller frees. */
static char *
vouched_folder (const char *real)
{
  const char *list = gm_trust_is_secure_mode () ? NULL : secure_getenv ("GRAMME_PLUGIN_TRUST");
  g_auto (GStrv) folders = g_strsplit (list ? list : "", ":", -1);
  for (char **f = folders; *f; f++) {
    char *folder = (*f)[0] == '/' ? realpath (*f, NULL) : NULL;
    if (folder && lies_in (real, folder))
      return folder;
    free (folder);
  }
  return NULL;
}

/* True if the folders from `first`, the lowest, up to `vouched` or the root are trusted; else *why
 * is set. */
static bool
check_folders (const char *first, const char *vouched, GmRefused *why)
{
  g_autofree char *folder = g_strdup (first);
  for (;;) {
    struct stat st;
    if (lstat (folder, &st) != 0 || !S_ISDIR (st.st_mode))
      return gm_refuse (why, GM_REFUSAL_PARENT, "%s cannot be examined: %s", folder,
                        g_strerror (errno));
    if (!owner_is_trusted (st.st_uid))
      return gm_refuse (why, GM_REFUSAL_PARENT, "%s belongs to user %u, not to root or you", folder,
                        st.st_uid);
    if (others_may_write (&st, vouched != NULL))
      return gm_refuse (
          why, GM_REFUSAL_PARENT,
          "%s has mode %04o; %s%s, or vouch for a folder below it with GRAMME_PLUGIN_TRUST", folder,
          st.st_mode & 07777, st.st_mode & S_ISVTX ? "move the file out of " : "chmod go-w ",
          folder);
    if (strcmp (folder, "/") == 0 || (vouched && strcmp (folder, vouched) == 0))
      return true;
    char *up = g_path_get_dirname (folder);
    g_free (folder);
    folder = up;
  }
}

static bool
check_file (int fd, const char *path, const char *vouched, GmRefused *why)
{
  struct stat st;
  if (fstat (fd, &st) != 0)
    return gm_refuse (why, GM_REFUSAL_OPEN, "%s", g_strerror (errno));
  if (!S_ISREG (st.st_mode))
    return gm_refuse (why, GM_REFUSAL_NOT_REGULAR,
                      "a plugin is a shared object, and what it needs");
  if (!owner_is_trusted (st.st_uid))
    return gm_refuse (why, GM_REFUSAL_OWNER, "user %u, not root or you; chown it if you trust it",
                      st.st_uid);
  if (others_may_write (&st, vouched != NULL))
    return gm_refuse (why, GM_REFUSAL_MODE, "mode %04o; chmod go-w %s", st.st_mode & 07777, path);
  g_autofree char *folder = g_path_get_dirname (path);
  return check_folders (folder, vouched, why);
}

bool
gm_trust_check_file (int fd, const char *real, bool of_system, GmRefused *why)
{
  char *vouched = of_system ? NULL : vouched_folder (real);
  bool good = check_file (fd, real, of_system ? "/" : vouched, why);
  free (vouched);
  return good;
}

bool
gm_trust_check_folder (const char *real, bool of_system, GmRefused *why)
{
  char *vouched = of_system ? NULL : vouched_folder (real);
  bool good = check_folders (real, of_system ? "/" : vouched, why);
  free (vouched);
  return good;
}

static bool
is_installed (const char *real)
{
  g_autofree char *path = gm_installed_path (GM_WAY_TO_PLUGINS);
  char *folder = realpath (path, NULL);
  bool inside = folder && lies_in (real, folder);
  free (folder);
  return inside;
}

int
gm_trust_open (const char *path, char **canonical, uint64_t *libraries, GmRefused *why)
{
  uint64_t digest;
  int fd = gm_trust_open_plain (path, canonical, why);
  if (fd >= 0 && (!gm_elf_check (fd, why) || !gm_needed_check (fd, *canonical, &digest, why))) {
    close (fd);
    return -1;
  }
  if (fd >= 0 && libraries)
    *libraries = digest;
  return fd;
}

int
gm_trust_open_plain (const char *path, char **canonical, GmRefused *why)
{
  char *real = realpath (path, NULL); /* allocated by malloc; g_free may free it */
  *canonical = real;
  if (!real) {
    gm_refuse (why, GM_REFUSAL_OPEN, "%s", g_strerror (errno));
    return -1;
  }
  if (gm_trust_is_secure_mode () && !is_installed (real)) {
    g_autofree char *path = gm_installed_path (GM_WAY_TO_PLUGINS);
    gm_refuse (why, GM_REFUSAL_SECURE, "the install folder is %s", path);
    return -1;
  }
  /* O_NONBLOCK: opening a fifo does not wait. */
  int fd = open (real, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) {
    gm_refuse (why, GM_REFUSAL_OPEN, "%s", g_strerror (errno));
    return -1;
  }
  if (!gm_trust_check_file (fd, real, false, why)) {
    close (fd);
    return -1;
  }
  return fd;
}
