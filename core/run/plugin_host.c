/* SPDX-License-Identifier: Apache-2.0
 * plugin_host.c -- the services that plugins call: log, diagnostics, progress, memory, extensions.
 *
 * Nothing here calls back into a plugin, and no lock is held while a plugin runs, except the job's
 * around one append.  Memory goes through the checked allocator, so a plugin's workspace is
 * counted, and fails, like a tensor's.
 */
#include "core/run/plugin_host.h"

#include <stdint.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/yield.h"
#include "core/tensor/tensor.h"

#define ALLOC_ALIGN 64 /* alignment of gm_alloc */
#define LOG_MAX_BYTES (1u << 20)
#define WARNINGS_MAX                                                                               \
  32 /* warnings of one plugin in one process, at most: a loop must not fill the terminal */

typedef struct {
  GrammeHost table; /* first member, so that a pointer to the table is a pointer to the struct */
  const char *id;
  int warnings;
} Host;

/* All tables, which are kept until the process ends, since plugins keep them. */
static GMutex hosts_lock;
static GSList *hosts;

/* -- Log --------------------------------------------------------------------------------------- */

static int
channel_find (const char *domain)
{
  for (int i = 0; domain && i < GM_N_LOGS; i++)
    if (strcmp (gm_logs[i].name, domain) == 0)
      return i;
  return GM_LOG_PLUGINS;
}

static int32_t
host_log_enabled (void *ctx, int32_t level, const char *domain)
{
  return level <= GRAMME_LOG_WARNING || gm_log_on ((GmLogChannel) channel_find (domain));
}

static void
host_log (void *ctx, int32_t level, const char *domain, const char *text, size_t bytes)
{
  Host *h = ctx;
  if (!text || !host_log_enabled (ctx, level, domain))
    return;
  g_autofree char *clean = g_utf8_make_valid (text, (gssize) MIN (bytes, (size_t) LOG_MAX_BYTES));
  if (level > GRAMME_LOG_WARNING)
    gm_log ((GmLogChannel) channel_find (domain), "%s: %s", h->id, clean);
  else if (g_atomic_int_add (&h->warnings, 1) < WARNINGS_MAX)
    gm_log_warn ("%s: %s", h->id, clean);
}

/* -- A compile's job --------------------------------------------------------------------------- */

void
gm_compile_job_init (GmCompileJob *job)
{
  g_mutex_init (&job->lock);
  job->stop = NULL;
  job->diagnostics = g_string_new (NULL);
}

void
gm_compile_job_clear (GmCompileJob *job)
{
  g_string_free (job->diagnostics, TRUE);
  g_mutex_clear (&job->lock);
}

static void
host_diag (void *ctx, int32_t severity, int32_t node, const char *text, size_t bytes)
{
  GmCompileJob *job = ctx;
  if (!job || !text)
    return;
  g_autofree char *clean = g_utf8_make_valid (text, (gssize) MIN (bytes, (size_t) LOG_MAX_BYTES));
  g_mutex_lock (&job->lock);
  if (job->diagnostics->len < LOG_MAX_BYTES) {
    if (node >= 0)
      g_string_append_printf (job->diagnostics, "node %d: ", node);
    g_string_append_printf (job->diagnostics, "%s%s", clean,
                            g_str_has_suffix (clean, "\n") ? "" : "\n");
  }
  g_mutex_unlock (&job->lock);
}

static int32_t
host_progress (void *job, const char *phase, uint64_t done, uint64_t total)
{
  const GmCompileJob *j = job;
  if (j && j->stop) /* a build in the background, which does not look for signals */
    return __atomic_load_n (j->stop, __ATOMIC_RELAXED) != 0;
  return gm_yield_is_interrupted ();
}

bool
gm_host_wait (GmCompileJob *job, bool (*step) (void *data), void *data)
{
  for (;;) {
    void *left = gm_yield_leave ();
    bool done = step (data);
    gm_yield_enter (left);
    if (done)
      return true;
    if (host_progress (job, NULL, 0, 1))
      return false;
  }
}

/* -- Memory ------------------------------------------------------------------------------------ */

/* Returns `bytes` of memory at an alignment that gm_alloc may not have.  The address of the block
 * from gm_alloc is stored in the word before the returned address. */
static void *
host_alloc (void *ctx, size_t bytes, size_t align)
{
  if (align <= ALLOC_ALIGN)
    return gm_alloc (bytes ? bytes : 1);
  if ((align & (align - 1)) != 0 || bytes > SIZE_MAX - align)
    return NULL;
  char *block = gm_alloc (bytes + align);
  if (!block)
    return NULL;
  char *p = (char *) (((uintptr_t) block + align)
                      & ~(uintptr_t) (align - 1)); /* at least ALLOC_ALIGN after block */
  memcpy (p - sizeof block, &block, sizeof block);
  return p;
}

static void
host_free (void *ctx, void *p, size_t bytes, size_t align)
{
  if (!p)
    return;
  if (align <= ALLOC_ALIGN) {
    gm_free (p, bytes ? bytes : 1);
    return;
  }
  char *block;
  memcpy (&block, (char *) p - sizeof block, sizeof block);
  gm_free (block, bytes + align);
}

/* -- Extensions -------------------------------------------------------------------------------- */

static const void *
host_get_extension (void *ctx, const char *id)
{
  if (!id)
    return NULL;
  if (strcmp (id, GRAMME_KERNELS_ID) == 0)
    return gm_host_kernels ();
  if (strcmp (id, GRAMME_TILES_ID) == 0)
    return gm_host_tiles ();
  if (strcmp (id, GRAMME_SOURCE_ID) == 0)
    return gm_host_source ();
  if (strcmp (id, GRAMME_THREADS_ID) == 0)
    return gm_host_threads ();
  return NULL;
}

const GrammeHost *
gm_host_new (const char *plugin_id)
{
  Host *h = g_new0 (Host, 1);
  g_mutex_lock (&hosts_lock);
  hosts = g_slist_prepend (hosts, h);
  g_mutex_unlock (&hosts_lock);
  h->id = plugin_id;
  h->table = (GrammeHost){
    .struct_size = sizeof (GrammeHost),
    .abi_minor = GRAMME_ABI_MINOR,
    .ctx = h,
    .log = host_log,
    .log_enabled = host_log_enabled,
    .diag = host_diag,
    .progress = host_progress,
    .alloc = host_alloc,
    .free = host_free,
    .get_extension = host_get_extension,
  };
  return &h->table;
}
