/* SPDX-License-Identifier: Apache-2.0
 * resume_code.h -- code objects that resume a function in its middle.
 *
 * All are made from the original code, so that paths that meet again share them.  A point is cached
 * with the original code object, under everything that its code depends on.  Its function has only
 * positional parameters: the variables that are bound and live, in slot order, then the stack from
 * bottom to top without the NULLs.  Its free variables are the original's cells and free variables
 * in slot order. The rest of a function is recorded from the original's instructions, whatever its
 * length; a code object is written only where the rest runs as plain Python.
 */
#ifndef GM_CAPTURE_RESUME_CODE_H
#define GM_CAPTURE_RESUME_CODE_H

#include "core/capture/code_cache.h"

#include "core/trace/trace.h"

typedef enum {
  GM_POINT_REST, /* continues with `insn` */
  /* Executes `insn` and returns a tuple: gm_resume_marker[k], the frame object if the program
   * has a reference to it (see kept_frame.h) or None, then the arguments of next[k]. */
  GM_POINT_STEP,
  /* Like a STEP, for the frame of a caller: where the step would call, the code calls its last
   * argument, without arguments. */
  GM_POINT_CALL,
  /* Continues with `insn` as plain Python; its last argument is the frame object of the previous
   * part, which the program has a reference to. */
  GM_POINT_KEPT,
  /* Executes the stretch that begins with `insn` (see core/trace/python_span.h), and returns a
   * tuple: gm_resume_marker[2], the frame as for a STEP, the number of the exit, then all variables
   * of the stretch, gm_resume_unbound for a variable without a value, and the stack. */
  GM_POINT_SPAN,
  GM_POINT_LEAVE, /* a SPAN whose exits are outside of all handlers of the program */
} GmPointKind;

typedef struct GmResumePoint {
  gatomicrefcount refs;
  uint8_t kind;
  struct GmOriginal *original; /* owned */
  /* Key of the point, together with `kind`, in terms of the original code; its locals are owned,
   * in ascending order. */
  GmRecordStart at;
  /* Derived from the key: */
  uint32_t n_args;
  PyCodeObject *code; /* owned; of a REST: NULL until the rest has to run as Python */
  GmCodeCache *cache; /* for a REST: its entries; owned */
  /* For a STEP or CALL: REST points where it falls through and where it jumps to; owned; NULL if
   * it never does. */
  struct GmResumePoint *next[2];
  /* GmSpanExit: exits of a stretch, or of the handler of a STEP or CALL, which ends like a
   * stretch; NULL for other points. */
  GArray *exits;
  GArray *insns;    /* uint32_t: decoded instructions of the stretch or handler, ascending */
  GPtrArray *rests; /* GmResumePoint, owned: REST points at which its exits have continued */
  uint32_t *slots, n_slots; /* plain variables that an exit hands on, ascending */
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

/* Returns the point of this kind for a frame of a recording, made at its first use.  New
 * reference. NULL: it cannot be made, with *why (static text), or with a Python exception and *why
 * NULL. */
GmResumePoint *gm_resume_point_get (const GmBreakFrame *frame, GmPointKind kind, const char **why);
/* Returns the last decoded instruction of the step that begins with `insn`.  A TO_BOOL is
 * executed together with its jump. */
uint32_t gm_resume_step_end (const GmCode *code, uint32_t insn);
/* Returns the code object of a point, written at its first use (kind, key, n_args, next are
 * set). The code is long where it has to contain the rest of the function.  Borrowed; NULL with an
 * exception. */
PyCodeObject *gm_resume_code (GmResumePoint *point);
/* Returns the point at which the function continues after the code of `p` has returned `result`
 * with that marker: a REST or, if the program has the frame object, a KEPT.  Sets *args to a tuple
 * whose items from *first on are the arguments of that point.  New references.  NULL with an
 * exception. */
GmResumePoint *gm_resume_point_after (GmResumePoint *p, int marker, PyObject *result,
                                      PyObject **args, uint32_t *first);
GmResumePoint *gm_resume_point_ref (GmResumePoint *point);
void gm_resume_point_unref (GmResumePoint *point);

/* Frees the table of an original's points and releases the points. */
void gm_resume_table_free (GHashTable *table);         /* NULL is fine */
GPtrArray *gm_resume_table_caches (GHashTable *table); /* GmCodeCache, borrowed */

int gm_py_init_resume_point (void);

#endif
