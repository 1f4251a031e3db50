/* SPDX-License-Identifier: Apache-2.0
 * gramme-ext-draft.h -- extensions that nobody has used in earnest yet.  They may change or go with
 * any release; then the number in the id changes.
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
  GRAMME_MEMORY_PINNED = 1, /* the host's, that the device reads without a copy */
  GRAMME_MEMORY_SHARED = 2  /* both use one address */
};

/* stream: NULL, or one of the stream extension's; then the work is enqueued there. */
typedef struct {
  uint32_t struct_size, reserved;
  /* [any] align: a power of two.  NO_MEMORY if there is none. */
  int32_t (*alloc) (GrammeBackend *b, int32_t device_id, uint32_t kind, uint64_t bytes,
                    uint64_t align, void **out, GrammeStatus *status);
  /* [any] With what alloc was given. */
  void (*free) (GrammeBackend *b, int32_t device_id, uint32_t kind, void *p, uint64_t bytes,
                uint64_t align);
  /* [any] A device_id of -1 is the host's memory. */
  int32_t (*copy) (GrammeBackend *b, void *to, int32_t to_device, const void *from,
                   int32_t from_device, uint64_t bytes, void *stream, GrammeStatus *status);
  /* [any] Writes n elements of elem_bytes (1, 2, 4 or 8) with the bits of `element`. */
  int32_t (*fill) (GrammeBackend *b, void *to, int32_t device_id, uint64_t element,
                   uint32_t elem_bytes, uint64_t n, void *stream, GrammeStatus *status);
} GrammeMemory;

/* -- Streams ----------------------------------------------------------------------------------- */

#define GRAMME_STREAM_ID "gramme.stream/draft1"

/* kind: what `stream` of GrammeRunArgs is, for stream_kind there: 1, a CUstream. */
typedef struct {
  uint32_t struct_size, kind;
  /* [any] */
  int32_t (*create) (GrammeBackend *b, int32_t device_id, void **out, GrammeStatus *status);
  /* [any] Waits for nothing: what is enqueued still runs. */
  void (*destroy) (GrammeBackend *b, void *stream);
  /* [any] Returns when all that was enqueued has run; reports what failed meanwhile. */
  int32_t (*synchronize) (GrammeBackend *b, void *stream, GrammeStatus *status);
  /* [any] An event that fires when the stream has come so far. */
  int32_t (*record) (GrammeBackend *b, void *stream, void **event, GrammeStatus *status);
  /* [any] The stream goes on only when the event has fired. */
  int32_t (*wait) (GrammeBackend *b, void *stream, void *event, GrammeStatus *status);
  /* [any] *done: 1 if it has fired. */
  int32_t (*query) (GrammeBackend *b, void *event, int32_t *done, GrammeStatus *status);
  void (*destroy_event) (GrammeBackend *b, void *event); /* [any] */
  /* [any] What follows may be NULL or beyond struct_size.  The calling thread's current stream:
   * whatever it asks for without naming a stream goes there, runs and memory included. NULL: the
   * device's own. */
  int32_t (*use) (GrammeBackend *b, int32_t device_id, void *stream, GrammeStatus *status);
  /* [any] That stream, or, with own, the device's. */
  void *(*current) (GrammeBackend *b, int32_t device_id, int32_t own);
  /* [any] `stream` uses this memory, which another one has taken: freed, it waits for what the
   * stream was given by then. */
  int32_t (*keep) (GrammeBackend *b, int32_t device_id, void *memory, void *stream,
                   GrammeStatus *status);
  /* [any] Returns when the event has fired. */
  int32_t (*finish) (GrammeBackend *b, void *event, GrammeStatus *status);
  /* [any] Between two events that have fired. */
  int32_t (*elapsed) (GrammeBackend *b, void *from, void *to, float *ms, GrammeStatus *status);
  /* [any] *done: 1 if all that the stream was given has run. */
  int32_t (*idle) (GrammeBackend *b, void *stream, int32_t *done, GrammeStatus *status);
} GrammeStream;

/* -- Texts ------------------------------------------------------------------------------------- */

#define GRAMME_TEXT_ID "gramme.text/draft1"

/* Texts that a plugin can show: of an executable the text it generated ("cuda", "ptx", "c"), and,
 * with e NULL, "about": a few lines on what it found on this machine, "memory": the bytes of its
 * device's memory that are in use, those that it keeps for later, and the most that were in use, as
 * three numbers, or "capability": its device's compute capability, as two numbers. */
typedef struct {
  uint32_t struct_size, reserved;
  /* [compile] *bytes: the length without the NUL.  Writes no more than `room` bytes, NUL included;
   * room may be 0.  NOT_FOUND: there is no such text. */
  int32_t (*get) (GrammeBackend *b, GrammeExecutable *e, const char *kind, char *out, uint64_t room,
                  uint64_t *bytes, GrammeStatus *status);
} GrammeText;

/* -- Donation ---------------------------------------------------------------------------------- */

#define GRAMME_DONATION_ID "gramme.donation/draft1"

/* Inputs that nobody reads any more after a run may lend their memory to outputs of the same dtype,
 * sizes and strides. */
typedef struct {
  uint32_t struct_size, reserved;
  /* [any] 1: a run may get the address of input `input` as that of output `output`, too.  0: it may
   * not.  All pairs of which that is said may be used in one run, as far as no input and no output
   * is in two of them.  For graphs without symbolic sizes. */
  int32_t (*may_share) (GrammeExecutable *e, uint32_t role, uint32_t input, uint32_t output);
} GrammeDonation;

/* -- Waiting ----------------------------------------------------------------------------------- */

#define GRAMME_WAIT_ID "gramme.wait/draft1"

/* The extension of a plugin whose compile returns before there is code.  A host that asks before
 * the first run lets its other threads work and looks for signals meanwhile; then it stores the
 * code, if there is gramme.serialize/1.  An option `wait` is not passed on by such a host. */
typedef struct {
  uint32_t struct_size, reserved;
  /* [any] Returns when there is code, or after timeout_ms at the latest.  *done: 1: there is, and
   * no run waits; 0: not yet.  Another code than OK: there will be none, for that reason. */
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
