/* SPDX-License-Identifier: Apache-2.0
 * Graph text: printing what was parsed gives the same text; errors name line and column; numbers
 * keep their bits.
 */
#include <check.h>
#include <math.h>
#include <string.h>

#include "core/base/error.h"
#include "core/graph/graph.h"
#include "core/graph/number_text.h"
#include "tests/fuzz/random_graph.h"

static char *
print_all (GPtrArray *gs)
{
  GString *s = g_string_new (NULL);
  for (guint i = 0; i < gs->len; i++) {
    g_autofree char *text = gm_graph_text (gs->pdata[i]);
    g_string_append (s, text);
  }
  return g_string_free (s, FALSE);
}

static void
same_after_parsing (const char *text)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) gs = gm_graph_parse (text, &error);
  ck_assert_msg (gs != NULL, "%s\n%s", error ? error->message : "", text);
  g_autofree char *again = print_all (gs);
  ck_assert_str_eq (text, again);
}

START_TEST (printed_text_parses_to_itself)
{
  same_after_parsing (
      "forward (%x: f32[n, 64], %w: f32[64, 10] requires_grad) -> (%1, saved %0, grad %x) {\n"
      "  %0 = matmul %x %w : f32[n, 10]  # train.py:12\n"
      "  %1 = sum %0 dims=[1] keepdim=true : f32[n, 1]\n"
      "}\n");
  same_after_parsing ("g () -> (%2, %4) {\n"
                      "  const 0 : f32[2, 2]{1, 2} = [1.0, -0.0, nan, inf]\n"
                      "  const 1 : b1[] = [true]\n"
                      "  const 2 : i64[0] = []\n"
                      "  const 3 : f32[3]{0} = [0.1, 0.1, 0.1]\n"
                      "  %0 = full sizes=[] dtype=f32 value=2.0 : f32[]\n"
                      "  %1 = constant offset=0 : f32[2, 2]{1, 2}\n"
                      "  %2 = add %1 %0 : f32[2, 2]{1, 2}\n"
                      "  %3 = arange sizes=[4] dtype=i64 value=0 value2=-3 : i64[4]\n"
                      "  %4 = constant offset=1 : b1[]\n"
                      "}\n"
                      "h (%a: f64[3, 2]{1, 3}, %b: i64[2]@cuda) -> () {\n"
                      "}\n");
  same_after_parsing ("g (%x: f32[m, n] requires_grad) -> (%1) {\n"
                      "  %0 = permute %x dims=[1, 0] : f32[n, m]{1, n}\n"
                      "  %1 = view %x sizes=[m*n] : f32[m*n] no_grad\n"
                      "}\n");
}
END_TEST

START_TEST (types_and_names_may_be_written_as_one_likes)
{
  g_autoptr (GPtrArray) gs =
      gm_graph_parse ("# a comment\n\n  g(%x:f32[2,3])->(%y){# another\n%t=permute %x dims=[1,0]\n"
                      "  # alone\n%y = tanh %t # here\n\n}\n#end",
                      NULL);
  ck_assert_ptr_nonnull (gs);
  g_autofree char *text = print_all (gs);
  ck_assert_str_eq (text,
                    "g (%x: f32[2, 3]) -> (%1) {\n  %0 = permute %x dims=[1, 0] : f32[3, 2]{1, 3}\n"
                    "  %1 = tanh %0 : f32[3, 2]{1, 3}  # here\n}\n");
}
END_TEST

START_TEST (errors_name_line_and_column)
{
  static const struct {
    const char *text, *where, *what;
  } cases[] = {
    { "", "line 1, column 1", "no graph" },
    { "g (%x: f32[2]) -> (%y) {\n}\n", "line 1, column 21", "%y" },
    { "g (%x: f33[2]) -> () {\n}\n", "line 1, column 8", "f33" },
    { "g (%x: f32[2], %x: f32[2]) -> () {\n}\n", "line 1, column 17", "taken" },
    { "g (%x: f32[2]) -> () {\n  %0 = tanhh %x\n}\n", "line 2, column 8", "tanhh" },
    { "g (%x: f32[2]) -> () {\n  %0 = add %x\n}\n", "line 2, column 8", "2 input" },
    { "g (%x: f32[2]) -> () {\n  %0 = tanh %x : f32[3]\n}\n", "line 2, column 8", "f32[2]" },
    { "g (%x: f32[2]) -> () {\n  %0 = tanh %x foo=3\n}\n", "line 2, column 16", "foo" },
    { "g (%x: f32[2]) -> () {\n  %0 = sum %x dims=[0] keepdim=maybe\n}\n", "line 2, column 32",
      "true or false" },
    { "g (%x: f32[2]) -> () {\n  %0 = sum %x dims=[0]\n}\n", "line 2, column 8", "keepdim" },
    { "g (%x: f32[2]) -> () {\n  %0 = tanh %x\n", "line 3, column 1", "ends inside" },
    { "g (%x: f32[2]) -> () {\n  %0 = tanh %x ]\n}", "line 2, column 16", "end of the line" },
    { "g (%x: f32[2, -1]) -> () {\n}", "line 1, column 15", "negative" },
    { "g (%x: f32[1,1,1,1,1,1,1,1,1]) -> () {\n}", "line 1, column 28", "8 dimensions" },
    { "g (%x: f32[4611686018427387904, 4]) -> () {\n}", "line 1", "63 bits" },
    { "g (%x: f32[n], %y: f32[m]) -> () {\n  %0 = add %x %y\n}", "line 2", "write its type" },
    { "g (%x: f32[n]) -> () where n > {\n}", "line 1, column 32", "a number, a name" },
    { "g (%x: f32[n]) -> () where n ~ 3 {\n}", "line 1, column 30", "expected '='" },
    { "g (%x: f32[n]) -> () where n = n {\n}", "line 1, column 28", "of one symbol" },
    { "g (%x: f32[n]) -> () where n < 3, n > 5 {\n}", "line 1, column 35", "contradicts" },
    { "g () -> () {\n  const 0 : f32[2] = [1.0, x]\n}", "line 2, column 28", "element 1 of 2" },
    { "g () -> () {\n  const 0 : i64[1] = [1.0]\n}", "line 2", "i64" },
    { "g () -> () {\n  const 0 : f32[99999] = ...\n}", "line 2", "left out" },
    { "g () -> () {\n  const 1 : f32[1] = [1.0]\n}", "line 2", "expected 0" },
    { "g () -> () {\n  %0 = constant offset=0\n}", "line 2", "offset" },
    { "g (%x: i64[2] requires_grad) -> () {\n}", "line 1", "floating" },
  };
  for (size_t i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autoptr (GError) error = NULL;
    ck_assert_msg (!gm_graph_parse (cases[i].text, &error), "%s", cases[i].text);
    ck_assert (g_error_matches (error, GM_ERROR, GM_ERROR_VALUE));
    ck_assert_msg (strstr (error->message, cases[i].where)
                       && strstr (error->message, cases[i].what),
                   "%s\ngives: %s\nwanted: %s, %s", cases[i].text, error->message, cases[i].where,
                   cases[i].what);
  }
}
END_TEST

START_TEST (odd_names_are_mended)
{
  g_autoptr (GmGraph) g = gm_graph_new ("a graph", NULL);
  GmMeta m = gm_meta_make (GM_F32, 0, NULL);
  static const char *const names[] = { "L['x']", NULL, "", "x", "x", "3", "self.w", "é" };
  for (size_t i = 0; i < G_N_ELEMENTS (names); i++)
    gm_graph_add_input (g, names[i], &m);
  g_autofree char *text = gm_graph_text (g);
  ck_assert_str_eq (text, "a_graph (%L_x: f32[], %in: f32[], %in_2: f32[], %x: f32[], %x_4: f32[], "
                          "%_3: f32[], %self.w: f32[], "
                          "%in_7: f32[]) -> () {\n}\n");
  same_after_parsing (text);
}
END_TEST

START_TEST (floats_keep_their_bits)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (3);
  for (int i = 0; i < 100000; i++) {
    uint64_t bits = (uint64_t) g_rand_int (rand) << 32 | g_rand_int (rand), back = 0;
    uint32_t narrow = (uint32_t) bits, narrow_back = 0;
    g_autoptr (GString) s = g_string_new (NULL);
    gm_text_element (s, GM_F64, &bits);
    const char *at = s->str;
    ck_assert (gm_text_read_element (&at, GM_F64, &back) && !*at);
    ck_assert_msg (back == bits, "%s", s->str);
    g_string_truncate (s, 0);
    gm_text_element (s, GM_F32, &narrow);
    at = s->str;
    ck_assert (gm_text_read_element (&at, GM_F32, &narrow_back) && !*at);
    ck_assert_msg (narrow == narrow_back, "%s", s->str);
  }
  static const struct {
    double value;
    const char *text;
  } cases[] = {
    { 0.1, "0.1" },      { 2, "2.0" },          { -0.0, "-0.0" }, { 1e30, "1e+30" },
    { INFINITY, "inf" }, { -INFINITY, "-inf" }, { NAN, "nan" },
  };
  for (size_t i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autoptr (GString) s = g_string_new (NULL);
    gm_text_scalar (s, gm_scalar_float (cases[i].value));
    ck_assert_str_eq (s->str, cases[i].text);
  }
}
END_TEST

START_TEST (every_small_float_keeps_its_bits)
{
  static const GmDtype small[] = { GM_F16, GM_BF16, GM_F8E4M3, GM_F8E5M2 };
  GString *s = g_string_new (NULL);
  for (size_t k = 0; k < G_N_ELEMENTS (small); k++)
    for (uint32_t code = 0; code < 1u << gm_dtypes[small[k]].bits; code++) {
      uint32_t back = 0;
      g_string_truncate (s, 0);
      gm_text_element (s, small[k], &code);
      const char *text = s->str;
      if (!gm_text_read_element (&text, small[k], &back) || *text || back != code)
        ck_abort_msg ("%s: %x is printed as %s and read as %x", gm_dtypes[small[k]].text, code,
                      s->str, back);
    }
  g_string_free (s, TRUE);
}
END_TEST

START_TEST (random_graphs_survive_their_text)
{
  for (uint64_t seed = 0; seed < 500; seed++) {
    GmRandomGraph o = { .seed = seed, .strided = seed % 2, .grad = seed % 3 == 0 };
    g_autoptr (GmGraph) g = gm_random_graph (&o, NULL);
    for (uint32_t v = 0; v < g->values->len; v += 5) /* recorded where gradients were off */
      gm_graph_meta (g, v)->requires_grad = 0;
    g_autofree char *text = gm_graph_text (g);
    same_after_parsing (text);
    g_autoptr (GPtrArray) gs = gm_graph_parse (text, NULL);
    ck_assert_uint_eq (gm_graph_hash (g), gm_graph_hash (gs->pdata[0]));
  }
}
END_TEST

/* Any bytes are parsed or refused. */
START_TEST (mutated_text_never_crashes)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (5);
  int parsed = 0;
  for (uint64_t seed = 0; seed < 200; seed++) {
    GmRandomGraph o = { .seed = seed, .n_nodes = 8 };
    g_autoptr (GmGraph) g = gm_random_graph (&o, NULL);
    g_autofree char *text = gm_graph_text (g);
    size_t n = strlen (text);
    for (int k = 0; k < 100; k++) {
      g_autofree char *copy = g_strdup (text);
      for (int m = g_rand_int_range (rand, 1, 4); m > 0; m--)
        copy[g_rand_int_range (rand, 0, (gint32) n)] =
            "%[]{}(),:=->#\n 0123456789xnfi.\0e"[g_rand_int_range (rand, 0, 33)];
      g_autoptr (GError) error = NULL;
      g_autoptr (GPtrArray) gs = gm_graph_parse (copy, &error);
      ck_assert ((gs == NULL) == (error != NULL));
      if (!gs)
        continue;
      parsed++;
      for (guint i = 0; i < gs->len; i++) /* where a size became a name, the text was believed */
        ck_assert_msg (((GmGraph *) gs->pdata[i])->sym
                           || gm_graph_verify (gs->pdata[i], false, &error),
                       "%s\n%s", error->message, copy);
      g_autofree char *once = print_all (gs);
      same_after_parsing (once);
    }
  }
  ck_assert_int_gt (parsed, 100);
}
END_TEST

int
main (void)
{
  Suite *suite = suite_create ("print");
  TCase *t = tcase_create ("print");
  tcase_set_timeout (t, 120);
  tcase_add_test (t, printed_text_parses_to_itself);
  tcase_add_test (t, types_and_names_may_be_written_as_one_likes);
  tcase_add_test (t, errors_name_line_and_column);
  tcase_add_test (t, odd_names_are_mended);
  tcase_add_test (t, floats_keep_their_bits);
  tcase_add_test (t, every_small_float_keeps_its_bits);
  tcase_add_test (t, random_graphs_survive_their_text);
  tcase_add_test (t, mutated_text_never_crashes);
  suite_add_tcase (suite, t);
  SRunner *sr = srunner_create (suite);
  srunner_run_all (sr, CK_NORMAL);
  int failures = srunner_ntests_failed (sr);
  srunner_free (sr);
  return failures ? 1 : 0;
}
