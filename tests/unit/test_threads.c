/* SPDX-License-Identifier: Apache-2.0
 * test_threads.c -- eight threads at once in all functions of core/plugin that any thread may call.
 *
 * They list, load, compile and run the same things at the same time, in different orders; results
 * are the reference's, to the bit.  Built with the thread sanitizer (make check-threads) a race is
 * a failure.
 */
#include "core/run/backend.h"
#include "core/plugin/registry.h"
#include "core/sym/sizes.h"
#include "tests/fuzz/random_graph.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#define N_THREADS 8
#define N_SETS 4
#define MAX_BACKENDS 8
#define ROUNDS 12

/* Graphs: one that any plugin takes as a whole, one of which some take a part, one for the host's
 * threads, one of symbolic sizes. */
static const char *const texts[] = {
  "forward (%x: f32[7, 33], %y: f32[7, 33]) -> (%2) {\n %0 = mul %x %y\n %1 = add %0 %x\n %2 = mul "
  "%1 %y\n}",
  "forward (%x: f32[7, 33], %y: f32[7, 33]) -> (%2, %3) {\n %0 = add %x %y\n %1 = cumsum %0 dim=1 "
  "reverse=false\n %2 = mul %1 %y\n"
  " %3 = sum %2 dims=[1] keepdim=false\n}",
  "forward (%x: f32[200, 120], %y: f32[120, 90]) -> (%1) {\n %0 = matmul %x %y\n %1 = tanh %0\n}",
  "forward (%x: f32[n, 3], %y: f32[n, 3]) -> (%2) {\n %0 = mul %x %y : f32[n, 3]\n %1 = add %0 %x "
  ": f32[n, 3]\n"
  " %2 = mul %1 %y : f32[n, 3]\n}",
};
#define N_GRAPHS G_N_ELEMENTS (texts)
static const int64_t sizes[N_SETS] = { 1, 5, 64, 700 };

/* Inputs of a graph, and the expected results. */
typedef struct {
  int64_t symbol;
  GmTensor *in[2], *want[2];
} Set;

typedef struct {
  GmGraph *g;
  Set sets[N_SETS];
} Case;

static GmArena *arena;
static Case cases[N_GRAPHS];
static char *names[MAX_BACKENDS];
static unsigned n_names;
static GmBackend *backends[MAX_BACKENDS];      /* as the first thread got them */
static GmExec *shared[MAX_BACKENDS][N_GRAPHS]; /* run by all threads */
static int failures;

static void
note (const char *what, const char *name, const GError *error)
{
  fprintf (stderr, "%s, back end %s: %s\n", what, name, error ? error->message : "");
  g_atomic_int_inc (&failures);
}

static void
set_up (void)
{
  g_autoptr (GPtrArray) all = gm_registry_scan ();
  arena = gm_arena_new ();
  for (guint i = 0; i < all->len && n_names < MAX_BACKENDS; i++) {
    const GmPluginInfo *info = all->pdata[i];
    if (!info->refused.code && strcmp (info->name, "nvrtc") != 0) /* may have no GPU to run on */
      names[n_names++] = g_strdup (info->name);
  }
  for (unsigned c = 0; c < N_GRAPHS; c++) {
    g_autoptr (GPtrArray) parsed = gm_graph_parse (texts[c], NULL);
    ck_assert_ptr_nonnull (parsed);
    cases[c].g = g_ptr_array_steal_index (parsed, 0);
    for (unsigned s = 0; s < N_SETS; s++) {
      Set *set = &cases[c].sets[s];
      set->symbol = sizes[s];
      GmGraph *now = gm_graph_specialise (cases[c].g, &set->symbol, arena, NULL);
      ck_assert_ptr_nonnull (now);
      gm_random_inputs (now, s + 1, GM_RANDOM_TAME, set->in);
      ck_assert (gm_graph_interpret (now, set->in, set->want, NULL));
    }
  }
}

static void
run_once (GmExec *e, const char *name, const Case *c, const Set *set)
{
  GmTensor *got[2] = { NULL };
  g_autoptr (GError) error = NULL;
  int n_out = (int) c->g->outputs->len;
  for (int i = 0; i < n_out; i++)
    got[i] = gm_tensor_new (&set->want[i]->meta, NULL);
  bool good = gm_exec_run_sized (e, GM_EXEC_FORWARD, &set->symbol, set->in, 2, got, n_out, &error);
  if (!good)
    note ("a run", name, error);
  for (int i = 0; i < n_out; i++) {
    if (good && !gm_random_equal (set->want[i], got[i], false, NULL))
      note ("a wrong result", name, NULL);
    gm_tensor_unref (got[i]);
  }
}

/* -- What the threads do ----------------------------------------------------------------------- */

static gpointer
list_and_load (gpointer data)
{
  unsigned first = GPOINTER_TO_UINT (data);
  for (unsigned k = 0; k < n_names; k++) {
    unsigned i = (first + k) % n_names;
    g_autoptr (GError) error = NULL;
    g_autoptr (GPtrArray) all = gm_registry_scan ();
    GmBackend *b = gm_backend_get (names[i], &error), *none = NULL;
    if (all->len < n_names || !b)
      note ("loading", names[i], error);
    if (!__atomic_compare_exchange_n (&backends[i], &none, b, false, __ATOMIC_ACQ_REL,
                                      __ATOMIC_ACQUIRE)
        && none != b)
      note ("two instances", names[i], NULL);
  }
  return NULL;
}

static gpointer
compile_and_run (gpointer data)
{
  unsigned first = GPOINTER_TO_UINT (data);
  for (unsigned k = 0; k < n_names * N_GRAPHS; k++) {
    unsigned i = (first + k) % n_names, c = (first + k) / n_names % N_GRAPHS;
    g_autoptr (GError) error = NULL;
    g_autoptr (GmExec) e = gm_backend_compile (backends[i], cases[c].g, NULL, NULL, &error);
    GmExec *none = NULL;
    if (!e) {
      note ("compiling", names[i], error);
      continue;
    }
    for (unsigned s = 0; s < N_SETS; s++)
      run_once (e, names[i], &cases[c], &cases[c].sets[(first + s) % N_SETS]);
    g_free (gm_exec_places_text (e, true));
    if (__atomic_compare_exchange_n (&shared[i][c], &none, e, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE))
      gm_exec_ref (e);
  }
  return NULL;
}

static gpointer
run_shared (gpointer data)
{
  unsigned first = GPOINTER_TO_UINT (data);
  for (unsigned k = 0; k < ROUNDS * n_names * N_GRAPHS; k++) {
    unsigned i = (first + k) % n_names, c = (first + k) / n_names % N_GRAPHS;
    GmExec *e = gm_exec_ref (shared[i][c]);
    run_once (e, names[i], &cases[c], &cases[c].sets[(first + k) % N_SETS]);
    gm_exec_unref (e);
  }
  return NULL;
}

static void
at_once (GThreadFunc what)
{
  GThread *threads[N_THREADS];
  for (unsigned i = 0; i < N_THREADS; i++)
    threads[i] = g_thread_new ("worker", what, GUINT_TO_POINTER (i));
  for (unsigned i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);
  ck_assert_int_eq (failures, 0);
}

/* GPP-13, GPH-14: the tags [any], [load], [compile] and [run] hold for our back ends and for the
 * host. */
START_TEST (eight_threads_list_load_compile_and_run_at_once)
{
  set_up ();
  ck_assert_uint_gt (n_names, 1);
  at_once (list_and_load);
  at_once (compile_and_run);
  at_once (run_shared);
  for (unsigned i = 0; i < n_names; i++)
    for (unsigned c = 0; c < N_GRAPHS; c++)
      gm_exec_unref (shared[i][c]);
}
END_TEST

int
main (void)
{
  Suite *s = suite_create ("threads");
  TCase *t = tcase_create ("threads");
  tcase_set_timeout (t, 600);
  tcase_add_test (t, eight_threads_list_load_compile_and_run_at_once);
  suite_add_tcase (s, t);
  SRunner *sr = srunner_create (s);
  srunner_run_all (sr, CK_NORMAL);
  int failed = srunner_ntests_failed (sr);
  srunner_free (sr);
  return failed ? 1 : 0;
}
