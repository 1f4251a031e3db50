/* SPDX-License-Identifier: Apache-2.0
 * cached_function.h -- reads and calls the objects that functools.lru_cache makes.
 */
#ifndef GM_OBJECTS_CACHED_FUNCTION_H
#define GM_OBJECTS_CACHED_FUNCTION_H

#include "core/objects/python_host.h"

/* Returns the functions for the recorder's host.  They find nothing if this CPython's object
 * differs from the layout that we know. */
GmCachedHost gm_cached_host (void);

#endif
