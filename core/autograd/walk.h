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
  struct GmSlot *outer; /* the slot of a walk around this one */
  GmAgNode *node;
  uint64_t seq;     /* place among the ready slots: the node's sequence number */
  uint64_t arrived; /* order of becoming ready: breaks ties */
  uint32_t waiting; /* number of edges that have not delivered */
  bool needed;      /* something that was asked for lies at or behind this node */
  bool captured;    /* a gradient that was asked for arrives here */
  bool visited;     /* by the first pass */
  bool greeted;     /* its hooks have run */
  bool some_lead;   /* only some of its outputs lead to what was asked for */
  uint32_t edge;    /* of the first pass: the edge to follow next */
  uint32_t place;   /* in a stretch: 1 + the number of its first gradient; 0: not in a stretch */
  struct GmSlot *reader, *before; /* the slot from which the first pass came; the slot made before
                                   * this */
  GmTensor *one; /* gradients, by output; many[] if there is more than one output */
  GmTensor **many;
  const GmAgNode *asked; /* the last node that asked about this slot in gm_autograd_order_matters
                          * ... */
  uint64_t outputs;      /* ... and the outputs that it asked for */
  uint64_t leads;        /* with some_lead: the outputs that lead there, by bit */
  uint32_t *expected;    /* hook_schedule.c: per output, the edges that have not delivered;
                          * NULL: its hooks run with the node */
  uint64_t greetings;    /* outputs, by bit, whose hooks have a turn of their own */
  uint32_t turn;         /* of such a turn, whose `outer` is the node's slot: 1 + the output */
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
  GmAgNode **pins; /* roots and inputs, kept alive through the walk */
  int n_pins;
  GmCapture *captures;
  int n_captures;
  GmTensor **result; /* per captured input */
  bool accumulate, retain, create;
  bool through;   /* a function is unfolded: what its edges lead to is captured, and not entered */
  int n_edges;    /* number of its edges: later captures are of its outputs */
  bool only;      /* only those leaves get their gradient added up that were asked for */
  bool some_lead; /* some slot has some_lead set */
  bool plainly;   /* node by node from now on: a stretch has failed */
  uint64_t n_arrived;
  GArray *callbacks;     /* callbacks.c; NULL: none */
  struct GmWalk *around; /* the walk that this one is inside of */
} GmWalk;

/* one_node.c: the first is true if a backward from n alone ends in leaves that are all distinct,
 * and nothing watches it.  The second runs that backward: it steals grad, not NULL, for n's output
 * nr; w has only the fields set that say what is wanted. */
bool gm_walk_is_one_node (const GmAgNode *n);
bool gm_walk_run_one_node (GmWalk *w, GmAgNode *n, uint32_t nr, GmTensor *grad, GError **error);

/* callbacks.c: enclose the steps of a walk; leave calls the queued callbacks if all went well. */
void gm_walk_enter (GmWalk *w);
bool gm_walk_leave (GmWalk *w, bool ok, GError **error);

/* engine.c: a walk is zeroed but for the fields that say what is wanted of it.  run begins at the
 * roots; end comes after it, even if it did not run. */
bool gm_walk_run (GmWalk *w, GmTensor *const *roots, GmTensor *const *grads, int n, GError **error);
void gm_walk_end (GmWalk *w);
GmSlot *gm_walk_slot_add (GmWalk *w, GmAgNode *n); /* on top of the slot of a walk around this
                                                    * one */
/* Hands g, which may be NULL, to the tensors that retain the gradient of n's output nr. */
bool gm_walk_keep_retained (const GmAgNode *n, uint32_t nr, GmTensor *g, GError **error);
GmSlot *gm_walk_slot (const GmWalk *w, GmAgNode *n); /* NULL: the walk does not reach n */
void gm_walk_push (GmWalk *w, GmSlot *s);
GmSlot *gm_walk_pop (GmWalk *w);
/* Runs s, which was popped: its hooks, its node, and the deliveries. */
bool gm_walk_run_node (GmWalk *w, GmSlot *s, GError **error);
/* hook_schedule.c: notes that one more edge will deliver to output nr of s; that an edge has
 * delivered; runs the turn that the deliveries led to. */
void gm_walk_expect (GmWalk *w, GmSlot *s, uint32_t nr);
void gm_walk_delivered (GmWalk *w, GmSlot *s, uint32_t nr);
/* Before the first delivery: notes that one edge to output nr of s will not deliver.  True if none
 * will. */
bool gm_walk_expect_less (GmSlot *s, uint32_t nr);
bool gm_walk_take_turn (GmWalk *w, GmSlot *turn, GError **error);
/* Unfolds n for good, in these cases: anomaly mode is on; hooks on n's results, or on leaves, have
 * to run between other nodes; n has several results with hooks or retain_grad () in a walk that
 * `asks`; its gradients are added where those of other nodes come in between; or an earlier walk
 * has used up some of the nodes that n stands for.  To be called before anything in the walk leads
 * to n. */
void gm_walk_part (GmAgNode *n, bool asks);
/* Returns gm_edge_to of a tensor that a walk begins at or ends with, after gm_walk_part. */
GmEdge gm_walk_edge_to (GmTensor *t, bool asks);
static inline bool
gm_walk_may_part (const GmAgNode *n)
{
  return n
         && (n->hooks || n->retained || n->has_beside || n->reaches_back || n->released
             || G_UNLIKELY (gm_anomaly_on));
}
/* True if the walk computes some gradients only, and runs just the nodes that lead to these. */
static inline bool
gm_walk_asks (const GmWalk *w)
{
  return (!w->accumulate || w->only) && !w->through;
}
/* True if something waits for the gradient of an output of s's node that is complete only inside of
 * that node. */
bool gm_walk_waits_inside (const GmWalk *w, const GmSlot *s);
const uint32_t *gm_walk_order_of (const GmAgNode *n, bool results);
/* Runs the hooks on what has arrived at s, unless they have run. */
bool gm_walk_greet (GmWalk *w, GmSlot *s, GError **error);
/* Adds *g to the leaf's gradient, then runs the leaf's post hooks; *g is NULL afterwards if it was
 * stolen. */
bool gm_walk_run_leaf (GmWalk *w, GmTensor *leaf, GmTensor **g, GError **error);
/* Returns the gradient that a walk begins with at root i: grad, or ones.  A new reference. */
GmTensor *gm_walk_root_gradient (GmTensor *root, GmTensor *grad, int i, GError **error);
/* Runs hooks, retain_grad () and captures on what has arrived at s, before its node runs. */
bool gm_walk_arrive (GmWalk *w, GmSlot *s, GError **error);
void gm_walk_clear (GmSlot *s); /* frees what has arrived */
/* Returns t as the forward saw it, with the history of that time (create_graph).  Steals t and
 * returns a new reference. */
GmTensor *gm_walk_with_history (GmTensor *t, GmEdge edge);

/* needed_nodes.c: notes, once all edges of s were followed, which outputs of s, a function's with
 * several outputs, lead to what was asked for. */
void gm_walk_find_leads (GmWalk *w, GmSlot *s);
/* Called when all roots were visited and some slot has outputs that lead nowhere: takes nodes out
 * of the walk that have read these outputs alone; they deliver nothing; nor do nodes that wait for
 * such nodes alone. */
void gm_walk_leave_out (GmWalk *w);
/* True if what goes to output nr of s goes on to something that was asked for, or is asked for
 * itself; for a slot whose edges were followed. */
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
