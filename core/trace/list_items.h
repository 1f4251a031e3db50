/* SPDX-License-Identifier: Apache-2.0
 * list_items.h -- the items of a list or deque: contents, or, while items of a large one are
 * replaced or come and go at its ends, a row of slots of the heap.
 *
 * gm_contents_of makes contents of a row, for callers that read the whole.
 */
#ifndef GM_TRACE_LIST_ITEMS_H
#define GM_TRACE_LIST_ITEMS_H

#include "core/trace/recorder.h"

uint32_t gm_list_items_length (GmRecorder *r, const GmTracker *t);
const GmTracker *gm_list_items_item (GmRecorder *r, const GmTracker *t, uint32_t i);

/* Replaces `count` items of the list or deque t, from index `at` on, by n others. */
void gm_list_items_splice (GmRecorder *r, const GmTracker *t, uint32_t at, uint32_t count,
                           const GmTracker *const *items, uint32_t n);

void gm_list_items_reverse (GmRecorder *r, const GmTracker *t);

/* Returns the items of the row as contents; the same tracker until something changes. */
const GmTracker *gm_list_items_contents (GmRecorder *r, const GmTracker *row);

#endif
