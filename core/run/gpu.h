/* SPDX-License-Identifier: Apache-2.0
 * gpu.h -- properties, streams and events of the GPU that a plugin drives.  Tensors on it:
 * core/tensor/device.h.
 */
#ifndef GM_RUN_GPU_H
#define GM_RUN_GPU_H

#include <stdint.h>

#include "core/base/error.h"

/* Sets count[] to the bytes in use, the bytes cached for later, and the peak of the bytes in use;
 * to zeros before the first use of the GPU.  Thread: any. */
void gm_gpu_memory (uint64_t count[3]);
/* Restarts the peak of gm_gpu_memory, which from now on is updated when tensors are made. */
void gm_gpu_reset_peak (void);
bool gm_gpu_is_open (void);
/* Returns the model's name.  The next two functions return its bytes of memory and set its compute
 * capability.  gm_device_get must have succeeded before. */
const char *gm_gpu_full_name (void);
uint64_t gm_gpu_total_memory (void);
bool gm_gpu_capability (int out[2], GError **error);

/* -- Streams and events, after gm_device_get --------------------------------------------------- */

/* Returns a new stream.  Streams and events are handles of the device's driver.  A stream that is
 * NULL is the calling thread's current stream, to which all its work goes: allocations, copies,
 * single ops, compiled functions. */
void *gm_gpu_stream_new (GError **error);
void gm_gpu_stream_free (void *stream);
/* Returns this thread's current stream; own: the device's default stream, which is current at
 * first. */
void *gm_gpu_stream_current (bool own);
bool gm_gpu_stream_use (void *stream, GError **error); /* NULL: the device's default stream */
bool gm_gpu_stream_synchronize (void *stream, GError **error);
/* Sets *done to whether all work of the stream has finished. */
bool gm_gpu_stream_query (void *stream, bool *done, GError **error);
/* Returns an event that fires when the stream has finished all work queued so far. */
void *gm_gpu_event_new (void *stream, GError **error);
void gm_gpu_event_free (void *event);
bool gm_gpu_event_wait (void *stream, void *event, GError **error); /* makes the stream wait */
bool gm_gpu_event_query (void *event, bool *done, GError **error);
bool gm_gpu_event_finish (void *event, GError **error); /* makes the caller wait */
bool gm_gpu_event_elapsed (void *from, void *to, double *ms, GError **error);
/* Declares that `stream` uses memory that was allocated on another stream. */
bool gm_gpu_keep (void *memory, void *stream, GError **error);

#endif
