/* SPDX-License-Identifier: Apache-2.0
 * data_dependent.h -- code for graphs in which data says how large a tensor is.
 *
 * A symbol of GmSizes.counts is the element of an output of the graph.  The forward is cut into
 * stages: each ends where the graph has computed the sizes that the next ones need, so a run finds
 * out the sizes on its way and computes nothing twice.
 */
#ifndef GM_DATA_DEPENDENT_H
#define GM_DATA_DEPENDENT_H

#include "core/compile.h"

/* Makes, from c's parts, an executable with c's back end, owned by the caller.  Fails with
 * GM_ERROR_UNSUPPORTED if a size cannot be computed before the tensors that have it, or if nodes
 * may not be moved. */
bool gm_data_dependent_exec (GmCompile *c, GmPlanExec *out, GError **error);

#endif
