/* SPDX-License-Identifier: Apache-2.0
 * api_math.c -- elementwise functions that are made of several ops of the table.
 *
 * Their gradients are the gradients of these ops. So the operand of a branch that is not taken is
 * kept finite first (0 times infinity would be NaN), and formulas are chosen for their slope at 0
 * as well as for their value: `abs` has slope 0 there, a `where` that picks x has 1.
 */
#include "core/api/api_private.h"

#include <math.h>

/* Returns argument i in a floating dtype for computing; *own: the dtype to which the result is
 * rounded. */
static GmVal
float_input (const GmApi *api, GmBuilder *b, const GmArg *a, int i, GmDtype *own)
{
  GmVal x = i ? TENSOR (i) : gm_arg_spared (api, b, a, -1);
  if (gm_b_failed (b))
    return NULL;
  *own = (GmDtype) META (x)->dtype;
  if (!gm_dtype_is_float (*own))
    *own = gm_default_dtype ();
  return gm_widen (b, gm_b_cast (b, x, *own));
}

/* Returns y rounded to dtype `own`. */
static GmArg
finish (GmBuilder *b, GmVal y, GmDtype own)
{
  return gm_give (gm_narrow (b, y, own));
}

/* Returns the common dtype of two operands, at least one of which is a tensor; floating: integers
 * give the default dtype. */
static GmDtype
common_dtype (const GmApi *api, GmBuilder *b, const GmArg *a, bool floating)
{
  for (int i = 0; i < 2; i++)
    if (a[i].kind != GM_ARG_TENSOR && !gm_arg_is_number (&a[i]))
      gm_arg_fail (api, b, a, i, "Tensor or Number");
  if (a[0].kind != GM_ARG_TENSOR && a[1].kind != GM_ARG_TENSOR)
    gm_arg_fail (api, b, a, 0, "Tensor");
  GmDtype d = gm_b_failed (b) ? GM_F32 : gm_result_type (b, a, 2);
  return floating && !gm_dtype_is_float (d) ? gm_default_dtype () : d;
}

/* -- Inverse functions of angles --------------------------------------------------------------- */

/* Returns sqrt (1 - x^2), without the cancellation near 1: a product of two roots, as the root of a
 * product that is 0 has a NaN slope. */
static GmVal
other_leg (GmBuilder *b, GmVal x)
{
  return gm_b (b, mul, gm_b (b, sqrt, gm_num_apply (b, sub, 1, x)),
               gm_b (b, sqrt, gm_apply_num (b, add, x, 1)));
}

RUN (asin)
{
  GmDtype own = GM_F32;
  GmVal x = float_input (api, b, a, 0, &own);
  CHECK ();
  return finish (b, gm_b (b, atan2, x, other_leg (b, x)), own);
}

RUN (acos)
{
  GmDtype own = GM_F32;
  GmVal x = float_input (api, b, a, 0, &own);
  CHECK ();
  return finish (b, gm_b (b, atan2, other_leg (b, x), x), own);
}

/* Computes log1p (u + u^2 / (1 + sqrt (1 + u^2))) of u = |x|; log (2 u) where u^2 would overflow.
 */
RUN (asinh)
{
  GmDtype own = GM_F32;
  GmVal x = float_input (api, b, a, 0, &own);
  CHECK ();
  GmVal negative = gm_apply_num (b, lt, x, 0), u = gm_b (b, where, negative, gm_b (b, neg, x), x);
  GmVal large = gm_apply_num (b, gt, u, 1e9);
  GmVal small = gm_pick (b, large, gm_float_arg (1), gm_tensor_arg (u)),
        square = gm_b (b, square, small);
  GmVal root = gm_b (b, sqrt, gm_apply_num (b, add, square, 1));
  GmVal y =
      gm_b (b, log1p, gm_b (b, add, small, gm_b (b, div, square, gm_apply_num (b, add, root, 1))));
  GmVal far = gm_apply_num (
      b, add, gm_b (b, log, gm_pick (b, large, gm_tensor_arg (u), gm_float_arg (1))), M_LN2);
  y = gm_b (b, where, large, far, y);
  y = gm_b (b, where, negative, gm_b (b, neg, y), y);
  return finish (b, gm_b (b, where, gm_apply_num (b, eq, x, 0), x, y),
                 own); /* zeros keep their sign */
}

/* Computes log1p (t + sqrt (t) sqrt (x + 1)) of t = x - 1; log (2 x) where the product would
 * overflow. */
RUN (acosh)
{
  GmDtype own = GM_F32;
  GmVal x = float_input (api, b, a, 0, &own);
  CHECK ();
  GmVal large = gm_apply_num (b, gt, x, 1e9),
        small = gm_pick (b, large, gm_float_arg (2), gm_tensor_arg (x));
  GmVal t = gm_apply_num (b, sub, small, 1);
  GmVal root = gm_b (b, mul, gm_b (b, sqrt, t), gm_b (b, sqrt, gm_apply_num (b, add, small, 1)));
  GmVal far = gm_apply_num (
      b, add, gm_b (b, log, gm_pick (b, large, gm_tensor_arg (x), gm_float_arg (1))), M_LN2);
  return finish (b, gm_b (b, where, large, far, gm_b (b, log1p, gm_b (b, add, t, root))), own);
}

RUN (atanh)
{
  GmDtype own = GM_F32;
  GmVal x = float_input (api, b, a, 0, &own);
  CHECK ();
  GmVal d = gm_b (b, sub, gm_b (b, log1p, x), gm_b (b, log1p, gm_b (b, neg, x)));
  return finish (b, gm_apply_num (b, mul, d, 0.5), own);
}

static GmArg
times (const GmApi *api, GmBuilder *b, GmArg *a, double factor)
{
  GmDtype own = GM_F32;
  GmVal x = float_input (api, b, a, 0, &own);
  CHECK ();
  return finish (b, gm_apply_num (b, mul, x, factor), own);
}

RUN (deg2rad)
{
  return times (api, b, a, M_PI / 180);
}
RUN (rad2deg)
{
  return times (api, b, a, 180 / M_PI);
}

/* Computes sqrt (x^2 + y^2) as m sqrt ((x / m)^2 + (y / m)^2) with m the larger operand: no
 * overflow. The slope at (0, 0) is NaN, as in torch. */
RUN (hypot)
{
  GmDtype own = common_dtype (api, b, a, false);
  CHECK ();
  if (!gm_dtype_is_float (own))
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME, "hypot(): takes floating dtypes, not %s",
                               gm_dtypes[own].torch_name));
  GmVal x = gm_widen (b, gm_as_dtype (b, &a[0], own)),
        y = gm_widen (b, gm_as_dtype (b, &a[1], own));
  GmVal size_x = gm_b (b, abs, x), size_y = gm_b (b, abs, y), m = gm_b (b, maximum, size_x, size_y);
  GmVal infinite = gm_b (b, logical_or, gm_apply_num (b, eq, size_x, INFINITY),
                         gm_apply_num (b, eq, size_y, INFINITY));
  GmVal decided = gm_b (b, logical_and, infinite,
                        gm_b (b, ne, m, m)); /* NaN, but of any number it would be infinite */
  CHECK ();
  if (META (m)->requires_grad)
    m = gm_b (b, detach, m);
  GmVal plain = gm_b (b, logical_or, gm_apply_num (b, eq, m, 0), gm_apply_num (b, eq, m, INFINITY));
  m = gm_pick (b, plain, gm_float_arg (1), gm_tensor_arg (m));
  GmVal u = gm_b (b, div, x, m), v = gm_b (b, div, y, m);
  GmVal root = gm_b (b, sqrt, gm_b (b, add, gm_b (b, square, u), gm_b (b, square, v)));
  return finish (
      b, gm_pick (b, decided, gm_float_arg (INFINITY), gm_tensor_arg (gm_b (b, mul, m, root))),
      own);
}

/* Computes sin (pi x) / (pi x), 1 at 0. */
RUN (sinc)
{
  GmDtype own = GM_F32;
  GmVal x = float_input (api, b, a, 0, &own);
  CHECK ();
  /* If the square vanishes by rounding, the value is 1, and the slope would be a difference of two
   * infinities. */
  GmVal zero = gm_apply_num (b, lt, gm_b (b, abs, x), 1e-18),
        angle = gm_apply_num (b, mul, x, M_PI);
  GmVal safe = gm_pick (b, zero, gm_float_arg (1), gm_tensor_arg (angle));
  return finish (
      b,
      gm_pick (b, zero, gm_float_arg (1), gm_tensor_arg (gm_b (b, div, gm_b (b, sin, safe), safe))),
      own);
}

/* -- Rounding ---------------------------------------------------------------------------------- */

RUN (round_to)
{
  int64_t decimals = INT (1);
  CHECK ();
  if (decimals == 0)
    return gm_pointwise (api, b, a, GM_OP_round, a, 1);
  GmDtype own = GM_F32;
  GmVal x = float_input (api, b, a, 0, &own);
  CHECK ();
  double unit = pow (10, (double) (decimals < 0 ? -decimals : decimals));
  bool fine = decimals > 0;
  GmVal whole =
      gm_b (b, round, fine ? gm_apply_num (b, mul, x, unit) : gm_apply_num (b, div, x, unit));
  return finish (b, fine ? gm_apply_num (b, div, whole, unit) : gm_apply_num (b, mul, whole, unit),
                 own);
}

/* -- Logarithms -------------------------------------------------------------------------------- */

/* Returns x log (y), and 0 where x is 0 and y is a number. The slope at x = 0 is log (y) where that
 * is finite. */
static GmArg
x_times_log (const GmApi *api, GmBuilder *b, GmArg *a, GmOp log)
{
  GmDtype own = common_dtype (api, b, a, true);
  CHECK ();
  GmArg first = a[0].kind == GM_ARG_TENSOR ? gm_give (gm_arg_spared (api, b, a, -1)) : a[0];
  GmVal x = gm_widen (b, gm_as_dtype (b, &first, own)),
        y = gm_widen (b, gm_as_dtype (b, &a[1], own));
  GmVal none = gm_apply_num (b, eq, x, 0), number = gm_b (b, eq, y, y);
  CHECK ();
  GmVal finite =
      gm_b (b, logical_and, gm_apply_num (b, gt, y, 0), gm_apply_num (b, lt, y, INFINITY));
  none = gm_b (b, logical_and, gm_b (b, logical_and, none, number), gm_b (b, logical_not, finite));
  GmVal safe = gm_pick (b, none, gm_float_arg (1), gm_tensor_arg (y));
  CHECK ();
  return finish (b, gm_apply_num (b, add, gm_b (b, mul, x, gm_b_op (b, log, &safe, 1, NULL)), 0),
                 own); /* -0 is 0 */
}

RUN (xlogy)
{
  return x_times_log (api, b, a, GM_OP_log);
}

/* Returns log (exp (x) + exp (y)), in another base by the factor log (base): m + log1p (exp (-|x -
 * y|)) with m the larger operand. */
static GmVal
log_add (GmBuilder *b, GmVal x, GmVal y, double base)
{
  GmVal m = gm_b (b, maximum, x, y), d = gm_b (b, abs, gm_b (b, sub, x, y));
  /* Equal infinities give NaN: there m is the answer. */
  GmVal same =
      gm_b (b, logical_and, gm_b (b, eq, x, y), gm_apply_num (b, eq, gm_b (b, abs, x), INFINITY));
  d = gm_pick (b, same, gm_float_arg (0), gm_tensor_arg (d));
  if (base != 1)
    d = gm_apply_num (b, mul, d, base);
  GmVal tail = gm_b (b, log1p, gm_b (b, exp, gm_b (b, neg, d)));
  return gm_b (b, add, m, base == 1 ? tail : gm_apply_num (b, div, tail, base));
}

GmVal
gm_log_add (GmBuilder *b, GmVal x, GmVal y)
{
  return gm_b_failed (b) ? NULL : log_add (b, x, y, 1);
}

static GmArg
run_log_add (const GmApi *api, GmBuilder *b, GmArg *a, double base)
{
  GmDtype own = common_dtype (api, b, a, false);
  CHECK ();
  if (!gm_dtype_is_float (own))
    return gm_give (gm_b_fail (b, GM_ERROR_UNSUPPORTED,
                               "%s(): takes floating dtypes, not %s; cast the inputs first",
                               api->name, gm_dtypes[own].torch_name));
  GmVal x = gm_widen (b, gm_as_dtype (b, &a[0], own)),
        y = gm_widen (b, gm_as_dtype (b, &a[1], own));
  CHECK ();
  return finish (b, log_add (b, x, y, base), own);
}

RUN (logaddexp)
{
  return run_log_add (api, b, a, 1);
}
RUN (logaddexp2)
{
  return run_log_add (api, b, a, M_LN2);
}

RUN (logit)
{
  GmDtype own = GM_F32;
  GmVal x = float_input (api, b, a, 0, &own);
  CHECK ();
  if (!IS_NONE (1)) {
    double eps = FLOAT (1);
    if (own == GM_F16)
      gm_number_fits (b, &a[1], own);
    CHECK ();
    GmVal low = gm_apply_num (b, lt, x, eps), high = gm_apply_num (b, gt, x, 1 - eps);
    x = gm_pick (b, high, gm_float_arg (1 - eps),
                 gm_tensor_arg (gm_pick (b, low, gm_float_arg (eps), gm_tensor_arg (x))));
  }
  /* At 0 and 1 the slope of the quotient would be no number: there one of its logarithms is 0 and
   * the other one counts. */
  GmVal zero = gm_apply_num (b, eq, x, 0), one = gm_apply_num (b, eq, x, 1),
        ends = gm_b (b, logical_or, zero, one);
  GmVal in = gm_pick (b, ends, gm_float_arg (0.5), gm_tensor_arg (x));
  GmVal low = gm_b (b, log, gm_pick (b, zero, gm_tensor_arg (x), gm_float_arg (1)));
  GmVal high = gm_b (
      b, log, gm_num_apply (b, sub, 1, gm_pick (b, one, gm_tensor_arg (x), gm_float_arg (0))));
  GmVal y = gm_b (b, log, gm_b (b, div, in, gm_num_apply (b, sub, 1, in)));
  if (IS_NONE (1)) { /* outside of [0, 1] the slope is no number, either */
    GmVal outside = gm_b (b, logical_or, gm_apply_num (b, lt, x, 0), gm_apply_num (b, gt, x, 1));
    GmVal negative =
        gm_pick (b, outside, gm_tensor_arg (gm_b (b, neg, gm_b (b, abs, x))), gm_float_arg (1));
    y = gm_b (b, where, outside, gm_b (b, sqrt, negative), y);
  }
  return finish (b, gm_b (b, where, ends, gm_b (b, sub, low, high), y), own);
}

/* Coefficients of M. Giles, "Approximating the erfinv function" (GPU Computing Gems, 2011), in
 * single precision: erfinv is such a polynomial, and two steps of Newton's method, which converge
 * the slopes as well as the value. */
static GmVal
polynomial (GmBuilder *b, GmVal w, const double *c, int n)
{
  GmVal p = gm_b_full (b, gm_scalar_float (c[0]), (GmDtype) META (w)->dtype, META (w)->ndim,
                       META (w)->sizes);
  for (int i = 1; i < n; i++)
    p = gm_apply_num (b, add, gm_b (b, mul, p, w), c[i]);
  return p;
}

/* Returns the factor of x for w >= 16, which only x in f64 reach: there it is the polynomial of the
 * same paper in double precision. Elsewhere it is `factor`. */
static GmVal
last_factor (GmBuilder *b, GmVal w, GmVal factor)
{
  static const double last[] = {
    -2.7109920616438573243e-11, -2.5556418169965252055e-10, 1.5076572693500548083e-09,
    -3.7894654401267369937e-09, 7.6157012080783393804e-09,  -1.4960026627149240478e-08,
    2.9147953450901080826e-08,  -6.7711997758452339498e-08, 2.2900482228026654717e-07,
    -9.9298272942317002539e-07, 4.5260625972231537039e-06,  -1.9681778105531670567e-05,
    7.5995277030017761139e-05,  -0.00021503011930044477347, -0.00013871931833623122026,
    1.0103004648645343977,      4.8499064014085844221
  };
  GmVal outer = gm_apply_num (b, ge, w, 16);
  if (gm_b_failed (b))
    return NULL;
  GmVal root = gm_b (b, sqrt, gm_pick (b, outer, gm_tensor_arg (w), gm_float_arg (25)));
  return gm_b (b, where, outer,
               polynomial (b, gm_apply_num (b, sub, root, 5), last, G_N_ELEMENTS (last)), factor);
}

/* Returns the step of Newton's method where `far` is true: erf (y) is so near 1 there that its
 * difference from x has lost its digits. The difference of the complements, which keep their
 * digits, is divided by the slope. */
static GmVal
far_step (GmBuilder *b, GmVal far, GmVal y, GmVal x)
{
  if (gm_b_failed (b))
    return NULL;
  GmVal t = gm_pick (b, far, gm_tensor_arg (gm_b (b, abs, y)), gm_float_arg (1));
  GmVal rest = gm_num_apply (b, sub, 1, gm_b (b, abs, x));
  GmVal scaled = gm_b (b, mul, rest, gm_b (b, exp, gm_b (b, square, t)));
  GmVal step = gm_apply_num (b, mul, gm_b (b, sub, scaled, gm_scaled_tail (b, t)), 1 / M_2_SQRTPI);
  return gm_b (b, mul, step, gm_b (b, sign, x));
}

RUN (erfinv)
{
  static const double center[] = { 2.81022636e-08,  3.43273939e-07, -3.5233877e-06,
                                   -4.39150654e-06, 0.00021858087,  -0.00125372503,
                                   -0.00417768164,  0.246640727,    1.50140941 };
  static const double tail[] = { -0.000200214257, 0.000100950558, 0.00134934322,
                                 -0.00367342844,  0.00573950773,  -0.0076224613,
                                 0.00943887047,   1.00167406,     2.83297682 };
  GmDtype own = GM_F32;
  GmVal x = float_input (api, b, a, 0, &own);
  CHECK ();
  GmVal size = gm_b (b, abs, x), ends = gm_apply_num (b, eq, size, 1),
        outside = gm_apply_num (b, ge, size, 1);
  GmVal in = gm_pick (b, outside, gm_float_arg (0), gm_tensor_arg (x));
  GmVal w = gm_b (
      b, neg,
      gm_b (b, log, gm_b (b, mul, gm_num_apply (b, sub, 1, in), gm_apply_num (b, add, in, 1))));
  GmVal far = gm_apply_num (b, ge, w, 5);
  CHECK ();
  GmVal near_w =
      gm_apply_num (b, sub, gm_pick (b, far, gm_float_arg (2.5), gm_tensor_arg (w)), 2.5);
  GmVal far_w = gm_apply_num (
      b, sub, gm_b (b, sqrt, gm_pick (b, far, gm_tensor_arg (w), gm_float_arg (9))), 3);
  CHECK ();
  GmVal factor =
      gm_b (b, where, far, polynomial (b, far_w, tail, 9), polynomial (b, near_w, center, 9));
  if (own == GM_F64)
    factor = last_factor (b, w, factor);
  GmVal y = gm_b (b, mul, in, factor);
  for (int i = 0; i < 2; i++) {
    GmVal slope =
        gm_apply_num (b, mul, gm_b (b, exp, gm_b (b, neg, gm_b (b, square, y))), M_2_SQRTPI);
    GmVal step = gm_b (b, div, gm_b (b, sub, gm_b (b, erf, y), in), slope);
    if (own == GM_F64)
      step = gm_b (b, where, far, far_step (b, far, y, in), step);
    y = gm_b (b, sub, y, step);
  }
  /* Products of x, so that the slope is the value's: infinite at the ends, NaN beyond. */
  GmVal far_out = gm_apply_num (b, gt, size, 1);
  GmVal beyond =
      gm_apply_num (b, mul, gm_pick (b, far_out, gm_tensor_arg (x), gm_float_arg (0)), NAN);
  GmVal infinite =
      gm_apply_num (b, mul, gm_pick (b, ends, gm_tensor_arg (x), gm_float_arg (0)), INFINITY);
  return finish (b, gm_b (b, where, ends, infinite, gm_b (b, where, far_out, beyond, y)), own);
}

/* -- Parts and signs --------------------------------------------------------------------------- */

RUN (frac)
{
  GmVal x = TENSOR (0);
  CHECK ();
  return gm_give (gm_dtype_is_float (META (x)->dtype) ? gm_b (b, sub, x, gm_b (b, trunc, x))
                                                      : gm_b_zeros_like (b, x));
}

/* Returns true where the sign bit is set; zeros have that of their reciprocals. */
static GmVal
sign_bit (GmBuilder *b, GmVal x)
{
  if (gm_b_failed (b))
    return NULL;
  GmDtype d = (GmDtype) META (x)->dtype;
  if (d == GM_BOOL)
    return gm_b_full (b, gm_scalar_bool (false), GM_BOOL, META (x)->ndim, META (x)->sizes);
  GmVal below = gm_apply_num (b, lt, x, 0);
  if (!gm_dtype_is_float (d))
    return below;
  GmVal zero = gm_apply_num (b, eq, x, 0),
        safe = gm_pick (b, zero, gm_tensor_arg (x), gm_float_arg (1));
  return gm_b (b, logical_or, below, gm_apply_num (b, lt, gm_b (b, reciprocal, safe), 0));
}

RUN (signbit)
{
  GmVal x = TENSOR (0);
  CHECK ();
  return gm_give (sign_bit (b, META (x)->requires_grad ? gm_b (b, detach, x) : x));
}

RUN (copysign)
{
  GmDtype own = common_dtype (api, b, a, true);
  CHECK ();
  GmVal x = gm_as_dtype (b, &a[0], own), y = gm_as_dtype (b, &a[1], own);
  CHECK ();
  if (META (y)->requires_grad)
    y = gm_b (b, detach, y);
  GmVal flip = gm_b (b, ne, sign_bit (b, x), sign_bit (b, y)),
        out = gm_b (b, where, flip, gm_b (b, neg, x), x);
  CHECK ();
  /* The slope at 0 is 0, as abs has it. */
  GmVal zero = gm_apply_num (b, eq, x, 0);
  return gm_give (META (out)->requires_grad ? gm_b (b, where, zero, gm_b (b, detach, out), out)
                                            : out);
}

RUN (heaviside)
{
  GmVal x = TENSOR (0), values = TENSOR (1);
  CHECK ();
  if (META (x)->dtype != META (values)->dtype)
    return gm_give (gm_b_fail (
        b, GM_ERROR_RUNTIME,
        "heaviside(): input and values must have one dtype, but have %s and %s",
        gm_dtypes[META (x)->dtype].torch_name, gm_dtypes[META (values)->dtype].torch_name));
  GmDtype d = (GmDtype) META (x)->dtype;
  GmVal step = gm_b_cast (b, gm_apply_num (b, gt, x, 0), d);
  return gm_give (
      gm_b (b, where, gm_b (b, eq, x, gm_b_scalar (b, gm_scalar_int (0), d)), values, step));
}

static GmArg
is_infinity (const GmApi *api, GmBuilder *b, GmArg *a, double which)
{
  GmVal x = TENSOR (0);
  CHECK ();
  if (!gm_dtype_is_float (META (x)->dtype))
    return gm_give (
        gm_b_full (b, gm_scalar_bool (false), GM_BOOL, META (x)->ndim, META (x)->sizes));
  return gm_give (gm_apply_num (b, eq, x, which));
}

RUN (isposinf)
{
  return is_infinity (api, b, a, INFINITY);
}
RUN (isneginf)
{
  return is_infinity (api, b, a, -INFINITY);
}

RUN (isreal)
{
  GmVal x = TENSOR (0);
  CHECK ();
  return gm_give (gm_b_full (b, gm_scalar_bool (true), GM_BOOL, META (x)->ndim, META (x)->sizes));
}

/* -- Two operands ------------------------------------------------------------------------------ */

/* Applies `op`, a maximum or minimum, that returns the number where the other operand is a NaN. */
static GmArg
number_wins (const GmApi *api, GmBuilder *b, GmArg *a, GmOp op)
{
  GmDtype d = common_dtype (api, b, a, false);
  CHECK ();
  GmVal x = gm_as_dtype (b, &a[0], d), y = gm_as_dtype (b, &a[1], d);
  CHECK ();
  if (!gm_dtype_is_float (d))
    return gm_give (gm_apply (b, op, (const GmArg[]){ gm_tensor_arg (x), gm_tensor_arg (y) }, 2));
  GmVal first =
      gm_b_op (b, op == GM_OP_maximum ? GM_OP_ge : GM_OP_le, (const GmVal[]){ x, y }, 2, NULL);
  return gm_give (gm_b (b, where, gm_b (b, logical_or, first, gm_b (b, ne, y, y)), x, y));
}

RUN (fmax)
{
  return number_wins (api, b, a, GM_OP_maximum);
}
RUN (fmin)
{
  return number_wins (api, b, a, GM_OP_minimum);
}

/* Computes the remainder of C's fmod and %, with the sign of the first operand. */
RUN (fmod)
{
  GmDtype d = common_dtype (api, b, a, false);
  CHECK ();
  if (d == GM_BOOL)
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "fmod(): is not supported for bool tensors; cast them first"));
  gm_check_divisor (b, &a[0], &a[1]);
  CHECK ();
  GmVal x = gm_as_dtype (b, &a[0], d), y = gm_as_dtype (b, &a[1], d);
  CHECK ();
  /* remainder has the sign of y.  Of floats: of |x| and |y| it is the size of the result, exactly.
   */
  if (gm_dtype_is_float (d)) {
    GmVal size = gm_b (b, abs, y);
    GmVal below = gm_apply_num (b, lt, x, 0),
          s = gm_b (b, remainder, gm_b (b, where, below, gm_b (b, neg, x), x), size);
    return gm_give (gm_b (b, where, below, gm_b (b, neg, s), s));
  }
  /* The remainder of integers. The least integer has no absolute value, so y is subtracted where
   * the signs of x and of a remainder differ. */
  GmVal r = gm_b (b, remainder, x, y);
  GmVal zero = gm_b_scalar (b, gm_scalar_int (0), d);
  GmVal apart = gm_b (b, ne, gm_b (b, lt, x, zero), gm_b (b, lt, r, zero));
  GmVal over = gm_b (b, logical_and, apart, gm_b (b, ne, r, zero));
  return gm_give (gm_b (b, where, over, gm_b (b, sub, r, y), r));
}

RUN (float_power)
{
  GmArg x[2] = { a[0], a[1] };
  common_dtype (api, b, a, false);
  CHECK ();
  for (int i = 0; i < 2; i++)
    if (x[i].kind == GM_ARG_TENSOR)
      x[i].v = gm_b_cast (b, x[i].v, GM_F64);
  bool scalar = x[0].kind != GM_ARG_TENSOR;
  GmVal base = gm_as_dtype (b, &x[0], GM_F64);
  return gm_give (
      gm_apply (b, GM_OP_pow, (const GmArg[]){ scalar ? gm_tensor_arg (base) : x[0], x[1] }, 2));
}

RUN (ldexp)
{
  common_dtype (api, b, a, false);
  CHECK ();
  GmVal e = gm_apply (b, GM_OP_pow, (const GmArg[]){ gm_float_arg (2), a[1] }, 2);
  CHECK ();
  return gm_give (gm_apply (b, GM_OP_mul, (const GmArg[]){ a[0], gm_tensor_arg (e) }, 2));
}

/* Computes x * 2^n or floor (x / 2^n), in the integers of the dtype; a count below 0 shifts past
 * the last bit, as in torch and in numpy. */
static GmArg
shift (const GmApi *api, GmBuilder *b, GmArg *a, GmOp op)
{
  GmDtype d = common_dtype (api, b, a, false);
  CHECK ();
  if (gm_dtypes[d].category != GM_CATEGORY_INT)
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME, "%s(): takes integers, not %s", api->name,
                               gm_dtypes[d].torch_name));
  GmVal x = gm_as_dtype (b, &a[0], d), n = gm_as_dtype (b, &a[1], d),
        two = gm_b_scalar (b, gm_scalar_int (2), d);
  /* The largest power of two that the dtype has; dividing by a larger power leaves only the sign.
   */
  int bits = (int) gm_dtype_size (d) * 8,
      last = d == GM_U8 || op == GM_OP_mul ? bits - 1 : bits - 2;
  GmVal zero = gm_b_scalar (b, gm_scalar_int (0), d);
  GmVal far = gm_b (b, logical_or, gm_b (b, gt, n, gm_b_scalar (b, gm_scalar_int (last), d)),
                    gm_b (b, lt, n, zero));
  GmVal factor = gm_b (b, pow, two, gm_b (b, where, far, zero, n));
  CHECK ();
  GmVal y = gm_b_op (b, op, (const GmVal[]){ x, factor }, 2, NULL);
  GmVal beyond = op == GM_OP_mul ? zero : gm_b (b, neg, gm_b_cast (b, gm_b (b, lt, x, zero), d));
  return gm_give (gm_b (b, where, far, beyond, y));
}

RUN (bitwise_left_shift)
{
  return shift (api, b, a, GM_OP_mul);
}
RUN (bitwise_right_shift)
{
  return shift (api, b, a, GM_OP_floor_divide);
}

RUN (positive)
{
  GmVal x = TENSOR (0);
  CHECK ();
  if (META (x)->dtype == GM_BOOL)
    return gm_give (
        gm_b_fail (b, GM_ERROR_RUNTIME, "positive(): is not supported for bool tensors"));
  return gm_give (x);
}

/* Runs the op of another name: torch has several names for it. */
RUN (arctan)
{
  return gm_pointwise (api, b, a, GM_OP_atan, a, 1);
}
RUN (arctan2)
{
  return gm_pointwise (api, b, a, GM_OP_atan2, a, 2);
}
RUN (fix)
{
  return gm_pointwise (api, b, a, GM_OP_trunc, a, 1);
}
RUN (sgn)
{
  return gm_pointwise (api, b, a, GM_OP_sign, a, 1);
}
RUN (greater_equal)
{
  return gm_pointwise (api, b, a, GM_OP_ge, a, 2);
}
RUN (less_equal)
{
  return gm_pointwise (api, b, a, GM_OP_le, a, 2);
}
