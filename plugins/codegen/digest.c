/* SPDX-License-Identifier: Apache-2.0
 * digest.c -- see digest.h.
 */
#include "plugins/codegen/digest.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void
codegen_digest_init (CgDigest *d)
{
  for (int i = 0; i < 4; i++)
    d->words[i] = 0xcbf29ce484222325u + 0x9e3779b97f4a7c15u * (uint64_t) i;
}

static void
mix (CgDigest *d, uint64_t word)
{
  static const uint64_t primes[] = { 0x9e3779b185ebca87u, 0xc2b2ae3d27d4eb4fu, 0x165667b19e3779f9u,
                                     0x27d4eb2f165667c5u };
  for (int i = 0; i < 4; i++) {
    d->words[i] = (d->words[i] ^ word) * primes[i];
    d->words[i] ^= d->words[i] >> (29 + i);
  }
}

void
codegen_digest_add (CgDigest *d, const void *data, size_t bytes)
{
  const char *at = data;
  mix (d, bytes);
  for (; bytes >= 8; bytes -= 8, at += 8) {
    uint64_t word;
    memcpy (&word, at, 8);
    mix (d, word);
  }
  uint64_t last = 0;
  memcpy (&last, at, bytes);
  mix (d, last);
}

void
codegen_digest_add_file (CgDigest *d, const char *path)
{
  struct stat st;
  char *real = realpath (path, NULL);
  if (real && stat (real, &st) == 0) {
    const uint64_t facts[] = { st.st_dev,
                               st.st_ino,
                               (uint64_t) st.st_size,
                               (uint64_t) st.st_mtim.tv_sec,
                               (uint64_t) st.st_mtim.tv_nsec,
                               (uint64_t) st.st_ctim.tv_sec,
                               (uint64_t) st.st_ctim.tv_nsec };
    codegen_digest_add (d, real, strlen (real));
    codegen_digest_add (d, facts, sizeof facts);
  }
  free (real);
}
