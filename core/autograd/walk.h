/* SPDX-License-Identifier: Apache-2.0
 * walk.h -- one walk of the engine, for engine.c, for what starts one (backward.c) and for what does many of its steps at once (stretch.c).
 *
 * Invariant: between two steps a walk is whole: gradients that have arrived are in the slots, `waiting` says how many are to come, the
 * heap holds what is ready.  So whoever takes steps out of the heap and leaves the same behind may have done them in any way.
 */
#ifndef GM_AUTOGRAD_WALK_H
#define GM_AUTOGRAD_WALK_H

#include "core/autograd/anomaly.h"
#include "core/autograd/node.h"

typedef struct GmSlot {
  struct GmWalk *walk;
  struct GmSlot *outer; /* the slot of a walk around this one */
  GmAgNode *node;
  uint64_t seq;     /* its place among the ready ones: the node's number */
  uint64_t arrived; /* order of becoming ready: breaks ties */
  uint32_t waiting; /* edges that have not delivered */
  bool needed;      /* something that was asked for lies at or behind this node */
  bool captured;    /* a gradient that was asked for arrives here */
  bool visited;     /* by the first pass */
  bool greeted;     /* its hooks have run */
  bool some_lead;   /* not all of its outputs lead to what was asked for */
  uint32_t edge;    /* of the first pass: which to follow next */
  uint32_t place;   /* in a stretch: 1 + the number of its first gradient; 0: it is in none */
  struct GmSlot *reader, *before; /* from where the first pass came; the slot made before this */
  GmTensor *one;    /* gradients, by output; many[] if there is more than one output */
  GmTensor **many;
  const GmAgNode *asked; /* the node that has asked about this slot last ... */
  uint64_t outputs;      /* ... and for which outputs */
  uint64_t leads;        /* with some_lead: those that do, by bit */
  uint32_t *expected;    /* greet.c: per output, the edges that have not delivered; NULL: its hooks run with the node */
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
  GmSlot *last;     /* the slot made last; `before` leads to all */
  GmSlot **heap;    /* the ready ones, a max-heap by sequence number; few, or allocated */
  GmSlot *few[GM_WALK_FEW];
  uint32_t n_heap, heap_room;
  GmAgNode **pins;  /* roots and inputs, kept alive through the walk */
  int n_pins;
  GmCapture *captures;
  int n_captures;
  GmTensor **result; /* of the captures */
  bool accumulate, retain, create;
  bool through; /* a function is taken apart: what its edges lead to is captured, and not entered */
  int n_edges;  /* its edges: captures from here on are of its outputs */
  bool only;    /* of the leaves, only what was asked for is added up */
  bool some_lead; /* there are slots of that kind */
  bool plainly;   /* node by node from now on: a stretch has failed */
  uint64_t n_arrived;
  GArray *callbacks;     /* callbacks.c; NULL: none */
  struct GmWalk *around; /* the walk that this one is inside of */
} GmWalk;

/* one_node.c: whether a backward from n alone ends in leaves of which no two are one, and nobody looks on.  run: takes grad, which is there,
 * for n's output nr; of w, what is wanted is set. */
bool gm_walk_is_one_node (const GmAgNode *n);
bool gm_walk_run_one_node (GmWalk *w, GmAgNode *n, uint32_t nr, GmTensor *grad, GError **error);

/* callbacks.c: around the steps of a walk; end calls what was queued if all went well. */
void gm_walk_enter (GmWalk *w);
bool gm_walk_leave (GmWalk *w, bool ok, GError **error);

/* engine.c: a walk is zeroed but for what is wanted of it.  run begins at the roots; end comes after it, whether it ran or not. */
bool gm_walk_run (GmWalk *w, GmTensor *const *roots, GmTensor *const *grads, int n, GError **error);
void gm_walk_end (GmWalk *w);
GmSlot *gm_walk_slot_add (GmWalk *w, GmAgNode *n); /* on top of that of a walk around this one */
/* g, which may be NULL, for the tensors that want the gradient of n's output nr. */
bool gm_walk_keep_retained (const GmAgNode *n, uint32_t nr, GmTensor *g, GError **error);
GmSlot *gm_walk_slot (const GmWalk *w, GmAgNode *n); /* NULL: the walk does not come there */
void gm_walk_push (GmWalk *w, GmSlot *s);
GmSlot *gm_walk_pop (GmWalk *w);
/* All that happens to s, which was popped. */
bool gm_walk_run_node (GmWalk *w, GmSlot *s, GError **error);
/* greet.c: one more edge will deliver to output nr of s; one has delivered; a turn that they led to. */
void gm_walk_expect (GmWalk *w, GmSlot *s, uint32_t nr);
void gm_walk_delivered (GmWalk *w, GmSlot *s, uint32_t nr);
/* Before the first delivery: one edge to output nr of s will not deliver.  Whether none will. */
bool gm_walk_expect_less (GmSlot *s, uint32_t nr);
bool gm_walk_take_turn (GmWalk *w, GmSlot *turn, GError **error);
/* Takes n apart for good, if each node is to be looked at, or its hooks, or its leaves', wait, or its gradients are added, where other nodes' turns
 * come in between, or hooks on some of its results have no turn in a walk that `asks`; or if an earlier walk has used up some of the nodes that it
 * stands for.  Before anything in the walk leads to n. */
void gm_walk_part (GmAgNode *n, bool asks);
/* gm_edge_to, for what a walk begins at or ends with. */
GmEdge gm_walk_edge_to (GmTensor *t, bool asks);
static inline bool
gm_walk_may_part (const GmAgNode *n)
{
  return n && (n->hooks || n->retained || n->has_beside || n->reaches_back || n->released || G_UNLIKELY (gm_anomaly_on));
}
/* Whether it is for some gradients, and runs what leads to these alone. */
static inline bool
gm_walk_asks (const GmWalk *w)
{
  return (!w->accumulate || w->only) && !w->through;
}
/* Whether something waits for the gradient of an output of s's node that is whole inside of that alone. */
bool gm_walk_waits_inside (const GmWalk *w, const GmSlot *s);
const uint32_t *gm_walk_order_of (const GmAgNode *n, bool results);
/* Runs the hooks on what has arrived at s, unless they have run. */
bool gm_walk_greet (GmWalk *w, GmSlot *s, GError **error);
/* Adds *g to the leaf's gradient, then what waits for that; it is NULL afterwards if it was taken over. */
bool gm_walk_run_leaf (GmWalk *w, GmTensor *leaf, GmTensor **g, GError **error);
/* The gradient that a walk begins with at root i: grad, or what is made up.  A new reference. */
GmTensor *gm_walk_root_gradient (GmTensor *root, GmTensor *grad, int i, GError **error);
/* What happens to what has arrived at s before its node runs. */
bool gm_walk_arrive (GmWalk *w, GmSlot *s, GError **error);
void gm_walk_clear (GmSlot *s); /* drops what has arrived */
/* t as the forward saw it, with the history of that time (create_graph).  Takes and gives a reference. */
GmTensor *gm_walk_with_history (GmTensor *t, GmEdge edge);

/* leads.c: all edges of s, a function's with several outputs, were followed: which of these lead on. */
void gm_walk_find_leads (GmWalk *w, GmSlot *s);
/* All roots were visited, and some slot has outputs that lead nowhere: what has read these alone does not run and delivers nothing; nor does what
 * waits for nobody else. */
void gm_walk_leave_out (GmWalk *w);
/* Whether what goes to output nr of s goes on to something that was asked for, or is asked for itself; for a slot whose edges were followed. */
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
