/* SPDX-License-Identifier: Apache-2.0
 * loader.c -- check, dlopen, query, negotiate.
 *
 * Order matters: nothing of the plugin runs before gm_trust_open has passed and a process of its
 * own has survived it, and its constructors and its query run between two snapshots (hygiene.h).
 * The plugin's own tables are read once, within the size that they claim, and copied.
 */
#include "core/plugin/loader.h"

#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/run/plugin_host.h"
#include "core/plugin/probe.h"
#include "core/plugin/quarantine.h"
#include "core/plugin/sidecar.h"
#include "core/plugin/status.h"
#include "core/run/trial.h"
#include "core/plugin/trust.h"

#if defined(__SANITIZE_ADDRESS__)
#define OWN_SANITIZERS 1u
#elif defined(__SANITIZE_THREAD__)
#define OWN_SANITIZERS 2u
#else
#define OWN_SANITIZERS 0u
#endif

/* All plugins that were loaded, including those whose negotiation failed: their code may hold the
 * host's table. */
static GSList *loaded;

/* -- Negotiation ------------------------------------------------------------------------------- */

static bool
check_functions (const GrammeBackendApi *api, GmRefused *why)
{
  static const struct {
    const char *name;
    size_t offset;
  } mandatory[] = {
#define ROW(f) { #f, offsetof (GrammeBackendApi, f) }
    ROW (open),      ROW (close), ROW (get_support), ROW (compile),
    ROW (exec_info), ROW (run),   ROW (destroy),
#undef ROW
  };
  for (unsigned i = 0; i < G_N_ELEMENTS (mandatory); i++) {
    void (*fn) (void);
    memcpy (&fn, (const char *) api + mandatory[i].offset, sizeof fn);
    if (!fn)
      return gm_refuse (why, GM_REFUSAL_FUNCTIONS, "`%s` is NULL in its GrammeBackendApi",
                        mandatory[i].name);
  }
  return true;
}

static bool
check_descriptor (const GrammePlugin *d, const GmPlugin *p, GmRefused *why)
{
  const GmManifest *m = p->manifest;
  if (d->struct_size < offsetof (GrammePlugin, api) + sizeof d->api)
    return gm_refuse (why, GM_REFUSAL_DESCRIPTOR, "it claims %u bytes, at least %zu are needed",
                      d->struct_size, sizeof *d);
  if (d->min_host_minor > p->host->abi_minor)
    return gm_refuse (why, GM_REFUSAL_HOST_MINOR,
                      "it needs minor %u, this gramme has %d.%u; update gramme", d->min_host_minor,
                      GRAMME_ABI_MAJOR, p->host->abi_minor);
  if (!d->manifest || !d->api)
    return gm_refuse (why, GM_REFUSAL_DESCRIPTOR, "its %s is NULL",
                      d->manifest ? "table of functions" : "manifest");
  if (strcmp (d->manifest, m->text) != 0 || (int32_t) d->abi_minor != m->abi_minor
      || (int32_t) d->min_host_minor != m->min_host_minor)
    return gm_refuse (why, GM_REFUSAL_MISMATCH,
                      "the note in the file and the loaded code differ; build it again from clean");
  if (d->sanitizers & ~OWN_SANITIZERS)
    return gm_refuse (why, GM_REFUSAL_SANITIZER, "sanitizers %u, here %u; build both alike",
                      d->sanitizers, OWN_SANITIZERS);
  if (d->api->struct_size < offsetof (GrammeBackendApi, flags) + sizeof d->api->flags
      || d->api->struct_size % 8 != 0)
    return gm_refuse (why, GM_REFUSAL_DESCRIPTOR, "its table of functions claims %u bytes",
                      d->api->struct_size);
  if (d->api->flags != 0)
    return gm_refuse (why, GM_REFUSAL_DESCRIPTOR,
                      "its table of functions has flags 0x%x that this gramme does not know",
                      d->api->flags);
  return true;
}

bool
gm_loader_negotiate (GmPlugin *p, void *handle, GmRefused *why)
{
  const GrammePlugin *(*query) (const GrammeHost *, GrammeStatus *);
  void *symbol = dlsym (handle, GM_PLUGIN_QUERY_SYMBOL);
  if (!symbol)
    return gm_refuse (why, GM_REFUSAL_SYMBOL,
                      "it is for another major version of the ABI; get one for this gramme");
  memcpy (&query, &symbol, sizeof query);

  GrammeStatus status = { .struct_size = sizeof status, .node = -1 };
  const GrammePlugin *d = query (p->host, &status);
  status.message[sizeof status.message - 1] = 0;
  if (!d)
    return gm_refuse (why, GM_REFUSAL_QUERY, "%s",
                      status.message[0] ? status.message : "it gave no reason");
  if (!check_descriptor (d, p, why))
    return false;
  memcpy (&p->api, d->api, MIN (d->api->struct_size, sizeof p->api));
  p->api.struct_size = sizeof p->api;
  return check_functions (&p->api, why);
}

/* -- Loading ----------------------------------------------------------------------------------- */

/* Returns the manifest of a file, which the caller frees, and sets its canonical path and its key,
 * before any of its code runs; NULL and *why on failure. */
static GmManifest *
read_manifest (const char *file, char **canonical, GmFileKey *key, GmRefused *why)
{
  uint64_t libraries;
  int fd = gm_trust_open (file, canonical, &libraries, why);
  if (fd < 0)
    return NULL;
  gm_file_key_of (fd, libraries, key);
  char *text = gm_manifest_read (fd, *canonical, why);
  close (fd);
  return text ? gm_manifest_parse (text, NULL, why) : NULL;
}

/* Loads the file and negotiates; owns m.  alone: as in gm_snapshot_new.  NULL and *why on
 * failure. */
static GmPlugin *
load (const char *canonical, GmManifest *m, bool alone, GmRefused *why)
{
  g_autoptr (GmSnapshot) before = gm_snapshot_new (alone);
  void *handle = dlopen (canonical, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!handle)
    gm_refuse (why, GM_REFUSAL_LOAD, "%s", dlerror ());
  GmPlugin *p = g_new0 (GmPlugin, 1);
  p->manifest = m;
  p->file = g_strdup (canonical);
  p->host = gm_host_new (m->id);
  /* Also if the plugin is refused below: its code may hold the table. */
  loaded = g_slist_prepend (loaded, p);
  bool good = gm_snapshot_check (before, "when it was loaded", why) && handle;
  good = good && gm_loader_negotiate (p, handle, why);
  good = gm_snapshot_check (before, "when it was asked what it is", why) && good;
  gm_log (GM_LOG_PLUGINS, "%s: %s%s", p->file, good ? "loaded " : "", good ? m->name : why->text);
  return good ? p : NULL;
}

GrammeBackend *
gm_loader_open (const GmPlugin *p, GmRefused *why)
{
  GrammeStatus status;
  GrammeBackend *instance = NULL;
  gm_status_clear (&status);
  g_autoptr (GmSnapshot) before = gm_snapshot_new (false);
  int32_t code = p->api.open (p->host, NULL, 0, &instance, &status);
  if (code != GRAMME_OK || !instance) {
    gm_refuse (why, GM_REFUSAL_OPENED, "%s",
               gm_status_text (&status, code == GRAMME_OK ? GRAMME_INTERNAL : code));
    return NULL;
  }
  if (gm_snapshot_check (before, "when it was opened", why))
    return instance;
  p->api.close (instance);
  return NULL;
}

bool
gm_loader_try (const char *file, GmRefused *why)
{
  g_autofree char *canonical = NULL;
  GmFileKey key;
  GmManifest *m = read_manifest (file, &canonical, &key, why);
  const GmPlugin *p = m ? load (canonical, m, true, why) : NULL;
  if (!p)
    return false;
  g_autoptr (GmSnapshot) before = gm_snapshot_new (true);
  for (int i = 0; i < 2; i++) { /* twice, since a plugin may be opened again */
    GrammeBackend *b = gm_loader_open (p, why);
    if (!b)
      return false;
    bool good = gm_trial (p, b, why);
    p->api.close (b);
    if (!good)
      return false;
  }
  return gm_snapshot_check (before, "by a first open, run and close", why);
}

GmPlugin *
gm_loader_load (const char *file, GmRefused *why)
{
  /* Checks the file again, although a scan may have done so: the file may have changed since it was
   * listed. */
  g_autofree char *canonical = NULL;
  GmFileKey key;
  g_autoptr (GmManifest) m = read_manifest (file, &canonical, &key, why);
  if (!m)
    return NULL;
  GmTried tried = gm_quarantine_find (canonical, &key, why);
  if (tried == GM_TRIED_NOT) {
    tried = gm_probe (canonical, why);
    if (tried != GM_TRIED_NOT)
      gm_quarantine_note (canonical, &key, why);
  }
  if (tried == GM_TRIED_BAD || why->code == GM_REFUSAL_STOPPED)
    return NULL;
  return load (canonical, g_steal_pointer (&m), false, why);
}
