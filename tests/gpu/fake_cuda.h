/* SPDX-License-Identifier: Apache-2.0
 * fake_cuda.h -- functions of the fake driver for the libraries beside it.
 */
#ifndef TESTS_GPU_FAKE_CUDA_H
#define TESTS_GPU_FAKE_CUDA_H

#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__ ((visibility ("default")))

/* Queues a call of run with a copy of these bytes on the stream.  Returns a result of the driver,
 * as run does. */
int fake_enqueue (void *stream, int (*run) (void *data), const void *data, size_t bytes);
/* Returns, within run, the host's address of device memory; NULL if the bytes are not device
 * memory. */
char *fake_memory (uint64_t address, size_t bytes);

#endif
