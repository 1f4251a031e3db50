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

/* Positions, as the layer at hand sees them: outer is towards the caller, inner towards the back
 * end.  They are different types, so that a shim which mixes them does not compile. */
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

/* A fact about two of the caller's inputs, a and b. */
typedef enum {
  GM_OVERLAP_SAME,     /* they are one tensor */
  GM_OVERLAP_DISTINCT, /* they are two tensors, wherever their memory is */
  GM_OVERLAP_APART,    /* they have no byte in common */
  GM_OVERLAP_AT,       /* one storage; b's first element is `offset` elements after a's */
  GM_OVERLAP_VIEW,     /* b is a view of a, as autograd sees it, at `offset` */
  GM_OVERLAP_BASE,     /* a == b: it is a view of a tensor like `base`, at `offset` */
  GM_OVERLAP_NO_VIEW,  /* a == b: it is no view, as autograd sees it */
  GM_OVERLAP_ONE_BASE, /* they are views of one tensor */
  GM_OVERLAP_MADE,     /* the history of b was made after that of a: gradients are added in the
                        * opposite order */
} GmOverlapKind;

typedef struct {
  GmOverlapKind kind;
  GmOuterInput a, b;
  int64_t offset;
  GmMeta base;
} GmOverlap;

/* True if the fact holds for the caller's inputs.  Does not check that their metas are those of the
 * graph. */
bool gm_overlap_holds (const GmOverlap *o, GmTensor *const *inputs);
/* Returns the fact as text: "inputs 0 and 2 have no byte in common"; caller frees. */
char *gm_overlap_text (const GmOverlap *o);
void gm_overlap_add (GArray *overlaps, GmOverlapKind kind, GmOuterInput a, GmOuterInput b,
                     int64_t offset, const GmMeta *base);

/* Writes the known facts about the memory of these inputs, one per input of g (NULL: unknown), into
 * g: from then on the graph is for inputs like them.  If no looks were noted (read_order.h), notes
 * those of g's nodes. */
void gm_overlap_describe (GmGraph *g, GmTensor *const *inputs);

/* -- Strided views as geometry (stride_overlap.c) ---------------------------------------------- */

/* True if b, whose first element is `distance` elements after a's, has an element in common with
 * a.  Exact, unless that takes too long: then true. */
bool gm_stride_overlap (const GmMeta *a, const GmMeta *b, int64_t distance);

/* -- Values that are the same memory (views.c) ------------------------------------------------- */

/* Returns the tensor object that `v` is: the result of an in-place write is its first operand,
 * every other value is itself. */
GmValueId gm_views_object (const GmGraph *g, GmValueId v);
/* Returns the object that `v` is directly a view of, or GM_NO_ID if `v` owns its memory. */
GmValueId gm_views_parent (const GmGraph *g, GmValueId v);
/* Returns the object that owns the memory of `v`: an input, or the result of a node that is neither
 * a view nor a write. */
GmValueId gm_views_root (const GmGraph *g, GmValueId v);
/* Returns the object whose version counts writes to `v`: its root, or the x.data that it is a view
 * of. */
GmValueId gm_views_counter (const GmGraph *g, GmValueId v);
/* True if n ran while gradients were off: an operand requires grad, the result could, and does
 * not. */
bool gm_views_no_grad (const GmGraph *g, const GmNode *n);

/* -- Building a graph out of another (copy.c) -------------------------------------------------- */

/* Adds node n of `from` to `to`; map[id]: the id in `to` of each operand, NULL if they are the
 * same.  Returns the new id, GM_NO_ID on error. */
GmValueId gm_copy_node (GmGraph *to, const GmGraph *from, const GmNode *n, const GmValueId *map,
                        GError **error);
/* Adds all inputs and nodes of `from` to the empty graph `to`, under the same ids.  No outputs. */
bool gm_copy_values (GmGraph *to, const GmGraph *from, GError **error);
/* Adds all nodes of `from` to `to`; map has its inputs, and gets the results.  Values that require
 * grad do so in `to`, as recorded. */
bool gm_copy_nodes (GmGraph *to, const GmGraph *from, GmValueId *map, GError **error);
/* The sizes of a graph in terms of those of the inputs that it gets in another one. */
typedef struct GmCopySizes GmCopySizes;
/* Makes them in `arena`.  inputs: the metas by input of `from`, NULL for an input whose sizes are
 * not to be read; their sizes are of the thread's current sizes, which learn the facts that `from`
 * relies on.  NULL: such a fact does not hold, or is about a size that no meta has. */
const GmCopySizes *gm_copy_sizes_new (const GmGraph *from, const GmMeta *const *inputs,
                                      GmArena *arena);
/* Sets *out to these attributes of `from`, in terms of the inputs.  GM_ERROR_UNSUPPORTED: no meta
 * has a size that they read. */
bool gm_copy_attrs (const GmCopySizes *s, const GmAttrs *attrs, GmAttrs *out, GError **error);
/* Returns a name for an input that no input of g has: "tangent0".  In g's arena. */
const char *gm_copy_fresh_name (const GmGraph *g, const char *stem, uint32_t number);

/* -- Layer: tensors that change shape or memory (metadata.c) ----------------------------------- */

/* An object that has become another tensor by the end of the function. */
typedef struct {
  bool is_input;
  GmOuterInput input;   /* the object is that input, or */
  GmInnerOutput object; /* that output */
  GmInnerOutput becomes;
  uint32_t node; /* of the recorded graph: the set_ */
} GmRenamed;

/* Memory whose version was advanced by a change of shape of which nothing else is left. */
typedef struct {
  bool is_input;
  GmOuterInput input;   /* the memory is that input's, or */
  GmInnerOutput output; /* that output's */
} GmTouched;

typedef struct {
  uint32_t n_outer, n_inner; /* outputs */
  uint32_t n_renamed, n_touched;
  const GmRenamed *renamed; /* in the order in which they have to be done */
  const GmTouched *touched;
} GmMetadataLayer;

bool gm_metadata_applies (const GmGraph *g);
/* Returns the graph without set_: later uses of the tensor become uses of what it has become.
 * Inner outputs are the outer ones, then what tensors become.  Errors: GM_ERROR_UNSUPPORTED where
 * gradients were off, or would go along to other memory. */
GmGraph *gm_metadata (const GmGraph *g, GmArena *arena, GmMetadataLayer *layer, GArray *overlaps,
                      GError **error);
/* Makes the outer outputs of the inner ones, stealing the references, and turns the renamed objects
 * into what they become. */
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

/* The histories of tensors that take part in the compiled function without being outputs: the
 * gradient of such a tensor goes to an extra output of the function's node, if there is one. */
typedef struct GmAgNode GmAgNode;
typedef struct {
  GmAgNode *node;      /* stands for the function; NULL: a call without gradients */
  const int *of;       /* per history of the layers: its output of the node, or -1: none */
  const uint8_t *late; /* GmLate, per history without an output */
  uint32_t n;
  const uint32_t *looks;  /* all histories, in the order in which the program read them last */
  GmTensor **looked;      /* per history: the tensor that is to be refreshed now, owned */
  uint64_t first, every;  /* the sequence number of the function's first operation on the tape, and
                           * its distance from the next operation's */
  const uint32_t *places; /* per history: the operation that takes the view; NULL: unknown */
} GmHistories;

/* Refreshes views that the function read after their base was written to, in the order of these
 * reads, because gradients are added in that order. */
void gm_histories_look (const GmHistories *h);

/* The time at which eager gives a view its history, if its base was written to after the view was
 * taken.  LATER: at a refresh after the call.  NOW: as soon as the call is over, because the
 * function has refreshed the view itself. */
typedef enum { GM_LATE_NEVER, GM_LATE_LATER, GM_LATE_NOW } GmLate;

/* A view that is taken again at run time.  A slot is a real tensor: first all inputs, then all
 * inner outputs, then one per step. */
typedef struct {
  GmOp op;
  bool no_grad;      /* true: the view was taken while gradients were off */
  uint32_t history;  /* its number among the histories, or GM_NO_ID */
  uint32_t slot;     /* the tensor that it is a view of */
  uint32_t n_writes; /* of x.data: number of writes by the function */
  GmAttrs attrs;
} GmReplay;

typedef struct {
  uint32_t n_inputs, n_inner, n_outer, n_replays, n_histories;
  const GmReplay *replays; /* replay k fills slot n_inputs + n_inner + k */
  const uint32_t *slots;   /* per outer output */
} GmAliasLayer;

/* Returns the graph whose outputs are the roots alone, each once, and never an input; then
 * histories: the views that are outputs.  A root that the caller can only reach through a detach
 * becomes a detached output, so that no gradient is computed for it. */
GmGraph *gm_output_alias (const GmGraph *g, GmArena *arena, GmAliasLayer *layer, GError **error);
/* Sets outer[i] to a new reference: the input, the inner output, or a view of one of them, taken
 * with gm_autograd_op, so that storage, strides, base and history are what the plain program
 * gives.  On error nothing is left behind. */
bool gm_output_alias_replay (const GmAliasLayer *layer, GmTensor *const *inputs,
                             GmTensor *const *inner, const GmHistories *histories, GmTensor **outer,
                             GError **error);

/* -- Layer: inputs that overlap (base_plan.c, synthetic_base.c) -------------------------------- */

typedef enum {
  GM_BASE_CALLER, /* the tensor that is passed */
  GM_BASE_OF,     /* the base of the tensor that is passed */
  GM_BASE_RAW,    /* memory as one dimension, from `offset` elements after the tensor that is
                   * passed */
} GmBaseKind;

/* The source of an inner input. */
typedef struct {
  GmBaseKind kind;
  GmOuterInput input;
  int64_t offset;
  GmMeta meta; /* RAW: meta of the inner input */
} GmBaseSource;

/* An outer input whose contents are copied back on their own, not with all of the base. */
typedef struct {
  GmOuterInput target;
  GmInnerOutput contents;
} GmPiece;

/* A base of which pieces are written, or an outer input that is a view of it, and that gets a
 * history. */
typedef struct {
  bool is_base;
  uint32_t index; /* of the inner input; else of the outer input */
} GmBaseHistory;

typedef struct {
  uint32_t n_outer, n_inner, n_bases;  /* inputs: bases, then the others, in order of appearance */
  uint32_t n_outputs, n_pieces;        /* inner outputs are the outer ones, then one per piece */
  uint32_t n_histories, first_history; /* histories: the outer ones, then these */
  const GmBaseHistory *histories;
  const GmBaseSource *sources; /* n_inner */
  const GmPiece *pieces;
  const uint32_t *first;     /* inner input i is made of outer[first[i]] .. outer[first[i + 1]] */
  const GmOuterInput *outer; /* each outer input once */
  const bool *in_pieces;     /* per inner input: its contents are output as pieces */
} GmBaseLayer;

/* Returns which inputs have to be merged; NULL: none. Adds the assumptions of that to
 * `overlaps`. */
typedef struct GmBasePlan GmBasePlan;
GmBasePlan *gm_synthetic_base_plan (const GmGraph *g, bool differentiate, GmArena *arena,
                                    GArray *overlaps, GError **error);
/* Returns the graph over bases, with the merged inputs as views of them.  Errors:
 * GM_ERROR_UNSUPPORTED where the inputs have no common base to differentiate, or no common
 * dtype. */
GmGraph *gm_synthetic_base (const GmGraph *g, const GmBasePlan *plan, GmArena *arena,
                            GmBaseLayer *layer, GError **error);
/* Fills inner[i], borrowed, but for the first n_bases, which are references that the caller
 * drops. */
void gm_synthetic_base_enter (const GmBaseLayer *layer, GmTensor *const *outer, GmTensor **inner);
/* Copies pieces into their inputs; then bases and views of them get their histories.  inner: as
 * gm_synthetic_base_enter filled it. */
bool gm_synthetic_base_leave (const GmBaseLayer *layer, GmTensor *const *outer,
                              GmTensor *const *inner, GmTensor *const *inner_outputs,
                              const GmHistories *histories, GError **error);

/* -- Layer: in-place writes (functionalize.c) -------------------------------------------------- */

/* An input that the function writes to.  output GM_NO_ID: another layer outputs its contents.
 * n_writes: number of writes by the plain program, each of which advances the version. */
typedef struct {
  GmInnerInput input;
  GmInnerOutput output;
  uint32_t n_writes;
  bool no_grad; /* the elements change, the history does not */
} GmMutation;

typedef struct {
  uint32_t n_outer, n_mutations;  /* inner outputs are the outer ones, then those of mutations */
  uint32_t n_histories;           /* of the outer graph */
  const GmInnerOutput *histories; /* their outputs; GM_NO_ID: eager makes that history later ... */
  const uint8_t *late;            /* ... per outer history: GmLate */
  const uint32_t *looks;          /* all histories, in the order in which the program read them
                                   * last */
  const uint32_t *places;         /* of histories without an output: the node that takes the view,
                                   * or GM_NO_ID */
  const uint32_t *taken;          /* of views: the node that took it first, before any write, or
                                   * GM_NO_ID */
  const GmMutation *mutations;    /* in the order of the inputs */
  const uint32_t *n_writes;       /* per outer output: number of writes by the plain program; NULL:
                                   * none */
} GmFunctionalLayer;

/* custom_gradient.c: functions that bring their gradient.  True if node i, a `custom` node, is the
 * place where that gradient is computed, and a gradient has arrived. */
bool gm_custom_is_next (const GmGraph *g, uint32_t i, GmVal *const grad);
/* True if the gradients that g's functions bring fail for some strides of those that arrive. */
bool gm_custom_reads_strides (const GmGraph *g);
/* Sets result[k] to the gradient of argument k of the function whose first node is i; grad: per
 * value of g. */
void gm_custom_differentiate (const GmGraph *g, uint32_t i, GmBuilder *b, GmVal *const grad,
                              GmVal *result);

/* higher_stages.c: cond and its kin.  Makes the bodies of g's calls functional; g gets a table of
 * its own.  Errors: GM_ERROR_UNSUPPORTED for a write to a tensor that was made outside of a
 * body. */
bool gm_higher_prepare (GmGraph *g, bool differentiate, GError **error);
/* True if there is no second derivative, because a body contains such a function or a host
 * function. */
bool gm_higher_is_once (const GmHigher *h);
/* Replaces such functions in g's bodies by what they compute, once nothing will be differentiated
 * any more. */
void gm_higher_drop_customs (GmGraph *g);
/* True if node i is the first of its call, and a gradient has arrived at one of the call's
 * results. */
bool gm_higher_is_next (const GmGraph *g, uint32_t i, GmVal *const grad);
/* Adds the gradient of the call whose first node is i to `to`, which has the values of g under
 * their ids; grad: per value of g.  result[k]: the gradient of operand k, or GM_NO_ID. */
bool gm_higher_differentiate (const GmGraph *g, uint32_t i, GmGraph *to, GmVal *const grad,
                              GmValueId *result, GError **error);

/* host_gradient.c: functions of the host's.  Stage f: decides how h is to be run. */
void gm_host_call_prepare (struct GmHigher *h, bool differentiate);
/* Returns the value that stands for the call that n is a result of; GM_NO_ID: there is none, as
 * nothing of the call has a gradient. */
GmValueId gm_host_call_ticket (const GmGraph *g, const GmNode *n);
bool gm_host_call_is_ticket (const GmGraph *g, GmValueId v);
/* Differentiates a call.  tangents: per result but the ticket, in `to`, or GM_NO_ID; result[k]:
 * gradient of operand k. */
bool gm_host_call_differentiate (const GmGraph *g, const GmNode *n, GmGraph *to,
                                 const GmValueId *tangents, GmVal *const grad, GmValueId *result,
                                 GError **error);
/* True if result[k] is then the whole sum, which includes grad[n->in[k]]. */
bool gm_host_call_goes_on (const struct GmHigher *h, const GmNode *n, uint32_t k,
                           GmVal *const grad);
/* Attaches a call to the tape; out: per result but the ticket, NULL where gradients do not
 * arrive. */
void gm_host_call_attach (struct GmHigher *h, GmTensor *ticket, GmTensor *const *in, uint32_t n_in,
                          GmTensor **out, uint64_t seq);
/* Ties a call that was made over `leaves`, which stand for `in`, into the tape: the history of its
 * results goes on in that of `in`, as one node.  out: new tensors for the results. */
void gm_host_call_tie (GmTensor *const *leaves, GmTensor *const *in, uint32_t n_in,
                       GmTensor *const *results, uint32_t n_results, GmTensor **out);
/* Returns the hook that node i puts on the gradient of v; NULL if i is no such node or the hook was
 * removed (by another node on it without a function). */
const struct GmHigher *gm_gradient_hook_on (const GmGraph *g, uint32_t i, GmValueId v);
bool gm_gradient_hooks_any (const GmGraph *g);
/* Adds a call of the hook to a backward and returns the gradient after it. */
GmValueId gm_gradient_hook_add (GmGraph *to, const struct GmHigher *hook, GmValueId grad,
                                const char *where, GError **error);
void gm_gradient_hook_register (const struct GmHigher *hook, GmTensor *t);
/* True if this row of a backward calls a hook. */
bool gm_gradient_hook_is (const struct GmHigher *h);
/* A hook of the tape (GmTensorHook) whose data is the GmHostFunction. */
GmTensor *gm_gradient_hook_call (void *data, GmTensor *grad, GError **error);

/* higher_tape.c: runs the call that node n of a recorded graph belongs to, with history if
 * gradients are on; out: a new reference for each result. */
bool gm_higher_call (const GmGraph *g, const GmNode *n, GmTensor *const *in, GmTensor **out,
                     GError **error);
/* Adds a node for a call to the tape (seq 0: the newest).  in: operands with their history; out:
 * fresh results, NULL where a result requires no grad or is not wanted. */
void gm_higher_attach (struct GmHigher *h, GmTensor *const *in, uint32_t n_in, GmTensor **out,
                       uint32_t n_out, uint64_t seq);

/* The arguments for attaching a custom function, whose first node is n, to the tape at sequence
 * number `seq` (0: the newest). */
typedef struct {
  const GmGraph *g;
  const GmNode *n;
  GmTensor *const *args;     /* per argument that gets a gradient: the tensor with its history */
  GmTensor *const *captured; /* per captured value: the tensor with its history ... */
  const int *result_of;      /* ... but for a value that is this result of the function: without;
                              * else -1 */
  GmTensor *const *outs;     /* per result: the tensor that gets its history; NULL: no gradient
                              * arrives there */
  bool lost; /* the histories of `captured` are not complete: no second derivative */
} GmCustomCall;
void gm_custom_attach (const GmCustomCall *call, uint64_t seq);
/* Returns the number of the result that value k is, of those which the gradient of n's function
 * reads beside gradients; or -1.  The nodes alone do not show that: a result that is read nowhere
 * is dead, and another value may have been merged with a result. */
int gm_custom_result_of (const GmGraph *g, const GmNode *n, uint32_t k);
/* Runs node n when a graph runs node by node: returns a new reference to its first operand's
 * elements, with a history if gradients are on and an argument requires grad.  The function is one
 * node of the tape, made for the first of its results.  given: by value, NULL at the beginning;
 * holds the places of the other results in that node until their nodes run. */
GmTensor *gm_custom_run (const GmGraph *g, const GmNode *n, GmTensor *const *in, GmTensor **given);

/* Returns the graph without MUTATE nodes.  `differentiate` false: nothing requires grad any more.
 * Errors: GM_ERROR_UNSUPPORTED, naming the line, for a write that has no functional form: through
 * an expand; to a constant; or through a detach or with gradients off, to a tensor that takes part
 * in the gradient and is no input, or is read afterwards.  elsewhere: inputs whose new contents
 * another layer outputs; NULL for none. */
GmGraph *gm_functionalize (const GmGraph *g, bool differentiate, const bool *elsewhere,
                           GmArena *arena, GmFunctionalLayer *layer, GError **error);
/* Copies the computed contents of the mutated inputs into them, with history. */
bool gm_functionalize_write_back (const GmFunctionalLayer *layer, GmTensor *const *inputs,
                                  GmTensor *const *inner, GError **error);

/* -- All layers (layers.c) --------------------------------------------------------------------- */

typedef struct {
  uint32_t input;
  uint32_t step; /* the look comes before that step */
} GmInputLook;

typedef struct {
  bool has_metadata, has_dedupe, has_bases; /* the other two layers always are there */
  bool differentiate;
  GmMetadataLayer metadata;
  GmDedupeLayer dedupe;
  GmAliasLayer alias;
  GmBaseLayer bases;
  GmFunctionalLayer functional;
  uint32_t n_inputs, n_outputs; /* the caller's */
  const GmMeta *inputs;
  uint32_t n_looks;
  const GmInputLook *looks; /* at the caller's inputs, the first look at each, in their order */
  uint32_t n_overlaps;
  const GmOverlap *overlaps; /* numbered like the caller's inputs */
} GmLayers;

/* Rewrites a recorded graph to a functional one.  Debug builds derive the facts about each layer's
 * result once more from the graph (layer_facts.c) and compare. */
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
/* Does the same for gradients of these metas, one per output that requires grad; dtype GM_N_DTYPES:
 * none arrives.  Tells which metas the gradients get. */
bool gm_join_arrived (const GmGraph *functional, const GmMeta *arrived, GmArena *arena,
                      GmJoint *joint, GError **error);
/* Does the same for a body of cond or its kin, whose gradients arrive together: zeros where there
 * is none. */
bool gm_join_body (const GmGraph *functional, GmArena *arena, GmJoint *joint, GError **error);

/* -- Forward and backward (partition.c) -------------------------------------------------------- */

/* A value that the backward gets from the forward: input `index` as it is, or output `index` of the
 * forward graph. */
typedef struct {
  bool is_input;
  uint32_t index;
} GmSavedValue;
/* A gradient: input `index` of the backward as it is (a tangent that passes through), or output
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
  const uint32_t *places; /* per value of the joint graph: the number of the saved value that it is,
                           * or GM_NO_ID */
  GmGraph *restore; /* set where hooks replace the saved values (saved_hooks.h): from these to what
                     * would be saved without hooks, which `places` refers to; NULL: no hooks */
} GmParts;

/* DEFAULT saves what the backward reads and recomputes nothing that costs arithmetic.  MIN_CUT
 * saves the values of least weight and recomputes the rest, if that is cheap; a memory budget below
 * 1 drops the values, among those to save, that are cheapest to recompute, down to nothing but
 * inputs at 0.  BY_DEVICE: MIN_CUT on a GPU, where kernels wait for memory, else DEFAULT. */
typedef enum { GM_PARTITION_BY_DEVICE, GM_PARTITION_DEFAULT, GM_PARTITION_MIN_CUT } GmPartitionMode;
typedef struct {
  GmPartitionMode mode;
  double memory_budget; /* 0 to 1 */
} GmPartitionOptions;

/* Cuts the joint graph in two.  `writes`: tells which inputs are overwritten after the forward, so
 * that they cannot be saved as they are; NULL for none.  `options`: NULL for { DEFAULT, 1 },
 * whatever the device.  The bits of all outputs and gradients are the same for all options and
 * tags. */
bool gm_partition (const GmJoint *joint, const GmFunctionalLayer *writes,
                   const GmPartitionOptions *options, GmArena *arena, GmParts *parts,
                   GError **error);

#endif
