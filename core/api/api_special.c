/* SPDX-License-Identifier: Apache-2.0
 * api_special.c -- erfc, the logarithm of the gamma function and its derivatives, nextafter and the
 * greatest common divisor, made of several ops.
 *
 * All but nextafter and the divisor are computed in f64 and rounded once, so f32 results are
 * correct to half an ulp (if they are not subnormal); the tests state the errors of f64. As in
 * api_math.c, the operand of a branch that is not taken is kept finite.
 *
 * The gamma function: its argument is reduced to w >= 0.5, by reflection where it is 0 or less, by
 * one step where it is below 0.5. From 8 on Stirling's series is used. Below, w = 1 + z + n with n
 * = 0 .. 7 and |z| <= 0.5, and 1 + z has the power series whose coefficients are zeta (k) - 1:
 * Abramowitz and Stegun, 6.1.33 and 6.1.40, 6.3.18, 6.4.12. The factor 1 + z would occur twice with
 * opposite signs, and is left out, so that near 1 and 2, where the logarithm is 0, nothing cancels.
 */
#include "core/api/api_special.h"

#include <float.h>

#define N_STEPS 7 /* from the interval around 1 to 8 */
#define FROM_STIRLING 8
#define EULER 0.57721566490153286061
#define LOG_PI 1.14472988584940017414
#define LEAST_ERFCX -26.62873571375149 /* below, erfcx is more than f64 holds */

/* -- erfc -------------------------------------------------------------------------------------- */

/* Returns exp (x^2) erfc (x) on [0.46875, 4]. Source, also of the function below for x > 4: Cody,
 * "Rational Chebyshev approximations for the error function" (Math. Comp. 23, 1969). */
static GmVal
middle (GmBuilder *b, GmVal x)
{
  static const double p[] = { 2.15311535474403846343e-8, 5.64188496988670089180e-1,
                              8.88314979438837594118,    6.61191906371416294775e1,
                              2.98635138197400131132e2,  8.81952221241769090411e2,
                              1.71204761263407058314e3,  2.05107837782607146532e3,
                              1.23033935479799725272e3 };
  static const double q[] = { 1,
                              1.57449261107098347253e1,
                              1.17693950891312499305e2,
                              5.37181101862009857509e2,
                              1.62138957456669018874e3,
                              3.29079923573345962678e3,
                              4.36261909014324715820e3,
                              3.43936767414372163696e3,
                              1.23033935480374942043e3 };
  return TWO (div, polynomial (b, x, p, 9), polynomial (b, x, q, 9));
}

static GmVal
far_out (GmBuilder *b, GmVal x)
{
  static const double p[] = { 1.63153871373020978498e-2, 3.05326634961232344035e-1,
                              3.60344899949804439429e-1, 1.25781726111229246204e-1,
                              1.60837851487422766278e-2, 6.58749161529837803157e-4 };
  static const double q[] = { 1,
                              2.56852019228982242072,
                              1.87295284992346725209,
                              5.27905102951428412248e-1,
                              6.05183413124413191178e-2,
                              2.33520497626869185443e-3 };
  GmVal low = NUM (minimum, x, 1e9); /* beyond, the ratio is less than the last digit */
  GmVal y = ONE (reciprocal, TWO (mul, low, low));
  GmVal ratio = TWO (mul, y, TWO (div, polynomial (b, y, p, 6), polynomial (b, y, q, 6)));
  return TWO (div, gm_num_apply (b, sub, 0.56418958354775628695, ratio), x);
}

/* Returns exp (t^2), or exp (-t^2) if `negative`, as a product over a part of t whose square is
 * exact and the rest: exp of a rounded square would multiply its error. The part is detached: its
 * slope would cancel with the rest's, which is NaN where both overflow. */
static GmVal
exp_of_square (GmBuilder *b, GmVal t, bool negative)
{
  GmVal head = ONE (detach, gm_b_cast (b, gm_b_cast (b, t, GM_F32), GM_F64));
  GmVal rest = TWO (mul, TWO (sub, t, head), TWO (add, t, head)), square = TWO (mul, head, head);
  return TWO (mul, ONE (exp, negative ? ONE (neg, square) : square),
              ONE (exp, negative ? ONE (neg, rest) : rest));
}

GmVal
gm_scaled_tail (GmBuilder *b, GmVal t)
{
  GmVal outer = NUM (ge, t, 4);
  return gm_b (b, where, outer, far_out (b, choose (b, outer, t, 4)),
               middle (b, choose_other (b, outer, t, 1)));
}

RUN (erfc)
{
  GmDtype own = GM_F32;
  GmVal x = wide_input (api, b, a, 0, &own);
  CHECK ();
  GmVal tail = NUM (ge, x, 0.46875);
  GmVal t = NUM (minimum, choose (b, tail, x, 1), 30); /* 0 from there on */
  CHECK ();
  GmVal small = gm_num_apply (b, sub, 1, ONE (erf, choose_other (b, tail, x, 0)));
  return finish (
      b, gm_b (b, where, tail, TWO (mul, exp_of_square (b, t, true), gm_scaled_tail (b, t)), small),
      own);
}

/* Returns infinity where `mask` is true, with an infinite slope by x of the sign of `side`, which x
 * has there, too. */
static GmVal
infinite (GmBuilder *b, GmVal mask, GmVal x, int side)
{
  return ONE (exp, NUM (mul, choose (b, mask, x, 0), side * 1e300));
}

RUN (erfcx)
{
  GmDtype own = GM_F32;
  GmVal x = wide_input (api, b, a, 0, &own);
  CHECK ();
  GmVal given = x, beyond = NUM (lt, x, LEAST_ERFCX);
  x = choose_other (b, beyond, x, -1);
  CHECK ();
  GmVal tail = NUM (ge, ONE (abs, x), 0.46875), below = NUM (le, x, -0.46875),
        inner = choose_other (b, tail, x, 0);
  GmVal y = gm_scaled_tail (b, choose (b, tail, ONE (abs, x), 1)), least = choose (b, below, x, -1);
  CHECK ();
  GmVal turned = TWO (sub, NUM (mul, exp_of_square (b, least, false), 2), choose (b, below, y, 0));
  GmVal small =
      TWO (mul, ONE (exp, TWO (mul, inner, inner)), gm_num_apply (b, sub, 1, ONE (erf, inner)));
  y = gm_b (b, where, below, turned, gm_b (b, where, tail, y, small));
  return finish (b, gm_b (b, where, beyond, infinite (b, beyond, given, -1), y), own);
}

/* -- The gamma function ------------------------------------------------------------------------ */

/* Values of zeta (k) - 1 for k = 2 .. 28. */
static const double zeta_less_1[] = {
  0.64493406684822641,    0.20205690315959429,    0.082323233711138186,   0.036927755143369927,
  0.01734306198444914,    0.0083492773819228271,  0.0040773561979443396,  0.0020083928260822143,
  0.00099457512781808526, 0.00049418860411946453, 0.00024608655330804832, 0.00012271334757848915,
  6.1248135058704828e-05, 3.0588236307020493e-05, 1.5282259408651871e-05, 7.6371976378997626e-06,
  3.8172932649998402e-06, 1.908212716553939e-06,  9.5396203387279621e-07, 4.7693298678780645e-07,
  2.38450502727733e-07,   1.1921992596531106e-07, 5.960818905125948e-08,  2.9803503514652279e-08,
  1.4901554828365043e-08, 7.4507117898354301e-09, 3.7253340247884573e-09
};

typedef enum { LOG_GAMMA, DIGAMMA, TRIGAMMA } Kind;

/* Parts of the reduced argument w >= 0.5. */
typedef struct {
  GmVal high;       /* w >= 8 */
  GmVal far, small; /* w there, and where it is less; a number elsewhere */
  GmVal n, z;       /* small = 1 + z + n */
  GmVal first;      /* n == 0 */
} Argument;

static Argument
split (GmBuilder *b, GmVal w)
{
  GmVal high = NUM (ge, w, FROM_STIRLING), small = choose_other (b, high, w, 1);
  GmVal n = NUM (maximum, NUM (sub, ONE (round, small), 1), 0);
  return (Argument){ high, choose (b, high, w, FROM_STIRLING), small,
                     n,    NUM (sub, TWO (sub, small, n), 1),  NUM (eq, n, 0) };
}

static GmVal
stirling (GmBuilder *b, GmVal w, Kind kind)
{
  /* B(2k) over 2k (2k - 1), 2k, 1: of 1 / w^(2k - 1), 1 / w^2k, 1 / w^(2k + 1); the last ones first
   */
  static const double log_terms[] = { -3617.0 / 122400, 1.0 / 156,  -691.0 / 360360, 1.0 / 1188,
                                      -1.0 / 1680,      1.0 / 1260, -1.0 / 360,      1.0 / 12 };
  static const double first_terms[] = { 43867.0 / 14364, -3617.0 / 8160, 1.0 / 12,
                                        -691.0 / 32760,  1.0 / 132,      -1.0 / 240,
                                        1.0 / 252,       -1.0 / 120,     1.0 / 12 };
  static const double second_terms[] = { 43867.0 / 798, -3617.0 / 510, 7.0 / 6,
                                         -691.0 / 2730, 5.0 / 66,      -1.0 / 30,
                                         1.0 / 42,      -1.0 / 30,     1.0 / 6 };
  GmVal r = ONE (reciprocal, w), r2 = TWO (mul, r, r);
  if (kind == LOG_GAMMA) {
    GmVal main = NUM (add, TWO (mul, NUM (sub, w, 0.5), NUM (sub, ONE (log, w), 1)),
                      0.41893853320467274178); /* log (2 pi) / 2 - 0.5 */
    return TWO (add, main, TWO (mul, r, polynomial (b, r2, log_terms, 8)));
  }
  if (kind == DIGAMMA)
    return TWO (sub, TWO (sub, ONE (log, w), NUM (mul, r, 0.5)),
                TWO (mul, r2, polynomial (b, r2, first_terms, 9)));
  GmVal tail = TWO (mul, TWO (mul, r, r2), polynomial (b, r2, second_terms, 9));
  return TWO (add, TWO (add, r, NUM (mul, r2, 0.5)), tail);
}

/* Returns the sum over k >= 2 of (-1)^k (zeta (k) - 1) z^k / k, or its first or second derivative.
 */
static GmVal
power_series (GmBuilder *b, GmVal z, Kind kind)
{
  enum { N = G_N_ELEMENTS (zeta_less_1) };
  double c[N];
  for (int i = 0; i < N; i++) {
    int k = i + 2;
    double factor = kind == LOG_GAMMA ? 1.0 / k : kind == DIGAMMA ? 1 : k - 1;
    c[N - 1 - i] = (k % 2 ? -1 : 1) * zeta_less_1[i] * factor;
  }
  GmVal p = polynomial (b, z, c, N);
  return kind == LOG_GAMMA ? TWO (mul, TWO (mul, z, z), p) : kind == DIGAMMA ? TWO (mul, z, p) : p;
}

/* Returns the part of the result that comes from the factors (small - i), 1 <= i < n: the logarithm
 * of their product, or the derivatives of it. */
static GmVal
steps (GmBuilder *b, const Argument *g, Kind kind)
{
  GmVal all = NULL;
  for (int i = 1; i < N_STEPS; i++) {
    GmVal has = NUM (gt, g->n, i), factor = choose (b, has, NUM (sub, g->small, i), 1),
          term = factor;
    if (kind != LOG_GAMMA)
      term = choose (b, has, ONE (reciprocal, kind == DIGAMMA ? factor : TWO (mul, factor, factor)),
                     0);
    all = !all ? term : kind == LOG_GAMMA ? TWO (mul, all, term) : TWO (add, all, term);
  }
  return kind == LOG_GAMMA ? ONE (log, all) : kind == DIGAMMA ? all : ONE (neg, all);
}

/* Returns lgamma, digamma or trigamma (`kind`) of w >= 0.5. */
static GmVal
at_positive (GmBuilder *b, GmVal w, Kind kind)
{
  Argument g = split (b, w);
  GmVal near_one = choose (b, g.first, g.z, 0), r = ONE (reciprocal, NUM (add, near_one, 1));
  GmVal y = TWO (add, power_series (b, g.z, kind), steps (b, &g, kind));
  if (kind == LOG_GAMMA)
    y = TWO (sub, TWO (add, y, NUM (mul, g.z, 1 - EULER)), ONE (log1p, near_one));
  else if (kind == DIGAMMA)
    y = TWO (sub, NUM (add, y, 1 - EULER), choose (b, g.first, r, 0));
  else
    y = TWO (add, y, choose (b, g.first, TWO (mul, r, r), 0));
  return gm_b (b, where, g.high, stirling (b, g.far, kind), y);
}

/* Returns the function of x <= 0 from y, the function of 1 - x. */
static GmVal
reflected (GmBuilder *b, GmVal x, GmVal y, Kind kind)
{
  GmVal turn = NUM (mul, TWO (sub, x, ONE (round, x)), G_PI), s = ONE (sin, turn);
  if (kind == LOG_GAMMA)
    return TWO (sub, gm_num_apply (b, sub, LOG_PI, ONE (log, ONE (abs, s))), y);
  if (kind == DIGAMMA) {
    GmVal pole = TWO (logical_and, NUM (eq, turn, 0),
                      NUM (ne, x, 0)); /* from one side it goes up, from the other one down */
    turn = gm_b (b, where, NUM (eq, x, 0), x, turn); /* at 0 its sign says the side */
    turn = choose_other (b, pole, turn, 1);
    return choose_other (b, pole, TWO (sub, y, gm_num_apply (b, div, G_PI, ONE (tan, turn))), NAN);
  }
  return TWO (sub, ONE (square, gm_num_apply (b, div, G_PI, s)), y);
}

/* Returns the function of 0 < x < 0.5 from y, the function of 1 + x. */
static GmVal
stepped (GmBuilder *b, GmVal x, GmVal y, Kind kind)
{
  if (kind == LOG_GAMMA)
    return TWO (sub, y, ONE (log, x));
  GmVal r = ONE (reciprocal, x);
  return kind == DIGAMMA ? TWO (sub, y, r) : TWO (add, y, TWO (mul, r, r));
}

/* Returns the value for numbers x where `none` is true, at which the formulas and the limits give
 * NaN: at a pole NaN, for digamma with the infinite slope that trigamma has there; for the
 * logarithm infinity, as only poles so far out come here that x no longer resolves them. */
static GmVal
no_number (GmBuilder *b, GmVal x, GmVal none, Kind kind)
{
  GmVal still = ONE (detach, x), nan = NUM (mul, choose (b, none, still, 0), NAN);
  if (kind == TRIGAMMA)
    return nan;
  GmVal root =
      ONE (sqrt, choose (b, none, kind == DIGAMMA ? TWO (sub, x, still) : TWO (sub, x, x), 1));
  return kind == DIGAMMA ? TWO (add, nan, root) : NUM (add, root, INFINITY);
}

static GmArg
gamma_of (const GmApi *api, GmBuilder *b, GmArg *a, Kind kind)
{
  GmDtype own = GM_F32;
  GmVal x = wide_input (api, b, a, 0, &own);
  CHECK ();
  GmVal least = NUM (le, x, 0), low = NUM (lt, x, 0.5), infinite = NUM (eq, ONE (abs, x), INFINITY);
  GmVal zero = kind == LOG_GAMMA ? NUM (lt, ONE (abs, x), 1e-300) : NUM (eq, x, 0),
        finite = choose_other (b, TWO (logical_or, infinite, zero), x, 1);
  CHECK ();
  GmVal w = gm_b (b, where, least, gm_num_apply (b, sub, 1, finite),
                  gm_b (b, where, low, NUM (add, finite, 1), finite));
  GmVal y = at_positive (b, w, kind);
  GmVal below = reflected (b, choose (b, least, finite, -0.5), y, kind);
  GmVal between =
      stepped (b, choose_other (b, least, choose (b, low, finite, 0.25), 0.25), y, kind);
  y = gm_b (b, where, least, below, gm_b (b, where, low, between, y));
  /* The value at 0, from the side that its sign says, has the infinite slope that the reflection
   * lacks. The logarithm is that of |x| next to 0, too, where pi x would be rounded to a subnormal.
   */
  GmVal near = choose (b, zero, x, 1);
  if (kind == LOG_GAMMA)
    near = gm_b (b, where, NUM (lt, near, 0), ONE (neg, near), near);
  GmVal pole = stepped (b, near, gm_b_scalar (b, gm_scalar_int (0), GM_F64), kind);
  y = gm_b (b, where, zero, pole, y);
  /* A NaN computed of a number is always the same product, so that it has the same bits in every
   * back end. */
  GmVal none = TWO (logical_and, TWO (ne, y, y), TWO (eq, x, x));
  y = gm_b (b, where, none, no_number (b, x, none, kind), y);
  double end = kind == TRIGAMMA ? 0 : INFINITY;
  GmVal ends = gm_b_full_like (b, gm_scalar_float (end), GM_F64, META (x));
  if (kind != LOG_GAMMA)
    ends = choose_other (b, least, ends, NAN);
  else { /* with the infinite slope that digamma has */
    GmVal other = TWO (logical_or, least, ONE (logical_not, infinite));
    ends = choose_other (b, least, ONE (exp, choose_other (b, other, x, 0)), INFINITY);
  }
  return finish (b, gm_b (b, where, infinite, ends, y), own);
}

RUN (lgamma)
{
  return gamma_of (api, b, a, LOG_GAMMA);
}
RUN (digamma)
{
  return gamma_of (api, b, a, DIGAMMA);
}
RUN (trigamma)
{
  return gamma_of (api, b, a, TRIGAMMA);
}

/* -- Neighbours -------------------------------------------------------------------------------- */

/* Returns the next larger number of dtype d after c: Rump, Zimmermann, Boldo, Melquiond, "Computing
 * predecessor and successor in rounding to nearest" (BIT 49, 2009), with unit u and least number
 * eta. */
static GmVal
successor (GmBuilder *b, GmVal c, GmDtype d)
{
  double u = gm_dtype_epsilon (d) / 2, eta = d == GM_F32 ? 0x1p-149 : 0x1p-1074,
         most = d == GM_F32 ? FLT_MAX : DBL_MAX, phi = u * (1 + 2 * u);
  GmVal size = ONE (abs, c), low = NUM (lt, size, 0.5 / u / u * eta),
        least = NUM (lt, size, eta / u);
  GmVal large = NUM (mul, choose (b, low, c, 1), 1 / u);
  GmVal scaled = NUM (mul, TWO (add, large, NUM (mul, ONE (abs, large), phi)), u);
  GmVal y = TWO (add, c, NUM (mul, size, phi));
  y = gm_b (b, where, low, gm_b (b, where, least, NUM (add, c, eta), scaled), y);
  return choose_other (b, NUM (eq, c, -INFINITY), y, -most);
}

RUN (nextafter)
{
  GmVal x = TENSOR (0), y = TENSOR (1);
  CHECK ();
  GmDtype d = (GmDtype) META (x)->dtype;
  if (d != META (y)->dtype || (d != GM_F32 && d != GM_F64))
    return gm_give (
        gm_b_fail (b, GM_ERROR_RUNTIME,
                   "nextafter(): expects two tensors of float32 or of float64, but got %s and %s",
                   gm_dtypes[d].torch_name, gm_dtypes[META (y)->dtype].torch_name));
  x = ONE (detach, x);
  y = ONE (detach, y);
  GmVal up = TWO (gt, y, x), next = successor (b, gm_b (b, where, up, x, ONE (neg, x)), d);
  next = gm_b (b, where, up, next, ONE (neg, next));
  next = gm_b (b, where, NUM (eq, next, 0), NUM (mul, x, 0),
               next); /* on the side from which it came */
  GmVal odd = TWO (logical_or, TWO (ne, x, x), TWO (ne, y, y));
  return gm_give (gm_b (b, where, odd, TWO (add, x, y), gm_b (b, where, TWO (eq, x, y), y, next)));
}

/* -- Divisors ---------------------------------------------------------------------------------- */

/* Returns the greatest common divisor by Euclid's algorithm; the fixed number of steps is enough
 * for neighbours in Fibonacci's sequence, which need the most. */
static GmVal
divisor (GmBuilder *b, GmVal x, GmVal y)
{
  int bits = (int) gm_dtype_size (META (x)->dtype) * 8, n = bits * 3 / 2;
  GmVal p = ONE (abs, x), q = ONE (abs, y);
  for (int i = 0; i < n && !gm_b_failed (b); i++) {
    GmVal done = NUM (eq, q, 0),
          rest = TWO (remainder, p,
                      gm_pick (b, done, (GmArg){ .kind = GM_ARG_INT, .i = 1 }, gm_tensor_arg (q)));
    p = gm_b (b, where, done, p, q);
    q = gm_pick (b, done, (GmArg){ .kind = GM_ARG_INT, .i = 0 }, gm_tensor_arg (rest));
  }
  return p;
}

static bool
integers (const GmApi *api, GmBuilder *b, const GmArg *a, GmVal *x, GmVal *y)
{
  for (int i = 0; i < 2; i++)
    TENSOR (i);
  GmDtype d = gm_b_failed (b) ? GM_I64 : gm_result_type (b, a, 2);
  if (!gm_b_failed (b) && (gm_dtype_is_float (d) || d == GM_BOOL))
    gm_b_fail (b, GM_ERROR_RUNTIME, "%s(): is of integers, not of %s", api->name,
               gm_dtypes[d].torch_name);
  if (gm_b_failed (b))
    return false;
  *x = gm_as_dtype (b, &a[0], d);
  *y = gm_as_dtype (b, &a[1], d);
  return !gm_b_failed (b);
}

RUN (gcd)
{
  GmVal x, y;
  return gm_give (integers (api, b, a, &x, &y) ? divisor (b, x, y) : NULL);
}

RUN (lcm)
{
  GmVal x, y;
  if (!integers (api, b, a, &x, &y))
    return gm_give (NULL);
  GmVal both = divisor (b, x, y),
        zero = gm_b_scalar (b, gm_scalar_int (0), (GmDtype) META (x)->dtype);
  CHECK ();
  GmVal by = gm_pick (b, TWO (eq, both, zero), (GmArg){ .kind = GM_ARG_INT, .i = 1 },
                      gm_tensor_arg (both));
  return gm_give (ONE (abs, TWO (mul, TWO (floor_divide, x, by), y)));
}
