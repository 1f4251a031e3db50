/* SPDX-License-Identifier: Apache-2.0
 * request.c -- see request.h.  Everything that a plugin is shown lives only until its compile
 * returns.
 */
#include "core/run/request.h"

#include <string.h>

#include "core/plugin/status.h"
#include "plugin-api/gramme-ext-draft.h"

#define WORKSPACE_ALIGN 64

/* -- A graph ----------------------------------------------------------------------------------- */

static void
name_rows (GmRequestPart *p)
{
  const GmGraph *g = p->graph;
  uint32_t n_values = p->image->bytes->values.count;
  const char **names = g_new0 (const char *, n_values + 1),
             **where = g_new0 (const char *, g->nodes->len + 1);
  for (uint32_t i = 0; i < g->values->len; i++)
    if (p->image->values[i] < n_values)
      names[p->image->values[i]] = gm_graph_value (g, i)->name;
  for (uint32_t i = 0; i < g->nodes->len; i++)
    where[i] = gm_graph_node (g, i)->where;
  p->debug = (GrammeDebug){ .struct_size = sizeof p->debug,
                            .n_values = n_values,
                            .n_nodes = g->nodes->len,
                            .value_names = names,
                            .node_where = where };
}

bool
gm_request_part_init (GmRequestPart *p, const GmGraph *g, GError **error)
{
  p->graph = g;
  p->image = gm_image_new (g, error);
#ifdef GM_DEBUG_CHECKS
  if (p->image && !gm_image_validate (p->image->bytes, p->image->length, error))
    return false;
#endif
  if (p->image)
    name_rows (p);
  return p->image != NULL;
}

void
gm_request_part_clear (GmRequestPart *p)
{
  g_clear_pointer (&p->image, gm_image_free);
  g_free ((void *) p->debug.value_names);
  g_free ((void *) p->debug.node_where);
  *p = (GmRequestPart){ 0 };
}

/* -- Waiting for code -------------------------------------------------------------------------- */

#define STEP_MS 20

typedef struct {
  const GrammeWait *api;
  GrammeExecutable *executable;
  GrammeStatus *status;
  int32_t code;
} Wait;

static bool
wait_step (void *data)
{
  Wait *w = data;
  int32_t done = 0;
  w->code = w->api->wait (w->executable, STEP_MS, &done, w->status);
  return done || w->code != GRAMME_OK;
}

/* Returns the `wait` extension of a plugin whose compile may return before the code is ready, if
 * this host is to wait for the code; else NULL. */
static const GrammeWait *
waiting_of (const GmBackend *b)
{
  const GrammeBackendApi *api = &b->plugin->api;
  const GrammeWait *w = gm_yield_is_set () && api->get_extension
                            ? api->get_extension (b->instance, GRAMME_WAIT_ID)
                            : NULL;
  return w && GRAMME_HAS_FN (w, GrammeWait, wait) ? w : NULL;
}

/* Waits until the code of e is ready, while signals are handled and other threads can run Python
 * code; neither is possible in a run.  Returns the plugin's answer. */
static int32_t
wait_for_code (const GmRequest *q, GrammeExecutable *e, GrammeStatus *status)
{
  Wait w = { .api = waiting_of (q->backend), .executable = e, .status = status, .code = GRAMME_OK };
  if (w.api && !gm_host_wait (q->job, wait_step, &w))
    return gm_status_set (status, GRAMME_CANCELLED, -1, "stopped while its compiler ran");
  return w.code;
}

/* Returns the *n options for the plugin; the caller frees the array.  Without the option `wait`,
 * which tells the plugin to wait for the code: the host waits instead. */
static GrammeOption *
options_of (const GmRequest *q, uint32_t *n)
{
  bool waits = waiting_of (q->backend) != NULL;
  GrammeOption *rows = g_new (GrammeOption, q->options->len + 1);
  *n = 0;
  for (guint i = 0; i < q->options->len; i++) {
    const GrammeOption *o = &g_array_index (q->options, GrammeOption, i);
    if (!waits || strcmp (o->key, "wait") != 0)
      rows[(*n)++] = *o;
  }
  return rows;
}

/* -- The call ---------------------------------------------------------------------------------- */

static int32_t
call (const GmRequest *q, const GrammeCompileRequest *request, GrammeExecutable **out,
      GrammeStatus *status)
{
  GmBackend *b = q->backend;
  if (b->compile_serial)
    gm_yield_lock (&b->compile_lock);
  const GmCompileHow none = { .no_cache = "" }, *how = q->how ? q->how : &none;
  g_autoptr (GmArtefact) kept =
      how->no_cache
          ? NULL
          : gm_artefact_new (&b->artefacts, b->plugin, b->instance, request, how->cache_salt);
  int32_t code = kept ? gm_artefact_load (kept, out, status) : GRAMME_NOT_FOUND;
  bool compiles = code == GRAMME_NOT_FOUND && !how->cached_only;
  if (compiles) {
    GmFpuControl before = gm_fpu_look ();
    code = b->plugin->api.compile (b->instance, request, out, status);
    if (!gm_fpu_equal (before, gm_fpu_look ()))
      gm_fpu_restore (b->plugin, before, "when it compiled");
  }
  if (b->compile_serial)
    gm_yield_unlock (&b->compile_lock);
  if (compiles && code == GRAMME_OK && *out
      && (code = wait_for_code (q, *out, status)) != GRAMME_OK)
    b->plugin->api.destroy (*out);
  if (compiles && kept && code == GRAMME_OK && *out)
    gm_artefact_save (kept, *out);
  if (how->cached_only && code == GRAMME_NOT_FOUND)
    return gm_status_set (status, code, -1, "not cached");
  if (code == GRAMME_OK && !*out)
    return gm_status_set (status, GRAMME_INTERNAL, -1, "compile said OK and gave nothing");
  if (code != GRAMME_OK)
    *out = NULL; /* an executable that was returned with an error is not valid */
  return code;
}

/* Returns the device that the graph needs: that of any value that is not on the CPU, else the
 * CPU. */
static int32_t
device_of (const GmGraph *g)
{
  for (uint32_t v = 0; v < g->values->len; v++)
    if (gm_graph_meta (g, v)->device != GM_DEVICE_CPU)
      return gm_graph_meta (g, v)->device;
  return GM_DEVICE_CPU;
}

int32_t
gm_request_compile (const GmRequest *q, GrammeExecutable **out, GrammeStatus *status)
{
  const GmRequestPart *f = q->parts[0], *k = q->parts[1];
  const GPtrArray *of[2] = { f->image->constants, k ? k->image->constants : NULL };
  uint32_t n = 0, n_constants = of[0]->len + (k ? of[1]->len : 0);
  g_autofree GrammeTensor *constants = g_new0 (GrammeTensor, n_constants + 1);
  for (int role = 0; role < 2; role++)
    for (guint i = 0; of[role] && i < of[role]->len; i++)
      gm_exec_describe (&constants[n++], of[role]->pdata[i]);
  uint32_t n_options;
  g_autofree GrammeOption *options = options_of (q, &n_options);
  const GrammeCompileRequest request = {
    .struct_size = sizeof request,
    .flags = GRAMME_REQUEST_DETERMINISTIC,
    .forward = f->image->bytes,
    .backward = k ? k->image->bytes : NULL,
    .forward_debug = &f->debug,
    .backward_debug = k ? &k->debug : NULL,
    .constants = constants,
    .options = options,
    .n_constants = n_constants,
    .n_options = n_options,
    .device_type = device_of (f->graph),
    .max_threads = g_get_num_processors (),
    .work_dir_fd = -1,
    .job = q->job,
    .n_forward_constants = of[0]->len,
    .region = q->region,
    .n_regions = q->n_regions,
  };
  *out = NULL;
  return call (q, &request, out, status);
}

int32_t
gm_request_workspace (GmBackend *b, GrammeExecutable *e, uint32_t role, size_t *bytes,
                      GrammeStatus *status)
{
  uint64_t asked = 0;
  int32_t code = b->plugin->api.workspace ? b->plugin->api.workspace (e, role, NULL, &asked, status)
                                          : GRAMME_OK;
  if (code == GRAMME_OK && asked > SIZE_MAX / 2)
    return gm_status_set (status, GRAMME_NO_MEMORY, -1,
                          "it asks for %" G_GUINT64_FORMAT " bytes of workspace", asked);
  *bytes = (size_t) (asked + WORKSPACE_ALIGN - 1) / WORKSPACE_ALIGN * WORKSPACE_ALIGN;
  return code;
}
