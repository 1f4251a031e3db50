/* SPDX-License-Identifier: Apache-2.0
 * sized.c -- what it costs that a kernel serves all sizes.
 *
 *   ./in-tree bench/sized [ROUNDS]      300; of each form the best, the two in turns
 *   ./in-tree bench/sized queries       what is asked of sizes while a program is recorded, in a
 * millisecond
 *
 * For each graph, size and back end: a run of the code compiled for symbols, a run of the code
 * compiled for these numbers, and their ratio; then what a run costs whose sizes are not those of
 * the one before.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/run/backend.h"

static const struct {
  const char *name, *text;
} graphs[] = {
  { "pointwise", "f (%x: f32[n, 64], %y: f32[n, 64]) -> (%4) {\n %0 = mul %x %y\n %1 = add %0 %y\n "
                 "%2 = sub %1 %x\n"
                 " %3 = mul %2 %0\n %4 = maximum %3 %x\n}" },
  { "softmax", "f (%x: f32[64, n]) -> (%4) where 1 <= n {\n %0 = amax %x dims=[1] keepdim=true\n "
               "%1 = sub %x %0\n %2 = exp %1\n"
               " %3 = sum %2 dims=[1] keepdim=true\n %4 = div %2 %3\n}" },
  { "rows",
    "f (%x: f32[n, 96]) -> (%1) {\n %0 = square %x\n %1 = sum %0 dims=[1] keepdim=false\n}" },
  { "columns", "f (%x: f32[n, 96]) -> (%0) {\n %0 = sum %x dims=[0] keepdim=false\n}" },
  { "linear", "f (%x: f32[n, 64], %w: f32[64, 64]) -> (%2) {\n %0 = matmul %x %w\n %1 = tanh %0\n "
              "%2 = mul %1 %1\n}" },
};
static const int64_t sizes[] = { 1, 7, 64, 100, 1000, 4096 };

static double
now_us (void)
{
  struct timespec t;
  clock_gettime (CLOCK_MONOTONIC, &t);
  return (double) t.tv_sec * 1e6 + (double) t.tv_nsec / 1e3;
}

static void
must (bool good, const GError *error)
{
  if (good)
    return;
  fprintf (stderr, "%s\n", error ? error->message : "it failed");
  exit (2);
}

/* Tensors for the graph of numbers: inputs, then outputs. */
static void
make_tensors (const GmGraph *g, GmTensor **t)
{
  uint32_t n_in = g->inputs->len;
  for (uint32_t i = 0; i < n_in + g->outputs->len; i++) {
    GmValueId v = i < n_in ? g_array_index (g->inputs, GmValueId, i)
                           : g_array_index (g->outputs, GmGraphOutput, i - n_in).value;
    t[i] = gm_tensor_new (gm_graph_meta (g, v), NULL);
    must (t[i] != NULL, NULL);
    float *x = gm_tensor_data (t[i]);
    for (int64_t k = 0; k < gm_meta_numel (&t[i]->meta); k++)
      x[k] = (float) (k % 17) / 16 - 0.5f;
  }
}

/* A run, of so many that the clock's own time is nothing. */
static double
run_us (GmExec *e, GmTensor **t, int n_in, int n_out, int times)
{
  GError *error = NULL;
  bool good = true;
  double start = now_us ();
  for (int i = 0; i < times; i++)
    good = good && gm_exec_run (e, 0, t, n_in, t + n_in, n_out, &error);
  double took = now_us () - start;
  must (good, error);
  return took / times;
}

static void
compare (GmBackend *b, const char *const *options, const char *name, const GmGraph *g, int rounds)
{
  GError *error = NULL;
  g_autoptr (GmExec) all = gm_backend_compile (b, g, NULL, options, &error);
  must (all != NULL, error);
  GmTensor *other[8];
  for (size_t s = 0; s < G_N_ELEMENTS (sizes); s++) {
    g_autoptr (GmArena) arena = gm_arena_new ();
    g_autoptr (GmGraph) now = gm_graph_specialise (g, &sizes[s], arena, &error);
    must (now != NULL, error);
    g_autoptr (GmExec) one = gm_backend_compile (b, now, NULL, options, &error);
    must (one != NULL, error);
    GmTensor *t[8];
    int n_in = (int) g->inputs->len, n_out = (int) g->outputs->len;
    double best[3] = { 1e12, 1e12, 1e12 };
    make_tensors (now, t);
    run_us (one, t, n_in, n_out, 1);
    int times = (int) CLAMP (10 / run_us (one, t, n_in, n_out, 1), 1, 200);
    for (int i = 0; i < rounds; i++) {
      best[0] = MIN (best[0], run_us (all, t, n_in, n_out, times));
      best[1] = MIN (best[1], run_us (one, t, n_in, n_out, times));
      if (s > 0) {
        run_us (all, other, n_in, n_out, 1);
        best[2] = MIN (best[2], run_us (all, t, n_in, n_out, 1));
      }
    }
    printf ("%-6s %-10s %6d %12.3f %12.3f %8.2f", gm_backend_name (b), name, (int) sizes[s],
            best[0], best[1], best[0] / best[1]);
    printf (s > 0 ? " %12.2f\n" : "\n", best[2]);
    if (s == 0)
      memcpy (other, t, sizeof other);
    else
      for (int i = 0; i < n_in + n_out; i++)
        gm_tensor_unref (t[i]);
    if (s + 1 == G_N_ELEMENTS (sizes))
      for (int i = 0; i < n_in + n_out; i++)
        gm_tensor_unref (other[i]);
  }
}

/* -- Questions --------------------------------------------------------------------------------- */

/* Asks what a block of a transformer asks of sizes when its batch and length are symbols: shapes
 * that meet, views, strides, parts: comparisons, broadcasting, divisibility.  Returns how many. */
static int
ask_all (GmSizes *s, int64_t batch, int64_t length)
{
  GmTruth truth = GM_UNKNOWN;
  int n = 0;
  int64_t width = 64, heads = 4, rows = gm_sizes_op (s, GM_SYM_MUL, batch, length),
          all = gm_sizes_op (s, GM_SYM_MUL, rows, width),
          scores = gm_sizes_op (s, GM_SYM_MUL, gm_sizes_op (s, GM_SYM_MUL, rows, length), heads),
          half = gm_sizes_op (s, GM_SYM_FLOORDIV, all, 2),
          last = gm_sizes_op (s, GM_SYM_ADD, length, -1);
  const int64_t sizes[] = { batch, length, width, rows, all, scores, half, last, 1, 0 };
  for (size_t i = 0; i < G_N_ELEMENTS (sizes); i++) {
    for (size_t k = 0; k < i; k++) {
      int64_t out;
      for (int rel = 0; rel < GM_N_RELS; rel++, n++)
        truth ^= gm_sizes_ask (s, (GmRel) rel, sizes[i], sizes[k]);
      truth ^= gm_size_facts_broadcast (s->facts, sizes[i], sizes[k], &out);
      n++;
    }
    for (int64_t by = 2; by <= 64; by *= 4, n++)
      truth ^= gm_sizes_ask (s, GM_REL_EQ, gm_sizes_op (s, GM_SYM_MOD, sizes[i], by), 0);
  }
  return (int) truth > 7 ? 0 : n; /* so that the answers are used */
}

static void
time_queries (void)
{
  double best[2] = { 0, 0 };
  for (int k = 0; k < 20; k++) {
    g_autoptr (GmSizes) s = gm_sizes_new ();
    int64_t batch = gm_sizes_symbol (s, "b", 8), length = gm_sizes_symbol (s, "n", 100);
    gm_size_facts_add (s->facts, GM_REL_LE, 2, batch);
    gm_size_facts_add (s->facts, GM_REL_LE, 2, length);
    int n = 0;
    double start = now_us ();
    for (int layer = 0; layer < 12; layer++) {
      n += ask_all (s, batch, length);
      if (layer == 0)
        best[0] = MAX (best[0], n / (now_us () - start) * 1000);
    }
    best[1] = MAX (best[1], n / (now_us () - start) * 1000);
  }
  printf ("%.0f questions a millisecond in the first of twelve equal layers, %.0f in all of them\n",
          best[0], best[1]);
}

int
main (int argc, char **argv)
{
  if (argc > 1 && strcmp (argv[1], "queries") == 0) {
    time_queries ();
    return 0;
  }
  static const char *const wait[] = { "wait=true", NULL };
  int rounds = argc > 1 ? atoi (argv[1]) : 300;
  printf ("%-6s %-10s %6s %12s %12s %8s %12s\n", "", "graph", "n", "symbols us", "numbers us",
          "ratio", "new n us");
  for (int cc = 0; cc < 2; cc++)
    for (size_t k = 0; k < G_N_ELEMENTS (graphs); k++) {
      GError *error = NULL;
      g_autoptr (GPtrArray) parsed = gm_graph_parse (graphs[k].text, &error);
      must (parsed != NULL, error);
      GmBackend *b = gm_backend_get (cc ? "cc" : "tcc", &error);
      must (b != NULL, error);
      compare (b, cc ? wait : NULL, graphs[k].name, parsed->pdata[0], rounds);
    }
  return 0;
}
