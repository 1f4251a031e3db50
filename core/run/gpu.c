/* SPDX-License-Identifier: Apache-2.0
 * gpu.c -- tensors on a GPU: memory, copies and single ops through the plugin that drives it.
 *
 * The first installed plugin whose manifest names the device and that offers gramme.memory and
 * gramme.stream is its driver. An eager op is a graph of one node, compiled by that plugin once for
 * each op, attributes and geometry of operands.
 */
#include "core/ops/ops.h"
#include "core/run/gpu.h"
#include "core/run/exec.h"
#include "core/run/forked.h"
#include "core/plugin/registry.h"
#include "core/plugin/status.h"
#include "core/tensor/device.h"
#include "plugin-api/gramme-ext-draft.h"

#include <stdio.h>
#include <string.h>

#define MAX_OPS 4096 /* limit of compiled ops in the table, which is emptied when it is reached */
#define ALIGN 256

static GmBackend *driver;
static const GrammeMemory *memory;
static const GrammeStream *streams;
static GrammeDeviceInfo info; /* description of the device */
/* True after gm_gpu_reset_peak: the peak is counted here, as the plugin's own peak is that of the
 * whole process. */
static bool peak_is_ours;
static uint64_t peak;

/* -- Memory ------------------------------------------------------------------------------------ */

static bool
fail (const GrammeStatus *status, int32_t code, const char *what, GError **error)
{
  return code == GRAMME_OK || (gm_status_to_error (status, code, driver->name, what, error), false);
}

static void
count (uint64_t in[3])
{
  g_autofree char *text = driver ? gm_backend_text (driver, "memory") : NULL;
  char *at = text;
  for (int i = 0; i < 3; i++)
    in[i] = at ? g_ascii_strtoull (at, &at, 10) : 0;
}

static void
note_peak (void)
{
  uint64_t now[3], most = __atomic_load_n (&peak, __ATOMIC_RELAXED);
  count (now);
  while (now[0] > most
         && !__atomic_compare_exchange_n (&peak, &most, now[0], true, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED))
    ;
}

static void *
cuda_alloc (size_t bytes, GError **error)
{
  void *data = NULL;
  GrammeStatus status;
  if (gm_forked_refuses (driver->plugin, error))
    return NULL;
  gm_status_clear (&status);
  int32_t code =
      memory->alloc (driver->instance, 0, GRAMME_MEMORY_DEVICE, bytes, ALIGN, &data, &status);
  if (G_UNLIKELY (__atomic_load_n (&peak_is_ours, __ATOMIC_RELAXED)))
    note_peak ();
  return fail (&status, code, "memory", error) ? data : NULL;
}

static void
cuda_release (void *owner, void *data, size_t bytes)
{
  if (!gm_forked_refuses (driver->plugin, NULL))
    memory->free (driver->instance, 0, GRAMME_MEMORY_DEVICE, data, bytes, ALIGN);
}

static bool
cuda_copy (void *to, int to_device, const void *from, int from_device, size_t bytes, GError **error)
{
  GrammeStatus status;
  if (gm_forked_refuses (driver->plugin, error))
    return false;
  gm_status_clear (&status);
  int32_t code = memory->copy (driver->instance, to, to_device == GM_DEVICE_CUDA ? 0 : -1, from,
                               from_device == GM_DEVICE_CUDA ? 0 : -1, bytes, NULL, &status);
  return fail (&status, code, "copy", error);
}

static bool
cuda_zero (void *to, size_t bytes, GError **error)
{
  GrammeStatus status;
  if (gm_forked_refuses (driver->plugin, error))
    return false;
  gm_status_clear (&status);
  return fail (&status, memory->fill (driver->instance, to, 0, 0, 1, bytes, NULL, &status), "fill",
               error);
}

static bool
cuda_synchronize (GError **error)
{
  GrammeStatus status;
  if (gm_forked_refuses (driver->plugin, error))
    return false;
  gm_status_clear (&status);
  return fail (&status, streams->synchronize (driver->instance, NULL, &status), "synchronize",
               error);
}

/* -- The driver -------------------------------------------------------------------------------- */

static const GmDevice cuda = {
  .name = "cuda",
  .alloc = cuda_alloc,
  .release = cuda_release,
  .copy = cuda_copy,
  .zero = cuda_zero,
  .synchronize = cuda_synchronize,
};

/* True if the back end b drives a device that this machine has now; else appends the reason to
 * `why`. */
static bool
try_driver (GmBackend *b, GString *why)
{
  const GrammeBackendApi *api = &b->plugin->api;
  const GrammeMemory *m =
      api->get_extension ? api->get_extension (b->instance, GRAMME_MEMORY_ID) : NULL;
  const GrammeStream *s =
      api->get_extension ? api->get_extension (b->instance, GRAMME_STREAM_ID) : NULL;
  info = (GrammeDeviceInfo){ .struct_size = sizeof info };
  GrammeStatus status;
  gm_status_clear (&status);
  if (!m || !s || !api->device_info) {
    g_string_append_printf (why, "; back end %s drives no memory", b->name);
    return false;
  }
  int32_t code = api->device_info (b->instance, 0, &info, &status);
  if (code != GRAMME_OK) {
    g_string_append_printf (why, "; back end %s: %s", b->name, gm_status_text (&status, code));
    return false;
  }
  memory = m;
  streams = s;
  driver = b;
  return true;
}

static void
find_driver (GString *why)
{
  g_autoptr (GPtrArray) plugins = gm_registry_scan ();
  for (guint i = 0; i < plugins->len && !driver; i++) {
    const GmPluginInfo *p = plugins->pdata[i];
    g_autoptr (GError) error = NULL;
    if (p->refused.code != GM_REFUSAL_NONE || !p->manifest
        || !g_strv_contains ((const char *const *) p->manifest->devices, "cuda"))
      continue;
    GmBackend *b = gm_backend_get (p->name, &error);
    if (b)
      try_driver (b, why);
    else
      g_string_append_printf (why, "; %s", error->message);
  }
}

static const GmDevice *
open_device (int device, GError **error)
{
  static GMutex lock;
  static GmBackend *found;
  if (device != GM_DEVICE_CUDA) {
    g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME, "there is no device of number %d", device);
    return NULL;
  }
  if (__atomic_load_n (&found, __ATOMIC_ACQUIRE))
    return &cuda;
  g_mutex_lock (&lock);
  g_autoptr (GString) why = g_string_new (NULL);
  if (!driver)
    find_driver (why);
  __atomic_store_n (&found, driver, __ATOMIC_RELEASE);
  g_mutex_unlock (&lock);
  if (driver)
    return &cuda;
  g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME, "device 'cuda' cannot be used%s",
               why->len ? why->str : "; no installed back end drives it");
  return NULL;
}

const char *
gm_gpu_full_name (void)
{
  return info.name;
}

void
gm_gpu_memory (uint64_t in[3])
{
  count (in);
  if (!__atomic_load_n (&peak_is_ours, __ATOMIC_RELAXED))
    return;
  note_peak ();
  in[2] = __atomic_load_n (&peak, __ATOMIC_RELAXED);
}

void
gm_gpu_reset_peak (void)
{
  uint64_t now[3];
  count (now);
  __atomic_store_n (&peak, now[0], __ATOMIC_RELAXED);
  __atomic_store_n (&peak_is_ours, true, __ATOMIC_RELAXED);
}

uint64_t
gm_gpu_total_memory (void)
{
  return info.memory_bytes;
}

bool
gm_gpu_is_open (void)
{
  return __atomic_load_n (&driver, __ATOMIC_ACQUIRE) != NULL;
}

bool
gm_gpu_capability (int out[2], GError **error)
{
  g_autofree char *text = gm_backend_text (driver, "capability");
  if (text && sscanf (text, "%d %d", &out[0], &out[1]) == 2)
    return true;
  g_set_error (error, GM_ERROR, GM_ERROR_UNSUPPORTED,
               "back end \"%s\" does not say what its device is capable of", driver->name);
  return false;
}

/* -- Streams ----------------------------------------------------------------------------------- */

/* True if a function of the extension may be called.  False with an error in the child of a fork,
 * or if the plugin is older than the function (`there` is false). */
static bool
may_call (bool there, GrammeStatus *status, GError **error)
{
  gm_status_clear (status);
  if (gm_forked_refuses (driver->plugin, error))
    return false;
  if (!there)
    g_set_error (error, GM_ERROR, GM_ERROR_UNSUPPORTED, "back end \"%s\" has one stream alone",
                 driver->name);
  return there;
}

#define HAS(f) GRAMME_HAS_FN (streams, GrammeStream, f)

void *
gm_gpu_stream_new (GError **error)
{
  void *stream = NULL;
  GrammeStatus status;
  return may_call (HAS (use), &status, error)
                 && fail (&status, streams->create (driver->instance, 0, &stream, &status),
                          "stream", error)
             ? stream
             : NULL;
}

void
gm_gpu_stream_free (void *stream)
{
  if (!gm_forked_refuses (driver->plugin, NULL))
    streams->destroy (driver->instance, stream);
}

void *
gm_gpu_stream_current (bool own)
{
  return HAS (current) && !gm_forked_refuses (driver->plugin, NULL)
             ? streams->current (driver->instance, 0, own)
             : NULL;
}

bool
gm_gpu_stream_use (void *stream, GError **error)
{
  GrammeStatus status;
  return may_call (HAS (use), &status, error)
         && fail (&status, streams->use (driver->instance, 0, stream, &status), "stream", error);
}

bool
gm_gpu_stream_synchronize (void *stream, GError **error)
{
  GrammeStatus status;
  return may_call (true, &status, error)
         && fail (&status,
                  streams->synchronize (driver->instance,
                                        stream ? stream : gm_gpu_stream_current (false), &status),
                  "synchronize", error);
}

void *
gm_gpu_event_new (void *stream, GError **error)
{
  void *event = NULL;
  GrammeStatus status;
  return may_call (true, &status, error)
                 && fail (&status, streams->record (driver->instance, stream, &event, &status),
                          "event", error)
             ? event
             : NULL;
}

void
gm_gpu_event_free (void *event)
{
  if (!gm_forked_refuses (driver->plugin, NULL))
    streams->destroy_event (driver->instance, event);
}

bool
gm_gpu_event_wait (void *stream, void *event, GError **error)
{
  GrammeStatus status;
  return may_call (true, &status, error)
         && fail (&status, streams->wait (driver->instance, stream, event, &status), "event",
                  error);
}

bool
gm_gpu_stream_query (void *stream, bool *done, GError **error)
{
  GrammeStatus status;
  int32_t idle = 0;
  bool good =
      may_call (HAS (idle), &status, error)
      && fail (&status, streams->idle (driver->instance, stream, &idle, &status), "stream", error);
  *done = idle != 0;
  return good;
}

bool
gm_gpu_event_query (void *event, bool *done, GError **error)
{
  GrammeStatus status;
  int32_t fired = 0;
  bool good =
      may_call (true, &status, error)
      && fail (&status, streams->query (driver->instance, event, &fired, &status), "event", error);
  *done = fired != 0;
  return good;
}

bool
gm_gpu_event_finish (void *event, GError **error)
{
  GrammeStatus status;
  return may_call (HAS (finish), &status, error)
         && fail (&status, streams->finish (driver->instance, event, &status), "event", error);
}

bool
gm_gpu_event_elapsed (void *from, void *to, double *ms, GError **error)
{
  GrammeStatus status;
  float between = 0;
  bool good = may_call (HAS (elapsed), &status, error)
              && fail (&status, streams->elapsed (driver->instance, from, to, &between, &status),
                       "event", error);
  *ms = between;
  return good;
}

bool
gm_gpu_keep (void *memory, void *stream, GError **error)
{
  GrammeStatus status;
  return may_call (HAS (keep), &status, error)
         && fail (&status, streams->keep (driver->instance, 0, memory, stream, &status), "memory",
                  error);
}

/* -- Single ops -------------------------------------------------------------------------------- */

static GMutex ops_lock;
static GHashTable *ops; /* GBytes of op, attributes and metas -> GmExec */

static GBytes *
key_of (GmOp op, GmTensor *const *in, int n_in, const GmAttrs *attrs, const GmTensor *out)
{
  static const GmAttrs none;
  GByteArray *key = g_byte_array_new (); /* contains metas, no tensor data */
  int32_t head[2] = { (int32_t) op, n_in };
  g_byte_array_append (key, (const guint8 *) head, sizeof head);
  g_byte_array_append (key, (const guint8 *) (attrs ? attrs : &none), sizeof none);
  for (int i = 0; i <= n_in; i++) {
    GmMeta m = i < n_in ? in[i]->meta : out->meta;
    m.requires_grad = 0;
    g_byte_array_append (key, (const guint8 *) &m, sizeof m);
  }
  return g_byte_array_free_to_bytes (key);
}

static GmExec *
compile_op (GmOp op, GmTensor *const *in, int n_in, const GmAttrs *attrs, const GmTensor *out,
            GError **error)
{
  g_autoptr (GmGraph) g = gm_graph_new ("eager", NULL);
  g_autofree GmValueId *values = g_new (GmValueId, n_in + 1);
  GmMeta meta = out->meta;
  for (int i = 0; i < n_in; i++) {
    GmMeta m = in[i]->meta;
    m.requires_grad = 0;
    values[i] = gm_graph_add_input (g, NULL, &m);
  }
  meta.requires_grad = 0;
  GmValueId v = gm_graph_add_known (g, op, values, n_in, attrs, NULL, &meta);
  gm_graph_add_output (g, v, GM_OUTPUT_USER);
  GmExec *e = gm_backend_compile (driver, g, NULL, NULL, error);
  /* An exec that fell back would call this function again. */
  if (e && gm_exec_fallback_reason (e)) {
    g_set_error (error, GM_ERROR, GM_ERROR_UNSUPPORTED, "%s: device cuda cannot run it: %s",
                 gm_ops[op].name, gm_exec_fallback_reason (e));
    gm_exec_unref (e);
    return NULL;
  }
  return e;
}

static bool
run_op (GmOp op, GmTensor *const *in, int n_in, const GmAttrs *attrs, GmTensor *out, GError **error)
{
  if (gm_meta_numel (&out->meta) == 0)
    return true;
  if (!open_device (out->meta.device, error))
    return false;
  GBytes *key = key_of (op, in, n_in, attrs, out);
  g_mutex_lock (&ops_lock);
  if (!ops)
    ops = g_hash_table_new_full (g_bytes_hash, g_bytes_equal, (GDestroyNotify) g_bytes_unref,
                                 (GDestroyNotify) gm_exec_unref);
  GmExec *known = g_hash_table_lookup (ops, key);
  g_autoptr (GmExec) e = known ? gm_exec_ref (known) : NULL;
  g_mutex_unlock (&ops_lock);
  if (!e) {
    e = compile_op (op, in, n_in, attrs, out, error);
    if (!e) {
      g_bytes_unref (key);
      return false;
    }
    g_mutex_lock (&ops_lock);
    if (g_hash_table_size (ops) >= MAX_OPS)
      g_hash_table_remove_all (ops);
    g_hash_table_replace (ops, g_bytes_ref (key), gm_exec_ref (e));
    g_mutex_unlock (&ops_lock);
  }
  g_bytes_unref (key);
  return gm_exec_run (e, GM_EXEC_FORWARD, in, n_in, &out, 1, error);
}

__attribute__ ((constructor)) static void
set_hooks (void)
{
  gm_device_open = open_device;
  gm_op_run_on_device = run_op;
}
