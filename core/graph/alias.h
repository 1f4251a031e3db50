/* SPDX-License-Identifier: Apache-2.0
 * alias.h -- inputs that share memory, for the files of this room.  What everyone uses is in
 * graph.h.
 */
#ifndef GM_GRAPH_ALIAS_H
#define GM_GRAPH_ALIAS_H

#include "core/graph/graph.h"
#include "core/graph/rules.h"

/* Which rule is broken by what is said of input v, and how, as the end of a sentence that begins with
 * its name; GM_RULE_NONE: none. */
GmRule gm_graph_alias_problem (const GmGraph *g, GmValueId v, const char **says);

#endif
