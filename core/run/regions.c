/* SPDX-License-Identifier: Apache-2.0
 * regions.c -- cutting a graph by verdicts.
 *
 * Nodes are processed in their order.  A node joins the newest open item (an unfinished region) of
 * its kind and cluster that it may join, or opens a new item.  Joining item R makes a cycle if and
 * only if something that the node reads, other than R, comes after R; so each item has the set of
 * open items that come before it.  The set is one word: at most 64 items are open, and the oldest
 * is closed when another is opened.  A closed item still passes on the items that came before it.
 * So a graph of n nodes in k items takes n * k steps at worst, and nearly always n.
 *
 * A cut into levels (a node's level is one more than that of what it reads in another cluster)
 * needs no sets, but parts what could be one region wherever two paths differ in length.
 */
#include "core/run/regions.h"

#include "core/graph/checks.h"

#include <string.h>

enum { HOST = 1, PLUGIN = 2, OUTPUT = 4 };

typedef struct {
  bool host;
  uint32_t cluster;
  uint64_t before; /* the open items that must run before this one, by bit */
  uint64_t bit;    /* its own bit while it is open, else 0 */
  GArray *nodes;   /* uint32_t: the item's nodes */
  GArray *reads;   /* uint32_t: items that it reads, some more than once */
} Item;

typedef struct {
  const GmGraph *g;
  const GmVerdict *verdicts;
  uint8_t *needed;   /* per node: HOST, PLUGIN, OUTPUT: the kinds of its readers */
  uint32_t *item_of; /* per node: its item, or GM_REGION_NONE */
  GArray *items;     /* Item */
  uint32_t open[64]; /* per bit: the open item, or GM_REGION_NONE */
  unsigned next_bit;
  GArray *reads; /* scratch: the items that a node reads */
  /* The item of the last node with effects: the next such node has to come after this item ... */
  uint32_t last;
  /* ... and after all nodes from this one on that may fail, because a host function must not be
   * called after an error. */
  uint32_t since;

  GmRegions *out;
  uint32_t *slot_of; /* by value, or GM_NO_ID */
  GmValueId *local;  /* per value: its id in the graph that is being built, valid where `stamp`
                      * is `now` */
  uint32_t *stamp;
  uint32_t now;
} Cutter;

#define ITEM(c, i) (&g_array_index ((c)->items, Item, (i)))

/* -- Who reads what ---------------------------------------------------------------------------- */

/* True for views and constants, which belong to no item: each reader computes them. */
static bool
is_shared (const GmNode *n)
{
  return n->op == GM_OP_constant || gm_ops[n->op].family == GM_FAMILY_MOVEMENT;
}

/* True if readers of the kind `host` (else the plugin) compute the node themselves: views and
 * constants, except views that the plugin does not support, which the host makes. */
static bool
is_inside (const Cutter *c, uint32_t node, bool host)
{
  return is_shared (gm_graph_node (c->g, node)) && (host || c->verdicts[node].yes);
}

static bool
has_item (const Cutter *c, uint32_t node)
{
  if (!is_shared (gm_graph_node (c->g, node)))
    return true;
  return (c->needed[node] & OUTPUT) || ((c->needed[node] & PLUGIN) && !c->verdicts[node].yes);
}

/* True if the host computes the node.  A view or constant that needs an item of its own is the
 * host's, where a view costs nothing. */
static bool
is_host (const Cutter *c, uint32_t node)
{
  return is_shared (gm_graph_node (c->g, node)) || !c->verdicts[node].yes;
}

static void
find_readers (Cutter *c)
{
  for (uint32_t i = 0; i < c->g->outputs->len; i++) {
    uint32_t node =
        gm_graph_value (c->g, g_array_index (c->g->outputs, GmGraphOutput, i).value)->node;
    c->needed[node] |= OUTPUT;
  }
  for (uint32_t i = c->g->nodes->len; i-- > 0;) {
    const GmNode *n = gm_graph_node (c->g, i);
    uint8_t as = 0; /* kinds of items that compute the node */
    if (has_item (c, i))
      as |= is_host (c, i) ? HOST : PLUGIN;
    if ((c->needed[i] & HOST) && is_inside (c, i, true))
      as |= HOST;
    if ((c->needed[i] & PLUGIN) && is_inside (c, i, false))
      as |= PLUGIN;
    for (uint32_t k = 0; k < n->n_in; k++) {
      uint32_t producer = gm_graph_value (c->g, n->in[k])->node;
      if (producer != GM_NO_ID)
        c->needed[producer] |= as;
    }
  }
}

/* -- Items ------------------------------------------------------------------------------------- */

static void
add_reads (Cutter *c, uint32_t node, bool host)
{
  const GmNode *n = gm_graph_node (c->g, node);
  for (uint32_t k = 0; k < n->n_in; k++) {
    uint32_t producer = gm_graph_value (c->g, n->in[k])->node;
    if (producer == GM_NO_ID)
      continue;
    if (is_inside (c, producer, host))
      add_reads (c, producer, host);
    else
      g_array_append_val (c->reads, c->item_of[producer]);
  }
}

static bool
may_join (const Cutter *c, uint32_t item)
{
  for (guint i = 0; i < c->reads->len; i++) {
    uint32_t read = g_array_index (c->reads, uint32_t, i);
    if (read != item && (ITEM (c, read)->before & ITEM (c, item)->bit))
      return false;
  }
  return true;
}

static uint32_t
open_item (Cutter *c, bool host, uint32_t cluster)
{
  unsigned b = c->next_bit++ % 64;
  uint64_t bit = UINT64_C (1) << b;
  /* The item is closed: no node joins it, so nothing needs the items after it. */
  if (c->open[b] != GM_REGION_NONE) {
    ITEM (c, c->open[b])->bit = 0;
    for (guint i = 0; i < c->items->len; i++)
      ITEM (c, i)->before &= ~bit;
  }
  Item item = { .host = host,
                .cluster = cluster,
                .bit = bit,
                .nodes = g_array_new (FALSE, FALSE, sizeof (uint32_t)),
                .reads = g_array_new (FALSE, FALSE, sizeof (uint32_t)) };
  g_array_append_val (c->items, item);
  return c->open[b] = c->items->len - 1;
}

/* Returns the newest open item that the node whose reads are in c->reads may join, or a new
 * item. */
static uint32_t
choose_item (Cutter *c, bool host, uint32_t cluster)
{
  for (unsigned k = 1; k <= MIN (c->next_bit, 64u); k++) {
    uint32_t i = c->open[(c->next_bit - k) % 64];
    const Item *item = ITEM (c, i);
    if (item->host == host && item->cluster == cluster && may_join (c, i))
      return i;
  }
  return open_item (c, host, cluster);
}

/* Appends to c->reads the items that must run before `node`, which has effects. */
static void
add_order (Cutter *c, uint32_t node)
{
  if (c->last != GM_REGION_NONE)
    g_array_append_val (c->reads, c->last);
  for (; c->since < node; c->since++) {
    uint32_t item = c->item_of[c->since];
    if (item != GM_REGION_NONE && item != c->last
        && gm_graph_needs_check (c->g, gm_graph_node (c->g, c->since)))
      g_array_append_val (c->reads, item);
  }
}

static void
place (Cutter *c, uint32_t node)
{
  bool host = is_host (c, node);
  g_array_set_size (c->reads, 0);
  add_reads (c, node, host);
  bool effects = gm_op_has_effects (gm_graph_node (c->g, node)->op);
  if (effects)
    add_order (c, node);
  uint32_t at = choose_item (c, host, host ? 0 : c->verdicts[node].cluster);
  Item *item = ITEM (c, at);
  uint64_t before = item->before;
  for (guint i = 0; i < c->reads->len; i++) {
    uint32_t read = g_array_index (c->reads, uint32_t, i);
    if (read == at)
      continue;
    before |= ITEM (c, read)->before | ITEM (c, read)->bit;
    g_array_append_val (item->reads, read);
  }
  if (before != item->before) {
    item->before = before;
    for (guint i = 0; i < c->items->len; i++)
      if (ITEM (c, i)->before & item->bit)
        ITEM (c, i)->before |= before;
  }
  g_array_append_val (item->nodes, node);
  c->item_of[node] = at;
  if (effects)
    c->last = at;
}

/* Appends item i to `order`, after all items that it reads, directly or not. */
static void
order_from (Cutter *c, uint32_t i, GArray *order, bool *done)
{
  if (done[i])
    return;
  done[i] = true;
  for (guint k = 0; k < ITEM (c, i)->reads->len; k++)
    order_from (c, g_array_index (ITEM (c, i)->reads, uint32_t, k), order, done);
  g_array_append_val (order, i);
}

/* -- Graphs ------------------------------------------------------------------------------------ */

static uint32_t
slot_for (Cutter *c, GmValueId v)
{
  if (c->slot_of[v] == GM_NO_ID) {
    c->slot_of[v] = c->out->n_slots++;
    g_array_append_val (c->out->metas, *gm_graph_meta (c->g, v));
  }
  return c->slot_of[v];
}

static GmValueId
set_local (Cutter *c, GmValueId v, GmValueId local)
{
  c->stamp[v] = c->now;
  return c->local[v] = local;
}

static GmValueId take (Cutter *c, GmRegion *r, GmValueId v);

static void
add_node (Cutter *c, GmRegion *r, uint32_t node)
{
  const GmNode *n = gm_graph_node (c->g, node);
  const char *where = n->where ? gm_arena_strdup (r->graph->arena, n->where) : NULL;
  GmValueId id;
  if (n->op == GM_OP_constant)
    id = gm_graph_add_constant (r->graph, c->g->constants->pdata[n->attrs->offset], where);
  else {
    g_autofree GmValueId *in = g_new (GmValueId, n->n_in + 1);
    for (uint32_t k = 0; k < n->n_in; k++)
      in[k] = take (c, r, n->in[k]);
    id = gm_graph_add_known (r->graph, n->op, in, (int) n->n_in, n->attrs, where,
                             gm_graph_meta (c->g, n->out));
  }
  set_local (c, n->out, id);
}

/* Returns the id of value v in the graph of region r.  Appends what computes it to that graph, or
 * an input for it, unless it is there. */
static GmValueId
take (Cutter *c, GmRegion *r, GmValueId v)
{
  if (c->stamp[v] == c->now)
    return c->local[v];
  uint32_t producer = gm_graph_value (c->g, v)->node;
  if (producer != GM_NO_ID && is_inside (c, producer, r->host)) {
    add_node (c, r, producer);
    return c->local[v];
  }
  uint32_t slot = slot_for (c, v);
  g_array_append_val (r->ins, slot);
  const char *name = gm_graph_value (c->g, v)->name;
  g_autofree char *made = name ? NULL : g_strdup_printf ("s%u", slot);
  return set_local (c, v,
                    gm_graph_add_input (r->graph, name ? name : made, gm_graph_meta (c->g, v)));
}

static void
region_free (void *p)
{
  GmRegion *r = p;
  gm_graph_free (r->graph);
  g_clear_pointer (&r->nodes, g_array_unref);
  g_array_unref (r->ins);
  g_array_unref (r->outs);
  g_free (r);
}

/* Appends the item's nodes to the graph of a new region, in their order, in which operands come
 * first. */
static void
build_region (Cutter *c, const Item *item, GmValueId *own)
{
  GmRegion *r = g_new0 (GmRegion, 1);
  r->host = item->host;
  r->cluster = item->cluster;
  r->nodes = g_array_ref (item->nodes);
  r->graph = gm_graph_new_like (c->g, c->g->name ? c->g->name : "graph", NULL);
  gm_graph_share_tables (r->graph, c->g);
  r->ins = g_array_new (FALSE, FALSE, sizeof (uint32_t));
  r->outs = g_array_new (FALSE, FALSE, sizeof (uint32_t));
  c->now++;
  for (guint i = 0; i < item->nodes->len; i++) {
    uint32_t node = g_array_index (item->nodes, uint32_t, i);
    GmValueId v = gm_graph_node (c->g, node)->out;
    if (c->stamp[v] != c->now) /* a view may have been copied for an earlier node of this region */
      add_node (c, r, node);
    own[node] = c->local[v];
    r->has_effects |= gm_op_has_effects (gm_graph_node (c->g, node)->op);
    c->out->region_of[node] = c->out->regions->len;
  }
  g_ptr_array_add (c->out->regions, r);
}

static void
add_outputs (Cutter *c, GmRegion *r, const GmValueId *own)
{
  for (guint i = 0; i < r->nodes->len; i++) {
    uint32_t node = g_array_index (r->nodes, uint32_t, i);
    uint32_t slot = c->slot_of[gm_graph_node (c->g, node)->out];
    if (slot == GM_NO_ID)
      continue;
    gm_graph_add_output (r->graph, own[node], GM_OUTPUT_USER);
    g_array_append_val (r->outs, slot);
  }
}

static void
build_all (Cutter *c)
{
  g_autoptr (GArray) order = g_array_new (FALSE, FALSE, sizeof (uint32_t));
  g_autofree bool *done = g_new0 (bool, c->items->len + 1);
  g_autofree GmValueId *own = g_new0 (GmValueId, c->g->nodes->len + 1);
  for (guint i = 0; i < c->items->len; i++)
    order_from (c, i, order, done);
  for (uint32_t i = 0; i < c->g->inputs->len; i++)
    slot_for (c, g_array_index (c->g->inputs, GmValueId, i));
  for (guint i = 0; i < order->len; i++)
    build_region (c, ITEM (c, g_array_index (order, uint32_t, i)), own);
  c->out->outputs = g_new (uint32_t, c->g->outputs->len + 1);
  for (uint32_t i = 0; i < c->g->outputs->len; i++)
    c->out->outputs[i] = slot_for (c, g_array_index (c->g->outputs, GmGraphOutput, i).value);
  for (guint i = 0; i < c->out->regions->len; i++)
    add_outputs (c, c->out->regions->pdata[i], own);
}

/* -- The whole --------------------------------------------------------------------------------- */

static uint32_t *
filled (uint32_t n, uint32_t with)
{
  uint32_t *a = g_new (uint32_t, n + 1);
  memset (a, with ? 0xff : 0, (n + 1) * sizeof *a);
  return a;
}

static void
item_clear (void *p)
{
  Item *item = p;
  g_array_unref (item->nodes);
  g_array_unref (item->reads);
}

GmRegions *
gm_regions_new (const GmGraph *g, const GmVerdict *verdicts)
{
  uint32_t n = g->nodes->len, n_values = g->values->len;
  Cutter c = { .g = g, .verdicts = verdicts, .last = GM_REGION_NONE };
  c.out = g_new0 (GmRegions, 1);
  c.out->regions = g_ptr_array_new_with_free_func (region_free);
  c.out->metas = g_array_new (FALSE, FALSE, sizeof (GmMeta));
  c.out->region_of = filled (n, GM_REGION_NONE);
  g_autofree uint8_t *needed = c.needed = g_new0 (uint8_t, n + 1);
  g_autofree uint32_t *item_of = c.item_of = filled (n, GM_REGION_NONE);
  g_autofree uint32_t *slot_of = c.slot_of = filled (n_values, GM_NO_ID);
  g_autofree GmValueId *local = c.local = filled (n_values, 0);
  g_autofree uint32_t *stamp = c.stamp = filled (n_values, 0);
  g_autoptr (GArray) items = c.items = g_array_new (FALSE, FALSE, sizeof (Item));
  g_autoptr (GArray) reads = c.reads = g_array_new (FALSE, FALSE, sizeof (uint32_t));
  g_array_set_clear_func (items, item_clear);
  memset (c.open, 0xff, sizeof c.open);

  find_readers (&c);
  for (uint32_t i = 0; i < n; i++)
    if (has_item (&c, i))
      place (&c, i);
  build_all (&c);
  return c.out;
}

void
gm_regions_free (GmRegions *r)
{
  if (!r)
    return;
  g_ptr_array_unref (r->regions);
  g_array_unref (r->metas);
  g_free (r->outputs);
  g_free (r->region_of);
  g_free (r);
}
