/* SPDX-License-Identifier: Apache-2.0
 * api_nn.c -- activations and normalisations of gramme.nn.functional.
 *
 * Branches are `where`, and the branch that is not taken is kept finite first: a gradient of 0
 * times infinity would be NaN.
 */
#include "core/api/api_private.h"

#include <math.h>

/* Returns argument 0 widened by gm_widen, or a copy of it as gm_arg_spared makes for `inplace_at`,
 * if a gradient reads the input; *own: the dtype of the input. */
static GmVal
wide_input (const GmApi *api, GmBuilder *b, const GmArg *a, int inplace_at, GmDtype *own)
{
  GmVal x = gm_arg_spared (api, b, a, inplace_at);
  if (gm_b_failed (b))
    return NULL;
  *own = (GmDtype) META (x)->dtype;
  return gm_widen (b, x);
}

/* Returns `out`, the result of an activation, written into the input if argument inplace_at is
 * true. */
static GmArg
activation (const GmApi *api, GmBuilder *b, GmArg *a, GmVal out, int inplace_at)
{
  bool inplace = FLAG (inplace_at);
  CHECK ();
  return gm_give (inplace ? b->vt->into (b, a[0].v, GM_OP_copy, &out, 1, NULL) : out);
}

RUN (relu)
{
  bool inplace = FLAG (1);
  if (inplace && GM_CALL_MODE (a) == GM_CALL_FRESH)
    GM_CALL_MODE (a) = GM_CALL_INPLACE;
  return gm_pointwise (api, b, a, GM_OP_relu, a, 1);
}

RUN (sigmoid)
{
  return gm_pointwise (api, b, a, GM_OP_sigmoid, a, 1);
}
RUN (tanh)
{
  return gm_pointwise (api, b, a, GM_OP_tanh, a, 1);
}

RUN (gelu)
{
  GmDtype own = GM_F32;
  GmVal x = wide_input (api, b, a, -1, &own);
  const char *kind = STR (1);
  CHECK ();
  GmVal inner;
  if (!strcmp (kind, "none"))
    inner = gm_b (b, erf, gm_apply_num (b, mul, x, 0.70710678118654752));
  else if (!strcmp (kind, "tanh")) {
    GmVal cube = gm_b (b, mul, gm_b (b, square, x), x);
    inner = gm_b (b, tanh,
                  gm_apply_num (b, mul, gm_b (b, add, x, gm_apply_num (b, mul, cube, 0.044715)),
                                0.79788456080286536));
  } else
    return gm_give (
        gm_b_fail (b, GM_ERROR_RUNTIME, "gelu(): approximate is 'none' or 'tanh', not '%s'", kind));
  return gm_give (gm_narrow (
      b, gm_b (b, mul, gm_apply_num (b, mul, x, 0.5), gm_apply_num (b, add, inner, 1)), own));
}

RUN (silu)
{
  GmDtype own = GM_F32;
  GmVal x = wide_input (api, b, a, 1, &own);
  CHECK ();
  return activation (api, b, a, gm_narrow (b, gm_b (b, mul, x, gm_b (b, sigmoid, x)), own), 1);
}

RUN (logsigmoid)
{
  GmDtype own = GM_F32;
  GmVal x = wide_input (api, b, a, -1, &own);
  CHECK ();
  GmVal tail = gm_b (b, log1p, gm_b (b, exp, gm_b (b, neg, gm_b (b, abs, x))));
  return gm_give (gm_narrow (b, gm_b (b, sub, gm_apply_num (b, minimum, x, 0), tail), own));
}

RUN (softplus)
{
  GmDtype own = GM_F32;
  GmVal x = wide_input (api, b, a, -1, &own);
  double beta = FLOAT (1), threshold = FLOAT (2);
  gm_factor_fits (b, &a[1], own);
  gm_factor_fits (b, &a[2], own);
  CHECK ();
  GmVal scaled = beta == 1 ? x : gm_apply_num (b, mul, x, beta);
  GmVal large = gm_apply_num (b, gt, scaled, threshold);
  GmVal soft =
      gm_b (b, log1p, gm_b (b, exp, gm_pick (b, large, gm_float_arg (0), gm_tensor_arg (scaled))));
  if (beta != 1)
    soft = gm_apply_num (b, div, soft, beta);
  return gm_give (gm_narrow (b, gm_pick (b, large, gm_tensor_arg (x), gm_tensor_arg (soft)), own));
}

RUN (leaky_relu)
{
  GmVal x = TENSOR (0);
  double slope = FLOAT (1);
  CHECK ();
  gm_factor_fits (b, &a[1], (GmDtype) META (x)->dtype);
  CHECK ();
  GmVal low = gm_apply_num (b, mul, x, slope);
  return activation (api, b, a, gm_pick (b, gm_apply_num (b, gt, x, 0), a[0], gm_tensor_arg (low)),
                     2);
}

RUN (elu)
{
  GmDtype own = GM_F32;
  GmVal x = wide_input (api, b, a, -1, &own);
  double alpha = FLOAT (1);
  gm_factor_fits (b, &a[1], own);
  CHECK ();
  GmVal below = gm_apply_num (b, le, x, 0); /* a NaN is not: it has the slope of x */
  GmVal low = gm_b (b, expm1, gm_pick (b, below, gm_tensor_arg (x), gm_float_arg (0)));
  if (alpha != 1)
    low = gm_apply_num (b, mul, low, alpha);
  return activation (
      api, b, a, gm_narrow (b, gm_pick (b, below, gm_tensor_arg (low), gm_tensor_arg (x)), own), 2);
}

static GmVal
hard_limits (GmBuilder *b, GmVal x, double low, double high)
{
  if (low != low || high != high)
    return gm_apply_num (b, clamp_max, gm_apply_num (b, clamp_min, x, low), high);
  /* relu leaves the sign of a zero. */
  GmVal y = low == 0
                ? gm_apply1 (b, relu, x)
                : gm_pick (b, gm_apply_num (b, le, x, low), gm_float_arg (low), gm_tensor_arg (x));
  return gm_pick (b, gm_apply_num (b, ge, x, high), gm_float_arg (high), gm_tensor_arg (y));
}

RUN (hardtanh)
{
  GmVal x = TENSOR (0);
  double low = FLOAT (1), high = FLOAT (2);
  CHECK ();
  if (low > high)
    return gm_give (
        gm_b_fail (b, GM_ERROR_VALUE, "hardtanh(): min_val %g is above max_val %g", low, high));
  return activation (api, b, a, hard_limits (b, x, low, high), 3);
}

RUN (relu6)
{
  GmVal x = TENSOR (0);
  CHECK ();
  return activation (api, b, a, hard_limits (b, x, 0, 6), 1);
}

/* -- Normalisation ----------------------------------------------------------------------------- */

/* Reads the dimensions of normalized_shape, which must be the input's last ones. Returns their
 * number. */
static int
last_dims (const GmApi *api, GmBuilder *b, const GmArg *a, GmVal x, int64_t dims[GM_MAX_DIMS])
{
  int64_t sizes[GM_MAX_DIMS];
  int n = gm_arg_ints (api, b, a, 1, sizes);
  if (gm_b_failed (b))
    return 0;
  const GmMeta *m = META (x);
  bool fits = n >= 1 && n <= m->ndim;
  for (int i = 0; fits && i < n; i++) {
    dims[i] = m->ndim - n + i;
    fits = gm_size_eq (m->sizes[dims[i]], sizes[i]);
  }
  if (!fits) {
    g_autofree char *want = gm_shape_text (n, sizes), *have = gm_shape_text (m->ndim, m->sizes);
    gm_b_fail (
        b, GM_ERROR_RUNTIME,
        "%s(): given normalized_shape=%s, expected an input whose last sizes are these, but got %s",
        api->name, want, have);
  }
  return n;
}

static GmVal
scale_shift (GmBuilder *b, GmVal v, GmVal weight, GmVal bias)
{
  if (weight)
    v = gm_apply2 (b, mul, v, weight);
  return bias ? gm_apply2 (b, add, v, bias) : v;
}

RUN (layer_norm)
{
  int64_t dims[GM_MAX_DIMS];
  GmVal x = TENSOR (0), weight = OPTIONAL_TENSOR (2), bias = OPTIONAL_TENSOR (3);
  double eps = FLOAT (4);
  CHECK ();
  int n = last_dims (api, b, a, x, dims);
  CHECK ();
  GmDtype own = (GmDtype) META (x)->dtype;
  x = gm_widen (b, x);
  GmVal off = gm_b (b, sub, x, gm_mean (b, x, dims, n, true));
  GmVal var = gm_mean (b, gm_b (b, square, off), dims, n, true);
  GmVal y = gm_b (b, mul, off, gm_b (b, rsqrt, gm_apply_num (b, add, var, eps)));
  return gm_give (gm_narrow (b, scale_shift (b, y, weight, bias), own));
}

RUN (rms_norm)
{
  int64_t dims[GM_MAX_DIMS];
  GmVal x = TENSOR (0), weight = OPTIONAL_TENSOR (2);
  CHECK ();
  GmDtype own = (GmDtype) META (x)->dtype;
  double eps = !IS_NONE (3) ? FLOAT (3) : gm_dtype_epsilon (gm_dtype_is_float (own) ? own : GM_F32);
  int n = last_dims (api, b, a, x, dims);
  CHECK ();
  x = gm_widen (b, x);
  GmVal power = gm_mean (b, gm_b (b, square, x), dims, n, true);
  GmVal y = gm_b (b, mul, x, gm_b (b, rsqrt, gm_apply_num (b, add, power, eps)));
  return gm_give (gm_narrow (b, scale_shift (b, y, weight, NULL), own));
}

/* Returns v [c] as [1, c, 1 ...], with x's rank; fails in the name of argument `name` if it has
 * another shape. */
static GmVal
per_channel (const GmApi *api, GmBuilder *b, GmVal v, const GmMeta *x, const char *name)
{
  int64_t sizes[GM_MAX_DIMS] = { 1, x->sizes[1], 1, 1, 1, 1, 1, 1 };
  if (!v || gm_b_failed (b))
    return NULL;
  if (META (v)->ndim != 1 || !gm_size_eq (META (v)->sizes[0], x->sizes[1]))
    return gm_b_fail (b, GM_ERROR_RUNTIME,
                      "%s(): %s must have %" G_GINT64_FORMAT " elements, one per channel",
                      api->name, name, gm_size_number (x->sizes[1]));
  return gm_b_view (b, v, x->ndim, sizes);
}

/* Sets `running`, in place, to (1 - momentum) * running + momentum * batch; no gradient is
 * recorded. */
static void
update_running (GmBuilder *b, GmVal running, GmVal batch, double momentum)
{
  if (!running || gm_b_failed (b))
    return;
  batch = gm_b_reshape (b, gm_b (b, detach, batch), 1, META (running)->sizes);
  GmVal kept = gm_apply_num (b, mul, running, 1 - momentum),
        fresh = gm_apply_num (b, mul, batch, momentum);
  if (!gm_b_failed (b))
    b->vt->into (b, running, GM_OP_add,
                 (const GmVal[]){ kept, gm_b_cast (b, fresh, (GmDtype) META (running)->dtype) }, 2,
                 NULL);
}

/* Returns a variance over n elements, computed with divisor n, as with divisor n - 1. */
static GmVal
unbiased (GmBuilder *b, GmVal var, int64_t n)
{
  if (!gm_size_is_symbolic (n))
    return gm_apply_num (b, mul, var, (double) n / (double) (n - 1));
  GmVal all = gm_b_scalar (b, gm_scalar_int (n), GM_F64),
        less = gm_b_scalar (b, gm_scalar_int (gm_size_add (n, -1)), GM_F64);
  return gm_b (b, mul, var, gm_b_cast (b, gm_b (b, div, all, less), (GmDtype) META (var)->dtype));
}

RUN (batch_norm)
{
  GmVal x = TENSOR (0), run_mean = OPTIONAL_TENSOR (1), run_var = OPTIONAL_TENSOR (2);
  GmVal weight = OPTIONAL_TENSOR (3), bias = OPTIONAL_TENSOR (4);
  bool training = FLAG (5);
  double momentum = FLOAT (6), eps = FLOAT (7);
  CHECK ();
  GmMeta m = *META (x);
  if (m.ndim < 2)
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "batch_norm(): the input must be [n, c, ...], but has %d dimensions",
                               m.ndim));
  weight = per_channel (api, b, weight, &m, "weight");
  bias = per_channel (api, b, bias, &m, "bias");
  GmVal mean = per_channel (api, b, run_mean, &m, "running_mean"),
        var = per_channel (api, b, run_var, &m, "running_var");
  CHECK ();
  x = gm_widen (b, x);
  mean = gm_widen (b, mean);
  var = gm_widen (b, var);
  CHECK ();
  if (!training) {
    if (!mean || !var)
      return gm_give (gm_b_fail (
          b, GM_ERROR_RUNTIME,
          "batch_norm(): running_mean and running_var must be given in evaluation mode"));
    GmVal y =
        gm_b (b, mul, gm_b (b, sub, x, mean), gm_b (b, rsqrt, gm_apply_num (b, add, var, eps)));
    return gm_give (gm_narrow (b, scale_shift (b, y, weight, bias), (GmDtype) m.dtype));
  }
  int64_t dims[GM_MAX_DIMS], n = m.sizes[0];
  int k = 0;
  dims[k++] = 0;
  for (int d = 2; d < m.ndim; d++) {
    dims[k++] = d;
    n = gm_size_mul (n, m.sizes[d]);
  }
  if (gm_size_lt (n, 2))
    return gm_give (gm_b_fail (
        b, GM_ERROR_VALUE, "batch_norm(): expected more than 1 value per channel when training"));
  mean = gm_mean (b, x, dims, k, true);
  GmVal off = gm_b (b, sub, x, mean);
  var = gm_mean (b, gm_b (b, square, off), dims, k, true);
  update_running (b, run_mean, mean, momentum);
  if (run_var)
    update_running (b, run_var, unbiased (b, var, n), momentum);
  GmVal y = gm_b (b, mul, off, gm_b (b, rsqrt, gm_apply_num (b, add, var, eps)));
  return gm_give (gm_narrow (b, scale_shift (b, y, weight, bias), (GmDtype) m.dtype));
}

/* -- Lengths and angles ------------------------------------------------------------------------ */

static GmVal
length (GmBuilder *b, GmVal x, double p, int dim, double eps)
{
  int64_t d = dim;
  return gm_clamp_min (b, gm_norm (b, x, p, &d, 1, true), eps);
}

RUN (normalize)
{
  GmVal x = TENSOR (0);
  CHECK ();
  double p = FLOAT (1), eps = FLOAT (3);
  int dim = gm_arg_dim (api, b, a, 2, META (x)->ndim);
  CHECK ();
  GmArg result = gm_give (gm_b (b, div, x, length (b, x, p, dim, eps)));
  if (!IS_NONE (4) && !gm_b_failed (b))
    gm_api_put_out (api, b, &a[4], &result);
  return gm_b_failed (b) ? gm_give (NULL) : result;
}

RUN (cosine_similarity)
{
  GmVal x = TENSOR (0), y = TENSOR (1);
  double eps = FLOAT (3);
  CHECK ();
  GmMeta both = { 0 };
  if (!gm_meta_broadcast (META (x), META (y), &both, &b->error))
    return gm_give (NULL);
  int dim = gm_arg_dim (api, b, a, 2, both.ndim);
  CHECK ();
  x = gm_b_expand (b, x, both.ndim, both.sizes);
  y = gm_b_expand (b, y, both.ndim, both.sizes);
  GmVal cx = gm_b (b, div, x, length (b, x, 2, dim, eps)),
        cy = gm_b (b, div, y, length (b, y, 2, dim, eps));
  int64_t d = dim;
  return gm_give (gm_b_reduce (b, GM_OP_sum, gm_b (b, mul, cx, cy), &d, 1, false));
}
