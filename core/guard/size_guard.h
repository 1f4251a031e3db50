/* SPDX-License-Identifier: Apache-2.0
 * size_guard.h -- a fact about sizes as a guard record checks it: loads, a few operations, a
 * comparison.
 */
#ifndef GM_GUARD_SIZE_GUARD_H
#define GM_GUARD_SIZE_GUARD_H

#include <Python.h>

#include "core/graph/graph.h"

typedef enum {
  GM_SIZE_LOAD_SIZE,   /* size `dim` of the tensor in the slot, or the int in the slot */
  GM_SIZE_LOAD_STRIDE, /* stride `dim` of the tensor in the slot */
  GM_SIZE_LOAD_NUMBER, /* the number `value` */
} GmSizeLoadKind;

/* The place from which a check reads the value of a symbol. Unused fields are zero. */
typedef struct {
  uint8_t kind, dim;
  uint32_t slot;
  int64_t value;
} GmSizeLoad;

typedef struct GmSizeCheck GmSizeCheck;
/* Returns a new check of the fact; loads: the place of each symbol, by number. NULL: the fact has
 * no symbols. */
GmSizeCheck *gm_size_check_new (const GmSizes *s, const GmSizeFact *fact, const GmSizeLoad *loads);
/* Returns a new check that the stride of an input, found at `own`, equals the expression
 * `stride`. */
GmSizeCheck *gm_size_check_new_stride (const GmSizes *s, int64_t stride, const GmSizeLoad *own,
                                       const GmSizeLoad *loads);
void gm_size_check_free (GmSizeCheck *c);
bool gm_size_check_holds (const GmSizeCheck *c, PyObject *const *slots);
char *gm_size_check_text (const GmSizeCheck *c);
/* Returns a text of the two numbers for which the check does not hold. The caller frees it. */
char *gm_size_check_found (const GmSizeCheck *c, PyObject *const *slots);

#endif
