/* SPDX-License-Identifier: Apache-2.0
 * why.c -- `gramme why` and `gramme rescan`: explain why a plugin is not used, and try it again.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/plugin/probe.h"
#include "core/plugin/registry.h"
#include "core/plugin/trust.h"
#include "tools/tools.h"

/* Returns all plugins with this name, id or path, as pointers into *all, which the caller frees. */
static GPtrArray *
find_all (const char *name, GPtrArray **all)
{
  GPtrArray *found = g_ptr_array_new ();
  *all = gm_registry_scan ();
  for (guint i = 0; i < (*all)->len; i++) {
    const GmPluginInfo *info = (*all)->pdata[i];
    g_autofree char *base = g_path_get_basename (info->file);
    const char *id = info->manifest ? info->manifest->id : NULL;
    if (!name || strcmp (info->name, name) == 0 || g_strcmp0 (id, name) == 0
        || strcmp (base, name) == 0 || strcmp (info->file, name) == 0)
      g_ptr_array_add (found, (gpointer) info);
  }
  if (found->len == 0 && name && strchr (name, '/')) {
    g_autofree char *path = g_canonicalize_filename (name, NULL);
    GmPluginInfo *info = gm_registry_examine (path);
    g_ptr_array_add (*all, info);
    g_ptr_array_add (found, info);
  }
  return found;
}

static int
fail_unknown (const char *tool, const char *name, GPtrArray *all)
{
  g_autoptr (GError) error = NULL;
  gm_registry_find (all, name, &error);
  fprintf (stderr, "gramme %s: %s\n", tool, error->message);
  return 1;
}

/* Prints a text with each line indented. */
static void
print_output (const char *text)
{
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  for (char **l = lines; *l; l++)
    if (**l)
      printf ("    | %s\n", *l);
}

static void
print_one (const GmPluginInfo *info)
{
  g_autofree char *when = NULL, *output = NULL;
  gm_quarantine_details (info->file, &when, &output);
  printf ("%s: %s\n", info->name, info->file);
  if (info->is_auto)
    printf ("  used; part of gramme, no file to be tried\n");
  else if (info->refused.code == GM_REFUSAL_NONE)
    printf ("  used; %s%s%s\n", info->tried == GM_TRIED_GOOD ? "tried on " : "",
            info->tried == GM_TRIED_GOOD ? when : "not tried yet",
            info->tried == GM_TRIED_GOOD ? " without trouble"
                                         : ": that happens when it is asked for");
  else
    printf ("  refused (%s): it %s\n  what to do: %s\n", gm_refusal_names[info->refused.code],
            info->refused.text, gm_refusal_remedies[info->refused.code]);
  if (info->tried == GM_TRIED_BAD) {
    printf ("  tried on %s; it is tried again when the file or a library that it needs changes, or "
            "by: gramme rescan %s\n",
            when, info->name);
    if (output) {
      printf ("  it printed:\n");
      print_output (output);
    }
  }
}

int
gm_tool_why (int argc, char **argv)
{
  if (argc != 2)
    return gm_tool_misused (argv[0], "name one plugin or file");
  g_autoptr (GPtrArray) all = NULL;
  g_autoptr (GPtrArray) found = find_all (argv[1], &all);
  if (found->len == 0)
    return fail_unknown (argv[0], argv[1], all);
  bool used = false;
  for (guint i = 0; i < found->len; i++) {
    const GmPluginInfo *info = found->pdata[i];
    print_one (info);
    used = used || info->refused.code == GM_REFUSAL_NONE;
  }
  return used ? 0 : 1;
}

/* Tries a plugin again, in another process, if trust and manifest permit that. */
static bool
try_again (const GmPluginInfo *known)
{
  gm_quarantine_forget (known->file);
  g_autoptr (GmPluginInfo) info = gm_registry_examine (known->file);
  if (info->refused.code != GM_REFUSAL_NONE) {
    printf ("%s: refused: %s %s\n", info->name, info->file, info->refused.text);
    return false;
  }
  GmFileKey key;
  uint64_t libraries;
  GmRefused why = { 0 };
  g_autofree char *canonical = NULL;
  int fd = gm_trust_open (info->file, &canonical, &libraries, &why);
  if (fd < 0) { /* the file has just changed */
    gm_refused_clear (&why);
    return false;
  }
  gm_file_key_of (fd, libraries, &key);
  close (fd);
  GmTried tried = gm_probe (info->file, &why);
  if (tried != GM_TRIED_NOT)
    gm_quarantine_note (info->file, &key, &why);
  printf ("%s: %s%s\n", info->name,
          tried == GM_TRIED_GOOD  ? "good"
          : tried == GM_TRIED_BAD ? "refused: it "
                                  : "not tried: the program gramme cannot be started",
          why.code ? why.text : "");
  gm_refused_clear (&why);
  return tried == GM_TRIED_GOOD;
}

int
gm_tool_rescan (int argc, char **argv)
{
  if (argc > 2)
    return gm_tool_misused (argv[0], "one name at a time");
  const char *name = argc == 2 ? argv[1] : NULL;
  g_autoptr (GPtrArray) all = NULL;
  g_autoptr (GPtrArray) found = find_all (name, &all);
  if (found->len == 0 && name)
    return fail_unknown (argv[0], name, all);
  bool good = true;
  for (guint i = 0; i < found->len; i++)
    good = try_again (found->pdata[i]) && good;
  return good ? 0 : 1;
}

int
gm_tool_probe (int argc, char **argv)
{
  if (argc != 3) {
    fprintf (stderr,
             "gramme probe is what the library starts; for people there is gramme rescan\n");
    return 2;
  }
  gm_probe_main (argv[1], argv[2]);
}
