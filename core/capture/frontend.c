/* SPDX-License-Identifier: Apache-2.0
 * frontend.c -- the three stages that know Python: decode, record, assemble.
 *
 * gm_frontend_compile is one compilation, stages d to a.  It also decides how often a function that
 * broke is tried again, when there are enough entries, and what the user is told, once.  A function
 * that cannot be traced keeps its entries and otherwise runs as plain Python.
 */
#include "core/objects/cpython.h"
#include "core/objects/errors.h"
#include "core/objects/tensor_object.h"
#include "core/objects/device_py.h"

#include "core/base/log.h"
#include "core/base/yield.h"
#include "core/compile_options.h"
#include "core/compiled_pair.h"
#include "core/aot/read_order.h"
#include "core/objects/api_object.h"
#include "core/objects/args.h"
#include "core/bytecode/assemble.h"
#include "core/objects/autograd_py.h"
#include "core/capture/callable_backend.h"
#include "core/capture/compiler_py.h"
#include "core/capture/entry_draws.h"
#include "core/capture/control.h"
#include "core/capture/counters.h"
#include "core/objects/call_objects.h"
#include "core/capture/frontend.h"
#include "core/objects/graph_object.h"
#include "core/capture/hook.h"
#include "core/objects/host_function.h"
#include "core/capture/inline_hooks.h"
#include "core/capture/measure.h"
#include "core/capture/profile_store.h"
#include "core/capture/report.h"
#include "core/objects/switches.h"
#include "core/objects/kept_frame.h"
#include "core/capture/resume_call.h"
#include "core/capture/resume_code.h"
#include "core/capture/trace_host.h"
#include "core/objects/types.h"
#include "core/objects/wrapped_calls.h"
#include "core/objects/import.h"

#include <time.h>
#include <unistd.h>

/* Limit of a function's entries for all configurations together, if accumulated_recompile_limit
 * is not set to a number. */
#define MAX_ACCUMULATED 256
/* Limit of recordings that broke: different arguments may take another path, but not for ever. */
#define MAX_BREAKS 4

PyObject *gm_py_unsupported, *gm_py_break_warning;

/* State of one compilation; GmCompile.front points to it. */
typedef struct {
  const GmTarget *target;
  GmCodeCache *cache;
  const GmCallEnv *env;
  PyObject *const *locals;
  const GmCode *code;
  GmRecording *rec;
  GmReadOrder looks;       /* order of reads of stale views among the graph's inputs */
  const GmBreakInfo *stop; /* why the function cannot be compiled; or NULL */
  GmContinuation *rest;    /* if the recording broke off: the continuation */
  GmDirect *direct;
  GmPyHooks *hooks; /* saved-tensor hooks that become part of the graphs; NULL: none */
  GmEntry *entry;
  char effects;          /* see effect_policy */
  bool numbers, counted; /* the switches capture_scalar_outputs, capture_dynamic_output_shape_ops */
  bool arithmetic;   /* true if the graph only computes numbers from sizes, without a back end */
  GmDynamic dynamic; /* which sizes become symbols if the function's options do not say so */
  GmPlanCache *plans;
  bool never_dynamic; /* true if a graph of symbols was tried and could not be compiled */
  bool keep_objects;  /* replay_side_effects is False, fullgraph is True */
} Job;

/* -- d: decode --------------------------------------------------------------------------------- */

static bool
decode (GmCompile *c, GError **error)
{
  Job *job = c->front;
  job->code =
      job->cache->decoded ? job->cache->decoded : gm_code_cache_decode (job->cache->code, error);
  return job->code != NULL;
}

/* -- r: record --------------------------------------------------------------------------------- */

/* True if a tensor of the graph requires grad.  For most graphs the call's grad mode decides
 * that, but the region may have turned gradients on. */
static bool
any_requires_grad (const GmGraph *g)
{
  for (guint i = 0; i < g->nodes->len; i++)
    if (gm_graph_meta (g, g_array_index (g->nodes, GmNode, i).out)->requires_grad)
      return true;
  return false;
}

/* True if an input of the recording that is written to overlaps in memory with another input of
 * a different storage: two tensors over the same array, which do not know of each other.  t: the
 * tensors by input, NULL for other inputs. */
static bool
is_shared_unseen (const GmRecording *rec, GmTensor *const *t)
{
  for (uint32_t i = 0; i < rec->n_inputs; i++)
    for (uint32_t k = 0; k < rec->n_inputs && rec->inputs[i].mutated && t[i]; k++)
      if (t[k] && t[k]->storage != t[i]->storage && gm_tensor_may_overlap (t[k], t[i]))
        return true;
  return false;
}

/* True if a graph cannot express the relation of an input to its base.  Either the input is
 * written to, takes part in the gradient, and is a view of a tensor that set_ () has given other
 * memory, so that a new gradient history of the input does not reach the base.  Or the input is a
 * view of a tensor that lost some of its elements in place, so that the graphs' assumptions on
 * views and bases do not hold. */
static bool
is_left_behind (const GmRecording *rec, GmTensor *const *t)
{
  for (uint32_t i = 0; i < rec->n_inputs; i++)
    if (t[i]
        && ((rec->inputs[i].mutated && t[i]->base && !gm_tensor_view_base (t[i])
             && gm_tensor_requires_grad (t[i]))
            || gm_view_is_outside (t[i])))
      return true;
  return false;
}

/* True if the tensor belongs to a module, and so exists in the next call, too: a parameter, or a
 * result of Buffer (). */
static bool
is_of_module (PyObject *o)
{
  if (Py_TYPE (o) == gm_host.parameter_type)
    return true;
  PyObject *mark = PyObject_GetAttrString (o, "_is_buffer");
  bool is = mark == Py_True;
  Py_XDECREF (mark);
  PyErr_Clear ();
  return is;
}

/* Stores in the graph which of this call's input tensors share memory, if the graph changes
 * anything in place; the facts that later stages use are guarded.  With saved-tensor hooks, also
 * stores which inputs belong to a module.  False if the function cannot be compiled for this call,
 * with *why (static text, may stay NULL). */
static bool
describe_memory (const Job *job, GmCompile *c, const char **why)
{
  GmGraph *g = c->record.graph;
  const GmRecording *rec = job->rec;
  bool any = job->hooks != NULL;
  for (guint i = 0; i < g->nodes->len && !any; i++)
    any = gm_ops[gm_graph_node (g, i)->op].family == GM_FAMILY_MUTATE;
  if (!any)
    return true;
  PyObject **slots = g_newa (PyObject *, gm_guards_n_slots (rec->guards) + 1);
  if (!gm_guards_check (rec->guards, job->env, job->locals, job->target->func, slots))
    return false; /* the guards held when they were recorded, so an object has died since */
  g_autofree GmTensor **tensors = g_new0 (GmTensor *, rec->n_inputs + 1);
  for (uint32_t i = 0; i < rec->n_inputs; i++)
    if (rec->inputs[i].slot != GM_SLOT_RNG && !rec->inputs[i].is_int)
      tensors[i] = gm_py_tensor_get (slots[rec->inputs[i].slot]);
  if (job->hooks) {
    bool *of_module = gm_arena_newn (c->arena, bool, rec->n_inputs + 1);
    for (uint32_t i = 0; i < rec->n_inputs; i++)
      of_module[i] = tensors[i] && is_of_module (slots[rec->inputs[i].slot]);
    c->ask.of_module = of_module;
  }
  if (is_shared_unseen (rec, tensors)) {
    *why = "an in-place write to a tensor whose memory another one has by another way (two tensors "
           "over one array): make one from the other";
    return false;
  }
  if (is_left_behind (rec, tensors)) {
    *why = "an in-place write beside a view of a tensor that set_ (), as_strided_ () or resize_ () "
           "has given other memory";
    return false;
  }
  gm_overlap_describe (g, tensors);
  return true;
}

static GmDynamic
dynamic_mode (const Job *job, uint8_t option)
{
  if (job->never_dynamic || option == GM_DYNAMIC_OPTION_FALSE)
    return GM_DYNAMIC_NEVER;
  return option == GM_DYNAMIC_OPTION_TRUE ? GM_DYNAMIC_ALWAYS : job->dynamic;
}

/* Returns the function's first argument, borrowed, since sizes are remembered for each instance;
 * NULL: none.  After a break it is among the values handed on only if the rest still uses it, and
 * the first value handed on may be another variable. */
static PyObject *
first_argument (const Job *job)
{
  const GmCodeCache *cache = job->cache;
  if (cache->point && !(cache->point->at.n_locals > 0 && cache->point->at.locals[0] == 0))
    return NULL;
  return cache->code->co_argcount > 0 ? job->locals[0] : NULL;
}

static bool
record (GmCompile *c, GError **error)
{
  Job *job = c->front;
  GmRecordRequest request = { .func = job->target->func,
                              .code = job->code,
                              .locals = job->locals,
                              .env = *job->env,
                              .backend_text = job->target->config->text,
                              .resumable = !job->target->fullgraph,
                              .start = job->cache->point ? &job->cache->point->at : NULL,
                              .effect_stacks = job->effects != 's',
                              .keep_objects = job->keep_objects,
                              .numbers = job->numbers,
                              .counted = job->counted,
                              .dynamic_parameters =
                                  !gm_switch_is_true ("force_parameter_static_shapes"),
                              .dynamic = dynamic_mode (job, c->ask.dynamic),
                              .profile = job->cache->profile };
  bool seen = request.dynamic == GM_DYNAMIC_SEEN && !gm_hook_all ();
  if (seen)
    gm_profile_store_enter (job->cache, first_argument (job));
  job->rec = gm_record_function (&request);
  if (seen)
    gm_profile_store_leave (job->cache);
  job->stop = job->rec->stop;
  if (job->rec->point) {
    const char *why;
    job->rest = gm_continuation_new (job->rec->point, job->target->func->func_globals, &why);
    if (!job->rest && !why)
      return gm_py_error_set (error);
    if (!job->rest) {
      gm_log (GM_LOG_GRAPH_BREAKS, "no way to go on after the break: %s", why);
      static const GmBreakInfo forced = { .message = "GM_STRESS=break" };
      job->stop = job->rec->broke ? job->rec->broke : &forced;
    }
  }
  if (job->stop) {
    c->stopped = true;
    c->why = job->stop->message;
    return true;
  }
  c->record.graph = g_steal_pointer (&job->rec->graph);
  job->looks = gm_read_order_find (c->record.graph, job->rec->looks, job->rec->n_looks);
  gm_read_order_note (c->record.graph, &job->looks);
  if (!describe_memory (job, c, &c->why)) {
    c->stopped = true;
    return true;
  }
  c->ask.differentiate |= any_requires_grad (c->record.graph);
  if (job->hooks)
    gm_py_hooks_show (job->hooks, c->record.graph);
  for (uint32_t i = 0; i < job->rec->n_inputs; i++)
    if (job->rec->inputs[i].slot == GM_SLOT_RNG)
      c->record.random = (GmPlanRandom){ .used = true,
                                         .input = { i },
                                         .draws = job->rec->rng_taken,
                                         .given_out = job->rec->rng_output != GM_NO_ID,
                                         .output = job->rec->rng_output };
  return true;
}

/* -- Memory ------------------------------------------------------------------------------------ */

static bool
overlap_holds (const void *data, const GmTensor *a, const GmTensor *b)
{
  return gm_overlap_holds (data, (GmTensor *const[]){ (GmTensor *) a, (GmTensor *) b });
}

static char *
overlap_text (const void *data)
{
  return gm_overlap_text (data);
}

static bool
is_int (const GmEntry *e, uint32_t input)
{
  for (uint32_t i = 0; i < e->n_ints; i++)
    if (e->ints[i] == input)
      return true;
  return false;
}

/* Adds guards for what the entry's plan assumes on the memory of its inputs: which pairs
 * overlap. */
static void
guard_memory (GmEntry *e)
{
  uint32_t n = 0;
  const GmOverlap *overlaps = e->plan    ? gm_plan_overlaps (e->plan, &n)
                              : e->plans ? gm_plan_cache_overlaps (e->plans, &n)
                                         : NULL;
  for (uint32_t i = 0; i < n; i++) {
    GmOverlap pair = overlaps[i];
    if (is_int (e, pair.a.i) || is_int (e, pair.b.i))
      continue; /* the tensor that stands for an int has no memory */
    uint32_t a = e->input_slots[pair.a.i], b = e->input_slots[pair.b.i];
    pair.a.i = 0;
    pair.b.i = 1;
    gm_guards_add_memory (
        e->guards, a, b,
        &(GmMemoryFact){ overlap_holds, overlap_text, g_memdup2 (&pair, sizeof pair) });
  }
}

/* Moves the job's order of reads of stale views to the entry, with the inputs numbered as the
 * entry numbers them: without the generator's state. */
static void
keep_looks (GmEntry *e, Job *job)
{
  const GmRecording *rec = job->rec;

  e->looks = job->looks;
  job->looks = (GmReadOrder){ 0 };
  for (uint32_t i = 0; i < e->looks.n; i++) {
    uint32_t before = 0;
    for (uint32_t k = 0; k < e->looks.inputs[i]; k++)
      before += rec->inputs[k].slot == GM_SLOT_RNG;
    e->looks.inputs[i] -= before;
  }
}

/* -- a: assemble ------------------------------------------------------------------------------- */

static bool
assemble (GmCompile *c, GError **error)
{
  Job *job = c->front;
  GmRecording *rec = job->rec;
  GmEntry *e = g_new0 (GmEntry, 1);
  e->refs = 1;
  job->entry = e;
  e->config = gm_config_ref (job->target->config);
  e->modes = job->env->modes;
  e->guards = gm_guards_ref (rec->guards);
  e->plan = g_steal_pointer (&c->lower.plan);
  e->direct = g_steal_pointer (&job->direct);
  e->plans = g_steal_pointer (&job->plans);
  e->n_outputs = e->plan     ? (uint32_t) gm_plan_n_outputs (e->plan)
                 : e->plans  ? gm_plan_cache_n_outputs (e->plans)
                 : e->direct ? e->direct->n_outputs
                             : 0;
  e->input_slots = g_new (uint32_t, rec->n_inputs + 1);
  e->ints = g_new (uint32_t, rec->n_inputs + 1);
  for (uint32_t i = 0; i < rec->n_inputs; i++) {
    if (rec->inputs[i].slot == GM_SLOT_RNG)
      continue; /* the plan passes this input itself */
    if (rec->inputs[i].is_int)
      e->ints[e->n_ints++] = e->n_inputs;
    e->input_slots[e->n_inputs++] = rec->inputs[i].slot;
  }
  guard_memory (e);
  keep_looks (e, job);
  gm_guards_add_sizes (e->guards, &(GmGuardSizes){ c->record.graph, rec->inputs, rec->n_inputs,
                                                   rec->size_places, rec->n_size_places });
  if (job->hooks)
    gm_py_hooks_guard (g_steal_pointer (&job->hooks), e->guards);
  e->draws = gm_entry_draws_new (rec->draws, rec->n_draws);
  e->ret = g_steal_pointer (&rec->ret);
  e->rest = g_steal_pointer (&job->rest);
  /* The long ending may change the grad mode. */
  e->sets_grad = rec->sets_grad || e->rest || !e->ret;
  e->grad = rec->grad;
  if (!e->ret) {
    e->residual = gm_assemble_residual (rec->residual, job->cache->code);
    if (!e->residual)
      return gm_py_error_set (error);
    e->n_in_slots = rec->residual->n_in_slots;
    e->in_slots = g_memdup2 (rec->residual->in_slots, e->n_in_slots * sizeof (uint32_t));
  }
  e->calls_program = gm_py_host_any_of_program (c->record.graph);
  e->simple = gm_entry_is_simple (e);
  e->n_nodes = c->record.graph->nodes->len;
  e->fixed = rec->fixed && *rec->fixed ? g_strdup (rec->fixed) : NULL;
  e->n_effects = rec->n_effects;
  e->n_frames = rec->n_frames_inlined;
  e->n_insns = rec->n_insns_executed;
  e->pair = c->lower.pair ? gm_compiled_pair_ref (c->lower.pair) : NULL;
  return true;
}

static char *
stage_text (const GmCompile *c, char letter)
{
  const Job *job = c->front;
  if (letter == 'd')
    return gm_code_text (job->code);
  if (letter == 'a') {
    g_autofree char *guards = gm_guards_text (job->entry->guards);
    return g_strdup_printf ("guards:\n%s%s\n", guards,
                            job->entry->ret ? "the value returned is built directly"
                                            : "a residual function finishes the call");
  }
  return NULL;
}

/* -- Messages for the user --------------------------------------------------------------------- */

static uint32_t
break_count (const GmCodeCache *cache, const GmConfig *config)
{
  uint32_t n = 0;
  for (uint32_t i = 0; i < cache->breaks->len; i++) {
    const GmBreakRecord *b = &g_array_index (cache->breaks, GmBreakRecord, i);
    n += b->config == config && b->plain ? b->count : 0;
  }
  return n;
}

static void
remember_break (Job *job, GmBreak id, const char *text, bool plain)
{
  const GmConfig *config = job->target->config;
  for (uint32_t i = 0; i < job->cache->breaks->len; i++) {
    GmBreakRecord *b = &g_array_index (job->cache->breaks, GmBreakRecord, i);
    if (b->config == config && b->id == id && b->plain == plain && strcmp (b->text, text) == 0) {
      b->count++;
      return;
    }
  }
  GmBreakRecord b = {
    .config = gm_config_ref (config), .id = id, .text = g_strdup (text), .plain = plain, .count = 1
  };
  g_array_append_val (job->cache->breaks, b);
}

/* True if the break only follows from an earlier break, and is not reported: after a break
 * inside of a loop, the FOR_ITER meets a real iterator, which cannot be recorded. */
static bool
is_consequence (const Job *job, const GmBreakInfo *why)
{
  const GmBreakFrame *f = &job->rec->point->frames[0];
  return why->id == GM_BREAK_ITERATION && job->cache->point
         && f->code->insns[f->insn].op == GM_INSN_FOR_ITER;
}

/* Logs and counts a break after which the recording ended, unless it follows from an earlier
 * break. */
static void
tell_break (Job *job, const GmBreakInfo *why)
{
  if (is_consequence (job, why))
    return;
  g_autofree char *text = gm_report_break_text (why);
  gm_log (GM_LOG_GRAPH_BREAKS, "%s", text);
  gm_count_break (job->cache, why->id, why->message);
  remember_break (job, why->id, text, false);
}

/* Reports why the function runs as plain Python: counts and logs the break `id`, and with
 * fullgraph raises, else warns, at the first time.  message: the short reason; text: the whole
 * report. */
static void
tell_stop (Job *job, GmBreak id, const char *message, const char *text)
{
  gm_count_break (job->cache, id, message);
  gm_log (GM_LOG_GRAPH_BREAKS, "%s", text);
  if (job->stop && job->stop->error) { /* each time, since nothing of it is kept */
    PyErr_SetString (gm_py_unsupported, text);
    return;
  }
  uint32_t before = job->cache->breaks->len;
  remember_break (job, id, text, true);
  if (job->target->fullgraph)
    PyErr_SetString (gm_py_unsupported, text);
  else if (job->cache->breaks->len > before && !job->cache->point && !job->target->hooked
           && !gm_hook_all ())
    /* Raises, if the user has made the warning an error. */
    PyErr_WarnFormat (gm_py_break_warning, 1, "%s\n  the function runs as plain Python", text);
}

/* Returns a text that says why the existing entries do not fit this call; NULL if this
 * configuration has none.  The caller frees. */
static char *
recompile_reason (const Job *job)
{
  const GmSnapshot *s = job->cache->snapshot;
  for (uint32_t i = 0; i < s->n; i++)
    if (s->entries[i]->config == job->target->config)
      return gm_guards_explain (s->entries[i]->guards, job->env, job->locals, job->target->func);
  if (s->n > 0)
    return g_strdup_printf ("BACKEND_MATCH: expected %s, found %s", s->entries[0]->config->text,
                            job->target->config->text);
  return NULL;
}

/* Logs one line for each entry that does not fit: its number and the first guard that fails. */
static void
log_recompile (const Job *job)
{
  const GmSnapshot *s = job->cache->snapshot;
  PyCodeObject *code = job->cache->code;
  g_autoptr (GString) text = g_string_new (NULL);
  for (uint32_t i = 0; i < s->n; i++) {
    const GmEntry *e = s->entries[i];
    g_autofree char *why =
        e->config == job->target->config
            ? gm_guards_explain (e->guards, job->env, job->locals, job->target->func)
            : g_strdup_printf ("BACKEND_MATCH: expected %s, found %s", e->config->text,
                               job->target->config->text);
    g_string_append_printf (text, "\n  entry %u: %s", s->n - 1 - i, why ? why : "it fits");
  }
  if (s->n > 0)
    gm_log (GM_LOG_RECOMPILES, "%s at %s:%d is compiled again, because none of its entries fits%s",
            PyUnicode_AsUTF8 (code->co_qualname), PyUnicode_AsUTF8 (code->co_filename),
            code->co_firstlineno, text->str);
}

static void
refuse (const GmCodeCache *cache, const char *who, const char *reason)
{
  PyErr_Format (gm_py_recompile_error, "%U() would have to be compiled%s, and %s: %s",
                cache->code->co_qualname, cache->snapshot->n ? " again" : "", who,
                reason ? reason : "it has not been compiled yet");
}

PyObject *
gm_frontend_refuse (const GmTarget *target, const GmCallEnv *env, PyObject *const *locals)
{
  Job job = { .target = target, .cache = target->cache, .env = env, .locals = locals };
  g_autofree char *reason = recompile_reason (&job);
  refuse (target->cache,
          gm_control ()->steady ? "the stance is skip_guard_eval_unsafe"
                                : "the stance is fail_on_recompile",
          reason);
  return NULL;
}

/* Returns the number of entries that the function may have for this configuration: its option
 * recompile-limit, else the switch recompile_limit, else GM_MAX_ENTRIES. */
static long
own_limit (const GmConfig *config)
{
  const char *text = gm_compile_option (config->options, "recompile-limit");
  /* 0, too, for a text that is no number: the first compilation refuses the option. */
  long said = text ? (long) g_ascii_strtoll (text, NULL, 10) : 0;
  return said > 0 ? said : gm_switch_number ("recompile_limit", GM_MAX_ENTRIES);
}

/* True if the function may have no more entries.  Then the user is warned, only once, or an
 * exception is set each time if fail_on_recompile_limit_hit is on.  reason: as from
 * recompile_reason, or NULL. */
static bool
past_limit (Job *job, const char *reason)
{
  long limit = own_limit (job->target->config),
       in_all = gm_switch_number ("accumulated_recompile_limit", MAX_ACCUMULATED);
  long own = (long) gm_code_cache_count (job->cache, job->target->config),
       all = (long) job->cache->snapshot->n;
  if (own < limit && all < in_all)
    return false;
  if (own < limit)
    limit = in_all;
  if (gm_switch_is_true ("fail_on_recompile_limit_hit")) {
    g_autofree char *why = reason ? NULL : recompile_reason (job);
    PyErr_Format (gm_py_limit_error,
                  "%U() has been compiled for %ld different kinds of calls, the recompile limit, "
                  "and fail_on_recompile_limit_hit is set; "
                  "the last one did not fit because of %s",
                  job->cache->code->co_qualname, limit,
                  reason ? reason
                  : why  ? why
                         : "its guards");
    return true;
  }
  if (!job->cache->limit_warned && !job->target->hooked && !gm_hook_all ()
      && !gm_stress ("guards")) {
    job->cache->limit_warned = true;
    PyErr_WarnFormat (gm_py_break_warning, 1,
                      "%U() has been compiled for %ld different kinds of calls, and no more will "
                      "be (the recompile limit): these stay in "
                      "use, other calls run as plain Python. The last one did not fit because of "
                      "%s. Pass what varies as a tensor.",
                      job->cache->code->co_qualname, limit, reason ? reason : "its guards");
  }
  return true;
}

/* Returns the first letter of the switch side_effect_replay_policy: silent (also if it is not
 * set), info, warn or error. */
static char
effect_policy (void)
{
  PyObject *policy = gm_switch_value ("gramme._dynamo.config", "side_effect_replay_policy");
  const char *text = policy && PyUnicode_Check (policy) ? PyUnicode_AsUTF8 (policy) : NULL;
  char letter = text && *text ? *text : 's';
  PyErr_Clear ();
  Py_XDECREF (policy);
  return letter;
}

/* Logs, warns of or raises the recording's side effects, as `policy` (see effect_policy) says.
 * False with an exception, where the policy or a filter of warnings demands it. */
static bool
tell_effects (const Job *job, char policy)
{
  g_autofree char *text = policy == 's' ? NULL : gm_recording_effects_text (job->rec);
  if (!text || !*text)
    return true;
  PyObject *name = job->cache->code->co_qualname;
  if (policy == 'e') {
    PyErr_Format (PyExc_RuntimeError,
                  "%U() changes objects that existed before the call, and "
                  "side_effect_replay_policy is \"error\":\n%s",
                  name, text);
    return false;
  }
  if (policy == 'w')
    return PyErr_WarnFormat (PyExc_UserWarning, 1,
                             "%U() changes objects that existed before the call; the changes are "
                             "made after its graph:\n%s",
                             name, text)
           == 0;
  gm_log_warn ("%s() changes objects that existed before the call; the changes are made after its "
               "graph:\n%s",
               PyUnicode_AsUTF8 (name), text);
  return true;
}

/* -- One compilation --------------------------------------------------------------------------- */

/* Stores in e how long its guards take.  The first check has cold caches, which is what a
 * program pays between two steps of other work. */
static void
measure_guards (const Job *job, GmEntry *e)
{
  PyObject **slots = g_newa (PyObject *, gm_guards_n_slots (e->guards) + 1);
  for (int i = 0; i < 4; i++) {
    struct timespec start, end;
    clock_gettime (CLOCK_MONOTONIC, &start);
    gm_guards_check (e->guards, job->env, job->locals, job->target->func, slots);
    clock_gettime (CLOCK_MONOTONIC, &end);
    double ns = (double) (end.tv_sec - start.tv_sec) * 1e9 + (double) (end.tv_nsec - start.tv_nsec);
    e->guard_ns = i == 0 ? ns : MIN (e->guard_ns, ns);
    e->guard_cold_ns = i == 0 ? ns : e->guard_cold_ns;
  }
}

/* Makes each record of the entry's guards fail once, for the test mode GM_STRESS=guards: this
 * shows that each record has an effect, and that a failed check leaves no state that would mislead
 * the next check. */
static void
fail_each (const Job *job, GmEntry *e)
{
  PyObject **slots = g_newa (PyObject *, gm_guards_n_slots (e->guards) + 1);
  bool held = gm_guards_check (e->guards, job->env, job->locals, job->target->func, slots);
  e->to_fail = gm_guards_n_records (e->guards);
  for (uint32_t i = 0; i < e->to_fail; i++)
    g_assert (gm_guards_fail (e->guards, job->env, job->locals, job->target->func, i));
  g_assert (gm_guards_check (e->guards, job->env, job->locals, job->target->func, slots) == held);
}

/* Logs a code object's instructions as Python's module dis shows them, for GRAMME_LOGS=bytecode.
 * what: the heading. */
static void
log_code (const char *what, PyObject *code)
{
  PyObject *dis = gm_import ("dis"),
           *made = dis ? PyObject_CallMethod (dis, "Bytecode", "O", code) : NULL,
           *text = made ? PyObject_CallMethod (made, "dis", NULL) : NULL;
  const char *words = text ? PyUnicode_AsUTF8 (text) : NULL;
  if (words)
    gm_log (GM_LOG_BYTECODE, "%s %s:\n%s", PyUnicode_AsUTF8 (((PyCodeObject *) code)->co_qualname),
            what, words);
  PyErr_Clear ();
  Py_XDECREF (text);
  Py_XDECREF (made);
  Py_XDECREF (dis);
}

/* Returns the number of operations in a graph, without the nodes that are only numbers. */
static uint64_t
n_calls (const GmGraph *g)
{
  uint64_t n = 0;
  for (guint i = 0; i < g->nodes->len; i++) {
    const GmNode *node = gm_graph_node (g, i);
    n += node->op != GM_OP_constant
         && !(node->op == GM_OP_full && gm_graph_meta (g, node->out)->ndim == 0);
  }
  return n;
}

static GmEntry *
finish (Job *job, GmCompile *c, char *reason, bool again)
{
  char letters[GM_N_STAGES + 1];
  GmEntry *e = g_steal_pointer (&job->entry);
  gm_count_entry (job->cache, again);
  if (job->rec->broke)
    tell_break (job, job->rec->broke);
  gm_compile_letters (false, letters);
  for (size_t i = 0; i < GM_N_STAGES; i++)
    e->times[i] = (GmStageTime){ letters[i], gm_compile_stage_ms (c, letters[i]) };
  e->reason = reason;
  e->graph = g_steal_pointer (&c->record.graph); /* no later stage needs it */
  if (e->n_nodes > 0 && !job->arithmetic)
    gm_count_graph (n_calls (e->graph));
  measure_guards (job, e);
  if (gm_log_on (GM_LOG_GUARDS)) {
    g_autofree char *text = gm_guards_text (e->guards);
    gm_log (GM_LOG_GUARDS, "%s: %u guards, %.0f ns a check, %.0f ns the first\n%s",
            PyUnicode_AsUTF8 (job->cache->code->co_qualname), gm_guards_n_checks (e->guards),
            e->guard_ns, e->guard_cold_ns, text);
  }
  if (gm_log_on (GM_LOG_BYTECODE)) {
    log_code ("was read", (PyObject *) job->cache->code);
    if (e->residual)
      log_code ("does what its graph does not", (PyObject *) e->residual);
  }
  if (gm_stress ("guards"))
    fail_each (job, e);
  gm_code_cache_add (job->cache, gm_entry_ref (e));
  return e;
}

/* Compiles with a back end in Python that takes the recorded graph as it is.  Between
 * simplifying and assembling, no stage runs.  False with *error or an exception. */
static bool
run_direct (Job *job, GmCompile *c, GError **error)
{
  const GmSizes *sizes = c->record.graph->sizes;
  uint32_t n_facts = sizes ? gm_size_facts_n (sizes->facts) : 0;
  if (!gm_compile_run (c, 's', 's', error) || c->stopped)
    return c->stopped;
  const GmGraph *g = c->simplify.graph;
  if (g->sizes && gm_size_facts_n (g->sizes->facts) > n_facts) { /* no guard checks the new facts */
    g_set_error (error, GM_ERROR, GM_ERROR_UNSUPPORTED,
                 "what became of the graph holds for some of the sizes alone");
    return false;
  }
  if (g->nodes->len > 0 || g->outputs->len > 0) {
    PyObject **slots = g_newa (PyObject *, gm_guards_n_slots (job->rec->guards) + 1);
    bool holds =
        gm_guards_check (job->rec->guards, job->env, job->locals, job->target->func, slots);
    if (!holds) {
      /* The recorder checked the guards on this very frame, so an object has died since. */
      c->stopped = true;
      return true;
    }
    job->direct = gm_callable_compile (job->target->config, job->rec, g, slots);
    if (!job->direct && gm_graph_is_symbolic (g) && PyErr_ExceptionMatches (gm_py_backend_failed)) {
      /* The back end is called again, with numbers, and reports then what it cannot do at all. */
      PyErr_Clear ();
      g_set_error (error, GM_ERROR, GM_ERROR_UNSUPPORTED, "the back end %s does not take them",
                   job->target->config->text);
      return false;
    }
    if (!job->direct)
      return gm_py_error_set (error);
  }
  gm_compile_skip (c, 'f', 'l');
  return gm_compile_run (c, 'a', 'a', error);
}

/* Compiles a graph whose sizes are symbols: if possible as plans for all sizes.  False with
 * *error. */
static bool
run_symbolic (Job *job, GmCompile *c, GError **error)
{
  if (!gm_plan_cache_possible (c->record.graph)) {
    g_set_error (error, GM_ERROR, GM_ERROR_UNSUPPORTED,
                 "a graph of symbolic sizes with a gradient that the program gives, or that writes "
                 "to memory that inputs share");
    return false;
  }
  job->plans = gm_plan_cache_new (c, error);
  if (!job->plans)
    return false;
  gm_compile_skip (c, 's', 'l');
  return gm_compile_run (c, 'a', 'a', error);
}

/* True if the graph only computes numbers from its sizes and ints, so that the back end has
 * nothing to compile. */
static bool
is_arithmetic (const GmGraph *g)
{
  for (guint i = 0; i < g->nodes->len; i++) {
    const GmNode *n = gm_graph_node (g, i);
    const GmMeta *m = gm_graph_meta (g, n->out);
    if (n->op != GM_OP_full || m->ndim > 0 || m->device != GM_DEVICE_CPU)
      return false;
  }
  return g->nodes->len > 0;
}

static bool
run_stages (Job *job, GmCompile *c, GError **error)
{
  const GmConfig *config = job->target->config;
  if (!config->callable && !(c->ask.backend = gm_backend_get (config->backend, error)))
    return false;
  if (!gm_compile_run (c, 'd', 'r', error) || c->stopped)
    return c->stopped;
  GmBackend *host = is_arithmetic (c->record.graph) ? gm_backend_get ("eager", NULL) : NULL;
  job->arithmetic = host != NULL;
  if (host) {
    c->ask.backend = host;
    g_strfreev (c->ask.for_backend); /* the options were for the other back end */
    c->ask.for_backend = g_new0 (char *, 1);
  } else if (config->callable && !gm_callable_is_aot (config->callable)) {
    return run_direct (job, c, error);
  } else if (config->callable) {
    c->ask.make_exec = gm_callable_make_exec;
    c->ask.make_exec_data = config;
  }
  bool any = !host && c->record.graph->nodes->len > 0;
  bool good =
      c->record.graph->sizes ? run_symbolic (job, c, error) : gm_compile_run (c, 's', 'a', error);
  if (any && !c->stopped)
    gm_count_aot (good);
  return good;
}

/* Sets c->ask.cache_salt and c->ask.no_cache from the functions that the saved-tensor hooks
 * call: they decide under which key, if at all, the compiled code may be kept on disk. */
static void
keep_hooks (GmCompile *c, const GmCallEnv *env)
{
  GString *salt = g_string_new (NULL);
  gm_py_find_wrapped (env->pack, salt, &c->ask.no_cache);
  gm_py_find_wrapped (env->unpack, salt, &c->ask.no_cache);
  c->ask.cache_salt = g_string_free (salt, salt->len == 0);
}

/* True if the switch suppress_errors is on; keeps the pending exception. */
static bool
is_suppressing (void)
{
  PyObject *type, *value, *traceback;
  PyErr_Fetch (&type, &value, &traceback);
  bool yes = gm_switch_is_true ("suppress_errors");
  PyErr_Restore (type, value, traceback);
  return yes;
}

/* Clears the pending error of a back end if the switch suppress_errors is on; the function then
 * runs as plain Python. */
static void
suppress_failure (Job *job)
{
  if (job->target->fullgraph || !PyErr_Occurred ()
      || !(PyErr_ExceptionMatches (gm_py_backend_failed)
           || PyErr_ExceptionMatches (gm_py_backend_error))
      || !is_suppressing ())
    return;
  PyObject *type, *value, *traceback;
  PyErr_Fetch (&type, &value, &traceback);
  PyErr_NormalizeException (&type, &value, &traceback);
  PyObject *said = value ? PyObject_Str (value) : NULL;
  const char *words = said ? PyUnicode_AsUTF8 (said) : NULL;
  PyErr_Clear ();
  g_autofree char *text = g_strdup_printf ("gramme cannot compile %s(): %s",
                                           PyUnicode_AsUTF8 (job->cache->code->co_qualname),
                                           words ? words : "the back end failed");
  tell_stop (job, GM_BREAK_NONE, words ? words : "the back end failed", text);
  Py_XDECREF (said);
  Py_XDECREF (type);
  Py_XDECREF (value);
  Py_XDECREF (traceback);
}

/* Initializes the lazy layer at which a recording ended.  Its input is a tensor of the right
 * meta without contents, of which only the sizes are read.  False with an exception. */
static bool
settle (const GmRecording *rec)
{
  GError *error = NULL;
  GmMeta m = rec->layer_input;
  m.requires_grad = 0;
  if (!gm_meta_is_dense (&m))
    gm_meta_set_contiguous (&m);
  GmTensor *t = gm_tensor_new (&m, &error);
  PyObject *input = t ? gm_py_tensor_take (t) : NULL,
           *done = input ? PyObject_CallMethod (rec->layer, "_settle", "O", input) : NULL;
  if (error)
    gm_py_raise (error);
  Py_XDECREF (input);
  Py_XDECREF (done);
  return done != NULL;
}

/* Compiles the function once for these locals and publishes the entry.  Returns a new reference;
 * NULL as gm_frontend_compile.  never_dynamic: sizes become numbers.  Sets *again_static if the
 * caller has to compile again with never_dynamic, and *settled if the caller has to compile again
 * because a lazy layer was initialized meanwhile. */
static GmEntry *
compile (const GmTarget *target, const GmCallEnv *env, PyObject *const *locals, bool never_dynamic,
         bool *again_static, bool *settled)
{
  GmCodeCache *cache = target->cache;
  Job job = {
    .target = target, .cache = cache, .env = env, .locals = locals, .never_dynamic = never_dynamic
  };
  cache->misses += !never_dynamic;
  if (!never_dynamic)
    gm_count_miss ();
  gm_code_cache_prune (cache);
  if (!target->fullgraph && break_count (cache, target->config) >= MAX_BREAKS)
    return NULL;
  bool warned = cache->limit_warned || target->hooked || gm_hook_all ();
  bool again = gm_code_cache_count (cache, target->config) > 0;
  if (warned && past_limit (&job, NULL))
    return NULL;
  g_autofree char *reason = recompile_reason (&job);
  if (past_limit (&job, reason))
    return NULL;
  if (again && gm_switch_is_true ("error_on_recompile")) {
    refuse (cache, "error_on_recompile is set", reason);
    return NULL;
  }
  if (gm_log_on (GM_LOG_RECOMPILES))
    log_recompile (&job);
  if (!gm_trace_host_tell ())
    return NULL;
  gm_count_frame (cache);

  GError *error = NULL;
  GmCompile *c = gm_compile_new ();
  c->front = &job;
  g_auto (GStrv) options = gm_switch_options (target->config->options);
  c->ask.options = (const char *const *) options;
  c->ask.differentiate = env->modes & GM_MODE_GRAD;
  GmEntry *entry = NULL;
  if (env->modes & GM_MODE_SAVED_HOOKS && (job.hooks = gm_py_hooks_new (env)) != NULL) {
    c->ask.trace_hooks = gm_py_hooks_trace;
    c->ask.trace_hooks_data = job.hooks;
    keep_hooks (c, env);
  }
  /* A hook with a short life cannot be guarded: such a pair is called, not traced. */
  PyErr_Clear ();
  job.effects = effect_policy ();
  job.numbers = gm_switch_is_true ("capture_scalar_outputs");
  job.counted = !never_dynamic && !target->config->callable
                && gm_switch_is_true ("capture_dynamic_output_shape_ops");
  job.dynamic = !gm_switch_is_true ("assume_static_by_default")  ? GM_DYNAMIC_ALWAYS
                : gm_switch_is_true ("automatic_dynamic_shapes") ? GM_DYNAMIC_SEEN
                                                                 : GM_DYNAMIC_MARKED;
  job.keep_objects = target->fullgraph && !gm_switch_is_true ("replay_side_effects");
  if (run_stages (&job, c, &error) && !c->stopped && tell_effects (&job, job.effects))
    entry = finish (&job, c, g_steal_pointer (&reason), again);
  else if (gm_interrupt_is_parked ()) /* the interrupt is raised by plain Python */
    PyErr_Clear ();
  else if (error && !c->stopped && c->record.graph && c->record.graph->sizes && !never_dynamic
           && !PyErr_Occurred ()) {
    gm_log (GM_LOG_RECOMPILES, "%s: its sizes stay numbers: %s",
            PyUnicode_AsUTF8 (cache->code->co_qualname), error->message);
    *again_static = true;
  } else if (c->stopped && job.rec && job.rec->layer)
    *settled = settle (job.rec);
  else if (c->stopped && job.rec->raised)
    PyErr_SetObject ((PyObject *) Py_TYPE (job.rec->raised), job.rec->raised);
  else if (c->stopped && job.stop && job.stop->id != GM_BREAK_NONE) {
    g_autofree char *text = gm_report_break_text (job.stop);
    tell_stop (&job, job.stop->id, job.stop->message, text);
  } else if (error && g_error_matches (error, GM_ERROR, GM_ERROR_UNSUPPORTED)) {
    g_autofree char *text =
        g_strdup_printf ("gramme cannot compile %s(): %s",
                         PyUnicode_AsUTF8 (cache->code->co_qualname), error->message);
    tell_stop (&job, GM_BREAK_NONE, error->message, text);
  } else if (error)
    gm_py_raise (g_steal_pointer (&error));
  g_clear_error (&error);
  suppress_failure (&job);
  gm_entry_unref (job.entry);
  gm_callable_direct_free (job.direct);
  gm_plan_cache_free (job.plans);
  gm_py_hooks_free (job.hooks);
  gm_compile_free (c);
  gm_continuation_free (job.rest);
  gm_read_order_clear (&job.looks);
  gm_recording_free (job.rec);
  return entry;
}

/* True if another thread of this process is compiling the function: Python code that runs during
 * a compilation lets other threads run.  The thread that compiles may have been lost in a fork. */
static bool
is_being_compiled (const GmCodeCache *cache)
{
  return cache->compiler && cache->compiler != PyThread_get_thread_ident ()
         && cache->compiler_pid == getpid ();
}

GmEntry *
gm_frontend_compile (const GmTarget *target, const GmCallEnv *env, PyObject *const *locals)
{
  GmCodeCache *cache = target->cache;
  if (G_UNLIKELY (is_being_compiled (cache)))
    return NULL;
  /* This thread, if the function is called by its own compilation. */
  unsigned long compiler = cache->compiler;
  cache->compiler = PyThread_get_thread_ident ();
  cache->compiler_pid = getpid ();
  gm_hook_suspend ();
  gm_yield_allow ();
  bool again_static, settled;
  GmEntry *entry;
  do { /* once for each lazy layer */
    again_static = settled = false;
    entry = compile (target, env, locals, false, &again_static, &settled);
    if (again_static)
      entry = compile (target, env, locals, true, &again_static, &settled);
  } while (settled);
  gm_yield_forbid ();
  gm_hook_unsuspend ();
  cache->compiler = compiler;
  return entry;
}

int
gm_py_init_frontend (PyObject *module)
{
  static const GmStageFn stages[3] = { decode, record, assemble };
  gm_compile_set_frontend (stages, stage_text);
  gm_py_unsupported = PyErr_NewExceptionWithDoc (
      "gramme.compiler.Unsupported",
      "Raised by a function compiled with fullgraph=True that cannot be traced.",
      gm_py_dynamo_error, NULL);
  gm_py_break_warning = PyErr_NewExceptionWithDoc (
      "gramme.compiler.GraphBreakWarning",
      "A compiled function runs as plain Python, for the reason given.", PyExc_UserWarning, NULL);
  if (!gm_py_unsupported || !gm_py_break_warning
      || PyModule_AddObjectRef (module, "Unsupported", gm_py_unsupported) < 0
      || PyModule_AddObjectRef (module, "GraphBreakWarning", gm_py_break_warning) < 0)
    return -1;
  if (gm_py_init_code_cache () < 0 || gm_py_init_counters (module) < 0
      || gm_py_init_callable (module) < 0 || gm_py_init_resume_point () < 0
      || gm_py_init_kept_frame () < 0 || gm_py_init_resume_call () < 0
      || gm_py_init_hook (module) < 0 || gm_py_init_measure (module) < 0)
    return -1;
  return gm_py_init_compiler (module);
}
