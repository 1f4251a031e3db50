/* SPDX-License-Identifier: Apache-2.0
 * cached_function.h -- reads and calls the objects that functools.lru_cache makes.
 */
#ifndef GM_OBJECTS_CACHED_FUNCTION_H
#define GM_OBJECTS_CACHED_FUNCTION_H

#include "core/objects/python_host.h"

/* Returns the functions and offsets by which the recorder reads the objects of
 * functools.lru_cache. The functions find nothing if the layout in this CPython differs from the
 * layout known here. */
GmCachedHost gm_cached_host (void);

#endif
