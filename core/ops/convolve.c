/* SPDX-License-Identifier: Apache-2.0
 * convolve.c -- convolution and its two gradients as products with windows (core/tiles/convolve.h).
 *
 * Each is brought to one form: along every dimension result t reads, for tap m, element t * step + first + m * by of some image.
 * The result of a convolution reads its input so.  A gradient of the input reads the result's gradient so too, if results are taken
 * `stride` apart: each such phase meets the same taps.  The gradient of the weight is the sum over all windows of the input times
 * the result's gradient.
 * Large ones are done in parts, by threads: an image and group each, or some windows, or, of the gradient of the weight, some places
 * of the kernel.  Parts share no element of the result.
 * What is chosen follows from the metas alone, so equal metas give equal bits.  f16 and bf16 are cast to f32, and the result rounded
 * once.
 */
#include "core/base/threads.h"
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

#define WORTH_PARTS ((double) (1 << 22)) /* multiply-adds */
#define MOST_PARTS 8

/* How many parts `n` things are done in, which take `work` multiply-adds in all; at most `most`. */
static uint32_t
parts_of (int64_t n, double work, uint32_t most)
{
  bool worth = work >= WORTH_PARTS && n > 1 && gm_threads_count () > 1;
  return worth ? (uint32_t) MIN (MIN ((double) n, work / WORTH_PARTS * 2), (double) most) : 1;
}

static double
work_of (const Convolution *c)
{
  return (double) c->y.sizes[0] * (double) (c->groups * c->y_channels) * (double) gm_image_volume (&c->y) * (double) c->x_channels
         * (double) (c->w.kernel[0] * c->w.kernel[1] * c->w.kernel[2]);
}

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

typedef struct {
  const Convolution *c;
  const GmCorrelation *whole;
  uint32_t n;
  bool failed; /* atomic */
} WindowsJob;

/* Along which of their dimensions windows are cut into parts. */
static int
cut_dimension (const GmWindows *w)
{
  return w->size[0] > 1 ? 0 : w->size[1] > 1 ? 1 : 2;
}

static void
correlate_windows (void *arg, uint32_t part)
{
  WindowsJob *j = arg;
  GmCorrelation job = *j->whole;
  GmWindows *w = &job.windows;
  int d = cut_dimension (w);
  int64_t unit = d == 2 ? GM_PANEL : 1, n = (w->size[d] + unit - 1) / unit;
  int64_t from = n * part / j->n * unit, to = MIN (n * (part + 1) / j->n * unit, w->size[d]);
  size_t bytes = gm_correlate_scratch (job.rows) * j->c->elem;
  if (part > 0)
    job.scratch = gm_alloc (bytes);
  if (!job.scratch) {
    __atomic_store_n (&j->failed, true, __ATOMIC_RELAXED);
    return;
  }
  w->source = (const char *) w->source + (size_t) (from * (d == 2 ? 1 : w->step[d])) * j->c->elem;
  w->size[d] = to - from;
  job.out = (char *) job.out + (size_t) (from * job.out_step[d]) * j->c->elem;
  j->c->tiles->correlate (&job);
  if (part > 0)
    gm_free (job.scratch, bytes);
}

/* One group of one image: rows are channels of the result, which begins at `at`.  scratch: for one of `parts`.  False: no memory. */
static bool
correlate (const Convolution *c, const GmImageSource *s, const void *a, int64_t rows, const GmImage *out, char *at, const int64_t *apart,
           uint32_t parts, void *scratch)
{
  GmCorrelation job = { .windows = s->windows, .rows = rows, .a = a, .out = at, .out_row = out->strides[1], .scratch = scratch };
  for (int d = 0; d < SPACE; d++)
    job.out_step[d] = out->strides[2 + d] * apart[d];
  gm_windows_merge (&job.windows, job.out_step);
  int64_t cut = job.windows.size[cut_dimension (&job.windows)];
  WindowsJob j = { .c = c, .whole = &job, .n = (uint32_t) CLAMP (cut, 1, (int64_t) parts) };
  gm_threads_run (j.n, correlate_windows, &j);
  return !j.failed;
}

/* Images and groups, each alone: of the forward, or (input) of a phase of the gradient of the input. */
typedef struct {
  const Convolution *c;
  const GmAxis *axes;
  int64_t start; /* of the phase */
  bool input;
  uint32_t n, window_parts;
  bool failed; /* atomic */
} ItemsJob;

static bool
do_items (const ItemsJob *j, int64_t from, int64_t to)
{
  const Convolution *c = j->c;
  GmImageSource s;
  bool ok = gm_source_init (&s, j->input ? &c->y : &c->x, j->axes, j->input ? c->y_channels : c->x_channels, c->dtype, 0);
  size_t turned_bytes = j->input ? (size_t) (c->x_channels * c->y_channels * c->w.kernel[0] * c->w.kernel[1] * c->w.kernel[2]) * c->elem : 0;
  char *turned = turned_bytes ? gm_alloc (turned_bytes) : NULL;
  size_t scratch_bytes = gm_correlate_scratch (j->input ? c->x_channels : c->y_channels) * c->elem;
  void *scratch = gm_alloc (scratch_bytes);
  int64_t images = c->x.sizes[0], known = -1;
  ok = ok && scratch && (turned || !turned_bytes);
  for (int64_t i = from; ok && i < to; i++) {
    int64_t g = i / images, n = i % images;
    if (j->input && g != known)
      turn_weight (c, known = g, j->axes, turned);
    gm_source_read (&s, n, g * (j->input ? c->y_channels : c->x_channels));
    if (j->input)
      ok = correlate (c, &s, turned, c->x_channels, &c->x,
                      c->x.data + (size_t) (n * c->x.strides[0] + g * c->x_channels * c->x.strides[1] + j->start) * c->elem, c->w.stride,
                      j->window_parts, scratch);
    else
      ok = correlate (c, &s, c->weight + (size_t) (g * c->y_channels * s.windows.depth) * c->elem, c->y_channels, &c->y,
                      c->y.data + (size_t) (n * c->y.strides[0] + g * c->y_channels * c->y.strides[1]) * c->elem, (const int64_t[]){ 1, 1, 1 },
                      j->window_parts, scratch);
  }
  if (scratch)
    gm_free (scratch, scratch_bytes);
  if (turned)
    gm_free (turned, turned_bytes);
  gm_source_clear (&s);
  return ok;
}

static void
items_part (void *arg, uint32_t part)
{
  ItemsJob *j = arg;
  int64_t items = j->c->groups * j->c->x.sizes[0];
  if (!do_items (j, items * part / j->n, items * (part + 1) / j->n))
    __atomic_store_n (&j->failed, true, __ATOMIC_RELAXED);
}

/* In parts of images and groups if there are some, else of windows. */
static bool
run_items (ItemsJob *j, double work)
{
  const Convolution *c = j->c;
  j->n = parts_of (c->groups * c->x.sizes[0], work, MOST_PARTS);
  j->window_parts = j->n > 1 ? 1 : parts_of (MOST_PARTS, work, MOST_PARTS);
  gm_threads_run (j->n, items_part, j);
  return !j->failed;
}

static bool
run_forward (const Convolution *c)
{
  GmAxis axes[SPACE];
  for (int d = 0; d < SPACE; d++)
    axes[d] = gm_axis_forward (&c->w, d, c->x.sizes[2 + d], c->y.sizes[2 + d]);
  return run_items (&(ItemsJob){ .c = c, .axes = axes }, work_of (c));
}

static bool
run_phase (const Convolution *c, const int64_t *phase)
{
  GmAxis axes[SPACE];
  int64_t start = 0;
  for (int d = 0; d < SPACE; d++) {
    axes[d] = gm_axis_phase (&c->w, d, phase[d], c->x.sizes[2 + d], c->y.sizes[2 + d]);
    if (axes[d].n_out == 0)
      return true;
    start += phase[d] * c->x.strides[2 + d];
  }
  return run_items (&(ItemsJob){ .c = c, .axes = axes, .start = start, .input = true },
                    work_of (c) / (double) (c->w.stride[0] * c->w.stride[1] * c->w.stride[2]));
}

static bool
run_input (const Convolution *c)
{
  bool ok = true;
  int64_t phase[SPACE];
  for (phase[0] = 0; ok && phase[0] < c->w.stride[0]; phase[0]++)
    for (phase[1] = 0; ok && phase[1] < c->w.stride[1]; phase[1]++)
      for (phase[2] = 0; ok && phase[2] < c->w.stride[2]; phase[2]++)
        ok = run_phase (c, phase);
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

typedef struct {
  const Convolution *c;
  const GmWindows *windows;
  const char *panel;
  char *sums;
  int64_t columns;
  uint32_t n;
} WeighJob;

static void
weigh_places (void *arg, uint32_t part)
{
  const WeighJob *j = arg;
  GmWindows w = *j->windows;
  int64_t from = w.depth * part / j->n, to = w.depth * (part + 1) / j->n;
  w.places += from;
  w.depth = to - from;
  j->c->tiles->weigh (&w, j->panel, j->columns, j->sums + (size_t) (from * GM_PANEL) * j->c->elem);
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
        WeighJob j = { c, &s->windows, t->panel, sums, MIN (last - r, by), 1 };
        j.n = parts_of (depth / 16, (double) windows * (double) depth * (double) j.columns, MOST_PARTS);
        gm_threads_run (j.n, weigh_places, &j);
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
