/* SPDX-License-Identifier: Apache-2.0
 * contents.h -- contents that grow at their end, and their keys.
 */
#ifndef GM_TRACE_CONTENTS_H
#define GM_TRACE_CONTENTS_H

#include "core/trace/recorder.h"

#define GM_MIN_KEYS 16 /* fewer are compared one after the other, and copied */

/* Whether hashing and comparing it runs no code of the user's and says all. */
bool gm_key_is_constant (const GmTracker *key);
/* New contents: the old ones, then n items.  Their `number` is the old ones'. */
const GmTracker *gm_contents_append (GmRecorder *r, const GmTracker *old, const GmTracker *const *items, uint32_t n);
/* Whether it can be told in constant time where the key stands among every `stride`th item: 2 in contents of key, value, key, value
 * ..., 1 in a set's; *at: -1 for nowhere.  All contents of one object are asked with one stride. */
bool gm_contents_find (GmRecorder *r, const GmTracker *contents, uint32_t stride, const GmTracker *key, int64_t *at);

#endif
