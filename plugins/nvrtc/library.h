/* SPDX-License-Identifier: Apache-2.0
 * library.h -- the driver, NVRTC and cuBLASLt, opened at run time.
 *
 * Nothing of CUDA is needed to build this plugin.  Each library is searched once, when it is first
 * needed, and stays open; the files that were tried and the missing names are kept as text.
 * GRAMME_CUDA_DRIVER, GRAMME_NVRTC and GRAMME_CUBLASLT name other files (absolute paths).
 *
 * Thread: any.  Owner: the tables live as long as the process.
 */
#ifndef NVRTC_LIBRARY_H
#define NVRTC_LIBRARY_H

#include <gramme-plugin-util.h>

#include <stdbool.h>

typedef unsigned long long NvAddress; /* an address of the device's memory */

typedef struct {
#define CUDA(name, parameters) int (*name) parameters;
#include "plugins/nvrtc/cuda.def"
  int version;   /* 13000 means 13.0 */
  int n_devices; /* at least 1 */
} NvCuda;

typedef struct {
#define NVRTC(name, parameters) int (*name) parameters;
#define NVRTC_MAYBE NVRTC
#include "plugins/nvrtc/nvrtc.def"
  int major, minor;
  int n_archs, archs[32]; /* 75 means sm_75; in ascending order */
} NvCompiler;

typedef struct {
#define CUBLAS(name, parameters) int (*name) parameters;
#include "plugins/nvrtc/cublas.def"
} NvCublas;

/* Returns the driver.  NULL: *why says which files were tried and what to do. */
const NvCuda *nv_cuda (const char **why);
/* Sets *out to the device's compute capability, 90 for sm_90; returns a result of the driver, 0 for
 * success. */
int nv_cuda_capability (const NvCuda *c, int device, int *out);
const NvCompiler *nv_compiler (const char **why);
const NvCublas *nv_cublas (const char **why);
/* Return the files that were opened, or NULL. */
const char *nv_cuda_file (void);
const char *nv_compiler_file (void);
const char *nv_cublas_file (void);
/* Visits all files that decide which NVRTC is, or would be, opened: every existing file that could
 * be it. */
void nv_compiler_visit (void (*visit) (void *data, const char *file), void *data);
/* Writes "an illegal address (CUDA_ERROR_ILLEGAL_ADDRESS, 700)". */
void nv_cuda_error (char *out, size_t room, int result);

#endif
