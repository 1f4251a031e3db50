/* SPDX-License-Identifier: Apache-2.0
 * set.h -- declarations shared by the files about sets: tracker_set.c has the kind and the methods
 * that read one set, set_algebra.c those that take others, set_order.c the order in which CPython
 * iterates over them.
 */
#ifndef GM_TRACE_SET_H
#define GM_TRACE_SET_H

#include "core/trace/instance.h"

/* The number of a tracker: of a set; of a frozenset that existed before the region; of a frozenset
 * that an operation of the region has made. A frozenset of either kind has the object in `real`. */
enum { GM_SET_PLAIN, GM_SET_EXISTS, GM_SET_MADE };
enum { GM_SLOT_OPERANDS = GM_N_STORAGE_SLOTS, GM_N_SET_SLOTS }; /* heap slots; see gm_set_relies */

/* -- tracker_set.c --------------------------------------------------------- */
/* Returns a tracker of a new set of the n elements; if `real` is not NULL, of the existing set
 * `real`, which has these elements. */
const GmTracker *gm_set_add (GmRecorder *r, PyObject *real, const GmSource *source,
                             const GmTracker *const *items, uint32_t n);
/* Returns `item`, realized, after a test that it is hashable; NULL after a break or an
 * exception. */
const GmTracker *gm_set_element (GmRecorder *r, const GmTracker *item);
bool gm_set_has (GmRecorder *r, const GmTracker *t, const GmTracker *item);
const GmTracker *gm_set_append (GmRecorder *r, const GmTracker *t,
                                const GmTracker *item); /* as set.add */
/* Returns the storage of t, an instance of a subclass of set, as CPython reads the set inside
 * without iterating over the instance; t for other values. */
const GmTracker *gm_set_inside (GmRecorder *r, const GmTracker *t);
/* Returns a new real set of the same elements, whose order may differ; NULL: not all elements are
 * constants. */
PyObject *gm_set_real (GmRecorder *r, const GmTracker *t);
/* Records a call of set's method `name` on the set t, to be replayed; nothing for a new set. */
void gm_set_effect (GmRecorder *r, const char *name, const GmTracker *t,
                    const GmTracker *const *args, uint32_t n);

/* -- set_order.c ----------------------------------------------------------- */
bool gm_set_order_is_known (const GmTracker *contents);
/* True if the table is known, and with it the place of an element that is added. */
bool gm_set_table_is_known (const GmTracker *contents);
/* Returns a new real set, owned by the caller, with the hash table that the set t has now. NULL:
 * the table is not known, or t is a frozenset. */
PyObject *gm_set_exact (GmRecorder *r, const GmTracker *t);
PyObject *gm_set_exact_small (GmRecorder *r, const GmTracker *t); /* gm_set_exact, but NULL for a
                                                                     large set */
/* Sets the contents of t to the n elements `items`, in any order, whose table is the real set
 * `table`; takes a new reference to it. table NULL: the order is not known. */
void gm_set_be (GmRecorder *r, const GmTracker *t, PyObject *table, const GmTracker *const *items,
                uint32_t n);
/* Records that the table of t was made from the table of `other`, whose order must be guarded if
 * the order of t is read. */
void gm_set_relies (GmRecorder *r, const GmTracker *t, const GmTracker *other);
/* Record that the program reads the set. gm_set_see_order: it reads the order; guards the orders of
 * existing sets on which the order depends. gm_set_see_table: it may read all of the table, which
 * is guarded. */
void gm_set_see_order (GmRecorder *r, const GmTracker *t);
void gm_set_see_table (GmRecorder *r, const GmTracker *t);

/* -- set_algebra.c --------------------------------------------------------- */
extern const GmMethodRow gm_set_questions[]; /* methods of sets and frozensets that return a new set
                                                or compare two */
extern const GmMethodRow gm_set_changes[];   /* methods that change a set */
const GmTracker *gm_set_update (GmRecorder *r, const GmTracker *t, const GmCallArgs *args);
const GmTracker *gm_set_binary (GmRecorder *r, GmBinary op, const GmTracker *t,
                                const GmTracker *other, bool reflected, bool inplace);
const GmTracker *gm_set_compare (GmRecorder *r, int op, const GmTracker *t, const GmTracker *other);

#endif
