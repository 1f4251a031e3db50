/* SPDX-License-Identifier: Apache-2.0
 * algebra.c -- forms of size expressions, their intervals and residues.  See algebra.h.
 */
#include "core/sym/algebra.h"

#include "core/sym/interval.h"
#include "core/sym/sym_private.h"

#define ATOM(g, i) (&g_array_index ((g)->atoms, GmAtom, (i)))
#define FORM(g, i) (&g_array_index ((g)->forms, GmForm, (i)))

/* Largest modulus for which steps are made and congruences are combined: larger moduli do not
 * occur in shapes. */
#define LARGEST_STEP (1 << 20)

/* -- Tables ------------------------------------------------------------------------------------ */

static uint32_t
hash_atom (const GmAtom *x)
{
  uint64_t h = (x->kind + UINT64_C (1)) * UINT64_C (0x9e3779b97f4a7c15);
  h = (h ^ x->a ^ h >> 31) * UINT64_C (0x9e3779b97f4a7c15);
  return (uint32_t) ((h ^ x->b ^ h >> 31) * UINT64_C (0x9e3779b97f4a7c15) >> 32);
}

static void
slots_reset (GmSlots *t)
{
  g_free (t->slots);
  t->n_slots = 64;
  t->slots = g_new0 (uint32_t, t->n_slots);
}

/* Returns the index of the atom (kind, a, b) among the atoms; appends it if it is new. */
static uint32_t
cons_atom (GmAlgebra *g, GmAtomKind kind, uint32_t a, uint32_t b)
{
  GmSlots *t = &g->atom_slots;
  GmAtom x = { .kind = kind, .a = a, .b = b, .known = anything, .residue = { 1, 0 } };
  uint32_t at = hash_atom (&x) & (t->n_slots - 1);
  for (; t->slots[at]; at = (at + 1) & (t->n_slots - 1)) {
    const GmAtom *y = ATOM (g, t->slots[at] - 1);
    if (y->kind == kind && y->a == a && y->b == b)
      return t->slots[at] - 1;
  }
  g_array_append_val (g->atoms, x);
  t->slots[at] = g->atoms->len;
  if (g->atoms->len * 2 > t->n_slots) {
    g_free (t->slots);
    t->n_slots *= 2;
    t->slots = g_new0 (uint32_t, t->n_slots);
    for (uint32_t i = 0; i < g->atoms->len; i++) {
      for (at = hash_atom (ATOM (g, i)) & (t->n_slots - 1); t->slots[at];)
        at = (at + 1) & (t->n_slots - 1);
      t->slots[at] = i + 1;
    }
  }
  return g->atoms->len - 1;
}

static uint32_t
cons_form (GmAlgebra *g, const GmForm *x)
{
  GmSlots *t = &g->form_slots;
  uint32_t at = gm_form_hash (x) & (t->n_slots - 1);
  for (; t->slots[at]; at = (at + 1) & (t->n_slots - 1))
    if (gm_form_equal (FORM (g, t->slots[at] - 1), x))
      return t->slots[at] - 1;
  GmForm copy = *x; /* x may lie in the array */
  g_array_append_val (g->forms, copy);
  t->slots[at] = g->forms->len;
  if (g->forms->len * 2 > t->n_slots) {
    g_free (t->slots);
    t->n_slots *= 2;
    t->slots = g_new0 (uint32_t, t->n_slots);
    for (uint32_t i = 0; i < g->forms->len; i++) {
      for (at = gm_form_hash (FORM (g, i)) & (t->n_slots - 1); t->slots[at];)
        at = (at + 1) & (t->n_slots - 1);
      t->slots[at] = i + 1;
    }
  }
  return g->forms->len - 1;
}

void
gm_algebra_init (GmAlgebra *g, const GmSym *s)
{
  *g = (GmAlgebra){ .s = s, .stamp = 1 };
  g->atoms = g_array_new (FALSE, FALSE, sizeof (GmAtom));
  g->forms = g_array_new (FALSE, FALSE, sizeof (GmForm));
  g->of_row = g_array_new (FALSE, TRUE, sizeof (GmRowForm));
  slots_reset (&g->atom_slots);
  slots_reset (&g->form_slots);
}

void
gm_algebra_clear (GmAlgebra *g)
{
  g_array_unref (g->atoms);
  g_array_unref (g->forms);
  g_array_unref (g->of_row);
  g_free (g->atom_slots.slots);
  g_free (g->form_slots.slots);
}

void
gm_algebra_reset (GmAlgebra *g)
{
  g_array_set_size (g->atoms, 0);
  g_array_set_size (g->forms, 0);
  g_array_set_size (g->of_row, 0);
  slots_reset (&g->atom_slots);
  slots_reset (&g->form_slots);
  g->stamp++;
}

static GmResidue atom_residue (GmAlgebra *g, uint32_t atom);

/* -- Intervals --------------------------------------------------------------------------------- */

GmInterval
gm_algebra_atom_interval (GmAlgebra *g, uint32_t atom)
{
  GmAtom *a = ATOM (g, atom);
  if (a->span_stamp == g->stamp)
    return a->span;
  GmInterval r = anything;
  switch ((GmAtomKind) a->kind) {
  case GM_ATOM_SYMBOL: {
    const GmSymRow *row = gm_sym_row (g->s, a->a);
    r = (GmInterval){ row->min, row->max };
    break;
  }
  case GM_ATOM_ROW:
    break;
  case GM_ATOM_PRODUCT:
    r = interval_times (gm_algebra_atom_interval (g, a->a), gm_algebra_atom_interval (g, a->b));
    if (a->a == a->b)
      r.min = MAX (r.min, 0);
    break;
  case GM_ATOM_QUOTIENT: {
    GmInterval by = gm_algebra_interval (g, FORM (g, a->b));
    if (by.min >= 1)
      r = interval_quotient (gm_algebra_interval (g, FORM (g, a->a)), by);
    break;
  }
  case GM_ATOM_POSITIVE:
    r = gm_algebra_interval (g, FORM (g, a->a));
    r.min = MAX (r.min, 0);
    r.max = MAX (r.max, 0);
    break;
  case GM_ATOM_STEP: {
    GmInterval of = gm_algebra_atom_interval (g, a->a);
    int64_t rest = atom_residue (g, a->a).rest % a->b, v;
    if (of.min != INT64_MIN && !__builtin_sub_overflow (of.min, rest, &v))
      r.min = gm_floor_div (v, a->b) + (gm_floor_mod (v, a->b) > 0);
    if (of.max != INT64_MAX && !__builtin_sub_overflow (of.max, rest, &v))
      r.max = gm_floor_div (v, a->b);
    break;
  }
  }
  a = ATOM (g, atom);
  r.min = MAX (r.min, a->known.min);
  r.max = MIN (r.max, a->known.max);
  a->span = r;
  a->span_stamp = g->stamp;
  return r;
}

/* Adds bound * times to *end, or, if the bound is `open` (INT64_MIN or INT64_MAX: there is
 * none), sets *closed to false; returns false if the sum does not fit into 64 bits. */
static inline bool
end_moves (int64_t *end, bool *closed, int64_t bound, int64_t open, int64_t times)
{
  int64_t part;
  *closed &= bound != open;
  return !*closed
         || (!__builtin_mul_overflow (bound, times, &part)
             && !__builtin_add_overflow (*end, part, end));
}

GmInterval
gm_algebra_interval (GmAlgebra *g, const GmForm *x)
{
  GmForm copy; /* it may lie in the array of forms */
  gm_form_copy (x, &copy);
  int64_t low = copy.constant, high = copy.constant;
  bool has_low = true, has_high = true, fits = true;
  for (uint32_t i = 0; i < copy.n_terms && fits; i++) {
    GmInterval a = gm_algebra_atom_interval (g, copy.terms[i].atom);
    int64_t times = copy.terms[i].times;
    bool up = times > 0;
    fits = end_moves (&low, &has_low, up ? a.min : a.max, up ? INT64_MIN : INT64_MAX, times)
           && end_moves (&high, &has_high, up ? a.max : a.min, up ? INT64_MAX : INT64_MIN, times);
  }
  if (fits)
    return (GmInterval){ has_low ? low : INT64_MIN, has_high ? high : INT64_MAX };
  Wide lo = copy.constant, hi = copy.constant;
  for (uint32_t i = 0; i < copy.n_terms; i++) {
    GmInterval a = gm_algebra_atom_interval (g, copy.terms[i].atom);
    Wide times = copy.terms[i].times;
    Wide p = wide_times (times, wide_min (a.min)), q = wide_times (times, wide_max (a.max));
    Wide least = MIN (p, q), most = MAX (p, q);
    lo = lo == -FAR || least == -FAR ? -FAR : lo + least;
    hi = hi == FAR || most == FAR ? FAR : hi + most;
  }
  return (GmInterval){ narrow_bound (lo), narrow_bound (hi) };
}

/* -- Residues ---------------------------------------------------------------------------------- */

/* Combines two residues that both hold into *out: by the Chinese remainder theorem where the
 * result fits, else the residue with the larger modulus.  False: both cannot hold. */
static bool
residue_both (GmResidue x, GmResidue y, GmResidue *out)
{
  if (x.modulus < y.modulus) {
    GmResidue t = x;
    x = y;
    y = t;
  }
  *out = x;
  int64_t common = gm_gcd (x.modulus, y.modulus);
  if (gm_floor_mod (x.rest, common) != gm_floor_mod (y.rest, common))
    return false;
  Wide lcm = (Wide) x.modulus / common * y.modulus;
  if (lcm > LARGEST_STEP) /* the search below is linear */
    return true;
  for (int64_t v = x.rest; v < lcm; v += x.modulus)
    if (gm_floor_mod (v, y.modulus) == gm_floor_mod (y.rest, y.modulus)) {
      *out = (GmResidue){ (int64_t) lcm, v };
      break;
    }
  return true;
}

static GmResidue
residue_of (Wide modulus, Wide rest)
{
  if (modulus < 0)
    modulus = -modulus;
  if (!modulus)
    return rest == (int64_t) rest ? (GmResidue){ 0, (int64_t) rest } : (GmResidue){ 1, 0 };
  if (modulus > INT64_MAX)
    return (GmResidue){ 1, 0 };
  Wide r = rest % modulus;
  return (GmResidue){ (int64_t) modulus, (int64_t) (r < 0 ? r + modulus : r) };
}

static GmResidue
atom_residue (GmAlgebra *g, uint32_t atom)
{
  const GmAtom a = *ATOM (g, atom);
  GmResidue r = { 1, 0 };
  if (a.rests_stamp == g->stamp)
    return a.rests;
  if (a.kind == GM_ATOM_SYMBOL) {
    r.modulus = gm_sym_row (g->s, a.a)->multiple_of;
  } else if (a.kind == GM_ATOM_PRODUCT) { /* (m i + p) (n j + q) */
    GmResidue x = atom_residue (g, a.a), y = atom_residue (g, a.b);
    if (x.modulus <= INT32_MAX && y.modulus <= INT32_MAX)
      r = residue_of (
          gm_gcd (gm_gcd (x.modulus * y.modulus, x.modulus * y.rest), y.modulus * x.rest),
          (Wide) x.rest * y.rest);
  }
  GmResidue both;
  ATOM (g, atom)->rests = residue_both (r, a.residue, &both) ? both : r;
  ATOM (g, atom)->rests_stamp = g->stamp;
  return ATOM (g, atom)->rests;
}

GmResidue
gm_algebra_residue (GmAlgebra *g, const GmForm *x)
{
  Wide rest = x->constant;
  uint64_t modulus = 0;
  for (uint32_t i = 0; i < x->n_terms && modulus != 1; i++) {
    GmResidue r = atom_residue (g, x->terms[i].atom);
    Wide step = (Wide) x->terms[i].times * r.modulus;
    if (step > INT64_MAX || step < -INT64_MAX)
      step = x->terms[i].times == INT64_MIN ? 1 : x->terms[i].times; /* a divisor of it */
    modulus = gm_gcd (modulus, (int64_t) step);
    rest += (Wide) x->terms[i].times * r.rest;
  }
  return residue_of (modulus, rest);
}

/* -- Products ---------------------------------------------------------------------------------- */

#define MAX_DEGREE 6

static uint32_t
factors_of (const GmAlgebra *g, uint32_t atom, uint32_t factors[MAX_DEGREE])
{
  uint32_t n = 0;
  for (; ATOM (g, atom)->kind == GM_ATOM_PRODUCT; atom = ATOM (g, atom)->b)
    factors[n++] = ATOM (g, atom)->a;
  factors[n++] = atom;
  return n;
}

static uint32_t
product_of (GmAlgebra *g, const uint32_t *factors, uint32_t n)
{
  uint32_t r = factors[n - 1];
  for (uint32_t i = n - 1; i-- > 0;)
    r = cons_atom (g, GM_ATOM_PRODUCT, factors[i], r);
  return r;
}

static bool
atom_product (GmAlgebra *g, uint32_t x, uint32_t y, uint32_t *out)
{
  uint32_t p[MAX_DEGREE], q[MAX_DEGREE], both[2 * MAX_DEGREE];
  uint32_t n = factors_of (g, x, p), m = factors_of (g, y, q), i = 0, j = 0, k = 0;
  if (n + m > MAX_DEGREE)
    return false;
  while (i < n || j < m)
    both[k++] = j == m || (i < n && p[i] <= q[j]) ? p[i++] : q[j++];
  *out = product_of (g, both, k);
  return true;
}

/* Divides atom x by atom y: *out is the atom with x = y * out.  *is_one: true if x and y are the
 * same.  False: the division is not exact. */
static bool
atom_exact (GmAlgebra *g, uint32_t x, uint32_t y, uint32_t *out, bool *is_one)
{
  uint32_t p[MAX_DEGREE], q[MAX_DEGREE], rest[MAX_DEGREE];
  uint32_t n = factors_of (g, x, p), m = factors_of (g, y, q), j = 0, k = 0;
  for (uint32_t i = 0; i < n; i++)
    if (j < m && p[i] == q[j])
      j++;
    else
      rest[k++] = p[i];
  *is_one = !k;
  if (j < m)
    return false;
  if (k)
    *out = product_of (g, rest, k);
  return true;
}

bool
gm_algebra_product (GmAlgebra *g, const GmForm *x, const GmForm *y, GmForm *out)
{
  GmForm sum, part;
  if (!gm_form_scale (x, y->constant, &sum))
    return false;
  for (uint32_t j = 0; j < y->n_terms; j++) {
    part = gm_form_atom (y->terms[j].atom);
    if (!gm_form_scale (&part, x->constant, &part)
        || !gm_form_add (&sum, &part, y->terms[j].times, &sum))
      return false;
    for (uint32_t i = 0; i < x->n_terms; i++) {
      uint32_t atom;
      if (!atom_product (g, x->terms[i].atom, y->terms[j].atom, &atom))
        return false;
      part = gm_form_atom (atom);
      if (!gm_form_scale (&part, x->terms[i].times, &part)
          || !gm_form_add (&sum, &part, y->terms[j].times, &sum))
        return false;
    }
  }
  *out = sum;
  return true;
}

/* -- Quotients --------------------------------------------------------------------------------- */

static bool
quotient_atom (GmAlgebra *g, const GmForm *whole, const GmForm *x, const GmForm *y, GmForm *out)
{
  uint32_t a = cons_form (g, x), b = cons_form (g, y);
  GmForm atom = gm_form_atom (cons_atom (g, GM_ATOM_QUOTIENT, a, b));
  return gm_form_add (whole, &atom, 1, out);
}

/* Computes x // k in *out, for k > 0: multiples of k are taken out of the quotient, common
 * divisors are cancelled, nested quotients become one.  False if the result does not fit. */
static bool
quotient_const (GmAlgebra *g, const GmForm *x, int64_t k, GmForm *out)
{
  GmForm whole = gm_form_const (gm_floor_div (x->constant, k));
  GmForm rest = gm_form_const (gm_floor_mod (x->constant, k));
  for (uint32_t i = 0; i < x->n_terms; i++) {
    GmForm atom = gm_form_atom (x->terms[i].atom);
    if (!gm_form_add (&whole, &atom, gm_floor_div (x->terms[i].times, k), &whole)
        || !gm_form_add (&rest, &atom, gm_floor_mod (x->terms[i].times, k), &rest))
      return false;
  }
  GmInterval r = gm_algebra_interval (g, &rest);
  if (r.min != INT64_MIN && r.max != INT64_MAX
      && gm_floor_div (r.min, k) == gm_floor_div (r.max, k)) {
    GmForm value = gm_form_const (gm_floor_div (r.min, k));
    return gm_form_add (&whole, &value, 1, out);
  }
  int64_t common = gm_gcd (gm_form_content (&rest), k);
  if (common > 1) {
    for (uint32_t i = 0; i < rest.n_terms; i++)
      rest.terms[i].times /= common;
    rest.constant = gm_floor_div (rest.constant, common);
    k /= common;
  }
  const GmAtom *inner =
      rest.n_terms == 1 && rest.terms[0].times == 1 ? ATOM (g, rest.terms[0].atom) : NULL;
  if (inner && inner->kind == GM_ATOM_QUOTIENT && !FORM (g, inner->b)->n_terms) {
    int64_t by = FORM (g, inner->b)->constant, both, shift;
    GmForm x_in = *FORM (g, inner->a);
    if (by > 0 && !__builtin_mul_overflow (by, k, &both)
        && !__builtin_mul_overflow (rest.constant, by, &shift)
        && !__builtin_add_overflow (x_in.constant, shift, &x_in.constant)) {
      GmForm q;
      return quotient_const (g, &x_in, both, &q) && gm_form_add (&whole, &q, 1, out);
    }
  }
  GmForm divisor = gm_form_const (k);
  return quotient_atom (g, &whole, &rest, &divisor, out);
}

static bool
quotient (GmAlgebra *g, const GmForm *x, const GmForm *y, GmForm *out)
{
  if (!y->n_terms) {
    GmForm minus;
    if (y->constant > 0)
      return quotient_const (g, x, y->constant, out);
    return y->constant < 0 && y->constant != INT64_MIN && gm_form_scale (x, -1, &minus)
           && quotient_const (g, &minus, -y->constant, out);
  }
  /* Multiples of y are taken out: y itself, and monomials by a monomial. */
  GmForm whole = gm_form_const (0), rest = *x, x_way, y_way;
  int64_t x_scale, y_scale;
  if (y->n_terms == 1 && !y->constant) {
    rest = gm_form_const (x->constant);
    for (uint32_t i = 0; i < x->n_terms; i++) {
      uint32_t atom = 0;
      bool is_one = false;
      int64_t times = x->terms[i].times;
      bool exact = times % y->terms[0].times == 0
                   && atom_exact (g, x->terms[i].atom, y->terms[0].atom, &atom, &is_one);
      GmForm part = !exact   ? gm_form_atom (x->terms[i].atom)
                    : is_one ? gm_form_const (1)
                             : gm_form_atom (atom);
      GmForm *to = exact ? &whole : &rest;
      if (!gm_form_add (to, &part, exact ? times / y->terms[0].times : times, to))
        return false;
    }
  } else if (gm_form_direction (x, &x_way, &x_scale) && gm_form_direction (y, &y_way, &y_scale)
             && gm_form_equal (&x_way, &y_way) && x_scale % y_scale == 0) {
    int64_t q = x_scale / y_scale;
    GmForm left;
    if (gm_form_add (x, y, -q, &left) && !left.n_terms) {
      whole = gm_form_const (q);
      rest = left;
    }
  }
  if (!rest.n_terms && !rest.constant) {
    *out = whole;
    return true;
  }
  GmInterval by = gm_algebra_interval (g, y), r = gm_algebra_interval (g, &rest);
  if (by.min >= 1 && r.min >= 0 && r.max < by.min) {
    *out = whole;
    return true;
  }
  return quotient_atom (g, &whole, &rest, y, out);
}

/* -- max (x, 0) -------------------------------------------------------------------------------- */

static bool
positive (GmAlgebra *g, const GmForm *x, GmForm *out)
{
  GmInterval r = gm_algebra_interval (g, x);
  if (r.min >= 0 || r.max <= 0) {
    *out = r.min >= 0 ? *x : gm_form_const (0);
    return true;
  }
  GmForm inner = *x;
  int64_t common = gm_gcd (gm_form_content (x), x->constant);
  bool minus = x->terms[0].times < 0;
  for (uint32_t i = 0; i < inner.n_terms; i++)
    inner.terms[i].times /= common;
  inner.constant /= common;
  if (minus && !gm_form_scale (&inner, -1, &inner))
    return false;
  GmForm atom = gm_form_atom (cons_atom (g, GM_ATOM_POSITIVE, cons_form (g, &inner), 0));
  GmForm base = minus ? *x : gm_form_const (0); /* max (x, 0) = x + max (-x, 0) */
  return gm_form_add (&base, &atom, common, out);
}

/* -- Rows to forms, forms up to date ----------------------------------------------------------- */

static bool
combine (GmAlgebra *g, GmSymKind kind, const GmForm *a, const GmForm *b, GmForm *out)
{
  GmForm x, y;
  switch (kind) {
  case GM_SYM_ADD:
    return gm_form_add (a, b, 1, out);
  case GM_SYM_MUL:
    return gm_algebra_product (g, a, b, out);
  case GM_SYM_FLOORDIV:
    return quotient (g, a, b, out);
  case GM_SYM_MOD:
    return quotient (g, a, b, &x) && gm_algebra_product (g, &x, b, &y)
           && gm_form_add (a, &y, -1, out);
  case GM_SYM_MIN:
    return gm_form_add (a, b, -1, &x) && positive (g, &x, &y) && gm_form_add (a, &y, -1, out);
  case GM_SYM_MAX:
    return gm_form_add (a, b, -1, &x) && positive (g, &x, &y) && gm_form_add (b, &y, 1, out);
  default:
    return false;
  }
}

uint32_t
gm_algebra_symbol (GmAlgebra *g, uint32_t row)
{
  return cons_atom (g, GM_ATOM_SYMBOL, row, 0);
}

static void
form_of_row (GmAlgebra *g, uint32_t row, GmForm *out)
{
  if (row < g->of_row->len && g_array_index (g->of_row, GmRowForm, row).made) {
    gm_form_copy (FORM (g, g_array_index (g->of_row, GmRowForm, row).made - 1), out);
    return;
  }
  const GmSymRow r = *gm_sym_row (g->s, row);
  GmForm a, b;
  if (r.kind == GM_SYM_CONST) {
    *out = gm_form_const (r.value);
  } else if (r.kind == GM_SYM_SYMBOL) {
    *out = gm_form_atom (gm_algebra_symbol (g, row));
  } else {
    form_of_row (g, r.a, &a);
    form_of_row (g, r.b, &b);
    if (!combine (g, r.kind, &a, &b, out))
      *out = gm_form_atom (cons_atom (g, GM_ATOM_ROW, row, 0));
  }
  if (row >= g->of_row->len)
    g_array_set_size (g->of_row, row + 1);
  uint32_t form = cons_form (g, out) + 1;
  g_array_index (g->of_row, GmRowForm, row).made = form;
}

static bool
atom_now (GmAlgebra *g, uint32_t atom, GmForm *out)
{
  const GmAtom a = *ATOM (g, atom);
  if (a.stamp == g->stamp) {
    gm_form_copy (FORM (g, a.now - 1), out);
    return true;
  }
  GmForm x, y;
  bool ok = true;
  *out = gm_form_atom (atom);
  switch ((GmAtomKind) a.kind) {
  case GM_ATOM_SYMBOL: {
    GmResidue r = atom_residue (g, atom);
    if (a.equal_to) {
      ok = gm_algebra_now (g, FORM (g, a.equal_to - 1), out);
    } else if (r.modulus > 1 && r.modulus <= LARGEST_STEP) {
      x = gm_form_atom (cons_atom (g, GM_ATOM_STEP, atom, (uint32_t) r.modulus));
      ok = gm_form_scale (&x, r.modulus, out);
      out->constant += r.rest;
    }
    break;
  }
  case GM_ATOM_STEP: /* the step may be a multiple of the former step by now */
    ok = atom_now (g, a.a, &x);
    x.constant -= atom_residue (g, a.a).rest % a.b;
    for (uint32_t i = 0; i < x.n_terms && ok; i++) {
      ok = x.terms[i].times % a.b == 0;
      x.terms[i].times /= a.b;
    }
    ok = ok && x.constant % a.b == 0;
    x.constant /= a.b;
    *out = x;
    break;
  case GM_ATOM_ROW:
    break;
  case GM_ATOM_PRODUCT:
    ok = atom_now (g, a.a, &x) && atom_now (g, a.b, &y) && gm_algebra_product (g, &x, &y, out);
    break;
  case GM_ATOM_QUOTIENT:
    ok = gm_algebra_now (g, FORM (g, a.a), &x) && gm_algebra_now (g, FORM (g, a.b), &y)
         && quotient (g, &x, &y, out);
    break;
  case GM_ATOM_POSITIVE:
    ok = gm_algebra_now (g, FORM (g, a.a), &x) && positive (g, &x, out);
    break;
  }
  if (!ok) /* too large now: the former form is as true */
    *out = gm_form_atom (atom);
  if (out->n_terms == 1 && !out->constant && out->terms[0].times == 1) {
    GmInterval r = gm_algebra_atom_interval (g, out->terms[0].atom);
    if (r.min == r.max)
      *out = gm_form_const (r.min);
  }
  uint32_t form = cons_form (g, out) + 1;
  ATOM (g, atom)->now = form;
  ATOM (g, atom)->stamp = g->stamp;
  return true;
}

/* Replaces k * (x // k) in a form by x - (x % k) where the residue of x modulo k is known.
 * False if the result does not fit. */
static bool
settle (GmAlgebra *g, GmForm *x)
{
  for (uint32_t i = 0; i < x->n_terms; i++) {
    const GmAtom *a = ATOM (g, x->terms[i].atom);
    if (a->kind != GM_ATOM_QUOTIENT || FORM (g, a->b)->n_terms)
      continue;
    int64_t k = FORM (g, a->b)->constant, times = x->terms[i].times;
    GmForm of = *FORM (g, a->a), atom = gm_form_atom (x->terms[i].atom);
    GmResidue r = gm_algebra_residue (g, &of);
    if (times % k || r.modulus % k)
      continue;
    of.constant -= gm_floor_mod (r.rest, k);
    if (!gm_form_add (x, &atom, -times, x) || !gm_form_add (x, &of, times / k, x))
      return false;
    i = (uint32_t) -1; /* the terms have moved */
  }
  return true;
}

bool
gm_algebra_now (GmAlgebra *g, const GmForm *x, GmForm *out)
{
  GmForm copy, sum, part;
  gm_form_copy (x, &copy);
  sum.constant = x->constant;
  sum.n_terms = 0;
  for (uint32_t i = 0; i < copy.n_terms; i++)
    if (!atom_now (g, copy.terms[i].atom, &part)
        || !gm_form_add (&sum, &part, copy.terms[i].times, &sum))
      return false;
  gm_form_copy (&sum, out);
  return settle (g, out);
}

/* Returns the index, among the forms, of the row's form with all facts so far. */
static uint32_t
now_of_row (GmAlgebra *g, uint32_t row)
{
  if (row < g->of_row->len && g_array_index (g->of_row, GmRowForm, row).now
      && g_array_index (g->of_row, GmRowForm, row).stamp == g->stamp)
    return g_array_index (g->of_row, GmRowForm, row).now - 1;
  GmForm raw, now;
  form_of_row (g, row, &raw);
  uint32_t form = cons_form (g, gm_algebra_now (g, &raw, &now) ? &now : &raw);
  g_array_index (g->of_row, GmRowForm, row).now = form + 1;
  g_array_index (g->of_row, GmRowForm, row).stamp = g->stamp;
  return form;
}

void
gm_algebra_of (GmAlgebra *g, int64_t size, GmForm *out)
{
  if (!gm_size_is_symbolic (size)) {
    *out = gm_form_const (size);
    return;
  }
  uint32_t now = now_of_row (g, gm_size_row (size));
  gm_form_copy (FORM (g, now), out);
}

bool
gm_algebra_difference (GmAlgebra *g, int64_t a, int64_t b, GmForm *out)
{
  if (!gm_size_is_symbolic (b)) {
    gm_algebra_of (g, a, out);
    return !__builtin_sub_overflow (out->constant, b, &out->constant);
  }
  uint32_t y = now_of_row (g, gm_size_row (b));
  if (gm_size_is_symbolic (a)) {
    uint32_t x = now_of_row (g, gm_size_row (a));
    return gm_form_add (FORM (g, x), FORM (g, y), -1, out);
  }
  return gm_form_scale (FORM (g, y), -1, out)
         && !__builtin_add_overflow (out->constant, a, &out->constant);
}

bool
gm_algebra_hides (const GmAlgebra *g, const GmForm *x, uint32_t symbol)
{
  for (uint32_t i = 0; i < x->n_terms; i++) {
    const GmAtom *a = ATOM (g, x->terms[i].atom);
    GmForm inner;
    switch ((GmAtomKind) a->kind) {
    case GM_ATOM_SYMBOL:
      continue;
    case GM_ATOM_STEP:
      if (a->a == symbol)
        return true;
      continue;
    case GM_ATOM_ROW:
      return true; /* not looked into */
    case GM_ATOM_PRODUCT: {
      uint32_t f[MAX_DEGREE], n = factors_of (g, x->terms[i].atom, f);
      for (uint32_t j = 0; j < n; j++) {
        inner = gm_form_atom (f[j]);
        if (f[j] == symbol || gm_algebra_hides (g, &inner, symbol))
          return true;
      }
      continue;
    }
    case GM_ATOM_QUOTIENT:
      if (gm_form_times (FORM (g, a->b), symbol) || gm_algebra_hides (g, FORM (g, a->b), symbol))
        return true;
      /* fall through */
    case GM_ATOM_POSITIVE:
      if (gm_form_times (FORM (g, a->a), symbol) || gm_algebra_hides (g, FORM (g, a->a), symbol))
        return true;
    }
  }
  return false;
}

/* -- Adding facts ------------------------------------------------------------------------------ */

bool
gm_algebra_narrow (GmAlgebra *g, uint32_t atom, GmInterval within)
{
  GmInterval was = gm_algebra_atom_interval (g, atom);
  GmAtom *a = ATOM (g, atom);
  if (within.min > was.min || within.max < was.max) {
    a->known.min = MAX (a->known.min, within.min);
    a->known.max = MIN (a->known.max, within.max);
    g->stamp++;
  }
  return MAX (was.min, within.min) <= MIN (was.max, within.max);
}

bool
gm_algebra_congruent (GmAlgebra *g, uint32_t atom, GmResidue residue)
{
  GmResidue was = atom_residue (g, atom), both;
  if (!residue_both (was, residue, &both))
    return false;
  if (both.modulus != was.modulus) {
    ATOM (g, atom)->residue = both;
    g->stamp++;
  }
  return true;
}

void
gm_algebra_equate (GmAlgebra *g, uint32_t symbol, const GmForm *x)
{
  uint32_t form = cons_form (g, x) + 1;
  ATOM (g, symbol)->equal_to = form;
  g->stamp++;
}
