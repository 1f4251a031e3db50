/* SPDX-License-Identifier: Apache-2.0
 * unit.h -- several programs as one unit of C, and its code bound to this process.
 */
#ifndef CC_UNIT_H
#define CC_UNIT_H

#include "plugins/cc/load.h"
#include "plugins/codegen/print_c.h"
#include "plugins/codegen/slice.h"

/* What the compiler is asked for, besides the flags of GrammeSource: the arithmetic as it is written, no contraction, and a shared
 * object that stands alone, and means its own symbols where another library has the same names. */
#define CC_UNIT_FLAGS \
  "-x c -std=gnu11 -O2 -fPIC -shared -nostdlib -ffp-contract=off -fno-math-errno -fno-strict-aliasing " \
  "-fno-tree-loop-distribute-patterns -fno-stack-protector -fno-asynchronous-unwind-tables -w -pipe " \
  "-Wl,-z,noexecstack -Wl,-z,relro -Wl,-Bsymbolic"

/* The text of the unit, of malloc: what the parts need of the host's source, then the parts.  `externals` gets the symbols of the
 * former.  NULL: no memory. */
char *cc_unit_text (const CgSource *source, CgText *const *parts, uint32_t n, CgText *externals,
                    size_t *len);
/* Fills in the pointers that a part, or the externals, has. */
int32_t cc_unit_bind (const CcCode *code, const CgText *symbols, const GrammeSource *host,
                      GrammeStatus *status);

#endif
