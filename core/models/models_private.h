/* SPDX-License-Identifier: Apache-2.0
 * models_private.h -- models that other models call, by file.
 */
#ifndef GM_MODELS_MODELS_PRIVATE_H
#define GM_MODELS_MODELS_PRIVATE_H

#include "core/models/models.h"

/* -- cached_call.c ----------------------------------------------------------------------------- */

/* The call of an object that functools.lru_cache returned. */
const GmTracker *gm_cached_call (GmRecorder *r, const GmTracker *t, const GmCallArgs *args);

/* -- functools.c ------------------------------------------------------------------------------- */

const GmTracker *gm_partial_new (GmRecorder *r, PyTypeObject *type, const GmCallArgs *args);

/* -- namespace.c ------------------------------------------------------------------------------- */

const GmTracker *gm_namespace_new (GmRecorder *r, PyTypeObject *type, const GmCallArgs *args);

/* -- sort.c ------------------------------------------------------------------------------------ */

/* Returns sorted (items), a new list, with the named arguments key and reverse of `args`. */
const GmTracker *gm_sorted (GmRecorder *r, const GmTracker *const *items, uint32_t n,
                            const char *name, const GmCallArgs *args);
bool gm_sorts_alike (const GmTracker *const *items, uint32_t n);
const GmTracker *gm_min_or_max (GmRecorder *r, const GmCallArgs *args, bool max);

/* -- tracker_deque.c --------------------------------------------------------------------------- */

/* The call of collections.deque. */
const GmTracker *gm_deque_new (GmRecorder *r, PyTypeObject *type, const GmCallArgs *args);

/* -- tracker_getter.c -------------------------------------------------------------------------- */

const GmTracker *gm_getter_new (GmRecorder *r, PyTypeObject *type, const GmCallArgs *args);

/* -- tracker_scalar.c -------------------------------------------------------------------------- */

/* Returns the Python number that gramme reads of a scalar, or t. */
const GmTracker *gm_scalar_number (const GmTracker *t);

#endif
