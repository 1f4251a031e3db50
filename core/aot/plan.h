/* SPDX-License-Identifier: Apache-2.0
 * plan.h -- a compiled function: everything that has to happen around the back end's code, decided
 * in advance.
 *
 * A plan knows no back end: it calls `run` of its exec.  It is made once, never written to
 * afterwards but for what its first backward finds out, and counted, because a history that will be
 * walked backwards keeps it alive.
 * Threads: a plan may be run by several threads if its executable may.
 */
#ifndef GM_AOT_PLAN_H
#define GM_AOT_PLAN_H

#include "core/aot/aot.h"

typedef struct GmPlan GmPlan;

/* The code that a back end made, as functions over `data`.  run: runs role 0, the forward, or role
 * 1, the backward, into outputs that the caller has allocated; false with *error set on failure. */
typedef struct {
  void *data;
  bool (*run) (void *data, int role, GmTensor *const *in, int n_in, GmTensor *const *out, int n_out,
               GError **error);
  void (*unref) (void *data);
  /* Runs graphs of symbolic sizes, else as `run`: symbols[i] is the value of symbol number i. NULL:
   * the code has no symbolic sizes. */
  bool (*run_sized) (void *data, int role, const int64_t *symbols, GmTensor *const *in, int n_in,
                     GmTensor *const *out, int n_out, GError **error);
  /* Runs the first part of a forward in which data says how large a tensor is; NULL: there is no
   * such part.  Sets the symbols that it finds, and n_made new references made[i].  run_sized then
   * gets these tensors after the inputs of role 0, and only those outputs that are none of them.
   * made (below): by output of the forward, the number of the tensor in made[] that it is, or
   * GM_NO_ID. */
  bool (*begin) (void *data, int64_t *symbols, GmTensor *const *in, GmTensor **made,
                 GError **error);
  uint32_t n_made;
  const uint32_t *made;
  /* True if a run may be given input `in` as output `out`, which have the same layout, provided
   * that the input is not read afterwards; NULL: never.  All pairs for which it returns true may be
   * used in one run. */
  bool (*may_share) (void *data, int role, uint32_t in, uint32_t out);
  /* Makes the code of role 1.  The plan calls it before the first run or may_share of that role,
   * never twice at a time, and again after a failure; NULL: the code exists. */
  bool (*prepare) (void *data, GError **error);
  /* Runs as run_sized (symbols NULL: as run), for tensors that are known to fit, without checking
   * them; NULL: the plan calls run_sized or run. */
  bool (*run_known) (void *data, int role, const int64_t *symbols, GmTensor *const *in, int n_in,
                     GmTensor *const *out, int n_out, GError **error);
} GmPlanExec;

/* The random generator's state, an input of the graph that no caller passes: the plan takes `draws`
 * draws from the process's generator, and passes {seed, number of the first draw}. */
typedef struct {
  bool used;
  GmOuterInput input; /* of the recorded graph */
  int64_t draws;      /* a size */
  bool given_out;     /* the graph says how much was drawn: this output of the recorded graph
                       * is the state after it, and draws is 0 */
  uint32_t output;
} GmPlanRandom;

typedef struct {
  const GmLayers *layers;
  const GmJoint *joint;
  const GmParts *parts;
  GmPlanRandom random;
  GmPlanExec exec;      /* the plan owns exec.data from gm_plan_new on */
  const GmGraph *graph; /* the functional graph that was joined: used for a backward that the
                         * compiled code cannot do (unfold_history.h); NULL: such a backward is
                         * refused */
} GmPlanSpec;

/* Makes a plan, with one reference.  Copies all it needs from `spec`, so the compilation's arena
 * may be freed; owns exec.data. */
GmPlan *gm_plan_new (const GmPlanSpec *spec);
GmPlan *gm_plan_ref (GmPlan *p);
void gm_plan_unref (GmPlan *p); /* Drops a reference; NULL is fine. */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (GmPlan, gm_plan_unref)

/* -- Sizes that are symbols (plan_sized.c) -----------------------------------------------------
 * A plan that was made of graphs of symbolic sizes cannot be run: a plan of numbers is made of
 * it. */
bool gm_plan_is_sized (const GmPlan *p);
/* True if the assumptions about sizes hold for these values of the symbols, indexed by the number
 * of the symbol in the graphs' sizes. */
bool gm_plan_fits (const GmPlan *p, const int64_t *symbols);
/* Returns a new plan, owned by the caller, whose sizes are numbers, made of the plan p of symbolic
 * sizes for these values of the symbols, which fit (gm_plan_fits).  Cheap: nothing is compiled.
 * NULL with *error. */
GmPlan *gm_plan_at (GmPlan *p, const int64_t *symbols, GError **error);

/* The state of a call that does not know all sizes at its beginning: a plan of symbols begins the
 * call, and a plan of numbers that was made of it finishes the call. */
typedef struct {
  GmTensor *state, **made; /* the generator's state; the tensors that exec.begin made */
  uint32_t n_made;
} GmPlanBegun;
bool gm_plan_is_of (const GmPlan *p, const GmPlan *form); /* true if p was made of form */
bool gm_plan_is_counted (const GmPlan *p); /* true if calls have to begin with gm_plan_begin */
/* Runs the plan until data has determined all symbols, and sets them.  The caller clears b; if b
 * has a generator's state from an earlier attempt, that state is used again. */
bool gm_plan_begin (GmPlan *p, GmTensor *const *inputs, int64_t *symbols, GmPlanBegun *b,
                    GError **error);
/* Finishes a call that gm_plan_begin has begun with the plan that p was made of, otherwise as
 * gm_plan_run. */
bool gm_plan_run_begun (GmPlan *p, GmTensor *const *inputs, const GmPlanBegun *b,
                        GmTensor **outputs, GError **error);
void gm_plan_begun_clear (GmPlanBegun *b, bool keep_state);

int gm_plan_n_inputs (const GmPlan *p); /* as callers pass them: without the generator's state */
int gm_plan_n_outputs (const GmPlan *p);
/* Returns the meta that input i must have (dtype, shape, strides). */
const GmMeta *gm_plan_input_meta (const GmPlan *p, int i);
/* Returns the *n assumptions about where the inputs' memory lies, besides their metas, which a
 * front end has to guard.  Inputs are numbered as callers pass them.  Owned by the plan. */
const GmOverlap *gm_plan_overlaps (const GmPlan *p, uint32_t *n);
/* True if these n inputs may be passed to gm_plan_run: number, dtypes, shapes, strides, and how
 * they overlap; else sets GM_ERROR_RUNTIME, which names the input that does not fit. */
bool gm_plan_check (const GmPlan *p, GmTensor *const *inputs, int n, GError **error);

/* Runs the function on `inputs` (borrowed), which gm_plan_check would accept; of its checks only
 * that of overlaps is repeated.  outputs[i]: new references, in the order of the recorded outputs;
 * all NULL on error.  Inputs that the function writes to are written, and inputs that it gives
 * another shape get that shape.  If inputs are stale views, the caller has refreshed them in the
 * program's order (read_order.h: gm_read_order_take).  If the plan has a backward, outputs get it
 * as their history; a backward through it works once, or more often with retain_graph, and fails
 * with GM_ERROR_RUNTIME if a saved tensor was changed in place.  Errors: the back end's;
 * GM_ERROR_MEMORY; GM_ERROR_RUNTIME where the plain program would refuse a write;
 * GM_ERROR_UNSUPPORTED if inputs overlap otherwise than the function was compiled for. */
bool gm_plan_run (GmPlan *p, GmTensor *const *inputs, int n, GmTensor **outputs, GError **error);

#endif
