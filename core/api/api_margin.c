/* SPDX-License-Identifier: Apache-2.0
 * api_margin.c -- losses of gramme.nn.functional that compare scores with margins, and likelihoods.
 */
#include "core/api/api_private.h"

#include <math.h>

/* Returns max (v, 0), with the slope 1 at 0: equal scores must be pushed apart. */
static GmVal
above_zero (GmBuilder *b, GmVal v)
{
  return gm_clamp_min (b, v, 0);
}

static GmArg
reduced (const GmApi *api, GmBuilder *b, const GmArg *a, GmVal v, int at, int average_at)
{
  GmVal out = gm_reduce_loss (api, b, a, v, at, average_at);
  CHECK ();
  return gm_give (out);
}

RUN (soft_margin_loss)
{
  GmVal x = TENSOR (0), y = TENSOR (1);
  GmVal v = gm_log1p_exp (b, gm_b (b, neg, gm_apply2 (b, mul, x, y)));
  return reduced (api, b, a, v, 4, 2);
}

RUN (margin_ranking_loss)
{
  GmVal x = TENSOR (0), z = TENSOR (1), y = TENSOR (2);
  double margin = FLOAT (3);
  CHECK ();
  if (META (x)->ndim != META (z)->ndim || META (x)->ndim != META (y)->ndim)
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "margin_ranking_loss(): all input tensors should have same "
                               "dimension, but they have %d, %d and %d",
                               META (x)->ndim, META (z)->ndim, META (y)->ndim));
  GmVal v =
      gm_apply_num (b, add, gm_apply2 (b, mul, gm_b (b, neg, y), gm_apply2 (b, sub, x, z)), margin);
  return reduced (api, b, a, above_zero (b, v), 6, 4);
}

RUN (hinge_embedding_loss)
{
  GmVal x = TENSOR (0), y = TENSOR (1);
  double margin = FLOAT (2);
  CHECK ();
  GmVal far = above_zero (b, gm_num_apply (b, sub, margin, x));
  GmVal v = gm_apply2 (
      b, add, gm_pick (b, gm_apply_num (b, eq, y, 1), gm_float_arg (0), gm_tensor_arg (far)),
      gm_pick (b, gm_apply_num (b, eq, y, -1), gm_float_arg (0), gm_tensor_arg (x)));
  return reduced (api, b, a, v, 5, 3);
}

RUN (cosine_embedding_loss)
{
  GmVal x = TENSOR (0), z = TENSOR (1), y = TENSOR (2);
  double margin = FLOAT (3);
  CHECK ();
  const double eps = 1e-12;
  int64_t last = META (x)->ndim - 1;
  if (META (x)->ndim < 1 || META (x)->ndim > 2 || META (y)->ndim != META (x)->ndim - 1)
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "cosine_embedding_loss(): expects inputs [n, d] or [d], and a "
                               "target with one dimension less"));
  GmVal dot = gm_b_reduce (b, GM_OP_sum, gm_apply2 (b, mul, x, z), &last, 1, false);
  GmVal one =
      gm_apply_num (b, add, gm_b_reduce (b, GM_OP_sum, gm_b (b, square, x), &last, 1, false), eps);
  GmVal two =
      gm_apply_num (b, add, gm_b_reduce (b, GM_OP_sum, gm_b (b, square, z), &last, 1, false), eps);
  GmVal cosine = gm_apply2 (b, div, dot, gm_b (b, sqrt, gm_apply2 (b, mul, one, two)));
  GmVal near = gm_num_apply (b, sub, 1, cosine),
        far = above_zero (b, gm_apply_num (b, sub, cosine, margin));
  GmVal v = gm_apply2 (
      b, add, gm_pick (b, gm_apply_num (b, eq, y, 1), gm_tensor_arg (near), gm_float_arg (0)),
      gm_pick (b, gm_apply_num (b, eq, y, -1), gm_tensor_arg (far), gm_float_arg (0)));
  return reduced (api, b, a, v, 6, 4);
}

static GmVal
distance (GmBuilder *b, GmVal x, GmVal y, double p, double eps)
{
  GmVal d = gm_apply_num (b, add, gm_apply2 (b, sub, x, y), eps);
  if (gm_b_failed (b))
    return NULL;
  int64_t last = META (d)->ndim - 1;
  return gm_norm (b, d, p, &last, 1, false);
}

RUN (triplet_margin_loss)
{
  GmVal x = TENSOR (0), near = TENSOR (1), far = TENSOR (2);
  double margin = FLOAT (3), p = FLOAT (4), eps = FLOAT (5);
  bool swap = FLAG (6);
  CHECK ();
  if (META (x)->ndim < 1 || META (x)->ndim != META (near)->ndim
      || META (x)->ndim != META (far)->ndim)
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "triplet_margin_loss(): the anchor, positive, and negative tensors "
                               "are expected to have the same number of dimensions"));
  GmVal to_near = distance (b, x, near, p, eps), to_far = distance (b, x, far, p, eps);
  if (swap)
    to_far = gm_apply2 (b, minimum, to_far, distance (b, near, far, p, eps));
  return reduced (
      api, b, a, above_zero (b, gm_apply_num (b, add, gm_apply2 (b, sub, to_near, to_far), margin)),
      9, 7);
}

/* Adds target log (target) - target + log (2 pi target) / 2, which approximates log (target!), if
 * `full`. */
RUN (poisson_nll_loss)
{
  GmVal x = TENSOR (0), y = TENSOR (1);
  bool log_input = FLAG (2), full = FLAG (3);
  double eps = FLOAT (5);
  CHECK ();
  GmVal v =
      log_input
          ? gm_apply2 (b, sub, gm_apply1 (b, exp, x), gm_apply2 (b, mul, y, x))
          : gm_apply2 (b, sub, x,
                       gm_apply2 (b, mul, y, gm_apply1 (b, log, gm_apply_num (b, add, x, eps))));
  if (full) {
    GmVal large = gm_apply_num (b, gt, y, 1),
          safe = gm_pick (b, large, gm_tensor_arg (y), gm_float_arg (1));
    GmVal term = gm_apply2 (b, sub, gm_apply2 (b, mul, safe, gm_apply1 (b, log, safe)), safe);
    term = gm_apply2 (
        b, add, term,
        gm_apply_num (b, mul, gm_apply1 (b, log, gm_apply_num (b, mul, safe, 2 * M_PI)), 0.5));
    v = gm_apply2 (b, add, v, gm_pick (b, large, gm_tensor_arg (term), gm_float_arg (0)));
  }
  return reduced (api, b, a, v, 7, -1);
}

RUN (gaussian_nll_loss)
{
  GmVal x = TENSOR (0), y = TENSOR (1), var = TENSOR (2);
  bool full = FLAG (3);
  double eps = FLOAT (4);
  CHECK ();
  if (!gm_dtype_is_float (META (var)->dtype))
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "gaussian_nll_loss(): var has a floating dtype, not %s; cast it",
                               gm_dtypes[META (var)->dtype].torch_name));
  if (META (var)->ndim == META (x)->ndim - 1)
    var = gm_unsqueeze (b, var, META (var)->ndim);
  CHECK ();
  var = gm_require_between (b, var, var, 0, INFINITY, GM_CONDITION_VARIANCE);
  CHECK ();
  GmVal low = gm_apply_num (b, lt, META (var)->requires_grad ? gm_b (b, detach, var) : var, eps);
  /* limited for the value, with the slope of var itself */
  GmVal safe = gm_pick (
      b, low, gm_tensor_arg (gm_apply_num (b, add, gm_b (b, sub, var, gm_b (b, detach, var)), eps)),
      gm_tensor_arg (var));
  GmVal off = gm_apply1 (b, square, gm_apply2 (b, sub, x, y));
  GmVal v = gm_apply_num (
      b, mul, gm_apply2 (b, add, gm_apply1 (b, log, safe), gm_apply2 (b, div, off, safe)), 0.5);
  if (full)
    v = gm_apply_num (b, add, v, 0.5 * log (2 * M_PI));
  return reduced (api, b, a, v, 5, -1);
}

/* -- Several classes --------------------------------------------------------------------------- */

/* Reshapes *x to [n, c] and *y to [n] (or [n, c]); *alone: the input was one row, without n. False
 * after an error. */
static bool
rows (const GmApi *api, GmBuilder *b, GmVal *x, GmVal *y, int target_dims, bool *alone)
{
  if (gm_b_failed (b))
    return false;
  int nx = META (*x)->ndim;
  *alone = nx < 2;
  bool fits = nx < 2 ? META (*y)->ndim <= 1
                     : META (*y)->ndim == 1 + target_dims
                           && gm_size_eq (META (*x)->sizes[0], META (*y)->sizes[0]);
  if (nx > 2 || !fits || !gm_dtype_is_float (META (*x)->dtype)) {
    g_autofree char *one = gm_meta_text (META (*x)), *two = gm_meta_text (META (*y));
    gm_b_fail (b, GM_ERROR_RUNTIME, "%s(): an input %s does not go with a target %s", api->name,
               one, two);
    return false;
  }
  while (!gm_b_failed (b) && META (*x)->ndim < 2)
    *x = gm_unsqueeze (b, *x, 0);
  while (!gm_b_failed (b) && META (*y)->ndim < 1 + target_dims)
    *y = gm_unsqueeze (b, *y, 0);
  if (!gm_b_failed (b) && target_dims == 0
      && !gm_size_eq (META (*y)->sizes[0], META (*x)->sizes[0]))
    gm_b_fail (b, GM_ERROR_RUNTIME, "%s(): one input row needs one target", api->name);
  return !gm_b_failed (b);
}

/* Returns v, the losses of n rows; alone: the input was one row, and v loses its dimension. */
static GmVal
of_rows (GmBuilder *b, GmVal v, bool alone)
{
  return alone && !gm_b_failed (b) ? gm_b_view (b, v, 0, NULL) : v;
}

RUN (multi_margin_loss)
{
  GmVal x = TENSOR (0), y = TENSOR (1), weight = OPTIONAL_TENSOR (4);
  int64_t p = INT (2), last = 1;
  double margin = FLOAT (3);
  bool alone;
  if (!rows (api, b, &x, &y, 0, &alone))
    return gm_give (NULL);
  if (p != 1 && p != 2)
    return gm_give (
        gm_b_fail (b, GM_ERROR_VALUE, "multi_margin_loss(): only p == 1 and p == 2 supported"));
  int64_t c = META (x)->sizes[1];
  GmVal at = gm_unsqueeze (b, gm_b_cast (b, y, GM_I64), 1), own = gm_gather (b, x, 1, at);
  GmVal v = gm_b (b, relu, gm_apply_num (b, add, gm_apply2 (b, sub, x, own), margin));
  if (p == 2)
    v = gm_b (b, square, v);
  if (weight)
    v = gm_apply2 (b, mul, v,
                   gm_unsqueeze (b, gm_index_select (b, weight, 0, gm_squeeze (b, at, 1)), 1));
  GmVal others = gm_b (b, ne, at, gm_b_arange (b, 0, 1, c, GM_I64));
  v = gm_b_reduce (b, GM_OP_sum, gm_pick (b, others, gm_tensor_arg (v), gm_float_arg (0)), &last, 1,
                   false);
  v = gm_apply (b, GM_OP_div, (const GmArg[]){ gm_tensor_arg (v), gm_count_arg (c) }, 2);
  return reduced (api, b, a, of_rows (b, v, alone), 7, 5);
}

/* Reads targets as class indices up to the first -1; each is compared with all classes that are not
 * targets. */
RUN (multilabel_margin_loss)
{
  GmVal x = TENSOR (0), y = TENSOR (1);
  bool alone;
  if (!rows (api, b, &x, &y, 1, &alone))
    return gm_give (NULL);
  int64_t c = META (x)->sizes[1], dims[2] = { 1, 2 };
  y = gm_b_cast (b, y, GM_I64);
  GmVal zero = gm_b_scalar (b, gm_scalar_int (0), GM_I64),
        ended = gm_b_cast (b, gm_b (b, lt, y, zero), GM_I64);
  GmAttrs at = { .mask = BIT (DIM) | BIT (REVERSE), .dim = 1 };
  GmVal live = gm_b (b, eq, gm_b_op (b, GM_OP_cumsum, &ended, 1, &at), zero);
  GmVal safe = gm_b (b, where, live, y, zero);
  GmVal is = gm_b (b, eq, gm_unsqueeze (b, safe, 2), gm_b_arange (b, 0, 1, c, GM_I64));
  int64_t middle = 1;
  GmVal target = gm_b_reduce (b, GM_OP_any, gm_b (b, logical_and, is, gm_unsqueeze (b, live, 2)),
                              &middle, 1, false);
  GmVal own = gm_unsqueeze (b, gm_gather (b, x, 1, safe), 2);
  GmVal v =
      gm_b (b, relu, gm_num_apply (b, sub, 1, gm_apply2 (b, sub, own, gm_unsqueeze (b, x, 1))));
  GmVal counts = gm_b (b, logical_and, gm_unsqueeze (b, live, 2),
                       gm_unsqueeze (b, gm_b (b, logical_not, target), 1));
  v = gm_b_reduce (b, GM_OP_sum, gm_pick (b, counts, gm_tensor_arg (v), gm_float_arg (0)), dims, 2,
                   false);
  v = gm_apply (b, GM_OP_div, (const GmArg[]){ gm_tensor_arg (v), gm_count_arg (c) }, 2);
  return reduced (api, b, a, of_rows (b, v, alone), 4, 2);
}

RUN (multilabel_soft_margin_loss)
{
  GmVal x = TENSOR (0), y = TENSOR (1), weight = OPTIONAL_TENSOR (2);
  CHECK ();
  if (META (x)->ndim < 1)
    return gm_give (
        gm_b_fail (b, GM_ERROR_RUNTIME,
                   "multilabel_soft_margin_loss(): the input needs a dimension of classes"));
  GmVal yes = gm_log1p_exp (b, gm_b (b, neg, x)),
        no = gm_log1p_exp (b, x); /* -log (sigmoid) of x and -x */
  GmVal v = gm_apply2 (b, add, gm_apply2 (b, mul, y, yes),
                       gm_apply2 (b, mul, gm_num_apply (b, sub, 1, y), no));
  if (weight)
    v = gm_apply2 (b, mul, v, weight);
  CHECK ();
  int64_t last = META (v)->ndim - 1;
  return reduced (api, b, a, gm_mean (b, v, &last, 1, false), 5, 3);
}
