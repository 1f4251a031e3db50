/* SPDX-License-Identifier: Apache-2.0
 * The verifier: each broken graph is refused, and the message names the node and what is wrong.
 */
#include <check.h>
#include <string.h>

#include "core/graph/graph.h"

/* %0 = tanh %x; %1 = add %0 %x; %2 = sum %1; %3 = constant */
static GmGraph *
sound (void)
{
  GmGraph *g = gm_graph_new ("g", NULL);
  GmMeta m = gm_meta_make (GM_F32, 2, (const int64_t[]){ 2, 3 });
  GmValueId x = gm_graph_add_input (g, "x", &m),
            y = gm_graph_add_node (g, GM_OP_tanh, &x, 1, NULL, "t.py:4", NULL);
  GmAttrs a = { .mask = 1u << GM_ATTR_DIMS | 1u << GM_ATTR_KEEPDIM, .n_list = 1, .list = { 1 } };
  y = gm_graph_add_node (g, GM_OP_add, (GmValueId[]){ y, x }, 2, NULL, NULL, NULL);
  y = gm_graph_add_node (g, GM_OP_sum, &y, 1, &a, NULL, NULL);
  g_autoptr (GmTensor) t = gm_tensor_new_scalar (gm_scalar_float (1), GM_F32, NULL);
  gm_graph_add_constant (g, t, NULL);
  gm_graph_add_output (g, y, GM_OUTPUT_USER);
  return g;
}

static void
break_op (GmGraph *g)
{
  gm_graph_node (g, 0)->op = (GmOp) 127;
}
static void
break_arity (GmGraph *g)
{
  gm_graph_node (g, 0)->n_in = 2;
}
static void
break_order (GmGraph *g)
{
  ((GmValueId *) gm_graph_node (g, 0)->in)[0] = 2;
}
static void
break_range (GmGraph *g)
{
  ((GmValueId *) gm_graph_node (g, 0)->in)[0] = 99;
}
static void
break_shape (GmGraph *g)
{
  gm_graph_meta (g, 1)->sizes[0] = 5;
}
static void
break_strides (GmGraph *g)
{
  gm_graph_meta (g, 1)->strides[0] = 1;
}
static void
break_dtype (GmGraph *g)
{
  gm_graph_meta (g, 1)->dtype = GM_F64;
}
static void
break_dead_dtype (GmGraph *g)
{
  gm_graph_meta (g, 1)->dtype = GM_N_DTYPES;
}
static void
break_unused (GmGraph *g)
{
  gm_graph_meta (g, 1)->sizes[5] = 1;
}
static void
break_attr (GmGraph *g)
{
  ((GmAttrs *) gm_graph_node (g, 2)->attrs)->mask = 1u << GM_ATTR_DIMS;
}
static void
break_extra (GmGraph *g)
{
  ((GmAttrs *) gm_graph_node (g, 2)->attrs)->mask |= 1u << GM_ATTR_STEP;
}
static void
break_dim (GmGraph *g)
{
  ((GmAttrs *) gm_graph_node (g, 2)->attrs)->list[0] = 2;
}
static void
break_maker (GmGraph *g)
{
  gm_graph_value (g, 1)->node = 2;
}
static void
break_result (GmGraph *g)
{
  gm_graph_node (g, 1)->out = 1;
}
static void
break_grad (GmGraph *g)
{
  gm_graph_meta (g, 1)->requires_grad = 1;
}
static void
break_row (GmGraph *g)
{
  ((GmAttrs *) gm_graph_node (g, 3)->attrs)->offset = 1;
}
static void
break_symbol (GmGraph *g)
{
  gm_graph_meta (g, 0)->sizes[0] = gm_size_from_row (0);
}
static void
break_negative (GmGraph *g)
{
  gm_graph_meta (g, 0)->sizes[0] = -1;
}
static void
break_output (GmGraph *g)
{
  g_array_index (g->outputs, GmGraphOutput, 0).value = 50;
}
static void
break_kind (GmGraph *g)
{
  g_array_index (g->outputs, GmGraphOutput, 0).kind = 7;
}
static void
break_input (GmGraph *g)
{
  g_array_index (g->inputs, GmValueId, 0) = 1;
}
static void
break_no_input (GmGraph *g)
{
  g_array_set_size (g->inputs, 0);
}
static void
break_device (GmGraph *g)
{
  gm_graph_meta (g, 1)->device = 9;
}

static void
break_ndim (GmGraph *g)
{
  gm_graph_meta (g, 1)->ndim = GM_MAX_DIMS + 1;
}
static void
break_int_grad (GmGraph *g)
{
  gm_graph_meta (g, 0)->dtype = GM_I64;
  gm_graph_meta (g, 0)->requires_grad = 1;
}
static void
break_input_twice (GmGraph *g)
{
  GmValueId x = 0;
  g_array_append_val (g->inputs, x);
  g_array_set_size (g->nodes, 3);
  gm_graph_value (g, 4)->node = GM_NO_ID;
}
static void
break_input_range (GmGraph *g)
{
  g_array_index (g->inputs, GmValueId, 0) = 77;
}
static void
break_unmade (GmGraph *g)
{
  gm_graph_value (g, 1)->node = GM_NO_ID;
}
static void
break_keys (GmGraph *g)
{
  ((GmAttrs *) gm_graph_node (g, 2)->attrs)->mask |= 1u << 31;
}
static void
break_list (GmGraph *g)
{
  ((GmAttrs *) gm_graph_node (g, 2)->attrs)->n_list = GM_MAX_DIMS + 1;
}
static void
break_constant (GmGraph *g)
{
  gm_graph_meta (g, 4)->dtype = GM_F64;
}
static void
break_tag (GmGraph *g)
{
  gm_graph_node (g, 0)->tag = GM_N_TAGS;
}
static void
break_custom (GmGraph *g)
{
  gm_graph_node (g, 1)->op = GM_OP_custom;
}
static void
break_alias (GmGraph *g)
{
  GmGraphAlias itself = { .same = GM_NO_ID, .shares = 0, .base = GM_NO_ID };
  gm_graph_set_alias (g, 0, &itself);
}

START_TEST (broken_graphs_are_refused)
{
  static const struct {
    void (*breaks) (GmGraph *g);
    const char *says;
  } cases[] = {
    { break_op, "node %0 (?) from t.py:4: there is no op" },
    { break_arity, "node %0 (tanh) from t.py:4: 2 operands" },
    { break_order, "operand 0 is made by node 1, which comes later" },
    { break_range, "operand 0 is value 99 of 5" },
    { break_shape, "node %0 (tanh)" },
    { break_strides, "with strides" },
    { break_dtype, "f64" },
    { break_dead_dtype, "dtype" },
    { break_unused, "unused dimension 5" },
    { break_attr, "node %2 (sum): the attribute keepdim is missing" },
    { break_extra, "the op has no attribute step" },
    { break_dim, "node %2 (sum)" },
    { break_maker, "node %0 (tanh)" },
    { break_result, "which does not name it as its maker" },
    { break_grad, "requires grad" },
    { break_row, "row 1 of 1 constants" },
    { break_symbol, "size expressions" },
    { break_negative, "the size -1 is negative" },
    { break_output, "output 0 is value 50" },
    { break_kind, "kind 7" },
    { break_input, "a node makes" },
    { break_no_input, "5 values for 0 inputs" },
    { break_device, "device 9" },
    { break_ndim, "dimensions" },
    { break_int_grad, "a tensor of dtype i64 cannot require grad" },
    { break_input_twice, "is one already" },
    { break_input_range, "which does not exist" },
    { break_unmade, "1 inputs, but 2 values that no node makes" },
    { break_keys, "attributes with unknown keys" },
    { break_list, "a list of" },
    { break_constant, "its type is not that of the constant" },
    { break_tag, "there is no tag" },
    { break_custom, "the graph has no gradient for it" },
    { break_alias, "input 0 (x)" },
  };
  for (size_t i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autoptr (GError) error = NULL;
    g_autoptr (GmGraph) g = sound ();
    ck_assert_msg (gm_graph_verify (g, true, &error), "%s", error ? error->message : "");
    cases[i].breaks (g);
    ck_assert_msg (!gm_graph_verify (g, true, &error), "%s", cases[i].says);
    ck_assert_msg (strstr (error->message, cases[i].says) != NULL, "%s\nwanted: %s", error->message,
                   cases[i].says);
    g_autofree char *text = gm_graph_text (g); /* a broken graph can still be looked at */
    ck_assert_ptr_nonnull (text);
  }
}
END_TEST

START_TEST (a_functional_graph_has_no_writes)
{
  g_autoptr (GPtrArray) gs =
      gm_graph_parse ("g (%x: f32[2], %y: f32[2]) -> (%0) {\n  %0 = copy_ %x %y\n}\n", NULL);
  g_autoptr (GError) error = NULL;
  ck_assert (gm_graph_verify (gs->pdata[0], false, NULL));
  ck_assert (!gm_graph_verify (gs->pdata[0], true, &error));
  ck_assert_ptr_nonnull (strstr (error->message, "write in place"));
}
END_TEST

START_TEST (symbolic_operands_have_the_rows_of_the_result)
{
  g_autoptr (GPtrArray) good = gm_graph_parse (
      "g (%x: f32[n, 2], %y: f32[2]) -> (%0) {\n  %0 = add %x %y : f32[n, 2]\n}\n", NULL);
  g_autoptr (GPtrArray) bad = gm_graph_parse (
      "g (%x: f32[n, 2], %y: f32[m, 2]) -> (%0) {\n  %0 = add %x %y : f32[n, 2]\n}\n", NULL);
  g_autoptr (GError) error = NULL;
  ck_assert (gm_graph_verify (good->pdata[0], true, NULL));
  ck_assert (!gm_graph_verify (bad->pdata[0], true, &error));
  ck_assert_ptr_nonnull (strstr (error->message, "dimension 0 of operand 1"));
}
END_TEST

START_TEST (symbolic_sizes_are_what_was_asked_for)
{
  g_autoptr (GPtrArray) gs = gm_graph_parse ("g (%x: f32[n, 2], %y: f32[m, 2]) -> (%0, %1) {\n"
                                             "  %0 = expand %x sizes=[n, 2]\n"
                                             "  %1 = add %x %y : f32[n, 2]\n}\n",
                                             NULL);
  g_autoptr (GError) error = NULL;
  ck_assert_ptr_nonnull (gs);
  GmGraph *g = gs->pdata[0];
  gm_graph_meta (g, 2)->sizes[0] = gm_graph_meta (g, 1)->sizes[0]; /* m instead of n */
  ck_assert (!gm_graph_verify (g, true, &error));
  ck_assert_ptr_nonnull (strstr (error->message, "the result should be f32[n, 2]"));
}
END_TEST

START_TEST (outputs_of_a_part_have_memory_of_their_own)
{
  static const struct {
    const char *text, *says;
  } cases[] = {
    { "g (%x: f32[2]) -> (%x) { }", "output 0 is an input" },
    { "g (%x: f32[2, 3]) -> (%0) {\n  %0 = permute %x dims=[1, 0]\n}", "output 0 is a permute" },
    { "g () -> (%0) {\n  const 0 : f32[1] = [1.0]\n  %0 = constant offset=0 : f32[1]\n}",
      "output 0 is a constant" },
    { "g (%x: f32[2]) -> (%0, %1, %0) {\n  %0 = tanh %x\n  %1 = sin %x\n}",
      "outputs 0 and 2 are one value" },
  };
  for (size_t i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autoptr (GError) error = NULL;
    g_autoptr (GPtrArray) gs = gm_graph_parse (cases[i].text, &error);
    ck_assert_msg (gs != NULL, "%s", error ? error->message : "");
    ck_assert (gm_graph_verify (gs->pdata[0], true, NULL));
    ck_assert (!gm_graph_verify_outputs (gs->pdata[0], &error));
    ck_assert_msg (strstr (error->message, cases[i].says) != NULL, "%s", error->message);
  }
}
END_TEST

START_TEST (older_names_of_a_tensor_that_set_changed_are_refused)
{
  static const struct {
    const char *text, *says;
  } cases[] = {
    { "g (%x: f32[2, 3]) -> (%2) {\n  %0 = permute %x dims=[1, 0]\n  %1 = set_ %x %0\n  %2 = tanh "
      "%x\n}",
      "operand 0 names a tensor that set_ has changed" },
    { "g (%x: f32[2, 3]) -> (%x) {\n  %0 = permute %x dims=[1, 0]\n  %1 = set_ %x %0\n}",
      "output 0 names a tensor that set_ has changed" },
  };
  for (size_t i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autoptr (GError) error = NULL;
    g_autoptr (GPtrArray) gs = gm_graph_parse (cases[i].text, &error);
    ck_assert_msg (gs != NULL, "%s", error ? error->message : "");
    ck_assert (!gm_graph_verify (gs->pdata[0], false, &error));
    ck_assert_msg (strstr (error->message, cases[i].says) != NULL, "%s", error->message);
  }
}
END_TEST

START_TEST (histories_come_last_and_are_part_of_a_gradient)
{
  static const struct {
    const char *text, *says;
  } cases[] = {
    { "g (%x: f32[2] requires_grad) -> (history %0, %1) {\n  %0 = tanh %x\n  %1 = sin %x\n}",
      "output 1 comes after a history" },
    { "g (%x: f32[2]) -> (history %0) {\n  %0 = tanh %x\n}",
      "output 0 is the history of what does not require grad" },
  };
  for (size_t i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autoptr (GError) error = NULL;
    g_autoptr (GPtrArray) gs = gm_graph_parse (cases[i].text, &error);
    ck_assert_msg (gs != NULL, "%s", error ? error->message : "");
    ck_assert (!gm_graph_verify (gs->pdata[0], false, &error));
    ck_assert_msg (strstr (error->message, cases[i].says) != NULL, "%s", error->message);
  }
}
END_TEST

START_TEST (a_history_is_printed_and_read_back)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) good = gm_graph_parse (
      "g (%x: f32[2] requires_grad) -> (%0, history %1) {\n  %0 = tanh %x\n  %1 = sin %x\n}", NULL);
  ck_assert (gm_graph_verify (good->pdata[0], true, &error));
  g_autofree char *text = gm_graph_text (good->pdata[0]);
  g_autoptr (GPtrArray) again = gm_graph_parse (text, NULL);
  g_autofree char *same = gm_graph_text (again->pdata[0]);
  ck_assert_str_eq (text, same);
  ck_assert_ptr_nonnull (strstr (text, "history %1"));
}
END_TEST

int
main (void)
{
  Suite *suite = suite_create ("verify");
  TCase *t = tcase_create ("verify");
  tcase_add_test (t, broken_graphs_are_refused);
  tcase_add_test (t, a_functional_graph_has_no_writes);
  tcase_add_test (t, symbolic_operands_have_the_rows_of_the_result);
  tcase_add_test (t, symbolic_sizes_are_what_was_asked_for);
  tcase_add_test (t, outputs_of_a_part_have_memory_of_their_own);
  tcase_add_test (t, older_names_of_a_tensor_that_set_changed_are_refused);
  tcase_add_test (t, histories_come_last_and_are_part_of_a_gradient);
  tcase_add_test (t, a_history_is_printed_and_read_back);
  suite_add_tcase (suite, t);
  SRunner *sr = srunner_create (suite);
  srunner_run_all (sr, CK_NORMAL);
  int failures = srunner_ntests_failed (sr);
  srunner_free (sr);
  return failures ? 1 : 0;
}
