/* SPDX-License-Identifier: Apache-2.0
 * api_promote.c -- torch's type promotion, and pointwise ops over tensors and Python numbers.
 *
 * Operands are in three classes: tensors with dimensions, 0-d tensors, numbers. A lower class
 * matters only if its category (bool < int < float) is higher. Ops of the table see inputs of one
 * dtype; the change that each kind of row makes to the promoted dtype (FLOAT rows cast integers to
 * the default dtype, LOGICAL rows cast everything to bool ...) is decided only here. Source:
 * torch's documentation, "Tensor Attributes", and the behaviour of torch.result_type.
 */
#include "core/api/api_private.h"

#include <math.h>

enum { NO_DTYPE = -1 };

static int
promote (int a, int b)
{
  if (a == NO_DTYPE || b == NO_DTYPE)
    return a == NO_DTYPE ? b : a;
  return (int) gm_dtype_promote ((GmDtype) a, (GmDtype) b);
}

/* Returns the dtype of the two classes of operands together: the lower class matters only if its
 * category is higher. Either may be NO_DTYPE. */
static int
combine (int higher, int lower)
{
  if (higher == NO_DTYPE || lower == NO_DTYPE)
    return higher == NO_DTYPE ? lower : higher;
  return gm_dtypes[lower].category > gm_dtypes[higher].category ? promote (higher, lower) : higher;
}

GmDtype
gm_result_type (GmBuilder *b, const GmArg *x, int n)
{
  int dims = NO_DTYPE, zero = NO_DTYPE, number = NO_DTYPE;
  for (int i = 0; i < n; i++) {
    switch (x[i].kind) {
    case GM_ARG_TENSOR: {
      const GmMeta *m = META (x[i].v);
      int *class = m->ndim ? &dims : &zero;
      *class = promote (*class, m->dtype);
      break;
    }
    case GM_ARG_BOOL:
      number = promote (number, GM_BOOL);
      break;
    case GM_ARG_INT:
      number = promote (number, GM_I64);
      break;
    case GM_ARG_FLOAT:
    case GM_ARG_ELEMENT:
      number = promote (number, gm_default_dtype ());
      break;
    default:
      break;
    }
  }
  int d = combine (dims, combine (zero, number));
  return d == NO_DTYPE ? gm_default_dtype () : (GmDtype) d;
}

GmVal
gm_as_dtype (GmBuilder *b, const GmArg *x, GmDtype dtype)
{
  switch (x->kind) {
  case GM_ARG_TENSOR:
  case GM_ARG_ELEMENT:
    return gm_b_cast (b, x->v, dtype);
  case GM_ARG_BOOL:
    return gm_b_scalar (b, gm_scalar_bool (x->i != 0), dtype);
  case GM_ARG_INT:
    return gm_b_scalar (b, gm_scalar_int (x->i), dtype);
  case GM_ARG_FLOAT:
    return gm_b_scalar (b, gm_scalar_float (x->d), dtype);
  default:
    return gm_b_fail (b, GM_ERROR_TYPE, "expected a Tensor or a number, but found %s",
                      gm_arg_kind_name (x));
  }
}

GmScalar
gm_arg_number (const GmArg *x)
{
  return x->kind == GM_ARG_FLOAT  ? gm_scalar_float (x->d)
         : x->kind == GM_ARG_BOOL ? gm_scalar_bool (x->i != 0)
                                  : gm_scalar_int (x->i);
}

bool
gm_arg_fits (GmBuilder *b, const GmArg *x, GmDtype dtype)
{
  if (x->kind != GM_ARG_ELEMENT)
    return gm_b_fits (b, gm_arg_number (x), dtype);
  if (gm_b_failed (b) || dtype == GM_F64
      || (gm_dtype_is_float (dtype) && b->vt->within (b, x->v, gm_dtype_largest (dtype))))
    return !gm_b_failed (b);
  return gm_b_fits (b, gm_scalar_float (gm_arg_settled (b, x)), dtype);
}

bool
gm_number_fits (GmBuilder *b, const GmArg *x, GmDtype dtype)
{
  return !gm_arg_is_number (x) || gm_arg_fits (b, x, dtype);
}

bool
gm_factor_fits (GmBuilder *b, const GmArg *x, GmDtype dtype)
{
  return gm_number_fits (b, x, dtype == GM_F16 || dtype == GM_BF16 ? GM_F32 : dtype);
}

GmArg
gm_factor (GmBuilder *b, const GmArg *x, GmDtype dtype)
{
  GmArg settled;
  if (!gm_factor_fits (b, x, dtype) || !gm_arg_is_number (x))
    return *x;
  if (x->kind == GM_ARG_ELEMENT && !gm_dtype_is_float (dtype)) {
    settled = gm_float_arg (gm_arg_settled (b, x));
    x = &settled;
  }
  if (dtype == GM_BOOL && (x->kind == GM_ARG_FLOAT || !gm_size_is_symbolic (x->i)))
    return (GmArg){ .kind = GM_ARG_BOOL, .i = gm_scalar_as_double (gm_arg_number (x)) != 0 };
  if (x->kind != GM_ARG_FLOAT || gm_dtypes[dtype].category != GM_CATEGORY_INT)
    return *x;
  return (GmArg){ .kind = GM_ARG_INT, .i = gm_scalar_as_int (gm_arg_number (x)) };
}

GmVal
gm_value_as (GmBuilder *b, const GmArg *x, GmDtype dtype)
{
  if (gm_arg_is_number (x) && !gm_arg_fits (b, x, dtype))
    return NULL;
  return gm_as_dtype (b, x, dtype);
}

GmVal
gm_require (GmBuilder *b, GmVal x, GmVal ok, GmCondition which)
{
  if (!gm_b_failed (b) && META (ok)->ndim)
    ok = gm_b_reduce (b, GM_OP_all, ok, NULL, 0, false);
  GmAttrs at = { .mask = BIT (OFFSET), .offset = which };
  return gm_b_op (b, GM_OP_require, (const GmVal[]){ x, ok }, 2, &at);
}

GmVal
gm_require_between (GmBuilder *b, GmVal x, GmVal v, double low, double high, GmCondition which)
{
  if (gm_b_failed (b) || gm_size_eq (gm_meta_numel (META (v)), 0))
    return gm_b_failed (b) ? NULL : x;
  if (META (v)->requires_grad)
    v = gm_b (b, detach, v);
  GmVal ok = NULL;
  if (low > -INFINITY)
    ok = gm_apply_num (b, ge, gm_b_reduce (b, GM_OP_amin, v, NULL, 0, false), low);
  if (high < INFINITY) {
    GmVal below = gm_apply_num (b, le, gm_b_reduce (b, GM_OP_amax, v, NULL, 0, false), high);
    ok = ok ? gm_b (b, logical_and, ok, below) : below;
  }
  return gm_require (b, x, ok, which);
}

GmVal
gm_widen (GmBuilder *b, GmVal v)
{
  if (!v || gm_b_failed (b))
    return NULL;
  GmDtype own = (GmDtype) META (v)->dtype;
  return gm_dtype_computes (own) ? gm_b_cast (b, v, gm_dtype_compute (own)) : v;
}

GmVal
gm_narrow (GmBuilder *b, GmVal v, GmDtype own)
{
  return !v || gm_b_failed (b)                                      ? NULL
         : gm_dtype_computes (own) && gm_dtype_compute (own) != own ? gm_b_cast (b, v, own)
                                                                    : v;
}

/* -- What a row makes of the promoted dtype
 * -------------------------------------------------------------------- */

/* Returns the op that replaces an arithmetic op on bools, its logical twin; GM_OP_NONE: the op has
 * no meaning for bools. */
static GmOp
bool_twin (GmOp op)
{
  switch (op) {
  case GM_OP_add:
  case GM_OP_maximum:
  case GM_OP_clamp_min:
    return GM_OP_logical_or;
  case GM_OP_mul:
  case GM_OP_minimum:
  case GM_OP_clamp_max:
    return GM_OP_logical_and;
  case GM_OP_abs:
  case GM_OP_sign:
  case GM_OP_square:
  case GM_OP_copy:
    return GM_OP_copy;
  default:
    return GM_OP_NONE;
  }
}

static bool
is_rounding (GmOp op)
{
  return op == GM_OP_floor || op == GM_OP_ceil || op == GM_OP_round || op == GM_OP_trunc;
}

/* Replaces the promoted dtype by the dtype to compute in, and the op by the op to apply. False
 * after an error. */
static bool
settle (GmBuilder *b, GmOp *op, GmDtype *d)
{
  GmCategory category = gm_dtypes[*d].category;
  switch ((GmTypes) gm_ops[*op].types) {
  case GM_TYPES_FLOAT:
    if (category == GM_CATEGORY_FLOAT)
      return true;
    if (is_rounding (*op)) /* integers are whole already */
      *op = GM_OP_copy;
    else
      *d = gm_default_dtype ();
    return true;
  case GM_TYPES_ARITH:
    if (category != GM_CATEGORY_BOOL || *op == GM_OP_copy)
      return true;
    if (bool_twin (*op) == GM_OP_NONE) {
      const char *hint = *op == GM_OP_sub   ? "; use logical_xor"
                         : *op == GM_OP_neg ? "; use logical_not"
                                            : "; cast them first";
      gm_b_fail (b, GM_ERROR_RUNTIME, "%s is not supported for bool tensors%s", gm_ops[*op].name,
                 hint);
      return false;
    }
    *op = bool_twin (*op);
    return true;
  case GM_TYPES_LOGICAL:
    *d = GM_BOOL;
    return true;
  case GM_TYPES_BITWISE:
    if (category != GM_CATEGORY_FLOAT)
      return true;
    gm_b_fail (b, GM_ERROR_RUNTIME, "%s takes integers and bools, not %s", gm_ops[*op].name,
               gm_dtypes[*d].torch_name);
    return false;
  default:
    return true;
  }
}

/* Casts the operands of *op, which may change, into `in`; returns the number of operands that the
 * op takes, 0 after an error. */
static int
prepare (GmBuilder *b, GmOp *op, const GmArg *x, int n, GmVal in[3])
{
  int first = 0;
  if (gm_ops[*op].types == GM_TYPES_SELECT) {
    if (x[0].kind != GM_ARG_TENSOR || META (x[0].v)->dtype != GM_BOOL) {
      gm_b_fail (b, GM_ERROR_RUNTIME, "%s expected the condition to be a bool tensor, but found %s",
                 gm_ops[*op].name,
                 x[0].kind == GM_ARG_TENSOR ? gm_dtypes[META (x[0].v)->dtype].torch_name
                                            : gm_arg_kind_name (&x[0]));
      return 0;
    }
    in[0] = x[0].v;
    first = 1;
  }
  GmDtype d = gm_result_type (b, x + first, n - first);
  if (gm_b_failed (b) || !settle (b, op, &d))
    return 0;
  /* A number that is selected is stored unchanged; a number to compute with may wrap. */
  for (int i = first; i < n; i++)
    in[i] = first && d != GM_F16 && d != GM_BF16 ? gm_value_as (b, &x[i], d)
                                                 : gm_as_dtype (b, &x[i], d);
  return gm_b_failed (b) ? 0 : n;
}

GmVal
gm_apply (GmBuilder *b, GmOp op, const GmArg *x, int n)
{
  GmVal in[3];
  if (gm_b_failed (b))
    return NULL;
  n = prepare (b, &op, x, n, in);
  return n ? gm_b_op (b, op, in, MIN (n, gm_ops[op].arity), NULL) : NULL;
}

static bool
check_operands (const GmApi *api, GmBuilder *b, const GmArg *x, int n)
{
  bool any = false;
  for (int i = 0; i < n; i++) {
    any |= x[i].kind == GM_ARG_TENSOR;
    if (x[i].kind != GM_ARG_TENSOR && !gm_arg_is_number (&x[i])) {
      const char *name = i < api->n_args ? api->arg_names[i] : "other";
      gm_b_fail (b, GM_ERROR_TYPE, "%s(): argument '%s' must be Tensor or Number, not %s",
                 api->name, name, gm_arg_kind_name (&x[i]));
      return false;
    }
  }
  if (!any && n)
    gm_b_fail (b, GM_ERROR_TYPE, "%s(): argument '%s' must be Tensor, not %s", api->name,
               api->arg_names[0], gm_arg_kind_name (&x[0]));
  return any;
}

GmArg
gm_pointwise (const GmApi *api, GmBuilder *b, GmArg *a, GmOp op, const GmArg *x, int n)
{
  GmVal in[3];
  if (gm_b_failed (b) || !check_operands (api, b, x, n) || !(n = prepare (b, &op, x, n, in)))
    return gm_give (NULL);
  n = MIN (n, gm_ops[op].arity);
  if (GM_CALL_MODE (a) == GM_CALL_FRESH)
    return gm_give (gm_b_op (b, op, in, n, NULL));
  GmDtype from = gm_ops[op].types == GM_TYPES_COMPARE ? GM_BOOL : (GmDtype) META (in[n - 1])->dtype;
  GmDtype to = (GmDtype) META (a[0].v)->dtype;
  if (gm_dtypes[from].category > gm_dtypes[to].category)
    return gm_give (gm_b_fail (
        b, GM_ERROR_RUNTIME,
        "%s_(): the result has dtype %s, which cannot be written into a tensor of dtype %s",
        api->name, gm_dtypes[from].torch_name, gm_dtypes[to].torch_name));
  GM_CALL_MODE (a) = GM_CALL_INPLACE_DONE;
  return gm_give (b->vt->into (b, a[0].v, op, in, n, NULL));
}
