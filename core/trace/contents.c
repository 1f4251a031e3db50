/* SPDX-License-Identifier: Apache-2.0
 * contents.c -- contents of lists, dicts and sets that grow by appending.
 *
 * Contents are never written. Appending shares memory with the old contents as long as nothing else
 * has been appended to them, so a loop of appends costs O(1) each. The memory may carry an index of
 * the keys (items 0, 2, 4 ... of a dict, all of a set), made at the first lookup of a key and
 * extended by later ones.
 * Invariant: the item at a place does not change, so one index serves all contents that share the
 * memory; contents ignore places beyond their own length.
 */
#include "core/trace/contents.h"
#include "core/trace/kinds.h"
#include "core/trace/keys.h"

#include <string.h>

/* The memory that contents share. `used`: number of items of the longest of these contents; only
 * places after them are ever written. */
typedef struct {
  uint32_t used, cap;
  uint32_t indexed; /* number of items that are in the index */
  uint32_t mask;    /* number of places of the index less 1; 0: there is no index */
  bool mixed;       /* a key is neither fixed nor compared by identity, so that there is no index */
  uint32_t *places; /* 1 + the place of a key; 0: free */
  const GmTracker *items[];
} Buffer;

const GmTracker *
gm_contents_append (GmRecorder *r, const GmTracker *old, const GmTracker *const *items, uint32_t n)
{
  Buffer *b = (Buffer *) old->data;
  if (b == NULL || b->used != old->n || b->cap - b->used < n) {
    uint32_t cap = old->n < 4 ? 8 : old->n * 2;
    cap = MAX (cap, old->n + n);
    b = g_malloc0 (sizeof (Buffer) + cap * sizeof b->items[0]);
    b->cap = cap;
    b->used = old->n;
    gm_tracker_copy (b->items, old->items, old->n);
    g_ptr_array_add (r->buffers, b);
  }
  gm_tracker_copy (b->items + b->used, items, n);
  b->used += n;
  return gm_tracker (r, .kind = &gm_kind_contents, .items = b->items, .n = old->n + n, .data = b,
                     .number = old->number);
}

const GmTracker *
gm_contents (GmRecorder *r, const GmTracker *const *items, uint32_t n)
{
  static const GmTracker empty;
  if (n >= GM_MIN_KEYS)
    return gm_contents_append (r, &empty, items, n);
  const GmTracker **copy = gm_tracker_array (r, n);
  gm_tracker_copy (copy, items, n);
  return gm_tracker (r, .kind = &gm_kind_contents, .items = copy, .n = n);
}

/* -- The index ------------------------------------------------------------- */

bool
gm_key_is_constant (const GmTracker *key)
{
  return key->kind == &gm_kind_constant && gm_is_constant_type (Py_TYPE (key->real));
}

/* True for a constant, and for a plain tuple of constants and such tuples. */
static bool
is_fixed (const GmTracker *key, uint32_t depth)
{
  if (key->kind != &gm_kind_tuple)
    return gm_key_is_constant (key);
  bool fixed = depth > 0 && !key->data && !key->number;
  for (uint32_t i = 0; i < key->n && fixed; i++)
    fixed = is_fixed (key->items[i], depth - 1);
  return fixed;
}

/* Returns the hash of a fixed key; -1, with an exception, on failure. */
static Py_hash_t
fixed_hash (const GmTracker *key)
{
  if (key->kind != &gm_kind_tuple)
    return PyObject_Hash (key->real);
  uint64_t all = key->n;
  for (uint32_t i = 0; i < key->n; i++) {
    Py_hash_t hash = fixed_hash (key->items[i]);
    if (hash == -1)
      return -1;
    all = (all ^ (uint64_t) hash) * 0x9e3779b97f4a7c15u;
  }
  return (Py_hash_t) (all >> 1); /* never -1 */
}

/* Returns 1 if two fixed keys are equal, 0 if not, -1, with an exception, on failure. */
static int
fixed_same (const GmTracker *a, const GmTracker *b)
{
  int same = a->kind == b->kind && a->n == b->n;
  if (a->kind != &gm_kind_tuple)
    return same ? PyObject_RichCompareBool (a->real, b->real, Py_EQ) : 0;
  for (uint32_t i = 0; same > 0 && i < a->n; i++)
    same = fixed_same (a->items[i], b->items[i]);
  return same;
}

/* Returns the entry of the index that has the key, or the free entry for it; NULL, with an
 * exception, on failure. A key that is not fixed equals only itself. */
static uint32_t *
probe (const Buffer *b, const GmTracker *key)
{
  bool fixed = is_fixed (key, GM_MAX_NESTING);
  Py_hash_t hash = fixed ? fixed_hash (key) : (Py_hash_t) (uintptr_t) key;
  if (hash == -1)
    return NULL;
  for (uint32_t i = (uint32_t) (((uint64_t) hash * 0x9e3779b97f4a7c15u) >> 32);; i++) {
    uint32_t *place = &b->places[i & b->mask];
    if (*place == 0)
      return place;
    const GmTracker *stored = b->items[*place - 1];
    int same = stored == key;
    if (!same && fixed && is_fixed (stored, GM_MAX_NESTING))
      same = fixed_same (stored, key);
    if (same != 0)
      return same < 0 ? NULL : place;
  }
}

/* True for a key that an index can hold: fixed, or compared by identity. */
static bool
has_place (GmRecorder *r, const GmTracker *key)
{
  return is_fixed (key, GM_MAX_NESTING) || gm_key_is_identity (r, key);
}

/* Adds the items that were appended since the last lookup to the index, and makes the index at the
 * first lookup. False: there is no index. */
static bool
extend (GmRecorder *r, Buffer *b, uint32_t stride)
{
  uint32_t n_keys = b->used / stride;
  if (b->places == NULL || 2 * n_keys > b->mask) { /* at most half full */
    uint32_t size = 64;
    while (size < 4 * n_keys)
      size *= 2;
    b->places = g_new0 (uint32_t, size);
    g_ptr_array_add (r->buffers, b->places);
    b->mask = size - 1;
    b->indexed = 0;
  }
  for (; b->indexed < b->used && !b->mixed; b->indexed += stride) {
    const GmTracker *key = b->items[b->indexed];
    uint32_t *place = has_place (r, key) ? probe (b, key) : NULL;
    if (place)
      *place = b->indexed + 1;
    else
      b->mixed = true;
  }
  if (b->mixed)
    PyErr_Clear ();
  return !b->mixed;
}

bool
gm_contents_find (GmRecorder *r, const GmTracker *contents, uint32_t stride, const GmTracker *key,
                  int64_t *at)
{
  Buffer *b = (Buffer *) contents->data;
  if (b == NULL || b->mixed || contents->n < stride * GM_MIN_KEYS || !has_place (r, key)
      || !extend (r, b, stride))
    return false;
  const uint32_t *place = probe (b, key);
  if (place == NULL) {
    PyErr_Clear ();
    return false;
  }
  *at = *place > 0 && *place <= contents->n ? (int64_t) *place - 1 : -1;
  return true;
}
