/* SPDX-License-Identifier: Apache-2.0
 * set_table.h -- the hash table inside of a real set, which sets made of it inherit.
 */
#ifndef GM_OBJECTS_SET_TABLE_H
#define GM_OBJECTS_SET_TABLE_H

#include "core/objects/python_host.h"

/* Returns the elements in the order of the table, ignoring overrides of iteration; a new tuple. */
PyObject *gm_set_elements (PyObject *set);
/* Returns a number that, together with the order of the elements, determines all of the table
 * that a set made of this set depends on. */
int64_t gm_set_table (PyObject *set);
/* Returns a number that, together with the order of the elements, determines the effect of each
 * change of the set: the number also covers gaps, and where the next pop begins. */
int64_t gm_set_state (PyObject *set);
bool gm_set_has_gaps (PyObject *set);
/* Returns a new set whose table is in the same state, gaps included; NULL: there is no memory. */
PyObject *gm_set_table_copy (PyObject *set);
/* Returns a Python function that calls gm_set_table_copy; borrowed. */
PyObject *gm_set_table_copier (void);
/* Returns an object from which a frozenset with the same table as `set` can be made: the tuple
 * of elements, or, if *as_set, an object of which a set has to be made before; a new reference,
 * NULL: neither gives that table. */
PyObject *gm_set_made_of (PyObject *set, bool *as_set);

#endif
