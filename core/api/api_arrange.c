/* SPDX-License-Identifier: Apache-2.0
 * api_arrange.c -- grids, diagonals, stacks and cuts: functions that arrange elements of other
 * tensors.
 */
#include "core/api/api_private.h"

#include <math.h>

#define FMT "%" G_GINT64_FORMAT

GmVal
gm_at_least (GmBuilder *b, GmVal v, int ndim)
{
  while (!gm_b_failed (b) && META (v)->ndim < ndim)
    v = gm_unsqueeze (b, v, 0);
  return v;
}

/* -- Grids ------------------------------------------------------------------------------------- */

RUN (meshgrid)
{
  int n = 0;
  g_autofree GmVal *v = gm_arg_tensors (api, b, a, 0, &n);
  bool columns = false;
  if (!IS_NONE (1)) {
    const char *indexing = STR (1);
    columns = strcmp (indexing, "xy") == 0;
    if (!columns && strcmp (indexing, "ij") != 0)
      gm_b_fail (b, GM_ERROR_RUNTIME,
                 "meshgrid(): indexing must be one of \"xy\" or \"ij\", but received: %s",
                 indexing);
  }
  CHECK ();
  if (n > GM_MAX_DIMS)
    return gm_give (
        gm_b_fail (b, GM_ERROR_RUNTIME, "meshgrid(): takes at most %d tensors", GM_MAX_DIMS));
  int64_t sizes[GM_MAX_DIMS], order[GM_MAX_DIMS];
  for (int i = 0; i < n; i++) {
    if (META (v[i])->ndim > 1)
      return gm_give (
          gm_b_fail (b, GM_ERROR_RUNTIME,
                     "meshgrid(): expected scalars or vectors, but tensor %d has %d dimensions", i,
                     META (v[i])->ndim));
    if (META (v[i])->dtype != META (v[0])->dtype)
      return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                                 "meshgrid(): expects all tensors to have the same dtype"));
    order[i] = columns && n > 1 && i < 2 ? 1 - i : i;
    sizes[order[i]] = META (v[i])->ndim ? META (v[i])->sizes[0] : 1;
  }
  for (int i = 0; i < n; i++) {
    int64_t one[GM_MAX_DIMS];
    for (int d = 0; d < n; d++)
      one[d] = d == order[i] ? sizes[d] : 1;
    v[i] = gm_b_expand (b, gm_b_view (b, v[i], n, one), n, sizes);
  }
  CHECK ();
  return gm_give_list (v, n, true, NULL);
}

RUN (cartesian_prod)
{
  int n = 0;
  g_autofree GmVal *v = gm_arg_tensors (api, b, a, 0, &n);
  CHECK ();
  if (n == 1)
    return gm_give (v[0]);
  int64_t sizes[GM_MAX_DIMS], all = 1;
  if (n > GM_MAX_DIMS)
    return gm_give (
        gm_b_fail (b, GM_ERROR_RUNTIME, "cartesian_prod(): takes at most %d tensors", GM_MAX_DIMS));
  for (int i = 0; i < n; i++) {
    if (META (v[i])->ndim != 1)
      return gm_give (gm_b_fail (
          b, GM_ERROR_RUNTIME, "cartesian_prod(): expects vectors, but tensor %d has %d dimensions",
          i, META (v[i])->ndim));
    sizes[i] = META (v[i])->sizes[0];
    all = gm_size_mul (all, sizes[i]);
  }
  for (int i = 0; i < n; i++) {
    int64_t one[GM_MAX_DIMS];
    for (int d = 0; d < n; d++)
      one[d] = d == i ? sizes[d] : 1;
    GmVal wide = gm_b_expand (b, gm_b_view (b, v[i], n, one), n, sizes);
    v[i] = gm_b_reshape (b, wide, 2, (const int64_t[]){ all, 1 });
  }
  CHECK ();
  return gm_give (gm_cat (b, v, n, 1));
}

/* Returns the larger or the smaller of two sizes as an expression: a comparison would be decided
 * for this call's sizes alone. */
static int64_t
extremum (GmSymKind kind, int64_t a, int64_t b)
{
  return gm_sizes_are_numbers (a, b) ? (kind == GM_SYM_MIN ? MIN (a, b) : MAX (a, b))
                                     : gm_size_compute (kind, a, b);
}

/* Returns the sum of min (i, cols) for i from 1 to `rows`, 0 if `rows` is negative: the number of
 * elements of a triangle. */
static int64_t
below (int64_t rows, int64_t cols)
{
  rows = extremum (GM_SYM_MAX, rows, 0);
  int64_t grows = extremum (GM_SYM_MIN, rows, cols),
          square = gm_size_mul (grows, gm_size_add (grows, 1));
  return gm_size_add (gm_size_floordiv (square, 2), gm_size_mul (gm_size_sub (rows, grows), cols));
}

/* Returns the indices [2, n] of a triangle whose sizes only the run knows: all elements are
 * numbered, and the numbers of the triangle's elements move to the front. */
static GmVal
triangle_of_any (GmBuilder *b, int64_t rows, int64_t cols, int64_t offset, bool lower)
{
  int64_t all = gm_size_mul (rows, cols), from = lower ? offset : gm_size_sub (offset, 1);
  int64_t n = gm_size_sub (below (gm_size_add (rows, from), cols), below (from, cols)), room;
  n = lower ? n : gm_size_sub (all, n);
  room = gm_size_add (n, 1); /* the last place is for elements that do not count */
  GmVal i = gm_unsqueeze (b, gm_b_arange (b, 0, 1, rows, GM_I64), 1),
        j = gm_b_arange (b, 0, 1, cols, GM_I64);
  GmVal ahead = gm_b (b, sub, j, i), edge = gm_b_scalar (b, gm_scalar_int (offset), GM_I64),
        none = gm_b_scalar (b, gm_scalar_int (0), GM_I64);
  GmVal counts =
      gm_b_reshape (b, lower ? gm_b (b, le, ahead, edge) : gm_b (b, ge, ahead, edge), 1, &all);
  GmAttrs at = { .mask = BIT (DIM) | BIT (REVERSE) };
  GmVal so_far = gm_b_cast (b, counts, GM_I64);
  so_far = gm_b_op (b, GM_OP_cumsum, &so_far, 1, &at);
  GmVal place =
      gm_b (b, where, counts, gm_b (b, sub, so_far, gm_b_scalar (b, gm_scalar_int (1), GM_I64)),
            gm_b_scalar (b, gm_scalar_int (n), GM_I64));
  GmVal own = gm_b (b, where, counts, gm_b_arange (b, 0, 1, all, GM_I64), none);
  GmVal found = gm_cut (
      b, gm_scatter_add (b, gm_b_full (b, gm_scalar_int (0), GM_I64, 1, &room), 0, place, own), 0,
      0, n);
  GmVal width = gm_b_scalar (b, gm_scalar_int (cols), GM_I64),
        row = gm_b (b, floor_divide, found, width);
  GmVal both[2] = { gm_unsqueeze (b, row, 0),
                    gm_unsqueeze (b, gm_b (b, sub, found, gm_b (b, mul, row, width)), 0) };
  return gm_cat (b, both, 2, 0);
}

/* Returns the indices [2, n] of the elements at or below (not `lower`: above) a diagonal, in
 * row-major order. */
static GmArg
triangle_indices (const GmApi *api, GmBuilder *b, GmArg *a, bool lower)
{
  int64_t rows = INT (0), cols = INT (1), offset = INT (2);
  GmDtype d = gm_arg_dtype (api, b, a, 3, GM_I64);
  CHECK ();
  if (gm_size_lt (rows, 0) || gm_size_lt (cols, 0))
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "%s(): row and col must not be negative, but are " FMT " and " FMT,
                               api->name, gm_size_number (rows), gm_size_number (cols)));
  if (gm_size_is_symbolic (rows) || gm_size_is_symbolic (cols) || gm_size_is_symbolic (offset))
    return gm_give (gm_b_cast (b, triangle_of_any (b, rows, cols, offset, lower), d));
  g_autofree GmVal *r = g_new (GmVal, rows + 1), *c = g_new (GmVal, rows + 1);
  int n = 0;
  for (int64_t i = 0; i < rows && !gm_b_failed (b); i++) {
    int64_t first = lower ? 0 : CLAMP (i + offset, 0, cols),
            last = lower ? CLAMP (i + offset + 1, 0, cols) : cols;
    if (first >= last)
      continue;
    c[n] = gm_b_arange (b, first, 1, last - first, d);
    r[n++] = gm_b_arange (b, i, 0, last - first, d);
  }
  CHECK ();
  if (n == 0)
    return gm_give (gm_b_full (b, gm_scalar_int (0), d, 2, (const int64_t[]){ 2, 0 }));
  GmVal both[2] = { gm_unsqueeze (b, n == 1 ? r[0] : gm_cat (b, r, n, 0), 0),
                    gm_unsqueeze (b, n == 1 ? c[0] : gm_cat (b, c, n, 0), 0) };
  CHECK ();
  return gm_give (gm_cat (b, both, 2, 0));
}

RUN (tril_indices)
{
  return triangle_indices (api, b, a, true);
}
RUN (triu_indices)
{
  return triangle_indices (api, b, a, false);
}

RUN (logspace)
{
  double from = FLOAT (0), to = FLOAT (1), base = FLOAT (3);
  int64_t n = INT (2);
  GmDtype d = gm_arg_dtype (api, b, a, 4, gm_default_dtype ());
  CHECK ();
  if (d == GM_BOOL)
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME, "logspace(): is not implemented for bool"));
  if (!gm_number_fits (b, &a[0], d) || !gm_number_fits (b, &a[1], d))
    return gm_give (NULL);
  if (gm_dtypes[d].category == GM_CATEGORY_INT) { /* ends are numbers of the dtype */
    from = trunc (from);
    to = trunc (to);
  }
  if (gm_size_lt (n, 0))
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "logspace(): number of steps must be non-negative, not " FMT,
                               gm_size_number (n)));
  if (gm_size_lt (n, 2))
    return gm_give (gm_b_full (b, gm_scalar_float (pow (base, from)), d, 1, &n));
  GmVal e = gm_between (b, from, to, n);
  CHECK ();
  return gm_give (gm_b_cast (b, gm_num_apply (b, pow, base, e), d));
}

/* -- Diagonals --------------------------------------------------------------------------------- */

/* Returns v with its last dimension as the diagonal, `offset` beside the main one, of two new
 * dimensions d1 and d2; other elements are 0. */
static GmVal
embed (GmBuilder *b, GmVal v, int64_t offset, int d1, int d2)
{
  if (gm_b_failed (b))
    return NULL;
  GmMeta m = *META (v);
  int64_t n = m.sizes[m.ndim - 1], away = offset < 0 ? -offset : offset,
          side = gm_size_add (n, away);
  GmVal rows = gm_unsqueeze (b, gm_b_arange (b, offset, 1, side, GM_I64), 1),
        cols = gm_b_arange (b, 0, 1, side, GM_I64);
  GmVal hit = gm_b (b, eq, rows, cols); /* row + offset = column */
  /* Element k belongs into column k + max (offset, 0): so the row of columns is v with zeros around
   * it. */
  GmVal line = v;
  if (away) {
    m.sizes[m.ndim - 1] = away;
    GmVal none = gm_b_full (b, gm_scalar_int (0), (GmDtype) m.dtype, m.ndim, m.sizes);
    const GmVal before[2] = { none, v }, after[2] = { v, none };
    line = gm_cat (b, offset > 0 ? before : after, 2, m.ndim - 1);
  }
  line = gm_unsqueeze (b, line, m.ndim - 1);
  GmVal out = gm_b (b, where, hit, line, gm_b_scalar (b, gm_scalar_int (0), (GmDtype) m.dtype));
  int64_t dims[GM_MAX_DIMS];
  for (int d = 0, k = 0; d < m.ndim + 1; d++)
    dims[d] = d == d1 ? m.ndim - 1 : d == d2 ? m.ndim : k++;
  return gm_b_permute (b, out, dims);
}

RUN (diag_embed)
{
  GmVal v = TENSOR (0);
  CHECK ();
  int ndim = META (v)->ndim + 1;
  int64_t offset = INT (1);
  int d1 = gm_wrap_dim (api, b, INT (2), ndim), d2 = gm_wrap_dim (api, b, INT (3), ndim);
  CHECK ();
  if (ndim < 2 || ndim > GM_MAX_DIMS || d1 == d2)
    return gm_give (gm_b_fail (
        b, GM_ERROR_RUNTIME,
        "diag_embed(): dim1 and dim2 must be two dimensions of the result, but are %d and %d of %d",
        d1, d2, ndim));
  return gm_give (embed (b, v, offset, d1, d2));
}

RUN (diag)
{
  GmVal v = TENSOR (0);
  int64_t offset = INT (1);
  CHECK ();
  int ndim = META (v)->ndim;
  if (ndim != 1 && ndim != 2)
    return gm_give (
        gm_b_fail (b, GM_ERROR_RUNTIME,
                   "diag(): supports vectors and matrices, but the input has %d dimensions", ndim));
  return gm_give (ndim == 1 ? embed (b, v, offset, 0, 1)
                            : gm_apply1 (b, copy, gm_diagonal (b, v, offset, 0, 1)));
}

RUN (diagflat)
{
  GmVal v = TENSOR (0);
  int64_t offset = INT (1);
  CHECK ();
  int64_t n = gm_meta_numel (META (v));
  return gm_give (embed (b, gm_b_reshape (b, v, 1, &n), offset, 0, 1));
}

RUN (block_diag)
{
  int n = 0;
  g_autofree GmVal *v = gm_arg_tensors (api, b, a, 0, &n);
  CHECK ();
  GmDtype d = gm_result_type (b, a[0].items, n);
  int64_t cols = 0, before = 0;
  for (int i = 0; i < n; i++) {
    if (META (v[i])->ndim > 2)
      return gm_give (
          gm_b_fail (b, GM_ERROR_RUNTIME,
                     "block_diag(): takes tensors of at most 2 dimensions, but tensor %d has %d", i,
                     META (v[i])->ndim));
    v[i] = gm_at_least (b, gm_b_cast (b, v[i], d), 2);
    CHECK ();
    cols = gm_size_add (cols, META (v[i])->sizes[1]);
  }
  for (int i = 0; i < n; i++) {
    int64_t rows = META (v[i])->sizes[0], own = META (v[i])->sizes[1],
            after = gm_size_sub (gm_size_sub (cols, before), own);
    GmVal parts[3] = { gm_b_full (b, gm_scalar_int (0), d, 2, (const int64_t[]){ rows, before }),
                       v[i],
                       gm_b_full (b, gm_scalar_int (0), d, 2, (const int64_t[]){ rows, after }) };
    CHECK ();
    v[i] = gm_cat (b, parts, 3, 1);
    before = gm_size_add (before, own);
  }
  CHECK ();
  return gm_give (n == 1 ? v[0] : gm_cat (b, v, n, 0));
}

/* -- Stacks and cuts --------------------------------------------------------------------------- */

RUN (column_stack)
{
  int n = 0;
  g_autofree GmVal *v = gm_join_inputs (api, b, a, &n);
  CHECK ();
  for (int i = 0; i < n && !gm_b_failed (b); i++)
    if (META (v[i])->ndim < 2)
      v[i] = gm_b_reshape (b, v[i], 2, (const int64_t[]){ gm_meta_numel (META (v[i])), 1 });
  CHECK ();
  return gm_give (gm_cat (b, v, n, 1));
}

RUN (dstack)
{
  int n = 0;
  g_autofree GmVal *v = gm_join_inputs (api, b, a, &n);
  CHECK ();
  for (int i = 0; i < n && !gm_b_failed (b); i++) {
    v[i] = gm_at_least (b, v[i], 2);
    if (!gm_b_failed (b) && META (v[i])->ndim == 2)
      v[i] = gm_unsqueeze (b, v[i], 2);
  }
  CHECK ();
  return gm_give (gm_cat (b, v, n, 2));
}

static GmArg
at_least_nd (const GmApi *api, GmBuilder *b, GmArg *a, int ndim)
{
  int n = 0;
  g_autofree GmVal *v = gm_arg_tensors (api, b, a, 0, &n);
  CHECK ();
  for (int i = 0; i < n && !gm_b_failed (b); i++) {
    bool deep = META (v[i])->ndim == 2 && ndim == 3; /* [m, n] becomes [m, n, 1] */
    v[i] = deep ? gm_unsqueeze (b, v[i], 2) : v[i];
    if (!gm_b_failed (b) && META (v[i])->ndim == 1 && ndim == 3)
      v[i] = gm_unsqueeze (b, gm_unsqueeze (b, v[i], 0), 2); /* [n] becomes [1, n, 1] */
    v[i] = gm_at_least (b, v[i], ndim);
  }
  CHECK ();
  return n == 1 ? gm_give (v[0]) : gm_give_list (v, n, true, NULL);
}

RUN (atleast_1d)
{
  return at_least_nd (api, b, a, 1);
}
RUN (atleast_2d)
{
  return at_least_nd (api, b, a, 2);
}
RUN (atleast_3d)
{
  return at_least_nd (api, b, a, 3);
}

RUN (broadcast_tensors)
{
  int n = 0;
  g_autofree GmVal *v = gm_arg_tensors (api, b, a, 0, &n);
  CHECK ();
  GmMeta shape = *META (v[0]);
  for (int i = 1; i < n; i++) {
    GmMeta both;
    if (!gm_meta_broadcast (&shape, META (v[i]), &both, &b->error))
      return gm_give (NULL);
    shape = both;
  }
  for (int i = 0; i < n; i++)
    v[i] = gm_b_expand (b, v[i], shape.ndim, shape.sizes);
  CHECK ();
  return gm_give_list (v, n, true, NULL);
}

/* Returns the views of v between the positions `cuts` of dim; a cut is clamped to the size, as
 * slices are. */
static GmArg
cut_at (GmBuilder *b, GmVal v, int dim, const int64_t *cuts, int n)
{
  int64_t size = META (v)->sizes[dim], from = 0;
  g_autofree GmVal *parts = g_new (GmVal, n + 1);
  for (int i = 0; i <= n; i++) {
    int64_t to = i == n ? size : gm_size_lt (cuts[i], 0) ? gm_size_add (cuts[i], size) : cuts[i];
    to = i == n ? size : gm_size_max (gm_size_min (to, size), 0);
    parts[i] = gm_b_slice (b, v, dim, from, gm_size_max (to, from), 1);
    from = to;
  }
  CHECK ();
  return gm_give_list (parts, n + 1, true, NULL);
}

/* Cuts v along dim at the elements of `places`, a vector of int64, whose numbers are read one after
 * the other. */
static GmArg
cut_at_elements (const GmApi *api, GmBuilder *b, GmVal v, int dim, GmVal places)
{
  GmMeta m = *META (places);
  if (m.dtype != GM_I64)
    return gm_give (
        gm_b_fail (b, GM_ERROR_RUNTIME,
                   "%s(): expected tensor_indices_or_sections to have dtype of long, but got %s",
                   api->name, gm_dtypes[m.dtype].torch_name));
  int n = (int) gm_size_number (m.sizes[0]);
  g_autofree int64_t *cuts = g_new (int64_t, n + 1);
  for (int i = 0; i < n; i++) {
    GmScalar s = { 0 };
    if (!b->vt->item (b, gm_b_slice (b, places, 0, i, i + 1, 1), &s))
      return gm_give (NULL);
    cuts[i] = s.i;
  }
  return cut_at (b, v, dim, cuts, n);
}

/* Cuts v along dim at the positions in argument `at`, a list or a vector, or into as many nearly
 * equal parts as an int there says; `even`: the size must be divisible. */
static GmArg
tensor_split (const GmApi *api, GmBuilder *b, GmArg *a, GmVal v, int at, int dim, bool even)
{
  CHECK ();
  int64_t size = META (v)->sizes[dim];
  if (a[at].kind == GM_ARG_LIST) {
    int n = a[at].n;
    g_autofree int64_t *cuts = g_new (int64_t, n + 1);
    for (int i = 0; i < n; i++) {
      if (a[at].items[i].kind != GM_ARG_INT)
        return gm_give (
            gm_b_fail (b, GM_ERROR_TYPE, "%s(): the places to cut at must be ints", api->name));
      cuts[i] = a[at].items[i].i;
    }
    return cut_at (b, v, dim, cuts, n);
  }
  int64_t n = gm_size_number (INT (at));
  CHECK ();
  if (n < 1 || n > UINT16_MAX || (even && !gm_size_eq (gm_size_mod (size, n), 0)))
    return gm_give (gm_b_fail (
        b, GM_ERROR_RUNTIME,
        even && n >= 1 ? "%s(): dimension %d of size " FMT " is not a multiple of " FMT
                       : "%s(): dimension %d of size " FMT " cannot be cut into " FMT " parts",
        api->name, dim, gm_size_number (size), n));
  g_autofree GmVal *parts = g_new (GmVal, n);
  int64_t from = 0;
  for (int64_t i = 0; i < n;
       i++) { /* the first ones are longer by one where it does not come out even */
    int64_t to =
        i == n - 1
            ? size
            : gm_size_add (from, gm_size_floordiv (even ? size : gm_size_add (size, n - 1 - i), n));
    parts[i] = gm_b_slice (b, v, dim, from, to, 1);
    from = to;
  }
  CHECK ();
  return gm_give_list (parts, (int) n, true, NULL);
}

RUN (tensor_split)
{
  GmVal v = TENSOR (0);
  CHECK ();
  if (META (v)->ndim == 0)
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "tensor_split(): expected at least a 1-dimensional tensor"));
  int dim = gm_arg_dim (api, b, a, 2, META (v)->ndim);
  CHECK ();
  int at = a[1].kind == GM_ARG_TENSOR ? META (a[1].v)->ndim : 0;
  if (at > 1)
    return gm_give (gm_b_fail (
        b, GM_ERROR_RUNTIME,
        "tensor_split(): expected tensor_indices_or_sections to be a zero-dimensional or "
        "one-dimensional tensor, but got a tensor with %d dims",
        at));
  return at ? cut_at_elements (api, b, v, dim, a[1].v) : tensor_split (api, b, a, v, 1, dim, false);
}

static GmArg
split_dim (const GmApi *api, GmBuilder *b, GmArg *a, int least, int dim)
{
  GmVal v = TENSOR (0);
  CHECK ();
  if (META (v)->ndim < least)
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "%s(): requires a tensor with at least %d dimension%s, but got %d",
                               api->name, least, least > 1 ? "s" : "", META (v)->ndim));
  return tensor_split (api, b, a, v, 1, dim < 0 ? (META (v)->ndim == 1 ? 0 : 1) : dim, true);
}

RUN (hsplit)
{
  return split_dim (api, b, a, 1, -1);
}
RUN (vsplit)
{
  return split_dim (api, b, a, 2, 0);
}
RUN (dsplit)
{
  return split_dim (api, b, a, 3, 2);
}

static GmArg
flip_dim (const GmApi *api, GmBuilder *b, GmArg *a, int dim)
{
  GmVal v = TENSOR (0);
  CHECK ();
  if (META (v)->ndim <= dim)
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "%s(): input must be at least %d-d, but has %d dimensions",
                               api->name, dim + 1, META (v)->ndim));
  return gm_give (gm_reversed (b, v, dim));
}

RUN (fliplr)
{
  return flip_dim (api, b, a, 1);
}
RUN (flipud)
{
  return flip_dim (api, b, a, 0);
}

RUN (rot90)
{
  GmVal v = TENSOR (0);
  int64_t k = INT (1), dims[GM_MAX_DIMS] = { 0, 1 };
  int n = IS_NONE (2) ? 2 : gm_arg_ints (api, b, a, 2, dims);
  CHECK ();
  if (n != 2 || META (v)->ndim < 2)
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "rot90(): expects 2 dims of a tensor with at least 2 dimensions"));
  int d0 = gm_wrap_dim (api, b, dims[0], META (v)->ndim),
      d1 = gm_wrap_dim (api, b, dims[1], META (v)->ndim);
  CHECK ();
  if (d0 == d1)
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME, "rot90(): the two dims must differ"));
  switch (((k % 4) + 4) % 4) {
  case 1:
    return gm_give (gm_b_transpose (b, gm_reversed (b, v, d1), d0, d1));
  case 2:
    return gm_give (gm_reversed (b, gm_reversed (b, v, d0), d1));
  case 3:
    return gm_give (gm_b_transpose (b, gm_reversed (b, v, d0), d0, d1));
  default:
    return gm_give (gm_apply1 (b, copy, v));
  }
}

RUN (require_row)
{
  static const char *const names[GM_N_CONDITIONS] = {
#define CONDITION(code, NAME, error, message) [code] = #NAME,
#include "plugin-api/gramme-ops.def"
  };
  GmVal v = TENSOR (0), ok = TENSOR (1);
  const char *name = STR (2);
  CHECK ();
  for (int i = 1; i < GM_N_CONDITIONS; i++)
    if (strcmp (names[i], name) == 0)
      return gm_give (gm_require (b, v, ok, (GmCondition) i));
  return gm_give (gm_b_fail (b, GM_ERROR_VALUE, "_require(): there is no condition '%s'", name));
}

/* Repeats each element, or each slice along dim, several times in a row; called with repeats alone,
 * returns the index of the source of each output element. */
RUN (repeat_interleave)
{
  GmVal v = TENSOR (0);
  CHECK ();
  if (IS_NONE (1)) {
    if (META (v)->ndim != 1 || gm_dtypes[META (v)->dtype].category != GM_CATEGORY_INT)
      return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                                 "repeat_interleave(): repeats alone must be integers in one "
                                 "dimension"));
    a[1] = a[0];
    v = gm_b_arange (b, 0, 1, META (v)->sizes[0], META (v)->dtype);
  } else if (IS_NONE (2)) {
    int64_t n = gm_meta_numel (META (v));
    v = gm_b_reshape (b, v, 1, &n);
  }
  CHECK ();
  int dim = IS_NONE (2) ? 0 : gm_arg_dim (api, b, a, 2, META (v)->ndim);
  CHECK ();
  GmMeta m = *META (v);
  if (a[1].kind == GM_ARG_TENSOR && !gm_size_eq (gm_meta_numel (META (a[1].v)), 1)) {
    /* Output element j comes from the first input whose repeats, summed, are above j. */
    GmVal repeats = a[1].v;
    if (META (repeats)->ndim != 1 || gm_dtypes[META (repeats)->dtype].category != GM_CATEGORY_INT
        || !gm_size_eq (META (repeats)->sizes[0], m.sizes[dim]))
      return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                                 "repeat_interleave(): repeats must be integers, one or as many as "
                                 "dimension %d has elements",
                                 dim));
    int64_t total = 0;
    GmAttrs at = { .mask = BIT (DIM) | BIT (REVERSE) };
    repeats = gm_b_cast (b, repeats, GM_I64);
    repeats = gm_require_between (b, repeats, repeats, 0, INFINITY, GM_CONDITION_REPEATS);
    GmVal ends = gm_b_op (b, GM_OP_cumsum, &repeats, 1, &at);
    if (!IS_NONE (3))
      total = INT (3);
    else {
      if (!gm_b_count (b, gm_b_reduce (b, GM_OP_sum, repeats, NULL, 0, false), &total))
        return gm_give (NULL);
    }
    CHECK ();
    GmVal places = gm_unsqueeze (b, gm_b_arange (b, 0, 1, total, GM_I64), 1),
          row = gm_unsqueeze (b, ends, 0);
    GmVal passed = gm_b_cast (b, gm_b (b, ge, places, row), GM_I64);
    int64_t last = 1;
    return gm_give (
        gm_index_select (b, v, dim, gm_b_reduce (b, GM_OP_sum, passed, &last, 1, false)));
  }
  int64_t times = INT (1);
  CHECK ();
  if (times < 0)
    return gm_give (
        gm_b_fail (b, GM_ERROR_RUNTIME, "repeat_interleave(): repeats can not be negative"));
  if (m.ndim == 0 || m.ndim >= GM_MAX_DIMS)
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "repeat_interleave(): takes tensors of 1 to %d dimensions",
                               GM_MAX_DIMS - 1));
  int64_t wide[GM_MAX_DIMS + 1];
  for (int d = 0; d <= m.ndim; d++)
    wide[d] = d <= dim ? m.sizes[d] : d == dim + 1 ? times : m.sizes[d - 1];
  m.sizes[dim] = gm_size_mul (m.sizes[dim], times);
  return gm_give (gm_b_contiguous (
      b, gm_b_reshape (b, gm_b_expand (b, gm_unsqueeze (b, v, dim + 1), m.ndim + 1, wide), m.ndim,
                       m.sizes)));
}

/* -- Windows along one dimension --------------------------------------------------------------- */

/* Returns slices of `size` elements, each `step` behind the slice before, in a new last dimension:
 * a copy. */
RUN (unfold)
{
  GmVal v = TENSOR (0);
  CHECK ();
  GmMeta m = *META (v);
  int dim = gm_arg_dim (api, b, a, 1, m.ndim);
  int64_t size = INT (2), step = INT (3);
  CHECK ();
  int64_t have = m.ndim ? m.sizes[dim] : 1;
  if (size < 0 || step < 1 || m.ndim == GM_MAX_DIMS || gm_size_lt (have, size))
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "unfold(): windows of " FMT " at a step of " FMT
                               " do not fit dimension %d, which has size " FMT,
                               size, step, dim, gm_size_number (have)));
  if (m.ndim == 0) /* as many windows as fit 1 element: no dimension counts them */
    return gm_give (gm_b_slice (b, gm_unsqueeze (b, v, 0), 0, 0, size, 1));
  return gm_give (gm_b_unfold (b, v, dim, size, step));
}
