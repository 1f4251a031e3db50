/* SPDX-License-Identifier: Apache-2.0
 * mask_index.c -- converts bool masks in subscripts to the positions that they select.
 *
 * The number of elements of x[mask] depends on the mask's data, which a graph does not know; so the
 * API table has no such row.  Eager Python has the data: here the mask becomes index tensors, and
 * everything after that (gradients, views) is indexing by integers.  Indices on another device than
 * the tensor are moved there.
 */
#include "core/objects/mask_index.h"

#include "core/autograd/autograd.h"
#include "core/objects/device_py.h"
#include "core/objects/errors.h"
#include "core/tensor/device.h"

/* Fills `out` with an index tensor, the positions of the true elements, for each dimension of a
 * mask in the CPU's memory.  False with MemoryError. */
static bool
positions_here (const GmTensor *mask, GmTensor **out)
{
  const GmMeta *m = &mask->meta;
  int64_t index[GM_MAX_DIMS] = { 0 }, n = gm_meta_numel (m), count = 0;
  GError *error = NULL;
  for (int pass = 0; pass < 2; pass++) {
    int64_t found = 0;
    for (int64_t i = 0; i < n; i++) {
      int64_t at = mask->offset;
      for (int d = 0; d < m->ndim; d++)
        at += index[d] * m->strides[d];
      if (((const uint8_t *) mask->storage->data)[at]) {
        for (int d = 0; pass && d < m->ndim; d++)
          ((int64_t *) gm_tensor_data (out[d]))[found] = index[d];
        found++;
      }
      for (int d = m->ndim - 1; d >= 0 && ++index[d] == m->sizes[d]; d--)
        index[d] = 0;
    }
    count = found;
    GmMeta meta = gm_meta_make (GM_I64, 1, &count);
    for (int d = 0; !pass && d < m->ndim; d++)
      if (!(out[d] = gm_tensor_new (&meta, &error))) {
        gm_py_raise (error);
        return false;
      }
  }
  return true;
}

/* Returns t on a device, a new reference; NULL with an exception. */
static GmTensor *
moved (GmTensor *t, int device)
{
  GError *error = NULL;
  GmTensor *there = gm_tensor_to_device (t, device, &error);
  if (!there)
    gm_py_raise (error);
  return there;
}

/* Fills `out` as positions_here does, for a mask on any device; the results are on `device`,
 * that of the tensor that is indexed.  False with an exception. */
static bool
positions (const GmTensor *mask, int device, GmTensor **out)
{
  g_autoptr (GmTensor) here = moved ((GmTensor *) mask, GM_DEVICE_CPU);
  bool ok = here && positions_here (here, out);
  for (int d = 0; ok && d < mask->meta.ndim; d++) {
    g_autoptr (GmTensor) index = out[d];
    ok = (out[d] = moved (index, device)) != NULL;
  }
  return ok;
}

static bool
is_elsewhere (const GmTensor *t, const GmArg *a)
{
  const GmTensor *index = a->kind == GM_ARG_TENSOR ? gm_tensor_from_val (a->v) : NULL;
  return index && index->meta.ndim && index->meta.device != t->meta.device
         && index->meta.device == GM_DEVICE_CPU;
}

static const GmTensor *
mask_of (const GmArg *a)
{
  const GmTensor *t = a->kind == GM_ARG_TENSOR ? gm_tensor_from_val (a->v) : NULL;
  return t && (t->meta.dtype == GM_BOOL || t->meta.dtype == GM_U8) && t->meta.ndim ? t : NULL;
}

/* True if the argument is a bool or a tensor of bools. */
static bool
is_bool (const GmArg *a)
{
  const GmTensor *t = a->kind == GM_ARG_TENSOR ? gm_tensor_from_val (a->v) : NULL;
  return a->kind == GM_ARG_BOOL
         || (t && (t->meta.dtype == GM_BOOL || t->meta.dtype == GM_U8) && !t->meta.ndim);
}

/* Returns the number of the tensor's dimensions that one item of a key uses. */
static int
consumed (const GmArg *a)
{
  const GmTensor *mask = mask_of (a);
  return mask                                                                  ? mask->meta.ndim
         : a->kind == GM_ARG_NONE || a->kind == GM_ARG_ELLIPSIS || is_bool (a) ? 0
                                                                               : 1;
}

static bool
fits (const GmTensor *mask, const GmTensor *t, int dim)
{
  bool ok = dim + mask->meta.ndim <= t->meta.ndim;
  for (int d = 0; ok && d < mask->meta.ndim; d++)
    ok = mask->meta.sizes[d] == t->meta.sizes[dim + d];
  if (ok)
    return true;
  g_autofree char *m = gm_shape_text (mask->meta.ndim, mask->meta.sizes),
                  *s = gm_shape_text (t->meta.ndim, t->meta.sizes);
  PyErr_Format (PyExc_IndexError,
                "a mask of shape %s at dimension %d does not fit a tensor of shape %s", m, dim, s);
  return false;
}

bool
gm_py_mask_expand (GmPyArgs *x, const GmTensor *t, GmArg *key)
{
  bool list = key->kind == GM_ARG_LIST;
  GmArg *items = list ? key->items : key;
  int n = list ? key->n : 1, total = 0, masks = 0, others = 0, n_out = 0, dim = 0;
  for (int i = 0; i < n; i++) {
    total += consumed (&items[i]);
    masks += mask_of (&items[i]) != NULL;
    others += is_elsewhere (t, &items[i]);
  }
  if (!masks && !others)
    return true;
  GmArg *out = gm_py_args_take (x, n + masks * (GM_MAX_DIMS - 1));
  if (!out)
    return false;
  for (int i = 0; i < n; i++) {
    const GmTensor *mask = mask_of (&items[i]);
    if (mask) {
      GmTensor *index[GM_MAX_DIMS] = { NULL };
      bool ok = fits (mask, t, dim) && positions (mask, t->meta.device, index);
      for (int d = 0; d < mask->meta.ndim; d++) {
        GmTensor *kept = ok ? gm_py_args_keep (x, gm_py_tensor_take (index[d]))
                            : (gm_tensor_unref (index[d]), NULL);
        ok = kept != NULL;
        out[n_out++] = (GmArg){ .kind = GM_ARG_TENSOR, .v = gm_val_from_tensor (kept) };
      }
      if (!ok)
        return false;
    } else if (is_elsewhere (t, &items[i])) {
      GmTensor *there = moved (gm_tensor_from_val (items[i].v), t->meta.device);
      there = there ? gm_py_args_keep (x, gm_py_tensor_take (there)) : NULL;
      if (!there)
        return false;
      out[n_out++] = (GmArg){ .kind = GM_ARG_TENSOR, .v = gm_val_from_tensor (there) };
    } else {
      out[n_out++] = items[i];
    }
    dim += items[i].kind == GM_ARG_ELLIPSIS ? MAX (t->meta.ndim - total, 0) : consumed (&items[i]);
  }
  *key =
      !masks && !list
          ? out[0]
          : (GmArg){ .kind = GM_ARG_LIST, .is_tuple = true, .n = (uint16_t) n_out, .items = out };
  return true;
}
