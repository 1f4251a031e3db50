/* SPDX-License-Identifier: Apache-2.0
 * ext_threads.c -- the extension gramme.threads/1: the process's threads (core/base/threads.h), for
 * all back ends.
 */
#include "core/base/threads.h"
#include "core/run/plugin_host.h"

static uint32_t
count (void *ctx)
{
  (void) ctx;
  return gm_threads_count ();
}

static void
run (void *ctx, uint32_t n, void (*task) (void *arg, uint32_t i), void *arg)
{
  (void) ctx;
  gm_threads_run (n, task, arg);
}

const GrammeThreads *
gm_host_threads (void)
{
  static const GrammeThreads table = { .struct_size = sizeof table, .count = count, .run = run };
  return &table;
}
