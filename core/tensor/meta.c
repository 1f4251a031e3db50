/* SPDX-License-Identifier: Apache-2.0
 * meta.c -- arithmetic on shapes and strides.
 *
 * Sizes come from users, so products saturate at INT64_MAX instead of wrapping: a tensor that cannot exist then fails where
 * its memory is asked for, with a message, and nothing in between sees a small wrong number.
 */
#include "core/tensor/meta.h"

#include <string.h>

#include "core/base/error.h"

static int64_t
mul_saturating (int64_t a, int64_t b)
{
  int64_t r;
  return __builtin_mul_overflow (a, b, &r) ? INT64_MAX : r;
}

static int64_t
add_saturating (int64_t a, int64_t b)
{
  int64_t r;
  return __builtin_add_overflow (a, b, &r) ? INT64_MAX : r;
}

/* -- Making ------------------------------------------------------------------------------------------------ */

void
gm_meta_set_contiguous (GmMeta *m)
{
  int64_t stride = 1;
  for (int i = m->ndim; i-- > 0;) {
    m->strides[i] = stride;
    stride = mul_saturating (stride, MAX (m->sizes[i], 1)); /* as torch: an empty dimension counts as 1 */
  }
}

GmMeta
gm_meta_make (GmDtype dtype, int ndim, const int64_t *sizes)
{
  g_assert (ndim >= 0 && ndim <= GM_MAX_DIMS);
  GmMeta m = { .dtype = (uint8_t) dtype, .ndim = (uint8_t) ndim, .device = GM_DEVICE_CPU };
  for (int i = 0; i < ndim; i++)
    m.sizes[i] = sizes[i];
  gm_meta_set_contiguous (&m);
  return m;
}

/* -- Asking ------------------------------------------------------------------------------------------------ */

int64_t
gm_meta_numel (const GmMeta *m)
{
  int64_t n = 1;
  for (int i = 0; i < m->ndim; i++) {
    if (m->sizes[i] == 0)
      return 0; /* also after a product that saturated */
    n = mul_saturating (n, m->sizes[i]);
  }
  return n;
}

bool
gm_meta_is_contiguous (const GmMeta *m)
{
  int64_t expect = 1;
  bool regular = true;
  for (int i = m->ndim; i-- > 0;) {
    int64_t size = m->sizes[i];
    if (size == 0)
      return true;
    if (size == 1)
      continue; /* its stride is never used */
    regular &= m->strides[i] == expect;
    expect = mul_saturating (expect, size);
  }
  return regular;
}

bool
gm_meta_is_dense (const GmMeta *m)
{
  if (gm_meta_is_contiguous (m))
    return true;
  /* Dimensions that matter, ordered by stride: each must start where the smaller ones end. */
  int order[GM_MAX_DIMS], n = 0;
  for (int i = 0; i < m->ndim; i++) {
    if (m->sizes[i] == 1)
      continue;
    int at = n++;
    for (; at > 0 && m->strides[order[at - 1]] > m->strides[i]; at--)
      order[at] = order[at - 1];
    order[at] = i;
  }
  int64_t expect = 1;
  for (int k = 0; k < n; k++) {
    if (m->strides[order[k]] != expect)
      return false;
    expect = mul_saturating (expect, m->sizes[order[k]]);
  }
  return true;
}

/* Insertion sort: the largest stride first, of equal ones the larger size. */
void
gm_meta_order (const GmMeta *m, int64_t order[GM_MAX_DIMS])
{
  for (int i = 0; i < m->ndim; i++) {
    int k = i;
    for (; k > 0; k--) {
      int64_t d = order[k - 1];
      if (m->strides[d] > m->strides[i] || (m->strides[d] == m->strides[i] && m->sizes[d] >= m->sizes[i]))
        break;
      order[k] = d;
    }
    order[k] = i;
  }
}

void
gm_meta_set_like (GmMeta *m, const GmMeta *like)
{
  int64_t order[GM_MAX_DIMS], stride = 1;
  if (gm_meta_is_contiguous (like) || !gm_meta_is_dense (like)) {
    gm_meta_set_contiguous (m);
    return;
  }
  gm_meta_order (like, order);
  for (int k = like->ndim; k-- > 0; stride *= like->sizes[order[k]])
    m->strides[order[k]] = stride;
}

bool
gm_meta_same_shape (const GmMeta *a, const GmMeta *b)
{
  return a->ndim == b->ndim && !memcmp (a->sizes, b->sizes, sizeof (int64_t) * a->ndim);
}

int64_t
gm_meta_extent (const GmMeta *m)
{
  int64_t extent = 1;
  for (int i = 0; i < m->ndim; i++) {
    if (m->sizes[i] == 0)
      return 0;
    int64_t step = m->strides[i] < 0 ? -m->strides[i] : m->strides[i];
    extent = add_saturating (extent, mul_saturating (m->sizes[i] - 1, step));
  }
  return extent;
}

/* -- Broadcasting ------------------------------------------------------------------------------------------ */

bool
gm_meta_broadcast (const GmMeta *a, const GmMeta *b, GmMeta *out, GError **error)
{
  int ndim = MAX (a->ndim, b->ndim);
  int64_t sizes[GM_MAX_DIMS] = { 0 };
  for (int i = 1; i <= ndim; i++) { /* i counts from the end */
    int64_t x = i <= a->ndim ? a->sizes[a->ndim - i] : 1;
    int64_t y = i <= b->ndim ? b->sizes[b->ndim - i] : 1;
    if (x != y && x != 1 && y != 1) {
      g_autofree char *ta = gm_shape_text (a->ndim, a->sizes);
      g_autofree char *tb = gm_shape_text (b->ndim, b->sizes);
      g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME,
                   "shapes %s and %s cannot be broadcast together: %" G_GINT64_FORMAT " and %" G_GINT64_FORMAT
                   " meet in dimension %d of the result; sizes must be equal, or one of them 1",
                   ta, tb, x, y, ndim - i);
      return false;
    }
    sizes[ndim - i] = x == 1 ? y : x;
  }
  out->ndim = (uint8_t) ndim;
  memcpy (out->sizes, sizes, sizeof sizes);
  return true;
}

/* -- Text -------------------------------------------------------------------------------------------------- */

char *
gm_shape_text (int ndim, const int64_t *sizes)
{
  GString *s = g_string_new ("[");
  for (int i = 0; i < ndim; i++)
    g_string_append_printf (s, "%s%" G_GINT64_FORMAT, i ? ", " : "", sizes[i]);
  g_string_append_c (s, ']');
  return g_string_free (s, FALSE);
}

char *
gm_meta_text (const GmMeta *m)
{
  g_autofree char *shape = gm_shape_text (m->ndim, m->sizes);
  return g_strconcat (gm_dtypes[m->dtype].text, shape, NULL);
}
