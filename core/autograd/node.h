/* SPDX-License-Identifier: Apache-2.0
 * node.h -- the tape's parts, for the files of this room only.
 *
 * A node owns its edges (references to the nodes of its inputs) and what its gradient reads.  Nodes
 * never own the tensor they produced: a saved result is an alias without history, so references
 * form no cycle.  A leaf's node owns the leaf, the leaf refers to its node weakly.  Chains may be a
 * million nodes long: nothing here recurses on edges, freeing included.
 */
#ifndef GM_AUTOGRAD_NODE_H
#define GM_AUTOGRAD_NODE_H

#include "core/autograd/node_user.h"
#include "core/base/thread.h"

typedef enum { GM_NODE_OP, GM_NODE_LEAF, GM_NODE_FUNCTION } GmNodeKind;

typedef struct {
  GmAgNode *node;
  uint32_t nr;
} GmEdge; /* node NULL: no gradient flows there */

typedef struct {
  uint64_t id;
  uint32_t nr; /* output of the node */
  bool lent;   /* lent by the node that this node is a part of, which owns the hook */
  GmTensorHook fn;
  void *data;
  void (*destroy) (void *data);
} GmAgHook;

typedef struct {
  uint64_t id;
  GmTensorPostHook fn;
  void *data;
  void (*destroy) (void *data);
} GmPostHook;

typedef struct {
  uint64_t id;
  GmNodeHook fn;
  void *data;
  void (*destroy) (void *data);
} GmNodeHookRow;

/* Fields of a node that only the gradients of some operators need. */
typedef struct {
  GmAttrs attrs;
  GmMeta in[];
} GmNodeExtra;

enum { GM_NODE_INLINE = 3 };

struct GmAgNode {
  uint32_t refs; /* atomic */
  uint8_t kind, op;
  bool released;   /* a backward has freed what was saved; a function that still has its state can
                    * be unfolded */
  bool has_beside; /* a node of another function, or a host function, runs between the nodes
                    * that this node stands for */
  uint64_t inside; /* outputs, by bit, to whose gradients nodes inside of the function
                    * contribute: their hooks, retain_grad () and captures are served there
                    * (gm_autograd_through) */
  uint64_t hooked; /* outputs, by bit, on whose gradients hooks run inside of the function that
                    * are not in `hooks` */
  uint64_t reaches_back; /* edges, by bit, along which older inner nodes of the function send
                          * gradients (gm_autograd_reach_back) */
  uint32_t n_in, n_out;
  uint32_t holders;    /* atomic: number of tensors that have the node as their history; each
                        * also counts in refs */
  uint64_t seq;        /* sequence number, in order of creation; leaves: UINT64_MAX */
  GmEdge *edges;       /* n_in; own_edges where they fit */
  struct GmSlot *slot; /* the innermost running walk's slot of this node; NULL: none */
  GArray *hooks;       /* GmAgHook, in order of registration; NULL: none */
  GArray *retained;    /* GmRetained: tensors with retain_grad (), which get the gradients of
                        * this node's outputs; NULL: none */
  GmNodeUser *user;    /* owned; NULL: the node was never shown to users */
  GmRegion *region;    /* owned: a checkpoint's region, which keeps what this node saved, at
                        * `place`; NULL: the node keeps it */
  uint32_t place;
  union {
    struct {
      GmSaved saved_in[GM_NODE_INLINE], saved_out; /* LEAF: saved_in[0].t is the leaf */
      GmNodeExtra *extra;
    };
    struct {
      const GmAgFunction *fn;
      void *state;
    };
  };
  GmEdge *apart;   /* of a function that stays unfolded (create_graph): per output, the node
                    * that makes it, if any; edges to this node are redirected to that node.
                    * NULL: not unfolded */
  GmAgNode *front; /* weak: the function that this node is a part of; users that hold the
                    * function's node are shown it in place of this node.  NULL: none */
  GmEdge own_edges[GM_NODE_INLINE];
  GmAgNode *next; /* in the free list, or in the list of nodes that wait to be freed */
};

/* The autograd fields of one tensor, made when the first of them is needed. */
struct GmAutograd {
  GmAgNode *node;     /* owned; NULL for leaves */
  uint32_t nr;        /* the tensor is this output of `node` */
  uint32_t epoch;     /* of a base: number of times that its history was rewritten; of a view:
                       * the base's epoch that its history belongs to */
  GmTensor *grad;     /* owned */
  GmAgNode *leaf;     /* weak: the accumulating node, while an edge leads to it */
  GArray *hooks;      /* of a leaf */
  GArray *post_hooks; /* GmPostHook, of a leaf; NULL: none */
  uint32_t reshaped;  /* of a base: its epoch when as_strided_ () or resize_ () last moved it
                       * within its memory, without a write; 0: never */
  GArray *left; /* uint32_t, of a base: its epochs when set_ gave it other memory; NULL: it has
                 * its first memory */
  bool retain;
  bool unplaced; /* of a view: gm_autograd_view_refresh made its history before a call */
  bool quiet;    /* a view that was taken, with gradients off, of a tensor with a history: it has no
                  * history of its own, and takes no part in its base's */
};

typedef struct {
  uint32_t nr;
  GmAutograd *ag;
} GmRetained;

/* node.c: returns a new node with n_in empty edges. */
GmAgNode *gm_node_new (GmNodeKind kind, int n_in);
/* Frees what n has saved, after a backward without retain_graph. */
void gm_node_release (GmAgNode *n);
GmAutograd *gm_ag_get (GmTensor *t); /* returns t's record, made if there is none; borrowed */

/* Counts one more tensor that has n as its history; NULL is fine.  gm_node_let_go counts one
 * fewer. */
static inline void
gm_node_hold (GmAgNode *n)
{
  if (n && G_LIKELY (__atomic_load_n (&n->refs, __ATOMIC_RELAXED) == 1))
    n->holders++; /* not shared yet */
  else if (n)
    __atomic_fetch_add (&n->holders, 1, __ATOMIC_RELAXED);
}

static inline void
gm_node_let_go (GmAgNode *n)
{
  if (n && __atomic_load_n (&n->refs, __ATOMIC_RELAXED) != 1) /* else n is freed, too */
    __atomic_fetch_sub (&n->holders, 1, __ATOMIC_RELAXED);
}

/* Redirects *e from a function that stays unfolded to the node that makes this output, if there is
 * one. */
void gm_edge_resolve (GmEdge *e);
/* Drops the reference in *e, a node that makes an output of a function: it is no longer a part of
 * that function. */
void gm_edge_leave_front (GmEdge *e);
/* Returns the edge along which gradients reach t: to its history, or to its leaf node, which is
 * made if there is none.  With a new reference to the node; an empty edge if t requires no grad. */
GmEdge gm_edge_to (GmTensor *t);
/* Makes output `nr` of n the history of t; steals the reference to n. */
void gm_history_set (GmTensor *t, GmAgNode *n, uint32_t nr);
/* Makes t's views stale if t is a base; to be called after gm_history_set. */
void gm_history_was_rewritten (GmTensor *t);
/* Returns a new alias of t whose history is `edge` (node NULL: none). */
GmTensor *gm_alias_with_edge (GmTensor *t, GmEdge edge);
GmAgNode *gm_function_node (const GmAgFunction *fn, void *state, int n_in, int n_out);

/* node_hooks.c: frees the data and the hooks that users left with a node; NULL is fine. */
void gm_node_user_free (GmNodeUser *u); /* NULL is fine */
bool gm_node_is_hooked (const GmAgNode *n);
bool gm_node_run_before (GmAgNode *n, GmTensor **grads, GError **error);
bool gm_node_run_after (GmAgNode *n, GmTensor **results, GmTensor *const *grads, GError **error);

/* saved.c */
typedef struct GmSavedHooks GmSavedHooks;
extern GM_THREAD GmSavedHooks *gm_saved_hooks_now; /* this thread's innermost pair; NULL: none */

/* checkpoint.c */
extern GM_THREAD GmRegion *gm_region_now; /* this thread's innermost open region; NULL: none */
void gm_region_take (GmAgNode *n);        /* gives a node that was recorded while a region is
                                           * open to that region */
/* True if the region has what n saved already, so that it need not run again. */
bool gm_region_is_ready (const GmAgNode *n);
/* Gives n back what it saved; runs the region again if need be.  False with *error set on
 * failure. */
bool gm_region_give (GmAgNode *n, GError **error);

/* tape.c */
bool gm_tracked (GmTensor *t); /* true if t requires grad, after a refresh of t if it is a stale
                                * view */
const char *gm_node_name (const GmAgNode *n);

/* tape.c: returns the base whose history includes that of t, borrowed; NULL: t is no view, or a
 * view that was taken with gradients off. */
GmTensor *gm_history_base (const GmTensor *t);
/* inplace.c: gives a stale view the history that starts from its base's present history. */
void gm_view_refresh (GmTensor *view);
/* inplace_metadata.c.  gm_is_left_behind: true if set_ gave the view's base other memory after the
 * view was taken, and the view was stale then.  gm_view_give_up: gives such a view a history that
 * fails in the backward, as its true history cannot be made any more. */
bool gm_is_left_behind (const GmTensor *view);
void gm_view_give_up (GmTensor *view);
/* inplace_metadata.c: gives a view that reaches outside of its base, because the base was changed
 * in place, a history that fails in the backward. */
void gm_view_lose_place (GmTensor *view);
bool gm_is_view_made_late (const GmAgNode *n); /* true if a refresh of a view made n */

/* post_hooks.c: runs the post hooks of a leaf, after a gradient was added to its grad.  False with
 * *error set on failure. */
bool gm_post_hooks_run (GmTensor *leaf, GError **error);
void gm_post_hooks_free (GArray *hooks);

/* tape.c: notes that hook `id` is in `list` from now on; NULL: in no list.  Returns its former
 * list. */
GArray *gm_hook_place (uint64_t id, GArray *list);
bool gm_hook_is_on (uint64_t id); /* true if hook `id` is in a list */
/* Runs the hooks for output nr on the gradient *g, which they may replace (*g is owned).  False
 * with *error set on failure. */
bool gm_hooks_run (const GArray *hooks, uint32_t nr, GmTensor **g, GError **error);

#endif
