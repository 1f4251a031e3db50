/* SPDX-License-Identifier: Apache-2.0
 * hook_program.h -- hooks on gradients as graphs, so that compiled autograd need not stop for them.
 *
 * Requires: the GIL, everywhere.
 */
#ifndef GM_CAPTURE_HOOK_PROGRAM_H
#define GM_CAPTURE_HOOK_PROGRAM_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "core/autograd/backward_stretch.h"

/* Records a hook that was called with `grad`, and keeps the program in the hook's cache; does
 * nothing if that was tried too often. */
void gm_hook_program_try (PyObject *hook, GmTensor *grad);
/* Returns the program recorded for a hook on a gradient with the meta `like`, a new reference,
 * if the guards of one hold; else NULL.  Appends new references to the other tensors that the
 * program reads to `captured`.  Fits GmHookFind. */
GmHookProgram *gm_hook_program_find (GmTensorHook hook, void *hook_data, const GmMeta *like,
                                     GPtrArray *captured);

#endif
