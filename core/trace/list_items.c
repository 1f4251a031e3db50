/* SPDX-License-Identifier: Apache-2.0
 * list_items.c -- see list_items.h.
 *
 * Contents are never written, so each change of them but an append is a copy: a loop over a list of
 * n items that replaces them, or takes them off, would cost n * n. In a row a change is a write to
 * the heap, and the journal undoes it. The slots are a ring, so that items come and go at either
 * end; a row whose ring is full is copied to a larger ring. Contents are made when the whole is
 * read.
 */
#include "core/trace/list_items.h"

#include "core/trace/contents.h"

/* Slots of the heap object. STATE is replaced by another tracker at each change; its number is
 * (place of the first item << 32 | number of items). */
enum { STATE, ITEMS };

/* The contents last made from the row; not in the heap, so a rollback does not restore them: they
 * are checked against STATE, or made again. */
typedef struct {
  uint32_t n_places;
  const GmTracker *of, *contents; /* contents: the contents made when STATE was `of` */
} Row;

const GmTrackerKind gm_kind_row = { .name = "row" };

static const GmTracker *
row_of (GmRecorder *r, const GmTracker *t)
{
  const GmTracker *row = gm_heap_load (&r->heap, t->id, 0);
  return row && row->kind == &gm_kind_row ? row : NULL;
}

static const GmTracker *
state_of (GmRecorder *r, const GmTracker *row)
{
  return gm_heap_load (&r->heap, row->id, STATE);
}

static uint32_t
n_items (const GmTracker *state)
{
  return (uint32_t) state->number;
}

static uint32_t
slot_of (const GmTracker *row, const GmTracker *state, uint32_t i)
{
  return ITEMS + ((uint32_t) (state->number >> 32) + i) % ((const Row *) row->data)->n_places;
}

static void
put (GmRecorder *r, const GmTracker *row, uint32_t slot, const GmTracker *value)
{
  if (!r->stop)
    gm_heap_store (&r->heap, row->id, slot, value);
}

static void
set_state (GmRecorder *r, const GmTracker *row, uint32_t first, uint32_t n)
{
  gm_record_limit_memory (r);
  put (r, row, STATE,
       gm_tracker (r, .kind = &gm_kind_contents, .number = (int64_t) first << 32 | n));
}

/* -- Making ---------------------------------------------------------------- */

static const GmTracker *
row_new (GmRecorder *r, const GmTracker *t, const GmTracker *contents)
{
  Row *b = g_new0 (Row, 1);
  g_ptr_array_add (r->buffers, b);
  b->n_places = 2 * contents->n;
  const GmTracker *row = gm_tracker_add (
      r, &(GmTracker){
             .kind = &gm_kind_row, .id = gm_heap_add (&r->heap, ITEMS + b->n_places), .data = b });
  for (uint32_t i = 0; i < contents->n; i++)
    put (r, row, ITEMS + i, contents->items[i]);
  set_state (r, row, 0, contents->n);
  if (r->stop)
    return NULL;
  b->of = state_of (r, row);
  b->contents = contents;
  gm_contents_set (r, t, row);
  return row;
}

/* Returns the row with t's items; large contents are turned into a row. NULL: the contents are
 * small, or the recording has stopped. */
static const GmTracker *
row_for (GmRecorder *r, const GmTracker *t)
{
  const GmTracker *row = row_of (r, t), *contents = row ? NULL : gm_contents_of (r, t);
  return row || r->stop || contents->n < GM_MIN_KEYS ? row : row_new (r, t, contents);
}

const GmTracker *
gm_list_items_contents (GmRecorder *r, const GmTracker *row)
{
  Row *b = (Row *) row->data;
  const GmTracker *state = state_of (r, row);
  if (b->of == state)
    return b->contents;
  uint32_t n = n_items (state);
  g_autofree const GmTracker **items = gm_tracker_array_own (n);
  for (uint32_t i = 0; i < n; i++)
    items[i] = gm_heap_load (&r->heap, row->id, slot_of (row, state, i));
  b->contents = gm_contents (r, items, n);
  b->of = state;
  return b->contents;
}

/* -- Looking --------------------------------------------------------------- */

uint32_t
gm_list_items_length (GmRecorder *r, const GmTracker *t)
{
  const GmTracker *row = row_of (r, t);
  return row ? n_items (state_of (r, row)) : gm_contents_of (r, t)->n;
}

const GmTracker *
gm_list_items_item (GmRecorder *r, const GmTracker *t, uint32_t i)
{
  const GmTracker *row = row_of (r, t);
  return row ? gm_heap_load (&r->heap, row->id, slot_of (row, state_of (r, row), i))
             : gm_contents_of (r, t)->items[i];
}

/* -- Changing -------------------------------------------------------------- */

/* Replaces `count` items from `at` by n others in t's contents. All items are copied, except by an
 * append. */
static void
splice_contents (GmRecorder *r, const GmTracker *t, uint32_t at, uint32_t count,
                 const GmTracker *const *items, uint32_t n)
{
  const GmTracker *old = gm_contents_of (r, t);
  if (at == old->n) {
    gm_contents_set (r, t, gm_contents_append (r, old, items, n));
    return;
  }
  uint32_t total = old->n - count + n;
  const GmTracker **all = gm_tracker_array (r, total);
  gm_tracker_copy (all, old->items, at);
  gm_tracker_copy (all + at, items, n);
  gm_tracker_copy (all + at + n, old->items + at + count, old->n - at - count);
  gm_contents_set (r, t, gm_tracker (r, .kind = &gm_kind_contents, .items = all, .n = total));
}

void
gm_list_items_splice (GmRecorder *r, const GmTracker *t, uint32_t at, uint32_t count,
                      const GmTracker *const *items, uint32_t n)
{
  uint32_t length = gm_list_items_length (r, t);
  bool at_end = at + count == length, at_start = at == 0, replaces = count == n;
  bool appends = at == length && !row_of (r, t), few = count + n <= length / 2;
  const GmTracker *row =
      appends || !few || !(at_end || at_start || replaces) ? NULL : row_for (r, t);
  if (row && length - count + n > ((const Row *) row->data)->n_places) {
    gm_contents_set (r, t, gm_list_items_contents (r, row));
    row = row_for (r, t);
  }
  if (row == NULL) {
    splice_contents (r, t, at, count, items, n);
    return;
  }
  const Row *b = row->data;
  uint32_t first = (uint32_t) (state_of (r, row)->number >> 32), now = length - count + n;
  if (!replaces && !at_end) /* the items after them stay in place */
    first = (first + b->n_places + count - n) % b->n_places;
  set_state (r, row, first, now);
  for (uint32_t i = 0; i < n && !r->stop; i++)
    put (r, row, slot_of (row, state_of (r, row), at + i), items[i]);
}

void
gm_list_items_reverse (GmRecorder *r, const GmTracker *t)
{
  const GmTracker *old = gm_contents_of (r, t);
  const GmTracker **items = gm_tracker_array (r, old->n);
  for (uint32_t i = 0; i < old->n; i++)
    items[i] = old->items[old->n - 1 - i];
  gm_contents_set (r, t, gm_tracker (r, .kind = &gm_kind_contents, .items = items, .n = old->n));
}
