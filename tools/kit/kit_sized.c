/* SPDX-License-Identifier: Apache-2.0
 * kit_sized.c -- graphs whose sizes are symbols.
 *
 * A plugin that takes all nodes of such a graph compiles it once, and is given the values of the
 * image's `sizes` at each run: 0, 1 and large ones among them.  A plugin that says NO never sees
 * symbols again: the host passes it the graph of each run's numbers.  The reference is the
 * interpreter on that graph in both cases.
 */
#include <string.h>

#include "core/graph/image.h"
#include "core/sym/sizes.h"
#include "tests/fuzz/symbolic_graph.h"
#include "tools/kit/kit.h"

#define MAX_ELEMENTS 200000

/* clang-format off */
const char *const kit_sized_texts[] = { /* the simplest first */
  "grows (%x: f32[n, 3], %y: f32[n, 3]) -> (%2) where n = 7 {\n %0 = add %x %y : f32[n, 3]\n %1 = mul %0 %x : f32[n, 3]\n %2 = exp %1 : f32[n, 3]\n}",
  "plain (%x: f32[n], %y: f32[n]) -> (%1) where n = 7 {\n %0 = mul %x %y : f32[n]\n %1 = add %0 %x : f32[n]\n}",
  "batch (%x: f32[n, 3, 4], %y: f32[n, 3, 4]) -> (%1, %0) where n = 7 {\n %0 = mul %x %y : f32[n, 3, 4]\n %1 = add %0 %x : f32[n, 3, 4]\n}",
  "columns (%x: f32[3, n], %y: f32[3, n]) -> (%1) where n = 7 {\n %0 = mul %x %y : f32[3, n]\n %1 = add %0 %x : f32[3, n]\n}",
  "shrinks (%x: f32[n, 4]) -> (%1) where n = 7 {\n %0 = mul %x %x : f32[n, 4]\n %1 = sum %0 dims=[1] keepdim=false : f32[n]\n}",
  "product (%x: f32[n, m], %y: f32[m, 5]) -> (%1) where n = 7, m = 4 {\n %0 = matmul %x %y : f32[n, 5]\n %1 = tanh %0 : f32[n, 5]\n}",
  NULL,
};
/* clang-format on */

/* True if every output is dense for these numbers, and no tensor is so large that the case would
 * take long. */
static bool
is_fit (const GmGraph *now)
{
  for (uint32_t v = 0; v < now->values->len; v++)
    if (gm_meta_numel (gm_graph_meta (now, v)) > MAX_ELEMENTS)
      return false;
  for (uint32_t i = 0; i < now->outputs->len; i++)
    if (!gm_meta_is_dense (
            gm_graph_meta (now, g_array_index (now->outputs, GmGraphOutput, i).value)))
      return false;
  return true;
}

/* Computes the `sizes` of a run. False: a size has no value for these numbers. */
static bool
values_of (const GmGraph *g, const GmImage *image, const int64_t *symbols, int64_t *values)
{
  for (uint32_t i = 0; i < image->bytes->sizes.count; i++)
    if (!gm_sym_eval (g->sym, gm_size_from_row (image->size_rows[i]), symbols, &values[i], NULL))
      return false;
  return true;
}

static char *
numbers_text (const GmGraph *g, const int64_t *symbols)
{
  GString *s = g_string_new (NULL);
  for (uint32_t i = 0; i < gm_sym_n_symbols (g->sym); i++)
    g_string_append_printf (s, "%s%s = %" G_GINT64_FORMAT, i ? ", " : "",
                            gm_sizes_symbol_name (g->sizes, i), symbols[i]);
  return g_string_free (s, FALSE);
}

/* Runs the graph with these values of its symbols and compares. e NULL: the plugin gets the graph
 * of numbers. */
static void
run_with (Kit *k, const GmGraph *g, const GmImage *image, GrammeExecutable *e,
          const int64_t *symbols, uint64_t seed)
{
  g_autoptr (GmArena) arena = gm_arena_new ();
  g_autoptr (GmGraph) now = gm_graph_specialise (g, symbols, arena, NULL);
  g_autofree int64_t *values = g_new0 (int64_t, image->bytes->sizes.count + 1);
  if (!now || !is_fit (now) || !values_of (g, image, symbols, values))
    return;
  g_autofree char *text = numbers_text (g, symbols);
  kit_doing (k, "running with %s", text);
  GmTensor **in = kit_inputs (now, seed, GM_RANDOM_TAME);
  if (!e)
    kit_check_graph (k, now, in);
  else {
    GmTensor **want = kit_interpret (k, now, in);
    k->sizes = values;
    k->n_sizes = image->bytes->sizes.count;
    kit_run (k, e, GRAMME_FORWARD, now, in, want, NULL);
    k->sizes = NULL;
    k->n_sizes = 0;
    kit_free_tensors (want, now->outputs->len);
  }
  kit_free_tensors (in, now->inputs->len);
}

bool
kit_check_sized (Kit *k, const GmGraph *symbolic, uint64_t seed, uint32_t n_sets)
{
  g_autoptr (GmArena) arena = gm_arena_new ();
  g_autoptr (GmGraph) g = gm_graph_settle (symbolic, arena);
  g_autoptr (GmImage) image = gm_image_new (g, NULL);
  g_autofree int64_t *symbols = g_new0 (int64_t, gm_sym_n_symbols (g->sym) + 1);
  uint64_t state = seed;
  if (!image || image->bytes->sizes.count == 0)
    return false;
  GrammeExecutable *e = kit_takes_all (k, g) ? kit_compile (k, g, NULL) : NULL;
  for (uint32_t i = 0; i < n_sets; i++) { /* the first numbers recur after others */
    uint64_t again = seed;
    gm_symbolic_draw (symbolic, i % 3 == 2 ? &again : &state, symbols);
    run_with (k, g, image, e, symbols, seed + i);
  }
  if (e)
    kit_destroy (k, e);
  return e != NULL;
}

void
kit_numeric_sized (Kit *k)
{
  uint32_t taken = 0, tried = 0;
  kit_open (k);
  kit_learn (k);
  for (const char *const *t = kit_sized_texts; *t; t++) {
    g_autoptr (GmGraph) g = kit_text_graph (k, *t);
    tried++;
    taken += kit_check_sized (k, g, k->first_seed, 7);
  }
  for (uint32_t i = 0; i < k->n_graphs; i++) {
    uint64_t seed;
    g_autoptr (GmArena) arena = gm_arena_new ();
    g_autoptr (GmGraph) plain = kit_random_graph (
        k, i, (GmRandomGraph){ .n_nodes = 8, .strided = true, .no_empty = true }, &seed);
    g_autoptr (GmGraph) g = plain->outputs->len ? gm_symbolic_graph (plain, seed, arena) : NULL;
    if (!g)
      continue;
    tried++;
    taken += kit_check_sized (k, g, seed, 4);
  }
  kit_note (k, "it takes %u of %u graphs of sizes that are expressions", taken, tried);
  kit_close (k);
}
