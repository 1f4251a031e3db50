/* SPDX-License-Identifier: Apache-2.0
 * unfold_history.h -- a compiled function's history as the plain one would be (unfold_history.c);
 * for plan.c.
 */
#ifndef GM_AOT_UNFOLD_HISTORY_H
#define GM_AOT_UNFOLD_HISTORY_H

#include "core/aot/aot.h"
#include "core/autograd/autograd.h"

typedef struct {
  const GmGraph *g;       /* functional */
  const uint32_t *places; /* per value of the joint graph: its number among the saved tensors,
                           * or GM_NO_ID */
  const GmInnerOutput *tangents; /* n_tangents, and */
  const GmInnerInput *grads;     /* n_grads, as the joint graph has them */
  uint32_t n_tangents, n_grads;
  uint32_t n_nodes, n_looks; /* of g, and of looks at inputs: a sequence number is left free for
                              * each look before the node's */
  const uint32_t *early;     /* per node of g: 1 + the number of the early view (merged with its
                              * base, taken before the call) that the node helps to take, or 0;
                              * NULL: there are no early views */
  const uint64_t *numbers;   /* per early view: its sequence number */
  const bool *walked;        /* per node of g: an earlier backward has used up what it saved;
                              * NULL: no node is used up */
  bool **used_up; /* NULL, or: where a walk fails, *used_up is set, per node of g, to whether
                   * the walk used up what the node saved; freed by the caller; NULL if no node
                   * was used up */
  bool is_packed; /* hooks in the graphs have packed all saved values: no leaf is kept as
                   * itself */
} GmUnfold;

/* True if all outputs without an arriving gradient can be given a gradient of negative zeros:
 * another gradient is added to it, or no gradient depends on it.  grads: one per tangent, NULL
 * where none has arrived. */
bool gm_unfold_can_fill (const GmUnfold *u, GmTensor *const *grads);

/* Called within the backward of n, for the gradients that the engine asks for.  gm_unfold_walked
 * returns, per node of g, true if the walk reaches the node; the caller frees the array.
 * gm_unfold_leads is `leads` of GmAgFunction. */
bool *gm_unfold_walked (const GmUnfold *u, const GmAgNode *n, GmTensor *const *grads);
uint64_t gm_unfold_leads (const GmUnfold *u, const GmAgNode *n);

/* Returns, per value of g, true if the unfolded backward reads its elements when all tangents
 * arrive.  The caller frees the array. */
bool *gm_unfold_reads (const GmUnfold *u);

/* True if a leaf that was kept as itself has been given other memory or another shape since the
 * forward. */
bool gm_unfold_any_moved (const GmUnfold *u, const GmAgNode *n, const GmSaved *kept);

/* Computes the gradients of the compiled function u, operation by operation, within the backward
 * of its node n; the edges of n are the inputs that get a gradient.  kept: the tensors that the
 * forward saved.  grads: one per tangent, NULL where none has arrived.  seq: the first of the
 * sequence numbers that were reserved when the forward ran.  result: per edge, as in
 * gm_autograd_through.  Fails if a running node reads a kept tensor that was changed in place. */
bool gm_unfold_backward (const GmUnfold *u, GmAgNode *n, const GmSaved *kept, uint64_t seq,
                         GmTensor *const *grads, bool create, GmTensor **result, GError **error);

/* Makes the nodes of gm_unfold_backward for all tangents, without walking them.  roots: per
 * tangent, a new reference to a tensor whose history is the tangent's node, or NULL.  Fails if a
 * packed value can't be unpacked. */
bool gm_unfold_parts (const GmUnfold *u, GmAgNode *n, const GmSaved *kept, uint64_t seq,
                      GmTensor **roots, GError **error);

/* Returns how many sequence numbers the nodes take, with a number for each refresh of an input that
 * may come before a node. */
static inline uint64_t
gm_unfold_n_numbers (const GmUnfold *u)
{
  return (u->n_nodes + 1) * (1 + (uint64_t) u->n_looks);
}

/* Returns the sequence number of the refresh number i of an input, just before node k.  seq: the
 * first of all sequence numbers of the call. */
static inline uint64_t
gm_unfold_look_number (const GmUnfold *u, uint64_t seq, uint32_t i, uint32_t k)
{
  return seq + k * (1 + (uint64_t) u->n_looks) + i;
}

/* Returns the sequence number that node k has on the tape.  numbers: per early view, its sequence
 * number. */
static inline uint64_t
gm_unfold_number (const GmUnfold *u, const uint64_t *numbers, uint64_t seq, uint32_t k)
{
  uint32_t view = u->early ? u->early[k] : 0;

  return view ? numbers[view - 1] : gm_unfold_look_number (u, seq, u->n_looks, k);
}

#endif
