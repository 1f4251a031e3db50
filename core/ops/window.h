/* SPDX-License-Identifier: Apache-2.0
 * window.h -- the WINDOW attribute: how a small kernel moves over an image.
 *
 * Twelve numbers: for each of three dimensions the kernel's size, then each stride, each width of
 * the padding in front, each dilation.  An image with fewer dimensions of space has the last ones;
 * of those that it lacks the kernel's size, the stride and the dilation are 1, and the padding 0.
 * The places behind the image that the result's size asks for are padding, too.
 */
#ifndef GM_OPS_WINDOW_H
#define GM_OPS_WINDOW_H

#include "core/ops/ops.h"

#include <string.h>

#define GM_WINDOW_DIMS 3

typedef struct {
  int64_t kernel[GM_WINDOW_DIMS], stride[GM_WINDOW_DIMS], pad[GM_WINDOW_DIMS],
      dilation[GM_WINDOW_DIMS];
} GmWindow;

G_STATIC_ASSERT (sizeof (GmWindow) == sizeof ((GmAttrs *) 0)->window);

static inline void
gm_window_read (const GmAttrs *attrs, GmWindow *out)
{
  memcpy (out, attrs->window, sizeof *out);
}

#endif
