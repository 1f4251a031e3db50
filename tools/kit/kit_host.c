/* SPDX-License-Identifier: Apache-2.0
 * kit_host.c -- the host that a plugin under test sees: of any minor, and with services that count,
 * record their allocations, fail and say stop when a case demands it.
 *
 * A record of minor M is as long as it was then (core/plugin/released/); a record of a future minor
 * is longer than today's and ends with bytes that have no meaning yet; all end where a page ends.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "core/run/plugin_host.h"
#include "core/plugin/status.h"
#include "tools/kit/kit.h"

#define FUTURE_BYTES 64
#define ZONE 32
#define PATTERN 0xe5
#define NOTHING_YET 0xee

/* -- Records of other minors ------------------------------------------------------------------- */

static const struct {
  uint32_t minor, bytes;
  const char *record;
} released[] = {
#define RECORD(name, bytes) { 0, bytes, #name },
#include "core/plugin/released/0.0.def"
};
G_STATIC_ASSERT (GRAMME_ABI_MINOR <= 1); /* each minor needs a table */

/* Returns the number of bytes of a record in a host of this minor. */
static size_t
record_bytes (uint32_t minor, const char *record, size_t ours)
{
  if (minor > GRAMME_ABI_MINOR)
    return ours + FUTURE_BYTES;
  for (size_t i = 0; i < G_N_ELEMENTS (released); i++)
    if (released[i].minor == minor && strcmp (released[i].record, record) == 0)
      return released[i].bytes;
  return ours;
}

KitMem
kit_record (Kit *k, const char *record, const void *ours, size_t bytes)
{
  size_t size = record_bytes (k->host_minor, record, bytes);
  g_autofree char *what = g_strdup_printf ("a %s", record);
  KitMem m = kit_mem_new (k, KIT_RECORD, size, 8, false, what);
  uint32_t struct_size = (uint32_t) size;
  memset (m.data, NOTHING_YET, size);
  memcpy (m.data, ours, MIN (size, bytes));
  memcpy (m.data, &struct_size, sizeof struct_size);
  return m;
}

GrammeStatus *
kit_status (Kit *k)
{
  static __thread KitMem m;
  if (k->null_status)
    return NULL;
  if (!m.map) {
    const GrammeStatus empty = { 0 };
    m = kit_record (k, "GrammeStatus", &empty, sizeof empty);
  }
  GrammeStatus *s = (GrammeStatus *) (void *) m.data;
  uint32_t size = s->struct_size;
  gm_status_clear (s);
  s->struct_size = size;
  return s;
}

/* -- Services ---------------------------------------------------------------------------------- */

typedef struct {
  size_t bytes, align;
  char *block;
} Block;

typedef struct KitBlocks {
  GMutex lock;
  GHashTable *blocks; /* address -> Block */
} KitBlocks;

static void
called (Kit *k)
{
  if (k->host.called)
    k->host.called (k->host.called_data);
}

static void
service_log (void *ctx, int32_t level, const char *domain, const char *text, size_t bytes)
{
  Kit *k = ctx;
  (void) level;
  __atomic_add_fetch (&k->host.n_log, 1, __ATOMIC_RELAXED);
  called (k);
  if (!domain || !text || !g_utf8_validate (text, (gssize) bytes, NULL))
    kit_fail (k, "GPP-10", "calls log with %s", domain && text ? "text that is not UTF-8" : "NULL");
}

static int32_t
service_log_enabled (void *ctx, int32_t level, const char *domain)
{
  (void) level;
  (void) domain;
  called (ctx);
  return 1;
}

static void
service_diag (void *job, int32_t severity, int32_t node, const char *text, size_t bytes)
{
  Kit *k = job;
  (void) severity;
  (void) node;
  __atomic_add_fetch (&k->host.n_diag, 1, __ATOMIC_RELAXED);
  called (k);
  if (!text || !g_utf8_validate (text, (gssize) bytes, NULL))
    kit_fail (k, "GPP-10", "calls diag with %s", text ? "text that is not UTF-8" : "NULL");
}

static int32_t
service_progress (void *job, const char *phase, uint64_t done, uint64_t total)
{
  Kit *k = job;
  (void) phase;
  (void) done;
  (void) total;
  called (k);
  uint64_t now = kit_now_ns (), n = __atomic_add_fetch (&k->host.n_progress, 1, __ATOMIC_RELAXED);
  k->host.longest_ns = MAX (k->host.longest_ns, now - k->host.last_ns);
  k->host.last_ns = now;
  return k->host.stop_at && n >= k->host.stop_at;
}

void
kit_host_watch (KitHost *h)
{
  h->last_ns = kit_now_ns ();
  h->longest_ns = 0;
  h->n_progress = 0;
}

static void *
service_alloc (void *ctx, size_t bytes, size_t align)
{
  Kit *k = ctx;
  uint64_t n = __atomic_add_fetch (&k->host.n_allocs, 1, __ATOMIC_RELAXED);
  called (k);
  if (align == 0 || (align & (align - 1)) != 0)
    kit_fail (k, "GPP-12", "asks for memory with an alignment of %zu, which is no power of two",
              align);
  if (n == k->host.fail_at)
    return NULL;
  align = MAX (align, (size_t) 64);
  if (bytes > SIZE_MAX - align - 2 * ZONE)
    return NULL;
  char *block = g_try_malloc (bytes + align + 2 * ZONE);
  if (!block)
    return NULL;
  char *p = (char *) (((uintptr_t) block + ZONE + align - 1) & ~(uintptr_t) (align - 1));
  memset (p - ZONE, PATTERN, ZONE);
  memset (p, NOTHING_YET, bytes);
  memset (p + bytes, PATTERN, ZONE);
  Block *b = g_new (Block, 1);
  *b = (Block){ bytes, align, block };
  g_mutex_lock (&k->host.blocks->lock);
  g_hash_table_insert (k->host.blocks->blocks, p, b);
  k->host.live_blocks++;
  k->host.live_bytes += bytes;
  g_mutex_unlock (&k->host.blocks->lock);
  return p;
}

static void
check_zone (Kit *k, const char *zone, const char *where, size_t bytes)
{
  for (int i = 0; i < ZONE; i++)
    if (zone[i] != (char) PATTERN)
      kit_fail (k, "GPP-12", "writes %s a block of the host's memory (%zu bytes)", where, bytes);
}

static void
service_free (void *ctx, void *p, size_t bytes, size_t align)
{
  Kit *k = ctx;
  called (k);
  if (!p)
    return;
  g_mutex_lock (&k->host.blocks->lock);
  Block *b = g_hash_table_lookup (k->host.blocks->blocks, p);
  if (!b)
    kit_fail (k, "GPP-12", "gives back memory that the host did not give out, or has back already");
  if (b->bytes != bytes || b->align != MAX (align, (size_t) 64))
    kit_fail (k, "GPP-12", "asked for %zu bytes, and gives back %zu with an alignment of %zu",
              b->bytes, bytes, align);
  check_zone (k, (char *) p - ZONE, "before", bytes);
  check_zone (k, (char *) p + bytes, "past the end of", bytes);
  g_hash_table_remove (k->host.blocks->blocks, p);
  k->host.live_blocks--;
  k->host.live_bytes -= bytes;
  g_mutex_unlock (&k->host.blocks->lock);
  g_free (b->block);
  g_free (b);
}

static const void *
service_get_extension (void *ctx, const char *id)
{
  Kit *k = ctx;
  static const GrammeHost *ours;
  called (k);
  if (!id)
    kit_fail (k, "GPP-2", "asks for the extension NULL");
  if (!ours)
    ours = gm_host_new ("kit");
  if (strcmp (id, GRAMME_THREADS_ID) == 0) {
    if (k->host.no_threads || k->host.minor < 1) /* since minor 1 */
      return NULL;
    if (k->host.threads)
      return k->host.threads;
  }
  return ours->get_extension (ours->ctx, id);
}

void
kit_host_init (Kit *k, uint32_t minor)
{
  const GrammeHost table = {
    .abi_minor = minor,
    .ctx = k,
    .log = service_log,
    .log_enabled = service_log_enabled,
    .diag = service_diag,
    .progress = service_progress,
    .alloc = service_alloc,
    .free = service_free,
    .get_extension = service_get_extension,
  };
  k->host_minor = k->host.minor = minor;
  if (!k->host.blocks) {
    k->host.blocks = g_new0 (KitBlocks, 1);
    k->host.blocks->blocks = g_hash_table_new (NULL, NULL);
  }
  KitMem m = kit_record (k, "GrammeHost", &table, sizeof table);
  kit_mem_read_only (&m);
  k->host.table = (const GrammeHost *) (const void *) m.data;
}

/* -- Loading the plugin ------------------------------------------------------------------------ */

void
kit_load (Kit *k)
{
  GmRefused why = { 0 };
  kit_doing (k, "loading it");
  if (!k->host.table)
    kit_host_init (k, k->host_minor);
  void *handle = dlopen (k->file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!handle)
    kit_fail (k, "GPP-1", "cannot be loaded: %s", dlerror ());
  void *symbol = dlsym (handle, GM_PLUGIN_QUERY_SYMBOL);
  if (symbol)
    memcpy (&k->query, &symbol, sizeof k->query);
  k->plugin = (GmPlugin){ .file = (char *) k->file,
                          .manifest = (GmManifest *) k->manifest,
                          .host = k->host.table };
  kit_doing (k, "asking it what it is");
  if (!gm_loader_negotiate (&k->plugin, handle, &why))
    kit_fail (k, "GPP-1", "%s", why.text);
  k->descriptor = k->query (k->host.table, kit_status (k));
}

GrammeBackend *
kit_open_another (Kit *k)
{
  GrammeBackend *b = NULL;
  GrammeStatus *status = kit_status (k);
  kit_doing (k, "opening it");
  int32_t code = k->plugin.api.open (k->host.table, NULL, 0, &b, status);
  bool not_here = code == GRAMME_INCOMPATIBLE || code == GRAMME_DEVICE || code == GRAMME_TOOLCHAIN;
  if (not_here && status && status->message[0])
    kit_skip (k, "it does not open here: %s", status->message);
  if (code != GRAMME_OK || !b)
    kit_fail (k, NULL, "open answers %d%s%s", code, status ? ": " : "",
              status ? gm_status_text (status, code) : "");
  return b;
}

void
kit_open (Kit *k)
{
  if (!k->query)
    kit_load (k);
  k->backend = kit_open_another (k);
}

void
kit_close (Kit *k)
{
  kit_doing (k, "closing it");
  k->plugin.api.close (k->backend);
  k->backend = NULL;
}

bool
kit_has_flag (const Kit *k, const char *flag)
{
  return gm_manifest_has_flag (k->manifest, flag);
}

/* -- Threads ----------------------------------------------------------------------------------- */

typedef struct {
  void (*fn) (void *data, unsigned i);
  void *data;
  unsigned i;
  pthread_barrier_t *start;
} Worker;

static void *
worker_main (void *data)
{
  Worker *w = data;
  pthread_barrier_wait (w->start);
  w->fn (w->data, w->i);
  return NULL;
}

void
kit_on_threads (unsigned n, void (*fn) (void *data, unsigned i), void *data)
{
  g_autofree Worker *workers = g_new (Worker, n);
  g_autofree pthread_t *threads = g_new (pthread_t, n);
  pthread_barrier_t start;
  pthread_barrier_init (&start, NULL, n);
  for (unsigned i = 0; i < n; i++) {
    workers[i] = (Worker){ fn, data, i, &start };
    if (pthread_create (&threads[i], NULL, worker_main, &workers[i]) != 0)
      g_error ("no thread");
  }
  for (unsigned i = 0; i < n; i++)
    pthread_join (threads[i], NULL);
  pthread_barrier_destroy (&start);
}
