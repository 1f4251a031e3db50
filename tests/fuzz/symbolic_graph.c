/* SPDX-License-Identifier: Apache-2.0
 * symbolic_graph.c -- see symbolic_graph.h.
 */
#include "tests/fuzz/symbolic_graph.h"

#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <string.h>

typedef struct {
  const GmGraph *from;
  GmGraph *to;
  uint64_t state;
  int n_symbols;
} Twin;

static bool
chance (Twin *t, uint64_t percent)
{
  return gm_fuzz_draw (&t->state) % 100 < percent;
}

/* -- The twin ---------------------------------------------------------------------------------- */

/* Returns a symbol with this example value: mostly an existing one. */
static int64_t
symbol_for (Twin *t, int64_t number, uint64_t percent_new)
{
  GmSizes *s = gm_graph_sizes (t->to);
  for (int i = 0; i < t->n_symbols; i++) {
    char name[16];
    int64_t hint, size;
    snprintf (name, sizeof name, "n%d", i);
    size = gm_sym_symbol (s->sym, name);
    if (gm_sizes_hint (s, size, &hint) && hint == number && !chance (t, percent_new))
      return size;
  }
  if (percent_new == 0)
    return number;
  char name[16];
  snprintf (name, sizeof name, "n%d", t->n_symbols++);
  return gm_sizes_symbol (s, name, number);
}

static void
add_input (Twin *t, const GmGraphValue *v)
{
  GmMeta m = v->meta;
  bool row_major = gm_meta_is_contiguous (&m);
  for (int d = 0; d < m.ndim; d++)
    if ((m.sizes[d] > 1 && chance (t, 70)) || (m.sizes[d] <= 1 && chance (t, 3)))
      m.sizes[d] = symbol_for (t, m.sizes[d], 30);
  if (row_major)
    gm_meta_set_contiguous (&m);
  else if (gm_meta_is_dense (&v->meta)) { /* the same order of dimensions */
    int64_t order[GM_MAX_DIMS], stride = 1;
    gm_meta_order (&v->meta, order);
    for (int k = m.ndim - 1; k >= 0; k--) {
      m.strides[order[k]] = stride;
      stride = gm_size_mul (stride, m.sizes[order[k]]);
    }
  } else
    m = v->meta; /* with gaps, or repeated: stays numbers */
  gm_graph_add_input (t->to, v->name, &m);
}

/* Replaces the sizes of a view or an expansion by those of the operand where they are equal, so
 * that they stay symbolic. */
static void
open_sizes (Twin *t, const GmNode *n, GmAttrs *a)
{
  const GmMeta *was = gm_graph_meta (t->from, n->in[0]), *is = gm_graph_meta (t->to, n->in[0]);
  if (n->op == GM_OP_expand) {
    int shift = a->n_list - was->ndim;
    for (int d = 0; d < a->n_list; d++)
      if (d >= shift && was->sizes[d - shift] != 1)
        a->list[d] = is->sizes[d - shift];
      else if (a->list[d] > 1 && chance (t, 50))
        a->list[d] = symbol_for (t, a->list[d], 0);
    return;
  }
  /* Matches runs of dimensions with as many elements, from the left. */
  for (int d = 0, k = 0; d < was->ndim && k < a->n_list;) {
    int64_t have = was->sizes[d], want = a->list[k], product = is->sizes[d];
    int first = k;
    d++;
    k++;
    while (have != want) {
      if (have < want && d < was->ndim) {
        have *= was->sizes[d];
        product = gm_size_mul (product, is->sizes[d++]);
      } else if (have > want && k < a->n_list)
        want *= a->list[k++];
      else
        return;
    }
    if (want == 0)
      return;
    int64_t others = 1; /* the first of them gets the quotient of the others */
    for (int i = first + 1; i < k; i++)
      others *= a->list[i];
    a->list[first] = gm_size_floordiv (product, others);
  }
}

static bool
add_node (Twin *t, const GmNode *n)
{
  GmAttrs a;
  if (n->op == GM_OP_constant)
    return gm_graph_add_constant (t->to, g_ptr_array_index (t->from->constants, n->attrs->offset),
                                  NULL)
           == n->out;
  if (n->attrs)
    a = *n->attrs;
  if (n->op == GM_OP_expand || n->op == GM_OP_view)
    open_sizes (t, n, &a);
  else if (n->op == GM_OP_full && chance (t, 50)) {
    for (int d = 0; d < a.n_list; d++)
      if (a.list[d] > 1)
        a.list[d] = symbol_for (t, a.list[d], 0);
  } else if (n->op == GM_OP_slice || n->op == GM_OP_slice_scatter) {
    if (a.stop == gm_graph_meta (t->from, n->in[0])->sizes[a.dim])
      a.stop = gm_graph_meta (t->to, n->in[0])->sizes[a.dim];
  }
  return gm_graph_add_node (t->to, n->op, n->in, (int) n->n_in, n->attrs ? &a : NULL, n->where,
                            NULL)
         == n->out;
}

static bool
is_open (const GmGraph *g)
{
  for (uint32_t v = 0; v < g->values->len; v++)
    if (gm_graph_meta_is_symbolic (gm_graph_meta (g, v)))
      return true;
  return false;
}

GmGraph *
gm_symbolic_graph (const GmGraph *g, uint64_t seed, GmArena *arena)
{
  g_autoptr (GmGraph) to = gm_graph_new (g->name, arena);
  g_autoptr (GmGraph) from = gm_graph_simplify (g, 0, arena); /* orders inputs first */
  Twin t = { .from = from, .to = to, .state = seed };
  GmSizes *was = gm_sizes_enter (gm_graph_sizes (to));
  bool good = true;
  for (uint32_t i = 0; i < from->inputs->len; i++)
    add_input (&t, gm_graph_value (from, i));
  for (uint32_t i = 0; i < from->nodes->len && good; i++)
    good = add_node (&t, gm_graph_node (from, i));
  gm_sizes_check (to->sizes, NULL);
  for (uint32_t i = 0; i < from->outputs->len && good; i++) {
    const GmGraphOutput *o = &g_array_index (from->outputs, GmGraphOutput, i);
    gm_graph_add_output (to, o->value, o->kind);
  }
  gm_sizes_enter (was);
  return good && is_open (to) ? g_steal_pointer (&to) : NULL;
}

/* -- Numbers ----------------------------------------------------------------------------------- */

static bool
facts_hold (const GmSizes *s, const int64_t *symbols)
{
  for (uint32_t i = 0; i < gm_size_facts_n (s->facts); i++) {
    GmSizeFact f = gm_size_facts_nth (s->facts, i);
    int64_t a, b;
    if (!gm_sym_eval (s->sym, f.a, symbols, &a, NULL)
        || !gm_sym_eval (s->sym, f.b, symbols, &b, NULL)
        || !(f.rel == GM_REL_EQ   ? a == b
             : f.rel == GM_REL_NE ? a != b
             : f.rel == GM_REL_LT ? a < b
                                  : a <= b))
      return false;
  }
  return true;
}

void
gm_symbolic_draw (const GmGraph *g, uint64_t *seed, int64_t *symbols)
{
  static const int16_t sizes[] = { 0,  1,  1,  2,  2,  3,  4,   5,   7,  8,
                                   15, 16, 17, 31, 33, 64, 100, 513, 700 };
  const GmSizes *s = g->sizes;
  uint32_t n = gm_sym_n_symbols (s->sym);
  for (int attempt = 0; attempt < 40; attempt++) {
    for (uint32_t i = 0; i < n; i++) /* at first all are drawn, then fewer and fewer */
      symbols[i] = (int) (gm_fuzz_draw (seed) % 40) < attempt
                       ? g_array_index (s->hints, int64_t, i)
                       : sizes[gm_fuzz_draw (seed) % G_N_ELEMENTS (sizes)];
    if (facts_hold (s, symbols))
      return;
  }
  memcpy (symbols, s->hints->data, n * sizeof *symbols);
}
