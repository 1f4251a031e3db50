/* SPDX-License-Identifier: Apache-2.0
 * registry.c -- the scan of the plugin folders, and the choice of one by name.
 */
#include "core/plugin/registry.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/home.h"
#include "core/base/installed.h"
#include "core/base/log.h"
#include "core/plugin/spelling.h"
#include "core/plugin/sidecar.h"
#include "core/plugin/trust.h"

#define PREFIX "libgramme-"
#define SUFFIX ".so"

const char gm_auto_manifest[] =
    "[gramme-plugin]\n"
    "id=org.gramme.auto\n"
    "name=auto\n"
    "version=0.1.0\n"
    "license=Apache-2.0\n"
    "abi=0.0\n"
    "rank=300\n"
    "bit-exact=true\n"
    "devices=cpu;\n"
    "flags=backward;run-concurrent;\n"
    "[option auto.first]\n"
    "type=string\n"
    "help=the back end whose code runs at once; by default tcc, or eager where there is no tcc\n"
    "[option auto.then]\n"
    "type=string\n"
    "help=the back end that compiles in the background, or none; by default cc\n"
    "[option auto.after]\n"
    "type=int\n"
    "range=1..1000000000\n"
    "default=2\n"
    "help=the call with which compiling in the background begins\n"
    "[option auto.wait]\n"
    "type=bool\n"
    "default=false\n"
    "help=compile with the second back end at once, and wait for it\n";

/* Loads that failed in this process: file -> GmRefused. */
static GMutex failures_lock;
static GHashTable *failures;

/* -- Scanning ---------------------------------------------------------------------------------- */

char **
gm_registry_folders (void)
{
  GPtrArray *folders = g_ptr_array_new ();
  if (!gm_trust_is_secure_mode ()) {
    const char *path = secure_getenv ("GRAMME_PLUGIN_PATH");
    g_auto (GStrv) entries = g_strsplit (path ? path : "", ":", -1);
    for (char **e = entries; *e; e++)
      /* A relative folder would mean another folder after each chdir. */
      if (g_path_is_absolute (*e))
        g_ptr_array_add (folders, g_strdup (*e));
      else if (**e)
        gm_log (GM_LOG_PLUGINS, "GRAMME_PLUGIN_PATH: \"%s\" is not absolute and not searched", *e);
    g_autofree char *data = gm_home_folder ("XDG_DATA_HOME", ".local/share");
    if (data)
      g_ptr_array_add (folders, g_build_filename (data, "gramme", "plugins-1", NULL));
  }
  g_ptr_array_add (folders, gm_installed_path (GM_WAY_TO_PLUGINS));
  g_ptr_array_add (folders, NULL);
  return (char **) g_ptr_array_free (folders, FALSE);
}

void
gm_plugin_info_free (GmPluginInfo *info)
{
  if (!info)
    return;
  g_free (info->file);
  g_free (info->name);
  gm_manifest_free (info->manifest);
  gm_refused_clear (&info->refused);
  g_free (info);
}

static void
info_free (void *p)
{
  gm_plugin_info_free (p);
}

/* Returns the manifest of a refused file, for listings only; NULL if it cannot be read.  The caller
 * frees. */
static GmManifest *
read_for_show (const char *file)
{
  int fd = open (file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return NULL;
  GmRefused ignored = { 0 };
  GmManifest *partial = NULL;
  char *text = gm_elf_read_manifest (fd, &ignored);
  GmManifest *m = text ? gm_manifest_parse (text, &partial, &ignored) : NULL;
  gm_refused_clear (&ignored);
  close (fd);
  return m ? m : partial;
}

static char *
name_from_file (const char *file)
{
  g_autofree char *base = g_path_get_basename (file);
  bool usual = g_str_has_prefix (base, PREFIX) && g_str_has_suffix (base, SUFFIX)
               && strlen (base) > strlen (PREFIX SUFFIX);
  char *name = usual ? g_strndup (base + strlen (PREFIX), strlen (base) - strlen (PREFIX SUFFIX))
                     : g_strndup (base, 64);
  return g_strcanon (name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.",
                     '?'); /* characters that are safe on a terminal */
}

GmPluginInfo *
gm_registry_examine (const char *file)
{
  GmPluginInfo *info = g_new0 (GmPluginInfo, 1);
  uint64_t libraries;
  int fd = gm_trust_open (file, &info->file, &libraries, &info->refused);
  if (!info->file)
    info->file = g_strdup (file);
  if (fd >= 0) {
    GmFileKey key;
    gm_file_key_of (fd, libraries, &key);
    char *text = gm_manifest_read (fd, info->file, &info->refused);
    GmManifest *partial = NULL;
    GmManifest *whole = text ? gm_manifest_parse (text, &partial, &info->refused) : NULL;
    info->manifest = whole ? whole : partial;
    close (fd);
    if (whole)
      info->tried = gm_quarantine_find (info->file, &key, &info->refused);
  } else {
    info->manifest = read_for_show (file);
  }
  info->name = info->manifest && info->manifest->name ? g_strdup (info->manifest->name)
                                                      : name_from_file (info->file);

  g_mutex_lock (&failures_lock);
  const GmRefused *failed = failures ? g_hash_table_lookup (failures, info->file) : NULL;
  if (failed && info->refused.code == GM_REFUSAL_NONE)
    info->refused = (GmRefused){ failed->code, g_strdup (failed->text) };
  g_mutex_unlock (&failures_lock);
  return info;
}

/* Refuses duplicates: of the files with one id, all but the first; of files with one name but
 * different ids, all, as they have to be asked for by their ids. */
static void
settle (GPtrArray *plugins)
{
  for (guint i = 0; i < plugins->len; i++) {
    GmPluginInfo *later = plugins->pdata[i];
    for (guint k = 0; k < i && later->refused.code == GM_REFUSAL_NONE; k++) {
      GmPluginInfo *first = plugins->pdata[k];
      if (first->refused.code != GM_REFUSAL_NONE && first->refused.code != GM_REFUSAL_NAME_TAKEN)
        continue;
      if (strcmp (first->manifest->id, later->manifest->id) == 0) {
        gm_refuse (&later->refused, GM_REFUSAL_SHADOWED, "%s, found earlier, is %s too",
                   first->file, later->manifest->id);
      } else if (strcmp (first->name, later->name) == 0) {
        gm_refuse (&first->refused, GM_REFUSAL_NAME_TAKEN, "%s (%s); ask for it by its id %s",
                   later->file, later->manifest->id, first->manifest->id);
        gm_refuse (&later->refused, GM_REFUSAL_NAME_TAKEN, "%s (%s); ask for it by its id %s",
                   first->file, first->manifest->id, later->manifest->id);
      }
    }
  }
}

static int
by_string (const void *a, const void *b)
{
  return strcmp (*(char *const *) a, *(char *const *) b);
}

/* Returns a new entry for the back end `auto`, which is not a plugin. */
static GmPluginInfo *
auto_info (void)
{
  GmPluginInfo *info = g_new0 (GmPluginInfo, 1);
  info->file = g_strdup (GM_AUTO_FILE);
  info->tried = GM_TRIED_GOOD;
  info->is_auto = true;
  info->manifest = gm_manifest_parse (g_strdup (gm_auto_manifest), NULL, NULL);
  info->name = g_strdup (info->manifest->name);
  return info;
}

GPtrArray *
gm_registry_scan (void)
{
  GPtrArray *plugins = g_ptr_array_new_with_free_func (info_free);
  g_auto (GStrv) folders = gm_registry_folders ();
  for (char **f = folders; *f; f++) {
    g_autoptr (GDir) dir = g_dir_open (*f, 0, NULL);
    gm_log (GM_LOG_PLUGINS, "%s: %s", *f, dir ? "searched" : "not there");
    if (!dir)
      continue;
    /* Sorted, since the order of a folder's files is not defined and every run must find the same
     * file first. */
    g_autoptr (GPtrArray) files = g_ptr_array_new_with_free_func (g_free);
    for (const char *name = g_dir_read_name (dir); name; name = g_dir_read_name (dir))
      if (g_str_has_prefix (name, PREFIX) && g_str_has_suffix (name, SUFFIX)
          && strlen (name) > strlen (PREFIX SUFFIX))
        g_ptr_array_add (files, g_build_filename (*f, name, NULL));
    g_ptr_array_sort (files, by_string);
    for (guint i = 0; i < files->len; i++) {
      GmPluginInfo *info = gm_registry_examine (files->pdata[i]);
      /* The same folder was listed twice, or a link leads to a file that was found already. */
      bool again = false;
      for (guint k = 0; k < plugins->len && !again; k++)
        again = strcmp (((GmPluginInfo *) plugins->pdata[k])->file, info->file) == 0;
      if (again)
        info_free (info);
      else
        g_ptr_array_add (plugins, info);
    }
  }
  g_ptr_array_add (plugins, auto_info ());
  settle (plugins);
  return plugins;
}

void
gm_registry_note_failure (const char *file, const GmRefused *why)
{
  g_mutex_lock (&failures_lock);
  if (!failures)
    failures = g_hash_table_new (g_str_hash, g_str_equal);
  GmRefused *copy = g_new (GmRefused, 1);
  *copy = (GmRefused){ why->code, g_strdup (why->text) };
  g_hash_table_insert (failures, g_strdup (file), copy); /* process lifetime */
  g_mutex_unlock (&failures_lock);
}

/* -- Finding ----------------------------------------------------------------------------------- */

static bool
answers_to (const GmPluginInfo *info, const char *name)
{
  return strcmp (info->name, name) == 0
         || (info->manifest && info->manifest->id && strcmp (info->manifest->id, name) == 0);
}

/* Returns a text with the folders that were searched, and the reason if an existing folder cannot
 * be read: a process without free descriptors finds nothing.  The caller frees. */
static char *
searched_text (void)
{
  g_auto (GStrv) folders = gm_registry_folders ();
  GString *text = g_string_new (NULL);
  for (char **f = folders; *f; f++) {
    g_autoptr (GError) why = NULL;
    g_autoptr (GDir) dir = g_dir_open (*f, 0, &why);
    g_string_append_printf (text, "%s%s", f == folders ? "" : ", ", *f);
    if (!dir && !g_error_matches (why, G_FILE_ERROR, G_FILE_ERROR_NOENT))
      g_string_append_printf (text, ", which cannot be read: %s", why->message);
  }
  return g_string_free (text, FALSE);
}

static void
fail_unknown (const GPtrArray *plugins, const char *name, GError **error)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new ();
  for (guint i = 0; i < plugins->len; i++) {
    const GmPluginInfo *info = plugins->pdata[i];
    if (info->refused.code == GM_REFUSAL_NONE)
      g_ptr_array_add (names, info->name);
  }
  g_ptr_array_sort (names, by_string);
  g_ptr_array_add (names, NULL);
  g_autofree char *near = gm_spelling_text (name, (const char *const *) names->pdata);
  g_autofree char *all = g_strjoinv (", ", (char **) names->pdata);
  g_autofree char *searched = searched_text ();
  g_set_error (error, GM_ERROR, GM_ERROR_NO_BACKEND,
               "there is no back end \"%s\"%s; installed: %s (searched %s)", name, near,
               all[0] ? all : "none", searched);
}

static const GmPluginInfo *
find_path (GPtrArray *plugins, const char *path, GError **error)
{
  if (!g_path_is_absolute (path)) {
    g_set_error (error, GM_ERROR, GM_ERROR_NO_BACKEND, "back end \"%s\": %s; %s", path,
                 gm_refusal_texts[GM_REFUSAL_RELATIVE], gm_refusal_remedies[GM_REFUSAL_RELATIVE]);
    return NULL;
  }
  GmPluginInfo *info = gm_registry_examine (path);
  g_ptr_array_add (plugins, info);
  if (info->refused.code == GM_REFUSAL_NONE)
    return info;
  g_set_error (error, GM_ERROR, GM_ERROR_NO_BACKEND, "back end \"%s\" is refused: it %s", path,
               info->refused.text);
  return NULL;
}

const GmPluginInfo *
gm_registry_find (GPtrArray *plugins, const char *name, GError **error)
{
  const GmPluginInfo *refused = NULL;
  if (strchr (name, '/'))
    return find_path (plugins, name, error);
  for (guint i = 0; i < plugins->len; i++) {
    const GmPluginInfo *info = plugins->pdata[i];
    if (!answers_to (info, name))
      continue;
    bool by_id = info->manifest && info->manifest->id && strcmp (info->manifest->id, name) == 0;
    if (info->refused.code == GM_REFUSAL_NONE
        || (info->refused.code == GM_REFUSAL_NAME_TAKEN && by_id))
      return info;
    if (!refused)
      refused = info;
  }
  if (refused)
    g_set_error (error, GM_ERROR, GM_ERROR_NO_BACKEND,
                 "back end \"%s\" is installed but refused: %s %s", name, refused->file,
                 refused->refused.text);
  else
    fail_unknown (plugins, name, error);
  return NULL;
}
