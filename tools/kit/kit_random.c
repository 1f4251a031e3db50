/* SPDX-License-Identifier: Apache-2.0
 * kit_random.c -- the graphs that cases use: text, small ones that the plugin takes, random ones.
 *
 * A back end that knows three ops would see little of graphs that are drawn from all ops, so the
 * kit first finds out which ops it takes, of the dtypes in its manifest, and draws half of the
 * graphs from these.  Everything follows from the seed, so a failure can be reproduced by itself.
 */
#include <string.h>

#include "core/graph/image.h"
#include "core/run/regions.h"
#include "tools/kit/kit.h"

#define TRIES 6 /* graphs to find out if an op is taken */

/* Returns the dtypes of the manifest, as bits; all dtypes if it names none. */
static uint32_t
manifest_dtypes (const Kit *k)
{
  uint32_t mask = 0;
  for (int d = 0; d < GM_N_DTYPES; d++)
    if (gm_dtypes[d].live
        && g_strv_contains ((const char *const *) k->manifest->dtypes, gm_dtypes[d].text))
      mask |= 1u << d;
  return mask;
}

GmGraph *
kit_text_graph (Kit *k, const char *text)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) graphs = gm_graph_parse (text, &error);
  if (!graphs)
    kit_fail (k, NULL, "the kit's own graph is wrong: %s", error->message);
  return g_ptr_array_steal_index (graphs, 0);
}

/* Makes the outputs of a graph acceptable for a back end: computed by nodes, each once, in memory
 * without gaps. The layers above handle other outputs. Steals g. */
GmGraph *
kit_tidy_outputs (GmGraph *g)
{
  g_autoptr (GHashTable) seen = g_hash_table_new (NULL, NULL);
  g_autoptr (GArray) kept = g_array_new (FALSE, FALSE, sizeof (GmGraphOutput));
  for (uint32_t i = 0; i < g->outputs->len; i++) {
    GmGraphOutput o = g_array_index (g->outputs, GmGraphOutput, i);
    if (gm_graph_value (g, o.value)->node == GM_NO_ID
        || !g_hash_table_add (seen, GUINT_TO_POINTER (o.value + 1)))
      continue;
    if (!gm_meta_is_dense (gm_graph_meta (g, o.value)))
      o.value = gm_graph_add_node (g, GM_OP_copy, &o.value, 1, NULL, NULL, NULL);
    g_array_append_val (kept, o);
  }
  g_array_set_size (g->outputs, 0);
  g_array_append_vals (g->outputs, kept->data, kept->len);
  return g;
}

/* -- Finding the ops that the plugin takes ----------------------------------------------------- */

static bool
takes_op (Kit *k, GmOp op, uint32_t dtypes)
{
  for (uint64_t seed = 0; seed < TRIES; seed++) {
    GmRandomGraph o = {
      .seed = seed * 131 + op, .n_nodes = 1, .dtypes = seed % 2 ? dtypes : 0, .no_empty = true
    };
    gm_op_set_add (&o.ops, op);
    g_autoptr (GmGraph) g = gm_random_graph (&o, NULL);
    g_autofree GmVerdict *v = kit_ask (k, g);
    for (uint32_t i = 0; i < g->nodes->len; i++)
      if (v[i].yes && gm_graph_node (g, i)->op == op)
        return true;
  }
  return false;
}

void
kit_learn (Kit *k)
{
  uint32_t dtypes = manifest_dtypes (k);
  for (int op = 1; op < GM_N_OPS; op++)
    if (gm_ops[op].name && gm_ops[op].family < GM_FAMILY_MUTATE && takes_op (k, (GmOp) op, dtypes))
      gm_op_set_add (&k->ops, op);
  if (gm_op_set_is_empty (&k->ops))
    kit_skip (k, "it takes no op at all");
}

/* -- Graphs ------------------------------------------------------------------------------------ */

GmGraph *
kit_random_graph (Kit *k, uint32_t i, GmRandomGraph more, uint64_t *seed)
{
  more.seed = *seed = k->first_seed + i;
  more.defined_only = true;
  if (gm_op_set_is_empty (&more.ops) && more.seed % 4 < 3) { /* mostly of its own */
    more.ops = k->ops;
    more.dtypes = more.dtypes ? more.dtypes : manifest_dtypes (k);
  }
  kit_seed (k, *seed);
  return kit_tidy_outputs (gm_random_graph (&more, NULL));
}

GmGraph *
kit_small_graph (Kit *k, int64_t rows, int64_t columns)
{
  static const char *const bodies[] = {
    "%0 = mul %x %y\n %1 = add %0 %x\n %2 = neg %1\n",
    "%0 = mul %x %y\n %1 = add %0 %x\n %2 = mul %1 %y\n",
    "%0 = mul %x %y\n",
    "%0 = add %x %y\n",
    "%0 = neg %x\n",
    "%0 = exp %x\n",
  };
  static const char *const results[] = { "%2, %0", "%2, %0", "%0", "%0", "%0", "%0" };
  static const char *const dtypes[] = { "f32", "f64", "f16", "bf16" };
  for (unsigned d = 0; d < G_N_ELEMENTS (dtypes); d++)
    for (unsigned b = 0; b < G_N_ELEMENTS (bodies); b++) {
      g_autofree char *type = g_strdup_printf ("%s[%" G_GINT64_FORMAT ", %" G_GINT64_FORMAT "]",
                                               dtypes[d], rows, columns);
      g_autofree char *text = g_strdup_printf ("small (%%x: %s, %%y: %s) -> (%s) {\n %s}", type,
                                               type, results[b], bodies[b]);
      GmGraph *g = kit_text_graph (k, text);
      if (kit_takes_all (k, g))
        return g;
      gm_graph_free (g);
    }
  kit_learn (k);
  for (uint32_t i = 0; i < 400; i++) {
    uint64_t seed;
    GmRandomGraph o = { .n_nodes = 1, .no_empty = true };
    o.ops = k->ops;
    GmGraph *g = kit_random_graph (k, i, o, &seed);
    if (g->outputs->len && kit_takes_all (k, g))
      return g;
    gm_graph_free (g);
  }
  kit_skip (k, "it takes no small graph as a whole");
}

GmGraph *
kit_chain (Kit *k, int64_t rows, int64_t columns, uint32_t n_nodes)
{
  g_autoptr (GmGraph) small = kit_small_graph (k, rows, columns);
  GmGraph *g = gm_graph_new ("chain", NULL);
  const GmNode *n = gm_graph_node (small, 0);
  GmMeta m = *gm_graph_meta (small, n->in[0]);
  GmValueId x = gm_graph_add_input (g, "x", &m), y = gm_graph_add_input (g, "y", &m), last = x;
  for (uint32_t i = 0; i < n_nodes; i++) {
    GmValueId next =
        gm_graph_add_node (g, n->op, (GmValueId[]){ last, y }, (int) n->n_in, n->attrs, NULL, NULL);
    if (next == GM_NO_ID)
      break;
    last = next;
  }
  if (last == x) {
    gm_graph_free (g);
    return g_steal_pointer (&small);
  }
  gm_graph_add_output (g, last, GM_OUTPUT_USER);
  return g;
}

void
kit_check_random (Kit *k, GmRandomGraph more, GmRandomNumbers numbers)
{
  uint32_t taken = 0;
  kit_open (k);
  kit_learn (k);
  for (uint32_t i = 0; i < k->n_graphs; i++) {
    uint64_t seed;
    g_autoptr (GmGraph) g = kit_random_graph (k, i, more, &seed);
    GmTensor **in = kit_inputs (g, seed, numbers);
    if (g->outputs->len)
      taken += kit_check_graph (k, g, in);
    kit_free_tensors (in, g->inputs->len);
  }
  if (!taken)
    kit_skip (k, "it takes no node of %u random graphs", k->n_graphs);
  kit_close (k);
}
