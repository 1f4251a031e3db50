/* SPDX-License-Identifier: Apache-2.0
 * layer_facts.c -- derives the facts about a graph's inputs and outputs, to check a layer against
 * its own prediction.
 *
 * A layer that merges inputs or adds outputs has to know afterwards which inputs are written, what
 * each output shares memory with, what requires grad.  It foretells that from its argument and from
 * its own notes; debug builds derive it once more from the graph that it made.  Where the two
 * differ, a shim would do the wrong thing with the right graph.
 */
#include "core/aot/layer_facts.h"

#include <string.h>

GmFacts *
gm_layer_facts_new (GmArena *arena, uint32_t n_inputs, uint32_t n_outputs)
{
  GmFacts *f = gm_arena_newn (arena, GmFacts, 1);

  f->n_inputs = n_inputs;
  f->n_outputs = n_outputs;
  f->inputs = gm_arena_newn (arena, GmInputFact, n_inputs);
  f->outputs = gm_arena_newn (arena, GmOutputFact, n_outputs);
  return f;
}

/* Returns the number of the input that owns the memory of v, or GM_NO_ID.  Sets *is_view to true
 * unless v is the whole input, unchanged. */
static uint32_t
input_under (const GmGraph *g, GmValueId v, bool *is_view)
{
  uint32_t node;

  for (*is_view = false; (node = gm_graph_value (g, v)->node) != GM_NO_ID;) {
    const GmNode *n = gm_graph_node (g, node);
    GmFamily family = gm_ops[n->op].family;
    if (family != GM_FAMILY_MOVEMENT && family != GM_FAMILY_MUTATE)
      return GM_NO_ID;
    *is_view |= family == GM_FAMILY_MOVEMENT;
    v = n->in[n->op == GM_OP_set_];
  }
  const GmGraphAlias *a = gm_graph_value (g, v)->alias;
  if (a && a->same != GM_NO_ID)
    v = a->same;
  for (uint32_t i = 0;; i++)
    if (g_array_index (g->inputs, GmValueId, i) == v)
      return i;
}

GmOutputFact
gm_layer_facts_of_output (const GmGraph *g, GmValueId v, GmOutputKind kind)
{
  GmOutputFact f = { .meta = *gm_graph_meta (g, v), .kind = kind };
  if (kind == GM_OUTPUT_HISTORY) /* a history has no memory */
    return f;
  uint32_t input = input_under (g, v, &f.is_view);

  f.of_input = input != GM_NO_ID;
  f.is_view &= f.of_input;
  f.input = f.of_input ? input : 0;
  return f;
}

GmFacts *
gm_layer_facts_derive (const GmGraph *g, GmArena *arena)
{
  GmFacts *f = gm_layer_facts_new (arena, g->inputs->len, g->outputs->len);
  bool is_view;

  for (uint32_t i = 0; i < f->n_inputs; i++)
    f->inputs[i].meta = *gm_graph_meta (g, g_array_index (g->inputs, GmValueId, i));
  for (uint32_t k = 0; k < g->nodes->len; k++) {
    const GmNode *n = gm_graph_node (g, k);
    if (gm_ops[n->op].family != GM_FAMILY_MUTATE)
      continue;
    GmValueId object = gm_views_object (g, n->in[0]);
    bool sets = n->op == GM_OP_set_, own = gm_graph_value (g, object)->node != GM_NO_ID;
    uint32_t input = input_under (g, sets ? object : n->in[0], &is_view);
    if (input != GM_NO_ID && !(sets && own))
      *(sets ? &f->inputs[input].shape : &f->inputs[input].data) = true;
  }
  for (uint32_t i = 0; i < f->n_outputs; i++) {
    const GmGraphOutput *o = &g_array_index (g->outputs, GmGraphOutput, i);
    f->outputs[i] = gm_layer_facts_of_output (g, o->value, o->kind);
  }
  return f;
}

/* -- Comparing --------------------------------------------------------------------------------- */

/* True if the types are equal as far as the facts about g's sizes tell; the stride of a dimension
 * of size 1 is never compared. */
static bool
same_type (const GmGraph *g, const GmMeta *a, const GmMeta *b)
{
  GmMeta x = *a, y = *b;

  for (int d = 0; d < x.ndim; d++)
    if (x.sizes[d] <= 1)
      x.strides[d] = y.strides[d] = 0;
  return memcmp (&x, &y, sizeof x) == 0 || (g->sizes && gm_graph_same_meta (g, &x, &y));
}

char *
gm_layer_facts_difference (const GmFacts *want, const GmGraph *g, GmArena *arena)
{
  const GmFacts *has = gm_layer_facts_derive (g, arena);

  if (want->n_inputs != has->n_inputs || want->n_outputs != has->n_outputs)
    return g_strdup_printf ("%u inputs and %u outputs, foretold were %u and %u", has->n_inputs,
                            has->n_outputs, want->n_inputs, want->n_outputs);
  for (uint32_t i = 0; i < want->n_inputs; i++) {
    const GmInputFact *a = &want->inputs[i], *b = &has->inputs[i];
    if (!same_type (g, &a->meta, &b->meta))
      return g_strdup_printf ("input %u has another type", i);
    if (a->data != b->data)
      return g_strdup_printf ("input %u is %swritten", i, b->data ? "" : "not ");
    if (a->shape != b->shape)
      return g_strdup_printf ("input %u %s another tensor", i, b->shape ? "becomes" : "stays, not");
  }
  for (uint32_t i = 0; i < want->n_outputs; i++) {
    const GmOutputFact *a = &want->outputs[i], *b = &has->outputs[i];
    if (want->outputs_are_new
            ? a->meta.dtype != b->meta.dtype || !gm_meta_same_shape (&a->meta, &b->meta)
            : !same_type (g, &a->meta, &b->meta))
      return g_strdup_printf ("output %u has another type", i);
    if (a->kind != b->kind)
      return g_strdup_printf ("output %u is of another kind", i);
    if (!want->outputs_are_new
        && (a->of_input != b->of_input || a->is_view != b->is_view || a->input != b->input))
      return g_strdup_printf ("output %u has other memory", i);
  }
  return NULL;
}

#ifdef GM_DEBUG_CHECKS
void (*gm_layer_facts_tamper) (const char *layer, GmGraph *g);

void
gm_layer_facts_compare (const GmFacts *foretold, GmGraph *g, GmArena *arena, const char *layer)
{
  g_autoptr (GError) why = NULL;

  if (gm_layer_facts_tamper)
    gm_layer_facts_tamper (layer, g);
  if (!gm_graph_verify (g, false, &why)) {
    g_autofree char *text = gm_graph_text (g);
    g_error ("the layer %s made a graph that is wrong: %s\n%s", layer, why->message, text);
  }
  bool frozen = g->sizes && g->sizes->frozen;
  if (g->sizes)
    g->sizes->frozen = true; /* a test adds no facts */
  g_autofree char *difference = gm_layer_facts_difference (foretold, g, arena);
  if (g->sizes)
    g->sizes->frozen = frozen;
  if (difference) {
    g_autofree char *text = gm_graph_text (g);
    g_error ("the layer %s made a graph that is not as it foretold: %s\n%s", layer, difference,
             text);
  }
}
#endif
