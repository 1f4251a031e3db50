/* SPDX-License-Identifier: Apache-2.0
 * host_function.h -- Python functions as host functions in graphs.
 */
#ifndef GM_OBJECTS_HOST_FUNCTION_H
#define GM_OBJECTS_HOST_FUNCTION_H

#include "core/objects/python_host.h"

/* Make a host function; see GmTraceHost. */
GmHostFunction *gm_py_host_function (PyObject *fn, PyObject *const *values, const uint8_t *which,
                                     uint32_t n, PyObject *names);
/* Returns NULL if the hook may read the grad of a tensor. */
GmHostFunction *gm_py_host_hook (PyObject *fn);
bool gm_py_host_try (GmHostFunction *f, const GmMeta *in, uint32_t n_in, bool grad,
                     GmHostTrial *out, char **why);
/* True if this thread runs a function on stand-ins now, whose numbers have no meaning. */
bool gm_py_host_is_trying (void);
/* Returns the Python function behind f, borrowed; NULL: there is none. */
PyObject *gm_py_host_callable (const GmHostFunction *f);
/* True if a node of the graph calls a function of the program, not the package's own. */
bool gm_py_host_any_of_program (const GmGraph *g);

#endif
