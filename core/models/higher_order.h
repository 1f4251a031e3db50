/* SPDX-License-Identifier: Apache-2.0
 * higher_order.h -- cond, while_loop, scan and invoke_subgraph while recording.
 */
#ifndef GM_MODELS_HIGHER_ORDER_H
#define GM_MODELS_HIGHER_ORDER_H

#include "core/trace/recorder.h"

/* Records a call of higher_order (op, functions, operands, n_carried, n_mapped, reverse) of
 * gramme._core and returns (spec, results); poison after a break. */
const GmTracker *gm_higher_record (GmRecorder *r, const GmCallArgs *args);

#endif
