/* SPDX-License-Identifier: Apache-2.0
 * compile.h -- one compilation: the parts that the stages hand on to each other.
 *
 * A GmCompile has one part per stage; a stage writes its own part and reads earlier ones, as its
 * row in compile.c says.  A Python frame enters at d, a C program's graph at s, `gramme opt`
 * anywhere.  Everything lives in `arena` and dies with it; only the plan survives, which is
 * counted.  Rooms below this file know nothing of GmCompile.
 */
#ifndef GM_COMPILE_H
#define GM_COMPILE_H

#include "core/aot/plan.h"
#include "core/aot/saved_hooks.h"
#include "core/run/backend.h"

typedef struct GmCompile GmCompile;
typedef struct GmCompiledPair GmCompiledPair; /* compiled_pair.h */

/* The sizes of a function's arguments that become symbols: those that were seen to change, all,
 * none. */
typedef enum {
  GM_DYNAMIC_OPTION_AUTO,
  GM_DYNAMIC_OPTION_TRUE,
  GM_DYNAMIC_OPTION_FALSE
} GmDynamicOption;

/* A stage's function.  False and *error: the stage failed.  Code that cannot be traced is no
 * failure: the function sets c->stopped and returns true. */
typedef bool (*GmStageFn) (GmCompile *c, GError **error);

#define GM_N_STAGES 8

struct GmCompile {
  GmArena *arena; /* owned */
  void *front;    /* owned by the front end: code, instructions, guards, effects, residual */

  struct { /* set by the caller that starts the compilation */
    GmBackend *backend;
    /* NULL, or replaces `backend`: makes the plan's executable from both graphs, either of which
     * may be NULL.  at_once: makes the backward's code now, not when it is first run. */
    bool (*make_exec) (const void *data, const GmGraph *forward, const GmGraph *backward,
                       bool at_once, GmPlanExec *out, GError **error);
    const void *make_exec_data;
    const char *const *options;   /* borrowed: "key=value", NULL at the end; or NULL */
    uint8_t dynamic;              /* private: the host option `dynamic`, a GmDynamicOption */
    bool at_once;                 /* the backward is compiled with the forward; set by a host
                                   * option, too */
    bool differentiate;           /* inputs that require grad get gradients */
    GmPartitionOptions partition; /* host options set it, too: see compile_options.c */
    GmTraceHooks trace_hooks;     /* saved-tensor hooks that become part of the graphs; or NULL */
    void *trace_hooks_data;
    GmHookedFilter hooked;       /* set by a host option, too */
    const bool *of_module;       /* per input of the recorded graph: true for a parameter or buffer,
                                  * which no_static leaves as it is; NULL: unknown */
    char *no_cache, *cache_salt; /* owned; see GmCompileHow */
    char **for_backend;          /* private: the `options` that are the back end's */
  } ask;
  struct { /* set by stage r, or by the caller */
    GmGraph *graph;
    GmPlanRandom random;
  } record;
  struct { /* set by stage s */
    GmGraph *graph;
  } simplify;
  struct { /* set by stage f */
    GmLayers layers;
    GmGraph *graph;
  } functionalize;
  GmJoint join;           /* set by stage j */
  GmParts partition;      /* set by stage p */
  struct {                /* set by stage l */
    GmCompiledPair *pair; /* owned by the plan; NULL: there is no code, or make_exec made it */
    GmPlan *plan;
  } lower;

  uint32_t filled;              /* the parts that are set: bits of compile.c's table */
  bool stopped;                 /* the front end met code that it cannot trace */
  const char *why;              /* the reason, if stopped; owned by the front end */
  double stage_ms[GM_N_STAGES]; /* in the order of the table */
};

GmCompile *gm_compile_new (void);
void gm_compile_free (GmCompile *c); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (GmCompile, gm_compile_free)

/* Sets the recorded graph (steals it, its arena included), so that the compilation may start at
 * stage s or later. */
void gm_compile_set_graph (GmCompile *c, GmGraph *g);

/* Runs the stages from letter `from` to letter `to`, both included, unless c->stopped is set by a
 * stage that cannot trace the code.  False with *error set if a stage fails. */
bool gm_compile_run (GmCompile *c, char from, char to, GError **error);

/* Marks the stages `from` to `to`, whose work a front end does by itself, as done: the stages after
 * them may run. */
void gm_compile_skip (GmCompile *c, char from, char to);

/* Returns the result of stage `letter` as text; a graph in the form that gm_graph_parse reads.
 * NULL: there is no result.  The caller frees. */
char *gm_compile_text (const GmCompile *c, char letter);

/* Sets the functions of the stages d, r and a, and the function that prints their results for dumps
 * (NULL: none).  Called once, when the Python extension is loaded. */
void gm_compile_set_frontend (const GmStageFn fns[3],
                              char *(*text) (const GmCompile *c, char letter));

/* Called, in tests, with each graph that stage `letter` wrote, before the graph is verified (in
 * debug builds, and with GM_STRESS), so that a test can break it.  NULL: unset. */
extern void (*gm_compile_tamper) (char letter, GmGraph *g);

/* Writes the letters of all stages, in their order, and a 0.  of_graphs: only those of stages that
 * make graphs of graphs, which `gramme opt` runs on a graph in text. */
void gm_compile_letters (bool of_graphs, char letters[GM_N_STAGES + 1]);

/* Returns the milliseconds that the stage took in this compilation, 0 if it did not run. */
double gm_compile_stage_ms (const GmCompile *c, char letter);

#endif
