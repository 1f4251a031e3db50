/* SPDX-License-Identifier: Apache-2.0
 * key_index.h -- places of constant keys in large contents of dicts and sets.
 */
#ifndef GM_TRACE_KEY_INDEX_H
#define GM_TRACE_KEY_INDEX_H

#include "core/trace/recorder.h"

#define GM_KEY_INDEX_MIN 32 /* items below which looking at each is as good */
#define GM_KEY_UNKNOWN -2

/* The place of `key` (hashable, a constant) among every `stride`th item, -1 if it is not there, GM_KEY_UNKNOWN if the contents are small or hold
 * keys that are no constants: then look at each. */
int64_t gm_key_index_find (GmRecorder *r, const GmTracker *contents, uint32_t stride,
                           PyObject *key);
/* `now` is `before` and one more key at the end: an index of the one becomes one of the other. */
void gm_key_index_append (GmRecorder *r, const GmTracker *before, const GmTracker *now,
                          uint32_t stride);
void gm_key_index_clear (GmRecorder *r);

#endif
