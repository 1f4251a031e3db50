/* SPDX-License-Identifier: Apache-2.0
 * aot.h -- from a recorded graph to a forward and a backward that a back end can compile.
 *
 * A recorded graph may hold views, in-place writes and tensors that change their shape, its inputs
 * may share memory, and so may its outputs.  Back ends see none of that: layers take it off, one
 * file each, with two halves that stand together, the rewrite of the graph before compilation and
 * the shim around every call.  gm_layers_apply (layers.c) runs the graph halves, a plan the others.
 * From the outside in:
 *
 *   metadata        tensors that change shape or memory in place (t_, set_) do so at the end
 *   dedupe          a tensor that is passed twice becomes one input
 *   output_alias    outputs that are views or inputs are not computed: the view is taken again
 *   synthetic_base  inputs that overlap where one is written become one input, their base
 *   functionalize   in-place writes become values; written inputs become extra outputs
 *   (the back end's graph)
 *
 * No layer knows what another one adds.  What a decision took for granted about the memory of the
 * caller's inputs is written down (GmOverlap) for whoever guards it.
 *
 * After the layers, join differentiates the functional graph and partition cuts the result in
 * two (choose.c, mincut.c and budget.c decide where).  Each stage reads a graph, leaves it alone
 * and builds a new one in `arena`; results live as long as the arena.  gm_plan_new (plan.h) copies
 * what is needed at run time.
 * Threads: one at a time per arena.
 */
#ifndef GM_AOT_AOT_H
#define GM_AOT_AOT_H

#include "core/aot/looks.h"
#include "core/graph/graph.h"

/* Positions, as the layer at hand sees them: outer is towards the caller, inner towards the
 * back end.  Different types, so that a shim which mixes them does not compile. */
typedef struct { uint32_t i; } GmOuterInput;
typedef struct { uint32_t i; } GmInnerInput;
typedef struct { uint32_t i; } GmOuterOutput;
typedef struct { uint32_t i; } GmInnerOutput;

/* -- What was taken for granted (overlap.c) ---------------------------------------------------- */

/* About two of the caller's inputs, a and b. */
typedef enum {
  GM_OVERLAP_SAME,      /* they are one tensor */
  GM_OVERLAP_DISTINCT,  /* they are two tensors, wherever their memory is */
  GM_OVERLAP_APART,     /* they have no byte in common */
  GM_OVERLAP_AT,        /* one storage; b's first element is `offset` elements after a's */
  GM_OVERLAP_VIEW,      /* b is a view of a, as autograd sees it, at `offset` */
  GM_OVERLAP_BASE,      /* a == b: it is a view of a tensor like `base`, at `offset` */
  GM_OVERLAP_NO_VIEW,   /* a == b: it is no view, as autograd sees it */
  GM_OVERLAP_ONE_BASE,  /* they are views of one tensor */
  GM_OVERLAP_MADE,      /* the history of b was made after that of a: gradients are added in the opposite order */
} GmOverlapKind;

typedef struct {
  GmOverlapKind kind;
  GmOuterInput a, b;
  int64_t offset;
  GmMeta base;
} GmOverlap;

/* Whether it is so.  inputs: the caller's; that their metas are those of the graph is checked
 * elsewhere. */
bool gm_overlap_holds (const GmOverlap *o, GmTensor *const *inputs);
/* "inputs 0 and 2 have no byte in common"; caller frees. */
char *gm_overlap_text (const GmOverlap *o);
void gm_overlap_add (GArray *overlaps, GmOverlapKind kind, GmOuterInput a, GmOuterInput b,
                     int64_t offset, const GmMeta *base);

/* Writes into g what is true of the memory of these inputs, one per input of g (NULL: nothing is
 * known): from then on the graph is for inputs like them.  Where no looks were noted (looks.h), those of g's nodes are. */
void gm_overlap_describe (GmGraph *g, GmTensor *const *inputs);

/* -- Strided views as geometry (geometry.c) ---------------------------------------------------- */

/* Whether b, whose first element is `distance` elements after a's, has an element in common with a.
 * Exact, unless that takes too long: then true. */
bool gm_geometry_overlaps (const GmMeta *a, const GmMeta *b, int64_t distance);

/* -- Values that are the same memory (views.c) ------------------------------------------------- */

/* The tensor object that `v` is: the result of an in-place write is its first operand,
 * everything else is itself. */
GmValueId gm_views_object (const GmGraph *g, GmValueId v);
/* The object that `v` is directly a view of, or GM_NO_ID if `v` owns its memory. */
GmValueId gm_views_parent (const GmGraph *g, GmValueId v);
/* The object whose memory `v` looks at: an input, or the result of a node that is neither a
 * view nor a write. */
GmValueId gm_views_root (const GmGraph *g, GmValueId v);
/* The object whose version counts writes to `v`: its root, or the x.data that it is a view of. */
GmValueId gm_views_counter (const GmGraph *g, GmValueId v);
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
/* Adds all nodes of `from` to `to`; map has its inputs, and gets the results.  What requires grad
 * stays as it was recorded. */
bool gm_copy_nodes (GmGraph *to, const GmGraph *from, GmValueId *map, GError **error);
/* A name for an input that no input of g has: "tangent0".  In g's arena. */
const char *gm_copy_fresh_name (const GmGraph *g, const char *stem, uint32_t number);

/* -- Layer: tensors that change shape or memory (metadata.c) ----------------------------------- */

/* An object that has become another tensor by the end of the function. */
typedef struct {
  bool is_input;
  GmOuterInput input;     /* it is that input, or */
  GmInnerOutput object;   /* that output */
  GmInnerOutput becomes;
  uint32_t node;          /* of the recorded graph: the set_ */
} GmRenamed;

/* A change of shape that nobody sees any more has advanced the version of this memory. */
typedef struct {
  bool is_input;
  GmOuterInput input;   /* it is that input's, or */
  GmInnerOutput output; /* that output's */
} GmTouched;

typedef struct {
  uint32_t n_outer, n_inner; /* outputs */
  uint32_t n_renamed, n_touched;
  const GmRenamed *renamed; /* in the order in which they have to be done */
  const GmTouched *touched;
} GmMetadataLayer;

bool gm_metadata_applies (const GmGraph *g);
/* The graph without set_: who names the tensor afterwards names what it has become.  Inner outputs
 * are the outer ones, then what tensors become.  Errors: GM_ERROR_UNSUPPORTED where gradients were
 * off, or would go along to other memory. */
GmGraph *gm_metadata (const GmGraph *g, GmArena *arena, GmMetadataLayer *layer, GArray *overlaps,
                      GError **error);
/* Makes the outer outputs of the inner ones, taking the references; objects become what they
 * should. */
bool gm_metadata_leave (const GmMetadataLayer *layer, GmTensor *const *inputs, GmTensor **inner,
                        GmTensor **outer, GError **error);

/* -- Layer: a tensor passed twice (dedupe.c) --------------------------------------------------- */

typedef struct {
  uint32_t n_outer, n_inner; /* inputs */
  const GmOuterInput *from;  /* per inner input: the first outer one that is it */
} GmDedupeLayer;

bool gm_dedupe_applies (const GmGraph *g);
GmGraph *gm_dedupe (const GmGraph *g, GmArena *arena, GmDedupeLayer *layer, GArray *overlaps,
                    GError **error);
void gm_dedupe_enter (const GmDedupeLayer *layer, GmTensor *const *outer, GmTensor **inner);

/* -- Layer: outputs that are views (output_alias.c) -------------------------------------------- */

/* A tensor that the compiled function takes part in without giving out its elements: what its
 * gradient goes to is that output of the function, if there is one. */
typedef struct GmAgNode GmAgNode;
typedef struct {
  GmAgNode *node;  /* that stands for the function; NULL: no call with gradients */
  const int *of;   /* per history of the layers: which output of the node, or -1: none */
  const uint8_t *late; /* GmLate, per history that is no output */
  uint32_t n;
  const uint32_t *looks; /* all of them, in the order in which the program looked last */
  GmTensor **looked;   /* per history: who is to be looked at now, owned */
  uint64_t first, every;   /* the number that the function's first operation has on the tape, and how far the next one's is from it */
  const uint32_t *places;  /* per history: which of the operations takes the view; NULL: nothing is known */
} GmHistories;

/* Views that the function looked at after what they are taken of was written to get their histories, in the order of the
 * looks, because that is the one in which gradients are added. */
void gm_histories_look (const GmHistories *h);

/* A view of what was written to after it was taken follows its base, with a history that is made
 * when somebody looks at the view: after the call, or as the function did it already. */
typedef enum { GM_LATE_NEVER, GM_LATE_LATER, GM_LATE_NOW } GmLate;

/* One view taken again at run time.  A slot is a real tensor: first all inputs, then all inner
 * outputs, then one per step. */
typedef struct {
  GmOp op;
  bool no_grad;  /* it was taken while gradients were off */
  uint32_t history; /* its number, or GM_NO_ID */
  uint32_t slot; /* what it is a view of */
  uint32_t n_writes; /* of x.data: how often the function writes to it */
  GmAttrs attrs;
} GmReplay;

typedef struct {
  uint32_t n_inputs, n_inner, n_outer, n_replays, n_histories;
  const GmReplay *replays; /* replay k fills slot n_inputs + n_inner + k */
  const uint32_t *slots;   /* per outer output */
} GmAliasLayer;

/* The graph whose outputs are the roots alone, each once, and never an input; then histories: the
 * views that are given out.  A root that the caller can only reach through a detach is given out
 * detached, so that no gradient is computed for it. */
GmGraph *gm_output_alias (const GmGraph *g, GmArena *arena, GmAliasLayer *layer, GError **error);
/* outer[i] gets a new reference: the input, the inner output, or a view of one of them, taken
 * with gm_autograd_op, so that storage, strides, base and history are what the plain program
 * gives.  On error nothing is left behind. */
bool gm_output_alias_replay (const GmAliasLayer *layer, GmTensor *const *inputs,
                             GmTensor *const *inner, const GmHistories *histories, GmTensor **outer,
                             GError **error);

/* -- Layer: inputs that overlap (base_plan.c, synthetic_base.c) --------------------------------- */

typedef enum {
  GM_BASE_CALLER, /* what is passed */
  GM_BASE_OF,     /* what the tensor that is passed is a view of */
  GM_BASE_RAW,    /* memory as one dimension, from `offset` elements after what is passed */
} GmBaseKind;

/* Where an inner input comes from. */
typedef struct {
  GmBaseKind kind;
  GmOuterInput input;
  int64_t offset;
  GmMeta meta; /* RAW: as what */
} GmBaseSource;

/* An outer input whose contents are brought up to date by themselves, not with all of the base. */
typedef struct { GmOuterInput target; GmInnerOutput contents; } GmPiece;

/* A base of which pieces are written, or an outer input that is a view of it, gets that history. */
typedef struct {
  bool is_base;
  uint32_t index; /* of the inner input; else of the outer one */
} GmBaseHistory;

typedef struct {
  uint32_t n_outer, n_inner, n_bases; /* inputs: bases, then the others, in order of appearance */
  uint32_t n_outputs, n_pieces;       /* inner outputs are the outer ones, then one per piece */
  uint32_t n_histories, first_history; /* histories: the outer ones, then these */
  const GmBaseHistory *histories;
  const GmBaseSource *sources;        /* n_inner */
  const GmPiece *pieces;
  const uint32_t *first;     /* inner input i is made of outer[first[i]] .. outer[first[i + 1]] */
  const GmOuterInput *outer; /* each once */
  const bool *in_pieces;     /* per inner input: its contents are given out as pieces */
} GmBaseLayer;

/* Which inputs have to be merged; NULL: none. What that rests on is added to `overlaps`. */
typedef struct GmBasePlan GmBasePlan;
GmBasePlan *gm_synthetic_base_plan (const GmGraph *g, bool differentiate, GmArena *arena,
                                    GArray *overlaps, GError **error);
/* The graph over bases, with the merged inputs as views of them.  Errors: GM_ERROR_UNSUPPORTED
 * where the inputs have no one base to differentiate, or no one dtype. */
GmGraph *gm_synthetic_base (const GmGraph *g, const GmBasePlan *plan, GmArena *arena,
                            GmBaseLayer *layer, GError **error);
/* inner[i]: borrowed, but for the first n_bases, which are references to drop. */
void gm_synthetic_base_enter (const GmBaseLayer *layer, GmTensor *const *outer, GmTensor **inner);
/* Copies pieces into the inputs that they are of; then bases and views of them get their histories.
 * inner: as gm_synthetic_base_enter filled it. */
bool gm_synthetic_base_leave (const GmBaseLayer *layer, GmTensor *const *outer,
                              GmTensor *const *inner, GmTensor *const *inner_outputs,
                              const GmHistories *histories, GError **error);

/* -- Layer: in-place writes (functionalize.c) -------------------------------------------------- */

/* output GM_NO_ID: input is written, but another layer gives out what.  n_writes: how often the
 * plain program writes to it, and so advances its version. */
typedef struct {
  GmInnerInput input;
  GmInnerOutput output;
  uint32_t n_writes;
  bool no_grad; /* the elements change, the history does not */
} GmMutation;

typedef struct {
  uint32_t n_outer, n_mutations; /* inner outputs are the outer ones, then those of mutations */
  uint32_t n_histories;           /* of the outer graph */
  const GmInnerOutput *histories; /* where they are; GM_NO_ID: eager makes that history later ... */
  const uint8_t *late;            /* ... per outer one: GmLate */
  const uint32_t *looks;          /* all of them, in the order in which the program looked last */
  const uint32_t *places;         /* of those without an output: the node that takes the view, or GM_NO_ID */
  const uint32_t *taken;          /* of views: the node that took it first, before any write, or GM_NO_ID */
  const GmMutation *mutations;   /* in the order of the inputs */
  const uint32_t *n_writes;      /* per outer output: how often the plain program writes to it; NULL:
                                    to none */
} GmFunctionalLayer;

/* custom.c: functions that bring their gradient.  Whether node i, a `custom` one, is where it is computed, and something arrived. */
bool gm_custom_is_next (const GmGraph *g, uint32_t i, GmVal *const grad);
/* True if the gradients that g's functions bring fail for some strides of those that arrive. */
bool gm_custom_reads_strides (const GmGraph *g);
/* result[k]: the gradient of argument k of the function whose first node is i; grad: per value of g. */
void gm_custom_differentiate (const GmGraph *g, uint32_t i, GmBuilder *b, GmVal *const grad, GmVal *result);

/* higher.c: cond and its kin.  Makes the bodies of g's calls functional; g gets a table of its own.
 * Errors: GM_ERROR_UNSUPPORTED for a write to what was made outside of a body. */
bool gm_higher_prepare (GmGraph *g, bool differentiate, GError **error);
/* Whether a body has a function in it that brings its gradient. */
bool gm_higher_brings_gradients (const GmHigher *h);
/* Whether there is no second derivative, because a body has such a function or one that the host calls in it. */
bool gm_higher_is_once (const GmHigher *h);
/* Once nothing will be differentiated any more: in g's bodies such functions are what they compute. */
void gm_higher_drop_customs (GmGraph *g);
/* Whether node i is the first of its call, and something arrived at one of the call's results. */
bool gm_higher_is_next (const GmGraph *g, uint32_t i, GmVal *const grad);
/* Adds the gradient of the call whose first node is i to `to`, which has the values of g under their
 * ids; grad: per value of g.  result[k]: that of operand k, or GM_NO_ID. */
bool gm_higher_differentiate (const GmGraph *g, uint32_t i, GmGraph *to, GmVal *const grad,
                              GmValueId *result, GError **error);

/* host_call.c: functions of the host's.  Stage f: how it is to be run. */
void gm_host_call_prepare (struct GmHigher *h, bool differentiate);
/* The value that stands for the call that n is a result of; GM_NO_ID: there is none, nothing of it has a gradient. */
GmValueId gm_host_call_ticket (const GmGraph *g, const GmNode *n);
bool gm_host_call_is_ticket (const GmGraph *g, GmValueId v);
/* tangents: per result but the ticket, in `to`, or GM_NO_ID; result[k]: of operand k. */
bool gm_host_call_differentiate (const GmGraph *g, const GmNode *n, GmGraph *to, const GmValueId *tangents, GmVal *const grad,
                                 GmValueId *result, GError **error);
/* result[k] is then the whole sum: grad[n->in[k]] is in it. */
bool gm_host_call_goes_on (const struct GmHigher *h, const GmNode *n, uint32_t k, GmVal *const grad);
/* A call on the tape; out: per result but the ticket, NULL where gradients do not arrive. */
void gm_host_call_attach (struct GmHigher *h, GmTensor *ticket, GmTensor *const *in, uint32_t n_in, GmTensor **out, uint64_t seq);
/* A call that was made over `leaves`, which stand for `in`, and whose results have a history: out are these, new tensors, and the
 * history goes on in that of `in`, as a node of the tape. */
void gm_host_call_tie (GmTensor *const *leaves, GmTensor *const *in, uint32_t n_in, GmTensor *const *results, uint32_t n_results, GmTensor **out);
/* The hook that node i puts on the gradient of v, if it is one and was not taken off: by another one on it, without a function. */
const struct GmHigher *gm_gradient_hook_on (const GmGraph *g, uint32_t i, GmValueId v);
bool gm_gradient_hooks_any (const GmGraph *g);
/* The gradient after the hook, in a backward. */
GmValueId gm_gradient_hook_add (GmGraph *to, const struct GmHigher *hook, GmValueId grad, const char *where, GError **error);
void gm_gradient_hook_register (const struct GmHigher *hook, GmTensor *t);
/* Whether this row of a backward calls a hook. */
bool gm_gradient_hook_is (const struct GmHigher *h);
/* A hook of the tape (GmTensorHook) whose data is the GmHostFunction. */
GmTensor *gm_gradient_hook_call (void *data, GmTensor *grad, GError **error);

/* higher_tape.c: runs the call that node n of a recorded graph belongs to, with history if gradients are on; out: a new reference
 * for each result. */
bool gm_higher_call (const GmGraph *g, const GmNode *n, GmTensor *const *in, GmTensor **out, GError **error);
/* A node of the tape for a call (seq 0: the newest).  in: operands with their history; out: fresh results, NULL where
 * one requires no grad or is not wanted. */
void gm_higher_attach (struct GmHigher *h, GmTensor *const *in, uint32_t n_in, GmTensor **out, uint32_t n_out, uint64_t seq);

/* The same, walked: a function whose first node is n, at the place `seq` of the tape (0: the newest). */
typedef struct {
  const GmGraph *g;
  const GmNode *n;
  GmTensor *const *args;     /* per argument that gets a gradient: with its history */
  GmTensor *const *captured; /* per captured value: with its history ... */
  const int *result_of;      /* ... but where it is that result: without; else -1 */
  GmTensor *const *outs;     /* per result: gets its history; NULL: nothing arrives there */
  bool lost; /* the histories of `captured` are not complete: no second derivative */
} GmCustomCall;
void gm_custom_attach (const GmCustomCall *call, uint64_t seq);
/* Returns the number of the result that value k is, of those which the gradient of n's function reads beside gradients; or -1.  Nodes do
 * not tell: that of a result which nobody reads is dead, and another value may have become one with a result's. */
int gm_custom_result_of (const GmGraph *g, const GmNode *n, uint32_t k);
/* Returns what node n gives when a graph runs node by node: a new reference to its first operand's elements, with a history if
 * gradients are on and an argument requires grad.  The function is one node of the tape, made for the first of its results.
 * given: by value, NULL at the beginning; holds the places of the other results in that node until their nodes run. */
GmTensor *gm_custom_run (const GmGraph *g, const GmNode *n, GmTensor *const *in, GmTensor **given);

/* The graph without MUTATE nodes.  `differentiate` false: nothing requires grad any more.
 * Errors: GM_ERROR_UNSUPPORTED for a write that has no functional form (through an expand;
 * through a detach or with gradients off to what takes part in the gradient and is no input, or is
 * read afterwards; to a constant),
 * naming the line.  elsewhere: inputs whose new contents another layer gives out; NULL for none. */
GmGraph *gm_functionalize (const GmGraph *g, bool differentiate, const bool *elsewhere,
                           GmArena *arena, GmFunctionalLayer *layer, GError **error);
/* Copies what was computed for the mutated inputs into them, with history. */
bool gm_functionalize_write_back (const GmFunctionalLayer *layer, GmTensor *const *inputs,
                                  GmTensor *const *inner, GError **error);

/* -- All layers (layers.c) --------------------------------------------------------------------- */

typedef struct {
  uint32_t input;
  uint32_t step; /* it comes before that one */
} GmInputLook;

typedef struct {
  bool has_metadata, has_dedupe, has_bases; /* the other two always are */
  bool differentiate;
  GmMetadataLayer metadata;
  GmDedupeLayer dedupe;
  GmAliasLayer alias;
  GmBaseLayer bases;
  GmFunctionalLayer functional;
  uint32_t n_inputs, n_outputs; /* the caller's */
  const GmMeta *inputs;
  uint32_t n_looks;
  const GmInputLook *looks; /* at the caller's inputs, the first at each, in their order */
  uint32_t n_overlaps;
  const GmOverlap *overlaps; /* numbered as the caller's inputs are */
} GmLayers;

/* From a recorded graph to a functional one.  Debug builds derive what is true of each layer's
 * result once more from the graph (facts.c) and compare. */
GmGraph *gm_layers_apply (const GmGraph *g, bool differentiate, GmArena *arena, GmLayers *layers,
                          GError **error);

/* -- Joint graph (join.c) ---------------------------------------------------------------------- */

/* Inputs: the function's, then one tangent per output that requires grad.  Outputs: the
 * function's, then the gradients (kind GRAD) of the inputs that require grad and that something
 * flows to. */
typedef struct {
  GmGraph *graph;
  uint32_t n_inputs, n_outputs, n_tangents, n_grads;
  uint32_t n_elements;           /* of the outputs, those that are no histories: the first ones */
  const GmInnerOutput *tangents; /* per tangent: the output it belongs to */
  const GmInnerInput *grads;     /* per gradient: the input it belongs to */
  const uint32_t *n_terms;       /* per gradient: of how many it is the sum */
} GmJoint;

bool gm_join (const GmGraph *functional, GmArena *arena, GmJoint *joint, GError **error);
/* The same for gradients of these metas, one per output that requires grad; dtype GM_N_DTYPES: none arrives.  For what metas the gradients get. */
bool gm_join_arrived (const GmGraph *functional, const GmMeta *arrived, GmArena *arena, GmJoint *joint, GError **error);
/* The same for a body of cond or its kin, whose gradients arrive together: zeros where there is none. */
bool gm_join_body (const GmGraph *functional, GmArena *arena, GmJoint *joint, GError **error);

/* -- Forward and backward (partition.c) -------------------------------------------------------- */

/* A value that the backward gets from the forward: input `index` as it is, or output `index` of
 * the forward graph. */
typedef struct { bool is_input; uint32_t index; } GmSavedValue;
/* A gradient: input `index` of the backward as it is (a tangent that passes through), or its
 * output `index`. */
typedef struct { bool is_input; uint32_t index; } GmGradSource;

typedef struct {
  GmGraph *forward;  /* outputs: the function's but histories, then what is saved (kind SAVED) */
  GmGraph *backward; /* inputs: saved values, then tangents; NULL: there are no gradients */
  uint32_t n_outputs, n_saved, n_tangents, n_grads;
  const GmSavedValue *saved;        /* the backward's inputs 0 .. n_saved */
  const uint32_t *tangents;    /* then these tangents of the joint graph, the ones that are read */
  const GmGradSource *sources; /* per gradient of the joint graph */
  const uint32_t *places; /* per value of the joint graph: which saved value it is, or GM_NO_ID */
  GmGraph *restore; /* what is saved is what hooks made of it (saved_hooks.h): from that to what
                       would be saved without them, which is what places means; NULL: no hooks */
} GmParts;

/* DEFAULT saves what the backward reads and computes nothing twice that costs arithmetic.  MIN_CUT
 * saves what weighs least and computes the rest again, if that is cheap; of what it would save, a
 * budget below 1 drops what is cheapest to compute again, down to nothing but inputs at 0.
 * BY_DEVICE: MIN_CUT on a GPU, where kernels wait for memory, else DEFAULT. */
typedef enum { GM_PARTITION_BY_DEVICE, GM_PARTITION_DEFAULT, GM_PARTITION_MIN_CUT } GmPartitionMode;
typedef struct { GmPartitionMode mode; double memory_budget; /* 0 to 1 */ } GmPartitionOptions;

/* `writes`: which inputs are overwritten after the forward, so that they cannot be saved as
 * they are; NULL for none.  `options`: NULL for { DEFAULT, 1 }, whatever the device.  The bits of all outputs and
 * gradients are the same for all options and tags. */
bool gm_partition (const GmJoint *joint, const GmFunctionalLayer *writes,
                   const GmPartitionOptions *options, GmArena *arena, GmParts *parts,
                   GError **error);
/* Bytes that the forward allocates for the backward alone: its outputs of kind SAVED. */
uint64_t gm_partition_saved_bytes (const GmParts *parts);

#endif
