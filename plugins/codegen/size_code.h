/* SPDX-License-Identifier: Apache-2.0
 * size_code.h -- sizes, strides and offsets that are numbers, or only known in a run.
 *
 * A size is an int64_t: a number, or, from CG_SIZE_ROW_0 on, a row of the program's table.  A row
 * is a row of the image's sizes, whose value a run is given, or made of earlier rows.  Products are
 * chains over sorted factors with the number last, so that equal products are one row, and equal
 * sizes mostly are equal integers.  Unequal integers may be equal in a run, so comparisons must
 * treat "different" as "perhaps different".  A program without symbols has no rows, and everything
 * here is plain arithmetic.
 *
 * Generated code has a row as the local variable z<row>.  Workspaces are computed by
 * codegen_size_eval, which detects overflow.
 */
#ifndef GM_CODEGEN_SIZE_CODE_H
#define GM_CODEGEN_SIZE_CODE_H

#include <gramme-plugin-util.h>

#include <stdbool.h>

#define CG_SIZE_ROW_0 (-(INT64_C (1) << 62))

typedef enum {
  CG_SIZE_IMAGE, /* a: row of the image's sizes */
  CG_SIZE_MUL,   /* a: a row, b: an image row or a number */
  CG_SIZE_ADD,
  CG_SIZE_MAX,
  CG_SIZE_ALIGN,  /* a, up to the next multiple of b */
  CG_SIZE_DIV_UP, /* a / b, rounded up; b: a number */
} CgSizeKind;

typedef struct {
  uint8_t kind;
  uint8_t used; /* by generated code: a bit for each scope */
  int64_t a, b;
} CgSizeRow;

/* Scopes of variables for rows: that of the program's function, and that of a divided loop. */
enum { CG_SCOPE_PROGRAM, CG_SCOPE_LOOP };

typedef struct {
  CgSizeRow *rows;
  uint32_t n, room;
  uint8_t scope; /* scope that is being printed */
  bool oom;      /* out of memory; checked once, when everything is printed */
} CgSizes;

static inline bool
codegen_is_symbolic (int64_t size)
{
  return (uint64_t) size - (uint64_t) CG_SIZE_ROW_0 <= UINT32_MAX;
}

/* Returns as a size the value that the image has `stored`: a row of the image's table if that is <
 * 0 and may be a row, else a number. */
int64_t codegen_size_read (CgSizes *s, const GrammeImage *image, int64_t stored, bool may_be_row);
int64_t codegen_size_mul (CgSizes *s, int64_t a, int64_t b);
int64_t codegen_size_add (CgSizes *s, int64_t a, int64_t b);
int64_t codegen_size_max (CgSizes *s, int64_t a, int64_t b);
int64_t codegen_size_align (CgSizes *s, int64_t a, int64_t to);
int64_t codegen_size_div_up (CgSizes *s, int64_t a, int64_t by);

/* True if the size may be more than n in some run. */
static inline bool
codegen_size_may_exceed (int64_t size, int64_t n)
{
  return codegen_is_symbolic (size) || size > n;
}

/* True if the size is a multiple of n in every run.  False: perhaps not. */
bool codegen_size_is_multiple (const CgSizes *s, const GrammeImage *image, int64_t size, int64_t n);

/* Estimates a size, for choices that are right either way: all symbols count alike. */
double codegen_size_guess (const CgSizes *s, int64_t size);

/* Computes a size for these values of the image's rows. False if it does not fit in 63 bits. */
bool codegen_size_eval (const CgSizes *s, int64_t size, const int64_t *image_sizes, int64_t *out);
/* Computes the values of all rows, in order; CG_SIZE_NO_VALUE for those that do not fit in 63
 * bits. */
#define CG_SIZE_NO_VALUE INT64_MIN
void codegen_sizes_values (const CgSizes *s, const int64_t *image_sizes, int64_t *out);
/* Returns the value of a size, from the values of all rows. */
static inline int64_t
codegen_size_value (int64_t size, const int64_t *values)
{
  return codegen_is_symbolic (size) ? values[size - CG_SIZE_ROW_0] : size;
}
void codegen_sizes_free (CgSizes *s);

#endif
