/* SPDX-License-Identifier: Apache-2.0
 * inline_hooks.h -- saved-tensor hooks written in Python, as bodies for core/aot/saved_hooks.h.
 */
#ifndef GM_CAPTURE_INLINE_HOOKS_H
#define GM_CAPTURE_INLINE_HOOKS_H

#include "core/objects/cpython.h"

#include "core/aot/saved_hooks.h"
#include "core/trace/trace.h"

/* The saved-tensor hooks of the call that compiles, with the guards of their recorded bodies. */
typedef struct GmPyHooks GmPyHooks;
/* Returns the saved-tensor hooks that are active in a call with GM_MODE_SAVED_HOOKS.  NULL with
 * an exception. */
GmPyHooks *gm_py_hooks_new (const GmCallEnv *env);
void gm_py_hooks_free (GmPyHooks *h); /* NULL is fine */
/* Records both hooks for a tensor with the meta `saved` and stores their graphs in *pack and
 * *unpack; fits GmTraceHooks; data: a GmPyHooks.  False with GM_ERROR_UNSUPPORTED if a hook cannot
 * be traced; the message says where and why. */
bool gm_py_hooks_trace (void *data, const GmMeta *saved, GmArena *arena, GmGraph **pack,
                        GmGraph **unpack, GError **error);
/* Adds both bodies to the recorded graph g, for display only.  They are recorded for a stand-in
 * tensor; adds nothing if they cannot be recorded for it. */
void gm_py_hooks_show (GmPyHooks *h, GmGraph *g);
/* Adds a guard for the pair of hooks and everything that the recorded bodies depend on; steals
 * h. */
void gm_py_hooks_guard (GmPyHooks *h, GmGuards *guards);

#endif
