/* SPDX-License-Identifier: Apache-2.0
 * tools.h -- the subcommands of `gramme`.  Each gets its own name as argv[0] and returns the exit
 * status: 0, 1 for a failure, 2 for a wrong command line.
 */
#ifndef GM_TOOLS_TOOLS_H
#define GM_TOOLS_TOOLS_H

int gm_tool_inspect (int argc, char **argv);
int gm_tool_run (int argc, char **argv);
int gm_tool_explain (int argc, char **argv);
int gm_tool_opt (int argc, char **argv);
int gm_tool_bench (int argc, char **argv);
int gm_tool_cache (int argc, char **argv);
int gm_tool_why (int argc, char **argv);
int gm_tool_new_plugin (int argc, char **argv);
int gm_tool_check_plugin (int argc, char **argv);
int gm_tool_rescan (int argc, char **argv);
int gm_tool_probe (int argc, char **argv); /* started by the library to try a plugin */

/* Prints "gramme NAME: problem" and the subcommand's usage; returns 2. */
int gm_tool_misused (const char *name, const char *format, ...)
    __attribute__ ((format (printf, 2, 3)));

/* -- Python (run.c) ---------------------------------------------------------------------------- */

/* Replaces this process by Python on `script` with `args` (NULL-terminated).  Returns only if that
 * fails: prints why, and returns 1. */
int gm_tool_exec_python (const char *script, char **args);
/* Runs [--backend NAME] SCRIPT [ARG...]: checks the name, sets GRAMME_BACKEND, becomes Python. */
int gm_tool_run_script (int argc, char **argv);

#endif
