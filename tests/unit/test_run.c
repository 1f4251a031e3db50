/* SPDX-License-Identifier: Apache-2.0
 * test_run.c -- eager execution where the op table alone is not a sufficient test: indexing,
 * sources, writing in place.
 */
#include "tests/ops/op_fixture.h"

#define ATTRS(op, ...)                                                                             \
  {                                                                                                \
    .mask = gm_op_attr_mask (op), __VA_ARGS__                                                      \
  }

static GmTensor *
ints (int ndim, const int64_t *sizes, const int64_t *values)
{
  GmMeta m = gm_meta_make (GM_I64, ndim, sizes);
  GmTensor *t = gm_tensor_new (&m, NULL);
  if (numel (&m))
    memcpy (gm_tensor_data (t), values, sizeof (int64_t) * (size_t) numel (&m));
  return t;
}

static GmTensor *
random_index (int ndim, const int64_t *sizes, Layout layout, int64_t below)
{
  GmTensor *t = new_with_layout (GM_I64, ndim, sizes, layout);
  for (int64_t i = 0, n = numel (&t->meta); i < n; i++)
    *(int64_t *) nth (t, i) = (int64_t) (lcg () % (uint64_t) below);
  return t;
}

/* Returns element `index` of t, with index[dim] replaced. */
static char *
element_at (const GmTensor *t, const int64_t *index, int dim, int64_t k)
{
  int64_t own[GM_MAX_DIMS];
  memcpy (own, index, sizeof (int64_t) * t->meta.ndim);
  own[dim] = k;
  return element (t, own);
}

/* Release function for foreign memory on the stack: with NULL the tensor allocator would free
 * it. */
static void
keep (void *owner, void *data, size_t bytes)
{
  (void) owner, (void) data, (void) bytes;
}

static void
refuse (GmOp op, GmTensor *const *in, int n, const GmAttrs *attrs, GmError code, const char *says)
{
  g_autoptr (GError) error = NULL;
  ck_assert_ptr_null (gm_op_run (op, in, n, attrs, &error));
  ck_assert (g_error_matches (error, GM_ERROR, (int) code));
  ck_assert_msg (strstr (error->message, says), "\"%s\" does not say %s", error->message, says);
}

/* -- Indexing ---------------------------------------------------------------------------------- */

START_TEST (gather_and_scatter_add_along_every_dimension)
{
  const int64_t sizes[] = { 3, 4, 20 }, small[] = { 2, 3, 17 };
  int64_t at[GM_MAX_DIMS];
  for (int dim = 0; dim < 3; dim++)
    for (Layout layout = 0; layout < N_LAYOUTS; layout++) {
      int64_t index_sizes[3];
      memcpy (index_sizes, small, sizeof small);
      index_sizes[dim] = 7;
      g_autoptr (GmTensor) x = new_filled (GM_F32, 3, sizes, layout, tame_value);
      g_autoptr (GmTensor) index =
          random_index (3, index_sizes, (layout + 1) % N_LAYOUTS, sizes[dim]);
      g_autoptr (GmTensor) src =
          new_filled (GM_F32, 3, (int64_t[]){ 7, 7, 20 }, (layout + 2) % N_LAYOUTS, tame_value);
      GmAttrs attrs = ATTRS (GM_OP_gather, .dim = dim);
      g_autoptr (GmTensor) y =
          run_all_ways (GM_OP_gather, (GmTensor *const[]){ x, index }, 2, &attrs);
      g_autoptr (GmTensor) z =
          run_all_ways (GM_OP_scatter_add, (GmTensor *const[]){ x, index, src }, 3, &attrs);
      g_autoptr (GmTensor) want = gm_op_run (GM_OP_copy, &x, 1, NULL, NULL);
      for (int64_t i = 0, n = numel (&index->meta); i < n; i++) {
        int64_t k = *(int64_t *) nth (index, i);
        unravel (&index->meta, i, at);
        demand (same_element (GM_F32, nth (y, i), element_at (x, at, dim, k)), "gather: element %d",
                (int) i);
        *(float *) element_at (want, at, dim, k) += *(float *) element (src, at);
      }
      assert_same_values (z, want, "scatter_add");
    }
}
END_TEST

START_TEST (index_select_and_index_add_along_every_dimension)
{
  const int64_t sizes[] = { 5, 3, 40 };
  int64_t at[GM_MAX_DIMS];
  for (int dim = 0; dim < 3; dim++)
    for (Layout layout = 0; layout < N_LAYOUTS; layout++) {
      int64_t picked[3];
      memcpy (picked, sizes, sizeof sizes);
      picked[dim] = 9;
      g_autoptr (GmTensor) x = new_filled (GM_F64, 3, sizes, layout, tame_value);
      g_autoptr (GmTensor) index = random_index (1, (int64_t[]){ 9 }, layout, sizes[dim]);
      g_autoptr (GmTensor) src =
          new_filled (GM_F64, 3, picked, (layout + 1) % N_LAYOUTS, tame_value);
      GmAttrs attrs = ATTRS (GM_OP_index_select, .dim = dim);
      g_autoptr (GmTensor) y =
          run_all_ways (GM_OP_index_select, (GmTensor *const[]){ x, index }, 2, &attrs);
      g_autoptr (GmTensor) z =
          run_all_ways (GM_OP_index_add, (GmTensor *const[]){ x, index, src }, 3, &attrs);
      g_autoptr (GmTensor) want = gm_op_run (GM_OP_copy, &x, 1, NULL, NULL);
      for (int64_t j = 0; j < 9; j++) /* in index order, which decides the bits */
        for (int64_t i = 0, n = numel (&y->meta); i < n; i++) {
          unravel (&y->meta, i, at);
          if (at[dim] != j)
            continue;
          int64_t k = *(int64_t *) nth (index, j);
          demand (same_element (GM_F64, nth (y, i), element_at (x, at, dim, k)),
                  "index_select: element %d", (int) i);
          *(double *) element_at (want, at, dim, k) += *(double *) element (src, at);
        }
      assert_same_values (z, want, "index_add");
    }
}
END_TEST

START_TEST (positions_out_of_bounds_name_index_and_size)
{
  g_autoptr (GmTensor) x = new_filled (GM_F32, 2, (int64_t[]){ 2, 3 }, ROWS, tame_value);
  g_autoptr (GmTensor) high = ints (1, (int64_t[]){ 2 }, (int64_t[]){ 0, 3 });
  g_autoptr (GmTensor) low = ints (2, (int64_t[]){ 1, 1 }, (int64_t[]){ -1 });
  GmAttrs attrs = ATTRS (GM_OP_gather, .dim = 1);
  refuse (GM_OP_index_select, (GmTensor *const[]){ x, high }, 2, &attrs, GM_ERROR_INDEX,
          "index 3 is out of bounds for dimension 1 with size 3");
  refuse (GM_OP_gather, (GmTensor *const[]){ x, low }, 2, &attrs, GM_ERROR_INDEX,
          "index -1 is out of bounds");
  refuse (GM_OP_scatter_add, (GmTensor *const[]){ x, low, x }, 3, &attrs, GM_ERROR_INDEX,
          "index -1 is out of bounds");
}
END_TEST

START_TEST (slice_scatter_replaces_a_slice)
{
  int64_t at[GM_MAX_DIMS];
  for (Layout layout = 0; layout < N_LAYOUTS; layout++) {
    g_autoptr (GmTensor) x = new_filled (GM_I32, 2, (int64_t[]){ 3, 9 }, layout, some_value);
    g_autoptr (GmTensor) src =
        new_filled (GM_I32, 2, (int64_t[]){ 3, 3 }, (layout + 1) % N_LAYOUTS, some_value);
    GmAttrs attrs = ATTRS (GM_OP_slice_scatter, .dim = 1, .start = 1, .stop = 8, .step = 3);
    g_autoptr (GmTensor) y =
        run_all_ways (GM_OP_slice_scatter, (GmTensor *const[]){ x, src }, 2, &attrs);
    for (int64_t i = 0; i < 27; i++) {
      unravel (&y->meta, i, at);
      bool inside = at[1] >= 1 && at[1] < 8 && (at[1] - 1) % 3 == 0;
      ck_assert (same_element (GM_I32, nth (y, i),
                               inside ? element_at (src, at, 1, (at[1] - 1) / 3) : nth (x, i)));
    }
  }
}
END_TEST

START_TEST (cat_joins_in_order)
{
  GmTensor *in[11];
  int64_t at[GM_MAX_DIMS];
  for (int dim = 0; dim < 2; dim++) {
    for (int i = 0; i < 11; i++) { /* more than fit without an allocation */
      int64_t sizes[2] = { 3, 3 };
      sizes[dim] = i % 3;
      in[i] = new_filled (GM_F32, 2, sizes, i % N_LAYOUTS, some_value);
    }
    GmAttrs attrs = ATTRS (GM_OP_cat, .dim = dim);
    g_autoptr (GmTensor) y = run_all_ways (GM_OP_cat, in, 11, &attrs);
    ck_assert_int_eq (y->meta.sizes[dim], 10);
    for (int64_t i = 0, start = 0; i < 11; start += in[i++]->meta.sizes[dim])
      for (int64_t e = 0, n = numel (&in[i]->meta); e < n; e++) {
        unravel (&in[i]->meta, e, at);
        ck_assert (same_element (GM_F32, nth (in[i], e), element_at (y, at, dim, at[dim] + start)));
      }
    for (int i = 0; i < 11; i++)
      gm_tensor_unref (in[i]);
  }
}
END_TEST

static bool
comes_before (GmScalar a, GmScalar b) /* strictly, NaN last */
{
  if (a.kind != GM_CATEGORY_FLOAT)
    return a.i < b.i;
  return a.d != a.d ? false : b.d != b.d ? true : a.d < b.d;
}

START_TEST (argsort_is_stable_with_nan_last)
{
  for (GmDtype dtype = 0; dtype < GM_N_DTYPES; dtype++)
    for (int descending = 0;
         descending < 2 && gm_dtypes[dtype].live && gm_op_accepts (GM_OP_argsort, dtype);
         descending++)
      for (int dim = 0; dim < 2; dim++) {
        g_autoptr (GmTensor) x =
            new_filled (dtype, 2, (int64_t[]){ 37, 41 }, lcg () % N_LAYOUTS, some_value);
        GmAttrs attrs = ATTRS (GM_OP_argsort, .dim = dim, .descending = descending);
        g_autoptr (GmTensor) y = run_all_ways (GM_OP_argsort, &x, 1, &attrs);
        for (int64_t line = 0; line < x->meta.sizes[1 - dim]; line++)
          for (int64_t i = 1; i < x->meta.sizes[dim]; i++) {
            int64_t at[2] = { line, line };
            int64_t a = *(int64_t *) element_at (y, at, dim, i - 1),
                    b = *(int64_t *) element_at (y, at, dim, i);
            GmScalar va = gm_scalar_load (dtype, element_at (x, at, dim, a)),
                     vb = gm_scalar_load (dtype, element_at (x, at, dim, b));
            bool before = descending ? comes_before (vb, va) : comes_before (va, vb);
            bool after = descending ? comes_before (va, vb) : comes_before (vb, va);
            demand (!after && (before || a < b), "argsort of %s: place %d", gm_dtypes[dtype].text,
                    (int) i);
          }
      }
}
END_TEST

/* -- Sources ----------------------------------------------------------------------------------- */

START_TEST (full_and_arange)
{
  GmAttrs full = ATTRS (GM_OP_full, .dtype = GM_I32, .n_list = 2, .list = { 30, 40 },
                        .value = gm_scalar_int (-7));
  g_autoptr (GmTensor) f = run_all_ways (GM_OP_full, NULL, 0, &full);
  for (int64_t i = 0; i < 1200; i++)
    ck_assert_int_eq (*(int32_t *) nth (f, i), -7);
  GmAttrs range = ATTRS (GM_OP_arange, .dtype = GM_F32, .n_list = 1, .list = { 10 },
                         .value = gm_scalar_float (0.1), .value2 = gm_scalar_float (0.1));
  g_autoptr (GmTensor) r = run_all_ways (GM_OP_arange, NULL, 0, &range);
  for (int64_t i = 0; i < 10; i++)
    ck_assert (*(float *) nth (r, i) == (float) (0.1 + (double) i * 0.1));
  GmAttrs whole = ATTRS (GM_OP_arange, .dtype = GM_I64, .n_list = 1, .list = { 3 },
                         .value = gm_scalar_int ((int64_t) 1 << 60), .value2 = gm_scalar_int (1));
  g_autoptr (GmTensor) w = run_all_ways (GM_OP_arange, NULL, 0, &whole);
  ck_assert_int_eq (*(int64_t *) nth (w, 2), ((int64_t) 1 << 60) + 2);
  GmAttrs constant = ATTRS (GM_OP_constant, .offset = 3);
  refuse (GM_OP_constant, NULL, 0, &constant, GM_ERROR_RUNTIME, "row 3");
}
END_TEST

/* -- Writing ----------------------------------------------------------------------------------- */

START_TEST (copy_casts_broadcasts_and_advances_the_version)
{
  for (Layout layout = 0; layout < N_LAYOUTS; layout++) {
    g_autoptr (GmTensor) dst = new_filled (GM_F64, 2, (int64_t[]){ 3, 4 }, layout, tame_value);
    g_autoptr (GmTensor) src = ints (1, (int64_t[]){ 4 }, (int64_t[]){ 5, 6, 7, 8 });
    uint32_t version = dst->storage->version;
    g_autoptr (GmTensor) same =
        gm_op_run (GM_OP_copy_, (GmTensor *const[]){ dst, src }, 2, NULL, NULL);
    ck_assert_ptr_eq (same, dst);
    ck_assert_uint_eq (dst->storage->version, version + 1);
    for (int64_t i = 0; i < 12; i++)
      ck_assert (*(double *) nth (dst, i) == (double) (5 + i % 4));
  }
}
END_TEST

static GmTensor *
transposed (GmTensor *x)
{
  GmAttrs attrs = ATTRS (GM_OP_permute, .n_list = 2, .list = { 1, 0 });
  return gm_op_run (GM_OP_permute, &x, 1, &attrs, NULL);
}

START_TEST (copy_from_overlapping_memory_reads_before_it_writes)
{
  g_autoptr (GmTensor) x = new_filled (GM_F32, 2, (int64_t[]){ 30, 30 }, ROWS, tame_value);
  g_autoptr (GmTensor) before = gm_op_run (GM_OP_copy, &x, 1, NULL, NULL), view = transposed (x);
  g_autoptr (GmTensor) want = transposed (before);
  gm_tensor_unref (gm_op_run (GM_OP_copy_, (GmTensor *const[]){ x, view }, 2, NULL, NULL));
  assert_same_values (x, want, "copy_ of the transposed");
}
END_TEST

START_TEST (run_into_an_input_and_into_what_overlaps_one)
{
  g_autoptr (GmTensor) x = new_filled (GM_F32, 2, (int64_t[]){ 30, 30 }, REVERSED_HALF, tame_value),
                       view = transposed (x);
  GmTensor *self[2] = { x, x }, *mixed[2] = { x, view };
  g_autoptr (GmTensor) doubled = gm_op_run (GM_OP_add, self, 2, NULL, NULL);
  uint32_t version = x->storage->version;
  ck_assert (gm_op_run_into (GM_OP_add, self, 2, NULL, x, NULL));
  assert_same_values (x, doubled, "x + x in place");
  g_autoptr (GmTensor) symmetric = gm_op_run (GM_OP_add, mixed, 2, NULL, NULL);
  ck_assert (gm_op_run_into (GM_OP_add, mixed, 2, NULL, x, NULL));
  assert_same_values (x, symmetric, "x + x.T in place");
  ck_assert_uint_eq (x->storage->version, version);
}
END_TEST

START_TEST (memory_that_must_not_be_written_is_refused)
{
  float memory[6] = { 1, 2, 3, 4, 5, 6 };
  GmMeta m = gm_meta_make (GM_F32, 1, (int64_t[]){ 6 }), expanded = m;
  expanded.strides[0] = 0;
  g_autoptr (GmTensor) x = new_filled (GM_F32, 1, (int64_t[]){ 6 }, ROWS, tame_value);
  g_autoptr (GmTensor) frozen = gm_tensor_new_foreign (&m, memory, sizeof memory, true, keep, NULL);
  g_autoptr (GmTensor) folded =
      gm_tensor_new_foreign (&expanded, memory, sizeof memory, false, keep, NULL);
  g_autoptr (GError) error = NULL;
  refuse (GM_OP_copy_, (GmTensor *const[]){ frozen, x }, 2, NULL, GM_ERROR_RUNTIME, "read-only");
  refuse (GM_OP_copy_, (GmTensor *const[]){ folded, x }, 2, NULL, GM_ERROR_RUNTIME,
          "single memory location");
  ck_assert (!gm_op_run_into (GM_OP_neg, &x, 1, NULL, frozen, &error));
  g_clear_error (&error);
  ck_assert (!gm_op_run_into (GM_OP_neg, &x, 1, NULL, folded, &error));
  ck_assert (memory[0] == 1 && memory[5] == 6);
}
END_TEST

START_TEST (an_output_of_another_shape_or_dtype_is_refused)
{
  g_autoptr (GmTensor) x = new_filled (GM_F32, 1, (int64_t[]){ 6 }, ROWS, tame_value);
  g_autoptr (GmTensor) wide = new_with_layout (GM_F64, 1, (int64_t[]){ 6 }, ROWS),
                       tall = new_with_layout (GM_F32, 2, (int64_t[]){ 6, 1 }, ROWS);
  g_autoptr (GError) error = NULL;
  ck_assert (!gm_op_run_into (GM_OP_neg, &x, 1, NULL, wide, &error));
  ck_assert_ptr_nonnull (strstr (error->message, "f64[6]"));
  g_clear_error (&error);
  ck_assert (!gm_op_run_copy_into (GM_OP_detach, &x, 1, NULL, tall, &error));
  ck_assert_ptr_nonnull (strstr (error->message, "f32[6, 1]"));
}
END_TEST

START_TEST (sizes_that_no_memory_has_are_an_error)
{
  GmAttrs attrs = ATTRS (GM_OP_full, .dtype = GM_F64, .n_list = 2,
                         .list = { (int64_t) 1 << 40, (int64_t) 1 << 20 });
  refuse (GM_OP_full, NULL, 0, &attrs, GM_ERROR_MEMORY, "");
}
END_TEST

int
main (void)
{
  Suite *s = suite_create ("run");
  TCase *t = tcase_create ("eager");
  tcase_set_timeout (t, 120);
  tcase_add_test (t, gather_and_scatter_add_along_every_dimension);
  tcase_add_test (t, index_select_and_index_add_along_every_dimension);
  tcase_add_test (t, positions_out_of_bounds_name_index_and_size);
  tcase_add_test (t, slice_scatter_replaces_a_slice);
  tcase_add_test (t, cat_joins_in_order);
  tcase_add_test (t, argsort_is_stable_with_nan_last);
  tcase_add_test (t, full_and_arange);
  tcase_add_test (t, copy_casts_broadcasts_and_advances_the_version);
  tcase_add_test (t, copy_from_overlapping_memory_reads_before_it_writes);
  tcase_add_test (t, run_into_an_input_and_into_what_overlaps_one);
  tcase_add_test (t, memory_that_must_not_be_written_is_refused);
  tcase_add_test (t, an_output_of_another_shape_or_dtype_is_refused);
  tcase_add_test (t, sizes_that_no_memory_has_are_an_error);
  suite_add_tcase (s, t);
  SRunner *sr = srunner_create (s);
  srunner_run_all (sr, CK_NORMAL);
  int failures = srunner_ntests_failed (sr);
  srunner_free (sr);
  return failures ? 1 : 0;
}
