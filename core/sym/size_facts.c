/* SPDX-License-Identifier: Apache-2.0
 * size_facts.c -- questions about sizes, answered from the known facts.  See size_facts.h.
 *
 * Facts are kept as they were added; their consequences (`derive`) are worked out when a question
 * is asked after an addition: equalities that can be solved for a symbol replace it, bounds of one
 * atom narrow it, a % k == c becomes its congruence, and the rest are bounds of directions (forms
 * without constant and content), found by hash.
 *
 * "x >= 0" is proved by intervals, by the bounds of x's direction, by rounding to its residue, by
 * treating max (y, 0) once as y and once as 0, and by subtracting a multiple of one fact and
 * proving the remainder: a search of a few steps, as in Fourier and Motzkin's elimination, with a
 * budget.
 */
#include "core/sym/size_facts.h"

#include <string.h>

#include "core/sym/witness.h"

/* A derived bound: min <= direction <= max. */
typedef struct {
  GmForm direction;
  int64_t min, max;
} Bound;

/* A derived inequality: direction is not `value`. */
typedef struct {
  GmForm direction;
  int64_t value;
} Other;

/* Facts that held for a symbol which an equality replaced by `value`: they hold for that form. */
typedef struct {
  GmForm value;
  GmInterval range;
  GmResidue residue;
} Solved;

/* A derived congruence, direction = residue, for directions of more than one atom. */
typedef struct {
  GmForm direction;
  GmResidue residue;
} Congruence;

/* A cached answer to a question a == b or a <= b. */
typedef struct {
  int64_t a, b;
  uint32_t stamp; /* stamp of the facts when it was found; 0: the slot is empty */
  uint8_t rel, truth;
} Answer;

#define N_ANSWERS 1024 /* a power of two */

struct GmSizeFacts {
  const GmSym *s;
  GArray *facts; /* GmSizeFact */
  GmAlgebra algebra;
  GmWitness witness;
  GArray *bounds, *others, *congruences, *solved;
  uint32_t n_derived; /* number of facts that the arrays above cover */
  uint32_t stamp;     /* raised with each derivation */
  bool absurd;        /* true if the facts contradict each other, so that everything follows */
  Answer *answers;
};

GmSizeFacts *
gm_size_facts_new (const GmSym *s)
{
  GmSizeFacts *f = g_new0 (GmSizeFacts, 1);
  f->s = s;
  f->stamp = 1;
  f->facts = g_array_new (FALSE, FALSE, sizeof (GmSizeFact));
  f->bounds = g_array_new (FALSE, FALSE, sizeof (Bound));
  f->others = g_array_new (FALSE, FALSE, sizeof (Other));
  f->congruences = g_array_new (FALSE, FALSE, sizeof (Congruence));
  f->solved = g_array_new (FALSE, FALSE, sizeof (Solved));
  f->answers = g_new0 (Answer, N_ANSWERS);
  gm_algebra_init (&f->algebra, s);
  gm_witness_init (&f->witness, s);
  return f;
}

void
gm_size_facts_free (GmSizeFacts *f)
{
  if (!f)
    return;
  gm_algebra_clear (&f->algebra);
  gm_witness_clear (&f->witness);
  g_array_unref (f->facts);
  g_array_unref (f->bounds);
  g_array_unref (f->others);
  g_array_unref (f->congruences);
  g_array_unref (f->solved);
  g_free (f->answers);
  g_free (f);
}

uint32_t
gm_size_facts_n (const GmSizeFacts *f)
{
  return f->facts->len;
}

GmSizeFact
gm_size_facts_nth (const GmSizeFacts *f, uint32_t i)
{
  g_assert (i < f->facts->len);
  return g_array_index (f->facts, GmSizeFact, i);
}

/* -- Proofs ------------------------------------------------------------------------------------ */

/* Limits of the cost of a question: number of remainders tried, and how deep they nest. */
#define BUDGET 48
#define DEPTH 4

static bool at_least_0 (GmSizeFacts *f, const GmForm *x, int depth, int *budget);

/* Computes in *out the form x with an atom replaced by the form `by`.  False if it does not fit. */
static bool
replaced (const GmForm *x, uint32_t atom, const GmForm *by, GmForm *out)
{
  int64_t times = gm_form_times (x, atom);
  GmForm a = gm_form_atom (atom);
  return gm_form_add (x, &a, -times, out) && gm_form_add (out, by, times, out);
}

/* Proves x >= 0 from min <= y <= max: finds a multiple of y whose subtraction from x eliminates
 * `atom`, and proves that the remainder is large enough.  depth, budget: of the search so far.
 * False: no proof. */
static bool
by_bound (GmSizeFacts *f, const GmForm *x, uint32_t atom, const GmForm *y, int64_t min, int64_t max,
          int depth, int *budget)
{
  int64_t p = gm_form_times (x, atom), q = gm_form_times (y, atom);
  if (!p || !q || q == INT64_MIN)
    return false;
  int64_t m = q / gm_gcd (p, q), t, part; /* m x - t y has no atom */
  m = m < 0 ? -m : m;
  GmForm rest;
  if (__builtin_mul_overflow (p, m, &t) || !gm_form_scale (x, m, &rest))
    return false;
  t /= q;
  int64_t bound = t > 0 ? min : max;
  if (bound == INT64_MIN || bound == INT64_MAX || !gm_form_add (&rest, y, -t, &rest)
      || __builtin_mul_overflow (bound, t, &part)
      || __builtin_add_overflow (rest.constant, part, &rest.constant)
      || __builtin_add_overflow (rest.constant, m - 1, &rest.constant)) /* m x > -m is x >= 0 */
    return false;
  return at_least_0 (f, &rest, depth + 1, budget);
}

/* Proves x >= 0 as by_bound does, from what is known of the product `of` = p * q where q >= 0:
 * the product lies between p's bounds times q. */
static bool
by_factor (GmSizeFacts *f, const GmForm *x, uint32_t atom, uint32_t of, uint32_t p, uint32_t q,
           int depth, int *budget)
{
  GmInterval r = gm_algebra_atom_interval (&f->algebra, p);
  if (gm_algebra_atom_interval (&f->algebra, q).min < 0)
    return false;
  GmForm self = gm_form_atom (of), as_q = gm_form_atom (q), y;
  return (r.min != INT64_MIN && gm_form_add (&self, &as_q, -r.min, &y)
          && by_bound (f, x, atom, &y, 0, INT64_MAX, depth, budget))
         || (r.max != INT64_MAX && r.max != r.min && gm_form_add (&self, &as_q, -r.max, &y)
             && by_bound (f, x, atom, &y, INT64_MIN, 0, depth, budget));
}

/* Proves x >= 0 as by_bound does, from what the kind of atom `of` implies: 0 <= y - k (y // k)
 * <= k - 1, max (y, 0) >= y, or bounds of a product. */
static bool
by_nature (GmSizeFacts *f, const GmForm *x, uint32_t atom, uint32_t of, int depth, int *budget)
{
  const GmAtom a = *gm_algebra_atom (&f->algebra, of);
  if (a.kind == GM_ATOM_SYMBOL || a.kind == GM_ATOM_ROW || a.kind == GM_ATOM_STEP)
    return false;
  GmForm self = gm_form_atom (of), y, by;
  if (a.kind == GM_ATOM_POSITIVE) {
    y = *gm_algebra_form (&f->algebra, a.a);
    return gm_form_add (&self, &y, -1, &y)
           && by_bound (f, x, atom, &y, 0, INT64_MAX, depth, budget);
  }
  if (a.kind == GM_ATOM_PRODUCT)
    return by_factor (f, x, atom, of, a.a, a.b, depth, budget)
           || by_factor (f, x, atom, of, a.b, a.a, depth, budget);
  if (a.kind != GM_ATOM_QUOTIENT)
    return false;
  y = *gm_algebra_form (&f->algebra, a.a);
  by = *gm_algebra_form (&f->algebra, a.b);
  if (gm_algebra_interval (&f->algebra, &by).min < 1
      || !gm_algebra_product (&f->algebra, &self, &by, &self) || !gm_form_add (&y, &self, -1, &y))
    return false;
  if (by_bound (f, x, atom, &y, 0, by.n_terms ? INT64_MAX : by.constant - 1, depth, budget))
    return true;
  return by.n_terms && gm_form_add (&by, &y, -1, &y)
         && by_bound (f, x, atom, &y, 1, INT64_MAX, depth, budget);
}

/* Proves x >= 0 in two cases, for an atom max (y, 0): the atom is y where y >= 0, and 0 where y
 * <= 0. */
static bool
by_cases (GmSizeFacts *f, const GmForm *x, uint32_t atom, int depth, int *budget)
{
  GmForm y = *gm_algebra_form (&f->algebra, gm_algebra_atom (&f->algebra, atom)->a);
  GmForm zero = gm_form_const (0), as_y, as_0, more;
  if (!replaced (x, atom, &y, &as_y) || !replaced (x, atom, &zero, &as_0))
    return false;
  return (at_least_0 (f, &as_y, depth + 1, budget)
          || (gm_form_add (&as_y, &y, -1, &more) && at_least_0 (f, &more, depth + 1, budget)))
         && (at_least_0 (f, &as_0, depth + 1, budget)
             || (gm_form_add (&as_0, &y, 1, &more) && at_least_0 (f, &more, depth + 1, budget)));
}

static const Bound *
bound_of (const GmSizeFacts *f, const GmForm *direction)
{
  for (uint32_t i = 0; i < f->bounds->len; i++) {
    const Bound *b = &g_array_index (f->bounds, Bound, i);
    if (gm_form_equal (&b->direction, direction))
      return b;
  }
  return NULL;
}

/* Returns a lower bound of x: from its interval and its direction's bounds, rounded up to its
 * residue; INT64_MIN: no bound. */
static int64_t
least (GmSizeFacts *f, const GmForm *x)
{
  int64_t min = gm_algebra_interval (&f->algebra, x).min, scale, v;
  GmForm direction;
  if (x->n_terms > 1 && f->bounds->len && gm_form_direction (x, &direction, &scale)) {
    const Bound *b = bound_of (f, &direction);
    int64_t end = !b ? INT64_MIN : scale > 0 ? b->min : b->max;
    if (end != INT64_MIN && end != INT64_MAX && !__builtin_mul_overflow (end, scale, &v)
        && !__builtin_add_overflow (v, x->constant, &v))
      min = MAX (min, v);
  }
  if (min != INT64_MIN && min < 0) {
    GmResidue r = gm_algebra_residue (&f->algebra, x);
    if (r.modulus > 1)
      min += gm_floor_mod (r.rest - gm_floor_mod (min, r.modulus), r.modulus);
  }
  return min;
}

static bool
at_least_0 (GmSizeFacts *f, const GmForm *x, int depth, int *budget)
{
  if (!x->n_terms)
    return x->constant >= 0;
  if (least (f, x) >= 0)
    return true;
  if (depth >= DEPTH || --*budget < 0)
    return false;
  for (uint32_t i = 0; i < x->n_terms; i++)
    if (gm_algebra_atom (&f->algebra, x->terms[i].atom)->kind == GM_ATOM_POSITIVE
        && by_cases (f, x, x->terms[i].atom, depth, budget))
      return true;
  /* Terms without a bound on the relevant side must be eliminated; if there are none, any term may
   * be. */
  bool unbounded = false;
  for (int round = 0; round < 2 && !unbounded; round++)
    for (uint32_t i = 0; i < x->n_terms; i++) {
      GmInterval r = gm_algebra_atom_interval (&f->algebra, x->terms[i].atom);
      bool open = x->terms[i].times > 0 ? r.min == INT64_MIN : r.max == INT64_MAX;
      if (open != !round)
        continue;
      unbounded |= open;
      for (uint32_t j = 0; j < f->bounds->len; j++) {
        Bound b = g_array_index (f->bounds, Bound, j);
        if (by_bound (f, x, x->terms[i].atom, &b.direction, b.min, b.max, depth, budget))
          return true;
      }
      for (uint32_t j = 0; j < x->n_terms; j++)
        if (by_nature (f, x, x->terms[i].atom, x->terms[j].atom, depth, budget))
          return true;
      if (*budget < 0)
        return false;
    }
  return false;
}

static bool
proved (GmSizeFacts *f, const GmForm *x)
{
  int budget = BUDGET;
  return at_least_0 (f, x, 0, &budget);
}

/* True if x + more >= 0 can be proved. */
static bool
proved_from (GmSizeFacts *f, const GmForm *x, int64_t more)
{
  GmForm y;
  gm_form_copy (x, &y);
  return !__builtin_add_overflow (y.constant, more, &y.constant) && proved (f, &y);
}

/* Returns the residue of x, if possible for `modulus`; one congruence between several atoms may
 * be used. */
static GmResidue
residue (GmSizeFacts *f, const GmForm *x, int64_t modulus)
{
  GmResidue r = gm_algebra_residue (&f->algebra, x);
  for (uint32_t i = 0; i < f->congruences->len && r.modulus % modulus; i++) {
    const Congruence *c = &g_array_index (f->congruences, Congruence, i);
    int64_t p = gm_form_times (x, c->direction.terms[0].atom), q = c->direction.terms[0].times;
    GmForm rest;
    if (!p || p % q || !gm_form_add (x, &c->direction, -(p / q), &rest))
      continue;
    __int128 step = (__int128) (p / q) * c->residue.modulus;
    if (step % modulus)
      continue;
    GmResidue s = gm_algebra_residue (&f->algebra, &rest);
    if (s.modulus % modulus == 0) {
      int64_t part = (int64_t) ((__int128) (p / q) * c->residue.rest % modulus);
      r = (GmResidue){ modulus, gm_floor_mod (gm_floor_mod (s.rest, modulus) + part, modulus) };
    }
  }
  return r;
}

/* Writes x as factor * (y % k) + constant, where term i of x is the term of y // k.  False: x is
 * not of this form. */
static bool
as_remainder (const GmSizeFacts *f, const GmForm *x, uint32_t i, GmForm *y, int64_t *k,
              int64_t *factor, int64_t *constant)
{
  const GmAtom *a = gm_algebra_atom (&f->algebra, x->terms[i].atom);
  if (a->kind != GM_ATOM_QUOTIENT || gm_algebra_form (&f->algebra, a->b)->n_terms)
    return false;
  int64_t times = x->terms[i].times;
  GmForm term = gm_form_atom (x->terms[i].atom), rest;
  *k = gm_algebra_form (&f->algebra, a->b)->constant;
  *y = *gm_algebra_form (&f->algebra, a->a);
  if (times % *k || times == INT64_MIN || !gm_form_add (x, &term, -times, &rest)
      || !gm_form_add (&rest, y, times / *k, &rest) || rest.n_terms)
    return false;
  *factor = -(times / *k);
  *constant = rest.constant;
  return true;
}

/* Answers if x = 0, where x = b - a.  was: bits GM_WAS_..., how a compared with b in the sets of
 * values: a proof is only tried for an answer that all sets allow. */
static GmTruth
is_0 (GmSizeFacts *f, const GmForm *x, unsigned was)
{
  if (!x->n_terms)
    return x->constant == 0 ? GM_YES : GM_NO;
  GmResidue r = gm_algebra_residue (&f->algebra, x);
  if (r.modulus > 1 && r.rest)
    return GM_NO;
  for (uint32_t i = 0; i < x->n_terms; i++) {
    GmForm y;
    int64_t k, factor, constant, value;
    if (!as_remainder (f, x, i, &y, &k, &factor, &constant))
      continue;
    GmResidue of_y = residue (f, &y, k);
    if (of_y.modulus % k == 0
        && !__builtin_mul_overflow (gm_floor_mod (of_y.rest, k), factor, &value)
        && !__builtin_add_overflow (value, constant, &value))
      return value ? GM_NO : GM_YES;
  }
  GmForm direction, minus;
  int64_t scale;
  if (gm_form_direction (x, &direction, &scale)) {
    if (x->constant % scale)
      return GM_NO;
    for (uint32_t i = 0; i < f->others->len; i++) {
      const Other *o = &g_array_index (f->others, Other, i);
      if (o->value == -(x->constant / scale) && gm_form_equal (&o->direction, &direction))
        return GM_NO;
    }
  }
  if (!gm_form_scale (x, -1, &minus))
    return GM_UNKNOWN;
  if ((!(was & ~GM_WAS_LESS) && proved_from (f, x, -1))
      || (!(was & ~GM_WAS_GREATER) && proved_from (f, &minus, -1)))
    return GM_NO;
  return !(was & ~GM_WAS_EQUAL) && proved (f, x) && proved (f, &minus) ? GM_YES : GM_UNKNOWN;
}

/* Answers if x >= 0, where x = b - a; `was` as for is_0. */
static GmTruth
is_positive (GmSizeFacts *f, const GmForm *x, unsigned was)
{
  GmForm minus;
  if (!(was & GM_WAS_GREATER) && proved (f, x))
    return GM_YES;
  return !(was & ~GM_WAS_GREATER) && gm_form_scale (x, -1, &minus) && proved_from (f, &minus, -1)
             ? GM_NO
             : GM_UNKNOWN;
}

/* -- Consequences of the facts ----------------------------------------------------------------- */

/* Adds a congruence if x = 0 means y % k = c for some y, k, c; sets *says to false if it means
 * no such thing.  False: the congruence contradicts the facts. */
static bool
take_congruence (GmSizeFacts *f, const GmForm *x, bool *says)
{
  *says = false;
  for (uint32_t i = 0; i < x->n_terms; i++) {
    GmForm y;
    int64_t k, factor, constant;
    if (!as_remainder (f, x, i, &y, &k, &factor, &constant) || (factor != 1 && factor != -1)
        || constant == INT64_MIN)
      continue;
    int64_t c = factor < 0 ? constant : -constant; /* y % k */
    if (c < 0 || c >= k)
      return false;
    *says = true;
    GmResidue r = { k, c };
    if (__builtin_sub_overflow (r.rest, y.constant, &r.rest))
      return true;
    y.constant = 0;
    r.rest = gm_floor_mod (r.rest, k);
    if (y.n_terms == 1) { /* times * atom = rest mod k: an inverse, where there is one */
      int64_t t = gm_floor_mod (y.terms[0].times, k), common = gm_gcd (t, k);
      if (r.rest % common)
        return false;
      GmResidue atom = { k / common, 0 };
      for (int64_t v = 0; v < atom.modulus && v < 4096; v++)
        if ((__int128) v * t % k == r.rest) {
          atom.rest = v;
          return gm_algebra_congruent (&f->algebra, y.terms[0].atom, atom);
        }
      return true;
    }
    Congruence all = { y, r };
    g_array_append_val (f->congruences, all);
    return true;
  }
  return true;
}

static bool take_bound (GmSizeFacts *f, const GmForm *x, int64_t min, int64_t max);

/* Adds min <= atom <= max, and bounds for the parts of the atom that follow.  False: they
 * contradict the facts. */
static bool
take_range (GmSizeFacts *f, uint32_t atom, int64_t min, int64_t max)
{
  if (!gm_algebra_narrow (&f->algebra, atom, (GmInterval){ min, max }))
    return false;
  const GmAtom a = *gm_algebra_atom (&f->algebra, atom);
  if (a.kind == GM_ATOM_POSITIVE) {
    GmForm x = *gm_algebra_form (&f->algebra, a.a);
    return max < 0 ? false : take_bound (f, &x, min > 0 ? min : INT64_MIN, max);
  }
  if (a.kind == GM_ATOM_QUOTIENT && !gm_algebra_form (&f->algebra, a.b)->n_terms) {
    GmForm x = *gm_algebra_form (&f->algebra, a.a);
    int64_t k = gm_algebra_form (&f->algebra, a.b)->constant;
    if (min != INT64_MIN && __builtin_mul_overflow (min, k, &min))
      min = INT64_MIN;
    if (max != INT64_MAX
        && (__builtin_mul_overflow (max, k, &max) || __builtin_add_overflow (max, k - 1, &max)))
      max = INT64_MAX;
    return take_bound (f, &x, min, max);
  }
  return true;
}

/* Adds min <= x <= max.  False: the bounds contradict the facts. */
static bool
take_bound (GmSizeFacts *f, const GmForm *x, int64_t min, int64_t max)
{
  GmForm direction;
  int64_t scale;
  if (!x->n_terms)
    return x->constant >= min && x->constant <= max;
  if (!gm_form_direction (x, &direction, &scale) || scale == INT64_MIN)
    return true; /* a fact that has no use here */
  if (scale < 0) {
    int64_t t = min == INT64_MIN ? INT64_MAX : min == INT64_MAX ? INT64_MIN : -min;
    min = max == INT64_MAX ? INT64_MIN : max == INT64_MIN ? INT64_MAX : -max;
    max = t;
    scale = -scale;
  }
  int64_t constant = gm_form_times (x, direction.terms[0].atom) < 0 ? -x->constant : x->constant;
  if (min != INT64_MIN) {
    if (__builtin_sub_overflow (min, constant, &min))
      return true;
    min = min / scale + (min % scale > 0);
  }
  if (max != INT64_MAX) {
    if (__builtin_sub_overflow (max, constant, &max))
      return true;
    max = gm_floor_div (max, scale);
  }
  if (direction.n_terms == 1)
    return take_range (f, direction.terms[0].atom, min, max);
  Bound *b = (Bound *) bound_of (f, &direction);
  if (!b) {
    Bound new = { direction, min, max };
    g_array_append_val (f->bounds, new);
    return min <= max;
  }
  b->min = MAX (b->min, min);
  b->max = MIN (b->max, max);
  return b->min <= b->max;
}

static bool
take_solved (GmSizeFacts *f, const Solved *x)
{
  GmForm value;
  if (!gm_algebra_now (&f->algebra, &x->value, &value))
    return true;
  if (!take_bound (f, &value, x->range.min, x->range.max))
    return false;
  GmResidue r = x->residue;
  if (r.modulus <= 1 || value.n_terms != 1
      || (value.terms[0].times != 1 && value.terms[0].times != -1)
      || __builtin_sub_overflow (r.rest, value.constant, &r.rest))
    return true;
  r.rest = gm_floor_mod (value.terms[0].times < 0 ? -r.rest : r.rest, r.modulus);
  return gm_algebra_congruent (&f->algebra, value.terms[0].atom, r);
}

/* Adds x = 0.  *solved: true if the equality replaced a symbol, so that it need not be added
 * again. False: it contradicts the facts. */
static bool
take_equality (GmSizeFacts *f, const GmForm *x, bool *solved)
{
  GmForm direction;
  int64_t scale, best = -1;
  bool says;
  *solved = false;
  if (!x->n_terms)
    return x->constant == 0;
  if (!gm_form_direction (x, &direction, &scale))
    return true;
  if (x->constant % scale)
    return false;
  if (!take_congruence (f, x, &says))
    return false;
  direction.constant = x->constant / scale;
  for (uint32_t i = 0; i < direction.n_terms; i++) {
    uint32_t atom = direction.terms[i].atom;
    int64_t times = direction.terms[i].times;
    const GmAtom *a = gm_algebra_atom (&f->algebra, atom);
    if (a->kind == GM_ATOM_SYMBOL && (times == 1 || times == -1)
        && (best < 0 || a->a > gm_algebra_atom (&f->algebra, (uint32_t) best)->a)
        && !gm_algebra_hides (&f->algebra, &direction, atom))
      best = atom;
  }
  if (best >= 0) {
    GmForm self = gm_form_atom ((uint32_t) best), value;
    int64_t times = gm_form_times (&direction, (uint32_t) best);
    if (gm_form_add (&direction, &self, -times, &value) && gm_form_scale (&value, -times, &value)) {
      Solved all = { value, gm_algebra_interval (&f->algebra, &self),
                     gm_algebra_residue (&f->algebra, &self) };
      gm_algebra_equate (&f->algebra, (uint32_t) best, &value);
      g_array_append_val (f->solved, all);
      *solved = true;
      return take_solved (f, &all);
    }
  }
  direction.constant = 0;
  return take_bound (f, &direction, -(x->constant / scale), -(x->constant / scale));
}

/* Adds that x is not 0, that is, that its direction is not a certain value; if that value is an
 * end of the direction's range, the end moves.  False: it contradicts the facts. */
static bool
take_other (GmSizeFacts *f, const GmForm *x)
{
  Other o;
  int64_t scale;
  if (!x->n_terms)
    return x->constant != 0;
  if (!gm_form_direction (x, &o.direction, &scale) || x->constant % scale)
    return true;
  o.value = -(x->constant / scale);
  g_array_append_val (f->others, o);
  GmForm minus;
  int64_t low = least (f, &o.direction), high = INT64_MAX;
  if (gm_form_scale (&o.direction, -1, &minus) && least (f, &minus) != INT64_MIN)
    high = -least (f, &minus);
  if (low == o.value && low != INT64_MIN)
    return take_bound (f, &o.direction, low + 1, INT64_MAX);
  if (high == o.value && high != INT64_MAX)
    return take_bound (f, &o.direction, INT64_MIN, high - 1);
  return true;
}

static bool
take (GmSizeFacts *f, const GmSizeFact *fact, bool *solved)
{
  GmForm x;
  if (!gm_algebra_difference (&f->algebra, fact->b, fact->a, &x))
    return true;
  switch (fact->rel) {
  case GM_REL_EQ:
    return take_equality (f, &x, solved);
  case GM_REL_NE:
    return take_other (f, &x);
  case GM_REL_LT:
    return take_bound (f, &x, 1, INT64_MAX);
  default:
    return take_bound (f, &x, 0, INT64_MAX);
  }
}

/* Adds the derived bounds once more, for the forms with all facts so far.  For an atom that
 * facts have narrowed to one value, the bounds of its parts are not derived again.  False: they
 * contradict the facts. */
static bool
take_bounds_again (GmSizeFacts *f)
{
  g_autoptr (GArray) old = f->bounds;
  f->bounds = g_array_new (FALSE, FALSE, sizeof (Bound));
  for (uint32_t i = 0; i < old->len; i++) {
    const Bound *b = &g_array_index (old, Bound, i);
    GmForm now;
    if (!take_bound (f, gm_algebra_now (&f->algebra, &b->direction, &now) ? &now : &b->direction,
                     b->min, b->max))
      return false;
  }
  return true;
}

/* Derives the consequences of the facts.  Solving an equality changes the forms of the other
 * facts, and bounds sharpen bounds: so this is repeated while something changes, three times at
 * most. */
static void
derive (GmSizeFacts *f)
{
  if (f->n_derived == f->facts->len)
    return;
  uint32_t n = f->facts->len;
  g_autofree bool *solved = g_new0 (bool, n);
  gm_algebra_reset (&f->algebra);
  g_array_set_size (f->solved, 0);
  g_array_set_size (f->bounds, 0);
  f->absurd = false;
  for (int round = 0; round < 3 && !f->absurd; round++) {
    uint32_t was = f->algebra.stamp;
    f->absurd = !take_bounds_again (f);
    g_array_set_size (f->others, 0);
    g_array_set_size (f->congruences, 0);
    for (uint32_t i = 0; i < f->solved->len && !f->absurd; i++) {
      Solved x = g_array_index (f->solved, Solved, i);
      f->absurd = !take_solved (f, &x);
    }
    for (int equalities = 1; equalities >= 0; equalities--)
      for (uint32_t i = 0; i < n && !f->absurd; i++) {
        const GmSizeFact *fact = &g_array_index (f->facts, GmSizeFact, i);
        if ((fact->rel == GM_REL_EQ) == equalities && !solved[i])
          f->absurd = !take (f, fact, &solved[i]);
      }
    if (f->algebra.stamp == was)
      break;
  }
  f->n_derived = n;
  f->stamp++;
}

/* -- Questions --------------------------------------------------------------------------------- */

static GmTruth
not_so (GmTruth t)
{
  return t == GM_UNKNOWN ? t : t == GM_YES ? GM_NO : GM_YES;
}

static GmTruth
work_out (GmSizeFacts *f, GmRel rel, int64_t a, int64_t b)
{
  GmForm x;
  gm_witness_update (&f->witness, &f->algebra, (const GmSizeFact *) f->facts->data, f->facts->len);
  unsigned was = gm_witness_compare (&f->witness, &f->algebra, a, b),
           yes = rel == GM_REL_EQ ? GM_WAS_EQUAL : GM_WAS_EQUAL | GM_WAS_LESS;
  if ((was & yes && was & ~yes) || !gm_algebra_difference (&f->algebra, b, a, &x))
    return GM_UNKNOWN;
  return rel == GM_REL_EQ ? is_0 (f, &x, was) : is_positive (f, &x, was);
}

GmTruth
gm_size_facts_ask (GmSizeFacts *f, GmRel rel, int64_t a, int64_t b)
{
  g_return_val_if_fail (rel < GM_N_RELS, GM_UNKNOWN);
  if (rel == GM_REL_NE)
    return not_so (gm_size_facts_ask (f, GM_REL_EQ, a, b));
  if (rel == GM_REL_LT)
    return not_so (gm_size_facts_ask (f, GM_REL_LE, b, a));
  if (a == b)
    return GM_YES;
  if (rel == GM_REL_EQ && a > b) {
    int64_t t = a;
    a = b;
    b = t;
  }
  derive (f);
  uint64_t h =
      ((uint64_t) a * UINT64_C (0x9e3779b97f4a7c15) ^ (uint64_t) b) * UINT64_C (0xff51afd7ed558ccd)
      + rel;
  Answer *known = &f->answers[(h >> 40 ^ h) & (N_ANSWERS - 1)];
  if (known->stamp == f->stamp && known->a == a && known->b == b && known->rel == rel)
    return known->truth;
  GmTruth t = work_out (f, rel, a, b);
  *known = (Answer){ a, b, f->stamp, rel, t };
  return t;
}

GmTruth
gm_size_facts_broadcast (GmSizeFacts *f, int64_t a, int64_t b, int64_t *out)
{
  GmTruth same = gm_size_facts_ask (f, GM_REL_EQ, a, b);
  GmTruth one_a = gm_size_facts_ask (f, GM_REL_EQ, a, 1),
          one_b = gm_size_facts_ask (f, GM_REL_EQ, b, 1);
  if (same == GM_YES || one_a == GM_YES || one_b == GM_YES) {
    *out = one_a == GM_YES ? b : a;
    return GM_YES;
  }
  return same == GM_NO && one_a == GM_NO && one_b == GM_NO ? GM_NO : GM_UNKNOWN;
}

void
gm_size_facts_bounds (GmSizeFacts *f, int64_t size, int64_t *min, int64_t *max)
{
  GmForm x, minus;
  derive (f);
  gm_algebra_of (&f->algebra, size, &x);
  *min = least (f, &x);
  *max = INT64_MAX;
  if (gm_form_scale (&x, -1, &minus)) {
    int64_t m = least (f, &minus);
    *max = m == INT64_MIN ? INT64_MAX : -m;
  }
}

/* -- Facts ------------------------------------------------------------------------------------- */

bool
gm_size_facts_add (GmSizeFacts *f, GmRel rel, int64_t a, int64_t b)
{
  GmSizeFact fact = { rel, a, b };
  if (gm_size_facts_ask (f, rel, a, b) == GM_NO)
    return false;
  g_array_append_val (f->facts, fact);
  derive (f);
  if (f->absurd) { /* contradicts only the facts together */
    gm_size_facts_truncate (f, f->facts->len - 1);
    return false;
  }
  return true;
}

void
gm_size_facts_truncate (GmSizeFacts *f, uint32_t n)
{
  g_assert (n <= f->facts->len);
  g_array_set_size (f->facts, n);
  gm_algebra_reset (&f->algebra);
  gm_witness_reset (&f->witness);
  f->n_derived = UINT32_MAX; /* also without facts: rows may be gone */
}

/* Finds which facts are needed.  A fact is needed if it does not follow from the facts taken
 * before it, equalities first; then, since a later fact may imply an earlier one, each needed fact
 * is tested against all others. */
void
gm_size_facts_needed (const GmSizeFacts *f, bool *needed)
{
  uint32_t n = f->facts->len;
  g_autoptr (GmSizeFacts) kept = gm_size_facts_new (f->s);
  memset (needed, 0, n * sizeof *needed);
  for (int equalities = 1; equalities >= 0; equalities--)
    for (uint32_t i = 0; i < n; i++) {
      GmSizeFact x = gm_size_facts_nth (f, i);
      if ((x.rel == GM_REL_EQ) == equalities
          && gm_size_facts_ask (kept, x.rel, x.a, x.b) != GM_YES) {
        needed[i] = true;
        g_array_append_val (kept->facts, x);
      }
    }
  for (uint32_t i = 0; i < n; i++) {
    if (!needed[i])
      continue;
    gm_size_facts_truncate (kept, 0);
    for (uint32_t j = 0; j < n; j++)
      if (needed[j] && j != i) {
        GmSizeFact x = gm_size_facts_nth (f, j);
        g_array_append_val (kept->facts, x);
      }
    GmSizeFact x = gm_size_facts_nth (f, i);
    needed[i] = gm_size_facts_ask (kept, x.rel, x.a, x.b) != GM_YES;
  }
}

char *
gm_size_fact_text (const GmSym *s, const GmSizeFact *fact)
{
  static const char *const sign[GM_N_RELS] = { "==", "!=", "<", "<=" };
  g_autofree char *a = gm_sym_text (s, fact->a), *b = gm_sym_text (s, fact->b);
  return g_strdup_printf ("%s %s %s", a, sign[fact->rel], b);
}
