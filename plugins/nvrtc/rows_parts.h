/* SPDX-License-Identifier: Apache-2.0
 * rows_parts.h -- shared by the files that print rows: rows.c prints the step, rows_members.c the
 * values of a row, rows_softmax.c finds softmaxes, rows_keep.c chooses registers, rows_walk.c the
 * walk of a thread through its steps, rows_whole.c and rows_split.c print the kernels.
 */
#ifndef NVRTC_ROWS_PARTS_H
#define NVRTC_ROWS_PARTS_H

#include "plugins/nvrtc/point.h"

/* The walk of a thread through its steps: in turns of `turn` steps, which are unrolled since
 * registers cannot be indexed; or, for a phase that shares no registers with another one, in a loop
 * over stretches of `stretch` steps, which are read at once. */
typedef struct {
  int64_t turn; /* `steps`: a single turn; 0: stretches */
  int stretch;
} NvWalk;

typedef struct {
  NvPoint pt, ends; /* ends: used where rows begin anywhere */
  Loop l;
  CgText *t;
  int threads;   /* threads of a row: 1, 8 to 32, or a block */
  int64_t steps; /* steps of a thread through a row: a number only if `keeps` */
  bool keeps;    /* crossing members are in c<m>, and memory of several phases in w<k> */
  uint64_t crossing;
  /* First and last phase that read the held value of an access. */
  int first[CG_MAX_MEMBERS * 4], last[CG_MAX_MEMBERS * 4];
  NvWalk walk[CG_MAX_MEMBERS + 1]; /* by phase */
  char on[48];                     /* NvPoint.on */
  int end_steps;                   /* steps of a thread through the ends */
  int64_t chunks, chunk;           /* for a split row: number of blocks, elements of each */
  NvArg partial[CG_MAX_MEMBERS];
} Rows;

/* Returns the set that contains member m; sets are bits. */
static inline uint64_t
bit (uint32_t m)
{
  return (uint64_t) 1 << m;
}

/* -- rows_members.c ---------------------------------------------------------------------------- */

bool nv_rows_is_stored (const Rows *r, uint32_t m);
/* Returns the members that are stored at every point, in this phase. */
uint64_t nv_rows_full_stores (const Rows *r, int phase);
uint64_t nv_rows_folds (const Rows *r, int phase);
/* Returns the row members that are not reductions. */
uint64_t nv_rows_members (const Rows *r, int phase);
uint64_t nv_rows_stored_of (const Rows *r, uint64_t members);
/* Returns the type in which reduction m is computed. */
const char *nv_rows_fold_work (const Rows *r, uint32_t m);
/* Print the accumulators a<m>; the combination of all threads' a<m>, in all threads of the row; and
 * the results r<m>. */
void nv_rows_put_accumulators (Rows *r, uint64_t members);
void nv_rows_put_combine (Rows *r, uint64_t members);
void nv_rows_put_results (Rows *r, uint64_t members);
void nv_rows_put_stores (Rows *r, uint64_t members, const char *who);
void nv_rows_put_members (Rows *r, int phase);

/* -- rows_softmax.c ---------------------------------------------------------------------------- */

/* Marks members that may be estimated by the hardware, or computed without care for special
 * operands. */
void nv_rows_find_softmax (Rows *r);

/* -- rows_keep.c ------------------------------------------------------------------------------- */

/* Plans the kept values.  number: the row's length is a number. */
void nv_rows_plan_kept (Rows *r, bool number);
/* Returns the pass of a phase: the members computed at every point, and those kept from earlier
 * phases. */
NvPass nv_rows_pass (Rows *r, int phase);
bool nv_rows_uses_kept (Rows *r, const NvPass *pass, uint32_t m);
/* True if this pass reads access k, which is held in registers. */
bool nv_rows_reads_held (Rows *r, const NvPass *pass, uint32_t k);
/* nv_rows_room returns a thread's registers for values that are kept between phases; nv_rows_bytes
 * and nv_rows_cost the bytes of member m's element, and about the number of its instructions. */
int64_t nv_rows_room (const Rows *r);
uint32_t nv_rows_bytes (const Rows *r, uint32_t m);
int nv_rows_cost (Rows *r, uint32_t m);

/* -- rows_walk.c ------------------------------------------------------------------------------- */

void nv_rows_plan_walk (Rows *r);

/* -- rows_whole.c, rows_split.c ---------------------------------------------------------------- */

void nv_rows_print_whole (Rows *r, NvUnit *u, int64_t n_rows);
void nv_rows_print_split (Rows *r, NvUnit *u, int64_t n_rows);

#endif
