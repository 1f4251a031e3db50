/* SPDX-License-Identifier: Apache-2.0
 * wrapped_calls.h -- does a hook call a function of gramme.fx.wrap, and may what it compiles to be kept on disk?
 */
#ifndef GM_PYTHON_WRAPPED_CALLS_H
#define GM_PYTHON_WRAPPED_CALLS_H

#include "core/python/cpython.h"

#include <glib.h>

/* Whoever wraps a function says that what it does depends on more than its text.  So a graph with such a call is kept on disk only
 * under a string that the user answers for, the function's attribute user_cache_hash: it is added to `salt`.  A function
 * without one: *why gets the reason, which names the hook, unless it has one.  Never fails. */
void gm_py_find_wrapped (PyObject *hook, GString *salt, char **why);

#endif
