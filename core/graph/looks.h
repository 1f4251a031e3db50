/* SPDX-License-Identifier: Apache-2.0 */
/* looks.h -- who looked at an input although nobody wants what he made of it.
 *
 * A view whose base was written to gets its history when somebody reads it with gradients on, and gradients are summed in the order
 * of histories.  The call of a compiled function is such a look at what its nodes read; code that was dropped from it must be one, too.
 */
#ifndef GM_GRAPH_LOOKS_H
#define GM_GRAPH_LOOKS_H

#include "core/graph/graph.h"

/* Fills in inputs (their places, room for all) those that nodes of `recorded` read with gradients on and no node of `simplified`, its
 * rewrite, does, in the order of the looks.  Returns how many. */
uint32_t gm_graph_lost_looks (const GmGraph *recorded, const GmGraph *simplified, uint32_t *inputs);

#endif
