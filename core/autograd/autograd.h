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
  const GmMeta *results; /* per edge */
  const uint32_t *order; /* the order in which results go to their edges; NULL: ascending */
  uint32_t n_operations;
  /* Fills result, per edge.  Sets b's error on failure. */
  void (*emit) (const struct GmAgProgram *p, GmBuilder *b, const GmVal *in, GmVal *result);
  void (*free) (struct GmAgProgram *p);
} GmAgProgram;

/* The state in which a backward that keeps no graph leaves a function's node. */
typedef enum {
  GM_AG_USED_UP, /* nothing is left */
  GM_AG_PARTS,   /* some of the nodes that it stands for are left: it has to be unfolded before
                  * another backward */
  GM_AG_WHOLE    /* all is left: another backward may come */
} GmAgLeft;

/* A backward that is not an op's: that of a compiled function, CopySlices or a user's Function. */
typedef struct {
  const char *name; /* "CompiledBackward" */
  /* Computes the gradients.  grads[i]: gradient of output i, NULL where none arrived.  result[i]:
   * new reference per edge, NULL for none.  create_graph: operations must be recorded (double
   * backward); the function may refuse that with an error. */
  bool (*backward) (GmAgNode *n, void *state, GmTensor *const *grads, GmTensor **result,
                    bool create_graph, GError **error);
  void (*release) (void *state); /* frees what is saved: after a backward without retain_graph, or
                                  * when the node dies */
  /* Returns the order in which the outputs' gradients meet their hooks or, with `results`, that in
   * which results go to their edges.  A function that stands for many nodes returns the order of
   * these.  NULL, or returning NULL: ascending. */
  const uint32_t *(*order) (const void *state, bool results);
  /* Called after a backward that keeps no graph: drops what that has used up.  NULL: all is used
   * up, and `release` is called. */
  GmAgLeft (*spend) (GmAgNode *n, void *state);
  /* Returns the outputs, by bit (the last bit: all from there on), whose gradients go on to
   * something that the walk asks for.  NULL: all, if something behind the node is asked for. */
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
  /* NULL, or unfolds n before a walk comes there.  roots: per output, a new reference to a tensor
   * whose history is the node that makes that output, or NULL where no gradient goes on.  The nodes
   * are the same as those that gm_autograd_through walks, whatever gradients arrive. */
  bool (*parts) (GmAgNode *n, void *state, GmTensor **roots, GError **error);
  bool again; /* true: the state of a second, equal run serves this node as well, so inside of a
               * region nothing is kept */
} GmAgFunction;

/* -- Modes ------------------------------------------------------------------------------------- */
bool gm_grad_enabled (void);
bool gm_grad_set_enabled (bool on); /* returns the old mode */

/* -- Recording --------------------------------------------------------------------------------- */

/* Runs gm_op_run, and adds a tape entry where one is needed.  Returns a new reference or NULL. */
GmTensor *gm_autograd_op (GmOp op, GmTensor *const *in, int n_in, const GmAttrs *attrs,
                          GError **error);
/* Overwrites dst's elements with op (in ...), with torch's rules: a leaf that requires grad is
 * refused while grad mode is on, a view rewrites its base's history.  Runs without a temporary
 * where it can.  Advances the version. */
bool gm_autograd_into (GmTensor *dst, GmOp op, GmTensor *const *in, int n_in, const GmAttrs *attrs,
                       GError **error);
/* Overwrites dst's elements with those of src, a result that nothing else refers to, and gives dst
 * the history of src where it can: what waits for dst's gradient then waits at the node that made
 * src, with no copy in between. */
bool gm_autograd_become (GmTensor *dst, GmTensor *src, GError **error);
/* True if gm_autograd_into and gm_autograd_become would not refuse t: t's memory is neither
 * read-only nor expanded and, with `grad`, t is neither a leaf that requires grad, nor a view of
 * one, nor a view whose gradient is awaited (gm_tensor_is_awaited).  Else *error is set. */
bool gm_autograd_may_write (GmTensor *t, bool grad, GError **error);
/* True if grad mode allows dst to be changed in place; else *error says why not. */
bool gm_check_leaf (GmTensor *dst, GError **error);
/* Makes output nr of n the history of t, whose elements are already written.  If t is a base, its
 * views become stale. */
void gm_autograd_give_history (GmTensor *t, GmAgNode *n, int nr);
/* Makes a view stale: its next refresh gives it the history that follows from its base's, as if
 * that had been rewritten since the view was taken. */
void gm_autograd_make_late (GmTensor *view);
/* True if the current walk runs n for the last time, and nothing reads what arrived at n, or what
 * leaves it, afterwards. */
bool gm_autograd_is_last (const GmAgNode *n);
/* True if the view is stale and its base requires grad, so that its next refresh gives it a
 * history.  Does not refresh it. */
bool gm_autograd_is_late (const GmTensor *view);
/* Makes dst src in all but identity (t_, squeeze_, set_ ...): shape, strides, memory and history.
 * src lies in the memory of dst, or in other memory.  dst's base stays its base where the memory
 * stays; dst's leaf-ness follows torch's rules for in-place operations.  In its own memory the
 * version advances. */
bool gm_autograd_set (GmTensor *dst, GmTensor *src, GError **error);
/* Gives t the dtype, shape and memory of `from`.  t keeps its history, its place as a leaf, and its
 * object; views of t stay where they are.  If dtype, shape or device differ, the backward of t's
 * history fails with an error that says why. */
void gm_autograd_set_data (GmTensor *t, GmTensor *from);
/* True if t is a view of a tensor that has not all of t's elements any more, since as_strided_ ()
 * or resize_ () changed that one in place. */
bool gm_view_is_outside (const GmTensor *t);
/* Returns t's elements on a device, with a history; if t is there, t itself, a new reference. */
GmTensor *gm_autograd_to_device (GmTensor *t, int device, GError **error);
/* Makes a node for a multi-output function: `outs` (fresh, without history) become its outputs,
 * edges go to `in` (NULL entries: no edge).  The node owns `state` from now on.  Returns the node,
 * borrowed: the outputs keep it alive. */
GmAgNode *gm_autograd_attach (const GmAgFunction *fn, void *state, GmTensor *const *in, int n_in,
                              GmTensor *const *outs, int n_outs);
/* Does the same, and returns a new reference.  An entry of outs may be NULL; a tensor may be given
 * that history later. */
GmAgNode *gm_autograd_attach_new (const GmAgFunction *fn, void *state, GmTensor *const *in,
                                  int n_in, GmTensor *const *outs, int n_outs);
void gm_node_unref (GmAgNode *n); /* NULL is fine */

/* Tells that the state of a node that was just attached is complete: an open region may steal the
 * state, so it may be gone afterwards. */
void gm_autograd_attached (GmAgNode *n);
/* Tells that n can be unfolded, and that part of the gradient of these outputs (bit k: output k;
 * the last bit: all from there on) arises inside of n: hooks on them and other waiters must see the
 * whole gradient, not only what arrives at n from outside. */
void gm_autograd_wait_inside (GmAgNode *n, uint64_t outputs);
/* Tells that inside of n a hook waits for these outputs' gradients, as if it had been registered on
 * the tensors. */
void gm_autograd_hook_inside (GmAgNode *n, uint64_t outputs);
/* Tells that n sends some of the gradients on these edges (bit k: edge k; the last bit: all from
 * there on) from inner nodes that are older than n: other nodes that read the same tensor may have
 * to run first. */
void gm_autograd_reach_back (GmAgNode *n, uint64_t edges);
/* Returns the sequence number of the node that takes the view of its base: where its gradient goes
 * on to the base's.  The view's history must be up to date. */
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
/* The three are called within n's backward.  True if the walk asks for what goes to edge i; for all
 * that n sends anywhere; for what arrives at output nr. */
bool gm_autograd_wants (const GmAgNode *n, uint32_t i);
bool gm_autograd_wants_all (const GmAgNode *n);
bool gm_autograd_wants_output (const GmAgNode *n, uint32_t nr);
/* Appends the leaves that gradients of these roots would reach (borrowed), each as often as a
 * gradient is added there. */
void gm_autograd_find_leaves (GmTensor *const *roots, uint32_t n, GPtrArray *leaves);
/* Within n's backward: steals the sum that has arrived so far where edge i leads to; NULL: none.
 * The caller delivers a sum there that begins with it. */
GmTensor *gm_autograd_take_arrived (GmAgNode *n, uint32_t i);
/* Returns the leaf that edge i of n leads to, borrowed; NULL: none. */
GmTensor *gm_autograd_leaf (const GmAgNode *n, int i);
/* True if a hook waits at a leaf that n leads to: it runs as soon as that gradient is complete, in
 * the middle of what n stands for. */
bool gm_autograd_leaf_waits (const GmAgNode *n);
/* True if a hook or retain_grad () waits for the gradient of t, which is no leaf, or of a view that
 * t was taken of, up to its base; or if t is a view that something else has read.  Such gradients
 * are summed before the base's others are added. */
bool gm_tensor_is_awaited (const GmTensor *t);
/* Returns an alias of t that has t's present history (a leaf: t itself) and does not follow what
 * happens to t later. */
GmTensor *gm_autograd_freeze (GmTensor *t);
/* Returns an alias of t whose history is output `nr` of n. */
GmTensor *gm_autograd_as_output (GmTensor *t, GmAgNode *n, int nr);

/* -- Unfolding: a node that stands for many becomes these when it is walked -------------------- */

/* Reserves n sequence numbers before that of the next node that is made; returns the first. */
uint64_t gm_autograd_reserve (uint64_t n);
/* Makes `out`, which is fresh, the result of op (in ...), as if that had run at sequence number
 * `seq`.  Tensors that the gradient reads must have memory (gm_op_saves), other operands may be
 * without. */
void gm_autograd_record (GmTensor *out, GmOp op, GmTensor *const *in, int n_in,
                         const GmAttrs *attrs, uint64_t seq);
/* Replaces what the node that made `out` keeps of its operand i, if it does, by the leaf t itself,
 * which may have moved since.  version: that of t when it was kept. */
void gm_autograd_record_leaf (GmTensor *out, uint32_t i, GmTensor *t, uint32_t version);
/* Gives outs, which are fresh, the history of one function of `in` (NULL entries: no edge) at
 * sequence number seq (0: the next) whose gradient can't be computed any more: a walk that comes
 * there is refused with `why`. */
void gm_autograd_lose (GmTensor *const *outs, int n_outs, GmTensor *const *in, int n_in,
                       uint64_t seq, const char *why);
/* Frees what the node that made `out` keeps, as a backward does.  all: marks the node as used up
 * even if it keeps nothing. */
void gm_autograd_use_up (GmTensor *out, bool all);
/* Sets the sequence number of a node that was just attached. */
void gm_autograd_place (GmAgNode *n, uint64_t seq);
/* Places the node that took the view t at sequence number `seq`, among the nodes that n stands
 * for. */
void gm_autograd_place_within (GmTensor *t, GmAgNode *n, uint64_t seq);
/* Returns an alias of t whose history is the node that edge i of n leads to. */
GmTensor *gm_autograd_before (GmAgNode *n, int i, GmTensor *t);
/* Walks, within n's backward, from roots (one per output of n or NULL, which have histories) to
 * what n's edges lead to, and no further.  grads[k]: what arrived at output k, or NULL.  Hooks and
 * retain_grad () on n's outputs are served at the roots.  result[i]: the sum for edge i, begun with
 * what had arrived there before, in the engine's order of addition; NULL for an edge that leads
 * where an earlier edge does.  stay: n stays unfolded, nodes that nothing arrives at included:
 * another backward may come to them. */
bool gm_autograd_through (GmAgNode *n, GmTensor *const *roots, GmTensor *const *grads, bool create,
                          bool stay, GmTensor **result, GError **error);
/* True, within n's backward, if the order matters in which the terms of its results are added:
 * something has arrived already where result i, a sum of n_terms[i], goes; or two results go to one
 * place. */
bool gm_autograd_order_matters (const GmAgNode *n, const uint32_t *n_terms);

bool gm_tensor_requires_grad (const GmTensor *t);
bool gm_tensor_is_leaf (const GmTensor *t);
/* leaves only; floating only */
bool gm_tensor_set_requires_grad (GmTensor *t, bool on, GError **error);
GmTensor *gm_tensor_grad (GmTensor *t);                /* borrowed or NULL */
void gm_tensor_set_grad (GmTensor *t, GmTensor *grad); /* takes a new reference; NULL clears */
void gm_tensor_retain_grad (GmTensor *t);
GmTensor *gm_tensor_detach (GmTensor *t); /* shares storage and version, no history */
/* Cuts t off from its history; writes nothing, and views of it keep their histories.  Errors:
 * GM_ERROR_RUNTIME for a view. */
bool gm_autograd_cut_off (GmTensor *t, GError **error);
/* Returns what gm_tensor_requires_grad returns, without a refresh: a stale view stays stale. */
bool gm_tensor_would_require_grad (const GmTensor *t);
/* Returns a number that is larger the later t's history was made; 0 if t has none or is a leaf,
 * UINT64_MAX if the next refresh makes the history. */
uint64_t gm_tensor_history_number (const GmTensor *t);
/* Returns the name of the grad_fn as torch shows it ("MulBackward0"), NULL for leaves. */
const char *gm_tensor_grad_fn_name (const GmTensor *t);
uint32_t gm_tensor_version (const GmTensor *t);
/* Sets the error that t, `which` ("input 0", or NULL), is not at that version any more, and that
 * what `who` ("the gradient of mul") computes needs it. */
void gm_fail_changed (const char *who, const char *which, const GmTensor *t, uint32_t version,
                      GError **error);
/* Returns the versions of n tensors, for gm_unchanged; the caller frees. */
uint32_t *gm_versions (GmTensor *const *t, uint32_t n);
/* True if the tensors still have these versions; else the error of gm_fail_changed is set. */
bool gm_unchanged (GmTensor *const *t, const uint32_t *versions, uint32_t n, const char *who,
                   GError **error);

/* A hook on the gradient of t: gets the gradient (borrowed), returns NULL (keep it) or a new
 * reference that replaces it; *error on failure.  Hooks run in order of registration, before
 * accumulation for leaves.  Returns an id for removal. */
typedef GmTensor *(*GmTensorHook) (void *data, GmTensor *grad, GError **error);
uint64_t gm_tensor_add_hook (GmTensor *t, GmTensorHook hook, void *data,
                             void (*destroy) (void *data));
bool gm_tensor_remove_hook (uint64_t id); /* on whatever history it is by now; false: it is gone */
/* A hook that is called with a leaf after its gradient was added up (post_hooks.c); false on
 * failure. */
typedef bool (*GmTensorPostHook) (void *data, GmTensor *leaf, GError **error);
uint64_t gm_tensor_add_post_hook (GmTensor *leaf, GmTensorPostHook hook, void *data,
                                  void (*destroy) (void *data));
bool gm_tensor_remove_post_hook (GmTensor *leaf, uint64_t id);

/* -- Saved tensors (saved.c) ------------------------------------------------------------------- */

/* A pair of hooks that keeps something else in a saved tensor's place. */
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
/* Puts a pair on this thread's stack: the innermost pair packs all tensors saved from now on.
 * `data` is owned from success on. */
bool gm_saved_hooks_push (const GmSavedHooksType *type, void *data, GError **error);
bool gm_saved_hooks_pop (void); /* false: there was none */
/* Returns the data of the innermost pair, which identifies it; NULL if there is none. */
const void *gm_saved_hooks_innermost (void);
extern bool gm_saved_hooks_used; /* by any thread, ever: most programs use no hooks, and pay a load
                                  * for the test */
static inline const void *
gm_saved_hooks_top (void)
{
  return G_UNLIKELY (__atomic_load_n (&gm_saved_hooks_used, __ATOMIC_RELAXED))
             ? gm_saved_hooks_innermost ()
             : NULL;
}
/* Returns the same; NULL also if the pair is of another type. */
const void *gm_saved_hooks_top_of (const GmSavedHooksType *type);
/* Makes each later push fail with this text; NULL: pushes succeed again.  Returns the former
 * text. */
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
/* Packs s's tensor with the innermost hooks, if there are any. */
bool gm_saved_pack (GmSaved *s, GError **error);
/* Returns a new reference to the tensor, unpacked if need be; NULL: *error is set.  s must not be
 * empty. */
GmTensor *gm_saved_get (const GmSaved *s, GError **error);
void gm_saved_clear (GmSaved *s);

/* -- Regions that are computed again (checkpoint.c) -------------------------------------------- */

/* Runs the function once more, on the inputs of the first time; its results are ignored. */
typedef bool (*GmRegionRun) (void *data, GError **error);
typedef struct GmRegion GmRegion;
/* Makes a region.  What is recorded between open and close (same thread, properly nested) keeps no
 * intermediate results for the backward: `run` computes them again, with the generator's state at
 * the time of open.  The nodes hold the region; unref when it is closed. */
GmRegion *gm_region_new (GmRegionRun run, void *data, void (*destroy) (void *data));
/* Declares that `run` reads t: changing t in place before the backward is an error. */
void gm_region_watch (GmRegion *r, GmTensor *t);
void gm_region_open (GmRegion *r);
void gm_region_close (GmRegion *r);
void gm_region_unref (GmRegion *r); /* NULL is fine */

/* -- The engine -------------------------------------------------------------------------------- */

/* Accumulates into the leaves' grad.  grads[i] NULL: ones, for one-element roots only.  Errors: a
 * root without history; saved tensors changed in place (names op, shape, versions); freed graph. */
bool gm_autograd_backward (GmTensor *const *roots, GmTensor *const *grads, int n, bool retain_graph,
                           bool create_graph, GError **error);
/* Does the same, but among leaves only those in `inputs` get their gradient added; an input that is
 * no leaf has it added to its grad, too. */
bool gm_autograd_backward_to (GmTensor *const *roots, GmTensor *const *grads, int n,
                              GmTensor *const *inputs, int n_inputs, bool retain_graph,
                              bool create_graph, GError **error);
/* Called at the end of the backward that is running on this thread; false on failure. */
typedef bool (*GmFinalCallback) (void *data, GError **error);
bool gm_autograd_queue_callback (GmFinalCallback fn, void *data, void (*destroy) (void *data),
                                 GError **error);
/* Computes gradients of roots with respect to `inputs`: result[i] is a new reference or NULL (only
 * with allow_unused). */
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
