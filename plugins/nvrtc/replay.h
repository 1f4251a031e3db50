/* SPDX-License-Identifier: Apache-2.0
 * replay.h -- captures the launches of a run as a CUDA graph, which is launched again when the run
 * recurs.
 *
 * Two runs are the same if they go to the same stream, with the same addresses and sizes.  In a
 * loop that is frequent, since freed memory is handed out again.  The second of two equal runs is
 * captured, which needs no change of the launching code; from the third on the graph is launched.
 * The graphs of a program on one stream share a workspace, which they own as long as the program
 * lives.  Where addresses hardly ever recur, or a capture fails, all runs are plain from then on.
 *
 * Thread: any.
 */
#ifndef NVRTC_REPLAY_H
#define NVRTC_REPLAY_H

#include "plugins/nvrtc/gpu_device.h"

typedef struct NvReplay NvReplay;

/* Memory that launches still need after they return. For a graph it stays allocated as long as the
 * graph. */
typedef struct {
  NvAddress *list;
  uint32_t n, room;
} NvKept;

/* Frees the memory now, or adds it to *kept; kept is NULL for plain runs. */
void nv_keep (NvDevice *d, NvKept *kept, NvAddress address);

typedef struct {
  const uint64_t *key; /* everything that identifies a run, except the stream */
  uint32_t n;
  uint64_t ws_bytes;
  int32_t (*launch) (void *data, NvAddress workspace, NvKept *kept, GrammeStatus *status);
  void *data;
} NvRun;

/* Returns an empty table of runs, owned by the caller; NULL if there is no memory. */
NvReplay *nv_replay_new (void);
/* Frees the graphs; waits for the device if there are any. */
void nv_replay_free (NvReplay *r, NvDevice *d);
int32_t nv_replay_run (NvReplay *r, NvDevice *d, const NvRun *run, GrammeStatus *status);
/* Runs the launches without a graph. */
int32_t nv_plain_run (NvDevice *d, const NvRun *run, GrammeStatus *status);

#endif
