/* SPDX-License-Identifier: Apache-2.0
 * copy.c -- building a graph out of another graph's values.
 *
 * Every rewrite here makes a new graph and leaves the old one alone.  Nodes are added again through
 * gm_graph_add_node, so their metas are inferred again: a rewrite that changes what a value
 * requires (a gradient, a layout) cannot carry a stale meta along.
 */
#include "core/aot/aot.h"

#include <string.h>

GmValueId
gm_copy_node (GmGraph *to, const GmGraph *from, const GmNode *n, const GmValueId *map,
              GError **error)
{
  GmValueId in[n->n_in + 1];

  to->step = n->step;
  if (n->op == GM_OP_constant)
    return gm_graph_add_constant (to, g_ptr_array_index (from->constants, n->attrs->offset),
                                  n->where);
  for (uint32_t i = 0; i < n->n_in; i++)
    in[i] = map ? map[n->in[i]] : n->in[i];
  GmValueId v = gm_graph_add_node (to, n->op, in, (int) n->n_in, n->attrs, n->where, error);
  if (v != GM_NO_ID)
    gm_graph_mark_like (to, v, n);
  return v;
}

bool
gm_copy_nodes (GmGraph *to, const GmGraph *from, GmValueId *map, GError **error)
{
  for (uint32_t i = 0; i < from->nodes->len; i++) {
    const GmNode *n = gm_graph_node (from, i);

    map[n->out] = gm_copy_node (to, from, n, map, error);
    if (map[n->out] == GM_NO_ID)
      return false;
    gm_graph_meta (to, map[n->out])->requires_grad = gm_graph_meta (from, n->out)->requires_grad;
  }
  return true;
}

bool
gm_copy_values (GmGraph *to, const GmGraph *from, GError **error)
{
  g_assert (to->values->len == 0);
  gm_graph_share_tables (to, from);
  for (uint32_t id = 0; id < from->values->len; id++) {
    const GmGraphValue *v = gm_graph_value (from, id);
    GmValueId copy = v->node == GM_NO_ID
                         ? gm_graph_add_input (to, v->name, &v->meta)
                         : gm_copy_node (to, from, gm_graph_node (from, v->node), NULL, error);
    if (copy == GM_NO_ID)
      return false;
    g_assert (copy == id);
    gm_graph_meta (to, id)->requires_grad = v->meta.requires_grad; /* gradients may have been off */
  }
  gm_graph_carry_aliases (to, from, NULL);
  return true;
}

/* -- Sizes ------------------------------------------------------------------------------------- */

struct GmCopySizes {
  int64_t *sizes; /* per row of the graph's expressions: its value */
  bool *known;    /* per row: the value is known */
};

static bool
is_known (const GmCopySizes *s, int64_t size)
{
  return !gm_size_is_symbolic (size) || s->known[gm_size_row (size)];
}

static int64_t
size_of (const GmCopySizes *s, int64_t size)
{
  return gm_size_is_symbolic (size) ? s->sizes[gm_size_row (size)] : size;
}

static void
set_row (GmCopySizes *s, uint32_t i, int64_t size)
{
  s->sizes[i] = size;
  s->known[i] = true;
}

static void
read_row (GmCopySizes *s, uint32_t i, const GmSymRow *r, const GmSymbolSource *sources,
          const GmMeta *const *inputs)
{
  if (r->kind == GM_SYM_CONST) {
    set_row (s, i, r->value);
  } else if (r->kind == GM_SYM_SYMBOL) {
    GmSymbolSource from = sources[r->a];
    const GmMeta *m = from.input == GM_NO_ID ? NULL : inputs[from.input];
    if (m && from.dim < m->ndim)
      set_row (s, i, from.is_stride ? m->strides[from.dim] : m->sizes[from.dim]);
  } else {
    int64_t a = gm_size_from_row (r->a), b = gm_size_from_row (r->b);
    if (is_known (s, a) && is_known (s, b))
      set_row (s, i, gm_size_compute (r->kind, size_of (s, a), size_of (s, b)));
  }
}

const GmCopySizes *
gm_copy_sizes_new (const GmGraph *from, const GmMeta *const *inputs, GmArena *arena)
{
  uint32_t n = from->sym ? gm_sym_n_rows (from->sym) : 0;
  GmCopySizes *s = gm_arena_newn (arena, GmCopySizes, 1);
  const GmSymbolSource *sources;

  s->sizes = gm_arena_newn (arena, int64_t, n + 1);
  s->known = gm_arena_newn (arena, bool, n + 1);
  gm_graph_symbol_sources (from, arena, &sources);
  for (uint32_t i = 0; i < n; i++)
    read_row (s, i, gm_sym_row (from->sym, i), sources, inputs);
  for (uint32_t i = 0; n && i < gm_size_facts_n (from->sizes->facts); i++) {
    GmSizeFact f = gm_size_facts_nth (from->sizes->facts, i);
    if (!is_known (s, f.a) || !is_known (s, f.b)
        || !gm_size_decide (f.rel, size_of (s, f.a), size_of (s, f.b)))
      return NULL;
  }
  return s;
}

bool
gm_copy_attrs (const GmCopySizes *s, const GmAttrs *attrs, GmAttrs *out, GError **error)
{
  bool known = is_known (s, attrs->start) && is_known (s, attrs->stop);

  *out = *attrs;
  for (int i = 0; attrs->mask & 1u << GM_ATTR_SIZES && i < attrs->n_list; i++) {
    known = known && is_known (s, attrs->list[i]);
    out->list[i] = known ? size_of (s, attrs->list[i]) : 0;
  }
  for (int i = 0; i < 2; i++) {
    GmScalar *value = i ? &out->value2 : &out->value;
    if (!gm_scalar_is_symbolic (*value))
      continue;
    known = known && is_known (s, value->i);
    value->i = known ? size_of (s, value->i) : 0;
  }
  out->start = known ? size_of (s, attrs->start) : 0;
  out->stop = known ? size_of (s, attrs->stop) : 0;
  if (!known)
    g_set_error_literal (error, GM_ERROR, GM_ERROR_UNSUPPORTED,
                         "it reads a size of something else than the tensor");
  return known;
}

/* -- Names ------------------------------------------------------------------------------------- */

const char *
gm_copy_fresh_name (const GmGraph *g, const char *stem, uint32_t number)
{
  char *name = gm_arena_printf (g->arena, "%s%u", stem, number);

  for (uint32_t i = 0; i < g->inputs->len; i++) {
    const char *taken = gm_graph_value (g, g_array_index (g->inputs, GmValueId, i))->name;
    if (taken && strcmp (taken, name) == 0)
      return gm_copy_fresh_name (g, gm_arena_printf (g->arena, "%s_", stem), number);
  }
  return name;
}
