/* SPDX-License-Identifier: Apache-2.0
 * replay.c -- see replay.h.
 */
#include "plugins/nvrtc/replay.h"

#include <pthread.h>
#include <stdlib.h>

#define ENTRIES 16
#define PATIENCE 128 /* limit of new entries without as many replays: addresses do not recur */

typedef struct {
  uint64_t *key; /* NULL: free entry */
  uint32_t n;
  void *stream, *graph; /* graph: executable; NULL: the run was seen once */
  NvKept kept;
  uint64_t used; /* number of the last run that used it */
} Entry;

struct NvReplay {
  pthread_mutex_t lock;
  Entry entries[ENTRIES];
  uint64_t runs, replays, fresh;
  bool off;
  /* Shared by all graphs on this stream, which run one after the other. */
  void *ws_stream;
  NvAddress workspace;
  uint64_t ws_bytes;
};

void
nv_keep (NvDevice *d, NvKept *kept, NvAddress address)
{
  if (!address)
    return;
  if (kept && kept->n == kept->room) {
    NvAddress *more = realloc (kept->list, (kept->room * 2 + 8) * sizeof *more);
    kept->room = more ? kept->room * 2 + 8 : kept->room;
    kept->list = more ? more : kept->list;
  }
  /* Without memory for the list the block is leaked: if it were freed, it could be reused while the
   * graph writes to it. */
  if (kept && kept->n < kept->room)
    kept->list[kept->n++] = address;
  else if (!kept)
    nv_device_free (d, address);
}

NvReplay *
nv_replay_new (void)
{
  NvReplay *r = calloc (1, sizeof *r);
  if (r)
    pthread_mutex_init (&r->lock, NULL);
  return r;
}

static void
drop_kept (NvKept *kept, NvDevice *d)
{
  for (uint32_t i = 0; i < kept->n; i++)
    nv_device_free (d, kept->list[i]);
  free (kept->list);
  *kept = (NvKept){ 0 };
}

static void
entry_clear (Entry *e, NvDevice *d)
{
  if (e->graph && nv_device_enter (d, NULL) == GRAMME_OK) {
    nv_device_synchronize_all (d, NULL); /* the graph may still be running */
    nv_cuda (NULL)->cuGraphExecDestroy (e->graph);
  }
  drop_kept (&e->kept, d);
  free (e->key);
  *e = (Entry){ 0 };
}

void
nv_replay_free (NvReplay *r, NvDevice *d)
{
  for (int i = 0; r && i < ENTRIES; i++)
    entry_clear (&r->entries[i], d);
  if (r && r->workspace)
    nv_device_free (d, r->workspace);
  if (r)
    pthread_mutex_destroy (&r->lock);
  free (r);
}

int32_t
nv_plain_run (NvDevice *d, const NvRun *run, GrammeStatus *status)
{
  NvAddress workspace = 0;
  int32_t code = run->ws_bytes ? nv_device_alloc (d, run->ws_bytes, &workspace, status) : GRAMME_OK;
  if (code == GRAMME_OK)
    code = run->launch (run->data, workspace, NULL, status);
  if (workspace)
    nv_device_free (d, workspace);
  return code;
}

static Entry *
find (NvReplay *r, const NvRun *run, void *stream)
{
  for (int i = 0; i < ENTRIES; i++) {
    Entry *e = &r->entries[i];
    if (e->key && e->n == run->n && e->stream == stream
        && memcmp (e->key, run->key, run->n * sizeof *run->key) == 0)
      return e;
  }
  return NULL;
}

/* Records the run in a free entry, or in place of the entry that was used longest ago. */
static void
remember (NvReplay *r, NvDevice *d, const NvRun *run, void *stream)
{
  Entry *oldest = &r->entries[0];
  for (int i = 0; i < ENTRIES; i++)
    if (!r->entries[i].key || (oldest->key && r->entries[i].used < oldest->used))
      oldest = &r->entries[i];
  entry_clear (oldest, d);
  oldest->key = malloc ((run->n + 1) * sizeof *oldest->key);
  if (!oldest->key)
    return;
  memcpy (oldest->key, run->key, run->n * sizeof *run->key);
  oldest->n = run->n;
  oldest->stream = stream;
  oldest->used = r->runs;
  if (++r->fresh >= PATIENCE && r->replays < r->fresh)
    r->off = true;
}

/* Allocates a workspace for a graph: the graphs' common workspace, or one of the entry's own on
 * another stream or where the common one is too small. */
static int32_t
take_workspace (NvReplay *r, Entry *e, NvDevice *d, uint64_t bytes, NvAddress *out,
                GrammeStatus *status)
{
  *out = 0;
  if (bytes == 0)
    return GRAMME_OK;
  bool is_first = r->workspace == 0;
  if (!is_first && r->ws_stream == e->stream && r->ws_bytes >= bytes) {
    *out = r->workspace;
    return GRAMME_OK;
  }
  int32_t code = nv_device_alloc (d, bytes, out, status);
  if (code == GRAMME_OK && is_first) {
    r->workspace = *out;
    r->ws_bytes = bytes;
    r->ws_stream = e->stream;
  } else if (code == GRAMME_OK) {
    nv_keep (d, &e->kept, *out);
  }
  return code;
}

/* Captures the thread's launches on a stream that no other thread uses: on a shared stream, the
 * launches of other threads would become a part of the graph, and not run. */
static int32_t
capture_on (void *stream, NvAddress workspace, Entry *e, const NvRun *run, GrammeStatus *status)
{
  enum { RELAXED = 2 }; /* other threads, and this one's allocations, are not restricted */
  const NvCuda *c = nv_cuda (NULL);
  void *graph = NULL;
  if (c->cuStreamBeginCapture_v2 (stream, RELAXED) != 0)
    return GRAMME_OK;
  int32_t code = run->launch (run->data, workspace, &e->kept, status);
  if (c->cuStreamEndCapture (stream, &graph) == 0 && graph && code == GRAMME_OK
      && c->cuGraphInstantiateWithFlags (&e->graph, graph, 0) != 0)
    e->graph = NULL;
  if (graph)
    c->cuGraphDestroy (graph);
  return code;
}

/* Captures a run as a graph. GRAMME_OK without a graph in e: the run cannot be captured. */
static int32_t
capture (NvReplay *r, Entry *e, NvDevice *d, const NvRun *run, GrammeStatus *status)
{
  NvAddress workspace;
  void *stream = NULL;
  int32_t code = take_workspace (r, e, d, run->ws_bytes, &workspace, status);
  if (code == GRAMME_OK)
    code = nv_device_stream_new (d, &stream, status);
  if (code != GRAMME_OK)
    return code;
  nv_device_use (d, stream);
  code = capture_on (stream, workspace, e, run, status);
  nv_device_use (d, e->stream);
  nv_device_stream_give (d, stream);
  return code;
}

int32_t
nv_replay_run (NvReplay *r, NvDevice *d, const NvRun *run, GrammeStatus *status)
{
  void *stream = nv_device_stream (d);
  int32_t code = GRAMME_OK;
  pthread_mutex_lock (&r->lock);
  r->runs++;
  Entry *e = r->off ? NULL : find (r, run, stream);
  if (!e && !r->off)
    remember (r, d, run, stream);
  if (e && !e->graph) {
    code = capture (r, e, d, run, status);
    if (!e->graph) {
      entry_clear (e, d);
      e = NULL;
      r->off = true;
    }
  }
  if (e && code == GRAMME_OK) {
    e->used = r->runs;
    r->replays++;
    int result = nv_cuda (NULL)->cuGraphLaunch (e->graph, stream);
    code = result ? nv_device_fail (d, result, "a graph's launch", status) : GRAMME_OK;
  }
  pthread_mutex_unlock (&r->lock);
  return e || code != GRAMME_OK ? code : nv_plain_run (d, run, status);
}
