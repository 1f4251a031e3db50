/* SPDX-License-Identifier: Apache-2.0
 * witness.c -- values of the symbols for which all facts hold.  See witness.h.
 *
 * The sets are found by trying: a symbol gets a number within its interval and of its residue, or
 * the value of the form that it is equal to, and the facts are evaluated.  A set for which a fact
 * fails is replaced, a few times.  The numbers depend only on the attempt and the symbol, so that
 * each process has the same sets.
 */
#include "core/sym/witness.h"

#define ROW(w, i) (&g_array_index ((w)->rows, GmWitnessRow, (i)))

#define N_TRIES 3  /* for one set */
#define DEEPEST 32 /* forms within forms */

void
gm_witness_init (GmWitness *w, const GmSym *s)
{
  *w = (GmWitness){ .s = s,
                    .rows = g_array_new (FALSE, TRUE, sizeof (GmWitnessRow)),
                    .n_facts = UINT32_MAX };
}

void
gm_witness_clear (GmWitness *w)
{
  g_array_unref (w->rows);
}

void
gm_witness_reset (GmWitness *w)
{
  g_array_set_size (w->rows, 0);
  w->alive = 0;
  w->n_facts = UINT32_MAX;
}

/* -- Values ------------------------------------------------------------------------------------ */

/* Returns the distance of a symbol's value from its least value in a set.  In set 0 all symbols
 * are as low as can be, so mostly equal; set 1 has small distances; set 2 the same in the opposite
 * order; set 3 large distances.  try: number of the attempt to find the set. */
static int64_t
distance (uint32_t row, int set, int try)
{
  uint64_t h = (row + UINT64_C (1)) * UINT64_C (0x9e3779b97f4a7c15);
  h = (h ^ h >> 29) * (UINT64_C (0xbf58476d1ce4e5b9) + (uint64_t) try * 2);
  int64_t small = (int64_t) (h >> 40) % 23;
  switch (set) {
  case 0:
    return try;
  case 1:
    return 1 + small;
  case 2:
    return 24 - small;
  default:
    return 100 + (int64_t) (h >> 32) % 3000;
  }
}

static bool row_value (GmWitness *w, GmAlgebra *g, uint32_t row, int set, int try, int depth,
                       int64_t *out);

static bool atom_value (GmWitness *w, GmAlgebra *g, uint32_t atom, int set, int try, int depth,
                        int64_t *out);

static bool
form_value (GmWitness *w, GmAlgebra *g, uint32_t form, int set, int try, int depth, int64_t *out)
{
  GmForm x = *gm_algebra_form (g, form);
  int64_t v;
  *out = x.constant;
  for (uint32_t i = 0; i < x.n_terms; i++)
    if (!atom_value (w, g, x.terms[i].atom, set, try, depth, &v)
        || __builtin_mul_overflow (v, x.terms[i].times, &v)
        || __builtin_add_overflow (*out, v, out))
      return false;
  return true;
}

static bool
atom_value (GmWitness *w, GmAlgebra *g, uint32_t atom, int set, int try, int depth, int64_t *out)
{
  const GmAtom a = *gm_algebra_atom (g, atom);
  int64_t x, y;
  if (depth > DEEPEST)
    return false;
  switch ((GmAtomKind) a.kind) {
  case GM_ATOM_SYMBOL:
  case GM_ATOM_ROW:
    return row_value (w, g, a.a, set, try, depth + 1, out);
  case GM_ATOM_STEP:
    if (!atom_value (w, g, a.a, set, try, depth + 1, &x))
      return false;
    *out = gm_floor_div (x, a.b);
    return true;
  case GM_ATOM_PRODUCT:
    return atom_value (w, g, a.a, set, try, depth + 1, &x)
           && atom_value (w, g, a.b, set, try, depth + 1, &y)
           && gm_sym_compute (GM_SYM_MUL, x, y, out);
  case GM_ATOM_QUOTIENT:
    return form_value (w, g, a.a, set, try, depth + 1, &x)
           && form_value (w, g, a.b, set, try, depth + 1, &y)
           && gm_sym_compute (GM_SYM_FLOORDIV, x, y, out);
  case GM_ATOM_POSITIVE:
    if (!form_value (w, g, a.a, set, try, depth + 1, &x))
      return false;
    *out = MAX (x, 0);
    return true;
  }
  return false;
}

static bool
symbol_value (GmWitness *w, GmAlgebra *g, uint32_t row, int set, int try, int depth, int64_t *out)
{
  uint32_t atom = gm_algebra_symbol (g, row), same = gm_algebra_atom (g, atom)->equal_to;
  if (same)
    return form_value (w, g, same - 1, set, try, depth, out);
  GmForm self = gm_form_atom (atom);
  GmInterval r = gm_algebra_interval (g, &self);
  GmResidue of = gm_algebra_residue (g, &self);
  int64_t least = r.min == INT64_MIN ? MIN (r.max, -3) : r.min, v;
  if (__builtin_add_overflow (least, distance (row, set, try), &v) || v > r.max)
    v = least;
  if (of.modulus > 1
      && __builtin_add_overflow (
          v, gm_floor_mod (of.rest - gm_floor_mod (v, of.modulus), of.modulus), &v))
    return false;
  *out = of.modulus ? v : of.rest;
  return true;
}

/* Computes the value of a row in a set into *out.  A form that a symbol is equal to may need
 * later rows.  False: it has no value, or not within the symbol's range, and then the set is
 * dropped. */
static bool
row_value (GmWitness *w, GmAlgebra *g, uint32_t row, int set, int try, int depth, int64_t *out)
{
  if (row >= w->rows->len)
    g_array_set_size (w->rows, row + 1);
  if (ROW (w, row)->known >> set & 1) {
    *out = ROW (w, row)->values[set];
    return true;
  }
  const GmSymRow *r = gm_sym_row (w->s, row);
  int64_t x, y;
  bool ok;
  if (r->kind == GM_SYM_CONST) {
    *out = r->value;
    ok = true;
  } else if (r->kind == GM_SYM_SYMBOL) {
    ok = symbol_value (w, g, row, set, try, depth, out) && *out >= r->min && *out <= r->max
         && *out % r->multiple_of == 0;
    if (!ok)
      w->alive &= (uint8_t) ~(1u << set);
  } else {
    ok = depth <= DEEPEST && row_value (w, g, r->a, set, try, depth + 1, &x)
         && row_value (w, g, r->b, set, try, depth + 1, &y) && gm_sym_compute (r->kind, x, y, out);
  }
  if (ok) {
    ROW (w, row)->values[set] = *out;
    ROW (w, row)->known |= (uint8_t) (1u << set);
  }
  return ok;
}

/* Computes the value of a size in a set into *out; false as for row_value. */
static bool
size_value (GmWitness *w, GmAlgebra *g, int64_t size, int set, int try, int64_t *out)
{
  *out = size;
  return !gm_size_is_symbolic (size) || row_value (w, g, gm_size_row (size), set, try, 0, out);
}

static bool
holds (GmRel rel, int64_t a, int64_t b)
{
  return rel == GM_REL_EQ ? a == b : rel == GM_REL_NE ? a != b : rel == GM_REL_LT ? a < b : a <= b;
}

/* -- Sets -------------------------------------------------------------------------------------- */

static bool
facts_hold (GmWitness *w, GmAlgebra *g, const GmSizeFact *facts, uint32_t n, int set, int try)
{
  int64_t a, b;
  for (uint32_t i = 0; i < n; i++)
    if (!size_value (w, g, facts[i].a, set, try, &a) || !size_value (w, g, facts[i].b, set, try, &b)
        || !holds (facts[i].rel, a, b) || !(w->alive >> set & 1))
      return false;
  return true;
}

static void
forget (GmWitness *w, int set)
{
  for (uint32_t i = 0; i < w->rows->len; i++)
    ROW (w, i)->known &= (uint8_t) ~(1u << set);
}

void
gm_witness_update (GmWitness *w, GmAlgebra *g, const GmSizeFact *facts, uint32_t n)
{
  if (w->n_facts == n)
    return;
  uint32_t seen = w->n_facts == UINT32_MAX ? 0 : w->n_facts;
  for (int set = 0; set < GM_N_WITNESSES; set++) {
    if (w->alive >> set & 1 && facts_hold (w, g, facts + seen, n - seen, set, 0))
      continue;
    bool good = false;
    for (int try = 0; !good && try < N_TRIES; try++) {
      forget (w, set);
      w->alive |= (uint8_t) (1u << set);
      good = facts_hold (w, g, facts, n, set, try);
    }
    if (!good)
      w->alive &= (uint8_t) ~(1u << set);
  }
  w->n_facts = n;
}

/* Computes the values of a size in all sets into values[...]; returns, as bits, the valid sets
 * in which the size has a value. */
static unsigned
size_values (GmWitness *w, GmAlgebra *g, int64_t size, int64_t *values)
{
  int64_t v;
  if (!gm_size_is_symbolic (size)) {
    for (int set = 0; set < GM_N_WITNESSES; set++)
      values[set] = size;
    return w->alive;
  }
  uint32_t row = gm_size_row (size);
  if (row >= w->rows->len || w->alive & ~ROW (w, row)->known)
    for (int set = 0; set < GM_N_WITNESSES; set++)
      if (w->alive >> set & 1)
        row_value (w, g, row, set, 0, 0, &v);
  const GmWitnessRow *r = ROW (w, row);
  for (int set = 0; set < GM_N_WITNESSES; set++)
    values[set] = r->values[set];
  return r->known & w->alive;
}

unsigned
gm_witness_compare (GmWitness *w, GmAlgebra *g, int64_t a, int64_t b)
{
  int64_t x[GM_N_WITNESSES], y[GM_N_WITNESSES];
  if (!w->alive)
    return 0;
  unsigned known = size_values (w, g, a, x), was = 0;
  known &= size_values (w, g, b, y) & w->alive; /* a new symbol may have ended a set */
  for (int set = 0; set < GM_N_WITNESSES; set++)
    was |= (known >> set & 1)
           * (unsigned) ((x[set] < y[set]) * GM_WAS_LESS | (x[set] == y[set]) * GM_WAS_EQUAL
                         | (x[set] > y[set]) * GM_WAS_GREATER);
  return was;
}
