/* SPDX-License-Identifier: Apache-2.0
 * memory_graph.c -- the generator behind memory_graph.h.
 */
#include "tests/fuzz/memory_graph.h"

#include "core/autograd/autograd.h"
#include "core/aot/aot.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

enum { MOST_VALUES = 48 };

typedef struct {
  GmMemoryGraph *m;
  GmGraph *g;
  uint64_t state;
  int n;
  GmValueId id[MOST_VALUES];   /* names that may be used */
  GmTensor *real[MOST_VALUES]; /* their tensors in the trial */
} Maker;

static int
below (Maker *k, int n)
{
  return (int) (gm_fuzz_draw (&k->state) % (uint64_t) n);
}

static bool
chance (Maker *k, int percent)
{
  return below (k, 100) < percent;
}

#define BIT(name) (1u << GM_ATTR_##name)

/* -- Tensors ----------------------------------------------------------------------------------- */

GmTensor *
gm_memory_tensor (const GmMeta *m, uint64_t seed)
{
  uint64_t state = seed;
  GmMeta plain = gm_meta_make ((GmDtype) m->dtype, m->ndim, m->sizes);
  GmTensor *t = gm_tensor_new (&plain, NULL);
  for (int64_t i = 0; i < gm_meta_numel (&plain); i++) {
    uint64_t bits = gm_fuzz_draw (&state);
    double d = (double) (int64_t) (bits >> 40) / (1 << 22) - 2;
    gm_scalar_store (gm_dtype_is_float (m->dtype) ? gm_scalar_float (d)
                                                  : gm_scalar_int ((int64_t) (bits >> 60) - 7),
                     (GmDtype) m->dtype,
                     (char *) gm_tensor_data (t) + i * (int64_t) gm_dtype_size (m->dtype));
  }
  return t;
}

void
gm_memory_graph_make (const GmMemoryGraph *m, GmTensor **leaves, GmTensor **inputs)
{
  GmTensor *buffers[GM_MEMORY_BUFFERS];

  for (int b = 0; b < m->n_buffers; b++) {
    buffers[b] = gm_memory_tensor (&m->buffers[b].meta, m->seed * 31 + (uint64_t) b);
    leaves[b] = NULL;
    if (m->buffers[b].kind == GM_MEMORY_PLAIN)
      continue;
    gm_tensor_set_requires_grad (buffers[b], true, NULL);
    leaves[b] = gm_tensor_ref (buffers[b]);
    if (m->buffers[b].kind == GM_MEMORY_LEAF)
      continue;
    buffers[b] = gm_autograd_op (GM_OP_neg, &leaves[b], 1, NULL, NULL);
    gm_tensor_unref (leaves[b]); /* the tensor that was in `buffers` */
  }
  for (int i = 0; i < m->n_inputs; i++) {
    GmTensor *t = gm_tensor_ref (m->inputs[i].same >= 0 ? inputs[m->inputs[i].same]
                                                        : buffers[m->inputs[i].buffer]);
    for (int k = 0; k < m->inputs[i].n; k++) {
      GmTensor *v = gm_autograd_op (
          m->inputs[i].chain[k].op, &t, 1,
          m->inputs[i].chain[k].attrs.mask ? &m->inputs[i].chain[k].attrs : NULL, NULL);
      gm_tensor_unref (t);
      t = v;
    }
    inputs[i] = t;
  }
  for (int b = 0; b < m->n_buffers; b++)
    gm_tensor_unref (buffers[b]);
}

/* -- Views ------------------------------------------------------------------------------------- */

static void
some_sizes (Maker *k, int64_t numel, GmAttrs *a)
{
  a->n_list = 0;
  while (numel > 1 && a->n_list < 3 && chance (k, 60)) {
    int64_t d = 2 + below (k, 3);
    if (numel % d == 0) {
      a->list[a->n_list++] = d;
      numel /= d;
    }
  }
  if (numel != 1 || chance (k, 30))
    a->list[a->n_list++] = numel;
}

/* Chooses a bitcast to another dtype, never float64: the bits of small integers are a NaN often
 * enough. */
static GmOp
some_bitcast (Maker *k, const GmMeta *x, GmAttrs *a)
{
  static const GmDtype to[] = { GM_I32, GM_I16, GM_I64, GM_U8, GM_F32, GM_F16 };
  a->mask = BIT (DTYPE);
  a->dtype =
      to[below (k, x->dtype == GM_I64 || gm_dtype_size (x->dtype) < 4 ? 4 : G_N_ELEMENTS (to))];
  return GM_OP_bitcast;
}

/* Chooses an op that may be a view of something like x, which the trial decides.  inside: a view in
 * the graph, whose inputs count their writes like their buffers. */
static GmOp
some_view (Maker *k, const GmMeta *x, GmAttrs *a, bool inside)
{
  *a = (GmAttrs){ .mask = 0 };
  switch (below (k, 8)) {
  case 0:
  case 1:
    a->mask = BIT (DIMS);
    a->n_list = x->ndim;
    for (int d = 0; d < x->ndim; d++) {
      int at = below (k, d + 1);
      a->list[d] = a->list[at];
      a->list[at] = d;
    }
    return GM_OP_permute;
  case 2:
  case 3:
    a->mask = BIT (SIZES);
    some_sizes (k, gm_meta_numel (x), a);
    return GM_OP_view;
  case 4:
    a->mask = BIT (SIZES);
    if (x->ndim < 3 && chance (k, 50))
      a->list[a->n_list++] = 1 + below (k, 3);
    for (int d = 0; d < x->ndim; d++)
      a->list[a->n_list++] = x->sizes[d] == 1 ? 1 + below (k, 4) : x->sizes[d];
    return GM_OP_expand;
  case 5:
    if (chance (k, 35))
      return inside && chance (k, 40) ? GM_OP_data : GM_OP_detach;
    if (inside && chance (k, 20))
      return some_bitcast (k, x, a);
    /* fall through */
  default:
    if (x->ndim == 0)
      return GM_OP_permute;
    if (x->ndim > 1 && chance (k, 15)) {
      a->mask = BIT (DIMS) | BIT (START);
      a->n_list = 2;
      a->list[0] = below (k, x->ndim);
      a->list[1] = (a->list[0] + 1 + below (k, x->ndim - 1)) % x->ndim;
      a->start = below (k, (int) x->sizes[a->list[1]]);
      return GM_OP_diagonal;
    }
    if (chance (k, 10)) {
      a->mask = BIT (DIM) | BIT (SIZES) | BIT (STEP);
      a->dim = below (k, x->ndim);
      a->n_list = 1;
      a->list[0] = 1 + below (k, (int) x->sizes[a->dim]);
      a->step = chance (k, 30) ? 1 + below (k, 3) : a->list[0];
      return GM_OP_unfold;
    }
    a->mask = BIT (DIM) | BIT (START) | BIT (STOP) | BIT (STEP);
    a->dim = below (k, x->ndim);
    a->start = below (k, (int) x->sizes[a->dim]);
    a->stop = a->start + 1 + below (k, (int) (x->sizes[a->dim] - a->start));
    a->step = 1 + (chance (k, 30) ? below (k, 3) : 0);
    return GM_OP_slice;
  }
}

/* -- What is given ----------------------------------------------------------------------------- */

static void
choose_inputs (Maker *k)
{
  static const GmDtype dtypes[] = {
    GM_F32, GM_F32, GM_F32, GM_F32, GM_F64, GM_F16, GM_BF16, GM_I64
  };
  static const int64_t shapes[][2] = { { 12, 0 }, { 3, 4 }, { 4, 3 }, { 2, 6 } };
  GmMemoryGraph *m = k->m;

  m->n_buffers = 1 + below (k, GM_MEMORY_BUFFERS);
  for (int b = 0; b < m->n_buffers; b++) {
    const int64_t *sizes = shapes[below (k, G_N_ELEMENTS (shapes))];
    m->buffers[b].meta =
        gm_meta_make (dtypes[below (k, G_N_ELEMENTS (dtypes))], sizes[1] ? 2 : 1, sizes);
    m->buffers[b].kind =
        gm_dtype_is_float (m->buffers[b].meta.dtype) ? below (k, 4) % 3 : GM_MEMORY_PLAIN;
    if (m->buffers[b].kind == GM_MEMORY_LEAF && chance (k, 60))
      m->buffers[b].kind = GM_MEMORY_INNER; /* leaves may not be written to */
  }
  m->n_inputs = 1 + below (k, GM_MEMORY_INPUTS);
  for (int i = 0; i < m->n_inputs; i++) {
    m->inputs[i].same = i > 0 && chance (k, 10) ? below (k, i) : -1;
    m->inputs[i].buffer = below (k, m->n_buffers);
    m->inputs[i].n = 0;
    GmMeta now = m->buffers[m->inputs[i].buffer].meta;
    for (int n = m->inputs[i].same >= 0 ? 0 : below (k, GM_MEMORY_CHAIN + 1); n > 0; n--) {
      GmAttrs a;
      const GmMeta *x = &now;
      GmMeta next;
      GmOp op = some_view (k, &now, &a, false);
      if (!gm_op_infer (op, &x, 1, a.mask ? &a : NULL, &next, NULL))
        continue;
      m->inputs[i].chain[m->inputs[i].n].op = op;
      m->inputs[i].chain[m->inputs[i].n++].attrs = a;
      now = next;
    }
  }
}

/* -- Nodes ------------------------------------------------------------------------------------- */

static bool
is_float (Maker *k, int i)
{
  return gm_dtype_is_float (k->real[i]->meta.dtype);
}

/* Returns a value whose place in autograd is the one that the graph states: a write may have given
 * it another one, under its older name. */
static int
some_value (Maker *k)
{
  for (int tries = 0; tries < 20; tries++) {
    int i = below (k, k->n);
    if (gm_tensor_requires_grad (k->real[i])
        == (bool) gm_graph_meta (k->g, k->id[i])->requires_grad)
      return i;
  }
  return -1;
}

static void
add_value (Maker *k, GmValueId id, GmTensor *t)
{
  k->id[k->n] = id;
  k->real[k->n++] = t;
}

/* Removes the older names of the tensor after set_. */
static void
rename_object (Maker *k, GmTensor *object, GmValueId id)
{
  for (int i = 0; i < k->n; i++)
    if (k->real[i] == object)
      k->id[i] = id;
}

static bool
add_node (Maker *k, GmOp op, const int *in, int n_in, const GmAttrs *a, bool quiet)
{
  GmTensor *operands[4];
  GmValueId ids[4];

  if (k->n == MOST_VALUES)
    return false;
  for (int i = 0; i < n_in; i++) {
    if (in[i] < 0)
      return false;
    operands[i] = k->real[in[i]];
    ids[i] = k->id[in[i]];
  }
  GmGraphMark mark = gm_graph_mark (k->g);
  GmValueId id = gm_graph_add_node (k->g, op, ids, n_in, a, "line", NULL);
  if (id == GM_NO_ID)
    return false;
  bool was = quiet && gm_grad_set_enabled (false);
  GmTensor *t = gm_autograd_op (op, operands, n_in, a, NULL);
  if (quiet)
    gm_grad_set_enabled (was);
  GmMeta *meta = gm_graph_meta (k->g, id);
  if (!t || gm_meta_numel (meta) > 200) {
    gm_tensor_unref (t);
    gm_graph_truncate (k->g, &mark);
    return false;
  }
  meta->requires_grad &= !quiet;
  g_assert (gm_meta_same_shape (meta, &t->meta));
  if (op == GM_OP_set_)
    rename_object (k, t, id);
  add_value (k, id, t);
  return true;
}

static int
add_number (Maker *k, GmDtype d)
{
  static const double numbers[] = { 0.5, 2, -1, 3, 0.1 };
  GmAttrs a = { .mask = BIT (SIZES) | BIT (DTYPE) | BIT (VALUE), .dtype = (uint8_t) d };
  a.value = gm_dtype_is_float (d) ? gm_scalar_float (numbers[below (k, 5)])
                                  : gm_scalar_int (below (k, 5) - 2);
  return add_node (k, GM_OP_full, NULL, 0, &a, false) ? k->n - 1 : -1;
}

/* Returns a second operand of x's dtype; the trial decides if it broadcasts. */
static int
partner (Maker *k, int x)
{
  GmDtype d = (GmDtype) k->real[x]->meta.dtype;
  for (int tries = 0; tries < 6; tries++) {
    int y = some_value (k);
    if (y >= 0 && k->real[y]->meta.dtype == d)
      return y;
  }
  return add_number (k, d);
}

static bool
add_pointwise (Maker *k, bool quiet)
{
  static const GmOp unary[] = { GM_OP_tanh,   GM_OP_neg, GM_OP_sin, GM_OP_relu,
                                GM_OP_square, GM_OP_exp, GM_OP_copy };
  static const GmOp binary[] = { GM_OP_add, GM_OP_mul, GM_OP_sub, GM_OP_maximum, GM_OP_div };
  int x = some_value (k);
  if (x < 0)
    return false;
  if (chance (k, 40))
    return add_node (k, unary[below (k, G_N_ELEMENTS (unary))], &x, 1, NULL, quiet);
  return add_node (k, binary[below (k, G_N_ELEMENTS (binary))], (int[]){ x, partner (k, x) }, 2,
                   NULL, quiet);
}

static bool
add_other (Maker *k, bool quiet)
{
  int x = some_value (k);
  GmAttrs a = { .mask = 0 };
  if (x < 0)
    return false;
  const GmMeta *m = &k->real[x]->meta;
  switch (below (k, 6)) {
  case 0: {
    static const GmOp reduce[] = { GM_OP_sum, GM_OP_amax, GM_OP_prod };
    a.mask = BIT (DIMS) | BIT (KEEPDIM);
    a.keepdim = chance (k, 40);
    for (int d = 0; d < m->ndim; d++)
      if (chance (k, 50))
        a.list[a.n_list++] = d;
    return add_node (k, reduce[below (k, 3)], &x, 1, &a, quiet);
  }
  case 1:
    return add_node (k, GM_OP_matmul, (int[]){ x, partner (k, x) }, 2, NULL, quiet);
  case 2: {
    static const GmDtype to[] = { GM_F32, GM_F64, GM_F16, GM_BF16 };
    a.mask = BIT (DTYPE);
    a.dtype = to[below (k, 4)];
    return is_float (k, x) && add_node (k, GM_OP_cast, &x, 1, &a, quiet);
  }
  case 3: {
    int y = partner (k, x);
    return add_node (k, GM_OP_gt, (int[]){ x, y }, 2, NULL, quiet)
           && add_node (k, GM_OP_where, (int[]){ k->n - 1, x, y }, 3, NULL, quiet);
  }
  case 4:
    a.mask = BIT (DIM) | BIT (REVERSE);
    a.dim = m->ndim ? below (k, m->ndim) : 0;
    a.reverse = chance (k, 30);
    return m->ndim && add_node (k, GM_OP_cumsum, &x, 1, &a, quiet);
  default:
    a.mask = BIT (DIM);
    a.dim = m->ndim ? below (k, m->ndim) : 0;
    return m->ndim && add_node (k, GM_OP_cat, (int[]){ x, partner (k, x) }, 2, &a, quiet);
  }
}

static bool
add_view (Maker *k, bool quiet)
{
  int x = some_value (k);
  GmAttrs a;
  if (x < 0)
    return false;
  GmOp op = some_view (k, &k->real[x]->meta, &a, true);
  return add_node (k, op, &x, 1, a.mask ? &a : NULL, quiet);
}

static bool
add_write (Maker *k, bool quiet)
{
  int x = some_value (k), y = x < 0            ? -1
                              : chance (k, 40) ? partner (k, x)
                                               : add_number (k, (GmDtype) k->real[x]->meta.dtype);
  if (x < 0 || y < 0)
    return false;
  if (chance (k, 60)
      && !add_node (k, chance (k, 60) ? GM_OP_mul : GM_OP_add, (int[]){ x, y }, 2, NULL, quiet))
    return false;
  bool says = gm_tensor_requires_grad (k->real[k->n - 1])
              == (bool) gm_graph_meta (k->g, k->id[k->n - 1])->requires_grad;
  return add_node (k, GM_OP_copy_, (int[]){ x, chance (k, 85) && says ? k->n - 1 : y }, 2, NULL,
                   quiet);
}

static bool
add_set (Maker *k)
{
  int x = some_value (k), y;
  if (x < 0)
    return false;
  if (chance (k, 25)) {
    y = partner (k, x);
  } else {
    GmAttrs a;
    GmOp op = some_view (k, &k->real[x]->meta, &a, true);
    y = gm_op_detaches (op) || !add_node (k, op, &x, 1, a.mask ? &a : NULL, false) ? -1 : k->n - 1;
  }
  return y >= 0 && add_node (k, GM_OP_set_, (int[]){ x, y }, 2, NULL, false);
}

static void
add_nodes (Maker *k)
{
  int n = 2 + below (k, 10), from = k->n;
  for (int tries = 0; tries < 60 && k->n < from + n; tries++) {
    int kind = below (k, 100);
    bool quiet = chance (k, 8);
    if (kind < 28)
      add_pointwise (k, quiet);
    else if (kind < 42)
      add_other (k, quiet);
    else if (kind < 66)
      add_view (k, quiet);
    else if (kind < 94)
      add_write (k, quiet);
    else
      add_set (k);
  }
  for (uint32_t i = 0; i < k->g->nodes->len; i++)
    if (chance (k, 15))
      /* Only metadata.c sets that tag. */
      gm_graph_node (k->g, i)->tag = (uint8_t) below (k, GM_TAG_ITSELF);
}

static void
add_outputs (Maker *k)
{
  for (int n = below (k, 4) + chance (k, 80); n > 0; n--) {
    int i = chance (k, 60) ? k->n - 1 - below (k, MIN (k->n, 4)) : below (k, k->n);
    if (gm_tensor_requires_grad (k->real[i])
        == (bool) gm_graph_meta (k->g, k->id[i])->requires_grad)
      gm_graph_add_output (k->g, k->id[i], GM_OUTPUT_USER);
  }
}

/* True if node i writes the result of the node before it, and no other node or output reads
 * that. */
static bool
may_be_in_place (const GmGraph *g, uint32_t i)
{
  const GmNode *write = gm_graph_node (g, i), *computes = gm_graph_node (g, i - 1);
  uint32_t n_reads = 0;

  if (write->op != GM_OP_copy_ || write->in[1] == write->in[0] || computes->out != write->in[1]
      || computes->op == GM_OP_copy || gm_ops[computes->op].family == GM_FAMILY_MOVEMENT
      || gm_ops[computes->op].family == GM_FAMILY_MUTATE
      || gm_views_no_grad (g, computes) != gm_views_no_grad (g, write))
    return false;
  for (uint32_t k = i; k < g->nodes->len; k++)
    for (uint32_t j = 0; j < gm_graph_node (g, k)->n_in; j++)
      n_reads += gm_graph_node (g, k)->in[j] == computes->out;
  for (uint32_t k = 0; k < g->outputs->len; k++)
    n_reads += g_array_index (g->outputs, GmGraphOutput, k).value == computes->out;
  return n_reads == 1;
}

static void
mark_in_place (Maker *k)
{
  for (uint32_t i = 1; i < k->g->nodes->len; i++)
    if (chance (k, 60) && may_be_in_place (k->g, i))
      gm_graph_node (k->g, i)->tag = GM_TAG_IN_PLACE;
}

/* -- The whole --------------------------------------------------------------------------------- */

GmMemoryGraph *
gm_memory_graph_new (uint64_t seed)
{
  GmMemoryGraph *m = g_new0 (GmMemoryGraph, 1);
  Maker k = { .m = m, .state = seed * 2 + 1 };
  GmTensor *leaves[GM_MEMORY_BUFFERS], *inputs[GM_MEMORY_INPUTS];

  m->seed = seed;
  m->graph = k.g = gm_graph_new ("random", NULL);
  choose_inputs (&k);
  gm_memory_graph_make (m, leaves, inputs);
  for (int i = 0; i < m->n_inputs; i++) {
    g_autofree char *name = g_strdup_printf ("x%d", i);
    GmMeta meta = inputs[i]->meta;
    meta.requires_grad = gm_tensor_requires_grad (inputs[i]);
    add_value (&k, gm_graph_add_input (k.g, name, &meta), gm_tensor_ref (inputs[i]));
  }
  gm_overlap_describe (k.g, inputs);
  for (int i = 0; i < m->n_inputs; i++)
    if (m->inputs[i].same >= 0)
      k.id[i] = k.id[m->inputs[i].same];
  add_nodes (&k);
  add_outputs (&k);
  mark_in_place (&k);
  while (k.n > 0)
    gm_tensor_unref (k.real[--k.n]);
  for (int i = 0; i < m->n_inputs; i++)
    gm_tensor_unref (inputs[i]);
  for (int b = 0; b < m->n_buffers; b++)
    gm_tensor_unref (leaves[b]);
  if (k.g->nodes->len > 0)
    return m;
  gm_memory_graph_free (m);
  return NULL;
}

void
gm_memory_graph_free (GmMemoryGraph *m)
{
  if (!m)
    return;
  gm_graph_free (m->graph);
  g_free (m);
}
