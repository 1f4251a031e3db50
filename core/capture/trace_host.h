/* SPDX-License-Identifier: Apache-2.0
 * trace_host.h -- describes Python and the package to the recorder.
 */
#ifndef GM_CAPTURE_TRACE_HOST_H
#define GM_CAPTURE_TRACE_HOST_H

#include "core/objects/cpython.h"

#include <stdbool.h>

/* Imports the modules that recording needs and fills the recorder's host table, once.  Called when
 * a compiled function is made, so that no first call imports anything.  False with an exception. */
bool gm_trace_host_tell (void);

#endif
