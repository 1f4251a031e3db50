/* SPDX-License-Identifier: Apache-2.0
 * table.h -- contents of a large dict or set while keys are dropped and values replaced: the pairs are slots of a heap object.
 */
#ifndef GM_TRACE_TABLE_H
#define GM_TRACE_TABLE_H

#include "core/trace/recorder.h"

/* The table that a dict's contents are, or NULL: they are as contents.h says. */
const GmTracker *gm_table_of (GmRecorder *r, const GmTracker *dict);
/* Contents that are large, and whose keys are all constants, become a table: the i-th pair is at place i.  NULL: they do not.  stride: 2, or 1 for a
 * set's, whose keys have no values; number: of the contents that are made of it. */
const GmTracker *gm_table_make (GmRecorder *r, const GmTracker *dict, uint32_t stride, int64_t number);
/* As contents: key, value, key, value ...; the same object until something changes. */
const GmTracker *gm_table_contents (GmRecorder *r, const GmTracker *table);

uint32_t gm_table_n_pairs (GmRecorder *r, const GmTracker *table);
/* Whether it can be told where the key is; *at: a place for the functions below, -1 for nowhere. */
bool gm_table_find (GmRecorder *r, const GmTracker *table, const GmTracker *key, int64_t *at);
/* The last pair, or the first. */
int64_t gm_table_end (GmRecorder *r, const GmTracker *table, bool first);
const GmTracker *gm_table_key (GmRecorder *r, const GmTracker *table, int64_t at);
const GmTracker *gm_table_value (GmRecorder *r, const GmTracker *table, int64_t at);

void gm_table_replace (GmRecorder *r, const GmTracker *table, int64_t at, const GmTracker *value);
void gm_table_drop (GmRecorder *r, const GmTracker *table, int64_t at);
/* A key that is not there, and is a constant; a full table is left for a larger one. */
void gm_table_append (GmRecorder *r, const GmTracker *dict, const GmTracker *key, const GmTracker *value);

/* Does the dict's table still hold, in their order, the keys of contents that were made of it (or that it was made of)?  *value: of its i-th pair. */
bool gm_table_value_in (GmRecorder *r, const GmTracker *dict, const GmTracker *contents, uint32_t i, const GmTracker **value);

#endif
