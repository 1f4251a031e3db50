/* SPDX-License-Identifier: Apache-2.0
 * size_guard.h -- a fact about sizes as a guard record checks it: loads, a few operations, a
 * comparison.
 */
#ifndef GM_GUARD_SIZE_GUARD_H
#define GM_GUARD_SIZE_GUARD_H

#include <Python.h>

#include "core/graph/graph.h"

typedef enum {
  GM_SIZE_LOAD_SIZE,   /* size `dim` of the tensor in the slot; an int in the slot itself */
  GM_SIZE_LOAD_STRIDE, /* stride `dim` of the tensor */
  GM_SIZE_LOAD_NUMBER, /* value */
} GmSizeLoadKind;

/* The place that the value of a symbol is read from. Unused fields are zero. */
typedef struct {
  uint8_t kind, dim;
  uint32_t slot;
  int64_t value;
} GmSizeLoad;

typedef struct GmSizeCheck GmSizeCheck;
/* Returns the check of a fact; loads: by symbol number. NULL if the fact is about numbers alone. */
GmSizeCheck *gm_size_check_new (const GmSizes *s, const GmSizeFact *fact, const GmSizeLoad *loads);
/* Returns the check that a stride of an input equals the expression. */
GmSizeCheck *gm_size_check_new_stride (const GmSizes *s, int64_t stride, const GmSizeLoad *own,
                                       const GmSizeLoad *loads);
void gm_size_check_free (GmSizeCheck *c);
bool gm_size_check_holds (const GmSizeCheck *c, PyObject *const *slots);
char *gm_size_check_text (const GmSizeCheck *c);
/* Returns the text of the two numbers that do not compare as they should. Caller frees. */
char *gm_size_check_found (const GmSizeCheck *c, PyObject *const *slots);

#endif
