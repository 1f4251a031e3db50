/* SPDX-License-Identifier: Apache-2.0
 * python_span.h -- a stretch of a function that Python executes as a whole, and where the recording
 * can go on after it.
 */
#ifndef GM_TRACE_PYTHON_SPAN_H
#define GM_TRACE_PYTHON_SPAN_H

#include "core/trace/trace.h"

/* The shape of a stack: its depth, and bits for the entries that are NULLs or variables without a
 * value (see GmBreakFrame). */
typedef struct {
  uint32_t depth;
  uint64_t nulls, unbound;
} GmStackShape;

/* Returns the shape of the stack after the instruction i, given the shape s before it, in a frame
 * that began at `start`. `jumps`: i jumps, else falls through. Bits of entries beyond 63 are
 * dropped. */
GmStackShape gm_stack_after (const GmRecordStart *start, const GmInsn *i, GmStackShape s,
                             bool jumps);

typedef struct {
  uint32_t insn;
  GmStackShape stack;
} GmSpanExit;

/* Returns the exits of the stretch that begins with the instruction of `start`: a new array of
 * GmSpanExit in the order of their instructions. At each exit another line begins, the stack is no
 * deeper than at the start, and no exception is being handled. A handler that covers an exit covers
 * the start, too; with `leave` no handler of the user's covers an exit. All other paths from the
 * start return or raise. insns, an array of uint32_t or NULL, gets the instructions of the stretch
 * without the exits. */
GArray *gm_python_span_exits (const GmCode *code, const GmRecordStart *start, bool leave,
                              GArray *insns);

/* Returns the exits of the handler that covers start->insn, which must have a handler: of the
 * instructions that run if start->insn raises. */
GArray *gm_python_span_handler_exits (const GmCode *code, const GmRecordStart *start,
                                      GArray *insns);

#endif
