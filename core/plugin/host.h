/* SPDX-License-Identifier: Apache-2.0
 * host.h -- the host's side of the boundary: the table that every plugin gets, and what one compile
 * collects.
 */
#ifndef GM_PLUGIN_HOST_H
#define GM_PLUGIN_HOST_H

#include <stdbool.h>

#include <glib.h>

#include "plugin-api/gramme-ext.h"

/* Of one compile: what the plugin said meanwhile.  diag and progress get it as their job. */
typedef struct {
  GMutex lock; /* a plugin may compile on several threads */
  GString *diagnostics;
  const int *stop; /* atomic, 1: nobody wants the result.  NULL: ask the interrupt function */
} GmCompileJob;

void gm_compile_job_init (GmCompileJob *job);
void gm_compile_job_clear (GmCompileJob *job);

/* The table for the plugin of this id, which is kept (so: static or process lifetime).  The table
 * lives until the process ends. */
const GrammeHost *gm_host_new (const char *plugin_id);

/* Asked by plugins between pieces of work; true stops the compile.  core/python looks for a pending
 * signal there.  NULL: never. */
void gm_host_set_interrupt (bool (*fn) (void));
/* Asks that function: true if what this thread compiles is to stop. */
bool gm_host_is_interrupted (void);

/* Calls step (data), which waits for a short time, until it says true; other threads get their turn meanwhile (core/base/yield.h).
 * False: the compile is to stop. */
bool gm_host_wait (GmCompileJob *job, bool (*step) (void *data), void *data);

/* Extensions, each in its file: NULL if this machine has none. */
const GrammeKernels *gm_host_kernels (void);
const GrammeTiles *gm_host_tiles (void);
const GrammeSource *gm_host_source (void);
const GrammeThreads *gm_host_threads (void);

#endif
