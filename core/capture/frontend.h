/* SPDX-License-Identifier: Apache-2.0
 * frontend.h -- the stages d, r and a: from a call that no entry fits to a published entry.
 */
#ifndef GM_CAPTURE_FRONTEND_H
#define GM_CAPTURE_FRONTEND_H

#include "core/capture/callable.h"

/* Records and compiles the function for this call, and publishes the entry.  Returns a new
 * reference to the entry.  NULL with an exception: the back end failed, or fullgraph is set and the
 * function cannot be traced.  NULL without an exception: the caller runs the plain function; the
 * user was told the reason. locals: bound arguments.  Requires: the GIL. */
GmEntry *gm_frontend_compile (const GmTarget *target, const GmCallEnv *env,
                              PyObject *const *locals);

/* Raises a RuntimeError for a call that no entry fits, in a thread that allows no compilation.
 * The error says why no entry fits.  Always returns NULL. */
PyObject *gm_frontend_refuse (const GmTarget *target, const GmCallEnv *env,
                              PyObject *const *locals);

/* The exception classes gramme.compiler.Unsupported (a RuntimeError) and GraphBreakWarning (a
 * UserWarning). */
extern PyObject *gm_py_unsupported, *gm_py_break_warning;

int gm_py_init_frontend (PyObject *module);

#endif
