/* SPDX-License-Identifier: Apache-2.0
 * read_order.h -- the order in which a program reads its inputs.
 *
 * A view whose base was written to is stale until a read with gradients on, or a test of its
 * grad_fn, refreshes it: then it gets its history.  Gradients are summed in the order of
 * histories.  A compiled function does all of a call at once, so the refreshes of such views are
 * done before the call, in the program's order.  Between two reads of the base there is no place
 * for a history that was made before or after both: such a call is left to the plain program.  The
 * history of such a view has its sequence number among the operations of the function all the same:
 * hooks on it run there (gm_autograd_place_history).
 */
#ifndef GM_AOT_READ_ORDER_H
#define GM_AOT_READ_ORDER_H

#include "core/graph/graph.h"
#include "core/tensor/tensor.h"

typedef struct {
  uint32_t n;
  uint32_t *inputs; /* owned: numbers of the inputs that are read, in the order of their first
                     * reads */
  uint32_t *at;     /* owned: the node of that read; one node reads all its operands before it
                     * has a history itself */
} GmReadOrder;

/* Finds the first refreshing read of each input of g, a graph as it was recorded, with dead nodes.
 * notes: n_notes reads that the recorder noted and that no node shows.  The caller clears the
 * result. */
GmReadOrder gm_read_order_find (const GmGraph *g, const GmGraphLook *notes, uint32_t n_notes);
void gm_read_order_clear (GmReadOrder *looks);
/* Stores in g, for each input that `looks` lists, its number in that order and the node of its
 * first read.  g: the graph as it was recorded. */
void gm_read_order_note (GmGraph *g, const GmReadOrder *looks);
/* Stores in g the order of the first reads by g's own nodes, unless an order has been stored
 * before. */
void gm_read_order_note_nodes (GmGraph *g);
/* True if the read numbered `a` of input i comes before the read numbered `b` of input k.  Inputs
 * with GM_NO_ID, which are not read, come last, in ascending order. */
static inline bool
gm_read_order_before (uint32_t a, uint32_t i, uint32_t b, uint32_t k)
{
  return a != b ? a < b : i < k;
}
/* Refreshes, before a call, stale views among its inputs in the order in which the program reads
 * them.  False, with nothing done, if a view would have to be refreshed between two reads of its
 * base. */
bool gm_read_order_take (const GmReadOrder *looks, GmTensor *const *inputs);

#endif
