/* SPDX-License-Identifier: Apache-2.0
 * fence.h -- memory that may not be written for a while, because several calls share it.
 *
 * A fence is raised on one thread while vmap calls a function for one example. Memory that existed
 * before belongs to all examples, and a write in place to it is refused, except to the memory of
 * the example's own arguments. Fences nest: the innermost fence counts.
 */
#ifndef GM_TENSOR_FENCE_H
#define GM_TENSOR_FENCE_H

#include "core/tensor/tensor.h"

/* Raises a fence on this thread.  The n tensors of `own` may be written nevertheless; the fence
 * keeps a reference to each. */
void gm_fence_raise (GmTensor *const *own, int n);
/* Removes the innermost fence of this thread; false if there is none. */
bool gm_fence_lower (void);
/* True if the innermost fence of this thread protects t's memory.  Exact up to memory between the
 * elements of an own tensor, which counts as part of it. */
bool gm_fence_refuses (const GmTensor *t);
/* Text of the error for a refused write. */
#define GM_FENCE_REASON                                                                            \
  "vmap(): the function changes a tensor in place that all examples share (an argument whose "     \
  "in_dims is None, or a tensor from outside of the function): map it, or compute out of place"

#endif
