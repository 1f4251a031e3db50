/* SPDX-License-Identifier: Apache-2.0
 * size.h -- sizes, strides and offsets that are numbers, or known at the run only.
 *
 * A size is an int64_t: a number, or, from CG_SIZE_ROW_0 on, a row of the program's table.  A row is
 * a row of the image's sizes, whose value a run is given, or made of earlier rows.  Products are
 * chains over sorted factors with the number last, so that equal products are one row, and equal
 * sizes mostly are equal integers.  Unequal integers may be equal at the run: whoever compares takes
 * "different" for "perhaps different".  A program without symbols has no rows, and all here is plain
 * arithmetic.
 *
 * Generated code has a row as the local variable z<row>; workspaces are measured by codegen_size_eval,
 * which finds what overflows.
 */
#ifndef CODEGEN_SIZE_H
#define CODEGEN_SIZE_H

#include <gramme-plugin-util.h>

#include <stdbool.h>

#define CG_SIZE_ROW_0 (-(INT64_C (1) << 62))

typedef enum {
  CG_SIZE_IMAGE, /* a: row of the image's sizes */
  CG_SIZE_MUL,   /* a: a row, b: an image row or a number */
  CG_SIZE_ADD,
  CG_SIZE_MAX,
  CG_SIZE_ALIGN, /* a, up to the next multiple of b */
  CG_SIZE_DIV_UP, /* a / b, rounded up; b: a number */
} CgSizeKind;

typedef struct {
  uint8_t kind;
  uint8_t used; /* by generated code: a bit for each scope */
  int64_t a, b;
} CgSizeRow;

/* Functions of the text have variables of their own for rows: the program's, and that of a loop done in parts. */
enum { CG_SCOPE_PROGRAM, CG_SCOPE_LOOP };

typedef struct {
  CgSizeRow *rows;
  uint32_t n, room;
  uint8_t scope; /* of what is being printed */
  bool oom; /* remembered, as text is: asked for once, when all is printed */
} CgSizes;

static inline bool
codegen_is_symbolic (int64_t size)
{
  return (uint64_t) size - (uint64_t) CG_SIZE_ROW_0 <= UINT32_MAX;
}

/* The size that the image has as `stored`: a row of its table where that is < 0 and may be one. */
int64_t codegen_size_read (CgSizes *s, const GrammeImage *image, int64_t stored, bool may_be_row);
int64_t codegen_size_mul (CgSizes *s, int64_t a, int64_t b);
int64_t codegen_size_add (CgSizes *s, int64_t a, int64_t b);
int64_t codegen_size_max (CgSizes *s, int64_t a, int64_t b);
int64_t codegen_size_align (CgSizes *s, int64_t a, int64_t to);
int64_t codegen_size_div_up (CgSizes *s, int64_t a, int64_t by);

/* May it be more than n at some run? */
static inline bool
codegen_size_may_exceed (int64_t size, int64_t n)
{
  return codegen_is_symbolic (size) || size > n;
}

/* Is it a multiple of n at every run?  False: perhaps not. */
bool codegen_size_is_multiple (const CgSizes *s, const GrammeImage *image, int64_t size, int64_t n);

/* For choices that are right either way: symbols count as if they were all alike. */
double codegen_size_guess (const CgSizes *s, int64_t size);

/* The value for these values of the image's rows.  False: it does not fit in 63 bits. */
bool codegen_size_eval (const CgSizes *s, int64_t size, const int64_t *image_sizes, int64_t *out);
/* The values of all rows, in order; CG_SIZE_NO_VALUE for those that do not fit in 63 bits. */
#define CG_SIZE_NO_VALUE INT64_MIN
void codegen_sizes_values (const CgSizes *s, const int64_t *image_sizes, int64_t *out);
/* A size, given those. */
static inline int64_t
codegen_size_value (int64_t size, const int64_t *values)
{
  return codegen_is_symbolic (size) ? values[size - CG_SIZE_ROW_0] : size;
}
void codegen_sizes_free (CgSizes *s);

#endif
