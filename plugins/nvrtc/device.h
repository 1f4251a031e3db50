/* SPDX-License-Identifier: Apache-2.0
 * device.h -- a GPU: its context, its stream, its memory.
 *
 * All work of a device goes to one stream, in order.  So memory that was freed may be handed out again at once: whoever gets it
 * comes later in the stream.  Blocks are kept in classes of size (eight to a power of two: an eighth is lost at most) and given
 * back to the driver only when it has no more.
 *
 * Thread: any; each call makes the device's primary context the thread's own.
 */
#ifndef NVRTC_DEVICE_H
#define NVRTC_DEVICE_H

#include "plugins/nvrtc/library.h"

typedef struct NvDevice NvDevice;

typedef struct {
  uint64_t in_use, cached, peak; /* bytes, of whole blocks */
} NvMemoryCount;

/* The device of this number, opened when it is first asked for.  NULL: the status says why (GRAMME_DEVICE). */
NvDevice *nv_device (int32_t number, GrammeStatus *status);
int nv_device_capability (const NvDevice *d); /* 90 */
const char *nv_device_name (const NvDevice *d);
uint64_t nv_device_memory (const NvDevice *d);
void *nv_device_stream (const NvDevice *d);

/* Aligned to 256 bytes at least.  0 bytes: an address that nobody reads. */
int32_t nv_device_alloc (NvDevice *d, uint64_t bytes, NvAddress *out, GrammeStatus *status);
void nv_device_free (NvDevice *d, NvAddress address, uint64_t bytes);
NvMemoryCount nv_device_count (NvDevice *d);
/* Gives what is cached back to the driver. */
void nv_device_trim (NvDevice *d);

/* In the stream's order.  to_host returns when the bytes are there, with all that failed before. */
int32_t nv_device_to_device (NvDevice *d, NvAddress to, const void *from, uint64_t bytes, GrammeStatus *status);
int32_t nv_device_to_host (NvDevice *d, void *to, NvAddress from, uint64_t bytes, GrammeStatus *status);
int32_t nv_device_copy (NvDevice *d, NvAddress to, NvAddress from, uint64_t bytes, GrammeStatus *status);
int32_t nv_device_zero (NvDevice *d, NvAddress to, uint64_t bytes, GrammeStatus *status);
int32_t nv_device_synchronize (NvDevice *d, GrammeStatus *status);
/* Makes the context the calling thread's. */
int32_t nv_device_enter (NvDevice *d, GrammeStatus *status);
/* The status for a result of the driver; remembers a loss, after which nothing works any more. */
int32_t nv_device_fail (NvDevice *d, int result, const char *what, GrammeStatus *status);

#endif
