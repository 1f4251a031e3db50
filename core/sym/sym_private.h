/* SPDX-License-Identifier: Apache-2.0
 * sym_private.h -- declarations shared by sym.c and sym_text.c.
 */
#ifndef GM_SYM_SYM_PRIVATE_H
#define GM_SYM_SYM_PRIVATE_H

#include "core/sym/sym.h"

struct GmSym {
  GArray *rows; /* GmSymRow */
  uint32_t n_symbols;
  uint32_t *slots;   /* row + 1, or 0 */
  uint32_t n_slots;  /* a power of two */
  GHashTable *named; /* name of a symbol -> row + 1; NULL while there are few */
};

#endif
