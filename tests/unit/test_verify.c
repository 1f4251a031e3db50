/* SPDX-License-Identifier: Apache-2.0
 * The verifier: a corpus of broken graphs, at least one for each of its rules; each is refused by
 * the rule's name, and the message names the node and the error.
 */
#include <check.h>
#include <string.h>

#include "core/graph/higher.h"
#include "core/graph/rules.h"

/* Returns a sound graph: %0 = tanh %x; %1 = add %0 %x; %2 = sum %1; %3 = constant. */
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
  GmOp none = GM_OP_NONE + 1;
  while (gm_ops[none].name) /* the first code without a row */
    none++;
  gm_graph_node (g, 0)->op = none;
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
break_in_place (GmGraph *g)
{
  gm_graph_node (g, 0)->tag = GM_TAG_IN_PLACE;
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

static void
break_number (GmGraph *g)
{
  gm_graph_meta (g, 0)->sizes[0] = gm_sym_const (gm_graph_sym (g), gm_size_from_row (1));
}
static void
set_alias (GmGraph *g, GmValueId v, GmGraphAlias a)
{
  gm_graph_set_alias (g, v, &a);
}
static void
break_same_alone (GmGraph *g)
{
  set_alias (g, 1, (GmGraphAlias){ .same = 0, .shares = 0, .base = GM_NO_ID });
}
static void
break_same_first (GmGraph *g)
{
  set_alias (g, 1, (GmGraphAlias){ .same = 0, .shares = GM_NO_ID, .base = GM_NO_ID });
  set_alias (g, 2, (GmGraphAlias){ .same = 1, .shares = GM_NO_ID, .base = GM_NO_ID });
}
static void
break_same_type (GmGraph *g)
{
  set_alias (g, 3, (GmGraphAlias){ .same = 0, .shares = GM_NO_ID, .base = GM_NO_ID });
}
static void
break_leaf (GmGraph *g)
{
  set_alias (
      g, 1, (GmGraphAlias){ .same = GM_NO_ID, .shares = GM_NO_ID, .base = GM_NO_ID, .leaf = true });
}
static void
break_one_base (GmGraph *g)
{
  set_alias (g, 1, (GmGraphAlias){ .same = GM_NO_ID, .shares = 2, .base = 0 });
}
static void
break_in_base (GmGraph *g)
{
  set_alias (g, 1,
             (GmGraphAlias){ .same = GM_NO_ID,
                             .shares = GM_NO_ID,
                             .base = GM_NO_ID,
                             .has_base_meta = true,
                             .base_meta = *gm_graph_meta (g, 1),
                             .base_offset = -1 });
}
static void
break_open (GmGraph *g)
{
  gm_graph_meta (g, 2)->sizes[0] = gm_graph_meta (g, 0)->sizes[0]; /* n instead of m */
}

/* Adds %0 = custom %r %x %c, whose gradient is `mul grad c`. */
static void
add_custom (GmGraph *g, uint32_t n_in, int64_t dim, bool sound)
{
  GmMeta m = *gm_graph_meta (g, 0);
  GmGraph *backward = gm_graph_new ("backward", NULL);
  GmValueId in[] = { gm_graph_add_input (backward, "g", &m),
                     gm_graph_add_input (backward, "c", &m) };
  GmValueId v = gm_graph_add_node (backward, GM_OP_mul, in, 2, NULL, NULL, NULL);
  gm_graph_add_output (backward, v, GM_OUTPUT_GRAD);
  if (!sound)
    gm_graph_meta (backward, v)->sizes[0]++;
  GmAttrs a = { .mask = 1u << GM_ATTR_OFFSET | 1u << GM_ATTR_DIM,
                .offset = gm_graph_add_custom (g, backward),
                .dim = dim };
  v = gm_graph_add_known (g, GM_OP_custom, (GmValueId[]){ 0, 1, 2 }, (int) n_in, &a, NULL, &m);
  gm_graph_add_output (g, v, GM_OUTPUT_USER);
}
static void
break_custom_operands (GmGraph *g)
{
  add_custom (g, 1, 0, true);
}
static void
break_custom_dim (GmGraph *g)
{
  add_custom (g, 3, 1, true);
}
static void
break_custom_body (GmGraph *g)
{
  add_custom (g, 3, 0, false);
}
static void
break_higher_row (GmGraph *g)
{
  ((GmAttrs *) gm_graph_node (g, 0)->attrs)->offset = 1;
}
static void
break_higher_op (GmGraph *g)
{
  ((GmHigher *) g->highers->pdata[0])->op = GM_OP_scan;
}
static void
break_higher_fits (GmGraph *g)
{
  ((GmValueId *) gm_graph_node (g, 0)->in)[1] = 2;
}
static void
break_higher_result (GmGraph *g)
{
  ((GmAttrs *) gm_graph_node (g, 0)->attrs)->dim = 1;
}
static void
break_higher_type (GmGraph *g)
{
  gm_graph_meta (g, 3)->dtype = GM_F64;
}
static void
break_higher_body (GmGraph *g)
{
  GmHigher *h = g->highers->pdata[0];
  gm_graph_node (h->bodies[1], 0)->tag = GM_N_TAGS;
}

#define INPUTS "g (%a: f32[4], %b: f32[4], %c: f32[4], %d: f32[3]) -> () { }"
#define COND                                                                                       \
  "g (%p: b1[], %x: f32[4], %y: f32[3]) -> (%0) {\n  higher 0 = cond t (%x: f32[4]) -> (%0) {\n  " \
  "  %0 "                                                                                          \
  "= sin %x\n  } e (%x: f32[4]) -> (%0) {\n    %0 = cos %x\n  }\n  %0 = cond %p %x dim=0 "         \
  "offset=0\n}\n"

typedef struct {
  GmRule rule;
  const char *text;            /* NULL: sound () */
  void (*breaks) (GmGraph *g); /* NULL: the text itself is broken */
  const char *says;
} Broken;

/* clang-format off */
static const Broken corpus[] = {
  { GM_RULE_OP, NULL, break_op, "node %0 (?) from t.py:4: there is no op" },
  { GM_RULE_ARITY, NULL, break_arity, "node %0 (tanh) from t.py:4: 2 operands" },
  { GM_RULE_OPERAND_ORDER, NULL, break_order, "operand 0 is made by node 1, which comes later" },
  { GM_RULE_OPERAND_EXISTS, NULL, break_range, "operand 0 is value 99 of 5" },
  { GM_RULE_RESULT_TYPE, NULL, break_shape, "node %0 (tanh)" },
  { GM_RULE_RESULT_TYPE, NULL, break_strides, "with strides" },
  { GM_RULE_RESULT_TYPE, NULL, break_dtype, "f64" },
  { GM_RULE_DTYPE, NULL, break_dead_dtype, "dtype" },
  { GM_RULE_UNUSED_DIMENSION, NULL, break_unused, "unused dimension 5" },
  { GM_RULE_ATTRIBUTE_MISSING, NULL, break_attr, "node %2 (sum): the attribute keepdim is missing" },
  { GM_RULE_ATTRIBUTE_FOREIGN, NULL, break_extra, "the op has no attribute step" },
  { GM_RULE_OPERANDS_FIT, NULL, break_dim, "node %2 (sum)" },
  { GM_RULE_RESULT_MAKER, NULL, break_maker, "node %0 (tanh)" },
  { GM_RULE_RESULT_MAKER, NULL, break_result, "which does not name it as its maker" },
  { GM_RULE_RESULT_GRAD, NULL, break_grad, "requires grad" },
  { GM_RULE_CONSTANT_ROW, NULL, break_row, "row 1 of 1 constants" },
  { GM_RULE_SIZE_ROW, NULL, break_symbol, "size expressions" },
  { GM_RULE_SIZE_NEGATIVE, NULL, break_negative, "the size -1 is negative" },
  { GM_RULE_OUTPUT_EXISTS, NULL, break_output, "output 0 is value 50" },
  { GM_RULE_OUTPUT_KIND, NULL, break_kind, "kind 7" },
  { GM_RULE_INPUT_UNMADE, NULL, break_input, "a node makes" },
  { GM_RULE_VALUE_COUNT, NULL, break_no_input, "5 values for 0 inputs" },
  { GM_RULE_DEVICE, NULL, break_device, "device 9" },
  { GM_RULE_DIMENSIONS, NULL, break_ndim, "dimensions" },
  { GM_RULE_GRAD_DTYPE, NULL, break_int_grad, "a tensor of dtype i64 cannot require grad" },
  { GM_RULE_INPUT_ONCE, NULL, break_input_twice, "is one already" },
  { GM_RULE_INPUT_EXISTS, NULL, break_input_range, "which does not exist" },
  { GM_RULE_INPUT_COUNT, NULL, break_unmade, "1 inputs, but 2 values that no node makes" },
  { GM_RULE_ATTRIBUTE_KEY, NULL, break_keys, "attributes with unknown keys" },
  { GM_RULE_ATTRIBUTE_LIST, NULL, break_list, "a list of" },
  { GM_RULE_CONSTANT_TYPE, NULL, break_constant, "its type is not that of the constant" },
  { GM_RULE_TAG, NULL, break_tag, "there is no tag" },
  { GM_RULE_IN_PLACE, NULL, break_in_place, "writes nothing" },
  { GM_RULE_CUSTOM_ROW, NULL, break_custom, "the graph has no gradient for it" },
  { GM_RULE_ALIAS_OTHER, NULL, break_alias, "input 0 (x)" },
  { GM_RULE_SIZE_NUMBER, NULL, break_number, "a size that is the number" },
  { GM_RULE_ALIAS_SAME_ALONE, INPUTS, break_same_alone, "input 1 (b) is another input and has memory of its own" },
  { GM_RULE_ALIAS_SAME_FIRST, INPUTS, break_same_first, "input 2 (c) is an input that is itself another one" },
  { GM_RULE_ALIAS_SAME_TYPE, INPUTS, break_same_type, "input 3 (d) is another input, but of another type" },
  { GM_RULE_ALIAS_LEAF, INPUTS, break_leaf, "input 1 (b) is a leaf of the gradient" },
  { GM_RULE_ALIAS_ONE_BASE, INPUTS, break_one_base, "input 1 (b) has two bases" },
  { GM_RULE_ALIAS_IN_BASE, INPUTS, break_in_base, "input 1 (b) does not lie in its base" },
  { GM_RULE_FUNCTIONAL, "g (%x: f32[2], %y: f32[2]) -> (%0) {\n  %0 = copy_ %x %y\n}\n", NULL, "node %0 (copy_): a write in place" },
  { GM_RULE_OPEN_SIZES, "g (%x: f32[n, 2], %y: f32[m]) -> (%0) {\n  %0 = view %x sizes=[m] : f32[m]\n}\n", break_open, "the result has other sizes than the attribute" },
  { GM_RULE_OPEN_OPERAND, "g (%x: f32[n, 2], %y: f32[m, 2]) -> (%0) {\n  %0 = add %x %y : f32[n, 2]\n}\n", NULL, "dimension 0 of operand 1" },
  { GM_RULE_CUSTOM_OPERANDS, INPUTS, break_custom_operands, "node %0 (custom): 1 operands do not fit its gradient" },
  { GM_RULE_CUSTOM_OPERANDS, INPUTS, break_custom_dim, "node %0 (custom): 3 operands do not fit its gradient" },
  { GM_RULE_CUSTOM_BODY, INPUTS, break_custom_body, "in its gradient: graph 'backward', node %0 (mul)" },
  { GM_RULE_HIGHER_ROW, COND, break_higher_row, "node %0 (cond): the graph has no row for it" },
  { GM_RULE_HIGHER_ROW, COND, break_higher_op, "node %0 (cond): the graph has no row for it" },
  { GM_RULE_HIGHER_FITS, COND, break_higher_fits, "node %0 (cond)" },
  { GM_RULE_HIGHER_RESULT, COND, break_higher_result, "result 1 of 1" },
  { GM_RULE_HIGHER_TYPE, COND, break_higher_type, "the result is not what its bodies give" },
  { GM_RULE_HIGHER_BODY, COND, break_higher_body, "in a body: graph 'e', node %0 (cos): there is no tag" },
  { GM_RULE_HISTORY_LAST, "g (%x: f32[2] requires_grad) -> (history %0, %1) {\n  %0 = tanh %x\n  %1 = sin %x\n}", NULL, "output 1 comes after a history" },
  { GM_RULE_HISTORY_GRAD, "g (%x: f32[2]) -> (history %0) {\n  %0 = tanh %x\n}", NULL, "output 0 is the history of what does not require grad" },
  { GM_RULE_NAME_OPERAND, "g (%x: f32[2, 3]) -> (%2) {\n  %0 = permute %x dims=[1, 0]\n  %1 = set_ %x %0\n  %2 = tanh %x\n}", NULL, "operand 0 names a tensor that set_ has changed" },
  { GM_RULE_NAME_OUTPUT, "g (%x: f32[2, 3]) -> (%x) {\n  %0 = permute %x dims=[1, 0]\n  %1 = set_ %x %0\n}", NULL, "output 0 names a tensor that set_ has changed" },
  { GM_RULE_PART_OUTPUT_MADE, "g (%x: f32[2]) -> (%x) { }", NULL, "output 0 is an input" },
  { GM_RULE_PART_OUTPUT_OWNS, "g (%x: f32[2, 3]) -> (%0) {\n  %0 = permute %x dims=[1, 0]\n}", NULL, "output 0 is a permute" },
  { GM_RULE_PART_OUTPUT_OWNS, "g () -> (%0) {\n  const 0 : f32[1] = [1.0]\n  %0 = constant offset=0 : f32[1]\n}", NULL, "output 0 is a constant" },
  { GM_RULE_PART_OUTPUT_ONCE, "g (%x: f32[2]) -> (%0, %1, %0) {\n  %0 = tanh %x\n  %1 = sin %x\n}", NULL, "outputs 0 and 2 are one value" },
};
/* clang-format on */

static GmGraph *
graph_of (const char *text)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) gs = gm_graph_parse (text, &error);
  ck_assert_msg (gs != NULL, "%s\n%s", error ? error->message : "", text);
  return g_ptr_array_steal_index (gs, 0);
}

/* Verifies a graph for a rule.  The rules about the parts that a back end gets are checked alone,
 * and only rules about names apply to graphs that are not functional yet. */
static bool
verify (GmRule rule, const GmGraph *g, GError **error)
{
  bool part = rule >= GM_RULE_PART_OUTPUT_MADE,
       names = rule == GM_RULE_NAME_OPERAND || rule == GM_RULE_NAME_OUTPUT;
  return gm_graph_verify (g, !names, error) && (!part || gm_graph_verify_outputs (g, error));
}

START_TEST (broken_graphs_are_refused_by_the_name_of_the_rule)
{
  const Broken *c = &corpus[_i];
  g_autoptr (GError) error = NULL;
  g_autoptr (GmGraph) g = c->text ? graph_of (c->text) : sound ();
  g_autofree char *name = g_strdup_printf (" [%s]", gm_rules[c->rule].name);

  if (c->breaks) {
    ck_assert_msg (verify (c->rule, g, &error), "%s", error ? error->message : "");
    c->breaks (g);
  }
  ck_assert_msg (!verify (c->rule, g, &error), "%s: %s", name, c->says);
  ck_assert_msg (strstr (error->message, c->says) && g_str_has_suffix (error->message, name),
                 "%s\nwanted: %s%s", error->message, c->says, name);
  g_autofree char *text = gm_graph_text (g); /* a broken graph can still be printed */
  ck_assert_ptr_nonnull (text);
}
END_TEST

START_TEST (each_rule_has_a_broken_graph_and_a_name_of_its_own)
{
  for (int rule = GM_RULE_NONE + 1; rule < GM_N_RULES; rule++) {
    bool found = false;
    for (size_t i = 0; i < G_N_ELEMENTS (corpus); i++)
      found |= corpus[i].rule == (GmRule) rule;
    ck_assert_msg (found, "no broken graph for the rule %s (%s)", gm_rules[rule].name,
                   gm_rules[rule].what);
    for (int k = GM_RULE_NONE + 1; k < rule; k++)
      ck_assert_str_ne (gm_rules[rule].name, gm_rules[k].name);
  }
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
  tcase_add_loop_test (t, broken_graphs_are_refused_by_the_name_of_the_rule, 0,
                       G_N_ELEMENTS (corpus));
  tcase_add_test (t, each_rule_has_a_broken_graph_and_a_name_of_its_own);
  tcase_add_test (t, symbolic_sizes_are_what_was_asked_for);
  tcase_add_test (t, a_history_is_printed_and_read_back);
  suite_add_tcase (suite, t);
  SRunner *sr = srunner_create (suite);
  srunner_run_all (sr, CK_NORMAL);
  int failures = srunner_ntests_failed (sr);
  srunner_free (sr);
  return failures ? 1 : 0;
}
