/* SPDX-License-Identifier: Apache-2.0
 * specialise.c -- from symbols to numbers: finds which inputs bind the symbols, and makes the graph
 * for given numbers, and the graph in which the facts have made as many sizes numbers as they can.
 *
 * A symbol is bound by an input whose size, or else stride, it is by itself.  A symbol that only
 * occurs inside of expressions is bound by no input: the caller that runs such a graph knows it
 * from elsewhere.
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
  to->step = n->step;
  if (n->op == GM_OP_constant) {
    v = gm_graph_add_constant (to, g_ptr_array_index (g->constants, n->attrs->offset), n->where);
  } else {
    if (n->attrs && !gm_graph_attrs_now (g, n->attrs, symbols, &attrs, error))
      return false;
    v = gm_graph_add_node (to, n->op, n->in, (int) n->n_in, n->attrs ? &attrs : NULL, n->where,
                           error);
  }
  if (v == GM_NO_ID)
    return false;
  g_assert (v == n->out);
  gm_graph_meta (to, v)->requires_grad = gm_graph_meta (g, v)->requires_grad;
  gm_graph_mark_like (to, v, n);
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
    GmValueId input = gm_graph_add_input (to, v->name, &m);
    gm_graph_set_alias (to, input, v->alias);
    gm_graph_value (to, input)->look = v->look;
  }
  return true;
}

/* Returns a copy of a scan's body in which all symbols are numbers but the number of slices of a
 * block. */
static GmGraph *
specialise_blocks (const GmGraph *body, const int64_t *symbols)
{
  g_autoptr (GmGraph) own = gm_graph_copy_apart (body);
  int64_t block = gm_body_input (own, 0)->sizes[0];
  for (uint32_t i = 0; i < gm_sym_n_symbols (own->sym); i++) {
    int64_t symbol = gm_sizes_nth_symbol (own->sizes, i);
    if (symbol != block)
      gm_size_facts_add (own->sizes->facts, GM_REL_EQ, symbol, gm_sym_const (own->sym, symbols[i]));
  }
  return gm_graph_settle (own, NULL);
}

/* Gives `to` a table with the bodies of calls of graphs specialised: their sizes are those of
 * the surrounding graph.  False with *error. */
static bool
specialise_highers (const GmGraph *g, GmGraph *to, const int64_t *symbols, GError **error)
{
  if (!to->highers)
    return true;
  gm_graph_own_highers (to);
  for (uint32_t i = 0; i < to->highers->len; i++) {
    const GmHigher *from = to->highers->pdata[i];
    g_autoptr (GmHigher) h = gm_higher_new_like (from);
    for (uint32_t k = 0; k < h->n_results; k++)
      if (!gm_graph_meta_now (g, &from->results[k], symbols, &h->results[k], error))
        return false;
    for (uint32_t b = 0; b < h->n_bodies; b++) {
      if (h->op == GM_OP_associative_scan || h->op == GM_OP_associative_scan_grad) {
        h->bodies[b] = specialise_blocks (from->bodies[b], symbols);
        continue;
      }
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

/* Gives `to` a table with the program's gradients specialised; they are evaluated where a graph
 * is unfolded.  False with *error. */
static bool
specialise_customs (const GmGraph *g, GmGraph *to, const int64_t *symbols, GError **error)
{
  if (!g->customs || !g->customs->len)
    return true;
  GPtrArray *own = g_ptr_array_new_with_free_func ((GDestroyNotify) gm_graph_free);
  bool good = true;
  for (uint32_t i = 0; i < g->customs->len && good; i++) {
    const GmGraph *from = g->customs->pdata[i];
    GmGraph *now = gm_graph_specialise (from, symbols, NULL, error);
    good = now != NULL;
    if (good) {
      gm_graph_custom_describe (now, from);
      g_ptr_array_add (own, now);
    }
  }
  if (!good) {
    g_ptr_array_unref (own);
    return false;
  }
  g_ptr_array_unref (to->customs);
  to->customs = own;
  return true;
}

/* Makes the graph for numbers.  Ids stay the same if inputs come before nodes, as they do in
 * graphs that back ends get. */
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
  if (!specialise_highers (g, to, symbols, error) || !specialise_customs (g, to, symbols, error))
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

/* -- With sizes of its own --------------------------------------------------------------------- */

/* Gives g copies of the program's gradients that have `sizes`, or, if that is NULL, are settled
 * by the facts as g is. */
static void
own_customs (GmGraph *g, GmSizes *sizes)
{
  if (!g->customs)
    return;
  GPtrArray *own = g_ptr_array_new_with_free_func ((GDestroyNotify) gm_graph_free);
  for (uint32_t i = 0; i < g->customs->len; i++) {
    const GmGraph *from = g->customs->pdata[i];
    GmGraph *now =
        sizes ? gm_graph_copy_with (from, gm_sizes_ref (sizes)) : gm_graph_settle (from, NULL);
    gm_graph_custom_describe (now, from);
    g_ptr_array_add (own, now);
  }
  g_ptr_array_unref (g->customs);
  g->customs = own;
}

GmGraph *
gm_graph_copy_with (const GmGraph *g, GmSizes *sizes)
{
  GmGraph *to = gm_graph_simplify (g, 0, NULL);
  gm_sizes_unref (to->sizes);
  to->sizes = sizes;
  to->sym = sizes->sym;
  own_customs (to, sizes);
  if (!to->highers)
    return to;
  gm_graph_own_highers (to);
  for (uint32_t i = 0; i < to->highers->len; i++) {
    const GmHigher *from = to->highers->pdata[i];
    GmHigher *h = gm_higher_new_like (from);
    for (uint32_t b = 0; b < h->n_bodies; b++)
      h->bodies[b] = gm_graph_copy_with (from->bodies[b], gm_sizes_ref (sizes));
    gm_graph_set_higher (to, i, h);
  }
  return to;
}

GmGraph *
gm_graph_copy_apart (const GmGraph *g)
{
  /* the latter simplifies nothing: a copy */
  return g->sizes ? gm_graph_copy_with (g, gm_sizes_copy (g->sizes))
                  : gm_graph_simplify (g, 0, NULL);
}

/* -- As simple as the facts allow -------------------------------------------------------------- */

typedef struct {
  GmSizes *from, *to;
  int64_t *sizes; /* by row of `from`: the size in `to` */
} Settle;

/* Returns the size in s->to for row `row` of s->from, a symbol: its number if the facts give it
 * one; else the size of the first symbol before it that is known to equal it; else the symbol. */
static int64_t
settle_symbol (Settle *s, uint32_t row)
{
  int64_t size = gm_size_from_row (row), number;
  if (gm_sizes_is_number (s->from, size, &number))
    return number;
  for (uint32_t i = 0; i < row; i++)
    if (gm_sym_row (s->from->sym, i)->kind == GM_SYM_SYMBOL
        && gm_sizes_ask (s->from, GM_REL_EQ, gm_size_from_row (i), size) == GM_YES)
      return s->sizes[i];
  return gm_sym_symbol (s->to->sym, gm_sym_row (s->from->sym, row)->name);
}

static int64_t
settled (const Settle *s, int64_t size)
{
  return gm_size_is_symbolic (size) ? s->sizes[gm_size_row (size)] : size;
}

static void
settle_rows (Settle *s)
{
  uint32_t n = gm_sym_n_rows (s->from->sym);
  for (uint32_t i = 0; i < n; i++) { /* all symbols first, so that they keep their numbers */
    const GmSymRow *r = gm_sym_row (s->from->sym, i);
    if (r->kind != GM_SYM_SYMBOL)
      continue;
    int64_t hint, size = gm_size_from_row (i);
    size = gm_sizes_symbol (s->to, r->name,
                            gm_sizes_hint (s->from, size, &hint) ? hint : GM_SIZE_NO_HINT);
    gm_sym_set_range (s->to->sym, size, r->min, r->max);
    gm_sym_assume (s->to->sym, size, r->min, r->max, r->multiple_of);
  }
  for (uint32_t i = 0; i < n; i++) {
    GmSymRow r = *gm_sym_row (s->from->sym, i);
    if (r.kind == GM_SYM_CONST)
      s->sizes[i] = gm_sym_const (s->to->sym, r.value);
    else if (r.kind == GM_SYM_SYMBOL)
      s->sizes[i] = settle_symbol (s, i);
    else if (!gm_sizes_is_number (s->from, gm_size_from_row (i), &s->sizes[i]))
      s->sizes[i] = gm_sym_op (s->to->sym, r.kind, settled (s, gm_size_from_row (r.a)),
                               settled (s, gm_size_from_row (r.b)));
  }
}

static void
settle_facts (Settle *s)
{
  for (uint32_t i = 0; i < gm_size_facts_n (s->from->facts); i++) {
    GmSizeFact f = gm_size_facts_nth (s->from->facts, i);
    f.a = settled (s, f.a);
    f.b = settled (s, f.b);
    if (f.a != f.b && !gm_sizes_are_numbers (f.a, f.b))
      gm_size_facts_add (s->to->facts, f.rel, f.a, f.b);
  }
}

static void
settle_attrs (const Settle *s, GmAttrs *a)
{
  for (int i = 0; a->mask & 1u << GM_ATTR_SIZES && i < a->n_list; i++)
    a->list[i] = settled (s, a->list[i]);
  a->start = settled (s, a->start);
  a->stop = settled (s, a->stop);
  if (gm_scalar_is_symbolic (a->value))
    a->value.i = settled (s, a->value.i);
  if (gm_scalar_is_symbolic (a->value2))
    a->value2.i = settled (s, a->value2.i);
}

/* Settles the bodies of g's calls by the same facts: a symbol that was replaced in the
 * surrounding graph has no value any more. */
static void
settle_highers (GmGraph *g)
{
  if (!g->highers)
    return;
  gm_graph_own_highers (g);
  for (uint32_t i = 0; i < g->highers->len; i++) {
    const GmHigher *from = g->highers->pdata[i];
    GmHigher *h = gm_higher_new_like (from);
    for (uint32_t b = 0; b < h->n_bodies; b++)
      h->bodies[b] = gm_graph_settle (from->bodies[b], NULL);
    gm_graph_set_higher (g, i, h);
  }
}

GmGraph *
gm_graph_settle (const GmGraph *g, GmArena *arena)
{
  GmGraph *to = gm_graph_simplify (g, 0, arena);
  if (!g->sizes)
    return to;
  g_autofree int64_t *sizes = g_new0 (int64_t, gm_sym_n_rows (g->sym) + 1);
  Settle s = { g->sizes, gm_sizes_new (), sizes };
  settle_rows (&s);
  settle_facts (&s);
  gm_sizes_unref (to->sizes);
  to->sizes = s.to;
  to->sym = s.to->sym;
  for (uint32_t v = 0; v < to->values->len; v++) {
    GmMeta *m = gm_graph_meta (to, v);
    for (int d = 0; d < m->ndim; d++) {
      m->sizes[d] = settled (&s, m->sizes[d]);
      m->strides[d] = settled (&s, m->strides[d]);
    }
  }
  for (uint32_t i = 0; i < to->nodes->len; i++)
    if (gm_graph_attrs_are_symbolic (gm_graph_node (to, i)->attrs))
      settle_attrs (&s, (GmAttrs *) gm_graph_node (to, i)->attrs);
  own_customs (to, NULL);
  settle_highers (to);
  return to;
}
