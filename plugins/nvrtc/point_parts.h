/* SPDX-License-Identifier: Apache-2.0
 * point_parts.h -- what the files that print points (point.h) share: point.c the passes, point_value.c the members, point_memory.c what is
 * read and written.
 */
#ifndef NVRTC_POINT_PARTS_H
#define NVRTC_POINT_PARTS_H

#include "plugins/nvrtc/point.h"

/* Of two neighbours one, where they are printed together: m3a and m3b. */
typedef struct {
  const char *lane, *suffix;
  const char *half; /* what takes it out of a word */
} NvSide;

/* The names and the lane of an element that is alone; of one of two neighbours. */
extern const NvSide nv_point_alone, nv_point_sides[2];

/* -- point.c ----------------------------------------------------------------------------------- */

const CgValue *nv_point_value (const NvPoint *pt, uint32_t k); /* what access k reads or writes */
bool nv_point_is_half (const NvPoint *pt, uint32_t value);
/* Does access k come as q<k> of two halves? */
bool nv_point_is_paired_access (const NvPoint *pt, uint32_t k);

/* -- point_value.c ----------------------------------------------------------------------------- */

/* Is h<m> there, member m as the half that is stored? */
bool nv_point_keeps_half (const NvPoint *pt, uint32_t m);
/* Print <prefix><m>; m<m>a and m<m>b or h<m>; a reduction's next value. */
void nv_point_put_member (NvPoint *pt, const char *prefix, uint32_t m);
void nv_point_put_pair (NvPoint *pt, uint32_t m);
void nv_point_put_fold (NvPoint *pt, uint32_t m, const NvSide *side);

/* -- point_memory.c ---------------------------------------------------------------------------- */

/* Vectors: w<k> is read, y<k> is written.  Of other forms they print nothing. */
void nv_point_put_load (NvPoint *pt, const NvPass *pass, uint32_t k);
void nv_point_put_store (NvPoint *pt, uint32_t k);
/* x<k>, of one element or of two neighbours. */
void nv_point_put_read (NvPoint *pt, const NvPass *pass, uint32_t k, const NvSide *side);
void nv_point_put_read_pair (NvPoint *pt, const NvPass *pass, uint32_t k);
/* Member m into its vector, or to its place.  computed: in this pass. */
void nv_point_put_write (NvPoint *pt, uint32_t m, bool computed);
void nv_point_put_write_pair (NvPoint *pt, uint32_t m);

#endif
