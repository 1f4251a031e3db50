/* SPDX-License-Identifier: Apache-2.0
 * loop_plan.h -- the details of a LOOP step: dimensions to loop over, memory accessed, tiles used.
 *
 * A loop is printed from three lists: accesses (memory that it reads or stores), members (tile
 * calls, in order) and tiles.  Its outer dimensions are merged where all accesses allow it; the
 * inner one is walked in chunks of a tile.  Memory that is contiguous along the inner dimension
 * needs no tile: primitives read and write it directly.
 */
#ifndef CODEGEN_LOOP_PLAN_H
#define CODEGEN_LOOP_PLAN_H

#include "plugins/codegen/code_text.h"

typedef struct {
  uint32_t value;
  bool as_row, store;
  int64_t strides[8]; /* over the loop's dimensions, later over the merged ones */
  int64_t inner;      /* stride along the inner dimension */
  int tile;           /* slot for gathering or scattering; -1: memory is used directly */
  bool everywhere;    /* the element is the same at all points, and gathered once */
} Access;

typedef struct {
  const CgProgram *p;
  uint32_t step;
  const CgStep *s;
  bool vectors;                     /* printed with vectors instead of tiles */
  uint32_t members[CG_MAX_MEMBERS]; /* nodes, in the order of their phases */
  /* Phase; for a value with one element per row, the phase that it precedes. */
  int phases[CG_MAX_MEMBERS];
  int n_phases;
  Access access[CG_MAX_MEMBERS * 4];
  uint32_t n_access;
  bool unfit; /* an access does not fit the space: the loop must not be printed */
  int n_outer;
  int64_t outer[8], n; /* n: length of the inner dimension */
  bool chunked;
  uint8_t tile_used[CG_MAX_MEMBERS * 6];
  int n_tiles, n_rows;
  /* By member, slots or -1: its tile, its row's element, its accumulator (its own place, unless it
   * is cast at the end), and the element spread over a tile. */
  int tiles[CG_MAX_MEMBERS], rows[CG_MAX_MEMBERS], accums[CG_MAX_MEMBERS], spread[CG_MAX_MEMBERS];
  /* By member, or LOOP_NO_BUFFER: the place of its row in the buffers that outlive a phase.  They
   * are in the workspace's fixed part, or in the dynamic one if a row's length is symbolic. */
  int64_t buffers[CG_MAX_MEMBERS];
  /* By member, or -1: the store whose memory holds its row until the store overwrites it there. */
  int lenders[CG_MAX_MEMBERS];
  int64_t buffer_bytes;
  /* By member, for tiles: a primitive that computes it and the next member for two rows; NULL:
   * none. */
  GrammeTileFn pairs[CG_MAX_MEMBERS];
  /* Number of parts, each a call of the function that is printed: parts.h; 0: not divided. */
  uint32_t n_parts;
} Loop;

#define LOOP_NO_BUFFER (-1)

/* The place in which member m finds an operand. */
typedef enum { FROM_LITERAL, FROM_TILE, FROM_ROW, FROM_MEMORY } From;

void loop_plan (Loop *l, const CgProgram *p, uint32_t step, bool vectors);

/* -- Questions, valid after loop_plan ---------------------------------------------------------- */

const GrammeNode *loop_member (const Loop *l, uint32_t m);
/* loop_is_row: true if the member's result has one element per row. loop_is_fold: true if it is a
 * reduction. loop_reads_full: true if it reads its operands at every point, not once a row. */
bool loop_is_row (const Loop *l, uint32_t m);
bool loop_is_fold (const Loop *l, uint32_t m);
bool loop_reads_full (const Loop *l, uint32_t m);
/* Returns the dtype of a reduction's accumulator.  loop_casts_at_end is true if the result has
 * another dtype. */
uint32_t loop_accum_dtype (const Loop *l, uint32_t m);
/* Returns the accumulator's dtype where blocks of a row are folded one after the other: float64 for
 * a long sum of float32. */
uint32_t loop_fold_dtype (const Loop *l, uint32_t m);
/* True if reduction n of so many elements to a result uses the wide tiles (GRAMME_TILE_WIDE). */
bool codegen_folds_wide (const CgProgram *p, const GrammeNode *n, int64_t length);
bool loop_casts_at_end (const Loop *l, uint32_t m);
/* Returns the index in l->access of the access to `value`, which is added if it is new. */
int loop_access (Loop *l, uint32_t value, bool as_row, bool store);
/* Returns where member m finds operand `value`.  *which: the literal's value, the member that makes
 * the operand, or the access. */
From loop_operand (Loop *l, uint32_t m, uint32_t value, int *which);

/* True if member m reads access k. */
bool loop_reads (Loop *l, uint32_t m, uint32_t k);
/* True if a later phase reads member m at every point. */
bool loop_crosses (Loop *l, uint32_t m);

/* For loops with vectors. loop_remakes: true if later phases recompute member m from memory rather
 * than read it from a buffer, because it is cheap, and so is everything that it is computed from.
 * loop_remake_reads: true if that computation reads access k. */
bool loop_remakes (Loop *l, uint32_t m);
bool loop_remake_reads (Loop *l, uint32_t m, uint32_t k);

/* Returns the primitive that computes member m and the next one, and its name (loop->pairs has
 * it). */
GrammeTileFn loop_pair (Loop *l, uint32_t m, char *name);

/* Prints the loop over the outer dimensions, and the pointers p0 ... of the accesses. */
void loop_put_head (CgText *t, const Loop *l);
/* Length of the inner dimension as text: an argument of `put`. */
#define LENGTH(l) ((l)->n_parts && (l)->n_outer == 0 ? "len" : SIZE ((l)->p, (l)->n))
/* Prints the address of a place in the workspace's fixed part that only this loop, or this part of
 * it, uses. */
void loop_put_scratch (CgText *t, const Loop *l, uint64_t offset);
/* Prints the address of the buffer that keeps member m's row from one phase to the next.  fixed:
 * the offset of the loop's buffers in the workspace's fixed part; not used if a row's length is
 * symbolic, since the buffers then lie in the dynamic part. */
void loop_put_buffer (CgText *t, const Loop *l, uint32_t m, uint64_t fixed);
/* Reserves memory for the loop's buffers; fixed: as in loop_put_buffer. */
void loop_take_buffers (CgText *t, const Loop *l, uint64_t fixed);

#endif
