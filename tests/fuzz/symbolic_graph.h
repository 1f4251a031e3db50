/* SPDX-License-Identifier: Apache-2.0
 * symbolic_graph.h -- the twin of a random graph with symbols for sizes, and numbers to run it with.
 *
 * Sizes of inputs become symbols whose example values are the numbers that stood there; what follows
 * from them is asked of the shape rules again.  Attributes that are sizes become expressions where that
 * keeps more sizes open.
 */
#ifndef GM_TESTS_FUZZ_SYMBOLIC_GRAPH_H
#define GM_TESTS_FUZZ_SYMBOLIC_GRAPH_H

#include "core/graph/graph.h"

/* NULL if nothing of it stays open, or some node has no symbolic form. */
GmGraph *gm_symbolic_graph (const GmGraph *g, uint64_t seed, GmArena *arena);

/* Values of the symbols for which all facts hold, 0, 1, odd and large ones among them: by symbol
 * number.  The example's, where none are found. */
void gm_symbolic_draw (const GmGraph *g, uint64_t *seed, int64_t *symbols);

#endif
