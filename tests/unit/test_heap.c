/* SPDX-License-Identifier: Apache-2.0
 * test_heap.c -- contents of objects under marks and rollbacks, against a plain model that copies
 * everything.
 *
 * CKPT-01: what a mark covers is as before after a rollback.  CKPT-05: undoing costs what was
 * written.
 */
#include "core/trace/heap.h"

#include <check.h>
#include <string.h>

#define VALUE(x) ((const GmTracker *) (uintptr_t) (x))

START_TEST (a_new_object_has_empty_slots)
{
  GmHeap h;
  gm_heap_init (&h);
  uint32_t a = gm_heap_add (&h, 3), b = gm_heap_add (&h, 0), c = gm_heap_add (&h, 1);
  ck_assert_uint_eq (a, 0);
  ck_assert_uint_eq (b, 1);
  ck_assert_uint_eq (c, 2);
  for (uint32_t key = 0; key < 3; key++)
    ck_assert_ptr_null (gm_heap_load (&h, a, key));
  gm_heap_clear (&h);
}
END_TEST

START_TEST (objects_do_not_share_slots)
{
  GmHeap h;
  gm_heap_init (&h);
  uint32_t a = gm_heap_add (&h, 2), b = gm_heap_add (&h, 2);
  gm_heap_store (&h, a, 1, VALUE (11));
  gm_heap_store (&h, b, 0, VALUE (20));
  ck_assert_ptr_eq (gm_heap_load (&h, a, 1), VALUE (11));
  ck_assert_ptr_eq (gm_heap_load (&h, b, 0), VALUE (20));
  ck_assert_ptr_null (gm_heap_load (&h, b, 1));
  gm_heap_clear (&h);
}
END_TEST

START_TEST (a_rollback_restores_overwritten_values_and_removes_young_objects)
{
  GmHeap h;
  gm_heap_init (&h);
  uint32_t a = gm_heap_add (&h, 2);
  gm_heap_store (&h, a, 0, VALUE (1));
  GmHeapMark m = gm_heap_mark (&h);
  gm_heap_store (&h, a, 0, VALUE (2));
  gm_heap_store (&h, a, 0, VALUE (3));
  gm_heap_store (&h, a, 1, VALUE (4));
  uint32_t b = gm_heap_add (&h, 1);
  gm_heap_store (&h, b, 0, VALUE (5));
  gm_heap_rollback (&h, &m);
  ck_assert_ptr_eq (gm_heap_load (&h, a, 0), VALUE (1));
  ck_assert_ptr_null (gm_heap_load (&h, a, 1));
  ck_assert_uint_eq (gm_heap_add (&h, 1), b); /* ids are reused */
  ck_assert_ptr_null (gm_heap_load (&h, b, 0));
  gm_heap_clear (&h);
}
END_TEST

/* -- Random walks against a model ------------------------------------------ */

#define MAX_OBJECTS 200
#define MAX_SLOTS 4
#define MAX_MARKS 20

typedef struct {
  uint32_t n_objects, sizes[MAX_OBJECTS];
  uintptr_t values[MAX_OBJECTS][MAX_SLOTS];
} Model;

static void
compare (const GmHeap *h, const Model *m)
{
  ck_assert_uint_eq (h->objects->len, m->n_objects);
  for (uint32_t o = 0; o < m->n_objects; o++)
    for (uint32_t key = 0; key < m->sizes[o]; key++)
      ck_assert_ptr_eq (gm_heap_load (h, o, key), VALUE (m->values[o][key]));
}

START_TEST (random_walks_agree_with_a_model_that_copies)
{
  GRand *rand = g_rand_new_with_seed ((guint32) _i);
  GmHeap h;
  gm_heap_init (&h);
  Model *now = g_new0 (Model, 1), *saved = g_new0 (Model, MAX_MARKS);
  GmHeapMark marks[MAX_MARKS];
  uint32_t n_marks = 0;
  for (uintptr_t step = 1; step < 3000; step++) {
    int what = g_rand_int_range (rand, 0, 20);
    if (what == 0 && now->n_objects < MAX_OBJECTS) {
      uint32_t n = (uint32_t) g_rand_int_range (rand, 0, MAX_SLOTS + 1);
      ck_assert_uint_eq (gm_heap_add (&h, n), now->n_objects);
      memset (now->values[now->n_objects], 0, sizeof now->values[0]);
      now->sizes[now->n_objects++] = n;
    } else if (what == 1 && n_marks < MAX_MARKS) {
      saved[n_marks] = *now;
      marks[n_marks++] = gm_heap_mark (&h);
    } else if (what == 2 && n_marks > 0) {
      /* Returns to any open mark. */
      n_marks = (uint32_t) g_rand_int_range (rand, 0, (gint32) n_marks);
      gm_heap_rollback (&h, &marks[n_marks]);
      *now = saved[n_marks];
      compare (&h, now);
    } else if (now->n_objects > 0) {
      uint32_t o = (uint32_t) g_rand_int_range (rand, 0, (gint32) now->n_objects);
      if (now->sizes[o] == 0)
        continue;
      uint32_t key = (uint32_t) g_rand_int_range (rand, 0, (gint32) now->sizes[o]);
      now->values[o][key] = step;
      gm_heap_store (&h, o, key, VALUE (step));
    }
  }
  compare (&h, now);
  g_free (now);
  g_free (saved);
  gm_heap_clear (&h);
  g_rand_free (rand);
}
END_TEST

START_TEST (a_mark_is_independent_of_the_number_of_objects)
{
  GmHeap h;
  gm_heap_init (&h);
  uint32_t first = gm_heap_add (&h, 1);
  for (int i = 0; i < 100000; i++)
    gm_heap_store (&h, gm_heap_add (&h, 1), 0, VALUE (i + 1));
  GmHeapMark m = gm_heap_mark (&h);
  uint32_t writes = h.journal.len;
  gm_heap_store (&h, first, 0, VALUE (7));
  ck_assert_uint_eq (h.journal.len, writes + 1); /* one write is one record, whatever is alive */
  gm_heap_rollback (&h, &m);
  ck_assert_ptr_null (gm_heap_load (&h, first, 0));
  ck_assert_ptr_eq (gm_heap_load (&h, 100000, 0), VALUE (100000));
  gm_heap_clear (&h);
}
END_TEST

int
main (void)
{
  Suite *s = suite_create ("heap");
  TCase *t = tcase_create ("heap");
  tcase_add_test (t, a_new_object_has_empty_slots);
  tcase_add_test (t, objects_do_not_share_slots);
  tcase_add_test (t, a_rollback_restores_overwritten_values_and_removes_young_objects);
  tcase_add_loop_test (t, random_walks_agree_with_a_model_that_copies, 0, 20);
  tcase_add_test (t, a_mark_is_independent_of_the_number_of_objects);
  suite_add_tcase (s, t);
  SRunner *sr = srunner_create (s);
  srunner_run_all (sr, CK_NORMAL);
  int failures = srunner_ntests_failed (sr);
  srunner_free (sr);
  return failures ? 1 : 0;
}
