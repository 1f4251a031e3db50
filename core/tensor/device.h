/* SPDX-License-Identifier: Apache-2.0
 * device.h -- memory of devices other than the CPU.
 *
 * The core knows no GPU.  A driver of one (core/run/gpu.c, for a plugin) fills a GmDevice;
 * tensors of its device have storage from its `alloc`, whose addresses the CPU must not touch.
 * Elements go to and from the CPU by gm_tensor_to_device.
 *
 * Work of a device is in order, and may still run when a function returns; `copy` to the CPU waits
 * for it.
 */
#ifndef GM_TENSOR_DEVICE_H
#define GM_TENSOR_DEVICE_H

#include "core/tensor/tensor.h"

typedef struct {
  const char *name; /* "cuda" */
  /* Returns memory, or NULL and an error: GM_ERROR_MEMORY.  bytes > 0. */
  void *(*alloc) (size_t bytes, GError **error);
  void (*release) (void *owner, void *data, size_t bytes); /* of a storage */
  /* Copies bytes; false: an error is set. Device numbers are GmDeviceType: one of the two is this
   * device, the other is this device or the CPU. */
  bool (*copy) (void *to, int to_device, const void *from, int from_device, size_t bytes,
                GError **error);
  /* Sets bytes to 0; false: an error is set. */
  bool (*zero) (void *to, size_t bytes, GError **error);
  bool (*synchronize) (GError **error);
} GmDevice;

const char *gm_device_name (int device); /* "cpu", "cuda" */
/* Finds the device of "cpu" or "cuda", with ":0" or without; false: there is no such device. */
bool gm_device_find (const char *name, int *device);
/* Returns advice for an error's text: the device to name instead of a device that does not exist.
 */
const char *gm_device_instead (const char *name);
/* Returns the device of new tensors if none is named, per thread: the CPU until
 * gm_default_device_set. */
int gm_default_device (void);
void gm_default_device_set (int device);
/* Returns the device, opened at the first call; NULL: *error says why there is none.  Not for the
 * CPU. */
const GmDevice *gm_device_get (int device, GError **error);
/* Opens a device for gm_device_get. Set once, by core/plugin. */
extern const GmDevice *(*gm_device_open) (int device, GError **error);

/* Returns t's elements on a device as a new reference: row-major or with t's strides if it is
 * dense; t itself if it is there already. NULL: an error is set. */
GmTensor *gm_tensor_to_device (GmTensor *t, int device, GError **error);

#endif
