/* SPDX-License-Identifier: Apache-2.0
 * attrs.h -- names bound to values on an object that lives in the heap: instance attributes, module
 * globals.
 *
 * Contents are name, value, name, value ...: the stores of the region, in the order of the first
 * store to a name; the value is gm_tracker_null once the name is deleted. A name that is not in the
 * contents has the value that the real object has. `number` is 1 if a name was deleted and stored
 * again.
 */
#ifndef GM_TRACE_ATTRS_H
#define GM_TRACE_ATTRS_H

#include "core/trace/recorder.h"

/* Returns the value that the region has stored under the name; NULL: none was stored;
 * &gm_tracker_null: the name was deleted. */
const GmTracker *gm_attrs_get (GmRecorder *r, const GmTracker *t, PyObject *name);
/* Records that an existing object drops the value of its attribute `name`, which is deleted or
 * overwritten: breaks where gm_dropped would. Nothing for a new object. */
void gm_attrs_dropped (GmRecorder *r, const GmTracker *t, PyObject *name);
void gm_attrs_set (GmRecorder *r, const GmTracker *t, PyObject *name, const GmTracker *value);

/* Registers an existing object's own dict as its attributes, so that the program cannot use the
 * dict as a dict, too. False after a break: the program already does, or a lookup in the dict could
 * run code of a key's class. */
bool gm_attrs_claim (GmRecorder *r, const GmTracker *object);

/* Returns the global `name` in the dict of globals; NULL if there is none, which is guarded. */
const GmTracker *gm_global_load (GmRecorder *r, PyObject *dict, PyObject *name);
/* Stores a global; value NULL: deletes it, and it must exist. */
void gm_global_store (GmRecorder *r, PyObject *dict, PyObject *name, const GmTracker *value);

#endif
