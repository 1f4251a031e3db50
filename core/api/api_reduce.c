/* SPDX-License-Identifier: Apache-2.0
 * api_reduce.c -- sums, means, extrema, norms, softmax: reductions, and functions made of them.
 *
 * Exponentials are taken of differences from the largest element, which is detached: the gradient
 * through it would cancel.
 */
#include "core/api/api_private.h"

#include <math.h>

typedef struct {
  int64_t dims[GM_MAX_DIMS];
  int n;
} Dims;

static Dims
dims_of (const GmApi *api, GmBuilder *b, const GmArg *a, int i, GmVal v)
{
  Dims d;
  gm_arg_dims (api, b, a, i, META (v)->ndim, d.dims, &d.n);
  return d;
}

/* Returns the number of elements of v that are reduced to one element of the result. */
static int64_t
count (GmBuilder *b, GmVal v, const int64_t *dims, int n)
{
  const GmMeta *m = META (v);
  int64_t c = 1;
  for (int k = 0; k < n; k++)
    c = gm_size_mul (c, m->sizes[dims[k]]);
  return n ? c : gm_meta_numel (m);
}

/* Returns argument 0 in the dtype to sum in: argument dtype_at, else int64 for integers and bools.
 */
static GmVal
sum_input (const GmApi *api, GmBuilder *b, const GmArg *a, int dtype_at)
{
  GmVal v = TENSOR (0);
  if (!v)
    return NULL;
  GmDtype own = (GmDtype) META (v)->dtype;
  return gm_b_cast (b, v,
                    gm_arg_dtype (api, b, a, dtype_at, gm_dtype_is_float (own) ? own : GM_I64));
}

RUN (sum)
{
  GmVal v = sum_input (api, b, a, 3);
  CHECK ();
  Dims d = dims_of (api, b, a, 1, v);
  return gm_give (gm_b_reduce (b, GM_OP_sum, v, d.dims, d.n, FLAG (2)));
}

RUN (prod)
{
  GmVal v = sum_input (api, b, a, 3);
  CHECK ();
  Dims d = dims_of (api, b, a, 1, v);
  return gm_give (gm_b_reduce (b, GM_OP_prod, v, d.dims, d.n, FLAG (2)));
}

static GmVal
require_float (const GmApi *api, GmBuilder *b, GmVal v)
{
  if (!v || gm_dtype_is_float (META (v)->dtype))
    return v;
  return gm_b_fail (b, GM_ERROR_RUNTIME,
                    "%s(): the input must have a floating point dtype, not %s; cast it first",
                    api->name, gm_dtypes[META (v)->dtype].torch_name);
}

GmVal
gm_mean (GmBuilder *b, GmVal v, const int64_t *dims, int n, bool keepdim)
{
  if (gm_b_failed (b))
    return NULL;
  GmDtype own = (GmDtype) META (v)->dtype;
  int64_t c = count (b, v, dims, n);
  GmVal sum = gm_b_reduce (b, GM_OP_sum, gm_widen (b, v), dims, n, keepdim);
  return gm_narrow (
      b, gm_apply (b, GM_OP_div, (const GmArg[]){ gm_tensor_arg (sum), gm_count_arg (c) }, 2), own);
}

RUN (mean)
{
  GmVal v = TENSOR (0);
  CHECK ();
  v = require_float (api, b,
                     gm_b_cast (b, v, gm_arg_dtype (api, b, a, 3, (GmDtype) META (v)->dtype)));
  CHECK ();
  Dims d = dims_of (api, b, a, 1, v);
  return gm_give (gm_mean (b, v, d.dims, d.n, FLAG (2)));
}

/* -- Extrema ----------------------------------------------------------------------------------- */

/* Returns the extrema of v along d by `op`. Bools are compared as 0 and 1. */
static GmVal
extremum (GmBuilder *b, GmOp op, GmVal v, const Dims *d, bool keepdim)
{
  if (gm_b_failed (b))
    return NULL;
  GmDtype own = (GmDtype) META (v)->dtype;
  GmVal x = own == GM_BOOL ? gm_b_cast (b, v, GM_U8) : v;
  return gm_b_cast (b, gm_b_reduce (b, op, x, d->dims, d->n, keepdim), own);
}

GmVal
gm_arg_extremum (GmBuilder *b, GmOp op, GmVal v, int dim, bool keepdim)
{
  if (gm_b_failed (b))
    return NULL;
  if (META (v)->dtype == GM_BOOL)
    v = gm_b_cast (b, v, GM_U8);
  GmAttrs at = { .mask = BIT (KEEPDIM), .keepdim = keepdim };
  if (dim >= 0) {
    at.mask |= BIT (DIM);
    at.dim = dim;
  }
  return gm_b_op (b, op, &v, 1, &at);
}

static GmArg
run_extremum (const GmApi *api, GmBuilder *b, GmArg *a, GmOp op)
{
  GmVal v = TENSOR (0);
  CHECK ();
  Dims d = dims_of (api, b, a, 1, v);
  return gm_give (extremum (b, op, v, &d, FLAG (2)));
}

RUN (amax)
{
  return run_extremum (api, b, a, GM_OP_amax);
}
RUN (amin)
{
  return run_extremum (api, b, a, GM_OP_amin);
}

/* Runs max and min: `all` over all elements, `arg` along one dimension, `pair` on two tensors. */
static GmArg
run_max (const GmApi *api, GmBuilder *b, GmArg *a, GmOp all, GmOp arg, GmOp pair)
{
  GmVal v = TENSOR (0);
  CHECK ();
  int other = a[3].kind == GM_ARG_TENSOR ? 3 : a[1].kind == GM_ARG_TENSOR ? 1 : -1;
  if (other > 0)
    return gm_pointwise (api, b, a, pair, (const GmArg[]){ a[0], a[other] }, 2);
  if (IS_NONE (1))
    return gm_give (extremum (b, all, v, &(Dims){ .n = 0 }, false));
  int dim = gm_arg_dim (api, b, a, 1, META (v)->ndim);
  bool keepdim = FLAG (2);
  GmVal index = gm_arg_extremum (b, arg, v, dim, true);
  GmVal both[2] = { gm_gather (b, v, dim, index), index };
  for (int i = 0; i < 2 && !keepdim; i++)
    both[i] = gm_squeeze (b, both[i], dim);
  CHECK ();
  return gm_give_list (both, 2, true,
                       api->name[1] == 'a' ? "max values indices" : "min values indices");
}

RUN (max)
{
  return run_max (api, b, a, GM_OP_amax, GM_OP_argmax, GM_OP_maximum);
}
RUN (min)
{
  return run_max (api, b, a, GM_OP_amin, GM_OP_argmin, GM_OP_minimum);
}

static GmArg
run_arg (const GmApi *api, GmBuilder *b, GmArg *a, GmOp op)
{
  GmVal v = TENSOR (0);
  CHECK ();
  int dim = IS_NONE (1) ? -1 : gm_arg_dim (api, b, a, 1, META (v)->ndim);
  return gm_give (gm_arg_extremum (b, op, v, dim, FLAG (2)));
}

RUN (argmax)
{
  return run_arg (api, b, a, GM_OP_argmax);
}
RUN (argmin)
{
  return run_arg (api, b, a, GM_OP_argmin);
}

static GmArg
run_logical (const GmApi *api, GmBuilder *b, GmArg *a, GmOp op)
{
  GmVal v = TENSOR (0);
  CHECK ();
  Dims d = dims_of (api, b, a, 1, v);
  return gm_give (gm_b_reduce (b, op, gm_b_cast (b, v, GM_BOOL), d.dims, d.n, FLAG (2)));
}

RUN (any)
{
  return run_logical (api, b, a, GM_OP_any);
}
RUN (all)
{
  return run_logical (api, b, a, GM_OP_all);
}

RUN (count_nonzero)
{
  GmVal v = TENSOR (0);
  CHECK ();
  Dims d = dims_of (api, b, a, 1, v);
  return gm_give (gm_b_reduce (b, GM_OP_sum, gm_b_cast (b, gm_b_cast (b, v, GM_BOOL), GM_I64),
                               d.dims, d.n, false));
}

/* -- Variance and norms ------------------------------------------------------------------------ */

GmVal
gm_sqrt_safe (GmBuilder *b, GmVal v)
{
  /* sqrt's slope at 0 is infinite; times the slope 0 of a square it would be NaN, and torch says 0.
   */
  GmVal zero = gm_apply_num (b, eq, v, 0);
  GmArg pick[3] = { gm_tensor_arg (zero), gm_float_arg (1), gm_tensor_arg (v) };
  GmVal root = gm_b (b, sqrt, gm_apply (b, GM_OP_where, pick, 3));
  pick[1] = gm_float_arg (0);
  pick[2] = gm_tensor_arg (root);
  return gm_apply (b, GM_OP_where, pick, 3);
}

typedef struct {
  GmVal var, mean;
  GmDtype own;
} Moments; /* values are wide, for a result of dtype own */

static Moments
moments (const GmApi *api, GmBuilder *b, const GmArg *a)
{
  GmVal v = require_float (api, b, TENSOR (0));
  if (!v)
    return (Moments){ NULL, NULL, GM_F32 };
  GmDtype own = (GmDtype) META (v)->dtype;
  v = gm_widen (b, v);
  /* var (x, unbiased) */
  bool flag_first = a[1].kind == GM_ARG_BOOL;
  Dims d = { .n = 0 };
  if (!flag_first)
    d = dims_of (api, b, a, 1, v);
  bool unbiased = flag_first ? a[1].i != 0 : FLAG (2);
  double correction = IS_NONE (4) ? (unbiased ? 1 : 0) : FLOAT (4);
  bool keepdim = FLAG (3);
  GmVal mean = gm_mean (b, v, d.dims, d.n, true);
  GmVal off = gm_b (b, sub, v, mean);
  GmVal sum = gm_b_reduce (b, GM_OP_sum, gm_b (b, square, off), d.dims, d.n, keepdim);
  int64_t n = gm_b_failed (b) ? 1 : count (b, v, d.dims, d.n);
  bool whole = correction == (double) (int) correction && gm_size_is_symbolic (n);
  GmArg by = whole ? gm_count_arg (gm_size_max (gm_size_sub (n, (int) correction), 0))
                   : gm_float_arg (MAX ((double) gm_size_number (n) - correction, 0));
  Moments r = { gm_apply (b, GM_OP_div, (const GmArg[]){ gm_tensor_arg (sum), by }, 2), mean, own };
  if (!gm_b_failed (b))
    r.mean = gm_b_reshape (b, mean, META (r.var)->ndim, META (r.var)->sizes);
  return r;
}

RUN (var)
{
  Moments m = moments (api, b, a);
  return gm_give (gm_narrow (b, m.var, m.own));
}

RUN (std)
{
  Moments m = moments (api, b, a);
  return gm_give (gm_narrow (b, gm_sqrt_safe (b, m.var), m.own));
}

RUN (var_mean)
{
  Moments m = moments (api, b, a);
  CHECK ();
  GmVal both[2] = { gm_narrow (b, m.var, m.own), gm_narrow (b, m.mean, m.own) };
  CHECK ();
  return gm_give_list (both, 2, true, NULL);
}

static GmVal
norm (GmBuilder *b, GmVal v, double p, const int64_t *dims, int n, bool keepdim)
{
  if (p == 2)
    return gm_sqrt_safe (b, gm_b_reduce (b, GM_OP_sum, gm_b (b, square, v), dims, n, keepdim));
  GmVal size = gm_b (b, abs, v);
  if (p == 1)
    return gm_b_reduce (b, GM_OP_sum, size, dims, n, keepdim);
  if (isinf (p))
    return gm_b_reduce (b, p > 0 ? GM_OP_amax : GM_OP_amin, size, dims, n, keepdim);
  if (gm_b_failed (b))
    return NULL;
  if (p == 0)
    return gm_b_reduce (b, GM_OP_sum,
                        gm_b_cast (b, gm_apply_num (b, ne, v, 0), (GmDtype) META (v)->dtype), dims,
                        n, keepdim);
  if (!META (v)->requires_grad)
    return gm_apply_num (
        b, pow, gm_b_reduce (b, GM_OP_sum, gm_apply_num (b, pow, size, p), dims, n, keepdim),
        1 / p);
  /* An element that is 0, and a norm that is, have no slope. */
  GmVal nothing = gm_apply_num (b, eq, size, 0),
        some = gm_pick (b, nothing, gm_float_arg (1), gm_tensor_arg (size));
  GmVal powers = gm_pick (b, nothing, gm_float_arg (p > 0 ? 0 : INFINITY),
                          gm_tensor_arg (gm_apply_num (b, pow, some, p)));
  GmVal sum = gm_b_reduce (b, GM_OP_sum, powers, dims, n, keepdim),
        none = gm_apply_num (b, eq, sum, 0);
  GmVal root =
      gm_apply_num (b, pow, gm_pick (b, none, gm_float_arg (1), gm_tensor_arg (sum)), 1 / p);
  return gm_pick (b, none, gm_float_arg (p > 0 ? 0 : INFINITY), gm_tensor_arg (root));
}

GmVal
gm_norm (GmBuilder *b, GmVal v, double p, const int64_t *dims, int n, bool keepdim)
{
  if (gm_b_failed (b))
    return NULL;
  GmDtype own = (GmDtype) META (v)->dtype;
  return gm_narrow (b, norm (b, gm_widen (b, v), p, dims, n, keepdim), own);
}

RUN (norm)
{
  GmVal v = require_float (api, b, TENSOR (0));
  CHECK ();
  v = gm_b_cast (b, v, gm_arg_dtype (api, b, a, 4, (GmDtype) META (v)->dtype));
  CHECK ();
  if (!gm_dtype_is_float (META (v)->dtype))
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME, "norm(): dtype is a floating one, not %s",
                               gm_dtypes[META (v)->dtype].torch_name));
  double p = 2;
  if (a[1].kind == GM_ARG_STR && strcmp (a[1].s, "fro"))
    return gm_give (
        gm_b_fail (b, GM_ERROR_VALUE, "norm(): p is a number or 'fro', not '%s'", a[1].s));
  if (a[1].kind != GM_ARG_STR && !IS_NONE (1))
    p = FLOAT (1);
  Dims d = dims_of (api, b, a, 2, v);
  return gm_give (gm_norm (b, v, p, d.dims, d.n, FLAG (3)));
}

/* -- Scans and softmax ------------------------------------------------------------------------- */

RUN (cumsum)
{
  GmVal v = sum_input (api, b, a, 2);
  CHECK ();
  GmAttrs at = { .mask = BIT (DIM) | BIT (REVERSE),
                 .dim = gm_arg_dim (api, b, a, 1, META (v)->ndim) };
  return gm_give (gm_b_op (b, GM_OP_cumsum, &v, 1, &at));
}

/* Returns the largest elements along dims, kept as sizes of 1 and detached: constants for the
 * gradient. */
static GmVal
largest (GmBuilder *b, GmVal v, const int64_t *dims, int n)
{
  if (!gm_b_failed (b) && META (v)->requires_grad)
    v = gm_b (b, detach, v);
  return gm_b_reduce (b, GM_OP_amax, v, dims, n, true);
}

RUN (logsumexp)
{
  GmVal v = TENSOR (0);
  CHECK ();
  v = gm_apply1 (b, copy,
                 gm_dtype_is_float (META (v)->dtype) ? v : gm_b_cast (b, v, gm_default_dtype ()));
  CHECK ();
  Dims d = dims_of (api, b, a, 1, v);
  GmDtype own = (GmDtype) META (v)->dtype;
  v = gm_widen (b, v);
  GmVal top = largest (b, v, d.dims, d.n);
  /* An infinite largest element would give inf - inf. */
  GmVal infinite = gm_apply_num (b, eq, gm_b (b, abs, top), INFINITY);
  GmArg pick[3] = { gm_tensor_arg (infinite), gm_float_arg (0), gm_tensor_arg (top) };
  top = gm_apply (b, GM_OP_where, pick, 3);
  GmVal sum =
      gm_b_reduce (b, GM_OP_sum, gm_b (b, exp, gm_b (b, sub, v, top)), d.dims, d.n, FLAG (2));
  CHECK ();
  GmVal y =
      gm_b (b, add, gm_b (b, log, sum), gm_b_reshape (b, top, META (sum)->ndim, META (sum)->sizes));
  return gm_give (gm_narrow (b, y, own));
}

GmVal
gm_softmax (GmBuilder *b, GmVal v, int dim, bool log)
{
  int64_t d = dim;
  if (gm_b_failed (b))
    return NULL;
  int n = META (v)->ndim ? 1 : 0;                /* a scalar's one dimension is all of it */
  if (n && gm_size_eq (META (v)->sizes[dim], 0)) /* a maximum of nothing does not exist */
    return gm_apply1 (b, copy, v);
  GmDtype own = (GmDtype) META (v)->dtype;
  v = gm_widen (b, v);
  GmVal off = gm_b (b, sub, v, largest (b, v, &d, n));
  GmVal e = gm_b (b, exp, off);
  GmVal sum = gm_b_reduce (b, GM_OP_sum, e, &d, n, true);
  /* One division for each row: the sum is at least 1, so its reciprocal is exact up to its
   * rounding. */
  return gm_narrow (
      b, log ? gm_b (b, sub, off, gm_b (b, log, sum)) : gm_b (b, mul, e, gm_b (b, reciprocal, sum)),
      own);
}

static GmArg
run_softmax (const GmApi *api, GmBuilder *b, GmArg *a, bool log)
{
  GmVal v = TENSOR (0);
  CHECK ();
  v = require_float (api, b,
                     gm_b_cast (b, v, gm_arg_dtype (api, b, a, 2, (GmDtype) META (v)->dtype)));
  CHECK ();
  int ndim = META (v)->ndim;
  int dim = !IS_NONE (1)                          ? gm_arg_dim (api, b, a, 1, ndim)
            : ndim == 0 || ndim == 1 || ndim == 3 ? 0
                                                  : 1;
  return gm_give (gm_softmax (b, v, dim, log));
}

RUN (softmax)
{
  return run_softmax (api, b, a, false);
}
RUN (log_softmax)
{
  return run_softmax (api, b, a, true);
}
