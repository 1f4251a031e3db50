/* SPDX-License-Identifier: Apache-2.0
 * jit.h -- compiles C text to code in memory, through libtcc.
 */
#ifndef TCC_JIT_H
#define TCC_JIT_H

#include "plugins/codegen/print_c.h"

typedef struct {
  void *pages;
  size_t bytes;
  void *entry;
} TccCode;

/* Compiles t->text with its symbols and finds the function `name`. The code is read-only and
 * executable, in pages of its own, owned by `code`. GRAMME_INTERNAL if libtcc prints any message:
 * generated text compiles without one. Thread: any (libtcc serialises). */
int32_t tcc_jit (TccCode *code, const CgText *t, const char *name, const GrammeHost *host,
                 void *job, GrammeStatus *status);
void tcc_jit_free (TccCode *code);

#endif
