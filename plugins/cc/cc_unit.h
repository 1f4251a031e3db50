/* SPDX-License-Identifier: Apache-2.0
 * cc_unit.h -- the text of several programs as one unit of C, and binding its code to this process.
 */
#ifndef GM_CC_CC_UNIT_H
#define GM_CC_CC_UNIT_H

#include "plugins/cc/load.h"
#include "plugins/codegen/print_c.h"
#include "plugins/codegen/slice.h"

/* Options of the compiler besides the flags of GrammeSource: the arithmetic as it is written, no
 * contraction, and a shared object that refers to no library, and uses its own symbols where
 * another library has the same names. */
#define CC_UNIT_FLAGS                                                                              \
  "-x c -std=gnu11 -O2 -fPIC -shared -nostdlib -ffp-contract=off -fno-math-errno "                 \
  "-fno-strict-aliasing "                                                                          \
  "-fno-tree-loop-distribute-patterns -fno-stack-protector -fno-asynchronous-unwind-tables -w "    \
  "-pipe "                                                                                         \
  "-Wl,-z,noexecstack -Wl,-z,relro -Wl,-Bsymbolic"

/* Returns the text of the unit, from malloc: the parts of the host's source that are needed, then
 * the programs. `externals` gets the symbols of the source. NULL: no memory. */
char *cc_unit_text (const CgSource *source, CgText *const *parts, uint32_t n, CgText *externals,
                    size_t *len);
/* Fills in the pointers that `symbols`, of a part or of the externals, has in the loaded code. */
int32_t cc_unit_bind (const CcCode *code, const CgText *symbols, const GrammeSource *host,
                      GrammeStatus *status);

#endif
