/* SPDX-License-Identifier: Apache-2.0
 * graph.c -- making graphs: values, nodes, constants, outputs; marks and truncation.
 *
 * Everything is appended, so a mark is a handful of lengths.  Operand lists, attributes and names
 * are in the arena and stay there after a truncation: they are freed with the compilation.
 */
#include "core/graph/graph.h"

#include <string.h>

#include "core/graph/higher.h"
#include "core/sym/sym.h"

GmGraph *
gm_graph_new (const char *name, GmArena *arena)
{
  GmGraph *g = g_new0 (GmGraph, 1);
  g->owns_arena = !arena;
  g->arena = arena ? arena : gm_arena_new ();
  g->name = gm_arena_strdup (g->arena, name);
  g->values = g_array_new (FALSE, FALSE, sizeof (GmGraphValue));
  g->nodes = g_array_new (FALSE, FALSE, sizeof (GmNode));
  g->inputs = g_array_new (FALSE, FALSE, sizeof (GmValueId));
  g->outputs = g_array_new (FALSE, FALSE, sizeof (GmGraphOutput));
  g->constants = g_ptr_array_new_with_free_func ((GDestroyNotify) gm_tensor_unref);
  g->step = GM_NO_ID;
  return g;
}

GmGraph *
gm_graph_new_like (const GmGraph *like, const char *name, GmArena *arena)
{
  GmGraph *g = gm_graph_new (name, arena);
  gm_graph_share_sizes (g, like);
  g->step = 0;
  return g;
}

void
gm_graph_free (GmGraph *g)
{
  if (!g)
    return;
  g_array_unref (g->values);
  g_array_unref (g->nodes);
  g_array_unref (g->inputs);
  g_array_unref (g->outputs);
  g_ptr_array_unref (g->constants);
  g_clear_pointer (&g->customs, g_ptr_array_unref);
  g_clear_pointer (&g->highers, g_ptr_array_unref);
  g_clear_pointer (&g->hooks, g_ptr_array_unref);
  gm_sizes_unref (g->sizes);
  if (g->owns_arena)
    gm_arena_free (g->arena);
  g_free (g);
}

/* -- Symbolic sizes ---------------------------------------------------------------------------- */

GmSizes *
gm_graph_sizes (GmGraph *g)
{
  if (!g->sizes) {
    g->sizes = gm_sizes_new ();
    g->sym = g->sizes->sym;
  }
  return g->sizes;
}

GmSym *
gm_graph_sym (GmGraph *g)
{
  return gm_graph_sizes (g)->sym;
}

void
gm_graph_share_sizes (GmGraph *to, const GmGraph *from)
{
  if (!from->sizes || to->sizes == from->sizes)
    return;
  g_return_if_fail (!to->sizes);
  to->sizes = gm_sizes_ref (from->sizes);
  to->sym = to->sizes->sym;
}

void
gm_graph_meta_set_contiguous (GmGraph *g, GmMeta *m)
{
  if (!gm_meta_is_symbolic (m)) {
    gm_meta_set_contiguous (m);
    return;
  }
  GmSizes *s = gm_graph_sizes (g), *was = gm_sizes_enter (s);
  bool frozen = s->frozen;
  s->frozen = true;
  gm_meta_set_contiguous (m);
  s->frozen = frozen;
  gm_sizes_enter (was);
}

bool
gm_graph_same_meta (const GmGraph *g, const GmMeta *a, const GmMeta *b)
{
  GmMeta x = *a;
  if (!memcmp (a, b, sizeof *a) || a->ndim != b->ndim)
    return a->ndim == b->ndim;
  for (int d = 0; g->sizes && d < a->ndim; d++) {
    if (gm_sizes_ask (g->sizes, GM_REL_EQ, a->sizes[d], b->sizes[d]) == GM_YES)
      x.sizes[d] = b->sizes[d];
    /* A stride that nothing depends on is kept as it was when less was known. */
    if (gm_sizes_ask (g->sizes, GM_REL_EQ, a->strides[d], b->strides[d]) == GM_YES
        || gm_sizes_ask (g->sizes, GM_REL_EQ, b->sizes[d], 1) == GM_YES)
      x.strides[d] = b->strides[d];
  }
  return !memcmp (&x, b, sizeof x);
}

bool
gm_graph_attrs_are_symbolic (const GmAttrs *a)
{
  if (!a || !(a->mask & (GM_ATTRS_OF_SIZES | GM_ATTRS_OF_NUMBERS)))
    return false;
  for (int i = 0; a->mask & 1u << GM_ATTR_SIZES && i < a->n_list; i++)
    if (gm_size_is_symbolic (a->list[i]))
      return true;
  return gm_size_is_symbolic (a->start) || gm_size_is_symbolic (a->stop)
         || gm_scalar_is_symbolic (a->value) || gm_scalar_is_symbolic (a->value2);
}

bool
gm_graph_is_symbolic (const GmGraph *g)
{
  bool any = false;
  for (uint32_t v = 0; g && g->sizes && v < g->values->len && !any; v++)
    any = gm_meta_is_symbolic (gm_graph_meta (g, v));
  for (uint32_t i = 0; g && g->sizes && i < g->nodes->len && !any; i++)
    any = gm_graph_attrs_are_symbolic (gm_graph_node (g, i)->attrs);
  return any;
}

bool
gm_graph_attrs_now (const GmGraph *g, const GmAttrs *a, const int64_t *symbols, GmAttrs *out,
                    GError **error)
{
  *out = *a;
  if (!g->sym || !gm_graph_attrs_are_symbolic (a))
    return true;
  for (int i = 0; a->mask & 1u << GM_ATTR_SIZES && i < a->n_list; i++)
    if (!gm_sym_eval (g->sym, a->list[i], symbols, &out->list[i], error))
      return false;
  if (gm_scalar_is_symbolic (a->value)
      && !gm_sym_eval (g->sym, a->value.i, symbols, &out->value.i, error))
    return false;
  if (gm_scalar_is_symbolic (a->value2)
      && !gm_sym_eval (g->sym, a->value2.i, symbols, &out->value2.i, error))
    return false;
  return gm_sym_eval (g->sym, a->start, symbols, &out->start, error)
         && gm_sym_eval (g->sym, a->stop, symbols, &out->stop, error);
}

bool
gm_graph_expects_grad (const GmGraph *g, GmOp op, const GmValueId *in, int n_in,
                       const GmMeta *result)
{
  if (!gm_dtype_is_float (result->dtype))
    return false;
  for (int i = 0; i < n_in; i++)
    if (gm_graph_meta (g, in[i])->requires_grad && gm_op_is_differentiable (op, i))
      return true;
  return false;
}

/* -- Appending --------------------------------------------------------------------------------- */

static GmValueId
add_value (GmGraph *g, const GmMeta *meta, uint32_t node, const char *name)
{
  g_array_set_size (g->values, g->values->len + 1);
  GmGraphValue *v = gm_graph_value (g, g->values->len - 1);
  v->meta = *meta;
  v->node = node;
  v->name = name;
  v->alias = NULL;
  v->look.step = v->look.nth = GM_NO_ID;
  return g->values->len - 1;
}

GmValueId
gm_graph_add_input (GmGraph *g, const char *name, const GmMeta *meta)
{
  GmValueId id = add_value (g, meta, GM_NO_ID, gm_arena_strdup (g->arena, name));
  g_array_append_val (g->inputs, id);
  return id;
}

GmValueId
gm_graph_add_known (GmGraph *g, GmOp op, const GmValueId *in, int n_in, const GmAttrs *attrs,
                    const char *where, const GmMeta *meta)
{
  uint32_t node = g->nodes->len;
  GmNode n = {
    .op = op, .n_in = (uint32_t) n_in, .step = g->step == GM_NO_ID ? node : g->step, .where = where
  };
  if (n_in)
    n.in = gm_arena_copy (g->arena, in, sizeof *in * (size_t) n_in);
  if (attrs && attrs->mask)
    n.attrs = gm_arena_copy (g->arena, attrs, sizeof *attrs);
  n.out = add_value (g, meta, node, NULL);
  g_array_append_val (g->nodes, n);
  return n.out;
}

/* Infers the meta of a node's result by the shape rules, with the graph's sizes.  A size that
 * the facts make a number becomes that number.  False with *error. */
static bool
infer_symbolic (const GmGraph *g, GmOp op, const GmMeta *const *in, int n_in, const GmAttrs *attrs,
                GmMeta *out, GError **error)
{
  GmSizes *was = gm_sizes_enter (g->sizes);
  g_autoptr (GError) why = NULL;
  bool ok = gm_op_infer (op, in, n_in, attrs, out, &why);
  if (!gm_sizes_check (g->sizes, error)) {
    g_prefix_error (error, "%s: ", gm_ops[op].name);
    ok = false;
  } else if (!ok) {
    g_propagate_error (error, g_steal_pointer (&why));
  }
  for (int d = 0; ok && d < out->ndim; d++) {
    out->sizes[d] = gm_sizes_simplest (g->sizes, out->sizes[d]);
    out->strides[d] = gm_sizes_simplest (g->sizes, out->strides[d]);
  }
  gm_sizes_enter (was);
  return ok;
}

/* Adds a node that is a result of a call of graphs; the bodies determine the result's meta.
 * Returns the value, or GM_NO_ID with *error. */
static GmValueId
add_higher_node (GmGraph *g, GmOp op, const GmValueId *in, int n_in, const GmMeta *const *metas,
                 const GmAttrs *attrs, const char *where, GError **error)
{
  const GmNode n = { .op = op, .attrs = attrs };
  const GmHigher *h = gm_graph_higher (g, &n);
  if (!h || h->op != op || attrs->dim < 0) {
    g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME, "%s: the graph has no row for it",
                 gm_ops[op].name);
    return GM_NO_ID;
  }
  GmSizes *was = gm_sizes_enter (g->sizes);
  bool fits = gm_higher_check (h, metas, (uint32_t) n_in, error);
  gm_sizes_enter (was);
  if (!fits)
    return GM_NO_ID;
  if (attrs->dim >= (int64_t) gm_higher_n_results (h)) {
    g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME, "%s: result %" G_GINT64_FORMAT " of %u",
                 gm_ops[op].name, attrs->dim, gm_higher_n_results (h));
    return GM_NO_ID;
  }
  was = gm_sizes_enter (g->sizes);
  GmMeta out = gm_higher_meta (h, (uint32_t) attrs->dim, metas);
  gm_sizes_enter (was);
  out.requires_grad = out.requires_grad && gm_graph_expects_grad (g, op, in, n_in, &out);
  return gm_graph_add_known (g, op, in, n_in, attrs, where, &out);
}

GmValueId
gm_graph_add_node (GmGraph *g, GmOp op, const GmValueId *in, int n_in, const GmAttrs *attrs,
                   const char *where, GError **error)
{
  const GmMeta *few[8], **metas = few;
  g_autofree const GmMeta **many = NULL;
  if ((size_t) n_in > G_N_ELEMENTS (few))
    metas = many = g_new (const GmMeta *, (size_t) n_in);
  for (int i = 0; i < n_in; i++) {
    g_return_val_if_fail (in[i] < g->values->len, GM_NO_ID);
    metas[i] = gm_graph_meta (g, in[i]);
  }
  GmMeta out;
  if (G_UNLIKELY (gm_op_is_higher (op)))
    return add_higher_node (g, op, in, n_in, metas, attrs, where, error);
  if (!(g->sizes ? infer_symbolic (g, op, metas, n_in, attrs, &out, error)
                 : gm_op_infer (op, metas, n_in, attrs, &out, error)))
    return GM_NO_ID;
  return gm_graph_add_known (g, op, in, n_in, attrs, where, &out);
}

void
gm_graph_set_tag (GmGraph *g, GmValueId v, GmNodeTag tag)
{
  g_return_if_fail (v < g->values->len && gm_graph_value (g, v)->node != GM_NO_ID);
  gm_graph_node (g, gm_graph_value (g, v)->node)->tag = (uint8_t) tag;
}

void
gm_graph_mark_like (GmGraph *g, GmValueId v, const GmNode *n)
{
  gm_graph_set_tag (g, v, (GmNodeTag) n->tag);
  gm_graph_node (g, gm_graph_value (g, v)->node)->marks = n->marks;
}

GmValueId
gm_graph_add_constant (GmGraph *g, GmTensor *t, const char *where)
{
  guint row;
  if (!g_ptr_array_find (g->constants, t, &row)) {
    row = g->constants->len;
    g_ptr_array_add (g->constants, gm_tensor_ref (t));
  }
  GmAttrs a = { .mask = 1u << GM_ATTR_OFFSET, .offset = row };
  GmMeta m = t->meta;
  m.requires_grad = 0;
  return gm_graph_add_known (g, GM_OP_constant, NULL, 0, &a, where, &m);
}

uint32_t
gm_graph_n_elements (const GmGraph *g)
{
  uint32_t n = 0;

  for (uint32_t i = 0; i < g->outputs->len; i++)
    n += g_array_index (g->outputs, GmGraphOutput, i).kind != GM_OUTPUT_HISTORY;
  return n;
}

void
gm_graph_add_output (GmGraph *g, GmValueId v, GmOutputKind kind)
{
  g_return_if_fail (v < g->values->len);
  GmGraphOutput o = { .value = v, .kind = (uint8_t) kind };
  g_array_append_val (g->outputs, o);
}

void
gm_graph_share_tables (GmGraph *to, const GmGraph *from)
{
  g_clear_pointer (&to->customs, g_ptr_array_unref);
  to->customs = from->customs ? g_ptr_array_ref (from->customs) : NULL;
  gm_graph_share_highers (to, from);
}

/* -- Marks ------------------------------------------------------------------------------------- */

void
gm_graph_cut (GmGraph *g, const GmGraphMark *m)
{
  g_array_set_size (g->values, m->values);
  g_array_set_size (g->nodes, m->nodes);
  g_array_set_size (g->inputs, m->inputs);
  g_array_set_size (g->outputs, m->outputs);
  g_ptr_array_set_size (g->constants, (gint) m->constants);
  if (g->customs)
    g_ptr_array_set_size (g->customs, (gint) m->customs);
  if (g->highers)
    g_ptr_array_set_size (g->highers, (gint) m->highers);
  if (g->sizes)
    gm_sizes_truncate (g->sizes, m->sizes);
}

bool
gm_graph_computes_same (const GmGraph *g, GmValueId a, GmValueId b, int depth)
{
  uint32_t x = gm_graph_value (g, a)->node, y = gm_graph_value (g, b)->node;
  if (a == b)
    return true;
  if (x == GM_NO_ID || y == GM_NO_ID || depth == 0)
    return false;
  const GmNode *n = gm_graph_node (g, x), *m = gm_graph_node (g, y);
  bool same = n->op == m->op && n->n_in == m->n_in && !gm_op_is_higher (n->op)
              && gm_ops[n->op].family != GM_FAMILY_MUTATE
              && (n->attrs == m->attrs
                  || (n->attrs && m->attrs && !memcmp (n->attrs, m->attrs, sizeof *n->attrs)));
  for (uint32_t k = 0; same && k < n->n_in; k++)
    same = gm_graph_computes_same (g, n->in[k], m->in[k], depth - 1);
  return same;
}
