/* SPDX-License-Identifier: Apache-2.0
 * mincut.c -- a maximum flow in whole numbers, and the cut that it shows.
 *
 * Every value becomes two nodes, one where it arrives and one where it leaves, with an arc between
 * them that carries its weight: cutting that arc is saving the value.  All other arcs carry any
 * amount: from the source to given values, from a value to what is made of it, from wanted values
 * to the sink.  Dinic's algorithm: layers by breadth first search, then a flow that no longer path
 * in these layers can add to, until the sink is in no layer.  Flat arrays, no recursion: graphs
 * have tens of thousands of nodes.  The nodes from which the sink can still be reached at the end
 * are the same for every maximum flow.  So the result depends neither on the order of arcs nor on
 * addresses.
 */
#include "core/aot/mincut.h"

#include <glib.h>
#include <string.h>

#define NOWHERE UINT32_MAX

typedef struct {
  uint32_t n_nodes, n_arcs, source, sink;
  uint32_t *first; /* per node: index of its first arc in `arcs`; the last entry is the number
                    * of arcs */
  uint32_t *arcs;  /* arcs, sorted by the node that they leave */
  uint32_t *to;    /* per arc; arc ^ 1 is the same arc backwards */
  uint64_t *room;  /* per arc: its residual capacity */
  uint32_t *layer, *next, *queue, *path;
} Flow;

#define ARRIVES(v) (2 * (v))
#define LEAVES(v) (2 * (v) + 1)

static void
add_arc (Flow *f, uint32_t from, uint32_t to, uint64_t room)
{
  f->to[f->n_arcs] = to;
  f->room[f->n_arcs++] = room;
  f->to[f->n_arcs] = from; /* backwards */
  f->room[f->n_arcs++] = 0;
}

static void
flow_init (Flow *f, const GmCutProblem *p)
{
  size_t most = 2 * ((size_t) p->n * 3 + p->n_edges);

  f->n_nodes = 2 * p->n + 2;
  f->source = 2 * p->n;
  f->sink = 2 * p->n + 1;
  f->n_arcs = 0;
  f->to = g_new (uint32_t, most + 1);
  f->room = g_new (uint64_t, most + 1);
  f->arcs = g_new (uint32_t, most + 1);
  f->first = g_new0 (uint32_t, f->n_nodes + 2);
  f->layer = g_new (uint32_t, f->n_nodes);
  f->next = g_new (uint32_t, f->n_nodes);
  f->queue = g_new (uint32_t, f->n_nodes);
  f->path = g_new (uint32_t, f->n_nodes);
  for (uint32_t v = 0; v < p->n; v++) {
    g_assert (p->weight[v] <= GM_CUT_NEVER);
    add_arc (f, ARRIVES (v), LEAVES (v), p->weight[v]);
    if (p->given[v])
      add_arc (f, f->source, ARRIVES (v), GM_CUT_NEVER);
    if (p->wanted[v])
      add_arc (f, LEAVES (v), f->sink, GM_CUT_NEVER);
  }
  for (uint32_t i = 0; i < p->n_edges; i++)
    add_arc (f, LEAVES (p->edges[i].from), ARRIVES (p->edges[i].to), GM_CUT_NEVER);

  /* by node, in the order in which they were added */
  for (uint32_t a = 0; a < f->n_arcs; a++)
    f->first[f->to[a ^ 1] + 1]++;
  for (uint32_t v = 0; v < f->n_nodes; v++)
    f->first[v + 1] += f->first[v];
  memcpy (f->next, f->first, f->n_nodes * sizeof *f->next);
  for (uint32_t a = 0; a < f->n_arcs; a++)
    f->arcs[f->next[f->to[a ^ 1]]++] = a;
}

static void
flow_clear (Flow *f)
{
  g_free (f->to);
  g_free (f->room);
  g_free (f->arcs);
  g_free (f->first);
  g_free (f->layer);
  g_free (f->next);
  g_free (f->queue);
  g_free (f->path);
}

/* Computes each node's distance from `start` over arcs with residual capacity; backwards: to
 * `start`. */
static void
find_layers (Flow *f, uint32_t start, bool backwards)
{
  uint32_t n = 0;

  memset (f->layer, 0xff, f->n_nodes * sizeof *f->layer);
  f->layer[start] = 0;
  f->queue[n++] = start;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t v = f->queue[i];
    for (uint32_t k = f->first[v]; k < f->first[v + 1]; k++) {
      uint32_t a = f->arcs[k], to = f->to[a];
      if (f->room[backwards ? a ^ 1 : a] == 0 || f->layer[to] != NOWHERE)
        continue;
      f->layer[to] = f->layer[v] + 1;
      f->queue[n++] = to;
    }
  }
}

/* Pushes flow along the `length` arcs of f->path, as much as they can carry, and adds it to *total.
 * Returns the number of arcs before the first arc that is full now. */
static uint32_t
push (Flow *f, uint32_t length, uint64_t *total)
{
  uint64_t amount = UINT64_MAX;
  uint32_t keep = length;

  for (uint32_t i = 0; i < length; i++)
    amount = MIN (amount, f->room[f->path[i]]);
  for (uint32_t i = length; i-- > 0;) {
    uint32_t a = f->path[i];
    f->room[a] -= amount;
    f->room[a ^ 1] += amount;
    if (f->room[a] == 0)
      keep = i;
  }
  *total += amount;
  return keep;
}

/* Pushes all flow that the present layers let through, depth first, and adds it to *total.
 * f->next[v] is the arc to try next, so that a dead end is entered once.  Stops if a path has no
 * arc of finite capacity. */
static void
fill_layers (Flow *f, uint64_t *total)
{
  uint32_t at = f->source, length = 0;

  memcpy (f->next, f->first, f->n_nodes * sizeof *f->next);
  while (*total < GM_CUT_NEVER) {
    if (at == f->sink) {
      length = push (f, length, total);
      at = length ? f->to[f->path[length - 1]] : f->source;
      continue;
    }
    for (; f->next[at] < f->first[at + 1]; f->next[at]++) {
      uint32_t a = f->arcs[f->next[at]];
      if (f->room[a] > 0 && f->layer[f->to[a]] == f->layer[at] + 1)
        break;
    }
    if (f->next[at] < f->first[at + 1]) {
      f->path[length] = f->arcs[f->next[at]];
      at = f->to[f->path[length++]];
    } else if (length > 0) {
      at = f->to[f->path[--length] ^ 1];
      f->next[at]++;
    } else {
      return;
    }
  }
}

bool
gm_cut_solve (const GmCutProblem *p, bool *cut, uint64_t *weight)
{
  Flow f;
  uint64_t total = 0;

  flow_init (&f, p);
  for (find_layers (&f, f.source, false); f.layer[f.sink] != NOWHERE && total < GM_CUT_NEVER;
       find_layers (&f, f.source, false))
    fill_layers (&f, &total);
  find_layers (&f, f.sink, true);
  for (uint32_t v = 0; v < p->n; v++)
    cut[v] = f.layer[LEAVES (v)] != NOWHERE && f.layer[ARRIVES (v)] == NOWHERE;
  flow_clear (&f);
  *weight = total;
  return total < GM_CUT_NEVER;
}
