/* SPDX-License-Identifier: Apache-2.0
 * test_alloc.c -- size classes, caches, threads, fork, injected failures.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/tensor/alloc.h"
#include "core/tensor/tensor.h"

START_TEST (blocks_of_every_size_are_aligned_and_disjoint)
{
  enum { N = 900 };
  unsigned char *p[N];
  size_t bytes[N];
  for (int i = 0; i < N; i++) {
    bytes[i] = i < 300   ? (size_t) i * 13
               : i < 860 ? (size_t) i * 311
                         : (size_t) i * (i % 8 ? 401 : 3001);
    p[i] = gm_alloc (bytes[i]);
    ck_assert_ptr_nonnull (p[i]);
    ck_assert_uint_eq ((uintptr_t) p[i] % GM_ALLOC_ALIGN, 0);
    memset (p[i], i & 255, bytes[i]);
  }
  for (int i = 0; i < N; i++) {
    for (size_t k = 0; k < bytes[i]; k += 97)
      ck_assert_uint_eq (p[i][k], i & 255);
    gm_free (p[i], bytes[i]);
  }
}
END_TEST

/* Two blocks never start one or two cache lines apart within their pages, but at one place or far
 * from each other. */
START_TEST (large_blocks_start_at_few_places_of_a_page)
{
  static const size_t sizes[] = { 4096,  5000,   8192,    16384,   40000,  65536,
                                  70000, 262144, 1 << 20, 3 << 20, 9 << 20 };
  enum { N = sizeof sizes / sizeof *sizes, EACH = 9 };
  void *p[N][EACH], *small[N];
  unsigned starts = 0;
  for (int i = 0; i < N; i++) {
    small[i] = gm_alloc (64 * (size_t) (i + 1));
    for (int k = 0; k < EACH; k++) {
      p[i][k] = gm_alloc (sizes[i]);
      ck_assert_ptr_nonnull (p[i][k]);
#ifndef __SANITIZE_ADDRESS__
      ck_assert_uint_eq ((uintptr_t) p[i][k] % 512, 0);
#endif
      if (sizes[i] > 65536)
        starts |= 1u << (uintptr_t) p[i][k] % 4096 / 512;
    }
  }
#ifndef __SANITIZE_ADDRESS__
  ck_assert_uint_eq (starts, 255);
#endif
  for (int i = 0; i < N; i++) {
    gm_free (small[i], 64 * (size_t) (i + 1));
    for (int k = 0; k < EACH; k++)
      gm_free (p[i][k], sizes[i]);
  }
}
END_TEST

START_TEST (sizes_at_the_borders_of_classes_fit)
{
  for (int top = 6; top < 22; top++)
    for (int step = 0; step <= 8; step++)
      for (int by = -1; by <= 1; by++) {
        size_t bytes = ((size_t) 1 << top) + ((size_t) step << top >> 3) + (size_t) by;
        unsigned char *a = gm_alloc (bytes), *b = gm_alloc (bytes);
        memset (a, 1, bytes);
        memset (b, 2, bytes);
        ck_assert (a[0] == 1 && a[bytes - 1] == 1);
        gm_free (a, bytes);
        gm_free (b, bytes);
      }
}
END_TEST

START_TEST (counters_follow_what_was_asked_for)
{
  size_t before = gm_alloc_live_bytes ();
  gm_alloc_reset_peak ();
  void *a = gm_alloc (1000), *b = gm_alloc (5 << 20);
  ck_assert_uint_eq (gm_alloc_live_bytes () - before, 1000 + (5 << 20));
  gm_free (b, 5 << 20);
  ck_assert_uint_eq (gm_alloc_live_bytes () - before, 1000);
  ck_assert_uint_eq (gm_alloc_peak_bytes () - before, 1000 + (5 << 20));
  gm_alloc_reset_peak ();
  ck_assert_uint_eq (gm_alloc_peak_bytes () - before, 1000);
  gm_free (a, 1000);
  gm_free (NULL, 10);
}
END_TEST

START_TEST (absurd_sizes_give_null)
{
  ck_assert_ptr_null (gm_alloc (SIZE_MAX));
  ck_assert_ptr_null (gm_alloc (SIZE_MAX / 2));
  ck_assert_ptr_null (gm_alloc ((size_t) 1 << 46));
}
END_TEST

#ifndef __SANITIZE_ADDRESS__
START_TEST (freed_blocks_come_back)
{
  static const size_t sizes[] = { 1, 64, 1000, 60000, 100000, 3 << 20 };
  for (size_t i = 0; i < G_N_ELEMENTS (sizes); i++) {
    void *a = gm_alloc (sizes[i]);
    gm_free (a, sizes[i]);
    ck_assert_ptr_eq (gm_alloc (sizes[i]), a);
    gm_free (a, sizes[i]);
  }
  ck_assert_uint_ge (gm_alloc_trim (), 3 << 20);
  ck_assert_uint_eq (gm_alloc_trim (), 0);
}
END_TEST

/* More than the floor of what is cached, in sizes just above a class.  Nothing writes there. */
START_TEST (all_blocks_of_a_step_come_back)
{
  enum { N = 300, BYTES = (1 << 20) + 64 };
  void *p[N];
  for (int i = 0; i < N; i++)
    p[i] = gm_alloc (BYTES);
  for (int i = 0; i < N; i++)
    gm_free (p[i], BYTES);
  ck_assert_uint_ge (gm_alloc_trim (), (size_t) N * BYTES);
}
END_TEST

START_TEST (blocks_of_other_sizes_take_the_place_of_cached_ones)
{
  enum { N = 300, BYTES = (1 << 20) + 64, M = 90 };
  void *p[N];
  for (int i = 0; i < N; i++)
    p[i] = gm_alloc (BYTES);
  for (int i = 0; i < N; i++)
    gm_free (p[i], BYTES);
  for (int i = 0; i < M; i++)
    p[i] = gm_alloc (3 * BYTES);
  ck_assert_uint_le (gm_alloc_trim (), (size_t) N * BYTES * 3 / 4);
  for (int i = 0; i < M; i++)
    gm_free (p[i], 3 * BYTES);
  gm_alloc_trim ();
}
END_TEST
#else
START_TEST (blocks_of_other_sizes_take_the_place_of_cached_ones)
{
  ck_assert_uint_eq (gm_alloc_trim (), 0); /* nor here */
}
END_TEST

START_TEST (all_blocks_of_a_step_come_back)
{
  ck_assert_uint_eq (gm_alloc_trim (), 0); /* nor here */
}
END_TEST

START_TEST (freed_blocks_come_back)
{
  ck_assert_uint_eq (gm_alloc_trim (), 0); /* nothing is cached under the sanitizer */
}
END_TEST
#endif

START_TEST (the_kth_call_fails_once)
{
  for (uint64_t k = 1; k < 6; k++) {
    gm_alloc_fail_at (k);
    for (uint64_t i = 1; i < 10; i++) {
      void *p = gm_alloc (100);
      ck_assert_msg (!p == (i == k), "call %d with k = %d", (int) i, (int) k);
      gm_free (p, 100);
    }
  }
}
END_TEST

/* Passes blocks on: each thread frees blocks that another allocated. */
typedef struct {
  GAsyncQueue *in, *out;
} Ends;

static gpointer
churn (gpointer data)
{
  Ends *e = data;
  for (int i = 0; i < 20000; i++) {
    size_t bytes = (size_t) (i * 37 % 3000) + 16;
    size_t *p = gm_alloc (bytes);
    *p = bytes;
    g_async_queue_push (e->out, p);
    size_t *q = g_async_queue_pop (e->in);
    gm_free (q, *q);
  }
  return NULL;
}

START_TEST (threads_may_free_what_others_made)
{
  size_t before = gm_alloc_live_bytes ();
  GAsyncQueue *x = g_async_queue_new (), *y = g_async_queue_new ();
  Ends a = { x, y }, b = { y, x };
  GThread *s = g_thread_new ("a", churn, &a), *t = g_thread_new ("b", churn, &b);
  g_thread_join (s);
  g_thread_join (t);
  ck_assert_uint_eq (gm_alloc_live_bytes (), before);
  g_async_queue_unref (x);
  g_async_queue_unref (y);
}
END_TEST

#ifdef __SANITIZE_THREAD__
#define FORKS 10 /* each takes a second under the sanitizer */
#else
#define FORKS 50
#endif

static int stop;
static gpointer
busy (gpointer data)
{
  while (!g_atomic_int_get (&stop))
    for (size_t i = 1; i < 200; i++)
      gm_free (gm_alloc (i * 3000), i * 3000);
  return data;
}

/* Frees blocks that another thread has allocated and not yet added to the common count, which is
 * below 0 then. */
static gpointer
free_all (gpointer blocks)
{
  for (int i = 0; i < 100; i++)
    gm_free (((void **) blocks)[i], 600);
  return NULL;
}

START_TEST (large_blocks_are_there_when_another_thread_has_freed_what_this_one_made)
{
  void *p[100];
  for (int i = 0; i < 100; i++)
    p[i] = gm_alloc (600);
  g_thread_join (g_thread_new ("frees", free_all, p));
  void *large = gm_alloc (4 << 20);
  ck_assert_ptr_nonnull (large);
  gm_free (large, 4 << 20);
}
END_TEST

START_TEST (a_forked_child_can_allocate)
{
  GThread *t = g_thread_new ("busy", busy, NULL);
  for (int i = 0; i < FORKS; i++) {
    pid_t child = fork ();
    if (child == 0) {
      alarm (10); /* ends a deadlock */
      for (size_t k = 1; k < 100; k++)
        gm_free (gm_alloc (k * 3000), k * 3000);
      _exit (0);
    }
    int status;
    waitpid (child, &status, 0);
    ck_assert (WIFEXITED (status) && WEXITSTATUS (status) == 0);
  }
  g_atomic_int_set (&stop, 1);
  g_thread_join (t);
}
END_TEST

int
main (void)
{
  Suite *suite = suite_create ("alloc");
  TCase *c = tcase_create ("alloc");
  tcase_set_timeout (c, 120);
  tcase_add_test (c, blocks_of_every_size_are_aligned_and_disjoint);
  tcase_add_test (c, large_blocks_start_at_few_places_of_a_page);
  tcase_add_test (c, sizes_at_the_borders_of_classes_fit);
  tcase_add_test (c, counters_follow_what_was_asked_for);
  tcase_add_test (c, absurd_sizes_give_null);
  tcase_add_test (c, freed_blocks_come_back);
  tcase_add_test (c, freed_blocks_come_back);
  tcase_add_test (c, all_blocks_of_a_step_come_back);
  tcase_add_test (c, blocks_of_other_sizes_take_the_place_of_cached_ones);
  tcase_add_test (c, the_kth_call_fails_once);
  tcase_add_test (c, threads_may_free_what_others_made);
  tcase_add_test (c, large_blocks_are_there_when_another_thread_has_freed_what_this_one_made);
  tcase_add_test (c, a_forked_child_can_allocate);
  suite_add_tcase (suite, c);
  SRunner *sr = srunner_create (suite);
  srunner_run_all (sr, CK_NORMAL);
  int failures = srunner_ntests_failed (sr);
  srunner_free (sr);
  return failures ? 1 : 0;
}
