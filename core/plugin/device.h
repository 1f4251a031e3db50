/* SPDX-License-Identifier: Apache-2.0
 * device.h -- what is known of the GPU that a plugin drives.  Tensors on it: core/tensor/device.h.
 */
#ifndef GM_PLUGIN_DEVICE_H
#define GM_PLUGIN_DEVICE_H

#include <stdint.h>

/* Bytes in use, kept for later, and the most that were in use; zeros before the first use.  Thread: any. */
void gm_device_memory (uint64_t count[3]);
/* After gm_device_get: the model's name. */
const char *gm_device_full_name (void);

#endif
