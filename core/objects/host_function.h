/* SPDX-License-Identifier: Apache-2.0
 * host_function.h -- Python functions as host functions in graphs.
 */
#ifndef GM_OBJECTS_HOST_FUNCTION_H
#define GM_OBJECTS_HOST_FUNCTION_H

#include "core/objects/python_host.h"

/* Makes a host function that calls fn; see host_function of GmTraceHost for the arguments. */
GmHostFunction *gm_py_host_function (PyObject *fn, PyObject *const *values, const uint8_t *which,
                                     uint32_t n, PyObject *names);
/* Makes a host function for a hook; NULL if the hook may read the grad of a tensor. */
GmHostFunction *gm_py_host_hook (PyObject *fn);
bool gm_py_host_try (GmHostFunction *f, const GmMeta *in, uint32_t n_in, bool grad,
                     GmHostTrial *out, char **why);
/* True while this thread runs a function on stand-ins, whose numbers have no meaning, to learn
 * the metas of its results. */
bool gm_py_host_is_trying (void);
/* Returns the Python function behind f, borrowed; NULL: there is none. */
PyObject *gm_py_host_callable (const GmHostFunction *f);
/* True if a node of the graph calls a function of the program, rather than a function of the
 * package. */
bool gm_py_host_any_of_program (const GmGraph *g);

#endif
