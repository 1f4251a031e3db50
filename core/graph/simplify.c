/* SPDX-License-Identifier: Apache-2.0
 * simplify.c -- stage s: fold, common subexpressions, dead code.
 *
 * One walk forward folds and finds equal nodes, one backward finds live nodes, one forward emits
 * the new graph.  Not all equal values may be merged: see graph.h and fold.c.
 * Requires: a graph that verifies.
 * Keeps: inputs and their order, outputs and their kinds, `where` of every node that stays.
 */
#include "core/graph/simplify.h"

#include <string.h>

#include "core/sym/sym.h"

bool
gm_simplify_same_meta (const GmSimplifyWork *w, GmValueId a, GmValueId b)
{
  return !memcmp (gm_graph_meta (w->g, a), gm_graph_meta (w->g, b), sizeof (GmMeta));
}

/* -- Common subexpressions --------------------------------------------------------------------- */

typedef struct {
  GmSimplifyWork *w;
  uint32_t *slots; /* node + 1, open addressing */
  uint32_t mask;
} CseTable;

static bool
same_attrs (const GmAttrs *a, const GmAttrs *b)
{
  return a == b || (a && b && !memcmp (a, b, sizeof *a));
}

static bool
same_node (const GmSimplifyWork *w, const GmNode *a, const GmNode *b)
{
  return a->op == b->op && a->n_in == b->n_in && a->tag == b->tag && a->marks == b->marks
         && (!a->n_in || !memcmp (a->in, b->in, a->n_in * sizeof *a->in))
         && same_attrs (a->attrs, b->attrs) && gm_simplify_same_meta (w, a->out, b->out);
}

static uint64_t
hash_node (const GmNode *n)
{
  uint64_t h = (uint64_t) n->op;
  for (uint32_t k = 0; k < n->n_in; k++)
    h = (h ^ n->in[k]) * UINT64_C (0x9e3779b97f4a7c15);
  if (n->attrs) { /* the attributes that differ most often; same_node compares the rest */
    h = (h ^ (uint64_t) n->attrs->value.i ^ (uint64_t) n->attrs->dim << 32)
        * UINT64_C (0x9e3779b97f4a7c15);
    h = (h ^ (uint64_t) n->attrs->list[0] ^ (uint64_t) n->attrs->offset << 24)
        * UINT64_C (0x9e3779b97f4a7c15);
    h = (h ^ (uint64_t) n->attrs->start ^ (uint64_t) n->attrs->stop << 20)
        * UINT64_C (0x9e3779b97f4a7c15);
  }
  return h ^ h >> 32;
}

/* True for views and constants: equal ones share memory anyway. */
static bool
is_one_memory (const GmNode *n)
{
  return gm_ops[n->op].family == GM_FAMILY_MOVEMENT || n->op == GM_OP_constant;
}

/* True if node n's value may be replaced by the value of an equal node: not if the caller sees
 * it, or its memory through a view.  Of views and constants only outputs must stay. */
static bool
may_merge (const GmSimplifyWork *w, const GmNode *n)
{
  return !w->output[n->out] && !gm_op_has_effects (n->op)
         && (is_one_memory (n) || !w->escapes[n->out]);
}

/* True if n's value must not share memory with the equal node `first`, since the caller sees and
 * may write to that memory. */
static bool
stays_apart (const GmSimplifyWork *w, const GmNode *first, const GmNode *n)
{
  return w->apart && w->apart[n->out] && w->escapes[first->out] && !is_one_memory (n);
}

/* Returns the value of an earlier equal node that may stand for node i; else GM_NO_ID, and the
 * table keeps node i unless an equal node is there. */
static GmValueId
find_equal (CseTable *t, uint32_t i)
{
  const GmNode *n = &t->w->nodes[i];
  uint32_t at = (uint32_t) hash_node (n) & t->mask;
  for (; t->slots[at]; at = (at + 1) & t->mask) {
    const GmNode *first = &t->w->nodes[t->slots[at] - 1];
    if (same_node (t->w, first, n) && !stays_apart (t->w, first, n))
      return may_merge (t->w, n) ? first->out : GM_NO_ID;
  }
  t->slots[at] = i + 1;
  return GM_NO_ID;
}

static void
cse_init (CseTable *t, GmSimplifyWork *w)
{
  uint32_t n = 16;
  while (n < w->g->nodes->len * 2)
    n *= 2;
  t->w = w;
  t->slots = g_new0 (uint32_t, n);
  t->mask = n - 1;
}

/* -- The walk forward -------------------------------------------------------------------------- */

static void
look_up_operands (GmSimplifyWork *w, GmNode *n)
{
  bool changed = false;
  for (uint32_t k = 0; k < n->n_in; k++)
    changed = changed || w->same[n->in[k]] != n->in[k];
  if (!changed)
    return;
  GmValueId *in = gm_arena_copy (w->arena, n->in, n->n_in * sizeof *in);
  for (uint32_t k = 0; k < n->n_in; k++)
    in[k] = w->same[in[k]];
  n->in = in;
}

static void
rewrite (GmSimplifyWork *w)
{
  CseTable cse = { 0 };
  bool do_cse =
      w->what & GM_SIMPLIFY_CSE && !w->mutates; /* equal nodes around a write are not equal */
  if (do_cse)
    cse_init (&cse, w);
  for (uint32_t i = 0; i < w->g->nodes->len; i++) {
    GmNode *n = &w->nodes[i];
    look_up_operands (w, n);
    GmValueId v = w->what & GM_SIMPLIFY_FOLD ? gm_fold_node (w, i) : GM_NO_ID;
    if (v == GM_NO_ID && do_cse)
      v = find_equal (&cse, i);
    if (v != GM_NO_ID)
      w->same[n->out] = v;
  }
  g_free (cse.slots);
}

/* -- Escapes ----------------------------------------------------------------------------------- */

/* Sets w->escapes: which values' memory the caller may see.  Values that share memory are one
 * class, named by its root; if one member is an input, a constant or an output, all members
 * escape. */
static void
find_escapes (GmSimplifyWork *w)
{
  const GmGraph *g = w->g;
  g_autofree GmValueId *root = g_new (GmValueId, g->values->len + 1);
  for (uint32_t v = 0; v < g->values->len; v++) {
    root[v] = v;
    w->escapes[v] = gm_graph_value (g, v)->node == GM_NO_ID;
  }
  for (uint32_t i = 0; i < g->nodes->len; i++) {
    const GmNode *n = gm_graph_node (g, i);
    GmFamily family = gm_ops[n->op].family;
    if (family == GM_FAMILY_MOVEMENT || family == GM_FAMILY_MUTATE)
      root[n->out] = root[n->in[0]];
    if (n->op == GM_OP_constant)
      w->escapes[n->out] = true;
    if (n->op == GM_OP_set_) { /* two memories under one name */
      root[n->out] = root[n->in[1]];
      w->escapes[root[n->in[0]]] = w->escapes[root[n->in[1]]] = true;
    }
  }
  for (uint32_t i = 0; i < g->outputs->len; i++) {
    GmValueId v = g_array_index (g->outputs, GmGraphOutput, i).value;
    w->output[v] = true;
    w->escapes[root[v]] = true;
  }
  for (uint32_t v = 0; v < g->values->len; v++)
    w->escapes[v] = w->escapes[root[v]];
}

/* -- Dead code and emission -------------------------------------------------------------------- */

/* Returns the index of the first write that is part of a gradient history.  Later nodes whose
 * results require grad stay even if they are dead: reading a view makes its history, and gradients
 * are summed in the order of such reads. */
static uint32_t
first_recorded_write (const GmSimplifyWork *w)
{
  for (uint32_t i = 0; w->mutates && i < w->g->nodes->len; i++) {
    const GmNode *n = &w->nodes[i];
    if (gm_ops[n->op].family == GM_FAMILY_MUTATE
        && (gm_graph_meta (w->g, n->in[0])->requires_grad
            || gm_graph_meta (w->g, n->out)->requires_grad))
      return i;
  }
  return UINT32_MAX;
}

static void
find_live (const GmSimplifyWork *w, bool *live)
{
  const GmGraph *g = w->g;
  uint32_t first = first_recorded_write (w);
  for (uint32_t i = 0; i < g->outputs->len; i++)
    live[w->same[g_array_index (g->outputs, GmGraphOutput, i).value]] = true;
  for (uint32_t i = g->nodes->len; i-- > 0;) {
    const GmNode *n = &w->nodes[i];
    bool keep = live[n->out] || gm_ops[n->op].family == GM_FAMILY_MUTATE
                || gm_op_has_effects (n->op)
                /* where a gradient may still arrive */
                || (n->op == GM_OP_gradient_hook && !(w->what & GM_SIMPLIFY_CSE))
                || (i > first && n->n_in > 0 && gm_graph_meta (g, n->out)->requires_grad)
                || (!(w->what & GM_SIMPLIFY_DEAD) && w->same[n->out] == n->out);
    live[n->out] = keep;
    for (uint32_t k = 0; keep && k < n->n_in; k++)
      live[n->in[k]] = true;
  }
}

static const char *
carry_where (GmGraph *to, const GmGraph *from, const char *where, const char **last_from,
             const char **last_to)
{
  if (!where || to->arena == from->arena)
    return where;
  if (where != *last_from) { /* neighbours come from one line most of the time */
    *last_from = where;
    *last_to = gm_arena_strdup (to->arena, where);
  }
  return *last_to;
}

static GmGraph *
emit (const GmSimplifyWork *w, const bool *live, GmArena *arena, GmValueId *map_out)
{
  const GmGraph *g = w->g;
  GmGraph *to = gm_graph_new_like (g, g->name, arena);
  const char *last_from = NULL, *last_to = NULL;
  g_autofree GmValueId *map = g_new (GmValueId, g->values->len + 1);
  g_autofree GmValueId *in = NULL;
  uint32_t most = 0;
  memset (map, 0xff, g->values->len * sizeof *map);
  for (uint32_t i = 0; i < g->inputs->len; i++) {
    GmValueId v = g_array_index (g->inputs, GmValueId, i);
    map[v] = gm_graph_add_input (to, gm_graph_value (g, v)->name, gm_graph_meta (g, v));
  }
  gm_graph_carry_aliases (to, g, map);
  gm_graph_share_tables (to, g);
  for (uint32_t i = 0; i < g->nodes->len; i++) {
    const GmNode *n = &w->nodes[i];
    if (!live[n->out])
      continue;
    const char *where = carry_where (to, g, n->where, &last_from, &last_to);
    to->step = n->step;
    if (n->op == GM_OP_constant) {
      map[n->out] =
          gm_graph_add_constant (to, g_ptr_array_index (g->constants, n->attrs->offset), where);
      gm_graph_meta (to, map[n->out])->requires_grad = gm_graph_meta (g, n->out)->requires_grad;
      continue;
    }
    if (n->n_in > most)
      in = g_renew (GmValueId, in, most = n->n_in);
    for (uint32_t k = 0; k < n->n_in; k++)
      in[k] = map[n->in[k]];
    map[n->out] = gm_graph_add_known (to, n->op, in, (int) n->n_in, n->attrs, where,
                                      gm_graph_meta (g, n->out));
    gm_graph_mark_like (to, map[n->out], n);
  }
  for (uint32_t i = 0; i < g->outputs->len; i++) {
    const GmGraphOutput *o = &g_array_index (g->outputs, GmGraphOutput, i);
    gm_graph_add_output (to, map[w->same[o->value]], o->kind);
  }
  for (uint32_t v = 0; map_out && v < g->values->len; v++)
    map_out[v] = map[w->same[v]];
  return to;
}

GmGraph *
gm_graph_simplify (const GmGraph *g, uint32_t what, GmArena *arena)
{
  return gm_graph_simplify_mapped (g, what, arena, NULL, NULL);
}

GmGraph *
gm_graph_simplify_mapped (const GmGraph *g, uint32_t what, GmArena *arena, const bool *apart,
                          GmValueId *map)
{
  g_autoptr (GmArena) scratch = gm_arena_new ();
  g_autofree bool *output = g_new0 (bool, g->values->len + 1),
                  *escapes = g_new0 (bool, g->values->len + 1),
                  *live = g_new0 (bool, g->values->len + 1);
  g_autofree GmValueId *same = g_new (GmValueId, g->values->len + 1);
  GmSimplifyWork w = { .g = g,
                       .arena = scratch,
                       .what = what,
                       .same = same,
                       .output = output,
                       .escapes = escapes,
                       .apart = apart };
  w.nodes = gm_arena_newn (scratch, GmNode, g->nodes->len + 1);
  for (uint32_t v = 0; v < g->values->len; v++)
    same[v] = v;
  for (uint32_t i = 0; i < g->nodes->len; i++) {
    w.nodes[i] = *gm_graph_node (g, i);
    w.mutates = w.mutates || gm_ops[w.nodes[i].op].family == GM_FAMILY_MUTATE;
  }
  find_escapes (&w);
  rewrite (&w);
  find_live (&w, live);
  GmGraph *to = emit (&w, live, arena, map);
  to->hooks = g->hooks ? g_ptr_array_ref (g->hooks) : NULL;
  return to;
}
