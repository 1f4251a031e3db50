/* SPDX-License-Identifier: Apache-2.0
 * autograd_function.h -- autograd.Function while recording.
 */
#ifndef GM_MODELS_AUTOGRAD_FUNCTION_H
#define GM_MODELS_AUTOGRAD_FUNCTION_H

#include "core/trace/recorder.h"

/* Records a call of function_apply (class, setup_context, args) of gramme._core: an
 * autograd.Function.  Returns its results; poison after a break. */
const GmTracker *gm_custom_apply (GmRecorder *r, const GmCallArgs *args);
/* Returns the attribute `name` that the type of contexts itself defines, for the context ctx;
 * NULL, without a break: there is none. */
const GmTracker *gm_context_getattr (GmRecorder *r, const GmTracker *ctx, PyObject *name);

#endif
