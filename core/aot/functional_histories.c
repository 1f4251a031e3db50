/* SPDX-License-Identifier: Apache-2.0
 * functional_histories.c -- the histories that the caller's tensors have after a function that
 * writes in place.
 *
 * A base that was written to has a new history, and so have its views, after their next refresh. If
 * gradients that arrive at such a tensor from outside are added to gradients from inside of the
 * function, its history is an output of the new graph; else it is made after the call, as eager
 * makes it: never, at a later refresh, or at once, if the function has refreshed the view.
 */
#include "core/aot/functional_private.h"

typedef GmFunctionalRewrite Rewrite;

/* Returns, per value of the new graph, true if gradients reach it from an output or from the last
 * value of a base.  The caller frees the array. */
static bool *
find_reached (const Rewrite *r, const GmFunctionalLayer *layer)
{
  const GmGraph *g = r->b.graph;
  bool *reached = g_new0 (bool, g->values->len + 1);

  for (uint32_t i = 0; i < g->outputs->len; i++)
    reached[g_array_index (g->outputs, GmGraphOutput, i).value] = true;
  for (uint32_t i = layer->n_outer; i < r->g->outputs->len; i++) {
    GmValueId v = g_array_index (r->g->outputs, GmGraphOutput, i).value;
    if (gm_views_parent (r->g, gm_views_object (r->g, v)) == GM_NO_ID)
      reached[gm_id_from_val (r->now[gm_views_object (r->g, v)])] = true;
  }
  for (uint32_t i = g->nodes->len; i-- > 0;) {
    const GmNode *n = gm_graph_node (g, i);
    bool on = reached[n->out] && gm_graph_meta (g, n->out)->requires_grad;
    for (uint32_t k = 0; on && k < n->n_in; k++)
      reached[n->in[k]] = true;
  }
  return reached;
}

/* True if `v`, or a value that shares its memory, gets a gradient from a node that is no view, or
 * has a gradient hook. */
static bool
is_read_inside (const GmGraph *g, const bool *reached, GmValueId v)
{
  GmValueId root = gm_views_root (g, v);

  for (uint32_t i = 0; i < g->nodes->len; i++) {
    const GmNode *n = gm_graph_node (g, i);
    bool on = n->op == GM_OP_gradient_hook
              || (reached[n->out] && gm_ops[n->op].family != GM_FAMILY_MOVEMENT
                  && gm_graph_meta (g, n->out)->requires_grad);
    for (uint32_t k = 0; on && k < n->n_in; k++)
      if (gm_views_root (g, n->in[k]) == root)
        return true;
  }
  return false;
}

/* True if v is a view whose base was written to after v was last read. */
static bool
is_stale (const Rewrite *r, GmValueId v)
{
  if (!r->now[gm_views_object (r->g, v)])
    return true;

  GmValueId object = gm_views_object (r->g, v), root = gm_views_root (r->g, object);

  return object != root && !r->quiet[root] && r->seen[object] != r->writes[root];
}

static GmLate
lateness (const Rewrite *r, GmValueId v)
{
  GmValueId object = gm_views_object (r->g, v), root = gm_views_root (r->g, object);

  if (object == root || r->quiet[root] || r->taken[object] == r->writes[root])
    return GM_LATE_NEVER;
  return is_stale (r, v) ? GM_LATE_LATER : GM_LATE_NOW;
}

/* Returns the value of the new graph whose history object v has after the call.  NULL: eager makes
 * that history at a refresh after the call, or no gradient that reaches it is added to gradients
 * from inside of the function. */
static GmVal
final_history (Rewrite *r, const bool *reached, GmValueId v)
{
  GmValueId object = gm_views_object (r->g, v), root = gm_views_root (r->g, object);
  bool quiet = r->quiet[root];
  GmVal now = quiet ? r->before_quiet[object] : r->now[object];

  if (!now || !gm_b_meta (&r->b.base, now)->requires_grad || (quiet && object == root))
    return NULL;
  if (object == root)
    return now;
  /* elements that were picked are no view here: test what they were picked from, too */
  return !is_stale (r, v)
                 && (is_read_inside (r->b.graph, reached, gm_id_from_val (now))
                     || (!quiet && r->now[root]
                         && is_read_inside (r->b.graph, reached, gm_id_from_val (r->now[root]))))
             ? now
             : NULL;
}

/* True if v, or a value that shares its memory, has a gradient hook. */
static bool
has_hook (const GmGraph *g, GmValueId v)
{
  GmValueId root = gm_views_root (g, v);

  for (uint32_t i = 0; i < g->nodes->len; i++) {
    const GmNode *n = gm_graph_node (g, i);
    if (n->op == GM_OP_gradient_hook && gm_views_root (g, n->in[0]) == root)
      return true;
  }
  return false;
}

/* Returns the last value of v in the new graph, 0 if there is none: each refreshing read makes a
 * value of its own, so ids are ordered as the reads. */
static GmValueId
last_look (const Rewrite *r, GmValueId v)
{
  GmVal now = r->now[gm_views_object (r->g, v)];

  return now ? gm_id_from_val (now) : 0;
}

static const uint32_t *
order_looks (const Rewrite *r, const GmValueId *of, uint32_t n, GmArena *arena)
{
  uint32_t *looks = gm_arena_newn (arena, uint32_t, n + 1);

  for (uint32_t i = 0; i < n; i++) {
    uint32_t at = i;
    for (; at > 0 && last_look (r, of[looks[at - 1]]) > last_look (r, of[i]); at--)
      looks[at] = looks[at - 1];
    looks[at] = i;
  }
  return looks;
}

/* Returns the number of the node that makes v in the new graph, GM_NO_ID for an input or no
 * value. */
static uint32_t
node_of (const Rewrite *r, GmVal v)
{
  return v ? gm_graph_value (r->b.graph, gm_id_from_val (v))->node : GM_NO_ID;
}

void
gm_functional_histories (Rewrite *r, GmArena *arena, GmFunctionalLayer *layer)
{
  const GmGraph *g = r->g;
  uint32_t n = g->outputs->len - layer->n_outer;
  GmInnerOutput *histories = gm_arena_newn (arena, GmInnerOutput, n);
  GmVal *ends = gm_arena_newn (arena, GmVal, n + 1);
  GmValueId *of = gm_arena_newn (arena, GmValueId, n + 1);
  uint8_t *late = gm_arena_newn (arena, uint8_t, n + 1);
  uint32_t *places = gm_arena_newn (arena, uint32_t, n + 1),
           *taken = gm_arena_newn (arena, uint32_t, n + 1);

  if (gm_b_failed (&r->b.base))
    return;
  g_autofree bool *reached = find_reached (r, layer);
  for (uint32_t i = 0; i < n; i++) {
    GmValueId v = of[i] = g_array_index (g->outputs, GmGraphOutput, layer->n_outer + i).value;
    ends[i] = final_history (r, reached, v);
    late[i] = lateness (r, v);
    GmVal now = r->now[gm_views_object (g, v)];
    places[i] = node_of (r, now);
    taken[i] = node_of (r, r->first[gm_views_object (g, v)]);
    if (!ends[i] && has_hook (g, v)) {
      gm_b_fail (&r->b.base, GM_ERROR_UNSUPPORTED,
                 "a hook waits on a view that is given out, whose history is made after the call: "
                 "register it outside of the compiled function");
      return;
    }
  }
  for (uint32_t i = 0; i < n; i++) {
    histories[i] = (GmInnerOutput){ ends[i] ? r->b.graph->outputs->len : GM_NO_ID };
    if (ends[i])
      gm_graph_add_output (r->b.graph, gm_id_from_val (ends[i]), GM_OUTPUT_HISTORY);
  }
  layer->histories = histories;
  layer->late = late;
  layer->places = places;
  layer->taken = taken;
  layer->looks = order_looks (r, of, n, arena);
  layer->n_histories = n;
}
