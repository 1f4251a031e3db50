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
  uint32_t *at;     /* owned: the node of that read; one node reads all its operands before it has a
                     * history itself */
} GmReadOrder;

/* Finds the first reads.  g: as it was recorded, dead nodes included. */
GmReadOrder gm_read_order_find (const GmGraph *g, const GmGraphLook *notes, uint32_t n_notes);
void gm_read_order_clear (GmReadOrder *looks);
/* Notes in g, as it was recorded, which read of each input is the first. */
void gm_read_order_note (GmGraph *g, const GmReadOrder *looks);
/* Does the same for g's nodes, unless looks were noted. */
void gm_read_order_note_nodes (GmGraph *g);
/* True if read `a` of input i comes before read `b` of input k.  GM_NO_ID comes after all others,
 * in the order of inputs. */
static inline bool
gm_read_order_before (uint32_t a, uint32_t i, uint32_t b, uint32_t k)
{
  return a != b ? a < b : i < k;
}
/* Refreshes, before a call, the views among its inputs in the program's order.  False, with nothing
 * done, if a view would have to get its history in the middle. */
bool gm_read_order_take (const GmReadOrder *looks, GmTensor *const *inputs);

#endif
