/* SPDX-License-Identifier: Apache-2.0
 * split.h -- a graph that is divided between a plugin's regions and the host: compiled, and run.
 */
#ifndef GM_RUN_SPLIT_H
#define GM_RUN_SPLIT_H

#include "core/run/exec.h"
#include "core/run/regions.h"
#include "core/run/request.h"

/* Cuts the graph and compiles each region that is the plugin's.  A region that the plugin does not
 * compile after all goes to the host, with the reason in `places`.  If the graph's sizes are
 * symbolic, each region is an exec of its own, which serves all sizes if the plugin can.  q: the
 * request, without parts and regions; *next_region counts over both roles.  NULL and *code: an
 * answer to be raised, in *status; with GRAMME_OK the error is in *error. */
GmExecSplit *gm_split_new (const GmGraph *g, const GmVerdict *verdicts, const GmRequest *q,
                           uint32_t *next_region, uint32_t n_regions, GmExecPlaces *places,
                           int32_t *code, GrammeStatus *status, GError **error);
/* Number of regions of the graph that would be the plugin's. */
uint32_t gm_split_count (const GmGraph *g, const GmVerdict *verdicts);
void gm_split_free (GmExecSplit *s, const GmBackend *b); /* NULL is fine */

/* Runs the steps.  out: by output of the graph; written.  sized: the graph, or NULL if its sizes
 * are numbers; symbols: values of its symbols. */
bool gm_split_run (GmExec *e, const GmExecSplit *s, const GmGraph *sized, const int64_t *symbols,
                   GmTensor *const *in, GmTensor *const *out, GError **error);

#endif
