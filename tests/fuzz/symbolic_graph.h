/* SPDX-License-Identifier: Apache-2.0
 * symbolic_graph.h -- the twin of a random graph with symbols for sizes, and numbers to run it
 * with.
 *
 * Sizes of inputs become symbols whose example values are the original numbers; the shape rules are
 * applied again to the nodes.  Attributes that are sizes become expressions where that keeps more
 * sizes symbolic.
 */
#ifndef GM_TESTS_FUZZ_SYMBOLIC_GRAPH_H
#define GM_TESTS_FUZZ_SYMBOLIC_GRAPH_H

#include "core/graph/graph.h"

/* Returns NULL if no size can be symbolic, or some node has no symbolic form. */
GmGraph *gm_symbolic_graph (const GmGraph *g, uint64_t seed, GmArena *arena);

/* Draws values of the symbols, by symbol number, for which all facts hold, 0, 1, odd and large ones
 * among them.  Uses the example's where none are found. */
void gm_symbolic_draw (const GmGraph *g, uint64_t *seed, int64_t *symbols);

#endif
