/* SPDX-License-Identifier: Apache-2.0
 * functionalize.c -- in-place writes become values.
 *
 * Each tensor that owns memory (a root) has a current value, and a count of the writes to it.  A
 * write to a root replaces its value; a write to a view is scattered back into the view's operand,
 * by the inverse of that view, up to the root.  Other views of the root notice that the count moved
 * and are taken again from the new value when they are next read.  The contents written to an input
 * leave the graph as one more output, and the shim copies it into the real tensor.
 *
 * Invariant: a root's value always has the root's shape, dtype and, where they are dense, strides.
 * Results downstream then get the strides that the plain program gives them, and matrix products
 * the same BLAS call, hence the same bits.
 * Requires: a verified graph without set_; inputs that do not overlap where one of them is written
 * (synthetic_base.c).
 * Rejected: taking views again at the write.  Most are never read after it.
 */
#include "core/aot/layer_facts.h"
#include "core/aot/functional_private.h"
#include "core/autograd/autograd.h"

#include <string.h>

/* -- Graph ------------------------------------------------------------------------------------- */

typedef GmFunctionalRewrite Rewrite;

static GmVal
add (Rewrite *r, GmOp op, const GmVal *in, int n_in, const GmAttrs *attrs)
{
  return gm_b_op (&r->b.base, op, in, n_in, attrs);
}

/* Returns v as the result of node n of g: without a history if n ran with gradients off. */
static GmVal
as_recorded (Rewrite *r, const GmNode *n, GmVal v)
{
  if (v && gm_views_no_grad (r->g, n))
    gm_graph_meta (r->b.graph, gm_id_from_val (v))->requires_grad = 0;
  return v;
}

/* Returns the elements of v in memory that is laid out like `want`, if that is dense: v is permuted
 * so that rows are rows, made contiguous, and permuted back. */
static GmVal
with_strides_of (Rewrite *r, GmVal v, const GmMeta *want)
{
  const GmMeta *m = gm_b_meta (&r->b.base, v);
  int64_t order[GM_MAX_DIMS], inverse[GM_MAX_DIMS];
  GmMeta like = *want;

  gm_meta_set_like (&like, want);
  if (!v || memcmp (m->strides, like.strides, sizeof m->strides) == 0 || !gm_meta_is_dense (want))
    return v;
  gm_meta_order (&like, order);
  for (int i = 0; i < want->ndim; i++)
    inverse[order[i]] = i;
  GmVal rows = gm_b_contiguous (&r->b.base, gm_b_permute (&r->b.base, v, order));
  GmMeta exact = rows ? *gm_b_meta (&r->b.base, rows) : like;
  gm_meta_set_contiguous (&exact);
  if (rows
      && memcmp (gm_b_meta (&r->b.base, rows)->strides, exact.strides,
                 exact.ndim * sizeof *exact.strides)
             != 0) {
    int64_t all = gm_meta_numel (&exact); /* a dimension of one element may have any stride; as a
                                           * row it gets its own */
    rows = gm_b_view (&r->b.base, gm_b_view (&r->b.base, rows, 1, &all), exact.ndim, exact.sizes);
  }
  return gm_b_permute (&r->b.base, rows, inverse);
}

static const GmNode *
producer (const GmGraph *g, GmValueId v)
{
  uint32_t node = gm_graph_value (g, v)->node;

  return node == GM_NO_ID ? NULL : gm_graph_node (g, node);
}

/* Returns `base`, the operand of the bitcast n, laid out so that the bytes of one element of the
 * result's size are side by side. */
static GmVal
as_bytes (Rewrite *r, const GmNode *n, GmVal base)
{
  GmMeta is;

  base = with_strides_of (r, base, gm_graph_meta (r->g, n->in[0]));
  return !base
                 || gm_op_infer (n->op, (const GmMeta *[]){ gm_b_meta (&r->b.base, base) }, 1,
                                 n->attrs, &is, NULL)
             ? base
             : gm_b_contiguous (&r->b.base, base);
}

/* Returns the view that node `n` takes, of the value `base`.  A value may be laid out otherwise
 * than the recorded tensor, so `view` may have to copy. */
static GmVal
take_view (Rewrite *r, const GmNode *n, GmVal base)
{
  if (n->op == GM_OP_view && gm_views_no_grad (r->g, n))
    base = add (r, GM_OP_detach, &base, 1, NULL); /* the reshape may be two nodes, or none */
  if (n->op == GM_OP_bitcast)
    base = as_bytes (r, n, base);
  if (n->op == GM_OP_view) {
    GmVal v = gm_b_reshape (&r->b.base, base, n->attrs->n_list, n->attrs->list);
    /* arriving gradients are summed there, too */
    return v == base ? add (r, GM_OP_view, &base, 1, n->attrs) : v;
  }
  return as_recorded (r, n,
                      add (r, n->op == GM_OP_data ? GM_OP_detach : n->op, &base, 1, n->attrs));
}

/* Returns `object` as a chain of views of `base`, the value of its root. */
static GmVal
take_views (Rewrite *r, GmValueId object, GmVal base)
{
  GmValueId parent = gm_views_parent (r->g, object);

  if (parent == GM_NO_ID)
    return base;
  return take_view (r, producer (r->g, object), take_views (r, parent, base));
}

/* Returns a new I64 tensor that maps each element of the view `object` to its place in its root:
 * element k of the view is element places[k] of the root, both in row-major order.  Computed by
 * taking the views of the numbers 0, 1, 2 ...; NULL: *error. */
static GmTensor *
places_in_root (const GmGraph *g, GmValueId object, GError **error)
{
  GmValueId parent = gm_views_parent (g, object);

  if (parent == GM_NO_ID) {
    const GmMeta *m = gm_graph_meta (g, object);
    GmMeta numbers = gm_meta_make (GM_I64, m->ndim, m->sizes);
    GmTensor *t = gm_tensor_new (&numbers, error);
    for (int64_t i = 0; t && i < gm_meta_numel (&numbers); i++)
      ((int64_t *) gm_tensor_data (t))[i] = i;
    return t;
  }
  const GmNode *n = producer (g, object);
  g_autoptr (GmTensor) of = places_in_root (g, parent, error), rows = NULL;
  if (!of || n->op != GM_OP_view)
    return of ? gm_op_run (n->op, &of, 1, n->attrs, error) : NULL;
  GmAttrs first = { .mask = 1u << GM_ATTR_DIM };
  if (!gm_meta_is_contiguous (&of->meta)) /* the numbers may lie otherwise than the tensor; a join
                                           * is row-major, while `copy` keeps strides */
    rows = gm_op_run (GM_OP_cat, &of, 1, &first, error);
  else
    rows = gm_tensor_ref (of);
  return rows ? gm_op_run (n->op, &rows, 1, n->attrs, error) : NULL;
}

/* True if several elements of `object` share a place in its root, so that their gradients have to
 * be added there element by element.  False where a view on the way has no history. */
static bool
adds_up_in_root (Rewrite *r, GmValueId object)
{
  GmValueId root = gm_views_root (r->g, object);

  if (!r->differentiate || !gm_b_meta (&r->b.base, r->now[root])->requires_grad
      || gm_meta_is_symbolic (gm_graph_meta (r->g, object))
      || gm_meta_is_symbolic (gm_graph_meta (r->g, root))
      || !gm_meta_overlaps_itself (gm_graph_meta (r->g, object)))
    return false;
  for (GmValueId v = object; v != root; v = gm_views_parent (r->g, v))
    if (gm_op_detaches (producer (r->g, v)->op) || gm_views_no_grad (r->g, producer (r->g, v)))
      return false;
  return true;
}

/* Returns the elements of `object`, selected from its root's value by index. */
static GmVal
pick (Rewrite *r, GmValueId object)
{
  GmBuilder *b = &r->b.base;
  const GmMeta *m = gm_graph_meta (r->g, object);
  GmVal root = r->now[gm_views_root (r->g, object)];
  int64_t n_root = gm_meta_numel (gm_b_meta (b, root)), n = gm_meta_numel (m);
  GmAttrs along = { .mask = 1u << GM_ATTR_DIM };
  GError *error = NULL;
  g_autoptr (GmTensor) places = places_in_root (r->g, object, &error), rows = NULL, flat = NULL;

  rows = places ? gm_op_run (GM_OP_copy, &places, 1, NULL, &error) : NULL;
  flat = rows ? gm_op_run (GM_OP_view, &rows, 1,
                           &(GmAttrs){ .mask = 1u << GM_ATTR_SIZES, .n_list = 1, .list = { n } },
                           &error)
              : NULL;
  if (!flat) {
    gm_b_fail (b, (GmError) error->code, "%s", error->message);
    g_error_free (error);
    return NULL;
  }
  GmVal in[2] = { gm_b_reshape (b, root, 1, &n_root),
                  gm_val_from_id (gm_graph_add_constant (r->b.graph, flat, r->b.where)) };
  return gm_b_view (b, add (r, GM_OP_index_select, in, 2, &along), m->ndim, m->sizes);
}

/* Returns a new value for `object`, a view that was taken before its memory was written to: eager
 * gives it a history of its own at the refresh, which begins at the root and shares nothing with
 * the history of its former operand. */
static GmVal
take_again (Rewrite *r, GmValueId object)
{
  GmVal root = r->now[gm_views_root (r->g, object)];

  if (root && adds_up_in_root (r, object))
    return pick (r, object);
  return take_views (r, object, root);
}

static GmVal current (Rewrite *r, GmValueId v);

/* Returns the elements of v for a read that does not refresh v: eager makes no new history for a
 * view that is read with gradients off, or by an operator without a gradient. */
static GmVal
elements_of (Rewrite *r, GmValueId v)
{
  GmValueId object = gm_views_object (r->g, v), root = gm_views_root (r->g, object);
  uint32_t writes = r->writes[root];

  if (!r->differentiate || object == root || !r->now[object] || r->seen[object] == writes)
    return current (r, v);
  if (!r->peeked[object] || r->peeked_at[object] != writes) {
    r->peeked[object] = take_views (r, object, r->now[root]);
    r->peeked_at[object] = writes;
  }
  return r->peeked[object];
}

/* Returns the value of operand i of n, refreshed if a gradient may go back through this read. */
static GmVal
operand (Rewrite *r, const GmNode *n, uint32_t i)
{
  bool looks = gm_op_is_differentiable (n->op, (int) i) && !gm_views_no_grad (r->g, n);

  return looks ? current (r, n->in[i]) : elements_of (r, n->in[i]);
}

/* Returns the value of v for a read that refreshes it: a stale view is taken again. */
static GmVal
current (Rewrite *r, GmValueId v)
{
  GmValueId object = gm_views_object (r->g, v), parent = gm_views_parent (r->g, object);
  uint32_t writes = r->writes[gm_views_root (r->g, object)];

  if (parent == GM_NO_ID || (r->now[object] && r->seen[object] == writes))
    return r->now[object];
  const GmNode *n = producer (r->g, object);
  r->now[object] = r->now[object] ? take_again (r, object) : take_view (r, n, operand (r, n, 0));
  r->seen[object] = writes;
  return r->now[object];
}

static GmVal
refuse (Rewrite *r, const GmNode *n, const char *what)
{
  return gm_b_fail (&r->b.base, GM_ERROR_UNSUPPORTED,
                    "cannot compile the in-place write %s (%s, the tensor comes from %s): write to "
                    "a clone () instead, or keep this statement out of the compiled function",
                    what, r->b.where ? r->b.where : "line unknown", gm_ops[n->op].name);
}

/* Returns one slice of `elements`, the result of an expand of a tensor like `of`, as the elements
 * of that tensor: all slices are equal. */
static GmVal
first_of (Rewrite *r, GmVal elements, const GmMeta *of)
{
  GmBuilder *b = &r->b.base;
  int lead = gm_b_meta (b, elements)->ndim - of->ndim;

  for (int d = 0; elements && d < lead + of->ndim; d++)
    if (d < lead || gm_size_same (of->sizes[d - lead], 1))
      elements = gm_b_slice (b, elements, d, 0, 1, 1);
  return gm_b_reshape (b, elements, of->ndim, of->sizes);
}

/* Returns the new value of the operand of view `n`, formerly `base`, after the view's elements have
 * become `elements`.  *one: all elements are equal; cleared after a view of a part. */
static GmVal
scatter_back (Rewrite *r, const GmNode *n, GmVal base, GmVal elements, bool *one)
{
  GmBuilder *b = &r->b.base;
  const GmMeta *m = gm_b_meta (b, base);
  int64_t inverse[GM_MAX_DIMS];
  bool same = *one;

  *one = same && (n->op == GM_OP_permute || n->op == GM_OP_view || n->op == GM_OP_expand);

  switch (n->op) {
  case GM_OP_permute:
    for (int i = 0; i < n->attrs->n_list; i++)
      inverse[n->attrs->list[i]] = i;
    return gm_b_permute (b, elements, inverse);
  case GM_OP_view:
    return gm_b_reshape (b, elements, m->ndim, m->sizes);
  case GM_OP_slice:
    return add (r, GM_OP_slice_scatter, (const GmVal[]){ base, elements }, 2, n->attrs);
  case GM_OP_expand:
    if (gm_meta_same_shape (m, gm_b_meta (b, elements)))
      return elements;
    if (same && !gm_meta_is_symbolic (m)
        && !gm_size_same (gm_meta_numel (gm_b_meta (b, elements)), 0))
      return first_of (r, elements, m);
    return refuse (r, n, "to an expanded tensor, where several elements are one place in memory");
  case GM_OP_detach:
  case GM_OP_data:
    if (gm_b_meta (b, elements)->requires_grad)
      return refuse (r, n, "through detach () of what takes part in the gradient");
    return elements;
  case GM_OP_bitcast:
    return gm_b_bitcast (b, gm_b_contiguous (b, elements), (GmDtype) m->dtype);
  case GM_OP_diagonal:
    return gm_b_embed (b, n->op, n->attrs, base, elements);
  case GM_OP_unfold:
    if (gm_windows_overlap (n->attrs))
      return refuse (r, n, "to windows that overlap");
    return gm_b_embed (b, n->op, n->attrs, base, elements);
  default:
    return refuse (r, n, "through a view without inverse");
  }
}

/* True if the write leaves the history of the base of its target unchanged: the write, or a view on
 * the way to the base, ran with gradients off or is a detach. */
static bool
is_quiet (const Rewrite *r, const GmNode *write)
{
  const GmGraph *g = r->g;

  if (gm_views_no_grad (g, write))
    return true;
  for (GmValueId v = gm_views_object (g, write->in[0]), parent;
       (parent = gm_views_parent (g, v)) != GM_NO_ID; v = parent)
    if (gm_op_detaches (producer (g, v)->op) || gm_views_no_grad (g, producer (g, v)))
      return true;
  return false;
}

/* True if a view of `root` was taken with gradients off.  Eager gives such a view a history at the
 * first refresh after the root got one; here the view never gets a history. */
static bool
has_quiet_views (const GmGraph *g, GmValueId root)
{
  for (uint32_t i = 0; i < g->nodes->len; i++) {
    const GmNode *n = gm_graph_node (g, i);

    if (gm_ops[n->op].family == GM_FAMILY_MOVEMENT && !gm_op_detaches (n->op)
        && gm_views_no_grad (g, n) && gm_views_root (g, n->out) == root)
      return true;
  }
  return false;
}

/* Returns `base`, a value of the root's shape, with `elements` at the places of the view `object`.
 * one: all elements are equal. */
static GmVal
scatter_all (Rewrite *r, GmValueId object, GmVal base, GmVal elements, bool one)
{
  for (GmValueId parent; (parent = gm_views_parent (r->g, object)) != GM_NO_ID; object = parent)
    elements =
        scatter_back (r, producer (r->g, object), take_views (r, parent, base), elements, &one);
  return elements;
}

/* Returns `elements` as the new value of a base whose former value is `old`, with the history that
 * eager records for the base of a written view: zeros go back to `old`, made from the arriving
 * gradient. */
static GmVal
replace_all (Rewrite *r, GmVal old, GmVal elements)
{
  GmBuilder *b = &r->b.base;
  const GmMeta m = *gm_b_meta (b, old);
  GmAttrs all = { .mask = 1u << GM_ATTR_DIM | 1u << GM_ATTR_START | 1u << GM_ATTR_STOP
                          | 1u << GM_ATTR_STEP,
                  .dim = 0,
                  .start = 0,
                  .stop = 1,
                  .step = 1 };
  int64_t one = 1;

  if (m.ndim > 0) {
    all.stop = m.sizes[0];
    return add (r, GM_OP_slice_scatter, (const GmVal[]){ old, elements }, 2, &all);
  }
  GmVal in[2] = { gm_b_view (b, old, 1, &one), gm_b_view (b, elements, 1, &one) };
  return gm_b_view (b, add (r, GM_OP_slice_scatter, in, 2, &all), 0, NULL);
}

/* True if v is, in eager, the very tensor that the graph has it as a view of, after a change of its
 * shape. */
static bool
is_itself (const Rewrite *r, GmValueId v)
{
  for (GmValueId parent; (parent = gm_views_parent (r->g, v)) != GM_NO_ID; v = parent)
    if (producer (r->g, v)->tag != GM_TAG_ITSELF)
      return false;
  return true;
}

/* Returns the same elements as scatter_all, for a base that has a history.  Through several slices
 * the gradient of `base` would be assembled from parts; eager's is the arriving gradient with zeros
 * at the view's places, bit for bit.  So a mask of the places is computed, and `where` selects. */
static GmVal
scatter_recorded (Rewrite *r, GmValueId object, GmVal base, GmVal elements, bool one)
{
  GmBuilder *b = &r->b.base;
  const GmMeta m = *gm_b_meta (b, base), part = *gm_b_meta (b, elements);
  int n_slices = 0;
  bool recast = false;

  for (GmValueId v = object; gm_views_parent (r->g, v) != GM_NO_ID; v = gm_views_parent (r->g, v)) {
    GmOp op = producer (r->g, v)->op;
    recast |= op == GM_OP_bitcast; /* parts of elements have no places, and no history */
    /* put back by several slices */
    n_slices += op == GM_OP_slice ? 1 : op == GM_OP_diagonal || op == GM_OP_unfold ? 2 : 0;
  }
  if (n_slices == 1 || recast || is_itself (r, object))
    return scatter_all (r, object, base, elements, one);
  if (n_slices == 0)
    return replace_all (r, base, scatter_all (r, object, base, elements, one));
  GmVal nowhere = gm_b_full_like (b, gm_scalar_bool (false), GM_BOOL, &m),
        here = gm_b_full_like (b, gm_scalar_bool (true), GM_BOOL, &part),
        nothing = gm_b_full_like (b, gm_scalar_int (0), (GmDtype) m.dtype, &m);
  GmVal in[3] = { scatter_all (r, object, nowhere, here, true),
                  scatter_all (r, object, nothing, elements, one), base };
  return add (r, GM_OP_where, in, 3, NULL);
}

/* Stores `elements`, which have its shape and dtype, in the object `v`: v's root gets a new value.
 * one: all elements are equal. */
static void
store (Rewrite *r, GmValueId v, GmVal elements, bool one)
{
  GmBuilder *b = &r->b.base;
  GmValueId object = gm_views_object (r->g, v), root = gm_views_root (r->g, v), parent;
  const GmNode *n = producer (r->g, root);
  GmVal old = r->now[root], part = elements;
  bool still = one;

  if (n && n->op == GM_OP_constant) {
    refuse (r, n, "to a constant of the graph");
    return;
  }
  bool recorded = object != root && old && r->differentiate && gm_b_meta (b, old)->requires_grad;
  for (GmValueId o = object; o != root; o = parent) {
    r->written[o] = part;
    r->when[o] = r->writes[root] + 1;
    parent = gm_views_parent (r->g, o);
    if (parent != root || !recorded)
      part = scatter_back (r, producer (r->g, o), parent == root ? old : elements_of (r, parent),
                           part, &still);
  }
  if (recorded)
    part = scatter_recorded (r, object, old, elements, one);
  r->written[root] = part;
  r->when[root] = r->writes[root] + 1;
  r->now[root] = with_strides_of (r, part, gm_graph_meta (r->g, root));
  r->writes[root]++;
  r->counted[gm_views_counter (r->g, v)]++;
}

/* Refuses operand i of n if a gradient would go through it to a history that its tensor no longer
 * has, because of a write with gradients off. */
static void
check_quiet (Rewrite *r, const GmNode *n, uint32_t i)
{
  const GmGraph *g = r->g;

  if (r->quiet[gm_views_root (g, n->in[i])] && gm_graph_meta (g, n->in[i])->requires_grad
      && gm_graph_meta (g, n->out)->requires_grad && gm_op_is_differentiable (n->op, (int) i))
    refuse (r, n, "with gradients off to a tensor whose gradient is asked for afterwards");
}

/* Saves, before a write to `root` with gradients off, the current values of its views: the write
 * leaves their histories unchanged. */
static void
remember (Rewrite *r, GmValueId root)
{
  for (uint32_t i = 0; i < r->g->nodes->len; i++) {
    const GmNode *n = gm_graph_node (r->g, i);

    if (gm_ops[n->op].family == GM_FAMILY_MOVEMENT && r->now[n->out]
        && r->seen[n->out] == r->writes[root] && gm_views_root (r->g, n->out) == root)
      r->before_quiet[n->out] = r->now[n->out];
  }
}

/* Rewrites the node copy_ (dst, src).  A write with gradients off may change an input that is not
 * read with gradients afterwards: its new contents have no history in this graph. */
static void
rewrite_write (Rewrite *r, const GmNode *n, const GmMeta *m)
{
  GmBuilder *b = &r->b.base;
  GmValueId root = gm_views_root (r->g, n->in[0]);
  bool is_input = gm_graph_value (r->g, root)->node == GM_NO_ID;
  bool quiet = is_quiet (r, n);
  bool protects = gm_graph_meta (r->g, root)->requires_grad && r->differentiate;

  check_quiet (r, n, 1);
  if (is_input && gm_meta_overlaps_itself (gm_graph_meta (r->g, root)))
    refuse (r, n, "to an input of which several elements are one place in memory");
  GmVal from = gm_views_no_grad (r->g, n) ? elements_of (r, n->in[1]) : current (r, n->in[1]);
  if (!quiet && from && gm_b_meta (b, from)->requires_grad && n->tag != GM_TAG_IN_PLACE)
    from = add (r, GM_OP_copy, &from, 1, NULL); /* arriving gradients are summed there before they
                                                 * go on */
  GmVal src = gm_b_cast (b, from, m->dtype);
  if (src && gm_b_meta (b, src)->device != m->device) {
    if (gm_b_meta (b, src)->ndim > 0)
      refuse (r, n, "of elements that lie on another device");
    src = add (r, GM_OP_overwrite, (const GmVal[]){ current (r, n->in[0]), src }, 2, NULL);
  }
  src = gm_b_expand (b, src, m->ndim, m->sizes);
  if (gm_views_no_grad (r->g, n))
    src = add (r, GM_OP_detach, &src, 1, NULL);
  if (r->quiet[root] && !quiet)
    refuse (r, n, "of something with a history, after a write with gradients off");
  if (!quiet && r->differentiate && has_quiet_views (r->g, root))
    refuse (r, n, "to memory of which a view was made with gradients off");
  if (quiet && !is_input && gm_b_meta (b, current (r, root))->requires_grad)
    refuse (r, n, "with gradients off to a tensor that takes part in the gradient");
  if (quiet && is_input && r->writes[root] > 0 && !r->quiet[root]
      && (protects || gm_b_meta (b, current (r, root))->requires_grad))
    refuse (r, n, "with gradients off, after one with a history");
  GmVal old = r->now[root];
  bool whole = !quiet && old && src && is_itself (r, gm_views_object (r->g, n->in[0]));
  /* The result still requires grad, as in eager, and zeros go back. */
  if (whole && gm_b_meta (b, old)->requires_grad && !gm_b_meta (b, src)->requires_grad)
    src = add (r, GM_OP_overwrite, (const GmVal[]){ current (r, n->in[0]), src }, 2, NULL);
  if (quiet && !r->quiet[root])
    remember (r, root);
  store (r, n->in[0], src, gm_graph_meta (r->g, n->in[1])->ndim == 0);
  if (!quiet && r->differentiate && !gm_b_failed (b) && gm_b_meta (b, r->now[root])->requires_grad)
    current (r, n->in[0]); /* eager refreshes the view that it has written to */
  if (!quiet || !is_input || !protects || gm_b_failed (b))
    return;
  r->quiet[root] = true;
  if (gm_b_meta (b, r->now[root])->requires_grad)
    r->now[root] = add (r, GM_OP_detach, &r->now[root], 1, NULL);
}

/* Returns the tag for the new nodes that n is rewritten to. */
static GmNodeTag
tag_of (const Rewrite *r, const GmNode *n)
{
  const GmNode *computes = n->tag == GM_TAG_IN_PLACE ? producer (r->g, n->in[1]) : n;

  return !computes || computes->tag == GM_TAG_ITSELF ? GM_TAG_NONE : (GmNodeTag) computes->tag;
}

static void
rewrite_node (Rewrite *r, const GmNode *n)
{
  const GmMeta *m = gm_graph_meta (r->g, n->out);

  r->b.where = n->where;
  r->b.graph->step = n->step;
  r->b.tag = tag_of (r, n);
  if (gm_ops[n->op].family == GM_FAMILY_MUTATE) { /* copy_ (dst, src) */
    rewrite_write (r, n, m);
  } else if (gm_ops[n->op].family == GM_FAMILY_MOVEMENT) {
    r->first[n->out] = current (r, n->out);
    r->taken[n->out] = r->writes[gm_views_root (r->g, n->out)];
  } else if (n->op == GM_OP_constant) {
    GmTensor *t = g_ptr_array_index (r->g->constants, n->attrs->offset);
    r->now[n->out] = gm_val_from_id (gm_graph_add_constant (r->b.graph, t, n->where));
  } else {
    GmVal in[n->n_in + 1];

    for (uint32_t i = 0; i < n->n_in; i++) {
      check_quiet (r, n, i);
      in[i] = operand (r, n, i);
    }
    GmVal out = as_recorded (r, n, add (r, n->op, in, (int) n->n_in, n->attrs));
    r->now[n->out] = with_strides_of (r, out, m);
  }
}

/* Returns the contents of v at the end of the function, where only elements matter: the value that
 * its last write stored, unless its memory was written to otherwise since. */
static GmVal
final_elements (Rewrite *r, GmValueId v)
{
  GmValueId object = gm_views_object (r->g, v);

  if (r->written[object] && r->when[object] == r->writes[gm_views_root (r->g, object)])
    return r->written[object];
  return elements_of (r, v);
}

static const uint32_t *
count_writes (const Rewrite *r, GmArena *arena)
{
  const GmGraph *g = r->g;
  uint32_t *n = gm_arena_newn (arena, uint32_t, g->outputs->len), any = 0;

  for (uint32_t i = 0; i < gm_graph_n_elements (g); i++) {
    GmValueId root = gm_views_root (g, g_array_index (g->outputs, GmGraphOutput, i).value);
    bool is_input = gm_graph_value (g, root)->node == GM_NO_ID;
    any |= n[i] = is_input ? 0 : r->counted[root];
  }
  return any ? n : NULL;
}

static void
add_outputs (Rewrite *r, const bool *elsewhere, GmArena *arena, GmFunctionalLayer *layer)
{
  const GmGraph *g = r->g;
  GmMutation *mutations = gm_arena_newn (arena, GmMutation, g->inputs->len);

  *layer = (GmFunctionalLayer){ .n_outer = gm_graph_n_elements (g),
                                .mutations = mutations,
                                .n_writes = count_writes (r, arena) };
  for (uint32_t i = 0; i < layer->n_outer && !gm_b_failed (&r->b.base); i++) {
    const GmGraphOutput *o = &g_array_index (g->outputs, GmGraphOutput, i);
    GmVal v = o->kind == GM_OUTPUT_MUTATION ? final_elements (r, o->value) : current (r, o->value);
    if (v && o->kind == GM_OUTPUT_MUTATION && gm_b_meta (&r->b.base, v)->requires_grad)
      v = add (r, GM_OP_detach, &v, 1, NULL); /* the base's history goes with the base */
    if (v)
      gm_graph_add_output (r->b.graph, gm_id_from_val (v), o->kind);
  }
  for (uint32_t i = 0; i < g->inputs->len && !gm_b_failed (&r->b.base); i++) {
    GmValueId input = g_array_index (g->inputs, GmValueId, i);
    if (r->writes[input] == 0)
      continue;
    if (elsewhere && elsewhere[i]) {
      if (r->quiet[input])
        gm_b_fail (&r->b.base, GM_ERROR_UNSUPPORTED,
                   "cannot compile a write with gradients off to inputs that share memory and take "
                   "part in the gradient: keep it out of the compiled function");
      mutations[layer->n_mutations++] =
          (GmMutation){ { i }, { GM_NO_ID }, r->counted[input], false };
      continue;
    }
    mutations[layer->n_mutations++] =
        (GmMutation){ { i }, { r->b.graph->outputs->len }, r->counted[input], r->quiet[input] };
    gm_graph_add_output (r->b.graph, gm_id_from_val (r->now[input]), GM_OUTPUT_MUTATION);
  }
}

GmGraph *
gm_functionalize (const GmGraph *g, bool differentiate, const bool *elsewhere, GmArena *arena,
                  GmFunctionalLayer *layer, GError **error)
{
  g_autoptr (GmGraph) out = gm_graph_new_like (g, g->name, arena);
  Rewrite r = { .g = g,
                .now = gm_arena_newn (arena, GmVal, g->values->len),
                .seen = gm_arena_newn (arena, uint32_t, g->values->len),
                .writes = gm_arena_newn (arena, uint32_t, g->values->len),
                .counted = gm_arena_newn (arena, uint32_t, g->values->len),
                .taken = gm_arena_newn (arena, uint32_t, g->values->len),
                .first = gm_arena_newn (arena, GmVal, g->values->len),
                .peeked = gm_arena_newn (arena, GmVal, g->values->len),
                .peeked_at = gm_arena_newn (arena, uint32_t, g->values->len),
                .written = gm_arena_newn (arena, GmVal, g->values->len),
                .when = gm_arena_newn (arena, uint32_t, g->values->len),
                .quiet = gm_arena_newn (arena, bool, g->values->len),
                .before_quiet = gm_arena_newn (arena, GmVal, g->values->len),
                .differentiate = differentiate };

  gm_graph_share_tables (out, g);
  gm_graph_builder_init (&r.b, out);
  for (uint32_t i = 0; i < g->inputs->len; i++) {
    GmValueId input = g_array_index (g->inputs, GmValueId, i);
    GmMeta m = *gm_graph_meta (g, input);

    m.requires_grad &= differentiate;
    r.now[input] = gm_val_from_id (gm_graph_add_input (out, gm_graph_value (g, input)->name, &m));
  }
  for (uint32_t i = 0; i < g->nodes->len && !gm_b_failed (&r.b.base); i++)
    rewrite_node (&r, gm_graph_node (g, i));
  add_outputs (&r, elsewhere, arena, layer);
  gm_functional_histories (&r, arena, layer);
  if (gm_b_failed (&r.b.base)) {
    g_propagate_error (error, g_steal_pointer (&r.b.base.error));
    gm_graph_builder_clear (&r.b);
    return NULL;
  }
  gm_graph_builder_clear (&r.b);
  return g_steal_pointer (&out);
}

/* -- Expected facts about the result ----------------------------------------------------------- */

/* Predicts the outputs: the outer ones, then the new contents of written inputs.  No input is
 * written any more. */
GmFacts *
gm_functionalize_expect (const GmGraph *g, const GmFunctionalLayer *l, bool differentiate,
                         GmArena *arena)
{
  const GmFacts *before = gm_layer_facts_derive (g, arena);
  uint32_t n_outputs = l->n_outer, n_written = 0;

  for (uint32_t m = 0; m < l->n_mutations; m++)
    n_outputs += l->mutations[m].output.i != GM_NO_ID;
  for (uint32_t i = 0; i < l->n_histories; i++)
    n_outputs += l->histories[i].i != GM_NO_ID;
  GmFacts *f = gm_layer_facts_new (arena, before->n_inputs, n_outputs);
  f->outputs_are_new = true;
  g_assert (before->n_outputs == l->n_outer + l->n_histories);
  for (uint32_t i = 0; i < f->n_inputs; i++) {
    f->inputs[i] = before->inputs[i];
    f->inputs[i].meta.requires_grad &= differentiate;
    f->inputs[i].data = false;
    n_written += before->inputs[i].data;
  }
  g_assert (n_written == l->n_mutations);
  for (uint32_t i = 0; i < l->n_outer; i++)
    f->outputs[i] = before->outputs[i];
  for (uint32_t m = 0; m < l->n_mutations; m++)
    if (l->mutations[m].output.i != GM_NO_ID)
      f->outputs[l->mutations[m].output.i] =
          (GmOutputFact){ .meta = before->inputs[l->mutations[m].input.i].meta,
                          .kind = GM_OUTPUT_MUTATION };
  for (uint32_t i = 0; i < l->n_histories; i++)
    if (l->histories[i].i != GM_NO_ID)
      f->outputs[l->histories[i].i] = before->outputs[l->n_outer + i];
  return f;
}

/* -- Run time ---------------------------------------------------------------------------------- */

bool
gm_functionalize_write_back (const GmFunctionalLayer *l, GmTensor *const *inputs,
                             GmTensor *const *inner, GError **error)
{
  for (uint32_t i = 0; l->n_writes && i < l->n_outer; i++)
    *gm_tensor_writes (inner[i]) += l->n_writes[i];
  for (uint32_t i = 0; i < l->n_mutations; i++) {
    const GmMutation *m = &l->mutations[i];
    GmTensor *input = inputs[m->input.i];

    if (m->output.i == GM_NO_ID) { /* the layer that outputs the contents counts the writes */
      *gm_tensor_writes (input) += m->n_writes;
      continue;
    }
    bool was = gm_grad_set_enabled (gm_grad_enabled () && !m->no_grad);
    bool ok = gm_autograd_become (input, inner[m->output.i], error);
    gm_grad_set_enabled (was);
    if (!ok)
      return false;
    *gm_tensor_writes (input) += m->n_writes - 1;
  }
  return true;
}
