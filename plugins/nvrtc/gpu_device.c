/* SPDX-License-Identifier: Apache-2.0
 * gpu_device.c -- see gpu_device.h.
 */
#include "plugins/nvrtc/gpu_device.h"

#include "plugins/nvrtc/gpu_blocks.h"

#include <pthread.h>
#include <stdlib.h>

#define MAX_STREAMS 1024 /* number of streams kept for reuse */

enum { RESULT_OUT_OF_MEMORY = 2 };

struct NvDevice {
  const NvCuda *cuda;
  int device, capability;
  char name[128];
  size_t memory;
  void *context, *stream;
  int number;
  pthread_mutex_t lock; /* protects the fields below */
  NvBlocks blocks;
  NvMemoryCount count;
  void *streams[MAX_STREAMS];
  uint32_t n_streams;
  /* Every block directly from the driver, of its exact size: for compute-sanitizer and tests. */
  bool exact;
  char lost[256]; /* reason why the device cannot be used any more, or empty */
};

static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static NvDevice *devices[NV_MAX_DEVICES];
static _Thread_local void *current[NV_MAX_DEVICES]; /* stream; NULL: the device's own */

/* -- Opening ----------------------------------------------------------------------------------- */

/* True for errors after which the context cannot be used, such as an illegal access. */
static bool
is_fatal (int result)
{
  return result == 700 || (result >= 714 && result <= 719) || result == 710 || result == 46
         || result == 999;
}

int32_t
nv_device_fail (NvDevice *d, int result, const char *what, GrammeStatus *status)
{
  char text[256];
  nv_cuda_error (text, sizeof text, result);
  if (is_fatal (result) && !d->lost[0])
    snprintf (d->lost, sizeof d->lost, "%.100s: %.140s", what, text);
  if (result == RESULT_OUT_OF_MEMORY)
    return gramme_fail (status, GRAMME_NO_MEMORY, -1, "%s: no memory on device cuda (%s): %s", what,
                        d->name, text);
  return gramme_fail (status, GRAMME_DEVICE, -1, "%s: %s%s", what, text,
                      is_fatal (result)
                          ? "; the device is of no use to this process any more, the CPU still is"
                          : "");
}

int32_t
nv_device_enter (NvDevice *d, GrammeStatus *status)
{
  if (d->lost[0])
    return gramme_fail (status, GRAMME_DEVICE, -1,
                        "device cuda is lost to this process since %s; start a new one", d->lost);
  int result = d->cuda->cuCtxSetCurrent (d->context);
  return result ? nv_device_fail (d, result, "device cuda cannot be entered", status) : GRAMME_OK;
}

static int32_t
open_device (NvDevice *d, const NvCuda *c, int number, GrammeStatus *status)
{
  int result;
  d->cuda = d->blocks.cuda = c;
  d->number = number;
  if ((result = c->cuDeviceGet (&d->device, number)) != 0
      || (result = c->cuDeviceGetName (d->name, sizeof d->name, d->device)) != 0
      || (result = c->cuDeviceTotalMem_v2 (&d->memory, d->device)) != 0
      || (result = nv_cuda_capability (c, d->device, &d->capability)) != 0
      || (result = c->cuDevicePrimaryCtxRetain (&d->context, d->device)) != 0
      || (result = c->cuCtxSetCurrent (d->context)) != 0
      || (result = c->cuStreamCreate (&d->stream, 0)) != 0)
    return nv_device_fail (d, result, "a GPU cannot be opened", status);
  const char *memory = secure_getenv ("GRAMME_CUDA_MEMORY");
  d->exact = memory && !strcmp (memory, "exact");
  return GRAMME_OK;
}

NvDevice *
nv_device (int32_t number, GrammeStatus *status)
{
  const char *why;
  const NvCuda *c = nv_cuda (&why);
  if (!c) {
    gramme_fail (status, GRAMME_DEVICE, -1, "%s", why);
    return NULL;
  }
  if (number < 0 || number >= c->n_devices || number >= NV_MAX_DEVICES) {
    gramme_fail (status, GRAMME_DEVICE, -1, "there is no device cuda:%d; there are %d", number,
                 c->n_devices);
    return NULL;
  }
  pthread_mutex_lock (&open_lock);
  NvDevice *d = devices[number];
  if (!d && (d = calloc (1, sizeof *d))) {
    pthread_mutex_init (&d->lock, NULL);
    if (open_device (d, c, number, status) == GRAMME_OK) {
      devices[number] = d;
    } else {
      pthread_mutex_destroy (&d->lock);
      free (d);
      pthread_mutex_unlock (&open_lock);
      return NULL;
    }
  }
  pthread_mutex_unlock (&open_lock);
  if (!d)
    gramme_fail (status, GRAMME_NO_MEMORY, -1, "no memory to open a GPU");
  return d;
}

int
nv_device_capability (const NvDevice *d)
{
  return d->capability;
}

const char *
nv_device_name (const NvDevice *d)
{
  return d->name;
}

int32_t
nv_device_number (const NvDevice *d)
{
  return d->number;
}

uint64_t
nv_device_memory (const NvDevice *d)
{
  return d->memory;
}

void *
nv_device_own_stream (const NvDevice *d)
{
  return d->stream;
}

void *
nv_device_stream (const NvDevice *d)
{
  void *stream = current[d->number];
  return stream ? stream : d->stream;
}

void
nv_device_use (NvDevice *d, void *stream)
{
  current[d->number] = stream == d->stream ? NULL : stream;
}

/* -- Streams ----------------------------------------------------------------------------------- */

int32_t
nv_device_stream_new (NvDevice *d, void **out, GrammeStatus *status)
{
  enum { NON_BLOCKING = 1 }; /* no order between it and the driver's default stream */
  int32_t code = nv_device_enter (d, status);
  *out = NULL;
  if (code != GRAMME_OK)
    return code;
  pthread_mutex_lock (&d->lock);
  int result = 0;
  if (d->n_streams)
    *out = d->streams[--d->n_streams];
  else
    result = d->cuda->cuStreamCreate (out, NON_BLOCKING);
  pthread_mutex_unlock (&d->lock);
  return result ? nv_device_fail (d, result, "a stream", status) : GRAMME_OK;
}

void
nv_device_stream_give (NvDevice *d, void *stream)
{
  pthread_mutex_lock (&d->lock);
  if (d->n_streams < MAX_STREAMS && stream != d->stream)
    d->streams[d->n_streams++] = stream;
  pthread_mutex_unlock (&d->lock);
}

/* -- Memory ------------------------------------------------------------------------------------ */

/* Waits for the device, whose work may use the cached blocks, and returns them to the driver. */
static void
trim (NvDevice *d)
{
  d->cuda->cuCtxSynchronize ();
  nv_blocks_trim (&d->blocks);
}

void
nv_device_trim (NvDevice *d)
{
  if (nv_device_enter (d, NULL) != GRAMME_OK)
    return;
  pthread_mutex_lock (&d->lock);
  trim (d);
  pthread_mutex_unlock (&d->lock);
}

/* Takes a cached block, or a new one, and adds it to the table. The caller holds the lock. Returns
 * a result of the driver, 0 for success. */
static int
take_block (NvDevice *d, uint32_t class, uint64_t size, NvBlock **out)
{
  void *stream = nv_device_stream (d);
  NvBlock *block = d->exact ? NULL : nv_blocks_find (&d->blocks, class, stream);
  int result = 0;
  if (!block) {
    block = calloc (1, sizeof *block);
    if (!block)
      return RESULT_OUT_OF_MEMORY;
    *block = (NvBlock){ .size = size, .stream = stream, .class = class };
    result = d->cuda->cuMemAlloc_v2 (&block->address, size);
    if (result == RESULT_OUT_OF_MEMORY && d->blocks.cached_bytes) {
      trim (d);
      result = d->cuda->cuMemAlloc_v2 (&block->address, size);
    }
  }
  if (result == 0 && !nv_blocks_add (&d->blocks, block)) {
    d->cuda->cuMemFree_v2 (block->address);
    result = RESULT_OUT_OF_MEMORY;
  }
  if (result)
    nv_block_free (block);
  else
    *out = block;
  return result;
}

int32_t
nv_device_alloc (NvDevice *d, uint64_t bytes, NvAddress *out, GrammeStatus *status)
{
  uint64_t size;
  uint32_t class = nv_block_class (bytes, &size);
  int32_t code = nv_device_enter (d, status);
  NvBlock *block = NULL;
  if (code != GRAMME_OK)
    return code;
  if (class >= NV_CLASSES)
    return gramme_fail (status, GRAMME_NO_MEMORY, -1, "%llu bytes are more than any GPU has",
                        (unsigned long long) bytes);
  size = d->exact ? (bytes ? bytes : 1) : size;
  pthread_mutex_lock (&d->lock);
  int result = take_block (d, class, size, &block);
  if (result == 0) {
    *out = block->address;
    d->count.in_use += size;
    d->count.peak = d->count.peak > d->count.in_use ? d->count.peak : d->count.in_use;
  }
  uint64_t in_use = d->count.in_use;
  pthread_mutex_unlock (&d->lock);
  if (result == RESULT_OUT_OF_MEMORY)
    return gramme_fail (
        status, GRAMME_NO_MEMORY, -1,
        "no memory on device cuda (%s) for %llu bytes: %llu of %llu are in use by this process",
        d->name, (unsigned long long) bytes, (unsigned long long) in_use,
        (unsigned long long) d->memory);
  return result ? nv_device_fail (d, result, "memory on device cuda", status) : GRAMME_OK;
}

void
nv_device_free (NvDevice *d, NvAddress address)
{
  pthread_mutex_lock (&d->lock);
  NvBlock *block = nv_blocks_remove (&d->blocks, address);
  if (block)
    d->count.in_use -= block->size;
  bool works = block && nv_device_enter (d, NULL) == GRAMME_OK;
  if (block && works && d->exact) {
    d->cuda->cuCtxSynchronize ();
    d->cuda->cuMemFree_v2 (address);
  }
  if (block && works && !d->exact)
    nv_blocks_keep (&d->blocks, block);
  else if (block)
    nv_block_free (block);
  pthread_mutex_unlock (&d->lock);
}

void
nv_device_record (NvDevice *d, NvAddress address, void *stream)
{
  pthread_mutex_lock (&d->lock);
  nv_blocks_use (&d->blocks, address, stream);
  pthread_mutex_unlock (&d->lock);
}

NvMemoryCount
nv_device_count (NvDevice *d)
{
  pthread_mutex_lock (&d->lock);
  NvMemoryCount count = d->count;
  count.cached = d->blocks.cached_bytes;
  pthread_mutex_unlock (&d->lock);
  return count;
}

/* -- Copies ------------------------------------------------------------------------------------ */

int32_t
nv_device_to_device (NvDevice *d, NvAddress to, const void *from, uint64_t bytes,
                     GrammeStatus *status)
{
  int32_t code = nv_device_enter (d, status);
  if (code != GRAMME_OK || bytes == 0)
    return code;
  /* Pageable memory: `from` was read on return. */
  int result = d->cuda->cuMemcpyHtoDAsync_v2 (to, from, bytes, nv_device_stream (d));
  return result ? nv_device_fail (d, result, "a copy to device cuda", status) : GRAMME_OK;
}

int32_t
nv_device_synchronize (NvDevice *d, GrammeStatus *status)
{
  int32_t code = nv_device_enter (d, status);
  if (code != GRAMME_OK)
    return code;
  int result = d->cuda->cuStreamSynchronize (nv_device_stream (d));
  return result ? nv_device_fail (d, result, "work on device cuda", status) : GRAMME_OK;
}

int32_t
nv_device_synchronize_all (NvDevice *d, GrammeStatus *status)
{
  int32_t code = nv_device_enter (d, status);
  if (code != GRAMME_OK)
    return code;
  int result = d->cuda->cuCtxSynchronize ();
  return result ? nv_device_fail (d, result, "work on device cuda", status) : GRAMME_OK;
}

int32_t
nv_device_to_host (NvDevice *d, void *to, NvAddress from, uint64_t bytes, GrammeStatus *status)
{
  int32_t code = nv_device_enter (d, status);
  if (code != GRAMME_OK)
    return code;
  int result = bytes ? d->cuda->cuMemcpyDtoHAsync_v2 (to, from, bytes, nv_device_stream (d)) : 0;
  if (result)
    return nv_device_fail (d, result, "a copy from device cuda", status);
  return nv_device_synchronize (d, status);
}

int32_t
nv_device_copy (NvDevice *d, NvAddress to, NvAddress from, uint64_t bytes, GrammeStatus *status)
{
  int32_t code = nv_device_enter (d, status);
  if (code != GRAMME_OK || bytes == 0)
    return code;
  int result = d->cuda->cuMemcpyDtoDAsync_v2 (to, from, bytes, nv_device_stream (d));
  return result ? nv_device_fail (d, result, "a copy on device cuda", status) : GRAMME_OK;
}

int32_t
nv_device_zero (NvDevice *d, NvAddress to, uint64_t bytes, GrammeStatus *status)
{
  int32_t code = nv_device_enter (d, status);
  if (code != GRAMME_OK || bytes == 0)
    return code;
  int result = d->cuda->cuMemsetD8Async (to, 0, bytes, nv_device_stream (d));
  return result ? nv_device_fail (d, result, "clearing memory of device cuda", status) : GRAMME_OK;
}
