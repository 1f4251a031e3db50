/* SPDX-License-Identifier: Apache-2.0
 * set.h -- what the files about sets share: tracker_set.c has the kind and the methods that look at one set, set_algebra.c those that take others,
 * set_order.c knows in which order CPython iterates over them.
 */
#ifndef GM_TRACE_SET_H
#define GM_TRACE_SET_H

#include "core/trace/object.h"

/* A tracker's number: of a set; of a frozenset that was there before; of one that an operation of the region made.  Both have it in `real`. */
enum { GM_SET_PLAIN, GM_SET_EXISTS, GM_SET_MADE };
enum { GM_SLOT_OPERANDS = GM_N_STORAGE_SLOTS, GM_N_SET_SLOTS }; /* heap slots; see gm_set_relies */

/* -- tracker_set.c --------------------------------------------------------- */
/* A set of these elements, or the real one that has them. */
const GmTracker *gm_set_add (GmRecorder *r, PyObject *real, const GmSource *source, const GmTracker *const *items, uint32_t n);
/* The element, hashable; NULL after a break. */
const GmTracker *gm_set_element (GmRecorder *r, const GmTracker *item);
bool gm_set_has (GmRecorder *r, const GmTracker *t, const GmTracker *item);
const GmTracker *gm_set_append (GmRecorder *r, const GmTracker *t, const GmTracker *item); /* set.add */
/* CPython looks into an instance of a subclass of set, and does not iterate over it. */
const GmTracker *gm_set_inside (GmRecorder *r, const GmTracker *t);
/* A real set of the same elements, in an order of its own; new, NULL: not all are constants. */
PyObject *gm_set_real (GmRecorder *r, const GmTracker *t);
/* An existing set: the method is replayed. */
void gm_set_effect (GmRecorder *r, const char *name, const GmTracker *t, const GmTracker *const *args, uint32_t n);

/* -- set_order.c ----------------------------------------------------------- */
bool gm_set_order_is_known (const GmTracker *contents);
bool gm_set_table_is_known (const GmTracker *contents); /* then what is added has its place, too */
/* A real set with the table that the set has now, which the caller may change; new.  NULL: that is not known, or it is a frozenset. */
PyObject *gm_set_exact (GmRecorder *r, const GmTracker *t);
PyObject *gm_set_exact_small (GmRecorder *r, const GmTracker *t); /* for a change; NULL, too: it has too many elements for that */
/* The set has what `table` has, which is kept: n elements in any order.  NULL: its order is not known. */
void gm_set_be (GmRecorder *r, const GmTracker *t, PyObject *table, const GmTracker *const *items, uint32_t n);
/* The set's table depends on that of another one. */
void gm_set_relies (GmRecorder *r, const GmTracker *t, const GmTracker *other);
/* Somebody sees the order: guards what it depends on; or all of the table. */
void gm_set_see_order (GmRecorder *r, const GmTracker *t);
void gm_set_see_table (GmRecorder *r, const GmTracker *t);

/* -- set_algebra.c --------------------------------------------------------- */
extern const GmMethodRow gm_set_questions[]; /* of both: a new set, or a question about two */
extern const GmMethodRow gm_set_changes[];   /* of a set */
const GmTracker *gm_set_update (GmRecorder *r, const GmTracker *t, const GmCallArgs *args);
const GmTracker *gm_set_binary (GmRecorder *r, GmBinary op, const GmTracker *t, const GmTracker *other, bool reflected, bool inplace);
const GmTracker *gm_set_compare (GmRecorder *r, int op, const GmTracker *t, const GmTracker *other);

#endif
