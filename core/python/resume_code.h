/* SPDX-License-Identifier: Apache-2.0
 * resume_code.h -- code objects that take a function up in its middle.
 *
 * All are made from the original code, so that paths that meet again share them.  A point is cached
 * with the original code object, under all that its code depends on.  Its function takes, all
 * positional, the variables that are bound and live in slot order, then the stack bottom to top
 * without the NULLs; its free variables are the original's cells and free variables in slot order.
 * The rest of a function is recorded from the original's instructions, whatever its length: a code
 * object is written only where it runs as plain Python.
 */
#ifndef GM_PYTHON_RESUME_CODE_H
#define GM_PYTHON_RESUME_CODE_H

#include "core/python/code_cache.h"

#include "core/trace/trace.h"

typedef enum {
  GM_POINT_REST, /* goes on with `insn` */
  GM_POINT_STEP, /* executes `insn` and returns a tuple: gm_resume_marker[k], the frame if it is kept (see kept_frame.h) or None,
                    then the arguments of next[k] */
  GM_POINT_CALL, /* the same for a caller: instead of its call it calls its last argument, without arguments */
  GM_POINT_KEPT, /* goes on with `insn` as plain Python; its last argument is the frame before, which something keeps */
  GM_POINT_SPAN, /* executes the stretch that begins with `insn` (see core/trace/span.h), and returns gm_resume_marker[2], the frame
                    likewise, the number of the exit, then all variables of the stretch, gm_resume_unbound for those that have no value, and the stack */
  GM_POINT_LEAVE, /* the same, to beyond all handlers of the user's */
} GmPointKind;

typedef struct GmResumePoint {
  gatomicrefcount refs;
  uint8_t kind;
  struct GmOriginal *original; /* owned */
  GmRecordStart at; /* with `kind` the key, in terms of the original code; its locals are owned and ascend */
  /* what it made */
  uint32_t n_args;
  PyCodeObject *code;  /* owned.  Of a REST: NULL until it has to run as Python */
  GmCodeCache *cache;  /* of a REST: its entries; owned */
  struct GmResumePoint *next[2]; /* REST, after it and where it jumps; owned; NULL if it never gets there */
  GArray *exits;    /* of a stretch, or of the handler of a STEP or CALL, which ends as a stretch does: GmSpanExit; or NULL */
  GArray *insns;    /* uint32_t: what it consists of, ascending */
  GPtrArray *rests; /* and those that it has led to; GmResumePoint, owned */
  uint32_t *slots, n_slots; /* the plain variables that it has or may write, ascending */
} GmResumePoint;

extern PyObject *gm_resume_marker[3], *gm_resume_unbound;

static inline bool
gm_point_is_rest (const GmResumePoint *p)
{
  return p->kind == GM_POINT_REST || p->kind == GM_POINT_KEPT;
}

static inline bool
gm_point_is_span (const GmResumePoint *p)
{
  return p->kind >= GM_POINT_SPAN;
}

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
/* The code object of a point, written on first use (kind, key, n_args, next are set): a long one where it has to hold the rest of
 * the function.  Borrowed; NULL with an exception. */
PyCodeObject *gm_resume_code (GmResumePoint *point);
/* Where it goes on after `p` has returned `result`, with that marker: at a REST or, if the frame is kept, at a KEPT; and the arguments of that
 * point, the items of *args from *first on.  New references.  NULL with an exception. */
GmResumePoint *gm_resume_point_after (GmResumePoint *p, int marker, PyObject *result, PyObject **args, uint32_t *first);
GmResumePoint *gm_resume_point_ref (GmResumePoint *point);
void gm_resume_point_unref (GmResumePoint *point);

/* The points of an original code object.  Their entries go with them. */
void gm_resume_table_free (GHashTable *table); /* NULL is fine */
GPtrArray *gm_resume_table_caches (GHashTable *table); /* GmCodeCache, borrowed */

int gm_py_init_resume_point (void);

#endif
