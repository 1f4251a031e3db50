/* SPDX-License-Identifier: Apache-2.0
 * infer_convolve.c -- the shape rules of convolutions and pools and of their gradients.
 *
 * One convolution relates three shapes, the input's, the weight's and the result's; each of the
 * three ops has two of them as operands and the third as its attribute SIZES.  So there is one
 * rule, and an op only says which shape is which.  The numbers of an attribute may come from a
 * file: everything that a kernel multiplies is checked here against what the shapes allow.
 */
#include "core/ops/infer.h"
#include "core/ops/window.h"

#include <string.h>

#define FMT "%" G_GINT64_FORMAT
#define MOST (INT64_C (1) << 31) /* exceeds any number of a window: products of two fit */

static bool
check_window (GmOp op, const GmWindow *w, int space, GError **error)
{
  for (int d = 0; d < GM_WINDOW_DIMS; d++) {
    bool fits = w->kernel[d] >= 1 && w->stride[d] >= 1 && w->pad[d] >= 0 && w->dilation[d] >= 1
                && w->kernel[d] < MOST && w->stride[d] < MOST && w->pad[d] < MOST
                && w->dilation[d] < MOST;
    if (d < GM_WINDOW_DIMS - space)
      fits = w->kernel[d] == 1 && w->stride[d] == 1 && w->pad[d] == 0 && w->dilation[d] == 1;
    if (!fits)
      return gm_infer_fail (error, GM_ERROR_RUNTIME,
                            "%s: along dimension %d of 3 no window has a kernel of " FMT
                            ", a stride of " FMT ", a padding of " FMT " and a dilation of " FMT,
                            gm_ops[op].name, d, w->kernel[d], w->stride[d], w->pad[d],
                            w->dilation[d]);
  }
  return true;
}

/* True if y, an expression, is the number of windows of an image of size x with `more` elements of
 * padding, less the window's extent, as functions compute it. */
static bool
counts_windows (int64_t x, int64_t more, int64_t stride, int64_t y)
{
  return gm_size_same (y, gm_size_add (gm_size_floordiv (gm_size_add (x, more), stride), 1));
}

/* True if the windows fit the image x and the result y: the last window ends with the padding,
 * which may be one element longer behind than in front. */
static bool
windows_fit (const GmWindow *w, int ndim, const int64_t *x, const int64_t *y)
{
  for (int d = 2; d < ndim; d++) {
    int k = d - ndim + GM_WINDOW_DIMS;
    int64_t extent = (w->kernel[k] - 1) * w->dilation[k] + 1, last;
    if (gm_size_is_symbolic (x[d]) || gm_size_is_symbolic (y[d])) {
      if (!counts_windows (x[d], 2 * w->pad[k] - extent, w->stride[k], y[d])
          && !counts_windows (x[d], 2 * w->pad[k] + 1 - extent, w->stride[k], y[d]))
        return false;
      continue;
    }
    if (x[d] < 0 || y[d] < 0 || x[d] > INT64_MAX / 4)
      return false;
    if (y[d] > 0
        && (__builtin_mul_overflow (y[d] - 1, w->stride[k], &last)
            || last > x[d] + 2 * w->pad[k] + 1 - extent))
      return false;
  }
  return true;
}

/* True if shapes and window fit together: x [n, c, space ...], w [o, c / groups, kernel ...], y [n,
 * o, space ...]. Only n and the spaces may be expressions. */
static bool
shapes_fit (const GmWindow *w, int ndim, const int64_t *x, const int64_t *weight, const int64_t *y)
{
  int64_t in = gm_size_number (x[1]), out = gm_size_number (weight[0]),
          each = gm_size_number (weight[1]), groups = each > 0 ? in / each : 0;
  if (!gm_size_same (x[0], y[0]) || out != gm_size_number (y[1]) || each < 1 || in != groups * each
      || groups < 1 || out % groups)
    return false;
  for (int d = 2; d < ndim; d++)
    if (gm_size_number (weight[d]) != w->kernel[d - ndim + GM_WINDOW_DIMS])
      return false;
  return windows_fit (w, ndim, x, y);
}

/* True if the shapes of a pool fit: x [n, c, space ...], y [n, c, space ...], and an operand of one
 * of these shapes. */
static bool
pool_fits (GmOp op, const GmWindow *w, const GmMeta *x, const GmMeta *other, const int64_t *list)
{
  const int64_t *y = op == GM_OP_window_pick ? list : other->sizes,
                *same = op == GM_OP_window_pick ? other->sizes : list;
  int64_t places = w->kernel[0];
  for (int d = 0; d < x->ndim; d++)
    if (!gm_size_same (x->sizes[d], same[d]))
      return false;
  return gm_size_same (x->sizes[0], y[0]) && gm_size_same (x->sizes[1], y[1])
         && !__builtin_mul_overflow (places, w->kernel[1], &places)
         && !__builtin_mul_overflow (places, w->kernel[2], &places) && places < MOST
         && windows_fit (w, x->ndim, x->sizes, y);
}

bool
gm_infer_convolve (GmOp op, const GmMeta *const *in, const GmAttrs *attrs, GmMeta *out,
                   GError **error)
{
  const GmMeta *a = in[0], *b = in[1];
  GmWindow w;
  gm_window_read (attrs, &w);
  if (!gm_infer_same_dtype (op, a, b, error)
      || !gm_infer_check_sizes (op, attrs->n_list, attrs->list, error))
    return false;
  int space = a->ndim - 2;
  if (space < 1 || space > GM_WINDOW_DIMS || b->ndim != a->ndim || attrs->n_list != a->ndim)
    return gm_infer_fail (
        error, GM_ERROR_RUNTIME,
        "%s: expected three shapes of 3, 4 or 5 dimensions, but they have %d, %d and %d",
        gm_ops[op].name, a->ndim, b->ndim, attrs->n_list);
  if (!check_window (op, &w, space, error))
    return false;
  const int64_t *x = op == GM_OP_convolve_input ? attrs->list : a->sizes,
                *weight = op == GM_OP_convolve_weight ? attrs->list : b->sizes;
  const int64_t *y = op == GM_OP_convolve         ? attrs->list
                     : op == GM_OP_convolve_input ? a->sizes
                                                  : b->sizes;
  bool pool = op == GM_OP_window_pick || op == GM_OP_window_spread;
  if (pool && !pool_fits (op, &w, a, b, attrs->list)) {
    g_autofree char *ta = gm_shape_text (a->ndim, a->sizes),
                    *tb = gm_shape_text (b->ndim, b->sizes),
                    *to = gm_shape_text (a->ndim, attrs->list);
    return gm_infer_fail (error, GM_ERROR_RUNTIME, "%s: %s and %s do not give %s under this window",
                          gm_ops[op].name, ta, tb, to);
  }
  if (!pool && !shapes_fit (&w, a->ndim, x, weight, y)) {
    g_autofree char *tx = gm_shape_text (a->ndim, x), *tw = gm_shape_text (a->ndim, weight),
                    *ty = gm_shape_text (a->ndim, y);
    return gm_infer_fail (
        error, GM_ERROR_RUNTIME,
        "%s: an input %s, a weight %s and a result %s do not belong to one convolution",
        gm_ops[op].name, tx, tw, ty);
  }
  out->ndim = attrs->n_list;
  memcpy (out->sizes, attrs->list, sizeof *out->sizes * (size_t) attrs->n_list);
  gm_meta_set_contiguous (out);
  return true;
}
