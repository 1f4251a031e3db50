/* SPDX-License-Identifier: Apache-2.0
 * test_calls.c -- the host's promises about its calls: which are concurrent, with what locks held,
 * and which objects outlive which.
 */
#include "core/run/backend.h"
#include "core/plugin/loader.h"
#include "tests/plugin/hostile.h"

#include <sys/wait.h>
#include <unistd.h>

#define N_THREADS 4

static const char text[] = "forward (%x: f32[3, 5]) -> (%1) {\n %0 = exp %x\n %1 = neg %0\n}";

typedef struct {
  GmBackend *backend;
  GmExec *exec; /* NULL: each thread compiles */
  int overlaps, failures;
} Crowd;

static GmGraph *
graph (void)
{
  g_autoptr (GPtrArray) graphs = gm_graph_parse (text, NULL);
  ck_assert_ptr_nonnull (graphs);
  return g_ptr_array_steal_index (graphs, 0);
}

static void
count (Crowd *c, const GError *error)
{
  if (strstr (error->message, "at once"))
    g_atomic_int_inc (&c->overlaps);
  else
    g_atomic_int_inc (&c->failures);
}

static void
run_once (Crowd *c, GmExec *e)
{
  GmMeta m = gm_meta_make (GM_F32, 2, (const int64_t[]){ 3, 5 });
  g_autoptr (GmTensor) in = gm_tensor_new_zeros (&m, NULL);
  g_autoptr (GmTensor) out = gm_tensor_new_zeros (&m, NULL);
  g_autoptr (GError) error = NULL;
  if (!gm_exec_run (e, GM_EXEC_FORWARD, &in, 1, &out, 1, &error))
    count (c, error);
  else if (gm_scalar_as_double (gm_tensor_get (out, (const int64_t[]){ 2, 4 })) != -1)
    g_atomic_int_inc (&c->failures);
}

static gpointer
work (gpointer data)
{
  Crowd *c = data;
  g_autoptr (GError) error = NULL;
  for (int i = 0; i < 3; i++)
    if (c->exec)
      run_once (c, c->exec);
    else {
      g_autoptr (GmGraph) g = graph ();
      g_autoptr (GmExec) e = gm_backend_compile (c->backend, g, NULL, NULL, &error);
      if (!e)
        count (c, error);
      g_clear_error (&error);
    }
  return NULL;
}

static void
let_work (Crowd *c)
{
  GThread *threads[N_THREADS];
  for (int i = 0; i < N_THREADS; i++)
    threads[i] = g_thread_new ("worker", work, c);
  for (int i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);
  ck_assert_int_eq (c->failures, 0);
}

static GmBackend *
watched (const char *name, const char *flags)
{
  g_autofree char *all = g_strdup_printf ("-lpthread -DNAME=%s %s", name, flags);
  g_autofree char *file =
      hostile_compile (name, "tests/plugin/watched.c plugins/eager/eager_plan.c", all);
  hostile_search (file);
  g_autoptr (GError) error = NULL;
  GmBackend *b = gm_backend_get (name, &error);
  ck_assert_msg (b != NULL, "%s", error ? error->message : "");
  return b;
}

/* GPH-14.  A plugin without flags is compiled with by many threads and run by one; one with other
 * flags is believed.  That calls of others overlap shows that the test would see that. */
START_TEST (the_flags_of_a_manifest_say_what_is_called_at_once)
{
  static const struct {
    const char *name, *flags;
    bool compiles, runs; /* at once */
  } rows[] = { { "plain", "", true, false },
               { "serial", "-DSERIAL", false, false },
               { "concurrent", "-DCONCURRENT", true, true },
               { "both", "-DSERIAL -DCONCURRENT", false, true } };
  for (unsigned i = 0; i < G_N_ELEMENTS (rows); i++) {
    Crowd c = { .backend = watched (rows[i].name, rows[i].flags) };
    let_work (&c);
    ck_assert_msg ((c.overlaps > 0) == rows[i].compiles, "%s: %d compiles at once", rows[i].name,
                   c.overlaps);
    g_autoptr (GmGraph) g = graph ();
    c.overlaps = 0;
    c.exec = gm_backend_compile (c.backend, g, NULL, NULL, NULL);
    ck_assert_ptr_nonnull (c.exec);
    let_work (&c);
    ck_assert_msg ((c.overlaps > 0) == rows[i].runs, "%s: %d runs at once", rows[i].name,
                   c.overlaps);
    gm_exec_unref (c.exec);
  }
}
END_TEST

static gpointer
run_a_while (gpointer data)
{
  Crowd *c = data;
  for (int i = 0; i < 5; i++)
    run_once (c, c->exec);
  gm_exec_unref (c->exec);
  return NULL;
}

/* GPH-15.  The plugin aborts if an executable is destroyed while it runs. */
START_TEST (what_runs_is_not_destroyed)
{
  Crowd c = { .backend = watched ("watched", "-DCONCURRENT") };
  g_autoptr (GmGraph) g = graph ();
  c.exec = gm_backend_compile (c.backend, g, NULL, NULL, NULL);
  ck_assert_ptr_nonnull (c.exec);
  gm_exec_ref (c.exec);
  GThread *runner = g_thread_new ("runner", run_a_while, &c); /* has a reference of its own */
  g_usleep (30000);
  for (int i = 0; i < 20; i++) { /* another user's reference */
    gm_exec_unref (gm_exec_ref (c.exec));
    g_usleep (1000);
  }
  gm_exec_unref (c.exec); /* ours, most likely while it runs */
  g_thread_join (runner);
  ck_assert_int_eq (c.failures, 0);
}
END_TEST

/* GPH-1.  The code of a plugin that is refused after loading stays in memory, since it may still
 * run. */
START_TEST (a_refused_plugin_stays_in_memory)
{
  g_autofree char *file = hostile_build ("refused", "OPEN_FAILS", NULL);
  GmRefused why = { 0 };
  GmPlugin *p = gm_loader_load (file, &why);
  if (p) {
    ck_assert_ptr_null (gm_loader_open (p, &why));
    ck_assert_int_eq (why.code, GM_REFUSAL_OPENED);
  }
  g_autofree char *maps = NULL;
  g_autofree char *other = hostile_build ("query", "REFUSES", NULL);
  GmRefused no = { 0 };
  g_setenv ("GM_PROGRAM", "/nonexistent", TRUE); /* so that it is not tried first */
  ck_assert_ptr_null (gm_loader_load (other, &no));
  ck_assert_int_eq (no.code, GM_REFUSAL_QUERY);
  ck_assert (g_file_get_contents ("/proc/self/maps", &maps, NULL, NULL));
  ck_assert_msg (strstr (maps, other) != NULL, "%s was unloaded", other);
  gm_refused_clear (&why);
  gm_refused_clear (&no);
}
END_TEST

/* Uses a back end in the child of a fork.  Returns 0 if it works; 1 if it is refused with a reason;
 * else the step that failed. */
static int
use_in_child (GmBackend *b, GmExec *e)
{
  GmMeta m = gm_meta_make (GM_F32, 2, (const int64_t[]){ 3, 5 });
  g_autoptr (GmTensor) in = gm_tensor_new_zeros (&m, NULL), out = gm_tensor_new_zeros (&m, NULL);
  g_autoptr (GmGraph) g = graph ();
  GError *errors[3] = { NULL }; /* never freed: the process ends soon */
  bool runs = gm_exec_run (e, GM_EXEC_FORWARD, &in, 1, &out, 1, &errors[0]);
  GmExec *other = gm_backend_compile (b, g, NULL, NULL, &errors[1]);
  bool found = gm_backend_get (gm_backend_name (b), &errors[2]) == b;
  gm_exec_unref (e); /* must not call the plugin, either */
  if (runs && other && found)
    return 0;
  for (int i = 0; i < 3; i++)
    if (!errors[i] || !strstr (errors[i]->message, "forked after")
        || !strstr (errors[i]->message, "spawn"))
      return 2 + i;
  return 1;
}

/* GPH-21.  The plugin aborts if it is called in another process than the one that opened it. */
START_TEST (after_a_fork_a_device_is_refused_and_a_processor_is_not)
{
  static const struct {
    const char *name, *flags;
    int in_child;
  } rows[] = { { "processor", "", 0 }, { "device", "-DDEVICE=cuda", 1 } };
  for (unsigned i = 0; i < G_N_ELEMENTS (rows); i++) {
    Crowd c = { .backend = watched (rows[i].name, rows[i].flags) };
    g_autoptr (GmGraph) g = graph ();
    int status;
    c.exec = gm_backend_compile (c.backend, g, NULL, NULL, NULL);
    ck_assert_ptr_nonnull (c.exec);
    pid_t child = fork ();
    if (child == 0)
      _exit (use_in_child (c.backend, c.exec));
    ck_assert_int_eq (waitpid (child, &status, 0), child);
    ck_assert_msg (WIFEXITED (status) && WEXITSTATUS (status) == rows[i].in_child,
                   "%s: the child ends with %#x", rows[i].name, status);
    run_once (&c, c.exec); /* its parent goes on */
    ck_assert_int_eq (c.failures + c.overlaps, 0);
    gm_exec_unref (c.exec);
  }
}
END_TEST

int
main (void)
{
  Suite *s = suite_create ("calls");
  TCase *t = tcase_create ("calls");
  tcase_add_checked_fixture (t, hostile_setup, hostile_teardown);
  tcase_set_timeout (t, 300);
  tcase_add_test (t, the_flags_of_a_manifest_say_what_is_called_at_once);
  tcase_add_test (t, what_runs_is_not_destroyed);
  tcase_add_test (t, a_refused_plugin_stays_in_memory);
  tcase_add_test (t, after_a_fork_a_device_is_refused_and_a_processor_is_not);
  suite_add_tcase (s, t);
  SRunner *sr = srunner_create (s);
  srunner_run_all (sr, CK_NORMAL);
  int failures = srunner_ntests_failed (sr);
  srunner_free (sr);
  return failures ? 1 : 0;
}
