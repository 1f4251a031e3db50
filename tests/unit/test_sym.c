/* SPDX-License-Identifier: Apache-2.0
 * Size expressions: consing, folding, text, evaluation compared with plain 64-bit arithmetic.
 */
#include <check.h>
#include <string.h>

#include "core/base/error.h"
#include "core/sym/sym.h"

static int64_t
parse (GmSym *s, const char *text)
{
  g_autoptr (GError) error = NULL;
  int64_t out = 0;
  const char *at = text;
  bool ok = gm_sym_parse (s, &at, &out, &error);
  ck_assert_msg (ok, "%s: %s", text, error ? error->message : "");
  ck_assert_str_eq (at, "");
  return out;
}

START_TEST (equal_expressions_are_one_row)
{
  g_autoptr (GmSym) s = gm_sym_new ();
  ck_assert_int_eq (parse (s, "n*2 + 1"), parse (s, "1 + 2*n"));
  ck_assert_int_eq (parse (s, "n + m"), parse (s, "m + n"));
  ck_assert_int_eq (parse (s, "min(n, m)"), parse (s, "min(m, n)"));
  ck_assert_int_ne (parse (s, "n//m"), parse (s, "m//n"));
  ck_assert_int_ne (parse (s, "n%m"), parse (s, "m%n"));
}
END_TEST

START_TEST (constants_fold)
{
  static const struct {
    const char *from, *to;
  } cases[] = {
    { "2 + 3*4", "14" },
    { "(2 + 3)*4", "20" },
    { "7//2", "3" },
    { "-7//2 + 10", "6" },
    { "-7%3", "2" },
    { "7%-3 + 5", "3" },
    { "n + 0", "n" },
    { "n*1", "n" },
    { "n*0", "0" },
    { "n//1", "n" },
    { "n%1", "0" },
    { "n + 1 + 2", "n + 3" },
    { "n*2*3", "n*6" },
    { "n + n", "n*2" },
    { "n*2 + n*3", "n*5" },
    { "n - n", "0" },
    { "min(n, n)", "n" },
    { "min(3, 4)", "3" },
    { "max(3, 4)", "4" },
    { "n + 3 - 3", "n" },
    { "n - 1", "n - 1" },
    { "(n + 1)*2", "(n + 1)*2" },
    { "n//(m + 1)", "n//(m + 1)" },
    { "max(n, m + 1)", "max(n, m + 1)" },
    { "n*(m*k)", "n*(k*m)" },
    { "n//m//k", "n//m//k" },
    { "n//(m//k)", "n//(m//k)" },
    { "m - n", "m + n*-1" },
  };
  for (size_t i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autoptr (GmSym) s = gm_sym_new ();
    g_autofree char *text = gm_sym_text (s, parse (s, cases[i].from));
    g_autoptr (GmSym) other = gm_sym_new ();
    g_autofree char *want = gm_sym_text (other, parse (other, cases[i].to));
    ck_assert_str_eq (text, want);
    g_autoptr (GmSym) again = gm_sym_new (); /* reading what was printed prints the same */
    g_autofree char *twice = gm_sym_text (again, parse (again, text));
    ck_assert_str_eq (text, twice);
  }
}
END_TEST

START_TEST (text_does_not_depend_on_the_order_in_which_symbols_were_made)
{
  g_autoptr (GmSym) s = gm_sym_new ();
  int64_t n = gm_sym_symbol (s, "n"), m = gm_sym_symbol (s, "m");
  g_autofree char *text = gm_sym_text (s, gm_sym_op (s, GM_SYM_ADD, n, m));
  ck_assert_str_eq (text, "m + n");
}
END_TEST

START_TEST (bad_text_is_an_error_at_its_place)
{
  static const struct {
    const char *text;
    int at;
  } cases[] = {
    { "", 0 },  { "n +", 3 }, { "(n", 2 }, { "min(n)", 5 }, { "99999999999999999999", 18 },
    { "*", 0 }, { "- n", 2 },
  };
  for (size_t i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autoptr (GmSym) s = gm_sym_new ();
    g_autoptr (GError) error = NULL;
    int64_t out;
    const char *at = cases[i].text;
    ck_assert (!gm_sym_parse (s, &at, &out, &error));
    ck_assert (g_error_matches (error, GM_ERROR, GM_ERROR_VALUE));
    ck_assert_int_eq (at - cases[i].text, cases[i].at);
  }
  g_autofree char *deep = g_strnfill (100000, '(');
  g_autoptr (GmSym) s = gm_sym_new ();
  const char *at = deep;
  int64_t out;
  ck_assert (!gm_sym_parse (s, &at, &out, NULL));
}
END_TEST

START_TEST (evaluation_reports_what_has_no_value)
{
  g_autoptr (GmSym) s = gm_sym_new ();
  int64_t q = parse (s, "n//m"), big = parse (s, "n*n"), out;
  g_autoptr (GError) error = NULL;
  ck_assert (!gm_sym_eval (s, q, (int64_t[]){ 1, 0 }, &out, &error));
  ck_assert_ptr_nonnull (strstr (error->message, "n//m"));
  ck_assert (!gm_sym_eval (s, big, (int64_t[]){ INT64_C (1) << 40, 1 }, &out, NULL));
  ck_assert (gm_sym_eval (s, q, (int64_t[]){ INT64_C (1) << 40, 2 }, &out,
                          NULL)); /* big is not needed for q */
  ck_assert_int_eq (out, INT64_C (1) << 39);
}
END_TEST

START_TEST (truncation_forgets_rows_and_symbols)
{
  g_autoptr (GmSym) s = gm_sym_new ();
  int64_t before = parse (s, "n + 1");
  uint32_t rows = gm_sym_n_rows (s);
  for (int i = 0; i < 100; i++) {
    g_autofree char *name = g_strdup_printf ("m%d", i);
    gm_sym_op (s, GM_SYM_MUL, before, gm_sym_symbol (s, name));
  }
  gm_sym_truncate (s, rows);
  ck_assert_uint_eq (gm_sym_n_rows (s), rows);
  ck_assert_uint_eq (gm_sym_n_symbols (s), 1);
  ck_assert_int_eq (parse (s, "1 + n"), before);
  ck_assert_int_eq (parse (s, "k"), gm_size_from_row (rows));
}
END_TEST

START_TEST (facts_only_narrow)
{
  g_autoptr (GmSym) s = gm_sym_new ();
  int64_t n = gm_sym_symbol (s, "n");
  ck_assert (gm_sym_assume (s, n, 2, 100, 4));
  ck_assert (gm_sym_assume (s, n, 0, 50, 8));
  ck_assert (!gm_sym_assume (s, n, 60, 70, 1));
  const GmSymRow *r = gm_sym_row (s, gm_size_row (n));
  ck_assert_int_eq (r->min, 2);
  ck_assert_int_eq (r->max, 50);
  ck_assert_int_eq (r->multiple_of, 8);
}
END_TEST

/* Random expressions are also computed in __int128, and must agree wherever that fits and
 * divides. */
START_TEST (random_expressions_equal_plain_arithmetic)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (7);
  for (int round = 0; round < 2000; round++) {
    g_autoptr (GmSym) s = gm_sym_new ();
    int64_t sizes[24], values[24], symbols[3];
    static const char *const names[] = { "p", "a", "z" };
    for (int i = 0; i < 3; i++) {
      symbols[i] = values[i] = g_rand_int_range (rand, 0, 20);
      sizes[i] = gm_sym_symbol (s, names[i]);
    }
    for (int i = 3; i < 8; i++) {
      values[i] = g_rand_int_range (rand, -5, 6);
      sizes[i] = gm_sym_const (s, values[i]);
    }
    for (int i = 8; i < 24; i++) {
      int a = g_rand_int_range (rand, 0, i), b = g_rand_int_range (rand, 0, i);
      GmSymKind kind = (GmSymKind) g_rand_int_range (rand, GM_SYM_ADD, GM_N_SYM_KINDS);
      __int128 x = values[a], y = values[b], z = 0;
      bool defined = true;
      switch (kind) {
      case GM_SYM_ADD:
        z = x + y;
        break;
      case GM_SYM_MUL:
        z = x * y;
        break;
      case GM_SYM_MIN:
        z = x < y ? x : y;
        break;
      case GM_SYM_MAX:
        z = x > y ? x : y;
        break;
      default:
        defined = y != 0;
        if (defined) {
          __int128 q = x / y, m = x % y;
          if (m && (m < 0) != (y < 0)) {
            q--;
            m += y;
          }
          z = kind == GM_SYM_MOD ? m : q;
        }
      }
      if (!defined || z > 1000000 || z < -1000000) {
        sizes[i] = 7;
        values[i] = 7;
        continue;
      }
      sizes[i] = gm_sym_op (s, kind, sizes[a], sizes[b]);
      values[i] = (int64_t) z;
      int64_t out;
      ck_assert (gm_sym_eval (s, sizes[i], symbols, &out, NULL));
      ck_assert_int_eq (out, values[i]);
      /* The text has the same meaning. */
      g_autofree char *text = gm_sym_text (s, sizes[i]);
      ck_assert_int_eq (parse (s, text), sizes[i]);
    }
  }
}
END_TEST

int
main (void)
{
  Suite *suite = suite_create ("sym");
  TCase *t = tcase_create ("sym");
  tcase_set_timeout (t, 60);
  tcase_add_test (t, equal_expressions_are_one_row);
  tcase_add_test (t, constants_fold);
  tcase_add_test (t, text_does_not_depend_on_the_order_in_which_symbols_were_made);
  tcase_add_test (t, bad_text_is_an_error_at_its_place);
  tcase_add_test (t, evaluation_reports_what_has_no_value);
  tcase_add_test (t, truncation_forgets_rows_and_symbols);
  tcase_add_test (t, facts_only_narrow);
  tcase_add_test (t, random_expressions_equal_plain_arithmetic);
  suite_add_tcase (suite, t);
  SRunner *sr = srunner_create (suite);
  srunner_run_all (sr, CK_NORMAL);
  int failures = srunner_ntests_failed (sr);
  srunner_free (sr);
  return failures ? 1 : 0;
}
