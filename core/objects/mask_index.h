/* SPDX-License-Identifier: Apache-2.0
 * mask_index.h -- converts bool masks in subscripts to the positions that they select.
 */
#ifndef GM_OBJECTS_MASK_INDEX_H
#define GM_OBJECTS_MASK_INDEX_H

#include "core/objects/args.h"

/* Replaces the masks in *key, a subscript of t, by int64 tensors with the positions of their true
 * elements, one for each dimension of the mask.  Changes nothing where there is no mask.  False
 * with IndexError if a mask does not fit. */
bool gm_py_mask_expand (GmPyArgs *x, const GmTensor *t, GmArg *key);

#endif
