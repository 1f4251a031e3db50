/* SPDX-License-Identifier: Apache-2.0
 * checks.h -- nodes that fail for some values of their operands: checks.c.
 */
#ifndef GM_GRAPH_CHECKS_H
#define GM_GRAPH_CHECKS_H

#include "core/graph/graph.h"

/* True if running the graph may fail for some values of its inputs, bodies and functions of the
 * host's included. */
bool gm_graph_may_fail (const GmGraph *g);

/* For each node of b's graph that may fail and that no output rests on: appends a value that fails
 * where the node does to `checks` (GmValueId), for the caller to make an output.  Adds nodes; the
 * outputs that the graph has count. */
void gm_graph_add_checks (GmGraphBuilder *b, GArray *checks);

/* True if node n may fail, and nothing says that the operands which it has are right.  */
bool gm_graph_needs_check (const GmGraph *g, const GmNode *n);

/* A copy of x that is made only where n, of operands `in`, does not fail.  n is not higher. */
GmVal gm_graph_after_check (GmBuilder *b, const GmNode *n, const GmVal *in, GmVal x);

/* A value that fails if `truth`, a bool without dimensions, is false. */
GmVal gm_graph_check_truth (GmGraphBuilder *b, GmVal truth);

#endif
