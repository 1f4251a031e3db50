/* SPDX-License-Identifier: Apache-2.0
 * autograd_function.h -- autograd.Function while recording.
 */
#ifndef GM_MODELS_AUTOGRAD_FUNCTION_H
#define GM_MODELS_AUTOGRAD_FUNCTION_H

#include "core/trace/recorder.h"

/* function_apply (class, setup_context, args) of gramme._core. */
const GmTracker *gm_custom_apply (GmRecorder *r, const GmCallArgs *args);
/* Returns the attribute that the type of contexts itself defines; NULL, without a break: there is
 * none. */
const GmTracker *gm_context_getattr (GmRecorder *r, const GmTracker *ctx, PyObject *name);

#endif
