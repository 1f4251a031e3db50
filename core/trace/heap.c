/* SPDX-License-Identifier: Apache-2.0
 * heap.c -- object contents over the journal.
 *
 * Invariant: (objects, slots, writes) of a mark describe the heap completely: what is younger is
 * cut off, what is older and was overwritten is restored from the journal.  The cost of a rollback
 * is that of the writes undone.  Knows neither nodes nor guards. Rejected: contents inside
 * trackers.  Every write then had to be repeated in each live copy.
 */
#include "core/trace/heap.h"

void
gm_heap_init (GmHeap *h)
{
  h->watched = NULL;
  h->seen = NULL;
  h->objects = g_array_new (FALSE, FALSE, sizeof (GmHeapObject));
  h->slots = g_ptr_array_new ();
  gm_journal_init (&h->journal);
}

void
gm_heap_clear (GmHeap *h)
{
  g_array_unref (h->objects);
  g_ptr_array_unref (h->slots);
  gm_journal_clear (&h->journal);
}

uint32_t
gm_heap_add (GmHeap *h, uint32_t n)
{
  GmHeapObject o = { h->slots->len, n };
  g_array_append_val (h->objects, o);
  g_ptr_array_set_size (h->slots, (int) (o.first + n)); /* new places are NULL */
  return h->objects->len - 1;
}

static void **
place_of (const GmHeap *h, uint32_t object, uint32_t key)
{
  g_assert (object < h->objects->len);
  const GmHeapObject *o = &g_array_index (h->objects, GmHeapObject, object);
  g_assert (key < o->n);
  return &h->slots->pdata[o->first + key];
}

const GmTracker *
gm_heap_load (const GmHeap *h, uint32_t object, uint32_t key)
{
  if (G_UNLIKELY (h->watched != NULL)
      && g_hash_table_contains (h->watched, GUINT_TO_POINTER (object)))
    *h->seen = true;
  return *place_of (h, object, key);
}

void
gm_heap_store (GmHeap *h, uint32_t object, uint32_t key, const GmTracker *value)
{
  void **place = place_of (h, object, key);
  gm_journal_append (&h->journal, object, key, (uintptr_t) *place);
  *place = (void *) value;
}

/* -- Rollback -------------------------------------------------------------- */

static void
undo (void *owner, const GmWrite *w)
{
  *place_of (owner, (uint32_t) w->container, (uint32_t) w->key) = (void *) w->old;
}

void
gm_heap_undo (GmHeap *h, const GmHeapMark *m)
{
  gm_journal_rollback (&h->journal, m->writes, undo, h);
  g_array_set_size (h->objects, m->objects);
  g_ptr_array_set_size (h->slots, (int) m->slots);
}
