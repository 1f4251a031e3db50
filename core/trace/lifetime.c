/* SPDX-License-Identifier: Apache-2.0
 * lifetime.c -- see lifetime.h.
 *
 * A part is a resume function: a tuple holds its arguments until it has ended, and existing
 * containers are changed after the graph has run. So an object whose death the program could notice
 * must not lose its last reference inside of a region: the step that would drop it breaks, and
 * Python executes that step, with only the program's own references left.
 *   - An argument of a part is mortal if the part holds the only references to it, or its class has
 *     a finalizer. A step breaks if after it a mortal is neither in its original place nor
 *     reachable from the frames and effects.
 *   - A drop of a value from an existing container, cell, object or dict of globals breaks, see
 *     gm_dropped.
 *   - A break leaves all mortals that the frames hold, also those held only by a variable that is
 *     not read again; else the break goes back to a line where that is possible. At most the one
 *     that the step drops is left out: several die in an order that depends on their holders, and
 *     if they are left to the end of a part, its return breaks.
 * Edges that the walk does not know cause more breaks than necessary, never fewer.
 */
#include "core/trace/lifetime.h"

#include "core/trace/attrs.h"
#include "core/trace/exception.h"
#include "core/guard/guard.h"
#include "core/objects/death.h"
#include "core/trace/iterator.h"

static bool
is_seen_to_die (PyObject *o, bool sole)
{
  return gm_death_is_seen (o, sole, gm_guards_own_callback);
}

/* -- Containers that exist ------------------------------------------------- */

static void
break_for_death (GmRecorder *r)
{
  gm_record_break (r, GM_BREAK_SIDE_EFFECT,
                   "letting go of an object whose death the program can tell");
}

/* True if an effect changes `o`, so that an argument may have been stored in it. */
static bool
is_changed (GmRecorder *r, PyObject *o)
{
  for (uint32_t i = 0; i < r->effects->len; i++) {
    const GmEffect *e = &g_array_index (r->effects, GmEffect, i);
    if (e->n > 0 && e->args[0]->real == o)
      return true;
  }
  return false;
}

void
gm_dropped_object (GmRecorder *r, PyObject *old)
{
  if (!PyType_Check (old) && !PyModule_Check (old)
      && (is_seen_to_die (old, true) || (r->lifetime && is_changed (r, old))))
    break_for_death (r);
}

void
gm_dropped (GmRecorder *r, const GmTracker *old)
{
  if (old && old->real)
    gm_dropped_object (r, old->real);
}

/* -- Arguments of a part --------------------------------------------------- */

/* A mortal (see above), and its place in the root's frame at the start. */
typedef struct {
  PyObject *o; /* borrowed from the call */
  uint32_t home;
} Mortal;

struct GmLifetime {
  const GmFrame *root;
  GArray *mortals; /* Mortal */
  GHashTable *own; /* PyObject, borrowed: arguments to which the part holds the only reference, and
                      objects that only such an argument holds -> that argument */
};

typedef struct {
  GHashTable *own;
  PyObject *argument;
  GmDeathWalk d;
} Owner;

static int
note_own (PyObject *o, void *data)
{
  Owner *w = data;
  bool sole =
      o == w->argument || (!PyType_Check (o) && !PyModule_Check (o) && gm_death_is_last (&w->d, o));
  if (sole && PyObject_IS_GC (o) && g_hash_table_size (w->own) < GM_DEATH_MOST
      && g_hash_table_insert (w->own, o, w->argument) && Py_TYPE (o)->tp_traverse)
    Py_TYPE (o)->tp_traverse (o, note_own, data);
  return 0;
}

static void
note_all_own (GmLifetime *l, PyObject *argument)
{
  Owner w = { l->own, argument, { 0 } };
  note_own (argument, &w);
  gm_death_walk_clear (&w.d);
}

void
gm_lifetime_begin (GmRecorder *r)
{
  PyObject *const *locals = r->request->locals;
  const GmRecordStart *start = r->request->start;
  uint32_t n_nulls = (uint32_t) __builtin_popcountll (start->nulls | start->unbound), next = 0;
  uint32_t n_values = start->n_locals + start->depth - n_nulls;
  GmLifetime *l = g_new (GmLifetime, 1);
  *l = (GmLifetime){ r->frame, g_array_new (FALSE, FALSE, sizeof (Mortal)),
                     g_hash_table_new (NULL, NULL) };
  for (uint32_t k = 0; k < start->n_locals + start->depth; k++) {
    uint32_t place = k - MIN (k, start->n_locals);
    if (k >= start->n_locals && place < 64 && (start->nulls | start->unbound) >> place & 1)
      continue;
    PyObject *o = locals[next++];
    Mortal m = { o, k < start->n_locals ? start->locals[k] : r->frame->code->n_slots + place };
    Py_ssize_t from_here = 0;
    for (uint32_t i = 0; i < n_values; i++)
      from_here += locals[i] == o;
    bool sole = Py_REFCNT (o) <= from_here;
    if (PyType_Check (o) || PyModule_Check (o))
      continue;
    if (sole)
      note_all_own (l, o);
    if (is_seen_to_die (o, sole))
      g_array_append_val (l->mortals, m);
  }
  if (l->mortals->len > 0)
    r->lifetime = l;
  else
    gm_lifetime_free (l);
}

void
gm_lifetime_free (GmLifetime *l)
{
  if (l == NULL)
    return;
  g_array_unref (l->mortals);
  g_hash_table_unref (l->own);
  g_free (l);
}

/* -- Values in reach ------------------------------------------------------- */

typedef struct {
  GmRecorder *r;
  GHashTable *seen; /* GmTracker */
  GHashTable *real; /* PyObject: the real objects of the trackers in `seen` */
  GPtrArray *work;
  bool made; /* if true, only contents of objects that the region has made are followed */
} Reach;

static void
reach_begin (Reach *w, GmRecorder *r)
{
  *w = (Reach){ r, g_hash_table_new (NULL, NULL), g_hash_table_new (NULL, NULL), g_ptr_array_new (),
                false };
}

static void
reach_clear (Reach *w)
{
  g_hash_table_unref (w->seen);
  g_hash_table_unref (w->real);
  g_ptr_array_unref (w->work);
}

static void
note (Reach *w, const GmTracker *t)
{
  if (t && g_hash_table_add (w->seen, (gpointer) t))
    g_ptr_array_add (w->work, (gpointer) t);
}

static void
note_slots (Reach *w, uint32_t id)
{
  if (id == GM_NO_OBJECT)
    return;
  const GmHeap *heap = &w->r->heap;
  uint32_t n = g_array_index (heap->objects, GmHeapObject, id).n;
  for (uint32_t k = 0; k < n; k++)
    note (w, gm_heap_load (heap, id, k));
}

/* Adds the trackers that the frame holds to the walk. depth: number of entries of its stack. */
static void
note_frame (Reach *w, const GmFrame *f, uint32_t depth)
{
  for (uint32_t k = 0; k < f->code->n_slots + depth; k++)
    note (w, gm_heap_load (&w->r->heap, f->id, k));
  note_slots (w, f->handled_id);
  note (w, f->func);
  note (w, f->generator);
  note (w, f->names);
  note (w, f->init_object);
}

static void
reach_follow (Reach *w)
{
  while (w->work->len > 0) {
    const GmTracker *t = g_ptr_array_steal_index_fast (w->work, w->work->len - 1);
    if (t->real)
      g_hash_table_add (w->real, t->real);
    if ((w->made && t->real) || gm_iterator_is_done (w->r, t))
      continue;
    for (uint32_t i = 0; i < t->n; i++)
      note (w, t->items[i]);
    note_slots (w, t->id);
    uint32_t depth;
    if (t->kind == &gm_kind_generator && gm_generator_holds (w->r, t, &depth))
      note_frame (w, t->data, depth);
  }
}

/* Adds to the walk the values that the effect stores in objects that outlive the region. A
 * container, object or cell that the walk follows has these values among its contents, unless they
 * were removed again; values that only an argument holds live as long as the argument. */
static void
note_effect (Reach *w, const GmEffect *e)
{
  const GmTracker *to = e->n > 0 ? e->args[0] : NULL;
  if (e->kind == GM_EFFECT_GLOBAL) {
    note (w, gm_global_load (w->r, e->fn, e->name));
  } else if (to && to->real && to->id != GM_NO_OBJECT && e->kind != GM_EFFECT_HOOK) {
    PyObject *argument = g_hash_table_lookup (w->r->lifetime->own, to->real);
    note (w, !argument || g_hash_table_contains (w->real, argument) ? to : NULL);
  } else {
    for (uint32_t k = 0; k < e->n; k++)
      note (w, e->args[k]);
  }
}

/* Adds all that can be reached from the trackers added so far and from the effects. */
static void
reach_with_effects (Reach *w)
{
  do {
    reach_follow (w);
    for (uint32_t i = 0; i < w->r->effects->len; i++)
      note_effect (w, &g_array_index (w->r->effects, GmEffect, i));
  } while (w->work->len > 0);
}

/* Begins a walk with all that the frames and the effects hold. */
static void
reach_of_frames (Reach *w, GmRecorder *r)
{
  uint32_t depth = r->depth;
  reach_begin (w, r);
  for (const GmFrame *f = r->frame; f; f = f->parent) {
    note_frame (w, f, depth);
    depth = f->return_depth;
  }
  reach_with_effects (w);
}

/* -- Checks ---------------------------------------------------------------- */

static bool
is_at_home (GmRecorder *r, const Mortal *m)
{
  const GmTracker *t = gm_heap_load (&r->heap, r->lifetime->root->id, m->home);
  return t && t->real == m->o;
}

/* Breaks if the last step has dropped a mortal: it is neither in its original place nor in
 * reach. */
static void
check_step (GmRecorder *r)
{
  const GmLifetime *l = r->lifetime;
  uint32_t n = 0, away = 0;
  bool container = false;
  for (uint32_t i = 0; i < l->mortals->len; i++)
    away += !is_at_home (r, &g_array_index (l->mortals, Mortal, i));
  if (away == 0)
    return;
  Reach w;
  reach_of_frames (&w, r);
  for (uint32_t i = 0; i < l->mortals->len; i++) {
    const Mortal *m = &g_array_index (l->mortals, Mortal, i);
    if (is_at_home (r, m) || g_hash_table_contains (w.real, m->o))
      continue;
    n++;
    container |= gm_death_is_container (m->o);
  }
  reach_clear (&w);
  if (n == 0)
    return;
  break_for_death (r);
  r->stop->drops_one = n == 1 && !container;
}

/* Breaks if the arguments would not die in plain Python's order when the function returns: they die
 * in the order of their places, which is that of the variables, but an object with another
 * reference than its own variable may die earlier or later. */
static void
check_return (GmRecorder *r)
{
  const GmLifetime *l = r->lifetime;
  const GmFrame *root = l->root;
  uint32_t n = 0, at_home = 0;
  Reach lives, w;
  reach_begin (&lives, r);
  note (&lives, r->stopped_value);
  reach_with_effects (&lives);
  reach_begin (&w, r);
  w.made = true;
  for (uint32_t k = 0; k < root->code->n_slots; k++)
    note (&w, gm_heap_load (&r->heap, root->id, k));
  reach_follow (&w);
  for (uint32_t i = 0; i < l->mortals->len; i++) {
    const Mortal *m = &g_array_index (l->mortals, Mortal, i);
    bool dead = !g_hash_table_contains (lives.real, m->o);
    n += dead;
    at_home += dead && m->home < root->code->n_slots && is_at_home (r, m);
    g_hash_table_remove (w.real, m->o);
  }
  GHashTableIter iter;
  void *o;
  g_hash_table_iter_init (&iter, w.real);
  while (g_hash_table_iter_next (&iter, &o, NULL))
    if (!PyType_Check (o) && !PyModule_Check (o) && !g_hash_table_contains (lives.real, o))
      n += is_seen_to_die (o, false);
  reach_clear (&lives);
  reach_clear (&w);
  if (n > 1 && at_home < n)
    break_for_death (r);
}

void
gm_lifetime_check (GmRecorder *r)
{
  if (r->frame)
    check_step (r);
  else
    check_return (r);
}

uint32_t
gm_lifetime_lost (GmRecorder *r, const GPtrArray *left)
{
  const GmLifetime *l = r->lifetime;
  uint32_t n = 0;
  Reach held, kept;
  reach_of_frames (&held, r);
  reach_begin (&kept, r);
  for (uint32_t i = 0; i < left->len; i++)
    note (&kept, left->pdata[i]);
  reach_with_effects (&kept);
  for (uint32_t i = 0; i < l->mortals->len; i++) {
    PyObject *o = g_array_index (l->mortals, Mortal, i).o;
    n += g_hash_table_contains (held.real, o) && !g_hash_table_contains (kept.real, o);
  }
  reach_clear (&held);
  reach_clear (&kept);
  return n;
}
