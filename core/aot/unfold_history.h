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
  const uint32_t *places; /* per value of the joint graph: the number of the saved tensor that it
                           * is, or GM_NO_ID */
  const GmInnerOutput *tangents; /* n_tangents, and */
  const GmInnerInput *grads;     /* n_grads, as the joint graph has them */
  uint32_t n_tangents, n_grads;
  uint32_t n_nodes, n_looks; /* of g, and of looks at inputs: a sequence number is left free for
                              * each look before the node's */
  const uint32_t *early;   /* per node of g: 1 + the number of the view, taken before the call, that
                            * the node helps to take, or 0; NULL: there are none */
  const uint64_t *numbers; /* per such view: its sequence number */
  const bool *walked;      /* per node of g: a backward has used it up; NULL: none was */
  bool **used_up; /* NULL, or: *used_up is, per node of g, what a failed walk has used up, freed
                   * by the caller; NULL if nothing */
  bool is_packed; /* hooks in the graphs have packed all that was saved: no leaf is kept as
                   * itself */
} GmUnfold;

/* True if an output whose gradient is missing can be given a gradient of negative zeros: another
 * gradient is added to it, or nothing depends on it.  grads: one per tangent. */
bool gm_unfold_can_fill (const GmUnfold *u, GmTensor *const *grads);

/* Called within n's backward.  walked returns, per node of g, true if the walk, which asks for some
 * gradients, comes there; leads is as in GmAgFunction. */
bool *gm_unfold_walked (const GmUnfold *u, const GmAgNode *n, GmTensor *const *grads);
uint64_t gm_unfold_leads (const GmUnfold *u, const GmAgNode *n);

/* Returns, per value, true if its elements are read when all tangents arrive.  The caller frees. */
bool *gm_unfold_reads (const GmUnfold *u);

/* True if a leaf that was kept has had its memory or its shape exchanged since. */
bool gm_unfold_any_moved (const GmUnfold *u, const GmAgNode *n, const GmSaved *kept);

/* Computes the gradient, operation by operation, within the backward of node n, whose edges are the
 * gradients' inputs.  seq: the first sequence number, as reserved when the forward ran.  result: as
 * gm_autograd_through.  Errors: a kept tensor that a running node reads was changed in place. */
bool gm_unfold_backward (const GmUnfold *u, GmAgNode *n, const GmSaved *kept, uint64_t seq,
                         GmTensor *const *grads, bool create, GmTensor **result, GError **error);

/* Makes the same nodes for whatever gradients arrive, without walking them.  roots: per tangent, a
 * new reference to a tensor whose history is the tangent's node, or NULL.  Errors: a packed value
 * can't be unpacked. */
bool gm_unfold_parts (const GmUnfold *u, GmAgNode *n, const GmSaved *kept, uint64_t seq,
                      GmTensor **roots, GError **error);

/* Returns how many sequence numbers the nodes take, with those of the looks that come before each
 * of them. */
static inline uint64_t
gm_unfold_n_numbers (const GmUnfold *u)
{
  return (u->n_nodes + 1) * (1 + (uint64_t) u->n_looks);
}

/* Returns the sequence number of look i, before node k.  seq: the first of all. */
static inline uint64_t
gm_unfold_look_number (const GmUnfold *u, uint64_t seq, uint32_t i, uint32_t k)
{
  return seq + k * (1 + (uint64_t) u->n_looks) + i;
}

/* Returns the sequence number of node k on the tape. */
static inline uint64_t
gm_unfold_number (const GmUnfold *u, const uint64_t *numbers, uint64_t seq, uint32_t k)
{
  uint32_t view = u->early ? u->early[k] : 0;

  return view ? numbers[view - 1] : gm_unfold_look_number (u, seq, u->n_looks, k);
}

#endif
