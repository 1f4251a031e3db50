/* SPDX-License-Identifier: Apache-2.0
 * kept_units.h -- the stored form of compiled code, and the fingerprint of its compiler.
 */
#ifndef GM_CC_KEPT_UNITS_H
#define GM_CC_KEPT_UNITS_H

#include "plugins/codegen/digest.h"
#include "plugins/codegen/code_text.h"

/* Computes the fingerprint of a compiler, in the form of job.h, and its flags: from the words, and
 * from the file of each word that is a program. */
void cc_fingerprint (const char *compiler, const char *flags, uint8_t out[32]);

/* Return the size of the stored form, and write it: a header with the digest of the text that was
 * compiled, the names of `externals`, a shared object. */
uint64_t cc_kept_bytes (const CgText *externals, uint64_t code_bytes);
void cc_kept_write (void *out, const CgDigest *text, const CgText *externals, const void *code,
                    uint64_t code_bytes);
/* Reads the stored form. GRAMME_DATA if the bytes do not have this form, or were made from another
 * text. *code points into `bytes`. */
int32_t cc_kept_read (const void *bytes, uint64_t n, const CgDigest *text, CgText *externals,
                      const void **code, size_t *code_bytes, GrammeStatus *status);

#endif
