/* SPDX-License-Identifier: Apache-2.0
 * api_adaptive.c -- adaptive pools, which get the number of cells in place of a window's size.
 *
 * Cell i of n along a dimension of `size` elements is [floor (i * size / n), ceil ((i + 1) * size /
 * n)): every element is in a cell, and neighbouring cells may share elements. Means are taken
 * dimension by dimension. Maxima are gathered by their indices, which are results, too.
 */
#include "core/api/api_private.h"

#include <math.h>

#define MAX_SPACE 3

/* Reads the output size of each dimension (None: that of the input). False after an error. */
static bool
read_cells (const GmApi *api, GmBuilder *b, const GmArg *a, GmVal x, int space,
            int64_t out[MAX_SPACE])
{
  if (gm_b_failed (b))
    return false;
  GmMeta m = *META (x);
  if (m.ndim != space + 1 && m.ndim != space + 2) {
    gm_b_fail (b, GM_ERROR_RUNTIME,
               "%s(): expected an input with %d or %d dimensions, but it has %d", api->name,
               space + 1, space + 2, m.ndim);
    return false;
  }
  int n = a[1].kind == GM_ARG_LIST ? a[1].n : 1;
  if (n != 1 && n != space)
    gm_b_fail (b, GM_ERROR_RUNTIME, "%s(): output_size has %d numbers for %d dimensions", api->name,
               n, space);
  for (int d = 0; d < space && !gm_b_failed (b); d++) {
    const GmArg *size = a[1].kind == GM_ARG_LIST ? &a[1].items[n == 1 ? 0 : d] : &a[1];
    if (size->kind == GM_ARG_NONE)
      out[d] = gm_size_number (m.sizes[m.ndim - space + d]);
    else if (size->kind == GM_ARG_INT && gm_size_number (size->i) >= 1)
      out[d] = gm_size_number (size->i);
    else
      gm_b_fail (b, GM_ERROR_RUNTIME,
                 "%s(): output_size is a positive int or None, or a tuple of them", api->name);
    if (!gm_b_failed (b) && gm_size_lt (m.sizes[m.ndim - space + d], 1))
      gm_b_fail (b, GM_ERROR_RUNTIME, "%s(): dimension %d has no elements", api->name,
                 m.ndim - space + d);
  }
  return !gm_b_failed (b);
}

static int64_t
first_of (int64_t i, int64_t size, int64_t n)
{
  return gm_size_floordiv (gm_size_mul (size, i), n);
}

static int64_t
end_of (int64_t i, int64_t size, int64_t n)
{
  return gm_size_floordiv (gm_size_add (gm_size_mul (size, i + 1), n - 1), n);
}

/* -- Means ------------------------------------------------------------------------------------- */

static GmVal
average_cells (GmBuilder *b, GmVal x, int dim, int64_t n)
{
  int64_t size = META (x)->sizes[dim], mean_dim = dim;
  if (gm_size_eq (size, n))
    return x;
  g_autofree GmVal *cells = g_new (GmVal, n + 1);
  for (int64_t i = 0; i < n && !gm_b_failed (b); i++)
    cells[i] = gm_mean (b, gm_b_slice (b, x, dim, first_of (i, size, n), end_of (i, size, n), 1),
                        &mean_dim, 1, true);
  return gm_b_failed (b) ? NULL : n == 1 ? cells[0] : gm_cat (b, cells, (int) n, dim);
}

static GmArg
average (const GmApi *api, GmBuilder *b, GmArg *a, int space)
{
  GmVal x = TENSOR (0), v = x;
  int64_t out[MAX_SPACE];
  if (!read_cells (api, b, a, x, space, out))
    return gm_give (NULL);
  for (int d = 0; d < space && !gm_b_failed (b); d++)
    v = average_cells (b, v, META (v)->ndim - space + d, out[d]);
  CHECK ();
  return gm_give (v == x ? gm_b (b, copy, x) : v);
}

RUN (adaptive_avg_pool1d)
{
  return average (api, b, a, 1);
}
RUN (adaptive_avg_pool2d)
{
  return average (api, b, a, 2);
}
RUN (adaptive_avg_pool3d)
{
  return average (api, b, a, 3);
}

/* -- Largest elements -------------------------------------------------------------------------- */

/* Returns for each cell the indices of its elements in the flattened space of x: [cells, longest].
 * In shorter rows the last index is repeated. */
static GmVal
places (GmBuilder *b, const int64_t *size, const int64_t *n, int space)
{
  GmVal at = NULL;
  int64_t cells = 1, length = 1;
  for (int d = 0; d < space && !gm_b_failed (b); d++) {
    int64_t longest = 0;
    for (int64_t i = 0; i < n[d]; i++)
      longest = MAX (longest, end_of (i, size[d], n[d]) - first_of (i, size[d], n[d]));
    /* first + min (k, length - 1): computed as min (first + k, end - 1) */
    GmVal i = gm_b_arange (b, 0, size[d], n[d], GM_I64),
          count = gm_b_scalar (b, gm_scalar_int (n[d]), GM_I64);
    GmVal first = gm_b (b, floor_divide, i, count);
    GmVal end =
        gm_b (b, floor_divide, gm_b_arange (b, size[d] + n[d] - 1, size[d], n[d], GM_I64), count);
    GmVal last = gm_b (b, sub, end, gm_b_scalar (b, gm_scalar_int (1), GM_I64));
    GmVal here =
        gm_b (b, minimum,
              gm_b (b, add, gm_unsqueeze (b, first, 1), gm_b_arange (b, 0, 1, longest, GM_I64)),
              gm_unsqueeze (b, last, 1));
    if (!at) {
      at = here; /* [n, longest] */
      cells = n[d];
      length = longest;
      continue;
    }
    GmVal outer = gm_b_view (b, gm_b (b, mul, at, gm_b_scalar (b, gm_scalar_int (size[d]), GM_I64)),
                             4, (const int64_t[]){ cells, 1, length, 1 });
    GmVal both =
        gm_b (b, add, outer, gm_b_view (b, here, 4, (const int64_t[]){ 1, n[d], 1, longest }));
    cells *= n[d];
    length *= longest;
    at = gm_b_reshape (b, both, 2, (const int64_t[]){ cells, length });
  }
  return at;
}

static GmArg
largest (const GmApi *api, GmBuilder *b, GmArg *a, int space)
{
  GmVal x = TENSOR (0);
  int64_t out[MAX_SPACE], size[MAX_SPACE], all = 1, cells = 1;
  bool indices = FLAG (2);
  if (!read_cells (api, b, a, x, space, out))
    return gm_give (NULL);
  GmMeta m = *META (x);
  int lead = m.ndim - space;
  for (int d = 0; d < space; d++) {
    size[d] = gm_size_number (m.sizes[lead + d]);
    all *= size[d];
    cells *= out[d];
    m.sizes[lead + d] = out[d];
  }
  int64_t flat[3] = { 1, 1, all };
  for (int d = 0; d < lead; d++)
    flat[1] = gm_size_mul (flat[1], m.sizes[d]);
  GmVal v = gm_b_reshape (b, x, 2, flat + 1), at = places (b, size, out, space);
  CHECK ();
  int64_t length = META (at)->sizes[1], n = cells * length;
  GmVal list = gm_b_reshape (b, at, 1, &n);
  GmVal blocks = gm_b_reshape (
      b, gm_index_select (b, META (v)->requires_grad ? gm_b (b, detach, v) : v, 1, list), 3,
      (const int64_t[]){ flat[1], cells, length });
  GmVal best = gm_arg_extremum (b, GM_OP_argmax, blocks, 2, true);
  CHECK ();
  GmVal wide =
      gm_b_expand (b, gm_unsqueeze (b, at, 0), 3, (const int64_t[]){ flat[1], cells, length });
  GmVal place = gm_squeeze (b, gm_gather (b, wide, 2, best), 2);
  GmVal both[2] = { gm_b_reshape (b, gm_gather (b, v, 1, place), m.ndim, m.sizes),
                    gm_b_reshape (b, place, m.ndim, m.sizes) };
  CHECK ();
  return indices ? gm_give_list (both, 2, true, NULL) : gm_give (both[0]);
}

RUN (adaptive_max_pool1d)
{
  return largest (api, b, a, 1);
}
RUN (adaptive_max_pool2d)
{
  return largest (api, b, a, 2);
}
RUN (adaptive_max_pool3d)
{
  return largest (api, b, a, 3);
}
