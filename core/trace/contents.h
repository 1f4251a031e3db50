/* SPDX-License-Identifier: Apache-2.0
 * contents.h -- contents of containers that grow by appending, and the index of their keys.
 */
#ifndef GM_TRACE_CONTENTS_H
#define GM_TRACE_CONTENTS_H

#include "core/trace/recorder.h"

#define GM_MIN_KEYS 16 /* contents with fewer keys have no index, and changes copy them */

/* True if hashing and comparing the key runs no code of the user's and decides equality
 * completely. */
bool gm_key_is_constant (const GmTracker *key);
/* Returns new contents: the items of `old`, then the n items; `number` is copied from `old`. */
const GmTracker *gm_contents_append (GmRecorder *r, const GmTracker *old,
                                     const GmTracker *const *items, uint32_t n);
/* True if the place of the key among every `stride`th item can be found in constant time, by an
 * index. *at: the place; -1 if the key is absent. stride: 2 in contents of key, value, key, value
 * ..., 1 in a set's. All contents of one object are searched with the same stride. */
bool gm_contents_find (GmRecorder *r, const GmTracker *contents, uint32_t stride,
                       const GmTracker *key, int64_t *at);

#endif
