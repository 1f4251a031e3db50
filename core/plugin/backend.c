/* SPDX-License-Identifier: Apache-2.0
 * backend.c -- a name becomes an opened plugin, graphs become an executable.
 *
 * The plugin is asked about every node of every graph before it compiles.  One NO sends the whole
 * request to the host's eager executor: slower, but right; partitioning a graph between the two is
 * a refinement of `choose`. A request is made and dropped within gm_backend_compile: the plugin
 * keeps nothing of it, and an exec keeps metas and, for the fallback, a graph of its own.
 */
#include <string.h>

#include "core/base/log.h"
#include "core/graph/image.h"
#include "core/plugin/exec.h"
#include "core/plugin/host.h"
#include "core/plugin/status.h"

#define BLOCK_ALIGN 64

static uint64_t n_fallbacks; /* atomic */

/* -- Getting one by name ----------------------------------------------------------------------- */

static GMutex backends_lock;
static GPtrArray *backends; /* GmBackend, process lifetime */

static GmBackend *
find_open (const char *name)
{
  for (guint i = 0; backends && i < backends->len; i++) {
    GmBackend *b = backends->pdata[i];
    if (strcmp (b->name, name) == 0 || strcmp (b->plugin->manifest->id, name) == 0)
      return b;
  }
  return NULL;
}

static GmBackend *
open_plugin (const char *file, GmRefused *why)
{
  const GmPlugin *p = gm_loader_load (file, why);
  if (!p)
    return NULL;
  GrammeStatus status;
  GrammeBackend *instance = NULL;
  gm_status_clear (&status);
  int32_t code = p->api.open (p->host, NULL, 0, &instance, &status);
  if (code != GRAMME_OK || !instance) {
    gm_refuse (why, GM_REFUSAL_OPENED, "%s",
               gm_status_text (&status, code == GRAMME_OK ? GRAMME_INTERNAL : code));
    return NULL;
  }
  GmBackend *b = g_new0 (GmBackend, 1);
  b->plugin = p;
  b->instance = instance;
  b->name = p->manifest->name;
  b->compile_serial = gm_manifest_has_flag (p->manifest, "compile-serial");
  b->run_concurrent = gm_manifest_has_flag (p->manifest, "run-concurrent");
  g_mutex_init (&b->compile_lock);
  return b;
}

static GmBackend *
load (const char *name, GError **error)
{
  g_autoptr (GPtrArray) plugins = gm_registry_scan ();
  const GmPluginInfo *info = gm_registry_find (plugins, name, error);
  if (!info)
    return NULL;
  GmRefused why = { 0 };
  GmBackend *b = open_plugin (info->file, &why);
  if (!b) {
    gm_registry_note_failure (info->file, &why);
    g_set_error (error, GM_ERROR, GM_ERROR_BACKEND, "back end \"%s\": %s %s", name, info->file,
                 why.text);
    gm_refused_clear (&why);
    return NULL;
  }
  if (!backends)
    backends = g_ptr_array_new ();
  g_ptr_array_add (backends, b);
  return b;
}

GmBackend *
gm_backend_get (const char *name, GError **error)
{
  g_mutex_lock (&backends_lock); /* held while loading: [load] calls are serialised */
  GmBackend *b = find_open (name);
  if (!b)
    b = load (name, error);
  g_mutex_unlock (&backends_lock);
  return b;
}

const char *
gm_backend_name (const GmBackend *b)
{
  return b->name;
}

uint64_t
gm_backend_fallbacks (void)
{
  return __atomic_load_n (&n_fallbacks, __ATOMIC_RELAXED);
}

/* -- Options ----------------------------------------------------------------------------------- */

/* "key=value" rows as the plugin gets them: pointers into copies that the array owns. */
typedef struct {
  GArray *rows;      /* GrammeOption */
  GPtrArray *copies; /* char */
} Options;

static void
options_clear (Options *o)
{
  g_clear_pointer (&o->rows, g_array_unref);
  g_clear_pointer (&o->copies, g_ptr_array_unref);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Options, options_clear)

static bool
options_read (Options *o, const GmBackend *b, const char *const *list, GError **error)
{
  o->rows = g_array_new (FALSE, FALSE, sizeof (GrammeOption));
  o->copies = g_ptr_array_new_with_free_func (g_free);
  for (; list && *list; list++) {
    char *copy = g_strdup (*list), *equals = strchr (copy, '=');
    g_ptr_array_add (o->copies, copy);
    if (!equals || equals == copy) {
      g_set_error (error, GM_ERROR, GM_ERROR_VALUE,
                   "back end \"%s\": option \"%s\" is not of the form key=value", b->name, copy);
      return false;
    }
    *equals = 0;
    if (!gm_manifest_check_option (b->plugin->manifest, copy, equals + 1, error))
      return false;
    GrammeOption row = { copy, equals + 1 };
    g_array_append_val (o->rows, row);
  }
  return true;
}

bool
gm_backend_check_options (const GmBackend *b, const char *const *options, GError **error)
{
  g_auto (Options) o = { 0 };
  return options_read (&o, b, options, error);
}

/* -- One graph of the request ------------------------------------------------------------------ */

typedef struct {
  const GmGraph *graph; /* the caller's */
  GmGraph inner;        /* the same with the outputs that code must compute; shares all else */
  GmImage *image;
  GrammeDebug debug;
} Part;

static void
part_clear (Part *p)
{
  g_clear_pointer (&p->image, gm_image_free);
  if (p->inner.outputs)
    g_array_unref (p->inner.outputs);
  g_free ((void *) p->debug.value_names);
  g_free ((void *) p->debug.node_where);
}

static uint32_t
find_input (const GmGraph *g, GmValueId v)
{
  for (uint32_t i = 0; i < g->inputs->len; i++)
    if (g_array_index (g->inputs, GmValueId, i) == v)
      return i;
  return GM_NO_ID;
}

/* Outputs that are inputs or repeat an earlier one become copies by the host; the rest is the
 * plugin's. */
static void
split_outputs (Part *p, GmExecRole *r)
{
  p->inner = *p->graph;
  p->inner.owns_arena = false;
  p->inner.outputs = g_array_new (FALSE, FALSE, sizeof (GmGraphOutput));
  r->inner = g_new (uint32_t, r->n_out + 1);
  g_autoptr (GHashTable) first = g_hash_table_new (NULL, NULL);
  for (uint32_t i = 0; i < r->n_out; i++) {
    GmGraphOutput o = g_array_index (p->graph->outputs, GmGraphOutput, i);
    void *key = GUINT_TO_POINTER (o.value), *earlier = g_hash_table_lookup (first, key);
    GmExecCopy copy = { .out = i, .from = GM_NO_ID };
    if (gm_graph_value (p->graph, o.value)->node == GM_NO_ID)
      copy = (GmExecCopy){ .out = i, .from = find_input (p->graph, o.value), .from_input = true };
    else if (earlier)
      copy.from = GPOINTER_TO_UINT (earlier) - 1;
    if (copy.from != GM_NO_ID) {
      if (!r->copies)
        r->copies = g_array_new (FALSE, FALSE, sizeof (GmExecCopy));
      g_array_append_val (r->copies, copy);
    } else {
      g_hash_table_insert (first, key, GUINT_TO_POINTER (i + 1));
      r->inner[r->n_inner++] = i;
      g_array_append_val (p->inner.outputs, o);
    }
  }
}

static bool
check_meta (const GmMeta *m, const char *what, uint32_t i, GError **error)
{
  bool symbolic = false;
  for (int d = 0; d < m->ndim; d++)
    symbolic |= m->sizes[d] < 0;
  if (symbolic)
    g_set_error (error, GM_ERROR, GM_ERROR_UNSUPPORTED,
                 "%s %u has a symbolic size; back ends of this version get numbers only: "
                 "specialise the graph first",
                 what, i);
  return !symbolic;
}

static bool
part_init (Part *p, GmExecRole *r, const GmGraph *g, GError **error)
{
  p->graph = g;
  r->present = true;
  r->n_in = g->inputs->len;
  r->n_out = g->outputs->len;
  r->metas = g_new0 (GmMeta, r->n_in + r->n_out + 1);
  for (uint32_t i = 0; i < r->n_in; i++) {
    r->metas[i] = *gm_graph_meta (g, g_array_index (g->inputs, GmValueId, i));
    if (!check_meta (&r->metas[i], "input", i, error))
      return false;
  }
  for (uint32_t i = 0; i < r->n_out; i++) {
    r->metas[r->n_in + i] = *gm_graph_meta (g, g_array_index (g->outputs, GmGraphOutput, i).value);
    if (!check_meta (&r->metas[r->n_in + i], "output", i, error))
      return false;
  }
  split_outputs (p, r);
  p->image = gm_image_new (&p->inner, error);
#ifdef GM_DEBUG_CHECKS
  if (p->image && !gm_image_validate (p->image->bytes, p->image->length, error))
    return false;
#endif
  return p->image != NULL;
}

static void
part_debug (Part *p)
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

/* -- Compiling --------------------------------------------------------------------------------- */

typedef struct {
  Part parts[2];
  Options options;
  GmCompileJob job;
} Request;

static void
request_clear (Request *q)
{
  part_clear (&q->parts[0]);
  part_clear (&q->parts[1]);
  options_clear (&q->options);
  gm_compile_job_clear (&q->job);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Request, request_clear)

/* NULL, or why the plugin cannot have this graph: "%3 = tanh at train.py:12: it does not know this
 * operator". */
static char *
refusal_of (GmBackend *b, const Part *p)
{
  const GrammeImage *image = p->image->bytes;
  g_autofree GrammeVerdict *verdicts = g_new0 (GrammeVerdict, image->nodes.count + 1);
  GrammeStatus status;
  gm_status_clear (&status);
  int32_t code =
      b->plugin->api.get_support (b->instance, image, verdicts, sizeof *verdicts, &status);
  if (code != GRAMME_OK)
    return g_strdup_printf ("it cannot say what it supports: %s", gm_status_text (&status, code));
  for (uint32_t i = 0; i < image->nodes.count; i++) {
    if (verdicts[i].support == GRAMME_YES || verdicts[i].support == GRAMME_PREFER)
      continue;
    const GmNode *n = gm_graph_node (p->graph, i);
    return g_strdup_printf ("%s node %u, %s%s%s: %s", p->graph->name ? p->graph->name : "graph", i,
                            gm_ops[n->op].name, n->where ? " at " : "", n->where ? n->where : "",
                            gm_manifest_reason (b->plugin->manifest, verdicts[i].reason));
  }
  return NULL;
}

static char *
choose (GmBackend *b, const Request *q, const GmExec *e)
{
  for (int role = 0; role < 2; role++) {
    char *why = e->roles[role].n_inner > 0 ? refusal_of (b, &q->parts[role]) : NULL;
    if (why)
      return why;
  }
  return NULL;
}

/* From here on the host's eager executor does it. */
static bool
fall_back (GmExec *e, const Request *q, char *reason, bool loud, GError **error)
{
  e->fallback_reason = reason;
  __atomic_add_fetch (&n_fallbacks, 1, __ATOMIC_RELAXED);
  if (loud)
    gm_log_warn ("back end %s: %s; this graph runs in eager", e->backend->name, reason);
  else
    gm_log (GM_LOG_GRAPH_BREAKS, "back end %s: %s; this graph runs in eager", e->backend->name,
            reason);
  for (int role = 0; role < 2; role++) {
    GmExecRole *r = &e->roles[role];
    if (r->n_inner == 0)
      continue;
    const GmImage *image = q->parts[role].image;
    r->eager =
        gm_image_read (image->bytes, image->length, (GmTensor *const *) image->constants->pdata,
                       image->constants->len, error);
    if (!r->eager)
      return false;
  }
  return true;
}

static int32_t
call_compile (GmBackend *b, Request *q, GmExec *e, GrammeStatus *status)
{
  Part *f = &q->parts[0], *k = &q->parts[1];
  g_autofree GrammeTensor *constants = NULL;
  uint32_t n_forward = 0, n = 0;
  for (int role = 0; role < 2; role++) {
    const GmImage *image = q->parts[role].image;
    if (!image)
      continue;
    part_debug (&q->parts[role]);
    constants = g_renew (GrammeTensor, constants, n + image->constants->len + 1);
    for (guint i = 0; i < image->constants->len; i++) {
      memset (&constants[n], 0, sizeof constants[n]);
      gm_exec_describe (&constants[n++], image->constants->pdata[i]);
    }
    if (role == 0)
      n_forward = n;
  }
  const GrammeCompileRequest request = {
    .struct_size = sizeof request,
    .flags = GRAMME_REQUEST_DETERMINISTIC,
    .forward = f->image->bytes,
    .backward = k->image ? k->image->bytes : NULL,
    .forward_debug = &f->debug,
    .backward_debug = k->image ? &k->debug : NULL,
    .constants = constants,
    .options = (const GrammeOption *) (void *) q->options.rows->data,
    .n_constants = n,
    .n_options = q->options.rows->len,
    .device_type = GM_DEVICE_CPU,
    .max_threads = g_get_num_processors (),
    .work_dir_fd = -1,
    .job = &q->job,
    .n_forward_constants = n_forward,
  };
  if (b->compile_serial)
    g_mutex_lock (&b->compile_lock);
  int32_t code = b->plugin->api.compile (b->instance, &request, &e->executable, status);
  if (b->compile_serial)
    g_mutex_unlock (&b->compile_lock);
  if (code == GRAMME_OK && !e->executable)
    return gm_status_set (status, GRAMME_INTERNAL, -1, "compile said OK and gave nothing");
  return code;
}

/* What a run of each role takes besides the caller's tensors. */
static int32_t
measure (GmBackend *b, GmExec *e, GrammeStatus *status)
{
  for (uint32_t role = 0; role < 2; role++) {
    GmExecRole *r = &e->roles[role];
    uint64_t bytes = 0;
    int32_t code = r->n_inner > 0 && b->plugin->api.workspace
                       ? b->plugin->api.workspace (e->executable, role, NULL, &bytes, status)
                       : GRAMME_OK;
    if (code != GRAMME_OK)
      return code;
    size_t n = (size_t) r->n_in + r->n_inner,
           tensors = n > GM_EXEC_STACK_TENSORS ? n * sizeof (GrammeTensor) : 0;
    if (bytes > SIZE_MAX / 2)
      return gm_status_set (status, GRAMME_NO_MEMORY, -1,
                            "it asks for %" G_GUINT64_FORMAT " bytes of workspace", bytes);
    r->workspace_bytes = (size_t) (bytes + BLOCK_ALIGN - 1) / BLOCK_ALIGN * BLOCK_ALIGN;
    r->block_bytes = r->workspace_bytes + tensors;
  }
  return GRAMME_OK;
}

static bool
compile (GmBackend *b, Request *q, GmExec *e, GError **error)
{
  if (e->roles[0].n_inner == 0 && e->roles[1].n_inner == 0)
    return true; /* the host's copies are all there is */
  char *why = choose (b, q, e);
  if (why)
    return fall_back (e, q, why, false, error);

  GrammeStatus status;
  gm_status_clear (&status);
  int32_t code = call_compile (b, q, e, &status);
  if (code == GRAMME_OK)
    code = measure (b, e, &status);
  const char *said = q->job.diagnostics->str;
  if (code == GRAMME_OK) {
    if (said[0])
      gm_log (GM_LOG_OUTPUT_CODE, "%s: %s", b->name, said);
    return true;
  }
  if (e->executable) {
    b->plugin->api.destroy (e->executable);
    e->executable = NULL;
  }
  if (code == GRAMME_UNSUPPORTED || code == GRAMME_INTERNAL) {
    why = g_strdup_printf ("%s%s%s", gm_status_text (&status, code), said[0] ? "\n" : "", said);
    return fall_back (e, q, why, code == GRAMME_INTERNAL, error);
  }
  gm_status_to_error (&status, code, b->name, "compile", error);
  if (said[0] && error)
    g_prefix_error (error, "%s", said);
  return false;
}

GmExec *
gm_backend_compile (GmBackend *b, const GmGraph *forward, const GmGraph *backward,
                    const char *const *options, GError **error)
{
  gint64 start = g_get_monotonic_time ();
  g_auto (Request) q = { 0 };
  gm_compile_job_init (&q.job);
  g_autoptr (GmExec) e = g_new0 (GmExec, 1);
  g_atomic_ref_count_init (&e->refs);
  g_mutex_init (&e->run_lock);
  e->backend = b;
  if (!options_read (&q.options, b, options, error) ||
      !part_init (&q.parts[0], &e->roles[0], forward, error) ||
      (backward && !part_init (&q.parts[1], &e->roles[1], backward, error)) ||
      !compile (b, &q, e, error))
    return NULL;
  e->compile_ms = (double) (g_get_monotonic_time () - start) / 1000.0;
  return g_steal_pointer (&e);
}
