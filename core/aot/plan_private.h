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

/* The state of work that is done once, under the lock.  A thread that reads `done` as true, with
 * acquire order, may read all that the work has written. */
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
  GmPlanFirst *first; /* the work of the first backward; NULL: none.  Shared with the plans
                       * that are made of this plan */
  bool direct;        /* the caller's outputs are the forward's first outputs, one to one */
  int n_inputs;       /* of the recorded graph: includes the generator's state */
  int n_inner;        /* of the forward */
  int n_function;     /* outputs of the function (user outputs and mutations) */
  int n_forward;      /* outputs of the forward: the function's, then saved values */
  int n_saved, n_tangents, n_grads, n_backward;
  int n_watched; /* number of `saved` whose versions a backward checks: n_saved, then results
                  * and inputs that plain gradients read and the compiled backward does not */
  int n_held;    /* number of `saved`: n_watched, then inputs from which values that plain
                  * gradients read are recomputed */
  const GmPlanLook *looks; /* unfold.n_looks, of the recorded graph's inputs */
  int n_early;             /* number of inputs that are early views: taken before the call,
                            * merged with their base; a history keeps the sequence number of
                            * each */
  const uint32_t *early;   /* n_early: the numbers of these views, among the inputs that bases
                            * are made of */
  uint64_t reaches_back;   /* gradients, by bit, to which early views contribute */
  int n_joint_tangents;
  GmGraph *restore;  /* owned: `restore` of GmParts, set if saved-tensor hooks are nodes of the
                      * graphs and are not called; else NULL */
  bool shares_grads; /* an output of the backward is the gradient of more than one input */
  const GmMeta *forward_metas, *backward_metas; /* of the outputs */
  const GmMeta *tangent_metas;                  /* n_tangents */
  const GmMeta *saved_metas;                    /* n_saved */
  const uint32_t *written_in; /* donate.c: per output of the forward, the inner input whose new
                               * contents it is and whose memory it may get at once, or GM_NO_ID;
                               * NULL: none */
  const uint32_t *lenders;    /* donate.c: per output of the backward, the input whose memory it
                               * may get, or GM_NO_ID; NULL: no output may */
  const GmSavedValue *saved;  /* n_held */
  const uint32_t *tangents;
  const int *histories; /* per history of the layers: the number of its tangent, or -1 */
  const GmGradSource *sources;
  const GmInnerOutput *tangent_of;
  const GmInnerInput *grad_of;
  const uint32_t *n_terms;                 /* per gradient */
  const uint32_t *hook_order, *grad_order; /* numbers of tangents and of gradients in the order of
                                            * eager's nodes; NULL: ascending */
  bool keeps_nothing;   /* no operation that gradients pass reads anything but gradients: a
                         * plain backward can be repeated */
  bool has_hooks;       /* the backward calls hooks on gradients of values inside of the
                         * function */
  bool calls_program;   /* the backward calls such hooks, or host functions that keep a history,
                         * which may have hooks */
  uint64_t read_inside; /* tangents, by bit, of values that the function itself reads, too */
  uint64_t hooked;      /* tangents, by bit, that reach a hook before they reach the base of
                         * their tensor */
  bool reads_strides;   /* the program's own gradients fail for some strides of the arriving
                         * gradients: see gm_custom_reads_strides */
  bool lays_out;        /* the backward's code returns gradients with other strides than the
                         * plain backward does: layouts.c */
  GPtrArray *layouts;   /* the cache of layouts.c; NULL: empty */
  GmGraph *graph;       /* owned: the functional graph, from which the history is unfolded;
                         * NULL: the compiled backward is the only one */
  GmGraph *backward;    /* owned: the graph of the compiled backward, if it calls hooks; else
                         * NULL */
  uint64_t id;          /* unique, but shared by plans made of one plan for other sizes */
  GmUnfold unfold;
  /* plan_sized.c.  sizes: metas and attributes are expressions of these sizes; NULL: all are
   * numbers. of: the plan of symbols that this plan was made from, for the values `symbols`; it
   * owns the parts that the two share. */
  GmSizes *sizes;
  GmPlan *of;
  const int64_t *symbols;
};

/* Returns a new graph that the caller frees: the functional graph of p, which was made from a plan
 * of symbols (p->of), with numbers for sizes. */
GmGraph *gm_plan_graph_now (const GmPlan *p, GError **error);

static inline bool
gm_plan_execute (const GmPlan *p, int role, GmTensor *const *in, int n_in, GmTensor *const *out,
                 int n_out, GError **error)
{
  if (p->symbols && p->exec.run_sized)
    return p->exec.run_sized (p->exec.data, role, p->symbols, in, n_in, out, n_out, error);
  return p->exec.run (p->exec.data, role, in, n_in, out, n_out, error);
}

/* Runs the code of `role`, as gm_plan_execute, on tensors that are known to fit: guarded, allocated
 * or laid out for this plan. */
static inline bool
gm_plan_execute_known (const GmPlan *p, int role, GmTensor *const *in, int n_in,
                       GmTensor *const *out, int n_out, GError **error)
{
  if (p->exec.run_known)
    return p->exec.run_known (p->exec.data, role, p->symbols, in, n_in, out, n_out, error);
  return gm_plan_execute (p, role, in, n_in, out, n_out, error);
}

/* layouts.c.  True if the backward's code returns other strides than the joint graph says, for
 * gradients that are laid out as the code reads them. */
bool gm_layouts_differ (const GmPlan *p, const GmJoint *joint);
/* True if `grads`, the arriving gradients, have the layouts that the compiled backward reads, so
 * that it can run on them without copies. */
bool gm_layouts_are_planned (const GmPlan *p, GmTensor *const *grads);
/* Replaces gradients in `result`, returned by the compiled backward, whose strides are not those
 * that the plain backward would return for the layouts of `grads`, the arriving gradients.
 * Replaced gradients are released.  False and *error set if there is no memory: `result` is
 * complete nevertheless, with other strides. */
bool gm_layouts_give (GmPlan *p, GmTensor *const *grads, GmTensor **result, GError **error);

/* plan_history.c: does the work of the first backward, once: compiles the backward's code, and
 * decides which of its inputs may give their memory to which outputs. */
bool gm_plan_first_backward (GmPlan *p, GError **error);

static inline bool
gm_plan_prepare (GmPlan *p, GError **error)
{
  return !p->first || G_LIKELY (__atomic_load_n (&p->first->done, __ATOMIC_ACQUIRE))
         || gm_plan_first_backward (p, error);
}

/* plan_program.c: returns the compiled backward of p, which has p->backward, over the inputs `in`
 * (their references are stolen), as a program, and appends the bytes that identify its graph to
 * `structure`.  NULL: there is no such program, or *error is set. */
GmAgProgram *gm_plan_program (GmPlan *p, GmTensor *const *in, GByteArray *structure,
                              GError **error);

/* donate.c.  gm_donate_plan decides, as the last step of making p, which inputs of the forward are
 * written where they lie; gm_donate_plan_backward decides, once the backward's code exists, which
 * of its inputs give their memory to which outputs.  gm_donate_take returns a new tensor in the
 * memory of t, if the `refs` references are all that t has and no other tensor shares its memory;
 * else NULL. */
void gm_donate_plan (GmPlan *p, const GmGraph *forward);
void gm_donate_plan_backward (GmPlan *p);
GmTensor *gm_donate_take (GmTensor *t, int refs);
/* Returns a new tensor in the memory of input t, to which t's new contents may be written, if such
 * a write needs no history and t is not read-only; else NULL. */
GmTensor *gm_donate_place (GmTensor *t, bool no_grad);

/* The values that one call keeps for its backward: the state of the node that stands for the
 * function. */
typedef struct GmHistory GmHistory;

/* Makes the tape's node for a call, with the values saved for its backward, and gives the outputs
 * that have a tangent that history.  recorded: the recorded graph's inputs; single: the inputs that
 * bases are made of; in: the forward's inputs, bases among them; out: the forward's outputs.  The
 * versions of saved values are noted by gm_history_end, after the writes. */
GmHistory *gm_history_attach (GmPlan *p, GmTensor *const *recorded, GmTensor *const *single,
                              GmTensor *const *in, GmTensor *const *out);
/* Calls pack of the saved-tensor hooks for the values that the forward saved, in their order. False
 * with *error set if a hook fails. */
bool gm_history_pack (GmHistory *h, GError **error);
/* Places the histories made by the looks before a call without such a node.  Returns the sequence
 * number that its first operation would have; 0: not needed. */
uint64_t gm_plan_place_looks (const GmPlan *p, GmTensor *const *recorded);
/* Ends a call: if it went well, the writes are done and histories are given.  h belongs to the
 * tensors then, if it still exists. */
void gm_history_end (GmHistory *h, bool ok);
/* Returns the tape's node for the call; borrowed. */
GmAgNode *gm_history_node (GmHistory *h);
/* Returns the sequence number that the function's first operation would have if its operations were
 * recorded by themselves; 0: unknown. */
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
