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
/* Elements from which a frozenset with this one's table comes out; NULL: those in its own order do not do that, so many share a place. */
PyObject *gm_set_elements_that_give (PyObject *set);

#endif
