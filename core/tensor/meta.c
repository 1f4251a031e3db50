/* SPDX-License-Identifier: Apache-2.0
 * meta.c -- arithmetic on shapes and strides.
 *
 * Sizes come from users, so products saturate at INT64_MAX instead of wrapping: a tensor that
 * cannot exist then fails when its memory is allocated, with a message, and no code in between sees
 * a small wrong number. Functions compare symbolic sizes as rarely as possible, because each answer
 * is a guard: first they compare two strides, which mostly are equal for certain, and only then
 * test if a size is 0 or 1, so that the stride does not matter.
 */
#include "core/tensor/meta.h"

#include <string.h>

#include "core/base/error.h"

/* -- Making ------------------------------------------------------------------------------------ */

void
gm_meta_set_contiguous (GmMeta *m)
{
  int64_t stride = 1;
  for (int i = m->ndim; i-- > 0;) {
    m->strides[i] = stride;
    if (i)
      /* as torch: an empty dimension counts as 1 */
      stride = gm_size_mul (stride, gm_size_at_least_1 (m->sizes[i]));
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

/* -- Queries ----------------------------------------------------------------------------------- */

int64_t
gm_meta_numel (const GmMeta *m)
{
  int64_t n = 1;
  for (int i = 0; i < m->ndim; i++) {
    if (m->sizes[i] == 0)
      return 0; /* also after a product that saturated */
    n = gm_size_mul (n, m->sizes[i]);
  }
  return n;
}

bool
gm_meta_is_symbolic (const GmMeta *m)
{
  for (int i = 0; i < m->ndim; i++)
    if (gm_size_is_symbolic (m->sizes[i]) || gm_size_is_symbolic (m->strides[i]))
      return true;
  return false;
}

void
gm_meta_set_numbers (GmMeta *m)
{
  for (int i = 0; i < m->ndim; i++) {
    m->sizes[i] = gm_size_number (m->sizes[i]);
    m->strides[i] = gm_size_number (m->strides[i]);
  }
}

static bool
is_contiguous_symbolic (const GmMeta *m)
{
  int64_t expect = 1;
  bool regular = true;
  for (int i = 0; i < m->ndim; i++)
    if (m->sizes[i] == 0)
      return true;
  for (int i = m->ndim; i-- > 0 && regular;) {
    bool used = !gm_size_same (m->sizes[i], 1);
    if (used && !gm_size_same (m->strides[i], expect)) {
      used = !gm_size_eq (m->sizes[i], 1);
      regular = !used || gm_size_eq (m->strides[i], expect);
    }
    if (used && i)
      expect = gm_size_mul (expect, m->sizes[i]);
  }
  for (int i = 0; i < m->ndim && !regular; i++)
    regular = gm_size_is_symbolic (m->sizes[i]) && gm_size_eq_if_known (m->sizes[i], 0);
  return regular;
}

bool
gm_meta_is_contiguous (const GmMeta *m)
{
  int64_t expect = 1;
  bool regular = true;
  for (int i = m->ndim; i-- > 0;) {
    int64_t size = m->sizes[i];
    if (gm_size_is_symbolic (size) || gm_size_is_symbolic (m->strides[i]))
      return is_contiguous_symbolic (m);
    if (size == 0)
      return true;
    if (size == 1)
      continue; /* its stride is never used */
    regular &= m->strides[i] == expect;
    expect = gm_size_mul (expect, size);
  }
  return regular;
}

/* True if m is dense for all values of the sizes that only the run knows, which must not be
 * compared. */
static bool
is_dense_anyway (const GmMeta *m)
{
  const GmSizes *sizes = gm_sizes_current ();
  int order[GM_MAX_DIMS], n = 0;
  int64_t expect = 1;
  for (int i = 0; i < m->ndim; i++) {
    int at = n;
    if (gm_size_is_symbolic (m->strides[i])
        || (gm_size_is_symbolic (m->sizes[i])
            && (!sizes || gm_sizes_has_hint (sizes, m->sizes[i]))))
      return false;
    if (m->sizes[i] == 1)
      continue;
    for (; at > 0 && m->strides[i] < m->strides[order[at - 1]]; at--)
      order[at] = order[at - 1];
    order[at] = i;
    n++;
  }
  for (int k = 0; k < n; k++) {
    int64_t size = m->sizes[order[k]];
    if (m->strides[order[k]] != expect || (k + 1 < n && gm_size_is_symbolic (size)))
      return false;
    expect = k + 1 < n ? gm_size_mul (expect, size) : 0;
  }
  return true;
}

bool
gm_meta_is_in_format (const GmMeta *m, const char *format)
{
  int last = !format                                    ? 0
             : strcmp (format, "channels_last") == 0    ? 4
             : strcmp (format, "channels_last_3d") == 0 ? 5
                                                        : 0;
  if (last == 0)
    return gm_meta_is_contiguous (m);
  if (m->ndim != last)
    return false;
  GmMeta turned = *m; /* with the channels behind the other dimensions */
  for (int i = 1; i < last; i++) {
    int from = i + 1 < last ? i + 1 : 1;
    turned.sizes[i] = m->sizes[from];
    turned.strides[i] = m->strides[from];
  }
  return gm_meta_is_contiguous (&turned);
}

bool
gm_meta_is_dense (const GmMeta *m)
{
  if (is_dense_anyway (m) || gm_meta_is_contiguous (m))
    return true;
  for (int i = 0; i < m->ndim; i++)
    if (m->strides[i] == 0 && !gm_size_is_symbolic (m->sizes[i]) && m->sizes[i] > 1)
      return false; /* it repeats, whatever the other sizes are */
  /* Dimensions that matter, ordered by stride: each must start where the smaller ones end. */
  int order[GM_MAX_DIMS], n = 0;
  for (int i = 0; i < m->ndim; i++) {
    if (gm_size_eq (m->sizes[i], 1))
      continue;
    int at = n++;
    for (; at > 0 && gm_size_lt (m->strides[i], m->strides[order[at - 1]]); at--)
      order[at] = order[at - 1];
    order[at] = i;
  }
  int64_t expect = 1;
  for (int k = 0; k < n; k++) {
    if (!gm_size_eq (m->strides[order[k]], expect))
      return false;
    if (k + 1 < n)
      expect = gm_size_mul (expect, m->sizes[order[k]]);
  }
  return true;
}

/* Sorts dimensions by insertion: the largest stride first, of equal strides the larger size. */
void
gm_meta_order (const GmMeta *m, int64_t order[GM_MAX_DIMS])
{
  for (int i = 0; i < m->ndim; i++) {
    int k = i;
    for (; k > 0; k--) {
      int64_t d = order[k - 1];
      bool same = gm_size_same (m->strides[d], m->strides[i]);
      if ((!same && gm_size_lt (m->strides[i], m->strides[d]))
          || ((same || gm_size_eq (m->strides[d], m->strides[i]))
              && gm_size_le (m->sizes[i], m->sizes[d])))
        break;
      order[k] = d;
    }
    order[k] = i;
  }
}

bool
gm_meta_is_in_order (const GmMeta *m)
{
  for (int i = 0; i < m->ndim; i++)
    if (gm_size_is_symbolic (m->strides[i]) || (i && m->strides[i - 1] <= m->strides[i]))
      return gm_meta_is_contiguous (m);
  return true;
}

void
gm_meta_set_like (GmMeta *m, const GmMeta *like)
{
  int64_t order[GM_MAX_DIMS], stride = 1;
  if (gm_meta_is_in_order (like) || !gm_meta_is_dense (like)) {
    gm_meta_set_contiguous (m);
    return;
  }
  gm_meta_order (like, order);
  for (int k = like->ndim; k-- > 0; stride = k ? gm_size_mul (stride, like->sizes[order[k]]) : 0)
    m->strides[order[k]] = stride;
}

bool
gm_meta_same_shape (const GmMeta *a, const GmMeta *b)
{
  if (a->ndim != b->ndim)
    return false;
  bool identical = true;
  for (int i = 0; i < a->ndim; i++)
    if (a->sizes[i] != b->sizes[i]) {
      if (gm_sizes_are_numbers (a->sizes[i], b->sizes[i]))
        return false; /* returns before symbols are compared */
      identical = false;
    }
  if (identical)
    return true;
  for (int i = 0; i < a->ndim; i++)
    if (gm_size_guess (a->sizes[i], 0) != gm_size_guess (b->sizes[i], 0)
        && !gm_size_eq (a->sizes[i], b->sizes[i]))
      return false; /* the size that differs */
  for (int i = 0; i < a->ndim; i++)
    if (!gm_size_eq (a->sizes[i], b->sizes[i]))
      return false;
  return true;
}

int64_t
gm_meta_extent (const GmMeta *m)
{
  int64_t extent = 1;
  for (int i = 0; i < m->ndim; i++) {
    if (gm_size_eq (m->sizes[i], 0))
      return 0;
    int64_t step = m->strides[i];
    if (!gm_size_is_symbolic (step))
      step = ABS (step);
    extent = gm_size_add (extent, gm_size_mul (gm_size_sub (m->sizes[i], 1), step));
  }
  return extent;
}

/* -- Broadcasting ------------------------------------------------------------------------------ */

bool
gm_meta_broadcast (const GmMeta *a, const GmMeta *b, GmMeta *out, GError **error)
{
  int ndim = MAX (a->ndim, b->ndim);
  int64_t sizes[GM_MAX_DIMS] = { 0 };
  for (int i = 1; i <= ndim; i++) { /* i counts from the end */
    int64_t x = i <= a->ndim ? a->sizes[a->ndim - i] : 1;
    int64_t y = i <= b->ndim ? b->sizes[b->ndim - i] : 1;
    if (!gm_size_broadcast (x, y, &sizes[ndim - i])) {
      g_autofree char *ta = gm_shape_text (a->ndim, a->sizes);
      g_autofree char *tb = gm_shape_text (b->ndim, b->sizes);
      g_autofree char *tx = gm_size_text (x), *ty = gm_size_text (y);
      g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME,
                   "shapes %s and %s cannot be broadcast together: %s and %s meet in dimension %d "
                   "of the result; sizes must be "
                   "equal, or one of them 1",
                   ta, tb, tx, ty, ndim - i);
      return false;
    }
  }
  out->ndim = (uint8_t) ndim;
  memcpy (out->sizes, sizes, sizeof sizes);
  return true;
}

/* -- Text -------------------------------------------------------------------------------------- */

char *
gm_shape_text (int ndim, const int64_t *sizes)
{
  GString *s = g_string_new ("[");
  for (int i = 0; i < ndim; i++) {
    g_autofree char *size = gm_size_text (sizes[i]);
    g_string_append_printf (s, "%s%s", i ? ", " : "", size);
  }
  g_string_append_c (s, ']');
  return g_string_free (s, FALSE);
}

char *
gm_meta_text (const GmMeta *m)
{
  g_autofree char *shape = gm_shape_text (m->ndim, m->sizes);
  return g_strconcat (gm_dtypes[m->dtype].text, shape, NULL);
}

char *
gm_meta_layout_text (const GmMeta *m)
{
  g_autofree char *type = gm_meta_text (m);
  g_autofree char *strides = gm_shape_text (m->ndim, m->strides);
  return g_strdup_printf ("%s with strides %s", type, strides);
}

bool
gm_meta_same_layout (const GmMeta *a, const GmMeta *b)
{
  return a->dtype == b->dtype && gm_meta_same_shape (a, b)
         && memcmp (a->strides, b->strides, sizeof a->strides) == 0;
}

bool
gm_meta_is_laid_out (const GmMeta *a, const GmMeta *b)
{
  for (int d = 0; d < b->ndim; d++)
    if (b->sizes[d] > 1 && a->strides[d] != b->strides[d])
      return false;
  return true;
}
