/* SPDX-License-Identifier: Apache-2.0
 * load.h -- the bytes of a shared object as code in this process.
 */
#ifndef CC_LOAD_H
#define CC_LOAD_H

#include <gramme-plugin-util.h>

typedef struct {
  void *library;
} CcCode;

/* Loads what a job made.  Thread: any. */
int32_t cc_load (CcCode *code, const void *bytes, size_t n, GrammeStatus *status);
/* The address of a symbol; NULL: there is none. */
void *cc_symbol (const CcCode *code, const char *name);
void cc_unload (CcCode *code);

#endif
