/* SPDX-License-Identifier: Apache-2.0
 * infer.c -- computes the meta of an op's result from metas alone.
 *
 * Eager execution, the recorder, the parser and the verifier call gm_op_infer, so a fake tensor and
 * a real one cannot disagree. The rules are strict: promotion, Python numbers and negative
 * dimensions are handled above (core/api/api.c), and any operand that does not fit here is an error
 * that shows both shapes or both dtypes. Sizes may be expressions; a comparison of them that is not
 * decided becomes a fact (core/sym/sizes.h).
 */
#include "core/ops/infer.h"
#include "core/ops/builder.h"

#include <string.h>

bool
gm_infer_fail (GError **error, GmError code, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *text = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error_literal (error, GM_ERROR, code, text);
  return false;
}

/* -- Checks ------------------------------------------------------------------------------------ */

bool
gm_infer_check_dim (GmOp op, int64_t dim, const GmMeta *x, bool scalar_ok, GError **error)
{
  int ndim = x->ndim == 0 && scalar_ok ? 1 : x->ndim;
  if (dim >= 0 && dim < ndim)
    return true;
  if (x->ndim == 0)
    return gm_infer_fail (error, GM_ERROR_INDEX,
                          "%s: a 0-d tensor has no dimension %" G_GINT64_FORMAT, gm_ops[op].name,
                          dim);
  g_autofree char *shape = gm_shape_text (x->ndim, x->sizes);
  return gm_infer_fail (error, GM_ERROR_INDEX,
                        "%s: dimension %" G_GINT64_FORMAT " is out of range for shape %s (0 to %d)",
                        gm_ops[op].name, dim, shape, x->ndim - 1);
}

bool
gm_infer_check_sizes (GmOp op, int ndim, const int64_t *sizes, GError **error)
{
  int64_t n = 1;
  bool empty = false, huge = false;
  if (ndim > GM_MAX_DIMS)
    return gm_infer_fail (error, GM_ERROR_RUNTIME, "%s: %d dimensions, at most %d are supported",
                          gm_ops[op].name, ndim, GM_MAX_DIMS);
  for (int d = 0; d < ndim; d++) {
    if (gm_size_is_symbolic (sizes[d]) ? !gm_size_le (0, sizes[d]) : sizes[d] < 0) {
      g_autofree char *shape = gm_shape_text (ndim, sizes);
      g_autofree char *size = gm_size_text (sizes[d]);
      return gm_infer_fail (error, GM_ERROR_RUNTIME,
                            "%s: size %s of dimension %d in %s is negative", gm_ops[op].name, size,
                            d, shape);
    }
    empty |= sizes[d] == 0;
    huge |= !huge && !gm_size_is_symbolic (sizes[d]) && __builtin_mul_overflow (n, sizes[d], &n);
  }
  if (huge && !empty) {
    g_autofree char *shape = gm_shape_text (ndim, sizes);
    return gm_infer_fail (error, GM_ERROR_MEMORY,
                          "%s: the number of elements of %s does not fit in 63 bits",
                          gm_ops[op].name, shape);
  }
  return true;
}

bool
gm_infer_same_dtype (GmOp op, const GmMeta *a, const GmMeta *b, GError **error)
{
  return a->dtype == b->dtype
         || gm_infer_fail (
             error, GM_ERROR_RUNTIME,
             "%s: expected inputs of one dtype, but found %s and %s; cast one of them",
             gm_ops[op].name, gm_dtypes[a->dtype].torch_name, gm_dtypes[b->dtype].torch_name);
}

bool
gm_infer_accepts (GmOp op, const GmMeta *x, GError **error)
{
  static const char *const wanted[] = {
    [GM_TYPES_ANY] = "a",
    [GM_TYPES_ARITH] = "a numeric",
    [GM_TYPES_FLOAT] = "a floating point",
    [GM_TYPES_COMPARE] = "a",
    [GM_TYPES_LOGICAL] = "a bool",
    [GM_TYPES_BITWISE] = "an integer or bool",
    [GM_TYPES_SELECT] = "a",
  };
  if (gm_dtypes[x->dtype].live && !gm_dtype_computes (x->dtype)
      && !gm_op_accepts (op, (GmDtype) x->dtype))
    return gm_infer_fail (
        error, GM_ERROR_RUNTIME,
        "%s: %s tensors are stored and cast, nothing else; cast to float32 or bfloat16 first",
        gm_ops[op].name, gm_dtypes[x->dtype].torch_name);
  return gm_op_accepts (op, (GmDtype) x->dtype)
         || gm_infer_fail (error, GM_ERROR_RUNTIME, "%s: expected %s tensor, but found dtype %s",
                           gm_ops[op].name, wanted[gm_ops[op].types],
                           gm_dtypes[x->dtype].torch_name);
}

static const char *
device_text (int device)
{
  return device == GM_DEVICE_CPU ? "cpu" : "cuda";
}

/* Returns the device of the result: numbers (0-d tensors of the CPU) follow the other inputs. */
static int
lead_device (const GmMeta *const *in, int n_in)
{
  for (int i = 0; i < n_in; i++)
    if (in[i]->device != GM_DEVICE_CPU)
      return in[i]->device;
  return GM_DEVICE_CPU;
}

static bool
check_call (GmOp op, const GmMeta *const *in, int n_in, const GmAttrs *attrs, GError **error)
{
  if (op <= GM_OP_NONE || op >= GM_N_OPS || !gm_ops[op].name)
    return gm_infer_fail (error, GM_ERROR_VALUE, "there is no op with code %d", (int) op);
  const GmOpInfo *info = &gm_ops[op];
  if (info->arity >= 0 ? n_in != info->arity : n_in < 1)
    return info->arity >= 0
               ? gm_infer_fail (error, GM_ERROR_TYPE, "%s takes %d input(s), not %d", info->name,
                                info->arity, n_in)
               : gm_infer_fail (error, GM_ERROR_RUNTIME, "%s: expected a non-empty list of tensors",
                                info->name);
  uint32_t have = attrs ? attrs->mask : 0, need = gm_op_attr_mask (op);
  uint32_t missing = need & ~have, extra = have & ~(need | gm_op_attr_optional (op));
  if (missing || extra)
    return gm_infer_fail (error, GM_ERROR_TYPE,
                          missing ? "%s: the attribute %s is missing" : "%s has no attribute %s",
                          info->name, gm_attrs[__builtin_ctz (missing ? missing : extra)].name);
  if (attrs && attrs->n_list > GM_MAX_DIMS)
    return gm_infer_fail (error, GM_ERROR_RUNTIME, "%s: %d dimensions, at most %d are supported",
                          info->name, attrs->n_list, GM_MAX_DIMS);
  if (have & 1u << GM_ATTR_DTYPE && (attrs->dtype >= GM_N_DTYPES || !gm_dtypes[attrs->dtype].live))
    return gm_infer_fail (error, GM_ERROR_UNSUPPORTED, "%s: dtype %s is not supported", info->name,
                          attrs->dtype < GM_N_DTYPES ? gm_dtypes[attrs->dtype].torch_name
                                                     : "out of range");
  int lead = lead_device (in, n_in);
  for (int i = 0; i < n_in; i++)
    if (in[i]->device != lead
        && !(info->family == GM_FAMILY_POINTWISE && in[i]->device == GM_DEVICE_CPU
             && in[i]->ndim == 0)
        && info->family != GM_FAMILY_MUTATE)
      return gm_infer_fail (error, GM_ERROR_RUNTIME,
                            "%s: expected all tensors on one device, but found some on '%s' and "
                            "some on '%s' (input %d); move one with "
                            ".to()",
                            info->name, device_text (lead), device_text (in[i]->device), i);
  return true;
}

/* -- Elementwise ------------------------------------------------------------------------------- */

static bool
infer_pointwise (GmOp op, const GmMeta *const *in, int n_in, GmMeta *out, GError **error)
{
  GmTypes types = (GmTypes) gm_ops[op].types;
  int first = types == GM_TYPES_SELECT; /* first of the inputs that share a dtype */
  if (first && in[0]->dtype != GM_BOOL)
    return gm_infer_fail (error, GM_ERROR_RUNTIME,
                          "%s: expected a bool condition, but found dtype %s", gm_ops[op].name,
                          gm_dtypes[in[0]->dtype].torch_name);
  if (!gm_infer_accepts (op, in[first], error))
    return false;
  for (int i = first + 1; i < n_in; i++)
    if (!gm_infer_same_dtype (op, in[first], in[i], error))
      return false;
  out->dtype = types == GM_TYPES_COMPARE ? GM_BOOL : in[first]->dtype;

  out->ndim = in[0]->ndim;
  memcpy (out->sizes, in[0]->sizes, sizeof out->sizes);
  bool symbolic = gm_meta_is_symbolic (out);
  for (int i = 1; i < n_in; i++) {
    symbolic = symbolic || gm_meta_is_symbolic (in[i]);
    if (!symbolic && gm_meta_same_shape (out, in[i]))
      continue;
    GmMeta both = *out;
    g_autoptr (GError) why = NULL;
    if (!gm_meta_broadcast (out, in[i], &both, &why)) {
      g_propagate_prefixed_error (error, g_steal_pointer (&why), "%s: ", gm_ops[op].name);
      return false;
    }
    out->ndim = both.ndim;
    memcpy (out->sizes, both.sizes, sizeof out->sizes);
  }
  bool plain = symbolic; /* plain: all give row-major results, so the input with the result's shape
                            need not be found */
  for (int i = 0; i < n_in && plain; i++)
    plain = gm_meta_is_in_order (in[i]);
  for (int i = 0; i < n_in && !plain; i++)
    if (gm_meta_same_shape (in[i], out) && gm_meta_is_dense (in[i])) {
      gm_meta_set_like (out, in[i]);
      return true;
    }
  gm_meta_set_contiguous (out);
  return true;
}

static void
infer_cast (const GmMeta *x, const GmAttrs *attrs, GmMeta *out)
{
  *out = *x;
  out->dtype = attrs->dtype;
  gm_meta_set_like (out, x);
}

static bool
infer_mutate (GmOp op, const GmMeta *const *in, GmMeta *out, GError **error)
{
  const GmMeta *dst = in[0], *src = in[1];
  if (op == GM_OP_set_) {
    if (dst->dtype != src->dtype || dst->device != src->device) {
      g_autofree char *a = gm_meta_text (dst), *b = gm_meta_text (src);
      return gm_infer_fail (error, GM_ERROR_RUNTIME,
                            "%s: a tensor %s cannot become %s: dtype and device stay",
                            gm_ops[op].name, a, b);
    }
    *out = *src;
    return true;
  }
  int shift = dst->ndim - src->ndim;
  bool fits = shift >= 0;
  for (int d = 0; fits && d < src->ndim; d++)
    fits = gm_size_expands (src->sizes[d], dst->sizes[d + shift]);
  if (!fits) {
    g_autofree char *a = gm_shape_text (src->ndim, src->sizes),
                    *b = gm_shape_text (dst->ndim, dst->sizes);
    return gm_infer_fail (
        error, GM_ERROR_RUNTIME,
        "%s: a source of shape %s cannot be broadcast to the destination's shape %s",
        gm_ops[op].name, a, b);
  }
  *out = *dst;
  return true;
}

/* -- Reductions and scans ---------------------------------------------------------------------- */

/* Stores in *out the shape of x with the dimensions in `reduced` dropped, or (keepdim) of size 1.
 */
static void
reduce_shape (const GmMeta *x, uint32_t reduced, bool keepdim, GmMeta *out)
{
  for (int d = 0; d < x->ndim; d++)
    if (!(reduced >> d & 1))
      out->sizes[out->ndim++] = x->sizes[d];
    else if (keepdim)
      out->sizes[out->ndim++] = 1;
  gm_meta_set_contiguous (out);
}

/* True unless a reduced dimension is empty and the op has no neutral element, like a maximum: then
 * sets the error. */
static bool
check_not_empty (GmOp op, const GmMeta *x, uint32_t reduced, GError **error)
{
  for (int d = 0; d < x->ndim; d++)
    if (reduced >> d & 1 && gm_size_eq (x->sizes[d], 0)) {
      g_autofree char *shape = gm_shape_text (x->ndim, x->sizes);
      return gm_infer_fail (
          error, GM_ERROR_RUNTIME,
          "%s: dimension %d of shape %s is empty, and the operation has no neutral element; "
          "give a dimension of non-zero size",
          gm_ops[op].name, d, shape);
    }
  return true;
}

static bool
infer_reduce (GmOp op, const GmMeta *x, const GmAttrs *attrs, GmMeta *out, GError **error)
{
  if (!gm_infer_accepts (op, x, error))
    return false;
  uint32_t reduced = 0;
  for (int i = 0; i < attrs->n_list; i++) {
    int64_t d = attrs->list[i];
    if (!gm_infer_check_dim (op, d, x, true, error))
      return false;
    if (reduced >> d & 1)
      return gm_infer_fail (error, GM_ERROR_RUNTIME,
                            "%s: dimension %" G_GINT64_FORMAT " appears twice in the list of dims",
                            gm_ops[op].name, d);
    reduced |= 1u << d;
  }
  if (attrs->n_list == 0)
    reduced = (1u << x->ndim) - 1;
  if ((op == GM_OP_amax || op == GM_OP_amin) && !check_not_empty (op, x, reduced, error))
    return false;
  reduce_shape (x, reduced, attrs->keepdim, out);
  return true;
}

static bool
infer_argreduce (GmOp op, const GmMeta *x, const GmAttrs *attrs, GmMeta *out, GError **error)
{
  bool all = !(attrs->mask & 1u << GM_ATTR_DIM);
  if (!gm_infer_accepts (op, x, error)
      || (!all && !gm_infer_check_dim (op, attrs->dim, x, true, error)))
    return false;
  uint32_t reduced = all ? (1u << x->ndim) - 1 : 1u << attrs->dim;
  if (!check_not_empty (op, x, reduced, error))
    return false;
  reduce_shape (x, reduced, attrs->keepdim, out);
  out->dtype = GM_I64;
  return true;
}

static bool
infer_scan (GmOp op, const GmMeta *x, const GmAttrs *attrs, GmMeta *out, GError **error)
{
  if (!gm_infer_accepts (op, x, error) || !gm_infer_check_dim (op, attrs->dim, x, true, error))
    return false;
  *out = *x;
  gm_meta_set_contiguous (out);
  return true;
}

/* -- Sources ----------------------------------------------------------------------------------- */

static bool
infer_sizes (GmOp op, const GmAttrs *attrs, GmMeta *out, GError **error)
{
  if (!gm_infer_check_sizes (op, attrs->n_list, attrs->list, error))
    return false;
  *out = gm_meta_make ((GmDtype) attrs->dtype, attrs->n_list, attrs->list);
  if (!(attrs->mask & 1u << GM_ATTR_DEVICE))
    return true;
  /* The CPU is never in the attributes: equal tensors have equal attributes. */
  if (attrs->device != GM_DEVICE_CUDA)
    return gm_infer_fail (error, GM_ERROR_VALUE,
                          "%s: there is no device of number %" G_GINT64_FORMAT, gm_ops[op].name,
                          attrs->device);
  out->device = (uint8_t) attrs->device;
  return true;
}

static bool
infer_random (GmOp op, const GmMeta *state, const GmAttrs *attrs, GmMeta *out, GError **error)
{
  if (state->dtype != GM_I64 || state->ndim != 1 || state->sizes[0] != 2) {
    g_autofree char *text = gm_meta_text (state);
    return gm_infer_fail (error, GM_ERROR_RUNTIME,
                          "%s: the generator's state must be i64[2], not %s", gm_ops[op].name,
                          text);
  }
  if (attrs->dtype != GM_F32 && attrs->dtype != GM_F64)
    return gm_infer_fail (error, GM_ERROR_UNSUPPORTED,
                          "%s: random numbers are float32 or float64, not %s", gm_ops[op].name,
                          gm_dtypes[attrs->dtype].torch_name);
  return infer_sizes (op, attrs, out, error);
}

static bool
infer_create (GmOp op, const GmAttrs *attrs, GmMeta *out, GError **error)
{
  if (op == GM_OP_arange && attrs->n_list != 1)
    return gm_infer_fail (error, GM_ERROR_RUNTIME, "%s: expected one size, but found %d",
                          gm_ops[op].name, attrs->n_list);
  if (op == GM_OP_arange && (attrs->dtype == GM_BOOL || !gm_dtype_computes (attrs->dtype)))
    return gm_infer_fail (error, GM_ERROR_UNSUPPORTED, "%s: not defined for dtype %s",
                          gm_ops[op].name, gm_dtypes[attrs->dtype].torch_name);
  uint32_t whole = 1u << GM_ATTR_SIZES | 1u << GM_ATTR_DTYPE;
  if (op == GM_OP_constant && (attrs->mask & whole) != whole)
    return gm_infer_fail (
        error, GM_ERROR_RUNTIME,
        "%s: without sizes and dtype, only the table of constants knows what row %" G_GINT64_FORMAT
        " is",
        gm_ops[op].name, attrs->offset);
  return infer_sizes (op, attrs, out, error);
}

/* -- The entry --------------------------------------------------------------------------------- */

static bool
infer_family (GmOp op, const GmMeta *const *in, int n_in, const GmAttrs *attrs, GmMeta *out,
              GError **error)
{
  switch ((GmFamily) gm_ops[op].family) {
  case GM_FAMILY_POINTWISE:
    return infer_pointwise (op, in, n_in, out, error);
  case GM_FAMILY_CAST:
    infer_cast (in[0], attrs, out);
    return true;
  case GM_FAMILY_REDUCE:
    return infer_reduce (op, in[0], attrs, out, error);
  case GM_FAMILY_ARGREDUCE:
    return infer_argreduce (op, in[0], attrs, out, error);
  case GM_FAMILY_MOVEMENT:
    return gm_infer_movement (op, in[0], attrs, out, error);
  case GM_FAMILY_CONTRACT:
    return gm_infer_accepts (op, in[0], error) && gm_infer_contract (op, in, out, error);
  case GM_FAMILY_CONVOLVE:
    return gm_infer_accepts (op, in[0], error) && gm_infer_convolve (op, in, attrs, out, error);
  case GM_FAMILY_INDEX:
    return gm_infer_index (op, in, n_in, attrs, out, error);
  case GM_FAMILY_SCAN:
    return infer_scan (op, in[0], attrs, out, error);
  case GM_FAMILY_RANDOM:
    return infer_random (op, in[0], attrs, out, error);
  case GM_FAMILY_CREATE:
    return infer_create (op, attrs, out, error);
  case GM_FAMILY_MUTATE:
    return infer_mutate (op, in, out, error);
  case GM_FAMILY_CUSTOM:
    *out = *in[0];
    return true;
  case GM_FAMILY_HIGHER:
    return gm_infer_fail (error, GM_ERROR_RUNTIME,
                          "%s: only the graph that holds its bodies knows its result",
                          gm_ops[op].name);
  case GM_FAMILY_NONE:
    break;
  }
  g_assert_not_reached ();
}

bool
gm_op_infer (GmOp op, const GmMeta *const *in, int n_in, const GmAttrs *attrs, GmMeta *out,
             GError **error)
{
  if (G_UNLIKELY ((unsigned) op >= GM_N_OPS) || (attrs && attrs->mask)
      || !gm_infer_plain (op, in, n_in, out)) {
    if (!check_call (op, in, n_in, attrs, error))
      return false;
    memset (out, 0, sizeof *out);
    out->device = (uint8_t) (gm_ops[op].family == GM_FAMILY_POINTWISE ? lead_device (in, n_in)
                             : n_in > 0                               ? in[0]->device
                                                                      : GM_DEVICE_CPU);
    out->dtype = n_in > 0 ? in[0]->dtype : 0;
    if (!infer_family (op, in, n_in, attrs, out, error))
      return false;
    out->requires_grad = 0;
  }
  if (gm_dtype_is_float (out->dtype))
    for (int i = 0; i < n_in; i++)
      out->requires_grad |= in[i]->requires_grad && gm_op_is_differentiable (op, i);
  return true;
}
