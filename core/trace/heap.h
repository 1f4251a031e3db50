/* SPDX-License-Identifier: Apache-2.0
 * heap.h -- what mutable Python objects contain while a frame is recorded.
 *
 * A tracker with identity holds an object id; that object's contents are here, in (object, key)
 * slots.  Frames are objects too: their keys are local variables and stack places.  A slot holds a
 * tracker or NULL.  Each write is journaled first, so undoing is replaying the journal's tail
 * backwards.
 */
#ifndef GM_TRACE_HEAP_H
#define GM_TRACE_HEAP_H

#include "core/base/journal.h"

#include <stdbool.h>

typedef struct GmTracker GmTracker;

typedef struct {
  uint32_t first, n;
} GmHeapObject;

typedef struct {
  GArray *objects;  /* GmHeapObject */
  GPtrArray *slots; /* of GmTracker; each object's are adjacent */
  GmJournal journal;
  GHashTable *watched; /* ids of objects whose loads are reported in *seen; borrowed, or NULL */
  bool *seen;          /* set to true when an object of `watched` is loaded; borrowed */
} GmHeap;

typedef struct {
  uint32_t objects, slots, writes;
} GmHeapMark;

void gm_heap_init (GmHeap *h);
void gm_heap_clear (GmHeap *h);
/* Adds an object with n empty slots; returns its id. */
uint32_t gm_heap_add (GmHeap *h, uint32_t n);
const GmTracker *gm_heap_load (const GmHeap *h, uint32_t object, uint32_t key);
void gm_heap_store (GmHeap *h, uint32_t object, uint32_t key, const GmTracker *value);

void gm_heap_undo (GmHeap *h, const GmHeapMark *m); /* for gm_heap_rollback alone */

static inline GmHeapMark
gm_heap_mark (const GmHeap *h)
{
  return (GmHeapMark){ h->objects->len, h->slots->len, gm_journal_mark (&h->journal) };
}

static inline void
gm_heap_rollback (GmHeap *h, const GmHeapMark *m)
{
  if (h->journal.len != m->writes || h->objects->len != m->objects || h->slots->len != m->slots)
    gm_heap_undo (h, m);
}

#endif
