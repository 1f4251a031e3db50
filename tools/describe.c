/* SPDX-License-Identifier: Apache-2.0
 * describe.c -- the help of `gramme`, its manual page and its completion for bash, from one set of
 * tables: tools.def, options.def and variables.def.
 */
#include <glib.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tools/describe.h"

#ifndef PACKAGE_VERSION
#error "define PACKAGE_VERSION"
#endif

static const struct {
  const char *name, *usage, *help, *arguments;
} tools[] = {
#define TOOL(name, run, usage, help, arguments) { name, usage, help, arguments },
#include "tools/tools.def"
};

static const struct {
  const char *tool, *option, *what;
} options[] = {
#define OPTION(tool, option, what) { #tool, option, what },
#include "tools/options.def"
};

static const struct {
  const char *name, *what;
} variables[] = {
#define VARIABLE(name, what) { name, what },
#include "tools/variables.def"
};

/* -- Help -------------------------------------------------------------------------------------- */

void
gm_describe_all (FILE *to)
{
  fprintf (to, "usage: gramme SUBCOMMAND ...\n\n");
  for (unsigned i = 0; i < G_N_ELEMENTS (tools); i++)
    fprintf (to, "  %-12s %-34s %s\n", tools[i].name, tools[i].usage, tools[i].help);
  fprintf (to, "\nEnvironment:\n\n");
  for (unsigned i = 0; i < G_N_ELEMENTS (variables); i++)
    fprintf (to, "  %-22s  %s\n", variables[i].name, variables[i].what);
}

void
gm_describe_one (FILE *to, const char *tool)
{
  for (unsigned i = 0; i < G_N_ELEMENTS (tools); i++)
    if (strcmp (tools[i].name, tool) == 0)
      fprintf (to, "usage: gramme %s %s\n\n%s\n", tool, tools[i].usage, tools[i].help);
  for (unsigned i = 0, n = 0; i < G_N_ELEMENTS (options); i++)
    if (strcmp (options[i].tool, tool) == 0)
      fprintf (to, "%s  %-20s  %s\n", n++ ? "" : "\n", options[i].option, options[i].what);
}

/* -- The manual page --------------------------------------------------------------------------- */

/* Prints text so that roff shows it literally. */
static void
roff (FILE *to, const char *text)
{
  for (const char *c = text; *c; c++)
    if (*c == '-' || *c == '\\')
      fprintf (to, *c == '-' ? "\\-" : "\\e");
    else
      fprintf (to, c == text && (*c == '.' || *c == '\'') ? "\\&%c" : "%c", *c);
}

static void
item (FILE *to, const char *bold, const char *more, const char *what)
{
  fprintf (to, ".TP\n\\fB");
  roff (to, bold);
  fprintf (to, "\\fR%s", *more ? " " : "");
  roff (to, more);
  fprintf (to, "\n");
  roff (to, what);
  fprintf (to, "\n");
}

void
gm_describe_man (FILE *to)
{
  fprintf (to, ".TH GRAMME 1 \"\" \"gramme %s\" \"User Commands\"\n", PACKAGE_VERSION);
  fprintf (to, ".SH NAME\ngramme \\- compiles tensor programs with back ends that are plugins\n");
  fprintf (to, ".SH SYNOPSIS\n.B gramme\n.I subcommand\n[\\fIargument\\fR ...]\n.br\n"
               ".B gramme \\-\\-version\n");
  fprintf (to, ".SH SUBCOMMANDS\n");
  for (unsigned i = 0; i < G_N_ELEMENTS (tools); i++) {
    item (to, tools[i].name, tools[i].usage, tools[i].help);
    bool any = false;
    for (unsigned k = 0; k < G_N_ELEMENTS (options); k++)
      if (strcmp (options[k].tool, tools[i].name) == 0) {
        const char *value = strchr (options[k].option, ' ');
        g_autofree char *name = g_strndup (options[k].option, strcspn (options[k].option, " "));
        fprintf (to, "%s", any ? "" : ".RS\n");
        item (to, name, value ? value + 1 : "", options[k].what);
        any = true;
      }
    fprintf (to, "%s", any ? ".RE\n" : "");
  }
  fprintf (to, ".SH ENVIRONMENT\n");
  for (unsigned i = 0; i < G_N_ELEMENTS (variables); i++)
    item (to, variables[i].name, "", variables[i].what);
  fprintf (to, ".SH EXIT STATUS\n0, 1 for a failure, 2 for a wrong command line; of\n.B run\nand\n"
               ".B explain\nthat of the script.\n");
  fprintf (to, ".SH SEE ALSO\nREADME.md, plugin\\-guide.md and plugin\\-reference.md in the folder "
               "of documents\n");
}

/* -- Completion for bash ----------------------------------------------------------------------- */

/* Prints the case of a bash completion for a value or an argument of this kind: words, "$(...)" and
 * files. */
static void
complete (FILE *to, const char *kind)
{
  g_auto (GStrv) words = g_strsplit (kind, " ", -1);
  bool files = false;
  g_autoptr (GString) list = g_string_new (NULL);
  for (char **w = words; *w; w++)
    if (strcmp (*w, "@files") == 0)
      files = true;
    else if (strcmp (*w, "@backends") == 0)
      g_string_append (list, " $(gramme inspect 2>/dev/null | awk 'NR > 1 { print $1 }')");
    else if (strcmp (*w, "@tools") == 0)
      g_string_append (list, " $tools");
    else
      g_string_append_printf (list, " %s", *w);
  if (files)
    fprintf (to, "COMPREPLY=($(compgen -f -- \"$word\")); ");
  if (list->len > 0)
    fprintf (to, "COMPREPLY+=($(compgen -W \"%s\" -- \"$word\")); ", list->str + 1);
  fprintf (to, ";;\n");
}

void
gm_describe_bash (FILE *to)
{
  fprintf (to, "# Completion of `gramme` for bash, made by `gramme help --bash`.\n_gramme ()\n{\n"
               "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} "
               "tool=${COMP_WORDS[1]}\n  local tools=\"");
  for (unsigned i = 0; i < G_N_ELEMENTS (tools); i++)
    fprintf (to, "%s%s", i ? " " : "", tools[i].name);
  fprintf (to, "\"\n  COMPREPLY=()\n  if ((COMP_CWORD == 1)); then\n    COMPREPLY=($(compgen -W "
               "\"$tools --help --version\" -- \"$word\"))\n    return\n  fi\n"
               "  case $tool:$before in\n");
  for (unsigned i = 0; i < G_N_ELEMENTS (options); i++) {
    const char *value = strchr (options[i].option, ' ');
    if (!value)
      continue;
    int n = (int) (value - options[i].option);
    fprintf (to, "  %s:%.*s) ", options[i].tool, n, options[i].option);
    bool file = g_str_has_prefix (value, " FILE") || strcmp (value, " DIR") == 0;
    complete (to, strcmp (value, " NAME") == 0 ? "@backends" : file ? "@files" : "");
  }
  fprintf (to, "  *:*)\n    case $tool:$word in\n");
  for (unsigned i = 0; i < G_N_ELEMENTS (tools); i++) {
    g_autoptr (GString) own = g_string_new ("--help");
    for (unsigned k = 0; k < G_N_ELEMENTS (options); k++)
      if (strcmp (options[k].tool, tools[i].name) == 0)
        g_string_append_printf (own, " %.*s", (int) strcspn (options[k].option, " "),
                                options[k].option);
    fprintf (to, "    %s:-*) ", tools[i].name);
    complete (to, own->str);
    fprintf (to, "    %s:*) ", tools[i].name);
    complete (to, tools[i].arguments);
  }
  fprintf (to, "    esac ;;\n  esac\n}\ncomplete -o filenames -F _gramme gramme\n");
}
