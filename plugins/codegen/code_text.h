/* SPDX-License-Identifier: Apache-2.0
 * code_text.h -- generated text, and the symbols that it refers to.
 *
 * Symbols are collected while a body is printed, and declared in front of it afterwards.  Running
 * out of memory is recorded in `oom`, which is checked once, at the end.
 */
#ifndef GM_CODEGEN_CODE_TEXT_H
#define GM_CODEGEN_CODE_TEXT_H

#include "plugins/codegen/program.h"

typedef struct {
  char name[GRAMME_TILE_NAME_BYTES];
  uint32_t kind; /* GRAMME_TILE_...; 0: data; CG_SYMBOL_RUN: the host's gm_run_kernel */
  const void *address;
} CgSymbol;
#define CG_SYMBOL_RUN 1000u
#define CG_SYMBOL_EXTERNAL 1001u  /* defined by the host's source */
#define CG_SYMBOL_RUN_SIZED 1002u /* CG_SYMBOL_RUN for kernels with sizes that the run gives */
#define CG_SYMBOL_RUN_PARTS 1003u /* parts.h */

typedef struct {
  char *text;
  size_t len, room;
  CgSymbol *symbols;
  uint32_t n_symbols, symbol_room;
  GrammeKernel **kernels; /* used by CALL and COPY steps */
  uint32_t n_kernels;
  void **fills; /* tiles filled with literals, referred to by symbols */
  uint32_t n_fills, fill_room;
  uint64_t *fill_bits;
  uint32_t *fill_elems;
  uint64_t ws_bytes;     /* bytes of the workspace's fixed part */
  int64_t dynamic_bytes; /* bytes of the dynamic part after it */
  /* Prefix of the names of data, so that several programs can share a unit. */
  const char *prefix;
  /* NULL: symbols are functions and data themselves; else pointers to be filled in */
  const GrammeSource *source;
  char *functions; /* text of the functions that the printed function calls */
  size_t functions_len, functions_room;
  bool sized; /* the image has symbolic sizes */
  bool oom;
  GrammeStatus *status;
  int32_t code;
} CgText;

void put (CgText *t, const char *format, ...) GRAMME_PRINTF (2, 3);
/* Returns a size as an expression of C, and records that the text uses it.  SIZE and BYTES (times a
 * number of bytes) are for arguments of `put`. */
#define CG_SIZE_TEXT_BYTES 24
const char *codegen_size_text (const CgProgram *p, int64_t size, char text[CG_SIZE_TEXT_BYTES]);
#define SIZE(p, size) codegen_size_text ((p), (size), (char[CG_SIZE_TEXT_BYTES]){ 0 })
#define BYTES(p, size, bytes) SIZE (p, codegen_size_mul ((p)->sizes, (size), (bytes)))
/* Makes the following text belong to this scope of size variables; CG_SCOPE_LOOP begins empty. */
void codegen_scope_begin (const CgProgram *p, int scope);
/* Defines z<row> for every size that was used in this scope, from the image's sizes in `sz`. */
void put_sizes (CgText *t, const CgProgram *p);

/* Adds a symbol unless the name exists. */
void add_symbol (CgText *t, const char *name, uint32_t kind, const void *address);
/* Adds the primitive's symbol, and copies its name to `name`. */
void add_tile (CgText *t, const CgProgram *p, uint32_t kind, uint32_t op, uint32_t dtype,
               uint32_t from, char name[GRAMME_TILE_NAME_BYTES]);
void add_cast (CgText *t, const CgProgram *p, uint32_t from, uint32_t to,
               char name[GRAMME_TILE_NAME_BYTES]);
/* Adds a tile filled with one value, as the symbol <prefix>k<result>. */
uint32_t add_fill (CgText *t, const CgProgram *p, uint64_t bits, uint32_t elem_bytes);
/* Prints the address of a value's first element. */
void put_address (CgText *t, const CgProgram *p, uint32_t value);
/* Declares the symbols of `of`. */
void put_declarations (CgText *t, const CgText *of);
void codegen_text_free (CgText *t, const GrammeKernels *kernels);

#endif
