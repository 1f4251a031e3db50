/* SPDX-License-Identifier: Apache-2.0
 * dict_find.h -- looking into a dict without running the code of its keys.  For GmTraceHost.
 */
#ifndef GM_PYTHON_DICT_FIND_H
#define GM_PYTHON_DICT_FIND_H

#include <stdbool.h>
#include <stddef.h>

#include "core/python/cpython.h"

/* Where the keys of a dict (ma_keys) have a byte that is 0 unless all of them are exact strings. */
size_t gm_dict_kind_offset (void);
/* Of a dict whose byte is 0: the value of the key that is `key` itself, or a constant equal to it, borrowed, or NULL.  False: only a key's own code
 * can tell. */
bool gm_dict_find (PyObject *dict, PyObject *key, Py_hash_t hash, PyObject **value);

#endif
