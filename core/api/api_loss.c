/* SPDX-License-Identifier: Apache-2.0
 * api_loss.c -- losses of gramme.nn.functional, composed of ops that differentiate through the
 * table.
 */
#include "core/api/api_private.h"

#include <math.h>

/* -- Reductions -------------------------------------------------------------------------------- */

typedef enum { NO_REDUCTION, MEAN, SUM, BATCHMEAN } Reduction;

/* Returns the reduction that argument `at` names, or that the older pair size_average, reduce
 * gives. */
static Reduction
reduction_arg (const GmApi *api, GmBuilder *b, const GmArg *a, int at, int average_at,
               int reduce_at)
{
  if (average_at >= 0 && (!IS_NONE (average_at) || !IS_NONE (reduce_at))) {
    bool average = IS_NONE (average_at) || FLAG (average_at),
         reduce = IS_NONE (reduce_at) || FLAG (reduce_at);
    return !reduce ? NO_REDUCTION : average ? MEAN : SUM;
  }
  const char *name = STR (at);
  if (!strcmp (name, "mean"))
    return MEAN;
  if (!strcmp (name, "sum"))
    return SUM;
  if (!strcmp (name, "batchmean") && !strcmp (api->name, "kl_div"))
    return BATCHMEAN;
  if (strcmp (name, "none"))
    gm_b_fail (b, GM_ERROR_VALUE,
               "%s(): '%s' is not a valid value for reduction; it is 'mean', 'sum' or 'none'",
               api->name, name);
  return NO_REDUCTION;
}

static GmVal
reduce (GmBuilder *b, GmVal v, Reduction how)
{
  if (gm_b_failed (b) || how == NO_REDUCTION)
    return gm_b_failed (b) ? NULL : v;
  if (how == MEAN && !gm_dtype_is_float (META (v)->dtype))
    return gm_b_fail (b, GM_ERROR_RUNTIME,
                      "mean(): the input must have a floating point dtype, not %s; cast it first",
                      gm_dtypes[META (v)->dtype].torch_name);
  if (how == MEAN)
    return gm_mean (b, v, NULL, 0, false);
  GmVal sum = gm_b_reduce (b, GM_OP_sum, v, NULL, 0, false);
  return how == BATCHMEAN && META (v)->ndim
             ? gm_apply (b, GM_OP_div,
                         (const GmArg[]){ gm_tensor_arg (sum), gm_count_arg (META (v)->sizes[0]) },
                         2)
             : sum;
}

GmVal
gm_reduce_loss (const GmApi *api, GmBuilder *b, const GmArg *a, GmVal v, int at, int average_at)
{
  Reduction how = reduction_arg (api, b, a, at, average_at, average_at + 1);
  return reduce (b, v, how);
}

/* -- Distances --------------------------------------------------------------------------------- */

static GmVal
difference (const GmApi *api, GmBuilder *b, const GmArg *a)
{
  TENSOR (0), TENSOR (1);
  return gm_apply (b, GM_OP_sub, a, 2);
}

/* True if input or target has a floating dtype, as the loss requires; else the error is set. */
static bool
of_floats (const GmApi *api, GmBuilder *b, const GmArg *a)
{
  TENSOR (0), TENSOR (1);
  GmDtype d = gm_b_failed (b) ? GM_F32 : gm_result_type (b, a, 2);
  if (!gm_b_failed (b) && !gm_dtype_is_float (d))
    gm_b_fail (b, GM_ERROR_UNSUPPORTED, "%s(): takes floating dtypes, not %s; cast the input first",
               api->name, gm_dtypes[d].torch_name);
  return !gm_b_failed (b);
}

static GmVal
float_difference (const GmApi *api, GmBuilder *b, const GmArg *a)
{
  return of_floats (api, b, a) ? difference (api, b, a) : NULL;
}

/* Returns argument i, the weights; NULL if it is None or after an error. */
static GmVal
weights_of (const GmApi *api, GmBuilder *b, const GmArg *a, int i)
{
  GmVal input = TENSOR (0), weight = OPTIONAL_TENSOR (i);
  if (weight && !gm_b_failed (b) && !gm_meta_same_shape (META (weight), META (input)))
    return gm_b_fail (b, GM_ERROR_VALUE, "%s(): weights and input must have the same size",
                      api->name);
  return gm_b_failed (b) ? NULL : weight;
}

/* Reduces the losses, each times its weight if there are weights; the mean is then divided by the
 * sum of the weights. */
static GmVal
reduce_weighted (const GmApi *api, GmBuilder *b, const GmArg *a, GmVal losses, Reduction how)
{
  GmVal weight = weights_of (api, b, a, 5);
  if (!weight || gm_b_failed (b))
    return gm_b_failed (b) ? NULL : reduce (b, losses, how);
  losses = gm_apply2 (b, mul, losses, weight);
  if (how != MEAN)
    return reduce (b, losses, how);
  return gm_apply2 (b, div, reduce (b, losses, SUM), reduce (b, weight, SUM));
}

RUN (mse_loss)
{
  Reduction how = reduction_arg (api, b, a, 4, 2, 3);
  GmVal d = float_difference (api, b, a);
  CHECK ();
  return gm_give (reduce_weighted (api, b, a, gm_apply1 (b, square, d), how));
}

RUN (l1_loss)
{
  Reduction how = reduction_arg (api, b, a, 4, 2, 3);
  GmVal d = difference (api, b, a);
  CHECK ();
  return gm_give (reduce_weighted (api, b, a, gm_apply1 (b, abs, d), how));
}

/* Returns the loss that is quadratic for |d| below delta, and linear beyond, with the factors
 * `quadratic` and `linear`. */
static GmVal
quadratic_then_linear (GmBuilder *b, GmVal d, double delta, double quadratic, double linear)
{
  GmVal size = gm_apply1 (b, abs, d), far = gm_apply_num (b, ge, size, delta);
  GmVal square = gm_apply_num (
      b, mul, gm_apply1 (b, square, gm_pick (b, far, gm_float_arg (0), gm_tensor_arg (d))),
      0.5 * quadratic);
  GmVal line = gm_apply_num (b, mul, gm_apply_num (b, sub, size, 0.5 * delta), linear);
  return gm_pick (b, far, gm_tensor_arg (line), gm_tensor_arg (square));
}

RUN (smooth_l1_loss)
{
  Reduction how = reduction_arg (api, b, a, 4, 2, 3);
  double beta = FLOAT (5);
  GmVal d = float_difference (api, b, a);
  CHECK ();
  if (beta < 0)
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "smooth_l1_loss does not support negative values for beta (%g)",
                               beta));
  return gm_give (reduce (
      b, beta == 0 ? gm_apply1 (b, abs, d) : quadratic_then_linear (b, d, beta, 1 / beta, 1), how));
}

RUN (huber_loss)
{
  Reduction how = reduction_arg (api, b, a, 2, -1, -1);
  double delta = FLOAT (3);
  GmVal d = float_difference (api, b, a);
  CHECK ();
  if (delta <= 0)
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "huber_loss does not support non-positive values for delta (%g)",
                               delta));
  GmVal losses = quadratic_then_linear (b, d, delta, 1, delta), weight = weights_of (api, b, a, 4);
  CHECK ();
  return gm_give (reduce (b, weight ? gm_apply2 (b, mul, losses, weight) : losses, how));
}

/* -- Two classes ------------------------------------------------------------------------------- */

static GmVal
weighted (GmBuilder *b, GmVal loss, GmVal weight)
{
  return weight ? gm_apply2 (b, mul, loss, weight) : loss;
}

static bool
check_same (const GmApi *api, GmBuilder *b, GmVal x, GmVal y)
{
  if (gm_b_failed (b) || gm_meta_same_shape (META (x), META (y)))
    return !gm_b_failed (b);
  g_autofree char *xs = gm_shape_text (META (x)->ndim, META (x)->sizes),
                  *ys = gm_shape_text (META (y)->ndim, META (y)->sizes);
  gm_b_fail (b, GM_ERROR_VALUE, "%s(): target size (%s) must be the same as input size (%s)",
             api->name, ys, xs);
  return false;
}

#define LEAST_ROOM 1e-12 /* least x (1 - x) by which the loss's slope is divided */

static GmVal
two_logarithms (GmBuilder *b, GmVal x, GmVal t)
{
  GmVal yes = gm_clamp_min (b, gm_b (b, log, x), -100),
        no = gm_clamp_min (b, gm_b (b, log, gm_num_apply (b, sub, 1, x)), -100);
  return gm_b (b, neg,
               gm_apply2 (b, add, gm_apply2 (b, mul, t, yes),
                          gm_apply2 (b, mul, gm_num_apply (b, sub, 1, t), no)));
}

/* Returns the loss where x is 0 or 1 up to rounding, with the slope (x - t) / LEAST_ROOM, which
 * continues the formula of the interior: a parabola of this slope is added, and its value
 * subtracted again. */
static GmVal
at_the_end (GmBuilder *b, GmVal x, GmVal still, GmVal t)
{
  GmVal value = two_logarithms (b, still, t);
  if (gm_b_failed (b) || !META (x)->requires_grad)
    return value;
  GmVal away = gm_apply2 (b, sub, x, gm_b (b, detach, t)),
        bend = gm_apply_num (b, mul, gm_b (b, square, away), 0.5 / LEAST_ROOM);
  return gm_apply2 (b, add, value, gm_apply2 (b, sub, bend, gm_b (b, detach, bend)));
}

RUN (binary_cross_entropy)
{
  GmVal x = TENSOR (0), t = TENSOR (1), weight = OPTIONAL_TENSOR (2);
  Reduction how = reduction_arg (api, b, a, 5, 3, 4);
  if (!check_same (api, b, x, t))
    return gm_give (NULL);
  GmDtype own = (GmDtype) META (x)->dtype;
  x = gm_widen (b, x); /* a half has no room as small as the least one */
  t = gm_widen (b, t);
  GmVal still = gm_b (b, detach, x);
  CHECK ();
  GmVal room = gm_apply2 (b, mul, still, gm_num_apply (b, sub, 1, still)),
        end = gm_apply_num (b, lt, room, LEAST_ROOM);
  GmVal inner = gm_pick (b, end, gm_float_arg (0.5), gm_tensor_arg (x));
  GmVal loss = gm_pick (b, end, gm_tensor_arg (at_the_end (b, x, still, t)),
                        gm_tensor_arg (two_logarithms (b, inner, t)));
  GmVal reduced = reduce (b, weighted (b, loss, weight), how);
  reduced = gm_require_between (b, reduced, x, 0, 1, GM_CONDITION_INPUT_CHANCE);
  return gm_give (
      gm_narrow (b, gm_require_between (b, reduced, t, 0, 1, GM_CONDITION_TARGET_CHANCE), own));
}

RUN (binary_cross_entropy_with_logits)
{
  GmVal x = TENSOR (0), t = TENSOR (1), weight = OPTIONAL_TENSOR (2),
        positive = OPTIONAL_TENSOR (6);
  Reduction how = reduction_arg (api, b, a, 5, 3, 4);
  if (!check_same (api, b, x, t))
    return gm_give (NULL);
  /* log (1 + exp (-x)), from either side. */
  GmVal soft = gm_b (b, log1p, gm_b (b, exp, gm_b (b, neg, gm_b (b, abs, x))));
  soft = gm_b (b, add, soft, gm_apply_num (b, maximum, gm_b (b, neg, x), 0));
  if (positive)
    soft = gm_apply2 (
        b, mul, soft,
        gm_apply_num (b, add, gm_apply2 (b, mul, gm_apply_num (b, sub, positive, 1), t), 1));
  GmVal loss = gm_apply2 (b, add, gm_apply2 (b, mul, gm_num_apply (b, sub, 1, t), x), soft);
  return gm_give (reduce (b, weighted (b, loss, weight), how));
}

RUN (kl_div)
{
  GmVal x = TENSOR (0), t = TENSOR (1);
  Reduction how = reduction_arg (api, b, a, 4, 2, 3);
  bool log_target = FLAG (5);
  if (!of_floats (api, b, a))
    return gm_give (NULL);
  if (log_target)
    return gm_give (reduce (b, gm_b (b, mul, gm_b (b, exp, t), gm_apply2 (b, sub, t, x)), how));
  /* t log t is 0 at 0: the logarithm is taken of 1 there. */
  GmVal zero = gm_apply_num (b, eq, t, 0);
  GmVal entropy =
      gm_apply2 (b, mul, t, gm_b (b, log, gm_pick (b, zero, gm_float_arg (1), gm_tensor_arg (t))));
  return gm_give (reduce (b, gm_apply2 (b, sub, entropy, gm_apply2 (b, mul, t, x)), how));
}

/* -- Classes ----------------------------------------------------------------------------------- */

/* Arguments of a loss on classes: log probabilities [n, c, d ...] (or [c]) with class indices [n, d
 * ...]. */
typedef struct {
  GmVal log_p, target, weight;
  int dim; /* dimension of the classes */
  int64_t ignore;
  Reduction how;
} Classes;

static bool
check_classes (const GmApi *api, GmBuilder *b, Classes *c)
{
  if (gm_b_failed (b))
    return false;
  const GmMeta *m = META (c->log_p), *t = META (c->target);
  bool fits = m->ndim >= 1 && t->ndim == m->ndim - 1;
  c->dim = m->ndim == 1 ? 0 : 1;
  for (int d = 0, k = 0; fits && d < m->ndim; d++)
    fits = d == c->dim || gm_size_eq (m->sizes[d], t->sizes[k++]);
  if (!fits || gm_dtypes[t->dtype].category != GM_CATEGORY_INT) {
    g_autofree char *x = gm_meta_text (m), *y = gm_meta_text (t);
    gm_b_fail (b, GM_ERROR_RUNTIME,
               "%s(): an input %s does not go with a target %s; targets are int64 class indices of "
               "the input's shape "
               "without dimension %d",
               api->name, x, y, c->dim);
    return false;
  }
  if (c->weight
      && (META (c->weight)->ndim != 1
          || !gm_size_eq (META (c->weight)->sizes[0], m->sizes[c->dim]))) {
    gm_b_fail (b, GM_ERROR_RUNTIME,
               "%s(): weight must have one element per class, %" G_GINT64_FORMAT, api->name,
               gm_size_number (m->sizes[c->dim]));
    return false;
  }
  c->target = gm_b_cast (b, c->target, GM_I64);
  return true;
}

/* Values of the targets, which both parts of a smoothed loss use. */
typedef struct {
  GmVal counted; /* bool: not the ignored class */
  GmVal safe;    /* the target, 0 where it is ignored */
  GmVal w;       /* the weight of each target, 0 where it is ignored */
} Targets;

static Targets
targets_of (GmBuilder *b, const Classes *c)
{
  Targets t = { 0 };
  GmDtype d = (GmDtype) META (c->log_p)->dtype;
  t.counted = gm_b (b, ne, c->target, gm_b_scalar (b, gm_scalar_int (c->ignore), GM_I64));
  t.safe = gm_b (b, where, t.counted, c->target, gm_b_scalar (b, gm_scalar_int (0), GM_I64));
  t.w = gm_b_cast (b, t.counted, d);
  if (c->weight && !gm_b_failed (b)) {
    GmMeta m = *META (t.safe);
    int64_t n = gm_meta_numel (&m);
    GmVal w = gm_index_select (b, c->weight, 0, gm_b_reshape (b, t.safe, 1, &n));
    t.w = gm_b (b, mul, gm_b_view (b, w, m.ndim, m.sizes), t.w);
  }
  return t;
}

/* Returns sum (loss) / sum (w), sum (loss), or loss. */
static GmVal
reduce_classes (GmBuilder *b, GmVal loss, GmVal w, Reduction how)
{
  if (how == NO_REDUCTION)
    return loss;
  if (gm_b_failed (b))
    return NULL;
  GmDtype own = (GmDtype) META (loss)->dtype;
  GmVal sum = gm_b_reduce (b, GM_OP_sum, gm_widen (b, loss), NULL, 0, false);
  if (how == MEAN)
    sum = gm_b (b, div, sum, gm_b_reduce (b, GM_OP_sum, gm_widen (b, w), NULL, 0, false));
  return gm_narrow (b, sum, own);
}

static GmVal
nll (GmBuilder *b, const Classes *c, const Targets *t)
{
  GmVal picked =
      gm_squeeze (b, gm_gather (b, c->log_p, c->dim, gm_unsqueeze (b, t->safe, c->dim)), c->dim);
  GmVal loss = gm_b (b, neg, picked);
  if (c->weight)
    loss = gm_b (b, mul, loss, t->w);
  /* `where`, not a product: an infinite loss that is ignored is 0. */
  loss = gm_b (b, where, t->counted, loss,
               gm_b_scalar (b, gm_scalar_int (0), (GmDtype) META (c->log_p)->dtype));
  return reduce_classes (b, loss, t->w, c->how);
}

/* Returns the loss against equal probability for all classes. */
static GmVal
smooth (GmBuilder *b, const Classes *c, const Targets *t)
{
  GmVal p = c->log_p;
  int64_t dim = c->dim, sizes[GM_MAX_DIMS] = { 1, 1, 1, 1, 1, 1, 1, 1 };
  if (c->weight) {
    sizes[dim] = META (c->weight)->sizes[0];
    p = gm_b (b, mul, p, gm_b_view (b, c->weight, META (p)->ndim, sizes));
  }
  GmVal loss = gm_b (b, neg, gm_b_reduce (b, GM_OP_sum, p, &dim, 1, false));
  loss = gm_b (b, where, t->counted, loss,
               gm_b_scalar (b, gm_scalar_int (0), (GmDtype) META (c->log_p)->dtype));
  return reduce_classes (b, loss, t->w, c->how);
}

RUN (nll_loss)
{
  Classes c = {
    .log_p = TENSOR (0), .target = TENSOR (1), .weight = OPTIONAL_TENSOR (2), .ignore = INT (4)
  };
  c.how = reduction_arg (api, b, a, 6, 3, 5);
  if (gm_b_failed (b) || !check_classes (api, b, &c))
    return gm_give (NULL);
  Targets t = targets_of (b, &c);
  CHECK ();
  return gm_give (nll (b, &c, &t));
}

/* Returns the cross entropy with targets that are probabilities, of the input's shape. */
static GmVal
soft_cross_entropy (GmBuilder *b, Classes *c, double smoothing)
{
  const GmMeta *m = META (c->log_p);
  int64_t dim = c->dim, classes = m->sizes[dim], n = 1,
          sizes[GM_MAX_DIMS] = { 1, 1, 1, 1, 1, 1, 1, 1 };
  GmVal p = c->target;
  if (smoothing > 0)
    p = gm_apply_num (b, add, gm_apply_num (b, mul, p, 1 - smoothing),
                      smoothing / (double) gm_size_number (classes));
  GmVal terms = gm_b (b, mul, c->log_p, p);
  if (c->weight) {
    sizes[dim] = classes;
    terms = gm_b (b, mul, terms, gm_b_view (b, c->weight, m->ndim, sizes));
  }
  for (int d = 0; d < m->ndim; d++)
    n = d == dim ? n : gm_size_mul (n, m->sizes[d]);
  GmVal loss = gm_b (b, neg, gm_b_reduce (b, GM_OP_sum, terms, &dim, 1, false));
  if (c->how == NO_REDUCTION)
    return loss;
  if (gm_b_failed (b))
    return NULL;
  GmDtype own = (GmDtype) META (loss)->dtype;
  GmVal sum = gm_b_reduce (b, GM_OP_sum, gm_widen (b, loss), NULL, 0, false);
  return gm_narrow (
      b,
      c->how == SUM
          ? sum
          : gm_apply (b, GM_OP_div, (const GmArg[]){ gm_tensor_arg (sum), gm_count_arg (n) }, 2),
      own);
}

RUN (cross_entropy)
{
  Classes c = {
    .log_p = TENSOR (0), .target = TENSOR (1), .weight = OPTIONAL_TENSOR (2), .ignore = INT (4)
  };
  double smoothing = FLOAT (7);
  c.how = reduction_arg (api, b, a, 6, 3, 5);
  CHECK ();
  if (!(smoothing >= 0 && smoothing <= 1))
    return gm_give (gm_b_fail (
        b, GM_ERROR_RUNTIME,
        "cross_entropy(): label_smoothing must be between 0.0 and 1.0, but is %g", smoothing));
  const GmMeta *m = META (c.log_p), *t = META (c.target);
  c.dim = m->ndim == 1 ? 0 : 1;
  bool soft = gm_dtype_is_float (t->dtype) && gm_meta_same_shape (m, t) && m->ndim;
  if (!soft && !check_classes (api, b, &c))
    return gm_give (NULL);
  c.log_p = gm_softmax (b, c.log_p, c.dim, true);
  CHECK ();
  if (soft)
    return gm_give (soft_cross_entropy (b, &c, smoothing));
  Targets targets = targets_of (b, &c);
  CHECK ();
  GmVal loss = nll (b, &c, &targets);
  if (smoothing == 0)
    return gm_give (loss);
  double share = smoothing / (double) gm_size_number (META (c.log_p)->sizes[c.dim]);
  return gm_give (gm_b (b, add, gm_apply_num (b, mul, loss, 1 - smoothing),
                        gm_apply_num (b, mul, smooth (b, &c, &targets), share)));
}
