/* SPDX-License-Identifier: Apache-2.0
 * keys.h -- keys of dicts and elements of sets.
 */
#ifndef GM_TRACE_KEYS_H
#define GM_TRACE_KEYS_H

#include "core/trace/recorder.h"

/* Whether the value may be a key here; false with a break or an exception, or without: the caller
 * breaks. */
bool gm_key_known (GmRecorder *r, const GmTracker *key);
/* Equal to nothing but itself, and hashed by its address. */
bool gm_key_is_identity (GmRecorder *r, const GmTracker *key);
/* Whether a look-up of `key` finds the entry of `stored`; both are known. */
bool gm_key_equals (GmRecorder *r, const GmTracker *stored, const GmTracker *key);
/* A container that is made here gets the key: what its __hash__ and __eq__ may see is remembered. */
void gm_key_stored (GmRecorder *r, const GmTracker *key);
/* Whether they see the same at the end, when the residual stores it. */
bool gm_key_still (GmRecorder *r, const GmTracker *key);
/* hash (key) where it depends on no address; false without a break: it does. */
bool gm_key_hash (GmRecorder *r, const GmTracker *key, Py_hash_t *hash);
/* What a __hash__ of Python gives, whatever makes two of the class equal; false without a break: the class has none, or it is no constant. */
bool gm_key_hash_called (GmRecorder *r, const GmTracker *key, Py_hash_t *hash);
/* Whether the residual can make a dict or set with the key: a __hash__ of a class that it makes as
 * well may need what is filled in last. */
bool gm_key_can_be_built (GmRecorder *r, const GmTracker *key);

/* Whether keys of the type say without code of the user's that they are equal to a constant, and are so only if they are constants. */
bool gm_key_is_plain (const PyTypeObject *type);
/* A constant, or a tuple of such: a guard can compare it without code of the user's. */
bool gm_key_is_fixed (PyObject *key, uint32_t depth);
/* Whether a look into a dict that exists runs no code of the user's, and finds a constant by nothing but a constant: what gm_dict_get does. */
bool gm_dict_keys_are_plain (GmRecorder *r, PyObject *dict);

#endif
