/* SPDX-License-Identifier: Apache-2.0
 * walk.h -- one walk of the engine, for engine.c, for its starters (backward.c) and for stretches,
 * which do many of its steps at once (backward_stretch.c).
 *
 * Invariant: between two steps a walk is whole: gradients that have arrived are in the slots,
 * `waiting` counts those that are to come, the heap holds the ready nodes.  So code that takes
 * steps out of the heap and leaves the same state behind may do them in any way.
 */
#ifndef GM_AUTOGRAD_WALK_H
#define GM_AUTOGRAD_WALK_H

#include "core/autograd/anomaly.h"
#include "core/autograd/node.h"

typedef struct GmSlot {
  struct GmWalk *walk;
  struct GmSlot *outer; /* the same node's slot in a walk around this one; NULL: none */
  GmAgNode *node;
  uint64_t seq;     /* the node's sequence number: ready slots run in descending order */
  uint64_t arrived; /* number of slots that became ready before: breaks ties */
  uint32_t waiting; /* number of edges that have yet to deliver a gradient, or to turn out
                     * empty */
  bool needed;      /* a gradient that was asked for lies behind this node */
  bool captured;    /* a gradient that was asked for arrives at this node */
  bool visited;     /* the first pass has reached it */
  bool greeted;     /* the hooks on its gradients have run */
  bool some_lead;   /* only some of its outputs contribute to gradients that were asked for */
  uint32_t edge;    /* of the first pass: the edge to follow next */
  uint32_t place;   /* in a stretch: 1 + the number of its first gradient; 0: not in a stretch */
  struct GmSlot *reader, *before; /* the slot from which the first pass came; the slot made before
                                   * this */
  GmTensor *one; /* the gradient of its only output; with several outputs, many[nr] */
  GmTensor **many;
  const GmAgNode *asked; /* the last node that asked about this slot in gm_autograd_order_matters
                          * ... */
  uint64_t outputs;      /* ... and the outputs that the node sends gradients to */
  uint64_t leads;        /* with some_lead: the outputs, by bit, that contribute to gradients
                          * that were asked for */
  uint32_t *expected;    /* hook_schedule.c: per output, number of edges that have yet to
                          * deliver; NULL: its hooks run together with the node */
  uint64_t greetings;    /* outputs, by bit, whose hooks run as steps of their own (turns),
                          * before the node */
  uint32_t turn;         /* of a slot that is such a turn (`outer` is the node's slot): 1 + the
                          * output; else 0 */
} GmSlot;

typedef struct {
  GmAgNode *node;
  uint32_t nr;
  int input;
} GmCapture;

enum { GM_WALK_FEW = 16 };

typedef struct GmWalk {
  GmSlot *last;  /* the slot made last; `before` leads to all others */
  GmSlot **heap; /* the ready slots, a max-heap by sequence number; few, or allocated */
  GmSlot *few[GM_WALK_FEW];
  uint32_t n_heap, heap_room;
  GmAgNode **pins; /* nodes of roots and inputs, referenced until the walk ends */
  int n_pins;
  GmCapture *captures;
  int n_captures;
  GmTensor **result; /* per captured input */
  bool accumulate, retain, create;
  bool through;   /* the walk runs within a function that is unfolded: it captures what goes
                   * along the function's edges, and does not follow them */
  int n_edges;    /* through: number of the function's edges; captures from this number on are
                   * of its outputs */
  bool only;      /* only those leaves that were asked for get their gradient */
  bool some_lead; /* some slot has some_lead set */
  bool plainly;   /* the walk goes on node by node, because a stretch has failed */
  uint64_t n_arrived;
  GArray *callbacks;     /* callbacks.c; NULL: none */
  struct GmWalk *around; /* the walk that this one is inside of */
} GmWalk;

/* one_node.c.  gm_walk_is_one_node: true if a backward from n alone ends in distinct leaves, and no
 * hook or capture needs more.  gm_walk_run_one_node: runs that backward; steals grad, the gradient
 * of n's output nr, not NULL.  w has only the fields set that say what is wanted. */
bool gm_walk_is_one_node (const GmAgNode *n);
bool gm_walk_run_one_node (GmWalk *w, GmAgNode *n, uint32_t nr, GmTensor *grad, GError **error);

/* callbacks.c: gm_walk_enter and gm_walk_leave enclose the steps of a walk.  The latter calls the
 * queued callbacks if ok, and drops them. */
void gm_walk_enter (GmWalk *w);
bool gm_walk_leave (GmWalk *w, bool ok, GError **error);

/* engine.c.  The caller zeroes a walk, but for the fields that say what is wanted of it.
 * gm_walk_run walks from the n roots; gm_walk_end frees the walk's memory, and is called even if it
 * did not run. */
bool gm_walk_run (GmWalk *w, GmTensor *const *roots, GmTensor *const *grads, int n, GError **error);
void gm_walk_end (GmWalk *w);
GmSlot *gm_walk_slot_add (GmWalk *w, GmAgNode *n); /* stacked on the slot of a walk around this
                                                    * one */
/* Adds g, which may be NULL, to the grad of the tensors that retain the gradient of n's output
 * nr. */
bool gm_walk_keep_retained (const GmAgNode *n, uint32_t nr, GmTensor *g, GError **error);
GmSlot *gm_walk_slot (const GmWalk *w, GmAgNode *n); /* NULL: the walk does not reach n */
void gm_walk_push (GmWalk *w, GmSlot *s);
GmSlot *gm_walk_pop (GmWalk *w);
/* Runs the step s, which was popped from the heap: its hooks, its node, and the delivery of its
 * results. */
bool gm_walk_run_node (GmWalk *w, GmSlot *s, GError **error);
/* hook_schedule.c.  gm_walk_expect: notes that one more edge will deliver to output nr of s;
 * gm_walk_delivered: that an edge has delivered; gm_walk_take_turn: runs the hooks of one output
 * when all of its edges have delivered. */
void gm_walk_expect (GmWalk *w, GmSlot *s, uint32_t nr);
void gm_walk_delivered (GmWalk *w, GmSlot *s, uint32_t nr);
/* Notes, before the first delivery, that one edge to output nr of s will not deliver.  True if no
 * edge to s will. */
bool gm_walk_expect_less (GmSlot *s, uint32_t nr);
bool gm_walk_take_turn (GmWalk *w, GmSlot *turn, GError **error);
/* Unfolds n for good, if n can be unfolded, in these cases: anomaly mode is on; hooks on n's
 * results, or on leaves, have to run between other nodes; n has several results with hooks or
 * retain_grad () in a walk that `asks` for some gradients; gradients of other nodes have to be
 * added between n's; or an earlier walk has used up some of the nodes that n stands for.  To be
 * called before anything in the walk leads to n. */
void gm_walk_part (GmAgNode *n, bool asks);
/* Returns the edge (gm_edge_to) of a tensor that a walk begins at or ends with, redirected if
 * gm_walk_part unfolds its node. */
GmEdge gm_walk_edge_to (GmTensor *t, bool asks);
static inline bool
gm_walk_may_part (const GmAgNode *n)
{
  return n
         && (n->hooks || n->retained || n->has_beside || n->reaches_back || n->released
             || G_UNLIKELY (gm_anomaly_on));
}
/* True if the walk computes only some gradients, and runs just the nodes that contribute to
 * them. */
static inline bool
gm_walk_asks (const GmWalk *w)
{
  return (!w->accumulate || w->only) && !w->through;
}
/* True if a hook, retain_grad () or capture waits for the gradient of an output of s's node to
 * which nodes inside of that node contribute: it is served there, not at s. */
bool gm_walk_waits_inside (const GmWalk *w, const GmSlot *s);
const uint32_t *gm_walk_order_of (const GmAgNode *n, bool results);
/* Runs the hooks on the gradients that have arrived at s, unless they have run. */
bool gm_walk_greet (GmWalk *w, GmSlot *s, GError **error);
/* Adds *g to the leaf's grad, then runs the leaf's post hooks.  *g is NULL afterwards if it became
 * the grad itself.  False with *error set on failure. */
bool gm_walk_run_leaf (GmWalk *w, GmTensor *leaf, GmTensor **g, GError **error);
/* Returns a new reference to the gradient that a walk begins with at root number i: grad, cast to
 * the root's dtype, or ones for NULL.  NULL: *error. */
GmTensor *gm_walk_root_gradient (GmTensor *root, GmTensor *grad, int i, GError **error);
/* Serves, before the node of s runs, all that waits for its gradients: hooks, retain_grad () and
 * captures. */
bool gm_walk_arrive (GmWalk *w, GmSlot *s, GError **error);
void gm_walk_clear (GmSlot *s); /* frees what has arrived */
/* Returns t with the history `edge`, which it had when it was saved (for create_graph).  Steals t
 * and returns a new reference. */
GmTensor *gm_walk_with_history (GmTensor *t, GmEdge edge);

/* needed_nodes.c: notes in s, the slot of a function with several outputs whose edges have all been
 * followed, which outputs contribute to gradients that were asked for. */
void gm_walk_find_leads (GmWalk *w, GmSlot *s);
/* Takes out of the walk the nodes that send gradients only to outputs that do not contribute, or to
 * other such nodes: they do not run, and nothing waits for them.  Called when all roots were
 * visited and some slot has such outputs. */
void gm_walk_leave_out (GmWalk *w);
/* True if the gradient of output nr of s is asked for, or contributes to one that is; for a slot
 * whose edges have been followed. */
static inline bool
gm_walk_leads_on (const GmSlot *s, uint32_t nr)
{
  return G_LIKELY (!s->some_lead) ? s->needed || s->captured : s->leads >> MIN (nr, 63) & 1;
}

static inline GmTensor **
gm_walk_gradient (GmSlot *s, uint32_t nr)
{
  return s->many ? &s->many[nr] : &s->one;
}

#endif
