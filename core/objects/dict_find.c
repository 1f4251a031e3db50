/* SPDX-License-Identifier: Apache-2.0
 * dict_find.c -- see dict_find.h.
 *
 * CPython's own look-up calls __eq__ of each key of the same hash, and a key's class may implement
 * that in Python.  A guard must not run such code: the program would see a comparison that it never
 * made. So the table is walked here, in CPython's order, only constants are compared, and where
 * CPython would call a key's code there is no answer.  A tuple of constants, or a Size, counts as a
 * constant, too.
 */
#include "core/objects/dict_find.h"

#include <internal/pycore_dict.h>

#include "core/objects/key_type.h"
#include "core/objects/python_host.h"

size_t
gm_dict_kind_offset (void)
{
  return offsetof (PyDictKeysObject, dk_kind);
}

static inline int64_t
index_at (const PyDictKeysObject *keys, size_t place)
{
  const void *indices = keys->dk_indices;
  if (DK_LOG_SIZE (keys) < 8)
    return ((const int8_t *) indices)[place];
  if (DK_LOG_SIZE (keys) < 16)
    return ((const int16_t *) indices)[place];
  if (DK_LOG_SIZE (keys) < 32)
    return ((const int32_t *) indices)[place];
  return ((const int64_t *) indices)[place];
}

typedef enum { DIFFERENT, EQUAL, UNKNOWN } Same;

static bool
is_compared_in_c (PyTypeObject *type)
{
  return gm_is_constant_type (type) || gm_key_is_by_value (type);
}

/* True for a tuple and for a Size, which is compared as a tuple. */
static bool
is_tuple (PyObject *o)
{
  return PyTuple_CheckExact (o) || Py_TYPE (o) == gm_host.size_type;
}

/* Compares a key stored in a dict with another key of the same hash, without running code of
 * theirs; UNKNOWN where only that could tell. */
static Same
same (PyObject *stored, PyObject *key)
{
  if (stored == key)
    return EQUAL;
  if (!is_tuple (stored) && !gm_key_is_plain (Py_TYPE (stored)))
    return UNKNOWN;
  if (is_compared_in_c (Py_TYPE (stored)) && is_compared_in_c (Py_TYPE (key)))
    return PyObject_RichCompareBool (stored, key, Py_EQ) == 1 ? EQUAL : DIFFERENT;
  if (!is_tuple (stored) || !is_tuple (key) || PyTuple_GET_SIZE (stored) != PyTuple_GET_SIZE (key))
    return DIFFERENT;
  Same all = EQUAL;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE (key) && all == EQUAL; i++)
    all = same (PyTuple_GET_ITEM (stored, i), PyTuple_GET_ITEM (key, i));
  return all;
}

bool
gm_dict_find (PyObject *dict, PyObject *key, Py_hash_t hash, PyObject **value)
{
  PyDictKeysObject *keys = ((PyDictObject *) dict)->ma_keys;
  const PyDictKeyEntry *entries = DK_ENTRIES (keys);
  size_t mask = (size_t) DK_SIZE (keys) - 1, perturb = (size_t) hash, place = (size_t) hash & mask;
  for (*value = NULL;;) {
    int64_t i = index_at (keys, place);
    if (i == DKIX_EMPTY)
      return true;
    if (i >= 0 && (entries[i].me_key == key || entries[i].me_hash == hash)) {
      Same answer = same (entries[i].me_key, key);
      if (answer == EQUAL)
        *value = entries[i].me_value;
      if (answer != DIFFERENT)
        return answer == EQUAL;
    }
    perturb >>= 5; /* PERTURB_SHIFT of dictobject.c */
    place = (place * 5 + perturb + 1) & mask;
  }
}
