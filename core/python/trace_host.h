/* SPDX-License-Identifier: Apache-2.0
 * trace_host.h -- tells the recorder about Python and the package: trace_host.c.
 */
#ifndef GM_PYTHON_TRACE_HOST_H
#define GM_PYTHON_TRACE_HOST_H

#include "core/python/cpython.h"

#include <stdbool.h>

/* Imports what recording needs and tells the recorder, once; called when a compiled function is made, so that no first call imports anything.
 * False with an exception. */
bool gm_trace_host_tell (void);

#endif
