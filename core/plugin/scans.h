/* SPDX-License-Identifier: Apache-2.0
 * scans.h -- an associative_scan as runs of a plugin's code on the memory of its operands and results.
 */
#ifndef GM_PLUGIN_SCANS_H
#define GM_PLUGIN_SCANS_H

#include "core/graph/higher.h"
#include "core/plugin/exec.h"
#include "core/plugin/request.h"

typedef struct GmExecScan GmExecScan;

/* The code for a row; wanted: by result.  *out is NULL where the body is none that runs in that way.  False: an error. */
bool gm_scan_compile (const GmHigher *h, const bool *wanted, const GmRequest *q, GmExecScan **out, GError **error);
void gm_scan_free (GmExecScan *s); /* NULL is fine */
/* in: the operands; out: by result, row-major, NULL where it is not wanted; symbols: of the graph around it, or NULL.  UNABLE: nothing was written that
 * must not be written again. */
GmRunAt gm_scan_run (const GmExecScan *s, const int64_t *symbols, GmTensor *const *in, GmTensor *const *out, GError **error);

#endif
