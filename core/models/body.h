/* SPDX-License-Identifier: Apache-2.0
 * body.h -- functions that a higher-order operator runs: checkpoint, autograd.Function.
 */
#ifndef GM_MODELS_BODY_H
#define GM_MODELS_BODY_H

#include "core/trace/recorder.h"

/* Returns fn (*args) as a function that an operator calls once: fn may change existing objects, as
 * any call may, but must not keep a tensor there that it made, nor register hooks. `changed`, a
 * set, gets the heap objects that fn changed; NULL: fn may change nothing. */
const GmTracker *gm_body_run_once (GmRecorder *r, const char *op, const GmTracker *fn,
                                   const GmCallArgs *args, uint32_t exempt, GHashTable *changed);
/* True if t holds, at any depth, a tensor computed since the graph had `values` values; objects:
 * how many the heap had then. */
bool gm_body_holds_new_tensor (GmRecorder *r, const GmTracker *t, uint32_t values,
                               uint32_t objects);

/* True if a list, dict or bytearray that was changed since the mark holds what it held then, in the
 * same order: nothing that looks at it later can tell.  False for sets and deques, whose order and
 * iterators tell of changes that were taken back.  Guards say what its items were. */
bool gm_body_leaves (GmRecorder *r, GmHeapMark m, const GmTracker *t);
/* The same of two contents of one object. */
bool gm_body_same_contents (GmRecorder *r, const GmTracker *before, const GmTracker *now);

/* True if the recorder keeps its own state in the heap object, as it does a frame's slots, which
 * the program does not see. */
bool gm_body_is_own_state (const GmRecorder *r, uint32_t object);

/* Returns the result of a function of gramme._core that runs a body; NULL: fn is none. */
const GmTracker *gm_body_call (GmRecorder *r, PyObject *fn, const GmCallArgs *args);

#endif
