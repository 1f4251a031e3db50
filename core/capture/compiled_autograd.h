/* SPDX-License-Identifier: Apache-2.0
 * compiled_autograd.h -- backward passes of this thread through a back end:
 * gramme._dynamo.compiled_autograd.
 *
 * Requires: the GIL, everywhere.
 */
#ifndef GM_CAPTURE_COMPILED_AUTOGRAD_H
#define GM_CAPTURE_COMPILED_AUTOGRAD_H

#include "core/objects/autograd_py.h"
#include "core/capture/code_cache.h"

/* True if a backward that begins now would be compiled: a tape is entered on this thread, or
 * config.compiled_autograd says so. */
bool gm_compiled_autograd_on (void);

/* Drops the compiled code of all stretches, for all configurations. */
void gm_compiled_autograd_reset (void);
/* Return the counters of compiled autograd, {"captures": n, ...}, and how often each reason
 * stopped a stretch, {reason: n}: new references, or NULL with an exception. */
PyObject *gm_compiled_autograd_counts (void);
PyObject *gm_compiled_autograd_reasons (void);

int gm_py_init_compiled_autograd (PyObject *module);

#endif
