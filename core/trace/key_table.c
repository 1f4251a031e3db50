/* SPDX-License-Identifier: Apache-2.0
 * key_table.c -- see key_table.h.
 *
 * Contents are never written, so each change of them would be a copy: a loop over a dict or set of
 * n keys that replaces or drops them would cost n * n. Here a change is a write to the heap, and
 * the journal undoes it. A pair keeps its place until it is dropped; a new pair comes last, and a
 * full table is copied to a larger one. The index of the keys is never undone: it has each key at
 * each place where it has ever stood, and an entry counts only if the key stands there. Contents
 * are made when the whole is read.
 */
#include "core/trace/key_table.h"

#include "core/trace/contents.h"

/* Slots of the heap object. STATE is replaced by another tracker at each change: its number is
 * (number of pairs << 32 | places in use), and its data changes whenever keys come or go. FIRST: a
 * number; no place before it holds a pair. */
enum { STATE, FIRST, PAIRS };

static uint32_t
place_of (int64_t at)
{
  return PAIRS + 2 * (uint32_t) at;
}

typedef struct {
  const GmTracker *key;
  uint32_t place;
} Entry;

/* The index of the keys and the contents last made; not in the heap, so a rollback does not restore
 * it: entries are checked against the heap, or made again. */
typedef struct {
  uint32_t stride; /* stride of contents: 2, or 1 if keys have no values */
  int64_t number;  /* `number` of contents that are made from the table */
  uint32_t n_places;
  uint32_t mask, n_entries;
  Entry *entries;                 /* key NULL: free */
  const GmTracker *of, *contents; /* contents: the contents made when STATE was `of` ... */
  const void *keys;               /* ... and STATE's data was `keys` */
  uint32_t *places;               /* places of the contents' pairs */
} Table;

/* -- Slots ----------------------------------------------------------------- */

static Table *
table_of (const GmTracker *t)
{
  return (Table *) t->data;
}

static const GmTracker *
get (GmRecorder *r, const GmTracker *t, uint32_t slot)
{
  return gm_heap_load (&r->heap, t->id, slot);
}

static void
put (GmRecorder *r, const GmTracker *t, uint32_t slot, const GmTracker *value)
{
  if (!r->stop)
    gm_heap_store (&r->heap, t->id, slot, value);
}

static uint32_t
n_used (GmRecorder *r, const GmTracker *t)
{
  return (uint32_t) get (r, t, STATE)->number;
}

uint32_t
gm_key_table_n_pairs (GmRecorder *r, const GmTracker *t)
{
  return (uint32_t) (get (r, t, STATE)->number >> 32);
}

const GmTracker *
gm_key_table_key (GmRecorder *r, const GmTracker *t, int64_t at)
{
  return get (r, t, place_of (at));
}

const GmTracker *
gm_key_table_value (GmRecorder *r, const GmTracker *t, int64_t at)
{
  return get (r, t, place_of (at) + 1);
}

static void
set_state (GmRecorder *r, const GmTracker *t, uint32_t n_pairs, uint32_t used, const void *keys)
{
  gm_record_limit_memory (r);
  put (r, t, STATE,
       gm_tracker (r, .kind = &gm_kind_contents,
                   .number = (int64_t) ((uint64_t) n_pairs << 32 | used),
                   .data = keys ? keys : gm_arena_new0 (r->arena, char)));
}

/* -- The index ------------------------------------------------------------- */

static uint32_t
start_of (Py_hash_t hash)
{
  return (uint32_t) (((uint64_t) hash * 0x9e3779b97f4a7c15u) >> 32);
}

/* Adds the key at `place` to the index, which grows when it is half full. Keys of a table are
 * constants: hashing them again runs no code and cannot fail. */
static void
enter (GmRecorder *r, Table *b, const GmTracker *key, uint32_t place)
{
  if (2 * (b->n_entries + 1) > b->mask) { /* at most half full */
    Table old = *b;
    b->mask = old.entries ? old.mask * 2 + 1 : 63;
    b->entries = g_new0 (Entry, b->mask + 1);
    b->n_entries = 0;
    g_ptr_array_add (r->buffers, b->entries);
    for (uint32_t i = 0; old.entries && i <= old.mask; i++)
      if (old.entries[i].key)
        enter (r, b, old.entries[i].key, old.entries[i].place);
  }
  uint32_t i = start_of (PyObject_Hash (key->real)) & b->mask;
  while (b->entries[i].key && (b->entries[i].key != key || b->entries[i].place != place))
    i = (i + 1) & b->mask;
  b->n_entries += b->entries[i].key == NULL;
  b->entries[i] = (Entry){ key, place };
}

bool
gm_key_table_find (GmRecorder *r, const GmTracker *t, const GmTracker *key, int64_t *at)
{
  const Table *b = table_of (t);
  Py_hash_t hash = gm_key_is_constant (key) ? PyObject_Hash (key->real) : -1;
  int same = 0;
  *at = -1;
  if (hash == -1)
    PyErr_Clear ();
  for (uint32_t i = start_of (hash) & b->mask; hash != -1 && b->entries[i].key && same == 0;
       i = (i + 1) & b->mask) {
    const Entry *e = &b->entries[i];
    if (gm_key_table_key (r, t, e->place) != e->key) /* the key has left that place */
      continue;
    same = PyObject_RichCompareBool (e->key->real, key->real, Py_EQ);
    if (same > 0)
      *at = e->place;
  }
  if (same < 0)
    PyErr_Clear ();
  return hash != -1 && same >= 0;
}

/* -- Making ---------------------------------------------------------------- */

static void
put_pair (GmRecorder *r, const GmTracker *t, uint32_t at, const GmTracker *key,
          const GmTracker *value)
{
  enter (r, table_of (t), key, at);
  put (r, t, place_of (at), key);
  if (table_of (t)->stride == 2)
    put (r, t, place_of (at) + 1, value);
}

static const GmTracker *
table_new (GmRecorder *r, const GmTracker *contents, uint32_t stride, int64_t number)
{
  uint32_t n = contents->n / stride, n_places = 2 * n;
  Table *b = g_new0 (Table, 1);
  g_ptr_array_add (r->buffers, b);
  b->stride = stride;
  b->number = number;
  b->n_places = n_places;
  b->places = g_new (uint32_t, n_places);
  g_ptr_array_add (r->buffers, b->places);
  const GmTracker *t =
      gm_tracker_add (r, &(GmTracker){ .kind = &gm_kind_table,
                                       .id = gm_heap_add (&r->heap, PAIRS + 2 * n_places),
                                       .data = b });
  for (uint32_t i = 0; i < n; i++) {
    put_pair (r, t, i, contents->items[stride * i],
              stride == 2 ? contents->items[2 * i + 1] : NULL);
    b->places[i] = i;
  }
  set_state (r, t, n, n, NULL);
  put (r, t, FIRST, gm_tracker (r, .kind = &gm_kind_contents));
  if (r->stop)
    return NULL;
  b->of = get (r, t, STATE);
  b->keys = b->of->data;
  b->contents = contents;
  return t;
}

const GmTracker *
gm_key_table_of (GmRecorder *r, const GmTracker *dict)
{
  const GmTracker *t = gm_heap_load (&r->heap, dict->id, 0);
  return t && t->kind == &gm_kind_table ? t : NULL;
}

const GmTracker *
gm_key_table_make (GmRecorder *r, const GmTracker *dict, uint32_t stride, int64_t number)
{
  const GmTracker *t = gm_heap_load (&r->heap, dict->id, 0);
  if (t == NULL || t->kind == &gm_kind_table)
    return NULL;
  bool plain = t->n >= stride * GM_MIN_KEYS;
  for (uint32_t i = 0; i < t->n && plain; i += stride)
    plain = gm_key_is_constant (t->items[i]);
  t = plain ? table_new (r, t, stride, number) : NULL;
  if (t)
    gm_contents_set (r, dict, t);
  return t;
}

const GmTracker *
gm_key_table_contents (GmRecorder *r, const GmTracker *t)
{
  Table *b = table_of (t);
  const GmTracker *state = get (r, t, STATE);
  if (b->of == state)
    return b->contents;
  uint32_t n = 0, used = n_used (r, t), stride = b->stride;
  g_autofree const GmTracker **items = gm_tracker_array_own (stride * gm_key_table_n_pairs (r, t));
  for (uint32_t i = 0; i < used; i++)
    if (gm_key_table_key (r, t, i)) {
      b->places[n] = i;
      items[stride * n] = gm_key_table_key (r, t, i);
      if (stride == 2)
        items[2 * n + 1] = gm_key_table_value (r, t, i);
      n++;
    }
  const GmTracker *c = gm_contents (r, items, stride * n);
  b->contents = b->number ? gm_tracker (r, .kind = c->kind, .items = c->items, .n = c->n,
                                        .data = c->data, .number = b->number)
                          : c;
  b->keys = state->data;
  b->of = state;
  return b->contents;
}

/* -- Looking and changing -------------------------------------------------- */

int64_t
gm_key_table_end (GmRecorder *r, const GmTracker *t, bool first)
{
  int64_t at = first ? get (r, t, FIRST)->number : (int64_t) n_used (r, t) - 1;
  while (!gm_key_table_key (r, t, at)) /* ends: the table is not empty */
    at += first ? 1 : -1;
  return at;
}

void
gm_key_table_replace (GmRecorder *r, const GmTracker *t, int64_t at, const GmTracker *value)
{
  put (r, t, place_of (at) + 1, value);
  set_state (r, t, gm_key_table_n_pairs (r, t), n_used (r, t), get (r, t, STATE)->data);
}

void
gm_key_table_drop (GmRecorder *r, const GmTracker *t, int64_t at)
{
  uint32_t n = gm_key_table_n_pairs (r, t) - 1, used = n_used (r, t);
  put (r, t, place_of (at), NULL);
  put (r, t, place_of (at) + 1, NULL);
  while (n > 0 && !gm_key_table_key (r, t, used - 1)) /* the last pair is then found at once */
    used--;
  set_state (r, t, n, n > 0 ? used : 0, NULL);
  if (r->stop)
    return;
  if (n == 0)
    put (r, t, FIRST, gm_tracker (r, .kind = &gm_kind_contents));
  else if (at == get (r, t, FIRST)->number)
    put (r, t, FIRST,
         gm_tracker (r, .kind = &gm_kind_contents, .number = gm_key_table_end (r, t, true)));
}

void
gm_key_table_append (GmRecorder *r, const GmTracker *dict, const GmTracker *key,
                     const GmTracker *value)
{
  const GmTracker *t = gm_key_table_of (r, dict);
  const Table *b = table_of (t);
  uint32_t used = n_used (r, t);
  if (used == b->n_places) {
    const GmTracker *pair[] = { key, value };
    gm_contents_set (r, dict,
                     gm_contents_append (r, gm_key_table_contents (r, t), pair, b->stride));
    gm_key_table_make (r, dict, b->stride, b->number);
    return;
  }
  put_pair (r, t, used, key, value);
  set_state (r, t, gm_key_table_n_pairs (r, t) + 1, used + 1, NULL);
}

bool
gm_key_table_value_in (GmRecorder *r, const GmTracker *dict, const GmTracker *contents, uint32_t i,
                       const GmTracker **value)
{
  const GmTracker *t = gm_key_table_of (r, dict);
  const Table *b = t ? table_of (t) : NULL;
  if (b == NULL || b->contents != contents || b->keys != get (r, t, STATE)->data
      || 2 * i >= contents->n)
    return false;
  *value = gm_key_table_value (r, t, b->places[i]);
  return true;
}

const GmTrackerKind gm_kind_table = { .name = "table" };
