/* SPDX-License-Identifier: Apache-2.0
 * key_table.h -- contents of a large dict or set while keys are dropped and values replaced: the
 * pairs are slots of a heap object.
 */
#ifndef GM_TRACE_KEY_TABLE_H
#define GM_TRACE_KEY_TABLE_H

#include "core/trace/recorder.h"

/* Returns the table if a dict's contents are one, else NULL: the contents are as contents.h
 * says. */
const GmTracker *gm_key_table_of (GmRecorder *r, const GmTracker *dict);
/* Turns large contents whose keys are all constants into a table: the i-th pair is at place i.
 * NULL: the contents do not qualify. stride: 2, or 1 for a set's, whose keys have no values;
 * number: the `number` of contents that are made of the table. */
const GmTracker *gm_key_table_make (GmRecorder *r, const GmTracker *dict, uint32_t stride,
                                    int64_t number);
/* Returns the table as contents: key, value, key, value ...; the same object until something
 * changes. */
const GmTracker *gm_key_table_contents (GmRecorder *r, const GmTracker *table);

uint32_t gm_key_table_n_pairs (GmRecorder *r, const GmTracker *table);
/* True if the place of the key can be told; *at: a place for the functions below, -1 if the key is
 * absent. */
bool gm_key_table_find (GmRecorder *r, const GmTracker *table, const GmTracker *key, int64_t *at);
/* Returns the place of the last pair, or of the first. */
int64_t gm_key_table_end (GmRecorder *r, const GmTracker *table, bool first);
const GmTracker *gm_key_table_key (GmRecorder *r, const GmTracker *table, int64_t at);
const GmTracker *gm_key_table_value (GmRecorder *r, const GmTracker *table, int64_t at);

void gm_key_table_replace (GmRecorder *r, const GmTracker *table, int64_t at,
                           const GmTracker *value);
void gm_key_table_drop (GmRecorder *r, const GmTracker *table, int64_t at);
/* Appends a key that is absent, and a constant; a full table is replaced by a larger one. */
void gm_key_table_append (GmRecorder *r, const GmTracker *dict, const GmTracker *key,
                          const GmTracker *value);

/* True if the dict's table still holds, in order, the keys of contents that were made of it (or
 * that it was made of). *value: of its i-th pair. */
bool gm_key_table_value_in (GmRecorder *r, const GmTracker *dict, const GmTracker *contents,
                            uint32_t i, const GmTracker **value);

#endif
