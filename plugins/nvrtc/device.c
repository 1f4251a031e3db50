/* SPDX-License-Identifier: Apache-2.0
 * device.c -- see device.h.
 */
#include "plugins/nvrtc/device.h"

#include <pthread.h>
#include <stdlib.h>

#define MAX_DEVICES 16
#define SMALLEST 512u
#define CLASSES (40 * 8)

enum { ATTRIBUTE_CAPABILITY_MAJOR = 75, ATTRIBUTE_CAPABILITY_MINOR = 76 };
enum { RESULT_OUT_OF_MEMORY = 2 };

/* Free blocks of one size. */
typedef struct {
  NvAddress *blocks;
  uint32_t n, room;
} Class;

struct NvDevice {
  const NvCuda *cuda;
  int device, capability;
  char name[128];
  size_t memory;
  void *context, *stream;
  pthread_mutex_t lock; /* of the memory below */
  Class classes[CLASSES];
  NvMemoryCount count;
  bool exact;     /* every block straight from the driver, of its own size: for compute-sanitizer and tests */
  char lost[256]; /* why nothing works any more, or empty */
};

static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static NvDevice *devices[MAX_DEVICES];

/* -- Opening ----------------------------------------------------------------------------------------- */

/* Errors after which the context is of no use: an illegal access and its like. */
static bool
is_fatal (int result)
{
  return result == 700 || (result >= 714 && result <= 719) || result == 710 || result == 46 || result == 999;
}

int32_t
nv_device_fail (NvDevice *d, int result, const char *what, GrammeStatus *status)
{
  char text[256];
  nv_cuda_error (text, sizeof text, result);
  if (is_fatal (result) && !d->lost[0])
    snprintf (d->lost, sizeof d->lost, "%.100s: %.140s", what, text);
  if (result == RESULT_OUT_OF_MEMORY)
    return gramme_fail (status, GRAMME_NO_MEMORY, -1, "%s: no memory on device cuda (%s): %s", what, d->name, text);
  return gramme_fail (status, GRAMME_DEVICE, -1, "%s: %s%s", what, text,
                      is_fatal (result) ? "; the device is of no use to this process any more, the CPU still is" : "");
}

int32_t
nv_device_enter (NvDevice *d, GrammeStatus *status)
{
  if (d->lost[0])
    return gramme_fail (status, GRAMME_DEVICE, -1, "device cuda is lost to this process since %s; start a new one", d->lost);
  int result = d->cuda->cuCtxSetCurrent (d->context);
  return result ? nv_device_fail (d, result, "device cuda cannot be entered", status) : GRAMME_OK;
}

static int32_t
open_device (NvDevice *d, const NvCuda *c, int number, GrammeStatus *status)
{
  int major = 0, minor = 0, result;
  d->cuda = c;
  if ((result = c->cuDeviceGet (&d->device, number)) != 0 || (result = c->cuDeviceGetName (d->name, sizeof d->name, d->device)) != 0
      || (result = c->cuDeviceTotalMem_v2 (&d->memory, d->device)) != 0
      || (result = c->cuDeviceGetAttribute (&major, ATTRIBUTE_CAPABILITY_MAJOR, d->device)) != 0
      || (result = c->cuDeviceGetAttribute (&minor, ATTRIBUTE_CAPABILITY_MINOR, d->device)) != 0
      || (result = c->cuDevicePrimaryCtxRetain (&d->context, d->device)) != 0
      || (result = c->cuCtxSetCurrent (d->context)) != 0 || (result = c->cuStreamCreate (&d->stream, 0)) != 0)
    return nv_device_fail (d, result, "a GPU cannot be opened", status);
  d->capability = 10 * major + minor;
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
  if (number < 0 || number >= c->n_devices || number >= MAX_DEVICES) {
    gramme_fail (status, GRAMME_DEVICE, -1, "there is no device cuda:%d; there are %d", number, c->n_devices);
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

uint64_t
nv_device_memory (const NvDevice *d)
{
  return d->memory;
}

void *
nv_device_stream (const NvDevice *d)
{
  return d->stream;
}

/* -- Memory ------------------------------------------------------------------------------------------ */

/* The class of so many bytes, and the size of its blocks. */
static uint32_t
class_of (uint64_t bytes, uint64_t *size)
{
  if (bytes <= SMALLEST) {
    *size = SMALLEST;
    return 0;
  }
  uint32_t log = 63 - (uint32_t) __builtin_clzll (bytes - 1); /* 2^log < bytes <= 2^(log + 1) */
  uint64_t step = ((uint64_t) 1 << log) / 8, steps = (bytes - ((uint64_t) 1 << log) + step - 1) / step;
  *size = ((uint64_t) 1 << log) + steps * step;
  return (log - 9) * 8 + (uint32_t) steps;
}

static void
trim (NvDevice *d)
{
  d->cuda->cuStreamSynchronize (d->stream);
  for (uint32_t k = 0; k < CLASSES; k++) {
    while (d->classes[k].n)
      d->cuda->cuMemFree_v2 (d->classes[k].blocks[--d->classes[k].n]);
    free (d->classes[k].blocks);
    d->classes[k] = (Class){ 0 };
  }
  d->count.cached = 0;
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

int32_t
nv_device_alloc (NvDevice *d, uint64_t bytes, NvAddress *out, GrammeStatus *status)
{
  uint64_t size;
  uint32_t k = class_of (bytes, &size);
  int32_t code = nv_device_enter (d, status);
  if (code != GRAMME_OK)
    return code;
  if (k >= CLASSES)
    return gramme_fail (status, GRAMME_NO_MEMORY, -1, "%llu bytes are more than any GPU has", (unsigned long long) bytes);
  size = d->exact ? (bytes ? bytes : 1) : size;
  pthread_mutex_lock (&d->lock);
  int result = 0;
  if (d->classes[k].n) {
    *out = d->classes[k].blocks[--d->classes[k].n];
    d->count.cached -= size;
  } else {
    result = d->cuda->cuMemAlloc_v2 (out, size);
    if (result == RESULT_OUT_OF_MEMORY && d->count.cached) {
      trim (d);
      result = d->cuda->cuMemAlloc_v2 (out, size);
    }
  }
  if (result == 0) {
    d->count.in_use += size;
    d->count.peak = d->count.peak > d->count.in_use ? d->count.peak : d->count.in_use;
  }
  uint64_t in_use = d->count.in_use;
  pthread_mutex_unlock (&d->lock);
  if (result == RESULT_OUT_OF_MEMORY)
    return gramme_fail (status, GRAMME_NO_MEMORY, -1,
                        "no memory on device cuda (%s) for %llu bytes: %llu of %llu are in use by this process", d->name,
                        (unsigned long long) bytes, (unsigned long long) in_use, (unsigned long long) d->memory);
  return result ? nv_device_fail (d, result, "memory on device cuda", status) : GRAMME_OK;
}

void
nv_device_free (NvDevice *d, NvAddress address, uint64_t bytes)
{
  uint64_t size;
  uint32_t k = class_of (bytes, &size);
  size = d->exact ? (bytes ? bytes : 1) : size;
  pthread_mutex_lock (&d->lock);
  Class *c = &d->classes[k];
  if (c->n == c->room && !d->exact) {
    uint32_t room = c->room * 2 + 8;
    NvAddress *blocks = realloc (c->blocks, room * sizeof *blocks);
    if (blocks) {
      c->blocks = blocks;
      c->room = room;
    }
  }
  d->count.in_use -= size;
  if (c->n < c->room) {
    c->blocks[c->n++] = address;
    d->count.cached += size;
  } else if (nv_device_enter (d, NULL) == GRAMME_OK) {
    d->cuda->cuStreamSynchronize (d->stream);
    d->cuda->cuMemFree_v2 (address);
  }
  pthread_mutex_unlock (&d->lock);
}

NvMemoryCount
nv_device_count (NvDevice *d)
{
  pthread_mutex_lock (&d->lock);
  NvMemoryCount count = d->count;
  pthread_mutex_unlock (&d->lock);
  return count;
}

/* -- Copies ------------------------------------------------------------------------------------------ */

int32_t
nv_device_to_device (NvDevice *d, NvAddress to, const void *from, uint64_t bytes, GrammeStatus *status)
{
  int32_t code = nv_device_enter (d, status);
  if (code != GRAMME_OK || bytes == 0)
    return code;
  int result = d->cuda->cuMemcpyHtoDAsync_v2 (to, from, bytes, d->stream); /* pageable: `from` was read on return */
  return result ? nv_device_fail (d, result, "a copy to device cuda", status) : GRAMME_OK;
}

int32_t
nv_device_synchronize (NvDevice *d, GrammeStatus *status)
{
  int32_t code = nv_device_enter (d, status);
  if (code != GRAMME_OK)
    return code;
  int result = d->cuda->cuStreamSynchronize (d->stream);
  return result ? nv_device_fail (d, result, "work on device cuda", status) : GRAMME_OK;
}

int32_t
nv_device_to_host (NvDevice *d, void *to, NvAddress from, uint64_t bytes, GrammeStatus *status)
{
  int32_t code = nv_device_enter (d, status);
  if (code != GRAMME_OK)
    return code;
  int result = bytes ? d->cuda->cuMemcpyDtoHAsync_v2 (to, from, bytes, d->stream) : 0;
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
  int result = d->cuda->cuMemcpyDtoDAsync_v2 (to, from, bytes, d->stream);
  return result ? nv_device_fail (d, result, "a copy on device cuda", status) : GRAMME_OK;
}

int32_t
nv_device_zero (NvDevice *d, NvAddress to, uint64_t bytes, GrammeStatus *status)
{
  int32_t code = nv_device_enter (d, status);
  if (code != GRAMME_OK || bytes == 0)
    return code;
  int result = d->cuda->cuMemsetD8Async (to, 0, bytes, d->stream);
  return result ? nv_device_fail (d, result, "clearing memory of device cuda", status) : GRAMME_OK;
}
