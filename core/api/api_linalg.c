/* SPDX-License-Identifier: Apache-2.0
 * api_linalg.c -- products of vectors and matrices, all by way of the one op `matmul`.
 */
#include "core/api/api_private.h"

#include <math.h>

static GmVal
fail_shapes (const GmApi *api, GmBuilder *b, const char *wanted, GmVal x, GmVal y)
{
  const GmMeta *m = META (x), *k = META (y);
  g_autofree char *xs = gm_shape_text (m->ndim, m->sizes), *ys = gm_shape_text (k->ndim, k->sizes);
  return gm_b_fail (b, GM_ERROR_RUNTIME, "%s() expects %s, but the shapes are %s and %s", api->name,
                    wanted, xs, ys);
}

/* Returns [..., m, k] x [k, n] as one product of matrices. */
static GmVal
matmul_rows (GmBuilder *b, GmVal x, GmVal y)
{
  GmMeta m = *META (x);
  int64_t flat[2] = { 1, m.sizes[m.ndim - 1] };
  for (int d = 0; d < m.ndim - 1; d++)
    flat[0] = gm_size_mul (flat[0], m.sizes[d]);
  GmVal out = gm_b (b, matmul, gm_b_reshape (b, x, 2, flat), y);
  m.sizes[m.ndim - 1] = META (y)->sizes[1];
  return gm_b_view (b, out, m.ndim, m.sizes);
}

GmVal
gm_matmul (const GmApi *api, GmBuilder *b, GmVal x, GmVal y)
{
  if (gm_b_failed (b))
    return NULL;
  int nx = META (x)->ndim, ny = META (y)->ndim;
  if (nx == 0 || ny == 0)
    return fail_shapes (api, b, "tensors of at least one dimension", x, y);
  if (!gm_size_eq (META (x)->sizes[nx - 1], META (y)->sizes[ny == 1 ? 0 : ny - 2]))
    return fail_shapes (api, b, "the last size of the first to be the last but one of the second",
                        x, y);
  if (nx == 2 && ny == 2)
    return gm_b (b, matmul, x, y);
  if (nx > 2 && ny == 2)
    return matmul_rows (b, x, y);
  GmVal left = nx == 1 ? gm_unsqueeze (b, x, 0) : x, right = ny == 1 ? gm_unsqueeze (b, y, 1) : y;
  GmVal out = nx > 2 && ny == 1 ? matmul_rows (b, left, right) : gm_b (b, matmul, left, right);
  if (gm_b_failed (b))
    return NULL;
  if (ny == 1)
    out = gm_squeeze (b, out, META (out)->ndim - 1);
  if (nx == 1 && !gm_b_failed (b))
    out = gm_squeeze (b, out, META (out)->ndim - (ny == 1 ? 1 : 2));
  return out;
}

RUN (matmul)
{
  GmVal x = TENSOR (0), y = TENSOR (1);
  CHECK ();
  return gm_give (gm_matmul (api, b, x, y));
}

/* Returns the product of x and y, which must have nx and ny dimensions; else sets an error. */
static GmVal
exact (const GmApi *api, GmBuilder *b, GmVal x, GmVal y, int nx, int ny)
{
  static const char *const wanted[] = { NULL, "a vector", "a matrix", "a batch of matrices" };
  if (gm_b_failed (b))
    return NULL;
  if (META (x)->ndim != nx || META (y)->ndim != ny) {
    g_autofree char *text = g_strdup_printf ("%s and %s", wanted[nx], wanted[ny]);
    return fail_shapes (api, b, text, x, y);
  }
  if (nx == 3 && !gm_size_eq (META (x)->sizes[0], META (y)->sizes[0]))
    return fail_shapes (api, b, "batches of one size", x, y);
  return gm_matmul (api, b, x, y);
}

static GmArg
run_exact (const GmApi *api, GmBuilder *b, GmArg *a, int nx, int ny)
{
  GmVal x = TENSOR (0), y = TENSOR (1);
  return gm_give (exact (api, b, x, y, nx, ny));
}

RUN (mm)
{
  return run_exact (api, b, a, 2, 2);
}
RUN (bmm)
{
  return run_exact (api, b, a, 3, 3);
}
RUN (mv)
{
  return run_exact (api, b, a, 2, 1);
}
RUN (dot)
{
  return run_exact (api, b, a, 1, 1);
}

RUN (outer)
{
  GmVal x = TENSOR (0), y = TENSOR (1);
  CHECK ();
  if (META (x)->ndim != 1 || META (y)->ndim != 1)
    return gm_give (fail_shapes (api, b, "two vectors", x, y));
  return gm_give (gm_apply2 (b, mul, gm_unsqueeze (b, x, 1), y));
}

static bool
is_one (const GmArg *a)
{
  return a->kind == GM_ARG_FLOAT ? a->d == 1 : a->i == 1;
}

GmArg
gm_add_product (const GmApi *api, GmBuilder *b, GmArg *a, GmVal p)
{
  GmVal in = TENSOR (0);
  CHECK ();
  if (!gm_arg_is_number (&a[3]) || !gm_arg_is_number (&a[4]))
    return gm_give (gm_arg_fail (api, b, a, gm_arg_is_number (&a[3]) ? 4 : 3, "Number"));
  GmDtype d = (GmDtype) META (in)->dtype;
  GmArg beta = gm_factor (b, &a[3], d), alpha = gm_factor (b, &a[4], d);
  CHECK ();
  if (!is_one (&alpha))
    p = gm_apply (b, GM_OP_mul, (const GmArg[]){ gm_tensor_arg (p), alpha }, 2);
  if (beta.kind == GM_ARG_FLOAT ? beta.d == 0 : beta.i == 0)
    in = gm_b_zeros_like (b, in); /* zeros, in which not even a NaN of the input remains */
  else if (!is_one (&beta))
    in = gm_apply (b, GM_OP_mul, (const GmArg[]){ a[0], beta }, 2);
  return gm_give (gm_apply2 (b, add, in, p));
}

static GmArg
run_add_product (const GmApi *api, GmBuilder *b, GmArg *a, int ndim)
{
  GmVal x = TENSOR (1), y = TENSOR (2);
  CHECK ();
  return gm_add_product (api, b, a, exact (api, b, x, y, ndim, ndim));
}

RUN (addmm)
{
  return run_add_product (api, b, a, 2);
}
RUN (baddbmm)
{
  return run_add_product (api, b, a, 3);
}

RUN (linear)
{
  GmVal x = TENSOR (0), w = TENSOR (1), bias = OPTIONAL_TENSOR (2);
  CHECK ();
  int nw = META (w)->ndim, nx = META (x)->ndim;
  if (nw < 1 || nw > 2 || nx < 1 || !gm_size_eq (META (x)->sizes[nx - 1], META (w)->sizes[nw - 1]))
    return gm_give (fail_shapes (api, b, "an input [..., in] and a weight [out, in]", x, w));
  GmVal y = gm_matmul (api, b, x, nw == 2 ? gm_b_transpose (b, w, 0, 1) : w);
  return gm_give (bias ? gm_apply2 (b, add, y, bias) : y);
}

/* -- Attention --------------------------------------------------------------------------------- */

static GmVal
add_mask (const GmApi *api, GmBuilder *b, GmVal scores, GmVal mask)
{
  if (gm_b_failed (b))
    return NULL;
  if (META (mask)->dtype != GM_BOOL)
    return gm_apply2 (b, add, scores, mask);
  return gm_apply (
      b, GM_OP_where,
      (const GmArg[]){ gm_tensor_arg (mask), gm_tensor_arg (scores), gm_float_arg (-INFINITY) }, 3);
}

/* Returns a bool tensor, true for each row of *mask that excludes all keys and whose result is
 * therefore 0; NULL after an error or for a mask without dimensions. *mask becomes a mask that
 * includes all keys in these rows, as the softmax needs at least one. */
static GmVal
rows_without_any (GmBuilder *b, GmVal *mask)
{
  if (gm_b_failed (b) || META (*mask)->ndim < 1)
    return NULL;
  int64_t last = META (*mask)->ndim - 1;
  GmVal still = META (*mask)->requires_grad ? gm_b (b, detach, *mask) : *mask, none;
  if (META (*mask)->dtype == GM_BOOL) {
    none = gm_b (b, logical_not, gm_b_reduce (b, GM_OP_any, still, &last, 1, true));
    *mask = gm_b (b, logical_or, *mask, none);
  } else {
    none = gm_apply_num (b, eq, gm_b_reduce (b, GM_OP_amax, still, &last, 1, true), -INFINITY);
    *mask = gm_pick (b, none, gm_float_arg (0), gm_tensor_arg (*mask));
  }
  return none;
}

/* Returns keys or values v [..., h, s, e] with each head repeated in a row so that there are
 * `heads`. */
static GmVal
share_heads (const GmApi *api, GmBuilder *b, GmVal v, int64_t heads)
{
  if (gm_b_failed (b))
    return NULL;
  GmMeta m = *META (v);
  int at = m.ndim - 3;
  int64_t own = gm_size_number (m.sizes[at]);
  heads = gm_size_number (heads);
  if (own == heads)
    return v;
  if (own == 0 || heads % own || m.ndim >= GM_MAX_DIMS)
    return gm_b_fail (b, GM_ERROR_RUNTIME,
                      "%s(): enable_gqa needs a number of heads in key and value that divides the "
                      "query's: %" G_GINT64_FORMAT " and %" G_GINT64_FORMAT,
                      api->name, own, heads);
  int64_t wide[GM_MAX_DIMS], flat[GM_MAX_DIMS];
  for (int d = 0; d < m.ndim; d++) {
    wide[d + (d > at)] = m.sizes[d];
    flat[d] = d == at ? heads : m.sizes[d];
  }
  wide[at + 1] = heads / own;
  v = gm_b_expand (b, gm_unsqueeze (b, v, at + 1), m.ndim + 1, wide);
  return gm_b_reshape (b, v, m.ndim, flat);
}

RUN (scaled_dot_product_attention)
{
  GmVal q = TENSOR (0), k = TENSOR (1), v = TENSOR (2), mask = OPTIONAL_TENSOR (3);
  CHECK ();
  double p = FLOAT (4);
  bool causal = FLAG (5);
  int nq = META (q)->ndim, nk = META (k)->ndim;
  CHECK ();
  if (nq < 2 || nk < 2 || META (v)->ndim < 2)
    return gm_give (fail_shapes (api, b, "query, key and value of at least two dimensions", q, k));
  if (causal && mask)
    return gm_give (gm_b_fail (b, GM_ERROR_RUNTIME,
                               "%s(): attn_mask and is_causal exclude each other", api->name));
  if (FLAG (7) && nq > 2 && nk > 2 && META (v)->ndim > 2) {
    int64_t heads = META (q)->sizes[nq - 3];
    k = share_heads (api, b, k, heads);
    v = share_heads (api, b, v, heads);
    CHECK ();
  }
  int64_t rows = META (q)->sizes[nq - 2], cols = META (k)->sizes[nk - 2],
          e = gm_size_number (META (q)->sizes[nq - 1]); /* size of a head: a model has one size, and
                                                           fused kernels are made for it */
  double scale = IS_NONE (6) ? 1 / sqrt ((double) e) : FLOAT (6);
  GmVal scores = gm_matmul (api, b, q, gm_b_transpose (b, k, -2, -1));
  scores = gm_apply_num (b, mul, scores, scale);
  if (causal)
    mask = gm_lower_mask (b, rows, cols, 0);
  GmVal none = mask && !causal ? rows_without_any (b, &mask) : NULL;
  if (mask)
    scores = add_mask (api, b, scores, mask);
  CHECK ();
  GmVal weights = gm_softmax (b, scores, META (scores)->ndim - 1, false);
  if (p > 0)
    weights = gm_dropout (b, weights, p);
  GmVal found = gm_matmul (api, b, weights, v);
  return gm_give (none ? gm_pick (b, none, gm_float_arg (0), gm_tensor_arg (found)) : found);
}
