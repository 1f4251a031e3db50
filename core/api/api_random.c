/* SPDX-License-Identifier: Apache-2.0
 * api_random.c -- random numbers: all from the two ops `uniform` and `normal` over the builder's
 * generator.
 *
 * The generator's state is a value, so a recorded program draws new numbers on each run, and the
 * same ones as eager.
 */
#include "core/api/api_private.h"

#include <float.h>
#include <math.h>

#define FMT "%" G_GINT64_FORMAT

/* Returns the state of the generator from which n elements are drawn, and advances the generator.
 * The generator of a call's generator= is a tensor, read and written like any other, so that
 * recording and functionalization need no special case. NULL after an error. */
static GmVal
take (GmBuilder *b, int64_t n, int64_t *offset)
{
  if (b->refuses_draws)
    return gm_b_fail (b, GM_ERROR_RUNTIME,
                      "vmap(): the function draws random numbers: say with randomness= whether "
                      "they are the 'same' or 'different' for the examples");
  if (!b->generator)
    return b->vt->random (b, (uint64_t) n, offset);
  GmVal now = gm_b (b, copy, b->generator);
  GmVal draws = gm_b_scalar (b, gm_scalar_int (gm_size_floordiv (gm_size_add (n, 3), 4)), GM_I64);
  GmVal next = gm_b_slice (b, b->generator, 0, 1, 2, 1), in[] = { next, draws };
  *offset = 0;
  return gm_b_failed (b) || !b->vt->into (b, next, GM_OP_add, in, 2, NULL) ? NULL : now;
}

/* Draws elements of f32 or f64. */
static GmVal
draw_wide (GmBuilder *b, GmOp op, GmDtype dtype, int ndim, const int64_t *sizes)
{
  if (gm_b_failed (b))
    return NULL;
  for (int d = 0; d < ndim; d++)
    if (gm_size_lt (sizes[d], 0))
      return gm_b_fail (b, GM_ERROR_RUNTIME, "cannot create a tensor with negative dimension " FMT,
                        sizes[d]);
  GmMeta m = gm_meta_make (dtype, ndim, sizes);
  GmAttrs at = { .mask = BIT (SIZES) | BIT (DTYPE) | BIT (OFFSET),
                 .n_list = (uint8_t) ndim,
                 .dtype = dtype };
  memcpy (at.list, m.sizes, sizeof at.list);
  gm_b_attrs_device (b, &at);
  GmVal state = take (b, gm_meta_numel (&m), &at.offset);
  return state ? gm_b_op (b, op, &state, 1, &at) : NULL;
}

/* Draws elements of any floating dtype: f16 and bf16 are drawn in f32. A uniform number keeps as
 * many bits as the dtype has for [0.5, 1), as rounding could give 1. */
static GmVal
draw (GmBuilder *b, GmOp op, GmDtype dtype, int ndim, const int64_t *sizes)
{
  if (!gm_b_failed (b) && !(gm_dtype_is_float (dtype) && gm_dtype_computes (dtype)))
    return gm_b_fail (b, GM_ERROR_RUNTIME,
                      "random numbers are of a floating dtype that has arithmetic, not %s",
                      gm_dtypes[dtype].torch_name);
  GmVal v = draw_wide (b, op, gm_dtype_compute (dtype), ndim, sizes);
  if (!v || gm_dtype_compute (dtype) == dtype)
    return v;
  if (op == GM_OP_uniform) {
    double steps = 2 / gm_dtype_epsilon (dtype);
    v = gm_apply_num (b, mul, gm_apply1 (b, floor, gm_apply_num (b, mul, v, steps)), 1 / steps);
  }
  return gm_narrow (b, v, dtype);
}

GmVal
gm_uniform (GmBuilder *b, GmDtype dtype, int ndim, const int64_t *sizes)
{
  return draw (b, GM_OP_uniform, dtype, ndim, sizes);
}

static GmArg
run_sized (const GmApi *api, GmBuilder *b, GmArg *a, GmOp op)
{
  int64_t sizes[GM_MAX_DIMS];
  int n = gm_arg_ints (api, b, a, 0, sizes);
  GmDtype d = gm_arg_dtype (api, b, a, 1, gm_default_dtype ());
  CHECK ();
  return gm_give (draw (b, op, d, n, sizes));
}

RUN (rand)
{
  return run_sized (api, b, a, GM_OP_uniform);
}
RUN (randn)
{
  return run_sized (api, b, a, GM_OP_normal);
}

static GmArg
run_like (const GmApi *api, GmBuilder *b, GmArg *a, GmOp op)
{
  GmVal v = TENSOR (0);
  CHECK ();
  const GmMeta *m = META (v);
  GmDtype d = gm_arg_dtype (api, b, a, 1, (GmDtype) m->dtype);
  CHECK ();
  return gm_give (draw (b, op, d, m->ndim, m->sizes));
}

RUN (rand_like)
{
  return run_like (api, b, a, GM_OP_uniform);
}
RUN (randn_like)
{
  return run_like (api, b, a, GM_OP_normal);
}

RUN (randint)
{
  /* randint (high, size) leaves out low. */
  bool short_form = a[1].kind == GM_ARG_LIST && IS_NONE (2);
  bool high_only = IS_NONE (1) || short_form;
  int64_t low = high_only ? 0 : INT (0), high = high_only ? INT (0) : INT (1), sizes[GM_MAX_DIMS];
  int n = gm_arg_ints (api, b, a, short_form ? 1 : 2, sizes);
  GmDtype d = gm_arg_dtype (api, b, a, 3, GM_I64);
  CHECK ();
  if (high <= low)
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "randint(): expects 'from' to be less than 'to', but got from=" FMT
                               " >= to=" FMT,
                               low, high));
  GmVal u = draw (b, GM_OP_uniform, GM_F64, n, sizes);
  GmVal i = gm_b_cast (b, gm_b (b, floor, gm_apply_num (b, mul, u, (double) high - (double) low)),
                       GM_I64);
  return gm_give (gm_b_cast (
      b,
      gm_apply (b, GM_OP_add,
                (const GmArg[]){ gm_tensor_arg (i), { .kind = GM_ARG_INT, .i = low } }, 2),
      d));
}

/* Returns `drawn` with a slope of 0 by each parameter that requires a gradient: a sample is a
 * constant of autograd, not a function of them. */
static GmVal
sampled (GmBuilder *b, GmVal drawn, const GmArg *parameters, int n)
{
  for (int i = 0; i < n && !gm_b_failed (b); i++)
    if (parameters[i].kind == GM_ARG_TENSOR && META (parameters[i].v)->requires_grad
        && gm_dtype_is_float (META (drawn)->dtype))
      drawn = gm_apply2 (b, overwrite, parameters[i].v, drawn);
  return drawn;
}

/* Returns the parameter x, detached if it requires a gradient. */
static GmArg
still (GmBuilder *b, const GmArg *x)
{
  return x->kind == GM_ARG_TENSOR && META (x->v)->requires_grad
             ? gm_tensor_arg (gm_b (b, detach, x->v))
             : *x;
}

RUN (randperm)
{
  int64_t n = INT (0);
  GmDtype d = gm_arg_dtype (api, b, a, 1, GM_I64);
  CHECK ();
  GmVal u = draw (b, GM_OP_uniform, GM_F64, 1, &n);
  GmAttrs at = { .mask = BIT (DIM) | BIT (DESCENDING) };
  return gm_give (gm_b_cast (b, gm_b_op (b, GM_OP_argsort, &u, 1, &at), d));
}

RUN (normal)
{
  GmMeta shape = { 0 };
  GmDtype d = gm_default_dtype ();
  if (!IS_NONE (2))
    shape.ndim = (uint8_t) gm_arg_ints (api, b, a, 2, shape.sizes);
  if (!IS_NONE (4) && (a[0].kind == GM_ARG_TENSOR || a[1].kind == GM_ARG_TENSOR))
    return gm_give (gm_b_fail (b, GM_ERROR_TYPE,
                               "normal(): dtype is that of the tensor mean or std; cast that"));
  d = gm_arg_dtype (api, b, a, 4, d);
  for (int i = 0; i < 2; i++) {
    if (a[i].kind != GM_ARG_TENSOR)
      continue;
    GmMeta both = shape;
    if (!gm_b_failed (b) && !gm_meta_broadcast (&shape, META (a[i].v), &both, &b->error))
      return gm_give (NULL);
    shape = both;
    d = (GmDtype) META (a[i].v)->dtype;
  }
  if (gm_arg_is_number (&a[1]) && FLOAT (1) < 0)
    return gm_give (
        gm_b_fail (b, GM_ERROR_RUNTIME, "normal expects std >= 0.0, but found std %g", FLOAT (1)));
  if (IS_NONE (2) && a[0].kind != GM_ARG_TENSOR && a[1].kind != GM_ARG_TENSOR)
    return gm_give (
        gm_b_fail (b, GM_ERROR_TYPE, "normal(): size is needed where mean and std are numbers"));
  GmVal z = draw (b, GM_OP_normal, d, shape.ndim, shape.sizes);
  CHECK ();
  GmArg std = still (b, &a[1]);
  if (std.kind == GM_ARG_TENSOR)
    std = gm_give (gm_require_between (b, std.v, std.v, 0, INFINITY, GM_CONDITION_STD));
  CHECK ();
  z = gm_apply (b, GM_OP_mul, (const GmArg[]){ gm_tensor_arg (z), std }, 2);
  z = gm_apply (b, GM_OP_add, (const GmArg[]){ gm_tensor_arg (z), still (b, &a[0]) }, 2);
  return gm_give (sampled (b, z, a, 2));
}

/* Returns uniform numbers of v's shape to compare with: f32 at least, f64 for integer tensors. */
static GmVal
uniform_like (GmBuilder *b, GmVal v)
{
  if (gm_b_failed (b))
    return NULL;
  const GmMeta *m = META (v);
  GmDtype d = !gm_dtype_is_float (m->dtype)  ? GM_F64
              : gm_dtype_computes (m->dtype) ? gm_dtype_compute (m->dtype)
                                             : GM_F32;
  return gm_uniform (b, d, m->ndim, m->sizes);
}

/* Returns the probability p, or tensor of probabilities, detached, to compare with; sets an error
 * outside of [0, 1]. */
static GmArg
chance (const GmApi *api, GmBuilder *b, const GmArg *p)
{
  if (p->kind == GM_ARG_TENSOR && !gm_b_failed (b) && META (p->v)->dtype != GM_BOOL) {
    GmVal v = still (b, p).v;
    return gm_give (gm_require_between (b, v, v, 0, 1, GM_CONDITION_CHANCE));
  }
  double number = gm_arg_is_number (p) ? gm_scalar_as_double (gm_arg_number (p)) : 0;
  if (!(number >= 0 && number <= 1))
    gm_b_fail (b, GM_ERROR_RUNTIME, "%s expects p to be in [0, 1], but got p=%g", api->name,
               number);
  return *p;
}

RUN (bernoulli)
{
  GmVal v = TENSOR (0);
  CHECK ();
  GmArg p = chance (api, b, IS_NONE (1) ? &a[0] : &a[1]);
  CHECK ();
  GmVal hit = gm_apply (b, GM_OP_lt, (const GmArg[]){ gm_tensor_arg (uniform_like (b, v)), p }, 2);
  CHECK ();
  return gm_give (sampled (b, gm_b_cast (b, hit, (GmDtype) META (v)->dtype), a, 2));
}

GmVal
gm_dropout (GmBuilder *b, GmVal v, double p)
{
  if (gm_b_failed (b))
    return NULL;
  if (p == 1)
    return gm_apply_num (b, mul, v, 0);
  GmVal keep =
      gm_b_cast (b, gm_apply_num (b, ge, uniform_like (b, v), p), (GmDtype) META (v)->dtype);
  return gm_b (b, mul, v, gm_apply_num (b, mul, keep, 1 / (1 - p)));
}

RUN (dropout)
{
  GmVal v = TENSOR (0);
  double p = FLOAT (1);
  bool training = FLAG (2), inplace = FLAG (3);
  CHECK ();
  if (!(p >= 0 && p <= 1))
    return gm_give (gm_b_fail (b, GM_ERROR_VALUE,
                               "dropout probability has to be between 0 and 1, but got %g", p));
  if (!training || p == 0)
    return gm_give (v);
  GmVal out = gm_dropout (b, v, p);
  CHECK ();
  return gm_give (inplace ? b->vt->into (b, v, GM_OP_copy, &out, 1, NULL) : out);
}

/* -- Filling ----------------------------------------------------------------------------------- */

static GmArg
fill (const GmApi *api, GmBuilder *b, GmVal dst, GmVal src)
{
  CHECK ();
  return gm_give (b->vt->into (b, dst, GM_OP_copy, &src, 1, NULL));
}

RUN (uniform_)
{
  GmVal v = TENSOR (0);
  double from = FLOAT (1), to = FLOAT (2);
  CHECK ();
  if (from > to)
    return gm_give (gm_b_fail (
        b, GM_ERROR_RUNTIME,
        "uniform_() expects to return a [from, to) range, but found from=%g > to=%g", from, to));
  const GmMeta *m = META (v);
  if (!gm_number_fits (b, &a[1], (GmDtype) m->dtype)
      || !gm_number_fits (b, &a[2], (GmDtype) m->dtype))
    return gm_give (NULL);
  if (!isfinite (from) || !isfinite (to))
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "uniform_() expects finite bounds, but found from=%g and to=%g",
                               from, to));
  GmVal u = draw (b, GM_OP_uniform, (GmDtype) m->dtype, m->ndim, m->sizes);
  return fill (api, b, v, gm_apply_num (b, add, gm_apply_num (b, mul, u, to - from), from));
}

RUN (normal_)
{
  GmVal v = TENSOR (0);
  double mean = FLOAT (1), std = FLOAT (2);
  CHECK ();
  if (std < 0)
    return gm_give (
        gm_b_fail (b, GM_ERROR_RUNTIME, "normal_() expects std >= 0.0, but found std %g", std));
  const GmMeta *m = META (v);
  GmVal z = draw (b, GM_OP_normal, (GmDtype) m->dtype, m->ndim, m->sizes);
  return fill (api, b, v, gm_apply_num (b, add, gm_apply_num (b, mul, z, std), mean));
}

RUN (bernoulli_)
{
  GmVal v = TENSOR (0);
  CHECK ();
  GmArg p = chance (api, b, &a[1]);
  CHECK ();
  GmVal hit = gm_apply (b, GM_OP_lt, (const GmArg[]){ gm_tensor_arg (uniform_like (b, v)), p }, 2);
  return fill (api, b, v, hit);
}

/* Returns uniform numbers in (0, 1), in f64: their logarithm is finite. */
static GmVal
open_uniform (GmBuilder *b, int ndim, const int64_t *sizes)
{
  GmVal u = gm_uniform (b, GM_F64, ndim, sizes);
  return gm_apply_num (b, add, gm_apply_num (b, mul, u, 1 - 0x1p-53), 0x1p-54);
}

/* Distributions that are sampled by the inverse of their distribution function, applied to u in (0,
 * 1). */
typedef enum { EXPONENTIAL, GEOMETRIC, CAUCHY, LOG_NORMAL } Shape;

static GmArg
fill_shape (const GmApi *api, GmBuilder *b, GmArg *a, Shape shape)
{
  GmVal v = TENSOR (0), y;
  double first = FLOAT (1), second = shape == CAUCHY || shape == LOG_NORMAL ? FLOAT (2) : 0;
  CHECK ();
  GmMeta m = *META (v);
  bool fits = shape == EXPONENTIAL ? first > 0
              : shape == GEOMETRIC ? first > 0 && first < 1
              : shape == CAUCHY    ? second > 0
                                   : second >= 0;
  if (!fits || (shape != GEOMETRIC && !gm_dtype_is_float (m.dtype)))
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME, "%s(): %s", api->name,
                               fits                   ? "fills tensors of floating dtypes"
                               : shape == EXPONENTIAL ? "lambd must be above 0"
                               : shape == GEOMETRIC   ? "p must be between 0 and 1"
                               : shape == CAUCHY      ? "sigma must be above 0"
                                                      : "std must not be negative"));
  if (shape == LOG_NORMAL) {
    GmVal z = draw (b, GM_OP_normal, GM_F64, m.ndim, m.sizes);
    y = gm_apply1 (b, exp, gm_apply_num (b, add, gm_apply_num (b, mul, z, second), first));
    return fill (api, b, v, gm_b_cast (b, y, (GmDtype) m.dtype));
  }
  GmVal u = open_uniform (b, m.ndim, m.sizes);
  if (shape == CAUCHY)
    y = gm_apply_num (
        b, add,
        gm_apply_num (
            b, mul, gm_apply1 (b, tan, gm_apply_num (b, mul, gm_apply_num (b, sub, u, 0.5), G_PI)),
            second),
        first);
  else if (shape == EXPONENTIAL)
    y = gm_apply_num (b, div, gm_apply1 (b, log, u), -first);
  else
    y = gm_apply1 (b, ceil, gm_apply_num (b, div, gm_apply1 (b, log, u), log1p (-first)));
  return fill (api, b, v, gm_b_cast (b, y, (GmDtype) m.dtype));
}

RUN (exponential_)
{
  return fill_shape (api, b, a, EXPONENTIAL);
}
RUN (geometric_)
{
  return fill_shape (api, b, a, GEOMETRIC);
}
RUN (cauchy_)
{
  return fill_shape (api, b, a, CAUCHY);
}
RUN (log_normal_)
{
  return fill_shape (api, b, a, LOG_NORMAL);
}

/* Returns random integers in [from, to), in dtype d. */
static GmVal
integers (GmBuilder *b, int ndim, const int64_t *sizes, int64_t from, int64_t to, GmDtype d)
{
  GmVal u = draw (b, GM_OP_uniform, GM_F64, ndim, sizes);
  GmVal i = gm_b_cast (
      b, gm_apply1 (b, floor, gm_apply_num (b, mul, u, (double) to - (double) from)), GM_I64);
  return gm_b_cast (
      b,
      gm_apply (b, GM_OP_add,
                (const GmArg[]){ gm_tensor_arg (i), { .kind = GM_ARG_INT, .i = from } }, 2),
      d);
}

RUN (random_)
{
  GmVal v = TENSOR (0);
  CHECK ();
  GmMeta m = *META (v);
  GmDtype d = (GmDtype) m.dtype;
  /* Fills with all numbers of the dtype that are not negative, for floats those that it counts
   * without gaps. */
  int bits = d == GM_BOOL   ? 1
             : d == GM_F64  ? 53
             : d == GM_F32  ? 24
             : d == GM_F16  ? 11
             : d == GM_BF16 ? 8
             : d == GM_U8   ? 8
                            : MIN ((int) gm_dtype_size (d) * 8 - 1, 53);
  int64_t from = IS_NONE (1) || IS_NONE (2) ? 0 : INT (1), to = IS_NONE (1) ? (INT64_C (1) << bits)
                                                                : IS_NONE (2) ? INT (1)
                                                                              : INT (2);
  CHECK ();
  if (to <= from)
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "random_(): expects 'from' to be less than 'to', but got from=" FMT
                               " >= to=" FMT,
                               from, to));
  return fill (api, b, v, integers (b, m.ndim, m.sizes, from, to, d));
}

RUN (randint_like)
{
  GmVal v = TENSOR (0);
  CHECK ();
  int64_t low = IS_NONE (2) ? 0 : INT (1), high = IS_NONE (2) ? INT (1) : INT (2);
  GmMeta m = *META (v);
  GmDtype d = gm_arg_dtype (api, b, a, 3, (GmDtype) m.dtype);
  CHECK ();
  if (high <= low)
    return gm_give (gm_b_fail (
        b, GM_ERROR_RUNTIME,
        "randint_like(): expects 'from' to be less than 'to', but got from=" FMT " >= to=" FMT, low,
        high));
  return gm_give (integers (b, m.ndim, m.sizes, low, high, d));
}

/* Draws row numbers with probabilities proportional to the weights in input [n] or [m, n]. With
 * replacement by the inverse of the distribution function; without, as the smallest of
 * exponentially distributed times divided by the weights (P. Efraimidis, P. Spirakis, "Weighted
 * random sampling with a reservoir", 2006). */
RUN (multinomial)
{
  GmVal v = TENSOR (0);
  int64_t k = INT (1);
  bool again = FLAG (2);
  CHECK ();
  GmMeta m = *META (v);
  int last = m.ndim - 1;
  int64_t n = m.ndim ? gm_size_number (m.sizes[last]) : 0;
  if (m.ndim < 1 || m.ndim > 2 || !gm_dtype_is_float (m.dtype))
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "multinomial(): takes weights [n] or [m, n] of a floating dtype"));
  if (k < 1 || n < 1 || (!again && k > n))
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "multinomial(): cannot sample n_sample (" FMT
                               ") > prob_dist.size(-1) (" FMT
                               ") samples without replacement, nor less than 1",
                               k, n));
  GmVal p = gm_b_cast (b, m.requires_grad ? gm_b (b, detach, v) : v, GM_F64);
  if (!gm_size_eq (gm_meta_numel (&m), 0)) {
    p = gm_require_between (b, p, p, 0, DBL_MAX, GM_CONDITION_WEIGHTS);
    int64_t line = last;
    GmVal mass = gm_b_reduce (b, GM_OP_amax, p, &line, 1, false);
    p = gm_require (b, p, gm_apply_num (b, gt, mass, 0), GM_CONDITION_WEIGHT_SUM);
  }
  if (!again) {
    GmVal time = gm_b (b, div, gm_b (b, neg, gm_b (b, log, open_uniform (b, m.ndim, m.sizes))), p);
    return gm_give (gm_cut (b, gm_argsort (b, time, last, false), last, 0, k));
  }
  GmAttrs scan = { .mask = BIT (DIM) | BIT (REVERSE), .dim = last };
  GmVal sums = gm_b_op (b, GM_OP_cumsum, &p, 1, &scan),
        all = gm_b_slice (b, sums, last, n - 1, n, 1);
  m.sizes[last] = k;
  GmVal u = gm_b (b, mul, gm_uniform (b, GM_F64, m.ndim, m.sizes), all);
  GmVal passed = gm_b_cast (
      b, gm_b (b, le, gm_unsqueeze (b, sums, last), gm_unsqueeze (b, u, m.ndim)), GM_I64);
  int64_t dim = m.ndim;
  GmVal row = gm_b_reduce (b, GM_OP_sum, passed, &dim, 1, false);
  return gm_give (gm_b (b, minimum, row, gm_b_scalar (b, gm_scalar_int (n - 1), GM_I64)));
}
