/* SPDX-License-Identifier: Apache-2.0
 * run.c -- `gramme run`: a Python script with a default back end, or with every function captured.
 *
 * The name is checked against the registry first, so that a misspelt one fails at once and not
 * after the script's imports.  Then this process becomes Python, so signals, standard streams and
 * the exit status are the script's own.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/installed.h"
#include "core/plugin/registry.h"
#include "tools/tools.h"

#ifndef GRAMME_PYTHON
#define GRAMME_PYTHON "/usr/bin/python3"
#endif

/* Adds the package of this installation to PYTHONPATH, after the user's entries. */
static void
set_python_path (void)
{
  g_autofree char *ours = gm_installed_path (GM_WAY_TO_PYTHON);
  const char *users = g_getenv ("PYTHONPATH");
  g_autofree char *path =
      users && users[0] ? g_strdup_printf ("%s:%s", users, ours) : g_strdup (ours);
  g_setenv ("PYTHONPATH", path, TRUE);
}

int
gm_tool_exec_python (const char *script, char **args)
{
  const char *said = g_getenv ("GM_PYTHON"); /* set where pip installed gramme: the interpreter that
                                              * started this program */
  const char *python = said && said[0] ? said : GRAMME_PYTHON;
  if (strcmp (python, ":") == 0) {
    fprintf (stderr,
             "gramme: this gramme was configured --without-python, so it has no Python package\n");
    return 1;
  }
  g_autoptr (GPtrArray) argv = g_ptr_array_new ();
  g_ptr_array_add (argv, (char *) python);
  g_ptr_array_add (argv, (char *) script);
  for (; args && *args; args++)
    g_ptr_array_add (argv, *args);
  g_ptr_array_add (argv, NULL);
  if (python != said) /* that interpreter has the package already */
    set_python_path ();
  fflush (NULL);
  execv (python, (char **) argv->pdata);
  fprintf (stderr, "gramme: %s, the Python that gramme was configured for, cannot be started: %s\n",
           python, g_strerror (errno));
  return 1;
}

static bool
backend_exists (const char *tool, const char *name)
{
  g_autoptr (GPtrArray) plugins = gm_registry_scan ();
  g_autoptr (GError) error = NULL;
  if (gm_registry_find (plugins, name, &error))
    return true;
  fprintf (stderr, "gramme %s: %s\n", tool, error->message);
  return false;
}

int
gm_tool_run_script (int argc, char **argv)
{
  int i = 1;
  bool capture_all = false;
  for (; i < argc && argv[i][0] == '-'; i++) {
    const char *name = NULL;
    if (strcmp (argv[i], "--backend") == 0 && i + 1 < argc)
      name = argv[++i];
    else if (g_str_has_prefix (argv[i], "--backend="))
      name = argv[i] + strlen ("--backend=");
    else if (strcmp (argv[i], "--capture-all") == 0) {
      capture_all = true;
      continue;
    } else
      return gm_tool_misused (
          argv[0], strcmp (argv[i], "--backend") == 0 ? "%s wants a name" : "there is no option %s",
          argv[i]);
    if (!backend_exists (argv[0], name))
      return 1;
    g_setenv ("GRAMME_BACKEND", name, TRUE);
  }
  if (i == argc)
    return gm_tool_misused (argv[0], "which script?");
  if (access (argv[i], R_OK) != 0) {
    fprintf (stderr, "gramme %s: %s cannot be read: %s\n", argv[0], argv[i], g_strerror (errno));
    return 1;
  }
  if (!capture_all)
    return gm_tool_exec_python (argv[i], argv + i + 1);
  g_autoptr (GPtrArray) args = g_ptr_array_new ();
  g_ptr_array_add (args, "gramme._dynamo.run");
  for (; argv[i]; i++)
    g_ptr_array_add (args, argv[i]);
  g_ptr_array_add (args, NULL);
  return gm_tool_exec_python ("-m", (char **) args->pdata);
}

int
gm_tool_run (int argc, char **argv)
{
  return gm_tool_run_script (argc, argv);
}
