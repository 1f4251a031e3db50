/* SPDX-License-Identifier: Apache-2.0
 * api_order.c -- running products and extrema, medians and quantiles, counts.
 *
 * A running maximum (log-sum-exp, ...) is computed in log2 (n) steps: step k combines each element
 * with the element 2^k places before it (W. D. Hillis, G. L. Steele, "Data parallel algorithms",
 * 1986). So the graph is short, and every back end supports it. Where n is an expression, the
 * recorded graph is valid for all n with the same number of steps.
 */
#include "core/api/api_private.h"

#include <math.h>

#define FMT "%" G_GINT64_FORMAT

static int64_t
length (GmBuilder *b, GmVal v, int dim)
{
  return gm_b_failed (b) ? 0 : META (v)->ndim ? gm_size_number (META (v)->sizes[dim]) : 1;
}

/* Returns the size of dim, which may be an expression; 1 for a 0-d tensor, 0 after an error. */
static int64_t
size_along (GmBuilder *b, GmVal v, int dim)
{
  return gm_b_failed (b) ? 0 : META (v)->ndim ? META (v)->sizes[dim] : 1;
}

/* Returns v without the first element of dim; a dimension without elements stays so. */
static GmVal
later (GmBuilder *b, GmVal v, int dim)
{
  int64_t n = size_along (b, v, dim);
  return gm_cut (b, v, dim, gm_size_min (1, n), n);
}

static GmVal
earlier (GmBuilder *b, GmVal v, int dim)
{
  return gm_cut (b, v, dim, 0, gm_size_max (gm_size_sub (size_along (b, v, dim), 1), 0));
}

static GmVal
as_before (GmBuilder *b, GmVal v, int ndim)
{
  return gm_b_failed (b) || ndim ? v : gm_squeeze (b, v, 0);
}

/* -- Running products, sums of exponentials, extrema ------------------------------------------- */

static GmVal
product (GmBuilder *b, GmVal earlier, GmVal later)
{
  return gm_b (b, mul, earlier, later);
}

static GmVal
running (GmBuilder *b, GmVal v, int dim, GmVal (*combine) (GmBuilder *, GmVal, GmVal))
{
  int64_t n = size_along (b, v, dim);
  for (int64_t step = 1; !gm_b_failed (b) && gm_size_lt (step, n); step *= 2) {
    GmVal parts[2] = { gm_cut (b, v, dim, 0, step),
                       combine (b, gm_cut (b, v, dim, 0, gm_size_sub (n, step)),
                                gm_cut (b, v, dim, step, n)) };
    v = gm_cat (b, parts, 2, dim);
  }
  return v;
}

static GmVal
cumprod (GmBuilder *b, GmVal v, int dim)
{
  GmAttrs at = { .mask = BIT (DIM) | BIT (REVERSE), .dim = dim };
  return gm_b_op (b, GM_OP_cumprod, &v, 1, &at);
}

RUN (cumprod)
{
  GmVal v = gm_arg_spared (api, b, a, -1);
  CHECK ();
  GmDtype own = (GmDtype) META (v)->dtype,
          d = gm_arg_dtype (api, b, a, 2, gm_dtype_is_float (own) ? own : GM_I64);
  int ndim = META (v)->ndim, dim = gm_arg_dim (api, b, a, 1, ndim);
  CHECK ();
  if (d == GM_BOOL) /* bools: the smallest number counts */
    return gm_give (gm_b_cast (b, cumprod (b, gm_b_cast (b, v, GM_U8), dim), GM_BOOL));
  return gm_give (as_before (b, cumprod (b, gm_at_least (b, gm_b_cast (b, v, d), 1), dim), ndim));
}

/* Computes powers as running products of a column of ones and copies of x. */
RUN (vander)
{
  GmVal x = TENSOR (0);
  CHECK ();
  if (META (x)->ndim != 1)
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "vander(): x must be a vector, but has %d dimensions",
                               META (x)->ndim));
  int64_t rows = META (x)->sizes[0], n = IS_NONE (1) ? rows : INT (1);
  bool increasing = FLAG (2);
  CHECK ();
  if (gm_size_lt (n, 0))
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME, "vander(): N must not be negative, but is " FMT,
                               gm_size_number (n)));
  GmDtype d = gm_dtype_is_float ((GmDtype) META (x)->dtype) ? (GmDtype) META (x)->dtype : GM_I64;
  if (gm_size_lt (n, 1))
    return gm_give (gm_b_full (b, gm_scalar_int (0), d, 2, (const int64_t[]){ rows, 0 }));
  GmVal first = gm_apply_num (b, lt, gm_b_arange (b, 0, 1, n, GM_I64), 1);
  GmVal v = gm_pick (b, first, gm_tensor_arg (gm_b_scalar (b, gm_scalar_int (1), d)),
                     gm_tensor_arg (gm_unsqueeze (b, gm_b_cast (b, x, d), 1)));
  v = running (b, v, 1, product);
  return gm_give (increasing ? v : gm_reversed (b, v, 1));
}

RUN (logcumsumexp)
{
  GmVal v = TENSOR (0);
  CHECK ();
  GmDtype d = (GmDtype) META (v)->dtype;
  int ndim = META (v)->ndim, dim = gm_arg_dim (api, b, a, 1, ndim);
  CHECK ();
  if (!gm_dtype_is_float (d))
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME, "logcumsumexp(): takes floating dtypes, not %s",
                               gm_dtypes[d].torch_name));
  v = as_before (b, running (b, gm_at_least (b, gm_widen (b, v), 1), dim, gm_log_add), ndim);
  return gm_give (gm_narrow (
      b, gm_b_failed (b) || gm_size_lt (1, size_along (b, v, dim)) ? v : gm_b (b, copy, v), d));
}

/* Returns the index of the largest (smallest, by `better`) element so far, the last of equal ones;
 * from a NaN on, its index. */
static GmVal
running_extremum (GmBuilder *b, GmVal v, int dim, GmOp better)
{
  int64_t n = size_along (b, v, dim), sizes[GM_MAX_DIMS];
  if (gm_b_failed (b))
    return NULL;
  for (int d = 0; d < META (v)->ndim; d++)
    sizes[d] = d == dim ? n : 1;
  GmVal at = gm_b_view (b, gm_b_arange (b, 0, 1, n, GM_I64), META (v)->ndim, sizes);
  at = gm_apply1 (b, copy, gm_b_expand (b, at, META (v)->ndim, META (v)->sizes));
  for (int64_t step = 1; !gm_b_failed (b) && gm_size_lt (step, n); step *= 2) {
    int64_t rest = gm_size_sub (n, step);
    GmVal x = gm_cut (b, v, dim, 0, rest), y = gm_cut (b, v, dim, step, n);
    GmVal take = gm_b_op (b, better, (const GmVal[]){ y, x }, 2, NULL);
    if (gm_dtype_is_float (META (v)->dtype))
      take =
          gm_b (b, logical_or, gm_b (b, ne, y, y), gm_b (b, logical_and, gm_b (b, eq, x, x), take));
    GmVal best[2] = { gm_cut (b, v, dim, 0, step), gm_b (b, where, take, y, x) };
    GmVal places[2] = { gm_cut (b, at, dim, 0, step),
                        gm_b (b, where, take, gm_cut (b, at, dim, step, n),
                              gm_cut (b, at, dim, 0, rest)) };
    v = gm_cat (b, best, 2, dim);
    at = gm_cat (b, places, 2, dim);
  }
  return at;
}

static GmArg
run_extremum (const GmApi *api, GmBuilder *b, GmArg *a, GmOp better)
{
  GmVal v = TENSOR (0);
  CHECK ();
  int ndim = META (v)->ndim, dim = gm_arg_dim (api, b, a, 1, ndim);
  CHECK ();
  GmVal still = META (v)->requires_grad ? gm_b (b, detach, v) : v;
  if (META (v)->dtype == GM_BOOL)
    still = gm_b_cast (b, still, GM_U8);
  GmVal at = as_before (b, running_extremum (b, gm_at_least (b, still, 1), dim, better), ndim);
  GmVal both[2] = { gm_gather (b, v, dim, at), at };
  CHECK ();
  return gm_give_list (both, 2, true,
                       better == GM_OP_ge ? "cummax values indices" : "cummin values indices");
}

RUN (cummax)
{
  return run_extremum (api, b, a, GM_OP_ge);
}
RUN (cummin)
{
  return run_extremum (api, b, a, GM_OP_le);
}

/* -- Differences and integrals ----------------------------------------------------------------- */

RUN (diff)
{
  GmVal v = TENSOR (0);
  int64_t n = INT (1);
  CHECK ();
  if (META (v)->ndim == 0)
    return gm_give (
        gm_b_fail (b, GM_ERROR_RUNTIME, "diff(): expects input to be at least one-dimensional"));
  int dim = gm_arg_dim (api, b, a, 2, META (v)->ndim);
  CHECK ();
  if (n < 0)
    return gm_give (
        gm_b_fail (b, GM_ERROR_RUNTIME, "diff(): order must be non-negative but got " FMT, n));
  if (n == 0)
    return gm_give (gm_b (b, copy, v));
  GmVal parts[3];
  int k = 0;
  if (!IS_NONE (3))
    parts[k++] = TENSOR (3);
  parts[k++] = v;
  if (!IS_NONE (4))
    parts[k++] = TENSOR (4);
  CHECK ();
  GmArg all[3];
  for (int i = 0; i < k; i++)
    all[i] = gm_tensor_arg (parts[i]);
  GmDtype d = gm_result_type (b, all, k);
  for (int i = 0; i < k; i++)
    parts[i] = gm_b_cast (b, parts[i], d);
  v = k > 1 ? gm_cat (b, parts, k, dim) : parts[0];
  for (int64_t i = 0; i < n && !gm_b_failed (b); i++) {
    GmVal to = later (b, v, dim), from = earlier (b, v, dim);
    v = d == GM_BOOL ? gm_b (b, logical_xor, to, from) : gm_b (b, sub, to, from);
  }
  return gm_give (v);
}

/* Returns the areas between neighbours along *dim: (y[i] + y[i + 1]) / 2 times a width. */
static GmVal
areas (const GmApi *api, GmBuilder *b, GmArg *a, int *dim)
{
  GmVal y = TENSOR (0), x = a[1].kind == GM_ARG_TENSOR ? TENSOR (1) : NULL;
  if (gm_b_failed (b))
    return NULL;
  if (!IS_NONE (1) && !x)
    return gm_arg_fail (api, b, a, 1, "Tensor");
  *dim = gm_arg_dim (api, b, a, 3, META (y)->ndim);
  double dx = IS_NONE (2) ? 1 : FLOAT (2);
  if (gm_b_failed (b))
    return NULL;
  if (META (y)->ndim == 0)
    return gm_b_fail (b, GM_ERROR_RUNTIME, "%s(): y must have at least one dimension", api->name);
  int64_t n = size_along (b, y, *dim), rest = META (y)->ndim - *dim;
  GmVal sum = gm_apply2 (b, add, later (b, y, *dim), earlier (b, y, *dim));
  if (!x)
    return gm_apply_num (b, mul, sum, dx / 2);
  int at = META (x)->ndim == 1 ? 0 : META (x)->ndim - (int) rest;
  if (at < 0 || META (x)->ndim == 0 || !gm_size_eq (size_along (b, x, at), n))
    return gm_b_fail (b, GM_ERROR_RUNTIME,
                      "%s(): there must be one `x` value for each sample point", api->name);
  GmVal width = gm_apply2 (b, sub, later (b, x, at), earlier (b, x, at));
  if (!gm_b_failed (b) && META (x)->ndim == 1) { /* a vector along dim */
    int64_t sizes[GM_MAX_DIMS];
    for (int d = 0; d < rest; d++)
      sizes[d] = d ? 1 : META (width)->sizes[0];
    width = gm_b_view (b, width, (int) rest, sizes);
  }
  return gm_apply_num (b, div, gm_apply2 (b, mul, sum, width), 2);
}

RUN (trapezoid)
{
  int dim = 0;
  GmVal v = areas (api, b, a, &dim);
  CHECK ();
  int64_t dims = dim;
  return gm_give (gm_b_reduce (b, GM_OP_sum, v, &dims, 1, false));
}

RUN (cumulative_trapezoid)
{
  int dim = 0;
  GmVal v = areas (api, b, a, &dim);
  CHECK ();
  GmAttrs at = { .mask = BIT (DIM) | BIT (REVERSE), .dim = dim };
  return gm_give (gm_b_op (b, GM_OP_cumsum, &v, 1, &at));
}

/* -- Order statistics -------------------------------------------------------------------------- */

/* Returns true for each row along dim that has a NaN; dim is kept. */
static GmVal
has_nan (GmBuilder *b, GmVal v, int dim)
{
  int64_t d = dim;
  return gm_b_reduce (b, GM_OP_any, gm_b (b, ne, v, v), &d, 1, true);
}

/* Returns the number of elements of each row that are no NaN; dim is kept. */
static GmVal
count_numbers (GmBuilder *b, GmVal v, int dim)
{
  int64_t d = dim;
  return gm_b_reduce (b, GM_OP_sum, gm_b_cast (b, gm_b (b, eq, v, v), GM_I64), &d, 1, true);
}

static GmArg
give_at (const GmApi *api, GmBuilder *b, GmVal v, int dim, GmVal at, int ndim, bool keepdim,
         const char *fields)
{
  GmVal both[2] = { gm_gather (b, v, dim, at), at };
  for (int i = 0; i < 2; i++)
    both[i] = !keepdim || ndim == 0 ? gm_squeeze (b, both[i], dim) : both[i];
  CHECK ();
  return gm_give_list (both, 2, true, fields);
}

/* Returns the lower median of all elements, or along dim. `skip`: NaN are left out. */
static GmArg
median (const GmApi *api, GmBuilder *b, GmArg *a, bool skip, const char *fields)
{
  GmVal v = TENSOR (0);
  CHECK ();
  bool all = IS_NONE (1), keepdim = FLAG (2), floating = gm_dtype_is_float (META (v)->dtype);
  int ndim = META (v)->ndim, dim = all ? 0 : gm_arg_dim (api, b, a, 1, ndim);
  CHECK ();
  if (all) {
    int64_t n = gm_meta_numel (META (v));
    v = gm_b_reshape (b, v, 1, &n);
  }
  v = gm_at_least (b, v, 1);
  int64_t n = size_along (b, v, dim);
  CHECK ();
  bool none = gm_size_eq (n, 0);
  if (none && all)
    return gm_give (
        floating ? gm_b_scalar (b, gm_scalar_float (NAN), (GmDtype) META (v)->dtype)
                 : gm_b_fail (b, GM_ERROR_RUNTIME, "%s(): there are no elements", api->name));
  if (none)
    return gm_give (gm_b_fail (b, GM_ERROR_INDEX,
                               "%s(): expected reduction dim %d to have non-zero size", api->name,
                               dim));
  GmVal still = META (v)->requires_grad ? gm_b (b, detach, v) : v;
  GmVal order = gm_argsort (b, still, dim, false), place;
  if (skip && floating) {
    GmVal count = count_numbers (b, still, dim), one = gm_b_scalar (b, gm_scalar_int (1), GM_I64);
    GmVal less = gm_b (b, sub, gm_b (b, maximum, count, one), one);
    place = gm_b (b, floor_divide, less, gm_b_scalar (b, gm_scalar_int (2), GM_I64));
  } else {
    GmMeta m = *META (v);
    m.sizes[dim] = 1;
    place = gm_b_full (b, gm_scalar_int (gm_size_floordiv (gm_size_sub (n, 1), 2)), GM_I64, m.ndim,
                       m.sizes);
  }
  GmVal at = gm_gather (b, order, dim, place);
  if (!skip && floating) { /* the first NaN, if there is one */
    GmVal first = gm_arg_extremum (b, GM_OP_argmax,
                                   gm_b_cast (b, gm_b (b, ne, still, still), GM_U8), dim, true);
    at = gm_b (b, where, has_nan (b, still, dim), first, at);
  }
  if (all && META (v)->requires_grad) { /* the gradient is shared by all elements that are the
                                         * median, in equal parts */
    GmVal middle = gm_gather (b, still, 0, at),
          least = gm_b_scalar (b, gm_scalar_float (-INFINITY), (GmDtype) META (v)->dtype);
    int64_t first = 0;
    GmVal top = gm_b_reduce (b, GM_OP_amax, gm_b (b, where, gm_b (b, eq, still, middle), v, least),
                             &first, 1, true);
    return gm_give (gm_squeeze (
        b, gm_b (b, where, gm_b (b, ne, middle, middle), gm_gather (b, v, 0, at), top), 0));
  }
  if (all)
    return gm_give (gm_squeeze (b, gm_gather (b, v, 0, at), 0));
  return give_at (api, b, v, dim, at, ndim, keepdim, fields);
}

RUN (median)
{
  return median (api, b, a, false, "median values indices");
}
RUN (nanmedian)
{
  return median (api, b, a, true, "nanmedian values indices");
}

RUN (kthvalue)
{
  GmVal v = TENSOR (0);
  int64_t k = INT (1);
  CHECK ();
  int ndim = META (v)->ndim, dim = gm_arg_dim (api, b, a, 2, ndim);
  bool keepdim = FLAG (3);
  CHECK ();
  v = gm_at_least (b, v, 1);
  int64_t n = size_along (b, v, dim);
  CHECK ();
  if (k < 1 || gm_size_lt (n, k))
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "kthvalue(): selected number k out of range for dimension %d: " FMT
                               " of " FMT,
                               dim, k, gm_size_number (n)));
  GmVal still = META (v)->requires_grad ? gm_b (b, detach, v) : v;
  return give_at (api, b, v, dim, gm_cut (b, gm_argsort (b, still, dim, false), dim, k - 1, k),
                  ndim, keepdim, "kthvalue values indices");
}

/* Returns the most frequent value, the smallest of such values, and its last index. */
RUN (mode)
{
  GmVal v = TENSOR (0);
  CHECK ();
  int ndim = META (v)->ndim, dim = gm_arg_dim (api, b, a, 1, ndim);
  bool keepdim = FLAG (2);
  CHECK ();
  v = gm_at_least (b, v, 1);
  int64_t n = length (b, v, dim);
  CHECK ();
  if (n == 0)
    return gm_give (gm_b_fail (b, GM_ERROR_INDEX,
                               "mode(): expected reduction dim %d to have non-zero size", dim));
  GmVal still = META (v)->requires_grad ? gm_b (b, detach, v) : v;
  GmVal order = gm_argsort (b, still, dim, false), sorted = gm_gather (b, still, dim, order),
        run = gm_b_full (b, gm_scalar_int (1), GM_I64, META (v)->ndim, META (v)->sizes);
  /* The length of the run of equal elements that ends here, by doubling: a run of length s is
   * joined to the run before it. */
  for (int64_t step = 1; step < n && !gm_b_failed (b); step *= 2) {
    GmVal late = gm_cut (b, run, dim, step, n), early = gm_cut (b, run, dim, 0, n - step);
    GmVal same =
        gm_b (b, eq, gm_cut (b, sorted, dim, step, n), gm_cut (b, sorted, dim, 0, n - step));
    GmVal joins = gm_b (b, logical_and, same,
                        gm_b (b, eq, late, gm_b_scalar (b, gm_scalar_int (step), GM_I64)));
    GmVal parts[2] = { gm_cut (b, run, dim, 0, step),
                       gm_b (b, where, joins, gm_b (b, add, late, early), late) };
    run = gm_cat (b, parts, 2, dim);
  }
  GmVal best = gm_arg_extremum (b, GM_OP_argmax, run, dim, true);
  return give_at (api, b, v, dim, gm_gather (b, order, dim, best), ndim, keepdim,
                  "mode values indices");
}

typedef enum { LINEAR, LOWER, HIGHER, MIDPOINT, NEAREST } Between;

/* Returns the values at the fractions q of the sorted elements of each row. `skip`: NaN are left
 * out. */
static GmArg
quantile (const GmApi *api, GmBuilder *b, GmArg *a, bool skip)
{
  static const char *const names[] = { "linear", "lower", "higher", "midpoint", "nearest" };
  GmVal v = TENSOR (0);
  CHECK ();
  const char *how = STR (4);
  bool keepdim = FLAG (3), all = IS_NONE (2);
  int between = 0;
  while (between < 5 && strcmp (how, names[between]))
    between++;
  CHECK ();
  if (between == 5)
    return gm_give (gm_b_fail (
        b, GM_ERROR_RUNTIME,
        "%s(): interpolation must be one of linear, lower, higher, midpoint or nearest, but got %s",
        api->name, how));
  GmDtype d = (GmDtype) META (v)->dtype;
  if (d != GM_F32 && d != GM_F64)
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "%s(): input must be either float or double, not %s", api->name,
                               gm_dtypes[d].torch_name));
  int ndim = META (v)->ndim, dim = all ? 0 : gm_arg_dim (api, b, a, 2, ndim);
  GmVal q =
      a[1].kind == GM_ARG_TENSOR ? a[1].v : gm_b_full (b, gm_scalar_float (FLOAT (1)), d, 0, NULL);
  CHECK ();
  if (a[1].kind != GM_ARG_TENSOR && !(FLOAT (1) >= 0 && FLOAT (1) <= 1))
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "%s(): q must be in the range [0, 1], but is %g", api->name,
                               FLOAT (1)));
  if (META (q)->ndim > 1 || META (q)->dtype != d)
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "%s(): q must be a number or a vector of input's dtype", api->name));
  bool many = META (q)->ndim == 1;
  if (a[1].kind == GM_ARG_TENSOR)
    q = gm_require_between (b, q, q, 0, 1, GM_CONDITION_QUANTILE);
  CHECK ();
  int64_t nq = many ? gm_size_number (META (q)->sizes[0]) : 1;
  GmMeta whole = *META (v);
  if (all) {
    int64_t n = gm_meta_numel (META (v));
    v = gm_b_reshape (b, v, 1, &n);
  }
  v = gm_at_least (b, v, 1);
  CHECK ();
  int64_t n = size_along (b, v, dim), sizes[GM_MAX_DIMS];
  if (gm_size_eq (n, 0))
    return gm_give (
        gm_b_fail (b, GM_ERROR_RUNTIME, "%s(): input tensor must be non-empty", api->name));
  GmMeta m = *META (v);
  for (int k = 0; k < m.ndim; k++)
    sizes[k] = k == dim ? nq : 1;
  GmVal still = m.requires_grad ? gm_b (b, detach, v) : v;
  GmVal sorted = gm_gather (b, v, dim, gm_argsort (b, still, dim, false));
  GmVal last = gm_b_cast (
      b, skip ? count_numbers (b, still, dim) : gm_b_full (b, gm_scalar_int (n), GM_I64, 0, NULL),
      d);
  last = gm_apply_num (b, sub, last, 1);
  if (skip)
    last = gm_clamp_min (b, last, 0);
  GmVal rank = gm_b (b, mul, gm_b_reshape (b, q, m.ndim, sizes), last);
  GmMeta wide = m;
  wide.sizes[dim] = nq;
  rank = gm_b_expand (b, rank, m.ndim, wide.sizes);
  if (!skip) /* sorted, a NaN is the last */
    rank = gm_b (b, where, gm_b_expand (b, has_nan (b, still, dim), m.ndim, wide.sizes),
                 gm_b_scalar (b, gm_scalar_int (gm_size_sub (n, 1)), d), rank);
  if (between == NEAREST)
    rank = gm_b (b, round, rank);
  GmVal low = gm_b (b, floor, rank), high = between == LOWER ? low : gm_b (b, ceil, rank);
  low = between == HIGHER ? high : low;
  GmVal x = gm_gather (b, sorted, dim, gm_b_cast (b, low, GM_I64)), y = x;
  if (between == LINEAR || between == MIDPOINT) {
    y = gm_gather (b, sorted, dim, gm_b_cast (b, high, GM_I64));
    GmVal weight = gm_b (b, sub, rank, low);
    GmVal middle = between == LINEAR
                       ? gm_b (b, add, x, gm_b (b, mul, weight, gm_b (b, sub, y, x)))
                       : gm_b (b, add, x, gm_apply_num (b, mul, gm_b (b, sub, y, x), 0.5));
    x = gm_b (b, where, gm_b (b, eq, low, high), x, middle);
  }
  CHECK ();
  /* q comes first; a kept dimension has size 1 */
  int64_t dims[GM_MAX_DIMS], out[GM_MAX_DIMS + 1];
  int k = 0, o = 0;
  dims[k++] = dim;
  for (int i = 0; i < m.ndim; i++)
    if (i != dim)
      dims[k++] = i;
  if (many)
    out[o++] = nq;
  for (int i = 0; i < (all ? whole.ndim : ndim); i++)
    if (all || i == dim) {
      if (keepdim)
        out[o++] = 1;
    } else
      out[o++] = m.sizes[i];
  if (o > GM_MAX_DIMS)
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "%s(): the result would have more than %d dimensions", api->name,
                               GM_MAX_DIMS));
  return gm_give (gm_b_reshape (b, gm_b_permute (b, x, dims), o, out));
}

RUN (quantile)
{
  return quantile (api, b, a, false);
}
RUN (nanquantile)
{
  return quantile (api, b, a, true);
}

/* -- Without NaN ------------------------------------------------------------------------------- */

static GmVal
zero_for_nan (GmBuilder *b, GmVal v)
{
  if (gm_b_failed (b) || !gm_dtype_is_float (META (v)->dtype))
    return v;
  return gm_b (b, where, gm_b (b, ne, v, v),
               gm_b_scalar (b, gm_scalar_int (0), (GmDtype) META (v)->dtype), v);
}

RUN (nansum)
{
  GmVal v = TENSOR (0);
  CHECK ();
  a[0].v = zero_for_nan (b, v);
  return gm_run_sum (api, b, a);
}

RUN (nanmean)
{
  GmVal v = TENSOR (0);
  CHECK ();
  GmDtype d = gm_arg_dtype (api, b, a, 3, (GmDtype) META (v)->dtype);
  int64_t dims[GM_MAX_DIMS];
  int n;
  gm_arg_dims (api, b, a, 1, META (v)->ndim, dims, &n);
  bool keepdim = FLAG (2);
  CHECK ();
  if (!gm_dtype_is_float (d))
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME, "nanmean(): takes floating dtypes, not %s",
                               gm_dtypes[d].torch_name));
  v = gm_b_cast (b, v, d);
  GmVal number = gm_b_cast (b, gm_b (b, eq, v, v), gm_dtype_compute (d));
  GmVal sum = gm_b_reduce (b, GM_OP_sum, gm_widen (b, zero_for_nan (b, v)), dims, n, keepdim);
  GmVal count = gm_b_reduce (b, GM_OP_sum, number, dims, n, keepdim);
  return gm_give (gm_narrow (b, gm_b (b, div, sum, count), d));
}

RUN (std_mean)
{
  GmArg both = gm_run_var_mean (api, b, a);
  CHECK ();
  GmVal out[2] = { gm_sqrt_safe (b, both.items[0].v), both.items[1].v };
  gm_arg_clear (&both);
  CHECK ();
  return gm_give_list (out, 2, true, NULL);
}

RUN (aminmax)
{
  GmVal v = TENSOR (0);
  CHECK ();
  bool keepdim = FLAG (2), all = IS_NONE (1);
  int64_t dim = all ? 0 : gm_arg_dim (api, b, a, 1, META (v)->ndim);
  CHECK ();
  GmDtype own = (GmDtype) META (v)->dtype;
  GmVal x = own == GM_BOOL ? gm_b_cast (b, v, GM_U8) : v;
  int n = all || META (v)->ndim == 0 ? 0 : 1;
  GmVal both[2] = { gm_b_cast (b, gm_b_reduce (b, GM_OP_amin, x, &dim, n, keepdim), own),
                    gm_b_cast (b, gm_b_reduce (b, GM_OP_amax, x, &dim, n, keepdim), own) };
  CHECK ();
  return gm_give_list (both, 2, true, "aminmax min max");
}

/* -- Places in a sorted row, sets, counts ------------------------------------------------------ */

/* Returns the number of boundaries below each value (at or below it, if `right`). */
static GmVal
count_below (GmBuilder *b, GmVal bounds, GmVal values, bool right, GmDtype out)
{
  if (gm_b_failed (b))
    return NULL;
  int nv = META (values)->ndim;
  GmVal v = gm_unsqueeze (b, values, nv),
        row = META (bounds)->ndim == 1 ? bounds : gm_unsqueeze (b, bounds, META (bounds)->ndim - 1);
  GmArg x[2] = { gm_tensor_arg (row), gm_tensor_arg (v) };
  GmDtype d = gm_b_failed (b) ? GM_F32 : gm_result_type (b, x, 2);
  GmVal below = gm_b_op (b, right ? GM_OP_le : GM_OP_lt,
                         (const GmVal[]){ gm_b_cast (b, row, d), gm_b_cast (b, v, d) }, 2, NULL);
  if (!gm_b_failed (b) && gm_dtype_is_float (d)) { /* a NaN is above all numbers */
    GmVal no_value = gm_b (b, ne, v, v);
    below = gm_b (b, logical_or, below,
                  right ? no_value : gm_b (b, logical_and, no_value, gm_b (b, eq, row, row)));
  }
  int64_t last = gm_b_failed (b) ? 0 : META (below)->ndim - 1;
  return gm_b_cast (b, gm_b_reduce (b, GM_OP_sum, gm_b_cast (b, below, GM_I64), &last, 1, false),
                    out);
}

static GmVal
tensor_or_number (const GmApi *api, GmBuilder *b, GmArg *a, int i, GmDtype like)
{
  return gm_arg_is_number (&a[i]) ? gm_as_dtype (
             b, &a[i],
             a[i].kind == GM_ARG_FLOAT && !gm_dtype_is_float (like) ? gm_default_dtype () : like)
                                  : TENSOR (i);
}

RUN (bucketize)
{
  GmVal bounds = TENSOR (1);
  CHECK ();
  GmVal v = tensor_or_number (api, b, a, 0, (GmDtype) META (bounds)->dtype);
  bool small = FLAG (2), right = FLAG (3);
  CHECK ();
  if (META (bounds)->ndim != 1)
    return gm_give (gm_b_fail (
        b, GM_ERROR_RUNTIME, "bucketize(): boundaries tensor must be 1 dimension, but got dim(%d)",
        META (bounds)->ndim));
  return gm_give (count_below (b, bounds, v, right, small ? GM_I32 : GM_I64));
}

RUN (searchsorted)
{
  GmVal bounds = TENSOR (0);
  CHECK ();
  GmVal v = tensor_or_number (api, b, a, 1, (GmDtype) META (bounds)->dtype);
  bool small = FLAG (2), right = FLAG (3);
  CHECK ();
  if (!IS_NONE (4)) {
    const char *side = STR (4);
    CHECK ();
    bool is_right = strcmp (side, "right") == 0;
    if (!is_right && strcmp (side, "left"))
      return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                                 "searchsorted(): side can only be 'left' or 'right' but got %s",
                                 side));
    right = is_right;
  }
  if (!IS_NONE (5)) {
    GmVal sorter = TENSOR (5);
    CHECK ();
    bounds = gm_gather (b, bounds, META (bounds)->ndim - 1, sorter);
    CHECK ();
  }
  bool fits = META (bounds)->ndim == 1 || META (bounds)->ndim == META (v)->ndim;
  for (int d = 0; fits && META (bounds)->ndim > 1 && d < META (v)->ndim - 1; d++)
    fits = gm_size_eq (META (bounds)->sizes[d], META (v)->sizes[d]);
  if (!fits || META (bounds)->ndim == 0)
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "searchsorted(): sorted_sequence must be a vector, or have the "
                               "values' sizes but for the last dimension"));
  return gm_give (count_below (b, bounds, v, right, small ? GM_I32 : GM_I64));
}

RUN (isin)
{
  if (a[0].kind != GM_ARG_TENSOR && a[1].kind != GM_ARG_TENSOR)
    return gm_give (gm_arg_fail (api, b, a, 0, "Tensor"));
  GmDtype d = gm_result_type (b, a, 2);
  bool invert = FLAG (3);
  CHECK ();
  GmVal x = gm_as_dtype (b, &a[0], d), set = gm_as_dtype (b, &a[1], d);
  CHECK ();
  int64_t n = gm_meta_numel (META (set)), last = META (x)->ndim;
  GmVal hit = gm_b_reduce (
      b, GM_OP_any, gm_b (b, eq, gm_unsqueeze (b, x, (int) last), gm_b_reshape (b, set, 1, &n)),
      &last, 1, false);
  return gm_give (invert ? gm_b (b, logical_not, hit) : hit);
}

RUN (bincount)
{
  GmVal v = TENSOR (0), weights = OPTIONAL_TENSOR (1);
  int64_t n = INT (2);
  CHECK ();
  if (META (v)->ndim != 1 || gm_dtypes[META (v)->dtype].category != GM_CATEGORY_INT || n < 0)
    return gm_give (gm_b_fail (
        b, GM_ERROR_RUNTIME,
        "bincount(): only supports 1-d non-negative integral inputs, and minlength >= 0"));
  if (weights && !gm_meta_same_shape (META (v), META (weights)))
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "bincount(): weights should have the same length as input"));
  GmVal index = gm_b_cast (b, v, GM_I64);
  if (gm_size_number (META (v)->sizes[0]) > 0) { /* the length comes from the data */
    GmScalar top = gm_scalar_int (0), low = gm_scalar_int (0);
    GmVal most = gm_b_reduce (b, GM_OP_amax, index, NULL, 0, false),
          least = gm_b_reduce (b, GM_OP_amin, index, NULL, 0, false);
    if (gm_b_failed (b) || !b->vt->item (b, most, &top) || !b->vt->item (b, least, &low))
      return gm_give (NULL);
    if (low.i < 0)
      return gm_give (gm_b_fail (
          b, GM_ERROR_RUNTIME,
          "bincount(): only supports 1-d non-negative integral inputs, and minlength >= 0"));
    n = MAX (n, top.i + 1);
  }
  GmDtype d = !weights ? GM_I64 : META (weights)->dtype == GM_F32 ? GM_F32 : GM_F64;
  GmVal one =
      weights ? gm_b_cast (b, weights, d) : gm_b_full (b, gm_scalar_int (1), d, 1, META (v)->sizes);
  GmAttrs at = { .mask = BIT (DIM) };
  GmVal none = gm_b_full (b, gm_scalar_int (0), d, 1, &n);
  return gm_give (gm_b_op (b, GM_OP_scatter_add, (const GmVal[]){ none, index, one }, 3, &at));
}

/* Counts elements in `bins` equal parts of [min, max], the last of which includes max; min = max:
 * the range of the elements. */
RUN (histc)
{
  GmVal v = TENSOR (0);
  int64_t bins = INT (1);
  double low = FLOAT (2), high = FLOAT (3);
  CHECK ();
  GmDtype d = (GmDtype) META (v)->dtype;
  if (!gm_dtype_is_float (d) || bins < 1)
    return gm_give (
        gm_b_fail (b, GM_ERROR_RUNTIME, "histc(): takes floating dtypes and at least one bin"));
  if (!gm_number_fits (b, &a[2], d) || !gm_number_fits (b, &a[3], d))
    return gm_give (NULL);
  int64_t n = gm_meta_numel (META (v));
  v = gm_b_reshape (b, v, 1, &n);
  if (META (v)->requires_grad)
    v = gm_b (b, detach, v);
  if (low == high && gm_size_number (n) > 0) {
    GmScalar least = gm_scalar_int (0), most = gm_scalar_int (0);
    GmVal x = gm_b_reduce (b, GM_OP_amin, v, NULL, 0, false),
          y = gm_b_reduce (b, GM_OP_amax, v, NULL, 0, false);
    if (gm_b_failed (b) || !b->vt->item (b, x, &least) || !b->vt->item (b, y, &most))
      return gm_give (NULL);
    low = gm_scalar_as_double (least);
    high = gm_scalar_as_double (most);
  }
  if (low == high) {
    low -= 1;
    high += 1;
  }
  if (!(low < high) || !isfinite (low) || !isfinite (high))
    return gm_give (gm_b_fail (
        b, GM_ERROR_RUNTIME,
        "histc(): max must be larger than min, both finite, but they are %g and %g", high, low));
  GmVal inside = gm_b (b, logical_and, gm_apply_num (b, ge, v, low), gm_apply_num (b, le, v, high));
  GmVal place = gm_apply_num (b, mul, gm_apply_num (b, sub, gm_widen (b, v), low), (double) bins);
  place = gm_b (b, floor, gm_apply_num (b, div, place, high - low));
  GmVal top = gm_apply_num (b, ge, place, (double) bins);
  place = gm_apply (b, GM_OP_where,
                    (const GmArg[]){ gm_tensor_arg (top), gm_float_arg ((double) (bins - 1)),
                                     gm_tensor_arg (place) },
                    3);
  place = gm_apply (
      b, GM_OP_where,
      (const GmArg[]){ gm_tensor_arg (inside), gm_tensor_arg (place), gm_float_arg (0) }, 3);
  GmAttrs at = { .mask = BIT (DIM) };
  GmVal none = gm_b_full (b, gm_scalar_int (0), d, 1, &bins);
  return gm_give (gm_b_op (
      b, GM_OP_scatter_add,
      (const GmVal[]){ none, gm_b_cast (b, place, GM_I64), gm_b_cast (b, inside, d) }, 3, &at));
}

/* -- Moments of rows --------------------------------------------------------------------------- */

/* Returns the covariances of the rows of v, whose columns are observations. `counts` and `given`
 * (each may be NULL): how often and with which weight each column counts; the divisor is numpy's,
 * sum (w) - correction * sum (w given) / sum (w) with w = counts * given. */
static GmVal
covariance (GmBuilder *b, const GmApi *api, GmVal v, double correction, GmVal counts, GmVal given)
{
  if (gm_b_failed (b))
    return NULL;
  int ndim = META (v)->ndim;
  if (ndim > 2)
    return gm_b_fail (b, GM_ERROR_RUNTIME,
                      "%s(): expected input to have two or fewer dimensions but got %d", api->name,
                      ndim);
  GmDtype d = gm_dtype_is_float (META (v)->dtype) ? (GmDtype) META (v)->dtype : gm_default_dtype ();
  v = gm_b_cast (b, v, d);
  v = gm_b_reshape (b, v, 2,
                    (const int64_t[]){ ndim == 2 ? META (v)->sizes[0] : 1,
                                       ndim == 2 ? META (v)->sizes[1] : gm_meta_numel (META (v)) });
  if (gm_b_failed (b))
    return NULL;
  int64_t last = 1, n = META (v)->sizes[1];
  GmVal w = counts ? gm_b_cast (b, counts, d) : NULL, off, c;
  if (given)
    w = w ? gm_b (b, mul, w, gm_b_cast (b, given, d)) : gm_b_cast (b, given, d);
  if (w) {
    GmVal total = gm_b_reduce (b, GM_OP_sum, w, NULL, 0, false), less = NULL;
    total = gm_require (b, total, gm_apply_num (b, ne, total, 0), GM_CONDITION_COV_SUM);
    GmVal mean =
        gm_b (b, div, gm_b_reduce (b, GM_OP_sum, gm_b (b, mul, v, w), &last, 1, true), total);
    if (given)
      less = gm_b (
          b, div,
          gm_b_reduce (b, GM_OP_sum, gm_b (b, mul, w, gm_b_cast (b, given, d)), NULL, 0, false),
          total);
    off = gm_b (b, sub, v, mean);
    GmVal divisor = less ? gm_b (b, sub, total, gm_apply_num (b, mul, less, correction))
                         : gm_apply_num (b, sub, total, correction);
    c = gm_b (b, div, gm_matmul (api, b, gm_b (b, mul, off, w), gm_b_transpose (b, off, 0, 1)),
              gm_clamp_min (b, divisor, 0));
  } else {
    off = gm_b (b, sub, v, gm_mean (b, v, &last, 1, true));
    c = gm_matmul (api, b, off, gm_b_transpose (b, off, 0, 1));
    if (correction == (double) (int64_t) correction)
      c = gm_apply (
          b, GM_OP_div,
          (const GmArg[]){ gm_tensor_arg (c),
                           gm_count_arg (gm_size_max (gm_size_sub (n, (int64_t) correction), 0)) },
          2);
    else
      c = gm_apply_num (b, div, c, MAX ((double) gm_size_number (n) - correction, 0));
  }
  return gm_b_failed (b) || !gm_size_eq (META (c)->sizes[0], 1) ? c : gm_b_view (b, c, 0, NULL);
}

RUN (cov)
{
  GmVal v = TENSOR (0);
  double correction = FLOAT (1);
  GmVal counts = OPTIONAL_TENSOR (2), given = OPTIONAL_TENSOR (3);
  CHECK ();
  for (int i = 2; i < 4; i++) {
    GmVal w = i == 2 ? counts : given;
    bool right = !w
                 || (META (w)->ndim <= 1
                     && (gm_dtypes[META (w)->dtype].category == GM_CATEGORY_INT) == (i == 2));
    if (!right
        || (w && META (v)->ndim
            && !gm_size_eq (gm_meta_numel (META (w)), META (v)->sizes[META (v)->ndim - 1])))
      return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                                 "cov(): expected %s to be %s, one for each observation",
                                 api->arg_names[i], i == 2 ? "integers" : "floating"));
  }
  if (counts)
    counts = gm_require_between (b, counts, counts, 0, INFINITY, GM_CONDITION_COV_COUNTS);
  if (given)
    given = gm_require_between (b, given, given, 0, INFINITY, GM_CONDITION_COV_WEIGHTS);
  CHECK ();
  return gm_give (covariance (b, api, v, correction, counts, given));
}

RUN (corrcoef)
{
  GmVal v = TENSOR (0), c = covariance (b, api, v, 1, NULL, NULL);
  CHECK ();
  if (META (c)->ndim == 0)
    return gm_give (gm_b (b, div, c, c));
  GmVal line = gm_diagonal (b, c, 0, 0, 1);
  GmVal deviation = gm_b (b, sqrt, line);
  GmVal r = gm_b (b, div, gm_b (b, div, c, gm_unsqueeze (b, deviation, 1)), deviation);
  GmVal high = gm_apply_num (b, gt, r, 1), low = gm_apply_num (b, lt, r, -1);
  r = gm_apply (b, GM_OP_where,
                (const GmArg[]){ gm_tensor_arg (high), gm_float_arg (1), gm_tensor_arg (r) }, 3);
  return gm_give (
      gm_apply (b, GM_OP_where,
                (const GmArg[]){ gm_tensor_arg (low), gm_float_arg (-1), gm_tensor_arg (r) }, 3));
}

/* Scales slices along dim whose p-norm is above maxnorm down to it. */
RUN (renorm)
{
  GmVal v = TENSOR (0);
  double p = FLOAT (1), most = FLOAT (3);
  CHECK ();
  int ndim = META (v)->ndim, dim = gm_arg_dim (api, b, a, 2, ndim), n = 0;
  CHECK ();
  if (ndim < 2 || !(p > 0) || !(most >= 0))
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "renorm(): takes at least 2 dimensions, p > 0 and maxnorm >= 0"));
  int64_t dims[GM_MAX_DIMS];
  for (int d = 0; d < ndim; d++)
    if (d != dim)
      dims[n++] = d;
  GmVal norm = gm_norm (b, v, p, dims, n, true), large = gm_apply_num (b, gt, norm, most);
  GmVal factor = gm_num_apply (b, div, most, gm_apply_num (b, add, norm, 1e-7));
  factor = gm_apply (
      b, GM_OP_where,
      (const GmArg[]){ gm_tensor_arg (large), gm_tensor_arg (factor), gm_float_arg (1) }, 3);
  return gm_give (gm_apply2 (b, mul, v, factor));
}

RUN (msort)
{
  GmVal v = TENSOR (0);
  CHECK ();
  GmVal x = gm_at_least (b, v, 1), out = gm_gather (b, x, 0, gm_argsort (b, x, 0, false));
  return gm_give (as_before (b, out, META (v)->ndim));
}
