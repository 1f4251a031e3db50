/* SPDX-License-Identifier: Apache-2.0
 * cached_function.h -- what functools.lru_cache makes, looked into and called: cached_function.c.
 */
#ifndef GM_PYTHON_CACHED_FUNCTION_H
#define GM_PYTHON_CACHED_FUNCTION_H

#include "core/trace/trace.h"

/* For the recorder's host.  Not known where this CPython's object is not as we know it. */
GmCachedHost gm_cached_host (void);

#endif
