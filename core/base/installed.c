/* SPDX-License-Identifier: Apache-2.0
 * installed.c -- see installed.h.
 *
 * The loader's name of the library may be a relative path, which means another folder after a
 * chdir, so the folder is determined when the library is loaded. It is as trustworthy as the
 * library itself.
 */
#include "core/base/installed.h"

#include <dlfcn.h>
#include <stdlib.h>

#include <glib.h>

static char *folder; /* without links; process lifetime */

__attribute__ ((constructor)) static void
find_folder (void)
{
  Dl_info info;
  char *real = dladdr ((void *) gm_installed_path, &info) ? realpath (info.dli_fname, NULL) : NULL;
  folder = real ? g_path_get_dirname (real) : g_strdup ("/");
  free (real);
}

char *
gm_installed_path (const char *way)
{
  g_autofree char *path = g_build_filename (folder, way, NULL);
  return g_canonicalize_filename (path, "/");
}
