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
/* Returns the address of a number that changes whenever the dict does; the address stays valid
 * at least as long as the dict lives.  NULL: changes cannot be detected. */
const uint64_t *gm_dict_counter (PyObject *dict);

/* Returns the address of a number that advances whenever an object gets another class or another
 * dict by `o.__class__ = c` or `o.__dict__ = d`; NULL where that cannot be detected. */
const uint64_t *gm_identity_epoch (void);
/* True if each way of giving an instance of the type another dict advances the number of
 * gm_identity_epoch. */
bool gm_identity_told (PyTypeObject *type);
/* Returns a number that stays the same as long as no dict with a counter changes.  0: changes
 * cannot be detected. */
uint64_t gm_dicts_quiet (void);

#endif
