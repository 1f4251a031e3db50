/* SPDX-License-Identifier: Apache-2.0
 * loader.c -- check, dlopen, query, negotiate.
 *
 * Order matters: nothing of the plugin runs before gm_trust_open has passed, and its constructors
 * run between two snapshots of the floating-point control, which is put back.  The plugin's own
 * tables are read once, within the size that they claim, and copied.
 */
#include "core/plugin/loader.h"

#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/plugin/host.h"
#include "core/plugin/trust.h"

#if defined(__SANITIZE_ADDRESS__)
#define OWN_SANITIZERS 1u
#elif defined(__SANITIZE_THREAD__)
#define OWN_SANITIZERS 2u
#else
#define OWN_SANITIZERS 0u
#endif

/* Everything that was loaded, also what then failed to negotiate: its code may hold the host's
 * table. */
static GSList *loaded;

/* -- Floating-point control -------------------------------------------------------------------- */

#if defined(__x86_64__)
#define MXCSR_STICKY 0x3fu

GmFpuControl
gm_fpu_get (void)
{
  GmFpuControl c;
  __asm__ volatile("stmxcsr %0" : "=m"(c.mxcsr));
  __asm__ volatile("fnstcw %0" : "=m"(c.x87));
  c.mxcsr &= ~MXCSR_STICKY;
  return c;
}

void
gm_fpu_set (GmFpuControl c)
{
  __asm__ volatile("ldmxcsr %0" : : "m"(c.mxcsr));
  __asm__ volatile("fldcw %0" : : "m"(c.x87));
}
#else
#include <fpu_control.h>

GmFpuControl
gm_fpu_get (void)
{
  fpu_control_t word;
  _FPU_GETCW (word);
  return (GmFpuControl){ .mxcsr = (uint32_t) word };
}

void
gm_fpu_set (GmFpuControl c)
{
  fpu_control_t word = c.mxcsr;
  _FPU_SETCW (word);
}
#endif

bool
gm_fpu_equal (GmFpuControl a, GmFpuControl b)
{
  return a.mxcsr == b.mxcsr && a.x87 == b.x87;
}

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
check_descriptor (const GrammePlugin *d, const GmManifest *m, GmRefused *why)
{
  if (d->struct_size < offsetof (GrammePlugin, api) + sizeof d->api)
    return gm_refuse (why, GM_REFUSAL_DESCRIPTOR, "it claims %u bytes, at least %zu are needed",
                      d->struct_size, sizeof *d);
  if (d->min_host_minor > GRAMME_ABI_MINOR)
    return gm_refuse (why, GM_REFUSAL_HOST_MINOR,
                      "it needs minor %u, this gramme has %d.%d; update gramme", d->min_host_minor,
                      GRAMME_ABI_MAJOR, GRAMME_ABI_MINOR);
  if (!d->manifest || !d->api)
    return gm_refuse (why, GM_REFUSAL_DESCRIPTOR, "its %s is NULL",
                      d->manifest ? "table of functions" : "manifest");
  if (strcmp (d->manifest, m->text) != 0 || (int32_t) d->abi_minor != m->abi_minor ||
      (int32_t) d->min_host_minor != m->min_host_minor)
    return gm_refuse (why, GM_REFUSAL_MISMATCH,
                      "the note in the file and the loaded code differ; build it again from clean");
  if (d->sanitizers & ~OWN_SANITIZERS)
    return gm_refuse (why, GM_REFUSAL_SANITIZER, "sanitizers %u, here %u; build both alike",
                      d->sanitizers, OWN_SANITIZERS);
  if (d->api->struct_size < offsetof (GrammeBackendApi, flags) + sizeof d->api->flags ||
      d->api->struct_size % 8 != 0)
    return gm_refuse (why, GM_REFUSAL_DESCRIPTOR, "its table of functions claims %u bytes",
                      d->api->struct_size);
  if (d->api->flags != 0)
    return gm_refuse (why, GM_REFUSAL_DESCRIPTOR,
                      "its table of functions has flags 0x%x that this gramme does not know",
                      d->api->flags);
  return true;
}

static bool
negotiate (GmPlugin *p, void *handle, GmRefused *why)
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
  if (!check_descriptor (d, p->manifest, why))
    return false;
  memcpy (&p->api, d->api, MIN (d->api->struct_size, sizeof p->api));
  p->api.struct_size = sizeof p->api;
  return check_functions (&p->api, why);
}

/* -- Loading ----------------------------------------------------------------------------------- */

static void *
open_library (const char *file, GmRefused *why)
{
  GmFpuControl before = gm_fpu_get ();
  void *handle = dlopen (file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  GmFpuControl after = gm_fpu_get ();
  if (!gm_fpu_equal (before, after)) {
    gm_fpu_set (before);
    gm_log_warn ("%s changed the floating-point mode when it was loaded (-ffast-math or -Ofast at "
                 "its link?); it is restored",
                 file);
  }
  if (!handle)
    gm_refuse (why, GM_REFUSAL_LOAD, "%s", dlerror ());
  return handle;
}

GmPlugin *
gm_loader_load (const char *file, GmRefused *why)
{
  /* Again, though a scan has just done so: what is loaded is what was checked, not what was listed.
   * */
  g_autofree char *canonical = NULL;
  int fd = gm_trust_open (file, &canonical, why);
  if (fd < 0)
    return NULL;
  char *text = gm_elf_read_manifest (fd, why);
  close (fd);
  GmManifest *m = text ? gm_manifest_parse (text, NULL, why) : NULL;
  if (!m)
    return NULL;

  GmPlugin *p = g_new0 (GmPlugin, 1);
  p->manifest = m;
  p->file = g_steal_pointer (&canonical);
  void *handle = open_library (p->file, why);
  if (handle) {
    p->host = gm_host_new (m->id);
    loaded = g_slist_prepend (loaded, p);
  }
  if (handle && negotiate (p, handle, why)) {
    gm_log (GM_LOG_PLUGINS, "%s: loaded %s %s", p->file, m->name, m->version);
    return p;
  }
  gm_log (GM_LOG_PLUGINS, "%s: %s", p->file, why->text);
  if (!handle) {
    g_free (p->file);
    gm_manifest_free (m);
    g_free (p);
  }
  return NULL;
}
