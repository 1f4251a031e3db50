/* SPDX-License-Identifier: Apache-2.0
 * dict_version.h -- whether a dict, or all of them, are still as they were, by one number.  For GmTraceHost.
 */
#ifndef GM_PYTHON_DICT_VERSION_H
#define GM_PYTHON_DICT_VERSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/python/cpython.h"

size_t gm_dict_version_offset (void);

/* Advanced whenever an object gets another class or another dict by way of `o.__class__ = c` or `o.__dict__ = d`; NULL where that
 * cannot be told. */
const uint64_t *gm_identity_epoch (void);
/* Whether all ways of giving an instance of the type another dict advance it. */
bool gm_identity_told (PyTypeObject *type);
/* As long as it gives the same number, no dict of the process has changed. */
uint64_t gm_dicts_quiet (void);

#endif
