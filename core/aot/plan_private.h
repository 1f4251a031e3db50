/* SPDX-License-Identifier: Apache-2.0
 * plan_private.h -- the inside of a plan, for the files that make it (plan.c), call it
 * (plan_call.c) and are its backward (plan_history.c).
 */
#ifndef GM_AOT_PLAN_PRIVATE_H
#define GM_AOT_PLAN_PRIVATE_H

#include <string.h>

#include "core/aot/plan.h"
#include "core/base/yield.h"
#include "core/aot/unfold_history.h"

/* The result of work that is done once, under the lock: a thread that reads `done` as true may read
 * all that was written. */
typedef struct {
  GmYieldLock lock;
  bool done; /* atomic */
} GmPlanFirst;

/* A read of an input, before node `at` of the graph. */
typedef struct {
  uint32_t input, at;
} GmPlanLook;

struct GmPlan {
  gatomicrefcount refs;
  GmArena *arena;  /* owns all arrays below */
  GmLayers layers; /* overlaps numbered as callers pass inputs */
  GmPlanRandom random;
  GmPlanExec exec;
  GmPlanFirst *first; /* the work of the first backward; NULL: none.  Shared with the plans that are
                       * made of this plan */
  bool direct;        /* the caller's outputs are the forward's first outputs, one to one */
  int n_inputs;       /* of the recorded graph: includes the generator's state */
  int n_inner;        /* of the forward */
  int n_function;     /* outputs of the function (user outputs and mutations) */
  int n_forward;      /* outputs of the forward: the function's, then saved values */
  int n_saved, n_tangents, n_grads, n_backward;
  int n_watched; /* of a history: n_saved, then results and inputs that plain gradients read and
                  * this backward does not */
  int n_held;    /* n_watched, then inputs from which values that plain gradients read are computed
                  * again */
  const GmPlanLook *looks; /* unfold.n_looks, of the recorded graph's inputs */
  int n_early;             /* of a history: number of sequence numbers of views among the inputs */
  const uint32_t *early;   /* n_early: numbers of these inputs, as the bases are made of them */
  uint64_t reaches_back;   /* gradients, by bit, to which such views contribute */
  int n_joint_tangents;
  GmGraph *restore;  /* owned: that of GmParts.  Set if hooks are in the graphs, and none is called;
                      * NULL: they are not */
  bool shares_grads; /* an output of the backward is the gradient of several inputs */
  const GmMeta *forward_metas, *backward_metas; /* of the outputs */
  const GmMeta *tangent_metas;                  /* n_tangents */
  const GmMeta *saved_metas;                    /* n_saved */
  const uint32_t *written_in; /* donate.c: per output of the forward, the inner input whose new
                               * contents it is and whose memory it may get at once, or GM_NO_ID;
                               * NULL: none */
  const uint32_t *lenders;    /* donate.c: per output of the backward, the input whose memory it may
                               * get, or GM_NO_ID; NULL: none */
  const GmSavedValue *saved;  /* n_held */
  const uint32_t *tangents;
  const int *histories; /* per history of the layers: its tangent, or -1 */
  const GmGradSource *sources;
  const GmInnerOutput *tangent_of;
  const GmInnerInput *grad_of;
  const uint32_t *n_terms;                 /* per gradient */
  const uint32_t *hook_order, *grad_order; /* numbers of tangents and of gradients in the order of
                                            * eager's nodes; NULL: ascending */
  bool keeps_nothing;   /* no operation on the way of gradients reads anything but gradients: a
                         * plain backward uses nothing up */
  bool has_hooks;       /* hooks on gradients inside run in the backward */
  bool calls_program;   /* hooks of this kind, or histories of functions that are nodes, which
                         * may have such hooks */
  uint64_t read_inside; /* tangents, by bit, of values that the function reads itself */
  uint64_t hooked;      /* tangents, by bit, that arrive at a hook before they arrive at the base
                         * of their tensor */
  bool reads_strides;   /* the program's own gradients fail for some strides of arriving
                         * gradients: gm_custom_reads_strides */
  bool lays_out;        /* the backward's code returns gradients with other strides than the
                         * plain backward: layouts.c */
  GPtrArray *layouts;   /* layouts.c's; NULL: none yet */
  GmGraph *graph;       /* owned; NULL: the compiled backward is the only one */
  GmGraph *backward;    /* owned: the graph that the compiled backward was made of, where it has
                         * hooks; else NULL */
  uint64_t id;          /* unique, but shared by plans made of one plan for other sizes */
  GmUnfold unfold;
  /* plan_sized.c.  sizes: metas and attributes are expressions of these; NULL: all are numbers.
   * of: the plan that this plan is made of, for these values of its symbols; it owns what the two
   * share. */
  GmSizes *sizes;
  GmPlan *of;
  const int64_t *symbols;
};

/* Returns the functional graph for the numbers of a plan that is `of` another. */
GmGraph *gm_plan_graph_now (const GmPlan *p, GError **error);

static inline bool
gm_plan_execute (const GmPlan *p, int role, GmTensor *const *in, int n_in, GmTensor *const *out,
                 int n_out, GError **error)
{
  if (p->symbols && p->exec.run_sized)
    return p->exec.run_sized (p->exec.data, role, p->symbols, in, n_in, out, n_out, error);
  return p->exec.run (p->exec.data, role, in, n_in, out, n_out, error);
}

/* Does the same for tensors that fit: they were guarded, allocated or laid out for this plan. */
static inline bool
gm_plan_execute_known (const GmPlan *p, int role, GmTensor *const *in, int n_in,
                       GmTensor *const *out, int n_out, GError **error)
{
  if (p->exec.run_known)
    return p->exec.run_known (p->exec.data, role, p->symbols, in, n_in, out, n_out, error);
  return gm_plan_execute (p, role, in, n_in, out, n_out, error);
}

/* layouts.c.  True if the backward's code returns other strides than the joint graph, for gradients
 * that are laid out as it reads them. */
bool gm_layouts_differ (const GmPlan *p, const GmJoint *joint);
/* True if the gradients that arrived are laid out as the compiled backward reads them. */
bool gm_layouts_are_planned (const GmPlan *p, GmTensor *const *grads);
/* Replaces the gradients that the compiled backward returned by gradients laid out as the plain
 * backward would lay them out, for arriving layouts that were not planned.  Replaced gradients are
 * released.  False and an error if there is no memory: the results are whole nevertheless. */
bool gm_layouts_give (GmPlan *p, GmTensor *const *grads, GmTensor **result, GError **error);

/* plan_history.c: called before the backward runs or is asked about: compiles it, and finds which
 * inputs lend memory to which outputs. */
bool gm_plan_first_backward (GmPlan *p, GError **error);

static inline bool
gm_plan_prepare (GmPlan *p, GError **error)
{
  return !p->first || G_LIKELY (__atomic_load_n (&p->first->done, __ATOMIC_ACQUIRE))
         || gm_plan_first_backward (p, error);
}

/* plan_program.c: returns the compiled backward over these inputs (steals the references), of a
 * plan that has p->backward, as a program.  NULL: none, *error may be set. */
GmAgProgram *gm_plan_program (GmPlan *p, GmTensor *const *in, GByteArray *structure,
                              GError **error);

/* donate.c.  plan: finds which inputs lend memory to which outputs in the forward, as the last
 * step; plan_backward: in the backward, once there is code that can be asked.  take: returns a new
 * tensor in the memory of t, if these are all references to t and no other tensor shares its
 * memory; else NULL. */
void gm_donate_plan (GmPlan *p, const GmGraph *forward);
void gm_donate_plan_backward (GmPlan *p);
GmTensor *gm_donate_take (GmTensor *t, int refs);
/* Returns a new tensor in the memory of input t, for t's new contents, if a write here and now
 * needs no history; else NULL. */
GmTensor *gm_donate_place (GmTensor *t, bool no_grad);

/* The values that one call keeps for its backward: the state of the node that stands for the
 * function. */
typedef struct GmHistory GmHistory;

/* Gives the outputs that have a tangent their history.  recorded: the recorded graph's inputs,
 * single: the inputs that bases are made of, in: with these bases.  The
 * caller notes versions, after the writes. */
GmHistory *gm_history_attach (GmPlan *p, GmTensor *const *recorded, GmTensor *const *single,
                              GmTensor *const *in, GmTensor *const *out);
/* Packs what the forward saved with the hooks, in order. */
bool gm_history_pack (GmHistory *h, GError **error);
/* Places the histories made by the looks before a call without such a node.  Returns the sequence
 * number that its first operation would have; 0: not needed. */
uint64_t gm_plan_place_looks (const GmPlan *p, GmTensor *const *recorded);
/* Ends a call: if it went well, the writes are done and histories are given.  h belongs to the
 * tensors then, if it still exists. */
void gm_history_end (GmHistory *h, bool ok);
/* Returns the node that stands for the call. */
GmAgNode *gm_history_node (GmHistory *h);
/* Returns the sequence number that the first operation would have, were the operations recorded one
 * by one; 0: unknown. */
uint64_t gm_history_first (const GmHistory *h);

bool gm_plan_check_overlaps (const GmPlan *p, GmTensor *const *inputs, int code, GError **error);

static inline bool
gm_plan_same_layout (const GmMeta *a, const GmMeta *b)
{
  if (a->dtype != b->dtype || a->ndim != b->ndim || a->device != b->device)
    return false;
  return memcmp (a->sizes, b->sizes, sizeof *a->sizes * a->ndim) == 0
         && memcmp (a->strides, b->strides, sizeof *a->strides * a->ndim) == 0;
}

static inline bool
gm_plan_allocate (const GmMeta *metas, int n, GmTensor **out, GError **error)
{
  for (int i = 0; i < n; i++) {
    out[i] = gm_tensor_new (&metas[i], error);
    if (!out[i]) {
      while (i > 0)
        gm_tensor_unref (out[--i]);
      return false;
    }
  }
  return true;
}

static inline void
gm_plan_unref_all (GmTensor **t, int n)
{
  for (int i = 0; i < n; i++)
    gm_tensor_unref (t[i]);
}

#endif
