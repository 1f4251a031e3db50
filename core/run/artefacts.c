/* SPDX-License-Identifier: Apache-2.0
 * artefacts.c -- see artefacts.h.
 *
 * The bytes that a plugin gets to read were written by this user through this code, or the keyed
 * hash would be wrong; still the extension says that they are hostile, and a plugin that answers
 * DATA makes its host compile.
 */
#include "core/run/artefacts.h"

#include <cpuid.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/environment.h"
#include "core/base/log.h"
#include "core/cache/cache.h"
#include "core/run/plugin_host.h"
#include "core/plugin/status.h"

#ifndef PACKAGE_VERSION
#error "define PACKAGE_VERSION"
#endif

#define FORMAT 1 /* version of the key format, raised when the parts of a key change */

static GmArtefactCounts counts; /* each member is atomic */
#define COUNT(what) __atomic_add_fetch (&counts.what, 1, __ATOMIC_RELAXED)

struct GmArtefact {
  const GmArtefacts *of;
  const GmPlugin *plugin;
  GrammeBackend *instance;
  const GrammeCompileRequest *request;
  GmCacheKey key;
};

/* -- Digests ----------------------------------------------------------------------------------- */

static void
add (GChecksum *sum, const void *data, size_t bytes)
{
  /* The length first, so that no two different lists of parts give the same bytes. */
  uint64_t n = bytes;
  g_checksum_update (sum, (const guchar *) &n, sizeof n);
  g_checksum_update (sum, data, (gssize) bytes);
}

static void
add_text (GChecksum *sum, const char *text)
{
  add (sum, text ? text : "", text ? strlen (text) : 0);
}

static void
finish (GChecksum *sum, uint8_t out[32])
{
  gsize length = 32;
  g_checksum_get_digest (sum, out, &length);
  g_checksum_free (sum);
}

/* -- Who made it ------------------------------------------------------------------------------- */

typedef struct {
  const char *path; /* path of the file to look for, or NULL: the file that contains `address` */
  const void *address;
  GChecksum *sum;
  bool found;
} Search;

static void
add_build_id (Search *s, const struct dl_phdr_info *info, const ElfW (Phdr) * p)
{
  const char *at = (const char *) (info->dlpi_addr + p->p_vaddr), *end = at + p->p_memsz;
  while (end - at >= (ptrdiff_t) sizeof (ElfW (Nhdr))) {
    const ElfW (Nhdr) *n = (const void *) at;
    const char *name = at + sizeof *n, *id = name + (n->n_namesz + 3) / 4 * 4;
    if (n->n_type == NT_GNU_BUILD_ID && n->n_namesz == 4 && memcmp (name, "GNU", 4) == 0) {
      add (s->sum, id, n->n_descsz);
      s->found = true;
    }
    at = id + (n->n_descsz + 3) / 4 * 4;
  }
}

static int
look (struct dl_phdr_info *info, size_t size, void *data)
{
  Search *s = data;
  bool is_it = s->path && info->dlpi_name && strcmp (info->dlpi_name, s->path) == 0;
  for (int i = 0; i < info->dlpi_phnum && !s->path && !is_it; i++) {
    const ElfW (Phdr) *p = &info->dlpi_phdr[i];
    uintptr_t from = info->dlpi_addr + p->p_vaddr, at = (uintptr_t) s->address;
    is_it = p->p_type == PT_LOAD && at >= from && at < from + p->p_memsz;
  }
  if (!is_it)
    return 0;
  for (int i = 0; i < info->dlpi_phnum; i++)
    if (info->dlpi_phdr[i].p_type == PT_NOTE)
      add_build_id (s, info, &info->dlpi_phdr[i]);
  if (!s->found && info->dlpi_name[0]) {
    /* The file was linked without a build id: its inode, size and times stand for it. */
    struct stat st;
    if (stat (info->dlpi_name, &st) == 0) {
      add (s->sum, &st.st_dev, sizeof st.st_dev);
      add (s->sum, &st.st_ino, sizeof st.st_ino);
      add (s->sum, &st.st_size, sizeof st.st_size);
      add (s->sum, &st.st_mtim, sizeof st.st_mtim);
      add (s->sum, &st.st_ctim, sizeof st.st_ctim);
      s->found = true;
    }
  }
  return 1;
}

static bool
add_object (GChecksum *sum, const char *path, const void *address)
{
  Search s = { path, address, sum, false };
  dl_iterate_phdr (look, &s);
  return s.found;
}

/* Adds the processor's instruction set extensions to the digest, but not its model or serial
 * number. */
static void
add_processor (GChecksum *sum)
{
  unsigned a, b, c, d;
  const GrammeTiles *tiles = gm_host_tiles ();
  add_text (sum, tiles ? tiles->isa : "none");
  if (__get_cpuid (1, &a, &b, &c, &d)) {
    add (sum, &c, sizeof c);
    add (sum, &d, sizeof d);
  }
  for (unsigned leaf = 0; leaf < 2; leaf++)
    if (__get_cpuid_count (7, leaf, &a, &b, &c, &d)) {
      add (sum, &a, sizeof a);
      add (sum, &b, sizeof b);
      add (sum, &c, sizeof c);
      add (sum, &d, sizeof d);
    }
}

void
gm_artefacts_init (GmArtefacts *a, const GmPlugin *p, GrammeBackend *instance)
{
  static const char here[1];
  const GrammeSerialize *api =
      gm_manifest_has_flag (p->manifest, "serialize") && p->api.get_extension
          ? p->api.get_extension (instance, GRAMME_SERIALIZE_ID)
          : NULL;
  const int numbers[] = { FORMAT, GRAMME_ABI_MAJOR, GRAMME_ABI_MINOR };
  uint8_t fingerprint[32] = { 0 };
  GrammeStatus status;
  gm_status_clear (&status);
  *a = (GmArtefacts){ 0 };
  if (!api || !GRAMME_HAS_FN (api, GrammeSerialize, size)
      || !GRAMME_HAS_FN (api, GrammeSerialize, write) || !GRAMME_HAS_FN (api, GrammeSerialize, read)
      || !p->api.fingerprint
      || p->api.fingerprint (instance, 1, 0, fingerprint, &status) != GRAMME_OK)
    return;
  GChecksum *sum = g_checksum_new (G_CHECKSUM_SHA256);
  add (sum, numbers, sizeof numbers);
  add_text (sum, PACKAGE_VERSION);
  add_text (sum, p->manifest->id);
  add_text (sum, p->manifest->version);
  bool known = add_object (sum, NULL, here) & add_object (sum, p->file, NULL);
  add (sum, fingerprint, sizeof fingerprint);
  add_processor (sum);
  finish (sum, a->identity);
  if (known)
    a->api = api;
}

/* -- The key ----------------------------------------------------------------------------------- */

static int
by_key (const void *a, const void *b)
{
  return strcmp (((const GrammeOption *) a)->key, ((const GrammeOption *) b)->key);
}

static void
add_options (GChecksum *sum, const GmManifest *m, const GrammeCompileRequest *r)
{
  g_autofree GrammeOption *sorted = g_memdup2 (r->options, r->n_options * sizeof *sorted);
  qsort (sorted, r->n_options, sizeof *sorted, by_key);
  for (uint32_t i = 0; i < r->n_options; i++) {
    const GmPluginOption *o = gm_manifest_option (m, sorted[i].key);
    if (o && o->no_code)
      continue;
    add_text (sum, sorted[i].key);
    add_text (sum, sorted[i].value);
  }
}

static void
make_key (const GmArtefacts *a, const GmManifest *m, const GrammeCompileRequest *r,
          const char *salt, GmCacheKey *key)
{
  const uint32_t numbers[] = { r->flags,
                               (uint32_t) r->device_type,
                               (uint32_t) r->device_id,
                               r->max_threads,
                               r->region,
                               r->n_regions,
                               r->n_constants,
                               r->n_forward_constants,
                               r->backward != NULL };
  GChecksum *sum = g_checksum_new (G_CHECKSUM_SHA256);
  add (sum, a->identity, sizeof a->identity);
  add (sum, numbers, sizeof numbers);
  add_options (sum, m, r);
  add_text (sum, salt);
  add (sum, r->forward, r->forward->total_bytes);
  if (r->backward)
    add (sum, r->backward, r->backward->total_bytes);
  finish (sum, key->bytes);
}

/* -- A request --------------------------------------------------------------------------------- */

static void
log_off (const char *why)
{
  static bool said; /* atomic: true after the log message was written once */
  if (why && !__atomic_exchange_n (&said, true, __ATOMIC_RELAXED))
    gm_log (GM_LOG_CACHE, "no cache on disk: %s", why);
}

GmArtefact *
gm_artefact_new (const GmArtefacts *a, const GmPlugin *p, GrammeBackend *instance,
                 const GrammeCompileRequest *request, const char *salt)
{
  if (!a->api || !gm_environment_switch ("GRAMME_CACHE"))
    return NULL;
  GmArtefact *f = g_new0 (GmArtefact, 1);
  *f = (GmArtefact){ .of = a, .plugin = p, .instance = instance, .request = request };
  make_key (a, p->manifest, request, salt, &f->key);
  return f;
}

void
gm_artefact_free (GmArtefact *f)
{
  g_free (f);
}

int32_t
gm_artefact_load (GmArtefact *f, GrammeExecutable **out, GrammeStatus *status)
{
  GmCacheEntry entry;
  g_autofree char *why = NULL;
  const char *name = f->plugin->manifest->name;
  GmCacheResult found = gm_cache_find (&f->key, &entry, &why);
  *out = NULL;
  if (found == GM_CACHE_OFF) {
    log_off (why);
    return GRAMME_NOT_FOUND;
  }
  if (found == GM_CACHE_REFUSED) {
    COUNT (refused);
    gm_log (GM_LOG_CACHE, "%s: %s; it is compiled again", name, why);
  }
  if (found != GM_CACHE_FOUND)
    return GRAMME_NOT_FOUND;
  int32_t code = f->of->api->read (f->instance, f->request, entry.data, entry.bytes, out, status);
  gm_cache_entry_clear (&entry);
  if (code == GRAMME_OK && *out) {
    COUNT (hits);
    gm_log (GM_LOG_CACHE, "%s: found %02x%02x%02x%02x...", name, f->key.bytes[0], f->key.bytes[1],
            f->key.bytes[2], f->key.bytes[3]);
    return GRAMME_OK;
  }
  *out = NULL;
  if (code == GRAMME_NO_MEMORY || code == GRAMME_CANCELLED)
    return code;
  COUNT (refused);
  gm_log (GM_LOG_CACHE, "%s: what was stored does not fit: %s; it is compiled again", name,
          gm_status_text (status, code == GRAMME_OK ? GRAMME_INTERNAL : code));
  gm_status_clear (status);
  return GRAMME_NOT_FOUND;
}

void
gm_artefact_save (GmArtefact *f, GrammeExecutable *e)
{
  COUNT (misses);
  const GrammeSerialize *api = f->of->api;
  const char *name = f->plugin->manifest->name;
  uint64_t bytes = 0;
  GrammeStatus status;
  gm_status_clear (&status);
  if (api->size (e, &bytes, &status) != GRAMME_OK || bytes > GM_CACHE_MAX_BYTES)
    return;
  g_autofree char *why = NULL;
  void *block = NULL;
  if (posix_memalign (&block, 64, bytes ? bytes : 1) != 0)
    return;
  int32_t code = api->write (e, block, bytes, &status);
  if (code != GRAMME_OK)
    gm_log (GM_LOG_CACHE, "%s: not stored: %s", name, gm_status_text (&status, code));
  else if (gm_cache_store (&f->key, f->plugin->manifest->id, block, bytes, &why)) {
    COUNT (stored);
    gm_log (GM_LOG_CACHE, "%s: stored %02x%02x%02x%02x..., %" G_GUINT64_FORMAT " bytes", name,
            f->key.bytes[0], f->key.bytes[1], f->key.bytes[2], f->key.bytes[3], bytes);
  } else
    gm_log (GM_LOG_CACHE, "%s: not stored: %s", name, why ? why : "the cache is off");
  free (block);
}

/* -- Counting ---------------------------------------------------------------------------------- */

void
gm_artefacts_note_bypass (const char *why)
{
  COUNT (bypassed);
  gm_log (GM_LOG_CACHE, "not cached: %s", why);
}

GmArtefactCounts
gm_artefacts_count (void)
{
#define READ(what) __atomic_load_n (&counts.what, __ATOMIC_RELAXED)
  return (GmArtefactCounts){ READ (hits), READ (misses), READ (stored), READ (refused),
                             READ (bypassed) };
}
