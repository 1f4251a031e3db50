/* SPDX-License-Identifier: Apache-2.0
 * inline_hooks.h -- saved-tensor hooks written in Python, as bodies for core/aot/saved_hooks.h.
 */
#ifndef GM_PYTHON_INLINE_HOOKS_H
#define GM_PYTHON_INLINE_HOOKS_H

#include "core/python/cpython.h"

#include "core/aot/saved_hooks.h"
#include "core/trace/trace.h"

/* The pair of one call, and what their bodies relied on. */
typedef struct GmPyHooks GmPyHooks;
/* env: of a call with GM_MODE_SAVED_HOOKS.  NULL with an exception. */
GmPyHooks *gm_py_hooks_new (const GmCallEnv *env);
void gm_py_hooks_free (GmPyHooks *h); /* NULL is fine */
/* Fits GmTraceHooks; data: a GmPyHooks.  GM_ERROR_UNSUPPORTED: it cannot be traced; says where and why. */
bool gm_py_hooks_trace (void *data, const GmMeta *saved, GmArena *arena, GmGraph **pack, GmGraph **unpack, GError **error);
/* Both bodies over a stand-in, for whoever looks at the recorded graph g; nothing, if they do not fit that one. */
void gm_py_hooks_show (GmPyHooks *h, GmGraph *g);
/* The pair and all that was relied on become a guard; takes h. */
void gm_py_hooks_guard (GmPyHooks *h, GmGuards *guards);

#endif
