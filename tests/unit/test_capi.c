/* SPDX-License-Identifier: Apache-2.0
 * test_capi.c -- gramme.h as a C program uses it.  Needs the back end `eager` (GRAMME_PLUGIN_PATH);
 * other installed back ends are compared with it, bit for bit where they promise that.
 */
#include "core/gramme.h"

#include <check.h>
#include <math.h>
#include <string.h>

static GrammeFunction *
compile_text (const char *text, const char *backend)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GrammeGraph) g = gramme_graph_parse (text, &error);
  ck_assert_msg (g != NULL, "%s", error ? error->message : "");
  GrammeFunction *f = gramme_compile (g, backend, NULL, TRUE, &error);
  ck_assert_msg (f != NULL, "%s", error ? error->message : "");
  return f;
}

static GrammeTensorObject *
numbers (int n, float first, float step)
{
  GrammeTensorObject *t = gramme_tensor_new ("f32", 1, (int64_t[]){ n }, NULL);
  float *p = gramme_tensor_data (t);
  for (int i = 0; i < n; i++)
    p[i] = first + step * (float) i;
  return t;
}

START_TEST (graph_made_by_calls_computes_value_and_gradient)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GrammeGraph) g = gramme_graph_new ("square");
  GrammeValueId x = gramme_graph_add_input (g, "x", "f32", 1, (int64_t[]){ 4 }, TRUE, &error);
  GrammeValueId y = gramme_graph_add_op (g, "mul", (GrammeValueId[]){ x, x }, 2, NULL, &error);
  GrammeValueId sum = gramme_graph_add_op (g, "sum", &y, 1, "dims=[0] keepdim=false", &error);
  ck_assert (gramme_graph_add_output (g, sum, &error));
  g_autoptr (GrammeFunction) f = gramme_compile (g, "eager", NULL, TRUE, &error);
  ck_assert_msg (f != NULL, "%s", error ? error->message : "");
  g_clear_pointer (&g, gramme_graph_free); /* the function does not need it */
  ck_assert_int_eq (gramme_function_n_inputs (f), 1);
  ck_assert_int_eq (gramme_function_n_outputs (f), 1);
  ck_assert_double_gt (gramme_function_compile_ms (f), 0);

  g_autoptr (GrammeTensorObject) t = numbers (4, 1, 1), out = NULL, grad = NULL;
  ck_assert (gramme_tensor_set_requires_grad (t, TRUE, &error));
  ck_assert (gramme_function_run (f, &t, 1, &out, 1, &error));
  ck_assert_int_eq (gramme_tensor_ndim (out), 0);
  ck_assert_str_eq (gramme_tensor_dtype (out), "f32");
  ck_assert_float_eq (*(float *) gramme_tensor_data (out), 30);
  ck_assert (gramme_function_backward (&out, NULL, 1, &t, &grad, 1, &error));
  for (int i = 0; i < 4; i++)
    ck_assert_float_eq (((float *) gramme_tensor_data (grad))[i], 2 * (float) (i + 1));
}
END_TEST

START_TEST (gradients_are_laid_out_as_their_inputs)
{
  g_autoptr (GrammeFunction) f =
      compile_text ("net (%x: f32[2, 3] requires_grad, %y: f32[3, 2]) -> (%1) { \n"
                    " %0 = permute %x dims=[1, 0] \n %1 = mul %0 %y \n }",
                    "eager");
  g_autoptr (GrammeTensorObject) x = gramme_tensor_new ("f32", 2, (int64_t[]){ 2, 3 }, NULL),
                                 out = NULL, grad = NULL;
  g_autoptr (GrammeTensorObject) y = gramme_tensor_new ("f32", 2, (int64_t[]){ 3, 2 }, NULL),
                                 one = NULL;
  for (int i = 0; i < 6; i++)
    ((float *) gramme_tensor_data (y))[i] = (float) i;
  gramme_tensor_set_requires_grad (x, TRUE, NULL);
  ck_assert (gramme_function_run (f, (GrammeTensorObject *[]){ x, y }, 2, &out, 1, NULL));
  one = gramme_tensor_new ("f32", 2, (int64_t[]){ 3, 2 }, NULL);
  for (int i = 0; i < 6; i++)
    ((float *) gramme_tensor_data (one))[i] = 1;
  ck_assert (gramme_function_backward (&out, &one, 1, &x, &grad, 1, NULL));
  ck_assert_int_eq (gramme_tensor_strides (grad)[0], 3);
  ck_assert_int_eq (gramme_tensor_strides (grad)[1], 1);
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 3; j++)
      ck_assert_float_eq (((float *) gramme_tensor_data (grad))[i * 3 + j], (float) (j * 2 + i));
}
END_TEST

START_TEST (inputs_that_the_graph_writes_to_are_changed)
{
  g_autoptr (GrammeFunction) f = compile_text (
      "step (%x: f32[4], %g: f32[4]) -> (%x) { \n %0 = sub %x %g \n %1 = copy_ %x %0 \n }",
      "eager");
  g_autoptr (GrammeTensorObject) x = numbers (4, 5, 0), g = numbers (4, 1, 1), out = NULL;

  ck_assert (gramme_function_run (f, (GrammeTensorObject *[]){ x, g }, 2, &out, 1, NULL));
  ck_assert_ptr_eq (out, x);
  for (int i = 0; i < 4; i++)
    ck_assert_float_eq (((float *) gramme_tensor_data (x))[i], 4 - (float) i);
}
END_TEST

/* AOT-02, AOT-19: a graph compiled for one tensor twice, and for two */
START_TEST (graph_is_for_inputs_that_lie_as_they_were_described)
{
  static const char text[] = "f (%x: f32[4], %y: f32[4]) -> (%2) { \n %0 = neg %x \n %1 = copy_ %x "
                             "%0 \n %2 = mul %1 %y \n }";
  g_autoptr (GError) error = NULL;
  g_autoptr (GrammeGraph) g = gramme_graph_parse (text, NULL);
  g_autoptr (GrammeTensorObject) x = numbers (4, 1, 1), y = numbers (4, 1, 1), out = NULL;
  GrammeTensorObject *twice[2] = { x, x }, *two[2] = { x, y };

  ck_assert (!gramme_graph_describe_inputs (g, twice, 1, &error));
  g_clear_error (&error);
  ck_assert (gramme_graph_describe_inputs (g, twice, 2, &error));
  g_autoptr (GrammeFunction) one = gramme_compile (g, "eager", NULL, FALSE, &error);
  g_autoptr (GrammeFunction) other = compile_text (text, "eager");
  ck_assert (!gramme_function_run (one, two, 2, &out, 1, &error));
  ck_assert_msg (strstr (error->message, "one tensor") != NULL, "%s", error->message);
  g_clear_error (&error);
  ck_assert (!gramme_function_run (other, twice, 2, &out, 1, &error));
  ck_assert (gramme_function_run (one, twice, 2, &out, 1, NULL));
  for (int i = 0; i < 4; i++) { /* both operands of the product are the negative */
    ck_assert_float_eq (((float *) gramme_tensor_data (x))[i], -1 - (float) i);
    ck_assert_float_eq (((float *) gramme_tensor_data (out))[i], (1 + (float) i) * (1 + (float) i));
  }
}
END_TEST

START_TEST (text_goes_both_ways)
{
  static const char text[] = "net (%x: f32[2, 3] requires_grad) -> (%0) {\n  %0 = sum %x dims=[1] "
                             "keepdim=true : f32[2, 1]\n}\n";
  g_autoptr (GrammeGraph) g = gramme_graph_parse (text, NULL);
  g_autofree char *again = gramme_graph_print (g);

  ck_assert_str_eq (again, text);
}
END_TEST

/* -- All back ends ----------------------------------------------------------------------------- */

static const char net[] =
    "net (%x: f32[8, 5], %w: f32[5, 3] requires_grad, %b: f32[3] requires_grad) -> (%6) { \n"
    " %0 = matmul %x %w \n %1 = add %0 %b \n %2 = tanh %1 \n %3 = exp %2 \n %4 = mul %3 %1 \n"
    " %5 = square %4 \n %6 = sum %5 dims=[0, 1] keepdim=false \n }";

static void
train (const char *backend, float *weights)
{
  g_autoptr (GrammeFunction) f = compile_text (net, backend);
  g_autoptr (GrammeTensorObject) x = gramme_tensor_new ("f32", 2, (int64_t[]){ 8, 5 }, NULL);
  g_autoptr (GrammeTensorObject) w = gramme_tensor_new ("f32", 2, (int64_t[]){ 5, 3 }, NULL),
                                 b = numbers (3, 0.25f, 0.125f);
  GrammeTensorObject *in[3] = { x, w, b };

  for (int i = 0; i < 40; i++)
    ((float *) gramme_tensor_data (x))[i] = sinf ((float) i);
  for (int i = 0; i < 15; i++)
    ((float *) gramme_tensor_data (w))[i] = cosf ((float) i);
  gramme_tensor_set_requires_grad (w, TRUE, NULL);
  gramme_tensor_set_requires_grad (b, TRUE, NULL);
  for (int step = 0; step < 20; step++) {
    g_autoptr (GrammeTensorObject) out = NULL;
    GrammeTensorObject *grads[2];
    g_autoptr (GError) error = NULL;
    ck_assert_msg (gramme_function_run (f, in, 3, &out, 1, &error), "%s: %s", backend,
                   error ? error->message : "");
    ck_assert_msg (gramme_function_backward (&out, NULL, 1, in + 1, grads, 2, &error), "%s: %s",
                   backend, error ? error->message : "");
    for (int k = 0; k < 2; k++) {
      float *p = gramme_tensor_data (in[1 + k]), *g = gramme_tensor_data (grads[k]);
      for (int i = 0; i < (k ? 3 : 15); i++)
        p[i] -= 0.001f * g[i];
      gramme_tensor_unref (grads[k]);
    }
  }
  memcpy (weights, gramme_tensor_data (w), 15 * sizeof (float));
  memcpy (weights + 15, gramme_tensor_data (b), 3 * sizeof (float));
}

START_TEST (installed_back_ends_give_the_same_bits)
{
  g_auto (GStrv) names = gramme_list_backends ();
  float want[18], has[18];

  ck_assert (g_strv_contains ((const char *const *) names, "eager"));
  train ("eager", want);
  for (int i = 0; i < 18; i++)
    ck_assert (isfinite (want[i]));
  for (char **name = names; *name; name++) {
    if (strcmp (*name, "eager") != 0 && strcmp (*name, "tcc") != 0 && strcmp (*name, "null") != 0
        && strcmp (*name, "cc") != 0)
      continue; /* others may promise less */
    train (*name, has);
    ck_assert_msg (memcmp (want, has, sizeof want) == 0, "%s differs from eager", *name);
  }
}
END_TEST

/* -- Wrong use --------------------------------------------------------------------------------- */

static void
assert_says (GError **error, const char *what)
{
  ck_assert_ptr_nonnull (*error);
  ck_assert_msg (strstr ((*error)->message, what) != NULL, "\"%s\" does not say \"%s\"",
                 (*error)->message, what);
  g_clear_error (error);
}

START_TEST (wrong_arguments_are_named)
{
  GError *error = NULL;
  g_autoptr (GrammeGraph) g = gramme_graph_new ("g");
  GrammeValueId x = gramme_graph_add_input (g, "x", "f32", 2, (int64_t[]){ 2, 3 }, FALSE, &error);

  ck_assert_uint_eq (gramme_graph_add_input (g, "x", "f32", 0, NULL, FALSE, &error),
                     GRAMME_NO_VALUE);
  assert_says (&error, "'x' already");
  ck_assert_uint_eq (gramme_graph_add_input (g, "y", "f99", 0, NULL, FALSE, &error),
                     GRAMME_NO_VALUE);
  assert_says (&error, "f99");
  ck_assert_uint_eq (gramme_graph_add_input (g, "y", "f32", 1, (int64_t[]){ -1 }, FALSE, &error),
                     GRAMME_NO_VALUE);
  assert_says (&error, "-1");
  ck_assert_uint_eq (gramme_graph_add_op (g, "frobnicate", &x, 1, NULL, &error), GRAMME_NO_VALUE);
  assert_says (&error, "frobnicate");
  ck_assert_uint_eq (gramme_graph_add_op (g, "sum", &x, 1, "dims=[0]", &error), GRAMME_NO_VALUE);
  assert_says (&error, "keepdim");
  ck_assert_uint_eq (gramme_graph_add_op (g, "sum", &x, 1, "dims=[0] keepdom=true", &error),
                     GRAMME_NO_VALUE);
  assert_says (&error, "keepdom");
  ck_assert_uint_eq (gramme_graph_add_op (g, "matmul", (GrammeValueId[]){ x, x }, 2, NULL, &error),
                     GRAMME_NO_VALUE);
  assert_says (&error, "[2, 3]");
  ck_assert_uint_eq (gramme_graph_add_op (g, "neg", (GrammeValueId[]){ 99 }, 1, NULL, &error),
                     GRAMME_NO_VALUE);
  assert_says (&error, "99");
  ck_assert (!gramme_graph_add_output (g, 99, &error));
  assert_says (&error, "99");
  ck_assert_ptr_null (gramme_compile (g, "eagr", NULL, TRUE, &error));
  assert_says (&error, "eager");
  ck_assert_ptr_null (gramme_graph_parse ("nonsense", &error));
  g_clear_error (&error);
  ck_assert_ptr_null (gramme_tensor_new ("f32", 2, (int64_t[]){ INT64_MAX / 2, 8 }, &error));
  g_clear_error (&error);
}
END_TEST

START_TEST (wrong_runs_are_refused_and_leave_no_outputs)
{
  GError *error = NULL;
  g_autoptr (GrammeFunction) f =
      compile_text ("net (%x: f32[4] requires_grad) -> (%0) { \n %0 = exp %x \n }", "eager");
  g_autoptr (GrammeTensorObject) right = numbers (4, 0, 1), wrong = numbers (5, 0, 1),
                                 out = (GrammeTensorObject *) 1, grad = NULL,
                                 one = numbers (4, 1, 0);

  ck_assert (!gramme_function_run (f, &wrong, 1, &out, 1, &error));
  ck_assert_ptr_null (out);
  assert_says (&error, "f32[5]");
  ck_assert (!gramme_function_run (f, &right, 1, &out, 0, &error));
  assert_says (&error, "1 outputs");
  gramme_tensor_set_requires_grad (right, TRUE, NULL);
  ck_assert (gramme_function_run (f, &right, 1, &out, 1, &error));
  ck_assert (gramme_function_backward (&out, &one, 1, &right, &grad, 1, &error));
  g_clear_pointer (&grad, gramme_tensor_unref);
  ck_assert (!gramme_function_backward (&out, &one, 1, &right, &grad, 1, &error));
  ck_assert_ptr_null (grad);
  assert_says (&error, "second time");
}
END_TEST

/* The program must pass arrays of tensors without gaps, but a gap does not crash. */
START_TEST (null_among_tensors_is_an_error_that_says_which)
{
  GError *error = NULL;
  g_autoptr (GrammeFunction) f = compile_text (
      "net (%x: f32[4] requires_grad, %y: f32[4]) -> (%0) { \n %0 = mul %x %y \n }", "eager");
  g_autoptr (GrammeGraph) g =
      gramme_graph_parse ("net (%x: f32[4], %y: f32[4]) -> (%0) { \n %0 = mul %x %y \n }", NULL);
  g_autoptr (GrammeTensorObject) x = numbers (4, 0, 1), out = NULL, one = numbers (4, 1, 0);
  GrammeTensorObject *in[2] = { x, NULL }, *grads[2] = { x, x }, *none = NULL;

  gramme_tensor_set_requires_grad (x, TRUE, NULL);
  ck_assert (!gramme_function_run (f, in, 2, &out, 1, &error));
  assert_says (&error, "input 1 is NULL");
  ck_assert_ptr_null (out);
  ck_assert (!gramme_graph_describe_inputs (g, in, 2, &error));
  assert_says (&error, "input 1 is NULL");
  in[1] = one;
  ck_assert (gramme_function_run (f, in, 2, &out, 1, &error));
  ck_assert (!gramme_function_backward (&none, &one, 1, in, grads, 1, &error));
  assert_says (&error, "output 0 is NULL");
  in[1] = NULL;
  ck_assert (!gramme_function_backward (&out, &one, 1, in, grads, 2, &error));
  assert_says (&error, "input 1 is NULL");
  ck_assert (!grads[0] && !grads[1]);
}
END_TEST

START_TEST (names_and_dtypes_are_those_of_the_header)
{
  static const char *const bad[] = { "y z", "", "y-1", "1y", "y.z", "\xc3\xa4" };
  static const char *const torch_names[] = {
    "float32", "int64", "bool", "float8_e4m3fn", "F32", ""
  };
  g_autoptr (GrammeGraph) g = gramme_graph_new ("g");
  GError *error = NULL;

  for (unsigned i = 0; i < G_N_ELEMENTS (bad); i++) {
    ck_assert_uint_eq (gramme_graph_add_input (g, bad[i], "f32", 0, NULL, FALSE, &error),
                       GRAMME_NO_VALUE);
    ck_assert (g_error_matches (error, GRAMME_ERROR, GRAMME_ERROR_VALUE));
    assert_says (&error, bad[i]);
  }
  for (unsigned i = 0; i < G_N_ELEMENTS (torch_names); i++) {
    ck_assert_uint_eq (gramme_graph_add_input (g, "y", torch_names[i], 0, NULL, FALSE, &error),
                       GRAMME_NO_VALUE);
    ck_assert (g_error_matches (error, GRAMME_ERROR, GRAMME_ERROR_TYPE));
    assert_says (&error, "f8e5m2");
    ck_assert_ptr_null (gramme_tensor_new (torch_names[i], 0, NULL, &error));
    assert_says (&error, torch_names[i]);
  }
  ck_assert_uint_ne (gramme_graph_add_input (g, "_y1", "b1", 0, NULL, FALSE, &error),
                     GRAMME_NO_VALUE);
  g_autofree char *text = gramme_graph_print (g);
  ck_assert_ptr_nonnull (strstr (text, "%_y1: b1[]"));
}
END_TEST

START_TEST (codes_tell_errors_apart)
{
  GError *error = NULL;
  g_autoptr (GrammeGraph) g =
      gramme_graph_parse ("net (%x: f32[4]) -> (%0) { \n %0 = exp %x \n }", NULL);
  g_autoptr (GrammeFunction) f = gramme_compile (g, "eager", NULL, FALSE, NULL);
  g_autoptr (GrammeTensorObject) five = numbers (5, 0, 1), out = NULL;

  ck_assert_str_eq (g_quark_to_string (GRAMME_ERROR), "gramme-error-quark");
  ck_assert_ptr_null (gramme_compile (g, "eagr", NULL, FALSE, &error));
  ck_assert (g_error_matches (error, GRAMME_ERROR, GRAMME_ERROR_NO_BACKEND));
  g_clear_error (&error);
  ck_assert_ptr_null (gramme_compile (g, "./eager.so", NULL, FALSE, &error));
  ck_assert (g_error_matches (error, GRAMME_ERROR, GRAMME_ERROR_NO_BACKEND));
  g_clear_error (&error);
  ck_assert_ptr_null (
      gramme_compile (g, "eager", (const char *[]){ "no-such=1", NULL }, FALSE, &error));
  ck_assert (g_error_matches (error, GRAMME_ERROR, GRAMME_ERROR_VALUE));
  g_clear_error (&error);
  ck_assert_ptr_null (gramme_tensor_new ("f32", 1, (int64_t[]){ INT64_MAX / 8 }, &error));
  ck_assert (g_error_matches (error, GRAMME_ERROR, GRAMME_ERROR_MEMORY));
  g_clear_error (&error);
  ck_assert (!gramme_function_run (f, &five, 1, &out, 1, &error));
  ck_assert (g_error_matches (error, GRAMME_ERROR, GRAMME_ERROR_RUNTIME));
  g_clear_error (&error);
}
END_TEST

int
main (void)
{
  Suite *s = suite_create ("capi");
  TCase *t = tcase_create ("all");
  SRunner *sr = srunner_create (s);
  int failures;

  tcase_add_test (t, graph_made_by_calls_computes_value_and_gradient);
  tcase_add_test (t, gradients_are_laid_out_as_their_inputs);
  tcase_add_test (t, inputs_that_the_graph_writes_to_are_changed);
  tcase_add_test (t, graph_is_for_inputs_that_lie_as_they_were_described);
  tcase_add_test (t, text_goes_both_ways);
  tcase_add_test (t, installed_back_ends_give_the_same_bits);
  tcase_add_test (t, wrong_arguments_are_named);
  tcase_add_test (t, wrong_runs_are_refused_and_leave_no_outputs);
  tcase_add_test (t, null_among_tensors_is_an_error_that_says_which);
  tcase_add_test (t, names_and_dtypes_are_those_of_the_header);
  tcase_add_test (t, codes_tell_errors_apart);
  suite_add_tcase (s, t);
  srunner_run_all (sr, CK_NORMAL);
  failures = srunner_ntests_failed (sr);
  srunner_free (sr);
  return failures ? 1 : 0;
}
