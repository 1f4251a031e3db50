/* SPDX-License-Identifier: Apache-2.0
 * gpu_device.h -- a GPU: its context, its streams, its memory.
 *
 * A device has a stream of its own, and a thread may make another one its current stream: all of
 * the thread's work goes there, in order.  Freed memory is cached (gpu_blocks.h), and returned to
 * the driver only when that has no more.
 *
 * Thread: any; each call makes the device's primary context the thread's own.
 */
#ifndef GM_NVRTC_GPU_DEVICE_H
#define GM_NVRTC_GPU_DEVICE_H

#include "plugins/nvrtc/library.h"

#define NV_MAX_DEVICES 16

typedef struct NvDevice NvDevice;

typedef struct {
  uint64_t in_use, cached, peak; /* bytes, of whole blocks */
} NvMemoryCount;

/* Returns the device of this number, which is opened on first use and lives until the process ends.
 * NULL: the status says why (GRAMME_DEVICE). */
NvDevice *nv_device (int32_t number, GrammeStatus *status);
int nv_device_capability (const NvDevice *d); /* 90 */
const char *nv_device_name (const NvDevice *d);
int32_t nv_device_number (const NvDevice *d);
uint64_t nv_device_memory (const NvDevice *d);
/* Returns the calling thread's current stream: the device's own unless the thread has chosen
 * another. */
void *nv_device_stream (const NvDevice *d);
void nv_device_use (NvDevice *d, void *stream); /* NULL: the device's own */
void *nv_device_own_stream (const NvDevice *d);

/* Allocates memory, aligned to 256 bytes at least.  0 bytes: an address that is not read. */
int32_t nv_device_alloc (NvDevice *d, uint64_t bytes, NvAddress *out, GrammeStatus *status);
void nv_device_free (NvDevice *d, NvAddress address);
/* Records that this stream uses another stream's block: it is not handed out again before this
 * stream has finished its work so far. */
void nv_device_record (NvDevice *d, NvAddress address, void *stream);
NvMemoryCount nv_device_count (NvDevice *d);
/* Returns cached memory to the driver. */
void nv_device_trim (NvDevice *d);

/* Copy bytes, in the stream's order. to_host returns when the bytes have arrived, with the error of
 * any earlier failure. */
int32_t nv_device_to_device (NvDevice *d, NvAddress to, const void *from, uint64_t bytes,
                             GrammeStatus *status);
int32_t nv_device_to_host (NvDevice *d, void *to, NvAddress from, uint64_t bytes,
                           GrammeStatus *status);
int32_t nv_device_copy (NvDevice *d, NvAddress to, NvAddress from, uint64_t bytes,
                        GrammeStatus *status);
int32_t nv_device_zero (NvDevice *d, NvAddress to, uint64_t bytes, GrammeStatus *status);
/* Waits for the current stream. */
int32_t nv_device_synchronize (NvDevice *d, GrammeStatus *status);
int32_t nv_device_synchronize_all (NvDevice *d, GrammeStatus *status); /* waits for all streams */
/* nv_device_stream_new makes a stream; nv_device_stream_give returns it for reuse. */
int32_t nv_device_stream_new (NvDevice *d, void **out, GrammeStatus *status);
void nv_device_stream_give (NvDevice *d, void *stream);
/* Makes the device's context current in the calling thread. */
int32_t nv_device_enter (NvDevice *d, GrammeStatus *status);
/* Sets the status for a result of the driver, and returns its code. Remembers a fatal result, after
 * which all calls fail. */
int32_t nv_device_fail (NvDevice *d, int result, const char *what, GrammeStatus *status);

#endif
