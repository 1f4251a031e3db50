/* SPDX-License-Identifier: Apache-2.0
 * offers.c -- see offers.h.  A stream that is NULL is the calling thread's current one.
 */
#include "plugins/nvrtc/offers.h"

#include "plugins/nvrtc/gpu_device.h"

#include <stdlib.h>

static NvAddress
address_of (const void *p)
{
  return (NvAddress) (uintptr_t) p;
}

static NvDevice *
device_of (int32_t number, GrammeStatus *status)
{
  return nv_device (number < 0 ? 0 : number, status);
}

/* -- Memory ------------------------------------------------------------------------------------ */

static int32_t
memory_alloc (GrammeBackend *b, int32_t number, uint32_t kind, uint64_t bytes, uint64_t align,
              void **out, GrammeStatus *status)
{
  NvAddress address = 0;
  (void) b;
  if (kind != GRAMME_MEMORY_DEVICE || align > 256)
    return gramme_fail (status, GRAMME_UNSUPPORTED, -1,
                        "memory of kind %u, aligned to %llu, is not to be had", kind,
                        (unsigned long long) align);
  NvDevice *d = device_of (number, status);
  int32_t code = d ? nv_device_alloc (d, bytes, &address, status) : GRAMME_DEVICE;
  *out = (void *) (uintptr_t) address;
  return code;
}

static void
memory_free (GrammeBackend *b, int32_t number, uint32_t kind, void *p, uint64_t bytes,
             uint64_t align)
{
  NvDevice *d = device_of (number, NULL);
  (void) b, (void) kind, (void) align;
  if (d && p)
    nv_device_free (d, address_of (p));
}

/* Makes the stream current for the thread's work until leave_stream; returns the stream that was
 * current before. */
static void *
enter_stream (NvDevice *d, void *stream)
{
  void *before = nv_device_stream (d);
  if (stream)
    nv_device_use (d, stream);
  return before;
}

static int32_t
memory_copy (GrammeBackend *b, void *to, int32_t to_device, const void *from, int32_t from_device,
             uint64_t bytes, void *stream, GrammeStatus *status)
{
  (void) b;
  NvDevice *d = device_of (to_device < 0 ? from_device : to_device, status);
  if (!d)
    return GRAMME_DEVICE;
  if (to_device < 0 && from_device < 0)
    return gramme_fail (status, GRAMME_INVALID, -1, "a copy from the host to the host");
  void *before = enter_stream (d, stream);
  int32_t code = to_device < 0 ? nv_device_to_host (d, to, address_of (from), bytes, status)
                 : from_device < 0
                     ? nv_device_to_device (d, address_of (to), from, bytes, status)
                     : nv_device_copy (d, address_of (to), address_of (from), bytes, status);
  nv_device_use (d, before);
  return code;
}

/* Fills memory: zeros by the driver, other elements as a copy of a piece of host memory. */
static int32_t
memory_fill (GrammeBackend *b, void *to, int32_t number, uint64_t element, uint32_t elem_bytes,
             uint64_t n, void *stream, GrammeStatus *status)
{
  char piece[4096];
  NvDevice *d = device_of (number, status);
  int32_t code = d ? GRAMME_OK : GRAMME_DEVICE;
  (void) b;
  if (code != GRAMME_OK)
    return code;
  void *before = enter_stream (d, stream);
  if (element == 0)
    code = nv_device_zero (d, address_of (to), n * elem_bytes, status);
  for (uint32_t i = 0; i < sizeof piece; i += elem_bytes)
    memcpy (piece + i, &element, elem_bytes);
  for (uint64_t done = 0, all = element ? n * elem_bytes : 0; done < all && code == GRAMME_OK;
       done += sizeof piece)
    code = nv_device_to_device (d, address_of (to) + done, piece,
                                all - done < sizeof piece ? all - done : sizeof piece, status);
  nv_device_use (d, before);
  return code;
}

const GrammeMemory nv_memory = {
  .struct_size = sizeof (GrammeMemory),
  .alloc = memory_alloc,
  .free = memory_free,
  .copy = memory_copy,
  .fill = memory_fill,
};

/* -- Streams ----------------------------------------------------------------------------------- */

static int32_t
stream_create (GrammeBackend *b, int32_t number, void **out, GrammeStatus *status)
{
  NvDevice *d = device_of (number, status);
  (void) b;
  return d ? nv_device_stream_new (d, out, status) : GRAMME_DEVICE;
}

static void
stream_destroy (GrammeBackend *b, void *stream)
{
  NvDevice *d = device_of (0, NULL);
  (void) b;
  if (d)
    nv_device_stream_give (d, stream);
}

/* Waits for all work of the stream; NULL: of every stream. */
static int32_t
stream_synchronize (GrammeBackend *b, void *stream, GrammeStatus *status)
{
  NvDevice *d = device_of (0, status);
  (void) b;
  if (!d || !stream)
    return d ? nv_device_synchronize_all (d, status) : GRAMME_DEVICE;
  void *before = enter_stream (d, stream);
  int32_t code = nv_device_synchronize (d, status);
  nv_device_use (d, before);
  return code;
}

/* Enters device 0, and sets a status for the driver's result `result`; returns its code. */
static int32_t
checked (int result, const char *what, GrammeStatus *status)
{
  NvDevice *d = device_of (0, status);
  return !d       ? GRAMME_DEVICE
         : result ? nv_device_fail (d, result, what, status)
                  : nv_device_enter (d, status);
}

static int32_t
stream_record (GrammeBackend *b, void *stream, void **event, GrammeStatus *status)
{
  int32_t code = checked (0, "", status);
  (void) b;
  if (code == GRAMME_OK)
    code = checked (nv_cuda (NULL)->cuEventCreate (event, 0), "an event", status);
  return code == GRAMME_OK
             ? checked (nv_cuda (NULL)->cuEventRecord (
                            *event, stream ? stream : nv_device_stream (device_of (0, NULL))),
                        "an event", status)
             : code;
}

static int32_t
stream_wait (GrammeBackend *b, void *stream, void *event, GrammeStatus *status)
{
  int32_t code = checked (0, "", status);
  (void) b;
  return code == GRAMME_OK
             ? checked (nv_cuda (NULL)->cuStreamWaitEvent (
                            stream ? stream : nv_device_stream (device_of (0, NULL)), event, 0),
                        "waiting for an event", status)
             : code;
}

static int32_t
stream_query (GrammeBackend *b, void *event, int32_t *done, GrammeStatus *status)
{
  enum { NOT_READY = 600 };
  int32_t code = checked (0, "", status);
  (void) b;
  if (code != GRAMME_OK)
    return code;
  int result = nv_cuda (NULL)->cuEventQuery (event);
  *done = result == 0;
  return result == NOT_READY ? GRAMME_OK : checked (result, "an event", status);
}

static int32_t
stream_idle (GrammeBackend *b, void *stream, int32_t *done, GrammeStatus *status)
{
  enum { NOT_READY = 600 };
  int32_t code = checked (0, "", status);
  (void) b;
  if (code != GRAMME_OK)
    return code;
  int result =
      nv_cuda (NULL)->cuStreamQuery (stream ? stream : nv_device_stream (device_of (0, NULL)));
  *done = result == 0;
  return result == NOT_READY ? GRAMME_OK : checked (result, "a stream", status);
}

static void
stream_destroy_event (GrammeBackend *b, void *event)
{
  (void) b;
  if (checked (0, "", NULL) == GRAMME_OK)
    nv_cuda (NULL)->cuEventDestroy_v2 (event);
}

static int32_t
stream_use (GrammeBackend *b, int32_t number, void *stream, GrammeStatus *status)
{
  NvDevice *d = device_of (number, status);
  (void) b;
  if (d)
    nv_device_use (d, stream);
  return d ? GRAMME_OK : GRAMME_DEVICE;
}

static void *
stream_current (GrammeBackend *b, int32_t number, int32_t own)
{
  NvDevice *d = device_of (number, NULL);
  (void) b;
  return !d ? NULL : own ? nv_device_own_stream (d) : nv_device_stream (d);
}

static int32_t
stream_keep (GrammeBackend *b, int32_t number, void *memory, void *stream, GrammeStatus *status)
{
  NvDevice *d = device_of (number, status);
  (void) b;
  if (d)
    nv_device_record (d, address_of (memory), stream ? stream : nv_device_stream (d));
  return d ? GRAMME_OK : GRAMME_DEVICE;
}

static int32_t
stream_finish (GrammeBackend *b, void *event, GrammeStatus *status)
{
  int32_t code = checked (0, "", status);
  (void) b;
  return code == GRAMME_OK
             ? checked (nv_cuda (NULL)->cuEventSynchronize (event), "work on device cuda", status)
             : code;
}

static int32_t
stream_elapsed (GrammeBackend *b, void *from, void *to, float *ms, GrammeStatus *status)
{
  int32_t code = checked (0, "", status);
  (void) b;
  return code == GRAMME_OK ? checked (nv_cuda (NULL)->cuEventElapsedTime (ms, from, to),
                                      "the time between two events", status)
                           : code;
}

const GrammeStream nv_streams = {
  .struct_size = sizeof (GrammeStream),
  .kind = 1,
  .create = stream_create,
  .destroy = stream_destroy,
  .synchronize = stream_synchronize,
  .record = stream_record,
  .wait = stream_wait,
  .query = stream_query,
  .destroy_event = stream_destroy_event,
  .use = stream_use,
  .current = stream_current,
  .keep = stream_keep,
  .finish = stream_finish,
  .elapsed = stream_elapsed,
  .idle = stream_idle,
};
