/* SPDX-License-Identifier: Apache-2.0
 * direct.h -- a step of the host that is one call of graphs, run on the caller's tensors without an
 * interpreter.
 */
#ifndef GM_RUN_DIRECT_H
#define GM_RUN_DIRECT_H

#include "core/graph/higher.h"
#include "core/run/exec.h"
#include "core/run/request.h"

typedef struct GmExecDirect GmExecDirect;

/* Makes a direct call of the graph `host`: its single call of cond, invoke_subgraph or
 * associative_scan, which only views and numbers precede, and whose results have the layout of the
 * graph's outputs.  *out is NULL if the graph is of another form.  host: borrowed, and must outlive
 * *out.  Returns false on error. */
bool gm_direct_new (const GmGraph *host, const GmRequest *q, GmExecDirect **out, GError **error);
void gm_direct_free (GmExecDirect *d); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (GmExecDirect, gm_direct_free)
/* True if the call runs compiled bodies of the graph; false if it is a scan, which has code of its
 * own. */
bool gm_direct_needs_bodies (const GmExecDirect *d);
/* Runs the call.  in: the graph's inputs; out: memory for its outputs; bodies: by number of the
 * body, its exec; symbols: values of the graph's symbols, or NULL.  GM_RUN_UNABLE: as in
 * gm_exec_run_at. */
GmRunAt gm_direct_run (const GmExecDirect *d, GmExec *const *bodies, const int64_t *symbols,
                       GmTensor *const *in, GmTensor *const *out, GError **error);

#endif
