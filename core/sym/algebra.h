/* SPDX-License-Identifier: Apache-2.0
 * algebra.h -- size expressions as linear forms over atoms, reduced by the known facts (private to
 * core/sym).
 *
 * Atoms are consed, so that equal atoms are equal numbers.  All is reduced to few kinds, with x % y
 * as x - y * (x // y), min (x, y) as x - positive (x - y) and max (x, y) as y + positive (x - y),
 * where positive (x) is max (x, 0).
 *
 * The facts about an atom (bounds, a congruence, and for symbols a form that they are equal to)
 * only grow between two resets; with each change `stamp` is raised, and gm_algebra_now brings forms
 * made before up to date.  An older form stays true, but is not the one spelling any more.
 */
#ifndef GM_SYM_ALGEBRA_H
#define GM_SYM_ALGEBRA_H

#include <glib.h>

#include "core/sym/form.h"
#include "core/sym/sym.h"

typedef enum {
  GM_ATOM_SYMBOL,   /* a: row of the symbol */
  GM_ATOM_ROW,      /* a: a row that has no form, equal to itself alone */
  GM_ATOM_PRODUCT,  /* a * b: atoms; a is no product and not above the first factor of b */
  GM_ATOM_QUOTIENT, /* a // b: forms */
  GM_ATOM_POSITIVE, /* max (a, 0): a form */
  GM_ATOM_STEP,     /* the symbol a is b * this + its rest modulo b, according to facts: an atom, a
                     * number */
} GmAtomKind;

/* An interval of values; INT64_MIN and INT64_MAX: there is no bound. */
typedef struct {
  int64_t min, max;
} GmInterval;

/* A congruence: the value is `rest` modulo `modulus`.  modulus 0: the value is rest; 1: nothing
 * is known. */
typedef struct {
  int64_t modulus, rest;
} GmResidue;

typedef struct {
  uint8_t kind;
  uint32_t a, b;
  GmInterval known;    /* from facts */
  GmResidue residue;   /* from facts */
  uint32_t equal_to;   /* SYMBOL: form + 1, from facts */
  uint32_t now, stamp; /* form with all facts so far, + 1; valid while `stamp` is the algebra's */
  GmInterval span;     /* interval by all facts so far; valid with span_stamp */
  GmResidue rests;     /* residue by all facts so far; valid with rests_stamp */
  uint32_t span_stamp, rests_stamp;
} GmAtom;

/* Forms of a row, as indices + 1: `made` as the row was made, `now` with the facts so far, valid
 * while `stamp` is the algebra's. */
typedef struct {
  uint32_t made, now, stamp;
} GmRowForm;

/* A hash table that finds the index of an item in an array by its content: a slot is the index +
 * 1, or 0 if empty; linear probing. */
typedef struct {
  uint32_t *slots;
  uint32_t n_slots; /* a power of two */
} GmSlots;

typedef struct {
  const GmSym *s;
  GArray *atoms, *forms; /* GmAtom, GmForm */
  GmSlots atom_slots, form_slots;
  GArray *of_row; /* GmRowForm, by row */
  uint32_t stamp;
} GmAlgebra;

void gm_algebra_init (GmAlgebra *g, const GmSym *s);
void gm_algebra_clear (GmAlgebra *g);
/* Drops all atoms, forms and facts. */
void gm_algebra_reset (GmAlgebra *g);
static inline const GmAtom *
gm_algebra_atom (const GmAlgebra *g, uint32_t atom)
{
  return &g_array_index (g->atoms, GmAtom, atom);
}

static inline const GmForm *
gm_algebra_form (const GmAlgebra *g, uint32_t form)
{
  return &g_array_index (g->forms, GmForm, form);
}

/* Stores in *out the form of a size, with all facts so far. */
void gm_algebra_of (GmAlgebra *g, int64_t size, GmForm *out);
/* Stores in *out the form of a - b; false if it does not fit a GmForm. */
bool gm_algebra_difference (GmAlgebra *g, int64_t a, int64_t b, GmForm *out);
/* Returns the atom of the symbol in this row. */
uint32_t gm_algebra_symbol (GmAlgebra *g, uint32_t row);
/* Stores in *out the form x with all facts so far: symbols that are known to be equal to a form
 * are replaced.  False if the result does not fit a GmForm. */
bool gm_algebra_now (GmAlgebra *g, const GmForm *x, GmForm *out);
GmInterval gm_algebra_atom_interval (GmAlgebra *g, uint32_t atom);
GmInterval gm_algebra_interval (GmAlgebra *g, const GmForm *x);
GmResidue gm_algebra_residue (GmAlgebra *g, const GmForm *x);
/* True if the symbol's atom occurs inside of another atom of x, at any depth; a term of x that
 * is this atom does not count. */
bool gm_algebra_hides (const GmAlgebra *g, const GmForm *x, uint32_t symbol);
bool gm_algebra_product (GmAlgebra *g, const GmForm *x, const GmForm *y, GmForm *out);

/* Add facts about an atom: bounds, a congruence, a form to which a symbol is equal.  False: the
 * fact contradicts earlier facts. */
bool gm_algebra_narrow (GmAlgebra *g, uint32_t atom, GmInterval within);
bool gm_algebra_congruent (GmAlgebra *g, uint32_t atom, GmResidue residue);
void gm_algebra_equate (GmAlgebra *g, uint32_t symbol, const GmForm *x);

#endif
