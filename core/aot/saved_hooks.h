/* SPDX-License-Identifier: Apache-2.0
 * saved_hooks.h -- saved-tensor hooks as part of the compiled graphs (saved_hooks.c).
 *
 * Called after gm_partition, which therefore saves the same with and without hooks.
 */
#ifndef GM_AOT_SAVED_HOOKS_H
#define GM_AOT_SAVED_HOOKS_H

#include "core/aot/aot.h"

/* The saved tensors that saved-tensor hooks are called for. */
typedef enum {
  GM_HOOKED_DONATED,   /* tensors that the user cannot see: no inputs, no outputs of the function */
  GM_HOOKED_NO_STATIC, /* all but inputs that are leaves and require grad: parameters */
  GM_HOOKED_ALL,
} GmHookedFilter;

/* Records pack and unpack as graphs (bodies) for a saved tensor with the meta `saved`; called once
 * for each tensor that the hooks are to see.  pack has one input, the tensor; its outputs are the
 * inputs of unpack, which has one output.  The caller frees both.  Where sizes of the meta are
 * expressions, they and those of the bodies are of the thread's current sizes, and assumptions
 * about them become facts there.  True with *pack and *unpack NULL: the hooks cannot be recorded,
 * and are called at each run. */
typedef bool (*GmTraceHooks) (void *data, const GmMeta *saved, GmArena *arena, GmGraph **pack,
                              GmGraph **unpack, GError **error);

typedef struct {
  GmTraceHooks trace;
  void *data;
  GmHookedFilter filter;
  const bool *is_static; /* per input of the forward, for NO_STATIC; NULL: none is */
} GmInlineHooks;

/* Appends pack to the forward and puts unpack before the backward, for each saved tensor that the
 * hooks see.  Outputs of the function and gradients stay as they were; a value that pack returns
 * without reading its tensor is recomputed in the backward and not saved.  If the hooks cannot be
 * recorded, `parts` stays as it was and the result is true.  Errors leave `parts` as it was:
 * GM_ERROR_UNSUPPORTED for a hook that changes its input, GM_ERROR_VALUE for hooks that do not fit
 * each other or the tensor. */
bool gm_saved_hooks_inline (const GmInlineHooks *hooks, GmArena *arena, GmParts *parts,
                            GError **error);

/* A GmTraceHooks (data: GmHookGraphs) for hooks that have been recorded for a stand-in: each node
 * is inferred again for the tensor that is really saved, whose sizes may be expressions.  A symbol
 * of the stand-in's sizes becomes the size that the real tensor has there; facts about the symbol
 * must hold for that size. */
typedef struct {
  const GmGraph *pack, *unpack;
} GmHookGraphs;
bool gm_saved_hooks_retrace (void *data, const GmMeta *saved, GmArena *arena, GmGraph **pack,
                             GmGraph **unpack, GError **error);

#endif
