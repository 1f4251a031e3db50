/* SPDX-License-Identifier: Apache-2.0
 * convolve.c -- convolution and its two gradients as products with windows (core/tiles/convolve.h).
 *
 * Each is brought to one form: along every dimension result t reads, for tap m, element t * step +
 * first + m * by of some image. The result of a convolution reads its input so.  A gradient of the
 * input reads the result's gradient so too, if results are taken `stride` apart: each such phase
 * meets the same taps.  The gradient of the weight is the sum over all windows of the input times
 * the result's gradient.
 * Large ones are done in two steps by all threads.  First the images are laid out, with all that
 * the second step reads in another order, each piece once.  Then the products are made in parts,
 * which share no element of the result and lay nothing out again.  As many images are taken at a
 * time as the caches hold.  Where a group has one or two channels there is no product worth the
 * name: a part then lays out its own channels, and works line by line.
 * The choice of a way follows from the metas alone, so equal metas give equal bits.  f16 and bf16
 * are cast to f32, and the result rounded once.
 */
#include "core/base/threads.h"
#include "core/ops/infer.h"
#include "core/ops/windows.h"

#include <string.h>

typedef struct {
  GmWindow w;
  GmImage x, y; /* the operands with the shapes of the input, and of the result */
  char *weight;
  int64_t groups, x_channels, y_channels; /* of a group */
  const GmConvolveTiles *tiles;
  GmDtype dtype;
  size_t elem;
} Convolution;

/* -- Parts ------------------------------------------------------------------------------------- */

#define WORTH_PARTS ((double) (1 << 22)) /* multiply-adds */
#define MOST_PARTS 32
#define FEW_CHANNELS 2                 /* of a group, which is done line by line */
#define ROUND_BYTES ((size_t) 8 << 20) /* of what is laid out at a time, if that is an image */
#define ROW_UNIT 8                     /* rows of a product, and places, are cut at multiples */

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

/* Returns the work of a computation line by line, of so many multiply-adds, for one group of one
 * image after the other: a multiply-add takes eight times as long as in a product, and a group as
 * long as some thousands of those. */
static double
line_work (const Convolution *c, double work)
{
  return 8 * work + 4096 * (double) (c->groups * c->x.sizes[0]);
}

typedef struct {
  void (*task) (void *arg, int64_t i);
  void *arg;
  int64_t n;
  uint32_t parts;
} Tasks;

static void
tasks_part (void *arg, uint32_t part)
{
  const Tasks *t = arg;
  for (int64_t i = t->n * part / t->parts; i < t->n * (part + 1) / t->parts; i++)
    t->task (t->arg, i);
}

/* Calls task (arg, i) for each i < n, in at most so many parts. */
static void
run_tasks (int64_t n, uint32_t parts, void (*task) (void *arg, int64_t i), void *arg)
{
  Tasks t = { task, arg, n, (uint32_t) MIN (MAX (n, 1), (int64_t) parts) };
  gm_threads_run (t.parts, tasks_part, &t);
}

/* Returns the first of `n` items that piece i of `pieces` has, at a multiple of `unit`, or n. */
static int64_t
piece_start (int64_t n, int64_t unit, int64_t i, int64_t pieces)
{
  return MIN ((n + unit - 1) / unit * i / pieces * unit, n);
}

/* Returns how many images are laid out at a time, of which each takes so many bytes: as many each
 * time, but for the last. */
static int64_t
images_of_round (int64_t images, size_t bytes)
{
  int64_t fit = bytes ? (int64_t) CLAMP (ROUND_BYTES / bytes, 1, (size_t) images) : images,
          rounds = (images + fit - 1) / fit;
  return (images + rounds - 1) / rounds;
}

/* -- The weight for gradients of the input ----------------------------------------------------- */

#define TURNED 16 /* channels that are turned together, on both sides */

/* Copies the taps of one channel that meet in a phase. */
#define COPY_TAPS(T)                                                                               \
  static void copy_taps_##T (const Convolution *c, const GmAxis *a, const T *from, T *to)          \
  {                                                                                                \
    for (int64_t i = 0; i < a[0].taps; i++)                                                        \
      for (int64_t j = 0; j < a[1].taps; j++) {                                                    \
        const T *line =                                                                            \
            from                                                                                   \
            + ((a[0].tap + i * a[0].tap_by) * c->w.kernel[1] + a[1].tap + j * a[1].tap_by)         \
                  * c->w.kernel[2]                                                                 \
            + a[2].tap;                                                                            \
        for (int64_t l = 0; l < a[2].taps; l++)                                                    \
          *to++ = line[l * a[2].tap_by];                                                           \
      }                                                                                            \
  }
COPY_TAPS (float)
COPY_TAPS (double)

/* Writes, of a group's row-major weight [o, c / groups, kernel ...], the taps that meet in a phase
 * of each channel of the input: [c][o][taps], for channels from `first` to `end`. */
static void
turn_weight (const Convolution *c, int64_t group, const GmAxis *axes, int64_t first, int64_t end,
             char *turned)
{
  int64_t kernel = c->w.kernel[0] * c->w.kernel[1] * c->w.kernel[2], row = c->x_channels * kernel,
          taps = axes[0].taps * axes[1].taps * axes[2].taps;
  const char *weight = c->weight + (size_t) (group * c->y_channels * row) * c->elem;
  if (kernel == 1 && taps == 1) {
    c->tiles->transpose (turned + (size_t) (first * c->y_channels) * c->elem, c->y_channels,
                         weight + (size_t) first * c->elem, row, c->y_channels, end - first);
    return;
  }
  for (int64_t o = 0; o < c->y_channels; o += TURNED)
    for (int64_t x = first; x < end; x++)
      for (int64_t y = o; y < MIN (o + TURNED, c->y_channels); y++) {
        const char *from = weight + (size_t) (y * row + x * kernel) * c->elem;
        char *to = turned + (size_t) ((x * c->y_channels + y) * taps) * c->elem;
        if (taps == kernel)
          gm_copy_few (to, from, (size_t) kernel * c->elem);
        else if (c->elem == sizeof (float))
          copy_taps_float (c, axes, (const float *) from, (float *) to);
        else
          copy_taps_double (c, axes, (const double *) from, (double *) to);
      }
}

/* -- The result, and the gradient of the input ------------------------------------------------- */

/* The forward, or (input) a phase of the gradient of the input. */
typedef struct {
  const Convolution *c;
  const GmAxis *axes;
  int64_t start; /* start of the phase in the result */
  bool input;
  int64_t rows;         /* of a group: channels of the result */
  GmImageSource source; /* of images first, first + 1, ... */
  char *turned;         /* the weight, [group] as turn_weight has it */
  int64_t first, turns; /* turns: pieces of the weight to be turned */
  int64_t row_parts, column_parts;
  bool failed; /* atomic */
} Correlations;

static void
lay_out (void *arg, int64_t i)
{
  Correlations *j = arg;
  const Convolution *c = j->c;
  if (i >= j->turns) {
    i -= j->turns;
    gm_source_copy (&j->source, j->first, i / j->source.copied, i % j->source.copied,
                    j->first == 0);
    return;
  }
  int64_t pieces = j->turns / c->groups, group = i / pieces, first = i % pieces * TURNED;
  turn_weight (c, group, j->axes, first, MIN (first + TURNED, c->x_channels),
               j->turned + (size_t) (group * j->rows * j->source.windows.depth) * c->elem);
}

static void
correlate_piece (void *arg, int64_t i)
{
  Correlations *j = arg;
  const Convolution *c = j->c;
  const GmImage *out = j->input ? &c->x : &c->y;
  int64_t column = i % j->column_parts, row = i / j->column_parts % j->row_parts,
          group = i / j->column_parts / j->row_parts;
  int64_t from = piece_start (j->rows, ROW_UNIT, row, j->row_parts),
          to = piece_start (j->rows, ROW_UNIT, row + 1, j->row_parts);
  GmCorrelation job = { .windows = j->source.windows,
                        .rows = to - from,
                        .out_row = out->strides[1],
                        .out_image = out->strides[0] };
  GmWindows *w = &job.windows;
  for (int d = 0; d < SPACE; d++)
    job.out_step[d] = out->strides[2 + d] * (j->input ? c->w.stride[d] : 1);
  gm_windows_merge (w, job.out_step);
  int64_t all = w->images * w->size[0] * w->size[1] * w->size[2], row_at = group * j->rows + from;
  job.from = piece_start (all, c->tiles->panel, column, j->column_parts);
  job.to = piece_start (all, c->tiles->panel, column + 1, j->column_parts);
  job.a = (j->turned ? j->turned : c->weight) + (size_t) (row_at * w->depth) * c->elem;
  job.out = out->data
            + (size_t) (j->first * out->strides[0] + row_at * out->strides[1] + j->start) * c->elem;
  if (w->source)
    w->source = (const char *) w->source
                + (size_t) (group * j->source.channels * j->source.per_channel) * c->elem;
  size_t bytes = gm_correlate_scratch (job.rows) * c->elem;
  job.scratch = gm_alloc (bytes);
  if (!job.scratch) {
    __atomic_store_n (&j->failed, true, __ATOMIC_RELAXED);
    return;
  }
  c->tiles->correlate (&job);
  gm_free (job.scratch, bytes);
}

#define FEW_PANELS                                                                                 \
  16 /* of fewer, the rows are cut first: each part reads its rows for all panels */
#define LEAST_ROWS 96 /* of a part: each part gathers its panels for itself */

/* Decides in which pieces the images of a round are multiplied. */
static void
cut_pieces (Correlations *j, int64_t images, uint32_t parts)
{
  const GmWindows *w = &j->source.windows;
  int64_t windows = images * w->size[0] * w->size[1] * w->size[2],
          panels = (windows + j->c->tiles->panel - 1) / j->c->tiles->panel,
          wanted = (parts + j->c->groups - 1) / j->c->groups;
  j->row_parts = panels < FEW_PANELS ? CLAMP (j->rows / LEAST_ROWS, 1, wanted) : 1;
  j->column_parts = CLAMP (wanted / j->row_parts, 1, MAX (panels, 1));
}

static bool
run_shared (Correlations *j, double work)
{
  const Convolution *c = j->c;
  const GmImage *image = j->input ? &c->y : &c->x;
  int64_t images = image->sizes[0],
          at_once = images_of_round (images, gm_source_image_bytes (image, j->axes, c->dtype));
  bool ok = gm_source_init_shared (&j->source, image, j->axes,
                                   j->input ? c->y_channels : c->x_channels, at_once, c->dtype);
  size_t turned_bytes =
      j->input ? (size_t) (c->groups * j->rows * j->source.windows.depth) * c->elem : 0;
  ok = ok && (!turned_bytes || (j->turned = gm_alloc (turned_bytes)));
  for (; ok && j->first < images; j->first += at_once) {
    int64_t n = MIN (at_once, images - j->first),
            copies = j->source.copy ? n * j->source.copied : 0;
    uint32_t parts = parts_of (MOST_PARTS, work * (double) n / (double) images, MOST_PARTS);
    j->turns = j->turned && j->first == 0 ? c->groups * ((j->rows + TURNED - 1) / TURNED) : 0;
    gm_source_share (&j->source, j->first, n);
    run_tasks (j->turns + copies, parts, lay_out, j);
    cut_pieces (j, n, parts);
    run_tasks (c->groups * j->row_parts * j->column_parts, parts, correlate_piece, j);
    ok = !j->failed;
  }
  if (j->turned)
    gm_free (j->turned, turned_bytes);
  gm_source_clear (&j->source);
  return ok;
}

/* -- The same line by line --------------------------------------------------------------------- */

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
  j->c->tiles->correlate_lines (&job);
  if (part > 0)
    gm_free (job.scratch, bytes);
}

/* Images and groups, each alone. */
typedef struct {
  const Correlations *all;
  uint32_t n, window_parts;
  bool failed; /* atomic */
} ItemsJob;

/* Computes one group of one image.  scratch: for one of the parts. False: no memory. */
static bool
correlate_item (const ItemsJob *j, const GmImageSource *s, int64_t group, int64_t n, const void *a,
                void *scratch)
{
  const Correlations *all = j->all;
  const Convolution *c = all->c;
  const GmImage *out = all->input ? &c->x : &c->y;
  GmCorrelation job = { .windows = s->windows,
                        .rows = all->rows,
                        .a = a,
                        .out = out->data
                               + (size_t) (n * out->strides[0] + group * all->rows * out->strides[1]
                                           + all->start)
                                     * c->elem,
                        .out_row = out->strides[1],
                        .scratch = scratch };
  for (int d = 0; d < SPACE; d++)
    job.out_step[d] = out->strides[2 + d] * (all->input ? c->w.stride[d] : 1);
  gm_windows_merge (&job.windows, job.out_step);
  int64_t cut = job.windows.size[cut_dimension (&job.windows)];
  WindowsJob w = { .c = c,
                   .whole = &job,
                   .n = (uint32_t) CLAMP (cut, 1, (int64_t) j->window_parts) };
  gm_threads_run (w.n, correlate_windows, &w);
  return !w.failed;
}

static bool
do_items (const ItemsJob *j, int64_t from, int64_t to)
{
  const Correlations *all = j->all;
  const Convolution *c = all->c;
  GmImageSource s;
  int64_t channels = all->input ? c->y_channels : c->x_channels;
  bool ok = gm_source_init (&s, all->input ? &c->y : &c->x, all->axes, channels, c->dtype, 0);
  size_t weight_bytes = (size_t) (all->rows * s.windows.depth) * c->elem;
  char *turned = all->input && weight_bytes ? gm_alloc (weight_bytes) : NULL;
  size_t scratch_bytes = gm_correlate_scratch (all->rows) * c->elem;
  void *scratch = gm_alloc (scratch_bytes);
  int64_t images = c->x.sizes[0], known = -1;
  ok = ok && scratch && (turned || !all->input || !weight_bytes);
  for (int64_t i = from; ok && i < to; i++) {
    int64_t g = i / images, n = i % images;
    if (turned && g != known)
      turn_weight (c, known = g, all->axes, 0, c->x_channels, turned);
    gm_source_read (&s, n, g * channels);
    ok = correlate_item (j, &s, g, n, turned ? turned : c->weight + (size_t) g * weight_bytes,
                         scratch);
  }
  if (scratch)
    gm_free (scratch, scratch_bytes);
  if (turned)
    gm_free (turned, weight_bytes);
  gm_source_clear (&s);
  return ok;
}

static void
items_part (void *arg, uint32_t part)
{
  ItemsJob *j = arg;
  int64_t items = j->all->c->groups * j->all->c->x.sizes[0];
  if (!do_items (j, items * part / j->n, items * (part + 1) / j->n))
    __atomic_store_n (&j->failed, true, __ATOMIC_RELAXED);
}

/* Runs parts of images and groups if there are several, else of windows. */
static bool
run_items (const Correlations *all, double work)
{
  const Convolution *c = all->c;
  ItemsJob j = { .all = all, .n = parts_of (c->groups * c->x.sizes[0], work, MOST_PARTS) };
  j.window_parts = j.n > 1 ? 1 : parts_of (MOST_PARTS, work, MOST_PARTS);
  gm_threads_run (j.n, items_part, &j);
  return !j.failed;
}

static bool
run_correlations (Correlations *j, double work)
{
  j->rows = j->input ? j->c->x_channels : j->c->y_channels;
  return j->rows <= FEW_CHANNELS ? run_items (j, line_work (j->c, work)) : run_shared (j, work);
}

static bool
run_forward (const Convolution *c)
{
  GmAxis axes[SPACE];
  for (int d = 0; d < SPACE; d++)
    axes[d] = gm_axis_forward (&c->w, d, c->x.sizes[2 + d], c->y.sizes[2 + d]);
  return run_correlations (&(Correlations){ .c = c, .axes = axes }, work_of (c));
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
  return run_correlations (&(Correlations){ .c = c, .axes = axes, .start = start, .input = true },
                           work_of (c)
                               / (double) (c->w.stride[0] * c->w.stride[1] * c->w.stride[2]));
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

/* Channels of the result are weighed in panels, each for some places of the kernel at a time.  The
 * result's gradient is turned first: [panel of all groups][image][window][channel of the panel].
 * Panels of groups with few channels are mostly zeros, so that all of them could take many times
 * the memory of the gradient: only some panels are turned, and weighed, at a time. */
typedef struct {
  const Convolution *c;
  GmImageSource source;
  char *turned;
  int64_t panels;         /* of a group */
  int64_t windows, depth; /* of an image; places of the kernel */
  int64_t first, images;  /* of this round */
  int64_t at;             /* first of the panels of all groups that are turned now */
  int64_t pieces;         /* of the places */
  bool failed;            /* atomic */
} Weighing;

/* The channels of the result in panel i of those that are turned now. */
typedef struct {
  int64_t group, first, n;
  char *turned; /* of the round's first image */
} Panel;

static Panel
panel_at (const Weighing *j, int64_t i)
{
  const Convolution *c = j->c;
  int64_t by = c->tiles->panel, panel = j->at + i, at = panel % j->panels * by;
  return (Panel){ .group = panel / j->panels,
                  .first = panel / j->panels * c->y_channels + at,
                  .n = MIN (c->y_channels - at, by),
                  .turned = j->turned + (size_t) (i * j->images * j->windows * by) * c->elem };
}

/* Returns the number of pieces of images that are copied before the round's first panels. */
static int64_t
copies_of (const Weighing *j)
{
  return j->source.copy && j->at == 0 ? j->images * j->source.copied : 0;
}

static void
lay_out_weighing (void *arg, int64_t i)
{
  Weighing *j = arg;
  const Convolution *c = j->c;
  int64_t copies = copies_of (j), by = c->tiles->panel;
  if (i < copies) {
    gm_source_copy (&j->source, j->first, i / j->source.copied, i % j->source.copied,
                    j->first == 0);
    return;
  }
  i -= copies;
  Panel p = panel_at (j, i / j->images);
  int64_t n = i % j->images;
  char *to = p.turned + (size_t) (n * j->windows * by) * c->elem;
  if (p.n < by) /* zeros for the columns without a channel */
    memset (to, 0, (size_t) (j->windows * by) * c->elem);
  c->tiles->transpose (
      to, by,
      c->y.data + (size_t) ((j->first + n) * c->y.strides[0] + p.first * j->windows) * c->elem,
      j->windows, p.n, j->windows);
}

/* Sums a panel for some places: from 0, or from what the rounds before have left in the result. */
static void
weigh_piece (void *arg, int64_t i)
{
  Weighing *j = arg;
  const Convolution *c = j->c;
  Panel p = panel_at (j, i / j->pieces);
  int64_t from = piece_start (j->depth, ROW_UNIT, i % j->pieces, j->pieces),
          to = piece_start (j->depth, ROW_UNIT, i % j->pieces + 1, j->pieces), by = c->tiles->panel;
  char *weight = c->weight + (size_t) (p.first * j->depth + from) * c->elem;
  GmWindows w = j->source.windows;
  w.source = (const char *) w.source
             + (size_t) (p.group * c->x_channels * j->source.per_channel) * c->elem;
  w.places += from;
  w.depth = to - from;
  size_t bytes = (size_t) (w.depth * by) * c->elem;
  char *sums = w.depth ? gm_alloc (2 * bytes) : NULL;
  if (!sums) {
    if (w.depth)
      __atomic_store_n (&j->failed, true, __ATOMIC_RELAXED);
    return;
  }
  memset (sums, 0, bytes);
  if (j->first > 0)
    c->tiles->transpose (sums, by, weight, j->depth, p.n, w.depth);
  c->tiles->weigh (&w, p.turned, p.n, sums, sums + bytes);
  c->tiles->transpose (weight, j->depth, sums, by, w.depth, p.n);
  gm_free (sums, 2 * bytes);
}

#define SPARSE_BYTES ((size_t) 4 << 20) /* of panels that are turned at a time */
#define MOST_PLACES 1024                /* of a piece: its sums stay in the cache */
#define LEAST_PLACES 64

static bool
run_weighing (const Convolution *c, const GmAxis *axes)
{
  int64_t by = c->tiles->panel, images = c->x.sizes[0];
  Weighing j = { .c = c,
                 .panels = (c->y_channels + by - 1) / by,
                 .windows = gm_image_volume (&c->y) };
  int64_t panels = c->groups * j.panels;
  size_t panel_bytes = (size_t) (j.windows * by) * c->elem, turned = panel_bytes * (size_t) panels,
         channels = (size_t) (c->groups * c->y_channels * j.windows) * c->elem;
  bool sparse = turned / 2 > channels; /* more than half of the columns have no channel */
  int64_t at_once = images_of_round (images, (sparse ? channels : turned)
                                                 + gm_source_image_bytes (&c->x, axes, c->dtype));
  panel_bytes *= (size_t) at_once;
  int64_t most = sparse ? (int64_t) CLAMP (SPARSE_BYTES / panel_bytes, 1, (size_t) panels) : panels;
  bool ok = gm_source_init_shared (&j.source, &c->x, axes, c->x_channels, at_once, c->dtype);
  gm_windows_merge (&j.source.windows, c->y.strides + 2);
  j.depth = j.source.windows.depth;
  j.turned = ok ? gm_alloc (panel_bytes * (size_t) most) : NULL;
  ok = j.turned != NULL;
  for (; ok && j.first < images; j.first += at_once) {
    j.images = MIN (at_once, images - j.first);
    uint32_t parts =
        parts_of (MOST_PARTS, work_of (c) * (double) j.images / (double) images, MOST_PARTS);
    j.pieces = MAX ((j.depth + MOST_PLACES - 1) / MOST_PLACES,
                    MIN (j.depth / LEAST_PLACES, (parts + panels - 1) / panels));
    gm_source_share (&j.source, j.first, j.images);
    for (j.at = 0; j.at < panels; j.at += most) {
      int64_t taken = MIN (most, panels - j.at);
      run_tasks (copies_of (&j) + taken * j.images, parts, lay_out_weighing, &j);
      run_tasks (taken * j.pieces, parts, weigh_piece, &j);
    }
    ok = !j.failed;
  }
  if (j.turned)
    gm_free (j.turned, panel_bytes * (size_t) most);
  gm_source_clear (&j.source);
  return ok;
}

/* Groups of few channels, whose vectors are lines of windows. */
typedef struct {
  const Convolution *c;
  const GmAxis *axes;
  uint32_t n;
  bool failed; /* atomic */
} LinesJob;

static bool
weigh_groups (const LinesJob *j, int64_t from, int64_t to)
{
  const Convolution *c = j->c;
  GmImageSource s;
  bool ok = gm_source_init (&s, &c->x, j->axes, c->x_channels, c->dtype, 0);
  gm_windows_merge (&s.windows, c->y.strides + 2);
  int64_t depth = s.windows.depth, windows = gm_image_volume (&c->y);
  size_t channel_bytes = (size_t) (depth * GM_WINDOW_CHAINS) * c->elem,
         bytes = (size_t) c->y_channels * channel_bytes;
  char *chains = ok ? gm_alloc (bytes) : NULL;
  for (int64_t g = from; chains && g < to; g++) {
    memset (chains, 0, bytes);
    for (int64_t n = 0; n < c->y.sizes[0]; n++) {
      gm_source_read (&s, n, g * c->x_channels);
      for (int64_t y = 0; y < c->y_channels; y++)
        c->tiles->weigh_line (
            &s.windows,
            c->y.data
                + (size_t) (n * c->y.strides[0] + (g * c->y_channels + y) * windows) * c->elem,
            chains + (size_t) y * channel_bytes);
    }
    c->tiles->fold_chains (c->weight + (size_t) (g * c->y_channels * depth) * c->elem, chains,
                           c->y_channels * depth);
  }
  if (chains)
    gm_free (chains, bytes);
  gm_source_clear (&s);
  return chains != NULL;
}

static void
lines_part (void *arg, uint32_t part)
{
  LinesJob *j = arg;
  if (!weigh_groups (j, j->c->groups * part / j->n, j->c->groups * (part + 1) / j->n))
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
  if (c->y_channels > FEW_CHANNELS)
    return run_weighing (c, axes);
  LinesJob j = { .c = c,
                 .axes = axes,
                 .n = parts_of (c->groups, line_work (c, work_of (c)), MOST_PARTS) };
  gm_threads_run (j.n, lines_part, &j);
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
    return gm_infer_fail (error, GM_ERROR_MEMORY, "%s: no memory for a copy of an image",
                          gm_ops[op].name);
  if (r != out)
    gm_copy_strided (out, r);
  return true;
}
