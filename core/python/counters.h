/* SPDX-License-Identifier: Apache-2.0
 * counters.h -- what the recorder and the cache have done since the start or the last reset.
 *
 * Everything is counted where a call is slow anyway (a miss, a compilation, a break); hits are summed from the entries when asked, so a warm
 * call pays for nothing here.  Requires: the GIL.
 */
#ifndef GM_PYTHON_COUNTERS_H
#define GM_PYTHON_COUNTERS_H

#include "core/python/code_cache.h"

/* A call that no entry fitted. */
void gm_count_miss (void);
/* A frame of this function was handed to the recorder; resume functions count as frames of their own. */
void gm_count_frame (GmCodeCache *cache);
/* ... and became an entry; again: it has one of this configuration already. */
void gm_count_entry (GmCodeCache *cache, bool again);
/* A break was met; GM_BREAK_NONE is a back end's refusal. */
void gm_count_break (GmCodeCache *cache, GmBreak id, const char *text);
/* A graph with this many operations became an entry. */
void gm_count_graph (uint64_t calls);
/* A graph went through functionalization, differentiation and partition, and was compiled, or was
 * not. */
void gm_count_aot (bool ok);
/* Hits of an entry that is freed. */
void gm_count_retired (uint64_t hits);
void gm_counters_reset (void);

int gm_py_init_counters (PyObject *module);

#endif
