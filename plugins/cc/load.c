/* SPDX-License-Identifier: Apache-2.0
 * load.c -- see load.h.
 *
 * The dynamic linker wants a file: one in a new folder of mode 0700, with a name of its own because the linker knows libraries by
 * name, and removed as soon as it is mapped.
 */
#include "plugins/cc/load.h"
#include "plugins/cc/folder.h"

#include <dlfcn.h>
#include <errno.h>

int32_t
cc_load (CcCode *code, const void *bytes, size_t n, GrammeStatus *status)
{
  static const char *const names[] = { "kernel.so" };
  char folder[CC_FOLDER_BYTES], path[CC_FOLDER_BYTES + 16];
  *code = (CcCode){ 0 };
  if (!cc_folder_make (folder))
    return gramme_fail (status, GRAMME_TOOLCHAIN, -1, "no folder to load code from: %s", strerror (errno));
  int32_t result = GRAMME_OK;
  snprintf (path, sizeof path, "%s/kernel.so", folder);
  if (!cc_folder_write (folder, names[0], bytes, n))
    result = gramme_fail (status, GRAMME_TOOLCHAIN, -1, "code cannot be written to %s: %s", path,
                          strerror (errno));
  else if (!(code->library = dlopen (path, RTLD_NOW | RTLD_LOCAL)))
    result = gramme_fail (status, GRAMME_TOOLCHAIN, -1, "compiled code cannot be loaded: %s",
                          dlerror ());
  cc_folder_remove (folder, names, 1);
  return result;
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
