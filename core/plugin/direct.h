/* SPDX-License-Identifier: Apache-2.0
 * direct.h -- a step of the host that is one call of graphs: done on the caller's tensors, without an interpreter.
 */
#ifndef GM_PLUGIN_DIRECT_H
#define GM_PLUGIN_DIRECT_H

#include "core/graph/higher.h"
#include "core/plugin/exec.h"
#include "core/plugin/request.h"

typedef struct GmExecDirect GmExecDirect;

/* *out is NULL where the graph is not one call, behind views and numbers at most, of a cond, an invoke_subgraph or an associative_scan, whose results are laid out as it says.  False: an error.
 * host: stays. */
bool gm_direct_new (const GmGraph *host, const GmRequest *q, GmExecDirect **out, GError **error);
void gm_direct_free (GmExecDirect *d); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (GmExecDirect, gm_direct_free)
/* Whether it runs the graph's bodies, and not code of its own. */
bool gm_direct_needs_bodies (const GmExecDirect *d);
/* in, out: the graph's inputs, and memory for its outputs.  bodies: by body.  symbols: of the graph, or NULL.  UNABLE: as gm_exec_run_at. */
GmRunAt gm_direct_run (const GmExecDirect *d, GmExec *const *bodies, const int64_t *symbols, GmTensor *const *in, GmTensor *const *out,
                       GError **error);

#endif
