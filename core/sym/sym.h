/* SPDX-License-Identifier: Apache-2.0
 * sym.h -- sizes that are not numbers yet: hash-consed expressions over named symbols.
 *
 * A size is an int64_t as in GmMeta: a number stands for itself, negative ones too; the 2^32 values
 * from GM_SIZE_ROW_0 on, far from any number that a size could be, are the rows of a GmSym.  Rows
 * are append-only and use earlier rows only, so that evaluating them in order evaluates everything,
 * a rollback is a truncation, and equal expressions (after folding of constants) are equal
 * integers. Folded: constants, x + 0, x * 1, x * 0, x // 1, x % 1, min and max of equals, (x + c) +
 * d, (x * c) * d, x * c + x * d.  No further algebra: two sizes that differ here may still be equal
 * at run time.
 * Threads: one at a time.
 */
#ifndef GM_SYM_SYM_H
#define GM_SYM_SYM_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct GmSym GmSym;

/* Kinds of rows, with the codes of the image (GRAMME_SIZE_...). */
typedef enum {
  GM_SYM_CONST,
  GM_SYM_SYMBOL,
  GM_SYM_ADD,
  GM_SYM_MUL,
  GM_SYM_FLOORDIV, /* to minus infinity, as Python's // */
  GM_SYM_MOD,      /* the sign of the divisor, as Python's % */
  GM_SYM_MIN,
  GM_SYM_MAX,
  GM_N_SYM_KINDS,
} GmSymKind;

typedef struct {
  uint8_t kind;
  uint32_t a, b;                 /* operands: rows; SYMBOL: a is its number */
  int64_t value;                 /* CONST */
  const char *name;              /* SYMBOL: owned by the GmSym */
  int64_t min, max, multiple_of; /* facts: bounds inclusive; symbols and constants only */
} GmSymRow;

#define GM_SIZE_ROW_0 (-(INT64_C (1) << 62))

static inline bool
gm_size_is_symbolic (int64_t size)
{
  return (uint64_t) size - (uint64_t) GM_SIZE_ROW_0 <= UINT32_MAX;
}

#define gm_size_row(size) ((uint32_t) ((size) -GM_SIZE_ROW_0))
#define gm_size_from_row(row) (GM_SIZE_ROW_0 + (int64_t) (row))

GmSym *gm_sym_new (void);
void gm_sym_free (GmSym *s); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (GmSym, gm_sym_free)

GmSym *gm_sym_copy (const GmSym *s);

uint32_t gm_sym_n_rows (const GmSym *s);
const GmSymRow *gm_sym_row (const GmSym *s, uint32_t row); /* valid until the next row is added */
uint32_t gm_sym_n_symbols (const GmSym *s);
/* Drops all rows with numbers from n_rows on. */
void gm_sym_truncate (GmSym *s, uint32_t n_rows);

/* Returns the symbol of this name, made if it is new: its range is >= 0 until gm_sym_set_range
 * or gm_sym_assume change it. */
int64_t gm_sym_symbol (GmSym *s, const char *name);
/* Sets the range of a symbol that no expression contains yet; INT64_MIN, INT64_MAX: no bound. */
void gm_sym_set_range (GmSym *s, int64_t symbol, int64_t min, int64_t max);
/* Narrows the range of a symbol, and adds a divisor of it.  False, with the range unchanged, if
 * no value is left. */
bool gm_sym_assume (GmSym *s, int64_t symbol, int64_t min, int64_t max, int64_t multiple_of);
/* Returns a number as a size: the number itself, or a constant row for a number that looks like
 * a row. */
int64_t gm_sym_const (GmSym *s, int64_t value);
/* Returns the size a `kind` b, folded or as a row; kind is ADD .. MAX.  An operation on numbers
 * that would overflow or divide by zero is not folded: evaluation reports it. */
int64_t gm_sym_op (GmSym *s, GmSymKind kind, int64_t a, int64_t b);

/* Computes a `kind` b of two numbers into *out, kind ADD .. MAX; false if that overflows or
 * divides by zero. */
bool gm_sym_compute (GmSymKind kind, int64_t a, int64_t b, int64_t *out);

/* Returns the size as text, "n*2 + 1".  Caller frees. */
char *gm_sym_text (const GmSym *s, int64_t size);
/* Parses an expression at *text and moves *text past it; numbers, names, + - * // %, min (a, b),
 * max (a, b), parentheses.  False with GM_ERROR_VALUE; *text is left at the place of the error. */
bool gm_sym_parse (GmSym *s, const char **text, int64_t *out, GError **error);

/* Evaluates a size into *out.  symbols[i]: the value of symbol number i.  False with
 * GM_ERROR_VALUE, which names the expression, on overflow or division by zero. */
bool gm_sym_eval (const GmSym *s, int64_t size, const int64_t *symbols, int64_t *out,
                  GError **error);
/* Evaluates all rows: `values` and `known` have gm_sym_n_rows entries each; known[i] is true if
 * row i has a value. */
void gm_sym_eval_known (const GmSym *s, const int64_t *symbols, int64_t *values, bool *known);

#endif
