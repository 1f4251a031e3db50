/* SPDX-License-Identifier: Apache-2.0
 * folder.c -- see folder.h.
 */
#include "plugins/cc/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool
join (char path[CC_FOLDER_BYTES + 32], const char *folder, const char *name)
{
  int n = snprintf (path, CC_FOLDER_BYTES + 32, "%s/%s", folder, name);
  return n > 0 && n < CC_FOLDER_BYTES + 32;
}

bool
cc_folder_make (char path[CC_FOLDER_BYTES])
{
  const char *parent = secure_getenv ("TMPDIR");
  if (!parent || parent[0] != '/' || strlen (parent) > CC_FOLDER_BYTES - 32)
    parent = "/tmp";
  snprintf (path, CC_FOLDER_BYTES, "%s/gramme-cc-XXXXXX", parent);
  if (mkdtemp (path)) /* makes it with mode 0700 */
    return true;
  path[0] = 0;
  return false;
}

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
cc_folder_write (const char *folder, const char *name, const void *data, size_t bytes)
{
  char path[CC_FOLDER_BYTES + 32];
  if (!join (path, folder, name))
    return false;
  int fd = open (path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0)
    return false;
  bool whole = cc_write_all (fd, data, bytes);
  return close (fd) == 0 && whole;
}

void *
cc_folder_read (const char *folder, const char *name, size_t most, size_t *bytes)
{
  char path[CC_FOLDER_BYTES + 32];
  struct stat st;
  *bytes = 0;
  int fd = join (path, folder, name) ? open (path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC) : -1;
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

void
cc_folder_remove (const char *folder, const char *const *names, size_t n)
{
  char path[CC_FOLDER_BYTES + 32];
  for (size_t i = 0; i < n; i++)
    if (join (path, folder, names[i]))
      unlink (path);
  rmdir (folder);
}
