/* SPDX-License-Identifier: Apache-2.0
 * storage.h -- growth of memory that tensors already use.
 */
#ifndef GM_TENSOR_STORAGE_H
#define GM_TENSOR_STORAGE_H

#include "core/tensor/tensor.h"

/* Makes the memory of t's storage at least `bytes` large. All tensors over it keep their elements,
 * at another address; new memory is 0. False: an error is set, GM_ERROR_RUNTIME for memory that is
 * not gramme's own on the CPU, or GM_ERROR_MEMORY. */
bool gm_storage_grow (GmTensor *t, size_t bytes, GError **error);
/* Returns t's elements, and the elements behind them in its memory, in row-major order in this
 * shape: a new tensor without gradient history over the same storage, which grows if it is too
 * small. NULL: an error is set, as above, or GM_ERROR_MEMORY where the size in bytes overflows. */
GmTensor *gm_tensor_resized (GmTensor *t, int ndim, const int64_t *sizes, GError **error);

#endif
