/* SPDX-License-Identifier: Apache-2.0
 * compile.c -- the spine: the stages that a function goes through, in order.
 *
 *   function > instructions > graph > joint graph > forward, backward > plugin > guarded code
 *
 * Read the table `stages`: each row is a stage, with the letter that selects it (GM_DEBUG=rjp
 * prints the results of those stages, `gramme opt -s fjp` runs them), the room where the work is
 * done, what it reads, what it writes, and what its graphs are.  The loop in gm_compile_run is all
 * that runs them; dump, verifier and timing come with the row.  Between the two stand the adaptors:
 * they take what a stage needs out of a GmCompile, so that no room below has to know it.
 *
 * Invariant: a stage leaves what it reads alone and writes its own part once.
 */
#include "core/compile_options.h"
#include "core/compiled_pair.h"
#include "core/data_dependent.h"

#include "core/base/log.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* -- The table --------------------------------------------------------------------------------- */

enum {
  CODE = 1 << 0,     /* a code object, with the frame's arguments */
  INSNS = 1 << 1,    /* its instructions, the same form on every CPython version */
  GRAPH = 1 << 2,    /* the program's computation, with views and in-place writes */
  GUARDS = 1 << 3,   /* assumptions about the arguments */
  EFFECTS = 1 << 4,  /* side effects, in their order */
  RESIDUAL = 1 << 5, /* the instructions that remain for Python after the graph */
  LAYERS = 1 << 6,   /* the plan's work around the back end's code */
  JOINT = 1 << 7,    /* the function and its gradient, one graph */
  FORWARD = 1 << 8,
  BACKWARD = 1 << 9,
  SAVED = 1 << 10,   /* values that the forward hands to the backward */
  EXECS = 1 << 11,   /* the back end's code */
  PLAN = 1 << 12,    /* the call, from inputs to outputs */
  GUARDED = 1 << 13, /* the entry in the code object's cache */
};
#define RECORDED (GRAPH | GUARDS | EFFECTS | RESIDUAL)
#define PARTS (FORWARD | BACKWARD | SAVED)

/* The ways in which a stage treats its graphs. */
enum {
  ASKS_SIZES = 1 << 0, /* fails if an answer about sizes was a guess */
  FUNCTIONAL = 1 << 1, /* its graphs have no views of inputs and no in-place writes */
  CUT = 1 << 2,        /* its graphs are the parts of a cut, whose outputs are verified, too */
};

typedef struct {
  char letter;
  const char *name;
  GmStageFn run;
  uint32_t reads, writes;
  size_t graphs[2]; /* offsets in GmCompile of the graphs that the stage makes; 0: none */
  uint32_t how;     /* ASKS_SIZES ... */
  char *(*text) (const GmCompile *c, char letter); /* returns the result as text, if it is no
                                                    * graph, for the caller to free; or NULL */
  int log; /* GmLogChannel that also shows the stage's result, or -1 */
} GmStage;

static bool decode (GmCompile *c, GError **error);
static bool record (GmCompile *c, GError **error);
static bool simplify (GmCompile *c, GError **error);
static bool functionalize (GmCompile *c, GError **error);
static bool join (GmCompile *c, GError **error);
static bool partition (GmCompile *c, GError **error);
static bool lower (GmCompile *c, GError **error);
static bool assemble (GmCompile *c, GError **error);
static char *frontend_text (const GmCompile *c, char letter);
static char *lower_text (const GmCompile *c, char letter);

/* clang-format off */
#define AT(part) offsetof (GmCompile, part)
static const GmStage stages[] = {
  /* bytecode/ */
  { 'd', "decode", decode, CODE, INSNS, .text = frontend_text, .log = -1 },
  /* trace/ */
  { 'r', "record", record, INSNS, RECORDED, { AT (record.graph) }, .log = GM_LOG_GRAPH_CODE },
  /* graph/ */
  { 's', "simplify", simplify, GRAPH, GRAPH, { AT (simplify.graph) }, ASKS_SIZES, .log = -1 },
  /* aot/ */
  { 'f', "functionalize", functionalize, GRAPH, GRAPH | LAYERS, { AT (functionalize.graph) },
    ASKS_SIZES | FUNCTIONAL, .log = -1 },
  { 'j', "join", join, GRAPH, JOINT, { AT (join.graph) },
    ASKS_SIZES | FUNCTIONAL, .log = GM_LOG_AOT_GRAPHS },
  { 'p', "partition", partition, JOINT | LAYERS, PARTS,
    { AT (partition.forward), AT (partition.backward) },
    ASKS_SIZES | FUNCTIONAL | CUT, .log = GM_LOG_AOT_GRAPHS },
  /* run/ */
  { 'l', "lower", lower, PARTS | LAYERS, EXECS | PLAN, .how = ASKS_SIZES, .text = lower_text,
    .log = -1 },
  /* capture/ */
  { 'a', "assemble", assemble, GUARDS | EFFECTS | RESIDUAL | PLAN, GUARDED, .text = frontend_text,
    .log = -1 },
};
/* clang-format on */
G_STATIC_ASSERT (G_N_ELEMENTS (stages) == GM_N_STAGES);

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
 * (output_alias.c), and merging equal nodes would change the order in which gradients are summed
 * (join.c): partition.c does both, when gradients are complete. */
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

/* Returns, per input of the forward, true if it is a parameter or buffer of a module.  For a graph
 * that no program recorded, where modules are unknown: true if it is a leaf that requires grad.  In
 * c's arena. */
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

/* Makes the code of the back end and the plan.  A part without outputs (a function that only takes
 * views, a backward that only passes gradients on) needs no code. */
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

/* -- Running ----------------------------------------------------------------------------------- */

static const GmStage *
find_stage (char letter)
{
  for (const GmStage *s = stages; s < stages + G_N_ELEMENTS (stages); s++)
    if (s->letter == letter)
      return s;
  g_assert_not_reached ();
}

/* -- Inspecting a stage's work ----------------------------------------------------------------- */

/* Sets `graphs` to the graphs that the stage wrote; returns their number. */
static int
graphs_of (const GmCompile *c, const GmStage *s, const GmGraph *graphs[2])
{
  int n = 0;

  for (int i = 0; i < 2; i++) {
    const GmGraph *g = s->graphs[i] ? G_STRUCT_MEMBER (GmGraph *, c, s->graphs[i]) : NULL;
    if (g)
      graphs[n++] = g;
  }
  return n;
}

static char *
frontend_text (const GmCompile *c, char letter)
{
  return frontend.text ? frontend.text (c, letter) : NULL;
}

static char *
lower_text (const GmCompile *c, char letter)
{
  int role;
  const GmExec *e =
      c->lower.pair ? gm_compiled_pair_exec (c->lower.pair, GM_EXEC_FORWARD, &role) : NULL;

  (void) letter;
  if (!e)
    return NULL;
  const char *fallback = gm_compiled_pair_fallback_reason (c->lower.pair);
  return g_strdup_printf ("compiled by %s in %.3f ms%s%s\n", gm_backend_name (c->ask.backend),
                          gm_exec_compile_ms (e), fallback ? "; in eager: " : "",
                          fallback ? fallback : "");
}

char *
gm_compile_text (const GmCompile *c, char letter)
{
  const GmStage *s = find_stage (letter);
  const GmGraph *graphs[2];
  int n = graphs_of (c, s, graphs);

  if (n == 0)
    return s->text ? s->text (c, letter) : NULL;
  GString *text = g_string_new (NULL);
  for (int i = 0; i < n; i++) {
    g_autofree char *graph = gm_graph_text (graphs[i]);
    g_string_append (text, graph);
  }
  return g_string_free (text, FALSE);
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

/* Verifies the graphs that the stage wrote, and aborts if one is wrong: that is a bug of the stage,
 * not an error of the caller's. */
static void
verify (const GmCompile *c, const GmStage *s)
{
  const GmGraph *graphs[2];
  int n = graphs_of (c, s, graphs);

#ifndef GM_DEBUG_CHECKS
  if (!getenv ("GM_STRESS"))
    return;
#endif
  for (int i = 0; i < n; i++) {
    g_autoptr (GError) error = NULL;
    if (gm_compile_tamper)
      gm_compile_tamper (s->letter, (GmGraph *) graphs[i]);
    if (gm_graph_verify (graphs[i], (s->how & FUNCTIONAL) != 0, &error)
        && (!(s->how & CUT) || gm_graph_verify_outputs (graphs[i], &error)))
      continue;
    g_autofree char *text = gm_graph_text (graphs[i]);
    g_error ("stage %c (%s) wrote a graph that is wrong: %s\n%s", s->letter, s->name,
             error->message, text);
  }
}

/* Returns the sizes that the graphs of the compilation share, borrowed; NULL: all sizes are
 * numbers. */
static GmSizes *
sizes_of (const GmCompile *c)
{
  const GmGraph *graphs[2];

  for (const GmStage *s = stages; s < stages + G_N_ELEMENTS (stages); s++)
    if (graphs_of (c, s, graphs) > 0)
      return graphs[0]->sizes;
  return NULL;
}

/* -- The loop ---------------------------------------------------------------------------------- */

/* Runs a stage, with the sizes of the graph as the thread's current sizes if they are symbolic. The
 * stage fails if an answer about sizes had to be guessed: no result may depend on a guess. */
static bool
run_stage (GmCompile *c, const GmStage *s, GError **error)
{
  GmSizes *sizes = sizes_of (c), *was = gm_sizes_enter (sizes);
  bool ok = s->run (c, error);

  if (sizes && s->how & ASKS_SIZES)
    ok = gm_sizes_check (sizes, ok ? error : NULL) && ok;
  gm_sizes_enter (was);
  return ok;
}

bool
gm_compile_run (GmCompile *c, char from, char to, GError **error)
{
  if (!c->ask.for_backend && !gm_compile_options_read (c, error))
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

void
gm_compile_letters (bool of_graphs, char letters[GM_N_STAGES + 1])
{
  size_t n = 0;

  for (const GmStage *s = stages; s < stages + G_N_ELEMENTS (stages); s++)
    if (!of_graphs || (s->graphs[0] && s->reads & (GRAPH | JOINT)))
      letters[n++] = s->letter;
  letters[n] = 0;
}
