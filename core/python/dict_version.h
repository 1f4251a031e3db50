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

/* Whether gm_dict_counter can tell of dicts. */
bool gm_counts_dicts (void);
/* A number that changes whenever the dict does, where it can be read as long as the dict lives, or for ever; NULL: it cannot be told. */
const uint64_t *gm_dict_counter (PyObject *dict);

/* Advanced whenever an object gets another class or another dict by way of `o.__class__ = c` or `o.__dict__ = d`; NULL where that
 * cannot be told. */
const uint64_t *gm_identity_epoch (void);
/* Whether all ways of giving an instance of the type another dict advance it. */
bool gm_identity_told (PyTypeObject *type);
/* As long as it gives the same number, none of the dicts that have a counter has changed.  0: it cannot be told. */
uint64_t gm_dicts_quiet (void);

#endif
