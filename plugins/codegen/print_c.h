/* SPDX-License-Identifier: Apache-2.0
 * print_c.h -- a program as the text of a C driver over the host's tiles.
 *
 * The text includes nothing, holds no floating-point arithmetic (constants go by their bits) and no
 * writable static data, so that the simplest C compiler gets every bit right.  All it refers to is
 * in the table of symbols. int NAME (char *const *in, char *const *out, char *ws, void *status) in,
 * out: addresses of the first elements; ws: ws_bytes, 64-byte aligned; returns a GRAMME_ status.
 */
#ifndef CODEGEN_PRINT_C_H
#define CODEGEN_PRINT_C_H

#include "plugins/codegen/program.h"

typedef struct {
  char name[GRAMME_TILE_NAME_BYTES];
  uint32_t kind; /* GRAMME_TILE_...; 0: data; CG_SYMBOL_RUN: the host's gm_run_kernel */
  const void *address;
} CgSymbol;
#define CG_SYMBOL_RUN 1000u

typedef struct {
  char *text;
  size_t len, room;
  CgSymbol *symbols;
  uint32_t n_symbols, symbol_room;
  GrammeKernel **kernels; /* used by CALL and COPY steps */
  uint32_t n_kernels;
  void **fills; /* literals as tiles, referred to by symbols */
  uint32_t n_fills, fill_room;
  uint64_t *fill_bits;
  uint32_t *fill_elems;
  uint64_t ws_bytes;
  bool oom;
  GrammeStatus *status;
  int32_t code;
} CgText;

/* GRAMME_OK, NO_MEMORY, or what preparing a kernel said.  On success everything in `out` is the
 * caller's: codegen_text_free. The text and its symbols refer to p->consts: keep them as long as
 * the code runs. */
int32_t codegen_print_c (const CgProgram *p, const char *name, CgText *out, GrammeStatus *status);
void codegen_text_free (CgText *t, const GrammeKernels *kernels);

#endif
