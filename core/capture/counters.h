/* SPDX-License-Identifier: Apache-2.0
 * counters.h -- counts of what the recorder and the cache did since the start or the last reset.
 *
 * Everything is counted where a call is slow anyway (a miss, a compilation, a break); hits are
 * summed from the entries when read, so a warm call pays for nothing here.  Requires: the GIL.
 */
#ifndef GM_CAPTURE_COUNTERS_H
#define GM_CAPTURE_COUNTERS_H

#include "core/capture/code_cache.h"

/* Counts a call that no entry fitted. */
void gm_count_miss (void);
/* Counts a frame of this function that was handed to the recorder; resume functions count as frames
 * of their own. */
void gm_count_frame (GmCodeCache *cache);
/* Counts a frame that became an entry; again: the configuration has an entry already. */
void gm_count_entry (GmCodeCache *cache, bool again);
/* Counts a break; GM_BREAK_NONE is a back end's refusal. */
void gm_count_break (GmCodeCache *cache, GmBreak id, const char *text);
/* Counts a graph with this many operations that became an entry. */
void gm_count_graph (uint64_t calls);
/* Counts a graph that went through functionalization, differentiation and partition; ok: it was
 * compiled. */
void gm_count_aot (bool ok);
/* Adds the hits of an entry that is freed. */
void gm_count_retired (uint64_t hits);
void gm_counters_reset (void);

int gm_py_init_counters (PyObject *module);

#endif
