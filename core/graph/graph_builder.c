/* SPDX-License-Identifier: Apache-2.0
 * graph_builder.c -- the builder that records: each call appends nodes.
 *
 * `meta` returns copies in the arena, because the graph's array of values moves when it grows.  A
 * copy is made once per value, and again if the value was truncated and its id reused.
 */
#include "core/graph/graph.h"

#include <string.h>

static GmVal
append (GmGraphBuilder *b, GmOp op, const GmValueId *in, int n_in, const GmAttrs *attrs)
{
  GmValueId id = gm_graph_add_node (b->graph, op, in, n_in, attrs, b->where, &b->base.error);
  if (id == GM_NO_ID)
    return NULL;
  gm_graph_mark_like (b->graph, id, &(GmNode){ .tag = (uint8_t) b->tag, .marks = b->base.marks });
  return gm_val_from_id (id);
}

static GmVal
builder_op (GmBuilder *base, GmOp op, const GmVal *in, int n_in, const GmAttrs *attrs)
{
  GmGraphBuilder *b = (GmGraphBuilder *) base;
  GmValueId few[8], *ids = few;
  g_autofree GmValueId *many = NULL;
  if (base->error)
    return NULL;
  if ((size_t) n_in > G_N_ELEMENTS (few))
    ids = many = g_new (GmValueId, (size_t) n_in);
  for (int i = 0; i < n_in; i++) {
    if (!in[i])
      return gm_b_fail (base, GM_ERROR_TYPE, "%s: operand %d is no value", gm_ops[op].name, i);
    ids[i] = gm_id_from_val (in[i]);
  }
  return append (b, op, ids, n_in, attrs);
}

static const GmMeta *
builder_meta (GmBuilder *base, GmVal v)
{
  static const GmMeta none;
  GmGraphBuilder *b = (GmGraphBuilder *) base;
  if (!v)
    return &none;
  GmValueId id = gm_id_from_val (v);
  const GmMeta *now = gm_graph_meta (b->graph, id);
  if (id >= b->metas->len)
    g_ptr_array_set_size (b->metas, (gint) id + 1);
  const GmMeta *copy = g_ptr_array_index (b->metas, id);
  GmMeta simplest;
  if (b->graph->sizes && gm_meta_is_symbolic (now)) { /* facts may have made them numbers */
    simplest = *now;
    now = &simplest;
    for (int d = 0; d < simplest.ndim; d++) {
      simplest.sizes[d] = gm_sizes_simplest (b->graph->sizes, simplest.sizes[d]);
      simplest.strides[d] = gm_sizes_simplest (b->graph->sizes, simplest.strides[d]);
    }
  }
  if (!copy || memcmp (copy, now, sizeof *now))
    g_ptr_array_index (b->metas, id) =
        (gpointer) (copy = gm_arena_copy (b->graph->arena, now, sizeof *now));
  return copy;
}

static GmVal
builder_into (GmBuilder *base, GmVal dst, GmOp op, const GmVal *in, int n_in, const GmAttrs *attrs)
{
  if (base->error)
    return NULL;
  if (!dst)
    return gm_b_fail (base, GM_ERROR_TYPE, "%s in place: there is no value to write to",
                      gm_ops[op].name);
  bool copies = op == GM_OP_copy && n_in == 1; /* copy_ does that by itself */
  GmVal src = copies ? in[0] : builder_op (base, op, in, n_in, attrs);
  GmVal written = src ? builder_op (base, GM_OP_copy_, (const GmVal[]){ dst, src }, 2, NULL) : NULL;
  if (written && !copies)
    gm_graph_set_tag (((GmGraphBuilder *) base)->graph, gm_id_from_val (written), GM_TAG_IN_PLACE);
  return written;
}

/* Returns the generator's state advanced by `draws` numbers, a size: nodes compute it when the
 * graph runs. */
static GmVal
moved_on (GmGraphBuilder *b, int64_t draws)
{
  const GmAttrs at = { .mask = 1u << GM_ATTR_SIZES | 1u << GM_ATTR_DTYPE | 1u << GM_ATTR_VALUE
                               | 1u << GM_ATTR_VALUE2,
                       .n_list = 1,
                       .list = { 2 },
                       .dtype = GM_I64,
                       .value = gm_scalar_int (0),
                       .value2 = gm_scalar_int (1) };
  GmBuilder *base = &b->base;
  GmVal place = gm_b_op (base, GM_OP_arange, NULL, 0, &at),
        far = gm_b_scalar (base, gm_scalar_int (draws), GM_I64);
  return gm_b (base, add, gm_val_from_id (b->rng), gm_b (base, mul, place, far));
}

GmVal
gm_graph_builder_state (GmGraphBuilder *b)
{
  return b->rng_taken == 0 ? gm_val_from_id (b->rng) : moved_on (b, b->rng_taken);
}

static GmVal
builder_random (GmBuilder *base, uint64_t n_elements, int64_t *offset)
{
  GmGraphBuilder *b = (GmGraphBuilder *) base;
  if (base->error)
    return NULL;
  if (b->rng == GM_NO_ID)
    return gm_b_fail (base, GM_ERROR_UNSUPPORTED,
                      "random numbers in the graph '%s': it has no input for the generator's state",
                      b->graph->name);
  int64_t before = b->rng_taken;
  b->rng_taken = gm_size_add (before, gm_size_floordiv (gm_size_add ((int64_t) n_elements, 3), 4));
  *offset = gm_size_is_symbolic (before) ? 0 : before;
  /* an offset is a number */
  return *offset == before ? gm_val_from_id (b->rng) : moved_on (b, before);
}

/* Returns a value on another device with the elements of t.  The table of constants holds only
 * constants on the CPU, so the elements become numbers in nodes; equal neighbours share a node.
 * NULL with an error in the builder: there are too many. */
static GmVal
constant_there (GmBuilder *base, GmTensor *t)
{
  enum { MOST = 256 };
  GmVal runs[MOST];
  int n_runs = 0;
  int64_t n = gm_meta_numel (&t->meta), index[GM_MAX_DIMS] = { 0 }, length = 0;
  GmScalar run = { 0 };
  GmDtype dtype = (GmDtype) t->meta.dtype;
  for (int64_t i = 0; i <= n && !base->error; i++) {
    GmScalar s = i < n ? gm_tensor_get (t, index) : run;
    for (int d = t->meta.ndim - 1; d >= 0 && ++index[d] == t->meta.sizes[d]; d--)
      index[d] = 0;
    if (length && (i == n || memcmp (&s, &run, sizeof s))) {
      if (n_runs == MOST)
        return gm_b_fail (base, GM_ERROR_UNSUPPORTED,
                          "a tensor of more than %d different numbers is made on device 'cuda' "
                          "inside of a graph: make it before, and pass it",
                          MOST);
      runs[n_runs++] = gm_b_full (base, run, dtype, 1, &length);
      length = 0;
    }
    run = s;
    length++;
  }
  if (n == 0)
    return gm_b_full (base, gm_scalar_int (0), dtype, t->meta.ndim, t->meta.sizes);
  const GmAttrs at = { .mask = 1u << GM_ATTR_DIM };
  return gm_b_view (base, n_runs == 1 ? runs[0] : gm_b_op (base, GM_OP_cat, runs, n_runs, &at),
                    t->meta.ndim, t->meta.sizes);
}

static GmVal
builder_constant (GmBuilder *base, GmTensor *t)
{
  GmGraphBuilder *b = (GmGraphBuilder *) base;
  if (!base->error && base->device == GM_DEVICE_CUDA && t->meta.device == GM_DEVICE_CPU)
    return constant_there (base, t);
  return base->error ? NULL : gm_val_from_id (gm_graph_add_constant (b->graph, t, b->where));
}

static bool
builder_item (GmBuilder *base, GmVal v, GmScalar *out)
{
  (void) out;
  if (base->error)
    return false;
  g_autofree char *text = gm_meta_text (builder_meta (base, v));
  gm_b_fail (
      base, GM_ERROR_UNSUPPORTED,
      "data-dependent: the program asks for the number in a tensor (%s) that is not computed yet",
      text);
  return false;
}

static GmVal
builder_set (GmBuilder *base, GmVal dst, GmVal src)
{
  if (!((GmGraphBuilder *) base)->may_set)
    return gm_b_fail (base, GM_ERROR_UNSUPPORTED,
                      "a change of a tensor's shape or memory in place: this recording keeps no "
                      "track of it");
  return builder_op (base, GM_OP_set_, (const GmVal[]){ dst, src }, 2, NULL);
}

static GmSizes *
builder_sizes (GmBuilder *base)
{
  return ((GmGraphBuilder *) base)->graph->sizes;
}

static const GmBuilderVtable vtable = {
  .op = builder_op,
  .meta = builder_meta,
  .into = builder_into,
  .random = builder_random,
  .constant = builder_constant,
  .item = builder_item,
  .set = builder_set,
  .sizes = builder_sizes,
};

void
gm_graph_builder_init (GmGraphBuilder *b, GmGraph *g)
{
  memset (b, 0, sizeof *b);
  b->base.vt = &vtable;
  b->graph = g;
  b->rng = GM_NO_ID;
  b->metas = g_ptr_array_new ();
}

void
gm_graph_builder_clear (GmGraphBuilder *b)
{
  g_clear_error (&b->base.error);
  g_clear_pointer (&b->metas, g_ptr_array_unref);
}
