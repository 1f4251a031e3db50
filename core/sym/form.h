/* SPDX-License-Identifier: Apache-2.0
 * form.h -- linear forms: a constant plus integer multiples of atoms, in one spelling.
 *
 * The meaning of an atom does not matter here: it is a number, and terms stand in the order of
 * their atoms, each atom once, none with factor 0.  Two forms are the same function of their atoms
 * exactly if they are equal term by term.  Forms are values of fixed size; a result that does not
 * fit, in terms or in 64 bits, is reported by `false` and leaves the output undefined: nothing
 * wraps.
 */
#ifndef GM_SYM_FORM_H
#define GM_SYM_FORM_H

#include <stdbool.h>
#include <stdint.h>

#define GM_FORM_MAX_TERMS 12

typedef struct {
  uint32_t atom;
  int64_t times;
} GmTerm;

typedef struct {
  int64_t constant;
  uint32_t n_terms;
  GmTerm terms[GM_FORM_MAX_TERMS];
} GmForm;

/* Returns a constant form.  Terms beyond n_terms are not initialized. */
static inline GmForm
gm_form_const (int64_t value)
{
  GmForm x;
  x.constant = value;
  x.n_terms = 0;
  return x;
}

static inline GmForm
gm_form_atom (uint32_t atom)
{
  GmForm x;
  x.constant = 0;
  x.n_terms = 1;
  x.terms[0] = (GmTerm){ atom, 1 };
  return x;
}

/* Copies *x to *out, without the unused terms. */
static inline void
gm_form_copy (const GmForm *x, GmForm *out)
{
  out->constant = x->constant;
  out->n_terms = x->n_terms;
  for (uint32_t i = 0; i < x->n_terms; i++)
    out->terms[i] = x->terms[i];
}

/* Computes x + y * times in *out, which may be x or y.  False if the result does not fit. */
bool gm_form_add (const GmForm *x, const GmForm *y, int64_t times, GmForm *out);
bool gm_form_scale (const GmForm *x, int64_t times, GmForm *out);
bool gm_form_equal (const GmForm *x, const GmForm *y);
uint32_t gm_form_hash (const GmForm *x);

/* Returns the factor of an atom in x; 0 if the atom does not occur in x. */
int64_t gm_form_times (const GmForm *x, uint32_t atom);
/* Returns the greatest common divisor of the factors of x's terms, not of the constant; 0 if x
 * is a constant. */
int64_t gm_form_content (const GmForm *x);
/* Splits x into scale * direction + constant, where direction has no constant, content 1 and a
 * positive first factor.  scale is not 0 unless x is a constant.  False if that does not fit. */
bool gm_form_direction (const GmForm *x, GmForm *direction, int64_t *scale);

/* Returns the greatest common divisor of a and b, >= 0; of 0 and x: |x|. */
int64_t gm_gcd (int64_t a, int64_t b);
/* Returns a / b rounded down, to minus infinity; b > 0. */
int64_t gm_floor_div (int64_t a, int64_t b);
int64_t gm_floor_mod (int64_t a, int64_t b);

#endif
