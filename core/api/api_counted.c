/* SPDX-License-Identifier: Apache-2.0
 * api_counted.c -- functions whose result's size depends on data: nonzero, masks, unique.
 *
 * All of them count first (gm_b_count): the count is a number if the builder executes, and an
 * expression that only the run knows if it records. The rest is indexing by as many integers, so
 * sizes and gradients need no code of their own.
 */
#include "core/api/api_private.h"

bool
gm_b_count (GmBuilder *b, GmVal v, int64_t *out)
{
  GmScalar s = { 0 };
  *out = 0;
  if (gm_b_failed (b))
    return false;
  if (b->vt->count)
    return b->vt->count (b, v, out);
  if (!b->vt->item (b, v, &s))
    return false;
  *out = s.i;
  return true;
}

static GmVal
sum_before (GmBuilder *b, GmVal v) /* up to and with each element */
{
  GmAttrs at = { .mask = BIT (DIM) | BIT (REVERSE) };
  return gm_b_op (b, GM_OP_cumsum, &v, 1, &at);
}

static GmVal
number (GmBuilder *b, int64_t n)
{
  return gm_b_scalar (b, gm_scalar_int (n), GM_I64);
}

/* Returns the indices of the True elements of a vector of bools, in order: int64, as many as there
 * are. */
static GmVal
places (GmBuilder *b, GmVal flag)
{
  int64_t n, all = META (flag)->ndim ? META (flag)->sizes[0] : 1;
  GmVal ones = gm_b_cast (b, flag, GM_I64),
        total = gm_b_reduce (b, GM_OP_sum, ones, NULL, 0, false);
  if (!gm_b_count (b, total, &n))
    return NULL;
  /* Each True element moves to the index that is the number of True elements before it, each False
   * element to an index after the last. */
  GmVal to =
      gm_b (b, where, flag, gm_b (b, sub, sum_before (b, ones), number (b, 1)), number (b, n));
  int64_t one_more = gm_size_add (n, 1);
  GmVal in[3] = { gm_b_full (b, gm_scalar_int (0), GM_I64, 1, &one_more), to,
                  gm_b (b, mul, ones, gm_b_arange (b, 0, 1, all, GM_I64)) };
  GmVal out = gm_b_op (b, GM_OP_index_add, in, 3, &(GmAttrs){ .mask = BIT (DIM) });
  return gm_cut (b, out, 0, 0, n);
}

static GmVal
flat (GmBuilder *b, GmVal v)
{
  int64_t n = gm_meta_numel (META (v));
  return gm_b_reshape (b, v, 1, &n);
}

/* Finds the indices where v is True: out[d] is a vector for each of v's dimensions, of which v has
 * at least one. */
static void
where_true (GmBuilder *b, GmVal v, GmVal *out)
{
  GmMeta m = *META (v);
  GmVal at = places (b, flat (b, gm_b_cast (b, v, GM_BOOL)));
  for (int d = m.ndim - 1; d >= 0; d--) {
    out[d] = d ? gm_b (b, remainder, at, number (b, m.sizes[d])) : at;
    at = d ? gm_b (b, floor_divide, at, number (b, m.sizes[d])) : at;
  }
}

int
gm_mask_places (GmBuilder *b, GmVal mask, GmVal out[GM_MAX_DIMS])
{
  where_true (b, mask, out);
  return gm_b_failed (b) ? 0 : META (mask)->ndim;
}

static GmVal
as_rows (GmBuilder *b, GmVal *columns, int n)
{
  for (int d = 0; d < n; d++)
    columns[d] = gm_unsqueeze (b, columns[d], 1);
  return n == 1 ? columns[0] : gm_cat (b, columns, n, 1);
}

/* Returns one row without columns, or no row. */
static GmVal
rows_of_scalar (GmBuilder *b, GmVal v)
{
  int64_t sizes[2] = { 0, 0 };
  if (!gm_b_count (b, gm_b_cast (b, gm_b_cast (b, v, GM_BOOL), GM_I64), &sizes[0]))
    return NULL;
  return gm_b_full (b, gm_scalar_int (0), GM_I64, 2, sizes);
}

RUN (nonzero)
{
  GmVal v = TENSOR (0), columns[GM_MAX_DIMS];
  bool as_tuple = FLAG (1);
  CHECK ();
  int n = META (v)->ndim;
  if (n == 0 && !as_tuple)
    return gm_give (rows_of_scalar (b, v));
  v = n ? v : gm_unsqueeze (b, v, 0);
  where_true (b, v, columns);
  CHECK ();
  return as_tuple ? gm_give_list (columns, MAX (n, 1), true, NULL)
                  : gm_give (as_rows (b, columns, n));
}

RUN (argwhere)
{
  a[1] = (GmArg){ .kind = GM_ARG_BOOL };
  return gm_run_nonzero (api, b, a);
}

RUN (masked_select)
{
  GmVal v = TENSOR (0), mask = TENSOR (1);
  GmMeta both;
  GError *error = NULL;
  CHECK ();
  if (META (mask)->dtype != GM_BOOL)
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "masked_select(): expected a bool tensor as mask, not %s",
                               gm_dtypes[META (mask)->dtype].torch_name));
  both = *META (v);
  if (!gm_meta_broadcast (META (v), META (mask), &both, &error)) {
    b->error = error;
    return gm_give (NULL);
  }
  v = flat (b, gm_b_expand (b, v, both.ndim, both.sizes));
  return gm_give (gm_index_select (
      b, v, 0, places (b, flat (b, gm_b_expand (b, mask, both.ndim, both.sizes)))));
}

/* -- Unique ------------------------------------------------------------------------------------ */

/* Returns, for the n - 1 rows of v [n, ...] after the first, true where the row differs from the
 * row before. */
static GmVal
changes (GmBuilder *b, GmVal v, int64_t n)
{
  GmVal apart = gm_b (b, ne, gm_cut (b, v, 0, 1, n), gm_cut (b, v, 0, 0, gm_size_sub (n, 1)));
  return gm_b_failed (b) || META (apart)->ndim == 1
             ? apart
             : gm_b_reduce (b, GM_OP_any, apart, (const int64_t[]){ 1 }, 1, false);
}

/* Returns the index of the first row of each run of equal rows of v, a vector or a matrix; NULL: v
 * has no rows, or an error is set. how[0]: the number of the run that each row is in; how[1]: the
 * length of each run. */
static GmVal
runs (GmBuilder *b, GmVal v, GmVal how[2])
{
  int64_t n = META (v)->sizes[0], m;
  GmVal flags[2], first, begins;
  if (gm_size_eq (n, 0)) {
    how[0] = how[1] = gm_b_full (b, gm_scalar_int (0), GM_I64, 1, &n);
    return NULL;
  }
  flags[0] = gm_b_full (b, gm_scalar_int (1), GM_BOOL, 1, (const int64_t[]){ 1 });
  flags[1] = changes (b, v, n);
  first = gm_cat (b, flags, 2, 0);
  begins = places (b, first);
  if (gm_b_failed (b))
    return NULL;
  how[0] = gm_b (b, sub, sum_before (b, gm_b_cast (b, first, GM_I64)), number (b, 1));
  m = META (begins)->sizes[0];
  GmVal zeros = gm_b_full (b, gm_scalar_int (0), GM_I64, 1, &m),
        ones = gm_b_full (b, gm_scalar_int (1), GM_I64, 1, &n);
  how[1] = gm_b_op (b, GM_OP_index_add, (const GmVal[]){ zeros, how[0], ones }, 3,
                    &(GmAttrs){ .mask = BIT (DIM) });
  return begins;
}

static GmVal
rows_at (GmBuilder *b, GmVal v, GmVal where)
{
  return where ? gm_index_select (b, v, 0, where) : v;
}

static GmVal
in_order (GmBuilder *b, GmVal v)
{
  return gm_b_op (b, GM_OP_argsort, &v, 1, &(GmAttrs){ .mask = BIT (DIM) | BIT (DESCENDING) });
}

/* Returns, for each element of the matrix v, the number of different smaller elements in its
 * column. */
static GmVal
ranks (GmBuilder *b, GmVal v)
{
  GmMeta m = *META (v);
  GmVal order = in_order (b, v), sorted = gm_gather (b, v, 0, order);
  int64_t first[2] = { 1, m.sizes[1] };
  GmVal steps = gm_b_cast (b,
                           gm_b (b, ne, gm_cut (b, sorted, 0, 1, m.sizes[0]),
                                 gm_cut (b, sorted, 0, 0, gm_size_sub (m.sizes[0], 1))),
                           GM_I64);
  steps = gm_cat (b, (const GmVal[]){ gm_b_full (b, gm_scalar_int (0), GM_I64, 2, first), steps },
                  2, 0);
  return gm_scatter_add (b, gm_b_full (b, gm_scalar_int (0), GM_I64, 2, m.sizes), 0, order,
                         sum_before (b, steps));
}

/* Returns the rank of each row of v [n, w], n, w > 0, in the lexicographic order of rows, equal for
 * equal rows: ranks of columns are joined in pairs. */
static GmVal
rank_of_rows (GmBuilder *b, GmVal v)
{
  /* The number of nodes depends on w. */
  int64_t n = META (v)->sizes[0], w = gm_size_number (META (v)->sizes[1]);
  v = ranks (b, v);
  for (; w > 1 && !gm_b_failed (b); w = (w + 1) / 2) {
    if (w % 2) {
      int64_t column[2] = { n, 1 };
      v = gm_cat (b, (const GmVal[]){ v, gm_b_full (b, gm_scalar_int (0), GM_I64, 2, column) }, 2,
                  1);
      w++;
    }
    GmVal left = gm_b_slice (b, v, 1, 0, w, 2), right = gm_b_slice (b, v, 1, 1, w, 2);
    v = ranks (b, gm_b (b, add, gm_b (b, mul, left, number (b, n)), right));
  }
  return gm_b_failed (b) ? NULL : flat (b, v);
}

static GmArg
give_unique (GmBuilder *b, GmVal values, GmVal inverse, GmVal counts)
{
  GmVal all[3] = { values };
  int n = 1;
  if (inverse)
    all[n++] = inverse;
  if (counts)
    all[n++] = counts;
  CHECK ();
  return n == 1 ? gm_give (values) : gm_give_list (all, n, true, NULL);
}

/* Runs unique and unique_consecutive on slices of argument 0 along the dimension in argument `at`;
 * `inverse` and `counts`: returns these, too. */
static GmArg
unique_slices (const GmApi *api, GmBuilder *b, const GmArg *a, int at, bool sorted, bool inverse,
               bool counts)
{
  GmVal v = gm_b (b, detach, TENSOR (0)), how[2] = { NULL, NULL }, order = NULL;
  CHECK ();
  int dim = gm_arg_dim (api, b, a, at, META (v)->ndim);
  CHECK ();
  if (META (v)->ndim == 0)
    return gm_give (gm_b_fail (b, GM_ERROR_INDEX,
                               "%s(): a tensor without dimensions has no slices along dim %d",
                               api->name, dim));
  int64_t forth[GM_MAX_DIMS] = { dim }, back[GM_MAX_DIMS];
  for (int d = 0; d < META (v)->ndim; d++) {
    back[d] = d == dim ? 0 : d < dim ? d + 1 : d;
    forth[back[d]] = d;
  }
  v = gm_b_permute (b, v, forth);
  CHECK ();
  GmMeta m = *META (v);
  int64_t flat_sizes[2] = { m.sizes[0], 1 };
  for (int d = 1; d < m.ndim; d++) {
    if (gm_size_eq (m.sizes[d], 0))
      return gm_give (gm_b_fail (
          b, GM_ERROR_RUNTIME,
          "%s(): there are dimensions of size 0 besides dim, so slices cannot be compared",
          api->name));
    flat_sizes[1] = gm_size_mul (flat_sizes[1], m.sizes[d]);
  }
  GmVal rows = gm_b_reshape (b, v, 2, flat_sizes), keys = rows;
  if (sorted && !gm_size_eq (m.sizes[0], 0)) {
    keys = rank_of_rows (b, rows);
    order = in_order (b, keys);
    keys = rows_at (b, keys, order);
    v = rows_at (b, v, order);
  }
  GmVal values = rows_at (b, v, runs (b, keys, how));
  CHECK ();
  if (order && inverse)
    how[0] =
        gm_b_op (b, GM_OP_index_add, (const GmVal[]){ gm_b_zeros_like (b, how[0]), order, how[0] },
                 3, &(GmAttrs){ .mask = BIT (DIM) });
  return give_unique (b, gm_b_contiguous (b, gm_b_permute (b, values, back)),
                      inverse ? how[0] : NULL, counts ? how[1] : NULL);
}

RUN (unique)
{
  GmVal v = TENSOR (0), how[2] = { NULL, NULL };
  bool inverse = FLAG (2), counts = FLAG (3);
  CHECK ();
  if (!IS_NONE (4))
    return unique_slices (api, b, a, 4, true, inverse, counts);
  GmMeta m = *META (v);
  v = gm_b (b, detach, flat (b, v));
  GmVal order = in_order (b, v), sorted = gm_index_select (b, v, 0, order);
  GmVal values = gm_b_failed (b) ? NULL : rows_at (b, sorted, runs (b, sorted, how));
  CHECK ();
  if (inverse) { /* back to the order of the input */
    GmVal zeros = gm_b_zeros_like (b, how[0]);
    how[0] = gm_b_op (b, GM_OP_index_add, (const GmVal[]){ zeros, order, how[0] }, 3,
                      &(GmAttrs){ .mask = BIT (DIM) });
    how[0] = gm_b_reshape (b, how[0], m.ndim, m.sizes);
  }
  return give_unique (b, values, inverse ? how[0] : NULL, counts ? how[1] : NULL);
}

RUN (unique_consecutive)
{
  GmVal v = TENSOR (0), how[2] = { NULL, NULL };
  bool inverse = FLAG (1), counts = FLAG (2);
  CHECK ();
  if (!IS_NONE (3))
    return unique_slices (api, b, a, 3, false, inverse, counts);
  GmMeta m = *META (v);
  v = gm_b (b, detach, flat (b, v));
  GmVal values = gm_b_failed (b) ? NULL : rows_at (b, v, runs (b, v, how));
  CHECK ();
  return give_unique (b, values, inverse ? gm_b_reshape (b, how[0], m.ndim, m.sizes) : NULL,
                      counts ? how[1] : NULL);
}
