/* SPDX-License-Identifier: Apache-2.0
 * print_v.h -- shared by the two halves of the printer of vector loops: the code at a point
 * (point_v.c), and the walk from point to point (print_v.c).
 */
#ifndef CODEGEN_PRINT_V_H
#define CODEGEN_PRINT_V_H

#include "plugins/codegen/loop_plan.h"

#define VEC_STEP 16 /* elements: the number of partial results of a reduction */

typedef enum {
  VECTORS, /* vectors of the type `work` */
  MASK,    /* a bool: vectors of 32 or 64 bits, 0 or -1 */
  STORED   /* only cast: its elements in memory */
} VecClass;

typedef struct {
  uint32_t dtype;
  VecClass class;
  const char *mem, *work; /* suffixes of the source's names */
  int work_bytes;
  bool rounds;
} VecType;

typedef struct {
  CgText *t;   /* text for statements: the row's, or the body's */
  CgText *row; /* text for values that are the same in the whole row */
  Loop *l;
  int vector_bytes;
  int phase;
  bool in_body, in_tail, has_tail;
  bool loaded[CG_MAX_MEMBERS * 4]; /* accesses that are loaded in this body */
  bool crossed[CG_MAX_MEMBERS];    /* members of earlier phases that are loaded in this body */
  bool splatted[CG_MAX_MEMBERS * 4];
  int widths[CG_MAX_MEMBERS]; /* lane bytes of members that are masks */
  uint32_t fresh;             /* number of the next name */
} VecPrinter;

/* Returns the vector type of a value; NULL: its dtype is left to tiles. */
const VecType *vec_type_of (const CgProgram *p, uint32_t value);
/* True if a row's last elements of this type are loaded and stored by masks. */
bool vec_has_masks (const VecType *type);
/* Returns 1 for reductions of masks in which one true element suffices, 0 if all must be true, -1:
 * not such a reduction. */
int vec_mask_fold_is_any (uint32_t op);
/* True if a pointwise row is costly: the rows that exist only for floats. */
bool vec_computes_much (uint32_t op);
/* True if member m has a form with vectors. */
bool vec_supports (const Loop *l, uint32_t m);

/* Return the number of vectors that hold a step's elements, and of elements in a vector. */
static inline int
vec_parts (const VecPrinter *v, int lane_bytes)
{
  return VEC_STEP * lane_bytes / v->vector_bytes;
}

static inline int
vec_lanes (const VecPrinter *v, int lane_bytes)
{
  return v->vector_bytes / lane_bytes;
}

/* Prints member m at a point, with its stores. */
void vec_put_member (VecPrinter *v, uint32_t m);
/* Prints the store of a row's element to memory. */
void vec_put_row_store (VecPrinter *v, uint32_t m);
/* Prints the rounding of 16-bit floats that a store to memory and a load would do. */
void vec_put_rounding (VecPrinter *v, const VecType *type, uint32_t m);

#endif
