/* SPDX-License-Identifier: Apache-2.0
 * node_user.h -- nodes of the tape as users see them (node_hooks.c).
 */
#ifndef GM_AUTOGRAD_NODE_USER_H
#define GM_AUTOGRAD_NODE_USER_H

#include "core/autograd/autograd.h"

/* What the gradient of t goes to: the node that made it, or a leaf's own.  A new reference, NULL if it requires no grad; *nr: as which of the
 * node's outputs. */
GmAgNode *gm_tensor_node (GmTensor *t, uint32_t *nr);
const char *gm_node_text (const GmAgNode *n); /* "MulBackward0", "AccumulateGrad" */
uint32_t gm_node_n_edges (const GmAgNode *n);
GmAgNode *gm_node_edge (GmAgNode *n, uint32_t i, uint32_t *nr); /* borrowed; NULL: nothing flows there */
uint32_t gm_node_n_outputs (const GmAgNode *n);
/* An earlier walk has taken the function apart: no hook on the node runs any more. */
bool gm_node_is_apart (const GmAgNode *n);
/* A backward that keeps no graph has freed what the node saved. */
bool gm_node_is_used_up (const GmAgNode *n);
/* The function calls the program's functions between the operations that it stands for: where a leaf has hooks as well, a backward takes it
 * apart first, and each runs in its turn. */
void gm_node_calls_program (GmAgNode *n);
/* A backward that failed inside of the function has used up a part of what it saved: the next one takes it apart first. */
void gm_node_leave_parts (GmAgNode *n);
GmTensor *gm_node_leaf (const GmAgNode *n); /* borrowed; NULL: it is no leaf's */
/* A tensor with that history and without elements, like `meta` (NULL: a scalar), or the leaf: for who names a place in the history. */
GmTensor *gm_node_stand_in (GmAgNode *n, uint32_t nr, const GmMeta *meta);
GmAgNode *gm_node_ref (GmAgNode *n);

/* changed: gradients, each may be NULL and may be replaced (the old one unreffed); others: to look at.  Before the node: the gradients of its
 * outputs, and none.  After it: those that it gives, by edge, and those of its outputs.  A leaf's node gives none. */
typedef bool (*GmNodeHook) (void *data, GmTensor **changed, uint32_t n, GmTensor *const *others, uint32_t n_others, GError **error);
uint64_t gm_node_add_hook (GmAgNode *n, bool before, GmNodeHook hook, void *data, void (*destroy) (void *data));
bool gm_node_remove_hook (GmAgNode *n, bool before, uint64_t id);
/* What whoever shows nodes to users keeps there. */
typedef struct {
  void *object;   /* borrowed: what stands for it while that lives */
  void *metadata; /* owned through drop_metadata */
  void (*drop_metadata) (void *metadata);
  GArray *pre, *post; /* private */
  char *where;        /* owned: where the forward was, for anomaly.h; NULL: nobody knows */
} GmNodeUser;
GmNodeUser *gm_node_user (GmAgNode *n); /* made if need be */

#endif
