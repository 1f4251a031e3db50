/* SPDX-License-Identifier: Apache-2.0
 * device.c -- see device.h.
 */
#include "core/tensor/device.h"

#include <string.h>

#include "core/base/thread.h"

const GmDevice *(*gm_device_open) (int device, GError **error);

const char *
gm_device_name (int device)
{
  return device == GM_DEVICE_CPU ? "cpu" : device == GM_DEVICE_CUDA ? "cuda" : "unknown";
}

bool
gm_device_find (const char *name, int *device)
{
  for (int d = GM_DEVICE_CPU; d <= GM_DEVICE_CUDA; d++) {
    size_t n = strlen (gm_device_name (d));
    if (strncmp (name, gm_device_name (d), n) == 0
        && (name[n] == 0 || strcmp (name + n, ":0") == 0)) {
      *device = d;
      return true;
    }
  }
  return false;
}

const char *
gm_device_instead (const char *name)
{
  return strncmp (name, "meta", 4) == 0
             ? "each tensor has memory: make it on 'cpu', and look at the graph of a compiled "
               "function for shapes alone"
             : "tensors live on 'cpu', and on 'cuda' where there is a GPU";
}

static GM_THREAD uint8_t default_device; /* 0: not set, the CPU */

int
gm_default_device (void)
{
  return default_device ? default_device : GM_DEVICE_CPU;
}

void
gm_default_device_set (int device)
{
  default_device = (uint8_t) device;
}

const GmDevice *
gm_device_get (int device, GError **error)
{
  if (gm_device_open)
    return gm_device_open (device, error);
  g_set_error (error, GM_ERROR, GM_ERROR_RUNTIME, "there is no device '%s' in this program",
               gm_device_name (device));
  return NULL;
}

/* Returns the bytes from t's first element to its last. */
static size_t
extent_bytes (const GmTensor *t)
{
  return (size_t) gm_meta_extent (&t->meta) * gm_dtype_size (t->meta.dtype);
}

GmTensor *
gm_tensor_to_device (GmTensor *t, int device, GError **error)
{
  int from = t->meta.device;
  if (from == device)
    return gm_tensor_ref (t);
  const GmDevice *d = gm_device_get (from == GM_DEVICE_CPU ? device : from, error);
  if (!d)
    return NULL;
  /* Bytes are copied as they lie, including gaps.  The copy is a view of those bytes. */
  int64_t n = gm_meta_extent (&t->meta);
  GmMeta flat = gm_meta_make ((GmDtype) t->meta.dtype, 1, &n), meta = t->meta;
  flat.device = meta.device = (uint8_t) device;
  meta.requires_grad = 0;
  g_autoptr (GmTensor) bytes = gm_tensor_new (&flat, error);
  if (!bytes)
    return NULL;
  if (n
      && !d->copy (bytes->storage->data, device, gm_tensor_data (t), from, extent_bytes (t), error))
    return NULL;
  GmTensor *out = gm_tensor_new_view (bytes, &meta, 0);
  gm_tensor_unref (out->base); /* the base is unknown to the program */
  out->base = NULL;
  return out;
}
