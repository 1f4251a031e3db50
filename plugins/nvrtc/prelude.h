/* SPDX-License-Identifier: Apache-2.0
 * prelude.h -- the text that stands before generated kernels (prelude.cuh).
 */
#ifndef NVRTC_PRELUDE_H
#define NVRTC_PRELUDE_H

#include "plugins/nvrtc/unit.h"

/* The prelude with what `kernels` uses of it, then `kernels`. */
void nv_put_kernels (CgText *t, const char *kernels);

#endif
