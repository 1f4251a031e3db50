/* SPDX-License-Identifier: Apache-2.0
 * contract.c -- batched matrix products, in blocks (GmProduct), which threads share.
 *
 * Each batch entry is one product, but for one case: when b has no batch and a's batch and rows are
 * evenly spaced, they are one long matrix (a linear layer on [batch, time, features]).  An operand
 * whose matrices BLAS cannot read, neither row nor column contiguous, is copied first.  The result
 * is written directly if its matrices are row-major. f16 and bf16 are cast to f32, multiplied there
 * and rounded once. What is chosen follows from the metas alone, so equal metas give equal bits.
 * packs.c keeps the packed form of a right-hand side that several products of a run share.
 */
#include "core/base/threads.h"
#include "core/ops/kernels.h"
#include "core/ops/packs.h"

#define WORTH_PARTS ((double) (1 << 21)) /* multiply-adds */
#define MOST_PARTS 64

typedef struct {
  int64_t rows, cols, row_stride, col_stride;
} Matrix;

/* BLAS wants one stride of 1 and the other no smaller than the length that it steps over.  Strides
 * of dimensions with one element mean nothing and are chosen here. */
static bool
matrix_fits (const GmMeta *m, Matrix *out)
{
  int64_t rows = m->sizes[m->ndim - 2], cols = m->sizes[m->ndim - 1];
  int64_t rs = m->strides[m->ndim - 2], cs = m->strides[m->ndim - 1];
  if (cols <= 1)
    cs = 1;
  if (rows <= 1)
    rs = cs == 1 ? MAX (cols, 1) : 1;
  *out = (Matrix){ rows, cols, rs, cs };
  return (cs == 1 && rs >= cols) || (rs == 1 && cs >= rows);
}

/* Returns a new reference: x itself, or a row-major copy of it. */
static GmTensor *
fitting (GmTensor *x, Matrix *m, GError **error)
{
  if (matrix_fits (&x->meta, m))
    return gm_tensor_ref (x);
  GmMeta meta = x->meta;
  gm_meta_set_contiguous (&meta);
  GmTensor *copy = gm_tensor_new (&meta, error);
  if (copy) {
    gm_copy_strided (copy, x);
    matrix_fits (&copy->meta, m);
  }
  return copy;
}

/* True if a's batch and rows can be one dimension: b is one matrix, and each of a's batch
 * dimensions spans the next one. */
static bool
fold_batch (const GmMeta *a, const GmMeta *b, const GmMeta *out, Matrix *ma, int64_t *ldc)
{
  if (b->ndim != 2 || a->ndim == 2 || ma->col_stride != 1 || !gm_meta_is_contiguous (out))
    return false;
  int64_t rows = 1, stride = a->strides[a->ndim - 2];
  for (int d = a->ndim - 2; d >= 0; d--) {
    if (rows == 1)
      stride = a->strides[d];
    else if (a->sizes[d] != 1 && a->strides[d] != stride * rows)
      return false;
    rows *= a->sizes[d];
  }
  if (rows > 1 && stride < ma->cols)
    return false;
  ma->rows = rows;
  ma->row_stride = rows > 1 ? stride : MAX (ma->cols, 1);
  *ldc = MAX (out->sizes[out->ndim - 1], 1);
  return true;
}

static void
init_batches (GmLoop *l, const GmMeta *a, const GmMeta *b, const GmMeta *out)
{
  GmMeta batch[3] = { *out, *a, *b };
  for (int i = 0; i < 3; i++)
    batch[i].ndim -= 2;
  gm_loop_init_metas (l, 3, (const GmMeta *const[]){ &batch[0], &batch[1], &batch[2] });
}

/* A product for each entry of the batch, in blocks; an item is a block of an entry. */
typedef struct {
  GmProduct product; /* product of the first entry */
  GmLoop batch;      /* loop over out, a and b */
  uint32_t blocks;   /* number of blocks of each entry */
  int64_t items;
  uint32_t parts;
} Products;

static void
products_part (void *arg, uint32_t part)
{
  const Products *j = arg;
  int64_t from = 0, to = j->items, index[GM_MAX_DIMS] = { 0 };
  const ptrdiff_t *strides[3] = { j->batch.strides[0], j->batch.strides[1], j->batch.strides[2] };
  char *at[3] = { j->product.c, (char *) j->product.a, (char *) j->product.b };
  uint32_t block = 0;
  if (j->parts > 1) {
    from = j->items * part / j->parts;
    to = j->items * (part + 1) / j->parts;
    block = (uint32_t) (from % j->blocks);
    gm_loop_go (&j->batch, j->batch.ndim, from / j->blocks, 3, at, index);
  }
  for (int64_t i = from; i < to; i++) {
    GmProduct p = j->product;
    p.c = at[0], p.a = at[1], p.b = at[2];
    gm_product_block (&p, block);
    if (++block < j->blocks)
      continue;
    block = 0;
    gm_odometer_next (index, j->batch.ndim, j->batch.sizes, 3, at, strides, j->batch.elem);
  }
}

/* Computes all items, in several threads if there is enough work.  value: the number of b's value
 * in the graph that runs, or 0. */
static void
run_products (Products *j, uint32_t value)
{
  GmProduct *p = &j->product;
  j->blocks = gm_product_blocks (p);
  if (value && j->items == 1)
    p->packed = gm_packs_find (value, p, j->blocks);
  j->items *= j->blocks;
  double work = (double) p->m * (double) p->n * (double) p->k * ((double) j->items / j->blocks);
  j->parts = work < WORTH_PARTS ? 1 : (uint32_t) MIN (j->items, MOST_PARTS);
  gm_threads_run (j->parts, products_part, j);
}

static GmProduct
product_of (const GmTensor *a, const GmTensor *b, const Matrix *ma, const Matrix *mb, GmTensor *out,
            int64_t ldc)
{
  return (GmProduct){ out->meta.dtype,
                      ma->rows,
                      mb->cols,
                      ma->cols,
                      gm_tensor_data (a),
                      gm_tensor_data (b),
                      ma->row_stride,
                      ma->col_stride,
                      mb->row_stride,
                      mb->col_stride,
                      gm_tensor_data (out),
                      ldc };
}

static void
run_batches (const GmTensor *a, const GmTensor *b, const Matrix *ma, const Matrix *mb,
             GmTensor *out, uint32_t value)
{
  const GmMeta *m = &out->meta;
  Products j = { .product =
                     product_of (a, b, ma, mb, out,
                                 ma->rows > 1 ? m->strides[m->ndim - 2] : MAX (mb->cols, 1)) };
  init_batches (&j.batch, &a->meta, &b->meta, m);
  j.items = j.batch.numel;
  run_products (&j, value);
}

static bool
run_row_major (GmTensor *a, GmTensor *b, GmTensor *out, uint32_t value, GError **error)
{
  Matrix ma, mb;
  int64_t ldc;
  g_autoptr (GmTensor) fa = fitting (a, &ma, error);
  g_autoptr (GmTensor) fb = fa ? fitting (b, &mb, error) : NULL;
  if (!fb)
    return false;
  if (fb != b) /* another copy may have had its address */
    value = 0;
  if (fold_batch (&fa->meta, &fb->meta, &out->meta, &ma, &ldc))
    run_products (&(Products){ .product = product_of (fa, fb, &ma, &mb, out, ldc), .items = 1 },
                  value);
  else
    run_batches (fa, fb, &ma, &mb, out, value);
  return true;
}

/* Returns a new tensor of x's shape in another dtype: in x's order if it is dense, else row-major;
 * with x's elements if `fill`. */
static GmTensor *
cast (const GmTensor *x, GmDtype dtype, bool fill, GError **error)
{
  GmMeta meta = x->meta;
  meta.dtype = dtype;
  gm_meta_set_like (&meta, &x->meta);
  GmTensor *t = gm_tensor_new (&meta, error);
  if (t && fill)
    gm_copy_strided (t, x);
  return t;
}

static bool
run_wide (GmTensor *a, GmTensor *b, GmTensor *out, GmDtype wide, GError **error)
{
  g_autoptr (GmTensor) wa = cast (a, wide, true, error),
                       wb = wa ? cast (b, wide, true, error) : NULL;
  g_autoptr (GmTensor) wo = wb ? cast (out, wide, false, error) : NULL;
  if (!wo || !gm_contract_run (wa, wb, wo, error))
    return false;
  gm_copy_strided (out, wo);
  return true;
}

bool
gm_contract_run (GmTensor *a, GmTensor *b, GmTensor *out, GError **error)
{
  const GmMeta *m = &out->meta;
  const uint32_t value = gm_packs_value;
  gm_packs_value = 0;
  if (gm_meta_numel (m) == 0)
    return true;
  if (gm_dtype_compute (m->dtype) != (GmDtype) m->dtype)
    return run_wide (a, b, out, gm_dtype_compute (m->dtype), error);
  int64_t rows = m->sizes[m->ndim - 2], cols = m->sizes[m->ndim - 1];
  bool row_major =
      (cols == 1 || m->strides[m->ndim - 1] == 1) && (rows == 1 || m->strides[m->ndim - 2] >= cols);
  if (row_major)
    return run_row_major (a, b, out, value, error);
  GmMeta meta = *m;
  gm_meta_set_contiguous (&meta);
  g_autoptr (GmTensor) temporary = gm_tensor_new (&meta, error);
  if (!temporary || !run_row_major (a, b, temporary, value, error))
    return false;
  gm_copy_strided (out, temporary);
  return true;
}
