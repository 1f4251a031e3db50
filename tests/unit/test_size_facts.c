/* SPDX-License-Identifier: Apache-2.0
 * Questions about sizes: written by hand where an answer is expected, and random ones compared with
 * all values of small symbols, where no answer may be wrong.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/sym/size_facts.h"

static int64_t
parse (GmSym *s, const char *text)
{
  g_autoptr (GError) error = NULL;
  int64_t out = 0;
  const char *at = text;
  ck_assert_msg (gm_sym_parse (s, &at, &out, &error), "%s: %s", text, error ? error->message : "");
  ck_assert_str_eq (at, "");
  return out;
}

/* Parses "a == b" and the like; a and b contain no relations. */
static GmSizeFact
parse_fact (GmSym *s, const char *text)
{
  static const struct {
    const char *sign;
    GmRel rel;
    bool swap;
  } signs[] = { { " == ", GM_REL_EQ, false }, { " != ", GM_REL_NE, false },
                { " <= ", GM_REL_LE, false }, { " >= ", GM_REL_LE, true },
                { " < ", GM_REL_LT, false },  { " > ", GM_REL_LT, true } };
  for (unsigned i = 0; i < G_N_ELEMENTS (signs); i++) {
    const char *at = strstr (text, signs[i].sign);
    if (!at)
      continue;
    g_autofree char *left = g_strndup (text, (gsize) (at - text));
    int64_t a = parse (s, left), b = parse (s, at + strlen (signs[i].sign));
    return signs[i].swap ? (GmSizeFact){ signs[i].rel, b, a } : (GmSizeFact){ signs[i].rel, a, b };
  }
  ck_abort_msg ("no relation in %s", text);
}

static GmTruth
ask (GmSizeFacts *f, GmSym *s, const char *text)
{
  GmSizeFact x = parse_fact (s, text);
  return gm_size_facts_ask (f, x.rel, x.a, x.b);
}

static void
add (GmSizeFacts *f, GmSym *s, const char *text)
{
  GmSizeFact x = parse_fact (s, text);
  ck_assert_msg (gm_size_facts_add (f, x.rel, x.a, x.b), "%s was refused", text);
}

/* Facts, separated by ';', a question and its answer.  All symbols are at least 0. */
static const struct {
  const char *facts, *question;
  GmTruth truth;
} cases[] = {
  /* without facts */
  { "", "n == n", GM_YES },
  { "", "n == n + 1", GM_NO },
  { "", "n == m", GM_UNKNOWN },
  { "", "n >= 0", GM_YES },
  { "", "n + 1 > 0", GM_YES },
  { "", "n < 0", GM_NO },
  { "", "2*n == 2*m + 1", GM_NO },
  { "", "(n + m)*(n + m) == n*n + 2*n*m + m*m", GM_YES },
  { "", "n*m >= 0", GM_YES },
  { "", "(2*n)//2 == n", GM_YES },
  { "", "(4*n + 3)//4 == n", GM_YES },
  { "", "(4*n + 3)%4 == 3", GM_YES },
  { "", "(6*n)//4 == (3*n)//2", GM_YES },
  { "", "(n//2)//3 == n//6", GM_YES },
  { "", "(n//2 + 1)//3 == (n + 2)//6", GM_YES },
  { "", "n%4 < 4", GM_YES },
  { "", "n%4 <= n", GM_YES },
  { "", "(n//4)*4 <= n", GM_YES },
  { "", "n - (n//4)*4 < 4", GM_YES },
  { "", "(n + 3)//4*4 >= n", GM_YES },
  { "", "n//4 > n", GM_NO },
  { "", "(n*m)//m == n", GM_YES },
  { "", "(n*m + m)//m == n + 1", GM_YES },
  { "", "(n*m)%m == 0", GM_YES },
  { "", "max(n, m) >= n", GM_YES },
  { "", "min(n, m) <= m", GM_YES },
  { "", "min(n, m) + max(n, m) == n + m", GM_YES },
  { "", "max(n, n + 2) == n + 2", GM_YES },
  { "", "max(2*n, 2*m) == 2*max(n, m)", GM_YES },
  { "", "min(n, m) > max(n, m)", GM_NO },
  /* one fact */
  { "n == m", "n + 1 == m + 1", GM_YES },
  { "n == m", "n*k == k*m", GM_YES },
  { "n == m", "n//3 == m//3", GM_YES },
  { "n == 2*m", "n%2 == 0", GM_YES },
  { "n == 2*m", "n//2 == m", GM_YES },
  { "n == 5", "n*n == 25", GM_YES },
  { "n != 1", "n == 1", GM_NO },
  { "n >= 2", "n == 1", GM_NO },
  { "n >= 2", "n != 0", GM_YES },
  { "n >= 2", "n*m >= m", GM_YES },
  { "n%8 == 0", "n%4 == 0", GM_YES },
  { "n%8 == 0", "(n + 4)%8 == 4", GM_YES },
  { "n%8 == 0", "n%8 == 3", GM_NO },
  { "n%8 == 0", "8*(n//8) == n", GM_YES },
  { "n%8 == 0", "n//8*3 == 3*n//8", GM_YES },
  { "n%8 == 2", "n%4 == 2", GM_YES },
  { "n%8 == 0", "n%16 == 0", GM_UNKNOWN },
  { "(n + m)%4 == 0", "(n + m)%2 == 0", GM_YES },
  { "(n + m)%4 == 0", "(n + m + 2)%4 == 2", GM_YES },
  { "n <= m", "n < m + 1", GM_YES },
  { "n <= m", "2*n <= 2*m + 1", GM_YES },
  { "n < m", "m == n", GM_NO },
  { "n + m == 10", "n <= 10", GM_YES },
  { "n + m == 10", "m > 10", GM_NO },
  { "n//2 == 3", "n >= 6", GM_YES },
  { "n//2 == 3", "n <= 7", GM_YES },
  { "n*m == 6*k", "2*n*m == 12*k", GM_YES },
  { "max(n, m) == n", "m <= n", GM_YES },
  { "max(n, m) == m", "n <= m", GM_YES },
  { "(n + m)//4 == 3", "n + m <= 15", GM_YES },
  /* several */
  { "n <= m; m <= k", "n <= k", GM_YES },
  { "n < m; m < k", "n + 2 <= k", GM_YES },
  { "n <= m; m <= k; k <= j", "n <= j", GM_YES },
  { "n <= m; m <= n", "n == m", GM_YES },
  { "n == m; m == k", "n == k", GM_YES },
  { "n == m; m >= 4", "n >= 4", GM_YES },
  { "n%2 == 0; n%3 == 0", "n%6 == 0", GM_YES },
  { "n >= 1; n != 1", "n >= 2", GM_YES },
  { "n == m + 1; m == k + 1", "n == k + 2", GM_YES },
  { "2*n + m == 7; m == 3", "n == 2", GM_YES },
  { "n*k == m*k; k >= 1", "n <= 5", GM_UNKNOWN },
  { "n <= 3; m <= 3", "n*m <= 9", GM_YES },
};

START_TEST (what_follows_is_known)
{
  g_autoptr (GmSym) s = gm_sym_new ();
  g_autoptr (GmSizeFacts) f = gm_size_facts_new (s);
  g_auto (GStrv) facts = g_strsplit (cases[_i].facts, "; ", -1);
  for (char **p = facts; *p && **p; p++)
    add (f, s, *p);
  ck_assert_msg (ask (f, s, cases[_i].question) == cases[_i].truth, "given %s: %s is %d",
                 cases[_i].facts, cases[_i].question, ask (f, s, cases[_i].question));
}
END_TEST

START_TEST (a_fact_that_cannot_be_is_refused_and_changes_nothing)
{
  g_autoptr (GmSym) s = gm_sym_new ();
  g_autoptr (GmSizeFacts) f = gm_size_facts_new (s);
  add (f, s, "n >= 4");
  GmSizeFact no = parse_fact (s, "n < 3");
  ck_assert (!gm_size_facts_add (f, no.rel, no.a, no.b));
  ck_assert_uint_eq (gm_size_facts_n (f), 1);
  ck_assert_int_eq (ask (f, s, "n == 0"), GM_NO);
  ck_assert_int_eq (ask (f, s, "n == 4"), GM_UNKNOWN);
}
END_TEST

START_TEST (rolled_back_facts_and_rows_are_forgotten)
{
  g_autoptr (GmSym) s = gm_sym_new ();
  g_autoptr (GmSizeFacts) f = gm_size_facts_new (s);
  add (f, s, "n <= m");
  uint32_t n_facts = gm_size_facts_n (f), n_rows = gm_sym_n_rows (s);
  add (f, s, "k*2 == n");
  ck_assert_int_eq (ask (f, s, "n%2 == 0"), GM_YES);
  gm_sym_truncate (s, n_rows);
  gm_size_facts_truncate (f, n_facts);
  ck_assert_int_eq (ask (f, s, "n%2 == 0"), GM_UNKNOWN);
  ck_assert_int_eq (ask (f, s, "n < m + 1"), GM_YES);
  ck_assert_int_eq (ask (f, s, "j*2 == n"), GM_UNKNOWN); /* takes the row that k*2 had */
}
END_TEST

START_TEST (bounds_and_divisors_of_symbols_count)
{
  g_autoptr (GmSym) s = gm_sym_new ();
  g_autoptr (GmSizeFacts) f = gm_size_facts_new (s);
  int64_t n = gm_sym_symbol (s, "n"), min, max;
  gm_sym_assume (s, n, 2, 64, 4);
  ck_assert_int_eq (ask (f, s, "n%2 == 0"), GM_YES);
  ck_assert_int_eq (ask (f, s, "n == 3"), GM_NO);
  ck_assert_int_eq (ask (f, s, "n == 1"), GM_NO);
  ck_assert_int_eq (ask (f, s, "n >= 4"), GM_YES); /* the first multiple */
  ck_assert_int_eq (ask (f, s, "n > 64"), GM_NO);
  gm_size_facts_bounds (f, parse (s, "3*n + 1"), &min, &max);
  ck_assert_int_eq (max, 193);
  ck_assert_int_eq (min, 13); /* n is 4 at least */
}
END_TEST

START_TEST (broadcasting_asks_for_equality_or_one)
{
  g_autoptr (GmSym) s = gm_sym_new ();
  g_autoptr (GmSizeFacts) f = gm_size_facts_new (s);
  int64_t n = gm_sym_symbol (s, "n"), m = gm_sym_symbol (s, "m"), out = 0;
  ck_assert_int_eq (gm_size_facts_broadcast (f, n, m, &out), GM_UNKNOWN);
  ck_assert_int_eq (gm_size_facts_broadcast (f, n, 1, &out), GM_YES);
  ck_assert_int_eq (out, n);
  add (f, s, "n == m");
  ck_assert_int_eq (gm_size_facts_broadcast (f, n, m, &out), GM_YES);
  add (f, s, "n >= 2");
  ck_assert_int_eq (gm_size_facts_broadcast (f, n, parse (s, "m + 1"), &out), GM_NO);
}
END_TEST

START_TEST (implied_facts_are_not_needed)
{
  static const struct {
    const char *facts, *needed;
  } sets[] = {
    { "n >= 2; n >= 3", "01" },
    { "n%2 == 0; n%8 == 0", "01" },
    { "n%8 == 0; n%2 == 0", "10" },
    { "n == m; m == k; n == k", "110" },
    { "n <= m; m <= k; n <= k", "110" },
    { "n != 1; n >= 2; n != 0", "010" },
    { "n <= 4; m <= 4; n*m <= 16", "110" },
    { "n >= 2; m >= 3; n == m", "011" },
    { "n >= 2; m >= 2", "11" },
  };
  for (unsigned i = 0; i < G_N_ELEMENTS (sets); i++) {
    g_autoptr (GmSym) s = gm_sym_new ();
    g_autoptr (GmSizeFacts) f = gm_size_facts_new (s);
    g_auto (GStrv) facts = g_strsplit (sets[i].facts, "; ", -1);
    for (char **p = facts; *p; p++)
      add (f, s, *p);
    bool needed[8];
    char text[9] = "";
    gm_size_facts_needed (f, needed);
    for (uint32_t j = 0; j < gm_size_facts_n (f); j++)
      text[j] = needed[j] ? '1' : '0';
    ck_assert_msg (!strcmp (text, sets[i].needed), "of %s, needed: %s", sets[i].facts, text);
  }
}
END_TEST

START_TEST (large_numbers_do_not_wrap)
{
  g_autoptr (GmSym) s = gm_sym_new ();
  g_autoptr (GmSizeFacts) f = gm_size_facts_new (s);
  add (f, s, "n <= 9223372036854775806");
  ck_assert_int_eq (ask (f, s, "n*4611686018427387904*4 >= 0"), GM_UNKNOWN);
  ck_assert_int_eq (ask (f, s, "n*9223372036854775807 <= m"), GM_UNKNOWN);
  ck_assert_int_eq (ask (f, s, "n - 9223372036854775807 <= 0"), GM_YES);
  add (f, s, "m*9223372036854775807 >= n*9223372036854775807");
  ck_assert_int_eq (ask (f, s, "m >= n"), GM_YES);
}
END_TEST

/* -- Against all values ------------------------------------------------------------------------ */

static uint64_t dice_state;

static uint32_t
dice (uint32_t n)
{
  dice_state = dice_state * UINT64_C (6364136223846793005) + UINT64_C (1442695040888963407);
  return (uint32_t) ((dice_state >> 33) % n);
}

#define N_SYMBOLS 3
#define LARGEST 9

static int64_t
random_size (GmSym *s, int depth)
{
  static const char *const names[N_SYMBOLS] = { "n", "m", "k" };
  if (!depth || !dice (3))
    return dice (3) ? gm_sym_symbol (s, names[dice (N_SYMBOLS)])
                    : gm_sym_const (s, (int64_t) dice (6));
  int64_t a = random_size (s, depth - 1);
  switch (dice (10)) {
  case 0:
  case 1:
  case 2:
    return gm_sym_op (s, GM_SYM_ADD, a, random_size (s, depth - 1));
  case 3:
    return gm_sym_op (s, GM_SYM_ADD, a, gm_sym_const (s, -(int64_t) dice (5)));
  case 4:
    return gm_sym_op (s, GM_SYM_MUL, a, gm_sym_const (s, (int64_t) dice (6) - 2));
  case 5:
    return gm_sym_op (s, GM_SYM_MUL, a, random_size (s, depth - 1));
  case 6:
    return gm_sym_op (s, GM_SYM_FLOORDIV, a,
                      dice (3) ? gm_sym_const (s, 1 + dice (5)) : random_size (s, depth - 1));
  case 7:
    return gm_sym_op (s, GM_SYM_MOD, a,
                      dice (3) ? gm_sym_const (s, 1 + dice (5)) : random_size (s, depth - 1));
  case 8:
    return gm_sym_op (s, GM_SYM_MIN, a, random_size (s, depth - 1));
  default:
    return gm_sym_op (s, GM_SYM_MAX, a, random_size (s, depth - 1));
  }
}

/* Returns 1 if the relation holds for these values, else 0, or -1 where a side is not defined. */
static int
holds (const GmSym *s, GmSizeFact x, const int64_t *values)
{
  int64_t a, b;
  if (!gm_sym_eval (s, x.a, values, &a, NULL) || !gm_sym_eval (s, x.b, values, &b, NULL))
    return -1;
  switch (x.rel) {
  case GM_REL_EQ:
    return a == b;
  case GM_REL_NE:
    return a != b;
  case GM_REL_LT:
    return a < b;
  default:
    return a <= b;
  }
}

static GmSizeFact
random_fact (GmSym *s, int depth)
{
  return (GmSizeFact){ dice (GM_N_RELS), random_size (s, depth),
                       random_size (s, dice (2) ? depth : 0) };
}

/* Each round has a few facts that some values fulfil, and questions.  Counts right answers, and
 * questions that were left open although they are decided. */
START_TEST (no_answer_is_wrong)
{
  const char *asked = g_getenv ("GM_SYM_QUERIES");
  uint32_t n_queries = asked ? (uint32_t) strtoul (asked, NULL, 10) : 100000, done = 0, decided = 0,
           open = 0;
  dice_state = 20;
  while (done < n_queries) {
    g_autoptr (GmSym) s = gm_sym_new ();
    g_autoptr (GmSizeFacts) f = gm_size_facts_new (s);
    for (int i = 0; i < N_SYMBOLS; i++) {
      static const char *const names[N_SYMBOLS] = { "n", "m", "k" };
      gm_sym_assume (s, gm_sym_symbol (s, names[i]), dice (3), LARGEST - dice (3),
                     1 + (dice (4) == 0));
    }
    GmSizeFact facts[4];
    uint32_t n_facts = 0;
    int64_t (*all)[N_SYMBOLS] =
        g_malloc (sizeof *all * (LARGEST + 1) * (LARGEST + 1) * (LARGEST + 1));
    uint32_t n_all = 0;
    for (int64_t n = 0; n <= LARGEST; n++)
      for (int64_t m = 0; m <= LARGEST; m++)
        for (int64_t k = 0; k <= LARGEST; k++) {
          int64_t v[N_SYMBOLS] = { n, m, k };
          bool in = true;
          for (uint32_t i = 0; i < gm_sym_n_rows (s) && in; i++) {
            const GmSymRow *r = gm_sym_row (s, i);
            in = r->kind != GM_SYM_SYMBOL
                 || (v[r->a] >= r->min && v[r->a] <= r->max && v[r->a] % r->multiple_of == 0);
          }
          if (in)
            memcpy (all[n_all++], v, sizeof v);
        }
    for (uint32_t tries = dice (5); tries; tries--) {
      GmSizeFact x = random_fact (s, 1 + (int) dice (2));
      uint32_t left = 0;
      for (uint32_t i = 0; i < n_all; i++)
        left += holds (s, x, all[i]) == 1;
      bool taken = gm_size_facts_add (f, x.rel, x.a, x.b);
      if (!left) { /* a contradiction may be found or not; continue without it */
        gm_size_facts_truncate (f, n_facts);
        continue;
      }
      g_autofree char *text = gm_size_fact_text (s, &x);
      ck_assert_msg (taken, "%s was refused, and %u values fulfil it", text, left);
      uint32_t kept = 0;
      for (uint32_t i = 0; i < n_all; i++)
        if (holds (s, x, all[i]) == 1)
          memmove (all[kept++], all[i], sizeof *all);
      n_all = kept;
      facts[n_facts++] = x;
      if (n_facts == G_N_ELEMENTS (facts))
        break;
    }
    for (int q = 0; q < 20; q++, done++) {
      GmSizeFact x = random_fact (s, 1 + (int) dice (3));
      uint32_t yes = 0, no = 0;
      for (uint32_t i = 0; i < n_all; i++) {
        int h = holds (s, x, all[i]);
        yes += h == 1;
        no += h == 0;
      }
      GmTruth t = gm_size_facts_ask (f, x.rel, x.a, x.b);
      if ((t == GM_YES && no) || (t == GM_NO && yes)) {
        GString *given = g_string_new (NULL);
        for (uint32_t i = 0; i < n_facts; i++) {
          g_autofree char *text = gm_size_fact_text (s, &facts[i]);
          g_string_append_printf (given, "%s; ", text);
        }
        for (uint32_t i = 0; i < gm_sym_n_rows (s); i++) {
          const GmSymRow *r = gm_sym_row (s, i);
          if (r->kind == GM_SYM_SYMBOL)
            g_string_append_printf (given, "%s in %d..%d by %d; ", r->name, (int) r->min,
                                    (int) r->max, (int) r->multiple_of);
        }
        g_autofree char *text = gm_size_fact_text (s, &x);
        ck_abort_msg ("query %u: given %s%s is said to be %s, and holds for %u of %u values", done,
                      given->str, text, t == GM_YES ? "true" : "false", yes, yes + no);
      }
      if (yes + no && (!yes || !no)) {
        decided += t != GM_UNKNOWN;
        open += t == GM_UNKNOWN;
      }
    }
    bool needed[4];
    gm_size_facts_needed (f, needed);
    for (uint32_t i = 0; i < n_facts; i++) {
      /* A fact that is left out follows from those that are kept. */
      if (needed[i])
        continue;
      for (int64_t at = 0; at < (LARGEST + 1) * (LARGEST + 1) * (LARGEST + 1); at++) {
        int64_t v[N_SYMBOLS] = { at % (LARGEST + 1), at / (LARGEST + 1) % (LARGEST + 1),
                                 at / (LARGEST + 1) / (LARGEST + 1) };
        bool in = true;
        for (uint32_t j = 0; j < gm_sym_n_rows (s) && in; j++) {
          const GmSymRow *r = gm_sym_row (s, j);
          in = r->kind != GM_SYM_SYMBOL
               || (v[r->a] >= r->min && v[r->a] <= r->max && v[r->a] % r->multiple_of == 0);
        }
        for (uint32_t j = 0; j < n_facts && in; j++)
          in = !needed[j] || holds (s, facts[j], v) == 1;
        g_autofree char *text = in ? gm_size_fact_text (s, &facts[i]) : NULL;
        ck_assert_msg (!in || holds (s, facts[i], v) != 0, "%s was left out", text);
      }
    }
    g_free (all);
  }
  printf ("%u queries; of those that all values decide, %.1f %% were answered\n", done,
          100.0 * decided / (decided + open));
  ck_assert_msg (decided > open * 2, "%u answered, %u left open", decided, open);
}
END_TEST

int
main (void)
{
  Suite *suite = suite_create ("size_facts");
  TCase *t = tcase_create ("facts");
  tcase_add_loop_test (t, what_follows_is_known, 0, G_N_ELEMENTS (cases));
  tcase_add_test (t, a_fact_that_cannot_be_is_refused_and_changes_nothing);
  tcase_add_test (t, rolled_back_facts_and_rows_are_forgotten);
  tcase_add_test (t, bounds_and_divisors_of_symbols_count);
  tcase_add_test (t, broadcasting_asks_for_equality_or_one);
  tcase_add_test (t, implied_facts_are_not_needed);
  tcase_add_test (t, large_numbers_do_not_wrap);
  suite_add_tcase (suite, t);
  TCase *random = tcase_create ("random");
  tcase_set_timeout (random, 600);
  tcase_add_test (random, no_answer_is_wrong);
  suite_add_tcase (suite, random);
  SRunner *runner = srunner_create (suite);
  srunner_run_all (runner, CK_ENV);
  int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed ? 1 : 0;
}
