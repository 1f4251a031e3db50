/* SPDX-License-Identifier: Apache-2.0
 * explain.c -- `gramme explain [--full]`: runs a script, and at exit the Python package reports
 * what was captured and what was not; --full lists the guards on gramme's own code, too.
 */
#include <stdbool.h>
#include <string.h>

#include <glib.h>

#include "tools/tools.h"

int
gm_tool_explain (int argc, char **argv)
{
  bool full = argc > 1 && strcmp (argv[1], "--full") == 0;
  if (full) {
    argv[1] = argv[0];
    argv++, argc--;
  }
  /* Read by the package when it is imported. */
  g_setenv ("GRAMME_EXPLAIN", full ? "full" : "1", TRUE);
  return gm_tool_run_script (argc, argv);
}
