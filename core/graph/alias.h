/* SPDX-License-Identifier: Apache-2.0
 * alias.h -- inputs that share memory, for the files of this room.  Declarations for other rooms
 * are in graph.h.
 */
#ifndef GM_GRAPH_ALIAS_H
#define GM_GRAPH_ALIAS_H

#include "core/graph/graph.h"
#include "core/graph/rules.h"

/* Returns the verifier's rule that the facts about the memory of input v break, and in *says
 * how, as the end of a sentence that begins with the input's name (static text); GM_RULE_NONE: they
 * break none. */
GmRule gm_graph_alias_problem (const GmGraph *g, GmValueId v, const char **says);

#endif
