/* SPDX-License-Identifier: Apache-2.0
 * higher_private.h -- what the files that trace bodies share: higher_order.c, higher_changes.c,
 * higher_take.c.
 */
#ifndef GM_MODELS_HIGHER_PRIVATE_H
#define GM_MODELS_HIGHER_PRIVATE_H

#include "core/trace/recorder.h"

/* A value of the surrounding graph that a body reads, so that it becomes an input of the body. */
typedef struct {
  GmValueId value; /* in the surrounding graph; GM_NO_ID: a tensor that only bodies have
                      read */
  PyObject *real;  /* the object of such a tensor; `source`: its source */
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
  int64_t block; /* associative_scan: number of slices that a body is given, a size that only its
                    calls know */
  bool reverse;
  bool draws; /* a body draws: the generator's state is operand, input and result number
                 n_carried */
} GmHigherTrace;

/* A body of a call, traced into a graph. */
typedef struct {
  const char *name;
  const GmTracker *fn;
  GmGraph *graph;
  PyObject *spec;       /* says how the function's return value is built of the results; borrowed */
  uint32_t n_stand_ins; /* number of arguments of fn */
  uint32_t n_own;       /* inputs of its graph before the captured ones; the generator's state is
                           among them */
  uint32_t state_at;    /* the result that is the generator's state at its end; unused with a
                           block */
  GmEffectState *effects;
  GArray *slots; /* GmHigherSlot: slots of existing objects that the body has changed */
} GmHigherBody;

typedef struct {
  uint32_t object, key;
  const GmTracker *before, *now;
} GmHigherSlot;

/* Breaks the recording, with the reason why the call cannot be captured.  Returns poison. */
const GmTracker *gm_higher_refuse (const GmHigherTrace *c, const char *format, ...)
    G_GNUC_PRINTF (2, 3);

/* Stores in b the changes that the body has made outside of itself, just after it ran
 * (higher_changes.c).  False, with a break: it changed something that it must not. */
bool gm_higher_look_at_changes (const GmHigherTrace *c, GmHigherBody *b);
/* True if both bodies made the same changes; else false, with a break that names the difference. */
bool gm_higher_same_changes (const GmHigherTrace *c, const GmHigherBody *a, const GmHigherBody *b);

/* Moves the nodes from first_node on into b->graph, with these results (higher_take.c).
 * stand_ins: the values that become the graph's own inputs, the generator's state among them.
 * False after a break. */
bool gm_higher_take_out (GmHigherTrace *c, GmHigherBody *b, const GmValueId *stand_ins,
                         uint32_t first_node, const GmValueId *results, uint32_t n_results);
/* Adds to a body's graph, after its own inputs, inputs for the values that the bodies of the
 * call read, as far as known yet. */
void gm_higher_add_inputs (const GmHigherTrace *c, GmHigherBody *b);

#endif
