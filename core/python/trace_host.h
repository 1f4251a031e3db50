/* SPDX-License-Identifier: Apache-2.0
 * trace_host.h -- tells the recorder about Python and the package: trace_host.c.
 */
#ifndef GM_PYTHON_TRACE_HOST_H
#define GM_PYTHON_TRACE_HOST_H

#include "core/python/cpython.h"

/* Once, before the first recording: by then the package has been imported. */
void gm_trace_host_tell (void);

#endif
