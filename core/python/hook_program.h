/* SPDX-License-Identifier: Apache-2.0
 * hook_program.h -- hooks on gradients as programs, so that compiled autograd need not stop for them.
 *
 * Requires: the GIL, everywhere.
 */
#ifndef GM_PYTHON_HOOK_PROGRAM_H
#define GM_PYTHON_HOOK_PROGRAM_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "core/autograd/stretch.h"

/* The hook was called with `grad`: records it, if that was not tried often enough. */
void gm_hook_program_try (PyObject *hook, GmTensor *grad);
/* A GmHookFind. */
GmHookProgram *gm_hook_program_find (GmTensorHook hook, void *hook_data, const GmMeta *like, GPtrArray *captured);

#endif
