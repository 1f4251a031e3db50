/* SPDX-License-Identifier: Apache-2.0
 * api_activation.c -- the rarer activations, dropouts and normalisations of gramme.nn.functional.
 *
 * Branches are `where`, as in api_nn.c, the operand of a branch that is not taken is kept finite,
 * and 16-bit floats are rounded once.
 */
#include "core/api/api_private.h"

#include <math.h>

/* Returns argument 0, which must be floating, widened by gm_widen, or a copy of it as gm_arg_spared
 * makes for `inplace_at`, if a gradient reads the input; *own: the dtype to which the result is
 * rounded. */
static GmVal
wide_spared (const GmApi *api, GmBuilder *b, const GmArg *a, int inplace_at, GmDtype *own)
{
  GmVal x = gm_arg_spared (api, b, a, inplace_at);
  if (gm_b_failed (b))
    return NULL;
  *own = (GmDtype) META (x)->dtype;
  if (!gm_dtype_is_float (*own))
    return gm_b_fail (b, GM_ERROR_RUNTIME,
                      "%s(): takes floating dtypes, not %s; cast the input first", api->name,
                      gm_dtypes[*own].torch_name);
  return gm_widen (b, x);
}

static GmVal
wide (const GmApi *api, GmBuilder *b, const GmArg *a, GmDtype *own)
{
  return wide_spared (api, b, a, -1, own);
}

/* Returns argument 0 widened by gm_widen; integers become the default dtype. *own: the dtype to
 * which the result is rounded. */
static GmVal
wide_or_default (const GmApi *api, GmBuilder *b, GmArg *a, GmDtype *own)
{
  GmVal x = TENSOR (0);
  if (!gm_b_failed (b) && !gm_dtype_is_float (META (x)->dtype))
    a[0].v = gm_b_cast (b, x, gm_default_dtype ());
  return wide (api, b, a, own);
}

/* Returns y rounded to dtype `own`, and written into argument 0 if argument `at` (inplace) is true;
 * at < 0: the row has no such argument. */
static GmArg
finish (const GmApi *api, GmBuilder *b, GmArg *a, GmVal y, GmDtype own, int at)
{
  bool inplace = at >= 0 && FLAG (at);
  y = gm_narrow (b, y, own);
  CHECK ();
  return gm_give (inplace ? b->vt->into (b, a[0].v, GM_OP_copy, &y, 1, NULL) : y);
}

/* -- One input --------------------------------------------------------------------------------- */

GmVal
gm_log1p_exp (GmBuilder *b, GmVal x)
{
  GmVal positive = gm_apply_num (b, gt, x, 0),
        size = gm_pick (b, positive, gm_tensor_arg (x), gm_tensor_arg (gm_b (b, neg, x)));
  GmVal tail = gm_b (b, log1p, gm_b (b, exp, gm_b (b, neg, size)));
  return gm_b (b, add, gm_pick (b, positive, gm_tensor_arg (x), gm_float_arg (0)), tail);
}

RUN (mish)
{
  GmDtype own = GM_F32;
  GmVal x = wide_spared (api, b, a, 1, &own);
  CHECK ();
  return finish (api, b, a, gm_b (b, mul, x, gm_b (b, tanh, gm_log1p_exp (b, x))), own, 1);
}

RUN (softsign)
{
  GmDtype own = GM_F32;
  GmVal x = wide_or_default (api, b, a, &own);
  CHECK ();
  return finish (api, b, a, gm_b (b, div, x, gm_apply_num (b, add, gm_b (b, abs, x), 1)), own, -1);
}

RUN (tanhshrink)
{
  GmDtype own = GM_F32;
  GmVal x = wide_or_default (api, b, a, &own);
  CHECK ();
  return finish (api, b, a, gm_b (b, sub, x, gm_b (b, tanh, x)), own, -1);
}

/* Returns `below` * (exp (x / alpha) - 1) where x <= 0, else `above` * x, also for a NaN. */
static GmVal
exponential_unit (GmBuilder *b, GmVal x, double above, double below, double alpha)
{
  GmVal least = gm_apply_num (b, le, x, 0);
  GmVal low = gm_pick (b, least, gm_tensor_arg (x), gm_float_arg (0));
  if (alpha != 1)
    low = gm_apply_num (b, div, low, alpha);
  low = gm_apply_num (b, mul, gm_b (b, expm1, low), below);
  GmVal high = above == 1 ? x : gm_apply_num (b, mul, x, above);
  return gm_b (b, where, least, low, high);
}

RUN (celu)
{
  GmDtype own = GM_F32;
  GmVal x = wide (api, b, a, &own);
  double alpha = FLOAT (1);
  gm_factor_fits (b, &a[1], own);
  CHECK ();
  if (alpha == 0)
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME, "celu(): alpha must not be 0"));
  return finish (api, b, a, exponential_unit (b, x, 1, alpha, alpha), own, 2);
}

/* Constants of G. Klambauer et al., "Self-normalizing neural networks" (2017). */
#define SELU_SCALE 1.0507009873554804934193349852946
#define SELU_ALPHA 1.6732632423543772848170429916717

RUN (selu)
{
  GmDtype own = GM_F32;
  GmVal x = wide (api, b, a, &own);
  CHECK ();
  return finish (api, b, a, exponential_unit (b, x, SELU_SCALE, SELU_SCALE * SELU_ALPHA, 1), own,
                 1);
}

RUN (prelu)
{
  GmVal x = TENSOR (0), weight = TENSOR (1);
  CHECK ();
  GmMeta m = *META (x), w = *META (weight);
  int64_t n = gm_size_number (gm_meta_numel (&w)),
          channels = m.ndim < 2 ? 1 : gm_size_number (m.sizes[1]);
  if (w.ndim > 1 || (n != 1 && n != channels))
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "prelu(): weight has %" G_GINT64_FORMAT
                               " elements; it needs one, or one for each of %" G_GINT64_FORMAT
                               " channels",
                               n, channels));
  if (w.dtype != m.dtype)
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "prelu(): input and weight must have one dtype, but have %s and %s",
                               gm_dtypes[m.dtype].torch_name, gm_dtypes[w.dtype].torch_name));
  int64_t sizes[GM_MAX_DIMS];
  for (int d = 0; d < m.ndim; d++)
    sizes[d] = d == 1 ? n : 1;
  weight = gm_b_reshape (b, weight, n == 1 ? 0 : m.ndim, sizes);
  GmVal low = gm_b (b, mul, x, weight);
  return gm_give (gm_pick (b, gm_apply_num (b, gt, x, 0), a[0], gm_tensor_arg (low)));
}

/* Returns min (max (x / 6 + 1 / 2, 0), 1). The slope is 0 at the ends and at a NaN, as clamp_max
 * has it. */
static GmVal
hard_gate (GmBuilder *b, GmVal x)
{
  GmVal line = gm_apply_num (b, div, gm_apply_num (b, add, x, 3), 6);
  GmVal y = gm_apply_num (b, clamp_max, gm_b (b, relu, line), 1);
  return gm_pick (b, gm_apply_num (b, ge, x, 3), gm_float_arg (1), gm_tensor_arg (y));
}

RUN (hardsigmoid)
{
  GmDtype own = GM_F32;
  GmVal x = wide (api, b, a, &own);
  CHECK ();
  return finish (api, b, a, hard_gate (b, x), own, 1);
}

RUN (hardswish)
{
  GmDtype own = GM_F32;
  GmVal x = wide_spared (api, b, a, 1, &own);
  CHECK ();
  /* A NaN is neither under 3 nor under -3: it has the slope of x. */
  GmVal under = gm_apply_num (b, lt, x, 3), below = gm_apply_num (b, le, x, -3);
  GmVal between = gm_b (b, logical_xor, under, below);
  /* An infinity times a slope of 0 would be no number. */
  GmVal in = gm_pick (b, between, gm_tensor_arg (x), gm_float_arg (0));
  GmVal line = gm_apply_num (b, div, gm_b (b, mul, in, gm_apply_num (b, add, in, 3)), 6);
  GmVal y = gm_pick (b, below, gm_float_arg (-0.0), gm_tensor_arg (line));
  return finish (api, b, a, gm_pick (b, under, gm_tensor_arg (y), gm_tensor_arg (x)), own, 1);
}

RUN (hardshrink)
{
  GmDtype own = GM_F32;
  GmVal x = wide (api, b, a, &own);
  double limit = FLOAT (1);
  gm_number_fits (b, &a[1], own);
  CHECK ();
  GmVal inside =
      gm_b (b, logical_and, gm_apply_num (b, ge, x, -limit), gm_apply_num (b, le, x, limit));
  return finish (api, b, a, gm_pick (b, inside, gm_float_arg (0), gm_tensor_arg (x)), own, -1);
}

RUN (softshrink)
{
  GmDtype own = GM_F32;
  GmVal x = wide (api, b, a, &own);
  double limit = FLOAT (1);
  gm_number_fits (b, &a[1], own);
  CHECK ();
  if (!(limit >= 0) || isinf (limit))
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "softshrink(): lambd must be greater or equal to 0, but is %g",
                               limit));
  /* A NaN is not at or below the limit: it has the slope of values above the limit. */
  GmVal y = gm_pick (b, gm_apply_num (b, le, x, limit), gm_float_arg (0),
                     gm_tensor_arg (gm_apply_num (b, sub, x, limit)));
  y = gm_pick (b, gm_apply_num (b, lt, x, -limit), gm_tensor_arg (gm_apply_num (b, add, x, limit)),
               gm_tensor_arg (y));
  return finish (api, b, a, y, own, -1);
}

RUN (threshold)
{
  GmVal x = TENSOR (0);
  double limit = FLOAT (1);
  CHECK ();
  if (!gm_arg_is_number (&a[2]))
    return gm_give (gm_arg_fail (api, b, a, 2, "Number"));
  GmDtype d = (GmDtype) META (x)->dtype;
  gm_factor_fits (b, &a[1], d);
  CHECK ();
  GmVal value = gm_value_as (b, &a[2], d);
  return finish (api, b, a, gm_b (b, where, gm_apply_num (b, le, x, limit), value, x), d, 3);
}

RUN (glu)
{
  GmDtype own = GM_F32;
  GmVal x = wide (api, b, a, &own);
  CHECK ();
  int dim = gm_arg_dim (api, b, a, 1, META (x)->ndim);
  CHECK ();
  int64_t n = META (x)->ndim ? META (x)->sizes[dim] : 1, half = gm_size_floordiv (n, 2);
  if (META (x)->ndim == 0 || !gm_size_eq (gm_size_mod (n, 2), 0)) {
    g_autofree char *text = gm_size_text (n);
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "glu(): halving dimension must be even, but dimension %d is size %s",
                               dim, text));
  }
  GmVal value = gm_b_slice (b, x, dim, 0, half, 1), gate = gm_b_slice (b, x, dim, half, n, 1);
  return finish (api, b, a, gm_b (b, mul, value, gm_b (b, sigmoid, gate)), own, -1);
}

RUN (softmin)
{
  GmVal x = TENSOR (0);
  CHECK ();
  GmDtype d = gm_arg_dtype (api, b, a, 2, (GmDtype) META (x)->dtype);
  CHECK ();
  if (!gm_dtype_is_float (d))
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "softmin(): takes floating dtypes, not %s; pass dtype",
                               gm_dtypes[d].torch_name));
  int ndim = META (x)->ndim;
  int dim = !IS_NONE (1)                          ? gm_arg_dim (api, b, a, 1, ndim)
            : ndim == 0 || ndim == 1 || ndim == 3 ? 0
                                                  : 1;
  CHECK ();
  return gm_give (gm_softmax (b, gm_b (b, neg, gm_b_cast (b, x, d)), dim, false));
}

/* Samples as in E. Jang, S. Gu, B. Poole, "Categorical reparameterization with Gumbel-softmax"
 * (2017): the noise is -log (-log (u)); `hard` puts a one where the largest probability is, with
 * the slope of the soft result. */
RUN (gumbel_softmax)
{
  GmDtype own = GM_F32;
  GmVal x = wide (api, b, a, &own);
  double tau = FLOAT (1);
  bool hard = FLAG (2);
  CHECK ();
  int dim = gm_arg_dim (api, b, a, 4, META (x)->ndim);
  CHECK ();
  GmMeta m = *META (x);
  /* 1 - u is in (0, 1]: its logarithm is a number. */
  GmVal u = gm_num_apply (b, sub, 1, gm_uniform (b, (GmDtype) m.dtype, m.ndim, m.sizes));
  CHECK ();
  GmVal expo = gm_b (b, neg, gm_b (b, log, u));
  GmVal least = gm_apply_num (b, eq, expo, 0); /* u was 1 */
  expo = gm_pick (b, least, gm_float_arg (1e-30), gm_tensor_arg (expo));
  GmVal noisy = gm_apply_num (b, div, gm_b (b, sub, x, gm_b (b, log, expo)), tau);
  GmVal soft = gm_softmax (b, noisy, dim, false);
  if (!hard || gm_b_failed (b))
    return finish (api, b, a, soft, own, -1);
  GmVal at = gm_arg_extremum (b, GM_OP_argmax, soft, dim, true);
  int64_t sizes[GM_MAX_DIMS];
  for (int d = 0; d < m.ndim; d++)
    sizes[d] = d == dim ? m.sizes[d] : 1;
  CHECK ();
  GmVal places = m.ndim
                     ? gm_b_reshape (b, gm_b_arange (b, 0, 1, m.sizes[dim], GM_I64), m.ndim, sizes)
                     : gm_b_scalar (b, gm_scalar_int (0), GM_I64);
  GmVal ones = gm_b_cast (b, gm_b (b, eq, at, places), (GmDtype) m.dtype);
  GmVal y = gm_b (b, add, gm_b (b, sub, ones, gm_b (b, detach, soft)), soft);
  return finish (api, b, a, y, own, -1);
}

/* -- Dropout of whole channels ----------------------------------------------------------------- */

/* Returns a mask of this shape and dtype whose elements are 1 with probability 1 - p, else 0. */
static GmVal
kept (GmBuilder *b, GmDtype d, int ndim, const int64_t *sizes, double p)
{
  GmVal u = gm_uniform (b, GM_F32, ndim, sizes);
  return gm_b_failed (b) ? NULL : gm_b_cast (b, gm_apply_num (b, ge, u, p), d);
}

static bool
probability (const GmApi *api, GmBuilder *b, double p)
{
  if (!gm_b_failed (b) && !(p >= 0 && p <= 1))
    gm_b_fail (b, GM_ERROR_RUNTIME,
               "%s(): dropout probability has to be between 0 and 1, but got %g", api->name, p);
  return !gm_b_failed (b);
}

/* Runs dropout of whole channels on an input [n, c, sizes ...], or [c, sizes ...] if it has `alone`
 * dimensions. Fails if the input has fewer than `least` dimensions. */
static GmArg
drop_channels (const GmApi *api, GmBuilder *b, GmArg *a, int least, int alone)
{
  GmVal x = TENSOR (0);
  double p = FLOAT (1);
  bool training = FLAG (2);
  if (!probability (api, b, p))
    return gm_give (NULL);
  GmMeta m = *META (x);
  if (m.ndim < least)
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "%s(): expected an input of at least %d dimensions, but it has %d",
                               api->name, least, m.ndim));
  if (!training || p == 0)
    return gm_give (x);
  int64_t sizes[GM_MAX_DIMS];
  for (int d = 0; d < m.ndim; d++)
    sizes[d] = d < (m.ndim == alone ? 1 : 2) ? m.sizes[d] : 1;
  GmVal mask = kept (b, (GmDtype) m.dtype, m.ndim, sizes, p);
  if (p < 1)
    mask = gm_apply_num (b, div, mask, 1 - p);
  return finish (api, b, a, gm_b (b, mul, x, mask), (GmDtype) m.dtype, 3);
}

RUN (feature_dropout)
{
  return drop_channels (api, b, a, 2, -1);
}
RUN (dropout1d)
{
  return drop_channels (api, b, a, 2, 2);
}
RUN (dropout2d)
{
  return drop_channels (api, b, a, 3, 3);
}
RUN (dropout3d)
{
  return drop_channels (api, b, a, 4, 4);
}

/* Runs dropout that keeps mean and variance: dropped elements (`channels`: whole channels) become
 * the value that selu has at minus infinity. */
static GmArg
alpha_dropout (const GmApi *api, GmBuilder *b, GmArg *a, bool channels)
{
  GmDtype own = GM_F32;
  TENSOR (0);
  double p = FLOAT (1);
  bool training = FLAG (2);
  if (!probability (api, b, p))
    return gm_give (NULL);
  if (!training || p == 0)
    return gm_give (a[0].v);
  GmVal x = wide (api, b, a, &own);
  CHECK ();
  GmMeta m = *META (x);
  for (int d = channels ? 2 : GM_MAX_DIMS; d < m.ndim; d++)
    m.sizes[d] = 1;
  if (p == 1)
    return finish (api, b, a, gm_apply_num (b, mul, x, 0), own, 3);
  double low = -SELU_SCALE * SELU_ALPHA, scale = 1 / sqrt ((1 - p) * (1 + p * low * low));
  GmVal mask = kept (b, (GmDtype) m.dtype, m.ndim, m.sizes, p);
  CHECK ();
  /* scale * (x where kept, low elsewhere) - scale * p * low */
  GmVal gone = gm_apply_num (b, mul, gm_num_apply (b, sub, 1, mask), low);
  GmVal y = gm_apply2 (b, add, gm_apply2 (b, mul, x, mask), gone);
  return finish (api, b, a, gm_apply_num (b, sub, gm_apply_num (b, mul, y, scale), scale * p * low),
                 own, 3);
}

RUN (alpha_dropout)
{
  return alpha_dropout (api, b, a, false);
}
RUN (feature_alpha_dropout)
{
  return alpha_dropout (api, b, a, true);
}

/* -- Normalisation ----------------------------------------------------------------------------- */

/* Returns v, a weight or bias with one element for each channel of m, as [1, c, 1 ...]; fails in
 * the name of argument `name` if it has another shape. */
static GmVal
per_channel (const GmApi *api, GmBuilder *b, GmVal v, const GmMeta *m, const char *name)
{
  if (gm_b_failed (b))
    return NULL;
  if (META (v)->ndim != 1 || !gm_size_eq (META (v)->sizes[0], m->sizes[1]))
    return gm_b_fail (b, GM_ERROR_RUNTIME,
                      "%s(): %s must have one element for each of %" G_GINT64_FORMAT " channels",
                      api->name, name, gm_size_number (m->sizes[1]));
  int64_t sizes[GM_MAX_DIMS];
  for (int d = 0; d < m->ndim; d++)
    sizes[d] = d == 1 ? m->sizes[1] : 1;
  return gm_b_reshape (b, v, m->ndim, sizes);
}

/* Returns x minus the mean of its last dimension, divided by its standard deviation (eps is added
 * to the variance). */
static GmVal
standard_rows (GmBuilder *b, GmVal x, double eps)
{
  int64_t last = META (x)->ndim - 1;
  GmVal off = gm_b (b, sub, x, gm_mean (b, x, &last, 1, true)),
        var = gm_mean (b, gm_b (b, square, off), &last, 1, true);
  return gm_b (b, mul, off, gm_b (b, rsqrt, gm_apply_num (b, add, var, eps)));
}

static GmVal
scaled (const GmApi *api, GmBuilder *b, GmVal y, GmVal weight, GmVal bias, const GmMeta *m)
{
  if (weight)
    y = gm_apply2 (b, mul, y, gm_widen (b, per_channel (api, b, weight, m, "weight")));
  if (bias)
    y = gm_apply2 (b, add, y, gm_widen (b, per_channel (api, b, bias, m, "bias")));
  return y;
}

/* Normalises groups of channels: Y. Wu, K. He, "Group normalization" (2018). */
RUN (group_norm)
{
  GmDtype own = GM_F32;
  GmVal x = wide (api, b, a, &own), weight = OPTIONAL_TENSOR (2), bias = OPTIONAL_TENSOR (3);
  int64_t groups = INT (1);
  double eps = FLOAT (4);
  CHECK ();
  GmMeta m = *META (x);
  if (m.ndim < 2 || groups < 1 || !gm_size_eq (gm_size_mod (m.sizes[1], groups), 0)) {
    g_autofree char *text = gm_shape_text (m.ndim, m.sizes);
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "group_norm(): expected an input [n, c, ...] whose channels are a "
                               "multiple of num_groups = %" G_GINT64_FORMAT ", but got %s",
                               groups, text));
  }
  int64_t rest = gm_size_floordiv (m.sizes[1], groups);
  for (int d = 2; d < m.ndim; d++)
    rest = gm_size_mul (rest, m.sizes[d]);
  GmVal rows = gm_b_reshape (b, x, 3, (const int64_t[]){ m.sizes[0], groups, rest });
  CHECK ();
  GmVal y = gm_b_reshape (b, standard_rows (b, rows, eps), m.ndim, m.sizes);
  return finish (api, b, a, scaled (api, b, y, weight, bias, &m), own, -1);
}

/* Sets `running`, in place, to (1 - momentum) * running + momentum * the mean of `now` over the
 * batch. */
static void
move_running (GmBuilder *b, GmVal running, GmVal now, double momentum)
{
  int64_t batch = 0;
  GmVal mean = gm_mean (b, gm_b (b, detach, now), &batch, 1, false);
  GmVal next = gm_apply2 (b, add, gm_apply_num (b, mul, running, 1 - momentum),
                          gm_apply_num (b, mul, mean, momentum));
  if (!gm_b_failed (b)) {
    next = gm_b_cast (b, next, (GmDtype) META (running)->dtype);
    b->vt->into (b, running, GM_OP_copy, &next, 1, NULL);
  }
}

/* Normalises each channel of each example: D. Ulyanov, A. Vedaldi, V. Lempitsky, "Instance
 * normalization" (2016). */
RUN (instance_norm)
{
  GmDtype own = GM_F32;
  GmVal x = wide (api, b, a, &own), mean = OPTIONAL_TENSOR (1), var = OPTIONAL_TENSOR (2),
        weight = OPTIONAL_TENSOR (3), bias = OPTIONAL_TENSOR (4);
  bool own_stats = FLAG (5);
  double momentum = FLOAT (6), eps = FLOAT (7);
  CHECK ();
  GmMeta m = *META (x);
  int64_t rest = 1;
  for (int d = 2; d < m.ndim; d++)
    rest = gm_size_mul (rest, m.sizes[d]);
  if (m.ndim < 3 || (own_stats && gm_size_eq (rest, 1)))
    return gm_give (gm_b_fail (b, GM_ERROR_VALUE,
                               "instance_norm(): expected an input [n, c, sizes ...] with more "
                               "than one element for each channel"));
  GmVal rows = gm_b_reshape (b, x, 3, (const int64_t[]){ m.sizes[0], m.sizes[1], rest }), y;
  CHECK ();
  if (own_stats) {
    if (mean && var) {
      int64_t last = 2;
      GmVal still = gm_b (b, detach, rows), middle = gm_mean (b, still, &last, 1, true);
      GmVal square = gm_b_reduce (b, GM_OP_sum, gm_b (b, square, gm_b (b, sub, still, middle)),
                                  &last, 1, false);
      double n = (double) gm_size_number (rest);
      move_running (b, mean, gm_squeeze (b, middle, 2), momentum);
      move_running (b, var, gm_apply_num (b, div, square, n - 1), momentum);
    }
    y = gm_b_reshape (b, standard_rows (b, rows, eps), m.ndim, m.sizes);
  } else {
    if (!mean || !var)
      return gm_give (
          gm_b_fail (b, GM_ERROR_RUNTIME,
                     "instance_norm(): use_input_stats=False needs running_mean and running_var"));
    GmVal scale = gm_b (
        b, rsqrt,
        gm_apply_num (b, add, gm_widen (b, per_channel (api, b, var, &m, "running_var")), eps));
    y = gm_apply2 (
        b, mul, gm_apply2 (b, sub, x, gm_widen (b, per_channel (api, b, mean, &m, "running_mean"))),
        scale);
  }
  return finish (api, b, a, scaled (api, b, y, weight, bias, &m), own, -1);
}

/* Divides each element by a power of the mean square of its neighbours in other channels: A.
 * Krizhevsky, I. Sutskever, G. Hinton, "ImageNet classification with deep convolutional neural
 * networks" (2012). */
RUN (local_response_norm)
{
  GmDtype own = GM_F32;
  GmVal x = wide_or_default (api, b, a, &own);
  int64_t size = INT (1);
  double alpha = FLOAT (2), beta = FLOAT (3), k = FLOAT (4);
  CHECK ();
  GmMeta m = *META (x);
  if (m.ndim < 3 || size < 1)
    return gm_give (gm_b_fail (b, GM_ERROR_VALUE,
                               "local_response_norm(): expected an input of 3 or more dimensions "
                               "and a size of at least 1, but got %d and %" G_GINT64_FORMAT,
                               m.ndim, size));
  int64_t channels = gm_size_number (m.sizes[1]);
  GmVal padded = gm_pad_zeros (b, gm_b (b, square, x), 1, size / 2, (size - 1) / 2), sum = NULL;
  for (int64_t i = 0; i < size && !gm_b_failed (b); i++) {
    GmVal part = gm_b_slice (b, padded, 1, i, i + channels, 1);
    sum = sum ? gm_b (b, add, sum, part) : part;
  }
  CHECK ();
  GmVal base = gm_apply_num (
      b, add, gm_apply_num (b, mul, gm_apply_num (b, div, sum, (double) size), alpha), k);
  return finish (api, b, a, gm_b (b, div, x, gm_apply_num (b, pow, base, beta)), own, -1);
}

/* -- Channels and pixels ----------------------------------------------------------------------- */

RUN (channel_shuffle)
{
  GmVal x = TENSOR (0);
  int64_t groups = INT (1);
  CHECK ();
  GmMeta m = *META (x);
  if (m.ndim < 3 || groups < 1 || !gm_size_eq (gm_size_mod (m.sizes[1], groups), 0)
      || m.ndim >= GM_MAX_DIMS)
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "channel_shuffle(): expected an input [n, c, sizes ...] whose "
                               "channels are a multiple of groups = %" G_GINT64_FORMAT,
                               groups));
  int64_t split[GM_MAX_DIMS] = { m.sizes[0], groups, gm_size_floordiv (m.sizes[1], groups) };
  for (int d = 2; d < m.ndim; d++)
    split[d + 1] = m.sizes[d];
  GmVal v = gm_b_transpose (b, gm_b_reshape (b, x, m.ndim + 1, split), 1, 2);
  return gm_give (gm_b_reshape (b, v, m.ndim, m.sizes));
}

/* Moves elements between [..., c r^2, h, w] and [..., c, h r, w r], to the latter if `together`: W.
 * Shi et al., "Real-time single image and video super-resolution" (2016). */
static GmArg
pixels (const GmApi *api, GmBuilder *b, GmArg *a, bool together)
{
  GmVal x = TENSOR (0);
  int64_t r = INT (1);
  CHECK ();
  GmMeta m = *META (x);
  int lead = m.ndim - 3;
  bool fits = lead >= 0 && m.ndim + 2 <= GM_MAX_DIMS && r >= 1;
  if (fits && together)
    fits = gm_size_eq (gm_size_mod (m.sizes[lead], r * r), 0);
  else if (fits)
    fits = gm_size_eq (gm_size_mod (m.sizes[lead + 1], r), 0)
           && gm_size_eq (gm_size_mod (m.sizes[lead + 2], r), 0);
  if (!fits) {
    g_autofree char *text = gm_shape_text (m.ndim, m.sizes);
    return gm_give (
        gm_b_fail (b, GM_ERROR_RUNTIME,
                   "%s(): an input of shape %s does not fit a factor of %" G_GINT64_FORMAT,
                   api->name, text, r));
  }
  int64_t split[GM_MAX_DIMS], dims[GM_MAX_DIMS], c = m.sizes[lead], h = m.sizes[lead + 1],
                                                 w = m.sizes[lead + 2];
  for (int d = 0; d < lead; d++) {
    split[d] = m.sizes[d];
    dims[d] = d;
  }
  const int64_t apart[5] = { gm_size_floordiv (c, r * r), r, r, h, w };
  const int64_t joined[5] = { c, gm_size_floordiv (h, r), r, gm_size_floordiv (w, r), r };
  static const int64_t to_joined[5] = { 0, 3, 1, 4, 2 }, to_apart[5] = { 0, 2, 4, 1, 3 };
  for (int i = 0; i < 5; i++) {
    split[lead + i] = together ? apart[i] : joined[i];
    dims[lead + i] = lead + (together ? to_joined[i] : to_apart[i]);
  }
  m.sizes[lead] = together ? apart[0] : gm_size_mul (c, r * r);
  m.sizes[lead + 1] = together ? gm_size_mul (h, r) : joined[1];
  m.sizes[lead + 2] = together ? gm_size_mul (w, r) : joined[3];
  GmVal v = gm_b_permute (b, gm_b_reshape (b, x, lead + 5, split), dims);
  return gm_give (gm_b_reshape (b, v, m.ndim, m.sizes));
}

RUN (pixel_shuffle)
{
  return pixels (api, b, a, true);
}
RUN (pixel_unshuffle)
{
  return pixels (api, b, a, false);
}
