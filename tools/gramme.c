/* SPDX-License-Identifier: Apache-2.0
 * gramme.c -- the program: a table of subcommands.
 */
#include <glib.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/plugin/near.h"
#include "plugin-api/gramme-plugin.h"
#include "tools/tools.h"

#ifndef PACKAGE_VERSION
#error "define PACKAGE_VERSION"
#endif

typedef struct {
  const char *name;
  int (*run) (int argc, char **argv);
  const char *usage, *help;
} Tool;

static int help (int argc, char **argv);

/* clang-format off */
static const Tool tools[] = {
  { "inspect", gm_tool_inspect, "[--json] [--graph FILE.gm] [NAME]",       "lists the installed back ends, or describes one" },
  { "why",     gm_tool_why,     "NAME|FILE",                               "says whether a plugin is used, why not, and what to do" },
  { "rescan",  gm_tool_rescan,  "[NAME|FILE]",                             "tries plugins again, each in a process of its own" },
  { "new-plugin", gm_tool_new_plugin, "NAME [--template full] [--dir DIR]",                 "writes the project of a new back end, to build and to change" },
  { "check-plugin", gm_tool_check_plugin, "[OPTION...] FILE",              "tries a plugin against the rules of the ABI" },
  { "run",     gm_tool_run,     "[--backend NAME] [--capture-all] SCRIPT [ARG...]",        "runs a Python script with this back end as the default" },
  { "explain", gm_tool_explain, "[--full] [--backend NAME] SCRIPT [ARG...]",        "the same, and reports graphs, guards and breaks at the end" },
  { "opt",     gm_tool_opt,     "[OPTION...] [FILE]",                      "reads a text graph, runs stages on it, prints it" },
  { "cache",   gm_tool_cache,   "ls|verify|clear",                         "compiled code on disk: lists it, checks all of it, removes it" },
  { "bench",   gm_tool_bench,   "[--json FILE] [--list] [CASE...]",        "runs benchmarks by name" },
  { "help",    help,            "[SUBCOMMAND]",                            "says how a subcommand is used" },
};
/* clang-format on */

static const Tool *
find_tool (const char *name)
{
  for (unsigned i = 0; i < G_N_ELEMENTS (tools); i++)
    if (strcmp (tools[i].name, name) == 0)
      return &tools[i];
  return NULL;
}

static void
print_all (FILE *to)
{
  fprintf (to, "usage: gramme SUBCOMMAND ...\n\n");
  for (unsigned i = 0; i < G_N_ELEMENTS (tools); i++)
    fprintf (to, "  %-12s %-34s %s\n", tools[i].name, tools[i].usage, tools[i].help);
  fprintf (to, "\nEnvironment: GRAMME_BACKEND (the default back end), GRAMME_PLUGIN_PATH (folders "
               "of plugins), GRAMME_PLUGIN_TRUST (a build tree to\n"
               "trust), GRAMME_LOGS (graph_breaks, recompiles, guards, graph_code, aot_graphs, "
               "output_code, plugins, cache ...),\nGRAMME_CACHE_DIR and GRAMME_CACHE=0 (compiled code on disk, and none).\n");
}

static int
unknown (const char *name)
{
  const char *names[G_N_ELEMENTS (tools) + 1] = { NULL };
  for (unsigned i = 0; i < G_N_ELEMENTS (tools); i++)
    names[i] = tools[i].name;
  g_autofree char *near = gm_near_text (name, names);
  fprintf (stderr, "gramme: there is no subcommand \"%s\"%s\n\n", name, near);
  print_all (stderr);
  return 2;
}

static const struct {
  const char *tool, *option, *what;
} options[] = {
#define OPTION(tool, option, what) { #tool, option, what },
#include "tools/options.def"
};

static int
help (int argc, char **argv)
{
  if (argc < 2) {
    print_all (stdout);
    return 0;
  }
  const Tool *t = find_tool (argv[1]);
  if (!t)
    return unknown (argv[1]);
  printf ("usage: gramme %s %s\n\n%s\n", t->name, t->usage, t->help);
  for (unsigned i = 0, n = 0; i < G_N_ELEMENTS (options); i++)
    if (strcmp (options[i].tool, t->name) == 0)
      printf ("%s  %-20s  %s\n", n++ ? "" : "\n", options[i].option, options[i].what);
  return 0;
}

int
gm_tool_misused (const char *name, const char *format, ...)
{
  const Tool *t = find_tool (name);
  va_list args;
  fprintf (stderr, "gramme %s: ", name);
  va_start (args, format);
  vfprintf (stderr, format, args);
  va_end (args);
  fprintf (stderr, "\nusage: gramme %s %s\n", name, t ? t->usage : "");
  return 2;
}

int
main (int argc, char **argv)
{
  if (argc < 2) {
    print_all (stderr);
    return 2;
  }
  if (strcmp (argv[1], "--version") == 0) {
    printf ("gramme %s (plugin ABI %d.%d)\n", PACKAGE_VERSION, GRAMME_ABI_MAJOR, GRAMME_ABI_MINOR);
    return 0;
  }
  if (strcmp (argv[1], "--help") == 0 || strcmp (argv[1], "-h") == 0) {
    print_all (stdout);
    return 0;
  }
  if (strcmp (argv[1], "probe") == 0) /* not for people, so not in the table */
    return gm_tool_probe (argc - 1, argv + 1);
  const Tool *t = find_tool (argv[1]);
  if (!t)
    return unknown (argv[1]);
  if (argc > 2 && t->run != help && strcmp (argv[2], "--help") == 0) {
    char *of[] = { argv[0], argv[1] };
    return help (2, of);
  }
  return t->run (argc - 1, argv + 1);
}
