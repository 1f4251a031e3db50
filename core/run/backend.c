/* SPDX-License-Identifier: Apache-2.0
 * backend.c -- a name becomes an opened plugin, graphs become an executable.
 *
 * The plugin is asked about every node of every graph before it compiles.  If it takes all of them
 * in one cluster, forward and backward go to it in one request.  Else each graph is cut into
 * regions (regions.c): the plugin's, each a request, and the host's (split.c).  If it takes nothing
 * at all, or its compile says that it does not support the whole after all, the host's eager
 * executor runs it: slower, but right.  Graphs of symbolic sizes go to a plugin that takes all of
 * their nodes; else they are compiled for the numbers of each call (sized.c).  A request is made
 * and dropped within gm_backend_compile: the plugin keeps nothing of it, and an exec keeps metas
 * and graphs of its own.
 */
#include <string.h>

#include "core/base/log.h"
#include "core/run/exec.h"
#include "core/run/forked.h"
#include "core/run/plugin_host.h"
#include "core/run/request.h"
#include "core/run/sized.h"
#include "core/run/split.h"
#include "core/plugin/status.h"
#include "core/run/tiers.h"

static uint64_t n_fallbacks, n_compiles; /* atomic */

/* -- Getting one by name ----------------------------------------------------------------------- */

/* The lock under which plugins are loaded, so that [load] calls are serialised.  A GmYieldLock: the
 * program's other threads can run Python code while a plugin is tried. */
static GmYieldLock loading;
static GMutex backends_lock;
static GPtrArray *backends; /* GmBackend, process lifetime */

static GmBackend *
find_open (const char *name)
{
  for (guint i = 0; backends && i < backends->len; i++) {
    GmBackend *b = backends->pdata[i];
    if (strcmp (b->name, name) == 0 || strcmp (b->plugin->manifest->id, name) == 0
        || strcmp (b->plugin->file, name) == 0)
      return b;
  }
  return NULL;
}

static GmBackend *
open_plugin (const char *file, GmRefused *why)
{
  GmPlugin *p = gm_loader_load (file, why);
  if (!p)
    return NULL;
  gm_forked_watch (p);
  GrammeBackend *instance = gm_loader_open (p, why);
  if (!instance)
    return NULL;
  GmBackend *b = g_new0 (GmBackend, 1);
  b->plugin = p;
  b->instance = instance;
  b->name = p->manifest->name;
  gm_artefacts_init (&b->artefacts, p, instance);
  b->compile_serial = gm_manifest_has_flag (p->manifest, "compile-serial");
  b->run_concurrent = gm_manifest_has_flag (p->manifest, "run-concurrent");
  return b;
}

static GmBackend *
open_auto (void)
{
  GmPlugin *p = g_new0 (GmPlugin, 1);
  p->file = g_strdup (GM_AUTO_FILE);
  p->manifest = gm_manifest_parse (g_strdup (gm_auto_manifest), NULL, NULL);
  g_assert (p->manifest);
  GmBackend *b = g_new0 (GmBackend, 1);
  b->plugin = p;
  b->name = p->manifest->name;
  b->is_auto = true;
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
  GmBackend *b = info->is_auto ? open_auto () : open_plugin (info->file, &why);
  if (!b) {
    if (why.code != GM_REFUSAL_STOPPED)
      gm_registry_note_failure (info->file, &why);
    g_set_error (error, GM_ERROR, GM_ERROR_BACKEND, "back end \"%s\": %s %s", name, info->file,
                 why.text);
    gm_refused_clear (&why);
    return NULL;
  }
  return b;
}

static GmBackend *
find (const char *name)
{
  g_mutex_lock (&backends_lock);
  GmBackend *b = find_open (name);
  g_mutex_unlock (&backends_lock);
  return b;
}

static void
add (GmBackend *b)
{
  g_mutex_lock (&backends_lock);
  if (!backends)
    backends = g_ptr_array_new ();
  g_ptr_array_add (backends, b);
  g_mutex_unlock (&backends_lock);
}

GmBackend *
gm_backend_get (const char *name, GError **error)
{
  GmBackend *b = find (name);
  if (!b) {
    gm_yield_lock (&loading);
    b = find (name); /* another thread loaded the plugin first */
    if (!b && (b = load (name, error)))
      add (b);
    gm_yield_unlock (&loading);
  }
  return b && gm_forked_refuses (b->plugin, error) ? NULL : b;
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

uint64_t
gm_backend_compiles (void)
{
  return __atomic_load_n (&n_compiles, __ATOMIC_RELAXED);
}

/* -- Options ----------------------------------------------------------------------------------- */

/* "key=value" options as the plugin gets them: pointers into copies, which are owned here. */
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
  if (b->is_auto)
    return gm_tiers_check_options (b, options, error);
  g_auto (Options) o = { 0 };
  return options_read (&o, b, options, error);
}

/* -- The graphs of a request ------------------------------------------------------------------- */

typedef struct {
  const GmGraph *graph; /* the caller's graph */
  GmGraph inner;        /* the same graph with only those outputs that code must compute; shares
                         * all else */
  GmRequestPart part;   /* the image of the inner graph */
  GmVerdict *verdicts;  /* per node; NULL: asking the plugin failed */
} Part;

static void
part_clear (Part *p)
{
  gm_request_part_clear (&p->part);
  if (p->inner.outputs)
    g_array_unref (p->inner.outputs);
  g_free (p->verdicts);
}

static uint32_t
find_input (const GmGraph *g, GmValueId v)
{
  for (uint32_t i = 0; i < g->inputs->len; i++)
    if (g_array_index (g->inputs, GmValueId, i) == v)
      return i;
  return GM_NO_ID;
}

/* Divides the outputs: the host copies those that are inputs or repeat an earlier output, the
 * plugin computes the others. */
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
part_init (Part *p, GmExecRole *r, const GmGraph *g, GError **error)
{
  p->graph = g;
  r->present = true;
  r->is_backward = g_strcmp0 (g->name, "backward") == 0;
  r->n_in = g->inputs->len;
  r->n_out = g->outputs->len;
  r->metas = g_new0 (GmMeta, r->n_in + r->n_out + 1);
  for (uint32_t i = 0; i < r->n_in; i++)
    r->metas[i] = *gm_graph_meta (g, g_array_index (g->inputs, GmValueId, i));
  for (uint32_t i = 0; i < r->n_out; i++)
    r->metas[r->n_in + i] = *gm_graph_meta (g, g_array_index (g->outputs, GmGraphOutput, i).value);
  split_outputs (p, r);
  r->known = g_new (GrammeTensor, r->n_in + r->n_inner + 1);
  for (uint32_t i = 0; i < r->n_in; i++)
    gm_exec_describe_meta (&r->known[i], &r->metas[i]);
  for (uint32_t i = 0; i < r->n_inner; i++)
    gm_exec_describe_meta (&r->known[r->n_in + i], &r->metas[r->n_in + r->inner[i]]);
  return gm_request_part_init (&p->part, &p->inner, error);
}

/* -- Compiling --------------------------------------------------------------------------------- */

typedef struct {
  Part parts[2];
  Options options;
  const char *const *option_list; /* borrowed */
  GmCompileJob job;
  const GmCompileHow *how;
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

static void
name_places (GmExecPlaces *places, const GmGraph *g)
{
  places->n = g->nodes->len;
  places->rows = g_new0 (GmExecPlace, places->n + 1);
  places->names = g_new0 (char *, places->n + 1);
  for (uint32_t i = 0; i < places->n; i++) {
    const GmNode *n = gm_graph_node (g, i);
    places->names[i] = n->where ? g_strdup_printf ("%s at %s", gm_ops[n->op].name, n->where)
                                : g_strdup (gm_ops[n->op].name);
    places->rows[i].region = GM_NO_ID;
  }
}

static void
place_all (GmExecRole *r, uint32_t where, const char *why)
{
  for (uint32_t i = 0; i < r->places.n; i++)
    r->places.rows[i] = (GmExecPlace){ where, where == GM_PLACE_PLUGIN ? 0 : GM_NO_ID, why };
}

static bool
is_higher (const Part *p, uint32_t node)
{
  return gm_op_is_higher (gm_graph_node (&p->inner, node)->op);
}

/* Asks the plugin about each node of the request.  Returns NULL, or the reason why the plugin
 * cannot be asked, which the caller frees. */
static char *
ask (GmBackend *b, Request *q, GmExec *e)
{
  for (int role = 0; role < 2; role++) {
    Part *p = &q->parts[role];
    GmExecRole *r = &e->roles[role];
    char *why = NULL;
    if (r->n_inner == 0)
      continue;
    name_places (&r->places, &p->inner);
    if (gm_support_ask (b->plugin, b->instance, p->part.image->bytes, gm_op_minor, &p->verdicts,
                        &why)
        != GM_SUPPORT_TOLD)
      return why;
    for (uint32_t i = 0; i < r->places.n; i++)
      if (is_higher (p, i)) {
        p->verdicts[i].yes = false;
        r->places.rows[i].why = gm_op_has_effects (gm_graph_node (&p->inner, i)->op)
                                    ? "it is a function of the host's"
                                    : "it runs graphs, each compiled by itself";
      } else if (!p->verdicts[i].yes)
        r->places.rows[i].why = gm_manifest_reason (b->plugin->manifest, p->verdicts[i].reason);
  }
  return NULL;
}

/* A summary of the verdicts: the numbers of computing nodes that the plugin takes and refuses, and
 * the first node that it refuses. */
typedef struct {
  uint32_t n_yes, n_no, role, node; /* role, node: of the first NO */
  /* higher: some nodes call graphs, which is the host's work whatever the plugin answers */
  bool one_cluster, higher;
} Answer;

static Answer
sum_up (const Request *q, const GmExec *e)
{
  Answer a = { .one_cluster = true };
  const GmVerdict *first = NULL;
  for (uint32_t role = 0; role < 2; role++)
    for (uint32_t i = 0; i < e->roles[role].places.n; i++) {
      const GmVerdict *v = &q->parts[role].verdicts[i];
      if (is_higher (&q->parts[role], i)) {
        a.higher = true;
        continue;
      }
      if (!v->yes && a.n_no++ == 0) {
        a.role = role;
        a.node = i;
      }
      if (!v->yes)
        continue;
      a.n_yes++;
      first = first ? first : v;
      a.one_cluster = a.one_cluster && v->cluster == first->cluster;
    }
  return a;
}

/* Returns a text on the first refused node, such as "forward node 3, tanh at train.py:12: it does
 * not know this operator"; the caller frees it. */
static char *
first_no (const Request *q, const GmExec *e, const Answer *a)
{
  const GmExecPlaces *p = &e->roles[a->role].places;
  const char *name = q->parts[a->role].graph->name;
  return g_strdup_printf ("%s node %u, %s: %s", name ? name : "graph", a->node, p->names[a->node],
                          p->rows[a->node].why);
}

static void
note_fallback (GmExec *e, char *reason, const char *what, bool loud)
{
  e->fallback_reason = reason;
  __atomic_add_fetch (&n_fallbacks, 1, __ATOMIC_RELAXED);
  if (loud)
    gm_log_warn ("back end %s: %s; %s in eager", e->backend->name, reason, what);
  else
    gm_log (GM_LOG_GRAPH_BREAKS, "back end %s: %s; %s in eager", e->backend->name, reason, what);
}

/* Makes the host's eager executor run all graphs of the request.  reason: owned from here on; loud:
 * it is logged as a graph break. */
static bool
fall_back (GmExec *e, const Request *q, char *reason, bool loud, GError **error)
{
  note_fallback (e, reason, "this graph runs", loud);
  for (int role = 0; role < 2; role++) {
    GmExecRole *r = &e->roles[role];
    if (r->n_inner == 0)
      continue;
    const GmImage *image = q->parts[role].part.image;
    if (r->places.n == 0)
      name_places (&r->places, &q->parts[role].inner);
    for (uint32_t i = 0; i < r->places.n; i++)
      r->places.rows[i] =
          (GmExecPlace){ GM_PLACE_HOST, GM_NO_ID,
                         r->places.rows[i].why ? r->places.rows[i].why : e->fallback_reason };
    r->eager =
        gm_image_read (image->bytes, image->length, (GmTensor *const *) image->constants->pdata,
                       image->constants->len, error);
    if (!r->eager)
      return false;
    gm_graph_share_tables (r->eager, q->parts[role].graph);
  }
  return true;
}

/* Sets, for each role, the size of the plugin's workspace and of the block that a run needs besides
 * the caller's tensors.  Returns the plugin's answer. */
static int32_t
measure (GmBackend *b, GmExec *e, GrammeStatus *status)
{
  for (uint32_t role = 0; role < 2; role++) {
    GmExecRole *r = &e->roles[role];
    if (r->n_inner == 0)
      continue;
    int32_t code = gm_request_workspace (b, e->executable, role, &r->workspace_bytes, status);
    if (code != GRAMME_OK)
      return code;
    size_t n = (size_t) r->n_in + r->n_inner;
    r->block_bytes =
        r->workspace_bytes + (n > GM_EXEC_STACK_TENSORS ? n * sizeof (GrammeTensor) : 0);
  }
  return GRAMME_OK;
}

static void
log_diagnostics (const GmBackend *b, const Request *q)
{
  if (q->job.diagnostics->str[0])
    gm_log (GM_LOG_OUTPUT_CODE, "%s: %s", b->name, q->job.diagnostics->str);
}

static bool
fail (GmBackend *b, const Request *q, const GrammeStatus *status, int32_t code, GError **error)
{
  gm_status_to_error (status, code, b->name, "compile", error);
  if (q->job.diagnostics->str[0] && error)
    g_prefix_error (error, "%s", q->job.diagnostics->str);
  return false;
}

/* Compiles a request that the plugin takes as a whole. */
static bool
compile_whole (GmBackend *b, Request *q, GmExec *e, const GmRequest *with, GError **error)
{
  GrammeStatus status;
  gm_status_clear (&status);
  GmRequest request = *with;
  request.parts[0] = &q->parts[0].part;
  request.parts[1] = q->parts[1].graph ? &q->parts[1].part : NULL;
  int32_t code = gm_request_compile (&request, &e->executable, &status);
  if (code == GRAMME_OK && !e->sized)
    code = measure (b, e, &status);
  if (code == GRAMME_OK) {
    for (int role = 0; role < 2; role++)
      place_all (&e->roles[role], GM_PLACE_PLUGIN, NULL);
    log_diagnostics (b, q);
    return true;
  }
  if (e->executable)
    b->plugin->api.destroy (e->executable);
  e->executable = NULL;
  if (!gm_request_falls_back (code))
    return fail (b, q, &status, code, error);
  const char *said = q->job.diagnostics->str;
  char *why = g_strdup_printf ("%s%s%s", gm_status_text (&status, code), said[0] ? "\n" : "", said);
  if (e->sized) {
    gm_sized_specialise (e->sized, b, q->option_list, why);
    return true;
  }
  return fall_back (e, q, why, code == GRAMME_INTERNAL, error);
}

/* Compiles a request that the plugin takes in part: region by region. */
static bool
compile_split (GmBackend *b, Request *q, GmExec *e, const GmRequest *with, char *why,
               GError **error)
{
  GrammeStatus status;
  uint32_t region = 0, n_regions = 0;
  int32_t code = GRAMME_OK;
  if (why)
    note_fallback (e, why, "a part of this graph runs", false);
  for (int role = 0; role < 2; role++)
    if (e->roles[role].n_inner > 0)
      n_regions += gm_split_count (&q->parts[role].inner, q->parts[role].verdicts);
  for (int role = 0; role < 2; role++) {
    GmExecRole *r = &e->roles[role];
    if (r->n_inner == 0)
      continue;
    r->split = gm_split_new (&q->parts[role].inner, q->parts[role].verdicts, with, &region,
                             n_regions, &r->places, &code, &status, error);
    if (!r->split)
      return code == GRAMME_OK ? false : fail (b, q, &status, code, error);
  }
  log_diagnostics (b, q);
  return true;
}

static bool
compile (GmBackend *b, Request *q, GmExec *e, GError **error)
{
  if (e->roles[0].n_inner == 0 && e->roles[1].n_inner == 0)
    return true; /* all outputs are copies that the host makes */
  char *why = ask (b, q, e);
  if (why && e->sized && !q->how->cached_only) {
    gm_sized_specialise (e->sized, b, q->option_list, why);
    return true;
  }
  if (why && !q->how->cached_only)
    return fall_back (e, q, why, false, error);
  Answer a = why ? (Answer){ 0 } : sum_up (q, e);
  const GmRequest with = { .backend = b,
                           .options = q->options.rows,
                           .option_list = q->option_list,
                           .job = &q->job,
                           .region = 0,
                           .n_regions = 1,
                           .how = q->how };
  if (q->how->cached_only && (why || a.n_no > 0 || !a.one_cluster || a.higher)) {
    g_free (why);
    g_set_error (error, GM_ERROR, GM_ERROR_BACKEND, "%s does not take the whole graph", b->name);
    return false;
  }
  if (a.n_no == 0 && a.one_cluster && !a.higher)
    return compile_whole (b, q, e, &with, error);
  why = a.n_no > 0 ? first_no (q, e, &a) : NULL;
  /* Nodes that the plugin refuses with symbols may be accepted with numbers. */
  if (e->sized && (a.n_no > 0 || !a.higher)) {
    gm_sized_specialise (e->sized, b, q->option_list, why);
    return true;
  }
  return a.n_yes == 0 && !a.higher ? fall_back (e, q, why, false, error)
                                   : compile_split (b, q, e, &with, why, error);
}

GmExec *
gm_backend_compile (GmBackend *b, const GmGraph *forward, const GmGraph *backward,
                    const char *const *options, GError **error)
{
  return gm_backend_compile_how (b, forward, backward, options, &(GmCompileHow){ 0 }, error);
}

GmExec *
gm_backend_compile_how (GmBackend *b, const GmGraph *forward, const GmGraph *backward,
                        const char *const *options, const GmCompileHow *how, GError **error)
{
  if (b->is_auto)
    return gm_tiers_compile (b, forward, backward, options, how, error);
  if (gm_forked_refuses (b->plugin, error))
    return NULL;
  gint64 start = g_get_monotonic_time ();
  g_auto (Request) q = { .how = how };
  if (how->no_cache && b->artefacts.api)
    gm_artefacts_note_bypass (how->no_cache);
  gm_compile_job_init (&q.job);
  q.job.stop = how->stop;
  g_autoptr (GmExec) e = g_new0 (GmExec, 1);
  g_atomic_ref_count_init (&e->refs);
  g_mutex_init (&e->run_lock);
  e->backend = b;
  q.option_list = options;
  e->sized = gm_sized_new (forward, backward);
  if (e->sized) {
    forward = gm_sized_graph (e->sized, GM_EXEC_FORWARD);
    backward = gm_sized_graph (e->sized, GM_EXEC_BACKWARD);
  }
  if (!options_read (&q.options, b, options, error)
      || !part_init (&q.parts[0], &e->roles[0], forward, error)
      || (backward && !part_init (&q.parts[1], &e->roles[1], backward, error)))
    return NULL;
  for (int role = 0; e->sized && role < 2 && q.parts[role].graph; role++)
    gm_sized_set_role (e->sized, role, q.parts[role].part.image, &e->roles[role]);
  if (!compile (b, &q, e, error))
    return NULL;
  if (!e->sized || !gm_sized_why (e->sized))
    __atomic_add_fetch (&n_compiles, 1, __ATOMIC_RELAXED);
  e->compile_ms = (double) (g_get_monotonic_time () - start) / 1000.0;
  return g_steal_pointer (&e);
}
