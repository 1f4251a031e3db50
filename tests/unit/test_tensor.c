/* SPDX-License-Identifier: Apache-2.0
 * test_tensor.c -- ownership, views, foreign memory, elements, overlap.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "core/tensor/alloc.h"
#include "core/tensor/tensor.h"

#define SIZES(...)                                                                                 \
  (sizeof ((int64_t[]){ __VA_ARGS__ }) / 8), (int64_t[])                                           \
  {                                                                                                \
    __VA_ARGS__                                                                                    \
  }

static GmTensor *
zeros (int ndim, const int64_t *sizes)
{
  GmMeta m = gm_meta_make (GM_F32, ndim, sizes);
  return gm_tensor_new_zeros (&m, NULL);
}

START_TEST (memory_is_counted_and_given_back)
{
  size_t before = gm_alloc_live_bytes ();
  GmTensor *t = zeros (SIZES (3, 5));
  ck_assert_uint_eq (gm_alloc_live_bytes () - before, 60);
  ck_assert_uint_eq ((uintptr_t) gm_tensor_data (t) % 64, 0);
  gm_tensor_ref (t);
  gm_tensor_unref (t);
  ck_assert_uint_eq (gm_alloc_live_bytes () - before, 60);
  gm_tensor_unref (t);
  ck_assert_uint_eq (gm_alloc_live_bytes (), before);
  gm_tensor_unref (NULL);
}
END_TEST

START_TEST (a_view_keeps_its_root_alive_and_shares_its_bytes)
{
  size_t before = gm_alloc_live_bytes ();
  GmTensor *t = zeros (SIZES (2, 3));
  GmMeta m = gm_meta_make (GM_F32, SIZES (3));
  GmTensor *v = gm_tensor_new_view (t, &m, 3), *w = gm_tensor_new_view (v, &m, 0);
  ck_assert (v->base == t && w->base == t && v->storage == t->storage);
  gm_tensor_set (t, (int64_t[]){ 1, 2 }, gm_scalar_float (7));
  ck_assert (gm_tensor_get (v, (int64_t[]){ 2 }).d == 7);
  gm_tensor_unref (t);
  gm_tensor_unref (w);
  ck_assert (gm_tensor_get (v, (int64_t[]){ 2 }).d == 7);
  gm_tensor_unref (v);
  ck_assert_uint_eq (gm_alloc_live_bytes (), before);
}
END_TEST

START_TEST (an_alias_has_no_base)
{
  GmTensor *t = zeros (SIZES (2));
  t->meta.requires_grad = 1;
  GmTensor *a = gm_tensor_new_alias (t);
  ck_assert (!a->base && a->storage == t->storage && !a->meta.requires_grad);
  gm_tensor_unref (t);
  ck_assert (gm_tensor_get (a, (int64_t[]){ 1 }).d == 0);
  gm_tensor_unref (a);
}
END_TEST

static int released;
static void
release (void *owner, void *data, size_t bytes)
{
  ck_assert (owner == &released && bytes == 8 && *(float *) data == 1.5f);
  released++;
}

START_TEST (foreign_memory_is_released_once)
{
  float data[2] = { 1.5f, 2 };
  GmMeta m = gm_meta_make (GM_F32, SIZES (2));
  GmTensor *t = gm_tensor_new_foreign (&m, data, sizeof data, true, release, &released),
           *a = gm_tensor_new_alias (t);
  ck_assert (t->storage->readonly && gm_tensor_data (t) == data);
  gm_tensor_unref (t);
  ck_assert_int_eq (released, 0);
  gm_tensor_unref (a);
  ck_assert_int_eq (released, 1);
}
END_TEST

START_TEST (impossible_sizes_are_errors_not_aborts)
{
  g_autoptr (GError) error = NULL;
  GmMeta m = gm_meta_make (GM_F64, SIZES (INT64_MAX / 4, 5));
  ck_assert_ptr_null (gm_tensor_new (&m, &error));
  ck_assert (g_error_matches (error, GM_ERROR, GM_ERROR_MEMORY));
  g_clear_error (&error);
  m = gm_meta_make (GM_F64, SIZES (1ll << 45));
  ck_assert_ptr_null (gm_tensor_new (&m, &error));
  ck_assert (g_error_matches (error, GM_ERROR, GM_ERROR_MEMORY));
  ck_assert_ptr_nonnull (strstr (error->message, "f64[35184372088832]"));
  g_clear_error (&error);
  m = gm_meta_make (GM_F64, SIZES (INT64_MAX, 0));
  GmTensor *empty = gm_tensor_new (&m, &error);
  ck_assert (empty && empty->storage->bytes == 0 && !empty->storage->data);
  gm_tensor_unref (empty);
}
END_TEST

START_TEST (a_failed_allocation_leaves_nothing_behind)
{
  size_t before = gm_alloc_live_bytes ();
  g_autoptr (GError) error = NULL;
  GmMeta m = gm_meta_make (GM_F32, SIZES (4));
  gm_alloc_fail_at (2);
  GmTensor *t = gm_tensor_new (&m, NULL);
  ck_assert_ptr_nonnull (t);
  ck_assert_ptr_null (gm_tensor_new (&m, &error));
  ck_assert (g_error_matches (error, GM_ERROR, GM_ERROR_MEMORY));
  gm_tensor_unref (t);
  ck_assert_uint_eq (gm_alloc_live_bytes (), before);
  t = gm_tensor_new_scalar (gm_scalar_int (3), GM_I64, NULL); /* only the one call fails */
  ck_assert (t->meta.ndim == 0 && gm_tensor_get (t, NULL).i == 3);
  gm_tensor_unref (t);
}
END_TEST

START_TEST (overlap_is_of_byte_ranges)
{
  GmTensor *t = zeros (SIZES (10)), *other = zeros (SIZES (10));
  GmMeta five = gm_meta_make (GM_F32, SIZES (5)), none = gm_meta_make (GM_F32, SIZES (0)),
         back = five;
  back.strides[0] = -1;
  GmTensor *low = gm_tensor_new_view (t, &five, 0), *high = gm_tensor_new_view (t, &five, 5),
           *mid = gm_tensor_new_view (t, &five, 4), *nothing = gm_tensor_new_view (t, &none, 2),
           *reversed = gm_tensor_new_view (t, &back, 4);
  ck_assert (!gm_tensor_may_overlap (low, high));
  ck_assert (gm_tensor_may_overlap (low, mid) && gm_tensor_may_overlap (mid, high)
             && gm_tensor_may_overlap (t, t));
  ck_assert (!gm_tensor_may_overlap (t, other));
  ck_assert (!gm_tensor_may_overlap (t, nothing));
  ck_assert (gm_tensor_may_overlap (low, reversed) && !gm_tensor_may_overlap (high, reversed));
  GmTensor *all[] = { t, other, low, high, mid, nothing, reversed };
  for (size_t i = 0; i < G_N_ELEMENTS (all); i++)
    gm_tensor_unref (all[i]);
}
END_TEST

int
main (void)
{
  Suite *suite = suite_create ("tensor");
  TCase *c = tcase_create ("tensor");
  tcase_add_test (c, memory_is_counted_and_given_back);
  tcase_add_test (c, a_view_keeps_its_root_alive_and_shares_its_bytes);
  tcase_add_test (c, an_alias_has_no_base);
  tcase_add_test (c, foreign_memory_is_released_once);
  tcase_add_test (c, impossible_sizes_are_errors_not_aborts);
  tcase_add_test (c, a_failed_allocation_leaves_nothing_behind);
  tcase_add_test (c, overlap_is_of_byte_ranges);
  suite_add_tcase (suite, c);
  SRunner *sr = srunner_create (suite);
  srunner_run_all (sr, CK_NORMAL);
  int failures = srunner_ntests_failed (sr);
  srunner_free (sr);
  return failures ? 1 : 0;
}
