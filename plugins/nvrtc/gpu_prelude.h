/* SPDX-License-Identifier: Apache-2.0
 * gpu_prelude.h -- the text in front of generated kernels (prelude.cuh).
 */
#ifndef GM_NVRTC_GPU_PRELUDE_H
#define GM_NVRTC_GPU_PRELUDE_H

#include "plugins/nvrtc/gpu_unit.h"

/* Appends the parts of the prelude that `kernels` uses, then `kernels`. */
void nv_put_kernels (CgText *t, const char *kernels);

#endif
