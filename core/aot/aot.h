/* SPDX-License-Identifier: Apache-2.0
 * aot.h -- from a recorded graph to a forward and a backward that a back end can compile.
 *
 * A recorded graph may hold views and in-place writes, and its outputs may share memory with
 * its inputs.  Back ends see none of that: two layers take it off, one file each, with two
 * halves that stand together, the rewrite of the graph before compilation and the shim around
 * every call.  From the outside in:
 *
 *   output_alias    outputs that are views or inputs are not computed: the view is taken again
 *   functionalize   in-place writes become values; written inputs become extra outputs
 *   (the back end's graph)
 *
 * After the layers, join differentiates the functional graph and partition cuts the result in
 * two (choose.c, mincut.c and budget.c decide where).  Each stage reads a graph, leaves it alone
 * and builds a new one in `arena`; results live as long as the arena.  gm_plan_new (plan.h) copies
 * what is needed at run time.
 * Threads: one at a time per arena.
 */
#ifndef GM_AOT_AOT_H
#define GM_AOT_AOT_H

#include "core/graph/graph.h"

/* Positions, as the layer at hand sees them: outer is towards the caller, inner towards the
 * back end.  Different types, so that a shim which mixes them does not compile. */
typedef struct { uint32_t i; } GmOuterOutput;
typedef struct { uint32_t i; } GmInnerOutput;
typedef struct { uint32_t i; } GmInnerInput;

/* -- Values that are the same memory (views.c) ------------------------------------------------- */

/* The tensor object that `v` is: the result of an in-place write is its first operand,
 * everything else is itself. */
GmValueId gm_views_object (const GmGraph *g, GmValueId v);
/* The object that `v` is directly a view of, or GM_NO_ID if `v` owns its memory. */
GmValueId gm_views_parent (const GmGraph *g, GmValueId v);
/* The object whose memory `v` looks at: an input, or the result of a node that is neither a
 * view nor a write. */
GmValueId gm_views_root (const GmGraph *g, GmValueId v);
/* Whether n ran while gradients were off: an operand requires grad, the result could, and does
 * not. */
bool gm_views_no_grad (const GmGraph *g, const GmNode *n);

/* -- Building a graph out of another (copy.c) -------------------------------------------------- */

/* Adds node n of `from` to `to`; map[id]: the id in `to` of each operand, NULL if they are the
 * same.  GM_NO_ID on error. */
GmValueId gm_copy_node (GmGraph *to, const GmGraph *from, const GmNode *n, const GmValueId *map,
                        GError **error);
/* Adds all inputs and nodes of `from` to the empty graph `to`, under the same ids.  No outputs. */
bool gm_copy_values (GmGraph *to, const GmGraph *from, GError **error);
/* A name for an input that no input of g has: "tangent0".  In g's arena. */
const char *gm_copy_fresh_name (const GmGraph *g, const char *stem, uint32_t number);

/* -- Layer: outputs that are views (output_alias.c) -------------------------------------------- */

/* One view taken again at run time.  A slot is a real tensor: first all inputs, then all inner
 * outputs, then one per step. */
typedef struct {
  GmOp op;
  bool no_grad;  /* it was taken while gradients were off */
  uint32_t slot; /* what it is a view of */
  GmAttrs attrs;
} GmReplay;

typedef struct {
  uint32_t n_inputs, n_inner, n_outer, n_replays;
  const GmReplay *replays; /* replay k fills slot n_inputs + n_inner + k */
  const uint32_t *slots;   /* per outer output */
} GmAliasLayer;

/* The graph whose outputs are the roots alone, each once, and never an input.  A root that the
 * caller can only reach through a detach is given out detached, so that no gradient is computed
 * for it. */
GmGraph *gm_output_alias (const GmGraph *g, GmArena *arena, GmAliasLayer *layer, GError **error);
/* outer[i] gets a new reference: the input, the inner output, or a view of one of them, taken
 * with gm_autograd_op, so that storage, strides, base and history are what the plain program
 * gives.  On error nothing is left behind. */
bool gm_output_alias_replay (const GmAliasLayer *layer, GmTensor *const *inputs,
                             GmTensor *const *inner, GmTensor **outer, GError **error);

/* -- Layer: in-place writes (functionalize.c) -------------------------------------------------- */

typedef struct { GmInnerInput input; GmInnerOutput output; } GmMutation;

typedef struct {
  uint32_t n_outer, n_mutations; /* inner outputs are the outer ones, then one per mutation */
  const GmMutation *mutations;   /* in the order of the inputs */
} GmFunctionalLayer;

/* The graph without MUTATE nodes.  `differentiate` false: nothing requires grad any more.
 * Errors: GM_ERROR_UNSUPPORTED for a write that has no functional form (through an expand;
 * through a detach or with gradients off to what takes part in the gradient; to a constant),
 * naming the line. */
GmGraph *gm_functionalize (const GmGraph *g, bool differentiate, GmArena *arena,
                           GmFunctionalLayer *layer, GError **error);
/* Copies what was computed for the mutated inputs into them, with history. */
bool gm_functionalize_write_back (const GmFunctionalLayer *layer, GmTensor *const *inputs,
                                  GmTensor *const *inner, GError **error);

/* -- Joint graph (join.c) ---------------------------------------------------------------------- */

/* Inputs: the function's, then one tangent per output that requires grad.  Outputs: the
 * function's, then the gradients (kind GRAD) of the inputs that require grad and that something
 * flows to. */
typedef struct {
  GmGraph *graph;
  uint32_t n_inputs, n_outputs, n_tangents, n_grads;
  const GmInnerOutput *tangents; /* per tangent: the output it belongs to */
  const GmInnerInput *grads;     /* per gradient: the input it belongs to */
} GmJoint;

bool gm_join (const GmGraph *functional, GmArena *arena, GmJoint *joint, GError **error);

/* -- Forward and backward (partition.c) -------------------------------------------------------- */

/* A value that the backward gets from the forward: input `index` as it is, or output `index` of
 * the forward graph. */
typedef struct { bool is_input; uint32_t index; } GmSavedValue;
/* A gradient: input `index` of the backward as it is (a tangent that passes through), or its
 * output `index`. */
typedef struct { bool is_input; uint32_t index; } GmGradSource;

typedef struct {
  GmGraph *forward;  /* outputs: the function's, then what is saved (kind SAVED) */
  GmGraph *backward; /* inputs: saved values, then tangents; NULL: there are no gradients */
  uint32_t n_outputs, n_saved, n_tangents, n_grads;
  const GmSavedValue *saved;        /* the backward's inputs 0 .. n_saved */
  const uint32_t *tangents;    /* then these tangents of the joint graph, the ones that are read */
  const GmGradSource *sources; /* per gradient of the joint graph */
} GmParts;

/* DEFAULT saves what the backward reads and computes nothing twice that costs arithmetic.  MIN_CUT
 * saves what weighs least and computes the rest again, if that is cheap; of what it would save, a
 * budget below 1 drops what is cheapest to compute again, down to nothing but inputs at 0. */
typedef enum { GM_PARTITION_DEFAULT, GM_PARTITION_MIN_CUT } GmPartitionMode;
typedef struct { GmPartitionMode mode; double memory_budget; /* 0 to 1 */ } GmPartitionOptions;

/* `writes`: which inputs are overwritten after the forward, so that they cannot be saved as
 * they are; NULL for none.  `options`: NULL for { DEFAULT, 1 }.  The bits of all outputs and
 * gradients are the same for all options and tags. */
bool gm_partition (const GmJoint *joint, const GmFunctionalLayer *writes,
                   const GmPartitionOptions *options, GmArena *arena, GmParts *parts,
                   GError **error);
/* Bytes that the forward allocates for the backward alone: its outputs of kind SAVED. */
uint64_t gm_partition_saved_bytes (const GmParts *parts);

#endif
