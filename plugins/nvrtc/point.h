/* SPDX-License-Identifier: Apache-2.0
 * point.h -- prints the computation at one point of a loop's space, or at a few neighbouring
 * points.
 *
 * A thread takes `lanes` neighbouring elements of the inner dimension at once, as many as fit into
 * an access of 16 bytes where memory is contiguous and aligned for it.  Names within a kernel:
 *
 *      p<a>  an address                       o<k>  begin of access k's row, in elements
 *      e     first element of this thread     x<k>  element that access k reads
 *      m<i>  member i at this point           r<i>  row member i
 *      a<i>  accumulator of reduction i       c<i>  member i, kept for a later phase; g<i> of ends
 *
 * Halves are printed two neighbours at a time (`pairs`), x<k>a, x<k>b, m<i>a and m<i>b: the GPU
 * converts two floats to halves as fast as one, and adds and multiplies two f16 at a time.  q<k>
 * and h<i> are the words of two halves.
 *
 * Rows may begin anywhere (`peels`): elements [first, end) then lie between boundaries of an access
 * and are processed by vectors; the others, `ends` in number, are before or behind, fewer than a
 * vector at each side, and are processed singly by the first threads (nv_point_ends).  Accesses
 * with other boundaries are made element by element.
 *
 * Memory that several passes read may be held in registers, unconverted: w<k>[step], and t<k>[step]
 * at the ends.
 *
 * An op may have a quick form for ordinary operands, without branches, so that the compiler mixes
 * the lanes' instructions; it sets `odd` if an operand was not ordinary.  The thread then computes
 * its elements again, one by one, with the careful form.
 */
#ifndef NVRTC_POINT_H
#define NVRTC_POINT_H

#include "plugins/nvrtc/gpu_unit.h"

/* Forms of an access: the same element for all; contiguous; with a stride; no memory (count.h). */
enum { NV_SPREAD, NV_VECTOR, NV_EACH, NV_COUNTED };

typedef struct {
  NvUnit *u;
  Loop *l;
  CgText *t;
  int lanes;
  bool tail;    /* the last thread has fewer elements: `full` is false there */
  bool peels;   /* see above; the boundaries are those of access `leader` */
  bool pairs;   /* lanes are printed two at a time, for halves */
  bool is_ends; /* true for the ends of rows */
  /* Halves that are held are converted in each phase again, which saves registers for two blocks */
  bool again;
  bool quick; /* ops use their quick forms */
  /* e is `from` + `on`, a number where steps are unrolled: then one address and distances from it
   * suffice.  NULL: e alone. */
  const char *from, *on;
  int64_t ahead; /* distance in elements of a prefetch for a later block; 0: none */
  uint32_t leader;
  uint8_t form[CG_MAX_MEMBERS * 4];
  uint32_t arg[CG_MAX_MEMBERS * 4];
  bool row_read[CG_MAX_MEMBERS * 4]; /* x<k> of the row has been read */
  uint64_t near;                     /* members that use the hardware's estimates */
  uint64_t below; /* exponentials of numbers not above 0, without subnormal results */
  /* Quotients of such exponentials and their sum, and its reciprocal: no operand needs care. */
  uint64_t tame;
  /* NV_HOLD: held by the first pass that reads it; NV_HELD from then on */
  uint8_t held[CG_MAX_MEMBERS * 4];
  /* Kept members in the registers of an access that they are made from: 1 + the access; 0: their
   * own. */
  uint8_t onto[CG_MAX_MEMBERS];
} NvPoint;

enum { NV_HOLD = 1, NV_HELD };

/* The work of a pass over elements; sets of members are bits. */
typedef struct {
  uint64_t compute, folds, stores;
  uint64_t keep, kept;      /* members written to, and read from c<i>[index] */
  const char *step, *index; /* number of the thread's step; its first element */
} NvPass;

/* Initializes a point with the largest number of lanes that all accesses allow, at most `limit`. */
void nv_point_init (NvPoint *pt, NvUnit *u, Loop *l, int limit, bool may_have_tail);
/* Raises the number of lanes above that which alignment allows, if rows are long enough to process
 * a few elements at both ends singly. */
void nv_point_peel (NvPoint *pt, int limit);
/* Returns the point for the ends of peeled rows: one element at a time, with its own `held`. */
NvPoint nv_point_ends (const NvPoint *pt);
/* True if member m is held as h<m>, a word of two neighbours' halves, and not as numbers. */
bool nv_point_is_paired (const NvPoint *pt, uint32_t m);
/* True if these members read access k at every point. */
bool nv_point_reads (NvPoint *pt, uint64_t members, uint32_t k);
/* Registers the arguments, after nv_begin; prints the row's coordinates and offsets from the linear
 * `row`. */
void nv_point_head (NvPoint *pt, CgText *t, const char *row);
/* Returns `roots` and all members that they need, except those in `kept`. */
uint64_t nv_point_closure (NvPoint *pt, uint64_t roots, uint64_t kept);
void nv_point_pass (NvPoint *pt, const NvPass *pass);
/* True if member m is an operand of `reader`. */
bool nv_point_is_read (const NvPoint *pt, uint32_t reader, uint32_t m);
/* Returns the name of the function that folds two values of reduction m. */
const char *nv_point_fold (NvPoint *pt, uint32_t m, char name[64]);
/* nv_point_holds: true if vectors are held from this pass on. nv_point_hold prints only their
 * loads, so that none has to wait where a branch skips some. */
bool nv_point_holds (NvPoint *pt, const NvPass *pass);
void nv_point_hold (NvPoint *pt, const NvPass *pass);
/* Prints r<m> = the row member's value (not for reductions). */
void nv_point_row_member (NvPoint *pt, uint32_t m);
/* Prints the store of r<m>, the value of member m, which has one element per row (loop_is_row). */
void nv_point_row_store (NvPoint *pt, uint32_t m);
/* Writes "3_mul_tanh": the step's number and the names of its first members. */
void nv_point_label (const Loop *l, char *out, size_t room);
/* Calls nv_reach for so many points, and for all accesses. */
void nv_point_reach (NvUnit *u, const Loop *l, int64_t points);

#endif
