/* SPDX-License-Identifier: Apache-2.0
 * api_conv.c -- padding, convolution and pooling over one, two or three dimensions.
 *
 * Convolutions and pools of floats on the CPU are ops of their own.  All else is written over
 * windows: for each place of the kernel one strided slice of the input, which has the shape of the
 * output.  A convolution stacks these slices and multiplies once (Chellapilla, Puri, Simard, "High
 * performance convolutional neural networks for document processing", 2006); a pool reduces the
 * stack.  So their gradients, and their bits in every back end, are those of slices and matrix
 * products.  Price: the stack is as many times the output as the kernel has places.
 */
#include "core/api/api_private.h"
#include "core/ops/window.h"

#include <math.h>

#define MAX_SPACE 3

/* Replaces sizes of x that are expressions by their numbers in this call, which become facts, for
 * code that handles only numbers. */
static void
numbers_only (GmBuilder *b, GmVal x)
{
  GmMeta m = *META (x);
  gm_meta_set_numbers (&m);
}

/* True if the ops on windows accept x's dtype. */
static bool
has_kernel (GmBuilder *b, GmVal x)
{
  return gm_op_accepts (GM_OP_convolve, (GmDtype) META (x)->dtype);
}

/* -- Padding ----------------------------------------------------------------------------------- */

static GmVal
filled (GmBuilder *b, GmVal like, int dim, int64_t n, double value)
{
  GmMeta m = *META (like);
  m.sizes[dim] = n;
  GmScalar s = gm_dtype_is_float ((GmDtype) m.dtype) ? gm_scalar_float (value)
                                                     : gm_scalar_int ((int64_t) value);
  if (m.dtype == GM_BOOL)
    s = (GmScalar){ .kind = GM_CATEGORY_BOOL, .i = value != 0 };
  return gm_b_full_beside (b, s, (GmDtype) m.dtype, m.ndim, m.sizes, like);
}

/* Returns n slices of x along dim from `first` on, each `step` (1 or -1) behind the slice before.
 */
static GmVal
run_of (GmBuilder *b, GmVal x, int dim, int64_t first, int64_t step, int64_t n)
{
  if (step > 0)
    return gm_b_slice (b, x, dim, first, gm_size_add (first, n), 1);
  return gm_index_select (b, x, dim, gm_b_arange (b, first, step, n, GM_I64));
}

typedef enum { PAD_CONSTANT, PAD_REFLECT, PAD_REPLICATE, PAD_CIRCULAR, PAD_NONE } PadMode;

/* Returns x with `before` and `after` more elements along dim, filled as `mode` says (PAD_CONSTANT:
 * with value); negative numbers remove elements. */
static GmVal
pad_dim (GmBuilder *b, GmVal x, int dim, int64_t before, int64_t after, PadMode mode, double value)
{
  int64_t n = META (x)->sizes[dim];
  GmVal parts[3], v = x;
  int k = 0;
  if (gm_size_lt (before, 0) || gm_size_lt (after, 0)) {
    int64_t less = gm_size_min (before, 0), end = gm_size_add (n, gm_size_min (after, 0));
    v = gm_b_slice (b, x, dim, gm_size_sub (0, less), end, 1);
    n = gm_size_add (end, less);
    before = gm_size_max (before, 0);
    after = gm_size_max (after, 0);
  }
  if (gm_size_lt (0, before))
    parts[k++] = mode == PAD_CONSTANT  ? filled (b, v, dim, before, value)
                 : mode == PAD_REFLECT ? run_of (b, v, dim, before, -1, before)
                 : mode == PAD_CIRCULAR
                     ? run_of (b, v, dim, gm_size_sub (n, before), 1, before)
                     : gm_index_select (b, v, dim, gm_b_arange (b, 0, 0, before, GM_I64));
  parts[k++] = v;
  if (gm_size_lt (0, after))
    parts[k++] =
        mode == PAD_CONSTANT  ? filled (b, v, dim, after, value)
        : mode == PAD_REFLECT ? run_of (b, v, dim, gm_size_add (n, -2), -1, after)
        : mode == PAD_CIRCULAR
            ? run_of (b, v, dim, 0, 1, after)
            : gm_index_select (b, v, dim, gm_b_arange (b, gm_size_add (n, -1), 0, after, GM_I64));
  return k == 1 ? v : gm_cat (b, parts, k, dim);
}

GmVal
gm_pad_zeros (GmBuilder *b, GmVal x, int dim, int64_t before, int64_t after)
{
  return gm_b_failed (b) ? NULL : pad_dim (b, x, dim, before, after, PAD_CONSTANT, 0);
}

static PadMode
pad_mode (GmBuilder *b, const char *text)
{
  static const char *const names[] = { "constant", "reflect", "replicate", "circular" };
  for (int i = 0; i < PAD_NONE; i++)
    if (strcmp (text, names[i]) == 0)
      return (PadMode) i;
  gm_b_fail (b, GM_ERROR_VALUE,
             "pad(): mode is 'constant', 'reflect', 'replicate' or 'circular', not '%s'", text);
  return PAD_NONE;
}

RUN (pad)
{
  GmVal x = TENSOR (0);
  int64_t pads[GM_MAX_DIMS * 2];
  CHECK ();
  int n = gm_arg_ints (api, b, a, 1, pads), ndim = META (x)->ndim;
  CHECK ();
  PadMode mode = pad_mode (b, STR (2));
  double value = IS_NONE (3) ? 0 : FLOAT (3);
  gm_number_fits (b, &a[3], (GmDtype) META (x)->dtype);
  CHECK ();
  if (META (x)->dtype == GM_U8 && value < 0)
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "value cannot be converted to type uint8 without overflow"));
  if (n % 2 || n / 2 > ndim)
    return gm_give (gm_b_fail (
        b, GM_ERROR_RUNTIME,
        "pad(): %d widths for a tensor of %d dimensions; two for each, from the last on", n, ndim));
  GmVal v = x;
  for (int i = 0; i < n / 2; i++) {
    int dim = ndim - 1 - i;
    int64_t size = META (x)->sizes[dim], before = pads[2 * i], after = pads[2 * i + 1];
    if (mode != PAD_CONSTANT) {
      before = gm_size_number (before);
      after = gm_size_number (after);
    }
    int64_t most = mode == PAD_CONSTANT ? 0 : MAX (before, after);
    int64_t least = mode == PAD_REFLECT    ? most + 1
                    : mode == PAD_CIRCULAR ? most
                                           : mode == PAD_REPLICATE && most > 0;
    if (gm_size_lt (size, least) || gm_size_lt (gm_size_add (size, gm_size_add (before, after)), 0))
      return gm_give (
          gm_b_fail (b, GM_ERROR_RUNTIME,
                     "pad(): (%" G_GINT64_FORMAT ", %" G_GINT64_FORMAT
                     ") does not fit dimension %d, which has %" G_GINT64_FORMAT " elements",
                     gm_size_number (before), gm_size_number (after), dim, gm_size_number (size)));
    v = pad_dim (b, v, dim, before, after, mode, value);
  }
  return gm_give (v == x ? gm_b (b, copy, x) : v);
}

/* -- Windows ----------------------------------------------------------------------------------- */

typedef struct {
  int space; /* dimensions */
  int64_t kernel[MAX_SPACE], stride[MAX_SPACE], pad[2][MAX_SPACE], dilation[MAX_SPACE],
      out[MAX_SPACE];
} Windows;

void
gm_arg_numbers (const GmApi *api, GmBuilder *b, const GmArg *a, int i, int space, int64_t *out,
                int64_t least)
{
  int64_t list[GM_MAX_DIMS];
  int n = gm_arg_ints (api, b, a, i, list);
  if (gm_b_failed (b))
    return;
  if (n != 1 && n != space) {
    gm_b_fail (b, GM_ERROR_RUNTIME, "%s(): %s has %d numbers for %d dimensions", api->name,
               api->arg_names[i], n, space);
    return;
  }
  for (int d = 0; d < space; d++) {
    out[d] = gm_size_number (list[n == 1 ? 0 : d]);
    if (out[d] < least)
      gm_b_fail (b, GM_ERROR_RUNTIME,
                 "%s(): %s is %" G_GINT64_FORMAT ", and has to be at least %" G_GINT64_FORMAT,
                 api->name, api->arg_names[i], out[d], least);
  }
}

static void
find_outputs (const GmApi *api, GmBuilder *b, Windows *w, const GmMeta *m)
{
  for (int d = 0; d < w->space && !gm_b_failed (b); d++) {
    int64_t size = gm_size_add (m->sizes[m->ndim - w->space + d], w->pad[0][d] + w->pad[1][d]),
            extent = (w->kernel[d] - 1) * w->dilation[d] + 1;
    if (!gm_size_le (extent, size))
      gm_b_fail (b, GM_ERROR_RUNTIME,
                 "%s(): the kernel covers %" G_GINT64_FORMAT
                 " elements, and the padded input has %" G_GINT64_FORMAT,
                 api->name, extent, gm_size_number (size));
    w->out[d] = gm_size_add (gm_size_floordiv (gm_size_sub (size, extent), w->stride[d]), 1);
  }
}

static GmVal
padded (GmBuilder *b, const Windows *w, GmVal x, double value)
{
  int first = META (x)->ndim - w->space;
  for (int d = 0; d < w->space; d++)
    if (w->pad[0][d] || w->pad[1][d])
      x = pad_dim (b, x, first + d, w->pad[0][d], w->pad[1][d], PAD_CONSTANT, value);
  return x;
}

/* Returns the elements of x that meet element k of the kernel, one for each output: a strided slice
 * of the shape of the output. */
static GmVal
slice_at (GmBuilder *b, const Windows *w, GmVal x, int64_t k)
{
  int first = META (x)->ndim - w->space;
  for (int d = w->space - 1; d >= 0; d--) {
    int64_t start = k % w->kernel[d] * w->dilation[d];
    k /= w->kernel[d];
    if (gm_b_failed (b))
      return NULL;
    if (start != 0 || w->stride[d] != 1 || META (x)->sizes[first + d] != w->out[d])
      x = gm_b_slice (b, x, first + d, start, start + (w->out[d] - 1) * w->stride[d] + 1,
                      w->stride[d]);
  }
  return x;
}

static int64_t
places (const Windows *w)
{
  int64_t n = 1;
  for (int d = 0; d < w->space; d++)
    n *= w->kernel[d];
  return n;
}

/* Returns the slices of all elements of the kernel, joined: [n, c, kernel elements, out ...]. */
static GmVal
stacked (GmBuilder *b, const Windows *w, GmVal x)
{
  int64_t n = places (w);
  int dim = META (x)->ndim - w->space;
  g_autofree GmVal *v = g_new (GmVal, n + 1);
  for (int64_t k = 0; k < n && !gm_b_failed (b); k++)
    v[k] = gm_unsqueeze (b, slice_at (b, w, x, k), dim);
  if (gm_b_failed (b))
    return NULL;
  return n == 1 ? v[0] : gm_cat (b, v, (int) n, dim);
}

/* Writes the attribute of the ops on windows. */
static void
write_window (const Windows *w, GmAttrs *at)
{
  GmWindow full = { { 1, 1, 1 }, { 1, 1, 1 }, { 0, 0, 0 }, { 1, 1, 1 } };
  size_t bytes = sizeof (int64_t) * (size_t) w->space;
  int from = GM_WINDOW_DIMS - w->space;
  memcpy (full.kernel + from, w->kernel, bytes);
  memcpy (full.stride + from, w->stride, bytes);
  memcpy (full.pad + from, w->pad[0], bytes);
  memcpy (full.dilation + from, w->dilation, bytes);
  memcpy (at->window, &full, sizeof full);
}

/* Applies an op on windows to x and other; the result has `channels` channels. */
static GmVal
windowed (GmBuilder *b, const Windows *w, GmOp op, GmVal x, GmVal other, int64_t channels)
{
  if (gm_b_failed (b))
    return NULL;
  GmAttrs at = { .mask = BIT (SIZES) | BIT (WINDOW), .n_list = (uint8_t) (2 + w->space) };
  at.list[0] = META (x)->sizes[0];
  at.list[1] = channels;
  memcpy (at.list + 2, w->out, sizeof *w->out * (size_t) w->space);
  write_window (w, &at);
  return gm_b_op (b, op, (const GmVal[]){ x, other }, 2, &at);
}

/* -- Convolution ------------------------------------------------------------------------------- */

/* Reads the padding. 'same' pads so that the output has the input's size; an odd element is added
 * at the end. */
static void
read_padding (const GmApi *api, GmBuilder *b, const GmArg *a, int i, Windows *w)
{
  if (a[i].kind != GM_ARG_STR) {
    gm_arg_numbers (api, b, a, i, w->space, w->pad[0], 0);
    memcpy (w->pad[1], w->pad[0], sizeof w->pad[1]);
    return;
  }
  const char *text = STR (i);
  bool same = strcmp (text, "same") == 0;
  if (!same && strcmp (text, "valid") != 0)
    gm_b_fail (b, GM_ERROR_VALUE, "%s(): padding is a number, 'same' or 'valid', not '%s'",
               api->name, text);
  for (int d = 0; d < w->space && same; d++) {
    int64_t all = (w->kernel[d] - 1) * w->dilation[d];
    if (w->stride[d] != 1)
      gm_b_fail (b, GM_ERROR_VALUE, "%s(): padding='same' is for a stride of 1", api->name);
    w->pad[0][d] = all / 2;
    w->pad[1][d] = all - all / 2;
  }
}

static GmVal
product (const GmApi *api, GmBuilder *b, const Windows *w, GmVal x, GmVal weight, int64_t groups)
{
  GmMeta mx = *META (x), mw = *META (weight);
  int64_t n = mx.sizes[0], o = mw.sizes[0], depth = mw.sizes[1] * places (w), length = 1,
          sizes[2 + MAX_SPACE] = { n, o };
  for (int d = 0; d < w->space; d++)
    length *= sizes[2 + d] = w->out[d];
  GmVal columns = gm_b_reshape (b, stacked (b, w, x), groups == 1 ? 3 : 4,
                                groups == 1 ? (const int64_t[]){ n, depth, length }
                                            : (const int64_t[]){ n, groups, depth, length });
  GmVal rows = gm_b_reshape (b, weight, groups == 1 ? 2 : 3,
                             groups == 1 ? (const int64_t[]){ o, depth }
                                         : (const int64_t[]){ groups, o / groups, depth });
  return gm_b_reshape (b, gm_matmul (api, b, rows, columns), 2 + w->space, sizes);
}

static GmArg
convolve (const GmApi *api, GmBuilder *b, GmArg *a, int space)
{
  GmVal x = TENSOR (0), weight = TENSOR (1), bias = OPTIONAL_TENSOR (2);
  Windows w = { .space = space };
  CHECK ();
  int64_t groups = INT (6);
  bool batched = META (x)->ndim == space + 2;
  if ((!batched && META (x)->ndim != space + 1) || META (weight)->ndim != space + 2) {
    g_autofree char *one = gm_meta_text (META (x)), *two = gm_meta_text (META (weight));
    return gm_give (gm_b_fail (
        b, GM_ERROR_RUNTIME,
        "%s(): expected an input [n, c, %s] and a weight [o, c / groups, %s], but got %s and %s",
        api->name, "sizes ...", "kernel ...", one, two));
  }
  if (!batched)
    x = gm_unsqueeze (b, x, 0);
  CHECK ();
  GmMeta fixed = *META (weight);
  gm_meta_set_numbers (&fixed);
  const GmMeta *mw = &fixed;
  int64_t channels = gm_size_number (META (x)->sizes[1]);
  if (!has_kernel (b, x))
    numbers_only (b, x);
  if (groups < 1 || channels != mw->sizes[1] * groups || mw->sizes[0] % groups
      || META (x)->dtype != mw->dtype) {
    g_autofree char *one = gm_meta_text (META (x)), *two = gm_meta_text (mw);
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "%s(): an input %s does not fit a weight %s in %" G_GINT64_FORMAT
                               " groups",
                               api->name, one, two, groups));
  }
  if (bias && (META (bias)->ndim != 1 || META (bias)->sizes[0] != mw->sizes[0]))
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "%s(): the bias needs %" G_GINT64_FORMAT " elements", api->name,
                               mw->sizes[0]));
  for (int d = 0; d < space; d++)
    w.kernel[d] = mw->sizes[2 + d];
  gm_arg_numbers (api, b, a, 3, space, w.stride, 1);
  gm_arg_numbers (api, b, a, 5, space, w.dilation, 1);
  CHECK ();
  read_padding (api, b, a, 4, &w);
  CHECK ();
  find_outputs (api, b, &w, META (x));
  CHECK ();
  GmVal y = has_kernel (b, x) ? windowed (b, &w, GM_OP_convolve, x, weight, mw->sizes[0])
                              : product (api, b, &w, padded (b, &w, x, 0), weight, groups);
  if (bias) {
    int64_t sizes[1 + MAX_SPACE] = { mw->sizes[0], 1, 1, 1 };
    y = gm_apply2 (b, add, y, gm_b_reshape (b, bias, 1 + space, sizes));
  }
  return gm_give (batched ? y : gm_squeeze (b, y, 0));
}

RUN (conv1d)
{
  return convolve (api, b, a, 1);
}
RUN (conv2d)
{
  return convolve (api, b, a, 2);
}
RUN (conv3d)
{
  return convolve (api, b, a, 3);
}

/* -- Pooling ----------------------------------------------------------------------------------- */

/* Reads kernel_size, stride (None: the kernel) and padding from argument 1 on into w. False after
 * an error. */
static bool
read_pool (const GmApi *api, GmBuilder *b, GmArg *a, GmVal x, int space, Windows *w)
{
  *w = (Windows){ .space = space, .dilation = { 1, 1, 1 } };
  if (gm_b_failed (b))
    return false;
  if (META (x)->ndim != space + 1 && META (x)->ndim != space + 2) {
    g_autofree char *text = gm_meta_text (META (x));
    gm_b_fail (b, GM_ERROR_RUNTIME,
               "%s(): expected an input [n, c, sizes ...] with %d sizes, but got %s", api->name,
               space, text);
    return false;
  }
  gm_arg_numbers (api, b, a, 1, space, w->kernel, 1);
  if (IS_NONE (2))
    memcpy (w->stride, w->kernel, sizeof w->stride);
  else
    gm_arg_numbers (api, b, a, 2, space, w->stride, 1);
  gm_arg_numbers (api, b, a, 3, space, w->pad[0], 0);
  memcpy (w->pad[1], w->pad[0], sizeof w->pad[1]);
  for (int d = 0; d < space && !gm_b_failed (b); d++)
    if (w->pad[0][d] > w->kernel[d] / 2)
      gm_b_fail (b, GM_ERROR_RUNTIME, "%s(): padding is at most half of the kernel", api->name);
  return !gm_b_failed (b);
}

/* Computes w's output sizes for ceil_mode: the last window may go beyond the padded input, if it
 * begins within the input or the padding before it. */
static void
find_outputs_rounded_up (const GmApi *api, GmBuilder *b, Windows *w, const GmMeta *m)
{
  find_outputs (api, b, w, m);
  for (int d = 0; d < w->space && !gm_b_failed (b); d++) {
    int64_t in = m->sizes[m->ndim - w->space + d], extent = (w->kernel[d] - 1) * w->dilation[d] + 1;
    int64_t n = (in + 2 * w->pad[0][d] - extent + w->stride[d] - 1) / w->stride[d] + 1;
    if ((n - 1) * w->stride[d] >= in + w->pad[0][d])
      n--;
    w->out[d] = n;
    w->pad[1][d] = MAX (w->pad[1][d], (n - 1) * w->stride[d] + extent - in - w->pad[0][d]);
  }
}

/* Returns the index in the flattened space of the element at position `at` of each window's kernel:
 * [n, c, out ...]. */
static GmVal
flat_places (GmBuilder *b, const Windows *w, GmVal at, const GmMeta *m)
{
  GmVal sum = NULL;
  int64_t size = 1;
  for (int d = w->space - 1; d >= 0 && !gm_b_failed (b); d--) {
    int64_t line[MAX_SPACE] = { 1, 1, 1 };
    line[d] = w->out[d];
    GmVal kernel = gm_b_scalar (b, gm_scalar_int (w->kernel[d]), GM_I64);
    GmVal k = gm_b (b, mul, gm_b (b, remainder, at, kernel),
                    gm_b_scalar (b, gm_scalar_int (w->dilation[d]), GM_I64));
    GmVal start = gm_b_view (b, gm_b_arange (b, -w->pad[0][d], w->stride[d], w->out[d], GM_I64),
                             w->space, line);
    GmVal place =
        gm_b (b, mul, gm_b (b, add, k, start), gm_b_scalar (b, gm_scalar_int (size), GM_I64));
    sum = sum ? gm_b (b, add, sum, place) : place;
    at = gm_b (b, floor_divide, at, kernel);
    size *= m->sizes[m->ndim - w->space + d];
  }
  return sum;
}

static GmArg
max_pool (const GmApi *api, GmBuilder *b, GmArg *a, int space)
{
  GmVal x = TENSOR (0);
  Windows w;
  if (!read_pool (api, b, a, x, space, &w))
    return gm_give (NULL);
  gm_arg_numbers (api, b, a, 4, space, w.dilation, 1);
  bool ceil_mode = FLAG (5), indices = FLAG (6);
  CHECK ();
  if (ceil_mode || indices || !has_kernel (b, x))
    numbers_only (b, x);
  (ceil_mode ? find_outputs_rounded_up : find_outputs) (api, b, &w, META (x));
  CHECK ();
  int dim = META (x)->ndim - space;
  if (indices) {
    GmMeta m = *META (x);
    GmVal still = m.requires_grad ? gm_b (b, detach, x) : x;
    GmVal best =
        gm_squeeze (b,
                    gm_arg_extremum (b, GM_OP_argmax,
                                     stacked (b, &w, padded (b, &w, still, -INFINITY)), dim, true),
                    dim);
    GmVal at = flat_places (b, &w, best, &m);
    CHECK ();
    int64_t from[GM_MAX_DIMS], to[GM_MAX_DIMS], n_in = 1, n_out = 1;
    for (int d = 0; d < space; d++) {
      n_in *= m.sizes[dim + d];
      n_out *= w.out[d];
    }
    memcpy (from, m.sizes, sizeof from);
    memcpy (to, m.sizes, sizeof to);
    from[dim] = n_in;
    to[dim] = n_out;
    GmMeta shape = *META (at);
    GmVal v =
        gm_gather (b, gm_b_reshape (b, x, dim + 1, from), dim, gm_b_reshape (b, at, dim + 1, to));
    GmVal both[2] = { gm_b_reshape (b, v, shape.ndim, shape.sizes), at };
    CHECK ();
    return gm_give_list (both, 2, true, NULL);
  }
  if (has_kernel (b, x)) {
    GmVal v = dim == 1 ? gm_unsqueeze (b, x, 0) : x;
    v = windowed (b, &w, GM_OP_window_pick, v, v, META (v)->sizes[1]);
    return gm_give (dim == 1 ? gm_squeeze (b, v, 0) : v);
  }
  GmVal all = stacked (b, &w, padded (b, &w, x, -INFINITY));
  GmVal at = gm_arg_extremum (b, GM_OP_argmax, all, dim, true);
  return gm_give (gm_squeeze (b, gm_gather (b, all, dim, at), dim));
}

RUN (max_pool1d)
{
  return max_pool (api, b, a, 1);
}
RUN (max_pool2d)
{
  return max_pool (api, b, a, 2);
}
RUN (max_pool3d)
{
  return max_pool (api, b, a, 3);
}

/* True if there is a single window that covers x. */
static bool
is_whole (GmBuilder *b, const Windows *w, GmVal x)
{
  const GmMeta *m = META (x);
  bool whole = true;
  for (int d = 0; d < w->space; d++)
    whole &= gm_size_eq (w->kernel[d], m->sizes[m->ndim - w->space + d]) && w->pad[0][d] == 0
             && w->dilation[d] == 1;
  return whole;
}

/* Returns the sum of each window, in which elements outside of the input are 0: a convolution with
 * ones, each channel alone. */
static GmVal
window_sum (GmBuilder *b, const Windows *w, GmVal x)
{
  if (is_whole (b, w, x)) {
    int64_t dims[MAX_SPACE];
    for (int d = 0; d < w->space; d++)
      dims[d] = META (x)->ndim - w->space + d;
    return gm_b_reduce (b, GM_OP_sum, x, dims, w->space, true);
  }
  if (has_kernel (b, x)) {
    GmMeta m = *META (x);
    int lead = m.ndim - w->space;
    int64_t image[2 + MAX_SPACE] = { 1, 1 }, ones[2 + MAX_SPACE] = { 1, 1 };
    for (int d = 0; d < lead; d++)
      image[0] = gm_size_mul (image[0], m.sizes[d]);
    memcpy (image + 2, m.sizes + lead, sizeof *image * (size_t) w->space);
    memcpy (ones + 2, w->kernel, sizeof *ones * (size_t) w->space);
    GmVal weight =
        gm_b_full_beside (b, gm_scalar_float (1), (GmDtype) m.dtype, 2 + w->space, ones, x);
    GmVal sum =
        windowed (b, w, GM_OP_convolve, gm_b_reshape (b, x, 2 + w->space, image), weight, 1);
    memcpy (m.sizes + lead, w->out, sizeof *w->out * (size_t) w->space);
    return gm_b_reshape (b, sum, m.ndim, m.sizes);
  }
  x = padded (b, w, x, 0);
  GmVal sum = slice_at (b, w, x, 0);
  for (int64_t k = 1; k < places (w) && !gm_b_failed (b); k++)
    sum = gm_b (b, add, sum, slice_at (b, w, x, k));
  return sum;
}

static GmArg
average_pool (const GmApi *api, GmBuilder *b, GmArg *a, int space)
{
  GmVal x = TENSOR (0);
  Windows w;
  if (!read_pool (api, b, a, x, space, &w))
    return gm_give (NULL);
  bool ceil_mode = FLAG (4), count_pad = FLAG (5);
  double divisor = space == 1 || IS_NONE (6) ? (double) places (&w) : FLOAT (6);
  CHECK ();
  if (divisor == 0)
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME, "%s(): divisor must be not zero", api->name));
  if (!gm_dtype_is_float (META (x)->dtype))
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "%s(): takes floating dtypes, not %s; cast the input first",
                               api->name, gm_dtypes[META (x)->dtype].torch_name));
  if (ceil_mode || !has_kernel (b, x))
    numbers_only (b, x);
  (ceil_mode ? find_outputs_rounded_up : find_outputs) (api, b, &w, META (x));
  CHECK ();
  bool any = false, beyond = false;
  for (int d = 0; d < space; d++) {
    any |= w.pad[0][d] > 0;
    beyond |= w.pad[1][d] > w.pad[0][d];
  }
  GmVal sum = window_sum (b, &w, x);
  if ((space > 1 && !IS_NONE (6)) || (!beyond && (!any || count_pad)))
    return gm_give (gm_apply_num (b, div, sum, divisor));
  /* Number of elements in each window: of the input, with the requested padding or without. */
  GmMeta m = *META (x);
  Windows counted = w;
  int64_t sizes[MAX_SPACE];
  for (int d = 0; d < space; d++) {
    sizes[d] = gm_size_add (m.sizes[m.ndim - space + d], count_pad ? 2 * w.pad[0][d] : 0);
    if (count_pad) {
      counted.pad[1][d] = MAX (w.pad[1][d] - w.pad[0][d], 0);
      counted.pad[0][d] = 0;
    }
  }
  GmVal ones = gm_b_full_beside (b, gm_scalar_float (1), (GmDtype) m.dtype, space, sizes, x);
  return gm_give (gm_apply2 (b, div, sum, window_sum (b, &counted, ones)));
}

RUN (avg_pool1d)
{
  return average_pool (api, b, a, 1);
}
RUN (avg_pool2d)
{
  return average_pool (api, b, a, 2);
}
RUN (avg_pool3d)
{
  return average_pool (api, b, a, 3);
}
