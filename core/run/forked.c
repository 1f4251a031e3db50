/* SPDX-License-Identifier: Apache-2.0
 * forked.c -- see forked.h.
 *
 * All calls go through the host's own copy of a plugin's table, so the child replaces that table:
 * ordinary calls cost nothing, and no call can be forgotten.  The code that runs in the child of a
 * fork writes pointers only, since a lock may be held by a thread that does not exist there.
 */
#include "core/run/forked.h"

#include <pthread.h>
#include <string.h>

#include "core/base/error.h"
#include "core/plugin/status.h"

typedef struct Watched {
  struct Watched *next;
  GmPlugin *plugin;
} Watched;

static Watched *watched; /* atomic; process lifetime */

#define WHY                                                                                        \
  "this process was forked after the back end had opened its device, which does not survive "      \
  "that; "                                                                                         \
  "start such a process with spawn (multiprocessing.set_start_method), or use the device in the "  \
  "child alone"

/* -- What is called in its place --------------------------------------------------------------- */

static int32_t
no_open (const GrammeHost *host, const GrammeOption *options, uint32_t n, GrammeBackend **out,
         GrammeStatus *status)
{
  return gm_status_set (status, GRAMME_DEVICE, -1, "%s", WHY);
}

static void
no_close (GrammeBackend *b)
{
}

static int32_t
no_device_info (GrammeBackend *b, uint32_t index, GrammeDeviceInfo *out, GrammeStatus *status)
{
  return gm_status_set (status, GRAMME_DEVICE, -1, "%s", WHY);
}

static int32_t
no_fingerprint (GrammeBackend *b, int32_t type, int32_t id, uint8_t out[32], GrammeStatus *status)
{
  return gm_status_set (status, GRAMME_DEVICE, -1, "%s", WHY);
}

static int32_t
no_support (GrammeBackend *b, const GrammeImage *image, GrammeVerdict *verdicts, uint32_t stride,
            GrammeStatus *status)
{
  return gm_status_set (status, GRAMME_DEVICE, -1, "%s", WHY);
}

static int32_t
no_compile (GrammeBackend *b, const GrammeCompileRequest *request, GrammeExecutable **out,
            GrammeStatus *status)
{
  return gm_status_set (status, GRAMME_DEVICE, -1, "%s", WHY);
}

static int32_t
no_exec_info (GrammeExecutable *e, GrammeExecInfo *out, GrammeStatus *status)
{
  return gm_status_set (status, GRAMME_DEVICE, -1, "%s", WHY);
}

static int32_t
no_workspace (GrammeExecutable *e, uint32_t role, const int64_t *sizes, uint64_t *bytes,
              GrammeStatus *status)
{
  return gm_status_set (status, GRAMME_DEVICE, -1, "%s", WHY);
}

static int32_t
no_run (GrammeExecutable *e, const GrammeRunArgs *args, GrammeStatus *status)
{
  return gm_status_set (status, GRAMME_DEVICE, -1, "%s", WHY);
}

static void
no_destroy (GrammeExecutable *e)
{
}

static const GrammeBackendApi refusing = {
  .struct_size = sizeof refusing,
  .open = no_open,
  .close = no_close,
  .device_info = no_device_info,
  .fingerprint = no_fingerprint,
  .get_support = no_support,
  .compile = no_compile,
  .exec_info = no_exec_info,
  .workspace = no_workspace,
  .run = no_run,
  .destroy = no_destroy,
};

/* -- Forks ------------------------------------------------------------------------------------- */

static void
in_child (void)
{
  for (Watched *w = __atomic_load_n (&watched, __ATOMIC_ACQUIRE); w; w = w->next)
    memcpy (&w->plugin->api, &refusing, sizeof refusing);
}

void
gm_forked_watch (GmPlugin *p)
{
  static gsize once;
  bool has_device = false;
  for (char **d = p->manifest->devices; *d; d++)
    has_device = has_device || strcmp (*d, "cpu") != 0;
  if (!has_device)
    return;
  if (g_once_init_enter (&once)) {
    pthread_atfork (NULL, NULL, in_child);
    g_once_init_leave (&once, 1);
  }
  Watched *w = g_new (Watched, 1);
  *w = (Watched){ __atomic_load_n (&watched, __ATOMIC_RELAXED), p };
  while (!__atomic_compare_exchange_n (&watched, &w->next, w, false, __ATOMIC_RELEASE,
                                       __ATOMIC_RELAXED))
    ;
}

bool
gm_forked_refuses (const GmPlugin *p, GError **error)
{
  if (p->api.run != no_run)
    return false;
  g_set_error (error, GM_ERROR, GM_ERROR_BACKEND, "back end \"%s\": %s", p->manifest->name, WHY);
  return true;
}
