/* SPDX-License-Identifier: Apache-2.0
 * test_ops.c -- every row of the op table, on every dtype it takes and every layout, against
 * element-by-element models.
 *
 * What a single element becomes is the tiles' business and tested there; here the drivers are on
 * trial.  So the models call the same tiles on one element at a time, in the order that the house
 * has stated, and results must be equal to the bit. Rows come from gramme-ops.def: an op that is
 * added is tested without touching this file, unless its family is new.
 */
#include "op_fixture.h"

static const GmTiles *tiles;

static const struct {
  int ndim;
  int64_t sizes[4];
} shapes[] = {
  { 0, { 0 } },       { 1, { 1 } },       { 1, { 0 } },          { 1, { 3 } },
  { 1, { 16 } },      { 1, { 700 } },     { 2, { 2, 3 } },       { 2, { 5, 1 } },
  { 2, { 1, 5 } },    { 3, { 4, 0, 3 } }, { 3, { 2, 3, 4 } },    { 2, { 8, 70 } },
  { 2, { 3, 600 } },  { 2, { 600, 3 } },  { 4, { 2, 3, 2, 5 } }, { 3, { 3, 1, 130 } },
  { 2, { 1030, 6 } },
};

static const GmOp all_ops[] = {
#define ROW(code, version, name, ...) GM_OP_##name,
#define POINTWISE ROW
#define REDUCE ROW
#define ARGREDUCE ROW
#define MOVEMENT ROW
#define CONTRACT ROW
#define CONVOLVE ROW
#define INDEX ROW
#define SCAN ROW
#define CREATE ROW
#define RANDOM ROW
#define CAST ROW
#define MUTATE ROW
#define CUSTOM ROW
#define HIGHER ROW
#include "plugin-api/gramme-ops.def"
#undef ROW
};

#define FOR_EACH_OP(op, wanted)                                                                    \
  for (size_t o_ = 0; o_ < G_N_ELEMENTS (all_ops); o_++)                                           \
    for (GmOp op = all_ops[o_]; op && gm_ops[op].family == GM_FAMILY_##wanted; op = GM_OP_NONE)
#define FOR_EACH_DTYPE(op, dtype)                                                                  \
  for (GmDtype dtype = 0; dtype < GM_N_DTYPES; dtype++)                                            \
    if (gm_dtypes[dtype].live && gm_op_accepts (op, dtype))

/* -- Elementwise ------------------------------------------------------------------------------- */

/* A shape that broadcasts to `sizes`: some sizes become 1, some leading dimensions go. */
static int
shrink (int ndim, const int64_t *sizes, int64_t *out)
{
  int drop = lcg () % 3 ? 0 : (int) (lcg () % (ndim + 1)), n = 0;
  bool keep = lcg () % 2;
  for (int d = drop; d < ndim; d++)
    out[n++] = keep || lcg () % 2 ? sizes[d] : 1;
  return n;
}

static void
check_pointwise (GmOp op, GmDtype dtype, int ndim, const int64_t *sizes)
{
  int n_in = gm_ops[op].arity;
  bool select = gm_ops[op].types == GM_TYPES_SELECT;
  GmTensor *in[3];
  int whole = (int) (lcg () % n_in); /* one input keeps the full shape */
  for (int i = 0; i < n_in; i++) {
    int64_t own[GM_MAX_DIMS];
    memcpy (own, sizes, sizeof (int64_t) * ndim);
    int n = i == whole ? ndim : shrink (ndim, sizes, own);
    in[i] = new_filled (select && i == 0 ? GM_BOOL : dtype, n, own, lcg () % N_LAYOUTS, some_value);
  }
  g_autoptr (GmTensor) result = run_all_ways (op, in, n_in, NULL);
  g_autofree char *what = describe (op, in, n_in);
  GmTilePointwise tile = tiles->pointwise (op, dtype);
  for (int64_t i = 0, n = numel (&result->meta); i < n; i++) {
    char want[8];
    tile (want, broadcast_element (in[0], &result->meta, i),
          n_in > 1 ? broadcast_element (in[1], &result->meta, i) : NULL,
          n_in > 2 ? broadcast_element (in[2], &result->meta, i) : NULL, 1);
    demand (same_element ((GmDtype) result->meta.dtype, want, nth (result, i)), "%s: element %d",
            what, (int) i);
  }
  for (int i = 0; i < n_in; i++)
    gm_tensor_unref (in[i]);
}

START_TEST (pointwise_rows_on_every_dtype_shape_and_layout)
{
  FOR_EACH_OP (op, POINTWISE)
  FOR_EACH_DTYPE (op, dtype)
  for (size_t s = 0; s < G_N_ELEMENTS (shapes); s++)
    for (int k = 0; k < 6; k++)
      check_pointwise (op, dtype, shapes[s].ndim, shapes[s].sizes);
}
END_TEST

START_TEST (the_types_column_and_the_tiles_agree)
{
  FOR_EACH_OP (op, POINTWISE)
  for (GmDtype d = 0; d < GM_N_DTYPES; d++)
    if (gm_dtypes[d].live)
      demand (!gm_op_accepts (op, d) || tiles->pointwise (op, d), "%s has no tile for %s",
              gm_ops[op].name, gm_dtypes[d].text);
  FOR_EACH_OP (op, REDUCE)
  FOR_EACH_DTYPE (op, d)
  demand (tiles->fold (op, d) != NULL, "%s has no fold for %s", gm_ops[op].name, gm_dtypes[d].text);
  FOR_EACH_OP (op, ARGREDUCE)
  FOR_EACH_DTYPE (op, d)
  demand (tiles->arg_fold (op, d) != NULL, "%s has no fold for %s", gm_ops[op].name,
          gm_dtypes[d].text);
}
END_TEST

START_TEST (cast_between_all_dtypes)
{
  for (GmDtype from = 0; from < GM_N_DTYPES; from++)
    for (GmDtype to = 0; to < GM_N_DTYPES; to++)
      for (size_t s = 0; s < G_N_ELEMENTS (shapes) && gm_dtypes[from].live && gm_dtypes[to].live;
           s++) {
        g_autoptr (GmTensor) x =
            new_filled (from, shapes[s].ndim, shapes[s].sizes, lcg () % N_LAYOUTS, some_value);
        GmAttrs attrs = { .mask = 1u << GM_ATTR_DTYPE, .dtype = to };
        g_autoptr (GmTensor) y = run_all_ways (GM_OP_cast, &x, 1, &attrs);
        ck_assert_int_eq (y->meta.dtype, to);
        for (int64_t i = 0, n = numel (&y->meta); i < n; i++) {
          char want[8];
          if (from == to)
            memcpy (want, nth (x, i), gm_dtype_size (to));
          else
            tiles->cast (from, to) (want, nth (x, i), 1);
          demand (same_element (to, want, nth (y, i)), "cast %s to %s", gm_dtypes[from].text,
                  gm_dtypes[to].text);
        }
      }
}
END_TEST

/* -- Reductions -------------------------------------------------------------------------------- */

/* The op that combines two elements as the row's combine column does. */
static GmOp
combiner (GmOp op)
{
  switch (op) {
  case GM_OP_sum:
    return GM_OP_add;
  case GM_OP_prod:
    return GM_OP_mul;
  case GM_OP_amax:
    return GM_OP_maximum;
  case GM_OP_amin:
    return GM_OP_minimum;
  case GM_OP_any:
    return GM_OP_logical_or;
  case GM_OP_all:
    return GM_OP_logical_and;
  default:
    ck_abort_msg ("no combiner for %s", gm_ops[op].name);
  }
}

/* Computes the product, element after element. */
static void
model_product (GmDtype from, GmDtype dtype, char (*x)[8], int64_t n, char *acc)
{
  char wide[8];
  for (int64_t i = 0; i < n; i++) {
    tiles->cast (from, dtype) (wide, x[i], 1);
    tiles->pointwise (GM_OP_mul, dtype) (acc, acc, wide, NULL, 1);
  }
}

static bool
is_nan (GmDtype dtype, const char *x)
{
  GmScalar s = gm_scalar_load (dtype, x);
  return s.kind == GM_CATEGORY_FLOAT && s.d != s.d;
}

/* Folds in the stated order, one element at a time, in the type that `dtype` is computed in: blocks
 * of GM_TILE, 16 partials, a tree, block after block; several blocks of a sum of f32 in f64.  A
 * product that is NaN is computed again, element after element. */
static void
model_fold (GmOp op, GmDtype dtype, char (*x)[8], int64_t n, char *acc)
{
  GmDtype from = dtype;
  dtype = gm_dtype_compute (from);
  GmTilePointwise combine = tiles->pointwise (combiner (op), dtype);
  char partial[16][8], wide[8], before[8];
  double sum = 0;
  bool is_long = op == GM_OP_sum && from == GM_F32 && n > GM_TILE;
  tiles->reduce_init (op, dtype, acc);
  for (int64_t block = 0; block < n; block += GM_TILE) {
    for (int k = 0; k < 16; k++)
      tiles->reduce_init (op, dtype, partial[k]);
    for (int64_t i = 0; i < MIN (GM_TILE, n - block); i++)
      tiles->cast (from, dtype) (wide, x[block + i], 1),
          combine (partial[i % 16], partial[i % 16], wide, NULL, 1);
    for (int s = 8; s > 0; s /= 2)
      for (int k = 0; k < s; k++)
        combine (partial[k], partial[k], partial[k + s], NULL, 1);
    sum += is_long ? gm_scalar_load (dtype, partial[0]).d : 0;
    memcpy (before, acc, sizeof before);
    combine (acc, acc, partial[0], NULL, 1);
    if (op == GM_OP_prod && is_nan (dtype, acc)) {
      memcpy (acc, before, sizeof before);
      model_product (from, dtype, x + block, MIN (GM_TILE, n - block), acc);
    }
  }
  if (is_long)
    gm_scalar_store (gm_scalar_float (sum), dtype, acc);
  tiles->cast (dtype, from) (acc, acc, 1); /* one element: read before it is written */
}

/* Collects the elements that are reduced into result element `i`, in row-major order of the reduced
 * dimensions; returns their number. */
static int64_t
collect (const GmTensor *x, uint32_t mask, const GmMeta *kept_shape, int64_t i, char (*out)[8])
{
  GmMeta reduced = { .ndim = 0 };
  for (int d = 0; d < x->meta.ndim; d++)
    if (mask >> d & 1)
      reduced.sizes[reduced.ndim++] = x->meta.sizes[d];
  int64_t outer[GM_MAX_DIMS], inner[GM_MAX_DIMS], index[GM_MAX_DIMS], n = numel (&reduced);
  unravel (kept_shape, i, outer);
  for (int64_t r = 0; r < n; r++) {
    unravel (&reduced, r, inner);
    for (int d = 0, a = 0, b = 0; d < x->meta.ndim; d++)
      index[d] = mask >> d & 1 ? inner[a++] : outer[b++];
    memcpy (out[r], element (x, index), gm_dtype_size (x->meta.dtype));
  }
  return n;
}

static GmMeta
kept_shape (const GmMeta *x, uint32_t mask)
{
  GmMeta m = { .ndim = 0 };
  for (int d = 0; d < x->ndim; d++)
    if (!(mask >> d & 1))
      m.sizes[m.ndim++] = x->sizes[d];
  return m;
}

static bool
reduces_nothing (const GmMeta *x, uint32_t mask)
{
  for (int d = 0; d < x->ndim; d++)
    if (mask >> d & 1 && x->sizes[d] == 0)
      return true;
  return false;
}

/* Chooses the function for values.  Odd values test NaN and infinities, but hide everything after
 * them, so half of the tensors have none. */
static GmScalar (*some_or_tame (void)) (GmDtype)
{
  return lcg () & 1 ? some_value : tame_value;
}

static void
check_reduce (GmOp op, GmDtype dtype, int ndim, const int64_t *sizes, uint32_t mask, bool keepdim)
{
  g_autoptr (GmTensor) x = new_filled (dtype, ndim, sizes, lcg () % N_LAYOUTS, some_or_tame ());
  GmAttrs attrs = { .mask = gm_op_attr_mask (op), .keepdim = keepdim };
  for (int d = ndim - 1; d >= 0; d--) /* the order of DIMS has no meaning */
    if (mask >> d & 1)
      attrs.list[attrs.n_list++] = d;
  if (attrs.n_list == 0)
    mask = (1u << ndim) - 1;
  if ((op == GM_OP_amax || op == GM_OP_amin) && reduces_nothing (&x->meta, mask)) {
    g_autoptr (GError) error = NULL;
    ck_assert_ptr_null (gm_op_run (op, &x, 1, &attrs, &error));
    ck_assert (g_error_matches (error, GM_ERROR, GM_ERROR_RUNTIME));
    return;
  }
  g_autoptr (GmTensor) y = run_all_ways (op, &x, 1, &attrs);
  ck_assert_int_eq (y->meta.ndim, keepdim ? ndim : ndim - __builtin_popcount (mask));
  GmMeta kept = kept_shape (&x->meta, mask);
  char (*elements)[8] = g_malloc (8 * (size_t) MAX (numel (&x->meta), 1));
  for (int64_t i = 0, n = numel (&kept); i < n; i++) {
    char want[8];
    model_fold (op, dtype, elements, collect (x, mask, &kept, i, elements), want);
    g_autofree char *what = describe (op, &x, 1);
    demand (same_element (dtype, want, nth (y, i)), "%s over mask %x: element %d", what, mask,
            (int) i);
  }
  g_free (elements);
}

START_TEST (reduce_rows_keep_the_stated_order)
{
  FOR_EACH_OP (op, REDUCE)
  FOR_EACH_DTYPE (op, dtype)
  for (size_t s = 0; s < G_N_ELEMENTS (shapes); s++)
    for (uint32_t mask = 0; mask < 1u << shapes[s].ndim; mask++)
      for (int k = 0; k < 3; k++)
        check_reduce (op, dtype, shapes[s].ndim, shapes[s].sizes, mask, lcg () & 1);
}
END_TEST

START_TEST (an_empty_sum_is_the_neutral_element)
{
  g_autoptr (GmTensor) x = new_with_layout (GM_F32, 2, (int64_t[]){ 3, 0 }, ROWS);
  GmAttrs attrs = { .mask = gm_op_attr_mask (GM_OP_sum), .n_list = 1, .list = { 1 } };
  g_autoptr (GmTensor) sum = run_all_ways (GM_OP_sum, &x, 1, &attrs),
                       prod = run_all_ways (GM_OP_prod, &x, 1, &attrs);
  for (int i = 0; i < 3; i++) {
    ck_assert (gm_scalar_load (GM_F32, nth (sum, i)).d == 0);
    ck_assert (gm_scalar_load (GM_F32, nth (prod, i)).d == 1);
  }
}
END_TEST

static bool
better (GmOp op, GmScalar a, GmScalar b)
{
  if (a.kind != GM_CATEGORY_FLOAT)
    return op == GM_OP_argmax ? a.i > b.i : a.i < b.i;
  if (b.d != b.d || a.d != a.d)
    return a.d != a.d && b.d == b.d;
  return op == GM_OP_argmax ? a.d > b.d : a.d < b.d;
}

static void
check_argreduce (GmOp op, GmDtype dtype, int ndim, const int64_t *sizes, int dim)
{
  g_autoptr (GmTensor) x = new_filled (dtype, ndim, sizes, lcg () % N_LAYOUTS, some_or_tame ());
  uint32_t mask = dim < 0 ? (1u << ndim) - 1 : 1u << dim;
  if (reduces_nothing (&x->meta, mask))
    return;
  GmAttrs attrs = { .mask = gm_op_attr_mask (op) | (dim < 0 ? 0 : 1u << GM_ATTR_DIM),
                    .dim = MAX (dim, 0),
                    .keepdim = lcg () & 1 };
  g_autoptr (GmTensor) y = run_all_ways (op, &x, 1, &attrs);
  GmMeta kept = kept_shape (&x->meta, mask);
  char (*elements)[8] = g_malloc (8 * (size_t) MAX (numel (&x->meta), 1));
  for (int64_t i = 0, n = numel (&kept); i < n; i++) {
    int64_t best = 0, count = collect (x, mask, &kept, i, elements);
    for (int64_t k = 1; k < count; k++)
      if (better (op, gm_scalar_load (dtype, elements[k]), gm_scalar_load (dtype, elements[best])))
        best = k;
    g_autofree char *what = describe (op, &x, 1);
    demand (*(int64_t *) nth (y, i) == best, "%s over %d: element %d", what, dim, (int) i);
  }
  g_free (elements);
}

START_TEST (argreduce_rows_find_the_first_best)
{
  FOR_EACH_OP (op, ARGREDUCE)
  FOR_EACH_DTYPE (op, dtype)
  for (size_t s = 0; s < G_N_ELEMENTS (shapes); s++)
    for (int dim = -1; dim < shapes[s].ndim; dim++)
      for (int k = 0; k < 4; k++)
        check_argreduce (op, dtype, shapes[s].ndim, shapes[s].sizes, dim);
}
END_TEST

START_TEST (scan_rows_are_sequential)
{
  FOR_EACH_OP (op, SCAN)
  FOR_EACH_DTYPE (op, dtype)
  for (size_t s = 0; s < G_N_ELEMENTS (shapes); s++)
    for (int dim = 0; dim < MAX (shapes[s].ndim, 1); dim++)
      for (int reverse = 0; reverse < 2; reverse++) {
        g_autoptr (GmTensor) x = new_filled (dtype, shapes[s].ndim, shapes[s].sizes,
                                             lcg () % N_LAYOUTS, some_or_tame ());
        GmAttrs attrs = { .mask = gm_op_attr_mask (op), .dim = dim, .reverse = reverse };
        g_autoptr (GmTensor) y = run_all_ways (op, &x, 1, &attrs);
        GmDtype sum = dtype == GM_F32 ? GM_F64 : gm_dtype_compute (dtype);
        GmTilePointwise step = tiles->pointwise (op == GM_OP_cumprod ? GM_OP_mul : GM_OP_add, sum);
        uint32_t mask = x->meta.ndim ? 1u << dim : 0;
        GmMeta kept = kept_shape (&x->meta, mask);
        char (*xs)[8] = g_malloc (8 * 2048), (*ys)[8] = g_malloc (8 * 2048);
        for (int64_t i = 0, n = numel (&kept); i < n; i++) {
          int64_t count = collect (x, mask, &kept, i, xs);
          collect (y, mask, &kept, i, ys);
          char acc[8] = { 0 }, wide[8], want[8];
          gm_scalar_store (gm_scalar_int (op == GM_OP_cumprod), sum, acc);
          for (int64_t k = 0; k < count; k++) {
            int64_t at = reverse ? count - 1 - k : k;
            tiles->cast (dtype, sum) (wide, xs[at], 1);
            step (acc, acc, wide, NULL, 1);
            tiles->cast (sum, dtype) (want, acc, 1);
            demand (same_element (dtype, want, ys[at]), "%s of %s", gm_ops[op].name,
                    gm_dtypes[dtype].text);
          }
        }
        g_free (xs);
        g_free (ys);
      }
}
END_TEST

/* -- Views ------------------------------------------------------------------------------------- */

static void
assert_is_view (const GmTensor *v, const GmTensor *x)
{
  ck_assert_ptr_eq (v->storage, x->storage);
  ck_assert_ptr_eq (v->base, x->base ? x->base : x);
}

START_TEST (permute_moves_dimensions)
{
  for (Layout layout = 0; layout < N_LAYOUTS; layout++) {
    g_autoptr (GmTensor) x = new_filled (GM_F32, 3, (int64_t[]){ 2, 3, 4 }, layout, some_value);
    GmAttrs attrs = { .mask = gm_op_attr_mask (GM_OP_permute), .n_list = 3, .list = { 2, 0, 1 } };
    g_autoptr (GmTensor) y = run_all_ways (GM_OP_permute, &x, 1, &attrs);
    assert_is_view (y, x);
    for (int64_t a = 0; a < 2; a++)
      for (int64_t b = 0; b < 3; b++)
        for (int64_t c = 0; c < 4; c++)
          ck_assert_ptr_eq (element (y, (int64_t[]){ c, a, b }),
                            element (x, (int64_t[]){ a, b, c }));
  }
}
END_TEST

START_TEST (expand_repeats_with_stride_0)
{
  for (Layout layout = 0; layout < N_LAYOUTS; layout++) {
    g_autoptr (GmTensor) x = new_filled (GM_I32, 2, (int64_t[]){ 3, 1 }, layout, some_value);
    GmAttrs attrs = { .mask = gm_op_attr_mask (GM_OP_expand), .n_list = 4, .list = { 1, 2, 3, 5 } };
    g_autoptr (GmTensor) y = run_all_ways (GM_OP_expand, &x, 1, &attrs);
    assert_is_view (y, x);
    ck_assert_int_eq (y->meta.strides[1], 0);
    ck_assert_int_eq (y->meta.strides[3], 0);
    for (int64_t i = 0; i < 30; i++)
      ck_assert_ptr_eq (nth (y, i), nth (x, i / 5 % 3));
  }
}
END_TEST

START_TEST (slice_steps_from_start)
{
  for (Layout layout = 0; layout < N_LAYOUTS; layout++) {
    g_autoptr (GmTensor) x = new_filled (GM_F64, 2, (int64_t[]){ 4, 9 }, layout, some_value);
    GmAttrs attrs = {
      .mask = gm_op_attr_mask (GM_OP_slice), .dim = 1, .start = 2, .stop = 9, .step = 3
    };
    g_autoptr (GmTensor) y = run_all_ways (GM_OP_slice, &x, 1, &attrs);
    assert_is_view (y, x);
    ck_assert_int_eq (y->meta.sizes[1], 3);
    for (int64_t r = 0; r < 4; r++)
      for (int64_t c = 0; c < 3; c++)
        ck_assert_ptr_eq (element (y, (int64_t[]){ r, c }),
                          element (x, (int64_t[]){ r, 2 + 3 * c }));
    attrs.start = attrs.stop = 9;
    g_autoptr (GmTensor) empty = run_all_ways (GM_OP_slice, &x, 1, &attrs);
    ck_assert_int_eq (empty->meta.sizes[1], 0);
  }
}
END_TEST

START_TEST (diagonal_goes_down_two_dimensions)
{
  for (Layout layout = 0; layout < N_LAYOUTS; layout++)
    for (int64_t start = 0; start < 6; start++) {
      g_autoptr (GmTensor) x = new_filled (GM_F32, 3, (int64_t[]){ 3, 2, 4 }, layout, some_value);
      GmAttrs attrs = {
        .mask = gm_op_attr_mask (GM_OP_diagonal), .n_list = 2, .list = { 0, 2 }, .start = start
      };
      g_autoptr (GmTensor) y = run_all_ways (GM_OP_diagonal, &x, 1, &attrs);
      int64_t n = MAX (MIN (3, 4 - start), 0);
      assert_is_view (y, x);
      ck_assert_int_eq (y->meta.ndim, 2);
      ck_assert_int_eq (y->meta.sizes[0], 2);
      ck_assert_int_eq (y->meta.sizes[1], n);
      ck_assert (n > 0 || y->offset == x->offset);
      for (int64_t a = 0; a < 2; a++)
        for (int64_t k = 0; k < n; k++)
          ck_assert_ptr_eq (element (y, (int64_t[]){ a, k }),
                            element (x, (int64_t[]){ k, a, k + start }));
    }
}
END_TEST

START_TEST (unfold_takes_windows)
{
  for (Layout layout = 0; layout < N_LAYOUTS; layout++)
    for (int64_t step = 1; step < 5; step++) {
      g_autoptr (GmTensor) x = new_filled (GM_F64, 2, (int64_t[]){ 7, 2 }, layout, some_value);
      GmAttrs attrs = {
        .mask = gm_op_attr_mask (GM_OP_unfold), .dim = 0, .n_list = 1, .list = { 3 }, .step = step
      };
      g_autoptr (GmTensor) y = run_all_ways (GM_OP_unfold, &x, 1, &attrs);
      assert_is_view (y, x);
      ck_assert_int_eq (y->meta.sizes[0], 4 / step + 1);
      ck_assert_int_eq (y->meta.sizes[2], 3);
      ck_assert_int_eq (gm_meta_overlaps_itself (&y->meta), step < 3);
      for (int64_t i = 0; i < y->meta.sizes[0]; i++)
        for (int64_t a = 0; a < 2; a++)
          for (int64_t k = 0; k < 3; k++)
            ck_assert_ptr_eq (element (y, (int64_t[]){ i, a, k }),
                              element (x, (int64_t[]){ i * step + k, a }));
    }
}
END_TEST

START_TEST (what_overlaps_itself_is_known_to_the_element)
{
  static const struct {
    int64_t size[3], stride[3];
    bool overlaps;
  } cases[] = {
    { { 3, 2, 1 }, { 2, 3, 0 }, false }, { { 3, 3, 1 }, { 2, 3, 0 }, false },
    { { 4, 3, 1 }, { 2, 3, 0 }, true },  { { 2, 2, 2 }, { 1, 2, 3 }, true },
    { { 2, 2, 2 }, { 1, 2, 4 }, false }, { { 1, 5, 1 }, { 0, 1, 0 }, false },
    { { 2, 5, 1 }, { 0, 1, 0 }, true },  { { 2, 0, 1 }, { 0, 1, 0 }, false },
    { { 4, 4, 1 }, { 1, 5, 9 }, false }, { { 5, 6, 1 }, { 1, 5, 1 }, false },
    { { 6, 6, 1 }, { 1, 5, 1 }, true },
  };
  for (size_t i = 0; i < G_N_ELEMENTS (cases); i++) {
    GmMeta m = gm_meta_make (GM_F32, 3, cases[i].size);
    memcpy (m.strides, cases[i].stride, sizeof cases[i].stride);
    ck_assert_msg (gm_meta_overlaps_itself (&m) == cases[i].overlaps, "case %zu", i);
  }
}
END_TEST

START_TEST (view_keeps_row_major_order)
{
  static const struct {
    int ndim;
    int64_t sizes[4];
  } to[] = {
    { 1, { 24 } },      { 2, { 6, 4 } },       { 2, { 4, 6 } },
    { 3, { 2, 3, 4 } }, { 4, { 2, 3, 1, 4 } }, { 4, { 1, 2, 12, 1 } },
  };
  for (Layout layout = 0; layout < N_LAYOUTS; layout++)
    for (size_t s = 0; s < G_N_ELEMENTS (to); s++) {
      g_autoptr (GmTensor) x = new_filled (GM_F32, 3, (int64_t[]){ 2, 3, 4 }, layout, some_value);
      GmAttrs attrs = { .mask = gm_op_attr_mask (GM_OP_view), .n_list = to[s].ndim };
      memcpy (attrs.list, to[s].sizes, sizeof (int64_t) * to[s].ndim);
      GmMeta meta;
      g_autoptr (GError) error = NULL;
      const GmMeta *m = &x->meta;
      if (!gm_op_infer (GM_OP_view, &m, 1, &attrs, &meta, &error)) {
        ck_assert_int_ne (layout, ROWS);
        ck_assert (g_error_matches (error, GM_ERROR, GM_ERROR_RUNTIME));
        continue;
      }
      g_autoptr (GmTensor) y = run_all_ways (GM_OP_view, &x, 1, &attrs);
      assert_is_view (y, x);
      for (int64_t i = 0; i < 24; i++)
        ck_assert_ptr_eq (nth (y, i), nth (x, i));
    }
}
END_TEST

START_TEST (detach_shares_storage_and_has_no_base)
{
  g_autoptr (GmTensor) x = new_filled (GM_F32, 2, (int64_t[]){ 2, 3 }, SLICED, some_value);
  g_autoptr (GmTensor) y = run_all_ways (GM_OP_detach, &x, 1, NULL);
  ck_assert_ptr_eq (y->storage, x->storage);
  ck_assert_ptr_null (y->base);
  ck_assert_ptr_eq (nth (y, 4), nth (x, 4));
}
END_TEST

START_TEST (bitcast_shows_the_same_bytes)
{
  static const GmDtype dtypes[] = { GM_U8, GM_I16, GM_I32, GM_F32, GM_F64 };
  for (size_t i = 0; i < G_N_ELEMENTS (dtypes); i++)
    for (size_t k = 0; k < G_N_ELEMENTS (dtypes); k++) {
      g_autoptr (GmTensor) x = new_filled (dtypes[i], 2, (int64_t[]){ 3, 16 }, ROWS, some_value);
      GmAttrs attrs = { .mask = gm_op_attr_mask (GM_OP_bitcast), .dtype = dtypes[k] };
      g_autoptr (GmTensor) y = run_all_ways (GM_OP_bitcast, &x, 1, &attrs);
      ck_assert_ptr_eq (y->storage, x->storage);
      ck_assert_ptr_null (y->base);
      ck_assert_int_eq (y->meta.dtype, dtypes[k]);
      ck_assert_int_eq (y->meta.sizes[1] * (int64_t) gm_dtype_size (dtypes[k]),
                        16 * (int64_t) gm_dtype_size (dtypes[i]));
      ck_assert_ptr_eq (element (y, (int64_t[]){ 2, 0 }), element (x, (int64_t[]){ 2, 0 }));
    }
  g_autoptr (GmTensor) odd = new_filled (GM_F32, 1, (int64_t[]){ 6 }, ROWS, some_value);
  GmAttrs slice = { .mask = gm_op_attr_mask (GM_OP_slice), .start = 1, .stop = 5, .step = 1 };
  GmAttrs wide = { .mask = gm_op_attr_mask (GM_OP_bitcast), .dtype = GM_F64 };
  g_autoptr (GmTensor) part = gm_op_run (GM_OP_slice, &odd, 1, &slice, NULL);
  GError *error = NULL;
  ck_assert_ptr_null (gm_op_run (GM_OP_bitcast, &part, 1, &wide, &error));
  ck_assert (strstr (error->message, "no multiple"));
  g_error_free (error);
}
END_TEST

START_TEST (data_counts_writes_apart)
{
  g_autoptr (GmTensor) x = new_filled (GM_F32, 2, (int64_t[]){ 2, 3 }, ROWS, some_value);
  g_autoptr (GmTensor) y = gm_op_run (GM_OP_data, &x, 1, NULL, NULL);
  g_autoptr (GmTensor) done = gm_op_run (GM_OP_copy_, (GmTensor *const[]){ y, x }, 2, NULL, NULL);
  ck_assert_ptr_eq (y->storage, x->storage);
  ck_assert_int_eq (*gm_tensor_writes (y), 1);
  ck_assert_int_eq (*gm_tensor_writes (x), 0);
}
END_TEST

/* -- Matrix products --------------------------------------------------------------------------- */

static void
check_matmul (GmDtype dtype, GmTensor *a, GmTensor *b)
{
  GmTensor *in[2] = { a, b };
  g_autoptr (GmTensor) y = run_all_ways (GM_OP_matmul, in, 2, NULL);
  g_autofree char *what = describe (GM_OP_matmul, in, 2);
  int64_t k = a->meta.sizes[a->meta.ndim - 1], at[GM_MAX_DIMS];
  for (int64_t i = 0, n = numel (&y->meta); i < n; i++) {
    unravel (&y->meta, i, at);
    double sum = 0, magnitude = 0;
    for (int64_t p = 0; p < k; p++) {
      double product = 1;
      for (int side = 0; side < 2; side++) {
        const GmTensor *t = in[side];
        int shift = y->meta.ndim - t->meta.ndim;
        int64_t index[GM_MAX_DIMS];
        for (int d = 0; d < t->meta.ndim - 2; d++)
          index[d] = t->meta.sizes[d] == 1 ? 0 : at[d + shift];
        index[t->meta.ndim - 2] = side ? p : at[y->meta.ndim - 2];
        index[t->meta.ndim - 1] = side ? at[y->meta.ndim - 1] : p;
        product *= gm_scalar_as_double (gm_scalar_load (dtype, element (t, index)));
      }
      sum += product;
      magnitude += ABS (product);
    }
    double got = gm_scalar_as_double (gm_scalar_load (dtype, nth (y, i)));
    if (gm_dtypes[dtype].category == GM_CATEGORY_INT && gm_dtypes[dtype].bits < 32) {
      char wrapped[8];
      gm_scalar_store (gm_scalar_int ((int64_t) sum), dtype, wrapped);
      sum = (double) gm_scalar_load (dtype, wrapped).i;
    }
    double tolerance = 0;
    if (gm_dtype_is_float (dtype)) /* of the sums, and of the one rounding of the result */
      tolerance = magnitude * (gm_dtype_compute (dtype) == GM_F32 ? 1e-6 : 1e-14)
                  + (sum < 0 ? -sum : sum) * gm_dtype_epsilon (dtype) / 2
                  + (dtype == GM_F16 ? 0x1p-25 : 0);
    demand (ABS (got - sum) <= tolerance, "%s: element %d is %g, not %g", what, (int) i, got, sum);
  }
}

START_TEST (matmul_rows_match_double_loops)
{
  static const struct {
    int a_ndim;
    int64_t a[4];
    int b_ndim;
    int64_t b[4];
  } cases[] = {
    { 2, { 3, 4 }, 2, { 4, 5 } },       { 2, { 1, 7 }, 2, { 7, 1 } },
    { 2, { 6, 1 }, 2, { 1, 5 } },       { 2, { 0, 4 }, 2, { 4, 5 } },
    { 2, { 3, 0 }, 2, { 0, 5 } },       { 3, { 2, 3, 4 }, 2, { 4, 5 } },
    { 3, { 2, 3, 4 }, 3, { 2, 4, 5 } }, { 4, { 2, 1, 3, 4 }, 3, { 3, 4, 2 } },
    { 2, { 3, 4 }, 3, { 2, 4, 5 } },    { 2, { 33, 65 }, 2, { 65, 17 } },
    { 3, { 0, 3, 4 }, 2, { 4, 5 } },    { 3, { 4, 1, 8 }, 2, { 8, 3 } },
  };
  FOR_EACH_OP (op, CONTRACT)
  FOR_EACH_DTYPE (op, dtype)
  for (size_t c = 0; c < G_N_ELEMENTS (cases); c++)
    for (Layout la = 0; la < N_LAYOUTS; la++)
      for (Layout lb = 0; lb < N_LAYOUTS; lb++) {
        g_autoptr (GmTensor) a = new_filled (dtype, cases[c].a_ndim, cases[c].a, la, tame_value);
        g_autoptr (GmTensor) b = new_filled (dtype, cases[c].b_ndim, cases[c].b, lb, tame_value);
        check_matmul (dtype, a, b);
      }
}
END_TEST

START_TEST (matmul_of_expanded_operands)
{
  g_autoptr (GmTensor) row = new_filled (GM_F64, 2, (int64_t[]){ 1, 4 }, ROWS, tame_value);
  g_autoptr (GmTensor) column = new_filled (GM_F64, 2, (int64_t[]){ 4, 1 }, ROWS, tame_value);
  GmAttrs rows = { .mask = gm_op_attr_mask (GM_OP_expand), .n_list = 2, .list = { 3, 4 } };
  GmAttrs columns = { .mask = gm_op_attr_mask (GM_OP_expand), .n_list = 2, .list = { 4, 5 } };
  g_autoptr (GmTensor) a = gm_op_run (GM_OP_expand, &row, 1, &rows, NULL);
  g_autoptr (GmTensor) b = gm_op_run (GM_OP_expand, &column, 1, &columns, NULL);
  check_matmul (GM_F64, a, b);
}
END_TEST

START_TEST (matmul_of_rows_with_gaps_folds_the_batch)
{
  g_autoptr (GmTensor) wide = new_filled (GM_F32, 3, (int64_t[]){ 2, 3, 8 }, ROWS, tame_value);
  g_autoptr (GmTensor) b = new_filled (GM_F32, 2, (int64_t[]){ 4, 5 }, ROWS, tame_value);
  GmAttrs left = {
    .mask = gm_op_attr_mask (GM_OP_slice), .dim = 2, .start = 1, .stop = 5, .step = 1
  };
  GmAttrs top = {
    .mask = gm_op_attr_mask (GM_OP_slice), .dim = 1, .start = 0, .stop = 2, .step = 1
  };
  g_autoptr (GmTensor) even =
      gm_op_run (GM_OP_slice, &wide, 1, &left, NULL); /* rows 8 apart throughout */
  g_autoptr (GmTensor) uneven =
      gm_op_run (GM_OP_slice, &even, 1, &top, NULL); /* a row is left out between batches */
  check_matmul (GM_F32, even, b);
  check_matmul (GM_F32, uneven, b);
}
END_TEST

int
main (void)
{
  const char *why = NULL;
  tiles = gm_tiles_get (&why);
  if (!tiles) {
    g_printerr ("test_ops: skipped: %s\n", why);
    return 77;
  }
  Suite *s = suite_create ("ops");
  TCase *t = tcase_create ("rows");
  tcase_set_timeout (t, 300);
  tcase_add_test (t, the_types_column_and_the_tiles_agree);
  tcase_add_test (t, pointwise_rows_on_every_dtype_shape_and_layout);
  tcase_add_test (t, cast_between_all_dtypes);
  tcase_add_test (t, reduce_rows_keep_the_stated_order);
  tcase_add_test (t, an_empty_sum_is_the_neutral_element);
  tcase_add_test (t, argreduce_rows_find_the_first_best);
  tcase_add_test (t, scan_rows_are_sequential);
  tcase_add_test (t, permute_moves_dimensions);
  tcase_add_test (t, expand_repeats_with_stride_0);
  tcase_add_test (t, slice_steps_from_start);
  tcase_add_test (t, diagonal_goes_down_two_dimensions);
  tcase_add_test (t, unfold_takes_windows);
  tcase_add_test (t, what_overlaps_itself_is_known_to_the_element);
  tcase_add_test (t, view_keeps_row_major_order);
  tcase_add_test (t, detach_shares_storage_and_has_no_base);
  tcase_add_test (t, bitcast_shows_the_same_bytes);
  tcase_add_test (t, data_counts_writes_apart);
  tcase_add_test (t, matmul_rows_match_double_loops);
  tcase_add_test (t, matmul_of_expanded_operands);
  tcase_add_test (t, matmul_of_rows_with_gaps_folds_the_batch);
  suite_add_tcase (s, t);
  SRunner *sr = srunner_create (s);
  srunner_run_all (sr, CK_NORMAL);
  int failures = srunner_ntests_failed (sr);
  srunner_free (sr);
  return failures ? 1 : 0;
}
