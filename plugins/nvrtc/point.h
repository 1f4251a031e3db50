/* SPDX-License-Identifier: Apache-2.0
 * point.h -- what is computed at one point of a loop's space, or at a few neighbouring ones.
 *
 * A thread takes `lanes` neighbouring elements of the inner dimension at once, as many as fit into an access of 16 bytes where
 * memory is contiguous and aligned for it.  Within a kernel there are
 *
 *      p<a>    an address        o<k>   where access k's row begins, in elements       e     the first element of this thread
 *      x<k>    what access k reads      m<i>  what member i is at this point           r<i>  what row member i is
 *      a<i>    what reduction i has accumulated                                        c<i>  member i, kept for a later phase
 */
#ifndef NVRTC_POINT_H
#define NVRTC_POINT_H

#include "plugins/nvrtc/unit.h"

enum { NV_SPREAD, NV_VECTOR, NV_EACH }; /* the same for all elements; contiguous; with a stride */

typedef struct {
  NvUnit *u;
  Loop *l;
  CgText *t;
  int lanes;
  bool tail; /* the last thread has fewer elements: `full` is false there */
  uint8_t form[CG_MAX_MEMBERS * 4];
  uint32_t arg[CG_MAX_MEMBERS * 4];
  bool row_read[CG_MAX_MEMBERS * 4]; /* x<k> of the row is there */
} NvPoint;

/* What a pass over elements does: members as bits. */
typedef struct {
  uint64_t compute, folds, stores;
  uint64_t keep, kept; /* written to, read from c<i>[index] */
  const char *index;
} NvPass;

/* Chooses the lanes: the most that all accesses allow, `limit` at most. */
void nv_point_init (NvPoint *pt, NvUnit *u, Loop *l, int limit, bool may_have_tail);
/* After nv_begin: registers the arguments; prints the row's coordinates and offsets from the linear `row`. */
void nv_point_head (NvPoint *pt, CgText *t, const char *row);
/* All that `roots` need, themselves included, but for what is in `kept`. */
uint64_t nv_point_closure (NvPoint *pt, uint64_t roots, uint64_t kept);
void nv_point_pass (NvPoint *pt, const NvPass *pass);
/* Prints r<m> = the row member's value (not of reductions). */
void nv_point_row_member (NvPoint *pt, uint32_t m);
/* Prints the store of row member m. */
void nv_point_row_store (NvPoint *pt, uint32_t m);
/* "3_mul_tanh": the step's number and the names of its first members. */
void nv_point_label (const Loop *l, char *out, size_t room);
/* nv_reach for so many points, and for all that is accessed. */
void nv_point_reach (NvUnit *u, const Loop *l, int64_t points);

#endif
