/* SPDX-License-Identifier: Apache-2.0
 * saved_hooks.h -- saved-tensor hooks as part of the compiled graphs (saved_hooks.c).
 *
 * Called after gm_partition, which therefore saves the same with and without hooks.
 */
#ifndef GM_AOT_SAVED_HOOKS_H
#define GM_AOT_SAVED_HOOKS_H

#include "core/aot/aot.h"

/* The saved tensors that the hooks see. */
typedef enum {
  GM_HOOKED_DONATED,   /* tensors that the user cannot see: no inputs, no outputs of the function */
  GM_HOOKED_NO_STATIC, /* all but inputs that are leaves and require grad: parameters */
  GM_HOOKED_ALL,
} GmHookedFilter;

/* Makes both bodies for a saved tensor of that meta; called once for each tensor that they see.
 * pack: one input, the tensor; its outputs are unpack's inputs, and unpack has one output.  The
 * caller frees both.  Where the meta's sizes are expressions, they are of the thread's current
 * sizes, and so are the bodies'; assumptions about these become facts there.
 * True with *pack and *unpack NULL: the hooks cannot be bodies, and are called at each run. */
typedef bool (*GmTraceHooks) (void *data, const GmMeta *saved, GmArena *arena, GmGraph **pack,
                              GmGraph **unpack, GError **error);

typedef struct {
  GmTraceHooks trace;
  void *data;
  GmHookedFilter filter;
  const bool *is_static; /* per input of the forward, for NO_STATIC; NULL: none is */
} GmInlineHooks;

/* Adds pack to the forward's end and unpack to the backward's beginning.  Function outputs and
 * gradients stay as they were; a value that pack returns without reading its tensor is made again
 * in the backward and not saved.  Hooks that are called leave parts as they were, without an error.
 * Errors leave parts as they were: GM_ERROR_UNSUPPORTED for a hook
 * that changes its input, GM_ERROR_VALUE for hooks that do not fit each other or the tensor. */
bool gm_saved_hooks_inline (const GmInlineHooks *hooks, GmArena *arena, GmParts *parts,
                            GError **error);

/* A GmTraceHooks for bodies that are graphs over a stand-in (data: GmHookGraphs): each node is
 * inferred again for the tensor that is really saved, whose sizes may be expressions.  A symbolic
 * size of the stand-in is the size that the real tensor has there; facts about it must hold for
 * that. */
typedef struct {
  const GmGraph *pack, *unpack;
} GmHookGraphs;
bool gm_saved_hooks_retrace (void *data, const GmMeta *saved, GmArena *arena, GmGraph **pack,
                             GmGraph **unpack, GError **error);

#endif
