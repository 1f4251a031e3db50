/* SPDX-License-Identifier: Apache-2.0
 * calls.h -- kernels of a single node: a thread for each element, or for each line of elements.
 */
#ifndef NVRTC_CALLS_H
#define NVRTC_CALLS_H

#include "plugins/nvrtc/gpu_unit.h"

#define NV_CALL_BLOCK 256

/* Begins a kernel with a thread for each point of a space of these sizes: coordinates d0 ..., after
 * which the caller prints the thread's work.  Dimension `skip` (or -1) is left out: a thread takes
 * a line along it.  False: the space is empty. */
bool nv_call_begin (NvUnit *u, const char *label, uint32_t node, const CgValue *space, int skip,
                    const uint32_t *values, uint32_t n_values);
void nv_call_end (NvUnit *u, const CgValue *space, int skip);
/* Prints the offset of value v's element at these coordinates, in elements; `d` is the name of
 * coordinate `at`, all others are d<n>.  Sizes of 1 are broadcast, from the right. */
void nv_call_offset (NvUnit *u, char *out, size_t room, const CgValue *v, uint32_t ndim, int at,
                     const char *d);

#endif
