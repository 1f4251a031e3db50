/* SPDX-License-Identifier: Apache-2.0
 * higher_take.c -- a body's nodes, moved out of the recorder's graph into a graph of their own.
 *
 * Values of the surrounding graph that these nodes read become inputs of that graph, the same
 * inputs for all bodies of a call; rows of the recorder graph's tables are copied.
 */
#include "core/models/higher_private.h"

#include "core/graph/higher.h"

typedef struct {
  GmHigherTrace *c;
  GmHigherBody *b;
  GHashTable *map;     /* value of the recorder's graph -> value of the body's */
  GHashTable *customs; /* row of the recorder's graph -> row of the body's */
} Taking;

static const GmInput *
input_with (const GmRecorder *r, GmValueId v)
{
  for (uint32_t i = 0; i < r->inputs->len; i++)
    if (g_array_index (r->inputs, GmInput, i).value == v)
      return &g_array_index (r->inputs, GmInput, i);
  return NULL;
}

/* Returns the index of v among the captured values, appended if v is new; GM_NO_ID: v is
 * computed in the body, or has no source. */
static uint32_t
captured_row (GmHigherTrace *c, GmValueId v)
{
  GmRecorder *r = c->r;
  GmHigherCaptured n = { .value = v };
  const char *name = gm_graph_value (r->graph, v)->name;
  if (v >= c->mark.graph.values) {
    const GmInput *in = input_with (r, v);
    if (!in || !in->tracker || !in->tracker->real || !in->tracker->source)
      return GM_NO_ID;
    n = (GmHigherCaptured){ GM_NO_ID, in->tracker->real, in->tracker->source, NULL };
  }
  n.name = name ? gm_arena_strdup (r->arena, name) : NULL;
  n.meta = *gm_graph_meta (r->graph, v);
  for (uint32_t i = 0; i < c->captured->len; i++) {
    const GmHigherCaptured *k = &g_array_index (c->captured, GmHigherCaptured, i);
    if (n.value != GM_NO_ID ? k->value == n.value : k->value == GM_NO_ID && k->real == n.real)
      return i;
  }
  g_array_append_val (c->captured, n);
  return c->captured->len - 1;
}

void
gm_higher_add_inputs (const GmHigherTrace *c, GmHigherBody *b)
{
  for (uint32_t row = b->graph->inputs->len - b->n_own; row < c->captured->len; row++) {
    const GmHigherCaptured *k = &g_array_index (c->captured, GmHigherCaptured, row);
    g_autofree char *name = k->name ? g_strdup (k->name) : g_strdup_printf ("arg%u", row);
    gm_graph_add_input (b->graph, name, &k->meta);
  }
}

static GmValueId
map_value (Taking *t, GmValueId v)
{
  GmRecorder *r = t->c->r;
  void *known;
  if (g_hash_table_lookup_extended (t->map, GUINT_TO_POINTER (v), NULL, &known))
    return GPOINTER_TO_UINT (known);
  uint32_t node = gm_graph_value (r->graph, v)->node, row;
  if (node != GM_NO_ID && gm_graph_node (r->graph, node)->op == GM_OP_constant
      && v >= t->c->mark.graph.values) {
    const GmNode *n = gm_graph_node (r->graph, node);
    GmValueId id = gm_graph_add_constant (
        t->b->graph, g_ptr_array_index (r->graph->constants, n->attrs->offset), NULL);
    g_hash_table_insert (t->map, GUINT_TO_POINTER (v), GUINT_TO_POINTER (id));
    return id;
  }
  row = captured_row (t->c, v);
  if (row == GM_NO_ID) {
    gm_higher_refuse (t->c, "%s reads what cannot be passed to it", t->b->name);
    return 0;
  }
  gm_higher_add_inputs (t->c, t->b);
  GmValueId id = g_array_index (t->b->graph->inputs, GmValueId, t->b->n_own + row);
  g_hash_table_insert (t->map, GUINT_TO_POINTER (v), GUINT_TO_POINTER (id));
  return id;
}

/* Copies the table row of a `custom` node, which has the gradient function that the program
 * defined, and returns its index in the new graph. */
static uint32_t
custom_row (Taking *t, const GmNode *n)
{
  void *known, *row = GUINT_TO_POINTER ((uint32_t) n->attrs->offset);
  if (g_hash_table_lookup_extended (t->customs, row, NULL, &known))
    return GPOINTER_TO_UINT (known);
  uint32_t own =
      gm_graph_add_custom (t->b->graph, gm_graph_custom_copy (gm_graph_custom (t->c->r->graph, n)));
  g_hash_table_insert (t->customs, row, GUINT_TO_POINTER (own));
  return own;
}

static bool
take_node (Taking *t, const GmNode *n)
{
  GmRecorder *r = t->c->r;
  GmGraph *to = t->b->graph;
  g_autofree GmValueId *in = g_new (GmValueId, n->n_in + 1);
  GmAttrs attrs;
  const GmAttrs *a = n->attrs;
  GmFamily family = (GmFamily) gm_ops[n->op].family;
  if (family == GM_FAMILY_CUSTOM) {
    attrs = *n->attrs;
    attrs.offset = custom_row (t, n);
    a = &attrs;
  }
  if (family == GM_FAMILY_HIGHER) {
    attrs = *n->attrs;
    GmHigher *h = gm_higher_ref ((GmHigher *) gm_graph_higher (r->graph, n));
    uint32_t row = 0, n_rows = to->highers ? to->highers->len : 0;
    while (row < n_rows && to->highers->pdata[row] != h)
      row++;
    if (row < n_rows)
      gm_higher_unref (h);
    else
      row = gm_graph_add_higher (to, h);
    attrs.offset = row;
    a = &attrs;
  }
  for (uint32_t k = 0; k < n->n_in && !r->stop; k++)
    in[k] = map_value (t, n->in[k]);
  if (r->stop)
    return false;
  const char *where = n->where ? gm_arena_strdup (to->arena, n->where) : NULL;
  GmValueId v =
      gm_graph_add_known (to, n->op, in, (int) n->n_in, a, where, gm_graph_meta (r->graph, n->out));
  g_hash_table_insert (t->map, GUINT_TO_POINTER (n->out), GUINT_TO_POINTER (v));
  return true;
}

static char *
stand_in_name (const GmHigherTrace *c, uint32_t i)
{
  if (c->block)
    return g_strdup_printf (i < c->n_mapped ? "left%u" : "right%u", i % c->n_mapped);
  if (i == c->n_carried)
    return g_strdup ("generator");
  i -= i > c->n_carried;
  return i < c->n_carried ? g_strdup_printf ("carried%u", i)
                          : g_strdup_printf ("slice%u", i - c->n_carried);
}

bool
gm_higher_take_out (GmHigherTrace *c, GmHigherBody *b, const GmValueId *stand_ins,
                    uint32_t first_node, const GmValueId *results, uint32_t n_results)
{
  GmRecorder *r = c->r;
  g_autoptr (GHashTable) map = g_hash_table_new (NULL, NULL),
                         customs = g_hash_table_new (NULL, NULL);
  Taking t = { c, b, map, customs };
  b->graph = gm_graph_new (b->name, NULL);
  gm_graph_share_sizes (b->graph, r->graph);
  for (uint32_t i = 0; i < b->n_own; i++) {
    g_autofree char *name = stand_in_name (c, i);
    GmValueId id = gm_graph_add_input (b->graph, name, gm_graph_meta (r->graph, stand_ins[i]));
    g_hash_table_insert (map, GUINT_TO_POINTER (stand_ins[i]), GUINT_TO_POINTER (id));
  }
  gm_higher_add_inputs (c, b);
  for (uint32_t i = first_node; i < r->graph->nodes->len && !r->stop; i++) {
    const GmNode *n = gm_graph_node (r->graph, i);
    if (n->op != GM_OP_constant && !g_hash_table_contains (map, GUINT_TO_POINTER (n->out)))
      take_node (&t, n);
  }
  for (uint32_t i = 0; i < n_results && !r->stop; i++)
    gm_graph_add_output (b->graph, map_value (&t, results[i]), GM_OUTPUT_USER);
  return r->stop == NULL;
}
