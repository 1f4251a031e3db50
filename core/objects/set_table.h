/* SPDX-License-Identifier: Apache-2.0
 * set_table.h -- the hash table inside of a real set, which sets made of it inherit.
 */
#ifndef GM_OBJECTS_SET_TABLE_H
#define GM_OBJECTS_SET_TABLE_H

#include "core/objects/python_host.h"

/* Returns the elements in the order of the table, ignoring overrides of iteration; a new tuple. */
PyObject *gm_set_elements (PyObject *set);
/* Returns a number that, with the order of the elements, determines all of the table that a set
 * made of it depends on. */
int64_t gm_set_table (PyObject *set);
/* Returns a number that, with the order of the elements, determines the effect of each change:
 * gaps, and where the next pop begins, too. */
int64_t gm_set_state (PyObject *set);
bool gm_set_has_gaps (PyObject *set);
/* Returns a new set in the same state; NULL: there is no memory. */
PyObject *gm_set_table_copy (PyObject *set);
/* Returns gm_set_table_copy as a Python function; borrowed. */
PyObject *gm_set_table_copier (void);
/* Returns the object from which a frozenset with this one's table can be made: the elements, or, if
 * *as_set, an object of which a set is made first; a new reference, NULL: neither gives that
 * table. */
PyObject *gm_set_made_of (PyObject *set, bool *as_set);

#endif
