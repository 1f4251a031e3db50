/* SPDX-License-Identifier: Apache-2.0
 * create.c -- tensors without operands: one value everywhere, or an arithmetic sequence.
 *
 * An integer sequence is computed in 64 bits, a floating one in f64, as first + i * step (never by
 * adding up, whose error grows), and then converted as gm_scalar_store does.
 */
#include "core/ops/kernels.h"

static void
run_full (const GmAttrs *attrs, GmTensor *out)
{
  char value[8] __attribute__ ((aligned (8)));
  size_t elem = gm_dtype_size (out->meta.dtype);
  gm_scalar_store (attrs->value, (GmDtype) out->meta.dtype, value);
  if (gm_meta_is_dense (&out->meta)) {
    gm_run_tiles->gather (gm_tensor_data (out), value, 0, (size_t) gm_meta_numel (&out->meta),
                          elem);
    return;
  }
  int64_t repeat[GM_MAX_DIMS] = { 0 };
  GmLoop l;
  gm_loop_init (&l, out->meta.ndim, out->meta.sizes, 2,
                (const int64_t *const[]){ out->meta.strides, repeat },
                (const size_t[]){ elem, elem }, true);
  gm_loop_run (&l, (GmLoopBody){ 0 }, (char *const[]){ gm_tensor_data (out), value });
}

static void
run_arange (const GmAttrs *attrs, GmTensor *out)
{
  GmDtype dtype = (GmDtype) out->meta.dtype;
  bool whole = attrs->value.kind != GM_CATEGORY_FLOAT && attrs->value2.kind != GM_CATEGORY_FLOAT;
  double first = gm_scalar_as_double (attrs->value), step = gm_scalar_as_double (attrs->value2);
  char *at = gm_tensor_data (out);
  ptrdiff_t step_bytes = out->meta.strides[0] * (ptrdiff_t) gm_dtype_size (dtype);
  for (int64_t i = 0; i < out->meta.sizes[0]; i++, at += step_bytes) {
    if (whole) /* integers wrap, as integer tensors do */
      gm_scalar_store (gm_scalar_int ((int64_t) ((uint64_t) attrs->value.i
                                                 + (uint64_t) i * (uint64_t) attrs->value2.i)),
                       dtype, at);
    else
      gm_scalar_store (gm_scalar_float (first + (double) i * step), dtype, at);
  }
}

bool
gm_create_run (GmOp op, const GmAttrs *attrs, GmTensor *out, GError **error)
{
  switch (op) {
  case GM_OP_full:
    run_full (attrs, out);
    return true;
  case GM_OP_arange:
    run_arange (attrs, out);
    return true;
  default:
    g_set_error (
        error, GM_ERROR, GM_ERROR_RUNTIME,
        "%s: row %" G_GINT64_FORMAT
        " of the table of constants belongs to a graph; bind it as an input instead of running it",
        gm_ops[op].name, attrs->offset);
    return false;
  }
}
