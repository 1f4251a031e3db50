/* SPDX-License-Identifier: Apache-2.0
 * key_table.h -- contents of a large dict or set while keys are dropped and values replaced: the
 * pairs are slots of a heap object.
 */
#ifndef GM_TRACE_KEY_TABLE_H
#define GM_TRACE_KEY_TABLE_H

#include "core/trace/recorder.h"

/* Returns the table that holds the dict's (or set's) contents; NULL: the contents are in the form
 * of contents.h. */
const GmTracker *gm_key_table_of (GmRecorder *r, const GmTracker *dict);
/* Turns the contents of a dict or set into a table, whose i-th pair is at place i, and returns the
 * table. NULL: the contents are too small, or a key is no constant. stride: 2, or 1 for a set,
 * whose keys have no values; number: the `number` of contents that are later made from the
 * table. */
const GmTracker *gm_key_table_make (GmRecorder *r, const GmTracker *dict, uint32_t stride,
                                    int64_t number);
/* Returns the table's pairs as contents; the same tracker until something changes. */
const GmTracker *gm_key_table_contents (GmRecorder *r, const GmTracker *table);

uint32_t gm_key_table_n_pairs (GmRecorder *r, const GmTracker *table);
/* True if it can be told whether and where the table has the key. *at: the key's place, for the
 * functions below; -1 if the key is absent. */
bool gm_key_table_find (GmRecorder *r, const GmTracker *table, const GmTracker *key, int64_t *at);
/* Returns the place of the first or the last pair of a table that is not empty. */
int64_t gm_key_table_end (GmRecorder *r, const GmTracker *table, bool first);
const GmTracker *gm_key_table_key (GmRecorder *r, const GmTracker *table, int64_t at);
const GmTracker *gm_key_table_value (GmRecorder *r, const GmTracker *table, int64_t at);

void gm_key_table_replace (GmRecorder *r, const GmTracker *table, int64_t at,
                           const GmTracker *value);
void gm_key_table_drop (GmRecorder *r, const GmTracker *table, int64_t at);
/* Appends a key, an absent constant, with its value. A full table is replaced by a larger table. */
void gm_key_table_append (GmRecorder *r, const GmTracker *dict, const GmTracker *key,
                          const GmTracker *value);

/* True if the dict's table has exactly the keys of `contents`, in their order; the contents were
 * made from the table, or the table from them. *value: the present value of the i-th pair. */
bool gm_key_table_value_in (GmRecorder *r, const GmTracker *dict, const GmTracker *contents,
                            uint32_t i, const GmTracker **value);

#endif
