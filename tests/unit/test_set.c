/* SPDX-License-Identifier: Apache-2.0
 * test_set.c -- tensors that become others in place: t_, transpose_, squeeze_, unsqueeze_, resize_,
 * set_.
 */
#include <check.h>

#include "core/autograd/autograd.h"
#include "core/api/api.h"
#include "core/tensor/alloc.h"

static GmTensor *
counting (int ndim, const int64_t *sizes)
{
  GmMeta m = gm_meta_make (GM_F32, ndim, sizes);
  GmTensor *t = gm_tensor_new (&m, NULL);

  for (int64_t i = 0; i < gm_meta_numel (&m); i++)
    ((float *) gm_tensor_data (t))[i] = (float) i;
  return t;
}

#define COUNTING(...)                                                                              \
  counting (sizeof ((int64_t[]){ __VA_ARGS__ }) / sizeof (int64_t), (int64_t[]){ __VA_ARGS__ })

/* Calls name_ on x with integers or a tensor.  Returns the message of the error, or NULL. */
static char *
in_place (const char *name, GmTensor *x, int n, const int64_t *numbers, GmTensor *other)
{
  GmEagerBuilder b;
  GmArg args[4] = { { .kind = GM_ARG_TENSOR, .v = gm_val_from_tensor (x) } };
  char *message = NULL;

  gm_eager_builder_init (&b);
  for (int i = 0; i < n; i++)
    args[i + 1] = (GmArg){ .kind = GM_ARG_INT, .i = numbers[i] };
  if (other)
    args[++n] = (GmArg){ .kind = GM_ARG_TENSOR, .v = gm_val_from_tensor (other) };
  GmArg r = gm_api_call (gm_api_find (name), true, &b.base, args, n + 1, NULL, NULL, 0);
  if (b.base.error)
    message = g_strdup (b.base.error->message);
  else
    ck_assert_ptr_eq (gm_tensor_from_val (r.v), x);
  gm_arg_clear (&r);
  gm_eager_builder_clear (&b);
  return message;
}

#define DO(name, x, ...)                                                                           \
  ck_assert_ptr_null (in_place (name, x, sizeof ((int64_t[]){ __VA_ARGS__ }) / sizeof (int64_t),   \
                                (int64_t[]){ __VA_ARGS__ }, NULL))

static void
assert_shape (const GmTensor *t, const char *shape, const char *strides)
{
  g_autofree char *a = gm_shape_text (t->meta.ndim, t->meta.sizes);
  g_autofree char *b = gm_shape_text (t->meta.ndim, t->meta.strides);

  ck_assert_str_eq (a, shape);
  ck_assert_str_eq (b, strides);
}

START_TEST (each_form_changes_shape_and_strides_and_no_element)
{
  g_autoptr (GmTensor) x = COUNTING (2, 3);
  GmStorage *storage = x->storage;

  DO ("t", x);
  assert_shape (x, "[3, 2]", "[1, 3]");
  DO ("unsqueeze", x, 1);
  assert_shape (x, "[3, 1, 2]", "[1, 6, 3]");
  DO ("transpose", x, 0, 2);
  assert_shape (x, "[2, 1, 3]", "[3, 6, 1]");
  DO ("squeeze", x);
  assert_shape (x, "[2, 3]", "[3, 1]");
  DO ("resize", x, 3, 2);
  assert_shape (x, "[3, 2]", "[2, 1]");
  ck_assert_ptr_eq (x->storage, storage);
  ck_assert_ptr_null (x->base);
  for (int i = 0; i < 6; i++)
    ck_assert (((float *) gm_tensor_data (x))[i] == (float) i);
  ck_assert_uint_eq (gm_tensor_version (x), 5);
}
END_TEST

START_TEST (set_takes_memory_and_other_views_stay)
{
  g_autoptr (GmTensor) x = COUNTING (4), y = COUNTING (2, 2);
  g_autoptr (GmTensor) view = gm_tensor_new_view (x, &x->meta, 0);

  ck_assert_ptr_null (in_place ("set", x, 0, NULL, y));
  ck_assert_ptr_eq (x->storage, y->storage);
  assert_shape (x, "[2, 2]", "[2, 1]");
  ck_assert_ptr_ne (view->storage, x->storage);
  ck_assert_ptr_null (gm_tensor_view_base (view)); /* its base has moved away */
  ck_assert_ptr_eq (view->base, x);
}
END_TEST

START_TEST (history_goes_with_the_new_shape)
{
  g_autoptr (GmTensor) w = COUNTING (2, 3), y = NULL, by = COUNTING (3, 2), z = NULL, g = NULL;
  GmTensor *grad;

  gm_tensor_set_requires_grad (w, true, NULL);
  y = gm_autograd_op (GM_OP_copy, &w, 1, NULL, NULL);
  DO ("t", y);
  ck_assert_str_eq (gm_tensor_grad_fn_name (y), "PermuteBackward0");
  z = gm_autograd_op (GM_OP_mul, (GmTensor *[]){ y, by }, 2, NULL, NULL);
  g = COUNTING (3, 2);
  ck_assert (gm_autograd_grad (&z, &g, 1, &w, 1, false, false, false, &grad, NULL));
  for (int64_t i = 0; i < 2; i++)
    for (int64_t k = 0; k < 3; k++) {
      double n = (double) (k * 2 + i);
      ck_assert (gm_scalar_as_double (gm_tensor_get (grad, (int64_t[]){ i, k })) == n * n);
    }
  gm_tensor_unref (grad);
}
END_TEST

/* A view that changes its shape is still a view: a write to it is seen by its base's history. */
START_TEST (a_view_that_changes_its_shape_stays_one)
{
  g_autoptr (GmTensor) w = COUNTING (2, 3), base = NULL, view = NULL, g = COUNTING (2, 3);
  GmAttrs row = { .mask = 1u << GM_ATTR_DIM | 1u << GM_ATTR_START | 1u << GM_ATTR_STOP
                          | 1u << GM_ATTR_STEP,
                  .start = 1,
                  .stop = 2,
                  .step = 1 };
  GmTensor *grad;

  gm_tensor_set_requires_grad (w, true, NULL);
  base = gm_autograd_op (GM_OP_copy, &w, 1, NULL, NULL);
  view = gm_autograd_op (GM_OP_slice, &base, 1, &row, NULL);
  DO ("t", view);
  ck_assert (gm_autograd_into (view, GM_OP_add, (GmTensor *[]){ view, view }, 2, NULL, NULL));
  ck_assert_ptr_eq (gm_tensor_view_base (view), base);
  ck_assert (gm_autograd_grad (&base, &g, 1, &w, 1, false, false, false, &grad, NULL));
  for (int k = 0; k < 6; k++)
    ck_assert (((float *) gm_tensor_data (grad))[k] == (float) (k < 3 ? k : 2 * k));
  gm_tensor_unref (grad);
}
END_TEST

static void
refused (const char *name, GmTensor *x, int n, const int64_t *numbers, GmTensor *other,
         const char *says)
{
  g_autofree char *message = in_place (name, x, n, numbers, other);

  ck_assert_msg (message && strstr (message, says), "%s", message ? message : "not refused");
}

START_TEST (what_cannot_be_is_refused_and_changes_nothing)
{
  g_autoptr (GmTensor) leaf = COUNTING (2, 3), x = COUNTING (2, 3), result = NULL, ints = NULL;
  GmMeta m = gm_meta_make (GM_I64, 1, (int64_t[]){ 2 });

  gm_tensor_set_requires_grad (leaf, true, NULL);
  ints = gm_tensor_new_zeros (&m, NULL);
  refused ("t", leaf, 0, NULL, NULL, "leaf");
  refused ("set", x, 0, NULL, ints, "dtype");
  refused ("resize", leaf, 1, (int64_t[]){ 6 }, NULL, "requires grad");
  result = gm_autograd_op (GM_OP_copy, &leaf, 1, NULL, NULL);
  gm_grad_set_enabled (false);
  refused ("t", result, 0, NULL, NULL, "gradients off");
  DO ("t", leaf); /* a leaf may, as in torch */
  gm_grad_set_enabled (true);
  ck_assert (gm_tensor_is_leaf (leaf) && gm_tensor_requires_grad (leaf));
  assert_shape (x, "[2, 3]", "[3, 1]");
  assert_shape (result, "[2, 3]", "[3, 1]");
  ck_assert_uint_eq (gm_tensor_version (x), 0);
}
END_TEST

/* A saved tensor keeps its shape; that the change counts as a write to its memory is torch's
 * rule. */
START_TEST (a_change_of_shape_is_a_write_for_what_was_saved)
{
  g_autoptr (GmTensor) w = COUNTING (2, 3), y = NULL, z = NULL, g = COUNTING (2, 3);
  g_autoptr (GError) error = NULL;
  GmTensor *grad = NULL;

  gm_tensor_set_requires_grad (w, true, NULL);
  y = gm_autograd_op (GM_OP_copy, &w, 1, NULL, NULL);
  z = gm_autograd_op (GM_OP_sin, &y, 1, NULL, NULL);
  DO ("t", y);
  ck_assert (!gm_autograd_grad (&z, &g, 1, &w, 1, false, false, false, &grad, &error));
  ck_assert_msg (strstr (error->message, "f32[2, 3]") != NULL, "%s", error->message);
}
END_TEST

/* A result that is overwritten by a value made from it is freed with its last reference. */
START_TEST (an_overwritten_result_does_not_hold_itself)
{
  size_t before = gm_alloc_live_bytes ();

  for (int grad = 0; grad < 2; grad++) {
    GmTensor *w = COUNTING (64), *x, *y;
    gm_tensor_set_requires_grad (w, true, NULL);
    x = grad ? gm_autograd_op (GM_OP_copy, &w, 1, NULL, NULL) : COUNTING (64);
    y = gm_autograd_op (GM_OP_mul, (GmTensor *[]){ x, w }, 2, NULL, NULL);
    ck_assert (gm_autograd_into (x, GM_OP_copy, &y, 1, NULL, NULL));
    gm_tensor_unref (y);
    gm_tensor_unref (x);
    gm_tensor_unref (w);
  }
  ck_assert_uint_eq (gm_alloc_live_bytes (), before);
}
END_TEST

int
main (void)
{
  Suite *s = suite_create ("set");
  TCase *t = tcase_create ("all");
  SRunner *sr = srunner_create (s);
  int failures;

  tcase_add_test (t, each_form_changes_shape_and_strides_and_no_element);
  tcase_add_test (t, set_takes_memory_and_other_views_stay);
  tcase_add_test (t, history_goes_with_the_new_shape);
  tcase_add_test (t, a_view_that_changes_its_shape_stays_one);
  tcase_add_test (t, what_cannot_be_is_refused_and_changes_nothing);
  tcase_add_test (t, a_change_of_shape_is_a_write_for_what_was_saved);
  tcase_add_test (t, an_overwritten_result_does_not_hold_itself);
  suite_add_tcase (s, t);
  srunner_run_all (sr, CK_NORMAL);
  failures = srunner_ntests_failed (sr);
  srunner_free (sr);
  return failures ? 1 : 0;
}
