/* SPDX-License-Identifier: Apache-2.0
 * choose_saved.c -- chooses what the forward saves for the backward.
 *
 * By default the forward saves what the backward reads.  With the minimum cut it saves the lightest
 * set of values from which the rest can be computed again, where that is cheap.  A value is not
 * computed again
 *
 *   if its op is dear               matrix products, scans, anything that sorts or writes by
 *                                   position, random numbers
 *   if it is small for its cost     reductions to a quarter and less: few bytes that took many
 *                                   to make
 *   if its operands lie far apart   a sum of an old and a new value: without this rule a
 *                                   residual stream would be computed again from its beginning
 *   if the chain gets long          every MAX_CHAIN ops a value is kept
 *
 * and a tag on the node (graph.h) goes before all rules.  The weight of a value is its bytes, times
 * 1.1 per step that lies between it and the backward: of two values of one size the later one is
 * saved, and less is computed again.
 * Rejected: counting a value double if fusion would keep it out of memory.  Computing an exp again
 * takes longer than writing it.  And saving what a matrix product of the backward reads, because it
 * has to be written there anyway.  In a transformer block that gained no time, and took a fifth
 * more memory.  All numbers are whole, and nothing depends on addresses or hashes: equal graphs,
 * equal cuts.
 */
#include "core/aot/partition.h"

enum { MAX_CHAIN = 32, MAX_DISTANCE = 100, FRACTION_BITS = 8 };
#define MAX_WEIGHT (UINT64_C (1) << 44)

uint64_t
gm_cut_bytes (const GmGraph *g, GmValueId v)
{
  const GmMeta *m = gm_graph_meta (g, v);
  uint64_t bytes = gm_dtype_size ((GmDtype) m->dtype);

  for (int i = 0; i < m->ndim; i++) { /* a guess is good enough: no bit depends on it */
    int64_t size;
    if (!gm_size_is_symbolic (m->sizes[i]))
      size = m->sizes[i];
    else if (!gm_sizes_hint (g->sizes, m->sizes[i], &size))
      size = 1024;
    bytes *= (uint64_t) size;
  }
  return bytes;
}

/* -- Rules ------------------------------------------------------------------------------------- */

static bool
is_dear (const GmGraph *g, const GmNode *n)
{
  switch ((GmFamily) gm_ops[n->op].family) {
  case GM_FAMILY_POINTWISE:
  case GM_FAMILY_CAST:
  case GM_FAMILY_MOVEMENT:
  case GM_FAMILY_CREATE:
    return false;
  case GM_FAMILY_REDUCE:
    return gm_cut_bytes (g, n->in[0]) >= GM_CUT_SMALL * gm_cut_bytes (g, n->out);
  default:
    return true;
  }
}

/* Facts of this file about each value, beside its flags. */
typedef struct {
  uint32_t *distance; /* steps to the nearest reader in the backward */
  uint32_t *heavy;    /* number of dear nodes up to the node that makes it: a clock that ticks
                       * where fusion    ends */
} Facts;

/* Computes the distances, from readers back to operands. */
static void
find_distances (const GmCut *c, Facts *f)
{
  const GmGraph *g = c->g;

  for (uint32_t v = 0; v < g->values->len; v++)
    f->distance[v] = c->flags[v] & GM_CUT_WANTED ? 0 : MAX_DISTANCE;
  for (uint32_t i = g->nodes->len; i-- > 0;) {
    const GmNode *n = gm_graph_node (g, i);
    bool view = gm_ops[n->op].family == GM_FAMILY_MOVEMENT;

    for (uint32_t k = 0; k < n->n_in && !(c->flags[n->out] & GM_CUT_TANGENT); k++) {
      GmValueId v = gm_cut_value (g, n->in[k]);
      f->distance[v] = MIN (f->distance[v], f->distance[n->out] + !view);
    }
  }
}

static void
tick (const GmCut *c, Facts *f)
{
  uint32_t now = 0;

  for (uint32_t i = 0; i < c->g->nodes->len; i++) {
    const GmNode *n = gm_graph_node (c->g, i);
    now += is_dear (c->g, n) && gm_ops[n->op].family != GM_FAMILY_REDUCE;
    f->heavy[n->out] = now;
  }
}

/* True if n combines a value from before an expensive node with a value from after it.  Inputs do
 * not count: they are always in memory. */
static bool
lies_far_apart (const GmCut *c, const Facts *f, const GmNode *n)
{
  uint32_t first = UINT32_MAX, last = 0;

  for (uint32_t k = 0; k < n->n_in; k++) {
    GmValueId v = gm_cut_value (c->g, n->in[k]);
    while (gm_cut_producer (c->g, v)
           && gm_ops[gm_cut_producer (c->g, v)->op].family == GM_FAMILY_MOVEMENT)
      v = gm_cut_value (c->g, gm_cut_producer (c->g, v)->in[0]);
    const GmNode *made = gm_cut_producer (c->g, v);
    if (!made || gm_cut_is_free (made)
        || gm_cut_bytes (c->g, v) * GM_CUT_SMALL <= gm_cut_bytes (c->g, n->out))
      continue;
    first = MIN (first, f->heavy[v]);
    last = MAX (last, f->heavy[v]);
  }
  return first < last;
}

/* Sets given, per value: true for inputs, and for values that must not be recomputed. */
static void
find_given (const GmCut *c, const Facts *f, bool *given)
{
  const GmGraph *g = c->g;
  g_autofree uint16_t *chain = g_new0 (uint16_t, g->values->len + 1);

  for (uint32_t i = 0; i < c->joint->n_inputs; i++)
    given[g_array_index (g->inputs, GmValueId, i)] = true;
  for (uint32_t i = 0; i < g->nodes->len; i++) {
    const GmNode *n = gm_graph_node (g, i);
    uint16_t longest = 0;

    if (c->flags[n->out] & GM_CUT_TANGENT)
      continue;
    for (uint32_t k = 0; k < n->n_in; k++)
      longest = MAX (longest, chain[gm_cut_value (g, n->in[k])]);
    chain[n->out] = longest + !gm_cut_is_free (n);
    if (gm_cut_is_free (n) || (n->tag == GM_TAG_RECOMPUTE && !gm_op_has_effects (n->op)))
      continue;
    given[n->out] = gm_op_has_effects (n->op) || n->tag == GM_TAG_SAVE || is_dear (g, n)
                    || lies_far_apart (c, f, n) || chain[n->out] > MAX_CHAIN;
    if (given[n->out])
      chain[n->out] = 0;
  }
}

/* -- Weights ----------------------------------------------------------------------------------- */

static uint64_t
weight_of (const GmCut *c, const Facts *f, const uint64_t *factor, GmValueId v)
{
  const GmNode *n = gm_cut_producer (c->g, v);

  if (!n)
    return c->flags[v] & GM_CUT_WRITTEN
               ? MIN (gm_cut_bytes (c->g, v) << FRACTION_BITS, MAX_WEIGHT) + 1
               : 1;
  if (gm_op_has_effects (n->op))
    return 1;
  if (gm_cut_is_free (n) || n->tag == GM_TAG_RECOMPUTE)
    return GM_CUT_NEVER;
  if (n->tag == GM_TAG_SAVE || c->flags[v] & GM_CUT_OUTPUT)
    return 1;
  uint64_t bytes = MIN (gm_cut_bytes (c->g, v), MAX_WEIGHT);
  return MIN (bytes * factor[f->distance[v]], MAX_WEIGHT) + 1;
}

static void
find_weights (const GmCut *c, const Facts *f, uint64_t *weight)
{
  uint64_t factor[MAX_DISTANCE + 1] = { 1 << FRACTION_BITS };

  for (int i = 1; i <= MAX_DISTANCE; i++)
    factor[i] = MIN (factor[i - 1] * 11 / 10, UINT64_C (1) << 18);
  for (uint32_t v = 0; v < c->g->values->len; v++)
    weight[v] = weight_of (c, f, factor, v);
}

void
gm_cut_problem (const GmCut *c, GmCutProblem *p)
{
  const GmGraph *g = c->g;
  uint32_t n = g->values->len, n_edges = 0;
  g_autofree uint32_t *distance = g_new0 (uint32_t, n + 1), *heavy = g_new0 (uint32_t, n + 1);
  Facts f = { distance, heavy };
  bool *given = gm_arena_newn (c->arena, bool, n + 1),
       *wanted = gm_arena_newn (c->arena, bool, n + 1);
  uint64_t *weight = gm_arena_newn (c->arena, uint64_t, n + 1);

  for (uint32_t i = 0; i < g->nodes->len; i++)
    n_edges += gm_graph_node (g, i)->n_in;
  GmCutEdge *edges = gm_arena_newn (c->arena, GmCutEdge, n_edges + 1);
  n_edges = 0;
  for (uint32_t i = 0; i < g->nodes->len; i++) {
    const GmNode *node = gm_graph_node (g, i);
    for (uint32_t k = 0; k < node->n_in && !(c->flags[node->out] & GM_CUT_TANGENT); k++)
      edges[n_edges++] = (GmCutEdge){ gm_cut_value (g, node->in[k]), node->out };
  }
  find_distances (c, &f);
  tick (c, &f);
  find_given (c, &f, given);
  find_weights (c, &f, weight);
  for (uint32_t v = 0; v < n; v++)
    wanted[v] = c->flags[v] & GM_CUT_WANTED;
  *p = (GmCutProblem){ n, n_edges, weight, given, wanted, edges };
}

/* -- The choice -------------------------------------------------------------------------------- */

static void
choose_default (GmCut *c)
{
  for (uint32_t i = 0; i < c->g->nodes->len; i++) {
    const GmNode *n = gm_graph_node (c->g, i);
    if ((c->flags[n->out] & (GM_CUT_FORWARD | GM_CUT_PLAIN) || n->tag == GM_TAG_SAVE)
        && !gm_cut_is_free (n) && !(c->flags[n->out] & GM_CUT_TANGENT)
        && n->tag != GM_TAG_RECOMPUTE)
      c->flags[n->out] |= GM_CUT_SAVED;
  }
}

static bool
is_on_device (const GmGraph *g)
{
  for (uint32_t i = 0; i < g->nodes->len; i++)
    if (gm_graph_meta (g, gm_graph_node (g, i)->out)->device != GM_DEVICE_CPU)
      return true;
  return false;
}

bool
gm_cut_is_default (const GmCut *c)
{
  return c->options->mode == GM_PARTITION_DEFAULT
         || (c->options->mode == GM_PARTITION_BY_DEVICE && !is_on_device (c->g));
}

void
gm_cut_choose (GmCut *c)
{
  GmCutProblem p;
  uint64_t weight;
  g_autofree bool *cut = g_new0 (bool, c->g->values->len + 1);

  if (gm_cut_is_default (c)) {
    choose_default (c);
    return;
  }
  gm_cut_problem (c, &p);
  if (!gm_cut_solve (&p, cut, &weight))
    g_assert_not_reached (); /* inputs can always be saved, and all can be made from them */
  for (uint32_t v = 0; v < p.n; v++)
    if (cut[v])
      c->flags[v] |= GM_CUT_SAVED;
}
