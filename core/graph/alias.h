/* SPDX-License-Identifier: Apache-2.0
 * alias.h -- inputs that share memory, for the files of this room.  What everyone uses is in
 * graph.h.
 */
#ifndef GM_GRAPH_ALIAS_H
#define GM_GRAPH_ALIAS_H

#include "core/graph/graph.h"

/* What is wrong with what is said of input v, as the end of a sentence that begins with its name;
 * NULL: nothing. */
const char *gm_graph_alias_problem (const GmGraph *g, GmValueId v);

#endif
