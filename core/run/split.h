/* SPDX-License-Identifier: Apache-2.0
 * split.h -- a graph that is divided between a plugin's regions and the host: compiled, and run.
 */
#ifndef GM_RUN_SPLIT_H
#define GM_RUN_SPLIT_H

#include "core/run/exec.h"
#include "core/run/regions.h"
#include "core/run/request.h"

/* Cuts the graph into regions and compiles those of the plugin.  A region that the plugin refuses
 * to compile goes to the host, with the reason in `places`.  If the graph's sizes are symbolic,
 * each region is an exec of its own, for all sizes if the plugin can do that.  q: the request,
 * without parts and regions; *next_region counts over both roles.  Returns NULL on failure: *code
 * is the plugin's answer, with its message in *status or, for GRAMME_OK, the failure is in
 * *error. */
GmExecSplit *gm_split_new (const GmGraph *g, const GmVerdict *verdicts, const GmRequest *q,
                           uint32_t *next_region, uint32_t n_regions, GmExecPlaces *places,
                           int32_t *code, GrammeStatus *status, GError **error);
/* Number of regions that the plugin would run if the graph were cut. */
uint32_t gm_split_count (const GmGraph *g, const GmVerdict *verdicts);
void gm_split_free (GmExecSplit *s, const GmBackend *b); /* NULL is fine */

/* Runs the steps.  out: by output of the graph, memory for its elements.  sized: the graph, or NULL
 * if its sizes are numbers; symbols: values of its symbols. */
bool gm_split_run (GmExec *e, const GmExecSplit *s, const GmGraph *sized, const int64_t *symbols,
                   GmTensor *const *in, GmTensor *const *out, GError **error);

#endif
