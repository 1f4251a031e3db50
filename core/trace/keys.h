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
/* The place of the key among every `stride`th item of the contents, or -1; all are known.  Guards
 * that keys which were told apart by what they are stay apart. */
int64_t gm_key_find (GmRecorder *r, const GmTracker *contents, uint32_t stride,
                     const GmTracker *key);
/* The guard APART of a look-up that found nothing: the key is none of the items. */
typedef struct {
  const GmTracker *key, *contents;
  uint32_t stride;
} GmKeyApart;
/* True if other guards do not imply that a key is another object than an item; both are known by
 * what they are. */
bool gm_key_is_apart (const GmTracker *key, const GmTracker *item);
/* Such a guard once more, when a rollback has taken its sources. */
void gm_key_apart_again (GmRecorder *r, const GmKeyApart *apart);
/* Guards that the NaNs in a constant or tuple are the objects that they were: a container finds one
 * by what it is, and no other guard tells two apart. */
void gm_key_guard_nan (GmRecorder *r, const GmTracker *t);
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

/* True if keys of the type say without code of the user's that they are equal to a constant, and
 * are so only if they are compared as constants are. */
/* The value that a key is looked up by, borrowed; NULL: it is no constant, and no object that is
 * hashed and compared as one. */
PyObject *gm_key_value (GmRecorder *r, const GmTracker *k);
bool gm_key_is_plain (const PyTypeObject *type);
/* True for a subclass of int or str that is hashed and compared as these are, by C: IntEnum,
 * StrEnum, class S (str, Enum). */
bool gm_key_is_by_value (const PyTypeObject *type);
/* The ways in which a guard can look up an object as a key of a dict that exists, without code of
 * the user's. */
typedef enum {
  GM_KEY_OTHER,
  GM_KEY_FIXED,    /* a constant, or a tuple of such: compared by value */
  GM_KEY_IDENTITY, /* a function, a plain class, a dtype, a member of an Enum: it is itself */
} GmKeyKind;
GmKeyKind gm_key_kind (PyObject *key);
/* True if a look into a dict that exists runs no code of the user's, and finds a constant by
 * nothing but what is compared as one: what gm_dict_get does. */
bool gm_dict_keys_are_plain (GmRecorder *r, PyObject *dict);

#endif
