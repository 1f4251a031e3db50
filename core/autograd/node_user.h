/* SPDX-License-Identifier: Apache-2.0
 * node_user.h -- nodes of the tape as users see them (node_hooks.c).
 */
#ifndef GM_AUTOGRAD_NODE_USER_H
#define GM_AUTOGRAD_NODE_USER_H

#include "core/autograd/autograd.h"

/* Returns the node that the gradient of t goes to: the node that made t, or a leaf's own.  A new
 * reference, NULL if t requires no grad.  *nr: the number of the node's output that t is. */
GmAgNode *gm_tensor_node (GmTensor *t, uint32_t *nr);
const char *gm_node_text (const GmAgNode *n); /* "MulBackward0", "AccumulateGrad" */
uint32_t gm_node_n_edges (const GmAgNode *n);
/* borrowed; NULL: no gradient flows there */
GmAgNode *gm_node_edge (GmAgNode *n, uint32_t i, uint32_t *nr);
uint32_t gm_node_n_outputs (const GmAgNode *n);
/* True if an earlier walk has unfolded the function: no hook on the node runs any more. */
bool gm_node_is_apart (const GmAgNode *n);
/* True if a backward that keeps no graph has freed what the node saved. */
bool gm_node_is_used_up (const GmAgNode *n);
/* Tells that the function calls the program's functions between the operations that it stands for.
 * Where a leaf has hooks as well, a backward unfolds it first, and each runs in its turn. */
void gm_node_calls_program (GmAgNode *n);
/* Tells that a backward that failed inside of the function has used up a part of what it saved: the
 * next one unfolds it first. */
void gm_node_leave_parts (GmAgNode *n);
GmTensor *gm_node_leaf (const GmAgNode *n); /* borrowed; NULL: it is no leaf's */
/* Returns a tensor with output nr of n as its history and without elements, like `meta` (NULL: a
 * scalar), or the leaf: it names a place in the history. */
GmTensor *gm_node_stand_in (GmAgNode *n, uint32_t nr, const GmMeta *meta);
GmAgNode *gm_node_ref (GmAgNode *n);

/* A hook on a node.  changed: gradients, each may be NULL and may be replaced (the old one
 * unreffed); others: read only.  Before the node: changed are the gradients of its outputs, others
 * is empty.  After it: changed are the gradients that it returns, by edge, others those of its
 * outputs.  A leaf's node returns none. */
typedef bool (*GmNodeHook) (void *data, GmTensor **changed, uint32_t n, GmTensor *const *others,
                            uint32_t n_others, GError **error);
uint64_t gm_node_add_hook (GmAgNode *n, bool before, GmNodeHook hook, void *data,
                           void (*destroy) (void *data));
bool gm_node_remove_hook (GmAgNode *n, bool before, uint64_t id);
/* Fields that the front end keeps with a node it shows to users. */
typedef struct {
  void *object;   /* borrowed: stands for the node while the object lives */
  void *metadata; /* owned through drop_metadata */
  void (*drop_metadata) (void *metadata);
  GArray *pre, *post; /* private */
  char *where;        /* owned: where the forward was, for anomaly.h; NULL: unknown */
} GmNodeUser;
GmNodeUser *gm_node_user (GmAgNode *n); /* made if need be */

#endif
