/* SPDX-License-Identifier: Apache-2.0
 * api_pointwise.c -- arithmetic and comparisons whose signature has more arguments than their op
 * has operands.
 */
#include "core/api/api_private.h"

#include <math.h>

static GmArg
binary (const GmApi *api, GmBuilder *b, GmArg *a, GmOp op, GmArg x, GmArg y)
{
  return gm_pointwise (api, b, a, op, (const GmArg[]){ x, y }, 2);
}

static GmArg
unary (const GmApi *api, GmBuilder *b, GmArg *a, GmOp op)
{
  return gm_pointwise (api, b, a, op, a, 1);
}

/* -- Arithmetic -------------------------------------------------------------------------------- */

/* Returns alpha * x, or x itself if alpha is 1. */
static GmArg
scaled (const GmApi *api, GmBuilder *b, const GmArg *x, const GmArg *alpha)
{
  bool is_one = (alpha->kind == GM_ARG_INT || alpha->kind == GM_ARG_BOOL) ? alpha->i == 1
                : alpha->kind == GM_ARG_FLOAT                             ? alpha->d == 1
                                                                          : false;
  if (is_one)
    return *x;
  if (x->kind == GM_ARG_TENSOR) {
    if ((alpha->kind == GM_ARG_FLOAT || alpha->kind == GM_ARG_ELEMENT)
        && !gm_dtype_is_float (META (x->v)->dtype)) {
      gm_b_fail (
          b, GM_ERROR_RUNTIME,
          "%s(): for integral input tensors, argument alpha must not be a floating point number",
          api->name);
      return *x;
    }
    return gm_give (gm_apply (b, GM_OP_mul, (const GmArg[]){ *x, *alpha }, 2));
  }
  if (x->kind == GM_ARG_INT && alpha->kind == GM_ARG_INT)
    return (GmArg){ .kind = GM_ARG_INT,
                    .i = gm_sizes_are_numbers (x->i, alpha->i)
                             ? (int64_t) ((uint64_t) x->i * (uint64_t) alpha->i)
                             : gm_size_mul (x->i, alpha->i) };
  if (gm_arg_is_number (x) && gm_arg_is_number (alpha)) {
    double p = gm_arg_float (api, b, x, 0), q = gm_arg_float (api, b, alpha, 0);
    return gm_float_arg (p * q);
  }
  return *x;
}

/* Returns x + alpha * y or x - alpha * y; alpha is a number of the result's dtype. To subtract,
 * torch adds -alpha * y, so -alpha has to fit the dtype. */
static GmArg
add_scaled (const GmApi *api, GmBuilder *b, GmArg *a, GmOp op, const GmArg *x, const GmArg *y)
{
  GmArg alpha = a[2], added = alpha;
  if (alpha.kind == GM_ARG_INT && alpha.i == 1) /* the most frequent case */
    return binary (api, b, a, op, *x, *y);
  GmDtype d = gm_result_type (b, (const GmArg[]){ *x, *y }, 2);
  if (alpha.kind == GM_ARG_BOOL && d != GM_BOOL)
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "%s(): boolean alpha is for boolean results only", api->name));
  if (op == GM_OP_sub && added.kind == GM_ARG_INT && !gm_size_is_symbolic (added.i)
      && added.i != INT64_MIN)
    added.i = -added.i;
  if (!gm_number_fits (b, &added, d))
    return gm_give (NULL);
  if (d == GM_BOOL && alpha.kind == GM_ARG_INT)
    alpha = gm_factor (b, &alpha, d);
  return binary (api, b, a, op, *x, scaled (api, b, y, &alpha));
}

RUN (add)
{
  return add_scaled (api, b, a, GM_OP_add, &a[0], &a[1]);
}
RUN (sub)
{
  return add_scaled (api, b, a, GM_OP_sub, &a[0], &a[1]);
}
RUN (rsub)
{
  return add_scaled (api, b, a, GM_OP_sub, &a[1], &a[0]);
}
RUN (multiply)
{
  return binary (api, b, a, GM_OP_mul, a[0], a[1]);
}
RUN (true_divide)
{
  return binary (api, b, a, GM_OP_div, a[0], a[1]);
}
RUN (negative)
{
  return unary (api, b, a, GM_OP_neg);
}
RUN (absolute)
{
  return unary (api, b, a, GM_OP_abs);
}
RUN (greater)
{
  return binary (api, b, a, GM_OP_gt, a[0], a[1]);
}
RUN (less)
{
  return binary (api, b, a, GM_OP_lt, a[0], a[1]);
}
RUN (not_equal)
{
  return binary (api, b, a, GM_OP_ne, a[0], a[1]);
}

void
gm_check_divisor (GmBuilder *b, const GmArg *x, GmArg *y)
{
  if (gm_b_failed (b)
      || gm_dtypes[gm_result_type (b, (const GmArg[]){ *x, *y }, 2)].category != GM_CATEGORY_INT)
    return;
  const GmSizes *sizes =
      gm_sizes_current (); /* NULL: all are numbers, also those that look like a row */
  if (sizes && gm_arg_is_number (y) && gm_size_is_symbolic (y->i)
      && !gm_sizes_has_hint (sizes, y->i)) {
    GmDtype d = gm_result_type (b, (const GmArg[]){ *x, *y }, 2);
    if (gm_b_fits (b, gm_arg_number (y), d))
      *y = gm_tensor_arg (gm_as_dtype (b, y, d)); /* only the run knows it */
    if (gm_b_failed (b))
      return;
  }
  if (gm_arg_is_number (y)) {
    GmDtype d = gm_result_type (b, (const GmArg[]){ *x, *y }, 2);
    bool known = !sizes || !gm_size_is_symbolic (y->i);
    int bits = gm_dtypes[d].bits;
    int64_t divisor = bits >= 64 ? y->i
                      : known    ? y->i & ((INT64_C (1) << bits) - 1)
                                 : gm_size_mod (y->i, INT64_C (1) << bits); /* 256 is 0 of i8 */
    if (gm_size_eq (divisor, 0)
        && (x->kind != GM_ARG_TENSOR || !gm_size_eq (gm_meta_numel (META (x->v)), 0)))
      gm_b_fail (b, GM_ERROR_RUNTIME, "ZeroDivisionError");
  } else if (y->kind == GM_ARG_TENSOR && !gm_size_eq (gm_meta_numel (META (y->v)), 0)) {
    GmVal zero = gm_b_scalar (b, gm_scalar_int (0), (GmDtype) META (y->v)->dtype);
    y->v = gm_require (b, y->v, gm_b (b, ne, y->v, zero), GM_CONDITION_DIVISOR);
  }
}

/* Applies an op that divides integers or floats, after gm_check_divisor. */
static GmArg
divided (const GmApi *api, GmBuilder *b, GmArg *a, GmOp op)
{
  GmArg x[2] = { a[0], a[1] };
  gm_check_divisor (b, &x[0], &x[1]);
  CHECK ();
  return binary (api, b, a, op, x[0], x[1]);
}

RUN (floor_divide)
{
  return divided (api, b, a, GM_OP_floor_divide);
}
RUN (remainder)
{
  return divided (api, b, a, GM_OP_remainder);
}

RUN (div)
{
  if (IS_NONE (2))
    return binary (api, b, a, GM_OP_div, a[0], a[1]);
  const char *mode = STR (2);
  CHECK ();
  if (!strcmp (mode, "floor"))
    return divided (api, b, a, GM_OP_floor_divide);
  if (strcmp (mode, "trunc"))
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "%s(): rounding_mode is None, 'trunc' or 'floor', not '%s'",
                               api->name, mode));
  GmDtype d = gm_result_type (b, a, 2);
  if (gm_dtype_is_float (d))
    return gm_give (gm_apply1 (b, trunc, gm_apply (b, GM_OP_div, a, 2)));
  /* Integers: floor, and one more where it went below an inexact negative quotient. */
  gm_check_divisor (b, &a[0], &a[1]);
  CHECK ();
  GmVal x = gm_as_dtype (b, &a[0], d), y = gm_as_dtype (b, &a[1], d);
  GmVal q = gm_apply2 (b, floor_divide, x, y);
  GmVal inexact = gm_b (b, ne, gm_apply2 (b, mul, q, y), gm_b_cast (b, x, d));
  GmVal zero = gm_b_scalar (b, gm_scalar_int (0), d);
  GmVal fix = gm_b (b, logical_and, inexact, gm_b (b, lt, q, zero));
  return gm_give (gm_b (b, add, q, gm_b_cast (b, fix, d)));
}

RUN (pow)
{
  GmDtype d = gm_result_type (b, a, 2);
  if (a[0].kind == GM_ARG_TENSOR && gm_arg_is_number (&a[1])) {
    double e = a[1].kind == GM_ARG_FLOAT ? a[1].d : (double) a[1].i;
    if (!gm_dtype_is_float (d) && e < 0)
      return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                                 "pow(): integers to negative integer powers are not allowed; cast "
                                 "the tensor to a floating dtype"));
    bool float_input = gm_dtype_is_float (META (a[0].v)->dtype);
    if (e == 2 && (float_input || a[1].kind != GM_ARG_FLOAT) && META (a[0].v)->dtype != GM_BOOL)
      return unary (api, b, a, GM_OP_square);
    if (float_input && e == 0.5)
      return unary (api, b, a, GM_OP_sqrt);
    if (float_input && e == -1)
      return unary (api, b, a, GM_OP_reciprocal);
    if (float_input && e == 1)
      return unary (api, b, a, GM_OP_copy);
    if (gm_dtypes[d].bits <= 16 || !gm_dtype_is_float (d) ? !gm_number_fits (b, &a[1], d) : false)
      return gm_give (NULL);
  }
  return binary (api, b, a, GM_OP_pow, a[0], a[1]);
}

/* Finds *base and *factor, x or y and a number or tensor, with x + weight (y - x) = base + factor
 * (y - x). From half of the way on the base is y, so that a weight of 1 gives y itself, as in
 * torch. A number is rounded as it would be in the run, where it may be of kind ELEMENT. */
static void
lerp_parts (const GmApi *api, GmBuilder *b, const GmArg *a, GmDtype d, GmArg *base, GmArg *factor)
{
  if (a[2].kind != GM_ARG_TENSOR && a[2].kind != GM_ARG_ELEMENT) {
    double w = d == GM_F64 ? FLOAT (2) : (float) FLOAT (2);
    bool near = fabs (w) < 0.5;
    *base = a[near ? 0 : 1];
    *factor = gm_float_arg (near ? w : d == GM_F64 ? w - 1 : (float) (w - 1));
    return;
  }
  GmVal w = a[2].kind == GM_ARG_TENSOR ? a[2].v : gm_as_dtype (b, &a[2], d);
  GmVal near = gm_apply_num (b, lt, gm_b (b, abs, w), 0.5);
  *base = gm_tensor_arg (gm_pick (b, near, a[0], a[1]));
  *factor = gm_tensor_arg (gm_b (b, where, near, w, gm_apply_num (b, sub, w, 1)));
}

/* Interpolates; 16-bit floats are rounded once. */
RUN (lerp)
{
  if (gm_arg_is_number (&a[2]) && a[0].kind == GM_ARG_TENSOR
      && !gm_factor_fits (b, &a[2], (GmDtype) META (a[0].v)->dtype))
    return gm_give (NULL);
  GmArg x[3] = { a[0], a[1], a[2] }, base, factor;
  GmDtype own = gm_result_type (b, a, 2);
  bool half = own == GM_F16 || own == GM_BF16;
  for (int i = 0; i < 3 && half; i++)
    if (i < 2 || x[i].kind == GM_ARG_TENSOR)
      x[i] = gm_tensor_arg (gm_widen (b, gm_as_dtype (b, &x[i], own)));
  GmVal d = gm_apply (b, GM_OP_sub, (const GmArg[]){ x[1], x[0] }, 2);
  CHECK ();
  lerp_parts (api, b, x, (GmDtype) META (d)->dtype, &base, &factor);
  GmVal step = gm_apply (b, GM_OP_mul, (const GmArg[]){ gm_tensor_arg (d), factor }, 2);
  CHECK ();
  if (half) {
    GmVal y = gm_apply (b, GM_OP_add, (const GmArg[]){ base, gm_tensor_arg (step) }, 2);
    return gm_give (gm_narrow (b, y, own));
  }
  return binary (api, b, a, GM_OP_add, base, gm_tensor_arg (step));
}

static GmArg
add_term (const GmApi *api, GmBuilder *b, GmArg *a, GmOp op)
{
  TENSOR (0), TENSOR (1), TENSOR (2);
  CHECK ();
  GmArg value = gm_factor (b, &a[3], gm_result_type (b, a, 3));
  CHECK ();
  /* value first: torch's optimisers scale before they divide. */
  GmArg first = scaled (api, b, &a[1], &value);
  CHECK ();
  GmVal term = gm_apply (b, op, (const GmArg[]){ first, a[2] }, 2);
  CHECK ();
  return binary (api, b, a, GM_OP_add, a[0], gm_tensor_arg (term));
}

RUN (addcmul)
{
  return add_term (api, b, a, GM_OP_mul);
}

RUN (addcdiv)
{
  GmVal x = TENSOR (1), y = TENSOR (2);
  CHECK ();
  if (!gm_dtype_is_float (META (x)->dtype) && !gm_dtype_is_float (META (y)->dtype))
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "addcdiv(): integers are not divided; cast tensor1 or tensor2 to a "
                               "floating dtype for true division, or use floor_divide"));
  return add_term (api, b, a, GM_OP_div);
}

RUN (bitwise_not)
{
  GmVal x = TENSOR (0);
  CHECK ();
  if (META (x)->dtype == GM_BOOL)
    return unary (api, b, a, GM_OP_logical_not);
  return binary (api, b, a, GM_OP_bitwise_xor, a[0], (GmArg){ .kind = GM_ARG_INT, .i = -1 });
}

/* -- Selection --------------------------------------------------------------------------------- */

RUN (where)
{
  GmArg x[3] = { a[0], a[1], a[2] };
  if (IS_NONE (1) && IS_NONE (2)) {
    GmArg as_tuple[2] = { a[0], { .kind = GM_ARG_BOOL, .i = true } };
    return gm_run_nonzero (api, b, as_tuple);
  }
  if (IS_NONE (1) || IS_NONE (2))
    return gm_give (gm_b_fail (b, GM_ERROR_TYPE, "where() takes input and other, or neither"));
  /* x.where (condition, other) puts the tensor before the condition. */
  if (x[1].kind == GM_ARG_TENSOR && META (x[1].v)->dtype == GM_BOOL
      && (x[0].kind != GM_ARG_TENSOR || META (x[0].v)->dtype != GM_BOOL)) {
    x[0] = a[1];
    x[1] = a[0];
  }
  return gm_pointwise (api, b, a, GM_OP_where, x, 3);
}

GmVal
gm_pick (GmBuilder *b, GmVal mask, GmArg x, GmArg y)
{
  return gm_apply (b, GM_OP_where, (const GmArg[]){ gm_tensor_arg (mask), x, y }, 3);
}

/* True if the dtype of the result holds the bound of a clamp; an unsigned dtype must not wrap it to
 * another number. */
static bool
bound_fits (GmBuilder *b, const GmArg *x, const GmArg *bound)
{
  GmDtype d = gm_result_type (b, (const GmArg[]){ *x, *bound }, 2);
  if (bound->kind == GM_ARG_ELEMENT)
    return gm_arg_fits (b, bound, d);
  GmScalar s = gm_arg_number (bound);
  if (d == GM_U8 && s.kind == GM_CATEGORY_INT && gm_size_lt (s.i, 0))
    s = gm_scalar_int (INT64_MIN);
  return gm_b_fits (b, s, d);
}

static GmArg
clamp_to (const GmApi *api, GmBuilder *b, GmArg *a, const GmArg *min, const GmArg *max)
{
  GmArg y = a[0].kind == GM_ARG_TENSOR ? gm_give (gm_arg_spared (api, b, a, -1)) : a[0];
  CHECK ();
  const GmArg *bound[2] = { min, max };
  for (int i = 0; i < 2; i++) {
    if (!bound[i] || bound[i]->kind == GM_ARG_NONE)
      continue;
    if (bound[i]->kind != GM_ARG_TENSOR && !gm_arg_is_number (bound[i]))
      return gm_give (gm_b_fail (b, GM_ERROR_TYPE,
                                 "%s(): argument '%s' must be Number or Tensor, not %s", api->name,
                                 i ? "max" : "min", gm_arg_kind_name (bound[i])));
    if (gm_arg_is_number (bound[i]) && !bound_fits (b, &y, bound[i]))
      return gm_give (NULL);
    y = gm_give (
        gm_apply (b, i ? GM_OP_clamp_max : GM_OP_clamp_min, (const GmArg[]){ y, *bound[i] }, 2));
    CHECK ();
  }
  return y;
}

RUN (clamp)
{
  TENSOR (0);
  CHECK ();
  if (IS_NONE (1) && IS_NONE (2))
    return gm_give (gm_b_fail (
        b, GM_ERROR_RUNTIME, "%s(): at least one of 'min' and 'max' must not be None", api->name));
  return clamp_to (api, b, a, &a[1], &a[2]);
}

RUN (clamp_min)
{
  return clamp_to (api, b, a, &a[1], NULL);
}
RUN (clamp_max)
{
  return clamp_to (api, b, a, NULL, &a[1]);
}

GmVal
gm_clamp_min (GmBuilder *b, GmVal v, double least)
{
  return v ? gm_apply_num (b, clamp_min, v, least) : NULL;
}

/* -- Kinds of numbers -------------------------------------------------------------------------- */

static GmVal
constant_bool (GmBuilder *b, GmVal like, bool value)
{
  const GmMeta *m = META (like);
  return gm_b_full (b, gm_scalar_bool (value), GM_BOOL, m->ndim, m->sizes);
}

RUN (isnan)
{
  GmVal x = TENSOR (0);
  CHECK ();
  return gm_give (gm_dtype_is_float (META (x)->dtype) ? gm_b (b, ne, x, x)
                                                      : constant_bool (b, x, false));
}

RUN (isinf)
{
  GmVal x = TENSOR (0);
  CHECK ();
  if (!gm_dtype_is_float (META (x)->dtype))
    return gm_give (constant_bool (b, x, false));
  return gm_give (gm_apply_num (b, eq, gm_b (b, abs, x), INFINITY));
}

RUN (isfinite)
{
  GmVal x = TENSOR (0);
  CHECK ();
  if (!gm_dtype_is_float (META (x)->dtype))
    return gm_give (constant_bool (b, x, true));
  return gm_give (gm_apply_num (b, lt, gm_b (b, abs, x), INFINITY));
}

RUN (nan_to_num)
{
  GmVal x = TENSOR (0);
  CHECK ();
  GmDtype d = (GmDtype) META (x)->dtype;
  if (!gm_dtype_is_float (d))
    return gm_give (x);
  double largest = gm_dtype_largest (d);
  double to[3] = { IS_NONE (1) ? 0 : FLOAT (1), IS_NONE (2) ? largest : FLOAT (2),
                   IS_NONE (3) ? -largest : FLOAT (3) };
  CHECK ();
  for (int i = 0; i < 3; i++) /* torch converts them to numbers of the dtype */
    to[i] = fabs (to[i]) > largest ? copysign (INFINITY, to[i]) : to[i];
  GmVal above = gm_apply_num (b, eq, x, INFINITY),
        below = gm_apply_num (b, eq, x, -INFINITY); /* of x: nan may be infinite */
  CHECK ();
  GmVal y = gm_apply (b, GM_OP_where,
                      (const GmArg[]){ gm_tensor_arg (gm_b (b, ne, x, x)), gm_float_arg (to[0]),
                                       gm_tensor_arg (x) },
                      3);
  CHECK ();
  y = gm_apply (b, GM_OP_where,
                (const GmArg[]){ gm_tensor_arg (above), gm_float_arg (to[1]), gm_tensor_arg (y) },
                3);
  CHECK ();
  return gm_give (gm_apply (
      b, GM_OP_where,
      (const GmArg[]){ gm_tensor_arg (below), gm_float_arg (to[2]), gm_tensor_arg (y) }, 3));
}
