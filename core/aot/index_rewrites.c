/* SPDX-License-Identifier: Apache-2.0
 * index_rewrites.c -- elements that are picked, or put among zeros, without what lies around them.
 *
 * The loss of a classifier takes one number of each row of log probabilities, and its gradient puts
 * one number into each row of zeros.  As recorded both make the whole matrix, and neither fuses
 * with anything, since positions are data.  The gradient of a tensor that is cut into slices is a
 * sum: of each slice's gradient, among zeros.  Three rewrites of the joint graph:
 *
 *   gather (f (x), i)                       f (gather (x, i)): computed only at the points picked
 *   scatter_add (zeros, i, src)             where (position == i, 0 + src, 0): pointwise, so that
 *                                           it fuses with its readers
 *   slice_scatter (zeros, a)                cat (a + 0, b + 0), where the slices are disjoint and
 *     + slice_scatter (zeros, b)            cover everything
 *
 * The first is done through pointwise operations of few operands, and only where one element of a
 * row is taken: the second pays for a comparison at each point, and needs that another node has
 * checked the positions, for a comparison finds none that is out of range.  An earlier gather of
 * the same positions from rows of that length does.  A backward's gather stays where the first
 * would have it read an input or a result that it did not read before: these can be written to
 * between forward and backward, and the plain function would not mind.  All move elements and
 * compute the same from them, so no bit changes: 0 + src is what an addition into zeros gives.
 * They have to be done after join.c (gradients would be summed in another order) and before the
 * cut, which then weighs what is left.
 */
#include "core/aot/partition.h"

#include <math.h>

#include "core/ops/builder.h"

enum { MOST_NODES = 24, SHORT_ROW = 4, MOST_SLICES = 32 };

typedef struct {
  GmGraphBuilder b; /* makes the new graph */
  const GmGraph *g;
  GmValueId *map;
  bool *output;  /* per value of g: it is an output, which is in memory in any case */
  bool *late;    /* per value of g: it depends on a gradient, so the backward computes it */
  bool *read;    /* per value of g: a late value reads it */
  uint32_t left; /* number of nodes that the rewrite of the present gather may still make */
} Pick;

/* -- Conditions -------------------------------------------------------------------------------- */

static bool
is_pointwise (const GmNode *n)
{
  return n
         && (gm_ops[n->op].family == GM_FAMILY_POINTWISE || gm_ops[n->op].family == GM_FAMILY_CAST);
}

/* True if sizes a and b are known to be equal without a guard: a rewrite must not add one. */
static bool
same_size (const GmGraph *g, int64_t a, int64_t b)
{
  return a == b
         || (g->sizes && !gm_sizes_are_numbers (a, b)
             && gm_sizes_ask (g->sizes, GM_REL_EQ, a, b) == GM_YES);
}

static bool
same_sizes (const GmGraph *g, const int64_t *a, const int64_t *b, int n)
{
  for (int d = 0; d < n; d++)
    if (!same_size (g, a[d], b[d]))
      return false;
  return true;
}

static bool
same_shape (const GmGraph *g, const GmMeta *a, const GmMeta *b)
{
  return a->ndim == b->ndim && same_sizes (g, a->sizes, b->sizes, a->ndim);
}

/* True if n, which picks or writes elements by index, does so for one element of each row of
 * `whole`, and these rows are not short. */
static bool
takes_one (const GmGraph *g, const GmNode *n, const GmMeta *whole)
{
  const GmMeta *index = gm_graph_meta (g, n->in[1]);
  int64_t dim = n->attrs->dim, length;

  if (index->ndim != whole->ndim || dim < 0 || dim >= whole->ndim || index->sizes[dim] != 1)
    return false;
  length = whole->sizes[dim];
  for (int d = 0; d < whole->ndim; d++)
    if (d != dim && !same_size (g, index->sizes[d], whole->sizes[d]))
      return false;
  return gm_size_is_symbolic (length) || length >= SHORT_ROW;
}

/* True if computing v at fewer points would make a backward read a tensor that it does not read as
 * recorded and that the caller may write to before: an input or a result.  *left: number of nodes
 * that may be visited; when it is used up, the answer is true. */
static bool
reads_what_is_not_ours (const Pick *p, GmValueId v, uint32_t *left)
{
  const GmNode *n = gm_cut_producer (p->g, v);
  if (p->late[v] && !is_pointwise (n))
    return false;
  if (!is_pointwise (n) || p->output[v])
    return (n == NULL || p->output[v]) && !p->read[v];
  for (uint32_t i = 0; i < n->n_in; i++)
    if ((*left)-- == 0 || reads_what_is_not_ours (p, n->in[i], left))
      return true;
  return false;
}

static bool
sinks (const Pick *p, const GmNode *n)
{
  uint32_t left = MOST_NODES;
  return n->op == GM_OP_gather && is_pointwise (gm_cut_producer (p->g, n->in[0]))
         && !p->output[n->in[0]] && takes_one (p->g, n, gm_graph_meta (p->g, n->in[0]))
         && !(p->late[n->in[0]] && reads_what_is_not_ours (p, n->in[0], &left));
}

/* Returns the value of which v, an index, is a reshape. */
static GmValueId
positions (const GmGraph *g, GmValueId v)
{
  for (const GmNode *n = gm_cut_producer (g, v);
       n && (n->op == GM_OP_view || n->op == GM_OP_detach); n = gm_cut_producer (g, v))
    v = n->in[0];
  return v;
}

/* True if a node before `end` checks that the elements of `index` are within `length`: the gather
 * of a gradient would check too late, after the function itself has used them. */
static bool
is_checked (const GmGraph *g, GmValueId index, int64_t length, uint32_t end)
{
  for (uint32_t i = 0; i < end; i++) {
    const GmNode *n = gm_graph_node (g, i);
    if (n->op == GM_OP_gather
        && same_size (g, gm_graph_meta (g, n->in[0])->sizes[n->attrs->dim], length)
        && positions (g, n->in[1]) == positions (g, index))
      return true;
  }
  return false;
}

static bool
is_zeros (const GmGraph *g, GmValueId v)
{
  const GmNode *n = gm_cut_producer (g, v);

  return n && n->op == GM_OP_full && gm_scalar_as_double (n->attrs->value) == 0
         && !signbit (gm_scalar_as_double (n->attrs->value));
}

static bool
is_one_hot (const Pick *p, const GmNode *n)
{
  const GmMeta *whole = gm_graph_meta (p->g, n->out);

  return n->op == GM_OP_scatter_add && gm_dtype_is_float (whole->dtype)
         && gm_dtype_computes (whole->dtype) && is_zeros (p->g, n->in[0])
         && takes_one (p->g, n, whole)
         && same_shape (p->g, gm_graph_meta (p->g, n->in[1]), gm_graph_meta (p->g, n->in[2]))
         && is_checked (p->g, n->in[1], whole->sizes[n->attrs->dim],
                        gm_graph_value (p->g, n->out)->node);
}

/* The terms of a sum, each of which is a slice among zeros, sorted by start. */
typedef struct {
  const GmNode *of[MOST_SLICES];
  uint32_t n;
} Slices;

static bool
is_slice (const GmGraph *g, const GmNode *n)
{
  return n && n->op == GM_OP_slice_scatter && n->attrs->step == 1 && is_zeros (g, n->in[0])
         && !gm_size_is_symbolic (n->attrs->start) && !gm_size_is_symbolic (n->attrs->stop);
}

/* Collects the slices of the sum v into s; false if v is no such sum.  depth: number of additions
 * that may still be nested. */
static bool
collect_slices (const GmGraph *g, GmValueId v, Slices *s, int depth)
{
  const GmNode *n = gm_cut_producer (g, v);
  uint32_t at = s->n;

  if (n && n->op == GM_OP_add && depth > 0)
    return collect_slices (g, n->in[1], s, depth - 1) && collect_slices (g, n->in[0], s, depth - 1);
  if (!is_slice (g, n) || s->n == MOST_SLICES)
    return false;
  for (s->n++; at > 0 && s->of[at - 1]->attrs->start > n->attrs->start; at--)
    s->of[at] = s->of[at - 1];
  s->of[at] = n;
  return true;
}

/* True if the slices in s follow one another without gap or overlap, and cover all of n's
 * result. */
static bool
is_sum_of_slices (const Pick *p, const GmNode *n, Slices *s)
{
  const GmMeta *whole = gm_graph_meta (p->g, n->out);
  int64_t end = 0;

  s->n = 0;
  if (n->op != GM_OP_add || !gm_dtype_is_float (whole->dtype) || !gm_dtype_computes (whole->dtype)
      || !collect_slices (p->g, n->out, s, MOST_SLICES))
    return false;
  const int64_t dim = s->of[0]->attrs->dim;
  for (uint32_t i = 0; i < s->n; i++) {
    const GmAttrs *a = s->of[i]->attrs;
    if (a->dim != dim || a->start != end || a->stop <= end
        || !same_shape (p->g, gm_graph_meta (p->g, s->of[i]->out), whole))
      return false;
    end = a->stop;
  }
  return end == whole->sizes[dim];
}

/* -- Rewrites ---------------------------------------------------------------------------------- */

static GmVal
mapped (const Pick *p, GmValueId v)
{
  return gm_val_from_id (p->map[v]);
}

/* True if v, an operand that broadcasts to the shape of `whole`, has equal elements all along
 * dimension `dim`. */
static bool
is_of_rows (const GmMeta *v, const GmMeta *whole, int dim)
{
  int own = dim - (whole->ndim - v->ndim);

  return own < 0 || v->sizes[own] == 1;
}

/* Returns the elements of v that `gather` would pick, if v had the shape of gather's operand; the
 * shape of the result broadcasts to that of the index. */
static GmVal
pick (Pick *p, GmValueId v, const GmNode *gather)
{
  const GmMeta *whole = gm_graph_meta (p->g, gather->in[0]), *m = gm_graph_meta (p->g, v);
  const GmNode *n = gm_cut_producer (p->g, v);
  GmBuilder *b = &p->b.base;

  if (is_of_rows (m, whole, gather->attrs->dim))
    return mapped (p, v);
  if (is_pointwise (n) && !p->output[v] && n->n_in <= p->left && same_shape (p->g, m, whole)) {
    GmVal in[n->n_in + 1];
    p->left -= n->n_in;
    for (uint32_t i = 0; i < n->n_in; i++)
      in[i] = pick (p, n->in[i], gather);
    return gm_b_op (b, n->op, in, (int) n->n_in, n->attrs);
  }
  GmVal from = same_shape (p->g, m, whole)
                   ? mapped (p, v)
                   : gm_b_expand (b, mapped (p, v), whole->ndim, whole->sizes);
  return gm_b_op (b, GM_OP_gather, (const GmVal[]){ from, mapped (p, gather->in[1]) }, 2,
                  gather->attrs);
}

static GmVal
sink (Pick *p, const GmNode *gather)
{
  p->left = MOST_NODES;
  return pick (p, gather->in[0], gather);
}

static GmVal
one_hot (Pick *p, const GmNode *n)
{
  const GmMeta *whole = gm_graph_meta (p->g, n->out);
  GmBuilder *b = &p->b.base;
  int dim = (int) n->attrs->dim;
  int64_t length = whole->sizes[dim], along[GM_MAX_DIMS];
  /* Half as wide where that is enough: the loop spends its time on the comparison. */
  GmDtype d = !gm_size_is_symbolic (length) && length <= INT32_MAX ? GM_I32 : GM_I64;
  const GmAttrs at = { .mask = 1u << GM_ATTR_SIZES | 1u << GM_ATTR_DTYPE | 1u << GM_ATTR_VALUE
                               | 1u << GM_ATTR_VALUE2,
                       .n_list = 1,
                       .list = { length },
                       .dtype = d,
                       .value = gm_scalar_int (0),
                       .value2 = gm_scalar_int (1) };
  GmAttrs count = at;

  for (int k = 0; k < whole->ndim; k++)
    along[k] = k == dim ? length : 1;
  b->device = whole->device;
  gm_b_attrs_device (b, &count);
  GmVal place = gm_b_view (b, gm_b_op (b, GM_OP_arange, NULL, 0, &count), whole->ndim, along);
  GmVal zero = gm_b_scalar (b, gm_scalar_float (0), (GmDtype) whole->dtype);
  GmVal hit = gm_b (b, eq, place, gm_b_cast (b, mapped (p, n->in[1]), d));
  b->device = 0;
  return gm_b (b, where, hit, gm_b (b, add, zero, mapped (p, n->in[2])), zero);
}

static GmVal
joined (Pick *p, const GmNode *n, const Slices *s)
{
  GmBuilder *b = &p->b.base;
  const GmAttrs at = { .mask = 1u << GM_ATTR_DIM, .dim = s->of[0]->attrs->dim };
  GmVal part[MOST_SLICES];

  b->device = gm_graph_meta (p->g, n->out)->device;
  GmVal zero = gm_b_scalar (b, gm_scalar_float (0), (GmDtype) gm_graph_meta (p->g, n->out)->dtype);
  for (uint32_t i = 0; i < s->n; i++)
    part[i] = gm_b (b, add, mapped (p, s->of[i]->in[1]), zero);
  b->device = 0;
  return gm_b_op (b, GM_OP_cat, part, (int) s->n, &at);
}

/* True if v may replace the result of n: same type, and same strides, which the caller may see. */
static bool
is_like (Pick *p, GmValueId v, const GmNode *n)
{
  const GmMeta *is = gm_graph_meta (p->b.graph, v), *was = gm_graph_meta (p->g, n->out);

  return is->dtype == was->dtype && is->device == was->device && same_shape (p->g, is, was)
         && same_sizes (p->g, is->strides, was->strides, is->ndim);
}

static bool
rewrite (Pick *p, const GmNode *n)
{
  GmVal v = NULL;
  Slices slices;

  p->b.where = n->where;
  p->b.tag = (GmNodeTag) n->tag;
  if (sinks (p, n))
    v = sink (p, n);
  else if (is_one_hot (p, n))
    v = one_hot (p, n);
  else if (is_sum_of_slices (p, n, &slices))
    v = joined (p, n, &slices);
  if (gm_b_failed (&p->b.base))
    return false;
  p->map[n->out] = v && is_like (p, gm_id_from_val (v), n)
                       ? gm_id_from_val (v)
                       : gm_copy_node (p->b.graph, p->g, n, p->map, &p->b.base.error);
  if (p->map[n->out] == GM_NO_ID)
    return false;
  gm_graph_meta (p->b.graph, p->map[n->out])->requires_grad =
      gm_graph_meta (p->g, n->out)->requires_grad;
  return true;
}

static bool
any_applies (const Pick *p)
{
  Slices slices;

  for (uint32_t i = 0; i < p->g->nodes->len; i++) {
    const GmNode *n = gm_graph_node (p->g, i);
    if (sinks (p, n) || is_one_hot (p, n) || is_sum_of_slices (p, n, &slices))
      return true;
  }
  return false;
}

/* -- The graph --------------------------------------------------------------------------------- */

static GmGraph *
build (Pick *p, GmArena *arena, GError **error)
{
  const GmGraph *g = p->g;
  GmGraph *to = gm_graph_new_like (g, g->name, arena);
  bool ok = true;

  gm_graph_builder_init (&p->b, to);
  for (uint32_t i = 0; i < g->inputs->len; i++) {
    GmValueId v = g_array_index (g->inputs, GmValueId, i);
    p->map[v] = gm_graph_add_input (to, gm_graph_value (g, v)->name, gm_graph_meta (g, v));
  }
  gm_graph_carry_aliases (to, g, p->map);
  gm_graph_share_tables (to, g);
  for (uint32_t i = 0; i < g->nodes->len && ok; i++)
    ok = rewrite (p, gm_graph_node (g, i));
  for (uint32_t i = 0; i < g->outputs->len && ok; i++) {
    const GmGraphOutput *o = &g_array_index (g->outputs, GmGraphOutput, i);
    gm_graph_add_output (to, p->map[o->value], o->kind);
  }
  if (!ok) {
    g_propagate_error (error, g_steal_pointer (&p->b.base.error));
    g_clear_pointer (&to, gm_graph_free);
  }
  gm_graph_builder_clear (&p->b);
  return to;
}

/* Marks as late all values that depend on an input from `first_tangent` on. */
static void
find_late (Pick *p, uint32_t first_tangent)
{
  for (uint32_t i = first_tangent; i < p->g->inputs->len; i++)
    p->late[g_array_index (p->g->inputs, GmValueId, i)] = true;
  for (uint32_t i = 0; i < p->g->nodes->len; i++) {
    const GmNode *n = gm_graph_node (p->g, i);
    for (uint32_t k = 0; k < n->n_in; k++)
      p->late[n->out] |= p->late[n->in[k]];
    for (uint32_t k = 0; k < n->n_in && p->late[n->out]; k++)
      p->read[n->in[k]] = true;
  }
}

GmGraph *
gm_index_rewrites (GmGraph *g, uint32_t first_tangent, const bool *apart, GmValueId *map,
                   uint32_t n_map, GmArena *arena, GError **error)
{
  g_autofree bool *output = g_new0 (bool, g->values->len + 1),
                  *late = g_new0 (bool, g->values->len + 1),
                  *read = g_new0 (bool, g->values->len + 1);
  g_autofree GmValueId *own = g_new (GmValueId, g->values->len + 1);
  Pick p = { .g = g, .map = own, .output = output, .late = late, .read = read };

  find_late (&p, first_tangent);
  for (uint32_t i = 0; i < g->outputs->len; i++)
    output[gm_cut_value (g, g_array_index (g->outputs, GmGraphOutput, i).value)] = true;
  if (!any_applies (&p))
    return g;
  g_autoptr (GmGraph) picked = build (&p, arena, error);
  if (!picked) {
    gm_graph_free (g);
    return NULL;
  }
  GmValueId *again = gm_arena_newn (arena, GmValueId, picked->values->len);
  g_autofree bool *still = g_new0 (bool, picked->values->len + 1);
  for (uint32_t v = 0; v < n_map; v++)
    if (apart[v] && map[v] != GM_NO_ID)
      still[own[map[v]]] = true;
  GmGraph *to = gm_graph_simplify_mapped (
      picked, GM_SIMPLIFY_DEAD | GM_SIMPLIFY_FOLD | GM_SIMPLIFY_CSE, arena, still, again);
  for (uint32_t v = 0; v < n_map; v++)
    if (map[v] != GM_NO_ID)
      map[v] = again[own[map[v]]];
  to->hooks = g->hooks ? g_ptr_array_ref (g->hooks) : NULL;
  gm_graph_free (g);
  return to;
}
