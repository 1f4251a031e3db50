/* SPDX-License-Identifier: Apache-2.0
 * Making graphs, the recording builder, and the interpreter.
 */
#include <check.h>
#include <string.h>

#include "core/base/error.h"
#include "core/graph/graph.h"
#include "core/sym/sym.h"
#include "tests/fuzz/random_graph.h"

static GmMeta
f32 (int ndim, int64_t a, int64_t b)
{
  return gm_meta_make (GM_F32, ndim, (const int64_t[]){ a, b });
}

START_TEST (truncation_restores_the_text)
{
  g_autoptr (GmGraph) g = gm_graph_new ("forward", NULL);
  GmMeta m = f32 (2, 3, 4);
  GmValueId x = gm_graph_add_input (g, "x", &m);
  GmValueId y = gm_graph_add_node (g, GM_OP_tanh, &x, 1, NULL, "a.py:1", NULL);
  g_autofree char *before = gm_graph_text (g);
  GmGraphMark mark = gm_graph_mark (g);
  for (int i = 0; i < 100; i++)
    y = gm_graph_add_node (g, GM_OP_mul, (GmValueId[]){ x, y }, 2, NULL, NULL, NULL);
  g_autoptr (GmTensor) t = gm_tensor_new_scalar (gm_scalar_float (2), GM_F32, NULL);
  gm_graph_add_constant (g, t, NULL);
  gm_graph_add_input (g, "late", &m);
  gm_graph_add_output (g, y, GM_OUTPUT_USER);
  gm_sym_symbol (gm_graph_sym (g), "n");
  gm_graph_truncate (g, &mark);
  g_autofree char *after = gm_graph_text (g);
  ck_assert_str_eq (before, after);
  ck_assert (gm_graph_verify (g, true, NULL));
}
END_TEST

START_TEST (operands_that_do_not_fit_append_nothing)
{
  g_autoptr (GmGraph) g = gm_graph_new ("g", NULL);
  GmMeta a = f32 (2, 3, 4), b = f32 (2, 5, 4);
  GmValueId in[] = { gm_graph_add_input (g, "a", &a), gm_graph_add_input (g, "b", &b) };
  g_autoptr (GError) error = NULL;
  ck_assert_uint_eq (gm_graph_add_node (g, GM_OP_add, in, 2, NULL, NULL, &error), GM_NO_ID);
  ck_assert_ptr_nonnull (strstr (error->message, "[3, 4]"));
  ck_assert_ptr_nonnull (strstr (error->message, "[5, 4]"));
  ck_assert_uint_eq (g->values->len, 2);
  ck_assert_uint_eq (g->nodes->len, 0);
}
END_TEST

START_TEST (one_tensor_is_one_constant)
{
  g_autoptr (GmGraph) g = gm_graph_new ("g", NULL);
  g_autoptr (GmTensor) t = gm_tensor_new_scalar (gm_scalar_float (2), GM_F32, NULL);
  gm_graph_add_constant (g, t, NULL);
  gm_graph_add_constant (g, t, NULL);
  ck_assert_uint_eq (g->constants->len, 1);
  ck_assert_uint_eq (g->nodes->len, 2);
}
END_TEST

/* -- The builder
 * -------------------------------------------------------------------------------------------------
 */

START_TEST (builder_records_programs)
{
  g_autoptr (GmGraph) g = gm_graph_new ("g", NULL);
  GmMeta m = f32 (2, 2, 3);
  GmValueId x = gm_graph_add_input (g, "x", &m);
  GmGraphBuilder b;
  gm_graph_builder_init (&b, g);
  b.where = "t.py:3";
  GmVal v =
      gm_b (&b.base, mul, gm_val_from_id (x), gm_b_scalar (&b.base, gm_scalar_float (3), GM_F32));
  v = gm_b_sum_to (&b.base, v, 1, (const int64_t[]){ 3 });
  ck_assert (!gm_b_failed (&b.base));
  gm_graph_add_output (g, gm_id_from_val (v), GM_OUTPUT_USER);
  ck_assert (gm_graph_verify (g, true, NULL));
  ck_assert_str_eq (gm_graph_node (g, 0)->where, "t.py:3");

  g_autoptr (GmTensor) in = gm_tensor_new_zeros (&m, NULL);
  for (int i = 0; i < 6; i++)
    ((float *) gm_tensor_data (in))[i] = (float) i;
  GmTensor *out = NULL;
  ck_assert (gm_graph_interpret (g, &in, &out, NULL));
  const float *y = gm_tensor_data (out);
  ck_assert (y[0] == 9 && y[1] == 15 && y[2] == 21);
  gm_tensor_unref (out);
  gm_graph_builder_clear (&b);
}
END_TEST

START_TEST (builder_errors_are_sticky)
{
  g_autoptr (GmGraph) g = gm_graph_new ("g", NULL);
  GmMeta a = f32 (1, 3, 0), c = f32 (1, 4, 0);
  GmVal x = gm_val_from_id (gm_graph_add_input (g, "x", &a)),
        z = gm_val_from_id (gm_graph_add_input (g, "z", &c));
  GmGraphBuilder b;
  gm_graph_builder_init (&b, g);
  ck_assert_ptr_null (gm_b (&b.base, add, x, z));
  g_autofree char *first = g_strdup (b.base.error->message);
  ck_assert_ptr_null (gm_b (&b.base, mul, x, x));
  ck_assert_str_eq (b.base.error->message, first);
  ck_assert_uint_eq (g->nodes->len, 0);
  gm_graph_builder_clear (&b);
}
END_TEST

START_TEST (builder_metas_survive_growth_and_truncation)
{
  g_autoptr (GmGraph) g = gm_graph_new ("g", NULL);
  GmMeta a = f32 (2, 2, 3);
  GmVal x = gm_val_from_id (gm_graph_add_input (g, "x", &a));
  GmGraphBuilder b;
  gm_graph_builder_init (&b, g);
  GmGraphMark mark = gm_graph_mark (g);
  GmVal y = gm_b_transpose (&b.base, x, 0, 1);
  const GmMeta *old = gm_b_meta (&b.base, y), copy = *old;
  for (int i = 0; i < 1000; i++)
    gm_b (&b.base, tanh, x);
  ck_assert_mem_eq (old, &copy, sizeof copy);
  gm_graph_truncate (g, &mark);
  GmVal other = gm_b (&b.base, tanh, x); /* takes y's id */
  ck_assert_ptr_eq (other, y);
  ck_assert_int_eq (gm_b_meta (&b.base, other)->sizes[0], 2);
  ck_assert_mem_eq (old, &copy, sizeof copy);
  gm_graph_builder_clear (&b);
}
END_TEST

START_TEST (builder_in_place_is_an_op_and_a_copy)
{
  g_autoptr (GmGraph) g = gm_graph_new ("g", NULL);
  GmMeta a = f32 (2, 2, 3);
  GmVal x = gm_val_from_id (gm_graph_add_input (g, "x", &a));
  GmGraphBuilder b;
  gm_graph_builder_init (&b, g);
  GmVal y = b.base.vt->into (&b.base, x, GM_OP_exp, &x, 1, NULL);
  ck_assert_ptr_nonnull (y);
  ck_assert_uint_eq (g->nodes->len, 2);
  ck_assert_int_eq (gm_graph_node (g, 1)->op, GM_OP_copy_);
  y = b.base.vt->into (&b.base, x, GM_OP_copy, &y, 1, NULL);
  ck_assert_uint_eq (g->nodes->len, 3);
  gm_graph_builder_clear (&b);

  /* Run: the input's memory is written. */
  g_autoptr (GmTensor) in = gm_tensor_new_zeros (&a, NULL);
  ck_assert (gm_graph_interpret (g, &in, NULL, NULL));
  for (int i = 0; i < 6; i++)
    ck_assert (((float *) gm_tensor_data (in))[i] == 1);
}
END_TEST

START_TEST (builder_draws_follow_each_other)
{
  g_autoptr (GmGraph) g = gm_graph_new ("g", NULL);
  GmGraphBuilder b;
  int64_t offset;
  gm_graph_builder_init (&b, g);
  ck_assert_ptr_null (b.base.vt->random (&b.base, 5, &offset));
  ck_assert (g_error_matches (b.base.error, GM_ERROR, GM_ERROR_UNSUPPORTED));
  gm_graph_builder_clear (&b);

  gm_graph_builder_init (&b, g);
  GmMeta state = gm_meta_make (GM_I64, 1, (const int64_t[]){ 2 });
  b.rng = gm_graph_add_input (g, "rng", &state);
  ck_assert_ptr_nonnull (b.base.vt->random (&b.base, 5, &offset));
  ck_assert_int_eq (offset, 0);
  b.base.vt->random (&b.base, 8, &offset);
  ck_assert_int_eq (offset, 2);
  ck_assert_uint_eq (b.rng_taken, 4);
  gm_graph_builder_clear (&b);
}
END_TEST

START_TEST (builder_has_no_numbers)
{
  g_autoptr (GmGraph) g = gm_graph_new ("g", NULL);
  GmMeta a = f32 (0, 0, 0);
  GmVal x = gm_val_from_id (gm_graph_add_input (g, "x", &a));
  GmGraphBuilder b;
  GmScalar s;
  gm_graph_builder_init (&b, g);
  ck_assert (!b.base.vt->item (&b.base, x, &s));
  ck_assert (g_error_matches (b.base.error, GM_ERROR, GM_ERROR_UNSUPPORTED));
  ck_assert_ptr_nonnull (strstr (b.base.error->message, "data-dependent"));
  gm_graph_builder_clear (&b);
}
END_TEST

/* -- The interpreter
 * --------------------------------------------------------------------------------------------- */

START_TEST (interpreter_binds_symbols)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) gs =
      gm_graph_parse ("g (%x: f32[n, 2], %y: f32[n*2, 2]) -> (%1) {\n"
                      "  %0 = view %x sizes=[n*2] : f32[n*2]\n"
                      "  %1 = expand %0 sizes=[3, n*2] : f32[3, n*2]{0, 1}\n}\n",
                      &error);
  ck_assert_msg (gs != NULL, "%s", error ? error->message : "");
  for (int64_t n = 1; n < 4; n++) {
    GmMeta mx = f32 (2, n, 2), my = f32 (2, 2 * n, 2);
    g_autoptr (GmTensor) x = gm_tensor_new_zeros (&mx, NULL), y = gm_tensor_new_zeros (&my, NULL);
    GmTensor *out = NULL, *in[] = { x, y };
    ck_assert (gm_graph_interpret (gs->pdata[0], in, &out, NULL));
    ck_assert_int_eq (out->meta.sizes[0], 3);
    ck_assert_int_eq (out->meta.sizes[1], 2 * n);
    gm_tensor_unref (out);
    in[1] = x; /* n rows where 2 n are needed */
    ck_assert (!gm_graph_interpret (gs->pdata[0], in, &out, NULL));
  }
}
END_TEST

START_TEST (interpreter_names_the_node_that_fails)
{
  g_autoptr (GPtrArray) gs = gm_graph_parse (
      "g (%x: f32[4], %i: i64[2]) -> (%0) {\n  %0 = index_select %x %i dim=0  # t.py:9\n}\n", NULL);
  ck_assert_ptr_nonnull (gs);
  GmMeta mx = f32 (1, 4, 0), mi = gm_meta_make (GM_I64, 1, (const int64_t[]){ 2 });
  g_autoptr (GmTensor) x = gm_tensor_new_zeros (&mx, NULL), i = gm_tensor_new_zeros (&mi, NULL);
  ((int64_t *) gm_tensor_data (i))[1] = 7;
  GmTensor *out = NULL, *in[] = { x, i };
  g_autoptr (GError) error = NULL;
  ck_assert (!gm_graph_interpret (gs->pdata[0], in, &out, &error));
  ck_assert_ptr_nonnull (strstr (error->message, "%0 from t.py:9"));
}
END_TEST

START_TEST (random_graphs_verify_and_run)
{
  uint32_t seen[GM_N_OPS] = { 0 };
  for (uint64_t seed = 0; seed < 1500; seed++) {
    GmRandomGraph o = { .seed = seed, .strided = seed % 2, .grad = seed % 3 == 0 };
    g_autoptr (GError) error = NULL;
    g_autoptr (GmGraph) g = gm_random_graph (&o, NULL);
    ck_assert_msg (gm_graph_verify (g, true, &error), "seed %d: %s", (int) seed,
                   error ? error->message : "");
    for (uint32_t i = 0; i < g->nodes->len; i++)
      seen[gm_graph_node (g, i)->op]++;
    g_autofree GmTensor **in = g_new0 (GmTensor *, g->inputs->len + 1),
                        **out = g_new0 (GmTensor *, g->outputs->len + 1);
    gm_random_inputs (g, seed, seed % 2 ? GM_RANDOM_WILD : GM_RANDOM_TAME, in);
    bool ok = gm_graph_interpret (g, in, out, &error);
    ck_assert_msg (ok, "seed %d: %s", (int) seed, error ? error->message : "");
    for (uint32_t i = 0; i < g->outputs->len; i++) { /* a fake tensor and a real one agree */
      GmMeta said = *gm_graph_meta (g, g_array_index (g->outputs, GmGraphOutput, i).value),
             is = out[i]->meta;
      said.requires_grad = is.requires_grad = 0;
      ck_assert_msg (!memcmp (&said, &is, sizeof is), "seed %d, output %u", (int) seed, i);
      gm_tensor_unref (out[i]);
    }
    for (uint32_t i = 0; i < g->inputs->len; i++)
      gm_tensor_unref (in[i]);
  }
  for (int op = 1; op < GM_N_OPS; op++)
    if (gm_ops[op].name && gm_ops[op].family < GM_FAMILY_MUTATE && op != GM_OP_data)
      ck_assert_msg (seen[op] >= 20, "%s came %u times", gm_ops[op].name, seen[op]);
}
END_TEST

int
main (void)
{
  Suite *suite = suite_create ("graph");
  TCase *t = tcase_create ("graph");
  tcase_set_timeout (t, 120);
  tcase_add_test (t, truncation_restores_the_text);
  tcase_add_test (t, operands_that_do_not_fit_append_nothing);
  tcase_add_test (t, one_tensor_is_one_constant);
  tcase_add_test (t, builder_records_programs);
  tcase_add_test (t, builder_errors_are_sticky);
  tcase_add_test (t, builder_metas_survive_growth_and_truncation);
  tcase_add_test (t, builder_in_place_is_an_op_and_a_copy);
  tcase_add_test (t, builder_draws_follow_each_other);
  tcase_add_test (t, builder_has_no_numbers);
  tcase_add_test (t, interpreter_binds_symbols);
  tcase_add_test (t, interpreter_names_the_node_that_fails);
  tcase_add_test (t, random_graphs_verify_and_run);
  suite_add_tcase (suite, t);
  SRunner *sr = srunner_create (suite);
  srunner_run_all (sr, CK_NORMAL);
  int failures = srunner_ntests_failed (sr);
  srunner_free (sr);
  return failures ? 1 : 0;
}
