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
  bool lent;   /* owned by another list */
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

/* Fields that only the gradients of some ops need. */
typedef struct {
  GmAttrs attrs;
  GmMeta in[];
} GmNodeExtra;

enum { GM_NODE_INLINE = 3 };

struct GmAgNode {
  uint32_t refs; /* atomic */
  uint8_t kind, op;
  bool released; /* a backward has freed what was saved; a function that still has its state can be
                  * unfolded */
  bool has_beside; /* a node of another function, or a function of the program, runs between the
                    * nodes that this node stands for */
  uint64_t inside; /* outputs, by bit, whose gradients are complete only inside of the function:
                    * their hooks and other waiters are served there (gm_autograd_through) */
  uint64_t hooked; /* outputs, by bit, on whose gradients a hook waits inside that is not in
                    * `hooks` */
  uint64_t reaches_back; /* edges, by bit, that older inner nodes of the function send gradients
                          * through (gm_autograd_reach_back) */
  uint32_t n_in, n_out;
  uint32_t holders;    /* atomic: number of tensors whose history it is; part of refs */
  uint64_t seq;        /* sequence number, in order of creation; leaves: UINT64_MAX */
  GmEdge *edges;       /* n_in; own_edges where they fit */
  struct GmSlot *slot; /* the engine's, while it walks */
  GArray *hooks;       /* GmAgHook, in order of registration; NULL: none */
  GArray *retained;    /* GmRetained: tensors that want this node's incoming gradient; NULL: none */
  GmNodeUser *user;    /* owned; NULL: the node was never shown to users */
  GmRegion *region;    /* owned: keeps what this node saved, at `place`; NULL: the node keeps it */
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
  GmEdge *apart;   /* of a function that stays unfolded (create_graph): per output, the node that
                    * makes it, if any; edges that lead to this node lead there from then on.  NULL:
                    * not unfolded */
  GmAgNode *front; /* weak: the function that this node is a part of, which is shown in its place
                    * while a user holds that; or NULL */
  GmEdge own_edges[GM_NODE_INLINE];
  GmAgNode *next; /* in the free list, or in the list of nodes that wait to be freed */
};

/* The autograd fields of one tensor. */
struct GmAutograd {
  GmAgNode *node;     /* owned; NULL for leaves */
  uint32_t nr;        /* number of the node's output that this is */
  uint32_t epoch;     /* of a base: how often its history was rewritten; of a view: the base's epoch
                       * that its history belongs to */
  GmTensor *grad;     /* owned */
  GmAgNode *leaf;     /* weak: the accumulating node, while an edge leads to it */
  GArray *hooks;      /* of a leaf */
  GArray *post_hooks; /* GmPostHook, of a leaf; NULL: none */
  uint32_t reshaped;  /* of a base: its epoch when it last took others of its own memory's elements,
                       * which writes nothing; 0: never */
  GArray *left; /* uint32_t, of a base: its epochs when set_ gave it other memory; NULL: it still
                 * has its first memory */
  bool retain;
  bool unplaced; /* of a view: gm_autograd_view_refresh made its history before a call */
  bool quiet;    /* a view that was taken, with gradients off, of a tensor with a history: it has no
                  * history of its own, and takes no part in its base's */
};

typedef struct {
  uint32_t nr;
  GmAutograd *ag;
} GmRetained;

/* node.c */
GmAgNode *gm_node_new (GmNodeKind kind, int n_in);
void gm_node_release (
    GmAgNode *n); /* frees what is saved, after a backward that does not retain the graph */
GmAutograd *gm_ag_get (GmTensor *t); /* made if need be */

/* Notes that one more tensor, or one fewer, has n, which may be NULL, as its history. */
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

/* Lets *e lead to the node that makes n's output, if n was unfolded. */
void gm_edge_resolve (GmEdge *e);
/* Drops *e, the node that makes a function's output. */
void gm_edge_leave_front (GmEdge *e);
/* Returns the edge through which gradients reach t: its history, or its leaf node (made if need
 * be).  A new reference. */
GmEdge gm_edge_to (GmTensor *t);
/* Makes output `nr` of n t's history; steals the reference to n. */
void gm_history_set (GmTensor *t, GmAgNode *n, uint32_t nr);
/* To be called after that: if t is a base, its views become stale. */
void gm_history_was_rewritten (GmTensor *t);
/* Returns an alias of t whose history is `edge` (NULL node: none). */
GmTensor *gm_alias_with_edge (GmTensor *t, GmEdge edge);
GmAgNode *gm_function_node (const GmAgFunction *fn, void *state, int n_in, int n_out);

/* node_hooks.c */
void gm_node_user_free (GmNodeUser *u); /* NULL is fine */
bool gm_node_is_hooked (const GmAgNode *n);
bool gm_node_run_before (GmAgNode *n, GmTensor **grads, GError **error);
bool gm_node_run_after (GmAgNode *n, GmTensor **results, GmTensor *const *grads, GError **error);

/* saved.c */
typedef struct GmSavedHooks GmSavedHooks;
extern GM_THREAD GmSavedHooks *gm_saved_hooks_now; /* the innermost pair; NULL: none */

/* checkpoint.c */
extern GM_THREAD GmRegion *gm_region_now; /* the open one, innermost; NULL: none */
void gm_region_take (GmAgNode *n);        /* hands a node that was recorded while a region is
                                           * open to the region */
/* True if what n saved is there without a further run of its region. */
bool gm_region_is_ready (const GmAgNode *n);
/* Restores what n saved. */
bool gm_region_give (GmAgNode *n, GError **error);

/* tape.c */
bool gm_tracked (GmTensor *t); /* requires grad, after a refresh of a stale view */
const char *gm_node_name (const GmAgNode *n);

/* tape.c: returns the base whose history t belongs to; NULL: t is no view, or a view that was taken
 * with gradients off. */
GmTensor *gm_history_base (const GmTensor *t);
/* inplace.c: refreshes a stale view: gives it the history that follows from its base's. */
void gm_view_refresh (GmTensor *view);
/* inplace_metadata.c: the first is true if the tensor that the view was taken of has other memory
 * by now, and the view was stale when it took that.  The second gives such a view a history that
 * fails in the backward, as its true history is unknown by now. */
bool gm_is_left_behind (const GmTensor *view);
void gm_view_give_up (GmTensor *view);
/* inplace_metadata.c: gives a view that is not inside of its base any more, because the base was
 * changed, a history that fails in the backward. */
void gm_view_lose_place (GmTensor *view);
bool gm_is_view_made_late (const GmAgNode *n); /* n is a history made by a refresh */

/* post_hooks.c: runs the hooks after a gradient was added to the leaf's. */
bool gm_post_hooks_run (GmTensor *leaf, GError **error);
void gm_post_hooks_free (GArray *hooks);

/* tape.c: notes that hook `id` is in `list` from now on; NULL: in none.  Returns the list that it
 * was in. */
GArray *gm_hook_place (uint64_t id, GArray *list);
bool gm_hook_is_on (uint64_t id); /* true if it is in a list */
/* Runs the hooks for output nr over *g (owned, may be replaced). */
bool gm_hooks_run (const GArray *hooks, uint32_t nr, GmTensor **g, GError **error);

#endif
