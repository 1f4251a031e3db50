/* SPDX-License-Identifier: Apache-2.0
 * death.c -- see death.h.
 */
#include "core/objects/death.h"

static bool dies (PyObject *o, bool sole, GmDeathWalk *d);

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

/* True if a weak reference refers to `o`; those whose callbacks `ours` is true for do not count. */
static bool
is_referenced_weakly (PyObject *o, bool (*ours) (PyObject *callback))
{
  if (!PyType_SUPPORTS_WEAKREFS (Py_TYPE (o)))
    return false;
  const PyWeakReference *w = *(PyWeakReference **) PyObject_GET_WEAKREFS_LISTPTR (o);
  for (; w; w = w->wr_next)
    if (w->wr_callback == NULL || !ours (w->wr_callback))
      return true;
  return false;
}

bool
gm_death_is_container (PyObject *o)
{
  if (PyList_CheckExact (o) || PyTuple_CheckExact (o) || PyDict_CheckExact (o)
      || PyAnySet_CheckExact (o))
    return true;
  return (Py_TYPE (o)->tp_flags & Py_TPFLAGS_IMMUTABLETYPE) && Py_TYPE (o)->tp_iternext;
}

typedef struct {
  GmDeathWalk *d;
  bool container; /* the object is a container: its contents count as dropped with it, whatever
                     their reference counts */
} Visit;

/* Each call counts one more reference of the walk: several functions that share a variable, say,
 * hold its cell together. */
bool
gm_death_is_last (GmDeathWalk *d, PyObject *o)
{
  Py_ssize_t n = Py_REFCNT (o);
  if (n == 1 || n > GM_DEATH_MOST || !PyObject_IS_GC (o))
    return n == 1;
  if (d->met == NULL)
    d->met = g_hash_table_new (NULL, NULL);
  uintptr_t met = 1 + (uintptr_t) g_hash_table_lookup (d->met, o);
  g_hash_table_insert (d->met, o, (gpointer) met);
  return met == (uintptr_t) n;
}

static int
visit (PyObject *o, void *data)
{
  const Visit *v = data;
  bool sole = !PyType_Check (o) && !PyModule_Check (o) && gm_death_is_last (v->d, o);
  return (v->container || sole) && !PyType_Check (o) && !PyModule_Check (o) && dies (o, sole, v->d);
}

/* True if dropping a reference to `o` could run code of the user's, or let the program find a weak
 * reference dead. sole: it may be the last reference. */
static bool
dies (PyObject *o, bool sole, GmDeathWalk *d)
{
  PyTypeObject *type = Py_TYPE (o);
  if (++d->n > GM_DEATH_MOST)
    return false;
  if (PyGen_CheckExact (o))
    return is_suspended (o);
  if (type->tp_finalize || type->tp_del || (sole && is_referenced_weakly (o, d->ours)))
    return true;
  Visit v = { d, gm_death_is_container (o) };
  if ((!v.container && !sole) || !type->tp_traverse || !PyObject_IS_GC (o))
    return false;
  return type->tp_traverse (o, visit, &v) != 0;
}

bool
gm_death_is_seen (PyObject *o, bool sole, bool (*ours) (PyObject *callback))
{
  GmDeathWalk d = { .ours = ours };
  bool seen = dies (o, sole, &d);
  gm_death_walk_clear (&d);
  return seen;
}

void
gm_death_walk_clear (GmDeathWalk *d)
{
  g_clear_pointer (&d->met, g_hash_table_unref);
}
