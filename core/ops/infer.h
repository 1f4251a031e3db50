/* SPDX-License-Identifier: Apache-2.0
 * infer.h -- shape rules shared between infer.c and its neighbours; private to this room.
 */
#ifndef GM_OPS_INFER_H
#define GM_OPS_INFER_H

#include "core/ops/ops.h"

/* Sets the error and returns false, so that `return gm_infer_fail (...)` works. */
bool gm_infer_fail (GError **error, GmError code, const char *format, ...) G_GNUC_PRINTF (3, 4);

/* True if `dim` names a dimension; a 0-d tensor counts as one of size 1 if `scalar_ok`. */
bool gm_infer_check_dim (GmOp op, int64_t dim, const GmMeta *x, bool scalar_ok, GError **error);
/* True if the sizes, from attributes, are numbers whose product does not overflow; else sets the
 * error. */
bool gm_infer_check_sizes (GmOp op, int ndim, const int64_t *sizes, GError **error);
/* True if the op's row accepts x's dtype; else sets the error. */
bool gm_infer_accepts (GmOp op, const GmMeta *x, GError **error);
bool gm_infer_same_dtype (GmOp op, const GmMeta *a, const GmMeta *b, GError **error);

/* Computes the result of an op that changes shapes (infer_shape.c). *out has dtype and device of
 * in[0] and is otherwise zero on entry. False: an error is set. */
bool gm_infer_movement (GmOp op, const GmMeta *x, const GmAttrs *attrs, GmMeta *out,
                        GError **error);
bool gm_infer_contract (GmOp op, const GmMeta *const *in, GmMeta *out, GError **error);
bool gm_infer_index (GmOp op, const GmMeta *const *in, int n_in, const GmAttrs *attrs, GmMeta *out,
                     GError **error);
/* Computes the result of a convolution or pool (infer_convolve.c), with *out as above. */
bool gm_infer_convolve (GmOp op, const GmMeta *const *in, const GmAttrs *attrs, GmMeta *out,
                        GError **error);

/* Handles the common case of a POINTWISE op without calls: every input has one shape, or is 0-d;
 * the first input of that shape is row-major, and all inputs of it have its strides. True: *out is
 * the result. False: the general rule has to decide; no error is set. */
static inline bool
gm_infer_plain (GmOp op, const GmMeta *const *in, int n_in, GmMeta *out)
{
  const GmOpInfo *info = &gm_ops[op];
  if (info->family != GM_FAMILY_POINTWISE || n_in != info->arity || info->types == GM_TYPES_SELECT)
    return false;
  const GmMeta *lead = in[0];
  for (int i = 1; i < n_in; i++)
    if (in[i]->ndim > lead->ndim)
      lead = in[i];
  int64_t expected = 1;
  for (int d = lead->ndim - 1; d >= 0; d--) {
    if (lead->strides[d] != expected || lead->sizes[d] <= 0)
      return false;
    expected *= lead->sizes[d];
  }
  for (int i = 0; i < n_in; i++) {
    const GmMeta *m = in[i];
    if (m->dtype != lead->dtype || m->device != lead->device)
      return false;
    if (m == lead || m->ndim == 0)
      continue;
    if (m->ndim != lead->ndim)
      return false;
    for (int d = 0; d < lead->ndim; d++)
      if (m->sizes[d] != lead->sizes[d] || m->strides[d] != lead->strides[d])
        return false;
  }
  if (!gm_op_accepts (op, (GmDtype) lead->dtype))
    return false;
  *out = *lead;
  out->requires_grad = 0;
  if (info->types == GM_TYPES_COMPARE)
    out->dtype = GM_BOOL;
  return true;
}

#endif
