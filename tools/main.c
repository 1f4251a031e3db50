/* SPDX-License-Identifier: Apache-2.0
 * main.c -- the program: a table of subcommands.
 */
#include <glib.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/plugin/spelling.h"
#include "plugin-api/gramme-plugin.h"
#include "tools/describe.h"
#include "tools/tools.h"

#ifndef PACKAGE_VERSION
#error "define PACKAGE_VERSION"
#endif

typedef struct {
  const char *name;
  int (*run) (int argc, char **argv);
  const char *usage;
} Tool;

static int gm_tool_help (int argc, char **argv);

static const Tool tools[] = {
#define TOOL(name, run, usage, help, arguments) { name, run, usage },
#include "tools/tools.def"
};

static const Tool *
find_tool (const char *name)
{
  for (unsigned i = 0; i < G_N_ELEMENTS (tools); i++)
    if (strcmp (tools[i].name, name) == 0)
      return &tools[i];
  return NULL;
}

static int
unknown (const char *name)
{
  const char *names[G_N_ELEMENTS (tools) + 1] = { NULL };
  for (unsigned i = 0; i < G_N_ELEMENTS (tools); i++)
    names[i] = tools[i].name;
  g_autofree char *near = gm_spelling_text (name, names);
  fprintf (stderr, "gramme: there is no subcommand \"%s\"%s\n\n", name, near);
  gm_describe_all (stderr);
  return 2;
}

static int
gm_tool_help (int argc, char **argv)
{
  if (argc < 2)
    gm_describe_all (stdout);
  else if (strcmp (argv[1], "--man") == 0)
    gm_describe_man (stdout);
  else if (strcmp (argv[1], "--bash") == 0)
    gm_describe_bash (stdout);
  else if (find_tool (argv[1]))
    gm_describe_one (stdout, argv[1]);
  else
    return unknown (argv[1]);
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
    gm_describe_all (stderr);
    return 2;
  }
  if (strcmp (argv[1], "--version") == 0) {
    printf ("gramme %s (plugin ABI %d.%d)\n", PACKAGE_VERSION, GRAMME_ABI_MAJOR, GRAMME_ABI_MINOR);
    return 0;
  }
  if (strcmp (argv[1], "--help") == 0 || strcmp (argv[1], "-h") == 0) {
    gm_describe_all (stdout);
    return 0;
  }
  if (strcmp (argv[1], "probe") == 0) /* started by the library only, so not in the table */
    return gm_tool_probe (argc - 1, argv + 1);
  const Tool *t = find_tool (argv[1]);
  if (!t)
    return unknown (argv[1]);
  if (argc > 2 && t->run != gm_tool_help && strcmp (argv[2], "--help") == 0) {
    gm_describe_one (stdout, argv[1]);
    return 0;
  }
  return t->run (argc - 1, argv + 1);
}
