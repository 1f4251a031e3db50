/* SPDX-License-Identifier: Apache-2.0
 * loader.h -- from a file that may be loaded to a table of functions that may be called.
 *
 * A plugin is loaded once and never unloaded: if it had started a thread with a destructor, that
 * thread would crash after dlclose.
 */
#ifndef GM_PLUGIN_LOADER_H
#define GM_PLUGIN_LOADER_H

#include "core/plugin/hygiene.h"
#include "core/plugin/registry.h"
#include "plugin-api/gramme-plugin.h"

typedef struct GmPlugin {
  char *file;
  GmManifest *manifest;
  const GrammeHost *host;
  /* The host's copy of the plugin's table, of full size; functions that the table lacks are
   * NULL. */
  GrammeBackendApi api;
} GmPlugin;

/* Loads a plugin and negotiates, unless the file is known to be refused (quarantine.h).  A file
 * that was never tried is first tried in a process of its own (probe.h).  The result lives as long
 * as the process.  Loading a file again returns another GmPlugin for the same code.  NULL and *why
 * on failure.  Thread: one at a time (core/run/backend.c's lock). */
GmPlugin *gm_loader_load (const char *file, GmRefused *why);

/* Tries a plugin in this process, which was made for that: loads, opens and closes it, and compares
 * the process before and after.  Neither reads nor writes the quarantine.  False and *why if the
 * plugin fails. */
bool gm_loader_try (const char *file, GmRefused *why);
/* Negotiates with a loaded file (handle: dlopen's) for the host p->host: calls its query, compares
 * the descriptor with the manifest, and copies its table into p->api.  False and *why on failure.
 * Used by the loader and by the kit. */
bool gm_loader_negotiate (GmPlugin *p, void *handle, GmRefused *why);
/* Opens an instance of the plugin, which the caller closes; NULL and *why on failure. */
GrammeBackend *gm_loader_open (const GmPlugin *p, GmRefused *why);

#endif
