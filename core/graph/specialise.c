/* SPDX-License-Identifier: Apache-2.0
 * specialise.c -- from symbols to numbers: where a call's inputs say what they are, and the graph for
 * them.
 *
 * A symbol is bound by an input whose size, or else stride, it is by itself.  A symbol that only occurs
 * inside of expressions is bound by no input: who runs such a graph knows it from elsewhere.
 */
#include "core/graph/higher.h"

#include <string.h>

#include "core/sym/sym.h"

/* -- Binding ----------------------------------------------------------------------------------- */

static bool
is_symbol (const GmGraph *g, int64_t size, uint32_t symbol)
{
  if (!gm_size_is_symbolic (size))
    return false;
  const GmSymRow *r = gm_sym_row (g->sym, gm_size_row (size));
  return r->kind == GM_SYM_SYMBOL && r->a == symbol;
}

static GmSymbolSource
find_source (const GmGraph *g, uint32_t symbol)
{
  for (int strides = 0; strides < 2; strides++)
    for (uint32_t i = 0; i < g->inputs->len; i++) {
      const GmMeta *m = gm_graph_meta (g, g_array_index (g->inputs, GmValueId, i));
      for (int d = 0; d < m->ndim; d++)
        if (is_symbol (g, strides ? m->strides[d] : m->sizes[d], symbol))
          return (GmSymbolSource){ i, (uint8_t) d, strides };
    }
  return (GmSymbolSource){ .input = GM_NO_ID };
}

uint32_t
gm_graph_symbol_sources (const GmGraph *g, GmArena *arena, const GmSymbolSource **out)
{
  uint32_t n = g->sym ? gm_sym_n_symbols (g->sym) : 0;
  GmSymbolSource *sources = gm_arena_newn (arena, GmSymbolSource, n + 1);
  for (uint32_t i = 0; i < n; i++)
    sources[i] = find_source (g, i);
  *out = sources;
  return n;
}

/* -- Numbers ----------------------------------------------------------------------------------- */

bool
gm_graph_meta_now (const GmGraph *g, const GmMeta *m, const int64_t *symbols, GmMeta *out,
                   GError **error)
{
  *out = *m;
  for (int d = 0; d < m->ndim; d++)
    if (!gm_sym_eval (g->sym, m->sizes[d], symbols, &out->sizes[d], error)
        || !gm_sym_eval (g->sym, m->strides[d], symbols, &out->strides[d], error))
      return false;
  for (int d = 0; d < m->ndim; d++)
    if (out->sizes[d] < 0) {
      g_autofree char *text = gm_sym_text (g->sym, m->sizes[d]);
      g_set_error (error, GM_ERROR, GM_ERROR_VALUE,
                   "the size %s of the graph '%s' is %" G_GINT64_FORMAT " for these inputs", text,
                   g->name, out->sizes[d]);
      return false;
    }
  return true;
}

static bool
specialise_node (const GmGraph *g, GmGraph *to, const GmNode *n, const int64_t *symbols,
                 GError **error)
{
  GmValueId v;
  GmAttrs attrs;
  if (n->op == GM_OP_constant) {
    v = gm_graph_add_constant (to, g_ptr_array_index (g->constants, n->attrs->offset), n->where);
  } else {
    if (n->attrs && !gm_graph_attrs_now (g, n->attrs, symbols, &attrs, error))
      return false;
    v = gm_graph_add_node (to, n->op, n->in, (int) n->n_in, n->attrs ? &attrs : NULL, n->where, error);
  }
  if (v == GM_NO_ID)
    return false;
  g_assert (v == n->out);
  gm_graph_meta (to, v)->requires_grad = gm_graph_meta (g, v)->requires_grad;
  gm_graph_set_tag (to, v, n->tag);
  return true;
}

static bool
specialise_inputs (const GmGraph *g, GmGraph *to, const int64_t *symbols, GError **error)
{
  for (uint32_t i = 0; i < g->inputs->len; i++) {
    const GmGraphValue *v = gm_graph_value (g, g_array_index (g->inputs, GmValueId, i));
    GmMeta m;
    if (!gm_graph_meta_now (g, &v->meta, symbols, &m, error))
      return false;
    gm_graph_add_input (to, v->name, &m);
  }
  return true;
}

/* The bodies of calls of graphs: their sizes are those of the graph around them. */
static bool
specialise_highers (GmGraph *to, const int64_t *symbols, GError **error)
{
  if (!to->highers)
    return true;
  gm_graph_own_highers (to);
  for (uint32_t i = 0; i < to->highers->len; i++) {
    const GmHigher *from = to->highers->pdata[i];
    g_autoptr (GmHigher) h = gm_higher_new_like (from);
    for (uint32_t b = 0; b < h->n_bodies; b++) {
      g_autoptr (GmArena) scratch = gm_arena_new ();
      g_autoptr (GmGraph) body = gm_graph_specialise (from->bodies[b], symbols, scratch, error);
      if (!body)
        return false;
      h->bodies[b] = gm_graph_simplify (body, 0, NULL); /* in an arena of its own */
    }
    gm_graph_set_higher (to, i, g_steal_pointer (&h));
  }
  return true;
}

/* Ids stay, if inputs come first, as they do in graphs that back ends get. */
GmGraph *
gm_graph_specialise (const GmGraph *g, const int64_t *symbols, GmArena *arena, GError **error)
{
  g_autoptr (GmGraph) to = gm_graph_new (g->name, arena);
  g_autoptr (GmGraph) ordered = NULL;
  for (uint32_t i = 0; i < g->inputs->len; i++)
    if (g_array_index (g->inputs, GmValueId, i) != i) {
      g = ordered = gm_graph_simplify (g, 0, arena); /* a copy: inputs, then nodes in their order */
      break;
    }
  if (!specialise_inputs (g, to, symbols, error))
    return NULL;
  gm_graph_share_tables (to, g);
  if (!specialise_highers (to, symbols, error))
    return NULL;
  for (uint32_t i = 0; i < g->nodes->len; i++)
    if (!specialise_node (g, to, gm_graph_node (g, i), symbols, error)) {
      g_prefix_error (error, "the graph '%s' for these sizes, node %u: ", g->name, i);
      return NULL;
    }
  for (uint32_t i = 0; i < g->outputs->len; i++) {
    const GmGraphOutput *o = &g_array_index (g->outputs, GmGraphOutput, i);
    gm_graph_add_output (to, o->value, o->kind);
  }
  return g_steal_pointer (&to);
}
