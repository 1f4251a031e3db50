/* SPDX-License-Identifier: Apache-2.0
 * kept_units.c -- see kept_units.h.
 */
#include "plugins/cc/kept_units.h"

#include <stdlib.h>
#include <sys/stat.h>

static const char magic[8] = "gmcc0001";

/* -- The compiler ------------------------------------------------------------------------------ */

/* Adds the identity of a program's file, found on PATH as posix_spawnp does, to the digest. */
static void
add_program (CgDigest *d, const char *word)
{
  char path[4096], *save = NULL;
  const char *list = getenv ("PATH");
  if (strchr (word, '/')) {
    codegen_digest_add_file (d, word);
    return;
  }
  char *folders = strdup (list ? list : "/bin:/usr/bin");
  for (char *f = folders ? strtok_r (folders, ":", &save) : NULL; f;
       f = strtok_r (NULL, ":", &save)) {
    struct stat st;
    int n = snprintf (path, sizeof path, "%s/%s", f, word);
    if (n > 0 && n < (int) sizeof path && stat (path, &st) == 0 && S_ISREG (st.st_mode)) {
      codegen_digest_add_file (d, path);
      break;
    }
  }
  free (folders);
}

void
cc_fingerprint (const char *compiler, const char *flags, uint8_t out[32])
{
  static const char *const variables[] = { "CPATH", "C_INCLUDE_PATH", "GCC_EXEC_PREFIX",
                                           "COMPILER_PATH", "CCC_OVERRIDE_OPTIONS" };
  CgDigest d;
  char *words = strdup (compiler), *save = NULL;
  codegen_digest_init (&d);
  codegen_digest_add (&d, compiler, strlen (compiler));
  codegen_digest_add (&d, flags, strlen (flags));
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
    const char *value = getenv (variables[i]);
    codegen_digest_add (&d, value ? value : "", value ? strlen (value) : 0);
  }
  /* Each word that is not an option may be a program: "ccache gcc" is two. */
  for (char *w = words ? strtok_r (words, " ", &save) : NULL; w; w = strtok_r (NULL, " ", &save))
    if (w[0] != '-')
      add_program (&d, w);
  free (words);
  memcpy (out, d.words, 32);
}

/* -- Stored code ------------------------------------------------------------------------------- */

typedef struct {
  char magic[8];
  uint64_t code_bytes;
  CgDigest text;
  uint32_t n_names, reserved[3]; /* n_names: names of GRAMME_TILE_NAME_BYTES each */
} Header;

uint64_t
cc_kept_bytes (const CgText *externals, uint64_t code_bytes)
{
  return sizeof (Header) + (uint64_t) externals->n_symbols * GRAMME_TILE_NAME_BYTES + code_bytes;
}

void
cc_kept_write (void *out, const CgDigest *text, const CgText *externals, const void *code,
               uint64_t code_bytes)
{
  Header h = { .code_bytes = code_bytes, .text = *text, .n_names = externals->n_symbols };
  char *at = (char *) out + sizeof h;
  memcpy (h.magic, magic, sizeof magic);
  memcpy (out, &h, sizeof h);
  for (uint32_t i = 0; i < h.n_names; i++, at += GRAMME_TILE_NAME_BYTES) {
    memset (at, 0, GRAMME_TILE_NAME_BYTES);
    memcpy (at, externals->symbols[i].name,
            strnlen (externals->symbols[i].name, GRAMME_TILE_NAME_BYTES - 1));
  }
  memcpy (at, code, code_bytes);
}

int32_t
cc_kept_read (const void *bytes, uint64_t n, const CgDigest *text, CgText *externals,
              const void **code, size_t *code_bytes, GrammeStatus *status)
{
  Header h;
  const char *names = (const char *) bytes + sizeof h;
  if (n < sizeof h)
    return gramme_fail (status, GRAMME_DATA, -1, "these %llu bytes are too few",
                        (unsigned long long) n);
  memcpy (&h, bytes, sizeof h);
  uint64_t rest = n - sizeof h;
  if (memcmp (h.magic, magic, sizeof magic) != 0 || h.reserved[0] || h.reserved[1] || h.reserved[2]
      || h.n_names > rest / GRAMME_TILE_NAME_BYTES
      || h.code_bytes != rest - (uint64_t) h.n_names * GRAMME_TILE_NAME_BYTES)
    return gramme_fail (status, GRAMME_DATA, -1, "these bytes are not kept code of this version");
  if (memcmp (&h.text, text, sizeof *text) != 0)
    return gramme_fail (status, GRAMME_DATA, -1, "the kept code was compiled from another text");
  for (uint32_t i = 0; i < h.n_names; i++, names += GRAMME_TILE_NAME_BYTES) {
    if (!memchr (names, 0, GRAMME_TILE_NAME_BYTES))
      return gramme_fail (status, GRAMME_DATA, -1, "a name in the kept code has no end");
    add_symbol (externals, names, CG_SYMBOL_EXTERNAL, NULL);
  }
  if (externals->oom)
    return gramme_fail (status, GRAMME_NO_MEMORY, -1, "no memory for %u names", h.n_names);
  *code = names;
  *code_bytes = h.code_bytes;
  return GRAMME_OK;
}
