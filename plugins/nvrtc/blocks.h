/* SPDX-License-Identifier: Apache-2.0
 * blocks.h -- blocks of a GPU's memory that are kept for later.
 *
 * A block belongs to the stream that it was taken on.  Once it is freed it may be handed out again on that stream at once: whoever
 * gets it comes later there.  Other streams that read it are told of (nv_blocks_use); then it waits until they have come past what
 * they were given before it was freed.  Blocks are kept in classes of size, eight to a power of two: an eighth is lost at most.
 *
 * Thread: the caller's lock.  Owner: blocks are the driver's; bookkeeping is the table's.
 */
#ifndef NVRTC_BLOCKS_H
#define NVRTC_BLOCKS_H

#include "plugins/nvrtc/library.h"

typedef struct NvBlock NvBlock;
struct NvBlock {
  NvBlock *next; /* in a list */
  NvAddress address;
  uint64_t size;
  void *stream;
  void **users; /* other streams; then, while it waits, their events */
  uint32_t class, n_users;
};

#define NV_CLASSES (40 * 8)

typedef struct {
  const NvCuda *cuda;
  NvBlock *cached[NV_CLASSES], *waiting;
  NvBlock **used; /* a hash table of those that somebody has */
  uint32_t n_used, room;
  uint64_t cached_bytes;
} NvBlocks;

/* The class of so many bytes and the size of its blocks; NV_CLASSES: more than any GPU has. */
uint32_t nv_block_class (uint64_t bytes, uint64_t *size);
/* A cached block, or NULL. */
NvBlock *nv_blocks_find (NvBlocks *b, uint32_t class, void *stream);
/* Notes that somebody has the block, which becomes the table's.  False: there is no memory. */
bool nv_blocks_add (NvBlocks *b, NvBlock *block);
/* The block is nobody's any more; NULL: it is none.  The caller keeps or frees it. */
NvBlock *nv_blocks_remove (NvBlocks *b, NvAddress address);
/* A stream uses a block that somebody has. */
void nv_blocks_use (NvBlocks *b, NvAddress address, void *stream);
void nv_blocks_keep (NvBlocks *b, NvBlock *block);
/* Gives all that is kept back to the driver; nothing of the device may run. */
void nv_blocks_trim (NvBlocks *b);
void nv_block_free (NvBlock *block);

#endif
