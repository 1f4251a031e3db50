/* SPDX-License-Identifier: Apache-2.0
 * builder.c -- small programs of ops, for gradients and torch's functions.
 *
 * Each program reads metas, drops operations without an effect, and emits at most a few ops. So a
 * gradient may say "sum this back to that shape" without a test, and the recorded graph holds no
 * identity nodes. Errors are sticky: after the first, every call returns NULL and emits nothing.
 */
#include "core/ops/builder.h"

#include <string.h>

#define BIT(key) (1u << GM_ATTR_##key)

GmVal
gm_b_fail (GmBuilder *b, GmError code, const char *format, ...)
{
  if (b->error)
    return NULL; /* the first error is the cause */
  va_list ap;
  va_start (ap, format);
  b->error = g_error_new_valist (GM_ERROR, (gint) code, format, ap);
  va_end (ap);
  return NULL;
}

GmVal
gm_b_op (GmBuilder *b, GmOp op, const GmVal *in, int n_in, const GmAttrs *attrs)
{
  if (b->error)
    return NULL;
  return b->vt->op (b, op, in, n_in, attrs);
}

GmVal
gm_b_set (GmBuilder *b, GmVal dst, GmVal src)
{
  if (b->error)
    return NULL;
  if (!b->vt->set)
    return gm_b_fail (b, GM_ERROR_UNSUPPORTED,
                      "a change of a tensor's shape or memory in place cannot be recorded here");
  return b->vt->set (b, dst, src);
}

const GmMeta *
gm_b_meta (GmBuilder *b, GmVal v)
{
  static const GmMeta none;
  return v ? b->vt->meta (b, v) : &none;
}

/* -- Constants --------------------------------------------------------------------------------- */

/* Returns a tensor of this shape and device in which every element is s; `sizes` may be NULL for
 * 0-d. */
static GmVal
full (GmBuilder *b, GmScalar s, GmDtype dtype, int ndim, const int64_t *sizes, int device)
{
  GmMeta m = { .dtype = (uint8_t) dtype, .ndim = (uint8_t) ndim, .device = (uint8_t) device };
  if (ndim)
    memcpy (m.sizes, sizes, (size_t) ndim * sizeof *sizes);
  GmAttrs at = gm_attrs_full (&m, s);
  if (gm_size_is_symbolic (s.i) && s.kind == GM_CATEGORY_INT && gm_sizes_current ()) {
    bool keeps = gm_dtypes[dtype].category != GM_CATEGORY_BOOL;
    at.value = keeps ? s : gm_scalar_bool (!gm_size_eq (s.i, 0)); /* an expression stays one */
    return gm_b_op (b, GM_OP_full, NULL, 0, &at);
  }
  /* The attribute has the dtype's own kind, so that equal constants are equal attributes. */
  switch (gm_dtypes[dtype].category) {
  case GM_CATEGORY_FLOAT:
    at.value = gm_scalar_float (gm_scalar_as_double (s));
    break;
  case GM_CATEGORY_INT:
    at.value = gm_scalar_int (gm_scalar_as_int (s));
    break;
  case GM_CATEGORY_BOOL:
    at.value = gm_scalar_bool (gm_scalar_as_double (s) != 0);
    break;
  }
  return gm_b_op (b, GM_OP_full, NULL, 0, &at);
}

bool
gm_b_fits (GmBuilder *b, GmScalar s, GmDtype dtype)
{
  if (gm_b_failed (b))
    return false;
  int64_t low, high;
  if (s.kind != GM_CATEGORY_INT || !gm_size_is_symbolic (s.i))
    return gm_scalar_fits (s, dtype, &b->error);
  if (!gm_dtype_int_range (dtype, &low, &high) || (gm_size_le (low, s.i) && gm_size_le (s.i, high)))
    return true;
  return gm_scalar_fits (gm_scalar_int (INT64_MAX), dtype, &b->error);
}

GmVal
gm_b_full (GmBuilder *b, GmScalar s, GmDtype dtype, int ndim, const int64_t *sizes)
{
  return full (b, s, dtype, ndim, sizes, b->device);
}

GmVal
gm_b_full_beside (GmBuilder *b, GmScalar s, GmDtype dtype, int ndim, const int64_t *sizes,
                  GmVal like)
{
  return full (b, s, dtype, ndim, sizes, gm_b_meta (b, like)->device);
}

GmVal
gm_b_full_like (GmBuilder *b, GmScalar s, GmDtype dtype, const GmMeta *like)
{
  return full (b, s, dtype, like->ndim, like->sizes, like->device);
}

GmVal
gm_b_scalar (GmBuilder *b, GmScalar s, GmDtype dtype)
{
  return full (b, s, dtype, 0, NULL, GM_DEVICE_CPU);
}

void
gm_b_attrs_device (const GmBuilder *b, GmAttrs *attrs)
{
  if (b->device != GM_DEVICE_CUDA)
    return;
  attrs->mask |= BIT (DEVICE);
  attrs->device = b->device;
}

GmVal
gm_b_zeros_like (GmBuilder *b, GmVal v)
{
  if (b->error)
    return NULL;
  const GmMeta *m = gm_b_meta (b, v);
  return gm_b_full_like (b, gm_scalar_int (0), (GmDtype) m->dtype, m);
}

GmVal
gm_b_cast (GmBuilder *b, GmVal v, GmDtype dtype)
{
  if (b->error || gm_b_meta (b, v)->dtype == dtype)
    return b->error ? NULL : v;
  GmAttrs at = { .mask = BIT (DTYPE), .dtype = dtype };
  return gm_b_op (b, GM_OP_cast, &v, 1, &at);
}

/* -- Movement ---------------------------------------------------------------------------------- */

static GmVal
movement (GmBuilder *b, GmOp op, GmVal v, uint32_t key, int n, const int64_t *list)
{
  GmAttrs at = { .mask = key, .n_list = (uint8_t) n };
  if (n)
    memcpy (at.list, list, (size_t) n * sizeof *list);
  return gm_b_op (b, op, &v, 1, &at);
}

static bool
too_many_dims (GmBuilder *b, int ndim)
{
  if (ndim <= GM_MAX_DIMS)
    return false;
  gm_b_fail (b, GM_ERROR_RUNTIME,
             "a tensor of %d dimensions was asked for; at most %d are possible", ndim, GM_MAX_DIMS);
  return true;
}

GmVal
gm_b_bitcast (GmBuilder *b, GmVal v, GmDtype dtype)
{
  GmAttrs at = { .mask = 1u << GM_ATTR_DTYPE, .dtype = (uint8_t) dtype };
  return gm_b_op (b, GM_OP_bitcast, &v, 1, &at);
}

GmVal
gm_b_permute (GmBuilder *b, GmVal v, const int64_t *dims)
{
  if (b->error)
    return NULL;
  const GmMeta *m = gm_b_meta (b, v);
  bool identity = true;
  for (int i = 0; i < m->ndim; i++)
    identity &= dims[i] == i;
  return identity ? v : movement (b, GM_OP_permute, v, BIT (DIMS), m->ndim, dims);
}

GmVal
gm_b_transpose (GmBuilder *b, GmVal v, int dim0, int dim1)
{
  if (b->error)
    return NULL;
  const GmMeta *m = gm_b_meta (b, v);
  int64_t dims[GM_MAX_DIMS];
  int n = m->ndim, range = n ? n : 1; /* a scalar has a dimension 0 and -1, as in torch */
  if (dim0 < -range || dim0 >= range || dim1 < -range || dim1 >= range)
    return gm_b_fail (
        b, GM_ERROR_INDEX,
        "transpose: dimension out of range (got %d and %d for a tensor of %d dimensions)", dim0,
        dim1, n);
  if (n == 0)
    return v;
  for (int i = 0; i < n; i++)
    dims[i] = i;
  dim0 += dim0 < 0 ? n : 0;
  dim1 += dim1 < 0 ? n : 0;
  dims[dim0] = dim1;
  dims[dim1] = dim0;
  return gm_b_permute (b, v, dims);
}

/* True if m has this shape. An undecided comparison of expressions becomes a fact, because the
 * program can see if v itself is returned. */
static bool
has_shape (const GmMeta *m, int ndim, const int64_t *sizes)
{
  GmMeta other = { .ndim = (uint8_t) ndim };
  if (m->ndim != ndim)
    return false;
  for (int i = 0; i < ndim; i++)
    other.sizes[i] = sizes[i];
  return gm_meta_same_shape (m, &other);
}

GmVal
gm_b_expand (GmBuilder *b, GmVal v, int ndim, const int64_t *sizes)
{
  if (b->error || has_shape (gm_b_meta (b, v), ndim, sizes))
    return b->error ? NULL : v;
  if (too_many_dims (b, ndim))
    return NULL;
  return movement (b, GM_OP_expand, v, BIT (SIZES), ndim, sizes);
}

GmVal
gm_b_view (GmBuilder *b, GmVal v, int ndim, const int64_t *sizes)
{
  if (b->error || has_shape (gm_b_meta (b, v), ndim, sizes))
    return b->error ? NULL : v;
  if (too_many_dims (b, ndim))
    return NULL;
  return movement (b, GM_OP_view, v, BIT (SIZES), ndim, sizes);
}

GmVal
gm_b_alias (GmBuilder *b, GmVal v)
{
  int64_t dims[GM_MAX_DIMS];
  if (b->error)
    return NULL;
  for (int d = 0; d < GM_MAX_DIMS; d++)
    dims[d] = d;
  return movement (b, GM_OP_permute, v, BIT (DIMS), gm_b_meta (b, v)->ndim,
                   dims); /* the one view that keeps any strides */
}

/* Returns op applied to v. The node gets `mark` if a gradient that the program defines is being
 * recorded. */
static GmVal
marked (GmBuilder *b, GmNodeMark mark, GmOp op, GmVal v, const GmAttrs *attrs)
{
  uint8_t was = b->marks;
  if (b->gradient)
    b->marks |= (uint8_t) mark;
  v = gm_b_op (b, op, &v, 1, attrs);
  b->marks = was;
  return v;
}

GmVal
gm_b_contiguous (GmBuilder *b, GmVal v)
{
  if (b->error
      || (gm_meta_is_contiguous (gm_b_meta (b, v)) && !(b->gradient && gm_b_meta (b, v)->ndim > 0)))
    return b->error ? NULL : v;
  /* `copy` keeps a dense input's strides; a join of one tensor is always row-major. */
  GmAttrs at = { .mask = BIT (DIM) };
  return marked (b, GM_MARK_CONTIGUOUS, GM_OP_cat, v, &at);
}

GmVal
gm_b_reshape (GmBuilder *b, GmVal v, int ndim, const int64_t *sizes)
{
  if (b->error)
    return NULL;
  const GmMeta *m = gm_b_meta (b, v);
  if (has_shape (m, ndim, sizes))
    return v;
  if (too_many_dims (b, ndim))
    return NULL;
  if (!gm_meta_is_contiguous (m)) {
    GmAttrs at = { .mask = BIT (SIZES), .n_list = (uint8_t) ndim };
    if (ndim)
      memcpy (at.list, sizes, (size_t) ndim * sizeof *sizes);
    GmMeta out;
    if (!gm_op_infer (GM_OP_view, &m, 1, &at, &out, NULL))
      v = gm_b_contiguous (b, v);
  }
  GmAttrs at = { .mask = BIT (SIZES), .n_list = (uint8_t) ndim };
  if (G_LIKELY (!b->gradient))
    return gm_b_view (b, v, ndim, sizes);
  if (ndim)
    memcpy (at.list, sizes, (size_t) ndim * sizeof *sizes);
  return marked (b, GM_MARK_RESHAPE, GM_OP_view, v, &at);
}

GmVal
gm_b_slice (GmBuilder *b, GmVal v, int dim, int64_t start, int64_t stop, int64_t step)
{
  if (b->error)
    return NULL;
  const GmMeta *m = gm_b_meta (b, v);
  if (step == 1 && gm_size_eq_if_known (start, 0) && gm_size_eq_if_known (stop, m->sizes[dim]))
    return v;
  GmAttrs at = { .mask = BIT (DIM) | BIT (START) | BIT (STOP) | BIT (STEP),
                 .dim = dim,
                 .start = start,
                 .stop = stop,
                 .step = step };
  return gm_b_op (b, GM_OP_slice, &v, 1, &at);
}

GmVal
gm_b_diagonal (GmBuilder *b, GmVal v, int row, int column, int64_t start)
{
  GmAttrs at = {
    .mask = BIT (DIMS) | BIT (START), .n_list = 2, .list = { row, column }, .start = start
  };
  return gm_b_op (b, GM_OP_diagonal, &v, 1, &at);
}

GmVal
gm_b_unfold (GmBuilder *b, GmVal v, int dim, int64_t window, int64_t step)
{
  GmAttrs at = { .mask = BIT (DIM) | BIT (SIZES) | BIT (STEP),
                 .dim = dim,
                 .n_list = 1,
                 .list = { window },
                 .step = step };
  return gm_b_op (b, GM_OP_unfold, &v, 1, &at);
}

/* -- Reductions -------------------------------------------------------------------------------- */

GmVal
gm_b_reduce (GmBuilder *b, GmOp op, GmVal v, const int64_t *dims, int n_dims, bool keepdim)
{
  if (b->error)
    return NULL;
  GmAttrs at = { .mask = BIT (DIMS) | BIT (KEEPDIM),
                 .keepdim = keepdim,
                 .n_list = (uint8_t) n_dims };
  if (n_dims)
    memcpy (at.list, dims, (size_t) n_dims * sizeof *dims);
  return gm_b_op (b, op, &v, 1, &at);
}

GmVal
gm_b_sum_to (GmBuilder *b, GmVal v, int ndim, const int64_t *sizes)
{
  if (b->error)
    return NULL;
  const GmMeta *m = gm_b_meta (b, v);
  if (has_shape (m, ndim, sizes))
    return v;
  int lead = m->ndim - ndim, n = 0;
  int64_t dims[GM_MAX_DIMS];
  for (int i = 0; i < m->ndim; i++)
    if (i < lead ? !gm_size_same (m->sizes[i], 1) /* a sum of one element would make 0 of -0: a view
                                                   * has no such node */
                 : !gm_size_same (m->sizes[i], sizes[i - lead]) && gm_size_eq (sizes[i - lead], 1))
      dims[n++] = i;
  if (n)
    v = gm_b_reduce (b, GM_OP_sum, v, dims, n, true);
  return gm_b_view (b, v, ndim, sizes);
}

GmVal
gm_b_sequence (GmBuilder *b, GmScalar first, GmScalar step, int64_t n, GmDtype dtype)
{
  GmAttrs at = { .mask = BIT (SIZES) | BIT (DTYPE) | BIT (VALUE) | BIT (VALUE2),
                 .n_list = 1,
                 .list = { n },
                 .dtype = dtype,
                 .value = first,
                 .value2 = step };
  gm_b_attrs_device (b, &at);
  return gm_b_op (b, GM_OP_arange, NULL, 0, &at);
}

GmVal
gm_b_arange (GmBuilder *b, int64_t first, int64_t step, int64_t n, GmDtype dtype)
{
  return gm_b_sequence (b, gm_scalar_int (first), gm_scalar_int (step), n, dtype);
}
