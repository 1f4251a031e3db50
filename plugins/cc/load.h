/* SPDX-License-Identifier: Apache-2.0
 * load.h -- loads the bytes of a shared object as code into this process.
 */
#ifndef CC_LOAD_H
#define CC_LOAD_H

#include <gramme-plugin-util.h>

typedef struct {
  void *library;
} CcCode;

/* Loads the artefact of a job.  Thread: any. */
int32_t cc_load (CcCode *code, const void *bytes, size_t n, GrammeStatus *status);
/* Returns the address of a symbol; NULL if it does not exist. */
void *cc_symbol (const CcCode *code, const char *name);
void cc_unload (CcCode *code);

#endif
