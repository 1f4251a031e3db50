/* SPDX-License-Identifier: Apache-2.0
 * counted.h -- code for graphs in which data says how large something is.
 *
 * A symbol of GmSizes.counts is the element of an output of the graph.  The forward is cut into stages: each ends where the
 * graph has computed what the next ones need to know, so a run finds out the sizes on its way and computes nothing twice.
 */
#ifndef GM_COUNTED_H
#define GM_COUNTED_H

#include "core/compile.h"

/* Of c's parts, for c's back end: an executable that the caller owns.  GM_ERROR_UNSUPPORTED: what says a size cannot stand
 * before what has it, or nodes may not be moved. */
bool gm_counted_exec (GmCompile *c, GmPlanExec *out, GError **error);

#endif
