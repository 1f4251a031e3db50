/* SPDX-License-Identifier: Apache-2.0
 * grad_check.h -- gradients against central finite differences, in f64, first and second order.
 *
 * A program maps tensors to one tensor.  Its result is weighted with fixed numbers that are all
 * different and summed, so that no two slopes can cancel; the gradient with respect to each
 * floating input is compared with the difference quotient of every element. The second order
 * compares the gradient of (first gradients, weighted and summed) with the difference quotient of
 * that.
 */
#ifndef GRAD_CHECK_H
#define GRAD_CHECK_H

#include <check.h>
#include <math.h>
#include <string.h>

#include "core/autograd/autograd.h"

typedef GmVal (*Program) (GmBuilder *b, const GmVal *in, const void *data);

static inline double *
elements (GmTensor *t)
{
  return gm_tensor_data (t);
}

static inline GmTensor *
tensor_f64 (int ndim, const int64_t *sizes)
{
  GmMeta m = gm_meta_make (GM_F64, ndim, sizes);
  return gm_tensor_new_zeros (&m, NULL);
}

/* Returns numbers in [low, high), the same for the same seed. */
static inline GmTensor *
random_f64 (uint64_t seed, double low, double high, int ndim, const int64_t *sizes)
{
  GmTensor *t = tensor_f64 (ndim, sizes);
  uint64_t x = seed * 0x9E3779B97F4A7C15u + 1;
  for (int64_t i = 0; i < gm_meta_numel (&t->meta); i++) {
    x ^= x >> 12, x ^= x << 25, x ^= x >> 27;
    elements (t)[i] =
        low + (high - low) * ((double) (x * 0x2545F4914F6CDD1Du >> 11) / 9007199254740992.0);
  }
  return t;
}

static inline GmTensor *
ints_i64 (int ndim, const int64_t *sizes, const int64_t *values)
{
  GmMeta m = gm_meta_make (GM_I64, ndim, sizes);
  GmTensor *t = gm_tensor_new (&m, NULL);
  memcpy (gm_tensor_data (t), values, (size_t) gm_meta_numel (&m) * sizeof *values);
  return t;
}

static inline GmVal
weighted_sum (GmBuilder *b, GmVal v)
{
  if (b->error)
    return NULL;
  const GmMeta *m = gm_b_meta (b, v);
  GmTensor *w = tensor_f64 (m->ndim, m->sizes);
  for (int64_t i = 0; i < gm_meta_numel (&w->meta); i++)
    elements (w)[i] = 0.5 + sin (1.7 * (double) i + 0.3);
  GmVal wv = b->vt->constant (b, w);
  gm_tensor_unref (w);
  return gm_b_reduce (b, GM_OP_sum, gm_b (b, mul, gm_b_cast (b, v, GM_F64), wv), NULL, 0, false);
}

#define no_error(error) ck_assert_msg (!(error), "%s", (error) ? (error)->message : "")

static inline GmTensor *
loss_of (Program f, const void *data, GmTensor *const *in)
{
  GmEagerBuilder b;
  gm_eager_builder_init (&b);
  GmVal v = weighted_sum (&b.base, f (&b.base, (const GmVal *) in, data));
  no_error (b.base.error);
  GmTensor *t = gm_tensor_ref (gm_tensor_from_val (v));
  gm_eager_builder_clear (&b);
  return t;
}

/* Returns the gradients of the loss or, with `second`, of their weighted sum: one per floating
 * input, new references. */
static inline GmTensor *
gradients_of (Program f, const void *data, GmTensor *const *in, int n, GmTensor **grads,
              bool create)
{
  GError *error = NULL;
  GmTensor *wanted[8], *got[8];
  int k = 0;
  g_autoptr (GmTensor) loss = loss_of (f, data, in);
  for (int i = 0; i < n; i++)
    if (gm_dtype_is_float (in[i]->meta.dtype))
      wanted[k++] = in[i];
  gm_autograd_grad (&loss, NULL, 1, wanted, k, create, create, true, got, &error);
  no_error (error);
  for (int i = 0, j = 0; i < n; i++)
    grads[i] = gm_dtype_is_float (in[i]->meta.dtype) ? got[j++] : NULL;
  if (!create)
    return NULL;
  GmEagerBuilder b;
  gm_eager_builder_init (&b);
  GmVal sum = gm_b_scalar (&b.base, gm_scalar_int (0), GM_F64);
  for (int i = 0; i < k; i++)
    if (got[i])
      sum = gm_b (&b.base, add, sum, weighted_sum (&b.base, gm_val_from_tensor (got[i])));
  no_error (b.base.error);
  GmTensor *t = gm_tensor_ref (gm_tensor_from_val (sum));
  gm_eager_builder_clear (&b);
  return t;
}

static inline double
first_element (GmTensor *t)
{
  return elements (t)[0];
}

static inline void
unref_all (GmTensor **t, int n)
{
  for (int i = 0; i < n; i++)
    gm_tensor_unref (t[i]);
}

static inline void
expect_close (const char *name, int order, int input, int64_t element, double got, double want,
              double tolerance)
{
  double bound = tolerance * (1 + fabs (want));
  ck_assert_msg (fabs (got - want) <= bound,
                 "%s: order %d, input %d, element %d: gradient %.12g, finite difference %.12g",
                 name, order, input, (int) element, got, want);
}

static inline void
check_gradients (const char *name, Program f, const void *data, GmTensor *const *in, int n,
                 bool second)
{
  const double h = 1e-6;
  GError *error = NULL;
  GmTensor *grads[8], *ignored[8], *again[8] = { NULL };
  for (int i = 0; i < n; i++)
    if (gm_dtype_is_float (in[i]->meta.dtype))
      gm_tensor_set_requires_grad (in[i], true, NULL);
  g_autoptr (GmTensor) sum = gradients_of (f, data, in, n, grads, second);
  if (second && gm_tensor_requires_grad (sum)) {
    GmTensor *wanted[8];
    int k = 0;
    for (int i = 0; i < n; i++)
      if (grads[i])
        wanted[k++] = in[i];
    gm_autograd_grad (&sum, NULL, 1, wanted, k, false, false, true, ignored, &error);
    no_error (error);
    for (int i = 0, j = 0; i < n; i++)
      again[i] = grads[i] ? ignored[j++] : NULL;
  }
  for (int i = 0; i < n; i++) {
    if (!gm_dtype_is_float (in[i]->meta.dtype))
      continue;
    if (grads[i])
      ck_assert_msg (gm_meta_same_shape (&grads[i]->meta, &in[i]->meta),
                     "%s: the gradient of input %d has another shape", name, i);
    GmEagerBuilder b;
    gm_eager_builder_init (&b);
    GmVal flat = grads[i] ? gm_b_contiguous (&b.base, gm_val_from_tensor (grads[i])) : NULL;
    GmVal flat2 = again[i] ? gm_b_contiguous (&b.base, gm_val_from_tensor (again[i])) : NULL;
    no_error (b.base.error);
    for (int64_t e = 0; e < gm_meta_numel (&in[i]->meta); e++) {
      double *x = &elements (in[i])[e], old = *x, value[2], slope[2] = { 0, 0 };
      for (int side = 0; side < 2; side++) {
        *x = side ? old + h : old - h;
        g_autoptr (GmTensor) loss = loss_of (f, data, in);
        value[side] = first_element (loss);
        if (second) {
          g_autoptr (GmTensor) s = gradients_of (f, data, in, n, ignored, true);
          slope[side] = first_element (s);
          unref_all (ignored, n);
        }
      }
      *x = old;
      expect_close (name, 1, i, e, flat ? elements (gm_tensor_from_val (flat))[e] : 0,
                    (value[1] - value[0]) / (2 * h), 2e-7);
      if (second)
        expect_close (name, 2, i, e, flat2 ? elements (gm_tensor_from_val (flat2))[e] : 0,
                      (slope[1] - slope[0]) / (2 * h), 2e-6);
    }
    gm_eager_builder_clear (&b);
  }
  unref_all (grads, n);
  unref_all (again, n);
}

#endif
