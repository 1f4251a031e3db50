/* SPDX-License-Identifier: Apache-2.0
 * api_sample.c -- images at other sizes, windows as columns, transposed convolution.
 *
 * An image is resampled one dimension after the other: each output element has a few taps, each an
 * index into the input and a weight, which nodes of the graph compute from the sizes.
 */
#include "core/api/api_private.h"

#include <math.h>

#define FMT "%" G_GINT64_FORMAT
#define MAX_SPACE 3

/* -- interpolate ------------------------------------------------------------------------------- */

typedef enum { NEAREST, NEAREST_EXACT, LINEAR, CUBIC, AREA } Mode;

typedef struct {
  int64_t in, out; /* sizes */
  GmVal step;      /* step in the input for one place of the output, f64 */
  bool corners;
} Line;

/* Returns `size`, which may be an expression, as a 0-d tensor of `dtype`. */
static GmVal
size_scalar (GmBuilder *b, int64_t size, GmDtype dtype)
{
  return gm_b_scalar (b, gm_scalar_int (size), dtype);
}

/* Returns the position in the input of each output place, in f64 [out]. */
static GmVal
sources (GmBuilder *b, const Line *l, bool cubic)
{
  GmVal i = gm_b_arange (b, 0, 1, l->out, GM_F64);
  if (l->corners)
    return gm_b (b, mul, i, l->step);
  GmVal x = gm_apply_num (b, sub, gm_b (b, mul, gm_apply_num (b, add, i, 0.5), l->step), 0.5);
  return cubic ? x : gm_apply_num (b, maximum, x, 0);
}

/* Returns the positions `at`, in f64, clamped to the input, as an int64 index. */
static GmVal
limited (GmBuilder *b, GmVal at, const Line *l)
{
  return gm_b_cast (b,
                    gm_b (b, minimum, gm_apply_num (b, maximum, at, 0),
                          size_scalar (b, gm_size_sub (l->in, 1), GM_F64)),
                    GM_I64);
}

/* Returns the elements of x at the indices `at` along dim, each times its weight. */
static GmVal
tap (GmBuilder *b, GmVal x, int dim, GmVal at, GmVal weight)
{
  GmVal v = gm_index_select (b, x, dim, at);
  if (gm_b_failed (b))
    return NULL;
  int64_t sizes[GM_MAX_DIMS];
  for (int d = 0; d < META (v)->ndim; d++)
    sizes[d] = d == dim ? META (v)->sizes[d] : 1;
  GmVal w = gm_b_cast (b, gm_b_view (b, weight, META (v)->ndim, sizes), (GmDtype) META (v)->dtype);
  return gm_b (b, mul, v, w);
}

static GmVal
linear_dim (GmBuilder *b, GmVal x, int dim, const Line *l)
{
  GmVal at = sources (b, l, false), low = gm_b (b, floor, at), w = gm_b (b, sub, at, low);
  GmVal first = tap (b, x, dim, limited (b, low, l), gm_num_apply (b, sub, 1, w));
  return gm_b (b, add, first, tap (b, x, dim, limited (b, gm_apply_num (b, add, low, 1), l), w));
}

/* Returns the weight of a tap at a distance t <= 1 by R. Keys, "Cubic convolution interpolation for
 * digital image processing" (1981), with a = -0.75. */
static GmVal
near_weight (GmBuilder *b, GmVal t)
{
  const double a = -0.75;
  GmVal inner = gm_apply_num (b, sub, gm_apply_num (b, mul, t, a + 2), a + 3);
  return gm_apply_num (b, add, gm_b (b, mul, gm_b (b, mul, inner, t), t), 1);
}

static GmVal
far_weight (GmBuilder *b, GmVal t)
{
  const double a = -0.75;
  GmVal inner = gm_apply_num (b, sub, gm_apply_num (b, mul, t, a), 5 * a);
  inner = gm_apply_num (b, add, gm_b (b, mul, inner, t), 8 * a);
  return gm_apply_num (b, sub, gm_b (b, mul, inner, t), 4 * a);
}

static GmVal
cubic_dim (GmBuilder *b, GmVal x, int dim, const Line *l)
{
  GmVal at = sources (b, l, true), low = gm_b (b, floor, at), t = gm_b (b, sub, at, low),
        sum = NULL;
  for (int k = -1; k <= 2 && !gm_b_failed (b); k++) {
    GmVal away = k <= 0 ? gm_apply_num (b, add, t, -k) : gm_num_apply (b, sub, k, t);
    GmVal w = k == -1 || k == 2 ? far_weight (b, away) : near_weight (b, away);
    GmVal part = tap (b, x, dim, limited (b, gm_apply_num (b, add, low, k), l), w);
    sum = sum ? gm_b (b, add, sum, part) : part;
  }
  return sum;
}

/* Returns x resampled along dim to the nearest element (`exact`: to the one under the output's
 * centre). `whole`: the step is in / out exactly, so that the index is computed in integers. */
static GmVal
nearest_dim (GmBuilder *b, GmVal x, int dim, const Line *l, bool whole, bool exact)
{
  GmVal at;
  if (whole && !exact) {
    GmVal i = gm_b (b, mul, gm_b_arange (b, 0, 1, l->out, GM_I64), size_scalar (b, l->in, GM_I64));
    at = gm_b (b, floor_divide, i, size_scalar (b, l->out, GM_I64));
  } else {
    GmVal i = gm_b_arange (b, 0, 1, l->out, GM_F64);
    at = limited (
        b, gm_b (b, floor, gm_b (b, mul, exact ? gm_apply_num (b, add, i, 0.5) : i, l->step)), l);
  }
  return gm_index_select (b, x, dim, at);
}

static Mode
mode_of (GmBuilder *b, const char *text, int space)
{
  static const struct {
    const char *name;
    int space;
    Mode mode;
  } rows[] = { { "nearest", 0, NEAREST },  { "nearest-exact", 0, NEAREST_EXACT },
               { "linear", 1, LINEAR },    { "bilinear", 2, LINEAR },
               { "trilinear", 3, LINEAR }, { "bicubic", 2, CUBIC },
               { "area", 0, AREA } };
  for (size_t i = 0; i < G_N_ELEMENTS (rows); i++)
    if (strcmp (rows[i].name, text) == 0) {
      if (rows[i].space && rows[i].space != space)
        gm_b_fail (b, GM_ERROR_RUNTIME,
                   "interpolate(): mode '%s' is for inputs of %d dimensions, but this one has %d",
                   text, rows[i].space + 2, space + 2);
      return rows[i].mode;
    }
  gm_b_fail (b, GM_ERROR_RUNTIME,
             "interpolate(): mode must be nearest, nearest-exact, linear, bilinear, trilinear, "
             "bicubic or area, but is '%s'",
             text);
  return NEAREST;
}

/* Finds for each of `space` dimensions its number, which may be a float: out[d] borrows `a`, or its
 * item if it is a list. Whole numbers may be expressions. */
static void
factors (GmBuilder *b, const GmArg *a, const GmArg *out[MAX_SPACE], int space)
{
  int n = a->kind == GM_ARG_LIST ? a->n : 1;
  for (int d = 0; d < space; d++) {
    const GmArg *x = a->kind != GM_ARG_LIST ? a : n == space ? &a->items[d] : &a->items[0];
    if ((n != 1 && n != space) || !gm_arg_is_number (x)) {
      gm_b_fail (
          b, GM_ERROR_VALUE,
          "interpolate(): size and scale_factor are a number, or one for each of %d dimensions",
          space);
      return;
    }
    out[d] = x;
  }
}

/* Returns floor (in * factor); a whole factor keeps an expression an expression. */
static int64_t
scaled_size (int64_t in, const GmArg *factor)
{
  if (factor->kind != GM_ARG_FLOAT)
    return gm_size_mul (in, factor->i);
  if (factor->d == floor (factor->d) && fabs (factor->d) < 1e9)
    return gm_size_mul (in, (int64_t) factor->d);
  return (int64_t) floor ((double) gm_size_number (in) * factor->d);
}

/* Returns the step in the input for one element of the output, from the sizes, or from the factor
 * if it is given. */
static GmVal
step_of (GmBuilder *b, const Line *l, const GmArg *factor)
{
  if (l->corners && !gm_size_lt (1, l->out))
    return gm_b_scalar (b, gm_scalar_int (0), GM_F64);
  if (factor && !l->corners)
    return gm_b_scalar (
        b,
        gm_scalar_float (
            1 / (factor->kind == GM_ARG_FLOAT ? factor->d : (double) gm_size_number (factor->i))),
        GM_F64);
  int64_t less = l->corners ? 1 : 0;
  return gm_b (b, div, size_scalar (b, gm_size_sub (l->in, less), GM_F64),
               size_scalar (b, gm_size_sub (l->out, less), GM_F64));
}

RUN (interpolate)
{
  GmVal x = TENSOR (0);
  CHECK ();
  GmMeta m = *META (x);
  int space = m.ndim - 2;
  if (space < 1 || space > MAX_SPACE)
    return gm_give (gm_b_fail (
        b, GM_ERROR_RUNTIME,
        "interpolate(): takes inputs of 3, 4 or 5 dimensions, but this one has %d", m.ndim));
  Mode mode = mode_of (b, STR (3), space);
  bool corners = !IS_NONE (4) && FLAG (4), again = !IS_NONE (5) && FLAG (5), antialias = FLAG (6);
  bool by_size = !IS_NONE (1);
  const GmArg *given[MAX_SPACE];
  CHECK ();
  if (by_size == !IS_NONE (2))
    return gm_give (
        gm_b_fail (b, GM_ERROR_VALUE,
                   by_size ? "interpolate(): only one of size or scale_factor should be defined"
                           : "interpolate(): either size or scale_factor should be defined"));
  if (!IS_NONE (4) && mode != LINEAR && mode != CUBIC)
    return gm_give (gm_b_fail (b, GM_ERROR_VALUE,
                               "interpolate(): align_corners option can only be set with the "
                               "interpolating modes: linear | bilinear | bicubic | trilinear"));
  if (antialias)
    return gm_give (gm_b_fail (b, GM_ERROR_UNSUPPORTED,
                               "interpolate(): antialias is not supported; use avg_pool before"));
  if (!gm_dtype_is_float (m.dtype))
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME, "interpolate(): takes floating dtypes, not %s",
                               gm_dtypes[m.dtype].torch_name));
  factors (b, &a[by_size ? 1 : 2], given, space);
  CHECK ();
  Line lines[MAX_SPACE];
  int64_t out[MAX_SPACE];
  for (int d = 0; d < space; d++) {
    Line *l = &lines[d];
    l->in = m.sizes[2 + d];
    l->out = out[d] = !by_size                         ? scaled_size (l->in, given[d])
                      : given[d]->kind == GM_ARG_FLOAT ? (int64_t) given[d]->d
                                                       : given[d]->i;
    l->corners = corners;
    if (gm_size_lt (l->in, 1) || gm_size_lt (l->out, 1))
      return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                                 "interpolate(): input and output sizes should be greater than 0, "
                                 "but dimension %d goes from " FMT " to " FMT,
                                 d + 2, gm_size_number (l->in), gm_size_number (l->out)));
    if (mode != AREA)
      l->step = step_of (b, l, by_size || again ? NULL : given[d]);
  }
  GmDtype own = (GmDtype) m.dtype;
  if (mode == AREA) {
    const GmApi *pool = gm_api_find (space == 1   ? "adaptive_avg_pool1d"
                                     : space == 2 ? "adaptive_avg_pool2d"
                                                  : "adaptive_avg_pool3d");
    GmArg args[GM_API_MAX_ARGS + 1] = { a[0], { .kind = GM_ARG_LIST, .n = (uint16_t) space } },
                                 sizes[MAX_SPACE];
    for (int d = 0; d < space; d++)
      sizes[d] = (GmArg){ .kind = GM_ARG_INT, .i = out[d] };
    args[1].items = sizes;
    if (!pool)
      return gm_give (gm_b_fail (b, GM_ERROR_UNSUPPORTED,
                                 "interpolate(): mode 'area' takes inputs of 3 or 4 dimensions"));
    return pool->run (pool, b, args);
  }
  GmVal v = mode == NEAREST || mode == NEAREST_EXACT ? x : gm_widen (b, x);
  for (int d = 0; d < space && !gm_b_failed (b); d++) {
    const Line *l = &lines[d];
    /* A factor that leaves a size as it is moves no element. */
    if (!by_size && !again && (mode == NEAREST || mode == LINEAR) && gm_size_eq (l->in, l->out))
      continue;
    if (mode == NEAREST || mode == NEAREST_EXACT)
      v = nearest_dim (b, v, 2 + d, l, by_size || again, mode == NEAREST_EXACT);
    else if (mode == CUBIC)
      v = cubic_dim (b, v, 2 + d, l);
    else
      v = linear_dim (b, v, 2 + d, l);
  }
  CHECK ();
  if (v == x)
    v = gm_b (b, copy, x);
  return gm_give (gm_b_contiguous (b, gm_narrow (b, v, own)));
}

/* -- Windows as columns ------------------------------------------------------------------------ */

typedef struct {
  int64_t size[2], kernel[2], dilation[2], pad[2], stride[2], n[2];
} Columns;

/* Reads kernel_size, dilation, padding, stride from argument i on. */
static void
read_columns (const GmApi *api, GmBuilder *b, const GmArg *a, int i, Columns *c)
{
  gm_arg_numbers (api, b, a, i, 2, c->kernel, 1);
  gm_arg_numbers (api, b, a, i + 1, 2, c->dilation, 1);
  gm_arg_numbers (api, b, a, i + 2, 2, c->pad, 0);
  gm_arg_numbers (api, b, a, i + 3, 2, c->stride, 1);
  for (int d = 0; d < 2 && !gm_b_failed (b); d++) {
    int64_t room = c->size[d] + 2 * c->pad[d] - (c->dilation[d] * (c->kernel[d] - 1) + 1);
    c->n[d] = room < 0 ? 0 : room / c->stride[d] + 1;
    if (room < 0)
      gm_b_fail (b, GM_ERROR_RUNTIME,
                 "%s(): a kernel of " FMT " does not fit a padded size of " FMT, api->name,
                 c->kernel[d], c->size[d] + 2 * c->pad[d]);
  }
}

/* Returns the position in a padded line, of dimension d, that element i of the kernel meets in
 * window j: [kernel, 1] + [1, windows]. */
static GmVal
meetings (GmBuilder *b, const Columns *c, int d)
{
  GmVal i = gm_unsqueeze (b, gm_b_arange (b, 0, c->dilation[d], c->kernel[d], GM_I64), 1);
  return gm_b (b, add, i, gm_b_arange (b, 0, c->stride[d], c->n[d], GM_I64));
}

/* Returns the flat positions in the padded image that all kernel elements meet, [kh * kw * rows *
 * cols]. */
static GmVal
places (GmBuilder *b, const Columns *c)
{
  int64_t width = c->size[1] + 2 * c->pad[1], n = c->kernel[0] * c->kernel[1] * c->n[0] * c->n[1];
  GmVal row = gm_b (b, mul, meetings (b, c, 0), gm_b_scalar (b, gm_scalar_int (width), GM_I64));
  row = gm_b_view (b, row, 4, (const int64_t[]){ c->kernel[0], 1, c->n[0], 1 });
  GmVal col =
      gm_b_view (b, meetings (b, c, 1), 4, (const int64_t[]){ 1, c->kernel[1], 1, c->n[1] });
  return gm_b_reshape (b, gm_b (b, add, row, col), 1, &n);
}

/* True if the elements of x are floats or bools, the dtypes of torch's columns; else sets an error.
 */
static bool
has_no_integers (GmBuilder *b, GmVal x, const char *name)
{
  if (!gm_b_failed (b) && gm_dtypes[META (x)->dtype].category == GM_CATEGORY_INT)
    gm_b_fail (b, GM_ERROR_UNSUPPORTED, "%s(): takes floating dtypes, not %s; cast the input first",
               name, gm_dtypes[META (x)->dtype].torch_name);
  return !gm_b_failed (b);
}

RUN (im2col)
{
  GmVal x = TENSOR (0);
  if (!has_no_integers (b, x, "unfold"))
    return gm_give (NULL);
  bool batched = META (x)->ndim == 4;
  if (!batched && META (x)->ndim != 3)
    return gm_give (gm_b_fail (
        b, GM_ERROR_RUNTIME,
        "unfold(): expected an input [n, c, h, w] or [c, h, w], but it has %d dimensions",
        META (x)->ndim));
  x = batched ? x : gm_unsqueeze (b, x, 0);
  CHECK ();
  GmMeta m = *META (x);
  Columns c = { .size = { gm_size_number (m.sizes[2]), gm_size_number (m.sizes[3]) } };
  read_columns (api, b, a, 1, &c);
  CHECK ();
  x = gm_pad_zeros (b, gm_pad_zeros (b, x, 2, c.pad[0], c.pad[0]), 3, c.pad[1], c.pad[1]);
  int64_t all = (c.size[0] + 2 * c.pad[0]) * (c.size[1] + 2 * c.pad[1]), windows = c.n[0] * c.n[1];
  GmVal flat = gm_b_reshape (b, x, 3, (const int64_t[]){ m.sizes[0], m.sizes[1], all });
  GmVal out =
      gm_b_reshape (b, gm_index_select (b, flat, 2, places (b, &c)), 3,
                    (const int64_t[]){
                        m.sizes[0], gm_size_mul (m.sizes[1], c.kernel[0] * c.kernel[1]), windows });
  return gm_give (batched ? out : gm_squeeze (b, out, 0));
}

/* Sums the windows' values of each element. */
RUN (col2im)
{
  GmVal x = TENSOR (0);
  if (!has_no_integers (b, x, "fold"))
    return gm_give (NULL);
  bool batched = META (x)->ndim == 3;
  if (!batched && META (x)->ndim != 2)
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "fold(): expected an input [n, c * kernel, windows] or [c * kernel, "
                               "windows], but it has %d dimensions",
                               META (x)->ndim));
  x = batched ? x : gm_unsqueeze (b, x, 0);
  Columns c;
  gm_arg_numbers (api, b, a, 1, 2, c.size, 1);
  CHECK ();
  read_columns (api, b, a, 2, &c);
  CHECK ();
  GmMeta m = *META (x);
  int64_t area = c.kernel[0] * c.kernel[1], windows = c.n[0] * c.n[1],
          depth = gm_size_number (m.sizes[1]);
  if (depth % area || gm_size_number (m.sizes[2]) != windows)
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "fold(): an input of " FMT " rows and " FMT
                               " windows does not fit: the kernel has " FMT
                               " elements, and there are " FMT " windows",
                               depth, gm_size_number (m.sizes[2]), area, windows));
  int64_t h = c.size[0] + 2 * c.pad[0], w = c.size[1] + 2 * c.pad[1], channels = depth / area;
  GmVal src = gm_b_reshape (b, x, 3, (const int64_t[]){ m.sizes[0], channels, area * windows });
  GmVal none = gm_b_full (b, gm_scalar_int (0), (GmDtype) m.dtype, 3,
                          (const int64_t[]){ m.sizes[0], channels, h * w });
  GmAttrs at = { .mask = BIT (DIM), .dim = 2 };
  GmVal sum = gm_b_op (b, GM_OP_index_add, (const GmVal[]){ none, places (b, &c), src }, 3, &at);
  GmVal out = gm_b_reshape (b, sum, 4, (const int64_t[]){ m.sizes[0], channels, h, w });
  if (c.pad[0])
    out = gm_b_slice (b, out, 2, c.pad[0], h - c.pad[0], 1);
  if (c.pad[1])
    out = gm_b_slice (b, out, 3, c.pad[1], w - c.pad[1], 1);
  out = gm_b_contiguous (b, out);
  return gm_give (batched ? out : gm_squeeze (b, out, 0));
}

/* -- Transposed convolution -------------------------------------------------------------------- */

/* Returns x with step - 1 zeros between its elements along dim. */
static GmVal
spread (GmBuilder *b, GmVal x, int dim, int64_t step)
{
  if (gm_b_failed (b) || step == 1 || gm_size_lt (META (x)->sizes[dim], 2))
    return x;
  GmMeta m = *META (x);
  m.sizes[dim] = gm_size_add (gm_size_mul (gm_size_sub (m.sizes[dim], 1), step), 1);
  GmVal none = gm_b_full (b, gm_scalar_int (0), (GmDtype) m.dtype, m.ndim, m.sizes);
  GmAttrs at = { .mask = BIT (DIM) | BIT (START) | BIT (STOP) | BIT (STEP),
                 .dim = dim,
                 .start = 0,
                 .stop = m.sizes[dim],
                 .step = step };
  return gm_b_op (b, GM_OP_slice_scatter, (const GmVal[]){ none, x }, 2, &at);
}

/* Runs a transposed convolution, the gradient of a convolution with respect to its input, as a
 * convolution: zeros between the elements, and the kernel reversed. */
static GmArg
transposed (const GmApi *api, GmBuilder *b, GmArg *a, int space)
{
  GmVal x = TENSOR (0), w = TENSOR (1);
  int64_t stride[MAX_SPACE], pad[MAX_SPACE], extra[MAX_SPACE], dilation[MAX_SPACE],
      groups = INT (6);
  gm_arg_numbers (api, b, a, 3, space, stride, 1);
  gm_arg_numbers (api, b, a, 4, space, pad, 0);
  gm_arg_numbers (api, b, a, 5, space, extra, 0);
  gm_arg_numbers (api, b, a, 7, space, dilation, 1);
  CHECK ();
  bool batched = META (x)->ndim == space + 2;
  GmMeta mw = *META (w);
  if ((!batched && META (x)->ndim != space + 1) || mw.ndim != space + 2 || groups < 1
      || !gm_size_eq (META (x)->sizes[batched ? 1 : 0], mw.sizes[0])
      || gm_size_number (mw.sizes[0]) % groups) {
    g_autofree char *one = gm_meta_text (META (x)), *two = gm_meta_text (&mw);
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "%s(): expected an input [n, c, sizes ...] and a weight [c, o / "
                               "groups, kernel ...], but got %s and %s in " FMT " groups",
                               api->name, one, two, groups));
  }
  x = batched ? x : gm_unsqueeze (b, x, 0);
  for (int d = 0; d < space && !gm_b_failed (b); d++) {
    int64_t reach = dilation[d] * (gm_size_number (mw.sizes[2 + d]) - 1);
    if (extra[d] >= stride[d] && extra[d] >= dilation[d]) {
      gm_b_fail (b, GM_ERROR_RUNTIME, "%s(): output_padding is smaller than stride or dilation",
                 api->name);
      return gm_give (NULL);
    }
    x = gm_pad_zeros (b, spread (b, x, 2 + d, stride[d]), 2 + d, reach - pad[d],
                      reach - pad[d] + extra[d]);
  }
  /* [g, c / g, o / g, k] to [g, o / g, c / g, k], backwards */
  int64_t in = gm_size_number (mw.sizes[0]), out = gm_size_number (mw.sizes[1]),
          split[GM_MAX_DIMS] = { groups, in / groups, out }, dims[GM_MAX_DIMS] = { 0, 2, 1 },
          sizes[GM_MAX_DIMS] = { groups * out, in / groups };
  for (int d = 0; d < space; d++) {
    int64_t k = mw.sizes[2 + d];
    split[3 + d] = sizes[2 + d] = k;
    dims[3 + d] = 3 + d;
    w = gm_reversed (b, w, 2 + d);
  }
  w = gm_b_reshape (b, gm_b_permute (b, gm_b_reshape (b, w, space + 3, split), dims), space + 2,
                    sizes);
  CHECK ();
  const GmApi *conv = gm_api_find (space == 1 ? "conv1d" : space == 2 ? "conv2d" : "conv3d");
  GmArg list[MAX_SPACE],
      args[GM_API_MAX_ARGS + 1] = { gm_tensor_arg (x),
                                    gm_tensor_arg (w),
                                    a[2],
                                    { .kind = GM_ARG_INT, .i = 1 },
                                    { .kind = GM_ARG_INT },
                                    { .kind = GM_ARG_LIST, .n = (uint16_t) space, .items = list },
                                    { .kind = GM_ARG_INT, .i = groups } };
  for (int d = 0; d < space; d++)
    list[d] = (GmArg){ .kind = GM_ARG_INT, .i = dilation[d] };
  GmArg y = conv->run (conv, b, args);
  CHECK ();
  return gm_give (batched ? y.v : gm_squeeze (b, y.v, 0));
}

RUN (conv_transpose1d)
{
  return transposed (api, b, a, 1);
}
RUN (conv_transpose2d)
{
  return transposed (api, b, a, 2);
}
RUN (conv_transpose3d)
{
  return transposed (api, b, a, 3);
}
