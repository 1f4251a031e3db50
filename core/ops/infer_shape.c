/* SPDX-License-Identifier: Apache-2.0
 * infer_shape.c -- the rules of the families that change shapes: views, matrix products, indexing.
 *
 * A MOVEMENT op's result shares its input's memory, so its strides follow from the input's, and a
 * result that strides alone cannot describe is refused: gm_b_reshape copies first where that is
 * allowed.
 */
#include "core/ops/infer.h"

#include <string.h>

#define FMT "%" G_GINT64_FORMAT

/* -- Views ------------------------------------------------------------------------------------- */

static bool
infer_permute (GmOp op, const GmMeta *x, const GmAttrs *attrs, GmMeta *out, GError **error)
{
  uint32_t seen = 0;
  for (int i = 0; i < attrs->n_list; i++)
    if (attrs->list[i] >= 0 && attrs->list[i] < x->ndim)
      seen |= 1u << attrs->list[i];
  if (attrs->n_list != x->ndim || seen != (1u << x->ndim) - 1) {
    g_autofree char *dims = gm_shape_text (attrs->n_list, attrs->list),
                    *shape = gm_shape_text (x->ndim, x->sizes);
    return gm_infer_fail (error, GM_ERROR_RUNTIME,
                          "%s: dims %s are not an order of the %d dimensions of shape %s",
                          gm_ops[op].name, dims, x->ndim, shape);
  }
  out->ndim = x->ndim;
  for (int d = 0; d < x->ndim; d++) {
    out->sizes[d] = x->sizes[attrs->list[d]];
    out->strides[d] = x->strides[attrs->list[d]];
  }
  return true;
}

static bool
infer_expand (GmOp op, const GmMeta *x, const GmAttrs *attrs, GmMeta *out, GError **error)
{
  int shift = attrs->n_list - x->ndim;
  bool fits = shift >= 0;
  for (int d = 0; fits && d < x->ndim; d++)
    fits = gm_size_expands (x->sizes[d], attrs->list[d + shift]);
  if (!fits) {
    g_autofree char *from = gm_shape_text (x->ndim, x->sizes),
                    *to = gm_shape_text (attrs->n_list, attrs->list);
    return gm_infer_fail (error, GM_ERROR_RUNTIME,
                          "%s: shape %s cannot be expanded to %s: sizes are aligned at the end, "
                          "and only a size of 1 repeats",
                          gm_ops[op].name, from, to);
  }
  if (!gm_infer_check_sizes (op, attrs->n_list, attrs->list, error))
    return false;
  out->ndim = attrs->n_list;
  for (int d = out->ndim - 1; d >= 0; d--) {
    out->sizes[d] = attrs->list[d];
    bool fresh = d < shift;
    if (x->ndim == 0
        || (!gm_size_same (out->sizes[d], 1) && (fresh || gm_size_same (x->sizes[d - shift], 1))))
      out->strides[d] = 0; /* also for a symbol that may be 1: any stride is right then */
    else if (!fresh)
      out->strides[d] = x->strides[d - shift];
    else /* a new dimension of size 1: any stride is right, the row-major one keeps the result
            row-major */
      out->strides[d] = d + 1 < out->ndim ? gm_size_mul (gm_size_at_least_1 (out->sizes[d + 1]),
                                                         out->strides[d + 1])
                                          : 1;
  }
  return true;
}

/* True if dimension `next` is needed to cover a piece of memory. For expressions the example
 * decides, without a fact: if less is enough for other sizes, the dimension taken in excess has one
 * element. */
static bool
is_short (int64_t covered, int64_t piece, int64_t next)
{
  if (gm_sizes_are_numbers (covered, piece))
    return covered < piece;
  if (gm_size_same (covered, piece))
    return false;
  return gm_size_same (gm_size_mul (covered, next), piece)
         || gm_size_guess (covered, 0) < gm_size_guess (piece, 1);
}

/* True if a new dimension of one element belongs to the current piece. For an expression (unless
 * `exact`) the example decides, too: the fact about the coverage includes it. */
static bool
is_one (int64_t size, bool exact)
{
  return exact ? gm_size_eq (size, 1) : gm_size_guess (size, 0) == 1;
}

/* Finds strides with which `out->sizes` walk the elements of x in row-major order; false: there are
 * none. Dimensions of x that follow one another without a gap are one piece; each piece must be
 * covered exactly by new dimensions. exact: everything that the result depends on becomes a fact,
 * else only the values that the strides depend on. */
static bool
walk (const GmMeta *x, GmMeta *out, bool exact)
{
  int v = out->ndim - 1;
  int64_t piece = 1, covered = 1, stride = x->ndim ? x->strides[x->ndim - 1] : 1;
  for (int d = x->ndim - 1; d >= 0; d--) {
    piece = gm_size_mul (piece, x->sizes[d]);
    bool ends = d == 0
                || (!(exact ? gm_size_eq (x->sizes[d - 1], 1) : gm_size_same (x->sizes[d - 1], 1))
                    && !gm_size_eq (x->strides[d - 1], gm_size_mul (piece, stride)));
    if (!ends)
      continue;
    while (v >= 0
           && ((!(exact && gm_size_eq (covered, piece)) && is_short (covered, piece, out->sizes[v]))
               || is_one (out->sizes[v], exact))) {
      out->strides[v] = gm_size_mul (covered, stride);
      covered = gm_size_mul (covered, out->sizes[v--]);
    }
    if (!gm_size_eq (covered, piece))
      return false;
    if (d > 0) {
      stride = x->strides[d - 1];
      piece = covered = 1;
    }
  }
  for (; v >= 0; v--) /* x is 0-d: every new size is 1 */
    out->strides[v] = 1;
  return true;
}

/* Finds the strides of a view; false: there are none. A failure need not hold for sizes with which
 * a dimension or a piece has one element: then the walk is repeated with exact facts. */
static bool
view_strides (const GmMeta *x, GmMeta *out, bool symbolic)
{
  return walk (x, out, false) || (symbolic && walk (x, out, true));
}

/* True if x has row-major strides, also in dimensions of size 1, whose strides a view keeps. */
static bool
is_row_major (const GmMeta *x)
{
  GmMeta dense = *x;
  gm_meta_set_contiguous (&dense);
  for (int d = 0; d < x->ndim; d++)
    if (gm_size_same (x->sizes[d], 1) && !gm_size_same (x->strides[d], dense.strides[d]))
      return false;
  return true;
}

static bool
infer_view (GmOp op, const GmMeta *x, const GmAttrs *attrs, GmMeta *out, GError **error)
{
  if (!gm_infer_check_sizes (op, attrs->n_list, attrs->list, error))
    return false;
  out->ndim = attrs->n_list;
  memcpy (out->sizes, attrs->list, sizeof (int64_t) * out->ndim);
  if (gm_meta_same_shape (x, out)) {
    memcpy (out->strides, x->strides, sizeof out->strides);
    return true;
  }
  int64_t n = gm_meta_numel (x);
  g_autofree char *from = NULL, *to = NULL;
  int64_t n_out = gm_meta_numel (out);
  if (!gm_size_eq (n_out, n)) {
    g_autofree char *tn = gm_size_text (n), *to_n = gm_size_text (n_out);
    from = gm_shape_text (x->ndim, x->sizes), to = gm_shape_text (out->ndim, out->sizes);
    return gm_infer_fail (error, GM_ERROR_RUNTIME, "%s: shape %s has %s elements, shape %s has %s",
                          gm_ops[op].name, from, tn, to, to_n);
  }
  bool symbolic = gm_meta_is_symbolic (x) || gm_meta_is_symbolic (out);
  if ((symbolic && gm_meta_is_contiguous (x) && is_row_major (x)) || gm_size_eq_if_known (n, 0)) {
    gm_meta_set_contiguous (out);
    return true;
  }
  if (view_strides (x, out, symbolic))
    return true;
  from = gm_shape_text (x->ndim, x->sizes), to = gm_shape_text (out->ndim, out->sizes);
  g_autofree char *strides = gm_shape_text (x->ndim, x->strides);
  return gm_infer_fail (error, GM_ERROR_RUNTIME,
                        "%s: shape %s with strides %s cannot be seen as %s without a copy; use "
                        "reshape () or call contiguous () "
                        "first",
                        gm_ops[op].name, from, strides, to);
}

static bool
check_slice (GmOp op, const GmMeta *x, const GmAttrs *attrs, GError **error)
{
  if (!gm_infer_check_dim (op, attrs->dim, x, false, error))
    return false;
  if (attrs->step <= 0)
    return gm_infer_fail (error, GM_ERROR_VALUE, "%s: step must be greater than zero, not " FMT,
                          gm_ops[op].name, attrs->step);
  int64_t size = x->sizes[attrs->dim], start = attrs->start, stop = attrs->stop;
  if (gm_size_le (0, start) && gm_size_le (start, stop) && gm_size_le (stop, size))
    return true;
  g_autofree char *ta = gm_size_text (start), *to = gm_size_text (stop), *ts = gm_size_text (size);
  return gm_infer_fail (error, GM_ERROR_INDEX,
                        "%s: %s:%s is not within dimension " FMT " of size %s", gm_ops[op].name, ta,
                        to, attrs->dim, ts);
}

static int64_t
slice_size (const GmAttrs *attrs)
{
  int64_t span = gm_size_sub (attrs->stop, attrs->start);
  if (gm_size_is_symbolic (span))
    return attrs->step == 1 ? span
                            : gm_size_floordiv (gm_size_add (span, attrs->step - 1), attrs->step);
  return span / attrs->step + (span % attrs->step != 0);
}

static bool
infer_slice (GmOp op, const GmMeta *x, const GmAttrs *attrs, GmMeta *out, GError **error)
{
  if (!check_slice (op, x, attrs, error))
    return false;
  *out = *x;
  out->sizes[attrs->dim] = slice_size (attrs);
  int64_t stride; /* an overflow means a step far past the end: one element, whose stride is never
                     used */
  if (gm_size_is_symbolic (x->strides[attrs->dim]))
    out->strides[attrs->dim] = gm_size_mul (x->strides[attrs->dim], attrs->step);
  else if (!__builtin_mul_overflow (x->strides[attrs->dim], attrs->step, &stride))
    out->strides[attrs->dim] = stride;
  return true;
}

static bool
infer_diagonal (GmOp op, const GmMeta *x, const GmAttrs *attrs, GmMeta *out, GError **error)
{
  int64_t r = attrs->n_list == 2 ? attrs->list[0] : -1,
          c = attrs->n_list == 2 ? attrs->list[1] : -1;
  if (r < 0 || c < 0 || r >= x->ndim || c >= x->ndim || r == c || !gm_size_le (0, attrs->start)) {
    g_autofree char *dims = gm_shape_text (attrs->n_list, attrs->list),
                    *shape = gm_shape_text (x->ndim, x->sizes),
                    *start = gm_size_text (attrs->start);
    return gm_infer_fail (
        error, GM_ERROR_RUNTIME,
        "%s: dims %s are not two dimensions of shape %s, or the start %s is negative",
        gm_ops[op].name, dims, shape, start);
  }
  for (int d = 0; d < x->ndim; d++)
    if (d != r && d != c) {
      out->sizes[out->ndim] = x->sizes[d];
      out->strides[out->ndim++] = x->strides[d];
    }
  out->sizes[out->ndim] =
      gm_size_max (gm_size_min (x->sizes[r], gm_size_sub (x->sizes[c], attrs->start)), 0);
  out->strides[out->ndim++] = gm_size_add (x->strides[r], x->strides[c]);
  return true;
}

static bool
infer_unfold (GmOp op, const GmMeta *x, const GmAttrs *attrs, GmMeta *out, GError **error)
{
  if (!gm_infer_check_dim (op, attrs->dim, x, false, error))
    return false;
  int64_t size = x->sizes[attrs->dim], window = attrs->n_list == 1 ? attrs->list[0] : -1;
  if (attrs->step <= 0 || gm_size_is_symbolic (window) || window < 0 || x->ndim == GM_MAX_DIMS
      || !gm_size_le (window, size)) {
    g_autofree char *text = gm_size_text (size),
                    *windows = gm_shape_text (attrs->n_list, attrs->list);
    return gm_infer_fail (error, GM_ERROR_RUNTIME,
                          "%s: windows of %s at a step of " FMT " do not fit dimension " FMT
                          " of size %s",
                          gm_ops[op].name, windows, attrs->step, attrs->dim, text);
  }
  *out = *x;
  out->sizes[attrs->dim] =
      gm_size_add (gm_size_floordiv (gm_size_sub (size, window), attrs->step), 1);
  out->strides[attrs->dim] = gm_size_mul (x->strides[attrs->dim], attrs->step);
  out->sizes[out->ndim] = window;
  out->strides[out->ndim++] = x->strides[attrs->dim];
  return true;
}

/* Infers a view of the bytes as elements of another size, by torch's rules. Strides are counted in
 * elements; the elements of the last dimension must be contiguous. */
static bool
infer_bitcast (GmOp op, const GmMeta *x, const GmAttrs *attrs, GmMeta *out, GError **error)
{
  int64_t from = (int64_t) gm_dtype_size (x->dtype),
          to = (int64_t) gm_dtype_size ((GmDtype) attrs->dtype), times = MAX (to / from, 1);
  int last = x->ndim - 1;
  bool bad = from != to
             && (last < 0 || !gm_size_eq (x->strides[last], 1)
                 || !gm_size_eq (gm_size_mod (x->sizes[last], times), 0));
  *out = *x;
  out->dtype = attrs->dtype;
  for (int d = 0; d <= last && from != to && !bad; d++) {
    bad |= d < last && !gm_size_eq (gm_size_mod (x->strides[d], times), 0);
    if (d == last)
      out->sizes[d] =
          from < to ? gm_size_floordiv (x->sizes[d], times) : gm_size_mul (x->sizes[d], from / to);
    else
      out->strides[d] = from < to ? gm_size_floordiv (x->strides[d], times)
                                  : gm_size_mul (x->strides[d], from / to);
  }
  if (bad) {
    g_autofree char *text = gm_meta_layout_text (x);
    return gm_infer_fail (error, GM_ERROR_RUNTIME,
                          "view(dtype): %s as %s, whose elements have another size: the last "
                          "dimension needs stride 1 and a multiple of " FMT
                          " elements, the other strides too",
                          text, gm_dtypes[attrs->dtype].torch_name, times);
  }
  return true;
}

bool
gm_infer_movement (GmOp op, const GmMeta *x, const GmAttrs *attrs, GmMeta *out, GError **error)
{
  switch (op) {
  case GM_OP_permute:
    return infer_permute (op, x, attrs, out, error);
  case GM_OP_expand:
    return infer_expand (op, x, attrs, out, error);
  case GM_OP_view:
    return infer_view (op, x, attrs, out, error);
  case GM_OP_slice:
    return infer_slice (op, x, attrs, out, error);
  case GM_OP_diagonal:
    return infer_diagonal (op, x, attrs, out, error);
  case GM_OP_unfold:
    return infer_unfold (op, x, attrs, out, error);
  case GM_OP_bitcast:
    return infer_bitcast (op, x, attrs, out, error);
  case GM_OP_detach:
  case GM_OP_data:
    *out = *x;
    return true;
  default:
    g_assert_not_reached ();
  }
}

/* -- Matrix products --------------------------------------------------------------------------- */

bool
gm_infer_contract (GmOp op, const GmMeta *const *in, GmMeta *out, GError **error)
{
  const GmMeta *a = in[0], *b = in[1];
  if (!gm_infer_same_dtype (op, a, b, error))
    return false;
  if (a->ndim < 2 || b->ndim < 2 || !gm_size_eq (a->sizes[a->ndim - 1], b->sizes[b->ndim - 2])) {
    g_autofree char *sa = gm_shape_text (a->ndim, a->sizes),
                    *sb = gm_shape_text (b->ndim, b->sizes);
    if (a->ndim < 2 || b->ndim < 2)
      return gm_infer_fail (error, GM_ERROR_RUNTIME,
                            "%s: expected two or more dimensions, but the shapes are %s and %s",
                            gm_ops[op].name, sa, sb);
    g_autofree char *columns = gm_size_text (a->sizes[a->ndim - 1]),
                    *rows = gm_size_text (b->sizes[b->ndim - 2]);
    return gm_infer_fail (error, GM_ERROR_RUNTIME,
                          "%s: shapes %s and %s cannot be multiplied (%s columns, %s rows)",
                          gm_ops[op].name, sa, sb, columns, rows);
  }
  GmMeta batch_a = { .ndim = a->ndim - 2 }, batch_b = { .ndim = b->ndim - 2 }, batch = { 0 };
  memcpy (batch_a.sizes, a->sizes, sizeof (int64_t) * batch_a.ndim);
  memcpy (batch_b.sizes, b->sizes, sizeof (int64_t) * batch_b.ndim);
  g_autoptr (GError) why = NULL;
  if (!gm_meta_broadcast (&batch_a, &batch_b, &batch, &why)) {
    g_propagate_prefixed_error (error, g_steal_pointer (&why),
                                "%s, batch dimensions: ", gm_ops[op].name);
    return false;
  }
  out->ndim = batch.ndim + 2;
  memcpy (out->sizes, batch.sizes, sizeof (int64_t) * batch.ndim);
  out->sizes[out->ndim - 2] = a->sizes[a->ndim - 2];
  out->sizes[out->ndim - 1] = b->sizes[b->ndim - 1];
  gm_meta_set_contiguous (out);
  return true;
}

/* -- Indexing ---------------------------------------------------------------------------------- */

/* True if `part` has the sizes of `whole` in all dimensions but `dim`; else sets the error. */
static bool
check_same_but (GmOp op, const char *name, const GmMeta *whole, const GmMeta *part, int64_t dim,
                GError **error)
{
  bool same = whole->ndim == part->ndim;
  for (int d = 0; same && d < whole->ndim; d++)
    same = d == dim || gm_size_eq (whole->sizes[d], part->sizes[d]);
  if (same)
    return true;
  g_autofree char *a = gm_shape_text (whole->ndim, whole->sizes),
                  *b = gm_shape_text (part->ndim, part->sizes);
  return gm_infer_fail (error, GM_ERROR_RUNTIME,
                        "%s: %s of shape %s does not fit %s: they may differ in dimension " FMT
                        " only",
                        gm_ops[op].name, name, b, a, dim);
}

/* True if `index`, of a gather or scatter, is no larger than `whole` in all dimensions but `dim`
 * (dim < 0: in all); else sets the error. */
static bool
check_inside (GmOp op, const char *name, const GmMeta *whole, const GmMeta *index, int64_t dim,
              GError **error)
{
  bool fits = whole->ndim == index->ndim;
  for (int d = 0; fits && d < whole->ndim; d++)
    fits = d == dim || gm_size_le (index->sizes[d], whole->sizes[d]);
  if (fits || (index->ndim == whole->ndim && gm_size_eq (gm_meta_numel (index), 0)))
    return true;
  g_autofree char *a = gm_shape_text (whole->ndim, whole->sizes),
                  *b = gm_shape_text (index->ndim, index->sizes);
  return gm_infer_fail (
      error, GM_ERROR_RUNTIME, "%s: an index of shape %s does not fit %s of shape %s%s",
      gm_ops[op].name, b, name, a,
      dim < 0 ? "" : ": it must have as many dimensions, and be no larger outside dim");
}

static bool
check_list_index (GmOp op, const GmMeta *index, GError **error)
{
  if (index->ndim == 1)
    return true;
  g_autofree char *shape = gm_shape_text (index->ndim, index->sizes);
  return gm_infer_fail (error, GM_ERROR_INDEX,
                        "%s: the index must have one dimension, not shape %s", gm_ops[op].name,
                        shape);
}

static bool
infer_slice_scatter (GmOp op, const GmMeta *x, const GmMeta *src, const GmAttrs *attrs,
                     GError **error)
{
  if (!check_slice (op, x, attrs, error))
    return false;
  GmMeta slice = *x;
  slice.sizes[attrs->dim] = slice_size (attrs);
  if (gm_meta_same_shape (&slice, src))
    return true;
  g_autofree char *a = gm_shape_text (src->ndim, src->sizes),
                  *b = gm_shape_text (slice.ndim, slice.sizes);
  return gm_infer_fail (error, GM_ERROR_RUNTIME,
                        "%s: a source of shape %s does not fit the slice's shape %s",
                        gm_ops[op].name, a, b);
}

static bool
infer_cat (GmOp op, const GmMeta *const *in, int n_in, int64_t dim, GmMeta *out, GError **error)
{
  if (!gm_infer_check_dim (op, dim, in[0], false, error))
    return false;
  for (int i = 1; i < n_in; i++) {
    if (!gm_infer_same_dtype (op, in[0], in[i], error)
        || !check_same_but (op, "a tensor", in[0], in[i], dim, error))
      return false;
    if (!gm_sizes_are_numbers (out->sizes[dim], in[i]->sizes[dim]))
      out->sizes[dim] = gm_size_add (out->sizes[dim], in[i]->sizes[dim]);
    else if (__builtin_add_overflow (out->sizes[dim], in[i]->sizes[dim], &out->sizes[dim]))
      return gm_infer_fail (error, GM_ERROR_MEMORY,
                            "%s: the joined dimension does not fit in 63 bits", gm_ops[op].name);
  }
  gm_meta_set_contiguous (out);
  return true;
}

static bool
infer_require (const GmMeta *ok, const GmAttrs *attrs, GError **error)
{
  if (ok->dtype != GM_BOOL || !gm_size_eq (gm_meta_numel (ok), 1))
    return gm_infer_fail (error, GM_ERROR_RUNTIME,
                          "require: expected one bool that says whether the condition holds");
  return (attrs->offset > 0 && attrs->offset < GM_N_CONDITIONS)
         || gm_infer_fail (error, GM_ERROR_RUNTIME, "require: there is no condition " FMT,
                           attrs->offset);
}

bool
gm_infer_index (GmOp op, const GmMeta *const *in, int n_in, const GmAttrs *attrs, GmMeta *out,
                GError **error)
{
  const GmMeta *x = in[0], *index = NULL;
  int at = gm_op_index_input (op);
  if (at >= 0) {
    index = in[at];
    if (index->dtype != GM_I64)
      return gm_infer_fail (error, GM_ERROR_RUNTIME,
                            "%s: expected an index of dtype int64, but found %s", gm_ops[op].name,
                            gm_dtypes[index->dtype].torch_name);
  }
  *out = *x;
  gm_meta_set_contiguous (out);
  if (op == GM_OP_require)
    return infer_require (in[1], attrs, error);
  bool pointwise_index = op == GM_OP_gather || op == GM_OP_scatter_add;
  if (op != GM_OP_slice_scatter && op != GM_OP_cat
      && !gm_infer_check_dim (op, attrs->dim, x, pointwise_index || op == GM_OP_argsort, error))
    return false;
  if (!gm_infer_accepts (op, x, error))
    return false;
  if ((op == GM_OP_scatter_add || op == GM_OP_index_add)
      && (!gm_infer_same_dtype (op, x, in[2], error)
          || (x->dtype == GM_BOOL
              && !gm_infer_fail (error, GM_ERROR_RUNTIME, "%s: not defined for dtype bool",
                                 gm_ops[op].name))))
    return false;

  switch (op) {
  case GM_OP_gather:
    *out = *index;
    out->dtype = x->dtype;
    gm_meta_set_contiguous (out);
    return check_inside (op, "the input", x, index, attrs->dim, error);
  case GM_OP_scatter_add:
    return check_inside (op, "the input", x, index, attrs->dim, error)
           && check_inside (op, "the source", in[2], index, -1, error);
  case GM_OP_index_select:
    if (!check_list_index (op, index, error))
      return false;
    out->sizes[attrs->dim] = index->sizes[0];
    gm_meta_set_contiguous (out);
    return true;
  case GM_OP_index_add:
    if (!check_list_index (op, index, error)
        || !check_same_but (op, "the source", x, in[2], attrs->dim, error))
      return false;
    return gm_size_eq (in[2]->sizes[attrs->dim], index->sizes[0])
           || gm_infer_fail (error, GM_ERROR_RUNTIME,
                             "%s: " FMT " indices for " FMT " slices of the source",
                             gm_ops[op].name, index->sizes[0], in[2]->sizes[attrs->dim]);
  case GM_OP_slice_scatter:
    return gm_infer_same_dtype (op, x, in[1], error)
           && infer_slice_scatter (op, x, in[1], attrs, error);
  case GM_OP_cat:
    return infer_cat (op, in, n_in, attrs->dim, out, error);
  case GM_OP_argsort:
    out->dtype = GM_I64;
    return true;
  default:
    g_assert_not_reached ();
  }
}
