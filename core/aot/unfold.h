/* SPDX-License-Identifier: Apache-2.0
 * unfold.h -- a compiled function's history as the plain one would be (unfold.c); for plan.c.
 */
#ifndef GM_AOT_UNFOLD_H
#define GM_AOT_UNFOLD_H

#include "core/aot/aot.h"
#include "core/autograd/autograd.h"

typedef struct {
  const GmGraph *g;       /* functional */
  const uint32_t *places; /* per value of the joint graph: which saved tensor it is, or GM_NO_ID */
  const GmInnerOutput *tangents; /* n_tangents, and */
  const GmInnerInput *grads;     /* n_grads, as the joint graph has them */
  uint32_t n_tangents, n_grads;
  uint32_t n_nodes, n_looks; /* of g, and at inputs: how many numbers are left free before each node's */
  const uint32_t *early;   /* per node of g: 1 + the view, taken before the call, that it takes part in taking, or 0; NULL: there are none */
  const uint64_t *numbers; /* per such view: its number */
  const bool *walked; /* per node of g: a backward has used it up; NULL: none was */
  bool **used_up;     /* NULL, or: *used_up is per node of g what a walk that failed has used up, the caller's to free; NULL if nothing */
  bool is_packed; /* hooks in the graphs have seen all that was saved: no leaf is kept as itself */
} GmUnfold;

/* Whether an output whose gradient is missing can be given one of negative zeros: something else is
 * added to it, or nothing depends on it.  grads: one per tangent. */
bool gm_unfold_can_fill (const GmUnfold *u, GmTensor *const *grads);

/* Within n's backward: per node of g, whether the walk comes there, which asks for some gradients; and leads as in GmAgFunction. */
bool *gm_unfold_walked (const GmUnfold *u, const GmAgNode *n, GmTensor *const *grads);
uint64_t gm_unfold_leads (const GmUnfold *u, const GmAgNode *n);

/* Per value: whether its elements are read, if all tangents are there.  The caller frees. */
bool *gm_unfold_reads (const GmUnfold *u);

/* Whether a leaf that was kept has had its memory or its shape exchanged since. */
bool gm_unfold_any_moved (const GmUnfold *u, const GmAgNode *n, const GmSaved *kept);

/* The gradient, operation by operation, within the backward of node n, whose edges are the
 * gradients' inputs.  seq: the first number, as reserved when the forward ran.  result: as
 * gm_autograd_through.  Errors: a kept tensor that a node reads which runs was changed in place. */
bool gm_unfold_backward (const GmUnfold *u, GmAgNode *n, const GmSaved *kept, uint64_t seq,
                         GmTensor *const *grads, bool create, GmTensor **result, GError **error);

/* The same nodes for whatever gradients arrive, walked by nobody yet.  roots: per tangent, what has them as its history, or NULL; new
 * references.  Errors: what was packed can't be unpacked. */
bool gm_unfold_parts (const GmUnfold *u, GmAgNode *n, const GmSaved *kept, uint64_t seq, GmTensor **roots, GError **error);

/* How many numbers the nodes have, with those of the looks that come before each of them. */
static inline uint64_t
gm_unfold_n_numbers (const GmUnfold *u)
{
  return (u->n_nodes + 1) * (1 + (uint64_t) u->n_looks);
}

/* The number of look i, before node k.  seq: the first of all. */
static inline uint64_t
gm_unfold_look_number (const GmUnfold *u, uint64_t seq, uint32_t i, uint32_t k)
{
  return seq + k * (1 + (uint64_t) u->n_looks) + i;
}

/* The number of node k among those of the tape. */
static inline uint64_t
gm_unfold_number (const GmUnfold *u, const uint64_t *numbers, uint64_t seq, uint32_t k)
{
  uint32_t view = u->early ? u->early[k] : 0;

  return view ? numbers[view - 1] : gm_unfold_look_number (u, seq, u->n_looks, k);
}

#endif
