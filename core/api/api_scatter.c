/* SPDX-License-Identifier: Apache-2.0
 * api_scatter.c -- scatter and similar functions, which write to positions that come from data, as
 * functions of values.
 *
 * The table has one op that writes by index, scatter_add. A write that replaces is made of it: the
 * index is sorted (argsort is stable), the last element of each run of equal indices is kept, and
 * the kept elements are added to zeros. So the last write wins in every back end, and gradients
 * flow to the elements that were kept. The zeros are -0.0, which changes no number it is added to.
 */
#include "core/api/api_private.h"

#include <math.h>

#define FMT "%" G_GINT64_FORMAT

static GmVal
zeros (GmBuilder *b, GmDtype d, const GmMeta *shape)
{
  return gm_b_full (b, gm_dtype_is_float (d) ? gm_scalar_float (-0.0) : gm_scalar_int (0), d,
                    shape->ndim, shape->sizes);
}

GmVal
gm_scatter_add (GmBuilder *b, GmVal into, int dim, GmVal index, GmVal what)
{
  GmAttrs at = { .mask = BIT (DIM), .dim = dim };
  return gm_b_op (b, GM_OP_scatter_add, (const GmVal[]){ into, index, what }, 3, &at);
}

/* Returns the part of src that an index of this shape reads. */
static GmVal
trimmed (GmBuilder *b, GmVal src, const GmMeta *shape)
{
  for (int d = 0; !gm_b_failed (b) && d < shape->ndim; d++)
    if (!gm_size_eq (META (src)->sizes[d], shape->sizes[d]))
      src = gm_cut (b, src, d, 0, shape->sizes[d]);
  return src;
}

/* Returns true for each place that an index points to. */
static GmVal
touched (GmBuilder *b, const GmMeta *shape, int dim, GmVal index)
{
  if (gm_b_failed (b))
    return NULL;
  GmVal one = gm_b_full (b, gm_scalar_int (1), GM_I64, META (index)->ndim, META (index)->sizes);
  return gm_b (b, gt, gm_scatter_add (b, zeros (b, GM_I64, shape), dim, index, one),
               gm_b_scalar (b, gm_scalar_int (0), GM_I64));
}

/* Returns x with src written at index along dim; index and src have one shape, of x's rank. */
GmVal
gm_scatter_replace (GmBuilder *b, GmVal x, int dim, GmVal index, GmVal src)
{
  if (gm_b_failed (b))
    return NULL;
  GmMeta m = *META (x), mi = *META (index);
  GmDtype own = (GmDtype) m.dtype, d = own == GM_BOOL ? GM_U8 : own;
  int64_t n = mi.sizes[dim], ends = gm_size_min (n, 1);
  if (ends == 0)
    return gm_b (b, copy, x);
  GmVal order = gm_argsort (b, index, dim, false), sorted = gm_gather (b, index, dim, order), last;
  GmMeta edge = mi;
  edge.sizes[dim] = ends;
  GmVal end = gm_b_full (b, gm_scalar_bool (true), GM_BOOL, edge.ndim, edge.sizes);
  if (n == 1)
    last = end;
  else
    last = gm_cat (b,
                   (const GmVal[]){ gm_b (b, ne, gm_cut (b, sorted, dim, ends, n),
                                          gm_cut (b, sorted, dim, 0, gm_size_sub (n, ends))),
                                    end },
                   2, dim);
  GmVal moved = gm_gather (b, gm_b_cast (b, src, d), dim, order);
  GmVal none =
      gm_b_scalar (b, gm_dtype_is_float (d) ? gm_scalar_float (-0.0) : gm_scalar_int (0), d);
  GmVal sum = gm_scatter_add (b, zeros (b, d, &m), dim, sorted, gm_b (b, where, last, moved, none));
  return gm_b (b, where, touched (b, &m, dim, index), gm_b_cast (b, sum, own), x);
}

/* -- scatter ----------------------------------------------------------------------------------- */

typedef struct {
  GmVal x, index, src; /* of one rank; src has index's shape */
  int ndim, dim;
} Scatter;

static bool
read_scatter (const GmApi *api, GmBuilder *b, GmArg *a, Scatter *s)
{
  GmVal x = TENSOR (0), index = gm_index_arg (api, b, a, 2);
  if (gm_b_failed (b))
    return false;
  GmDtype d = (GmDtype) META (x)->dtype;
  s->ndim = META (x)->ndim;
  s->dim = gm_arg_dim (api, b, a, 1, s->ndim);
  s->x = gm_at_least (b, x, 1);
  s->index = gm_at_least (b, index, 1);
  if (gm_b_failed (b))
    return false;
  if (a[3].kind == GM_ARG_TENSOR) {
    s->src = gm_at_least (b, a[3].v, 1);
    if (gm_b_failed (b))
      return false;
    if (META (s->src)->dtype != d) {
      gm_b_fail (b, GM_ERROR_RUNTIME,
                 "%s(): expected self.dtype to be equal to src.dtype, but they are %s and %s",
                 api->name, gm_dtypes[d].torch_name, gm_dtypes[META (s->src)->dtype].torch_name);
      return false;
    }
  } else if (gm_arg_is_number (&a[3]))
    s->src =
        gm_b_expand (b, gm_value_as (b, &a[3], d), META (s->index)->ndim, META (s->index)->sizes);
  else
    gm_arg_fail (api, b, a, 3, "Tensor or Number");
  if (gm_b_failed (b))
    return false;
  const GmMeta *mx = META (s->x), *mi = META (s->index), *ms = META (s->src);
  bool fits = mi->ndim == mx->ndim && ms->ndim == mx->ndim;
  for (int k = 0; fits && k < mi->ndim; k++)
    fits = gm_size_le (mi->sizes[k], ms->sizes[k])
           && (k == s->dim || gm_size_le (mi->sizes[k], mx->sizes[k]));
  if (!fits && !gm_size_eq (gm_meta_numel (mi), 0)) {
    g_autofree char *one = gm_shape_text (mi->ndim, mi->sizes),
                    *two = gm_shape_text (mx->ndim, mx->sizes),
                    *three = gm_shape_text (ms->ndim, ms->sizes);
    gm_b_fail (b, GM_ERROR_RUNTIME,
               "%s(): expected index %s to be smaller than self %s apart from dimension %d and to "
               "be smaller size than src %s",
               api->name, one, two, s->dim, three);
    return false;
  }
  if (fits)
    s->src = trimmed (b, s->src, mi);
  return !gm_b_failed (b);
}

static GmArg
scattered (const GmApi *api, GmBuilder *b, const Scatter *s, GmVal y)
{
  CHECK ();
  return gm_give (s->ndim ? y : gm_squeeze (b, y, 0));
}

static bool
nothing (GmBuilder *b, const Scatter *s)
{
  return gm_size_eq (gm_meta_numel (META (s->index)), 0);
}

typedef enum { REPLACE, ADD, MULTIPLY, SUM, PROD, MEAN, AMAX, AMIN } How;

static How
how_of (const GmApi *api, GmBuilder *b, const GmArg *a, int i, How first, How last)
{
  static const char *const names[] = {
    "", "add", "multiply", "sum", "prod", "mean", "amax", "amin"
  };
  const char *text = STR (i);
  for (How h = first; h <= last; h++)
    if (strcmp (text, names[h]) == 0)
      return h;
  gm_b_fail (b, GM_ERROR_RUNTIME,
             first == ADD ? "%s(): reduce argument must be either add or multiply, not '%s'"
                          : "%s(): reduce must be one of sum, prod, mean, amax or amin, not '%s'",
             api->name, text);
  return REPLACE;
}

/* Returns v - detach (v): 0 with v's slope; 0 without a slope where v is not finite. */
static GmVal
slope_only (GmBuilder *b, GmVal v)
{
  GmVal zero = gm_b_scalar (b, gm_scalar_int (0), (GmDtype) META (v)->dtype);
  GmVal finite = gm_apply_num (b, lt, gm_b (b, abs, v), INFINITY);
  GmVal safe = gm_b (b, where, finite, v, zero);
  return gm_b_failed (b) ? NULL : gm_b (b, sub, safe, gm_b (b, detach, safe));
}

/* Returns the largest (smallest) of the values scattered to each position, with the old value if
 * `own`: values are sorted by value, then by position, and the last of each position is written. */
static GmVal
extremum_at (GmBuilder *b, const Scatter *s, bool smallest, bool own)
{
  GmVal x = s->x, index = s->index, src = s->src;
  GmMeta mi = *META (index);
  if (own) { /* the old value is first in the row */
    GmMeta mx = *META (x);
    int64_t line[GM_MAX_DIMS], at = s->dim;
    GmVal part = x;
    for (int d = 0; d < mx.ndim; d++) {
      line[d] = d == at ? mx.sizes[d] : 1;
      if (d != at)
        part = gm_size_eq (mx.sizes[d], mi.sizes[d]) ? part : gm_cut (b, part, d, 0, mi.sizes[d]);
    }
    if (gm_b_failed (b))
      return NULL;
    GmVal places =
        gm_b_expand (b, gm_b_view (b, gm_b_arange (b, 0, 1, mx.sizes[at], GM_I64), mx.ndim, line),
                     mx.ndim, META (part)->sizes);
    index = gm_cat (b, (const GmVal[]){ places, index }, 2, s->dim);
    src = gm_cat (b, (const GmVal[]){ part, src }, 2, s->dim);
  }
  if (gm_b_failed (b))
    return NULL;
  GmDtype d = (GmDtype) META (src)->dtype;
  GmVal still = META (src)->requires_grad ? gm_b (b, detach, src) : src,
        plain = META (x)->requires_grad ? gm_b (b, detach, x) : x;
  GmVal order = gm_argsort (b, still, s->dim, smallest);
  GmVal best = gm_scatter_replace (b, plain, s->dim, gm_gather (b, index, s->dim, order),
                                   gm_gather (b, still, s->dim, order));
  if (gm_b_failed (b) || !gm_dtype_is_float (d)
      || !(META (src)->requires_grad || META (x)->requires_grad))
    return best;
  /* Equal ones share the gradient evenly. */
  GmVal written = touched (b, META (x), s->dim, s->index), none = zeros (b, d, META (x));
  GmVal equal = gm_b (b, eq, still, gm_gather (b, best, s->dim, index));
  GmVal hit = gm_b_cast (b, gm_b (b, logical_and, equal, gm_gather (b, written, s->dim, index)), d);
  GmVal count = gm_scatter_add (b, none, s->dim, index, hit);
  GmVal least = gm_apply_num (b, maximum, count, 1);
  GmVal share =
      gm_b (b, div, gm_b (b, mul, slope_only (b, src), hit), gm_gather (b, least, s->dim, index));
  GmVal kept = gm_b (b, where, written, none, slope_only (b, x));
  return gm_b (b, add, best, gm_b (b, add, kept, gm_scatter_add (b, none, s->dim, index, share)));
}

/* Returns y, the products of the elements scattered to each position, with 0 for the NaN that a
 * zero and an overflow of finite elements make. */
static GmVal
without_overflow (GmBuilder *b, const Scatter *s, bool own, GmVal y)
{
  GmDtype d = (GmDtype) META (s->x)->dtype;
  GmVal x = gm_b (b, detach, s->x), src = gm_b (b, detach, s->src);
  GmVal none = gm_b_scalar (b, gm_scalar_int (0), d), fresh = zeros (b, d, META (x));
  GmVal first = own ? gm_b_cast (b, gm_b (b, eq, x, none), d) : fresh;
  GmVal broken = own ? gm_b (b, mul, x, none) : fresh;
  GmVal zero =
      gm_scatter_add (b, first, s->dim, s->index, gm_b_cast (b, gm_b (b, eq, src, none), d));
  GmVal finite =
      gm_b (b, eq, gm_scatter_add (b, broken, s->dim, s->index, gm_b (b, mul, src, none)), none);
  GmVal lost = gm_b (b, logical_and, gm_b (b, ne, y, y),
                     gm_b (b, logical_and, gm_b (b, gt, zero, none), finite));
  return gm_b (b, where, lost, none, y);
}

/* Returns the product of the elements scattered to each position, with the old element if `own`:
 * the k-th of each run of equal indices is multiplied in step k. */
static GmVal
product_at (GmBuilder *b, const Scatter *s, bool own)
{
  int64_t n = gm_size_number (META (s->index)->sizes[s->dim]);
  GmMeta m = *META (s->x);
  GmDtype d = (GmDtype) m.dtype;
  GmVal order = gm_argsort (b, s->index, s->dim, false),
        sorted = gm_gather (b, s->index, s->dim, order), src = gm_gather (b, s->src, s->dim, order);
  /* products of the elements from the start of the run to here, by doubling: those 2^k before
   * belong to it if they have its index */
  for (int64_t step = 1; step < n && !gm_b_failed (b); step *= 2) {
    GmVal same =
        gm_b (b, eq, gm_cut (b, sorted, s->dim, step, n), gm_cut (b, sorted, s->dim, 0, n - step));
    GmVal late = gm_cut (b, src, s->dim, step, n),
          both = gm_b (b, mul, gm_cut (b, src, s->dim, 0, n - step), late);
    src = gm_cat (
        b, (const GmVal[]){ gm_cut (b, src, s->dim, 0, step), gm_b (b, where, same, both, late) },
        2, s->dim);
  }
  GmVal one = gm_b_full (b, gm_scalar_int (1), d, m.ndim, m.sizes);
  GmVal product = gm_scatter_replace (b, one, s->dim, sorted, src);
  GmVal y = own ? gm_b (b, mul, s->x, product)
                : gm_b (b, where, touched (b, &m, s->dim, s->index), product, s->x);
  return gm_b_failed (b) || !gm_dtype_is_float (d) ? y : without_overflow (b, s, own, y);
}

static GmVal
reduce_at (GmBuilder *b, const Scatter *s, How how, bool own)
{
  GmMeta m = *META (s->x);
  GmDtype d = (GmDtype) m.dtype;
  if (how == AMAX || how == AMIN)
    return extremum_at (b, s, how == AMIN, own);
  if (how == PROD)
    return product_at (b, s, own);
  GmVal none = zeros (b, d, &m), hit = own ? NULL : touched (b, &m, s->dim, s->index);
  GmVal sum =
      gm_scatter_add (b, own ? s->x : gm_b (b, where, hit, none, s->x), s->dim, s->index, s->src);
  if (how == SUM || gm_b_failed (b))
    return sum;
  GmMeta mi = *META (s->index);
  GmVal count = gm_scatter_add (
      b, gm_b_full (b, gm_scalar_int (own ? 1 : 0), GM_I64, m.ndim, m.sizes), s->dim, s->index,
      gm_b_full (b, gm_scalar_int (1), GM_I64, mi.ndim, mi.sizes));
  GmVal least =
      gm_b_cast (b, gm_b (b, maximum, count, gm_b_scalar (b, gm_scalar_int (1), GM_I64)), d);
  if (!gm_dtype_is_float (d))
    return gm_b (b, floor_divide, sum, least);
  return gm_b (b, div, sum, least);
}

RUN (scatter)
{
  Scatter s;
  if (!read_scatter (api, b, a, &s))
    return gm_give (NULL);
  How how = IS_NONE (4) ? REPLACE : how_of (api, b, a, 4, ADD, MULTIPLY);
  CHECK ();
  if (nothing (b, &s))
    return gm_give (gm_b (b, copy, a[0].v));
  if (how == REPLACE && a[3].kind != GM_ARG_TENSOR) {
    GmVal value = gm_value_as (b, &a[3], (GmDtype) META (s.x)->dtype);
    return scattered (api, b, &s,
                      gm_b (b, where, touched (b, META (s.x), s.dim, s.index), value, s.x));
  }
  return scattered (api, b, &s,
                    how == REPLACE ? gm_scatter_replace (b, s.x, s.dim, s.index, s.src)
                                   : reduce_at (b, &s, how == ADD ? SUM : PROD, true));
}

RUN (scatter_reduce)
{
  Scatter s;
  if (a[3].kind != GM_ARG_TENSOR)
    return gm_give (gm_arg_fail (api, b, a, 3, "Tensor"));
  if (!read_scatter (api, b, a, &s))
    return gm_give (NULL);
  How how = how_of (api, b, a, 4, SUM, AMIN);
  bool own = FLAG (5);
  CHECK ();
  if (nothing (b, &s))
    return gm_give (gm_b (b, copy, a[0].v));
  return scattered (api, b, &s, reduce_at (b, &s, how, own));
}

/* -- Whole slices ------------------------------------------------------------------------------ */

/* Returns argument i as a vector of indices along a dimension; sets an error for more dimensions.
 */
static GmVal
list_of (const GmApi *api, GmBuilder *b, GmArg *a, int i)
{
  GmVal v = gm_index_arg (api, b, a, i);
  if (v && META (v)->ndim > 1)
    return gm_b_fail (b, GM_ERROR_RUNTIME, "%s(): index must have one dimension, but has %d",
                      api->name, META (v)->ndim);
  return gm_at_least (b, v, 1);
}

static GmVal
along (GmBuilder *b, GmVal list, const GmMeta *m, int dim)
{
  int64_t sizes[GM_MAX_DIMS];
  for (int d = 0; d < m->ndim; d++)
    sizes[d] = d == dim ? gm_meta_numel (META (list)) : 1;
  return gm_b_view (b, list, m->ndim, sizes);
}

RUN (index_fill)
{
  GmVal v = TENSOR (0), index = list_of (api, b, a, 2);
  CHECK ();
  int ndim = META (v)->ndim, dim = gm_arg_dim (api, b, a, 1, ndim);
  if (a[3].kind == GM_ARG_TENSOR && META (a[3].v)->ndim)
    return gm_give (gm_b_fail (
        b, GM_ERROR_RUNTIME,
        "index_fill(): the value must be a number or a 0-d tensor, not one of %d dimensions",
        META (a[3].v)->ndim));
  GmVal x = gm_at_least (b, v, 1), value = gm_value_as (b, &a[3], (GmDtype) META (v)->dtype);
  CHECK ();
  GmMeta line = gm_meta_make (GM_I64, 1, &META (x)->sizes[dim]);
  GmVal wrapped = gm_b (b, add, index, gm_b_scalar (b, gm_scalar_int (line.sizes[0]), GM_I64));
  index = gm_b (b, where, gm_b (b, lt, index, gm_b_scalar (b, gm_scalar_int (0), GM_I64)), wrapped,
                index);
  GmVal hit = along (b, touched (b, &line, 0, index), META (x), dim);
  GmVal y = gm_b (b, where, hit, value, x);
  CHECK ();
  return gm_give (ndim ? y : gm_squeeze (b, y, 0));
}

RUN (index_copy)
{
  GmVal v = TENSOR (0), index = list_of (api, b, a, 2), src = TENSOR (3);
  CHECK ();
  int ndim = META (v)->ndim, dim = gm_arg_dim (api, b, a, 1, ndim);
  CHECK ();
  if (META (src)->dtype != META (v)->dtype)
    return gm_give (
        gm_b_fail (b, GM_ERROR_RUNTIME,
                   "index_copy(): self and source must have the same dtype, but have %s and %s",
                   gm_dtypes[META (v)->dtype].torch_name, gm_dtypes[META (src)->dtype].torch_name));
  GmVal x = gm_at_least (b, v, 1);
  src = gm_at_least (b, src, 1);
  CHECK ();
  GmMeta m = *META (x), ms = *META (src);
  bool fits = m.ndim == ms.ndim && gm_size_eq (ms.sizes[dim], gm_meta_numel (META (index)));
  for (int d = 0; fits && d < m.ndim; d++)
    fits = d == dim || gm_size_eq (m.sizes[d], ms.sizes[d]);
  if (!fits) {
    g_autofree char *one = gm_shape_text (m.ndim, m.sizes),
                    *two = gm_shape_text (ms.ndim, ms.sizes);
    return gm_give (gm_b_fail (
        b, GM_ERROR_RUNTIME,
        "index_copy(): a source of shape %s does not fit self of shape %s along dimension %d", two,
        one, dim));
  }
  GmVal y = gm_scatter_replace (b, x, dim,
                                gm_b_expand (b, along (b, index, &m, dim), ms.ndim, ms.sizes), src);
  CHECK ();
  return gm_give (ndim ? y : gm_squeeze (b, y, 0));
}

RUN (take)
{
  GmVal v = TENSOR (0), index = gm_index_arg (api, b, a, 1);
  CHECK ();
  GmMeta m = *META (index);
  int64_t n = gm_meta_numel (META (v)), k = gm_meta_numel (&m);
  GmVal flat = gm_b_reshape (b, index, 1, &k), size = gm_b_scalar (b, gm_scalar_int (n), GM_I64),
        zero = gm_b_scalar (b, gm_scalar_int (0), GM_I64);
  flat = gm_b (b, where, gm_b (b, lt, flat, zero), gm_b (b, add, flat, size), flat);
  return gm_give (
      gm_b_view (b, gm_index_select (b, gm_b_reshape (b, v, 1, &n), 0, flat), m.ndim, m.sizes));
}

RUN (put)
{
  GmVal v = TENSOR (0), index = gm_index_arg (api, b, a, 1), src = TENSOR (2);
  bool add = FLAG (3);
  CHECK ();
  GmMeta m = *META (v);
  int64_t n = gm_meta_numel (&m), k = gm_meta_numel (META (index));
  if (m.dtype != META (src)->dtype || !gm_size_eq (k, gm_meta_numel (META (src))))
    return gm_give (
        gm_b_fail (b, GM_ERROR_RUNTIME,
                   "put_(): source must have self's dtype and as many elements as index"));
  GmVal flat = gm_b_reshape (b, index, 1, &k), zero = gm_b_scalar (b, gm_scalar_int (0), GM_I64);
  flat = gm_b (b, where, gm_b (b, lt, flat, zero),
               gm_b (b, add, flat, gm_b_scalar (b, gm_scalar_int (n), GM_I64)), flat);
  GmVal x = gm_b_reshape (b, v, 1, &n), from = gm_b_reshape (b, src, 1, &k);
  return gm_give (gm_b_reshape (
      b, add ? gm_scatter_add (b, x, 0, flat, from) : gm_scatter_replace (b, x, 0, flat, from),
      m.ndim, m.sizes));
}

/* Writes the next element of source where the mask holds, in row-major order. */
RUN (masked_scatter)
{
  GmVal v = TENSOR (0), mask = TENSOR (1), src = TENSOR (2);
  CHECK ();
  GmMeta shape;
  if (META (mask)->dtype != GM_BOOL || META (src)->dtype != META (v)->dtype)
    return gm_give (
        gm_b_fail (b, GM_ERROR_RUNTIME,
                   "masked_scatter(): expected a bool mask, and a source of self's dtype"));
  if (!gm_meta_broadcast (META (v), META (mask), &shape, &b->error))
    return gm_give (NULL);
  int64_t n = gm_meta_numel (&shape), k = gm_meta_numel (META (src));
  GmVal flat = gm_b_reshape (b, gm_b_expand (b, mask, shape.ndim, shape.sizes), 1, &n),
        count = gm_b_cast (b, flat, GM_I64);
  v = gm_b_expand (b, v, shape.ndim, shape.sizes);
  CHECK ();
  if (gm_size_eq (n, 0))
    return gm_give (gm_b (b, copy, v));
  GmAttrs at = { .mask = BIT (DIM) | BIT (REVERSE) };
  GmVal place = gm_b (b, sub, gm_b_op (b, GM_OP_cumsum, &count, 1, &at),
                      gm_b_scalar (b, gm_scalar_int (1), GM_I64));
  place = gm_b (b, where, flat, place, gm_b_scalar (b, gm_scalar_int (0), GM_I64));
  if (gm_size_eq (k, 0)) { /* nothing to take: the mask must not hold anywhere */
    GmScalar any = gm_scalar_int (0);
    GmVal sum = gm_b_reduce (b, GM_OP_any, flat, NULL, 0, false);
    if (gm_b_failed (b) || !b->vt->item (b, sum, &any))
      return gm_give (NULL);
    return gm_give (any.i ? gm_b_fail (b, GM_ERROR_RUNTIME,
                                       "masked_scatter(): expected source to have at least as many "
                                       "elements as the mask has ones")
                          : gm_b (b, copy, v));
  }
  GmVal taken = gm_b_reshape (b, gm_index_select (b, gm_b_reshape (b, src, 1, &k), 0, place),
                              shape.ndim, shape.sizes);
  return gm_give (gm_b (b, where, gm_b_reshape (b, flat, shape.ndim, shape.sizes), taken, v));
}

/* -- Views, replaced --------------------------------------------------------------------------- */

static GmVal
with_slice (GmBuilder *b, GmVal v, GmVal src, int dim, int64_t start, int64_t stop, int64_t step)
{
  GmAttrs at = { .mask = BIT (DIM) | BIT (START) | BIT (STOP) | BIT (STEP),
                 .dim = dim,
                 .start = start,
                 .stop = stop,
                 .step = step };
  return gm_b_op (b, GM_OP_slice_scatter, (const GmVal[]){ v, src }, 2, &at);
}

RUN (slice_scatter)
{
  GmVal v = TENSOR (0), src = TENSOR (1);
  CHECK ();
  int dim = gm_arg_dim (api, b, a, 2, META (v)->ndim);
  int64_t size = META (v)->ndim ? gm_size_number (META (v)->sizes[dim]) : 0,
          start = IS_NONE (3) ? 0 : INT (3), stop = IS_NONE (4) ? size : INT (4), step = INT (5);
  CHECK ();
  start = CLAMP (start < 0 ? start + size : start, 0, size);
  stop = CLAMP (stop < 0 ? stop + size : stop, start, size);
  if (META (v)->ndim == 0 || step < 1)
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "slice_scatter(): needs a dimension and a step of at least 1"));
  GmMeta part = *META (v);
  part.sizes[dim] = (stop - start + step - 1) / step;
  if (!gm_meta_same_shape (&part, META (src))) {
    g_autofree char *one = gm_shape_text (META (src)->ndim, META (src)->sizes),
                    *two = gm_shape_text (part.ndim, part.sizes);
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "slice_scatter(): expected src to have a size equal to the slice of "
                               "self, %s, but it has %s",
                               two, one));
  }
  return gm_give (
      with_slice (b, v, gm_b_cast (b, src, (GmDtype) META (v)->dtype), dim, start, stop, step));
}

RUN (select_scatter)
{
  GmVal v = TENSOR (0), src = TENSOR (1);
  CHECK ();
  int dim = gm_arg_dim (api, b, a, 2, META (v)->ndim);
  int64_t size = META (v)->ndim ? gm_size_number (META (v)->sizes[dim]) : 0, i = INT (3),
          at = i < 0 ? i + size : i;
  CHECK ();
  if (at < 0 || at >= size)
    return gm_give (gm_b_fail (b, GM_ERROR_INDEX,
                               "select_scatter(): index " FMT
                               " out of range for dimension %d with size " FMT,
                               i, dim, size));
  GmMeta part = *META (v);
  part.sizes[dim] = 1;
  src = gm_unsqueeze (b, src, dim);
  CHECK ();
  if (!gm_meta_same_shape (&part, META (src)))
    return gm_give (
        gm_b_fail (b, GM_ERROR_RUNTIME,
                   "select_scatter(): expected src to have a size equal to the slice of self"));
  return gm_give (
      with_slice (b, v, gm_b_cast (b, src, (GmDtype) META (v)->dtype), dim, at, at + 1, 1));
}

RUN (diagonal_scatter)
{
  GmVal v = TENSOR (0), src = TENSOR (1);
  int64_t offset = INT (2);
  CHECK ();
  GmMeta m = *META (v);
  int d1 = gm_arg_dim (api, b, a, 3, m.ndim), d2 = gm_arg_dim (api, b, a, 4, m.ndim), k = 0;
  CHECK ();
  if (m.ndim < 2 || d1 == d2)
    return gm_give (gm_b_fail (
        b, GM_ERROR_RUNTIME,
        "diagonal_scatter(): dim1 and dim2 must be two dimensions, but are %d and %d of %d", d1, d2,
        m.ndim));
  int64_t dims[GM_MAX_DIMS], back[GM_MAX_DIMS], sizes[GM_MAX_DIMS],
      rows = gm_size_number (m.sizes[d1]), cols = gm_size_number (m.sizes[d2]);
  for (int d = 0; d < m.ndim; d++)
    if (d != d1 && d != d2)
      dims[k++] = d;
  dims[k] = d1;
  dims[k + 1] = d2;
  for (int d = 0; d < m.ndim; d++)
    back[dims[d]] = d;
  int64_t n = MAX (offset >= 0 ? MIN (rows, cols - offset) : MIN (rows + offset, cols), 0);
  GmVal moved = gm_b_permute (b, v, dims);
  CHECK ();
  GmMeta mm = *META (moved);
  memcpy (sizes, mm.sizes, sizeof sizes);
  sizes[k] = n;
  if (META (src)->ndim != k + 1 || !gm_size_eq (META (src)->sizes[k], n))
    return gm_give (gm_b_fail (
        b, GM_ERROR_RUNTIME,
        "diagonal_scatter(): expected src to have a size equal to the diagonal of self"));
  if (n == 0)
    return gm_give (gm_b (b, copy, v));
  /* src spread over the columns (or rows) in which its elements stand */
  GmVal r = gm_unsqueeze (b, gm_b_arange (b, offset, 1, rows, GM_I64), 1),
        c = gm_b_arange (b, 0, 1, cols, GM_I64), hit = gm_b (b, eq, r, c);
  GmVal place = gm_b_arange (b, offset > 0 ? -offset : 0, 1, cols, GM_I64),
        zero = gm_b_scalar (b, gm_scalar_int (0), GM_I64),
        last = gm_b_scalar (b, gm_scalar_int (n - 1), GM_I64);
  place = gm_b (b, minimum, gm_b (b, maximum, place, zero), last);
  GmVal line =
      gm_unsqueeze (b, gm_index_select (b, gm_b_cast (b, src, (GmDtype) m.dtype), k, place), k);
  return gm_give (gm_b_permute (b, gm_b (b, where, hit, line, moved), back));
}

RUN (fill)
{
  GmVal v = TENSOR (0);
  CHECK ();
  if (a[1].kind == GM_ARG_TENSOR && META (a[1].v)->ndim)
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "fill() takes a number or a 0-d tensor, not one of %d dimensions",
                               META (a[1].v)->ndim));
  GmVal value = gm_value_as (b, &a[1], (GmDtype) META (v)->dtype);
  CHECK ();
  return gm_give (gm_apply1 (b, copy, gm_b_expand (b, value, META (v)->ndim, META (v)->sizes)));
}
