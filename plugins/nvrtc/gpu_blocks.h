/* SPDX-License-Identifier: Apache-2.0
 * gpu_blocks.h -- a cache of blocks of a GPU's memory.
 *
 * A block belongs to the stream on which it was allocated.  After it is freed it may be handed out
 * again on that stream at once, since its new owner's work comes later there.  Other streams that
 * use it are recorded (nv_blocks_use); then it waits until they have finished the work that they
 * were given before it was freed.  Blocks are kept in classes of size, eight to a power of two, so
 * an eighth is wasted at most.
 *
 * Thread: the caller's lock.  Owner: blocks are the driver's; bookkeeping is the table's.
 */
#ifndef GM_NVRTC_GPU_BLOCKS_H
#define GM_NVRTC_GPU_BLOCKS_H

#include "plugins/nvrtc/library.h"

typedef struct NvBlock NvBlock;
struct NvBlock {
  NvBlock *next; /* next block of a list */
  NvAddress address;
  uint64_t size;
  void *stream;
  void **users; /* other streams; while it waits: their events */
  uint32_t class, n_users;
};

#define NV_CLASSES (40 * 8)

typedef struct {
  const NvCuda *cuda;
  NvBlock *cached[NV_CLASSES], *waiting;
  NvBlock **used; /* a hash table of the blocks in use */
  uint32_t n_used, room;
  uint64_t cached_bytes;
} NvBlocks;

/* Returns the class for so many bytes and the size of its blocks; NV_CLASSES: more than any GPU
 * has. */
uint32_t nv_block_class (uint64_t bytes, uint64_t *size);
/* Returns a cached block of this class that `stream` may use, and removes it from the cache; NULL:
 * there is none. */
NvBlock *nv_blocks_find (NvBlocks *b, uint32_t class, void *stream);
/* Records that the block is in use; it is then owned by the table.  False: there is no memory. */
bool nv_blocks_add (NvBlocks *b, NvBlock *block);
/* Removes the block at the address, which is then owned by the caller, who caches or frees it; NULL
 * if there is none. */
NvBlock *nv_blocks_remove (NvBlocks *b, NvAddress address);
/* Records that a stream uses a block in use. */
void nv_blocks_use (NvBlocks *b, NvAddress address, void *stream);
void nv_blocks_keep (NvBlocks *b, NvBlock *block);
/* Returns all cached blocks to the driver; no work of the device may run. */
void nv_blocks_trim (NvBlocks *b);
void nv_block_free (NvBlock *block);

#endif
