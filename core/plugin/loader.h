/* SPDX-License-Identifier: Apache-2.0
 * loader.h -- from a file that may be loaded to a table of functions that may be called.
 *
 * A plugin is loaded once and never unloaded: a thread of its with a destructor would crash after
 * dlclose.
 */
#ifndef GM_PLUGIN_LOADER_H
#define GM_PLUGIN_LOADER_H

#include "core/plugin/registry.h"
#include "plugin-api/gramme-plugin.h"

typedef struct {
  char *file;
  GmManifest *manifest;
  const GrammeHost *host;
  GrammeBackendApi api; /* ours: full size, what the plugin's table lacks is NULL */
} GmPlugin;

/* Loads and negotiates; process lifetime.  Loading one file again gives another GmPlugin on the
 * same code.  NULL and *why on failure. Thread: one at a time (core/plugin/backend.c's lock). */
GmPlugin *gm_loader_load (const char *file, GmRefused *why);

/* MXCSR without its sticky flags, and the x87 control word: what a library linked with fast-math
 * changes. */
typedef struct {
  uint32_t mxcsr;
  uint16_t x87;
} GmFpuControl;
GmFpuControl gm_fpu_get (void);
void gm_fpu_set (GmFpuControl c);
bool gm_fpu_equal (GmFpuControl a, GmFpuControl b);

#endif
