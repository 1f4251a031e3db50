/* SPDX-License-Identifier: Apache-2.0
 * gradients.c -- every op's backward, as a program over a builder.
 *
 * Pointwise gradients are the columns of plugin-api/gramme-ops.def, expanded here; the other
 * families name one of the functions below. A gradient is written once: eager autograd runs it, the
 * joint graph records it, and with recording on it is differentiated again. It may read values only
 * through a, b, c, y (x->in, x->out); shapes come from the metas, which are always there. saves.c
 * relies on that: it runs the same code on a builder that only records which values are read. A
 * function is called for one input at a time and only if that input's gradient is wanted.
 */
#include "core/ops/builder.h"

#include <string.h>

#define BIT(key) (1u << GM_ATTR_##key)

typedef GmVal (*Gradient) (const GmGradient *x, int i);

static GmVal
zeros (const GmGradient *x, const GmMeta *shape)
{
  return gm_b_full_beside (x->b, gm_scalar_int (0), x->out_meta->dtype, shape->ndim, shape->sizes,
                           x->grad);
}

static GmVal
number (const GmGradient *x, double d)
{
  return gm_b_scalar (x->b, gm_scalar_float (d), x->out_meta->dtype);
}

/* -- Pointwise: the table's columns ------------------------------------------------------------ */

#define N(op, ...) gm_b (x->b, op, __VA_ARGS__)
#define K(d) number (x, (d))
#define ZERO zeros (x, x->in_meta[i])
#define NONE NULL
#define POINTWISE(code, version, name, arity, types, value, da, db, dc)                            \
  static GmVal name##_slope (const GmGradient *x, int i, GmVal a, GmVal b, GmVal c, GmVal y,       \
                             GmVal g)                                                              \
  {                                                                                                \
    (void) a, (void) b, (void) c, (void) y, (void) g;                                              \
    switch (i) {                                                                                   \
    case 0:                                                                                        \
      return da;                                                                                   \
    case 1:                                                                                        \
      return db;                                                                                   \
    default:                                                                                       \
      return dc;                                                                                   \
    }                                                                                              \
  }
#include "plugin-api/gramme-ops.def"
#undef N
#undef K
#undef ZERO
#undef NONE

typedef GmVal (*Slope) (const GmGradient *x, int i, GmVal a, GmVal b, GmVal c, GmVal y, GmVal g);
static const Slope slopes[GM_N_OPS] = {
#define POINTWISE(code, version, name, ...) [code] = name##_slope,
#include "plugin-api/gramme-ops.def"
};

static GmVal
pointwise_gradient (const GmGradient *x, int i)
{
  GmVal v[3] = { NULL, NULL, NULL };
  for (int j = 0; j < x->n_in && j < 3; j++)
    v[j] = x->in[j];
  GmVal d = slopes[x->op](x, i, v[0], v[1], v[2], x->out, x->grad);
  return d ? gm_b_sum_to (x->b, d, x->in_meta[i]->ndim, x->in_meta[i]->sizes) : NULL;
}

/* -- Casts and reductions ---------------------------------------------------------------------- */

static GmVal
cast_gradient (const GmGradient *x, int i)
{
  return gm_b_cast (x->b, x->grad, x->in_meta[i]->dtype);
}

/* Returns the reduced dimensions of a reduction, as bits. No dimension in the attribute means all
 * of them. */
static uint32_t
reduced_dims (const GmGradient *x)
{
  int ndim = x->in_meta[0]->ndim;
  uint32_t mask = 0;
  for (int k = 0; k < x->attrs->n_list; k++) {
    int64_t d = x->attrs->list[k];
    mask |= 1u << (d < 0 ? d + ndim : d);
  }
  return x->attrs->n_list ? mask : (1u << ndim) - 1;
}

/* Returns v, which has the shape of the reduction's result, with the reduced dimensions inserted as
 * sizes of 1. */
static GmVal
keep_dims (const GmGradient *x, GmVal v)
{
  const GmMeta *m = x->in_meta[0];
  uint32_t reduced = reduced_dims (x);
  int64_t sizes[GM_MAX_DIMS];
  for (int d = 0; d < m->ndim; d++)
    sizes[d] = reduced >> d & 1 ? 1 : m->sizes[d];
  return gm_b_reshape (x->b, v, m->ndim, sizes);
}

static GmVal
sum_gradient (const GmGradient *x, int i)
{
  return gm_b_expand (x->b, keep_dims (x, x->grad), x->in_meta[i]->ndim, x->in_meta[i]->sizes);
}

/* Returns the gradient of amax and amin; tied elements share it evenly, as in torch. */
static GmVal
extremum_gradient (const GmGradient *x, int i)
{
  GmBuilder *b = x->b;
  GmVal hit = gm_b_cast (b, gm_b (b, eq, x->in[0], keep_dims (x, x->out)), x->out_meta->dtype);
  GmVal count = gm_b_reduce (b, GM_OP_sum, hit, x->attrs->list, x->attrs->n_list, true);
  return gm_b (b, div, gm_b (b, mul, hit, keep_dims (x, x->grad)), count);
}

static GmVal
join (GmBuilder *b, GmVal first, GmVal second, int dim)
{
  GmAttrs at = { .mask = BIT (DIM), .dim = dim };
  return gm_b_op (b, GM_OP_cat, (const GmVal[]){ first, second }, 2, &at);
}

/* Returns the product of all elements before (`after`: behind) each element along the last
 * dimension, by doubling: log2 (n) steps, no division, so zeros need no special case and it can be
 * differentiated again. `one`: ones of size 1 along dim. */
static GmVal
product_of_others (GmBuilder *b, GmVal v, int dim, int64_t n, GmVal one, bool after)
{
  v = after ? join (b, gm_b_slice (b, v, dim, 1, n, 1), one, dim)
            : join (b, one, gm_b_slice (b, v, dim, 0, n - 1, 1), dim);
  for (int64_t s = 1; s < n; s *= 2) {
    GmVal low = gm_b_slice (b, v, dim, 0, n - s, 1), high = gm_b_slice (b, v, dim, s, n, 1);
    GmVal both = gm_b (b, mul, low, high);
    v = after ? join (b, both, gm_b_slice (b, v, dim, n - s, n, 1), dim)
              : join (b, gm_b_slice (b, v, dim, 0, s, 1), both, dim);
  }
  return v;
}

/* True where v is NaN although all elements that it was computed from, along `dim`, are finite: an
 * overflow was multiplied by a zero. `zeros`: these elements times 0. */
static GmVal
is_invented (GmBuilder *b, GmVal v, GmVal zeros, int dim)
{
  GmVal none = gm_b_scalar (b, gm_scalar_int (0), (GmDtype) gm_b_meta (b, zeros)->dtype);
  GmVal finite =
      gm_b (b, eq, gm_b_reduce (b, GM_OP_sum, zeros, (const int64_t[]){ dim }, 1, true), none);
  return gm_b (b, logical_and, gm_b (b, ne, v, v), finite);
}

/* Returns `others`, the products of the other elements of a along `dim`, with each NaN that no
 * element of a has replaced: by 0 where one of the others is 0, else by the product of all nonzero
 * elements, divided by a. */
static GmVal
without_overflow (GmBuilder *b, GmVal others, GmVal a, int dim)
{
  GmDtype d = (GmDtype) gm_b_meta (b, a)->dtype;
  GmVal zero = gm_b_scalar (b, gm_scalar_int (0), d), one = gm_b_scalar (b, gm_scalar_int (1), d);
  GmVal none = gm_b (b, eq, a, zero), here = gm_b_cast (b, none, d),
        rest = gm_b (b, where, none, one, a);
  GmVal zeros = gm_b_reduce (b, GM_OP_sum, here, (const int64_t[]){ dim }, 1, true);
  GmVal all = gm_b_reduce (b, GM_OP_prod, rest, (const int64_t[]){ dim }, 1, true);
  GmVal repaired = gm_b (b, where, gm_b (b, gt, zeros, here), zero, gm_b (b, div, all, rest));
  return gm_b (b, where, is_invented (b, others, gm_b (b, mul, a, zero), dim), repaired, others);
}

static GmVal
prod_gradient (const GmGradient *x, int i)
{
  GmBuilder *b = x->b;
  const GmMeta *m = x->in_meta[0];
  uint32_t reduced = reduced_dims (x);
  int64_t order[GM_MAX_DIMS], back[GM_MAX_DIMS], split[GM_MAX_DIMS], flat[GM_MAX_DIMS + 1], n = 1;
  int kept = 0, at = 0;
  for (int d = 0; d < m->ndim; d++)
    if (!(reduced >> d & 1)) {
      flat[kept++] = m->sizes[d];
      order[at++] = d;
    }
  for (int d = 0; d < m->ndim; d++)
    if (reduced >> d & 1) {
      n *= gm_size_number (m->sizes[d]); /* the number of nodes depends on it */
      order[at++] = d;
    }
  if (n == 0)
    return zeros (x, m);
  if (n == 1)
    return gm_b_reshape (b, x->grad, m->ndim, m->sizes);
  for (int d = 0; d < m->ndim; d++) {
    back[order[d]] = d;
    split[d] = m->sizes[order[d]];
  }
  flat[kept] = 1;
  GmVal one = gm_b_full_beside (b, gm_scalar_int (1), m->dtype, kept + 1, flat, x->grad);
  GmVal g = gm_b_reshape (b, x->grad, kept + 1, flat);
  flat[kept] = n;
  GmVal a = gm_b_reshape (b, gm_b_permute (b, x->in[0], order), kept + 1, flat);
  GmVal others = gm_b (b, mul, product_of_others (b, a, kept, n, one, false),
                       product_of_others (b, a, kept, n, one, true));
  if (n > 2) /* a product of a single element does not overflow */
    others = without_overflow (b, others, a, kept);
  GmVal d = gm_b (b, mul, others, g);
  return gm_b_permute (b, gm_b_view (b, d, m->ndim, split), back);
}

static GmVal
cumsum_gradient (const GmGradient *x, int i)
{
  GmAttrs at = *x->attrs;
  at.mask |= BIT (REVERSE);
  at.reverse = !x->attrs->reverse;
  return gm_b_op (x->b, GM_OP_cumsum, &x->grad, 1, &at);
}

/* Returns the elements of v along dim from `first` up to, not including, `end`. */
static GmVal
part (GmBuilder *b, GmVal v, int dim, int64_t first, int64_t end)
{
  return gm_b_slice (b, v, dim, first, end, 1);
}

/* Returns the gradient of cumprod. Result j is the product of x[0 .. j], so the slope by x[i] is
 * the product of the elements before i times r[i] = g[i] + x[i + 1] r[i + 1]: without a division,
 * so that zeros need no special case. The recurrence is computed by doubling: r[i] = sum[i] +
 * factor[i] r[i + step] with steps of 1, 2, 4 ... */
static GmVal
cumprod_gradient (const GmGradient *x, int i)
{
  GmBuilder *b = x->b;
  const GmMeta *m = x->in_meta[i];
  int dim = (int) (x->attrs->dim < 0 ? x->attrs->dim + m->ndim : x->attrs->dim);
  if (m->ndim == 0)
    return x->grad;
  int64_t n = m->sizes[dim], less = gm_size_sub (n, 1), line[GM_MAX_DIMS];
  if (!gm_size_lt (1, n))
    return x->grad;
  memcpy (line, m->sizes, sizeof line);
  line[dim] = 1;
  bool back = x->attrs->reverse;
  GmVal one = gm_b_full_beside (b, gm_scalar_int (1), m->dtype, m->ndim, line, x->grad);
  GmVal a = x->in[0], sum = x->grad;
  GmVal before = back ? join (b, part (b, x->out, dim, 1, n), one, dim)
                      : join (b, one, part (b, x->out, dim, 0, less), dim);
  GmVal factor = back ? join (b, one, part (b, a, dim, 0, less), dim)
                      : join (b, part (b, a, dim, 1, n), one, dim);
  for (int64_t step = 1; !gm_b_failed (b) && gm_size_lt (step, n); step *= 2) {
    int64_t rest = gm_size_sub (n, step), at = back ? step : 0, from = back ? 0 : step,
            still = back ? 0 : rest;
    GmVal f = part (b, factor, dim, at, gm_size_add (at, rest));
    GmVal s = gm_b (b, add, part (b, sum, dim, at, gm_size_add (at, rest)),
                    gm_b (b, mul, f, part (b, sum, dim, from, gm_size_add (from, rest))));
    GmVal both = gm_b (b, mul, f, part (b, factor, dim, from, gm_size_add (from, rest)));
    GmVal old_sum = part (b, sum, dim, still, gm_size_add (still, step)),
          old_factor = part (b, factor, dim, still, gm_size_add (still, step));
    sum = back ? join (b, old_sum, s, dim) : join (b, s, old_sum, dim);
    factor = back ? join (b, old_factor, both, dim) : join (b, both, old_factor, dim);
  }
  /* Behind a zero there is no slope, however large the rest of the products is. */
  GmVal zero = gm_b_scalar (b, gm_scalar_int (0), m->dtype), slope = gm_b (b, mul, before, sum);
  GmVal invented = is_invented (
      b, slope, gm_b (b, mul, gm_b (b, add, gm_b (b, mul, a, zero), x->grad), zero), dim);
  return gm_b (b, where, gm_b (b, logical_and, invented, gm_b (b, eq, before, zero)), zero, slope);
}

/* -- Movement ---------------------------------------------------------------------------------- */

static GmVal
permute_gradient (const GmGradient *x, int i)
{
  int64_t back[GM_MAX_DIMS];
  int ndim = x->in_meta[0]->ndim;
  for (int d = 0; d < ndim; d++) {
    int64_t from = x->attrs->list[d];
    back[from < 0 ? from + ndim : from] = d;
  }
  return gm_b_permute (x->b, x->grad, back);
}

static GmVal
expand_gradient (const GmGradient *x, int i)
{
  return gm_b_sum_to (x->b, x->grad, x->in_meta[0]->ndim, x->in_meta[0]->sizes);
}

static GmVal
view_gradient (const GmGradient *x, int i)
{
  return gm_b_reshape (x->b, x->grad, x->in_meta[0]->ndim, x->in_meta[0]->sizes);
}

static GmVal
scatter_slice (const GmGradient *x, GmVal into, GmVal src)
{
  return gm_b_op (x->b, GM_OP_slice_scatter, (const GmVal[]){ into, src }, 2, x->attrs);
}

static GmVal
slice_gradient (const GmGradient *x, int i)
{
  return scatter_slice (x, zeros (x, x->in_meta[0]), x->grad);
}

/* Returns the gradient of a diagonal. The embedding permutes dimensions; the gradient of a view is
 * row-major, as zeros are. */
static GmVal
diagonal_gradient (const GmGradient *x, int i)
{
  return gm_b_contiguous (x->b,
                          gm_b_embed (x->b, x->op, x->attrs, zeros (x, x->in_meta[0]), x->grad));
}

static GmVal
unfold_gradient (const GmGradient *x, int i)
{
  GmVal nothing = zeros (x, x->in_meta[0]);
  return gm_windows_overlap (x->attrs) ? gm_b_add_windows (x->b, x->attrs, nothing, x->grad)
                                       : gm_b_embed (x->b, x->op, x->attrs, nothing, x->grad);
}

/* -- Products ---------------------------------------------------------------------------------- */

static bool
is_transposed (const GmMeta *m)
{
  int64_t row = m->strides[m->ndim - 2], col = m->strides[m->ndim - 1];
  return row == 1 && (gm_size_is_symbolic (col) || col > 1);
}

/* Returns the gradient of a matrix product. The product is formed in the input's own layout: the
 * gradient of a transposed weight, transposed back, is row-major as the weight is, and can be kept
 * without a copy. The bits of a product depend on the layout of its operands, and a compiled
 * function gets its gradients row-major: so the incoming gradient is made row-major here, too. */
static GmVal
matmul_gradient (const GmGradient *x, int i)
{
  GmBuilder *b = x->b;
  const GmMeta *m = x->in_meta[i];
  GmVal d, other = x->in[!i], grad = gm_b_contiguous (b, x->grad);
  if (is_transposed (m)) {
    GmVal g = gm_b_transpose (b, grad, -2, -1);
    d = gm_b_transpose (b, i == 0 ? gm_b (b, matmul, other, g) : gm_b (b, matmul, g, other), -2,
                        -1);
  } else {
    other = gm_b_transpose (b, other, -2, -1);
    d = i == 0 ? gm_b (b, matmul, grad, other) : gm_b (b, matmul, other, grad);
  }
  return gm_b_sum_to (b, d, m->ndim, m->sizes);
}

/* -- Windows ----------------------------------------------------------------------------------- */

static GmVal
windowed (const GmGradient *x, GmOp op, GmVal first, GmVal second, int i)
{
  const GmMeta *m = x->in_meta[i];
  GmAttrs at = { .mask = BIT (SIZES) | BIT (WINDOW), .n_list = m->ndim };
  memcpy (at.list, m->sizes, sizeof *m->sizes * m->ndim);
  memcpy (at.window, x->attrs->window, sizeof at.window);
  return gm_b_op (x->b, op, (const GmVal[]){ first, second }, 2, &at);
}

static GmVal
convolve_gradient (const GmGradient *x, int i)
{
  return i == 0 ? windowed (x, GM_OP_convolve_input, x->grad, x->in[1], i)
                : windowed (x, GM_OP_convolve_weight, x->in[0], x->grad, i);
}

static GmVal
convolve_input_gradient (const GmGradient *x, int i)
{
  return i == 0 ? windowed (x, GM_OP_convolve, x->grad, x->in[1], i)
                : windowed (x, GM_OP_convolve_weight, x->grad, x->in[0], i);
}

static GmVal
convolve_weight_gradient (const GmGradient *x, int i)
{
  return i == 0 ? windowed (x, GM_OP_convolve_input, x->in[1], x->grad, i)
                : windowed (x, GM_OP_convolve, x->in[0], x->grad, i);
}

/* Returns the gradient of window_pick. The positions of the extrema do not change with small steps
 * of x: no gradient flows to them. */
static GmVal
window_pick_gradient (const GmGradient *x, int i)
{
  return i == 0 ? NULL : windowed (x, GM_OP_window_spread, x->in[0], x->grad, i);
}

static GmVal
window_spread_gradient (const GmGradient *x, int i)
{
  return i == 0 ? NULL : windowed (x, GM_OP_window_pick, x->in[0], x->grad, i);
}

/* -- Index ------------------------------------------------------------------------------------- */

static GmVal
indexed (const GmGradient *x, GmOp op, GmVal target, GmVal index, GmVal src)
{
  GmAttrs at = { .mask = BIT (DIM), .dim = x->attrs->dim };
  return gm_b_op (x->b, op, (const GmVal[]){ target, index, src }, src ? 3 : 2, &at);
}

static GmVal
gather_gradient (const GmGradient *x, int i)
{
  return i == 0 ? indexed (x, GM_OP_scatter_add, zeros (x, x->in_meta[0]), x->in[1], x->grad)
                : NULL;
}

/* Returns the gradient v padded with zeros to `want`: an index may be smaller than src, and does
 * not reach all of it. */
static GmVal
pad_to (const GmGradient *x, GmVal v, const GmMeta *want)
{
  GmMeta m = *want;
  for (int d = 0; d < want->ndim; d++)
    m.sizes[d] = x->in_meta[1]->sizes[d];
  for (int d = 0; d < want->ndim; d++) {
    int64_t size = m.sizes[d];
    if (gm_size_eq (size, want->sizes[d]))
      continue;
    m.sizes[d] = want->sizes[d];
    GmAttrs at = {
      .mask = BIT (DIM) | BIT (START) | BIT (STOP) | BIT (STEP), .dim = d, .stop = size, .step = 1
    };
    v = gm_b_op (x->b, GM_OP_slice_scatter, (const GmVal[]){ zeros (x, &m), v }, 2, &at);
  }
  return v;
}

static GmVal
scatter_add_gradient (const GmGradient *x, int i)
{
  if (i == 0)
    return x->grad;
  return i == 2 ? pad_to (x, indexed (x, GM_OP_gather, x->grad, x->in[1], NULL), x->in_meta[2])
                : NULL;
}

static GmVal
index_select_gradient (const GmGradient *x, int i)
{
  return i == 0 ? indexed (x, GM_OP_index_add, zeros (x, x->in_meta[0]), x->in[1], x->grad) : NULL;
}

static GmVal
index_add_gradient (const GmGradient *x, int i)
{
  if (i == 0)
    return x->grad;
  return i == 2 ? indexed (x, GM_OP_index_select, x->grad, x->in[1], NULL) : NULL;
}

static GmVal
slice_scatter_gradient (const GmGradient *x, int i)
{
  if (i == 0)
    return scatter_slice (x, x->grad, zeros (x, x->in_meta[1]));
  return gm_b_slice (x->b, x->grad, (int) x->attrs->dim, x->attrs->start, x->attrs->stop,
                     x->attrs->step);
}

static GmVal
cat_gradient (const GmGradient *x, int i)
{
  int ndim = x->in_meta[i]->ndim;
  int dim = (int) (x->attrs->dim < 0 ? x->attrs->dim + ndim : x->attrs->dim);
  int64_t start = 0;
  for (int j = 0; j < i; j++)
    start = gm_size_add (start, x->in_meta[j]->sizes[dim]);
  return gm_b_slice (x->b, x->grad, dim, start, gm_size_add (start, x->in_meta[i]->sizes[dim]), 1);
}

static GmVal
require_gradient (const GmGradient *x, int i)
{
  return i == 0 ? x->grad : NULL;
}

/* -- Dispatch ---------------------------------------------------------------------------------- */

#define NONE_gradient NULL
static const Gradient gradients[GM_N_OPS] = {
#define POINTWISE(code, ...) [code] = pointwise_gradient,
#define CAST(code, ...) [code] = cast_gradient,
#define REDUCE(code, version, name, types, init, combine, grad) [code] = grad##_gradient,
#define MOVEMENT(code, version, name, grad) [code] = grad##_gradient,
#define CONTRACT(code, version, name, grad) [code] = grad##_gradient,
#define CONVOLVE(code, version, name, grad) [code] = grad##_gradient,
#define INDEX(code, version, name, arity, grad) [code] = grad##_gradient,
#define SCAN(code, version, name, grad) [code] = grad##_gradient,
#include "plugin-api/gramme-ops.def"
};

void
gm_op_gradient (GmGradient *x)
{
  Gradient f = gradients[x->op];
  GmSizes *sizes = gm_b_sizes (x->b), *was = sizes ? gm_sizes_enter (sizes) : NULL;
  for (int i = 0; i < x->n_in; i++)
    x->result[i] = f && x->need[i] && !x->b->error ? f (x, i) : NULL;
  if (sizes) {
    if (!x->b->error)
      gm_sizes_check (sizes, &x->b->error);
    gm_sizes_enter (was);
  }
}
