/* SPDX-License-Identifier: Apache-2.0
 * compile.c -- the spine: the stages that a function goes through, in order.
 *
 *   function > instructions > graph > joint graph > forward, backward > plugin > guarded code
 *
 * Read the table `stages`: each row is a stage, with the letter that selects it (GM_DEBUG=rjp
 * prints the results of those stages, `gramme opt -s fjp` runs them), what it reads, what it
 * writes, and the room where the work is done.  The loop in gm_compile_run is all that runs them;
 * dump, verifier and timing come with the row.  Between the two stand the adaptors: they take what
 * a stage needs out of a GmCompile, so that no room below has to know it.
 *
 * Invariant: a stage leaves what it reads alone and writes its own part once.
 */
#include "core/data_dependent.h"
#include "core/compiled_pair.h"

#include "core/base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- Options ----------------------------------------------------------------------------------- */

static bool
take_partition (GmCompile *c, const char *value)
{
  static const char *const names[] = { "auto", "default", "min-cut" };

  for (size_t i = 0; i < G_N_ELEMENTS (names); i++)
    if (strcmp (value, names[i]) == 0) {
      c->ask.partition.mode = (GmPartitionMode) i;
      return true;
    }
  return false;
}

/* memory-budget selects the min-cut partitioner. */
static bool
take_budget (GmCompile *c, const char *value)
{
  char *end;
  double budget = g_ascii_strtod (value, &end);

  c->ask.partition = (GmPartitionOptions){ GM_PARTITION_MIN_CUT, budget };
  return end > value && *end == 0 && budget >= 0 && budget <= 1;
}

static bool
take_hooked (GmCompile *c, const char *value)
{
  static const char *const names[] = { "donated", "no_static", "all" };

  for (size_t i = 0; i < G_N_ELEMENTS (names); i++)
    if (strcmp (value, names[i]) == 0) {
      c->ask.hooked = (GmHookedFilter) i;
      return true;
    }
  return false;
}

static bool
take_dynamic (GmCompile *c, const char *value)
{
  static const char *const names[] = { "auto", "true", "false" };

  for (size_t i = 0; i < G_N_ELEMENTS (names); i++)
    if (strcmp (value, names[i]) == 0) {
      c->ask.dynamic = (uint8_t) i;
      return true;
    }
  return false;
}

static bool
take_backward (GmCompile *c, const char *value)
{
  c->ask.at_once = strcmp (value, "at-once") == 0;
  return c->ask.at_once || strcmp (value, "lazy") == 0;
}

/* Read by the front end, before it compiles anything. */
static bool
take_limit (GmCompile *c, const char *value)
{
  char *end;
  (void) c;
  return g_ascii_strtoll (value, &end, 10) >= 1 && *end == 0;
}

static const struct {
  const char *key;
  bool (*take) (GmCompile *c, const char *value);
  const char *values;
} host_options[] = {
  { "partition", take_partition, "auto, default or min-cut" },
  { "memory-budget", take_budget, "a number from 0 to 1" },
  { "dynamic", take_dynamic, "auto, true or false" },
  { "backward", take_backward, "lazy or at-once" },
  { "recompile-limit", take_limit, "a whole number from 1" },
  { "saved-tensors-hooks-filtering-mode", take_hooked, "donated, no_static or all" },
};

/* Users pass options of the host and of the back end in one list.  The host's are taken out here,
 * once, before the first stage runs: a plugin sees only its own. */
static bool
read_options (GmCompile *c, GError **error)
{
  g_autoptr (GPtrArray) others = g_ptr_array_new_with_free_func (g_free);

  for (const char *const *o = c->ask.options; o && *o; o++) {
    const char *value = strchr (*o, '=');
    size_t i = 0, n = value ? (size_t) (value - *o) : 0;
    while (i < G_N_ELEMENTS (host_options)
           && !(strncmp (host_options[i].key, *o, n) == 0 && host_options[i].key[n] == 0))
      i++;
    if (i == G_N_ELEMENTS (host_options)) {
      g_ptr_array_add (others, g_strdup (*o));
    } else if (!host_options[i].take (c, value + 1)) {
      g_set_error (error, GM_ERROR, GM_ERROR_VALUE, "option %s: the value of %s is %s", *o,
                   host_options[i].key, host_options[i].values);
      return false;
    }
  }
  g_ptr_array_add (others, NULL);
  c->ask.for_backend = (char **) g_ptr_array_steal (others, NULL);
  return true;
}

/* -- Adaptors ---------------------------------------------------------------------------------- */

static struct {
  GmStageFn decode, record, assemble;
  char *(*text) (const GmCompile *c, char letter);
} frontend;

static bool
decode (GmCompile *c, GError **error)
{
  return frontend.decode (c, error);
}

static bool
record (GmCompile *c, GError **error)
{
  return frontend.record (c, error);
}

/* Removes dead code only.  Folding views would lose tensors that the caller may hold
 * (output_alias.c), merging equal nodes would change the order in which gradients are summed
 * (join.c): both are for partition.c, when gradients are complete. */
static bool
simplify (GmCompile *c, GError **error)
{
  (void) error;
  c->simplify.graph = gm_graph_simplify (c->record.graph, GM_SIMPLIFY_DEAD, c->arena);
  return true;
}

static bool
functionalize (GmCompile *c, GError **error)
{
  c->functionalize.graph = gm_layers_apply (c->simplify.graph, c->ask.differentiate, c->arena,
                                            &c->functionalize.layers, error);
  return c->functionalize.graph != NULL;
}

static bool
join (GmCompile *c, GError **error)
{
  return gm_join (c->functionalize.graph, c->arena, &c->join, error);
}

/* Returns, per input of the forward, true for a module's input of the recorded graph.  A graph of
 * no program knows no modules: there the value is true for a leaf that requires grad. */
static const bool *
find_static (const GmCompile *c)
{
  const GmLayers *l = &c->functionalize.layers;
  const GmGraph *g = c->simplify.graph;
  bool *is_static = gm_arena_newn (c->arena, bool, c->join.n_inputs);

  for (uint32_t i = 0; g && i < c->join.n_inputs; i++) {
    uint32_t k = i;
    if (l->has_bases && l->bases.sources[i].kind != GM_BASE_CALLER)
      continue;
    if (l->has_bases)
      k = l->bases.sources[i].input.i;
    if (l->has_dedupe)
      k = l->dedupe.from[k].i;
    const GmGraphAlias *a = gm_graph_value (g, g_array_index (g->inputs, GmValueId, k))->alias;
    is_static[i] = c->ask.of_module ? c->ask.of_module[k] : a && a->leaf;
  }
  return is_static;
}

static bool
partition (GmCompile *c, GError **error)
{
  if (!gm_partition (&c->join, &c->functionalize.layers.functional, &c->ask.partition, c->arena,
                     &c->partition, error))
    return false;
  if (!c->ask.trace_hooks)
    return true;
  GmInlineHooks hooks = { c->ask.trace_hooks, c->ask.trace_hooks_data, c->ask.hooked,
                          find_static (c) };
  return gm_saved_hooks_inline (&hooks, c->arena, &c->partition, error);
}

/* Makes the code.  A part without outputs (a function that only takes views, a backward that only
 * passes on) needs none. */
static bool
lower (GmCompile *c, GError **error)
{
  const GmGraph *forward = c->partition.forward, *backward = c->partition.backward;

  if (backward && backward->outputs->len == 0)
    backward = NULL;
  GmPlanExec exec = { 0 };
  if (forward->sizes && forward->sizes->counts->len) {
    if (!gm_data_dependent_exec (c, &exec, error))
      return false;
  } else if ((forward->outputs->len > 0 || backward) && c->ask.make_exec) {
    if (!c->ask.make_exec (c->ask.make_exec_data, forward->outputs->len ? forward : NULL, backward,
                           c->ask.at_once, &exec, error))
      return false;
  } else if (forward->outputs->len > 0 || backward) {
    c->lower.pair =
        gm_compiled_pair_new (c, forward->outputs->len ? forward : NULL, backward, error);
    if (!c->lower.pair)
      return false;
    exec = gm_compiled_pair_plan_exec (c->lower.pair);
  }
  c->lower.plan = gm_plan_new (&(GmPlanSpec){ .layers = &c->functionalize.layers,
                                              .joint = &c->join,
                                              .parts = &c->partition,
                                              .random = c->record.random,
                                              .exec = exec,
                                              .graph = c->functionalize.graph });
  return true;
}

static bool
assemble (GmCompile *c, GError **error)
{
  return frontend.assemble (c, error);
}

/* -- The table --------------------------------------------------------------------------------- */

enum {
  CODE = 1 << 0,    /* a code object, with the frame's arguments */
  INSNS = 1 << 1,   /* its instructions, the same form on every CPython version */
  GRAPH = 1 << 2,   /* the program's computation, with views and in-place writes */
  GUARDS = 1 << 3,  /* assumptions about the arguments */
  JOURNAL = 1 << 4, /* side effects, in their order */
  RESIDUE = 1 << 5, /* the rest of the work in Python */
  LAYERS = 1 << 6,  /* the plan's work around the back end's code */
  JOINT = 1 << 7,   /* the function and its gradient, one graph */
  FORWARD = 1 << 8,
  BACKWARD = 1 << 9,
  SAVED = 1 << 10,   /* values that the forward hands to the backward */
  EXECS = 1 << 11,   /* the back end's code */
  PLAN = 1 << 12,    /* the call, inputs to outputs */
  GUARDED = 1 << 13, /* the entry in the code object's cache */
};

typedef struct {
  char letter;
  const char *name;
  GmStageFn run;
  uint32_t reads, writes;
  int log; /* GmLogChannel that also shows the stage's result, or -1 */
} GmStage;

/* clang-format off */
#define RECORDED (GRAPH | GUARDS | JOURNAL | RESIDUE)
#define PARTS (FORWARD | BACKWARD | SAVED)
static const GmStage stages[] = {
  /*    name             run            reads                          writes          log                     where */
  { 'd', "decode",        decode,        CODE,                         INSNS,          -1 },                /* bytecode/ */
  { 'r', "record",        record,        INSNS,                        RECORDED,       GM_LOG_GRAPH_CODE }, /* trace/    */
  { 's', "simplify",      simplify,      GRAPH,                        GRAPH,          -1 },                /* graph/    */
  { 'f', "functionalize", functionalize, GRAPH,                        GRAPH | LAYERS, -1 },                /* aot/      */
  { 'j', "join",          join,          GRAPH,                        JOINT,          GM_LOG_AOT_GRAPHS }, /* aot/      */
  { 'p', "partition",     partition,     JOINT | LAYERS,               PARTS,          GM_LOG_AOT_GRAPHS }, /* aot/      */
  { 'l', "lower",         lower,         PARTS | LAYERS,               EXECS | PLAN,   -1 },                /* run/      */
  { 'a', "assemble",      assemble,      GUARDS|JOURNAL|RESIDUE|PLAN,  GUARDED,        -1 },                /* capture/  */
};
/* clang-format on */
G_STATIC_ASSERT (G_N_ELEMENTS (stages) == G_N_ELEMENTS (((GmCompile *) 0)->stage_ms));

static const GmStage *
find_stage (char letter)
{
  for (const GmStage *s = stages; s < stages + G_N_ELEMENTS (stages); s++)
    if (s->letter == letter)
      return s;
  g_assert_not_reached ();
}

/* -- Inspecting a stage's work ----------------------------------------------------------------- */

/* Collects the graphs that stage `letter` wrote; returns their number. */
static int
graphs_of (const GmCompile *c, char letter, const GmGraph *graphs[2])
{
  const GmGraph *first = letter == 'r'   ? c->record.graph
                         : letter == 's' ? c->simplify.graph
                         : letter == 'f' ? c->functionalize.graph
                         : letter == 'j' ? c->join.graph
                         : letter == 'p' ? c->partition.forward
                                         : NULL;

  graphs[0] = first;
  graphs[1] = letter == 'p' ? c->partition.backward : NULL;
  return (first != NULL) + (graphs[1] != NULL);
}

char *
gm_compile_text (const GmCompile *c, char letter)
{
  const GmGraph *graphs[2];
  int n = graphs_of (c, letter, graphs);
  GString *text = g_string_new (NULL);

  for (int i = 0; i < n; i++) {
    g_autofree char *graph = gm_graph_text (graphs[i]);
    g_string_append (text, graph);
  }
  if (n == 0 && letter == 'l' && c->lower.pair) {
    int role;
    const GmExec *e = gm_compiled_pair_exec (c->lower.pair, GM_EXEC_FORWARD, &role);
    const char *fallback = gm_compiled_pair_fallback_reason (c->lower.pair);
    if (e)
      g_string_append_printf (text, "compiled by %s in %.3f ms%s%s\n",
                              gm_backend_name (c->ask.backend), gm_exec_compile_ms (e),
                              fallback ? "; in eager: " : "", fallback ? fallback : "");
  } else if (n == 0 && frontend.text) {
    g_autofree char *own = frontend.text (c, letter);
    g_string_append (text, own ? own : "");
  }
  return g_string_free (text, text->len == 0);
}

static void
dump (const GmCompile *c, const GmStage *s)
{
  bool debug = gm_debug_letter (s->letter), log = s->log >= 0 && gm_log_on ((GmLogChannel) s->log);
  g_autofree char *text = debug || log ? gm_compile_text (c, s->letter) : NULL;

  if (debug)
    fprintf (stderr, "# %c: %s, %.3f ms\n%s", s->letter, s->name, c->stage_ms[s - stages],
             text ? text : "");
  if (log && text)
    gm_log ((GmLogChannel) s->log, "after %s:\n%s", s->name, text);
  if (gm_log_on (GM_LOG_TIMINGS))
    gm_log (GM_LOG_TIMINGS, "%s %.3f ms", s->name, c->stage_ms[s - stages]);
}

void (*gm_compile_tamper) (char letter, GmGraph *g);

/* Checks the stage's graphs.  A graph that does not verify is a fault of the stage that wrote it: a
 * bug, so no error for the caller. */
static void
verify (const GmCompile *c, const GmStage *s)
{
  const GmGraph *graphs[2];
  int n = graphs_of (c, s->letter, graphs);

#ifndef GM_DEBUG_CHECKS
  if (!getenv ("GM_STRESS"))
    return;
#endif
  for (int i = 0; i < n; i++) {
    g_autoptr (GError) error = NULL;
    if (gm_compile_tamper)
      gm_compile_tamper (s->letter, (GmGraph *) graphs[i]);
    if (gm_graph_verify (graphs[i], strchr ("fjp", s->letter) != NULL, &error)
        && (s->letter != 'p' || gm_graph_verify_outputs (graphs[i], &error)))
      continue;
    g_autofree char *text = gm_graph_text (graphs[i]);
    g_error ("stage %c (%s) wrote a graph that is wrong: %s\n%s", s->letter, s->name,
             error->message, text);
  }
}

/* Returns the sizes that the graphs of a compilation share; NULL: all sizes are numbers. */
static GmSizes *
sizes_of (const GmCompile *c)
{
  const GmGraph *graphs[2];

  for (const char *letter = "rsfjp"; *letter; letter++)
    if (graphs_of (c, *letter, graphs) > 0)
      return graphs[0]->sizes;
  return NULL;
}

/* -- The loop ---------------------------------------------------------------------------------- */

/* Runs a stage with the sizes of the graph, if they are no numbers.  An answer that had to be
 * guessed fails the stage: no result may depend on it. */
static bool
run_stage (GmCompile *c, const GmStage *s, GError **error)
{
  GmSizes *sizes = sizes_of (c), *was = gm_sizes_enter (sizes);
  bool ok = s->run (c, error);

  if (sizes && strchr ("sfjpl", s->letter))
    ok = gm_sizes_check (sizes, ok ? error : NULL) && ok;
  gm_sizes_enter (was);
  return ok;
}

bool
gm_compile_run (GmCompile *c, char from, char to, GError **error)
{
  if (!c->ask.for_backend && !read_options (c, error))
    return false;
  for (const GmStage *s = find_stage (from), *last = find_stage (to); s <= last && !c->stopped;
       s++) {
    gint64 start_us = g_get_monotonic_time ();

    g_assert ((s->reads & ~c->filled) == 0);
    if (!run_stage (c, s, error))
      return false;
    c->stage_ms[s - stages] = (double) (g_get_monotonic_time () - start_us) / 1000;
    c->filled |= s->writes;
    if (c->stopped)
      break;
    dump (c, s);
    verify (c, s);
  }
  return true;
}

void
gm_compile_skip (GmCompile *c, char from, char to)
{
  for (const GmStage *s = find_stage (from), *last = find_stage (to); s <= last; s++)
    c->filled |= s->writes;
}

/* -- Life -------------------------------------------------------------------------------------- */

GmCompile *
gm_compile_new (void)
{
  GmCompile *c = g_new0 (GmCompile, 1);

  c->arena = gm_arena_new ();
  c->ask.differentiate = true;
  c->ask.partition = (GmPartitionOptions){ GM_PARTITION_BY_DEVICE, 1 };
  c->filled = CODE;
  return c;
}

void
gm_compile_free (GmCompile *c)
{
  if (!c)
    return;
  gm_plan_unref (c->lower.plan);
  g_clear_pointer (&c->partition.backward, gm_graph_free);
  g_clear_pointer (&c->partition.forward, gm_graph_free);
  g_clear_pointer (&c->partition.restore, gm_graph_free);
  g_clear_pointer (&c->join.graph, gm_graph_free);
  g_clear_pointer (&c->functionalize.graph, gm_graph_free);
  g_clear_pointer (&c->simplify.graph, gm_graph_free);
  g_clear_pointer (&c->record.graph, gm_graph_free);
  g_strfreev (c->ask.for_backend);
  g_free (c->ask.no_cache);
  g_free (c->ask.cache_salt);
  gm_arena_free (c->arena);
  g_free (c);
}

void
gm_compile_set_graph (GmCompile *c, GmGraph *g)
{
  c->record.graph = g;
  c->filled |= GRAPH | LAYERS; /* no layers, for a caller that enters after f */
}

void
gm_compile_set_frontend (const GmStageFn fns[3], char *(*text) (const GmCompile *c, char letter))
{
  frontend.decode = fns[0];
  frontend.record = fns[1];
  frontend.assemble = fns[2];
  frontend.text = text;
}

double
gm_compile_stage_ms (const GmCompile *c, char letter)
{
  return c->stage_ms[find_stage (letter) - stages];
}
