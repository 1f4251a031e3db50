/* SPDX-License-Identifier: Apache-2.0
 * body.h -- functions that a higher-order operator runs: checkpoint, autograd.Function.
 */
#ifndef GM_TRACE_BODY_H
#define GM_TRACE_BODY_H

#include "core/trace/recorder.h"

/* fn (*args) as the body of `op` ("checkpoint"): inlined, and a break if it leaves anything changed that existed before it.
 * exempt: heap object that it may change, or GM_NO_OBJECT. */
const GmTracker *gm_body_run (GmRecorder *r, const char *op, const GmTracker *fn, const GmCallArgs *args, uint32_t exempt);

/* Whether the recorder keeps its own state in the heap object: a frame's slots, not what the program sees. */
bool gm_body_is_own_state (const GmRecorder *r, uint32_t object);

/* The call of a function of gramme._core that runs a body; NULL: fn is none. */
const GmTracker *gm_body_call (GmRecorder *r, PyObject *fn, const GmCallArgs *args);

#endif
