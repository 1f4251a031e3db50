/* SPDX-License-Identifier: Apache-2.0
 * api_counted.c -- functions whose result is as large as data says: nonzero, masks, unique.
 *
 * All of them count first (gm_b_count): a number where the builder executes, an expression that the run knows where it records.
 * What comes after is indexing by integers with that many places, so sizes and gradients need nothing of their own.
 */
#include "core/ops/api_private.h"

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

/* The places of a vector of bools that are True, in order. */
static GmVal
places (GmBuilder *b, GmVal flag)
{
  int64_t n, all = META (flag)->ndim ? META (flag)->sizes[0] : 1;
  GmVal ones = gm_b_cast (b, flag, GM_I64), total = gm_b_reduce (b, GM_OP_sum, ones, NULL, 0, false);
  if (!gm_b_count (b, total, &n))
    return NULL;
  /* Each goes to the place that the number of those before it says, what is False to one behind the last. */
  GmVal to = gm_b (b, where, flag, gm_b (b, sub, sum_before (b, ones), number (b, 1)), number (b, n));
  int64_t one_more = gm_size_add (n, 1);
  GmVal in[3] = { gm_b_full (b, gm_scalar_int (0), GM_I64, 1, &one_more), to, gm_b (b, mul, ones, gm_arange (b, 0, 1, all, GM_I64)) };
  GmVal out = gm_b_op (b, GM_OP_index_add, in, 3, &(GmAttrs){ .mask = BIT (DIM) });
  return gm_cut (b, out, 0, 0, n);
}

static GmVal
flat (GmBuilder *b, GmVal v)
{
  int64_t n = gm_meta_numel (META (v));
  return gm_b_reshape (b, v, 1, &n);
}

/* Where v is True: a vector for each of its dimensions, of which it has one at least. */
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

/* One row without columns, or none. */
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
  return as_tuple ? gm_give_list (columns, MAX (n, 1), true, NULL) : gm_give (as_rows (b, columns, n));
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
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME, "masked_select(): expected a bool tensor as mask, not %s", gm_dtypes[META (mask)->dtype].torch_name));
  both = *META (v);
  if (!gm_meta_broadcast (META (v), META (mask), &both, &error)) {
    b->error = error;
    return gm_give (NULL);
  }
  v = flat (b, gm_b_expand (b, v, both.ndim, both.sizes));
  return gm_give (gm_index_select (b, v, 0, places (b, flat (b, gm_b_expand (b, mask, both.ndim, both.sizes)))));
}

/* -- Unique ------------------------------------------------------------------------------------ */

/* Of each run of equal elements of a vector the first one; how[0]: which runs the elements are of; how[1]: how long runs are. */
static GmVal
runs (GmBuilder *b, GmVal v, GmVal how[2])
{
  int64_t n = META (v)->sizes[0], m;
  GmVal flags[2], first, begins;
  if (gm_size_eq (n, 0)) {
    how[0] = how[1] = gm_b_full (b, gm_scalar_int (0), GM_I64, 1, &n);
    return v;
  }
  flags[0] = gm_b_full (b, gm_scalar_int (1), GM_BOOL, 1, (const int64_t[]){ 1 });
  flags[1] = gm_b (b, ne, gm_cut (b, v, 0, 1, n), gm_cut (b, v, 0, 0, gm_size_sub (n, 1)));
  first = gm_cat (b, flags, 2, 0);
  begins = places (b, first);
  if (gm_b_failed (b))
    return NULL;
  how[0] = gm_b (b, sub, sum_before (b, gm_b_cast (b, first, GM_I64)), number (b, 1));
  m = META (begins)->sizes[0];
  GmVal zeros = gm_b_full (b, gm_scalar_int (0), GM_I64, 1, &m), ones = gm_b_full (b, gm_scalar_int (1), GM_I64, 1, &n);
  how[1] = gm_b_op (b, GM_OP_index_add, (const GmVal[]){ zeros, how[0], ones }, 3, &(GmAttrs){ .mask = BIT (DIM) });
  return gm_index_select (b, v, 0, begins);
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

static GmArg
refuse_dim (const GmApi *api, GmBuilder *b)
{
  return gm_give (gm_b_fail (b, GM_ERROR_UNSUPPORTED, "%s(): dim is not supported: it compares slices; give each slice a number and compare these", api->name));
}

RUN (unique)
{
  GmVal v = TENSOR (0), how[2] = { NULL, NULL };
  bool inverse = FLAG (2), counts = FLAG (3);
  CHECK ();
  if (!IS_NONE (4))
    return refuse_dim (api, b);
  GmMeta m = *META (v);
  v = gm_b (b, detach, flat (b, v));
  GmVal order = gm_b_op (b, GM_OP_argsort, &v, 1, &(GmAttrs){ .mask = BIT (DIM) | BIT (DESCENDING) });
  GmVal values = runs (b, gm_index_select (b, v, 0, order), how);
  CHECK ();
  if (inverse) { /* back to where they came from */
    GmVal zeros = gm_b_zeros_like (b, how[0]);
    how[0] = gm_b_op (b, GM_OP_index_add, (const GmVal[]){ zeros, order, how[0] }, 3, &(GmAttrs){ .mask = BIT (DIM) });
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
    return refuse_dim (api, b);
  GmMeta m = *META (v);
  GmVal values = runs (b, gm_b (b, detach, flat (b, v)), how);
  CHECK ();
  return give_unique (b, values, inverse ? gm_b_reshape (b, how[0], m.ndim, m.sizes) : NULL, counts ? how[1] : NULL);
}
