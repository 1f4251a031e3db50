/* SPDX-License-Identifier: Apache-2.0
 * mutate_image.h -- graph images with a few changes, which get past the first checks, unlike random
 * bytes.
 */
#ifndef GM_TESTS_FUZZ_MUTATE_IMAGE_H
#define GM_TESTS_FUZZ_MUTATE_IMAGE_H

#include <stddef.h>
#include <stdint.h>

/* Changes bytes[0 .. n), n >= 8, in place, and returns the new length, at most n.  The same state
 * gives the same mutant. */
size_t gm_mutate_image (uint64_t *state, uint8_t *bytes, size_t n);

#endif
