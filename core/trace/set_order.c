/* SPDX-License-Identifier: Apache-2.0
 * set_order.c -- the order in which CPython iterates over a set.
 *
 * It is the order of the set's table, which depends on the whole history. So the table is known for
 * an existing set that was not changed (guarded if the program reads the order), and for a set that
 * was made here from values one by one: a real set filled in the same order has the same table. Any
 * other set has contents with number 1, whose order is known only by `real`: a set that has the
 * table, or a frozenset, if set (real) has it; the elements after its own were added one by one.
 * Such a real set is never changed: CPython makes the next change on a copy. Copying takes time, so
 * a large set is not followed through removals.
 */
#include "core/trace/set.h"
#include "core/objects/set_table.h"

enum { MOST = 256 }; /* largest number of elements of a set that is copied at each change */

bool
gm_set_table_is_known (const GmTracker *contents)
{
  return !contents->number || contents->real;
}

bool
gm_set_order_is_known (const GmTracker *contents)
{
  return contents->n <= 1 || gm_set_table_is_known (contents);
}

/* Returns the set's table, which must be known, without the elements that were added since: a new
 * real set; NULL: there is no memory. */
static PyObject *
base_of (const GmTracker *t, const GmTracker *contents)
{
  PyObject *base = contents->real ? contents->real : t->real;
  if (base && PyFrozenSet_Check (base))
    return PySet_New (base);
  return base ? gm_set_table_copy (base) : PySet_New (NULL);
}

PyObject *
gm_set_exact (GmRecorder *r, const GmTracker *t)
{
  const GmTracker *contents = gm_contents_of (r, t);
  if (t->number || !gm_set_table_is_known (contents))
    return NULL;
  PyObject *set = base_of (t, contents);
  for (uint32_t i = set ? (uint32_t) PySet_GET_SIZE (set) : 0; set && i < contents->n; i++) {
    PyObject *o = gm_constant (r, contents->items[i]);
    if (o == NULL || PySet_Add (set, o) < 0)
      Py_CLEAR (set);
  }
  PyErr_Clear ();
  return set;
}

PyObject *
gm_set_exact_small (GmRecorder *r, const GmTracker *t)
{
  return gm_contents_of (r, t)->n > MOST ? NULL : gm_set_exact (r, t);
}

void
gm_set_be (GmRecorder *r, const GmTracker *t, PyObject *table, const GmTracker *const *items,
           uint32_t n)
{
  const GmTracker **copy = gm_tracker_array (r, n);
  gm_tracker_copy (copy, items, n);
  gm_contents_set (r, t,
                   gm_tracker (r, .kind = &gm_kind_contents, .items = copy, .n = n, .number = 1,
                               .real = table ? gm_record_keep (r, table) : NULL));
}

/* -- Sets on which a table depends ----------------------------------------- */

static const GmTracker *
operands_of (GmRecorder *r, const GmTracker *t)
{
  return gm_heap_load (&r->heap, t->id, GM_SLOT_OPERANDS);
}

void
gm_set_relies (GmRecorder *r, const GmTracker *t, const GmTracker *other)
{
  if (r->stop || other->kind != &gm_kind_set || other == t)
    return;
  const GmTracker *old = operands_of (r, t), *more = operands_of (r, other);
  uint32_t n_old = old ? old->n : 0, n_more = more ? more->n : 0,
           n = n_old + n_more + (other->source != NULL);
  if (n == n_old)
    return;
  const GmTracker **items = gm_tracker_array (r, n);
  if (old)
    gm_tracker_copy (items, old->items, n_old);
  if (more)
    gm_tracker_copy (items + n_old, more->items, n_more);
  if (other->source)
    items[n - 1] = other;
  gm_heap_store (&r->heap, t->id, GM_SLOT_OPERANDS,
                 gm_tracker (r, .kind = &gm_kind_contents, .items = items, .n = n));
}

/* Guards the order in which the existing set t is iterated over. */
static void
guard_order (GmRecorder *r, const GmTracker *t)
{
  if (t->source)
    gm_guard (r, SET_ORDER, t->source, .obj = gm_record_take (r, gm_set_elements (t->real)));
}

/* Guards the table of the existing set t, from which another table is made: CPython copies a table
 * that has no gaps and the right size. */
static void
guard_table (GmRecorder *r, const GmTracker *t)
{
  guard_order (r, t);
  if (t->source && gm_set_has_gaps (t->real))
    gm_guard (r, SET_STATE, t->source, .index = gm_set_state (t->real));
  else if (t->source)
    gm_guard (r, SET_TABLE, t->source, .index = gm_set_table (t->real));
}

static void
see (GmRecorder *r, const GmTracker *t, bool table)
{
  const GmTracker *operands = operands_of (r, t);
  for (uint32_t i = 0; operands && i < operands->n; i++)
    guard_table (r, operands->items[i]);
  if (table)
    guard_table (r, t);
  else
    guard_order (r, t);
}

void
gm_set_see_order (GmRecorder *r, const GmTracker *t)
{
  see (r, t, !t->number && gm_contents_of (r, t)->number);
}

void
gm_set_see_table (GmRecorder *r, const GmTracker *t)
{
  see (r, t, true);
}
