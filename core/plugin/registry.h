/* SPDX-License-Identifier: Apache-2.0
 * registry.h -- the installed plugins, found without running any of their code.
 *
 * A file that is named by its absolute path comes first.  Then come folders, in this order; the
 * first file with an id wins, later files are shown as hidden:
 *   GRAMME_PLUGIN_PATH      absolute folders, separated by ':'
 *   $XDG_DATA_HOME/gramme/plugins-1
 *   the install folder      gramme/plugins-1 beside libgramme, wherever that was moved
 * Files: libgramme-*.so, not in subfolders.  A scan reads manifests and headers and what is known
 * from trying them (quarantine.h), some 150 us a file, most of it for the libraries that it needs;
 * it starts no process.
 */
#ifndef GM_PLUGIN_REGISTRY_H
#define GM_PLUGIN_REGISTRY_H

#include "core/plugin/manifest.h"
#include "core/plugin/quarantine.h"

/* The back end `auto`, which is no plugin: its name and options, in the form of a plugin's
 * manifest, and what is shown in the place of a file. */
extern const char gm_auto_manifest[];
#define GM_AUTO_FILE "(part of gramme)"

typedef struct {
  char *file;           /* absolute, without links where it could be resolved */
  GmTried tried;        /* result of trying it in a process of its own */
  bool is_auto;         /* the back end `auto`, which has no file: tiers.h */
  char *name;           /* the manifest's, or from the file's name if there is none */
  GmManifest *manifest; /* NULL if it could not be read */
  GmRefused refused;    /* code NONE: the plugin may be loaded */
} GmPluginInfo;

/* Returns all plugin files (GmPluginInfo), in search order.  Free with g_ptr_array_unref.  Thread:
 * any. */
GPtrArray *gm_registry_scan (void);
/* Returns the folders that a scan reads, NULL-terminated; the caller frees. */
char **gm_registry_folders (void);

/* Returns the plugin for a name or id: an entry of `plugins`, borrowed.  A name with a '/' is an
 * absolute path, which is examined first and added to `plugins`.  NULL and GM_ERROR_VALUE if there
 * is no such back end (the error lists similar and installed names), if the plugin is refused (the
 * error says why), or if two ids have this name. */
const GmPluginInfo *gm_registry_find (GPtrArray *plugins, const char *name, GError **error);
/* Returns the facts about a file, found without running any of its code; the caller frees. */
GmPluginInfo *gm_registry_examine (const char *file);
void gm_plugin_info_free (GmPluginInfo *info); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (GmPluginInfo, gm_plugin_info_free)

/* Records, for later scans of this process, that loading this file failed. */
void gm_registry_note_failure (const char *file, const GmRefused *why);

#endif
