/* SPDX-License-Identifier: Apache-2.0
 * convolve.c -- convolution and its two gradients as products with windows (core/tiles/convolve.h).
 *
 * Each is brought to one form: along every dimension result t reads, for tap m, element t * step +
 * first + m * by of some image. The result of a convolution reads its input so.  A gradient of the
 * input reads the result's gradient so too, if results are taken `stride` apart: each such phase
 * meets the same taps.  The gradient of the weight is the sum over all windows of the input times
 * the result's gradient.
 * Large ones are done in parts, by threads: an image and group each, or some windows, or, of the
 * gradient of the weight, some places of the kernel.  Parts share no element of the result. What is
 * chosen follows from the metas alone, so equal metas give equal bits.  f16 and bf16 are cast to
 * f32, and the result rounded once.
 */
#include "core/base/threads.h"
#include "core/ops/infer.h"
#include "core/ops/windows.h"

#include <string.h>

/* -- The result -------------------------------------------------------------------------------- */

typedef struct {
  GmWindow w;
  GmImage x, y; /* the operands with the shapes of the input, and of the result */
  char *weight;
  int64_t groups, x_channels, y_channels; /* of a group */
  const GmConvolveTiles *tiles;
  GmDtype dtype;
  size_t elem;
} Convolution;

#define WORTH_PARTS ((double) (1 << 22)) /* multiply-adds */
#define MOST_PARTS 32
#define LEAST_PLACES                                                                               \
  128 /* least number of places of the kernel in a part: each part turns the                       \
         gradient for itself */

/* Returns the number of parts, at most `most`, in which `n` items are computed, which take `work`
 * multiply-adds in all. */
static uint32_t
parts_of (int64_t n, double work, uint32_t most)
{
  bool worth = work >= WORTH_PARTS && n > 1 && gm_threads_count () > 1;
  return worth ? (uint32_t) MIN (MIN ((double) n, work / WORTH_PARTS * 2), (double) most) : 1;
}

static double
work_of (const Convolution *c)
{
  return (double) c->y.sizes[0] * (double) (c->groups * c->y_channels)
         * (double) gm_image_volume (&c->y) * (double) c->x_channels
         * (double) (c->w.kernel[0] * c->w.kernel[1] * c->w.kernel[2]);
}

/* Row-major weight [o, c / groups, kernel ...], and the taps that meet in a phase of each channel
 * of the input: [c][o][taps]. */
static void
turn_weight (const Convolution *c, int64_t group, const GmAxis *axes, char *to)
{
  int64_t kernel = c->w.kernel[0] * c->w.kernel[1] * c->w.kernel[2], row = c->x_channels * kernel;
  for (int64_t x = 0; x < c->x_channels; x++)
    for (int64_t y = 0; y < c->y_channels; y++)
      if (axes[0].taps * axes[1].taps * axes[2].taps == kernel) {
        gm_copy_few (
            to, c->weight + (size_t) ((group * c->y_channels + y) * row + x * kernel) * c->elem,
            (size_t) kernel * c->elem);
        to += (size_t) kernel * c->elem;
      } else
        for (int64_t i = 0; i < axes[0].taps; i++)
          for (int64_t j = 0; j < axes[1].taps; j++) {
            int64_t line = ((axes[0].tap + i * axes[0].tap_by) * c->w.kernel[1] + axes[1].tap
                            + j * axes[1].tap_by)
                           * c->w.kernel[2];
            const char *from =
                c->weight
                + (size_t) ((group * c->y_channels + y) * row + x * kernel + line + axes[2].tap)
                      * c->elem;
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

/* Returns the dimension along which windows are cut into parts. */
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

/* Computes one group of one image: rows are channels of the result, which begins at `at`. scratch:
 * for one of `parts`. False: no memory. */
static bool
correlate (const Convolution *c, const GmImageSource *s, const void *a, int64_t rows,
           const GmImage *out, char *at, const int64_t *apart, uint32_t parts, void *scratch)
{
  GmCorrelation job = { .windows = s->windows,
                        .rows = rows,
                        .a = a,
                        .out = at,
                        .out_row = out->strides[1],
                        .scratch = scratch };
  for (int d = 0; d < SPACE; d++)
    job.out_step[d] = out->strides[2 + d] * apart[d];
  gm_windows_merge (&job.windows, job.out_step);
  int64_t cut = job.windows.size[cut_dimension (&job.windows)];
  WindowsJob j = { .c = c, .whole = &job, .n = (uint32_t) CLAMP (cut, 1, (int64_t) parts) };
  gm_threads_run (j.n, correlate_windows, &j);
  return !j.failed;
}

/* Images and groups, each alone: of the forward, or (input) of a phase of the gradient of the
 * input. */
typedef struct {
  const Convolution *c;
  const GmAxis *axes;
  int64_t start; /* start of the phase */
  bool input;
  uint32_t n, window_parts;
  bool failed; /* atomic */
} ItemsJob;

static bool
do_items (const ItemsJob *j, int64_t from, int64_t to)
{
  const Convolution *c = j->c;
  GmImageSource s;
  bool ok = gm_source_init (&s, j->input ? &c->y : &c->x, j->axes,
                            j->input ? c->y_channels : c->x_channels, c->dtype, 0);
  size_t turned_bytes = j->input ? (size_t) (c->x_channels * c->y_channels * c->w.kernel[0]
                                             * c->w.kernel[1] * c->w.kernel[2])
                                       * c->elem
                                 : 0;
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
      ok = correlate (
          c, &s, turned, c->x_channels, &c->x,
          c->x.data
              + (size_t) (n * c->x.strides[0] + g * c->x_channels * c->x.strides[1] + j->start)
                    * c->elem,
          c->w.stride, j->window_parts, scratch);
    else
      ok = correlate (c, &s, c->weight + (size_t) (g * c->y_channels * s.windows.depth) * c->elem,
                      c->y_channels, &c->y,
                      c->y.data
                          + (size_t) (n * c->y.strides[0] + g * c->y_channels * c->y.strides[1])
                                * c->elem,
                      (const int64_t[]){ 1, 1, 1 }, j->window_parts, scratch);
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

/* Runs parts of images and groups if there are several, else of windows. */
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

/* -- The gradient of the weight ---------------------------------------------------------------- */

/* True for few channels, which are weighed each alone: lines of windows are the vectors. */
static bool
few (const Convolution *c)
{
  return c->y_channels <= 2;
}

/* Channels of the result that are weighed at once; those of a group are so many panels. */
static int64_t
panel_channels (const Convolution *c)
{
  return few (c) ? 1 : GM_PANEL;
}

/* Some panels of all groups, and of these some places of the kernel. */
typedef struct {
  const Convolution *c;
  const GmAxis *axes;
  int64_t panels;        /* of a group */
  uint32_t n, by_places; /* number of parts, and of those into which each range of panels is cut by
                            places */
  bool failed;           /* atomic */
} WeightJob;

/* One round of weighing: panels of one group from `first` to `end`, places from `from` to `to`. */
typedef struct {
  int64_t group, first, end, from, to;
  char *panel, *sums; /* the result's gradient turned; [panel][place][channel] */
} Weighing;

static void
weigh_image (const Convolution *c, const GmImageSource *s, const Weighing *t, int64_t n)
{
  int64_t windows = gm_image_volume (&c->y), by = panel_channels (c), depth = t->to - t->from;
  GmWindows w = s->windows;
  w.places += t->from;
  w.depth = depth;
  for (int64_t i = t->first; i < t->end; i++) {
    int64_t columns = MIN (c->y_channels - i * by, by);
    const char *from =
        c->y.data
        + (size_t) (n * c->y.strides[0] + (t->group * c->y_channels + i * by) * windows) * c->elem;
    char *sums =
        t->sums
        + (size_t) ((i - t->first) * depth * (few (c) ? GM_WINDOW_CHAINS : GM_PANEL)) * c->elem;
    if (few (c))
      c->tiles->weigh_line (&w, from, sums);
    else {
      c->tiles->transpose (t->panel, GM_PANEL, from, windows, columns, windows);
      c->tiles->weigh (&w, t->panel, columns, sums);
    }
  }
}

static void
put_weights (const Convolution *c, const Weighing *t, int64_t places)
{
  int64_t by = panel_channels (c), depth = t->to - t->from;
  for (int64_t i = t->first; i < t->end; i++) {
    char *to =
        c->weight + (size_t) ((t->group * c->y_channels + i * by) * places + t->from) * c->elem;
    char *sums =
        t->sums
        + (size_t) ((i - t->first) * depth * (few (c) ? GM_WINDOW_CHAINS : GM_PANEL)) * c->elem;
    if (few (c))
      c->tiles->fold_chains (to, sums, depth);
    else
      c->tiles->transpose (to, places, sums, GM_PANEL, depth, MIN (c->y_channels - i * by, by));
  }
}

/* Panels of all groups from `first` to `end`. */
static bool
weigh_panels (const WeightJob *j, int64_t first, int64_t end, uint32_t piece)
{
  const Convolution *c = j->c;
  GmImageSource s;
  bool ok = gm_source_init (&s, &c->x, j->axes, c->x_channels, c->dtype, 0);
  gm_windows_merge (&s.windows, c->y.strides + 2);
  int64_t places = s.windows.depth;
  Weighing t = { .from = places * piece / j->by_places, .to = places * (piece + 1) / j->by_places };
  size_t panel_bytes = (few (c) ? 1 : (size_t) gm_image_volume (&c->y) * GM_PANEL) * c->elem;
  size_t sums_bytes = (size_t) (MIN (end - first, j->panels) * MAX (t.to - t.from, 1)
                                * (few (c) ? GM_WINDOW_CHAINS : GM_PANEL))
                      * c->elem;
  t.panel = ok ? gm_alloc (panel_bytes) : NULL;
  t.sums = t.panel ? gm_alloc (sums_bytes) : NULL;
  ok = t.sums != NULL;
  if (ok)
    memset (t.panel, 0, panel_bytes); /* zeros for the columns without a channel */
  for (int64_t at = first; ok && at < end;) {
    t.group = at / j->panels;
    t.first = at % j->panels;
    t.end = MIN (j->panels, t.first + end - at);
    memset (t.sums, 0, sums_bytes);
    for (int64_t n = 0; n < c->y.sizes[0]; n++) {
      gm_source_read (&s, n, t.group * c->x_channels);
      weigh_image (c, &s, &t, n);
    }
    put_weights (c, &t, places);
    at += t.end - t.first;
  }
  if (t.panel)
    gm_free (t.panel, panel_bytes);
  if (t.sums)
    gm_free (t.sums, sums_bytes);
  gm_source_clear (&s);
  return ok;
}

static void
weigh_part (void *arg, uint32_t part)
{
  WeightJob *j = arg;
  int64_t ranges = j->n / j->by_places, panels = j->c->groups * j->panels,
          range = part / j->by_places;
  if (!weigh_panels (j, panels * range / ranges, panels * (range + 1) / ranges,
                     part % j->by_places))
    __atomic_store_n (&j->failed, true, __ATOMIC_RELAXED);
}

/* Each element is summed over all windows by one part, in the same order for any number of
 * parts. */
static bool
run_weight (const Convolution *c)
{
  GmAxis axes[SPACE];
  for (int d = 0; d < SPACE; d++)
    axes[d] = gm_axis_forward (&c->w, d, c->x.sizes[2 + d], c->y.sizes[2 + d]);
  int64_t by = panel_channels (c), panels = (c->y_channels + by - 1) / by;
  int64_t places = c->x_channels * c->w.kernel[0] * c->w.kernel[1] * c->w.kernel[2];
  uint32_t ranges = parts_of (c->groups * panels, work_of (c), MOST_PARTS);
  uint32_t by_places =
      few (c) || ranges * 2 > MOST_PARTS
          ? 1
          : parts_of (places / LEAST_PLACES, work_of (c) / ranges, MOST_PARTS / ranges);
  WeightJob j = {
    .c = c, .axes = axes, .panels = panels, .n = ranges * by_places, .by_places = by_places
  };
  gm_threads_run (j.n, weigh_part, &j);
  return !j.failed;
}

/* -- The entry --------------------------------------------------------------------------------- */

bool
gm_convolve_run (GmOp op, GmTensor *const *in, const GmAttrs *attrs, GmTensor *out, GError **error)
{
  if (gm_meta_numel (&out->meta) == 0)
    return true;
  GmDtype dtype = gm_dtype_compute (out->meta.dtype);
  g_autoptr (GmTensor) a = gm_plain_tensor (in[0], dtype, true, error),
                       b = a ? gm_plain_tensor (in[1], dtype, true, error) : NULL,
                       r = b ? gm_plain_tensor (out, dtype, false, error) : NULL;
  if (!r)
    return false;
  GmTensor *x = op == GM_OP_convolve_input ? r : a, *y = op == GM_OP_convolve         ? r
                                                         : op == GM_OP_convolve_input ? a
                                                                                      : b;
  GmTensor *weight = op == GM_OP_convolve_weight ? r : b;
  Convolution c = { .x = gm_image_of (x),
                    .y = gm_image_of (y),
                    .weight = gm_tensor_data (weight),
                    .tiles = gm_run_tiles->convolve (dtype),
                    .dtype = dtype,
                    .elem = gm_dtype_size (dtype) };
  gm_window_read (attrs, &c.w);
  c.x_channels = weight->meta.sizes[1];
  c.groups = c.x_channels ? c.x.sizes[1] / c.x_channels : 1;
  c.y_channels = c.groups ? weight->meta.sizes[0] / c.groups : 0;
  if (gm_meta_numel (&a->meta) == 0 || gm_meta_numel (&b->meta) == 0)
    memset (gm_tensor_data (r), 0, (size_t) gm_meta_numel (&r->meta) * c.elem);
  else if (!(op == GM_OP_convolve         ? run_forward (&c)
             : op == GM_OP_convolve_input ? run_input (&c)
                                          : run_weight (&c)))
    return gm_infer_fail (error, GM_ERROR_MEMORY, "%s: no memory for a copy of one image",
                          gm_ops[op].name);
  if (r != out)
    gm_copy_strided (out, r);
  return true;
}
