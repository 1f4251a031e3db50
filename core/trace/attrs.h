/* SPDX-License-Identifier: Apache-2.0
 * attrs.h -- names bound to values on an object that lives in the heap: instance attributes, module
 * globals.
 *
 * Contents are name, value, name, value ...: the stores of the region, in the order of the first
 * store to a name; the value NULL tracker means deleted. A name that is not there has the value
 * that the real object has. Number 1: a name was deleted and stored again.
 */
#ifndef GM_TRACE_ATTRS_H
#define GM_TRACE_ATTRS_H

#include "core/trace/recorder.h"

/* Returns the value stored in the region; NULL: none was stored; &gm_tracker_null: deleted. */
const GmTracker *gm_attrs_get (GmRecorder *r, const GmTracker *t, PyObject *name);
/* An object loses the value of an attribute, or gets another: see gm_dropped.  Nothing where the
 * object is new. */
void gm_attrs_dropped (GmRecorder *r, const GmTracker *t, PyObject *name);
void gm_attrs_set (GmRecorder *r, const GmTracker *t, PyObject *name, const GmTracker *value);

/* Keeps an existing object's own dict by name, as its attributes; false after a break, if the
 * program uses the dict as a dict, too. */
bool gm_attrs_claim (GmRecorder *r, const GmTracker *object);

/* Returns the global of the dict; NULL if there is none (guarded). */
const GmTracker *gm_global_load (GmRecorder *r, PyObject *dict, PyObject *name);
/* Stores a global; value NULL: deletes it, and it must exist. */
void gm_global_store (GmRecorder *r, PyObject *dict, PyObject *name, const GmTracker *value);

#endif
