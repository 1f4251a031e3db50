/* SPDX-License-Identifier: Apache-2.0
 * host_function.h -- Python functions as functions of the host's in graphs.
 */
#ifndef GM_PYTHON_HOST_FUNCTION_H
#define GM_PYTHON_HOST_FUNCTION_H

#include "core/trace/trace.h"

/* See GmTraceHost. */
GmHostFunction *gm_py_host_function (PyObject *fn, PyObject *const *values, const uint8_t *which, uint32_t n, PyObject *names);
/* NULL: the hook may read the grad of a tensor. */
GmHostFunction *gm_py_host_hook (PyObject *fn);
bool gm_py_host_try (GmHostFunction *f, const GmMeta *in, uint32_t n_in, bool grad, GmHostTrial *out, char **why);
/* Whether a function runs on stand-ins just now, on this thread: what it computes means nothing. */
bool gm_py_host_is_trying (void);
/* The Python function behind f, borrowed; NULL: there is none. */
PyObject *gm_py_host_callable (const GmHostFunction *f);
/* True if a node of the graph calls a function of the program's, not of the package's own. */
bool gm_py_host_any_of_program (const GmGraph *g);

#endif
