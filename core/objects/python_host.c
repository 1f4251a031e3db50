/* SPDX-License-Identifier: Apache-2.0
 * python_host.c -- see python_host.h.
 */
#include "core/objects/python_host.h"

GmTraceHost gm_host;

void
gm_trace_set_host (const GmTraceHost *host)
{
  gm_host = *host;
}
