/* SPDX-License-Identifier: Apache-2.0
 * graph.c -- making graphs: values, nodes, constants, outputs; marks and truncation.
 *
 * Everything is appended, so a mark is a handful of lengths.  What nodes point to (operand lists,
 * attributes, names) is in the arena and stays there after a truncation: it dies with the
 * compilation.
 */
#include "core/graph/graph.h"

#include <string.h>

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
  g_clear_pointer (&g->hooks, g_ptr_array_unref);
  gm_sym_free (g->sym);
  if (g->owns_arena)
    gm_arena_free (g->arena);
  g_free (g);
}

/* -- Symbolic sizes ---------------------------------------------------------------------------- */

GmSym *
gm_graph_sym (GmGraph *g)
{
  if (!g->sym)
    g->sym = gm_sym_new ();
  return g->sym;
}

bool
gm_graph_meta_is_symbolic (const GmMeta *m)
{
  for (int i = 0; i < m->ndim; i++)
    if (gm_size_is_symbolic (m->sizes[i]))
      return true;
  return false;
}

void
gm_graph_meta_set_contiguous (GmGraph *g, GmMeta *m)
{
  if (!gm_graph_meta_is_symbolic (m)) {
    gm_meta_set_contiguous (m);
    return;
  }
  memset (m->strides, 0, sizeof m->strides);
  int64_t stride = 1;
  for (int i = m->ndim - 1; i >= 0; i--) {
    m->strides[i] = stride;
    if (i > 0)
      stride = gm_sym_op (gm_graph_sym (g), GM_SYM_MUL, stride, m->sizes[i]);
  }
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
  GmNode n = { .op = op, .n_in = (uint32_t) n_in, .where = where };
  if (n_in)
    n.in = gm_arena_copy (g->arena, in, sizeof *in * (size_t) n_in);
  if (attrs && attrs->mask)
    n.attrs = gm_arena_copy (g->arena, attrs, sizeof *attrs);
  n.out = add_value (g, meta, node, NULL);
  g_array_append_val (g->nodes, n);
  return n.out;
}

static bool
attrs_are_symbolic (const GmAttrs *a)
{
  if (a && a->mask & 1u << GM_ATTR_SIZES)
    for (int i = 0; i < a->n_list; i++)
      if (gm_size_is_symbolic (a->list[i]))
        return true;
  return false;
}

GmValueId
gm_graph_add_node (GmGraph *g, GmOp op, const GmValueId *in, int n_in, const GmAttrs *attrs,
                   const char *where, GError **error)
{
  const GmMeta *few[8], **metas = few;
  g_autofree const GmMeta **many = NULL;
  if ((size_t) n_in > G_N_ELEMENTS (few))
    metas = many = g_new (const GmMeta *, (size_t) n_in);
  bool symbolic = g->sym && attrs_are_symbolic (attrs);
  for (int i = 0; i < n_in; i++) {
    g_return_val_if_fail (in[i] < g->values->len, GM_NO_ID);
    metas[i] = gm_graph_meta (g, in[i]);
    symbolic = symbolic || (g->sym && gm_graph_meta_is_symbolic (metas[i]));
  }
  if (symbolic) {
    g_set_error (error, GM_ERROR, GM_ERROR_UNSUPPORTED,
                 "%s: the shape of its result is not known for sizes that are not numbers yet",
                 gm_ops[op].name);
    return GM_NO_ID;
  }
  GmMeta out;
  if (!gm_op_infer (op, metas, n_in, attrs, &out, error))
    return GM_NO_ID;
  return gm_graph_add_known (g, op, in, n_in, attrs, where, &out);
}

void
gm_graph_set_tag (GmGraph *g, GmValueId v, GmNodeTag tag)
{
  g_return_if_fail (v < g->values->len && gm_graph_value (g, v)->node != GM_NO_ID);
  gm_graph_node (g, gm_graph_value (g, v)->node)->tag = (uint8_t) tag;
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

void
gm_graph_add_output (GmGraph *g, GmValueId v, GmOutputKind kind)
{
  g_return_if_fail (v < g->values->len);
  GmGraphOutput o = { .value = v, .kind = (uint8_t) kind };
  g_array_append_val (g->outputs, o);
}

/* -- Marks ------------------------------------------------------------------------------------- */

GmGraphMark
gm_graph_mark (const GmGraph *g)
{
  return (GmGraphMark){ .values = g->values->len,
                        .nodes = g->nodes->len,
                        .inputs = g->inputs->len,
                        .outputs = g->outputs->len,
                        .constants = g->constants->len,
                        .customs = g->customs ? g->customs->len : 0,
                        .sym_rows = g->sym ? gm_sym_n_rows (g->sym) : 0 };
}

void
gm_graph_truncate (GmGraph *g, GmGraphMark m)
{
  if (g->values->len == m.values && g->nodes->len == m.nodes && g->inputs->len == m.inputs && g->outputs->len == m.outputs
      && g->constants->len == m.constants && !g->sym)
    return; /* most instructions record nothing */
  g_array_set_size (g->values, m.values);
  g_array_set_size (g->nodes, m.nodes);
  g_array_set_size (g->inputs, m.inputs);
  g_array_set_size (g->outputs, m.outputs);
  g_ptr_array_set_size (g->constants, (gint) m.constants);
  if (g->customs)
    g_ptr_array_set_size (g->customs, (gint) m.customs);
  if (g->sym)
    gm_sym_truncate (g->sym, m.sym_rows);
}
