/* SPDX-License-Identifier: Apache-2.0
 * api_index.c -- functions whose positions come from data: gather, scatter, sort, masks. Subscripts
 * are in api_getitem.c.
 */
#include "core/api/api_private.h"

#include <math.h>

/* -- Gather and scatter ------------------------------------------------------------------------ */

static GmVal
indexed (GmBuilder *b, GmOp op, GmVal x, int dim, GmVal index, GmVal src)
{
  GmAttrs at = { .mask = BIT (DIM), .dim = dim };
  return gm_b_op (b, op, (const GmVal[]){ x, index, src }, src ? 3 : 2, &at);
}

GmVal
gm_gather (GmBuilder *b, GmVal v, int dim, GmVal index)
{
  return indexed (b, GM_OP_gather, v, dim, index, NULL);
}

GmVal
gm_index_select (GmBuilder *b, GmVal v, int dim, GmVal index)
{
  return indexed (b, GM_OP_index_select, v, dim, index, NULL);
}

GmVal
gm_index_arg (const GmApi *api, GmBuilder *b, const GmArg *a, int i)
{
  GmVal v = TENSOR (i);
  if (!v)
    return NULL;
  GmDtype d = (GmDtype) META (v)->dtype;
  if (gm_dtypes[d].category != GM_CATEGORY_INT)
    return gm_b_fail (b, GM_ERROR_RUNTIME,
                      "%s(): expected dtype int32 or int64 for argument '%s', but found %s",
                      api->name, api->arg_names[i], gm_dtypes[d].torch_name);
  return gm_b_cast (b, v, GM_I64);
}

/* Returns argument i as the index of whole slices: a vector, also from a scalar. */
static GmVal
list_arg (const GmApi *api, GmBuilder *b, const GmArg *a, int i)
{
  GmVal v = gm_index_arg (api, b, a, i);
  return v && META (v)->ndim == 0 ? gm_unsqueeze (b, v, 0) : v;
}

RUN (index_select)
{
  GmVal v = TENSOR (0), index = list_arg (api, b, a, 2);
  CHECK ();
  int dim = gm_arg_dim (api, b, a, 1, META (v)->ndim);
  CHECK ();
  if (META (index)->ndim > 1) {
    g_autofree char *shape = gm_shape_text (META (index)->ndim, META (index)->sizes);
    return gm_give (gm_b_fail (b, GM_ERROR_INDEX,
                               "index_select(): the index must have one dimension, not shape %s",
                               shape));
  }
  return gm_give (gm_index_select (b, v, dim, index));
}

RUN (gather)
{
  GmVal v = TENSOR (0), index = gm_index_arg (api, b, a, 2);
  CHECK ();
  int dim = gm_arg_dim (api, b, a, 1, META (v)->ndim);
  CHECK ();
  return gm_give (gm_gather (b, v, dim, index));
}

RUN (scatter_add)
{
  GmVal v = TENSOR (0), index = gm_index_arg (api, b, a, 2), src = TENSOR (3);
  CHECK ();
  int dim = gm_arg_dim (api, b, a, 1, META (v)->ndim);
  CHECK ();
  return gm_give (indexed (b, GM_OP_scatter_add, v, dim, index, src));
}

RUN (index_add)
{
  GmVal v = TENSOR (0), index = list_arg (api, b, a, 2), src = TENSOR (3);
  CHECK ();
  int dim = gm_arg_dim (api, b, a, 1, META (v)->ndim);
  GmDtype d = (GmDtype) META (v)->dtype;
  GmArg alpha = gm_number_fits (b, &a[4], d) ? gm_factor (b, &a[4], d) : a[4];
  CHECK ();
  if (!(alpha.kind == GM_ARG_INT && alpha.i == 1))
    src = gm_apply (b, GM_OP_mul, (const GmArg[]){ a[3], alpha }, 2);
  CHECK ();
  return gm_give (indexed (b, GM_OP_index_add, v, dim, index, src));
}

/* Returns v with its sizes broadcast to `shape` in all dimensions but dim. */
static GmVal
broadcast_but (GmBuilder *b, GmVal v, const GmMeta *shape, int dim)
{
  int64_t sizes[GM_MAX_DIMS];
  if (gm_b_failed (b))
    return NULL;
  memcpy (sizes, shape->sizes, sizeof sizes);
  sizes[dim] = META (v)->sizes[dim];
  return gm_b_expand (b, v, shape->ndim, sizes);
}

RUN (take_along_dim)
{
  GmVal v = TENSOR (0), index = gm_index_arg (api, b, a, 1);
  CHECK ();
  if (IS_NONE (2)) {
    int64_t n = gm_meta_numel (META (v)), k = gm_meta_numel (META (index));
    return gm_give (gm_gather (b, gm_b_reshape (b, v, 1, &n), 0, gm_b_reshape (b, index, 1, &k)));
  }
  int dim = gm_arg_dim (api, b, a, 2, META (v)->ndim);
  CHECK ();
  if (META (v)->ndim != META (index)->ndim)
    return gm_give (gm_b_fail (
        b, GM_ERROR_RUNTIME,
        "take_along_dim(): input and indices must have as many dimensions, but have %d and %d",
        META (v)->ndim, META (index)->ndim));
  GmMeta x = *META (v), i = *META (index), shape;
  x.sizes[dim] = i.sizes[dim] = 1;
  GError *error = NULL;
  if (!gm_meta_broadcast (&x, &i, &shape, &error)) {
    b->error = error;
    return gm_give (NULL);
  }
  return gm_give (
      gm_gather (b, broadcast_but (b, v, &shape, dim), dim, broadcast_but (b, index, &shape, dim)));
}

/* -- Triangles --------------------------------------------------------------------------------- */

GmVal
gm_lower_mask (GmBuilder *b, int64_t rows, int64_t cols, int64_t diagonal)
{
  GmVal r = gm_unsqueeze (b, gm_b_arange (b, diagonal, 1, rows, GM_I64), 1),
        c = gm_b_arange (b, 0, 1, cols, GM_I64);
  return gm_b (b, ge, r, c);
}

static GmArg
run_triangle (const GmApi *api, GmBuilder *b, GmArg *a, bool lower)
{
  GmVal v = TENSOR (0);
  int64_t diagonal = INT (1);
  CHECK ();
  const GmMeta *m = META (v);
  if (m->ndim < 2)
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "%s(): the input must have at least 2 dimensions, but has %d",
                               api->name, m->ndim));
  /* Above a diagonal is where "not above it" does not hold: the upper triangle from d on excludes
   * the lower one up to d - 1. */
  GmVal mask = gm_lower_mask (b, m->sizes[m->ndim - 2], m->sizes[m->ndim - 1],
                              lower ? diagonal : diagonal - 1);
  GmVal zero = gm_b_scalar (b, gm_scalar_int (0), (GmDtype) m->dtype);
  return gm_give (lower ? gm_b (b, where, mask, v, zero) : gm_b (b, where, mask, zero, v));
}

RUN (tril)
{
  return run_triangle (api, b, a, true);
}
RUN (triu)
{
  return run_triangle (api, b, a, false);
}

/* -- Order ------------------------------------------------------------------------------------- */

GmVal
gm_argsort (GmBuilder *b, GmVal v, int dim, bool descending)
{
  GmAttrs at = { .mask = BIT (DIM) | BIT (DESCENDING), .dim = dim, .descending = descending };
  return gm_b_op (b, GM_OP_argsort, &v, 1, &at);
}

RUN (argsort)
{
  GmVal v = TENSOR (0);
  CHECK ();
  int dim = gm_arg_dim (api, b, a, 1, META (v)->ndim);
  bool descending = FLAG (2);
  CHECK ();
  return gm_give (gm_argsort (b, v, dim, descending));
}

RUN (sort)
{
  GmVal v = TENSOR (0);
  CHECK ();
  int dim = gm_arg_dim (api, b, a, 1, META (v)->ndim);
  bool descending = FLAG (2);
  CHECK ();
  GmVal index = gm_argsort (b, v, dim, descending);
  GmVal both[2] = { gm_gather (b, v, dim, index), index };
  CHECK ();
  return gm_give_list (both, 2, true, "sort values indices");
}

RUN (topk)
{
  GmVal v = TENSOR (0);
  CHECK ();
  int dim = gm_arg_dim (api, b, a, 2, META (v)->ndim);
  int64_t k = INT (1), size = META (v)->ndim ? META (v)->sizes[dim] : 1;
  bool largest = FLAG (3);
  CHECK ();
  if (gm_size_lt (k, 0) || gm_size_lt (size, k))
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "topk(): k = %" G_GINT64_FORMAT " is not in [0, %" G_GINT64_FORMAT
                               "], the size of dimension %d",
                               gm_size_number (k), gm_size_number (size), dim));
  GmVal index = gm_argsort (b, v, dim, largest);
  index = META (v)->ndim ? gm_b_slice (b, index, dim, 0, k, 1) : index;
  GmVal both[2] = { gm_gather (b, v, dim, index), index };
  CHECK ();
  return gm_give_list (both, 2, true, "topk values indices");
}

/* -- Masks and classes ------------------------------------------------------------------------- */

RUN (masked_fill)
{
  GmVal v = TENSOR (0), mask = TENSOR (1);
  CHECK ();
  if (META (mask)->dtype != GM_BOOL)
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME, "masked_fill(): the mask must be bool, not %s",
                               gm_dtypes[META (mask)->dtype].torch_name));
  if (a[2].kind == GM_ARG_TENSOR && META (a[2].v)->ndim)
    return gm_give (gm_b_fail (
        b, GM_ERROR_RUNTIME,
        "masked_fill(): the value must be a number or a 0-d tensor, not one of %d dimensions",
        META (a[2].v)->ndim));
  GmVal value = gm_value_as (b, &a[2], (GmDtype) META (v)->dtype);
  CHECK ();
  return gm_pointwise (api, b, a, GM_OP_where, (const GmArg[]){ a[1], gm_tensor_arg (value), a[0] },
                       3);
}

RUN (one_hot)
{
  GmVal v = gm_index_arg (api, b, a, 0);
  int64_t classes = INT (1);
  CHECK ();
  if (!gm_size_is_symbolic (classes) && classes == -1) {
    GmScalar top;
    if (gm_size_eq (gm_meta_numel (META (v)), 0))
      return gm_give (
          gm_b_fail (b, GM_ERROR_RUNTIME,
                     "one_hot(): num_classes cannot be told from an empty tensor; pass it"));
    GmVal most = gm_b_reduce (b, GM_OP_amax, v, NULL, 0, false);
    if (gm_b_failed (b) || !b->vt->item (b, most, &top))
      return gm_give (NULL);
    classes = top.i + 1;
  }
  if (gm_size_lt (classes, 1))
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "one_hot(): num_classes must be positive, not %" G_GINT64_FORMAT,
                               gm_size_number (classes)));
  v = gm_require_between (b, v, v, 0, INFINITY, GM_CONDITION_CLASS_POSITIVE);
  if (!gm_size_eq (gm_meta_numel (META (v)), 0)) {
    GmVal most = gm_b_reduce (b, GM_OP_amax, v, NULL, 0, false);
    v = gm_require (b, v, gm_b (b, lt, most, gm_b_scalar (b, gm_scalar_int (classes), GM_I64)),
                    GM_CONDITION_CLASS_BELOW);
  }
  CHECK ();
  GmVal hit =
      gm_b (b, eq, gm_unsqueeze (b, v, META (v)->ndim), gm_b_arange (b, 0, 1, classes, GM_I64));
  return gm_give (gm_b_cast (b, hit, GM_I64));
}

/* Scales, in place, the rows of `weight` that the indices in `flat` name and whose norm is above
 * max_norm (argument 3). */
static void
limit_rows (const GmApi *api, GmBuilder *b, const GmArg *a, GmVal weight, GmVal flat)
{
  double most = FLOAT (3), p = FLOAT (4);
  GmVal plain = gm_b (b, detach, weight), rows = gm_index_select (b, plain, 0, flat);
  if (gm_b_failed (b))
    return;
  int64_t last = 1, shape[] = { META (rows)->sizes[0], META (rows)->sizes[1] };
  int64_t column[] = { shape[0], 1 };
  GmVal norm = gm_norm (b, rows, p, &last, 1, true);
  GmVal scale = gm_num_apply (b, div, most, gm_apply_num (b, add, norm, 1e-7));
  scale = gm_pick (b, gm_apply_num (b, gt, norm, most), gm_tensor_arg (scale), gm_float_arg (1));
  GmVal places = gm_b_expand (b, gm_b_reshape (b, flat, 2, column), 2, shape);
  GmVal whole = gm_scatter_replace (b, plain, 0, places, gm_apply2 (b, mul, rows, scale));
  if (!gm_b_failed (b))
    b->vt->into (b, plain, GM_OP_copy, &whole, 1, NULL);
}

/* Returns v, which has a row for each index in `flat`, with a gradient that is divided by the
 * number of times its index is there: v - (v - v) / n, where the slope is that of the last v. */
static GmVal
share_gradient (GmBuilder *b, GmVal v, GmVal flat, int64_t rows)
{
  if (gm_b_failed (b) || !META (v)->requires_grad)
    return gm_b_failed (b) ? NULL : v;
  GmDtype d = (GmDtype) META (v)->dtype;
  int64_t n = META (flat)->sizes[0], column[] = { n, 1 };
  GmVal none = gm_b_expand (b, gm_b_scalar (b, gm_scalar_int (0), d), 1, &rows);
  GmVal one = gm_b_expand (b, gm_b_scalar (b, gm_scalar_int (1), d), 1, &n);
  GmVal counts = gm_index_select (b, gm_scatter_add (b, none, 0, flat, one), 0, flat);
  GmVal same = gm_b (b, detach, v);
  GmVal zero = gm_apply2 (b, div, gm_apply2 (b, sub, same, v), gm_b_reshape (b, counts, 2, column));
  GmVal finite = gm_apply_num (b, lt, gm_apply1 (b, abs, same), INFINITY);
  zero = gm_pick (b, finite, gm_tensor_arg (zero), gm_float_arg (0));
  return gm_apply2 (b, sub, same, zero);
}

RUN (embedding)
{
  GmVal index = gm_index_arg (api, b, a, 0), weight = TENSOR (1);
  CHECK ();
  GmMeta m = *META (index);
  const GmMeta *w = META (weight);
  if (w->ndim != 2)
    return gm_give (gm_b_fail (
        b, GM_ERROR_RUNTIME, "embedding(): 'weight' must be 2-D, but has %d dimensions", w->ndim));
  if (m.ndim >= GM_MAX_DIMS)
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "embedding(): the result would have more than %d dimensions",
                               GM_MAX_DIMS));
  int64_t n = gm_meta_numel (&m), rows = w->sizes[0];
  GmVal flat = gm_b_reshape (b, index, 1, &n);
  if (!IS_NONE (3))
    limit_rows (api, b, a, weight, flat);
  GmVal out = gm_index_select (b, weight, 0, flat);
  if (FLAG (5))
    out = share_gradient (b, out, flat, rows);
  if (!IS_NONE (2)) {
    int64_t padding = INT (2);
    CHECK ();
    rows = gm_size_number (rows);
    if (padding < -rows || padding >= rows)
      return gm_give (gm_b_fail (b, GM_ERROR_INDEX,
                                 "embedding(): padding_idx %" G_GINT64_FORMAT
                                 " is out of range for %" G_GINT64_FORMAT " rows",
                                 padding, rows));
    padding += padding < 0 ? rows : 0;
    GmVal is_padding =
        gm_unsqueeze (b, gm_b (b, eq, flat, gm_b_scalar (b, gm_scalar_int (padding), GM_I64)), 1);
    out = gm_b (b, where, is_padding, gm_b (b, detach, out), out);
  }
  m.sizes[m.ndim] = w->sizes[1];
  return gm_give (gm_b_view (b, out, m.ndim + 1, m.sizes));
}
