/* SPDX-License-Identifier: Apache-2.0
 * fuzz_backend.c -- random graphs through a plugin, compared bit by bit with the interpreter.
 *
 *   fuzz_backend [BACKEND [GRAPHS [FIRST_SEED]]]      default: eager 2000 1
 *
 * Each graph runs twice on different numbers, so that the second run finds the first one's
 * workspace.  Prints the seed and the graph of the first difference; exit status 1.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/plugin/backend.h"
#include "tests/fuzz/random_graph.h"

/* An output whose own elements share memory cannot be written to: no caller has one. */
static void
drop_overlapping_outputs (GmGraph *g)
{
  for (uint32_t i = g->outputs->len; i-- > 0;)
    if (gm_meta_overlaps_itself (
            gm_graph_meta (g, g_array_index (g->outputs, GmGraphOutput, i).value)))
      g_array_remove_index (g->outputs, i);
}

static GmTensor *
output_for (const GmMeta *m)
{
  GmMeta line = gm_meta_make (m->dtype, 1, (const int64_t[]){ gm_meta_extent (m) });
  g_autoptr (GmTensor) memory = gm_tensor_new (&line, NULL);
  g_assert (memory);
  if (memory->storage->bytes)
    memset (memory->storage->data, 0xa5, memory->storage->bytes);
  return gm_tensor_new_view (memory, m, 0);
}

static char *
compare_run (GmExec *e, const GmGraph *g, uint64_t seed)
{
  guint n_in = g->inputs->len, n_out = g->outputs->len;
  g_autofree GmTensor **in = g_new0 (GmTensor *, n_in + 1), **out = g_new0 (GmTensor *, n_out + 1),
                      **want = g_new0 (GmTensor *, n_out + 1);
  g_autoptr (GError) plain = NULL;
  g_autoptr (GError) error = NULL;
  char *why = NULL;
  gm_random_inputs (g, seed, GM_RANDOM_WILD, in);
  for (guint i = 0; i < n_out; i++)
    out[i] = output_for (gm_graph_meta (g, g_array_index (g->outputs, GmGraphOutput, i).value));
  bool expected = gm_graph_interpret (g, in, want, &plain);
  bool good = gm_exec_run (e, GM_EXEC_FORWARD, in, (int) n_in, out, (int) n_out, &error);
  if (expected != good)
    why = g_strdup_printf ("interpreter: %s; back end: %s", plain ? plain->message : "fine",
                           error ? error->message : "fine");
  for (guint i = 0; expected && good && !why && i < n_out; i++) {
    char *where = NULL;
    if (!gm_random_equal (out[i], want[i], true, &where)) {
      why = g_strdup_printf ("output %u: %s", i, where);
      g_free (where);
    }
  }
  for (guint i = 0; i < n_in; i++)
    gm_tensor_unref (in[i]);
  for (guint i = 0; i < n_out; i++) {
    gm_tensor_unref (out[i]);
    if (expected)
      gm_tensor_unref (want[i]);
  }
  return why;
}

static bool
try_seed (GmBackend *b, uint64_t seed, unsigned *fallbacks)
{
  const GmRandomGraph options = { .seed = seed, .strided = seed % 2 };
  g_autoptr (GmGraph) g = gm_random_graph (&options, NULL);
  g_autoptr (GError) error = NULL;
  drop_overlapping_outputs (g);
  g_autoptr (GmExec) e = gm_backend_compile (b, g, NULL, NULL, &error);
  g_autofree char *why = e ? compare_run (e, g, seed) : g_strdup (error->message);
  if (!why)
    why = compare_run (e, g, ~seed);
  *fallbacks += e && gm_exec_fallback_reason (e);
  if (why) {
    g_autofree char *text = gm_graph_text (g);
    fprintf (stderr, "seed %llu: %s\n%s", (unsigned long long) seed, why, text);
  }
  return why == NULL;
}

int
main (int argc, char **argv)
{
  const char *name = argc > 1 ? argv[1] : "eager";
  unsigned n = argc > 2 ? (unsigned) strtoul (argv[2], NULL, 10) : 2000, fallbacks = 0;
  uint64_t first = argc > 3 ? strtoull (argv[3], NULL, 10) : 1;
  g_autoptr (GError) error = NULL;
  GmBackend *b = gm_backend_get (name, &error);
  if (!b) {
    fprintf (stderr, "%s\n", error->message);
    return 1;
  }
  for (uint64_t seed = first; seed < first + n; seed++)
    if (!try_seed (b, seed, &fallbacks))
      return 1;
  printf ("%u graphs through %s, %u of them in the host's eager: equal bits\n", n, name, fallbacks);
  return 0;
}
