/* SPDX-License-Identifier: Apache-2.0
 * resume_original.h -- a code object's instructions as resume functions copy them: opcodes of this Python, read once for each original.
 */
#ifndef GM_PYTHON_RESUME_ORIGINAL_H
#define GM_PYTHON_RESUME_ORIGINAL_H

#include "core/python/cpython.h"

#include "core/python/handler_table.h"

#include "core/trace/trace.h"

typedef struct {
  int line, col, end_line, end_col;
} GmPlace;

typedef struct {
  uint8_t opcode;
  uint32_t arg;
  int32_t target; /* of a jump: index of an instruction; -1 */
  GmPlace place;
  uint32_t step;  /* original: as in GmInsn */
  uint32_t start; /* new: where it begins */
  uint32_t units; /* new: with EXTENDED_ARGs and caches */
} GmRaw;

typedef struct GmOriginal {
  PyCodeObject *co;  /* borrowed: it owns the cache that owns us */
  const char *why;   /* static text: no resume function can be made; or NULL */
  GArray *raw;       /* GmRaw; what does two things is two */
  GArray *ranges;    /* GmRange: the exception table */
  uint32_t *low;     /* per instruction, and for the end: where the suffix that contains all that it can reach begins */
  uint32_t n_units;
} GmOriginal;

/* From the cache of the code object, made on first use.  NULL with an exception. */
const GmOriginal *gm_original_get (const GmCode *code);
/* The first instruction of a step, or of the next one that there is. */
uint32_t gm_original_at (const GmOriginal *o, uint32_t step);
void gm_original_free (GmOriginal *original);

#endif
