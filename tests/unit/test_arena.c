/* SPDX-License-Identifier: Apache-2.0
 * test_arena.c -- alignment, zeroing, sealing.
 */
#include <check.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/arena.h"

START_TEST (memory_is_zeroed_aligned_and_disjoint)
{
  g_autoptr (GmArena) a = gm_arena_new ();
  char *before = NULL;
  for (size_t n = 0; n < 3000; n += 7) {
    unsigned char *p = gm_arena_alloc (a, n);
    ck_assert_uint_eq ((uintptr_t) p % 16, 0);
    ck_assert ((char *) p != before);
    for (size_t i = 0; i < n; i++)
      ck_assert_uint_eq (p[i], 0);
    memset (p, 0xff, n);
    before = (char *) p;
  }
  ck_assert_uint_ge (gm_arena_bytes (a), 3000 / 7 * 1000);
}
END_TEST

START_TEST (big_allocations_get_a_block_of_their_own)
{
  g_autoptr (GmArena) a = gm_arena_new ();
  char *big = gm_arena_alloc (a, 10 << 20);
  big[(10 << 20) - 1] = 1;
  int *small = gm_arena_newn (a, int, 3);
  small[2] = 5;
  ck_assert_int_eq (small[2], 5);
}
END_TEST

START_TEST (strings_are_copied)
{
  g_autoptr (GmArena) a = gm_arena_new ();
  char source[] = "tanh";
  char *s = gm_arena_strdup (a, source);
  source[0] = 'x';
  ck_assert_str_eq (s, "tanh");
  ck_assert_ptr_null (gm_arena_strdup (a, NULL));
  ck_assert_str_eq (gm_arena_printf (a, "%%%d = %s", 3, s), "%3 = tanh");
  ck_assert (!memcmp (gm_arena_copy (a, "ab", 3), "ab", 3));
}
END_TEST

static sigjmp_buf after_fault;
static void
on_fault (int sig)
{
  siglongjmp (after_fault, sig);
}

static bool
faults (volatile char *p)
{
  struct sigaction new = { .sa_handler = on_fault }, old;
  sigaction (SIGSEGV, &new, &old);
  bool fault = sigsetjmp (after_fault, 1) != 0;
  if (!fault)
    *p = 1;
  sigaction (SIGSEGV, &old, NULL);
  return fault;
}

START_TEST (a_sealed_arena_faults_on_writes_until_unsealed)
{
  g_autoptr (GmArena) a = gm_arena_new ();
  char *p = gm_arena_alloc (a, 100);
  p[0] = 7;
  gm_arena_seal (a);
  char *q = gm_arena_alloc (a, 100);
  ck_assert (!faults (q)); /* what comes later is on another page */
  ck_assert_int_eq (p[0], 7);
  ck_assert (faults (p));
  gm_arena_seal (a);
  ck_assert (faults (q));
  gm_arena_unseal (a);
  ck_assert (!faults (p) && !faults (q));
}
END_TEST

int
main (void)
{
  setenv ("GM_STRESS", "rollback,arena", 1); /* sealing is on in every build */
  Suite *suite = suite_create ("arena");
  TCase *c = tcase_create ("arena");
  tcase_add_test (c, memory_is_zeroed_aligned_and_disjoint);
  tcase_add_test (c, big_allocations_get_a_block_of_their_own);
  tcase_add_test (c, strings_are_copied);
  tcase_add_test (c, a_sealed_arena_faults_on_writes_until_unsealed);
  suite_add_tcase (suite, c);
  SRunner *sr = srunner_create (suite);
  srunner_run_all (sr, CK_NORMAL);
  int failures = srunner_ntests_failed (sr);
  srunner_free (sr);
  return failures ? 1 : 0;
}
