/* SPDX-License-Identifier: Apache-2.0
 * gpu_keep.h -- the stored form of compiled kernels, and their fingerprint.
 *
 * Stored are the image that the driver loads, and a digest of the text that it was compiled from.
 * The text is printed again when the image is read, which costs little compared with compiling: it
 * determines the launches, and shows that the kernels fit.  So a process that finds its kernels
 * never opens NVRTC.
 */
#ifndef GM_NVRTC_GPU_KEEP_H
#define GM_NVRTC_GPU_KEEP_H

#include "plugins/codegen/digest.h"
#include "plugins/nvrtc/compiler.h"

/* Computes the digest of everything that decides what is compiled and if it can be loaded: the
 * GPUs' architectures, the driver's version, and the file of NVRTC, which is not opened for
 * this. */
void nv_fingerprint (uint8_t out[32]);

uint64_t nv_kept_bytes (const NvImage *image);
void nv_kept_write (void *out, const CgDigest *text, const char *arch, const NvImage *image);
/* Reads the stored form. DATA if the bytes do not have this form, are damaged, or were made from
 * another text. arch: gets 32 bytes; image: owned by the caller. */
int32_t nv_kept_read (const void *bytes, uint64_t n, const CgDigest *text, char *arch,
                      NvImage *image, GrammeStatus *status);

#endif
