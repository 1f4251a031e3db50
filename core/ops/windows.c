/* SPDX-License-Identifier: Apache-2.0
 * windows.c -- images laid out for the kernels of core/tiles/convolve.h: see windows.h.
 *
 * What is chosen follows from the metas alone, so equal metas give equal bits.
 */
#include "core/ops/windows.h"

#include <string.h>

/* -- Along one dimension ----------------------------------------------------------------------- */

static void
find_cover (GmAxis *a)
{
  int64_t last = a->first + (a->taps - 1) * a->by, least = MIN (a->first, last),
          most = MAX (a->first, last);
  a->before = MAX (-least, 0);
  a->covered = (a->n_out - 1) * a->step + most + a->before + 1;
}

GmAxis
gm_axis_forward (const GmWindow *w, int d, int64_t n_in, int64_t n_out)
{
  GmAxis a = { .n_out = n_out,
               .n_in = n_in,
               .taps = w->kernel[d],
               .step = w->stride[d],
               .first = -w->pad[d],
               .by = w->dilation[d],
               .tap_by = 1 };
  find_cover (&a);
  return a;
}

GmAxis
gm_axis_phase (const GmWindow *w, int d, int64_t phase, int64_t n_in, int64_t n_out)
{
  int64_t stride = w->stride[d], dilation = w->dilation[d], x = stride, y = dilation;
  while (y) {
    int64_t rest = x % y;
    x = y;
    y = rest;
  }
  GmAxis a = { .n_out = phase < n_in ? (n_in - phase - 1) / stride + 1 : 0,
               .n_in = n_out,
               .step = 1,
               .by = -dilation / x,
               .tap_by = stride / x };
  while (a.tap < w->kernel[d] && (phase + w->pad[d] - a.tap * dilation) % stride != 0
         && a.tap < a.tap_by)
    a.tap++;
  if (a.tap < a.tap_by && a.tap < w->kernel[d])
    a.taps = (w->kernel[d] - 1 - a.tap) / a.tap_by + 1;
  if (a.taps) {
    a.first = (phase + w->pad[d] - a.tap * dilation) / stride;
    find_cover (&a);
  }
  return a;
}

/* -- Images ------------------------------------------------------------------------------------ */

GmImage
gm_image_of (const GmTensor *t)
{
  GmImage i = { .data = gm_tensor_data (t),
                .sizes = { t->meta.sizes[0], t->meta.sizes[1] },
                .strides = { t->meta.strides[0], t->meta.strides[1] } };
  int space = t->meta.ndim - 2;
  for (int d = 0; d < SPACE; d++) {
    int from = 2 + d - (SPACE - space);
    i.sizes[2 + d] = from < 2 ? 1 : t->meta.sizes[from];
    i.strides[2 + d] = from < 2 ? 0 : t->meta.strides[from];
  }
  return i;
}

/* Returns a column's place in a copied line: columns that are `step` apart lie beside each
 * other. */
static int64_t
column_place (const GmImageSource *s, int64_t x)
{
  const GmAxis *a = &s->axes[SPACE - 1];
  int64_t width = (a->covered - 1) / a->step + 1;
  return (x + a->before) % a->step * width + (x + a->before) / a->step;
}

static bool
reads_in_place (const GmImage *image, const GmAxis *axes)
{
  for (int d = 0; d < SPACE; d++)
    if (axes[d].before || axes[d].covered > axes[d].n_in)
      return false;
  return axes[SPACE - 1].step == 1 && (image->strides[4] == 1 || image->sizes[4] == 1);
}

void
gm_windows_merge (GmWindows *w, const int64_t *out_step)
{
  if (w->size[1] > 1 && (w->step[1] != w->size[2] || out_step[1] != out_step[2] * w->size[2]))
    return;
  w->size[2] *= w->size[1];
  w->size[1] = 1;
  if (w->size[0] > 1 && (w->step[0] != w->size[2] || out_step[0] != out_step[2] * w->size[2]))
    return;
  w->size[2] *= w->size[0];
  w->size[0] = 1;
}

/* Computes the size of a copy of the image, in elements; false if it overflows. */
static bool
copied_elements (const GmAxis *axes, int64_t channels, int64_t *line, int64_t *per_channel,
                 int64_t *all)
{
  *line = axes[2].step * ((axes[2].covered - 1) / axes[2].step + 1);
  if (__builtin_mul_overflow (*line, axes[1].covered, per_channel)
      || __builtin_mul_overflow (*per_channel, axes[0].covered, per_channel)
      || *per_channel > INT64_MAX / 16)
    return false;
  if (*per_channel % 512 == 0) /* channels that fight for one set of the cache */
    *per_channel += 16;
  return !__builtin_mul_overflow (*per_channel, channels, all) && *all < INT64_MAX / 16;
}

/* Prepares a source of images with `copied` channels, whose copy has no contents yet. */
static bool
source_prepare (GmImageSource *s, const GmImage *image, const GmAxis *axes, int64_t channels,
                int64_t copied, int64_t images, GmDtype dtype)
{
  GmWindows *w = &s->windows;
  size_t elem = gm_dtype_size (dtype);
  *s = (GmImageSource){ .image = image,
                        .tiles = gm_run_tiles->convolve (dtype),
                        .channels = channels,
                        .copied = copied,
                        .elem = elem };
  memcpy (s->axes, axes, sizeof s->axes);
  w->depth = channels * axes[0].taps * axes[1].taps * axes[2].taps;
  w->images = images;
  for (int d = 0; d < SPACE; d++)
    w->size[d] = axes[d].n_out;
  s->places_bytes = MAX ((size_t) w->depth, 1) * sizeof *s->places;
  s->places = gm_alloc (s->places_bytes);
  if (!s->places)
    return false;
  w->places = s->places;
  if (w->depth == 0) /* no tap meets an element: empty sums */
    return true;
  s->in_place = w->tight = reads_in_place (image, axes);
  int64_t line = image->strides[3], plane = image->strides[2], all = 0;
  s->per_channel = image->strides[1];
  w->image_step = image->strides[0];
  if (!s->in_place) {
    if (!copied_elements (axes, copied * images, &line, &s->per_channel, &all))
      return false;
    plane = line * axes[1].covered;
    w->image_step = copied * s->per_channel;
  }
  s->line_elems = line;
  w->step[0] = plane * axes[0].step;
  w->step[1] = line * axes[1].step;
  int64_t k = 0;
  for (int64_t c = 0; c < channels; c++)
    for (int64_t i = 0; i < axes[0].taps; i++)
      for (int64_t j = 0; j < axes[1].taps; j++)
        for (int64_t l = 0; l < axes[2].taps; l++)
          s->places[k++] = c * s->per_channel
                           + (axes[0].first + i * axes[0].by + axes[0].before) * plane
                           + (axes[1].first + j * axes[1].by + axes[1].before) * line
                           + column_place (s, axes[2].first + l * axes[2].by);
  if (s->in_place)
    return true;
  s->copy_bytes = ((size_t) all + GM_WINDOW_SLACK) * elem;
  s->copy = gm_alloc (s->copy_bytes);
  w->source = s->copy;
  return s->copy != NULL;
}

bool
gm_source_init (GmImageSource *s, const GmImage *image, const GmAxis *axes, int64_t channels,
                GmDtype dtype, double padding)
{
  if (!source_prepare (s, image, axes, channels, channels, 1, dtype))
    return false;
  if (!s->copy)
    return true;
  memset (s->copy, 0, s->copy_bytes); /* the padding, once: no image writes it */
  int64_t all = (int64_t) (s->copy_bytes / s->elem) - GM_WINDOW_SLACK;
  for (int64_t i = 0; padding != 0 && i < all; i++)
    gm_scalar_store (gm_scalar_float (padding), dtype, s->copy + (size_t) i * s->elem);
  return true;
}

bool
gm_source_init_shared (GmImageSource *s, const GmImage *image, const GmAxis *axes, int64_t channels,
                       int64_t images, GmDtype dtype)
{
  if (!source_prepare (s, image, axes, channels, image->sizes[1], images, dtype))
    return false;
  size_t slack = GM_WINDOW_SLACK * s->elem;
  if (s->copy)
    memset (s->copy + s->copy_bytes - slack, 0, slack);
  return true;
}

size_t
gm_source_image_bytes (const GmImage *image, const GmAxis *axes, GmDtype dtype)
{
  int64_t line, per_channel, all;
  bool copies = !reads_in_place (image, axes)
                && copied_elements (axes, image->sizes[1], &line, &per_channel, &all);
  return copies ? (size_t) all * gm_dtype_size (dtype) : 0;
}

void
gm_source_clear (GmImageSource *s)
{
  if (s->places)
    gm_free (s->places, s->places_bytes);
  if (s->copy)
    gm_free (s->copy, s->copy_bytes);
}

static void
copy_line (const GmImageSource *s, char *to, const char *from)
{
  const GmAxis *a = &s->axes[SPACE - 1];
  int64_t stride = s->image->strides[4], n = MIN (a->n_in, a->covered - a->before);
  if (n <= 0)
    return;
  if (a->step == 1 && stride == 1) {
    gm_copy_few (to + (size_t) a->before * s->elem, from, (size_t) n * s->elem);
    return;
  }
  int64_t done = 0;
  if (a->step == 2 && stride == 1) {
    done = n / 2 * 2;
    s->tiles->part (to + (size_t) column_place (s, 0) * s->elem,
                    to + (size_t) column_place (s, 1) * s->elem, from, n / 2);
  }
  for (int64_t phase = done; phase < MIN (done + a->step, n); phase++)
    gm_run_tiles->gather (to + (size_t) column_place (s, phase) * s->elem,
                          from + phase * stride * (int64_t) s->elem, stride * a->step,
                          (size_t) ((n - phase - 1) / a->step + 1), s->elem);
}

/* Copies a channel's lines, which begin at `from`, to those of the copy at `to`. */
static void
copy_channel (const GmImageSource *s, char *to, const char *from)
{
  const GmImage *m = s->image;
  const GmAxis *a = s->axes;
  for (int64_t i = 0; i < MIN (a[0].n_in, a[0].covered - a[0].before); i++)
    for (int64_t j = 0; j < MIN (a[1].n_in, a[1].covered - a[1].before); j++)
      copy_line (
          s,
          to
              + (size_t) (((i + a[0].before) * a[1].covered + j + a[1].before) * s->line_elems)
                    * s->elem,
          from + (i * m->strides[2] + j * m->strides[3]) * (int64_t) s->elem);
}

void
gm_source_read (GmImageSource *s, int64_t n, int64_t first)
{
  const GmImage *m = s->image;
  const char *from = m->data + (n * m->strides[0] + first * m->strides[1]) * (int64_t) s->elem;
  if (s->in_place)
    s->windows.source = from;
  for (int64_t c = 0; s->copy && c < s->channels; c++)
    copy_channel (s, s->copy + (size_t) (c * s->per_channel) * s->elem,
                  from + c * m->strides[1] * (int64_t) s->elem);
}

void
gm_source_share (GmImageSource *s, int64_t n, int64_t images)
{
  s->windows.images = images;
  if (s->in_place)
    s->windows.source = s->image->data + n * s->image->strides[0] * (int64_t) s->elem;
}

void
gm_source_copy (const GmImageSource *s, int64_t n, int64_t i, int64_t channel, bool fresh)
{
  const GmImage *m = s->image;
  if (!s->copy)
    return;
  char *to = s->copy + (size_t) ((i * s->copied + channel) * s->per_channel) * s->elem;
  if (fresh)
    memset (to, 0, (size_t) s->per_channel * s->elem);
  copy_channel (s, to,
                m->data + ((n + i) * m->strides[0] + channel * m->strides[1]) * (int64_t) s->elem);
}

/* -- Tensors ----------------------------------------------------------------------------------- */

GmTensor *
gm_plain_tensor (GmTensor *x, GmDtype dtype, bool fill, GError **error)
{
  if (x->meta.dtype == dtype && gm_meta_is_contiguous (&x->meta))
    return gm_tensor_ref (x);
  GmMeta meta = x->meta;
  meta.dtype = (uint8_t) dtype;
  gm_meta_set_contiguous (&meta);
  GmTensor *t = gm_tensor_new (&meta, error);
  if (t && fill)
    gm_copy_strided (t, x);
  return t;
}
