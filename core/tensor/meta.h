/* SPDX-License-Identifier: Apache-2.0
 * meta.h -- the type of a tensor without its data: an immutable value, passed and compared by
 * value.
 *
 * Shape rules map metas to metas; a graph's values carry one; guards are made from one.  Sizes are
 * elements; a size, and a stride, is a number or an expression (core/sym/sizes.h): the functions
 * below work for both, with the thread's current sizes where there are expressions.  Strides are in
 * elements.  Unused entries are zero, so that two metas compare by memcmp.
 */
#ifndef GM_TENSOR_META_H
#define GM_TENSOR_META_H

#include "core/sym/sizes.h"
#include "core/tensor/dtype.h"

#define GM_MAX_DIMS 8

typedef enum { GM_DEVICE_CPU = 1, GM_DEVICE_CUDA = 2 } GmDeviceType; /* DLPack's codes */

typedef struct {
  uint8_t dtype; /* GmDtype */
  uint8_t ndim;
  uint8_t device;        /* GmDeviceType */
  uint8_t requires_grad; /* as autograd sees it at this point */
  uint32_t reserved;
  int64_t sizes[GM_MAX_DIMS];
  int64_t strides[GM_MAX_DIMS];
} GmMeta;

/* Returns a contiguous (row-major) meta on the CPU.  ndim <= GM_MAX_DIMS. */
GmMeta gm_meta_make (GmDtype dtype, int ndim, const int64_t *sizes);
void gm_meta_set_contiguous (GmMeta *m);
bool gm_meta_is_contiguous (const GmMeta *m);
/* True if m has that memory_format; NULL, or any text but "channels_last" and "channels_last_3d",
 * means row-major. */
bool gm_meta_is_in_format (const GmMeta *m, const char *format);
/* True if m is contiguous, or its strides fall from each dimension to the next: a result with the
 * same layout is row-major, whatever symbolic sizes are. */
bool gm_meta_is_in_order (const GmMeta *m);
/* True if some order of the dimensions makes m contiguous: no gaps, no overlap. */
bool gm_meta_is_dense (const GmMeta *m);
/* Gives m, of the shape of `like`, the strides of a result with the same layout: row-major if
 * `like` is contiguous or has gaps, else in its order of the dimensions. Strides that no element
 * depends on (of a size of 1) follow from the order, too. */
void gm_meta_set_like (GmMeta *m, const GmMeta *like);
/* Lists in `order` the dimensions from the outermost in memory to the innermost. */
void gm_meta_order (const GmMeta *m, int64_t order[GM_MAX_DIMS]);
bool gm_meta_same_shape (const GmMeta *a, const GmMeta *b);
/* True if a size or a stride is an expression. */
bool gm_meta_is_symbolic (const GmMeta *m);
/* Replaces expressions in m by their numbers in this call; that they are equal becomes a fact. */
void gm_meta_set_numbers (GmMeta *m);
/* Returns the number of elements. */
int64_t gm_meta_numel (const GmMeta *m);
/* Returns the elements from the first to one past the last that the meta can reach (0 if empty):
 * the storage needed. */
int64_t gm_meta_extent (const GmMeta *m);

/* Broadcasts shapes as torch does: sizes aligned at the end, 1 repeats.  Writes ndim and sizes of
 * *out, nothing else.  False and GM_ERROR_RUNTIME with both shapes in the message if they do not
 * fit. */
bool gm_meta_broadcast (const GmMeta *a, const GmMeta *b, GmMeta *out, GError **error);

/* Returns "f32[64, 10]"; the shape alone is "[64, 10]".  Caller frees. */
char *gm_meta_text (const GmMeta *m);
char *gm_meta_layout_text (const GmMeta *m); /* "f32[2, 3] with strides [3, 1]" */
/* True if the elements of a have the strides of b, which has the same sizes; strides that no
 * element depends on may differ. */
bool gm_meta_is_laid_out (const GmMeta *a, const GmMeta *b);
/* True if shape, dtype and strides are the same. */
bool gm_meta_same_layout (const GmMeta *a, const GmMeta *b);
char *gm_shape_text (int ndim, const int64_t *sizes);

#endif
