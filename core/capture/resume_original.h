/* SPDX-License-Identifier: Apache-2.0
 * resume_original.h -- a code object with breaks: its instructions in the form in which resume
 * functions copy them (opcodes of this Python), and its points.  Made once for each original.
 */
#ifndef GM_CAPTURE_RESUME_ORIGINAL_H
#define GM_CAPTURE_RESUME_ORIGINAL_H

#include "core/objects/cpython.h"

#include "core/cache/cache.h"
#include "core/bytecode/handler_table.h"
#include "core/bytecode/raw_code.h"

#include "core/trace/trace.h"

typedef struct GmOriginal {
  gatomicrefcount refs;
  /* owned: a copy of the function's code object without a reference to its cache, so that the
   * rest of a function after a break may outlive the function */
  PyCodeObject *co;
  GmCode *code; /* owned: the decoded copy; code->original is this */
  /* Cache of the code object that was copied, borrowed; NULL when that has died: no more points
   * are made then. */
  struct GmCodeCache *cache;
  GHashTable *points; /* known points, see resume_code.h; or NULL */
  const char *why;    /* static text: why no resume function can be made; or NULL */
  GArray *raw;        /* GmRaw; an instruction with two effects becomes two */
  GArray *ranges;     /* GmRange: the exception table */
  /* By instruction, and for the end: the beginning of the suffix of the code that contains
   * everything that the instruction can reach. */
  uint32_t *low;
  uint32_t n_units;
  GmCacheKey *profile_key; /* see profile_store.c; NULL until asked for */
} GmOriginal;

/* Returns the original that a decoded code object belongs to: `code`'s own, or that of its
 * cache, made at its first use.  Borrowed.  NULL with an exception. */
GmOriginal *gm_original_get (const GmCode *code);
GmOriginal *gm_original_ref (GmOriginal *o);
void gm_original_unref (GmOriginal *o); /* NULL is fine */
/* Returns the index in `raw` of the first instruction of this step, or of the next step that
 * exists. */
uint32_t gm_original_at (const GmOriginal *o, uint32_t step);
/* Forgets the points of `o` and releases the reference, when the code object dies. */
void gm_original_close (GmOriginal *o);

#endif
