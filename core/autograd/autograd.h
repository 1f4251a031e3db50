/* SPDX-License-Identifier: Apache-2.0
 * autograd.h -- the eager tape: what backward needs to know about each result, and the engine that
 * walks it.
 *
 * A result that requires grad holds a node: the op, what its gradient reads (gm_op_saves), and
 * edges to the nodes of its inputs.  Leaves that require grad have an accumulating node.  The
 * engine runs ready nodes by descending sequence number, and adds gradients in the order in which
 * they arrive; core/aot/join.c mimics exactly that order, so compiled gradients have the same bits.
 * Threads: grad mode is per thread.  A graph is walked by one thread at a time.
 */
#ifndef GM_AUTOGRAD_AUTOGRAD_H
#define GM_AUTOGRAD_AUTOGRAD_H

#include "core/ops/builder.h"

typedef struct GmAgNode GmAgNode;

/* The backward of a function's node as a program, for a runner that makes one program of many nodes
 * (backward_stretch.h). */
typedef struct GmAgProgram {
  GmTensor **in; /* all tensors that it reads, gradients included: owned */
  uint32_t n_in;
  const GmMeta *results; /* per edge: the meta of the gradient that goes there */
  const uint32_t *order; /* the order in which results go to their edges; NULL: ascending */
  uint32_t n_operations;
  /* Fills result, per edge, with values of b.  Sets b's error on failure. */
  void (*emit) (const struct GmAgProgram *p, GmBuilder *b, const GmVal *in, GmVal *result);
  void (*free) (struct GmAgProgram *p);
} GmAgProgram;

/* The state of a function's node after a backward without retain_graph. */
typedef enum {
  GM_AG_USED_UP, /* nothing is left: another backward fails */
  GM_AG_PARTS,   /* some of the nodes that it stands for are left: it has to be unfolded before
                  * another backward */
  GM_AG_WHOLE    /* all is left: another backward can run */
} GmAgLeft;

/* A backward that is not an operator's: that of a compiled function, CopySlices or a user's
 * Function. */
typedef struct {
  const char *name; /* "CompiledBackward" */
  /* Computes the gradients.  grads[i]: gradient of output i, NULL where none arrived.  result[i]:
   * new reference per edge, NULL for none.  create_graph: operations must be recorded (double
   * backward); the function may refuse that with an error. */
  bool (*backward) (GmAgNode *n, void *state, GmTensor *const *grads, GmTensor **result,
                    bool create_graph, GError **error);
  void (*release) (void *state); /* frees what is saved: after a backward without retain_graph, or
                                  * when the node dies */
  /* Returns the order in which the hooks on the outputs' gradients run or, with `results`, in which
   * results are sent along their edges.  A function that stands for many nodes returns the order of
   * these nodes.  Owned by the state.  NULL, or returning NULL: ascending. */
  const uint32_t *(*order) (const void *state, bool results);
  /* Drops, after a backward without retain_graph, what that backward has used up, and returns what
   * is left.  NULL: all is used up, and `release` is called. */
  GmAgLeft (*spend) (GmAgNode *n, void *state);
  /* Returns the outputs, by bit (the last bit: all from there on), whose gradients contribute to a
   * gradient that the walk asks for.  NULL: all do, if anything behind the node is asked for. */
  uint64_t (*leads) (const GmAgNode *n, const void *state);
  /* Returns the sequence number of the node, among those that the function stands for, that makes
   * output nr: hooks on that output run at this place among other nodes' hooks.  NULL: just before
   * n. */
  uint64_t (*number) (const void *state, uint32_t nr);
  /* Returns `backward` without create_graph as a program, and appends to `structure` what
   * distinguishes it from other programs.  Returns NULL if it has to be called, or with *error
   * set.  A NULL pointer: it always has to be called. */
  GmAgProgram *(*program) (GmAgNode *n, void *state, GmTensor *const *grads, GByteArray *structure,
                           GError **error);
  /* NULL, or makes the nodes that n stands for, before a walk reaches n.  roots: per output, a new
   * reference to a tensor whose history is the node that makes that output, or NULL where no
   * gradient goes on.  The nodes are those that gm_autograd_through walks, whatever gradients
   * arrive. */
  bool (*parts) (GmAgNode *n, void *state, GmTensor **roots, GError **error);
  bool again; /* true: the state that a second, equal run makes can serve this node as well, so
               * inside of a checkpoint's region nothing is kept */
} GmAgFunction;

/* -- Modes ------------------------------------------------------------------------------------- */
bool gm_grad_enabled (void);
bool gm_grad_set_enabled (bool on); /* returns the old mode */

/* -- Recording --------------------------------------------------------------------------------- */

/* Runs op as gm_op_run does, and records a node of the tape if a gradient can flow to an input.
 * Returns a new reference, or NULL with *error set. */
GmTensor *gm_autograd_op (GmOp op, GmTensor *const *in, int n_in, const GmAttrs *attrs,
                          GError **error);
/* Overwrites dst's elements with op (in ...), with torch's rules: a leaf that requires grad is
 * refused while grad mode is on, a write to a view rewrites its base's history.  Advances the
 * version.  Uses no temporary tensor where it can.  False with *error set on failure. */
bool gm_autograd_into (GmTensor *dst, GmOp op, GmTensor *const *in, int n_in, const GmAttrs *attrs,
                       GError **error);
/* Overwrites dst's elements with those of src, a result without other references, and gives dst the
 * history of src where that is possible: hooks on dst's gradient then are hooks on the node that
 * made src, with no copy in between.  False with *error set on failure. */
bool gm_autograd_become (GmTensor *dst, GmTensor *src, GError **error);
/* True if gm_autograd_into and gm_autograd_become would accept t: t's memory is neither read-only
 * nor expanded and, with `grad`, t is neither a leaf that requires grad, nor a view of such a leaf,
 * nor a view with a hook on its gradient (gm_tensor_is_awaited).  Else *error is set. */
bool gm_autograd_may_write (GmTensor *t, bool grad, GError **error);
/* True if dst may be changed in place while grad mode is on: it is no leaf that requires grad, nor
 * a view of one.  Else *error is set. */
bool gm_check_leaf (GmTensor *dst, GError **error);
/* Makes output nr of n the history of t, whose elements have been written already.  If t is a base,
 * its views become stale. */
void gm_autograd_give_history (GmTensor *t, GmAgNode *n, int nr);
/* Makes a view stale, as if its base's history had been rewritten since the view was taken: the
 * next refresh gives it a history that starts from the base's. */
void gm_autograd_make_late (GmTensor *view);
/* True if the current walk runs n for the last time, and neither the gradients that arrived at n
 * nor those that n returns are read by anything else: their memory may be reused. */
bool gm_autograd_is_last (const GmAgNode *n);
/* True if the view is stale and its base requires grad, so that its next refresh gives it a new
 * history.  Does not refresh the view. */
bool gm_autograd_is_late (const GmTensor *view);
/* Makes dst the same tensor as src in all but identity (for t_, squeeze_, set_ ...): shape,
 * strides, memory and history.  src lies in the memory of dst, or in other memory.  dst keeps its
 * base if it keeps its memory, and then the version advances; torch's rules for in-place operations
 * decide whether dst is a leaf.  False with *error set if grad mode or a check refuses the
 * change. */
bool gm_autograd_set (GmTensor *dst, GmTensor *src, GError **error);
/* Gives t the dtype, shape and memory of `from` (as t.data = from).  t keeps its history, its state
 * as a leaf, and its identity; views of t stay where they are.  If dtype, shape or device differ,
 * the backward of t's history fails with an error that says why. */
void gm_autograd_set_data (GmTensor *t, GmTensor *from);
/* True if t is a view that reaches outside of its base, because as_strided_ () or resize_ ()
 * changed the base in place. */
bool gm_view_is_outside (const GmTensor *t);
/* Returns a new reference to a tensor with t's elements on `device`, recorded; t itself if it is
 * there already.  NULL: *error. */
GmTensor *gm_autograd_to_device (GmTensor *t, int device, GError **error);
/* Makes a node for a function with several outputs: `outs` (new tensors without history) become its
 * outputs, edges go to the histories of `in` (NULL entries: no edge).  The node owns `state`.
 * Returns the node, borrowed: the outputs keep it alive. */
GmAgNode *gm_autograd_attach (const GmAgFunction *fn, void *state, GmTensor *const *in, int n_in,
                              GmTensor *const *outs, int n_outs);
/* Makes a node as gm_autograd_attach does, and returns a new reference.  Entries of outs may be
 * NULL: the caller may give a tensor that output as its history later. */
GmAgNode *gm_autograd_attach_new (const GmAgFunction *fn, void *state, GmTensor *const *in,
                                  int n_in, GmTensor *const *outs, int n_outs);
void gm_node_unref (GmAgNode *n); /* NULL is fine */

/* Declares that the state of n, which was just attached, is complete.  An open region of a
 * checkpoint may steal the state, so it may be freed afterwards. */
void gm_autograd_attached (GmAgNode *n);
/* Declares that n can be unfolded, and that nodes inside of n contribute to the gradients of these
 * outputs (bit k: output k; the last bit: all from there on): hooks and retain_grad () on them must
 * see the whole gradient, not only what arrives at n from outside. */
void gm_autograd_wait_inside (GmAgNode *n, uint64_t outputs);
/* Declares that hooks inside of n get the gradients of these outputs (bits as above), as hooks on
 * the output tensors would. */
void gm_autograd_hook_inside (GmAgNode *n, uint64_t outputs);
/* Declares that n sends gradients along these edges (bit k: edge k; the last bit: all from there
 * on) from inner nodes that are older than n: other nodes that read the same tensor may have to run
 * before them. */
void gm_autograd_reach_back (GmAgNode *n, uint64_t edges);
/* Returns the sequence number of the node that takes `view` of its base, and sends the view's
 * gradient on to the base.  The view's history must be up to date. */
uint64_t gm_autograd_view_number (const GmTensor *view);
/* Refreshes a view before a call of a compiled function in whose middle the program reads it. */
void gm_autograd_view_refresh (GmTensor *view);
/* Moves a history that gm_autograd_view_refresh has just made for the view to the place `seq`,
 * among the operations that n stands for; n may be NULL: these have no node. */
void gm_autograd_place_history (GmTensor *view, GmAgNode *n, uint64_t seq);
bool gm_autograd_is_unplaced (const GmTensor *view);
/* True, within n's backward, if something waits for the gradient of one of the outputs set by
 * gm_autograd_wait_inside. */
bool gm_autograd_is_awaited (const GmAgNode *n);
/* Called within n's backward.  gm_autograd_wants: true if the walk asks for the gradient that goes
 * along edge i; gm_autograd_wants_all: for those of all edges; gm_autograd_wants_output: for the
 * gradient that arrives at output nr. */
bool gm_autograd_wants (const GmAgNode *n, uint32_t i);
bool gm_autograd_wants_all (const GmAgNode *n);
bool gm_autograd_wants_output (const GmAgNode *n, uint32_t nr);
/* Appends, borrowed, the leaves that gradients of these n roots would reach, each as often as a
 * gradient is added to its sum. */
void gm_autograd_find_leaves (GmTensor *const *roots, uint32_t n, GPtrArray *leaves);
/* Steals, within n's backward, the sum of the gradients that have arrived so far where edge i leads
 * to; NULL: none.  The caller then returns, as its result for the edge, a sum that begins with
 * them. */
GmTensor *gm_autograd_take_arrived (GmAgNode *n, uint32_t i);
/* Returns the leaf that edge i of n leads to, borrowed; NULL: none. */
GmTensor *gm_autograd_leaf (const GmAgNode *n, int i);
/* True if a leaf that n leads to has a hook on its gradient, which must run as soon as that
 * gradient is complete, in the middle of the operations that n stands for. */
bool gm_autograd_leaf_waits (const GmAgNode *n);
/* True if a hook or retain_grad () needs the gradient of t, which is no leaf, or of a view between
 * t and its base; or if t is a view that another node has read.  Such gradients are summed before
 * the base's other gradients are added. */
bool gm_tensor_is_awaited (const GmTensor *t);
/* Returns a new alias of t that keeps t's present history when t's changes later; a new reference
 * to t itself if t is a leaf. */
GmTensor *gm_autograd_freeze (GmTensor *t);
/* Returns a new alias of t whose history is output `nr` of n. */
GmTensor *gm_autograd_as_output (GmTensor *t, GmAgNode *n, int nr);

/* -- Unfolding: a node that stands for many becomes these when it is walked -------------------- */

/* Reserves n sequence numbers that lie before that of the next node; returns the first of them. */
uint64_t gm_autograd_reserve (uint64_t n);
/* Makes `out`, a new tensor, the result of op (in ...) on the tape, as if op had run at sequence
 * number `seq`.  Operands that the gradient reads (gm_op_saves) must have memory, others need
 * none. */
void gm_autograd_record (GmTensor *out, GmOp op, GmTensor *const *in, int n_in,
                         const GmAttrs *attrs, uint64_t seq);
/* Replaces the operand i that the node of `out` saves, if it saves that operand, by the leaf t
 * itself, whose memory may have been exchanged since.  version: t's version when it was saved. */
void gm_autograd_record_leaf (GmTensor *out, uint32_t i, GmTensor *t, uint32_t version);
/* Gives `outs`, new tensors, the history of one function of `in` (NULL entries: no edge) at
 * sequence number seq (0: the next), whose gradient can't be computed any more: a walk that reaches
 * its node fails with the text `why`. */
void gm_autograd_lose (GmTensor *const *outs, int n_outs, GmTensor *const *in, int n_in,
                       uint64_t seq, const char *why);
/* Frees what the node of `out` has saved, as a backward without retain_graph does.  all: marks the
 * node as used up even if it saves nothing. */
void gm_autograd_use_up (GmTensor *out, bool all);
/* Sets the sequence number of a node that was just attached. */
void gm_autograd_place (GmAgNode *n, uint64_t seq);
/* Sets the sequence number of the node that took the view t to `seq`, among the operations that n
 * stands for. */
void gm_autograd_place_within (GmTensor *t, GmAgNode *n, uint64_t seq);
/* Returns a new alias of t whose history is the node that edge i of n leads to; if the edge leads
 * nowhere, the alias requires no grad. */
GmTensor *gm_autograd_before (GmAgNode *n, int i, GmTensor *t);
/* Walks, within n's backward, from `roots` (per output of n, a tensor with a history, or NULL) to
 * the nodes that n's edges lead to, and no further.  grads[k]: the gradient that has arrived at
 * output k, or NULL.  Hooks and retain_grad () on n's outputs are served at the roots.  result[i]:
 * the sum for edge i, which begins with the gradients that had arrived there before, added in the
 * engine's order; NULL for an edge that leads where an earlier edge does.  stay: n stays unfolded,
 * with the nodes that no gradient reaches, for another backward.  False with *error set on
 * failure. */
bool gm_autograd_through (GmAgNode *n, GmTensor *const *roots, GmTensor *const *grads, bool create,
                          bool stay, GmTensor **result, GError **error);
/* True, within n's backward, if the order matters in which terms of its results are added: other
 * gradients have arrived already where result i, a sum of n_terms[i] terms, goes, or two results go
 * to one place. */
bool gm_autograd_order_matters (const GmAgNode *n, const uint32_t *n_terms);

bool gm_tensor_requires_grad (const GmTensor *t);
bool gm_tensor_is_leaf (const GmTensor *t);
/* Sets whether the leaf t requires grad.  False with *error set if t is no leaf, or is to require
 * grad and is not floating-point. */
bool gm_tensor_set_requires_grad (GmTensor *t, bool on, GError **error);
GmTensor *gm_tensor_grad (GmTensor *t);                /* borrowed or NULL */
void gm_tensor_set_grad (GmTensor *t, GmTensor *grad); /* takes a new reference; NULL clears */
void gm_tensor_retain_grad (GmTensor *t);
GmTensor *gm_tensor_detach (GmTensor *t); /* shares storage and version, no history */
/* Makes t, in place, a leaf without history (detach_); writes nothing, and views of t keep their
 * histories.  Fails with GM_ERROR_RUNTIME for a view. */
bool gm_autograd_cut_off (GmTensor *t, GError **error);
/* True if gm_tensor_requires_grad (t) would be true, but does not refresh t: a stale view stays
 * stale. */
bool gm_tensor_would_require_grad (const GmTensor *t);
/* Returns a number by which tensors can be sorted by the age of their histories: the larger, the
 * later t's history was made; 0 if t has none or is a leaf, UINT64_MAX if its next refresh makes
 * it. */
uint64_t gm_tensor_history_number (const GmTensor *t);
/* Returns the name of t's grad_fn as torch shows it ("MulBackward0"), borrowed; NULL for leaves. */
const char *gm_tensor_grad_fn_name (const GmTensor *t);
uint32_t gm_tensor_version (const GmTensor *t);
/* Sets the error that t, named `which` ("input 0", or NULL), was changed in place since it had
 * `version`, although the computation `who` ("the gradient of mul") needs it unchanged. */
void gm_fail_changed (const char *who, const char *which, const GmTensor *t, uint32_t version,
                      GError **error);
/* Returns the versions of n tensors, for gm_unchanged; the caller frees. */
uint32_t *gm_versions (GmTensor *const *t, uint32_t n);
/* True if the n tensors still have these versions; else sets the error of gm_fail_changed. */
bool gm_unchanged (GmTensor *const *t, const uint32_t *versions, uint32_t n, const char *who,
                   GError **error);

/* A hook on the gradient of a tensor.  Gets the gradient (borrowed) and returns NULL (the gradient
 * stays) or a new reference to its replacement; sets *error on failure.  Hooks run in the order of
 * registration, on leaves before the gradient is added to grad.  gm_tensor_add_hook returns an id
 * for removal. */
typedef GmTensor *(*GmTensorHook) (void *data, GmTensor *grad, GError **error);
uint64_t gm_tensor_add_hook (GmTensor *t, GmTensorHook hook, void *data,
                             void (*destroy) (void *data));
bool gm_tensor_remove_hook (uint64_t id); /* on whatever history it is by now; false: it is gone */
/* A hook that is called with a leaf after a gradient was added to its grad (post_hooks.c); false
 * with *error set on failure. */
typedef bool (*GmTensorPostHook) (void *data, GmTensor *leaf, GError **error);
uint64_t gm_tensor_add_post_hook (GmTensor *leaf, GmTensorPostHook hook, void *data,
                                  void (*destroy) (void *data));
bool gm_tensor_remove_post_hook (GmTensor *leaf, uint64_t id);

/* -- Saved tensors (saved.c) ------------------------------------------------------------------- */

/* A pair of hooks that replaces saved tensors by objects of its own. */
typedef struct {
  /* Returns what stands for t (borrowed, an alias without history) until the backward; NULL: *error
   * is set.  Called once per tensor. */
  void *(*pack) (void *data, GmTensor *t, GError **error);
  /* Returns the tensor that `packed` stands for, a new reference; NULL: *error is set.  Called once
   * per backward that reads it. */
  GmTensor *(*unpack) (void *data, void *packed, GError **error);
  void (*drop) (void *packed);
  void (*destroy) (void *data);
} GmSavedHooksType;
/* Pushes a pair onto this thread's stack: the innermost pair packs all tensors that are saved from
 * now on.  Owns `data` if it succeeds; false with *error set if pushes are refused. */
bool gm_saved_hooks_push (const GmSavedHooksType *type, void *data, GError **error);
bool gm_saved_hooks_pop (void); /* false: there was none */
/* Returns the data of the innermost pair, which identifies it; NULL if there is none. */
const void *gm_saved_hooks_innermost (void);
extern bool gm_saved_hooks_used; /* by any thread, ever: most programs use no hooks, and pay a
                                  * load for the test */
static inline const void *
gm_saved_hooks_top (void)
{
  return G_UNLIKELY (__atomic_load_n (&gm_saved_hooks_used, __ATOMIC_RELAXED))
             ? gm_saved_hooks_innermost ()
             : NULL;
}
/* Returns the data of the innermost pair if it is of this type, else NULL. */
const void *gm_saved_hooks_top_of (const GmSavedHooksType *type);
/* Makes each later gm_saved_hooks_push fail with the text `why`; NULL: pushes succeed again.
 * Returns the former text, borrowed. */
const char *gm_saved_hooks_refuse (const char *why);

typedef struct GmPacked GmPacked;
typedef struct {
  union {
    GmTensor *t; /* owned; NULL: nothing is saved */
    GmPacked *packed;
  };
  uint32_t version; /* of t when it was saved */
  bool is_packed;
} GmSaved;
/* Packs the tensor in s with the innermost pair of hooks, if there is one.  False with *error set
 * if the hook fails. */
bool gm_saved_pack (GmSaved *s, GError **error);
/* Returns a new reference to the tensor in s, which is not empty; unpacks it if it was packed.
 * NULL: *error is set. */
GmTensor *gm_saved_get (const GmSaved *s, GError **error);
void gm_saved_clear (GmSaved *s);

/* -- Regions that are computed again (checkpoint.c) -------------------------------------------- */

/* Runs the region's function once more, on the same inputs; its results are ignored. */
typedef bool (*GmRegionRun) (void *data, GError **error);
typedef struct GmRegion GmRegion;
/* Makes a checkpoint's region, with one reference, which the caller drops after close; the nodes of
 * the region hold others.  Operations that are recorded between open and close (on one thread,
 * properly nested) keep no intermediate results for the backward: `run` recomputes them, with the
 * random generator's state at the time of open.  Owns `data`. */
GmRegion *gm_region_new (GmRegionRun run, void *data, void (*destroy) (void *data));
/* Declares that the region's `run` reads t: a backward fails if t was changed in place before. */
void gm_region_watch (GmRegion *r, GmTensor *t);
void gm_region_open (GmRegion *r);
void gm_region_close (GmRegion *r);
void gm_region_unref (GmRegion *r); /* NULL is fine */

/* -- The engine -------------------------------------------------------------------------------- */

/* Runs a backward from n roots, and adds the gradients to the grad of the leaves.  grads[i] NULL:
 * ones, for roots of one element only.  Fails for a root without history, for a saved tensor that
 * was changed in place (the error names op, shape and versions), and for a graph that an earlier
 * backward has freed. */
bool gm_autograd_backward (GmTensor *const *roots, GmTensor *const *grads, int n, bool retain_graph,
                           bool create_graph, GError **error);
/* Runs a backward as gm_autograd_backward does, but adds gradients only to the grad of the tensors
 * in `inputs`, leaves or not. */
bool gm_autograd_backward_to (GmTensor *const *roots, GmTensor *const *grads, int n,
                              GmTensor *const *inputs, int n_inputs, bool retain_graph,
                              bool create_graph, GError **error);
/* A function that a hook queues, to be called at the end of the backward that is running on this
 * thread; false with *error set on failure. */
typedef bool (*GmFinalCallback) (void *data, GError **error);
bool gm_autograd_queue_callback (GmFinalCallback fn, void *data, void (*destroy) (void *data),
                                 GError **error);
/* Computes the gradients of n roots with respect to `inputs`: result[i] is a new reference, or NULL
 * if no gradient reaches input i, which is an error without allow_unused. */
bool gm_autograd_grad (GmTensor *const *roots, GmTensor *const *grads, int n,
                       GmTensor *const *inputs, int n_inputs, bool retain_graph, bool create_graph,
                       bool allow_unused, GmTensor **result, GError **error);

/* -- The executing builder (eager_builder.c) --------------------------------------------------- */

typedef struct {
  GmBuilder base;
  GPtrArray *owned; /* every tensor made or wrapped, unreffed by clear */
  GmTensor *inline_owned[8];
  int n_inline;
} GmEagerBuilder;
void gm_eager_builder_init (GmEagerBuilder *b);
void gm_eager_builder_clear (GmEagerBuilder *b); /* frees error too, if still there */
#define gm_val_from_tensor(t)                                                                      \
  ((GmVal) (t)) /* the caller keeps the tensor alive while the builder                             \
                 * is used */
#define gm_tensor_from_val(v) ((GmTensor *) (v))

#endif
