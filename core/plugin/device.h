/* SPDX-License-Identifier: Apache-2.0
 * device.h -- what is known of the GPU that a plugin drives.  Tensors on it: core/tensor/device.h.
 */
#ifndef GM_PLUGIN_DEVICE_H
#define GM_PLUGIN_DEVICE_H

#include <stdint.h>

#include "core/base/error.h"

/* Bytes in use, kept for later, and the most that were in use; zeros before the first use.  Thread: any. */
void gm_device_memory (uint64_t count[3]);
/* From now on the most is that since: looked at when tensors are made. */
void gm_device_reset_peak (void);
bool gm_device_is_open (void);
/* After gm_device_get: the model's name, its bytes, and the compute capability. */
const char *gm_device_full_name (void);
uint64_t gm_device_total_memory (void);
bool gm_device_capability (int out[2], GError **error);

/* -- Streams and events, after gm_device_get ------------------------------------------------------ */

/* Handles are those of the device's driver.  A stream that is NULL is the calling thread's current one, to which all its work
 * goes: allocations, copies, single ops, compiled functions. */
void *gm_device_stream_new (GError **error);
void gm_device_stream_free (void *stream);
void *gm_device_stream_current (bool own); /* own: the device's, which is current at first */
bool gm_device_stream_use (void *stream, GError **error); /* NULL: the device's own */
bool gm_device_stream_synchronize (void *stream, GError **error);
bool gm_device_stream_query (void *stream, bool *done, GError **error); /* done: all that it was given has run */
/* Fires when the stream has come so far. */
void *gm_device_event_new (void *stream, GError **error);
void gm_device_event_free (void *event);
bool gm_device_event_wait (void *stream, void *event, GError **error); /* the stream waits */
bool gm_device_event_query (void *event, bool *done, GError **error);
bool gm_device_event_finish (void *event, GError **error); /* the caller waits */
bool gm_device_event_elapsed (void *from, void *to, double *ms, GError **error);
/* The stream uses memory that another one has taken. */
bool gm_device_keep (void *memory, void *stream, GError **error);

#endif
