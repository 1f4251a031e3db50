/* SPDX-License-Identifier: Apache-2.0
 * device.h -- a GPU: its context, its streams, its memory.
 *
 * A device has a stream of its own, and a thread may make another one its current stream: all that it asks for goes there, in
 * order.  Memory that was freed is kept (blocks.h) and given back to the driver only when it has no more.
 *
 * Thread: any; each call makes the device's primary context the thread's own.
 */
#ifndef NVRTC_DEVICE_H
#define NVRTC_DEVICE_H

#include "plugins/nvrtc/library.h"

#define NV_MAX_DEVICES 16

typedef struct NvDevice NvDevice;

typedef struct {
  uint64_t in_use, cached, peak; /* bytes, of whole blocks */
} NvMemoryCount;

/* The device of this number, opened when it is first asked for.  NULL: the status says why (GRAMME_DEVICE). */
NvDevice *nv_device (int32_t number, GrammeStatus *status);
int nv_device_capability (const NvDevice *d); /* 90 */
const char *nv_device_name (const NvDevice *d);
int32_t nv_device_number (const NvDevice *d);
uint64_t nv_device_memory (const NvDevice *d);
/* The calling thread's current stream: the device's own, if it has made no other one that. */
void *nv_device_stream (const NvDevice *d);
void nv_device_use (NvDevice *d, void *stream); /* NULL: the device's own */
void *nv_device_own_stream (const NvDevice *d);

/* Aligned to 256 bytes at least.  0 bytes: an address that nobody reads. */
int32_t nv_device_alloc (NvDevice *d, uint64_t bytes, NvAddress *out, GrammeStatus *status);
void nv_device_free (NvDevice *d, NvAddress address);
/* This stream uses a block that another one has: it is not handed out again before the stream has come so far. */
void nv_device_record (NvDevice *d, NvAddress address, void *stream);
NvMemoryCount nv_device_count (NvDevice *d);
/* Gives what is cached back to the driver. */
void nv_device_trim (NvDevice *d);

/* In the stream's order.  to_host returns when the bytes are there, with all that failed before. */
int32_t nv_device_to_device (NvDevice *d, NvAddress to, const void *from, uint64_t bytes, GrammeStatus *status);
int32_t nv_device_to_host (NvDevice *d, void *to, NvAddress from, uint64_t bytes, GrammeStatus *status);
int32_t nv_device_copy (NvDevice *d, NvAddress to, NvAddress from, uint64_t bytes, GrammeStatus *status);
int32_t nv_device_zero (NvDevice *d, NvAddress to, uint64_t bytes, GrammeStatus *status);
int32_t nv_device_synchronize (NvDevice *d, GrammeStatus *status);     /* the current stream */
int32_t nv_device_synchronize_all (NvDevice *d, GrammeStatus *status); /* all of them */
/* A stream; destroyed ones are kept for the next who wants one, with what they still run. */
int32_t nv_device_stream_new (NvDevice *d, void **out, GrammeStatus *status);
void nv_device_stream_give (NvDevice *d, void *stream);
/* Makes the context the calling thread's. */
int32_t nv_device_enter (NvDevice *d, GrammeStatus *status);
/* The status for a result of the driver; remembers a loss, after which nothing works any more. */
int32_t nv_device_fail (NvDevice *d, int result, const char *what, GrammeStatus *status);

#endif
