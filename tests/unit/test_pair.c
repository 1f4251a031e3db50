/* SPDX-License-Identifier: Apache-2.0
 * test_pair.c -- the compilation of a backward: by the first thread that needs it, once, and not at
 * all if none does.
 * Needs the back end `eager` (GRAMME_PLUGIN_PATH).
 */
#include "core/compiled_pair.h"
#include "tests/plugin/hostile.h"
#include "tests/unit/aot_test.h"

static const char *const wave = "wave (%x: f32[3, 2] requires_grad, %w: f32[3, 2]) -> (%2) { \n %0 "
                                "= mul %x %w \n %1 = tanh %0 \n %2 = mul %1 %x \n }";

typedef struct {
  GmCompile *c;
  uint64_t before; /* number of compilations before */
} Fixture;

static Fixture
begin (const char *backend, const char *text, const char *const *options)
{
  Fixture f = { gm_compile_new (), 0 };
  g_autoptr (GError) error = NULL;

  f.c->ask.backend = gm_backend_get (backend, &error);
  ck_assert_msg (f.c->ask.backend != NULL, "%s", error ? error->message : "");
  f.c->ask.options = options;
  gm_compile_set_graph (f.c, graph_of (text));
  f.before = gm_backend_compiles ();
  ck_assert_msg (gm_compile_run (f.c, 's', 'l', &error), "%s", error ? error->message : "");
  return f;
}

static uint64_t
compiles (const Fixture *f)
{
  return gm_backend_compiles () - f->before;
}

/* Returns the gradient of x, or NULL. */
static GmTensor *
gradient (const Fixture *f, GError **error)
{
  GmTensor *in[2], *out = NULL, *grad = NULL;

  for (int i = 0; i < 2; i++)
    in[i] = filled (gm_plan_input_meta (f->c->lower.plan, i), (uint32_t) i + 1);
  gm_tensor_set_requires_grad (in[0], true, NULL);
  if (gm_plan_run (f->c->lower.plan, in, 2, &out, error)) {
    g_autoptr (GmTensor) tangent = filled (&out->meta, 9);
    if (!gm_autograd_grad (&out, &tangent, 1, in, 1, false, false, false, &grad, error))
      grad = NULL;
  }
  gm_tensor_unref (out);
  gm_tensor_unref (in[0]);
  gm_tensor_unref (in[1]);
  return grad;
}

static void
run_alone (const Fixture *f)
{
  GmTensor *in[2], *out;

  for (int i = 0; i < 2; i++)
    in[i] = filled (gm_plan_input_meta (f->c->lower.plan, i), (uint32_t) i + 1);
  gm_tensor_set_requires_grad (in[0], true, NULL);
  ck_assert (gm_plan_run (f->c->lower.plan, in, 2, &out, NULL));
  ck_assert (out->meta.requires_grad);
  gm_tensor_unref (out);
  gm_tensor_unref (in[0]);
  gm_tensor_unref (in[1]);
}

START_TEST (a_backward_that_nobody_calls_is_never_compiled)
{
  Fixture f = begin ("eager", wave, NULL);
  int role;

  ck_assert_uint_eq (compiles (&f), 1);
  run_alone (&f);
  run_alone (&f);
  ck_assert_uint_eq (compiles (&f), 1);
  ck_assert_ptr_null (gm_compiled_pair_exec (f.c->lower.pair, GM_EXEC_BACKWARD, &role));
  g_autofree char *text = gm_compiled_pair_places_text (f.c->lower.pair, false);
  ck_assert_msg (strstr (text, "backward: 8 nodes, compiled when it is first called for") != NULL,
                 "%s", text);
  gm_compile_free (f.c);
}
END_TEST

START_TEST (the_first_backward_compiles_it_for_all_others)
{
  Fixture f = begin ("eager", wave, NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (GmTensor) first = gradient (&f, &error);

  ck_assert_msg (first != NULL, "%s", error ? error->message : "");
  ck_assert_uint_eq (compiles (&f), 2);
  g_autoptr (GmTensor) second = gradient (&f, &error);
  ck_assert (same_elements (first, second, false, 0));
  ck_assert_uint_eq (compiles (&f), 2);
  g_autofree char *text = gm_compiled_pair_places_text (f.c->lower.pair, false);
  ck_assert_msg (strstr (text, "forward: 3 of 3") != NULL
                     && strstr (text, "backward: 8 of 8") != NULL,
                 "%s", text);
  gm_compile_free (f.c);
}
END_TEST

START_TEST (both_can_be_asked_for_at_once)
{
  static const char *const options[] = { "backward=at-once", NULL };
  Fixture lazy = begin ("eager", wave, NULL), f = begin ("eager", wave, options);
  g_autoptr (GmTensor) want = gradient (&lazy, NULL);

  f.before = gm_backend_compiles ();
  g_autoptr (GmTensor) grad = gradient (&f, NULL);
  ck_assert_uint_eq (compiles (&f), 0);
  ck_assert (same_elements (want, grad, false, 0));
  gm_compile_free (lazy.c);
  gm_compile_free (f.c);
}
END_TEST

enum { THREADS = 8 };

typedef struct {
  const Fixture *f;
  int *ready; /* atomic */
  GmTensor *grad;
} Work;

static void *
work (void *data)
{
  Work *w = data;

  g_atomic_int_inc (w->ready);
  while (g_atomic_int_get (w->ready) < THREADS)
    ;
  w->grad = gradient (w->f, NULL);
  return NULL;
}

/* Runs the gradient of a new function in several threads at once. */
static void
run_in_threads (const char *backend, bool computes)
{
  Fixture f = begin (backend, wave, NULL);
  Work all[THREADS];
  GThread *threads[THREADS];
  int ready = 0;

  for (int i = 0; i < THREADS; i++) {
    all[i] = (Work){ &f, &ready, NULL };
    threads[i] = g_thread_new ("backward", work, &all[i]);
  }
  for (int i = 0; i < THREADS; i++)
    g_thread_join (threads[i]);
  ck_assert_uint_eq (compiles (&f), 2);
  for (int i = 0; i < THREADS; i++) {
    ck_assert_ptr_nonnull (all[i].grad);
    ck_assert (!computes || same_elements (all[0].grad, all[i].grad, false, 0));
  }
  for (int i = 0; i < THREADS; i++)
    gm_tensor_unref (all[i].grad);
  gm_compile_free (f.c);
}

START_TEST (of_many_threads_one_compiles_it_and_all_have_its_gradients)
{
  for (int round = 0; round < 20; round++)
    run_in_threads ("eager", true);
}
END_TEST

START_TEST (threads_wait_for_the_one_that_compiles)
{
  hostile_setup ();
  g_autofree char *file = hostile_build ("slow", "COMPILE_IS_SLOW", NULL);
  hostile_search (file);
  run_in_threads ("hostile", false);
  hostile_teardown ();
}
END_TEST

START_TEST (what_the_back_end_says_of_it_comes_at_the_backward_and_may_be_mended)
{
  hostile_setup ();
  g_autofree char *file = hostile_build ("wishes", "COMPILE_FAILS_ON_WISH", NULL);
  hostile_search (file);
  Fixture f = begin ("hostile", wave, NULL);
  g_autoptr (GError) error = NULL;

  run_alone (&f);
  g_setenv ("HOSTILE_WISH", "1", TRUE);
  for (int times = 0; times < 2; times++) {
    ck_assert_ptr_null (gradient (&f, &error));
    ck_assert (g_error_matches (error, GM_ERROR, GM_ERROR_BACKEND));
    ck_assert_msg (strstr (error->message, "the backward of a compiled function")
                       && strstr (error->message, "apt-get install gcc"),
                   "%s", error->message);
    g_clear_error (&error);
  }
  g_unsetenv ("HOSTILE_WISH");
  g_autoptr (GmTensor) grad = gradient (&f, &error);
  ck_assert_msg (grad != NULL, "%s", error ? error->message : "");
  ck_assert_uint_eq (compiles (&f), 2);
  gm_compile_free (f.c);
  hostile_teardown ();
}
END_TEST

/* Sizes that are symbols: the numbers reach the backward that was compiled by itself, from the
 * forward's. */
START_TEST (symbols_reach_a_backward_that_stands_by_itself)
{
  static const char *const text = "sum_of (%x: f32[n, 3] requires_grad, %w: f32[n, 3]) -> (%1) "
                                  "where n = 5 { \n %0 = mul %x %w : f32[n, 3] \n"
                                  " %1 = sum %0 dims=[0, 1] keepdim=false \n }";
  Fixture f = begin ("eager", text, NULL);

  ck_assert (gm_plan_is_sized (f.c->lower.plan));
  for (int64_t n = 2; n < 8; n++) {
    g_autoptr (GError) error = NULL;
    g_autoptr (GmPlan) plan = gm_plan_at (f.c->lower.plan, &n, &error);
    GmTensor *in[2], *out = NULL, *grad = NULL;

    ck_assert_msg (plan != NULL, "%s", error ? error->message : "");
    for (int i = 0; i < 2; i++)
      in[i] = filled (gm_plan_input_meta (plan, i), (uint32_t) i + 1);
    gm_tensor_set_requires_grad (in[0], true, NULL);
    ck_assert (gm_plan_run (plan, in, 2, &out, &error));
    g_autoptr (GmTensor) tangent = filled (&out->meta, 9);
    ck_assert_msg (gm_autograd_grad (&out, &tangent, 1, in, 1, false, false, false, &grad, &error),
                   "%s", error ? error->message : "");
    ck_assert_int_eq (grad->meta.sizes[0], n);
    gm_tensor_unref (grad);
    gm_tensor_unref (out);
    gm_tensor_unref (in[0]);
    gm_tensor_unref (in[1]);
  }
  gm_compile_free (f.c);
}
END_TEST

int
main (void)
{
  Suite *s = suite_create ("pair");
  TCase *t = tcase_create ("pair");

  tcase_set_timeout (t, 120);
  tcase_add_test (t, a_backward_that_nobody_calls_is_never_compiled);
  tcase_add_test (t, the_first_backward_compiles_it_for_all_others);
  tcase_add_test (t, both_can_be_asked_for_at_once);
  tcase_add_test (t, of_many_threads_one_compiles_it_and_all_have_its_gradients);
  tcase_add_test (t, threads_wait_for_the_one_that_compiles);
  tcase_add_test (t, what_the_back_end_says_of_it_comes_at_the_backward_and_may_be_mended);
  tcase_add_test (t, symbols_reach_a_backward_that_stands_by_itself);
  suite_add_tcase (s, t);
  SRunner *r = srunner_create (s);
  srunner_run_all (r, CK_NORMAL);
  int failed = srunner_ntests_failed (r);
  srunner_free (r);
  return failed != 0;
}
