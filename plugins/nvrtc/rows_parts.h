/* SPDX-License-Identifier: Apache-2.0
 * rows_parts.h -- what the files that print rows share: rows.c the step, rows_members.c what is there once in a row, rows_softmax.c what a
 * softmax may do, rows_keep.c what stays in registers, rows_walk.c how a thread goes through its steps, rows_whole.c and rows_split.c the kernels.
 */
#ifndef NVRTC_ROWS_PARTS_H
#define NVRTC_ROWS_PARTS_H

#include "plugins/nvrtc/point.h"

/* How a thread goes through its steps: in turns of so many, which are unrolled as registers have no index; or, of a phase that has nothing
 * in registers from another one, in a loop over stretches of so many, which are read at once. */
typedef struct {
  int64_t turn; /* `steps`: there is one; 0: stretches */
  int stretch;
} NvWalk;

typedef struct {
  NvPoint pt, ends; /* ends: where rows begin anywhere */
  Loop l;
  CgText *t;
  int threads;     /* of a row: 1, 8 to 32, or a block */
  int64_t steps;   /* of a thread through a row: a number only if `keeps` */
  bool keeps;      /* crossing members are in c<m>, and memory of several phases in w<k> */
  uint64_t crossing;
  int first[CG_MAX_MEMBERS * 4], last[CG_MAX_MEMBERS * 4]; /* the phases that read what is held of an access */
  NvWalk walk[CG_MAX_MEMBERS + 1]; /* per phase */
  char on[48];     /* NvPoint.on */
  int end_steps;   /* of a thread through the ends */
  int64_t chunks, chunk; /* split: blocks of a row, elements of each */
  NvArg partial[CG_MAX_MEMBERS];
} Rows;

/* Sets of members are bits. */
static inline uint64_t
bit (uint32_t m)
{
  return (uint64_t) 1 << m;
}

/* -- rows_members.c ---------------------------------------------------------------------------- */

bool nv_rows_is_stored (const Rows *r, uint32_t m);
/* Stored at every point, in this phase. */
uint64_t nv_rows_full_stores (const Rows *r, int phase);
uint64_t nv_rows_folds (const Rows *r, int phase);
/* Row members that are no reductions. */
uint64_t nv_rows_members (const Rows *r, int phase);
uint64_t nv_rows_stored_of (const Rows *r, uint64_t members);
/* The type that reduction m is worked on in. */
const char *nv_rows_fold_work (const Rows *r, uint32_t m);
/* a<m>; then those of each thread become one value, which all threads of the row have; and r<m> of it. */
void nv_rows_put_accumulators (Rows *r, uint64_t members);
void nv_rows_put_combine (Rows *r, uint64_t members);
void nv_rows_put_results (Rows *r, uint64_t members);
void nv_rows_put_stores (Rows *r, uint64_t members, const char *who);
void nv_rows_put_members (Rows *r, int phase);

/* -- rows_softmax.c ---------------------------------------------------------------------------- */

/* Marks what is estimated, or computed without care. */
void nv_rows_find_softmax (Rows *r);

/* -- rows_keep.c ------------------------------------------------------------------------------- */

/* number: the length is one. */
void nv_rows_plan_kept (Rows *r, bool number);
/* What is computed at every point in a phase, and what is there from earlier ones. */
NvPass nv_rows_pass (Rows *r, int phase);
bool nv_rows_uses_kept (Rows *r, const NvPass *pass, uint32_t m);
/* Does this pass read access k, which is held in registers? */
bool nv_rows_reads_held (Rows *r, const NvPass *pass, uint32_t k);
/* Registers of a thread for what crosses phases; bytes of member m's element; about how many instructions it is. */
int64_t nv_rows_room (const Rows *r);
uint32_t nv_rows_bytes (const Rows *r, uint32_t m);
int nv_rows_cost (Rows *r, uint32_t m);

/* -- rows_walk.c ------------------------------------------------------------------------------- */

void nv_rows_plan_walk (Rows *r);

/* -- rows_whole.c, rows_split.c ---------------------------------------------------------------- */

void nv_rows_print_whole (Rows *r, NvUnit *u, int64_t n_rows);
void nv_rows_print_split (Rows *r, NvUnit *u, int64_t n_rows);

#endif
