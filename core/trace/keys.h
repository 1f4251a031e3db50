/* SPDX-License-Identifier: Apache-2.0
 * keys.h -- keys of dicts and elements of sets.
 */
#ifndef GM_TRACE_KEYS_H
#define GM_TRACE_KEYS_H

#include "core/objects/key_type.h"
#include "core/trace/recorder.h"

/* True if the value may be a key here. False with a break, with an exception, or with neither: then
 * the caller breaks. */
bool gm_key_known (GmRecorder *r, const GmTracker *key);
/* True if the key is equal to nothing but itself and hashed by its address. */
bool gm_key_is_identity (GmRecorder *r, const GmTracker *key);
/* Returns the place of the key among every `stride`th item of the contents, or -1; all keys are
 * known. Guards that keys which were told apart by identity stay distinct. */
int64_t gm_key_find (GmRecorder *r, const GmTracker *contents, uint32_t stride,
                     const GmTracker *key);
/* The guard APART of a lookup that found nothing: the key is none of the items. */
typedef struct {
  const GmTracker *key, *contents;
  uint32_t stride;
} GmKeyApart;
/* True if no other guard implies that the key and the item are distinct objects; both are compared
 * by identity. */
bool gm_key_is_apart (const GmTracker *key, const GmTracker *item);
/* Adds such a guard again after a rollback that has removed its sources. */
void gm_key_apart_again (GmRecorder *r, const GmKeyApart *apart);
/* Guards that the NaNs in a constant or tuple are the same objects in each call: a container finds
 * a NaN by identity, and no other guard tells two NaNs apart. */
void gm_key_guard_nan (GmRecorder *r, const GmTracker *t);
/* Called when a container made in the region gets the key: remembers the state that its __hash__
 * and __eq__ may read. */
void gm_key_stored (GmRecorder *r, const GmTracker *key);
/* True if __hash__ and __eq__ would read the same state at the end, when the residual stores the
 * key. */
bool gm_key_still (GmRecorder *r, const GmTracker *key);
/* Computes hash (key) if it depends on no address; false, without a break: it does. */
bool gm_key_hash (GmRecorder *r, const GmTracker *key, Py_hash_t *hash);
/* Calls a Python __hash__, however the class compares its keys; false, without a break: the class
 * has none, or the result is no constant. */
bool gm_key_hash_called (GmRecorder *r, const GmTracker *key, Py_hash_t *hash);
/* True if the residual can make a dict or set with the key: a __hash__ of a class that the residual
 * makes as well may need attributes that are filled in last. */
bool gm_key_can_be_built (GmRecorder *r, const GmTracker *key);

/* Returns the value that a key is looked up by, borrowed; NULL: the key is no constant, and no
 * object that is hashed and compared as one. */
PyObject *gm_key_value (GmRecorder *r, const GmTracker *k);
/* True if a lookup in an existing dict runs no code of the user's, and finds a constant only among
 * keys that are compared as constants: as gm_dict_get does. */
bool gm_dict_keys_are_plain (GmRecorder *r, PyObject *dict);

#endif
