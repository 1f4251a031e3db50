/* SPDX-License-Identifier: Apache-2.0
 * test_sized.c -- one compiled function for all sizes, in each back end, to the bit.
 *
 * Random graphs with symbols are compiled once and run with several sets of sizes; the reference
 * interprets the graph of numbers.  GM_FUZZ_SIZED sets the number of graphs (default 400; of cc a
 * 20th), GM_FUZZ_SEED the first seed.
 */
#include "core/run/backend.h"
#include "core/run/exec.h"
#include "core/plugin/registry.h"
#include "core/run/sized.h"
#include "core/sym/sizes.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/random_graph.h"
#include "tests/fuzz/symbolic_graph.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ELEMENTS 30000
#define RUNS 6

static const char *backends[] = { "eager", "tcc", "cc" };

static void
fail_with (const char *backend, uint64_t seed, const GmGraph *g, const GmGraph *numbers,
           const char *what)
{
  g_autofree char *text = gm_graph_text (g),
                  *now = numbers ? gm_graph_text (numbers) : g_strdup ("");
  fprintf (stderr, "%s\n%s\n", text, now); /* too long for a message of Check */
  ck_abort_msg ("back end %s, seed %" G_GUINT64_FORMAT ": %s", backend, seed, what);
}

static bool
is_small (const GmGraph *g)
{
  for (uint32_t v = 0; v < g->values->len; v++)
    if (gm_meta_numel (gm_graph_meta (g, v)) > MAX_ELEMENTS)
      return false;
  /* Dense for the example does not mean dense for all. */
  for (uint32_t i = 0; i < g->outputs->len; i++)
    if (!gm_meta_is_dense (gm_graph_meta (g, g_array_index (g->outputs, GmGraphOutput, i).value)))
      return false;
  return true;
}

/* True if a line of one element is read as another dtype: its stride, which is arbitrary for one
 * element, differs from that of all other lengths, so the view is refused. */
static bool
takes_one_element (const GmGraph *g, const int64_t *symbols)
{
  for (uint32_t i = 0; i < g->nodes->len; i++) {
    const GmNode *n = gm_graph_node (g, i);
    const GmMeta *m = n->op == GM_OP_bitcast ? gm_graph_meta (g, n->in[0]) : NULL;
    int64_t last = 0;
    if (m && m->ndim > 0
        && (!gm_sym_eval (g->sym, m->sizes[m->ndim - 1], symbols, &last, NULL) || last == 1))
      return true;
  }
  return false;
}

/* Runs one set of sizes.  False: they were too large, or positions were out of range. */
static bool
run_once (const char *name, uint64_t seed, const GmGraph *g, GmExec *e, const int64_t *symbols,
          bool say_symbols)
{
  g_autoptr (GmArena) arena = gm_arena_new ();
  g_autoptr (GError) error = NULL;
  if (takes_one_element (g, symbols))
    return false;
  g_autoptr (GmGraph) now = gm_graph_specialise (g, symbols, arena, &error);
  if (!now)
    fail_with (name, seed, g, NULL, error->message);
  if (!is_small (now))
    return false;
  uint32_t n_in = g->inputs->len, n_out = g->outputs->len;
  g_autofree GmTensor **in = g_new0 (GmTensor *, n_in + 1), **want = g_new0 (GmTensor *, n_out + 1),
                      **got = g_new0 (GmTensor *, n_out + 1);
  gm_random_inputs (now, seed, GM_RANDOM_WILD, in);
  bool good = gm_graph_interpret (now, in, want, NULL);
  for (uint32_t i = 0; i < n_out && good; i++) {
    got[i] = gm_tensor_new (
        gm_graph_meta (now, g_array_index (now->outputs, GmGraphOutput, i).value), NULL);
    if (got[i]->storage->bytes)
      memset (got[i]->storage->data, 0xa5, got[i]->storage->bytes);
  }
  if (good
      && !gm_exec_run_sized (e, 0, say_symbols ? symbols : NULL, in, (int) n_in, got, (int) n_out,
                             &error))
    fail_with (name, seed, g, now, error->message);
  for (uint32_t i = 0; i < n_out && good; i++) {
    g_autofree char *why = NULL;
    if (!gm_random_equal (want[i], got[i], false, &why)) {
      g_autofree char *text = g_strdup_printf ("output %u differs: %s", i, why);
      fail_with (name, seed, g, now, text);
    }
  }
  for (uint32_t i = 0; i < n_in; i++)
    gm_tensor_unref (in[i]);
  for (uint32_t i = 0; i < n_out && good; i++) {
    gm_tensor_unref (want[i]);
    gm_tensor_unref (got[i]);
  }
  return good;
}

static int
compare_one (const char *name, const GmRandomGraph *options)
{
  g_autoptr (GmArena) arena = gm_arena_new ();
  g_autoptr (GmGraph) plain = gm_random_graph (options, arena);
  gm_fuzz_make_outputs_dense (plain);
  g_autoptr (GmGraph) g = gm_symbolic_graph (plain, options->seed, arena);
  g_autoptr (GError) error = NULL;
  uint64_t state = options->seed;
  int runs = 0;
  if (!g)
    return 0;
  GmBackend *b = gm_backend_get (name, &error);
  ck_assert_msg (b != NULL, "%s", error ? error->message : "");
  g_autoptr (GmExec) e = gm_backend_compile (b, g, NULL, NULL, &error);
  if (!e)
    fail_with (name, options->seed, g, NULL, error->message);
  g_autofree int64_t *symbols = g_new0 (int64_t, gm_sym_n_symbols (g->sym) + 1);
  for (int k = 0; k < RUNS; k++) {
    if (k == 0)
      memcpy (symbols, g->sizes->hints->data, gm_sym_n_symbols (g->sym) * sizeof *symbols);
    else
      gm_symbolic_draw (g, &state, symbols);
    runs += run_once (name, options->seed, g, e, symbols, true);
  }
  return runs;
}

static void
compare_many (const char *name, GmRandomGraph options)
{
  uint64_t n = gm_fuzz_number ("GM_FUZZ_SIZED", 400), first = gm_fuzz_number ("GM_FUZZ_SEED", 1);
  int runs = 0;
  if (!gm_fuzz_has_backend (name))
    return;
  if (strcmp (name, "cc") == 0)
    n = (n + 19) / 20;
  if (strcmp (name, "tcc") == 0)
    n *= 5;
  for (uint64_t seed = first; seed < first + n; seed++) {
    options.seed = seed;
    runs += compare_one (name, &options);
  }
  ck_assert_msg (runs > (int) n, "only %d runs of %d graphs", runs, (int) n);
  if (g_getenv ("GM_FUZZ_SIZED"))
    fprintf (stderr, "%s: %d runs\n", name, runs);
}

/* SYM-02: one function serves the sizes that come after those it was made for. */
START_TEST (every_family_has_the_bits_of_numbers)
{
  compare_many (backends[_i], (GmRandomGraph){ .strided = true, .defined_only = true });
}
END_TEST

START_TEST (fused_loops_have_the_bits_of_numbers)
{
  compare_many (backends[_i],
                (GmRandomGraph){ .strided = true,
                                 .defined_only = true,
                                 .wide = true,
                                 .families = 1u << GM_FAMILY_POINTWISE | 1u << GM_FAMILY_REDUCE
                                             | 1u << GM_FAMILY_CAST | 1u << GM_FAMILY_MOVEMENT
                                             | 1u << GM_FAMILY_CREATE });
}
END_TEST

/* The function of a part gets the sizes, its own scratch and its own buffers of a row. */
START_TEST (loops_in_parts_have_the_bits_of_numbers)
{
  g_setenv ("GM_PARTS", _i % 2 ? "5" : "2", TRUE);
  compare_many (backends[_i],
                (GmRandomGraph){ .strided = true,
                                 .defined_only = true,
                                 .wide = true,
                                 .families = 1u << GM_FAMILY_POINTWISE | 1u << GM_FAMILY_REDUCE
                                             | 1u << GM_FAMILY_MOVEMENT });
}
END_TEST

/* -- Sets of sizes that are kept --------------------------------------------------------------- */

typedef struct {
  GmExec *exec;
  int64_t first; /* first of its sizes */
  int wrong;
} Worker;

/* Runs rows whose workspace is as long as they are: sizes, their metas and the workspace belong to
 * the run. */
static void *
run_many_sizes (void *data)
{
  Worker *w = data;
  for (int64_t k = 0; k < 4 * GM_SIZED_NUMBERS; k++) {
    int64_t n = 1 + (w->first + k * 37) % (3 * GM_SIZED_NUMBERS) * 11;
    GmMeta m = gm_meta_make (GM_F32, 2, (const int64_t[]){ 3, n });
    GmTensor *x = gm_tensor_new (&m, NULL), *y = gm_tensor_new (&m, NULL);
    float *in = gm_tensor_data (x), *out = gm_tensor_data (y);
    for (int64_t i = 0; i < 3 * n; i++)
      in[i] = (float) (i % n);
    for (int again = 0; again < 3; again++) {
      memset (out, 0, (size_t) (3 * n) * sizeof *out);
      w->wrong += !gm_exec_run (w->exec, 0, &x, 1, &y, 1, NULL);
      for (int64_t i = 0; i < 3 * n; i++)
        w->wrong += out[i] != (float) (n * (n - 1) / 2) * (float) (i % n);
    }
    gm_tensor_unref (x);
    gm_tensor_unref (y);
  }
  return NULL;
}

START_TEST (more_sets_of_sizes_than_are_kept_run_at_once)
{
  static const char *const wait[] = { "wait=true", NULL };
  const char *name = backends[_i];
  if (!gm_fuzz_has_backend (name))
    return;
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) parsed =
      gm_graph_parse ("f (%x: f32[3, n]) -> (%2) where 1 <= n {\n %0 = relu %x\n"
                      " %1 = sum %0 dims=[1] keepdim=true\n %2 = mul %0 %1\n}",
                      &error);
  ck_assert_ptr_nonnull (parsed);
  g_autoptr (GmExec) exec = gm_backend_compile (gm_backend_get (name, NULL), parsed->pdata[0], NULL,
                                                strcmp (name, "cc") ? NULL : wait, &error);
  ck_assert_ptr_nonnull (exec);
  Worker workers[4] = { { 0 } };
  GThread *threads[4];
  for (int i = 0; i < 4; i++) {
    workers[i] = (Worker){ exec, i * 5, 0 };
    threads[i] = g_thread_new ("sizes", run_many_sizes, &workers[i]);
  }
  for (int i = 0; i < 4; i++) {
    g_thread_join (threads[i]);
    ck_assert_int_eq (workers[i].wrong, 0);
  }
}
END_TEST

int
main (void)
{
  Suite *s = suite_create ("sized");
  TCase *t = tcase_create ("against numbers");
  tcase_set_timeout (t, 600);
  tcase_add_loop_test (t, every_family_has_the_bits_of_numbers, 0, G_N_ELEMENTS (backends));
  tcase_add_loop_test (t, fused_loops_have_the_bits_of_numbers, 0, G_N_ELEMENTS (backends));
  tcase_add_loop_test (t, loops_in_parts_have_the_bits_of_numbers, 1, G_N_ELEMENTS (backends));
  tcase_add_loop_test (t, more_sets_of_sizes_than_are_kept_run_at_once, 0, G_N_ELEMENTS (backends));
  suite_add_tcase (s, t);
  SRunner *sr = srunner_create (s);
  srunner_run_all (sr, CK_NORMAL);
  int failures = srunner_ntests_failed (sr);
  srunner_free (sr);
  return failures ? 1 : 0;
}
