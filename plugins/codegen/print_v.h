/* SPDX-License-Identifier: Apache-2.0
 * print_v.h -- what the two halves of the printer of vector loops share: what is done at a point (point_v.c), and how a loop walks from
 * point to point (print_v.c).
 */
#ifndef CODEGEN_PRINT_V_H
#define CODEGEN_PRINT_V_H

#include "plugins/codegen/loop_plan.h"

#define VEC_STEP 16 /* elements: the number of partial results of a reduction */

typedef enum {
  VECTORS, /* of the type `work` */
  MASK,    /* a bool: vectors of 32 or 64 bits, 0 or -1 */
  STORED   /* only ever cast: its elements in memory */
} VecClass;

typedef struct {
  uint32_t dtype;
  VecClass class;
  const char *mem, *work; /* as the source's names end */
  int work_bytes;
  bool rounds;
} VecType;

typedef struct {
  CgText *t;     /* where statements go: the row's, or the body's */
  CgText *row;   /* what is the same in the whole row */
  Loop *l;
  int vector_bytes;
  int phase;
  bool in_body, in_tail, has_tail;
  bool loaded[CG_MAX_MEMBERS * 4]; /* accesses, in this body */
  bool crossed[CG_MAX_MEMBERS];    /* members of earlier phases, in this body */
  bool splatted[CG_MAX_MEMBERS * 4];
  int widths[CG_MAX_MEMBERS];      /* of members that are masks */
  uint32_t fresh;                  /* the next name's number */
} VecPrinter;

/* NULL: the dtype of the value is left to tiles. */
const VecType *vec_type_of (const CgProgram *p, uint32_t value);
/* Are a row's last elements of this type loaded and stored by masks? */
bool vec_has_masks (const VecType *type);
/* Reductions of masks: 1 where any does, 0 where all must, -1: none. */
int vec_mask_fold_is_any (uint32_t op);
/* Whether a pointwise row computes much: those on floats alone. */
bool vec_computes_much (uint32_t op);
/* Whether member m has a form with vectors. */
bool vec_supports (const Loop *l, uint32_t m);

/* Vectors that hold a step's elements, and elements in a vector. */
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

/* What member m does at a point, its stores with it. */
void vec_put_member (VecPrinter *v, uint32_t m);
/* A row's element goes to memory. */
void vec_put_row_store (VecPrinter *v, uint32_t m);
/* What 16-bit floats lose on the way to memory. */
void vec_put_rounding (VecPrinter *v, const VecType *type, uint32_t m);

#endif
