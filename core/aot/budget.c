/* SPDX-License-Identifier: Apache-2.0
 * budget.c -- when memory is short: which saved values to drop and compute again after all.
 *
 * Everything can be computed again from the inputs, so every subset of the saved values is legal.
 * The budget is the fraction of the saved bytes that may stay.  Values stay in the order of what a
 * byte of them costs to compute again, the dearest first, and a value that does not fit is passed
 * over.
 * Invariant: a smaller budget never saves more bytes.  (Take the first value that fits the larger
 * budget alone: with what stays before it, it exceeds the smaller budget.)  An exact knapsack would
 * not have that.  Stay in any case: values tagged !save; an output of the function, which takes no
 * memory of its own; and a value that would need a copy of an overwritten input instead.
 */
#include "core/aot/partition.h"

#include "core/base/log.h"

#include <stdlib.h>

typedef struct {
  GmValueId v;
  uint64_t bytes, cost;
} Item;

/* -- Costs ------------------------------------------------------------------------------------- */

/* Returns the cost of node n in element operations, roughly: only the order of costs matters. */
static uint64_t
op_cost (const GmGraph *g, const GmNode *n)
{
  uint64_t elements = gm_cut_bytes (g, n->out) / gm_dtype_size (gm_graph_meta (g, n->out)->dtype);

  switch ((GmFamily) gm_ops[n->op].family) {
  case GM_FAMILY_MOVEMENT:
  case GM_FAMILY_CREATE:
    return 0;
  case GM_FAMILY_CONTRACT: {
    const GmMeta *a = gm_graph_meta (g, n->in[0]);
    int64_t inner = a->ndim ? a->sizes[a->ndim - 1] : 1;

    if (gm_size_is_symbolic (inner) && !gm_sizes_hint (g->sizes, inner, &inner))
      inner = 1024;
    return elements * (uint64_t) MAX (inner, 1);
  }
  case GM_FAMILY_CONVOLVE: /* about as many as it reads for each element */
    return elements
           * (gm_cut_bytes (g, n->in[1]) / gm_dtype_size (gm_graph_meta (g, n->out)->dtype));
  case GM_FAMILY_REDUCE:
  case GM_FAMILY_ARGREDUCE:
    return gm_cut_bytes (g, n->in[0]) / gm_dtype_size (gm_graph_meta (g, n->in[0])->dtype);
  case GM_FAMILY_POINTWISE:
    return elements * 2;
  case GM_FAMILY_CAST:
    return elements;
  default:
    return elements * 16;
  }
}

/* Returns the cost of all that is recomputed if the saved value v is dropped and all other values
 * stay.  `seen`: per value, all false, and left so; `stack`: scratch. */
static uint64_t
cone_cost (const GmCut *c, GmValueId v, bool *seen, GArray *stack)
{
  uint64_t cost = 0;

  g_array_set_size (stack, 0);
  g_array_append_val (stack, v);
  seen[v] = true;
  for (guint i = 0; i < stack->len; i++) {
    const GmNode *n = gm_cut_producer (c->g, g_array_index (stack, GmValueId, i));
    cost += op_cost (c->g, n);
    for (uint32_t k = 0; k < n->n_in; k++) {
      GmValueId in = gm_cut_value (c->g, n->in[k]);
      if (seen[in] || c->flags[in] & GM_CUT_SAVED || !gm_cut_producer (c->g, in))
        continue;
      seen[in] = true;
      g_array_append_val (stack, in);
    }
  }
  for (guint i = 0; i < stack->len; i++)
    seen[g_array_index (stack, GmValueId, i)] = false;
  return cost;
}

/* -- Candidates -------------------------------------------------------------------------------- */

/* Sets tainted, per value, to true if the value is computed, even indirectly, from an overwritten
 * input that is not saved yet. */
static void
find_tainted (const GmCut *c, bool *tainted)
{
  for (uint32_t i = 0; i < c->joint->n_inputs; i++) {
    GmValueId v = g_array_index (c->g->inputs, GmValueId, i);
    tainted[v] = c->flags[v] & GM_CUT_WRITTEN && !(c->flags[v] & GM_CUT_SAVED);
  }
  for (uint32_t i = 0; i < c->g->nodes->len; i++) {
    const GmNode *n = gm_graph_node (c->g, i);
    for (uint32_t k = 0; k < n->n_in; k++)
      tainted[n->out] |= tainted[gm_cut_value (c->g, n->in[k])];
  }
}

static GArray *
find_items (const GmCut *c)
{
  GArray *items = g_array_new (FALSE, FALSE, sizeof (Item));
  g_autoptr (GArray) stack = g_array_new (FALSE, FALSE, sizeof (GmValueId));
  g_autofree bool *seen = g_new0 (bool, c->g->values->len + 1),
                  *tainted = g_new0 (bool, c->g->values->len + 1);

  find_tainted (c, tainted);
  for (uint32_t i = 0; i < c->g->nodes->len; i++) {
    const GmNode *n = gm_graph_node (c->g, i);
    if (!(c->flags[n->out] & GM_CUT_SAVED) || c->flags[n->out] & GM_CUT_OUTPUT
        || n->tag == GM_TAG_SAVE || gm_op_has_effects (n->op) || tainted[n->out])
      continue;
    Item item = { n->out, gm_cut_bytes (c->g, n->out), cone_cost (c, n->out, seen, stack) };
    g_array_append_val (items, item);
  }
  return items;
}

static int
dearer_first (const void *a, const void *b)
{
  const Item *x = a, *y = b;
  unsigned __int128 left = (unsigned __int128) x->cost * MAX (y->bytes, 1),
                    right = (unsigned __int128) y->cost * MAX (x->bytes, 1);

  if (left != right)
    return left > right ? -1 : 1;
  return x->v < y->v ? 1 : -1; /* the later value stays: fewer values depend on it */
}

/* Returns the bytes of those of the sorted items that fit the budget, a fraction of `total` bytes.
 * Sets *cost to the cost of recomputing the others, and clears their SAVED flag in `drop`, unless
 * that is NULL. */
static uint64_t
fit (const GArray *items, double budget, uint64_t total, uint64_t *cost, GmCut *drop)
{
  uint64_t limit = (uint64_t) (budget * (double) total), kept = 0;

  *cost = 0;
  for (guint i = 0; i < items->len; i++) {
    const Item *item = &g_array_index (items, Item, i);
    if (kept + item->bytes <= limit) {
      kept += item->bytes;
      continue;
    }
    *cost += item->cost;
    if (drop)
      drop->flags[item->v] &= (uint8_t) ~GM_CUT_SAVED;
  }
  return kept;
}

static void
log_curve (const GArray *items, double budget, uint64_t total)
{
  g_autoptr (GString) text = g_string_new (NULL);

  for (int i = 0; i <= 4; i++) {
    uint64_t cost, kept = fit (items, i / 4.0, total, &cost, NULL);
    g_string_append_printf (text, "%s%g: %" G_GUINT64_FORMAT " bytes, %" G_GUINT64_FORMAT " steps",
                            i ? "; " : "", i / 4.0, kept, cost);
  }
  gm_log (GM_LOG_AOT_GRAPHS,
          "memory budget %g of %" G_GUINT64_FORMAT " bytes; what is saved, and what computing the "
          "rest again costs, by budget: %s",
          budget, total, text->str);
}

void
gm_cut_budget (GmCut *c)
{
  double budget = c->options->memory_budget;
  g_autoptr (GArray) items = find_items (c);
  uint64_t total = 0, cost;

  for (guint i = 0; i < items->len; i++)
    total += g_array_index (items, Item, i).bytes;
  if (items->len == 0)
    return;
  qsort (items->data, items->len, sizeof (Item), dearer_first);
  if (gm_log_on (GM_LOG_AOT_GRAPHS))
    log_curve (items, budget, total);
  fit (items, budget, total, &cost, c);
}
