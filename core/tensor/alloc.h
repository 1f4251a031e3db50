/* SPDX-License-Identifier: Apache-2.0
 * alloc.h -- functions of alloc.c beside gm_alloc (tensor.h): blocks for the tensor structs
 * themselves, and test switches.
 */
#ifndef GM_TENSOR_ALLOC_H
#define GM_TENSOR_ALLOC_H

#include <stddef.h>
#include <stdint.h>

#define GM_ALLOC_ALIGN 64

/* gm_block_take allocates a block of at most 64 KiB from the same per-thread caches, and
 * gm_block_give frees it; for bookkeeping: not counted, never made to fail by GM_FAIL_ALLOC, aborts
 * when the machine has no memory left. Contents undefined. Thread: any. */
void *gm_block_take (size_t bytes);
void gm_block_give (void *p, size_t bytes);

/* Does what gm_alloc does, with room for `head` uncounted bytes (a multiple of GM_ALLOC_ALIGN),
 * which are the caller's, before the memory; both together at most 64 KiB. */
void *gm_alloc_behind (size_t head, size_t bytes);
void gm_free_behind (void *p, size_t head, size_t bytes);

/* Makes the k-th call of gm_alloc from now fail, once; 0: none fails. GM_FAIL_ALLOC=k does the same
 * at the first call. */
void gm_alloc_fail_at (uint64_t k);
/* Returns cached large blocks to the system; the result is their number of bytes. */
size_t gm_alloc_trim (void);

#endif
