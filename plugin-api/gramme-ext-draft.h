/* SPDX-License-Identifier: Apache-2.0
 * gramme-ext-draft.h -- extensions without enough experience yet.  They may change or disappear
 * with any release; then the number in the id changes.
 *
 * All are a plugin's: api.get_extension (b, ID).  Memory and streams are for devices with memory of
 * their own.
 */
#ifndef GRAMME_EXT_DRAFT_H
#define GRAMME_EXT_DRAFT_H

#include "gramme-ext.h"

#ifdef __cplusplus
extern "C" {
#endif

/* -- Memory ------------------------------------------------------------------------------------ */

#define GRAMME_MEMORY_ID "gramme.memory/draft1"

enum {
  GRAMME_MEMORY_DEVICE = 0,
  GRAMME_MEMORY_PINNED = 1, /* memory of the host that the device reads without a copy */
  GRAMME_MEMORY_SHARED = 2  /* memory of host and device at one address */
};

/* Allocates and moves the device's memory. stream: NULL, or a stream of the stream extension, in
 * which the work is then enqueued. */
typedef struct {
  uint32_t struct_size, reserved;
  /* [any] Allocates bytes into *out. align: a power of two. NO_MEMORY if there is none. */
  int32_t (*alloc) (GrammeBackend *b, int32_t device_id, uint32_t kind, uint64_t bytes,
                    uint64_t align, void **out, GrammeStatus *status);
  /* [any] Frees memory; the arguments are those of alloc. */
  void (*free) (GrammeBackend *b, int32_t device_id, uint32_t kind, void *p, uint64_t bytes,
                uint64_t align);
  /* [any] Copies bytes. A device_id of -1 is the host's memory. */
  int32_t (*copy) (GrammeBackend *b, void *to, int32_t to_device, const void *from,
                   int32_t from_device, uint64_t bytes, void *stream, GrammeStatus *status);
  /* [any] Writes n elements of elem_bytes (1, 2, 4 or 8) with the bits of `element`. */
  int32_t (*fill) (GrammeBackend *b, void *to, int32_t device_id, uint64_t element,
                   uint32_t elem_bytes, uint64_t n, void *stream, GrammeStatus *status);
} GrammeMemory;

/* -- Streams ----------------------------------------------------------------------------------- */

#define GRAMME_STREAM_ID "gramme.stream/draft1"

/* Streams and events of the plugin's devices. kind: meaning of `stream` in GrammeRunArgs, the value
 * of stream_kind there: 1, a CUstream. */
typedef struct {
  uint32_t struct_size, kind;
  /* [any] Makes a stream, which the host destroys. */
  int32_t (*create) (GrammeBackend *b, int32_t device_id, void **out, GrammeStatus *status);
  /* [any] Destroys the stream without waiting: work that is enqueued still runs. */
  void (*destroy) (GrammeBackend *b, void *stream);
  /* [any] Returns when all enqueued work has run; reports an error of that work. */
  int32_t (*synchronize) (GrammeBackend *b, void *stream, GrammeStatus *status);
  /* [any] Makes an event that fires when the stream has done all work enqueued so far; the host
   * destroys it. */
  int32_t (*record) (GrammeBackend *b, void *stream, void **event, GrammeStatus *status);
  /* [any] Makes later work of the stream wait until the event has fired. */
  int32_t (*wait) (GrammeBackend *b, void *stream, void *event, GrammeStatus *status);
  /* [any] Sets *done to 1 if the event has fired, else 0. */
  int32_t (*query) (GrammeBackend *b, void *event, int32_t *done, GrammeStatus *status);
  void (*destroy_event) (GrammeBackend *b, void *event); /* [any] */
  /* [any] The functions from here on may be NULL or beyond struct_size. Makes `stream` the calling
   * thread's current stream, in which all its later work is enqueued that names no stream, runs and
   * memory included. NULL: the device's own stream. */
  int32_t (*use) (GrammeBackend *b, int32_t device_id, void *stream, GrammeStatus *status);
  /* [any] Returns the calling thread's current stream, or, if `own`, the device's own. */
  void *(*current) (GrammeBackend *b, int32_t device_id, int32_t own);
  /* [any] Records that `stream` uses memory that was allocated in another stream: after it is freed
   * it is not reused before the work that `stream` has by then is done. */
  int32_t (*keep) (GrammeBackend *b, int32_t device_id, void *memory, void *stream,
                   GrammeStatus *status);
  /* [any] Returns when the event has fired. */
  int32_t (*finish) (GrammeBackend *b, void *event, GrammeStatus *status);
  /* [any] Computes the time between two events that have fired. */
  int32_t (*elapsed) (GrammeBackend *b, void *from, void *to, float *ms, GrammeStatus *status);
  /* [any] Sets *done to 1 if all work enqueued in the stream has run, else 0. */
  int32_t (*idle) (GrammeBackend *b, void *stream, int32_t *done, GrammeStatus *status);
} GrammeStream;

/* -- Texts ------------------------------------------------------------------------------------- */

#define GRAMME_TEXT_ID "gramme.text/draft1"

/* Returns texts that a plugin can show. Of an executable: the text it generated ("cuda", "ptx",
 * "c"). With e NULL: "about": a few lines on the plugin's libraries and devices on this machine,
 * "memory": the bytes of its device's memory that are in use, that it keeps for reuse, and the most
 * that were in use, as three numbers, or "capability": its device's compute capability, as two
 * numbers. */
typedef struct {
  uint32_t struct_size, reserved;
  /* [compile] Writes the text named `name` to `out`, at most `room` bytes, NUL included; room may
   * be 0. *bytes: the length without the NUL. NOT_FOUND: there is no such text. */
  int32_t (*get) (GrammeBackend *b, GrammeExecutable *e, const char *kind, char *out, uint64_t room,
                  uint64_t *bytes, GrammeStatus *status);
} GrammeText;

/* -- Donation ---------------------------------------------------------------------------------- */

#define GRAMME_DONATION_ID "gramme.donation/draft1"

/* Tells which outputs may use the memory of inputs that are not read after a run, of the same
 * dtype, sizes and strides. */
typedef struct {
  uint32_t struct_size, reserved;
  /* [any] Returns 1 if a run may get the address of input `input` as that of output `output`, too;
   * 0: it may not. All pairs with 1 may be used in one run, as far as no input and no output is in
   * two of them. For graphs without symbolic sizes. */
  int32_t (*may_share) (GrammeExecutable *e, uint32_t role, uint32_t input, uint32_t output);
} GrammeDonation;

/* -- Waiting ----------------------------------------------------------------------------------- */

#define GRAMME_WAIT_ID "gramme.wait/draft1"

/* The extension of a plugin whose compile returns before there is code.  A host that asks before
 * the first run lets its other threads work and looks for signals meanwhile; then it stores the
 * code, if there is gramme.serialize/1.  An option `wait` is not passed on by such a host. */
typedef struct {
  uint32_t struct_size, reserved;
  /* [any] Returns when the code is ready, or after timeout_ms at the latest. *done: 1: the code is
   * ready, and no run waits; 0: not yet. Another code than OK: compiling failed, for the reason in
   * the status. */
  int32_t (*wait) (GrammeExecutable *e, uint32_t timeout_ms, int32_t *done, GrammeStatus *status);
} GrammeWait;

GRAMME_STATIC_ASSERT (sizeof (GrammeWait) == 16, "no padding");
GRAMME_STATIC_ASSERT (sizeof (GrammeDonation) == 16, "no padding");
GRAMME_STATIC_ASSERT (sizeof (GrammeText) == 16, "no padding");
GRAMME_STATIC_ASSERT (sizeof (GrammeMemory) == 40, "no padding");
GRAMME_STATIC_ASSERT (sizeof (GrammeStream) == 112, "no padding");

#ifdef __cplusplus
}
#endif
#endif
