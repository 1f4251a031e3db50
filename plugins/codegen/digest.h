/* SPDX-License-Identifier: Apache-2.0
 * digest.h -- tells texts, files and compiled code apart that nobody made up to collide.
 *
 * Four sums of FNV's kind with different primes: no defence, which is the host's affair, but it notices that a generator writes
 * another text than it did, that a tool is another one, or that bytes are damaged.
 */
#ifndef CODEGEN_DIGEST_H
#define CODEGEN_DIGEST_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
  uint64_t words[4];
} CgDigest;

void codegen_digest_init (CgDigest *d);
void codegen_digest_add (CgDigest *d, const void *data, size_t bytes);
/* Which file it is, as it lies there now: name, place, size, times.  Nothing if it is not there. */
void codegen_digest_add_file (CgDigest *d, const char *path);

#endif
