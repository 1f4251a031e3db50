/* SPDX-License-Identifier: Apache-2.0
 * movement.c -- views: a new meta over the same storage.
 *
 * The meta is gm_op_infer's; only a slice moves the first element.  A detached tensor shares storage and version
 * but is nobody's view, so that autograd does not follow it to the base.
 */
#include "core/ops/kernels.h"

GmTensor *
gm_movement_run (GmOp op, GmTensor *x, const GmAttrs *attrs, const GmMeta *meta)
{
  if (op == GM_OP_detach) {
    GmTensor *alias = gm_tensor_new_alias (x);
    alias->meta.requires_grad = 0;
    return alias;
  }
  int64_t offset = x->offset;
  if (op == GM_OP_slice)
    offset += attrs->start * x->meta.strides[attrs->dim];
  GmMeta view = *meta;
  view.requires_grad = 0;
  return gm_tensor_new_view (x, &view, offset);
}
