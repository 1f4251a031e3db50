/* SPDX-License-Identifier: Apache-2.0
 * counters.h -- counts of what the recorder and the cache did since the start or the last reset.
 *
 * Everything is counted where a call is slow anyway (a miss, a compilation, a break); hits are
 * summed from the entries when read, so a warm call pays for nothing here.  Requires: the GIL.
 */
#ifndef GM_CAPTURE_COUNTERS_H
#define GM_CAPTURE_COUNTERS_H

#include "core/capture/code_cache.h"

/* Counts a call for which the guards of no entry held. */
void gm_count_miss (void);
/* Counts a frame of this function that was handed to the recorder; each resume function's frame
 * counts as a frame, too. */
void gm_count_frame (GmCodeCache *cache);
/* Counts a frame that became an entry.  again: the configuration had an entry already, so this
 * was a recompilation. */
void gm_count_entry (GmCodeCache *cache, bool again);
/* Counts a break with this id and message `text`; GM_BREAK_NONE stands for a back end's refusal. */
void gm_count_break (GmCodeCache *cache, GmBreak id, const char *text);
/* Counts a graph that became an entry; `calls` is the number of its operations. */
void gm_count_graph (uint64_t calls);
/* Counts a graph that was functionalized, differentiated and partitioned.  ok: true if the back
 * end has compiled it. */
void gm_count_aot (bool ok);
/* Adds the hits of an entry that is freed to the total, so that they are not lost with the
 * entry. */
void gm_count_retired (uint64_t hits);
void gm_counters_reset (void);

int gm_py_init_counters (PyObject *module);

#endif
