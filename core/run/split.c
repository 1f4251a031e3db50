/* SPDX-License-Identifier: Apache-2.0
 * split.c -- a split graph: steps that run one after the other, and slots for their values.
 *
 * A step is a region: the plugin's executable, or a graph that the host interprets.  A slot is an
 * input of the graph or a value that one step makes for another.  A value that is an output of the
 * graph is made in the caller's memory.  A slot is freed after the last step that reads it.
 *
 * Where sizes are symbolic, each region and each body of a call of graphs is an exec for all sizes,
 * which gets the symbols of the run.
 */
#include "core/run/split.h"

#include <string.h>

#include "core/base/log.h"
#include "core/graph/higher.h"
#include "core/run/direct.h"
#include "core/plugin/status.h"

typedef struct {
  GrammeExecutable *code; /* code of a plugin's region whose sizes are numbers, or NULL */
  GmExec *exec;           /* exec of a plugin's region whose sizes are symbolic, or NULL */
  GmGraph *host;          /* the graph of a region that the host interprets, or NULL */
  /* The execs of the bodies that the host's graph calls, GM_HIGHER_MAX_BODIES per row of its table;
   * NULL: it calls no bodies. */
  GmExec **bodies;
  uint32_t n_bodies;            /* length of `bodies`: the graph's shared table may have more
                                 * rows by now */
  GmExecDirect *direct;         /* the host's graph as a direct call; NULL: it is of another
                                 * form */
  uint32_t n_in, n_out, *slots; /* n_in, then n_out */
  size_t workspace_bytes;
} Step;

struct GmExecSplit {
  Step *steps;
  uint32_t n_steps, n_in, n_out, n_slots, widest; /* widest: the largest number of tensors of
                                                   * one step */
  GmMeta *metas;                                  /* by slot */
  uint32_t *output_of;                            /* per slot: the output of the graph that it
                                                   * is, or GM_NO_ID */
  uint32_t *last_use;                             /* by slot: the last step that reads it */
};

/* -- Compiling --------------------------------------------------------------------------------- */

static void
step_init (Step *step, const GmRegion *r)
{
  step->n_in = r->ins->len;
  step->n_out = r->outs->len;
  step->slots = g_new (uint32_t, step->n_in + step->n_out + 1);
  for (uint32_t i = 0; i < step->n_in; i++)
    step->slots[i] = g_array_index (r->ins, uint32_t, i);
  for (uint32_t i = 0; i < step->n_out; i++)
    step->slots[step->n_in + i] = g_array_index (r->outs, uint32_t, i);
}

/* Compiles a region with the plugin.  If the plugin does not support it, *demoted is the reason,
 * which the caller frees, and the host has to run the region. */
static int32_t
compile_step (Step *step, const GmRegion *r, GmRequest *q, char **demoted, GrammeStatus *status,
              GError **error)
{
  g_auto (GmRequestPart) part = { 0 };
  if (!gm_request_part_init (&part, r->graph, error))
    return GRAMME_OK;
  q->parts[0] = &part;
  q->parts[1] = NULL;
  gm_status_clear (status);
  int32_t code = gm_request_compile (q, &step->code, status);
  if (code == GRAMME_OK)
    code = gm_request_workspace (q->backend, step->code, GRAMME_FORWARD, &step->workspace_bytes,
                                 status);
  if (code != GRAMME_OK && step->code) {
    q->backend->plugin->api.destroy (step->code);
    step->code = NULL;
  }
  if (gm_request_falls_back (code)) {
    *demoted = g_strdup (gm_status_text (status, code));
    if (code == GRAMME_INTERNAL)
      gm_log_warn ("back end %s: %s; this region runs in eager", q->backend->name, *demoted);
    code = GRAMME_OK;
  }
  return code;
}

/* Compiles the bodies that the step's host graph calls, with the same back end as any other
 * graph. */
static bool
compile_bodies (Step *step, const GmRequest *q, GError **error)
{
  const GmGraph *g = step->host;
  for (uint32_t i = 0; i < g->nodes->len; i++) {
    const GmNode *n = gm_graph_node (g, i);
    const GmHigher *h = gm_op_is_higher (n->op) ? gm_graph_higher (g, n) : NULL;
    if (!h)
      continue;
    if (!step->bodies) {
      step->n_bodies = g->highers->len * GM_HIGHER_MAX_BODIES;
      step->bodies = g_new0 (GmExec *, step->n_bodies);
    }
    GmExec **at = &step->bodies[n->attrs->offset * GM_HIGHER_MAX_BODIES];
    for (uint32_t b = 0; b < h->n_bodies && !at[0 + b]; b++)
      if (!(at[b] = gm_backend_compile_how (q->backend, h->bodies[b], NULL, q->option_list, q->how,
                                            error)))
        return false;
  }
  return true;
}

static void
note_places (const GmRegion *r, uint32_t region, const char *demoted, GmExecPlaces *places)
{
  char *kept = g_strdup (demoted);
  if (kept && !places->owned)
    places->owned = g_ptr_array_new_with_free_func (g_free);
  if (kept)
    g_ptr_array_add (places->owned, kept);
  for (guint i = 0; i < r->nodes->len; i++) {
    GmExecPlace *p = &places->rows[g_array_index (r->nodes, uint32_t, i)];
    p->where = r->host || demoted ? GM_PLACE_HOST : GM_PLACE_PLUGIN;
    p->region = region;
    if (kept)
      p->why = kept;
  }
}

static void
split_slots (GmExecSplit *s, const GmGraph *g, GmRegions *r)
{
  s->n_in = g->inputs->len;
  s->n_out = g->outputs->len;
  s->n_slots = r->n_slots;
  s->metas = g_memdup2 (r->metas->data, r->n_slots * sizeof (GmMeta));
  s->output_of = g_new (uint32_t, r->n_slots + 1);
  s->last_use = g_new0 (uint32_t, r->n_slots + 1);
  memset (s->output_of, 0xff, r->n_slots * sizeof *s->output_of);
  for (uint32_t i = 0; i < s->n_out; i++)
    s->output_of[r->outputs[i]] = i;
  for (uint32_t i = 0; i < s->n_steps; i++) {
    const Step *step = &s->steps[i];
    s->widest = MAX (s->widest, step->n_in + step->n_out);
    for (uint32_t k = 0; k < step->n_in + step->n_out; k++)
      s->last_use[step->slots[k]] = i;
  }
}

GmExecSplit *
gm_split_new (const GmGraph *g, const GmVerdict *verdicts, const GmRequest *with,
              uint32_t *next_region, uint32_t n_regions, GmExecPlaces *places, int32_t *code,
              GrammeStatus *status, GError **error)
{
  g_autoptr (GmRegions) regions = gm_regions_new (g, verdicts);
  GmExecSplit *s = g_new0 (GmExecSplit, 1);
  s->steps = g_new0 (Step, regions->regions->len + 1);
  bool sized = gm_graph_is_symbolic (g);
  GError *failed = NULL;
  *code = GRAMME_OK;
  for (guint i = 0; i < regions->regions->len && *code == GRAMME_OK && !failed; i++) {
    GmRegion *r = regions->regions->pdata[i];
    GmRequest q = *with;
    g_autofree char *demoted = NULL;
    if (r->outs->len == 0 && !r->has_effects)
      continue; /* no step reads the result */
    Step *step = &s->steps[s->n_steps++];
    step_init (step, r);
    uint32_t number = GM_REGION_NONE;
    if (!r->host) {
      q.region = number = (*next_region)++;
      q.n_regions = n_regions;
      if (sized)
        step->exec =
            gm_backend_compile_how (q.backend, r->graph, NULL, q.option_list, q.how, &failed);
      else
        *code = compile_step (step, r, &q, &demoted, status, &failed);
    }
    if (!step->code && !step->exec && !failed) {
      step->host = g_steal_pointer (&r->graph);
      if (gm_direct_new (step->host, with, &step->direct, &failed)
          && gm_direct_needs_bodies (step->direct))
        compile_bodies (step, with, &failed);
    }
    note_places (r, number, demoted, places);
  }
  if (*code == GRAMME_OK && !failed) {
    split_slots (s, g, regions);
    return s;
  }
  if (failed)
    g_propagate_error (error, failed);
  gm_split_free (s, with->backend);
  return NULL;
}

uint32_t
gm_split_count (const GmGraph *g, const GmVerdict *verdicts)
{
  g_autoptr (GmRegions) regions = gm_regions_new (g, verdicts);
  uint32_t n = 0;
  for (guint i = 0; i < regions->regions->len; i++) {
    const GmRegion *r = regions->regions->pdata[i];
    n += !r->host && r->outs->len > 0;
  }
  return n;
}

void
gm_split_free (GmExecSplit *s, const GmBackend *b)
{
  if (!s)
    return;
  for (uint32_t i = 0; i < s->n_steps; i++) {
    if (s->steps[i].code)
      b->plugin->api.destroy (s->steps[i].code);
    gm_exec_unref (s->steps[i].exec);
    for (uint32_t k = 0; k < s->steps[i].n_bodies; k++)
      gm_exec_unref (s->steps[i].bodies[k]);
    g_free (s->steps[i].bodies);
    gm_direct_free (s->steps[i].direct);
    if (s->steps[i].host)
      gm_graph_free (s->steps[i].host);
    g_free (s->steps[i].slots);
  }
  g_free (s->steps);
  g_free (s->metas);
  g_free (s->output_of);
  g_free (s->last_use);
  g_free (s);
}

/* -- Running ----------------------------------------------------------------------------------- */

typedef struct {
  GmExec *e;
  const GmExecSplit *s;
  const GmGraph *sized; /* NULL: sizes are numbers */
  const int64_t *symbols;
  GmTensor **slots;
  GmTensor *const *out;
  GError **error;
} Run;

static bool
slot_meta (const Run *r, uint32_t slot, GmMeta *out)
{
  *out = r->s->metas[slot];
  return !r->sized || !gm_meta_is_symbolic (out)
         || gm_graph_meta_now (r->sized, &r->s->metas[slot], r->symbols, out, r->error);
}

/* Makes the tensor of a slot: the caller's memory if the slot is an output, else new memory.  False
 * with an error if there is none. */
static bool
make_slot (const Run *r, uint32_t slot)
{
  uint32_t output = r->s->output_of[slot];
  GmMeta m;
  if (output != GM_NO_ID)
    r->slots[slot] = gm_tensor_ref (r->out[output]);
  else
    r->slots[slot] = slot_meta (r, slot, &m) ? gm_tensor_new (&m, r->error) : NULL;
  return r->slots[slot] != NULL;
}

/* Runs a body of h, a call in the host graph of a step (`data`), with its exec.  out: new
 * references. */
static bool
run_body (void *data, const GmHigher *h, uint32_t body, const int64_t *symbols, GmTensor *const *in,
          GmTensor **out, GError **error)
{
  const Step *step = data;
  const GmGraph *g = h->bodies[body];
  uint32_t row = 0, n_out = g->outputs->len;
  while (step->host->highers->pdata[row] != h)
    row++;
  bool good = true;
  for (uint32_t i = 0; good && i < n_out; i++) {
    GmMeta m = *gm_graph_meta (g, g_array_index (g->outputs, GmGraphOutput, i).value);
    if (symbols && gm_meta_is_symbolic (&m))
      good = gm_graph_meta_now (g, &m, symbols, &m, error);
    m.requires_grad = 0;
    good = good && (out[i] = gm_tensor_new (&m, error)) != NULL;
  }
  good = good
         && gm_exec_run_sized (step->bodies[row * GM_HIGHER_MAX_BODIES + body], GM_EXEC_FORWARD,
                               symbols, in, (int) g->inputs->len, out, (int) n_out, error);
  for (uint32_t i = 0; !good && i < n_out; i++)
    g_clear_pointer (&out[i], gm_tensor_unref);
  return good;
}

/* Runs the step's host graph as a direct call, which writes the results into their final memory. */
static GmRunAt
run_direct (const Run *r, const Step *step)
{
  GmTensor **all = g_newa (GmTensor *, step->n_in + step->n_out + 1);
  for (uint32_t k = 0; k < step->n_in + step->n_out; k++) {
    if (k >= step->n_in && !make_slot (r, step->slots[k]))
      return GM_RUN_FAILED;
    all[k] = r->slots[step->slots[k]];
  }
  uint32_t row = gm_graph_node (step->host, step->host->nodes->len - 1)->attrs->offset;
  return gm_direct_run (step->direct,
                        step->bodies ? step->bodies + row * GM_HIGHER_MAX_BODIES : NULL, r->symbols,
                        all, all + step->n_in, r->error);
}

static bool
run_host (const Run *r, const Step *step)
{
  GmRunAt done = step->direct ? run_direct (r, step) : GM_RUN_UNABLE;
  if (done != GM_RUN_UNABLE)
    return done == GM_RUN_DONE;
  const GmHigherRunner by = { run_body, (void *) step };
  g_autofree GmTensor **in = g_new (GmTensor *, step->n_in + 1);
  g_autofree GmTensor **made = g_new0 (GmTensor *, step->n_out + 1);
  for (uint32_t k = 0; k < step->n_in; k++)
    in[k] = r->slots[step->slots[k]];
  bool good = gm_graph_interpret_with (step->host, r->symbols, in, made, step->bodies ? &by : NULL,
                                       r->error);
  for (uint32_t k = 0; k < step->n_out; k++) {
    uint32_t slot = step->slots[step->n_in + k];
    GmMeta want;
    good = good && slot_meta (r, slot, &want);
    if (good
        && (r->slots[slot] || r->s->output_of[slot] != GM_NO_ID
            || !gm_meta_is_laid_out (&made[k]->meta, &want)))
      good = (r->slots[slot] || make_slot (r, slot))
             && gm_exec_copy (made[k], r->slots[slot], r->error);
    else if (good)
      r->slots[slot] = g_steal_pointer (&made[k]);
    gm_tensor_unref (made[k]);
  }
  return good;
}

static bool
run_exec (const Run *r, const Step *step)
{
  uint32_t n = step->n_in + step->n_out;
  g_autofree GmTensor **all = g_new (GmTensor *, n + 1);
  for (uint32_t k = 0; k < n; k++) {
    if (k >= step->n_in && !make_slot (r, step->slots[k]))
      return false;
    all[k] = r->slots[step->slots[k]];
  }
  return gm_exec_run_sized (step->exec, GM_EXEC_FORWARD, r->symbols, all, (int) step->n_in,
                            all + step->n_in, (int) step->n_out, r->error);
}

static bool
run_plugin (const Run *r, const Step *step)
{
  GmExec *e = r->e;
  GError **error = r->error;
  g_autofree GrammeTensor *tensors = g_new0 (GrammeTensor, step->n_in + step->n_out + 1);
  for (uint32_t k = 0; k < step->n_in + step->n_out; k++) {
    uint32_t slot = step->slots[k];
    if (k >= step->n_in && !make_slot (r, slot))
      return false;
    gm_exec_describe (&tensors[k], r->slots[slot]);
  }
  void *workspace = step->workspace_bytes ? gm_alloc (step->workspace_bytes) : NULL;
  if (step->workspace_bytes && !workspace) {
    g_set_error (error, GM_ERROR, GM_ERROR_MEMORY,
                 "no memory for the %zu bytes that a run of back end %s needs",
                 step->workspace_bytes, e->backend->name);
    return false;
  }
  const GrammeRunArgs args = {
    .struct_size = sizeof args,
    .role = GRAMME_FORWARD,
    .inputs = tensors,
    .outputs = tensors + step->n_in,
    .n_inputs = step->n_in,
    .n_outputs = step->n_out,
    .workspace = workspace,
    .workspace_bytes = step->workspace_bytes,
  };
  GrammeStatus status;
  gm_status_clear (&status);
  int32_t code = gm_exec_call (e, step->code, &args, &status);
  if (workspace)
    gm_free (workspace, step->workspace_bytes);
  if (code == GRAMME_OK)
    return true;
  gm_status_to_error (&status, code, e->backend->name, "run of a region", error);
  return false;
}

bool
gm_split_run (GmExec *e, const GmExecSplit *s, const GmGraph *sized, const int64_t *symbols,
              GmTensor *const *in, GmTensor *const *out, GError **error)
{
  g_autofree GmTensor **slots = g_new0 (GmTensor *, s->n_slots + 1);
  const Run r = { e, s, sized, symbols, slots, out, error };
  bool good = true;
  for (uint32_t i = 0; i < s->n_in; i++)
    slots[i] = gm_tensor_ref (in[i]);
  for (uint32_t i = 0; i < s->n_steps && good; i++) {
    const Step *step = &s->steps[i];
    good = step->code   ? run_plugin (&r, step)
           : step->exec ? run_exec (&r, step)
                        : run_host (&r, step);
    for (uint32_t k = 0; k < step->n_in + step->n_out; k++)
      if (s->last_use[step->slots[k]] == i)
        g_clear_pointer (&slots[step->slots[k]], gm_tensor_unref);
  }
  for (uint32_t i = 0; i < s->n_slots; i++)
    gm_tensor_unref (slots[i]);
  return good;
}
