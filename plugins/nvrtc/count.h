/* SPDX-License-Identifier: Apache-2.0
 * count.h -- the numbers of an arange, computed where they are read.
 *
 * A mask, a position, the classes that a target is compared with: loops read such numbers at every
 * point, and the index of the access determines them.  Where they are integers and only loops read
 * them, they are never written (nv_counts).
 */
#ifndef NVRTC_COUNT_H
#define NVRTC_COUNT_H

#include "plugins/nvrtc/gpu_unit.h"

/* Finds the aranges that loops compute, before anything is printed; false: no memory. */
bool nv_count_find (NvUnit *u);
/* True if loops compute this value, or the arange that it is a view of. */
bool nv_counts (const NvUnit *u, uint32_t value);
/* Prints the expression (worked) of the arange's element number `index`, itself an expression of
 * type gm_index. */
void nv_count_text (NvUnit *u, char *out, size_t room, uint32_t node, const char *index);
/* Prints that expression for an element of a view; index: counted from the view's first element. */
void nv_count_view (NvUnit *u, char *out, size_t room, uint32_t value, const char *index);
/* Prints a scalar attribute as an expression of type i64 or f64: a number, or a size that only the
 * run knows. */
void nv_scalar_text (NvUnit *u, char *out, size_t room, const GrammeAttr *a, bool real);

#endif
