/* SPDX-License-Identifier: Apache-2.0
 * aot.h -- from a recorded graph to a forward and a backward that a back end can compile.
 *
 * A recorded graph may hold views, in-place writes and tensors that change their shape, its inputs
 * may share memory, and so may its outputs.  Back ends see none of that: layers remove it, one file
 * each, with two halves that stand together, the rewrite of the graph before compilation and the
 * shim around every call.  gm_layers_apply (layers.c) runs the graph halves, a plan the others.
 * From the outside in:
 *
 *   metadata        tensors that change shape or memory in place (t_, set_) do so at the end
 *   dedupe          a tensor that is passed twice becomes one input
 *   output_alias    outputs that are views or inputs are not computed: the view is taken again
 *   synthetic_base  inputs that overlap where one is written become one input, their base
 *   functionalize   in-place writes become values; written inputs become extra outputs
 *   (the back end's graph)
 *
 * No layer knows what another layer adds.  Assumptions about the memory of the caller's inputs that
 * a decision rests on are recorded (GmOverlap) for the front end, which guards them.
 *
 * After the layers, join differentiates the functional graph and partition cuts the result in two
 * (choose_saved.c, mincut.c and budget.c decide where).  Each stage reads a graph, leaves it alone
 * and builds a new one in `arena`; results live as long as the arena.  gm_plan_new (plan.h) copies
 * what is needed at run time.
 * Threads: one at a time per arena.
 */
#ifndef GM_AOT_AOT_H
#define GM_AOT_AOT_H

#include "core/aot/read_order.h"
#include "core/graph/graph.h"

/* Positions, as seen by a layer: outer ones are those towards the caller, inner ones those towards
 * the back end.  They are different types, so that a shim which mixes them does not compile. */
typedef struct {
  uint32_t i;
} GmOuterInput;
typedef struct {
  uint32_t i;
} GmInnerInput;
typedef struct {
  uint32_t i;
} GmOuterOutput;
typedef struct {
  uint32_t i;
} GmInnerOutput;

/* -- Assumptions about memory (overlap.c) ------------------------------------------------------ */

/* A fact about the memory of two of the caller's inputs, a and b. */
typedef enum {
  GM_OVERLAP_SAME,     /* a and b are one tensor */
  GM_OVERLAP_DISTINCT, /* a and b are two tensors, wherever their memory is */
  GM_OVERLAP_APART,    /* a and b have no byte in common */
  GM_OVERLAP_AT,   /* a and b share a storage; b's first element is `offset` elements after a's */
  GM_OVERLAP_VIEW, /* b is a view of a, as autograd sees it, at `offset` */
  GM_OVERLAP_BASE, /* a == b: the input is a view of a tensor like `base`, at `offset` */
  GM_OVERLAP_NO_VIEW,  /* a == b: the input is no view, as autograd sees it */
  GM_OVERLAP_ONE_BASE, /* a and b are views of one tensor */
  GM_OVERLAP_MADE,     /* the history of b was made after that of a: gradients are added in the
                        * opposite order */
} GmOverlapKind;

typedef struct {
  GmOverlapKind kind;
  GmOuterInput a, b;
  int64_t offset;
  GmMeta base;
} GmOverlap;

/* True if the fact `o` holds for the caller's inputs, one tensor per input of the graph.  Does not
 * check that their metas are those of the graph. */
bool gm_overlap_holds (const GmOverlap *o, GmTensor *const *inputs);
/* Returns the fact as text, such as "inputs 0 and 2 have no byte in common"; the caller frees the
 * string. */
char *gm_overlap_text (const GmOverlap *o);
void gm_overlap_add (GArray *overlaps, GmOverlapKind kind, GmOuterInput a, GmOuterInput b,
                     int64_t offset, const GmMeta *base);

/* Stores in g all that is known about the memory of its inputs (one tensor per input, NULL:
 * unknown), so that the compilation relies on it.  Also stores the order of the first reads of
 * inputs by g's nodes, unless an order was stored before (read_order.h). */
void gm_overlap_describe (GmGraph *g, GmTensor *const *inputs);

/* -- Strided views as geometry (stride_overlap.c) ---------------------------------------------- */

/* True if tensor b, whose first element is `distance` elements after a's, has an element in common
 * with a.  The answer is exact, unless that takes too long: then it is true. */
bool gm_stride_overlap (const GmMeta *a, const GmMeta *b, int64_t distance);

/* -- Values that are the same memory (views.c) ------------------------------------------------- */

/* Returns the tensor object that `v` stands for: an in-place write returns its first operand, so
 * such a result stands for the same object as the operand; every other value stands for itself. */
GmValueId gm_views_object (const GmGraph *g, GmValueId v);
/* Returns the object that `v` is directly a view of (not the root), or GM_NO_ID if `v` owns its
 * memory. */
GmValueId gm_views_parent (const GmGraph *g, GmValueId v);
/* Returns the object that owns the memory of `v`: an input, or the result of a node that is neither
 * a view nor a write. */
GmValueId gm_views_root (const GmGraph *g, GmValueId v);
/* Returns the object whose version is advanced by writes to `v`: the root of `v`, or the x.data
 * that `v` is a view of. */
GmValueId gm_views_counter (const GmGraph *g, GmValueId v);
/* True if n ran while gradients were off: an operand requires grad and the result could require
 * grad, but does not. */
bool gm_views_no_grad (const GmGraph *g, const GmNode *n);

/* -- Building a graph out of another (copy.c) -------------------------------------------------- */

/* Appends node n of `from` to `to`.  map[id] is the id in `to` of value `id` of `from`; NULL: the
 * ids are the same.  Returns the id of the result, GM_NO_ID on error. */
GmValueId gm_copy_node (GmGraph *to, const GmGraph *from, const GmNode *n, const GmValueId *map,
                        GError **error);
/* Appends all inputs and nodes of `from` to the empty graph `to`, under the same ids, but no
 * outputs.  False with *error set if a node is refused. */
bool gm_copy_values (GmGraph *to, const GmGraph *from, GError **error);
/* Appends all nodes of `from` to `to`.  map[id] is the id in `to` of value `id` of `from`: the
 * caller sets it for inputs, the function for results.  Values that require grad in `from` do so in
 * `to`. */
bool gm_copy_nodes (GmGraph *to, const GmGraph *from, GmValueId *map, GError **error);
/* The sizes of one graph, expressed in terms of the sizes of the inputs that it is given inside of
 * another graph. */
typedef struct GmCopySizes GmCopySizes;
/* Makes the sizes in `arena`.  `inputs`: per input of `from` the meta that it is given, or NULL for
 * an input whose sizes are not to be read.  These metas are expressions of the thread's current
 * sizes, which learn the facts that `from` relies on.  Returns NULL if such a fact does not hold,
 * or is about a size that no meta has. */
const GmCopySizes *gm_copy_sizes_new (const GmGraph *from, const GmMeta *const *inputs,
                                      GmArena *arena);
/* Sets *out to the attributes `attrs` of a node of `from`, in terms of the given inputs.  Fails
 * with GM_ERROR_UNSUPPORTED if they read a size that no meta has. */
bool gm_copy_attrs (const GmCopySizes *s, const GmAttrs *attrs, GmAttrs *out, GError **error);
/* Returns the name `stem` and `number` as one word, such as "tangent0", with underscores between
 * them while an input of g has that name.  Owned by g's arena. */
const char *gm_copy_fresh_name (const GmGraph *g, const char *stem, uint32_t number);

/* -- Layer: tensors that change shape or memory (metadata.c) ----------------------------------- */

/* An object that has become another tensor by the end of the function: the caller's tensor is
 * changed after the call. */
typedef struct {
  bool is_input;
  GmOuterInput input;   /* is_input: the object is this input */
  GmInnerOutput object; /* otherwise: the object is this output */
  GmInnerOutput becomes;
  uint32_t node; /* of the recorded graph: the set_ */
} GmRenamed;

/* Memory whose version has to be advanced after the call, because a change of shape advanced it and
 * has no other effect. */
typedef struct {
  bool is_input;
  GmOuterInput input;   /* is_input: the memory is that of this input */
  GmInnerOutput output; /* otherwise: the memory is that of this output */
} GmTouched;

typedef struct {
  uint32_t n_outer, n_inner; /* outputs */
  uint32_t n_renamed, n_touched;
  const GmRenamed *renamed; /* in the order in which they have to be done */
  const GmTouched *touched;
} GmMetadataLayer;

bool gm_metadata_applies (const GmGraph *g);
/* Returns the graph without set_: later uses of a changed tensor become uses of the tensor that it
 * has become.  Inner outputs are the outer ones, then the tensors that objects become.  Fails with
 * GM_ERROR_UNSUPPORTED where set_ ran with gradients off, or would move a history to other
 * memory. */
GmGraph *gm_metadata (const GmGraph *g, GmArena *arena, GmMetadataLayer *layer, GArray *overlaps,
                      GError **error);
/* Fills `outer` with the function's outputs, stealing the references in `inner`, then changes each
 * renamed object into the tensor that it has become. */
bool gm_metadata_leave (const GmMetadataLayer *layer, GmTensor *const *inputs, GmTensor **inner,
                        GmTensor **outer, GError **error);

/* -- Layer: a tensor passed twice (dedupe.c) --------------------------------------------------- */

typedef struct {
  uint32_t n_outer, n_inner; /* inputs */
  const GmOuterInput *from;  /* per inner input: the first outer input that is the same tensor */
} GmDedupeLayer;

bool gm_dedupe_applies (const GmGraph *g);
GmGraph *gm_dedupe (const GmGraph *g, GmArena *arena, GmDedupeLayer *layer, GArray *overlaps,
                    GError **error);
void gm_dedupe_enter (const GmDedupeLayer *layer, GmTensor *const *outer, GmTensor **inner);

/* -- Layer: outputs that are views (output_alias.c) -------------------------------------------- */

/* The histories of tensors that take part in the compiled function without being outputs.  The
 * gradient of such a tensor goes to an extra output of the function's node, if there is such a
 * node. */
typedef struct GmAgNode GmAgNode;
typedef struct {
  GmAgNode *node;      /* the tape's node for the function; NULL: a call without gradients */
  const int *of;       /* per history of the layers: the number of its output of the node, or -1:
                        * none */
  const uint8_t *late; /* GmLate, per history without an output */
  uint32_t n;
  const uint32_t *looks;  /* numbers of all histories, in the order in which the program read
                           * their tensors last */
  GmTensor **looked;      /* per history: the tensor that gm_histories_look refreshes; owned */
  uint64_t first, every;  /* the sequence number of the function's first operation on the tape, and
                           * its distance from the next operation's */
  const uint32_t *places; /* per history: the number of the operation that takes the view;
                           * NULL: unknown */
} GmHistories;

/* Refreshes the views in h->looked, which the function read after their base was written to, in the
 * order of these reads: gradients are added in that order. */
void gm_histories_look (const GmHistories *h);

/* The time at which eager gives a view its new history, if its base was written to after the view
 * was taken.  LATER: at a refresh after the call.  NOW: as soon as the call is over, because the
 * function has refreshed the view itself. */
typedef enum { GM_LATE_NEVER, GM_LATE_LATER, GM_LATE_NOW } GmLate;

/* A view that is taken again at run time.  Slots number the real tensors of a call: first all
 * inputs, then all inner outputs, then the result of each GmReplay. */
typedef struct {
  GmOp op;
  bool no_grad;      /* true: the view was taken while gradients were off */
  uint32_t history;  /* the number of the view's history among the histories, or GM_NO_ID */
  uint32_t slot;     /* the slot of the tensor that the view is taken of */
  uint32_t n_writes; /* of x.data: number of writes by the function; else 0 */
  GmAttrs attrs;
} GmReplay;

typedef struct {
  uint32_t n_inputs, n_inner, n_outer, n_replays, n_histories;
  const GmReplay *replays; /* replay k fills slot n_inputs + n_inner + k */
  const uint32_t *slots;   /* per outer output: the slot that it is returned from */
} GmAliasLayer;

/* Returns the graph whose outputs are roots alone (tensors that own their memory), each once and
 * never an input, followed by histories: the views that are outputs of g.  A root that the caller
 * can only reach through a detach becomes a detached output, so that no gradient is computed for
 * it. */
GmGraph *gm_output_alias (const GmGraph *g, GmArena *arena, GmAliasLayer *layer, GError **error);
/* Sets outer[i] to a new reference for each outer output: an input, an inner output, or a view of
 * one of them.  Views are taken with gm_autograd_op, so that storage, strides, base and history are
 * those of the plain program.  On error `outer` holds no references. */
bool gm_output_alias_replay (const GmAliasLayer *layer, GmTensor *const *inputs,
                             GmTensor *const *inner, const GmHistories *histories, GmTensor **outer,
                             GError **error);

/* -- Layer: inputs that overlap (base_plan.c, synthetic_base.c) -------------------------------- */

typedef enum {
  GM_BASE_CALLER, /* the base is the tensor that is passed */
  GM_BASE_OF,     /* the base is the base of the tensor that is passed */
  GM_BASE_RAW,    /* the base is memory as one dimension, from `offset` elements after the tensor
                   * that is passed */
} GmBaseKind;

/* The tensor that an inner input is made of. */
typedef struct {
  GmBaseKind kind;
  GmOuterInput input;
  int64_t offset;
  GmMeta meta; /* RAW: meta of the inner input */
} GmBaseSource;

/* An outer input whose new contents are copied back by a copy of its own, not with all of the
 * base. */
typedef struct {
  GmOuterInput target;
  GmInnerOutput contents;
} GmPiece;

/* A tensor that may get a new history after the call: a base of which pieces are written, or an
 * outer input that is a view of the base. */
typedef struct {
  bool is_base;
  uint32_t index; /* of the inner input (a base), else of the outer input */
} GmBaseHistory;

typedef struct {
  uint32_t n_outer, n_inner, n_bases;  /* inputs: bases, then the others, in order of appearance */
  uint32_t n_outputs, n_pieces;        /* inner outputs are the outer ones, then one per piece */
  uint32_t n_histories, first_history; /* n_histories: the outer ones, then those of this
                                        * layer, from first_history on */
  const GmBaseHistory *histories;
  const GmBaseSource *sources; /* n_inner */
  const GmPiece *pieces;
  const uint32_t *first;     /* inner input i is made of the outer inputs outer[first[i]] to
                              * outer[first[i + 1] - 1] */
  const GmOuterInput *outer; /* each outer input once */
  const bool *in_pieces;     /* per inner input: its new contents are output in pieces, one per
                              * written outer input */
} GmBaseLayer;

/* Decides which inputs have to be merged into bases, and appends the facts that this rests on to
 * `overlaps`.  Returns NULL if no inputs are merged, or on error. */
typedef struct GmBasePlan GmBasePlan;
GmBasePlan *gm_synthetic_base_plan (const GmGraph *g, bool differentiate, GmArena *arena,
                                    GArray *overlaps, GError **error);
/* Returns the graph over bases, in which the merged inputs are views of their bases.  Fails with
 * GM_ERROR_UNSUPPORTED where the inputs have no common base to differentiate, or no common
 * dtype. */
GmGraph *gm_synthetic_base (const GmGraph *g, const GmBasePlan *plan, GmArena *arena,
                            GmBaseLayer *layer, GError **error);
/* Fills `inner` with the inner inputs of a call.  The first n_bases are new references that the
 * caller drops, all others are borrowed from `outer`. */
void gm_synthetic_base_enter (const GmBaseLayer *layer, GmTensor *const *outer, GmTensor **inner);
/* Copies written pieces into the outer inputs that they belong to, then gives bases and views of
 * bases their new histories.  `inner`: as gm_synthetic_base_enter filled it. */
bool gm_synthetic_base_leave (const GmBaseLayer *layer, GmTensor *const *outer,
                              GmTensor *const *inner, GmTensor *const *inner_outputs,
                              const GmHistories *histories, GError **error);

/* -- Layer: in-place writes (functionalize.c) -------------------------------------------------- */

/* An input that the function writes to.  `output` is the inner output with its new contents, or
 * GM_NO_ID: another layer outputs them.  `n_writes`: number of writes by the plain program, each of
 * which advances the version. */
typedef struct {
  GmInnerInput input;
  GmInnerOutput output;
  uint32_t n_writes;
  bool no_grad; /* the elements change, the history does not */
} GmMutation;

typedef struct {
  uint32_t n_outer, n_mutations;  /* inner outputs are the outer ones, then those of mutations */
  uint32_t n_histories;           /* of the outer graph */
  const GmInnerOutput *histories; /* their inner outputs; GM_NO_ID: the history is made
                                   * after the call ... */
  const uint8_t *late;            /* ... per outer history: GmLate */
  const uint32_t *looks;       /* numbers of all histories, in the order in which the program read
                                * their tensors last */
  const uint32_t *places;      /* per history: the node that takes the view, or GM_NO_ID */
  const uint32_t *taken;       /* per history of a view: the node that took the view first, before
                                * any write, or GM_NO_ID */
  const GmMutation *mutations; /* in the order of the inputs */
  const uint32_t *n_writes;    /* per outer output: number of writes by the plain program; NULL:
                                * none */
} GmFunctionalLayer;

/* custom_gradient.c: custom functions, which define their own gradient (autograd.Function).  True
 * if node i is the first `custom` node of its function, where join computes that gradient, and a
 * gradient has been accumulated for a result of the function. */
bool gm_custom_is_next (const GmGraph *g, uint32_t i, GmVal *const grad);
/* True if the gradients that belong to custom functions of g fail for some strides of the gradients
 * that they are given. */
bool gm_custom_reads_strides (const GmGraph *g);
/* Sets result[k] to the gradient of argument k of the custom function whose first node is i.  grad:
 * per value of g, its gradient so far, NULL for none. */
void gm_custom_differentiate (const GmGraph *g, uint32_t i, GmBuilder *b, GmVal *const grad,
                              GmVal *result);

/* higher_stages.c: operators with bodies, such as cond.  Makes the bodies of g's calls functional,
 * in a table that g gets for itself.  Fails with GM_ERROR_UNSUPPORTED for a write to a tensor that
 * was made outside of the body. */
bool gm_higher_prepare (GmGraph *g, bool differentiate, GError **error);
/* True if there is no second derivative, because a body contains such a function or a host
 * function. */
bool gm_higher_is_once (const GmHigher *h);
/* Replaces the custom functions in g's bodies by the operations that they consist of; called when
 * nothing will be differentiated any more. */
void gm_higher_drop_customs (GmGraph *g);
/* True if node i is the first node of its call, and a gradient has been accumulated for one of the
 * call's results. */
bool gm_higher_is_next (const GmGraph *g, uint32_t i, GmVal *const grad);
/* Appends the gradient of the call whose first node is i to `to`, which has the values of g under
 * their ids.  grad: per value of g, its gradient so far, NULL for none.  Sets result[k] to the
 * gradient of operand k, or GM_NO_ID. */
bool gm_higher_differentiate (const GmGraph *g, uint32_t i, GmGraph *to, GmVal *const grad,
                              GmValueId *result, GError **error);

/* host_gradient.c: host functions, which a graph calls.  In stage f: decides how calls of h run,
 * and whether they keep a history for their backward. */
void gm_host_call_prepare (struct GmHigher *h, bool differentiate);
/* Returns the ticket of the call that n is a result of: the value whose memory owns the call's
 * history.  GM_NO_ID: the call has none, as none of its results has a gradient. */
GmValueId gm_host_call_ticket (const GmGraph *g, const GmNode *n);
bool gm_host_call_is_ticket (const GmGraph *g, GmValueId v);
/* Appends the gradient of a call of a host function to `to`.  tangents: per result but the ticket,
 * its gradient in `to`, or GM_NO_ID.  Sets result[k] to the gradient of operand k. */
bool gm_host_call_differentiate (const GmGraph *g, const GmNode *n, GmGraph *to,
                                 const GmValueId *tangents, GmVal *const grad, GmValueId *result,
                                 GError **error);
/* True if result[k] of gm_host_call_differentiate is the whole sum, which includes the former
 * gradient grad[n->in[k]], so that the two must not be added. */
bool gm_host_call_goes_on (const struct GmHigher *h, const GmNode *n, uint32_t k,
                           GmVal *const grad);
/* Attaches a call of a host function to the tape, at sequence number `seq`.  out: per result but
 * the ticket, the tensor that gets the history, or NULL if it needs no gradient. */
void gm_host_call_attach (struct GmHigher *h, GmTensor *ticket, GmTensor *const *in, uint32_t n_in,
                          GmTensor **out, uint64_t seq);
/* Joins a host function's history, recorded over the leaves `leaves` that stand for the tensors
 * `in`, to the tape: as one node whose gradients go on into the history of `in`.  out: a new tensor
 * with that history for each of `results`. */
void gm_host_call_tie (GmTensor *const *leaves, GmTensor *const *in, uint32_t n_in,
                       GmTensor *const *results, uint32_t n_results, GmTensor **out);
/* Returns the hook that node i registers on the gradient of v.  NULL: i is no such node, or another
 * such node, without a function, has removed the hook. */
const struct GmHigher *gm_gradient_hook_on (const GmGraph *g, uint32_t i, GmValueId v);
bool gm_gradient_hooks_any (const GmGraph *g);
/* Appends a call of the hook to the backward graph `to`, with the value `grad`, and returns the
 * gradient that the hook returns. */
GmValueId gm_gradient_hook_add (GmGraph *to, const struct GmHigher *hook, GmValueId grad,
                                const char *where, GError **error);
void gm_gradient_hook_register (const struct GmHigher *hook, GmTensor *t);
/* True if calls of h, in a backward, are calls of a gradient hook. */
bool gm_gradient_hook_is (const struct GmHigher *h);
/* Calls the gradient hook `data`, a GmHostFunction, for a tensor on the tape: a GmTensorHook. */
GmTensor *gm_gradient_hook_call (void *data, GmTensor *grad, GError **error);

/* higher_tape.c: runs the call that node n of a recorded graph is a result of, recording it if
 * gradients are on.  out: a new reference for each result. */
bool gm_higher_call (const GmGraph *g, const GmNode *n, GmTensor *const *in, GmTensor **out,
                     GError **error);
/* Attaches a call to the tape as one node, at sequence number `seq` (0: the newest).  in: operands
 * with their history.  out: the call's new results, NULL where a result requires no grad or is not
 * wanted. */
void gm_higher_attach (struct GmHigher *h, GmTensor *const *in, uint32_t n_in, GmTensor **out,
                       uint32_t n_out, uint64_t seq);

/* The arguments for attaching a custom function, whose first node is n, to the tape. */
typedef struct {
  const GmGraph *g;
  const GmNode *n;
  GmTensor *const *args;     /* per argument that gets a gradient: the tensor with its history */
  GmTensor *const *captured; /* per captured value: the tensor, with its history ... */
  const int *result_of;      /* ... but without a history, if it is this result of the function; -1:
                              * it is no result */
  GmTensor *const *outs;     /* per result: the tensor that gets its history; NULL: the result
                              * needs no gradient */
  bool lost; /* the histories of `captured` are incomplete, so a second derivative is refused */
} GmCustomCall;
void gm_custom_attach (const GmCustomCall *call, uint64_t seq);
/* Returns which result of n's function its captured value k is, or -1.  Captured are the values
 * that the function's gradient reads besides the arriving gradients.  The nodes alone do not tell:
 * a result without readers is removed as dead, and another value may have been merged with a
 * result. */
int gm_custom_result_of (const GmGraph *g, const GmNode *n, uint32_t k);
/* Runs node n of a custom function in a graph that is run node by node.  Returns a new reference to
 * the elements of its first operand, with a history if gradients are on and an argument requires
 * grad.  All results are outputs of one node of the tape, which is made when the first of them
 * runs.  given: per value, all NULL at the beginning; owns placeholders for the other results until
 * their nodes run. */
GmTensor *gm_custom_run (const GmGraph *g, const GmNode *n, GmTensor *const *in, GmTensor **given);

/* Returns the graph without MUTATE nodes.  `differentiate` false: nothing requires grad any more.
 * `elsewhere`: per input, true if another layer outputs its new contents; NULL for none.  Fails
 * with GM_ERROR_UNSUPPORTED, naming the line, for a write that has no functional form: through an
 * expand; to a constant; or through a detach or with gradients off, to a tensor that takes part in
 * the gradient and is no input, or is read afterwards. */
GmGraph *gm_functionalize (const GmGraph *g, bool differentiate, const bool *elsewhere,
                           GmArena *arena, GmFunctionalLayer *layer, GError **error);
/* Copies the computed contents of the mutated inputs into them, recorded on the tape where the
 * plain program's writes were. */
bool gm_functionalize_write_back (const GmFunctionalLayer *layer, GmTensor *const *inputs,
                                  GmTensor *const *inner, GError **error);

/* -- All layers (layers.c) --------------------------------------------------------------------- */

typedef struct {
  uint32_t input;
  uint32_t step; /* the node before which the input is read */
} GmInputLook;

typedef struct {
  bool has_metadata, has_dedupe, has_bases; /* the other two layers are always there */
  bool differentiate;
  GmMetadataLayer metadata;
  GmDedupeLayer dedupe;
  GmAliasLayer alias;
  GmBaseLayer bases;
  GmFunctionalLayer functional;
  uint32_t n_inputs, n_outputs; /* the caller's */
  const GmMeta *inputs;
  uint32_t n_looks;
  const GmInputLook *looks; /* the first read of each of the caller's inputs, in the order of
                             * the reads */
  uint32_t n_overlaps;
  const GmOverlap *overlaps; /* numbered like the caller's inputs */
} GmLayers;

/* Rewrites a recorded graph to a functional graph, by all layers.  Debug builds derive the facts
 * about each layer's result a second time, from the graph (layer_facts.c), and compare. */
GmGraph *gm_layers_apply (const GmGraph *g, bool differentiate, GmArena *arena, GmLayers *layers,
                          GError **error);

/* -- Joint graph (join.c) ---------------------------------------------------------------------- */

/* A function with its gradient.  Inputs: the function's, then one tangent per output that requires
 * grad.  Outputs: the function's, then the gradients (kind GRAD) of the inputs that require grad
 * and that a gradient flows to. */
typedef struct {
  GmGraph *graph;
  uint32_t n_inputs, n_outputs, n_tangents, n_grads;
  uint32_t n_elements;           /* number of outputs that are no histories: the first ones */
  const GmInnerOutput *tangents; /* per tangent: its output */
  const GmInnerInput *grads;     /* per gradient: its input */
  const uint32_t *n_terms;       /* per gradient: number of terms in its sum */
} GmJoint;

bool gm_join (const GmGraph *functional, GmArena *arena, GmJoint *joint, GError **error);
/* Makes the joint graph for arriving gradients with the metas `arrived`, one per output that
 * requires grad (dtype GM_N_DTYPES: none arrives there), which determine the metas of the gradients
 * that the graph returns. */
bool gm_join_arrived (const GmGraph *functional, const GmMeta *arrived, GmArena *arena,
                      GmJoint *joint, GError **error);
/* Makes the joint graph of a body of cond or of a similar operator: gradients arrive at all
 * outputs, zeros where there is none. */
bool gm_join_body (const GmGraph *functional, GmArena *arena, GmJoint *joint, GError **error);

/* -- Forward and backward (partition.c) -------------------------------------------------------- */

/* A value that the forward saves for the backward: its input `index`, as it is, or its output
 * `index`. */
typedef struct {
  bool is_input;
  uint32_t index;
} GmSavedValue;
/* The place of a gradient: input `index` of the backward (a tangent that passes through), or output
 * `index` of the backward. */
typedef struct {
  bool is_input;
  uint32_t index;
} GmGradSource;

typedef struct {
  GmGraph *forward;  /* outputs: the function's but histories, then saved values (kind SAVED) */
  GmGraph *backward; /* inputs: saved values, then tangents; NULL: there are no gradients */
  uint32_t n_outputs, n_saved, n_tangents, n_grads;
  const GmSavedValue *saved;   /* the backward's inputs 0 .. n_saved */
  const uint32_t *tangents;    /* then these tangents of the joint graph, which the backward
                                * reads */
  const GmGradSource *sources; /* per gradient of the joint graph */
  const uint32_t *places;      /* per value of the joint graph: the number of the saved value that
                                * it is, or GM_NO_ID */
  GmGraph *restore;            /* set where saved-tensor hooks are nodes of the graphs
                                * (saved_hooks.h): computes, from the values that are saved, those
                                * that would be saved without hooks, to which `places` refers; NULL:
                                * no hooks */
} GmParts;

/* The choice of what to save.  DEFAULT saves what the backward reads and recomputes nothing that
 * costs arithmetic.  MIN_CUT saves the values of least weight and recomputes the rest, if that is
 * cheap; a memory budget below 1 drops those of the saved values that are cheapest to recompute,
 * and at 0 saves nothing but inputs.  BY_DEVICE is MIN_CUT on a GPU, where kernels wait for memory,
 * else DEFAULT. */
typedef enum { GM_PARTITION_BY_DEVICE, GM_PARTITION_DEFAULT, GM_PARTITION_MIN_CUT } GmPartitionMode;
typedef struct {
  GmPartitionMode mode;
  double memory_budget; /* 0 to 1 */
} GmPartitionOptions;

/* Cuts the joint graph into forward and backward.  `writes` tells which inputs are overwritten
 * after the forward, so that they cannot be saved as they are; NULL for none.  `options`: NULL for
 * { DEFAULT, 1 }, whatever the device.  The bits of all outputs and gradients are the same for all
 * options and tags. */
bool gm_partition (const GmJoint *joint, const GmFunctionalLayer *writes,
                   const GmPartitionOptions *options, GmArena *arena, GmParts *parts,
                   GError **error);

#endif
