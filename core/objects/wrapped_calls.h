/* SPDX-License-Identifier: Apache-2.0
 * wrapped_calls.h -- finds calls of functions of gramme.fx.wrap in hooks, and decides if their code
 * may be kept on disk.
 */
#ifndef GM_OBJECTS_WRAPPED_CALLS_H
#define GM_OBJECTS_WRAPPED_CALLS_H

#include "core/objects/cpython.h"

#include <glib.h>

/* Finds the functions of gramme.fx.wrap that a hook can call.  Such a function depends on more
 * than its text, so a graph that calls it is kept on disk only under a string that the user vouches
 * for, the function's attribute user_cache_hash, which is added to `salt`.  For a function without
 * such a string, *why is set to the reason, which names the hook, unless it is set already.  Never
 * fails. */
void gm_py_find_wrapped (PyObject *hook, GString *salt, char **why);

#endif
