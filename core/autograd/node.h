/* SPDX-License-Identifier: Apache-2.0
 * node.h -- the tape's parts, for the files of this room only.
 *
 * A node owns its edges (references to the nodes of its inputs) and what its gradient reads.  Nodes
 * never own the tensor they produced: a saved result is an alias without history, so no reference
 * goes round in a circle.  A leaf's node owns the leaf, the leaf knows its node weakly.  Chains may
 * be a million nodes long: nothing here recurses on edges, freeing included.
 */
#ifndef GM_AUTOGRAD_NODE_H
#define GM_AUTOGRAD_NODE_H

#include "core/autograd/node_user.h"
#include "core/base/thread.h"

typedef enum { GM_NODE_OP, GM_NODE_LEAF, GM_NODE_FUNCTION } GmNodeKind;

typedef struct {
  GmAgNode *node;
  uint32_t nr;
} GmEdge; /* node NULL: nothing flows there */

typedef struct {
  uint64_t id;
  uint32_t nr; /* output of the node */
  bool lent;   /* another list has it */
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

/* What only the gradients of some ops need. */
typedef struct {
  GmAttrs attrs;
  GmMeta in[];
} GmNodeExtra;

enum { GM_NODE_INLINE = 3 };

struct GmAgNode {
  uint32_t refs; /* atomic */
  uint8_t kind, op;
  bool released; /* a backward has freed what was saved; a function that still has its state can be taken apart */
  bool has_beside; /* some node of another function, or a function of the program, has its place between those that it stands for */
  uint64_t inside; /* outputs, by bit, whose gradients are whole inside alone: what waits for them
                      is served there (gm_autograd_through) */
  uint64_t hooked; /* outputs, by bit, on whose gradients a hook waits inside, which no list of the node's names */
  uint64_t reaches_back; /* edges, by bit, that older nodes among those that it stands for lead through (gm_autograd_reach_back) */
  uint32_t n_in, n_out;
  uint32_t holders; /* atomic: tensors whose history it is; of refs */
  uint64_t seq;        /* order of creation; leaves: UINT64_MAX */
  GmEdge *edges;       /* n_in; own_edges where they fit */
  struct GmSlot *slot; /* the engine's, while it walks */
  GArray *hooks;       /* GmAgHook, in order of registration; NULL: none */
  GArray *retained;    /* GmRetained: tensors that want this node's incoming gradient; NULL: none */
  GmNodeUser *user;    /* owned; NULL: nobody has looked at the node */
  GmRegion *region;    /* owned: has what this node saved, at `place`; NULL: the node has it */
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
  GmEdge *apart; /* a function that was taken apart for good (create_graph): per output, the node that makes it, if there is one;
                    whoever leads here leads there from then on.  NULL: it was not */
  GmAgNode *front; /* weak: the function that this node is a part of, which is shown in its place while somebody holds that; or NULL */
  GmEdge own_edges[GM_NODE_INLINE];
  GmAgNode *next; /* in the free list, or among those waiting to be freed */
};

/* What autograd knows about one tensor. */
struct GmAutograd {
  GmAgNode *node; /* owned; NULL for leaves */
  uint32_t nr;    /* which of its outputs this is */
  uint32_t epoch; /* of a base: how often its history was rewritten; of a view: the base's epoch its
                     history belongs to */
  GmTensor *grad; /* owned */
  GmAgNode *leaf; /* weak: the accumulating node, while someone has an edge to it */
  GArray *hooks;  /* of a leaf */
  GArray *post_hooks; /* GmPostHook, of a leaf; NULL: none */
  uint32_t reshaped; /* of a base: its epoch when it last took others of its own memory's elements, by which nothing was written; 0: never */
  GArray *left; /* uint32_t, of a base: its epochs when set_ gave it other memory; NULL: it has what it had */
  bool retain;
  bool unsettled; /* a view: the look before a call made its history (gm_autograd_look) */
  bool quiet; /* a view that was taken with gradients off of what has a history: it has none of its
                 own, and takes no part in its base's */
};

typedef struct {
  uint32_t nr;
  GmAutograd *ag;
} GmRetained;

/* node.c */
GmAgNode *gm_node_new (GmNodeKind kind, int n_in);
void gm_node_release (
    GmAgNode *n); /* drops what is saved, after a backward that does not retain the graph */
GmAutograd *gm_ag_get (GmTensor *t); /* makes it if need be */

/* One more, or less, tensor has n, which may be NULL, as its history. */
static inline void
gm_node_hold (GmAgNode *n)
{
  if (n && G_LIKELY (__atomic_load_n (&n->refs, __ATOMIC_RELAXED) == 1))
    n->holders++; /* nobody else has it yet */
  else if (n)
    __atomic_fetch_add (&n->holders, 1, __ATOMIC_RELAXED);
}

static inline void
gm_node_let_go (GmAgNode *n)
{
  if (n && __atomic_load_n (&n->refs, __ATOMIC_RELAXED) != 1) /* else it goes, too */
    __atomic_fetch_sub (&n->holders, 1, __ATOMIC_RELAXED);
}

/* *e leads to the node that n's output is made by, if n was taken apart. */
void gm_edge_resolve (GmEdge *e);
/* Drops what a function's output was made by. */
void gm_edge_leave_front (GmEdge *e);
/* The edge through which gradients reach t: its history, or its leaf node (made if need be).  A new
 * reference. */
GmEdge gm_edge_to (GmTensor *t);
/* t's history becomes output `nr` of n (takes the reference). */
void gm_history_set (GmTensor *t, GmAgNode *n, uint32_t nr);
/* After that: if t is the base of views, they get theirs from it. */
void gm_history_was_rewritten (GmTensor *t);
/* An alias of t whose history is `edge` (NULL node: none). */
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
void gm_region_take (GmAgNode *n);            /* n was recorded while one was open */
/* Whether that takes no run any more. */
bool gm_region_is_ready (const GmAgNode *n);
/* Brings back what n saved. */
bool gm_region_give (GmAgNode *n, GError **error);

/* tape.c */
bool gm_tracked (GmTensor *t); /* requires grad, after bringing a view's history up to date */
const char *gm_node_name (const GmAgNode *n);

/* tape.c: the base whose history t belongs to; NULL: t is no view, or one that was taken with
 * gradients off. */
GmTensor *gm_history_base (const GmTensor *t);
/* inplace.c: gives a view whose base's history was rewritten the history that follows from it. */
void gm_view_refresh (GmTensor *view);
/* set.c: whether what the view was taken of has other memory by now, and the view had not got its history when that was given.  The second one
 * gives it one that fails in the backward: nobody knows any more what it would be. */
bool gm_is_left_behind (const GmTensor *view);
void gm_view_give_up (GmTensor *view);
/* set.c: gives a view, which its base was changed under so that it is not inside of it any more, a
 * history that fails in the backward. */
void gm_view_lose_place (GmTensor *view);
bool gm_is_view_made_late (const GmAgNode *n); /* n is such a history */

/* post_hooks.c: after a gradient was added to the leaf's. */
bool gm_post_hooks_run (GmTensor *leaf, GError **error);
void gm_post_hooks_free (GArray *hooks);

/* tape.c: hook `id` is in that list from now on; NULL: in none.  The list that it was in. */
GArray *gm_hook_place (uint64_t id, GArray *list);
bool gm_hook_is_on (uint64_t id); /* it is in some list */
/* Runs the hooks for output nr over *g (owned, may be replaced). */
bool gm_hooks_run (const GArray *hooks, uint32_t nr, GmTensor **g, GError **error);

#endif
