/* SPDX-License-Identifier: Apache-2.0
 * point_parts.h -- shared by the files that print points (point.h): point.c prints the passes,
 * point_value.c the members, point_memory.c reads and writes.
 */
#ifndef NVRTC_POINT_PARTS_H
#define NVRTC_POINT_PARTS_H

#include "plugins/nvrtc/point.h"

/* A lane of two neighbours, which are printed together: m3a and m3b. */
typedef struct {
  const char *lane, *suffix;
  const char *half; /* the function that takes its half out of a word */
} NvSide;

/* Names and lane of a single element, and of each of two neighbours. */
extern const NvSide nv_point_alone, nv_point_sides[2];

/* -- point.c ----------------------------------------------------------------------------------- */

/* Returns the value that access k reads or writes. */
const CgValue *nv_point_value (const NvPoint *pt, uint32_t k);
bool nv_point_is_half (const NvPoint *pt, uint32_t value);
/* True if access k is read as q<k> of two halves. */
bool nv_point_is_paired_access (const NvPoint *pt, uint32_t k);

/* -- point_value.c ----------------------------------------------------------------------------- */

/* True if there is h<m>, the stored half of member m. */
bool nv_point_keeps_half (const NvPoint *pt, uint32_t m);
/* Print member m: <prefix><m> for a single element; m<m>a and m<m>b, or h<m>, for a pair; the next
 * value of a reduction. */
void nv_point_put_member (NvPoint *pt, const char *prefix, uint32_t m);
void nv_point_put_pair (NvPoint *pt, uint32_t m);
void nv_point_put_fold (NvPoint *pt, uint32_t m, const NvSide *side);

/* -- point_memory.c ---------------------------------------------------------------------------- */

/* Print vectors: w<k> is read, y<k> is written.  They print nothing for other forms. */
void nv_point_put_load (NvPoint *pt, const NvPass *pass, uint32_t k);
void nv_point_put_store (NvPoint *pt, uint32_t k);
/* Print x<k>, for one element or for two neighbours. */
void nv_point_put_read (NvPoint *pt, const NvPass *pass, uint32_t k, const NvSide *side);
void nv_point_put_read_pair (NvPoint *pt, const NvPass *pass, uint32_t k);
/* Print the store of member m to its vector, or to its place.  computed: in this pass. */
void nv_point_put_write (NvPoint *pt, uint32_t m, bool computed);
void nv_point_put_write_pair (NvPoint *pt, uint32_t m);

#endif
