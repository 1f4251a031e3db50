/* SPDX-License-Identifier: Apache-2.0
 * loader.h -- from a file that may be loaded to a table of functions that may be called.
 *
 * A plugin is loaded once and never unloaded: a thread of its with a destructor would crash after
 * dlclose.
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
  GrammeBackendApi api; /* ours: full size, what the plugin's table lacks is NULL */
} GmPlugin;

/* Loads and negotiates, but for a file that is known to be refused (quarantine.h); one that nobody knows
 * is tried in a process of its own first (probe.h).  Process lifetime.  Loading one file again gives
 * another GmPlugin on the same code.  NULL and *why on failure. Thread: one at a time
 * (core/plugin/backend.c's lock). */
GmPlugin *gm_loader_load (const char *file, GmRefused *why);

/* The same without asking anybody, for the process that tries a plugin: loads, opens, closes, and
 * compares the process before and after. */
bool gm_loader_try (const char *file, GmRefused *why);
/* What is loaded (dlopen's handle) for the host p->host: asks its query, compares descriptor and manifest,
 * copies the table into p->api.  False and *why.  The loader's own step, and the kit's. */
bool gm_loader_negotiate (GmPlugin *p, void *handle, GmRefused *why);
/* Opens an instance; NULL and *why.  The caller closes it. */
GrammeBackend *gm_loader_open (const GmPlugin *p, GmRefused *why);

#endif
