/* SPDX-License-Identifier: Apache-2.0
 * test_autograd.c -- the tape and its engine, one behaviour a test.
 */
#include "tests/unit/grad_check.h"

#include <stdlib.h>

#define SIZES(...)                                                                                 \
  (int) (sizeof ((const int64_t[]){ __VA_ARGS__ }) / sizeof (int64_t)), (const int64_t[])          \
  {                                                                                                \
    __VA_ARGS__                                                                                    \
  }
#define BIT(key) (1u << GM_ATTR_##key)

/* -- Small language ---------------------------------------------------------------------------- */

static GmTensor *
vector (int n, ...)
{
  GmTensor *t = tensor_f64 (1, (const int64_t[]){ n });
  va_list ap;
  va_start (ap, n);
  for (int i = 0; i < n; i++)
    elements (t)[i] = va_arg (ap, double);
  va_end (ap);
  return t;
}

static GmTensor *
leaf (GmTensor *t)
{
  ck_assert (gm_tensor_set_requires_grad (t, true, NULL));
  return t;
}

static GmTensor *
op2 (GmOp op, GmTensor *x, GmTensor *y)
{
  GError *error = NULL;
  GmTensor *t = gm_autograd_op (op, (GmTensor *[]){ x, y }, y ? 2 : 1, NULL, &error);
  no_error (error);
  return t;
}

static GmTensor *
sum (GmTensor *x)
{
  GError *error = NULL;
  GmAttrs at = { .mask = BIT (DIMS) | BIT (KEEPDIM) };
  GmTensor *t = gm_autograd_op (GM_OP_sum, &x, 1, &at, &error);
  no_error (error);
  return t;
}

static GmTensor *
slice (GmTensor *x, int64_t start, int64_t stop)
{
  GError *error = NULL;
  GmAttrs at = { .mask = BIT (DIM) | BIT (START) | BIT (STOP) | BIT (STEP),
                 .start = start,
                 .stop = stop,
                 .step = 1 };
  GmTensor *t = gm_autograd_op (GM_OP_slice, &x, 1, &at, &error);
  no_error (error);
  return t;
}

static void
into (GmTensor *dst, GmOp op, GmTensor *x, GmTensor *y)
{
  GError *error = NULL;
  ck_assert_msg (gm_autograd_into (dst, op, (GmTensor *[]){ x, y }, y ? 2 : 1, NULL, &error), "%s",
                 error ? error->message : "");
}

static void
backward (GmTensor *root)
{
  GError *error = NULL;
  ck_assert_msg (gm_autograd_backward (&root, NULL, 1, false, false, &error), "%s",
                 error ? error->message : "");
}

static void
expect (GmTensor *t, int n, ...)
{
  ck_assert_ptr_nonnull (t);
  va_list ap;
  va_start (ap, n);
  ck_assert_int_eq (gm_meta_numel (&t->meta), n);
  for (int64_t i = 0; i < n; i++) {
    double want = va_arg (ap, double),
           got = gm_scalar_as_double (gm_tensor_get (t, t->meta.ndim ? (int64_t[]){ i } : NULL));
    ck_assert_msg (fabs (got - want) < 1e-12, "element %d is %g, not %g", (int) i, got, want);
  }
  va_end (ap);
}

static void
expect_error (GError *error, const char *part)
{
  ck_assert_ptr_nonnull (error);
  ck_assert_msg (strstr (error->message, part) != NULL, "\"%s\" is not in: %s", part,
                 error->message);
  g_error_free (error);
}

/* -- Recording --------------------------------------------------------------------------------- */

START_TEST (results_of_plain_tensors_have_no_history)
{
  g_autoptr (GmTensor) x = vector (2, 1.0, 2.0);
  g_autoptr (GmTensor) y = op2 (GM_OP_mul, x, x);
  ck_assert (!gm_tensor_requires_grad (y) && gm_tensor_is_leaf (y) && !y->autograd);
  ck_assert_ptr_null (gm_tensor_grad_fn_name (y));
}
END_TEST

START_TEST (results_of_leaves_that_require_grad_have_a_named_history)
{
  g_autoptr (GmTensor) x = leaf (vector (2, 1.0, 2.0));
  g_autoptr (GmTensor) y = op2 (GM_OP_mul, x, x);
  ck_assert (gm_tensor_requires_grad (y) && !gm_tensor_is_leaf (y) && gm_tensor_is_leaf (x));
  ck_assert_str_eq (gm_tensor_grad_fn_name (y), "MulBackward0");
}
END_TEST

START_TEST (nothing_is_recorded_with_grad_mode_off)
{
  g_autoptr (GmTensor) x = leaf (vector (2, 1.0, 2.0));
  ck_assert (gm_grad_set_enabled (false));
  g_autoptr (GmTensor) y = op2 (GM_OP_mul, x, x);
  g_autoptr (GmTensor) v = slice (x, 0, 1);
  ck_assert (!gm_grad_set_enabled (true));
  ck_assert (!gm_tensor_requires_grad (y));
  ck_assert (!gm_tensor_requires_grad (v));
}
END_TEST

static gpointer
mode_of_another_thread (gpointer data)
{
  return GINT_TO_POINTER (gm_grad_enabled ());
}

START_TEST (grad_mode_belongs_to_the_thread)
{
  gm_grad_set_enabled (false);
  ck_assert (
      GPOINTER_TO_INT (g_thread_join (g_thread_new ("other", mode_of_another_thread, NULL))));
  gm_grad_set_enabled (true);
}
END_TEST

START_TEST (comparisons_and_integers_do_not_require_grad)
{
  g_autoptr (GmTensor) x = leaf (vector (2, 1.0, 2.0));
  g_autoptr (GmTensor) y = op2 (GM_OP_lt, x, x);
  ck_assert (!gm_tensor_requires_grad (y));
  GError *error = NULL;
  g_autoptr (GmTensor) i = ints_i64 (SIZES (1), (int64_t[]){ 1 });
  ck_assert (!gm_tensor_set_requires_grad (i, true, &error));
  expect_error (error, "floating point");
}
END_TEST

START_TEST (detach_shares_memory_and_version_but_no_history)
{
  g_autoptr (GmTensor) x = leaf (vector (2, 1.0, 2.0));
  g_autoptr (GmTensor) y = op2 (GM_OP_mul, x, x);
  g_autoptr (GmTensor) d = gm_tensor_detach (y);
  ck_assert (!gm_tensor_requires_grad (d) && d->storage == y->storage);
  into (d, GM_OP_add, d, d);
  ck_assert_uint_eq (gm_tensor_version (y), 1);
}
END_TEST

START_TEST (only_leaves_can_switch_requires_grad_off)
{
  GError *error = NULL;
  g_autoptr (GmTensor) x = leaf (vector (1, 1.0));
  g_autoptr (GmTensor) y = op2 (GM_OP_exp, x, NULL);
  ck_assert (!gm_tensor_set_requires_grad (y, false, &error));
  expect_error (error, "only leaves can change it");
}
END_TEST

/* -- Backward ---------------------------------------------------------------------------------- */

START_TEST (gradients_of_all_paths_are_added)
{
  g_autoptr (GmTensor) x = leaf (vector (2, 3.0, 4.0));
  g_autoptr (GmTensor) y = op2 (GM_OP_mul, x, x);
  g_autoptr (GmTensor) z = op2 (GM_OP_add, y, x);
  g_autoptr (GmTensor) s = sum (z);
  backward (s);
  expect (gm_tensor_grad (x), 2, 7.0, 9.0);
}
END_TEST

START_TEST (a_second_backward_accumulates_into_the_same_tensor)
{
  g_autoptr (GmTensor) x = leaf (vector (2, 3.0, 4.0));
  for (int i = 0; i < 2; i++) {
    g_autoptr (GmTensor) y = op2 (GM_OP_mul, x, x);
    g_autoptr (GmTensor) s = sum (y);
    GmTensor *before = gm_tensor_grad (x);
    backward (s);
    ck_assert (!before || before == gm_tensor_grad (x));
  }
  expect (gm_tensor_grad (x), 2, 12.0, 16.0);
  gm_tensor_set_grad (x, NULL);
  ck_assert_ptr_null (gm_tensor_grad (x));
}
END_TEST

START_TEST (the_first_gradient_is_not_shared_between_leaves)
{
  g_autoptr (GmTensor) x = leaf (vector (2, 1.0, 2.0));
  g_autoptr (GmTensor) y = leaf (vector (2, 1.0, 2.0));
  g_autoptr (GmTensor) z = op2 (GM_OP_add, x, y);
  g_autoptr (GmTensor) g = vector (2, 5.0, 6.0);
  GError *error = NULL;
  ck_assert (gm_autograd_backward (&z, &g, 1, false, false, &error));
  GmTensor *gx = gm_tensor_grad (x), *gy = gm_tensor_grad (y);
  ck_assert (gx->storage != gy->storage && gx->storage != g->storage && gy->storage != g->storage);
  expect (gx, 2, 5.0, 6.0);
}
END_TEST

START_TEST (an_expanded_gradient_arrives_as_memory_of_its_own)
{
  g_autoptr (GmTensor) x = leaf (vector (3, 1.0, 2.0, 3.0));
  g_autoptr (GmTensor) s = sum (x);
  backward (s);
  ck_assert (gm_meta_is_contiguous (&gm_tensor_grad (x)->meta));
  expect (gm_tensor_grad (x), 3, 1.0, 1.0, 1.0);
}
END_TEST

START_TEST (the_gradient_of_a_transposed_weight_is_laid_out_as_the_weight)
{
  GError *error = NULL;
  g_autoptr (GmTensor) x = random_f64 (1, -1, 1, SIZES (5, 3));
  g_autoptr (GmTensor) w = leaf (random_f64 (2, -1, 1, SIZES (4, 3)));
  GmAttrs at = { .mask = BIT (DIMS), .n_list = 2, .list = { 1, 0 } };
  g_autoptr (GmTensor) turned = gm_autograd_op (GM_OP_permute, &w, 1, &at, &error);
  g_autoptr (GmTensor) y = op2 (GM_OP_matmul, x, turned);
  g_autoptr (GmTensor) s = sum (y);
  backward (s);
  GmTensor *g = gm_tensor_grad (w);
  ck_assert (gm_meta_is_contiguous (&g->meta) && !g->base);
  for (int i = 0; i < 12; i++) {
    double want = 0;
    for (int row = 0; row < 5; row++)
      want += elements (x)[3 * row + i % 3];
    ck_assert (fabs (elements (g)[i] - want) < 1e-12);
  }
}
END_TEST

START_TEST (a_root_needs_a_gradient_unless_it_has_one_element)
{
  GError *error = NULL;
  g_autoptr (GmTensor) x = leaf (vector (2, 1.0, 2.0));
  g_autoptr (GmTensor) y = op2 (GM_OP_exp, x, NULL);
  ck_assert (!gm_autograd_backward (&y, NULL, 1, false, false, &error));
  expect_error (error, "one element");
  error = NULL;
  g_autoptr (GmTensor) g = vector (3, 1.0, 1.0, 1.0);
  ck_assert (!gm_autograd_backward (&y, &g, 1, false, false, &error));
  expect_error (error, "f64[3]");
}
END_TEST

START_TEST (a_root_without_history_is_an_error)
{
  GError *error = NULL;
  g_autoptr (GmTensor) x = vector (1, 1.0);
  ck_assert (!gm_autograd_backward (&x, NULL, 1, false, false, &error));
  expect_error (error, "does not require grad");
}
END_TEST

START_TEST (several_roots_are_walked_at_once)
{
  g_autoptr (GmTensor) x = leaf (vector (1, 3.0));
  g_autoptr (GmTensor) y = op2 (GM_OP_mul, x, x);
  g_autoptr (GmTensor) z = op2 (GM_OP_mul, y, x); /* y is a root and on z's way */
  GError *error = NULL;
  ck_assert (gm_autograd_backward ((GmTensor *[]){ y, z }, NULL, 2, false, false, &error));
  expect (gm_tensor_grad (x), 1, 6.0 + 27.0);
}
END_TEST

START_TEST (a_second_backward_says_that_the_graph_is_gone)
{
  GError *error = NULL;
  g_autoptr (GmTensor) x = leaf (vector (1, 3.0));
  g_autoptr (GmTensor) y = op2 (GM_OP_mul, x, x);
  ck_assert (gm_autograd_backward (&y, NULL, 1, true, false, &error)); /* retained */
  ck_assert (gm_autograd_backward (&y, NULL, 1, false, false, &error));
  expect (gm_tensor_grad (x), 1, 12.0);
  ck_assert (!gm_autograd_backward (&y, NULL, 1, false, false, &error));
  expect_error (error, "retain_graph=True");
}
END_TEST

START_TEST (changing_a_saved_tensor_is_an_error_that_names_it)
{
  GError *error = NULL;
  g_autoptr (GmTensor) x = leaf (vector (3, 1.0, 2.0, 3.0));
  g_autoptr (GmTensor) e = op2 (GM_OP_exp, x, NULL);
  g_autoptr (GmTensor) s = sum (e);
  g_autoptr (GmTensor) one = vector (1, 1.0);
  gm_grad_set_enabled (false);
  into (e, GM_OP_add, e, one);
  gm_grad_set_enabled (true);
  ck_assert (!gm_autograd_backward (&s, NULL, 1, false, false, &error));
  ck_assert (strstr (error->message, "f64[3]") && strstr (error->message, "version 1")
             && strstr (error->message, "expected version 0"));
  expect_error (error, "exp");
}
END_TEST

START_TEST (changing_a_tensor_that_is_not_saved_is_fine)
{
  g_autoptr (GmTensor) x = leaf (vector (2, 1.0, 2.0));
  g_autoptr (GmTensor) y = op2 (GM_OP_add, x, x);
  g_autoptr (GmTensor) s = sum (y);
  g_autoptr (GmTensor) one = vector (1, 1.0);
  gm_grad_set_enabled (false);
  into (y, GM_OP_add, y, one);
  gm_grad_set_enabled (true);
  backward (s);
  expect (gm_tensor_grad (x), 2, 2.0, 2.0);
}
END_TEST

/* -- grad -------------------------------------------------------------------------------------- */

START_TEST (grad_returns_gradients_and_touches_no_leaf)
{
  GError *error = NULL;
  g_autoptr (GmTensor) x = leaf (vector (1, 3.0));
  g_autoptr (GmTensor) y = leaf (vector (1, 5.0));
  g_autoptr (GmTensor) m = op2 (GM_OP_mul, x, y);
  g_autoptr (GmTensor) z = op2 (GM_OP_mul, m, m);
  GmTensor *got[2];
  ck_assert (
      gm_autograd_grad (&z, NULL, 1, (GmTensor *[]){ x, m }, 2, false, false, false, got, &error));
  expect (got[0], 1, 2 * 15.0 * 5);
  expect (got[1], 1, 30.0);
  ck_assert (!gm_tensor_grad (x) && !gm_tensor_grad (y));
  unref_all (got, 2);
}
END_TEST

START_TEST (grad_of_an_unused_input_is_an_error_unless_allowed)
{
  GError *error = NULL;
  g_autoptr (GmTensor) x = leaf (vector (1, 3.0));
  g_autoptr (GmTensor) other = leaf (vector (1, 5.0));
  g_autoptr (GmTensor) z = op2 (GM_OP_exp, x, NULL);
  GmTensor *got[1];
  ck_assert (!gm_autograd_grad (&z, NULL, 1, &other, 1, true, false, false, got, &error));
  expect_error (error, "allow_unused=True");
  error = NULL;
  ck_assert (gm_autograd_grad (&z, NULL, 1, &other, 1, true, false, true, got, &error));
  ck_assert_ptr_null (got[0]);
}
END_TEST

START_TEST (higher_derivatives_of_a_power)
{
  GError *error = NULL;
  g_autoptr (GmTensor) x = leaf (vector (1, 2.0));
  g_autoptr (GmTensor) x2 = op2 (GM_OP_mul, x, x);
  g_autoptr (GmTensor) x4 = op2 (GM_OP_mul, x2, x2);
  GmTensor *d1, *d2, *d3;
  ck_assert (gm_autograd_grad (&x4, NULL, 1, &x, 1, true, true, false, &d1, &error));
  ck_assert (gm_autograd_grad (&d1, NULL, 1, &x, 1, true, true, false, &d2, &error));
  ck_assert (gm_autograd_grad (&d2, NULL, 1, &x, 1, true, false, false, &d3, &error));
  expect (d1, 1, 32.0);
  expect (d2, 1, 48.0);
  expect (d3, 1, 48.0);
  ck_assert (gm_tensor_requires_grad (d2) && !gm_tensor_requires_grad (d3));
  unref_all ((GmTensor *[]){ d1, d2, d3 }, 3);
}
END_TEST

START_TEST (backward_with_create_graph_makes_grads_that_can_be_differentiated)
{
  GError *error = NULL;
  g_autoptr (GmTensor) x = leaf (vector (1, 3.0));
  g_autoptr (GmTensor) e = op2 (GM_OP_exp, x, NULL);
  ck_assert (gm_autograd_backward (&e, NULL, 1, true, true, &error));
  g_autoptr (GmTensor) g = gm_tensor_ref (gm_tensor_grad (x));
  ck_assert (gm_tensor_requires_grad (g));
  gm_tensor_set_grad (x, NULL);
  backward (g);
  expect (gm_tensor_grad (x), 1, exp (3.0));
}
END_TEST

/* -- Hooks ------------------------------------------------------------------------------------- */

typedef struct {
  int calls;
  double factor;
  char *log;
  char mark;
} Hook;

static GmTensor *
scale_hook (void *data, GmTensor *grad, GError **error)
{
  Hook *h = data;
  h->calls++;
  if (h->log)
    *strchr (h->log, '.') = h->mark;
  if (h->factor == 0)
    return NULL;
  g_autoptr (GmTensor) f = vector (1, h->factor);
  return op2 (GM_OP_mul, grad, f);
}

START_TEST (hooks_see_and_replace_gradients_in_order)
{
  char log[] = "....";
  Hook a = { .factor = 2, .log = log, .mark = 'a' }, b = { .factor = 5, .log = log, .mark = 'b' },
       on_leaf = { .log = log, .mark = 'l' };
  g_autoptr (GmTensor) x = leaf (vector (1, 3.0));
  g_autoptr (GmTensor) y = op2 (GM_OP_mul, x, x);
  g_autoptr (GmTensor) s = sum (y);
  gm_tensor_add_hook (y, scale_hook, &a, NULL);
  gm_tensor_add_hook (y, scale_hook, &b, NULL);
  gm_tensor_add_hook (x, scale_hook, &on_leaf, NULL);
  backward (s);
  ck_assert_str_eq (log, "abl.");
  expect (gm_tensor_grad (x), 1, 60.0);
}
END_TEST

START_TEST (a_removed_hook_does_not_run)
{
  Hook h = { .factor = 2 };
  g_autoptr (GmTensor) x = leaf (vector (1, 3.0));
  uint64_t first = gm_tensor_add_hook (x, scale_hook, &h, NULL),
           second = gm_tensor_add_hook (x, scale_hook, &h, NULL);
  ck_assert (first != second);
  ck_assert (gm_tensor_remove_hook (first) && !gm_tensor_remove_hook (first));
  g_autoptr (GmTensor) y = op2 (GM_OP_mul, x, x);
  backward (y);
  ck_assert_int_eq (h.calls, 1);
  expect (gm_tensor_grad (x), 1, 12.0);
}
END_TEST

static GmTensor *
failing_hook (void *data, GmTensor *grad, GError **error)
{
  g_set_error (error, GM_ERROR, GM_ERROR_VALUE, "the hook says no");
  return NULL;
}

START_TEST (a_failing_hook_stops_the_walk_with_its_error)
{
  GError *error = NULL;
  g_autoptr (GmTensor) x = leaf (vector (1, 3.0));
  g_autoptr (GmTensor) y = op2 (GM_OP_mul, x, x);
  gm_tensor_add_hook (y, failing_hook, NULL, NULL);
  ck_assert (!gm_autograd_backward (&y, NULL, 1, false, false, &error));
  expect_error (error, "the hook says no");
  ck_assert_ptr_null (gm_tensor_grad (x));
}
END_TEST

static GmTensor *
nested_hook (void *data, GmTensor *grad, GError **error)
{
  GmTensor *x = data;
  g_autoptr (GmTensor) one = gm_tensor_detach (grad);
  g_autoptr (GmTensor) y = op2 (GM_OP_mul, x, x); /* the leaf is in the outer walk too */
  gm_grad_set_enabled (true);
  g_autoptr (GmTensor) z = op2 (GM_OP_mul, x, x);
  gm_grad_set_enabled (false);
  ck_assert (gm_autograd_backward (&z, NULL, 1, false, false, error));
  return NULL;
}

START_TEST (a_hook_may_run_a_backward_of_its_own)
{
  g_autoptr (GmTensor) x = leaf (vector (1, 3.0));
  g_autoptr (GmTensor) y = op2 (GM_OP_mul, x, x);
  g_autoptr (GmTensor) z = op2 (GM_OP_add, y, x);
  gm_tensor_add_hook (y, nested_hook, x, NULL);
  backward (z);
  expect (gm_tensor_grad (x), 1, 6.0 + 7.0);
}
END_TEST

START_TEST (retain_grad_keeps_an_intermediate_gradient)
{
  g_autoptr (GmTensor) x = leaf (vector (1, 3.0));
  g_autoptr (GmTensor) y = op2 (GM_OP_mul, x, x);
  gm_tensor_retain_grad (y);
  g_autoptr (GmTensor) gone = op2 (GM_OP_mul, y, x);
  g_autoptr (GmTensor) z = op2 (GM_OP_mul, gone, y);
  gm_tensor_retain_grad (gone);
  g_clear_pointer (&gone, gm_tensor_unref); /* a wish that dies with its tensor */
  backward (z);
  expect (gm_tensor_grad (y), 1, 2 * 9.0 * 3);
}
END_TEST

/* -- Writes ------------------------------------------------------------------------------------ */

START_TEST (a_leaf_that_requires_grad_is_not_written_with_grad_mode_on)
{
  GError *error = NULL;
  g_autoptr (GmTensor) x = leaf (vector (2, 1.0, 2.0));
  g_autoptr (GmTensor) v = slice (x, 0, 1);
  g_autoptr (GmTensor) one = vector (1, 1.0);
  ck_assert (!gm_autograd_into (x, GM_OP_add, (GmTensor *[]){ x, one }, 2, NULL, &error));
  expect_error (error, "leaf");
  error = NULL;
  ck_assert (!gm_autograd_into (v, GM_OP_copy, &one, 1, NULL, &error));
  expect_error (error, "view of a leaf");
  gm_grad_set_enabled (false);
  into (x, GM_OP_add, x, one);
  gm_grad_set_enabled (true);
  expect (x, 2, 2.0, 3.0);
  ck_assert (gm_tensor_is_leaf (x) && gm_tensor_requires_grad (x));
}
END_TEST

START_TEST (a_write_takes_the_history_of_what_was_written)
{
  g_autoptr (GmTensor) x = leaf (vector (2, 3.0, 4.0));
  g_autoptr (GmTensor) y = op2 (GM_OP_mul, x, x);
  into (y, GM_OP_mul, y, x); /* the old y is needed by the gradient, and kept */
  g_autoptr (GmTensor) s = sum (y);
  backward (s);
  expect (gm_tensor_grad (x), 2, 27.0, 48.0);
}
END_TEST

START_TEST (a_plain_tensor_that_is_written_to_joins_the_history)
{
  g_autoptr (GmTensor) x = leaf (vector (2, 3.0, 4.0));
  g_autoptr (GmTensor) buffer = vector (2, 0.0, 0.0);
  into (buffer, GM_OP_copy, x, NULL);
  ck_assert (gm_tensor_requires_grad (buffer));
  g_autoptr (GmTensor) y = op2 (GM_OP_mul, buffer, buffer);
  g_autoptr (GmTensor) s = sum (y);
  backward (s);
  expect (gm_tensor_grad (x), 2, 6.0, 8.0);
}
END_TEST

START_TEST (an_overwritten_history_gets_zeros)
{
  g_autoptr (GmTensor) x = leaf (vector (2, 3.0, 4.0));
  g_autoptr (GmTensor) y = op2 (GM_OP_mul, x, x);
  g_autoptr (GmTensor) c = vector (2, 1.0, 1.0);
  into (y, GM_OP_copy, c, NULL);
  ck_assert (gm_tensor_requires_grad (y));
  g_autoptr (GmTensor) s = sum (y);
  backward (s);
  expect (gm_tensor_grad (x), 2, 0.0, 0.0);
}
END_TEST

START_TEST (a_write_into_a_view_rewrites_the_base)
{
  g_autoptr (GmTensor) x = leaf (vector (3, 1.0, 2.0, 3.0));
  g_autoptr (GmTensor) base = op2 (GM_OP_mul, x, x);
  g_autoptr (GmTensor) v = slice (base, 1, 3);
  g_autoptr (GmTensor) ten = vector (1, 10.0);
  into (v, GM_OP_mul, v, ten);
  expect (base, 3, 1.0, 40.0, 90.0);
  ck_assert_str_eq (gm_tensor_grad_fn_name (base), "CopySlices");
  g_autoptr (GmTensor) s = sum (base);
  backward (s);
  expect (gm_tensor_grad (x), 3, 2.0, 40.0, 60.0);
}
END_TEST

START_TEST (the_written_view_and_its_siblings_follow_the_base)
{
  g_autoptr (GmTensor) x = leaf (vector (3, 1.0, 2.0, 3.0));
  g_autoptr (GmTensor) base = op2 (GM_OP_mul, x, x);
  g_autoptr (GmTensor) v = slice (base, 1, 3);
  g_autoptr (GmTensor) sibling = slice (base, 0, 2);
  g_autoptr (GmTensor) ten = vector (1, 10.0);
  into (v, GM_OP_mul, v, ten);
  g_autoptr (GmTensor) a = sum (v);
  g_autoptr (GmTensor) b = sum (sibling); /* 1 + 40 */
  expect (b, 1, 41.0);
  GError *error = NULL;
  ck_assert (gm_autograd_backward ((GmTensor *[]){ a, b }, NULL, 2, false, false, &error));
  expect (gm_tensor_grad (x), 3, 2.0, 40.0 + 40.0, 60.0);
}
END_TEST

START_TEST (writing_leaves_into_a_plain_buffer_piece_by_piece)
{
  g_autoptr (GmTensor) x = leaf (vector (1, 3.0));
  g_autoptr (GmTensor) buffer = vector (3, 0.0, 0.0, 0.0);
  g_autoptr (GmTensor) early = slice (buffer, 0, 1); /* made before anything required grad */
  for (int i = 0; i < 3; i++) {
    g_autoptr (GmTensor) at = slice (buffer, i, i + 1);
    into (at, GM_OP_copy, x, NULL);
  }
  ck_assert (gm_tensor_requires_grad (early));
  g_autoptr (GmTensor) square = op2 (GM_OP_mul, buffer, buffer);
  g_autoptr (GmTensor) s = sum (square);
  backward (s);
  expect (gm_tensor_grad (x), 1, 18.0);
}
END_TEST

START_TEST (a_write_into_a_view_can_be_differentiated_twice)
{
  GError *error = NULL;
  g_autoptr (GmTensor) x = leaf (vector (2, 2.0, 3.0));
  g_autoptr (GmTensor) base = op2 (GM_OP_mul, x, x);
  g_autoptr (GmTensor) v = slice (base, 0, 1);
  into (v, GM_OP_mul, v, v); /* x0^4, x1^2 */
  g_autoptr (GmTensor) s = sum (base);
  GmTensor *d1, *d2;
  ck_assert_msg (gm_autograd_grad (&s, NULL, 1, &x, 1, true, true, false, &d1, &error), "%s",
                 error ? error->message : "");
  expect (d1, 2, 32.0, 6.0);
  g_autoptr (GmTensor) t = sum (d1);
  ck_assert (gm_autograd_grad (&t, NULL, 1, &x, 1, false, false, false, &d2, &error));
  expect (d2, 2, 48.0, 2.0);
  unref_all ((GmTensor *[]){ d1, d2 }, 2);
}
END_TEST

START_TEST (a_write_casts_broadcasts_and_checks_the_shape)
{
  GError *error = NULL;
  GmMeta m = gm_meta_make (GM_F32, 2, (int64_t[]){ 2, 2 });
  g_autoptr (GmTensor) dst = gm_tensor_new_zeros (&m, NULL);
  g_autoptr (GmTensor) x = vector (2, 1.5, 2.5);
  into (dst, GM_OP_add, x, x);
  ck_assert (((float *) gm_tensor_data (dst))[3] == 5);
  ck_assert_uint_eq (gm_tensor_version (dst), 1);
  g_autoptr (GmTensor) wide = vector (3, 1.0, 1.0, 1.0);
  ck_assert (!gm_autograd_into (dst, GM_OP_copy, &wide, 1, NULL, &error));
  expect_error (error, "[2, 2]");
}
END_TEST

START_TEST (a_write_may_read_what_it_overlaps)
{
  g_autoptr (GmTensor) x = vector (4, 1.0, 2.0, 3.0, 4.0);
  g_autoptr (GmTensor) low = slice (x, 0, 3);
  g_autoptr (GmTensor) high = slice (x, 1, 4);
  into (high, GM_OP_copy, low, NULL);
  expect (x, 4, 1.0, 1.0, 2.0, 3.0);
  into (low, GM_OP_add, low, high);
  expect (x, 4, 2.0, 3.0, 5.0, 3.0);
}
END_TEST

START_TEST (an_expanded_tensor_is_not_written)
{
  GError *error = NULL;
  g_autoptr (GmTensor) x = vector (1, 1.0);
  GmAttrs at = { .mask = BIT (SIZES), .n_list = 1, .list = { 3 } };
  g_autoptr (GmTensor) wide = gm_autograd_op (GM_OP_expand, &x, 1, &at, &error);
  ck_assert (!gm_autograd_into (wide, GM_OP_copy, &x, 1, NULL, &error));
  expect_error (error, "clone()");
}
END_TEST

/* -- Functions and depth ----------------------------------------------------------------------- */

typedef struct {
  int backwards, releases;
} Probe;

static bool
probe_backward (GmAgNode *n, void *state, GmTensor *const *grads, GmTensor **result,
                bool create_graph, GError **error)
{
  ((Probe *) state)->backwards++;
  ck_assert (!grads[0]); /* only the second output was used */
  result[0] = gm_tensor_ref (grads[1]);
  return true;
}

static void
probe_release (void *state)
{
  ((Probe *) state)->releases++;
}

START_TEST (a_function_of_several_outputs_is_a_node)
{
  static const GmAgFunction probe = { "ProbeBackward", probe_backward, probe_release };
  GError *error = NULL;
  Probe p = { 0 };
  g_autoptr (GmTensor) x = leaf (vector (1, 3.0));
  GmTensor *outs[2] = { vector (1, 1.0), vector (1, 2.0) };
  gm_autograd_attach (&probe, &p, &x, 1, outs, 2);
  ck_assert_str_eq (gm_tensor_grad_fn_name (outs[1]), "ProbeBackward");
  g_autoptr (GmTensor) y = op2 (GM_OP_mul, outs[1], outs[1]);
  backward (y);
  expect (gm_tensor_grad (x), 1, 4.0);
  ck_assert_int_eq (p.backwards, 1);
  ck_assert_int_eq (p.releases, 1);
  ck_assert (!gm_autograd_backward (&outs[1], NULL, 1, false, false, &error));
  expect_error (error, "ProbeBackward");
  unref_all (outs, 2);
  ck_assert_int_eq (p.releases, 1);
}
END_TEST

START_TEST (a_chain_of_a_hundred_thousand_nodes_needs_no_stack)
{
  g_autoptr (GmTensor) x = leaf (vector (1, 1.0));
  g_autoptr (GmTensor) one = vector (1, 1.0);
  for (int walked = 0; walked < 2; walked++) {
    g_autoptr (GmTensor) y = op2 (GM_OP_mul, x, one);
    for (int i = 0; i < 100000; i++) {
      GmTensor *next = op2 (GM_OP_mul, y, one);
      gm_tensor_unref (y);
      y = next;
    }
    if (walked)
      backward (y);
  }
  expect (gm_tensor_grad (x), 1, 1.0);
}
END_TEST

START_TEST (histories_die_with_their_tensors)
{
  size_t before = gm_alloc_live_bytes ();
  for (int i = 0; i < 10; i++) {
    g_autoptr (GmTensor) x = leaf (vector (3, 1.0, 2.0, 3.0));
    g_autoptr (GmTensor) y = op2 (GM_OP_exp, x, NULL);
    into (y, GM_OP_mul, y, x);
    g_autoptr (GmTensor) v = slice (y, 0, 2);
    g_autoptr (GmTensor) w = slice (y, 1, 3);
    into (v, GM_OP_mul, v, w);
    g_autoptr (GmTensor) s = sum (y);
    if (i % 2)
      gm_autograd_backward (&s, NULL, 1, i % 3 == 0, false, NULL);
  }
  ck_assert_uint_eq (gm_alloc_live_bytes (), before);
}
END_TEST

int
main (void)
{
  Suite *s = suite_create ("autograd");
  TCase *t = tcase_create ("tape");
  tcase_set_timeout (t, 60);
  tcase_add_test (t, results_of_plain_tensors_have_no_history);
  tcase_add_test (t, results_of_leaves_that_require_grad_have_a_named_history);
  tcase_add_test (t, nothing_is_recorded_with_grad_mode_off);
  tcase_add_test (t, grad_mode_belongs_to_the_thread);
  tcase_add_test (t, comparisons_and_integers_do_not_require_grad);
  tcase_add_test (t, detach_shares_memory_and_version_but_no_history);
  tcase_add_test (t, only_leaves_can_switch_requires_grad_off);
  tcase_add_test (t, gradients_of_all_paths_are_added);
  tcase_add_test (t, a_second_backward_accumulates_into_the_same_tensor);
  tcase_add_test (t, the_first_gradient_is_not_shared_between_leaves);
  tcase_add_test (t, an_expanded_gradient_arrives_as_memory_of_its_own);
  tcase_add_test (t, the_gradient_of_a_transposed_weight_is_laid_out_as_the_weight);
  tcase_add_test (t, a_root_needs_a_gradient_unless_it_has_one_element);
  tcase_add_test (t, a_root_without_history_is_an_error);
  tcase_add_test (t, several_roots_are_walked_at_once);
  tcase_add_test (t, a_second_backward_says_that_the_graph_is_gone);
  tcase_add_test (t, changing_a_saved_tensor_is_an_error_that_names_it);
  tcase_add_test (t, changing_a_tensor_that_is_not_saved_is_fine);
  tcase_add_test (t, grad_returns_gradients_and_touches_no_leaf);
  tcase_add_test (t, grad_of_an_unused_input_is_an_error_unless_allowed);
  tcase_add_test (t, higher_derivatives_of_a_power);
  tcase_add_test (t, backward_with_create_graph_makes_grads_that_can_be_differentiated);
  tcase_add_test (t, hooks_see_and_replace_gradients_in_order);
  tcase_add_test (t, a_removed_hook_does_not_run);
  tcase_add_test (t, a_failing_hook_stops_the_walk_with_its_error);
  tcase_add_test (t, a_hook_may_run_a_backward_of_its_own);
  tcase_add_test (t, retain_grad_keeps_an_intermediate_gradient);
  tcase_add_test (t, a_leaf_that_requires_grad_is_not_written_with_grad_mode_on);
  tcase_add_test (t, a_write_takes_the_history_of_what_was_written);
  tcase_add_test (t, a_plain_tensor_that_is_written_to_joins_the_history);
  tcase_add_test (t, an_overwritten_history_gets_zeros);
  tcase_add_test (t, a_write_into_a_view_rewrites_the_base);
  tcase_add_test (t, the_written_view_and_its_siblings_follow_the_base);
  tcase_add_test (t, writing_leaves_into_a_plain_buffer_piece_by_piece);
  tcase_add_test (t, a_write_into_a_view_can_be_differentiated_twice);
  tcase_add_test (t, a_write_casts_broadcasts_and_checks_the_shape);
  tcase_add_test (t, a_write_may_read_what_it_overlaps);
  tcase_add_test (t, an_expanded_tensor_is_not_written);
  tcase_add_test (t, a_function_of_several_outputs_is_a_node);
  tcase_add_test (t, a_chain_of_a_hundred_thousand_nodes_needs_no_stack);
  tcase_add_test (t, histories_die_with_their_tensors);
  suite_add_tcase (s, t);
  SRunner *r = srunner_create (s);
  srunner_run_all (r, CK_NORMAL);
  int failures = srunner_ntests_failed (r);
  srunner_free (r);
  return failures ? 1 : 0;
}
