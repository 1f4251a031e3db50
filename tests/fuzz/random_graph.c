/* SPDX-License-Identifier: Apache-2.0
 * random_graph.c -- the generator behind random_graph.h.
 *
 * Step by step an op is drawn and operands are searched among the existing values; where none fits,
 * one is made (a number, a comparison, a transposed copy, positions modulo a size).  A node that
 * the shape rules refuse is drawn again.
 */
#include "tests/fuzz/random_graph.h"

#include "tests/fuzz/fuzz.h"

#include <math.h>
#include <string.h>

#define MAX_ELEMENTS 3000

typedef struct {
  const GmRandomGraph *options;
  GmGraph *g;
  uint64_t state;
  uint32_t dtypes;
  GmValueId rng; /* made when the first RANDOM op needs it */
  int64_t draws;
} Maker;

/* -- Numbers ----------------------------------------------------------------------------------- */

static int
below (Maker *m, int n)
{
  return (int) (gm_fuzz_draw (&m->state) % (uint64_t) n);
}

static bool
chance (Maker *m, int percent)
{
  return below (m, 100) < percent;
}

/* -- Types ------------------------------------------------------------------------------------- */

static const GmMeta *
meta (Maker *m, GmValueId v)
{
  return gm_graph_meta (m->g, v);
}

static GmDtype
some_dtype (Maker *m)
{
  for (;;) {
    GmDtype d = (GmDtype) below (m, GM_N_DTYPES);
    /* Arithmetic on floats is tested most. */
    int often = !gm_dtype_computes (d) ? 15 : gm_dtype_is_float (d) ? 100 : 50;
    if (m->dtypes >> d & 1 && chance (m, often))
      return d;
  }
}

static int64_t
some_size (Maker *m)
{
  static const uint8_t sizes[] = { 1, 1, 2, 2, 3, 3, 4, 5, 7, 16, 17 };
  if (!m->options->no_empty && chance (m, 1))
    return 0;
  static const int16_t wide[] = { 31, 64, 100, 511, 512, 513, 700, 1040 };
  if (m->options->wide && chance (m, 25))
    return wide[below (m, G_N_ELEMENTS (wide))];
  return sizes[below (m, sizeof sizes)];
}

static int
some_shape (Maker *m, int64_t *sizes)
{
  for (;;) {
    static const uint8_t ranks[] = { 0, 1, 1, 2, 2, 2, 3, 3, 4 };
    int ndim = ranks[below (m, sizeof ranks)];
    int64_t n = 1;
    for (int i = 0; i < ndim; i++)
      n *= sizes[i] = some_size (m);
    if (n <= (m->options->wide ? MAX_ELEMENTS : MAX_ELEMENTS / 4))
      return ndim;
  }
}

static GmScalar
some_scalar (Maker *m, GmDtype d)
{
  if (d == GM_BOOL)
    return gm_scalar_bool (chance (m, 50));
  if (gm_dtype_is_float (d)) {
    static const double values[] = { 0, 1, -1, 0.5, 2, 3, -0.0, 1e-3, 100, -2.5 };
    return gm_scalar_float (values[below (m, G_N_ELEMENTS (values))]);
  }
  return gm_scalar_int (d == GM_U8 ? below (m, 10) : below (m, 19) - 9);
}

/* -- Making and finding values ----------------------------------------------------------------- */

static GmValueId
add (Maker *m, GmOp op, const GmValueId *in, int n_in, const GmAttrs *attrs)
{
  static const char *const lines[] = { NULL, "train.py:12", "train.py:13", "model.py:7" };
  GmGraphMark mark = gm_graph_mark (m->g);
  for (int i = 0; i < n_in; i++)
    if (in[i] == GM_NO_ID)
      return GM_NO_ID;
  GmValueId v =
      gm_graph_add_node (m->g, op, in, n_in, attrs, lines[below (m, G_N_ELEMENTS (lines))], NULL);
  if (v == GM_NO_ID || gm_meta_numel (meta (m, v)) <= MAX_ELEMENTS)
    return v;
  gm_graph_truncate (m->g, &mark);
  return GM_NO_ID;
}

#define BIT(name) (1u << GM_ATTR_##name)

static GmValueId
add_full (Maker *m, GmDtype d, int ndim, const int64_t *sizes, GmScalar value)
{
  GmAttrs a = { .mask = BIT (SIZES) | BIT (DTYPE) | BIT (VALUE),
                .dtype = (uint8_t) d,
                .n_list = (uint8_t) ndim,
                .value = value };
  for (int i = 0; i < ndim; i++)
    a.list[i] = sizes[i];
  return add (m, GM_OP_full, NULL, 0, &a);
}

static GmValueId
add_constant (Maker *m, GmDtype d, int ndim, const int64_t *sizes)
{
  GmMeta type = gm_meta_make (d, ndim, sizes);
  GmTensor *t = gm_tensor_new_zeros (&type, NULL);
  g_assert (t);
  for (int64_t i = 0, n = gm_meta_numel (&type); i < n; i++)
    gm_scalar_store (some_scalar (m, d), d,
                     (char *) gm_tensor_data (t) + i * (int64_t) gm_dtype_size (d));
  GmValueId v = gm_graph_add_constant (m->g, t, NULL);
  gm_tensor_unref (t);
  return v;
}

static void
make_strided (Maker *m, GmMeta *type)
{
  for (int i = type->ndim - 1; i > 0; i--) { /* a random order of the dimensions in memory */
    int k = below (m, i + 1);
    int64_t t = type->strides[i];
    if (chance (m, 50))
      continue;
    type->strides[i] = type->strides[k];
    type->strides[k] = t;
  }
  int64_t stride = 1, order[GM_MAX_DIMS];
  for (int i = 0; i < type->ndim; i++)
    order[i] = type->strides[i] * GM_MAX_DIMS + i;
  for (int i = 0; i < type->ndim;
       i++) { /* smallest stride first: strides are recomputed, sometimes with gaps */
    int best = -1;
    for (int k = 0; k < type->ndim; k++)
      if (order[k] >= 0 && (best < 0 || order[k] < order[best]))
        best = k;
    order[best] = -1;
    if (chance (m, 15))
      stride *= 2;
    if (m->options->far && stride < 8 && chance (m, 50))
      stride = stride * 2048 + below (m, 40);
    type->strides[best] = chance (m, 5) ? 0 : stride;
    stride *= MAX (type->sizes[best], 1);
  }
}

static GmValueId
add_input (Maker *m, GmDtype d, int ndim, const int64_t *sizes)
{
  GmMeta type = gm_meta_make (d, ndim, sizes);
  if (m->options->strided && chance (m, m->options->far ? 90 : 40))
    make_strided (m, &type);
  type.requires_grad = m->options->grad && gm_dtype_is_float (d) && chance (m, 80);
  g_autofree char *name = g_strdup_printf ("x%u", m->g->inputs->len);
  return gm_graph_add_input (m->g, name, &type);
}

/* Returns a value for which fits () holds, drawn evenly, newer ones a little more often; GM_NO_ID
 * if there is none. */
static GmValueId
find (Maker *m, bool (*fits) (const GmMeta *m, const GmMeta *like, uint32_t arg),
      const GmMeta *like, uint32_t arg)
{
  uint32_t n = m->g->values->len, found = 0;
  GmValueId best = GM_NO_ID;
  GmMeta copy = { 0 };
  if (like)
    copy = *like;
  for (uint32_t v = 0; v < n; v++)
    if (v != m->rng && fits (meta (m, v), &copy, arg)
        && (chance (m, 30) || (uint32_t) below (m, (int) ++found) == 0))
      best = v;
  return best;
}

static bool
fits_dtypes (const GmMeta *x, const GmMeta *like, uint32_t dtypes)
{
  (void) like;
  return dtypes >> x->dtype & 1;
}

static bool
fits_exactly (const GmMeta *x, const GmMeta *like, uint32_t arg)
{
  (void) arg;
  return x->dtype == like->dtype && gm_meta_same_shape (x, like);
}

static bool
fits_broadcast (const GmMeta *x, const GmMeta *like, uint32_t arg)
{
  GmMeta out = { 0 };
  (void) arg;
  return x->dtype == like->dtype && gm_meta_broadcast (x, like, &out, NULL);
}

static bool
fits_matmul (const GmMeta *x, const GmMeta *like, uint32_t arg)
{
  (void) arg;
  return x->dtype == like->dtype && x->ndim >= 2
         && x->sizes[x->ndim - 2] == like->sizes[like->ndim - 1];
}

static bool
fits_cat (const GmMeta *x, const GmMeta *like, uint32_t dim)
{
  if (x->dtype != like->dtype || x->ndim != like->ndim)
    return false;
  for (int d = 0; d < x->ndim; d++)
    if (d != (int) dim && x->sizes[d] != like->sizes[d])
      return false;
  return true;
}

/* Returns a value that `op` takes as its first operand. */
static GmValueId
operand (Maker *m, GmOp op)
{
  uint32_t takes = 0;
  for (int d = 0; d < GM_N_DTYPES; d++)
    if (gm_dtypes[d].live && gm_op_accepts (op, (GmDtype) d))
      takes |= 1u << d;
  return find (m, fits_dtypes, NULL, takes);
}

/* Returns a second operand of x's dtype that broadcasts with it. */
static GmValueId
partner (Maker *m, GmValueId x)
{
  GmMeta like = *meta (m, x);
  if (chance (m, 15))
    return add_full (m, (GmDtype) like.dtype, 0, NULL, some_scalar (m, (GmDtype) like.dtype));
  GmValueId v = find (m, fits_broadcast, &like, 0);
  return v != GM_NO_ID ? v : x;
}

static GmValueId
exactly (Maker *m, GmDtype d, int ndim, const int64_t *sizes)
{
  GmMeta like = gm_meta_make (d, ndim, sizes);
  GmValueId v = find (m, fits_exactly, &like, 0);
  if (v != GM_NO_ID && chance (m, 80))
    return v;
  return chance (m, 50) ? add_full (m, d, ndim, sizes, some_scalar (m, d))
                        : add_constant (m, d, ndim, sizes);
}

/* Returns positions 0 <= i < size of the given shape, for all inputs. */
static GmValueId
positions (Maker *m, int ndim, const int64_t *sizes, int64_t size)
{
  GmMeta like = gm_meta_make (GM_I64, ndim, sizes);
  GmValueId v = find (m, fits_exactly, &like, 0);
  if (size < 1)
    return GM_NO_ID;
  if (v == GM_NO_ID || chance (m, 50))
    v = chance (m, 50) ? add_input (m, GM_I64, ndim, sizes) : add_constant (m, GM_I64, ndim, sizes);
  GmValueId bound = add_full (m, GM_I64, 0, NULL, gm_scalar_int (size));
  return add (m, GM_OP_remainder, (GmValueId[]){ v, bound }, 2, NULL);
}

/* -- One op of each family --------------------------------------------------------------------- */

static GmValueId
make_pointwise (Maker *m, GmOp op)
{
  GmValueId x = operand (m, op), in[3];
  int n = gm_ops[op].arity;
  if (x == GM_NO_ID)
    return x;
  bool integer = !gm_dtype_is_float (meta (m, x)->dtype);
  if (m->options->defined_only && integer
      && (op == GM_OP_floor_divide || op == GM_OP_remainder || op == GM_OP_pow))
    return GM_NO_ID;
  if (gm_ops[op].types == GM_TYPES_SELECT) {
    GmMeta like = *meta (m, x);
    like.dtype = GM_BOOL;
    in[0] = find (m, fits_broadcast, &like, 0);
    if (in[0] == GM_NO_ID || chance (m, 50))
      in[0] = like.dtype == meta (m, x)->dtype
                  ? x
                  : add (m, GM_OP_ge, (GmValueId[]){ x, partner (m, x) }, 2, NULL);
    in[1] = x;
    in[2] = partner (m, x);
  } else {
    in[0] = x;
    for (int k = 1; k < n; k++)
      in[k] = partner (m, x);
  }
  if (n == 2 && chance (m, 50)) {
    GmValueId t = in[0];
    in[0] = in[1];
    in[1] = t;
  }
  return add (m, op, in, n, NULL);
}

static GmValueId
make_cast (Maker *m, GmOp op)
{
  GmValueId x = find (m, fits_dtypes, NULL, ~0u);
  GmAttrs a = { .mask = BIT (DTYPE), .dtype = (uint8_t) some_dtype (m) };
  if (m->options->defined_only && gm_dtype_is_float (meta (m, x)->dtype)
      && gm_dtypes[a.dtype].category == GM_CATEGORY_INT)
    return GM_NO_ID;
  return add (m, op, &x, 1, &a);
}

static GmValueId
make_reduce (Maker *m, GmOp op)
{
  GmValueId x = operand (m, op);
  if (x == GM_NO_ID)
    return x;
  GmAttrs a = { .mask = BIT (DIMS) | BIT (KEEPDIM), .keepdim = chance (m, 40) };
  for (int d = 0; d < meta (m, x)->ndim; d++)
    if (chance (m, 45))
      a.list[a.n_list++] = d;
  return add (m, op, &x, 1, &a);
}

static GmValueId
make_argreduce (Maker *m, GmOp op)
{
  GmValueId x = operand (m, op);
  GmAttrs a = { .mask = BIT (KEEPDIM), .keepdim = chance (m, 40) };
  if (x != GM_NO_ID && meta (m, x)->ndim && chance (m, 80)) {
    a.mask |= BIT (DIM);
    a.dim = below (m, meta (m, x)->ndim);
  }
  return add (m, op, &x, 1, &a);
}

/* Chooses a view's sizes: the divisors of the number of elements, distributed at random. */
static void
some_view (Maker *m, const GmMeta *x, GmAttrs *a)
{
  int64_t left = gm_meta_numel (x);
  a->n_list = 0;
  while (left > 1 && a->n_list < 4) {
    int64_t d = 2 + below (m, 6);
    if (left % d == 0) {
      a->list[a->n_list++] = d;
      left /= d;
    } else if (chance (m, 30))
      break;
  }
  if (left != 1 || chance (m, 20))
    a->list[a->n_list++] = left;
  for (int i = a->n_list - 1; i > 0; i--) {
    int k = below (m, i + 1);
    int64_t t = a->list[i];
    a->list[i] = a->list[k];
    a->list[k] = t;
  }
}

static bool
some_slice (Maker *m, const GmMeta *x, GmAttrs *a)
{
  if (!x->ndim)
    return false;
  a->mask = BIT (DIM) | BIT (START) | BIT (STOP) | BIT (STEP);
  a->dim = below (m, x->ndim);
  int64_t size = x->sizes[a->dim];
  a->start = below (m, (int) size + 1);
  a->stop = a->start + below (m, (int) (size - a->start) + 1);
  if (a->stop == a->start && (m->options->no_empty || chance (m, 90))) {
    a->start = 0;
    a->stop = size;
  }
  a->step = 1 + (chance (m, 30) ? below (m, 3) : 0);
  return true;
}

/* True if the bits of v are those of an input or a constant: nothing computed them.  Which NaN an
 * operation gives where several meet is not defined. */
static bool
has_given_bits (Maker *m, GmValueId v)
{
  uint32_t node = gm_graph_value (m->g, v)->node;
  if (node == GM_NO_ID)
    return true;
  const GmNode *n = gm_graph_node (m->g, node);
  return n->op == GM_OP_constant
         || (gm_ops[n->op].family == GM_FAMILY_MOVEMENT && n->op != GM_OP_bitcast
             && has_given_bits (m, n->in[0]));
}

/* Returns x with 0 in place of NaN. */
static GmValueId
without_nan (Maker *m, GmValueId x)
{
  GmValueId number = add (m, GM_OP_eq, (GmValueId[]){ x, x }, 2, NULL);
  GmValueId zero = add_full (m, (GmDtype) meta (m, x)->dtype, 0, NULL, gm_scalar_float (0));
  return add (m, GM_OP_where, (GmValueId[]){ number, x, zero }, 3, NULL);
}

static GmValueId
make_movement (Maker *m, GmOp op)
{
  GmValueId x = find (m, fits_dtypes, NULL, ~0u);
  GmMeta type = *meta (m, x);
  GmAttrs a = { 0 };
  switch (op) {
  case GM_OP_permute:
    a.mask = BIT (DIMS);
    a.n_list = type.ndim;
    for (int i = 0; i < type.ndim; i++) {
      int k = below (m, i + 1);
      a.list[i] = a.list[k];
      a.list[k] = i;
    }
    break;
  case GM_OP_expand: {
    a.mask = BIT (SIZES);
    int fresh = type.ndim < 4 ? below (m, 3) : 0;
    for (int i = 0; i < fresh; i++)
      a.list[a.n_list++] = 1 + below (m, 3);
    for (int i = 0; i < type.ndim; i++)
      a.list[a.n_list++] = type.sizes[i] == 1 ? 1 + below (m, 4) : type.sizes[i];
    break;
  }
  case GM_OP_view:
    a.mask = BIT (SIZES);
    some_view (m, &type, &a);
    break;
  case GM_OP_slice:
    if (!some_slice (m, &type, &a))
      return GM_NO_ID;
    break;
  case GM_OP_diagonal:
    if (type.ndim < 2)
      return GM_NO_ID;
    a.mask = BIT (DIMS) | BIT (START);
    a.n_list = 2;
    a.list[0] = below (m, type.ndim);
    a.list[1] = (a.list[0] + 1 + below (m, type.ndim - 1)) % type.ndim;
    a.start = below (m, (int) type.sizes[a.list[1]] + 1);
    if (m->options->no_empty && (a.start >= type.sizes[a.list[1]] || type.sizes[a.list[0]] == 0))
      return GM_NO_ID;
    break;
  case GM_OP_unfold:
    if (type.ndim == 0 || type.ndim > 3)
      return GM_NO_ID;
    a.mask = BIT (DIM) | BIT (SIZES) | BIT (STEP);
    a.dim = below (m, type.ndim);
    if (type.sizes[a.dim] == 0)
      return GM_NO_ID;
    a.n_list = 1;
    a.list[0] = 1 + below (m, (int) type.sizes[a.dim]);
    a.step = 1 + below (m, 3);
    break;
  case GM_OP_bitcast: { /* to integers, which have no NaN; to wider ones only where memory begins */
    static const GmDtype to[] = { GM_U8, GM_I8, GM_I16, GM_I32, GM_I64 };
    uint32_t node = gm_graph_value (m->g, x)->node;
    a.mask = BIT (DTYPE);
    a.dtype = to[below (m, G_N_ELEMENTS (to))];
    if (!(m->dtypes >> a.dtype & 1)
        || (gm_dtype_size (a.dtype) > gm_dtype_size (type.dtype)
            && (node == GM_NO_ID
                || gm_ops[gm_graph_node (m->g, node)->op].family == GM_FAMILY_MOVEMENT
                || gm_graph_node (m->g, node)->op == GM_OP_constant)))
      return GM_NO_ID;
    if (m->options->defined_only && gm_dtype_is_float ((GmDtype) type.dtype)
        && !has_given_bits (m, x))
      x = without_nan (m, x);
    break;
  }
  case GM_OP_data:
    return GM_NO_ID; /* never in a functional graph */
  default:
    break;
  }
  return add (m, op, &x, 1, a.mask ? &a : NULL);
}

static GmValueId
make_contract (Maker *m, GmOp op)
{
  GmValueId x = operand (m, op);
  if (x == GM_NO_ID || meta (m, x)->ndim < 2)
    return GM_NO_ID;
  GmMeta like = *meta (m, x);
  GmValueId y = chance (m, 75) ? find (m, fits_matmul, &like, 0) : GM_NO_ID;
  if (y == GM_NO_ID) { /* x by its own transpose */
    GmAttrs a = { .mask = BIT (DIMS), .n_list = like.ndim };
    for (int i = 0; i < like.ndim; i++)
      a.list[i] = i;
    a.list[like.ndim - 1] = like.ndim - 2;
    a.list[like.ndim - 2] = like.ndim - 1;
    y = add (m, GM_OP_permute, &x, 1, &a);
  }
  return add (m, op, (GmValueId[]){ x, y }, 2, NULL);
}

static GmValueId
make_cat (Maker *m, GmValueId x, const GmAttrs *a)
{
  GmValueId in[4] = { x };
  GmMeta like = *meta (m, x);
  int n = 1 + below (m, 4);
  for (int i = 1; i < n; i++)
    in[i] = find (m, fits_cat, &like, (uint32_t) a->dim);
  return add (m, GM_OP_cat, in, n, a);
}

static GmValueId
make_index (Maker *m, GmOp op)
{
  GmValueId x = find (m, fits_dtypes, NULL,
                      op == GM_OP_scatter_add || op == GM_OP_index_add || op == GM_OP_argsort
                          ? ~(1u << GM_BOOL)
                          : ~0u);
  if (x == GM_NO_ID || !meta (m, x)->ndim)
    return GM_NO_ID;
  GmMeta type = *meta (m, x), part = type;
  GmAttrs a = { .mask = BIT (DIM), .dim = below (m, type.ndim) };
  int64_t n = 1 + below (m, 5), size = type.sizes[a.dim];
  GmValueId index;
  switch (op) {
  case GM_OP_gather:
  case GM_OP_scatter_add:
    for (int d = 0; d < part.ndim; d++)
      if (d == (int) a.dim)
        part.sizes[d] = n;
      else if (part.sizes[d] > 1 && chance (m, 25))
        part.sizes[d] = 1 + below (m, (int) part.sizes[d]);
    index = positions (m, part.ndim, part.sizes, size);
    if (op == GM_OP_gather)
      return add (m, op, (GmValueId[]){ x, index }, 2, &a);
    return add (m, op,
                (GmValueId[]){ x, index, exactly (m, (GmDtype) type.dtype, part.ndim, part.sizes) },
                3, &a);
  case GM_OP_require:
    a = (GmAttrs){ .mask = BIT (OFFSET), .offset = GM_CONDITION_DIVISOR };
    index = add_full (m, GM_BOOL, 0, NULL, gm_scalar_bool (true)); /* a condition that holds */
    return add (m, op, (GmValueId[]){ x, index }, 2, &a);
  case GM_OP_index_select:
    return add (m, op, (GmValueId[]){ x, positions (m, 1, &n, size) }, 2, &a);
  case GM_OP_index_add:
    part.sizes[a.dim] = n;
    index = positions (m, 1, &n, size);
    return add (m, op,
                (GmValueId[]){ x, index, exactly (m, (GmDtype) type.dtype, part.ndim, part.sizes) },
                3, &a);
  case GM_OP_slice_scatter:
    if (!some_slice (m, &type, &a))
      return GM_NO_ID;
    part.sizes[a.dim] = (a.stop - a.start + a.step - 1) / a.step;
    return add (m, op, (GmValueId[]){ x, exactly (m, (GmDtype) type.dtype, part.ndim, part.sizes) },
                2, &a);
  case GM_OP_cat:
    return make_cat (m, x, &a);
  case GM_OP_argsort:
    a.mask |= BIT (DESCENDING);
    a.descending = chance (m, 50);
    return add (m, op, &x, 1, &a);
  default:
    return GM_NO_ID;
  }
}

static GmValueId
make_scan (Maker *m, GmOp op)
{
  GmValueId x = operand (m, op);
  if (x == GM_NO_ID || !meta (m, x)->ndim)
    return GM_NO_ID;
  GmAttrs a = { .mask = BIT (DIM) | BIT (REVERSE),
                .dim = below (m, meta (m, x)->ndim),
                .reverse = chance (m, 40) };
  return add (m, op, &x, 1, &a);
}

static GmValueId
make_random (Maker *m, GmOp op)
{
  GmAttrs a = { .mask = BIT (SIZES) | BIT (DTYPE) | BIT (OFFSET),
                .dtype = (uint8_t) some_dtype (m),
                .offset = m->draws };
  if (a.dtype != GM_F32 && a.dtype != GM_F64)
    return GM_NO_ID;
  a.n_list = (uint8_t) some_shape (m, a.list);
  if (m->rng == GM_NO_ID) {
    GmMeta state = gm_meta_make (GM_I64, 1, (const int64_t[]){ 2 });
    m->rng = gm_graph_add_input (m->g, "rng", &state);
  }
  GmValueId v = add (m, op, &m->rng, 1, &a);
  if (v != GM_NO_ID)
    m->draws += (gm_meta_numel (meta (m, v)) + 3) / 4;
  return v;
}

static GmValueId
make_create (Maker *m, GmOp op)
{
  int64_t sizes[GM_MAX_DIMS] = { 0 };
  int ndim = some_shape (m, sizes);
  GmDtype d = some_dtype (m);
  if (op == GM_OP_full)
    return add_full (m, d, ndim, sizes, some_scalar (m, d));
  if (op == GM_OP_constant)
    return add_constant (m, d, ndim, sizes);
  if (d == GM_BOOL)
    return GM_NO_ID;
  GmAttrs a = { .mask = BIT (SIZES) | BIT (DTYPE) | BIT (VALUE) | BIT (VALUE2),
                .dtype = (uint8_t) d,
                .n_list = 1 };
  a.list[0] = some_size (m);
  a.value = some_scalar (m, d);
  a.value2 = d == GM_U8 ? gm_scalar_int (below (m, 3)) : some_scalar (m, d);
  return add (m, op, NULL, 0, &a);
}

static GmValueId
make_op (Maker *m, GmOp op)
{
  switch ((GmFamily) gm_ops[op].family) {
  case GM_FAMILY_POINTWISE:
    return make_pointwise (m, op);
  case GM_FAMILY_CAST:
    return make_cast (m, op);
  case GM_FAMILY_REDUCE:
    return make_reduce (m, op);
  case GM_FAMILY_ARGREDUCE:
    return make_argreduce (m, op);
  case GM_FAMILY_MOVEMENT:
    return make_movement (m, op);
  case GM_FAMILY_CONTRACT:
    return make_contract (m, op);
  case GM_FAMILY_INDEX:
    return make_index (m, op);
  case GM_FAMILY_SCAN:
    return make_scan (m, op);
  case GM_FAMILY_RANDOM:
    return make_random (m, op);
  case GM_FAMILY_CREATE:
    return make_create (m, op);
  default:
    return GM_NO_ID;
  }
}

/* -- The graph --------------------------------------------------------------------------------- */

static GmOp
one_of_these (Maker *m, const GmOpSet *ops)
{
  for (;;) {
    GmOp op = (GmOp) below (m, GM_N_OPS);
    if (gm_op_set_has (ops, op))
      return op;
  }
}

/* Draws a family first, so that the many POINTWISE rows do not crowd out the others; then one of
 * its ops. */
static GmOp
some_op (Maker *m)
{
  if (!gm_op_set_is_empty (&m->options->ops))
    return one_of_these (m, &m->options->ops);
  static const uint8_t weight[] = {
    [GM_FAMILY_POINTWISE] = 40, [GM_FAMILY_CAST] = 6,      [GM_FAMILY_REDUCE] = 12,
    [GM_FAMILY_ARGREDUCE] = 3,  [GM_FAMILY_MOVEMENT] = 16, [GM_FAMILY_CONTRACT] = 7,
    [GM_FAMILY_INDEX] = 9,      [GM_FAMILY_SCAN] = 3,      [GM_FAMILY_RANDOM] = 2,
    [GM_FAMILY_CREATE] = 4,
  };
  uint32_t families = m->options->families ? m->options->families : ~0u;
  GmFamily f;
  do
    f = (GmFamily) below (m, G_N_ELEMENTS (weight));
  while (!(families >> f & 1) || below (m, 40) >= weight[f]);
  for (;;) {
    GmOp op = (GmOp) below (m, GM_N_OPS);
    if (gm_ops[op].name && gm_ops[op].family == f)
      return op;
  }
}

/* Makes most unread values outputs, and sometimes a value that is read. */
static void
choose_outputs (Maker *m)
{
  const GmGraph *g = m->g;
  g_autofree bool *read = g_new0 (bool, g->values->len + 1);
  for (uint32_t i = 0; i < g->nodes->len; i++) {
    const GmNode *n = gm_graph_node (g, i);
    for (uint32_t k = 0; k < n->n_in; k++)
      read[n->in[k]] = true;
  }
  for (uint32_t v = 0; v < g->values->len; v++)
    if (gm_graph_value (g, v)->node != GM_NO_ID && chance (m, read[v] ? 8 : 85))
      gm_graph_add_output (m->g, v, GM_OUTPUT_USER);
  if (!g->outputs->len && g->nodes->len)
    gm_graph_add_output (m->g, gm_graph_node (g, g->nodes->len - 1)->out, GM_OUTPUT_USER);
}

GmGraph *
gm_random_graph (const GmRandomGraph *options, GmArena *arena)
{
  Maker m = { .options = options,
              .g = gm_graph_new ("random", arena),
              .state = options->seed * 2 + 1,
              .rng = GM_NO_ID };
  int64_t sizes[GM_MAX_DIMS];
  for (int d = 0; d < GM_N_DTYPES; d++)
    if (gm_dtypes[d].live && (!options->dtypes || options->dtypes >> d & 1)
        && (!options->grad
            || gm_dtype_computes (d))) /* gradients of dtypes without arithmetic cannot be added */
      m.dtypes |= 1u << d;
  g_return_val_if_fail (m.dtypes, NULL);
  for (int i = 0, n = 1 + below (&m, 4); i < n; i++) {
    GmDtype d = some_dtype (&m);
    int ndim = some_shape (&m, sizes);
    add_input (&m, d, ndim, sizes);
  }
  uint32_t n = options->n_nodes ? (uint32_t) options->n_nodes : 1u + (uint32_t) below (&m, 40);
  for (uint32_t tries = 0; m.g->nodes->len < n && tries < n * 50; tries++)
    make_op (&m, some_op (&m));
  choose_outputs (&m);
  return m.g;
}

/* -- Inputs ------------------------------------------------------------------------------------ */

static void
fill_float (uint64_t *state, GmRandomNumbers numbers, GmDtype d, void *p)
{
  static const double odd[] = { 0.0,   -0.0,  INFINITY, -INFINITY, NAN, 1e-40, -1e-310, 1e30,
                                -3e38, 1e300, 0.5,      1,         -1,  2,     16777217 };
  double unit = (double) (gm_fuzz_draw (state) >> 11) * 0x1p-53,
         value = (gm_fuzz_draw (state) & 1 ? -1 : 1) * (0.1 + 1.9 * unit);
  if (numbers == GM_RANDOM_WILD && gm_fuzz_draw (state) % 16 == 0)
    value = odd[gm_fuzz_draw (state) % G_N_ELEMENTS (odd)];
  gm_scalar_store (gm_scalar_float (value), d, p);
}

static void
fill_integer (uint64_t *state, GmRandomNumbers numbers, GmDtype d, void *p)
{
  uint64_t bits = gm_fuzz_draw (state);
  int64_t value = (int64_t) (gm_fuzz_draw (state) % 19) - 9;
  if (d == GM_BOOL)
    *(uint8_t *) p = bits & 1;
  else if (numbers == GM_RANDOM_WILD && bits % 16 == 0)
    memcpy (p,
            &(uint64_t){ gm_fuzz_draw (state) % 3
                             ? gm_fuzz_draw (state)
                             : UINT64_C (0x8000000000000000) | UINT64_C (0x80000080) },
            gm_dtype_size (d));
  else
    gm_scalar_store (gm_scalar_int (d == GM_U8 ? ABS (value) : value), d, p);
}

static GmTensor *
random_tensor (const GmMeta *type, uint64_t *state, GmRandomNumbers numbers)
{
  int64_t extent = gm_meta_extent (type);
  GmMeta flat = gm_meta_make ((GmDtype) type->dtype, 1, &extent), plain = *type;
  plain.requires_grad = 0;
  GmTensor *whole = gm_tensor_new_zeros (&flat, NULL);
  g_assert (whole);
  for (int64_t i = 0; i < extent; i++) {
    void *p = (char *) gm_tensor_data (whole) + i * (int64_t) gm_dtype_size (type->dtype);
    if (gm_dtype_is_float (type->dtype))
      fill_float (state, numbers, (GmDtype) type->dtype, p);
    else
      fill_integer (state, numbers, (GmDtype) type->dtype, p);
  }
  GmTensor *view = gm_tensor_new_view (whole, &plain, 0),
           *alone = gm_tensor_new_alias (view); /* without a base: an input of its own */
  gm_tensor_unref (view);
  gm_tensor_unref (whole);
  return alone;
}

void
gm_random_inputs (const GmGraph *g, uint64_t seed, GmRandomNumbers numbers, GmTensor **inputs)
{
  uint64_t state = seed ^ UINT64_C (0x696e70757473);
  for (uint32_t i = 0; i < g->inputs->len; i++) {
    const GmGraphValue *v = gm_graph_value (g, g_array_index (g->inputs, GmValueId, i));
    inputs[i] = random_tensor (&v->meta, &state, numbers);
    if (v->name && !strcmp (v->name, "rng")) {
      int64_t *words = gm_tensor_data (inputs[i]);
      words[0] = (int64_t) gm_fuzz_draw (&state);
      words[1] = (int64_t) (gm_fuzz_draw (&state) % 1000);
    }
  }
}

/* -- Comparison -------------------------------------------------------------------------------- */

static bool
same_element (GmDtype d, const void *a, const void *b, bool payloads)
{
  if (!memcmp (a, b, gm_dtype_size (d)))
    return true;
  GmScalar x = gm_scalar_load (d, a), y = gm_scalar_load (d, b);
  return !payloads && gm_dtype_is_float (d) && isnan (x.d) && isnan (y.d);
}

bool
gm_random_equal (const GmTensor *a, const GmTensor *b, bool payloads, char **why)
{
  const GmMeta *m = &a->meta;
  if (m->dtype != b->meta.dtype || !gm_meta_same_shape (m, &b->meta)) {
    g_autofree char *ta = gm_meta_text (m), *tb = gm_meta_text (&b->meta);
    if (why)
      *why = g_strdup_printf ("%s and %s", ta, tb);
    return false;
  }
  int64_t index[GM_MAX_DIMS] = { 0 }, size = gm_dtype_size (m->dtype);
  for (int64_t i = 0, n = gm_meta_numel (m); i < n; i++) {
    int64_t at_a = a->offset, at_b = b->offset;
    for (int d = 0; d < m->ndim; d++) {
      at_a += index[d] * m->strides[d];
      at_b += index[d] * b->meta.strides[d];
    }
    const char *pa = (const char *) a->storage->data + at_a * size,
               *pb = (const char *) b->storage->data + at_b * size;
    if (!same_element ((GmDtype) m->dtype, pa, pb, payloads)) {
      if (why)
        *why = g_strdup_printf ("element %" G_GINT64_FORMAT " of %" G_GINT64_FORMAT
                                ": %.17g and %.17g",
                                i, n, gm_scalar_as_double (gm_scalar_load ((GmDtype) m->dtype, pa)),
                                gm_scalar_as_double (gm_scalar_load ((GmDtype) m->dtype, pb)));
      return false;
    }
    for (int d = m->ndim - 1; d >= 0 && ++index[d] == m->sizes[d]; d--)
      index[d] = 0;
  }
  return true;
}
