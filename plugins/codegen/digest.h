/* SPDX-License-Identifier: Apache-2.0
 * digest.h -- distinguishes texts, files and compiled code that were not made to collide.
 *
 * The digest is four sums like FNV's with different primes.  It protects against no attack, which
 * is the host's task, but shows that a generator writes another text than before, that a tool has
 * changed, or that bytes are damaged.
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
/* Adds the identity of a file as it is now: name, inode, size, times.  Adds nothing if the file
 * does not exist. */
void codegen_digest_add_file (CgDigest *d, const char *path);

#endif
