/* SPDX-License-Identifier: Apache-2.0
 * explain.c -- `gramme explain`: runs a script and lets the Python package report, at exit, what
 * was captured and what was not.
 */
#include <glib.h>

#include "tools/tools.h"

int
gm_tool_explain (int argc, char **argv)
{
  g_setenv ("GRAMME_EXPLAIN", "1", TRUE); /* read by the package when it is imported */
  return gm_tool_run_script (argc, argv);
}
