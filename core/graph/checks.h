/* SPDX-License-Identifier: Apache-2.0
 * checks.h -- nodes that fail for some values of their operands: checks.c.
 */
#ifndef GM_GRAPH_CHECKS_H
#define GM_GRAPH_CHECKS_H

#include "core/graph/graph.h"

/* True if running the graph may fail for some values of its inputs; the graph's bodies and the
 * functions of the host that it calls count. */
bool gm_graph_may_fail (const GmGraph *g);

/* Appends to `checks` (GmValueId), for each node of b's graph that may fail and that no output
 * depends on, a new value that fails where the node does; the caller makes this value an output.
 * Outputs that the graph has already count. */
void gm_graph_add_checks (GmGraphBuilder *b, GArray *checks);

/* True if node n may fail, and its present operands are not known to be valid for it. */
bool gm_graph_needs_check (const GmGraph *g, const GmNode *n);

/* Returns a copy of x whose computation fails where node n, with operands `in`, fails.  n is not
 * a call of graphs. */
GmVal gm_graph_after_check (GmBuilder *b, const GmNode *n, const GmVal *in, GmVal x);

/* Returns a value whose computation fails if `truth`, a bool without dimensions, is false. */
GmVal gm_graph_check_truth (GmGraphBuilder *b, GmVal truth);

#endif
