/* SPDX-License-Identifier: Apache-2.0
 * blocks.c -- the body of an associative_scan, for blocks that do not lie one slice behind the
 * other.
 *
 * A scan combines every second slice, and its results belong into every second, every fourth ...
 * slice of the result.  So the body is compiled for blocks whose slices are some slices apart; how
 * many is a symbol.  Then a run of the body reads and writes the elements where they are, and
 * nothing is copied.
 */
#include "core/graph/higher.h"

#include "core/sym/sym.h"

/* Marks in `seen` the value v and all values that it is computed from, down to the graph's
 * inputs. */
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

/* Adds an input like v whose slices along dimension 0 are `step` slices apart; GM_NO_ID: v has
 * no dimension 0, or its slices are not neighbours in the CPU's memory. */
static GmValueId
add_block (GmGraph *to, const GmGraphValue *v, int64_t step)
{
  GmMeta meta = v->meta;
  if (meta.ndim == 0 || meta.device != GM_DEVICE_CPU || !gm_meta_is_contiguous (&meta))
    return GM_NO_ID;
  meta.strides[0] = gm_size_mul (meta.strides[0], step);
  return gm_graph_add_input (to, v->name, &meta);
}

/* Adds the inputs of `from` to `to`.  The first m are the first blocks, m more the second
 * blocks; then come inputs that are no blocks, and n_behind blocks.  steps: how many slices apart
 * the slices are in these three kinds of blocks.  False: a block does not fit. */
static bool
add_inputs (GmGraph *to, const GmGraph *from, uint32_t m, uint32_t n_behind, const int64_t *steps)
{
  uint32_t n = from->inputs->len;
  for (uint32_t i = 0; i < n; i++) {
    const GmGraphValue *v = gm_graph_value (from, g_array_index (from->inputs, GmValueId, i));
    bool behind = i >= n - n_behind;
    if (i >= 2 * m && !behind)
      gm_graph_add_input (to, v->name, &v->meta);
    else if (add_block (to, v, steps[behind ? 2 : i >= m]) == GM_NO_ID)
      return false;
  }
  return true;
}

/* Adds the nodes of `from`, with the same ids.  A view of a block gets new strides, all other
 * results keep theirs.  False: an id or a view does not fit. */
static bool
add_nodes (GmGraph *to, const GmGraph *from)
{
  for (uint32_t i = 0; i < from->nodes->len; i++) {
    const GmNode *n = gm_graph_node (from, i);
    g_autoptr (GError) error = NULL;
    GmValueId v;
    if (n->op == GM_OP_constant)
      v = gm_graph_add_constant (to, g_ptr_array_index (from->constants, n->attrs->offset),
                                 n->where);
    else if (gm_ops[n->op].family == GM_FAMILY_MOVEMENT)
      v = gm_graph_add_node (to, n->op, n->in, (int) n->n_in, n->attrs, n->where, &error);
    else
      v = gm_graph_add_known (to, n->op, n->in, (int) n->n_in, n->attrs, n->where,
                              gm_graph_meta (from, n->out));
    if (v != n->out)
      return false;
  }
  return true;
}

/* Makes v an output whose slices are `step` slices apart.  False: v is not the result of a
 * pointwise op, whose loop can write its results wherever they belong, or v is an output
 * already. */
static bool
add_result (GmGraph *to, GmValueId v, int64_t step)
{
  uint32_t node = gm_graph_value (to, v)->node;
  if (node == GM_NO_ID || gm_ops[gm_graph_node (to, node)->op].family != GM_FAMILY_POINTWISE
      || !gm_meta_is_contiguous (gm_graph_meta (to, v)))
    return false;
  for (uint32_t i = 0; i < to->outputs->len; i++)
    if (g_array_index (to->outputs, GmGraphOutput, i).value == v)
      return false;
  gm_graph_meta (to, v)->strides[0] = gm_size_mul (gm_graph_meta (to, v)->strides[0], step);
  gm_graph_add_output (to, v, GM_OUTPUT_USER);
  return true;
}

static bool
add_outputs (GmGraph *to, const GmGraph *from, const bool *wanted, int64_t step)
{
  for (uint32_t i = 0; i < from->outputs->len; i++)
    if (wanted[i] && !add_result (to, g_array_index (from->outputs, GmGraphOutput, i).value, step))
      return false;
  return to->outputs->len > 0;
}

GmGraph *
gm_graph_blocks_apart (const GmGraph *body, uint32_t m, const bool *wanted)
{
  g_autoptr (GmGraph) from = gm_graph_copy_apart (body), to = gm_graph_new (body->name, NULL);
  if (!from->sizes)
    return NULL;
  const int64_t steps[] = { add_step (from->sizes, "gm_step_first"),
                            add_step (from->sizes, "gm_step_second"),
                            add_step (from->sizes, "gm_step_result") };
  gm_graph_share_sizes (to, from);
  gm_graph_share_tables (to, from);
  GmSizes *was = gm_sizes_enter (from->sizes);
  bool good = add_inputs (to, from, m, 0, steps) && add_nodes (to, from)
              && add_outputs (to, from, wanted, steps[2]);
  gm_sizes_enter (was);
  return good && gm_sizes_check (from->sizes, NULL) ? gm_graph_simplify (to, GM_SIMPLIFY_DEAD, NULL)
                                                    : NULL;
}

/* Adds the outputs of a gradient.  A block to which gradients are added is an input of its own,
 * after the others, so that no memory is both read and written.  False: the gradients do not
 * fit. */
static bool
add_gradients (GmGraph *to, const GmGraph *step, uint32_t m, bool is_rest)
{
  for (uint32_t i = 0; i < 2 * m; i++) {
    GmValueId v = g_array_index (step->outputs, GmGraphOutput, i).value;
    const GmGraphValue *block = gm_graph_value (to, g_array_index (to->inputs, GmValueId, i % m));
    const GmMeta *g = gm_graph_meta (to, v);
    if (g->dtype != block->meta.dtype || !gm_dtype_is_float ((GmDtype) g->dtype)
        || !gm_meta_is_contiguous (g))
      return false;
  }
  GmMeta *metas = gm_arena_newn (to->arena, GmMeta, 2 * m);
  for (uint32_t i = 0; i < 2 * m; i++)
    metas[i] = *gm_graph_meta (to, g_array_index (step->outputs, GmGraphOutput, i).value);
  for (uint32_t i = 0; i < m; i++) {
    const GmGraphValue like = { .meta = metas[i], .name = "sum" };
    if (add_block (to, &like, is_rest ? 2 : 1) == GM_NO_ID)
      return false;
  }
  for (uint32_t i = 0; i < 2 * m; i++) {
    GmValueId v = g_array_index (step->outputs, GmGraphOutput, i).value, in[2] = { GM_NO_ID, v };
    if (i < m)
      in[0] = g_array_index (to->inputs, GmValueId, to->inputs->len - m + i);
    else if (!is_rest) {
      GmAttrs zero = { .mask = 1u << GM_ATTR_SIZES | 1u << GM_ATTR_DTYPE | 1u << GM_ATTR_VALUE,
                       .dtype = metas[i].dtype,
                       .value = gm_scalar_float (0) };
      const GmMeta scalar = gm_meta_make ((GmDtype) metas[i].dtype, 0, NULL);
      in[0] = gm_graph_add_known (to, GM_OP_full, NULL, 0, &zero, NULL, &scalar);
    }
    v = in[0] == GM_NO_ID ? gm_graph_add_known (to, GM_OP_copy, &v, 1, NULL, NULL, &metas[i])
                          : gm_graph_add_known (to, GM_OP_add, in, 2, NULL, NULL, &metas[i]);
    if (!add_result (to, v, is_rest ? 1 : 2))
      return false;
  }
  return true;
}

GmGraph *
gm_graph_gradients_apart (const GmGraph *step, uint32_t m, bool is_rest)
{
  g_autoptr (GmGraph) from = gm_graph_copy_apart (step), to = gm_graph_new (step->name, NULL);
  if (!from->sizes || from->outputs->len != 2 * m)
    return NULL;
  const int64_t steps[] = { is_rest ? add_step (from->sizes, "gm_step_first") : 2, 2,
                            is_rest ? 2 : 1 };
  gm_graph_share_sizes (to, from);
  gm_graph_share_tables (to, from);
  GmSizes *was = gm_sizes_enter (from->sizes);
  bool good = add_inputs (to, from, m, m, steps) && add_nodes (to, from)
              && add_gradients (to, from, m, is_rest);
  gm_sizes_enter (was);
  return good && gm_sizes_check (from->sizes, NULL) ? gm_graph_simplify (to, GM_SIMPLIFY_DEAD, NULL)
                                                    : NULL;
}
