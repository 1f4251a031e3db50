/* SPDX-License-Identifier: Apache-2.0
 * cell.h -- reads and writes of cells, for the instructions that name a slot.
 */
#ifndef GM_TRACE_CELL_H
#define GM_TRACE_CELL_H

#include "core/trace/recorder.h"

const GmTracker *gm_cell_load (GmRecorder *r, const GmTracker *cell); /* NULL: empty cell */
void gm_cell_store (GmRecorder *r, const GmTracker *cell,
                    const GmTracker *value); /* NULL: delete */

#endif
