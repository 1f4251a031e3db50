/* SPDX-License-Identifier: Apache-2.0
 * looks.h -- in which order a program looks at its inputs.
 *
 * A view whose base was written to gets its history when somebody looks at it: reads it with gradients on, or asks whether it has one.
 * Gradients are summed in the order of histories.  A compiled function does all of a call at once, so its looks at such views are taken
 * before it, in the program's order.  Between two reads of the base there is no place for a history that was made before or after both:
 * such a call is left to the plain program.  What such a view gets has its place among the operations of the function all the same: hooks on
 * it run there (gm_autograd_settle).
 */
#ifndef GM_AOT_LOOKS_H
#define GM_AOT_LOOKS_H

#include "core/graph/graph.h"
#include "core/tensor/tensor.h"

typedef struct {
  uint32_t n;
  uint32_t *inputs; /* owned: those that are looked at, by number, in the order of the first looks */
  uint32_t *at;     /* owned: the node of that look; one node looks at all that it reads before it has a history itself */
} GmLooks;

/* g: as it was recorded, with what nobody wants. */
GmLooks gm_looks_find (const GmGraph *g, const GmGraphLook *notes, uint32_t n_notes);
void gm_looks_clear (GmLooks *looks);
/* g, as it was recorded, says of its inputs which look at them is the first. */
void gm_looks_note (GmGraph *g, const GmLooks *looks);
/* The same for those of its nodes, unless looks were noted. */
void gm_looks_note_nodes (GmGraph *g);
/* Whether look `a` at input i comes before look `b` at input k, GM_NO_ID being after all others: in the order of inputs. */
static inline bool
gm_looks_before (uint32_t a, uint32_t i, uint32_t b, uint32_t k)
{
  return a != b ? a < b : i < k;
}
/* Before a call: looks at the views among its inputs as the program would.  False, and nothing is done: one would have to get its history in
 * the middle. */
bool gm_looks_take (const GmLooks *looks, GmTensor *const *inputs);

#endif
