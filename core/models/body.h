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
/* True if t holds, at any depth, a tensor computed since the graph had `values` values, or is
 * nested too deep to tell.  objects: the number of heap objects at that time. */
bool gm_body_holds_new_tensor (GmRecorder *r, const GmTracker *t, uint32_t values,
                               uint32_t objects);

/* True if the list, dict, deque or bytearray t, which was changed since the mark, has its former
 * contents in the same order, so that no later read can tell.  False for containers whose order or
 * iterators tell of changes that were taken back, such as sets.  Guards say what its items were. */
bool gm_body_leaves (GmRecorder *r, GmHeapMark m, const GmTracker *t);
/* True if two contents of a container are the same, as gm_body_leaves compares them; false after
 * a break. */
bool gm_body_same_contents (GmRecorder *r, const GmTracker *before, const GmTracker *now);

/* True if the heap object holds state of the recorder that the program does not see, such as the
 * slots of a frame. */
bool gm_body_is_own_state (const GmRecorder *r, uint32_t object);

/* Calls a function of gramme._core that runs a body (checkpoint, autograd.Function, cond ...).
 * Returns its result; NULL, without a break: fn is no such function. */
const GmTracker *gm_body_call (GmRecorder *r, PyObject *fn, const GmCallArgs *args);

#endif
