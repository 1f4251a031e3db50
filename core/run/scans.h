/* SPDX-License-Identifier: Apache-2.0
 * scans.h -- runs an associative_scan as plugin code on the memory of its operands and results.
 */
#ifndef GM_RUN_SCANS_H
#define GM_RUN_SCANS_H

#include "core/graph/higher.h"
#include "core/run/exec.h"
#include "core/run/request.h"

typedef struct GmExecScan GmExecScan;

/* Compiles the code for the scan h.  wanted: by result, true if it is needed.  *out is NULL if the
 * body cannot run on blocks of slices.  Returns false on error. */
bool gm_scan_compile (const GmHigher *h, const bool *wanted, const GmRequest *q, GmExecScan **out,
                      GError **error);
void gm_scan_free (GmExecScan *s); /* NULL is fine */
/* Runs the scan.  in: the operands; out: by result, row-major memory, NULL where the result is not
 * wanted; symbols: values of the symbols of the surrounding graph, or NULL.  GM_RUN_UNABLE: nothing
 * was written that a second run would not overwrite. */
GmRunAt gm_scan_run (const GmExecScan *s, const int64_t *symbols, GmTensor *const *in,
                     GmTensor *const *out, GError **error);

#endif
