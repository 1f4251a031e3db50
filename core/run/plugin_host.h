/* SPDX-License-Identifier: Apache-2.0
 * plugin_host.h -- the host's side of the boundary: the table that every plugin gets, and the
 * messages of one compile.
 */
#ifndef GM_RUN_PLUGIN_HOST_H
#define GM_RUN_PLUGIN_HOST_H

#include <stdbool.h>

#include <glib.h>

#include "plugin-api/gramme-ext.h"

/* The messages of one compile.  Plugins get its address as their job, and pass it to `diag` and
 * `progress`. */
typedef struct {
  GMutex lock; /* a plugin may compile on several threads */
  GString *diagnostics;
  /* Atomic, 1: the result is not wanted any more.  NULL: gm_yield_is_interrupted
   * says so. */
  const int *stop;
} GmCompileJob;

void gm_compile_job_init (GmCompileJob *job);
void gm_compile_job_clear (GmCompileJob *job);

/* Returns the table of host functions for the plugin of this id, which lives as long as the
 * process.  The id is not copied: it must live as long. */
const GrammeHost *gm_host_new (const char *plugin_id);

/* Calls step (data), which waits for a short time, until it returns true; other threads can run
 * Python code meanwhile (core/base/yield.h).  False: the compile is to stop. */
bool gm_host_wait (GmCompileJob *job, bool (*step) (void *data), void *data);

/* Returns the table of an extension, as the next three functions do, each defined in a file of its
 * own; NULL if this machine does not support the extension. */
const GrammeKernels *gm_host_kernels (void);
const GrammeTiles *gm_host_tiles (void);
const GrammeSource *gm_host_source (void);
const GrammeThreads *gm_host_threads (void);

#endif
