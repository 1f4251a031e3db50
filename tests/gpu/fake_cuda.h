/* SPDX-License-Identifier: Apache-2.0
 * fake_cuda.h -- what libraries beside the fake driver need of it.
 */
#ifndef TESTS_GPU_FAKE_CUDA_H
#define TESTS_GPU_FAKE_CUDA_H

#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__ ((visibility ("default")))

/* Calls run with a copy of these bytes when the stream has come so far.  A result of the driver; run's is one, too. */
int fake_enqueue (void *stream, int (*run) (void *data), const void *data, size_t bytes);
/* Within run: the host's address of device memory; NULL if these bytes are none. */
char *fake_memory (uint64_t address, size_t bytes);

#endif
