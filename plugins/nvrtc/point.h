/* SPDX-License-Identifier: Apache-2.0
 * point.h -- what is computed at one point of a loop's space, or at a few neighbouring ones.
 *
 * A thread takes `lanes` neighbouring elements of the inner dimension at once, as many as fit into an access of 16 bytes where
 * memory is contiguous and aligned for it.  Within a kernel there are
 *
 *      p<a>    an address        o<k>   where access k's row begins, in elements       e     the first element of this thread
 *      x<k>    what access k reads      m<i>  what member i is at this point           r<i>  what row member i is
 *      a<i>    what reduction i has accumulated                                        c<i>  member i, kept for a later phase, g<i> of ends
 *
 * Where there are halves, two neighbours are printed at a time (`pairs`), x<k>a, x<k>b, m<i>a and m<i>b: the GPU converts two floats to halves
 * as fast as one, and adds and multiplies two f16 at a time.  q<k> and h<i> are the words of two halves.
 *
 * Rows may begin anywhere (`peels`): elements [first, end) then lie between boundaries of an access and are taken by vectors; the others,
 * `ends` in number, are before or behind, fewer than a vector at each side, and taken one by one by the first threads (nv_point_ends).
 * Accesses that lie otherwise are made one by one.
 *
 * What several passes read of memory may be held in registers, as it came: w<k>[step], and t<k>[step] of the ends.
 *
 * An op may have a quick form for ordinary operands, without branches, so that the compiler mixes the lanes' instructions; it says
 * in `odd` that an operand was not ordinary.  The thread then does its elements again, one by one, with care.
 */
#ifndef NVRTC_POINT_H
#define NVRTC_POINT_H

#include "plugins/nvrtc/unit.h"

enum { NV_SPREAD, NV_VECTOR, NV_EACH, NV_COUNTED }; /* the same for all elements; contiguous; with a stride; no memory (count.h) */

typedef struct {
  NvUnit *u;
  Loop *l;
  CgText *t;
  int lanes;
  bool tail; /* the last thread has fewer elements: `full` is false there */
  bool peels; /* see above; the boundaries are those of access `leader` */
  bool pairs; /* lanes are printed two at a time, for halves */
  bool is_ends; /* this is about the ends of rows */
  bool again; /* halves that are held are widened in each phase again: registers are for two blocks */
  bool quick; /* ops take their quick forms */
  /* e is `from` + `on`, a number where steps are unrolled: then one address and distances from it are enough.  NULL: e alone. */
  const char *from, *on;
  int64_t ahead; /* so many elements further on memory is brought near, for a block that comes later; 0: it is not */
  uint32_t leader;
  uint8_t form[CG_MAX_MEMBERS * 4];
  uint32_t arg[CG_MAX_MEMBERS * 4];
  bool row_read[CG_MAX_MEMBERS * 4]; /* x<k> of the row is there */
  uint64_t near; /* members that are the hardware's estimates */
  uint64_t below; /* exponentials of what is not above 0, without subnormal results */
  uint64_t tame; /* quotients of such exponentials and their sum, and its reciprocal: no operand needs care */
  uint8_t held[CG_MAX_MEMBERS * 4];  /* NV_HOLD: by the first pass that reads it, NV_HELD from then on */
  uint8_t onto[CG_MAX_MEMBERS]; /* what is kept takes the registers of what it was made of: 1 + the access; 0: its own */
} NvPoint;

enum { NV_HOLD = 1, NV_HELD };

/* What a pass over elements does: members as bits. */
typedef struct {
  uint64_t compute, folds, stores;
  uint64_t keep, kept; /* written to, read from c<i>[index] */
  const char *step, *index; /* which of the thread's steps this is; the first of its elements */
} NvPass;

/* Chooses the lanes: the most that all accesses allow, `limit` at most. */
void nv_point_init (NvPoint *pt, NvUnit *u, Loop *l, int limit, bool may_have_tail);
/* Takes more lanes than alignment allows, if rows are long enough to lose a few elements at both ends. */
void nv_point_peel (NvPoint *pt, int limit);
/* The same for the ends of such rows: one element at a time.  Each has its own `held`. */
NvPoint nv_point_ends (const NvPoint *pt);
/* Is member m held as h<m>, a word of two neighbours' halves, and not as numbers? */
bool nv_point_is_paired (const NvPoint *pt, uint32_t m);
/* Do these members read access k at every point? */
bool nv_point_reads (NvPoint *pt, uint64_t members, uint32_t k);
/* After nv_begin: registers the arguments; prints the row's coordinates and offsets from the linear `row`. */
void nv_point_head (NvPoint *pt, CgText *t, const char *row);
/* All that `roots` need, themselves included, but for what is in `kept`. */
uint64_t nv_point_closure (NvPoint *pt, uint64_t roots, uint64_t kept);
void nv_point_pass (NvPoint *pt, const NvPass *pass);
/* Is member m an operand of that one? */
bool nv_point_is_read (const NvPoint *pt, uint32_t reader, uint32_t m);
/* The name of the function that folds two values of reduction m. */
const char *nv_point_fold (NvPoint *pt, uint32_t m, char name[64]);
/* Prints the loads alone of vectors that are held from this pass on.  Where a branch goes round some, it is better that none waits. */
bool nv_point_holds (NvPoint *pt, const NvPass *pass);
void nv_point_hold (NvPoint *pt, const NvPass *pass);
/* Prints r<m> = the row member's value (not of reductions). */
void nv_point_row_member (NvPoint *pt, uint32_t m);
/* Prints the store of row member m. */
void nv_point_row_store (NvPoint *pt, uint32_t m);
/* "3_mul_tanh": the step's number and the names of its first members. */
void nv_point_label (const Loop *l, char *out, size_t room);
/* nv_reach for so many points, and for all that is accessed. */
void nv_point_reach (NvUnit *u, const Loop *l, int64_t points);

#endif
