/* SPDX-License-Identifier: Apache-2.0
 * background_builds.h -- work for the background: code that is made while slower code runs already.
 *
 * As many builds run at a time as there are processors, on threads of low priority that end when no
 * build is left.  A build whose result is not wanted any more is told to stop (`stop`), and its
 * result is dropped.  When the process ends, running builds are stopped and waited for.  The child
 * of a fork inherits the parent's unfinished builds, and begins with them when the next build is
 * started.
 */
#ifndef GM_RUN_BACKGROUND_BUILDS_H
#define GM_RUN_BACKGROUND_BUILDS_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

typedef struct GmBuild GmBuild;

/* Does the work of a build, on a build thread.  stop: atomic; becomes 1 when the result is not
 * wanted any more.  Returns true if the result was made. */
typedef bool (*GmBuildWork) (void *data, const int *stop);

/* Starts a build of `data`, which is owned by the build and freed by `release`, on any thread, when
 * the work is done or dropped.  The caller must release the returned build with gm_build_drop.
 * Thread: any, as for all functions here. */
GmBuild *gm_build_start (GmBuildWork work, void *data, void (*release) (void *data));
/* Releases the caller's reference, and stops the work if it is still waiting or running.  NULL is
 * fine.  Does not wait. */
void gm_build_drop (GmBuild *b);

typedef struct {
  uint32_t waiting, running;
  uint64_t made, failed, dropped; /* since the process began */
} GmBuildCounts;
GmBuildCounts gm_builds_count (void);

/* Waits until no build waits or runs, and returns true.  Returns false after timeout_us
 * microseconds (< 0: no limit). */
bool gm_builds_wait (int64_t timeout_us);

#endif
