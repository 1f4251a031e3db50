/* SPDX-License-Identifier: Apache-2.0
 * set_table.h -- the table inside of a real set: what others that are made of it inherit.
 */
#ifndef GM_TRACE_SET_TABLE_H
#define GM_TRACE_SET_TABLE_H

#include "core/trace/trace.h"

/* The elements in the order of the table, whatever the class says of iteration; a new tuple. */
PyObject *gm_set_elements (PyObject *set);
/* With the order of its elements, all of its table that a set made of it depends on. */
int64_t gm_set_table (PyObject *set);
/* With the order of its elements, all that decides what comes of changing it: gaps, and where its next pop begins, too. */
int64_t gm_set_state (PyObject *set);
bool gm_set_has_gaps (PyObject *set);
/* A set in the same state; new, NULL: there is no memory. */
PyObject *gm_set_table_copy (PyObject *set);
/* That, as a function of Python's; borrowed. */
PyObject *gm_set_table_copier (void);
/* What a frozenset is made of that has this one's table: its elements, or a set of what is returned; a new reference, NULL: neither does that. */
PyObject *gm_set_made_of (PyObject *set, bool *as_set);

#endif
