/* SPDX-License-Identifier: Apache-2.0
 * size_code.c -- see size_code.h.
 */
#include "plugins/codegen/size_code.h"

#include <stdlib.h>

#define MAX_FACTORS 32
#define GUESS 1000.0 /* assumed value of a symbol */

static uint32_t
row_of (int64_t size)
{
  return (uint32_t) (size - CG_SIZE_ROW_0);
}

static const CgSizeRow *
row (const CgSizes *s, int64_t size)
{
  return &s->rows[row_of (size)];
}

static int64_t
make (CgSizes *s, CgSizeKind kind, int64_t a, int64_t b)
{
  for (uint32_t i = 0; i < s->n; i++) /* few, since a graph has a handful of symbols */
    if (s->rows[i].kind == kind && s->rows[i].a == a && s->rows[i].b == b)
      return CG_SIZE_ROW_0 + i;
  if (s->n == s->room) {
    uint32_t room = s->room * 2 + 16;
    CgSizeRow *rows = realloc (s->rows, room * sizeof *rows);
    if (!rows) {
      s->oom = true;
      return 0;
    }
    s->rows = rows;
    s->room = room;
  }
  s->rows[s->n] = (CgSizeRow){ (uint8_t) kind, 0, a, b };
  return CG_SIZE_ROW_0 + s->n++;
}

/* -- Products ---------------------------------------------------------------------------------- */

/* A product: number * factors[0] * factors[1] ..., in ascending order; no factor is a product
 * itself. */
typedef struct {
  int64_t number, factors[MAX_FACTORS];
  int n;
} Product;

static bool
multiply (const CgSizes *s, Product *p, int64_t size)
{
  while (codegen_is_symbolic (size) && row (s, size)->kind == CG_SIZE_MUL) {
    if (!multiply (s, p, row (s, size)->b))
      return false;
    size = row (s, size)->a;
  }
  if (!codegen_is_symbolic (size))
    return !__builtin_mul_overflow (p->number, size, &p->number);
  if (p->n == MAX_FACTORS)
    return false;
  int at = p->n++;
  for (; at > 0 && p->factors[at - 1] > size; at--)
    p->factors[at] = p->factors[at - 1];
  p->factors[at] = size;
  return true;
}

int64_t
codegen_size_mul (CgSizes *s, int64_t a, int64_t b)
{
  Product p = { .number = 1 };
  if (!codegen_is_symbolic (a) && !codegen_is_symbolic (b))
    return a * b;
  if (!multiply (s, &p, a) || !multiply (s, &p, b))
    /* Too long, or too large: codegen_size_eval detects overflow. */
    return make (s, CG_SIZE_MUL, a, b);
  if (p.number == 0)
    return 0;
  int64_t product = p.factors[0];
  for (int i = 1; i < p.n; i++)
    product = make (s, CG_SIZE_MUL, product, p.factors[i]);
  return p.number == 1 ? product : make (s, CG_SIZE_MUL, product, p.number);
}

/* -- Other expressions ------------------------------------------------------------------------- */

static void
sort_two (int64_t *a, int64_t *b)
{
  if (codegen_is_symbolic (*a) && (!codegen_is_symbolic (*b) || *a <= *b))
    return;
  int64_t t = *a;
  *a = *b;
  *b = t;
}

int64_t
codegen_size_add (CgSizes *s, int64_t a, int64_t b)
{
  if (!codegen_is_symbolic (a) && !codegen_is_symbolic (b))
    return a + b;
  if (a == 0 || b == 0)
    return a == 0 ? b : a;
  sort_two (&a, &b);
  return make (s, CG_SIZE_ADD, a, b);
}

int64_t
codegen_size_max (CgSizes *s, int64_t a, int64_t b)
{
  if (a == b || (!codegen_is_symbolic (a) && !codegen_is_symbolic (b)))
    return a > b ? a : b;
  sort_two (&a, &b);
  return make (s, CG_SIZE_MAX, a, b);
}

int64_t
codegen_size_align (CgSizes *s, int64_t a, int64_t to)
{
  if (!codegen_is_symbolic (a))
    return (a + to - 1) / to * to;
  bool aligned = row (s, a)->kind == CG_SIZE_ALIGN && row (s, a)->b == to;
  return aligned ? a : make (s, CG_SIZE_ALIGN, a, to);
}

int64_t
codegen_size_div_up (CgSizes *s, int64_t a, int64_t by)
{
  return by == 1                   ? a
         : codegen_is_symbolic (a) ? make (s, CG_SIZE_DIV_UP, a, by)
                                   : (a + by - 1) / by;
}

bool
codegen_size_is_multiple (const CgSizes *s, const GrammeImage *image, int64_t size, int64_t n)
{
  if (!codegen_is_symbolic (size))
    return size % n == 0;
  const CgSizeRow *r = row (s, size);
  switch (r->kind) {
  case CG_SIZE_IMAGE: {
    const GrammeSize *of = gramme_image_size (image, (uint32_t) r->a);
    return of->kind == GRAMME_SIZE_SYMBOL && of->multiple_of > 0 && of->multiple_of % n == 0;
  }
  case CG_SIZE_MUL:
    return codegen_size_is_multiple (s, image, r->a, n)
           || codegen_size_is_multiple (s, image, r->b, n);
  case CG_SIZE_ADD:
  case CG_SIZE_MAX:
    return codegen_size_is_multiple (s, image, r->a, n)
           && codegen_size_is_multiple (s, image, r->b, n);
  case CG_SIZE_ALIGN:
    return r->b % n == 0;
  default:
    return false;
  }
}

int64_t
codegen_size_read (CgSizes *s, const GrammeImage *image, int64_t stored, bool may_be_row)
{
  if (stored >= 0 || !may_be_row)
    return stored;
  uint32_t i = (uint32_t) (-1 - stored);
  const GrammeSize *from = gramme_image_size (image, i);
  if (from->kind == GRAMME_SIZE_CONST)
    return from->value;
  if (from->kind == GRAMME_SIZE_MUL)
    return codegen_size_mul (s, codegen_size_read (s, image, -1 - (int64_t) from->a, true),
                             codegen_size_read (s, image, -1 - (int64_t) from->b, true));
  return make (s, CG_SIZE_IMAGE, i, 0);
}

/* -- Values ------------------------------------------------------------------------------------ */

double
codegen_size_guess (const CgSizes *s, int64_t size)
{
  if (!codegen_is_symbolic (size))
    return (double) size;
  const CgSizeRow *r = row (s, size);
  if (r->kind == CG_SIZE_IMAGE)
    return GUESS;
  double a = codegen_size_guess (s, r->a), b = codegen_size_guess (s, r->b);
  return r->kind == CG_SIZE_DIV_UP ? a / b
         : r->kind == CG_SIZE_MUL  ? a * b
         : r->kind == CG_SIZE_ADD  ? a + b
         : a > b                   ? a
                                   : b;
}

static bool
up_to (int64_t a, int64_t to, int64_t *out)
{
  if (__builtin_add_overflow (a, to - 1, out))
    return false;
  *out -= *out % to;
  return true;
}

/* Computes a row's value from those of its operands.  False on overflow. */
static bool
compute (const CgSizeRow *r, int64_t a, int64_t b, int64_t *out)
{
  switch (r->kind) {
  case CG_SIZE_MUL:
    return !__builtin_mul_overflow (a, b, out);
  case CG_SIZE_ADD:
    return !__builtin_add_overflow (a, b, out);
  case CG_SIZE_MAX:
    *out = a > b ? a : b;
    return true;
  case CG_SIZE_DIV_UP:
    *out = a / b + (a % b != 0);
    return true;
  default:
    return up_to (a, b, out);
  }
}

bool
codegen_size_eval (const CgSizes *s, int64_t size, const int64_t *image_sizes, int64_t *out)
{
  int64_t a, b;
  *out = size;
  if (!codegen_is_symbolic (size))
    return true;
  const CgSizeRow *r = row (s, size);
  if (r->kind == CG_SIZE_IMAGE) {
    *out = image_sizes[r->a];
    return true;
  }
  return codegen_size_eval (s, r->a, image_sizes, &a)
         && codegen_size_eval (s, r->b, image_sizes, &b) && compute (r, a, b, out);
}

void
codegen_sizes_values (const CgSizes *s, const int64_t *image_sizes, int64_t *out)
{
  for (uint32_t i = 0; i < s->n; i++) {
    const CgSizeRow *r = &s->rows[i];
    if (r->kind == CG_SIZE_IMAGE) {
      out[i] = image_sizes[r->a];
      continue;
    }
    int64_t a = codegen_size_value (r->a, out), b = codegen_size_value (r->b, out);
    if (a == CG_SIZE_NO_VALUE || b == CG_SIZE_NO_VALUE || !compute (r, a, b, &out[i]))
      out[i] = CG_SIZE_NO_VALUE;
  }
}

void
codegen_sizes_free (CgSizes *s)
{
  free (s->rows);
  *s = (CgSizes){ 0 };
}
