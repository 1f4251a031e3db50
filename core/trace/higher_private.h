/* SPDX-License-Identifier: Apache-2.0
 * higher_private.h -- what the files that trace bodies share: higher.c, higher_changes.c, higher_take.c.
 */
#ifndef GM_TRACE_HIGHER_PRIVATE_H
#define GM_TRACE_HIGHER_PRIVATE_H

#include "core/trace/recorder.h"

/* What a body reads of the graph around it. */
typedef struct {
  GmValueId value;        /* there; GM_NO_ID: a tensor that only bodies have touched */
  PyObject *real;         /* then: it, and how it was found */
  const GmSource *source;
  const char *name;
  GmMeta meta;
} GmHigherCaptured;

typedef struct {
  GmRecorder *r;
  GmOp op;
  GmMark mark;
  GArray *captured; /* GmHigherCaptured: of all bodies, in the order of first use */
  const GmTracker *const *operands;
  uint32_t n_operands, n_carried, n_mapped;
  int64_t block; /* associative_scan: how many slices a body is given, a size that only its calls say */
  bool reverse;
  bool draws; /* some body does: the generator's state is operand, input and result number n_carried */
} GmHigherTrace;

/* A traced body. */
typedef struct {
  const char *name;
  const GmTracker *fn;
  GmGraph *graph;
  PyObject *spec;   /* how the results make up what the function returned; borrowed */
  uint32_t n_stand_ins; /* what fn takes */
  uint32_t n_own;       /* inputs of its graph before those that are captured: the generator's state is among them */
  uint32_t state_at;    /* the result that is how it leaves that; not where there is a block */
  GmEffectState *effects;
  GArray *slots;    /* GmHigherSlot: what it left changed of what existed before */
} GmHigherBody;

typedef struct {
  uint32_t object, key;
  const GmTracker *before, *now;
} GmHigherSlot;

/* Breaks: why the call cannot be captured.  Gives poison. */
const GmTracker *gm_higher_refuse (const GmHigherTrace *c, const char *format, ...) G_GNUC_PRINTF (2, 3);
const char *gm_higher_op_name (const GmHigherTrace *c);
GmValueId gm_higher_value_of (GmRecorder *r, const GmTracker *tensor);

/* higher_changes.c: notes what the body that was just run left changed; false: what it may not change. */
bool gm_higher_look_at_changes (const GmHigherTrace *c, GmHigherBody *b);
/* Whether both changed the same; refuses with the difference. */
bool gm_higher_same_changes (const GmHigherTrace *c, const GmHigherBody *a, const GmHigherBody *b);

/* higher_take.c: the nodes from first_node on as a graph that gives `results`.  stand_ins: with the generator's state among them. */
bool gm_higher_take_out (GmHigherTrace *c, GmHigherBody *b, const GmValueId *stand_ins, uint32_t first_node, const GmValueId *results,
                         uint32_t n_results);
/* A body's inputs behind the stand-ins are what all bodies read, as far as it is known yet. */
void gm_higher_add_inputs (const GmHigherTrace *c, GmHigherBody *b);

#endif
