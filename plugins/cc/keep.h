/* SPDX-License-Identifier: Apache-2.0
 * keep.h -- what makes compiled code fit to be kept: a fingerprint of its compiler.
 */
#ifndef CC_KEEP_H
#define CC_KEEP_H

#include "plugins/codegen/digest.h"
#include "plugins/codegen/text.h"

/* Of a compiler, as job.h takes it, and its flags: the words, and of each that is a program the file that it is. */
void cc_fingerprint (const char *compiler, const char *flags, uint8_t out[32]);

/* What is kept: a header with the digest of the text that was compiled, the names of `externals`, a shared object. */
uint64_t cc_kept_bytes (const CgText *externals, uint64_t code_bytes);
void cc_kept_write (void *out, const CgDigest *text, const CgText *externals, const void *code,
                    uint64_t code_bytes);
/* DATA if these bytes are nothing of the kind, or were made from another text.  *code points into them. */
int32_t cc_kept_read (const void *bytes, uint64_t n, const CgDigest *text, CgText *externals,
                      const void **code, size_t *code_bytes, GrammeStatus *status);

#endif
