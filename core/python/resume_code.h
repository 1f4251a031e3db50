/* SPDX-License-Identifier: Apache-2.0
 * resume_code.h -- code objects that take a function up in its middle.
 *
 * All are made from the original code, so that paths that meet again share them.  A point is cached
 * on the original code object, under all that its code depends on.  Its function takes, all
 * positional, the variables that are bound and live in slot order, then the stack bottom to top
 * without the NULLs; its free variables are the original's cells and free variables in slot order.
 */
#ifndef GM_PYTHON_RESUME_CODE_H
#define GM_PYTHON_RESUME_CODE_H

#include "core/trace/trace.h"

typedef enum {
  GM_POINT_REST, /* goes on with `insn` */
  GM_POINT_STEP, /* executes `insn` and returns a tuple: gm_resume_marker[k], then the arguments of next[k] */
  GM_POINT_CALL, /* the same for a caller: instead of its call it calls its last argument, without arguments */
} GmPointKind;

typedef struct GmResumePoint {
  gatomicrefcount refs;
  uint8_t kind;
  /* the key, in terms of the original code */
  uint32_t insn, depth;
  uint64_t nulls, unbound, away; /* as in GmBreakFrame */
  uint32_t n_locals;
  uint32_t *locals; /* slots, ascending */
  /* what it made */
  uint32_t n_args;
  PyCodeObject *code; /* owned */
  struct GmResumePoint *next[2]; /* REST, after it and where it jumps; owned; NULL if it never gets there */
} GmResumePoint;

extern PyObject *gm_resume_marker[2];

static inline bool
gm_point_bit (uint64_t bits, uint32_t k)
{
  return k < 64 && bits >> k & 1;
}

/* The point for a frame of a recording; `kind` and `depth` as in the frame.  New reference.  NULL: it cannot be made, with *why
 * (static text), or with a Python exception and *why NULL. */
GmResumePoint *gm_resume_point_get (const GmBreakFrame *frame, GmPointKind kind, const char **why);
/* The last instruction of the step that begins with `insn`.  A TO_BOOL is executed together with the jump that it is for. */
uint32_t gm_resume_step_end (const GmCode *code, uint32_t insn);
/* Writes the code object of a point (kind, key, n_args, next are set).  New reference, or NULL as above. */
PyCodeObject *gm_resume_code_new (const GmCode *code, const GmResumePoint *point, const char **why);
GmResumePoint *gm_resume_point_ref (GmResumePoint *point);
void gm_resume_point_unref (GmResumePoint *point);

/* What a resume function's code object is made from, in that code's cache. */
typedef struct GmOrigin {
  PyCodeObject *code; /* borrowed: NULL when it has died */
  uint32_t n_units, first_unit; /* first_unit: where the original begins */
  uint32_t *step;   /* new unit of an opcode -> the original's step; UINT32_MAX in the prefix */
  uint32_t n_slots;
  uint32_t *slot;   /* new -> original, UINT32_MAX for places of the stack */
} GmOrigin;
void gm_origin_free (GmOrigin *origin);
/* Decoded instructions before the user's; 0 for code that is no resume function. */
uint32_t gm_origin_n_prefix (const GmOrigin *origin, const GmCode *decoded);
const uint32_t *gm_origin_slots (const GmOrigin *origin); /* per slot: the original's; NULL for NULL */
/* The points of an original code object. */
void gm_resume_table_free (GHashTable *table);
GPtrArray *gm_resume_table_caches (GHashTable *table); /* of their code objects; GmCodeCache, borrowed */

int gm_py_init_resume_point (void);

#endif
