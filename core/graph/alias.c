/* SPDX-License-Identifier: Apache-2.0
 * alias.c -- facts about the memory of a graph's inputs.
 *
 * Most graphs have no such facts, and then no input shares memory with another input that is
 * written to.  The recorder of the graph has seen real tensors and may note more: that an input is
 * the same tensor as another input, lies in its memory, or is a view of it.  Rewrites carry these
 * facts along; core/aot acts on them, and returns the assumptions that it has made.
 */
#include <string.h>

#include "core/graph/alias.h"

void
gm_graph_set_alias (GmGraph *g, GmValueId input, const GmGraphAlias *alias)
{
  g_return_if_fail (input < g->values->len && gm_graph_value (g, input)->node == GM_NO_ID);
  gm_graph_value (g, input)->alias = alias ? gm_arena_copy (g->arena, alias, sizeof *alias) : NULL;
}

void
gm_graph_carry_aliases (GmGraph *to, const GmGraph *from, const GmValueId *map)
{
  for (uint32_t i = 0; i < from->inputs->len; i++) {
    GmValueId v = g_array_index (from->inputs, GmValueId, i);
    const GmGraphAlias *old = gm_graph_value (from, v)->alias;
    gm_graph_value (to, map ? map[v] : v)->look = gm_graph_value (from, v)->look;
    if (!old)
      continue;
    GmGraphAlias a = *old;
    a.same = map && a.same != GM_NO_ID ? map[a.same] : a.same;
    a.shares = map && a.shares != GM_NO_ID ? map[a.shares] : a.shares;
    a.base = map && a.base != GM_NO_ID ? map[a.base] : a.base;
    gm_graph_set_alias (to, map ? map[v] : v, &a);
  }
}

/* -- Checks ------------------------------------------------------------------------------------ */

static bool
is_input (const GmGraph *g, GmValueId v)
{
  return v < g->values->len && gm_graph_value (g, v)->node == GM_NO_ID;
}

/* Returns the verifier's rule that the facts `a` about input v break, and in *says how, as the
 * end of a sentence that begins with the input's name; GM_RULE_NONE: they break none. */
static GmRule
problem (const GmGraph *g, GmValueId v, const GmGraphAlias *a, const char **says)
{
#define WRONG(rule, what) return *says = (what), GM_RULE_##rule
  const GmMeta *m = gm_graph_meta (g, v);
  GmValueId others[] = { a->same, a->shares, a->base };
  for (size_t k = 0; k < G_N_ELEMENTS (others); k++)
    if (others[k] != GM_NO_ID && (!is_input (g, others[k]) || others[k] == v))
      WRONG (ALIAS_OTHER, "shares memory with something that is no other input");
  if (a->same != GM_NO_ID) {
    const GmGraphAlias *b = gm_graph_value (g, a->same)->alias;
    if (a->shares != GM_NO_ID || a->base != GM_NO_ID || a->has_base_meta)
      WRONG (ALIAS_SAME_ALONE, "is another input and has memory of its own");
    if (b && b->same != GM_NO_ID)
      WRONG (ALIAS_SAME_FIRST, "is an input that is itself another one: name that");
    if (memcmp (m, gm_graph_meta (g, a->same), sizeof *m))
      WRONG (ALIAS_SAME_TYPE, "is another input, but of another type");
  }
  if (a->leaf && !m->requires_grad)
    WRONG (ALIAS_LEAF, "is a leaf of the gradient, but does not require grad");
  if (a->base != GM_NO_ID && (a->base != a->shares || a->has_base_meta))
    WRONG (ALIAS_ONE_BASE, "has two bases");
  if (a->has_base_meta && (a->base_meta.dtype != m->dtype || a->base_offset < 0))
    WRONG (ALIAS_IN_BASE, "does not lie in its base");
  return GM_RULE_NONE;
#undef WRONG
}

GmRule
gm_graph_alias_problem (const GmGraph *g, GmValueId v, const char **says)
{
  const GmGraphAlias *a = gm_graph_value (g, v)->alias;
  return a ? problem (g, v, a, says) : GM_RULE_NONE;
}
