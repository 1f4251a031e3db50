/* SPDX-License-Identifier: Apache-2.0
 * convolve.c -- convolution and its two gradients as products with windows (core/tiles/convolve.h).
 *
 * Each is brought to one form: along every dimension result t reads, for tap m, element t * step + first + m * by of some image.
 * The result of a convolution reads its input so.  A gradient of the input reads the result's gradient so too, if results are taken
 * `stride` apart: each such phase meets the same taps.  The gradient of the weight is the sum over all windows of the input times
 * the result's gradient.
 * What is chosen follows from the metas alone, so equal metas give equal bits.  f16 and bf16 are cast to f32, and the result rounded
 * once.
 */
#include "core/ops/infer.h"
#include "core/ops/windows.h"

#include <string.h>

/* -- The result -------------------------------------------------------------------------------------------- */

typedef struct {
  GmWindow w;
  GmImage x, y; /* what has the shape of the input, and of the result */
  char *weight;
  int64_t groups, x_channels, y_channels; /* of a group */
  const GmConvolveTiles *tiles;
  GmDtype dtype;
  size_t elem;
} Convolution;

/* Row-major weight [o, c / groups, kernel ...], and the taps that meet in a phase of each channel of the input: [c][o][taps]. */
static void
turn_weight (const Convolution *c, int64_t group, const GmAxis *axes, char *to)
{
  int64_t kernel = c->w.kernel[0] * c->w.kernel[1] * c->w.kernel[2], row = c->x_channels * kernel;
  for (int64_t x = 0; x < c->x_channels; x++)
    for (int64_t y = 0; y < c->y_channels; y++)
      if (axes[0].taps * axes[1].taps * axes[2].taps == kernel) {
        gm_copy_few (to, c->weight + (size_t) ((group * c->y_channels + y) * row + x * kernel) * c->elem, (size_t) kernel * c->elem);
        to += (size_t) kernel * c->elem;
      } else
        for (int64_t i = 0; i < axes[0].taps; i++)
          for (int64_t j = 0; j < axes[1].taps; j++) {
            int64_t line = ((axes[0].tap + i * axes[0].tap_by) * c->w.kernel[1] + axes[1].tap + j * axes[1].tap_by) * c->w.kernel[2];
            const char *from = c->weight + (size_t) ((group * c->y_channels + y) * row + x * kernel + line + axes[2].tap) * c->elem;
            gm_run_tiles->gather (to, from, axes[2].tap_by, (size_t) axes[2].taps, c->elem);
            to += (size_t) axes[2].taps * c->elem;
          }
}

/* One group of one image: rows are channels of the result, which begins at `out`. */
static void
correlate (const Convolution *c, const GmImageSource *s, const void *a, int64_t rows, const GmImage *out, char *at, const int64_t *apart,
           void *scratch)
{
  GmCorrelation job = { .windows = s->windows, .rows = rows, .a = a, .out = at, .out_row = out->strides[1], .scratch = scratch };
  for (int d = 0; d < SPACE; d++)
    job.out_step[d] = out->strides[2 + d] * apart[d];
  gm_windows_merge (&job.windows, job.out_step);
  c->tiles->correlate (&job);
}

static bool
run_forward (const Convolution *c)
{
  GmAxis axes[SPACE];
  GmImageSource s;
  for (int d = 0; d < SPACE; d++)
    axes[d] = gm_axis_forward (&c->w, d, c->x.sizes[2 + d], c->y.sizes[2 + d]);
  size_t bytes = gm_correlate_scratch (c->y_channels) * c->elem;
  void *scratch = gm_alloc (bytes);
  bool ok = scratch && gm_source_init (&s, &c->x, axes, c->x_channels, c->dtype, 0);
  for (int64_t n = 0; ok && n < c->x.sizes[0]; n++)
    for (int64_t g = 0; g < c->groups; g++) {
      gm_source_read (&s, n, g * c->x_channels);
      correlate (c, &s, c->weight + (size_t) (g * c->y_channels * s.windows.depth) * c->elem, c->y_channels, &c->y,
                 c->y.data + (size_t) (n * c->y.strides[0] + g * c->y_channels * c->y.strides[1]) * c->elem, (const int64_t[]){ 1, 1, 1 },
                 scratch);
    }
  if (scratch)
    gm_source_clear (&s), gm_free (scratch, bytes);
  return ok;
}

static bool
run_phase (const Convolution *c, const int64_t *phase, void *scratch, char *turned)
{
  GmAxis axes[SPACE];
  GmImageSource s;
  int64_t start = 0;
  for (int d = 0; d < SPACE; d++) {
    axes[d] = gm_axis_phase (&c->w, d, phase[d], c->x.sizes[2 + d], c->y.sizes[2 + d]);
    if (axes[d].n_out == 0)
      return true;
    start += phase[d] * c->x.strides[2 + d];
  }
  bool ok = gm_source_init (&s, &c->y, axes, c->y_channels, c->dtype, 0);
  for (int64_t g = 0; ok && g < c->groups; g++) {
    turn_weight (c, g, axes, turned);
    for (int64_t n = 0; n < c->x.sizes[0]; n++) {
      gm_source_read (&s, n, g * c->y_channels);
      correlate (c, &s, turned, c->x_channels, &c->x,
                 c->x.data + (size_t) (n * c->x.strides[0] + g * c->x_channels * c->x.strides[1] + start) * c->elem, c->w.stride, scratch);
    }
  }
  gm_source_clear (&s);
  return ok;
}

static bool
run_input (const Convolution *c)
{
  size_t bytes = gm_correlate_scratch (c->x_channels) * c->elem;
  size_t turned_bytes = (size_t) (c->x_channels * c->y_channels * c->w.kernel[0] * c->w.kernel[1] * c->w.kernel[2]) * c->elem;
  void *scratch = gm_alloc (bytes);
  char *turned = scratch ? gm_alloc (turned_bytes) : NULL;
  bool ok = turned != NULL;
  int64_t phase[SPACE];
  for (phase[0] = 0; ok && phase[0] < c->w.stride[0]; phase[0]++)
    for (phase[1] = 0; ok && phase[1] < c->w.stride[1]; phase[1]++)
      for (phase[2] = 0; ok && phase[2] < c->w.stride[2]; phase[2]++)
        ok = run_phase (c, phase, scratch, turned);
  if (turned)
    gm_free (turned, turned_bytes);
  if (scratch)
    gm_free (scratch, bytes);
  return ok;
}

/* -- The gradient of the weight ---------------------------------------------------------------------------- */

typedef struct {
  char *panel, *sums;
  size_t panel_bytes, sums_bytes;
} Sums;

/* Few channels are weighed each alone: lines of windows are the vectors. */
static bool
few (const Convolution *c)
{
  return c->y_channels <= 2;
}

static void
weigh_group (const Convolution *c, GmImageSource *s, int64_t group, const Sums *t)
{
  const GmImage *y = &c->y;
  const GmConvolveTiles *f = c->tiles;
  int64_t depth = s->windows.depth, windows = gm_image_volume (y), by = few (c) ? 1 : GM_PANEL, last = c->y_channels;
  size_t row_bytes = (size_t) depth * c->elem * (few (c) ? GM_WINDOW_CHAINS : 1);
  memset (t->sums, 0, t->sums_bytes);
  for (int64_t n = 0; n < y->sizes[0]; n++) {
    gm_source_read (s, n, group * c->x_channels);
    for (int64_t r = 0; r < last; r += by) {
      const char *from = y->data + (size_t) (n * y->strides[0] + (group * last + r) * windows) * c->elem;
      char *sums = t->sums + (size_t) r * row_bytes;
      if (few (c))
        f->weigh_line (&s->windows, from, sums);
      else {
        f->transpose (t->panel, GM_PANEL, from, windows, MIN (last - r, by), windows);
        f->weigh (&s->windows, t->panel, MIN (last - r, by), sums);
      }
    }
  }
  for (int64_t r = 0; r < last; r += by) {
    char *to = c->weight + (size_t) ((group * last + r) * depth) * c->elem, *sums = t->sums + (size_t) r * row_bytes;
    if (few (c))
      f->fold_chains (to, sums, depth);
    else
      f->transpose (to, depth, sums, GM_PANEL, depth, MIN (last - r, by));
  }
}

static bool
run_weight (const Convolution *c)
{
  GmAxis axes[SPACE];
  GmImageSource s;
  for (int d = 0; d < SPACE; d++)
    axes[d] = gm_axis_forward (&c->w, d, c->x.sizes[2 + d], c->y.sizes[2 + d]);
  bool ok = gm_source_init (&s, &c->x, axes, c->x_channels, c->dtype, 0);
  gm_windows_merge (&s.windows, c->y.strides + 2);
  int64_t panels = (c->y_channels + GM_PANEL - 1) / GM_PANEL * GM_PANEL, depth = MAX (s.windows.depth, 1);
  Sums t = { .panel_bytes = (few (c) ? 1 : (size_t) gm_image_volume (&c->y) * GM_PANEL) * c->elem,
             .sums_bytes = (size_t) (depth * (few (c) ? c->y_channels * GM_WINDOW_CHAINS : panels)) * c->elem };
  t.panel = ok ? gm_alloc (t.panel_bytes) : NULL;
  t.sums = t.panel ? gm_alloc (t.sums_bytes) : NULL;
  ok = t.sums != NULL;
  if (ok)
    memset (t.panel, 0, t.panel_bytes); /* for the columns that no channel has */
  for (int64_t g = 0; ok && g < c->groups; g++)
    weigh_group (c, &s, g, &t);
  if (t.panel)
    gm_free (t.panel, t.panel_bytes);
  if (t.sums)
    gm_free (t.sums, t.sums_bytes);
  gm_source_clear (&s);
  return ok;
}

/* -- The entry --------------------------------------------------------------------------------------------- */

bool
gm_convolve_run (GmOp op, GmTensor *const *in, const GmAttrs *attrs, GmTensor *out, GError **error)
{
  if (gm_meta_numel (&out->meta) == 0)
    return true;
  GmDtype dtype = gm_dtype_compute (out->meta.dtype);
  g_autoptr (GmTensor) a = gm_plain_tensor (in[0], dtype, true, error), b = a ? gm_plain_tensor (in[1], dtype, true, error) : NULL,
                       r = b ? gm_plain_tensor (out, dtype, false, error) : NULL;
  if (!r)
    return false;
  GmTensor *x = op == GM_OP_convolve_input ? r : a, *y = op == GM_OP_convolve ? r : op == GM_OP_convolve_input ? a : b;
  GmTensor *weight = op == GM_OP_convolve_weight ? r : b;
  Convolution c = { .x = gm_image_of (x), .y = gm_image_of (y), .weight = gm_tensor_data (weight), .tiles = gm_run_tiles->convolve (dtype),
                    .dtype = dtype, .elem = gm_dtype_size (dtype) };
  gm_window_read (attrs, &c.w);
  c.x_channels = weight->meta.sizes[1];
  c.groups = c.x_channels ? c.x.sizes[1] / c.x_channels : 1;
  c.y_channels = c.groups ? weight->meta.sizes[0] / c.groups : 0;
  if (gm_meta_numel (&a->meta) == 0 || gm_meta_numel (&b->meta) == 0)
    memset (gm_tensor_data (r), 0, (size_t) gm_meta_numel (&r->meta) * c.elem);
  else if (!(op == GM_OP_convolve ? run_forward (&c) : op == GM_OP_convolve_input ? run_input (&c) : run_weight (&c)))
    return gm_infer_fail (error, GM_ERROR_MEMORY, "%s: no memory for a copy of one image", gm_ops[op].name);
  if (r != out)
    gm_copy_strided (out, r);
  return true;
}
