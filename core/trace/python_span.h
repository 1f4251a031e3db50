/* SPDX-License-Identifier: Apache-2.0
 * python_span.h -- a stretch of a function that Python executes as a whole, and where the recording
 * can go on after it.
 */
#ifndef GM_TRACE_PYTHON_SPAN_H
#define GM_TRACE_PYTHON_SPAN_H

#include "core/trace/trace.h"

/* The known shape of a stack: its depth, and the entries that are NULL, of either kind (see
 * GmBreakFrame). */
typedef struct {
  uint32_t depth;
  uint64_t nulls, unbound;
} GmStackShape;

/* Returns the shape after an instruction of a frame that began at `start`, when it falls through or
 * when it jumps. Bits of entries beyond 63 are lost. */
GmStackShape gm_stack_after (const GmRecordStart *start, const GmInsn *i, GmStackShape s,
                             bool jumps);

typedef struct {
  uint32_t insn;
  GmStackShape stack;
} GmSpanExit;

/* Returns the places where the stretch that begins with `start` ends, a new array of GmSpanExit in
 * the order of their instructions. At each exit another line begins, the stack is no deeper than at
 * the start, and no exception is being handled. A handler that covers an exit covers the start,
 * too; with `leave` no handler of the user's covers an exit. The paths that return or raise end
 * nowhere else. insns (uint32_t, or NULL) gets the instructions of the stretch, the exits left
 * out. */
GArray *gm_python_span_exits (const GmCode *code, const GmRecordStart *start, bool leave,
                              GArray *insns);

/* The same for the handler that covers start->insn, which must have one: the instructions that run
 * if that instruction raises. */
GArray *gm_python_span_handler_exits (const GmCode *code, const GmRecordStart *start,
                                      GArray *insns);

#endif
