/* SPDX-License-Identifier: Apache-2.0
 * resume_original.h -- a code object with breaks: its instructions as resume functions copy them (opcodes of this Python), and its
 * points.  Made once for each original.
 */
#ifndef GM_PYTHON_RESUME_ORIGINAL_H
#define GM_PYTHON_RESUME_ORIGINAL_H

#include "core/python/cpython.h"

#include "core/cache/cache.h"
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
  gatomicrefcount refs;
  PyCodeObject *co;  /* owned: a copy, which knows nothing of us, so that what goes on after a break may outlive the function */
  GmCode *code;      /* owned: decoded, code->original is this */
  struct GmCodeCache *cache; /* of the code object that `co` is a copy of; NULL when it has died: no points are made any more */
  GHashTable *points; /* those that are known, see resume_code.h; or NULL */
  const char *why;   /* static text: no resume function can be made; or NULL */
  GArray *raw;       /* GmRaw; what does two things is two */
  GArray *ranges;    /* GmRange: the exception table */
  uint32_t *low;     /* per instruction, and for the end: where the suffix that contains all that it can reach begins */
  uint32_t n_units;
  GmCacheKey *profile_key; /* see profile_store.c; NULL until asked for */
} GmOriginal;

/* Of a decoded code object: its own, or that of its cache, made on first use.  Borrowed.  NULL with an exception. */
GmOriginal *gm_original_get (const GmCode *code);
GmOriginal *gm_original_ref (GmOriginal *o);
void gm_original_unref (GmOriginal *o); /* NULL is fine */
/* The first instruction of a step, or of the next one that there is. */
uint32_t gm_original_at (const GmOriginal *o, uint32_t step);
/* Its code object dies: the points are forgotten, and the reference is given up. */
void gm_original_close (GmOriginal *o);

#endif
