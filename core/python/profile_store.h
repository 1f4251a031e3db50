/* SPDX-License-Identifier: Apache-2.0
 * profile_store.h -- which sizes of a function were seen to change (core/sym/profile.h), kept on disk beside the artefacts
 * (core/cache), so that another process compiles the general form at once.
 *
 * The key is a digest of the code: its instructions, names, constants and nested code, its name and its file.  Not its line: what is
 * written above a function is no change of it.  GRAMME_CACHE=0 turns this off, too; GRAMME_PROFILE=0 this alone.
 * Requires: the GIL.
 */
#ifndef GM_PYTHON_PROFILE_STORE_H
#define GM_PYTHON_PROFILE_STORE_H

#include "core/python/code_cache.h"

/* Before a recording: asks the disk, once for a cache, and says whose rows are meant: `self` is the function's first argument, or NULL. */
void gm_profile_store_enter (GmCodeCache *cache, PyObject *self);
/* After it: what was seen for the first time, and what varies now and did not before, is stored,
 * with what other processes have stored meanwhile. */
void gm_profile_store_leave (GmCodeCache *cache);

#endif
