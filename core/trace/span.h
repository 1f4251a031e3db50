/* SPDX-License-Identifier: Apache-2.0
 * span.h -- a stretch of a function that Python executes as a whole, and where the recording can go on after it.
 */
#ifndef GM_TRACE_SPAN_H
#define GM_TRACE_SPAN_H

#include "core/trace/trace.h"

/* What is known of a stack: its depth, and which entries are NULL, of either kind (see GmBreakFrame). */
typedef struct {
  uint32_t depth;
  uint64_t nulls, unbound;
} GmStackShape;

/* After an instruction of a frame that began at `start`, when it falls through or when it jumps.  Beyond 63 entries the bits are lost. */
GmStackShape gm_stack_after (const GmRecordStart *start, const GmInsn *i, GmStackShape s, bool jumps);

typedef struct {
  uint32_t insn;
  GmStackShape stack;
} GmSpanExit;

/* The places where the stretch that begins with `start` ends, GmSpanExit, in the order of their instructions; new.  Each begins another
 * line, with no more on the stack than there was at the start, and no exception is being handled.  What covers it covers the start, too;
 * with `leave` no handler of the user's covers it.  The paths that return or raise end nowhere else.  insns (uint32_t, or NULL) gets the
 * instructions of the stretch, the exits left out. */
GArray *gm_span_exits (const GmCode *code, const GmRecordStart *start, bool leave, GArray *insns);

/* The same of the handler that covers start->insn, which must have one: what runs if that instruction raises. */
GArray *gm_span_handler_exits (const GmCode *code, const GmRecordStart *start, GArray *insns);

#endif
