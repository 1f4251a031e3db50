/* SPDX-License-Identifier: Apache-2.0
 * cc_folder.c -- see cc_folder.h.
 *
 * All operations are relative to descriptors, so a folder of the same name in another place is
 * never touched.
 */
#include "plugins/cc/cc_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX "gramme-cc-"
#define OPEN_FOLDER (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
#define MAX_DEPTH 8  /* nested folders, at most */
#define MAX_TRIES 10 /* a compiler that is being killed may add one more file */

static const char *
parent_of_all (void)
{
  const char *parent = secure_getenv ("TMPDIR");
  return parent && parent[0] == '/' && strlen (parent) <= CC_FOLDER_BYTES - 32 ? parent : "/tmp";
}

/* -- Removing ---------------------------------------------------------------------------------- */

static void
empty (int folder, int depth)
{
  int own = openat (folder, ".", OPEN_FOLDER); /* owned by fdopendir */
  DIR *dir = own >= 0 ? fdopendir (own) : NULL;
  if (!dir && own >= 0)
    close (own);
  for (struct dirent *d; dir && (d = readdir (dir)) != NULL;) {
    bool is_own = strcmp (d->d_name, ".") == 0 || strcmp (d->d_name, "..") == 0;
    if (is_own || unlinkat (folder, d->d_name, 0) == 0 || depth == MAX_DEPTH)
      continue;
    int inner = openat (folder, d->d_name, OPEN_FOLDER);
    if (inner >= 0) {
      empty (inner, depth + 1);
      close (inner);
      unlinkat (folder, d->d_name, AT_REMOVEDIR);
    }
  }
  if (dir)
    closedir (dir);
}

static void delete (int parent, const char *name, int fd)
{
  for (int i = 0; i < MAX_TRIES; i++) {
    empty (fd, 0);
    if (unlinkat (parent, name, AT_REMOVEDIR) == 0 || (errno != ENOTEMPTY && errno != EEXIST))
      return;
    usleep (1000);
  }
}

void
cc_folder_delete (const CcFolder *folder)
{
  if (folder->fd >= 0)
    delete (AT_FDCWD, folder->path, folder->fd);
}

void
cc_folder_remove (CcFolder *folder)
{
  cc_folder_delete (folder);
  if (folder->fd >= 0)
    close (folder->fd);
  *folder = CC_FOLDER_NONE;
}

/* True if the process that made the folder has ended; this process then holds the lock. */
static bool
is_left (int fd)
{
  struct stat st;
  bool ours = fstat (fd, &st) == 0 && st.st_uid == geteuid () && (st.st_mode & 07777) == 0700;
  return ours && flock (fd, LOCK_EX | LOCK_NB) == 0;
}

void
cc_folder_reap (void)
{
  DIR *dir = opendir (parent_of_all ());
  for (struct dirent *d; dir && (d = readdir (dir)) != NULL;) {
    /* Valid only if the name begins with PREFIX. */
    const char *rest = d->d_name + sizeof PREFIX - 1;
    if (strncmp (d->d_name, PREFIX, sizeof PREFIX - 1) != 0 || strlen (rest) != 6)
      continue;
    int fd = openat (dirfd (dir), d->d_name, OPEN_FOLDER);
    if (fd >= 0 && is_left (fd))
      delete (dirfd (dir), d->d_name, fd);
    if (fd >= 0)
      close (fd);
  }
  if (dir)
    closedir (dir);
}

/* -- Making ------------------------------------------------------------------------------------ */

/* Locks a new folder. False if another process took it for a leftover before that, and removed it.
 */
static bool
hold (int fd)
{
  struct stat st;
  return flock (fd, LOCK_EX | LOCK_NB) == 0 && fstat (fd, &st) == 0 && st.st_nlink > 0;
}

bool
cc_folder_make (CcFolder *folder)
{
  for (int i = 0; i < MAX_TRIES; i++) {
    snprintf (folder->path, sizeof folder->path, "%s/" PREFIX "XXXXXX", parent_of_all ());
    if (!mkdtemp (folder->path)) /* has mode 0700 */
      break;
    folder->fd = open (folder->path, OPEN_FOLDER);
    if (folder->fd >= 0 && hold (folder->fd))
      return true;
    int error = errno;
    if (folder->fd >= 0)
      close (folder->fd);
    else
      rmdir (folder->path);
    errno = error;
    if (error == EMFILE || error == ENFILE)
      break;
  }
  folder->fd = -1;
  return false;
}

/* -- Files ------------------------------------------------------------------------------------- */

bool
cc_write_all (int fd, const void *data, size_t bytes)
{
  const char *at = data;
  while (bytes > 0) {
    ssize_t n = write (fd, at, bytes);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      break;
    at += n;
    bytes -= (size_t) n;
  }
  return bytes == 0;
}

bool
cc_folder_write (const CcFolder *folder, const char *name, const void *data, size_t bytes)
{
  int fd = openat (folder->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0)
    return false;
  bool whole = cc_write_all (fd, data, bytes);
  return close (fd) == 0 && whole;
}

void *
cc_folder_read (const CcFolder *folder, const char *name, size_t most, size_t *bytes)
{
  struct stat st;
  *bytes = 0;
  int fd = openat (folder->fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0)
    return NULL;
  char *data = NULL;
  if (fstat (fd, &st) == 0 && S_ISREG (st.st_mode)) {
    size_t size = (size_t) st.st_size < most ? (size_t) st.st_size : most;
    data = malloc (size + 1);
    while (data && *bytes < size) {
      ssize_t n = read (fd, data + *bytes, size - *bytes);
      if (n < 0 && errno == EINTR)
        continue;
      if (n <= 0)
        break;
      *bytes += (size_t) n;
    }
  }
  close (fd);
  return data;
}
