/* SPDX-License-Identifier: Apache-2.0
 * dict_version.h -- numbers by which unchanged dicts are recognized.  For GmTraceHost.
 */
#ifndef GM_OBJECTS_DICT_VERSION_H
#define GM_OBJECTS_DICT_VERSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/objects/cpython.h"

size_t gm_dict_version_offset (void);

/* True if gm_dict_counter works for dicts. */
bool gm_counts_dicts (void);
/* Returns the address of a number that changes whenever the dict does; the address is valid as long
 * as the dict lives, or for ever.  NULL: changes cannot be detected. */
const uint64_t *gm_dict_counter (PyObject *dict);

/* Returns the address of a number that advances whenever an object gets another class or another
 * dict by `o.__class__ = c` or `o.__dict__ = d`; NULL where that cannot be detected. */
const uint64_t *gm_identity_epoch (void);
/* True if all ways of giving an instance of the type another dict advance that number. */
bool gm_identity_told (PyTypeObject *type);
/* While this returns the same number, no dict that has a counter has changed.  0: cannot be
 * detected. */
uint64_t gm_dicts_quiet (void);

#endif
