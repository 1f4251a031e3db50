/* SPDX-License-Identifier: Apache-2.0
 * op_fixture.h -- tensors of every layout, and naive access to their elements, for the tests of
 * ops.
 */
#ifndef GM_TESTS_OP_FIXTURE_H
#define GM_TESTS_OP_FIXTURE_H

#include "core/ops/ops.h"
#include "core/tiles/tiles.h"

#include <check.h>
#include <string.h>

/* Layouts of a tensor in memory, apart from its values and shape. */
typedef enum { ROWS, TRANSPOSED, SLICED, REVERSED_HALF, N_LAYOUTS } Layout;

/* ck_assert_msg reports every check that passes to the runner's pipe, which costs more than the
 * check. */
#define demand(holds, ...) ((holds) ? (void) 0 : ck_abort_msg (__VA_ARGS__))

static uint64_t lcg_state = 1;

static inline uint32_t
lcg (void)
{
  lcg_state = lcg_state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t) (lcg_state >> 33);
}

static inline GmScalar
some_value (GmDtype dtype)
{
  static const double odd[] = {
    0.0, -0.0, 1.0, -1.0, 0.5, __builtin_inf (), -__builtin_inf (), __builtin_nan (""), 1e30, 3e-39
  };
  switch (gm_dtypes[dtype].category) {
  case GM_CATEGORY_BOOL:
    return gm_scalar_bool (lcg () & 1);
  case GM_CATEGORY_INT:
    return gm_scalar_int (lcg () % 8 == 0 ? (int64_t) lcg () << 31 : (int64_t) (lcg () % 21) - 10);
  case GM_CATEGORY_FLOAT:
    break;
  }
  return gm_scalar_float (lcg () % 8 == 0 ? odd[lcg () % G_N_ELEMENTS (odd)]
                                          : ((double) (lcg () % 20001) - 10000) / 1000);
}

/* Returns a finite small number, for which sums of products are exact or nearly so. */
static inline GmScalar
tame_value (GmDtype dtype)
{
  return gm_dtypes[dtype].category == GM_CATEGORY_FLOAT
             ? gm_scalar_float (((double) (lcg () % 2001) - 1000) / 500)
             : gm_scalar_int (lcg () % 7);
}

static inline int64_t
numel (const GmMeta *m)
{
  int64_t n = 1;
  for (int d = 0; d < m->ndim; d++)
    n *= m->sizes[d];
  return n;
}

/* Converts element number `i` in row-major order to an index. */
static inline void
unravel (const GmMeta *m, int64_t i, int64_t *index)
{
  for (int d = m->ndim - 1; d >= 0; d--) {
    index[d] = i % m->sizes[d];
    i /= m->sizes[d];
  }
}

static inline char *
element (const GmTensor *t, const int64_t *index)
{
  int64_t at = t->offset;
  for (int d = 0; d < t->meta.ndim; d++)
    at += index[d] * t->meta.strides[d];
  return (char *) t->storage->data + at * (int64_t) gm_dtype_size (t->meta.dtype);
}

/* Returns element `i` (row-major in `shape`) of t broadcast to `shape`. */
static inline char *
broadcast_element (const GmTensor *t, const GmMeta *shape, int64_t i)
{
  int64_t index[GM_MAX_DIMS], own[GM_MAX_DIMS];
  unravel (shape, i, index);
  int shift = shape->ndim - t->meta.ndim;
  for (int d = 0; d < t->meta.ndim; d++)
    own[d] = t->meta.sizes[d] == 1 ? 0 : index[d + shift];
  return element (t, own);
}

static inline char *
nth (const GmTensor *t, int64_t i)
{
  return broadcast_element (t, &t->meta, i);
}

/* Returns an uninitialised tensor with the layout: a view into a larger storage where the layout
 * needs gaps. */
static inline GmTensor *
new_with_layout (GmDtype dtype, int ndim, const int64_t *sizes, Layout layout)
{
  int64_t grown[GM_MAX_DIMS];
  for (int d = 0; d < ndim; d++)
    grown[d] = layout == SLICED ? sizes[d] * 2 + 3 : sizes[d];
  if (layout == REVERSED_HALF && ndim > 1)
    grown[0] = sizes[0] + 2;
  GmMeta m = gm_meta_make (dtype, ndim, sizes), storage = gm_meta_make (dtype, ndim, grown);
  GmTensor *base = gm_tensor_new (&storage, NULL);
  ck_assert_ptr_nonnull (base);
  memset (base->storage->data ? base->storage->data : &m, 0, base->storage->bytes);
  int64_t offset = 0, stride = 1;
  switch (layout) {
  case SLICED:
    for (int d = 0; d < ndim; d++) {
      m.strides[d] = 2 * storage.strides[d];
      offset += storage.strides[d];
    }
    break;
  case TRANSPOSED:    /* column-major */
  case REVERSED_HALF: /* column-major with a gap between columns */
    for (int d = 0; d < ndim; d++) {
      m.strides[d] = stride;
      stride *= MAX (grown[d], 1);
    }
    break;
  default:
    break;
  }
  if (layout == ROWS)
    return base;
  GmTensor *view = gm_tensor_new_view (base, &m, offset);
  gm_tensor_unref (base);
  return view;
}

static inline GmTensor *
new_filled (GmDtype dtype, int ndim, const int64_t *sizes, Layout layout,
            GmScalar (*value) (GmDtype))
{
  GmTensor *t = new_with_layout (dtype, ndim, sizes, layout);
  for (int64_t i = 0, n = numel (&t->meta); i < n; i++)
    gm_scalar_store (value (dtype), dtype, nth (t, i));
  return t;
}

/* True for equal bits, or if both are NaN (which payload survives is not specified). */
static inline bool
same_element (GmDtype dtype, const void *a, const void *b)
{
  GmScalar x = gm_scalar_load (dtype, a), y = gm_scalar_load (dtype, b);
  if (x.kind == GM_CATEGORY_FLOAT && x.d != x.d)
    return y.d != y.d;
  return memcmp (a, b, gm_dtype_size (dtype)) == 0;
}

static inline char *
describe (GmOp op, GmTensor *const *in, int n_in)
{
  GString *s = g_string_new (gm_ops[op].name);
  for (int i = 0; i < n_in; i++) {
    g_autofree char *text = gm_meta_text (&in[i]->meta),
                    *strides = gm_shape_text (in[i]->meta.ndim, in[i]->meta.strides);
    g_string_append_printf (s, " %s/%s", text, strides);
  }
  return g_string_free (s, FALSE);
}

static inline void
assert_same_values (const GmTensor *a, const GmTensor *b, const char *what)
{
  demand (gm_meta_same_shape (&a->meta, &b->meta) && a->meta.dtype == b->meta.dtype,
          "%s: shape or dtype", what);
  for (int64_t i = 0, n = numel (&a->meta); i < n; i++)
    demand (same_element ((GmDtype) a->meta.dtype, nth (a, i), nth (b, i)),
            "%s: element %" G_GINT64_FORMAT, what, i);
}

/* Runs the op in every way, compares the results with each other and with gm_op_infer, and returns
 * one. */
static inline GmTensor *
run_all_ways (GmOp op, GmTensor *const *in, int n_in, const GmAttrs *attrs)
{
  g_autofree char *what = describe (op, in, n_in);
  g_autoptr (GError) error = NULL;
  const GmMeta *metas[16];
  for (int i = 0; i < n_in; i++)
    metas[i] = &in[i]->meta;
  GmMeta inferred;
  demand (gm_op_infer (op, metas, n_in, attrs, &inferred, &error), "%s: infer: %s", what,
          error ? error->message : "");
  GmTensor *result = gm_op_run (op, in, n_in, attrs, &error);
  demand (result != NULL, "%s: run: %s", what, error ? error->message : "");
  demand (memcmp (&inferred, &result->meta, sizeof inferred) == 0,
          "%s: the inferred meta is not the result's", what);

  for (Layout layout = 0; layout < N_LAYOUTS; layout++) {
    g_autoptr (GmTensor) out =
        new_with_layout ((GmDtype) inferred.dtype, inferred.ndim, inferred.sizes, layout);
    bool ok = gm_op_run_copy_into (op, in, n_in, attrs, out, &error);
    demand (ok, "%s: into layout %d: %s", what, (int) layout, error ? error->message : "");
    assert_same_values (result, out, what);
  }
  return result;
}

#endif
