/* SPDX-License-Identifier: Apache-2.0
 * test_journal.c -- append, mark, rollback.
 */
#include <check.h>
#include <stdlib.h>

#include "core/base/journal.h"

#define SLOTS 8
static uintptr_t slots[SLOTS];

static void
put (GmJournal *j, uintptr_t key, uintptr_t value)
{
  gm_journal_append (j, 0, key, slots[key]);
  slots[key] = value;
}

static void
undo (void *owner, const GmWrite *w)
{
  ((uintptr_t *) owner)[w->key] = w->old;
}

START_TEST (rollback_restores_what_stood_at_the_mark)
{
  GmJournal j;
  gm_journal_init (&j);
  put (&j, 1, 10);
  put (&j, 2, 20);
  GmJournalMark m = gm_journal_mark (&j);
  put (&j, 1, 11);
  put (&j, 1, 12);
  put (&j, 3, 30);
  gm_journal_rollback (&j, m, undo, slots);
  ck_assert_uint_eq (slots[1], 10);
  ck_assert_uint_eq (slots[2], 20);
  ck_assert_uint_eq (slots[3], 0);
  ck_assert_uint_eq (gm_journal_mark (&j), m);
  gm_journal_rollback (&j, 0, undo, slots);
  ck_assert_uint_eq (slots[1], 0);
  gm_journal_clear (&j);
}
END_TEST

START_TEST (nested_marks_unwind_in_any_depth)
{
  GmJournal j;
  gm_journal_init (&j);
  GmJournalMark marks[1000];
  uintptr_t want[1000][SLOTS];
  for (int i = 0; i < 1000; i++) {
    marks[i] = gm_journal_mark (&j);
    for (int k = 0; k < SLOTS; k++)
      want[i][k] = slots[k];
    put (&j, (uintptr_t) (i * 7 + 3) % SLOTS, (uintptr_t) i + 1);
  }
  for (int i = 999; i >= 0; i -= 37) {
    gm_journal_rollback (&j, marks[i], undo, slots);
    for (int k = 0; k < SLOTS; k++)
      ck_assert_uint_eq (slots[k], want[i][k]);
  }
  gm_journal_clear (&j);
}
END_TEST

int
main (void)
{
  Suite *suite = suite_create ("journal");
  TCase *c = tcase_create ("journal");
  tcase_add_test (c, rollback_restores_what_stood_at_the_mark);
  tcase_add_test (c, nested_marks_unwind_in_any_depth);
  suite_add_tcase (suite, c);
  SRunner *sr = srunner_create (suite);
  srunner_run_all (sr, CK_NORMAL);
  int failures = srunner_ntests_failed (sr);
  srunner_free (sr);
  return failures ? 1 : 0;
}
