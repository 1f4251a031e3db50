/* SPDX-License-Identifier: Apache-2.0
 * blocks.c -- the body of an associative_scan, for blocks that do not lie one slice behind the other.
 *
 * A scan combines every other slice of what there is, and what it gets belongs into every other, every fourth ... slice
 * of the result.  So the body is made for blocks whose slices lie some slices apart, how many a symbol says: then one run reads and writes where
 * the elements are, and nothing is copied.
 */
#include "core/graph/higher.h"

#include "core/sym/sym.h"

/* Which blocks of the scan's operands what `wanted` needs: from output to the inputs that it is computed from, and on from those. */
static void
find_reads (const GmGraph *g, GmValueId v, bool *seen)
{
  if (seen[v])
    return;
  seen[v] = true;
  uint32_t node = gm_graph_value (g, v)->node;
  for (uint32_t i = 0; node != GM_NO_ID && i < gm_graph_node (g, node)->n_in; i++)
    find_reads (g, gm_graph_node (g, node)->in[i], seen);
}

void
gm_graph_close_prefixes (const GmGraph *body, uint32_t m, bool *wanted)
{
  bool more = true;
  while (more) {
    g_autofree bool *seen = g_new0 (bool, body->values->len + 1);
    for (uint32_t i = 0; i < m; i++)
      if (wanted[i])
        find_reads (body, g_array_index (body->outputs, GmGraphOutput, i).value, seen);
    more = false;
    for (uint32_t i = 0; i < m; i++)
      if (!wanted[i] && seen[g_array_index (body->inputs, GmValueId, i)])
        more = wanted[i] = true;
  }
}

static int64_t
add_step (GmSizes *sizes, const char *name)
{
  int64_t step = gm_sizes_symbol (sizes, name, GM_SIZE_NO_HINT);
  gm_sym_set_range (sizes->sym, step, 1, INT64_MAX >> 16);
  return step;
}

static bool
add_inputs (GmGraph *to, const GmGraph *from, uint32_t m, const int64_t *steps)
{
  for (uint32_t i = 0; i < from->inputs->len; i++) {
    const GmGraphValue *v = gm_graph_value (from, g_array_index (from->inputs, GmValueId, i));
    GmMeta meta = v->meta;
    if (i < 2 * m && (meta.ndim == 0 || meta.device != GM_DEVICE_CPU || !gm_meta_is_contiguous (&meta)))
      return false;
    if (i < 2 * m)
      meta.strides[0] = gm_size_mul (meta.strides[0], steps[i >= m]);
    gm_graph_add_input (to, v->name, &meta);
  }
  return true;
}

/* Only a view lies elsewhere when what it is a view of does. */
static bool
add_nodes (GmGraph *to, const GmGraph *from)
{
  for (uint32_t i = 0; i < from->nodes->len; i++) {
    const GmNode *n = gm_graph_node (from, i);
    g_autoptr (GError) error = NULL;
    GmValueId v;
    if (n->op == GM_OP_constant)
      v = gm_graph_add_constant (to, g_ptr_array_index (from->constants, n->attrs->offset), n->where);
    else if (gm_ops[n->op].family == GM_FAMILY_MOVEMENT)
      v = gm_graph_add_node (to, n->op, n->in, (int) n->n_in, n->attrs, n->where, &error);
    else
      v = gm_graph_add_known (to, n->op, n->in, (int) n->n_in, n->attrs, n->where, gm_graph_meta (from, n->out));
    if (v != n->out)
      return false;
  }
  return true;
}

/* A loop writes its results wherever they belong; other nodes may not. */
static bool
add_outputs (GmGraph *to, const GmGraph *from, const bool *wanted, int64_t step)
{
  g_autofree bool *given = g_new0 (bool, to->values->len + 1);
  for (uint32_t i = 0; i < from->outputs->len; i++) {
    GmValueId v = g_array_index (from->outputs, GmGraphOutput, i).value;
    uint32_t node = gm_graph_value (from, v)->node;
    if (!wanted[i])
      continue;
    if (node == GM_NO_ID || given[v] || gm_ops[gm_graph_node (from, node)->op].family != GM_FAMILY_POINTWISE
        || !gm_meta_is_contiguous (gm_graph_meta (to, v)))
      return false;
    given[v] = true;
    gm_graph_meta (to, v)->strides[0] = gm_size_mul (gm_graph_meta (to, v)->strides[0], step);
    gm_graph_add_output (to, v, GM_OUTPUT_USER);
  }
  return to->outputs->len > 0;
}

GmGraph *
gm_graph_blocks_apart (const GmGraph *body, uint32_t m, const bool *wanted)
{
  g_autoptr (GmGraph) from = gm_graph_copy_apart (body), to = gm_graph_new (body->name, NULL);
  if (!from->sizes)
    return NULL;
  const int64_t steps[] = { add_step (from->sizes, "gm_step_first"), add_step (from->sizes, "gm_step_second"),
                            add_step (from->sizes, "gm_step_result") };
  gm_graph_share_sizes (to, from);
  gm_graph_share_tables (to, from);
  GmSizes *was = gm_sizes_enter (from->sizes);
  bool good = add_inputs (to, from, m, steps) && add_nodes (to, from) && add_outputs (to, from, wanted, steps[2]);
  gm_sizes_enter (was);
  return good && gm_sizes_check (from->sizes, NULL) ? gm_graph_simplify (to, GM_SIMPLIFY_DEAD, NULL) : NULL;
}
