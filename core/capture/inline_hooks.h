/* SPDX-License-Identifier: Apache-2.0
 * inline_hooks.h -- saved-tensor hooks written in Python, as bodies for core/aot/saved_hooks.h.
 */
#ifndef GM_CAPTURE_INLINE_HOOKS_H
#define GM_CAPTURE_INLINE_HOOKS_H

#include "core/objects/cpython.h"

#include "core/aot/saved_hooks.h"
#include "core/trace/trace.h"

/* The hooks of one call, and the guards of their bodies. */
typedef struct GmPyHooks GmPyHooks;
/* Returns the hooks of a call with GM_MODE_SAVED_HOOKS.  NULL with an exception. */
GmPyHooks *gm_py_hooks_new (const GmCallEnv *env);
void gm_py_hooks_free (GmPyHooks *h); /* NULL is fine */
/* Records both bodies; fits GmTraceHooks; data: a GmPyHooks.  GM_ERROR_UNSUPPORTED if a hook cannot
 * be traced; says where and why. */
bool gm_py_hooks_trace (void *data, const GmMeta *saved, GmArena *arena, GmGraph **pack,
                        GmGraph **unpack, GError **error);
/* Adds both bodies, recorded for a stand-in, to the recorded graph g, for display.  Adds nothing if
 * they do not fit the stand-in. */
void gm_py_hooks_show (GmPyHooks *h, GmGraph *g);
/* Adds a guard for the pair and everything that its bodies depend on; steals h. */
void gm_py_hooks_guard (GmPyHooks *h, GmGuards *guards);

#endif
