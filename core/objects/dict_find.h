/* SPDX-License-Identifier: Apache-2.0
 * dict_find.h -- finds a key in a dict without running the code of its keys.  For GmTraceHost.
 */
#ifndef GM_OBJECTS_DICT_FIND_H
#define GM_OBJECTS_DICT_FIND_H

#include <stdbool.h>
#include <stddef.h>

#include "core/objects/cpython.h"

/* Returns the offset, in the keys of a dict (ma_keys), of a byte that is 0 unless all keys are
 * exact strings. */
size_t gm_dict_kind_offset (void);
/* Looks up `key` in a dict whose byte at gm_dict_kind_offset is 0: sets *value to the value of
 * the key that is `key` itself or a constant equal to it, borrowed, or to NULL.  False: only
 * running a key's own code could decide. */
bool gm_dict_find (PyObject *dict, PyObject *key, Py_hash_t hash, PyObject **value);

#endif
