/* SPDX-License-Identifier: Apache-2.0
 * keep.h -- what makes compiled kernels fit to be kept on disk.
 *
 * What is kept is the image that the driver loads, with a digest of the text that it was compiled from.  The text is printed again
 * when it is read, which costs little beside compiling it: it says what to launch, and that the kernels fit.  So a process that
 * finds its kernels never opens NVRTC.
 */
#ifndef NVRTC_KEEP_H
#define NVRTC_KEEP_H

#include "plugins/codegen/digest.h"
#include "plugins/nvrtc/compiler.h"

/* Of what decides what is compiled and whether it can be loaded: the GPUs' architectures, the driver's version, and the file that
 * NVRTC is, or would be: it is not opened for this. */
void nv_fingerprint (uint8_t out[32]);

uint64_t nv_kept_bytes (const NvImage *image);
void nv_kept_write (void *out, const CgDigest *text, const char *arch, const NvImage *image);
/* DATA if these bytes are nothing of the kind, are damaged, or were made from another text.  arch: 32 bytes. */
int32_t nv_kept_read (const void *bytes, uint64_t n, const CgDigest *text, char *arch, NvImage *image, GrammeStatus *status);

#endif
