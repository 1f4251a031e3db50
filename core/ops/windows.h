/* SPDX-License-Identifier: Apache-2.0
 * windows.h -- images laid out for the kernels of core/tiles/convolve.h.
 *
 * Along every dimension result t meets, for tap m, element t * step + first + m * by of an image.
 * The image is copied once, with its padding, columns `step` apart beside each other; or read where
 * it is, if it needs neither.  Private to this room.
 */
#ifndef GM_OPS_WINDOWS_H
#define GM_OPS_WINDOWS_H

#include "core/ops/kernels.h"
#include "core/ops/window.h"

#include <string.h>

#define SPACE GM_WINDOW_DIMS

typedef struct {
  int64_t n_out, n_in;     /* results, and elements of the image */
  int64_t taps, step;      /* result t and tap m meet in */
  int64_t first, by;       /* t * step + first + m * by */
  int64_t tap, tap_by;     /* tap m is place tap + m * tap_by of the kernel */
  int64_t before, covered; /* padding in front, and number of elements read with it */
} GmAxis;

/* Returns the axis along which the results of a convolution read its input. */
GmAxis gm_axis_forward (const GmWindow *w, int d, int64_t n_in, int64_t n_out);
/* Returns the axis for elements phase, phase + stride, ... of the input as results: the results of
 * the convolution that have read them, and their places in the kernel. */
GmAxis gm_axis_phase (const GmWindow *w, int d, int64_t phase, int64_t n_in, int64_t n_out);

/* [n, channels, space ...], with dimensions of size 1 put in front of the space. */
typedef struct {
  char *data;
  int64_t sizes[2 + SPACE], strides[2 + SPACE];
} GmImage;

GmImage gm_image_of (const GmTensor *t);
/* Elements of a channel. */
static inline int64_t
gm_image_volume (const GmImage *i)
{
  return i->sizes[2] * i->sizes[3] * i->sizes[4];
}

/* Some channels of one image after the other, or all channels of several images, laid out so that
 * GmWindows can read them. */
typedef struct {
  GmWindows windows;
  const GmImage *image;
  const GmConvolveTiles *tiles;
  GmAxis axes[SPACE];
  int64_t channels;                /* that a window covers */
  int64_t copied;                  /* channels of an image in the copy */
  int64_t per_channel, line_elems; /* elements of the copy */
  size_t elem;
  bool in_place;
  char *copy;
  int64_t *places;
  size_t copy_bytes, places_bytes;
} GmImageSource;

/* Prepares a source. `dtype`: that of the elements, f32 or f64. padding: the value read outside of
 * the image. The image stays the caller's. False: no memory. The source must be cleared in any
 * case. */
bool gm_source_init (GmImageSource *s, const GmImage *image, const GmAxis *axes, int64_t channels,
                     GmDtype dtype, double padding);
/* The same for all channels of `images` images at a time, with zeros around them, which
 * gm_source_share and gm_source_copy fill.  channels: those that a window covers. */
bool gm_source_init_shared (GmImageSource *s, const GmImage *image, const GmAxis *axes,
                            int64_t channels, int64_t images, GmDtype dtype);
/* Makes images n to n + images the ones that the windows read, once gm_source_copy was called for
 * each of their channels. */
void gm_source_share (GmImageSource *s, int64_t n, int64_t images);
/* Copies a channel of image n + i, if anything is copied; with its padding if `fresh`.  Threads may
 * copy different channels at the same time. */
void gm_source_copy (const GmImageSource *s, int64_t n, int64_t i, int64_t channel, bool fresh);
/* Returns the bytes of the copy of one image, or 0 if it is read where it is or is too large. */
size_t gm_source_image_bytes (const GmImage *image, const GmAxis *axes, GmDtype dtype);
void gm_source_clear (GmImageSource *s);
/* Makes channels first, first + 1, ... of image n the ones that the windows read. */
void gm_source_read (GmImageSource *s, int64_t n, int64_t first);
/* Lines, and planes, that follow one another without a gap, in the result as well, become one line.
 */
void gm_windows_merge (GmWindows *w, const int64_t *out_step);

/* memcpy of multiples of 4 bytes that are mostly few: without a call. */
static inline void
gm_copy_few (char *to, const char *from, size_t bytes)
{
  size_t i = 0;
  for (; i + 16 <= bytes; i += 16)
    memcpy (to + i, from + i, 16);
  for (; i < bytes; i += 4)
    memcpy (to + i, from + i, 4);
}

/* Returns a new reference to a row-major tensor in `dtype`: x itself if it is such a tensor, else a
 * new one of its shape, with its elements if `fill`. */
GmTensor *gm_plain_tensor (GmTensor *x, GmDtype dtype, bool fill, GError **error);

#endif
