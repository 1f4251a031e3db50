/* SPDX-License-Identifier: Apache-2.0
 * node_user.h -- nodes of the tape as users see them (node_hooks.c).
 */
#ifndef GM_AUTOGRAD_NODE_USER_H
#define GM_AUTOGRAD_NODE_USER_H

#include "core/autograd/autograd.h"

/* Returns a new reference to the node that the gradient of t goes to: the node that made t, or a
 * leaf's own; NULL if t requires no grad.  *nr: t is this output of the node. */
GmAgNode *gm_tensor_node (GmTensor *t, uint32_t *nr);
const char *gm_node_text (const GmAgNode *n); /* "MulBackward0", "AccumulateGrad" */
uint32_t gm_node_n_edges (const GmAgNode *n);
/* Returns the node that the edge of visible input i leads to, borrowed, and sets *nr; NULL: no
 * gradient flows there. */
GmAgNode *gm_node_edge (GmAgNode *n, uint32_t i, uint32_t *nr);
uint32_t gm_node_n_outputs (const GmAgNode *n);
/* True if n is the node of a compiled function that a walk with create_graph has unfolded, and that
 * stays unfolded: its edges lead to the nodes of its operations, and hooks on n do not run. */
bool gm_node_is_apart (const GmAgNode *n);
/* True if a backward without retain_graph has freed what the node saved. */
bool gm_node_is_used_up (const GmAgNode *n);
/* Declares that n calls host functions between the operations that it stands for.  If leaves have
 * hooks as well, a backward unfolds n first, so that all run in their order. */
void gm_node_calls_program (GmAgNode *n);
/* Declares that a backward that failed inside of n has used up a part of what n saved: the next
 * backward unfolds n first. */
void gm_node_leave_parts (GmAgNode *n);
GmTensor *gm_node_leaf (const GmAgNode *n); /* borrowed; NULL: n is no leaf's node */
/* Returns a new tensor without elements that has output nr of n as its history, of meta `meta`
 * (NULL: a scalar); a new reference to the leaf itself for a leaf's node. */
GmTensor *gm_node_stand_in (GmAgNode *n, uint32_t nr, const GmMeta *meta);
GmAgNode *gm_node_ref (GmAgNode *n);

/* A hook on a node.  Before the node runs, `changed` are the gradients of its outputs, and `others`
 * is empty; afterwards `changed` are the gradients that it returns, by edge, and `others` those of
 * its outputs.  Entries of `changed` may be NULL, and may be replaced (the old gradient unreffed);
 * `others` is read only.  A leaf's node returns no gradients.  False with *error set on failure. */
typedef bool (*GmNodeHook) (void *data, GmTensor **changed, uint32_t n, GmTensor *const *others,
                            uint32_t n_others, GError **error);
uint64_t gm_node_add_hook (GmAgNode *n, bool before, GmNodeHook hook, void *data,
                           void (*destroy) (void *data));
bool gm_node_remove_hook (GmAgNode *n, bool before, uint64_t id);
/* Fields that the front end keeps with a node that it shows to users. */
typedef struct {
  void *object;   /* borrowed: the front end's object for the node, while that object lives */
  void *metadata; /* owned through drop_metadata */
  void (*drop_metadata) (void *metadata);
  GArray *pre, *post; /* private */
  char *where;        /* owned: text on where the forward was when the node was recorded, for
                       * anomaly.h; NULL: unknown */
} GmNodeUser;
GmNodeUser *gm_node_user (GmAgNode *n); /* made if need be */

#endif
