/* SPDX-License-Identifier: Apache-2.0
 * lifetime.c -- see lifetime.h.
 *
 * What a part of a function is given is held by a tuple until the part has ended, and a container
 * that exists is changed after the graph has run.  So an object whose death the program could tell
 * must not lose its last reference inside of a region: the step that would drop it breaks, and
 * Python executes it, with nothing but the program's own references left.
 *   - An argument of a part is mortal if the part holds the only references to it, or its class has
 *     a finalizer.  A step that leaves a mortal neither where it came in nor anywhere in reach of
 *     the frames and effects breaks.
 *   - A container, a cell, an object or a dict of globals that exists breaks where it lets go of a
 *     value, see gm_dropped.
 * Edges that the walk does not know make it break too often, never too seldom.
 */
#include "core/trace/lifetime.h"

#include "core/trace/guard.h"

/* -- What the program could tell ------------------------------------------- */

#define MAX_HELD 1000 /* of what a dropped object holds, this much is looked at */

static bool dies (PyObject *o, bool sole, uint32_t *n);

static bool
is_suspended (PyObject *generator)
{
  PyObject *frame = PyObject_GetAttrString (generator, "gi_frame");
  bool suspended = frame != Py_None;
  if (frame == NULL)
    PyErr_Clear ();
  Py_XDECREF (frame);
  return suspended;
}

/* True if a weak reference of the program's leads to `o`.  Guards have some of their own. */
static bool
is_referenced_weakly (PyObject *o)
{
  if (!PyType_SUPPORTS_WEAKREFS (Py_TYPE (o)))
    return false;
  const PyWeakReference *w = *(PyWeakReference **) PyObject_GET_WEAKREFS_LISTPTR (o);
  for (; w; w = w->wr_next)
    if (w->wr_callback == NULL || !gm_guards_own_callback (w->wr_callback))
      return true;
  return false;
}

/* Containers and iterators of Python's own. */
static bool
is_container (PyObject *o)
{
  if (PyList_CheckExact (o) || PyTuple_CheckExact (o) || PyDict_CheckExact (o) || PyAnySet_CheckExact (o))
    return true;
  return (Py_TYPE (o)->tp_flags & Py_TPFLAGS_IMMUTABLETYPE) && Py_TYPE (o)->tp_iternext;
}

typedef struct {
  uint32_t *n;
  bool container; /* what it holds goes with it, however many references there are */
} Visit;

static int
visit (PyObject *o, void *data)
{
  const Visit *v = data;
  bool sole = Py_REFCNT (o) == 1;
  return (v->container || sole) && !PyType_Check (o) && !PyModule_Check (o) && dies (o, sole, v->n);
}

/* True if the user's code could run, or a weak reference could be found dead, when a reference to
 * `o` goes.  sole: it may be the last. */
static bool
dies (PyObject *o, bool sole, uint32_t *n)
{
  PyTypeObject *type = Py_TYPE (o);
  if (++*n > MAX_HELD)
    return false;
  if (PyGen_CheckExact (o))
    return is_suspended (o);
  if (type->tp_finalize || type->tp_del || (sole && is_referenced_weakly (o)))
    return true;
  Visit v = { n, is_container (o) };
  if ((!v.container && !sole) || !type->tp_traverse || !PyObject_IS_GC (o))
    return false;
  return type->tp_traverse (o, visit, &v) != 0;
}

/* -- Containers that exist ------------------------------------------------- */

static void
break_for_death (GmRecorder *r)
{
  gm_record_break (r, GM_BREAK_SIDE_EFFECT, "letting go of an object whose death the program can tell");
}

void
gm_dropped_object (GmRecorder *r, PyObject *old)
{
  uint32_t n = 0;
  if (!PyType_Check (old) && !PyModule_Check (old) && dies (old, true, &n))
    break_for_death (r);
}

void
gm_dropped (GmRecorder *r, const GmTracker *old)
{
  if (old && old->real)
    gm_dropped_object (r, old->real);
}

/* -- Arguments of a part --------------------------------------------------- */

/* An object, and where in the root's frame it came in. */
typedef struct {
  PyObject *o; /* borrowed: the call's */
  uint32_t home;
} Mortal;

void
gm_lifetime_add (GmRecorder *r, uint32_t i, uint32_t home)
{
  PyObject *const *locals = r->request->locals, *o = locals[i];
  const GmRecordStart *start = r->request->start;
  uint32_t n_nulls = (uint32_t) __builtin_popcountll (start->nulls | start->unbound);
  uint32_t n_values = start->n_locals + start->depth - n_nulls, n = 0;
  Py_ssize_t own = 0;
  for (uint32_t k = 0; k < n_values; k++)
    own += locals[k] == o;
  bool sole = Py_REFCNT (o) <= own;
  if (PyType_Check (o) || PyModule_Check (o))
    return;
  if (sole && PyObject_IS_GC (o))
    g_ptr_array_add (r->own, o);
  if (!dies (o, sole, &n))
    return;
  if (!r->mortals)
    r->mortals = g_array_new (FALSE, FALSE, sizeof (Mortal));
  Mortal m = { o, home };
  g_array_append_val (r->mortals, m);
}

/* True if an effect gives its arguments to what outlives the part.  What a container of the part's
 * own gets is among its contents. */
static bool
gives_away (GmRecorder *r, const GmEffect *e)
{
  PyObject *to = e->n > 0 ? e->args[0]->real : NULL;
  return to == NULL || !g_ptr_array_find (r->own, to, NULL);
}

typedef struct {
  GmRecorder *r;
  GHashTable *seen; /* GmTracker */
  GPtrArray *work;
} Reach;

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

/* depth: of its stack. */
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

/* True if the frames or what they have done hold an object. */
static bool
is_held (GmRecorder *r, const PyObject *o)
{
  g_autoptr (GHashTable) seen = g_hash_table_new (NULL, NULL);
  g_autoptr (GPtrArray) work = g_ptr_array_new ();
  Reach w = { r, seen, work };
  uint32_t depth = r->depth;
  for (const GmFrame *f = r->frame; f; f = f->parent) {
    note_frame (&w, f, depth);
    depth = f->return_depth;
  }
  for (uint32_t i = 0; i < r->effects->len; i++) {
    const GmEffect *e = &g_array_index (r->effects, GmEffect, i);
    for (uint32_t k = 0; k < e->n && gives_away (r, e); k++)
      note (&w, e->args[k]);
  }
  while (work->len > 0) {
    const GmTracker *t = g_ptr_array_steal_index_fast (work, work->len - 1);
    if (t->real == o)
      return true;
    for (uint32_t i = 0; i < t->n; i++)
      note (&w, t->items[i]);
    note_slots (&w, t->id);
    if (t->kind == &gm_kind_generator)
      note_frame (&w, t->data, ((const GmFrame *) t->data)->code->stack_size);
  }
  return false;
}

void
gm_lifetime_check (GmRecorder *r)
{
  const GmFrame *root = r->frame;
  while (root && root->parent)
    root = root->parent;
  for (uint32_t i = 0; i < r->mortals->len && root && !r->stop; i++) {
    const Mortal *m = &g_array_index (r->mortals, Mortal, i);
    const GmTracker *at_home = gm_heap_load (&r->heap, root->id, m->home);
    if ((at_home == NULL || at_home->real != m->o) && !is_held (r, m->o))
      break_for_death (r);
  }
}
