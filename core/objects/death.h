/* SPDX-License-Identifier: Apache-2.0
 * death.h -- objects whose death a program can notice: by a finalizer, a suspended generator, or a
 * weak reference; found by a walk over what a dropped object holds.
 */
#ifndef GM_OBJECTS_DEATH_H
#define GM_OBJECTS_DEATH_H

#include <Python.h>
#include <glib.h>
#include <stdbool.h>

/* Maximal number of objects below a dropped object that a walk reads. */
#define GM_DEATH_MOST 1000

/* A walk over what a dropped object holds; 0 to begin with. */
typedef struct {
  uint32_t n;      /* number of objects that the walk has read */
  GHashTable *met; /* PyObject -> number of references to it that the walk has met; or NULL */
  bool (*ours) (PyObject *callback); /* true for callbacks of weak references that do not count */
} GmDeathWalk;

void gm_death_walk_clear (GmDeathWalk *d); /* frees what the walk owns */

/* True if all references to `o` come from objects that the walk has met. */
bool gm_death_is_last (GmDeathWalk *d, PyObject *o);
bool gm_death_is_container (PyObject *o); /* true for Python's own containers and iterators */

/* True if dropping a reference to `o` could run code of the user's, or let the program find a weak
 * reference dead. sole: it may be the last reference. ours: true for callbacks of weak references
 * that are not the program's. */
bool gm_death_is_seen (PyObject *o, bool sole, bool (*ours) (PyObject *callback));

#endif
