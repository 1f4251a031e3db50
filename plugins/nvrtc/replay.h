/* SPDX-License-Identifier: Apache-2.0
 * replay.h -- the launches of a run as one CUDA graph, launched again where a later run is the same.
 *
 * Runs are the same if they go to the same stream, with the same addresses and sizes.  In a loop they mostly are: memory that was
 * freed is handed out again.  The second of two same runs is captured, which needs no change of what launches; from the third on
 * the graph is launched.  The graphs of a program on one stream share a workspace, which is theirs for as long as the program.
 * Where addresses hardly ever come again, or a capture fails, all runs are plain from then on.
 *
 * Thread: any.
 */
#ifndef NVRTC_REPLAY_H
#define NVRTC_REPLAY_H

#include "plugins/nvrtc/device.h"

typedef struct NvReplay NvReplay;

/* Memory that launches leave behind: with a graph it stays for as long as the graph. */
typedef struct {
  NvAddress *list;
  uint32_t n, room;
} NvKept;

/* Frees it now, or keeps it: kept is NULL for plain runs. */
void nv_keep (NvDevice *d, NvKept *kept, NvAddress address);

typedef struct {
  const uint64_t *key; /* all that makes a run what it is, the stream aside */
  uint32_t n;
  uint64_t ws_bytes;
  int32_t (*launch) (void *data, NvAddress workspace, NvKept *kept, GrammeStatus *status);
  void *data;
} NvRun;

/* NULL: no memory. */
NvReplay *nv_replay_new (void);
/* Waits for the device, if there is a graph. */
void nv_replay_free (NvReplay *r, NvDevice *d);
int32_t nv_replay_run (NvReplay *r, NvDevice *d, const NvRun *run, GrammeStatus *status);
/* Without a graph. */
int32_t nv_plain_run (NvDevice *d, const NvRun *run, GrammeStatus *status);

#endif
