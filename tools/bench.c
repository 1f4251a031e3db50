/* SPDX-License-Identifier: Apache-2.0
 * bench.c -- `gramme bench`: the installed benchmarks, by name.  The options are those of
 * bench/run.py, which reads them.
 */
#include <errno.h>
#include <glib.h>
#include <stdio.h>
#include <unistd.h>

#include "core/base/installed.h"
#include "tools/tools.h"

int
gm_tool_bench (int argc, char **argv)
{
  const char *folder = g_getenv ("GM_BENCHDIR"); /* of a source tree, for those who work on it */
  g_autofree char *installed = gm_installed_path (GM_WAY_TO_BENCH);
  g_autofree char *script =
      g_build_filename (folder && folder[0] ? folder : installed, "run.py", NULL);
  (void) argc;
  if (access (script, R_OK) != 0) {
    fprintf (stderr,
             "gramme bench: %s cannot be read: %s; install gramme, or name the source tree's bench "
             "folder in GM_BENCHDIR\n",
             script, g_strerror (errno));
    return 1;
  }
  return gm_tool_exec_python (script, argv + 1);
}
