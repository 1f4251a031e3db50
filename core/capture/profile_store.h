/* SPDX-License-Identifier: Apache-2.0
 * profile_store.h -- keeps the sizes of a function that were seen to change (core/sym/profile.h) on
 * disk beside the artefacts (core/cache), so that another process compiles the general form at
 * once.
 *
 * The key is a digest of the code: its instructions, names, constants and nested code, its name and
 * its file, but not its line, since text inserted above a function does not change the function.
 * GRAMME_CACHE=0 turns this off, too; GRAMME_PROFILE=0 turns off this alone.
 * Requires: the GIL.
 */
#ifndef GM_CAPTURE_PROFILE_STORE_H
#define GM_CAPTURE_PROFILE_STORE_H

#include "core/capture/code_cache.h"

/* Prepares a recording: reads the profile from disk, once for each cache, and selects the rows
 * that belong to `self`, the function's first argument, or NULL. */
void gm_profile_store_enter (GmCodeCache *cache, PyObject *self);
/* Ends a recording: writes to disk the sizes that were seen for the first time, and sizes that
 * vary now and did not before, merged with those that other processes have stored meanwhile. */
void gm_profile_store_leave (GmCodeCache *cache);

#endif
