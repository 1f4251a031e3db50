/* SPDX-License-Identifier: Apache-2.0
 * api_shape.c -- functions that move elements and compute none.
 *
 * Most are views: programs of permute, expand, view, slice, diagonal and unfold.  What torch
 * returns as a view is a view here.
 */
#include "core/api/api_private.h"

/* -- Sizes ------------------------------------------------------------------------------------- */

static int
resolve_sizes (const GmApi *api, GmBuilder *b, const GmMeta *m, int64_t *sizes, int n)
{
  int64_t total = gm_meta_numel (m), known = 1, given[2 * GM_MAX_DIMS];
  int unknown = -1;
  memcpy (given, sizes, (size_t) n * sizeof *sizes);
  bool bad = false, overflow = false;
  for (int i = 0; i < n; i++) {
    if (sizes[i] == -1 && unknown < 0)
      unknown = i;
    else if (gm_size_lt (sizes[i], 0))
      bad = true;
    else if (gm_sizes_are_numbers (known, sizes[i]))
      overflow |= __builtin_mul_overflow (known, sizes[i], &known);
    else
      known = gm_size_mul (known, sizes[i]);
  }
  if (unknown >= 0 && gm_size_lt (0, known)) {
    bad |= !gm_size_eq (gm_size_mod (total, known), 0);
    sizes[unknown] = gm_size_floordiv (total, known);
  } else
    bad |= unknown >= 0 || !gm_size_eq (known, total);
  if (bad || overflow) {
    g_autofree char *from = gm_shape_text (m->ndim, m->sizes), *to = gm_shape_text (n, given),
                    *elements = gm_size_text (total);
    gm_b_fail (b, GM_ERROR_RUNTIME,
               "%s(): shape '%s' is invalid for an input of shape %s with %s elements", api->name,
               to, from, elements);
    return 0;
  }
  return n;
}

static GmArg
run_reshape (const GmApi *api, GmBuilder *b, GmArg *a, bool may_copy)
{
  int64_t sizes[GM_MAX_DIMS];
  GmVal v = TENSOR (0);
  int n = gm_arg_ints (api, b, a, 1, sizes);
  CHECK ();
  resolve_sizes (api, b, META (v), sizes, n);
  CHECK ();
  return gm_give (may_copy ? gm_b_reshape (b, v, n, sizes) : gm_b_view (b, v, n, sizes));
}

RUN (reshape)
{
  return run_reshape (api, b, a, true);
}

/* Returns the same bytes as elements of `dtype`: a view. */
static GmVal
view_as_dtype (GmBuilder *b, GmVal v, GmDtype dtype)
{
  const GmMeta *m = META (v);
  int64_t from = (int64_t) gm_dtype_size (m->dtype), to = (int64_t) gm_dtype_size (dtype);
  if (from < to && !b->vt->offset)
    return gm_b_fail (b, GM_ERROR_UNSUPPORTED,
                      "view(dtype): where input lies in its storage is known to plain Python only");
  int64_t offset = from < to ? b->vt->offset (b, v) : 0;
  if (from < to && !gm_b_failed (b) && !gm_size_eq (gm_size_mod (offset, to / from), 0)) {
    g_autofree char *text = gm_size_text (offset);
    return gm_b_fail (b, GM_ERROR_RUNTIME,
                      "view(): the input begins %s elements after the beginning of its memory; to "
                      "view %s as %s that must be a multiple of %" G_GINT64_FORMAT,
                      text, gm_dtypes[m->dtype].torch_name, gm_dtypes[dtype].torch_name, to / from);
  }
  return gm_b_bitcast (b, v, dtype);
}

RUN (view)
{
  const GmArg *size = &a[1];
  CHECK ();
  bool given = size->kind != GM_ARG_LIST || size->n > 0;
  const GmArg *dtype = !IS_NONE (2)                                ? &a[2]
                       : size->kind == GM_ARG_LIST && size->n == 1 ? size->items
                                                                   : size;
  if (!IS_NONE (2) && given)
    return gm_give (gm_b_fail (b, GM_ERROR_TYPE, "view() takes a size or a dtype, not both"));
  if (!IS_NONE (2) && dtype->kind != GM_ARG_DTYPE)
    return gm_give (gm_arg_fail (api, b, a, 2, "dtype"));
  return dtype->kind == GM_ARG_DTYPE ? gm_give (view_as_dtype (b, TENSOR (0), dtype->dtype))
                                     : run_reshape (api, b, a, false);
}

RUN (view_as)
{
  GmVal v = TENSOR (0), other = TENSOR (1);
  CHECK ();
  return gm_give (gm_b_view (b, v, META (other)->ndim, META (other)->sizes));
}

RUN (reshape_as)
{
  GmVal v = TENSOR (0), other = TENSOR (1);
  CHECK ();
  return gm_give (gm_b_reshape (b, v, META (other)->ndim, META (other)->sizes));
}

RUN (flatten)
{
  GmVal v = TENSOR (0);
  CHECK ();
  const GmMeta *m = META (v);
  int64_t sizes[GM_MAX_DIMS], one = 1;
  int first = gm_arg_dim (api, b, a, 1, m->ndim), last = gm_arg_dim (api, b, a, 2, m->ndim), n = 0;
  CHECK ();
  if (m->ndim == 0)
    return gm_give (gm_b_view (b, v, 1, &one));
  if (first > last)
    return gm_give (
        gm_b_fail (b, GM_ERROR_RUNTIME, "flatten(): start_dim cannot come after end_dim"));
  for (int d = 0; d < m->ndim; d++)
    if (d > first && d <= last)
      sizes[n - 1] = gm_size_mul (sizes[n - 1], m->sizes[d]);
    else
      sizes[n++] = m->sizes[d];
  return gm_give (gm_b_reshape (b, v, n, sizes));
}

RUN (ravel)
{
  GmVal v = TENSOR (0);
  CHECK ();
  int64_t n = gm_meta_numel (META (v));
  return gm_give (gm_b_contiguous (b, gm_b_reshape (b, v, 1, &n)));
}

RUN (unflatten)
{
  int64_t part[GM_MAX_DIMS], sizes[2 * GM_MAX_DIMS];
  GmVal v = TENSOR (0);
  CHECK ();
  const GmMeta *m = META (v);
  int dim = gm_arg_dim (api, b, a, 1, m->ndim), k = gm_arg_ints (api, b, a, 2, part), n = 0;
  GmMeta piece = gm_meta_make ((GmDtype) m->dtype, 1, &m->sizes[dim]);
  CHECK ();
  resolve_sizes (api, b, &piece, part, k);
  CHECK ();
  for (int d = 0; d < m->ndim; d++)
    if (d == dim)
      for (int i = 0; i < k; i++)
        sizes[n++] = part[i];
    else
      sizes[n++] = m->sizes[d];
  return gm_give (gm_b_view (b, v, n, sizes));
}

/* -- Order of dimensions ----------------------------------------------------------------------- */

RUN (permute)
{
  int64_t raw[GM_MAX_DIMS], dims[GM_MAX_DIMS];
  GmVal v = TENSOR (0);
  int n = gm_arg_ints (api, b, a, 1, raw);
  CHECK ();
  const GmMeta *m = META (v);
  uint32_t seen = 0;
  for (int i = 0; i < n; i++) {
    dims[i] = gm_wrap_dim (api, b, raw[i], m->ndim);
    seen |= 1u << dims[i];
  }
  CHECK ();
  if (n != m->ndim || (m->ndim && seen != (1u << m->ndim) - 1)) {
    g_autofree char *text = gm_shape_text (n, raw), *shape = gm_shape_text (m->ndim, m->sizes);
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "permute(): dims %s do not name each dimension of shape %s once",
                               text, shape));
  }
  return gm_give (gm_b_permute (b, v, dims));
}

RUN (transpose)
{
  GmVal v = TENSOR (0);
  CHECK ();
  int ndim = META (v)->ndim, d0 = gm_arg_dim (api, b, a, 1, ndim),
      d1 = gm_arg_dim (api, b, a, 2, ndim);
  CHECK ();
  return gm_give (gm_b_transpose (b, v, d0, d1));
}

RUN (t)
{
  GmVal v = TENSOR (0);
  CHECK ();
  int ndim = META (v)->ndim;
  if (ndim > 2)
    return gm_give (gm_b_fail (
        b, GM_ERROR_RUNTIME,
        "t() takes tensors of at most 2 dimensions, but this one has %d; use transpose", ndim));
  return gm_give (ndim == 2 ? gm_b_transpose (b, v, 0, 1) : v);
}

RUN (movedim)
{
  int64_t from[GM_MAX_DIMS], to[GM_MAX_DIMS], dims[GM_MAX_DIMS];
  GmVal v = TENSOR (0);
  int n = gm_arg_ints (api, b, a, 1, from), k = gm_arg_ints (api, b, a, 2, to);
  CHECK ();
  int ndim = META (v)->ndim;
  uint32_t moved = 0, filled = 0;
  for (int i = 0; i < n && i < k; i++) {
    from[i] = gm_wrap_dim (api, b, from[i], ndim);
    to[i] = gm_wrap_dim (api, b, to[i], ndim);
    moved |= 1u << from[i];
    filled |= 1u << to[i];
    dims[to[i]] = from[i];
  }
  CHECK ();
  if (n != k || __builtin_popcount (moved) != n || __builtin_popcount (filled) != n)
    return gm_give (gm_b_fail (
        b, GM_ERROR_RUNTIME,
        "movedim(): source and destination must be as many dimensions, each named once"));
  for (int d = 0, rest = 0; d < ndim; d++) {
    if (filled >> d & 1)
      continue;
    while (moved >> rest & 1)
      rest++;
    dims[d] = rest++;
  }
  return gm_give (gm_b_permute (b, v, dims));
}

/* -- Dimensions of size 1 ---------------------------------------------------------------------- */

static GmVal
squeeze_mask (GmBuilder *b, GmVal v, uint32_t mask)
{
  if (gm_b_failed (b))
    return NULL;
  const GmMeta *m = META (v);
  int64_t sizes[GM_MAX_DIMS];
  int n = 0;
  for (int d = 0; d < m->ndim; d++)
    if (!(mask >> d & 1) || !gm_size_eq (m->sizes[d], 1))
      sizes[n++] = m->sizes[d];
  return gm_b_view (b, v, n, sizes);
}

GmVal
gm_squeeze (GmBuilder *b, GmVal v, int dim)
{
  return squeeze_mask (b, v, 1u << dim);
}

GmVal
gm_unsqueeze (GmBuilder *b, GmVal v, int dim)
{
  if (gm_b_failed (b))
    return NULL;
  const GmMeta *m = META (v);
  int64_t sizes[GM_MAX_DIMS + 1];
  for (int d = 0, from = 0; d <= m->ndim; d++)
    sizes[d] = d == dim ? 1 : m->sizes[from++];
  return gm_b_view (b, v, m->ndim + 1, sizes);
}

RUN (squeeze)
{
  GmVal v = TENSOR (0);
  CHECK ();
  int64_t dims[GM_MAX_DIMS];
  int n;
  uint32_t mask = 0;
  if (IS_NONE (1))
    return gm_give (squeeze_mask (b, v, UINT32_MAX));
  gm_arg_dims (api, b, a, 1, META (v)->ndim, dims, &n);
  for (int i = 0; i < n; i++)
    mask |= 1u << dims[i];
  return gm_give (squeeze_mask (b, v, mask));
}

RUN (unsqueeze)
{
  GmVal v = TENSOR (0);
  CHECK ();
  int dim = gm_arg_dim (api, b, a, 1, META (v)->ndim + 1);
  return gm_give (gm_unsqueeze (b, v, dim));
}

/* -- What a tensor becomes (resize_, set_) ----------------------------------------------------- */

RUN (resize)
{
  int64_t sizes[GM_MAX_DIMS];
  GmVal v = TENSOR (0);
  int n = gm_arg_ints (api, b, a, 1, sizes);
  CHECK ();
  GmMeta to = gm_meta_make ((GmDtype) META (v)->dtype, n, sizes);
  if (META (v)->requires_grad)
    return gm_give (gm_b_fail (
        b, GM_ERROR_RUNTIME,
        "resize_(): a tensor that requires grad cannot be resized; use view or reshape"));
  bool same = n == META (v)->ndim;
  for (int d = 0; d < n; d++) {
    if (gm_size_lt (sizes[d], 0))
      return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                                 "resize_(): size %" G_GINT64_FORMAT " of dimension %d is negative",
                                 sizes[d], d));
    same = same && gm_size_eq (sizes[d], META (v)->sizes[d]);
  }
  if (same)
    return gm_give (v);
  if (gm_size_eq (gm_meta_numel (&to), gm_meta_numel (META (v)))
      && gm_meta_is_contiguous (META (v)))
    return gm_give (gm_b_view (b, v, n, sizes));
  if (b->vt->resized)
    return gm_give (b->vt->resized (b, v, n, sizes));
  g_autofree char *from = gm_shape_text (META (v)->ndim, META (v)->sizes),
                  *want = gm_shape_text (n, sizes);
  return gm_give (gm_b_fail (b, GM_ERROR_UNSUPPORTED,
                             "resize_(): from shape %s to %s: in a graph only a row-major tensor "
                             "to a shape with as many elements; plain Python "
                             "does it, or make a new tensor",
                             from, want));
}

RUN (set)
{
  GmVal v = TENSOR (0), source = TENSOR (1);
  CHECK ();
  if (META (v)->dtype != META (source)->dtype)
    return gm_give (gm_b_fail (
        b, GM_ERROR_RUNTIME, "set_(): a tensor of dtype %s cannot become one of dtype %s",
        gm_dtypes[META (v)->dtype].torch_name, gm_dtypes[META (source)->dtype].torch_name));
  if (IS_NONE (2) && IS_NONE (3) && IS_NONE (4))
    return gm_give (source);
  if (IS_NONE (3))
    return gm_give (gm_b_fail (
        b, GM_ERROR_TYPE, "set_(): a part of the memory has a size beside its offset and stride"));
  if (!b->vt->offset)
    return gm_give (
        gm_b_fail (b, GM_ERROR_UNSUPPORTED,
                   "set_(): the place of source in its storage is known to plain Python only"));
  int64_t sizes[GM_MAX_DIMS], offset = IS_NONE (2) ? 0 : INT (2);
  int n = gm_arg_ints (api, b, a, 3, sizes);
  CHECK ();
  offset += b->vt->offset (b, source);
  GmMeta rows = gm_meta_make ((GmDtype) META (source)->dtype, n, sizes);
  GmArg strides[GM_MAX_DIMS], part[] = { a[1], a[3], a[4], { .kind = GM_ARG_INT, .i = offset } };
  for (int i = 0; i < n; i++)
    strides[i] = (GmArg){ .kind = GM_ARG_INT, .i = rows.strides[i] };
  if (IS_NONE (4) || a[4].n == 0)
    part[2] = (GmArg){ .kind = GM_ARG_LIST, .n = (uint16_t) n, .items = strides };
  return gm_run_as_strided (gm_api_find ("as_strided"), b, part);
}

/* -- Repetition -------------------------------------------------------------------------------- */

RUN (expand)
{
  int64_t sizes[GM_MAX_DIMS];
  GmVal v = TENSOR (0);
  int n = gm_arg_ints (api, b, a, 1, sizes);
  CHECK ();
  const GmMeta *m = META (v);
  for (int i = 0, lead = n - m->ndim; i < n; i++)
    if (sizes[i] == -1 && i >= lead)
      sizes[i] = m->sizes[i - lead];
  return gm_give (gm_b_expand (b, v, n, sizes));
}

RUN (expand_as)
{
  GmVal v = TENSOR (0), other = TENSOR (1);
  CHECK ();
  return gm_give (gm_b_expand (b, v, META (other)->ndim, META (other)->sizes));
}

static GmVal
repeat_dims (const GmApi *api, GmBuilder *b, GmVal v, const int64_t *repeats, int n)
{
  const GmMeta *m = META (v);
  int64_t sizes[GM_MAX_DIMS];
  if (n < m->ndim)
    return gm_b_fail (b, GM_ERROR_RUNTIME,
                      "%s(): %d repeats for a tensor of %d dimensions; give one for each",
                      api->name, n, m->ndim);
  for (int d = 0; d < n; d++)
    sizes[d] = d < n - m->ndim ? 1 : m->sizes[d - (n - m->ndim)];
  v = gm_b_view (b, v, n, sizes);
  bool same = true;
  for (int d = 0; d < n; d++) {
    if (gm_size_lt (repeats[d], 0))
      return gm_b_fail (
          b, GM_ERROR_RUNTIME,
          "%s(): repeats must not be negative, but dimension %d has %" G_GINT64_FORMAT, api->name,
          d, repeats[d]);
    if (repeats[d] == 1)
      continue;
    same = false;
    if (repeats[d] == 0) {
      v = gm_b_slice (b, v, d, 0, 0, 1);
      sizes[d] = 0;
    } else if (n < GM_MAX_DIMS) { /* [..., s, ...] to [..., r, s, ...], merged */
      int64_t wide[GM_MAX_DIMS + 1];
      v = gm_unsqueeze (b, v, d);
      if (gm_b_failed (b))
        return NULL;
      memcpy (wide, META (v)->sizes, sizeof (int64_t) * (size_t) (n + 1));
      wide[d] = repeats[d];
      sizes[d] = gm_size_mul (sizes[d], repeats[d]);
      v = gm_b_reshape (b, gm_b_expand (b, v, n + 1, wide), n, sizes);
    } else {
      int64_t count = gm_size_number (repeats[d]);
      g_autofree GmVal *parts = g_new (GmVal, count);
      for (int64_t i = 0; i < count; i++)
        parts[i] = v;
      v = gm_cat (b, parts, (int) count, d);
    }
  }
  /* A repeat of a size of 1 could be a view without a copy. */
  return same ? gm_apply1 (b, copy, v) : gm_b_contiguous (b, v);
}

RUN (repeat)
{
  int64_t repeats[GM_MAX_DIMS];
  GmVal v = TENSOR (0);
  int n = gm_arg_ints (api, b, a, 1, repeats);
  CHECK ();
  return gm_give (repeat_dims (api, b, v, repeats, n));
}

RUN (tile)
{
  int64_t given[GM_MAX_DIMS], repeats[GM_MAX_DIMS];
  GmVal v = TENSOR (0);
  int n = gm_arg_ints (api, b, a, 1, given);
  CHECK ();
  int lead = MAX (META (v)->ndim - n, 0);
  for (int d = 0; d < lead + n; d++)
    repeats[d] = d < lead ? 1 : given[d - lead];
  return gm_give (repeat_dims (api, b, v, repeats, lead + n));
}

GmVal
gm_reversed (GmBuilder *b, GmVal v, int dim)
{
  if (gm_b_failed (b))
    return NULL;
  int64_t n = META (v)->sizes[dim];
  return gm_index_select (b, v, dim, gm_b_arange (b, gm_size_sub (n, 1), -1, n, GM_I64));
}

RUN (flip)
{
  int64_t dims[GM_MAX_DIMS];
  int n;
  GmVal v = TENSOR (0);
  CHECK ();
  gm_arg_dims (api, b, a, 1, META (v)->ndim, dims, &n);
  for (int i = 0; i < n; i++)
    v = gm_reversed (b, v, (int) dims[i]);
  return gm_give (n ? v : gm_apply1 (b, copy, v));
}

static GmVal
roll_one (GmBuilder *b, GmVal v, int dim, int64_t shift)
{
  if (gm_b_failed (b))
    return NULL;
  int64_t size = META (v)->sizes[dim];
  if (gm_size_le (size, 0))
    return gm_apply1 (b, copy, v);
  if (!gm_size_le (0, shift) || !gm_size_lt (shift, size))
    shift = gm_size_mod (shift, size);
  if (gm_size_eq (shift, 0))
    return gm_apply1 (b, copy, v);
  int64_t at = gm_size_sub (size, shift);
  GmVal parts[2] = { gm_b_slice (b, v, dim, at, size, 1), gm_b_slice (b, v, dim, 0, at, 1) };
  return gm_cat (b, parts, 2, dim);
}

RUN (roll)
{
  int64_t shifts[GM_MAX_DIMS], dims[GM_MAX_DIMS];
  GmVal v = TENSOR (0);
  int n = gm_arg_ints (api, b, a, 1, shifts);
  CHECK ();
  GmMeta m = *META (v);
  if (IS_NONE (2)) {
    int64_t all = gm_meta_numel (&m);
    v = roll_one (b, gm_b_reshape (b, v, 1, &all), 0, n ? shifts[0] : 0);
    return gm_give (gm_b_view (b, v, m.ndim, m.sizes));
  }
  int k = gm_arg_ints (api, b, a, 2, dims);
  CHECK ();
  if (n != k)
    return gm_give (
        gm_b_fail (b, GM_ERROR_RUNTIME, "roll(): %d shifts for %d dims; give one for each", n, k));
  for (int i = 0; i < n; i++) {
    int dim = gm_wrap_dim (api, b, dims[i], m.ndim);
    v = roll_one (b, v, dim, shifts[i]);
  }
  return gm_give (v);
}

/* -- Parts ------------------------------------------------------------------------------------- */

RUN (narrow)
{
  GmVal v = TENSOR (0);
  CHECK ();
  int dim = gm_arg_dim (api, b, a, 1, META (v)->ndim);
  int64_t start = INT (2), length = INT (3), size = META (v)->sizes[dim];
  CHECK ();
  if (gm_size_lt (start, 0))
    start = gm_size_add (start, size);
  if (META (v)->ndim && (gm_size_lt (start, 0) || gm_size_lt (size, start))) {
    g_autofree char *first = gm_size_text (INT (2)), *all = gm_size_text (size);
    return gm_give (gm_b_fail (b, GM_ERROR_INDEX,
                               "narrow(): start (%s) is outside of a dimension of size %s", first,
                               all));
  }
  if (META (v)->ndim == 0 || gm_size_lt (length, 0)
      || gm_size_lt (gm_size_sub (size, start), length)) {
    g_autofree char *first = gm_size_text (start), *n = gm_size_text (length),
                    *all = gm_size_text (size);
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "narrow(): start (%s) + length (%s) exceeds dimension size (%s)",
                               first, n, all));
  }
  return gm_give (gm_b_slice (b, v, dim, start, gm_size_add (start, length), 1));
}

/* True if the elements from `offset` to `last` after v's first are v's own, and v has no gaps in
 * memory. */
static bool
is_inside (GmBuilder *b, GmVal v, int64_t offset, int64_t last, bool empty)
{
  return gm_meta_is_dense (META (v)) && offset >= 0 && (empty || last < gm_meta_numel (META (v)));
}

RUN (as_strided)
{
  int64_t sizes[GM_MAX_DIMS], strides[GM_MAX_DIMS];
  GmVal v = TENSOR (0);
  int n = gm_arg_ints (api, b, a, 1, sizes), n_strides = gm_arg_ints (api, b, a, 2, strides);
  int64_t offset = IS_NONE (3) ? 0 : INT (3);
  CHECK ();
  if (b->gradient)
    return gm_give (gm_b_fail (b, GM_ERROR_UNSUPPORTED,
                               "as_strided(): the gradients of this backward may arrive with other "
                               "strides than those that it is recorded with"));
  const GmMeta *m = META (v);
  if (!IS_NONE (3) && !b->vt->offset)
    return gm_give (gm_b_fail (b, GM_ERROR_UNSUPPORTED,
                               "as_strided(): where input lies in its storage is known to plain "
                               "Python only; leave storage_offset out, and slice input first"));
  if (!IS_NONE (3))
    offset -= b->vt->offset (b, v);
  if (n != n_strides)
    return gm_give (gm_b_fail (
        b, GM_ERROR_RUNTIME, "as_strided(): %d sizes and %d strides; give one stride for each size",
        n, n_strides));
  GmMeta want = gm_meta_make ((GmDtype) m->dtype, n, sizes);
  int64_t last = offset, before = 0;
  bool bad = false, empty = false;
  for (int d = 0; d < n; d++) {
    bad |= sizes[d] < 0 || strides[d] < 0;
    empty |= sizes[d] == 0;
    want.strides[d] = strides[d];
    int64_t reach;
    bad |= __builtin_mul_overflow (MAX (sizes[d] - 1, 0), strides[d], &reach)
           || __builtin_add_overflow (last, reach, &last);
  }
  if (!bad && !is_inside (b, v, offset, last, empty)) { /* elements in gaps, or beside v, belong to
                                                           v's base */
    GmVal around = b->vt->around ? b->vt->around (b, v, &before) : NULL;
    bad = !around || !is_inside (b, around, offset + before, last + before, empty);
    v = bad ? v : around;
    offset += bad ? 0 : before;
    CHECK ();
    m = META (v);
  }
  if (bad) {
    g_autofree char *size = gm_shape_text (n, sizes), *stride = gm_shape_text (n, strides),
                    *have = gm_meta_layout_text (m);
    return gm_give (gm_b_fail (
        b, GM_ERROR_RUNTIME,
        "as_strided(): sizes %s with strides %s, %" G_GINT64_FORMAT
        " elements after the first, are not inside of the memory of the input (%s), or whose "
        "memory that is cannot be known here; take it of the tensor that input is a view of",
        size, stride, offset, have));
  }
  return gm_give (gm_b_strided (b, gm_b_flat (b, v), offset, &want));
}

static GmVal
select_at (GmBuilder *b, GmVal v, int dim, int64_t i)
{
  return gm_squeeze (b, gm_b_slice (b, v, dim, i, gm_size_add (i, 1), 1), dim);
}

RUN (select)
{
  GmVal v = TENSOR (0);
  CHECK ();
  if (META (v)->ndim == 0)
    return gm_give (gm_b_fail (b, GM_ERROR_INDEX, "select() cannot be applied to a 0-d tensor"));
  int dim = gm_arg_dim (api, b, a, 1, META (v)->ndim);
  int64_t i = INT (2), size = META (v)->sizes[dim];
  CHECK ();
  int64_t at = gm_size_lt (i, 0) ? gm_size_add (i, size) : i;
  if (gm_size_lt (at, 0) || gm_size_le (size, at)) {
    g_autofree char *index = gm_size_text (i), *all = gm_size_text (size);
    return gm_give (gm_b_fail (b, GM_ERROR_INDEX,
                               "select(): index %s out of range for dimension %d with size %s",
                               index, dim, all));
  }
  return gm_give (select_at (b, v, dim, at));
}

/* Returns views of `sizes` along dim, one after the other; `squeeze`: without dim. */
static GmArg
cut (GmBuilder *b, GmVal v, int dim, const int64_t *sizes, int n, bool squeeze)
{
  g_autofree GmVal *parts = g_new (GmVal, MAX (n, 1));
  int64_t at = 0;
  for (int i = 0; i < n; i++) {
    parts[i] = gm_b_slice (b, v, dim, at, gm_size_add (at, sizes[i]), 1);
    parts[i] = squeeze ? gm_squeeze (b, parts[i], dim) : parts[i];
    at = gm_size_add (at, sizes[i]);
  }
  CHECK ();
  return gm_give_list (parts, n, true, NULL);
}

static GmArg
cut_even (const GmApi *api, GmBuilder *b, GmVal v, int dim, int64_t size, bool squeeze)
{
  int64_t total = META (v)->sizes[dim];
  /* The number of parts must be known; the size of the last one need not be. */
  int64_t n = gm_size_number (gm_size_floordiv (gm_size_add (total, gm_size_sub (size, 1)), size));
  if (n > UINT16_MAX)
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME, "%s(): %" G_GINT64_FORMAT " parts are too many",
                               api->name, n));
  n = squeeze ? n : MAX (n, 1);
  g_autofree int64_t *sizes = g_new (int64_t, MAX (n, 1));
  for (int64_t i = 0; i < n; i++)
    sizes[i] = i < n - 1 ? size : gm_size_sub (total, gm_size_mul (i, size));
  return cut (b, v, dim, sizes, (int) n, squeeze);
}

static bool
has_dim (const GmApi *api, GmBuilder *b, GmVal v)
{
  if (gm_b_failed (b) || META (v)->ndim)
    return !gm_b_failed (b);
  gm_b_fail (b, GM_ERROR_RUNTIME, "%s() expects at least a 1-dimensional tensor", api->name);
  return false;
}

RUN (unbind)
{
  GmVal v = TENSOR (0);
  if (!has_dim (api, b, v))
    return gm_give (NULL);
  int dim = gm_arg_dim (api, b, a, 1, META (v)->ndim);
  CHECK ();
  return cut_even (api, b, v, dim, 1, true);
}

RUN (split)
{
  GmVal v = TENSOR (0);
  if (!has_dim (api, b, v))
    return gm_give (NULL);
  int dim = gm_arg_dim (api, b, a, 2, META (v)->ndim);
  CHECK ();
  int64_t total = META (v)->sizes[dim], sum = 0;
  if (a[1].kind != GM_ARG_LIST) {
    int64_t size = INT (1);
    CHECK ();
    if (gm_size_lt (size, 0) || (gm_size_eq (size, 0) && !gm_size_eq (total, 0)))
      return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                                 "split(): split_size must be positive, not %" G_GINT64_FORMAT,
                                 gm_size_number (size)));
    return cut_even (api, b, v, dim, gm_size_eq (size, 0) ? 1 : size, false);
  }
  int n = a[1].n;
  g_autofree int64_t *sizes = g_new (int64_t, MAX (n, 1));
  for (int i = 0; i < n; i++) {
    const GmArg *x = &a[1].items[i];
    if (x->kind != GM_ARG_INT || gm_size_lt (x->i, 0))
      return gm_give (gm_b_fail (b, GM_ERROR_TYPE,
                                 "split(): section %d must be an int that is not negative", i));
    sizes[i] = x->i;
    sum = gm_size_add (sum, x->i);
  }
  if (!gm_size_eq (sum, total)) {
    g_autofree char *sections = gm_size_text (sum), *all = gm_size_text (total);
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "split(): the sections sum to %s, but dimension %d has size %s",
                               sections, dim, all));
  }
  return cut (b, v, dim, sizes, n, false);
}

RUN (chunk)
{
  GmVal v = TENSOR (0);
  if (!has_dim (api, b, v))
    return gm_give (NULL);
  int dim = gm_arg_dim (api, b, a, 2, META (v)->ndim);
  int64_t chunks = INT (1);
  CHECK ();
  if (chunks < 1)
    return gm_give (gm_b_fail (
        b, GM_ERROR_RUNTIME,
        "chunk() expects `chunks` to be greater than 0, got: %" G_GINT64_FORMAT, chunks));
  int64_t total = META (v)->sizes[dim];
  if (gm_size_eq_if_known (total, 0) && chunks <= UINT16_MAX) { /* as many parts as requested */
    g_autofree int64_t *sizes = g_new0 (int64_t, chunks);
    return cut (b, v, dim, sizes, (int) chunks, false);
  }
  if (gm_size_is_symbolic (total) && chunks <= UINT16_MAX) {
    int64_t size = gm_size_floordiv (gm_size_add (total, chunks - 1), chunks),
            rest = gm_size_mul (size, chunks - 1);
    if (gm_size_lt (rest, total)) { /* as many parts as requested, for any size */
      g_autofree int64_t *sizes = g_new (int64_t, chunks);
      for (int64_t i = 0; i < chunks; i++)
        sizes[i] = i < chunks - 1 ? size : gm_size_sub (total, rest);
      return cut (b, v, dim, sizes, (int) chunks, false);
    }
    total = gm_size_number (total);
  }
  return cut_even (api, b, v, dim, MAX ((total + chunks - 1) / chunks, 1), false);
}

/* -- Joining ----------------------------------------------------------------------------------- */

GmVal
gm_cat (GmBuilder *b, const GmVal *v, int n, int dim)
{
  GmAttrs at = { .mask = BIT (DIM), .dim = dim };
  return gm_b_op (b, GM_OP_cat, v, n, &at);
}

/* Returns the n tensors of the list in argument 0, promoted to one dtype; NULL after an error. The
 * caller frees the array. */
GmVal *
gm_join_inputs (const GmApi *api, GmBuilder *b, const GmArg *a, int *n)
{
  GmVal *v = gm_arg_tensors (api, b, a, 0, n);
  if (!v)
    return NULL;
  GmDtype d = gm_result_type (b, a[0].items, *n);
  for (int i = 0; i < *n; i++)
    v[i] = gm_b_cast (b, v[i], d);
  return v;
}

RUN (cat)
{
  int n, kept = 0;
  g_autofree GmVal *v = gm_join_inputs (api, b, a, &n);
  CHECK ();
  /* torch skips tensors that are empty and 1-d, regardless of the others. */
  bool mixed = false;
  for (int i = 1; i < n; i++)
    mixed |= META (v[i])->ndim != META (v[0])->ndim;
  for (int i = 0; i < n && mixed; i++)
    if (META (v[i])->ndim != 1 || !gm_size_eq (META (v[i])->sizes[0], 0))
      v[kept++] = v[i];
  n = mixed && kept ? kept : n;
  if (META (v[0])->ndim == 0)
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME, "%s(): 0-d tensors cannot be joined; use stack",
                               api->name));
  int dim = gm_arg_dim (api, b, a, 1, META (v[0])->ndim);
  CHECK ();
  return gm_give (gm_cat (b, v, n, dim));
}

RUN (stack)
{
  int n;
  g_autofree GmVal *v = gm_join_inputs (api, b, a, &n);
  CHECK ();
  int dim = gm_arg_dim (api, b, a, 1, META (v[0])->ndim + 1);
  for (int i = 1; i < n; i++)
    if (!gm_meta_same_shape (META (v[0]), META (v[i]))) {
      g_autofree char *x = gm_shape_text (META (v[0])->ndim, META (v[0])->sizes),
                      *y = gm_shape_text (META (v[i])->ndim, META (v[i])->sizes);
      return gm_give (gm_b_fail (
          b, GM_ERROR_RUNTIME,
          "stack() expects each tensor to be equal size, but got %s at entry 0 and %s at entry %d",
          x, y, i));
    }
  for (int i = 0; i < n; i++)
    v[i] = gm_unsqueeze (b, v[i], dim);
  return gm_give (gm_cat (b, v, n, dim));
}

/* Runs hstack and vstack: scalars become vectors; for vstack vectors become rows. */
static GmArg
run_hv_stack (const GmApi *api, GmBuilder *b, GmArg *a, bool vertical)
{
  int n, ndim = vertical ? 2 : 1;
  g_autofree GmVal *v = gm_join_inputs (api, b, a, &n);
  CHECK ();
  for (int i = 0; i < n; i++)
    while (!gm_b_failed (b) && META (v[i])->ndim < ndim)
      v[i] = gm_unsqueeze (b, v[i], 0);
  CHECK ();
  return gm_give (gm_cat (b, v, n, vertical || META (v[0])->ndim == 1 ? 0 : 1));
}

RUN (vstack)
{
  return run_hv_stack (api, b, a, true);
}
RUN (hstack)
{
  return run_hv_stack (api, b, a, false);
}

/* Exchanges rows and columns for a negative offset: the diagonals left of the main one are then
 * right of it. */
GmVal
gm_diagonal (GmBuilder *b, GmVal v, int64_t offset, int d1, int d2)
{
  return offset >= 0 ? gm_b_diagonal (b, v, d1, d2, offset) : gm_b_diagonal (b, v, d2, d1, -offset);
}

RUN (diagonal)
{
  GmVal v = TENSOR (0);
  CHECK ();
  int ndim = META (v)->ndim, d1 = gm_arg_dim (api, b, a, 2, ndim),
      d2 = gm_arg_dim (api, b, a, 3, ndim);
  int64_t offset = INT (1);
  CHECK ();
  if (d1 == d2 || ndim < 2)
    return gm_give (gm_b_fail (
        b, GM_ERROR_RUNTIME,
        "diagonal(): dim1 and dim2 must be two dimensions, but are %d and %d of %d", d1, d2, ndim));
  return gm_give (gm_diagonal (b, v, offset, d1, d2));
}

RUN (contiguous)
{
  return gm_give (TENSOR (0)); /* memory_format does it */
}
