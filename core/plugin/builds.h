/* SPDX-License-Identifier: Apache-2.0
 * builds.h -- work for the background: code that is made while slower code runs already.
 *
 * As many builds run at a time as there are processors, on threads of low priority that end when nothing
 * is left.  A build that nobody wants any more is told so (`stop`) and its result is dropped.  When the
 * process ends, builds that run are stopped and waited for; the child of a fork has its parent's builds
 * to do itself, and begins with the next one that is started.
 */
#ifndef GM_PLUGIN_BUILDS_H
#define GM_PLUGIN_BUILDS_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

typedef struct GmBuild GmBuild;

/* stop: atomic, becomes 1 when the result is not wanted any more.  True: made. */
typedef bool (*GmBuildWork) (void *data, const int *stop);

/* Takes over `data`, released when the work is done or dropped, on any thread.  The caller drops what it
 * gets.  Thread: any, as for all functions here. */
GmBuild *gm_build_start (GmBuildWork work, void *data, void (*release) (void *data));
/* The result is not wanted, or there already.  NULL is fine.  Does not wait. */
void gm_build_drop (GmBuild *b);

typedef struct {
  uint32_t waiting, running;
  uint64_t made, failed, dropped; /* since the process began */
} GmBuildCounts;
GmBuildCounts gm_builds_count (void);

/* Until nothing waits or runs; false after timeout_us microseconds (< 0: never). */
bool gm_builds_wait (int64_t timeout_us);

#endif
