/* SPDX-License-Identifier: Apache-2.0
 * loop_plan.h -- a LOOP step in detail: dimensions to loop over, memory accessed, tiles used.
 *
 * A loop is printed from three lists: accesses (memory that it reads or stores), members (tile
 * calls, in order) and tiles.  Its outer dimensions are merged where all accesses allow it; the
 * inner one is walked in chunks of a tile.  Where memory is contiguous along the inner dimension no
 * tile is used for it: primitives read and write memory directly.
 */
#ifndef CODEGEN_LOOP_PLAN_H
#define CODEGEN_LOOP_PLAN_H

#include "plugins/codegen/text.h"

typedef struct {
  uint32_t value;
  bool as_row, store;
  int64_t strides[8]; /* over the loop's dimensions, then over the merged ones */
  int64_t inner;      /* stride along the inner dimension */
  int tile;           /* slot it is gathered into, or scattered from; -1: memory is used directly */
  bool everywhere;    /* the same element at all points: gathered once */
} Access;

typedef struct {
  const CgProgram *p;
  uint32_t step;
  const CgStep *s;
  bool vectors;                     /* printed with vectors, not with tiles */
  uint32_t members[CG_MAX_MEMBERS]; /* nodes, in the order of their phases */
  int phases[CG_MAX_MEMBERS];       /* of what has one element per row: the phase that it precedes */
  int n_phases;
  Access access[CG_MAX_MEMBERS * 4];
  uint32_t n_access;
  bool unfit; /* an access does not lie in the space: it is not to be printed */
  int n_outer;
  int64_t outer[8], n; /* merged outer dimensions; length of the inner one */
  bool chunked;
  uint8_t tile_used[CG_MAX_MEMBERS * 6];
  int n_tiles, n_rows;
  /* per member, slots or -1: its tile, its row's element, where that is accumulated (its own place,
   * unless it is cast at the end), and the element spread over a tile */
  int tiles[CG_MAX_MEMBERS], rows[CG_MAX_MEMBERS], accums[CG_MAX_MEMBERS], spread[CG_MAX_MEMBERS];
  /* Per member, or LOOP_NO_BUFFER: where its row begins in the buffers that outlive a phase.  They
   * are in the workspace's fixed part, or in the dynamic one if a row's length is symbolic. */
  int64_t buffers[CG_MAX_MEMBERS];
  /* Per member, or -1: the store in whose memory its row lies until that is written there. */
  int lenders[CG_MAX_MEMBERS];
  int64_t buffer_bytes;
  /* Per member, of tiles: done with the next one, by a primitive for two rows; NULL: not. */
  GrammeTileFn pairs[CG_MAX_MEMBERS];
  uint32_t n_parts; /* it is printed as a function of which each call does a part: parts.h; 0: as a whole */
} Loop;

#define LOOP_NO_BUFFER (-1)

/* What operand `value` of member m is. */
typedef enum { FROM_LITERAL, FROM_TILE, FROM_ROW, FROM_MEMORY } From;

void loop_plan (Loop *l, const CgProgram *p, uint32_t step, bool vectors);

/* -- Questions, valid after loop_plan ---------------------------------------------------------- */

const GrammeNode *loop_member (const Loop *l, uint32_t m);
/* Has the member's result one element per row?  Is it a reduction?  Does it read its operands at
 * every point (and not once a row)? */
bool loop_is_row (const Loop *l, uint32_t m);
bool loop_is_fold (const Loop *l, uint32_t m);
bool loop_reads_full (const Loop *l, uint32_t m);
/* The dtype that a reduction is accumulated in; is it another than its result's? */
uint32_t loop_accum_dtype (const Loop *l, uint32_t m);
/* The same where blocks of a row are folded one after the other: float64 for a long sum of float32. */
uint32_t loop_fold_dtype (const Loop *l, uint32_t m);
/* True if reduction n of so many elements to a result is to be folded by the wide tiles (GRAMME_TILE_WIDE). */
bool codegen_folds_wide (const CgProgram *p, const GrammeNode *n, int64_t length);
bool loop_casts_at_end (const Loop *l, uint32_t m);
/* The place of an access in l->access. */
int loop_access (Loop *l, uint32_t value, bool as_row, bool store);
/* Where member m finds operand `value`.  *which: the literal's value, the member that makes it, or
 * the access. */
From loop_operand (Loop *l, uint32_t m, uint32_t value, int *which);

/* Does member m read access k? */
bool loop_reads (Loop *l, uint32_t m, uint32_t k);
/* Does a later phase read member m at every point? */
bool loop_crosses (Loop *l, uint32_t m);

/* With vectors: do later phases compute member m again, from what lies in memory, rather than read it
 * from a buffer?  It is cheap then, and so is what it is computed from.  Does that read access k? */
bool loop_remakes (Loop *l, uint32_t m);
bool loop_remake_reads (Loop *l, uint32_t m, uint32_t k);

/* The primitive that does member m and the next one, and its name (loop->pairs has it). */
GrammeTileFn loop_pair (Loop *l, uint32_t m, char *name);

/* Prints the loop over the outer dimensions, and the pointers p0 ... of the accesses. */
void loop_put_head (CgText *t, const Loop *l);
/* The length of the inner dimension as text: an argument of `put`. */
#define LENGTH(l) ((l)->n_parts && (l)->n_outer == 0 ? "len" : SIZE ((l)->p, (l)->n))
/* A place in the workspace's fixed part that only this loop uses, or this part of it. */
void loop_put_scratch (CgText *t, const Loop *l, uint64_t offset);
/* Where the buffer of member m begins; fixed: where buffers begin in the fixed part. */
void loop_put_buffer (CgText *t, const Loop *l, uint32_t m, uint64_t fixed);
/* Makes room for the loop's buffers; fixed: as above. */
void loop_take_buffers (CgText *t, const Loop *l, uint64_t fixed);

#endif
