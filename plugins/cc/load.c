/* SPDX-License-Identifier: Apache-2.0
 * load.c -- see load.h.
 *
 * The dynamic linker needs a file.  A file in memory, without a name, costs a fifth of a file in a
 * folder, and is not affected by file systems that forbid execution.  Where the kernel has no such
 * files, or there is no /proc, the file is in a new folder of mode 0700, which is removed as soon
 * as the file is mapped.  The linker identifies libraries by name, so each load uses another
 * spelling of the path to its file.
 */
#include "plugins/cc/load.h"
#include "plugins/cc/cc_folder.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MFD_EXEC
/* Flag of memfd_create since Linux 6.3, where an administrator may forbid execution of memory files
 * without this flag */
#define MFD_EXEC 0x0010u
#endif

/* Writes a unique spelling of the descriptor's path: /proc/self/fd, then a "/" for each 0 and a
 * "/." for each 1 of a number that is never used again, then the descriptor. */
static void
spell (char *path, size_t room, int fd)
{
  static _Atomic uint64_t loads;
  uint64_t number = atomic_fetch_add (&loads, 1);
  size_t n = (size_t) snprintf (path, room, "/proc/self/fd");
  for (; number; number >>= 1)
    n += (size_t) snprintf (path + n, room - n, number & 1 ? "/." : "/");
  snprintf (path + n, room - n, "/%d", fd);
}

static void *
load_from_memory (const void *bytes, size_t n)
{
  char path[192];
  void *library = NULL;
  int fd = memfd_create ("gramme-cc", MFD_CLOEXEC | MFD_EXEC);
  if (fd < 0 && errno == EINVAL)
    fd = memfd_create ("gramme-cc", MFD_CLOEXEC);
  if (fd < 0)
    return NULL;
  if (cc_write_all (fd, bytes, n)) {
    spell (path, sizeof path, fd);
    library = dlopen (path, RTLD_NOW | RTLD_LOCAL);
  }
  close (fd);
  return library;
}

static void *
load_from_folder (const void *bytes, size_t n, GrammeStatus *status)
{
  CcFolder folder;
  char path[CC_FOLDER_BYTES + 16];
  void *library = NULL;
  if (!cc_folder_make (&folder)) {
    gramme_fail (status, GRAMME_TOOLCHAIN, -1, "no folder to load code from: %s", strerror (errno));
    return NULL;
  }
  snprintf (path, sizeof path, "%s/kernel.so", folder.path);
  if (!cc_folder_write (&folder, "kernel.so", bytes, n))
    gramme_fail (status, GRAMME_TOOLCHAIN, -1, "code cannot be written to %s: %s", path,
                 strerror (errno));
  else if (!(library = dlopen (path, RTLD_NOW | RTLD_LOCAL)))
    gramme_fail (status, GRAMME_TOOLCHAIN, -1, "compiled code cannot be loaded: %s", dlerror ());
  cc_folder_remove (&folder);
  return library;
}

int32_t
cc_load (CcCode *code, const void *bytes, size_t n, GrammeStatus *status)
{
  *code = (CcCode){ .library = load_from_memory (bytes, n) };
  if (!code->library)
    code->library = load_from_folder (bytes, n, status);
  return code->library ? GRAMME_OK : GRAMME_TOOLCHAIN;
}

void *
cc_symbol (const CcCode *code, const char *name)
{
  return dlsym (code->library, name);
}

void
cc_unload (CcCode *code)
{
  if (code->library)
    dlclose (code->library);
  *code = (CcCode){ 0 };
}
