/* SPDX-License-Identifier: Apache-2.0
 * keys.h -- keys of dicts and elements of sets.
 */
#ifndef GM_TRACE_KEYS_H
#define GM_TRACE_KEYS_H

#include "core/objects/key_type.h"
#include "core/trace/recorder.h"

/* True if the value can be a key in a recording: its hash and equality are known. False with a
 * break; or with an exception for an unhashable value; or with neither, and then the caller
 * breaks. */
bool gm_key_known (GmRecorder *r, const GmTracker *key);
/* True if the key equals nothing but itself, and its hash is its address. */
bool gm_key_is_identity (GmRecorder *r, const GmTracker *key);
/* Returns the place of the key among every `stride`th item of the contents; -1: it is absent.
 * gm_key_known is true for all of these keys. Guards that keys found to differ by identity are
 * distinct objects in each call. */
int64_t gm_key_find (GmRecorder *r, const GmTracker *contents, uint32_t stride,
                     const GmTracker *key);
/* Data of the guard APART of a lookup that found nothing: `key` is none of the keys in
 * `contents`. */
typedef struct {
  const GmTracker *key, *contents;
  uint32_t stride;
} GmKeyApart;
/* True if a guard is needed for the key and the item, both compared by identity, to be distinct
 * objects: no other guard implies it. */
bool gm_key_is_apart (const GmTracker *key, const GmTracker *item);
/* Adds the guards of `apart` again after a rollback that has removed its sources. */
void gm_key_apart_again (GmRecorder *r, const GmKeyApart *apart);
/* Guards that the NaNs in the constant or tuple t are the same objects in each call: a container
 * finds a NaN by identity, and no other guard tells two NaNs apart. */
void gm_key_guard_nan (GmRecorder *r, const GmTracker *t);
/* Notes, when a container made in the region gets the key, the state of the heap that the key's
 * Python __hash__ and __eq__ may have read. */
void gm_key_stored (GmRecorder *r, const GmTracker *key);
/* True if the state that the key's __hash__ and __eq__ may read has not changed since
 * gm_key_stored: the residual, which stores the key at the end, gets the same results. */
bool gm_key_still (GmRecorder *r, const GmTracker *key);
/* Computes hash (key) if the hash depends on no address; false, without a break: it does. */
bool gm_key_hash (GmRecorder *r, const GmTracker *key, Py_hash_t *hash);
/* Calls the key's Python __hash__, whether or not the class compares by identity; false, without a
 * break: the class has none, or the result is no constant. */
bool gm_key_hash_called (GmRecorder *r, const GmTracker *key, Py_hash_t *hash);
/* True if the residual can make a dict or set that has the key: if the residual also makes the
 * key's class, a Python __hash__ may need class attributes that are stored only later. */
bool gm_key_can_be_built (GmRecorder *r, const GmTracker *key);

/* Returns the constant by which key k is hashed and compared, borrowed: its own value, or the value
 * inside an instance of a subclass that keeps the value's __hash__ and __eq__. NULL: there is
 * none. */
PyObject *gm_key_value (GmRecorder *r, const GmTracker *k);
/* True if a lookup in the existing dict runs no code of the user's, because none of its keys is
 * compared by Python code. */
bool gm_dict_keys_are_plain (GmRecorder *r, PyObject *dict);

#endif
