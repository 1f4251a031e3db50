/* SPDX-License-Identifier: Apache-2.0
 * inspect.c -- `gramme inspect`: the registry as a table, as one description, or as JSON.  A plugin
 * is loaded only if it is named and its devices do not include the CPU: it reports the devices of
 * this machine.  With --graph FILE and a name, that plugin is loaded and asked which nodes of the
 * text graph it takes, in which regions, and why not the others.
 */
#include <stdio.h>
#include <string.h>

#include "core/base/error.h"
#include "core/plugin/registry.h"
#include "core/run/sized.h"
#include "tools/tools.h"

/* -- JSON -------------------------------------------------------------------------------------- */

static void
json_string (const char *s)
{
  putchar ('"');
  for (; s && *s; s++) {
    unsigned char c = (unsigned char) *s;
    if (c == '"' || c == '\\')
      printf ("\\%c", c);
    else if (c < 0x20)
      printf ("\\u%04x", c);
    else
      putchar (c);
  }
  putchar ('"');
}

static void
json_member (const char *key, const char *value, const char *end)
{
  printf ("   ");
  json_string (key);
  printf (": ");
  if (value)
    json_string (value);
  else
    printf ("null");
  printf ("%s\n", end);
}

static void
json_list (const char *key, char **items, const char *end)
{
  printf ("   \"%s\": [", key);
  for (char **i = items; i && *i; i++) {
    printf ("%s", i > items ? ", " : "");
    json_string (*i);
  }
  printf ("]%s\n", end);
}

static void
json_options (const GmManifest *m)
{
  static const char *const types[] = { "string", "int", "bool", "choice" };
  printf ("   \"options\": [");
  for (guint i = 0; m && i < m->options->len; i++) {
    const GmPluginOption *o = m->options->pdata[i];
    printf ("%s{\"key\": ", i ? ", " : "");
    json_string (o->key);
    printf (", \"type\": \"%s\", \"default\": ", types[o->type]);
    if (o->fallback)
      json_string (o->fallback);
    else
      printf ("null");
    printf (", \"help\": ");
    json_string (o->help);
    printf ("}");
  }
  printf ("]\n");
}

static void
print_json (const GmPluginInfo *info, bool last)
{
  const GmManifest *m = info->manifest;
  bool refused = info->refused.code != GM_REFUSAL_NONE;
  printf ("  {\n");
  json_member ("name", info->name, ",");
  json_member ("id", m ? m->id : NULL, ",");
  json_member ("version", m ? m->version : NULL, ",");
  json_member ("license", m ? m->license : NULL, ",");
  json_member ("file", info->file, ",");
  json_member ("state", refused ? "refused" : "ok", ",");
  json_member ("refusal", refused ? gm_refusal_names[info->refused.code] : NULL, ",");
  json_member ("reason", info->refused.text, ",");
  printf ("   \"bit_exact\": %s,\n   \"rank\": %d,\n", m && m->bit_exact ? "true" : "false",
          m ? m->rank : 0);
  json_list ("devices", m ? m->devices : NULL, ",");
  json_list ("dtypes", m ? m->dtypes : NULL, ",");
  json_list ("flags", m ? m->flags : NULL, ",");
  json_list ("needs", m ? m->needs : NULL, ",");
  json_options (m);
  printf ("  }%s\n", last ? "" : ",");
}

/* -- Text -------------------------------------------------------------------------------------- */

static void
print_table (const GPtrArray *plugins)
{
  if (plugins->len == 0) {
    g_auto (GStrv) folders = gm_registry_folders ();
    g_autofree char *all = g_strjoinv (", ", folders);
    printf ("no plugins in %s\n", all);
    return;
  }
  printf ("%-12s %-10s %-12s %-8s %s\n", "NAME", "VERSION", "DEVICES", "STATE", "FILE");
  for (guint i = 0; i < plugins->len; i++) {
    const GmPluginInfo *info = plugins->pdata[i];
    const GmManifest *m = info->manifest;
    g_autofree char *devices = g_strjoinv (",", m ? m->devices : (char *[]){ NULL });
    bool refused = info->refused.code != GM_REFUSAL_NONE;
    printf ("%-12s %-10s %-12s %-8s %s\n", info->name, m && m->version ? m->version : "-",
            devices[0] ? devices : "-", refused ? "refused" : "ok", info->file);
    if (refused)
      printf ("             %s\n", info->refused.text);
  }
}

static void
print_list (const char *title, char **items)
{
  g_autofree char *text = g_strjoinv (", ", items);
  if (text[0])
    printf ("  %-10s %s\n", title, text);
}

static void
print_option (const GmPluginOption *o)
{
  g_autofree char *kind = NULL;
  switch (o->type) {
  case GM_OPTION_STRING:
    kind = g_strdup ("text");
    break;
  case GM_OPTION_BOOL:
    kind = g_strdup ("true or false");
    break;
  case GM_OPTION_INT:
    kind = o->min == INT64_MIN
               ? g_strdup ("a whole number")
               : g_strdup_printf ("%" G_GINT64_FORMAT "..%" G_GINT64_FORMAT, o->min, o->max);
    break;
  case GM_OPTION_CHOICE:
    kind = g_strjoinv (" | ", o->values);
    break;
  }
  printf ("    %s = %s", o->key, kind);
  if (o->fallback)
    printf (" (default %s)", o->fallback);
  printf ("%s%s\n", o->help ? ": " : "", o->help ? o->help : "");
}

static void
print_one (const GmPluginInfo *info)
{
  const GmManifest *m = info->manifest;
  bool refused = info->refused.code != GM_REFUSAL_NONE;
  printf ("%s %s\n", info->name, m && m->version ? m->version : "");
  printf ("  %-10s %s\n", "file", info->file);
  printf ("  %-10s %s%s%s\n", "state", refused ? "refused: it " : "ok",
          refused ? info->refused.text : "", "");
  if (!m)
    return;
  if (m->id)
    printf ("  %-10s %s\n", "id", m->id);
  if (m->license)
    printf ("  %-10s %s\n", "license", m->license);
  printf ("  %-10s %d.%d, needs a host of minor %d\n", "abi", m->abi_major, m->abi_minor,
          m->min_host_minor);
  print_list ("devices", m->devices);
  print_list ("dtypes", m->dtypes);
  print_list ("flags", m->flags);
  print_list ("needs", m->needs);
  printf ("  %-10s %s\n", "results",
          m->bit_exact ? "equal to eager's, bit for bit"
                       : "not promised to be bit-identical to eager's");
  if (m->options->len > 0)
    printf ("  options\n");
  for (guint i = 0; i < m->options->len; i++)
    print_option (m->options->pdata[i]);
}

/* Prints the report of a back end for another device than the CPU, which depends on this
 * machine. */
static void
print_about (const GmPluginInfo *info)
{
  if (info->refused.code != GM_REFUSAL_NONE || !info->manifest
      || g_strv_contains ((const char *const *) info->manifest->devices, "cpu"))
    return;
  GmBackend *b = gm_backend_get (info->name, NULL);
  g_autofree char *about = b ? gm_backend_text (b, "about") : NULL;
  g_auto (GStrv) lines = about ? g_strsplit (g_strchomp (about), "\n", -1) : NULL;
  for (char **l = lines; l && *l; l++)
    printf ("  %s\n", *l);
}

/* -- A graph ----------------------------------------------------------------------------------- */

/* Prints, for a plugin that needs numbers, the verdicts for an example of the numbers after
 * `where`, if each symbol has a hint. False: an error is set. */
static bool
show_example (GmBackend *b, const GmGraph *forward, const GmGraph *backward, GError **error)
{
  if (backward || !forward->sizes) /* a backward has symbols of its own */
    return true;
  const GArray *hints = forward->sizes->hints;
  GString *numbers = g_string_new (NULL);
  for (guint i = 0; i < hints->len; i++) {
    int64_t n = g_array_index (hints, int64_t, i);
    if (n == GM_SIZE_NO_HINT) {
      g_string_free (numbers, TRUE);
      return true;
    }
    g_string_append_printf (numbers, "%s%s = %" G_GINT64_FORMAT, i ? ", " : "",
                            gm_sizes_symbol_name (forward->sizes, i), n);
  }
  printf ("for example, where %s:\n", numbers->str);
  g_string_free (numbers, TRUE);
  g_autoptr (GmArena) arena = gm_arena_new ();
  g_autoptr (GmGraph) now =
      gm_graph_specialise (forward, (const int64_t *) (void *) hints->data, arena, error);
  g_autoptr (GmExec) e = now ? gm_backend_compile (b, now, NULL, NULL, error) : NULL;
  g_autofree char *places = e ? gm_exec_places_text (e, true) : NULL;
  printf ("%s", places ? places : "");
  return e != NULL;
}

static bool
show_graph (const char *file, const char *name, GError **error)
{
  g_autofree char *text = NULL;
  if (!g_file_get_contents (file, &text, NULL, error))
    return false;
  g_autoptr (GPtrArray) graphs = gm_graph_parse (text, error);
  GmBackend *b = graphs ? gm_backend_get (name, error) : NULL;
  for (guint i = 0; b && i < graphs->len; i++) {
    const GmGraph *g = graphs->pdata[i];
    const GmGraph *next = i + 1 < graphs->len ? graphs->pdata[i + 1] : NULL;
    const GmGraph *backward = next && g_strcmp0 (next->name, "backward") == 0 ? next : NULL;
    g_autoptr (GmExec) e = gm_backend_compile (b, g, backward, NULL, error);
    if (!e)
      return false;
    g_autofree char *places = gm_exec_places_text (e, true);
    printf ("%s%s", i ? "\n" : "", places ? places : "nothing to run\n");
    if (e->sized && gm_sized_why (e->sized) && !show_example (b, g, backward, error))
      return false;
    i += backward != NULL;
  }
  return b != NULL;
}

/* -- The tool ---------------------------------------------------------------------------------- */

static bool
is_called (const GmPluginInfo *info, const char *name)
{
  return strcmp (info->name, name) == 0
         || (info->manifest && info->manifest->id && strcmp (info->manifest->id, name) == 0);
}

int
gm_tool_inspect (int argc, char **argv)
{
  const char *name = NULL, *graph = NULL;
  bool json = false;
  for (int i = 1; i < argc; i++) {
    if (strcmp (argv[i], "--json") == 0)
      json = true;
    else if (strcmp (argv[i], "--graph") == 0 && i + 1 < argc)
      graph = argv[++i];
    else if (argv[i][0] == '-')
      return gm_tool_misused (argv[0], "there is no option %s", argv[i]);
    else if (name)
      return gm_tool_misused (argv[0], "one name at a time: %s or %s", name, argv[i]);
    else
      name = argv[i];
  }

  if (graph) {
    g_autoptr (GError) error = NULL;
    if (!name)
      return gm_tool_misused (argv[0], "--graph needs the name of a back end");
    if (show_graph (graph, name, &error))
      return 0;
    fprintf (stderr, "gramme inspect: %s\n", error->message);
    return 1;
  }

  g_autoptr (GPtrArray) all = gm_registry_scan ();
  g_autoptr (GPtrArray) shown = g_ptr_array_new ();
  for (guint i = 0; i < all->len; i++)
    if (!name || is_called (all->pdata[i], name))
      g_ptr_array_add (shown, all->pdata[i]);
  if (name && shown->len == 0) {
    g_autoptr (GError) error = NULL;
    gm_registry_find (all, name, &error);
    fprintf (stderr, "gramme inspect: %s\n", error->message);
    return 1;
  }
  if (json)
    printf ("[\n");
  else if (!name)
    print_table (shown);
  for (guint i = 0; i < shown->len; i++)
    if (json)
      print_json (shown->pdata[i], i + 1 == shown->len);
    else if (name) {
      print_one (shown->pdata[i]);
      print_about (shown->pdata[i]);
    }
  if (json)
    printf ("]\n");
  return 0;
}
