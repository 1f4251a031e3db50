/* SPDX-License-Identifier: Apache-2.0
 * dict_version.h -- whether a dict is still as it was, by one number.  For GmTraceHost.
 */
#ifndef GM_PYTHON_DICT_VERSION_H
#define GM_PYTHON_DICT_VERSION_H

#include <stdbool.h>
#include <stddef.h>

#include "core/python/cpython.h"

size_t gm_dict_version_offset (void);
bool (*gm_dict_watch_fn (void)) (PyObject *dict);

#endif
