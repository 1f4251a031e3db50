/* SPDX-License-Identifier: Apache-2.0
 * mincut.h -- which values to save so that the backward can be computed, at the least weight.
 *
 * A value is made from others (edges).  Some values are `given`: they exist in the forward and
 * cannot, or must not, be made again.  Some values are `wanted` by the backward.  A set of saved
 * values is legal if every path from a given value to a wanted one meets a saved value, both ends
 * counted.  Values behind the saved ones are computed again in the backward.  Knows nothing of
 * graphs; private to this room and its tests.
 */
#ifndef GM_AOT_MINCUT_H
#define GM_AOT_MINCUT_H

#include <stdbool.h>
#include <stdint.h>

/* The weight of a value that must not be saved.  All other weights together stay below it. */
#define GM_CUT_NEVER (UINT64_C (1) << 62)

typedef struct {
  uint32_t from, to;
} GmCutEdge; /* `to` is made from `from` */

typedef struct {
  uint32_t n, n_edges;
  const uint64_t *weight; /* per value */
  const bool *given, *wanted;
  const GmCutEdge *edges;
} GmCutProblem;

/* Finds a legal set of saved values of least weight.  Sets cut, per value, to true if it is saved,
 * and *weight to the sum of their weights.  Among sets of one weight it chooses the one nearest to
 * the wanted values, so that the least is recomputed; that set is unique, whatever the order of the
 * edges.  False: there is no legal set. */
bool gm_cut_solve (const GmCutProblem *p, bool *cut, uint64_t *weight);

#endif
