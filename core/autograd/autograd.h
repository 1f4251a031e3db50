/* SPDX-License-Identifier: Apache-2.0
 * autograd.h -- the eager tape: what backward needs to know about each result, and the engine that walks it.
 *
 * A result that requires grad holds a node: the op, what its gradient reads (gm_op_saves), and edges to the nodes of its inputs.
 * Leaves that require grad have an accumulating node.  The engine runs ready nodes by descending sequence number, and adds gradients in the
 * order in which they arrive; core/aot/join.c mimics exactly that order, so compiled gradients have the same bits.
 * Threads: grad mode is per thread.  A graph is walked by one thread at a time.
 */
#ifndef GM_AUTOGRAD_AUTOGRAD_H
#define GM_AUTOGRAD_AUTOGRAD_H

#include "core/ops/builder.h"

typedef struct GmAgNode GmAgNode;

/* The backward of a function's node as a program, for whoever makes one program of many nodes (stretch.h). */
typedef struct GmAgProgram {
  GmTensor **in; /* all that it reads, gradients included: owned */
  uint32_t n_in;
  const GmMeta *results; /* per edge */
  const uint32_t *order; /* in which results go to their edges; NULL: ascending */
  uint32_t n_operations;
  /* result: per edge.  Errors are b's. */
  void (*emit) (const struct GmAgProgram *p, GmBuilder *b, const GmVal *in, GmVal *result);
  void (*free) (struct GmAgProgram *p);
} GmAgProgram;

/* What a backward that keeps no graph leaves of a function's node. */
typedef enum {
  GM_AG_USED_UP, /* nothing */
  GM_AG_PARTS,   /* some of the nodes that it stands for: it has to be taken apart before another one */
  GM_AG_WHOLE    /* all: another one may come */
} GmAgLeft;

/* A backward that is not an op's: the compiled function's, CopySlices, a user's Function. */
typedef struct {
  const char *name; /* "CompiledBackward" */
  /* grads[i]: gradient of output i, NULL where none arrived.  result[i]: new reference per edge, NULL for none.
   * create_graph: operations must be recorded (double backward); may refuse with an error. */
  bool (*backward) (GmAgNode *n, void *state, GmTensor *const *grads, GmTensor **result, bool create_graph, GError **error);
  void (*release) (void *state); /* frees what is saved: after a backward without retain_graph, or when the node dies */
  /* The order in which the outputs' gradients meet their hooks, and with `results` that in which results go to their edges: where
   * the function stands for many nodes, theirs.  NULL, or giving NULL: ascending. */
  const uint32_t *(*order) (const void *state, bool results);
  /* Within a backward that keeps no graph, after it: drops what that has used up.  NULL: all is used up, and `release` comes. */
  GmAgLeft (*spend) (GmAgNode *n, void *state);
  /* The outputs, by bit (the last one: all from there on), whose gradients go on to something that the walk asks for.  NULL: all, if
   * something is asked for behind the node. */
  uint64_t (*leads) (const GmAgNode *n, const void *state);
  /* The number of the one of them that makes output nr: when the hooks on that one run, among other nodes'.  NULL: just before n. */
  uint64_t (*number) (const void *state, uint32_t nr);
  /* What `backward` would do without create_graph, as a program; appends to `structure` what tells it from others.  NULL: it has to be
   * called, or *error is set.  NULL: it always has to be called. */
  GmAgProgram *(*program) (GmAgNode *n, void *state, GmTensor *const *grads, GByteArray *structure, GError **error);
  /* NULL, or: the nodes that n stands for, before a walk comes there.  roots: per output, a tensor whose history it is, or NULL where no
   * gradient goes on; new references.  The same nodes as gm_autograd_through walks, whatever arrives. */
  bool (*parts) (GmAgNode *n, void *state, GmTensor **roots, GError **error);
  bool again; /* the state of a second, equal run serves this node as well: inside of a region nothing is kept */
} GmAgFunction;

/* -- Modes ------------------------------------------------------------------------------------------------- */
bool gm_grad_enabled (void);
bool gm_grad_set_enabled (bool on); /* returns the old mode */

/* -- Recording --------------------------------------------------------------------------------------------- */

/* gm_op_run plus a tape entry where one is needed.  New reference or NULL. */
GmTensor *gm_autograd_op (GmOp op, GmTensor *const *in, int n_in, const GmAttrs *attrs, GError **error);
/* dst's elements become op (in ...), with torch's rules: a leaf that requires grad is refused while grad mode is on, a view rewrites its base's
 * history.  Runs without a temporary where it can.  Advances the version. */
bool gm_autograd_into (GmTensor *dst, GmOp op, GmTensor *const *in, int n_in, const GmAttrs *attrs, GError **error);
/* dst's elements become those of src, a result that nobody else has, and where it can its history too: what waits for dst's gradient
 * waits at the node that made src, with no copy in between. */
bool gm_autograd_become (GmTensor *dst, GmTensor *src, GError **error);
/* Whether that would refuse t for what it is: memory that is read-only or expanded, and with `grad` a leaf that requires grad or a view of
 * one. */
bool gm_autograd_may_write (GmTensor *t, bool grad, GError **error);
/* Whether grad mode allows dst to be changed in place; says so if it does not. */
bool gm_check_leaf (GmTensor *dst, GError **error);
/* The history of t, whose elements are there, becomes output nr of n: for a base, one that its other views follow. */
void gm_autograd_give_history (GmTensor *t, GmAgNode *n, int nr);
/* A view gets the history that follows from its base's when somebody asks, as if that had been rewritten since the view was taken. */
void gm_autograd_make_late (GmTensor *view);
/* Whether the walk that runs n now does so for the last time, and nobody looks at what arrived at n, or leaves it, afterwards. */
bool gm_autograd_is_last (const GmAgNode *n);
/* Whether it has one of that kind, and nobody has asked yet.  To ask this is no look. */
bool gm_autograd_is_late (const GmTensor *view);
/* dst becomes src in all but identity (t_, squeeze_, set_ ...): shape, strides, memory and history.
 * src lies in the memory of dst, or in other memory.  dst's base stays its base where the memory
 * stays; its leaf-ness follows torch's rules for in-place operations.  In its own memory the
 * version advances. */
bool gm_autograd_set (GmTensor *dst, GmTensor *src, GError **error);
/* t takes the dtype, shape and memory of `from`, and keeps its history, its place as a leaf, and
 * its object.  Views of t stay where they are.  A history is one of a gradient of t's dtype and
 * shape: with others its backward fails, and says why. */
void gm_autograd_set_data (GmTensor *t, GmTensor *from);
/* True if t is a view of a tensor that has not all of t's elements any more, since as_strided_ ()
 * or resize_ () changed that one in place. */
bool gm_view_is_outside (const GmTensor *t);
/* t's elements on a device, with a history: t itself, another reference, if it is there. */
GmTensor *gm_autograd_to_device (GmTensor *t, int device, GError **error);
/* A node for a multi-output function: `outs` (fresh, without history) become its outputs, edges go to `in` (NULL entries: no edge).
 * state is owned by the node from now on.  The node, borrowed: the outputs keep it alive. */
GmAgNode *gm_autograd_attach (const GmAgFunction *fn, void *state, GmTensor *const *in, int n_in, GmTensor *const *outs, int n_outs);
/* The same, a new reference; an entry of outs may be NULL, and a tensor be given that history later. */
GmAgNode *gm_autograd_attach_new (const GmAgFunction *fn, void *state, GmTensor *const *in, int n_in, GmTensor *const *outs, int n_outs);
void gm_node_unref (GmAgNode *n); /* NULL is fine */

/* The state of a node that was just attached is complete: an open region may take it.  It may be gone afterwards. */
void gm_autograd_attached (GmAgNode *n);
/* n's backward can be taken apart, and what it computes of these outputs (bit k: output k; the last one: all from there on) goes on to
 * their gradients: hooks on them, and what else waits, see all of it there, and not what comes from outside alone. */
void gm_autograd_wait_inside (GmAgNode *n, uint64_t outputs);
/* On the way of these outputs' gradients a hook waits inside of n, as if it had been registered on the tensors. */
void gm_autograd_hook_inside (GmAgNode *n, uint64_t outputs);
/* Some of what n sends through these edges (bit k: edge k; the last one: all from there on) comes from nodes that are older than n: others
 * that read the same may come first. */
void gm_autograd_reach_back (GmAgNode *n, uint64_t edges);
/* The number of the node that takes a view, whose history is up to date, of its base: where its gradient goes on to that one's. */
uint64_t gm_autograd_view_number (const GmTensor *view);
/* A look at a view before a call of a compiled function, which does in its middle what the program looks with. */
void gm_autograd_look (GmTensor *view);
/* If that look made the view's history: its place is `seq`, among the operations that n stands for; NULL: those have no node. */
void gm_autograd_settle (GmTensor *view, GmAgNode *n, uint64_t seq);
bool gm_autograd_is_unsettled (const GmTensor *view);
/* Within n's backward: whether something waits for one of those. */
bool gm_autograd_is_awaited (const GmAgNode *n);
/* Within n's backward: whether the walk asks for what goes to edge i; for all that n sends anywhere; for what arrives at output nr. */
bool gm_autograd_wants (const GmAgNode *n, uint32_t i);
bool gm_autograd_wants_all (const GmAgNode *n);
bool gm_autograd_wants_output (const GmAgNode *n, uint32_t nr);
/* Adds the leaves that gradients of these would reach (borrowed), each as often as something is added up there. */
void gm_autograd_find_leaves (GmTensor *const *roots, uint32_t n, GPtrArray *leaves);
/* Within n's backward: takes what has arrived so far where edge i leads to, or NULL: whoever gives a sum there that goes on with it. */
GmTensor *gm_autograd_take_arrived (GmAgNode *n, uint32_t i);
/* The leaf that edge i of n leads to, borrowed; NULL: none. */
GmTensor *gm_autograd_leaf (const GmAgNode *n, int i);
/* Whether a hook waits at a leaf that n leads to: it runs as soon as that gradient is complete, in the middle of what n stands for. */
bool gm_autograd_leaf_waits (const GmAgNode *n);
/* Whether a hook, or a wish to keep it, waits for the gradient of t, which is no leaf, or of a view that t was taken of, up to its base; or
 * whether t is a view that something else has read: their gradients are summed before the base's others are added. */
bool gm_tensor_is_awaited (const GmTensor *t);
/* An alias of t that has t's history as it is now: a leaf stays itself.  It does not follow what happens to t later. */
GmTensor *gm_autograd_freeze (GmTensor *t);
/* An alias of t whose history is output `nr` of n. */
GmTensor *gm_autograd_as_output (GmTensor *t, GmAgNode *n, int nr);

/* -- Functions that are taken apart: a node that stands for many, and becomes them when it is walked -------- */

/* Room for n nodes in the order of creation, before the next one that is made; returns the number of the first. */
uint64_t gm_autograd_reserve (uint64_t n);
/* out, fresh, becomes the result of op (in ...), as if that had run, at the place `seq` in the order.  What the gradient reads must
 * be there (gm_op_saves), other operands may be without memory. */
void gm_autograd_record (GmTensor *out, GmOp op, GmTensor *const *in, int n_in, const GmAttrs *attrs, uint64_t seq);
/* What the node that made out keeps of its operand i, if it does, is the leaf t itself, which may have moved since; version: when it was kept. */
void gm_autograd_record_leaf (GmTensor *out, uint32_t i, GmTensor *t, uint32_t version);
/* outs, fresh, have the history of one function of `in` (NULL entries: no edge) at that place in the order (0: the next), whose gradient
 * can't be computed any more: a walk that comes there is refused with `why`. */
void gm_autograd_lose (GmTensor *const *outs, int n_outs, GmTensor *const *in, int n_in, uint64_t seq, const char *why);
/* What the node that made out keeps is used up, as by a backward; all of it: by what it is, it works once, whatever it keeps. */
void gm_autograd_use_up (GmTensor *out, bool all);
/* The number of a node that was just attached. */
void gm_autograd_place (GmAgNode *n, uint64_t seq);
/* The view t was taken where n, which stands for many nodes, has one with that number. */
void gm_autograd_place_within (GmTensor *t, GmAgNode *n, uint64_t seq);
/* An alias of t whose history is what edge i of n leads to. */
GmTensor *gm_autograd_before (GmAgNode *n, int i, GmTensor *t);
/* Within n's backward: walks from roots, one per output of n or NULL, which have histories, to what n's edges lead to, and no further.
 * grads[k]: what arrived at output k, or NULL.  What waits for n's outputs (hooks, wishes to keep a gradient) is served at the roots.
 * result[i]: the sum for edge i, begun with what had arrived there before, in the one order; NULL for an edge that leads where an earlier
 * one does.  stay: for good, with the nodes that nothing arrives at: another backward may come to them. */
bool gm_autograd_through (GmAgNode *n, GmTensor *const *roots, GmTensor *const *grads, bool create, bool stay, GmTensor **result, GError **error);
/* Within n's backward: whether it matters in which order the terms of its results are added: something has arrived already where
 * result i, a sum of n_terms[i], goes; or two results go to one place. */
bool gm_autograd_order_matters (const GmAgNode *n, const uint32_t *n_terms);

bool gm_tensor_requires_grad (const GmTensor *t);
bool gm_tensor_is_leaf (const GmTensor *t);
bool gm_tensor_set_requires_grad (GmTensor *t, bool on, GError **error); /* leaves only; floating only */
GmTensor *gm_tensor_grad (GmTensor *t); /* borrowed or NULL */
void gm_tensor_set_grad (GmTensor *t, GmTensor *grad); /* takes a new reference; NULL clears */
void gm_tensor_retain_grad (GmTensor *t);
GmTensor *gm_tensor_detach (GmTensor *t); /* shares storage and version, no history */
/* t itself has no history from now on; nothing is written, and views of it keep theirs.  Errors: GM_ERROR_RUNTIME for a view. */
bool gm_autograd_cut_off (GmTensor *t, GError **error);
/* The same without a look: a view whose base was rewritten does not get its history because of the question. */
bool gm_tensor_would_require_grad (const GmTensor *t);
/* A larger number: its history was made later; 0: it has none, or is a leaf; UINT64_MAX: it is made at the next look. */
uint64_t gm_tensor_history_number (const GmTensor *t);
/* Name of the grad_fn as torch shows it ("MulBackward0"), NULL for leaves. */
const char *gm_tensor_grad_fn_name (const GmTensor *t);
uint32_t gm_tensor_version (const GmTensor *t);
/* The error that t, `which` ("input 0", or NULL), is not at that version any more, and that what `who` ("the gradient of mul") computes
 * needs it. */
void gm_fail_changed (const char *who, const char *which, const GmTensor *t, uint32_t version, GError **error);
/* The versions of n tensors, for gm_unchanged; the caller frees. */
uint32_t *gm_versions (GmTensor *const *t, uint32_t n);
/* Whether they still have them; if not, that error. */
bool gm_unchanged (GmTensor *const *t, const uint32_t *versions, uint32_t n, const char *who, GError **error);

/* A hook on the gradient of t: gets the gradient (borrowed), returns NULL (keep it) or a new reference that replaces it; *error on
 * failure.  Hooks run in order of registration, before accumulation for leaves.  Returns an id for removal. */
typedef GmTensor *(*GmTensorHook) (void *data, GmTensor *grad, GError **error);
uint64_t gm_tensor_add_hook (GmTensor *t, GmTensorHook hook, void *data, void (*destroy) (void *data));
bool gm_tensor_remove_hook (uint64_t id); /* from whatever history it is on by now; false: it is gone */
/* The same for what is called with a leaf after its gradient was added up (post_hooks.c); false on failure. */
typedef bool (*GmTensorPostHook) (void *data, GmTensor *leaf, GError **error);
uint64_t gm_tensor_add_post_hook (GmTensor *leaf, GmTensorPostHook hook, void *data, void (*destroy) (void *data));
bool gm_tensor_remove_post_hook (GmTensor *leaf, uint64_t id);

/* -- Saved tensors (saved.c) --------------------------------------------------------------------------------- */

/* A pair of hooks that keeps something else in a saved tensor's place. */
typedef struct {
  /* What stands for t (borrowed, an alias without history) until the backward; NULL: *error is set.  Called once per tensor. */
  void *(*pack) (void *data, GmTensor *t, GError **error);
  /* The tensor that `packed` stands for, a new reference; NULL: *error is set.  Called once per backward that reads it. */
  GmTensor *(*unpack) (void *data, void *packed, GError **error);
  void (*drop) (void *packed);
  void (*destroy) (void *data);
} GmSavedHooksType;
/* Puts a pair on this thread's stack: the innermost one takes all that is saved from now on.  data is owned from success on. */
bool gm_saved_hooks_push (const GmSavedHooksType *type, void *data, GError **error);
bool gm_saved_hooks_pop (void); /* false: there was none */
/* data of the innermost pair, NULL if there is none: its identity. */
const void *gm_saved_hooks_innermost (void);
extern bool gm_saved_hooks_used; /* by any thread, ever: most programs use none, and pay a load for it */
static inline const void *
gm_saved_hooks_top (void)
{
  return G_UNLIKELY (__atomic_load_n (&gm_saved_hooks_used, __ATOMIC_RELAXED)) ? gm_saved_hooks_innermost () : NULL;
}
/* The same, NULL too if it is of another type. */
const void *gm_saved_hooks_top_of (const GmSavedHooksType *type);
/* From now on a push fails with this text; NULL: it does not.  Returns the text of before. */
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
/* Hands t to the innermost hooks, if there are any. */
bool gm_saved_pack (GmSaved *s, GError **error);
/* A new reference to the tensor, unpacked if need be; NULL: *error is set.  Not for an empty one. */
GmTensor *gm_saved_get (const GmSaved *s, GError **error);
void gm_saved_clear (GmSaved *s);

/* -- Regions that are computed again (checkpoint.c) --------------------------------------------------------- */

/* Runs the function once more, on the inputs of the first time; its results are of no interest. */
typedef bool (*GmRegionRun) (void *data, GError **error);
typedef struct GmRegion GmRegion;
/* What is recorded between open and close (same thread, properly nested) keeps no intermediate results for the backward: `run` makes
 * them again, with the generator's state of the time of open.  The nodes hold the region; unref when it is closed. */
GmRegion *gm_region_new (GmRegionRun run, void *data, void (*destroy) (void *data));
/* `run` reads t: changing it in place before the backward is an error. */
void gm_region_watch (GmRegion *r, GmTensor *t);
void gm_region_open (GmRegion *r);
void gm_region_close (GmRegion *r);
void gm_region_unref (GmRegion *r); /* NULL is fine */

/* -- The engine -------------------------------------------------------------------------------------------- */

/* Accumulates into the leaves' grad.  grads[i] NULL: ones, for one-element roots only.
 * Errors: a root without history; saved tensors changed in place (names op, shape, versions); freed graph. */
bool gm_autograd_backward (GmTensor *const *roots, GmTensor *const *grads, int n, bool retain_graph, bool create_graph, GError **error);
/* The same, but of all leaves only those among `inputs` get their gradient added; an input that is no leaf has it added to its grad, too. */
bool gm_autograd_backward_to (GmTensor *const *roots, GmTensor *const *grads, int n, GmTensor *const *inputs, int n_inputs,
                              bool retain_graph, bool create_graph, GError **error);
/* At the end of the backward that is running on this thread; false on failure. */
typedef bool (*GmFinalCallback) (void *data, GError **error);
bool gm_autograd_queue_callback (GmFinalCallback fn, void *data, void (*destroy) (void *data), GError **error);
/* Gradients of roots with respect to `inputs`: result[i] a new reference or NULL (only with allow_unused). */
bool gm_autograd_grad (GmTensor *const *roots, GmTensor *const *grads, int n, GmTensor *const *inputs, int n_inputs,
                       bool retain_graph, bool create_graph, bool allow_unused, GmTensor **result, GError **error);

/* -- The executing builder (eager_builder.c) --------------------------------------------------------------- */

typedef struct {
  GmBuilder base;
  GPtrArray *owned; /* every tensor made or wrapped, unreffed by clear */
  GmTensor *inline_owned[8];
  int n_inline;
} GmEagerBuilder;
void gm_eager_builder_init (GmEagerBuilder *b);
void gm_eager_builder_clear (GmEagerBuilder *b); /* frees error too, if still there */
#define gm_val_from_tensor(t) ((GmVal) (t)) /* the caller keeps the tensor alive while the builder is used */
#define gm_tensor_from_val(v) ((GmTensor *) (v))

#endif
