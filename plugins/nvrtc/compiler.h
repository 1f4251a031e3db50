/* SPDX-License-Identifier: Apache-2.0
 * compiler.h -- compiles CUDA text to an image that the driver loads.
 */
#ifndef NVRTC_COMPILER_H
#define NVRTC_COMPILER_H

#include "plugins/nvrtc/library.h"

typedef struct {
  char *image; /* a CUBIN, or PTX if the architecture is virtual */
  size_t bytes;
  char *ptx; /* text, if it was requested */
  bool is_ptx;
} NvImage;

/* Sets the architecture for --gpu-architecture: `named` ("sm_90", "compute_90"), or the best for a
 * device of this capability (90), or, if that is 0 too, fails.  out: 32 bytes. */
int32_t nv_compiler_arch (const NvCompiler *c, const char *named, int capability, char *out,
                          GrammeStatus *status);
/* Compiles text.  log: the compiler's messages, malloc'ed, or NULL.  Calls the host's progress for
 * job, if the compiler is new enough to call back. */
int32_t nv_compile (const NvCompiler *c, const GrammeHost *host, void *job, const char *text,
                    const char *arch, bool keep_ptx, NvImage *out, char **log,
                    GrammeStatus *status);
void nv_image_clear (NvImage *image);

#endif
