/* SPDX-License-Identifier: Apache-2.0
 * gpu_blocks.c -- see gpu_blocks.h.
 */
#include "plugins/nvrtc/gpu_blocks.h"

#include <stdlib.h>

#define SMALLEST 512u
#define NO_TIMING 2u /* flag for events */

uint32_t
nv_block_class (uint64_t bytes, uint64_t *size)
{
  if (bytes <= SMALLEST) {
    *size = SMALLEST;
    return 0;
  }
  uint32_t log = 63 - (uint32_t) __builtin_clzll (bytes - 1); /* 2^log < bytes <= 2^(log + 1) */
  uint64_t step = ((uint64_t) 1 << log) / 8,
           steps = (bytes - ((uint64_t) 1 << log) + step - 1) / step;
  uint32_t class = (log - 9) * 8 + (uint32_t) steps;
  *size = ((uint64_t) 1 << log) + steps * step;
  return class < NV_CLASSES ? class : NV_CLASSES;
}

void
nv_block_free (NvBlock *block)
{
  free (block->users);
  free (block);
}

/* -- Blocks in use ----------------------------------------------------------------------------- */

static NvBlock **
bucket (const NvBlocks *b, NvAddress address)
{
  return &b->used[(address >> 8) * 0x9e3779b97f4a7c15u % b->room];
}

static bool
grow (NvBlocks *b)
{
  NvBlocks bigger = { .room = b->room * 2 + 61 };
  bigger.used = calloc (bigger.room, sizeof *bigger.used);
  if (!bigger.used)
    return b->room > 0; /* longer lists still work */
  for (uint32_t i = 0; i < b->room; i++)
    for (NvBlock *block = b->used[i], *next; block; block = next) {
      NvBlock **at = bucket (&bigger, block->address);
      next = block->next;
      block->next = *at;
      *at = block;
    }
  free (b->used);
  b->used = bigger.used;
  b->room = bigger.room;
  return true;
}

bool
nv_blocks_add (NvBlocks *b, NvBlock *block)
{
  if (b->n_used >= b->room && !grow (b))
    return false;
  NvBlock **at = bucket (b, block->address);
  block->next = *at;
  *at = block;
  b->n_used++;
  return true;
}

static NvBlock **
find (const NvBlocks *b, NvAddress address)
{
  NvBlock **at = b->room ? bucket (b, address) : NULL;
  while (at && *at && (*at)->address != address)
    at = &(*at)->next;
  return at && *at ? at : NULL;
}

NvBlock *
nv_blocks_remove (NvBlocks *b, NvAddress address)
{
  NvBlock **at = find (b, address), *block = at ? *at : NULL;
  if (block) {
    *at = block->next;
    b->n_used--;
  }
  return block;
}

/* Records a stream that uses the block.  If there is no memory for that, waits for the stream
 * now. */
void
nv_blocks_use (NvBlocks *b, NvAddress address, void *stream)
{
  NvBlock **at = find (b, address), *block = at ? *at : NULL;
  if (!block || block->stream == stream)
    return;
  for (uint32_t i = 0; i < block->n_users; i++)
    if (block->users[i] == stream)
      return;
  void **users = realloc (block->users, (block->n_users + 1) * sizeof *users);
  if (!users) {
    b->cuda->cuStreamSynchronize (stream);
    return;
  }
  block->users = users;
  users[block->n_users++] = stream;
}

/* -- Cached blocks ----------------------------------------------------------------------------- */

static void
cache (NvBlocks *b, NvBlock *block)
{
  block->next = b->cached[block->class];
  b->cached[block->class] = block;
}

void
nv_blocks_keep (NvBlocks *b, NvBlock *block)
{
  uint32_t n = 0;
  b->cached_bytes += block->size;
  for (uint32_t i = 0; i < block->n_users; i++) {
    void *event = NULL;
    if (b->cuda->cuEventCreate (&event, NO_TIMING) == 0
        && b->cuda->cuEventRecord (event, block->users[i]) == 0)
      block->users[n++] = event;
    else
      b->cuda->cuStreamSynchronize (block->users[i]);
  }
  block->n_users = n;
  if (n == 0) {
    cache (b, block);
    return;
  }
  block->next = b->waiting;
  b->waiting = block;
}

/* True if all streams have passed the events recorded for the block. */
static bool
is_free (NvBlocks *b, NvBlock *block)
{
  while (block->n_users && b->cuda->cuEventQuery (block->users[block->n_users - 1]) == 0)
    b->cuda->cuEventDestroy_v2 (block->users[--block->n_users]);
  return block->n_users == 0;
}

NvBlock *
nv_blocks_find (NvBlocks *b, uint32_t class, void *stream)
{
  for (NvBlock **at = &b->waiting; *at;) {
    NvBlock *block = *at;
    if (is_free (b, block)) {
      *at = block->next;
      cache (b, block);
    } else {
      at = &block->next;
    }
  }
  for (NvBlock **at = &b->cached[class]; *at; at = &(*at)->next)
    if ((*at)->stream == stream) {
      NvBlock *block = *at;
      *at = block->next;
      b->cached_bytes -= block->size;
      return block;
    }
  return NULL;
}

static void
give_back (NvBlocks *b, NvBlock **list)
{
  while (*list) {
    NvBlock *block = *list;
    *list = block->next;
    for (uint32_t i = 0; i < block->n_users; i++)
      b->cuda->cuEventDestroy_v2 (block->users[i]);
    b->cuda->cuMemFree_v2 (block->address);
    nv_block_free (block);
  }
}

void
nv_blocks_trim (NvBlocks *b)
{
  give_back (b, &b->waiting);
  for (uint32_t k = 0; k < NV_CLASSES; k++)
    give_back (b, &b->cached[k]);
  b->cached_bytes = 0;
}
